"""Pictures and tables of nets of up to 1,000 blocks by SGD: how well they do, which of their blocks take part."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final, mean_sd, name_tested, seeds_of
from highway_lab.figures import COLORS, FAINT_INK, draw_seeds, label_ends, markdown, new_figure, number_layers, pale

from .beyond.very_deep_figures import minus, name_arm
from .claims import Claim
from .common import CHANCE, final_values, group_by, near_ends, points
from .intervals import Interval, difference, interval
from .thousand_layers import CONTROL, DeepRun, ThousandLayersLog, arm

SHADES = {-4.0: 1.0, -6.0: 0.7, -20.0: 0.4}  # of the colour, by bias
ERROR_TICKS = (2, 3, 5, 10, 20, 50, 90)  # %
BLOG_BIAS, BLOG = -20.0, 94.5  # % that round to the blog's 95
STRUGGLE = 1.0  # points of accuracy; a net that loses more to greater depth struggles

Arms = dict[tuple[str, float, int], list[DeepRun]]


def title(log: ThousandLayersLog) -> str:
    """Data set, images, epochs and seeds."""
    config, seeds = log.runs[0].config, len({run.config.seed for run in log.runs})
    images = f"{name_tested(log.dataset)}: {config.n_train:,} training images"
    return f"{images}, SGD, {config.epochs} epochs, best rate of each, seeds: {seeds}"


def split(log: ThousandLayersLog) -> tuple[Arms, list[DeepRun]]:
    """The runs of each net of blocks, and those of no blocks."""
    arms = group_by(log.runs, arm)
    return arms, arms.pop(CONTROL)


def ahead(runs: list[DeepRun], others: list[DeepRun]) -> Interval:
    """Points of test accuracy that the first are ahead of the others, of other seeds or other nets."""
    return difference(points(runs), points(others))


# --------------------------------------------------------------------------------------------- pictures


def depth_figure(log: ThousandLayersLog) -> Figure:
    """Left: test error against depth, beside nets of no blocks. Right: mean T in the deepest nets, after and before."""
    figure, (left, right) = new_figure(title(log), 4.6, ncols=2)
    arms, control = split(log)
    for block, bias in dict.fromkeys(key[:2] for key in arms):
        by_depth = {depth: runs for (*of, depth), runs in arms.items() if of == [block, bias]}
        errors = np.transpose([100 - points(runs) for runs in by_depth.values()])
        draw_seeds(left, [*by_depth], errors, label=words_for(block, bias), color=color_of(block, bias), marker="o")
    left.set(xscale="log", xlabel="blocks")
    left.set_xticks([*by_depth], [f"{depth:,}" for depth in by_depth])
    error_axis(left, control)
    gates_panel(right, arms)
    for axes in (left, right):
        label_ends(axes)
    return figure


def color_of(block: str, bias: float) -> tuple[float, ...]:
    """That of the kind of block, the paler the lower the bias."""
    return pale(COLORS[block], SHADES.get(bias, 1.0))


def words_for(block: str, bias: float) -> str:
    """An arm's name, short enough for the end of a line."""
    return block if block == "plain" else f"$b_T$ = {minus(bias)}"


def error_axis(axes: Axes, control: list[DeepRun]) -> None:
    """Test error, log scale, with that of nets of no blocks: the mean, in a band from the least to the greatest."""
    errors = 100 - points(control)
    axes.axhspan(errors.min(), errors.max(), color=FAINT_INK, alpha=0.3, linewidth=0)
    axes.axhline(errors.mean(), color=FAINT_INK, linewidth=1, label="no blocks")
    axes.set(yscale="log", title="test error (%)")
    axes.set_yticks(ERROR_TICKS, ERROR_TICKS)
    axes.minorticks_off()


def gates_panel(axes: Axes, arms: Arms) -> None:
    """Mean T after training, block by block, of the deepest highway nets, log scale; before it, grey."""
    for (block, bias, depth), runs in deepest(arms).items():
        gates = [run.gates for run in runs if run.gates]
        if gates:
            blocks = range(1, depth + 1)
            axes.plot(blocks, np.mean([of.untrained for of in gates], axis=0), color=FAINT_INK, linewidth=1, zorder=3)
            trained = np.array([of.trained for of in gates])
            draw_seeds(axes, blocks, trained, label=words_for(block, bias), color=color_of(block, bias))
            axes.set(xlabel=f"block of {depth:,}", xlim=(1, depth))
            number_layers(axes.xaxis, depth)
    axes.set(yscale="log", title="mean T; grey: untrained", ylim=(None, 1))


def deepest(arms: Arms) -> Arms:
    """The highway nets of the greatest depth."""
    most = max(depth for _, _, depth in arms)
    return {key: runs for key, runs in arms.items() if key[0] == "highway" and key[2] == most}


def kept_figure(log: ThousandLayersLog) -> Figure:
    """Test error with all blocks closed but the k of highest mean T, a panel a depth, a line a bias."""
    arms, control = split(log)
    depths = sorted({depth for _, _, depth in arms})
    figure, panels = new_figure(title(log), 4.4, ncols=len(depths), sharey=True)
    for axes, of_depth in zip(panels, depths, strict=True):
        for (block, bias, depth), runs in arms.items():
            gates = [run.gates for run in runs if run.gates]
            if depth == of_depth and gates:
                errors = 100 - 100 * np.array([of.scores for of in gates])
                draw_seeds(axes, gates[0].kept, errors, label=words_for(block, bias), color=color_of(block, bias))
        error_axis(axes, control)
        axes.set_xscale("symlog", linthresh=1)
        ticks = [0, *(10**power for power in range(4) if 10**power <= of_depth)]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel=f"open blocks of {of_depth:,}", xlim=(0, of_depth), title="")
    panels[0].set_ylabel("test error (%)")
    label_ends(panels[-1])
    return figure


# ------------------------------------------------------------------------------------ tables and claims


def arms_table(log: ThousandLayersLog) -> str:
    """By arm: the chosen rate, test accuracy beside that of no blocks, training loss, and what the blocks do."""
    arms, control = split(log)
    rows = []
    for (block, bias, depth), runs in {CONTROL: control, **dict(sorted(arms.items(), key=by_depth))}.items():
        name, gap = (name_arm(block, bias), str(ahead(runs, control))) if depth else ("no blocks", "")
        score, loss = final(runs, "test_score", percent=True), final(runs, "train_loss")
        cells = gate_cells(runs) if trains(log, runs) else ["", ""]
        rows.append([f"{depth:,}", name, f"{runs[0].config.lr:g}", score, gap, loss, *cells])
    header = ["blocks", "net", "rate", "test accuracy (%)", "ahead of no blocks", "training loss"]
    header += ["needed", "all closed (%)"]
    taking_part = [run.gates.taking_part for run in log.runs if run.gates]
    grid, ends = near_ends(log.tried, log.runs, arm, 1)
    at_ends = [f"{depth:,} {name_arm(block, bias)}" if depth else "no blocks" for block, bias, depth in ends]
    return (
        f"{markdown(header, rows)}\n\n{seeds_of(run.config for run in log.runs)} Ahead: points, with 95 % intervals "
        f"(t, unequal variances); a run that diverged counts as {CHANCE:.0%}. Guessing has a loss of "
        f"{log.guessing_loss:.3f}; of nets that guess, blocks are not told. Needed, by seed: so many blocks of the "
        f"highest mean T, all others closed, for an accuracy at most {100 * log.tolerance:g} points below that of all; "
        f"of 0, 1, 2, 5, ..., and all. Blocks whose mean T is above {log.active:g} and {log.growth:g} times or more "
        f"what it was untrained: at most {max(taking_part, default=0)} in a net. "
        f"Rates from {grid}; chosen at an end: {', '.join(at_ends) or 'none'}."
    )


def by_depth(item: tuple[tuple[str, float, int], list[DeepRun]]) -> tuple:
    """The order of a table's rows: shallow first, highway first, the higher bias first."""
    (block, bias, depth), _ = item
    return depth, block, -bias


def gate_cells(runs: list[DeepRun]) -> list[str]:
    """How many blocks are needed, by seed, and the accuracy with all closed; blank without gates."""
    gates = [run.gates for run in runs if run.gates]
    if not gates:
        return ["", ""]
    return [", ".join(f"{of.needed:,}" for of in gates), mean_sd([100 * of.scores[0] for of in gates], digits=2)]


def claims(log: ThousandLayersLog) -> list[Claim]:
    """What the paper, a blog and others say of very deep nets, beside nets of no blocks."""
    arms, control = split(log)
    deep = deepest(arms)
    return [stall_claim(log, deep, control), blog_claim(deep, control), struggle_claim(log, arms)]


def stall_claim(log: ThousandLayersLog, deep: Arms, control: list[DeepRun]) -> Claim:
    """From which biases the deepest nets train; and whether depth helps them."""
    depth = next(iter(deep))[-1]
    gaps = {bias: ahead(runs, control) for (_, bias, _), runs in by_bias(deep)}
    losses = "; ".join(f"b_T {bias:g}: {loss_of(runs):.3f}" for (_, bias, _), runs in by_bias(deep))
    leads = "; ".join(f"b_T {bias:g}: {gap}" for bias, gap in gaps.items())
    trained = [
        f"{bias:g} (without blocks {beside(gaps[bias])})" for (_, bias, _), runs in by_bias(deep) if trains(log, runs)
    ]
    return Claim(
        "2.2",
        "training by SGD does not stall with more than 1,000 layers",
        f"training loss of {depth:,} blocks (guessing: {log.guessing_loss:.3f}), {losses}; points of test accuracy "
        f"ahead of no blocks, {leads}",
        f"held from {', '.join(trained)}" if trained else "not",
    )


def blog_claim(deep: Arms, control: list[DeepRun]) -> Claim:
    """Whether the deepest nets from b_T -20 reach what rounds to 95 %, and whether nets of no blocks do, too."""
    (runs,) = (runs for (_, bias, _), runs in deep.items() if bias == BLOG_BIAS)
    scores, gap = interval(points(runs)), ahead(runs, control)
    reached = "held" if scores.low >= BLOG else "not" if scores.high < BLOG else f"not told apart from {BLOG:g} %"
    return Claim(
        "blog",
        "1,000 layers reach about 95 % on MNIST with b_T near -20",
        f"{scores:.2f} %; no blocks {interval(points(control)):.2f} %",
        f"{reached}; without blocks {beside(gap)}",
    )


def struggle_claim(log: ThousandLayersLog, arms: Arms) -> Claim:
    """From which biases the deepest nets are more than STRUGGLE points behind the less deep, or do not train."""
    depths = sorted({depth for _, _, depth in arms})[-2:]
    gaps, found = [], []
    for (_, bias, _), runs in by_bias(deepest(arms)):
        gap = ahead(runs, arms["highway", bias, depths[0]])
        struggles = gap.high < -STRUGGLE or not trains(log, runs)
        found.append(f"b_T {bias:g}: {'yes' if struggles else 'no' if gap.low > -STRUGGLE else 'open'}")
        gaps.append(f"b_T {bias:g}: {gap}")
    return Claim(
        "elsewhere",
        "highway networks struggle beyond about 100 layers",
        f"points of test accuracy, {depths[1]:,} blocks less {depths[0]:,}: {'; '.join(gaps)}; to struggle is to lose "
        f"over {STRUGGLE:g}",
        "; ".join(found),
    )


def by_bias(deep: Arms) -> list[tuple[tuple[str, float, int], list[DeepRun]]]:
    """Arms and their runs, the higher bias first."""
    return sorted(deep.items(), key=by_depth)


def loss_of(runs: list[DeepRun]) -> Interval:
    """The last training loss; NaN if one diverged."""
    return interval(final_values(runs, "train_loss"))


def trains(log: ThousandLayersLog, runs: list[DeepRun]) -> bool:
    """Whether the training loss is below that of guessing, with its whole interval."""
    return bool(loss_of(runs).high < log.guessing_loss)


def beside(gap: Interval) -> str:
    """How well nets of no blocks do, given the lead over them in points."""
    if not gap.sign:
        return "as well" if gap.half <= STRUGGLE else "not told apart"
    return "worse" if gap.sign > 0 else "better"


FIGURES = {"thousand_layers.png": depth_figure, "open_blocks.png": kept_figure}
TABLES = {"thousand_layers": arms_table}
