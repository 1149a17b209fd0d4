"""From which gate biases do very deep nets learn by Adam, and do their blocks help?

A blog on the paper (Fleming 2015) says that with very low or very high gate biases nets fail to converge in reasonable
time, and advises to start with a more negative bias when in doubt. Highway nets of 20 and of 100 blocks start from each
of BIASES: 6,000 images, 12 epochs. By depth (a log of its own), highway nets of 50 to 1,000 blocks, from two biases,
and plain nets learn 10,000 images for 10 epochs. Nothing is tuned. Mean T after training shows whether the blocks do
more than copy their input. `thousand_layers` trains by SGD, as the paper does, on all images.

Rules of the verdicts, put in this form after the runs. A gate bias fails if the 95 % interval of test accuracy lies
below CONVERGED. A blog says that both extremes fail, here the highest and the lowest of the biases. It advises to start
with a more negative bias when in doubt: nets from the lowest must be more accurate than those from the highest. It says
that biases need not be exact: from FIRST down the mean accuracies must lie within a point. A run that diverges counts
as one that guesses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from highway_lab.intervals import difference, interval
from highway_lab.logs import grouped
from highway_networks import GATE_SAMPLES, DeepNet, rounded

from . import study_command
from .claims import ACCURACY_MARGIN, Verdict, combine, judge_better
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun

BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
DEEP, DEEPER = (20, 100), (50, 100, 200, 500, 1000)  # blocks, by gate bias and by depth
USED, COPIES = -6.0, -20.0  # biases of the nets that are compared by depth: from the second, blocks stay copies
FIRST = -2.0  # the highest bias from which nets are asked not to hang on it
CONVERGED = 50.0  # % of test accuracy


def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> Measured:
    """Measure the effective depth of a trained net on fewer of the samples x (n, ...) that score it."""
    if common.effective_depth is None:
        return common
    return replace(common, effective_depth=rounded(net.gate_means(net.preprocess(x[:GATE_SAMPLES])).sum(), digits=4))


train = partial(study_command.train, measure=measure)


def study(cells: Sequence[Cell], biases: Sequence[float], lr: float, epochs: int, n_train: int) -> Study:
    return Study(
        {
            "highway": Arm({"block": "highway"}, {"lr": (lr,), "gate_bias": biases}),
            "plain": Arm({"block": "plain"}, {"lr": (lr,)}),
        },
        cells,
        [Stage(range(3), epochs, options={"n_train": n_train, "n_test": 2_000}, result="scored")],
        own=lambda name, arm: Cell(name, 50, DEEP[0]),
    )


STUDY = {  # by the endings of their logs
    "": study([Cell("highway", 50, depth) for depth in DEEP], BIASES, lr=2e-3, epochs=12, n_train=6_000),
    "depth": study(
        [Cell(arm, 50, depth) for depth in DEEPER for arm in ("highway", "plain")],
        (USED, COPIES),
        lr=1e-3,
        epochs=10,
        n_train=10_000,
    ),
}


Found = dict[int, dict[float, np.ndarray]]  # a number of each seed, by blocks and gate bias


def by_bias(results: Results, number: Callable[[StudyRun], float] = lambda run: 100 * run.accuracy) -> Found:
    """Return a number of each highway net: test accuracy in % or another."""
    found = {cell.depth: runs for cell, runs in results.by_cell().items() if cell.arm == "highway"}
    by_depth = {depth: grouped(runs, lambda run: run.config.gate_bias) for depth, runs in found.items()}
    return {depth: {bias: np.array([*map(number, of[bias])]) for bias in of} for depth, of in by_depth.items()}


def means(found: Found) -> dict[int, dict[float, float]]:
    return {depth: {bias: of[bias].mean() for bias in of} for depth, of in found.items()}


def growth(run: StudyRun) -> float:
    """Return how many times larger mean T has become by training."""
    return run.measured.effective_depth / run.config.depth * (1 + np.exp(-run.config.gate_bias))


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


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes; by blocks and gate bias, accuracies in % and how many times larger T has become."""
    scores, by_depth = by_bias(results[""]), by_bias(results["depth"])
    accuracy = means(scores)
    spread = {depth: np.ptp([of[bias] for bias in of if bias <= FIRST]) for depth, of in accuracy.items()}
    exact = combine(Verdict.REPRODUCED if of < 1 else Verdict.NOT_REPRODUCED for of in spread.values())
    return {
        "verdict": {"extremes": judge_extremes(scores), "doubt": judge_doubt(scores), "exact": exact},
        "spread": spread,
        "accuracy": accuracy,
        "failing": {depth: [bias for bias in of if fails(of[bias]) == "reproduced"] for depth, of in scores.items()},
        "growth": means(by_bias(results[""], growth)),
        "lead": interval(np.mean([of[USED] - of[COPIES] for of in by_depth.values()], axis=0)),
        "seeds": {len(of) for depth in scores.values() for of in depth.values()},
    }
