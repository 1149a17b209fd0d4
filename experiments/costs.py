"""Costs of repeating the measurements: the hours that their logs state."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from highway_lab.logs import Log
from highway_lab.tables import markdown

from .__main__ import STEPS
from .common import Experiment, load


def steps_of_logs() -> Iterator[tuple[Experiment, Path, list[str]]]:
    """Yield, for each committed log that is there, its experiment, its path and the step that makes it."""
    for experiment in map(load, STEPS):
        for path, words in experiment.log_steps().items():
            if path.exists():
                yield experiment, path, words


def seconds(of: Any) -> float:
    """Return the sum of all fields named `seconds` in a log or in a part of one: of training, mostly."""
    if isinstance(of, list):
        return sum(map(seconds, of))
    if not is_dataclass(of):
        return 0.0
    parts = {part.name: getattr(of, part.name) for part in fields(of)}
    own = parts.pop("seconds", 0.0)
    return (sum(own) if isinstance(own, list) else own) + seconds([*parts.values()])


def tasks_of(results: Any) -> list[Any]:
    return [getattr(of, "task", of) for of in results] if isinstance(results, list) else [results]


def own_parts(log: Log, first: Log) -> list[Any]:
    """Return what a log does not have from the first one of its experiment, whose results a further log may repeat."""
    parts = [(getattr(log, part.name), getattr(first, part.name)) for part in fields(log)]
    return [value for value, earlier in parts if log is first or tasks_of(value) != tasks_of(earlier)]


def costs(*logs: Log) -> str:
    """Return the table of hours by command; `logs`: those of `steps_of_logs`, in order."""
    firsts: dict[Experiment, Log] = {}
    rows, total = [], 0.0
    for (experiment, _, words), log in zip(steps_of_logs(), logs, strict=True):
        if hours := seconds(own_parts(log, firsts.setdefault(experiment, log))) / 3600:
            rows.append([f"`{experiment.parser.prog} {' '.join(words)}`", f"{hours:.1f}"])
        total += hours
    rows.append(["all that is logged", f"{total:.0f}"])
    return markdown(["command", "core-hours"], rows)
