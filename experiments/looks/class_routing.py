"""Figure 3: do the gates route each class its own way, and do they alone identify the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7. Here for all ten classes. What the paper leaves open is measured on test images: logistic
regression on one layer's gates T, outputs y or gates of an untrained net, and on pixels.

The paper's sentence on MNIST is judged by section_4, on nets of its setting; none was trained on CIFAR-100. (The logs
in commit 396bfba also have k-means of the gates of all layers at once; those in commit 6305ec0 the classifier by the
nearest centroid, too; those in commit 405c2b5 the differences of random groups, and a layer chosen by validation.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import FigureBase
from tqdm import tqdm

from highway_lab.fields import Share, dict_of, lists_of
from highway_lab.figures import differences, in_parts, set_title
from highway_lab.logs import rounded_all
from highway_networks import Dataset, DeepNet, as_inputs

from ..common_figures import SHOWN, draw_map
from ..study import Results, StudyRun
from . import models
from .measurement import DIGITS, SEED, by_block, class_differences
from .models import Look

DRAWN = 10  # classes whose maps are drawn
FIT_IMAGES = 10_000  # training images that classifiers are fitted to
FEATURES = ("gates", "outputs", "untrained", "pixels")  # what is classified: "untrained" are an untrained net's gates
ITERATIONS = 1000  # at most, of logistic regression


@dataclass
class ClassRouting(Look):
    """What is seen of a net: differences of class means of T from the overall mean, and accuracies of classifiers."""

    difference: lists_of(float, "K", "L", "D")
    accuracies: dict_of(FEATURES, list[Share])  # on test images, by layer; pixels are a single layer


def by_layer(net: DeepNet, images: np.ndarray, outputs: bool = False) -> np.ndarray:
    """Return the gates T or the outputs y of each layer for images, (L, n, D)."""
    found = np.empty((net.depth, len(images), net.hidden), net.dtype)
    for part, l, _, T, y in by_block(net, images, "routes"):
        found[l, part] = (y if outputs else T).T
    return found


def classify(sets: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> float:
    """Fit logistic regression to the first of two sets of features (n, ...); return the accuracy on the second."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # once more, as the limit holds only for libraries that are already loaded
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS)).fit(sets[0], labels[0])
        return float(model.score(sets[1], labels[1]))


def measure_accuracies(net: DeepNet, untrained: DeepNet, data: Dataset) -> dict[str, list[float]]:
    fitted = np.random.default_rng(SEED).permutation(len(data.train_x))[:FIT_IMAGES]
    sets, labels = (data.train_x[fitted], data.test_x), (data.train_y[fitted], data.test_y)
    layers_of = (
        partial(by_layer, net),
        partial(by_layer, net, outputs=True),
        partial(by_layer, untrained),
        lambda images: as_inputs(images, net.dtype)[None],
    )
    found = {}
    for name, features in zip(FEATURES, layers_of, strict=True):
        layers = tqdm([*zip(*map(features, sets), strict=True)], name, leave=False, disable=None)
        found[name] = rounded_all([classify(layer, labels) for layer in layers])
    return found


def measure(net: DeepNet, data: Dataset, common: Look) -> ClassRouting:
    by_class = rounded_all(class_differences(net, data.train_x, data.train_y), DIGITS)
    untrained = DeepNet(**net.config, rng=np.random.default_rng(SEED))
    return ClassRouting(*vars(common).values(), by_class, measure_accuracies(net, untrained, data))


DATASET, of_net = models.DATASET, models.of_net
train = partial(models.look, measure=measure)
STUDY = models.looks(ClassRouting, "", "cifar-10", "paper")


# ---------------------------------------------------------------------------------------- what was found


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes, by data set: accuracies as shares, by features and layer."""
    return {"of": {name: run.measured.accuracies for name, run, _ in models.runs_of(results)}}


def draw_classes(part: FigureBase, shown: tuple[str, StudyRun, Results]) -> None:
    """Draw a map of blocks and units for each class, ten at most, on one scale."""
    _, run, results = shown
    maps = np.array(run.measured.difference[:DRAWN])  # (K, L, D)
    end = np.quantile(np.abs(maps), SHOWN)
    found = f"gates of a class minus those of all, colours to ±{round(end, 2) or end:.2g}"
    set_title(part, f"{models.name_shown(run, results)}: {found}")
    grid = part.subplots(nrows=2, ncols=DRAWN // 2, sharex=True, sharey=True)
    for label, (axes, values) in enumerate(zip(grid.flat, maps, strict=True)):
        image = draw_map(axes, values, **differences(end))
        axes.set(title=f"class {label}", xlabel="unit", ylabel="block")
        axes.label_outer()
    words = "mean T of the class minus mean T of all"
    part.colorbar(image, ax=grid, location="bottom", aspect=50, label=words, pad=0.02, extend="both")


FIGURES = {"fig3_class_routing.png": lambda results: in_parts(draw_classes, models.runs_of(results), 6.2)}
