"""The choice of a learning rate, or of a whole setting, for each arm of an experiment: the best of those tried.

An arm is a tuple of what is compared, such as block and depth.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_lab.fields import Count
from highway_lab.logs import Result
from highway_networks import Dataset

from .common import ExperimentJob, group_by


@dataclass
class TriedRate:
    """A run that tried a rate, as a log keeps it: its last validation loss, null if it diverged."""

    arm: tuple[str | float, ...]
    lr: float
    seed: Count
    validation_loss: float | None


def choosing(budget: dict) -> dict:
    """Return a budget for runs that try a rate: a sixth of its training images validate, one test image is enough."""
    n_validation = budget["n_train"] // 6
    return budget | {"n_train": budget["n_train"] - n_validation, "n_validation": n_validation, "n_test": 1}


def choose_and_measure(
    job: ExperimentJob,
    function: Callable[[Any, Dataset], Result],
    plan: Callable[..., Sequence[Any]],
    schema: type[Result],
    arm: Callable[[Any], tuple],
) -> tuple[list[TriedRate], list]:
    """Run plan(data, smoke), which tries rates, and plan(data, smoke, rates), which measures with the best by arm."""
    tried = tried_rates(job.run_missing(function, plan(job.data, job.smoke), schema), arm)
    return tried, job.run_missing(function, plan(job.data, job.smoke, best_rates(tried)), schema)


def tried_rates(runs: Sequence, arm: Callable[[Any], tuple]) -> list[TriedRate]:
    """Return what the log keeps of runs that try rates, each for arm(run)."""
    losses = (None if run.diverged else run.history.validation_loss[-1] for run in runs)
    return [TriedRate(arm(run), run.config.lr, run.config.seed, loss) for run, loss in zip(runs, losses, strict=True)]


def best_rates(tried: Iterable[TriedRate]) -> dict[tuple, float]:
    """Return by arm the rate of the lowest mean validation loss over its seeds; a diverged run counts as infinite."""

    def quality(seeds: list[TriedRate]) -> float:
        return -float(np.mean([np.inf if run.validation_loss is None else run.validation_loss for run in seeds]))

    found = ranked(tried, lambda run: run.arm, lambda run: run.lr, quality)
    return {arm: next(iter(rates)) for arm, rates in found.items()}


def ranked(tried: Iterable, arm: Callable, setting: Callable, quality: Callable[[list], Any]) -> dict[Any, dict]:
    """Return by arm(run) the quality(runs) of each setting(run), the highest first."""
    found = {}
    for key, runs in group_by(tried, arm).items():
        qualities = {one: quality(seeds) for one, seeds in group_by(runs, setting).items()}
        found[key] = dict(sorted(qualities.items(), key=lambda item: item[1], reverse=True))
    return found


def edge_note(
    tried: Iterable, runs: Iterable, arm: Callable[[Any], tuple], name: Callable[..., str], steps: int = 1
) -> str:
    """Return a sentence on the grid that names the arms, by name(*arm), that chose one of its first or last `steps`.

    A better rate may lie beyond the grid for these.
    """
    grid = sorted({run.lr for run in tried})
    chosen = {arm(run): run.config.lr for run in runs}
    near = [name(*of) for of, lr in chosen.items() if lr not in grid[steps : len(grid) - steps]]
    tried_range = f"{grid[0]:g} to {grid[-1]:g}" if grid else "none"
    where = "at an end" if steps == 1 else f"nearer than {steps} steps to an end"
    return f"Rates from {tried_range}; chosen {where}: {', '.join(near) or 'none'}."
