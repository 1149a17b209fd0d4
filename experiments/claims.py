"""The paper's claims and their verdicts in one table, from the logs of all experiments."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from highway_lab.figures import markdown
from highway_lab.logs import Log

from .common import load

INCONCLUSIVE = "not told apart"  # in tables: the interval allows both


class Claim(NamedTuple):
    """A sentence of the paper, what was found here, and the verdict: held, partly, not, or not tested.

    A detail appears in experiments/README.md alone, not in the main README.
    """

    section: str
    paper: str
    here: str
    verdict: str
    detail: bool = False


WITH_CLAIMS = {  # by experiment, the data sets whose logs judge the paper
    "depth_search": ("mnist",),
    "section_4": ("mnist",),  # for MNIST, the experiments of figures 2 to 4 have a single net or setting
    "gate_swaps": ("mnist",),
    **dict.fromkeys(("gate_maps", "class_routing", "lesions"), ("cifar-10",)),
    **dict.fromkeys(("bias_and_rate", "conv_bias", "thousand_layers"), ("mnist",)),
    "conv_tables": ("mnist", "cifar-10"),
}
NOT_TESTED = (Claim("3.3, table 3", "92.31 % on CIFAR-10, 67.61 % on CIFAR-100", "", "not tested"),)


def claims_table(claims: Iterable[Claim]) -> str:
    """Return claims as a Markdown table."""
    return markdown(["section", "the paper", "here", "verdict"], [list(claim[:4]) for claim in claims], words=True)


def of_logs(logs: Iterable[Log]) -> Iterator[tuple[Claim, Path]]:
    """Yield each claim and the path of its log; `logs` are those of WITH_CLAIMS, in order."""
    sources = [(load(name), dataset) for name, datasets in WITH_CLAIMS.items() for dataset in datasets]
    for (experiment, dataset), log in zip(sources, logs, strict=True):
        for claim in experiment.figures.claims(log):
            yield claim, experiment.log_path(dataset)


def all_claims(*logs: Log) -> str:
    """Return the table of experiments/README.md: every claim with its numbers."""
    return claims_table([*(claim for claim, _ in of_logs(logs)), *NOT_TESTED])


def verdicts(*logs: Log) -> str:
    """Return the table of the main README: claims without details, each verdict a link to its log."""
    found = [
        [claim.section, claim.paper, f"[{claim.verdict}]({path})"] for claim, path in of_logs(logs) if not claim.detail
    ]
    found += [[claim.section, claim.paper, claim.verdict] for claim in NOT_TESTED]
    return markdown(["section", "the paper", "here"], found, words=True)
