"""Tabulate a log of the main job."""

from highway_lab.figures import markdown

from .main_job import JobLog


def main_job_table(log: JobLog) -> str:
    """Return a table of the time and memory of each command."""
    rows = [
        [use.name, f"{use.wall_seconds.median:.3g}", f"{use.cpu_seconds.median:.3g}", f"{use.peak_mib.median:.0f}"]
        for use in log.usages
    ]
    text = (
        f"{markdown(['command', 'wall seconds', 'CPU seconds', 'peak MiB'], rows)}\n\nMedians over {log.rounds} "
        f"rounds. The sweep at two jobs takes {log.sweep_2_jobs_over_1.median:.2f} of its time at one."
    )
    if log.over_other:
        commit = (log.other_commit or "unknown")[:7]
        text += f" The headline takes {log.over_other.median:.2f} of the time of commit {commit}."
    return text


TABLES = {"main_job": main_job_table}
