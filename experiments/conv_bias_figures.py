"""Picture, tables and claims of gate biases by depth, in convolutional nets.

A net learns if it classifies `LEARNED` % of the test images correctly. The guideline's bias suits a depth if every net
that starts from it learns; that other biases fail is not part of the claim. This rule was put in this form after all
runs. Our own two claims are stronger: with the guideline's bias, more nets learn, over all depths, than plain nets or
than with the other biases, by Fisher's exact test at 5 %. This rule was put in this form after the runs of three seeds.
New seeds, for which it stood beforehand, judge alone, at 18 and 28 blocks.
"""

import numpy as np
from matplotlib.figure import Figure

from conv_recipes import ConvConfig
from highway_lab.console import name_data, name_tested
from highway_lab.figures import COLORS, draw_level, label_ends, new_figure, pale
from highway_lab.intervals import interval
from highway_lab.logs import RunLog, RunRecord
from highway_lab.tables import markdown

from .claims import OURS, Claim, Verdict, combine, holds, in_words
from .common import CHANCE, group_by, points
from .common_figures import Runs, gains, joined, minus, scale_by_logarithm
from .conv_bias import GUIDELINE, layers

LEARNED = 50  # % of the test images
SIGNIFICANT = 0.05  # p below it


def by_depth(log: RunLog[ConvConfig]) -> dict[int, dict[str, Runs]]:
    """Return runs by layers, then by the name of the gate bias, the highest first; plain nets last."""

    def key(run: RunRecord[ConvConfig]) -> tuple[int, str, float]:
        return layers(run.config), run.config.block, -run.config.gate_bias

    depths = {}
    for (depth, block, negative), runs in group_by(log.runs, key).items():
        depths.setdefault(depth, {})["plain" if block == "plain" else minus(-negative)] = runs
    return depths


def learners(runs: Runs) -> Runs:
    return [run for run, score in zip(runs, points(runs), strict=True) if score >= LEARNED]


def blocks(depth: int) -> int:
    """Return the number of blocks, given layers as the paper counts them: the first and the dense one are none."""
    return depth - 2


def count(runs: Runs, of: str = " of ") -> str:
    return f"{len(learners(runs))}{of}{len(runs)}"


def bias_figure(*logs: RunLog[ConvConfig]) -> Figure:
    """Draw the test error of every run, a panel for each depth, by gate bias; the guideline's bias is shaded."""
    log = joined("runs", logs)
    depths = by_depth(log)
    advised = [run for depth, arms in depths.items() for run in arms[minus(GUIDELINE[depth])]]
    title = f"{count(advised)} nets learn with the guideline's bias"
    figure, grid = new_figure(title, 3.6, ncols=len(depths), sharey=True, squeeze=False)
    for axes, (depth, arms) in zip(grid[0], depths.items(), strict=True):
        of_height = axes.get_xaxis_transform()
        for place, (arm, runs) in enumerate(arms.items()):
            half = min(0.08 * (len(runs) - 1), 0.35)  # of the width of its dots; arms are 1 apart
            side_by_side = np.linspace(place - half, place + half, len(runs))
            color = COLORS["plain" if arm == "plain" else "highway"]
            axes.plot(side_by_side, 100 - points(runs), "o", color=color, alpha=0.6, markersize=6, clip_on=False)
            if arm == minus(GUIDELINE[depth]):
                axes.axvspan(place - 0.45, place + 0.45, color=pale(COLORS["highway"], 0.15), zorder=0)
                axes.text(place, 0.7, "guideline", rotation=90, ha="center", va="center", transform=of_height)
        axes.set_xticks(range(len(arms)), [f"{arm}\n{count(runs, '/')}" for arm, runs in arms.items()])
        axes.set_title(f"{blocks(depth)} blocks, by $b_T$")
        draw_level(axes, 100 - 100 * CHANCE, "guessing")
        scale_by_logarithm(axes)
    grid[0, 0].set_ylabel(f"{name_data(log.dataset.name)}: test error (%)")
    label_ends(grid[0, -1])
    return figure


def bias_table(*logs: RunLog[ConvConfig]) -> str:
    """Tabulate by depth and bias how many nets learn, and of these test accuracy and the gain over the guideline."""
    log = joined("runs", logs)
    rows = []
    for depth, arms in by_depth(log).items():
        advised = learners(arms[minus(GUIDELINE[depth])])
        for arm, runs in arms.items():
            learned = learners(runs)
            scores = f"{interval(points(learned)):.2f}"
            gain = "guideline" if arm == minus(GUIDELINE[depth]) else f"{interval(gains(learned, advised)):+.2f}"
            rows.append([str(blocks(depth)), arm, f"{runs[0].n_params:,}", count(runs), scores, gain])
    header = ["blocks", "b_T", "parameters", "nets that learn", "their test accuracy (%)", "points gained"]
    return (
        f"{markdown(header, rows)}\n\n{name_tested(log.dataset)}. ±: 95 % interval over the seeds that learn. Points "
        "gained: over the guideline's bias, seed by seed."
    )


def comparisons(log: RunLog[ConvConfig]) -> dict[tuple[str, str], tuple[Runs, Runs]]:
    """Return groups of runs that are compared, by their names; the two that decide come last."""
    arms = group_by(log.runs, lambda run: kind(run.config))
    found = {}
    for depth in by_depth(log):
        by_block = group_by((run for run in log.runs if layers(run.config) == depth), lambda run: run.config.block)
        found[f"highway, {blocks(depth)} blocks", "plain"] = by_block["highway"], by_block["plain"]
    guideline = f"guideline's b_T, {name_depths(log)}"
    found[guideline, "plain"] = arms["guideline"], arms["plain"]
    found[guideline, "other b_T"] = arms["guideline"], arms["other"]
    return found


def name_depths(log: RunLog[ConvConfig]) -> str:
    return f"{in_words([str(blocks(depth)) for depth in by_depth(log)])} blocks"


def kind(config: ConvConfig) -> str:
    if config.block == "plain":
        return "plain"
    return "guideline" if config.gate_bias == GUIDELINE[layers(config)] else "other"


def p_value(runs: Runs, others: Runs) -> float:
    """Return p of Fisher's exact test, two-sided, that as many of both groups learn."""
    from scipy.stats import fisher_exact  # imports in half a second

    counts = [[len(learners(group)), len(group) - len(learners(group))] for group in (runs, others)]
    return float(fisher_exact(counts).pvalue)


def comparison_table(*logs: RunLog[ConvConfig]) -> str:
    """Tabulate the exact tests of nets that learn, of the newest seeds."""
    rows = [
        [name, count(runs), other, count(others), f"{p_value(runs, others):.2g}"]
        for (name, other), (runs, others) in comparisons(logs[-1]).items()
    ]
    header = ["these nets", "learn", "those nets", "learn", "p"]
    note = (
        "p: the probability of so large a difference if both learned equally often (Fisher's exact test, two-sided, "
        f"newest seeds, highway nets of all b_T); below {SIGNIFICANT:g} a difference is shown. The last two rows "
        "decide our two verdicts."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def judge(runs: Runs, others: Runs) -> Verdict:
    """Judge "more of these nets learn than of the others" by the exact test."""
    if p_value(runs, others) >= SIGNIFICANT:
        return Verdict.INCONCLUSIVE
    more = len(learners(runs)) * len(others) > len(learners(others)) * len(runs)
    return Verdict.REPRODUCED if more else Verdict.NOT_REPRODUCED


def claims(*logs: RunLog[ConvConfig]) -> list[Claim]:
    """Judge section 2.2's guideline by all seeds; and, ours, beside plain nets and other biases by the newest."""
    return [suits_claim(joined("runs", logs)), *own_claims(logs[-1], before=len(logs) > 1)]


def suits_claim(log: RunLog[ConvConfig]) -> Claim:
    advised = {depth: arms[minus(GUIDELINE[depth])] for depth, arms in by_depth(log).items()}
    verdicts = {
        depth: Verdict.REPRODUCED if len(learners(runs)) == len(runs) else Verdict.NOT_REPRODUCED
        for depth, runs in advised.items()
    }
    paper = "b_T −1, −2, −3 suits convolutional highway nets of 10, 20, 30 layers"
    everyone = [run for runs in advised.values() for run in runs]
    why = f"With the guideline's bias {count(everyone)} nets learn. {holds(verdicts, 'at {} layers')}"
    measured = "; ".join(f"{count(runs)} nets of {depth} layers learn" for depth, runs in advised.items())
    return Claim("2.2", paper, combine(verdicts.values()), why, measured, detail=True)


def own_claims(log: RunLog[ConvConfig], before: bool) -> list[Claim]:
    """Return whether more nets learn with the guideline's bias than without gates, and than with other biases."""
    (_, plain), (_, other) = [*comparisons(log).items()][-2:]
    found = []
    for than, which, (advised, others) in (
        ("than plain nets", "plain nets", plain),
        ("than with other biases", "nets of other biases", other),
    ):
        verdict = judge(advised, others)
        nets = f"{count(advised)} with the guideline's bias learn, and {count(others)} {which}"
        why = f"Of the newest nets, with {name_depths(log)}, {nets}."
        why += " The difference may be chance." * (verdict == Verdict.INCONCLUSIVE)
        measured = f"p = {p_value(advised, others):.2g}, Fisher's exact test, {name_depths(log)}"
        paper = f"with the guideline's gate bias, more convolutional nets learn {than}"
        found.append(Claim(OURS, paper, verdict, why, measured, detail=True, before=before))
    return found


FIGURES = {"conv_bias.png": bias_figure}
TABLES = {"conv_bias": bias_table, "conv_bias_tests": comparison_table}
