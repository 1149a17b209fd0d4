"""Tabulate a log of the candidates for the estimators' defaults, and choose among them."""

import numpy as np

from highway_lab.figures import markdown
from highway_lab.intervals import Interval, judge

from .estimator_defaults import Contest, DefaultsLog
from .estimators import MLP
from .estimators_figures import cell, corrected, find, runs


def leads(contest: Contest, candidate: str, folds: int) -> dict[str, Interval]:
    """Return a candidate's score minus the MLP's, by data set."""
    return {
        of: corrected(
            np.subtract(*(find(contest.scores, of, name).scores for name in (candidate, MLP))).tolist(), folds
        )
        for of in dict.fromkeys(row.dataset for row in contest.scores)
    }


def rank(contest: Contest, candidate: str, folds: int) -> tuple[int, int, float]:
    """Return on how many data sets a candidate falls behind, its blocks, minus its median difference: less wins."""
    found = leads(contest, candidate, folds).values()
    depth = contest.depths[contest.candidates.index(candidate)]
    return sum(lead.sign < 0 for lead in found), depth, -float(np.median([lead.value for lead in found]))


def chosen(contest: Contest, folds: int) -> str:
    """Return the candidate that the rule of benchmarks.estimator_defaults takes."""
    return min(contest.candidates, key=lambda candidate: rank(contest, candidate, folds))


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
    rows = []
    for contest in log.contests:
        best = chosen(contest, log.folds)
        for of, lead in leads(contest, best, log.folds).items():
            scores = (cell(find(contest.scores, of, name), log) for name in (best, MLP))
            rows.append([contest.estimator, of, *scores, f"{lead:+.3f}", judge(lead, margin=0)])
    header = ["estimator", "data set", "highway", MLP, "difference", "the highway net"]
    return f"{markdown(header, rows)}\n\nAccuracy or R². {runs(log)}."


TABLES = {"estimator_defaults": chosen_table, "estimator_candidates": candidates_table}
