"""Picture and table of the small nets that the article suggests."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, new_figure
from highway_lab.intervals import interval
from highway_lab.logs import grouped
from highway_lab.tables import markdown

from ..common import CHANCE, points
from ..common_figures import minus, title
from .small_nets import SmallNetsLog, SmallRun

WEIGHTS = {"uniform": "uniform", "glorot": "normalised", "orthogonal": "orthogonal"}


def name_net(run: SmallRun) -> str:
    config = run.config
    bias = f", b_T {minus(config.gate_bias)}" * (config.block == "highway")
    return f"{config.block}, {count_of(config.depth, 'block')}, {WEIGHTS[config.init]}{bias}, rate {config.lr:g}"


def figure(log: SmallNetsLog) -> Figure:
    """Draw the last test accuracy of every seed, a line for each net."""
    nets = grouped(log.runs, name_net)
    lowest = [points(runs).min() for runs in nets.values()]
    many = f"{sum(score > 200 * CHANCE for score in lowest)} of {len(nets)} kinds of net"
    found = f"{many} exceed {200 * CHANCE:.0f} % from every seed"
    picture, axes = new_figure(title(log.dataset, log.runs, found), 3.6)
    for row, runs in enumerate(nets.values()):
        scores, color = points(runs), COLORS[runs[0].config.block]
        axes.plot(scores, np.full(len(scores), row), "o", color=color, alpha=0.4, markersize=4, clip_on=False)
        axes.plot(scores.mean(), row, "|", color=color, markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(nets)), [name.replace("b_T", "$b_T$") for name in nets])
    axes.invert_yaxis()
    axes.axvline(100 * CHANCE, color="0.5", linewidth=1, linestyle=(0, (3, 5)))
    axes.set(xlabel="test accuracy (%); dashed: guessing", xlim=(0, 100))
    return picture


def table(log: SmallNetsLog) -> str:
    """Tabulate mean, lowest and highest test accuracy of each net."""
    rows = [
        [name, str(len(runs)), f"{interval(scores):.1f}", f"{scores.min():.1f}", f"{scores.max():.1f}"]
        for name, runs in grouped(log.runs, name_net).items()
        for scores in [points(runs)]
    ]
    return f"{markdown(['net', 'seeds', 'mean', 'lowest', 'highest'], rows)}\n\nTest accuracy in per cent."


FIGURES = {"small_nets.png": figure}
TABLES = {"small_nets": table}
