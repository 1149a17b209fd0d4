"""Figures, tables and claims of the depth search: the paper's figure 1 and, ours, loss by setting."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D

from highway_lab.console import count_of, name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_level, empty_figure, label_ends, new_figure, set_title
from highway_lab.intervals import Interval, difference, interval
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
    judge_about,
    judge_as_good,
    judge_better,
    of_learners,
)
from .common import CHANCE, CHANCE_LOSS, group_by
from .common_figures import judge_each, loss_in_words, times
from .depth_search import BLOCKS, DEPTHS, BestRun, DepthSearchLog, TrialResult, by_arm, last_rung

CEILING = 4.6  # losses above are drawn with the diverged: twice the loss of guessing among ten classes
DIVERGED = {"plain": 9.0, "highway": 6.5}  # height of their crosses
TARGET = 1e-4  # training loss that the paper's plain nets of SHALLOW layers reach
SHALLOW, DEEP = DEPTHS[:2], DEPTHS[2:]
FIXED = 50  # layers of the nets whose activations are compared
ACTIVATIONS = {"tanh": "tanh", "relu": "ReLU"}
PAPER_EPOCHS = 400  # the end of figure 1's axis
ORDERS = 2  # of magnitude, by which the paper's highway nets of 100 layers are better
FIGURE_1 = "3.1, figure 1"
OPEN_BIAS = -3  # gate biases above it, such as the −2 of the paper's best net of 50 layers


def search_figure(log: DepthSearchLog, *more: DepthSearchLog) -> Figure:
    """Draw, above, the longest runs from other seeds by epoch, a panel a depth; below, lowest losses by depth."""
    best, new = longest(log, *more), new_seeds(log, *more)
    figure = empty_figure(7.6)
    above, below = figure.subfigures(2, height_ratios=[1.15, 1])
    draw_curves(above, log.dataset.name, best)
    again = [*log.best, *new]
    panels = {name_budget(best): best} if best != log.best else {}
    if again:
        seeds = name_seeds({run.task.repeat for run in runs} for runs in by_run_arm(again).values())
        panels[f"{count_of(epochs_of(again), 'epoch')}, {seeds}"] = again
    top = [result for ranked in by_arm(last_rung(log.results)).values() for result in ranked[: log.top]]
    panels[f"{count_of(top[0].task.epochs, 'epoch')}, {log.top} best settings"] = top
    draw_losses(below, panels)
    return figure


def draw_curves(part: FigureBase, dataset: str, best: list[BestRun]) -> None:
    """Draw a row of panels with a shared scale, a depth each, and name the kinds of block in the last."""
    by_depth = group_by(best, lambda run: run.task.depth)
    set_title(part, f"{name_data(dataset)}: {curves_in_words(best)}")
    panels = part.subplots(ncols=max(len(by_depth), 1), sharey=True, squeeze=False)[0]
    for axes, (depth, runs) in zip(panels, by_depth.items(), strict=False):
        curves_panel(axes, runs)
        axes.set(title=f"{depth} layers", xlabel="epoch", yscale="log")
        axes.margins(x=0)
        if depth in SHALLOW:
            draw_level(axes, TARGET, "_")
            if axes is panels[0]:  # once is enough: the curves of deeper nets may cross the words
                words = "paper:\nbelow 1e-4"
                axes.text(1, TARGET * 1.2, words, transform=axes.get_yaxis_transform(), ha="right", fontsize=9)
    panels[0].set_ylabel("training loss")
    label_ends(panels[-1])


def curves_in_words(best: list[BestRun]) -> str:
    """Return a title: how far the lowest loss of the deepest plain nets is above; their budget if some are missing."""
    losses = by_seed(best, log_loss)
    deep, *shallow = (losses.get(("plain", depth)) for depth in (DEEP[-1], *SHALLOW))
    if not deep or not all(shallow):
        return f"each net's best settings, {name_budget(best)}"
    lead = difference(deep, [loss for of_depth in shallow for loss in of_depth])
    higher = f"is {times(lead.value)} times that of {in_words([str(depth) for depth in SHALLOW])}"
    return f"in {count_of(epochs_of(best), 'epoch')}, the lowest loss of {DEEP[-1]} plain layers {higher}"


def in_order(runs: Iterable[BestRun | TrialResult]) -> list[BestRun | TrialResult]:
    """Return runs by their lowest loss, those that diverged last."""
    return sorted(runs, key=lambda run: (run.diverged, run.lowest_loss))


def is_middle(rank: int, n: int) -> bool:
    """Tell whether a rank, from 0, is the middle of n, or one of the two middle ones of an even number."""
    return abs(2 * rank - (n - 1)) <= 1


def curves_panel(axes: Axes, runs: list[BestRun]) -> None:
    """Draw training loss by epoch: every run faint, the middle ones bold.

    A run that diverged ends in a cross, and words in the panel's corner count such runs.
    """
    for row, (block, of_block) in enumerate(group_by(runs, lambda run: run.task.block).items()):
        style, ranked = {"color": COLORS[block]}, in_order(of_block)
        label = block
        for rank, run in enumerate(ranked):
            losses = [loss for loss in run.history.train_loss if loss is not None]
            if is_middle(rank, len(ranked)):
                axes.plot(losses, label=label, zorder=3, **style)
                label = "_"  # once is enough
            else:
                axes.plot(losses, linewidth=1, alpha=0.4, **style)
            if run.diverged:
                axes.plot(len(losses) - 1, losses[-1], "X", markersize=7, markeredgecolor="white", zorder=4, **style)
        if lost := len(ranked) - len(finished(ranked)):
            words = f"✖ {lost} of {len(ranked)} diverged"
            axes.text(1, 0.98 - 0.09 * row, words, transform=axes.transAxes, ha="right", va="top", fontsize=9, **style)


def draw_losses(part: FigureBase, panels: Mapping[str, Sequence[BestRun | TrialResult]]) -> None:
    """Draw the lowest loss of every run by depth, a panel a list of runs: the middle ones of a net bold."""
    set_title(part, "Lowest training loss by depth; a cross: the run diverged later")
    for axes, (words, runs) in zip(
        part.subplots(ncols=len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        by_depth = group_by(runs, lambda run: run.task.depth)
        for place, of_depth in enumerate(by_depth.values()):
            for block, shift in zip(BLOCKS, (-0.2, 0.2), strict=True):
                ranked = in_order(run for run in of_depth if run.task.block == block and np.isfinite(run.lowest_loss))
                for rank, run in enumerate(ranked):
                    x = place + shift + 0.1 * (2 * (rank + 0.5) / len(ranked) - 1)
                    style = {"markersize": 7} if is_middle(rank, len(ranked)) else {"markersize": 4, "alpha": 0.4}
                    axes.plot(
                        x,
                        run.lowest_loss,
                        "X" if run.diverged else "o",
                        color=COLORS[block],
                        markeredgewidth=0,
                        **style,
                    )
        draw_level(axes, -math.log(CHANCE), "chance")
        axes.set(yscale="log", xlabel="layers")
        axes.set_title(words, size=10)
        axes.set_xticks(range(len(by_depth)), [*by_depth])
    part.axes[0].set_ylabel("lowest training loss")
    label_ends(part.axes[-1])


def settings_figure(log: DepthSearchLog, *_: DepthSearchLog) -> Figure:
    """Draw the loss of every setting after the first rung by learning rate (top) and gate bias (bottom)."""
    results = first_rung(log)
    by_depth = group_by(results, lambda result: result.task.depth)
    epochs = count_of(results[0].task.epochs, "epoch")
    good = [
        count_of(sum(is_good(result, log.level) for result in of_block), f"good {block} setting")
        for block, of_block in group_by(results, lambda result: result.task.block).items()
    ]
    title = f"{name_data(log.dataset.name)}, {epochs}: {' and '.join(good)} of {len(results) // len(BLOCKS)} each"
    figure, axes = new_figure(title, 6.6, nrows=2, ncols=len(by_depth), sharey=True, squeeze=False)
    for (over, under), (depth, of_depth) in zip(axes.T, by_depth.items(), strict=True):
        for result in of_depth:
            trial, lost = result.task, result.diverged or result.lowest_loss > CEILING
            loss = DIVERGED[trial.block] if lost else result.lowest_loss
            style = {"color": COLORS[trial.block], "alpha": 0.6, "markersize": 4, "linestyle": "none"}
            style["marker"] = "x" if lost else "o"
            over.plot(trial.lr, loss, **style)
            if trial.gate_bias is not None:
                under.plot(trial.gate_bias, loss, **style)
        over.set(xscale="log", yscale="log", title=f"{depth} layers", xlabel="learning rate", xticks=(1e-5, 1e-3, 0.1))
        under.set(xlabel="initial $b_T$", xticks=(-10, -7, -4, -1))
        for panel in (over, under):
            draw_level(panel, -math.log(CHANCE), "chance")
            draw_level(panel, log.level, f"good:\nbelow {log.level:g}")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in BLOCKS]
    handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label=f"diverged, or above {CEILING:g}"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, handletextpad=0.2)
    for row in axes:
        row[0].set_ylabel("training loss")
    label_ends(*axes[:, -1])
    return figure


def first_rung(log: DepthSearchLog) -> list[TrialResult]:
    """Return the results of the rung on which every setting was tried."""
    epochs = min(result.task.epochs for result in log.results)
    return [result for result in log.results if result.task.epochs == epochs]


def is_good(result: TrialResult, level: float) -> bool:
    return not result.diverged and result.lowest_loss < level


def top_losses(ranked: list[TrialResult], top: int) -> list[float]:
    return [result.lowest_loss for result in ranked[:top] if np.isfinite(result.lowest_loss)]


def new_seeds(log: DepthSearchLog, *more: DepthSearchLog) -> list[BestRun]:
    """Return the runs of other logs by which the settings of log.best are trained from new seeds."""
    known = {run.task for run in log.best}
    settings = {trial.setting for trial in known}
    runs = [run for other in more for run in other.best]
    return [run for run in runs if run.task.setting in settings and run.task not in known]


def longest(log: DepthSearchLog, *more: DepthSearchLog) -> list[BestRun]:
    """Return the runs of most epochs: those of another log, if it has all nets that the paper compares."""
    return max((of.best for of in (log, *more) if of is log or has_all_arms(of)), key=epochs_of)


def epochs_of(runs: list[BestRun]) -> int:
    return max((run.epochs for run in runs), default=0)


def count_seeds(runs: Iterable[BestRun]) -> int:
    return len({run.task.repeat for run in runs})


def name_budget(runs: list[BestRun], of: str = "seed") -> str:
    return f"{count_of(epochs_of(runs), 'epoch')}, {count_of(count_seeds(runs), of)}"


def finished(runs: Iterable[BestRun]) -> list[BestRun]:
    return [run for run in runs if not run.diverged]


def count_diverged(runs: list[BestRun]) -> str:
    """Return how many of the runs diverged; nothing of none."""
    return f"{len(runs) - len(finished(runs))} of {len(runs)}" if runs else ""


def by_run_arm(runs: Iterable[BestRun]) -> dict[tuple[str, int], list[BestRun]]:
    return group_by(runs, lambda run: run.task.arm)


def mean_score(runs: Iterable[BestRun]) -> float:
    """Return the mean test accuracy of runs in %."""
    return float(100 * np.mean([run.history.test_score[-1] for run in runs]))


def by_seed(
    best: Iterable[BestRun],
    value: Callable[[list[BestRun]], float],
    counted: Callable[[list[BestRun]], list[BestRun]] = finished,
) -> dict[tuple[str, int], list[float]]:
    """Return, by arm, a value for each seed; the settings of a seed are taken together.

    counted: the runs of an arm that count; `list` counts those that diverged, too
    """
    return {
        arm: [value(seed) for seed in group_by(counted(runs), lambda run: run.task.repeat).values()]
        for arm, runs in by_run_arm(best).items()
    }


def name_seeds(values: Iterable[Sequence[float]]) -> str:
    """Return how many seeds the arms have, such as "2 or 3 seeds" where runs diverged."""
    *fewer, most = sorted({len(of) for of in values})
    return "".join(f"{n} or " for n in fewer) + count_of(most, "seed")


def log_loss(runs: Iterable[BestRun]) -> float:
    """Return the mean decimal logarithm of the lowest losses."""
    return float(np.mean([math.log10(run.lowest_loss) for run in runs]))


def loss_as_guess(runs: Iterable[BestRun]) -> float:
    """Return the mean decimal logarithm of the lowest losses, that of guessing for runs that failed.

    Such a run diverged or ended at chance.
    """
    losses = [CHANCE_LOSS if run.diverged or at_chance(run) else run.lowest_loss for run in runs]
    return float(np.mean(np.log10(losses)))


def runs_table(log: DepthSearchLog, *more: DepthSearchLog) -> str:
    """Tabulate by depth what the longest runs reach, from the best to the worst, and how many diverge or guess."""
    best = longest(log, *more)
    arms = by_run_arm(best)
    rows = [
        [str(depth), *(losses_cell(arms.get((block, depth), [])) for block in BLOCKS)]
        for depth in sorted({depth for _, depth in arms})
    ]
    table = markdown(["layers", *(f"{block} nets" for block in BLOCKS)], rows)
    return (
        f"{table}\n\nLowest training loss in {count_of(epochs_of(best), 'epoch')}: from the best to the worst of the "
        "runs that ended well; behind it, how many diverged or ended at chance (a test accuracy of 20 % or less)."
    )


def losses_cell(runs: list[BestRun]) -> str:
    """Return the range of the losses of the runs that ended well, and how many did not."""
    ends = {"diverged": len(runs) - len(finished(runs)), "at chance": len(runs) - len(not_at_chance(runs))}
    losses = [run.lowest_loss for run in finished(not_at_chance(runs))]
    words = [f"{min(losses):.2g} to {max(losses):.2g}"] if losses else []
    return ", ".join(words + [f"{n} of {len(runs)} {end}" for end, n in ends.items() if n])


def arms_table(log: DepthSearchLog, *more: DepthSearchLog) -> str:
    """Tabulate, by arm, its best settings of the search and the runs from other seeds."""
    again, new, rows = by_run_arm(log.best), by_run_arm(new_seeds(log, *more)), []
    longer = by_run_arm(longest(log, *more))
    for arm, ranked in by_arm(last_rung(log.results)).items():
        top, name = np.log10(top_losses(ranked, log.top)), " ".join(map(str, arm))
        loss = loss_in_words(interval(top)) if len(top) else "none"
        rows.append([name, loss, *cells_of_runs(again.get(arm, []), log.levels)])
        if arm in new:
            rows.append([f"{name}, {count_seeds(new[arm])} new seeds", "", *cells_of_runs(new[arm], log.levels)])
        if (runs := longer.get(arm, [])) and longer != again:
            rows.append([f"{name}, {runs[0].epochs} epochs", "", *cells_of_runs(runs, log.levels)])
    levels = [f"epochs to {level:g}" for level in log.levels]
    header = ["net, layers", f"loss, {log.top} best settings", "diverged", "lowest loss, trained again", *levels]
    header.append("test accuracy (%)")
    return (
        f"{markdown(header, rows)}\n\nLosses: geometric means with 95 % intervals, over settings or seeds. The last "
        "five columns leave out diverged runs. Epochs: until the loss is below; "
        "*4 of 6*: only four of six runs get there."
    )


def cells_of_runs(runs: list[BestRun], levels: Iterable[float]) -> list[str]:
    """Return the cells of the runs of an arm from other seeds: of those that finished, all but the first."""
    done = finished(runs)
    (losses,) = by_seed(runs, log_loss).values() or [[]]
    (scores,) = by_seed(runs, mean_score).values() or [[]]
    return [
        count_diverged(runs),
        loss_in_words(interval(losses)) if done else "",
        *(epochs_cell(done, level) for level in levels),
        f"{interval(scores):.1f}" if done else "",
    ]


def epochs_cell(runs: list[BestRun], level: float) -> str:
    """Return the mean number of epochs until a loss below the level, or how many runs reach it if not all do."""
    below = [np.flatnonzero(np.array(run.history.train_loss) < level) for run in runs]
    reached = [epochs[0] for epochs in below if len(epochs)]  # the first epoch below, counted from 0, untrained
    if not runs:
        return ""
    return f"{np.mean(reached):.1f}" if len(reached) == len(runs) else f"{len(reached)} of {len(runs)}"


def settings_table(log: DepthSearchLog, *_: DepthSearchLog) -> str:
    """Tabulate, by arm, the good settings after the first rung, and the best settings of the last."""
    rows, first = [], by_arm(first_rung(log))
    for arm, ranked in by_arm(last_rung(log.results)).items():
        results = first[arm]
        tried, top = ([result.task for result in of] for of in (results, ranked[: log.top]))
        good = [of.task for of in results if is_good(of, log.level)]
        rates = [trial.lr / (1 - trial.momentum) for trial in good]
        biases = [trial.gate_bias for trial in top if trial.gate_bias is not None]
        open_gated = {trial for trial in tried if trial.gate_bias is not None and trial.gate_bias > OPEN_BIAS}
        rows.append(
            [
                " ".join(map(str, arm)),
                f"{sum(result.diverged for result in results)} of {len(tried)}",
                f"{results[0].lowest_loss:.2f}",
                f"{len(good)} of {len(tried)}",
                f"{min(rates):.2g} to {max(rates):.2g}" if rates else "none",
                f"{len(open_gated.intersection(good))} of {len(open_gated)}" if biases else "",
                f"{sum(trial.activation == 'tanh' for trial in top)} of {len(top)}",
                f"{min(biases):.1f} to {max(biases):.1f}" if biases else "",
                str(1 + [trial.index for trial in tried].index(top[0].index)),
            ]
        )
    epochs = first_rung(log)[0].task.epochs
    header = [
        "net, layers",
        "diverged",
        "lowest loss",
        f"good: loss below {log.level:g}",
        "lr / (1 − momentum) of good",
    ]
    header += [
        f"good with b_T above {OPEN_BIAS}",
        f"tanh among the {log.top} best",
        f"b_T of the {log.top} best",
        "rank of the later best",
    ]
    return (
        f"{markdown(header, rows)}\n\nAll settings after {epochs} epochs; columns on the best describe those of the "
        f"last epoch. Rank of the later best: its place after {epochs} epochs."
    )


def by_activation(log: DepthSearchLog, *more: DepthSearchLog) -> dict[tuple[str, str], list[BestRun]]:
    """Return, by activation and kind of block, the runs of the best such setting of FIXED layers from any seed."""
    arms, runs = by_arm(last_rung(log.results)), [run for of in (log, *more) for run in of.best]
    found = {}
    for activation, block in product(ACTIVATIONS, BLOCKS):
        ranked = (of.task for of in arms.get((block, FIXED), []) if of.task.activation == activation)
        best = next(ranked, None)
        found[activation, block] = [run for run in runs if run.task.setting == best]
    return found


def log_losses(runs: Iterable[BestRun]) -> list[float]:
    """Return the logarithm of each run's lowest loss, of a diverged run the lowest before that."""
    return [log_loss([run]) for run in runs]


def activations_table(log: DepthSearchLog, *more: DepthSearchLog) -> str:
    """Tabulate plain and highway nets of one depth, each with both activations; all seeds of a net below its first."""
    found, rows, repeats = by_activation(log, *more), [], {run.task.repeat for run in log.best}
    for (activation, block), runs in found.items():
        plain, first = ([run for run in of if run.task.repeat in repeats] for of in (found[activation, "plain"], runs))
        for of in (first, runs) if len(runs) > len(first) else (first,):
            seeds = count_of(count_seeds(of), "seed")
            lead = difference(log_losses(plain), log_losses(of))
            rows.append(
                [
                    f"{block}, {ACTIVATIONS[activation]}, {seeds}",
                    count_diverged(of),
                    loss_in_words(interval(log_losses(of))) if of else "",
                    "" if block == "plain" or np.isnan(lead.value) else str(lead),
                ]
            )
    header = [f"{FIXED} layers", "diverged", "loss", "orders of magnitude below plain"]
    return f"{markdown(header, rows)}\n\nThe best setting of each. A diverged run counts with its lowest earlier loss."


def activation_claims(log: DepthSearchLog, *more: DepthSearchLog) -> list[Claim]:
    """Return the claim on nets of the same activation, from all seeds, if all of them have been trained."""
    found = by_activation(log, *more)
    if not all(found.values()):
        return []
    losses = {net: log_losses(runs) for net, runs in found.items()}
    leads = {name: difference(losses[key, "plain"], losses[key, "highway"]) for key, name in ACTIVATIONS.items()}
    verdicts = {name: judge_better(lead, LOSS_MARGIN) for name, lead in leads.items()}
    paper = f"at {FIXED} layers, highway nets reach a lower training loss than plain nets of the same activation"
    seeds = {key: " and ".join(str(len(found[key, block])) for block in BLOCKS) for key in ACTIVATIONS}
    measured = ", ".join(f"{leads[name]} with {name} ({seeds[key]} seeds)" for key, name in ACTIVATIONS.items())
    measured = f"orders of magnitude below plain nets after {count_of(epochs_of(log.best), 'epoch')}: {measured}"
    return [Claim(OURS, paper, combine(verdicts.values()), holds(verdicts, "with {}"), measured, detail=True)]


def at_chance(run: BestRun) -> bool:
    """Return whether a run finished with an accuracy of at most twice that of guessing."""
    return not run.diverged and run.history.test_score[-1] <= 2 * CHANCE


def not_at_chance(runs: Iterable[BestRun]) -> list[BestRun]:
    """Return all runs but those that finished at chance."""
    return [run for run in runs if not at_chance(run)]


class Way(NamedTuple):
    """A way to count runs that diverged or ended at chance: which of them count, and with what loss."""

    counted: Callable[[list[BestRun]], list[BestRun]]
    value: Callable[[list[BestRun]], float] = log_loss


Arms = Sequence[tuple[str, int]]
FINISHED, ALL = Way(finished), Way(list)
AS_GUESSES = Way(list, loss_as_guess)
WAYS = {
    "diverged left out": FINISHED,
    "all runs": ALL,
    "both kinds as guesses": AS_GUESSES,
    "diverged and at chance left out": Way(lambda runs: finished(not_at_chance(runs))),
    "at chance left out": Way(not_at_chance),
}


def lead_of(lower: Arms, higher: Arms, runs: list[BestRun], way: Way) -> Interval:
    """Return the orders of magnitude by which the lowest losses of some arms are below those of others."""
    losses = by_seed(runs, way.value, way.counted)
    return difference(*([loss for arm in arms for loss in losses.get(arm, [])] for arms in (higher, lower)))


def counts_table(log: DepthSearchLog, *more: DepthSearchLog) -> str:
    """Tabulate by how much the lowest losses of arms differ, by which runs count."""
    best, new = longest(log, *more), new_seeds(log, *more)
    shallow = {block: [(block, depth) for depth in SHALLOW] for block in BLOCKS}
    deep = {depth: [("highway", depth)] for depth in DEEP}
    compared = [("plain 100 above 10 and 20", best, [("plain", 100)], shallow["plain"])]
    compared += [(f"highway {depth} below plain", best, [("plain", depth)], deep[depth]) for depth in DEEP]
    alone = "highway 100 below plain, best settings alone"
    compared.append((alone, best_settings(best), [("plain", 100)], deep[100]))
    few = [run for run in log.best if run.task.depth in SHALLOW]
    for runs in (best, *([[*few, *new], [*log.best, *new]] if new else ())):
        compared += [(f"highway {depth} below 10 and 20", runs, shallow["highway"], deep[depth]) for depth in DEEP]
    rows = []
    for name, runs, higher, lower in compared:
        used = [run for run in runs if run.task.arm in (*higher, *lower)]
        if not used:
            continue
        seeds = name_seeds(by_seed(used, log_loss).values())
        leads = [lead_of(lower, higher, runs, way) for way in WAYS.values()]
        cells = ["" if np.isnan(lead.value) else str(lead) for lead in leads]
        rows.append([f"{name}, {count_of(epochs_of(runs), 'epoch')}, {seeds}", *cells])
    header = ["orders of magnitude, by layers", *WAYS]
    note = (
        "A run that diverged or ended at chance counts with its lowest loss or, as a guess, with ln 10. At chance: it "
        "finished with a test accuracy of 20 % or less, a cut chosen afterwards. Seeds: those with a finished run."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def ways_figure(log: DepthSearchLog, *more: DepthSearchLog) -> Figure:
    """Draw the lead of the deepest highway nets over plain ones by every way to count runs, with 95 % intervals."""
    best, (plain, highway) = longest(log, *more), [[(block, DEEP[-1])] for block in BLOCKS]
    leads = {
        f"{settings}, {words}": lead_of(highway, plain, runs, way)
        for settings, runs in (("both settings", best), ("best setting", best_settings(best)))
        for words, way in WAYS.items()
    }
    surely = sum(lead.low > ORDERS for lead in leads.values())
    title = f"more than {ORDERS} orders of magnitude by {surely} of {len(leads)} ways to count"
    figure, axes = new_figure(f"{name_data(log.dataset.name)}, {DEEP[-1]} layers: {title}", 3.6)
    for height, lead in enumerate(leads.values()):
        color = COLORS["highway"] if lead.low > ORDERS else FAINT_INK
        axes.errorbar(lead.value, height, xerr=lead.half, fmt="o", color=color, capsize=4, linewidth=2)
        axes.annotate(str(lead), (1, height), xycoords=axes.get_yaxis_transform(), va="center", annotation_clip=False)
    axes.set_yticks(range(len(leads)), [*leads])
    axes.invert_yaxis()
    for value, style in ((0, ":"), (ORDERS, "--")):
        axes.axvline(value, color=INK, linewidth=1, linestyle=style, zorder=0)
    axes.set_xlabel(f"orders of magnitude below plain nets; dashed: the paper's {ORDERS}")
    return figure


def has_all_arms(log: DepthSearchLog) -> bool:
    """Return whether all nets that the paper compares have been trained from other seeds."""
    return {(block, depth) for block in BLOCKS for depth in DEPTHS} <= by_run_arm(log.best).keys()


def claims(log: DepthSearchLog, *more: DepthSearchLog) -> list[Claim]:
    if not has_all_arms(log):
        return []
    best = longest(log, *more)
    epochs, seeds = epochs_of(best), count_of(count_seeds(best), "seed")
    return [
        level_claim(best_settings(best), epochs, seeds),
        degrade_claim(by_seed(best, log_loss), epochs, seeds),
        like_claim(log, *more),
        top_claim(log),
        orders_claim(best),
        faster_claim(best),
        generalise_claim(best),
        *activation_claims(log, *more),
    ]


def best_settings(runs: list[BestRun]) -> list[BestRun]:
    """Return the runs of each arm's best setting in the search."""
    first = {arm: of_arm[0].task.index for arm, of_arm in by_run_arm(runs).items()}
    return [run for run in runs if run.task.index == first[run.task.arm]]


def level_claim(best: list[BestRun], epochs: int, seeds: str) -> Claim:
    """Return the claim on shallow plain nets, judged by the best setting of each depth, as the paper's figure is."""
    losses = by_seed(best, log_loss)
    levels = {depth: interval(math.log10(TARGET) - np.array(losses["plain", depth])) for depth in SHALLOW}
    verdict, where, measured = judge_each(levels, judge_better, 0)
    paper = "plain nets of 10 and 20 layers reach a training loss below 1e-4"
    why = f"{where} This is of the best setting of each depth."
    measured = f"orders of magnitude below 1e-4 {after(epochs)} (best setting, {seeds}): {measured}"
    return Claim(FIGURE_1, paper, within_budget(verdict, epochs), why, measured, detail=True)


def degrade_claim(losses: Mapping[tuple[str, int], list[float]], epochs: int, seeds: str) -> Claim:
    """Return the claim on deep plain nets, judged by the deepest beside the shallow; with it stands each step."""
    plain = {depth: losses["plain", depth] for depth in DEPTHS}
    lead = difference(plain[DEEP[-1]], [loss for depth in SHALLOW for loss in plain[depth]])
    steps = {more: difference(plain[more], plain[less]) for less, more in pairwise(DEPTHS)}
    _, where, measured = judge_each(steps, judge_better, LOSS_MARGIN)
    paper = "plain nets degrade as depth grows"
    deep, shallow = (np.concatenate([plain[depth] for depth in depths]) for depths in (DEEP, SHALLOW))
    why = (
        f"The lowest training loss of plain nets of {DEEP[-1]} layers is {times(lead.value)} times as high as that of "
        f"10 and 20 layers. If each depth is compared with the one before, the claim is less certain. {where}"
    )
    if min(deep) > max(shallow):
        why += " But with no seed do nets of 50 and 100 layers get as low as any of 10 and 20."
    why += " No net began with orthogonal weights."
    above = f"orders of magnitude above 10 and 20 layers ({epochs} epochs, {seeds})"
    measured = f"{above}: {lead}; above the next shallower net: {measured}"
    return Claim(FIGURE_1, paper, judge_better(lead, LOSS_MARGIN), why, measured)


def like_claim(log: DepthSearchLog, *more: DepthSearchLog) -> Claim:
    """Return the claim on deep highway nets, judged by new seeds if there are any."""
    new = new_seeds(log, *more)
    losses, deep = by_seed(log.best, log_loss) | by_seed(new, log_loss), by_run_arm(log.best) | by_run_arm(new)
    gains = gain_with_depth(losses, "highway")
    verdict, where, measured = judge_each(gains, judge_about, LOSS_MARGIN)
    better = [str(depth) for depth, gain in gains.items() if gain.low > LOSS_MARGIN]
    learned = all(np.mean(losses["highway", depth]) < math.log10(log.level) for depth in SHALLOW)
    runs = [run for depth in DEEP for run in deep["highway", depth]]
    paper = "highway nets of 50 and 100 layers perform like those of 10 and 20"
    tested = name_budget(new, "new seed") if new else name_budget(log.best)
    lost = ", ".join(count_diverged(deep["highway", depth]) for depth in DEEP)
    better = f" At {in_words(better)} layers they are not alike but better: their loss is lower." if better else ""
    lost_again = f"In {epochs_of(new or log.best)} epochs {count_diverged(runs)} runs diverged; they are left out."
    why = f"{where}{better} {lost_again}"
    if (best := longest(log, *more)) is not log.best:
        of_deep = [run for run in best if run.task.block == "highway" and run.task.depth in DEEP]
        why += f" In {epochs_of(best)} epochs {count_diverged(of_deep)} do."
    alike = f"alike if they differ by less than {LOSS_MARGIN:g}"
    measured = f"orders of magnitude below 10 and 20 layers, {alike} ({tested}): {measured}"
    return Claim(FIGURE_1, paper, of_learners(verdict, learned), why, f"{measured}; diverged: {lost}")


def faster_claim(best: list[BestRun]) -> Claim:
    curves = by_seed(best, lambda runs: float(np.mean([np.log10(run.history.train_loss[1:]) for run in runs])))
    faster = {depth: difference(curves["plain", depth], curves["highway", depth]) for depth in DEPTHS}
    verdict, where, measured = judge_each(faster, judge_better, LOSS_MARGIN)
    lower = f"orders of magnitude below plain curves, averaged over {epochs_of(best)} epochs"
    measured = f"{lower} ({name_seeds(curves.values())}): {measured}"
    lost = count_diverged(by_run_arm(best)["highway", DEEP[-1]])
    why = (
        f"{where} Runs that diverged are left out, at {DEEP[-1]} layers {lost} highway runs; plain runs at chance are "
        "kept."
    )
    return Claim(FIGURE_1, "highway nets converge faster", verdict, why, measured)


def generalise_claim(best: list[BestRun]) -> Claim:
    """Return the claim on test images at the depths at which plain nets train, too."""
    scores = by_seed(best, mean_score)
    leads = {depth: difference(scores["highway", depth], scores["plain", depth]) for depth in SHALLOW}
    verdict, where, measured = judge_each(leads, judge_as_good, ACCURACY_MARGIN)
    apart = in_words([f"{lead.value:+.1f} points at {depth} layers" for depth, lead in leads.items()])
    paper = f"at {in_words([*map(str, SHALLOW)])} layers, highway nets classify test images as well as plain nets"
    why = f"{where} They differ from plain nets by {apart}. *As well* means at most {ACCURACY_MARGIN:g} points worse."
    measured = f"points of test accuracy above plain nets ({name_budget(best)}): {measured}"
    return Claim(OURS, paper, verdict, why, measured, detail=True)


def orders_claim(best: list[BestRun]) -> Claim:
    """Return the claim on the lead of highway nets of 100 layers, judged without diverged runs and with them."""
    epochs, plain, highway = epochs_of(best), [("plain", 100)], [("highway", 100)]
    lead, lead_of_all, as_guesses = (lead_of(highway, plain, best, way) for way in (FINISHED, ALL, AS_GUESSES))
    alone = lead_of(highway, plain, best_settings(best), ALL)
    seeds = name_seeds(by_seed(best, log_loss)[arm] for arm in (*plain, *highway))
    judged = [judge_better(Interval(of.value - ORDERS, of.half), 0) for of in (lead, lead_of_all, alone)]
    lost = count_diverged(by_run_arm(best)["highway", 100])
    paper = f"at 100 layers highway is more than {ORDERS} orders of magnitude (a hundred times) better"
    why = (
        f"It depends on how diverged runs count: in {epochs} epochs {lost} highway runs diverged. Without them the "
        f"training loss of plain nets is {times(lead.value)} times as high; if each counts with the lowest loss that "
        f"it reached before it diverged, {times(lead_of_all.value)} times; and if each counts as guessing, like runs "
        f"at chance, {times(as_guesses.value)} times. In the best setting of each kind of net, which the paper "
        f"compares, the claim is {judged[2]}."
    )
    measured = (
        f"{lead} orders of magnitude {after(epochs)} ({seeds}), {judged[0]}; "
        f"counting the lowest earlier loss of diverged runs: {lead_of_all}, {judged[1]}; diverged ones and those at "
        f"chance as guesses: {as_guesses}; in the best settings alone, all with their lowest loss: {alone}, {judged[2]}"
    )
    return Claim(FIGURE_1, paper, within_budget(combine(judged[:2]), epochs), why, measured)


def top_claim(log: DepthSearchLog) -> Claim:
    """Return the claim of figure 1's right-hand side, judged by the best settings of the search."""
    arms = by_arm(last_rung(log.results))
    tops = {arm: np.log10(top_losses(ranked, log.top)) for arm, ranked in arms.items()}
    worse = {depth: Interval(-gain.value, gain.half) for depth, gain in gain_with_depth(tops, "plain").items()}
    does_degrade, _, lost = judge_each(worse, judge_better, LOSS_MARGIN)
    is_as_good, _, gained = judge_each(gain_with_depth(tops, "highway"), judge_as_good, LOSS_MARGIN)
    paper = f"the {log.top} best settings: plain nets degrade with depth, highway nets do not"
    plain, highway = f"plain nets above by {lost}", f"highway nets below by {gained}"
    measured = f"orders of magnitude, beside 10 and 20 layers: {plain}; {highway}"
    why = holds({"plain nets": does_degrade, "highway nets": is_as_good}, "for {}")
    return Claim(FIGURE_1, paper, combine([does_degrade, is_as_good]), why, measured, detail=True)


def gain_with_depth(losses: Mapping[tuple[str, int], Sequence[float]], block: str) -> dict[int, Interval]:
    """Return, by depth, by how much the logarithms of deep nets' losses are below those of shallow nets."""
    shallow = np.concatenate([losses[block, depth] for depth in SHALLOW])
    return {depth: difference(shallow, losses[block, depth]) for depth in DEEP}


def after(epochs: int) -> str:
    """Return the epochs in words, beside the paper's if these are more."""
    return f"after {epochs}{f' of {PAPER_EPOCHS}' * (epochs < PAPER_EPOCHS)} epochs"


def within_budget(verdict: Verdict, epochs: int) -> Verdict:
    """Return the verdict on an amount: training for fewer epochs than the paper's may reach it, but not refute it."""
    return Verdict.INCONCLUSIVE if verdict == Verdict.NOT_REPRODUCED and epochs < PAPER_EPOCHS else verdict


FIGURES = {
    "fig1_depth_search.png": search_figure,
    "fig1_ways_to_count.png": ways_figure,
    "fig1_settings.png": settings_figure,
}
TABLES = {
    "depth_search_runs": runs_table,
    "depth_search": arms_table,
    "depth_search_activations": activations_table,
    "depth_search_counts": counts_table,
    "depth_search_settings": settings_table,
}
