"""Draw and tabulate a log of the training step: training_step.json -> viz/training_step.png.

python -m benchmarks.training_step_figures [LOG.json] [--out PICTURE.png]
"""

import argparse
import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from highway_lab.cli import OneLineParser, run_cli
from highway_lab.figures import INK, label_ends, markdown, new_figure, pale, save
from highway_lab.logs import read

from .contenders import CONTENDERS, Case
from .training_step import TIMED_IN_ALL_CASES, Pass, Row, StepLog

LOG = Path("benchmarks/training_step.json")
PICTURE = Path("viz/training_step.png")
MANY = 5  # depths that crowd an axis: only powers of ten are marked
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
    """Time against depth. Left: every contender, where the peers were timed. Right: ours and the floor, all depths."""
    title = f"One training step: width {Case.width}, batch {Case.batch}, milliseconds by depth"
    figure, (left, right) = new_figure(title, 4.4, ncols=2, width_ratios=(1.7, 1))
    draw_times(left, log, CONTENDERS, [case.depth for case in full_cases(log) if case == Case(case.depth)])
    every = {row.case.depth for row in log.rows if row.case == Case(row.case.depth)}
    draw_times(right, log, TIMED_IN_ALL_CASES, sorted(every))
    return figure


def full_cases(log: StepLog) -> list[Case]:
    """The cases in which every contender was timed, and our step pass by pass."""
    return list(dict.fromkeys(part.case for part in log.passes))


def fastest(log: StepLog, case: Case, name: str) -> Row | None:
    """A contender's row in a case at its better number of threads; None if it was not timed."""
    rows = [row for row in log.rows if (row.case, row.contender) == (case, name)]
    return min(rows, key=lambda row: row.ms.median, default=None)


def draw_times(axes: Axes, log: StepLog, names: Sequence[str], depths: list[int]) -> None:
    """Each contender's median time over these depths, at its better number of threads; quartiles as a band."""
    for name in names:
        rows = [row for depth in depths if (row := fastest(log, Case(depth), name))]
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


def training_step_table(log: StepLog) -> str:
    """Milliseconds of a step of each contender, and our time over its time, within each round."""
    cases = full_cases(log)
    rows = []
    for name, contender in CONTENDERS.items():
        row = [contender.label]
        for case in cases:
            found = fastest(log, case, name)
            row.append(f"{found.ms.median:.3g}" if found else log.missing.get(name, ""))
            row.append(f"{found.ours_over.median:.2f}" if found and name != "ours" else "")
        rows.append(row)
    header = ["milliseconds a step", *(word for case in cases for word in (str(case), "ours / it"))]
    hundred, thousand = (fastest(log, Case(depth), "ours").ms.median for depth in (100, 1000))
    return (
        f"{markdown(header, rows)}\n\nMedians over {log.rounds} rounds, each contender at its better number of "
        f"threads; width {Case.width} and batch {Case.batch} unless stated. Our step at depth 1,000 takes "
        f"{thousand / hundred:.1f} times as long as at depth 100."
    )


def passes_table(log: StepLog) -> str:
    """Where the time of our step goes: microseconds of each pass, and its share."""
    return table_of_passes(log.passes, {case: fastest(log, case, "ours").ms.median for case in full_cases(log)})


def table_of_passes(passes: Sequence[Pass], whole: Mapping[Hashable, float]) -> str:
    """The microseconds of each pass in each case, beside the milliseconds of the step that was timed as a whole."""
    took = {(part.case, part.name): part.microseconds for part in passes}
    total = {case: sum(took[key] for key in took if key[0] == case) for case in whole}
    rows = [
        [name, *(f"{took[case, name]:,.0f} ({took[case, name] / total[case]:.0%})" for case in whole)]
        for name in dict.fromkeys(part.name for part in passes)
    ]
    rows.append(["together", *(f"{total[case]:,.0f}" for case in whole)])
    rows.append(["the step, timed whole", *(f"{1e3 * ms:,.0f}" for ms in whole.values())])
    return markdown(["microseconds a step (share)", *map(str, whole)], rows)


FIGURES = {PICTURE.name: step_figure}
TABLES = {"training_step": training_step_table, "training_step_passes": passes_table}


def draw(arguments: argparse.Namespace) -> None:
    """Draw the log; raises InputError."""
    log = read(arguments.log, StepLog, f"make it with: python -m benchmarks.training_step --json {arguments.log}")
    save(step_figure(log), arguments.out, arguments.log)
    print(f"drew {arguments.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = OneLineParser(prog="python -m benchmarks.training_step_figures", description="Draw the training step.")
    parser.add_argument("log", nargs="?", type=Path, default=LOG, metavar="LOG.json", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PICTURE, metavar="PICTURE.png", help="default: %(default)s")
    return run_cli(parser, draw, argv)


if __name__ == "__main__":
    sys.exit(main())
