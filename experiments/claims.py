"""The paper, claim by claim, in one table, from the logs of all experiments."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from highway_lab.figures import markdown
from highway_lab.logs import Log

from .common import load


class Claim(NamedTuple):
    """A sentence of the paper, what was found here, and the verdict: held, partly, not, or not tested.

    A detail is told in experiments/README.md alone, not in the main README.
    """

    section: str
    paper: str
    here: str
    verdict: str
    detail: bool = False


WITH_CLAIMS = {  # of each experiment the data sets by whose logs the paper is judged
    "depth_search": ("mnist",),
    "section_4": ("mnist",),  # of MNIST, the figures' own experiments look into a single net, or a single setting
    "gate_swaps": ("mnist",),
    **dict.fromkeys(("gate_maps", "class_routing", "lesions"), ("cifar-10",)),
    **dict.fromkeys(("bias_and_rate", "conv_bias", "thousand_layers"), ("mnist",)),
    "conv_tables": ("mnist", "cifar-10"),
}
NOT_TESTED = (Claim("3.3, table 3", "92.31 % on CIFAR-10, 67.61 % on CIFAR-100", "", "not tested"),)


def claims_table(claims: Iterable[Claim]) -> str:
    """Claims as Markdown."""
    return markdown(["section", "the paper", "here", "verdict"], [list(claim[:4]) for claim in claims], words=True)


def of_logs(logs: Iterable[Log]) -> Iterator[tuple[Claim, Path]]:
    """Each claim, and the log that it is judged by; the logs are all those of WITH_CLAIMS, in their order."""
    of = [(load(name), dataset) for name, datasets in WITH_CLAIMS.items() for dataset in datasets]
    for (experiment, dataset), log in zip(of, logs, strict=True):
        for claim in experiment.figures.claims(log):
            yield claim, experiment.log_path(dataset)


def all_claims(*logs: Log) -> str:
    """The table of experiments/README.md: every claim, with the numbers by which it is judged."""
    return claims_table([*(claim for claim, _ in of_logs(logs)), *NOT_TESTED])


def verdicts(*logs: Log) -> str:
    """The table of the main README: what the paper says and the verdict, which links to the log; no details."""
    found = [
        [claim.section, claim.paper, f"[{claim.verdict}]({path})"] for claim, path in of_logs(logs) if not claim.detail
    ]
    found += [[claim.section, claim.paper, claim.verdict] for claim in NOT_TESTED]
    return markdown(["section", "the paper", "here"], found, words=True)
