"""Maps of the gates of a convolutional net: where in an image do they open?

Each pixel has its gates, so T, averaged over the maps of a block, is an image. A net of table 1, trained and untrained,
is shown on the first test image of each digit. Over the first 1,000 test images, T is averaged on strokes and on
background.

A pixel of a block is on a stroke if the image is brighter there than half of the brightest: the image without the frame
that the first convolution takes off, averaged down to the block's size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conv_highway_networks import ConvNet, average_pool_forward
from highway_lab.fields import Count, Pixel, Share, lists_of
from highway_lab.files import make_place, remove
from highway_lab.logs import DatasetInfo, Log, numbers
from highway_lab.nets import load_net, save_net
from highway_lab.training import train_resumably
from highway_networks import LOSSES, Dataset, InputError, evaluate, rounded

from ..common import Experiment, ExperimentJob, sha256_of
from ..conv_runs import FEW_EPOCHS, checkpoint_path, config_of
from ..conv_tables import MODEL

BUDGET = {"epochs": 3, "n_train": 20_000, "n_test": 10_000}  # of a net that is trained here
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


@dataclass
class ConvGatesLog(Log):
    """The log runs/conv_gates.json; `net` is ConvNet.config, `pixels` (10, H, W) the images drawn, by class."""

    dataset: DatasetInfo
    file: str
    sha256: str
    net: dict[str, Any]
    test_score: Share
    images: Count
    stroke: float
    pixels: lists_of(Pixel, "images", "H", "W")
    trained: Gates
    untrained: Gates


EXPERIMENT = Experiment(__name__, __doc__, ConvGatesLog, nets={"mnist": MODEL})


def iterate_gates(net: ConvNet, images: np.ndarray) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield some of the images (b, 1, H, W), uint8, and of each block T (b, h, w), the mean over its maps."""
    for first in range(0, len(images), BATCH):
        batch = images[first : first + BATCH]
        _, workspace = net.forward(net.preprocess(batch))
        yield batch, [T.mean(axis=0).transpose(2, 0, 1) for T in workspace.T]


def average_down(images: np.ndarray, frame: int, side: int) -> np.ndarray:
    """Return images (b, 1, H, W), uint8, without their frame, averaged down to (b, side, side), from 0 to 1."""
    inner = images[:, 0, frame : images.shape[2] - frame, frame : images.shape[3] - frame] / 255
    means = np.empty((len(images), side, side, 1))
    average_pool_forward(inner[..., None], means, -(-inner.shape[1] // side))
    return means[..., 0]


def measure(net: ConvNet, drawn: np.ndarray, images: np.ndarray) -> Gates:
    """Measure the maps of the images that are drawn, and the means on strokes and on background over all images."""
    ((_, maps),) = iterate_gates(net, drawn)
    sums, counts = np.zeros((2, 2, len(maps)))
    for batch, T in iterate_gates(net, images):
        frame = (batch.shape[2] - T[0].shape[1]) // 2
        for block, values in enumerate(T):
            on = average_down(batch, frame, values.shape[1]) > STROKE
            for place, mask in enumerate((on, ~on)):
                sums[place, block] += values[mask].sum(dtype=np.float64)
                counts[place, block] += np.count_nonzero(mask)
    with np.errstate(invalid="ignore"):
        strokes, background = numbers(sums / counts, digits=4)
    by_image = [[numbers(T[index], DIGITS) for T in maps] for index in range(len(drawn))]
    return Gates(by_image, strokes, background)


def first_of_each_class(data: Dataset) -> list[int]:
    """Return the indices of the first test image of each class; raises InputError for a class that has none."""
    if missing := data.outputs - len(np.unique(data.test_y)):
        raise InputError(f"--dataset: expected test images of each class, found {missing} classes without; add some")
    return [int(np.argmax(data.test_y == label)) for label in range(data.outputs)]


def load(path: Path, data: Dataset) -> ConvNet:
    """Read a net with gates for these images; raises InputError for any other."""
    net = load_net(path, ConvNet)
    shape, d_out, wanted = tuple(net.config["shape"]), net.config["d_out"], data.train_x.shape[1:]
    if "T" not in net.block.branches or not net.depth:
        found = f"{net.depth} {net.config['block']} blocks"
        raise InputError(f"{path}: expected a net with gates, found {found}; train one with --block highway")
    if (shape, d_out) != (wanted, data.outputs):
        found = f"images {wanted} of {data.outputs} classes, found one for {shape} of {d_out}"
        raise InputError(f"{path}: expected a net for {found}; give its own --dataset, and --size, without --smoke")
    return net


def train_short(job: ExperimentJob) -> Path:
    """Train a net where none is at hand; returns its file."""
    config = config_of(job.data, "digits" if job.smoke else "mnist-16", job.smoke, BUDGET, **FEW_EPOCHS)
    name = f"{EXPERIMENT.name}-{job.dataset}"
    path = Path("runs") / "checkpoints" / f"{name}.npz"
    make_place(job.path)
    make_place(path)
    kept = checkpoint_path(name, config)
    if job.arguments.fresh:
        remove(kept)
    save_net(path, train_resumably(config, job.data, keep=kept, any_code=job.arguments.any_code).net)
    return path


def run(job: ExperimentJob) -> None:
    data = job.data
    if data.train_x.shape[1] > 1:
        raise InputError(f"--dataset: expected grey images of strokes, found {job.dataset}; choose mnist")
    model = job.saved_net() or train_short(job)
    net, job = load(model, data), job.named_after(job.arguments.model)
    untrained = ConvNet(**net.config, rng=np.random.default_rng(0))
    drawn, images = data.test_x[first_of_each_class(data)], data.test_x[:IMAGES]
    _, score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])
    job.keep(
        file=str(model),
        sha256=sha256_of(model),
        net=net.config,
        test_score=rounded(score),
        images=len(images),
        stroke=STROKE,
        pixels=drawn[:, 0].tolist(),
        trained=measure(net, drawn, images),
        untrained=measure(untrained, drawn, images),
    )


parser = EXPERIMENT.add_run(run, "look into a net", folders=True)
parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {MODEL}, else train one")
