"""Time one training step of this project beside PyTorch, JAX and the bare matrix products.

    python -m benchmarks training_step --json benchmarks/training_step.json

The contenders, which first prove that they compute what ours computes, take turns, round by round: a slow spell of the
machine slows all alike. Ours is also timed pass by pass; ours and the floor over depth and width.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Generic, Self, TypeVar

import numpy as np

from highway_lab.cli import OneLineParser, count
from highway_lab.fields import COUNT, Count, rule
from highway_lab.logs import Log
from highway_networks import rounded

from .contenders import CONTENDERS, ENTRIES, Case, Entry, why_missing
from .measures import Spread, new_parser, run, spread
from .worker import Team, take_turn_by_passes, teams

DEPTHS = [5, 30, 100]
WIDE = Case(depth=4, width=512, batch=1024)
GROWTH = (*(Case(depth) for depth in (10, 30, 100, 300, 1000)), *(Case(30, width) for width in (50, 100, 200, 512)))
ROUNDS = 12
TIMED_IN_ALL_CASES = ("ours", "floor")
CaseT = TypeVar("CaseT")


@dataclass
class Row(Generic[CaseT]):
    """A contender's step with a number of threads."""

    contender: str
    case: CaseT
    threads: int
    kernels: str  # of NumPy's BLAS; a framework brings its own
    ms: Spread
    ours_over: Spread  # our time over its time, within each round


@dataclass
class Pass(Generic[CaseT]):
    """A part of our step: the median of its time, over all blocks together."""

    case: CaseT
    name: str
    microseconds: Annotated[float, rule(within=COUNT)]


@dataclass
class TimedLog(Log):
    """A log of contenders; `missing` names the missing requirement of each that could not run."""

    libraries: dict[str, str]
    missing: dict[str, str]
    rounds: Count

    @classmethod
    def begin(cls, contenders: dict[str, Entry], arguments: argparse.Namespace, **fields) -> tuple[Self, list[str]]:
        """Return an empty log and the contenders to time: ours, and those asked for that can run."""
        ours, *_ = contenders
        asked = [name for name in contenders if name in {ours, *arguments.only}]
        missing = {name: reason for name in asked if (reason := why_missing(name))}
        for name, reason in missing.items():
            print(f"MISSING {contenders[name].label}: {reason}")
        names = [name for name in asked if name not in missing]
        libraries = sorted({contenders[name].library for name in names})
        fields |= {"libraries": {library: version(library) for library in libraries}, "missing": missing}
        return cls.new(arguments.command_line, None, rounds=arguments.rounds, **fields), names


@dataclass
class StepLog(TimedLog):
    rows: Annotated[list[Row[Case]], rule("rows")]
    passes: Annotated[list[Pass[Case]], rule("passes")]


def plan(names: Sequence[str], depths: Sequence[int]) -> dict[Case, Sequence[str]]:
    """Return the contenders of each case: all at the depths and in the wide case, ours and the floor in the others."""
    few = [name for name in names if name in TIMED_IN_ALL_CASES]
    full = (*map(Case, depths), WIDE)
    return {case: names if case in full else few for case in (*full, *GROWTH)}


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def thread_counts(name: str, case: Case) -> list[int]:
    """Return the numbers of threads that a contender is timed with."""
    if name.startswith("ours"):
        return [1]  # as the laboratory trains
    return sorted({1, cpus()})


def measure(title: str, case: CaseT, contestants: Sequence[Team], rounds: int) -> list[Row[CaseT]]:
    """Time a case, the contenders taking turns in each round, and print the result; the first is ours."""
    for team in contestants:
        team.prepare(case)
    ms = np.array([[team.turn() for team in contestants] for _ in range(rounds)]).T  # (teams, rounds)
    rows = [
        Row(team.name, case, team.threads, team.kernels(), spread(times), spread(ms[0] / times))
        for team, times in zip(contestants, ms, strict=True)
    ]
    print(f"\n{title}: ms a step, ours / it")
    for row in rows:
        label, threads = ENTRIES[row.contender].label, f"{row.threads} thread{'s' * (row.threads > 1)}"
        print(f"  {label:<28}{threads:<11}{row.ms!s:<26}{row.ours_over}", flush=True)
    return rows


def measure_passes(case: CaseT, ours: Team, rounds: int) -> list[Pass[CaseT]]:
    """Time the passes of our step, for which the team has been prepared."""
    turns = [ours.ask(take_turn_by_passes)[0] for _ in range(rounds)]
    return [Pass(case, name, rounded(np.median([turn[name] for turn in turns]), 4)) for name in turns[0]]


def run_command(arguments: argparse.Namespace) -> StepLog:
    """Measure, and print each case when it is done."""
    log, names = StepLog.begin(CONTENDERS, arguments, threads=cpus(), rows=[], passes=[])
    with teams() as start:
        for case, timed in plan(names, arguments.depths).items():
            contestants = [start(name, threads) for name in timed for threads in thread_counts(name, case)]
            log.rows += measure(str(case), case, contestants, log.rounds)
            if timed is names:
                log.passes += measure_passes(case, contestants[0], log.rounds)
    return log


def list_of_depths(text: str) -> list[int]:
    """Return the numbers in `5,30,100`; raises argparse's error for anything else."""
    return [count(part) for part in text.split(",")]


def add_only(parser: OneLineParser, contenders: dict[str, Entry]) -> None:
    """Add the flag that leaves out contenders."""
    parser.add_argument("--only", nargs="+", choices=contenders, default=contenders, help="beside ours, only these")


def main(argv: Sequence[str] | None = None) -> int:
    parser = new_parser("training_step", "Time the training step.", ROUNDS)
    parser.add_argument("--depths", type=list_of_depths, default=DEPTHS, metavar="L,L,...", help="default: 5,30,100")
    add_only(parser, CONTENDERS)
    return run(parser, run_command, argv)
