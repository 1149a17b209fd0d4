"""Write the tables of the README files from the committed logs.

    python -m experiments.readme_tables           rewrite them
    python -m experiments.readme_tables --check   change nothing; exit code 1 if one differs from its log

A table stands between the lines `<!-- table: NAME -->` and `<!-- end table -->`; NAME is a key of TABLES. The function
that makes it stands beside the figures of the same log.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import highway_lab.logs
from benchmarks import conv_step_figures, estimators_figures, main_job_figures, training_step_figures
from benchmarks.conv_step import ConvStepLog
from benchmarks.estimators import EstimatorsLog
from benchmarks.main_job import JobLog
from benchmarks.training_step import StepLog
from experiments.__main__ import STEPS
from experiments.claims import WITH_CLAIMS, all_claims, verdicts
from experiments.common import Experiment, load, step_words
from highway_lab.cli import InputError, OneLineParser, run_cli
from highway_lab.figures import fingerprint
from highway_lab.files import atomic_write
from highway_lab.logs import Log, RunLog
from highway_networks import Config
from visualize_highway_networks import COMMAND, SWEEP_COMMAND, headline, sweep_table

READMES = (Path("README.md"), Path("experiments/README.md"), Path("benchmarks/README.md"))
PROGRAM = "python -m experiments.readme_tables"
OPENED = re.compile(r"^<!-- table:", re.MULTILINE)
MARKED = re.compile(r"^<!-- table: (\S+) -->\n(?:(?!<!-- table:).)*?^<!-- end table -->$", re.DOTALL | re.MULTILINE)


class Source(NamedTuple):
    """A log, the class of its schema, and the command that makes it."""

    log: Path
    schema: type
    command: str


class Table(NamedTuple):
    """Logs, and the function that makes Markdown of them."""

    render: Callable[..., str]
    sources: list[Source]


def environments(*logs: Log) -> str:
    """How and where each log was made, in a line."""
    return "\n".join(map(environment, logs))


def environment(log: Log) -> str:
    """How and where a log was made, in a line."""
    machine = log.environment
    threads = f"{machine.threads} BLAS thread{'s' * (machine.threads > 1)}"
    commit = f"commit {(machine.commit or 'unknown')[:7]}{' with changes' * bool(machine.dirty)}"
    versions = f"Python {machine.python}, NumPy {machine.numpy}, {machine.blas} ({machine.kernels} kernels), {threads}"
    return f"`{log.command}`: {versions}, {machine.cpu}, {commit}, {log.created[:10]}."


def all_tables() -> dict[str, Table]:
    """Every table by its name; those of an experiment, or a benchmark, are named in the module of its figures."""
    experiments = {experiment.name: experiment for experiment in map(load, STEPS)}
    sources = {
        "run": [Source(Path("run.json"), RunLog[Config], COMMAND)],
        "run_sweep": [Source(Path("run_sweep.json"), RunLog[Config], SWEEP_COMMAND)],
        **{name: sources_of(experiment, experiment.datasets) for name, experiment in experiments.items()},
        "training_step": [Source(Path("benchmarks/training_step.json"), StepLog, "make bench")],
        "conv_step": [Source(Path("benchmarks/conv_step.json"), ConvStepLog, "make bench")],
        "main_job": [Source(Path("benchmarks/main_job.json"), JobLog, "make bench")],
        "estimators": [Source(Path("benchmarks/estimators.json"), EstimatorsLog, "make bench")],
    }
    made = {
        "run": {"headline": headline},
        "run_sweep": {"depth_sweep": sweep_table},
        **{name: experiment.figures.TABLES for name, experiment in experiments.items()},
        "training_step": training_step_figures.TABLES,
        "conv_step": conv_step_figures.TABLES,
        "main_job": main_job_figures.TABLES,
        "estimators": estimators_figures.TABLES,
    }
    judged = [source for name, of in WITH_CLAIMS.items() for source in sources_of(experiments[name], of)]
    tables = {"claims": Table(all_claims, judged), "verdicts": Table(verdicts, judged)}
    for name, logs in sources.items():
        tables |= {table: Table(render, logs) for table, render in made[name].items()}
        tables[f"{name}_environment"] = Table(environments, logs)
    return tables


def sources_of(experiment: Experiment, datasets: Sequence[str | None]) -> list[Source]:
    """The committed logs of an experiment, a data set after another."""
    commands = {of: " ".join([experiment.parser.prog, *step_words("run", of)]) for of in datasets}
    return [Source(experiment.log_path(of), experiment.log, command) for of, command in commands.items()]


def block(name: str, readme: Path) -> str:
    """The table `name` as it stands in a README, markers and the fingerprints of its logs included."""
    tables = all_tables()
    if name not in tables:
        known = ", ".join(get_close_matches(name, tables, cutoff=0))
        raise InputError(f"{readme}: expected the name of a table, such as {known}, found {name!r}; rename its marker")
    render, sources = tables[name]
    logs = [highway_lab.logs.read(source.log, source.schema, f"make it with: {source.command}") for source in sources]
    links = ", ".join(f"[{source.log}]({os.path.relpath(source.log, readme.parent)})" for source in sources)
    return "\n".join(
        [
            f"<!-- table: {name} -->",
            *(f"<!-- {fingerprint(source.log)} -->" for source in sources),
            "",
            render(*logs),
            "",
            f"From {links}.",
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
    return run_cli(parser, write_command, argv)


if __name__ == "__main__":
    sys.exit(main())
