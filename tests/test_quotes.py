"""Quoted numbers: what a page says is what its sources give, and it says nothing measured without a quote."""

import numpy as np
import pytest

from experiments.quotes import PAPER, errors

STUDY = {"loss": 1.25, "plain": 2.14, "lead": -0.5, "tiny": np.float32(0.28), "lost": float("nan")}
STUDY |= {"seeds": np.int64(5), "runs": 60_000, "values": np.array([3.0, 1.0, 2.0]), "ten": 10}
STUDY |= {"ahead": np.bool_(True), "behind": np.bool_(False), "verdict": "not reproduced", "other": "Alike"}
STUDY |= {"by": {"tanh": 2.14, ("tanh", 5): 7}, "near": lambda a, b: abs(a - b) < 0.3}


def found(text: str, *lines: str, source: str = "study", **settings) -> list[str]:
    """What is wrong with a page of this text and these quotes."""
    listed = "\n".join([f"<!-- quoted from {source}", *lines, "-->"])
    return errors(f"{text}\n\n{listed}\n", {"study": lambda: STUDY}, **settings)


RIGHT = [
    ("The loss is 2.1 here.", "loss is 2.1 = plain"),
    ("The loss is 2.14 here.", "loss is 2.14 = plain"),
    ("It is 28.4 % here.", "It is 28.4 % = seeds * 5.67"),  # 28.349999999999998
    ("All 60,000 runs end.", "60,000 runs = runs"),
    ("**Five** seeds each.", "**Five** seeds each = seeds"),
    ("From −0.5 to -0.5 and +0.5 points.", "From −0.5 to -0.5 and +0.5 points = (lead, lead, -lead)"),
    ("It is 28 ± 2.1 % here.", "28 ± 2.1 % = (100 * tiny, plain)"),
    ("From 3 to 1 to 2.", "From 3 to 1 to 2 = values"),
    ("There 7 nets learn.", 'There 7 nets learn = by["tanh", seeds]'),
    ("Of 3 and 6.", "Of 3 and 6 = (round(max(values)), values.size + 5 / seeds ** 1.0 + 2)"),
    ("It leads by far.", "leads by far = ahead and not behind and 1 < loss <= 1.25"),
    ("Both are alike.", "Both are alike = near(loss, plain - 1)"),
    ("It leads by 2.1 points.", "leads by 2.1 points = (plain, ahead)"),
    ("It is **Not reproduced** here.", "**Not reproduced** = verdict"),
    ("| sum | **not reproduced** |", "| **not reproduced** | = verdict"),
    ("| tanh | alike | 2.1 |", "| tanh | alike | 2.1 | = (other, plain)"),
    ("| a | 5 |\n|:-|-:|\n|b|2.1|", "| a | 5 | = seeds", "| b | 2.1 | = plain"),
    ("So **gates win\nand hold**.", "gates win and hold = ahead"),
    ("With y = x + H it\nis 2.1.", "y = x + H it is 2.1 = plain"),
    ("On CIFAR-10 x_0, 3 × 3, the 3rd: 5.", "On CIFAR-10 x_0, 3 × 3, the 3rd: 5 = seeds"),
    ("In tables 1 and 2.1 (section 3.1): 5.", "In tables 1 and 2.1 (section 3.1): 5 = seeds"),
    ("With `--p 0.5` it leads.", "With `--p 0.5` it leads = ahead"),
    ("See [five\nnets](nets-5.1.md) there.", "See five nets there = seeds"),
]


@pytest.mark.parametrize(("text", "lines"), [(text, lines) for text, *lines in RIGHT])
def test_a_right_quote_is_right(text, lines):
    assert found(text, *lines) == []


WRONG = [  # the quoted words, which are the whole text; the expression; why it is wrong
    ("A loss of 2.2", "plain", "the value is 2.14"),
    ("A lead of 0.5", "lead", "the value is -0.5"),
    ("A lead of –0.5", "-lead", "the value is 0.5"),
    ("All 60,000 runs", "runs / 1000", "the value is 60.0"),
    ("Six seeds", "seeds", "the value is 5"),
    ("It is 3,5 %", "seeds", "the value is 5"),
    ("From 2.1 to 3 %", "plain", "the value is 2.14"),
    ("From 5 to 2.1 %", "(plain, seeds)", "the value is"),
    ("It has no number", "sorted([seeds])[1:]", "Slice is neither"),
    ("It is 5 %", "lost", "the value is nan"),
    ("It is 5 %", "(seeds, by)", "the value is"),
    ("It leads", "ahead and behind", "the value is False"),
    ("It leads by 2.1 points", "(plain, behind)", "the value is"),
    ("**reproduced**", "verdict", "the value is not reproduced"),
    ("| **alike** | **not reproduced** | 5 |", "(verdict, seeds)", "the value is"),
    ("Not **alike**", "other", "the value is Alike"),
    ("It is alike", "other", "the value is Alike"),
    ("| **alike** | 2.1 |", "plain", "the value is 2.14"),
    ("It is 5 %", "5", "without a name"),
    ("It is 5 %", "seds", "NameError: seds is neither"),
    ("It is 5 %", 'by["relu"]', "KeyError: 'relu'"),
    ("It is 5 %", "seeds +", "SyntaxError"),
    ("It is 5 %", "__import__('os')", "__import__ is neither"),
    ("It is 5 %", "verdict.upper()", "Call is neither"),
    ("It is 5 %", "(lambda: seeds)()", "Call is neither"),
    ("It is 5 %", "[seeds for _ in values]", "ListComp is neither"),
]


@pytest.mark.parametrize(("words", "expression", "why"), WRONG)
def test_a_wrong_quote_is_one_error_that_says_why(words, expression, why):
    (error,) = found(words, f"{words} = {expression}")
    assert error.startswith(f"{words} = {expression}: ")
    assert why in error


ELSEWHERE = {
    "1.2 times = loss": ["11.2 times", "1.2 times-ish", "−1.2 times", "1–1.2 times"],
    "10 = ten": ["10.5", "10 %", "10-ish", "100", "10,000", "10^3", "10×", "10 million"],
    "ten = ten": ["often", "ten-ish", "Ten", "ten thousand", "`ten`", "<!-- ten -->", "[a](ten)"],
    "not = ahead": ["a\n\n    not\n", "```\nnot\n```", '<a id="not">', "knot"],
    "it leads = ahead": ["not it leads", "It no it leads", "never it leads", "it `x` leads"],
}


@pytest.mark.parametrize(("line", "text"), [(line, text) for line in ELSEWHERE for text in ELSEWHERE[line]])
def test_quoted_words_that_stand_nowhere_are_an_error(line, text):
    assert f"{line}: these words stand 0 times on the page" in found(text, line)


@pytest.mark.parametrize(("line", "text"), [("5 nets = seeds", "5 nets or 5 nets"), ("| 5 | = seeds", "| 5 | 5 |")])
def test_quoted_words_that_stand_twice_are_an_error(line, text):
    assert found(text, line) == [f"{line}: these words stand 2 times on the page"]


UNQUOTED = ["2.1", ".5", "12 %", "12 percent", "12 ± 3", "± 3", "11×", "18 of the 108", "two out of ten"]
UNQUOTED += ["12 runs", "five seeds", "18 tries", "12 plain nets", "12-point", "five times", "# 12 runs"]
UNQUOTED += ["| 12 |", "|ten|", "| −1,000 |", "[12 runs](a)"]
UNQUOTED += ["**gates\nwin**", "In the table 9.4 %", "3 × 12 runs", "plain-9.4", "- a\n  2.1"]
UNQUOTED += ["`a` ` 2.1", "plain-12 %"]


@pytest.mark.parametrize("text", UNQUOTED)
def test_what_is_measured_or_bold_needs_a_quote(text):
    (error,) = found(f"Here:\n\n{text}\n\nIt leads.", "It leads = ahead")
    assert "is in no quote: … Here:" in error


QUIET = ["[a](2.1_b_2.1)", "<b id='2.1'>", "arXiv:1507.06228", "tables 1, 2.1 and 3.2"]
QUIET += ["half of them", "y = 2x", "50 units, 12 epochs", "with 50 blocks plain nets", "CIFAR-10 nets", "`**a**`"]
QUIET += ["`2.1`", "```\n2.1", "<!-- 2.1\n -->", "| 5 b |", "a\n\n    2.1\n\n    2.1"]


@pytest.mark.parametrize("text", QUIET)
def test_other_words_need_no_quote(text):
    assert found(text) == []


def test_a_part_of_what_is_measured_is_not_enough():
    (error,) = found("It is 12 ± 10 here.", "10 = ten")
    assert error.startswith("12 ± 10 is in no quote")


@pytest.mark.parametrize("source", ["a b", "study It is 5 % = seeds -->", ""])
def test_an_unknown_source_is_one_error(source):
    (error,) = found("It is 5 %.", "It is 5 % = x", "is 5 % = y", source=source)
    assert error == f"quoted from {source}: expected one of paper, study"
    assert errors("It leads.\n<!-- quoted from It leads = ahead -->", {}) != []


def test_a_number_of_the_paper_is_quoted_from_any_source(monkeypatch):
    monkeypatch.setitem(PAPER, "factor", 100)
    for source in ("study", "paper"):
        assert found("They say 100 times.", 'They say 100 times = paper["factor"]', source=source) == []


def test_a_source_without_numbers_is_named_and_stops_no_other():
    def changed():
        raise KeyError("plain")

    text = "It is 2.1, or 3.\n<!-- quoted from changed\nIt is 2.1 = a\n-->\n<!-- quoted from study\nor 3 = plain\n-->"
    without, wrong = errors(text, {"changed": changed, "study": lambda: STUDY})
    assert without == "quoted from changed: its logs give no numbers (KeyError: 'plain')"
    assert wrong == "or 3 = plain: the value is 2.14"
