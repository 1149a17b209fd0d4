"""Pictures, table and claims of nets of up to 1,000 blocks: how well they do, and how many of their blocks they use.

Rules of the verdicts, by 95 % intervals over seeds. A net trains if its training loss is below that of guessing, in
orders of magnitude. "Does not stall" holds if the deepest nets train from any bias. What closing all of their blocks
costs each net stands beside, as nets of no blocks train, too. The blog's nets must reach BLOG_ACCURACY or fall short by
less than ACCURACY_MARGIN, and each must need 10 or 20 blocks, which is about 15. These two are judged by the longest
runs from a bias: those of --long, where there are any. Deeper nets struggle if they lose test accuracy against
shallower ones of the same bias, after 3 epochs; BLOG_BIAS is left out there, as its nets use no block at any depth.
The factors 1 − T compound if they leave less than CARRIED of an input in the deepest untrained nets from any bias.
Deep nets outperform those of no blocks if the interval of the difference of their accuracies lies above 0; this was
fixed before the runs of 30 epochs. Two rules were fixed before any residual net was trained. Highway nets struggle
where residual ones do not if, besides, the kind of residual net with the lowest validation loss trains at the greatest
depth and is there as good as at the next, by ACCURACY_MARGIN. And 1,000 residual blocks of that kind outperform 1,000
highway blocks if the interval of the difference to the bias with the lowest validation loss lies above 0, from
BLOG_BIAS apart, whose nets are nets without blocks; nets of no blocks stand beside. All other rules were written after
runs of 3 epochs, that of the factors 1 − T after all runs, and two were changed then: "does not stall" asked for use of
the blocks, too, and "about 95 %" allowed for no more than the margin on either side.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import wraps
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final_of_finished, name_data, seeds_of
from highway_lab.figures import COLORS, FAINT_INK, INK, SETTINGS, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from .claims import (
    ACCURACY_MARGIN,
    LOSS_MARGIN,
    OURS,
    Claim,
    Verdict,
    combine,
    holds,
    in_words,
    judge_as_good,
    judge_better,
    require,
)
from .common import CHANCE, final_values, group_by, points
from .common_figures import draw_dots, judge_each, lead, legend_below, minus, name_arm, scale_errors
from .rates import edge_note
from .thousand_layers import CONTROL, SCALED, DeepRun, ThousandLayersLog, arm

ERROR_TICKS = (2, 5, 10, 20, 50, 90)  # %
LOST_TICKS = (0, 0.1, 1, 10)  # points of test accuracy
STALLS = {Verdict.NOT_REPRODUCED: "still guesses", Verdict.INCONCLUSIVE: "may still guess"}  # by whether it trains
CARRIED = 0.01  # of an input: where less arrives at the end, the factors 1 − T have compounded
BLOG_BIAS, BLOG_ACCURACY, BLOG_BLOCKS = -20.0, 95.0, (10, 20)  # of the numbers in KEPT, those nearest to 15

KINDS = {"residual": "residual", SCALED: "scaled residual"}
T = TypeVar("T")
Arms = dict[tuple[str, float, int], list[DeepRun]]  # by block, gate bias and depth


def split(log: ThousandLayersLog) -> tuple[Arms, list[DeepRun], list[int]]:
    """Return the runs of each arm with blocks, the control's, and the depths of the arms."""
    arms = group_by(log.runs, arm)
    control = arms.pop(CONTROL)
    return arms, control, sorted({depth for _, _, depth in arms})


def with_residual(draw: Callable[..., T]) -> Callable[..., T]:
    """Let a function of logs see the residual nets, which have a log of their own, among the nets of the first log."""

    @wraps(draw)
    def seeing(*logs: ThousandLayersLog) -> T:
        first, *more = logs
        for log in [log for log in more if any(run.config.block in KINDS for run in log.runs)]:
            more.remove(log)
            there = {*map(arm, first.runs)}  # such as the control
            runs = [run for run in log.runs if arm(run) not in there]
            tried = [of for of in log.tried if tuple(of.arm) not in there]
            first = replace(first, runs=first.runs + runs, tried=first.tried + tried)
        return draw(first, *more)

    return seeing


def deepest(*logs: ThousandLayersLog) -> dict[float, list[DeepRun]]:
    """Return the runs of the deepest highway nets by bias, the highest first; the last log that has a bias counts."""
    found = {}
    for arms, _, depths in map(split, logs):
        found |= {
            bias: runs for (block, bias, depth), runs in arms.items() if (block, depth) == ("highway", depths[-1])
        }
    return dict(sorted(found.items(), reverse=True))


def lost(runs: list[DeepRun]) -> np.ndarray:
    """Return the points of test accuracy lost with all but k blocks closed, (gated runs, numbers k)."""
    scores = np.array([run.measured.scores for run in runs if run.measured])
    return 100 * (scores[:, -1:] - scores)


def judge_training(log: ThousandLayersLog, runs: list[DeepRun]) -> Verdict:
    """Judge whether nets train; one that diverged counts as guessing."""
    losses = np.nan_to_num(final_values(runs, "train_loss"), nan=log.guessing_loss)
    return judge_better(interval(np.log10(log.guessing_loss / losses)), LOSS_MARGIN)


def shows_blocks(log: ThousandLayersLog, runs: list[DeepRun]) -> bool:
    """Return whether blocks can be closed and the nets train, so that closing them says something."""
    return any(run.measured for run in runs) and judge_training(log, runs) == Verdict.REPRODUCED


def new_panels(
    height: float, words: str, *logs: ThousandLayersLog
) -> tuple[Figure, list[tuple[Axes, ThousandLayersLog, int]]]:
    """Return a figure and, for every depth of every log, axes, log and depth; a row, `height` inches, for each log."""
    seen = [(log, depth) for log in logs for depth in split(log)[2]]
    ncols = math.ceil(len(seen) / len(logs))
    figure, grid = new_figure(
        f"{name_data(logs[0].dataset.name)}: {words}",
        height * len(logs),
        nrows=len(logs),
        ncols=ncols,
        sharey=True,
        squeeze=False,
    )
    for axes, (log, depth) in zip(grid.flat, seen, strict=False):
        axes.set_title(f"{depth:,} blocks, {log.runs[0].config.epochs} epochs")
    for empty in grid.flat[len(seen) :]:
        empty.remove()
    return figure, [(axes, *of) for axes, of in zip(grid.flat, seen, strict=False)]


def name_row(block: str, bias: float) -> str:
    return f"$b_T$ = {minus(bias)}" if block == "highway" else KINDS.get(block, block)


def depth_figure(*logs: ThousandLayersLog) -> Figure:
    """Draw test error, a panel a depth, a row an arm: of whole nets and, if they train, with all blocks closed."""
    rows = sorted({key[:2] for key in split(logs[0])[0]})
    trained = [bias for bias, verdict in training_by_bias(*logs).items() if verdict == Verdict.REPRODUCED]
    biases = f"highway nets train from a gate bias of {in_words(trained)}" if trained else "no highway net trains"
    figure, panels = new_panels(3, f"at {split(logs[0])[2][-1]:,} blocks, {biases}", *logs)
    for axes, log, depth in panels:
        arms, control, _ = split(log)
        no_blocks = 100 - points(control).mean()
        for error, label, side in ((no_blocks, " no blocks", "left"), (100 - 100 * CHANCE, "guessing ", "right")):
            axes.axvline(error, color=INK, linewidth=1, linestyle=(0, (3, 5)), zorder=0)
            axes.text(error, len(rows) - 0.45, label, size=9, ha=side, va="center")
        for height, key in enumerate(rows):
            runs, color = arms.get((*key, depth), []), COLORS[key[0]]
            if not runs:
                axes.text(ERROR_TICKS[2], height, "not run", size=9, va="center")
                continue
            style = {"center": np.median, "color": color}
            draw_dots(axes, 100 - points(runs), height + 0.13, label="whole net", **style)
            if shows_blocks(log, runs):
                errors = 100 - points(runs) + lost(runs)[:, 0]
                draw_dots(axes, errors, height - 0.13, label="all blocks closed", markerfacecolor="white", **style)
        scale_errors(axes, ERROR_TICKS)
        axes.set(xlabel="test error (%)", xlim=(2, 100))
    left = panels[0][0]
    left.set_yticks(range(len(rows)), [name_row(*row) for row in rows])
    left.set_ylim(-0.5, len(rows) - 0.2)
    legend_below(figure, left)
    return figure


def kept_figure(*logs: ThousandLayersLog) -> Figure:
    """Draw the points lost with all but the k blocks of highest mean T closed, a panel a depth, a line a bias."""
    colors = dict(zip(deepest(logs[0]), (*SETTINGS, FAINT_INK), strict=False))
    words = costs_in_words(*logs).rstrip(".")
    figure, panels = new_panels(3.6, f"{words[0].lower()}{words[1:]}", *logs)
    for axes, log, depth in panels:
        arms, *_ = split(log)
        for bias, color in colors.items():
            runs, label = arms.get(("highway", bias, depth), []), name_row("highway", bias)
            if runs and shows_blocks(log, runs):
                draw_seeds(
                    axes, runs[0].measured.kept[::-1], lost(runs)[:, ::-1], label=label, center=np.median, color=color
                )
            else:
                words = f"{label} {STALLS[judge_training(log, runs)] if runs else 'not run'}"
                axes.text(0.03, 0.03 + 0.07 * len(axes.texts), words, transform=axes.transAxes, color=color)
        draw_level(axes, 100 * log.tolerance, "_")
        axes.set_xscale("symlog", linthresh=1)
        ticks = sorted({tick for tick in (0, 1, 10, depth) if tick <= depth})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel="open blocks", xlim=(depth, 0))
    left, right = panels[0][0], panels[-1][0]
    left.set_yscale("symlog", linthresh=LOST_TICKS[1])
    left.set_yticks(LOST_TICKS, LOST_TICKS)
    left.set_ylim(-LOST_TICKS[1], 60)
    figure.supylabel("points of test accuracy lost (linear up to 0.1)", size="medium")
    right.text(0, 75 * logs[0].tolerance, "tolerance", ha="right", va="center", size=9)
    label_ends(*(axes for axes, *_ in panels))
    return figure


def deepest_table(*logs: ThousandLayersLog) -> str:
    """Tabulate the deepest highway nets by bias, residual nets as deep, and the nets of no blocks of each training."""
    arms, _, (*_, depth) = split(logs[0])
    nets = {f"highway, from b_T {minus(bias)}": runs for bias, runs in deepest(*logs).items()}
    nets |= {KINDS[key[0]]: runs for key, runs in arms.items() if key[0] in KINDS and key[2] == depth}
    rows = []
    for words, runs in nets.items():
        cost, *_ = gate_cells(runs) if shows_blocks(logs[0], runs) else [""]
        rows.append([words, *score_cells(runs), cost])
    rows += [["no blocks", *score_cells(split(log)[1]), ""] for log in logs]
    header = [f"nets of {depth:,} blocks", "epochs", "test accuracy (%)"]
    return markdown([*header, "points lost with all blocks closed, by seed"], rows)


def score_cells(runs: list[DeepRun]) -> list[str]:
    return [str(runs[0].config.epochs), final_of_finished(runs, "test_score", percent=True)]


def arms_table(log: ThousandLayersLog, *more: ThousandLayersLog) -> str:
    """Tabulate by arm the chosen rate, test accuracy beside the control's, training loss, and what the blocks do."""
    rows = [row for of in (log, *more) for row in arm_rows(of)]
    header = ["blocks", "net", "epochs", "rate", "test accuracy (%)", "minus no blocks", "training loss"]
    header += ["lost, all closed", "blocks needed", "mean T"]
    taking_part = max((run.measured.taking_part for of in (log, *more) for run in of.runs if run.measured), default=0)
    edges = edge_note(log.tried, log.runs, arm, lambda *arm: f"{arm[2]:,} {name(*arm)}" if arm[2] else name(*arm))
    edges = edges if log.tried else ""
    return (
        f"{markdown(header, rows)}\n\n{seeds_of(run.config for run in log.runs)} Differences are points (Welch's t); "
        f"a diverged run counts as {CHANCE:.0%}. Guessing has a loss of {log.guessing_loss:.3f}. Lost, by seed: points "
        f"that closing all blocks costs. Blocks needed, by seed: how many must stay open to lose at most "
        f"{100 * log.tolerance:g} points; tried are 0, 1, 2, 5, ... and all. Mean T: over blocks and seeds, after "
        f"training. Blocks whose mean T has grown {log.growth:g}-fold and exceeds {log.active:g}: {taking_part} in a "
        f"net at most. {edges}"
    )


def arm_rows(log: ThousandLayersLog) -> list[list[str]]:
    """Return the rows of a log's arms, the shallow first."""
    arms, control, _ = split(log)
    shallow_first = sorted(arms.items(), key=lambda item: (item[0][2], item[0][0], -item[0][1]))
    rows = []
    for key, runs in [(CONTROL, control), *shallow_first]:
        gap = str(lead(runs, control)) if key != CONTROL else ""
        score, loss = final_of_finished(runs, "test_score", percent=True), final_of_finished(runs, "train_loss")
        cells = gate_cells(runs) if shows_blocks(log, runs) else [""] * 3
        config = runs[0].config
        rows.append([f"{key[2]:,}", name(*key), str(config.epochs), f"{config.lr:g}", score, gap, loss, *cells])
    return rows


def name(block: str, bias: float, depth: int) -> str:
    return KINDS.get(block) or name_arm(block, bias) if depth else "no blocks"


def gate_cells(runs: list[DeepRun]) -> list[str]:
    """Return the points lost with all blocks closed and the numbers of needed blocks, by seed, and mean T."""
    gates = [run.measured for run in runs if run.measured]
    costs = ", ".join(f"{round(cost, 1) + 0:.1f}" for cost in lost(runs)[:, 0])
    if runs[0].config.block in KINDS:
        return [costs, "", ""]
    return [costs, ", ".join(f"{of.needed:,}" for of in gates), f"{np.mean([of.trained for of in gates]):.1e}"]


@with_residual
def claims(log: ThousandLayersLog, *more: ThousandLayersLog) -> list[Claim]:
    return [
        stall_claim(log, *more),
        blog_claim(log, *more),
        struggle_claim(log),
        better_claim(log, *more),
        carry_claim(log),
        *residual_claims(log),
    ]


def stall_claim(*logs: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets train from any bias; what closing all of their blocks costs stands beside."""
    trains = training_by_bias(*logs)
    verdict = of_any(trains.values())
    is_no_better = better_claim(*logs).verdict == Verdict.NOT_REPRODUCED
    beside = " These nets do not outperform nets of no blocks." * (verdict == Verdict.REPRODUCED and is_no_better)
    why = f"{holds(trains, 'if b_T starts at {}')}{beside} {costs_in_words(*logs)}"
    found = []
    for bias, runs in deepest(*logs).items():
        loss = interval([math.nan if run.diverged else run.history.train_loss[-1] for run in runs])
        found.append(f"{minus(bias)}: {loss:.3f}{after_epochs(runs, *logs)}")
    measured = f"training loss by b_T (guessing: {logs[0].guessing_loss:.3f}), n = {len(runs)}: {'; '.join(found)}"
    return Claim("2.2", "training by SGD does not stall with more than 1,000 layers", verdict, why, measured)


def of_any(verdicts: Collection[Verdict]) -> Verdict:
    """Return the verdict on a claim that needs one case in which it holds."""
    return Verdict.REPRODUCED if Verdict.REPRODUCED in verdicts else combine(verdicts)


def training_by_bias(*logs: ThousandLayersLog) -> dict[str, Verdict]:
    """Return whether the deepest nets train, by bias, as it is written."""
    return {minus(bias): judge_training(logs[0], runs) for bias, runs in deepest(*logs).items()}


def costs_in_words(*logs: ThousandLayersLog) -> str:
    """Return a sentence that says what closing all blocks costs the deepest nets that train, by bias."""
    costs = []
    for bias, runs in deepest(*logs).items():
        if shows_blocks(logs[0], runs):
            least, most = (f"{round(cost, 1) + 0:.1f}" for cost in np.sort(lost(runs)[:, 0])[[0, -1]])  # no −0.0
            words = f"{least} to {most} points" if least != most else f"{most} points" if float(most) else "nothing"
            costs.append(f"{words} in nets from {minus(bias)}{after_epochs(runs, *logs)}")
    depth = split(logs[0])[2][-1]
    return (
        f"Closing all {depth:,} blocks costs {in_words(costs)}."
        if costs
        else f"No highway net of {depth:,} blocks trains."
    )


def blog_claim(*logs: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets from BLOG_BIAS reach 95 %, and whether each uses about 15 blocks."""
    runs, (_, control, _) = deepest(*logs)[BLOG_BIAS], split(logs[-1])
    scores, needed = interval(points(runs)), [run.measured.needed for run in runs if run.measured]
    above = interval(points(runs) - BLOG_ACCURACY)
    as_many = [Verdict.REPRODUCED if of in BLOG_BLOCKS else Verdict.NOT_REPRODUCED for of in needed]
    paper = "1,000 layers with b_T near −20 reach about 95 % and use about 15"
    beside = f"no blocks: {interval(points(control)):.2f} %; n = {len(runs)}"
    used = f"{in_words([f'{of:,}' for of in needed])} blocks" if any(needed) else "no block at all"
    why = f"The nets reach {scores.value:.1f} % and need {used}. The blog did not count layers; the 15 are the paper's."
    measured = f"{scores:.2f} %{after_epochs(runs, *logs)}; {beside}; needed: {used}"
    verdict = combine([judge_as_good(above, ACCURACY_MARGIN), *as_many])
    return Claim("blog", paper, verdict, why, measured, detail=True)


def after_epochs(runs: list[DeepRun], *logs: ThousandLayersLog) -> str:
    """Return words for the epochs of some runs, if logs differ in them."""
    return f" after {runs[0].config.epochs} epochs" if len(logs) > 1 else ""


def struggle_claim(log: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets lose test accuracy against shallower ones, and residual nets, if any, do not."""
    arms, control, (*_, shallower, deeper) = split(log)
    judged = {bias: runs for bias, runs in deepest(log).items() if ("highway", bias, shallower) in arms}
    losses = {
        f"b_T {minus(bias)}": lead(arms["highway", bias, shallower], runs)
        for bias, runs in judged.items()
        if bias != BLOG_BIAS
    }
    verdict, where, shown = judge_each(losses, judge_better, ACCURACY_MARGIN, cases="from {}")
    why, beside = f"After {control[0].config.epochs} epochs {where[0].lower()}{where[1:]}", "none was trained here."
    if rival := best_validated(log, KINDS):
        block, bias, _ = rival
        gain = lead(arms[rival], arms[block, bias, shallower])
        keeps = require(judge_training(log, arms[rival]), judge_as_good(gain, ACCURACY_MARGIN))
        verdict = combine(require(judge_better(loss, ACCURACY_MARGIN), keeps) for loss in losses.values())
        others = [
            f"{KINDS[kind]} nets {points(runs).mean():.1f} %"
            for (kind, _, depth), runs in arms.items()
            if kind in KINDS and kind != block and depth == deeper
        ]
        reached = f"reach {points(arms[rival]).mean():.1f} %, {gain.value:+.1f} points over {shallower:,}"
        beside = f"with {deeper:,} blocks, {'; '.join([f'{KINDS[block]} nets {reached}', *others])}."
        shown += f"; {KINDS[block]} nets, points gained: {gain:+.2f}"
    why += f" The overview compares with residual nets: {beside}"
    measured = f"points lost from {shallower:,} to {deeper:,} blocks, n = {len(control)}: {shown}"
    return Claim("overview", "highway networks struggle beyond about 100 layers", verdict, why, measured, detail=True)


def carry_claim(log: ThousandLayersLog) -> Claim:
    """Judge whether the factors 1 − T of untrained nets leave less than CARRIED of an input."""
    gates = {bias: [run.measured for run in runs if run.measured] for bias, runs in deepest(log).items()}
    left = {
        minus(bias): float(np.mean([np.prod(1 - np.array(of.untrained)) for of in nets]))
        for bias, nets in gates.items()
        if nets
    }
    judged = {bias: Verdict.REPRODUCED if of < CARRIED else Verdict.NOT_REPRODUCED for bias, of in left.items()}
    parts = in_words([f"{of:.1g} in nets from {bias}" for bias, of in left.items()])
    depth = split(log)[2][-1]
    why = (
        f"{holds(judged, 'if b_T starts at {}')} The share of an input that {depth:,} untrained blocks copy "
        f"to their end is {parts}."
    )
    measured = f"product of 1 − mean T over {depth:,} blocks before training; compounds: below {CARRIED:g}"
    paper = "the factors 1 − T on the path of copies can compound over the layers"
    return Claim("overview", paper, of_any(judged.values()), why, measured, detail=True)


def better_claim(*logs: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets of the longest training outperform those of no blocks."""
    _, control, depths = split(logs[-1])
    leads = {f"b_T {minus(bias)}": lead(runs, control) for bias, runs in deepest(logs[-1]).items()}
    verdict, where, shown = judge_each(leads, judge_better, ACCURACY_MARGIN, cases="from {}")
    paper = f"nets of {depths[-1]:,} blocks outperform nets of no blocks"
    epochs = control[0].config.epochs
    measured = f"points of test accuracy above no blocks after {epochs} epochs, n = {len(control)}: {shown}"
    before = len(logs) > 1  # the runs of 30 epochs
    return Claim(OURS, paper, verdict, where, measured, detail=True, before=before)


def residual_claims(log: ThousandLayersLog) -> list[Claim]:
    """Judge whether the deepest residual nets outperform highway nets as deep, if there are any."""
    arms, control, (*_, depth) = split(log)
    residual, highway = best_validated(log, KINDS), best_validated(log, ["highway"])
    if residual is None:
        return []
    gain, over_none = lead(arms[residual], arms[highway]), lead(arms[residual], control)
    paper = f"nets of {depth:,} {KINDS[residual[0]]} blocks outperform those of {depth:,} highway blocks"
    scores = [f"{points(runs).mean():.1f} %" for runs in (arms[residual], arms[highway], control)]
    why = (
        f"After {control[0].config.epochs} epochs, {KINDS[residual[0]]} nets reach {scores[0]}, highway nets from "
        f"{minus(highway[1])} {scores[1]}, and nets of no blocks {scores[2]}."
    )
    measured = f"points of test accuracy, n = {len(control)}: {gain:+.2f}; over no blocks: {over_none:+.2f}"
    verdict = judge_better(gain, ACCURACY_MARGIN)
    return [Claim(OURS, paper, verdict, why, measured, detail=True, before=True)]


def best_validated(log: ThousandLayersLog, kinds: Collection[str]) -> tuple[str, float, int] | None:
    """Return the deepest arm of some kinds of block, BLOG_BIAS apart, with the lowest validation loss, if any."""
    arms, _, (*_, depth) = split(log)
    found = [key for key in arms if key[0] in kinds and key[1] != BLOG_BIAS and key[2] == depth]
    losses = {key: [of.validation_loss for of in log.tried if tuple(of.arm) == key] for key in found}
    return min(found, key=lambda key: min(math.inf if of is None else of for of in losses[key]), default=None)


FIGURES = {"thousand_layers.png": with_residual(depth_figure), "open_blocks.png": with_residual(kept_figure)}
TABLES = {"thousand_layers_deepest": with_residual(deepest_table), "thousand_layers": with_residual(arms_table)}
