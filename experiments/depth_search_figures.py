"""Pictures and tables of the depth search: the paper's figure 1, and loss against the settings, which are ours."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figure_style import COLORS, FAINT_INK, INK, label_ends, markdown, new_figure, pale
from reporting import name_data

from .claims import Claim, claims_table
from .common import group_by
from .depth_search import BLOCKS, DEPTHS, BestRun, DepthSearchLog, TrialResult, best_of_arm, by_arm

SHADES = (0.45, 0.6, 0.8, 1.0)  # strength of the colour by depth, the deepest strongest
LOSS_TICKS = (0.1, 0.2, 0.5, 1, 2)


def search_figure(log: DepthSearchLog) -> Figure:
    """Left: the training curve of each arm's best setting. Right: mean and spread of its best of the search."""
    settings = len(log.results) // len(by_arm(log.results))
    title = f"{name_data(log.dataset.name)}: training loss by depth, {settings} settings an arm"
    figure, (left, right) = new_figure(title, 4.6, ncols=2, width_ratios=(1.25, 1))
    curves_panel(left, log.best)
    top_panel(right, log)
    right.set_title(f"{log.top} best settings, {log.results[0].trial.epochs} epochs")
    return figure


def curves_panel(axes: Axes, best: list[BestRun]) -> None:
    """Loss on the training images against epoch, log scale, one curve an arm, labelled at its end."""
    depths = sorted({run.trial.depth for run in best})
    for run in best_of_arm(best).values():
        rank = depths.index(run.trial.depth)
        axes.plot(
            run.history.epoch,
            np.maximum(np.array(run.history.train_loss, float), np.finfo(np.float32).tiny),
            color=pale(COLORS[run.trial.block], SHADES[rank]),
            linewidth=1.6,
            zorder=2 + rank,
            label=f"{run.trial.block} {run.trial.depth}",
        )
    axes.set(yscale="log", xlabel="epoch", ylabel="training loss", title="best setting, trained longer")
    axes.margins(x=0)
    if best:
        label_ends(axes, leaders=True)
    else:
        axes.text(0.5, 0.5, "not trained yet", transform=axes.transAxes, ha="center", color=FAINT_INK)


def top_panel(axes: Axes, log: DepthSearchLog) -> None:
    """Each arm's best losses as dots, their mean as a bar."""
    arms = by_arm(log.results)
    depths = sorted({depth for _, depth in arms})
    for (block, depth), ranked in arms.items():
        x = depths.index(depth) + (0.16 if block == "highway" else -0.16)
        top = top_losses(ranked, log.top)
        axes.plot(np.full(len(top), x), top, "o", color=COLORS[block], alpha=0.45, markersize=4.5)
        axes.plot([x - 0.12, x + 0.12], [np.mean(top)] * 2, color=COLORS[block], linewidth=3)
    axes.set(yscale="log", xlabel="depth (layers)", ylabel="training loss")
    axes.set_xticks(range(len(depths)), depths)
    axes.set_yticks(LOSS_TICKS, LOSS_TICKS)
    axes.minorticks_off()


def top_losses(ranked: list[TrialResult], top: int) -> list[float]:
    """The losses of an arm's best settings, without those that are not finite."""
    return [result.lowest_loss for result in ranked[:top] if np.isfinite(result.lowest_loss)]


def settings_figure(log: DepthSearchLog) -> Figure:
    """Loss of every setting against its learning rate (top) and gate bias (bottom), a column a depth."""
    by_depth = group_by(log.results, lambda result: result.trial.depth)
    title = f"{name_data(log.dataset.name)}: training loss of every setting"
    figure, axes = new_figure(title, 5.6, nrows=2, ncols=len(by_depth), sharey=True, squeeze=False)
    ceiling = max(result.lowest_loss for result in log.results if np.isfinite(result.lowest_loss))
    for (over, under), (depth, results) in zip(axes.T, by_depth.items(), strict=True):
        for result in results:
            trial, loss = result.trial, ceiling if result.diverged else result.lowest_loss
            marker = "x" if result.diverged else "o"
            style = {"color": COLORS[trial.block], "marker": marker, "markersize": 4, "alpha": 0.6, "linestyle": "none"}
            over.plot(trial.lr, loss, **style)
            if trial.gate_bias is not None:
                under.plot(trial.gate_bias, loss, **style)
        over.set(xscale="log", yscale="log", title=f"depth {depth}", xlabel="learning rate")
        under.set(xlabel="initial gate bias", xticks=(-10, -7, -4, -1))
    for row in axes:
        row[0].set_ylabel("training loss")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in BLOCKS]
    handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="diverged"))
    figure.legend(handles=handles, loc="upper right", ncols=len(handles), frameon=False, handletextpad=0.2)
    return figure


def arms_table(log: DepthSearchLog) -> str:
    """By arm: the best settings of the search, and the longer run of the best one."""
    rows = []
    longer = best_of_arm(log.best)
    for arm, ranked in by_arm(log.results).items():
        trial = longer[arm].trial if arm in longer else ranked[0].trial
        losses = top_losses(ranked, log.top)
        spread = f" ± {np.std(losses, ddof=1):.2g}" if len(losses) > 1 else ""
        bias = "" if trial.gate_bias is None else f", b_T {trial.gate_bias:.1f}"
        rows.append(
            [
                f"{trial.block} {trial.depth}",
                f"{np.mean(losses):.3g}{spread}" if losses else "none",
                f"{sum(result.diverged for result in ranked)} of {len(ranked)}",
                f"{trial.activation}, lr {trial.lr:.2g}, momentum {trial.momentum:.2g}{bias}",
            ]
        )
        if arm in longer:
            run = longer[arm]
            accuracy = "diverged" if run.diverged else f"{run.history.test_score[-1]:.4f}"
            rows[-1] += [f"{run.lowest_loss:.3g}", epochs_to(run, log.level), accuracy]
        else:
            rows[-1] += [""] * 3
    search = [f"{log.top} best: loss", "diverged", "best setting"]
    return markdown(["arm", *search, "lowest loss", f"epochs to {log.level:g}", "test accuracy"], rows)


def epochs_to(run: BestRun, level: float) -> str:
    """The first epoch after which the training loss was below the level."""
    epochs = zip(run.history.epoch, run.history.train_loss, strict=True)
    return next((str(epoch) for epoch, loss in epochs if loss is not None and loss < level), "never")


def claims(log: DepthSearchLog) -> list[Claim]:
    """What the paper says of figure 1, beside the lowest training losses of the longer runs."""
    best = best_of_arm(log.best)
    if not {(block, depth) for block in BLOCKS for depth in DEPTHS} <= best.keys():
        return []  # they are about nets of 10, 20, 50 and 100 layers, which have not all been trained longer
    losses = {block: [best[block, depth].lowest_loss for depth in DEPTHS] for block in BLOCKS}
    reached = {block: ", ".join(epochs_to(best[block, depth], log.level) for depth in DEPTHS) for block in BLOCKS}
    (plain, highway), epochs = (losses["plain"], losses["highway"]), best["plain", 10].trial.epochs
    orders = math.log10(plain[-1] / highway[-1])

    def listed(values: list[float]) -> str:
        return ", ".join(f"{value:.2e}" for value in values)

    return [
        Claim(
            "3.1, figure 1",
            "plain nets of 10 and 20 layers reach a training loss below 1e-4",
            f"{listed(plain[:2])} in {epochs} epochs",
            "held" if max(plain[:2]) < 1e-4 else "not",
        ),
        Claim(
            "3.1, figure 1",
            "plain nets degrade as depth grows",
            f"at 10, 20, 50, 100: {listed(plain)}",
            "held" if plain == sorted(plain) else "partly",
        ),
        Claim(
            "3.1, figure 1",
            "highway nets of 50 and 100 layers do as well as those of 10 and 20",
            listed(highway),
            "held, within a factor of 2" if max(highway[2:]) < 2 * max(highway[:2]) else "not",
        ),
        Claim(
            "3.1, figure 1",
            "at 100 layers highway is more than 2 orders of magnitude better",
            f"{orders:.1f} orders",
            "held" if orders > 2 else "not",
        ),
        Claim(
            "3.1, figure 1",
            "highway nets converge faster",
            f"epochs until the loss is below {log.level:g}: highway {reached['highway']}; plain {reached['plain']}",
            "partly: from 50 layers on",
        ),
    ]


FIGURES = {"fig1_depth_search.png": search_figure, "fig1_settings.png": settings_figure}
TABLES = {"depth_search": arms_table, "depth_search_claims": lambda log: claims_table(claims(log))}
