"""Processes that time the contenders, one each, so that nothing that one sets or leaves running reaches another.

Threads are limited by letting the process see as many CPUs while it builds the contender: some libraries count them
once, when they start. While it is timed it may run on any of them. Where CPUs cannot be chosen, OpenMP is told.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from highway_lab.cli import ignore_interrupts

from .contenders import Contender, build

TURN_SECONDS = 0.08  # time of a contender's turn
LEAST_STEPS = 2
ASLEEP = 0.05  # share of a CPU below which a process counts as asleep
NAP = 0.01  # seconds
NAPS = 300


class Team(ExitStack):
    """Processes of one contender, usually one, with `threads` each; they take turns together. The context ends them."""

    def __init__(self, name: str, threads: int, processes: int = 1):
        super().__init__()
        self.name, self.threads, spawn = name, threads, multiprocessing.get_context("spawn")
        with ignore_interrupts():  # until they settle in
            self.processes = [ProcessPoolExecutor(1, spawn, initializer=_settle_in) for _ in range(processes)]
            for process in self.processes:
                self.enter_context(process).submit(int)  # starts it

    def ask(self, function: Callable, *arguments: Any) -> list:
        """Return what `function` returns in each process."""
        tasks = [process.submit(function, *arguments) for process in self.processes]
        return [task.result() for task in tasks]

    def prepare(self, case: Any) -> Self:
        """Let each process build its contender for a case and check it against ours."""
        self.ask(prepare, self.name, self.threads, case)
        return self

    def turn(self) -> float:
        """Time some steps in all processes; return milliseconds a step, counting the steps of all."""
        return 1 / sum(1 / ms for ms in self.ask(take_turn))


# What follows runs in a process of a team.
_contender: Contender | None = None


def _settle_in() -> None:
    """End without a message on Ctrl-C, and when the parent process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def prepare(name: str, threads: int, case: Any) -> None:
    """Build the contender for a case and check it against ours."""
    global _contender
    threadpool_limits(threads)  # NumPy has counted the CPUs already
    with seeing_cpus(threads):
        _contender = build(name, case)
        _contender.run(LEAST_STEPS)
    _fall_asleep()


def take_turn() -> float:
    """Return milliseconds a step, over several steps; afterwards the process is asleep."""
    start = time.perf_counter()
    _contender.run(1)  # also fills the caches again
    steps = max(LEAST_STEPS, math.ceil(TURN_SECONDS / (time.perf_counter() - start)))
    start = time.perf_counter()
    _contender.run(steps)
    seconds = time.perf_counter() - start
    _fall_asleep()
    return 1e3 * seconds / steps


def _fall_asleep() -> None:
    """Return when no thread of this process runs any more: after a product, threads spin for a while."""
    for _ in range(NAPS):
        used, start = time.process_time(), time.perf_counter()
        time.sleep(NAP)
        if time.process_time() - used < ASLEEP * (time.perf_counter() - start):
            return
    raise RuntimeError("expected a process that sleeps after its turn, found threads that go on spinning")


@contextmanager
def seeing_cpus(number: int) -> Iterator[None]:
    """Let the process use, and libraries find, `number` of its CPUs in this context; afterwards all, in all threads."""
    if not hasattr(os, "sched_setaffinity"):
        with patch.dict(os.environ, OMP_NUM_THREADS=str(number)):
            yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-number:])
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread), before)
