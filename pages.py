"""Write the tables of the pages from the committed logs, and the digests of these logs.

    python -m pages           rewrite them
    python -m pages --check   change nothing; exit code 1 if one differs from its log

A table stands between the lines `<!-- table: NAME -->` and `<!-- end table -->`; NAME is a key of `all_tables()`. The
function that makes it stands beside the figures of the same log. Tables and pictures are of the logs that have the
digests of runs/SHA256SUMS; `sha256sum -c runs/SHA256SUMS` checks them, too.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("pages")

import argparse
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import highway_lab.logs
from benchmarks import __main__ as benchmarks
from experiments import depth_sweep
from experiments.__main__ import STEPS
from experiments.common import Experiment, load, sha256_of
from experiments.costs import costs, steps_of_logs
from experiments.quotes import errors
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.figures import drawing
from highway_lab.files import atomic_write, make_place, read_bytes
from highway_lab.logs import Log, RunLog
from highway_networks import Config, InputError
from visualize_highway_networks import COMMAND, SWEEP_COMMAND

MOST_LINKS = 4  # below a table, to logs
ROOMS = ("experiments", "benchmarks")
PROGRAM = "python -m pages"
SUMS = Path("runs", "SHA256SUMS")
MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "<[`*|&$\\"})
OPENED = re.compile(r"^<!-- table:", re.MULTILINE)
MARKED = re.compile(r"^<!-- table: (\S+) -->\n(?:(?!<!-- table:).)*?^<!-- end table -->$", re.DOTALL | re.MULTILINE)


BENCHMARKS = {name: benchmarks.load(name) for name in benchmarks.NAMES}
QUOTED = {name: cache(load(name).quoted) for name in STEPS if hasattr(load(name).contents, "FIGURES")}  # by source
QUOTED |= {name: cache(BENCHMARKS[name].quoted) for name in BENCHMARKS} | {"depth_sweep": cache(depth_sweep.numbers)}


def faults(page: Path) -> list[str]:
    """Return what is wrong with the numbers that a page quotes, a sentence each."""
    return errors(page.read_text(encoding="utf-8"), QUOTED, complete=page.name != "README.md")


class Source(NamedTuple):
    """A log, and the function that reads and checks it."""

    log: Path
    read: Callable[[Path], Log]


class Table(NamedTuple):
    """A function that makes Markdown of logs, and the logs."""

    render: Callable[..., str]
    sources: list[Source]


def environments(*logs: Log) -> str:
    """Return a line for each log that says how and where it was made."""
    lines = []
    for log in logs:
        machine = log.environment
        threads = f"{machine.threads} BLAS thread{'s' * (machine.threads > 1)}"
        numpy = f"Python {machine.python}, NumPy {machine.numpy}, {machine.blas} ({machine.kernels} kernels), {threads}"
        commit = f"commit {(machine.commit or 'unknown')[:7]}{' with changes' * bool(machine.dirty)}"
        lines.append(f"`{log.command}`: {numpy}, {machine.cpu}, {commit}, {log.created[:10]}.")
    return "\n".join(lines)


@cache
def all_tables() -> dict[str, Table]:
    tables = {"costs": Table(costs, [Source(path, experiment.read) for experiment, path, _ in steps_of_logs()])}

    def add(name: str, made: dict[str, Callable[..., str]], sources: list[Source]) -> None:
        tables.update({table: Table(render, sources) for table, render in made.items()})
        tables[f"{name}_environment"] = Table(environments, sources)

    sweep = Source(Path("run_sweep.json"), partial(read_log, RunLog[Config], SWEEP_COMMAND, ["mnist"]))
    add("run", {}, [Source(Path("run.json"), partial(read_log, RunLog[Config], COMMAND, ["mnist"]))])
    add("run_sweep", {}, [sweep])
    for experiment in map(load, STEPS):
        add(experiment.name, experiment.tables, sources_of(experiment, experiment.datasets))
    return tables


def sources_of(experiment: Experiment, datasets: Iterable[str | None]) -> list[Source]:
    """Return an experiment's committed logs of these data sets."""
    return [Source(path, experiment.read) for path in experiment.logs_of_tables(datasets)]


def read_log(schema: type, command: str, datasets: Sequence[str | None], path: Path) -> Log:
    """Read a log that `command` makes with one of the data sets; raises InputError."""
    log = highway_lab.logs.read(path, schema, f"make it with: {command}")
    if (found := log.dataset and log.dataset.name) not in datasets:
        raise InputError(f"{path}: expected the log of {datasets[0]}, found one of {found}; make it with: {command}")
    return log


def make_table(name: str, readme: Path) -> str:
    """Return the table `name` as it stands on a page, with its markers and the names of its logs.

    Returns "" if one of them is missing.
    """
    tables = all_tables()
    if name not in tables:
        known = ", ".join(get_close_matches(name, tables, cutoff=0))
        raise InputError(f"{readme}: expected the name of a table, such as {known}, found {name!r}; rename its marker")
    render, sources = tables[name]
    if missing := [source.log.as_posix() for source in sources if not source.log.exists()]:
        print(f"{readme}: the table {name} stays as it is, as there is no {', '.join(missing)}", file=sys.stderr)
        return ""
    logs = [read_escaped(source, source.log.resolve(), source.log.stat().st_mtime_ns) for source in sources]
    paths = [source.log for source in sources] if len(sources) <= MOST_LINKS else [Path("runs")]
    links = ", ".join(f"[{path}]({os.path.relpath(path, readme.parent)})" for path in paths)
    with drawing(f"the table {name}", *(source.log for source in sources)):
        table = render(*logs)
    return "\n".join(
        [
            f"<!-- table: {name} -->",
            f"<!-- logs: {', '.join(source.log.as_posix() for source in sources)} -->",
            "",
            table,
            "",
            f"From {links}.",
            "<!-- end table -->",
        ]
    )


@lru_cache(maxsize=32)  # logs, of which one page has many tables
def read_escaped(source: Source, path: Path, changed: int) -> Any:
    """Return the log of a source without markup; `path` and `changed` tell logs of other folders and times apart."""
    return escaped(source.read(source.log))


def escaped(of: Any) -> Any:
    """Return a log, or a part of one, whose texts are no markup: they open no tag, link or code, and end no cell."""
    if isinstance(of, float | int | None):  # most parts of a log
        return of
    if isinstance(of, str):
        return of.translate(MARKUP)
    if isinstance(of, list | tuple):
        return type(of)(map(escaped, of))
    if isinstance(of, dict):
        return {escaped(name): escaped(value) for name, value in of.items()}
    return dataclasses.replace(of, **{name: escaped(value) for name, value in vars(of).items()})


def pages() -> list[Path]:
    return [Path("README.md"), *sorted(path for room in ROOMS for path in Path(room).rglob("*.md"))]


def fill(readme: Path) -> tuple[str, str]:
    """Return a page's text as it is and with its tables made anew; raises InputError if a marker is wrong."""
    try:
        text = read_bytes(readme, "run this in its folder").decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{readme}: expected text in UTF-8, found: {error}; save it as such") from error
    missing = len(OPENED.findall(text)) - len(MARKED.findall(text))
    if missing:
        raise InputError(
            f"{readme}: expected a line `<!-- end table -->` after each line `<!-- table: NAME -->`, "
            f"found {missing} without; mend the markers"
        )
    return text, MARKED.sub(lambda match: make_table(match[1], readme) or match[0], text)


def sums() -> str:
    """Return the digests of all logs of tables that are here, in the format of sha256sum."""
    logs = {source.log for table in all_tables().values() for source in table.sources}
    logs |= {benchmark.log_path for benchmark in BENCHMARKS.values()}
    return "".join(f"{sha256_of(log)}  {log.as_posix()}\n" for log in sorted(logs) if log.exists())


def logs_that_differ(some: str, others: str) -> str:
    """Return the names of the logs whose lines are not the same in two texts of digests."""
    lines = {*some.splitlines()} ^ {*others.splitlines()}
    return ", ".join(sorted({line.partition("  ")[2] for line in lines} - {""})) or "the logs"


def write_all(arguments: argparse.Namespace) -> int:
    """Rewrite tables and digests, or check them; returns the exit code, raises InputError before a file is changed."""
    written = read_bytes(SUMS).decode(errors="replace") if SUMS.exists() else ""
    texts = {page: fill(page) for page in pages()} | {SUMS: (written, sums())}
    changed = {path: (text, made) for path, (text, made) in texts.items() if made != text}
    for path, (text, made) in changed.items():
        if arguments.check:
            what = f"digests of {logs_that_differ(text, made)}" if path == SUMS else "tables of the logs"
            print(f"{path}: expected the {what}, found others; run: {PROGRAM}", file=sys.stderr)
        else:
            make_place(path)
            with atomic_write(path) as file:
                file.write(made)
            print(f"wrote {path}")
    return int(arguments.check and bool(changed))


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code, 1 if --check finds a difference."""
    parser = OneLineParser(prog=PROGRAM, description="Write the pages' tables and the digests of the committed logs.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if one differs")
    return run_cli(parser, write_all, argv)
