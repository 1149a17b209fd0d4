"""Pictures, tables and verdicts of data movement: residual and highway nets compared with plain ones."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, FAINT_INK, draw_level, label_ends, new_figure
from highway_lab.tables import markdown

from ..claims import Verdict, combine
from . import data_movement as dm

CARRYING = dm.BLOCKS[1:]
EQUAL = ("width", "parameters")
LABELS = {"width": "width of highway blocks", "depth": "blocks", "batch": "samples in a batch"}
OTHERS = "other operands of affine maps"
KINDS = {"weights": FAINT_INK, OTHERS: "#BBBBBB", dm.ACTIVATION: COLORS["lstm"], dm.COMBINATION: COLORS["highway"]}
MARGIN = 0.01  # of the plain net's cost: at equal parameters, highway blocks read 1 % fewer weights


def name_setting(comparison: dm.Comparison) -> str:
    """Say what is equal: `equal width: 14`."""
    plain, setting = comparison.nets["plain"], comparison.setting
    if setting.equal == "width":
        return f"equal width: {plain.width}"
    return f"equal parameters: {plain.n_params // setting.depth} a block"


def share(net: dm.Movement, **wanted: str) -> float:
    """Return the share of a net's cost that the reads with these fields cause."""
    chosen = (reads for reads in net.reads if wanted.items() <= vars(reads).items())
    return sum(reads.cost for reads in chosen) / net.costs[dm.USUAL]


def sizes(comparisons: list[dm.Comparison], name: str) -> list[int]:
    return [getattr(comparison.setting, name) for comparison in comparisons]


def multiples_figure(log: dm.DataMovementLog) -> Figure:
    """Draw by how much a net's cost exceeds the plain net's; bold: counted by USUAL, faint: by the other rules."""
    costs = [of.relative(block, rule) for of in log.comparisons for block in CARRYING for rule in dm.RULES]
    title = f"Carry paths cost more in {sum(cost > 1 for cost in costs)} of {len(costs)} comparisons"
    figure, axes = new_figure(title, 7.2, nrows=2, ncols=2)
    panels = (("depth", "width"), ("depth", "parameters"), ("width", "parameters"), ("batch", "parameters"))
    for panel, (name, equal) in zip(axes.flat, panels, strict=True):
        comparisons = log.varied(name, equal)
        draw_level(panel, 0, "plain")
        for block in CARRYING:
            for rule in reversed(dm.RULES):
                more = [100 * (comparison.relative(block, rule) - 1) for comparison in comparisons]
                style = {"label": block} if rule == dm.USUAL else {"linewidth": 1, "alpha": 0.4}
                panel.plot(sizes(comparisons, name), more, color=COLORS[block], marker="o", markersize=3, **style)
        fixed = f"equal parameters, {comparisons[0].setting.depth} blocks"
        panel.set_title(name_setting(comparisons[0]) if name == "depth" else fixed, fontsize=11)
        panel.set(xscale="log", xlabel=LABELS[name])
        panel.set_xticks(sizes(comparisons, name), sizes(comparisons, name))
        panel.minorticks_off()
    for panel in axes[:, 0]:
        panel.set_ylabel("data moved, % more than plain")
    label_ends(*axes.flat)
    return figure


def kind(reads: dm.Reads) -> str:
    """Return to which of KINDS reads belong."""
    return "weights" if reads.read == "weights" else OTHERS if reads.part == dm.AFFINE else reads.part


def shares_figure(log: dm.DataMovementLog) -> Figure:
    """Draw what is read, as parts of the cost at equal parameters, for the smallest and the largest batch."""
    smallest, *_, largest = log.varied("batch")
    parts = [
        f"{100 * share(of.nets['plain'], read='weights'):.0f} % with {count_of(of.setting.batch, 'sample')}"
        for of in (smallest, largest)
    ]
    title = f"Of a plain net's cost, reading weights makes {' and '.join(parts)}"
    figure, panels = new_figure(title, 4.4, ncols=2, sharey=True)
    for axes, comparison in zip(panels, (smallest, largest), strict=True):
        whole, tops = comparison.nets["plain"].costs[dm.USUAL], np.zeros(len(dm.BLOCKS))
        for name, color in KINDS.items():
            of_kind = [[of.cost for of in comparison.nets[block].reads if kind(of) == name] for block in dm.BLOCKS]
            heights = np.array([100 * sum(costs) / whole for costs in of_kind])
            axes.bar(dm.BLOCKS, heights, bottom=tops, color=color, width=0.6)
            if comparison is largest:
                axes.text(len(dm.BLOCKS) - 0.6, tops[-1] + heights[-1] / 2, name, verticalalignment="center")
            tops += heights
        axes.set_title(count_of(comparison.setting.batch, "sample"))
        axes.tick_params(axis="x", length=0)
    panels[0].set_ylabel("cost, in % of the plain net's")
    return figure


def judge_saving(comparisons: list[dm.Comparison], block: str) -> Verdict:
    """Judge "carry paths move less data": by USUAL, such a net costs less than the plain one by MARGIN or more."""
    less = (comparison.relative(block) <= 1 - MARGIN for comparison in comparisons)
    return combine(Verdict.REPRODUCED if saved else Verdict.NOT_REPRODUCED for saved in less)


def multiples_table(log: dm.DataMovementLog) -> str:
    """Tabulate multiples of the plain net's cost for the fewest and the most blocks, their range, and verdicts."""
    rows = []
    for equal in EQUAL:
        least, *_, most = log.varied("depth", equal)
        comparisons = [comparison for comparison in log.comparisons if comparison.setting.equal == equal]
        for block in CARRYING:
            found = [comparison.relative(block, rule) for comparison in comparisons for rule in dm.RULES]
            cells = [f"{comparison.relative(block):.3f}" for comparison in (least, most)]
            cells += [f"{min(found):.3f} to {max(found):.3f}", f"{sum(cost > 1 for cost in found)} of {len(found)}"]
            rows.append([f"{name_setting(least)}, {block}", *cells, str(judge_saving(comparisons, block))])
    depths = [f"{comparison.setting.depth} blocks" for comparison in (least, most)]
    header = [
        "cost / plain net's",
        *depths,
        "all comparisons",
        "of these, more than plain",
        f"saves at least {MARGIN:.0%}?",
    ]
    return (
        f"{markdown(header, rows)}\n\nAll comparisons: every size, counted in all four ways. Last "
        f'column: counted by "{dm.USUAL}".'
    )


def rules_table(log: dm.DataMovementLog) -> str:
    """Tabulate multiples of the plain net's cost by depth, counted by each rule."""
    rows = []
    for equal in EQUAL:
        comparisons = log.varied("depth", equal)
        for block in CARRYING:
            for rule in dm.RULES:
                multiples = (f"{comparison.relative(block, rule):.3f}" for comparison in comparisons)
                rows.append([f"{name_setting(comparisons[0])}, {block}", rule, *multiples])
    header = ["cost / plain net's", "way to count", *map(str, sizes(comparisons, "depth"))]
    return f"{markdown(header, rows)}\n\nA step of so many blocks, one sample, {log.bytes} bytes a number."


def costs_table(log: dm.DataMovementLog) -> str:
    """Tabulate each net of the greatest depth: sizes, cost, growth with depth, and shares of the cost."""
    rows = {}
    for equal in EQUAL:
        comparisons = log.varied("depth", equal)
        depths = np.log(sizes(comparisons, "depth"))
        for block in dm.BLOCKS:
            nets = [comparison.nets[block] for comparison in comparisons]
            deepest = nets[-1]
            exponents = np.diff(np.log([net.costs[dm.USUAL] for net in nets])) / np.diff(depths)
            shares = share(deepest, read="weights"), share(deepest, part=dm.COMBINATION)
            cells = [f"{deepest.n_params:,}", f"{deepest.operations:,}", f"{deepest.costs[dm.USUAL] / 1e6:.1f}"]
            cells += [f"{exponents[0]:.2f} to {exponents[-1]:.2f}", *(f"{part:.1%}" for part in shares)]
            rows[f"{block}, {deepest.width} wide"] = cells
    header = ["net", "parameters", "operations", "cost, millions", "exponent", "weights", dm.COMBINATION]
    return (
        f"{markdown(header, [[net, *cells] for net, cells in rows.items()])}\n\n"
        f'{comparisons[-1].setting.depth} blocks, one sample, counted by "{dm.USUAL}". Exponent: p in cost ∝ depthᵖ, '
        "from the first two depths to the last two. Last columns: shares of the cost; sums of the gradients through "
        "and around the affine maps count as these maps'."
    )


FIGURES = {"data_movement.png": multiples_figure, "data_movement_reads.png": shares_figure}
TABLES = {"data_movement": multiples_table, "data_movement_rules": rules_table, "data_movement_costs": costs_table}
