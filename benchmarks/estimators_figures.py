"""Tabulate a log of the estimators beside scikit-learn's."""

from highway_lab.intervals import judge
from highway_lab.tables import markdown

from .estimators import HIGHWAY, MLP, EstimatorsLog, corrected, leads


def scores_table(log: EstimatorsLog) -> str:
    """Return a table of the contenders' mean scores and median seconds, and the verdict beside the MLP, by task."""
    found = {(row.task, row.contender): row for row in log.scores}
    contenders = list(dict.fromkeys(row.contender for row in log.scores))
    rows = []
    for task, lead in leads(log.scores, HIGHWAY, MLP, log.folds).items():
        cells = [found[task, of] for of in contenders]
        scores = [f"{corrected(row.scores, log.folds).value:.3f} ({row.fit_seconds.median:.2g} s)" for row in cells]
        rows.append([task, f"{cells[0].rows:,}", *scores, f"{lead:+.3f}", judge(lead, margin=0)])
    table = markdown(["task", "rows", *contenders, "highway − MLP", "the highway net"], rows)
    seconds = "Seconds: the processor's for a fit with one thread, median."
    return f"{table}\n\n{runs(log)}, not corrected for the number of comparisons. {seconds}"


def runs(log: EstimatorsLog) -> str:
    """Return the words below a table that say what its scores and its ± are."""
    repeated = f"over {log.folds} folds × {len(log.seeds)} seed{'s' * (len(log.seeds) > 1)}"
    return f"Accuracy, or R² of numbers: means, ± 95 % interval (corrected resampled t) {repeated}"


TABLES = {"estimators": scores_table}
