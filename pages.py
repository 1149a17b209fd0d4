"""Check what pages quote of the committed logs, and write the digests of these logs.

    python -m pages           write runs/SHA256SUMS
    python -m pages --check   change nothing; exit code 1 if a number or a digest is another

What a page quotes is listed in comments at its end, see `experiments.quotes`. `sha256sum -c runs/SHA256SUMS` checks the
logs, too.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("pages")

import argparse
import json
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import __main__ as benchmarks
from experiments import depth_sweep
from experiments.__main__ import NAMES
from experiments.common import load, sha256_of
from experiments.quotes import errors, quotes
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.console import count_of
from highway_lab.files import atomic_write, in_order, make_place, read_bytes
from highway_networks import InputError

ROOMS = ("experiments", "benchmarks")
PROGRAM = "python -m pages"
SUMS = Path("runs", "SHA256SUMS")
BENCHMARKS = {name: benchmarks.load(name) for name in benchmarks.NAMES}


def logs() -> list[Path]:
    """Return the committed logs that are here."""
    paths = [Path("run.json"), Path("run_sweep.json"), *Path("benchmarks").glob("*.json")]
    return in_order([*filter(Path.exists, paths), *(path for name in NAMES for path in load(name).existing_logs())])


def sums() -> str:
    """Return the digests of all committed logs that are here, in the format of sha256sum."""
    return "".join(f"{sha256_of(log)}  {log.as_posix()}\n" for log in logs())


def costs() -> dict[str, Any]:
    """Return the hours of one core that logs state, by experiment, and in all."""
    hours = {name: sum(map(seconds_of, load(name).existing_logs())) / 3600 for name in NAMES}
    return {"hours": hours, "all": sum(hours.values())}


def seconds_of(log: Path) -> float:
    """Return the seconds of all runs of a log; raises InputError if it is none."""
    try:
        return seconds(json.loads(read_bytes(log)))
    except ValueError as error:
        raise InputError(f"{log}: expected a log, found: {error}; restore it") from error


def seconds(of: Any) -> float:
    """Return the seconds of all runs in a part of a log: those that were measured, else those of the history."""
    if isinstance(of, list):
        return sum(map(seconds, of))
    if not isinstance(of, dict):
        return 0.0
    if "seconds" in of:
        return sum(of["seconds"]) if isinstance(of["seconds"], list) else of["seconds"]
    return seconds(of.get("measured")) or seconds([*of.values()])


QUOTED = {name: cache(load(name).quoted) for name in NAMES}  # by source, what may be quoted of it
QUOTED |= {name: cache(BENCHMARKS[name].quoted) for name in BENCHMARKS}
QUOTED |= {"depth_sweep": cache(depth_sweep.numbers), "costs": cache(costs)}


def pages() -> list[Path]:
    return [Path("README.md"), *in_order(path for room in ROOMS for path in Path(room).rglob("*.md"))]


def text_of(page: Path) -> str:
    """Return the text of a page; raises InputError if it cannot be read."""
    try:
        return read_bytes(page, "run this in its folder").decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{page}: expected text in UTF-8, found: {error}; save it as such") from error


def faults(page: Path) -> list[str]:
    """Return what is wrong with the numbers of a page, a sentence each; raises InputError if it cannot be read."""
    return errors(text_of(page), QUOTED)


def check() -> int:
    """Print what is wrong with pages and digests, and how much is right; returns the exit code."""
    written, made = read_bytes(SUMS).decode(errors="replace") if SUMS.exists() else "", sums()
    changed = {line.partition("  ")[2] for line in {*written.splitlines()} ^ {*made.splitlines()}}
    remedy = f"restore it (git checkout) or, if it was made anew, run: {PROGRAM}"
    digests = [
        f"{path}: expected the log whose digest is in {SUMS}, found another; {remedy}" for path in sorted(changed)
    ]
    if not written:
        digests = [f"{SUMS}: expected the digests of the logs, found none; {remedy}"]
    wrong = 0
    for fault in chain(digests, (f"{page}: {fault}" for page in pages() for fault in faults(page))):
        print(fault, file=sys.stderr, flush=True)  # at once: a changed log may stop what follows
        wrong += 1
    n = sum(len(lines) for page in pages() for _, lines in quotes(text_of(page)))
    of_pages, of_logs = count_of(len(pages()), "page"), count_of(len(logs()), "log")
    print(f"checked the numbers of {count_of(n, 'quote')} on {of_pages} and the digests of {of_logs}")
    return int(bool(wrong))


def write_sums() -> int:
    """Write the digests of the committed logs; returns the exit code."""
    made = sums()
    make_place(SUMS)
    with atomic_write(SUMS) as file:
        file.write(made.encode())
    print(f"wrote {SUMS}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code, 1 if --check finds a difference."""
    parser = OneLineParser(prog=PROGRAM, description="Check the pages' numbers, write the digests of the logs.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if one differs")

    def run(arguments: argparse.Namespace) -> int:
        return check() if arguments.check else write_sums()

    return run_cli(parser, run, argv)
