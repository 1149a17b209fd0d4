"""Write a block of one's own: gates that keep the variance. Check its gradients, then train it beside highway blocks.

A highway block computes y = H·T + x·(1 − T). If H and x are independent and of variance 1, then y has a smaller one:
T² + (1 − T)². This block computes y = H·√T + x·√(1 − T), whose variance is T + (1 − T) = 1.
"""

# %% The block: forward above backward. z holds the affine maps of x and becomes H and T, in place.

import matplotlib.pyplot as plt
import numpy as np

from highway_lab.datasets import load_dataset
from highway_lab.gradients import check_gradients
from highway_networks import BLOCKS, Block, Config, sigmoid_forward, train


def root_forward(x, z, y, activation):
    H, T = z
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid_forward(T)  # T = σ(W_T x + b_T)
    y[...] = H * np.sqrt(T) + x * np.sqrt(1 - T)


def root_backward(dy, x, z, dz, dx, activation, scratch):
    (H, T), (dH, dT) = z, dz
    a, b = np.sqrt(T), np.sqrt(1 - T)
    dH[...] = a * dy
    dx[...] = b * dy
    dT[...] = a * b / 2 * (b * H - a * x) * dy  # dy/dT = H/2a − x/2b, times a²b², the derivative of σ
    activation.backward(dH, H, scratch)  # dH becomes the gradient with respect to H's affine map


BLOCKS["highway-root"] = Block("HT", root_forward, root_backward)

# %% Check gradients. f(p + ihv) = f(p) + ih·(v · gradient), nearly; with h = 1e-30 the rest is far below rounding. Each
# line is a gradient and its error, in the order in which the backward pass finds them: the first that is wrong is ours.
assert not check_gradients("highway-root"), "the backward pass does not belong to the forward pass"

# %% Train both kinds of blocks with the same settings, from several seeds.
SEEDS, EPOCHS = 3, 10
data, kinds = load_dataset("digits"), {"highway": "tab:blue", "highway-root": "tab:orange"}
settings = {"depth": 30, "epochs": EPOCHS, "n_train": 1000, "n_validation": 400, "n_test": 360}
runs = {kind: [train(Config(block=kind, **settings, seed=seed), data) for seed in range(SEEDS)] for kind in kinds}
for kind in kinds:
    found = ", ".join(f"{run.history.validation_score[-1]:.1%}" for run in runs[kind])
    print(f"{kind}: validation accuracy {found}; mean T {np.mean([run.gate_means[-1] for run in runs[kind]]):.3f}")

# %% Draw the training loss by epoch, a line a seed. At the same b_T, √T is larger than T: so our blocks start more
# open, and this may be why they learn faster. To find out, try highway nets from other gate biases.
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for kind, color in kinds.items():
    for seed, run in enumerate(runs[kind]):
        axes.plot(run.history.epoch, run.history.train_loss, color=color, label=None if seed else kind)
axes.set(xlabel="epoch", ylabel="training loss (nats)", ylim=(0, None), xlim=(0, EPOCHS))
axes.set_title(f"Nets of {settings['depth']} blocks on the digits, {SEEDS} seeds", loc="left")
axes.legend(frameon=False)
figure.savefig("own_block.png", dpi=100)
