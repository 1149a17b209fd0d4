"""Where in an image do the gates of a convolutional net open?

The paper's figure 2 shows the gates of a fully connected net, whose units have no place. In a convolutional one each
pixel has its gates, so that T, averaged over the maps of a block, is an image. Here those of a net of table 1, trained
and untrained: maps for ten digits, of each class the first test image, and, over the first 1,000 test images, the mean
of T where there is a stroke and where there is none.

A pixel of a block belongs to a stroke if the mean of the pixels that lie beneath it (the image less the frame that the
first convolution takes off, shrunk to the block's size) is above one half of the brightest.
"""

import argparse
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conv_highway_networks import ConvNet, ConvTraining, average_pool_forward
from highway_lab.cli import InputError
from highway_lab.files import make_place
from highway_lab.logs import DatasetInfo, Log, number, numbers
from highway_networks import LOSSES, Dataset, evaluate, train

from ..common import Experiment, add_run_flags, load_data, start
from ..conv_runs import FEW_EPOCHS, checkpoint_path, config_of
from ..conv_tables import MODEL

BUDGET = {"epochs": 3, "n_train": 20_000, "n_test": 10_000}  # of a net that is trained here
IMAGES = 1000
ROWS = 100  # images that are looked at together
STROKE = 0.5
DIGITS = 3  # significant ones, in the maps


@dataclass
class Gates:
    """maps: T of each image drawn and each block, (h, w), mean over maps; for each block its mean over pixels."""

    maps: list[list[list[list[float]]]]
    strokes: list[float | None]  # null where no pixel is of a stroke
    background: list[float | None]


@dataclass
class ConvGatesLog(Log):
    """runs/conv_gates.json; `net` is ConvNet.config, `pixels` (H, W) of the images drawn, of the classes in order."""

    dataset: DatasetInfo
    file: str
    sha256: str
    net: dict[str, Any]
    test_score: float
    images: int
    stroke: float
    pixels: list[list[list[int]]]
    trained: Gates
    untrained: Gates


EXPERIMENT = Experiment(__name__, __doc__, ConvGatesLog)


def gates(net: ConvNet, images: np.ndarray) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Images (b, 1, H, W), uint8, some at a time, and for each block T (b, h, w), the mean over its maps."""
    for first in range(0, len(images), ROWS):
        part = images[first : first + ROWS]
        _, workspace = net.forward(net.inputs(part))
        yield part, [T.mean(axis=0) for T in workspace.T]


def beneath(images: np.ndarray, frame: int, side: int) -> np.ndarray:
    """Mean pixel, 0 to 1, that lies beneath each of side x side pixels: (b, side, side) of images (b, 1, H, W), uint8.

    `frame`: pixels at each edge that the net's first convolution takes off.
    """
    inner = images[:, 0, frame : images.shape[2] - frame, frame : images.shape[3] - frame] / 255
    means = np.empty((1, len(images), side, side))
    average_pool_forward(inner[None], means, -(-inner.shape[1] // side))
    return means[0]


def measure(net: ConvNet, drawn: np.ndarray, images: np.ndarray) -> Gates:
    """The maps of the images that are drawn; means on strokes and on background over all images."""
    ((_, maps),) = gates(net, drawn)
    sums, counts = np.zeros((2, 2, len(maps)))
    for part, T in gates(net, images):
        frame = (part.shape[2] - T[0].shape[1]) // 2
        for block, values in enumerate(T):
            on = beneath(part, frame, values.shape[1]) > STROKE
            for place, mask in enumerate((on, ~on)):
                sums[place, block] += values[mask].sum(dtype=np.float64)
                counts[place, block] += np.count_nonzero(mask)
    with np.errstate(invalid="ignore"):
        strokes, background = numbers(sums / counts, digits=4)
    of_images = [[numbers(T[index], DIGITS) for T in maps] for index in range(len(drawn))]
    return Gates(of_images, strokes, background)


def first_of_each_class(data: Dataset) -> list[int]:
    """Indices of test images."""
    return [int(np.argmax(data.test_y == label)) for label in range(data.outputs)]


def load(path: Path, data: Dataset) -> ConvNet:
    """Read a net with gates for these images; raises InputError for any other."""
    net = ConvNet.load(path)
    shape, wanted = tuple(net.config["shape"]), data.train_x.shape[1:]
    if "T" not in net.block.branches or not net.depth:
        found = f"{net.depth} {net.config['block']} blocks"
        raise InputError(f"{path}: expected a net with gates, found {found}; train one with --block highway")
    if shape != wanted:
        raise InputError(f"{path}: expected a net for images {wanted}, found one for {shape}; give its own --dataset")
    return net


def train_short(dataset: str, data: Dataset, smoke: bool) -> Path:
    """Train a net where none is at hand; returns its file."""
    config = config_of(data, "digits" if smoke else "mnist-16", smoke, BUDGET, **FEW_EPOCHS)
    path = Path("runs") / "checkpoints" / f"{EXPERIMENT.name}-{dataset}.npz"
    make_place(path)
    kept = checkpoint_path(f"{EXPERIMENT.name}-{dataset}", config)
    train(config, data, training=ConvTraining, keep=kept, save_model=path)
    return path


def run(arguments: argparse.Namespace) -> None:
    """Look into the net, trained and untrained, and write the log."""
    dataset, data = load_data(arguments)
    if data.train_x.shape[1] > 1:
        raise InputError(f"--dataset: expected grey images of strokes, found {dataset}; choose mnist")
    path = EXPERIMENT.log_path(dataset, arguments.smoke)
    at_hand = MODEL if dataset == "mnist" and MODEL.exists() else None
    if arguments.model and arguments.model != MODEL:
        path = path.with_stem(f"{path.stem}-{arguments.model.stem}")
    make_place(path)
    file = arguments.model or at_hand or train_short(dataset, data, arguments.smoke)
    net = load(file, data)
    untrained = ConvNet(**net.config, rng=np.random.default_rng(0))
    drawn, images = data.test_x[first_of_each_class(data)], data.test_x[:IMAGES]
    _, score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"], net.inputs)
    EXPERIMENT.keep(
        path,
        arguments.command_line,
        DatasetInfo(dataset, len(data.train_x), len(data.test_x), data.test_set),
        file=str(file),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        net=net.config,
        test_score=number(score),
        images=len(images),
        stroke=STROKE,
        pixels=drawn[:, 0].tolist(),
        trained=measure(net, drawn, images),
        untrained=measure(untrained, drawn, images),
    )


parser = EXPERIMENT.add("run", run, "look into a net")
add_run_flags(parser)
parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {MODEL}, else train one")

if __name__ == "__main__":
    start(__spec__.name)
