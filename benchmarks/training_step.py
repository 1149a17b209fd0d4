"""Time one training step of this project beside PyTorch, JAX and the bare matrix products.

    python -m benchmarks.training_step --json benchmarks/training_step.json

A step is forward, loss, backward, clip and Adam in float32, on 784 inputs and 10 classes. Every contender first proves
that it computes what ours computes. They then take turns, round by round, so that whatever slows the machine slows all
alike; ratios are taken within a round. Each runs with one thread and with one for every CPU, and its better time
counts; ours chooses for itself. Ours is also timed pass by pass; ours and the floor, over depth and width.
"""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from highway_lab.cli import count
from highway_lab.logs import Log, number
from highway_lab.threads import count_threads

from .contenders import CONTENDERS, ENTRIES, Case, versions, who_can_run
from .measures import Spread, new_parser, run, spread
from .worker import Team, Worker, take_turn_by_passes

DEPTHS = [5, 30, 100]
WIDE = Case(depth=4, width=512, batch=1024)
GROWTH = (
    *(Case(depth) for depth in (10, 30, 100, 300, 1000)),
    *(Case(30, width) for width in (50, 100, 200, 512)),
)
ROUNDS = 12
TIMED_IN_ALL_CASES = ("ours", "floor")
CaseT = TypeVar("CaseT")


@dataclass
class Row(Generic[CaseT]):
    """One contender's step at one number of threads; `ours_over` is our time over its time, within each round.

    kernels are those of NumPy's BLAS; a framework brings its own.
    """

    contender: str
    case: CaseT
    threads: int
    kernels: str
    ms: Spread
    ours_over: Spread


@dataclass
class Pass(Generic[CaseT]):
    """A part of our step: the median of its time, all blocks together."""

    case: CaseT
    name: str
    microseconds: float


@dataclass
class StepLog(Log):
    """What `--json` writes. `missing` tells of each contender that could not run what it lacks."""

    libraries: dict[str, str]
    missing: dict[str, str]
    rounds: int
    rows: list[Row[Case]]
    passes: list[Pass[Case]]


# ------------------------------------------------------------------------------------------- measuring


def plan(names: Sequence[str], depths: Sequence[int]) -> dict[Case, Sequence[str]]:
    """Who is timed in which case: all at the depths and in the wide case, ours and the floor in the others."""
    few = [name for name in names if name in TIMED_IN_ALL_CASES]
    full = (*map(Case, depths), WIDE)
    return {case: names if case in full else few for case in (*full, *GROWTH)}


def cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def thread_counts(name: str, case: Case) -> list[int]:
    """How many threads a contender is timed with."""
    if name.startswith("ours"):
        return [min(count_threads(case.width**2 * case.batch), cpus())]
    return sorted({1, cpus()})


def measure(case: CaseT, workers: Sequence[Worker | Team], rounds: int) -> list[Row[CaseT]]:
    """Time a case, the workers taking turns in each round; the first is ours."""
    for worker in workers:
        worker.prepare(case)
    ms = np.array([[worker.turn() for worker in workers] for _ in range(rounds)]).T  # (workers, rounds)
    return [
        Row(worker.name, case, worker.threads, worker.kernels(), spread(times), spread(ms[0] / times))
        for worker, times in zip(workers, ms, strict=True)
    ]


def measure_passes(case: CaseT, ours: Worker, rounds: int) -> list[Pass[CaseT]]:
    """Time the passes of our step, which the worker has been prepared for."""
    turns = [ours.ask(take_turn_by_passes) for _ in range(rounds)]
    return [Pass(case, name, number(np.median([turn[name] for turn in turns]), 4)) for name in turns[0]]


def show(title: str, rows: Sequence[Row]) -> None:
    """Print what each took."""
    print(f"\n{title}: ms a step, ours / it")
    for row in rows:
        label, threads = ENTRIES[row.contender].label, f"{row.threads} thread{'s' * (row.threads > 1)}"
        print(f"  {label:<28}{threads:<11}{row.ms!s:<26}{row.ours_over}", flush=True)


def run_command(arguments: argparse.Namespace) -> StepLog:
    """Measure, and print each case when it is done."""
    names, missing = who_can_run(CONTENDERS, arguments.only)
    log = StepLog.new(
        arguments.command_line,
        None,
        threads=cpus(),
        libraries=versions(names),
        missing=missing,
        rounds=arguments.rounds,
        rows=[],
        passes=[],
    )
    with ExitStack() as stack:  # each process is started when it is first needed; all end together
        start = functools.cache(lambda *key: stack.enter_context(Worker(*key)))
        for case, timed in plan(names, arguments.depths).items():
            workers = [start(name, threads) for name in timed for threads in thread_counts(name, case)]
            rows = measure(case, workers, log.rounds)
            log.rows += rows
            if timed is names:
                log.passes += measure_passes(case, workers[0], log.rounds)
            show(str(case), rows)
    return log


# ------------------------------------------------------------------------------------ the command line


def list_of_depths(text: str) -> list[int]:
    """`5,30,100`; raises argparse's error for anything else."""
    return [count(part) for part in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = new_parser("training_step", "Time the training step.", ROUNDS)
    parser.add_argument("--depths", type=list_of_depths, default=DEPTHS, metavar="L,L,...", help="default: 5,30,100")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS, help="beside ours, only these")
    return run(parser, run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
