"""What the benchmarks report: medians with their spread, peak memory, and targets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from run_log import number


@dataclass
class Spread:
    """Median and quartiles of repeated measurements."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g}–{self.high:.3g})"


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles, rounded as logs are."""
    return Spread(*(number(quartile, 4) for quartile in np.quantile(values, (0.25, 0.5, 0.75))))


class Target(NamedTuple):
    """A figure that has been measured (None: it has not been) and what it is to be at most."""

    what: str
    found: float | None
    limit: float


def describe(targets: Iterable[Target]) -> str:
    """Targets as a table."""
    lines = [f"{'target':<52}{'at most':>9}{'found':>9}"]
    for what, found, limit in targets:
        verdict = "not measured" if found is None else f"{found:>9.3g}  {'reached' if found <= limit else 'MISSED'}"
        lines.append(f"{what:<52}{limit:>9g}{verdict}")
    return "\n".join(lines)


def peak_mib() -> float:
    """The most memory that this process has held, in MiB.

    From /proc: what getrusage tells includes the parent's memory at the fork.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return round(kib / 1024, 1)
