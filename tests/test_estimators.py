"""Highway nets as estimators: scikit-learn's own checks, continued training, gates, lesions, bad input."""

import copy
import datetime
import json
import math
import pickle
import re
import threading
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from helpers import COUNTED, Intruder, contents, refuse_net, same_nets
from scipy.sparse import csc_array, csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification, make_regression
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import balanced_accuracy_score, mean_pinball_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import highway_networks
from highway_estimators import HighwayClassifier, HighwayRegressor, depth_for, epochs_without_gain, gate_bias_for
from highway_lab.cli import check_names
from highway_lab.threads import blas_pools
from highway_networks import (
    ACTIVATIONS,
    ADD_NAME,
    BLOCKS,
    INITS,
    LOSSES,
    OPTIMIZERS,
    Block,
    Momentum,
    softmax_cross_entropy,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_iris(return_X_y=True)
NUMBERS_X, NUMBERS_Y = make_regression(80, 4, n_targets=2, random_state=0)
NUMBERS_Y /= NUMBERS_Y.std()
LABELS_X, LABELS = make_multilabel_classification(200, 12, n_classes=4, random_state=0)  # LABELS (200, 4), 0 or 1
LABELS_X = StandardScaler().fit_transform(LABELS_X)
SMALL = {"depth": 4, "hidden": 6, "max_iter": 5, "batch_size": 32, "random_state": 0}


def small(**parameters) -> HighwayClassifier:
    """Return a classifier that trains in no time."""
    return HighwayClassifier(**SMALL | parameters)


@parametrize_with_checks([kind(depth=2, hidden=20, max_iter=120) for kind in (HighwayClassifier, HighwayRegressor)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# ----------------------------------------------------------------------------------------- what it learns


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_learns_classes(block):
    net = HighwayClassifier(depth=3, hidden=20, block=block, weight_decay=0.003, random_state=0)
    assert make_pipeline(StandardScaler(), net).fit(X[::2], Y[::2]).score(X[1::2], Y[1::2]) > 0.85  # chance: 1/3


@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 5e-3), ("momentum", 5e-2)])
def test_numbers_are_learnt_one_or_several(optimizer, rate):
    x, y = StandardScaler().fit_transform(NUMBERS_X), NUMBERS_Y
    net = HighwayRegressor(depth=2, hidden=20, max_iter=60, optimizer=optimizer, learning_rate=rate, random_state=0)
    for targets in (y, y[:, 0], y[:, :1]):
        assert net.fit(x, targets).score(x, targets) > 0.5
        assert net.predict(x).shape == targets.shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_computes_in_the_precision_of_its_inputs(dtype):
    net = small().fit(X.astype(dtype), Y)
    assert net.net_.dtype == net.predict_proba(X.astype(dtype)).dtype == dtype
    np.testing.assert_allclose(net.predict_proba(X), net.predict_proba(X.astype(dtype)), atol=1e-6)
    numbers = HighwayRegressor(**SMALL).fit(NUMBERS_X.astype(dtype), NUMBERS_Y)
    assert numbers.predict(NUMBERS_X.astype(dtype)).dtype == dtype
    other = np.float64 if dtype == np.float32 else np.float32
    again = net.set_params(warm_start=True).fit(X.astype(other), Y)
    assert again.net_.dtype == again.predict_proba(X.astype(other)).dtype == dtype, "as it began"


@pytest.mark.parametrize(
    ("dtype", "factor"), [(np.float64, 1e3), (np.float64, 1e308), (np.float32, 1e300), (np.float32, 1e-300)]
)
def test_only_the_ratios_of_weights_matter(dtype, factor):
    weights = np.linspace(0.1, 1, 150)
    net = small(weight_decay=0.003)
    first, second = (clone(net).fit(X.astype(dtype), Y, sample_weight=of * weights) for of in (1, factor))
    np.testing.assert_allclose(first.loss_curve_, second.loss_curve_, rtol=1e-5)
    assert same_nets(clone(net).fit(X, Y, sample_weight=2.0), net.fit(X, Y))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_samples_of_no_weight_are_none(class_weight):
    weights = np.where(np.arange(150) % 3 >= Y, 1.0, 0.0)  # of the last class, a third
    net = small(early_stopping=True, class_weight=class_weight).fit(X, Y, sample_weight=weights)
    assert same_nets(net, clone(net).fit(X[weights > 0], Y[weights > 0]))
    assert (net.n_train_, net.n_validation_) == (90, 10)
    many = np.tile(X, (8, 1)), np.tile(Y, 8)  # of which each net sees ten: too few to validate on
    BaggingClassifier(small(), max_samples=10, n_estimators=3, random_state=0).fit(*many)


def test_validation_scores_are_weighted():
    weights = np.arange(1.0, 151)
    net = small(early_stopping=True).fit(X, Y, sample_weight=weights)
    assert net._validate(net.net_.predict(X), Y, weights) == net.score(X, Y, sample_weight=weights) != net.score(X, Y)


@pytest.mark.parametrize("kind", [csr_array, csc_array])
def test_sparse_samples_are_as_their_array(kind):
    x = np.where(np.tile(X, (4, 1)) > 1, np.tile(X, (4, 1)), 0)  # more than go through the net together
    dense, sparse = (small(early_stopping=True).fit(samples, np.tile(Y, 4)) for samples in (x, kind(x)))
    assert same_nets(dense, sparse)
    for look in ("predict_proba", "transform_gates", "effective_depth"):
        np.testing.assert_array_equal(getattr(sparse, look)(kind(x)), getattr(dense, look)(x))
    sparse.set_params(early_stopping=False).partial_fit(kind(x[:50]), Y[:50], sample_weight=2.0)


def test_class_weights_are_factors_on_the_weights_of_samples():
    names, given = np.array(["a", "b", "c"])[Y], np.linspace(0.5, 1.5, 150)
    weights = {"a": 1.0, "b": 0.5, "c": 4.0}
    usual = small().fit(X, names, sample_weight=given * [weights[name] for name in names])
    assert same_nets(small(class_weight=weights).fit(X, names, sample_weight=given), usual)
    assert not same_nets(small().fit(X, names, sample_weight=given), usual)
    with pytest.raises(ValueError, match="Negative values"):
        small(class_weight={"a": -1.0}).fit(X, names)


def test_balanced_classes_count_alike():
    rare = np.random.default_rng(0).standard_normal((300, 2)) + np.repeat([[0, 0], [1.2, 1.2]], [280, 20], axis=0)
    y = np.repeat([0, 1], [280, 20])
    usual, balanced = (small(max_iter=30, class_weight=weight).fit(rare, y) for weight in (None, "balanced"))
    scores = [balanced_accuracy_score(y, net.predict(rare)) for net in (usual, balanced)]
    assert scores[1] > scores[0] + 0.1
    with pytest.raises(ValueError, match="class_weight: expected a dict for partial_fit"):
        balanced.partial_fit(rare, y)


def test_several_labels_a_sample_are_learnt():
    net = HighwayClassifier(depth=3, learning_rate=2e-3, weight_decay=0.003, random_state=0, max_iter=60)
    net.fit(LABELS_X[:150], LABELS[:150])
    found, probabilities = net.predict(LABELS_X[150:]), net.predict_proba(LABELS_X[150:])
    assert (found == LABELS[150:]).mean() > 0.75 > np.maximum(LABELS.mean(axis=0), 1 - LABELS.mean(axis=0)).mean() + 0.1
    np.testing.assert_array_equal(found, probabilities > 0.5)
    np.testing.assert_allclose(np.exp(net.predict_log_proba(LABELS_X[150:])), probabilities)
    assert net.score(LABELS_X[150:], LABELS[150:]) == (found == LABELS[150:]).all(axis=1).mean()
    assert list(net.classes_) == [0, 1, 2, 3]


def test_labels_may_be_sparse_weighted_validated_and_in_parts():
    usual = small(early_stopping=True, class_weight="balanced").fit(LABELS_X, LABELS)
    assert same_nets(usual, clone(usual).fit(LABELS_X, csr_array(LABELS)))
    assert not same_nets(usual, small(early_stopping=True).fit(LABELS_X, LABELS))
    parts = small().partial_fit(LABELS_X[:50], LABELS[:50], classes=range(4)).partial_fit(LABELS_X, LABELS)
    assert parts.predict(LABELS_X).shape == (200, 4)


@pytest.mark.parametrize("labels", [2 * LABELS, 2 * LABELS - 1], ids=["0 and 2", "-1 and 1"])
def test_labels_other_than_0_and_1_are_refused(labels):
    with pytest.raises(ValueError, match="y: expected labels of 0 and 1, found "):
        small().fit(LABELS_X, labels)


@COUNTED
@pytest.mark.parametrize("method", ["predict", "transform_gates", "effective_depth"])
def test_small_products_of_a_fitted_net_have_one_blas_thread(monkeypatch, method):
    net, threads, forward = small().fit(X, Y), [], highway_networks.affine_forward

    def watched(*arguments):
        threads.extend(pool["num_threads"] for pool in blas_pools().info())
        forward(*arguments)

    monkeypatch.setattr(highway_networks, "affine_forward", watched)
    with blas_pools().limit(limits=2):
        getattr(net, method)(X)
    assert set(threads) == {1}


@pytest.mark.parametrize("fitted", [(LABELS_X, LABELS), (X, Y)], ids=["labels", "classes"])
@pytest.mark.parametrize("y", [LABELS[:, :3], np.stack([Y, Y], axis=1), Y / 4], ids=["3", "2 classes", "numbers"])
def test_targets_of_another_kind_are_refused(fitted, y):
    net = small(warm_start=True).fit(*fitted)
    with pytest.raises(ValueError, match=r"y: expected|Unknown label type"):
        net.fit(fitted[0][: len(y)], y[: len(fitted[0])])


# ------------------------------------------------------------------------------ stopping and continuing


@pytest.mark.parametrize("quantile", [0.2, 0.9])
def test_a_quantile_lies_above_its_share_of_the_targets(quantile):
    numbers = np.random.default_rng(0).exponential(size=(600, 2))
    net = HighwayRegressor(depth=1, hidden=5, loss="quantile", quantile=quantile, random_state=0)
    net.fit(np.ones((600, 1)), numbers)
    np.testing.assert_allclose(np.mean(numbers < net.predict([[1.0]]), axis=0), quantile, atol=0.03)
    assert pickle.loads(pickle.dumps(net)).score([[1.0]] * 600, numbers) < 0, "R², whatever the loss"
    check_names()  # as the next command in this process does


def test_huber_goes_by_the_many_where_some_targets_are_far_off():
    numbers = np.where(np.arange(300) % 10, 0.0, 500.0)
    net = HighwayRegressor(depth=1, hidden=5, loss="huber", random_state=0).fit(np.ones((300, 1)), numbers)
    assert net.predict([[1.0]]) == pytest.approx(1 / 9, abs=0.05)


def test_early_stopping_goes_by_the_loss_that_is_minimised():
    weights = 1.0 + np.arange(len(NUMBERS_Y)) % 2
    net = HighwayRegressor(**SMALL, loss="quantile", quantile=0.9, early_stopping=True, validation_shuffle=False)
    net.fit(NUMBERS_X, NUMBERS_Y, weights)
    last = slice(-net.n_validation_, None)
    loss = mean_pinball_loss(NUMBERS_Y[last], net.predict(NUMBERS_X[last]), sample_weight=weights[last], alpha=0.9)
    assert -net.best_validation_score_ == pytest.approx(loss)


def test_training_ends_without_gain(recwarn):
    assert epochs_without_gain([1.0, 2.0, 1.0, 1.9, 2.05], 0.1) == 3  # since the last gain over the best
    done = small(max_iter=50, tol=10.0, n_iter_no_change=3).fit(X, Y)
    assert done.n_iter_ == len(done.loss_curve_) == 1 + 4  # the first is always a gain
    assert not recwarn
    assert done.best_validation_score_ is None


@pytest.mark.parametrize(
    ("kind", "parameters", "x", "y", "remedy"),
    [
        (HighwayClassifier, {}, X, Y, "standardise X, allow more, or raise tol"),
        (HighwayClassifier, {}, StandardScaler().fit_transform(X), Y, "allow more, or raise tol"),
        (HighwayRegressor, {}, NUMBERS_X, NUMBERS_Y, "allow more, or raise tol"),
        (HighwayRegressor, {}, 9 * NUMBERS_X, 9 * NUMBERS_Y, "standardise X and y, allow more, or raise tol"),
        (HighwayClassifier, {"tol": 0.5, "max_iter": 20}, X, Y, None),
    ],
)
def test_a_warning_says_what_would_help_and_comes_only_if_more_epochs_would(kind, parameters, x, y, remedy):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kind(**SMALL | parameters).fit(x, y)
    said = (f"max_iter=5 epochs were not enough to converge; {remedy}", __file__)
    assert [(str(warning.message), warning.filename) for warning in found] == [said] * bool(remedy)


def test_the_net_of_the_best_epoch_stays(monkeypatch):
    scores = iter([0.5, 0.9, 0.7, 0.8, 0.1, 0.2])
    monkeypatch.setattr(HighwayClassifier, "_validate", lambda *_: next(scores))
    monkeypatch.setattr(HighwayClassifier, "_decide", lambda net, outputs: outputs)  # no two samples alike
    stopped = small(early_stopping=True, n_iter_no_change=3, max_iter=50).fit(X, Y)
    assert stopped.validation_scores_ == [0.5, 0.9, 0.7, 0.8, 0.1, 0.2]
    scores = iter([0.5, 0.9])
    assert stopped.best_validation_score_ == 0.9
    assert same_nets(stopped, small(early_stopping=True, max_iter=2).fit(X, Y))


def test_early_stopping_waits_while_a_classifier_guesses():
    """Without a difference between samples, no epoch counts; with one, patience ends the training."""
    net = small(early_stopping=True, n_iter_no_change=1, max_iter=9, tol=1.0, learning_rate=0.05)
    with pytest.warns(ConvergenceWarning):
        assert net.fit(np.zeros_like(X), Y).n_iter_ == 9
    assert net.fit(X - X.mean(axis=0), Y).n_iter_ == 3


@pytest.mark.parametrize("early_stopping", [False, True])
def test_training_ends_where_nothing_is_left_to_learn(early_stopping, recwarn):
    net = small(early_stopping=early_stopping, max_iter=9)
    assert net.fit(X, np.zeros(150)).n_iter_ == 1, "a fold with one class"
    assert not recwarn


def test_a_class_too_rare_to_be_validated_does_not_keep_a_training_going():
    net = small(early_stopping=True, n_iter_no_change=3, max_iter=50).fit(X, np.arange(150) == 0)
    assert net.n_iter_ == 1 + net.validation_scores_.index(1.0) + 4


def test_scores_go_on_and_the_best_of_all_fits_stays(monkeypatch):
    scores = iter([0.5, 0.9, 0.7, 0.8, 0.6, 0.9, 0.5])
    monkeypatch.setattr(HighwayClassifier, "_validate", lambda *_: next(scores))
    net = small(early_stopping=True, warm_start=True, max_iter=2).fit(X, Y)
    best = copy.deepcopy(net)
    assert same_nets(net.set_params(max_iter=3).fit(X, Y), best)
    assert not same_nets(net.set_params(max_iter=2).fit(X, Y), best)
    assert net.validation_scores_ == [0.5, 0.9, 0.7, 0.8, 0.6, 0.9, 0.5]


@pytest.mark.parametrize("kind", [HighwayRegressor, HighwayClassifier])
def test_a_tenth_is_validated_on_unless_samples_are_few_or_come_in_parts(kind):
    x, y = np.tile(X, (7, 1)), np.tile(Y, 7)
    for n, validated in ((990, False), (991, True)):
        net = kind(**SMALL).fit(x[:n], y[:n])
        assert (net.validation_scores_ is not None) == validated
        assert same_nets(net, kind(**SMALL, early_stopping=validated).fit(x[:n], y[:n]))
        assert net.partial_fit(X, Y).validation_scores_ is None


def test_validation_samples_are_of_every_class_and_not_trained_on(monkeypatch):
    seen = []

    def validate(self, outputs, y, weights):
        seen.append((outputs, y, weights))
        return 0.0

    monkeypatch.setattr(HighwayClassifier, "_validate", validate)
    net = small(early_stopping=True, validation_fraction=0.2).fit(X, Y, sample_weight=np.arange(1.0, 151))
    outputs, y, weights = seen[-1]
    assert list(np.bincount(y)) == [10, 10, 10]
    np.testing.assert_array_equal(outputs, net.net_.predict(X[weights.astype(int) - 1]))
    assert net.n_iter_ == len(seen)


def test_rows_in_time_order_are_validated_on_the_last(monkeypatch, capsys):
    held = []
    monkeypatch.setattr(HighwayClassifier, "_validate", lambda self, outputs, y, weights: held.append(weights) or 0.0)
    net = small(early_stopping=True, validation_shuffle=False, verbose=True).fit(X, Y, sample_weight=np.arange(1, 151))
    np.testing.assert_array_equal(held[-1], np.arange(136, 151))
    assert (net.n_train_, net.n_validation_) == (135, 15)
    assert "training on 135 samples, validating on 15\n" in capsys.readouterr().out


@pytest.mark.parametrize(("n", "depth"), [(1, 1), (999, 1), (1000, 2), (9999, 2), (10_000, 3), (60_000, 3)])
def test_the_depth_follows_the_number_of_samples(n, depth):
    assert depth_for(n) == depth


def test_weights_decay_the_more_the_fewer_samples_there_are_but_not_in_deep_nets():
    for depth, weight, decay in [(5, 1, 3 / 150), (5, 2, 3 / 300), (5, 1e-3, 3 / 150), (5, 7, 0.003), (6, 1, 0.0)]:
        both = (small(depth=depth, weight_decay=of) for of in ("auto", decay))
        assert same_nets(*(net.fit(X, Y, sample_weight=weight) for net in both))
    parts = (small(weight_decay=of).partial_fit(X[::9], Y[::9], classes=[0, 1, 2]) for of in ("auto", 0.003))
    assert same_nets(*parts), "a part does not tell how many there are"


def test_training_continues_at_the_depth_that_the_first_samples_gave():
    net = small(depth="auto", warm_start=True).fit(np.tile(X, (8, 1)), np.tile(Y, 8))
    assert net.net_.depth == net.fit(X, Y).net_.depth == net.partial_fit(X, Y).net_.depth == 2
    assert net.set_params(warm_start=False).fit(X, Y).net_.depth == 1


def saved_and_loaded(net, path):
    """Return the estimator that a file of this one gives back."""
    net.save(path)
    return type(net).load(path)


@pytest.mark.parametrize("way", ["partial_fit", "pickled partial_fit", "saved partial_fit", "warm start"])
def test_continued_training_is_as_if_it_had_not_stopped(way, tmp_path):
    usual = {"tol": 0, "weight_decay": 0.003}
    whole, parts = small(max_iter=6, **usual).fit(X, Y), small(max_iter=2, **usual, warm_start=way == "warm start")
    for _ in range(3 if way == "warm start" else 6):
        parts = pickle.loads(pickle.dumps(parts)) if way.startswith("pickled") else parts
        if way == "saved partial_fit" and hasattr(parts, "net_"):
            parts = saved_and_loaded(parts, tmp_path / "net")
        parts = parts.fit(X, Y) if way == "warm start" else parts.partial_fit(X, Y, classes=[2, 1, 0])
    assert same_nets(whole, parts)
    assert parts.loss_curve_ == whole.loss_curve_
    assert (parts.n_iter_, parts.validation_scores_) == (6, None)


def test_another_rate_or_update_rule_counts_when_training_continues():
    net = small(warm_start=True).fit(X, Y)
    usual = copy.deepcopy(net).fit(X, Y)
    for name, value in (("learning_rate", 1e-5), ("optimizer", "momentum"), ("clip", 1e-3)):
        assert not same_nets(copy.deepcopy(net).set_params(**{name: value}).fit(X, Y), usual)
    still = copy.deepcopy(net).set_params(learning_rate=1e-30).fit(X, Y)
    np.testing.assert_allclose(still.net_.params.flat, net.net_.params.flat, rtol=1e-12)


# ------------------------------------------------------------------------------------ gates and lesions


def test_gates_are_those_of_a_forward_pass():
    net = small().fit(X, Y)
    _, cache = net.net_.forward(X)
    T = net.transform_gates(X)
    np.testing.assert_allclose(T, cache.T.transpose(2, 0, 1))  # (n, L, D)
    np.testing.assert_allclose(net.effective_depth(X), T.mean(axis=2).sum(axis=1))
    np.testing.assert_allclose(net.gate_means(X), T.mean(axis=(0, 2)))
    many = np.tile(X, (5, 1))  # more than are looked at together
    np.testing.assert_allclose(net.transform_gates(many)[-150:], T)
    np.testing.assert_allclose(net.effective_depth(many)[:150], net.effective_depth(X))


@pytest.mark.parametrize("layers", [1, [2, 4], [], range(1, 5)])
def test_a_lesion_is_a_copy_whose_gates_there_are_closed(layers, tmp_path):
    net = small(gate_bias=0.0).fit(X, Y)
    closed = copy.deepcopy(net.net_)
    blocks = np.array(layers, int) - 1
    closed.params["W_T"][blocks], closed.params["b_T"][blocks] = 0, -1e6  # σ of that is 0
    before = net.net_.params.flat.copy()
    lesioned = net.lesion(layers)
    np.testing.assert_array_equal(lesioned.net_.predict(X), closed.predict(X))
    np.testing.assert_array_equal(net.net_.params.flat, before)
    assert lesioned.depth == lesioned.net_.depth == 4 - np.size(layers)
    assert lesioned.transform_gates(X).shape == (150, lesioned.depth, 6)
    assert same_nets(saved_and_loaded(lesioned, tmp_path / "net"), lesioned)
    assert lesioned.partial_fit(X, Y).n_iter_ == 6
    assert list(net.lesion_scores(X, Y)) == [net.lesion(layer).score(X, Y) for layer in (1, 2, 3, 4)]


def test_blocks_that_depend_on_the_depth_cannot_be_taken_out(monkeypatch):
    net = small().fit(X, Y)
    monkeypatch.setattr(Block, "for_depth", lambda block, depth: block._replace())  # another
    with pytest.raises(ValueError, match="blocks that do not depend on the depth, found highway"):
        net.lesion(1)


def test_only_blocks_with_gates_have_methods_for_them():
    for block, kind in BLOCKS.items():
        net = small(block=block).fit(X, Y)
        for look in ("transform_gates", "effective_depth", "gate_means"):
            assert hasattr(net, look) == ("T" in kind.branches)
        assert hasattr(net.set_params(block="plain"), "effective_depth") == ("T" in kind.branches)  # as it was fitted
    with pytest.raises(AttributeError, match="transform_gates"):
        _ = small(block="plain").transform_gates


@pytest.mark.parametrize(("depth", "bias"), [(0, -1), (1, -1), (5, -1), (10, -1.609), (30, -2.708), (1000, -6.215)])
def test_the_gate_bias_follows_depth(depth, bias):
    assert gate_bias_for(depth) == pytest.approx(bias, abs=1e-3)
    if depth > 5:
        assert depth * math.exp(gate_bias_for(depth)) == pytest.approx(2)
    assert small(depth=depth, max_iter=1).fit(X, Y).net_.config["gate_bias"] == gate_bias_for(depth)


# --------------------------------------------------------------------------------- among scikit-learn's


OTHER_VALUES = {
    **{"depth": 5, "hidden": 7, "block": "plain", "activation": "tanh", "gate_bias": -3.0, "optimizer": "momentum"},
    **{"learning_rate": 1e-2, "batch_size": 31, "weight_decay": 0.1, "clip": 0.1, "max_iter": 4, "random_state": 1},
    **{"tol": 10.0, "early_stopping": True},
}


@pytest.mark.parametrize(("name", "value"), OTHER_VALUES.items())
def test_every_parameter_decides_something(name, value):
    usual = {"max_iter": 20, "n_iter_no_change": 2} if name == "tol" else {}
    assert not same_nets(small(**usual | {name: value}).fit(X, Y), small(**usual).fit(X, Y))


# ---------------------------------------------------------------------------------- saving and loading


FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
NAMED = pd.Series(np.array(["x", "y", "z"], object)[Y])
TO_SAVE = {
    "texts": (small(class_weight={"x": 1, "y": 2.5, "z": 1}, depth=np.int64(3)), FRAME, NAMED),
    "booleans": (small(early_stopping=True), X, Y == 1),
    "numbers": (
        small(class_weight={np.int64(0): 2, 1: 1, 2: 3}, random_state=np.int32(1)),
        X.astype(np.float32),
        Y.astype(float),
    ),
    "labels": (small(optimizer="momentum", class_weight=[{0: 1, 1: 2}] * 4), LABELS_X, LABELS),
    "targets": (HighwayRegressor(**SMALL), NUMBERS_X, NUMBERS_Y),
    "one target": (HighwayRegressor(**SMALL), NUMBERS_X, NUMBERS_Y[:, 0]),
}


@pytest.mark.parametrize(("net", "x", "y"), TO_SAVE.values(), ids=TO_SAVE)
def test_a_loaded_estimator_is_as_the_saved_one(net, x, y, tmp_path):
    net = clone(net).fit(x, y)
    loaded = saved_and_loaded(net, tmp_path / "net.npz")
    assert same_nets(net, loaded)
    assert loaded.get_params() == net.get_params()
    kept, known = ({**vars(of), "net_": 0, "_rng": 0, "_moments": 0} for of in (net, loaded))
    for name in kept.keys() | known.keys():
        np.testing.assert_array_equal(known[name], kept[name], strict=isinstance(kept[name], np.ndarray))
    np.testing.assert_array_equal(loaded.predict(x), net.predict(x), strict=True)


OWN = {
    "block": (BLOCKS, BLOCKS["highway"]._replace(forward=lambda *given: BLOCKS["highway"].forward(*given))),
    "activation": (ACTIVATIONS, ACTIVATIONS["tanh"]),
    "init": (INITS, lambda generator, shape: generator.normal(0, 0.1, shape)),
    "optimizer": (OPTIMIZERS, lambda params, config: Momentum(params, config.lr, 0.5, 0.0, False)),
    "_loss": (LOSSES, LOSSES["cross-entropy"]._replace(function=lambda *given: softmax_cross_entropy(*given))),
}


@pytest.mark.parametrize("parameter", OWN)
def test_a_process_that_lacks_what_a_user_added_gets_it_with_the_estimator(parameter, monkeypatch):
    table, entry = OWN[parameter]
    monkeypatch.setitem(table, "mine", entry)
    if parameter == "_loss":
        monkeypatch.setattr(HighwayClassifier, "_loss", "mine")
    parameters = {} if parameter == "_loss" else {parameter: "mine"}
    text = pickle.dumps((small(**parameters), small(**parameters).fit(X, Y)))
    monkeypatch.delitem(table, "mine")
    with pytest.raises(ValueError, match=re.escape(ADD_NAME)):
        small(**parameters).fit(X, Y)
    new, fitted = pickle.loads(text)
    assert same_nets(new.fit(X, Y), fitted)


def test_what_cannot_travel_stops_only_the_estimators_that_name_it(monkeypatch):
    monkeypatch.setitem(INITS, "mine", threading.Lock())
    fitted = small().fit(X, Y)
    assert same_nets(pickle.loads(pickle.dumps(fitted)), fitted)
    with pytest.raises(TypeError):
        pickle.dumps(small(init="mine"))


def test_a_generator_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="random_state: expected an integer or None, found a generator"):
        small(random_state=np.random.RandomState(0)).fit(X, Y).save(tmp_path / "net")
    assert not [*tmp_path.iterdir()]


def test_files_that_are_no_saved_estimator_are_refused(tmp_path):
    path, net = tmp_path / "net.npz", small().fit(X, Y)

    def spoilt(**changed):
        """Write the estimator's file with other arrays and, below `state`, other values."""
        net.save(path)
        arrays = contents(path)
        state = json.loads(str(arrays["estimator"])) | changed.pop("state", {})
        arrays |= {"estimator": np.array(json.dumps(state))} | changed
        np.savez(path, **arrays)

    net.net_.save(path)
    refuse_net(HighwayClassifier, path, "found: no estimator")
    net.save(path)
    refuse_net(HighwayRegressor, path, "one saved by HighwayClassifier")
    for parameters, found in (({"depth": -1}, "depth: expected"), ({"width": 4}, "width")):
        spoilt(state={"parameters": parameters})
        refuse_net(HighwayClassifier, path, found)
    targets = {"classes": [0, 1], "dtype": "<i8", "multilabel": False, "class_weight": None}
    for state in ({"rest": targets}, {"rest": {}}, {"rng": {}}, {"loss_curve": "low"}):
        spoilt(state=state)
        refuse_net(HighwayClassifier, path, "expected a net saved by HighwayClassifier.save")
    spoilt(**{"optimizer.m": np.zeros(3)})
    refuse_net(HighwayClassifier, path, "tensor m", "(3,)")
    for wrong in ({"classes": [2, 1, 0]}, {"classes": [0, 1, 1]}, {"dtype": "<U1"}, {"class_weight": [[[7, 1.0]]]}):
        spoilt(state={"rest": targets | {"classes": [0, 1, 2], "class_weight": []} | wrong})
        refuse_net(HighwayClassifier, path, "class")
    spoilt(estimator=np.array([Intruder(tmp_path / "trace")], dtype=object))
    refuse_net(HighwayClassifier, path)
    assert not (tmp_path / "trace").exists()
    refuse_net(HighwayClassifier, tmp_path / "nowhere.npz", "No such file")


# -------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("depth", -1, "zero or a positive number or auto, found -1"),
        ("depth", True, "of type int or auto, found True"),
        ("block", "transformer", "one of plain, highway"),
        ("gate_bias", math.nan, "a finite number or auto, found nan"),
        ("max_iter", 10**400, r"a number up to 9.2e\+18, found 10000"),
        ("batch_size", "all", "of type int or auto, found 'all'"),
        ("learning_rate", "1e-3", "of type float, found '1e-3'"),
        ("validation_fraction", 1.0, r"a number in \[0, 1\)"),
        ("early_stopping", "no", "of type bool or auto, found 'no'"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named(name, value, expected):
    with pytest.raises(ValueError, match=f"{name}: expected .*{expected}"):
        small(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(150), "Negative values in data passed to `sample_weight`"),
        (np.zeros(150), "at least one non-zero number"),
        (np.ones(149), r"sample_weight.shape == \(149,\), expected \(150,\)"),
        (np.full(150, np.nan), "sample_weight contains NaN"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        small().fit(X, Y, sample_weight=weights)


def test_labels_are_not_cut_to_those_that_are_known():
    net = small().partial_fit(X, np.array([*"abc"])[Y], classes=[*"abc"])
    with pytest.raises(ValueError, match="y: expected labels among"):
        net.partial_fit(X, np.array(["apple", "banana", "cherry"])[Y])


@pytest.mark.parametrize("y", [np.r_[Y[:-1], 3], np.arange(150) // 2], ids=["one of a class", "75 classes of two"])
def test_classes_too_small_to_be_parted_alike_are_parted_anyhow(y):
    assert small(early_stopping=True, validation_fraction=0.1).fit(X, y).validation_scores_


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_inputs_that_the_nets_precision_cannot_hold_are_refused():
    net = small(warm_start=True).fit(np.float32(X), Y)
    for use in (net.predict, net.transform_gates, lambda x: net.fit(x, Y)):
        with pytest.raises(ValueError, match=r"a value too large for dtype\('float32'\)"):
            use(1e300 * X)


@pytest.mark.parametrize("x", [np.ones_like(X), X * 1e30, np.float32(X * 1e30)], ids=["constant", "large", "float32"])
def test_odd_samples_are_no_obstacle(x):
    np.testing.assert_allclose(small().fit(x, Y).predict_proba(x).sum(axis=1), 1, rtol=1e-5)


NUMBERS = HighwayRegressor(**SMALL)
WARM = clone(NUMBERS).set_params(warm_start=True)
DIVERGED = "training diverged in epoch 1: .*standardise inputs and targets"


@pytest.mark.parametrize(
    ("net", "samples", "wrong", "message"),
    [
        (small(), (X, Y), (X, np.array(list("abc"))[Y], -np.ones(150)), "Negative"),
        (small(), (X, Y), (X[:, :2], Y, -np.ones(150)), "Negative"),
        (WARM, (X, Y), (X, np.stack([Y, Y], axis=1)), "→ 2"),
        (NUMBERS, (NUMBERS_X, NUMBERS_Y), (NUMBERS_X, 1e200 * NUMBERS_Y), DIVERGED),
        (WARM, (NUMBERS_X, NUMBERS_Y), (NUMBERS_X, 1e200 * NUMBERS_Y), DIVERGED),
    ],
)
def test_a_fit_that_fails_changes_nothing(net, samples, wrong, message):
    net = clone(net).fit(*samples)
    untouched = copy.deepcopy(net)
    with pytest.raises(ValueError, match=message):
        net.fit(*wrong)
    np.testing.assert_array_equal(net.predict(samples[0]), untouched.predict(samples[0]))
    assert same_nets(net.fit(*samples), untouched.fit(*samples))


@pytest.mark.parametrize("estimator", [HighwayClassifier, HighwayRegressor])
def test_a_last_step_into_outputs_that_are_not_finite_is_noticed(estimator):
    diverged = r"training diverged in epoch 1: expected finite outputs.*lower learning_rate"
    net = estimator(activation="relu", max_iter=1, learning_rate=1e15, random_state=0)
    for early_stopping in (False, True):
        with pytest.raises(ValueError, match=diverged):
            net.set_params(early_stopping=early_stopping).fit(np.float32(X), Y)
        assert not hasattr(net, "net_")
    net.set_params(learning_rate=1e-3, early_stopping=False).fit(np.float32(X), Y)
    before = copy.deepcopy(net)
    with pytest.raises(ValueError, match=diverged):
        net.set_params(learning_rate=1e15).partial_fit(np.float32(X), Y)
    assert same_nets(net, before)


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[D]"])
def test_dates_and_times_are_no_samples(kind):
    times, fitted = X.astype(int).astype(kind), clone(NUMBERS).fit(X, Y)
    uses = [fitted.predict, fitted.effective_depth, lambda x: small().fit(x, Y)]
    for use, x in product(uses, (times, FRAME.assign(b=times[:, 1]))):
        with pytest.raises(ValueError, match=rf"^X: expected numbers, found {kind[:8]}.*; subtract a date"):
            use(x)
    for fit in (NUMBERS.fit, small().fit):
        with pytest.raises(ValueError, match=r"^y: expected an array of numbers.*, found ndarray of (date|time)"):
            fit(X, times[:, 0])


def test_a_mask_is_not_dropped_without_a_word():
    for use in (clone(NUMBERS).fit(X, Y).predict, lambda x: small().fit(x, Y)):
        with pytest.raises(ValueError, match="X: expected an array without a mask, found one; fill in"):
            use(np.ma.masked_less(X, 0.5))


def test_frames_of_polars_are_taken_and_their_dates_refused():
    polars = pytest.importorskip("polars", reason="needs polars: pip install -e '.[test]'")
    frame = polars.DataFrame(FRAME.to_dict("list"))
    assert small().fit(frame, Y).feature_names_in_.tolist() == [*"abcd"]
    with pytest.raises(ValueError, match=r"^X: expected numbers, found Date in column 'b'; subtract a date"):
        small().fit(frame.with_columns(b=polars.lit(datetime.date(2020, 1, 2))), Y)


@pytest.mark.parametrize("labels", [["a", 1, None], ["a", "b", None]])
def test_targets_of_no_one_type_are_refused_in_one_line_before_training(labels):
    y = np.array(labels, object)[Y]
    for fit in (small().fit, lambda X, y: small().partial_fit(X, y, classes=y), HighwayRegressor().fit):
        with pytest.raises(ValueError, match=r"^y: expected an array of numbers.*, found ndarray of object; .*$"):
            fit(X, y)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        small().partial_fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping"):
        small(early_stopping=True).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="The validation set is too small"):
        HighwayRegressor(**SMALL, early_stopping=True, validation_fraction=0.01).fit(X[:20], Y[:20])
    for loss in ("cross-entropy", "absolute"):
        with pytest.raises(ValueError, match=f"^loss: expected squared-error, huber, quantile.*, found '{loss}'"):
            HighwayRegressor(**SMALL, loss=loss).fit(NUMBERS_X, NUMBERS_Y)
    fitted = small(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"classes: expected \[0 1 2\]"):
        fitted.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"net: expected .* 8 relu units .* found .* 6 relu units "):
        fitted.set_params(hidden=8).fit(X, Y)
    for layers in (0, [1, 5], 1.7, True, "1", None):
        with pytest.raises(ValueError, match=r"^layers: expected whole numbers from 1 to 4, found .*; choose among "):
            fitted.lesion(layers)
    for look in (small().transform_gates, small().gate_means, small().effective_depth, small().lesion):
        with pytest.raises(NotFittedError):
            look(X)
    with pytest.raises(NotFittedError):
        small().lesion_scores(X, Y)
