"""Time one training step of this project beside PyTorch, JAX and the bare matrix products.

    python -m benchmarks.training_step --json benchmarks/training_step.json

A step is forward, loss, backward, clip and Adam in float32, on 784 inputs and 10 classes. Every contender first proves
that it computes what ours computes. They then take turns, round by round, so that whatever slows the machine slows all
alike; ratios are taken within a round. Each runs with one thread and with one for every CPU, and its better time
counts; ours chooses for itself. Ours and the floor are also timed over depth and width, with our memory.
"""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from highway_networks import OneLineParser, count_threads, list_of_numbers
from run_log import Environment, InputError, environment, now, write

from .command_line import new_parser, require_positive, run
from .contenders import CONTENDERS, Case, why_missing
from .measures import Spread, Target, describe, peak_mib, spread
from .worker import Worker

SCHEMA = 1
DEPTHS = (5, 30, 100)
WIDE = Case(depth=4, width=512, batch=1024)
GROWTH = (
    *(Case(depth) for depth in (10, 30, 100, 300, 1000)),
    *(Case(30, width) for width in (50, 100, 200, 512)),
)
ROUNDS = 12
TIMED_IN_ALL_CASES = ("ours", "floor")


@dataclass
class Row:
    """One contender's step at one number of threads; `ours_over` is our time over its time, within each round."""

    contender: str
    case: Case
    threads: int
    ms: Spread
    ours_over: Spread


@dataclass
class Peak:
    """The most memory of a fresh process that takes our step."""

    case: Case
    mib: float


@dataclass
class StepLog:
    """What `--json` writes. `missing` tells of each contender that could not run what it lacks."""

    schema: int
    created: str
    command: str
    environment: Environment
    libraries: dict[str, str]
    missing: dict[str, str]
    rounds: int
    rows: list[Row]
    peaks: list[Peak]

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, found {self.schema}")


# ------------------------------------------------------------------------------------------- measuring


def plan(names: Sequence[str], depths: Sequence[int]) -> dict[Case, Sequence[str]]:
    """Who is timed in which case: all at the depths and in the wide case, ours and the floor in the others."""
    few = [name for name in names if name in TIMED_IN_ALL_CASES]
    full = (*map(Case, depths), WIDE)
    return {case: names if case in full else few for case in (*full, *GROWTH)}


def cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def thread_counts(name: str, case: Case) -> set[int]:
    """How many threads a contender is timed with."""
    if name == "ours":
        return {min(count_threads(case.width, case.batch), cpus())}
    return {1, cpus()}


class Workers(ExitStack):
    """The processes, each started when it is first needed, all ended with the context."""

    def __init__(self):
        super().__init__()
        self._started: dict[tuple[str, int], Worker] = {}

    def of(self, names: Sequence[str], case: Case) -> list[Worker]:
        """Those that time these contenders in this case, ours first."""
        keys = [(name, threads) for name in names for threads in sorted(thread_counts(name, case))]
        for key in keys:
            if key not in self._started:
                self._started[key] = self.enter_context(Worker(*key))
        return [self._started[key] for key in keys]


def measure(case: Case, workers: Sequence[Worker], rounds: int) -> list[Row]:
    """Time a case, the workers taking turns in each round; the first is ours."""
    for worker in workers:
        worker.prepare(case)
    ms = np.array([[worker.take_turn() for worker in workers] for _ in range(rounds)]).T  # (workers, rounds)
    return [
        Row(worker.name, case, worker.threads, spread(times), spread(ms[0] / times))
        for worker, times in zip(workers, ms, strict=True)
    ]


def measure_peak(case: Case) -> Peak:
    """Take our step in a fresh process and ask how much memory it has held."""
    (threads,) = thread_counts("ours", case)
    with Worker("ours", threads) as worker:
        worker.prepare(case)
        return Peak(case, worker.ask(peak_mib))


def measure_all(names: Sequence[str], depths: Sequence[int], rounds: int) -> Iterator[tuple[list[Row], Peak]]:
    """Time every case of the plan; yields each as it is done."""
    with Workers() as workers:
        for case, contenders in plan(names, depths).items():
            yield measure(case, workers.of(contenders, case), rounds), measure_peak(case)


# ------------------------------------------------------------------------------------------- reporting


def fastest(log: StepLog, case: Case, names: Sequence[str]) -> Row | None:
    """The fastest row of these contenders in a case; None if none of them was timed."""
    rows = [row for row in log.rows if row.case == case and row.contender in names]
    return min(rows, key=lambda row: row.ms.median, default=None)


def targets(log: StepLog) -> list[Target]:
    """What is to be reached, and what was."""

    def ours_over(case: Case, *names: str) -> float | None:
        row = fastest(log, case, names)
        return row and row.ours_over.median

    headline = Case(30)
    shallow, deep = (fastest(log, Case(depth), ["ours"]) for depth in (100, 1000))
    return [
        Target("depth 30: ours / floor", ours_over(headline, "floor"), 1.85),
        Target("depth 30: ours / best JAX", ours_over(headline, "jax-scanned", "jax-unrolled"), 0.75),
        Target("depth 30: ours / PyTorch, compiled", ours_over(headline, "torch-compiled"), 0.60),
        Target("depth 30: ours / PyTorch, eager", ours_over(headline, "torch-eager"), 0.28),
        Target("ours: depth 1000 / depth 100", deep and shallow and deep.ms.median / shallow.ms.median, 10.5),
        Target("width 512, batch 1024: ours / floor", ours_over(WIDE, "floor"), 1.3),
        Target(
            "width 512, batch 1024: ours / PyTorch, eager or fused", ours_over(WIDE, "torch-eager", "torch-fused"), 1.0
        ),
    ]


def table(rows: Sequence[Row], peak: Peak) -> str:
    """The rows of one case."""
    case = peak.case
    lines = [
        f"depth {case.depth}, width {case.width}, batch {case.batch}; peak memory of ours {peak.mib} MiB",
        f"  {'':<24}{'threads':>7}  {'ms a step':<26}ours / it",
    ]
    lines += [f"  {CONTENDERS[row.contender].label:<24}{row.threads:>7}  {row.ms!s:<26}{row.ours_over}" for row in rows]
    return "\n".join(lines)


def versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of the libraries that these contenders use."""
    libraries = dict.fromkeys(CONTENDERS[name].library for name in names)
    return {library: importlib.metadata.version(library) for library in libraries}


# ------------------------------------------------------------------------------------ the command line


def build_parser() -> OneLineParser:
    parser = new_parser("training_step", "Time the training step.", ROUNDS)
    parser.add_argument("--depths", type=list_of_numbers, default=DEPTHS, metavar="L,L,...", help="default: 5,30,100")
    parser.add_argument("--only", metavar="NAME,...", help=f"beside ours, only these of {', '.join(CONTENDERS)}")
    return parser


def chosen(only: str | None) -> list[str]:
    """The contenders that `--only` names, ours always first; raises InputError for an unknown one."""
    names = set(CONTENDERS) if only is None else {"ours", *only.split(",")}
    for name in names - set(CONTENDERS):
        raise InputError(f"--only: expected names of {', '.join(CONTENDERS)}, found {name!r}; choose among these")
    return [name for name in CONTENDERS if name in names]


def run_command(arguments: argparse.Namespace, command: str) -> None:
    """Measure, print, and write the log if one is asked for; raises InputError."""
    if not hasattr(os, "sched_setaffinity"):
        raise InputError(
            f"training_step: expected Linux, which limits processes to CPUs, found {sys.platform}; run it there"
        )
    require_positive("--depths", min(arguments.depths))
    names = chosen(arguments.only)
    missing = {name: reason for name in names if (reason := why_missing(name))}
    present = [name for name in names if name not in missing]
    log = StepLog(
        SCHEMA, now(), command, environment(cpus()), versions(present), missing, arguments.rounds, rows=[], peaks=[]
    )
    for rows, peak in measure_all(present, arguments.depths, arguments.rounds):
        print(table(rows, peak) + "\n", flush=True)
        log.rows += rows
        log.peaks.append(peak)
    for name, reason in missing.items():
        print(f"MISSING {CONTENDERS[name].label}: {reason}")
    print(describe(targets(log)))
    if arguments.json:
        write(arguments.json, log)
        print(f"saved {arguments.json}")


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run(build_parser(), run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
