"""Draw and tabulate a log of the training step: training_step.json -> viz/training_step.png.

python -m benchmarks.training_step_figures [LOG.json] [--out PICTURE.png]
"""

import argparse
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from highway_lab.cli import OneLineParser, run_cli
from highway_lab.figures import INK, label_ends, markdown, new_figure, pale, save
from highway_lab.logs import read

from .contenders import CONTENDERS, Case, Entry
from .training_step import TIMED_IN_ALL_CASES, Row, StepLog, TimedLog

LOG = Path("benchmarks/training_step.json")
PICTURE = Path("viz/training_step.png")
MANY = 5  # depths that crowd an axis: then only powers of ten are marked
OURS, TORCH, JAX = "#0072B2", "#D55E00", "#009E73"
STYLES = {  # a hue for each library
    "ours": {"color": OURS, "linewidth": 3.5, "zorder": 3},
    "ours-avx2": {"color": pale(OURS, 0.6), "linewidth": 2},
    "floor": {"color": INK, "linestyle": (0, (4, 2)), "linewidth": 1.5},
    "torch-eager": {"color": TORCH, "linewidth": 2},
    "torch-fused": {"color": TORCH, "linewidth": 2, "alpha": 0.7},
    "torch-compiled": {"color": TORCH, "linewidth": 2, "alpha": 0.45},
    "jax-scanned": {"color": JAX, "linewidth": 2},
    "jax-unrolled": {"color": JAX, "linewidth": 2, "alpha": 0.55},
}


def step_figure(log: StepLog) -> Figure:
    """Draw time against depth. Left: all contenders. Right: ours and the floor, over more depths."""
    title = f"One training step: width {Case.width}, batch {Case.batch}, milliseconds by depth"
    figure, (left, right) = new_figure(title, 4.4, ncols=2, width_ratios=(1.7, 1))
    draw_times(left, log, CONTENDERS, [case.depth for case in timed_by_passes(log) if case == Case(case.depth)])
    every = {row.case.depth for row in log.rows if row.case == Case(row.case.depth)}
    draw_times(right, log, TIMED_IN_ALL_CASES, sorted(every))
    return figure


def draw_times(axes: Axes, log: StepLog, names: Sequence[str], depths: list[int]) -> None:
    """Draw each contender's median time over these depths, at its better number of threads; quartiles as a band."""
    for name in names:
        rows = [row for depth in depths if (row := fastest(log.rows, Case(depth), name))]
        if rows:
            at, style = [row.case.depth for row in rows], STYLES[name]
            low, median, high = zip(*((row.ms.low, row.ms.median, row.ms.high) for row in rows), strict=True)
            axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.plot(at, median, label=CONTENDERS[name].label, marker="o", clip_on=False, **style)
    axes.set(xscale="log", yscale="log", xlabel="blocks")
    axes.margins(x=0)
    axes.set_xticks(depths if len(depths) < MANY else [depth for depth in depths if np.log10(depth).is_integer()])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    label_ends(axes)


# ------------------------------------------------------------------------- tables, also of convolutional nets


def fastest(rows: Sequence[Row], case: Hashable, *names: str) -> Row | None:
    """Return the fastest row of these contenders in a case, whatever its threads; None if none was timed."""
    found = [row for row in rows if row.case == case and row.contender in names]
    return min(found, key=lambda row: row.ms.median, default=None)


def timed_by_passes(log: TimedLog) -> list:
    """Return the cases in which every contender was timed, and our step pass by pass."""
    return list(dict.fromkeys(part.case for part in log.passes))


def table_of_steps(
    log: TimedLog,
    rows: Sequence[Row],
    contenders: Mapping[str, Entry],
    title: str,
    value: Callable[[Row], str],
    ratio_title: str,
    ratio: Callable[[Row], float],
) -> str:
    """Return a table with a line for each contender: its `value` in each case, and the `ratio` of ours to it."""
    cases, (ours, *_) = timed_by_passes(log), contenders
    lines = []
    for name, contender in contenders.items():
        line = [contender.label]
        for case in cases:
            found = fastest(rows, case, name)
            line.append(value(found) if found else log.missing.get(name, ""))
            line.append(f"{ratio(found):.2f}" if found and name != ours else "")
        lines.append(line)
    return markdown([title, *(word for case in cases for word in (str(case), ratio_title))], lines)


def table_of_passes(log: TimedLog, rows: Sequence[Row], ours: str) -> str:
    """Return a table of the microseconds of each pass in each case and its share, and the step timed as a whole."""
    cases = timed_by_passes(log)
    took = {(part.case, part.name): part.microseconds for part in log.passes}
    total = {case: sum(took[key] for key in took if key[0] == case) for case in cases}
    lines = [
        [name, *(f"{took[case, name]:,.0f} ({took[case, name] / total[case]:.0%})" for case in cases)]
        for name in dict.fromkeys(part.name for part in log.passes)
    ]
    lines.append(["together", *(f"{total[case]:,.0f}" for case in cases)])
    lines.append(["the step, timed whole", *(f"{1e3 * fastest(rows, case, ours).ms.median:,.0f}" for case in cases)])
    return markdown(["microseconds a step (share)", *map(str, cases)], lines)


def training_step_table(log: StepLog) -> str:
    """Return a table of each contender's milliseconds a step, and our time over its time within each round."""
    table = table_of_steps(
        *(log, log.rows, CONTENDERS),
        *("milliseconds a step", lambda row: f"{row.ms.median:.3g}"),
        *("ours / it", lambda row: row.ours_over.median),
    )
    hundred, thousand = (fastest(log.rows, Case(depth), "ours").ms.median for depth in (100, 1000))
    return (
        f"{table}\n\nMedians over {log.rounds} rounds, each contender at its better number of "
        f"threads; width {Case.width} and batch {Case.batch} unless stated. Our step at depth 1,000 takes "
        f"{thousand / hundred:.1f} times as long as at depth 100."
    )


def passes_table(log: StepLog) -> str:
    """Return a table of the time of each part of our step."""
    return table_of_passes(log, log.rows, "ours")


# -------------------------------------------------------------------------------------- the command line


FIGURES = {PICTURE.name: step_figure}
TABLES = {"training_step": training_step_table, "training_step_passes": passes_table}


def draw(arguments: argparse.Namespace) -> None:
    """Draw a log; raises InputError."""
    log = read(arguments.log, StepLog, f"make it with: python -m benchmarks.training_step --json {arguments.log}")
    save(step_figure(log), arguments.out, arguments.log)
    print(f"drew {arguments.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = OneLineParser(prog="python -m benchmarks.training_step_figures", description="Draw the training step.")
    parser.add_argument("log", nargs="?", type=Path, default=LOG, metavar="LOG.json", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PICTURE, metavar="PICTURE.png", help="default: %(default)s")
    return run_cli(parser, draw, argv)


if __name__ == "__main__":
    sys.exit(main())
