"""`python -m benchmarks NAME`: one of the measurements of speed; --help says what it can do."""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name)

import sys
from importlib import import_module

from highway_lab.cli import OneLineParser, run_cli

NAMES = ("training_step", "conv_step", "estimators", "estimator_defaults", "article")
FIGURES = "training_step_figures"


def main(argv: list[str] | None = None) -> int:
    """Run the measurement that the first word names; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in (*NAMES, FIGURES):
        return import_module(f"benchmarks.{argv[0]}").main(argv[1:])
    parser = OneLineParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("name", choices=(*NAMES, FIGURES), metavar="NAME", help=", ".join((*NAMES, FIGURES)))
    return run_cli(parser, lambda arguments: None, argv)
