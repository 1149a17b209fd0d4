"""Command lines: errors in one line, exit codes, flags from a dataclass of hyperparameters and their rules."""

import argparse
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from highway_lab import Interrupted, __version__
from highway_lab.files import as_path, check_suffix, printable
from highway_lab.logs import TABLES, environment, imported
from highway_networks import ArgumentError, InputError, type_of

# Of an entry in TABLES: it becomes a part of the names of files, and of labels. --block both and --schedule 0.5 mean
# others.
NAME = re.compile(r"(?!(both|[\d.]+(e-\d+)?)$)\w[\w.+-]{0,39}")
HOME = re.compile("^(--[^=]+=|)(~.*)", re.DOTALL)  # a folder that the shell leaves if it is quoted, or behind =


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, exit code 2; flags cannot be abbreviated.

    `prog` is the words that start the program, quoted as for a shell.
    """

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, **options)
        self.add_argument("--version", action="version", version=f"highway-networks {__version__}")
        text = "import this file first, for its blocks, losses and nets; may be repeated"
        self.add_argument("--import", action="append", metavar="FILE.py", default=argparse.SUPPRESS, help=text)
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf|nan)")  # -1e30 is a value, as from Python 3.14 on

    def error(self, message: str) -> NoReturn:
        if message == "the following arguments are required: COMMAND":
            message += f", one of {', '.join(next(self.sub_commands()))}"
        unknown = re.match("unrecognized arguments: (--[^ =]+)", message)
        parsers = [self, *(of for named in self.sub_commands() for of in named.values())]
        flags = {flag for of in parsers for flag in of._option_string_actions}
        others = flags - {unknown[1]} if unknown else []  # the same one may be of another sub-command
        near = get_close_matches(unknown[1], others, 1, 0.7) if unknown else []
        self.exit(2, f"{self.prog}: error: {printable(message)}{''.join(f'; is {of} meant?' for of in near)}\n")

    def sub_commands(self) -> Iterator[dict[str, "OneLineParser"]]:
        yield from (of.choices for of in self._actions if isinstance(of, argparse._SubParsersAction))


def run_cli(
    parser: OneLineParser, action: Callable[[argparse.Namespace], int | None], argv: Sequence[str] | None
) -> int:
    """Parse `argv` (else sys.argv), call `action` with the arguments, and return the exit code.

    `arguments.command_line` is the command as a log states it; `arguments.to_continue` starts it again without --fresh,
    which would forget what is safe. Exit codes: that of `action` (None is 0); 2 for an InputError, and for an OSError
    that nobody foresaw, told in one line; 130 for Ctrl-C, SIGTERM or SIGHUP; 1 for work that stopped early for another
    reason.
    """
    if _importing:
        raise InputError('expected `if __name__ == "__main__":` above the call of main, found none; add it')
    argv = sys.argv[1:] if argv is None else argv
    with ended_as_by_ctrl_c():
        try:
            if empty := [word for word in argv if not word or (word.startswith("--") and word.endswith("="))]:
                found = f"expected none that is empty, found {empty[0]!r}"  # of a path it would mean this folder
                raise InputError(f"arguments: {found}; give it a value, or leave it out")
            words = [HOME.sub(lambda found: f"{found[1]}{as_path(found[2])}", word) for word in argv]
            first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
            first.add_argument("--import", action="append", dest="files", default=[], nargs="?")
            for file in filter(None, first.parse_known_args(words)[0].files):  # the other words may use what they add
                if file not in imported:
                    import_file(file)
            check_names()
            arguments = parser.parse_args(words)
            arguments.command_line = " ".join([parser.prog, *map(quote, argv)])
            arguments.to_continue = " ".join([parser.prog, *(quote(word) for word in argv if word != "--fresh")])
            code = action(arguments) or 0
            sys.stdout.flush()
        except InputError as error:
            flags = re.sub(r"`(\w+)`", lambda found: flag(found[1]), str(error))  # in place of the names of arguments
            parser.error(flags if isinstance(error, ArgumentError) else str(error))
        except MemoryError as error:
            parser.error(f"memory: expected enough, found: {str(error) or 'none left'}; ask for less")
        except BrokenPipeError:  # whoever read the output, such as `head`, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
            code = 1
        except OSError as error:  # of a file or folder that was fine when it was checked
            found = f"expected a usable one, found: {error.strerror or error}"
            parser.error(f"{error.filename or 'files'}: {found}; check the path, its permissions and the disk")
        except (Interrupted, KeyboardInterrupt) as stopped:
            with ignore_interrupts():  # a second Ctrl-C must not cut the message short
                reason = printable(str(stopped))
                print(f"\n{parser.prog}: interrupted{': ' * bool(reason)}{reason}", file=sys.stderr)
            code = 130 if KeyboardInterrupt in (type(stopped), type(stopped.__cause__)) else 1
    return code


def import_file(file: str, flag: str = "--import") -> None:
    """Import a user's file that a flag names, unless it is the program that runs; raises InputError.

    Its folder joins Python's path.
    """
    path, program = Path(file), getattr(sys.modules["__main__"], "__file__", None) or os.devnull
    check_suffix(flag, path, "block.py")
    if not path.is_file():
        found = "something else" if path.exists() else "none"
        raise InputError(f"{flag}: expected a file at {file}, found {found}; check the path")
    try:
        if not os.path.samefile(path, program):
            sys.path.append(str(path.parent.absolute()))
            _importing.append(None)
            try:
                found = getattr(importlib.import_module(path.stem), "__file__", None) or os.devnull
            finally:
                _importing.pop()
            if not os.path.samefile(path, found):
                raise InputError(f"expected a name that no other module has, found that of {found}; rename it")
            check_names()
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the file raises
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{file}: expected a file that can be imported, found: {reason}; mend or rename it") from error
    imported.append(file)
    environment.cache_clear()  # the file is part of the code


_importing: list[None] = []  # as many as files are being imported: a command in them would start in every process


def check_names() -> None:
    """Raise InputError unless the tables hold what they should, by names that files can have."""
    for table, (entries, kind) in TABLES.items():
        for name, entry in entries.items():
            if not (isinstance(name, str) and NAME.fullmatch(name) and isinstance(entry, kind)):
                rule = "a name of up to 40 letters, digits and ._+-, no number and not both"
                expected = f"expected a {kind.__name__} by {rule}"
                raise InputError(f"{table}: {expected}, found {name!r:.60}: {entry!r:.40}; mend it")


def import_words(files: Sequence[str]) -> str:
    """Return the words of a command line that import these files, each after a space."""
    return "".join(f" --import {quote(file)}" for file in files)


def quote(word: str | os.PathLike) -> str:
    """Return a word as a shell takes it, that of this system, in one line."""
    text = os.fspath(word)
    return printable(subprocess.list2cmdline([text]) if sys.platform == "win32" else shlex.quote(text))


@contextmanager
def signal_handler(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Set the handler of signals for a while; do nothing in a thread, which receives no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in previous.items():
            signal.signal(number, former)


SIGHUP = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none


def ended_as_by_ctrl_c() -> AbstractContextManager:
    """Let SIGTERM and, unless `nohup` ignores it, the end of the terminal interrupt this process for a while."""
    numbers = [signal.SIGTERM, *(of for of in SIGHUP if signal.getsignal(of) is not signal.SIG_IGN)]
    return signal_handler(signal.default_int_handler, *numbers)


def ignore_interrupts() -> AbstractContextManager:
    return signal_handler(signal.SIG_IGN, signal.SIGINT, *SIGHUP)


MOST_NUMBERS = 10**6  # from one to another


def list_of(kind: type) -> Callable[[str], list]:
    """Return a parser of different values of a kind, separated by commas; of whole numbers also of `0-19`."""
    like = "5,10,20 or 0-19" if kind is int else "0.1,-2 without spaces"

    def parse(text: str) -> list:
        values: list = []
        for part in text.split(","):
            bounds = re.fullmatch(r"(\d{1,18})-(\d{1,18})", part) if kind is int else None
            try:
                found = range(int(bounds[1]), int(bounds[2]) + 1) if bounds else [kind(part)]
            except ValueError:
                raise argparse.ArgumentTypeError(f"expected numbers like {like}, found {text!r}") from None
            if len(found) > MOST_NUMBERS:
                raise argparse.ArgumentTypeError(f"expected at most {MOST_NUMBERS:,} numbers, found {part!r}")
            if not found or not {*found}.isdisjoint(values):
                raise argparse.ArgumentTypeError(f"expected different values, found {text!r}")
            values += found
        return values

    return parse


def count(text: str) -> int:
    """Parse a number of processes, rounds, ...; raise argparse's error for anything but 1 to 999999."""
    if not re.fullmatch(r"0*[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 999999, found {text!r:.40}")
    return int(text)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


FORMATS = ("png", "pdf", "svg")  # of pictures


def add_picture_flags(parser: argparse.ArgumentParser) -> None:
    text = "folder of the pictures, or a file named like one of them (default: viz, or a folder below it)"
    parser.add_argument("--out", type=Path, metavar="FOLDER|FILE", help=text)
    parser.add_argument("--format", choices=FORMATS, help="default: that of --out, if it is a file, else png")


def picture_flags(given: argparse.Namespace) -> dict[str, Any]:
    """Return what the flags of `add_picture_flags` say, as `save_all` takes it."""
    return {name: getattr(given, name) for name in ("out", "format")}


# What all runs of a log share: its samples, axes and scores. The values of a schedule may have commas.
ALIKE = ("loss", "schedule", "epochs", "n_train", "n_validation", "n_scored", "n_test")
PLURAL = ("depth", "seed")  # whose flags may also end with an s


def add_hyperparameters(parser: argparse.ArgumentParser, config: type, leave_out: Collection[str] = ()) -> None:
    """Add a flag for each field of a dataclass of hyperparameters; a flag that is not given sets no attribute.

    It sets a list of values, unless it is a switch or all runs of a log share the value.
    """
    for field in fields(config):
        name, parse = field.name, type_of(field)
        kind: dict[str, Any] = {"type": list_of(parse), "metavar": f"{name.upper()},..."}
        if parse is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        elif name in ALIKE:
            kind = {"type": parse}
        if name not in leave_out:
            words = [flag(name), *[f"{flag(name)}s"] * (name in PLURAL)]
            text = f"{field.metadata['help']} (default: {field.default})"
            parser.add_argument(*words, **kind, default=argparse.SUPPRESS, help=text)
