"""Budgets of the experiments on convolutional nets, and runs that resume where they were killed."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from conv_recipes import ConvConfig, configure
from highway_lab.console import digest_of_config
from highway_lab.logs import RunRecord
from highway_lab.training import train_resumably
from highway_networks import Dataset

from . import blocks  # noqa: F401, adds maxout to BLOCKS, in the processes that train, too
from .common import ExperimentJob, fit

N_VALIDATION = 5000  # training images for validation by epoch, so that test images are scored once
FEW_EPOCHS = {"dropout": 0.25, "lr": 0.03}  # chosen by conv_tables, highway and plain; the recipe's are for 300 epochs


def config_of(data: Dataset, net: str, smoke: bool, budget: dict[str, Any], **fields: Any) -> ConvConfig:
    """Return a net's recipe with a budget, or a smoke run's, cut to the images that there are.

    A budget without a number of images takes all.
    """
    n_validation = min(N_VALIDATION, len(data.train_x) // 10)
    room = data._replace(train_x=data.train_x[n_validation:])
    budget = {"n_train": len(room.train_x), "n_test": len(room.test_x)} | budget
    return configure(net, **fit(budget, room, smoke), n_validation=n_validation, **fields)


def train_one(name: str, config: ConvConfig, data: Dataset, *, any_code: bool = False) -> RunRecord[ConvConfig]:
    """Train one net of the log `name`, with a checkpoint after each epoch, from which a killed run resumes.

    any_code: whether also from one of other code
    """
    return RunRecord.of(train_resumably(config, data, keep=checkpoint_path(name, config), any_code=any_code))


def checkpoint_path(name: str, config: ConvConfig) -> Path:
    """Return the file of a run's checkpoint; its folder is named after the log, and so tells its data set."""
    run = f"{config.net}-{config.block}-{config.seed}-{digest_of_config(config)}"
    return Path("runs") / "checkpoints" / name / f"{run}.npz"


def train_missing(job: ExperimentJob, configs: Sequence[ConvConfig]) -> list[RunRecord[ConvConfig]]:
    """Train the nets of a job that are not trained yet; returns all runs."""
    train_config = partial(train_one, job.path.stem, any_code=job.arguments.old == "keep")
    kept = checkpoint_path(job.path.stem, configs[0]).parent.glob("*.npz")
    return job.run_missing(train_config, configs, RunRecord[ConvConfig], checkpoints=kept)
