"""Figure 3: do the gates route each class its own way, and do they alone tell the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7 and a 50-layer net. Its claim: substantial differences within the first 15 layers (MNIST),
so that the gating system is a part of the computation and no mere help in training.

Here for all ten digits, beside the same for ten random groups of the same sizes: how large a difference chance makes.
What the paper leaves open, measured on test images, layer by layer: two classifiers from scikit-learn, fitted to the
gates T of training images, beside the same on outputs y and pixels; features standardised. And how do routes
cluster? k-means of the gates of all layers at once, blind to the digits, beside k-means of the pixels.

    python -m experiments.class_routing run --jobs 2           the net of the depth search
    python -m experiments.class_routing run --model NET.npz    a net of your own
    python -m experiments.class_routing plot
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from highway_networks import CLASSES, Dataset, DeepNet, as_inputs
from run_log import Log, number, numbers
from side_by_side import run_tasks

from . import models
from .common import Experiment, load_data, start, whole
from .models import Model

SEED = 0  # of the random groups and of the choice of images
FIRST_LAYERS = 15  # those in which the paper sees the differences
FIT_IMAGES = 10_000  # training images that the classifiers are fitted to
CLASSIFIERS = ("nearest centroid", "logistic regression")
ITERATIONS = 1000  # of logistic regression, at most
CLUSTER_SEEDS = (0, 1, 2, 3, 4)
CLUSTER_PASSES = 5  # over the test images
DIGITS = 3  # significant ones, in the maps


@dataclass
class Routing:
    """How class means of T differ from the overall mean; `size` is the mean |difference| of each layer."""

    counts: list[int]  # training images of each class
    difference: list[list[list[float]]]  # (K, L, D)
    size: list[float]
    size_of_random_groups: list[float]
    share_in_first_layers: float  # of the sum of `size`


@dataclass
class Accuracies:
    """Test accuracy of each classifier: by layer on the gates and on the outputs, once on pixels."""

    gates: list[float]
    outputs: list[float]
    pixels: float


@dataclass
class Clusters:
    """k-means with as many clusters as classes; a number for each seed, and the first seed's table."""

    adjusted_mutual_information: list[float]
    purity: list[float]  # share of images that belong to the commonest class of their cluster
    table: list[list[int]]  # (clusters, classes)


@dataclass
class ClassRoutingLog(Log):
    """runs/class_routing.json; `chance` is the share of the commonest class among the test images."""

    model: Model
    first_layers: int
    routing: Routing
    chance: float
    fit_images: int
    accuracies: dict[str, Accuracies]  # by classifier
    clusters: dict[str, Clusters]  # of gates, of pixels


EXPERIMENT = Experiment("class_routing", __doc__, ClassRoutingLog)


# ------------------------------------------------------------------------------------- class means


def class_means(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean T of each class over images (n, ...), uint8: (K, L, D); zeros for a class without images."""
    sums = np.zeros((net.depth, CLASSES, net.hidden))
    for part, x in models.in_batches(net, images, "class means"):
        one_hot = (np.arange(CLASSES)[:, None] == labels[part]).astype(net.dtype)  # (K, B)
        for l, ((_, T), _) in enumerate(net.walk(x)):
            sums[l] += one_hot @ T.T
    return (sums / np.maximum(count_classes(labels), 1)[:, None]).swapaxes(0, 1)


def count_classes(labels: np.ndarray) -> np.ndarray:
    """How many images each class has, (K,)."""
    return np.bincount(labels, minlength=CLASSES)


def differences(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean T of each class less the mean over all images, (K, L, D)."""
    means = class_means(net, images, labels)
    return means - np.average(means, axis=0, weights=count_classes(labels))


def measure_routing(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Routing:
    """Differences of the classes, and of as many random groups as large."""
    by_class = differences(net, images, labels)
    by_chance = differences(net, images, np.random.default_rng(SEED).permutation(labels))
    size, size_by_chance = (np.abs(difference).mean(axis=(0, 2)) for difference in (by_class, by_chance))
    return Routing(
        counts=count_classes(labels).tolist(),
        difference=numbers(by_class, DIGITS),
        size=numbers(size, DIGITS),
        size_of_random_groups=numbers(size_by_chance, DIGITS),
        share_in_first_layers=number(size[:FIRST_LAYERS].sum() / size.sum(), digits=4),
    )


# ------------------------------------------------------------------------- do gates tell the class?


class Features(NamedTuple):
    """What a classifier sees, rows of training and of test images, and where it comes from."""

    kind: str  # a field of Accuracies
    train: np.ndarray
    test: np.ndarray


def features(net: DeepNet, train: np.ndarray, test: np.ndarray) -> Iterator[Features]:
    """Pixels, then gates and outputs of each layer; inputs (n, d_in). No more than a layer is in memory."""
    yield Features("pixels", train, test)
    for ((_, T), y), ((_, T_test), y_test) in zip(net.walk(net.enter(train)), net.walk(net.enter(test)), strict=True):
        yield Features("gates", T.T.copy(), T_test.T.copy())  # copies, as the walk goes on while a worker fits
        yield Features("outputs", y.T.copy(), y_test.T.copy())


def classify(task: tuple[int, Features], labels: tuple[np.ndarray, np.ndarray]) -> tuple[int, str, list[float]]:
    """Fit each of CLASSIFIERS to features and labels; returns the task's number, its kind and the test accuracies."""
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    index, (kind, train, test) = task
    with threadpool_limits(1):
        prepare = make_pipeline(VarianceThreshold(), StandardScaler())  # some pixels are black in every image
        train, test = prepare.fit_transform(train), prepare.transform(test)
        scores = [
            float(classifier.fit(train, labels[0]).score(test, labels[1]))
            for classifier in (NearestCentroid(), LogisticRegression(max_iter=ITERATIONS))
        ]
    return index, kind, scores


def measure_accuracies(net: DeepNet, data: Dataset, jobs: int) -> dict[str, Accuracies]:
    """Test accuracy of each classifier on each kind of features, fitted to at most FIT_IMAGES training images."""
    chosen = np.random.default_rng(SEED).permutation(len(data.train_x))[:FIT_IMAGES]
    train, test = as_inputs(data.train_x[chosen], net.dtype), as_inputs(data.test_x, net.dtype)
    tasks = enumerate(features(net, train, test))
    done = run_tasks(classify, tasks, (data.train_y[chosen], data.test_y), jobs=jobs)
    scores = {"gates": [], "outputs": [], "pixels": []}
    bar = models.progress(done, 1 + 2 * net.depth, "classifiers")
    for _, kind, accuracies in sorted(bar):  # by index: workers finish in any order
        scores[kind].append(accuracies)
    by_classifier = zip(CLASSIFIERS, *(numbers(np.transpose(rows)) for rows in scores.values()), strict=True)
    return {name: Accuracies(gates, outputs, *pixels) for name, gates, outputs, pixels in by_classifier}


# -------------------------------------------------------------------------------- do routes cluster?


def gate_vectors(net: DeepNet, images: np.ndarray) -> Iterator[np.ndarray]:
    """The gates of all layers in one vector, (B, L·D), a batch of images at a time."""
    for _, x in models.in_batches(net, images, "routes"):
        yield np.concatenate([T.T.copy() for (_, T), _ in net.walk(x)], axis=1)


def pixel_vectors(net: DeepNet, images: np.ndarray) -> Iterator[np.ndarray]:
    """Scaled pixels, (B, d_in), in the same batches."""
    for first in range(0, len(images), models.ROWS):
        yield as_inputs(images[first : first + models.ROWS], net.dtype)


def cluster(vectors: Callable[[], Iterable[np.ndarray]], labels: np.ndarray) -> Clusters:
    """k-means, a batch at a time: `vectors` starts a new pass over them. No label is seen before the counting."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score
    from threadpoolctl import threadpool_limits

    candidates = [MiniBatchKMeans(CLASSES, random_state=seed) for seed in CLUSTER_SEEDS]
    with threadpool_limits(1):  # here, as it holds only for libraries that are loaded already
        for _ in range(CLUSTER_PASSES):
            for batch in vectors():
                for kmeans in candidates:
                    kmeans.partial_fit(batch)
        found = np.concatenate([[kmeans.predict(batch) for kmeans in candidates] for batch in vectors()], axis=1)
    tables = [count_pairs(assigned, labels) for assigned in found]
    return Clusters(
        adjusted_mutual_information=[number(adjusted_mutual_info_score(labels, assigned), 4) for assigned in found],
        purity=[number(table.max(axis=1).sum() / len(labels), 4) for table in tables],
        table=tables[0].tolist(),
    )


def count_pairs(clusters: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many images of each class each cluster has, (K, K); clusters in the order of their commonest class."""
    table = np.zeros((CLASSES, CLASSES), int)
    np.add.at(table, (clusters, labels), 1)
    return table[np.argsort(table.argmax(axis=1), kind="stable")]


# ---------------------------------------------------------------------------------------------- log


def run(arguments: argparse.Namespace) -> None:
    """Look into the net and write the log."""
    from threadpoolctl import threadpool_limits

    dataset, data = load_data(arguments)
    source = models.choose(arguments, dataset, data)
    path = models.log_path(EXPERIMENT, dataset, arguments.smoke, source)
    with threadpool_limits(1):
        net = models.obtain(source, data)
        log = ClassRoutingLog.new(
            arguments.command_line,
            whole(dataset, data),
            model=models.describe(source, net, data),
            first_layers=FIRST_LAYERS,
            routing=measure_routing(net, data.train_x, data.train_y),
            chance=number(count_classes(data.test_y).max() / len(data.test_y)),
            fit_images=min(FIT_IMAGES, len(data.train_x)),
            accuracies=measure_accuracies(net, data, arguments.jobs),
            clusters={
                "gates": cluster(lambda: gate_vectors(net, data.test_x), data.test_y),
                "pixels": cluster(lambda: pixel_vectors(net, data.test_x), data.test_y),
            },
        )
    EXPERIMENT.keep(path, log, summary(log))


def summary(log: ClassRoutingLog) -> str:
    """The measurements in words."""
    share = log.routing.share_in_first_layers
    lines = [
        models.summary(log.model),
        f"share of the class differences in the first {log.first_layers} layers: {share:.1%}",
    ]
    for name, accuracy in log.accuracies.items():
        best = int(np.argmax(accuracy.gates))
        lines.append(
            f"{name}: gates {accuracy.gates[best]:.4f} (layer {best + 1}), last layer {accuracy.gates[-1]:.4f}; "
            f"outputs {max(accuracy.outputs):.4f}; pixels {accuracy.pixels:.4f}; chance {log.chance:.4f}"
        )
    for kind, found in log.clusters.items():
        information, purity = np.mean(found.adjusted_mutual_information), np.mean(found.purity)
        lines.append(f"clusters of {kind}: adjusted mutual information {information:.3f}, purity {purity:.3f}")
    return "\n".join(lines)


models.add_model_flags(EXPERIMENT.add("run", run, "look into a net"))

if __name__ == "__main__":
    start("class_routing")
