"""Time one training step of this project beside PyTorch, JAX and the bare matrix products.

    python -m benchmarks training_step --json benchmarks/training_step.json
    python -m benchmarks plot [LOG.json] [--out PICTURE.png]    # by default this log and viz/training_step.png

The contenders, which first prove that they compute what ours computes, take turns, round by round: a slow spell of the
machine slows all alike. Ours and the floor are timed at more depths.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np
from joblib import cpu_count
from matplotlib.figure import Figure

from highway_lab.cli import OneLineParser, add_picture_flags, picture_flags, run_cli
from highway_lab.fields import Count, NonEmpty
from highway_lab.figures import INK, draw_level, label_ends, new_figure, picture_folder, save_all
from highway_lab.logs import Log, environment

from .contenders import CONTENDERS, ENTRIES, Case, Entry, why_missing
from .measures import Benchmark, Spread, spread
from .worker import Team

FULL = (Case(5), Case(30), Case(100), Case(depth=4, width=512, batch=1024))  # cases in which all are timed
GROWTH = (Case(10), Case(300), Case(1000))  # and those of these contenders alone:
TIMED_IN_ALL_CASES = ("ours", "floor")
ROUNDS = 12
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


def measure_step(arguments: argparse.Namespace) -> StepLog:
    """Time the training step of dense nets beside other libraries."""
    log, names = StepLog.begin(CONTENDERS, arguments, threads=cpu_count(), rows=[])
    few = [name for name in names if name in TIMED_IN_ALL_CASES]
    for case in (*FULL, *GROWTH):
        ours, *others = names if case in FULL else few
        contestants = [(ours, 1), *((name, threads) for name in others for threads in sorted({1, cpu_count()}))]
        log.rows += measure(str(case), case, contestants, log.rounds)
    return log


def best(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return each contender's row with the better number of threads, by case and contender."""
    found = {}
    for row in sorted(rows, key=lambda row: row.ms.median, reverse=True):  # the fastest takes the place of others
        found.setdefault(str(row.case), {})[row.contender] = row
    return found


def numbers(log: StepLog) -> dict:
    """Return what the page quotes: the rows by case and contender."""
    return {"step": best(log.rows), "rounds": log.rounds}


BENCHMARK = Benchmark("training_step", StepLog, measure_step, numbers, rounds=ROUNDS, contenders=CONTENDERS)
PICTURE = Path("viz/training_step.png")
DEPTHS = [case.depth for case in FULL if case == Case(case.depth)]  # drawn
DRAWN = {"torch-eager": "#882255", "torch-compiled": "#CC6677", "jax-scanned": "#117733", "floor": INK}


def step_figure(log: StepLog) -> Figure:
    """Draw the time of other steps over that of ours: medians over rounds, quartiles as a band."""
    figure, axes = new_figure("Narrow nets train faster than in PyTorch", 4)
    draw_level(axes, 1, CONTENDERS["ours"].label)
    step = best(log.rows)
    for name, color in DRAWN.items():
        of = [found[name] for depth in DEPTHS if name in (found := step.get(str(Case(depth)), {}))]
        depths = [row.case.depth for row in of]
        low, median, high = ([1 / getattr(row.ours_over, at) for row in of] for at in ("high", "median", "low"))
        axes.fill_between(depths, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(depths, median, label=CONTENDERS[name].label, marker="o", clip_on=False, color=color)
    axes.set(xscale="log", xlabel="blocks of 50 units", ylabel="time of a step / time of ours", ylim=0)
    axes.set_xticks(DEPTHS, DEPTHS)
    axes.minorticks_off()
    axes.margins(x=0)
    label_ends(axes)
    return figure


def plot(argv: Sequence[str] | None = None) -> int:
    """Run the command line that draws a log; returns the exit code."""
    log = BENCHMARK.log_path
    parser = OneLineParser(prog="python -m benchmarks plot", description="Draw the training step.")
    parser.add_argument("log", nargs="?", type=Path, default=log, metavar="LOG.json", help="default: %(default)s")
    add_picture_flags(parser)

    def draw(arguments: argparse.Namespace) -> None:
        pictures = {PICTURE.name: partial(step_figure, BENCHMARK.read(arguments.log))}
        folder = picture_folder(arguments.log, log)
        print("drew", *save_all(pictures, folder, arguments.log, **picture_flags(arguments)))

    return run_cli(parser, draw, argv)
