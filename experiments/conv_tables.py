"""Tables 1 and 2: do convolutional highway nets do as well as the paper says, and plain ones of the same layers?

The budget is a small part of the paper's. Its schedule, a tenth of the rate after each third or half of the epochs,
becomes half a cosine. What else a short budget needs is chosen for each kind of block on 5,000 validation images, by
one shorter run of each candidate. Test images are scored once a run, after its last epoch (--long: after each).
Highway B and C would take days here: their parameters are counted and one training step is timed.

With --long, Highway A for as long as we can afford, on all 50,000 training images of CIFAR-10. Its rate, then the
padding of its random crops, are chosen by validation images, by one run of 12 epochs for each candidate; so are those
of the plain net. Schedule and dropout (none) are those chosen before, by runs of 4 epochs, which favour none. With two
seeds and 1,000 test images the interval is far wider than the margin: expect no verdict but inconclusive. The number
and its curve are what these runs are for.

With --maxout, a shallow net of maxout blocks on MNIST: 5 layers of 25 maps, with no more parameters than the highway
net of 10 layers and 16 maps. Its weights are orthogonal, which keep the size of what a maxout unit passes on (those of
the others suit ReLU), and it chooses among the candidates of the others and a lower rate. The authors argue in section
5 that deep and narrow highway nets are as good as wide and shallow maxout nets; the maxout net that they quote has
420 K parameters, ten times as many.

With --more-seeds, table 1's larger net again, from three other seeds for more epochs, by the settings chosen before.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conv_recipes import NETS, ConvConfig
from highway_lab import checkpoints
from highway_lab.fields import Count, NonEmpty
from highway_lab.files import make_place
from highway_lab.logs import DatasetInfo, Log, RunRecord
from highway_lab.training import Training
from highway_networks import Dataset, InputError, rounded

from .common import Experiment, ExperimentJob, group_by
from .conv_runs import checkpoint_path, config_of, train_missing

CHOICES = {  # the net and the epochs that choose, and candidates for what the recipe leaves open in a short budget
    "mnist": ("mnist-16", 6, [{"dropout": share, "lr": lr} for share in (0.25, 0.5) for lr in (0.03, 0.1)]),
    "cifar-10": (
        "highway-a",
        4,
        [{"dropout": 0.0, "lr": 0.03}, {"dropout": 0.0, "lr": 0.06}, {"schedule": "0.6,0.85", "lr": 0.025}],
    ),
    "digits": ("digits", 2, [{}, {"lr": 0.1}]),
}
ORTHOGONAL = {"init": "orthogonal"}
HIGHWAY, PLAIN, NOT_AUGMENTED = {"block": "highway"}, {"block": "plain"}, {"block": "highway", "augment": False}
TABLES = {  # net, epochs, number of seeds, fields that differ from the recipe
    "mnist": (
        ("mnist-16", 20, 5, HIGHWAY),
        ("mnist-16", 20, 5, PLAIN),
        ("mnist-32", 12, 2, HIGHWAY),
        ("mnist-32", 12, 2, PLAIN),
    ),
    "cifar-10": (
        ("highway-a", 30, 2, HIGHWAY),
        ("highway-a", 60, 1, HIGHWAY),
        ("highway-a", 30, 1, PLAIN),
        ("highway-a", 30, 1, NOT_AUGMENTED),
    ),
    "digits": (("digits", 2, 2, HIGHWAY), ("digits", 2, 1, PLAIN)),
}
MORE_SEEDS = {"mnist": ("mnist-32", 20, (2, 3, 4)), "digits": ("digits", 2, (2,))}  # net, epochs, seeds; both blocks
LONG = {  # net, epochs that choose, rates, paddings beside the recipe's; epochs, then seeds by block
    "cifar-10": ("highway-a", 12, (0.03, 0.06, 0.12, 0.25), (4,), 200, {"highway": (0, 1), "plain": (0,)}),
    "digits": ("digits", 1, (0.05, 0.1), (4,), 2, {"highway": (0,), "plain": (0,)}),
}
MAXOUT = {  # net, epochs that choose, candidates; epochs, number of seeds
    "mnist": (
        *("mnist-25-shallow", 3),
        [ORTHOGONAL | {"dropout": share, "lr": lr} for share in (0.25, 0.5) for lr in (0.01, 0.03, 0.1)],
        *(20, 3),
    ),
    "digits": ("digits", 1, [ORTHOGONAL | {"lr": 0.02}, ORTHOGONAL], 2, 2),
}
COSTED = {"mnist": (), "cifar-10": ("highway-b", "highway-c"), "digits": ("digits",)}  # nets that are only timed
MODEL = Path("models") / "conv-mnist-16.npz"  # the net of table 1's first seed, which `conv_gates` looks into


@dataclass
class Cost:
    """A net that is not trained here: its parameters, and the median seconds of a training step of one batch."""

    net: Literal[*NETS]
    n_params: Count
    batch_size: Count
    seconds_a_step: float


@dataclass
class ConvTablesLog(Log):
    """The logs runs/conv_tables.json, of MNIST, runs/conv_tables-cifar-10.json, and those of MORE.

    choosing   a run of each candidate with each kind of block; none with --more-seeds
    chosen     by block, the fields of the best candidate
    runs       the table's
    """

    dataset: DatasetInfo
    choosing: list[RunRecord[ConvConfig]]
    chosen: dict[str, dict[str, int | float | str]]
    runs: NonEmpty[RunRecord[ConvConfig]]
    costs: list[Cost]


MORE = {"more-seeds": "run --more-seeds", "maxout": "run --maxout", "cifar-10-long": "run --long --dataset cifar-10"}
EXPERIMENT = Experiment(__name__, __doc__, ConvTablesLog, datasets=("mnist", "cifar-10"), more=MORE)


def best(arms: Sequence[tuple[str, dict]], runs: Sequence[RunRecord[ConvConfig]]) -> dict[str, dict]:
    """Return by block the fields of the run of the highest last validation accuracy; a diverged run comes last."""

    def score(tried: tuple[tuple[str, dict], RunRecord]) -> tuple[bool, float]:
        return not tried[1].diverged, tried[1].history.validation_score[-1] or 0

    by_block = group_by(zip(arms, runs, strict=True), lambda tried: tried[0][0])
    return {block: max(of_block, key=score)[0][1] for block, of_block in by_block.items()}


def time_step(net: str, data: Dataset, steps: int = 5) -> Cost:
    """Time training steps of a net, each an epoch of one batch."""
    config = config_of(data, net, False, {"epochs": 1})
    config = replace(config, n_train=config.batch_size, n_validation=1, n_test=1)
    training, seconds = Training(config, data), []
    for _ in range(steps):
        begun = time.perf_counter()
        training.epoch = 0
        next(training.epochs(scored=False))
        seconds.append(time.perf_counter() - begun)
    return Cost(net, training.net.params.flat.size, config.batch_size, rounded(float(np.median(seconds))))


def keep_net(config: ConvConfig, data: Dataset) -> None:
    """Write the net of a finished run from its last checkpoint, if that is still there."""
    training = Training(config, data)
    if checkpoints.restore(checkpoint_path(EXPERIMENT.name, config), training, any_code=True):
        make_place(MODEL)
        training.net.save(MODEL)
        print(f"saved {MODEL}")


def run(job: ExperimentJob) -> None:
    known, measure = job.arguments.part
    if job.dataset not in known:
        raise InputError(f"--dataset: expected one of {', '.join(known)}, found {job.dataset}; choose one of these")
    measure(job)


def run_tables(job: ExperimentJob) -> None:
    """Choose settings, train the nets of the tables, time those that are too large."""
    dataset, data = job.dataset, job.data
    net, epochs, candidates = CHOICES[dataset]
    arms = [(block, fields) for block in ("highway", "plain") for fields in candidates]
    choosing = train_missing(
        job, [config_of(data, net, False, {"epochs": epochs}, block=block, **fields) for block, fields in arms]
    )
    chosen = best(arms, choosing)
    configs = [
        config_of(data, net, False, {"epochs": epochs}, seed=seed, **chosen[fields["block"]], **fields)
        for net, epochs, seeds, fields in TABLES[dataset]
        for seed in range(seeds)
    ]
    runs = train_missing(job, configs)
    costs = [time_step(net, data) for net in COSTED[dataset]]
    job.keep(configs[0], choosing=choosing, chosen=chosen, runs=runs, costs=costs)
    if dataset == "mnist":
        keep_net(configs[0], data)


def run_more_seeds(job: ExperimentJob) -> None:
    """Train other seeds of one net with both kinds of block, as the log of `run` chose for them."""
    chosen, (net, epochs, seeds) = EXPERIMENT.read(job.path).chosen, MORE_SEEDS[job.dataset]
    configs = [
        config_of(job.data, net, False, {"epochs": epochs}, seed=seed, **chosen[block["block"]], **block)
        for seed in seeds
        for block in (HIGHWAY, PLAIN)
    ]
    job = job.for_more("more-seeds")
    job.keep(configs[0], choosing=[], chosen=chosen, runs=train_missing(job, configs), costs=[])


def run_maxout(job: ExperimentJob) -> None:
    """Choose settings for the maxout net, and train it."""
    (net, few, candidates, epochs, seeds), job = MAXOUT[job.dataset], job.for_more("maxout")

    def config(epochs: int, **fields: Any) -> ConvConfig:
        return config_of(job.data, net, False, {"epochs": epochs}, block="maxout", **fields)

    choosing = train_missing(job, [config(few, **fields) for fields in candidates])
    chosen = best([("maxout", fields) for fields in candidates], choosing)
    runs = train_missing(job, [config(epochs, seed=seed, **chosen["maxout"]) for seed in range(seeds)])
    job.keep(runs[0].config, choosing=choosing, chosen=chosen, runs=runs, costs=[])


def run_long(job: ExperimentJob) -> None:
    """Choose a rate and a padding for each kind of block, and train longer, on all training images."""
    net, epochs, rates, paddings, long_epochs, seeds = LONG[job.dataset]
    before, job = EXPERIMENT.read(job.path).chosen, job.for_more("long")

    def train_each(arms: list[tuple[str, dict]], epochs: int = epochs, **more: int) -> list[RunRecord[ConvConfig]]:
        configs = [config_of(job.data, net, False, {"epochs": epochs}, block=of, **fields) for of, fields in arms]
        return train_missing(job, [replace(config, **more) for config in configs])

    arms = [(block, before[block] | {"lr": rate}) for block in seeds for rate in rates]
    choosing = train_each(arms)
    padded = [(block, fields | {"padding": of}) for block, fields in best(arms, choosing).items() for of in paddings]
    choosing += train_each(padded)
    chosen = best(arms + padded, choosing)
    runs = []
    for block in seeds:  # highway nets are logged before the plain net takes hours more
        seeded = [(block, chosen[block] | {"seed": seed}) for seed in seeds[block]]
        runs += train_each(seeded, long_epochs, n_train=len(job.data.train_x), n_validation=0)
        job.keep(runs[0].config, choosing=choosing, chosen=chosen, runs=runs, costs=[])


parser = EXPERIMENT.add_run(run, "choose, train, time")
parser.set_defaults(part=(CHOICES, run_tables))
parts = parser.add_mutually_exclusive_group()
for flag, part, of in (
    ("--long", (LONG, run_long), "Highway A for longer, on all training images; after run"),
    ("--more-seeds", (MORE_SEEDS, run_more_seeds), "more seeds of the net of 32 maps; after run"),
    ("--maxout", (MAXOUT, run_maxout), "a shallow net of maxout blocks"),
):
    parts.add_argument(flag, dest="part", action="store_const", const=part, help=of)
