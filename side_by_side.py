"""Many runs that may be cut short at any moment: side by side, on this machine or a cluster, none finished lost.

Each finished run is one line of a JSON-lines file, on disk before the next is looked at. Starting again reads the file
and leaves out what it holds.
"""

import argparse
import functools
import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where nothing keeps two commands from one log
    fcntl = None

import run_log
from command_line import InputError, Interrupted, count, deaf_to_interrupts
from run_log import Result, check_regular, make_place, unwritable

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
            return run_log.loads(line, self.schema)
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


@contextmanager
def held(log: str | os.PathLike) -> Iterator[None]:
    """Keep a log, and what lies beside it until it is there, from every other command meanwhile; makes its folder.

    By a lock on an empty file beside it, which ends with this process, however it ends. Raises InputError if another
    command has it, or if that file cannot be written.
    """
    make_place(log)
    place = Path(os.path.realpath(log))
    lock = place.with_name(f".{place.name}.lock")
    while fcntl is not None:
        try:
            file = open(lock, "w")  # noqa: SIM115, so that its error is told from those of the work
        except OSError as error:
            raise unwritable(lock, error.strerror) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                found = "expected a log that no other command is making, found one at work"
                raise InputError(f"{log}: {found}; wait for it, or choose another log") from error
            except OSError:  # a file system without locks
                pass
            if not _is_at(file, lock):  # whoever had it has just removed it
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return
    yield


def _is_at(file: IO, path: Path) -> bool:
    """Whether an open file is the one that lies there."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


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
    with deaf_to_interrupts():  # as the processes are, that are started meanwhile, for good
        finished = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, **begin)(
            delayed(function)(task, data) for task in tasks
        )
    try:
        yield from finished
    except BaseException:  # they end before this process does, or what they share would be left behind
        if jobs > 1:
            with deaf_to_interrupts():
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


def finish(
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
    foreign = sum(result.environment.code != run_log.environment().code for result in done.values())
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
    made = run_tasks(functools.partial(_made_here, function), missing, data, jobs=jobs, scheduler=scheduler)
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


def _made_here(function: Callable[[Any, Any], ResultT], task: Any, data: Any) -> ResultT:
    """The result of a task, with the environment of the process that makes it."""
    result = function(task, data)
    result.environment = run_log.environment()
    return result


# ----------------------------------------------------------------------------------------- BLAS threads

THREADED_PRODUCT = 2**22  # multiply-adds above which a second BLAS thread pays for itself


def count_threads(multiply_adds: int) -> int:
    """How many BLAS threads suit products of that size: one for small ones; for large ones, all that this process has.

    These are the CPUs that it may use, or fewer: where processes run side by side, joblib gives each its share.
    """
    if multiply_adds < THREADED_PRODUCT:
        return 1
    from joblib import cpu_count

    return min(cpu_count(), *(pool["num_threads"] for pool in blas_pools().info()))


@functools.cache
def blas_pools() -> Any:
    """The thread pools of the BLAS that NumPy uses."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def quiet_threads(threads: int) -> Iterator[None]:
    """So many BLAS threads, and no warnings: a loss that overflows is recorded, not shouted."""
    with blas_pools().limit(limits=threads), np.errstate(all="ignore"):
        yield
