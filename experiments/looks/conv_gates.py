"""Maps of the gates of a convolutional net: where in an image do they open?

Each pixel has its gates, so T, averaged over the maps of a block, is an image. A net of table 1, trained and untrained,
is shown on the first test image of each digit. Over the first 1,000 test images, T is averaged on strokes and on
background.

A pixel of a block is on a stroke if the image is brighter there than half of the brightest: the image without the frame
that the first convolution takes off, averaged down to the block's size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from conv_highway_networks import ConvNet, means_of_windows
from conv_recipes import configure
from highway_lab.fields import Count, Pixel, Share, lists_of
from highway_lab.figures import COLORS, FAINT_INK, empty_figure, label_ends, set_title
from highway_lab.files import make_place
from highway_lab.logs import DatasetInfo, Log, rounded_all
from highway_lab.nets import load_net, save_net
from highway_lab.training import train_resumably
from highway_networks import LOSSES, Dataset, InputError, evaluate, rounded

from ..common import SMOKE_BUDGET, Experiment, ExperimentJob, sha256_of

MODEL = Path("models") / "conv-mnist-16.npz"  # of table 1: the first seed of `conv_tables`
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


def gates_of(net: ConvNet, images: np.ndarray) -> list[np.ndarray]:
    """Return of each block T (n, h, w), the mean over its maps, for images (n, 1, H, W), uint8."""
    _, workspace = net.forward(net.preprocess(images))
    return [T.mean(axis=0).transpose(2, 0, 1) for T in workspace.T]


def average_down(images: np.ndarray, frame: int, side: int) -> np.ndarray:
    """Return images (n, 1, H, W), uint8, without their frame, averaged down to (n, side, side), from 0 to 1."""
    inner = images[:, 0, frame : images.shape[2] - frame, frame : images.shape[3] - frame] / 255
    return means_of_windows(inner[..., None], -(-inner.shape[1] // side))[..., 0]


def measure(net: ConvNet, drawn: np.ndarray, images: np.ndarray) -> Gates:
    """Measure the maps of the images that are drawn, and the means on strokes and on background over all images."""
    maps = gates_of(net, drawn)
    sums, counts = np.zeros((2, 2, len(maps)))
    for first in range(0, len(images), BATCH):
        batch = images[first : first + BATCH]
        frame = (batch.shape[2] - maps[0].shape[1]) // 2
        for block, T in enumerate(gates_of(net, batch)):
            on = average_down(batch, frame, T.shape[1]) > STROKE
            sums[:, block] += T[on].sum(dtype=np.float64), T[~on].sum(dtype=np.float64)
            counts[:, block] += on.sum(), (~on).sum()
    with np.errstate(invalid="ignore"):
        strokes, background = rounded_all(sums / counts, digits=4)
    by_image = [[rounded_all(T[index], DIGITS) for T in maps] for index in range(len(drawn))]
    return Gates(by_image, strokes, background)


def first_of_each_class(data: Dataset) -> list[int]:
    """Return the indices of the first test image of each class; raises InputError for a class that has none."""
    if missing := data.outputs - len(np.unique(data.test_y)):
        raise InputError(f"--dataset: expected test images of each class, found {missing} classes without; add some")
    return [int(np.argmax(data.test_y == label)) for label in range(data.outputs)]


def load(path: Path, data: Dataset) -> ConvNet:
    """Read a net with gates for these images; raises InputError for any other."""
    net, shape = load_net(path, ConvNet), data.train_x.shape[1:]
    own = tuple(net.config["shape"]), net.config["d_out"]
    if "T" not in net.block.branches or not net.depth or own != (shape, data.outputs):
        wanted = f"a net with gates for images {shape} of {data.outputs} classes"
        found = f"{net.depth} {net.config['block']} blocks for images {own[0]} of {own[1]} classes"
        raise InputError(f"{path}: expected {wanted}, found {found}; give its own --dataset, or train another")
    return net


def find_net(job: ExperimentJob) -> Path:
    """Return the file of --model, else of the net of table 1; with --smoke of one that is trained in seconds."""
    if path := job.saved_net():
        return path
    if not job.smoke:
        found = f"expected a net that was trained on {job.dataset}, found none"
        raise InputError(f"--model: {found}; train one: python conv_highway_networks.py --save-model NET.npz")
    path = Path("runs") / "checkpoints" / "conv_gates-smoke.npz"
    make_place(path)
    save_net(path, train_resumably(configure("digits", n_validation=0, **SMOKE_BUDGET), job.data).net)
    return path


def run(job: ExperimentJob) -> None:
    data = job.data
    if data.train_x.shape[1] > 1:
        raise InputError(f"--dataset: expected grey images of strokes, found {job.dataset}; choose mnist")
    model = find_net(job)
    net, job = load(model, data), job.named_after(job.arguments.model)
    untrained = ConvNet(**net.config, rng=np.random.default_rng(0))
    drawn, images = data.test_x[first_of_each_class(data)], data.test_x[:IMAGES]
    _, score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])
    job.keep(
        file=model.as_posix(),
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
parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {MODEL}")


# ---------------------------------------------------------------------------------------- what was found


def numbers(log: ConvGatesLog) -> dict:
    """Return what the page quotes; `more` and `before`: T on strokes minus on background, by block from the first."""
    more, before = log.trained.difference, log.untrained.difference
    return {
        "blocks": [*range(1, len(more) + 1)],
        "more": more,
        "before": before,
        "above": [block for block, of in enumerate(more, 1) if of > np.fmax.reduce(before)],
        "accuracy": 100 * log.test_score,
        "images": log.images,
    }


def figure(log: ConvGatesLog) -> Figure:
    """Draw T of each block at each pixel for every other digit, and below by how much it is higher on strokes."""
    figure, nets, width = empty_figure(6.3), {"trained": log.trained, "untrained": log.untrained}, len(log.pixels[0])
    set_title(figure, "In some blocks gates open on strokes")
    upper, lower = figure.subfigures(2, height_ratios=[1.7, 1])
    side, blocks = len(log.trained.maps[0][0]), np.arange(len(log.trained.strokes)) + 1
    frame, largest = (width - side) // 2, max(np.max(T) for of in nets.values() for maps in of.maps for T in maps)
    digits, *panels = upper.subplots(ncols=3, width_ratios=[1, len(blocks), len(blocks)])
    inner = np.array(log.pixels)[::2, frame : width - frame, frame : width - frame]
    digits.imshow(mosaic(inner[:, None], side), cmap="gray_r")
    digits.set_axis_off()
    for axes, (net, gates) in zip(panels, nets.items(), strict=True):
        image = axes.imshow(mosaic(gates.maps[::2], side), vmin=0, vmax=largest)
        axes.set(title=f"{net} net: T by block", yticks=[])
        axes.set_xticks((side + 2) * (blocks - 0.5), blocks)
        axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=0)
        axes.spines[:].set_visible(False)
    bar = {"location": "bottom", "aspect": 60, "label": "T, mean over maps (0: the block copies its input)"}
    upper.colorbar(image, ax=[digits, *panels], **bar)
    axes = lower.subplots()
    for (net, gates), color in zip(nets.items(), (COLORS["highway"], FAINT_INK), strict=True):
        axes.plot(blocks, gates.difference, "o-", label=f"{net} net", color=color)
    axes.set(title=f"mean T on strokes minus on background, {log.images:,} images", xlabel="block", xticks=blocks)
    label_ends(axes)
    return figure


def mosaic(rows: Sequence[Sequence[Any]], side: int) -> np.ndarray:
    """Return square images, by row and column, as one, each enlarged to `side` pixels within a frame of NaN."""
    larger = [[np.kron(of, np.ones(2 * [-(-side // len(of))]))[:side, :side] for of in row] for row in rows]
    return np.block([[np.pad(of, 1, constant_values=np.nan) for of in row] for row in larger])


FIGURES = {"conv_gates.png": figure}
