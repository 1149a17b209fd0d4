"""Depth, image by image: does a harder image use more layers, and how early may a net exit?

An overview of deep learning calls highway networks adaptive in depth; whether a harder image uses more layers was left
open. Here it is asked of the 50-layer nets of three settings, three seeds each, and of the same nets before training,
on all test images, on which nothing was selected.

The depth of an image, ours: the effective depth, the sum over layers of the mean T of a layer's units; or the number of
layers that change the state x by more than a share of its norm. How hard it is, by four measures, of which two do not
look at the net: its margin and loss in this net; the loss of a judge without depth, logistic regression on pixels; the
mean loss of the other seeds' nets. Spearman's correlations of the two, over all images and within classes, as classes
differ in depth; the latter also with brightness held constant, as ink could open gates: that of the image, the norm of
x_0, and the norm of the last state x_L, with which a margin grows, too. An untrained net's depth is set beside the same
hardness. And early exits: see early_exit.py.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata

from highway_lab.logs import Log, Result, number, numbers
from highway_networks import Dataset, DeepNet, Training, as_inputs

from .. import models
from ..common import Experiment, add_run_flags, load_data, start
from ..models import Source
from . import early_exit
from .early_exit import Exit
from .gate_explorer import effective_depth

EFFECTIVE, JUDGE = "effective depth", "judge"  # the measures that the verdict goes by
SHARES = (0.01, 0.05, 0.1, 0.2)  # of ‖x‖: a layer that changes it by more is used
FIT_IMAGES = 10_000  # training images that the judge is fitted to
ITERATIONS = 1000  # of the judge, at most
SEED = 0  # of the choice of these images and of random groups
PARTS = 10  # of each class, from its easiest images to its hardest
QUARTILES = (0.25, 0.5, 0.75)
DIGITS = 4  # significant ones


@dataclass(frozen=True)
class Setting:
    """Nets that differ by their seed alone."""

    name: str
    sources: tuple[Source, ...]


@dataclass
class Relation:
    """Spearman's correlations of depth and hardness, null where all depths are equal."""

    all: float | None  # over all test images
    within: float | None  # mean over classes
    held: dict[str, float | None]  # the same, with something held constant


@dataclass
class Depths:
    """The depth that one net gives to each of the test images."""

    mean: dict[str, float]  # by measure
    relations: dict[str, dict[str, Relation]]  # by measure and hardness
    by_part: list[float]  # mean effective depth of each of PARTS of all classes, by the judge
    by_class: list[list[float]]  # QUARTILES of effective depth of each class
    of_class: float  # share of the variance of effective depth that classes explain (eta squared)
    of_random_groups: float  # the same of groups as large
    missed: float | None  # effective depth of what the trained net gets wrong, less that of the rest of its class
    spread: float  # standard deviation of effective depth within classes


@dataclass
class NetDepth:
    """One seed: the net before and after training, and how early images may leave the latter."""

    seed: int
    errors: int  # test images
    untrained: Depths
    trained: Depths
    by_layer: list[float]  # accuracy if all leave after l = 0..L blocks
    confident_depth: list[float]  # mean number of blocks and accuracy, for each of the log's `doubts`
    confident_score: list[float]
    confident: Exit
    fixed: Exit


@dataclass
class SettingDepth(Result):
    """The nets of a setting, by seed."""

    setting: Setting
    judge_score: float
    nets: list[NetDepth]


@dataclass
class DepthPerExampleLog(Log):
    """runs/depth_per_example.json; `lost` is the accuracy that an exit may cost."""

    shares: list[float]
    fit_images: int
    doubts: list[float]
    lost: float
    settings: list[SettingDepth]


EXPERIMENT = Experiment(__name__, __doc__, DepthPerExampleLog)


# ------------------------------------------------------------------------------------------- depth


def layers_used(net: DeepNet, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many layers have ‖y − x‖ above each of SHARES of ‖x‖, (SHARES, n); ‖x_0‖ and ‖x_L‖, (n,) each."""
    used, (first, last) = np.zeros((len(SHARES), len(images)), int), np.empty((2, len(images)))
    for part, x in models.in_batches(net, images, "layers used"):
        first[part] = np.linalg.norm(x, axis=0)
        for _, y in net.walk(x):
            change, size = (np.linalg.norm(of, axis=0) for of in (y - x, x))
            used[:, part] += change > np.outer(SHARES, size)
            x = y
        last[part] = np.linalg.norm(x, axis=0)
    return used, first, last


def measures(net: DeepNet, images: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The depth of each image by every measure, and what is to be held constant: (n,) each."""
    used, first, last = layers_used(net, images)
    depths = {EFFECTIVE: effective_depth(net, images)}
    depths |= {f"changes above {share:g}": counts for share, counts in zip(SHARES, used, strict=True)}
    return depths, {"ink": images.reshape(len(images), -1).mean(axis=1), "x_0": first, "x_L": last}


# ---------------------------------------------------------------------------------------- hardness


def losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Cross-entropy (n,) of each of logits (n, K), in nats; without rounding to 0, as small losses are ranked, too."""
    return np.logaddexp(0, logsumexp(rivals(logits, labels), axis=1))


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Log-probability of the true class less that of the best other, (n,)."""
    return -rivals(logits, labels).max(axis=1)


def rivals(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logits of the other classes less that of the true one, (n, K − 1), in double precision."""
    own = np.arange(logits.shape[1]) == labels[:, None]
    logits = logits.astype(np.float64)
    return logits[~own].reshape(len(logits), -1) - logits[own][:, None]


def judge(data: Dataset) -> np.ndarray:
    """Logits (n, K) of the test images by logistic regression, fitted to at most FIT_IMAGES training images' pixels."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    chosen = np.random.default_rng(SEED).permutation(len(data.train_x))[:FIT_IMAGES]
    with threadpool_limits(1):  # here, as it holds only for libraries that are loaded already
        fitted = LogisticRegression(max_iter=ITERATIONS).fit(as_inputs(data.train_x[chosen]), data.train_y[chosen])
    return fitted.decision_function(as_inputs(data.test_x))


# ------------------------------------------------------------------------------- depth and hardness


def relate(
    depths: dict[str, np.ndarray], hardness: dict[str, np.ndarray], held: dict[str, np.ndarray], labels: np.ndarray
) -> dict[str, dict[str, Relation]]:
    """Spearman's correlation of every depth with every hardness, (n,) each: over all images, and within classes."""
    values = np.array([*depths.values(), *hardness.values(), *held.values()])
    place = {name: index for index, name in enumerate((*depths, *hardness, *held))}
    over_all = correlations(values)
    within = np.array([correlations(values[:, labels == label]) for label in np.unique(labels)])

    def relation(depth: str, hard: str) -> Relation:
        x, y = place[depth], place[hard]
        constant = {name: number(partial(within, x, y, place[name]).mean(), DIGITS) for name in held}
        return Relation(number(over_all[x, y], DIGITS), number(within[:, x, y].mean(), DIGITS), constant)

    return {depth: {hard: relation(depth, hard) for hard in hardness} for depth in depths}


def correlations(values: np.ndarray) -> np.ndarray:
    """Spearman's, of all rows of values (V, n) with each other: (V, V); NaN for a row of equal values."""
    with np.errstate(invalid="ignore"):
        return np.corrcoef(rankdata(values, axis=1))


def partial(r: np.ndarray, x: int, y: int, z: int) -> np.ndarray:
    """The correlation of x and y with z held constant, given all correlations (..., V, V)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        unexplained = (1 - r[..., x, z] ** 2) * (1 - r[..., y, z] ** 2)
        return (r[..., x, y] - r[..., x, z] * r[..., y, z]) / np.sqrt(unexplained)


def parts_of_classes(hardness: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """In which of PARTS of its class, all of one size, each image lies, the easiest in part 0: (n,)."""
    parts = np.empty(len(labels), int)
    for label in np.unique(labels):
        ranks = rankdata(hardness[labels == label], method="ordinal") - 1
        parts[labels == label] = PARTS * ranks // len(ranks)
    return parts


def means_of(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """For each value the mean of its group, (n,)."""
    return (np.bincount(groups, values) / np.maximum(np.bincount(groups), 1))[groups]


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """Eta squared: the share of the variance of values (n,) that lies between groups."""
    return float(means_of(values, groups).var() / values.var())


def missed_gap(depth: np.ndarray, wrong: np.ndarray, labels: np.ndarray) -> float:
    """Mean depth of the images that are classified wrongly, each less the mean of the others of its class."""
    gaps = []
    for label in np.unique(labels):
        of_wrong, of_right = (depth[(labels == label) & which] for which in (wrong, ~wrong))
        if len(of_wrong) and len(of_right):
            gaps.append(of_wrong - of_right.mean())
    return float(np.concatenate(gaps).mean()) if gaps else np.nan


def describe(net: DeepNet, data: Dataset, hardness: dict[str, np.ndarray], wrong: np.ndarray) -> Depths:
    """The depths of all test images, given how hard each is, (n,) each, and which the trained net gets wrong."""
    labels = data.test_y.astype(int)
    depths, held = measures(net, data.test_x)
    depth, part = depths[EFFECTIVE], parts_of_classes(hardness[JUDGE], labels)
    return Depths(
        mean={name: number(of.mean(), DIGITS) for name, of in depths.items()},
        relations=relate(depths, hardness, held, labels),
        by_part=numbers([depth[part == p].mean() for p in range(PARTS)], DIGITS),
        by_class=numbers(
            np.array([np.quantile(depth[labels == label], QUARTILES) for label in np.unique(labels)]), DIGITS
        ),
        of_class=number(explained(depth, labels), DIGITS),
        of_random_groups=number(explained(depth, np.random.default_rng(SEED).permutation(labels)), DIGITS),
        missed=number(missed_gap(depth, wrong, labels), DIGITS),
        spread=number((depth - means_of(depth, labels)).std(), DIGITS),
    )


# ---------------------------------------------------------------------------------------- all of it


def examine(setting: Setting, data: Dataset) -> SettingDepth:
    """Load or train the nets of a setting, and measure each, trained and untrained."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        nets = [models.obtain(source, data) for source in setting.sources]
        logits = [net.predict(as_inputs(data.test_x, net.dtype)) for net in nets]
        judged, of_nets = judge(data), [losses(of_net, data.test_y) for of_net in logits]
        found = []
        for i, (source, net) in enumerate(zip(setting.sources, nets, strict=True)):
            hardness = {
                "own margin": -margins(logits[i], data.test_y),
                "own loss": of_nets[i],
                JUDGE: losses(judged, data.test_y),
                "other seeds": np.mean(of_nets[:i] + of_nets[i + 1 :], axis=0),
            }
            found.append(examine_net(net, Training(source.training, data).net, data, hardness, source.training.seed))
    return SettingDepth(None, setting, number(np.mean(judged.argmax(axis=1) == data.test_y)), found)


def examine_net(net: DeepNet, fresh: DeepNet, data: Dataset, hardness: dict[str, np.ndarray], seed: int) -> NetDepth:
    """Measure one net, and the same before its training."""
    right, doubt = early_exit.exits(net, data.test_x, data.test_y)
    confident, fixed = early_exit.confident(doubt), early_exit.fixed(right)
    untrained, trained = (describe(of, data, hardness, ~right[-1]) for of in (fresh, net))
    return NetDepth(
        seed,
        errors=int(np.count_nonzero(~right[-1])),
        untrained=untrained,
        trained=trained,
        by_layer=numbers(right.mean(axis=1)),
        confident_depth=numbers(confident.mean(axis=1)),
        confident_score=numbers(early_exit.outcome(confident, right).mean(axis=1)),
        confident=early_exit.measure_exit(confident, right),
        fixed=early_exit.measure_exit(fixed, right),
    )


def run(arguments: argparse.Namespace) -> None:
    """Examine the settings that have not been examined yet, and write the log."""
    dataset, data = load_data(arguments)
    settings = [
        Setting(name, tuple(sources)) for name, sources in models.by_setting(dataset, data, arguments.smoke).items()
    ]
    path = EXPERIMENT.log_path(dataset, arguments.smoke)
    EXPERIMENT.keep(
        path,
        arguments.command_line,
        models.whole(dataset, data),
        shares=list(SHARES),
        fit_images=min(FIT_IMAGES, len(data.train_x)),
        doubts=list(early_exit.DOUBTS),
        lost=early_exit.LOST,
        settings=EXPERIMENT.finish(examine, settings, data, SettingDepth, path, arguments),
    )


add_run_flags(EXPERIMENT.add("run", run, "measure the depth of every test image; resumable"))

if __name__ == "__main__":
    start(__spec__.name)
