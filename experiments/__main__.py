"""`python -m experiments`: list the experiments, and whether their logs and figures are there.

python -m experiments NAME run|plot   one of them; --help says what else it can do
python -m experiments run --jobs 2    run all of them, in order; resumable
python -m experiments plot            draw every figure whose log is there
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name)

import argparse
import re
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from highway_lab.cli import OneLineParser, add_picture_flags, count, picture_flags, run_cli
from highway_lab.files import in_order

from .common import load, place_of

STUDIES = (  # whose commands and logs are those of every study
    "depth_search",
    "hundred_layers",
    "what_gates_add",
    "using_depth",
    "task_difficulty",
    "bias_and_rate",
    "conv_bias",
    "sketch",
    "very_deep",
    "thousand_layers",
    "tuned_plain",
    "small_nets",
    "batch_norm",
    "constant_gates",
    "blocks_compared",
    "first_gradient",
    "pixel_scale",
)
NAMES = (  # in an order in which each finds the nets that it needs
    STUDIES[0],
    "cifar_net",
    "gate_maps",
    "class_routing",
    "gate_swaps",
    "lesions",
    "section_4",
    "conv_tables",
    "conv_gates",
    "factor_model",
    "data_movement",
    "gate_explorer",
    "depth_per_example",
    *STUDIES[1:],
)


def is_experiment(name: str) -> bool:
    """Return whether there is an experiment of this name, in the list or not."""
    if name in NAMES:
        return True
    there = name.isidentifier() and find_spec(place_of(name))
    return bool(there) and any(hasattr(import_module(place_of(name)), of) for of in ("EXPERIMENT", "STUDY"))


def show(_: argparse.Namespace) -> None:
    for name in NAMES:
        experiment = load(name)
        print(f"{name:<24} {experiment.doc}")
        for path in (*experiment.log_steps(), *(Path("viz") / figure for figure in experiment.contents.FIGURES)):
            print(f"{'':<24}   {'there  ' if path.exists() else 'missing'} {path}")
    for path in in_order(Path(__file__).parent.rglob("*.py")):
        is_one = re.search("^(EXPERIMENT|STUDY) = ", path.read_text(encoding="utf-8"), re.MULTILINE)
        if is_one and path.stem not in NAMES:
            where = path.relative_to(Path(__file__).parents[1])
            print(
                f"{where} is not in this list: add it to NAMES or STUDIES in experiments/__main__.py", file=sys.stderr
            )


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
    from highway_lab.figures import places, save_all

    from . import three_panels

    flags, experiments = picture_flags(arguments), [*map(load, NAMES)]
    names = [three_panels.PICTURE.name, *(name for of in experiments for name in of.contents.FIGURES)]
    places(names, Path("viz"), flags["out"], flags["format"])  # a file is none for all
    words = [f"--{name}={value}" for name, value in flags.items() if value]
    for experiment in experiments:
        if not experiment.existing_logs():
            print(f"no log, no figure: {experiment.parser.prog} run makes it", file=sys.stderr)
        elif code := experiment.main(["plot", *words]):
            return code
    if all(map(Path.exists, three_panels.LOGS)):
        picture = {three_panels.PICTURE.name: three_panels.figure}
        print(*map("drew {}".format, save_all(picture, three_panels.PICTURE.parent, *three_panels.LOGS, **flags)))
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the command line, of one experiment if its first word names one; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    name = re.split("[./]", argv[0].removesuffix(".py"))[-1] if argv else ""  # package and room may be named, too
    if is_experiment(name):
        return load(name).main(argv[1:])
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
        known = ", ".join(get_close_matches(name, NAMES, n=3, cutoff=0))
        parser.error(f"NAME: expected that of an experiment, such as {known}, found {argv[0]}; choose one")
    return run_cli(parser, lambda arguments: arguments.action(arguments), argv)
