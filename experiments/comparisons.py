"""Differences between two kinds of net, and what a family of them says.

Two kinds are trained from independent seeds (`welch`), or from the same seeds, so that they see the same images
(`over_seeds`). Where they are scored on the same test images, too, seeds and images are two crossed random factors
(`over_seeds_and_images`). A bootstrap over both counts what is left beside them three times (Owen 2007), and its
percentiles are too narrow with few seeds. So the variance of the mean is estimated from the means by seed and by image,
and the interval is Student's, with n − 1 degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from highway_lab import intervals
from highway_lab.intervals import Interval

KeyT = TypeVar("KeyT")
LEVEL = 0.05  # of all tests of a family together
OUTPERFORMS, BEHIND, AS_GOOD, INCONCLUSIVE = "outperforms", "falls behind", "as good as", "inconclusive"


class Difference(NamedTuple):
    """A mean difference a − b, its standard error (infinite of a single run), the degrees of freedom of Student's t."""

    value: float
    se: float
    df: float

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the value with its interval at level 1 − `level`."""
        return intervals.about(*self, 1 - level)

    @property
    def p(self) -> float:
        """Two-sided p of no difference."""
        from scipy.stats import t  # imports in half a second

        return float(2 * t.sf(abs(self.value) / self.se, self.df)) if self.se else float(not self.value)


def welch(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the difference of the means of independent runs of unequal variances (Welch 1947)."""
    return Difference(*intervals.welch(a, b))


def over_seeds(differences: Sequence[float]) -> Difference:
    """Return the mean of differences, one a seed; its standard error is exact, so nothing is drawn."""
    n, mean = len(differences), float(np.mean(differences))
    se = float(np.std(differences, ddof=1) / math.sqrt(n)) if n > 1 else math.inf
    return Difference(mean, se, max(n - 1, 1))


def over_seeds_and_images(differences: np.ndarray) -> Difference:
    """Return the mean of differences (seeds, images) and its standard error over both, crossed.

    With means a_s by seed and b_i by image, and r what is left: var(a)/n + var(b)/m − var(r)/(n·m), since the first two
    each contain the last; at least the first.
    """
    n, m = differences.shape
    if n < 2:
        return Difference(float(differences.mean()), math.inf, 1)
    by_seed, by_image = differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - by_seed[:, None] - by_image + differences.mean()
    of_seeds, of_images = by_seed.var(ddof=1) / n, by_image.var(ddof=1) / m
    of_rest = (rest**2).sum() / ((n - 1) * (m - 1)) / (n * m)
    return Difference(float(differences.mean()), math.sqrt(max(of_seeds + of_images - of_rest, of_seeds)), n - 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p of each test corrected for all of them (Holm 1979)."""
    order, corrected, largest = np.argsort(ps, kind="stable"), [0.0] * len(ps), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return corrected


def judge_family(found: Mapping[KeyT, Difference], margin: float) -> dict[KeyT, str]:
    """Return for each difference a − b of a family what it says of a: one of four words.

    "as good as" if the difference is smaller than the margin, by two one-sided tests at LEVEL over the number of
    differences; else "outperforms" or "falls behind" if Holm's p is below LEVEL; else "inconclusive".
    """
    words = {}
    for (name, of), p in zip(found.items(), holm([of.p for of in found.values()]), strict=True):
        whole = of.interval(2 * LEVEL / len(found))
        inside = -margin < whole.low and whole.high < margin
        side = OUTPERFORMS if of.value > 0 else BEHIND
        words[name] = AS_GOOD if inside else side if p < LEVEL else INCONCLUSIVE
    return words
