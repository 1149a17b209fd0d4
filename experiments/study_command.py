"""What all studies do alike: train what is missing, keep it in a log, draw it, list it.

    python -m experiments NAME run      train the runs that the study asks for and that its log lacks; resumable
    python -m experiments NAME plot     draw its figures, and say what each cell has chosen
    python -m experiments NAME table    all runs and settings as CSV

A study is a module with STUDY, a Study, or several by the endings of their logs, the first of which is ""; with
`numbers(results)`, which its page quotes beside its constants; FIGURES by file, if any, functions of the same; where
training is more than `train` here, a `train(task, data)` of its own; where a finished log is not all that it leaves,
`finish(data, results)`; where a user's net may be looked into, `of_net(study, path, data)`; and where the images are
not MNIST's, DATASET, of all its studies or by their endings; None if it needs none. While it is being widened, NEXT
beside STUDY is what `run --next` trains, into the same log; page and pictures stay those of STUDY until all is there.
"""

import argparse
import csv
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, get_args

import numpy as np
from tqdm import tqdm

from highway_lab.cli import OneLineParser, add_picture_flags, import_file, import_words, picture_flags, quote, run_cli
from highway_lab.commands import add_data_flags, load_data
from highway_lab.console import count_of
from highway_lab.fields import NonEmpty
from highway_lab.files import lock_log, make_place, remove
from highway_lab.intervals import interval
from highway_lab.jobs import ResultFile, add_job_flags, check_of_today, check_scheduler, is_of_today, run_missing
from highway_lab.logs import SCHEMA, DatasetInfo, Log, digest_of_samples, imported, loads, now, write
from highway_lab.logs import read as read_log
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Dataset, InputError, evaluate, rounded

from .common import sha256_of
from .study import Measured, Results, Study, StudyRun, Task, look_at

RunT = TypeVar("RunT")
ROWS = 512  # samples over which the mean gate is taken


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
        """Return the fields of a log, given what its file holds.

        Hyperparameters and measures that came later have their defaults.
        """
        _, config, measured = get_args(get_args(schema)[0])
        environments, cells, defaults = (raw.pop(name) for name in ("environments", "cells", "defaults"))
        defaults = asdict(config()) | defaults
        nothing = dict.fromkeys([*raw.pop("measured"), *(of.name for of in fields(measured))])
        for run in raw["runs"]:
            task = run["task"]
            run["environment"], task["cell"] = environments[run["environment"]], cells[task["cell"]]
            task["config"], run["measured"] = defaults | task["config"], nothing | run["measured"]
        return raw


def index_in(listed: list, item: Any) -> int:
    """Return the index of an item in a list, to which it is added if it is not there."""
    if item not in listed:
        listed.append(item)
    return listed.index(item)


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
    """Train a net that is looked into, and save it, unless it is there; raises InputError if training diverges."""
    if not path.exists():
        training = Training(config, data)
        for _ in tqdm(training.epochs(scored=False), path.name, config.epochs, leave=False, disable=None):
            pass
        if training.diverged:
            raise InputError(f"{path}: expected a net to look into, found that lr {config.lr} diverged; lower it")
        make_place(path)
        training.net.save(path)


# ------------------------------------------------------------------------------------------ the command


class Experiment:
    """One question: the study of a module, or several by the endings of their logs; its commands, logs and pictures."""

    def __init__(self, module: ModuleType):
        self.contents, self.module, self.name = module, module.__name__, module.__name__.rpartition(".")[-1]
        wider = getattr(module, "NEXT", {})
        self.studies = {"": module.STUDY} if isinstance(module.STUDY, Study) else module.STUDY
        self.next = self.studies | ({"": wider} if isinstance(wider, Study) else wider)
        self.known = self.next | self.studies
        self.paths = {of: self.log_path(of) for of in self.studies}  # of the committed logs
        of = getattr(module, "DATASET", "mnist")
        self.datasets = {name: of.get(name, "mnist") if isinstance(of, dict) else of for name in self.known}
        self.figures: Mapping[str, Callable[..., Any]] = getattr(module, "FIGURES", {})
        first = self.studies[""]
        self.schema = StudyRun[type(first.cells[0]), first.config, first.measured]
        self.log = StudyLog[self.schema]
        self.looks = hasattr(module, "of_net")  # whether a user's net may take the place of its own
        self.doc = (module.__doc__ or self.name).splitlines()[0]  # python -OO strips docstrings
        self.parser = OneLineParser(prog=f"python -m experiments {self.name}", description=self.doc)
        self.add_commands()

    def add_commands(self) -> None:
        texts = {
            "run": (self.run, "train what is missing; resumable"),
            "plot": (self.plot, "draw the figures of logs, and say what each cell has chosen"),
            "table": (self.print_table, "print all runs as CSV; chosen_by: criteria by which a setting is the best"),
        }
        commands = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for name, (action, help) in texts.items():
            parser = commands.add_parser(name, help=help, description=help)
            parser.set_defaults(action=action, study="", next=False, model=None)
            if name == "run":
                if self.datasets[""]:
                    add_data_flags(parser, self.datasets[""], folders=False)
                    parser.set_defaults(dataset=None)
                parser.add_argument("--smoke", action="store_true", help="take a budget of seconds, on the digits")
                add_job_flags(parser)
                if self.next != self.studies:
                    parser.add_argument("--next", action="store_true", help="train the wider form, into the same log")
                if self.looks:
                    parser.add_argument("--model", type=Path, metavar="NET.npz", help="look into another net")
            else:
                parser.add_argument("log", nargs="?", type=Path, metavar="LOG", help="default: the committed ones")
            if name == "plot":
                add_picture_flags(parser)
            text = "a file with kinds of net of your own, ARMS, which are tuned and drawn beside ours"
            parser.add_argument("--with", dest="own", metavar="FILE.py", type=Path, help=text)
            choices = [*(self.studies if name == "plot" else self.known)]
            if len(choices) > 1:
                parser.add_argument("--study", choices=[*filter(None, choices)], help="default: the first")

    def main(self, argv: list[str] | None = None) -> int:
        return run_cli(self.parser, lambda arguments: arguments.action(arguments), argv)

    # ---- logs

    def log_path(self, *endings: str) -> Path:
        """Return runs/NAME.json or, with endings that are not empty, NAME-ENDING.json."""
        return Path("runs", f"{'-'.join([self.name, *filter(None, endings)])}.json")

    def existing_logs(self) -> list[Path]:
        """Return the paths of the committed logs that exist."""
        return [*filter(Path.exists, self.paths.values())]

    def results(self, study: Study, *paths: Path) -> Results:
        """Return what logs have of a study, in its small form if their command is, of other nets if they have such."""
        logs = [*map(self.read, paths)]
        runs = [run for log in logs for run in log.runs]
        if logs and "--smoke" in logs[0].command.split():
            study = study.small()
        if self.looks and not {run.cell for run in runs} <= {*study.cells}:
            study = look_at(study.measured, {run.cell: run.config for run in runs})
        return Results(study, runs, logs[0].dataset if logs else None)

    def read(self, path: Path, remedy: str = "") -> StudyLog:
        """Read a log; raises InputError unless it is one of this experiment."""
        remedy = remedy or f"make it with {self.parser.prog} run"
        log = read_log(path, self.log, remedy)
        if self.name not in re.split("[ .]", log.command):
            raise InputError(f"{path}: expected a log of {self.name}, found one of {log.command!r:.80}; {remedy}")
        return log

    def quoted(self) -> Mapping[str, Any]:
        """Return what pages quote of the committed logs, and of the constants of the module."""
        constants = {name: of for name, of in vars(self.contents).items() if name.isupper()}
        return constants | self.contents.numbers(self.in_one(self.committed()))

    def committed(self) -> dict[str, Results]:
        """Return what the committed logs have of each study, by the ending of its log."""
        return {of: self.results(self.studies[of], *filter(Path.exists, [path])) for of, path in self.paths.items()}

    def load(self, arguments: argparse.Namespace) -> tuple[dict[str, Results], list[Path]]:
        """Return what is there of each study, by the ending of its log, and the logs: those that are committed, or LOG.

        With arms of a user's own, the study that they belong to has their cells and runs, too.
        """
        own, ending, given = arguments.own, arguments.study, arguments.log
        if not (own or ending or given) and (paths := self.existing_logs()):
            return {of: self.results(self.known[of], path) for of, path in self.paths.items() if path in paths}, paths
        given = given or self.log_path(ending, f"with-{own.stem}" if own else "")
        for of, path in self.paths.items():
            if os.path.realpath(path) == os.path.realpath(given):  # by whatever path
                ending, given = of, path
        if own and not given.exists():
            remedy = f"make it with {self.parser.prog} run --with {own}"
            raise InputError(f"{given}: expected a log, found none; {remedy}")
        study, beside = self.known[ending], []
        if own:
            study, path = with_own(study, own), given.with_stem(given.stem.removesuffix(f"-with-{own.stem}"))
            beside = [path] if path != given and path.exists() else []
        return {ending: self.results(study, *beside, given)}, [*beside, given]

    def in_one(self, results: dict[str, Results]) -> Any:
        """Return what the functions of the module take: results of its only study, or of several by their endings."""
        return results[""] if len(self.studies) == 1 else results

    # ---- train

    def run(self, arguments: argparse.Namespace) -> None:
        """Train what the study asks for, until nothing is missing."""
        ending, own, smoke, data, name = arguments.study, arguments.own, arguments.smoke, None, None
        studies = self.next if arguments.next else self.known
        if usual := self.datasets[ending]:
            ending = ending or (arguments.dataset if arguments.dataset in studies else "")
            usual = self.datasets[ending]
            name, data = load_data("digits" if smoke else arguments.dataset or usual, arguments)
        study, endings = studies[ending], ["smoke", ending] if smoke else [ending, name if name != usual else ""]
        if own:
            both = with_own(study, own)
            study = replace(both, cells=both.cells[len(study.cells) :])
            endings.append(f"with-{own.stem}")
        if arguments.model:
            study = self.contents.of_net(study, arguments.model, data)
            endings.append(f"{arguments.model.stem}-{sha256_of(arguments.model)[:8]}")  # so no committed log is named
        elif smoke:
            study = study.small()
        elif self.looks and name != usual:
            found = f"expected a net that was trained on {name}, found none"
            raise InputError(f"--model: {found}; train one with the same --dataset, and --save-model")
        path = self.log_path(*endings)
        with lock_log(path):
            self.train_all(study, path, name, data, arguments)
            if path == self.log_path(ending) and hasattr(self.contents, "finish"):
                self.contents.finish(data, Results(study, self.read(path).runs))
        if ending in self.studies:
            words = [quote(path)] * (path != self.log_path()) + [f"--study {ending}"] * bool(ending)
            words += [f"--with {quote(own)}"] if own else []
            others = import_words([file for file in imported if file != str(own)])
            print(f"to see it: {' '.join([self.parser.prog, 'plot', *words])}{others}")

    def train_all(
        self, study: Study, path: Path, name: str | None, data: Dataset | None, arguments: argparse.Namespace
    ) -> None:
        """Train the runs that a study asks for and its log lacks; what was there is forgotten once all is checked.

        The log is written after each batch of runs; meanwhile each finished run is a line beside it.
        """
        lines = ResultFile(path.with_suffix(".jsonl"), self.schema)
        lines.check()
        logged, runs = {}, {}
        if not arguments.fresh:
            logged = by_task(self.read(path, "move the file, or begin anew (--fresh)").runs) if path.exists() else {}
            runs = logged | by_task(lines.read()) | logged
        least = sys.maxsize if arguments.scheduler or arguments.smoke else arguments.jobs
        tasks, samples = Results(study, runs.values()).next_tasks(least), digest_of_samples(data)
        others = [of for of in logged if not is_of_today(of, logged[of].environment, samples)]
        if not tasks and runs.keys() == logged.keys():
            other = f", but {count_of(len(others), 'run')} by other code" if others else ""
            print(f"{path}: nothing is missing{other}; to train all anew: {arguments.to_continue} --fresh")
            lines.clear()
            return
        wanted = max(of.config.n_train + of.config.n_validation for of in tasks or runs) if data else 0
        if data and wanted > len(data.train_x):
            found = f"expected at least {wanted:,} training images, as the rules say, found {len(data.train_x):,}"
            raise InputError(f"--dataset: {found}; choose another, or --smoke")
        if not arguments.any_code:
            check_of_today(path, others)
        if arguments.fresh:
            if arguments.scheduler:
                check_scheduler(arguments.scheduler)
            remove(path)
            lines.clear()
        options = {of: getattr(arguments, of) for of in ("to_continue", "jobs", "any_code", "scheduler")}
        while tasks or runs.keys() != logged.keys():
            runs |= by_task(run_missing(partial(train_task, self.module), tasks, data, lines, **options))
            *_, newest = runs.values()
            config = newest.config
            info = data and DatasetInfo(name, config.n_train, config.n_test, data.test_set, [*data.classes])
            write(path, self.log(SCHEMA, now(), arguments.command_line, info, newest.environment, [*runs.values()]))
            logged, tasks = runs, Results(study, runs.values()).next_tasks(least)
        print(f"saved {path}")
        lines.clear()

    # ---- draw and list

    def plot(self, arguments: argparse.Namespace) -> None:
        """Draw the figures of a study's logs, and say what each cell has chosen, and what is missing."""
        from highway_lab.figures import drawing, picture_folder, save_all

        results, paths = self.load(arguments)
        for of in results.values():
            with drawing("a summary", *paths):
                print(summary(of), end="\n\n")
        folder = Path("viz") if paths == self.existing_logs() else picture_folder(paths[-1], Path(self.name))
        shown = self.in_one(results)
        pictures = {name: partial(draw, shown) for name, draw in self.figures.items()}
        for path in save_all(pictures, folder, *paths, **picture_flags(arguments)):
            print(f"drew {path}")

    def print_table(self, arguments: argparse.Namespace) -> None:
        """Print all runs of a log as CSV: cell, setting, by which criteria that was chosen, seed, what was measured."""
        results, _ = self.load(arguments)
        rows = [row for of in results.values() for row in rows_of(of)]
        writer = csv.DictWriter(sys.stdout, [*dict.fromkeys(name for row in rows for name in row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def by_task(runs: Iterable[StudyRun]) -> dict[Task, StudyRun]:
    return {run.task: run for run in runs}


def with_own(study: Study, file: Path) -> Study:
    """Return a study with a user's arms beside its own; raises InputError unless they make nets that a log can hold."""
    if str(file) not in imported:
        import_file(str(file), "--with")
    if study.own is None:
        raise InputError("--with: expected a study that takes nets of one's own, found another; try small_nets")
    try:
        arms = sys.modules[file.stem].ARMS
        if taken := arms.keys() & study.arms.keys():
            raise InputError(f"ARMS: expected names that no other arm has, found {min(taken)!r}; rename it")
        cells = [study.own(name, arm) for name, arm in arms.items()]
        both = replace(study, arms={**study.arms, **arms}, cells=[*study.cells, *cells])
        if not cells or not all(map(both.grid, cells)):
            raise ValueError("none, or one without a setting")
        for cell in cells:
            for setting in both.grid(cell):
                task = both.task(cell, both.stages[0], setting, 0)
                loads(json.dumps(asdict(task)).encode(), Task[type(cell), both.config])
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    except Exception as error:  # whatever a user's function raises
        expected = 'expected ARMS = {"a name": Arm(...)}, which name a block and some values of what they tune'
        raise InputError(f"{file}: {expected}, found: {type(error).__name__}: {error}; mend it") from error
    return both


def summary(results: Results) -> str:
    """Return a line for each cell: its choice, what the first criterion says of it, what was not tried beside it."""
    study, lines = results.study, []
    for cell in study.cells:
        name = ", ".join(str(of) for of in asdict(cell).values() if of != "")
        chosen = results.chosen(cell)
        settings = {chosen: results.scored(cell)} if chosen else results.settings(cell)
        for setting, runs in settings.items():
            words = [f"{of} {value}" for of, value in zip(study.arms[cell.arm].grid, setting, strict=True)]
            found = f"{next(iter(study.criteria))} {interval(study.judge(runs)):.4g}, n = {len(runs)}"
            untried = f"; beside it never tried: {', '.join(results.untried(cell))}" * bool(results.untried(cell))
            lines.append(f"{name}: {'; '.join(filter(None, [', '.join(words), found]))}{untried}")
    unfinished = count_of(len(study.cells) - len(results.finished), "cell")
    runs = f"{count_of(len(results.runs), 'run')}, {len(results.superfluous)} of them superfluous"
    return "\n".join([*lines, f"{runs}; {unfinished} unfinished"])


def rows_of(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the cells of each run's row in a table, the criteria that have chosen its setting among them."""
    study = results.study
    chosen = {(cell, name): results.chosen(cell, name) for cell in study.cells for name in study.criteria}
    for run in results.runs:
        names = study.arms[run.cell.arm].grid if run.cell.arm in study.arms else ()  # else of an arm that is not ours
        alike = len(names) == len(run.setting)
        setting = dict(zip(names, run.setting, strict=True)) if alike else {"setting": run.setting}
        measured = {name: value for name, value in vars(run.measured).items() if isinstance(value, int | float)}
        yield {
            **asdict(run.cell),
            "result": run.task.result,
            **setting,
            "chosen_by": " and ".join(of for of in study.criteria if chosen.get((run.cell, of)) == run.setting),
            "epochs": run.config.epochs,
            "seed": run.config.seed,
            "n_trained": run.n_trained,
            "diverged": run.diverged,
            **measured,
            "commit": run.environment and run.environment.commit,
        }
