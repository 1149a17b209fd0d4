"""Differences over seeds and images, Welch's test, Holm's correction, and the words of a family of tests."""

import math

import numpy as np
import pytest

from experiments.comparisons import Difference, holm, judge_family, over_seeds, over_seeds_and_images, welch


def test_the_interval_over_seeds_is_students():
    from scipy.stats import ttest_1samp

    differences = [0.1, 0.4, -0.2, 0.3, 0.25]
    found, expected = over_seeds(differences), ttest_1samp(differences, 0)
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
    found, expected = over_seeds_and_images(differences), over_seeds([0.1, 0.4, -0.2, 0.3])
    assert (found.value, found.se) == (pytest.approx(expected.value), pytest.approx(expected.se))


def test_equal_nets_differ_by_nothing():
    found = over_seeds_and_images(np.zeros((4, 50)))
    assert (found.value, found.se, found.p) == (0, 0, 1)


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
    family = {"it": Difference(value, se, 19)}
    assert judge_family(family | {other: Difference(0.0, 1.0, 19) for other in range(7)}, 0.5)["it"] == word
    if se == 0.15:
        assert judge_family(family, 0.5) == {"it": "outperforms"}
