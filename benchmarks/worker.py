"""A process for each contender and number of threads, so that nothing one sets or leaves running reaches another.

Threads are limited by binding the process to as many CPUs, before any framework is imported: some count the CPUs once,
when they start. Binding needs Linux.
"""

import math
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from threadpoolctl import threadpool_limits

from .contenders import Case, Contender, build

TURN_SECONDS = 0.08  # how long a contender is timed before the next one's turn
LEAST_STEPS = 2
ASLEEP = 0.05  # share of a CPU below which a process counts as asleep
NAP = 0.01  # seconds
NAPS = 300


class Worker:
    """Times one contender in a process of its own, bound to `threads` CPUs; a context manager that ends the process."""

    def __init__(self, name: str, threads: int):
        self.name, self.threads = name, threads
        spawn = multiprocessing.get_context("spawn")
        self._link, link = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(link, threads), daemon=True)
        self._process.start()
        link.close()  # the process has it now; it ends when nobody is left at this end

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception) -> None:
        self._process.terminate()
        self._process.join()

    def prepare(self, case: Case) -> None:
        """Build the contender for a case, checked against ours."""
        self.ask(_prepare, self.name, case)

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


def serve(link: Connection, threads: int) -> None:
    """Answer what a Worker asks, until nobody is left to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    bind(threads)
    while True:
        try:
            function, arguments = link.recv()
        except EOFError:
            return
        try:
            link.send((function(*arguments), None))
        except Exception:
            link.send((None, traceback.format_exc()))


def bind(threads: int) -> None:
    """Bind this process to the last `threads` of its CPUs, and NumPy, which has counted them already, to as many."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    threadpool_limits(threads)


# What follows runs in the worker's process, which holds one contender at a time.
_contender: Contender | None = None


def _prepare(name: str, case: Case) -> None:
    global _contender
    _contender = None  # free its memory first
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
