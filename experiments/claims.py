"""Verdicts on claims, and their rules and margins."""

from collections.abc import Iterable
from enum import StrEnum

from highway_lab.intervals import Interval

# Least differences that count, the same in all experiments unless a page argues for another:
ACCURACY_MARGIN = 0.5  # points of accuracy
LOSS_MARGIN = 0.3  # orders of magnitude of the training loss


class Verdict(StrEnum):
    """A judgement on a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


def decide(holds: bool, fails: bool) -> Verdict:
    return Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED if fails else Verdict.INCONCLUSIVE


def judge_better(lead: Interval, margin: float) -> Verdict:
    """Judge "a is better than b" by the 95 % interval of a − b: it must exclude 0."""
    return decide(lead.low > 0, lead.high < margin)


def judge_as_good(lead: Interval, margin: float) -> Verdict:
    """Judge "a is as good as b" by the 95 % interval of a − b: it must exclude a loss of the margin."""
    return decide(lead.low > -margin, lead.high < -margin)


def judge_about(distance: Interval, margin: float) -> Verdict:
    """Judge "a is about b" by the 95 % interval of a − b: it must lie within the margin on both sides of 0."""
    inside = -margin < distance.low and distance.high < margin
    return decide(inside, distance.low > margin or distance.high < -margin)


def require(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a claim with several conditions: one that is not reproduced refutes it."""
    return decide(not {Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE} & {*verdicts}, Verdict.NOT_REPRODUCED in verdicts)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim about several settings: partly, if it is reproduced in some."""
    found = {*verdicts}
    if len(found) == 1:
        return found.pop()
    if found & {Verdict.REPRODUCED, Verdict.PARTLY}:
        return Verdict.PARTLY
    return Verdict.INCONCLUSIVE


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim that one case is enough for."""
    found = [*verdicts]
    return Verdict.REPRODUCED if Verdict.REPRODUCED in found else combine(found)


def of_learners(verdict: Verdict, learned: bool) -> Verdict:
    """Return the verdict on "a is like b" if both have learned: nets that learn nothing are alike, too."""
    return verdict if learned else Verdict.INCONCLUSIVE
