"""Pictures of the depth search: the paper's figure 1, and loss against the settings, which the paper does not show."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figure_style import COLORS, FAINT_INK, INK, label_ends, new_figure, pale, save

from .command_line import figure_path, group_by
from .depth_search import ARCHITECTURES, FIGURES, TOP, BestRun, DepthSearchLog, TrialResult, best_of_arm, by_arm

SHADES = (0.45, 0.6, 0.8, 1.0)  # strength of the colour by depth, the deepest strongest
LOSS_TICKS = (0.1, 0.2, 0.5, 1, 2)


def draw(log: DepthSearchLog, source: Path) -> None:
    """Draw both figures from a log."""
    for name, figure in zip(FIGURES, (search_figure(log), settings_figure(log)), strict=True):
        path = figure_path(name, log.dataset.name)
        save(figure, path, source)
        print(f"drew {path}")


def search_figure(log: DepthSearchLog) -> Figure:
    """Left: the training curve of each arm's best setting. Right: mean and spread of its ten best."""
    trial = log.results[0].trial
    title = (
        f"{log.dataset.name.replace('mnist', 'MNIST')}: training loss by depth, {count_settings(log)} settings an arm"
    )
    figure, (left, right) = new_figure(title, 4.6, ncols=2, width_ratios=(1.25, 1))
    curves_panel(left, log.best)
    top_panel(right, log.results)
    right.set_title(f"ten best settings, {trial.epochs} epochs")
    return figure


def count_settings(log: DepthSearchLog) -> int:
    """Settings tried in each arm."""
    return len(log.results) // len(by_arm(log.results))


def curves_panel(axes: Axes, best: list[BestRun]) -> None:
    """Loss on the training images against epoch, log scale, one curve an arm, labelled at its end."""
    depths = sorted({run.trial.depth for run in best})
    for run in best_of_arm(best).values():
        rank = depths.index(run.trial.depth)
        loss = np.array([np.nan if value is None else value for value in run.history.train_loss], float)
        axes.plot(
            run.history.epoch,
            np.maximum(loss, np.finfo(np.float32).tiny),
            color=pale(COLORS[run.trial.architecture], SHADES[rank]),
            linewidth=1.6,
            zorder=2 + rank,
            label=f"{run.trial.architecture} {run.trial.depth}",
        )
    axes.set(yscale="log", xlabel="epoch", ylabel="training loss", title="best setting, trained longer")
    axes.margins(x=0)
    if best:
        label_ends(axes)
    else:
        axes.text(0.5, 0.5, "not trained yet", transform=axes.transAxes, ha="center", color=FAINT_INK)


def top_panel(axes: Axes, results: list[TrialResult]) -> None:
    """Each arm's ten best losses as dots, their mean as a bar."""
    arms = by_arm(results)
    depths = sorted({depth for _, depth in arms})
    for (architecture, depth), ranked in arms.items():
        x = depths.index(depth) + (0.16 if architecture == "highway" else -0.16)
        top = np.array([result.best_loss for result in ranked[:TOP] if np.isfinite(result.best_loss)])
        axes.plot(np.full(len(top), x), top, "o", color=COLORS[architecture], alpha=0.45, markersize=4.5)
        axes.plot([x - 0.12, x + 0.12], [top.mean()] * 2, color=COLORS[architecture], linewidth=3)
    axes.set(yscale="log", xlabel="depth (layers)", ylabel="training loss")
    axes.set_xticks(range(len(depths)), depths)
    axes.set_yticks(LOSS_TICKS, LOSS_TICKS)
    axes.minorticks_off()


def settings_figure(log: DepthSearchLog) -> Figure:
    """Loss of every setting against its learning rate (top) and gate bias (bottom), a column a depth."""
    by_depth = group_by(log.results, lambda result: result.trial.depth)
    title = f"{log.dataset.name.replace('mnist', 'MNIST')}: training loss of every setting"
    figure, axes = new_figure(title, 5.6, nrows=2, ncols=len(by_depth), sharey=True, squeeze=False)
    ceiling = max(result.best_loss for result in log.results if np.isfinite(result.best_loss))
    for (over, under), (depth, results) in zip(axes.T, by_depth.items(), strict=True):
        for result in results:
            trial, loss = result.trial, ceiling if result.diverged else result.best_loss
            style = {
                "color": COLORS[trial.architecture],
                "marker": "x" if result.diverged else "o",
                "markersize": 4,
                "alpha": 0.6,
                "linestyle": "none",
            }
            over.plot(trial.lr, loss, **style)
            if trial.gate_bias is not None:
                under.plot(trial.gate_bias, loss, **style)
        over.set(xscale="log", yscale="log", title=f"depth {depth}", xlabel="learning rate")
        under.set(xlabel="initial gate bias", xticks=(-10, -7, -4, -1))
    for row in axes:
        row[0].set_ylabel("training loss")
    handles = [Line2D([], [], color=COLORS[kind], marker="o", linestyle="none", label=kind) for kind in ARCHITECTURES]
    handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="diverged"))
    figure.legend(handles=handles, loc="upper right", ncols=len(handles), frameon=False, handletextpad=0.2)
    return figure
