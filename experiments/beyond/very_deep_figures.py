"""Pictures and tables of the very deep nets and of the gate-bias sweep."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final, name_tested, seeds_of
from highway_lab.figures import COLORS, draw_level, draw_seeds, label_ends, markdown, new_figure, pale
from highway_networks import DATASETS

from ..common import final_values, group
from .very_deep import DeepRun, VeryDeepLog

SHADES = {-6.0: 1.0, -20.0: 0.55}
ONE_IN = {10: "one in ten", 100: "one in a hundred"}  # by the number of classes


def title(log: VeryDeepLog, runs: list[DeepRun]) -> str:
    """Data set, images, epochs and seeds."""
    config = runs[0].config
    seeds = len({run.config.seed for run in runs})
    return f"{name_tested(log.dataset)}: {config.n_train:,} training images, {config.epochs} epochs, seeds: {seeds}"


def depth_figure(log: VeryDeepLog) -> Figure:
    """Left: test accuracy against depth, highway from two biases. Right: mean T in the deepest nets after training."""
    figure, (left, right) = new_figure(title(log, log.by_depth), 4.2, ncols=2, width_ratios=(1.25, 1))
    left.set_ylabel("test accuracy")
    curves = {}
    for (block, bias), runs in group(log.by_depth, "block", "gate_bias").items():
        label = block if block == "plain" else f"highway, {minus(bias)}"
        curves[label] = pale(COLORS[block], SHADES.get(bias, 1.0)), runs
    accuracy_panel(left, curves, DATASETS[log.dataset.name])
    gates_panel(right, log.by_depth)
    return figure


def accuracy_panel(axes: Axes, curves: Mapping[str, tuple], classes: int) -> None:
    """Test accuracy against depth, log scale, one line for each label: its colour and its runs."""
    for label, (color, runs) in curves.items():
        by_depth = group(runs, "depth")
        depths = [depth for (depth,) in by_depth]
        scores = np.transpose([final_values(seeds, "test_score") for seeds in by_depth.values()])
        draw_seeds(axes, depths, scores, label=label, color=color, marker="o", markersize=5)
    draw_level(axes, 1 / classes, ONE_IN[classes])
    axes.set(xscale="log", xlabel="blocks", ylim=(0, 1))
    axes.set_xticks(depths, depths)
    axes.minorticks_off()
    label_ends(axes)


def minus(value: float) -> str:
    """A number with a minus sign in place of the hyphen."""
    return f"{value:g}".replace("-", "−")


def gates_panel(axes: Axes, runs: list[DeepRun]) -> None:
    """Mean T after training, block by block, of the deepest gated nets; every seed."""
    gated = group([run for run in runs if run.gate_means and not run.diverged], "depth")
    (deepest,) = max(gated)
    for (bias,), same_bias in group(gated[deepest,], "gate_bias").items():
        color = pale(COLORS["highway"], SHADES.get(bias, 1.0))
        for run in same_bias:
            floor = np.maximum(np.array(run.gate_means, float), 1e-10)  # a gate that is shut underflows
            axes.plot(range(1, deepest + 1), floor, color=color, linewidth=1)
        axes.text(deepest * 0.97, floor[len(floor) // 2 :].max() * 2, f"$b_T$ = {minus(bias)}", ha="right", va="bottom")
    axes.set(yscale="log", xlabel=f"block of {deepest:,}", title="mean T after training", ylim=(1e-10, 3))
    axes.margins(x=0)


def bias_figure(log: VeryDeepLog) -> Figure:
    """Test accuracy and training loss against the initial gate bias, one line a depth."""
    figure, (left, right) = new_figure(title(log, log.by_bias), 4.2, ncols=2)
    for rank, ((depth,), runs) in enumerate(group(log.by_bias, "depth").items()):
        by_bias = group(runs, "gate_bias")
        positions, color = range(len(by_bias)), pale(COLORS["highway"], (0.5, 1.0)[rank % 2])
        for axes, field in ((left, "test_score"), (right, "train_loss")):
            values = np.transpose([final_values(seeds, field) for seeds in by_bias.values()])
            draw_seeds(axes, positions, values, label=f"{depth} blocks", color=color, marker="o", markersize=5)
            axes.set_xticks(positions, [minus(bias) for (bias,) in by_bias])
            axes.tick_params(axis="x", labelsize=9)
            axes.set_xlabel("initial gate bias $b_T$")
    classes = DATASETS[log.dataset.name]
    draw_level(left, 1 / classes, ONE_IN[classes])
    draw_level(right, np.log(classes), f"log {classes}")
    left.set(ylabel="test accuracy", ylim=(0, 1))
    right.set(ylabel="training loss", ylim=(0, None))
    for axes in (left, right):
        label_ends(axes)
    return figure


def name_arm(block: str, bias: float) -> str:
    """What a table calls an arm."""
    return block if block == "plain" else f"{block}, b_T {bias:g}"


def depth_table(log: VeryDeepLog) -> str:
    """Final test accuracy by depth: highway nets from two biases, and plain ones."""
    cells = group(log.by_depth, "depth", "block", "gate_bias")
    arms = list(group(log.by_depth, "block", "gate_bias"))
    rows = [
        [f"{depth:,}", *(final(cells[depth, *arm], "test_score") for arm in arms)]
        for (depth,) in group(log.by_depth, "depth")
    ]
    header = ["blocks", *(name_arm(*arm) for arm in arms)]
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.by_depth)}"


def bias_table(log: VeryDeepLog) -> str:
    """Final test accuracy by initial gate bias."""
    cells = group(log.by_bias, "gate_bias", "depth")
    depths = sorted({run.config.depth for run in log.by_bias})
    biases = sorted({run.config.gate_bias for run in log.by_bias}, reverse=True)
    rows = [[f"{bias:g}", *(final(cells[bias, depth], "test_score") for depth in depths)] for bias in biases]
    header = ["b_T", *(f"{depth} blocks" for depth in depths)]
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.by_bias)}"


FIGURES = {"very_deep.png": depth_figure, "gate_bias.png": bias_figure}
TABLES = {"very_deep": depth_table, "gate_bias": bias_table}
