"""What a training command does with its runs: trains them side by side, shows how they go, saves the log."""

import argparse
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from command_line import InputError, Interrupted, list_of_numbers, name_numbers, unfailing_output
from reporting import EpochReporter, describe_scores, full_name, label, summary
from run_log import Run, RunLog, check_writable, read, remove_torn, write
from side_by_side import ResultFile, add_job_flags, finish, held

UNFINISHED = ".unfinished.json"
REST = 100  # times as long as it took to write an unfinished log, none is written: that is 1 % of the time


def add_training_flags(parser: argparse.ArgumentParser, log: str) -> None:
    """What every training command takes beside its net and its data set; `log` says what the log is called."""
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", dest="seeds", type=int, nargs=1, metavar="N", help="one seed (default: 0)")
    seeds.add_argument("--seeds", type=list_of_numbers, metavar="N,N,...", help="one run for each seed")
    parser.add_argument("--data-dir", help="where data sets lie (default: $HIGHWAY_DATA_DIR, else ~/.cache)")
    add_job_flags(parser)
    parser.add_argument("--out", help=f"the log (default: {log})")
    parser.add_argument("--no-save", action="store_true", help="write no log")
    parser.add_argument("--save-model", metavar="PATH", help="keep the trained net (.npz); for a single run")
    text = "tell TensorBoard of every epoch, in a folder below DIR for each run (needs tensorboardX)"
    parser.add_argument("--tensorboard", type=event_folder, metavar="DIR", help=text)


def event_folder(text: str) -> Path:
    """A folder for event files; raises argparse's error if there is nothing to write them with."""
    try:
        import event_files  # noqa: F401
    except ImportError as error:
        found = "expected tensorboardX, found none; pip install 'highway-networks[tensorboard]'"
        raise argparse.ArgumentTypeError(found) from error
    return Path(text)


def given_fields(arguments: argparse.Namespace, config: type) -> dict[str, Any]:
    """The hyperparameters that flags of their own have set."""
    fields = {field.name for field in dataclasses.fields(config)} - {"block"}
    return {name: value for name, value in vars(arguments).items() if name in fields}


def default_log(
    arguments: argparse.Namespace,
    differs: Sequence[str],
    configs: Sequence[Any],
    usual: Any,
    usual_sweep: Mapping[str, list[int]],
    usual_block: str = "both",
) -> str:
    """run.json or run_sweep.json for a job with every default; the name of any other says what differs.

    So no exploration overwrites a committed log. `differs`: what does beside hyperparameters; `usual`: the config with
    every default; `usual_sweep`, `usual_block`: fields and their values in a usual sweep, and the usual --block.
    """
    found = {name: list(dict.fromkeys(getattr(config, name) for config in configs)) for name in usual_sweep}
    sweep = any(len(values) > 1 for values in found.values())
    expected = usual_sweep if sweep else {name: [getattr(usual, name)] for name in found}
    if arguments.quick and not getattr(arguments, "depths", None):  # a depth of its own, which the name says
        found.pop("depth", None)
    names = [*differs, *["quick"] * arguments.quick, *[arguments.block] * (arguments.block != usual_block)]
    names += [f"{name}{name_numbers(values)}" for name, values in found.items() if values != expected[name]]
    given = given_fields(arguments, type(usual)).items()
    names += [f"{name}{value}" for name, value in given if value != getattr(usual, name)]
    return "-".join(["run_sweep" if sweep else "run", *names]) + ".json"


def runs_beside(out: Path, dataset: str) -> Path:
    """Where the finished runs of a job lie until its log does; a run does not say on which data it was made."""
    return out.with_suffix(f".{dataset}.jsonl")


def unfinished_beside(out: Path) -> Path:
    """Where the log of a job lies until it is finished; what lies at `out` stays until then."""
    return out.with_suffix(UNFINISHED)


def checkpoint_beside(out: Path, dataset: str, config: Any) -> Path:
    """Where a run of a job is kept between epochs, if its runs are long; that of another config lies elsewhere."""
    return out.with_suffix(f".{full_name(dataset, config)}.npz")


def check_places(out: Path | None, dataset: str, net: str | None) -> None:
    """Raise InputError if log or net could not be written.

    Their names have to say what they are: so neither replaces anything else, nor what lies beside the log until it is
    there.
    """
    if out:
        if out.suffix != ".json" or out.name.endswith(UNFINISHED):
            raise InputError(f"--out: expected a name like log.json, and not {UNFINISHED}, found {out}; choose another")
        for place in (out, unfinished_beside(out), runs_beside(out, dataset)):
            check_writable(place)
    if net:
        if not net.endswith(".npz"):
            raise InputError(f"--save-model: expected a name like net.npz, found {net}; choose another")
        check_writable(net)


class LogSoFar:
    """The log of a job with all its runs so far, marked unfinished, written after every epoch of one of them.

    Each process adds its run to what the others have written: where two do so at the same moment, one may be missing
    until its next epoch. What another command has left there, or the same on other data, is replaced.
    """

    def __init__(self, path: Path, log: Callable[..., RunLog], config: Any):
        self.path, self.log, self.schema, self.due = path, log, RunLog[type(config)], -math.inf

    def read(self) -> RunLog | None:
        """What there is, if anything; raises InputError if it is no unfinished log of such runs."""
        found = read(self.path, self.schema, "move or delete it") if self.path.exists() else None
        if found and found.finished:
            raise InputError(f"{self.path}: expected what an unfinished job has left, found a finished log; move it")
        return found

    def __call__(self, *runs: Run) -> None:
        """Put in the runs; raises Interrupted if the disk will not have them, or if somebody else's file is there."""
        start = time.monotonic()
        if start < self.due:
            return
        log, known = self.log(runs=[], finished=False), {}
        try:
            old = self.read()
            if old and (old.command, old.dataset) == (log.command, log.dataset):
                for run in old.runs:
                    run.environment = run.environment or old.environment
                    known[run.config] = run
            known |= {run.config: run for run in runs}
            write(self.path, self.log(runs=list(known.values()), finished=False))
        except InputError as error:
            raise Interrupted(str(error)) from error
        end = time.monotonic()
        self.due = end + REST * (end - start)


def run_job(
    train: Callable[..., Run],
    configs: Sequence[Any],
    data: Any,
    dataset: str,
    arguments: argparse.Namespace,
    log: Callable[..., RunLog],
    out: Path | None,
    *,
    checkpoints: bool = False,
) -> None:
    """Train every config, `arguments.jobs` at a time, the deepest first; write log(runs=...) to `out`; print a summary.

    `train(config, data, report=...)` makes a run. Each is safe on disk, beside `out`, before the next is looked at: a
    job that was cut short goes on from there when it is started again; with `checkpoints`, whose paths `train` gets as
    `keep`, from its last epochs, which are told as they come. What there is after an epoch lies there as a log, too
    (see LogSoFar). Raises Interrupted where it is cut short.
    """
    said = set()
    places = {config: checkpoint_beside(out, dataset, config) for config in configs} if out and checkpoints else {}
    passing = [*places.values(), *([unfinished_beside(out)] if out else [])]
    _check_checkpoints(arguments, places.values())
    so_far = LogSoFar(unfinished_beside(out), log, configs[0]) if out else None
    shown = arguments.jobs > 1 and not checkpoints  # as a bar of runs; else each run tells its epochs

    def report(done: list[Run]) -> str | None:
        new = [run for run in done if run.config not in said]
        said.update(run.config for run in new)
        if so_far:
            so_far(*done)
        lines = [f"{label(run.config)}  {describe_scores(run)}" for run in new]
        return "\n".join(lines) if shown else None

    with _finished_runs(out, dataset, Run[type(configs[0])]) as results:
        _check_net_will_be_made(arguments, configs, results)
        if so_far:
            so_far.read()  # raises InputError before anything is removed or trained
        watchers = _watchers(arguments, configs, dataset, log, out, told=not shown)
        if arguments.old == "fresh":
            remove(passing)
        try:
            runs = finish(
                functools.partial(_train_one, train, watchers, places),
                sorted(configs, key=lambda config: -config.depth),
                data,
                results,
                command=arguments.command_line,
                jobs=arguments.jobs,
                old=arguments.old,
                report=report,
                shown=shown,
            )
        except Interrupted as stopped:
            if out:
                raise
            reason = f"{stopped.__cause__}; " if isinstance(stopped.__cause__, Interrupted) else ""
            raise Interrupted(f"{reason}nothing is kept with --no-save") from stopped.__cause__
        finally:
            for path in passing:  # a worker may have been killed while it wrote one
                remove_torn(path)
        by_config = {run.config: run for run in runs}
        runs = [by_config[config] for config in configs]
        if out:
            try:
                write(out, log(runs=runs))
            except InputError as error:
                continued = f"to continue: {arguments.command_line}"
                raise InputError(f"{error}; all runs are safe in {results.path}; {continued}") from error
            if all(run.config in by_config for run in results.read()):  # another job's may lie there, too
                results.path.unlink()
            remove(passing)
    print(f"\n{summary(runs, data.test_set)}")
    if out:
        print(f"saved {out}\nto draw it: python visualize_highway_networks.py {out}")


@contextmanager
def _finished_runs(out: Path | None, dataset: str, schema: type[Run]) -> Iterator[ResultFile]:
    """The file of runs beside a log, which is held; without a log, one that is lost."""
    with TemporaryDirectory() as lost, held(out or Path(lost, "log.json")):
        results = ResultFile(runs_beside(out, dataset) if out else Path(lost, "runs.jsonl"), schema)
        results.check()
        yield results


def _watchers(
    arguments: argparse.Namespace,
    configs: Sequence[Any],
    dataset: str,
    log: Callable[..., RunLog],
    out: Path | None,
    *,
    told: bool,
) -> list[Callable[[Any], Callable[[Run], None]]]:
    """What is made for each run, of its config, and told of each epoch: files first, so that words can rely on them."""
    watchers = []
    if out:
        watchers.append(functools.partial(LogSoFar, unfinished_beside(out), log))
    if arguments.tensorboard:
        from event_files import EventFile, events_of

        for config in configs:
            events_of(arguments.tensorboard, dataset, config)  # raises InputError before anything is trained
        watchers.append(functools.partial(EventFile, arguments.tensorboard, dataset))
    if told:
        watchers.append(functools.partial(EpochReporter, alone=arguments.jobs == 1))
    return watchers


def _check_checkpoints(arguments: argparse.Namespace, places: Iterable[Path]) -> None:
    """Raise InputError if a checkpoint could not be written, or if the net would go the way of one."""
    net = getattr(arguments, "save_model", None)
    for place in places:
        check_writable(place)
        if net and os.path.realpath(place) == os.path.realpath(net):
            raise InputError(
                f"--save-model: expected a file that outlives the run, found its checkpoint {net}; choose another"
            )


def _check_net_will_be_made(arguments: argparse.Namespace, configs: Sequence[Any], results: ResultFile) -> None:
    """Raise InputError if a net is to be kept, is not there, and its run, being there, would not be made again."""
    net = getattr(arguments, "save_model", None)
    if not net or os.path.exists(net) or arguments.old == "fresh":
        return
    if configs[0] in map(results.task_of, results.read()):
        raise InputError(f"{net}: expected a run to make it, found that run in {results.path}; begin anew (--fresh)")


def _train_one(
    train: Callable[..., Run], watchers: Sequence[Callable], places: Mapping[Any, Path], config: Any, data: Any
) -> Run:
    with unfailing_output():  # a process of its own has none yet
        told = [watcher(config) for watcher in watchers]

        def report(run: Run) -> None:
            for tell in told:
                tell(run)

        return train(config, data, report=report, **({"keep": places[config]} if places else {}))


def remove(paths: Iterable[Path]) -> None:
    """Delete those files that are there."""
    for path in paths:
        path.unlink(missing_ok=True)
