"""Pictures, table and claims of nets of up to 1,000 blocks: how well they do, which of their blocks take part."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final, seeds_of
from highway_lab.figures import FAINT_INK, draw_seeds, label_ends, markdown, new_figure, number_layers
from highway_lab.intervals import Interval, difference, interval

from .claims import Claim
from .common import CHANCE, final_values, group_by, points
from .common_figures import draw_against, minus, name_arm, shade, title
from .rates import edge_note
from .thousand_layers import CONTROL, DeepRun, Gates, ThousandLayersLog, arm

STRENGTHS = {-4.0: 1.0, -6.0: 0.7, -20.0: 0.4}  # of the line's colour, by bias
ERROR_TICKS = (2, 3, 5, 10, 20, 50, 90)  # %
BLOG_BIAS, BLOG = -20.0, 94.5  # % that round to the blog's 95
STRUGGLE = 1.0  # points of accuracy; a net that loses more to greater depth struggles

Arms = dict[tuple[str, float, int], list[DeepRun]]  # by block, gate bias and depth


def figure_title(log: ThousandLayersLog) -> str:
    """Return the title of both figures."""
    return title(log.dataset, log.runs, f"SGD, {log.runs[0].config.epochs} epochs, best rate of each")


def split(log: ThousandLayersLog) -> tuple[Arms, list[DeepRun]]:
    """Return the runs of each arm with blocks, and the control's."""
    arms = group_by(log.runs, arm)
    return arms, arms.pop(CONTROL)


def deepest(arms: Arms) -> dict[float, list[DeepRun]]:
    """Return the runs of the deepest highway nets by bias, the highest first."""
    depth = max(depth for _, _, depth in arms)
    biases = sorted({bias for block, bias, _ in arms if block == "highway"}, reverse=True)
    return {bias: arms["highway", bias, depth] for bias in biases}


def lead(runs: list[DeepRun], others: list[DeepRun]) -> Interval:
    """Return the points of test accuracy by which runs outperform those of another arm."""
    return difference(points(runs), points(others))


# --------------------------------------------------------------------------------------------- pictures


def depth_figure(log: ThousandLayersLog) -> Figure:
    """Draw test error against depth, with the control; beside it mean T in the deepest nets, after and before."""
    figure, (left, right) = new_figure(figure_title(log), 4.6, ncols=2)
    arms, control = split(log)
    for block, bias in dict.fromkeys(key[:2] for key in arms):
        by_depth = {key[2]: runs for key, runs in arms.items() if key[:2] == (block, bias)}
        draw_against(left, by_depth, lambda runs: 100 - points(runs), **style(block, bias))
    left.set(xscale="log", xlabel="blocks")
    left.set_xticks([*by_depth], [f"{depth:,}" for depth in by_depth])
    error_axis(left, control)
    gates_panel(right, arms)
    for axes in (left, right):
        label_ends(axes)
    return figure


def style(block: str, bias: float) -> dict[str, Any]:
    """Return the label and the colour of an arm's line, the paler the lower the bias."""
    label = block if block == "plain" else f"$b_T$ = {minus(bias)}"
    return {"label": label, "color": shade(block, bias, STRENGTHS)}


def error_axis(axes: Axes, control: list[DeepRun]) -> None:
    """Draw the control's mean test error in a band from its least to its greatest; set a log scale."""
    errors = 100 - points(control)
    axes.axhspan(errors.min(), errors.max(), color=FAINT_INK, alpha=0.3, linewidth=0)
    axes.axhline(errors.mean(), color=FAINT_INK, linewidth=1, label="no blocks")
    axes.set(yscale="log", title="test error (%)")
    axes.set_yticks(ERROR_TICKS, ERROR_TICKS)
    axes.minorticks_off()


def gates_panel(axes: Axes, arms: Arms) -> None:
    """Draw mean T of each block of the deepest highway nets, log scale: after training; before it, grey."""
    for bias, runs in reversed(deepest(arms).items()):
        if gates := gates_of(runs):
            depth = runs[0].config.depth
            blocks, untrained = range(1, depth + 1), np.mean([of.untrained for of in gates], axis=0)
            axes.plot(blocks, untrained, color=FAINT_INK, linewidth=1, zorder=3)
            draw_seeds(axes, blocks, np.array([of.trained for of in gates]), **style("highway", bias))
            axes.set(xlabel=f"block of {depth:,}", xlim=(1, depth))
            number_layers(axes.xaxis, depth)
    axes.set(yscale="log", title="mean T; grey: untrained", ylim=(None, 1))


def gates_of(runs: list[DeepRun]) -> list[Gates]:
    """Return the gates of the runs that have them."""
    return [run.gates for run in runs if run.gates]


def kept_figure(log: ThousandLayersLog) -> Figure:
    """Draw test error with all but the k blocks of highest mean T closed, a panel a depth, a line a bias."""
    arms, control = split(log)
    depths = sorted({depth for _, _, depth in arms})
    figure, panels = new_figure(figure_title(log), 4.4, ncols=len(depths), sharey=True)
    for axes, depth in zip(panels, depths, strict=True):
        for (block, bias, own_depth), runs in arms.items():
            gates = gates_of(runs)
            if own_depth == depth and gates:
                errors = 100 - 100 * np.array([of_run.scores for of_run in gates])
                draw_seeds(axes, gates[0].kept, errors, **style(block, bias))
        error_axis(axes, control)
        axes.set_xscale("symlog", linthresh=1)
        ticks = [0, *(10**power for power in range(4) if 10**power <= depth)]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel=f"open blocks of {depth:,}", xlim=(0, depth), title="")
    panels[0].set_ylabel("test error (%)")
    label_ends(panels[-1])
    return figure


# ------------------------------------------------------------------------------------ tables and claims


def arms_table(log: ThousandLayersLog) -> str:
    """Tabulate by arm the chosen rate, test accuracy beside the control's, training loss, and what the blocks do."""
    arms, control = split(log)
    shallow_first = sorted(arms.items(), key=lambda item: (item[0][2], item[0][0], -item[0][1]))
    rows = []
    for (block, bias, depth), runs in [(CONTROL, control), *shallow_first]:
        gap = str(lead(runs, control)) if depth else ""
        score, loss = final(runs, "test_score", percent=True), final(runs, "train_loss")
        cells = gate_cells(runs) if trains(log, runs) else ["", ""]
        rows.append([f"{depth:,}", name(block, bias, depth), f"{runs[0].config.lr:g}", score, gap, loss, *cells])
    header = ["blocks", "net", "rate", "test accuracy (%)", "ahead of no blocks", "training loss"]
    header += ["needed", "all closed (%)"]
    taking_part = [gates.taking_part for gates in gates_of(log.runs)]
    edges = edge_note(log.tried, log.runs, arm, lambda *arm: f"{arm[2]:,} {name(*arm)}" if arm[2] else name(*arm))
    return (
        f"{markdown(header, rows)}\n\n{seeds_of(run.config for run in log.runs)} Ahead: points, with 95 % intervals "
        f"(t, unequal variances); a run that diverged counts as {CHANCE:.0%}. Guessing has a loss of "
        f"{log.guessing_loss:.3f}; of nets that guess, blocks are not told. Needed, by seed: so many blocks of the "
        f"highest mean T, all others closed, for an accuracy at most {100 * log.tolerance:g} points below that of all; "
        f"of 0, 1, 2, 5, ..., and all. Blocks whose mean T is above {log.active:g} and {log.growth:g} times or more "
        f"what it was untrained: at most {max(taking_part, default=0)} in a net. {edges}"
    )


def name(block: str, bias: float, depth: int) -> str:
    """Return a table's name of an arm."""
    return name_arm(block, bias) if depth else "no blocks"


def gate_cells(runs: list[DeepRun]) -> list[str]:
    """Return the numbers of needed blocks, by seed, and the accuracy with all closed; blank without gates."""
    gates = gates_of(runs)
    if not gates:
        return ["", ""]
    return [", ".join(f"{of.needed:,}" for of in gates), f"{interval([100 * of.scores[0] for of in gates]):.2f}"]


def claims(log: ThousandLayersLog) -> list[Claim]:
    """Judge what the paper, a blog and an overview say of very deep nets, beside nets of no blocks."""
    return [stall_claim(log), blog_claim(log), struggle_claim(log)]


def stall_claim(log: ThousandLayersLog) -> Claim:
    """Judge from which biases the deepest nets train, and whether depth helps them."""
    arms, control = split(log)
    deep = deepest(arms)
    gaps = {bias: lead(runs, control) for bias, runs in deep.items()}
    losses = "; ".join(f"b_T {bias:g}: {loss_of(runs):.3f}" for bias, runs in deep.items())
    leads = "; ".join(f"b_T {bias:g}: {gap}" for bias, gap in gaps.items())
    trained = [
        f"{bias:g} (without blocks {without_blocks(gaps[bias])})" for bias, runs in deep.items() if trains(log, runs)
    ]
    return Claim(
        "2.2",
        "training by SGD does not stall with more than 1,000 layers",
        f"training loss of {max(depth for _, _, depth in arms):,} blocks (guessing: {log.guessing_loss:.3f}), "
        f"{losses}; points of test accuracy ahead of no blocks, {leads}",
        f"held from {', '.join(trained)}" if trained else "not",
    )


def blog_claim(log: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets from b_T -20 reach what rounds to 95 %, and whether nets of no blocks do."""
    arms, control = split(log)
    runs = deepest(arms)[BLOG_BIAS]
    scores = interval(points(runs))
    reached = "held" if scores.low >= BLOG else "not" if scores.high < BLOG else f"not told apart from {BLOG:g} %"
    return Claim(
        "blog",
        "1,000 layers reach about 95 % on MNIST with b_T near -20",
        f"{scores:.2f} %; no blocks {interval(points(control)):.2f} %",
        f"{reached}; without blocks {without_blocks(lead(runs, control))}",
    )


def struggle_claim(log: ThousandLayersLog) -> Claim:
    """Judge from which biases the deepest nets fall over STRUGGLE points behind shallower ones, or do not train."""
    arms, _ = split(log)
    shallower, deeper = sorted({depth for _, _, depth in arms})[-2:]
    gaps, found = [], []
    for bias, runs in deepest(arms).items():
        gap = lead(runs, arms["highway", bias, shallower])
        struggles = gap.high < -STRUGGLE or not trains(log, runs)
        found.append(f"b_T {bias:g}: {'yes' if struggles else 'no' if gap.low > -STRUGGLE else 'open'}")
        gaps.append(f"b_T {bias:g}: {gap}")
    return Claim(
        "elsewhere",
        "highway networks struggle beyond about 100 layers",
        f"points of test accuracy, {deeper:,} blocks less {shallower:,}: {'; '.join(gaps)}; to struggle is to lose "
        f"over {STRUGGLE:g}",
        "; ".join(found),
    )


def loss_of(runs: list[DeepRun]) -> Interval:
    """Return the last training loss; NaN if a run diverged."""
    return interval(final_values(runs, "train_loss"))


def trains(log: ThousandLayersLog, runs: list[DeepRun]) -> bool:
    """Return whether the whole interval of the training loss is below the loss of guessing."""
    return bool(loss_of(runs).high < log.guessing_loss)


def without_blocks(gap: Interval) -> str:
    """Describe how well nets of no blocks do, given the lead over them in points."""
    if not gap.sign:
        return "as well" if gap.half <= STRUGGLE else "not told apart"
    return "worse" if gap.sign > 0 else "better"


FIGURES = {"thousand_layers.png": depth_figure, "open_blocks.png": kept_figure}
TABLES = {"thousand_layers": arms_table}
