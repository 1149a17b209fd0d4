"""Parts that all measurements share: their command, and medians with quartiles."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from highway_lab.cli import OneLineParser, count, run_cli
from highway_lab.commands import add_replace
from highway_lab.fields import NotNegative
from highway_lab.files import check_replaceable, check_suffix, check_writable
from highway_lab.logs import Log, read_any, write
from highway_networks import InputError, rounded

KERNELS = "OPENBLAS_CORETYPE"  # the environment variable that tells OpenBLAS which kernels to take when NumPy loads


def run(
    name: str,
    measure: Callable[[argparse.Namespace], Log],
    argv: Sequence[str] | None = None,
    *,
    rounds: int | None = None,
    contenders: Collection[str] = (),
) -> int:
    """Run a measurement's command line, and write the log if one is asked for; return the exit code.

    `rounds`: turns of each contender, for a measurement that has turns; `contenders`: those that may be left out.
    """
    parser = OneLineParser(prog=f"python -m benchmarks {name}", description=measure.__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the log there")
    add_replace(parser)
    if rounds:
        parser.add_argument("--rounds", type=count, default=rounds, metavar="N", help="turns of each, %(default)s")
    if contenders:
        parser.add_argument("--only", nargs="+", choices=contenders, default=contenders, help="beside ours, only these")

    def measure_and_write(arguments: argparse.Namespace) -> None:
        if sys.platform != "linux":
            raise InputError(f"benchmarks: expected Linux, found {sys.platform}; run them there")
        if arguments.json:
            check_suffix("--json", arguments.json, f"{name}.json")
            check_writable(arguments.json)
            schema = measure.__annotations__["return"]  # whatever rounds and contenders the log that is there has
            check_replaceable(arguments.json, lambda: read_any(arguments.json, schema) is not None, arguments.replace)
        if KERNELS in os.environ:
            print(f"WARNING {KERNELS} is set: users get other kernels; unset it", file=sys.stderr)
        log = measure(arguments)
        if arguments.json:
            write(arguments.json, log)
            print(f"saved {arguments.json}")

    return run_cli(parser, measure_and_write, argv)


@dataclass
class Spread:
    """Median and quartiles of repeated measurements."""

    low: NotNegative
    median: NotNegative
    high: NotNegative

    def __format__(self, form: str) -> str:
        """Return `median (low–high)`, each number in this format (by default three digits)."""
        low, median, high = (format(value, form or ".3g") for value in (self.low, self.median, self.high))
        return f"{median} ({low}–{high})"

    def __str__(self) -> str:
        return format(self)


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles, rounded to four digits."""
    return Spread(*(rounded(quartile, 4) for quartile in np.quantile(values, (0.25, 0.5, 0.75))))
