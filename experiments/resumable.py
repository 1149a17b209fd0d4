"""Many runs that may be cut short at any moment: side by side, on this machine or a cluster, none finished lost.

Each finished run is one line of a JSON-lines file, on disk before the next is looked at. Starting again reads the file
and leaves out what it holds.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import run_log
from highway_networks import deaf_to_interrupts
from run_log import InputError

ResultT = TypeVar("ResultT")


class Interrupted(Exception):
    """The runs stopped early, through no fault of the finished ones; the message says why."""


class ResultFile(Generic[ResultT]):
    """Finished runs, one JSON object a line, each a dataclass `schema`."""

    def __init__(self, path: str | os.PathLike, schema: type[ResultT]):
        self.path, self.schema = Path(path), schema

    def read(self) -> list[ResultT]:
        """Every result in the file; none if there is no file.

        A last line without its newline was torn by a crash: it is cut off, and its run will be repeated. Any other
        line that does not fit the schema raises InputError: this is somebody else's file.
        """
        if not self.path.exists():
            return []
        *lines, torn = self.path.read_bytes().split(b"\n")
        if torn:
            os.truncate(self.path, self.path.stat().st_size - len(torn))
        return [self._parse(line, number) for number, line in enumerate(lines, start=1)]

    def _parse(self, line: bytes, number: int) -> ResultT:
        try:
            return run_log.loads(line, self.schema)
        except ValueError as error:
            raise InputError(
                f"{self.path}: line {number}: expected a {self.schema.__name__}, found: {error}; "
                "give another file with --log, or delete this line"
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


def run_tasks(
    function: Callable[..., ResultT],
    tasks: Iterable[Any],
    data: Any,
    *,
    jobs: int,
    scheduler: str | None = None,
) -> Iterator[ResultT]:
    """Yield function(task, data) for every task, as they finish, in whatever order.

    `jobs` local processes, or the workers of the Dask scheduler at `scheduler` (tcp://host:port). The data reach each
    worker once: as memory-mapped files here, scattered on a cluster. Raises Interrupted if a worker or the scheduler
    is lost.
    """
    from joblib import Parallel, delayed

    with _backend(scheduler, data):
        parallel = Parallel(n_jobs=-1 if scheduler else jobs, return_as="generator_unordered", batch_size=1)
        try:
            with deaf_to_interrupts():
                finished = parallel(delayed(function)(task, data) for task in tasks)
            yield from finished
        except _losses(scheduler) as error:
            reason = str(error).strip().splitlines() or ["no reason given"]
            raise Interrupted(f"{type(error).__name__}: {reason[0]}") from error


def _losses(scheduler: str | None) -> tuple[type[Exception], ...]:
    """The exceptions that mean a lost worker or scheduler, rather than a defect of the task."""
    losses = (BrokenExecutor, CancelledError, OSError)
    if scheduler is None:
        return losses
    from dask.distributed import KilledWorker

    return (*losses, KilledWorker)


@contextmanager
def _backend(scheduler: str | None, data: Any) -> Iterator[None]:
    """joblib's choice of where tasks run."""
    if scheduler is None:
        yield
        return
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise InputError("--scheduler: expected Dask, found none; pip install 'highway-networks[cluster]'") from error
    from joblib import parallel_config

    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler: expected a Dask scheduler at {scheduler}, found none; check the address"
        ) from error
    with client, parallel_config(backend="dask", scatter=[data]):
        yield


def finish(
    function: Callable[..., ResultT],
    tasks: Sequence[Any],
    data: Any,
    results: ResultFile[ResultT],
    *,
    key: Callable[[Any], Any],
    command: str,
    jobs: int,
    scheduler: str | None = None,
    report: Callable[[list[ResultT]], str | None] = lambda done: None,
) -> list[ResultT]:
    """Run the tasks whose results are not in the file yet; returns all results, in the order of the tasks.

    `key` gives the same value for a task and for its result. `report` may return a text to show after each run.
    Raises Interrupted, whose message says how many runs are safe and which `command` continues.
    """
    from tqdm import tqdm

    done = {key(result): result for result in results.read()}
    missing = [task for task in tasks if key(task) not in done]
    bar = tqdm(total=len(tasks), initial=len(tasks) - len(missing), unit="run", disable=not sys.stderr.isatty())
    try:
        with bar:
            for result in run_tasks(function, missing, data, jobs=jobs, scheduler=scheduler) if missing else ():
                results.append(result)
                done[key(result)] = result
                bar.update()
                text = report([done[key(task)] for task in tasks if key(task) in done])
                if text:
                    bar.write(text)
    except (Interrupted, KeyboardInterrupt) as error:
        safe = sum(key(task) in done for task in tasks)
        reason = str(error) or "stopped by Ctrl-C"
        raise Interrupted(
            f"{reason}; {safe} of {len(tasks)} runs are safe in {results.path}; to continue: {command}"
        ) from error
    return [done[key(task)] for task in tasks]
