"""Output on the terminal: safe printing, progress of training runs, and words for tables."""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from highway_lab.datasets import DATASETS
from highway_lab.intervals import interval
from highway_lab.logs import DatasetInfo, RunRecord, kinds_of, values_of, varied_in
from highway_networks import TEST_IMAGES, Run


def name_numbers(values: Sequence[Any]) -> str:
    """Return values as cli.list_of reads them; four or more whole numbers in a row by their ends, `0-19`."""
    if len(values) > 3 and isinstance(values[0], int) and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]}-{values[-1]}"
    return ",".join(map(str, values))


def name_data(dataset: str) -> str:
    """Return a data set's name with the capitals of MNIST and CIFAR; digits are scikit-learn's; a folder's as it is."""
    if dataset == "digits":
        return "scikit-learn's digits"
    return re.sub("mnist|cifar", lambda found: found[0].upper(), dataset) if dataset in DATASETS else dataset


def name_tested(dataset: DatasetInfo) -> str:
    """Name a log's data set and, unless it is all test images, its test set: `CIFAR-10, first 1,000 test images`."""
    return name_data(dataset.name) + f", {dataset.test_set}" * (dataset.test_set != TEST_IMAGES)


def count_of(number: int, noun: str) -> str:
    """Return a number and its noun: `1 seed`, `3 seeds`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def describe_scores(run: Run | RunRecord) -> str:
    """Return the last row of a run's history in words, the test score first: a narrow terminal cuts off the end."""
    history = run.history
    if history.train_loss[-1] is None:
        return "loss not finite: diverged"
    columns = {"test": history.test_score, "validation": history.validation_score, "train": history.train_score}
    last = {name: column[-1] for name, column in columns.items() if column and column[-1] is not None}
    return "  ".join([*(f"{name} {score:.3f}" for name, score in last.items()), f"loss {history.train_loss[-1]:.3f}"])


def tell_epoch(name: str, run: Run) -> None:
    """Print a line on the run of that name so far."""
    epoch, epochs = run.history.epoch[-1], run.config.epochs
    print(f"{name}  epoch {epoch:>{len(str(epochs))}}/{epochs}  {describe_scores(run)}", flush=True)


def name_run(config: Any, varied: Sequence[str] = ()) -> str:
    """Name a run in words: its net, the hyperparameters that are `varied`, and its seed."""
    return f"{', '.join([config.title, *values_of(config, varied)])} seed {config.seed}"


def name_files(dataset: str, config: Any) -> str:
    """Name a run's files, distinct for each data set and each config."""
    return f"{dataset}-{name_run(config).replace(' ', '-')}-{digest_of_config(config)}"


def digest_of_config(config: Any) -> str:
    """Return twelve hexadecimal digits that identify a config."""
    return hashlib.sha256(json.dumps(dataclasses.asdict(config)).encode()).hexdigest()[:12]


def summary(runs: Sequence[RunRecord], dataset: DatasetInfo) -> str:
    """Return a table of runs for a terminal of 80 columns, a row for each size and kind of net."""
    size, kinds = runs[0].config.SIZE, kinds_of(runs)
    what = "block" if kinds.keys() == {run.config.block for run in runs} else "net"
    rows = [[size, what, f"test {runs[0].metric}", "train loss", "seconds", "diverged"]]
    for value in sorted({getattr(run.config, size) for run in runs}):
        groups = {kind: [run for run in of if getattr(run.config, size) == value] for kind, of in kinds.items()}
        rows += [[str(value), kind, *_cells(group)] for kind, group in groups.items() if group]
    if not any(run.diverged for run in runs):
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    n_validation = runs[0].config.n_validation
    samples = f"{dataset.n_train:,} training, " + f"{n_validation:,} validation, " * (n_validation > 0)
    lines = [f"{name_tested(dataset)}: {samples}{dataset.n_test:,} test samples"]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines + ["±: 95 % interval over seeds"] * any("±" in line for line in lines))


def describe_chance(runs: Sequence[RunRecord], labels: np.ndarray) -> str:
    """Name the runs whose test accuracy is no better than guessing, and what to try; "" if there is none.

    Guessing: the share of the commonest of the test labels (n,), plus its standard error.
    """
    chance = np.bincount(labels).max() / len(labels)
    most = chance + math.sqrt(chance * (1 - chance) / len(labels))
    scored = [(run, run.history.test_score[-1]) for run in runs if run.metric == "accuracy" and not run.diverged]
    varied = varied_in(runs)
    named = [name_run(run.config, varied) for run, score in scored if score <= most]
    if not named:
        return ""
    more = f" and {count_of(len(named) - 3, 'run')} more" if len(named) > 3 else ""
    guess = f"no better than guessing the commonest class ({chance:.3f})"
    return f"{guess}: {', '.join(named[:3])}{more}; try more --epochs, another --lr or --block, or more images"


def _cells(group: list[RunRecord]) -> list[str]:
    """Return test score, training loss, seconds and the number of diverged runs, whose scores do not count."""
    finished = [run.history for run in group if not run.diverged]
    scores = [interval([getattr(of, field)[-1] for of in finished]) for field in ("test_score", "train_loss")]
    seconds = sum(sum(run.history.seconds) for run in group)
    return [*(f"{of:.3f}" for of in scores), f"{seconds:.1f}", f"{len(group) - len(finished)} of {len(group)}"]
