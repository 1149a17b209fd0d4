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

    python -m experiments very_deep run                  by gate bias
    python -m experiments very_deep run --study depth    by depth
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from highway_lab.fields import Score, Share
from highway_lab.intervals import difference, interval
from highway_lab.logs import grouped, rounded_all
from highway_networks import GATE_SAMPLES, DeepNet

from . import study_command
from .claims import ACCURACY_MARGIN, Verdict, combine, judge_better
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, accuracies

BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
DEEP, DEEPER = (20, 100), (50, 100, 200, 500, 1000)  # blocks, by gate bias and by depth
USED, COPIES = -6.0, -20.0  # biases of the nets that are compared by depth: from the second, blocks stay copies
FIRST = -2.0  # the highest bias from which nets are asked not to hang on it
CONVERGED = 50.0  # % of test accuracy


@dataclass
class DeepMeasured:
    """What is measured after the last epoch; null where a run diverged.

    mean_T   mean of T over units and the first test samples, by block, (L,); null without gates
    """

    train_loss: float | None
    score: Score | None
    mean_T: list[Share | None] | None


def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> DeepMeasured:
    """Measure the mean gates of a trained net on the first of the samples x (n, ...) that score it."""
    gates = net.gate_means(net.preprocess(x[:GATE_SAMPLES])) if net.has_gates else None
    return DeepMeasured(common.train_loss, common.score, None if gates is None else rounded_all(gates, digits=4))


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
        measured=DeepMeasured,
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


Scores = Mapping[int, Mapping[float, np.ndarray]]  # test accuracies in %, one a seed, by blocks and gate bias


def by_bias(results: Results) -> dict[int, dict[float, list[StudyRun]]]:
    """Return the runs of highway nets by blocks and gate bias."""
    return {
        cell.depth: grouped(runs, lambda run: run.config.gate_bias)
        for cell, runs in results.by_cell().items()
        if cell.arm == "highway"
    }


def fails(scores: np.ndarray) -> Verdict:
    """Judge "nets fail to converge" by their test accuracies in %."""
    return judge_better(interval(CONVERGED - scores), 0)


def judge_extremes(scores: Scores) -> Verdict:
    """Judge whether nets fail from the highest bias, and from the lowest."""
    return combine(combine(fails(of[end(of)]) for of in scores.values()) for end in (max, min))


def judge_doubt(scores: Scores) -> Verdict:
    """Judge whether nets from the lowest bias are more accurate than those from the highest."""
    leads = [difference(of[min(of)], of[max(of)]) for of in scores.values()]
    return combine(judge_better(lead, ACCURACY_MARGIN) for lead in leads)


def spread(scores: Mapping[float, Sequence[float]]) -> float:
    """Return by how much the mean accuracies from FIRST and from lower biases differ, in points."""
    means = [np.mean(of) for bias, of in scores.items() if bias <= FIRST]
    return float(max(means) - min(means))


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes; by blocks and gate bias, accuracies in % and how many times larger T has become."""
    runs = by_bias(results[""])
    scores = {depth: {bias: accuracies(of[bias]) for bias in of} for depth, of in runs.items()}
    spreads = {depth: spread(of) for depth, of in scores.items()}
    exact = combine(Verdict.REPRODUCED if of < 1 else Verdict.NOT_REPRODUCED for of in spreads.values())
    leads = [accuracies(of[USED]) - accuracies(of[COPIES]) for of in by_bias(results["depth"]).values()]
    return {
        "verdict": {"extremes": judge_extremes(scores), "doubt": judge_doubt(scores), "exact": exact},
        "spread": spreads,
        "accuracy": {depth: {bias: of[bias].mean() for bias in of} for depth, of in scores.items()},
        "failing": {
            depth: [bias for bias in BIASES if fails(of[bias]) == "reproduced"] for depth, of in scores.items()
        },
        "growth": {
            depth: {bias: np.mean([run.measured.mean_T for run in of[bias]]) * (1 + np.exp(-bias)) for bias in of}
            for depth, of in runs.items()
        },
        "lead": interval(np.mean(leads, axis=0)),
        "seeds": {len(of) for depth in scores.values() for of in depth.values()},
    }
