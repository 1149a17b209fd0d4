"""The rules of verdicts: better, as good as, and claims about several settings."""

import math

import pytest

from experiments.claims import Verdict, combine, judge_as_good, judge_better
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
