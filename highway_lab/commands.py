"""Commands that train nets: from flags to one typed job, from a job to its log.

A job trains its runs one after the other or side by side. While it works, two files lie beside its log: a lock, and
JSON lines, one for each finished run. Runs that take long also have a checkpoint each. So a job that was cut short goes
on when the same command is started again; afterwards only the log is left.
"""

import argparse
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

from highway_lab import console, logs
from highway_lab.cli import (
    OneLineParser,
    add_hyperparameters,
    count,
    flag,
    import_file,
    import_words,
    list_of,
    quote,
    run_cli,
)
from highway_lab.console import name_files, name_run
from highway_lab.datasets import DATASETS, choose_dataset, load_dataset, name_of
from highway_lab.files import check_output, check_writable, lock_log, remove
from highway_lab.jobs import ResultFile, add_job_flags, run_missing
from highway_lab.logs import DatasetInfo, RunLog, RunRecord, imported
from highway_lab.nets import save_net
from highway_lab.training import train_resumably
from highway_networks import BLOCKS, Dataset, InputError, Run, TrainingConfig, fitted

# ---------------------------------------------------------------------------------------------- the job


@dataclass(frozen=True)
class Job:
    """Everything that one training command does."""

    given: argparse.Namespace  # its flags, and what `run_cli` adds to them
    dataset: str
    configs: Sequence[TrainingConfig]  # in the order of the log
    out: Path  # of the log
    checkpoints: bool  # whether a run that was cut short goes on from its last epoch
    of_folder: str  # flags that were taken as they suit a folder of images

    def __post_init__(self) -> None:
        """Raise InputError if log or net could not be written, or would replace another file without being told to."""
        save_model, replace = self.given.save_model, self.given.replace
        check_output("--out", self.out, "log.json", replace, self.made_log)
        for path in (lines_beside(self.out, self.dataset), *self.checkpoint_paths()):
            check_writable(path)
        if self.given.scheduler and save_model:
            raise InputError("--save-model: expected a run on this machine, found --scheduler; leave one out")
        if save_model:
            if len(self.configs) > 1:
                choice = f"one {flag(self.configs[0].SIZE)}, --block, --seed, and so on"
                raise InputError(f"--save-model: expected a single run, found {len(self.configs)}; choose {choice}")
            check_output("--save-model", save_model, "net.npz", replace)

    @functools.cached_property
    def varied(self) -> dict[str, list[str]]:
        """The hyperparameters that vary among the runs of each kind of block."""
        return {kind: logs.varied_in(of) for kind, of in logs.grouped(self.configs, attrgetter("block")).items()}

    def name(self, config: Any) -> str:
        return name_run(config, self.varied[config.block])

    def made_log(self) -> bool:
        schema: Any = RunLog[type(self.configs[0])]  # type: ignore[misc]
        log: Any = logs.read_any(self.out, schema)
        return bool(log) and log.dataset.name == self.dataset and {run.config for run in log.runs} == {*self.configs}

    def checkpoint(self, config: TrainingConfig) -> Path:
        """Return the path of a run's checkpoint; runs of other configs have other paths."""
        return self.out.with_suffix(f".{name_files(self.dataset, config)}.npz")

    def checkpoint_paths(self) -> list[Path]:
        return [*map(self.checkpoint, self.configs)] if self.checkpoints else []


def lines_beside(out: Path, dataset: str) -> Path:
    """Return the path of a job's finished runs; it names the data set because a run does not."""
    return out.with_suffix(f".{dataset}.jsonl")


def run_job(job: Job, data: Dataset) -> None:
    """Train every config, the deepest nets first; write the log; print a summary.

    Raises InputError before anything is trained, and Interrupted if the job is cut short.
    """
    given = job.given
    with lock_log(job.out):
        schema: Any = RunRecord[type(job.configs[0])]  # type: ignore[misc]
        lines: ResultFile[RunRecord] = ResultFile(lines_beside(job.out, job.dataset), schema)
        lines.check()
        if given.save_model:  # which is made with its run alone
            lines.keep(lambda run: run.config != job.configs[0])
        if given.fresh:
            remove(*job.checkpoint_paths())
        # Long runs tell their epochs also side by side, but not from another machine.
        side_by_side = bool(given.scheduler) or (given.jobs > 1 and not job.checkpoints)

        def report(run: RunRecord) -> str | None:
            remove(job.checkpoint(run.config))
            return f"{job.name(run.config)}  {console.describe_scores(run)}" if side_by_side else None

        runs = run_missing(
            functools.partial(_train_one, job, side_by_side),
            sorted(job.configs, key=lambda config: -config.depth),
            data,
            lines,
            to_continue=given.to_continue,
            jobs=given.jobs,
            scheduler=given.scheduler,
            any_code=given.any_code,
            fresh=given.fresh,
            report=report,
            bar=side_by_side,
        )
        first, by_config = job.configs[0], {run.config: run for run in runs}
        info = DatasetInfo(job.dataset, first.n_train, first.n_test, data.test_set, list(data.classes))
        runs = [by_config[config] for config in job.configs]
        log: Any = RunLog.new(given.command_line, info, runs=runs)
        try:
            logs.write(job.out, log)
        except InputError as error:
            raise InputError(f"{error}; all runs are safe in {lines.path}; to continue: {given.to_continue}") from error
        lines.keep(lambda run: run.config not in by_config)  # another job's
        remove(*job.checkpoint_paths())
    print(f"\n{console.summary(runs, info)}")
    if job.of_folder:
        print(f"defaults for a folder: {job.of_folder}")
    if data.classes and (words := console.describe_chance(runs, data.test_y)):
        print(words)
    print(f"saved {job.out}")


def _train_one(job: Job, side_by_side: bool, config: TrainingConfig, data: Dataset) -> RunRecord:
    def report(run: Run) -> None:
        if not side_by_side:
            console.tell_epoch(job.name(config), run)

    kept = job.checkpoint(config) if job.checkpoints and not job.given.scheduler else None
    run = train_resumably(config, data, report=report, keep=kept, any_code=job.given.any_code)
    if path := job.given.save_model:
        save_net(path, run.net)
        kind = next(of for of in type(run.net).__mro__ if of.__module__ != "highway_lab.slices")
        load = f"net = {kind.__name__}.load({os.fspath(path)!r})"
        print(f"saved {path}; in Python: {load}; net.predict(net.preprocess(images))")
    return RunRecord.of(run)


# ------------------------------------------------------------------------------------------ the command


@dataclass(frozen=True)
class TrainingCommand:
    """The command line that trains one family of nets."""

    module: str  # of the program
    description: str  # for --help
    config: type[TrainingConfig]  # the family's hyperparameters
    configure: Callable[..., TrainingConfig]  # of fields; those left out have the values that are usual for the net
    dataset: Callable[[Any], str]  # name of the usual data set of a net, by its size
    quick: Mapping[str, Any]  # fields of a --quick job
    sweep: Mapping[str, list[int]]  # the values of seed and size in the committed sweep
    of_folder: Callable[[Any], dict[str, Any]] = lambda config: {}  # fields of a config that suit a user's images
    sizes: Collection[str] = ()  # names of the family's nets; none: a net's size is a number
    block: str = "highway"  # default of --block
    fallback: bool = False  # whether the digits stand in for MNIST where that cannot be had and no data set is named
    checkpoints: bool = False  # see Job
    check: Callable[..., str] | None = None  # that of gradients: names the first that is wrong

    def run(self, argv: Sequence[str] | None = None, *, hint: bool = True) -> int:
        """Parse `argv` (else sys.argv), train, print how to draw the log, and return the exit code."""

        def action(given: argparse.Namespace) -> int | None:
            if (program := self.users_program()) and program not in imported:
                import_file(program)  # it is part of the code, and whoever reads log or net needs it
            if self.check and given.check_gradients:
                lists = {name: of for name, of in self._lists(given).items() if name in ("activation", "loss", "block")}
                return int(any([self.check(**fields) for fields in combinations(lists)]))
            dataset, data = load_data(given.dataset or self.dataset(self._lists(given)[self.config.SIZE][0]), given)
            run_job(job := self.job(given, dataset, data), data)
            if hint:
                words = f"{quote(job.out)}{import_words(imported)}"
                print(f"to draw it: python -m visualize_highway_networks {words}")
            return None

        return run_cli(self.parser(), action, argv)

    def users_program(self) -> str | None:
        """Return the path of the program that runs, if it is a user's file."""
        program = sys.modules["__main__"]
        path = Path(getattr(program, "__file__", None) or os.devnull)  # a notebook has none
        own = path.suffix == ".py" and getattr(program, "__spec__", None) is None and path.stem != self.module
        if not own:
            return None
        try:
            return os.path.relpath(path)
        except ValueError:  # on another drive than this folder
            return str(path)

    def parser(self) -> OneLineParser:
        program = f"python {quote(self.users_program() or f'{self.module}.py')}"
        if Path(sys.argv[0]).name == self.module.replace("_", "-"):  # the installed program
            program = Path(sys.argv[0]).name
        text = f"{self.description} VALUE,... is one value or several: a run for each combination."
        parser = OneLineParser(prog=program, description=text)
        name, default = self.config.SIZE, getattr(self.config, self.config.SIZE)
        leave_out = ["block", *[name] * bool(self.sizes)]
        if self.sizes:
            text = f"default: {default}"
            parser.add_argument(flag(name), nargs=1, choices=self.sizes, default=argparse.SUPPRESS, help=text)
        (kinds,) = (field.metadata["rule"][1] for field in dataclasses.fields(self.config) if field.name == "block")
        text = f"{', '.join(kinds)}; both: highway,plain (default: {self.block})"
        parser.add_argument(
            "--block", "--blocks", type=list_of_blocks, default=self.block, metavar="KIND,...", help=text
        )
        fields = ", ".join(f"{name} {value}" for name, value in self.quick.items())
        text = f"a smaller job: {fields}"
        parser.add_argument("--quick", action="store_const", const=self.quick, default={}, help=text)
        if self.check:
            text = "compare the backward pass of these blocks, their activation and loss with complex steps, and end"
            parser.add_argument("--check-gradients", action="store_true", help=text)
        add_hyperparameters(parser, self.config, leave_out)
        add_data_flags(parser, "auto" if self.fallback else None)
        add_job_flags(parser)
        text = "default: run.json or run_sweep.json; settings that differ from the default are appended to the name"
        parser.add_argument("--out", type=Path, help=f"path of the log ({text})")
        parser.add_argument("--save-model", type=Path, metavar="PATH", help="save the net (.npz) of a single run")
        add_replace(parser)
        return parser

    def job(self, given: argparse.Namespace, dataset: str, data: Dataset) -> Job:
        configs = self.plan(given, data)
        out = given.out or Path(self.log_name(given, dataset, configs))
        taken = [name for name in self.of_folder(configs[0]) if data.classes and name not in vars(given)]
        of_folder = " ".join(f"{flag(name)} {getattr(configs[0], name)}" for name in taken)
        return Job(given, dataset, configs, out, self.checkpoints, of_folder)

    def plan(self, given: argparse.Namespace, data: Dataset) -> list[TrainingConfig]:
        """Return a config for every combination of values that are asked for, blocks varying fastest."""
        fields, wanted = dict(given.quick), combinations(self._lists(given))
        if data.classes:
            fields |= self.of_folder(fitted(self.configure(**fields | wanted[0]), data))
        configs: list[Any] = [fitted(self.configure(**fields | of), data) for of in wanted]
        return [of[0] for of in logs.grouped(configs, without_effect).values()]

    def log_name(self, given: argparse.Namespace, dataset: str, configs: Sequence[TrainingConfig]) -> str:
        """Return run.json or run_sweep.json, with whatever differs from a committed job's settings in the name.

        So no exploration overwrites a committed log.
        """
        size, lists = getattr(configs[0], self.config.SIZE), self._lists(given)
        found = {name: lists.pop(name) for name in self.sweep}
        several = any(len(values) > 1 for values in found.values())
        expected = {**self.sweep} if several else {name: [getattr(self.config, name)] for name in found}
        expected |= {name: found[name] for name in found if name in given.quick and name not in vars(given)}
        names = [size] if self.sizes else []
        names += [dataset] * (dataset != self.dataset(size)) + ["quick"] * bool(given.quick)
        names += [",".join(lists["block"])] * (lists.pop("block") != list_of_blocks(self.block))
        names += [f"{name}{console.name_numbers(values)}" for name, values in found.items() if values != expected[name]]
        usual = self.configure(**{self.config.SIZE: size})
        names += [f"{name}{console.name_numbers(of)}" for name, of in lists.items() if of != [getattr(usual, name)]]
        return "-".join(["run_sweep" if several else "run", *names]) + ".json"

    def _lists(self, given: argparse.Namespace) -> dict[str, list]:
        """Return the values of size, of each field that a flag has set, of seed and block: a run has one of each."""
        size, flags = self.config.SIZE, vars(given)
        lists = {size: [given.quick.get(size, getattr(self.config, size))]}
        for name in [name for name in flags if hasattr(self.config, name)]:
            lists[name] = flags[name] if isinstance(flags[name], list) else [flags[name]]
        seeds, blocks = lists.pop("seed", [self.config.seed]), lists.pop("block")
        return {**lists, "seed": seeds, "block": blocks}


def combinations(lists: Mapping[str, list]) -> list[dict[str, Any]]:
    """Return all combinations of one value of each list, the last varying fastest."""
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def list_of_blocks(text: str) -> list[str]:
    return list_of(str)("highway,plain" if text == "both" else text)


def without_effect(config: Any) -> Any:
    """Return a config without the gate bias if its blocks have no gates: they are the same net at each."""
    block = BLOCKS[config.block]
    return config if {*block.branches} & block.bias_signs.keys() else dataclasses.replace(config, gate_bias=0)


def add_replace(parser: argparse.ArgumentParser) -> None:
    """Add --replace, without which a command refuses to write over a file that it has not made."""
    parser.add_argument("--replace", action="store_true", help="let what is saved replace files of others")


def add_data_flags(parser: argparse.ArgumentParser, default: str | None, *, folders: bool = True) -> None:
    """Add --dataset, --data-dir and, where it takes folders of images, --size; default None: that of the net."""
    if folders:
        text = f"auto (MNIST, else digits), {', '.join(DATASETS)} or a folder with a subfolder of images for each class"
        text = f"{text} (default: {default or 'that of the net'})"
        parser.add_argument("--dataset", default=default, metavar="NAME|FOLDER", help=text)
        parser.add_argument(
            "--size", type=count, metavar="N", help="squeeze a folder's images to N x N pixels (default: their size)"
        )
    else:
        parser.add_argument("--dataset", default=default, choices=("auto", *DATASETS), help="default: %(default)s")
        parser.set_defaults(size=None)
    parser.add_argument("--data-dir", help="where data sets lie (default: $HIGHWAY_DATA_DIR, else ~/.cache)")


def load_data(dataset: str, given: argparse.Namespace) -> tuple[str, Dataset]:
    """Return the name in logs, and the samples, of a data set or folder."""
    dataset = choose_dataset(given.data_dir) if dataset == "auto" else dataset
    data = load_dataset(dataset, given.data_dir, given.size)
    return name_of(dataset, data), data
