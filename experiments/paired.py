"""Differences between two nets trained from the same seeds and scored on the same test images.

What varies is the seed and, for accuracy, the choice of test images: two crossed random factors. A bootstrap over both
counts what is left beside them three times (Owen 2007), and its percentiles are too narrow with few seeds. So the
variance of the mean is estimated from the means by seed and by image, and the interval is Student's, with n − 1 degrees
of freedom.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from highway_lab.intervals import Interval

LEVEL = 0.05  # of all tests of a family together


class Paired(NamedTuple):
    """A mean difference over n seeds and its standard error."""

    value: float
    se: float
    n: int

    def interval(self, level: float = LEVEL) -> Interval:
        """Return the value with its interval at level 1 − `level`."""
        from scipy.stats import t  # imports in half a second

        half = self.se * float(t.ppf(1 - level / 2, self.n - 1)) if self.n > 1 else np.inf
        return Interval(self.value, half)

    @property
    def p(self) -> float:
        """Two-sided p of no difference."""
        from scipy.stats import t

        if self.n < 2 or not self.se:
            return 1.0 if not self.value or self.n < 2 else 0.0
        return float(2 * t.sf(abs(self.value) / self.se, self.n - 1))


def over_seeds(differences: Sequence[float]) -> Paired:
    """Return the mean of differences, one a seed; its standard error is exact, so nothing is drawn."""
    values, n = np.asarray(differences, float), len(differences)
    return Paired(float(values.mean()), float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf, n)


def over_seeds_and_images(differences: np.ndarray) -> Paired:
    """Return the mean of differences (seeds, images) and its standard error over both, crossed.

    With means a_s by seed and b_i by image, and r what is left: var(a)/n + var(b)/m − var(r)/(n·m), since the first two
    each contain the last; at least the first.
    """
    n, m = differences.shape
    if n < 2:
        return Paired(float(differences.mean()), math.inf, n)
    by_seed, by_image = differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - by_seed[:, None] - by_image + differences.mean()
    of_seeds, of_images = by_seed.var(ddof=1) / n, by_image.var(ddof=1) / m
    of_rest = (rest**2).sum() / ((n - 1) * (m - 1)) / (n * m)
    return Paired(float(differences.mean()), math.sqrt(max(of_seeds + of_images - of_rest, of_seeds)), n)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p of each test corrected for all of them (Holm 1979)."""
    order, corrected, largest = np.argsort(ps, kind="stable"), [0.0] * len(ps), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return corrected


def judge_family(found: Sequence[Paired], margin: float) -> list[str]:
    """Return for each difference a − b of a family what it says of a: one of four words.

    "as good as" if the difference is smaller than the margin, by two one-sided tests at LEVEL over the number of
    differences; else "outperforms" or "falls behind" if Holm's p is below LEVEL; else "inconclusive".
    """
    words = []
    for of, p in zip(found, holm([of.p for of in found]), strict=True):
        whole = of.interval(2 * LEVEL / len(found))
        inside = -margin < whole.low and whole.high < margin
        side = "outperforms" if of.value > 0 else "falls behind"
        words.append("as good as" if inside else side if p < LEVEL else "inconclusive")
    return words
