"""The picture of the main README: test error by depth, in one setting, tuned, and on a task that needs depth.

`python -m experiments plot` draws it, too, from the logs of tuned_plain, what_gates_add and using_depth.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.figures import draw_level, label_ends, new_figure

from .common import CHANCE, load
from .common_figures import arm_color, draw_by_depth
from .study import Results, accuracies

UNITS, AS_LARGE, OF_PAIRS = 50, 71, 100  # units; plain blocks of 71 have as many parameters as highway blocks of 50
ONE_SETTING = (("highway", UNITS), ("plain", UNITS))
TUNED = (("highway", UNITS), ("plain", AS_LARGE), ("plain, orthogonal", AS_LARGE))
SUM = tuple((arm, OF_PAIRS) for arm in ("residual", "residual, gated", "plain, orthogonal", "highway"))
NAMES = {"plain, orthogonal": "orthogonal", "residual, gated": "x + T·H", "residual": "x + H"}
DEPTHS, DEPTHS_OF_PAIRS = (5, 10, 20, 30, 50, 100), (1, 2, 5, 10, 20, 50)
LOGS = [
    Path("runs", f"{name}.json") for name in ("tuned_plain-untuned", "tuned_plain", "what_gates_add-sum", "using_depth")
]
PICTURE = Path("viz/three_panels.png")


def draw_errors(axes: Axes, results: Results, kinds: Iterable[tuple[str, int]], depths: Sequence[int]) -> None:
    """Draw the test error of each kind of net, arm and units, by depth."""
    found = {(cell.arm, cell.hidden, cell.depth): 100 - accuracies(of) for cell, of in results.by_cell().items()}
    for arm, units in kinds:
        errors = {depth: found[arm, units, depth] for depth in depths if (arm, units, depth) in found}
        draw_by_depth(axes, depths, errors, label=NAMES.get(arm, arm), color=arm_color(arm))


def mark_means(axes: Axes, results: Results) -> None:
    """Mark the mean test error of the third panel's kinds, at equal parameters, by a diamond."""
    first = {(cell.arm, cell.depth): cell for cell in reversed(results.finished)}  # later ones have more parameters
    for cell in first.values():  # those that are compared first lie on top
        if cell.arm in dict(SUM) and cell.depth >= 10:
            error = 100 - accuracies(results.scored(cell)).mean()
            edge = {"markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.4}
            axes.plot(DEPTHS_OF_PAIRS.index(cell.depth), error, "D", color=arm_color(cell.arm), zorder=4, **edge)


def figure() -> Figure:
    """Draw the three panels from the committed logs."""
    nets, pairs = load("tuned_plain").committed(), load("what_gates_add").committed()["sum"]
    figure, panels = new_figure("Deep nets train without gates, too", 3.6, ncols=3, sharey=True)
    draw_errors(panels[0], nets["untuned"], ONE_SETTING, DEPTHS)
    draw_errors(panels[1], nets[""], TUNED, DEPTHS)
    draw_errors(panels[2], pairs, SUM, DEPTHS_OF_PAIRS)
    mark_means(panels[2], load("using_depth").committed()[""])
    titles = "1  one setting", "2  each kind tuned", "3  sum of two digits, tuned"
    for axes, words in zip(panels, titles, strict=True):
        draw_level(axes, 100 - 100 * CHANCE, "guessing")
        axes.set_title(words, loc="left")
    panels[0].set_ylabel("test error (%)")
    label_ends(*panels)
    return figure
