"""Figure 3: do the gates route each class its own way, and do they alone identify the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7. Here for all ten classes, beside random groups of the same sizes, which show the
differences that chance makes. What the paper leaves open is measured on test images: logistic regression on one layer's
gates T, outputs y or gates of an untrained net, and on pixels; and k-means of the gates of all layers at once. The
layer that identifies the class best is chosen on training images that the classifiers have not seen, though the net
has.

The paper's sentence on MNIST is judged by section_4, on nets of its setting; none was trained on CIFAR-100. The 95 %
interval of the lead of gates over an untrained net's is that of two proportions. (The logs in commit 6305ec0 also
have the classifier by the nearest centroid.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from matplotlib.figure import FigureBase

from highway_lab.fields import Count, NotNegative, Share, dict_of, lists_of
from highway_lab.figures import differences, part_each, set_title
from highway_lab.intervals import Interval, interval
from highway_lab.logs import rounded_all
from highway_networks import Dataset, DeepNet, InputError, as_inputs, rounded

from ..common_figures import SHOWN, draw_map
from ..study import Results, StudyRun
from . import models
from .measurement import DIGITS, ROWS, SEED, by_block, class_differences, fresh, progress
from .models import Look

FIRST_LAYERS = 15  # in which the paper sees the differences
DRAWN = 10  # classes whose maps are drawn
FIT_IMAGES = 10_000  # training images that classifiers are fitted to
VALIDATION = 1 / 6  # validation images, as a share of FIT_IMAGES
CLUSTERED = ("gates", "outputs", "gates of the untrained net", "pixels")
ITERATIONS = 1000  # at most, of logistic regression
CLUSTER_SEEDS = (0, 1, 2, 3, 4)
CLUSTER_PASSES = 5  # over the test images


@dataclass
class Routing:
    """Differences of class means of T from the overall mean; `size` is the mean |difference| of each layer."""

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
class ClassRouting(Look):
    """What is seen of a net; `clusters`: by kind of features, k-means with as many clusters as classes, a seed each."""

    routing: Routing
    fit_images: Count
    validation_images: Count
    accuracies: Accuracies
    clusters: dict_of(CLUSTERED, lists_of(float, "seeds"))  # adjusted mutual information


def measure_routing(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Routing:
    by_class, size, size_by_chance = class_differences(net, images, labels)
    return Routing(
        difference=rounded_all(by_class, DIGITS),
        size=rounded_all(size, DIGITS),
        size_of_random_groups=rounded_all(size_by_chance, DIGITS),
        share_in_first_layers=rounded(size[:FIRST_LAYERS].sum() / size.sum(), digits=4),
    )


def features(net: DeepNet, untrained: DeepNet, *sets: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Yield features of sets of images, (n, layers, ...): gates, outputs, untrained gates and, as one layer, pixels."""

    def by_layer(of: DeepNet, images: np.ndarray, outputs: bool) -> np.ndarray:
        found = np.empty((len(images), of.depth, of.hidden), of.dtype)
        for part, l, _, T, y in by_block(of, images, "routes"):
            found[part, l] = (y if outputs else T).T
        return found

    for of, outputs in ((net, False), (net, True), (untrained, False)):
        yield [by_layer(of, images, outputs) for images in sets]
    yield [as_inputs(images, net.dtype)[:, None] for images in sets]


def classify(sets: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> list[float]:
    """Fit logistic regression to the first set of features (n, ...); return the accuracies on the other sets."""
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    fitted, *others = sets
    with threadpool_limits(1):
        # Some pixels are black in every image.
        model = make_pipeline(VarianceThreshold(), StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
        if not np.ptp(fitted, axis=0).any():  # such as gates that are closed for every image
            model = DummyClassifier()
        model.fit(fitted, labels[0])
        return [float(model.score(*other)) for other in zip(others, labels[1:], strict=True)]


def choose_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training images, of n, that classifiers are fitted to, and of those that validate."""
    order, n_validation = np.random.default_rng(SEED).permutation(n), int(VALIDATION * min(FIT_IMAGES, n))
    fitted, validating, _ = np.split(order, np.cumsum([min(FIT_IMAGES, n - n_validation), n_validation]))
    return fitted, validating


def measure_accuracies(net: DeepNet, untrained: DeepNet, data: Dataset) -> Accuracies:
    chosen = choose_images(len(data.train_x))
    sets = *(data.train_x[of] for of in chosen), data.test_x
    labels = *(data.train_y[of] for of in chosen), data.test_y
    if len(np.unique(labels[0])) < 2 or not len(labels[1]):
        found = f"expected enough training images for classifiers, found {len(data.train_x)}"
        raise InputError(f"--dataset: {found}; add some to each class")
    scores = []
    for of, found in zip(fields(Accuracies), features(net, untrained, *sets), strict=True):
        layers = range(found[0].shape[1])
        scored = [classify([each[:, l] for each in found], labels) for l in progress(layers, len(layers), of.name)]
        scores.append(Scores(*rounded_all(np.transpose(scored))))
    return Accuracies(*scores)


def cluster(vectors: np.ndarray, labels: np.ndarray, classes: int) -> list[float]:
    """Cluster vectors (n, layers, ...) by k-means, a batch at a time; labels serve to count only."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score
    from threadpoolctl import threadpool_limits

    vectors = vectors.reshape(len(vectors), -1)
    batches = [vectors[first : first + ROWS] for first in range(0, len(vectors), ROWS)]
    found = []
    with threadpool_limits(1):  # once more, as the limit holds only for libraries that are already loaded
        for seed in CLUSTER_SEEDS:
            kmeans = MiniBatchKMeans(min(classes, len(batches[0])), random_state=seed)
            for batch in batches * CLUSTER_PASSES:
                kmeans.partial_fit(batch)
            found.append(adjusted_mutual_info_score(labels, kmeans.predict(vectors)))
    return rounded_all(found, 4)


def measure(net: DeepNet, data: Dataset, common: Look) -> ClassRouting:
    untrained = fresh(net)
    fitted, validating = choose_images(len(data.train_x))
    clustered = zip(CLUSTERED, features(net, untrained, data.test_x), strict=True)
    return ClassRouting(
        **vars(common),
        routing=measure_routing(net, data.train_x, data.train_y),
        fit_images=len(fitted),
        validation_images=len(validating),
        accuracies=measure_accuracies(net, untrained, data),
        clusters={name: cluster(of, data.test_y, data.outputs) for name, (of,) in clustered},
    )


DATASET, of_net = models.DATASET, models.of_net
train = partial(models.look, measure=measure)
STUDY = models.looks(ClassRouting, "", "cifar-10", "paper")


# ---------------------------------------------------------------------------------------- what was found


def least_lead(found: Accuracies, n_test: int) -> Interval:
    """Return the least lead of gates over untrained gates in any block, in points of test accuracy."""
    pairs = zip(found.gates.test, found.untrained.test, strict=True)
    gates, untrained = min(pairs, key=lambda pair: pair[0] - pair[1])
    variance = sum(share * (1 - share) for share in (gates, untrained)) / n_test
    return Interval(100 * (gates - untrained), 196 * variance**0.5)


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes, by data set: accuracies as shares, "best" by validation, and points of lead."""

    def found(seen: ClassRouting, n_test: int) -> dict:
        scores, groups = vars(seen.accuracies), seen.routing.size_of_random_groups
        return {
            "best": {kind: of.test[of.best] for kind, of in scores.items()},
            "lowest": {kind: min(of.test) for kind, of in scores.items()},
            "highest": {kind: max(of.test) for kind, of in scores.items()},
            "first": {kind: of.test[0] for kind, of in scores.items()},
            "last": {kind: of.test[-1] for kind, of in scores.items()},
            "least lead": least_lead(seen.accuracies, n_test),
            "first blocks": FIRST_LAYERS,
            "in the first blocks": {
                "classes": seen.routing.share_in_first_layers,
                "random groups": sum(groups[:FIRST_LAYERS]) / sum(groups),
            },
            "clusters": {of: interval(found) for of, found in seen.clusters.items()},
        }

    return {"of": {name: found(run.measured, of.dataset.n_test) for name, run, of in models.runs_of(results)}}


@part_each(height=6.2)
def draw_classes(part: FigureBase, shown: tuple[str, StudyRun, Results]) -> None:
    """Draw a map of blocks and units for each class, ten at most, on one scale."""
    _, run, results = shown
    maps = np.array(run.measured.routing.difference[:DRAWN])  # (K, L, D)
    end = np.quantile(np.abs(maps), SHOWN)
    found = f"the gates of a class differ, most by less than {round(end, 2) or end:.2g}"
    set_title(part, f"{models.name_shown(run, results)}: {found}")
    grid = part.subplots(nrows=2, ncols=-(-len(maps) // 2), sharex=True, sharey=True, squeeze=False)
    names = results.dataset.classes or [f"class {index}" for index in range(len(maps))]
    for axes, values, name in zip(grid.flat, maps, names, strict=False):
        image = draw_map(axes, values, **differences(end))
        axes.set_title(f"{name:.16}", parse_math=False)
        axes.set(xlabel="unit", ylabel="block")
        axes.label_outer()
    grid.flat[-1].set_visible(len(maps) % 2 == 0)
    label = "mean T of the class minus mean T of all"
    part.colorbar(image, ax=grid, location="bottom", aspect=50, label=label, pad=0.02, extend="both")


FIGURES = {"fig3_class_routing.png": lambda results: draw_classes(*models.runs_of(results))}
