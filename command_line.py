"""What every command line of the project shares: errors in one line, exit codes, flags and their rules."""

import argparse
import dataclasses
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any


class InputError(ValueError):
    """A file or an option that the user gave cannot be used; the message is one line and names the remedy."""


class Interrupted(Exception):
    """Work stopped early, through no fault of what was finished; the message says why and what is safe."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as every error of this project is; exit code 2."""

    def error(self, message: str) -> None:
        self.exit(2, f"{self.prog}: error: {message}\n")


def carry_out(
    parser: OneLineParser, action: Callable[[argparse.Namespace], int | None], argv: Sequence[str] | None
) -> int:
    """Parse `argv` (else sys.argv), do `action`, and end as every program of the project ends; returns the exit code.

    `action` gets the arguments, `command_line` (as a log states it) among them, and returns an exit code or None for 0.
    An error of the user's is one line and 2; Ctrl-C is 130; work that was cut short otherwise, or whose reader left, 1.
    """
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    arguments.command_line = shlex.join([*parser.prog.split(), *argv])
    try:
        code = action(arguments) or 0
        sys.stdout.flush()
        return code
    except InputError as error:
        parser.error(str(error))
    except BrokenPipeError:  # whoever read our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Interrupted, KeyboardInterrupt) as stopped:
        print(f"\n{parser.prog}: interrupted{': ' * bool(str(stopped))}{stopped}", file=sys.stderr)
        return exit_code(stopped)


def exit_code(stopped: BaseException | None) -> int:
    """0 for work that went to its end, 130 after Ctrl-C, 1 if it was cut short by anything else."""
    if stopped is None:
        return 0
    return 130 if isinstance(stopped, KeyboardInterrupt) or isinstance(stopped.__cause__, KeyboardInterrupt) else 1


def list_of_numbers(text: str) -> list[int]:
    """`5,10,20` as numbers; raises argparse's error for anything else, a repeated number included."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected integers like 5,10,20, found {text!r}") from None
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"expected different integers, found {text!r}")
    return values


def count(text: str) -> int:
    """A number of processes, rounds, ...; raises argparse's error for anything below 1."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}")
    return int(text)


# ----------------------------------------------------------------------------------- hyperparameters as flags

POSITIVE = (lambda value: 0 < value < math.inf, "a positive number")
ZERO_OR_MORE = (lambda value: 0 <= value < math.inf, "zero or a positive number")
BELOW_ONE = (lambda value: 0 <= value < 1, "a number in [0, 1)")
UP_TO_ONE = (lambda value: 0 < value <= 1, "a number in (0, 1]")
FINITE = (math.isfinite, "a finite number")
Rule = tuple[Callable[[Any], bool], str]  # what a value must satisfy, and how to say so


def one_of(table: Collection[str]) -> Rule:
    """The rule that a value is a name in the table."""
    return (lambda value: value in table, "one of " + ", ".join(table))


def hyperparameter(default: Any, help: str, rule: Rule | None = None) -> Any:
    """A field of a dataclass of hyperparameters: its default, its meaning, and the rule for its values."""
    return dataclasses.field(default=default, metadata={"help": help, "rule": rule})


def check_hyperparameters(config: Any) -> None:
    """Raise InputError if a field of the dataclass breaks its rule."""
    for field in dataclasses.fields(config):
        value, rule = getattr(config, field.name), field.metadata["rule"]
        if rule and not rule[0](value):
            raise InputError(f"{flag(field.name)}: expected {rule[1]}, found {value}; choose another")


def flag(name: str) -> str:
    """A field's name as the command line spells it."""
    return "--" + name.replace("_", "-")


def add_hyperparameters(parser: argparse.ArgumentParser, config: type, leave_out: Collection[str] = ()) -> None:
    """A flag for each field of a dataclass of hyperparameters; one that is not given leaves no attribute behind."""
    for field in dataclasses.fields(config):
        if field.name not in leave_out:
            kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
            text = f"{field.metadata['help']} (default: {field.default})"
            parser.add_argument(flag(field.name), **kind, default=argparse.SUPPRESS, help=text)
