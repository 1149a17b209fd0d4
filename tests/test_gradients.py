"""The hand-written backward pass against derivatives that need none, for every block, activation and a few depths."""

import numpy as np
import pytest
from helpers import central_differences, check_gradients, complex_step, small_batch, small_net

from highway_lab.training import LOSSES
from highway_networks import ACTIVATIONS, BLOCKS, softmax_cross_entropy

every_net = pytest.mark.parametrize(
    ("block", "activation", "depth"), [(b, a, depth) for b in BLOCKS for a in ACTIVATIONS for depth in (0, 1, 3)]
)


def gradients(net, x, y):
    """Backpropagation's gradients with respect to every parameter and to the input, called x."""
    logits, cache = net.forward(x)
    _, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    return {**grads, "x": dx}


def derivatives(method, net, x, y):
    """The same by moving one entry at a time."""

    def loss():
        return softmax_cross_entropy(net.forward(x)[0], y)[0]

    return {name: method(loss, tensor) for name, tensor in {**net.params, "x": x}.items()}


@every_net
def test_gradients_equal_complex_step_derivatives(block, activation, depth):
    x, y = small_batch()
    found = gradients(small_net(block, activation, depth), x, y)
    complex_net = small_net(block, activation, depth, np.complex128)
    check_gradients(found, derivatives(complex_step, complex_net, x.astype(complex), y), 1e-10)


@every_net
def test_walking_back_yields_the_gradient_with_respect_to_each_blocks_input_the_last_first(block, activation, depth):
    x, y = small_batch()
    net = small_net(block, activation, depth)
    logits, cache = net.forward(x)
    walk = net.backward_blocks(softmax_cross_entropy(logits, y)[1], cache)
    found = {layer: dx.copy() for layer, dx in zip(range(depth, -1, -1), walk, strict=True)}
    complex_net = small_net(block, activation, depth, np.complex128)
    expected = {}
    for layer in found:
        x_l = cache.x[layer].astype(complex)
        expected[layer] = complex_step(
            lambda x_l=x_l, layer=layer: softmax_cross_entropy(complex_net.forward_from(x_l, layer), y)[0], x_l
        )
    check_gradients(found, expected, 1e-10)


@every_net
def test_gradients_equal_central_differences(block, activation, depth):
    """At h = 1e-5 rounding leaves about ε/h, and h² as much, of a loss near 1: 1e-10 beside gradients above 1e-4."""
    x, y = small_batch()
    net = small_net(block, activation, depth)
    check_gradients(gradients(net, x, y), derivatives(central_differences, net, x, y), 1e-6)


@every_net
def test_float32_gradients_equal_float64_ones_to_single_precision(block, activation, depth):
    x, y = small_batch()
    found = gradients(small_net(block, activation, depth, np.float32), x.astype(np.float32), y)
    assert {gradient.dtype for gradient in found.values()} == {np.dtype(np.float32)}
    check_gradients(found, gradients(small_net(block, activation, depth), x, y), 1e-5)


@pytest.mark.parametrize("method", [complex_step, central_differences])
def test_the_check_fails_on_any_gradient_that_is_a_thousandth_wrong(method):
    x, y = small_batch()
    exact = gradients(small_net("highway", "tanh", 2), x, y)
    dtype = np.complex128 if method is complex_step else np.float64
    expected = derivatives(method, small_net("highway", "tanh", 2, dtype), x.astype(dtype), y)
    tolerance = 1e-10 if method is complex_step else 1e-6
    check_gradients(exact, expected, tolerance)
    for name, gradient in exact.items():
        largest = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        one_entry = gradient.copy()
        one_entry[largest] *= 1.001
        for wrong in (gradient * 1.001, one_entry):
            with pytest.raises(AssertionError, match=f"^{name}: relative error"):
                check_gradients(exact | {name: wrong}, expected, tolerance)


def test_the_check_fails_where_a_gradient_is_missing_too_small_to_check_or_nan():
    ones = {"W": np.ones((2, 2)), "b": np.ones(2)}
    check_gradients(ones, ones, 1e-10)
    with pytest.raises(AssertionError):
        check_gradients({"W": ones["W"]}, ones, 1e-10)
    with pytest.raises(AssertionError, match="too small"):
        check_gradients(ones | {"b": np.zeros(2)}, ones | {"b": np.zeros(2)}, 1e-10)
    with pytest.raises(AssertionError):
        check_gradients(ones | {"b": np.array([1, np.nan])}, ones, 1e-10)


def outputs_and_targets(loss):
    """Five samples for a loss of four outputs."""
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
    check_gradients(found, {"outputs": central_differences(lambda: function(outputs, y, weights)[0], outputs)}, 1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_whole_weight_counts_a_sample_so_often(loss):
    function, (outputs, y) = LOSSES[loss].function, outputs_and_targets(loss)
    often = np.array([1, 0, 2, 1, 3])
    value, gradient = function(outputs, y, often / often.mean())
    expected, repeated = function(outputs.repeat(often, axis=0), y.repeat(often, axis=0))
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(gradient[[0, 2, 3, 4]], often[[0, 2, 3, 4], None] * repeated[[0, 1, 3, 4]])
    assert not gradient[1].any()
