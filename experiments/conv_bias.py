"""Section 2.2: which gate bias suits a convolutional net of 10, of 20, of 30 layers?

The paper suggests b_T = -1, -2 and -3 for about these depths, "as a general guideline", and shows no numbers for it.
Here every bias is tried at every depth, on table 1's net and two deeper ones of the same kind, beside plain nets. The
paper counts the first convolution and the dense layer, too, so these nets have 8, 18 and 28 blocks. Runs of one seed
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

import numpy as np
from matplotlib.figure import Figure

import conv_recipes
from conv_recipes import ConvConfig
from highway_lab.fields import Count
from highway_lab.figures import draw_level, label_ends, new_figure, pale
from highway_lab.intervals import interval
from highway_lab.logs import grouped

from .claims import Verdict, combine
from .common import CHANCE, FEW_EPOCHS
from .common_figures import arm_color, minus, scale_by_logarithm
from .study import Arm, Results, Stage, Study, StudyRun, accuracies

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
        criteria={"error": lambda run: 1 - run.accuracy},
        own=lambda name, arm: DeepConvCell(name, 8),
        smoke={"n_train": 256, "n_validation": 64, "n_test": 64},
        config=ConvConfig,
    )


STUDY = {"": study(NETS, range(3)), "new-seeds": study((18, 28), range(3, 13))}  # by the endings of their logs


# ---------------------------------------------------------------------------------------- what was found


def learners(runs: Iterable[StudyRun]) -> list[StudyRun]:
    return [run for run in runs if 100 * run.accuracy >= LEARNED]


def name_of(run: StudyRun) -> str:
    """Name the first number of a run's setting, its gate bias; a net without one has the name of its arm."""
    return minus(run.setting[0]) if run.setting else run.cell.arm


def by_depth(results: Iterable[Results]) -> dict[int, dict[str, Runs]]:
    """Return the runs of all studies by blocks, then by name."""
    found = [run for of in results for cell in of.finished for runs in of.settings(cell).values() for run in runs]
    depths = grouped(found, lambda run: run.cell.depth)
    return {depth: grouped(runs, name_of) for depth, runs in depths.items()}


def kind(run: StudyRun) -> str:
    """Tell whether a run has no gates, starts from the guideline's bias, or from another."""
    if run.cell.arm == "plain":
        return "plain"
    return "guideline" if run.setting == (GUIDELINE[run.cell.depth],) else "other"


def suits(advised: Iterable[Runs]) -> Verdict:
    """Judge whether the guideline suits, given its runs at each depth."""
    return combine(
        Verdict.REPRODUCED if len(learners(runs)) == len(runs) else Verdict.NOT_REPRODUCED for runs in advised
    )


def p_value(runs: Runs, others: Runs) -> float:
    """Return p of Fisher's exact test, two-sided, that as many of both groups learn."""
    from scipy.stats import fisher_exact  # imports in half a second

    counts = [[len(learners(group)), len(group) - len(learners(group))] for group in (runs, others)]
    return float(fisher_exact(counts).pvalue)


def judge_more(runs: Runs, others: Runs) -> Verdict:
    """Judge "more of these nets learn than of the others" by the exact test."""
    if p_value(runs, others) >= SIGNIFICANT:
        return Verdict.INCONCLUSIVE
    more = len(learners(runs)) * len(others) > len(learners(others)) * len(runs)
    return Verdict.REPRODUCED if more else Verdict.NOT_REPRODUCED


def gains(runs: Runs, others: Runs) -> np.ndarray:
    """Return the points by which nets that learn are more accurate than those of the same seed, (seeds,)."""
    own, theirs = ({run.config.seed: 100 * run.accuracy for run in learners(of)} for of in (runs, others))
    return np.array([own[seed] - theirs[seed] for seed in own if seed in theirs])


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes; by blocks and by the name of an arm."""
    depths = by_depth(results.values())
    advised = {depth: arms[minus(GUIDELINE[depth])] for depth, arms in depths.items()}
    new = grouped(results["new-seeds"].runs, kind)
    scores = sorted(score for of in results.values() for score in accuracies(of.runs))
    return {
        "guideline": GUIDELINE,
        "nets": {depth: {name: len(runs) for name, runs in arms.items()} for depth, arms in depths.items()},
        "learn": {depth: {name: len(learners(runs)) for name, runs in arms.items()} for depth, arms in depths.items()},
        "advised": sum(map(len, advised.values())),
        "advised_learn": sum(len(learners(runs)) for runs in advised.values()),
        "suits": suits(advised.values()).value,
        "new": {of: len(runs) for of, runs in new.items()},
        "new_learn": {of: len(learners(runs)) for of, runs in new.items()},
        "p": {of: p_value(new["guideline"], new[of]) for of in ("plain", "other")},
        "more": {of: judge_more(new["guideline"], new[of]).value for of in ("plain", "other")},
        "gain": {
            depth: {name: interval(gains(runs, advised[depth])) for name, runs in arms.items() if learners(runs)}
            for depth, arms in depths.items()
        },
        "most_wrong_of_learners": 100 - min(score for score in scores if score >= LEARNED),
        "least_wrong_of_others": 100 - max(score for score in scores if score < LEARNED),
        "diverged": sum(run.diverged for of in results.values() for run in of.runs),
        "epochs": EPOCHS,
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw the test error of every run, a panel for each number of blocks, by gate bias; the guideline's is shaded."""
    depths = by_depth(results.values())
    figure, grid = new_figure(
        "The guideline's bias lets every net learn", 3.6, ncols=max(1, len(depths)), sharey=True, squeeze=False
    )
    for axes, (depth, arms) in zip(grid[0], depths.items(), strict=False):
        for place, (name, runs) in enumerate(arms.items()):
            half = min(0.08 * (len(runs) - 1), 0.35)  # of the width of its dots; arms are 1 apart
            errors = 100 - accuracies(runs)
            style = {"color": arm_color(runs[0].cell.arm), "alpha": 0.6, "markersize": 6, "clip_on": False}
            axes.plot(place + np.linspace(-half, half, len(runs)), errors, "o", **style)
            if name == minus(GUIDELINE[depth]):
                axes.axvspan(place - 0.45, place + 0.45, color=pale(arm_color("highway"), 0.15), zorder=0)
        learn = [f"{name}\n{len(learners(runs))}/{len(runs)}" for name, runs in arms.items()]
        axes.set_xticks(range(len(arms)), learn)
        axes.set_title(f"{depth} blocks, by $b_T$")
        draw_level(axes, 100 - 100 * CHANCE, "guessing")
        scale_by_logarithm(axes)
    grid[0, 0].set_ylabel("test error (%)")
    label_ends(grid[0, -1])
    return figure


FIGURES = {"conv_bias.png": figure}
