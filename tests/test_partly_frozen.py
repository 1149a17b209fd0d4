"""Nets some of whose parameters are fixed: what is trained and counted, what stays, which steps were clipped."""

import math

import numpy as np
import pytest
from helpers import small_batch

from experiments.blocks import numbered
from experiments.partly_frozen import ArmConfig
from highway_lab.gradients import complex_step
from highway_lab.training import Training
from highway_networks import DeepNet, as_inputs, softmax_cross_entropy

SMALL = {"hidden": 8, "depth": 3, "n_train": 300, "n_test": 50, "epochs": 2, "init": "glorot", "lr": 0.01}
NUMBER = {"block": numbered("rezero", 1), "zero": "W_A"}


def training_of(data, **options) -> Training:
    return Training(ArmConfig(**SMALL | options), data)


def trained(training: Training) -> DeepNet:
    for _ in training.epochs(scored=False):
        pass
    return training.net


def test_rezero_learns_one_number_a_unit_or_a_block(digits):
    """Its weights stay 0, so A = b_A; units that share a number have the same."""
    for shared in ("", "b_A"):
        net = trained(training_of(digits, **NUMBER, shared=shared))
        assert not net.params["W_A"].any()
        a = net.params["b_A"]
        assert a.all()
        assert ((a == a[:, :1]).all()) == bool(shared)


def test_the_number_of_a_block_gets_its_derivative_and_counts_once_in_the_norm(digits):
    net = training_of(digits, **NUMBER, shared="b_A", dtype="float64").net
    net.params["b_A"] = np.array([[0.3], [-0.2], [0.5]])
    x, y = small_batch(d_in=64, d_out=10)
    logits, cache = net.forward(x)
    found = net.backward(softmax_cross_entropy(logits, y)[1], cache)["b_A"]
    exact = type(net)(**net.config | {"dtype": "complex128"}, rng=None)
    exact.params.flat[...] = net.params.flat
    for l, row in enumerate(found):

        def loss(step, l=l):
            exact.params["b_A"][l] = net.params["b_A"][l] + step[0]
            return softmax_cross_entropy(exact.forward(x)[0], y)[0]

        step = np.zeros(1, complex)
        expected = complex_step(lambda loss=loss, step=step: loss(step), step)[0]
        assert np.linalg.norm(row) == pytest.approx(abs(expected), rel=1e-10)
        np.testing.assert_allclose(row * math.sqrt(len(row)), expected, rtol=1e-10)
        exact.params["b_A"][l] = net.params["b_A"][l]


def test_gates_whose_weights_are_0_see_no_input_and_frozen_ones_stay_as_an_ordinary_net_draws_them(digits):
    x = as_inputs(digits.test_x)
    constant, drawn = (trained(training_of(digits, **of)) for of in ({"zero": "W_T"}, {"frozen": "W_T,b_T"}))
    ordinary = DeepNet(64, 10, hidden=8, depth=3, init="glorot", rng=np.random.default_rng(0).spawn(3)[1])
    for name in ("W_T", "b_T"):
        np.testing.assert_array_equal(drawn.params[name], ordinary.params[name])
    assert (constant.params["b_T"] != -2).all()
    seen, unseen = (net.forward(x)[1].T for net in (drawn, constant))
    assert (seen[..., :1] != seen).any()
    assert (unseen[..., :1] == unseen).all()


def test_parameters_are_counted_once_and_only_if_they_are_trained(digits):
    L, D = 3, 8
    every = training_of(digits).net.params.flat.size
    assert training_of(digits).net.n_trained == every
    assert training_of(digits, **NUMBER).net.n_trained == every - L * D * D
    assert training_of(digits, **NUMBER, shared="b_A").net.n_trained == every - L * D * D - L * (D - 1)
    assert training_of(digits, frozen="W_T,b_T").net.n_trained == every - L * D * (D + 1)


def test_clipped_steps_are_counted(digits):
    """Steps are too small to change anything, so their mean norm as the limit clips some of them."""
    free = training_of(digits, lr=1e-9, clip=0.0)
    for _ in free.epochs():
        pass
    limits = (0.0, 1e9, free.history.grad_norm[-1], 1e-9)
    never, none, some, every = (trained(training_of(digits, lr=1e-9, clip=of)).clipped for of in limits)
    assert (never, none, every) == (0, 0, 1)
    assert 0 < some < 1
    assert 6 * some == pytest.approx(round(6 * some)), "of six steps"


def test_identity_weights_begin_as_the_identity_times_the_gain(digits):
    net = training_of(digits, block="plain", identity=True, init_gain=1.05).net
    np.testing.assert_allclose(net.params["W_H"], 1.05 * np.stack([np.eye(8)] * 3), rtol=1e-6)
    other = training_of(digits, block="plain", init_gain=1.05).net
    for name in ("W_in", "W_out"):
        np.testing.assert_array_equal(net.params[name], other.params[name])
