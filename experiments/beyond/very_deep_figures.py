"""Pictures, tables and claims of the very deep nets and of the gate-bias sweep.

Rules of the verdicts, put in this form after the runs. A gate bias fails if the 95 % interval of test accuracy lies
below CONVERGED. A blog says that both extremes fail, here the highest and the lowest of the biases. It advises to start
with a more negative bias when in doubt: nets from the lowest must be more accurate than those from the highest.
"""

from itertools import takewhile

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_data, seeds_of
from highway_lab.figures import COLORS, SETTINGS, draw_by_layer, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import difference, interval
from highway_lab.tables import markdown

from ..claims import ACCURACY_MARGIN, Claim, Verdict, combine, holds, in_words, judge_better
from ..common import group, points
from ..common_figures import judge_each, minus, name_arm
from .very_deep import DeepRun, VeryDeepLog

LINE_COLORS = {("highway", -6.0): SETTINGS[0], ("highway", -20.0): SETTINGS[1], ("plain", -2.0): COLORS["plain"]}
ERROR_TICKS = (5, 10, 20, 50, 90)  # %
GROWTH_TICKS = (1, 10, 100)
CONVERGED = 50.0  # % of test accuracy
DOUBLED = 2  # times σ(b_T), from which on the T of a block has grown
GAP = 5  # between biases that no line joins


def depth_title(log: VeryDeepLog) -> str:
    """Return a title that says in how many of the deepest nets' blocks T has doubled, by bias."""
    deepest = max(run.config.depth for run in log.by_depth)
    doubled = [
        f"in {np.sum(growth(runs) > DOUBLED, axis=1).mean():.0f} (b_T {minus(bias)})"
        for (block, bias), runs in sorted(
            group([run for run in log.by_depth if run.config.depth == deepest], "block", "gate_bias").items(),
            reverse=True,
        )
        if block == "highway"
    ]
    return f"{name_data(log.dataset.name)}: of {deepest:,} blocks, the mean T doubles {in_words(doubled)}"


def growth(runs: list[DeepRun]) -> np.ndarray:
    """Return mean T after training in multiples of σ(b_T), its untrained size, (seeds, L)."""
    untrained = 1 / (1 + np.exp(-runs[0].config.gate_bias))
    return np.array([run.measured.mean_T for run in runs], float) / untrained


def scale_growth(axes: Axes) -> None:
    """Set title, level and logarithmic scale for growth of T."""
    draw_level(axes, 1, "σ($b_T$)")
    axes.set(title="mean T after training, in multiples of σ($b_T$)", yscale="log")
    axes.set_yticks(GROWTH_TICKS, GROWTH_TICKS)
    axes.yaxis.set_minor_formatter(NullFormatter())


def depth_figure(log: VeryDeepLog) -> Figure:
    """Draw test error against depth, highway from two biases; beside it the growth of T in the deepest nets."""
    figure, (left, right) = new_figure(depth_title(log), 4.2, ncols=2)
    arms = group(log.by_depth, "block", "gate_bias", "depth")
    depths = sorted({depth for *_, depth in arms})
    for (block, bias), color in LINE_COLORS.items():
        label = block if block == "plain" else f"$b_T$ = {minus(bias)}"
        errors = 100 - np.transpose([points(arms[block, bias, depth]) for depth in depths])
        draw_seeds(left, depths, errors, label=label, color=color, marker="o", markersize=5)
        if block == "highway":
            draw_by_layer(right, growth(arms[block, bias, depths[-1]]), label=label, color=color)
    draw_level(left, 90, "guessing")
    left.set(xscale="log", xlabel="blocks", yscale="log", title="test error (%)", ylim=(5, 100))
    left.set_xticks(depths, [f"{depth:,}" for depth in depths])
    left.set_yticks(ERROR_TICKS, ERROR_TICKS)
    left.minorticks_off()
    scale_growth(right)
    right.set(xlabel=f"block of {depths[-1]:,}", ylim=(0.3, 15))
    label_ends(left, right)
    return figure


def bias_figure(log: VeryDeepLog) -> Figure:
    """Draw against the initial gate bias, a place for each, test accuracy, and below it the growth of T.

    No line joins biases that are further apart than GAP.
    """
    figure, (upper, lower) = new_figure(bias_title(log), 5.6, nrows=2, sharex=True)
    arms = group(log.by_bias, "depth", "gate_bias")
    biases = sorted({bias for _, bias in arms})
    gaps = 1 + np.flatnonzero(np.diff(biases) > GAP)
    x = np.insert(np.arange(len(biases), dtype=float), gaps, np.nan)
    for (depth,), color in zip(group(log.by_bias, "depth"), SETTINGS, strict=False):
        runs = [arms[depth, bias] for bias in biases]
        style = {"label": f"{depth} blocks", "color": color, "marker": "o", "markersize": 5, "center": np.median}
        scores, grown = ([values(of) for of in runs] for values in (points, lambda of: growth(of).mean(axis=1)))
        for panel, curves in ((upper, scores), (lower, grown)):
            draw_seeds(panel, x, np.insert(np.transpose(curves), gaps, np.nan, axis=1), **style)
    draw_level(upper, 10, "chance")
    scale_growth(lower)
    upper.set(title="test accuracy (%)", ylim=(0, 100))
    lower.set_xlabel("initial gate bias $b_T$ (a place for each that was tried)")
    lower.set_xticks(range(len(biases)), [minus(bias) for bias in biases])
    label_ends(upper, lower)
    return figure


def bias_title(log: VeryDeepLog) -> str:
    """Return a title that says from which bias upward nets of each depth fail."""
    words = [f"{minus(bias)} ({depth} blocks)" for depth, bias in lowest_failing(log).items()]
    found = f"nets fail from a gate bias of {in_words(words)} upward" if words else "nets fail at no gate bias"
    return f"{name_data(log.dataset.name)}: {found}"


def lowest_failing(log: VeryDeepLog) -> dict[int, float]:
    """Return, by depth, the lowest bias that fails together with all higher ones, if any does."""
    scores = by_bias(log)
    depths, descending = next(iter(scores.values())), sorted(scores, reverse=True)
    failing = {
        depth: [*takewhile(lambda bias, depth=depth: fails(scores[bias][depth]) == Verdict.REPRODUCED, descending)]
        for depth in depths
    }
    return {depth: biases[-1] for depth, biases in failing.items() if biases}


def fails(scores: np.ndarray) -> Verdict:
    """Judge "nets fail to converge" by their test accuracies in %."""
    return judge_better(interval(CONVERGED - scores), 0)


def depth_table(log: VeryDeepLog) -> str:
    """Tabulate final test accuracy by depth, the difference of the highway nets, and blocks whose T has doubled."""
    cells = group(log.by_depth, "depth", "block", "gate_bias")
    scores = {key: points(runs) for key, runs in cells.items()}
    depths, arms, rows = sorted({depth for depth, *_ in scores}), [*LINE_COLORS], []
    high, low, _ = arms
    for depth in depths:
        doubled = ", ".join(str(count) for count in np.sum(growth(cells[depth, *high]) > DOUBLED, axis=1))
        row = [f"{depth:,}", *(f"{interval(scores[depth, *arm]):.2f}" for arm in arms)]
        rows.append([*row, str(difference(scores[depth, *high], scores[depth, *low])), doubled])
    lead = interval(np.mean([scores[depth, *high] - scores[depth, *low] for depth in depths], axis=0))
    rows.append(["mean of all", "", "", "", str(lead), ""])
    if 100 in depths:
        deeper = [str(difference(scores[depths[-1], *arm], scores[100, *arm])) for arm in arms]
        rows.append([f"{depths[-1]:,} minus 100", *deeper, "", ""])
    header = ["blocks", *(name_arm(*arm) for arm in arms), "−6 minus −20", "blocks whose T doubled, from −6"]
    return (
        f"{markdown(header, rows)}\n\nTest accuracy (%) and points. {seeds_of(run.config for run in log.by_depth)} "
        "Last column: blocks whose mean T is over 2 σ(b_T), by seed."
    )


def bias_table(log: VeryDeepLog) -> str:
    """Tabulate final test accuracy by initial gate bias, a column a depth."""
    cells, depths = group(log.by_bias, "gate_bias", "depth"), group(log.by_bias, "depth")
    rows = [
        [f"{bias:g}", *(f"{interval(points(cells[bias, depth])):.2f}" for (depth,) in depths)]
        for (bias,) in reversed(group(log.by_bias, "gate_bias"))
    ]
    header = ["b_T", *(f"{depth} blocks" for (depth,) in depths)]
    return f"{markdown(header, rows)}\n\nTest accuracy (%). {seeds_of(run.config for run in log.by_bias)}"


def claims(log: VeryDeepLog) -> list[Claim]:
    return [extremes_claim(log), doubt_claim(log)]


def by_bias(log: VeryDeepLog) -> dict[float, dict[int, np.ndarray]]:
    """Return test accuracies in % by bias and depth; the lowest bias comes first."""
    found: dict[float, dict[int, np.ndarray]] = {}
    for (bias, depth), runs in group(log.by_bias, "gate_bias", "depth").items():
        found.setdefault(bias, {})[depth] = points(runs)
    return found


def extremes_claim(log: VeryDeepLog) -> Claim:
    """Judge whether the highest and the lowest bias fail."""
    scores = by_bias(log)
    extremes = {minus(bias): scores[bias] for bias in (max(scores), min(scores))}
    verdicts = {bias: combine(map(fails, of.values())) for bias, of in extremes.items()}
    lowest = minus(min(scores))
    reached = in_words([f"{of.mean():.1f} % with {depth} blocks" for depth, of in extremes[lowest].items()])
    why = f"{holds(verdicts, 'at a gate bias of {}')} From {lowest} nets reach {reached}."
    shown = (
        f"b_T {bias} {' and '.join(f'{interval(score):.1f}' for score in of.values())}" for bias, of in extremes.items()
    )
    depths = " and ".join(map(str, extremes[lowest]))
    measured = f"test accuracy (%) of {depths} blocks, n = {count_seeds(log)}, chance 10: {'; '.join(shown)}"
    paper = "with very low or very high gate biases, nets fail to converge in reasonable time"
    return Claim("blog", paper, combine(verdicts.values()), why, measured, detail=True)


def doubt_claim(log: VeryDeepLog) -> Claim:
    """Judge whether it costs less to start at the lowest bias than at the highest."""
    scores = by_bias(log)
    low, high = scores[min(scores)], scores[max(scores)]
    leads = {depth: difference(low[depth], high[depth]) for depth in low}
    verdict, where, shown = judge_each(leads, judge_better, ACCURACY_MARGIN, "+.1f", "with {} blocks")
    best = max(scores, key=lambda bias: np.mean([of.mean() for of in scores[bias].values()]))
    lost = in_words([f"{(scores[best][depth] - low[depth]).mean():.1f} points with {depth} blocks" for depth in low])
    ends = f"{minus(min(scores))} in place of {minus(max(scores))}"
    why = f"{where} To start at {minus(min(scores))} costs {lost}, compared with {minus(best)}, the best on average."
    measured = f"points of test accuracy gained by starting at {ends}, n = {count_seeds(log)}: {shown}"
    paper = "when in doubt, start with a more negative gate bias"
    return Claim("blog", paper, verdict, why, measured, detail=True)


def count_seeds(log: VeryDeepLog) -> int:
    return len({run.config.seed for run in log.by_bias})


FIGURES = {"very_deep.png": depth_figure, "gate_bias.png": bias_figure}
TABLES = {"very_deep": depth_table, "gate_bias": bias_table}
