"""Picture and table of convolutional nets with and without batch normalisation."""

from matplotlib.figure import Figure

from conv_recipes import ConvConfig
from highway_lab.console import final, name_tested, seeds_of
from highway_lab.figures import COLORS, label_ends, markdown, new_figure
from highway_lab.intervals import interval
from highway_lab.logs import RunLog

from ..common import group
from ..common_figures import FIELDS, draw_epochs, gains

WORDS = {1: "it helps", 0: "0 is within it", -1: "it harms"}


def norm_figure(log: RunLog[ConvConfig]) -> Figure:
    """Draw validation error and training loss by epoch; dashed with normalisation."""
    config = log.runs[0].config
    title = f"{name_tested(log.dataset)}: {config.net}, {config.n_train:,} training images; BN: batch normalisation"
    figure, panels = new_figure(title, 4.2, ncols=len(FIELDS))
    lines = {
        block + ", BN" * normed: ({"color": COLORS[block], "linestyle": ("-", (0, (2, 1)))[normed]}, runs)
        for (block, normed), runs in group(log.runs, "block", "batch_norm").items()
    }
    for axes, field in zip(panels, FIELDS, strict=True):
        draw_epochs(axes, field, lines)
        label_ends(axes)
    return figure


def norm_table(log: RunLog[ConvConfig]) -> str:
    """Tabulate scores of both kinds of block, without and with normalisation; below, what normalisation gains."""
    rows, gained, arms = [], [], group(log.runs, "block", "batch_norm")
    for (block, normed), runs in arms.items():
        scores = [final(runs, "test_score", percent=True), final(runs, "train_loss")]
        rows.append([block, ("no", "yes")[normed], f"{runs[0].n_params:,}", *scores])
        if normed:
            gain = interval(gains(runs, arms[block, False]))
            gained.append(f"{block} {gain}: {WORDS[gain.sign]}")
    header = ["block", "normalised", "parameters", "test accuracy (%)", "training loss"]
    return (
        f"{markdown(header, rows)}\n\n{name_tested(log.dataset)}. {seeds_of(run.config for run in log.runs)} Points of "
        f"test accuracy gained by normalisation, mean and 95 % interval seed by seed: {'; '.join(gained)}."
    )


FIGURES = {"batch_norm.png": norm_figure}
TABLES = {"batch_norm": norm_table}
