"""The pages: every experiment has one, in the same form, and every picture stands on one."""

import os
import re
from pathlib import Path

import pytest
from helpers import ROOT

from experiments.__main__ import STEPS
from experiments.claims import OURS, Verdict, came
from experiments.common import load
from pages import pages

PARTS = ["How sure is this?", "What it means", "How to repeat it"]
QUOTING = ["How sure is this?", "What it means", "Repeat it"]  # of pages that quote their numbers
PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in (*pages(), Path("CONTRIBUTING.md"))}


def opening(page: Path) -> str:
    """Return what stands above a page's first picture or section."""
    return re.split(r"^(?:!\[|## )", PAGES[page], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem.islower()], ids=str)  # not the README's
def test_a_page_asks_answers_and_says_how_sure_that_is_and_how_to_repeat_it(page):
    title, *_ = PAGES[page].splitlines()
    assert title.startswith("# ")
    assert title.endswith("?")
    quotes = "<!-- quoted from " in PAGES[page]
    answered = PAGES[page] if quotes else opening(page)
    assert re.search(r"^\*\*.+?\*\*", answered, re.MULTILINE | re.DOTALL), "an answer in bold"
    found, parts = re.findall(r"^##+ (.+)$", PAGES[page], re.MULTILINE), QUOTING if quotes else PARTS
    asked = [part for part in found if part in parts]
    assert asked == parts * max(1, len(asked) // len(parts))  # once a question


MEASURED = [
    name
    for name in STEPS
    if not hasattr(load(name).contents, "FIGURES") and any((ROOT / path).exists() for path in load(name).log_steps())
]  # others are under way, or their numbers are quoted


@pytest.mark.parametrize("name", MEASURED)
def test_a_page_shows_all_pictures_tables_and_verdicts_of_its_experiment(name):
    experiment = load(name)
    text = PAGES[experiment.page]
    linked = {Path(link).name for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert {*experiment.figures.FIGURES} <= linked
    assert {*experiment.tables} <= {*re.findall(r"<!-- table: (\S+) -->", text)}


@pytest.mark.parametrize("name", [name for name in MEASURED if hasattr(load(name).figures, "claims")])
def test_each_verdict_is_one_of_five_words_and_stands_in_the_opening(name):
    experiment = load(name)
    logs = [experiment.read(ROOT / path) for path in experiment.existing_logs()]
    verdicts = {claim.verdict for _, claim in experiment.judge(logs)}
    assert {type(verdict) for verdict in verdicts} == {Verdict}
    bold = {word.lower() for word in re.findall(r"\*\*([^*.]+)\.?\*\*", opening(experiment.page))}
    assert bold & {*Verdict}


def verdict_rows() -> dict[Path, list[str]]:
    """The rows of the tables of claims, by page, that the logs of experiments give."""
    rows, index = {Path("README.md"): [], Path("experiments/README.md"): []}, Path("experiments")
    for name in MEASURED:
        experiment = load(name)
        if not hasattr(experiment.figures, "claims"):
            continue
        paths = experiment.logs_of_tables(["mnist"])
        for _, claim in experiment.judge([experiment.read(ROOT / path) for path in paths if (ROOT / path).exists()]):
            ours, link = claim.section == OURS, f"[{claim.verdict}]({os.path.relpath(experiment.page, index)})"
            judged = [claim.paper, link, claim.why, came(claim)]
            rows[index / "README.md"].append(" | ".join(judged if ours else [claim.section, *judged]))
            if not claim.detail:
                rows[Path("README.md")].append(f"{claim.paper} | [{claim.verdict}]({experiment.page}) | {claim.why}")
    return rows


@pytest.mark.slow
def test_the_tables_of_claims_hold_the_verdicts_of_the_logs():
    for page, rows in verdict_rows().items():
        assert [row for row in rows if f"| {row} |" not in PAGES[page]] == []


def test_every_picture_stands_on_a_page():
    linked = {Path(link).name for text in PAGES.values() for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert {path.name for path in (ROOT / "viz").iterdir() if path.is_file()} - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_links_to_is_there(page):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page]) if "://" not in link]
    assert [link for link in links if not (ROOT / page.parent / link).exists()] == []
