"""Time one training step of this project beside PyTorch, JAX and the bare matrix products.

    python -m benchmarks training_step --json benchmarks/training_step.json

The contenders, which first prove that they compute what ours computes, take turns, round by round: a slow spell of the
machine slows all alike. Ours is also profiled function by function; ours and the floor are timed at more depths.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Generic, Self, TypeVar

import numpy as np
from joblib import cpu_count

from highway_lab.fields import Count, NonEmpty, NotNegative
from highway_lab.logs import Log, environment
from highway_networks import rounded

from .contenders import CONTENDERS, ENTRIES, Case, Entry, why_missing
from .measures import Spread, run, spread
from .worker import Team, take_turn_by_functions

FULL = (Case(5), Case(30), Case(100), Case(depth=4, width=512, batch=1024))  # cases in which all are timed
GROWTH = (Case(10), Case(300), Case(1000))  # and those of these contenders alone:
TIMED_IN_ALL_CASES = ("ours", "floor")
ROUNDS = 12
LEAST_SHARE = 0.01  # of a step's time that a function takes to be named
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
    """A part of our step, a function by default: the median of its time, over all its calls in a step."""

    case: CaseT
    name: str
    microseconds: NotNegative


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
    rows: NonEmpty[Row[Case]]
    passes: NonEmpty[Pass[Case]]


def measure(title: str, case: CaseT, contestants: Sequence[tuple], rounds: int) -> list[Row[CaseT]]:
    """Time a case, and print the result; the contestants, of which the first is ours, take turns in each round.

    A contestant is the arguments of its Team.
    """
    with ExitStack() as stack:
        teams = [stack.enter_context(Team(*contestant)).prepare(case) for contestant in contestants]
        ms = np.array([[team.turn() for team in teams] for _ in range(rounds)]).T  # (teams, rounds)
    print(f"\n{title}: ms a step, ours / it")
    rows = []
    for team, times in zip(teams, ms, strict=True):
        entry, threads = ENTRIES[team.name], f"{team.threads} thread{'s' * (team.threads > 1)}"
        kernels = environment().kernels if entry.library == "numpy" else f"{entry.library}'s own"
        rows.append(Row(team.name, case, team.threads, kernels, spread(times), spread(ms[0] / times)))
        print(f"  {entry.label:<28}{threads:<11}{rows[-1].ms!s:<26}{rows[-1].ours_over}", flush=True)
    return rows


def measure_passes(case: CaseT, ours: str, rounds: int) -> list[Pass[CaseT]]:
    """Time the functions of our step on one thread, those that take longest first."""
    with Team(ours, 1) as team:
        turns = [turn for _ in range(rounds) for turn in team.prepare(case).ask(take_turn_by_functions)]
    medians = Counter({name: float(np.median([turn[name] for turn in turns])) for name in turns[0]})
    named = {name: took for name, took in medians.most_common() if took >= LEAST_SHARE * medians.total()}
    named["other functions"] = medians.total() - sum(named.values())
    return [Pass(case, name, rounded(took, 4)) for name, took in named.items()]


def measure_step(arguments: argparse.Namespace) -> StepLog:
    """Time the training step of dense nets beside other libraries."""
    log, names = StepLog.begin(CONTENDERS, arguments, threads=cpu_count(), rows=[], passes=[])
    few = [name for name in names if name in TIMED_IN_ALL_CASES]
    for case in (*FULL, *GROWTH):
        ours, *others = names if case in FULL else few
        contestants = [(ours, 1), *((name, threads) for name in others for threads in sorted({1, cpu_count()}))]
        log.rows += measure(str(case), case, contestants, log.rounds)
        if case in FULL:
            log.passes += measure_passes(case, ours, log.rounds)
    return log


main = partial(run, "training_step", measure_step, rounds=ROUNDS, contenders=CONTENDERS)
