"""The pages' tables: they equal the committed logs, whose digests stand beside, and are rewritten nowhere else."""

import dataclasses
import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from helpers import ROOT, assert_says, files_below
from made_up import made_up_log
from picture_helpers import cells, committed_log, outdated

import pages
from experiments.common import load, sha256_of
from experiments.depth_sweep import headline, run_table, sweep_table
from experiments.study import Cell
from experiments.study_command import StudyLog
from highway_lab import logs
from highway_lab.intervals import interval
from highway_lab.logs import RunLog, write
from highway_networks import InputError

T = {2: 12.706, 3: 4.303}  # Student's t of 97.5 %, by the number of values
README = """# Title

<!-- table: run -->
<!-- end table -->
Between the tables, a word on `<!-- table: NAME -->` and its <!-- end table -->.
<!-- table: sweep -->
anything

at all
<!-- end table -->
The end: `<!-- end table -->`
"""


def marked(text: str) -> dict[str, str]:
    """Return the tables that stand in a README, by name, markers included."""
    return {match[1]: match[0] for match in pages.MARKED.finditer(text)}


def committed_tables() -> list[tuple[Path, str]]:
    pages = [path.relative_to(ROOT) for path in (ROOT / "README.md", *ROOT.glob("[eb]*/**/*.md"))]
    return [(page, name) for page in sorted(pages) for name in marked((ROOT / page).read_text(encoding="utf-8"))]


READ = cache(logs.read)  # of a log are several tables


@pytest.mark.parametrize(("readme", "name"), committed_tables(), ids=str)
def test_committed_table_equals_its_log(readme, name, monkeypatch):
    monkeypatch.setattr(logs, "read", READ)
    monkeypatch.chdir(ROOT)
    digests = (ROOT / pages.SUMS).read_text()
    for log in (source.log for source in pages.all_tables()[name].sources):
        if f"{sha256_of(committed_log(log))}  {log}\n" not in digests:
            outdated(f"{readme}: the table {name} was made from another {log.name}")
    assert marked(readme.read_text(encoding="utf-8"))[name] == pages.make_table(name, readme)


def test_every_committed_log_has_its_digest(monkeypatch):
    monkeypatch.chdir(ROOT)
    if pages.sums() != pages.SUMS.read_text():
        outdated(f"{pages.SUMS} has the digests of other logs")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a README and the logs that its tables need."""
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text(README, encoding="utf-8")
    write("run.json", made_up_log(depths=(30,)))
    write("run_sweep.json", made_up_log(depths=(5, 10), seeds=(0, 1, 2), diverged=[("plain", 1)]))
    return tmp_path


def test_tables_are_written_between_their_markers_and_nowhere_else(folder):
    assert pages.main([]) == 0
    text = Path("README.md").read_text(encoding="utf-8")
    for name, table in marked(text).items():
        assert table == pages.make_table(name, Path("README.md"))
        text = text.replace(table, re.search(rf"<!-- table: {name} -->\n.*?<!-- end table -->", README, re.DOTALL)[0])
    assert text == README

    before = files_below(folder)
    assert pages.main([]) == 0
    assert files_below(folder) == before


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_the_digests_are_those_of_sha256sum(folder):
    pages.main([])
    done = subprocess.run(["sha256sum", "--check", "--strict", pages.SUMS], capture_output=True, text=True, check=True)
    assert done.stdout == "run.json: OK\nrun_sweep.json: OK\n"


def test_check_finds_a_changed_digit_and_changes_nothing(folder, capsys):
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().err.count("python -m pages") == 2  # the table, and the digests
    pages.main([])
    assert pages.main(["--check"]) == 0

    text = Path("README.md").read_text(encoding="utf-8")
    Path("README.md").write_text(text.replace("92.6", "93.6"), encoding="utf-8")
    before = files_below(folder)
    assert pages.main(["--check"]) == 1
    assert "python -m pages" in capsys.readouterr().err
    assert files_below(folder) == before


def test_check_names_a_log_that_does_not_have_its_digest(folder, capsys):
    """Even if no table is another for that, as of a log whose time of making is another."""
    pages.main([])
    log = made_up_log(depths=(30,))
    write("run.json", dataclasses.replace(log, created="2026-11-20T10:00:01Z"))
    before = files_below(folder)
    assert pages.main(["--check"]) == 1
    expected = "runs/SHA256SUMS: expected the digests of run.json, found others; run: python -m pages\n"
    assert capsys.readouterr().err == expected
    assert files_below(folder) == before


def columns(table: str, row: int = 0) -> list[tuple[str, str]]:
    """Return the header and the cells of a row of a Markdown table, in pairs."""
    header, *rows = cells(table)
    return list(zip(header, rows[row], strict=True))


def sketch(table: str, row: int = 0) -> list[str]:
    """Return the sketch's numbers in a row."""
    return [cell for name, cell in columns(table, row) if name == "sketch"]


def test_the_table_of_a_run_holds_final_scores_beside_the_sketch():
    log = made_up_log(depths=(30,))
    table = run_table(log)
    for row, run in enumerate(log.runs):
        found = dict(columns(table, row))
        assert found["net"] == f"{run.config.block}, 30 blocks"
        assert found["test accuracy (%)"] == f"{100 * run.history.test_score[-1]:.1f}"
        assert found["training loss"] == f"{run.history.train_loss[-1]:.3f}"
        assert found["parameters"] == f"{run.n_params:,}"
        assert float(found["seconds"]) == pytest.approx(sum(run.history.seconds), abs=0.051)
    assert (sketch(table, 0), sketch(table, 1)) == (["92.6", "0.189", "4.9"], ["12.4", "2.302", "1.9"])


def test_seconds_are_those_of_one_run():
    log = made_up_log(depths=(30,), seeds=(0, 1))
    log.runs[0].history.seconds[0] += 4
    expected = sum(sum(run.history.seconds) for run in log.runs if run.config.block == "highway") / 2
    assert float(dict(columns(run_table(log)))["seconds"]) == pytest.approx(expected, abs=0.051)


def in_words(log: RunLog, block: str, depth: int, field: str = "test_score") -> str:
    """Return mean and 95 % interval of a field's last value, recomputed; of a score in %."""
    runs = [run for run in log.runs if (run.config.block, run.config.depth) == (block, depth)]
    scale, form = (100, ".1f") if field == "test_score" else (1, ".3f")
    values = [scale * getattr(run.history, field)[-1] for run in runs]
    half = T[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):{form}} ± {half:{form}}"


def test_the_table_of_a_sweep_holds_means_and_intervals_of_each_depth():
    log = made_up_log(depths=(5, 7), seeds=(0, 1, 2))
    table = sweep_table(log)
    for (row, depth), block in product(enumerate((5, 7)), ("highway", "plain")):
        assert (table_row := columns(table, row))[0][1] == str(depth)
        assert dict(table_row)[f"{block} test accuracy (%)"] == in_words(log, block, depth)
        assert dict(table_row)[f"{block} training loss"] == in_words(log, block, depth, "train_loss")
    assert sketch(table, 0) == ["90.3", "85.7", "0.190", "0.478"]
    assert sketch(table, 1) == [""] * 4
    assert "over seeds 0,1,2." in table


def test_a_run_that_diverged_guesses_and_has_no_loss():
    table = sweep_table(made_up_log(depths=(5, 7), seeds=(0, 1), diverged=[("plain", 0), ("plain", 1)]))
    found = dict(columns(table))
    assert (found["plain test accuracy (%)"], found["plain training loss"]) == ("10.0 ± 0.0", "none")


def test_the_headline_shows_one_setting_beside_the_settings_that_are_chosen():
    sweep = made_up_log(depths=(5, 7), seeds=(0, 1, 2))
    tuned, untuned = (load("tuned_plain").read(committed_log(f"runs/tuned_plain{of}.json")) for of in ("", "-untuned"))

    def scores(log: StudyLog, *cell: str | int) -> str:
        runs = [run for run in log.runs if run.cell == Cell(*cell) and run.task.result]
        return f"{interval([100 * run.measured.score for run in runs]):.1f}"

    table = headline(sweep, tuned, untuned)
    header, *rows = cells(table)
    assert header[1:3] == ["highway, one setting", "plain, one setting"]
    assert header[3:] == ["highway, tuned", "plain, tuned", "plain, orthogonal, tuned"]
    found = {row[0]: row[1:] for row in rows}
    assert found["5"][:2] == [in_words(sweep, block, 5) for block in ("highway", "plain")]
    assert found["100"][:2] == [scores(untuned, block, 50, 100) for block in ("highway", "plain")]
    assert found["100"][2:] == [scores(tuned, arm.removesuffix(", tuned"), 50, 100) for arm in header[3:]]
    assert found["0"][:3] == [""] * 3
    assert "6,000 MNIST images, 3 epochs of Adam at rate 0.005." in table


def test_environment_names_what_a_rerun_needs():
    log = made_up_log()
    text = pages.environments(log)
    for part in (log.command, "Python 3.11.7", "NumPy 2.4.6", "openblas 0.3 (Haswell kernels), 1 BLAS thread,"):
        assert part in text
    log.environment = dataclasses.replace(log.environment, dirty=True)
    assert "commit 0123456 with changes" in pages.environments(log)


HOSTILE = "<!-- end table -->|`[a](//b)**$&lt;\\"
HARMLESS = "&#60;!-- end table -->&#124;&#96;&#91;a](//b)&#42;&#42;&#36;&#38;lt;&#92;"
TEXTS = [  # a table, its log, and a text that it takes from it
    ("run_environment", "run.json", "a processor"),
    ("run_environment", "run.json", "openblas 0.3"),
    ("run_environment", "run.json", "python highway_networks.py --seed 0"),
]


@pytest.mark.parametrize(("name", "log", "text"), TEXTS)
def test_no_text_of_a_log_is_markup_on_a_page(name, log, text, folder):
    for path in {source.log for source in pages.all_tables()[name].sources} - {Path("run.json")}:
        path.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, path)
    before = pages.make_table(name, Path("README.md")).splitlines()
    Path(log).write_text(Path(log).read_text().replace(text, text + json.dumps(HOSTILE)[1:-1]))
    after = pages.make_table(name, Path("README.md")).splitlines()
    assert [line.replace(HARMLESS, "") for line in after] == before
    assert any(HARMLESS in line for line in after)


def foreign_logs(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Put logs of other data or nets in the place of committed ones; yield the log, expected and found."""
    mnist, cifar, other = (ROOT / name for name in ("runs/gate_maps.json", "runs/gate_maps-cifar-10.json", "models"))
    for part in ("runs", "models"):
        (folder / part).mkdir()
    for path in (mnist, cifar, *other.iterdir()):
        shutil.copy(path, folder / path.relative_to(ROOT))

    (folder / "runs" / cifar.name).write_bytes(mnist.read_bytes())
    yield "runs/gate_maps-cifar-10.json", ("cifar-10", "mnist")
    text = mnist.read_text()
    (folder / "runs" / mnist.name).write_text(text.replace("models/highway-50.npz", "mine.npz"))
    yield "runs/gate_maps.json", ("models/highway-50.npz", "mine.npz")
    (folder / "runs" / mnist.name).write_text(text)
    shutil.copy(folder / "models" / "highway-100.npz", folder / "models" / "highway-50.npz")
    yield "runs/gate_maps.json", ("models/highway-50.npz", "models/highway-50.npz")


def test_a_log_of_other_data_or_of_another_net_is_not_drawn_by_whatever_path(folder, refused):
    for log, (expected, found) in foreign_logs(folder):
        for path in (log, f"runs/../{log}", Path(log).absolute()):
            message = refused(load("gate_maps").main, ["plot", str(path)])
            assert re.search(f"{log}: expected the log of {expected}.*, found one of {found}.*; make it with", message)
        assert not Path("viz").exists()


def test_a_log_of_other_data_is_not_tabulated(folder, refused):
    write("run.json", made_up_log(dataset="cifar-10"))
    Path("README.md").write_text("<!-- table: run -->\n<!-- end table -->\n")
    message = refused(pages.main, [])
    assert re.search("run.json: expected the log of mnist.*, found one of cifar-10.*; make it with", message)
    assert Path("README.md").read_text() == "<!-- table: run -->\n<!-- end table -->\n"


def test_a_table_whose_log_is_missing_stays_as_it_is(folder, capsys):
    pages.main([])
    before = Path("README.md").read_text()
    Path("run.json").unlink()
    capsys.readouterr()
    assert pages.main([]) == 0
    assert "README.md: the table run stays as it is, as there is no run.json\n" in capsys.readouterr().err
    assert Path("README.md").read_text() == before


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("README.md", None, ["README.md"]),
        ("README.md", "Gr\xfc\xdfe", ["README.md: expected text in UTF-8, found: ", "byte 0xfc in position 2"]),
        ("README.md", os.mkfifo, ["README.md: expected a readable file, found: a device or a pipe"]),
        ("run.json", "{", ["run.json"]),
        ("README.md", "<!-- table: headlines -->\n<!-- end table -->", ["README.md", "'headlines'", "headline, "]),
        ("README.md", "<!-- table: headline -->\n", ["README.md", "found 1 without"]),
        ("README.md", "<!-- table: headline -->\n<!-- table: run -->\n<!-- end table -->", ["found 1 without"]),
    ],
    ids=["no README", "Latin-1", "a pipe", "a log cut short", "unknown table", "no end", "a table in a table"],
)
def test_errors_are_one_line_and_nothing_is_written(file, content, parts, folder, refused):
    Path(file).unlink()
    if callable(content):
        content(file)
    elif content is not None:
        Path(file).write_text(content, encoding="latin-1")
    before = files_below(folder)
    assert_says(InputError(refused(pages.main, []).rstrip("\n")), *parts)
    assert files_below(folder) == before
