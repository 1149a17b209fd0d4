"""Tables 1 and 2: do convolutional highway nets do as well as the paper says, and plain ones of the same layers?

Table 1, MNIST: 10 layers with 16 and with 32 maps; the paper trains for 300 epochs. Table 2, CIFAR-10: Highway A, 11
layers, with table 3's augmentation; some 400 epochs. Here the budget is a small part of that, so that a tenth of the
rate after each third or half of it becomes half a cosine, and what else a short budget wants is chosen for each kind
of block by one shorter run of each candidate, on 5,000 held-out training images. Test images are looked at once a run,
after its last epoch.

A plain net has the same layers without gates, and so half of the parameters. Beside it on CIFAR-10: Highway A with
twice the budget, and without augmentation; of Highway B and C, which would take days here, the parameters and one
training step, timed.
"""

import argparse
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from conv_highway_networks import ConvConfig, ConvTraining
from highway_lab import checkpoints
from highway_lab.cli import InputError
from highway_lab.files import make_place
from highway_lab.logs import DatasetInfo, Log, Run, number
from highway_networks import Dataset

from .common import Experiment, add_run_flags, group_by, load_data, start
from .conv_runs import checkpoint_path, config_of, train_one

CHOICES = {  # candidates for what the paper's recipe leaves open in a short budget, and epochs to choose by
    "mnist": ("mnist-16", 6, [{"dropout": share, "lr": lr} for share in (0.25, 0.5) for lr in (0.03, 0.1)]),
    "cifar-10": (
        *("highway-a", 4),
        [*({"dropout": 0.0, "lr": lr} for lr in (0.03, 0.06)), {"schedule": "0.6,0.85", "lr": 0.025}],
    ),
    "digits": ("digits", 2, [{}, {"lr": 0.1}]),
}
HIGHWAY, PLAIN, AS_IT_IS = {"block": "highway"}, {"block": "plain"}, {"block": "highway", "augment": False}
TABLES = {  # net, epochs, seeds, and what a run differs by
    "mnist": (
        *(("mnist-16", 20, range(5), HIGHWAY), ("mnist-16", 20, range(5), PLAIN)),
        *(("mnist-32", 12, range(2), HIGHWAY), ("mnist-32", 12, range(2), PLAIN)),
    ),
    "cifar-10": (
        *(("highway-a", 30, range(2), HIGHWAY), ("highway-a", 60, range(1), HIGHWAY)),
        *(("highway-a", 30, range(1), PLAIN), ("highway-a", 30, range(1), AS_IT_IS)),
    ),
    "digits": (("digits", 2, range(2), HIGHWAY), ("digits", 2, range(1), PLAIN)),
}
COSTED = {"mnist": (), "cifar-10": ("highway-b", "highway-c"), "digits": ("digits",)}
MODEL = Path("models") / "conv-mnist-16.npz"  # table 1's first seed, for a look into it


@dataclass
class Cost:
    """A net that is not trained here: its parameters, and the seconds of a training step of one batch, the median."""

    net: str
    n_params: int
    batch_size: int
    seconds_a_step: float


@dataclass
class ConvTablesLog(Log):
    """runs/conv_tables.json is of MNIST, runs/conv_tables-cifar-10.json of CIFAR-10.

    choosing: a run of each candidate with each kind of block; chosen: by block the fields by which the best of them
    differs; runs: the table's.
    """

    dataset: DatasetInfo
    choosing: list[Run[ConvConfig]]
    chosen: dict[str, dict[str, float | str]]
    runs: list[Run[ConvConfig]]
    costs: list[Cost]


EXPERIMENT = Experiment(__name__, __doc__, ConvTablesLog, datasets=("mnist", "cifar-10"))


def best(arms: Sequence[tuple[str, dict]], runs: Sequence[Run[ConvConfig]]) -> dict[str, dict]:
    """By block, the fields of the run whose last held-out accuracy is highest; one that diverged is taken last."""

    def held_out(arm: tuple[tuple[str, dict], Run]) -> tuple[bool, float]:
        return not arm[1].diverged, arm[1].history.validation_score[-1] or 0

    of_block = group_by(zip(arms, runs, strict=True), lambda arm: arm[0][0])
    return {block: max(of, key=held_out)[0][1] for block, of in of_block.items()}


def cost(net: str, data: Dataset, steps: int = 5) -> Cost:
    """Time steps of a net that is not trained to the end."""
    config = config_of(data, net, False, {"epochs": 1})
    config = replace(config, n_train=config.batch_size, n_validation=1, n_test=1)
    training, seconds = ConvTraining(config, data), []
    for _ in range(steps):
        begun = time.perf_counter()
        training.epoch = 0
        next(training.epochs(scored=False))
        seconds.append(time.perf_counter() - begun)
    return Cost(net, training.net.params.flat.size, config.batch_size, number(float(np.median(seconds))))


def keep_net(config: ConvConfig, data: Dataset, path: Path) -> None:
    """Write the net of a finished run, from its last checkpoint, if that is still there."""
    training = ConvTraining(config, data)
    if checkpoints.restore(checkpoint_path(EXPERIMENT.name, config), training):
        make_place(path)
        training.net.save(path)
        print(f"saved {path}")


def run(arguments: argparse.Namespace) -> None:
    """Choose, train the table's nets, time the others, write the log."""
    dataset, data = load_data(arguments)
    if dataset not in CHOICES:
        raise InputError(f"--dataset: expected one of {', '.join(CHOICES)}, found {dataset}; choose one of these")
    path = EXPERIMENT.log_path(dataset, arguments.smoke)

    def runs_of(configs: list[ConvConfig]) -> list[Run[ConvConfig]]:
        function = functools.partial(train_one, EXPERIMENT.name)
        return EXPERIMENT.finish(function, configs, data, Run[ConvConfig], path, arguments)

    net, epochs, candidates = CHOICES[dataset]
    arms = [(block, fields) for block in ("highway", "plain") for fields in candidates]
    planned = functools.partial(config_of, data, smoke=False)
    choosing = runs_of([planned(net, budget={"epochs": epochs}, block=block, **fields) for block, fields in arms])
    chosen = best(arms, choosing)
    configs = [
        planned(net, budget={"epochs": epochs}, seed=seed, **chosen[of["block"]], **of)
        for net, epochs, seeds, of in TABLES[dataset]
        for seed in seeds
    ]
    runs = runs_of(configs)
    costs = [cost(net, data) for net in COSTED[dataset]]
    info = DatasetInfo(dataset, configs[0].n_train, configs[0].n_test, data.test_set)
    measured = {"choosing": choosing, "chosen": chosen, "runs": runs, "costs": costs}
    EXPERIMENT.keep(path, arguments.command_line, info, **measured)
    if dataset == "mnist":
        keep_net(configs[0], data, MODEL)


parser = EXPERIMENT.add("run", run, "choose, train, time")
add_run_flags(parser)

if __name__ == "__main__":
    start(__spec__.name)
