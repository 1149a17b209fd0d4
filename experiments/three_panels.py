"""The picture of the main README: test error by depth, in one setting, tuned, and on a task that needs depth.

`python -m experiments plot` draws it, too, from the logs of tuned_plain, what_gates_add and using_depth.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.figures import draw_level, draw_seeds, label_ends, new_figure

from .common import CHANCE, load
from .common_figures import arm_color
from .study import Results, accuracies

UNITS, AS_LARGE, OF_PAIRS = 50, 71, 100  # units; plain blocks of 71 have as many parameters as highway blocks of 50
ONE_SETTING = (("highway", UNITS), ("plain", UNITS))
TUNED = (("highway", UNITS), ("plain", AS_LARGE), ("plain, orthogonal", AS_LARGE))
SUM = tuple((arm, OF_PAIRS) for arm in ("residual", "residual, gated", "plain, orthogonal", "highway"))
NAMES = {"plain, orthogonal": "orthogonal", "residual, gated": "x + T·H", "residual": "x + H"}
TICKS = (5, 10, 20, 50, 90)  # %
DEPTHS_OF_PAIRS = (1, 2, 5, 10, 20, 50)


LOGS = [
    Path("runs", f"{name}.json") for name in ("tuned_plain-untuned", "tuned_plain", "what_gates_add-sum", "using_depth")
]
PICTURE = Path("viz/three_panels.png")


def draw_errors(axes: Axes, results: Results, kinds: Iterable[tuple[str, int]], depths: Sequence[int]) -> None:
    """Draw the test error of each kind of net, arm and units, by depth: a faint curve a seed, a bold one their mean."""
    found = results.by_cell()  # of cells that had nothing to choose
    for arm, units in kinds:
        cells = {cell.depth: cell for cell in results.finished if (cell.arm, cell.hidden) == (arm, units)}
        at = [place for place, depth in enumerate(depths) if depth in cells]
        runs = [results.scored(cells[depths[place]]) or found[cells[depths[place]]] for place in at]
        errors = 100 - np.transpose([accuracies(of) for of in runs])
        style = {"label": NAMES.get(arm, arm), "color": arm_color(arm), "markersize": 5}
        draw_seeds(axes, at, errors, marker="o", **style)
    axes.set(xlabel="blocks", xticks=range(len(depths)), xticklabels=depths)


def mark_means(axes: Axes, results: Results, kinds: Iterable[tuple[str, int]], depths: Sequence[int]) -> None:
    """Mark the mean test error of finished cells of the kinds of net in a panel, of whatever units, by a diamond."""
    arms = {arm for arm, _ in kinds}
    for cell in reversed(results.finished):  # those that are compared first lie on top
        if cell.arm in arms and cell.depth in depths:
            error = 100 - accuracies(results.scored(cell)).mean()
            style = {"color": arm_color(cell.arm), "markersize": 9, "markeredgecolor": "white", "zorder": 4}
            axes.plot(depths.index(cell.depth), error, "D", **style)


def figure() -> Figure:
    """Draw the three panels from the committed logs."""
    nets, pairs = load("tuned_plain").committed(), load("what_gates_add").committed()["sum"]
    wider = load("using_depth").committed()[""]
    figure, panels = new_figure("Deep nets train without gates, too", 3.6, ncols=3, sharey=True)
    draw_errors(panels[0], nets["untuned"], ONE_SETTING, (5, 10, 20, 30, 50, 100))
    draw_errors(panels[1], nets[""], TUNED, (5, 10, 20, 30, 50, 100))
    draw_errors(panels[2], pairs, SUM, DEPTHS_OF_PAIRS)
    mark_means(panels[2], wider, SUM, DEPTHS_OF_PAIRS)
    for axes, words in zip(
        panels, ("1  one setting", "2  each kind tuned", "3  sum of two digits, tuned"), strict=True
    ):
        draw_level(axes, 100 - 100 * CHANCE, "guessing")
        axes.set_title(words, loc="left")
        axes.set(yscale="log", yticks=TICKS, yticklabels=TICKS)
        axes.minorticks_off()
    panels[0].set_ylabel("test error (%)")
    label_ends(*panels)
    return figure
