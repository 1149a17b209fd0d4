"""Picture and table of the grid that chose the setting of CIFAR-10's net."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import name_data, seeds_of
from highway_lab.figures import COLORS, INK, draw_seeds, label_ends, markdown, new_figure, pale
from highway_lab.intervals import interval

from .cifar_net import CifarNetLog, means
from .common import curve, group


def grid_figure(log: CifarNetLog) -> Figure:
    """Draw validation accuracy and training loss from epoch 1, a line for each rate; a dot marks the choice."""
    title = f"{name_data(log.dataset.name)}: {log.runs[0].config.depth} highway blocks by learning rate"
    figure, panels = new_figure(title, 4.2, ncols=2)
    by_rate = group(log.runs, "lr")
    shown = {"test_score": "accuracy on held-out images", "train_loss": "training loss"}
    for axes, (field, words) in zip(panels, shown.items(), strict=True):
        for (lr,), strength in zip(by_rate, np.linspace(0.4, 1, len(by_rate)), strict=True):
            values = np.array([curve(run, field)[1:] for run in by_rate[lr,]])
            color = pale(COLORS["highway"], strength)
            draw_seeds(axes, np.arange(1, values.shape[1] + 1), values, label=f"{lr:g}", color=color)
        axes.margins(x=0)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
        chosen = means(log.runs, field)[log.lr][log.epochs]
        axes.plot(log.epochs, chosen, "o", color=INK, clip_on=False, zorder=4)
        axes.set_title(words)
        label_ends(axes)
    panels[1].annotate("chosen", (log.epochs, chosen), (-8, -16), textcoords="offset points", ha="right")
    return figure


def grid_table(log: CifarNetLog) -> str:
    """Tabulate by rate the epoch of the highest mean accuracy and its scores; below, the net of the choice."""
    rows = []
    for (lr,), runs in group(log.runs, "lr").items():
        epoch = 1 + int(np.nan_to_num(means(runs, "test_score")[lr][1:]).argmax())
        scores = (
            f"{interval([curve(run, field)[epoch] for run in runs]):.3f}" for field in ("test_score", "train_loss")
        )
        rows.append([f"{lr:g}", str(epoch), *scores])
    table = markdown(["learning rate", "best epoch", "held-out accuracy", "training loss"], rows)
    return (
        f"{table}\n\n{seeds_of(run.config for run in log.runs)} The lowest training loss within "
        f"{100 * log.margin:.1f} points of the highest held-out accuracy: rate {log.lr:g}, {log.epochs} epochs. So the "
        f"net that is kept was trained on all {log.dataset.n_train:,} training images; accuracy "
        f"{log.net.train_score:.3f} on these, {log.net.test_score:.3f} on the {log.dataset.test_set}."
    )


FIGURES = {"cifar_net.png": grid_figure}
TABLES = {"cifar_net": grid_table}
