"""Figures, tables and claims of the depth search: the paper's figure 1 and, ours, loss by setting."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import gmean

from highway_lab.console import name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_level, draw_seeds, label_ends, markdown, new_figure, pale
from highway_lab.intervals import Interval, difference, interval

from .claims import Claim, Verdict
from .common import CHANCE, group_by
from .depth_search import BLOCKS, DEPTHS, BestRun, DepthSearchLog, TrialResult, by_arm, last_rung

SHADES = (0.45, 0.6, 0.8, 1.0)  # of a block's colour, by depth
CEILING = 4.6  # losses above are drawn here: twice the loss of guessing among ten classes
TARGET = 1e-4  # training loss that the paper's shallow plain nets reach


def search_figure(log: DepthSearchLog) -> Figure:
    """Draw, left, the training curves of each arm's best setting from other seeds; right, its ten best losses."""
    settings = len(first_rung(log)) // len(by_arm(log.results))
    title = f"{name_data(log.dataset.name)}: training loss by depth, {settings} settings an arm"
    figure, (left, right) = new_figure(title, 4.6, ncols=2, width_ratios=(1.25, 1), sharey=bool(log.best))
    curves_panel(left, log.best)
    top_panel(right, log)
    right.set_title(f"{log.top} best settings, {last_rung(log.results)[0].trial.epochs} epochs")
    return figure


def curves_panel(axes: Axes, best: list[BestRun]) -> None:
    """Draw training loss by epoch, log scale: each seed faint, the median of an arm's seeds bold.

    A seed that diverged ends in a cross and counts as infinite in the median from there on.
    """
    arms = best_setting(best)
    depths = sorted({depth for _, depth in arms})
    for (block, depth), runs in arms.items():
        color, epochs = pale(COLORS[block], SHADES[depths.index(depth)]), runs[0].trial.epochs
        losses = np.full((len(runs), epochs + 1), np.inf)
        for row, run in zip(losses, runs, strict=True):
            finite = [loss for loss in run.history.train_loss if loss is not None]
            row[: len(finite)] = finite
            if run.diverged:
                axes.plot(len(finite) - 1, finite[-1], "x", color=color, markeredgewidth=2, zorder=4, label="_diverged")
        draw_seeds(axes, range(epochs + 1), losses, label=name_arm(block, depth), center=np.median, color=color)
    axes.set(yscale="log", xlabel="epoch", ylabel="training loss", title="best setting, median of other seeds")
    axes.margins(x=0)
    draw_level(axes, TARGET, "_")
    if best:
        label_ends(axes, leaders=True)
    else:
        axes.text(0.5, 0.5, "not trained yet", transform=axes.transAxes, ha="center", color=FAINT_INK)


def top_panel(axes: Axes, log: DepthSearchLog) -> None:
    """Draw each arm's best losses as dots, their geometric mean as a bar."""
    arms = by_arm(last_rung(log.results))
    depths = sorted({depth for _, depth in arms})
    for (block, depth), ranked in arms.items():
        x = depths.index(depth) + (0.16 if block == "highway" else -0.16)
        top = top_losses(ranked, log.top)
        axes.plot(np.full(len(top), x), top, "o", color=COLORS[block], alpha=0.45, markersize=4.5)
        if top:
            axes.plot([x - 0.12, x + 0.12], [gmean(top)] * 2, color=COLORS[block], linewidth=3)
    axes.set(yscale="log", xlabel="depth (layers)", ylabel="training loss")
    axes.set_xticks(range(len(depths)), depths)
    draw_level(axes, TARGET, "_")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in BLOCKS]
    axes.legend(handles=handles, frameon=False, loc="upper left", handletextpad=0.2)


def settings_figure(log: DepthSearchLog) -> Figure:
    """Draw the loss of every setting after the first rung by learning rate (top) and gate bias (bottom)."""
    results = first_rung(log)
    by_depth = group_by(results, lambda result: result.trial.depth)
    epochs = results[0].trial.epochs
    title = f"{name_data(log.dataset.name)}: training loss of every setting after {epochs} epochs"
    figure, axes = new_figure(title, 5.6, nrows=2, ncols=len(by_depth), sharey=True, squeeze=False)
    for (over, under), (depth, of_depth) in zip(axes.T, by_depth.items(), strict=True):
        for result in of_depth:
            trial, loss = result.trial, CEILING if result.diverged else min(result.lowest_loss, CEILING)
            marker = "x" if result.diverged else "o"
            style = {"color": COLORS[trial.block], "marker": marker, "markersize": 4, "alpha": 0.6, "linestyle": "none"}
            over.plot(trial.lr, loss, **style)
            if trial.gate_bias is not None:
                under.plot(trial.gate_bias, loss, **style)
        over.set(xscale="log", yscale="log", title=f"depth {depth}", xlabel="learning rate")
        under.set(xlabel="initial gate bias", xticks=(-10, -7, -4, -1))
        for axis in (over, under):
            draw_level(axis, log.level, "_")
    for row in axes:
        row[0].set_ylabel("training loss")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in BLOCKS]
    handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="diverged"))
    figure.legend(handles=handles, loc="upper right", ncols=len(handles), frameon=False, handletextpad=0.2)
    return figure


# ---------------------------------------------------------------------------------------- statistics


def first_rung(log: DepthSearchLog) -> list[TrialResult]:
    """Return the results of the rung on which every setting was tried."""
    epochs = min(result.trial.epochs for result in log.results)
    return [result for result in log.results if result.trial.epochs == epochs]


def top_losses(ranked: list[TrialResult], top: int) -> list[float]:
    """Return the finite losses of an arm's best settings."""
    return [result.lowest_loss for result in ranked[:top] if np.isfinite(result.lowest_loss)]


def best_setting(best: Iterable[BestRun]) -> dict[tuple[str, int], list[BestRun]]:
    """Return, by arm, the seeds of the setting whose losses have the lowest geometric mean."""
    settings = group_by(best, lambda run: (run.trial.arm, run.trial.index))
    arms = group_by(settings.items(), lambda setting: setting[0][0])
    return {arm: min((runs for _, runs in of_arm), key=log_loss) for arm, of_arm in arms.items()}


def log_loss(runs: Iterable[BestRun]) -> float:
    """Return the mean decimal logarithm of the lowest losses."""
    return float(np.mean([math.log10(run.lowest_loss) for run in runs]))


def by_seed(best: Iterable[BestRun], value: Callable[[list[BestRun]], float]) -> dict[tuple[str, int], list[float]]:
    """Return, by arm, a value for each seed, taken of the runs of all settings: settings are no independent samples."""
    return {
        arm: [value(seed) for seed in group_by(runs, lambda run: run.trial.repeat).values()]
        for arm, runs in group_by(best, lambda run: run.trial.arm).items()
    }


def mean_epochs(runs: Iterable[BestRun], level: float) -> float:
    """Return the mean number of epochs until the training loss is below the level; one more than all if it never is."""

    def epochs(run: BestRun) -> int:
        rows = zip(run.history.epoch, run.history.train_loss, strict=True)
        return next((epoch for epoch, loss in rows if loss is not None and loss < level), run.trial.epochs + 1)

    return float(np.mean([epochs(run) for run in runs]))


# ------------------------------------------------------------------------------------------------ tables


def name_arm(block: str, depth: int) -> str:
    """Return the name of an arm in tables and legends."""
    return f"{block} {depth}"


def arms_table(log: DepthSearchLog) -> str:
    """Tabulate, by arm, its best settings of the search and the runs from other seeds."""
    losses = by_seed(log.best, log_loss)
    reached = [by_seed(log.best, partial(mean_epochs, level=level)) for level in log.levels]
    scores = by_seed(log.best, lambda runs: np.mean([run.history.test_score[-1] or CHANCE for run in runs]))
    runs, rows = group_by(log.best, lambda run: run.trial.arm), []
    for arm, ranked in by_arm(last_rung(log.results)).items():
        top = top_losses(ranked, log.top)
        cells = [f"{gmean(top):.2g}", f"{min(top):.2g} to {max(top):.2g}"] if top else ["none", ""]
        if arm in losses:
            epochs = log.best[0].trial.epochs
            speeds = (values[arm] for values in reached)
            cells += [
                in_words(interval(losses[arm])),
                *(f"over {epochs}" if min(speed) > epochs else f"{interval(speed):.1f}" for speed in speeds),
                f"{sum(run.diverged for run in runs[arm])} of {len(runs[arm])}",
                f"{interval(scores[arm]):.4f}",
            ]
        else:
            cells += [""] * (3 + len(log.levels))
        rows.append([name_arm(*arm), *cells])
    levels = [f"epochs to {level:g}" for level in log.levels]
    header = ["arm", f"{log.top} best: loss (geometric mean)", "range", "best again: loss", *levels]
    return markdown([*header, "diverged", "test accuracy"], rows)


def in_words(logarithm: Interval) -> str:
    """Return a loss and the factor of its interval, given its decimal logarithm."""
    factor = f" (×/÷ {10**logarithm.half:.2g})" if np.isfinite(logarithm.half) else ""
    return f"{10**logarithm.value:.2g}{factor}"


def settings_table(log: DepthSearchLog) -> str:
    """Tabulate, by arm, the good settings after the first rung, and the best settings of the last."""
    rows, first = [], by_arm(first_rung(log))
    for arm, ranked in by_arm(last_rung(log.results)).items():
        good = [result.trial for result in first[arm] if not result.diverged and result.lowest_loss < log.level]
        rates = [trial.lr / (1 - trial.momentum) for trial in good]
        top = [result.trial for result in ranked[: log.top]]
        biases = [trial.gate_bias for trial in top if trial.gate_bias is not None]
        rows.append(
            [
                name_arm(*arm),
                f"{sum(result.diverged for result in first[arm])} of {len(first[arm])}",
                f"{len(good)} of {len(first[arm])}",
                f"{min(rates):.2g} to {max(rates):.2g}" if rates else "none",
                f"{sum(trial.activation == 'tanh' for trial in top)} of {len(top)}",
                f"{min(biases):.1f} to {max(biases):.1f}" if biases else "",
                str(1 + [result.trial.index for result in first[arm]].index(top[0].index)),
            ]
        )
    epochs = first_rung(log)[0].trial.epochs
    header = ["arm", "diverged", f"loss below {log.level:g}", "at lr / (1 − momentum)"]
    header += ["tanh in best", "b_T of best", f"the best's rank after {epochs} epochs"]
    return markdown(header, rows)


# ------------------------------------------------------------------------------------------------ claims


def claims(log: DepthSearchLog) -> list[Claim]:
    """Return the paper's claims on figure 1, judged by each arm's two best settings from other seeds.

    Losses are compared by their decimal logarithms, by 95 % intervals over seeds; a seed's settings are averaged.
    """
    losses = by_seed(log.best, log_loss)
    if not {(block, depth) for block in BLOCKS for depth in DEPTHS} <= losses.keys():
        return []  # not all nets that the paper compares have been trained from other seeds

    def listed(block: str) -> str:
        return "at 10, 20, 50, 100: " + ", ".join(in_words(interval(losses[block, depth])) for depth in DEPTHS)

    shallow = [interval(losses["plain", depth]) for depth in (10, 20)]
    steps = [difference(losses["plain", b], losses["plain", a]).sign for a, b in pairwise(DEPTHS)]
    shallow_highway = losses["highway", 10] + losses["highway", 20]
    deep = {depth: difference(losses["highway", depth], shallow_highway) for depth in (50, 100)}
    gain = difference(losses["plain", 100], losses["highway", 100])
    first = {depth: [converges_first(log, depth, level) for level in log.levels] for depth in DEPTHS}
    compared = [sign for signs in first.values() for sign in signs if sign is not None]
    budget = f" in {log.best[0].trial.epochs} epochs"
    claim = partial(Claim, "3.1, figure 1")
    return [
        claim(
            "plain nets of 10 and 20 layers reach a training loss below 1e-4",
            ", ".join(map(in_words, shallow)),
            verdict([-loss.side_of(math.log10(TARGET)) for loss in shallow]) + budget,
        ),
        claim("plain nets degrade as depth grows", listed("plain"), verdict(steps)),
        claim(
            "highway nets of 50 and 100 layers do as well as those of 10 and 20",
            listed("highway"),
            "; ".join(f"{depth}: {comparison(loss)}" for depth, loss in deep.items()),
        ),
        claim(
            "at 100 layers highway is more than 2 orders of magnitude better",
            f"{gain:.2f} orders",
            verdict([gain.side_of(2)]) + budget,
        ),
        claim(
            "highway nets converge faster",
            "; ".join(f"{depth} layers: to {first_by_level(log, signs)}" for depth, signs in first.items()),
            f"highway first in {compared.count(1)} of {len(compared)} comparisons, plain in {compared.count(-1)}",
        ),
    ]


def verdict(signs: Sequence[int]) -> str:
    """Return the verdict of comparisons: each holds (1), is refuted (-1) or is inconclusive (0)."""
    held, refuted = signs.count(1), signs.count(-1)
    if len(signs) in (held, refuted):
        return "held" if held else "not"
    return f"{held} of {len(signs)} held, {refuted} refuted" if held or refuted else Verdict.INCONCLUSIVE


def comparison(log_ratio: Interval) -> str:
    """Return in words how a loss compares, given the decimal logarithm of its ratio to the other."""
    if log_ratio.sign == 0:
        return Verdict.INCONCLUSIVE
    return f"{'worse' if log_ratio.sign > 0 else 'better'}, {10 ** abs(log_ratio.value):.2g} times"


def converges_first(log: DepthSearchLog, depth: int, level: float) -> int | None:
    """Return 1 if highway nets reach the level in fewer epochs than plain ones, -1 if in more, 0 if inconclusive.

    None if no net reaches it.
    """
    epochs = by_seed(log.best, partial(mean_epochs, level=level))
    plain, highway = (epochs[block, depth] for block in BLOCKS)
    never = min(plain + highway) > log.best[0].trial.epochs
    return None if never else difference(plain, highway).sign


def first_by_level(log: DepthSearchLog, signs: Sequence[int | None]) -> str:
    """Return, by level, the kind of net that reaches it first, given the results of `converges_first`."""
    kinds = {1: "highway", 0: Verdict.INCONCLUSIVE, -1: "plain", None: "none"}
    return ", ".join(f"{level:g} {kinds[sign]}" for level, sign in zip(log.levels, signs, strict=True))


FIGURES = {"fig1_depth_search.png": search_figure, "fig1_settings.png": settings_figure}
TABLES = {
    "depth_search": arms_table,
    "depth_search_settings": settings_table,
}
