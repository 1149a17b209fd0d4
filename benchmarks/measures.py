"""What the measurements share: their flags, how they end, medians with their spread."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from highway_lab.cli import InputError, OneLineParser, count, run_cli
from highway_lab.files import check_writable
from highway_lab.logs import Log, number, write

KERNELS = "OPENBLAS_CORETYPE"  # the environment variable that tells OpenBLAS which to take, when NumPy loads


def new_parser(name: str, description: str, rounds: int) -> OneLineParser:
    """A parser with the flags that every measurement has."""
    parser = OneLineParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--rounds", type=count, default=rounds, metavar="N", help=f"turns of each (default: {rounds})")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the log there")
    return parser


def run(parser: OneLineParser, measure: Callable[[argparse.Namespace], Log], argv: Sequence[str] | None) -> int:
    """Parse, `measure`, and write its log if one is asked for; returns the exit code."""

    def measure_and_write(arguments: argparse.Namespace) -> None:
        if sys.platform != "linux":
            raise InputError(
                f"benchmarks: expected Linux's accounts of processes, found {sys.platform}; run them there"
            )
        if arguments.json:
            check_writable(arguments.json)
        if KERNELS in os.environ:
            print(f"WARNING {KERNELS} is set: these are not the kernels that a user gets; unset it", file=sys.stderr)
        log = measure(arguments)
        if arguments.json:
            write(arguments.json, log)
            print(f"saved {arguments.json}")

    return run_cli(parser, measure_and_write, argv)


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
