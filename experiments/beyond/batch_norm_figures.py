"""Picture and tables of convolutional nets with and without batch normalisation."""

import numpy as np
from matplotlib.figure import Figure

from conv_recipes import ConvConfig
from highway_lab.console import final_of_finished, name_tested, seeds_of
from highway_lab.figures import COLORS, FAINT_INK, label_ends, new_figure
from highway_lab.intervals import Interval, interval, judge
from highway_lab.logs import RunLog
from highway_lab.tables import markdown

from ..claims import ACCURACY_MARGIN, LOSS_MARGIN, in_words
from ..common import final_values, group
from ..common_figures import FIELDS, Runs, draw_epochs, gains, loss_in_words

WITH = {False: "without", True: "with"}
COMPARED = {  # block and whether it is normalised: of the net, of the one it is compared with
    "highway nets, normalised against not": (("highway", True), ("highway", False)),
    "plain nets, normalised against not": (("plain", True), ("plain", False)),
    "normalised plain nets against highway nets without": (("plain", True), ("highway", False)),
}


def norm_figure(log: RunLog[ConvConfig]) -> Figure:
    """Draw validation error and training loss by epoch, a row each; a column for each kind of block."""
    arms = group(log.runs, "block", "batch_norm")
    blocks = list(dict.fromkeys(block for block, _ in arms))
    lowered = [block for block in blocks if lowers_loss(arms[block, True], arms[block, False]).sign > 0]
    whose = f"the training loss of {in_words(lowered)} nets" if lowered else "no training loss"
    figure, grid = new_figure(
        f"Batch normalisation lowers {whose}", 6, nrows=len(FIELDS), ncols=len(blocks), sharey="row"
    )
    for row, field in zip(grid, FIELDS, strict=True):
        for axes, block in zip(row, blocks, strict=True):
            colors = {False: FAINT_INK, True: COLORS[block]}
            lines = {WITH[normed]: ({"color": colors[normed]}, arms[block, normed]) for normed in WITH}
            draw_epochs(axes, field, lines)
            axes.set_title(f"{block}: {FIELDS[field]}")
    label_ends(*grid.flat)
    return figure


def norm_table(log: RunLog[ConvConfig]) -> str:
    """Tabulate scores of both kinds of block, without and with normalisation."""
    rows = []
    for (block, normed), runs in group(log.runs, "block", "batch_norm").items():
        scores = [final_of_finished(runs, "test_score", percent=True), final_of_finished(runs, "train_loss")]
        rows.append([block, WITH[normed], f"{runs[0].n_params:,}", *scores])
    header = ["block", "normalisation", "parameters", "test accuracy (%)", "training loss"]
    return f"{markdown(header, rows)}\n\n{name_tested(log.dataset)}. {seeds_of(run.config for run in log.runs)}"


def lowers_loss(runs: Runs, others: Runs) -> Interval:
    """Return by how many orders of magnitude the final training loss of runs is below that of others, by seed."""
    own, theirs = (np.log10(final_values(group, "train_loss")) for group in (runs, others))
    return interval(theirs - own)


def gains_table(log: RunLog[ConvConfig]) -> str:
    """Tabulate what normalisation gains in accuracy and in training loss, seed by seed."""
    arms, rows = group(log.runs, "block", "batch_norm"), []
    for name, (arm, other) in COMPARED.items():
        accuracy, loss = interval(gains(arms[arm], arms[other])), lowers_loss(arms[arm], arms[other])
        gained = f"{accuracy}: {judge(accuracy, ACCURACY_MARGIN)}"
        rows.append([name, gained, f"{loss_in_words(loss)}: {judge(loss, LOSS_MARGIN)}"])
    header = ["compared", "points of test accuracy gained", "training loss is lower by a factor of"]
    return (
        f"{markdown(header, rows)}\n\n±, and the ranges of factors: 95 % intervals of the differences seed by seed. As "
        f"good as: the interval lies within {ACCURACY_MARGIN:g} points, or within a factor of {10**LOSS_MARGIN:.2g}."
    )


FIGURES = {"batch_norm.png": norm_figure}
TABLES = {"batch_norm": norm_table, "batch_norm_gains": gains_table}
