"""Tabulate a log of the candidates for the estimators' defaults."""

from highway_lab.tables import markdown

from .estimator_defaults import DefaultsLog, chosen, rank
from .estimators import MLP
from .estimators_figures import compared, runs


def candidates_table(log: DefaultsLog) -> str:
    """Return a table of all candidates: on how many data sets each falls behind, its median difference."""
    rows = []
    for contest in log.contests:
        best = chosen(contest, log.folds)
        for name in contest.candidates:
            behind, _, median = rank(contest, name, log.folds)
            rows.append([contest.estimator, name, str(behind), f"{-median:+.3f}", "chosen" if name == best else ""])
    return markdown(["estimator", "candidate", "data sets behind", "median difference", ""], rows)


def chosen_table(log: DefaultsLog) -> str:
    """Return a table of the chosen defaults beside the MLP's, by data set."""
    rows = [
        [contest.estimator, *row]
        for contest in log.contests
        for row in compared(contest.scores, chosen(contest, log.folds), MLP, log, ".3f")
    ]
    header = ["estimator", "data set", "highway", MLP, "difference", "the highway net"]
    return f"{markdown(header, rows)}\n\nAccuracy or R². {runs(log)}."


TABLES = {"estimator_defaults": chosen_table, "estimator_candidates": candidates_table}
