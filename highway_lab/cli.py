"""Command lines: errors in one line, exit codes, flags from a dataclass of hyperparameters and their rules."""

import argparse
import dataclasses
import math
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from highway_lab import InputError, Interrupted
from highway_lab.console import unfailing_output


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit code 2; flags cannot be abbreviated."""

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def run_cli(
    parser: OneLineParser, action: Callable[[argparse.Namespace], int | None], argv: Sequence[str] | None
) -> int:
    """Parse `argv` (else sys.argv), call `action` with the arguments, and return the exit code.

    `arguments.command_line` is the command as a log states it. Exit codes: that of `action` (None is 0); 2 for an
    InputError, told in one line; 130 for Ctrl-C or SIGTERM; 1 for work that stopped early for another reason, and for
    work that is complete but whose output could not be written.
    """
    argv = sys.argv[1:] if argv is None else argv
    with unfailing_output() as outputs, signal_handler(signal.SIGTERM, signal.default_int_handler):
        arguments = parser.parse_args(argv)
        words = shlex.join([*parser.prog.split(), *argv])
        arguments.command_line = words.encode(errors="backslashreplace").decode()  # a log can hold only valid text
        try:
            code = action(arguments) or 0
        except InputError as error:
            parser.error(str(error))
        except MemoryError as error:
            parser.error(f"memory: expected enough, found: {error or 'none left'}; ask for less")
        except (Interrupted, KeyboardInterrupt) as stopped:
            with ignore_interrupts():  # a second Ctrl-C must not cut the message short
                print(f"\n{parser.prog}: interrupted{': ' * bool(str(stopped))}{stopped}", file=sys.stderr)
            code = 130 if KeyboardInterrupt in (type(stopped), type(stopped.__cause__)) else 1
        for output in outputs:
            output.flush()
    return code or int(any(output.failed for output in outputs))


@contextmanager
def signal_handler(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Set the handler of a signal for a while; do nothing in a thread, which receives no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


def ignore_interrupts() -> AbstractContextManager:
    return signal_handler(signal.SIGINT, signal.SIG_IGN)


def list_of_numbers(text: str) -> list[int]:
    """Parse `5,10,20` or `0-19`; raise argparse's error for anything else, repeated numbers included."""
    values: dict[int, None] = {}
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if bounds is None:
            raise argparse.ArgumentTypeError(f"expected numbers like 5,10,20 or 0-19, found {text!r}")
        found = range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1)
        if not found or not values.keys().isdisjoint(found):
            raise argparse.ArgumentTypeError(f"expected different numbers, found {text!r}")
        values |= dict.fromkeys(found)
    return list(values)


def count(text: str) -> int:
    """Parse a number of processes, rounds, ...; raise argparse's error for anything below 1."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}")
    return int(text)


POSITIVE = (lambda value: 0 < value < math.inf, "a positive number")
ZERO_OR_MORE = (lambda value: 0 <= value < math.inf, "zero or a positive number")
BELOW_ONE = (lambda value: 0 <= value < 1, "a number in [0, 1)")
UNIT = (lambda value: 0 <= value <= 1, "a number in [0, 1]")
UP_TO_ONE = (lambda value: 0 < value <= 1, "a number in (0, 1]")
FINITE = (math.isfinite, "a finite number")
Rule = tuple[Callable[[Any], bool], str | Collection[str]]  # a test of a value; its name, or the table of all values


def one_of(table: Collection[str]) -> Rule:
    """Make the rule that a value is a name in the table, to which names may be added later."""
    return (lambda value: value in table, table)


def hyperparameter(default: Any, help: str, rule: Rule | None = None) -> Any:
    """Make a field of a dataclass of hyperparameters: its default, its meaning, and the rule for its values."""
    return dataclasses.field(default=default, metadata={"help": help, "rule": rule})


def check_hyperparameters(config: Any) -> None:
    """Raise InputError if a field of the dataclass breaks its rule."""
    for field in dataclasses.fields(config):
        value, rule = getattr(config, field.name), field.metadata["rule"]
        if rule and not rule[0](value):
            expected = rule[1] if isinstance(rule[1], str) else "one of " + ", ".join(rule[1])
            raise InputError(f"{flag(field.name)}: expected {expected}, found {value}; choose another")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def add_hyperparameters(parser: argparse.ArgumentParser, config: type, leave_out: Collection[str] = ()) -> None:
    """Add a flag for each field of a dataclass of hyperparameters; a flag that is not given sets no attribute."""
    for field in dataclasses.fields(config):
        if field.name not in leave_out:
            kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
            text = f"{field.metadata['help']} (default: {field.default})"
            parser.add_argument(flag(field.name), **kind, default=argparse.SUPPRESS, help=text)
