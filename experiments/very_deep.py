"""From which gate biases do very deep nets learn by Adam, and do their blocks help?

A blog on the paper (Fleming 2015) says that with very low or very high gate biases nets fail to converge in reasonable
time, and advises to start with a more negative bias when in doubt. Highway nets of 20 and of 100 blocks start from each
of BIASES: 6,000 images, 12 epochs. By depth (a log of its own), highway nets of 50 to 1,000 blocks, from two biases,
and plain nets learn 10,000 images for 10 epochs. Nothing is tuned. Mean T after training shows whether the blocks do
more than copy their input. `thousand_layers` trains by SGD, as the paper does, on all images.

Rules of the verdicts, put in this form after the runs. A gate bias fails if the 95 % interval of test accuracy lies
below CONVERGED. A blog says that both extremes fail, here the highest and the lowest of the biases. It advises to start
with a more negative bias when in doubt: nets from the lowest must be more accurate than those from the highest. A run
that diverges counts as one that guesses.

    python -m experiments very_deep run                  by gate bias
    python -m experiments very_deep run --study depth    by depth
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.fields import Score, Share
from highway_lab.figures import SETTINGS, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import difference, interval
from highway_lab.logs import grouped
from highway_lab.logs import numbers as rounded_all
from highway_networks import GATE_SAMPLES, Dataset, DeepNet

from . import study_command
from .claims import ACCURACY_MARGIN, Verdict, combine, judge_better
from .common import CHANCE
from .common_figures import arm_color, minus
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Results, Stage, Study, StudyRun, Task, accuracies

BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
DEEP, DEEPER = (20, 100), (50, 100, 200, 500, 1000)  # blocks, by gate bias and by depth
USED, COPIES = -6.0, -20.0  # biases of the nets that are compared by depth: from the second, blocks stay copies
CONVERGED = 50.0  # % of test accuracy
DOUBLED = 2  # times σ(b_T), from which on the T of a block has grown
GAP = 5  # between biases that no line joins


@dataclass
class DeepMeasured:
    """What is measured after the last epoch; null where a run diverged.

    mean_T   mean of T over units and the first test samples, by block, (L,); null without gates
    """

    train_loss: float | None
    score: Score | None
    mean_T: list[Share | None] | None


def train(task: Task, data: Dataset) -> StudyRun:
    return study_command.train(task, data, measure=measure)


def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, *common: Any) -> DeepMeasured:
    """Measure the mean gates of a trained net on the first of the samples x (n, ...) that score it."""
    _, loss, score, _ = common
    gates = net.gate_means(net.preprocess(x[:GATE_SAMPLES])) if net.has_gates else None
    return DeepMeasured(loss, score, None if gates is None else rounded_all(gates, digits=4))


def study(cells: Sequence[Cell], biases: Sequence[float], lr: float, epochs: int, n_train: int) -> Study:
    def configure(fields: Mapping, cell: Cell, stage: Stage) -> ArmConfig:
        return ArmConfig(**fields, hidden=cell.hidden, depth=cell.depth, n_train=n_train, n_test=2_000)

    return Study(
        {
            "highway": Arm({"block": "highway"}, {"lr": (lr,), "gate_bias": biases}),
            "plain": Arm({"block": "plain"}, {"lr": (lr,)}),
        },
        cells,
        [Stage(range(3), epochs, result="scored")],
        configure,
        criteria={"error": lambda run: 100 * (1 - run.accuracy)},
        own=lambda name, arm: Cell(name, 50, DEEP[0]),
        smoke={"hidden": 8, "depth": 4, "n_train": 256, "n_test": 128},
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


# ---------------------------------------------------------------------------------------- what was found

Scores = Mapping[int, Mapping[float, np.ndarray]]  # test accuracies in %, one a seed, by blocks and gate bias


def runs_of(results: Results, arm: str = "highway") -> dict[int, dict[float, list[StudyRun]]]:
    """Return the runs of an arm by blocks and gate bias."""
    return {
        cell.depth: grouped(chain(*results.settings(cell).values()), lambda run: run.config.gate_bias)
        for cell in results.finished
        if cell.arm == arm
    }


def scores_of(runs: Mapping[int, Mapping[float, Sequence[StudyRun]]]) -> Scores:
    return {depth: {bias: accuracies(seeds) for bias, seeds in of.items()} for depth, of in runs.items()}


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


def lowest_failing(of: Mapping[float, np.ndarray]) -> float | None:
    """Return the lowest bias that fails together with all higher ones, if any does; scores by bias are of one depth."""
    failing = [*takewhile(lambda bias: fails(of[bias]) == Verdict.REPRODUCED, sorted(of, reverse=True))]
    return failing[-1] if failing else None


def growth(run: StudyRun) -> np.ndarray:
    """Return mean T after training by block, (L,), in multiples of σ(b_T), its untrained size; NaN without gates."""
    of = run.measured.mean_T or [np.nan] * run.config.depth
    return np.array(of, float) * (1 + np.exp(-run.config.gate_bias))


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes: accuracies in %, by blocks and gate bias; `doubled` is a share of 1,000 blocks."""
    runs, by_depth = runs_of(results[""]), runs_of(results["depth"])
    scores, deep = scores_of(runs), scores_of(by_depth)
    used, copies = ({depth: of[bias] for depth, of in deep.items()} for bias in (USED, COPIES))
    plain = [run for of in runs_of(results["depth"], "plain").values() for seeds in of.values() for run in seeds]
    between = scores[DEEP[1]][-2.0]
    return {
        "verdict": {"extremes": judge_extremes(scores), "doubt": judge_doubt(scores)},
        "accuracy": {depth: {bias: of[bias].mean() for bias in of} for depth, of in scores.items()},
        "failing": {depth: lowest_failing(of) for depth, of in scores.items()},
        "between": (between.min(), between.max()),
        "growth": {
            depth: {bias: np.mean([growth(run) for run in of[bias]]) for bias in of} for depth, of in runs.items()
        },
        "doubled": {bias: [np.mean(growth(run) > DOUBLED) for run in of] for bias, of in by_depth[DEEPER[-1]].items()},
        "lead": interval(np.mean([used[depth] - copies[depth] for depth in deep], axis=0)),
        "behind": difference(used[100], used[DEEPER[-1]]),
        "plain": [*accuracies(plain)],
        "diverged": sum(run.diverged for of in results.values() for run in of.runs),
        "seeds": {len(of) for depth in scores.values() for of in depth.values()},
        "biases": BIASES,
        "blocks": DEEP,
        "deep": DEEPER,
        "used": USED,
        "copies": COPIES,
        "converged": CONVERGED,
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw test accuracy by initial gate bias, a place for each, and below it by how much T has grown."""
    figure, (upper, lower) = new_figure("Nets fail from high gate biases, never from low", 5.6, nrows=2, sharex=True)
    colors = dict(zip(STUDY[""].cells, SETTINGS, strict=False))
    biases = sorted({run.config.gate_bias for run in results[""].runs})
    for cell in results[""].finished:
        runs = runs_of(results[""], cell.arm)[cell.depth]
        style = {"label": f"{cell.arm}, {cell.depth} blocks", "color": colors.get(cell, arm_color(cell.arm))}
        draw_by_bias(upper, biases, {bias: accuracies(runs[bias]) for bias in runs}, **style)
        draw_by_bias(lower, biases, {bias: [growth(run).mean() for run in runs[bias]] for bias in runs}, **style)
    draw_level(upper, 100 * CHANCE, "chance")
    draw_level(lower, 1, "σ($b_T$)")
    upper.set(title="test accuracy (%)", ylim=(0, 100))
    lower.set(title="mean T after training, in multiples of σ($b_T$)", yscale="log")
    lower.set_yticks((1, 10, 100), (1, 10, 100))
    lower.set_xlabel("initial gate bias $b_T$ (a place for each that was tried)")
    lower.set_xticks(range(len(biases)), [minus(bias) for bias in biases])
    label_ends(upper, lower)
    return figure


def draw_by_bias(axes: Axes, biases: Sequence[float], values: Mapping[float, Sequence[float]], **style: Any) -> None:
    """Draw values, one a seed, at the places of their biases, and their median bold.

    No line joins biases that are further apart than GAP.
    """
    missing = [np.nan] * max(map(len, values.values()))
    curves = np.transpose([values.get(bias, missing) for bias in biases])
    gaps = 1 + np.flatnonzero(np.diff(biases) > GAP)
    x = np.insert(np.arange(len(biases), dtype=float), gaps, np.nan)
    curves = np.insert(curves, gaps, np.nan, axis=1)
    draw_seeds(axes, x, curves, center=np.median, marker="o", markersize=5, **style)


FIGURES = {"very_deep.png": figure}
