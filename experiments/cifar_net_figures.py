"""Picture and table of the grid that chose the setting of CIFAR-10's net."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import name_data, seeds_of
from highway_lab.figures import COLORS, INK, SETTINGS, draw_level, draw_seeds, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from .cifar_net import CifarNetLog, means
from .common import curve, group
from .common_figures import Runs

CHOICE = {"color": INK, "marker": "o", "linestyle": "", "markersize": 13, "fillstyle": "none", "zorder": 4}


def grid_figure(log: CifarNetLog) -> Figure:
    """Draw validation accuracy and training loss by epoch, a column a rate.

    Dots are epochs whose mean accuracy is within the margin of the highest; the ring is the choice among them.
    """
    by_rate, scores, losses = group(log.runs, "lr"), means(log.runs, "test_score"), means(log.runs, "train_loss")
    lowest = np.nanmax([values[1:] for values in scores.values()]) - log.margin
    title = f"{name_data(log.dataset.name)}: rate {log.lr:g} and {log.epochs} epochs are chosen"
    figure, grid = new_figure(title, 5, nrows=2, ncols=len(by_rate), sharex=True, sharey="row", squeeze=False)
    for column, ((lr,), runs) in zip(grid.T, by_rate.items(), strict=True):
        within = [epoch for epoch, score in enumerate(scores[lr]) if epoch and score >= lowest]
        for axes, field, of, scale in zip(
            column, ("test_score", "train_loss"), (scores, losses), (100, 1), strict=True
        ):
            values = scale * np.array([curve(run, field)[1:] for run in runs])
            draw_seeds(axes, np.arange(1, values.shape[1] + 1), values, label=None, color=COLORS["highway"])
            dots = axes.plot(within, scale * of[lr][within], "o", color=SETTINGS[1], markersize=5, zorder=3)
            if lr == log.lr:
                ring = axes.plot(log.epochs, scale * of[lr][log.epochs], **CHOICE)
        draw_level(column[0], 100 * lowest, None)
        draw_level(column[1], losses[log.lr][log.epochs], None)
        column[0].set_title(f"rate {lr:g}")
        column[1].set(xlabel="epoch", xlim=(1, None))
        column[1].xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    grid[0, 0].set_ylabel("validation accuracy (%)")
    grid[1, 0].set_ylabel("training loss")
    words = [f"within {100 * log.margin:.1f} points of the highest accuracy", "chosen: the lowest loss of these"]
    figure.legend([*dots, *ring], words, ncols=2, loc="outside lower center", frameon=False)
    return figure


def grid_table(log: CifarNetLog) -> str:
    """Tabulate by rate the epoch of the highest mean accuracy and its scores, and last the choice."""

    def scores(runs: Runs, epoch: int) -> tuple[str, str]:
        score, loss = ([curve(run, field)[epoch] for run in runs] for field in ("test_score", "train_loss"))
        return f"{interval(100 * np.array(score)):.1f}", f"{interval(loss):.3f}"

    rows, by_rate = [], group(log.runs, "lr")
    for (lr,), runs in by_rate.items():
        epoch = 1 + int(np.nan_to_num(means(runs, "test_score")[lr][1:]).argmax())
        rows.append([f"{lr:g}", str(epoch), *scores(runs, epoch)])
    rows.append([f"{log.lr:g} (chosen)", str(log.epochs), *scores(by_rate[log.lr,], log.epochs)])
    note = (
        f"{seeds_of(run.config for run in log.runs)} Accuracy of the chosen net: {log.net.train_score:.1%} on all "
        f"training images, {log.net.test_score:.1%} on the {log.dataset.test_set}."
    )
    header = ["learning rate", "best epoch", "validation accuracy at it (%)", "training loss at it"]
    return f"{markdown(header, rows)}\n\n{note}"


FIGURES = {"cifar_net.png": grid_figure}
TABLES = {"cifar_net": grid_table}
