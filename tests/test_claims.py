"""The rules of verdicts: better, as good as, about, and claims with several conditions or settings."""

import math

import pytest

from experiments.claims import (
    Verdict,
    any_of,
    combine,
    judge_about,
    judge_as_good,
    judge_better,
    require,
)
from highway_lab.intervals import Interval

REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, NOT_TESTED = Verdict


@pytest.mark.parametrize(
    ("lead", "better", "as_good"),
    [
        (Interval(0.7, 0.3), REPRODUCED, REPRODUCED),
        (Interval(0.7, 0.8), INCONCLUSIVE, REPRODUCED),
        (Interval(0.1, 0.3), NOT_REPRODUCED, REPRODUCED),
        (Interval(-0.1, 0.3), NOT_REPRODUCED, REPRODUCED),
        (Interval(-0.4, 0.3), NOT_REPRODUCED, INCONCLUSIVE),
        (Interval(0.0, 2.0), INCONCLUSIVE, INCONCLUSIVE),
        (Interval(-0.9, 0.3), NOT_REPRODUCED, NOT_REPRODUCED),
        (Interval(3.0, math.inf), INCONCLUSIVE, INCONCLUSIVE),
    ],
    ids=str,
)
def test_better_excludes_zero_and_as_good_excludes_the_margin(lead, better, as_good):
    assert (judge_better(lead, 0.5), judge_as_good(lead, 0.5)) == (better, as_good)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (Interval(-1.0, 8.0), REPRODUCED),
        (Interval(13.0, 18.0), INCONCLUSIVE),
        (Interval(0.0, 12.0), INCONCLUSIVE),
        (Interval(36.0, 5.0), NOT_REPRODUCED),
        (Interval(-36.0, 5.0), NOT_REPRODUCED),
        (Interval(0.0, math.inf), INCONCLUSIVE),
    ],
    ids=str,
)
def test_about_is_within_the_margin_on_both_sides(distance, expected):
    assert judge_about(distance, 10) == expected


def test_a_condition_that_is_not_reproduced_refutes_a_claim():
    assert require(REPRODUCED, REPRODUCED) == REPRODUCED
    assert require(REPRODUCED, INCONCLUSIVE) == INCONCLUSIVE
    assert require(INCONCLUSIVE, NOT_REPRODUCED) == require(NOT_REPRODUCED, REPRODUCED) == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([REPRODUCED, REPRODUCED], REPRODUCED),
        ([REPRODUCED, NOT_REPRODUCED], PARTLY),
        ([REPRODUCED, INCONCLUSIVE], PARTLY),
        ([NOT_REPRODUCED, NOT_REPRODUCED], NOT_REPRODUCED),
        ([NOT_REPRODUCED, INCONCLUSIVE], INCONCLUSIVE),
        ([PARTLY, NOT_REPRODUCED], PARTLY),
    ],
    ids=str,
)
def test_a_claim_about_several_settings_is_reproduced_in_all_or_partly(verdicts, expected):
    assert combine(verdicts) == expected
    assert any_of(verdicts) == (REPRODUCED if REPRODUCED in verdicts else expected)
