"""The net that an experiment looks into: a file, the depth search's best, or one trained here.

What the paper's figures 2 to 4 count as layers 1, 2, ... are the net's blocks; what they call blocks are its units.
"""

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from command_line import InputError
from highway_networks import LOSSES, Config, Dataset, DeepNet, Training, as_inputs, evaluate
from run_log import check_writable, number

from . import depth_search
from .common import Experiment, add_run_flags

EPOCHS = 10  # of a net that is trained here
FALLBACK = Config(
    depth=49,  # with the plain layer before them the paper's 50
    init="glorot",
    gate_bias=-4.0,  # from the paper's -2, this rate takes more than an epoch to get going
    optimizer="momentum",
    lr=0.05,
    momentum=0.9,
    clip=0.0,
)
SMOKE = replace(FALLBACK, depth=6, hidden=20)
ROWS = 512  # images that are looked at together: what the blocks make of them stays in the processor's cache


@dataclass(frozen=True)
class Source:
    """Where a net comes from: a file that was there, or the training whose result is kept in that file."""

    file: str
    sha256: str | None  # of a file that was there
    training: Config | None  # of a net that was not

    @property
    def own(self) -> bool:
        """Whether the net is the user's, and not one that the project itself looks into."""
        return self.training is None and Path(self.file) != depth_search.MODEL

    @property
    def label(self) -> str:
        """What a table or a legend calls the net."""
        if self.training:
            return f"seed {self.training.seed}"
        return Path(self.file).stem if self.own else "best of the search"


@dataclass
class Model:
    """The net that was looked into, and how well it does; `net` is DeepNet.config, the loss is in nats."""

    source: Source
    net: dict[str, int | float | str]
    train_loss: float
    train_score: float
    test_score: float


# --------------------------------------------------------------------------------------- which net


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """What the `run` of an experiment takes that looks into a net."""
    add_run_flags(parser)
    parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {depth_search.MODEL}, else train one")


def choose(arguments: argparse.Namespace, dataset: str, data: Dataset) -> Source:
    """The net of --model, else that of the depth search, which knows MNIST, else one to be trained.

    Raises InputError if the file holds no highway net for these images.
    """
    found = arguments.model or found_net(dataset, arguments.smoke)
    if found:
        return of_file(found, data)
    return of_training(setting(dataset, data, smoke=arguments.smoke, epochs=EPOCHS, seed=0), "inside", dataset)


def found_net(dataset: str, smoke: bool) -> Path | None:
    """The best 50-layer net of the depth search, if it is there and its images are MNIST's."""
    return depth_search.MODEL if dataset == "mnist" and not smoke and depth_search.MODEL.exists() else None


def of_file(path: Path, data: Dataset) -> Source:
    """A net that lies in a file; raises InputError unless it is a highway net for these images."""
    load(path, data)
    return Source(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), None)


def of_training(config: Config, name: str, dataset: str) -> Source:
    """A net to be trained, and where it will lie."""
    return Source(str(Path("runs") / "checkpoints" / f"{name}-{dataset}-seed-{config.seed}.npz"), None, config)


def setting(dataset: str, data: Dataset, *, smoke: bool, epochs: int, seed: int) -> Config:
    """How to train a 50-layer net on all images: as the data set's depth search found best, else FALLBACK."""
    n_train, n_test = len(data.train_x), len(data.test_x)
    log = depth_search.EXPERIMENT.log_path(dataset)
    runs = depth_search.EXPERIMENT.read(log).best if log.exists() and not smoke else []
    best = depth_search.best_of_arm(runs).get(depth_search.ANALYSED)
    if best:
        return replace(best.trial, index=seed, n_train=n_train, epochs=epochs).config(n_test)
    return replace(SMOKE if smoke else FALLBACK, seed=seed, n_train=n_train, n_test=n_test, epochs=epochs)


def log_path(experiment: Experiment, dataset: str, smoke: bool, source: Source) -> Path:
    """Where a log goes: one of a net of the user's bears its name, and so replaces no committed log.

    Makes its folder; raises InputError if it could not be written.
    """
    path = experiment.log_path(dataset, smoke)
    if source.own:
        path = path.with_stem(f"{path.stem}-{Path(source.file).stem}")
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path)
    return path


# ---------------------------------------------------------------------------------------- the net


def obtain(source: Source, data: Dataset) -> DeepNet:
    """Load the net, or train it and keep it; raises InputError if it cannot be used."""
    path = Path(source.file)
    if source.training is None:
        return load(path, data)
    net = train(source.training, data)
    path.parent.mkdir(parents=True, exist_ok=True)
    net.save(path)
    return net


def load(path: Path, data: Dataset) -> DeepNet:
    """Read a highway net whose input and output fit the data set; raises InputError for any other."""
    net = DeepNet.load(path)
    d_in, d_out, block = (net.config[name] for name in ("d_in", "d_out", "block"))
    pixels = math.prod(data.train_x.shape[1:])

    def reject(expected: str, found: str, remedy: str) -> InputError:
        return InputError(f"{path}: expected {expected}, found {found}; {remedy}")

    if block != "highway" or net.depth == 0:
        expected = "a net with coupled gates (highway blocks)"
        raise reject(expected, f"{net.depth} {block} blocks", "train one with --block highway")
    if (d_in, d_out) != (pixels, data.outputs):
        raise reject(f"{pixels} inputs and {data.outputs} outputs", f"{d_in} and {d_out}", "give its own --dataset")
    if not np.isfinite(net.params.flat).all():
        raise reject("finite parameters", "some that are not", "train it again at a lower rate")
    return net


def train(config: Config, data: Dataset) -> DeepNet:
    """Train a net; raises InputError if its loss does not stay finite."""
    training = Training(config, data)
    for _ in progress(training.epochs(scored=False), config.epochs, "training"):
        pass
    if training.diverged:
        raise InputError(
            f"--model: expected a net to look into, found none, and training one (lr {config.lr}) diverged; "
            "give one saved by highway_networks.py --save-model"
        )
    return training.net


def describe(source: Source, net: DeepNet, data: Dataset) -> Model:
    """What a log says of the net."""
    loss = LOSSES["cross-entropy"]
    train_loss, train_score = evaluate(net, data.train_x, data.train_y, loss)
    _, test_score = evaluate(net, data.test_x, data.test_y, loss)
    return Model(source, net.config, number(train_loss), number(train_score), number(test_score))


def summary(model: Model) -> str:
    """Which net was looked into, and how well it does."""
    training, net = model.source.training, model.net
    origin = f"trained here for {training.epochs} epochs" if training else model.source.file
    return (
        f"{net['depth']} layers of {net['hidden']}, {net['activation']}, b_T {net['gate_bias']:g} ({origin}): "
        f"training loss {model.train_loss:.4g}, accuracy {model.train_score:.4f}, on test images {model.test_score:.4f}"
    )


# --------------------------------------------------------------------------------- looking into it


def in_batches(net: DeepNet, images: np.ndarray, label: str) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a slice of the images (n, ...), uint8, and the inputs (D, B) that it gives to the first block."""
    starts = range(0, len(images), ROWS)
    for start in progress(starts, len(starts), label):
        part = slice(start, start + ROWS)
        yield part, net.enter(as_inputs(images[part], net.dtype))


def progress(items: Iterable, total: int, label: str) -> Iterable:
    """The items, with a progress bar on a terminal."""
    from tqdm import tqdm

    return tqdm(items, label, total, leave=False, disable=not sys.stderr.isatty())
