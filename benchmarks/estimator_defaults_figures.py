"""Tabulate a log of the candidates for the estimators' defaults."""

from highway_lab.tables import markdown

from .estimator_defaults import DefaultsLog, chosen, seconds, worst
from .estimators import MLP, leads


def candidates_table(log: DefaultsLog) -> str:
    """Return a table of all candidates: the worst task and its difference from the MLP, and seconds of all tasks."""
    best, rows = chosen(log), []
    for name in log.candidates:
        by_task = leads(log.scores, name, MLP, log.folds)
        of = min(by_task, key=lambda task: by_task[task].value)
        rows.append(
            [name, of, f"{worst(log, name):+.3f}", f"{seconds(log, name):.1f}", "chosen" if name == best else ""]
        )
    rows.append([MLP, "", "", f"{seconds(log, MLP):.1f}", ""])
    return markdown(["candidate", "its worst task", "score − MLP's", "seconds", ""], rows)


TABLES = {"estimator_defaults": candidates_table}
