"""Figure 3: do the gates route each class its own way, and do they alone identify the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7. Here for all ten classes, beside random groups of the same sizes, which show the
differences that chance makes. What the paper leaves open is measured on test images: classifiers fitted to one layer's
gates T, outputs y or gates of an untrained net, and to pixels; and k-means of the gates of all layers at once. The
layer that identifies the class best is chosen on training images that the classifiers have not seen, though the net
has.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_lab.fields import Count, NotNegative, Share, dict_of, lists_of
from highway_lab.jobs import run_tasks
from highway_lab.logs import Log, numbers
from highway_networks import Dataset, DeepNet, InputError, as_inputs, rounded

from .common import Experiment
from .looks import models
from .looks.measurement import ROWS, by_block, class_means, fresh, progress
from .looks.models import Model

SEED = 0  # of the random groups and the choice of images
FIRST_LAYERS = 15  # in which the paper sees the differences
FIT_IMAGES = 10_000  # training images that classifiers are fitted to
VALIDATION = 1 / 6  # validation images, as a share of FIT_IMAGES
CLASSIFIERS = ("nearest centroid", "logistic regression")
CLUSTERED = ("gates", "outputs", "gates of the untrained net", "pixels")
ITERATIONS = 1000  # at most, of logistic regression
CLUSTER_SEEDS = (0, 1, 2, 3, 4)
CLUSTER_PASSES = 5  # over the test images
DIGITS = 3  # significant ones, in the maps


@dataclass
class Routing:
    """Differences of class means of T from the overall mean; `size` is the mean |difference| of each layer."""

    counts: lists_of(Count, "K")  # training images of each class
    difference: lists_of(float, "K", "L", "D")
    size: lists_of(NotNegative, "L")
    size_of_random_groups: lists_of(NotNegative, "L")
    share_in_first_layers: Share  # of the sum of `size`


@dataclass
class Scores:
    """Accuracies of one classifier of one kind of features, by layer, on validation and test images."""

    validation: lists_of(Share, "layers")
    test: lists_of(Share, "layers")

    @property
    def best(self) -> int:
        """Index of the layer of the highest validation accuracy, the first of equals."""
        return int(np.argmax(self.validation))


@dataclass
class Accuracies:
    """Accuracies of one classifier of gates, outputs, an untrained net's gates and, as a single layer, pixels."""

    gates: Scores
    outputs: Scores
    untrained: Scores
    pixels: Scores


@dataclass
class Clusters:
    """k-means with as many clusters as classes: a number a seed, and the first seed's table."""

    adjusted_mutual_information: lists_of(float, "seeds")
    # Share of images of the commonest class of their cluster.
    purity: lists_of(Share, "seeds")
    table: lists_of(Count, "K", "K")  # (clusters, classes)


@dataclass
class ClassRoutingLog(Log):
    """runs/class_routing.json; `chance` is the share of the commonest class among the test images."""

    model: Model
    first_layers: Count
    routing: Routing
    chance: Share
    fit_images: Count
    validation_images: Count
    accuracies: dict_of(CLASSIFIERS, Accuracies)
    clusters: dict_of(CLUSTERED, Clusters)


EXPERIMENT = Experiment(__name__, __doc__, ClassRoutingLog, tuple(models.NETS), nets=models.NETS)


def differences(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the mean T of each class minus the mean over all images, (K, L, D)."""
    means = class_means(net, images, labels)
    return means - np.average(means, axis=0, weights=np.bincount(labels, minlength=len(means)))


def measure_routing(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Routing:
    by_class = differences(net, images, labels)
    by_chance = differences(net, images, np.random.default_rng(SEED).permutation(labels))
    size, size_by_chance = (np.abs(difference).mean(axis=(0, 2)) for difference in (by_class, by_chance))
    return Routing(
        counts=np.bincount(labels, minlength=len(by_class)).tolist(),
        difference=numbers(by_class, DIGITS),
        size=numbers(size, DIGITS),
        size_of_random_groups=numbers(size_by_chance, DIGITS),
        share_in_first_layers=rounded(size[:FIRST_LAYERS].sum() / size.sum(), digits=4),
    )


def features(net: DeepNet, untrained: DeepNet, sets: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield fields of Accuracies with the features (n, ...) of each set of inputs (n, d_in), one layer at a time.

    First pixels, then gates and outputs of each layer, then untrained gates of each layer.
    """

    def layers(of: DeepNet) -> Iterator[tuple]:
        return zip(*(of.iterate_gates(of.embed(x)) for x in sets), strict=True)

    yield "pixels", list(sets)
    for seen in layers(net):
        yield "gates", [T.T.copy() for T, _ in seen]  # copies, as the buffers change while a worker fits
        yield "outputs", [y.T.copy() for _, y in seen]
    for seen in layers(untrained):
        yield "untrained", [T.T.copy() for T, _ in seen]


def classify(task: tuple[int, tuple], labels: Sequence[np.ndarray]) -> tuple[int, str, list[list[float]]]:
    """Fit each of CLASSIFIERS to the first set of numbered features.

    Returns the number, the kind of features and, by classifier, the accuracies on the other sets.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    index, (kind, (fitted, *others)) = task
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(invalid="ignore"):
        # Neither of these matters: nothing here divides by spreads within classes, which single images do not have.
        warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
        prepare = make_pipeline(VarianceThreshold(), StandardScaler())  # some pixels are black in every image
        classifiers = NearestCentroid(), LogisticRegression(max_iter=ITERATIONS)
        if not np.ptp(fitted, axis=0).any():  # such as gates that are closed for every image
            prepare, classifiers = StandardScaler(), [DummyClassifier() for _ in CLASSIFIERS]
        fitted, others = prepare.fit_transform(fitted), [prepare.transform(other) for other in others]
        scores = []
        for classifier in classifiers:
            classifier.fit(fitted, labels[0])
            pairs = zip(others, labels[1:], strict=True)
            scores.append([float(classifier.score(other, of_other)) for other, of_other in pairs])
    return index, kind, scores


def choose_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training images, of n, that classifiers are fitted to, and of those that validate."""
    order, n_validation = np.random.default_rng(SEED).permutation(n), int(VALIDATION * min(FIT_IMAGES, n))
    fitted, validating, _ = np.split(order, np.cumsum([min(FIT_IMAGES, n - n_validation), n_validation]))
    return fitted, validating


def measure_accuracies(net: DeepNet, untrained: DeepNet, data: Dataset, jobs: int) -> dict[str, Accuracies]:
    chosen = choose_images(len(data.train_x))
    labels = (*(data.train_y[of] for of in chosen), data.test_y)
    if len(np.unique(labels[0])) < 2 or not len(labels[1]):
        found = f"expected enough training images for classifiers, found {len(data.train_x)}"
        raise InputError(f"--dataset: {found}; add some to each class")
    sets = [as_inputs(x, net.dtype) for x in (*(data.train_x[of] for of in chosen), data.test_x)]
    tasks, number_of_tasks = enumerate(features(net, untrained, sets)), 1 + 3 * net.depth
    done = run_tasks(classify, tasks, labels, jobs=min(jobs, number_of_tasks))
    found = {"gates": [], "outputs": [], "untrained": [], "pixels": []}
    for _, kind, scores in sorted(progress(done, number_of_tasks, "classifiers")):  # workers finish in any order
        found[kind].append(scores)
    by_kind = {kind: np.transpose(scores, (1, 2, 0)) for kind, scores in found.items()}  # classifiers, sets, layers
    return {
        name: Accuracies(**{kind: Scores(*numbers(scores[place])) for kind, scores in by_kind.items()})
        for place, name in enumerate(CLASSIFIERS)
    }


def vectors(net: DeepNet, images: np.ndarray, kind: str) -> np.ndarray:
    """Return the gates, or the outputs, of all layers as one vector for each image, (n, L·D)."""
    found = np.empty((len(images), net.depth, net.hidden), net.dtype)
    for part, l, _, T, y in by_block(net, images, "routes"):
        found[part, l] = (T if kind == "gates" else y).T
    return found.reshape(len(images), -1)


def measure_clusters(net: DeepNet, untrained: DeepNet, data: Dataset) -> dict[str, Clusters]:
    kinds = (
        lambda: vectors(net, data.test_x, "gates"),  # functions, as vectors take much memory
        lambda: vectors(net, data.test_x, "outputs"),
        lambda: vectors(untrained, data.test_x, "gates"),
        lambda: as_inputs(data.test_x, net.dtype),
    )
    return {name: cluster(make(), data.test_y, data.outputs) for name, make in zip(CLUSTERED, kinds, strict=True)}


def cluster(vectors: np.ndarray, labels: np.ndarray, classes: int) -> Clusters:
    """Cluster vectors (n, ...) by k-means, a batch at a time; labels serve to count only."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score
    from threadpoolctl import threadpool_limits

    batches = [vectors[first : first + ROWS] for first in range(0, len(vectors), ROWS)]
    found = []
    with threadpool_limits(1):  # once more, as the limit holds only for libraries that are already loaded
        for seed in CLUSTER_SEEDS:
            kmeans = MiniBatchKMeans(min(classes, len(batches[0])), random_state=seed)
            for batch in batches * CLUSTER_PASSES:
                kmeans.partial_fit(batch)
            found.append(kmeans.predict(vectors))
    tables = [count_pairs(assigned, labels, classes) for assigned in found]
    return Clusters(
        adjusted_mutual_information=[rounded(adjusted_mutual_info_score(labels, assigned), 4) for assigned in found],
        purity=[rounded(table.max(axis=1).sum() / len(labels), 4) for table in tables],
        table=tables[0].tolist(),
    )


def count_pairs(clusters: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return the images of each class in each cluster, (K, K), clusters in the order of their commonest class."""
    table = np.zeros((classes, classes), int)
    np.add.at(table, (clusters, labels), 1)
    return table[np.argsort(table.argmax(axis=1), kind="stable")]


def look(net: DeepNet, data: Dataset, jobs: int) -> dict[str, Any]:
    untrained = fresh(net)
    fitted, validating = choose_images(len(data.train_x))
    return {
        "first_layers": FIRST_LAYERS,
        "routing": measure_routing(net, data.train_x, data.train_y),
        "chance": rounded(np.bincount(data.test_y).max() / len(data.test_y)),
        "fit_images": len(fitted),
        "validation_images": len(validating),
        "accuracies": measure_accuracies(net, untrained, data, jobs),
        "clusters": measure_clusters(net, untrained, data),
    }


models.add_look(EXPERIMENT, look)
