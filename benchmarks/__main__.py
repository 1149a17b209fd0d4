"""`python -m benchmarks NAME`: one of the measurements of speed, or `plot`; --help says what it can do."""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name)

import sys
from importlib import import_module

from highway_lab.cli import OneLineParser, run_cli

from .measures import Benchmark

NAMES = ("training_step", "conv_step", "estimators")
PLOT = "plot"  # the picture of the training step


def load(name: str) -> Benchmark:
    """Import the measurement of that name."""
    return import_module(f"benchmarks.{name}").BENCHMARK


def main(argv: list[str] | None = None) -> int:
    """Run the measurement that the first word names; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in NAMES:
        return load(argv[0]).main(argv[1:])
    if argv and argv[0] == PLOT:
        return import_module("benchmarks.training_step").plot(argv[1:])
    parser = OneLineParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("name", nargs="?", choices=(*NAMES, PLOT), metavar="NAME", help=", ".join((*NAMES, PLOT)))
    return run_cli(parser, lambda _: parser.print_help(), argv)
