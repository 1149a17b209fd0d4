"""Depth, image by image: does a harder image use more layers, and how early may a net exit?

The depth of an image, ours, is the effective depth: the sum over layers of the mean T of a layer's units. Another
measure is the number of layers that change the state x by more than a share of its norm. Hardness has four measures:
the margin and the loss in this net; the loss of a judge without depth, logistic regression on pixels; and the mean loss
of the other seeds' nets. The last two do not look at the net.

Spearman's correlations of depth and hardness are taken over all images, and within classes, as classes differ in depth.
Within classes, they are also taken with a third variable held constant: the image's ink, which may open gates, the norm
of x_0, or the norm of the last state x_L, which raises margins. early_exit.py measures early exits.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import rankdata

from highway_lab.fields import Count, NonEmpty, NotNegative, Share, dict_of, lists_of
from highway_lab.logs import Log, Result, numbers
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from ..common import Experiment, ExperimentJob
from ..looks import models
from ..looks.measurement import in_batches, mean_gates
from ..looks.models import Source
from . import early_exit
from .early_exit import Exit

HARDNESS = MARGIN, LOSS, JUDGE, OTHERS = ("own margin", "own loss", "judge", "other seeds")
SHARES = (0.01, 0.05, 0.1, 0.2)  # of ‖x‖: a layer that changes x by more is used
EFFECTIVE = "effective depth"  # the measure that the verdict goes by
MEASURES = (EFFECTIVE, *(f"changes above {share:g}" for share in SHARES))
FIT_IMAGES = 10_000  # training images of the judge
ITERATIONS = 1000  # of the judge, at most
SEED = 0  # chooses these images, and random groups
PARTS = 10  # parts of each class, from its easiest images to its hardest
QUARTILES = (0.25, 0.5, 0.75)
DIGITS = 4  # significant digits in the log


@dataclass(frozen=True)
class Setting:
    """Nets that differ only by their seed."""

    name: str
    sources: tuple[Source, ...]


@dataclass
class Relation:
    """Spearman's correlations of depth and hardness; null if all depths are equal."""

    all: float | None  # over all test images
    within: float | None  # mean over classes
    held: dict[str, float | None]  # mean over classes, by the variable that is held constant


@dataclass
class Depths:
    """Depths of the test images in one net."""

    mean: dict_of(MEASURES, float)
    relations: dict_of(MEASURES, dict_of(HARDNESS, Relation))
    # All that follows is about the effective depth.
    by_part: NonEmpty[float]  # mean of each of PARTS of all classes, by the judge
    by_class: lists_of(float, "K", "quartiles")  # QUARTILES of each class
    of_class: Share  # share of the variance that classes explain (eta squared)
    of_random_groups: Share  # share that random groups of these sizes explain
    missed: float | None  # mean of what the trained net gets wrong, each minus the mean of its class's others
    spread: NotNegative  # standard deviation within classes


@dataclass
class NetDepth:
    """Depths of one seed's net before and after training, and early exits from the trained net."""

    seed: Count
    errors: Count  # misclassified test images
    untrained: Depths
    trained: Depths
    by_layer: NonEmpty[Share]  # accuracy if all images leave after l = 0..L blocks
    # Mean number of blocks, for each of the log's `doubts`.
    confident_depth: lists_of(NotNegative, "doubts")
    confident_score: lists_of(Share, "doubts")  # accuracy likewise
    confident: Exit
    fixed: Exit


@dataclass
class SettingDepth(Result):
    """Nets of a setting, by seed."""

    setting: Setting
    judge_score: Share
    nets: NonEmpty[NetDepth]


@dataclass
class DepthPerExampleLog(Log):
    """runs/depth_per_example.json; `lost`: accuracy that an exit may cost."""

    shares: NonEmpty[float]
    fit_images: Count
    doubts: lists_of(float, "doubts")
    lost: float
    settings: NonEmpty[SettingDepth]


EXPERIMENT = Experiment(__name__, __doc__, DepthPerExampleLog)


def layers_used(net: DeepNet, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the layers with ‖y − x‖ above each of SHARES of ‖x‖, (SHARES, n); returns ‖x_0‖ and ‖x_L‖, (n,), too."""
    used, (first, last) = np.zeros((len(SHARES), len(images)), int), np.empty((2, len(images)))
    for part, x in in_batches(net, images, "layers used"):
        first[part] = np.linalg.norm(x, axis=0)
        for _, y in net.iterate_blocks(x):
            change, size = (np.linalg.norm(of, axis=0) for of in (y - x, x))
            used[:, part] += change > np.outer(SHARES, size)
            x = y
        last[part] = np.linalg.norm(x, axis=0)
    return used, first, last


def measures(net: DeepNet, images: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the depth of each image by every measure, and the variables to hold constant: (n,) each."""
    used, first, last = layers_used(net, images)
    depths = dict(zip(MEASURES, (mean_gates(net, images).sum(axis=1), *used), strict=True))
    return depths, {"ink": images.reshape(len(images), -1).mean(axis=1), "x_0": first, "x_L": last}


def losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross-entropy (n,) of logits (n, K), in nats; small losses are ranked, so none is rounded to 0."""
    return np.logaddexp(0, logsumexp(rivals(logits, labels), axis=1))


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the log-probability of the true class minus that of the best other class, (n,)."""
    return -rivals(logits, labels).max(axis=1)


def rivals(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the logits of the other classes minus that of the true one, (n, K − 1), in double precision."""
    own = np.arange(logits.shape[1]) == labels[:, None]
    logits = logits.astype(np.float64)
    return logits[~own].reshape(len(logits), -1) - logits[own][:, None]


def judge(data: Dataset) -> np.ndarray:
    """Return logits (n, K) of the test images by logistic regression on the pixels of FIT_IMAGES training images."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    chosen = np.random.default_rng(SEED).permutation(len(data.train_x))[:FIT_IMAGES]
    with threadpool_limits(1):  # here, as it holds only for libraries that are loaded already
        fitted = LogisticRegression(max_iter=ITERATIONS).fit(as_inputs(data.train_x[chosen]), data.train_y[chosen])
    return fitted.decision_function(as_inputs(data.test_x))


def relate(depth: np.ndarray, hardness: np.ndarray, held: dict[str, np.ndarray], labels: np.ndarray) -> Relation:
    """Correlate the depth and the hardness of images, (n,) each, also with each of `held` held constant."""
    values = np.array([depth, hardness, *held.values()])
    over_all = correlations(values[:2])[0, 1]
    within = np.array([correlations(values[:, labels == label]) for label in np.unique(labels)])  # (classes, V, V)
    constant = {name: rounded(partial(within, z).mean(), DIGITS) for z, name in enumerate(held, start=2)}
    return Relation(rounded(over_all, DIGITS), rounded(within[:, 0, 1].mean(), DIGITS), constant)


def correlations(values: np.ndarray) -> np.ndarray:
    """Return Spearman's correlations of all rows of values (V, n): (V, V); NaN for a row of equal values."""
    with np.errstate(invalid="ignore"):
        return np.corrcoef(rankdata(values, axis=1))


def partial(r: np.ndarray, z: int) -> np.ndarray:
    """Return the correlation of variables 0 and 1 with variable z held constant, given all correlations (..., V, V)."""
    xy, xz, yz = r[..., 0, 1], r[..., 0, z], r[..., 1, z]
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


def explained(values: np.ndarray, groups: np.ndarray) -> float:
    """Return eta squared: the share of the variance of values (n,) that lies between groups."""
    return float(group_means(values, groups).var() / values.var())


def missed_gap(depth: np.ndarray, wrong: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean depth of misclassified images, each minus the mean of the others of its class."""
    others = {label: depth[(labels == label) & ~wrong] for label in np.unique(labels)}
    missed = zip(depth[wrong], labels[wrong], strict=True)
    gaps = [own - others[label].mean() for own, label in missed if len(others[label])]
    return float(np.mean(gaps)) if gaps else np.nan


def describe(net: DeepNet, data: Dataset, hardness: dict[str, np.ndarray], wrong: np.ndarray) -> Depths:
    """Describe the depths of all test images, given their hardness and which the trained net gets wrong, (n,) each."""
    labels = data.test_y.astype(int)
    depths, held = measures(net, data.test_x)
    depth, part = depths[EFFECTIVE], parts_of_classes(hardness[JUDGE], labels)
    quartiles = np.array([np.quantile(depth[labels == label], QUARTILES) for label in np.unique(labels)])
    return Depths(
        mean={name: rounded(of.mean(), DIGITS) for name, of in depths.items()},
        relations={
            name: {hard: relate(of, h, held, labels) for hard, h in hardness.items()} for name, of in depths.items()
        },
        by_part=numbers([depth[part == p].mean() for p in range(PARTS)], DIGITS),
        by_class=numbers(quartiles, DIGITS),
        of_class=rounded(explained(depth, labels), DIGITS),
        of_random_groups=rounded(explained(depth, np.random.default_rng(SEED).permutation(labels)), DIGITS),
        missed=rounded(missed_gap(depth, wrong, labels), DIGITS),
        spread=rounded((depth - group_means(depth, labels)).std(), DIGITS),
    )


def examine(setting: Setting, data: Dataset) -> SettingDepth:
    """Load or train the nets of a setting, and examine each."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        nets = [models.obtain(source, data) for source in setting.sources]
        logits = [net.predict(as_inputs(data.test_x, net.dtype)) for net in nets]
        judged, net_losses = judge(data), [losses(of_net, data.test_y) for of_net in logits]
        found = []
        for i, (source, net) in enumerate(zip(setting.sources, nets, strict=True)):
            hardness = {
                MARGIN: -margins(logits[i], data.test_y),
                LOSS: net_losses[i],
                JUDGE: losses(judged, data.test_y),
                OTHERS: np.mean(net_losses[:i] + net_losses[i + 1 :], axis=0),
            }
            found.append(examine_net(net, Training(source.training, data).net, data, hardness, source.training.seed))
    return SettingDepth(None, setting, rounded(np.mean(judged.argmax(axis=1) == data.test_y)), found)


def examine_net(net: DeepNet, fresh: DeepNet, data: Dataset, hardness: dict[str, np.ndarray], seed: int) -> NetDepth:
    """Examine a trained net and its untrained state `fresh`."""
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


def run(job: ExperimentJob) -> None:
    nets = models.by_setting(job.dataset, job.data, job.smoke)
    settings = [Setting(name, tuple(sources)) for name, sources in nets.items()]
    job.keep(
        shares=list(SHARES),
        fit_images=min(FIT_IMAGES, len(job.data.train_x)),
        doubts=list(early_exit.DOUBTS),
        lost=early_exit.LOST,
        settings=job.run_missing(examine, settings, SettingDepth),
    )


EXPERIMENT.add_run(run, "measure the depth of every test image; resumable")
