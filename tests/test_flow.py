"""How gradients flow: a block's Jacobian, and the norms of the gradients at the input of each."""

import numpy as np
import pytest
from helpers import small_batch, small_net

from experiments.blocks import number_of
from experiments.flow import block_gradients, jacobian, measure_flow, measure_paths
from experiments.pixel_scale import PIXELS, STANDARD, UNIT, scaled
from highway_lab.gradients import complex_step, relative_error
from highway_networks import BLOCKS, Dataset, DeepNet, as_inputs, softmax_cross_entropy

KINDS = [name for name in BLOCKS if number_of(name) in (None, (name, 1))]  # each with the number 1, if it has any


@pytest.mark.parametrize("block", KINDS)
@pytest.mark.parametrize("l", [0, 1, 2])
def test_a_jacobian_equals_its_complex_step_derivative(block, l):
    net = small_net(block, "tanh", 3)
    twin = DeepNet(**net.config | {"dtype": np.complex128}, rng=np.random.default_rng(0))
    twin.params.flat[...] = net.params.flat
    _, cache = net.forward(small_batch()[0])
    x = cache.x[l, :, :1].astype(np.complex128)
    rows = range(net.hidden)
    expected = np.array([complex_step(lambda i=i: next(twin.iterate_blocks(x, l))[1][i, 0], x[:, 0]) for i in rows])
    found = jacobian(net, cache.x[l, :, 0], l)
    assert np.abs(expected).max() > 0.1
    assert relative_error(found, expected) < 1e-12
    assert relative_error(found, expected.T) > 0.01, "rows and columns could be swapped"


def gradient_norms(net: DeepNet, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([np.linalg.norm(dx) for dx in reversed(block_gradients(net, x, y)[1])])


@pytest.mark.parametrize("block", KINDS)
def test_gradient_norms_are_those_of_the_loss_by_each_blocks_input(block):
    """The last by its definition; all others by the chain rule, one Jacobian an image and block."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    logits, cache = net.forward(x)
    dx = softmax_cross_entropy(logits, y)[1] @ net.params["W_out"]  # (B, D)
    expected = [np.linalg.norm(dx)]
    for l in (2, 1, 0):
        dx = np.array([row @ jacobian(net, x_l, l) for row, x_l in zip(dx, cache.x[l].T, strict=True)])
        expected.insert(0, np.linalg.norm(dx))
    np.testing.assert_allclose(gradient_norms(net, x, y), expected, rtol=1e-12)
    assert expected[-1] > 1e-3


def test_gradient_norms_are_right_where_float32_cannot_hold_a_square(digits):
    x, y = digits.train_x[:20], digits.train_y[:20]
    norms = {}
    for dtype in (np.float32, np.float64):
        net = DeepNet(64, 10, depth=100, block="plain", dtype=dtype, rng=np.random.default_rng(0))
        norms[dtype] = gradient_norms(net, as_inputs(x, dtype), y)
    assert norms[np.float64][0] < 1e-24
    np.testing.assert_allclose(norms[np.float32], norms[np.float64], rtol=1e-3)


def test_the_flow_is_that_of_blocks_in_a_row_at_the_first_image_and_null_in_a_net_that_diverged():
    net = small_net("highway", "tanh", 3)
    x, y = small_batch()
    data = Dataset(x, y, x, y, 10)
    _, cache = net.forward(x)
    first, second = (jacobian(net, cache.x[l, :, 0], l) for l in (0, 1))
    flow = measure_flow(net, data, [0, 1])
    np.testing.assert_allclose(flow.singular_values, np.linalg.svd(second @ first, compute_uv=False), rtol=1e-3)
    np.testing.assert_allclose(flow.gradient_norms, gradient_norms(net, x, y), rtol=1e-3)
    net.params["W_H"][...] = np.nan
    flow = measure_flow(net, data, [0, 1])
    assert flow.singular_values == [None] * 4
    assert flow.gradient_norms[0] is None


def test_the_direct_path_of_a_gradient_meets_no_matrix():
    net, (x, y) = small_net("highway", "tanh", 3), small_batch()
    data = Dataset(x, y, x, y, 10)
    paths = measure_paths(net, data)
    net.params["W_H"][...] = net.params["W_T"][...] = 0
    net.params["b_T"][...] = -1.0
    alone = measure_paths(net, data)
    assert alone.through < 1e-15
    assert alone.direct == alone.all == pytest.approx((1 / (1 + np.exp(-1.0))) ** 3, rel=1e-3)
    assert min(paths.direct, paths.through) > 0.05
    assert abs(paths.direct - paths.through) < paths.all < paths.direct + paths.through
    assert measure_paths(small_net("plain", "tanh", 3), data).direct is None


@pytest.mark.parametrize("scale", [PIXELS, UNIT, STANDARD])
def test_pixels_are_scaled_by_what_trains(scale):
    images = np.random.default_rng(0).integers(0, 256, (50, 2, 2)).astype(np.uint8)
    images[0].flat[:2] = 0, 255
    x, test_x = (as_inputs(scaled(of, images, scale), np.float64) for of in (images, images[:1]))
    found = (x.mean(), x.std()) if scale == STANDARD else (x.min(), x.max())
    np.testing.assert_allclose(found, {PIXELS: (-1, 1), UNIT: (0, 1), STANDARD: (0, 1)}[scale], atol=1e-6)
    np.testing.assert_array_equal(test_x, x[:1])
