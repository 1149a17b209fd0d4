"""Tabulate a log of the estimators beside scikit-learn's."""

import numpy as np
from scipy import stats

from highway_lab.figures import markdown

from .estimators import HIDDEN, MLP, MLP_ALONE, EstimatorsLog, Scores

LEFT, RIGHT = "highway, 3 blocks", "MLP, of that size"  # of differences_table


def mean_sd(row: Scores) -> str:
    """Return mean ± standard deviation over folds and seeds."""
    return f"{np.mean(row.scores):.3f} ± {np.std(row.scores, ddof=1):.3f}"


def difference(left: Scores, right: Scores, log: EstimatorsLog) -> tuple[float, float]:
    """Return the mean difference of two contenders' scores fold by fold, and half of its 95 % interval.

    The test is the resampled t-test, corrected for training sets that overlap (Nadeau & Bengio 2003; Bouckaert & Frank
    2004).
    """
    by_fold = np.subtract(left.scores, right.scores)
    n = len(by_fold)
    error = np.sqrt(by_fold.var(ddof=1) * (1 / n + 1 / (log.folds - 1)))
    return float(by_fold.mean()), float(stats.t.ppf(0.975, n - 1) * error)


def scores_table(log: EstimatorsLog) -> str:
    """Return a table of accuracy, or R² of a regression, and the median time of a fit, by data set."""
    rows = [[row.dataset, row.contender, mean_sd(row), f"{row.fit_seconds.median:.2g}"] for row in log.scores]
    header = ["data set", "estimator", "accuracy, or R²", "seconds a fit"]
    return f"{markdown(header, rows)}\n\nMean ± sample standard deviation over {runs(log)}."


def differences_table(log: EstimatorsLog) -> str:
    """Return a table of a shallow highway net beside an MLP of as many layers and units."""
    rows = []
    for of in dict.fromkeys(row.dataset for row in log.scores):
        left, right = (find(log.scores, of, name) for name in (LEFT, RIGHT))
        mean, half = difference(left, right, log)
        rows.append([of, mean_sd(left), mean_sd(right), f"{mean:+.4f} ± {half:.4f}", verdict(mean, half)])
    header = ["data set", LEFT, RIGHT, "difference, 95 % interval", "which is"]
    return (
        f"{markdown(header, rows)}\n\n{runs(log).capitalize()}; the interval is that of the resampled t-test, "
        "corrected for training sets that overlap."
    )


def depths_table(log: EstimatorsLog) -> str:
    """Return a table of accuracy on scikit-learn's digits by depth."""
    header = ["blocks", *(row.contender for row in log.deep[0].scores)]
    rows = [[str(at.depth), *map(mean_sd, at.scores)] for at in log.deep]
    chance = np.mean(find(log.scores, "digits", "commonest class").scores)
    return (
        f"{markdown(header, rows)}\n\nscikit-learn's digits, {HIDDEN} units a layer, {runs(log)}; "
        f"the commonest class: {chance:.3f}."
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
    """Return the scores of a contender on a data set."""
    return next(row for row in rows if (row.dataset, row.contender) == (dataset, contender))


def verdict(mean: float, half: float) -> str:
    """Return the verdict of a difference and half of its interval."""
    return "within noise" if abs(mean) <= half else "better" if mean > 0 else "worse"


def runs(log: EstimatorsLog) -> str:
    """Return the number of fits behind a score, in words."""
    return f"{log.folds} folds × {len(log.seeds)} seeds"


TABLES = {
    "estimators": scores_table,
    "estimators_shallow": differences_table,
    "estimators_depth": depths_table,
    "estimators_epoch": epochs_table,
}
