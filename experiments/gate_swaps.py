"""Section 4.1: are gates computation? What happens to an image that is given the gates of another one?

Each layer computes H of its input x, as usual, but mixes it by gates that are given: y = H(x)·T + x·(1 − T). KINDS
lists whose gates; an image's own are the control. The mirror experiment gives an image the H of another one and leaves
it its gates.

Measured: the error; the share of predictions that are the donor's class; the share that change, beside the same in the
net before training; the distance of given gates from an image's own, as a swap that changes nothing costs nothing.
Gates are given in all layers at once; for two kinds of donor also in one layer at a time, in the first k and in the
last k. All on test images; nothing is chosen by them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from highway_lab.fields import NonEmpty, NotNegative, Share, dict_of, lists_of
from highway_lab.logs import Log, Result, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from .common import Experiment, ExperimentJob
from .looks import models
from .looks.measurement import class_means, in_batches
from .looks.models import Source

GATES, STATES = "T", "H"  # the branches
OWN, UNTRAINED = "own", "untrained net"
SAME, OTHER, ANY = "same class", "another class", "any image"  # donors that are images
CLASS_MEAN, OTHER_MEAN, OVERALL_MEAN = "mean of its class", "mean of another class", "mean of all"
KINDS = (OWN, SAME, CLASS_MEAN, OVERALL_MEAN, UNTRAINED, ANY, OTHER, OTHER_MEAN)  # of donors, as they are listed
IMAGES = (OWN, SAME, OTHER, ANY)  # kinds for states, and for the net before training
DIGITS = 4  # significant ones

Donor = Callable[[slice], np.ndarray]  # returns a branch of all layers, (L, D, B), for a slice of the images


@dataclass(frozen=True)
class Task:
    """A net and the setting that it shares with nets of other seeds."""

    setting: str
    source: Source


@dataclass
class Swap:
    """Effect of given gates, or H, in all layers at once; shares of the images except `distance`."""

    distance: NotNegative  # mean |given − own| over images, layers and units
    error: Share
    as_donor: Share  # predicted as the class of the donor, which is not the image's own
    changed: Share  # predicted as another class than with its own gates, or H


@dataclass
class Curves:
    """Errors with gates given in some layers only, and mean |given − own| of each layer."""

    distance: lists_of(Share, "L")
    each: lists_of(Share, "L")  # given in this layer alone
    first: lists_of(Share, "L+1")  # given in the first k layers, k = 0..L
    last: lists_of(Share, "L+1")  # given in the last k layers


@dataclass
class NetSwaps(Result):
    """Swaps in one net by kind of donor; `untrained`: gates swapped within the net before training."""

    task: Task
    error: Share
    gates: dict_of(KINDS, Swap)
    states: dict_of(IMAGES, Swap)
    untrained: dict_of(IMAGES, Swap)
    layers: dict_of((SAME, OTHER), Curves)  # of gates


@dataclass
class GateSwapsLog(Log):
    nets: NonEmpty[NetSwaps]


EXPERIMENT = Experiment(__name__, __doc__, GateSwapsLog)


def draw_partners(labels: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return, by kind, a donor's index for each image, (n,); its own if no other has its class."""

    def ring(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(images)
        return order, np.roll(order, 1)

    same, other, anyone = np.empty((3, len(labels)), int)
    order, following = ring(np.arange(len(labels)))
    anyone[order] = following
    for label in np.unique(labels):
        order, following = ring(np.flatnonzero(labels == label))
        same[order] = following
        other[order] = rng.choice(np.flatnonzero(labels != label), len(order))
    return {SAME: same, OTHER: other, ANY: anyone}


def from_images(net: DeepNet, images: np.ndarray, branch: str) -> Donor:
    """Return the donor of what the net computes in a branch for images (n, ...), uint8."""
    return lambda part: getattr(net.forward(as_inputs(images[part], net.dtype))[1], branch)


def from_means(means: np.ndarray, labels: np.ndarray) -> Donor:
    """Return the donor of the mean T, of `means` (K, L, D), of the class in `labels` (n,)."""
    return lambda part: means[labels[part]].transpose(1, 2, 0)


def block_given(net: DeepNet, l: int, x: np.ndarray, branch: str, given: np.ndarray) -> np.ndarray:
    """Return the output (D, B) of block l for x (D, B), with a branch, "H" or "T", given for all blocks, (L, D, B)."""
    z, _ = next(net.iterate_blocks(x, l))
    z[net.block.branches.index(branch)] = given[l]
    H, T = z
    return (H - x) * T + x  # eq. 3


def iterate_given(net: DeepNet, x: np.ndarray, branch: str, given: np.ndarray, l: int = 0) -> Iterator[np.ndarray]:
    """Yield x (D, B), the input of block l, and the outputs of it and all later blocks, with a branch given."""
    yield x
    for block in range(l, net.depth):
        x = block_given(net, block, x, branch, given)
        yield x


def predict_given(net: DeepNet, x: np.ndarray, branch: str, given: np.ndarray, l: int = 0) -> np.ndarray:
    """Return the logits (B, K) for x (D, B), the input of block l, with a branch (L, D, B) given from there on."""
    *_, y = iterate_given(net, x, branch, given, l)
    return net.forward_from(y, net.depth)


def measure_swap(
    net: DeepNet, images: np.ndarray, labels: np.ndarray, branch: str, donor: Donor, donor_labels: np.ndarray
) -> Swap:
    """Measure images (n, ...), uint8, with a branch given in all layers by donors of classes donor_labels (n,)."""
    distance, own, found = 0.0, from_images(net, images, branch), np.empty(len(labels), int)
    for part, x in in_batches(net, images, "swaps"):
        given = donor(part)
        distance += np.abs(given - own(part)).mean() * x.shape[1]
        found[part] = predict_given(net, x, branch, given).argmax(axis=1)
    before = net.predict(as_inputs(images, net.dtype)).argmax(axis=1)
    return Swap(
        distance=rounded(distance / len(labels), DIGITS),
        error=rounded(np.mean(found != labels), DIGITS),
        as_donor=rounded(np.mean((found == donor_labels) & (donor_labels != labels)), DIGITS),
        changed=rounded(np.mean(found != before), DIGITS),
    )


def measure_layers(net: DeepNet, images: np.ndarray, labels: np.ndarray, donor: Donor) -> Curves:
    """Measure gates given in one layer at a time, in the first k and in the last k."""
    L = net.depth
    distance, each, first, last = (np.zeros(L + of) for of in (0, 0, 1, 1))
    for part, x in in_batches(net, images, "layers"):
        _, cache = net.forward(as_inputs(images[part], net.dtype))
        given, y = donor(part), labels[part]

        def wrong(logits: np.ndarray, y: np.ndarray = y) -> int:
            return np.count_nonzero(logits.argmax(axis=1) != y)

        distance += np.abs(given - cache.T).mean(axis=1).sum(axis=1)
        for l, x_l in enumerate(cache.x[:-1]):
            each[l] += wrong(net.forward_from(block_given(net, l, x_l, GATES, given), l + 1))
        for k, x_k in enumerate(iterate_given(net, x, GATES, given)):
            first[k] += wrong(net.forward_from(x_k, k))
        for k in range(L + 1):
            last[k] += wrong(predict_given(net, cache.x[L - k], GATES, given, L - k))
    return Curves(*(numbers(sums / len(labels), DIGITS) for sums in (distance, each, first, last)))


def examine(task: Task, data: Dataset) -> NetSwaps:
    """Load or train a net, and measure all swaps."""
    config, images, labels = task.source.training, data.test_x, data.test_y
    partners = draw_partners(labels, np.random.default_rng(config.seed))

    def swap(net: DeepNet, branch: str, donors: dict[str, tuple[Donor, np.ndarray]]) -> dict[str, Swap]:
        return {kind: measure_swap(net, images, labels, branch, *by) for kind, by in donors.items()}

    def donors_of(net: DeepNet, branch: str) -> dict[str, tuple[Donor, np.ndarray]]:
        whose = {OWN: np.arange(len(labels))} | partners
        return {kind: (from_images(net, images[of], branch), labels[of]) for kind, of in whose.items()}

    with one_thread():
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
            error=rounded(np.mean(net.predict(as_inputs(images, net.dtype)).argmax(axis=1) != labels), DIGITS),
            gates=swap(net, GATES, donors_of(net, GATES) | no_image),
            states=swap(net, STATES, donors_of(net, STATES)),
            untrained=swap(untrained, GATES, donors_of(untrained, GATES)),
            layers={
                kind: measure_layers(net, images, labels, from_images(net, images[partners[kind]], GATES))
                for kind in (SAME, OTHER)
            },
        )


def run(job: ExperimentJob) -> None:
    settings = models.by_setting(job.dataset, job.data, job.smoke)
    tasks = [Task(setting, source) for setting, sources in settings.items() for source in sources]
    job.keep(nets=job.run_missing(examine, tasks, NetSwaps))


EXPERIMENT.add_run(run, "swap gates between images; resumable")
