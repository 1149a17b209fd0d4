"""Tabulate a log of the estimators beside scikit-learn's."""

from collections.abc import Sequence

import numpy as np

from highway_lab.intervals import judge
from highway_lab.tables import markdown

from .estimators import HIDDEN, MLP, MLP_ALONE, EstimatorsLog, Scores, corrected, find, leads

LEFT, RIGHT = "highway, 3 blocks", "MLP, of that size"  # of differences_table


def scores_table(log: EstimatorsLog) -> str:
    """Return a table of accuracy, or R² of a regression, and the median time of a fit, by data set."""
    rows = [[row.dataset, row.contender, cell(row, log), f"{row.fit_seconds.median:.2g}"] for row in log.scores]
    header = ["data set", "estimator", "accuracy, or R²", "seconds a fit"]
    return f"{markdown(header, rows)}\n\n{runs(log)}."


def differences_table(log: EstimatorsLog) -> str:
    """Return a table of a shallow highway net beside an MLP of as many layers and units."""
    header = ["data set", LEFT, RIGHT, "difference", "the highway net"]
    rows = compared(log.scores, LEFT, RIGHT, log, ".4f")
    return f"{markdown(header, rows)}\n\n{runs(log)}. {RIGHT}: as many layers and units as the highway net."


def depths_table(log: EstimatorsLog) -> str:
    """Return a table of accuracy on scikit-learn's digits by depth."""
    header = ["blocks", *(row.contender for row in log.deep[0].scores)]
    rows = [[str(at.depth), *(cell(row, log) for row in at.scores)] for at in log.deep]
    chance = np.mean(find(log.scores, "digits", "commonest class").scores)
    return (
        f"{markdown(header, rows)}\n\n{runs(log)}. Data: scikit-learn's digits, {HIDDEN} units a layer. "
        f"The commonest class: {chance:.3f}."
    )


def epochs_table(log: EstimatorsLog) -> str:
    """Return a table of milliseconds of an epoch, and their ratio to those of the faster MLPClassifier."""
    rows = []
    for row in log.epochs:
        ratio = f"{row.over_mlp:.2f}"
        if row.width == HIDDEN and row.contender not in (MLP, MLP_ALONE):
            reached = row.over_mlp.median <= log.targets.over_mlp
            ratio += f", {log.targets.over_mlp:g} {'reached' if reached else 'missed'}"
        rows.append([row.precision, str(row.width), row.contender, f"{row.n_params:,}", f"{row.ms.median:.3g}", ratio])
    header = ["precision", "units", "estimator", "parameters", "ms an epoch", "/ the faster MLP's"]
    return f"{markdown(header, rows)}\n\n{log.depth} blocks, tanh, {log.dataset.n_train:,} images, {log.rounds} rounds."


def compared(rows: Sequence[Scores], name: str, other: str, log: EstimatorsLog, form: str) -> list[list[str]]:
    """Return for each data set the scores of two contenders, their difference in this format, and the verdict."""
    return [
        [of, *(cell(find(rows, of, who), log) for who in (name, other)), f"{lead:+{form}}", judge(lead, margin=0)]
        for of, lead in leads(rows, name, other, log.folds).items()
    ]


def cell(row: Scores, log: EstimatorsLog) -> str:
    """Return the mean score and its interval."""
    return f"{corrected(row.scores, log.folds):.3f}"


def runs(log: EstimatorsLog) -> str:
    """Return the words below a table that define its ±."""
    return f"Mean ± 95 % interval (corrected resampled t) over {log.folds} folds × {len(log.seeds)} seeds"


TABLES = {
    "estimators": scores_table,
    "estimators_shallow": differences_table,
    "estimators_depth": depths_table,
    "estimators_epoch": epochs_table,
}
