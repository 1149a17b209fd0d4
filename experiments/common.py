"""What the experiments share: `python -m experiments.NAME run|plot`, their data, their logs and their figures."""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

import run_log
from command_line import OneLineParser, carry_out, count
from highway_networks import DATASETS, Dataset, choose_dataset, load_dataset
from run_log import DatasetInfo, Log

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT")
Action = Callable[[argparse.Namespace], None]


class Experiment:
    """One question: experiments/NAME.py measures, NAME_figures.py draws and tabulates, runs/NAME.json is the log.

    `doc` is the module's docstring, `log` the class of its log.
    """

    def __init__(self, name: str, doc: str, log: type[Log]):
        self.name, self.doc, self.log = name, doc.splitlines()[0], log
        self.parser = OneLineParser(prog=f"python -m experiments.{name}", description=self.doc)
        self._commands = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        plot = self.add("plot", self.plot, "draw the figures from the log")
        plot.add_argument("log", nargs="?", type=Path, default=self.log_path(), help="%(default)s")

    def add(self, name: str, action: Action, help: str) -> argparse.ArgumentParser:
        """Add a sub-command; returns its parser, for its flags."""
        parser = self._commands.add_parser(name, help=help, description=help)
        parser.set_defaults(action=action)
        return parser

    def main(self, argv: list[str] | None = None) -> int:
        """Carry out a sub-command; returns the exit code."""
        return carry_out(self.parser, lambda arguments: arguments.action(arguments), argv)

    def log_path(self, dataset: str = "mnist", smoke: bool = False) -> Path:
        """runs/NAME.json is MNIST's; another data set's is runs/NAME-DATASET.json, a smoke run's NAME-smoke.json."""
        suffix = "-smoke" if smoke else "" if dataset == "mnist" else f"-{dataset}"
        return Path("runs") / f"{self.name}{suffix}.json"

    def read(self, path: Path) -> Any:
        """Read and check a log of this experiment; raises InputError."""
        return run_log.read(path, self.log, f"make it with {self.parser.prog} run")

    def keep(self, path: Path, log: Log, summary: str) -> None:
        """Write a log and say so."""
        path.parent.mkdir(parents=True, exist_ok=True)
        run_log.write(path, log)
        print(f"{summary}\nsaved {path}")

    @property
    def figures(self) -> ModuleType:
        """The module of its pictures and tables: FIGURES and TABLES, functions of the log by file and table name."""
        return importlib.import_module(f"experiments.{self.name}_figures")

    def plot(self, arguments: argparse.Namespace) -> None:
        """Draw all figures of a log."""
        from figure_style import picture_folder, save

        log = self.read(arguments.log)
        for name, draw in self.figures.FIGURES.items():
            path = picture_folder(arguments.log, self.name) / name
            save(draw(log), path, arguments.log)
            print(f"drew {path}")


def load(name: str) -> Experiment:
    """An experiment by its name; imported when it is needed, as some are slow to import."""
    return importlib.import_module(f"experiments.{name}").EXPERIMENT


def start(name: str) -> None:
    """`python -m experiments.NAME`, but imported by its name: workers cannot import what __main__ defines."""
    sys.exit(load(name).main())


# --------------------------------------------------------------------------------------- data and flags


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """--dataset and --data-dir, as highway_networks.py has them, and --smoke."""
    parser.add_argument("--dataset", default="mnist", choices=("auto", *DATASETS), help="default: mnist")
    parser.add_argument("--data-dir", help="where data sets lie (default: $HIGHWAY_DATA_DIR, else ~/.cache)")
    parser.add_argument("--smoke", action="store_true", help="a budget of seconds on the digits, to see it work")


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """What every `run` takes: the data flags and --jobs."""
    add_data_flags(parser)
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="local processes (default: 1)")


def load_data(arguments: argparse.Namespace) -> tuple[str, Dataset]:
    """Name and samples of the data set that the flags ask for; the digits with --smoke."""
    name = "digits" if arguments.smoke else arguments.dataset
    if name == "auto":
        name = choose_dataset(arguments.data_dir)
    return name, load_dataset(name, arguments.data_dir)


def fit(budget: dict, data: Dataset) -> dict:
    """A budget's n_train and n_test, cut to the samples that there are."""
    available = {"n_train": len(data.train_x), "n_test": len(data.test_x)}
    return budget | {name: min(budget[name], available[name]) for name in available}


def whole(dataset: str, data: Dataset) -> DatasetInfo:
    """What a log says of a data set that is used whole."""
    return DatasetInfo(dataset, len(data.train_x), len(data.test_x))


# ---------------------------------------------------------------------------------------------- results


def group_by(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, list[ItemT]]:
    """Items with equal keys together, in their order; keys sorted."""
    groups: dict[KeyT, list[ItemT]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return dict(sorted(groups.items()))


def final_scores(runs: Iterable) -> list[float]:
    """Final test score of each run that has a history; NaN where it diverged."""
    return [np.nan if run.diverged else run.history.test_score[-1] for run in runs]


def name_data(dataset: str) -> str:
    """A data set's name as titles have it."""
    return dataset.replace("mnist", "MNIST")
