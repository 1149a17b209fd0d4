"""The verdicts on all claims, the paper's and ours, from the logs of all experiments."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from highway_lab.logs import Log
from highway_lab.tables import markdown

from .claims import OURS, Claim, came
from .common import load

WITH_CLAIMS = {  # by experiment, the data sets whose logs judge the paper
    "depth_search": ("mnist",),
    "tuned_plain": ("mnist",),
    "sketch": ("mnist",),
    "section_4": ("mnist",),  # for MNIST, the experiments of figures 2 to 4 have a single net or setting
    "gate_swaps": ("mnist",),
    "constant_gates": ("mnist",),
    **dict.fromkeys(("gate_maps", "class_routing", "lesions"), ("cifar-10",)),
    "task_difficulty": ("mnist",),
    **dict.fromkeys(("bias_and_rate", "conv_bias", "thousand_layers", "beyond.very_deep"), ("mnist",)),
    "conv_tables": ("mnist", "cifar-10"),
    "beyond.depth_per_example": ("mnist",),
}


def judge_all(logs: Iterable[Log], folder: str) -> Iterator[tuple[Claim, str]]:
    """Yield every claim, and its verdict as a link from a folder; `logs`: those of WITH_CLAIMS, in order."""
    logs = iter(logs)
    for name, datasets in WITH_CLAIMS.items():
        experiment = load(name)
        page = os.path.relpath(experiment.page, folder)
        for _, claim in experiment.judge([*islice(logs, len(experiment.logs_of_tables(datasets)))]):
            yield claim, f"[{claim.verdict}]({page})"


def all_verdicts(*logs: Log) -> str:
    """Return the table of experiments/README.md: every claim of the paper and its verdict, linked to its page."""
    judged = [(claim, link) for claim, link in judge_all(logs, "experiments") if claim.section != OURS]
    rows = [[claim.section, claim.paper, link, claim.why, came(claim)] for claim, link in judged]
    return markdown(["section", "the paper", "verdict", "why", "rule"], rows, words=True)


def own_verdicts(*logs: Log) -> str:
    """Return the table of experiments/README.md of what the paper does not say."""
    judged = [(claim, link) for claim, link in judge_all(logs, "experiments") if claim.section == OURS]
    rows = [[claim.paper, link, claim.why, came(claim)] for claim, link in judged]
    return markdown(["our question", "verdict", "why", "rule"], rows, words=True)


def main_verdicts(*logs: Log) -> str:
    """Return the table of the main README: claims without details, each verdict with its reason."""
    rows = [[claim.paper, link, claim.why] for claim, link in judge_all(logs, ".") if not claim.detail]
    return markdown(["the paper", "verdict", "why"], rows, words=True)
