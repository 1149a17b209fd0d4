"""95 % intervals of a mean over runs, and of the difference of two, by Student's t."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.95


class Interval(NamedTuple):
    """A value and half the width of the interval about it; infinite where a single run allows none."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0: inconclusive."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        """Return `+0.21 ± 0.30`; the value alone if a single run gave it."""
        return "diverged" if np.isnan(self.value) else format(self, "+.2f")

    def __format__(self, form: str) -> str:
        """Return value and half width as numbers of that form, no negative zero; "none" for NaN."""
        if not form:
            return str(self)
        if np.isnan(self.value):
            return "none"
        half = f" ± {self.half:{form.lstrip('+')}}" if np.isfinite(self.half) else ""
        return f"{self.value:{form.replace('.', 'z.')}}{half}"


class Estimate(NamedTuple):
    """A mean, or a difference of means: its standard error (infinite of a single run), Student's degrees of freedom."""

    value: float
    se: float
    df: float

    def interval(self, level: float = LEVEL) -> Interval:
        if np.isinf(self.se):
            return Interval(self.value, np.inf)
        from scipy.stats import t  # imports in half a second, which single runs need not wait for

        return Interval(self.value, self.se * float(t.ppf((1 + level) / 2, self.df)))

    @property
    def p(self) -> float:
        """Two-sided p of 0."""
        from scipy.stats import t

        return float(2 * t.sf(abs(self.value) / self.se, self.df)) if self.se else float(not self.value)


def mean_of(values: Sequence[Any] | np.ndarray) -> Estimate:
    """Return the mean over independent runs; NaN of none, and if one has null, as of a score that is no number."""
    values = np.array(values, float)
    if (n := len(values)) < 2:
        return Estimate(values[0] if n else np.nan, np.inf, 1)
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)), n - 1)


def welch(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return mean(a) − mean(b) over independent runs of unequal variances (Welch 1947)."""
    value, n = float(np.mean(a) - np.mean(b)), [len(of) for of in (a, b)]
    if min(n) < 2:
        return Estimate(value, np.inf, 1)
    parts = [float(np.var(of, ddof=1)) / len(of) for of in (a, b)]
    below = sum(part**2 / (size - 1) for part, size in zip(parts, n, strict=True))
    return Estimate(value, float(np.sqrt(sum(parts))), sum(parts) ** 2 / below if below else sum(n) - 2)


def interval(values: Sequence[Any] | np.ndarray) -> Interval:
    """Return the interval of `mean_of`."""
    return mean_of(values).interval()


def difference(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Return the interval of `welch`; NaN of none."""
    return welch(a, b).interval() if len(a) and len(b) else interval([])


def judge(between: Interval, margin: float) -> str:
    """Return what the interval of a difference a − b says of a; `margin` is that of an equivalence test."""
    inside = -margin < between.low and between.high < margin
    if not between.sign:
        return "as good as" if inside else "inconclusive"
    return ("outperforms" if between.sign > 0 else "falls behind") + " by less than the margin" * inside
