"""Titles, names of arms, lines and levels that the figures and tables of several experiments share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from highway_lab.figures import COLORS, INK, draw_seeds, new_figure, number_layers
from highway_networks import Config

PAPER = "tanh from −2"  # the setting of the paper's net for MNIST, as `name_setting` names it
ERROR_TICKS = (5, 10, 20, 50, 90)  # %
Runs = Sequence[Any]  # with a `config` and a `history` each


def minus(value: float) -> str:
    """Return a number with a minus sign in place of the hyphen; zero has none."""
    return f"{value + 0:g}".replace("-", "−")


def name_setting(config: Config) -> str:
    """Name a setting of 50-layer nets by its activation and, for tanh, its gate bias."""
    bias = minus(float(f"{config.gate_bias:.2g}"))
    return "ReLU" if config.activation == "relu" else f"{config.activation} from {bias}"


ARM_COLORS = {  # of the kinds of net that studies compare; a variant has the colour of its kind
    **{name: COLORS[name] for name in ("plain", "residual", "highway")},
    "plain, orthogonal": COLORS["lstm"],
    "residual, scaled": COLORS["residual-scaled"],
    "residual / L": COLORS["residual-scaled"],
    "residual, gated": "#44AA99",
    "ReZero": "#882255",
    "highway, uncoupled": COLORS["highway-uncoupled"],
    "lstm": COLORS["lstm"],
    "constant gates": "#999933",
    "gates as drawn": "#999933",
}


def arm_color(arm: str) -> str:
    """Return the colour of an arm, or of the kind of which it is a variant; ink for one of a user's own."""
    kinds = [kind for kind in ARM_COLORS if arm == kind or arm.startswith((f"{kind},", f"{kind} "))]
    return ARM_COLORS[max(kinds, key=len)] if kinds else INK


def draw_losses(axes: Axes, runs: Runs, **style: Any) -> None:
    """Draw training loss by epoch, log scale, as `draw_seeds` does; once a run has diverged, its loss is infinite."""
    losses = np.full((len(runs), runs[0].config.epochs + 1), math.inf)
    for row, run in zip(losses, runs, strict=True):
        found = np.array(run.history["train_loss"], float)
        row[: len(found)] = np.where(np.isfinite(found), found, math.inf)
    draw_seeds(axes, np.arange(losses.shape[1]), losses, **style)
    axes.set(xlabel="epoch", yscale="log")
    axes.margins(x=0)


def draw_dots(axes: Axes, values: Sequence[float], height: float, **style: Any) -> None:
    """Draw at a height the value of every seed as a faint dot and their mean as a bold one."""
    style |= {"marker": "o", "linestyle": "none", "clip_on": False}
    axes.plot(values, [height] * len(values), markersize=4, alpha=0.4, **style)
    axes.plot(np.mean(values), height, markersize=7, **style)


def draw_by_depth(axes: Axes, depths: Sequence[int], errors: Mapping[int, Sequence[float]], **style: Any) -> None:
    """Draw test errors in %, one a seed, by depth: a faint curve a seed, a bold one their mean."""
    at = [place for place, depth in enumerate(depths) if depth in errors]
    curves = np.transpose([errors[depths[place]] for place in at])
    draw_seeds(axes, at, curves, marker="o", markersize=5, **style)
    axes.set(xlabel="blocks", xticks=range(len(depths)), xticklabels=depths)
    axes.set(yscale="log", yticks=ERROR_TICKS, yticklabels=ERROR_TICKS)
    axes.minorticks_off()


SHOWN = 0.995  # share of values that a map's colours cover: outliers would hide all others


def draw_map(axes: Axes, values: np.ndarray, **style: Any) -> AxesImage:
    """Draw a map (L, D): a row a block, block 1 at the top, a column a unit."""
    depth, width = values.shape
    extent = (0.5, width + 0.5, depth + 0.5, 0.5)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **style)
    number_layers(axes.xaxis, width)
    number_layers(axes.yaxis, depth)
    return image


def rows_figure(title: str, rows: Mapping[str, Sequence[float]], label: str) -> Figure:
    """Return a figure with a row for each arm, or size of one: every seed a faint dot, their mean a bold one."""
    figure, axes = new_figure(title, 1.4 + 0.26 * len(rows))
    for row, (name, values) in enumerate(rows.items()):
        draw_dots(axes, values, row, color=arm_color(name))
    axes.set_yticks(range(len(rows)), [name.replace("b_T", "$b_T$") for name in rows])
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.set_xlabel(label)
    return figure
