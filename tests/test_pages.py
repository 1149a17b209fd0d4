"""The pages: in one form, with numbers that are quoted rightly, links that lead somewhere, and every picture."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import A_PIPE, ROOT, assert_says, files_below, refused_with, slashes
from made_up import made_up_log
from picture_helpers import outdated

import pages
from highway_lab.logs import write
from highway_networks import InputError

PARTS = ["How sure is this?", "What it means", "Repeat it"]
PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in (*pages.pages(), Path("CONTRIBUTING.md"))}


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem.islower()], ids=str)  # not the README's
def test_a_page_asks_answers_and_says_how_sure_that_is_and_how_to_repeat_it(page):
    title, *_ = PAGES[page].splitlines()
    assert title.startswith("# ")
    assert title.endswith("?")
    assert re.search(r"^\*\*.+?\*\*", PAGES[page], re.MULTILINE | re.DOTALL), "an answer in bold"
    asked = [part for part in re.findall(r"^##+ (.+)$", PAGES[page], re.MULTILINE) if part in PARTS]
    assert asked == PARTS * max(1, len(asked) // len(PARTS))  # once a question


def test_pages_name_every_log_and_one_wherever_they_say_how_to_repeat_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = [text.partition("<!-- quoted")[0] for page, text in PAGES.items() if page.parent.name]
    parts = [part for text in shown for part in re.findall(r"(?ms)^##+ Repeat it$(.*?)(?=^#|\Z)", text)]
    assert [part for part in parts if ".json" not in part] == []
    named = {name for text in shown for name in re.findall(r"[\w-]+\.json", text)}
    assert {log.name for log in pages.logs()} - named == set()


@pytest.mark.parametrize("page", pages.pages(), ids=str)
def test_a_page_quotes_its_numbers_rightly_and_forgets_none(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert pages.faults(page) == []


def test_every_picture_stands_on_a_page():
    linked = {Path(link).name for text in PAGES.values() for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert {path.name for path in (ROOT / "viz").iterdir() if path.is_file()} - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_links_to_is_there(page):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page]) if "://" not in link]
    assert [link for link in links if not (ROOT / page.parent / link).exists()] == []


def test_every_committed_log_has_its_digest(monkeypatch):
    monkeypatch.chdir(ROOT)
    if pages.sums() != pages.SUMS.read_text("utf-8"):
        outdated(f"{pages.SUMS} has the digests of other logs")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a page and the logs that it quotes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pages, "QUOTED", {"sweep": lambda: {"seeds": 20}})
    Path("README.md").write_text("It has twenty seeds: 20.\n<!-- quoted from sweep\nseeds: 20 = seeds\n-->\n", "utf-8")
    write("run.json", made_up_log(depths=(30,)))
    write("run_sweep.json", made_up_log(depths=(5, 10), seeds=(0, 1, 2), diverged=[("plain", 1)]))
    assert pages.main([]) == 0
    return tmp_path


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_the_digests_are_those_of_sha256sum(folder):
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", pages.SUMS], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "run.json: OK\nrun_sweep.json: OK\n"


def test_check_finds_a_changed_number_or_log_and_changes_nothing(folder, capsys):
    assert pages.main(["--check"]) == 0
    assert capsys.readouterr().out.endswith("checked the numbers of 1 quote on 1 page and the digests of 2 logs\n")
    Path("README.md").write_text(Path("README.md").read_text("utf-8").replace("20", "21"), "utf-8")
    write("run.json", made_up_log(depths=(29,)))
    before = files_below(folder)
    assert pages.main(["--check"]) == 1
    assert slashes(capsys.readouterr().err) == (
        "run.json: expected the log whose digest is in runs/SHA256SUMS, found another; restore it (git checkout) or, "
        "if it was made anew, run: python -m pages\n"
        "README.md: seeds: 21 = seeds: the value is 20\n"
    )
    assert files_below(folder) == before


@pytest.mark.parametrize(
    ("content", "found"),
    [(None, "No such file"), ("Gr\xfc\xdfe", "byte 0xfc in position 2"), A_PIPE],
    ids=["no page", "Latin-1", None],
)
def test_a_page_that_cannot_be_read_is_one_line(content, found, folder, refused):
    Path("README.md").unlink()
    if callable(content):
        content("README.md")
    elif content is not None:
        Path("README.md").write_text(content, encoding="latin-1")
    assert_says(InputError(refused(pages.main, ["--check"]).rstrip("\n")), "README.md: expected ", found)


def test_a_log_that_is_cut_short_is_named(tmp_path):
    (tmp_path / "log.json").write_text('{"runs": [', "utf-8")
    with refused_with("log.json", "expected a log, found: Expecting value"):
        pages.seconds_of(tmp_path / "log.json")


def test_a_run_costs_the_seconds_that_were_measured_or_those_of_its_epochs():
    run, whole = {"history": {"seconds": [1.0, 2.0]}, "measured": {"score": 0.9}}, {"measured": {"seconds": 4.0}}
    assert pages.seconds({"runs": [run, run | whole], "environment": None}) == 7
