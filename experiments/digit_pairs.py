"""Two images of digits side by side: one set of pictures, and several tasks that differ by the labels alone.

A pair is a left and a right image, one picture of twice the width. Each of TASKS gives it a label of ten classes, so
that the same net learns any of them; a task with fewer classes leaves the other outputs unused. Pairs are drawn by the
seed alone: whatever the task, the pictures are the same, in the same order.
"""

from collections.abc import Callable

import numpy as np

from highway_lab.datasets import CLASSES
from highway_networks import Dataset

TASKS: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]] = {  # of both digits, (n,) each
    "two classes": lambda left, right, rng: left >= CLASSES // 2,
    "parity": lambda left, right, rng: left % 2,
    "ten classes": lambda left, right, rng: left,
    "sum": lambda left, right, rng: (left + right) % CLASSES,
    "random": lambda left, right, rng: rng.integers(CLASSES, size=len(left)),
}
HELD = 12  # of this many training images at most one is held out for validation: 5,000 of MNIST's


def pair_digits(
    data: Dataset,
    task: str,
    result: bool,
    n_train: int = 30_000,
    n_validation: int = 5_000,
    n_test: int = 10_000,
    seed: int = 0,
) -> Dataset:
    """Return pairs (n, C, H, 2W) of the images of `data`, labelled by one of TASKS; another seed draws others.

    They are tested on pairs of test images if a run is a `result`, else on validation pairs. The last `n_validation` of
    a permutation of the training images make these, the others the training pairs. A small data set gives fewer: no
    part has more pairs than images, so each image is used twice at most.
    """
    pair_rng, label_rng = np.random.default_rng(seed).spawn(2)
    order = pair_rng.permutation(len(data.train_x))
    held = min(n_validation, len(order) // HELD)
    kept, validation = np.split(order, [len(order) - held])

    def pairs(x: np.ndarray, y: np.ndarray, images: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Cut permutations into pairs, so that no image is beside itself; of an odd number, each leaves one out."""
        n, half = min(n, len(images)), len(images) // 2
        rounds = [pair_rng.permutation(images)[: 2 * half].reshape(half, 2) for _ in range(-(-n // half))]
        chosen = np.concatenate(rounds)[:n]
        left, right = y[chosen].T.astype(np.int64)  # bytes would overflow
        labels = np.asarray(TASKS[task](left, right, label_rng), np.int64)
        return np.concatenate([x[chosen[:, 0]], x[chosen[:, 1]]], axis=-1), labels

    train = pairs(data.train_x, data.train_y, kept, n_train)
    validate = pairs(data.train_x, data.train_y, validation, n_validation)
    test = pairs(data.test_x, data.test_y, np.arange(len(data.test_x)), n_test)
    if result:
        return Dataset(*train, *test, CLASSES, "pairs of test images")
    return Dataset(*train, *validate, CLASSES, "validation pairs of held-out training images")
