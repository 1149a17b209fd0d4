"""The net that an experiment looks into: a file, the depth search's best, or one trained here.

What the paper's figures 2 to 4 count as layers 1, 2, ... are the net's blocks; what they call blocks are its units.
"""

import argparse
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab import checkpoints
from highway_lab.cli import InputError
from highway_lab.files import make_place
from highway_lab.logs import DatasetInfo, environment, number
from highway_networks import LOSSES, Config, Dataset, DeepNet, Training, as_inputs, evaluate

from . import common, depth_search
from .common import Experiment, add_run_flags, load_data

EPOCHS = 10  # of a net that is trained here
LONG = 60  # of those that are compared by their settings
LAST_RATE = 0.2  # of the first, where FALLBACK is trained long
PAPER_BIASES = (-2.0, -4.0)  # of the paper's best nets for MNIST and for CIFAR-100; both are tanh nets
SEEDS = (0, 1, 3)  # from seed 2 RELU diverges
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
RELU = replace(  # the best 50-layer net of a search of four epochs a setting: beside the paper's tanh nets
    FALLBACK,
    activation="relu",
    init="he",
    gate_bias=-4.74714,
    lr=0.00476411,
    lr_decay=0.9999476059148608,
    momentum=0.986845,
)
NETS = {"mnist": depth_search.MODEL, "cifar-10": Path("models") / "highway-50-cifar-10.npz"}  # what is looked into
DATASETS = tuple(NETS)
CHECKPOINTS = Path("runs") / "checkpoints"
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
        return self.training is None and Path(self.file) not in NETS.values()

    @property
    def label(self) -> str:
        """What a table or a legend calls the net."""
        if self.training:
            return f"seed {self.training.seed}"
        if self.own:
            return Path(self.file).stem
        return "best of the search" if Path(self.file) == depth_search.MODEL else "chosen by the grid"


@dataclass
class Model:
    """The net that was looked into, and how well it does; `net` is DeepNet.config, the loss is in nats."""

    source: Source
    net: dict[str, int | float | str]
    train_loss: float
    train_score: float
    test_score: float


# -------------------------------------------------------------------------------------- one experiment


def add_run(experiment: Experiment, action: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
    """Add the `run` of an experiment that looks into nets; returns its parser."""
    parser = experiment.add("run", action, help)
    add_run_flags(parser)
    nets = ", ".join(f"{path} for {dataset}" for dataset, path in NETS.items())
    parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {nets}; else train one")
    return parser


def add_look(experiment: Experiment, measure: Callable[[DeepNet, Dataset, int], dict[str, Any]]) -> None:
    """Add the `run` of an experiment that looks into a single net.

    measure(net, data, jobs) gives the fields of its log, all but `model`.
    """

    def look(arguments: argparse.Namespace) -> None:
        from threadpoolctl import threadpool_limits

        dataset, data = load_data(arguments)
        source = given(arguments, dataset, data)
        source = source or untrained("inside", dataset, data, smoke=arguments.smoke, epochs=EPOCHS, seed=0)
        path = log_path(experiment, dataset, arguments.smoke, source)
        with threadpool_limits(1):
            net = obtain(source, data)
            measured = {"model": describe(source, net, data), **measure(net, data, arguments.jobs)}
        experiment.keep(path, arguments.command_line, whole(dataset, data), **measured)

    add_run(experiment, look, "look into a net")


def whole(dataset: str, data: Dataset) -> DatasetInfo:
    """What a log says of a data set that is used whole."""
    return DatasetInfo(dataset, len(data.train_x), len(data.test_x), data.test_set)


def log_path(experiment: Experiment, dataset: str, smoke: bool, source: Source) -> Path:
    """Where a log goes: one of a net of the user's bears its name, and so replaces no committed log.

    Makes its folder; raises InputError if it could not be written.
    """
    path = experiment.log_path(dataset, smoke)
    if source.own:
        path = path.with_stem(f"{path.stem}-{Path(source.file).stem}")
    make_place(path)
    return path


# ---------------------------------------------------------------------------------------- the net


def given(arguments: argparse.Namespace, dataset: str, data: Dataset) -> Source | None:
    """The net of --model, else the best 50-layer net that was found for these images, if it is there."""
    usual = NETS.get(dataset)
    found = usual and not arguments.smoke and usual.exists()
    path = arguments.model or (usual if found else None)
    return path and of_file(path, data)


def of_file(path: Path, data: Dataset) -> Source:
    """A net that lies in a file; raises InputError unless it is a highway net for these images."""
    load(path, data)
    return Source(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), None)


def untrained(name: str, dataset: str, data: Dataset, *, smoke: bool, epochs: int, seed: int) -> Source:
    """A 50-layer net to be trained on all images by the setting that was found best for the data set, else by FALLBACK.

    `name` begins the name of the file in which it will lie; it is trained for `epochs`, or for fewer that were found.
    """
    n_train, n_test = len(data.train_x), len(data.test_x)
    found = None if smoke else setting(dataset, n_train)
    epochs = min(epochs, found.epochs) if found else epochs
    config = replace(found or (SMOKE if smoke else FALLBACK), seed=seed, n_train=n_train, n_test=n_test, epochs=epochs)
    return Source(str(CHECKPOINTS / f"{name}-{dataset}-seed-{seed}.npz"), None, config)


def by_setting(dataset: str, data: Dataset, smoke: bool) -> dict[str, list[Source]]:
    """50-layer nets trained long, a seed each: RELU and, as in the paper, tanh from each of PAPER_BIASES."""
    epochs, seeds = (2, SEEDS[:2]) if smoke else (LONG, SEEDS)
    budget = {"epochs": epochs, "n_train": len(data.train_x), "n_test": len(data.test_x)}
    budget |= {"depth": SMOKE.depth, "hidden": SMOKE.hidden} if smoke else {}
    lr_decay = LAST_RATE ** (1 / (epochs * math.ceil(budget["n_train"] / FALLBACK.batch_size)))
    papers = [replace(FALLBACK, gate_bias=bias, lr_decay=lr_decay) for bias in PAPER_BIASES]

    def source(config: Config, seed: int) -> Source:
        name = f"{dataset}{'-smoke' * smoke}-{config.activation}{config.gate_bias:.2g}-seed-{seed}.npz"
        return Source(str(CHECKPOINTS / name), None, replace(config, seed=seed, **budget))

    return {name_setting(config): [source(config, seed) for seed in seeds] for config in [RELU, *papers]}


def name_setting(config: Config) -> str:
    """What tells one setting of `by_setting` from another."""
    return f"{config.activation}, b_T {config.gate_bias:.2g}"


def setting(dataset: str, n_train: int) -> Config | None:
    """What the data set's depth search, else its grid of rates, found best for 50 layers; None if neither is there."""
    log = depth_search.EXPERIMENT.log_path(dataset)
    runs = depth_search.EXPERIMENT.read(log).best if log.exists() else []
    best = depth_search.best_of_arm(runs).get(depth_search.ANALYSED)
    if best:
        return replace(best.trial, n_train=n_train).config(n_test=1)
    grid = common.load("cifar_net")  # not imported above, as it imports this module
    log = grid.log_path(dataset)
    return grid.read(log).net.source.training if log.exists() else None


def obtain(source: Source, data: Dataset) -> DeepNet:
    """Load the net, or train it and keep it; raises InputError if it cannot be used, or its loss is not finite.

    What the same training code has trained before, whole or in part, is not trained again.
    """
    path, config = Path(source.file), source.training
    if config is None:
        return load(path, data)
    make_place(path)
    training, kept = Training(config, data), CHECKPOINTS / f"{path.stem}-training-{environment().code}.npz"
    checkpoints.restore(kept, training)
    for _ in progress(training.epochs(scored=False), config.epochs - training.epoch, "training"):
        checkpoints.save(kept, training)
    if training.diverged:
        raise InputError(
            f"{path}: expected a net to look into, found none, and training one (lr {config.lr}) diverged; "
            "give one that highway_networks.py --save-model has saved, by --model where there is this flag"
        )
    training.net.save(path)
    return training.net


def load(path: Path, data: Dataset) -> DeepNet:
    """Read a highway net whose input and output fit the data set; raises InputError for any other."""
    net = DeepNet.load(path)
    d_in, d_out, block = (net.config[name] for name in ("d_in", "d_out", "block"))
    pixels = math.prod(data.train_x.shape[1:])

    if block != "highway" or net.depth == 0:
        raise InputError(
            f"{path}: expected a net with coupled gates (highway blocks), found {net.depth} {block} blocks; "
            "train one with --block highway"
        )
    if (d_in, d_out) != (pixels, data.outputs):
        raise InputError(
            f"{path}: expected {pixels} inputs and {data.outputs} outputs, found {d_in} and {d_out}; "
            "give its own --dataset"
        )
    with np.errstate(all="ignore"):
        if not (np.abs(net.predict(as_inputs(data.train_x[:ROWS], net.dtype))) < 1e15).all():  # nor is NaN
            raise InputError(f"{path}: expected outputs of moderate size, found some beyond 1e15; train it anew")
    return net


def describe(source: Source, net: DeepNet, data: Dataset) -> Model:
    """What a log says of the net."""
    loss = LOSSES["cross-entropy"]
    train_loss, train_score = evaluate(net, data.train_x, data.train_y, loss)
    _, test_score = evaluate(net, data.test_x, data.test_y, loss)
    return Model(source, net.config, number(train_loss), number(train_score), number(test_score))


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
