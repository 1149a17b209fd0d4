"""What the benchmarks' command lines share: how often to measure, where to write, and how they end."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from highway_networks import OneLineParser
from run_log import InputError, check_writable

Action = Callable[[argparse.Namespace, str], None]


def new_parser(name: str, description: str, rounds: int) -> OneLineParser:
    """A parser with the flags that every measurement has."""
    parser = OneLineParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help="turns of each (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there")
    return parser


def run(parser: OneLineParser, action: Action, argv: list[str] | None) -> int:
    """Parse, then `action(arguments, command)`; returns the exit code: 0, 2 for a user's error, 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    try:
        require_positive("--rounds", arguments.rounds)
        if arguments.json:
            check_writable(arguments.json)
        action(arguments, shlex.join([*parser.prog.split(), *argv]))
    except InputError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is written", file=sys.stderr)
        return 130
    return 0


def require_positive(flag: str, value: int) -> None:
    """Raise InputError, naming the flag, unless its value is 1 or more."""
    if value < 1:
        raise InputError(f"{flag}: expected 1 or more, found {value}; choose another")
