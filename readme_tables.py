"""Write the tables of the README files from the committed logs.

    python readme_tables.py           rewrite them
    python readme_tables.py --check   change nothing; exit code 1 if one differs from its log

A table stands between the lines `<!-- table: NAME -->` and `<!-- end table -->`; NAME is a key of TABLES. The function
that makes it stands beside the figures of the same log.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import run_log
from benchmarks import main_job_figures, training_step_figures
from benchmarks.main_job import JobLog
from benchmarks.training_step import StepLog
from command_line import InputError, OneLineParser, carry_out
from experiments.__main__ import STEPS
from experiments.common import load
from figure_style import fingerprint
from highway_networks import Config
from run_log import Log, RunLog, atomic_write
from visualize_highway_networks import COMMAND, SWEEP_COMMAND, headline, sweep_table

READMES = (Path("README.md"), Path("experiments/README.md"), Path("benchmarks/README.md"))
PROGRAM = "python readme_tables.py"
OPENED = re.compile(r"^<!-- table:", re.MULTILINE)
MARKED = re.compile(r"^<!-- table: (\S+) -->\n(?:(?!<!-- table:).)*?^<!-- end table -->$", re.DOTALL | re.MULTILINE)


class Table(NamedTuple):
    """A log, the class of its schema, the command that makes it, and the function that makes it Markdown."""

    log: Path
    schema: type
    command: str
    render: Callable[[Log], str]


def environment(log: Log) -> str:
    """How and where a log was made, in a line."""
    machine = log.environment
    threads = f"{machine.threads} BLAS thread{'s' * (machine.threads > 1)}"
    commit = f"commit {(machine.commit or 'unknown')[:7]}{' with changes' * bool(machine.dirty)}"
    versions = f"Python {machine.python}, NumPy {machine.numpy}, {machine.blas} ({machine.kernels} kernels), {threads}"
    return f"`{log.command}`: {versions}, {machine.cpu}, {commit}, {log.created[:10]}."


def all_tables() -> dict[str, Table]:
    """Every table by its name; those of an experiment, or a benchmark, are named in the module of its figures."""
    tables = {}
    for stem, command, name, render in (
        ("run", COMMAND, "headline", headline),
        ("run_sweep", SWEEP_COMMAND, "depth_sweep", sweep_table),
    ):
        log = (Path(f"{stem}.json"), RunLog[Config], command)
        tables |= {name: Table(*log, render), f"{stem}_environment": Table(*log, environment)}
    for name in STEPS:
        experiment = load(name)
        log = (experiment.log_path(), experiment.log, f"{experiment.parser.prog} run")
        tables |= {table: Table(*log, render) for table, render in experiment.figures.TABLES.items()}
        tables[f"{name}_environment"] = Table(*log, environment)
    for name, schema, made in (
        ("training_step", StepLog, training_step_figures.TABLES),
        ("main_job", JobLog, main_job_figures.TABLES),
    ):
        log = (Path("benchmarks") / f"{name}.json", schema, "make bench")
        tables |= {table: Table(*log, render) for table, render in made.items()}
        tables[f"{name}_environment"] = Table(*log, environment)
    return tables


def block(name: str, readme: Path) -> str:
    """The table `name` as it stands in a README, markers and the fingerprint of its log included."""
    tables = all_tables()
    if name not in tables:
        known = ", ".join(get_close_matches(name, tables, cutoff=0))
        raise InputError(f"{readme}: expected the name of a table, such as {known}, found {name!r}; rename its marker")
    table = tables[name]
    log = run_log.read(table.log, table.schema, f"make it with: {table.command}")
    return "\n".join(
        [
            f"<!-- table: {name} -->",
            f"<!-- {fingerprint(table.log)} -->",
            "",
            table.render(log),
            "",
            f"From [{table.log}]({os.path.relpath(table.log, readme.parent)}).",
            "<!-- end table -->",
        ]
    )


def filled(readme: Path, text: str) -> str:
    """A README's text with every table made anew; raises InputError for a marker that has no end or no table."""
    opened, closed = len(OPENED.findall(text)), len(MARKED.findall(text))
    if closed < opened:
        raise InputError(
            f"{readme}: expected a line `<!-- end table -->` after each line `<!-- table: NAME -->`, "
            f"found {opened - closed} without; mend the markers"
        )
    return MARKED.sub(lambda match: block(match[1], readme), text)


def write_command(arguments: argparse.Namespace) -> int:
    """Rewrite the tables, or check them; returns the exit code, raises InputError before a file is changed."""
    texts = {readme: read_readme(readme) for readme in READMES}
    wanted = {readme: filled(readme, text) for readme, text in texts.items()}
    changed = [readme for readme in READMES if wanted[readme] != texts[readme]]
    for readme in changed:
        if arguments.check:
            print(f"{readme}: expected the tables of the logs, found others; run: {PROGRAM}", file=sys.stderr)
        else:
            with atomic_write(readme) as file:
                file.write(wanted[readme])
    return int(arguments.check and bool(changed))


def read_readme(readme: Path) -> str:
    try:
        return readme.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{readme}: expected to be here, found: {error.strerror}; run this in its folder") from error


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 1 if --check finds a difference."""
    parser = OneLineParser(prog=PROGRAM, description="Write the README files' tables from the committed logs.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if a table differs")
    return carry_out(parser, write_command, argv)


if __name__ == "__main__":
    sys.exit(main())
