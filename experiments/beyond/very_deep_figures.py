"""Pictures and tables of the very deep nets and of the gate-bias sweep."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final, seeds_of
from highway_lab.datasets import DATASETS
from highway_lab.figures import COLORS, draw_level, draw_seeds, label_ends, markdown, new_figure, pale

from ..common import final_values, group
from ..common_figures import draw_against, draw_chance, minus, name_arm, shade, title
from .very_deep import DeepRun, VeryDeepLog

STRENGTHS = {-6.0: 1.0, -20.0: 0.55}  # of the line's colour, by bias


def figure_title(log: VeryDeepLog, runs: list[DeepRun]) -> str:
    """Return the title of a figure of these runs."""
    return title(log.dataset, runs, f"{runs[0].config.epochs} epochs")


def depth_figure(log: VeryDeepLog) -> Figure:
    """Draw test accuracy against depth, highway from two biases; beside it mean T in the deepest nets."""
    figure, (left, right) = new_figure(figure_title(log, log.by_depth), 4.2, ncols=2, width_ratios=(1.25, 1))
    for (block, bias), runs in group(log.by_depth, "block", "gate_bias").items():
        by_depth = {depth: of_depth for (depth,), of_depth in group(runs, "depth").items()}
        label, color = block if block == "plain" else f"highway, {minus(bias)}", shade(block, bias, STRENGTHS)
        draw_against(left, by_depth, partial(final_values, field="test_score"), label=label, color=color, markersize=5)
    draw_chance(left, log.dataset.name)
    left.set(xscale="log", xlabel="blocks", ylabel="test accuracy", ylim=(0, 1))
    left.set_xticks([*by_depth], [*by_depth])
    left.minorticks_off()
    label_ends(left)
    gates_panel(right, log.by_depth)
    return figure


def gates_panel(axes: Axes, runs: list[DeepRun]) -> None:
    """Draw mean T after training, block by block, of every seed of the deepest gated nets."""
    gated = group([run for run in runs if run.gate_means and not run.diverged], "depth")
    (deepest,) = max(gated)
    for (bias,), of_bias in group(gated[deepest,], "gate_bias").items():
        for run in of_bias:
            means = np.maximum(np.array(run.gate_means, float), 1e-10)  # a closed gate underflows
            axes.plot(range(1, deepest + 1), means, color=shade("highway", bias, STRENGTHS), linewidth=1)
        height = means[len(means) // 2 :].max() * 2
        axes.text(deepest * 0.97, height, f"$b_T$ = {minus(bias)}", ha="right", va="bottom")
    axes.set(yscale="log", xlabel=f"block of {deepest:,}", title="mean T after training", ylim=(1e-10, 3))
    axes.margins(x=0)


def bias_figure(log: VeryDeepLog) -> Figure:
    """Draw test accuracy and training loss against the initial gate bias, one line a depth."""
    figure, (left, right) = new_figure(figure_title(log, log.by_bias), 4.2, ncols=2)
    for rank, ((depth,), runs) in enumerate(group(log.by_bias, "depth").items()):
        by_bias = group(runs, "gate_bias")
        positions, color = range(len(by_bias)), pale(COLORS["highway"], (0.5, 1.0)[rank % 2])
        for axes, field in ((left, "test_score"), (right, "train_loss")):
            values = np.transpose([final_values(of_bias, field) for of_bias in by_bias.values()])
            draw_seeds(axes, positions, values, label=f"{depth} blocks", color=color, marker="o", markersize=5)
            axes.set_xticks(positions, [minus(bias) for (bias,) in by_bias])
            axes.tick_params(axis="x", labelsize=9)
            axes.set_xlabel("initial gate bias $b_T$")
    draw_chance(left, log.dataset.name)
    classes = DATASETS[log.dataset.name]
    draw_level(right, np.log(classes), f"log {classes}")
    left.set(ylabel="test accuracy", ylim=(0, 1))
    right.set(ylabel="training loss", ylim=(0, None))
    for axes in (left, right):
        label_ends(axes)
    return figure


def depth_table(log: VeryDeepLog) -> str:
    """Tabulate final test accuracy by depth, a column a kind of block and bias."""
    cells, arms = group(log.by_depth, "depth", "block", "gate_bias"), group(log.by_depth, "block", "gate_bias")
    rows = [
        [f"{depth:,}", *(final(cells[depth, *arm], "test_score") for arm in arms)]
        for (depth,) in group(log.by_depth, "depth")
    ]
    header = ["blocks", *(name_arm(*arm) for arm in arms)]
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.by_depth)}"


def bias_table(log: VeryDeepLog) -> str:
    """Tabulate final test accuracy by initial gate bias, a column a depth."""
    cells, depths = group(log.by_bias, "gate_bias", "depth"), group(log.by_bias, "depth")
    rows = [
        [f"{bias:g}", *(final(cells[bias, depth], "test_score") for (depth,) in depths)]
        for (bias,) in reversed(group(log.by_bias, "gate_bias"))
    ]
    header = ["b_T", *(f"{depth} blocks" for (depth,) in depths)]
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.by_bias)}"


FIGURES = {"very_deep.png": depth_figure, "gate_bias.png": bias_figure}
TABLES = {"very_deep": depth_table, "gate_bias": bias_table}
