"""What all studies do alike: train what is missing, keep it in a log, draw it, list it.

    python -m experiments NAME run      train the runs that the study asks for and that its log lacks; resumable
    python -m experiments NAME plot     draw its figures, and say what each cell has chosen
    python -m experiments NAME table    all runs and settings as CSV

A study is a module with STUDY, a Study, or several by the endings of their logs; `numbers(results)`, which its page
quotes beside its constants; FIGURES by file, if any, functions of the same; where training is more than `train` here, a
`train(task, data)` of its own; where a finished log is not all that it leaves, `finish(data, results)`; where a user's
net may be looked into, `of_net(study, path, data)`; and where the images are not MNIST's, DATASET, of all its studies
or by their endings; None if it needs none. While it is being widened, NEXT beside STUDY is what `run --next` trains,
into the same log; page and pictures stay those of STUDY until all is there.
"""

import argparse
import csv
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, get_args

import numpy as np

from highway_lab.cli import OneLineParser, add_picture_flags, import_file, import_words, picture_flags, quote, run_cli
from highway_lab.commands import add_data_flags
from highway_lab.console import count_of
from highway_lab.datasets import DATASETS
from highway_lab.fields import NonEmpty
from highway_lab.files import lock_log, make_place, remove
from highway_lab.intervals import interval
from highway_lab.jobs import ResultFile, add_job_flags, check_of_today, check_scheduler, is_of_today, run_missing
from highway_lab.logs import SCHEMA, DatasetInfo, Log, digest_of_samples, imported, now, write
from highway_lab.logs import read as read_log
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Dataset, InputError, evaluate, rounded

from .common import load_data, sha256_of
from .study import Arm, Measured, Results, Study, StudyRun, Task

RunT = TypeVar("RunT")
ROWS = 512  # samples over which the mean gate is taken
OLDER = "dbb2d6c"  # the commit that reads logs of the form before this one


# -------------------------------------------------------------------------------------------- the log


@dataclass
class StudyLog(Log, Generic[RunT]):
    """The log of a study.

    In the file, `defaults` are the values of the configuration that most runs have, and a run holds those that differ;
    of what was `measured`, a run holds what is not null; cells and environments are listed once, and a run holds the
    index of its own.
    """

    runs: NonEmpty[RunT]

    def packed(self) -> dict[str, Any]:
        """Return what the file holds."""
        raw = asdict(self)
        runs, cells, environments = raw.pop("runs"), [], []
        configs = [run["task"]["config"] for run in runs]
        defaults = {name: Counter(of[name] for of in configs).most_common(1)[0][0] for name in (configs or [{}])[0]}
        measured = [*dict.fromkeys(name for run in runs for name in run["measured"])]
        for run in runs:
            task = run["task"]
            run["environment"] = index_in(environments, run["environment"])
            task["cell"] = index_in(cells, task["cell"])
            task["config"] = {name: value for name, value in task["config"].items() if value != defaults[name]}
            run["measured"] = {name: value for name, value in run["measured"].items() if value is not None}
        listed = {"environments": environments, "cells": cells, "defaults": defaults, "measured": measured}
        return {**raw, **listed, "runs": runs}

    @staticmethod
    def unpacked(raw: Any, schema: Any) -> Any:
        """Return the fields of a log, given what its file holds; raises ValueError for one that is of no study."""
        (of_run,) = get_args(schema)
        if "defaults" not in raw:
            raise ValueError(f"one of no study, or of an older form, which commit {OLDER} reads")
        environments, cells, defaults = (raw.pop(name) for name in ("environments", "cells", "defaults"))
        nothing = dict.fromkeys(raw.pop("measured"))
        for run in raw["runs"]:
            task = run["task"]
            if min(run["environment"], task["cell"]) < 0:
                raise IndexError
            run["environment"], task["cell"] = environments[run["environment"]], cells[task["cell"]]
            task["config"], run["measured"] = defaults | task["config"], nothing | run["measured"]
            StudyRun.unpacked(run, of_run)
        return raw


def index_in(listed: list, item: Any) -> int:
    """Return the index of an item in a list, to which it is added if it is not there."""
    if item not in listed:
        listed.append(item)
    return listed.index(item)


def schema_of(study: Study) -> Any:
    """Return the type of a study's runs."""
    return StudyRun[type(study.cells[0]), study.config, study.measured]


# ------------------------------------------------------------------------------------------- training


def train_task(module: str, task: Task, data: Dataset) -> StudyRun:
    """Train one run of the study in a module, which may have a `train` of its own, with one BLAS thread."""
    with one_thread():
        return getattr(import_module(module), "train", train)(task, data)


def train(
    task: Task,
    data: Dataset,
    *,
    columns: Sequence[str] = (),
    judged: tuple[np.ndarray, np.ndarray] | None = None,
    measure: Callable[..., Any] = lambda net, x, y, common: common,
) -> StudyRun:
    """Train one net and measure it after its last epoch.

    columns   of the history that a result keeps
    judged    samples (x, y) that score the run; else the test samples of a result, the validation samples, if there are
              any, of a run that chooses
    measure   makes the record of what was measured, given the net, the judged samples, and Measured
    """
    training, columns = Training(task.config, data), columns if task.result else ()
    for _ in training.epochs(scored=bool(columns)):
        pass
    net, own = training.net, training.data
    if judged is None:
        judged = (own.test_x, own.test_y) if task.result else training.validation
    loss, _ = evaluate(net, own.train_x, own.train_y, training.loss)
    diverged = training.diverged or not math.isfinite(loss)
    scored = len(judged[0]) and not diverged
    score_loss, score = map(rounded, evaluate(net, *judged, training.loss)) if scored else (None, None)
    x = net.preprocess((judged[0] if scored else own.train_x)[:ROWS])
    depth = rounded(net.gate_means(x).sum(), digits=4) if net.has_gates and not diverged else None
    clipped = rounded(net.clipped) if hasattr(net, "clipped") else None
    common = Measured(clipped, None if diverged else rounded(loss), score, depth, score_loss)
    measured = measure(net, *judged, common)
    history = {name: getattr(training.history, name) for name in columns}
    n_trained = getattr(net, "n_trained", net.params.flat.size)
    return StudyRun(None, task, n_trained, diverged, history, measured)


def keep_net(path: Path, config: Any, data: Dataset) -> None:
    """Train a net that other experiments look into, and save it, unless it is there."""
    if not path.exists():
        print(f"{path}: training the net that was chosen")
        training = Training(config, data)
        for _ in training.epochs(scored=False):
            pass
        make_place(path)
        training.net.save(path)
        print(f"saved {path}")


# ------------------------------------------------------------------------------------------ the command


COLUMNS = (
    "Print all runs and their settings as CSV. result: the stage that scored the run, empty where it only helped to "
    "choose; chosen_by: the criteria, each the less the better, by whose mean this setting of the cell is the best."
)


@dataclass(frozen=True)
class Job:
    """The runs of one command: flags, data set (None if not needed) and the path of the log."""

    arguments: argparse.Namespace
    dataset: str | None
    data: Dataset | None
    path: Path

    def named_after(self, model: Path) -> "Job":
        """Return the job with its log named after a user's net, by file and content: so no committed log is named.

        Raises InputError for a net that cannot be read or whose path could not stand in a log.
        """
        if not str(model).isprintable():
            raise InputError(f"--model: expected a path of printable characters, found {str(model)!r}; rename it")
        return replace(self, path=with_ending(self.path, f"{model.stem}-{sha256_of(model)[:8]}"))


class Experiment:
    """One question: the study of a module, or several by the endings of their logs; its commands, logs and pictures."""

    def __init__(self, module: ModuleType):
        self.contents, self.module, self.name = module, module.__name__, module.__name__.rpartition(".")[-1]
        self.studies = by_ending(module.STUDY)
        self.next = self.studies | by_ending(getattr(module, "NEXT", {}))
        self.known = self.next | self.studies
        self.first = next(iter(self.studies))
        of = getattr(module, "DATASET", "mnist")
        self.datasets = {name: of.get(name, "mnist") if isinstance(of, dict) else of for name in self.known}
        self.log = StudyLog[schema_of(self.studies[self.first])]
        self.looks = hasattr(module, "of_net")  # whether a user's net may take the place of its own
        self.doc = (module.__doc__ or self.name).splitlines()[0]  # python -OO strips docstrings
        self.parser = OneLineParser(prog=f"python -m experiments {self.name}", description=self.doc)
        self.add_commands()

    def add_commands(self) -> None:
        texts = {
            "run": (self.run, "train what is missing; resumable"),
            "plot": (self.plot, "draw the figures of logs, and say what each cell has chosen"),
            "table": (self.print_table, "print all runs and their settings as CSV"),
        }
        commands = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for name, (action, help) in texts.items():
            parser = commands.add_parser(name, help=help, description=COLUMNS if name == "table" else help)
            parser.set_defaults(action=action, study=self.first, next=False, model=None)
            if name == "run":
                if self.datasets[self.first]:
                    add_data_flags(parser, self.datasets[self.first], folders=False)
                    parser.set_defaults(dataset=None)
                parser.add_argument("--smoke", action="store_true", help="take a budget of seconds, on the digits")
                add_job_flags(parser)
                if self.next != self.studies:
                    parser.add_argument("--next", action="store_true", help="train the wider form, into the same log")
                if self.looks:
                    parser.add_argument("--model", type=Path, metavar="NET.npz", help="look into another net")
            else:
                parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="default: the committed ones")
            if name == "plot":
                add_picture_flags(parser)
            text = "a file with kinds of net of your own, ARMS, which are tuned and drawn beside ours"
            parser.add_argument("--with", dest="own", metavar="FILE.py", type=Path, help=text)
            choices = [*(self.studies if name == "plot" else self.known)]
            if len(choices) > 1:  # the first may have no name
                parser.add_argument("--study", choices=[*filter(None, choices)], help="default: the first")

    def main(self, argv: list[str] | None = None) -> int:
        return run_cli(self.parser, lambda arguments: arguments.action(arguments), argv)

    @property
    def figures(self) -> Mapping[str, Callable[..., Any]]:
        return getattr(self.contents, "FIGURES", {})

    # ---- logs

    def log_path(self, ending: str | None = None, smoke: bool = False) -> Path:
        """Return runs/NAME.json, NAME-ENDING.json, or NAME-smoke.json."""
        return Path("runs", f"{'-'.join(filter(None, (self.name, 'smoke' * smoke, ending)))}.json")

    def log_steps(self) -> dict[Path, list[str]]:
        """Return the paths of the committed logs, and the step that makes each."""
        return {self.log_path(of): ["run", *(["--study", of] if of else [])] for of in self.studies}

    def existing_logs(self) -> list[Path]:
        """Return the paths of the committed logs that exist."""
        return [path for path in self.log_steps() if path.exists()]

    def named(self, path: Path) -> Path:
        """Return a path as `log_steps` has it, if it leads to one of these logs."""
        return next((log for log in self.log_steps() if os.path.realpath(log) == os.path.realpath(path)), path)

    def read(self, path: Path, remedy: str | None = None) -> StudyLog:
        """Read a log of this experiment; raises InputError unless a committed one is of its own data set."""
        path, steps, usual = self.named(path), self.log_steps(), self.datasets[self.first]
        own = {self.log_path(of): self.datasets[of] for of in self.studies}
        steps |= {self.log_path(of, smoke=True): [*steps[self.log_path(of)], "--smoke"] for of in self.studies}
        remedy = remedy or " ".join(["make it with", self.parser.prog, *steps.get(path, ["run"])])
        log = read_log(path, self.log, remedy)
        found = name_of(log)
        if found != own[path] if path in own else bool(found) != bool(usual):
            expected = own.get(path) or ("a data set" if usual else "none")
            raise InputError(f"{path}: expected the log of {expected}, found one of {found or 'none'}; {remedy}")
        return log

    def quoted(self) -> Mapping[str, Any]:
        """Return what pages quote of the committed logs, and of the constants of the module."""
        plain = (int, float, str, tuple, dict, range)
        constants = {name: of for name, of in vars(self.contents).items() if name.isupper() and isinstance(of, plain)}
        return constants | self.contents.numbers(self.in_one(self.committed()))

    def committed(self) -> dict[str, Results]:
        """Return what the committed logs have of each study, by the ending of its log."""
        logs = {of: self.read(path) for of in self.studies if (path := self.log_path(of)).exists()}
        return {
            of: Results(study, logs[of].runs, logs[of].dataset) if of in logs else Results(study, [])
            for of, study in self.studies.items()
        }

    def load(self, arguments: argparse.Namespace) -> tuple[dict[str, Results], list[Path]]:
        """Return what is there of each study, by the ending of its log, and the logs: those that are committed, or LOG.

        With arms of a user's own, the study that they belong to has their cells and runs, too.
        """
        if len(arguments.logs) > 1:
            found = f"expected one log, found {len(arguments.logs)}"
            raise InputError(f"{arguments.command}: {found}; name one, or none for the committed ones")
        own, ending = arguments.own, arguments.study
        if own:
            arms_of(own)  # whose blocks a log of theirs names
        logs = {of: [path] for of in self.studies if (path := self.log_path(of)).exists()}
        beside = self.log_with(self.log_path(ending), own) if own else None
        if given := self.named(arguments.logs[0]) if arguments.logs else beside:
            ending = next((of for of in logs if logs[of] == [given]), ending)
            log = self.read(given, own and f"make it with {self.parser.prog} run --with {quote(own)}")
            ours = [(path, self.read(path)) for path in logs.get(ending, ()) if own]
            alike = [path for path, of in ours if (name_of(of), is_smoke(of)) == (name_of(log), is_smoke(log))]
            logs = {ending: [*alike, given]}
        elif ending:
            logs = {ending: logs.get(ending, [self.log_path(ending)])}
        found = {}
        for of, paths in (logs or {ending: [self.log_path(ending)]}).items():
            read = [log if path == given else self.read(path) for path in paths]
            if other := next((log.command for log in read if self.name not in re.split("[ .]", log.command)), None):
                raise InputError(
                    f"{paths[-1]}: expected a log of {self.name}, found one of {other!r:.80}; name another"
                )
            study, runs = self.known[of], [run for log in read for run in log.runs]
            study = with_own(study, own) if own and of == ending else study
            study = study.small() if is_smoke(read[0]) else study
            if self.looks and not {run.cell for run in runs} <= {*study.cells}:
                study = study.of({run.cell: run.config for run in runs})
            found[of] = Results(study, runs, read[0].dataset)
        return found, [path for paths in logs.values() for path in paths]

    def in_one(self, results: dict[str, Results]) -> Any:
        """Return what the functions of the module take: results of its only study, or of several by their endings."""
        return results[""] if [*self.studies] == [""] else results

    # ---- train

    def run(self, arguments: argparse.Namespace) -> None:
        """Train what the study asks for, until nothing is missing; the log is written after each batch of runs."""
        ending, data, name = arguments.study, None, None
        studies = self.next if arguments.next else self.studies
        if self.datasets[ending]:
            if ending == self.first and arguments.dataset in studies:
                ending = arguments.dataset
            arguments.dataset = arguments.dataset or self.datasets[ending]
            name, data = load_data(arguments)
        if ending not in studies:
            raise InputError(f"--study: expected one of STUDY, found {ending} of NEXT; add --next")
        study, path = studies[ending], self.log_path(ending, arguments.smoke)
        if name != self.datasets[ending] and not arguments.smoke:
            path = with_ending(path, name)
        job = Job(arguments, name, data, path)
        if arguments.own:
            both, job = with_own(study, arguments.own), replace(job, path=self.log_with(job.path, arguments.own))
            study = both.only(both.arms.keys() - study.arms.keys())
        if arguments.model:
            study, job = self.contents.of_net(study, arguments.model, data), job.named_after(arguments.model)
        elif self.looks and name != self.datasets[ending] and not arguments.smoke:
            found = f"expected a net that was trained on {name}, found none"
            raise InputError(f"--model: {found}; train one with the same --dataset, and --save-model")
        elif arguments.smoke:
            study = study.small()
        with lock_log(job.path):
            self.train_all(job, study)
            if job.path == self.log_path(ending) and hasattr(self.contents, "finish"):
                self.contents.finish(job.data, Results(study, self.read(job.path).runs))
        words = [quote(job.path)] * (job.path != self.log_path()) + [f"--study {ending}"] * bool(ending)
        words += [f"--with {quote(arguments.own)}"] if arguments.own else []
        command = "plot" if ending in self.studies else "table"
        others = import_words([file for file in imported if file != str(arguments.own)])
        print(f"to see it: {' '.join([self.parser.prog, command, *words])}{others}")

    def train_all(self, job: Job, study: Study) -> None:
        """Train the runs that a study asks for and its log lacks; what was there is forgotten once all is checked."""
        arguments, schema, fresh = job.arguments, schema_of(study), job.arguments.fresh
        lines = ResultFile(job.path.with_suffix(".jsonl"), schema)
        lines.check()
        logged = self.logged(job) if not fresh else {}
        found = by_task(lines.read()) if not fresh else {}
        runs = logged | {task: run for task, run in found.items() if task not in logged}
        least = sys.maxsize if arguments.scheduler or arguments.smoke else arguments.jobs
        tasks, samples = Results(study, runs.values()).next_tasks(least), digest_of_samples(job.data)
        others = [of for of in logged if not is_of_today(of, logged[of].environment, samples)]
        if not tasks and runs.keys() == logged.keys():
            other = f", but {count_of(len(others), 'run')} by other code" if others else ""
            print(f"{job.path}: nothing is missing{other}; to train all anew: {arguments.to_continue} --fresh")
        else:
            if not arguments.any_code:
                check_of_today(job.path, others)
            if arguments.scheduler:
                check_scheduler(arguments.scheduler)
            if fresh:
                remove(job.path)
                lines.clear()
        options = {name: getattr(arguments, name) for name in ("to_continue", "jobs", "any_code", "scheduler")}
        while tasks:
            made = run_missing(partial(train_task, self.module), tasks, job.data, lines, **options)
            runs |= by_task(made)
            self.write(job, runs)
            tasks = Results(study, runs.values()).next_tasks(least)
        if runs.keys() != logged.keys():
            self.write(job, runs)
            print(f"saved {job.path}")
        lines.clear()

    def logged(self, job: Job) -> dict[Task, StudyRun]:
        """Return the runs that a job's log holds; raises InputError if they are of another data set."""
        if not job.path.exists():
            return {}
        log = self.read(job.path, remedy := "move the file, or begin anew (--fresh)")
        if name_of(log) != job.dataset:
            found = f"expected runs on {job.dataset}, found runs on {name_of(log)}"
            raise InputError(f"{job.path}: {found}; {remedy}")
        return by_task(log.runs)

    def log_with(self, path: Path, own: Path) -> Path:
        """Return the path of the log of a user's own arms; raises InputError if another log has its name."""
        if own.stem in {*self.known, *DATASETS, "smoke"}:
            expected = f"expected a name that no log of {self.name} ends with"
            raise InputError(f"{own}: {expected}, found {own.stem}; rename the file")
        return with_ending(path, own.stem)

    def write(self, job: Job, runs: Mapping[Task, StudyRun]) -> None:
        """Write the log of a job; its environment is that of the newest run."""
        *_, newest = runs.values()
        sizes = newest.config.n_train, newest.config.n_test
        info = job.data and DatasetInfo(job.dataset, *sizes, job.data.test_set, list(job.data.classes))
        made = SCHEMA, now(), job.arguments.command_line, info, newest.environment
        make_place(job.path)
        write(job.path, self.log(*made, runs=[*runs.values()]))

    # ---- draw and list

    def plot(self, arguments: argparse.Namespace) -> None:
        """Draw the figures of a study's logs, and say what each cell has chosen, and what is missing."""
        from highway_lab.figures import drawing, save_all

        results, paths = self.load(arguments)
        for of in results.values():
            with drawing("a summary", *paths):
                print(summary(of), end="\n\n")
        shown = self.in_one(results)
        pictures = {name: partial(draw, shown) for name, draw in self.figures.items()}
        for path in save_all(pictures, self.folder_of(paths), *paths, **picture_flags(arguments)):
            print(f"drew {path}")

    def folder_of(self, paths: Sequence[Path]) -> Path:
        """Return the folder of the pictures of logs: viz/ for all committed ones, another for any others."""
        from highway_lab.figures import picture_folder

        if other := next((path for path in paths if path not in self.log_steps()), None):
            return picture_folder(other, self.log_path())
        return Path("viz") if {*paths} == {*self.existing_logs()} else Path("viz", paths[0].stem)

    def print_table(self, arguments: argparse.Namespace) -> None:
        """Print all runs of a log as CSV: cell, setting, by which criteria that was chosen, seed, what was measured."""
        results, _ = self.load(arguments)
        rows = [row for of in results.values() for row in rows_of(of)]
        writer = csv.DictWriter(sys.stdout, [*dict.fromkeys(name for row in rows for name in row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def with_ending(path: Path, ending: str) -> Path:
    """Return the path of a further log beside a first one."""
    return path.with_stem(f"{path.stem}-{ending}")


def by_ending(studies: Study | Mapping[str, Study]) -> dict[str, Study]:
    """Return studies by the endings of their logs; a single one has none."""
    return {"": studies} if isinstance(studies, Study) else dict(studies)


def by_task(runs: Iterable[StudyRun]) -> dict[Task, StudyRun]:
    return {run.task: run for run in runs}


def name_of(log: StudyLog) -> str | None:
    """Return the name of a log's data set; None if it has none."""
    return log.dataset and log.dataset.name


def is_smoke(log: StudyLog) -> bool:
    """Tell whether a log is one of runs of seconds, of a smaller study."""
    return "--smoke" in log.command.split()


def arms_of(file: Path) -> dict[str, Arm]:
    """Import a user's file and return its arms; raises InputError for a file that has none."""
    if str(file) not in imported:
        import_file(str(file), "--with")
    arms = getattr(sys.modules[file.stem], "ARMS", None)
    if not (isinstance(arms, dict) and arms and all(isinstance(of, Arm) for of in arms.values())):
        expected = 'expected ARMS = {"a name": Arm(...)} in it, arms of experiments.study'
        raise InputError(f"{file}: {expected}, found {arms!r:.60}; add it")
    if wrong := [name for name in arms if not (isinstance(name, str) and name.isprintable() and len(name) <= 60)]:
        expected = "expected names of at most 60 printable characters"
        raise InputError(f"{file}: {expected}, found {wrong[0]!r:.60}; rename it")
    return arms


def with_own(study: Study, file: Path) -> Study:
    """Return a study with the arms of a user's file; raises InputError if they make no nets."""
    arms = arms_of(file)
    try:
        both = study.with_arms({name: arm._replace(grid=plain_grid(arm)) for name, arm in arms.items()})
        for cell in both.only(arms).cells:
            for stage, setting in product(both.stages, both.grid(cell)):
                both.task(cell, stage, setting, 0)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    except Exception as error:  # whatever a user's function raises
        expected = "expected arms with options that name a block, and with a grid of some values by hyperparameter"
        raise InputError(f"{file}: {expected}, found: {type(error).__name__}: {error}; mend it") from error
    return both


def plain_grid(arm: Arm) -> dict[str, tuple]:
    """Return the grid of an arm with Python's own numbers, as a log gives them back; raises ValueError without any."""
    grid = {name: tuple(np.asarray(values).tolist()) for name, values in arm.grid.items()}
    if empty := [name for name, values in grid.items() if not values]:
        raise ValueError(f"no value of {empty[0]}")
    return grid


def summary(results: Results) -> str:
    """Return a line for each cell: its choice, what the first criterion says of it, what was not tried beside it."""
    criterion, judge = next(iter(results.study.criteria.items()))
    lines = []
    for cell in results.study.cells:
        name, names = ", ".join(str(of) for of in asdict(cell).values() if of != ""), results.study.arms[cell.arm].grid
        chosen = results.chosen(cell)
        settings = {chosen: results.scored(cell)} if chosen else results.settings(cell)
        for setting, runs in settings.items():
            words = ", ".join(f"{of} {value}" for of, value in zip(names, setting, strict=True))
            found = (
                f"{criterion} {interval([judge(run) for run in runs]):.4g}, n = {len(runs)}"
                if runs
                else "no result yet"
            )
            untried = f"; beside it never tried: {', '.join(results.untried(cell))}" * bool(results.untried(cell))
            lines.append(f"{name}: {'; '.join(filter(None, [words, found]))}{untried}")
        if not settings:
            lines.append(f"{name}: {count_of(len(results.tries(cell)), 'run')} that choose, no choice yet")
    unfinished = len(results.study.cells) - len(results.finished)
    lines.append(f"{count_of(len(results.runs), 'run')}, {len(results.superfluous)} of them superfluous")
    return "\n".join([*lines, *([f"{count_of(unfinished, 'cell')} unfinished"] if unfinished else [])])


def setting_of(study: Study, run: StudyRun) -> dict[str, Any]:
    """Return a run's hyperparameters by name; all in one where the study does not have its arm, or has another."""
    names = study.arms[run.cell.arm].grid if run.cell.arm in study.arms else ()
    return dict(zip(names, run.setting, strict=True)) if len(names) == len(run.setting) else {"setting": run.setting}


def rows_of(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the cells of each run's row in a table, the criteria that have chosen its setting among them."""
    study = results.study
    chosen = {(cell, name): results.chosen(cell, name) for cell in study.cells for name in study.criteria}
    for run in results.runs:
        measured = {name: value for name, value in vars(run.measured).items() if isinstance(value, int | float)}
        yield {
            **asdict(run.cell),
            "result": run.task.result,
            **setting_of(study, run),
            "chosen_by": " and ".join(of for of in study.criteria if chosen.get((run.cell, of)) == run.setting),
            "epochs": run.config.epochs,
            "seed": run.config.seed,
            "n_trained": run.n_trained,
            "diverged": run.diverged,
            **measured,
            "commit": run.environment and run.environment.commit,
        }
