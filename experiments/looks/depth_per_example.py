"""Depth, image by image: does a harder image use more layers?

The depth of an image, ours, is the effective depth: the sum over layers of the mean T of a layer's units. Hardness has
two measures that do not look at the net: the loss of a judge without depth, logistic regression on pixels; and the mean
loss of the other seeds' nets.

Spearman's correlations of depth and hardness are taken within classes, as classes differ in depth. (Commit 405c2b5 also
has them with the norm of the last state held constant, and of another measure of depth.)

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
from .measurement import closing_images, mean_gates

HARDNESS = JUDGE, OTHERS = "judge", "other seeds"  # its measures
ITERATIONS = 1000  # of the judge, at most
PARTS = 10  # parts of each class, from its easiest images to its hardest
DIGITS = 4  # significant digits in the log
VARIED = 10  # points of the variation
STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}


@dataclass
class Depths:
    """Depths of the test images in one net."""

    mean: float
    correlation: dict_of(HARDNESS, float | None)  # with hardness; null if all depths are equal
    by_part: NonEmpty[float]  # mean of each of PARTS of all classes, by the judge
    of_class: Share  # share of the variance that classes explain (eta squared)
    spread: NotNegative  # standard deviation within classes


@dataclass
class NetDepth:
    """Depths in a net before and after training, and its accuracy."""

    untrained: Depths
    trained: Depths
    score: Share


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


def correlate(depth: np.ndarray, hardness: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean over classes of Spearman's correlation of depth and hardness, (n,) each; NaN for equal values."""
    values = np.array([depth, hardness])
    with np.errstate(invalid="ignore"):
        by_class = [np.corrcoef(rankdata(values[:, labels == label], axis=1))[0, 1] for label in np.unique(labels)]
    return np.mean(by_class)


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
    depth, labels = mean_gates(net, data.test_x).sum(axis=1), data.test_y.astype(int)
    part, of_class = parts_of_classes(hardness[JUDGE], labels), group_means(depth, labels)
    return Depths(
        mean=rounded(depth.mean(), DIGITS),
        correlation={name: rounded(correlate(depth, of, labels), DIGITS) for name, of in hardness.items()},
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
    return 100 * net.spread / np.sqrt(1 - net.of_class) / net.mean


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

    def by_judge(net: Depths) -> float | None:
        return net.correlation[JUDGE]

    differ = rule(judge_variation, variation)
    return {
        "depth": each("trained", lambda net: net.mean),
        "gap": each("trained", lambda net: net.by_part[-1] - net.by_part[0]),
        "correlation": {state: each(state, by_judge) for state in STATES},
        "of_others": each("trained", lambda net: net.correlation[OTHERS]),
        "spread": {state: each(state, variation) for state in STATES},
        "blocks": results.runs[0].config.depth,
        "seeds": len(seen[0]),
        "harder": combine(rule(judge_hardness, by_judge)),
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
            off_mean = np.array([100 * (np.array(net.by_part) / net.mean - 1) for net in nets])
            draw_seeds(axes, np.arange(1, PARTS + 1), off_mean, label=f"{state} net", color=color)
        draw_level(axes, 0, "_mean")
        axes.set(title=cell.arm, xticks=(1, PARTS))
    panels[0].set_ylabel("effective depth (% off mean)")
    panels[1].set_xlabel("tenth of its class, from easy to hard")
    panels[-1].legend(loc="lower left", handlelength=1, frameon=False, labelcolor="linecolor")
    return figure


FIGURES = {"depth_per_example.png": figure}
