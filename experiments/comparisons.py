"""Differences between two kinds of net, and what a family of them says.

Where nets of the same seeds are scored on the same test images, seeds and images are two crossed random factors. A
bootstrap over both counts what is left beside them three times (Owen 2007), and its percentiles are too narrow with few
seeds. So the variance of the mean is estimated from the means by seed and by image, and the interval is Student's, with
n − 1 degrees of freedom.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from highway_lab.intervals import Estimate

KeyT = TypeVar("KeyT")
LEVEL = 0.05  # of all tests of a family together
OUTPERFORMS, BEHIND, AS_GOOD, INCONCLUSIVE = "outperforms", "falls behind", "as good as", "inconclusive"


def over_seeds_and_images(differences: np.ndarray) -> Estimate:
    """Return the mean of differences (seeds, images) and its standard error over both, crossed.

    With means a_s by seed and b_i by image, and r what is left: var(a)/n + var(b)/m − var(r)/(n·m), since the first two
    each contain the last; at least the first.
    """
    n, m = differences.shape
    if n < 2:
        return Estimate(float(differences.mean()), math.inf, 1)
    by_seed, by_image = differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - by_seed[:, None] - by_image + differences.mean()
    of_seeds, of_images = by_seed.var(ddof=1) / n, by_image.var(ddof=1) / m
    of_rest = (rest**2).sum() / ((n - 1) * (m - 1)) / (n * m)
    return Estimate(float(differences.mean()), math.sqrt(max(of_seeds + of_images - of_rest, of_seeds)), n - 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p of each test corrected for all of them (Holm 1979)."""
    order, corrected, largest = np.argsort(ps, kind="stable"), [0.0] * len(ps), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = largest
    return corrected


def judge_family(found: Mapping[KeyT, Estimate], margin: float) -> dict[KeyT, str]:
    """Return for each difference a − b of a family what it says of a: one of four words.

    "as good as" if the difference is smaller than the margin, by two one-sided tests at LEVEL over the number of
    differences; else "outperforms" or "falls behind" if Holm's p is below LEVEL; else "inconclusive".
    """
    words = {}
    for (name, of), p in zip(found.items(), holm([of.p for of in found.values()]), strict=True):
        whole = of.interval(1 - 2 * LEVEL / len(found))
        inside = -margin < whole.low and whole.high < margin
        side = OUTPERFORMS if of.value > 0 else BEHIND
        words[name] = AS_GOOD if inside else side if p < LEVEL else INCONCLUSIVE
    return words
