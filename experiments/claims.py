"""The paper, claim by claim, in one table, from the logs of all experiments."""

from collections.abc import Iterable
from typing import NamedTuple

from figure_style import markdown
from run_log import Log

from .common import load


class Claim(NamedTuple):
    """A sentence of the paper, what was found here, and the verdict: held, partly, not, or not tested.

    A detail is told beside its experiment alone, not in the main README.
    """

    section: str
    paper: str
    here: str
    verdict: str
    detail: bool = False


WITH_CLAIMS = ("depth_search", "gate_maps", "class_routing", "lesions", "very_deep")
NOT_TESTED = (
    Claim("3.2, table 1", "convolutional nets of 10 layers reach 99.4 % on MNIST", "", "under way"),
    Claim("3.3, tables 2, 3", "highway nets of 11 to 32 layers on CIFAR-10 and CIFAR-100", "", "under way"),
)


def claims_table(claims: Iterable[Claim]) -> str:
    """Claims as Markdown."""
    return markdown(["section", "the paper", "here", "verdict"], [list(claim[:4]) for claim in claims], words=True)


def all_claims(*logs: Log) -> str:
    """The table of the main README; all logs of WITH_CLAIMS, in their order, to which their claims link."""
    found = []
    of = [(experiment, dataset) for experiment in map(load, WITH_CLAIMS) for dataset in experiment.datasets]
    for (experiment, dataset), log in zip(of, logs, strict=True):
        link = f"[{{}}]({experiment.log_path(dataset)})"
        claims = [claim for claim in experiment.figures.claims(log) if not claim.detail]
        found += [claim._replace(section=link.format(claim.section)) for claim in claims]
    return claims_table([*found, *NOT_TESTED])


def harder_claims(*logs: Log) -> str:
    """The table of the data sets beyond the usual ones, details included; their logs, in the order of WITH_CLAIMS."""
    experiments = [experiment for experiment in map(load, WITH_CLAIMS) for _ in experiment.datasets[1:]]
    pairs = zip(experiments, logs, strict=True)
    return claims_table(claim for experiment, log in pairs for claim in experiment.figures.claims(log))
