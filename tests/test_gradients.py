"""The hand-written backward pass against numerical derivatives, for every block and activation and three depths."""

import numpy as np
import pytest
from helpers import check_gradients, complex_step, small_batch, small_net

import highway_estimators  # noqa: F401, adds its losses
from highway_networks import ACTIVATIONS, BLOCKS, LOSSES, softmax_cross_entropy

every_net = pytest.mark.parametrize(
    ("block", "activation", "depth"), [(b, a, depth) for b in BLOCKS for a in ACTIVATIONS for depth in (0, 1, 3)]
)


def gradients(net, x, y):
    """Return the backward pass's gradients with respect to every parameter and to the input, called x."""
    logits, cache = net.forward(x)
    _, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    return {**grads, "x": dx}


def derivatives(block, activation, depth, x, y):
    """Return these gradients of a net with such blocks by complex steps, one entry at a time."""
    net, x = small_net(block, activation, depth, np.complex128), x.astype(complex)

    def loss():
        return softmax_cross_entropy(net.forward(x)[0], y)[0]

    return {name: complex_step(loss, tensor) for name, tensor in {**net.params, "x": x}.items()}


@every_net
def test_gradients_equal_complex_step_derivatives(block, activation, depth):
    x, y = small_batch()
    found = gradients(small_net(block, activation, depth), x, y)
    check_gradients(found, derivatives(block, activation, depth, x, y), 1e-10)


@every_net
def test_backward_blocks_yields_the_gradient_of_each_blocks_input(block, activation, depth):
    """The last block comes first."""
    x, y = small_batch()
    net, complex_net = small_net(block, activation, depth), small_net(block, activation, depth, np.complex128)
    logits, cache = net.forward(x)
    backward = net.backward_blocks(softmax_cross_entropy(logits, y)[1], cache)
    found = {l: dx.copy() for l, dx in zip(range(depth, -1, -1), backward, strict=True)}

    def derivative(l):
        x_l = cache.x[l].astype(complex)
        return complex_step(lambda: softmax_cross_entropy(complex_net.forward_from(x_l, l), y)[0], x_l)

    check_gradients(found, {l: derivative(l) for l in found}, 1e-10)


@every_net
def test_float32_gradients_equal_float64_ones_to_single_precision(block, activation, depth):
    x, y = small_batch()
    found = gradients(small_net(block, activation, depth, np.float32), x.astype(np.float32), y)
    assert {gradient.dtype for gradient in found.values()} == {np.dtype(np.float32)}
    check_gradients(found, gradients(small_net(block, activation, depth), x, y), 1e-5)


def test_the_check_fails_if_any_gradient_is_wrong_by_a_thousandth():
    x, y = small_batch()
    exact, expected = gradients(small_net("highway", "tanh", 2), x, y), derivatives("highway", "tanh", 2, x, y)
    for name, gradient in exact.items():
        one_entry = gradient.copy()
        one_entry.flat[np.abs(gradient).argmax()] *= 1.001
        for wrong in (gradient * 1.001, one_entry):
            with pytest.raises(AssertionError, match=f"^{name}: relative error"):
                check_gradients(exact | {name: wrong}, expected, 1e-10)


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
