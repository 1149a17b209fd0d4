"""Look into a trained net of 49 blocks: its gates by block and class, and what each block is good for.

Needs MNIST: it is downloaded if it is not there. The net, in models/, was trained on MNIST's training images.
"""

# %% The net, and 1,000 test images. `preprocess` turns pixels, 0 to 255, into the numbers that the net expects.
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import highway_networks
from highway_lab.datasets import load_dataset
from highway_lab.nets import without
from highway_networks import DeepNet, accuracy

IMAGES = 1000
net = DeepNet.load(Path(highway_networks.__file__).parent / "models" / "highway-50.npz")
data = load_dataset("mnist")
x, y = net.preprocess(data.test_x[:IMAGES]), data.test_y[:IMAGES]
print(f"{net.depth} {net.config['block']} blocks of {net.hidden} units, b_T {net.config['gate_bias']:.2f} at first")

# %% Gates: T (D, B) of each block in turn. A column is an image; we take the mean over units and images of a class.
gates = np.array([[T[:, y == digit].mean() for digit in range(10)] for (H, T), _ in net.iterate_blocks(net.embed(x))])
most_open = gates.mean(axis=1).argmax()
print(f"mean T: {gates.mean():.3f}; of the most open block, {most_open + 1}: {gates[most_open].mean():.3f}")

# %% Close each block: it then copies its input. `without` counts blocks from 0; we count them from 1.
error = 1 - accuracy(net.predict(x), y)
closed = np.array([1 - accuracy(without(net, [l]).predict(x), y) for l in range(net.depth)])
print(f"error {error:.1%}; without one block {np.median(closed):.1%} in the median")
print(f"without block {closed.argmax() + 1}, the most important: {closed.max():.1%}")
for first in range(0, net.depth, 10):
    ten = range(first, min(first + 10, net.depth))
    print(f"without blocks {first + 1} to {ten[-1] + 1}: {1 - accuracy(without(net, ten).predict(x), y):.1%}")
print(f"without all blocks: {1 - accuracy(without(net, range(net.depth)).predict(x), y):.1%}")

# %% Draw all three against the block. Read it so: at the top, all gates are nearly closed, and the first are open most.
# In the middle, red is where a class opens a block further than others do. At the bottom, the error rises when one of
# the first blocks is closed; most others are not missed: 0.1 points are one image.
figure, (top, middle, bottom) = plt.subplots(3, figsize=(7, 6), layout="constrained", sharex=True)
blocks = np.arange(1, net.depth + 1)
top.bar(blocks, gates.mean(axis=1), color="tab:blue")
top.set(ylim=(0, 1))
top.set_title("Mean gate T: 0 is closed, 1 is open", loc="left")
difference = (gates - gates.mean(axis=1, keepdims=True)).T
limit, extent = abs(difference).max(), (0.5, net.depth + 0.5, 9.5, -0.5)
cells = middle.imshow(difference, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", extent=extent)
middle.set_title("Mean gate of each class, minus the mean of all", loc="left")
middle.set(ylabel="digit", yticks=range(10))
figure.colorbar(cells, ax=middle, label="difference in T")
bottom.bar(blocks, 100 * (closed - error), color="tab:orange")
bottom.axhline(0, color="black", linewidth=0.8)
bottom.set_title(f"Rise of the test error without this block (points; whole net: {error:.1%})", loc="left")
bottom.set(xlabel="block", xticks=[1, *range(10, net.depth + 1, 10)])
figure.savefig("look_into_a_net.png", dpi=100)
