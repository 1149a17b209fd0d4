"""The verdicts on all claims of the paper, in one table, from the logs of all experiments."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from highway_lab.console import name_data
from highway_lab.logs import Log
from highway_lab.tables import markdown

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


def judge_all(logs: Iterable[Log], folder: str) -> Iterator[tuple[Claim, str, str]]:
    """Yield every claim, its verdict as a link from a folder, and its data; `logs`: those of WITH_CLAIMS, in order."""
    logs = iter(logs)
    for name, datasets in WITH_CLAIMS.items():
        experiment = load(name)
        page = os.path.relpath(experiment.page, folder)
        for log, claim in experiment.judge([*islice(logs, len(experiment.logs_of_tables(datasets)))]):
            yield claim, f"[{claim.verdict}]({page})", name_data(log.dataset.name)


def all_verdicts(*logs: Log) -> str:
    """Return the table of experiments/README.md: every claim and its verdict, linked to its page."""
    rows = [[claim.section, claim.paper, *of] for claim, *of in judge_all(logs, "experiments")]
    return markdown(["section", "the paper", "verdict", "data here"], rows, words=True)


def main_verdicts(*logs: Log) -> str:
    """Return the table of the main README: claims without details, each verdict with its reason."""
    rows = [[claim.paper, link, claim.why] for claim, link, _ in judge_all(logs, ".") if not claim.detail]
    return markdown(["the paper", "verdict", "why"], rows, words=True)
