"""Convolutional highway networks, in NumPy: forward and backward written by hand.

    python conv_highway_networks.py --net mnist-16 --seeds 0,1 --jobs 2      table 1's first net, two seeds side by side
    python conv_highway_networks.py --net highway-a --block highway          table 2's, on CIFAR-10

From sections 3.2 and 3.3 of the paper. A convolution is a layer of highway_networks.py whose columns are patches: each
pixel n of an image has a column x_n (k·k·C + 1) with the k x k pixels around it in all C maps, and a 1. Then

    z = W x        dW = dz xᵀ        dx = Wᵀ dz

are the same as in a dense layer, and so are the blocks: H, T and y of eq. 3, pixel by pixel. Only two things are new:
taking the patches, and its adjoint, which adds to each pixel the gradients of all patches that it is part of.

Inside, maps are (C, pixels of all images) with zeros between the images (see PaddedMaps); outside, a batch of images is
(B, C, H, W). The file reads from top to bottom: what a net is made of; padded maps and patches; pools, dropout, batch
normalisation; layers; the net. conv_recipes.py has the paper's nets, their training and the command.
"""

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from highway_lab import InputError
from highway_lab.cli import FINITE, hyperparameter, one_of
from highway_networks import (
    ACTIVATIONS,
    BLOCKS,
    Activation,
    Architecture,
    Block,
    Net,
    Tensors,
    affine_backward,
    affine_forward,
)

# ------------------------------------------------------------------------------ what a net is made of
# A list of stages. Each takes maps of one shape and gives maps of another, `output`.


Shape = tuple[int, int, int]  # C, H, W


class Convolution(NamedTuple):
    """A plain layer k x k with `maps` maps, however many come in."""

    maps: int
    kernel: int = 3
    padding: int = 1

    def output(self, shape: Shape) -> Shape:
        _, *sizes = shape
        return self.maps, *(size + 2 * self.padding - self.kernel + 1 for size in sizes)


class Blocks(NamedTuple):
    """`number` blocks k x k, each with as many maps as come in."""

    number: int
    kernel: int = 3

    @property
    def padding(self) -> int:
        return self.kernel // 2

    def output(self, shape: Shape) -> Shape:
        return shape


class MaxPool(NamedTuple):
    """The largest number of each window, size x size."""

    size: int
    stride: int

    def overhang(self, shape: Shape) -> int:
        """Return how many pixels the last window reaches over the edge."""
        return max((window_count(length, *self) - 1) * self.stride + self.size - length for length in shape[1:])

    def output(self, shape: Shape) -> Shape:
        C, *sizes = shape
        return C, *(window_count(length, self.size, self.stride) for length in sizes)


class AveragePool(NamedTuple):
    """The mean of each window, size x size, side by side; of all pixels where the size is that of the maps."""

    size: int

    def output(self, shape: Shape) -> Shape:
        C, *sizes = shape
        return C, *(window_count(length, self.size, self.size) for length in sizes)


class Dropout(NamedTuple):
    """Numbers set to zero in training, each with probability `rate`."""

    rate: float

    def output(self, shape: Shape) -> Shape:
        return shape


STAGES = {stage.__name__: stage for stage in (Convolution, Blocks, MaxPool, AveragePool, Dropout)}
Stage = Convolution | Blocks | MaxPool | AveragePool | Dropout
MOST_BLOCKS = 10_000  # of a net: a file that claims more is damaged


def window_count(length: int, size: int, stride: int) -> int:
    """Return how many windows cover a row of `length` pixels; the last may hang over the edge (Caffe rounds up).

    Each window starts inside the row. Where the stride is larger than a window, the last pixels may be in none.
    """
    return min(max(math.ceil((length - size) / stride), 0) + 1, math.ceil(length / stride))


def as_stage(entry: Stage | Sequence) -> Stage:
    """Return a stage, given as itself or as a list of its name and numbers; raises InputError for anything else."""
    try:
        return entry if isinstance(entry, Stage) else STAGES[entry[0]](*entry[1:])
    except (KeyError, IndexError, TypeError) as error:
        names = ", ".join(STAGES)
        raise InputError(f"stages: expected one of {names} and its numbers, found {entry!r}; choose one") from error


def check_stage(stage: Stage, shape: Shape) -> None:
    """Raise InputError for a stage with a wrong number, or one that does not fit maps of this shape."""

    def expect(expected: str, fits: bool) -> None:
        if not fits:
            raise InputError(f"stages: expected {expected}, found {stage} for maps {shape}; change it")

    for name, value in stage._asdict().items():
        if name == "rate":
            expect("a rate in [0, 1)", isinstance(value, int | float) and 0 <= value < 1)
        else:
            least = int(name != "padding")
            expect(f"{name} {least} or more, a whole number", isinstance(value, int) and value >= least)
    if isinstance(stage, Convolution):
        expect("padding of at most half the kernel", stage.padding <= stage.kernel // 2)
        expect("a kernel that fits into the maps", min(stage.output(shape)) >= 1)


# ------------------------------------------------------------------------------ padded maps and patches


class PaddedMaps:
    """C maps H x W of each of B images between zeros, so that a window over an edge finds zeros there.

    Each row of pixels is followed by `padding` zeros, each image by `padding` rows of zeros; the zeros before a row or
    an image are those after the one before it. So all windows move alike: one pixel to the right is one column further.

    padded (C, ...)      the columns between two margins of zeros
    columns (C, N)       N = B·(H + padding)·(W + padding)
    grid, images         views of the columns, (C, B, H + padding, W + padding) and (C, B, H, W)
    """

    def __init__(self, shape: Shape, batch: int, padding: int, margin: int, dtype: type):
        """`margin`: rows of zeros before the first and after the last image."""
        C, H, W = shape
        self.shape, self.batch, self.padding, self.dtype = shape, batch, padding, dtype
        self.row = W + padding
        self.pixels = (H + padding) * self.row  # of an image, with its zeros
        self.margin = margin * self.row
        self.padded = np.zeros((C, batch * self.pixels + 2 * self.margin), dtype)
        self.columns = self.padded[:, self.margin : self.padded.shape[1] - self.margin]
        self.grid = self.columns.reshape(C, batch, H + padding, self.row)
        self.images = self.grid[..., :H, :W]
        self._zeros = (
            self.padded[:, : self.margin],
            self.grid[..., H:, :],
            self.grid[..., W:],
            self.padded[:, -self.margin :],
        )

    @functools.cached_property
    def gradient(self) -> "PaddedMaps":
        """The gradient with respect to these maps, in the same form."""
        return PaddedMaps(self.shape, self.batch, self.padding, self.margin // self.row, self.dtype)

    def clear_padding(self) -> None:
        """Set the padding and the margins to zero again, after a pass over all columns."""
        for zeros in self._zeros:
            zeros[...] = 0


def windows(maps: PaddedMaps, kernel: int, padding: int) -> np.ndarray:
    """Return a view (k, k, C, N) of padded maps: for each column n, the pixels of the window around it.

    The window begins `padding` rows above and columns to the left of n. As plain loops, patches and their adjoint are

        for i, j, c, n in np.ndindex(k, k, C, N):
            pixel = n + (i - padding) * row + (j - padding)     # in a margin where it is below 0 or at least N
            x[(i * k + j) * C + c, n] = maps[c, pixel]          # patches_forward
            dmaps[c, pixel] += dx[(i * k + j) * C + c, n]       # patches_backward
    """
    first = maps.padded[:, maps.margin - padding * (maps.row + 1) :]
    along_maps, along_row = maps.padded.strides
    shape = (kernel, kernel, *maps.columns.shape)
    return as_strided(first, shape, (maps.row * along_row, along_row, along_maps, along_row))


def patches_forward(windows, x):
    x[:-1].reshape(windows.shape)[...] = windows  # x (k·k·C + 1, n), whose last row is 1


def patches_backward(dx, dwindows):
    for drow, dwindow_row in zip(dx.reshape(dwindows.shape), dwindows, strict=True):
        for d, dpixels in zip(drow, dwindow_row, strict=True):
            dpixels += d  # one place (i, j) of all windows at a time, as windows overlap


# --------------------------------------------------------------- pools, dropout, batch normalisation
# Forward above backward. Maps are (C, B, H, W), pooled maps (C, B, h, w). Max-pools work on columns (C, n): y has the
# largest number of the window that begins at each pixel, of which a stride then leaves some.


def window_max_forward(x, y, size, step):
    n = y.shape[1] - (size - 1) * step
    y[:, :n] = x[:, :n]
    for start in range(step, size * step, step):
        np.maximum(y[:, :n], x[:, start : start + n], out=y[:, :n])


def window_max_backward(dy, x, y, dx, size, step):
    n = y.shape[1] - (size - 1) * step
    dx[...] = 0
    open_windows = np.ones((len(x), n), bool)  # the first of several equal numbers receives the whole gradient
    for start in range(0, size * step, step):
        is_max = x[:, start : start + n] == y[:, :n]
        is_max &= open_windows
        open_windows ^= is_max
        dx[:, start : start + n] += dy[:, :n] * is_max.astype(dy.dtype)


def max_pool_forward(x, across, y, size, row):
    window_max_forward(x, across, size, 1)  # over `size` pixels to the right,
    window_max_forward(across, y, size, row)  # then over `size` rows down


def max_pool_backward(dy, x, across, y, dacross, dx, size, row):
    window_max_backward(dy, across, y, dacross, size, row)
    window_max_backward(dacross, x, across, dx, size, 1)


def average_pool_forward(x, y, size):
    H, W = x.shape[2:]
    sums = np.add.reduceat(np.add.reduceat(x, range(0, W, size), axis=3), range(0, H, size), axis=2)
    np.divide(sums, window_sizes(H, W, size), out=y)


def average_pool_backward(dy, dx, size):
    H, W = dx.shape[2:]
    share = dy / window_sizes(H, W, size)
    dx[...] = share.repeat(size, axis=2)[:, :, :H].repeat(size, axis=3)[..., :W]


def window_sizes(H: int, W: int, size: int) -> np.ndarray:
    """Return the number of pixels in each window, (h, w): fewer where it is cut at an edge."""
    return np.outer(*(np.diff([*range(0, length, size), length]) for length in (H, W)))


def dropout_forward(x, mask, y, rate, rng):
    mask[...] = rng.random(mask.shape, np.float32) >= rate
    mask *= 1 / (1 - rate)  # keeps the mean, so that evaluation needs no factor
    np.multiply(x, mask, out=y)


def dropout_backward(dy, mask, dx):
    np.multiply(dy, mask, out=dx)


EPSILON = 1e-5  # added to a variance
BATCH_NORM_MOMENTUM = 0.1  # weight of the latest batch in the running statistics


def batch_norm_forward(z, gamma, beta, mean, variance, z_hat):
    np.subtract(z, per_map(mean), out=z_hat)
    z_hat /= np.sqrt(per_map(variance) + EPSILON)  # ẑ = (z − mean) / √(variance + ε)
    np.multiply(z_hat, per_map(gamma), out=z)
    z += per_map(beta)  # z becomes γ·ẑ + β


def batch_norm_backward(dz, gamma, variance, z_hat, dgamma, dbeta):
    n = dz[0].size
    dbeta[...] = dz.sum(axis=(1, 2, 3))
    dgamma[...] = (dz * z_hat).sum(axis=(1, 2, 3))
    dz -= per_map(dbeta / n)  # through the mean of n pixels,
    dz -= z_hat * per_map(dgamma / n)  # through their variance,
    dz *= per_map(gamma) / np.sqrt(per_map(variance) + EPSILON)  # dz, so far that of γ·ẑ + β, becomes that of z


def per_map(values: np.ndarray) -> np.ndarray:
    """Return values (C,) in a form that fits maps (C, B, H, W)."""
    return values[:, None, None, None]


# -------------------------------------------------------------------------------------------- layers
# A layer reads padded maps x and fills padded maps y; its backward reads y.gradient and fills x.gradient.

MAX_PATCH_ELEMENTS = 2**19  # of the images that a layer takes at a time: their patches stay in the processor's cache


class BatchNorm:
    """Batch normalisation of H's affine map, map by map (Ioffe & Szegedy 2015), in place.

    Training uses the batch's mean and variance, which the running ones follow; evaluation uses the running ones.

    params, gradients      (2, D): γ above β; gradients are None in evaluation
    running                mean (D,) and variance (D,)
    z                      (D, B, H, W), a view of the affine map
    """

    def __init__(self, params: np.ndarray, gradients: np.ndarray | None, running: Sequence[np.ndarray], z: np.ndarray):
        self.params, self.gradients, self.running, self.z = params, gradients, running, z
        self.z_hat = np.empty(z.shape, z.dtype)

    def forward(self) -> None:
        """Replace z by γ·ẑ + β, where ẑ has mean 0 and variance 1."""
        mean, self.variance = self.running if self.gradients is None else self._batch_statistics()
        batch_norm_forward(self.z, *self.params, mean, self.variance, self.z_hat)

    def _batch_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        n, mean = self.z[0].size, self.z.mean(axis=(1, 2, 3))
        variance = ((self.z - per_map(mean)) ** 2).mean(axis=(1, 2, 3))
        for running, latest in zip(self.running, (mean, variance * n / max(n - 1, 1)), strict=True):
            running += BATCH_NORM_MOMENTUM * (latest - running)
        return mean, variance

    def backward(self, dz: np.ndarray) -> None:
        """Replace the gradient dz (D, B, H, W) with respect to γ·ẑ + β by that with respect to z."""
        batch_norm_backward(dz, self.params[0], self.variance, self.z_hat, *self.gradients)


class Chunk(NamedTuple):
    """Views of the images that a convolution takes at a time, or of the gradients with respect to them."""

    windows: np.ndarray  # (k, k, C, n)
    x: np.ndarray  # (C, n)
    z: np.ndarray  # (G·D, n)
    branches: np.ndarray  # z as (G, D, n), or as (G, D, images, H, W) where y has another shape than x
    y: np.ndarray  # (D, n), or (D, images, H, W)


class ConvolutionLayer:
    """A block whose affine maps are convolutions: patches, z = W x, then the pair of functions from BLOCKS.

    Where y has another shape than x, the block must be plain.
    """

    def __init__(
        self,
        block: Block,
        activation: Activation,
        stage: Convolution | Blocks,
        weights: tuple[np.ndarray, np.ndarray | None],
        x: PaddedMaps,
        y: PaddedMaps,
    ):
        """`weights`: W (G·D, k·k·C + 1) and memory for dW, None in evaluation."""
        (self.W, self.dW), self.block, self.activation, self.stage = weights, block, activation, stage
        self.x, self.y, self.norm = x, y, None
        rows, K = self.W.shape
        self.images = min(max(MAX_PATCH_ELEMENTS // (K * x.pixels), 1), x.batch)  # at a time
        self.patches = np.ones((K, self.images * x.pixels), x.dtype)
        self.z = np.empty((rows, x.columns.shape[1]), x.dtype)
        self.chunks = list(self._cut(x, self.z, y))

    def normalise(self, params: np.ndarray, gradients: np.ndarray | None, running: Sequence[np.ndarray]) -> None:
        """Put batch normalisation between H's affine map and its activation; arguments as in BatchNorm."""
        self.norm = BatchNorm(params, gradients, running, self._pixels(self.z)[0])

    def _cut(self, x: PaddedMaps, z: np.ndarray, y: PaddedMaps) -> Iterator[Chunk]:
        """Yield views of maps and of z (G·D, columns), which is of all images or of one chunk."""
        all_windows = windows(x, self.stage.kernel, self.stage.padding)
        G, (D, H, W) = len(self.block.branches), y.shape
        for first in range(0, x.batch, self.images):
            images = slice(first, min(first + self.images, x.batch))
            columns = slice(images.start * x.pixels, images.stop * x.pixels)
            z_n = z[:, columns] if z.shape[1] == x.columns.shape[1] else z[:, : columns.stop - columns.start]
            if x.shape == y.shape:
                branches, y_n = z_n.reshape(G, D, -1), y.columns[:, columns]
            else:
                branches, y_n = z_n.reshape(G, D, -1, *x.grid.shape[2:])[..., :H, :W], y.images[:, images]
            yield Chunk(all_windows[..., columns], x.columns[:, columns], z_n, branches, y_n)

    def _pixels(self, z: np.ndarray) -> np.ndarray:
        """Return the pixels (G, D, B, H, W) among the columns of z (G·D, N)."""
        D, H, W = self.y.shape
        return z.reshape(-1, D, *self.x.grid.shape[1:])[..., :H, :W]

    @property
    def T(self) -> np.ndarray:
        """The transform gates (D, B, H, W) of a block that has them."""
        return self._pixels(self.z)[1]

    @functools.cached_property
    def dz(self) -> np.ndarray:
        """The gradient with respect to z, of all images or of one chunk; 0 also between the images."""
        return np.zeros_like(self.z if self.norm else self.z[:, : self.images * self.x.pixels])

    @functools.cached_property
    def dchunks(self) -> list[Chunk]:
        """The gradients with respect to `chunks`."""
        return list(self._cut(self.x.gradient, self.dz, self.y.gradient))

    @functools.cached_property
    def backward_memory(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Memory of the backward pass: a block's `scratch`, dx of the patches, dWᵀ."""
        return tuple(np.empty(a.shape, self.z.dtype) for a in (self.chunks[0].y, self.patches[:-1], self.W.T))

    def forward(self) -> None:
        """Fill y."""
        for group in self._groups(self.chunks):
            for chunk in group:
                affine_forward(self.W, self._patches(chunk), chunk.z)
            if self.norm:
                self.norm.forward()  # H's z becomes γ·ẑ + β
            for chunk in group:
                self.block.forward(chunk.x, chunk.branches, chunk.y, self.activation)  # z becomes H, T, ...
        self.y.clear_padding()

    def backward(self, *, dx_wanted: bool = True) -> None:
        """Fill dW and, if it is wanted, x.gradient."""
        self.dW[...] = 0
        scratch, *_ = self.backward_memory
        for group in self._groups(list(zip(self.chunks, self.dchunks, strict=True))):
            for chunk, d in group:
                n = chunk.y.shape[1]
                self.block.backward(d.y, chunk.x, chunk.branches, d.branches, d.x, self.activation, scratch[:, :n])
            if self.norm:
                self.norm.backward(self._pixels(self.dz)[0])  # H's dz, so far that of γ·ẑ + β, becomes that of z
            for chunk, d in group:
                self._affine_backward(chunk, d, dx_wanted)
        self.x.gradient.clear_padding()

    def _groups(self, chunks: list) -> list[list]:
        """Return the chunks in groups that pass a step together: with batch normalisation all, else each alone."""
        return [chunks] if self.norm else [[chunk] for chunk in chunks]

    def _patches(self, chunk: Chunk) -> np.ndarray:
        """Return the patches (k·k·C + 1, n) of a chunk, in memory that those of the next one overwrite."""
        x = self.patches[:, : chunk.z.shape[1]]
        patches_forward(chunk.windows, x)
        return x

    def _affine_backward(self, chunk: Chunk, d: Chunk, dx_wanted: bool) -> None:
        """Add a chunk's share to dW and to the gradient of its windows."""
        _, dx, dWt = self.backward_memory
        x = self._patches(chunk)  # again: faster than keeping the patches of all images
        np.matmul(x, d.z.T, out=dWt)  # dWᵀ = x dzᵀ, which OpenBLAS multiplies faster than dz xᵀ
        self.dW += dWt.T
        if dx_wanted:
            dx = dx[:, : x.shape[1]]
            np.matmul(self.W[:, :-1].T, d.z, out=dx)  # dx = Wᵀ dz, with respect to the patches
            patches_backward(dx, d.windows)


class MaxPoolLayer:
    """The largest number of each window, a few images at a time.

    Their pixels lie between −inf instead of zeros, as windows hang over edges.

    grids      (3, C, images, H + padding, W + padding): x; the largest numbers across; the largest of each window
    dgrids     the gradients with respect to them
    """

    def __init__(self, stage: MaxPool, x: PaddedMaps, y: PaddedMaps):
        self.stage, self.x, self.y = stage, x, y
        C = x.shape[0]
        images = max(MAX_PATCH_ELEMENTS // (2 * C * x.pixels), 1)  # long rows matter more here than the cache
        self.chunks = [slice(first, first + images) for first in range(0, x.batch, images)]
        both = np.full((2, 3, C, min(images, x.batch), *x.grid.shape[2:]), -np.inf, x.dtype)
        self.grids, self.dgrids = both
        self.columns, self.dcolumns = both.reshape(2, 3, C, -1)

    def _pool(self, images: slice) -> None:
        """Fill `grids`."""
        x = self.x.images[:, images]
        self._corner(self.grids[0], x)[...] = x
        max_pool_forward(*self.columns, self.stage.size, self.x.row)

    @staticmethod
    def _corner(grid: np.ndarray, images: np.ndarray, stride: int = 1) -> np.ndarray:
        """Return the part of a grid, all pixels or every `stride`-th one, that has the shape of these images."""
        _, n, H, W = images.shape
        return grid[:, :n, ::stride, ::stride][..., :H, :W]

    def forward(self) -> None:
        """Fill y."""
        for images in self.chunks:
            self._pool(images)
            y = self.y.images[:, images]
            y[...] = self._corner(self.grids[2], y, self.stage.stride)

    def backward(self) -> None:
        """Fill x.gradient."""
        for images in self.chunks:
            self._pool(images)
            dy, dx = self.y.gradient.images[:, images], self.x.gradient.images[:, images]
            self.dgrids[2] = 0
            self._corner(self.dgrids[2], dy, self.stage.stride)[...] = dy
            d, dacross, dlargest = self.dcolumns
            max_pool_backward(dlargest, *self.columns, dacross, d, self.stage.size, self.x.row)
            dx[...] = self._corner(self.dgrids[0], dx)


class AveragePoolLayer:
    """The mean of each window."""

    def __init__(self, stage: AveragePool, x: PaddedMaps, y: PaddedMaps):
        self.stage, self.x, self.y = stage, x, y

    def forward(self) -> None:
        """Fill y."""
        average_pool_forward(self.x.images, self.y.images, self.stage.size)

    def backward(self) -> None:
        """Fill x.gradient."""
        average_pool_backward(self.y.gradient.images, self.x.gradient.images, self.stage.size)


class DropoutLayer:
    """Numbers kept or set to zero at random; a workspace for evaluation has no such layer."""

    def __init__(self, stage: Dropout, x: PaddedMaps, y: PaddedMaps, rng: np.random.Generator):
        self.stage, self.x, self.y, self.rng = stage, x, y, rng
        self.mask = np.empty(x.images.shape, np.float32)

    def forward(self) -> None:
        """Fill y."""
        dropout_forward(self.x.images, self.mask, self.y.images, self.stage.rate, self.rng)

    def backward(self) -> None:
        """Fill x.gradient."""
        dropout_backward(self.y.gradient.images, self.mask, self.x.gradient.images)


class OutputLayer:
    """Logits from all pixels of all maps: a dense layer."""

    def __init__(self, W: np.ndarray, dW: np.ndarray | None, x: PaddedMaps):
        self.W, self.dW, self.x = W, dW, x
        self.flat = np.ones((W.shape[1], x.batch), W.dtype)  # (C·H·W + 1, B)

    def forward(self) -> np.ndarray:
        """Return the logits (B, K)."""
        C, H, W = self.x.shape
        self.flat[:-1].reshape(C, H, W, -1)[...] = self.x.images.transpose(0, 2, 3, 1)
        return (self.W @ self.flat).T

    def backward(self, dlogits: np.ndarray) -> None:
        """Fill dW and x.gradient."""
        dflat = np.empty_like(self.flat[:-1])
        affine_backward(dlogits.T, self.W, self.flat, self.dW, dflat)
        self.x.gradient.images[...] = dflat.reshape(*self.x.shape, -1).transpose(0, 3, 1, 2)


# --------------------------------------------------------------------------------------------- the net


class PlacedLayer(NamedTuple):
    """A stage at its place in a net, each block of a stage alone; `branches` is empty for a layer without weights."""

    stage: Stage
    x_shape: Shape
    y_shape: Shape
    branches: str

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Shape of [W_H b_H; W_T b_T; ...]: a row for each map of each branch, a column for each number of a patch."""
        return len(self.branches) * self.y_shape[0], self.stage.kernel**2 * self.x_shape[0] + 1


class ConvParameters(Tensors):
    """Parameters of a ConvNet: l.W_H (D, k·k·C), l.b_H (D), ... of layer l, from 1; l.gamma (D), l.beta (D) where its H
    is normalised; W_out (K, C·H·W), b_out (K).

    convolutions     a list of (G·D, k·k·C + 1) = [W_H b_H; W_T b_T; ...]
    output           (K, C·H·W + 1) = [W_out b_out]
    norms            (2, D), γ above β, by layer
    """

    def __init__(self, layers: Sequence[PlacedLayer], output: tuple[int, int], normed: Sequence[int], dtype: type):
        L = len(layers)
        matrices = [layer.matrix_shape for layer in layers]
        super().__init__([*matrices, output, *((2, layers[l - 1].y_shape[0]) for l in normed)], dtype)
        self.convolutions, self.output = self.pieces[:L], self.pieces[L]
        self.norms = dict(zip(normed, self.pieces[L + 1 :], strict=True))
        for l, (layer, matrix) in enumerate(zip(layers, self.convolutions, strict=True), start=1):
            for branch, rows in zip(layer.branches, np.split(matrix, len(layer.branches)), strict=True):
                self.name_affine(branch, rows, f"{l}.")
        self.name_affine("out", self.output)
        for l, (gamma, beta) in self.norms.items():
            self.views |= {f"{l}.gamma": gamma, f"{l}.beta": beta}


@dataclass(frozen=True)
class ConvArchitecture(Architecture):
    """Hyperparameters of a ConvNet, beside its stages."""

    activation: str = hyperparameter("relu", "activation in H", one_of(ACTIVATIONS))
    init: str = hyperparameter("he", "initial weights: normalised, or uniform in ±1/√fan_in", one_of(("he", "uniform")))
    gate_bias: float = hyperparameter(-1.0, "initial transform-gate bias b_T", FINITE)
    batch_norm: bool = hyperparameter(False, "normalise H's affine map over the batch")
    contrast: bool = hyperparameter(False, "global contrast normalisation, and subtract the mean image")


class ConvNet(Net):
    """Stages of convolutions, blocks and pools, then a dense layer to K = d_out logits.

    shape          of an image, (C, H, W)
    stages         what the net is made of, in order; each may be a list, its name first, as in `config`
    architecture   the fields of ConvArchitecture; rng and dtype as in DeepNet

    depth is the number of blocks. Raises InputError for an unknown name, and for stages that do not fit together.
    """

    def __init__(
        self,
        shape: Sequence[int],
        d_out: int,
        *,
        stages: Sequence[Stage | list],
        rng: np.random.Generator | None,
        **architecture: Any,
    ):
        stages = [as_stage(stage) for stage in stages]
        saved = {"shape": list(shape), "d_out": d_out, "stages": [[type(stage).__name__, *stage] for stage in stages]}
        super().__init__(ConvArchitecture(**architecture), **saved)
        if len(shape) != 3 or min(shape) < 1:
            raise InputError(f"shape: expected channels, rows and columns, found {list(shape)}; choose images")
        if self.block.rows(2) != 2 * len(self.block.branches):
            found = f"expected branches with as many maps as x, found {self.config['block']} blocks"
            raise InputError(f"block: {found}; choose another")
        self.layers = list(self._place(stages, tuple(shape)))
        self.convolutions = [layer for layer in self.layers if layer.branches]
        if not self.convolutions:
            raise InputError("stages: expected a convolution or a block, found none; add one")
        blocks = [l for l, layer in enumerate(self.convolutions, start=1) if isinstance(layer.stage, Blocks)]
        self.depth, self.normed = len(blocks), blocks if self.config["batch_norm"] else []
        self.block = self.block.for_depth(self.depth)
        overhangs = [layer.stage.overhang(layer.x_shape) for layer in self.layers if isinstance(layer.stage, MaxPool)]
        self.padding = max([layer.stage.padding for layer in self.convolutions] + overhangs)
        self.margin = max(layer.stage.kernel for layer in self.convolutions)
        self.params = self.new_parameters()
        if rng:
            self.draw(rng)
        for l, (gamma, _) in self.params.norms.items():
            self.buffers |= {f"{l}.mean": np.zeros_like(gamma), f"{l}.variance": np.ones_like(gamma)}
        if self.config["contrast"]:
            self.buffers["mean"] = np.zeros(shape, self.dtype)

    def _place(self, stages: Sequence[Stage], shape: Shape) -> Iterator[PlacedLayer]:
        """Yield the layers of the stages; raises InputError for a stage that cannot be at its place."""
        blocks = 0
        for stage in stages:
            check_stage(stage, shape)
            if isinstance(stage, Blocks):
                blocks += stage.number
                if blocks > MOST_BLOCKS:
                    raise InputError(f"stages: expected at most {MOST_BLOCKS} blocks, found {blocks}; use fewer")
                yield from [PlacedLayer(Blocks(1, stage.kernel), shape, shape, self.block.branches)] * stage.number
            else:
                yield PlacedLayer(stage, shape, stage.output(shape), "H" if isinstance(stage, Convolution) else "")
            shape = stage.output(shape)

    def new_parameters(self) -> ConvParameters:
        """Return zeros in the form of this net's parameters."""
        output = self.config["d_out"], math.prod(self.layers[-1].y_shape) + 1
        return ConvParameters(self.convolutions, output, self.normed, self.dtype)

    def draw(self, rng: np.random.Generator) -> None:
        """Give the parameters their initial values."""
        super().draw(rng)
        for gamma, _ in self.params.norms.values():
            gamma[...] = 1

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> "ConvWorkspace":
        """Allocate the memory of the passes over batches of one size, for training if there is a generator."""
        return ConvWorkspace(self, batch_size, rng)

    def forward(self, x: np.ndarray, workspace: "ConvWorkspace | None" = None) -> tuple[np.ndarray, "ConvWorkspace"]:
        """Return the logits (B, K) of a batch x (B, C, H, W), and the workspace, which is the cache of `backward`.

        Without a workspace the pass is an evaluation: no dropout, the running statistics.
        """
        w = workspace or ConvWorkspace(self, len(x))
        expected = (w.input.batch, *w.input.shape)
        if x.shape != expected:  # it might be broadcast
            raise ValueError(f"expected a batch of shape {expected} for this workspace, found {x.shape}")
        w.input.images[...] = x.transpose(1, 0, 2, 3)
        with unbuffered():
            for layer in w.layers:
                layer.forward()
            return w.output.forward(), w

    def backward(self, dlogits: np.ndarray, cache: "ConvWorkspace", *, return_dx: bool = False):
        """Return the gradients of the loss with respect to the parameters, given dlogits (B, K) and the cache.

        A mapping like `params`, which lives in the cache; with `return_dx` also the gradient with respect to the
        images, (B, C, H, W).
        """
        w = cache
        if w.gradients is None:
            raise ValueError("expected a workspace for training, found one for evaluation; give it a generator")
        with unbuffered():
            w.output.backward(dlogits)
            for layer in reversed(w.layers[w.first + 1 :]):
                layer.backward()
            w.layers[w.first].backward(dx_wanted=return_dx)
            for layer in reversed(w.layers[: w.first] if return_dx else []):
                layer.backward()
        return (w.gradients, w.input.gradient.images.transpose(1, 0, 2, 3)) if return_dx else w.gradients

    def predict(self, x: np.ndarray, rows: int = 100) -> np.ndarray:
        """Return the logits (n, K) of images x (n, C, H, W), any n: `rows` at a time."""
        logits, workspace = np.empty((len(x), self.config["d_out"]), self.dtype), None
        for start in range(0, len(x), rows):
            batch = x[start : start + rows]
            if workspace is None or len(batch) < rows:
                workspace = ConvWorkspace(self, len(batch))
            logits[start : start + rows], _ = self.forward(batch, workspace)
        return logits

    def gate_means(self, x: np.ndarray) -> np.ndarray:
        """Return the mean of T of each block, (L,), over images x (B, C, H, W), for a net whose blocks have gates."""
        _, workspace = self.forward(x)
        return np.array([T.mean() for T in workspace.T])

    def preprocess(self, images: np.ndarray) -> np.ndarray:
        """Return images (n, C, H, W), uint8, as the net takes them: 0 to 1, or equal contrast minus the mean image."""
        if not self.config["contrast"]:
            return np.multiply(images, 1 / 256, dtype=self.dtype)
        return contrast_normalised(images, self.dtype) - self.buffers["mean"]


def contrast_normalised(images: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Return images (n, C, H, W), each minus its mean and divided by its standard deviation; 0 where that is 0.

    That is global contrast normalisation.
    """
    x = images.astype(dtype)
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    deviation = x.std(axis=(1, 2, 3), keepdims=True)
    return np.divide(x, deviation, out=x, where=deviation > 0)


@contextmanager
def unbuffered() -> Iterator[None]:
    """Have elementwise functions work in place; e^−z may overflow to inf, where σ(z) is rightly 0.

    NumPy copies operands whose rows are not adjacent to a buffer and back if the rows are shorter than a third of it:
    a pass over a few images then takes three times as long. 16 is the smallest buffer.
    """
    with np.errstate(over="ignore"):
        np.setbufsize(16)
        yield


class ConvWorkspace:
    """Maps and layers for passes over batches of one size, allocated once; each pass overwrites the one before it.

    A workspace with a generator is for training: dropout draws from it, batch normalisation takes the batch's
    statistics, and there are gradients.

    input, layers, output     the maps of the images, and the layers in order
    first                     the index of the first layer with parameters
    T                         the transform gates (D, B, H, W) of each block that has them
    """

    def __init__(self, net: ConvNet, batch: int, rng: np.random.Generator | None = None):
        self.gradients = net.new_parameters() if rng else None
        maps = functools.partial(PaddedMaps, batch=batch, padding=net.padding, margin=net.margin, dtype=net.dtype)
        self.input = x = maps(net.layers[0].x_shape)
        self.layers, convolutions = [], []
        for stage, _, y_shape, _ in net.layers:
            if isinstance(stage, Dropout) and not (rng and stage.rate):
                continue
            y = maps(y_shape)
            match stage:
                case Convolution() | Blocks():
                    layer = self._convolution(net, stage, len(convolutions) + 1, x, y)
                    convolutions.append(layer)
                case MaxPool():
                    layer = MaxPoolLayer(stage, x, y)
                case AveragePool():
                    layer = AveragePoolLayer(stage, x, y)
                case Dropout():
                    layer = DropoutLayer(stage, x, y, rng)
            self.layers.append(layer)
            x = y
        self.first = self.layers.index(convolutions[0])
        self.T = [layer.T for layer in convolutions if "T" in layer.block.branches]
        self.output = OutputLayer(net.params.output, rng and self.gradients.output, x)

    def _convolution(
        self, net: ConvNet, stage: Convolution | Blocks, l: int, x: PaddedMaps, y: PaddedMaps
    ) -> ConvolutionLayer:
        block = net.block if isinstance(stage, Blocks) else BLOCKS["plain"]
        params, gradients = net.params, self.gradients
        weights = params.convolutions[l - 1], gradients and gradients.convolutions[l - 1]
        layer = ConvolutionLayer(block, net.activation, stage, weights, x, y)
        if l in net.normed:
            running = net.buffers[f"{l}.mean"], net.buffers[f"{l}.variance"]
            layer.normalise(params.norms[l], gradients and gradients.norms[l], running)
        return layer


if __name__ == "__main__":
    import conv_recipes  # the command: not above, as it builds on this file

    sys.exit(conv_recipes.main())
