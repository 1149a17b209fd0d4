"""The pieces of a convolutional net, each alone: against loops that need no trick, and against complex steps."""

import math
from itertools import product

import numpy as np
import pytest
from helpers import CONV_BLOCKS, assert_zeros_around, check_gradients, complex_step

import conv_highway_networks as conv
from conv_highway_networks import (
    AveragePool,
    AveragePoolLayer,
    BatchNorm,
    Blocks,
    Convolution,
    ConvolutionLayer,
    Dropout,
    DropoutLayer,
    MaxPool,
    MaxPoolLayer,
    OutputLayer,
    PaddedMaps,
    patches_backward,
    patches_forward,
    window_count,
    windows,
)
from highway_networks import ACTIVATIONS, BLOCKS

SIZES = [(1, 5, 4), (3, 4, 6), (3, 1, 6), (2, 5, 1), (4, 1, 1)]  # images, rows, columns
of_every_size = pytest.mark.parametrize("size", SIZES, ids=str)


def random_images(C: int, size: tuple[int, int, int]) -> np.ndarray:
    """(C, B, H, W)."""
    return np.random.default_rng(0).uniform(-1, 1, (C, *size))


def maps(images: np.ndarray, dtype: type = np.float64, padding: int = 2, margin: int = 5) -> PaddedMaps:
    """PaddedMaps with those images in them."""
    C, B, H, W = images.shape
    x = PaddedMaps((C, H, W), B, padding, margin, dtype)
    x.images[...] = images
    return x


def run(layer, dy: np.ndarray) -> None:
    """Forward and backward."""
    layer.forward()
    layer.y.gradient.images[...] = dy
    layer.backward()


def check_layer(make, images: np.ndarray, before=lambda layer: None) -> None:
    """Fail unless a layer's gradients are its derivatives, whatever it did before, and what is amid images stays 0.

    `make(x)` builds the layer around maps; `before` is done before each pass.
    """
    layer = make(maps(images))
    dy = np.random.default_rng(1).standard_normal(layer.y.images.shape)
    layer.x.images[...] = 1 - 3 * images
    run(layer, 2 - dy)
    layer.x.images[...] = images
    before(layer)
    run(layer, dy)
    assert_zeros_around(layer.x, layer.y, layer.x.gradient, layer.y.gradient)
    found, moved = {"x": layer.x.gradient.images}, make(maps(images, np.complex128))
    tensors = {"x": moved.x.images}
    if isinstance(layer, ConvolutionLayer):
        found["W"], tensors["W"] = layer.dW, moved.W

    def loss():
        before(moved)
        moved.forward()
        return (dy * moved.y.images).sum()

    check_gradients(found, {name: complex_step(loss, tensor) for name, tensor in tensors.items()}, 1e-10)


# ---------------------------------------------------------------------------------------------- patches


def padded_by(images: np.ndarray, padding: int, more: int = 0) -> np.ndarray:
    """Images amid zeros, `more` of them below and to the right."""
    return np.pad(images, ((0, 0), (0, 0), (padding, padding + more), (padding, padding + more)))


def patches_of(x: PaddedMaps, kernel: int, padding: int) -> np.ndarray:
    """(k·k·C + 1, N)."""
    patches = np.ones((kernel**2 * x.shape[0] + 1, x.columns.shape[1]))
    patches_forward(windows(x, kernel, padding), patches)
    return patches


KERNELS = [(kernel, padding) for kernel in (1, 2, 3, 4, 5) for padding in {0, kernel // 2}]
with_every_kernel = pytest.mark.parametrize(("kernel", "padding"), KERNELS)


@of_every_size
@with_every_kernel
def test_the_patch_of_a_pixel_is_what_surrounds_it_in_its_own_image_and_zeros_beyond_the_edge(size, kernel, padding):
    images, (B, H, W) = random_images(2, size), size
    patches = patches_of(maps(images), kernel, padding)
    assert (patches[-1] == 1).all()
    grid = patches[:-1].reshape(kernel, kernel, 2, B, H + 2, W + 2)
    around = padded_by(images, padding)
    rows, columns = H + 2 * padding - kernel + 1, W + 2 * padding - kernel + 1
    for r, c in product(range(rows), range(columns)):
        expected = around[:, :, r : r + kernel, c : c + kernel]
        np.testing.assert_array_equal(grid[..., r, c], expected.transpose(2, 3, 0, 1))


@of_every_size
@with_every_kernel
def test_the_gradient_of_pixels_is_the_adjoint_of_taking_patches(size, kernel, padding):
    """<patches(x), p> = <x, adjoint(p)> for all x and p."""
    x = maps(random_images(2, size))
    patches = patches_of(x, kernel, padding)[:-1]
    p = np.random.default_rng(1).standard_normal(patches.shape)
    patches_backward(p, windows(x.gradient, kernel, padding))
    inner = (patches * p).sum()
    assert abs(inner) > 0.01
    assert (x.images * x.gradient.images).sum() == pytest.approx(inner, rel=1e-10)


# ----------------------------------------------------------------------------------------- convolutions


def convolution(
    x: PaddedMaps, stage, block: str = "plain", activation: str = "tanh", norm: bool = False
) -> ConvolutionLayer:
    """A layer around x with weights and biases in (−1, 1), the same each time."""
    y = PaddedMaps(stage.output(x.shape), x.batch, x.padding, x.margin // x.row, x.dtype)
    shape = len(BLOCKS[block].branches) * y.shape[0], stage.kernel**2 * x.shape[0] + 1
    rng = np.random.default_rng(2)
    W, dW = rng.uniform(-1, 1, shape).astype(x.dtype), np.full(shape, np.nan, x.dtype)
    layer = ConvolutionLayer(BLOCKS[block].for_depth(3), ACTIVATIONS[activation], stage, (W, dW), x, y)
    if norm:
        layer.normalise(*normalisation(y.shape[0], x.dtype))
    return layer


def naive_convolution(images: np.ndarray, W: np.ndarray, b: np.ndarray, padding: int) -> np.ndarray:
    """Images (C, B, H, W) and W (D, k, k, C) give (D, B, h, w), number by number."""
    (D, kernel, _, C), around = W.shape, padded_by(images, padding)
    z = np.empty((D, images.shape[1], *(length - kernel + 1 for length in around.shape[2:])))
    for d, n, r, c in np.ndindex(z.shape):
        window = around[:, n, r : r + kernel, c : c + kernel]
        z[d, n, r, c] = b[d] + sum(W[d, i, j, m] * window[m, i, j] for i, j, m in np.ndindex(kernel, kernel, C))
    return z


CONVOLUTIONS = [Convolution(3, kernel, padding) for kernel, padding in KERNELS] + [Convolution(2), Convolution(2, 5, 1)]
every_convolution = pytest.mark.parametrize("stage", CONVOLUTIONS, ids=lambda s: f"{s.kernel}-{s.padding}-{s.maps}")


@every_convolution
@pytest.mark.parametrize("size", [(1, 5, 5), (3, 6, 7)], ids=str)
def test_a_convolution_is_what_four_loops_make_of_it(stage, size):
    images = random_images(2, size)
    layer = convolution(maps(images), stage)
    layer.forward()
    W = layer.W[:, :-1].reshape(stage.maps, stage.kernel, stage.kernel, 2)
    expected = np.tanh(naive_convolution(images, W, layer.W[:, -1], stage.padding))
    assert layer.y.images.shape == expected.shape
    np.testing.assert_allclose(layer.y.images, expected, rtol=1e-12, atol=1e-14)
    assert_zeros_around(layer.y)


@every_convolution
def test_a_convolutions_gradients_are_its_derivatives(stage):
    check_layer(lambda x: convolution(x, stage), random_images(2, (2, 6, 5)))


@of_every_size
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_a_blocks_gradients_are_its_derivatives_with_every_kernel_on_images_of_every_size(kernel, size):
    """An even kernel reaches further up and to the left."""
    check_layer(lambda x: convolution(x, Blocks(1, kernel), "highway"), random_images(1, size))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", CONV_BLOCKS)
def test_every_blocks_gradients_are_its_derivatives(block, activation, norm):
    check_layer(lambda x: convolution(x, Blocks(1), block, activation, norm), random_images(2, (3, 4, 3)))


def test_a_convolutional_highway_block_is_equation_3_pixel_by_pixel():
    images = random_images(2, (3, 4, 5))
    layer = convolution(maps(images), Blocks(1), "highway", "relu")
    layer.forward()
    H, T = np.split(naive_convolution(images, layer.W[:, :-1].reshape(4, 3, 3, 2), layer.W[:, -1], 1), 2)
    H, T = np.maximum(H, 0), 1 / (1 + np.exp(-T))
    np.testing.assert_allclose(layer.T, T, rtol=1e-12)
    np.testing.assert_allclose(layer.y.images, H * T + images * (1 - T), rtol=1e-12, atol=1e-14)
    assert_zeros_around(layer.y)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("stage", [Blocks(1), Convolution(3, 3, 0)], ids=["block", "convolution"])
@pytest.mark.parametrize("at_a_time", [1, 2, 3])
def test_results_do_not_depend_on_how_many_images_are_taken_at_a_time(monkeypatch, stage, at_a_time, norm):
    """3 at a time leave a part of two, and of 5 images 2 leave a part of one."""
    block, images = "highway" if isinstance(stage, Blocks) else "plain", random_images(2, (5, 4, 5))
    whole = convolution(maps(images), stage, block, norm=norm)
    monkeypatch.setattr(conv, "MAX_PATCH_ELEMENTS", at_a_time * whole.W.shape[1] * whole.x.pixels + 1)
    in_parts = convolution(maps(images), stage, block, norm=norm)
    assert (len(whole.chunks), len(in_parts.chunks)) == (1, math.ceil(5 / at_a_time))
    dy = np.random.default_rng(1).standard_normal(whole.y.images.shape)
    for layer in (whole, in_parts):
        run(layer, dy)
    for name, of in {
        "y": lambda layer: layer.y.padded,
        "dx": lambda layer: layer.x.gradient.padded,
        "dW": lambda layer: layer.dW,
    }.items():
        np.testing.assert_allclose(of(in_parts), of(whole), rtol=1e-10, atol=1e-14, err_msg=name)


# ------------------------------------------------------------------------------------------------ pools


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_as_many_windows_as_it_takes_cover_a_row_and_each_starts_inside(size, stride):
    for length in range(1, 13):
        starts = stride * np.arange(window_count(length, size, stride))
        assert starts[-1] < length
        assert starts[-1] + max(size, stride) >= length
        assert len(starts) == 1 or starts[-2] + size < length, "the last one is not needed"


def naive_max_pool(images: np.ndarray, dy: np.ndarray | None, size: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """y (C, B, h, w), and dx, all of it given to the first of the largest in each window, row by row."""
    C, B, H, W = images.shape
    h, w = window_count(H, size, stride), window_count(W, size, stride)
    y, dx = np.empty((C, B, h, w)), np.zeros(images.shape)
    for c, n, i, j in np.ndindex(y.shape):
        window = images[c, n, stride * i : stride * i + size, stride * j : stride * j + size]
        row, column = np.unravel_index(window.argmax(), window.shape)
        y[c, n, i, j] = window[row, column]
        dx[c, n, stride * i + row, stride * j + column] += dy[c, n, i, j]
    return y, dx


def max_pool(x: PaddedMaps, stage: MaxPool) -> MaxPoolLayer:
    return MaxPoolLayer(stage, x, PaddedMaps(stage.output(x.shape), x.batch, x.padding, 5, x.dtype))


MAX_POOLS = [MaxPool(3, 2), MaxPool(2, 2), MaxPool(3, 1), MaxPool(3, 3), MaxPool(1, 1), MaxPool(2, 3)]
POOLED = [(3, H, W) for H, W in ((1, 1), (1, 2), (2, 3), (4, 5), (5, 4), (6, 6), (7, 1))]
every_max_pool = pytest.mark.parametrize("stage", MAX_POOLS, ids=str)
with_pooled_sizes = pytest.mark.parametrize("size", POOLED, ids=str)


@every_max_pool
@with_pooled_sizes
@pytest.mark.parametrize("values", [1, 3, 1000], ids=lambda n: f"of {n} values")
def test_a_max_pool_is_what_loops_make_of_it_and_the_first_of_equals_has_all_of_the_gradient(stage, size, values):
    """All below 0, so that a window which hangs over an edge must not see a 0 there; few values have many equals."""
    rng = np.random.default_rng(3)
    images = rng.integers(-values, 0, (2, *size)).astype(float)
    layer = max_pool(maps(images), stage)
    dy = rng.integers(-9, 9, layer.y.images.shape).astype(float)
    run(layer, dy)
    y, dx = naive_max_pool(images, dy, *stage)
    np.testing.assert_array_equal(layer.y.images, y)
    np.testing.assert_array_equal(layer.x.gradient.images, dx)


@every_max_pool
@with_pooled_sizes
def test_a_max_pools_gradient_is_its_derivative(stage, size):
    check_layer(lambda x: max_pool(x, stage), random_images(2, size))


def test_a_max_pool_does_not_depend_on_how_many_images_are_taken_at_a_time(monkeypatch):
    images = random_images(2, (5, 5, 5))
    whole = max_pool(maps(images), MaxPool(3, 2))
    monkeypatch.setattr(conv, "MAX_PATCH_ELEMENTS", 2 * 2 * 2 * whole.x.pixels)  # half of it for two images of two maps
    in_parts = max_pool(maps(images), MaxPool(3, 2))
    assert (len(whole.chunks), len(in_parts.chunks)) == (1, 3)
    dy = np.random.default_rng(1).standard_normal(whole.y.images.shape)
    for layer in (whole, in_parts):
        run(layer, dy)
    np.testing.assert_array_equal(in_parts.y.padded, whole.y.padded)
    np.testing.assert_array_equal(in_parts.x.gradient.padded, whole.x.gradient.padded)


def average_pool(x: PaddedMaps, size: int) -> AveragePoolLayer:
    stage = AveragePool(size)
    return AveragePoolLayer(stage, x, PaddedMaps(stage.output(x.shape), x.batch, x.padding, 5, x.dtype))


@pytest.mark.parametrize("pool", [1, 2, 3, 8])
@with_pooled_sizes
def test_an_average_pool_is_the_mean_of_the_pixels_that_a_window_has(pool, size):
    """One that is cut at the edge has fewer; one that is as large as the image has all of them."""
    images, (_, H, W) = random_images(2, size), size
    layer = average_pool(maps(images), pool)
    layer.forward()
    assert layer.y.shape == (2, math.ceil(H / pool), math.ceil(W / pool))
    for i, j in np.ndindex(layer.y.shape[1:]):
        window = images[:, :, pool * i : pool * (i + 1), pool * j : pool * (j + 1)]
        np.testing.assert_allclose(layer.y.images[..., i, j], window.mean(axis=(2, 3)), rtol=1e-12, atol=1e-15)
    if pool == 8:
        np.testing.assert_allclose(layer.y.images[..., 0, 0], images.mean(axis=(2, 3)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("pool", [1, 2, 3, 8])
@with_pooled_sizes
def test_an_average_pools_gradient_is_its_derivative(pool, size):
    check_layer(lambda x: average_pool(x, pool), random_images(2, size))


# ---------------------------------------------------------------------------------------------- dropout


def dropout(x: PaddedMaps, rate: float, seed: int = 0) -> DropoutLayer:
    y = PaddedMaps(x.shape, x.batch, x.padding, 5, x.dtype)
    return DropoutLayer(Dropout(rate), x, y, np.random.default_rng(seed))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_makes_that_share_zero_and_keeps_the_mean(rate):
    """Over 60,000 ones the mean has a standard error of at most 0.008."""
    layer = dropout(maps(np.ones((2, 3, 100, 100))), rate)
    layer.forward()
    assert set(np.unique(layer.y.images)) == {0, np.float32(1 / (1 - rate))}
    assert (layer.y.images == 0).mean() == pytest.approx(rate, abs=0.01)
    assert layer.y.images.mean() == pytest.approx(1, abs=0.04)
    per_image = (layer.y.images == 0).reshape(6, -1)
    assert len(np.unique(per_image, axis=0)) == 6, "each map of each image has zeros of its own"


def test_the_gradient_goes_through_what_dropout_kept_and_the_next_pass_keeps_others():
    layer = dropout(maps(np.ones((2, 3, 5, 5))), 0.5)
    masks = []
    for _ in range(2):
        run(layer, np.ones((2, 3, 5, 5)))
        np.testing.assert_array_equal(layer.x.gradient.padded, layer.y.padded)
        masks.append(layer.mask.copy())
    assert (masks[0] != masks[1]).any()


def test_dropouts_gradient_is_its_derivative():
    def rewind(layer):
        layer.rng.bit_generator.state = np.random.default_rng(4).bit_generator.state

    check_layer(lambda x: dropout(x, 0.3), random_images(2, (3, 4, 5)), rewind)


def test_dropout_draws_from_its_generator_alone():
    images = random_images(2, (3, 4, 5))
    first, same, other = (dropout(maps(images), 0.5, seed) for seed in (1, 1, 2))
    for layer in (first, same, other):
        layer.forward()
    np.testing.assert_array_equal(first.y.images, same.y.images)
    assert (first.y.images != other.y.images).any()
    assert first.rng.bit_generator.state == same.rng.bit_generator.state
    assert first.rng.bit_generator.state != np.random.default_rng(1).bit_generator.state


# ---------------------------------------------------------------------------------- batch normalisation


def normalisation(D: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters, memory for gradients, running statistics of D maps, (2, D) each, none of them 0 or 1."""
    params, running = np.random.default_rng(5).uniform(0.5, 1.5, (2, 2, D)).astype(dtype)
    return params, np.full_like(params, np.nan), running


def test_batch_normalisation_gives_each_map_of_the_batch_mean_beta_and_deviation_gamma():
    z = 3 + 2 * random_images(4, (3, 5, 6))
    params, gradients, running = normalisation(4)
    BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_allclose(z.mean(axis=(1, 2, 3)), params[1], rtol=1e-12)
    np.testing.assert_allclose(z.std(axis=(1, 2, 3)), params[0], rtol=1e-5)  # but for ε


def test_running_statistics_move_a_tenth_of_the_way_to_the_batchs_mean_and_unbiased_variance():
    params, gradients, running = normalisation(4)
    expected = running.copy()
    for shift in (1, -2):
        z = shift + random_images(4, (3, 5, 6))
        expected = 0.9 * expected + 0.1 * np.array([z.mean(axis=(1, 2, 3)), z.var(axis=(1, 2, 3), ddof=1)])
        BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_allclose(running, expected, rtol=1e-12)


def test_in_evaluation_the_running_statistics_normalise_and_stay_as_they_are():
    z = random_images(4, (3, 5, 6))
    params, _, running = normalisation(4)
    before = running.copy()
    mean, variance, gamma, beta = (values[:, None, None, None] for values in (*before, *params))
    expected = gamma * (z - mean) / np.sqrt(variance + 1e-5) + beta
    BatchNorm(params, None, running, z).forward()
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(running, before)


def test_one_pixel_alone_is_normalised_to_beta_without_a_warning():
    z = np.full((4, 1, 1, 1), 7.0)
    params, gradients, running = normalisation(4)
    BatchNorm(params, gradients, running, z).forward()
    np.testing.assert_array_equal(z[:, 0, 0, 0], params[1])
    assert np.isfinite(running).all()


def test_batch_normalisations_gradients_are_its_derivatives():
    z = random_images(2, (3, 4, 3))
    dy = np.random.default_rng(1).standard_normal(z.shape)
    params, gradients, running = normalisation(2)
    norm = BatchNorm(params, gradients, running, z.copy())
    norm.forward()
    dz = dy.copy()
    norm.backward(dz)

    params, unused, running = normalisation(2, np.complex128)
    z = z.astype(complex)

    def loss():
        normed = z.copy()
        BatchNorm(params, unused, running, normed).forward()
        return (dy * normed).sum()

    expected = {name: complex_step(loss, tensor) for name, tensor in {"params": params, "z": z}.items()}
    check_gradients({"params": gradients, "z": dz}, expected, 1e-10)


# ------------------------------------------------------------------------------------------- the output


@of_every_size
def test_the_output_is_a_dense_layer_of_all_pixels_of_all_maps_and_has_its_gradients(size):
    """Map after map, row after row."""
    images, rng = random_images(2, size), np.random.default_rng(1)
    _, B, *_ = images.shape
    W, dlogits = rng.standard_normal((3, images[:, 0].size + 1)), rng.standard_normal((B, 3))
    layer = OutputLayer(W, np.full(W.shape, np.nan), maps(images))
    rows = images.transpose(1, 0, 2, 3).reshape(B, -1)
    np.testing.assert_allclose(layer.forward(), rows @ W[:, :-1].T + W[:, -1], rtol=1e-12, atol=1e-14)
    layer.backward(dlogits)
    assert_zeros_around(layer.x.gradient)

    moved = OutputLayer(W.astype(complex), None, maps(images, np.complex128))
    expected = {
        name: complex_step(lambda: (dlogits * moved.forward()).sum(), tensor)
        for name, tensor in (("W", moved.W), ("x", moved.x.images))
    }
    check_gradients({"W": layer.dW, "x": layer.x.gradient.images}, expected, 1e-10)
