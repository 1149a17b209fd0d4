"""Figure 3: do the gates route each class its own way, and do they alone tell the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7 and a 50-layer net. Its claim: substantial differences within the first 15 layers (MNIST),
so that the gating system is a part of the computation and no mere help in training.

Here for all ten digits, beside the same for ten random groups of the same sizes: how large a difference chance makes.
What the paper leaves open, measured on test images, layer by layer: two classifiers from scikit-learn, fitted to the
gates T of training images, beside the same on outputs y and pixels; features standardised. And how do routes
cluster? k-means of the gates of all layers at once, blind to the digits, beside k-means of the pixels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_networks import Dataset, DeepNet, as_inputs
from run_log import Log, number, numbers
from side_by_side import run_tasks

from . import models
from .common import Experiment, start
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


EXPERIMENT = Experiment("class_routing", __doc__, ClassRoutingLog, models.DATASETS)


# ------------------------------------------------------------------------------------- class means


def class_means(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean T of each class over images (n, ...), uint8: (K, L, D); zeros for a class without images."""
    classes = net.config["d_out"]
    sums = np.zeros((net.depth, classes, net.hidden))
    for part, x in models.in_batches(net, images, "class means"):
        one_hot = (np.arange(classes)[:, None] == labels[part]).astype(net.dtype)  # (K, B)
        for l, ((_, T), _) in enumerate(net.walk(x)):
            sums[l] += one_hot @ T.T
    return (sums / np.maximum(np.bincount(labels, minlength=classes), 1)[:, None]).swapaxes(0, 1)


def differences(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean T of each class less the mean over all images, (K, L, D)."""
    means = class_means(net, images, labels)
    return means - np.average(means, axis=0, weights=np.bincount(labels, minlength=len(means)))


def measure_routing(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Routing:
    """Differences of the classes, and of as many random groups as large."""
    by_class = differences(net, images, labels)
    by_chance = differences(net, images, np.random.default_rng(SEED).permutation(labels))
    size, size_by_chance = (np.abs(difference).mean(axis=(0, 2)) for difference in (by_class, by_chance))
    return Routing(
        counts=np.bincount(labels, minlength=len(by_class)).tolist(),
        difference=numbers(by_class, DIGITS),
        size=numbers(size, DIGITS),
        size_of_random_groups=numbers(size_by_chance, DIGITS),
        share_in_first_layers=number(size[:FIRST_LAYERS].sum() / size.sum(), digits=4),
    )


# ------------------------------------------------------------------------- do gates tell the class?


def features(net: DeepNet, train: np.ndarray, test: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Pixels, then gates and outputs of each layer: a field of Accuracies, rows of training and of test images.

    The inputs are (n, d_in). No more than a layer is in memory.
    """
    yield "pixels", train, test
    for ((_, T), y), ((_, T_test), y_test) in zip(net.walk(net.enter(train)), net.walk(net.enter(test)), strict=True):
        yield "gates", T.T.copy(), T_test.T.copy()  # copies, as the walk goes on while a worker fits
        yield "outputs", y.T.copy(), y_test.T.copy()


def classify(task: tuple[int, tuple], labels: tuple[np.ndarray, np.ndarray]) -> tuple[int, str, list[float]]:
    """Fit each of CLASSIFIERS to numbered features; returns their number, their kind and the test accuracies."""
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
    jobs = min(jobs, 1 + 2 * net.depth)
    done = run_tasks(classify, tasks, (data.train_y[chosen], data.test_y), jobs=jobs)
    scores = {"gates": [], "outputs": [], "pixels": []}
    bar = models.progress(done, 1 + 2 * net.depth, "classifiers")
    for _, kind, accuracies in sorted(bar):  # by index: workers finish in any order
        scores[kind].append(accuracies)
    by_classifier = zip(CLASSIFIERS, *(numbers(np.transpose(rows)) for rows in scores.values()), strict=True)
    return {name: Accuracies(gates, outputs, *pixels) for name, gates, outputs, pixels in by_classifier}


# -------------------------------------------------------------------------------- do routes cluster?


def gate_vectors(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """The gates of all layers in one vector for each image, (n, L·D)."""
    vectors = np.empty((len(images), net.depth, net.hidden), net.dtype)
    for part, x in models.in_batches(net, images, "routes"):
        for l, ((_, T), _) in enumerate(net.walk(x)):
            vectors[part, l] = T.T
    return vectors.reshape(len(images), -1)


def cluster(vectors: np.ndarray, labels: np.ndarray, classes: int) -> Clusters:
    """k-means of vectors (n, ...), a batch at a time. No label is seen before the counting."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score
    from threadpoolctl import threadpool_limits

    batches = [vectors[first : first + models.ROWS] for first in range(0, len(vectors), models.ROWS)]
    found = []
    with threadpool_limits(1):  # here, as it holds only for libraries that are loaded already
        for seed in CLUSTER_SEEDS:
            kmeans = MiniBatchKMeans(classes, random_state=seed)
            for batch in batches * CLUSTER_PASSES:
                kmeans.partial_fit(batch)
            found.append(kmeans.predict(vectors))
    tables = [count_pairs(assigned, labels, classes) for assigned in found]
    return Clusters(
        adjusted_mutual_information=[number(adjusted_mutual_info_score(labels, assigned), 4) for assigned in found],
        purity=[number(table.max(axis=1).sum() / len(labels), 4) for table in tables],
        table=tables[0].tolist(),
    )


def count_pairs(clusters: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """How many images of each class each cluster has, (K, K); clusters in the order of their commonest class."""
    table = np.zeros((classes, classes), int)
    np.add.at(table, (clusters, labels), 1)
    return table[np.argsort(table.argmax(axis=1), kind="stable")]


# ---------------------------------------------------------------------------------------------- log


def look(net: DeepNet, data: Dataset, jobs: int) -> dict[str, Any]:
    """The fields of the log."""
    return {
        "first_layers": FIRST_LAYERS,
        "routing": measure_routing(net, data.train_x, data.train_y),
        "chance": number(np.bincount(data.test_y).max() / len(data.test_y)),
        "fit_images": min(FIT_IMAGES, len(data.train_x)),
        "accuracies": measure_accuracies(net, data, jobs),
        "clusters": {
            "gates": cluster(gate_vectors(net, data.test_x), data.test_y, data.outputs),
            "pixels": cluster(as_inputs(data.test_x, net.dtype), data.test_y, data.outputs),
        },
    }


models.add_look(EXPERIMENT, look)

if __name__ == "__main__":
    start("class_routing")
