"""Pictures, tables and claim of which biases, rates, activations and initialisations let 50 blocks train.

Rule of the verdict: a negative bias suffices if every run of every pair of activation and initialisation learns, and if
nets of 50 blocks outperform nets of no blocks, which learn in any case: the 95 % interval of the lead in test accuracy,
its mean over the pairs for each seed, excludes 0. The claim is reproduced if one negative bias suffices, as it says no
more. Both sentences took this form after the runs; that one bias is enough came last, in place of *partly*.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import name_data, seeds_of
from highway_lab.figures import COLORS, INK, draw_level, new_figure, pale
from highway_lab.intervals import Interval, interval
from highway_lab.tables import markdown

from .bias_and_rate import STARTS, BiasAndRateLog, arm
from .claims import ACCURACY_MARGIN, Claim, Verdict, combine, holds, in_words, judge_better, require
from .common import CHANCE, group, group_by, points
from .common_figures import minus, title
from .rates import edge_note

BOTH = ("both", (-6.0, 1e-3), (-2.0, 5e-3))
CONTRASTS = (  # what is changed, (bias, rate) and those that it is compared with: at -2 and 5e-3, 50 blocks fall behind
    ("lower rate", (-2.0, 1e-3), (-2.0, 5e-3)),
    ("lower bias", (-6.0, 5e-3), (-2.0, 5e-3)),
    BOTH,
    ("lower bias at the lower rate", (-6.0, 1e-3), (-2.0, 1e-3)),
    ("lower rate at the lower bias", (-6.0, 1e-3), (-6.0, 5e-3)),
)
LEARNT = 50.0  # % of test accuracy above which a net has learned something: chance is about 11
NEAR = (-6.0, 4.0)  # points over nets without blocks: what is drawn to scale
NO_BLOCKS = STARTS[-1]
EXAMPLES = (-1.0, -3.0)  # biases that the paper names (section 2.2)

Start = tuple[str, float, int]  # block, bias, depth


def rate_figure(log: BiasAndRateLog) -> Figure:
    """Draw mean test accuracy, a row a bias, a column a rate; below it its 95 % interval over seeds."""
    cells = group(log.by_rate, "gate_bias", "lr")
    biases, rates = sorted({bias for bias, _ in cells}, reverse=True), sorted({lr for _, lr in cells})
    words, (_, to, than) = f"{log.by_rate[0].config.depth} highway blocks", BOTH
    if {to, than} <= cells.keys():
        gained = interval(points(cells[to]) - points(cells[than]))
        ends = [f"b_T {minus(bias)}, rate {rate:g}" for bias, rate in (to, than)]
        words += f": {' leads '.join(ends)} by {gained:.1f} points"
    figure, axes = new_figure(title(log.dataset, log.by_rate, words), 4.0)
    scores = [[interval(points(cells[bias, lr])) for lr in rates] for bias in biases]
    image = axes.imshow([[score.value for score in row] for row in scores], aspect="auto", vmin=0, vmax=100)
    for row, column in np.ndindex(len(biases), len(rates)):
        score = scores[row][column]
        color = "black" if score.value > 60 else "white"
        axes.text(column, row, f"{score:.1f}".replace(" ± ", "\n± "), color=color, size=9, ha="center", va="center")
    axes.set(xlabel="learning rate", ylabel="initial gate bias $b_T$")
    axes.set_xticks(range(len(rates)), [f"{lr:g}" for lr in rates])
    axes.set_yticks(range(len(biases)), [minus(bias) for bias in biases])
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="test accuracy (%)", aspect=30)
    return figure


def gains_table(log: BiasAndRateLog) -> str:
    """Tabulate the points gained by a lower rate, a lower bias and both, of CONTRASTS that the log has."""
    cells, rows = group(log.by_rate, "gate_bias", "lr"), []
    for change, to, than in CONTRASTS:
        if {to, than} <= cells.keys():
            ends = [f"{b_T:g}, {lr:g}" for b_T, lr in (than, to)]
            rows.append([change, *ends, str(interval(points(cells[to]) - points(cells[than])))])
    table = markdown(["change", "from b_T, rate", "to", "points gained"], rows)
    return f"{table}\n\nDifferences by seed, 95 % intervals."


def scores_of(log: BiasAndRateLog) -> tuple[list[tuple[str, str]], dict[Start, np.ndarray]]:
    """Return the pairs of activation and initialisation, and test accuracy (%) by start, (pairs, seeds)."""
    cells = group_by(log.by_init, arm)
    pairs = list(dict.fromkeys(key[:2] for key in cells))
    starts = sorted({key[2:] for key in cells}, key=lambda start: (-start[2], start[0] != "plain", -start[1]))
    return pairs, {start: np.array([points(cells[*pair, *start]) for pair in pairs]) for start in starts}


def name_start(block: str, bias: float, depth: int) -> str:
    return "no blocks" if not depth else block if block == "plain" else f"b_T {minus(bias)}"


def depth_of(log: BiasAndRateLog) -> int:
    return max(run.config.depth for run in log.by_init)


def init_figure(log: BiasAndRateLog) -> Figure:
    """Draw every net's test accuracy by start; beside it, by pair, the points gained over nets without blocks."""
    pairs, scores = scores_of(log)
    biases = [bias for block, bias, depth in scores if block == "highway"]  # the highest first
    strengths = np.linspace(0.3, 1, len(biases))
    shades = {bias: pale(COLORS["highway"], of) for bias, of in zip(biases, strengths, strict=True)}
    figure, (nets, leads) = new_figure(gist(log), 5.2, ncols=2, width_ratios=(1.15, 1))
    draw_nets(nets, scores, shades)
    nets.set_title(f"{name_data(log.dataset.name)}: test accuracy of every net (%)\nBelow: how many learn", fontsize=11)
    draw_leads(leads, pairs, scores, {bias: shades[bias] for bias in biases if bias < 0})
    return figure


def gist(log: BiasAndRateLog) -> str:
    """Return what was found, as a picture's title says it."""
    enough = [name for name, verdict in verdicts_of(log).items() if verdict == Verdict.REPRODUCED]
    biases = f"Gate biases of {in_words(enough)} let" if enough else "No gate bias lets"
    return f"{biases} {depth_of(log)} blocks learn"


def draw_nets(axes: Axes, scores: dict[Start, np.ndarray], shades: Mapping[float, Any]) -> None:
    """Draw the test accuracy of every net as a dot, a column a start; below it stands how many nets learn."""
    names = []
    for place, (start, of_start) in enumerate(scores.items()):
        block, bias, depth = start
        color = shades[bias] if block == "highway" else COLORS["plain"] if depth else INK
        spread = place + np.linspace(-0.35, 0.35, of_start.size)
        axes.plot(spread, of_start.ravel(), "o", color=color, markersize=3.5, clip_on=False)
        name = name_start(*start).replace("b_T", "$b_T$\n").replace("no blocks", "no\nblocks")
        names.append(f"{name}\n{(of_start > LEARNT).sum()}/{of_start.size}")
    draw_level(axes, LEARNT, "_")
    axes.text(len(names) - 0.4, LEARNT + 1, "learns", ha="right", va="bottom", fontsize=9)
    axes.set(ylim=(0, 100))
    axes.set_xticks(range(len(names)), names, fontsize=9)


def draw_leads(
    axes: Axes, pairs: list[tuple[str, str]], scores: dict[Start, np.ndarray], shades: Mapping[float, Any]
) -> None:
    """Draw, a row a pair, the points over nets of no blocks: seeds faint, means bold; far means as numbers."""
    gaps = np.cumsum([0, *(left[0] != right[0] for left, right in pairwise(pairs))])  # between activations
    heights = -np.arange(len(pairs)) - 0.7 * gaps
    shifts = np.linspace(0.25, -0.25, len(shades)) if len(shades) > 1 else [0]
    for (bias, color), shift in zip(shades.items(), shifts, strict=True):
        (start,) = (start for start in scores if start[:2] == ("highway", bias))
        gained = scores[start] - scores[NO_BLOCKS]
        axes.plot(gained, heights + shift, "o", color=color, markersize=3, alpha=0.4)
        axes.plot(gained.mean(axis=1), heights + shift, "o", color=color, markersize=6, label=f"$b_T$ {minus(bias)}")
        for lead, height in zip(gained.mean(axis=1), heights + shift, strict=True):
            if lead < NEAR[0]:
                axes.text(NEAR[0] + 0.1, height, f"◀ {lead:.0f}".replace("-", "−"), fontsize=9, va="center")
    axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (3, 5)), zorder=0)
    axes.set_title("Points over the same net\nwithout blocks", fontsize=11)
    axes.set(xlim=NEAR)
    axes.set_yticks(heights, [", ".join(pair) for pair in pairs])
    axes.legend(
        *axes.get_legend_handles_labels(),
        ncols=len(shades),
        frameon=False,
        handletextpad=0,
        columnspacing=0.8,
        loc="upper center",
        bbox_to_anchor=(0.4, -0.06),
    )


def init_table(log: BiasAndRateLog) -> str:
    """Tabulate final test accuracy by activation and initialisation, with the chosen rate, a column a start."""
    cells, (pairs, scores) = group_by(log.by_init, arm), scores_of(log)
    rows = [
        [*pair, *(f"{interval(of[row]):.1f} ({cells[*pair, *start][0].config.lr:g})" for start, of in scores.items())]
        for row, pair in enumerate(pairs)
    ]
    header = ["activation", "initialisation", *(name_start(*start) for start in scores)]
    edges = edge_note(log.tried, log.by_init, arm, lambda *arm: " ".join([*arm[:2], name_start(*arm[2:])]))
    return (
        f"{markdown(header, rows)}\n\nTest accuracy (%) of {depth_of(log)} blocks, and rate. "
        f"{seeds_of(run.config for run in log.by_init)} A diverged run counts as {100 * CHANCE:.0f} %. {edges}"
    )


def lead_of(scores: dict[Start, np.ndarray], start: Start) -> Interval:
    """Return the points by which nets outperform nets of no blocks: their mean over pairs for each seed."""
    return interval((scores[start] - scores[NO_BLOCKS]).mean(axis=0))


def starts_table(log: BiasAndRateLog) -> str:
    """Tabulate by start how many runs and pairs learn, and how nets compare with nets of no blocks."""
    pairs, scores = scores_of(log)
    rows = []
    for start, of_start in scores.items():
        learn = of_start > LEARNT
        row = [name_start(*start), f"{learn.sum()} of {learn.size}", f"{learn.all(axis=1).sum()} of {len(pairs)}"]
        if start != NO_BLOCKS:
            signs = [interval(lead).sign for lead in of_start - scores[NO_BLOCKS]]
            row += [str(lead_of(scores, start)), str(signs.count(1)), str(signs.count(-1))]
        rows.append(row + [""] * (6 - len(row)))
    header = ["net", "runs that learn", "pairs that learn", "points above no blocks", "better pairs", "worse pairs"]
    return (
        f"{markdown(header, rows)}\n\nPair: of activation and initialisation; it learns if all its runs exceed "
        f"{LEARNT:g} % test accuracy. Points above nets without blocks: mean over pairs, interval over seeds. Better, "
        "worse: pairs whose interval excludes 0."
    )


def learned_from(log: BiasAndRateLog, bias: float) -> str:
    """Return how many nets that start from a bias learn at the rate of the highest mean accuracy; nothing of none."""
    by_rate = [points(runs) for (of, _), runs in group(log.by_rate, "gate_bias", "lr").items() if of == bias]
    best = max(by_rate, key=np.mean, default=None)
    return "" if best is None else f"{(best > LEARNT).sum()} of {len(best)}"


def verdicts_of(log: BiasAndRateLog) -> dict[str, Verdict]:
    """Return, by negative bias, whether every run learns and nets outperform those of no blocks."""
    _, scores = scores_of(log)
    verdicts = {}
    for start, of_start in scores.items():
        if start[0] == "highway" and start[1] < 0:
            learns = Verdict.REPRODUCED if np.all(of_start > LEARNT) else Verdict.NOT_REPRODUCED
            verdicts[minus(start[1])] = require(learns, judge_better(lead_of(scores, start), ACCURACY_MARGIN))
    return verdicts


def claims(log: BiasAndRateLog) -> list[Claim]:
    pairs, scores = scores_of(log)
    verdicts = verdicts_of(log)
    starts = {minus(start[1]): start for start in scores if start[0] == "highway" and start[1] < 0}
    found = Verdict.REPRODUCED if Verdict.REPRODUCED in verdicts.values() else combine(verdicts.values())
    learned = {name: (scores[start] > LEARNT).sum() for name, start in starts.items()}
    n = scores[NO_BLOCKS].size
    paper = "a negative gate bias suffices for learning, for various activations and zero-mean initialisations"
    why = f"{holds(verdicts, 'from b_T = {}')} One bias that works is enough: to the authors it is a hyperparameter."
    for plain in (of for (block, _, depth), of in scores.items() if block == "plain" and depth):
        why += f" Of plain nets {(plain > LEARNT).sum()} of {plain.size} learn."
    if examples := [f"{count} from {minus(bias)}" for bias in EXAMPLES if (count := learned_from(log, bias))]:
        why += (
            f" From the authors' examples, with one activation and initialisation, at the best rate, these learn: "
            f"{in_words(examples)}."
        )
    measured = "; ".join(
        f"from {name}: {learned[name]} of {n} nets learn, {lead_of(scores, start)}" for name, start in starts.items()
    )
    seeds = scores[NO_BLOCKS].shape[1]
    measured += f" points over nets without blocks (mean of {len(pairs)} pairs, n = {seeds})"
    return [Claim("2.2", paper, found, why, measured, detail=True)]


FIGURES = {"bias_and_rate.png": rate_figure, "bias_by_init.png": init_figure}
TABLES = {"bias_and_rate_gains": gains_table, "bias_by_start": starts_table, "bias_by_init": init_table}
