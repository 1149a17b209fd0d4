"""Draw and tabulate a log of the training step: training_step.json -> viz/training_step.png.

python -m benchmarks training_step_figures [LOG.json] [--out PICTURE.png]
"""

import argparse
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from highway_lab.cli import OneLineParser, run_cli
from highway_lab.figures import COLORS, INK, label_ends, new_figure, pale, picture_folder, save_all
from highway_lab.files import check_suffix
from highway_lab.logs import read
from highway_lab.tables import markdown

from .contenders import CONTENDERS, Case, Entry
from .measures import Spread
from .training_step import Row, StepLog, TimedLog

LOG = Path("benchmarks/training_step.json")
PICTURE = Path("viz/training_step.png")
MANY = 5  # depths that crowd an axis: then only powers of ten are marked
PANELS = {  # by title: a colour, and the contenders beside ours
    "PyTorch": (COLORS["plain"], ("torch-eager", "torch-fused", "torch-compiled")),
    "JAX": (COLORS["residual"], ("jax-scanned", "jax-unrolled")),
    "matrix products alone": (INK, ("floor",)),
}
SHADES = (1, 0.75, 0.55)  # of the contenders of a panel


def step_figure(log: StepLog) -> Figure:
    """Draw time against depth, a panel for each library beside ours; the floor over all depths."""
    cases, found = {row.case for row in log.rows if row.case == Case(row.case.depth)}, []
    for library, (_, names) in PANELS.items():
        ratios = [row.ours_over.median for case in cases if (row := fastest(log.rows, case, *names))]
        found += [f"{min(ratios):.2g} to {max(ratios):.2g} ({library})"] if ratios else []
    title = f"Time of a training step over that of the fastest, {Case.width} units a block: {', '.join(found)}"
    figure, panels = new_figure(title, 4.2, ncols=len(PANELS), sharey=True)
    for axes, (library, (color, names)) in zip(panels, PANELS.items(), strict=True):
        ours = {"ours": {"color": COLORS["highway"], "linewidth": 3.5, "zorder": 3}}
        others = {name: {"color": pale(color, shade)} for name, shade in zip(names, SHADES, strict=False)}
        draw_times(axes, log, ours | others)
        axes.set_title(library)
    panels[0].set_ylabel("milliseconds")
    label_ends(*panels)
    return figure


def draw_times(axes: Axes, log: StepLog, styles: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the median time of contenders, in these styles, at their better number of threads; quartiles as a band.

    The depths are those at which all of them were timed, but for those that are missing.
    """
    timed = {row.contender for row in log.rows}
    names = [name for name in styles if name in timed]
    of_log = sorted({row.case.depth for row in log.rows if row.case == Case(row.case.depth)})
    depths = [depth for depth in of_log if all(fastest(log.rows, Case(depth), name) for name in names)]
    for name in names:
        times = [fastest(log.rows, Case(depth), name).ms for depth in depths]
        low, median, high = zip(*((ms.low, ms.median, ms.high) for ms in times), strict=True)
        axes.fill_between(depths, low, high, color=styles[name]["color"], alpha=0.15, linewidth=0)
        label = CONTENDERS[name].label.split(", ")[-1]
        axes.plot(depths, median, label=label, marker="o", clip_on=False, **styles[name])
    axes.set(xscale="log", yscale="log", xlabel="blocks")
    axes.margins(x=0)
    axes.set_xticks(depths if len(depths) < MANY else [depth for depth in depths if np.log10(depth).is_integer()])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()


# ------------------------------------------------------------------------- tables, also of convolutional nets


def fastest(rows: Sequence[Row], case: Hashable, *names: str) -> Row | None:
    """Return the fastest row of these contenders in a case, whatever its threads; None if none was timed."""
    found = [row for row in rows if row.case == case and row.contender in names]
    return min(found, key=lambda row: row.ms.median, default=None)


def full_cases(log: TimedLog) -> list:
    """Return the cases in which every contender was timed, and our step by its parts."""
    return list(dict.fromkeys(part.case for part in log.passes))


def table_of_steps(
    log: TimedLog, rows: Sequence[Row], contenders: Mapping[str, Entry], title: str, value: Callable[[Spread], str]
) -> str:
    """Return a table with a line for each contender: its `value` in each case, and the ratio of our time to its."""
    cases, (ours, *_), lines = full_cases(log), contenders, []
    for name, contender in contenders.items():
        lines.append([contender.label])
        for case in cases:
            found = fastest(rows, case, name)
            lines[-1].append(value(found.ms) if found else log.missing.get(name, ""))
            lines[-1].append(f"{found.ours_over.median:.2f}" if found and name != ours else "")
    return markdown([title, *(word for case in cases for word in (str(case), "ours / it"))], lines)


def table_of_passes(log: TimedLog, rows: Sequence[Row], ours: str) -> str:
    """Return a table of the microseconds of each part of our step and its share, and the step timed as a whole."""
    cases, took = full_cases(log), {(part.case, part.name): part.microseconds for part in log.passes}
    total = {case: sum(took[key] for key in took if key[0] == case) for case in cases}

    def cell(case: Hashable, name: str) -> str:
        return f"{took[case, name]:,.0f} ({took[case, name] / total[case]:.0%})" if (case, name) in took else ""

    lines = [[name, *(cell(case, name) for case in cases)] for name in dict.fromkeys(part.name for part in log.passes)]
    lines.append(["together", *(f"{total[case]:,.0f}" for case in cases)])
    lines.append(["the step, timed whole", *(f"{1e3 * fastest(rows, case, ours).ms.median:,.0f}" for case in cases)])
    return markdown(["microseconds a step (share)", *map(str, cases)], lines)


def training_step_table(log: StepLog) -> str:
    """Return a table of each contender's milliseconds a step, and our time over its time within each round."""
    return (
        f"{table_of_steps(log, log.rows, CONTENDERS, 'milliseconds a step', lambda ms: f'{ms.median:.3g}')}\n\n"
        f"Medians over {log.rounds} rounds, each contender at its better number of threads; "
        f"width {Case.width} and batch {Case.batch} unless stated."
    )


FIGURES = {PICTURE.name: step_figure}
TABLES = {
    "training_step": training_step_table,
    "training_step_passes": lambda log: table_of_passes(log, log.rows, "ours"),
}


def draw(arguments: argparse.Namespace) -> None:
    if arguments.out:
        check_suffix("--out", arguments.out, PICTURE.name)
    log = read(arguments.log, StepLog, f"make it with: python -m benchmarks training_step --json {arguments.log}")
    picture = arguments.out or picture_folder(arguments.log, LOG) / PICTURE.name
    save_all({picture: partial(step_figure, log)}, arguments.log)
    print(f"drew {picture}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = OneLineParser(prog="python -m benchmarks training_step_figures", description="Draw the training step.")
    parser.add_argument("log", nargs="?", type=Path, default=LOG, metavar="LOG.json", help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="PICTURE.png", help=f"default: {PICTURE}, or below viz/")
    return run_cli(parser, draw, argv)
