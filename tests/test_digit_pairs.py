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


def images_in(x: np.ndarray) -> np.ndarray:
    """Return the numbers of the left and the right image in pictures of `numbered`, (n, 2)."""
    halves = np.stack([x[..., :3], x[..., 3:]], axis=1)[:, :, 0, 0].astype(int)
    return 256 * halves[..., 0] + halves[..., 1]


@pytest.mark.parametrize("task", OF_DIGITS)
def test_labels_are_those_of_the_images_in_the_picture(numbered, task):
    pairs = pair_digits(numbered, task)
    for part, x, y in zip(
        pairs,
        (numbered.train_x, numbered.train_x, numbered.test_x),
        (numbered.train_y, numbered.train_y, numbered.test_y),
        strict=True,
    ):
        seen = images_in(part.x)
        assert part.x.dtype == np.uint8
        assert part.y.dtype == np.int64
        np.testing.assert_array_equal(seen, part.chosen)
        for picture, label, (left, right) in zip(part.x, part.y, seen, strict=True):
            np.testing.assert_array_equal(picture[..., :3], x[left])
            np.testing.assert_array_equal(picture[..., 3:], x[right])
            assert label == OF_DIGITS[task](int(y[left]), int(y[right]))


def test_no_image_is_both_in_training_and_in_validation(numbered):
    pairs = pair_digits(numbered, "sum", n_validation=90)
    trained, validated = ({*images_in(part.x).ravel().tolist()} for part in pairs[:2])
    assert not trained & validated
    assert len(validated) == 90, "each of an even number of images is used"
    assert len(trained) >= 1201 - 90 - 1


def test_every_image_is_used_about_as_often_as_any_other(numbered):
    train, validation, test = pair_digits(numbered, "sum", n_train=700)
    assert len(train.y) == 700
    assert len(validation.y) == 1201 // 12
    assert len(test.y) == 401
    for part, images in ((train, 1201 - 100), (validation, 100), (test, 401)):
        uses = np.bincount(np.unique(part.chosen, return_inverse=True)[1].ravel())
        assert uses.max() - uses.min() <= 1 if images % 2 == 0 else uses.max() <= 3
        assert len(uses) >= images - 1
        assert (part.chosen[:, 0] != part.chosen[:, 1]).all()


def test_tasks_share_their_pictures_and_only_a_seed_changes_them(numbered):
    found = {task: pair_digits(numbered, task) for task in TASKS}
    first, *others = found.values()
    for other in others:
        for part, same in zip(first, other, strict=True):
            assert part.x.tobytes() == same.x.tobytes()
    again = pair_digits(numbered, "random")
    another = pair_digits(numbered, "random", seed=1)
    for part, same, differs in zip(found["random"], again, another, strict=True):
        assert part.y.tobytes() == same.y.tobytes()
        assert part.x.tobytes() == same.x.tobytes()
        assert (part.y != differs.y).any()
        assert (part.chosen != differs.chosen).any()


def test_random_labels_are_of_all_classes_and_tell_nothing_of_the_digits(numbered):
    random, digits = (pair_digits(numbered, task).train.y for task in ("random", "ten classes"))
    assert (np.bincount(random, minlength=10) > 60).all(), "about 110 each"
    assert 0.05 < np.mean(random == digits) < 0.15


def test_data_sets_say_what_they_are_tested_on(numbered):
    pairs = pair_digits(numbered, "parity")
    for data, part, words in (
        (pairs.to_tune(), pairs.validation, "validation pairs of held-out training images"),
        (pairs.to_score(), pairs.test, "pairs of test images"),
    ):
        assert data.outputs == 10
        assert data.test_set == words
        assert (data.train_x is pairs.train.x, data.train_y is pairs.train.y) == (True, True)
        assert (data.test_x is part.x, data.test_y is part.y) == (True, True)
