"""A process for each contender and number of threads, so that nothing one sets or leaves running reaches another.

Threads are limited by letting the process see as many CPUs while it builds the contender: some libraries count them
once, when they start. While it is timed it may run on any, as binding would leave it at the mercy of one. Linux only.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from highway_lab.logs import environment

from .contenders import ENTRIES, Contender, build
from .measures import KERNELS

TURN_SECONDS = 0.08  # how long a contender is timed before the next one's turn
LEAST_STEPS = 2
ASLEEP = 0.05  # share of a CPU below which a process counts as asleep
NAP = 0.01  # seconds
NAPS = 300


class Worker(ProcessPoolExecutor):
    """A process of one contender, with so many threads; a context manager that ends it."""

    def __init__(self, name: str, threads: int):
        super().__init__(1, multiprocessing.get_context("spawn"), initializer=_settle_in)
        self.name, self.threads, kernels = name, threads, ENTRIES[name].kernels
        with patch.dict(os.environ, {KERNELS: kernels} if kernels else {}):
            self.submit(int)  # starts the process

    def ask(self, function: Callable, *arguments):
        """What `function` returns in the process, or raises there."""
        try:
            return self.submit(function, *arguments).result()
        except Exception as error:
            error.add_note(f"{self.name}, {self.threads} threads")
            raise

    def prepare(self, case: Any) -> None:
        """Let the process build its contender for a case, checked against ours."""
        self.ask(prepare, self.name, self.threads, case)

    def turn(self) -> float:
        """Time some steps: milliseconds a step."""
        return self.ask(take_turn)

    def kernels(self) -> str:
        """Those that its products run on."""
        library = ENTRIES[self.name].library
        return self.ask(environment).kernels if library == "numpy" else f"{library}'s own"


class Team:
    """Workers of one contender, which take their turns together and count as one; `threads` are those of each."""

    def __init__(self, workers: Sequence[Worker]):
        self.workers, self.name, self.threads = workers, workers[0].name, workers[0].threads

    def prepare(self, case: Any) -> None:
        """Let each process build the contender for a case, checked against ours."""
        for worker in self.workers:
            worker.prepare(case)

    def turn(self) -> float:
        """Time some steps of each, side by side: milliseconds a step, where those of all count."""
        turns = [worker.submit(take_turn) for worker in self.workers]
        return 1 / sum(1 / turn.result() for turn in turns)

    def kernels(self) -> str:
        """Those that their products run on."""
        return self.workers[0].kernels()


# What follows runs in the worker's process, which holds one contender at a time.
_contender: Contender | None = None


def _settle_in() -> None:
    """End at once, without a word, on Ctrl-C, and when there is nobody left to ask."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def prepare(name: str, threads: int, case: Any) -> None:
    """Build the contender for a case, checked against ours."""
    global _contender
    _contender = None  # free its memory first
    threadpool_limits(threads)  # NumPy has counted the CPUs already
    with seeing_cpus(threads):
        _contender = build(name, case)
        _contender.run(LEAST_STEPS)
    _fall_asleep()


def take_turn() -> float:
    """Milliseconds a step, over several steps; when it returns the process is asleep."""
    steps = _steps_of_a_turn()
    start = time.perf_counter()
    _contender.run(steps)
    seconds = time.perf_counter() - start
    _fall_asleep()
    return 1e3 * seconds / steps


def take_turn_by_passes() -> dict[str, float]:
    """Microseconds of each pass of our step, likewise."""
    steps = _steps_of_a_turn()
    seconds = _contender.seconds_by_pass(steps)
    _fall_asleep()
    return {name: 1e6 * total / steps for name, total in seconds.items()}


def _steps_of_a_turn() -> int:
    start = time.perf_counter()
    _contender.run(1)  # which also brings the caches back
    return max(LEAST_STEPS, math.ceil(TURN_SECONDS / (time.perf_counter() - start)))


def _fall_asleep() -> None:
    """Return when no thread here runs any more: after a product they spin for a while, in wait of the next."""
    for _ in range(NAPS):
        used, start = time.process_time(), time.perf_counter()
        time.sleep(NAP)
        if time.process_time() - used < ASLEEP * (time.perf_counter() - start):
            return
    raise RuntimeError("expected a process that sleeps after its turn, found threads that go on spinning")


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
