"""Parts that all measurements share: their command and log, and medians with quartiles."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab.cli import OneLineParser, count, run_cli
from highway_lab.commands import add_replace
from highway_lab.fields import NotNegative
from highway_lab.files import check_output
from highway_lab.logs import Log, read, read_any, write
from highway_networks import rounded


@dataclass(frozen=True)
class Benchmark:
    """A measurement: `python -m benchmarks NAME` makes a log of this schema, by the function that measures.

    numbers     makes of a log what the page quotes
    rounds      turns of each contender, for a measurement that has turns
    contenders  those that may be left out
    """

    name: str
    schema: type[Log]
    measure: Callable[[argparse.Namespace], Log]
    numbers: Callable[[Any], dict[str, Any]]
    rounds: int | None = None
    contenders: Collection[str] = ()

    @property
    def log_path(self) -> Path:
        """Path of the committed log."""
        return Path(f"benchmarks/{self.name}.json")

    def read(self, path: Path) -> Any:
        """Read a log; raises InputError."""
        return read(path, self.schema, f"make it with: python -m benchmarks {self.name} --json {path}")

    def quoted(self) -> dict[str, Any]:
        """Return the numbers of the committed log, which the page quotes."""
        return self.numbers(self.read(self.log_path))

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command line, and write the log if one is asked for; returns the exit code."""
        parser = OneLineParser(prog=f"python -m benchmarks {self.name}", description=self.measure.__doc__)
        parser.add_argument("--json", type=Path, metavar="PATH", help="write the log there")
        add_replace(parser)
        if self.rounds:
            parser.add_argument("--rounds", type=count, default=self.rounds, metavar="N", help="of each, %(default)s")
        if self.contenders:
            names = self.contenders
            parser.add_argument("--only", nargs="+", choices=names, default=names, help="beside ours, only these")
        return run_cli(parser, self.run, argv)

    def run(self, arguments: argparse.Namespace) -> None:
        """Measure, and write the log."""
        path = arguments.json
        if path:
            is_own = partial(read_any, path, self.schema)
            check_output("--json", path, f"{self.name}.json", arguments.replace, is_own)
        if not hasattr(os, "sched_setaffinity"):
            left_out = "JAX is not held to its number of threads, and no memory is measured"
            print(f"MISSING affinity and /proc, which Linux has: {left_out}", file=sys.stderr)
        log = self.measure(arguments)
        if path:
            write(path, log)
            print(f"saved {path}")


@dataclass
class Spread:
    """Median and quartiles of repeated measurements."""

    low: NotNegative
    median: NotNegative
    high: NotNegative

    def __str__(self) -> str:
        """Return `median (low–high)`, each number with three digits."""
        return f"{self.median:.3g} ({self.low:.3g}–{self.high:.3g})"


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles, rounded to four digits."""
    return Spread(*(rounded(quartile, 4) for quartile in np.quantile(values, (0.25, 0.5, 0.75))))
