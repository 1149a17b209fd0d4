"""`python -m experiments`: list the experiments, and whether their logs and figures are there.

python -m experiments NAME run|plot   one of them; --help says what else it can do
python -m experiments run --jobs 2    run all of them, in order; resumable
python -m experiments plot            draw every figure whose log is there
python -m experiments three_panels    draw the first one of the README
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name)

import argparse
import re
import sys
from difflib import get_close_matches
from pathlib import Path

from highway_lab.cli import OneLineParser, add_picture_flags, count, picture_flags, run_cli
from highway_networks import InputError

from .common import load
from .quotes import quotes

FIRST_PICTURE = "three_panels"  # of the README
FIRST = ("depth_search", "cifar_net", "conv_tables")  # which make the nets that others look into


def modules_with(name: str) -> list[str]:
    """Return the last names of the modules of this package that define a name, sorted."""
    paths = Path(__file__).parent.rglob("*.py")
    return sorted(path.stem for path in paths if f"\n{name} = " in path.read_text(encoding="utf-8"))


STUDIES = modules_with("STUDY")  # whose commands and logs are those of every study
NAMES = [*dict.fromkeys((*FIRST, *STUDIES))]


def show(_: argparse.Namespace) -> None:
    for name in NAMES:
        experiment = load(name)
        print(f"{name:<24} {experiment.doc}")
        for path in (*experiment.log_steps(), *(Path("viz") / figure for figure in experiment.figures)):
            print(f"{'':<24}   {'there  ' if path.exists() else 'missing'} {path}")
    print(f"{FIRST_PICTURE:<24} Draw the first picture of the README.")


def run(arguments: argparse.Namespace) -> int:
    """Run all experiments up to the first that fails; returns the exit code."""
    for name in NAMES:
        experiment = load(name)
        for words in experiment.log_steps().values():
            print(f"\n== {name} {' '.join(words)}", flush=True)
            if code := experiment.main([*words, "--jobs", str(arguments.jobs)]):
                return code
    return 0


def plot(arguments: argparse.Namespace) -> int:
    """Draw the figures of every log that is there, up to the first that fails, and that of the README.

    Returns the exit code.
    """
    from highway_lab.figures import places

    from . import three_panels

    flags, experiments = picture_flags(arguments), [*map(load, NAMES)]
    names = [three_panels.PICTURE.name, *(name for of in experiments for name in of.figures)]
    places(names, Path("viz"), flags["out"], flags["format"])  # a file is none for all
    words = [f"--{name}={value}" for name, value in flags.items() if value]
    for experiment in experiments:
        if not experiment.existing_logs():
            print(f"no log, no figure: {experiment.parser.prog} run makes it", file=sys.stderr)
        elif code := experiment.main(["plot", *words]):
            return code
    if all(map(Path.exists, three_panels.LOGS)):
        plot_first(arguments)
    return 0


def plot_first(arguments: argparse.Namespace) -> None:
    """Draw the first picture of the README."""
    from highway_lab.figures import save_all

    from . import three_panels

    if missing := [path for path in three_panels.LOGS if not path.exists()]:
        command = f"python -m experiments {missing[0].stem.partition('-')[0]} run"
        raise InputError(f"{missing[0]}: expected a log, found none; make it with: {command}, or restore it")
    picture = {three_panels.PICTURE.name: three_panels.figure}
    made = save_all(picture, three_panels.PICTURE.parent, *three_panels.LOGS, **picture_flags(arguments))
    print(*map("drew {}".format, made))


def known_names(word: str) -> list[str]:
    """Return the experiments that a page quotes if the word names one, else those whose names are most like it."""
    pages = [page for page in Path(__file__).parent.glob("*.md") if page.stem == word and page.is_file()]
    quoted = [source for page in pages for source, _ in quotes(page.read_text("utf-8", errors="replace"))]
    of_page = [*dict.fromkeys(source for source in quoted if source in NAMES)]
    return of_page or get_close_matches(word, [*NAMES, FIRST_PICTURE], n=3, cutoff=0)


def main(argv: list[str] | None = None) -> int:
    """Run the command line, of one experiment if its first word names one; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    # Package and room may be named, too, or the file of the experiment, of its log or of its page.
    name = re.split("[./]", re.sub(r"\.(py|json|md)$", "", argv[0].replace("-", "_").lower()))[-1] if argv else ""
    if name in NAMES:
        return load(name).main(argv[1:])
    if name == FIRST_PICTURE:
        argv = [name, *argv[1:]]
    parser = OneLineParser(prog="python -m experiments", description="The paper's figures and questions.")
    parser.set_defaults(action=show)
    commands = parser.add_subparsers(dest="command", metavar="NAME|plot|run|three_panels")
    command = commands.add_parser("plot", help="draw every figure")
    command.set_defaults(action=plot)
    add_picture_flags(command)
    command = commands.add_parser(FIRST_PICTURE, help="draw the first picture of the README")
    command.set_defaults(action=plot_first)
    add_picture_flags(command)
    command = commands.add_parser("run", help="run them all")
    command.set_defaults(action=run)
    command.add_argument("--jobs", type=count, default=1, metavar="N", help="local processes")
    if argv and argv[0] not in (*commands.choices, "") and not argv[0].startswith("-"):
        found = f"expected that of an experiment, such as {', '.join(known_names(name))}, found {argv[0]}"
        parser.error(f"NAME: {found}; {parser.prog} lists them all")
    return run_cli(parser, lambda arguments: arguments.action(arguments), argv)
