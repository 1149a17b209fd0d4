"""Convolutional highway networks, in NumPy: the nets of tables 1 to 3, forward and backward written by hand.

    python conv_highway_networks.py --net mnist-16 --seeds 0,1 --jobs 2      table 1's first net, two seeds side by side
    python conv_highway_networks.py --net highway-a --block highway          table 2's, on CIFAR-10

From sections 3.2 and 3.3 of the paper. A convolution is a layer of highway_networks.py whose columns are patches: to
each pixel n of an image belongs a column x_n (k·k·C + 1) of the k x k pixels around it in all C maps, and a 1; then

    z = W x        dW = dz xᵀ        dx = Wᵀ dz

are what they are in a dense layer, and so are the blocks: H, T and y of eq. 3, pixel by pixel. Only two things are new:
taking the patches, and its adjoint, which adds to each pixel the gradients of all patches that it is part of.

Inside, maps are (C, pixels of all images) with zeros between the images (see Maps); outside, a batch of images is
(B, C, H, W). The file reads from top to bottom: maps and patches; pools, dropout, batch normalisation; the layers; what
a net is made of, and the paper's; the net; images as it takes them; training, the command.
"""

import argparse
import dataclasses
import functools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from highway_lab.cli import (
    FINITE,
    POSITIVE,
    UNIT,
    ZERO_OR_MORE,
    InputError,
    OneLineParser,
    add_hyperparameters,
    hyperparameter,
    one_of,
    run_cli,
)
from highway_lab.datasets import DATASETS
from highway_lab.jobs import add_training_flags, check_number, check_places, default_log, given_fields, run_job
from highway_lab.logs import DatasetInfo, RunLog
from highway_lab.training import OPTIMIZERS, SCHEDULE, TrainingConfig, batch_sizes
from highway_networks import (
    ACTIVATIONS,
    BLOCKS,
    Activation,
    Architecture,
    Block,
    Dataset,
    Net,
    Tensors,
    affine_backward,
    affine_forward,
    load_dataset,
    train,
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
            pixel = n + (i - padding) * row + (j - padding)
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
    dz *= per_map(gamma) / np.sqrt(per_map(variance) + EPSILON)  # dz, which was that of γ·ẑ + β, becomes that of z


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
    branches: np.ndarray  # (G, D, n), or (G, D, images, H, W) where y is of another size than x
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
    def scratch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Memory for the backward pass: scratch in the form of y, the gradient of the patches, dWᵀ."""
        return tuple(np.empty(a.shape, self.z.dtype) for a in (self.chunks[0].y, self.patches[:-1], self.W.T))

    def forward(self) -> None:
        """Fill y."""
        for group in self._groups(self.chunks):
            for chunk in group:
                affine_forward(self.W, self._patches(chunk), chunk.z)
            if self.norm:
                self.norm.forward()
            for chunk in group:
                self.block.forward(chunk.x, chunk.branches, chunk.y, self.activation)
        self.y.clear_padding()

    def backward(self, *, dx_wanted: bool = True) -> None:
        """Fill dW and, if it is wanted, x.gradient."""
        self.dW[...] = 0
        scratch, *_ = self.scratch
        for group in self._groups(list(zip(self.chunks, self.dchunks, strict=True))):
            for chunk, d in group:
                n = chunk.y.shape[1]
                self.block.backward(d.y, chunk.x, chunk.branches, d.branches, d.x, self.activation, scratch[:, :n])
            if self.norm:
                self.norm.backward(self._pixels(self.dz)[0])
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
        _, dx, dWt = self.scratch
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
        """Return the part of a grid, of its pixels or of each `stride`-th one, that has the shape of these images."""
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
        affine_backward(dlogits.T, self.flat, self.W, self.dW, dflat)
        self.x.gradient.images[...] = dflat.reshape(*self.x.shape, -1).transpose(0, 3, 1, 2)


# ---------------------------------------------------------------------------------- the paper's nets


@dataclass(frozen=True)
class Recipe:
    """A net of the paper: its data set, its stages, and where its training differs from ConvConfig's defaults."""

    dataset: str
    stages: Sequence[Stage]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


def mnist(maps: int, blocks: Sequence[int] = (2, 3, 3)) -> Recipe:
    """Table 1's nets: 10 layers, counting the first convolution and the dense layer; 39 K parameters with 16 maps."""
    first, second, third = map(Blocks, blocks)
    begin = (Dropout(0.2), Convolution(maps, 5, padding=0), first, MaxPool(3, 2), Dropout(0.3), second)
    return Recipe("mnist", (*begin, MaxPool(3, 2), Dropout(0.4), third, MaxPool(2, 2), Dropout(0.5)))


def fitnet(*stages: Stage, **settings: Any) -> Recipe:
    """A net for 32 x 32 images in colour."""
    shared = {"contrast": True, "augment": True, "n_train": 45_000, "lr": 0.06, "weight_decay": 5e-4}
    return Recipe("cifar-10", stages, shared | settings)


def alternating(number: int) -> list[Blocks]:
    """So many blocks, 3x3 and 1x1 in turn."""
    return [Blocks(1, (3, 1)[index % 2]) for index in range(number)]


TABLE_3 = (  # 19 layers, 2,256,838 parameters
    *(Convolution(32), Blocks(4), MaxPool(3, 2), Dropout(0.2)),
    *(Convolution(80), Blocks(5), MaxPool(3, 2), Dropout(0.2)),
    *(Convolution(128), Blocks(5), Convolution(100, 1, padding=0), AveragePool(8), Dropout(0.2)),
)

NETS = {
    "mnist-16": mnist(16),
    "mnist-32": mnist(32),
    "mnist-8": mnist(8),
    "mnist-8-20": mnist(8, (6, 6, 6)),
    "mnist-8-30": mnist(8, (9, 9, 10)),
    # Table 2. No file of theirs was published: A is the net of 11 layers that comes nearest to its 236 K parameters.
    "highway-a": fitnet(
        *(Convolution(16), Blocks(2), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(32), Blocks(3), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(64), Blocks(2), AveragePool(8), Dropout(0.2)),
    ),
    # 19 layers, 2.3 M: we take the net of table 3, of which a file is published; table 2's ended in a dense layer.
    "highway-b": fitnet(*TABLE_3, gate_bias=-2.0),
    # 32 layers, 1.25 M, 3x3 and 1x1 in turn: we assume three stages of 9 blocks, twice the maps from one to the next,
    # and the end of table 3's net; 24 maps in the first stage make 1,251,798 parameters.
    "highway-c": fitnet(
        *(Convolution(24), *alternating(9), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(48), *alternating(9), MaxPool(3, 2), Dropout(0.2)),
        *(Convolution(96), *alternating(9), Convolution(100, 1, padding=0), AveragePool(8), Dropout(0.2)),
        gate_bias=-3.0,
    ),
    "table-3": fitnet(*TABLE_3, gate_bias=-2.0),
    "digits": Recipe(  # scikit-learn's 8 x 8: to see it work in seconds
        "digits", (Convolution(8), Blocks(2), MaxPool(3, 2), Blocks(2), MaxPool(2, 2)), {"lr": 0.05, "batch_size": 20}
    ),
}


# --------------------------------------------------------------------------------------------- the net


class Place(NamedTuple):
    """A stage where it stands in a net: what comes in, what goes out, and the branches of a convolution or a block."""

    stage: Stage
    x: Shape
    y: Shape
    branches: str

    @property
    def matrix(self) -> tuple[int, int]:
        """The shape of [W_H b_H; W_T b_T; ...]: rows for the maps of each branch, columns for the pixels of a patch."""
        return len(self.branches) * self.y[0], self.stage.kernel**2 * self.x[0] + 1


class ConvParameters(Tensors):
    """Those of a ConvNet: of layer l, from 1, l.W_H (D, k·k·C), l.b_H (D), ..., l.gamma (D), l.beta (D) where its H is
    normalised; W_out (K, C·H·W), b_out (K).

    layers     a list of (G·D, k·k·C + 1) = [W_H b_H; W_T b_T; ...]
    output     (K, C·H·W + 1) = [W_out b_out]
    norms      (2, D), γ above β, by layer
    """

    def __init__(self, convolutions: Sequence[Place], output: tuple[int, int], normed: Sequence[int], dtype: type):
        L = len(convolutions)
        matrices = [place.matrix for place in convolutions]
        super().__init__([*matrices, output, *((2, convolutions[l - 1].y[0]) for l in normed)], dtype)
        self.layers, self.output = self.pieces[:L], self.pieces[L]
        self.norms = dict(zip(normed, self.pieces[L + 1 :], strict=True))
        for l, (place, matrix) in enumerate(zip(convolutions, self.layers, strict=True), start=1):
            for branch, rows in zip(place.branches, np.split(matrix, len(place.branches)), strict=True):
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
        self.places = list(self._places(stages, tuple(shape)))
        self.convolutions = [place for place in self.places if place.branches]
        if not self.convolutions:
            raise InputError("stages: expected a convolution or a block, found none; add one")
        blocks = [l for l, place in enumerate(self.convolutions, start=1) if isinstance(place.stage, Blocks)]
        self.depth, self.normed = len(blocks), blocks if self.config["batch_norm"] else []
        self.block = self.block.for_depth(self.depth)
        overhangs = [place.stage.overhang(place.x) for place in self.places if isinstance(place.stage, MaxPool)]
        self.padding = max([place.stage.padding for place in self.convolutions] + overhangs)
        self.margin = max(place.stage.kernel for place in self.convolutions)
        self.params = self.new_parameters()
        if rng:
            self.draw(rng)
        self.running = {l: np.zeros_like(norm) for l, norm in self.params.norms.items()}
        for l, (mean, variance) in self.running.items():
            variance[...] = 1
            self.buffers |= {f"{l}.mean": mean, f"{l}.variance": variance}
        if self.config["contrast"]:
            self.buffers["mean"] = np.zeros(shape, self.dtype)

    def _places(self, stages: Sequence[Stage], shape: Shape) -> Iterator[Place]:
        """The stages where they stand, blocks one by one; raises InputError for one that cannot be there."""
        blocks = 0
        for stage in stages:
            check_stage(stage, shape)
            if isinstance(stage, Blocks):
                blocks += stage.number
                if blocks > MOST_BLOCKS:
                    raise InputError(f"stages: expected at most {MOST_BLOCKS} blocks, found {blocks}; use fewer")
                yield from [Place(Blocks(1, stage.kernel), shape, shape, self.block.branches)] * stage.number
            else:
                yield Place(stage, shape, stage.output(shape), "H" if isinstance(stage, Convolution) else "")
            shape = stage.output(shape)

    def new_parameters(self) -> ConvParameters:
        """Zeros in the form of this net's parameters."""
        output = self.config["d_out"], math.prod(self.places[-1].y) + 1
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
        """Logits (B, K) of a batch x (B, C, H, W), and the workspace, which is the cache that `backward` needs.

        Without a workspace it is as in evaluation: no dropout, the running statistics.
        """
        w = workspace or ConvWorkspace(self, len(x))
        expected = (w.input.batch, *w.input.shape)
        if x.shape != expected:  # might be broadcast else
            raise ValueError(f"expected a batch of shape {expected} for this workspace, found {x.shape}")
        w.input.images[...] = x.transpose(1, 0, 2, 3)
        with unbuffered():
            for layer in w.layers:
                layer.forward()
            return w.output.forward(), w

    def backward(self, dlogits: np.ndarray, cache: "ConvWorkspace", *, return_dx: bool = False):
        """Gradients of the loss with respect to the parameters, given dlogits (B, K) and the forward pass's cache.

        Returns a mapping like `params`, which lives in the cache; with `return_dx` also the gradient with respect to
        the images, (B, C, H, W).
        """
        if cache.gradients is None:
            raise ValueError("expected a workspace for training, found one for evaluation; give it a generator")
        before, first, behind = cache.layers[: cache.first], cache.layers[cache.first], cache.layers[cache.first + 1 :]
        with unbuffered():
            cache.output.backward(dlogits)
            for layer in reversed(behind):
                layer.backward()
            first.backward(dx_wanted=return_dx)
            for layer in reversed(before if return_dx else []):
                layer.backward()
        dx = cache.input.gradient.images.transpose(1, 0, 2, 3) if return_dx else None
        return (cache.gradients, dx) if return_dx else cache.gradients

    def predict(self, x: np.ndarray, rows: int = 100) -> np.ndarray:
        """Logits (n, K) of images x (n, C, H, W), any n: `rows` at a time."""
        logits, workspace = np.empty((len(x), self.config["d_out"]), self.dtype), None
        for start in range(0, len(x), rows):
            part = x[start : start + rows]
            if workspace is None or len(part) < rows:
                workspace = ConvWorkspace(self, len(part))
            logits[start : start + rows], _ = self.forward(part, workspace)
        return logits

    def gate_means(self, x: np.ndarray) -> np.ndarray:
        """Return the mean of T of each block, (L,), over images x (B, C, H, W), for a net whose blocks have gates."""
        _, workspace = self.forward(x)
        return np.array([T.mean() for T in workspace.T])

    def preprocess(self, images: np.ndarray) -> np.ndarray:
        """Return images (n, C, H, W), uint8, as the net takes them: 0 to 1, or of equal contrast about the mean image.

        Global contrast normalisation: each image less its mean, over its standard deviation.
        """
        if not self.config["contrast"]:
            return np.multiply(images, 1 / 256, dtype=self.dtype)
        return contrast_normalised(images, self.dtype) - self.buffers["mean"]


@contextmanager
def unbuffered() -> Iterator[None]:
    """Elementwise functions work in place, and e^−z may overflow to inf, where σ(z) is rightly 0.

    NumPy copies operands whose rows are not adjacent to a buffer and back, if rows are shorter than a third of it: a
    pass over a few images takes three times as long. 16 is the smallest buffer.
    """
    with np.errstate(over="ignore"):
        np.setbufsize(16)
        yield


class ConvWorkspace:
    """Maps and layers for passes over batches of one size, allocated once; a pass overwrites what the last one left.

    A workspace with a generator is for training: dropout draws from it, batch normalisation takes the batch's
    statistics, and there are gradients. `first` is the first layer with parameters, and T holds the transform gates
    (D, B, H, W) of each block, if blocks have them.
    """

    def __init__(self, net: ConvNet, batch: int, rng: np.random.Generator | None = None):
        self.gradients = net.new_parameters() if rng else None
        maps = functools.partial(PaddedMaps, batch=batch, padding=net.padding, margin=net.margin, dtype=net.dtype)
        self.input = x = maps(net.places[0].x)
        self.layers, convolutions = [], []
        for place in net.places:
            stage = place.stage
            if isinstance(stage, Dropout) and not (rng and stage.rate):
                continue
            y = maps(place.y)
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
        block, d = net.block if isinstance(stage, Blocks) else BLOCKS["plain"], self.gradients
        weights = net.params.layers[l - 1], d and d.layers[l - 1]
        layer = ConvolutionLayer(block, net.activation, stage, weights, x, y)
        if l in net.normed:
            layer.normalise(net.params.norms[l], d and d.norms[l], net.running[l])
        return layer


# ---------------------------------------------------------------------------------------------- images


def contrast_normalised(images: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Each image (C, H, W) of images (n, C, H, W) less its mean, over its standard deviation; 0 if it has none."""
    x = images.astype(dtype)
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    deviation = x.std(axis=(1, 2, 3), keepdims=True)
    return np.divide(x, deviation, out=x, where=deviation > 0)


def mean_image(images: np.ndarray, rows: int = 1000) -> np.ndarray:
    """The mean (C, H, W) of images after `contrast_normalised`, float64."""
    parts = (contrast_normalised(images[start : start + rows]) for start in range(0, len(images), rows))
    return sum(part.sum(axis=0, dtype=np.float64) for part in parts) / len(images)


def crop_and_mirror(x: np.ndarray, rng: np.random.Generator, padding: int = 8) -> np.ndarray:
    """Images (n, C, H, W), each padded with zeros, cropped to its size at random, and mirrored or not (table 3)."""
    n, _, H, W = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    crops = sliding_window_view(padded, (H, W), axis=(2, 3))
    top, left = rng.integers(0, 2 * padding, (2, n), endpoint=True)
    cropped = crops[np.arange(n), :, top, left]
    mirrored = rng.random(n) < 0.5
    cropped[mirrored] = cropped[mirrored, ..., ::-1]
    return cropped


# -------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class ConvConfig(TrainingConfig, ConvArchitecture):
    """Every value that a run of a ConvNet depends on, beside the data set; by default the recipe of table 1.

    Theirs is 300 epochs, with a tenth of the rate after each third.
    """

    optimizer: str = hyperparameter("momentum", "update rule", one_of(OPTIMIZERS))
    lr: float = hyperparameter(0.01, "learning rate", POSITIVE)
    schedule: str = hyperparameter("cosine", "of the learning rate: constant, cosine or steps", SCHEDULE)
    nesterov: bool = hyperparameter(True, "momentum: Nesterov's")
    weight_decay: float = hyperparameter(1e-3, "factor on the weights that is added to their gradients", ZERO_OR_MORE)
    clip: float = hyperparameter(0.0, "largest global L2 norm of the gradients; 0: no limit", ZERO_OR_MORE)
    batch_size: int = hyperparameter(100, "samples a step", POSITIVE)
    epochs: int = hyperparameter(20, "passes over the training samples", POSITIVE)
    n_train: int = hyperparameter(55_000, "training samples, drawn at random", POSITIVE)
    n_validation: int = hyperparameter(
        5000, "validation samples; if any, the test set is scored last only", ZERO_OR_MORE
    )
    n_scored: int = hyperparameter(1000, "training samples that are scored after each epoch; 0: all", ZERO_OR_MORE)
    n_test: int = hyperparameter(10_000, "test samples, drawn at random", POSITIVE)
    net: str = hyperparameter("mnist-16", "which of the paper's nets", one_of(NETS))
    dropout: float = hyperparameter(1.0, "factor on the net's probabilities of dropout", UNIT)
    augment: bool = hyperparameter(False, "train on random crops and mirror images")

    SIZE = "net"

    @property
    def title(self) -> str:
        return f"{self.block} {self.net}"

    @property
    def stages(self) -> list[Stage]:
        """Those of the net, with the config's dropout."""
        stages = NETS[self.net].stages
        return [Dropout(self.dropout * stage.rate) if isinstance(stage, Dropout) else stage for stage in stages]

    @property
    def depth(self) -> int:
        """Blocks."""
        return sum(stage.number for stage in self.stages if isinstance(stage, Blocks))

    def new_net(self, data: Dataset, rng: np.random.Generator) -> ConvNet:
        """Make the net for `data`, whose weights `rng` draws, and whose mean image is that of the training images."""
        net = self.build(data.train_x.shape[1:], data.outputs, rng)
        if self.contrast:
            net.buffers["mean"][...] = mean_image(data.train_x)
        return net

    def build(self, shape: Sequence[int], d_out: int, rng: np.random.Generator | None) -> ConvNet:
        """Make the net for images (C, H, W), without the mean image of any data."""
        architecture = {field.name: getattr(self, field.name) for field in dataclasses.fields(ConvArchitecture)}
        return ConvNet(shape, d_out, stages=self.stages, **architecture, rng=rng)

    def memory(self, data: Dataset) -> int:
        """Estimate the bytes of a run: maps, affine maps, and the gradients of maps, for each size of batch."""
        net, numbers = self.build(data.train_x.shape[1:], data.outputs, None), 0
        for _, (C, H, W), (D, *_), branches in net.places:
            numbers += (H + net.padding) * (W + net.padding) * (2 * C + len(branches) * D)
        sizes = batch_sizes(self)
        return (numbers * sum(sizes) + net.params.flat.size * (3 + len(sizes))) * net.dtype.itemsize

    def augmented(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return preprocessed images x (B, C, H, W) randomly cropped and mirrored, if the config says so."""
        return crop_and_mirror(x, rng) if self.augment else x


def configure(net: str, **fields: Any) -> ConvConfig:
    """A net of the paper with its recipe, but for the given fields; raises InputError where a value makes no sense."""
    return ConvConfig(net=net, **(NETS[net].settings | fields))


# ----------------------------------------------------------------------------------------- the command


QUICK = {  # so few steps want small batches, and nothing dropped, to learn anything
    **{"epochs": 2, "n_train": 2000, "n_validation": 500, "n_test": 1000},
    **{"batch_size": 20, "dropout": 0.0},
}


def build_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python conv_highway_networks.py",
        description="Train the paper's convolutional networks and log every epoch as JSON.",
    )
    parser.add_argument("--net", default="mnist-16", choices=NETS, help="default: mnist-16")
    parser.add_argument("--block", default="highway", choices=("both", *BLOCKS), help="both: highway and plain")
    parser.add_argument("--quick", action="store_true", help="a smaller job: 2 epochs of 2,000 images, no dropout")
    add_hyperparameters(parser, ConvConfig, leave_out=("seed", "net", "block"))
    parser.add_argument("--dataset", choices=DATASETS, help="default: that of the net")
    add_training_flags(parser, "run-NET.json or run_sweep-NET.json, with what differs")
    return parser


def plan(arguments: argparse.Namespace, data: Dataset) -> list[ConvConfig]:
    """The runs that the command line asks for: every seed and block."""
    given = given_fields(arguments, ConvConfig)
    if arguments.quick:
        given = QUICK | given
    given = fit_to(data, arguments.net, given)
    blocks = ("highway", "plain") if arguments.block == "both" else (arguments.block,)
    check_number(len(arguments.seeds or [0]) * len(blocks))
    return [
        configure(**given, seed=seed, block=block)
        for seed, block in product(arguments.seeds or [ConvConfig.seed], blocks)
    ]


def fit_to(data: Dataset, net: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields of a config, and numbers of samples cut to those that there are where none are given."""
    usual, n_train, n_test = configure(net), len(data.train_x), len(data.test_x)
    n_validation = min(usual.n_validation, n_train // 10)
    cut = {"n_validation": n_validation, "n_test": min(usual.n_test, n_test)}
    cut |= given
    return {"n_train": min(usual.n_train, max(n_train - cut["n_validation"], 1))} | cut


def run_command(arguments: argparse.Namespace) -> None:
    """Load, train, save, summarise; raises InputError."""
    dataset = arguments.dataset or NETS[arguments.net].dataset
    data = load_dataset(dataset, arguments.data_dir)
    configs = plan(arguments, data)
    if arguments.save_model and len(configs) > 1:
        raise InputError(f"--save-model: expected a single run, found {len(configs)}; choose one --block and --seed")
    usual, differs = configure(arguments.net), [arguments.net, *[dataset] * (dataset != NETS[arguments.net].dataset)]
    named = default_log(arguments, differs, configs, usual, {"seed": [usual.seed]}, usual.block)
    out = None if arguments.no_save else Path(arguments.out or named)
    check_places(out, dataset, arguments.save_model)
    info = DatasetInfo(dataset, configs[0].n_train, configs[0].n_test, data.test_set)
    train_one = functools.partial(train, save_model=arguments.save_model)
    log = functools.partial(RunLog.new, arguments.command_line, info)
    run_job(train_one, configs, data, dataset, arguments, log, out, checkpoints=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run_cli(build_parser(), run_command, argv)


if __name__ == "__main__":
    import conv_highway_networks  # not as __main__, whose functions and classes worker processes could not import

    sys.exit(conv_highway_networks.main())
