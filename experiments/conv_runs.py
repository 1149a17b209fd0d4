"""What the experiments on convolutional nets share: budgets, runs that go on where they were killed."""

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conv_highway_networks import ConvConfig, ConvTraining, configure
from highway_lab.console import digest
from highway_lab.logs import DatasetInfo, Run
from highway_networks import Dataset, train

from .common import Experiment, add_run_flags, fit, load_data

HELD_OUT = 5000  # training images for the curves, so that test images are scored once
FEW_EPOCHS = {"dropout": 0.25, "lr": 0.03}  # in place of the recipe's, meant for 300: what conv_tables chose, for both


def config_of(data: Dataset, net: str, smoke: bool, budget: dict[str, Any], **fields: Any) -> ConvConfig:
    """A net's recipe with a budget of epochs and images, or that of a smoke run, cut to the images that there are.

    A budget that does not say how many images takes them all.
    """
    n_validation = min(HELD_OUT, len(data.train_x) // 10)
    room = data._replace(train_x=data.train_x[n_validation:])
    budget = {"n_train": len(room.train_x), "n_test": len(room.test_x)} | budget
    return configure(net, **fit(budget, room, smoke), n_validation=n_validation, **fields)


def train_one(name: str, config: ConvConfig, data: Dataset) -> Run[ConvConfig]:
    """A run of the log `name`, with a checkpoint after each epoch, from which a killed one goes on."""
    return train(config, data, training=ConvTraining, keep=checkpoint_path(name, config))


def checkpoint_path(name: str, config: ConvConfig) -> Path:
    """Where a run is kept between epochs; `name` says of which log, and so on which data."""
    return Path("runs") / "checkpoints" / f"{name}-{config.net}-{config.block}-{config.seed}-{digest(config)}.npz"


def add_grid(experiment: Experiment, configs: Callable[[Dataset, bool], Sequence[ConvConfig]]) -> None:
    """Add the `run` of an experiment that trains a fixed list of nets, `configs(data, smoke)`."""

    def run(arguments: argparse.Namespace) -> None:
        dataset, data = load_data(arguments)
        path = experiment.log_path(dataset, arguments.smoke)
        planned = configs(data, arguments.smoke)
        function = functools.partial(train_one, path.stem)
        runs = experiment.finish(function, planned, data, Run[ConvConfig], path, arguments)
        info = DatasetInfo(dataset, planned[0].n_train, planned[0].n_test, data.test_set)
        experiment.keep(path, arguments.command_line, info, runs=runs)

    add_run_flags(experiment.add("run", run, "train all nets; resumable"))
