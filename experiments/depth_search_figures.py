"""Pictures and tables of the depth search: the paper's figure 1, and loss against the settings, which are ours."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from highway_lab.console import mean_sd, name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_level, draw_seeds, label_ends, markdown, new_figure, pale

from .claims import Claim, claims_table
from .common import CHANCE, group_by
from .depth_search import BLOCKS, DEPTHS, BestRun, DepthSearchLog, TrialResult, by_arm, last_rung
from .intervals import Interval, difference, interval

SHADES = (0.45, 0.6, 0.8, 1.0)  # strength of the colour by depth, the deepest strongest
CEILING = 4.6  # a loss drawn there is that or higher: twice that of a guess among ten classes
TARGET = 1e-4  # the training loss that the paper's shallow plain nets reach


def search_figure(log: DepthSearchLog) -> Figure:
    """Left: the training curves of each arm's best setting from other seeds. Right: its ten best of the search."""
    settings = len(first_rung(log)) // len(by_arm(log.results))
    title = f"{name_data(log.dataset.name)}: training loss by depth, {settings} settings an arm"
    figure, (left, right) = new_figure(title, 4.6, ncols=2, width_ratios=(1.25, 1), sharey=bool(log.best))
    curves_panel(left, log.best)
    top_panel(right, log)
    right.set_title(f"{log.top} best settings, {last_rung(log.results)[0].trial.epochs} epochs")
    return figure


def curves_panel(axes: Axes, best: list[BestRun]) -> None:
    """Loss on the training images against epoch, log scale: the median of an arm's seeds, labelled at its end.

    Each seed is faint, and ends in a cross if it diverged; to the median its loss is infinite from there on.
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
    """Each arm's best losses as dots, their geometric mean as a bar."""
    arms = by_arm(last_rung(log.results))
    depths = sorted({depth for _, depth in arms})
    for (block, depth), ranked in arms.items():
        x = depths.index(depth) + (0.16 if block == "highway" else -0.16)
        top = top_losses(ranked, log.top)
        axes.plot(np.full(len(top), x), top, "o", color=COLORS[block], alpha=0.45, markersize=4.5)
        if top:
            axes.plot([x - 0.12, x + 0.12], [geometric_mean(top)] * 2, color=COLORS[block], linewidth=3)
    axes.set(yscale="log", xlabel="depth (layers)", ylabel="training loss")
    axes.set_xticks(range(len(depths)), depths)
    draw_level(axes, TARGET, "_")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in BLOCKS]
    axes.legend(handles=handles, frameon=False, loc="upper left", handletextpad=0.2)


def settings_figure(log: DepthSearchLog) -> Figure:
    """Loss of every setting after the first rung, against learning rate (top) and gate bias (bottom), by depth."""
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


# ---------------------------------------------------------------------------------------- what is counted


def first_rung(log: DepthSearchLog) -> list[TrialResult]:
    """The results of the rung on which every setting was tried."""
    epochs = min(result.trial.epochs for result in log.results)
    return [result for result in log.results if result.trial.epochs == epochs]


def top_losses(ranked: list[TrialResult], top: int) -> list[float]:
    """The losses of an arm's best settings, without those that are not finite."""
    return [result.lowest_loss for result in ranked[:top] if np.isfinite(result.lowest_loss)]


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def by_setting(best: Iterable[BestRun]) -> dict[tuple, list[BestRun]]:
    """What was trained again, by arm and setting: the seeds together."""
    return group_by(best, lambda run: (run.trial.arm, run.trial.index))


def best_setting(best: Iterable[BestRun]) -> dict[tuple[str, int], list[BestRun]]:
    """By arm, the seeds of the setting whose losses have the lowest geometric mean."""
    arms = {}
    for (arm, _), runs in by_setting(best).items():
        if arm not in arms or log_loss(runs) < log_loss(arms[arm]):
            arms[arm] = runs
    return arms


def log_loss(runs: Iterable[BestRun]) -> float:
    """The mean of the decimal logarithms of the lowest losses."""
    return float(np.mean([math.log10(run.lowest_loss) for run in runs]))


def by_seed(best: Iterable[BestRun], value: Callable[[list[BestRun]], float]) -> dict[tuple[str, int], list[float]]:
    """By arm a value for each seed, of the runs of all its settings: what is averaged within a seed is no sample."""
    return {
        arm: [value(seed) for seed in group_by(runs, lambda run: run.trial.repeat).values()]
        for arm, runs in group_by(best, lambda run: run.trial.arm).items()
    }


def epochs_to(run: BestRun, level: float) -> int:
    """The first epoch after which the training loss was below the level; one more than there are if it never was."""
    epochs = zip(run.history.epoch, run.history.train_loss, strict=True)
    return next((epoch for epoch, loss in epochs if loss is not None and loss < level), run.trial.epochs + 1)


def mean_epochs(level: float) -> Callable[[list[BestRun]], float]:
    """The mean of `epochs_to` over runs."""
    return lambda runs: float(np.mean([epochs_to(run, level) for run in runs]))


# ------------------------------------------------------------------------------------------------ tables


def name_arm(block: str, depth: int) -> str:
    """What a table or a legend calls an arm."""
    return f"{block} {depth}"


def arms_table(log: DepthSearchLog) -> str:
    """By arm: its best settings of the search, and what the best of these did again from other seeds."""
    again = by_seed(log.best, log_loss)
    reached = {level: by_seed(log.best, mean_epochs(level)) for level in log.levels}
    scores = by_seed(log.best, lambda runs: np.mean([run.history.test_score[-1] or CHANCE for run in runs]))
    runs, rows = group_by(log.best, lambda run: run.trial.arm), []
    for arm, ranked in by_arm(last_rung(log.results)).items():
        top = top_losses(ranked, log.top)
        spread = f"{min(top):.2g} to {max(top):.2g}" if top else ""
        cells = [name_arm(*arm), f"{geometric_mean(top):.2g}" if top else "none", spread]
        if arm in again:
            epochs = log.best[0].trial.epochs
            never = f"over {epochs}"
            cells += [in_words(interval(again[arm]))]
            cells += [
                never if min(values[arm]) > epochs else mean_sd(values[arm], digits=1) for values in reached.values()
            ]
            cells += [f"{sum(run.diverged for run in runs[arm])} of {len(runs[arm])}", mean_sd(scores[arm], digits=4)]
        else:
            cells += [""] * (3 + len(log.levels))
        rows.append(cells)
    levels = [f"epochs to {level:g}" for level in log.levels]
    header = ["arm", f"{log.top} best: loss (geometric mean)", "range", "best again: loss", *levels]
    return markdown([*header, "diverged", "test accuracy"], rows)


def in_words(logarithm: Interval) -> str:
    """A loss of which that is the decimal logarithm, and the factor that its interval spans either way."""
    factor = f" (×/÷ {10**logarithm.half:.2g})" if np.isfinite(logarithm.half) else ""
    return f"{10**logarithm.value:.2g}{factor}"


def settings_table(log: DepthSearchLog) -> str:
    """By arm: how many settings are good after the first rung, over which rates; the best ones, and where the best of
    all stood then.
    """
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
    """What the paper says of figure 1, judged by each arm's two best settings, trained again from other seeds.

    Losses are compared by their decimal logarithms; intervals of 95 % over the seeds, whose settings are averaged.
    """
    losses = by_seed(log.best, log_loss)
    if not {(block, depth) for block in BLOCKS for depth in DEPTHS} <= losses.keys():
        return []  # they are about nets of 10, 20, 50 and 100 layers, which have not all been trained again

    def listed(block: str) -> str:
        return ", ".join(in_words(interval(losses[block, depth])) for depth in DEPTHS)

    shallow = [interval(losses["plain", depth]) for depth in (10, 20)]
    steps = [difference(losses["plain", b], losses["plain", a]).sign for a, b in pairwise(DEPTHS)]
    deep = {
        depth: difference(losses["highway", depth], losses["highway", 10] + losses["highway", 20])
        for depth in (50, 100)
    }
    gain = difference(losses["plain", 100], losses["highway", 100])
    faster = {depth: [converges_faster(log, depth, level) for level in log.levels] for depth in DEPTHS}
    first = [sign for signs in faster.values() for sign in signs if sign is not None]
    epochs = log.best[0].trial.epochs
    budget = f" in {epochs} epochs"
    return [
        Claim(
            "3.1, figure 1",
            "plain nets of 10 and 20 layers reach a training loss below 1e-4",
            ", ".join(map(in_words, shallow)),
            judged([of.high < math.log10(TARGET) for of in shallow], [of.low > math.log10(TARGET) for of in shallow])
            + budget,
        ),
        Claim(
            "3.1, figure 1",
            "plain nets degrade as depth grows",
            f"at 10, 20, 50, 100: {listed('plain')}",
            judged([sign > 0 for sign in steps], [sign < 0 for sign in steps]),
        ),
        Claim(
            "3.1, figure 1",
            "highway nets of 50 and 100 layers do as well as those of 10 and 20",
            f"at 10, 20, 50, 100: {listed('highway')}",
            "; ".join(f"{depth}: {compared(of)}" for depth, of in deep.items()),
        ),
        Claim(
            "3.1, figure 1",
            "at 100 layers highway is more than 2 orders of magnitude better",
            f"{gain:.2f} orders",
            judged([gain.low > 2], [gain.high < 2]) + budget,
        ),
        Claim(
            "3.1, figure 1",
            "highway nets converge faster",
            "; ".join(f"{depth} layers: to {first_by_level(log, signs)}" for depth, signs in faster.items()),
            f"highway first in {first.count(1)} of {len(first)} comparisons, plain in {first.count(-1)}",
        ),
    ]


def judged(held: Sequence[bool], refuted: Sequence[bool]) -> str:
    """The verdict of several comparisons, each of which holds, is refuted, or cannot be told."""
    if all(held):
        return "held"
    if all(refuted):
        return "not"
    if any(held) or any(refuted):
        return f"{sum(held)} of {len(held)} held, {sum(refuted)} refuted"
    return "not told apart"


def compared(loss: Interval) -> str:
    """A difference of logarithms in words."""
    if loss.sign == 0:
        return "not told apart"
    return f"{'worse' if loss.sign > 0 else 'better'}, {10 ** abs(loss.value):.2g} times"


def converges_faster(log: DepthSearchLog, depth: int, level: float) -> int | None:
    """1 if highway nets are below the level in fewer epochs than plain ones, -1 if in more, 0 if not told apart.

    None if no net ever is.
    """
    epochs = by_seed(log.best, mean_epochs(level))
    plain, highway = (epochs[block, depth] for block in BLOCKS)
    never = min(plain + highway) > log.best[0].trial.epochs
    return None if never else difference(plain, highway).sign


def first_by_level(log: DepthSearchLog, signs: Sequence[int | None]) -> str:
    """Levels, and which kind of net is there first, given what `converges_faster` says of each."""
    kinds = {1: "highway", 0: "not told apart", -1: "plain", None: "none"}
    return ", ".join(f"{level:g} {kinds[sign]}" for level, sign in zip(log.levels, signs, strict=True))


FIGURES = {"fig1_depth_search.png": search_figure, "fig1_settings.png": settings_figure}
TABLES = {
    "depth_search": arms_table,
    "depth_search_settings": settings_table,
    "depth_search_claims": lambda log: claims_table(claims(log)),
}
