"""Many runs that may be cut short at any moment: side by side, on this machine or a cluster, none finished lost.

Each finished run is one line of a JSON-lines file, on disk before the next is looked at. Starting again reads the file
and leaves out what it holds.
"""

import argparse
import dataclasses
import functools
import json
import logging
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from highway_lab import InputError, Interrupted, logs
from highway_lab.cli import count, ignore_interrupts, list_of_numbers
from highway_lab.console import (
    EpochReporter,
    describe_scores,
    full_name,
    label,
    name_numbers,
    summary,
    unfailing_output,
)
from highway_lab.files import check_regular, check_writable, lock_log, make_place, remove_torn
from highway_lab.logs import Result, Run, RunLog, read, write

ATTEMPTS = 3  # at what was lost with a cluster's worker
ResultT = TypeVar("ResultT", bound=Result)


class ResultFile(Generic[ResultT]):
    """Finished runs, one JSON object a line, each a dataclass `schema`: the environment, the task, what came out."""

    def __init__(self, path: str | os.PathLike, schema: type[ResultT]):
        self.path, self.schema = Path(path), schema
        plain = getattr(schema, "__origin__", schema)  # of Run[Config]: Run
        self._name, (environment, task, *_) = plain.__name__, (field.name for field in fields(plain))
        self.task_of = attrgetter(task)
        self._opening = f'{{"{environment}": '.encode()  # what every line of ours begins with

    def read(self) -> list[ResultT]:
        """Every result in the file; none if there is no file.

        A last line without its newline was torn by a crash, or is being written: it is left out. Any other line that
        does not fit the schema raises InputError: this is somebody else's file.
        """
        *lines, torn = self._content().split(b"\n")
        if not torn.startswith(self._opening[: len(torn)]):
            lines.append(torn)
        return [self._parse(line, number) for number, line in enumerate(lines, start=1)]

    def drop_torn_line(self) -> None:
        """Cut off a last line that has no newline, so that the next line starts at the margin."""
        content = self._content()
        if content and not content.endswith(b"\n"):
            os.truncate(self.path, content.rfind(b"\n") + 1)

    def check(self) -> None:
        """Raise InputError if no line could be added, or if there is something else; makes the folder.

        Before hours of work rather than after them.
        """
        make_place(self.path)
        content = self._content()
        if not (content.startswith(self._opening) or self._opening.startswith(content)):
            raise InputError(f"{self.path}: expected a {self._name} a line, found something else; move the file")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise InputError(f"{self.path}: expected a file to add to, found: no permission; move it, or allow it")

    def clear(self) -> None:
        """Forget every result; raises InputError if there is something else."""
        self.check()
        self.path.unlink(missing_ok=True)

    def _content(self) -> bytes:
        try:
            check_regular(self.path)
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(
                f"{self.path}: expected a file of results, found: {error.strerror}; move what is in its place"
            ) from error

    def _parse(self, line: bytes, number: int) -> ResultT:
        try:
            return logs.loads(line, self.schema)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.path}: line {number}: expected a {self._name}, found: {error}; "
                "delete this line, or move the file"
            ) from error

    def append(self, result: ResultT) -> None:
        """Add one line and wait until the disk has it; raises Interrupted if it cannot."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(json.dumps(asdict(result), allow_nan=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Interrupted(f"{self.path}: {error.strerror}") from error


MOST_RUNS = 100_000  # at a time; each finished one is kept in mind


def check_number(runs: int) -> None:
    """Raise InputError if that is more runs than one command may ask for."""
    if runs > MOST_RUNS:
        raise InputError(f"runs: expected at most {MOST_RUNS:,}, found more; ask for fewer, in several commands")


def run_tasks(
    function: Callable[[Any, Any], Any],
    tasks: Iterable[Any],
    data: Any,
    *,
    jobs: int,
    scheduler: str | None = None,
) -> Iterator[Any]:
    """Yield function(task, data) for every task, as they finish, in whatever order.

    `jobs` local processes, or the workers of the Dask scheduler at `scheduler` (tcp://host:port). Raises Interrupted if
    a worker or the scheduler is lost.
    """
    if not tasks:
        return
    losses = _losses(scheduler)
    try:
        if scheduler is None:
            yield from _on_this_machine(function, tasks, data, jobs)
        else:
            yield from _on_cluster(function, tasks, data, scheduler)
    except losses as error:
        reason = str(error).strip().splitlines() or ["no reason given"]
        raise Interrupted(f"{type(error).__name__}: {reason[0]}") from error


MOST_PROCESSES = 64  # or as many as there are CPUs: each takes memory and time to start
_processes = 1  # that share this machine's memory, this one among them


def check_memory(needed: int) -> None:
    """Raise InputError unless every process side by side may take so many bytes of this machine's memory."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return
    if needed * _processes > there:
        wanted = f"{needed >> 20:,} MiB" + f" in each of {_processes} processes" * (_processes > 1)
        raise InputError(
            f"memory: expected nets that {there >> 20:,} MiB can hold, found one that takes {wanted}; "
            "ask for a smaller net, a smaller --batch-size or fewer --jobs"
        )


def _on_this_machine(function: Callable, tasks: Iterable[Any], data: Any, jobs: int) -> Iterator:
    """The data reach the processes once, as memory-mapped files. Ctrl-C reaches every process, this one alone answers.

    One job needs no other process; others end with this one, however it ends.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    warnings.filterwarnings("ignore", module="joblib.parallel")  # that calls were cut short is ours to report
    jobs = min(jobs, max(MOST_PROCESSES, os.cpu_count() or 1))
    begin = {"initializer": _begin_process, "initargs": (os.getpid(), jobs)} if jobs > 1 else {}
    with ignore_interrupts():  # as the processes are, that are started meanwhile, for good
        finished = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, **begin)(
            delayed(function)(task, data) for task in tasks
        )
    try:
        yield from finished
    except BaseException:  # they end before this process does, or what they share would be left behind
        if jobs > 1:
            with ignore_interrupts():
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


def _begin_process(parent: int, processes: int) -> None:
    """Make this process, one of several, end soon after the one that started it, however that ends."""
    global _processes
    _processes = processes

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _on_cluster(function: Callable, tasks: Iterable[Any], data: Any, scheduler: str) -> Iterator:
    """The data are scattered to the workers once.

    joblib's Dask backend would do, but for two defects: it trains in this very process where it sees a single worker,
    and it gives nothing to workers that join later.
    """
    from dask.distributed import as_completed

    left = dict(enumerate(tasks))
    with _connect(scheduler) as client, _packages_expected():
        for _ in range(ATTEMPTS):
            (there,) = client.scatter([data], broadcast=True)  # lost with a sole worker, whom a nanny may replace
            submitted = {client.submit(function, task, there, pure=False): index for index, task in left.items()}
            for future in as_completed(submitted):
                if future.status in ("cancelled", "lost") and client.status == "running":
                    continue  # to be tried again; without a scheduler, its result says so
                yield future.result()
                del left[submitted[future]]
            if not left:
                return
    raise CancelledError(f"workers were lost {ATTEMPTS} times")


@contextmanager
def _packages_expected() -> Iterator[None]:
    """A module that a worker lacks is the user's to install; Dask may tell of it by words alone."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, ImportError) or "ModuleNotFoundError" in str(error)):
            raise
        raise InputError(
            f"--scheduler: expected workers with this package and what it needs, found: {error}; "
            "install it there, and start them in the checkout"
        ) from error


@contextmanager
def _connect(scheduler: str) -> Iterator[Any]:
    """A client of the Dask scheduler; raises InputError if there is none."""
    from dask.distributed import Client

    for name in ("distributed", "distributed.client"):  # a loss is ours to report, in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler: expected a Dask scheduler at {scheduler}, found none; check the address"
        ) from error
    with client:
        yield client


def _losses(scheduler: str | None) -> tuple[type[Exception], ...]:
    """The exceptions that mean a lost worker or scheduler, rather than a defect of the task."""
    losses = (BrokenExecutor, CancelledError, OSError)
    if scheduler is None:
        return losses
    try:
        from dask.distributed import KilledWorker
    except ImportError as error:
        raise InputError("--scheduler: expected Dask, found none; pip install 'highway-networks[cluster]'") from error
    return (*losses, KilledWorker)


def run_missing(
    function: Callable[[Any, Any], ResultT],
    tasks: Sequence[Any],
    data: Any,
    results: ResultFile[ResultT],
    *,
    command: str,
    jobs: int,
    old: str | None = None,
    scheduler: str | None = None,
    report: Callable[[list[ResultT]], str | None] = lambda done: None,
    shown: bool = True,
) -> list[ResultT]:
    """Run the tasks whose results are not in the file yet; returns all results, in the order of the tasks.

    Each result is told where it was made. Those of other training code than today's raise InputError, unless `old` says
    what to do: "keep" them, or begin "fresh", without any. `report` may return a text to show after each run; `shown`:
    whether a terminal is shown a bar. Raises Interrupted, whose message says how many runs are safe and which `command`
    continues.
    """
    from tqdm import tqdm

    check_number(len(tasks))
    if old == "fresh":
        results.clear()
    done = {results.task_of(result): result for result in results.read()}
    foreign = sum(result.environment.code != logs.environment().code for result in done.values())
    if foreign and old != "keep":
        raise InputError(
            f"{results.path}: expected runs of the training code as it is now, found {foreign} of other code; "
            "go on with them (--keep), or begin anew (--fresh)"
        )
    missing = [task for task in tasks if task not in done]
    results.drop_torn_line()
    hidden = not (shown and sys.stderr.isatty())
    bar = tqdm(total=len(tasks), initial=len(tasks) - len(missing), unit="run", disable=hidden)
    jobs = min(jobs, max(len(missing), 1))
    made = run_tasks(functools.partial(_with_environment, function), missing, data, jobs=jobs, scheduler=scheduler)
    try:
        # Closed at once if we leave early: workers that end later would take those of a next call with them.
        with bar, closing(made) as finished:
            for result in finished:
                results.append(result)
                done[results.task_of(result)] = result
                bar.update()
                text = report([done[task] for task in tasks if task in done])
                if text:
                    bar.write(text)
    except (Interrupted, KeyboardInterrupt) as error:
        safe = sum(task in done for task in tasks)
        reason = str(error) or "stopped by Ctrl-C"
        again = " ".join(word for word in command.split(" ") if word != "--fresh")  # which would forget these, too
        raise Interrupted(
            f"{reason}; {safe} of {len(tasks)} runs are safe in {results.path}; to continue: {again}"
        ) from error
    return [done[task] for task in tasks]


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    """What every command takes whose runs are kept one by one: --jobs, --keep and --fresh."""
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="runs side by side, in N processes")
    old = parser.add_mutually_exclusive_group()
    old.add_argument("--keep", dest="old", action="store_const", const="keep", help="go on with runs of older code")
    old.add_argument("--fresh", dest="old", action="store_const", const="fresh", help="forget what has been run before")


def _with_environment(function: Callable[[Any, Any], ResultT], task: Any, data: Any) -> ResultT:
    """The result of a task, with the environment of the process that makes it."""
    result = function(task, data)
    result.environment = logs.environment()
    return result


# ----------------------------------------------------------------------------------- training commands

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
        import highway_lab.tensorboard  # noqa: F401
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
            runs = run_missing(
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
    with TemporaryDirectory() as lost, lock_log(out or Path(lost, "log.json")):
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
        from highway_lab.tensorboard import EventFile, events_of

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
