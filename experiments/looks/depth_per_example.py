"""Depth, image by image: does a harder image use more layers?

The depth of an image, ours, is the effective depth: the sum over layers of the mean T of a layer's units. Another
measure is the number of layers that change the state x by more than a share of its norm. Hardness has two measures that
do not look at the net: the loss of a judge without depth, logistic regression on pixels; and the mean loss of the other
seeds' nets.

Spearman's correlations of depth and hardness are taken within classes, as classes differ in depth. They are also taken
with the norm of the last state x_L held constant, which raises margins. (Commit 6305ec0 has a log with more of these.)

The paper speaks of harder problems, which task_difficulty judges; harder images of one problem are a question of ours.
The rules, at `judge_hardness` and `judge_variation`, were written after the runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from scipy.special import logsumexp
from scipy.stats import rankdata

from highway_lab.fields import NonEmpty, NotNegative, Share, dict_of
from highway_lab.figures import COLORS, FAINT_INK, draw_level, draw_seeds, new_figure
from highway_lab.intervals import interval
from highway_lab.logs import rounded_all
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from ..claims import Verdict, combine, judge_better
from ..study import Results, StudyRun, Task
from . import models
from .measurement import by_block, closing_images

JUDGE, OTHERS = "judge", "other seeds"  # measures of hardness
SHARES = (0.01, 0.05, 0.1, 0.2)  # of ‖x‖: a layer that changes x by more is used
EFFECTIVE = "effective depth"  # the measure that the verdict goes by
MEASURES = (EFFECTIVE, *(f"changes above {share:g}" for share in SHARES))
ITERATIONS = 1000  # of the judge, at most
PARTS = 10  # parts of each class, from its easiest images to its hardest
DIGITS = 4  # significant digits in the log
VARIED = 10  # points of the variation
STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}


@dataclass
class Relation:
    """Spearman's correlations of depth and hardness; null if all depths are equal."""

    within: float | None  # mean over classes
    held: float | None  # likewise, with the norm of x_L held constant


@dataclass
class Depths:
    """Depths of the test images in one net."""

    mean: dict_of(MEASURES, float)
    relations: dict_of(MEASURES, dict[str, Relation])  # by hardness
    # All that follows is about the effective depth.
    by_part: NonEmpty[float]  # mean of each of PARTS of all classes, by the judge
    of_class: Share  # share of the variance that classes explain (eta squared)
    spread: NotNegative  # standard deviation within classes


@dataclass
class NetDepth:
    """Depths in a net before and after training, and its accuracy."""

    untrained: Depths
    trained: Depths
    score: Share


def measures(net: DeepNet, images: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the depth of each image by every measure, and the norm of x_L: (n,) each."""
    gates, used = np.zeros((len(images), net.depth)), np.zeros((len(SHARES), len(images)), int)
    last = np.empty(len(images))
    for part, l, x, T, y in by_block(net, images):
        gates[part, l] = T.mean(axis=0)
        change, before, last[part] = (np.linalg.norm(of, axis=0) for of in (y - x, x, y))
        used[:, part] += change > np.outer(SHARES, before)
    return dict(zip(MEASURES, (gates.sum(axis=1), *used), strict=True)), last


def losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross-entropy (n,) of logits (n, K), in nats; small losses are ranked, so none is rounded to 0."""
    own, logits = np.arange(logits.shape[1]) == labels[:, None], logits.astype(np.float64)
    rivals = logits[~own].reshape(len(logits), -1) - logits[own][:, None]
    return np.logaddexp(0, logsumexp(rivals, axis=1))


def judge(data: Dataset) -> np.ndarray:
    """Return logits (n, K) of the test images by logistic regression on the pixels of some training images."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    images, labels = closing_images(data)
    with threadpool_limits(1):  # here, as it holds only for libraries that are loaded already
        fitted = LogisticRegression(max_iter=ITERATIONS).fit(as_inputs(images), labels)
    return fitted.decision_function(as_inputs(data.test_x))


def relate(depth: np.ndarray, hardness: np.ndarray, held: np.ndarray, labels: np.ndarray) -> Relation:
    """Correlate the depth and the hardness of images within classes, (n,) each, also with `held` held constant."""
    values = np.array([depth, hardness, held])
    within = np.array([correlations(values[:, labels == label]) for label in np.unique(labels)])  # (classes, 3, 3)
    return Relation(rounded(within[:, 0, 1].mean(), DIGITS), rounded(partial(within).mean(), DIGITS))


def correlations(values: np.ndarray) -> np.ndarray:
    """Return Spearman's correlations of all rows of values (V, n): (V, V); NaN for a row of equal values."""
    with np.errstate(invalid="ignore"):
        return np.corrcoef(rankdata(values, axis=1))


def partial(r: np.ndarray) -> np.ndarray:
    """Return the correlation of variables 0 and 1 with the third held constant, given all correlations (..., 3, 3)."""
    xy, xz, yz = r[..., 0, 1], r[..., 0, 2], r[..., 1, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        return (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))


def parts_of_classes(hardness: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Divide each class into PARTS of equal size by hardness; returns each image's part, 0 the easiest: (n,)."""
    parts = np.empty(len(labels), int)
    for label in np.unique(labels):
        ranks = rankdata(hardness[labels == label], method="ordinal") - 1
        parts[labels == label] = PARTS * ranks // len(ranks)
    return parts


def group_means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return for each value the mean of its group, (n,)."""
    return (np.bincount(groups, values) / np.maximum(np.bincount(groups), 1))[groups]


def describe(net: DeepNet, data: Dataset, hardness: dict[str, np.ndarray]) -> Depths:
    """Describe the depths of all test images, given their hardness, (n,) each."""
    labels = data.test_y.astype(int)
    depths, held = measures(net, data.test_x)
    depth, part = depths[EFFECTIVE], parts_of_classes(hardness[JUDGE], labels)
    of_class = group_means(depth, labels)
    return Depths(
        mean={name: rounded(of.mean(), DIGITS) for name, of in depths.items()},
        relations={
            name: {hard: relate(of, h, held, labels) for hard, h in hardness.items()} for name, of in depths.items()
        },
        by_part=rounded_all([depth[part == p].mean() for p in range(PARTS)], DIGITS),
        of_class=rounded(of_class.var() / depth.var(), DIGITS),
        spread=rounded((depth - of_class).std(), DIGITS),
    )


def train(task: Task, data: Dataset) -> StudyRun:
    """Load or train a net, and those of other seeds, and examine it and its untrained state."""
    net, fresh = models.trained(task.config, data), Training(task.config, data).net
    seeds, x = [seed for seed in models.SEEDS if seed != task.config.seed], as_inputs(data.test_x, net.dtype)
    others = [models.trained(replace(task.config, seed=seed), data) for seed in seeds]
    by_others = [losses(other.predict(x), data.test_y) for other in others]
    hardness = {JUDGE: losses(judge(data), data.test_y), OTHERS: np.mean(by_others, axis=0)}
    right = net.predict(x).argmax(axis=1) == data.test_y
    found = NetDepth(describe(fresh, data, hardness), describe(net, data, hardness), rounded(right.mean()))
    return StudyRun(None, task, net.params.flat.size, False, {}, found)


STUDY = models.look_at(NetDepth, models.BY_SETTING, models.SEEDS)


# ---------------------------------------------------------------------------------------- what was found


def variation(net: Depths) -> float:
    """Return the standard deviation of effective depth over all images, in % of its mean."""
    return 100 * net.spread / np.sqrt(1 - net.of_class) / net.mean[EFFECTIVE]


def judge_hardness(trained: np.ndarray, untrained: np.ndarray) -> Verdict:
    """Judge "a harder image uses more layers" by correlations of depth and hardness, (seeds,) each.

    The interval over seeds must lie above 0, and so must that of the difference to the untrained nets, seed by seed;
    the claim is not reproduced if both lie below. An untrained net that gives all images the same depth counts as one
    with correlation 0.
    """
    verdicts = {judge_better(interval(of), 0) for of in (trained, trained - np.nan_to_num(untrained))}
    return verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE


def judge_variation(trained: np.ndarray, untrained: np.ndarray) -> Verdict:
    """Judge "different inputs have different depths": training raises the `variation` by more than VARIED points."""
    return judge_better(interval(trained - untrained - VARIED), 0)


def numbers(results: Results) -> dict:
    """Return what the page quotes: means and intervals of ReLU, tanh from −2 and tanh from −4, in this order."""
    seen = [[run.measured for run in runs] for runs in results.by_cell().values()]
    nets = {state: [[getattr(net, state) for net in of] for of in seen] for state in STATES}

    def each(state: str, measure: Callable[[Depths], float | None]) -> list[float]:
        return [of for setting in nets[state] for of in interval([measure(net) for net in setting])]

    def rule(judge: Callable[..., Verdict], measure: Callable[[Depths], float | None]) -> list[Verdict]:
        by_state = ([np.array([measure(net) for net in of], float) for of in nets[state]] for state in STATES)
        return [judge(trained, untrained) for untrained, trained in zip(*by_state, strict=True)]

    def related(measure: str = EFFECTIVE, hardness: str = JUDGE) -> Callable[[Depths], float | None]:
        return lambda net: net.relations[measure][hardness].within

    differ = rule(judge_variation, variation)
    return {
        "depth": each("trained", lambda net: net.mean[EFFECTIVE]),
        "gap": each("trained", lambda net: net.by_part[-1] - net.by_part[0]),
        "correlation": {state: each(state, related()) for state in STATES},
        "of_others": each("trained", related(hardness=OTHERS)),
        "spread": {state: each(state, variation) for state in STATES},
        "held": each("trained", lambda net: net.relations[EFFECTIVE][JUDGE].held),
        "changes": {of: each("trained", related(of)) for of in MEASURES[1:]},
        "by_changes": {of: rule(judge_hardness, related(of)) for of in MEASURES[1:]},
        "blocks": results.runs[0].config.depth,
        "seeds": len(seen[0]),
        "harder": combine(rule(judge_hardness, related())),
        "differ": combine(differ),
        "differ_in": [of == Verdict.REPRODUCED for of in differ],
    }


def figure(results: Results) -> Figure:
    """Draw effective depth by hardness within classes, by setting."""
    by_cell = results.by_cell()
    figure, panels = new_figure("Harder images open fewer gates", 3.2, ncols=len(by_cell), sharey=True)
    for axes, (cell, runs) in zip(panels, by_cell.items(), strict=True):
        for state, color in STATES.items():
            nets = [getattr(run.measured, state) for run in runs]
            off_mean = np.array([100 * (np.array(net.by_part) / net.mean[EFFECTIVE] - 1) for net in nets])
            draw_seeds(axes, np.arange(1, PARTS + 1), off_mean, label=f"{state} net", color=color)
        draw_level(axes, 0, "_mean")
        axes.set(title=cell.arm, xticks=(1, PARTS))
    panels[0].set_ylabel("effective depth (% off mean)")
    panels[1].set_xlabel("tenth of its class, from easy to hard")
    panels[-1].legend(loc="lower left", handlelength=1, frameon=False, labelcolor="linecolor")
    return figure


FIGURES = {"depth_per_example.png": figure}
