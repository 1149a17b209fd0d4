"""Convolutional highway networks, in NumPy: forward and backward written by hand.

    python conv_highway_networks.py --net mnist-16 --seeds 0,1 --jobs 2      table 1's first net, two seeds side by side
    python conv_highway_networks.py --net highway-a --block highway          table 2's, on CIFAR-10

From sections 3.2 and 3.3 of the paper. A convolution is a layer of highway_networks.py whose columns are patches. Each
output pixel n has a column x_n: the k·k·C values of its k x k window in all C maps, and a 1 (im2col). Then

    z = W x        dW = dz xᵀ        dx = Wᵀ dz

are the same as in a dense layer (the code computes dWᵀ = x dzᵀ, which is faster). So are the blocks: H, T and y of
eq. 3, pixel by pixel. Only two things are new: im2col and its adjoint, col2im. The adjoint adds to each pixel the
gradients of all patches that it is part of.

C, H, W of a shape are channels (inside the net: maps), height and width; elsewhere H, T, C are branches of a block.
Outside, a batch of images is (B, C, H, W). Inside, maps are (C, pixels of all images), with zeros between the images.
The file reads from top to bottom: what a net is made of; padded maps and patches; pools, dropout, batch normalisation;
layers; the net. conv_recipes.py has the paper's nets, their training and the command.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from highway_lab import InputError
from highway_lab.cli import FINITE, hyperparameter, one_of
from highway_lab.threads import free_cpus, run_side_by_side
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
# A list of stages. Each stage turns maps of one shape into maps of the shape `output(shape)`.


Shape = tuple[int, int, int]  # C, H, W


class Convolution(NamedTuple):
    """A plain k x k convolution with stride 1 to `maps` output maps."""

    maps: int
    kernel: int = 3
    padding: int = 1

    def output(self, shape: Shape) -> Shape:
        _, *sizes = shape
        return self.maps, *(size + 2 * self.padding - self.kernel + 1 for size in sizes)


class Blocks(NamedTuple):
    """A sequence of `number` k x k blocks, each with as many output maps as input maps."""

    number: int
    kernel: int = 3

    @property
    def padding(self) -> int:
        return self.kernel // 2

    def output(self, shape: Shape) -> Shape:
        return shape


class MaxPool(NamedTuple):
    """The maximum of each window, size x size."""

    size: int
    stride: int

    def overhang(self, shape: Shape) -> int:
        """Return how many pixels the last window reaches over the edge."""
        size, stride = self.size, self.stride
        return max((window_count(length, size, stride) - 1) * stride + size - length for length in shape[1:])

    def output(self, shape: Shape) -> Shape:
        C, *sizes = shape
        return C, *(window_count(length, self.size, self.stride) for length in sizes)


class AveragePool(NamedTuple):
    """The mean of each window, size x size, side by side; a global average if the size is that of the maps."""

    size: int

    def output(self, shape: Shape) -> Shape:
        C, *sizes = shape
        return C, *(window_count(length, self.size, self.size) for length in sizes)


class Dropout(NamedTuple):
    """Dropout: in training, each value is set to zero with probability `rate`."""

    rate: float

    def output(self, shape: Shape) -> Shape:
        return shape


STAGES = {stage.__name__: stage for stage in (Convolution, Blocks, MaxPool, AveragePool, Dropout)}
Stage = Convolution | Blocks | MaxPool | AveragePool | Dropout
MOST_BLOCKS = 10_000  # limit for a loaded file; above it, the file is damaged


def window_count(length: int, size: int, stride: int) -> int:
    """Return how many windows cover a row of `length` pixels; the last may hang over the edge (Caffe rounds up).

    Each window starts inside the row. Where the stride is larger than a window, the last pixels may be in none.
    """
    return min(max(math.ceil((length - size) / stride), 0) + 1, math.ceil(length / stride))


def as_stage(entry: Stage | Sequence) -> Stage:
    """Return a stage, given as itself or as a list of its name and values; raises InputError for anything else."""
    try:
        return entry if isinstance(entry, Stage) else STAGES[entry[0]](*entry[1:])
    except (KeyError, IndexError, TypeError) as error:
        names = ", ".join(STAGES)
        raise InputError(f"stages: expected one of {names} and its values, found {entry!r}; choose one") from error


def check_stage(stage: Stage, shape: Shape) -> None:
    """Raise InputError for a stage with a wrong value, or one that does not fit maps of this shape."""

    def expect(expected: str, fits: bool) -> None:
        if not fits:
            raise InputError(f"stages: expected {expected}, found {stage} for maps {shape}; change it")

    for name, value in stage._asdict().items():
        if name == "rate":
            expect("a rate in [0, 1)", isinstance(value, int | float) and 0 <= value < 1)
        else:
            least = 0 if name == "padding" else 1
            expect(f"{name} {least} or more, a whole number", isinstance(value, int) and value >= least)
    if isinstance(stage, Convolution):
        expect("padding of at most half the kernel", stage.padding <= stage.kernel // 2)
        expect("a kernel that fits into the maps", min(stage.output(shape)) >= 1)


# ------------------------------------------------------------------------------ padded maps and patches


class PaddedMaps:
    """Maps (C, H, W) of B images between zeros, so that a window over an edge finds zeros there.

    Each row of pixels is followed by `padding` zeros, each image by `padding` rows of zeros. Neighbouring rows share
    their zeros, and so do neighbouring images. So one pixel to the right is one column further, one down `row` columns.

    padded           (C, N + 2·margin·(W + padding)): the columns between two margins of zeros
    columns          (C, N), N = B·(H + padding)·(W + padding)
    grid, images     views of the columns, (C, B, H + padding, W + padding) and (C, B, H, W)
    row, pixels      columns of a row and of an image, with their zeros; `margin_columns` of a margin
    """

    def __init__(self, shape: Shape, batch_size: int, padding: int, margin: int, dtype: type):
        """`margin`: rows of zeros before the first and after the last image; the largest kernel is enough."""
        C, H, W = shape
        self.shape, self.batch_size, self.padding, self.margin, self.dtype = shape, batch_size, padding, margin, dtype
        self.row = W + padding
        self.pixels = (H + padding) * self.row
        self.margin_columns = around = margin * self.row
        self.padded = np.zeros((C, batch_size * self.pixels + 2 * around), dtype)
        self.columns = self.padded[:, around : self.padded.shape[1] - around]
        self.grid = self.columns.reshape(C, batch_size, H + padding, self.row)
        self.images = self.grid[..., :H, :W]
        self._zeros = self.padded[:, :around], self.grid[..., H:, :], self.grid[..., W:], self.padded[:, -around:]

    @functools.cached_property
    def gradient(self) -> "PaddedMaps":
        """The gradient with respect to these maps, in the same form."""
        return PaddedMaps(self.shape, self.batch_size, self.padding, self.margin, self.dtype)

    def clear_padding(self) -> None:
        """Set the padding and the margins to zero again, after a pass over all columns."""
        for zeros in self._zeros:
            zeros[...] = 0


def windows(maps: PaddedMaps, kernel: int, padding: int) -> np.ndarray:
    """Return a view (k, k, C, N) of padded maps: for each column n, the pixels of the window around it.

    The window begins `padding` rows above n and `padding` columns to its left. As plain loops, im2col and col2im are

        for i, j, c, n in np.ndindex(k, k, C, N):
            pixel = n + (i - padding) * row + (j - padding)         # in a margin if below 0 or at least N
            patches[(i * k + j) * C + c, n] = maps[c, pixel]        # patches_forward
            dmaps[c, pixel] += dpatches[(i * k + j) * C + c, n]     # patches_backward
    """
    first = maps.padded[:, maps.margin_columns - padding * (maps.row + 1) :]
    along_maps, along_row = maps.padded.strides
    shape = (kernel, kernel, *maps.columns.shape)
    return as_strided(first, shape, (maps.row * along_row, along_row, along_maps, along_row))


def patches_forward(map_windows, patches):
    patches[:-1].reshape(map_windows.shape)[...] = map_windows  # patches (k·k·C + 1, n), whose last row is 1


def patches_backward(dpatches, dmap_windows):  # dpatches (k·k·C, n), without the row of ones
    for drow, dwindow_row in zip(dpatches.reshape(dmap_windows.shape), dmap_windows, strict=True):
        for d, dpixels in zip(drow, dwindow_row, strict=True):
            dpixels += d  # one place (i, j) of all windows at a time, as windows overlap


# --------------------------------------------------------------- pools, dropout, batch normalisation
# Forward above backward. Maps are (C, B, H, W), pooled maps (C, B, h, w). Max-pools work on columns (C, n): y has the
# maximum of the window that begins at each pixel; the layer then takes every `stride`-th pixel of y. `step` is 1 along
# a row, `row` down a column. The last columns of y, whose windows would leave the array, are not written.


def window_max_forward(x, y, size, step):
    n = y.shape[1] - (size - 1) * step
    y[:, :n] = x[:, :n]
    for start in range(step, size * step, step):
        np.maximum(y[:, :n], x[:, start : start + n], out=y[:, :n])


def window_max_backward(dy, x, y, dx, size, step):
    n = y.shape[1] - (size - 1) * step
    dx[...] = 0
    open_windows = np.ones((len(x), n), bool)  # True until the window's first maximum: only that one gets the gradient
    for start in range(0, size * step, step):
        is_max = x[:, start : start + n] == y[:, :n]
        is_max &= open_windows
        open_windows ^= is_max
        dx[:, start : start + n] += dy[:, :n] * is_max.astype(dy.dtype)


def max_pool_forward(x, across, y, size, row):
    window_max_forward(x, across, size, step=1)  # over `size` pixels to the right,
    window_max_forward(across, y, size, step=row)  # then over `size` rows down


def max_pool_backward(*, dy, x, across, y, dacross, dx, size, row):
    window_max_backward(dy, across, y, dacross, size, step=row)
    window_max_backward(dacross, x, across, dx, size, step=1)


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
    # Through mean and variance, factored: dz becomes γ / √(variance + ε) · (dz − mean dz − ẑ · mean(dz·ẑ))
    dz -= per_map(dbeta / n)
    dz -= z_hat * per_map(dgamma / n)
    dz *= per_map(gamma) / np.sqrt(per_map(variance) + EPSILON)


def per_map(values: np.ndarray) -> np.ndarray:
    """Return values (C,) in a form that fits maps (C, B, H, W)."""
    return values[:, None, None, None]


# -------------------------------------------------------------------------------------------- layers
# A layer reads padded maps x and fills padded maps y; its backward reads y.gradient and fills x.gradient.

MAX_PATCH_ELEMENTS = 2**19  # largest number of patch values worked on at a time: they fit in the processor's cache


class BatchNorm:
    """Batch normalisation of H's affine map, map by map (Ioffe & Szegedy 2015), in place.

    Training uses the batch's mean and variance. The running mean and variance follow them, and evaluation uses these;
    the running variance is the unbiased one, divided by n − 1 instead of n.

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
        unbiased = variance * n / max(n - 1, 1)  # only for the running one
        for running, latest in zip(self.running, (mean, unbiased), strict=True):
            running += BATCH_NORM_MOMENTUM * (latest - running)
        return mean, variance

    def backward(self, dz: np.ndarray) -> None:
        """Replace dz (D, B, H, W), the gradient with respect to γ·ẑ + β, by the gradient with respect to z."""
        batch_norm_backward(dz, self.params[0], self.variance, self.z_hat, *self.gradients)


class SharedMemory:
    """Memory that all layers of a slice use in turn: if each had its own, they would fill the processor's cache."""

    def __init__(self, dtype: type):
        self.dtype, self.arrays = dtype, {}

    def array(self, name: str, *shape: int) -> np.ndarray:
        """Return an array of this shape; its values are what the last user of the name has left."""
        size = math.prod(shape)
        if name not in self.arrays or self.arrays[name].size < size:
            self.arrays[name] = np.empty(size, self.dtype)
        return self.arrays[name][:size].reshape(shape)


class Chunk(NamedTuple):
    """Views of the images that a convolution takes at a time, or of the gradients with respect to them."""

    windows: np.ndarray  # (k, k, C, n)
    x: np.ndarray  # (C, n)
    z: np.ndarray  # (G·D, n)
    branches: np.ndarray  # z as (G, D, n), or, where y has another shape than x, (G, D, images, H, W):
    y: np.ndarray  # (D, n), or (D, images, H, W), as its columns are then not those of z


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
        memory: SharedMemory,
    ):
        """`weights`: W (G·D, k·k·C + 1) and memory for dW, None in evaluation."""
        (self.W, self.dW), self.block, self.activation, self.stage = weights, block, activation, stage
        self.x, self.y, self.memory, self.norm = x, y, memory, None
        rows, patch_size = self.W.shape
        self.images_per_chunk = min(max(MAX_PATCH_ELEMENTS // (patch_size * x.pixels), 1), x.batch_size)
        self.z = np.empty((rows, x.columns.shape[1]), x.dtype)
        self.chunks = list(self._cut(x, self.z, y, whole=True))

    def normalise(self, params: np.ndarray, gradients: np.ndarray | None, running: Sequence[np.ndarray]) -> None:
        """Put batch normalisation between H's affine map and its activation; arguments as in BatchNorm."""
        self.norm = BatchNorm(params, gradients, running, self._pixels(self.z)[0])

    def _cut(self, x: PaddedMaps, z: np.ndarray, y: PaddedMaps, *, whole: bool) -> Iterator[Chunk]:
        """Yield views of maps and of z (G·D, columns): z of the whole batch, or memory that all chunks share."""
        all_windows = windows(x, self.stage.kernel, self.stage.padding)
        G, (D, H, W) = len(self.block.branches), y.shape
        for first in range(0, x.batch_size, self.images_per_chunk):
            chunk = slice(first, min(first + self.images_per_chunk, x.batch_size))
            columns = slice(chunk.start * x.pixels, chunk.stop * x.pixels)
            z_n = z[:, columns] if whole else z[:, : columns.stop - columns.start]
            if x.shape == y.shape:
                branches, y_n = z_n.reshape(G, D, -1), y.columns[:, columns]
            else:
                branches, y_n = z_n.reshape(G, D, -1, *x.grid.shape[2:])[..., :H, :W], y.images[:, chunk]
            yield Chunk(all_windows[..., columns], x.columns[:, columns], z_n, branches, y_n)

    def _pixels(self, z: np.ndarray) -> np.ndarray:
        """Return the pixels (G, D, B, H, W) among the columns of z (G·D, N)."""
        D, H, W = self.y.shape
        return z.reshape(-1, D, *self.x.grid.shape[1:])[..., :H, :W]

    @property
    def T(self) -> np.ndarray:
        """The transform gates (D, B, H, W) of a block that has them."""
        return self._pixels(self.z)[self.block.branches.index("T")]

    @functools.cached_property
    def dz(self) -> np.ndarray:
        """The gradient with respect to z, of the whole batch or of one chunk; also 0 between the images."""
        return np.zeros_like(self.z if self.norm is not None else self.chunks[0].z)

    @functools.cached_property
    def dchunks(self) -> list[Chunk]:
        """The gradients with respect to `chunks`."""
        return list(self._cut(self.x.gradient, self.dz, self.y.gradient, whole=self.norm is not None))

    def forward(self) -> None:
        """Fill y."""
        for group in self._groups(self.chunks):
            for chunk in group:
                affine_forward(self.W, self._patches(chunk), chunk.z)
            if self.norm is not None:
                self.norm.forward()  # H's z becomes γ·ẑ + β
            for chunk in group:
                self.block.forward(chunk.x, chunk.branches, chunk.y, self.activation)  # z becomes H, T, ...
        self.y.clear_padding()

    def backward(self, *, dx_wanted: bool = True) -> None:
        """Fill dW and, if it is wanted, x.gradient."""
        self.dW[...] = 0
        for group in self._groups(list(zip(self.chunks, self.dchunks, strict=True))):
            for chunk, d in group:
                scratch = self.memory.array("scratch", *chunk.y.shape)
                self.block.backward(d.y, chunk.x, chunk.branches, d.branches, d.x, self.activation, scratch)
            if self.norm is not None:
                self.norm.backward(self._pixels(self.dz)[0])  # dz of γ·ẑ + β becomes dz of z, in H
            for chunk, d in group:
                self._affine_backward(chunk, d, dx_wanted)
        self.x.gradient.clear_padding()

    def _groups(self, chunks: list) -> list[list]:
        """Return the chunks in groups that take each step together: all with batch normalisation, else each alone."""
        return [[chunk] for chunk in chunks] if self.norm is None else [chunks]

    def _patches(self, chunk: Chunk) -> np.ndarray:
        """Return the patches (k·k·C + 1, n) of a chunk, in memory that the next chunk overwrites."""
        patches = self.memory.array("patches", self.W.shape[1], chunk.z.shape[1])
        patches[-1] = 1
        patches_forward(chunk.windows, patches)
        return patches

    def _affine_backward(self, chunk: Chunk, d: Chunk, dx_wanted: bool) -> None:
        """Add a chunk's share to dW and to the gradient of its windows."""
        patches = self._patches(chunk)  # again: faster than keeping the patches of all images
        dWt = np.matmul(patches, d.z.T, out=self.memory.array("dWt", *self.W.T.shape))  # faster than dW = dz xᵀ
        self.dW += dWt.T
        if dx_wanted:
            dpatches = self.memory.array("dpatches", *patches[:-1].shape)
            np.matmul(self.W[:, :-1].T, d.z, out=dpatches)  # dx = Wᵀ dz
            # A chunk's windows reach other images only from padding columns, where dz is 0. So it adds nothing to the
            # next chunk's pixels, whose block.backward then overwrites them; what it adds to padding is cleared.
            patches_backward(dpatches, d.windows)


class MaxPoolLayer:
    """The maximum of each window. The pixels are copied into a grid of −inf, since windows hang over edges.

    grids      x, the maxima along rows, and y, (3, C, B, H + padding, W + padding); backward reads what forward left
    dgrids     the gradients with respect to them
    """

    def __init__(self, stage: MaxPool, x: PaddedMaps, y: PaddedMaps):
        self.stage, self.x, self.y = stage, x, y
        self.grids = np.full((3, *x.grid.shape), -np.inf, x.dtype)

    @functools.cached_property
    def dgrids(self) -> np.ndarray:
        return np.empty_like(self.grids)

    @staticmethod
    def _corner(grid: np.ndarray, images: np.ndarray, stride: int = 1) -> np.ndarray:
        """Return the part of a grid, all pixels or every `stride`-th one, that has the shape of these images."""
        _, _, H, W = images.shape
        return grid[:, :, ::stride, ::stride][..., :H, :W]

    @staticmethod
    def _columns(grids: np.ndarray) -> np.ndarray:
        return grids.reshape(*grids.shape[:2], -1)

    def forward(self) -> None:
        """Fill y."""
        self._corner(self.grids[0], self.x.images)[...] = self.x.images
        max_pool_forward(*self._columns(self.grids), self.stage.size, self.x.row)
        self.y.images[...] = self._corner(self.grids[2], self.y.images, self.stage.stride)

    def backward(self) -> None:
        """Fill x.gradient."""
        dpooled, dpixels = self.y.gradient.images, self.x.gradient.images
        self.dgrids[2] = 0
        self._corner(self.dgrids[2], dpooled, self.stage.stride)[...] = dpooled
        (x, across, y), (dx, dacross, dy) = self._columns(self.grids), self._columns(self.dgrids)
        size, row = self.stage.size, self.x.row
        max_pool_backward(dy=dy, x=x, across=across, y=y, dacross=dacross, dx=dx, size=size, row=row)
        dpixels[...] = self._corner(self.dgrids[0], dpixels)


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
    """Values kept or set to zero at random; a workspace for evaluation has no such layer."""

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
        self.flat = np.ones((W.shape[1], x.batch_size), W.dtype)  # (C·H·W + 1, B)

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
        """Shape of [W_H b_H; W_T b_T; ...]: a row for each map of each branch, a column for each value of a patch."""
        return len(self.branches) * self.y_shape[0], self.stage.kernel**2 * self.x_shape[0] + 1


class ConvParameters(Tensors):
    """Parameters of a ConvNet; l counts its convolutions and blocks, from 1.

    l.W_H (D, k·k·C), l.b_H (D), ...     of each branch of layer l
    l.gamma (D), l.beta (D)              of batch normalisation, where H of layer l has it
    W_out (K, C·H·W), b_out (K)          of the dense layer at the end

    convolutions     a list of (G·D, k·k·C + 1) = [W_H b_H; W_T b_T; ...]
    output           (K, C·H·W + 1) = [W_out b_out]
    norms            a dict l -> (2, D), γ above β
    """

    def __init__(self, convolutions: list[PlacedLayer], output: tuple[int, int], normalised: list[int], dtype: type):
        n_convolutions = len(convolutions)
        matrices = [layer.matrix_shape for layer in convolutions]
        super().__init__([*matrices, output, *((2, convolutions[l - 1].y_shape[0]) for l in normalised)], dtype)
        self.convolutions, self.output = self.pieces[:n_convolutions], self.pieces[n_convolutions]
        self.norms = dict(zip(normalised, self.pieces[n_convolutions + 1 :], strict=True))
        for l, (layer, matrix) in enumerate(zip(convolutions, self.convolutions, strict=True), start=1):
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


SLICE = 25  # images of a batch that a thread takes through the net at a time


class ConvNet(Net):
    """Stages of convolutions, blocks and pools, then a dense layer to K = d_out logits.

    shape          of an image, (C, H, W)
    stages         what the net is made of, in order; each may be a list, its name first, as in `config`
    architecture   the fields of ConvArchitecture; rng and dtype as in DeepNet

    depth is the number of blocks. Raises InputError for an unknown name, and for stages that do not fit together. Table
    3's net also has the dense layer, after its 1x1 convolution and global average pool: it is the last of 19 layers.
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
            raise InputError(f"shape: expected channels, height and width, found {list(shape)}; choose images")
        if self.block.rows(2) != 2 * len(self.block.branches):  # e.g. lstm, whose branches have half as many rows as x
            found = f"expected branches with as many maps as x, found {self.config['block']} blocks"
            raise InputError(f"block: {found}; choose another")
        self.layers = list(self._place(stages, tuple(shape)))
        self.convolutions = [layer for layer in self.layers if layer.branches]
        if not self.convolutions:
            raise InputError("stages: expected a convolution or a block, found none; add one")
        blocks = [l for l, layer in enumerate(self.convolutions, start=1) if isinstance(layer.stage, Blocks)]
        self.depth, self.normalised = len(blocks), blocks if self.config["batch_norm"] else []
        self.block = self.block.for_depth(self.depth)
        overhangs = [layer.stage.overhang(layer.x_shape) for layer in self.layers if isinstance(layer.stage, MaxPool)]
        self.padding = max([layer.stage.padding for layer in self.convolutions] + overhangs)
        self.margin = max(layer.stage.kernel for layer in self.convolutions)  # rows: no window reaches as far
        self.params = self.new_parameters()
        if rng is not None:
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
        return ConvParameters(self.convolutions, output, self.normalised, self.dtype)

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

        Without a workspace, or with one made without `rng`, the pass is an evaluation: it has no dropout, and batch
        normalisation uses the running statistics.
        """
        w = ConvWorkspace(self, len(x)) if workspace is None else workspace
        expected = (w.batch_size, *self.layers[0].x_shape)
        if x.shape != expected:  # it might be broadcast
            raise ValueError(f"expected a batch of shape {expected} for this workspace, found {x.shape}")
        return w.forward(x), w

    def backward(self, dlogits: np.ndarray, cache: "ConvWorkspace", *, return_dx: bool = False):
        """Return the gradients of the loss with respect to the parameters, given dlogits (B, K) and the cache.

        They are a mapping like `params`, which lives in the cache. With `return_dx` also return the gradient with
        respect to the images, (B, C, H, W).
        """
        if cache.gradients is None:
            raise ValueError("expected a workspace for training, found one for evaluation; give it a generator")
        dx = cache.backward(dlogits, dx_wanted=return_dx)
        return (cache.gradients, dx) if return_dx else cache.gradients

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
        """Return images (n, C, H, W), uint8, as the net takes them: 0 to 255/256, as in the paper's files.

        A DeepNet takes −1 to 1. With `contrast`, return `contrast_normalised(images)` minus the mean image.
        """
        if not self.config["contrast"]:
            return np.multiply(images, 1 / 256, dtype=self.dtype)
        return contrast_normalised(images, self.dtype) - self.buffers["mean"]


def contrast_normalised(images: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Global contrast normalisation: return images (n, C, H, W) with mean 0 and standard deviation 1 each.

    An image whose pixels are all equal becomes 0.
    """
    x = images.astype(dtype)
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    deviation = x.std(axis=(1, 2, 3), keepdims=True)
    return np.divide(x, deviation, out=x, where=deviation > 0)


@contextmanager
def unbuffered() -> Iterator[None]:
    """Make elementwise functions work without copies, and let e^−z overflow to inf, where σ(z) is rightly 0.

    Where rows are short, NumPy copies non-contiguous operands through a buffer, which takes three times as long. A
    small buffer avoids that; 16 is the smallest. `errstate` also restores the buffer size on leaving (NumPy 2).
    """
    with np.errstate(over="ignore"):
        np.setbufsize(16)
        yield


class ConvWorkspace:
    """Memory of the passes over batches of one size, allocated once; each pass overwrites the one before it.

    A batch is cut into slices of SLICE images, which a few threads take through the whole net side by side. Gradients
    are added in the order of the slices, so bits do not depend on the number of threads. With batch normalisation,
    whose statistics are those of the whole batch, training takes the batch as one slice.

    A workspace with a generator is for training: it has gradients, dropout draws from it, and batch normalisation
    takes the batch's statistics.
    """

    def __init__(self, net: ConvNet, batch_size: int, rng: np.random.Generator | None = None):
        self.batch_size, self.rng = batch_size, rng
        size = batch_size if net.normalised and rng is not None else SLICE
        self.rows = [slice(first, min(first + size, batch_size)) for first in range(0, batch_size, size)]
        self.slices = [BatchSlice(net, rows.stop - rows.start, rng) for rows in self.rows]
        self.threads = min(free_cpus(), len(self.slices))
        self.gradients = None if rng is None else net.new_parameters()

    @property
    def T(self) -> list[np.ndarray]:
        """The transform gates (D, B, H, W) of each block that has them."""
        return [np.concatenate(slices, axis=1) for slices in zip(*(part.T for part in self.slices), strict=True)]

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the logits (B, K) of images (B, C, H, W)."""
        for layers in [part.dropouts for part in self.slices if part.dropouts]:
            rng = np.random.default_rng(self.rng.integers(2**63))  # anew, so that a checkpoint needs no state but `rng`
            for layer in layers:
                layer.rng = rng
        return np.concatenate(self._run(BatchSlice.forward, [x[rows] for rows in self.rows]))

    def backward(self, dlogits: np.ndarray, *, dx_wanted: bool) -> np.ndarray | None:
        """Fill `gradients`; return the gradient with respect to the images, (B, C, H, W), if it is wanted."""
        backward = functools.partial(BatchSlice.backward, dx_wanted=dx_wanted)
        dx = self._run(backward, [dlogits[rows] for rows in self.rows])
        self.gradients.flat[...] = self.slices[0].gradients.flat
        for part in self.slices[1:]:
            self.gradients.flat += part.gradients.flat
        return np.concatenate(dx) if dx_wanted else None

    def _run(self, function: Callable, arrays: list[np.ndarray]) -> list[Any]:
        """Return function(slice, its array) of all slices."""
        with unbuffered():
            return run_side_by_side(self.threads, function, self.slices, arrays)


class BatchSlice:
    """Maps and layers for passes over some images of a batch.

    input, layers, output     the maps of the images, and the layers in order
    first                     the index of the first layer with parameters
    dropouts                  those of the layers that need a generator in each pass
    gradients                 of the parameters, None in evaluation
    T                         the transform gates (D, n, H, W) of each block that has them
    """

    def __init__(self, net: ConvNet, n_images: int, rng: np.random.Generator | None):
        self.gradients = None if rng is None else net.new_parameters()
        form = n_images, net.padding, net.margin, net.dtype
        self.input = x = PaddedMaps(net.layers[0].x_shape, *form)
        self.layers, convolutions, memory = [], [], SharedMemory(net.dtype)
        for stage, _, y_shape, _ in net.layers:
            if isinstance(stage, Dropout) and (rng is None or stage.rate == 0):
                continue
            y = PaddedMaps(y_shape, *form)
            match stage:
                case Convolution() | Blocks():
                    layer = self._convolution(net, stage, len(convolutions) + 1, x, y, memory)
                    convolutions.append(layer)
                case MaxPool():
                    layer = MaxPoolLayer(stage, x, y)
                case AveragePool():
                    layer = AveragePoolLayer(stage, x, y)
                case Dropout():
                    layer = DropoutLayer(stage, x, y, rng)
            self.layers.append(layer)
            x = y
        self.dropouts = [layer for layer in self.layers if isinstance(layer, DropoutLayer)]
        self.first = self.layers.index(convolutions[0])
        self.T = [layer.T for layer in convolutions if "T" in layer.block.branches]
        self.output = OutputLayer(net.params.output, None if self.gradients is None else self.gradients.output, x)

    def _convolution(
        self, net: ConvNet, stage: Convolution | Blocks, l: int, x: PaddedMaps, y: PaddedMaps, memory: SharedMemory
    ) -> ConvolutionLayer:
        block = net.block if isinstance(stage, Blocks) else BLOCKS["plain"]
        params, gradients = net.params, self.gradients
        dW = None if gradients is None else gradients.convolutions[l - 1]
        layer = ConvolutionLayer(block, net.activation, stage, (params.convolutions[l - 1], dW), x, y, memory)
        if l in net.normalised:
            dnorm = None if gradients is None else gradients.norms[l]
            layer.normalise(params.norms[l], dnorm, (net.buffers[f"{l}.mean"], net.buffers[f"{l}.variance"]))
        return layer

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the logits (n, K) of images (n, C, H, W)."""
        self.input.images[...] = x.transpose(1, 0, 2, 3)
        for layer in self.layers:
            layer.forward()
        return self.output.forward()

    def backward(self, dlogits: np.ndarray, *, dx_wanted: bool) -> np.ndarray | None:
        """Fill `gradients`; return the gradient with respect to the images, (n, C, H, W), if it is wanted."""
        self.output.backward(dlogits)
        for layer in reversed(self.layers[self.first + 1 :]):
            layer.backward()
        self.layers[self.first].backward(dx_wanted=dx_wanted)
        if not dx_wanted:
            return None
        for layer in reversed(self.layers[: self.first]):
            layer.backward()
        return self.input.gradient.images.transpose(1, 0, 2, 3)


if __name__ == "__main__":
    import conv_recipes  # imported here because conv_recipes imports this file

    sys.exit(conv_recipes.main())
