"""Intervals of means and differences: Student's and Welch's, on cases worked by hand."""

import math

import numpy as np
import pytest

from highway_lab.console import count_of
from highway_lab.intervals import Interval, difference, interval, judge


def test_the_interval_of_a_mean_is_students():
    """Of 1, 2, 3: standard error 1/√3, and t = 4.3027 with 2 degrees of freedom."""
    found = interval([1.0, 2.0, 3.0])
    assert found == pytest.approx((2, 4.3027 / math.sqrt(3)), abs=1e-4)
    assert (found.low, found.high) == pytest.approx((-0.484, 4.484), abs=1e-3)
    assert str(found) == "+2.00 ± 2.48"


def test_the_interval_of_a_difference_is_welchs():
    """Variances 1 and 1, three each: standard error √(2/3), 4 degrees of freedom, t = 2.7764."""
    assert difference([11.0, 12, 13], [1.0, 2, 3]) == pytest.approx((10, 2.7764 * math.sqrt(2 / 3)), abs=1e-4)
    unequal = difference([0.0, 100, 200], [1.0, 2, 3])
    assert unequal == pytest.approx((98, 4.3027 * 100 / math.sqrt(3)), rel=1e-3), "nearly as of one mean"


def test_it_takes_the_form_of_its_numbers():
    assert f"{Interval(0.123, 0.0456):+.1%}" == "+12.3% ± 4.6%"
    assert f"{Interval(-1.25, np.inf):.1f}" == "-1.2"
    assert f"{interval([1.0, np.nan]):.1f}" == f"{interval([1.0, None]):.1f}" == f"{interval([None]):.1f}" == "none"
    assert f"{Interval(0.123, 0.0456)}" == "+0.12 ± 0.05"
    assert f"{interval([]):.1f}" == "none"
    assert f"{Interval(-0.001, 0.25)}" == "+0.00 ± 0.25", "zero has no minus"


def test_runs_that_agree_leave_no_doubt():
    assert difference([3.0, 3.0], [1.0, 1.0, 1.0]) == interval([2.0, 2.0]) == (2, 0)
    assert difference([1.0, 1.0], [1.0, 1.0, 1.0]) == interval([0.0, 0.0]) == (0, 0)


@pytest.mark.parametrize("found", [interval([3.0]), difference([3.0], [0.0, 0.0])])
def test_one_run_gives_no_interval(found):
    assert (found.value, found.half, found.sign, str(found)) == (3, math.inf, 0, "+3.00")


def test_no_run_gives_no_value_and_one_net_no_plural():
    assert f"{difference([], [1.0, 2.0]):.1f}" == f"{difference([1.0], []):.1f}" == "none"
    assert (count_of(1, "net"), count_of(0, "net")) == ("1 net", "0 nets")


@pytest.mark.parametrize(
    ("values", "sign", "words"),
    [
        ([1.0, 1.1, 0.9], 1, "+1.00 ± 0.25"),
        ([-1.0, -1.1, -0.9], -1, "-1.00 ± 0.25"),
        ([1.0, -1.0, 0.3], 0, "+0.10 ± 2.52"),
        ([1.0, math.nan], 0, "diverged"),
    ],
)
def test_the_sign_is_that_of_an_interval_that_excludes_zero(values, sign, words):
    found = interval(values)
    assert (found.sign, str(found)) == (sign, words)
    assert [Interval(0.2 - bound, 0.3).sign for bound in (-0.2, 0, 0.5, 0.6)] == [1, 0, 0, -1]


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (Interval(1.5, 0.5), "outperforms"),
        (Interval(0.5, 0.3), "outperforms by less than the margin"),
        (Interval(-1.5, 0.5), "falls behind"),
        (Interval(0.2, 0.5), "as good as"),
        (Interval(0.2, 0.9), "inconclusive"),
    ],
)
def test_an_interval_is_judged_by_zero_and_the_margin(between, said):
    assert judge(between, 1.0) == said
