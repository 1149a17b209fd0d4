"""Figure 3: do the gates route each class its own way, and do they alone tell the class?

The paper (section 4.1) shows how the mean T over all training samples of one class differs from the mean over all of
them, for the digits 0 and 7 and a 50-layer net. Its claim: substantial differences within the first 15 layers (MNIST),
so that the gating system is a part of the computation and no mere help in training.

Here for all ten digits, beside the same for ten random groups of the same sizes: how large a difference chance makes.
What the paper leaves open, measured on test images, layer by layer: two classifiers from scikit-learn, fitted to the
gates T of training images, beside the same on block outputs and pixels; features standardised. And how do routes
cluster? k-means of the gates of all layers at once, blind to the digits, beside k-means of the pixels.

    python -m experiments.class_routing run --jobs 2           the net of the depth search
    python -m experiments.class_routing run --model NET.npz    a net of your own
    python -m experiments.class_routing plot
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import run_log
from highway_networks import CLASSES, Dataset, DeepNet, scale
from run_log import DatasetInfo, Environment, number, numbers

from . import models
from .command_line import Commands, add_plot_flags, load_data
from .models import Model
from .resumable import run_tasks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "class_routing"
FIGURES = ("fig3_class_routing.png", "gates_tell_class.png")
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
    """Test accuracy of each classifier: by layer on the gates and on block outputs, once on pixels."""

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
class ClassRoutingLog:
    """runs/class_routing.json; `chance` is the share of the commonest class among the test images."""

    schema: int
    created: str
    command: str
    dataset: DatasetInfo
    environment: Environment
    model: Model
    routing: Routing
    chance: float
    fit_images: int
    accuracies: dict[str, Accuracies]  # by classifier
    clusters: dict[str, Clusters]  # of gates, of pixels


# ------------------------------------------------------------------------------------- class means


def class_means(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean T of each class over images (n, d_in), uint8: (K, L, D); zeros for a class without images."""
    sums = np.zeros((net.depth, CLASSES, net.hidden))
    for part, x in models.in_batches(net, images, "class means"):
        one_hot = (np.arange(CLASSES)[:, None] == labels[part]).astype(net.dtype)  # (K, B)
        for l, ((_, T), _) in enumerate(net.walk(x)):
            sums[l] += one_hot @ T
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
    size = layer_size(by_class)
    return Routing(
        counts=count_classes(labels).tolist(),
        difference=numbers(by_class, DIGITS),
        size=numbers(size, DIGITS),
        size_of_random_groups=numbers(layer_size(by_chance), DIGITS),
        share_in_first_layers=number(size[:FIRST_LAYERS].sum() / size.sum(), digits=4),
    )


def layer_size(difference: np.ndarray) -> np.ndarray:
    """Mean |difference| of each layer, (L,)."""
    return np.abs(difference).mean(axis=(0, 2))


# ------------------------------------------------------------------------- do gates tell the class?


class Features(NamedTuple):
    """What a classifier sees, rows of training and of test images, and where it comes from."""

    kind: str  # a field of Accuracies
    train: np.ndarray
    test: np.ndarray


def features(net: DeepNet, train: np.ndarray, test: np.ndarray) -> Iterator[Features]:
    """Pixels, then gates and outputs of each layer; images (n, d_in) scaled. No more than a layer is in memory."""
    yield Features("pixels", train, test)
    for ((_, T), y), ((_, T_test), y_test) in zip(net.walk(net.enter(train)), net.walk(net.enter(test)), strict=True):
        yield Features("gates", T.copy(), T_test.copy())  # copies, as the walk goes on while a worker fits
        yield Features("outputs", y.copy(), y_test.copy())


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
    from tqdm import tqdm

    chosen = np.random.default_rng(SEED).permutation(len(data.train_images))[:FIT_IMAGES]
    train, test = scale(data.train_images[chosen], net.dtype), scale(data.test_images, net.dtype)
    tasks = enumerate(features(net, train, test))
    done = run_tasks(classify, tasks, (data.train_labels[chosen], data.test_labels), jobs=jobs)
    bar = tqdm(done, "classifiers", 1 + 2 * net.depth, leave=False, disable=not sys.stderr.isatty())
    scores = {"pixels": [], "gates": [], "outputs": []}
    for _, kind, accuracies in sorted(bar):  # by index: workers finish in any order
        scores[kind].append(accuracies)
    return {
        name: Accuracies(
            gates=[number(row[i]) for row in scores["gates"]],
            outputs=[number(row[i]) for row in scores["outputs"]],
            pixels=number(scores["pixels"][0][i]),
        )
        for i, name in enumerate(CLASSIFIERS)
    }


# -------------------------------------------------------------------------------- do routes cluster?


def gate_vectors(net: DeepNet, images: np.ndarray) -> Iterator[np.ndarray]:
    """The gates of all layers in one vector, (B, L·D), a batch of images at a time."""
    for _, x in models.in_batches(net, images, "routes"):
        gates = np.empty((len(x), net.depth, net.hidden), net.dtype)
        for l, ((_, T), _) in enumerate(net.walk(x)):
            gates[:, l] = T
        yield gates.reshape(len(x), -1)


def pixel_vectors(net: DeepNet, images: np.ndarray) -> Iterator[np.ndarray]:
    """Scaled pixels, (B, d_in), in the same batches."""
    for start in range(0, len(images), models.ROWS):
        yield scale(images[start : start + models.ROWS], net.dtype)


def cluster(vectors: Callable[[], Iterable[np.ndarray]], labels: np.ndarray) -> Clusters:
    """k-means, a batch at a time: `vectors` starts a new pass over them. No label is seen before the counting."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import adjusted_mutual_info_score

    candidates = [MiniBatchKMeans(CLASSES, random_state=seed) for seed in CLUSTER_SEEDS]
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


def read_log(path: str | Path) -> ClassRoutingLog:
    """Read and check a log of this experiment; raises InputError."""
    return run_log.read(path, ClassRoutingLog, f"make it with python -m experiments.{NAME} run")


def run_command(arguments: argparse.Namespace) -> None:
    """Look into the net and write the log."""
    from threadpoolctl import threadpool_limits

    dataset, data = load_data(arguments)
    source = models.choose(arguments, dataset, data)
    path = models.prepare_log(NAME, dataset, arguments.smoke, source)
    with threadpool_limits(1):
        net = models.obtain(source, data)
        log = ClassRoutingLog(
            schema=run_log.SCHEMA,
            created=run_log.now(),
            command=arguments.command_line,
            dataset=DatasetInfo(dataset, len(data.train_images), len(data.test_images)),
            environment=run_log.environment(threads=1),
            model=models.describe(source, net, data),
            routing=measure_routing(net, data.train_images, data.train_labels),
            chance=number(count_classes(data.test_labels).max() / len(data.test_labels)),
            fit_images=min(FIT_IMAGES, len(data.train_images)),
            accuracies=measure_accuracies(net, data, arguments.jobs),
            clusters={
                "gates": cluster(lambda: gate_vectors(net, data.test_images), data.test_labels),
                "pixels": cluster(lambda: pixel_vectors(net, data.test_images), data.test_labels),
            },
        )
    run_log.write(path, log)
    print(f"{summary(log)}\nsaved {path}")


def summary(log: ClassRoutingLog) -> str:
    """The measurements in words."""
    lines = [
        models.summary(log.model),
        f"share of the class differences in the first {FIRST_LAYERS} layers: {log.routing.share_in_first_layers:.1%}",
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


# ----------------------------------------------------------------------------------------- pictures


def plot_command(arguments: argparse.Namespace) -> None:
    """Draw figure 3, and what the gates tell of the class."""
    from figure_style import save

    log = read_log(arguments.log)
    for name, figure in zip(FIGURES, (routing_figure(log), classes_figure(log)), strict=True):
        path = models.figure_path(name, log.dataset.name, log.model.source)
        save(figure, path, arguments.log)
        print(f"drew {path}")


def routing_figure(log: ClassRoutingLog) -> "Figure":
    """A map of layers and blocks for each class, on one scale."""
    import figure_style

    maps = np.array(log.routing.difference)  # (K, L, D)
    _, depth, width = maps.shape
    extent = (0.5, width + 0.5, depth + 0.5, 0.5)
    style = figure_style.differences(np.quantile(np.abs(maps), models.SHOWN))
    title = f"Mean T of a class less the mean of all: {models.name_data(log.dataset.name)}"
    figure, grid = figure_style.new_figure(title, 6.4, nrows=2, ncols=CLASSES // 2, sharex=True, sharey=True)
    for digit, axes in enumerate(grid.flat):
        cells = axes.imshow(maps[digit], aspect="auto", interpolation="nearest", extent=extent, **style)
        axes.set_title(f"class {digit}")
    for axes in grid[1]:
        axes.set_xlabel("block")
    for axes in grid[:, 0]:
        axes.set_ylabel("layer")
        figure_style.number_layers(axes.yaxis, depth)
    figure_style.number_layers(grid[0, 0].xaxis, width)
    label = f"difference of mean T ({1 - models.SHOWN:.1%} of all lie beyond the scale)"
    figure.colorbar(cells, ax=grid, location="bottom", aspect=50, label=label, pad=0.02, extend="both")
    return figure


def classes_figure(log: ClassRoutingLog) -> "Figure":
    """Errors by layer, the size of class differences by layer, classes by cluster."""
    from figure_style import new_figure

    title = f"Class and gates, by layer: {models.name_data(log.dataset.name)}"
    figure, grid = new_figure(title, 6.6, nrows=2, ncols=2)
    for axes, name in zip(grid[0], CLASSIFIERS, strict=True):
        error_panel(axes, name, log)
    size_panel(grid[1, 0], log.routing)
    table_panel(grid[1, 1], log.clusters["gates"])
    return figure


def error_panel(axes: "Axes", name: str, log: ClassRoutingLog) -> None:
    """Test error of one classifier on gates and on outputs of each layer, beside pixels and chance."""
    from figure_style import COLORS, INK, draw_level, label_ends, number_layers

    def error(accuracy: object) -> np.ndarray:
        return 100 * (1 - np.array(accuracy))

    found = log.accuracies[name]
    layers = np.arange(1, len(found.gates) + 1)
    for values, label, color in ((found.gates, "gates", COLORS["highway"]), (found.outputs, "outputs", INK)):
        axes.plot(layers, error(values), color=color, label=label)
    draw_level(axes, error(found.pixels), "pixels")
    draw_level(axes, error(log.chance), "chance")
    axes.set(title=f"test error (%), {name}", yscale="log", ylim=(1, 100), xlim=(1, layers[-1]))
    axes.set_yticks((1, 10, 100), (1, 10, 100))
    number_layers(axes.xaxis, layers[-1])
    label_ends(axes)


def size_panel(axes: "Axes", routing: Routing) -> None:
    """Mean |difference| of class means by layer, beside random groups."""
    from figure_style import COLORS, INK, label_ends, number_layers

    layers = np.arange(1, len(routing.size) + 1)
    axes.plot(layers, routing.size, color=COLORS["highway"], label="classes")
    axes.plot(layers, routing.size_of_random_groups, color=INK, linewidth=1, label="random\ngroups")
    axes.set(title="mean |difference of class means|", xlabel="layer", xlim=(1, layers[-1]))
    axes.set_ylim(bottom=0)
    number_layers(axes.xaxis, layers[-1])
    label_ends(axes)


def table_panel(axes: "Axes", clusters: Clusters) -> None:
    """Which share of each class (column) lies in each cluster (row) of gate vectors."""
    table = np.array(clusters.table)
    percent = 100 * table / table.sum(axis=0)
    axes.imshow(percent, aspect="auto", interpolation="nearest", vmin=0, vmax=100)
    for (cluster, digit), share in np.ndenumerate(percent):
        if share >= 1:
            color = "black" if share > 50 else "white"
            axes.text(digit, cluster, f"{share:.0f}", color=color, size=8, ha="center", va="center")
    axes.set(title="% of a class by cluster of all gates", xlabel="class", ylabel="cluster", yticks=[])
    axes.set_xticks(range(CLASSES))


def commands() -> Commands:
    """The experiment's sub-commands."""
    commands = Commands(NAME, __doc__.splitlines()[0])
    models.add_model_flags(commands.add("run", run_command, "look into a net"))
    add_plot_flags(commands.add("plot", plot_command, "draw the figures from the log"), NAME)
    return commands


if __name__ == "__main__":
    from experiments import class_routing  # not as __main__, whose functions workers cannot import

    sys.exit(class_routing.commands().main())
