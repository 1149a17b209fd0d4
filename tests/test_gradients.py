"""The hand-written backward pass against complex steps, for every block and activation and three depths."""

import os
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
from helpers import ROOT, check_gradients, small_batch, small_net

import highway_estimators  # noqa: F401, adds its losses
from experiments.blocks import number_of
from highway_lab import gradients as checked
from highway_lab.gradients import complex_step
from highway_networks import ACTIVATIONS, BLOCKS, LOSSES, softmax_cross_entropy

KINDS = [name for name in BLOCKS if number_of(name) in (None, (name, 1))]  # larger numbers saturate a net
every_net = pytest.mark.parametrize(
    ("block", "activation", "depth"), [(b, a, depth) for b in KINDS for a in ACTIVATIONS for depth in (0, 1, 3)]
)


def gradients(net, x, y):
    """Return the backward pass's gradients with respect to every parameter and to the input, called x."""
    logits, cache = net.forward(x)
    _, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    return {**grads, "x": dx}


@every_net
def test_gradients_equal_complex_step_derivatives(block, activation, depth):
    assert not checked.check_gradients(block, activation, L=depth)


@every_net
def test_float32_gradients_equal_float64_ones_to_single_precision(block, activation, depth):
    x, y = small_batch()
    found = gradients(small_net(block, activation, depth, np.float32), x.astype(np.float32), y)
    assert {gradient.dtype for gradient in found.values()} == {np.dtype(np.float32)}
    check_gradients(found, gradients(small_net(block, activation, depth), x, y), 1e-5)


def test_the_check_names_any_gradient_that_is_wrong_by_a_thousandth(monkeypatch):
    """In all entries, or in one; none is so small that it would check nothing."""
    net, (x, y) = small_net("highway", "tanh", 2), small_batch()
    of_net = checked.net_gradients(net, softmax_cross_entropy, x, y)
    pairs = chain(checked.block_gradients(net.block, net.activation, 4), of_net)
    exact = {name: (gradient.copy(), derivative) for name, gradient, derivative in pairs}
    monkeypatch.setattr(checked, "block_gradients", lambda *_: ())
    for name, (gradient, derivative) in exact.items():
        assert np.abs(derivative).max() > 1e-4
        one_entry = gradient.copy()
        one_entry.flat[np.abs(gradient).argmax()] *= 1.001
        for wrong in (gradient * 1.001, one_entry):
            found = exact | {name: (wrong, derivative)}
            monkeypatch.setattr(checked, "net_gradients", lambda *_, found=found: ((of, *found[of]) for of in found))
            assert checked.check_gradients() == name


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("dH", "np.multiply(T, dy, out=dH)  # dH = T·dy    (eq. 9)", "np.multiply(T, 1.001 * dy, out=dH)"),
        ("dT", "dT *= dy  # dT = (H − x)·dy    (eq. 9)", "dT *= 1.001 * dy"),
        ("dx", "np.subtract(dy, dH, out=dx)", "np.subtract(1.001 * dy, dH, out=dx)"),
        ("dx", "np.subtract(dy, dH, out=dx)", "pass"),  # nothing is there
        ("dlogits", "dlogits[rows, y] -= 1\n", "dlogits[rows, y] -= 1.001\n"),
        ("W_out", "np.matmul(dz, x.T, out=dW)", "np.matmul(1.001 * dz, x.T, out=dW)"),
        ("dx_2", "np.matmul(W[:, :-1].T, dz, out=dx)", "np.matmul(W[:, :-1].T, 1.001 * dz, out=dx)"),
        ("dx_1", "dx += scratch", "dx += 1.001 * scratch"),
        ("W_in", "affine_backward(dx_0, p.input", "affine_backward(1.001 * dx_0, p.input"),
    ],
)
def test_the_check_tells_which_line_of_the_core_is_wrong(tmp_path, name, right, wrong):
    code = (ROOT / "highway_networks.py").read_text(encoding="utf-8")
    assert code.count(right) == 1
    (tmp_path / "highway_networks.py").write_text(code.replace(right, wrong), encoding="utf-8")
    command = [sys.executable, "-c", "from highway_lab.gradients import check_gradients as check; exit(bool(check()))"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"\nhighway: the first that is wrong is {name}\n" in done.stdout


def test_the_check_fails_if_a_gradient_is_missing_too_small_or_nan():
    ones = {"W": np.ones((2, 2)), "b": np.ones(2)}
    zero = ones | {"b": np.zeros(2)}
    check_gradients(ones, ones, 1e-10)
    with pytest.raises(AssertionError, match="too small"):
        check_gradients(zero, zero, 1e-10)
    for found in ({"W": ones["W"]}, ones | {"b": np.array([1, np.nan])}):
        with pytest.raises(AssertionError):
            check_gradients(found, ones, 1e-10)


def outputs_and_targets(loss):
    """Return five samples for a loss of four outputs."""
    rng = np.random.default_rng(0)
    classes, numbers = np.array([0, 3, 1, 1, 2]), rng.standard_normal((5, 4))
    return 3 * rng.standard_normal((5, 4)), classes if LOSSES[loss].target == "classes" else numbers


@pytest.mark.parametrize("weights", [None, np.array([0.5, 0.0, 2.0, 1.0, 3.0])])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_of_a_loss_equals_its_derivatives(loss, weights):
    function, (outputs, y) = LOSSES[loss].function, outputs_and_targets(loss)
    found = {"outputs": function(outputs, y, weights)[1]}
    moved = outputs.astype(complex)
    check_gradients(found, {"outputs": complex_step(lambda: function(moved, y, weights)[0], moved)}, 1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_integer_weight_repeats_a_sample(loss):
    function, (outputs, y) = LOSSES[loss].function, outputs_and_targets(loss)
    often = np.array([1, 0, 2, 1, 3])
    value, gradient = function(outputs, y, often / often.mean())
    expected, repeated = function(outputs.repeat(often, axis=0), y.repeat(often, axis=0))
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(gradient[[0, 2, 3, 4]], often[[0, 2, 3, 4], None] * repeated[[0, 1, 3, 4]])
    assert not gradient[1].any()
