"""The pages' tables: they equal the committed logs, whose digests stand beside, and are rewritten nowhere else."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers import ROOT, assert_says, files_below
from made_up import made_up_log
from picture_helpers import committed_log, outdated

import pages
from experiments.common import load, sha256_of
from highway_lab import logs
from highway_lab.logs import write
from highway_networks import InputError

README = """# Title

<!-- table: run_environment -->
<!-- end table -->
Between the tables, a word on `<!-- table: NAME -->` and its <!-- end table -->.
<!-- table: run_sweep_environment -->
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
    Path("README.md").write_text(text.replace("Python 3.11.7", "Python 3.11.8"), encoding="utf-8")
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
    Path("README.md").write_text("<!-- table: run_environment -->\n<!-- end table -->\n")
    message = refused(pages.main, [])
    assert re.search("run.json: expected the log of mnist.*, found one of cifar-10.*; make it with", message)
    assert Path("README.md").read_text() == "<!-- table: run_environment -->\n<!-- end table -->\n"


def test_a_table_whose_log_is_missing_stays_as_it_is(folder, capsys):
    pages.main([])
    before = Path("README.md").read_text()
    Path("run.json").unlink()
    capsys.readouterr()
    assert pages.main([]) == 0
    assert "README.md: the table run_environment stays as it is, as there is no run.json\n" in capsys.readouterr().err
    assert Path("README.md").read_text() == before


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("README.md", None, ["README.md"]),
        ("README.md", "Gr\xfc\xdfe", ["README.md: expected text in UTF-8, found: ", "byte 0xfc in position 2"]),
        ("README.md", os.mkfifo, ["README.md: expected a readable file, found: a device or a pipe"]),
        ("run.json", "{", ["run.json"]),
        ("README.md", "<!-- table: cost -->\n<!-- end table -->", ["README.md", "'cost'", "costs, "]),
        ("README.md", "<!-- table: costs -->\n", ["README.md", "found 1 without"]),
        (
            "README.md",
            "<!-- table: costs -->\n<!-- table: run_environment -->\n<!-- end table -->",
            ["found 1 without"],
        ),
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
