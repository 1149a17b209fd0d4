"""Section 2.2: which gate bias suits a convolutional net of 10, of 20, of 30 layers?

The paper suggests b_T = -1, -2 and -3 for about these depths, "as a general guideline", and shows no numbers for it.
Here every bias is tried at every depth, on table 1's net with 8 maps and two deeper ones, beside plain nets. The paper
counts the first convolution and the dense layer, too, so these nets have 8, 18 and 28 blocks. Runs of one seed
share images, batches and the weights' random numbers, so biases are compared seed by seed.

Three seeds show little. The study "new-seeds" has ten others at the two greater depths, where nets may fail to learn.

A net learns if it classifies LEARNED % of the test images correctly; a diverged run counts as one that guesses. The
guideline's bias suits a depth if every net that starts from it learns; that other biases fail is not part of the claim.
This rule was put in this form after all runs. Our own two claims are stronger: with the guideline's bias, more nets
learn, over all depths, than plain nets or than with the other biases, by Fisher's exact test at 5 %. This rule was put
in this form after the runs of three seeds. New seeds, for which it stood beforehand, judge alone, at 18 and 28 blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import conv_recipes
from conv_recipes import ConvConfig
from highway_lab.fields import Count
from highway_lab.intervals import interval
from highway_lab.logs import grouped

from .claims import Verdict, combine
from .common import FEW_EPOCHS
from .study import Arm, Results, Stage, Study, StudyRun, accuracies, gains

NETS = {8: "mnist-8", 18: "mnist-8-20", 28: "mnist-8-30"}  # by blocks: two layers fewer than the paper counts
GUIDELINE = {8: -1.0, 18: -2.0, 28: -3.0}
ARMS = {"highway": Arm({"block": "highway"}, {"gate_bias": (-1.0, -2.0, -3.0)}), "plain": Arm({"block": "plain"}, {})}
EPOCHS, BUDGET = 8, {"n_train": 10_000, "n_test": 10_000}
LEARNED = 50  # % of the test images
SIGNIFICANT = 0.05  # p below it

Runs = Sequence[StudyRun]


@dataclass(frozen=True)
class DeepConvCell:
    """An arm of so many blocks."""

    arm: str
    depth: Count


def configure(fields: Mapping, cell: DeepConvCell, stage: Stage) -> ConvConfig:
    return conv_recipes.configure(NETS[cell.depth], **{**FEW_EPOCHS, **BUDGET, **fields})


def study(depths: Iterable[int], seeds: Sequence[int]) -> Study:
    """Return a study whose every setting is trained from every seed."""
    return Study(
        ARMS,
        [DeepConvCell(arm, depth) for depth in depths for arm in ARMS],
        stages=(Stage(seeds, EPOCHS, result="scored"),),
        configure=configure,
        own=lambda name, arm: DeepConvCell(name, 8),
        config=ConvConfig,
    )


STUDY = {"": study(NETS, range(3)), "new-seeds": study((18, 28), range(3, 13))}  # by the endings of their logs


def learners(runs: Iterable[StudyRun]) -> list[StudyRun]:
    return [run for run in runs if 100 * run.accuracy >= LEARNED]


def kind(run: StudyRun) -> str:
    """Tell whether a run has no gates, starts from the guideline's bias, or from another."""
    if not run.setting:
        return "plain"
    return "guideline" if run.setting == (GUIDELINE[run.cell.depth],) else "other"


def suits(advised: Iterable[Runs]) -> Verdict:
    """Judge whether the guideline suits, given its runs at each depth."""
    return combine(
        Verdict.REPRODUCED if len(learners(runs)) == len(runs) else Verdict.NOT_REPRODUCED for runs in advised
    )


def judge_more(runs: Runs, others: Runs) -> Verdict:
    """Judge "more of these nets learn than of the others" by Fisher's exact test, two-sided."""
    from scipy.stats import fisher_exact  # imports in half a second

    counts = [[len(learners(group)), len(group) - len(learners(group))] for group in (runs, others)]
    if fisher_exact(counts).pvalue >= SIGNIFICANT:
        return Verdict.INCONCLUSIVE
    more = len(learners(runs)) * len(others) > len(learners(others)) * len(runs)
    return Verdict.REPRODUCED if more else Verdict.NOT_REPRODUCED


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes; by blocks and gate bias, None without gates; `new`: of the new seeds, by kind."""
    runs = [run for of in results.values() for run in of.runs]
    groups = grouped(runs, lambda run: (run.cell.depth, run.config.gate_bias if run.setting else None))
    advised = {depth: groups[depth, bias] for depth, bias in GUIDELINE.items()}
    new = grouped(results["new-seeds"].runs, kind)
    scores = accuracies(runs)
    return {
        "nets": {of: len(found) for of, found in groups.items()},
        "learn": {of: len(learners(found)) for of, found in groups.items()},
        "advised": sum(map(len, advised.values())),
        "advised_learn": sum(len(learners(found)) for found in advised.values()),
        "suits": suits(advised.values()).value,
        "new": {of: len(found) for of, found in new.items()},
        "new_learn": {of: len(learners(found)) for of, found in new.items()},
        "more": {of: judge_more(new["guideline"], new[of]).value for of in ("plain", "other")},
        "gain": {of: interval(gains(learners(found), learners(advised[of[0]]))) for of, found in groups.items()},
        "most_wrong_of_learners": 100 - min(scores[scores >= LEARNED]),
        "least_wrong_of_others": 100 - max(scores[scores < LEARNED]),
        "diverged": sum(run.diverged for run in runs),
    }
