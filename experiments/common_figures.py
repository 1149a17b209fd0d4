"""What the pictures and tables of several experiments share: titles, names of arms, the level of chance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from highway_lab.console import name_tested
from highway_lab.datasets import DATASETS
from highway_lab.figures import draw_level, draw_seeds
from highway_lab.logs import DatasetInfo

ONE_IN = {10: "one in ten", 100: "one in a hundred"}  # by the number of classes


def title(dataset: DatasetInfo, runs: Sequence[Any], words: str) -> str:
    """Return a figure's title: data set, training images, `words`, the number of seeds."""
    seeds = len({run.config.seed for run in runs})
    return f"{name_tested(dataset)}: {runs[0].config.n_train:,} training images, {words}, seeds: {seeds}"


def minus(value: float) -> str:
    """Return a number with a minus sign in place of the hyphen."""
    return f"{value:g}".replace("-", "−")


def name_arm(block: str, gate_bias: float) -> str:
    """Return a table's name of a kind of block and its gate bias."""
    return block if block == "plain" else f"{block}, b_T {gate_bias:g}"


def draw_against(
    axes: Axes, groups: Mapping[Any, Sequence[Any]], values: Callable[[Sequence[Any]], Sequence[float]], **style: Any
) -> None:
    """Draw values(runs), one a seed, against the keys of `groups`: every seed faint, the mean bold."""
    draw_seeds(axes, [*groups], np.transpose([values(runs) for runs in groups.values()]), marker="o", **style)


def draw_chance(axes: Axes, dataset: str) -> None:
    """Draw the accuracy of a guess among the classes of a data set."""
    classes = DATASETS[dataset]
    draw_level(axes, 1 / classes, ONE_IN[classes])
