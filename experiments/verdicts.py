"""The verdicts on all claims of the paper, in one table, from the logs of all experiments."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from highway_lab.console import name_data
from highway_lab.figures import markdown
from highway_lab.logs import Log

from .claims import Claim
from .common import load

WITH_CLAIMS = {  # by experiment, the data sets whose logs judge the paper
    "depth_search": ("mnist",),
    "tuned_plain": ("mnist",),
    "section_4": ("mnist",),  # for MNIST, the experiments of figures 2 to 4 have a single net or setting
    "gate_swaps": ("mnist",),
    "constant_gates": ("mnist",),
    **dict.fromkeys(("gate_maps", "class_routing", "lesions"), ("cifar-10",)),
    **dict.fromkeys(("bias_and_rate", "conv_bias", "thousand_layers", "beyond.very_deep"), ("mnist",)),
    "conv_tables": ("mnist", "cifar-10"),
    "beyond.depth_per_example": ("mnist",),
}


class Judged(NamedTuple):
    """A claim, the data set that its log was made with, and the page that tells of it."""

    claim: Claim
    data: str
    page: Path


def judge_all(logs: Iterable[Log]) -> Iterator[Judged]:
    """Yield every claim; `logs` are those of WITH_CLAIMS, in order."""
    logs = iter(logs)
    for name, datasets in WITH_CLAIMS.items():
        experiment = load(name)
        for log, claim in experiment.judge([*islice(logs, len(experiment.log_steps(datasets)))]):
            yield Judged(claim, name_data(log.dataset.name), experiment.page)


def all_verdicts(*logs: Log) -> str:
    """Return the table of experiments/README.md: every claim and its verdict, linked to its page."""
    rows = [[of.claim.section, of.claim.paper, link(of, "experiments"), of.data] for of in judge_all(logs)]
    return markdown(["section", "the paper", "verdict", "data here"], rows, words=True)


def main_verdicts(*logs: Log) -> str:
    """Return the table of the main README: claims without details, each verdict with its reason."""
    rows = [[of.claim.paper, link(of, "."), of.claim.why] for of in judge_all(logs) if not of.claim.detail]
    return markdown(["the paper", "verdict", "why"], rows, words=True)


def link(judged: Judged, folder: str) -> str:
    return f"[{judged.claim.verdict}]({os.path.relpath(judged.page, folder)})"
