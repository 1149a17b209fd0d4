"""`python -m experiments`: list the experiments, and whether their logs and figures are there.

python -m experiments NAME run|plot   one of them; --help says what else it can do
python -m experiments run --jobs 2    run all of them, in order; resumable
python -m experiments plot            draw every figure whose logs are there, and the first one of the README
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name)

import argparse
import sys
from difflib import get_close_matches
from pathlib import Path

from highway_lab.cli import OneLineParser, add_picture_flags, count, picture_flags, run_cli

from .common import load

FIRST = ("depth_search",)  # which makes the net that others look into


MODULES = Path(__file__).parent.rglob("*.py")
STUDIES = sorted(path.stem for path in MODULES if "\nSTUDY = " in path.read_text(encoding="utf-8"))
NAMES = [*dict.fromkeys((*FIRST, *STUDIES))]


def show(_: argparse.Namespace) -> None:
    for name in NAMES:
        experiment = load(name)
        print(f"{name:<24} {experiment.doc}")
        for path in (*experiment.paths.values(), *(Path("viz") / figure for figure in experiment.figures)):
            print(f"{'':<24}   {'there  ' if path.exists() else 'missing'} {path}")


def run(arguments: argparse.Namespace) -> int:
    """Run all experiments up to the first that fails; returns the exit code."""
    for name in NAMES:
        experiment = load(name)
        for words in (["run", *(["--study", ending] if ending else [])] for ending in experiment.paths):
            print(f"\n== {name} {' '.join(words)}", flush=True)
            if code := experiment.main([*words, "--jobs", str(arguments.jobs)]):
                return code
    return 0


def plot(arguments: argparse.Namespace) -> int:
    """Draw the figures of every log that is there, up to the first that fails, and that of the README.

    Returns the exit code.
    """
    from highway_lab.figures import save_all

    from .three_panels import LOGS, PICTURE, figure

    flags = picture_flags(arguments)
    words = [f"--{name}={value}" for name, value in flags.items() if value]
    for experiment in map(load, NAMES):
        if not experiment.existing_logs():
            print(f"no log, no figure: {experiment.parser.prog} run makes it", file=sys.stderr)
        elif code := experiment.main(["plot", *words]):
            return code
    if all(map(Path.exists, LOGS)):
        print(*map("drew {}".format, save_all({PICTURE.name: figure}, PICTURE.parent, *LOGS, **flags)))
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the command line, of one experiment if its first word names one; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in NAMES:
        return load(argv[0]).main(argv[1:])
    parser = OneLineParser(prog="python -m experiments", description="The paper's figures and questions.")
    parser.set_defaults(action=show)
    commands = parser.add_subparsers(dest="command", metavar="NAME|plot|run")
    command = commands.add_parser("plot", help="draw every figure")
    command.set_defaults(action=plot)
    add_picture_flags(command)
    command = commands.add_parser("run", help="run them all")
    command.set_defaults(action=run)
    command.add_argument("--jobs", type=count, default=1, metavar="N", help="local processes")
    if argv and argv[0] not in (*commands.choices, "") and not argv[0].startswith("-"):
        near = ", ".join(get_close_matches(argv[0], NAMES, n=3, cutoff=0))
        parser.error(f"NAME: expected an experiment, such as {near}, found {argv[0]}; {parser.prog} lists them all")
    return run_cli(parser, lambda arguments: arguments.action(arguments), argv)
