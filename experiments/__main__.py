"""`python -m experiments`: what each experiment answers, and whether its log and its figures are there.

python -m experiments run --jobs 2    all of them, in order; resumable
python -m experiments plot            every figure whose log is there
"""

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

from highway_networks import OneLineParser

from .command_line import count, default_log

STEPS = {  # in an order in which each finds what it builds on
    "depth_search": ("run", "best"),
    "gate_maps": ("run",),
    "class_routing": ("run",),
    "lesions": ("run",),
    "very_deep": ("run",),
    "blocks_compared": ("run",),
}


def module(name: str) -> ModuleType:
    """The experiment's module; imported when it is needed, as some are slow to import."""
    return importlib.import_module(f"experiments.{name}")


def show() -> int:
    """List the experiments."""
    for name in STEPS:
        log = default_log(name, "mnist", smoke=False)
        figures = [Path("viz") / figure for figure in module(name).FIGURES]
        print(f"{name:<16} {module(name).__doc__.splitlines()[0]}")
        for path in (log, *figures):
            print(f"{'':<16}   {'there  ' if path.exists() else 'missing'} {path}")
    return 0


def run(jobs: int) -> int:
    """Run all experiments; stops at the first that does not end well, and returns its exit code."""
    for name, steps in STEPS.items():
        for step in steps:
            print(f"\n== {name} {step}", flush=True)
            code = module(name).commands().main([step, "--jobs", str(jobs)])
            if code:
                return code
    return 0


def plot() -> int:
    """Draw the figures of every log that is there."""
    for name in STEPS:
        if default_log(name, "mnist", smoke=False).exists():
            module(name).commands().main(["plot"])
        else:
            print(f"no log, no figure: python -m experiments.{name} run makes it", file=sys.stderr)
    return 0


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = OneLineParser(prog="python -m experiments", description="The paper's figures and questions.")
    commands = parser.add_subparsers(dest="command")
    for name, help in (("list", "list the experiments"), ("plot", "draw every figure"), ("run", "run them all")):
        command = commands.add_parser(name, help=help)
        if name == "run":
            command.add_argument("--jobs", type=count, default=1, metavar="N", help="local processes")
    arguments: argparse.Namespace = parser.parse_args(argv)
    if arguments.command == "run":
        return run(arguments.jobs)
    return plot() if arguments.command == "plot" else show()


if __name__ == "__main__":
    sys.exit(main())
