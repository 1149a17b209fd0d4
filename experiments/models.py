"""The net that an experiment looks into: a file, the depth search's best, or one trained here."""

import argparse
import dataclasses
import hashlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from highway_networks import CLASSES, Config, Dataset, DeepNet, Training, evaluate, scale, training_conditions
from run_log import InputError, check_writable, number

from . import command_line, depth_search
from .command_line import add_run_flags, default_log

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
SMOKE = dataclasses.replace(FALLBACK, depth=6, hidden=20)
SHOWN = 0.995  # share of the differences that a colour scale covers: a few outliers would hide all others
ROWS = 512  # images that are looked at together: their layers stay in the processor's cache


@dataclass(frozen=True)
class Source:
    """Where a net comes from: a file that was there, or the training whose result is kept in that file."""

    file: str
    sha256: str | None  # of a file that was there
    training: Config | None  # of a net that was not

    @property
    def label(self) -> str:
        """What a table or a legend calls the net."""
        if self.training:
            return f"seed {self.training.seed}"
        return "best of the search" if Path(self.file) == depth_search.MODEL else Path(self.file).stem

    @property
    def own_name(self) -> list[str]:
        """The name of a net that is the user's, in a list; empty for the nets that the project itself looks into."""
        return [] if self.training or Path(self.file) == depth_search.MODEL else [Path(self.file).stem]


@dataclass
class Model:
    """The net that was looked into, and how well it does; `net` is DeepNet.config, losses are in nats."""

    source: Source
    net: dict[str, int | float | str]
    train_loss: float
    train_acc: float
    test_acc: float


# --------------------------------------------------------------------------------------- which net


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """What the `run` of an experiment takes that looks into a net."""
    add_run_flags(parser)
    parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {depth_search.MODEL}, else train one")


def choose(arguments: argparse.Namespace, dataset: str, data: Dataset) -> Source:
    """The net of --model, else that of the depth search, which knows MNIST, else one to be trained.

    Raises InputError if the file holds no highway net for these images.
    """
    found = found_net(dataset, arguments.smoke)
    if arguments.model or found:
        return of_file(arguments.model or found, data)
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
    n_train, n_test = len(data.train_images), len(data.test_images)
    best = None if smoke else best_trial(default_log(depth_search.NAME, dataset, smoke=False))
    if best:
        return dataclasses.replace(best, index=seed, n_train=n_train, epochs=epochs).config(n_test)
    config = SMOKE if smoke else FALLBACK
    return dataclasses.replace(config, seed=seed, n_train=n_train, n_test=n_test, epochs=epochs)


def best_trial(log: Path) -> depth_search.Trial | None:
    """The setting of the 50-layer highway net that a depth search ended with; None before that."""
    runs = depth_search.read_log(log).best if log.exists() else []
    best = depth_search.best_of_arm(runs).get(depth_search.ANALYSED)
    return best and best.trial


# ---------------------------------------------------------------------------------------- the net


def obtain(source: Source, data: Dataset) -> DeepNet:
    """Load the net, or train it and keep it; raises InputError if it cannot be used."""
    if source.training is None:
        return load(Path(source.file), data)
    net = train(source.training, data)
    path = Path(source.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    net.save(path)
    return net


def load(path: Path, data: Dataset) -> DeepNet:
    """Read a highway net whose input and output fit the data set; raises InputError for any other."""
    net = DeepNet.load(path)
    pixels = data.train_images.shape[1]

    def reject(expected: str, found: object, remedy: str) -> InputError:
        return InputError(f"{path}: expected {expected}, found {found}; {remedy}")

    if net.config["block"] != "highway" or net.depth == 0:
        found = f"{net.depth} {net.config['block']} blocks"
        raise reject("a net with coupled gates (highway blocks)", found, "train one with --block highway")
    if (net.config["d_in"], net.config["d_out"]) != (pixels, CLASSES):
        found = f"{net.config['d_in']} and {net.config['d_out']}"
        raise reject(f"{pixels} inputs and {CLASSES} outputs", found, "give its own --dataset")
    if not np.isfinite(net.params.flat).all():
        raise reject("finite parameters", "some that are not", "train it again at a lower rate")
    return net


def train(config: Config, data: Dataset) -> DeepNet:
    """Train a net; raises InputError if its loss does not stay finite."""
    training = Training(config, data)
    with training_conditions(config):
        for _ in progress(range(config.epochs), "training"):
            loss, _ = training.run_epoch()
            if not math.isfinite(loss):
                raise InputError(
                    f"--model: expected a net to look into, found none, and training one (lr {config.lr}) diverged; "
                    "give one saved by highway_networks.py --save-model"
                )
    return training.net


def describe(source: Source, net: DeepNet, data: Dataset) -> Model:
    """What a log says of the net."""
    train_loss, train_acc = evaluate(net, data.train_images, data.train_labels)
    _, test_acc = evaluate(net, data.test_images, data.test_labels)
    return Model(source, net.config, number(train_loss), number(train_acc), number(test_acc))


# --------------------------------------------------------------------------------- looking into it


def in_batches(net: DeepNet, images: np.ndarray, label: str) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a slice of the images (n, d_in), uint8, and the inputs (B, D) that it gives to the first block."""
    for start in progress(range(0, len(images), ROWS), label):
        part = slice(start, start + ROWS)
        yield part, net.enter(scale(images[part], net.dtype))


def progress(items: range, label: str) -> Iterator[int]:
    """The items, with a progress bar on a terminal."""
    from tqdm import tqdm

    return tqdm(items, desc=label, leave=False, disable=not sys.stderr.isatty())


# -------------------------------------------------------------------------------- logs and pictures


def prepare_log(name: str, dataset: str, smoke: bool, source: Source) -> Path:
    """`default_log`, with the name of a net that is the user's own: its log replaces no committed one.

    Makes its folder; raises InputError if it could not be written.
    """
    path = default_log(name, dataset, smoke)
    path = path.with_stem("-".join([path.stem, *source.own_name]))
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path)
    return path


def figure_path(name: str, dataset: str, source: Source) -> Path:
    """Where a picture goes: a net of the user's own has a folder of its own."""
    return command_line.figure_path(str(Path(*source.own_name, name)), dataset)


def name_data(dataset: str) -> str:
    """A data set's name as titles have it."""
    return dataset.replace("mnist", "MNIST")


def summary(model: Model) -> str:
    """Which net was looked into, and how well it does."""
    training, net = model.source.training, model.net
    origin = f"trained here for {training.epochs} epochs" if training else model.source.file
    return (
        f"{net['depth']} layers of {net['hidden']}, {net['activation']}, b_T {net['gate_bias']:g} ({origin}): "
        f"training loss {model.train_loss:.4g}, accuracy {model.train_acc:.4f}, on test images {model.test_acc:.4f}"
    )
