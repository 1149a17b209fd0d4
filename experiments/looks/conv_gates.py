"""Maps of the gates of a convolutional net: where in an image do they open?

Each pixel has its gates, so T, averaged over the maps of a block, is an image. A net of table 1, trained and untrained,
is shown on the first test image of each digit. Over the first 1,000 test images, T is averaged on strokes and on
background.

A pixel of a block is on a stroke if the image is brighter there than half of the brightest: the image without the frame
that the first convolution takes off, averaged down to the block's size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from conv_highway_networks import ConvNet, means_of_windows
from conv_recipes import configure
from highway_lab.fields import Count, Pixel, lists_of
from highway_lab.figures import COLORS, FAINT_INK, empty_figure, label_ends, set_title
from highway_lab.logs import rounded_all
from highway_networks import Dataset, InputError

from ..common import CONV_NET, FEW_EPOCHS
from ..study import NetCell, Results, Study
from . import models
from .models import Look

IMAGES = 1000
BATCH = 100  # images in one forward pass
STROKE = 0.5  # of the brightest
DIGITS = 3  # significant digits of the maps


@dataclass
class Gates:
    """T of the images drawn, and its means over all images."""

    # By image and block: (h, w), the mean over the block's maps.
    maps: lists_of(list[list[float]], "images", "L")
    strokes: lists_of(float | None, "L")  # by block; null where no pixel is on a stroke
    background: lists_of(float | None, "L")  # by block

    @property
    def difference(self) -> np.ndarray:
        """Mean T on strokes minus that on background, (L,); NaN where there is no such pixel."""
        return np.array(self.strokes, float) - np.array(self.background, float)


@dataclass
class ConvGates(Look):
    """What is seen of a net; `pixels` (10, H, W) the images drawn, by class."""

    images: Count
    pixels: lists_of(Pixel, "images", "H", "W")
    trained: Gates
    untrained: Gates


def gates_of(net: ConvNet, images: np.ndarray) -> list[np.ndarray]:
    """Return of each block T (n, h, w), the mean over its maps, for images (n, 1, H, W), uint8."""
    batches = [net.preprocess(images[first : first + BATCH]) for first in range(0, len(images), BATCH)]
    by_batch = [[T.mean(axis=0).transpose(2, 0, 1) for T in net.forward(x)[1].T] for x in batches]
    return [np.concatenate(of) for of in zip(*by_batch, strict=True)]


def average_down(images: np.ndarray, frame: int, side: int) -> np.ndarray:
    """Return images (n, 1, H, W), uint8, without their frame, averaged down to (n, side, side), from 0 to 1."""
    inner = images[:, 0, frame : images.shape[2] - frame, frame : images.shape[3] - frame] / 255
    return means_of_windows(inner[..., None], -(-inner.shape[1] // side))[..., 0]


def see(net: ConvNet, drawn: np.ndarray, images: np.ndarray) -> Gates:
    """Measure the maps of the images that are drawn, and the means on strokes and on background over all images."""
    means, of_all = [], gates_of(net, images)
    for T in of_all:
        frame = (images.shape[2] - of_all[0].shape[1]) // 2
        on = average_down(images, frame, T.shape[1]) > STROKE
        means.append([np.divide(T[where].sum(dtype=np.float64), where.sum()) for where in (on, ~on)])  # 0/0 is NaN
    by_image = [[rounded_all(T, DIGITS) for T in of] for of in zip(*gates_of(net, drawn), strict=True)]
    return Gates(by_image, *rounded_all(np.transpose(means), digits=4))


def measure(net: ConvNet, data: Dataset, common: Look) -> ConvGates:
    """Measure a net and an untrained one."""
    untrained = ConvNet(**net.config, rng=np.random.default_rng(0))
    _, first = np.unique(data.test_y, return_index=True)  # of each class
    drawn, images = data.test_x[first], data.test_x[:IMAGES]
    return ConvGates(
        **vars(common),
        images=len(images),
        pixels=drawn[:, 0].tolist(),
        trained=see(net, drawn, images),
        untrained=see(untrained, drawn, images),
    )


train = partial(models.look, measure=measure)


def of_net(study: Study, path: Path, data: Dataset) -> Study:
    """Return the same look at a net in a file; raises InputError unless it has gates and suits these grey images."""
    if data.train_x.shape[1] > 1:
        found = f"images of {data.train_x.shape[1]} channels"
        raise InputError(f"--dataset: expected grey images of strokes, found {found}; choose mnist")
    return models.of_net(study, path, data)


CONFIG = configure("mnist-16", **FEW_EPOCHS, n_train=55_000, n_validation=5_000, n_test=10_000, epochs=20)
STUDY = models.look_at(ConvGates, {NetCell(CONV_NET.stem, CONV_NET.as_posix()): CONFIG})


# ---------------------------------------------------------------------------------------- what was found


def numbers(results: Results) -> dict:
    """Return what the page quotes; `more` and `before`: T on strokes minus on background, by block from the first."""
    seen = results.runs[0].measured
    more, before = seen.trained.difference, seen.untrained.difference
    return {
        "blocks": [*range(1, len(more) + 1)],
        "more": more,
        "before": before,
        "above": [block for block, of in enumerate(more, 1) if of > np.fmax.reduce(before)],
        "accuracy": 100 * seen.score,
        "images": seen.images,
    }


def figure(results: Results) -> Figure:
    """Draw T of each block at each pixel for every other digit, and below by how much it is higher on strokes."""
    seen = results.runs[0].measured
    figure, nets, width = empty_figure(6.3), {"trained": seen.trained, "untrained": seen.untrained}, len(seen.pixels[0])
    set_title(figure, "In some blocks gates open on strokes")
    upper, lower = figure.subfigures(2, height_ratios=[1.7, 1])
    side, blocks = len(seen.trained.maps[0][0]), np.arange(len(seen.trained.strokes)) + 1
    frame, largest = (width - side) // 2, max(np.max(T) for of in nets.values() for maps in of.maps for T in maps)
    digits, *panels = upper.subplots(ncols=3, width_ratios=[1, len(blocks), len(blocks)])
    inner = np.array(seen.pixels)[::2, frame : width - frame, frame : width - frame]
    digits.imshow(mosaic(inner[:, None], side), cmap="gray_r")
    digits.set_axis_off()
    axes, colors = lower.subplots(), (COLORS["highway"], FAINT_INK)
    for panel, (net, gates), color in zip(panels, nets.items(), colors, strict=True):
        image = panel.imshow(mosaic(gates.maps[::2], side), vmin=0, vmax=largest)
        panel.set(title=f"{net} net: T by block", yticks=[])
        panel.set_xticks((side + 2) * (blocks - 0.5), blocks)
        panel.tick_params(length=0, labeltop=True, labelbottom=False, pad=0)
        panel.spines[:].set_visible(False)
        axes.plot(blocks, gates.difference, "o-", label=f"{net} net", color=color)
    bar = {"location": "bottom", "aspect": 60, "label": "T, mean over maps (0: the block copies its input)"}
    upper.colorbar(image, ax=[digits, *panels], **bar)
    axes.set(title=f"mean T on strokes minus on background, {seen.images:,} images", xlabel="block", xticks=blocks)
    label_ends(axes)
    return figure


def mosaic(rows: Sequence[Sequence[Any]], side: int) -> np.ndarray:
    """Return square images, by row and column, as one, each enlarged to `side` pixels within a frame of NaN."""
    larger = [[np.kron(of, np.ones(2 * [-(-side // len(of))]))[:side, :side] for of in row] for row in rows]
    return np.block([[np.pad(of, 1, constant_values=np.nan) for of in row] for row in larger])


FIGURES = {"conv_gates.png": figure}
