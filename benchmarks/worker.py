"""A process for each contender and number of threads, so that nothing one sets or leaves running reaches another.

Threads are limited by letting the process see as many CPUs while it builds the contender: some libraries count them
once, when they start. While it is timed it may run on any, as binding would leave it at the mercy of one. Linux only.
"""

import math
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from threadpoolctl import threadpool_limits

from .contenders import Case, Contender, build

TURN_SECONDS = 0.08  # how long a contender is timed before the next one's turn
LEAST_STEPS = 2
ASLEEP = 0.05  # share of a CPU below which a process counts as asleep
NAP = 0.01  # seconds
NAPS = 300


class Worker:
    """Times one contender, with so many threads, in a process of its own; a context manager that ends the process."""

    def __init__(self, name: str, threads: int):
        self.name, self.threads = name, threads
        spawn = multiprocessing.get_context("spawn")
        self._link, link = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(link,), daemon=True)
        self._process.start()
        link.close()  # the process has it now; it ends when nobody is left at this end

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, exception: type | None, *_) -> None:
        self._link.close()
        if exception:  # it may be busy for long
            self._process.terminate()
        self._process.join()

    def prepare(self, case: Case) -> None:
        """Build the contender for a case, checked against ours."""
        self.ask(_prepare, self.name, self.threads, case)

    def take_turn(self) -> float:
        """Milliseconds a step, over one turn of several steps; when it returns the process is asleep."""
        return self.ask(_take_turn)

    def ask(self, function: Callable, *arguments):
        """What `function` returns in the process; raises RuntimeError, with the traceback, if it fails there."""
        self._link.send((function, arguments))
        try:
            result, failure = self._link.recv()
        except EOFError:
            result, failure = None, "the process has died"
        if failure:
            raise RuntimeError(f"{self.name}, {self.threads} threads: {failure}")
        return result


def serve(link: Connection) -> None:
    """Answer what a Worker asks, until nobody is left to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    while True:
        try:
            function, arguments = link.recv()
        except EOFError:
            return
        try:
            link.send((function(*arguments), None))
        except Exception:
            link.send((None, traceback.format_exc()))


@contextmanager
def seeing_cpus(number: int) -> Iterator[None]:
    """In this context the process may use, and libraries find, so many of the CPUs; after it all that it could before.

    Threads that were started meanwhile are as free afterwards.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-number:])
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread), before)


# What follows runs in the worker's process, which holds one contender at a time.
_contender: Contender | None = None


def _prepare(name: str, threads: int, case: Case) -> None:
    global _contender
    _contender = None  # free its memory first
    threadpool_limits(threads)  # NumPy has counted the CPUs already
    with seeing_cpus(threads):
        _contender = build(name, case)
        _contender.run(LEAST_STEPS)
    _fall_asleep()


def _take_turn() -> float:
    start = time.perf_counter()
    _contender.run(1)  # brings the caches back, and tells how many steps fill a turn
    steps = max(LEAST_STEPS, math.ceil(TURN_SECONDS / (time.perf_counter() - start)))
    start = time.perf_counter()
    _contender.run(steps)
    seconds = time.perf_counter() - start
    _fall_asleep()
    return 1e3 * seconds / steps


def _fall_asleep() -> None:
    """Return when no thread here runs any more: after a product they spin for a while, in wait of the next."""
    for _ in range(NAPS):
        used, start = time.process_time(), time.perf_counter()
        time.sleep(NAP)
        if time.process_time() - used < ASLEEP * (time.perf_counter() - start):
            return
    raise RuntimeError("expected a process that sleeps after its turn, found threads that go on spinning")
