"""What a claim of the paper and a verdict on it are, and the margins of all verdicts."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from highway_lab.figures import markdown

# Least differences that count, the same in all experiments unless a page argues for another:
ACCURACY_MARGIN = 0.5  # points of accuracy
LOSS_MARGIN = 0.3  # orders of magnitude of the training loss


class Verdict(StrEnum):
    """A judgement on a claim; "as good as" takes an interval inside the margin, "better" one that excludes 0."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"


class Claim(NamedTuple):
    """A sentence of the paper and a verdict with its reason.

    section  where the paper says it
    paper    its sentence, in our words
    why      one clause: the number with its 95 % interval and n, the baseline beside it
    verdict  one of five
    detail   whether it is left out of the main README
    """

    section: str
    paper: str
    why: str
    verdict: Verdict
    detail: bool = False


def claims_table(claims: Iterable[Claim]) -> str:
    """Return the verdicts of an experiment's page, a row a claim."""
    rows = [[claim.section, claim.paper, f"**{claim.verdict}**", claim.why] for claim in claims]
    return markdown(["section", "the paper", "verdict", "why"], rows, words=True)
