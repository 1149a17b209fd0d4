"""How far a mean over runs, or a difference of two, may be from what more runs would give: 95 %, by Student's t."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

LEVEL = 0.95


class Interval(NamedTuple):
    """A value, and half of the interval about it, which is infinite where a single run tells nothing."""

    value: float
    half: float

    @classmethod
    def about(cls, value: float, error: float, freedom: float) -> Self:
        """Given the value's standard error and its degrees of freedom."""
        from scipy.stats import t

        return cls(float(value), float(t.ppf((1 + LEVEL) / 2, freedom) * error) if freedom > 0 else np.inf)

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies on one side of zero, else 0: not told apart from it."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        """`+0.21 ± 0.30`; the value alone if a single run gave it."""
        return "diverged" if np.isnan(self.value) else format(self, "+.2f")

    def __format__(self, form: str) -> str:
        """The same with numbers of that form; "none" where a run gave none."""
        if not form:
            return str(self)
        if np.isnan(self.value):
            return "none"
        return f"{self.value:{form}}" + (f" ± {self.half:{form.lstrip('+')}}" if np.isfinite(self.half) else "")


def interval(values: Sequence[float]) -> Interval:
    """The mean of independent runs."""
    n = len(values)
    return Interval.about(np.mean(values), np.std(values, ddof=1) / n**0.5 if n > 1 else np.inf, n - 1)


def difference(a: Sequence[float], b: Sequence[float]) -> Interval:
    """The mean of a less that of b, independent runs of unequal variances (Welch 1947)."""
    between = np.mean(a) - np.mean(b)
    if min(len(a), len(b)) < 2:
        return Interval(float(between), np.inf)
    parts = [np.var(of, ddof=1) / len(of) for of in (a, b)]  # of the variance of the difference
    if not any(parts):
        return Interval(float(between), 0.0)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(of) - 1) for part, of in zip(parts, (a, b), strict=True))
    return Interval.about(between, sum(parts) ** 0.5, freedom)
