"""The pages: every experiment has one, in the same form, and every picture stands on one."""

import re
from pathlib import Path

import pytest
from helpers import ROOT

from experiments.__main__ import STEPS
from experiments.claims import Verdict
from experiments.common import load
from pages import pages

PARTS = ("Question", "Answer", "How", "Limits")
PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in (*pages(), Path("CONTRIBUTING.md"))}


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem.islower()], ids=str)  # not the README's
def test_a_page_asks_answers_and_says_how_and_within_which_limits(page):
    text = PAGES[page]
    found = re.findall(r"^\*\*(\w+)\.\*\* ", text, re.MULTILINE)
    assert [part for part in found if part in PARTS] == list(PARTS)


MEASURED = [
    name for name in STEPS if any((ROOT / path).exists() for path in load(name).log_steps())
]  # others are under way


@pytest.mark.parametrize("name", MEASURED)
def test_a_page_shows_all_pictures_tables_and_verdicts_of_its_experiment(name):
    experiment = load(name)
    text = PAGES[experiment.page]
    linked = {Path(link).name for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert {*experiment.figures.FIGURES} <= linked
    assert {*experiment.tables} <= {*re.findall(r"<!-- table: (\S+) -->", text)}


@pytest.mark.parametrize("name", [name for name in MEASURED if hasattr(load(name).figures, "claims")])
def test_each_verdict_is_one_of_five_words_and_stands_in_the_answer(name):
    experiment = load(name)
    logs = [experiment.read(ROOT / path) for path in experiment.existing_logs()]
    verdicts = {claim.verdict for _, claim in experiment.judge(logs)}
    assert {type(verdict) for verdict in verdicts} == {Verdict}
    answer = re.search(r"\*\*Answer\.\*\*(.*?)\n\n(?:!|\*\*How)", PAGES[experiment.page], re.DOTALL)[1]
    bold = {word.lower() for word in re.findall(r"\*\*([^*.]+)\*\*", answer)}
    assert bold & {*Verdict}


def test_every_picture_stands_on_a_page():
    linked = {Path(link).name for text in PAGES.values() for link in re.findall(r"\]\(([^)#]+)\)", text)}
    assert {path.name for path in (ROOT / "viz").iterdir() if path.is_file()} - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_links_to_is_there(page):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page]) if "://" not in link]
    assert [link for link in links if not (ROOT / page.parent / link).exists()] == []
