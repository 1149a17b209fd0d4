"""Are gates computation? What happens to an image that is given the gates of another one?

The paper (section 4.1) concludes from its class means of T that the gating system is a part of the computation, and no
mere help in training. Means alone cannot tell. So here an image enters as itself, each layer computes H of what has
come to it, and mixes it in, y = H(x)·T + x·(1 − T), by gates T that are not its own: recorded while the net saw another
image of its class, or of another class, or any image; the mean of its class, of another class or of all (training
images); those of the same net before training. Its own gates are the control. And the mirror of it: an image that keeps
its gates, and is given H of another one.

What is counted: the error; how many predictions are the donor's class, and how many change at all, beside the same in
the net before training; and how far what is given is from the image's own, as a swap that changes nothing costs
nothing. In all layers at once; for two kinds of donor also in one layer at a time, in the first k and in the last k.
On test images, which the nets have not learned by heart; nothing is chosen by them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from highway_lab.logs import Log, Result, number, numbers
from highway_networks import Dataset, DeepNet, Training, as_inputs

from . import models
from .class_routing import class_means
from .common import Experiment, ExperimentJob, start
from .models import Source

GATES, STATES = "T", "H"  # the branches
OWN, UNTRAINED = "own", "untrained net"
SAME, OTHER, ANY = "same class", "another class", "any image"  # whose image the donor is
CLASS_MEAN, OTHER_MEAN, OVERALL_MEAN = "mean of its class", "mean of another class", "mean of all"
DIGITS = 4  # significant ones

Donor = Callable[[slice], np.ndarray]  # a branch of all layers, (L, D, B), for a part of the images


@dataclass(frozen=True)
class Task:
    """A net, and the setting that it shares with those of other seeds."""

    setting: str
    source: Source


@dataclass
class Swap:
    """What comes of it in all layers at once; shares of the images, but for `distance`."""

    distance: float  # mean |given − own| over images, layers and units
    error: float
    as_donor: float  # predicted as the class of the donor, which is not the image's own
    changed: float  # predicted as another class than with what is its own


@dataclass
class Curves:
    """What comes of gates that are given in some layers only: errors, and mean |given − own| of each layer."""

    distance: list[float]  # (L,)
    each: list[float]  # (L,): in this layer alone
    first: list[float]  # (L+1,): in the first k layers, k = 0..L
    last: list[float]  # (L+1,): in the last k


@dataclass
class NetSwaps(Result):
    """One net, by kind of donor; `untrained`: the gates of the net before training, swapped within it."""

    task: Task
    error: float
    gates: dict[str, Swap]
    states: dict[str, Swap]
    untrained: dict[str, Swap]
    layers: dict[str, Curves]  # of gates


@dataclass
class GateSwapsLog(Log):
    """runs/gate_swaps.json."""

    nets: list[NetSwaps]


EXPERIMENT = Experiment(__name__, __doc__, GateSwapsLog)


# ------------------------------------------------------------------------------- what is given, by whom


def draw_partners(labels: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """By kind, the number of another image for each of the images, (n,); its own if no other has its class."""

    def go_round(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(images)
        return order, np.roll(order, 1)

    same, other, anyone = np.empty((3, len(labels)), int)
    order, following = go_round(np.arange(len(labels)))
    anyone[order] = following
    for label in np.unique(labels):
        order, following = go_round(np.flatnonzero(labels == label))
        same[order] = following
        other[order] = rng.choice(np.flatnonzero(labels != label), len(order))
    return {SAME: same, OTHER: other, ANY: anyone}


def from_images(net: DeepNet, images: np.ndarray, branch: str) -> Donor:
    """A branch as the net computes it when it sees these images (n, ...), uint8."""
    return lambda part: getattr(net.forward(as_inputs(images[part], net.dtype))[1], branch)


def from_means(means: np.ndarray, labels: np.ndarray) -> Donor:
    """The mean T of a class, of `means` (K, L, D), by the label (n,) that each image has here."""
    return lambda part: means[labels[part]].transpose(1, 2, 0)


# -------------------------------------------------------------------------------------- passes with gifts


def block_given(net: DeepNet, l: int, x: np.ndarray, branch: str, given: np.ndarray) -> np.ndarray:
    """Output y (D, B) of block l at x (D, B), a branch of which, "H" or "T", is given: (L, D, B), of all blocks."""
    z, _ = next(net.walk(x, l))
    z[net.block.branches.index(branch)] = given[l]
    H, T = z
    return (H - x) * T + x  # eq. 3


def walk_given(net: DeepNet, x: np.ndarray, branch: str, given: np.ndarray, l: int = 0) -> Iterator[np.ndarray]:
    """Yield x (D, B), which enters block l, and what leaves it and each block after it, a branch of which is given."""
    yield x
    for block in range(l, net.depth):
        x = block_given(net, block, x, branch, given)
        yield x


def predict_given(net: DeepNet, x: np.ndarray, branch: str, given: np.ndarray, l: int = 0) -> np.ndarray:
    """Logits (B, K) given x (D, B), which enters block l, and a branch (L, D, B) of this block and of all after it."""
    *_, y = walk_given(net, x, branch, given, l)
    return net.predict_from(y, net.depth)


# --------------------------------------------------------------------------------------------- measuring


def measure_swap(
    net: DeepNet, images: np.ndarray, labels: np.ndarray, branch: str, donor: Donor, donor_labels: np.ndarray
) -> Swap:
    """Give a branch of all layers to all images (n, ...), uint8; donor_labels (n,) are the classes of the donors."""
    distance, own, found = 0.0, from_images(net, images, branch), np.empty(len(labels), int)
    for part, x in models.in_batches(net, images, "swaps"):
        given = donor(part)
        distance += np.abs(given - own(part)).mean() * x.shape[1]
        found[part] = predict_given(net, x, branch, given).argmax(axis=1)
    before = net.predict(as_inputs(images, net.dtype)).argmax(axis=1)
    return Swap(
        distance=number(distance / len(labels), DIGITS),
        error=number(np.mean(found != labels), DIGITS),
        as_donor=number(np.mean((found == donor_labels) & (donor_labels != labels)), DIGITS),
        changed=number(np.mean(found != before), DIGITS),
    )


def measure_layers(net: DeepNet, images: np.ndarray, labels: np.ndarray, donor: Donor) -> Curves:
    """Give gates in one layer at a time, in the first k and in the last k; each path from where it leaves another."""
    L = net.depth
    distance, each, first, last = (np.zeros(L + of) for of in (0, 0, 1, 1))
    for part, x in models.in_batches(net, images, "layers"):
        _, cache = net.forward(as_inputs(images[part], net.dtype))
        given, y = donor(part), labels[part]

        def wrong(logits: np.ndarray, y: np.ndarray = y) -> int:
            return np.count_nonzero(logits.argmax(axis=1) != y)

        distance += np.abs(given - cache.T).mean(axis=1).sum(axis=1)
        for l, x_l in enumerate(cache.x[:-1]):
            each[l] += wrong(net.predict_from(block_given(net, l, x_l, GATES, given), l + 1))
        for k, x_k in enumerate(walk_given(net, x, GATES, given)):
            first[k] += wrong(net.predict_from(x_k, k))
        for k in range(L + 1):
            last[k] += wrong(predict_given(net, cache.x[L - k], GATES, given, L - k))
    return Curves(*(numbers(sums / len(labels), DIGITS) for sums in (distance, each, first, last)))


def examine(task: Task, data: Dataset) -> NetSwaps:
    """Load or train the net, and swap."""
    from threadpoolctl import threadpool_limits

    config, images, labels = task.source.training, data.test_x, data.test_y
    partners = draw_partners(labels, np.random.default_rng(config.seed))

    def swap(net: DeepNet, branch: str, donors: dict[str, tuple[Donor, np.ndarray]]) -> dict[str, Swap]:
        return {kind: measure_swap(net, images, labels, branch, *by) for kind, by in donors.items()}

    def among(net: DeepNet, branch: str) -> dict[str, tuple[Donor, np.ndarray]]:
        whose = {OWN: np.arange(len(labels))} | partners
        return {kind: (from_images(net, images[of], branch), labels[of]) for kind, of in whose.items()}

    with threadpool_limits(1):
        net, untrained = models.obtain(task.source, data), Training(config, data).net
        means, another = class_means(net, data.train_x, data.train_y).astype(net.dtype), labels[partners[OTHER]]
        overall = np.average(means, axis=0, weights=np.bincount(data.train_y, minlength=len(means)))
        no_image = {
            CLASS_MEAN: (from_means(means, labels), labels),
            OTHER_MEAN: (from_means(means, another), another),
            OVERALL_MEAN: (from_means(np.broadcast_to(overall, means.shape), labels), labels),
            UNTRAINED: (from_images(untrained, images, GATES), labels),
        }
        return NetSwaps(
            None,
            task=task,
            error=number(np.mean(net.predict(as_inputs(images, net.dtype)).argmax(axis=1) != labels), DIGITS),
            gates=swap(net, GATES, among(net, GATES) | no_image),
            states=swap(net, STATES, among(net, STATES)),
            untrained=swap(untrained, GATES, among(untrained, GATES)),
            layers={
                kind: measure_layers(net, images, labels, from_images(net, images[partners[kind]], GATES))
                for kind in (SAME, OTHER)
            },
        )


def run(job: ExperimentJob) -> None:
    """Swap gates in the nets of every setting, and write the log."""
    settings = models.by_setting(job.dataset, job.data, job.smoke)
    tasks = [Task(setting, source) for setting, sources in settings.items() for source in sources]
    job.keep(nets=job.run_missing(examine, tasks, NetSwaps))


EXPERIMENT.add_run(run, "swap gates between images; resumable")

if __name__ == "__main__":
    start(__spec__.name)
