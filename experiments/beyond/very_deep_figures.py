"""Pictures, tables and claim of the very deep nets and of the gate-bias sweep.

Rule of the verdict: a gate bias fails if the 95 % interval of test accuracy lies below CONVERGED. A blog says that both
extremes fail, here the highest and the lowest of the biases.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from highway_lab.console import seeds_of
from highway_lab.figures import COLORS, SETTINGS, draw_by_layer, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import difference, interval
from highway_lab.tables import markdown

from ..claims import Claim, combine, judge_better
from ..common import group, points
from ..common_figures import minus, name_arm, title
from .very_deep import DeepRun, VeryDeepLog

LINE_COLORS = {("highway", -6.0): SETTINGS[0], ("highway", -20.0): SETTINGS[1], ("plain", -2.0): COLORS["plain"]}
ERROR_TICKS = (5, 10, 20, 50, 90)  # %
GROWTH_TICKS = (1, 10, 100)
CONVERGED = 50.0  # % of test accuracy


def figure_title(log: VeryDeepLog, runs: list[DeepRun]) -> str:
    return title(log.dataset, runs, f"{runs[0].config.epochs} epochs of Adam")


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
    figure, (left, right) = new_figure(figure_title(log, log.by_depth), 4.2, ncols=2)
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
    """Draw against the initial gate bias test accuracy, and below it the growth of T."""
    figure, (upper, lower) = new_figure(figure_title(log, log.by_bias), 5.6, nrows=2, sharex=True)
    arms = group(log.by_bias, "depth", "gate_bias")
    biases = sorted({bias for _, bias in arms})
    for (depth,), color in zip(group(log.by_bias, "depth"), SETTINGS, strict=False):
        runs = [arms[depth, bias] for bias in biases]
        style = {"label": f"{depth} blocks", "color": color, "marker": "o", "markersize": 5}
        draw_seeds(upper, biases, np.transpose([points(of) for of in runs]), **style)
        draw_seeds(lower, biases, np.transpose([growth(of).mean(axis=1) for of in runs]), **style)
    draw_level(upper, 10, "chance")
    scale_growth(lower)
    upper.set(title="test accuracy (%)", ylim=(0, 100))
    lower.set_xlabel("initial gate bias $b_T$")
    lower.set_xticks(biases, [minus(bias) if bias % 2 == 0 else "" for bias in biases], size=9)
    label_ends(upper, lower)
    return figure


def depth_table(log: VeryDeepLog) -> str:
    """Tabulate final test accuracy by depth, the difference of the highway nets, and blocks whose T has doubled."""
    cells = group(log.by_depth, "depth", "block", "gate_bias")
    scores = {key: points(runs) for key, runs in cells.items()}
    depths, arms, rows = sorted({depth for depth, *_ in scores}), [*LINE_COLORS], []
    high, low, _ = arms
    for depth in depths:
        doubled = ", ".join(str(count) for count in np.sum(growth(cells[depth, *high]) > 2, axis=1))
        row = [f"{depth:,}", *(f"{interval(scores[depth, *arm]):.2f}" for arm in arms)]
        rows.append([*row, str(difference(scores[depth, *high], scores[depth, *low])), doubled])
    lead = interval(np.mean([scores[depth, *high] - scores[depth, *low] for depth in depths], axis=0))
    rows.append(["mean of all", "", "", "", str(lead), ""])
    if 100 in depths:
        deeper = [str(difference(scores[depths[-1], *arm], scores[100, *arm])) for arm in arms]
        rows.append([f"{depths[-1]:,} minus 100", *deeper, "", ""])
    header = ["blocks", *(name_arm(*arm) for arm in arms), "-6 minus -20", "T doubled from -6"]
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
    cells, depths = group(log.by_bias, "gate_bias", "depth"), [depth for (depth,) in group(log.by_bias, "depth")]
    shown, verdicts = [], []
    for bias in (max(cells)[0], min(cells)[0]):
        scores = [points(cells[bias, depth]) for depth in depths]
        verdicts.append(combine(judge_better(interval(CONVERGED - score), 0) for score in scores))
        words = " and ".join(f"{interval(score):.1f}" for score in scores)
        shown.append(f"b_T {minus(bias)} ({verdicts[-1]}) {words}")
    return [
        Claim(
            "blog",
            "with very low or very high gate biases, nets fail to converge in reasonable time",
            combine(verdicts),
            "WHY",
            f"test accuracy (%) of {' and '.join(map(str, depths))} blocks, n = {len(cells[max(cells)])}, chance 10: "
            f"{'; '.join(shown)}",
            detail=True,
        )
    ]


FIGURES = {"very_deep.png": depth_figure, "gate_bias.png": bias_figure}
TABLES = {"very_deep": depth_table, "gate_bias": bias_table}
