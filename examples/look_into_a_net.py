"""Look into a trained net of 50 layers: its gates by layer and class, and the error without each layer.

Needs MNIST: it is downloaded if it is not there. The net, in models/, was trained on MNIST's training images.
"""

# %% The net, and 1,000 test images. `preprocess` turns pixels, 0 to 255, into the numbers that the net expects.
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import highway_networks
from highway_lab.datasets import load_dataset
from highway_networks import DeepNet, accuracy

IMAGES = 1000
net = DeepNet.load(Path(highway_networks.__file__).parent / "models" / "highway-50.npz")
data = load_dataset("mnist")
x, y = net.preprocess(data.test_x[:IMAGES]), data.test_y[:IMAGES]
print(f"{net.depth} {net.config['block']} blocks of {net.hidden} units, b_T {net.config['gate_bias']:.2f} at first")

# %% Gates: T (D, B) of each block in turn. A column is an image; we take the mean over units and images of a class.
gates = np.array([[T[:, y == digit].mean() for digit in range(10)] for T, _ in net.iterate_gates(net.embed(x))])
most_open = gates.mean(axis=1).argmax()
print(f"mean T: {gates.mean():.3f}; of the most open layer, {most_open + 1}: {gates[most_open].mean():.3f}")

# %% Close each layer: it then copies its input. `without` counts blocks from 0; we count layers from 1.
error = 1 - accuracy(net.predict(x), y)
closed = np.array([1 - accuracy(net.without([l]).predict(x), y) for l in range(net.depth)])
print(f"error {error:.1%}; without one layer {np.median(closed):.1%} in the median")
print(f"without layer {closed.argmax() + 1}, the most important: {closed.max():.1%}")
for first in range(0, net.depth, 10):
    ten = range(first, min(first + 10, net.depth))
    print(f"without layers {first + 1} to {ten[-1] + 1}: {1 - accuracy(net.without(ten).predict(x), y):.1%}")
print(f"without all layers: {1 - accuracy(net.without(range(net.depth)).predict(x), y):.1%}")

# %% Draw all three against the layer. The middle one shows how classes differ from the mean of all.
figure, (top, middle, bottom) = plt.subplots(3, figsize=(7, 6), layout="constrained", sharex=True)
layers = np.arange(1, net.depth + 1)
top.bar(layers, gates.mean(axis=1), color="tab:blue")
top.set_title("Mean gate T", loc="left")
difference = (gates - gates.mean(axis=1, keepdims=True)).T
limit, extent = abs(difference).max(), (0.5, net.depth + 0.5, 9.5, -0.5)
cells = middle.imshow(difference, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", extent=extent)
middle.set_title("Mean gate of each class, minus the mean of all", loc="left")
middle.set(ylabel="digit", yticks=range(10))
figure.colorbar(cells, ax=middle, label="difference in T")
bottom.bar(layers, closed, color="tab:orange")
bottom.axhline(error, color="black", linestyle=":", label=f"whole net, {error:.1%}")
bottom.set_title("Test error without this layer", loc="left")
bottom.set(xlabel="layer", xticks=[1, *range(10, net.depth + 1, 10)])
bottom.legend(frameon=False)
figure.savefig("look_into_a_net.png", dpi=100)
