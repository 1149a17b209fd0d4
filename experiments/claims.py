"""Claims of the paper, verdicts on them, and the rules and margins of all verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from highway_lab.intervals import Interval, interval

# Least differences that count, the same in all experiments unless a page argues for another:
ACCURACY_MARGIN = 0.5  # points of accuracy
LOSS_MARGIN = 0.3  # orders of magnitude of the training loss
ONE_NET = 10  # points of a share: a single net's allowance for other seeds, as those of one setting in
# runs/section_4.json differ by less from their mean


class Verdict(StrEnum):
    """A judgement on a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


def share_of_nets(shares: Sequence[float]) -> Interval:
    """Return the mean of shares in %, one a net, with its interval; of a single net with ONE_NET in its place."""
    found = interval(shares)
    return found if len(shares) > 1 else found._replace(half=ONE_NET)


def judge_better(lead: Interval, margin: float) -> Verdict:
    """Judge "a is better than b" by the 95 % interval of a − b: it must exclude 0."""
    if lead.low > 0:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if lead.high < margin else Verdict.INCONCLUSIVE


def judge_as_good(lead: Interval, margin: float) -> Verdict:
    """Judge "a is as good as b" by the 95 % interval of a − b: it must exclude a loss of the margin."""
    if lead.low > -margin:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if lead.high < -margin else Verdict.INCONCLUSIVE


def judge_about(distance: Interval, margin: float) -> Verdict:
    """Judge "a is about b" by the 95 % interval of a − b: it must lie within the margin on both sides of 0."""
    if -margin < distance.low and distance.high < margin:
        return Verdict.REPRODUCED
    outside = distance.low > margin or distance.high < -margin
    return Verdict.NOT_REPRODUCED if outside else Verdict.INCONCLUSIVE


def require(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a claim with several conditions: one that is not reproduced refutes it."""
    for verdict in (Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.REPRODUCED


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


class Claim(NamedTuple):
    """A sentence of the paper, or one of ours, and a verdict with its reason.

    section   where the paper says it; OURS if it does not
    paper     the sentence, in our words
    verdict   one of five
    why       a plain sentence
    measured  the numbers with their 95 % intervals and n, the baseline beside them
    detail    whether it is left out of the main README
    before    whether the rule of the verdict was committed before the runs
    """

    section: str
    paper: str
    verdict: Verdict
    why: str
    measured: str
    detail: bool = False
    before: bool = False


OURS = "ours"


def of_cifar_100(section: str, paper: str) -> Claim:
    """Return the verdict on a sentence of the paper on its net for CIFAR-100."""
    why, measured = "No net was trained on CIFAR-100.", "what a net for CIFAR-10 shows is a row of ours"
    return Claim(section, paper, Verdict.NOT_TESTED, why, measured, detail=True)


def in_words(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def holds(verdicts: Mapping[Any, Verdict], form: str = "{}") -> str:
    """Say in which of several cases a claim holds; `form` is how they are named: "with {}", "at {} layers"."""
    sentences = {
        Verdict.REPRODUCED: "it holds {}",
        Verdict.PARTLY: "it holds in part {}",
        Verdict.NOT_REPRODUCED: "it does not hold {}",
        Verdict.INCONCLUSIVE: "{} the evidence does not decide",
    }
    cases = {
        of: [f"{case:,}" if isinstance(case, int) else str(case) for case in verdicts if verdicts[case] == of]
        for of in sentences
    }
    words = "; ".join(sentences[of].format(form.format(in_words(found))) for of, found in cases.items() if found)
    return f"{words[:1].upper()}{words[1:]}."


def claims_table(claims: Iterable[Claim]) -> str:
    """Return the verdicts of an experiment's page, a row a claim."""
    rows = [[f"{of.paper} ({of.section})", f"**{of.verdict}**", of.why, of.measured] for of in claims]
    rows = [["the claim", "verdict", "why", "measured"], [":--"] * 4, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def came(claim: Claim) -> str:
    """Say whether the rule of a verdict came before the runs."""
    if claim.verdict == Verdict.NOT_TESTED:
        return ""
    return "before the runs" if claim.before else "after the runs"
