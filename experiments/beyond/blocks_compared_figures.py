"""Pictures, tables and verdicts of the blocks side by side: how well they train, how gradients flow through them."""

from collections.abc import Callable
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import final_of_finished, seeds_of
from highway_lab.figures import COLORS, FAINT_INK, draw_seeds, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval, judge
from highway_lab.tables import markdown

from ..claims import ACCURACY_MARGIN, LOSS_MARGIN, Verdict, combine, judge_as_good, judge_better
from ..common import group_by, points
from ..common_figures import draw_against
from ..rates import edge_note
from .blocks_compared import BLOCKS, WIDTHS, BlocksComparedLog, ComparedRun, arm

STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}
EQUAL = {"depth": "all 50 wide", "parameters": "equal parameters a block"}
COLUMNS = {  # of panels: their blocks, and ticks of the test error in %
    "highway and blocks without gates": (("highway", "plain", "residual", "residual-scaled"), (6, 8, 10, 20, 40)),
    "blocks with gates": (("highway", "highway-uncoupled", "lstm"), (6, 7, 8, 9, 10)),
}
NAMES = {**{block: block for block in BLOCKS}, "residual-scaled": "residual / L", "highway-uncoupled": "uncoupled"}
STEPS = 2  # of the grid of rates that are to lie beyond a chosen one


def depths_of(log: BlocksComparedLog) -> list[int]:
    """Return the numbers of blocks, ascending."""
    return sorted({run.config.depth for run in log.runs})


def error_figure(log: BlocksComparedLog) -> Figure:
    """Draw test error against depth, log scales: a row for equal width and one for equal parameters."""
    arms = group_by(log.runs, arm)
    deepest = depths_of(log)[-1]
    best = max(BLOCKS, key=lambda block: points(arms["depth", block, deepest]).mean())
    words = f"With {deepest} blocks, {NAMES[best]} nets err least on average, of {len(BLOCKS)} kinds"
    figure, grid = new_figure(words, 7.2, nrows=2, ncols=2, sharex=True, sharey="col")
    for panels, (equal, name) in zip(grid, EQUAL.items(), strict=True):
        for axes, (blocks, ticks) in zip(panels, COLUMNS.values(), strict=True):
            for block in blocks:
                by_depth = {key[2]: runs for key, runs in arms.items() if key[:2] == (equal, block)}
                style = {"label": NAMES[block], "color": COLORS[block], "markersize": 5}
                draw_against(axes, by_depth, lambda runs: 100 - points(runs), **style)
            axes.set(xscale="log", yscale="log")
            axes.set_xticks([*by_depth], [*by_depth])
            axes.set_yticks(ticks, ticks)
            axes.minorticks_off()
        panels[0].set_ylabel(f"test error (%), {name}")
    for (top, bottom), column in zip(grid.T, COLUMNS, strict=True):
        top.set_title(column, fontsize=11)
        bottom.set_xlabel("blocks")
    label_ends(*grid.flat)
    return figure


def flow_figure(log: BlocksComparedLog) -> Figure:
    """Draw the norm of dL/dx of every block, and singular values of one block's Jacobian: a column for each block."""
    arms, depth = group_by(log.runs, arm), depths_of(log)[-1]
    width = arms["depth", "highway", depth][0].config.hidden
    change = {block: np.abs(growth(arms["depth", block, depth], "untrained")).mean() for block in BLOCKS}
    words = f"Untrained, {depth} {NAMES[min(change, key=change.get)]} blocks change the gradient's norm least"
    figure, grid = new_figure(words, 5.6, nrows=2, ncols=len(BLOCKS), sharey="row")
    for (norms, values), block in zip(grid.T, BLOCKS, strict=True):
        runs = arms["depth", block, depth]
        draw_flow(norms, runs, "gradient_norms", last=depth)
        draw_flow(values, runs, "singular_values", last=width)
        norms.set_title(NAMES[block])
    grid[0, 0].set(xlabel="input of block", ylabel="norm of dL/dx")
    grid[1, 0].set(xlabel="rank", ylabel=f"singular values of dy/dx,\nblock {depth // 2 + 1}")
    for axes in grid[:, -1]:
        label_ends(axes)
    return figure


def draw_flow(axes: Axes, runs: list[ComparedRun], field: str, *, last: int) -> None:
    """Draw a field of the flow, log scale, without zeros: every seed faint, the geometric mean bold."""
    for when, color in STATES.items():
        flows = (getattr(run.measured, when) for run in runs)
        values = np.array([[value or np.nan for value in getattr(flow, field)] for flow in flows], float)
        exponents = np.log10(np.maximum(values, 1e-30))
        draw_seeds(axes, np.arange(1, exponents.shape[1] + 1), exponents, label=when, color=color)
    axes.set_xticks((1, last))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:g}}}$")


def accuracy_table(log: BlocksComparedLog) -> str:
    """Tabulate final test accuracy of each block by depth, with the chosen rate."""
    arms = group_by(log.runs, arm)
    rows = []
    for equal, block in product(WIDTHS, BLOCKS):
        cells = [arms[equal, block, depth] for depth in depths_of(log)]
        scores = [f"{final_of_finished(runs, 'test_score')} (lr {runs[0].config.lr:g})" for runs in cells]
        rows.append([EQUAL[equal], NAMES[block], str(cells[0][0].config.hidden), *scores])
    header = ["", "block", "width", *(f"{depth} blocks" for depth in depths_of(log))]
    edges = edge_note(
        log.tried, log.runs, arm, lambda equal, block, depth: f"{NAMES[block]} {depth} ({EQUAL[equal]})", steps=STEPS
    )
    return f"{markdown(header, rows)}\n\nTest accuracy. {seeds_of(run.config for run in log.runs)} {edges}"


def leads(log: BlocksComparedLog) -> dict[tuple[str, str, int], Interval]:
    """Return points of test accuracy over the highway block, paired by seed, by what is equal, block and depth."""
    arms = group_by(log.runs, arm)
    return {of: interval(points(runs) - points(arms[of[0], "highway", of[2]])) for of, runs in arms.items()}


def judge_accuracy(log: BlocksComparedLog, block: str) -> Verdict:
    """Judge "such blocks are as good as highway blocks": at every depth, at equal width and at equal parameters."""
    return combine(judge_as_good(lead, ACCURACY_MARGIN) for of, lead in leads(log).items() if of[1] == block)


def gaps_table(log: BlocksComparedLog) -> str:
    """Tabulate the points of test accuracy by which a block outperforms the highway block of the same depth."""
    found, rows = leads(log), []
    for equal, block in product(WIDTHS, (block for block in BLOCKS if block != "highway")):
        cells = (found[equal, block, depth] for depth in depths_of(log))
        rows.append([EQUAL[equal], NAMES[block], *(f"{lead} ({judge(lead, ACCURACY_MARGIN)})" for lead in cells)])
    header = ["", "block", *(f"{depth} blocks" for depth in depths_of(log))]
    seeds, verdicts = len({run.config.seed for run in log.runs}), list_verdicts(judge_accuracy, log)
    return (
        f"{markdown(header, rows)}\n\nPoints of test accuracy over highway, paired by seed: mean and 95 % interval "
        f"(t, n = {seeds}). As good at every depth (margin {ACCURACY_MARGIN:g}): {verdicts}."
    )


def list_verdicts(judge_block: Callable[[BlocksComparedLog, str], Verdict], log: BlocksComparedLog) -> str:
    """List the verdicts on blocks whose path carries x unchanged, without a gate."""
    return ", ".join(f"{NAMES[block]}: {judge_block(log, block)}" for block in ("residual", "residual-scaled"))


def growth(runs: list[ComparedRun], when: str) -> list[float]:
    """Return the orders of magnitude by which the norm of dL/dx grows on its way back through all blocks, by run."""
    flows = (getattr(run.measured, when).gradient_norms for run in runs if not run.diverged)
    return [float(np.log10(norms[0] / norms[-1])) for norms in flows if norms[0] and norms[-1]]


def judge_gradients(log: BlocksComparedLog, block: str) -> Verdict:
    """Judge "gradients pass such blocks more surely" at every depth, untrained, at equal width.

    More surely than in highway nets: on the way back, their norm changes by fewer orders of magnitude.
    """
    arms = group_by(log.runs, arm)

    def change(block: str, depth: int) -> np.ndarray:
        return np.abs(growth(arms["depth", block, depth], "untrained"))

    gains = (difference(change("highway", depth), change(block, depth)) for depth in depths_of(log))
    return combine(judge_better(gain, LOSS_MARGIN) for gain in gains)


def flow_table(log: BlocksComparedLog) -> str:
    """Tabulate by block how the gradient grows on its way back through all of them, and one block's singular values."""
    arms, depths, rows = group_by(log.runs, arm), depths_of(log), []
    for block in BLOCKS:
        runs = arms["depth", block, depths[-1]]  # equally wide
        cells = [f"{interval(growth(arms['depth', block, depth], 'untrained')):.2f}" for depth in depths]
        cells.append(f"{interval(growth(runs, 'trained')):.2f}")
        for when in STATES:
            flows = (getattr(run.measured, when).singular_values for run in runs if not run.diverged)
            values = [value for flow in flows for value in flow if value is not None]
            cells.append(f"{min(values):.2g} to {max(values):.2g}" if values else "none")
        rows.append([NAMES[block], *cells])
    last = depths[-1]
    header = ["block", *(f"{depth} blocks" for depth in depths), f"{last}, trained"]
    header += [f"singular values, {last}", f"singular values, {last}, trained"]
    return (
        f"{markdown(header, rows)}\n\nUntrained unless said: orders of magnitude by which the norm of dL/dx grows from "
        f"the last block's output to the first block's input; smallest to largest singular value of dy/dx of block "
        f"{last // 2 + 1}, of all seeds. {seeds_of(run.config for run in log.runs)} Untrained, the norm changes less "
        f"than in highway nets, at every depth: {list_verdicts(judge_gradients, log)}."
    )


FIGURES = {"blocks_compared.png": error_figure, "gradient_flow.png": flow_figure}
TABLES = {"blocks_compared": accuracy_table, "blocks_compared_gaps": gaps_table, "gradient_flow": flow_table}
