"""Write the README's tables from the committed logs.

    python readme_tables.py           rewrite them
    python readme_tables.py --check   change nothing; exit code 1 if one differs from its log

A table stands in README.md between the lines `<!-- table: NAME -->` and `<!-- end table -->`; NAME is a key of TABLES.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import run_log
from figure_style import fingerprint
from highway_networks import Config, OneLineParser, mean_sd
from run_log import InputError, Run, RunLog, atomic_write

README = Path("README.md")
COMMAND = "python readme_tables.py"
OPENED = re.compile(r"^<!-- table:", re.MULTILINE)
MARKED = re.compile(r"^<!-- table: (\S+) -->\n(?:(?!<!-- table:).)*?^<!-- end table -->$", re.DOTALL | re.MULTILINE)


class Scores(NamedTuple):
    """What the stub, the sketch that this project grew from, reports of one run (seed 0)."""

    test_acc: float
    train_loss: float


STUB = {
    ("highway", 5): Scores(0.903, 0.190),
    ("highway", 10): Scores(0.913, 0.187),
    ("highway", 20): Scores(0.910, 0.215),
    ("highway", 30): Scores(0.926, 0.189),
    ("highway", 50): Scores(0.905, 0.301),
    ("plain", 5): Scores(0.857, 0.478),
    ("plain", 10): Scores(0.292, 1.773),
    ("plain", 20): Scores(0.098, 2.303),
    ("plain", 30): Scores(0.124, 2.302),
    ("plain", 50): Scores(0.124, 2.302),
}
STUB_SECONDS = {("highway", 30): 4.9, ("plain", 30): 1.9}


# ------------------------------------------------------------------------------ one function a table


def headline(log: RunLog[Config]) -> str:
    """Each net's final scores, size and time, beside the stub's."""
    rows = []
    for (kind, depth), runs in grouped(log).items():
        seconds = sum(sum(run.history.seconds) for run in runs) / len(runs)
        rows.append(
            [
                f"{kind}, depth {depth}",
                final(runs, "test_acc"),
                stub(kind, depth, "test_acc"),
                final(runs, "train_loss"),
                stub(kind, depth, "train_loss"),
                f"{runs[0].n_params:,}",
                f"{seconds:.1f}",
                str(STUB_SECONDS.get((kind, depth), "")),
            ]
        )
    return markdown(
        ["net", "test accuracy", "stub", "training loss", "stub", "parameters", "seconds", "stub"], rows
    ) + count_seeds(log)


def depth_sweep(log: RunLog[Config]) -> str:
    """Final scores by depth, highway beside plain, beside the stub's."""
    groups = grouped(log)
    kinds = list(dict.fromkeys(kind for kind, _ in groups))
    columns = [(kind, field) for field in Scores._fields for kind in kinds]
    words = {"test_acc": "test accuracy", "train_loss": "training loss"}
    header = ["depth"]
    for kind, field in columns:
        header += [f"{kind} {words[field]}", "stub"]
    rows = []
    for depth in sorted({depth for _, depth in groups}):
        row = [str(depth)]
        for kind, field in columns:
            row += [final(groups.get((kind, depth), []), field), stub(kind, depth, field)]
        rows.append(row)
    return markdown(header, rows) + count_seeds(log)


def environment(log: Any) -> str:
    """How and where a log was made, in a line: of any log with a `command`, a `created` and an `environment`."""
    machine = log.environment
    threads = f"{machine.threads} BLAS thread{'s' * (machine.threads > 1)}"
    commit = f"commit {(machine.commit or 'unknown')[:7]}{' with changes' * bool(machine.dirty)}"
    versions = f"Python {machine.python}, NumPy {machine.numpy}, {machine.blas}, {threads}"
    return f"`{log.command}`: {versions}, {machine.cpu}, {commit}, {log.created[:10]}."


def grouped(log: RunLog[Config]) -> dict[tuple[str, int], list[Run]]:
    """The runs of each (block, depth)."""
    groups = {}
    for run in log.runs:
        groups.setdefault((run.config.block, run.config.depth), []).append(run)
    return groups


def final(runs: list[Run], field: str) -> str:
    """The last value of a field as mean ± sd over the runs that finished, and how many did not."""
    values = [getattr(run.history, field)[-1] for run in runs if not run.diverged]
    diverged = len(runs) - len(values)
    return mean_sd(values) + (f" ({diverged} diverged)" if diverged else "")


def stub(kind: str, depth: int, field: str) -> str:
    """The stub's number for the same net; empty where it reports none."""
    scores = STUB.get((kind, depth))
    return f"{getattr(scores, field):.3f}" if scores else ""


def count_seeds(log: RunLog[Config]) -> str:
    """The sentence below a table that says what ± means; empty for a single seed."""
    seeds = sorted({run.config.seed for run in log.runs})
    if len(seeds) == 1:
        return ""
    listed = ", ".join(map(str, seeds))
    return f"\n\nMean ± sample standard deviation over {len(seeds)} seeds ({listed}); the stub: seed 0 alone."


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; its first column is set to the left, all others to the right."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


# ------------------------------------------------------------------------------------- the README


class Table(NamedTuple):
    """A log, the class of its schema, the command that makes it, and the function that makes it Markdown."""

    log: str
    schema: type
    command: str
    render: Callable[[Any], str]


RUN = ("run.json", RunLog[Config], "python highway_networks.py --seed 0")
SWEEP = (
    "run_sweep.json",
    RunLog[Config],
    "python highway_networks.py --seeds 0,1,2,3,4 --depths 5,10,20,30,50",
)
TABLES = {
    "headline": Table(*RUN, headline),
    "run_environment": Table(*RUN, environment),
    "depth_sweep": Table(*SWEEP, depth_sweep),
    "run_sweep_environment": Table(*SWEEP, environment),
}


def block(name: str) -> str:
    """The table `name` as it stands in the README, markers and the fingerprint of its log included."""
    if name not in TABLES:
        raise InputError(f"{README}: expected one of the tables {', '.join(TABLES)}, found {name!r}; rename its marker")
    table = TABLES[name]
    log = run_log.read(table.log, table.schema, f"make it with: {table.command}")
    return "\n".join(
        [
            f"<!-- table: {name} -->",
            f"<!-- {fingerprint(table.log)} -->",
            "",
            table.render(log),
            "",
            f"From [{table.log}]({table.log}).",
            "<!-- end table -->",
        ]
    )


def filled(text: str) -> str:
    """The README's text with every table made anew; raises InputError for a marker that has no end or no table."""
    opened, closed = len(OPENED.findall(text)), len(MARKED.findall(text))
    if closed < opened:
        raise InputError(
            f"{README}: expected a line `<!-- end table -->` after each line `<!-- table: NAME -->`, "
            f"found {opened - closed} without; mend the markers"
        )
    return MARKED.sub(lambda match: block(match[1]), text)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if --check finds a difference, 2 for an error of the user's."""
    parser = OneLineParser(prog="readme_tables.py", description="Write the README's tables from the committed logs.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if a table differs")
    arguments = parser.parse_args(argv)
    try:
        text = read_readme()
        wanted = filled(text)
        if arguments.check and wanted != text:
            print(f"{README}: expected the tables of the logs, found others; run: {COMMAND}", file=sys.stderr)
            return 1
        if wanted != text:
            with atomic_write(README) as file:
                file.write(wanted)
    except InputError as error:
        parser.error(str(error))
    return 0


def read_readme() -> str:
    try:
        return README.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{README}: expected to be here, found: {error.strerror}; run this in its folder") from error


if __name__ == "__main__":
    sys.exit(main())
