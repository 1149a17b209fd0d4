"""95 % intervals of a mean over runs, and of the difference of two, by Student's t."""

import warnings
from collections.abc import Callable, Sequence
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


def interval(values: Sequence[Any] | np.ndarray) -> Interval:
    """Return the mean over independent runs; NaN of none, and if one has null, as of a score that is no number."""
    values = np.array(values, float)
    if len(values) < 2:
        return Interval(values[0] if len(values) else np.nan, np.inf)

    from scipy.stats import ttest_1samp  # imports in half a second

    return _about(float(np.mean(values)), ttest_1samp, values, 0)


def difference(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Return mean(a) − mean(b) over independent runs of unequal variances (Welch 1947); NaN of none."""
    from scipy.stats import ttest_ind

    if not (len(a) and len(b)):
        return interval([])
    return _about(np.mean(a) - np.mean(b), ttest_ind, a, b, equal_var=False)


def _about(value: Any, test: Callable[..., Any], *samples: Any, **options: Any) -> Interval:
    with warnings.catch_warnings(action="ignore"):  # about equal values and single ones
        low, high = test(*samples, **options).confidence_interval(LEVEL)
    half = float(high - low) / 2
    return Interval(float(value), np.inf if np.isnan(half) else half)


def judge(between: Interval, margin: float) -> str:
    """Return what the interval of a difference a − b says of a; `margin` is that of an equivalence test."""
    inside = -margin < between.low and between.high < margin
    if not between.sign:
        return "as good as" if inside else "inconclusive"
    return ("outperforms" if between.sign > 0 else "falls behind") + " by less than the margin" * inside
