"""Tabulate a log of the main job."""

from highway_lab.figures import markdown

from .main_job import HEADLINE, JobLog, Usage

TARGETS = {  # the largest value allowed, and where the table shows it
    "import": (0.25, "wall_seconds"),
    "help": (0.25, "wall_seconds"),
    HEADLINE: (160, "peak_mib"),
}


def main_job_table(log: JobLog) -> str:
    """Return a table of the time and memory of each command, and of its target."""
    rows = []
    for use in log.usages:
        rows.append([use.name, f"{use.wall_seconds.median:.3g}", f"{use.cpu_seconds.median:.3g}"])
        rows[-1] += [f"{use.peak_mib.median:.0f}", target(use) if use.name in TARGETS else ""]
    text = (
        f"{markdown(['command', 'wall seconds', 'CPU seconds', 'peak MiB', 'target'], rows)}\n\nMedians over "
        f"{log.rounds} rounds. The sweep at two jobs takes {log.sweep_2_jobs_over_1.median:.2f} of its time at one."
    )
    if log.over_other:
        commit = (log.other_commit or "unknown")[:7]
        text += f" The headline takes {log.over_other.median:.2f} of the time of commit {commit}."
    return text


def target(use: Usage) -> str:
    """Return a command's target, and whether it is reached."""
    limit, field = TARGETS[use.name]
    reached = getattr(use, field).median <= limit
    return f"at most {limit:g} {'MiB' if field == 'peak_mib' else 's'}: {'reached' if reached else 'missed'}"


TABLES = {"main_job": main_job_table}
