"""The parts that experiments share: `python -m experiments NAME run|plot`, data, logs, results."""

import argparse
import functools
import hashlib
import importlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pprint import pprint
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

import highway_lab.logs
from highway_lab import commands
from highway_lab.cli import OneLineParser, add_picture_flags, import_words, picture_flags, quote, run_cli
from highway_lab.datasets import load_dataset
from highway_lab.files import lock_log, make_place, read_bytes
from highway_lab.intervals import Interval
from highway_lab.jobs import ResultFile, ResultT, add_job_flags, run_missing
from highway_lab.logs import DatasetInfo, Log, grouped, imported
from highway_networks import Dataset, InputError

CHANCE = 0.1  # accuracy of guessing among ten classes; a diverged run counts as this
CHANCE_LOSS = math.log(1 / CHANCE)  # of guessing
FEW_EPOCHS = {"dropout": 0.25, "lr": 0.03}  # of convolutional nets, chosen by conv_tables; recipes are for 300 epochs
SMOKE_BUDGET = {"epochs": 2, "n_train": 256, "n_test": 128}


class Experiment:
    """One question: a module measures and draws, runs/NAME.json is the log.

    The module has FIGURES, functions of the committed logs by the name of the picture, and numbers(*logs), what a page
    quotes. They take at most one log for each of `datasets`, and those of `more`.

    doc       the module's docstring
    log       the class of its log
    datasets  the data sets of its committed logs, the default first; None, if it needs none
    more      further committed logs: what their names end with, and the step that makes each
    nets      by data set, the saved net that its committed log looks into, if any
    """

    def __init__(
        self,
        module: str,
        doc: str | None,
        log: type[Log],
        datasets: Sequence[str | None] = ("mnist",),
        more: Mapping[str, str] = MappingProxyType({}),
        nets: Mapping[str | None, Path] = MappingProxyType({}),
    ):
        self.module, self.name = module, module.rpartition(".")[-1]
        program = f"python -m experiments {self.name}"
        self.doc, self.log = (doc or module).splitlines()[0], log  # python -OO strips docstrings
        self.datasets, self.more, self.nets = datasets, more, nets
        self.parser = OneLineParser(prog=program, description=self.doc)
        self._commands = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        plot = self.add("plot", self.plot, "draw the figures of logs, and print what they say")
        plot.add_argument("logs", nargs="*", type=Path, metavar="LOG", help=f"default: {self.log_path()}, and such")
        add_picture_flags(plot)

    def add(self, name: str, action: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        """Add a sub-command; returns its parser, for its flags."""
        parser = self._commands.add_parser(name, help=help, description=help)
        parser.set_defaults(action=action)
        return parser

    def add_run(
        self,
        measure: Callable[["ExperimentJob"], None],
        help: str,
        dataset: str | None = "mnist",
        folders: bool = False,
        cluster: bool = True,
    ) -> argparse.ArgumentParser:
        """Add `run`, which calls measure(job); returns its parser.

        dataset    the default; None for an experiment without data
        folders    whether it takes folders of images
        cluster    whether its runs can be trained on other machines
        """

        def run(arguments: argparse.Namespace) -> None:
            if dataset:
                arguments.dataset = arguments.dataset or self.dataset_of(arguments)
            dataset_name, data = load_data(arguments) if dataset else (None, None)
            path = self.log_path(dataset_name, arguments.smoke)
            measure(ExperimentJob(self, arguments, dataset_name, data, path))

        parser = self.add("run", run, help)
        if dataset:
            commands.add_data_flags(parser, dataset, folders=folders)
            parser.set_defaults(dataset=None)
        text = "take a budget of seconds" + ", on the digits" * bool(dataset)
        parser.add_argument("--smoke", action="store_true", help=text)
        add_job_flags(parser, cluster=cluster)
        return parser

    def dataset_of(self, arguments: argparse.Namespace) -> str | None:
        """Return the data set of a run whose flags name none."""
        return self.datasets[0]

    def main(self, argv: list[str] | None = None) -> int:
        return run_cli(self.parser, lambda arguments: arguments.action(arguments), argv)

    def log_path(self, dataset: str | None = None, smoke: bool = False) -> Path:
        """Return runs/NAME.json, NAME-DATASET.json for a data set that is not the default, or NAME-smoke.json."""
        suffix = "-smoke" if smoke else "" if dataset in (None, self.datasets[0]) else f"-{dataset}"
        return Path("runs") / f"{self.name}{suffix}.json"

    def log_steps(self) -> dict[Path, list[str]]:
        """Return the paths of the committed logs, and the step that makes each."""
        logs = {self.log_path(name): ["run", *(["--dataset", name] if name else [])] for name in self.datasets}
        return logs | {self.log_path(ending): step.split() for ending, step in self.more.items()}

    def existing_logs(self) -> list[Path]:
        """Return the paths of the committed logs that exist."""
        return [path for path in self.log_steps() if path.exists()]

    def named(self, path: Path) -> Path:
        """Return a path as `log_steps` has it, if it leads to one of these logs."""
        return next((log for log in self.log_steps() if os.path.realpath(log) == os.path.realpath(path)), path)

    def read(self, path: Path) -> Any:
        """Read a log of this experiment; raises InputError unless a committed one is of its own data set."""
        path, steps, smoke = self.named(path), self.log_steps(), self.log_path(smoke=True)
        own = {of: words[-1] if "--dataset" in words else self.datasets[0] for of, words in steps.items()}
        steps |= {smoke: ["run", "--smoke"]}
        steps |= {with_ending(smoke, ending): [*step.split(), "--smoke"] for ending, step in self.more.items()}
        remedy = " ".join(["make it with", self.parser.prog, *steps.get(path, ["run"])])
        log = highway_lab.logs.read(path, self.log, remedy)
        found = log.dataset and log.dataset.name
        right = found == own[path] if path in own else bool(found) == bool(self.datasets[0])
        if not right:
            expected = own.get(path) or ("a data set" if self.datasets[0] else "none")
            raise InputError(f"{path}: expected the log of {expected}, found one of {found or 'none'}; {remedy}")
        return log

    @property
    def contents(self) -> ModuleType:
        """The module of the experiment."""
        return importlib.import_module(self.module)

    def quoted(self) -> Mapping[str, Any]:
        """Return what pages quote of the committed logs."""
        return self.contents.numbers(*map(self.read, self.existing_logs()))

    def folder_of(self, paths: Sequence[Path]) -> Path:
        """Return the folder of the pictures of logs: viz/ for all committed ones, another for any others."""
        from highway_lab.figures import picture_folder

        if other := next((path for path in paths if path not in self.log_steps()), None):
            return picture_folder(other, self.log_path())
        return Path("viz") if {*paths} == {*self.existing_logs()} else Path("viz", paths[0].stem)

    def plot(self, arguments: argparse.Namespace) -> None:
        """Print the numbers of logs, and draw all figures."""
        from highway_lab.figures import drawing

        paths = [*map(self.named, arguments.logs)] or self.existing_logs() or [self.log_path()]
        if len(arguments.logs) > (most := len(self.datasets)):
            raise InputError(f"plot: expected at most {most} logs, found {len(arguments.logs)}; name fewer")
        logs = [self.read(path) for path in paths]
        with drawing("the numbers", *paths):
            pprint(plain(self.contents.numbers(*logs)), width=120, compact=True, sort_dicts=False)
        self.draw(arguments, paths, *logs)

    def draw(self, arguments: argparse.Namespace, paths: Sequence[Path], *shown: Any) -> None:
        """Draw all figures of what logs say, and print where they are."""
        from highway_lab.figures import save_all

        pictures = {name: partial(draw, *shown) for name, draw in self.contents.FIGURES.items()}
        for path in save_all(pictures, self.folder_of(paths), *paths, **picture_flags(arguments)):
            print(f"drew {path}")


def plain(of: Any) -> Any:
    """Return numbers as a reader wants them: six digits, intervals and verdicts as texts."""
    if isinstance(of, Mapping):
        return {plain(name): plain(value) for name, value in of.items()}
    if isinstance(of, Interval | str):
        return str(of)
    if isinstance(of, list | tuple | np.ndarray):
        return type(of)(map(plain, of)) if isinstance(of, list) else (*map(plain, of),)
    return float(f"{of:.6g}") if isinstance(of, float | np.floating) else of


def with_ending(path: Path, ending: str) -> Path:
    """Return the path of a further log beside a first one."""
    return path.with_stem(f"{path.stem}-{ending}")


@dataclass(frozen=True)
class ExperimentJob:
    """The runs of one command: flags, data (None if not needed) and the path of the log."""

    experiment: Experiment
    arguments: argparse.Namespace
    dataset: str | None
    data: Dataset | None
    path: Path

    @property
    def smoke(self) -> bool:
        """Whether the budget is one of seconds."""
        return self.arguments.smoke

    def saved_net(self) -> Path | None:
        """Return the path of --model, else of the net of the committed log if it is there; a folder's must be given."""
        usual = self.experiment.nets.get(self.dataset)
        there = usual and not self.smoke and usual.exists()
        path = self.arguments.model or (usual if there else None)
        if not path and self.data.classes:
            found = "expected a net that was trained on the folder's images, found none"
            raise InputError(f"--model: {found}; train one with the same --dataset and --size, and --save-model")
        return path

    def named_after(self, model: Path | None) -> "ExperimentJob":
        """Return the job with its log named after a user's net, by file and content: so no committed log is named.

        Raises InputError for a net that cannot be read or whose path could not stand in a log.
        """
        if model is None or model == self.experiment.nets.get(self.dataset):
            return self
        if not str(model).isprintable():
            raise InputError(f"--model: expected a path of printable characters, found {str(model)!r}; rename it")
        stem = f"{self.path.stem}-{model.stem}-{sha256_of(model)[:8]}"
        return replace(self, path=self.path.with_stem(stem))

    def for_more(self, ending: str) -> "ExperimentJob":
        """Return the job of a further log, whose name ends so; see Experiment.more."""
        return replace(self, path=with_ending(self.path, ending))

    def run_missing(
        self, function: Callable[[Any, Any], ResultT], tasks: Sequence[Any], schema: type[ResultT]
    ) -> list[ResultT]:
        """Return function(task, data) of every task; results that are on disk beside the log are not made again."""
        results = ResultFile(self.path.with_suffix(".jsonl"), schema)
        flags = "to_continue", "jobs", "any_code", "fresh", "scheduler"
        with lock_log(self.path):
            results.check()
            options = {name: getattr(self.arguments, name) for name in flags}
            return run_missing(function, tasks, self.data, results, **options)

    def keep(self, **measured: Any) -> None:
        """Write the log, whose fields beyond the envelope are `measured`, and print its path."""
        data, of = self.data, self.experiment
        info = DatasetInfo(self.dataset, len(data.train_x), len(data.test_x), data.test_set, list(data.classes))
        make_place(self.path)
        highway_lab.logs.write(self.path, of.log.new(self.arguments.command_line, info, **measured))
        named = "" if self.path == of.log_path() else f" {quote(self.path)}"
        print(f"saved {self.path}\nto see it: {of.parser.prog} plot{named}{import_words(imported)}")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; raises InputError if it cannot be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def place_of(name: str) -> str:
    """Return the name of the module of an experiment, in this package or in a room of it."""
    places = [f"experiments.{room}{name}" for room in ("", "looks.")]
    return next(filter(find_spec, places), places[0]) if name.isidentifier() else places[0]


@functools.cache
def load(name: str) -> Experiment:
    """Import an experiment by its last name, such as "lesions"; raises ModuleNotFoundError if there is none."""
    module = importlib.import_module(place_of(name))
    if hasattr(module, "STUDY"):
        return importlib.import_module("experiments.study_command").StudyExperiment(module)
    return module.EXPERIMENT


def load_data(arguments: argparse.Namespace) -> tuple[str, Dataset]:
    """Return name and samples of the data set that the flags ask for; the digits with --smoke."""
    if arguments.smoke:
        return "digits", load_dataset("digits")
    return commands.load_data(arguments.dataset, arguments)


def by_config(runs: Iterable, *names: str) -> dict[tuple, list]:
    """Return runs by the values of the named hyperparameters, sorted."""
    found = grouped(runs, lambda run: tuple(getattr(run.config, name) for name in names))
    return dict(sorted(found.items()))


def points(runs: Iterable) -> np.ndarray:
    """Return the final test accuracy of each run in %; CHANCE for a diverged one."""
    return 100 * np.array([CHANCE if run.diverged else run.history.test_score[-1] for run in runs])
