"""The measurement of a net with gates that all looks share: what its blocks compute, and what changing them costs.

    for part, x in in_batches(net, images): ...               a slice of the images, and x_0 (D, B)
    for part, l, x, T, y in by_block(net, images): ...        what block l = 0..L-1 gets, its gate, and what it returns
    for y in walk(net, x, blocks): ...                        run these blocks alone, which closes all others
    for y in walk(net, x, blocks, T=given): ...               run them with gates that are given
    net.forward_from(y, net.depth)                            the logits of what came out

On these stand means over images (`measure_gates`, `mean_gates`, `class_means`) and the cost of closing blocks
(`close_each`, `close_in_order`). Images are (n, ...), uint8, and pass a batch at a time. A closed block, T = 0, copies
its input, as those of other kinds than the paper's do here, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from highway_networks import Dataset, DeepNet, as_inputs

ROWS = 512  # images a batch: their activations fit in the processor's cache
CLOSED, OPEN = 0.1, 0.5  # a gate is closed if T is below, open if T is above
RARE = 0.01  # share of samples; a gate that is open, or closed, for fewer counts as constant
POINT = 0.01  # one percentage point of error
IDLE = 0.001  # closing an idle block changes the error by less
TIMES = (0.5, 1, 2)  # the threshold of an idle block, at which shares of idle blocks are judged
SET_IMAGES = 10_000  # training images on which sets of blocks are closed
SEED = 0  # of the weights of a net that was not trained, of random groups, and of each choice of images
DIGITS = 3  # significant ones, of means over images


def in_batches(net: DeepNet, images: np.ndarray, label: str = "images") -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the images and x_0 (D, B), their input to the first block."""
    for start in tqdm(range(0, len(images), ROWS), label, leave=False, disable=None):
        part = slice(start, start + ROWS)
        yield part, net.embed(as_inputs(images[part], net.dtype))


def by_block(net: DeepNet, images: np.ndarray, label: str = "gates") -> Iterator[tuple]:
    """Yield, for each slice of the images and each block: slice, block l = 0..L-1, its x, T and y, (D, B) each.

    T is overwritten by the next block, x and y by later ones.
    """
    for part, x in in_batches(net, images, label):
        for l, (z, y) in enumerate(net.iterate_blocks(x)):
            yield part, l, x, z[net.block.branches.index("T")], y
            x = y


def walk(
    net: DeepNet, x: np.ndarray, blocks: Iterable[int] | None = None, T: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Yield x (D, B) and the output (D, B) of each of these blocks, by default all, in their order.

    T   gates of all blocks, (L, D, B), in place of the net's own: then y = H·T + x·(1 − T), eq. 3
    """
    yield x
    for l in range(net.depth) if blocks is None else blocks:
        z, y = next(net.iterate_blocks(x, l))
        if T is not None:
            y = (z[net.block.branches.index("H")] - x) * T[l] + x
        yield (x := y)


# -------------------------------------------------------------------------------------------- gates


class Activity(NamedTuple):
    """Means over samples: T, shares of closed and of open gates, each (L, D), and the norm of y - x, (L,)."""

    T: np.ndarray
    closed: np.ndarray
    open: np.ndarray
    change: np.ndarray


def measure_gates(net: DeepNet, images: np.ndarray) -> Activity:
    T_sum, closed, opened = np.zeros((3, net.depth, net.hidden))
    change = np.zeros(net.depth)
    for _, l, x, T, y in by_block(net, images):
        T_sum[l] += T.sum(axis=1, dtype=np.float64)
        closed[l] += np.count_nonzero(T < CLOSED, axis=1)
        opened[l] += np.count_nonzero(T > OPEN, axis=1)
        change[l] += np.linalg.norm(y - x, axis=0).sum(dtype=np.float64)
    return Activity(*(total / len(images) for total in (T_sum, closed, opened, change)))


def mean_gates(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """Return the mean T over units of each block for each image, (n, L): summed over blocks, its effective depth."""
    means = np.zeros((len(images), net.depth))
    for part, l, _, T, _ in by_block(net, images):
        means[part, l] = T.mean(axis=0)
    return means


def class_means(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the mean T of each class, (K, L, D); zeros for a class without images."""
    classes = net.config["d_out"]
    sums = np.zeros((net.depth, classes, net.hidden))
    for part, l, _, T, _ in by_block(net, images, "class means"):
        one_hot = (np.arange(classes)[:, None] == labels[part]).astype(net.dtype)  # (K, B)
        sums[l] += one_hot @ T.T
    return (sums / np.maximum(np.bincount(labels, minlength=classes), 1)[:, None]).swapaxes(0, 1)


def class_differences(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the mean T of each class less that of all images, (K, L, D)."""
    means = class_means(net, images, labels)
    return means - np.average(means, axis=0, weights=np.bincount(labels, minlength=len(means)))


# ------------------------------------------------------------------------------------------- closing


def close_each(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the error with each block closed in turn and, last, with none, (L+1,).

    A closed block passes on its input, so the pass continues from there: half a forward pass on average.
    """
    wrong = np.zeros(net.depth + 1)
    for part, x in in_batches(net, images, "lesions"):
        for l, x_l in enumerate(walk(net, x)):
            logits = net.forward_from(x_l, min(l + 1, net.depth))
            wrong[l] += np.count_nonzero(logits.argmax(axis=1) != labels[part])
    return wrong / len(labels)


def rises(errors: Sequence[float]) -> np.ndarray:
    """Return the points by which the error rises with each block closed, (L,), given `close_each`'s, (L+1,)."""
    return np.round(100 * (np.array(errors[:-1]) - errors[-1]), 9)  # no threshold is missed by bits


def idle_share(errors: Sequence[float], points: float) -> float:
    """Return the share of blocks, in %, whose closing changes the error by less than so many points."""
    return float(100 * np.mean(np.abs(rises(errors)) < points))


def closing_images(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the training images on which sets of blocks are closed, and their labels (n,)."""
    chosen = np.random.default_rng(SEED).permutation(len(data.train_x))[:SET_IMAGES]
    return data.train_x[chosen], data.train_y[chosen]


def close_in_order(net: DeepNet, images: np.ndarray, labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the error with the first k blocks of an order closed, k = 0..L: (L+1,)."""
    wrong = np.zeros(net.depth + 1)
    for part, x in in_batches(net, images, "sets of blocks"):
        for k in range(net.depth + 1):
            *_, y = walk(net, x, sorted(order[k:]))
            wrong[k] += np.count_nonzero(net.forward_from(y, net.depth).argmax(axis=1) != labels[part])
    return wrong / len(labels)


def close_from_ends(net: DeepNet, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors with the first and with the last k blocks closed, k = 0..L: (L+1,) each."""
    images, blocks = closing_images(data), np.arange(net.depth)
    return close_in_order(net, *images, blocks), close_in_order(net, *images, blocks[::-1])


def count_spared(errors: np.ndarray, fall: float = POINT) -> int:
    """Return how many blocks of an order can be closed before accuracy has fallen by `fall`; errors: (L+1,)."""
    fallen = np.asarray(errors) >= errors[0] + fall
    return int(fallen.argmax()) - 1 if fallen.any() else len(errors) - 1
