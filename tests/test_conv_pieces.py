"""The pieces of a convolutional net, each alone: against plain loops, and against complex-step derivatives."""

import math
from itertools import product

import numpy as np
import pytest
from helpers import CONV_BLOCKS, check_gradients

import conv_highway_networks as conv
from conv_highway_networks import (
    AveragePool,
    BatchNorm,
    Blocks,
    Convolution,
    ConvolutionLayer,
    Dropout,
    Layer,
    Maps,
    MaxPool,
    OutputLayer,
    window_count,
)
from highway_lab.gradients import complex_step
from highway_networks import ACTIVATIONS, BLOCKS

SIZES = [(5, 4, 1), (4, 6, 3), (1, 6, 3), (5, 1, 2), (1, 1, 4)]  # rows, columns, images


def random_images(C: int, size: tuple[int, int, int]) -> np.ndarray:
    """Return images (C, H, W, B) in [-1, 1]."""
    return np.random.default_rng(0).uniform(-1, 1, (C, *size))


def maps_of(images: np.ndarray, dtype: type = np.float64, stage: conv.Stage | None = None) -> Maps:
    """Return maps that hold these images (C, H, W, B), for a layer of this stage, with memory for their gradient."""
    *shape, B = images.shape
    window = (stage.kernel, stage.padding, conv.output_shape(stage, shape)[1:]) if hasattr(stage, "kernel") else ()
    x = Maps(shape, B, dtype, *window)
    x.images[...], x.gradient = images, np.full(images.shape, np.nan, dtype)
    return x


def layer_of(stage, images: np.ndarray, dtype: type = float, block="plain", activation="tanh", norm=False) -> Layer:
    """Return the layer of a stage over images (C, H, W, B), with the same weights or random numbers each time."""
    *shape, B = images.shape
    x, y = maps_of(images, dtype, stage), maps_of(np.zeros((*conv.output_shape(stage, shape), B)), dtype)
    if not isinstance(stage, Convolution | Blocks):
        layer = conv.LAYERS[type(stage)](stage, x, y)
        layer.rng = np.random.default_rng(0)
        return layer
    of = BLOCKS[block].for_depth(3)
    W = np.random.default_rng(2).uniform(-1, 1, (of.rows(len(y.images)), stage.kernel**2 * shape[0] + 1)).astype(dtype)
    layer = ConvolutionLayer(stage, x, y, (of, ACTIVATIONS[activation]), W, np.full_like(W, np.nan))
    if norm:
        layer.norm = BatchNorm(*normalisation(len(y.images), dtype), layer.z[0])
    return layer


def run(layer: Layer, dy: np.ndarray) -> None:
    """Run a layer forward and backward."""
    layer.forward()
    layer.y.gradient[...] = dy
    layer.backward()


# ------------------------------------------------------------------------------ gradients of each layer

KERNELS = [(kernel, padding) for kernel in (1, 2, 3, 4, 5) for padding in {0, kernel // 2}]
CONVOLUTIONS = [
    *(Convolution(3, *pair) for pair in KERNELS if 2 * pair[1] < pair[0]),
    Convolution(2),
    Convolution(2, 5, 1),
]
MAX_POOLS = [MaxPool(3, 2), MaxPool(2, 2), MaxPool(3, 1), MaxPool(3, 3), MaxPool(1, 1), MaxPool(2, 3), MaxPool(17, 16)]
POOLED_SIZES = [*((H, W, 3) for H, W in ((1, 1), (1, 2), (2, 3), (4, 5), (5, 4), (6, 6), (7, 1))), (18, 17, 1)]

LAYERS = [
    *((stage, (6, 5, 2), ()) for stage in CONVOLUTIONS),
    *((Blocks(1, kernel), size, ("highway",)) for kernel in (1, 2, 3, 4, 5) for size in SIZES),
    *((Blocks(1), (4, 3, 3), case) for case in product(CONV_BLOCKS, ACTIVATIONS, (False, True))),
    *product([*MAX_POOLS, *map(AveragePool, (1, 2, 3, 8))], POOLED_SIZES, [()]),
    (Dropout(0.3), (4, 5, 3), ()),
]


@pytest.mark.parametrize(("stage", "size", "case"), LAYERS, ids=str)
def test_a_layers_gradients_are_its_derivatives(stage, size, case):
    """Whatever passes came before."""
    images = random_images(2, size)
    layer, moved = (layer_of(stage, images, dtype, *case) for dtype in (np.float64, np.complex128))

    def rewind(layer):
        if isinstance(stage, Dropout):
            layer.rng.bit_generator.state = np.random.default_rng(4).bit_generator.state

    dy = np.random.default_rng(1).standard_normal(layer.y.images.shape)
    layer.x.images[...] = 1 - 3 * images
    run(layer, 2 - dy)
    layer.x.images[...] = images
    rewind(layer)
    run(layer, dy)

    def loss():
        rewind(moved)
        moved.forward()
        return (dy * moved.y.images).sum()

    found, tensors = {"x": layer.x.gradient}, {"x": moved.x.images}
    if isinstance(layer, ConvolutionLayer):
        found["W"], tensors["W"] = layer.dW, moved.W
    check_gradients(found, {name: complex_step(loss, tensor) for name, tensor in tensors.items()}, 1e-10)


@pytest.mark.parametrize("m", [1, 4, 6])
@pytest.mark.parametrize(("stage", "width"), [(Blocks(1), 4), (Convolution(3, 3, 0), 6)], ids=str)
def test_results_do_not_depend_on_how_many_columns_a_product_takes(monkeypatch, stage, width, m):
    images, case = random_images(2, (5, width, 3)), ("highway" if isinstance(stage, Blocks) else "plain", "tanh", True)
    whole = layer_of(stage, images, np.float64, *case)
    monkeypatch.setattr(conv, "columns_per_product", lambda weights, columns: m)
    cut = layer_of(stage, images, np.float64, *case)
    dy = np.random.default_rng(1).standard_normal(whole.y.images.shape)
    for layer in (whole, cut):
        run(layer, dy)
    both = [(layer.y.images, layer.x.gradient, layer.dW) for layer in (cut, whole)]
    for found, expected in zip(*both, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("weights", "columns", "m"), [(4704, 600, 200), (4704, 25, 25), (18_624, 600, 600), (1, 7, 7)])
def test_a_product_is_small_where_that_leaves_it_enough_columns(weights, columns, m):
    """At most 10^6 multiply-adds and at least 64 columns, equally many in each product; else whole rows."""
    assert conv.columns_per_product(weights, columns) == m


# ----------------------------------------------------------------------------------------- convolutions


def naive_convolution(images: np.ndarray, W: np.ndarray, padding: int, kernel: int) -> np.ndarray:
    """Return the affine map (D, h, w, B) of images (C, H, W, B) by W (D, k·k·C + 1), number by number."""
    (C, *_, B), around = images.shape, np.pad(images, ((0, 0), *[(padding, padding)] * 2, (0, 0)))
    kernels, b = W[:, :-1].reshape(-1, kernel, kernel, C), W[:, -1]
    z = np.empty((len(W), *(length - kernel + 1 for length in around.shape[1:3]), B))
    for d, r, c, n in np.ndindex(z.shape):
        window = around[:, r : r + kernel, c : c + kernel, n]
        z[d, r, c, n] = b[d] + sum(kernels[d, i, j, m] * window[m, i, j] for i, j, m in np.ndindex(kernel, kernel, C))
    return z


@pytest.mark.parametrize(
    ("stage", "size"),
    [
        (stage, size)
        for stage, size in product(CONVOLUTIONS, [*SIZES, (6, 7, 3)])
        if min(size[:2]) + 2 * stage.padding >= stage.kernel
    ],
    ids=str,
)
def test_a_convolution_equals_plain_loops(stage, size):
    """Also where the kernel is wider than the image."""
    images = random_images(2, size)
    layer = layer_of(stage, images)
    layer.forward()
    expected = np.tanh(naive_convolution(images, layer.W, stage.padding, stage.kernel))
    np.testing.assert_allclose(layer.y.images, expected, rtol=1e-12, atol=1e-14, strict=True)


def test_a_convolutional_highway_block_is_equation_3_pixel_by_pixel():
    images = random_images(2, (4, 5, 3))
    layer = layer_of(Blocks(1), images, np.float64, "highway", "relu")
    layer.forward()
    H, T = np.split(naive_convolution(images, layer.W, 1, 3), 2)
    H, T = np.maximum(H, 0), 1 / (1 + np.exp(-T))
    np.testing.assert_allclose(layer.z[1], T, rtol=1e-12)
    np.testing.assert_allclose(layer.y.images, H * T + images * (1 - T), rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------------------------------ pools


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_as_many_windows_as_it_takes_cover_a_row_each_starts_inside(size, stride):
    for length in range(1, 13):
        starts = stride * np.arange(window_count(length, size, stride))
        assert starts[-1] < length
        assert starts[-1] + max(size, stride) >= length
        assert len(starts) == 1 or starts[-2] + size < length, "the last one is not needed"


def naive_max_pool(images: np.ndarray, dy: np.ndarray, size: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Return y (C, h, w, B) and dx: the first of a window's largest numbers, row by row, has its whole gradient."""
    y, dx = np.empty(dy.shape), np.zeros(images.shape)
    for c, i, j, n in np.ndindex(y.shape):
        window = images[c, stride * i : stride * i + size, stride * j : stride * j + size, n]
        row, column = np.unravel_index(window.argmax(), window.shape)
        y[c, i, j, n] = window[row, column]
        dx[c, stride * i + row, stride * j + column, n] += dy[c, i, j, n]
    return y, dx


@pytest.mark.parametrize("stage", MAX_POOLS, ids=str)
@pytest.mark.parametrize("size", POOLED_SIZES, ids=str)
@pytest.mark.parametrize("values", [1, 3, 1000], ids=lambda n: f"of {n} values")
def test_a_max_pool_equals_plain_loops_also_among_equal_numbers(stage, size, values):
    """All numbers are below 0, so that a zero beyond the edge would be the largest; few values give many equal ones."""
    rng = np.random.default_rng(3)
    images = rng.integers(-values, 0, (2, *size)).astype(float)
    layer = layer_of(stage, images)
    assert layer.y.images.shape == (2, *(window_count(length, *stage) for length in size[:2]), size[2])
    dy = rng.integers(-9, 9, layer.y.images.shape).astype(float)
    run(layer, dy)
    y, dx = naive_max_pool(images, dy, *stage)
    np.testing.assert_array_equal(layer.y.images, y)
    np.testing.assert_array_equal(layer.x.gradient, dx)


@pytest.mark.parametrize("pool", [1, 2, 3, 8])
@pytest.mark.parametrize("size", POOLED_SIZES, ids=str)
def test_an_average_pool_is_the_mean_of_the_pixels_that_a_window_has(pool, size):
    """A window that is cut at the edge has fewer; one as large as the image has all of them."""
    images, (H, W, B) = random_images(2, size), size
    layer = layer_of(AveragePool(pool), images)
    layer.forward()
    assert layer.y.images.shape == (2, math.ceil(H / pool), math.ceil(W / pool), B)
    for i, j in np.ndindex(layer.y.images.shape[1:3]):
        window = images[:, pool * i : pool * (i + 1), pool * j : pool * (j + 1)]
        np.testing.assert_allclose(layer.y.images[:, i, j], window.mean(axis=(1, 2)), rtol=1e-12, atol=1e-15)


# ---------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("rate", [0.2, 0.8])
def test_dropout_makes_that_share_zero_and_keeps_the_mean(rate):
    """Over 60,000 ones the mean has a standard error of at most 0.008."""
    layer = layer_of(Dropout(rate), np.ones((2, 100, 100, 3)))
    layer.forward()
    assert set(np.unique(layer.y.images)) == {0, np.float32(1 / (1 - rate))}
    assert (layer.y.images == 0).mean() == pytest.approx(rate, abs=0.01)
    assert layer.y.images.mean() == pytest.approx(1, abs=0.04)
    per_image = (layer.y.images == 0).swapaxes(1, 3).reshape(6, -1)
    assert len(np.unique(per_image, axis=0)) == 6, "each map of each image has zeros of its own"


# ---------------------------------------------------------------------------------- batch normalisation


def normalisation(D: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return parameters, memory for gradients and running statistics of D maps, (2, D) each, none of them 0 or 1."""
    params, running = np.random.default_rng(5).uniform(0.5, 1.5, (2, 2, D)).astype(dtype)
    return params, np.full_like(params, np.nan), running


def test_batch_normalisation_gives_each_map_mean_beta_and_deviation_gamma():
    z = 3 + 2 * random_images(4, (3, 5, 6))
    params, gradients, running = normalisation(4)
    BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_allclose(z.mean(axis=(1, 2, 3)), params[1], rtol=1e-12)
    np.testing.assert_allclose(z.std(axis=(1, 2, 3)), params[0], rtol=1e-5)  # but for ε


def test_running_statistics_follow_the_mean_and_the_unbiased_variance():
    """A tenth of the way with each batch."""
    params, gradients, running = normalisation(4)
    expected = running.copy()
    for shift in (1, -2):
        z = shift + random_images(4, (3, 5, 6))
        expected = 0.9 * expected + 0.1 * np.array([z.mean(axis=(1, 2, 3)), z.var(axis=(1, 2, 3), ddof=1)])
        BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_allclose(running, expected, rtol=1e-12)


def test_evaluation_normalises_by_the_running_statistics_and_leaves_them():
    z = random_images(4, (3, 5, 6))
    params, _, running = normalisation(4)
    before = running.copy()
    mean, variance, gamma, beta = (values[:, None, None, None] for values in (*before, *params))
    expected = gamma * (z - mean) / np.sqrt(variance + 1e-5) + beta
    BatchNorm(params, None, running, z).forward()
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(running, before)


def test_a_single_pixel_is_normalised_to_beta_without_a_warning(recwarn):
    z = np.full((4, 1, 1, 1), 7.0)
    params, gradients, running = normalisation(4)
    BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_array_equal(z[:, 0, 0, 0], params[1])
    assert np.isfinite(running).all()
    assert not recwarn.list


# ------------------------------------------------------------------------------------------- the output


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_output_is_a_dense_layer_of_all_pixels_and_has_its_gradients(size):
    """Map after map, row after row."""
    images, rng = random_images(2, size), np.random.default_rng(1)
    B = images.shape[-1]
    W, dlogits = rng.standard_normal((3, images[..., 0].size + 1)), rng.standard_normal((B, 3))
    layer, moved = (OutputLayer(W.astype(of), np.full(W.shape, np.nan), maps_of(images, of)) for of in (float, complex))
    rows = images.reshape(-1, B).T
    np.testing.assert_allclose(layer.forward(), rows @ W[:, :-1].T + W[:, -1], rtol=1e-12, atol=1e-14)
    layer.backward(dlogits)
    tensors = {"W": moved.W, "x": moved.x.images}
    expected = {name: complex_step(lambda: (dlogits * moved.forward()).sum(), of) for name, of in tensors.items()}
    check_gradients({"W": layer.dW, "x": layer.x.gradient}, expected, 1e-10)
