"""Data sets: MNIST and its like, CIFAR, scikit-learn's digits, one's own arrays; subsets of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highway_lab import cifar
from highway_lab.cli import InputError
from highway_lab.files import IDX_SOURCES, DownloadError, fetch, read_verified, remedy
from highway_lab.logs import TEST_IMAGES

CLASSES = 10


class Dataset(NamedTuple):
    """Samples for training and for testing.

    x               images as uint8 (n, channels, rows, columns), or features as floats (n, ...)
    y               classes as integers (n,), or targets as floats (n, K)
    outputs         K, the number of outputs that a net needs
    test_set        which samples are there for testing, in words
    train_weights   (n,), factors on the losses of the training samples, 1 on average
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    outputs: int
    test_set: str = TEST_IMAGES
    train_weights: np.ndarray | None = None


DATASETS = {  # name -> number of classes
    **dict.fromkeys(IDX_SOURCES, CLASSES),
    **{name: files.classes for name, files in cifar.CIFARS.items()},
    "digits": CLASSES,
}


def load(name: str, data_dir: str | os.PathLike | None, parse_idx: Callable[[bytes, Path], np.ndarray]) -> Dataset:
    """Load a data set, downloading what is missing below the data directory; see highway_networks.load_dataset.

    `parse_idx(payload, path)` makes an array of the bytes of an idx file.
    """
    if name == "auto":
        name = choose_dataset(data_dir)
    if name == "digits":
        return _load_digits()
    if name in cifar.CIFARS:
        return Dataset(*cifar.load(name, data_dir))
    if name not in IDX_SOURCES:
        raise InputError(f"--dataset: expected auto, {', '.join(DATASETS)}, found {name!r}; choose one of these")
    paths = fetch(IDX_SOURCES[name], data_dir)
    arrays = [parse_idx(read_verified(path, IDX_SOURCES[name]), path) for path in paths]
    for images, labels, image_path, label_path in zip(arrays[::2], arrays[1::2], paths[::2], paths[1::2], strict=True):
        _check_pair(images, labels, image_path, label_path)
    return Dataset(*(a[:, None] if a.ndim == 3 else a for a in arrays), CLASSES)  # one channel


def choose_dataset(data_dir: str | os.PathLike | None = None) -> str:
    """Return what "auto" stands for: "mnist" if it is there or can be downloaded, else "digits" with a warning."""
    try:
        fetch(IDX_SOURCES["mnist"], data_dir)
    except DownloadError as error:
        print(f"{'!' * 88}\n{error}", file=sys.stderr)
        print(f"NOT MNIST: using scikit-learn's 8x8 digits instead.\n{'!' * 88}", file=sys.stderr)
        return "digits"
    return "mnist"


def _load_digits() -> Dataset:
    """Load scikit-learn's 1,797 digits, pixels 0..16 scaled to 0..255, a fixed shuffle cut 1,437 / 360."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = labels.astype(np.uint8)
    train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])
    return Dataset(images[train], labels[train], images[test], labels[test], CLASSES)


def _check_pair(images: np.ndarray, labels: np.ndarray, image_path: Path, label_path: Path) -> None:
    """Raise InputError unless images are (n, rows, columns) and labels (n,) of classes 0..9."""
    for array, ndim, kind, path in ((images, 3, "images", image_path), (labels, 1, "labels", label_path)):
        if array.ndim != ndim:
            raise InputError(
                f"{path}: expected {kind} ({ndim} dimensions), found {array.ndim} dimensions; "
                "are images and labels swapped?"
            )
    if len(images) != len(labels):
        raise InputError(
            f"{label_path}: expected {len(images)} labels, one for each of {image_path.name}, "
            f"found {len(labels)}; {remedy(label_path)}"
        )
    if labels.max(initial=0) >= CLASSES:
        raise InputError(f"{label_path}: expected labels 0..{CLASSES - 1}, found {labels.max()}; {remedy(label_path)}")


def as_inputs(x: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Return samples (n, ...) as rows (n, d_in): pixels 0..255 (uint8) as -1..1, floats as they are."""
    rows = x.reshape(len(x), -1)
    if x.dtype != np.uint8:
        return rows.astype(dtype, copy=False)
    scaled = np.multiply(rows, 1 / 127.5, dtype=dtype)
    scaled -= 1
    return scaled


def draw_subset(data: Dataset, n_train: int, n_test: int, rng: np.random.Generator, n_validation: int = 0) -> Dataset:
    """Return the first n_train and n_test of a random permutation of each half; raises InputError if there are fewer.

    The n_validation training samples after those are the last of train_x and train_y.
    """
    wanted_train, flags = n_train + n_validation, "--n-train" + " and --n-validation" * bool(n_validation)
    for flag, wanted, x in ((flags, wanted_train, data.train_x), ("--n-test", n_test, data.test_x)):
        if wanted > len(x):
            raise InputError(f"{flag}: expected at most {len(x)} images, found {wanted}; ask for fewer")
    train = rng.permutation(len(data.train_x))[:wanted_train]
    test = rng.permutation(len(data.test_x))[:n_test]
    drawn = (data.train_x[train], data.train_y[train], data.test_x[test], data.test_y[test])
    weights = None if data.train_weights is None else data.train_weights[train]
    return Dataset(*drawn, data.outputs, data.test_set, weights)
