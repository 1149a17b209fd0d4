"""Pairs of digits: no image on both sides of a split, labels of the images' own labels, the same bits every time."""

import numpy as np
import pytest

from experiments.digit_pairs import TASKS, pair_digits
from highway_networks import Dataset

OF_DIGITS = {
    "two classes": lambda left, right: int(left in (5, 6, 7, 8, 9)),
    "parity": lambda left, right: int(left in (1, 3, 5, 7, 9)),
    "ten classes": lambda left, right: left,
    "sum": lambda left, right: int(str(left + right)[-1]),
}


@pytest.fixture(scope="module")
def numbered() -> Dataset:
    """Images of 2 x 3 pixels whose first two pixels say which image it is; odd numbers of images, random labels."""
    rng = np.random.default_rng(7)

    def half(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(256, size=(n, 1, 2, 3), dtype=np.uint8)
        x[:, 0, 0, 0], x[:, 0, 0, 1] = np.divmod(np.arange(n), 256)
        return x, rng.integers(10, size=n, dtype=np.uint8)

    return Dataset(*half(1201), *half(401), outputs=10)


def parts_of(data: Dataset, task: str, **sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the pairs, (n, 1, 2, 6), and labels of training, validation and test."""
    choosing, result = (pair_digits(data, task, of, **sizes) for of in (False, True))
    assert ["validation" in of.test_set for of in (choosing, result)] == [True, False]
    return [(of[2 * half], of[2 * half + 1]) for of, half in ((choosing, 0), (choosing, 1), (result, 1))]


def images_in(x: np.ndarray) -> np.ndarray:
    """Return the numbers of the left and the right image in pictures of `numbered`, (n, 2)."""
    halves = np.stack([x[..., :3], x[..., 3:]], axis=1)[:, :, 0, 0].astype(int)
    return 256 * halves[..., 0] + halves[..., 1]


@pytest.mark.parametrize("task", OF_DIGITS)
def test_labels_are_those_of_the_images_in_the_picture(numbered, task):
    train = (numbered.train_x, numbered.train_y)
    test = (numbered.test_x, numbered.test_y)
    for (pairs, labels), (x, y) in zip(parts_of(numbered, task), (train, train, test), strict=True):
        assert (pairs.dtype, labels.dtype) == (np.uint8, np.int64)
        left, right = images_in(pairs).T
        np.testing.assert_array_equal(pairs, np.concatenate([x[left], x[right]], axis=-1))
        assert labels.tolist() == [OF_DIGITS[task](*of) for of in zip(y[left].tolist(), y[right].tolist(), strict=True)]


def test_no_image_is_both_in_training_and_in_validation_and_each_is_used_about_as_often_as_any_other(numbered):
    parts = parts_of(numbered, "sum", n_train=700, n_validation=90)
    assert [len(labels) for _, labels in parts] == [700, 90, 401]
    trained, validated, _ = ({*images_in(pairs).ravel().tolist()} for pairs, _ in parts)
    assert not trained & validated
    for (pairs, _), images in zip(parts, (1201 - 90, 90, 401), strict=True):
        chosen = images_in(pairs)
        uses = np.bincount(np.unique(chosen, return_inverse=True)[1].ravel())
        assert uses.max() - uses.min() <= 1 if images % 2 == 0 else uses.max() <= 3
        assert len(uses) >= images - 1
        assert (chosen[:, 0] != chosen[:, 1]).all()
    assert len(pair_digits(numbered, "sum", result=False).test_y) == 1201 // 12, "of a small data set"


def test_tasks_share_their_pictures_and_only_a_seed_changes_them(numbered):
    first, *others = (parts_of(numbered, task) for task in TASKS)
    for other in others:
        assert [pairs.tobytes() for pairs, _ in other] == [pairs.tobytes() for pairs, _ in first]
    _, labels = others[-1][0]
    assert (np.bincount(labels, minlength=10) > 60).all(), "random ones, about 110 each"
    assert 0.05 < np.mean(labels == others[1][0][1]) < 0.15, "which tell nothing of the digits"
    found, again, another = (parts_of(numbered, "random", seed=seed) for seed in (0, 0, 1))
    for (pairs, labels), (_, same), (other, differing) in zip(found, again, another, strict=True):
        assert labels.tobytes() == same.tobytes()
        assert (labels != differing).any()
        assert (images_in(pairs) != images_in(other)).any()
