"""The nets that are looked into: the best of a search, a user's own, or nets trained here.

What the paper's figures 2 to 4 count as layers 1, 2, ... are the net's blocks; what they call blocks are its units.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab import checkpoints
from highway_lab.console import digest_of_config, name_data
from highway_lab.fields import Share
from highway_lab.files import make_place
from highway_lab.logs import digest_of_samples, environment
from highway_lab.nets import load_net
from highway_lab.training import Training
from highway_networks import LOSSES, Config, Dataset, DeepNet, InputError, as_inputs, evaluate, rounded

from ..common import Experiment, ExperimentJob, sha256_of
from ..common_figures import PAPER, name_setting
from ..study import Arm, Cell, Stage, Study
from .measurement import ROWS, progress

EPOCHS = 10  # of a net that is trained to be looked into
LONG = 60  # epochs of nets that are compared by setting
LAST_RATE = 0.2  # as a share of the first, where FALLBACK is trained long
N_TRAIN, N_TEST = 60_000, 10_000  # all images of MNIST
PAPER_BIASES = (-2.0, -4.0)  # of the paper's best tanh nets for MNIST and CIFAR-100
SEEDS = (0, 1, 3)  # RELU diverges from seed 2
FALLBACK = Config(  # cifar_net chose this rate, too
    depth=49,  # with the plain layer before them the paper's 50
    init="glorot",
    gate_bias=-4.0,  # from the paper's -2, this rate needs more than an epoch to begin to learn
    optimizer="momentum",
    lr=0.05,
    momentum=0.9,
    clip=0.0,
)
SMOKE = replace(FALLBACK, depth=6, hidden=20)
RELU = replace(  # the best 50-layer setting of an earlier search of four epochs
    FALLBACK,
    activation="relu",
    init="he",
    gate_bias=-4.74714,
    lr=0.00476411,
    lr_decay=0.9999476059148608,
    momentum=0.986845,
)
BEST = replace(  # that of the depth search, whose net is the first of NETS
    RELU, gate_bias=-5.20063, lr=0.0305493, lr_decay=0.9999152695000469, momentum=0.903248
)
DECAY = LAST_RATE ** (1 / (LONG * math.ceil(N_TRAIN / FALLBACK.batch_size)))
SETTINGS = {  # of nets that are compared, by name
    name_setting(of): of for of in (RELU, *(replace(FALLBACK, gate_bias=bias, lr_decay=DECAY) for bias in PAPER_BIASES))
}
PAPER_LOG = {"paper": "run --paper"}
NETS = {"mnist": Path("models/highway-50.npz"), "cifar-10": Path("models/highway-50-cifar-10.npz")}
CHECKPOINTS = Path("runs/checkpoints")


@dataclass(frozen=True)
class Source:
    """Origin of a net: an existing file, or a training whose net is kept in that file."""

    file: str
    sha256: str | None  # of an existing file
    training: Config | None  # of a net that is trained here


@dataclass
class Model:
    """A net that was looked into and its scores; `net` is DeepNet.config, the loss is in nats."""

    source: Source
    net: dict[str, int | float | str]
    train_loss: float
    train_score: Share
    test_score: Share


def add_run(
    experiment: Experiment, measure: Callable[[ExperimentJob], None], help: str, *, cluster: bool = True
) -> argparse.ArgumentParser:
    """Add the `run` of an experiment that looks into nets; returns its parser."""
    parser = experiment.add_run(measure, help, folders=True, cluster=cluster)
    nets = ", ".join(f"{path} for {dataset}" for dataset, path in NETS.items())
    parser.add_argument("--model", type=Path, metavar="NET.npz", help=f"default: {nets}; else train one")
    return parser


def add_look(experiment: Experiment, measure: Callable[[DeepNet, Dataset, int], dict[str, Any]]) -> None:
    """Add the `run` of an experiment that looks into a single net.

    measure(net, data, jobs) returns the fields of its log but `model`.
    """

    def look(job: ExperimentJob) -> None:
        from threadpoolctl import threadpool_limits

        if job.arguments.paper:
            config = replace(SMOKE, epochs=2) if job.smoke else replace(SETTINGS[PAPER], epochs=LONG)
            source = to_train(f"{job.dataset}-paper", config, SEEDS[0], job.data)
            job = job.for_more("paper")
        else:
            source = find_net(job) or from_training("inside", job, epochs=EPOCHS, seed=0)
            job = job.named_after(job.arguments.model)
        make_place(job.path)
        with threadpool_limits(1):
            net = obtain(source, job.data)
            measured = measure(net, job.data, job.arguments.jobs)
            job.keep(model=describe(source, net, job.data), **measured)

    parser = add_run(experiment, look, "look into a net", cluster=False)
    parser.add_argument(
        "--paper", action="store_true", help="look into one in the paper's setting for MNIST, trained here"
    )


def name_look(log: Any) -> str:
    """Name a log as numbers do: its data set, or "paper" if its net begins as the paper's for MNIST did."""
    net = log.model.net
    return "paper" if (net["activation"], net["gate_bias"]) == ("tanh", PAPER_BIASES[0]) else log.dataset.name


def name_shown(log: Any) -> str:
    """Name a log's data set and its net's setting, for a title."""
    return f"{name_data(log.dataset.name)}, {name_setting(argparse.Namespace(**log.model.net))}"


def find_net(job: ExperimentJob) -> Source | None:
    """Return the net of --model, else that of NETS for the data set if it is there."""
    path = job.saved_net()
    return path and from_file(path, job.data)


def from_file(path: Path, data: Dataset) -> Source:
    """Return the source of a net in a file; raises InputError unless it is a highway net for these images."""
    load(path, data)
    return Source(path.as_posix(), sha256_of(path), None)


def to_train(name: str, config: Config, seed: int, data: Dataset) -> Source:
    """Return the source of a net that is trained on all images; its file begins with `name`."""
    config = replace(config, seed=seed, n_train=len(data.train_x), n_test=len(data.test_x))
    return Source((CHECKPOINTS / f"{name}-seed-{seed}.npz").as_posix(), None, config)


def from_training(name: str, job: ExperimentJob, *, epochs: int, seed: int) -> Source:
    """Return the source of a net that is trained here, of 50 layers unless in a smoke run: BEST for MNIST."""
    config = SMOKE if job.smoke else BEST if job.dataset == "mnist" else FALLBACK
    return to_train(f"{name}-{job.dataset}", replace(config, epochs=epochs), seed, job.data)


def study(
    measured: type,
    settings: Mapping[str, Config] = SETTINGS,
    seeds: Sequence[int] = SEEDS,
    epochs: int = LONG,
    **options: Any,
) -> Study:
    """Return a study that looks into nets of some settings, trained on all images from each seed."""

    def configure(fields: Mapping, cell: Cell, stage: Stage) -> Config:
        sizes = {"n_train": N_TRAIN, "n_test": N_TEST, "epochs": stage.epochs}
        return replace(settings[cell.arm], **sizes, seed=fields["seed"])

    return Study(
        {name: Arm({"block": of.block}, {"lr": (of.lr,)}) for name, of in settings.items()},
        [Cell(name, of.hidden, of.depth) for name, of in settings.items()],
        [Stage(seeds, epochs, result="scored")],
        configure=configure,
        config=Config,
        measured=measured,
        **options,
    )


def trained(config: Config, data: Dataset) -> DeepNet:
    """Return the net of a configuration, which is kept for all experiments that look into it."""
    name = f"{digest_of_samples(data)}-{digest_of_config(config)}.npz"
    return obtain(Source((CHECKPOINTS / name).as_posix(), None, config), data)


def obtain(source: Source, data: Dataset) -> DeepNet:
    """Load the net, or train and save it; raises InputError if it cannot be used, or if training diverges.

    Finished epochs of the same training code are not trained again.
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
    """Read a net with gates whose inputs and outputs fit the data set; raises InputError for any other."""
    net = load_net(path, DeepNet)
    d_in, d_out, block = (net.config[name] for name in ("d_in", "d_out", "block"))
    pixels = math.prod(data.train_x.shape[1:])

    if net.depth == 0 or not net.has_gates:
        found = f"expected blocks with a transform gate T, found {net.depth} {block} blocks"
        raise InputError(f"{path}: {found}; train one with --block highway")
    if (d_in, d_out) != (pixels, data.outputs):
        raise InputError(
            f"{path}: expected {pixels} inputs and {data.outputs} outputs, found {d_in} and {d_out}; "
            "give its own --dataset, and --size, without --smoke"
        )
    with np.errstate(all="ignore"):
        if not (np.abs(net.predict(as_inputs(data.train_x[:ROWS], net.dtype))) < 1e15).all():  # also false for NaN
            raise InputError(f"{path}: expected outputs of moderate size, found some beyond 1e15; train it anew")
    return net


def describe(source: Source, net: DeepNet, data: Dataset) -> Model:
    """Return what a log says of a net."""
    loss = LOSSES["cross-entropy"]
    train_loss, train_score = evaluate(net, data.train_x, data.train_y, loss)
    _, test_score = evaluate(net, data.test_x, data.test_y, loss)
    return Model(source, net.config, rounded(train_loss), rounded(train_score), rounded(test_score))
