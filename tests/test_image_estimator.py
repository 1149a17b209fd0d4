"""The estimator for images: scikit-learn's checks, what it takes and refuses, gates, lesions, continued training."""

import copy
import pickle
import re

import numpy as np
import pytest
from helpers import same_nets
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import highway_image_estimator
from conv_highway_networks import Blocks, Convolution, Dropout, MaxPool
from highway_image_estimator import HighwayImageClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BUNCH = load_digits()
X, Y = (BUNCH.images[:300] * (255 / 16)).astype(np.uint8), BUNCH.target[:300]
SMALL = (Convolution(4), Blocks(2), MaxPool(2, 2), Dropout(0.2), Blocks(1, 1))


def small(**parameters) -> HighwayImageClassifier:
    """Return an estimator that trains in no time."""
    return HighwayImageClassifier(**{"stages": SMALL, "max_iter": 2, "random_state": 0} | parameters)


@pytest.fixture(scope="module")
def fitted() -> HighwayImageClassifier:
    return small(max_iter=4, learning_rate=0.1).fit(X, Y)


class Rows(HighwayImageClassifier):
    """Says that it takes rows (n, d_in), without which scikit-learn checks nothing, on any scale."""

    def _check_scale(self, *_):
        pass

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


WORDS = {"check_fit2d_predict1d": "an error that speaks of images, not of rows and columns"}


@parametrize_with_checks(
    [Rows(stages=[Convolution(8), Blocks(1)], batch_size=300, max_iter=30, learning_rate=0.1)],
    expected_failed_checks=lambda _: WORDS,
)
def test_scikit_learns_checks_of_rows_as_images_of_one_row(monkeypatch, estimator, check):
    images = highway_image_estimator.as_images
    monkeypatch.setattr("highway_image_estimator.as_images", lambda X: images(X[:, None] if X.ndim == 2 else X))
    check(estimator)


# ------------------------------------------------------------------------------------- what it takes, and refuses


def test_classes_of_small_images_are_learnt():
    net = HighwayImageClassifier("digits", random_state=0, max_iter=8)
    names = np.array([f"digit {y}" for y in Y])
    assert net.fit(X[:200], names[:200]).score(X[200:], names[200:]) > 0.8  # chance: 0.1
    assert list(net.classes_) == sorted(set(names))
    np.testing.assert_array_equal(net.predict(X), net.classes_[net.predict_proba(X).argmax(axis=1)])


def test_grey_images_with_and_without_a_channel_are_the_same(fitted):
    assert same_nets(small(max_iter=4, learning_rate=0.1).fit(X[:, None], Y), fitted)
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.predict_proba(X[:, None]))
    colour = np.repeat(X[:, None], 3, axis=1)
    assert small().fit(colour, Y).net_.config["shape"] == [3, 8, 8]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_taken_as_they_are_in_their_precision(fitted, dtype):
    floats = X.astype(dtype) / 256
    np.testing.assert_allclose(fitted.predict_proba(floats), fitted.predict_proba(X), rtol=1e-5)
    assert small().fit(floats, Y).predict_proba(X).dtype == dtype


def test_masks_and_labels_of_8_bits_which_are_all_but_black_are_warned_of():
    with pytest.warns(UserWarning, match="^X: expected 8-bit pixels .*, found 0 to 15; multiply by 17") as warned:
        small(max_iter=1).fit(X // 17, Y)
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("images", "says"),
    [(X.reshape(300, 64), "expected images"), (X[:, :, :, None], "transpose(0, 3, 1, 2)"), (X.astype(float), "divide")],
)
def test_samples_that_are_no_images_are_refused_in_one_line(images, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        small().fit(images, Y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (X[..., None], "transpose(0, 3, 1, 2)"),
        (X[:, :4], "X has 32 features, but HighwayImageClassifier is expecting 64"),
        (X.reshape(300, 4, 16), "(1, 8, 8), as in fit"),
        (X.astype(float), "up to about 1, as in fit, found 255"),
    ],
)
def test_other_images_than_in_fit_are_refused(fitted, images, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        fitted.predict(images)


@pytest.mark.parametrize(
    ("name", "value"),
    [("net", "mnist-17"), ("contrast", 2), ("dropout", 1.5), ("stages", ["Pool"]), ("stages", []), ("schedule", "x")],
)
def test_a_wrong_parameter_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        small(**{name: value}).fit(X, Y)


def test_a_parameter_is_that_of_the_recipe_unless_given():
    recipe = HighwayImageClassifier("highway-b", max_iter=1, stages=SMALL, random_state=0).fit(X[:50], Y[:50])
    given = clone(recipe).set_params(contrast=False, gate_bias=-1.5).fit(X[:50], Y[:50])
    assert [net.net_.config["contrast"] for net in (recipe, given)] == [True, False]
    assert [net.net_.config["gate_bias"] for net in (recipe, given)] == [-2.0, -1.5]


def test_grids_and_pipelines_take_images():
    pipeline = make_pipeline(FunctionTransformer(lambda images: images[:, ::2, ::2]), small(max_iter=1))
    grid = {"highwayimageclassifier__stages": [[Convolution(2), Blocks(1)], SMALL]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert search.best_estimator_[-1].net_.config["shape"] == [1, 4, 4]
    assert search.predict(X).shape == (300,)


# ------------------------------------------------------------------------------------------ gates and lesions


def test_gates_are_those_of_a_forward_pass(fitted):
    maps = fitted.transform_gates(X)
    assert [T.shape for T in maps] == [(300, 4, 8, 8), (300, 4, 8, 8), (300, 4, 4, 4)]
    _, workspace = fitted.net_.forward(fitted.net_.preprocess(X[:, None]))
    for T, expected in zip(maps, workspace.T, strict=True):
        np.testing.assert_allclose(T.transpose(1, 2, 3, 0), expected, rtol=1e-5)
    np.testing.assert_allclose(fitted.gate_means(X), [T.mean() for T in maps], rtol=1e-5)
    np.testing.assert_allclose(fitted.effective_depth(X), sum(T.mean(axis=(1, 2, 3)) for T in maps), rtol=1e-5)
    assert not hasattr(small(block="plain"), "transform_gates")


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_lesion_closes_the_gates_of_a_block(batch_norm):
    net = small(batch_norm=batch_norm).fit(X, Y)
    closed = copy.deepcopy(net)
    closed.net_.params["3.W_T"][...], closed.net_.params["3.b_T"][...] = 0, -1e30
    lesioned = net.lesion(2)
    np.testing.assert_array_equal(lesioned.predict_proba(X), closed.predict_proba(X))
    assert lesioned.net_.depth == 2
    scores = net.lesion_scores(X, Y)
    assert scores.shape == (3,)
    assert scores[1] == closed.score(X, Y)
    assert lesioned.fit(X, Y).net_.depth == 2
    with pytest.raises(ValueError, match="layers: expected whole numbers from 1 to 3, found 4"):
        net.lesion(4)


def test_a_loaded_estimator_is_as_the_saved_one(fitted, tmp_path):
    for net in (fitted, small(batch_norm=True, class_weight={0: 2.0, 1: 1.0}).fit(X, Y)):
        net.save(tmp_path / "net.npz")
        loaded = HighwayImageClassifier.load(tmp_path / "net.npz")
        assert loaded.get_params() == net.get_params() | {"stages": list(net.stages)}
        np.testing.assert_array_equal(loaded.predict_proba(X), net.predict_proba(X))
        more = [copy.deepcopy(of).partial_fit(X, Y).net_.params.flat for of in (net, loaded)]
        np.testing.assert_array_equal(*more)


# ----------------------------------------------------------------------------------- stopping and continuing


@pytest.mark.parametrize("way", ["partial_fit", "warm start"])
def test_continued_training_is_as_if_it_had_not_stopped(way):
    """Dropout's generator, running statistics and the mean image go on, too."""
    usual = {"max_iter": 4, "schedule": "constant", "batch_norm": True, "contrast": True, "dropout": 1.0, "tol": 0.0}
    whole, parts = small(**usual).fit(X, Y), small(**usual | {"max_iter": 2, "warm_start": way == "warm start"})
    for _ in range(2 if way == "warm start" else 4):
        parts = pickle.loads(pickle.dumps(parts))
        parts = parts.fit(X, Y) if way == "warm start" else parts.partial_fit(X, Y, classes=range(10))
    assert same_nets(whole, parts)
    assert parts.loss_curve_ == whole.loss_curve_


def test_the_net_of_the_best_epoch_stays_with_its_running_statistics(monkeypatch):
    scores = iter([0.5, 0.9, 0.7])
    monkeypatch.setattr(HighwayImageClassifier, "_validate", lambda *_: next(scores))
    usual = {"batch_norm": True, "early_stopping": True, "schedule": "constant"}
    stopped = small(**usual, max_iter=3).fit(X, Y)
    scores = iter([0.5, 0.9])
    assert same_nets(stopped, small(**usual, max_iter=2).fit(X, Y))
