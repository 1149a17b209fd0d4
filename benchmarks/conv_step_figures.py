"""Tabulate a log of the training step of convolutional nets."""

from collections.abc import Callable, Sequence

from highway_lab.figures import markdown

from .contenders import CONV_CONTENDERS
from .conv_contenders import ConvCase
from .conv_step import ConvStepLog
from .training_step import Row
from .training_step_figures import table_of_passes

OURS, EAGER = "ours-conv", ("torch-conv", "torch-conv-last")


def cases(log: ConvStepLog) -> list[ConvCase]:
    """What was timed."""
    return [peak.case for peak in log.peaks]


def row_of(rows: Sequence[Row], case: ConvCase, *names: str) -> Row | None:
    """The fastest of these contenders in a case; None if none of them was timed."""
    found = [row for row in rows if row.case == case and row.contender in names]
    return min(found, key=lambda row: row.ms.median, default=None)


def images_a_second(row: Row) -> float:
    return 1e3 * row.case.batch / row.ms.median


def comparison(
    log: ConvStepLog,
    rows: Sequence[Row],
    what: str,
    value: Callable[[Row], str],
    ratio: str,
    of: Callable[[Row], float],
) -> str:
    """A line for each contender: in each case its `value`, and how ours compares with it."""
    lines = []
    for name, contender in CONV_CONTENDERS.items():
        line = [contender.label]
        for case in cases(log):
            found = row_of(rows, case, name)
            line.append(value(found) if found else log.missing.get(name, ""))
            line.append(f"{of(found):.2f}" if found and name != OURS else "")
        lines.append(line)
    return markdown([what, *(word for case in cases(log) for word in (str(case), ratio))], lines)


def one_thread_table(log: ConvStepLog) -> str:
    """Milliseconds of a step of each contender with one thread, and our time over its time, within each round."""
    table = comparison(
        log,
        log.one_thread,
        "milliseconds a step, one thread",
        lambda row: f"{row.ms.median:.3g} ({row.ms.low:.3g}–{row.ms.high:.3g})",
        "ours / it",
        lambda row: row.ours_over.median,
    )
    return f"{table}\n\nMedians and quartiles over {log.rounds} rounds, batch {ConvCase.batch}."


def all_cpus_table(log: ConvStepLog) -> str:
    """Images a second of each contender on the whole machine, and ours over its, within each round."""
    table = comparison(
        log,
        log.all_cpus,
        "images a second, all CPUs",
        lambda row: f"{images_a_second(row):,.0f}",
        "ours / its",
        lambda row: 1 / row.ours_over.median,
    )
    return f"{table}\n\nOurs in {log.processes} processes of one thread, PyTorch in one of {log.processes} threads."


def passes_table(log: ConvStepLog) -> str:
    """Where the time of our step goes: microseconds of each pass, and its share."""
    return table_of_passes(log.passes, {case: row_of(log.one_thread, case, OURS).ms.median for case in cases(log)})


def targets_table(log: ConvStepLog) -> str:
    """What was to be reached beside PyTorch's better eager layout, and what was found."""
    targets, lines = log.targets, []
    for peak in log.peaks:
        one, every = (row_of(rows, peak.case, *EAGER) for rows in (log.one_thread, log.all_cpus))
        lines.append(
            [
                str(peak.case),
                judged(one.ours_over.median, lambda ratio: ratio <= targets.one_thread) if one else "",
                judged(1 / every.ours_over.median, lambda ratio: ratio >= targets.all_cpus) if every else "",
                judged(peak.mib, lambda mib: mib <= targets.peak_mib),
            ]
        )
    header = [
        "beside PyTorch's better eager layout",
        f"one thread, our time over its: at most {targets.one_thread:g} (aim: {targets.aim:g})",
        f"all CPUs, our images a second over its: at least {targets.all_cpus:g}",
        f"memory of our training: at most {targets.peak_mib:,.0f} MiB",
    ]
    return markdown(header, lines)


def judged(value: float, is_reached: Callable[[float], bool]) -> str:
    return f"{value:.3g}{'' if is_reached(value) else ', missed'}"


TABLES = {
    "conv_step": one_thread_table,
    "conv_step_all_cpus": all_cpus_table,
    "conv_step_passes": passes_table,
    "conv_step_targets": targets_table,
}
