"""The README's tables: they equal the committed logs, and are rewritten between their markers and nowhere else."""

import dataclasses
import re
import statistics
from itertools import product
from pathlib import Path

import pytest
from helpers import ROOT, assert_says, files_below
from made_up import made_up_log
from picture_helpers import cells, committed_log, outdated

from experiments import readme_tables
from highway_lab import InputError
from highway_lab.figures import fingerprint
from highway_lab.logs import write
from visualize_highway_networks import headline, sweep_table

T = {2: 12.706, 3: 4.303}  # Student's t of 97.5 %, by the number of values
README = """# Title

<!-- table: headline -->
<!-- end table -->
Between the tables, a word on `<!-- table: NAME -->` and its <!-- end table -->.
<!-- table: depth_sweep -->
anything

at all
<!-- end table -->
The end: `<!-- end table -->`
"""


def marked(text: str) -> dict[str, str]:
    """Return the tables that stand in a README, by name, markers included."""
    return {match[1]: match[0] for match in readme_tables.MARKED.finditer(text)}


def committed_tables() -> list[tuple[Path, str]]:
    pages = [path.relative_to(ROOT) for path in (ROOT / "README.md", *ROOT.glob("[eb]*/**/*.md"))]
    return [(page, name) for page in sorted(pages) for name in marked((ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("readme", "name"), committed_tables(), ids=str)
def test_committed_table_equals_its_log(readme, name, monkeypatch):
    monkeypatch.chdir(ROOT)
    logs = [committed_log(source.log) for source in readme_tables.all_tables()[name].sources]
    table = marked(readme.read_text(encoding="utf-8"))[name]
    for log in logs:
        if f"<!-- {fingerprint(log)} -->" not in table:
            outdated(f"{readme}: the table {name} was made from another {log.name}")
    assert table == readme_tables.make_table(name, readme)


# ------------------------------------------------------------------------------------------ made-up logs


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a README and the logs that its tables need."""
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text(README, encoding="utf-8")
    write("run.json", made_up_log(depths=(30,)))
    write("run_sweep.json", made_up_log(depths=(5, 10), seeds=(0, 1, 2), diverged=[("plain", 1)]))
    return tmp_path


def test_tables_are_written_between_their_markers_and_nowhere_else(folder):
    assert readme_tables.main([]) == 0
    text = Path("README.md").read_text(encoding="utf-8")
    for name, table in marked(text).items():
        assert table == readme_tables.make_table(name, Path("README.md"))
        text = text.replace(table, re.search(rf"<!-- table: {name} -->\n.*?<!-- end table -->", README, re.DOTALL)[0])
    assert text == README

    before = files_below(folder)
    assert readme_tables.main([]) == 0
    assert files_below(folder) == before


def test_check_finds_a_changed_digit_and_changes_nothing(folder, capsys):
    assert readme_tables.main(["--check"]) == 1
    readme_tables.main([])
    assert readme_tables.main(["--check"]) == 0
    assert capsys.readouterr().err.count("python -m experiments.readme_tables") == 1

    text = Path("README.md").read_text(encoding="utf-8")
    Path("README.md").write_text(text.replace("0.926", "0.936"), encoding="utf-8")
    before = files_below(folder)
    assert readme_tables.main(["--check"]) == 1
    assert "python -m experiments.readme_tables" in capsys.readouterr().err
    assert files_below(folder) == before


def columns(table: str, row: int = 0) -> list[tuple[str, str]]:
    """Return the header and the cells of a row of a Markdown table, in pairs."""
    header, *rows = cells(table)
    return list(zip(header, rows[row], strict=True))


def sketch(table: str, row: int = 0) -> list[str]:
    """Return the sketch's numbers in a row."""
    return [cell for name, cell in columns(table, row) if name == "sketch"]


def test_headline_holds_the_final_scores_of_each_net_beside_the_sketch():
    log = made_up_log(depths=(30,))
    table = headline(log)
    for row, run in enumerate(log.runs):
        found = dict(columns(table, row))
        assert f"{run.config.block}, depth 30" in found.values()
        assert found["test accuracy"] == f"{run.history.test_score[-1]:.3f}"
        assert found["training loss"] == f"{run.history.train_loss[-1]:.3f}"
        assert found["parameters"] == f"{run.n_params:,}"
        assert float(found["seconds"]) == pytest.approx(sum(run.history.seconds), abs=0.051)
    assert (sketch(table, 0), sketch(table, 1)) == (["0.926", "0.189", "4.9"], ["0.124", "2.302", "1.9"])


def test_seconds_are_those_of_one_run():
    log = made_up_log(depths=(30,), seeds=(0, 1))
    log.runs[0].history.seconds[0] += 4
    expected = sum(sum(run.history.seconds) for run in log.runs if run.config.block == "highway") / 2
    assert float(dict(columns(headline(log)))["seconds"]) == pytest.approx(expected, abs=0.051)


def test_depth_sweep_holds_mean_and_interval_over_the_runs_that_finished():
    log = made_up_log(depths=(5, 7), seeds=(0, 1, 2))
    for run in log.runs:
        run.diverged = (run.config.block, run.config.seed) == ("plain", 1)  # though its last numbers are finite
    table = sweep_table(log)
    kinds, fields = ("highway", "plain"), {"test_score": "test accuracy", "train_loss": "training loss"}
    for (row, depth), block, (field, words) in product(enumerate((5, 7)), kinds, fields.items()):
        assert (table_row := columns(table, row))[0][1] == str(depth)
        runs = [run for run in log.runs if (run.config.block, run.config.depth) == (block, depth) and not run.diverged]
        values = [getattr(run.history, field)[-1] for run in runs]
        expected = (
            f"{statistics.mean(values):.3f} ± {T[len(values)] * statistics.stdev(values) / len(values) ** 0.5:.3f}"
        )
        assert dict(table_row)[f"{block} {words}"] == expected + " (1 diverged)" * (block == "plain")
    assert sketch(table, 0) == ["0.903", "0.857", "0.190", "0.478"]
    assert sketch(table, 1) == [""] * 4
    assert "3 seeds (0,1,2)" in table


def test_environment_names_what_a_rerun_needs():
    log = made_up_log()
    text = readme_tables.environments(log)
    for part in (log.command, "Python 3.11.7", "NumPy 2.4.6", "openblas 0.3 (Haswell kernels), 1 BLAS thread,"):
        assert part in text
    log.environment = dataclasses.replace(log.environment, dirty=True)
    assert "commit 0123456 with changes" in readme_tables.environments(log)


def test_each_table_of_run_logs_can_be_made(folder):
    tables = readme_tables.all_tables()
    sources = {name: [source.log for source in table.sources if source.log.exists()] for name, table in tables.items()}
    there = {name: logs for name, logs in sources.items() if logs}
    assert there.keys() == {"headline", "run_environment", "depth_sweep", "run_sweep_environment"}
    for name, (log,) in there.items():
        made = readme_tables.make_table(name, Path("README.md"))
        assert fingerprint(log) in made
        assert list(marked(made)) == [name]


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("README.md", None, ["README.md"]),
        ("run.json", None, ["run.json", "python highway_networks.py"]),
        ("run.json", "{", ["run.json"]),
        ("README.md", "<!-- table: headlines -->\n<!-- end table -->", ["README.md", "'headlines'", "headline, "]),
        ("README.md", "<!-- table: headline -->\n", ["README.md", "found 1 without"]),
        ("README.md", "<!-- table: headline -->\n<!-- table: run -->\n<!-- end table -->", ["found 1 without"]),
    ],
    ids=["no README", "no log", "a log cut short", "unknown table", "no end", "a table in a table"],
)
def test_errors_are_one_line_and_nothing_is_written(file, content, parts, folder, refused):
    Path(file).unlink() if content is None else Path(file).write_text(content)
    before = files_below(folder)
    assert_says(InputError(refused(readme_tables.main, []).rstrip("\n")), *parts)
    assert files_below(folder) == before
