"""A kind of net of one's own beside those of a study, which tunes and trains it by its own rules.

    python -m experiments small_nets run --with examples/my_arm.py     # two minutes
    python -m experiments small_nets plot --with examples/my_arm.py    # its row beside the committed ones

Here a block halves the sum of its branch and its input: y = (x + H)/√2, whose variance is 1 if theirs are. Most studies
take the file; `python -m experiments` lists them all. A study that tunes tries every pair of values of the grid.
"""

import numpy as np

from experiments.study import Arm
from highway_networks import BLOCKS, Block


def halved_forward(x, z, y, activation):
    (H,) = z
    activation.forward(H)  # H = act(W_H x + b_H)
    y[...] = (x + H) / np.sqrt(2)


def halved_backward(dy, x, z, dz, dx, activation, scratch):
    (H,), (dH,) = z, dz
    dH[...] = dx[...] = dy / np.sqrt(2)
    activation.backward(dH, H, scratch)


BLOCKS["residual-halved"] = Block("H", halved_forward, halved_backward)
ARMS = {"residual, halved": Arm({"block": "residual-halved", "init": "glorot"}, {"lr": (0.0005, 0.001)})}
