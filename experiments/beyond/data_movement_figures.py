"""Pictures and tables of data movement: residual and highway nets compared with plain ones."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from highway_lab.figures import COLORS, INK, draw_level, label_ends, markdown, new_figure

from .data_movement import BLOCKS, COMBINATION, RULES, USUAL, Comparison, DataMovementLog, Movement

STYLES = {  # of lines, by rule
    rule: {"linestyle": line, "linewidth": 2.5 if rule == USUAL else 1.2}
    for rule, line in zip(RULES, ("-", "--", "-.", ":"), strict=True)
}
CARRYING = BLOCKS[1:]
EQUAL = ("width", "parameters")
NAMES = {"width": "width of highway blocks", "depth": "blocks", "batch": "samples in a batch"}


def name_setting(comparison: Comparison) -> str:
    """Say what is equal: `equal width: 14`."""
    plain, setting = comparison.nets["plain"], comparison.setting
    if setting.equal == "width":
        return f"equal width: {plain.width}"
    return f"equal parameters: {plain.n_params // setting.depth} a block"


def share(net: Movement, **wanted: str) -> float:
    """Return the share of a net's cost that the reads with these fields cause."""
    chosen = (reads for reads in net.reads if wanted.items() <= vars(reads).items())
    return sum(reads.cost for reads in chosen) / net.costs[USUAL]


def sizes(comparisons: list[Comparison], name: str) -> list[int]:
    """Return the comparisons' values of one size."""
    return [getattr(comparison.setting, name) for comparison in comparisons]


# ---------------------------------------------------------------------------------------------- figures


def multiples_figure(log: DataMovementLog) -> Figure:
    """Draw multiples of the plain net's cost: above by depth, below at equal parameters by width and by batch."""
    figure, axes = new_figure("Data movement of a step through all blocks / the plain net's", 8.0, nrows=2, ncols=2)
    panels = (("depth", "width"), ("depth", "parameters"), ("width", "parameters"), ("batch", "parameters"))
    for panel, (name, equal) in zip(axes.flat, panels, strict=True):
        comparisons = log.varied(name, equal)
        draw_level(panel, 1, "plain")
        for block in CARRYING:
            for rule, style in STYLES.items():
                multiples = [comparison.relative(block, rule) for comparison in comparisons]
                label = block if rule == USUAL else "_"
                panel.plot(sizes(comparisons, name), multiples, label=label, color=COLORS[block], **style)
        by = f"equal parameters, {comparisons[0].setting.depth} blocks, by {name}"
        panel.set_title(name_setting(comparisons[0]) if name == "depth" else by)
        put_ticks(panel, name, comparisons)
    for panel in axes.flat:
        label_ends(panel)
    handles = [Line2D([], [], color=INK, label=rule, **style) for rule, style in STYLES.items()]
    figure.legend(handles=handles, ncols=2, loc="outside lower center", frameon=False)
    return figure


def shares_figure(log: DataMovementLog) -> Figure:
    """Draw shares of the cost by batch at equal parameters: reads of weights; reads for gates, carry paths, copies."""
    comparisons = log.varied("batch")
    title = f"What is read, as shares of the cost, at equal parameters, {comparisons[0].setting.depth} blocks"
    figure, axes = new_figure(title, 4.2, ncols=2, sharey=True)
    wanted = {"weights": {"read": "weights"}, COMBINATION: {"part": COMBINATION}}
    for panel, (title, reads) in zip(axes, wanted.items(), strict=True):
        for block in BLOCKS:
            shares = [100 * share(comparison.nets[block], **reads) for comparison in comparisons]
            panel.plot(sizes(comparisons, "batch"), shares, color=COLORS[block], marker="o", label=block)
        panel.set(title=title, ylim=(0, 100))
        put_ticks(panel, "batch", comparisons)
        label_ends(panel)
    axes[0].set_ylabel("% of the cost")
    return figure


def put_ticks(axes: Axes, name: str, comparisons: list[Comparison]) -> None:
    """Set the x axis to a log scale with a tick at each value of a size."""
    axes.set(xscale="log", xlabel=NAMES[name])
    axes.set_xticks(sizes(comparisons, name), sizes(comparisons, name))
    axes.set_xticks([], minor=True)


# ----------------------------------------------------------------------------------------------- tables


def multiples_table(log: DataMovementLog) -> str:
    """Tabulate multiples of the plain net's cost: by depth, by the other rules at the last depth, and their range."""
    rows, others = [], [rule for rule in RULES if rule != USUAL]
    for equal in EQUAL:
        comparisons = log.varied("depth", equal)
        for block in CARRYING:
            multiples = [comparison.relative(block) for comparison in comparisons]
            multiples += [comparisons[-1].relative(block, rule) for rule in others]
            found = [of.relative(block, rule) for of in log.comparisons if of.setting.equal == equal for rule in RULES]
            cells = [*(f"{multiple:.3f}" for multiple in multiples), f"{min(found):.3f} to {max(found):.3f}"]
            dearer = f"in {sum(multiple > 1 for multiple in found)} of {len(found)}"
            rows.append([f"{name_setting(comparisons[0])}, {block}", *cells, dearer])
    depths = sizes(comparisons, "depth")
    header = ["beside the plain net", *map(str, depths), *(f"{depths[-1]}, {rule}" for rule in others)]
    by_width, by_batch = log.varied("width"), log.varied("batch")
    wider = [comparison.nets["plain"].width for comparison in by_width]
    return (
        f"{markdown([*header, 'all that was measured', 'more than plain'], rows)}\n\nCost of a step of so many blocks, "
        f"forward and backward, as a multiple of the plain net's; one sample, {log.bytes} bytes a number. Counted by "
        f'"{USUAL}", then in the other ways. All that was measured: every depth in every way, and at equal parameters '
        f"also highway blocks {listed(sizes(by_width, 'width'))} wide beside others {listed(wider)} wide, and batches "
        f"of {listed(sizes(by_batch, 'batch'))}, all with {by_batch[0].setting.depth} blocks. A cost "
        "depends on sizes alone, not on seeds or values: no spread."
    )


def listed(values: list[int]) -> str:
    """Join numbers in words: `1, 2 and 4`."""
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


def costs_table(log: DataMovementLog) -> str:
    """Tabulate each net of the greatest depth: sizes, cost, growth with depth, and shares of the cost."""
    rows = {}
    for equal in EQUAL:
        comparisons = log.varied("depth", equal)
        depths = np.log(sizes(comparisons, "depth"))
        for block in BLOCKS:
            nets = [comparison.nets[block] for comparison in comparisons]
            deepest = nets[-1]
            exponents = np.diff(np.log([net.costs[USUAL] for net in nets])) / np.diff(depths)
            shares = share(deepest, read="weights"), share(deepest, part=COMBINATION)
            cells = [f"{deepest.n_params:,}", f"{deepest.operations:,}", f"{deepest.costs[USUAL] / 1e6:.1f}"]
            cells += [f"{exponents[0]:.2f} to {exponents[-1]:.2f}", *(f"{part:.1%}" for part in shares)]
            rows[f"{block}, {deepest.width} wide"] = cells
    header = ["net", "parameters", "operations", "cost, millions", "exponent", "weights", COMBINATION]
    return (
        f"{markdown(header, [[net, *cells] for net, cells in rows.items()])}\n\n"
        f"{comparisons[-1].setting.depth} blocks (parameters and operations are theirs), one sample, counted by "
        f'"{USUAL}". Exponent: p in cost ∝ depthᵖ, from the first two depths to the last two. The last columns are '
        "shares of the cost: reads of weights; what blocks read for gates, carry paths and copies, without the sum of "
        "what flows back through and around the affine maps. Who reads a saved value first pays for fetching it: in "
        "highway blocks the gates, in the others the activation."
    )


FIGURES = {"data_movement.png": multiples_figure, "data_movement_reads.png": shares_figure}
TABLES = {"data_movement": multiples_table, "data_movement_costs": costs_table}
