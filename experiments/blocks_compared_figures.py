"""Pictures and a table of the four blocks side by side: how well they train, how gradients flow through them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from figure_style import COLORS, draw_seeds, label_ends, markdown, new_figure, number_layers
from highway_networks import DATASETS
from reporting import final, name_tested, seeds_of

from .blocks_compared import BLOCKS, WIDTHS, BlocksComparedLog, ComparedRun, arms
from .common import group
from .very_deep_figures import accuracy_panel

EQUAL = {"depth": "all 50 wide", "parameters": "equal parameters a layer"}


def title(log: BlocksComparedLog) -> str:
    """Data set, images and seeds."""
    seeds = len({run.config.seed for run in log.runs})
    return f"{name_tested(log.dataset)}: {log.dataset.n_train:,} training images, best rate of each, seeds: {seeds}"


def accuracy_figure(log: BlocksComparedLog) -> Figure:
    """Test accuracy against depth, one line a block; left of equal width, right of equal parameters."""
    figure, panels = new_figure(title(log), 4.2, ncols=len(EQUAL), sharey=True)
    panels[0].set_ylabel("test accuracy")
    for axes, (equal, words) in zip(panels, EQUAL.items(), strict=True):
        by_block = group([run for run in log.runs if run.task.equal == equal], "block")
        axes.set_title(words)
        curves = {words_for(block): (COLORS[block], by_block[block,]) for block in BLOCKS}
        accuracy_panel(axes, curves, DATASETS[log.dataset.name])
    return figure


def words_for(block: str) -> str:
    """A block's name, short enough for the end of a line."""
    return block.removeprefix("highway-")


def flow_figure(log: BlocksComparedLog) -> Figure:
    """Above: norm of dL/dx of every block; below: singular values of one block's Jacobian; untrained, then trained."""
    deepest = max(run.config.depth for run in log.runs)
    runs = [run for run in log.runs if run.task.equal == "depth" and run.config.depth == deepest]
    figure, axes = new_figure(f"{title(log)}, {deepest} blocks, 50 wide", 6.4, nrows=2, ncols=2, sharey="row")
    for column, when in zip(axes.T, ("untrained", "trained"), strict=True):
        flow_panel(column[0], runs, when, "gradient_norms", first=0)
        number_layers(column[0].xaxis, deepest)
        column[0].set(xlabel="input of block", title=when)
        flow_panel(column[1], runs, when, "singular_values", first=1)
        column[1].set(xlabel="singular value, by size")
    axes[0, 0].set_ylabel("norm of dL/dx")
    axes[1, 0].set_ylabel(f"singular value of dy/dx\nof block {deepest // 2 + 1}")
    return figure


def flow_panel(axes: Axes, runs: list[ComparedRun], when: str, field: str, *, first: int) -> None:
    """One field of the flow, log scale: every seed faint, the (geometric) mean bold; nulls and zeros are left out."""
    for block in BLOCKS:
        rows = [getattr(getattr(run, when), field) for run in runs if run.config.block == block]
        table = np.array([[value or np.nan for value in row] for row in rows], float)
        table = np.log10(np.maximum(table, 1e-30))
        x = np.arange(first, first + table.shape[1])
        draw_seeds(axes, x, table, label=words_for(block), color=COLORS[block])
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:g}}}$")
    label_ends(axes)


def accuracy_table(log: BlocksComparedLog) -> str:
    """Final test accuracy of each block by depth, with the rate that was chosen for it."""
    groups = arms(log.runs)
    depths = sorted({depth for _, _, depth in groups})
    rows = []
    for equal in WIDTHS:
        for block in BLOCKS:
            cells = [groups[equal, block, depth] for depth in depths]
            width = cells[0][0].config.hidden
            scores = [f"{final(runs, 'test_score')} (lr {runs[0].config.lr:g})" for runs in cells]
            rows.append([f"equal {equal}", block, str(width), *scores])
    header = ["", "block", "width", *(f"{depth} blocks" for depth in depths)]
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.runs)}"


FIGURES = {"blocks_compared.png": accuracy_figure, "gradient_flow.png": flow_figure}
TABLES = {"blocks_compared": accuracy_table}
