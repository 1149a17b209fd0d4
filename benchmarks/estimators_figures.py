"""Tabulate a log of the estimators beside scikit-learn's."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from highway_lab.figures import markdown
from highway_lab.intervals import LEVEL, Interval, judge

from .estimators import HIDDEN, MLP, MLP_ALONE, EstimatorsLog, Scores

LEFT, RIGHT = "highway, 3 blocks", "MLP, of that size"  # of differences_table


def corrected(values: Sequence[float], folds: int) -> Interval:
    """Return the mean of a value of each fold of each seed, with its 95 % interval.

    By the resampled t-test, corrected for overlapping training sets (Nadeau & Bengio 2003; Bouckaert & Frank 2004).
    """
    n = len(values)
    error = np.std(values, ddof=1) * np.sqrt(1 / n + 1 / (folds - 1))
    return Interval(float(np.mean(values)), float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * error))


def scores_table(log: EstimatorsLog) -> str:
    """Return a table of accuracy, or R² of a regression, and the median time of a fit, by data set."""
    rows = [[row.dataset, row.contender, cell(row, log), f"{row.fit_seconds.median:.2g}"] for row in log.scores]
    header = ["data set", "estimator", "accuracy, or R²", "seconds a fit"]
    return f"{markdown(header, rows)}\n\n{runs(log)}."


def differences_table(log: EstimatorsLog) -> str:
    """Return a table of a shallow highway net beside an MLP of as many layers and units."""
    rows = []
    for of in dict.fromkeys(row.dataset for row in log.scores):
        left, right = (find(log.scores, of, name) for name in (LEFT, RIGHT))
        lead = corrected(np.subtract(left.scores, right.scores), log.folds)
        rows.append([of, cell(left, log), cell(right, log), f"{lead:+.4f}", judge(lead, margin=0)])
    header = ["data set", LEFT, RIGHT, "difference", "the highway net"]
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


def find(rows: list[Scores], dataset: str, contender: str) -> Scores:
    return next(row for row in rows if (row.dataset, row.contender) == (dataset, contender))


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
