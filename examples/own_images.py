"""Train a convolutional highway net on a folder of images, one subfolder a class, and look at its gates.

This program draws its own images. For yours, set FOLDER, or pass arrays (n, rows, columns) to `fit`.
"""

# %% Write images of three shapes, of random place, size and grey, on noise: circle/0.png, circle/1.png, ...
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw

from conv_highway_networks import Blocks, Convolution, MaxPool
from highway_image_estimator import HighwayImageClassifier
from highway_lab.datasets import load_folder

IMAGES, EPOCHS = 100, 20
place = tempfile.TemporaryDirectory()
FOLDER = Path(place.name)
rng = np.random.default_rng(0)
for shape, corners in {"circle": None, "square": 4, "triangle": 3}.items():
    (FOLDER / shape).mkdir()
    for i in range(IMAGES):
        image = Image.fromarray(rng.integers(0, 80, (40, 40), np.uint8))
        (column, row), size, grey = rng.uniform(14, 26, 2), rng.uniform(6, 12), int(rng.integers(120, 256))
        if corners is None:
            ImageDraw.Draw(image).ellipse((column - size, row - size, column + size, row + size), fill=grey)
        else:
            ImageDraw.Draw(image).regular_polygon((column, row, size), corners, int(rng.integers(-15, 16)), fill=grey)
        image.save(FOLDER / shape / f"{i}.png")

# %% Read the folder, every image as 20 x 20 pixels. A fifth of each class is for testing.
data = load_folder(FOLDER, size=20)
place.cleanup()
print(f"{len(data.train_x)} training and {len(data.test_x)} test images of {', '.join(data.classes)}")

# %% Train. The stages are the net: two blocks, halve the image, two blocks.
stages = [Convolution(8), Blocks(2), MaxPool(2, 2), Blocks(2)]
net = HighwayImageClassifier(stages=stages, max_iter=EPOCHS, random_state=0).fit(data.train_x, data.train_y)
score, closed = net.score(data.test_x, data.test_y), net.lesion_scores(data.test_x, data.test_y)
print(f"test accuracy {score:.1%}; with each block closed in turn: {', '.join(f'{share:.1%}' for share in closed)}")
print(f"mean T of each block: {', '.join(f'{mean:.3f}' for mean in net.gate_means(data.test_x))}")

# %% Draw an image of each class, and the gates of each block at each pixel (mean over the block's maps). Read it so:
# bright pixels are those that a block computes anew, dark ones it mostly copies. The first block works on the shape and
# leaves the noise around it. The second works at the shape's edge, the last two, on half as many rows, on parts of it.
chosen = data.test_x[[np.flatnonzero(data.test_y == label)[0] for label in range(data.outputs)]]
gates = [T.mean(axis=1) for T in net.transform_gates(chosen)]
figure, axes = plt.subplots(len(chosen), 1 + len(gates), figsize=(7, 3.8), layout="constrained")
for row, name in enumerate(data.classes):
    axes[row, 0].imshow(chosen[row, 0], cmap="gray")
    axes[row, 0].set_ylabel(name)
    for block, T in enumerate(gates, start=1):
        cells = axes[row, block].imshow(T[row], vmin=min(map(np.min, gates)), vmax=max(map(np.max, gates)))
        axes[0, block].set_title(f"block {block}", fontsize="medium")
for panel in axes.flat:
    panel.set(xticks=[], yticks=[])
figure.colorbar(cells, ax=axes, label="T")
figure.savefig("own_images.png", dpi=100)
