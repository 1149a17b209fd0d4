"""Draw a log of the training step: training_step.json -> viz/training_step.png.

python -m benchmarks.plot [LOG.json] [--out PICTURE.png]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from figure_style import INK, label_ends, new_figure, save
from highway_networks import OneLineParser
from run_log import InputError, read

from .contenders import CONTENDERS, Case
from .training_step import TIMED_IN_ALL_CASES, StepLog, fastest

LOG = Path("benchmarks/training_step.json")
PICTURE = Path("viz/training_step.png")
MANY = 5  # depths that crowd an axis: only powers of ten are marked
STYLES = {  # a hue for each library
    "ours": {"color": "#0072B2", "linewidth": 3.5, "zorder": 3},
    "floor": {"color": INK, "linestyle": (0, (4, 2)), "linewidth": 1.5},
    "torch-eager": {"color": "#D55E00", "linewidth": 2},
    "torch-fused": {"color": "#D55E00", "linewidth": 2, "alpha": 0.7},
    "torch-compiled": {"color": "#D55E00", "linewidth": 2, "alpha": 0.45},
    "jax-scanned": {"color": "#009E73", "linewidth": 2},
    "jax-unrolled": {"color": "#009E73", "linewidth": 2, "alpha": 0.55},
}


def step_figure(log: StepLog) -> Figure:
    """Time against depth. Left: every contender, where the peers were timed. Right: ours and the floor, all depths."""
    title = f"One training step: width {Case.width}, batch {Case.batch}, milliseconds by depth"
    figure, (left, right) = new_figure(title, 4.4, ncols=2, width_ratios=(1.7, 1))
    timed = [name for name in CONTENDERS if depths_of(log, [name])]
    peers = [name for name in timed if name not in TIMED_IN_ALL_CASES]
    draw_times(left, log, timed, depths_of(log, peers or timed))
    draw_times(right, log, TIMED_IN_ALL_CASES, depths_of(log, TIMED_IN_ALL_CASES))
    return figure


def depths_of(log: StepLog, names: Sequence[str]) -> list[int]:
    """The depths at which one of these contenders was timed at the usual width and batch."""
    return sorted({row.case.depth for row in log.rows if row.contender in names and row.case == Case(row.case.depth)})


def draw_times(axes: Axes, log: StepLog, names: Sequence[str], depths: list[int]) -> None:
    """Each contender's median time over these depths, at its better number of threads; quartiles as a band."""
    for name in names:
        rows = [row for depth in depths if (row := fastest(log, Case(depth), [name]))]
        if rows:
            at, style = [row.case.depth for row in rows], STYLES[name]
            low, median, high = zip(*((row.ms.low, row.ms.median, row.ms.high) for row in rows), strict=True)
            axes.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.plot(at, median, label=CONTENDERS[name].label, marker="o", clip_on=False, **style)
    axes.set(xscale="log", yscale="log", xlabel="hidden blocks", xlim=(depths[0], depths[-1]))
    axes.set_xticks(depths if len(depths) < MANY else [depth for depth in depths if np.log10(depth).is_integer()])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    label_ends(axes)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for an error of the user's."""
    parser = OneLineParser(prog="python -m benchmarks.plot", description="Draw a log of the training step.")
    parser.add_argument("log", nargs="?", type=Path, default=LOG, metavar="LOG.json", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PICTURE, metavar="PICTURE.png", help="default: %(default)s")
    arguments = parser.parse_args(argv)
    try:
        log = read(arguments.log, StepLog, f"make it with: python -m benchmarks.training_step --json {arguments.log}")
        save(step_figure(log), arguments.out, arguments.log)
    except InputError as error:
        parser.error(str(error))
    print(f"drew {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
