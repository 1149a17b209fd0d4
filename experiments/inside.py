"""Measures of what a net with gates does inside, over many images: its gates, and what closing its blocks costs.

Images are (n, ...), uint8, and pass a batch at a time. A closed block, T = 0, copies its input, as those of other kinds
than the paper's do here, too.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from highway_networks import Dataset, DeepNet, as_inputs, softmax_cross_entropy

ROWS = 512  # images a batch: their activations fit in the processor's cache
CLOSED, OPEN = 0.1, 0.5  # a gate is closed if T is below, open if T is above
POINT = 0.01  # one percentage point of error
IDLE = 0.001  # closing an idle block changes the error by less
IDLE_THRESHOLDS = (0.0001, 0.0002, 0.0005, IDLE, 0.002, 0.005, POINT)
SET_IMAGES = 10_000  # training images on which sets of blocks are closed
SET_SEED = 0  # of the choice of these images
FRESH_SEED = 0  # of the weights of a net that was not trained


def fresh(net: DeepNet) -> DeepNet:
    """Return a net of the same setting that was not trained."""
    return DeepNet(**net.config, rng=np.random.default_rng(FRESH_SEED))


def progress(items: Iterable, total: int, label: str) -> Iterable:
    from tqdm import tqdm

    return tqdm(items, label, total, leave=False, disable=not sys.stderr.isatty())


def in_batches(net: DeepNet, images: np.ndarray, label: str) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the images and x_0 (D, B), their input to the first block."""
    starts = range(0, len(images), ROWS)
    for start in progress(starts, len(starts), label):
        part = slice(start, start + ROWS)
        yield part, net.embed(as_inputs(images[part], net.dtype))


# -------------------------------------------------------------------------------------------- gates


def by_block(net: DeepNet, images: np.ndarray, label: str) -> Iterator[tuple]:
    """Yield, for each slice of the images and each block: slice, block l = 0..L-1, its x, T and y, (D, B) each."""
    for part, x in in_batches(net, images, label):
        for l, (T, y) in enumerate(net.iterate_gates(x)):
            yield part, l, x, T, y
            x = y


class Activity(NamedTuple):
    """Means over samples: T, shares of closed and of open gates, each (L, D), and the norm of y - x, (L,)."""

    T: np.ndarray
    closed: np.ndarray
    open: np.ndarray
    change: np.ndarray


def measure_gates(net: DeepNet, images: np.ndarray) -> Activity:
    T_sum, closed, opened = np.zeros((3, net.depth, net.hidden))
    change = np.zeros(net.depth)
    for _, l, x, T, y in by_block(net, images, "gates"):
        T_sum[l] += T.sum(axis=1, dtype=np.float64)
        closed[l] += np.count_nonzero(T < CLOSED, axis=1)
        opened[l] += np.count_nonzero(T > OPEN, axis=1)
        change[l] += np.linalg.norm(y - x, axis=0).sum(dtype=np.float64)
    return Activity(*(total / len(images) for total in (T_sum, closed, opened, change)))


def mean_gates(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """Return the mean T over units of each block for each image, (n, L): summed over blocks, its effective depth."""
    means = np.zeros((len(images), net.depth))
    for part, l, _, T, _ in by_block(net, images, "gates"):
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


# ------------------------------------------------------------------------------------------- closing


class Lesioned(NamedTuple):
    """Values with each block closed and, last, with none, (L+1,); `flips`: share of images whose prediction changes."""

    error: np.ndarray
    loss: np.ndarray
    flips: np.ndarray


def close_each(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> Lesioned:
    """Measure a net with each block closed in turn.

    A closed block passes on its input, so the pass continues from there: half a forward pass on average.
    """
    wrong, loss, flips = np.zeros((3, net.depth + 1))
    for part, x in in_batches(net, images, "lesions"):
        y, found = labels[part], []
        for l, x_l in enumerate(chain([x], (out for _, out in net.iterate_blocks(x)))):
            logits = net.forward_from(x_l, min(l + 1, net.depth))
            found.append(logits.argmax(axis=1))
            loss[l] += softmax_cross_entropy(logits, y)[0] * len(y)
        wrong += np.count_nonzero(found != y, axis=1)
        flips += np.count_nonzero(found != found[-1], axis=1)
    return Lesioned(*(total / len(labels) for total in (wrong, loss, flips)))


def count_idle(error: np.ndarray) -> list[int]:
    """Return how many blocks change the error by less than each of IDLE_THRESHOLDS, given `close_each`'s, (L+1,)."""
    change = np.abs(error[:-1] - error[-1])
    return [int(np.count_nonzero(change < threshold)) for threshold in IDLE_THRESHOLDS]


def closing_images(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the training images on which sets of blocks are closed, and their labels (n,)."""
    chosen = np.random.default_rng(SET_SEED).permutation(len(data.train_x))[:SET_IMAGES]
    return data.train_x[chosen], data.train_y[chosen]


def close_in_order(net: DeepNet, images: np.ndarray, labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the error with the first k blocks of an order closed, k = 0..L: (L+1,)."""
    wrong = np.zeros(net.depth + 1)
    for part, x_0 in in_batches(net, images, "sets of blocks"):
        for k in range(net.depth + 1):
            x = x_0
            for l in np.delete(np.arange(net.depth), order[:k]):
                _, x = next(net.iterate_blocks(x, l))
            wrong[k] += np.count_nonzero(net.forward_from(x, net.depth).argmax(axis=1) != labels[part])
    return wrong / len(labels)


def count_spared(errors: np.ndarray, fall: float = POINT) -> int:
    """Return how many blocks of an order can be closed before accuracy has fallen by `fall`; errors: (L+1,)."""
    fallen = np.asarray(errors) >= errors[0] + fall
    return int(fallen.argmax()) - 1 if fallen.any() else len(errors) - 1
