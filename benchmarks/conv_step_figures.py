"""Tabulate a log of the training step of convolutional nets."""

import math
from functools import partial

from highway_lab.tables import markdown

from .contenders import CONV_CONTENDERS
from .conv_step import ConvStepLog
from .training_step_figures import fastest, table_of_passes, table_of_steps

OURS, EAGER = "ours-conv", ("torch-conv", "torch-conv-last")
MEASURED = {
    "one_run": "one run on all CPUs",
    "one_thread": "one thread",
    "many_runs": "a run of ours on each CPU, PyTorch on all",
}


def steps_table(log: ConvStepLog, name: str, words: str) -> str:
    """Return a table of milliseconds a step, and our time over each contender's, from the rows of that name."""
    return table_of_steps(log, getattr(log, name), CONV_CONTENDERS, f"milliseconds a step, {words}", str)


def judged(value: float, most: float) -> str:
    return f"{value:.3g}{', missed' * (value > most)}"


def targets_table(log: ConvStepLog) -> str:
    """Return a table of our time over that of PyTorch's better eager layout, and of our memory, beside the targets."""
    targets, lines = log.targets, []
    for peak in log.peaks:
        found = ((fastest(getattr(log, name), peak.case, *EAGER), getattr(targets, name)) for name in MEASURED)
        ratios = [judged(row.ours_over.median, most) if row else "" for row, most in found]
        most_mib = targets.peak_mib.get(peak.case.net, math.inf)
        lines.append([str(peak.case), *ratios, f"{judged(peak.mib, most_mib)} of {most_mib:g}"])
    header = [f"{words}: at most {getattr(targets, name):g}" for name, words in MEASURED.items()]
    return markdown(["ours / PyTorch's better eager layout", *header, "our memory, MiB"], lines)


TABLES = {
    **{f"conv_step_{name}": partial(steps_table, name=name, words=words) for name, words in MEASURED.items()},
    "conv_step_passes": lambda log: table_of_passes(log, log.one_thread, OURS),
    "conv_step_targets": targets_table,
}
