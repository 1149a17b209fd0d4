"""Intervals of means, differences over seeds and images, Welch's test, Holm's correction, the words of a family."""

import math
import sys

import numpy as np
import pytest

from experiments.comparisons import holm, judge_family, over_seeds_and_images
from highway_lab.console import count_of
from highway_lab.intervals import Estimate, Interval, difference, interval, judge, mean_of, welch


def test_a_single_run_does_not_wait_for_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert interval([1.0]) == Interval(1.0, math.inf)
    with pytest.raises(ImportError):
        interval([1.0, 2.0])


def test_the_interval_over_seeds_is_students():
    from scipy.stats import ttest_1samp

    differences = [0.1, 0.4, -0.2, 0.3, 0.25]
    found, expected = mean_of(differences), ttest_1samp(differences, 0)
    low, high = expected.confidence_interval(0.95)
    assert (found.interval().low, found.interval().high) == (pytest.approx(low), pytest.approx(high))
    assert found.p == pytest.approx(expected.pvalue)


def test_the_standard_error_over_seeds_and_images_is_that_of_the_mean():
    """Drawn a thousand times from known variances: of seeds, of images, of what is left."""
    rng, n, m = np.random.default_rng(0), 10, 200
    found = []
    for _ in range(1_000):
        drawn = 0.2 * rng.standard_normal((n, 1)) + rng.standard_normal((1, m)) + 2 * rng.standard_normal((n, m))
        found.append(over_seeds_and_images(drawn))
    truth = math.sqrt(0.2**2 / n + 1 / m + 2**2 / (n * m))
    assert np.std([of.value for of in found]) == pytest.approx(truth, rel=0.06)
    assert math.sqrt(np.mean([of.se**2 for of in found])) == pytest.approx(truth, rel=0.04)


def test_the_standard_error_is_that_of_a_two_way_analysis_of_variance():
    n, m = 3, 4
    x = np.random.default_rng(0).standard_normal((n, m)) + np.arange(n)[:, None] + np.arange(m) ** 2
    of_seeds = m * sum((row.mean() - x.mean()) ** 2 for row in x)
    of_images = n * sum((column.mean() - x.mean()) ** 2 for column in x.T)
    rest = ((x - x.mean()) ** 2).sum() - of_seeds - of_images
    squares = of_seeds / (n - 1) + of_images / (m - 1) - rest / ((n - 1) * (m - 1))
    assert over_seeds_and_images(x).se == pytest.approx(math.sqrt(squares / (n * m)))


def test_without_images_that_differ_it_is_that_over_seeds():
    differences = np.repeat([[0.1], [0.4], [-0.2], [0.3]], 50, axis=1)
    found, expected = over_seeds_and_images(differences), mean_of([0.1, 0.4, -0.2, 0.3])
    assert (found.value, found.se) == (pytest.approx(expected.value), pytest.approx(expected.se))
    same = over_seeds_and_images(np.zeros((4, 50)))
    assert (same.value, same.se, same.p) == (0, 0, 1)


def test_the_difference_of_independent_runs_is_welchs():
    from scipy.stats import ttest_ind

    a, b = [0.1, 0.4, -0.2, 0.3, 0.25], [1.0, 0.2, 3.0]
    found, expected = welch(a, b), ttest_ind(a, b, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval().high == pytest.approx(expected.confidence_interval(0.95).high)
    assert welch([1.0], [2.0, 3.0]).p == 1
    assert (welch([1.0, 1.0], [2.0, 2.0]).p, welch([1.0, 1.0], [1.0, 1.0]).p) == (0, 1)


def test_holm_multiplies_by_the_number_of_tests_that_are_left_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("value", "se", "word"),
    [
        (1.0, 0.1, "outperforms"),
        (-1.0, 0.1, "falls behind"),
        (0.3, 0.02, "as good as"),  # different, but by less than the margin
        (0.01, 0.05, "as good as"),
        (0.4, 0.2, "inconclusive"),
        (0.4, 0.15, "inconclusive"),  # alone it would outperform, among eight it does not
        (0.0, 0.17, "as good as"),  # one-sided at 0.05 / 8, t of 19 degrees: 2.77 standard errors are below the margin
        (0.0, 0.19, "inconclusive"),
    ],
)
def test_the_words_of_a_family(value, se, word):
    family = {"it": Estimate(value, se, 19)}
    assert judge_family(family | {other: Estimate(0.0, 1.0, 19) for other in range(7)}, 0.5)["it"] == word
    if se == 0.15:
        assert judge_family(family, 0.5) == {"it": "outperforms"}


# ------------------------------------------------------------------------------- intervals


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
