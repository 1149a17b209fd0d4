"""Many runs that may be cut short at any moment: side by side, on this machine or on a cluster, none finished lost.

Each finished run is one line of a JSON-lines file, on disk before the next one is looked at. Starting again reads the
file and runs only what is missing.
"""

import argparse
import asyncio
import functools
import hashlib
import json
import logging
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, fields, replace
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from highway_lab import Interrupted, logs
from highway_lab.cli import count, ignore_interrupts, import_file
from highway_lab.console import count_of
from highway_lab.files import atomic_write, content_of, make_place, remove
from highway_lab.logs import Result, imported
from highway_networks import InputError

LOSSES = (BrokenExecutor, CancelledError, OSError)  # of a worker or a scheduler, not defects of a task
ATTEMPTS = 3  # at tasks that were lost with a cluster's worker
CONNECT_SECONDS = 10.0  # after which there is no scheduler
ResultT = TypeVar("ResultT", bound=Result)
MOST_PROCESSES = 64  # or the number of CPUs: each takes memory, and time to start


def sealed(text: bytes) -> bytes:
    """Return a JSON object with the SHA-256 of its bytes as its last key."""
    return text[:-1] + b', "sha256": "%s"}' % hashlib.sha256(text).hexdigest().encode()


def unsealed(line: bytes) -> bytes | None:
    """Return what was `sealed`; None if the line is not as it was written."""
    text = line[: len(b"{") - len(sealed(b"{}"))] + b"}"
    return text if sealed(text) == line else None


class ResultFile(Generic[ResultT]):
    """Results, one JSON object a line, each a dataclass `schema`: the environment, the task, what was measured.

    A line is sealed with a digest. One that is no longer as it was written counts for nothing: its run is repeated.
    """

    def __init__(self, path: str | os.PathLike, schema: type[ResultT]):
        self.path, self.schema = Path(path), schema
        plain = getattr(schema, "__origin__", schema)  # of Run[Config]: Run
        self._name, (environment, task, *_) = plain.__name__, (field.name for field in fields(plain))
        self.task_of = attrgetter(task)
        self._opening = f'{{"{environment}": '.encode()  # with which every line begins

    def read(self) -> list[ResultT]:
        """Return every result in the file but damaged ones; none if there is no file.

        A last line without its newline was torn by a crash, or is being written: it is left out. A line as it was
        written that does not fit the schema raises InputError: the file belongs to somebody else.
        """
        found = []
        for number, text in enumerate(self.texts(), start=1):
            try:
                if text:
                    found.append(logs.loads(text, self.schema))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{self.path}: line {number}: expected a {self._name} of this version, found: {error}; "
                    "delete this line, or move the file"
                ) from error
        return found

    def texts(self) -> list[bytes | None]:
        """Return the JSON of every line, None for one that is not as it was written."""
        *lines, _torn = self._content().split(b"\n")
        return [unsealed(line) for line in lines]

    def keep(self, wanted: Callable[[ResultT], bool]) -> None:
        """Rewrite the file without damaged lines and without results that are not wanted; remove it if none is left."""
        texts = [text for text in self.texts() if text]
        content = b"".join(
            sealed(text) + b"\n" for text, result in zip(texts, self.read(), strict=True) if wanted(result)
        )
        if not content:
            remove(self.path)
        elif content != self._content():
            with atomic_write(self.path) as file:
                file.write(content)

    def check(self) -> None:
        """Raise InputError, before hours of work, if the file holds something else or no line can be added."""
        make_place(self.path)
        self._content()
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise InputError(f"{self.path}: expected a file to add to, found: no permission; move it, or allow it")

    def clear(self) -> None:
        """Remove the file; raises InputError if it holds something else."""
        self.check()
        remove(self.path)

    def append(self, result: ResultT) -> None:
        """Add one line, and wait until the disk has it; raises Interrupted if it cannot."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(sealed(json.dumps(asdict(result), allow_nan=False).encode()) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Interrupted(f"{self.path}: {error.strerror}") from error

    def _content(self) -> bytes:
        try:
            content = content_of(self.path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(f"{self.path}: expected a file of results, found: {error.strerror}; move it") from error
        if not (content.startswith(self._opening) or self._opening.startswith(content)):
            raise InputError(f"{self.path}: expected a {self._name} a line, found something else; move the file")
        return content


def run_tasks(
    function: Callable[[Any, Any], Any], tasks: Iterable[Any], data: Any, *, jobs: int, scheduler: str | None = None
) -> Generator[Any]:
    """Yield function(task, data) for every task, in the order in which they finish.

    `jobs` local processes, or the workers of the Dask scheduler at `scheduler` (tcp://host:port). Raises Interrupted if
    a worker or the scheduler is lost.
    """
    if not tasks:
        return
    try:
        if scheduler is None:
            yield from _on_this_machine(function, tasks, data, jobs)
        else:
            yield from _on_cluster(function, tasks, data, scheduler)
    except Exception as error:
        if isinstance(error, LOSSES) or type(error).__name__ == "KilledWorker":  # Dask's
            reason = str(error).strip().splitlines() or ["no reason given"]
            raise Interrupted(f"{type(error).__name__}: {reason[0]}") from error
        if scheduler and "No module named" in f"{error} {error.__cause__}":  # Dask may name it in a message alone
            raise InputError(
                f"--scheduler: expected scheduler and workers with this package and what it needs, found: {error}; "
                "install it there, and start them in the checkout, with PYTHONPATH=."
            ) from error
        raise


def _on_this_machine(function: Callable, tasks: Iterable[Any], data: Any, jobs: int) -> Iterator:
    """Yield results of `jobs` local processes, which get the data once, as memory-mapped files.

    Ctrl-C, and the end of a terminal, reach every process, but only this one answers. A single job needs no other
    process; others end with their work, or with this process, however it ends.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.backend import resource_tracker

    warnings.filterwarnings("ignore", module="joblib.parallel")  # a job that is cut short says so itself
    begin: dict[str, Any] = {}
    with ExitStack() as stack:
        if jobs > 1:
            parent, _ends_with_this_process = map(stack.enter_context, multiprocessing.Pipe(duplex=False))
            begin = {"initializer": _begin_process, "initargs": (parent,)}
            scratch = TemporaryDirectory(prefix="highway-networks-", ignore_cleanup_errors=True)
            begin["temp_folder"] = folder = stack.enter_context(scratch)
            resource_tracker.register(folder, "folder")  # which a process of its own removes if this one is killed
            stack.callback(resource_tracker.unregister, folder, "folder")
        with ignore_interrupts():  # processes that are started meanwhile inherit it
            finished = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, **begin)(
                delayed(function)(task, data) for task in tasks
            )
        try:
            yield from finished
        finally:  # they end before this process does, or what they share would be left behind
            if jobs > 1:
                with ignore_interrupts():
                    get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _begin_process(parent: Connection) -> None:
    """Prepare this process, one of several: it ends soon after the one that started it, however that ends."""
    from tqdm import tqdm

    def end_with_parent() -> None:
        with suppress(EOFError, OSError):
            parent.recv_bytes()  # nothing is ever sent
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    tqdm.set_lock(threading.RLock())  # its own is a semaphore of the system, which this process leaves if it is killed


def _on_cluster(function: Callable, tasks: Iterable[Any], data: Any, scheduler: str) -> Iterator:
    """Yield results of a Dask cluster's workers, which get the data once.

    joblib's Dask backend is not used, because of two defects: it trains in this process if it sees a single worker,
    and it gives nothing to workers that join later.
    """
    left = dict(enumerate(tasks))
    with _connect(scheduler) as client:
        from dask.distributed import as_completed

        for _ in range(ATTEMPTS):
            (there,) = client.scatter([data], broadcast=True)  # lost with a single worker, which a nanny may replace
            submitted = {client.submit(function, task, there, pure=False): index for index, task in left.items()}
            for future in as_completed(submitted):
                if future.status in ("cancelled", "lost") and client.status == "running":
                    continue  # to be tried again; without a scheduler, result() raises
                yield future.result()
                del left[submitted[future]]
            if not left:
                return
    raise CancelledError(f"workers were lost {ATTEMPTS} times")


@contextmanager
def _connect(scheduler: str) -> Iterator[Any]:
    """Connect to the Dask scheduler; raises InputError if there is none, or no Dask."""
    try:
        from dask.distributed import Client, Security
        from distributed.comm.core import connect
    except ImportError as error:
        raise InputError('--scheduler: expected Dask, found none; pip install "highway-networks[cluster]"') from error

    for name in ("distributed", "distributed.client"):  # a loss is reported in one line, elsewhere
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def ask() -> None:
        way = connect(scheduler, **Security().get_connection_args("client"))
        (await asyncio.wait_for(way, CONNECT_SECONDS)).abort()

    try:
        with ThreadPoolExecutor(1) as thread:  # in this one a loop may run, as in a notebook
            thread.submit(asyncio.run, ask()).result()  # Client would wait for ever for a server that is silent
        client = Client(scheduler, timeout=CONNECT_SECONDS)
    except Exception as error:  # whatever Dask says of another server's answer
        found = f"expected a Dask scheduler at {scheduler}, found none that answers"
        raise InputError(f"--scheduler: {found}; start one, in a thread or process of its own") from error
    with client:
        yield client


def check_scheduler(scheduler: str) -> None:
    with _connect(scheduler):
        pass


def run_missing(
    function: Callable[[Any, Any], ResultT],
    tasks: Sequence[Any],
    data: Any,
    results: ResultFile[ResultT],
    *,
    to_continue: str,
    jobs: int,
    any_code: bool = False,
    fresh: bool = False,
    scheduler: str | None = None,
    report: Callable[[ResultT], str | None] = lambda result: None,
    bar: bool = True,
) -> list[ResultT]:
    """Run the tasks whose results are not in the file yet; return all results, in the order of the tasks.

    Each result gets the environment of the process that made it. Results of other training code than today's raise
    InputError, unless `any_code` will do. `fresh`: forget all that are there. After each run `report` gets its result,
    and may return a text to print; `bar`: whether a terminal shows a bar of runs. Raises Interrupted, whose message
    says how many runs are safe and how `to_continue`.
    """
    from tqdm import tqdm

    if fresh:
        if scheduler:
            check_scheduler(scheduler)  # before anything is forgotten
        results.clear()
    found, samples = results.read(), logs.digest_of_samples(data)
    done = {results.task_of(result): result for result in found}
    foreign = [task for task, of in done.items() if not is_of_today(task, of.environment, samples)]
    if not any_code:
        check_of_today(results.path, foreign)
    if damaged := results.texts().count(None):
        words = f"{count_of(damaged, 'line')} no longer as written, or of an older version"
        print(f"{results.path}: damaged, found: {words}; trained anew", file=sys.stderr)
    results.keep(lambda result: True)
    missing = [task for task in tasks if task not in done]
    hidden = not (bar and sys.stderr.isatty())
    progress = tqdm(total=len(tasks), initial=len(tasks) - len(missing), unit="run", disable=hidden)
    jobs = min(jobs, max(len(missing), 1), max(MOST_PROCESSES, os.cpu_count() or 1))
    files = [*map(os.path.abspath, imported)] if scheduler or jobs > 1 else []  # else this process has them
    make = functools.partial(_make, function, samples, files)
    made = run_tasks(make, missing, data, jobs=jobs, scheduler=scheduler)
    try:
        with progress, closing(made) as finished:  # closed at once: late workers would end those of a next call
            for result in finished:
                results.append(result)
                done[results.task_of(result)] = result
                progress.update()
                if text := report(result):
                    progress.write(text)
    except (Interrupted, KeyboardInterrupt) as error:
        safe = len({*tasks} & done.keys() & {results.task_of(result) for result in results.read()})
        reason = str(error) or "stopped by a signal, such as Ctrl-C"
        kept = f"{safe} of {len(tasks)} runs are safe in {results.path}"
        raise Interrupted(f"{reason}; {kept}; to continue: {to_continue}") from error
    return [done[task] for task in tasks]


def is_of_today(task: Any, made: logs.Environment | None, samples: str) -> bool:
    """Tell whether the result of a task was made by the training code as it is now, of samples with this digest."""
    here = logs.environment(programs=logs.mathematics(task))
    return made is not None and (made.code, made.samples) == (here.code, samples)


def check_of_today(path: Path, foreign: Collection[Any]) -> None:
    if foreign:
        raise InputError(
            f"{path}: expected runs of the training code as it is now, found {len(foreign)} of other code; "
            "go on with them (--keep), or begin anew (--fresh)"
        )


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of every command whose runs are kept one by one: --jobs, --scheduler, --keep and --fresh."""
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="runs side by side, in N processes")
    text = "train on a Dask cluster, tcp://host:port, whose workers have this package"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=text)
    older = parser.add_mutually_exclusive_group()
    older.add_argument("--keep", dest="any_code", action="store_true", help="go on with runs of older code")
    older.add_argument("--fresh", action="store_true", help="forget all runs of before")


def _make(function: Callable[[Any, Any], ResultT], samples: str, files: Sequence[str], task: Any, data: Any) -> ResultT:
    """Return the result of a task with the environment of this process, which first imports a user's files."""
    for file in files:  # they may hold blocks and losses
        if file not in imported:
            import_file(file)
    here = logs.environment(programs=logs.mathematics(task))  # before the task: meanwhile somebody may edit the code
    result = function(task, data)
    result.environment = replace(here, samples=samples)
    return result
