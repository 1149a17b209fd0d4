"""What the experiments' command lines share: `python -m experiments.NAME run|plot` and how it ends."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from highway_networks import DATASETS, Dataset, OneLineParser, choose_dataset, load_dataset
from run_log import InputError

from .resumable import Interrupted

Action = Callable[[argparse.Namespace], None]
ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT")


class Commands:
    """The sub-commands of one experiment, each with its flags and the function that carries it out."""

    def __init__(self, name: str, summary: str):
        self.name = f"python -m experiments.{name}"
        self.parser = OneLineParser(prog=self.name, description=summary)
        self.parsers = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(self, name: str, action: Action, help: str) -> argparse.ArgumentParser:
        """Add a sub-command; returns its parser, for its flags."""
        parser = self.parsers.add_parser(name, help=help, description=help)
        parser.set_defaults(action=action)
        return parser

    def main(self, argv: list[str] | None = None) -> int:
        """Carry out the sub-command; returns the exit code: 0, 1 if it was cut short, 2 for an error of the user's."""
        argv = sys.argv[1:] if argv is None else argv
        arguments = self.parser.parse_args(argv)
        arguments.command_line = shlex.join([*self.name.split(), *argv])
        try:
            arguments.action(arguments)
            sys.stdout.flush()
        except InputError as error:
            self.parser.error(str(error))
        except Interrupted as error:
            print(f"{self.name}: interrupted: {error}", file=sys.stderr)
            return 130 if isinstance(error.__cause__, KeyboardInterrupt) else 1
        except BrokenPipeError:  # whoever read our output, `head` say, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            print(f"\n{self.name}: interrupted", file=sys.stderr)
            return 130
        return 0


def count(text: str) -> int:
    """A number of processes; raises argparse's error for anything below 1."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {text!r}; use 1 or the number of cores")
    return int(text)


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """--dataset and --data-dir, as highway_networks.py has them, and --smoke."""
    parser.add_argument("--dataset", default="mnist", choices=("auto", *DATASETS), help="default: mnist")
    parser.add_argument("--data-dir", help="where data sets lie (default: $HIGHWAY_DATA_DIR, else ~/.cache)")
    parser.add_argument("--smoke", action="store_true", help="a budget of seconds on the digits, to see it work")


def load_data(arguments: argparse.Namespace) -> tuple[str, Dataset]:
    """Name and images of the data set that the flags ask for; the digits with --smoke."""
    name = "digits" if arguments.smoke else arguments.dataset
    if name == "auto":
        name = choose_dataset(arguments.data_dir)
    return name, load_dataset(name, arguments.data_dir)


def fit(budget: dict, data: Dataset) -> dict:
    """A budget's n_train and n_test, cut to the images that there are."""
    available = {"n_train": len(data.train_images), "n_test": len(data.test_images)}
    return budget | {name: min(budget[name], available[name]) for name in available}


def default_log(name: str, dataset: str, smoke: bool) -> Path:
    """runs/NAME.json is MNIST's; another data set's log is runs/NAME-DATASET.json, a smoke run's NAME-smoke.json."""
    suffix = "-smoke" if smoke else "" if dataset == "mnist" else f"-{dataset}"
    return Path("runs") / f"{name}{suffix}.json"


def figure_path(name: str, dataset: str) -> Path:
    """Where a picture goes: viz/ for MNIST, viz/DATASET/ for another data set."""
    return Path("viz", *([] if dataset == "mnist" else [dataset]), name)


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """What every `run` takes: the data flags and --jobs."""
    add_data_flags(parser)
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="local processes (default: 1)")


def add_plot_flags(parser: argparse.ArgumentParser, name: str) -> None:
    """What every `plot` takes: the log to draw."""
    parser.add_argument("log", nargs="?", type=Path, default=default_log(name, "mnist", False), help="%(default)s")


def group_by(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, list[ItemT]]:
    """Items with equal keys together, in their order; keys sorted."""
    groups: dict[KeyT, list[ItemT]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return dict(sorted(groups.items()))
