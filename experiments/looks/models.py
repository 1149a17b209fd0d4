"""The nets that are looked into: the best of a search, a user's own, or nets trained here.

What the paper's figures 2 to 4 count as layers 1, 2, ... are the net's blocks; what they call blocks are its units.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from highway_lab.console import digest_of_config, name_data
from highway_lab.fields import Share
from highway_lab.logs import digest_of_samples, environment, mathematics
from highway_lab.nets import load_net
from highway_networks import LOSSES, Config, Dataset, DeepNet, InputError, Net, evaluate, rounded

from ..common import sha256_of
from ..common_figures import PAPER, name_setting
from ..study import NetCell, Results, Study, StudyRun, Task, look_at
from ..study_command import keep_net

LONG = 60  # epochs of nets that are compared by setting
LAST_RATE = 0.2  # as a share of the first, where FALLBACK is trained long
N_TRAIN, N_TEST = 60_000, 10_000  # all images of MNIST
PAPER_BIASES = (-2.0, -4.0)  # of the paper's best tanh nets for MNIST and CIFAR-100
SEEDS = (0, 1, 3)  # RELU diverges from seed 2
FALLBACK = Config(  # the rate of the net for CIFAR-10 was chosen on a tenth of its training images
    depth=49,  # with the plain layer before them the paper's 50
    init="glorot",
    gate_bias=-4.0,  # from the paper's -2, this rate needs more than an epoch to begin to learn
    optimizer="momentum",
    lr=0.05,
    momentum=0.9,
    clip=0.0,
)
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
    RELU, gate_bias=-5.20063, lr=0.0305493, lr_decay=0.9999152695000469, momentum=0.903248, seed=2_000_027
)
DECAY = LAST_RATE ** (1 / (LONG * math.ceil(N_TRAIN / FALLBACK.batch_size)))
SETTINGS = {  # of nets that are compared, by name
    name_setting(of): of for of in (RELU, *(replace(FALLBACK, gate_bias=bias, lr_decay=DECAY) for bias in PAPER_BIASES))
}
NETS = {"mnist": Path("models/highway-50.npz"), "cifar-10": Path("models/highway-50-cifar-10.npz")}
MNIST, CIFAR = (NetCell(path.stem, path.as_posix()) for path in NETS.values())
OF_MNIST = {"n_train": N_TRAIN, "n_test": N_TEST}
LOOKED_INTO = {  # single nets, by the endings of logs; how those of files are trained where there is no file
    "": {MNIST: replace(BEST, **OF_MNIST, epochs=40)},
    "cifar-10": {CIFAR: replace(FALLBACK, n_train=50_000, n_test=1_000, epochs=25, seed=100)},
    "paper": {NetCell(PAPER): replace(SETTINGS[PAPER], **OF_MNIST, epochs=LONG)},
}
BY_SETTING = {NetCell(name): replace(of, **OF_MNIST, epochs=LONG) for name, of in SETTINGS.items()}
DATASET = {"cifar-10": "cifar-10"}
CHECKPOINTS = Path("runs/checkpoints")


@dataclass
class Look:
    """What a look at a single net says of it: file, its digest unless it was trained here, accuracy on test images."""

    file: str
    sha256: str | None
    score: Share


def look(task: Task, data: Dataset, *, measure: Callable[[Any, Dataset, Look], Look]) -> StudyRun:
    """Look into a single net; measure(net, data, common) returns what is measured, beside what is common to all."""
    net, file, sha256 = obtain(task, data)
    _, score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])
    measured = measure(net, data, Look(file, sha256, rounded(score)))
    return StudyRun(None, task, net.params.flat.size, False, {}, measured)


def looks(measured: type, *endings: str) -> dict[str, Study]:
    """Return the studies that look into those of LOOKED_INTO."""
    return {of: look_at(measured, LOOKED_INTO[of]) for of in endings}


def of_net(study: Study, path: Path, data: Dataset) -> Study:
    """Return the same look at a net in a file; raises InputError unless it has gates and suits these images."""
    net, known = load(path, data), {of.name for of in fields(Config)}
    config = {name: value for name, value in net.config.items() if name in known}
    sizes = {"n_train": len(data.train_x), "n_validation": 0, "n_test": len(data.test_x)}
    return look_at(study.measured, {NetCell(path.stem, path.as_posix()): Config(**config, **sizes)})


def runs_of(results: Mapping[str, Results]) -> list[tuple[str, StudyRun, Results]]:
    """Return the nets of several logs, by the endings of these; that of the first is called "mnist"."""
    return [(ending or "mnist", run, of) for ending, of in results.items() for run in of.runs]


def name_shown(run: StudyRun, results: Results) -> str:
    """Name a log's data set and its net's setting, for a title."""
    return f"{name_data(results.dataset.name)}, {name_setting(run.config)}"


def obtain(task: Task, data: Dataset) -> tuple[Net, str, str | None]:
    """Load the net of a cell, or train it if it has no file; return it, its file, and its digest if it was there."""
    path = Path(task.cell.file)
    if task.cell.file and path.exists():
        return load(path, data), task.cell.file, sha256_of(path)
    return trained(task.config, data), place_of(task.config, data).as_posix(), None


def place_of(config: Config, data: Dataset) -> Path:
    code = environment(programs=mathematics(config)).code
    return CHECKPOINTS / f"{digest_of_samples(data)}-{digest_of_config(config)}-{code}.npz"


def trained(config: Config, data: Dataset) -> Net:
    """Train a net and keep it for all experiments that look into it, until the training code is another."""
    keep_net(path := place_of(config, data), config, data)
    return load(path, data)


def load(path: Path, data: Dataset) -> DeepNet:
    """Read a net with gates whose inputs and outputs fit the data set; raises InputError for any other."""
    net = load_net(path, DeepNet)
    wanted = {"d_in": math.prod(data.train_x.shape[1:]), "d_out": data.outputs}
    own = {name: net.config[name] for name in wanted}
    if not net.has_gates:
        found = f"found {net.depth} {net.config['block']} blocks"
        raise InputError(f"{path}: expected blocks with a transform gate T, {found}; train a net with --block highway")
    if own != wanted:
        raise InputError(f"{path}: expected a net of {wanted}, found {own}; give its own --dataset, without --smoke")
    return net
