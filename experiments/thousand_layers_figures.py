"""Pictures, table and claims of nets of up to 1,000 blocks: how well they do, and how many of their blocks they use.

Rules of the verdicts, by 95 % intervals over seeds. A net trains if its training loss is below that of guessing, in
orders of magnitude. It uses its blocks if closing all of them costs test accuracy. "Does not stall" asks for both, as
nets of no blocks train, too. "About 95 %" means within ACCURACY_MARGIN on both sides, "about 15 blocks" that every net
needs 10 or 20. "Does not stall", "about 95 %" and "about 15 blocks" are judged by the longest runs from a bias: those
of --long, where there are any. Deeper nets struggle if they lose test accuracy against shallower ones of the same bias,
after 3 epochs; BLOG_BIAS is left out there, as its nets use no block at any depth.
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import final_of_finished, seeds_of
from highway_lab.figures import COLORS, INK, SETTINGS, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from .claims import ACCURACY_MARGIN, LOSS_MARGIN, Claim, Verdict, combine, judge_about, judge_better
from .common import CHANCE, final_values, group_by, points
from .common_figures import draw_dots, judge_each, lead, legend_below, minus, name_arm, scale_errors, title
from .rates import edge_note
from .thousand_layers import CONTROL, DeepRun, ThousandLayersLog, arm

ERROR_TICKS = (2, 5, 10, 20, 50, 90)  # %
LOST_TICKS = (0, 0.1, 1, 10)  # points of test accuracy
STALLS = {Verdict.NOT_REPRODUCED: "still guesses", Verdict.INCONCLUSIVE: "may still guess"}  # by whether it trains
BLOG_BIAS, BLOG_ACCURACY, BLOG_BLOCKS = -20.0, 95.0, (10, 20)  # of the numbers in KEPT, those nearest to 15

Arms = dict[tuple[str, float, int], list[DeepRun]]  # by block, gate bias and depth


def split(log: ThousandLayersLog) -> tuple[Arms, list[DeepRun], list[int]]:
    """Return the runs of each arm with blocks, the control's, and the depths of the arms."""
    arms = group_by(log.runs, arm)
    control = arms.pop(CONTROL)
    return arms, control, sorted({depth for _, _, depth in arms})


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
    """Return whether nets have gates and train, so that closing their blocks says something."""
    return runs[0].config.block == "highway" and judge_training(log, runs) == Verdict.REPRODUCED


def new_panels(height: float, *logs: ThousandLayersLog) -> tuple[Figure, list[tuple[Axes, ThousandLayersLog, int]]]:
    """Return a figure and, for every depth of every log, axes, log and depth; a row, `height` inches, for each log."""
    seen = [(log, depth) for log in logs for depth in split(log)[2]]
    ncols = math.ceil(len(seen) / len(logs))
    words = title(logs[0].dataset, logs[0].runs, "SGD, each net with its own rate")
    figure, grid = new_figure(words, height * len(logs), nrows=len(logs), ncols=ncols, sharey=True, squeeze=False)
    for axes, (log, depth) in zip(grid.flat, seen, strict=False):
        axes.set_title(f"{depth:,} blocks, {log.runs[0].config.epochs} epochs")
    for empty in grid.flat[len(seen) :]:
        empty.remove()
    return figure, [(axes, *of) for axes, of in zip(grid.flat, seen, strict=False)]


def name_row(block: str, bias: float) -> str:
    return block if block == "plain" else f"$b_T$ = {minus(bias)}"


def depth_figure(*logs: ThousandLayersLog) -> Figure:
    """Draw test error, a panel a depth, a row an arm: of whole nets and, if they train, with all blocks closed."""
    rows = sorted({key[:2] for key in split(logs[0])[0]})
    figure, panels = new_panels(3, *logs)
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
            draw_dots(axes, 100 - points(runs), height + 0.13, label="whole net", color=color)
            if shows_blocks(log, runs):
                errors = 100 - points(runs) + lost(runs)[:, 0]
                draw_dots(axes, errors, height - 0.13, label="all blocks closed", color=color, markerfacecolor="white")
        scale_errors(axes, ERROR_TICKS)
        axes.set(xlabel="test error (%)", xlim=(2, 100))
    left = panels[0][0]
    left.set_yticks(range(len(rows)), [name_row(*row) for row in rows])
    left.set_ylim(-0.5, len(rows) - 0.2)
    legend_below(figure, left)
    return figure


def kept_figure(*logs: ThousandLayersLog) -> Figure:
    """Draw the points lost with all but the k blocks of highest mean T closed, a panel a depth, a line a bias."""
    colors = dict(zip(deepest(logs[0]), SETTINGS, strict=False))
    figure, panels = new_panels(3.6, *logs)
    for axes, log, depth in panels:
        arms, *_ = split(log)
        for row, bias in enumerate(colors):
            runs, label, color = arms.get(("highway", bias, depth), []), name_row("highway", bias), colors[bias]
            if runs and shows_blocks(log, runs):
                draw_seeds(axes, runs[0].measured.kept[::-1], lost(runs)[:, ::-1], label=label, color=color)
            else:
                words = f"{label} {STALLS[judge_training(log, runs)] if runs else 'not run'}"
                axes.text(0.03, 0.97 - 0.07 * row, words, transform=axes.transAxes, color=color, va="top")
        draw_level(axes, 100 * log.tolerance, "_")
        axes.set_xscale("symlog", linthresh=1)
        ticks = sorted({tick for tick in (0, 1, 10, depth) if tick <= depth})
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel="open blocks", xlim=(depth, 0))
    left, right = panels[0][0], panels[-1][0]
    left.set_yscale("symlog", linthresh=LOST_TICKS[1])
    left.set_yticks(LOST_TICKS, LOST_TICKS)
    left.set_ylim(-0.03, 60)
    figure.supylabel("points of test accuracy lost (linear up to 0.1)", size="medium")
    right.text(0, 75 * logs[0].tolerance, "tolerance", ha="right", va="center", size=9)
    label_ends(*(axes for axes, *_ in panels))
    return figure


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
        f"a diverged run counts as {CHANCE:.0%}. Guessing has a loss of {log.guessing_loss:.3f}. Lost: points that "
        f"closing all blocks costs. Blocks needed, by seed: how many must stay open to lose at most "
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
    return name_arm(block, bias) if depth else "no blocks"


def gate_cells(runs: list[DeepRun]) -> list[str]:
    """Return the points lost with all blocks closed, the numbers of needed blocks by seed, and mean T."""
    gates = [run.measured for run in runs if run.measured]
    needed = ", ".join(f"{of.needed:,}" for of in gates)
    return [str(interval(lost(runs)[:, 0])), needed, f"{np.mean([of.trained for of in gates]):.1e}"]


def claims(log: ThousandLayersLog, *more: ThousandLayersLog) -> list[Claim]:
    return [stall_claim(log, *more), blog_claim(log, *more), struggle_claim(log)]


def stall_claim(*logs: ThousandLayersLog) -> Claim:
    """Judge from which biases the deepest nets train and use their blocks."""
    verdicts, found = [], []
    for bias, runs in deepest(*logs).items():
        trains = judge_training(logs[0], runs)
        if trains == Verdict.REPRODUCED:
            cost = interval(lost(runs)[:, 0])
            verdicts.append(judge_better(cost, ACCURACY_MARGIN))
            shown = f"{cost} ({verdicts[-1]})"
        else:
            verdicts.append(trains)
            shown = STALLS[trains]
        found.append(f"{minus(bias)}: {shown}{after_epochs(runs, *logs)}")
    paper = "training by SGD does not stall with more than 1,000 layers"
    why = f"must train and use blocks; points lost by closing all, n = {len(runs)}: b_T {'; '.join(found)}"
    return Claim("2.2", paper, combine(verdicts), "WHY", why)


def blog_claim(*logs: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets from BLOG_BIAS reach about 95 %, and whether each uses about 15 blocks."""
    runs, (_, control, _) = deepest(*logs)[BLOG_BIAS], split(logs[-1])
    scores, needed = interval(points(runs)), [run.measured.needed for run in runs if run.measured]
    above = interval(points(runs) - BLOG_ACCURACY)
    as_many = [Verdict.REPRODUCED if of in BLOG_BLOCKS else Verdict.NOT_REPRODUCED for of in needed]
    paper = "1,000 layers with b_T near −20 reach about 95 % and use about 15"
    beside = f"no blocks: {interval(points(control)):.2f} %; n = {len(runs)}"
    needs = f"blocks that the nets need: {', '.join(map(str, needed)) or 'none trained'}"
    why = f"{scores:.2f} %{after_epochs(runs, *logs)}; {beside}; {needs}"
    return Claim("blog", paper, combine([judge_about(above, ACCURACY_MARGIN), *as_many]), "WHY", why, detail=True)


def after_epochs(runs: list[DeepRun], *logs: ThousandLayersLog) -> str:
    """Return words for the epochs of some runs, if logs differ in them."""
    return f" after {runs[0].config.epochs} epochs" if len(logs) > 1 else ""


def struggle_claim(log: ThousandLayersLog) -> Claim:
    """Judge whether the deepest nets lose test accuracy against shallower ones."""
    arms, control, (*_, shallower, deeper) = split(log)
    judged = {bias: runs for bias, runs in deepest(log).items() if bias != BLOG_BIAS}
    losses = {f"b_T {minus(bias)}": lead(arms["highway", bias, shallower], runs) for bias, runs in judged.items()}
    shown, verdict = judge_each(losses, judge_better, ACCURACY_MARGIN)
    why = f"points lost from {shallower:,} to {deeper:,} blocks, n = {len(control)}: {shown}"
    return Claim("overview", "highway networks struggle beyond about 100 layers", verdict, "WHY", why, detail=True)


FIGURES = {"thousand_layers.png": depth_figure, "open_blocks.png": kept_figure}
TABLES = {"thousand_layers": arms_table}
