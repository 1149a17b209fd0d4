"""Tabulate a log of the training step of convolutional nets."""

from highway_lab.figures import markdown

from .contenders import CONV_CONTENDERS
from .conv_contenders import ConvCase
from .conv_step import ConvStepLog
from .training_step import Row
from .training_step_figures import fastest, judged, table_of_passes, table_of_steps

OURS, EAGER = "ours-conv", ("torch-conv", "torch-conv-last")


def images_a_second(row: Row) -> str:
    return f"{1e3 * row.case.batch / row.ms.median:,.0f}"


def one_thread_table(log: ConvStepLog) -> str:
    """Return a table of each contender's milliseconds a step with one thread, and our time over its time."""
    table = table_of_steps(
        *(log, log.one_thread, CONV_CONTENDERS),
        *("milliseconds a step, one thread", lambda row: str(row.ms)),
        *("ours / it", lambda row: row.ours_over.median),
    )
    return f"{table}\n\nMedians and quartiles over {log.rounds} rounds, batch {ConvCase.batch}."


def all_cpus_table(log: ConvStepLog) -> str:
    """Return a table of each contender's images a second on the whole machine, and ours over its."""
    table = table_of_steps(
        *(log, log.all_cpus, CONV_CONTENDERS),
        *("images a second, all CPUs", images_a_second),
        *("ours / its", lambda row: 1 / row.ours_over.median),
    )
    return f"{table}\n\nOurs in {log.processes} processes of one thread, PyTorch in one of {log.processes} threads."


def passes_table(log: ConvStepLog) -> str:
    """Return a table of the time of each part of our step."""
    return table_of_passes(log, log.one_thread, OURS)


def targets_table(log: ConvStepLog) -> str:
    """Return a table of the targets beside PyTorch's better eager layout, and what was found."""
    targets, lines = log.targets, []
    for peak in log.peaks:
        one, every = (fastest(rows, peak.case, *EAGER) for rows in (log.one_thread, log.all_cpus))
        line = [
            judged(time := one.ours_over.median, time <= targets.one_thread) if one else "",
            judged(speed := 1 / every.ours_over.median, speed >= targets.all_cpus) if every else "",
            judged(peak.mib, peak.mib <= targets.peak_mib),
        ]
        lines.append([str(peak.case), *line])
    header = [
        "beside PyTorch's better eager layout",
        f"one thread, our time over its: at most {targets.one_thread:g} (aim: {targets.aim:g})",
        f"all CPUs, our images a second over its: at least {targets.all_cpus:g}",
        f"memory of our training: at most {targets.peak_mib:,.0f} MiB",
    ]
    return markdown(header, lines)


TABLES = {
    "conv_step": one_thread_table,
    "conv_step_all_cpus": all_cpus_table,
    "conv_step_passes": passes_table,
    "conv_step_targets": targets_table,
}
