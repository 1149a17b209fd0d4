"""Figure 4: which layers of a trained 50-layer net matter, and how many can be closed?

The paper (section 4.2) lesions one layer of its best 50-layer net at a time, forcing all its gates to T = 0 so that it
copies its input, and measures the error on the full training set. Here the same, error and loss, for nets of one
setting beside the net of the depth search. Ours: a layer is idle if closing it changes the error by less than 0.1
percentage points (the log has other thresholds), and needed if the error rises by more than one point. Beyond the
paper: layers closed one after another in several orders, and how many can be closed before accuracy has fallen by one
point. In blocks other than the paper's, too, a closed layer copies its input.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from highway_lab.fields import COUNT, SHARE, Count, Share, rule
from highway_lab.logs import Log, Result, numbers
from highway_lab.threads import one_thread
from highway_networks import Dataset, DeepNet, rounded, softmax_cross_entropy

from . import models
from .common import Experiment, ExperimentJob
from .models import Source

SEEDS = (0, 1, 2)
TRAIN_EPOCHS = 20
POINT = 0.01  # one percentage point of error
IDLE = 0.001  # closing an idle layer changes the error by less
IDLE_THRESHOLDS = (0.0001, 0.0002, 0.0005, IDLE, 0.002, 0.005, POINT)
SET_IMAGES = 10_000  # training images on which sets of layers are closed
SET_SEED = 0  # of the choice of these images and of the random orders
RANDOM_ORDERS = 10
ORDERS = ("last first", "first first", "least loss first", "random")  # in which layers are closed
PAPER_IDLE = 0.6  # share of the layers


@dataclass
class Closing:
    """Layers closed one after another, in one or several orders, on SET_IMAGES training images."""

    errors: Annotated[list[list[float]], rule("orders", "L+1", within=SHARE)]  # the first k layers closed, k = 0..L
    # By order: layers that can be closed before accuracy has fallen by one point.
    spared: Annotated[list[int], rule("orders", within=COUNT)]


@dataclass
class NetLesions(Result):
    """Lesions of one net; layers count from 1, errors are shares of the training images, losses are in nats."""

    source: Source
    error: Share
    loss: float
    lesioned_error: Annotated[list[float], rule("L", within=SHARE)]  # by layer closed
    lesioned_loss: Annotated[list[float], rule("L")]
    idle_share: Share
    # Layers that change the error by less than each of the log's idle_thresholds.
    idle: Annotated[list[int], rule("thresholds", within=COUNT)]
    needed: Annotated[list[int], rule(within=COUNT)]  # layers whose closing raises the error by more than one point
    closings: Annotated[dict[str, Closing], rule(ORDERS)]


@dataclass
class LesionsLog(Log):
    """runs/lesions.json; `idle` is the threshold of idle_share, `point` that of needed and spared layers."""

    idle: float
    idle_thresholds: Annotated[list[float], rule("thresholds")]
    point: float
    set_images: Count
    nets: Annotated[list[NetLesions], rule("nets")]


EXPERIMENT = Experiment(__name__, __doc__, LesionsLog, tuple(models.NETS), nets=models.NETS)


class Lesioned(NamedTuple):
    """Values with each layer closed and, last, with none, (L+1,); `flips`: share of images whose prediction changes."""

    error: np.ndarray
    loss: np.ndarray
    flips: np.ndarray


def lesion_each(net: DeepNet, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the logits (B, K) for x_0 (D, B) with layer l closed, l = 0..L-1, and last the unlesioned ones.

    A closed layer passes on its input, so the pass continues from there: half a forward pass on average.
    """
    for l, (_, y) in enumerate(net.iterate_blocks(x)):
        yield net.forward_from(x, l + 1)
        x = y
    yield net.forward_from(x, net.depth)


def measure_layers(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Lesioned:
    """Measure images (n, ...), uint8, with each layer closed in turn."""
    wrong, loss, flips = np.zeros((3, net.depth + 1))
    for part, x in models.in_batches(net, images, "lesions"):
        y, found = labels[part], []
        for l, logits in enumerate(lesion_each(net, x)):
            found.append(logits.argmax(axis=1))
            loss[l] += softmax_cross_entropy(logits, y)[0] * len(y)
        wrong += np.count_nonzero(found != y, axis=1)
        flips += np.count_nonzero(found != found[-1], axis=1)
    return Lesioned(*(total / len(labels) for total in (wrong, loss, flips)))


def measure_order(net: DeepNet, images: np.ndarray, labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the error with the first k layers of an order closed, k = 0..L: (L+1,)."""
    wrong = np.zeros(net.depth + 1)
    for part, x in models.in_batches(net, images, "sets of layers"):
        for k in range(net.depth + 1):
            logits = predict_without(net, x, order[:k])
            wrong[k] += np.count_nonzero(logits.argmax(axis=1) != labels[part])
    return wrong / len(labels)


def predict_without(net: DeepNet, x: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """Return the logits (B, K) for x_0 (D, B) with some layers closed, counted from 0."""
    for l in np.delete(np.arange(net.depth), closed):
        _, x = next(net.iterate_blocks(x, l))
    return net.forward_from(x, net.depth)


def closing_orders(lesioned_loss: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Return the orders in which layers are closed, given the loss with each of them closed, (L,)."""
    layers, rng = np.arange(len(lesioned_loss)), np.random.default_rng(SET_SEED)
    by_loss, shuffled = (
        np.argsort(lesioned_loss, kind="stable"),
        [rng.permutation(layers) for _ in range(RANDOM_ORDERS)],
    )
    return dict(zip(ORDERS, ([layers[::-1]], [layers], [by_loss], shuffled), strict=True))


def closing_images(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the training images (n, ...), uint8, on which sets of layers are closed, and their labels (n,)."""
    chosen = np.random.default_rng(SET_SEED).permutation(len(data.train_x))[:SET_IMAGES]
    return data.train_x[chosen], data.train_y[chosen]


def count_spared(errors: np.ndarray) -> int:
    """Return how many layers of an order can be closed before accuracy has fallen by one point; errors: (L+1,)."""
    fallen = errors >= errors[0] + POINT
    return int(fallen.argmax()) - 1 if fallen.any() else len(errors) - 1


def examine(source: Source, data: Dataset) -> NetLesions:
    """Load or train a net, and measure all lesions."""
    with one_thread():
        net = models.obtain(source, data)
        error, loss, _ = measure_layers(net, data.train_x, data.train_y)
        images, labels = closing_images(data)
        closings = {}
        for name, orders in closing_orders(loss[:-1]).items():
            errors = np.array([measure_order(net, images, labels, order) for order in orders])
            closings[name] = Closing(numbers(errors), [count_spared(row) for row in errors])
    rise = error[:-1] - error[-1]
    idle = [int(np.count_nonzero(np.abs(rise) < threshold)) for threshold in IDLE_THRESHOLDS]
    return NetLesions(
        None,
        source=source,
        error=rounded(error[-1]),
        loss=rounded(loss[-1]),
        lesioned_error=numbers(error[:-1]),
        lesioned_loss=numbers(loss[:-1]),
        idle_share=rounded(idle[IDLE_THRESHOLDS.index(IDLE)] / net.depth),
        idle=idle,
        needed=(np.flatnonzero(rise > POINT) + 1).tolist(),
        closings=closings,
    )


def plan(job: ExperimentJob) -> list[Source]:
    """Return the nets to lesion: that of --model, or that of NETS if it is there, and one a seed."""
    found, flags = models.find_net(job), job.arguments
    seeds = () if flags.model or (flags.alone and found) else SEEDS[: 2 if job.smoke else None]
    trained = [models.from_training(EXPERIMENT.name, job, epochs=TRAIN_EPOCHS, seed=seed) for seed in seeds]
    return [found, *trained] if found else trained


def run(job: ExperimentJob) -> None:
    sources = plan(job)
    job = job.named_after(job.arguments.model)
    job.keep(
        idle=IDLE,
        idle_thresholds=list(IDLE_THRESHOLDS),
        point=POINT,
        set_images=min(SET_IMAGES, len(job.data.train_x)),
        nets=job.run_missing(examine, sources, NetLesions),
    )


parser = models.add_run(EXPERIMENT, run, "lesion nets; resumable")
parser.add_argument("--alone", action="store_true", help="lesion the best net alone, if it is there")
