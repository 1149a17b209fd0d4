"""Pictures and tables of the blocks side by side: how well they train, how gradients flow through them."""

from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import final, seeds_of
from highway_lab.figures import COLORS, draw_seeds, label_ends, markdown, new_figure, number_layers
from highway_lab.intervals import interval

from ..common import CHANCE, group, group_by, points
from ..common_figures import draw_against, title
from ..rates import edge_note
from .blocks_compared import BLOCKS, WIDTHS, BlocksComparedLog, ComparedRun, arm

STATES = ("untrained", "trained")
EQUAL = {"depth": "all 50 wide", "parameters": "equal parameters a block"}
ERROR_TICKS = (6, 8, 10, 20, 40)  # %
STEPS = 2  # of the grid of rates that are to lie beyond a chosen one


def figure_title(log: BlocksComparedLog) -> str:
    """Return what the titles of both figures begin with."""
    return title(log.dataset, log.runs, "best rate of each")


def error_figure(log: BlocksComparedLog) -> Figure:
    """Draw test error against depth, log scales, one line a block; left of equal width, right of equal parameters."""
    arms = group_by(log.runs, arm)
    figure, panels = new_figure(figure_title(log), 5.0, ncols=len(EQUAL), sharey=True)
    panels[0].set_ylabel("test error (%)")
    for axes, (equal, words) in zip(panels, EQUAL.items(), strict=True):
        for block in BLOCKS:
            by_depth = {key[2]: runs for key, runs in arms.items() if key[:2] == (equal, block)}
            style = {"label": short_name(block), "color": COLORS[block], "markersize": 5}
            draw_against(axes, by_depth, lambda runs: 100 - points(runs), **style)
        axes.set(xscale="log", yscale="log", xlabel="blocks", title=words)
        axes.set_xticks([*by_depth], [*by_depth])
        axes.set_yticks(ERROR_TICKS, ERROR_TICKS)
        axes.minorticks_off()
    for axes in panels:
        label_ends(axes, leaders=True)
    return figure


def short_name(block: str) -> str:
    """Return a block's name, short enough for the end of a line."""
    return block.removeprefix("highway-").replace("-scaled", " / L")


def flow_figure(log: BlocksComparedLog) -> Figure:
    """Draw the norm of dL/dx of every block, and singular values of one block's Jacobian; untrained, then trained."""
    runs = deepest_runs(log)
    depth = runs[0].config.depth
    figure, axes = new_figure(f"{figure_title(log)}, {depth} blocks, 50 wide", 6.4, nrows=2, ncols=2, sharey="row")
    for (norms, values), when in zip(axes.T, STATES, strict=True):
        flow_panel(norms, runs, when, "gradient_norms", first=0)
        number_layers(norms.xaxis, depth)
        norms.set(xlabel="input of block", title=when)
        flow_panel(values, runs, when, "singular_values", first=1)
        values.set(xlabel="singular value, by size")
    axes[0, 0].set_ylabel("norm of dL/dx")
    axes[1, 0].set_ylabel(f"singular value of dy/dx\nof block {depth // 2 + 1}")
    return figure


def deepest_runs(log: BlocksComparedLog) -> list[ComparedRun]:
    """Return the runs of equal width and of the greatest depth, where gradients have furthest to go."""
    deepest = max(run.config.depth for run in log.runs)
    return [run for run in log.runs if run.task.equal == "depth" and run.config.depth == deepest]


def flow_panel(axes: Axes, runs: list[ComparedRun], when: str, field: str, *, first: int) -> None:
    """Draw a field of the flow, log scale: every seed faint, the geometric mean bold; nulls and zeros are left out."""
    for block in BLOCKS:
        rows = [getattr(getattr(run, when), field) for run in runs if run.config.block == block]
        values = np.array([[value or np.nan for value in row] for row in rows], float)
        exponents = np.log10(np.maximum(values, 1e-30))
        x = np.arange(first, first + exponents.shape[1])
        draw_seeds(axes, x, exponents, label=short_name(block), color=COLORS[block])
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:g}}}$")
    label_ends(axes)


def accuracy_table(log: BlocksComparedLog) -> str:
    """Tabulate final test accuracy of each block by depth, with the chosen rate."""
    arms = group_by(log.runs, arm)
    depths = sorted({depth for _, _, depth in arms})
    rows = []
    for equal, block in product(WIDTHS, BLOCKS):
        cells = [arms[equal, block, depth] for depth in depths]
        scores = [f"{final(runs, 'test_score')} (lr {runs[0].config.lr:g})" for runs in cells]
        rows.append([EQUAL[equal], block, str(cells[0][0].config.hidden), *scores])
    header = ["", "block", "width", *(f"{depth} blocks" for depth in depths)]
    edges = edge_note(
        log.tried, log.runs, arm, lambda equal, block, depth: f"{block} {depth} ({EQUAL[equal]})", steps=STEPS
    )
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.runs)} {edges}"


def gaps_table(log: BlocksComparedLog) -> str:
    """Tabulate the points of test accuracy by which a block outperforms the highway block of the same depth."""
    arms = group_by(log.runs, arm)
    depths, rows = sorted({depth for _, _, depth in arms}), []
    for equal, block in product(WIDTHS, (block for block in BLOCKS if block != "highway")):
        gaps = [interval(points(arms[equal, block, depth]) - points(arms[equal, "highway", depth])) for depth in depths]
        rows.append([EQUAL[equal], block, *(f"{gap}{' (not told apart)' * (not gap.sign)}" for gap in gaps)])
    header = ["", "block", *(f"{depth} blocks" for depth in depths)]
    seeds = len({run.config.seed for run in log.runs})
    return (
        f"{markdown(header, rows)}\n\nPoints of test accuracy ahead of the highway block: mean of the differences seed "
        f"by seed, {seeds} of them, which share images, with its 95 % interval (t); a run that "
        f"diverged counts as {CHANCE:.0%}. All share the highway block's runs; of "
        "such intervals one in twenty is expected to miss its mean."
    )


def flow_table(log: BlocksComparedLog) -> str:
    """Tabulate by block how the gradient grows on its way back through all of them, and one block's singular values."""
    runs, rows = deepest_runs(log), []
    for block, of_block in group(runs, "block").items():
        cells = []
        for when in STATES:
            flows = [getattr(run, when) for run in of_block if not run.diverged]
            ends = [(flow.gradient_norms[0], flow.gradient_norms[-1]) for flow in flows]
            grown = [float(np.log10(first / last)) for first, last in ends if first and last]
            values = [value for flow in flows for value in flow.singular_values if value is not None]
            cells += [f"{interval(grown):.2f}", f"{min(values):.2g} to {max(values):.2g}" if values else "none"]
        rows.append([*block, *cells])
    header = ["block", "untrained: orders", "singular values", "trained: orders", "singular values"]
    depth = runs[0].config.depth
    return (
        f"{markdown(header, rows)}\n\nOrders of magnitude by which the norm of dL/dx grows from the output of the last "
        f"of {depth} blocks to the input of the first; smallest to largest singular value of dy/dx of block "
        f"{depth // 2 + 1}, of all seeds. {seeds_of(run.config for run in runs)}"
    )


FIGURES = {"blocks_compared.png": error_figure, "gradient_flow.png": flow_figure}
TABLES = {"blocks_compared": accuracy_table, "blocks_compared_gaps": gaps_table, "gradient_flow": flow_table}
