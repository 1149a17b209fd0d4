"""From which gate biases do very deep nets learn by Adam?

A blog on the paper (Fleming 2015) says that with very low or very high gate biases nets fail to converge in reasonable
time, and advises to start with a more negative bias when in doubt. Highway nets of 20 and of 100 blocks start from each
of BIASES: 6,000 images, 12 epochs. Nothing is tuned. `thousand_layers` trains by SGD, as the paper does, on all images.
(Commit 405c2b5 has deeper nets, too, and by how many times mean T becomes larger in training.)

Rules of the verdicts, put in this form after the runs. A gate bias fails if the 95 % interval of test accuracy lies
below CONVERGED. A blog says that both extremes fail, here the highest and the lowest of the biases. It advises to start
with a more negative bias when in doubt: nets from the lowest must be more accurate than those from the highest. It says
that biases need not be exact: from FIRST down the mean accuracies must lie within a point. A run that diverges counts
as one that guesses.
"""

import numpy as np

from highway_lab.intervals import difference, interval
from highway_lab.logs import grouped

from .claims import ACCURACY_MARGIN, Verdict, combine, judge_better
from .study import Arm, Cell, Results, Stage, Study, accuracies

BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
DEEP = (20, 100)  # blocks
FIRST = -2.0  # the highest bias from which nets are asked not to hang on it
CONVERGED = 50.0  # % of test accuracy

STUDY = Study(
    {"highway": Arm({"block": "highway"}, {"lr": (2e-3,), "gate_bias": BIASES})},
    [Cell("highway", 50, depth) for depth in DEEP],
    [Stage(range(3), 12, options={"n_train": 6_000, "n_test": 2_000}, result="scored")],
    own=lambda name, arm: Cell(name, 50, DEEP[0]),
)

Found = dict[int, dict[float, np.ndarray]]  # test accuracy in % of each seed, by blocks and gate bias


def by_bias(results: Results) -> Found:
    by_depth = {cell.depth: grouped(runs, lambda run: run.config.gate_bias) for cell, runs in results.by_cell().items()}
    return {depth: {bias: accuracies(of[bias]) for bias in of} for depth, of in by_depth.items()}


def fails(scores: np.ndarray) -> Verdict:
    """Judge "nets fail to converge" by their test accuracies in %."""
    return judge_better(interval(CONVERGED - scores), 0)


def judge_extremes(scores: Found) -> Verdict:
    """Judge whether nets fail from the highest bias, and from the lowest."""
    return combine(combine(fails(of[end(of)]) for of in scores.values()) for end in (max, min))


def judge_doubt(scores: Found) -> Verdict:
    """Judge whether nets from the lowest bias are more accurate than those from the highest."""
    leads = [difference(of[min(of)], of[max(of)]) for of in scores.values()]
    return combine(judge_better(lead, ACCURACY_MARGIN) for lead in leads)


def numbers(results: Results) -> dict:
    """Return what the page quotes, by blocks; accuracies in % by gate bias, too."""
    scores = by_bias(results)
    accuracy = {depth: {bias: of[bias].mean() for bias in of} for depth, of in scores.items()}
    spread = {depth: np.ptp([of[bias] for bias in of if bias <= FIRST]) for depth, of in accuracy.items()}
    exact = combine(Verdict.REPRODUCED if of < 1 else Verdict.NOT_REPRODUCED for of in spread.values())
    return {
        "verdict": {"extremes": judge_extremes(scores), "doubt": judge_doubt(scores), "exact": exact},
        "spread": spread,
        "accuracy": accuracy,
        "failing": {depth: [bias for bias in of if fails(of[bias]) == "reproduced"] for depth, of in scores.items()},
        "seeds": {len(of) for depth in scores.values() for of in depth.values()},
    }
