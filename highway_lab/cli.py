"""What every command line of the project shares: errors in one line, exit codes, flags and their rules."""

import argparse
import dataclasses
import math
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO


class InputError(ValueError):
    """A file or an option that the user gave cannot be used; the message is one line and names the remedy."""


class Interrupted(Exception):
    """Work stopped early, through no fault of what was finished; the message says why and what is safe."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit code 2; flags cannot be abbreviated."""

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> None:
        self.exit(2, f"{self.prog}: error: {message}\n")


def run_cli(
    parser: OneLineParser, action: Callable[[argparse.Namespace], int | None], argv: Sequence[str] | None
) -> int:
    """Parse `argv` (else sys.argv), do `action`, and end as every program of the project ends; returns the exit code.

    `action` gets the arguments, `command_line` (as a log states it) among them, and returns an exit code or None for 0.
    An error of the user's is one line and 2; Ctrl-C or a polite kill (SIGTERM) is 130; work that was cut short
    otherwise is 1, and so is work whose output, or a part of it, could not be written: that ends nothing.
    """
    argv = sys.argv[1:] if argv is None else argv
    with unfailing_output() as outputs, sigterm_as_interrupt():
        arguments = parser.parse_args(argv)
        words = shlex.join([*parser.prog.split(), *argv])
        arguments.command_line = words.encode(errors="backslashreplace").decode()  # a log is to hold it
        try:
            code = action(arguments) or 0
        except InputError as error:
            parser.error(str(error))
        except MemoryError as error:
            parser.error(f"memory: expected enough, found: {error or 'none left'}; ask for less")
        except (Interrupted, KeyboardInterrupt) as stopped:
            with ignore_interrupts():  # whoever presses Ctrl-C twice is told no less
                print(f"\n{parser.prog}: interrupted{': ' * bool(str(stopped))}{stopped}", file=sys.stderr)
            code = exit_code(stopped)
        for output in outputs:
            output.flush()
    return code or int(any(output.failed for output in outputs))


class Unfailing:
    """A text stream that never raises: what cannot be written is lost, said once on the other stream, and remembered.

    Characters that its encoding lacks are escaped.
    """

    def __init__(self, stream: TextIO | None, name: str):
        self.stream, self.name = stream or open(os.devnull, "w"), name  # noqa: SIM115, as long as the program
        self.failed = False
        if hasattr(self.stream, "reconfigure"):
            self.stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self._try(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self.stream.flush)

    def _try(self, function: Callable, *arguments: str) -> None:
        try:
            function(*arguments)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())  # what is buffered goes there, too
            first, self.failed = not self.failed, True
            if first and not isinstance(error, BrokenPipeError):  # a reader that left, `head` say, has seen enough
                other = sys.stderr if self.name == "output" else sys.stdout
                print(f"{self.name} is lost from here on: {error.strerror}", file=other)


@contextmanager
def unfailing_output() -> Iterator[tuple[Unfailing, Unfailing]]:
    """Standard output and standard error as streams that never raise.

    One that is closed becomes the null device, for worker processes too; a file of ours might take its number else.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    outputs = Unfailing(sys.stdout, "output"), Unfailing(sys.stderr, "the list of errors")
    with redirect_stdout(outputs[0]), redirect_stderr(outputs[1]):
        try:
            yield outputs
        finally:
            for output in outputs:
                output.flush()


@contextmanager
def answered(number: signal.Signals, handler: Any) -> Iterator[None]:
    """A signal is answered so meanwhile; in a thread, which gets no signals, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


def sigterm_as_interrupt() -> AbstractContextManager:
    """SIGTERM is answered as Ctrl-C is."""
    return answered(signal.SIGTERM, signal.default_int_handler)


def ignore_interrupts() -> AbstractContextManager:
    """Ctrl-C does nothing meanwhile."""
    return answered(signal.SIGINT, signal.SIG_IGN)


def exit_code(stopped: BaseException | None) -> int:
    """0 for work that went to its end, 130 after Ctrl-C, 1 if it was cut short by anything else."""
    if stopped is None:
        return 0
    return 130 if isinstance(stopped, KeyboardInterrupt) or isinstance(stopped.__cause__, KeyboardInterrupt) else 1


def list_of_numbers(text: str) -> list[int]:
    """`5,10,20` or `0-19` as numbers; raises argparse's error for anything else, a repeated number included."""
    values = {}
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if bounds is None:
            raise argparse.ArgumentTypeError(f"expected numbers like 5,10,20 or 0-19, found {text!r}")
        found = range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1)
        if not found or not values.keys().isdisjoint(found):
            raise argparse.ArgumentTypeError(f"expected different numbers, found {text!r}")
        values |= dict.fromkeys(found)
    return list(values)


def name_numbers(values: Sequence[int]) -> str:
    """Numbers as `list_of_numbers` reads them: a run of four or more as its ends."""
    if len(values) > 3 and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]}-{values[-1]}"
    return ",".join(map(str, values))


def count(text: str) -> int:
    """A number of processes, rounds, ...; raises argparse's error for anything below 1."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}")
    return int(text)


# ----------------------------------------------------------------------------------- hyperparameters as flags

POSITIVE = (lambda value: 0 < value < math.inf, "a positive number")
ZERO_OR_MORE = (lambda value: 0 <= value < math.inf, "zero or a positive number")
BELOW_ONE = (lambda value: 0 <= value < 1, "a number in [0, 1)")
UNIT = (lambda value: 0 <= value <= 1, "a number in [0, 1]")
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
