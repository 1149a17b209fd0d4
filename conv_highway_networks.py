"""Convolutional highway networks, in NumPy: forward and backward written by hand.

    python conv_highway_networks.py --net mnist-16 --seeds 0,1 --jobs 2      table 1's first net, two seeds side by side
    python conv_highway_networks.py --net highway-a --block highway          table 2's, on CIFAR-10

From sections 3.2 and 3.3 of the paper. A convolution is a layer of highway_networks.py whose columns are patches. Each
output pixel n has a column x_n: the k·k·C values of its k x k window in all C maps, and a 1. Then

    z = W x        dW = dz xᵀ        dx = Wᵀ dz

are the same as in a dense layer. So are the blocks: H, T and y of eq. 3, pixel by pixel. Only two things are new:
im2col, and its adjoint, col2im, which adds to each pixel the gradients of all patches that it is part of. Maps are
stored so that patches are a view of them, and nothing is copied k·k times.

C, H, W of a shape are channels (inside the net: maps), height and width; elsewhere H, T, C are branches of a block, and
W weights. Outside, a batch of images is (B, C, H, W). Inside, maps are (C, H, W, B), the batch last, as in a dense
layer; in memory, all maps of a row of pixels lie together.

The file reads from top to bottom: what a net is made of; maps and their patches; layers, from pools to convolutions;
the net; its passes. conv_recipes.py has the paper's nets, their training and the command.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("conv_recipes")

if "ConvNet" in globals():  # its stages would be others than those that are in use
    raise ImportError("conv_highway_networks: expected to be imported once, found a reload; restart the kernel")

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from highway_networks import (
    ACTIVATIONS,
    BLOCKS,
    FINITE,
    POSITIVE,
    ZERO_OR_MORE,
    Activation,
    Architecture,
    Block,
    InputError,
    Net,
    Tensors,
    affine_backward,
    affine_forward,
    as_python,
    check,
    expected_instead,
    hyperparameter,
    prepared,
)

__all__ = ["AveragePool", "Blocks", "ConvNet", "ConvWorkspace", "Convolution", "Dropout", "MaxPool"]

# ------------------------------------------------------------------------------ what a net is made of
# A list of stages. Each stage turns maps of one shape into maps of the shape `output_shape(stage, shape)`.


Shape = tuple[int, int, int]  # C, H, W


class Convolution(NamedTuple):
    """A plain k x k convolution with stride 1 to `maps` output maps."""

    maps: int
    kernel: int = 3
    padding: int = 1


class Blocks(NamedTuple):
    """A sequence of `number` k x k blocks, each with as many output maps as input maps."""

    number: int
    kernel: int = 3

    @property
    def padding(self) -> int:
        return self.kernel // 2


class MaxPool(NamedTuple):
    """The maximum of each window, size x size."""

    size: int
    stride: int


class AveragePool(NamedTuple):
    """The mean of each window, size x size, side by side; a global average if the size is that of the maps."""

    size: int


class Dropout(NamedTuple):
    """Dropout: in training, each value is set to zero with probability `rate`."""

    rate: float


STAGES = {stage.__name__: stage for stage in (Convolution, Blocks, MaxPool, AveragePool, Dropout)}
Stage = Convolution | Blocks | MaxPool | AveragePool | Dropout
MOST_LAYERS = 10_000  # of a net; a file that claims more is damaged
CONV_INITS = ["he", "orthogonal", "uniform"]  # the INITS that depend on fan_in alone, which is k·k·C


def output_shape(stage: Stage, shape: Shape) -> Shape:
    """Return the shape of the maps that a stage makes of maps of a shape."""
    C, *sizes = shape
    match stage:
        case Convolution(maps, kernel, padding):
            return maps, *(size + 2 * padding - kernel + 1 for size in sizes)
        case MaxPool(size, stride):
            return C, *(window_count(length, size, stride) for length in sizes)
        case AveragePool(size):
            return C, *(window_count(length, size, size) for length in sizes)
    return shape


def window_count(length: int, size: int, stride: int) -> int:
    """Return how many windows cover a row of `length` pixels; the last may hang over the edge (Caffe rounds up).

    Each window starts inside the row. Where the stride is larger than a window, the last pixels may be in none.
    """
    return min(max(math.ceil((length - size) / stride), 0) + 1, math.ceil(length / stride))


def as_stage(entry: Stage | Sequence) -> Stage:
    """Return a stage, given as itself or as a list of its name and values; raises InputError for anything else."""
    try:
        kind, values = (type(entry), entry) if isinstance(entry, Stage) else (STAGES[entry[0]], entry[1:])
        return kind(*map(as_python, values))
    except (KeyError, IndexError, TypeError) as error:
        names = ", ".join(STAGES)
        raise InputError(f"stages: expected one of {names} and its values, found {entry!r}; choose one") from error


def check_stage(stage: Stage, shape: Shape) -> None:
    """Raise InputError for a stage with a wrong value, or one that does not fit maps of this shape."""

    def expect(expected: str, fits: bool) -> None:
        if not fits:
            raise InputError(
                f"stages: expected {expected}, found {stage} for maps {shape}; change it, or the size of the images"
            )

    for name, value in stage._asdict().items():
        if name == "rate":
            expect("a rate in [0, 1)", isinstance(value, int | float) and 0 <= value < 1)
        else:
            least = 0 if name == "padding" else 1
            expect(f"{name} {least} or more, a whole number", isinstance(value, int) and value >= least)
    if isinstance(stage, Convolution):
        expect("padding of less than half the kernel", 2 * stage.padding < stage.kernel)  # maps do not grow
        expect("a kernel that fits into the maps", min(output_shape(stage, shape)) >= 1)


# ------------------------------------------------------------------------------------- maps and patches


class Maps:
    """Maps (C, H, W) of B images, stored so that the patches of a k x k convolution are a view of them.

    A row of pixels holds its C maps k times, each time shifted by a pixel, and a row of ones for the bias. Beyond the
    edges there are zeros. So the k rows of pixels that an output row needs are, as they lie in memory, the matrix of
    its patches. As plain loops, im2col is

        for r, s, i, j, c in np.ndindex(h, w, k, k, C):
            row, column = r + i - padding, s + j - padding
            if 0 <= row < H and 0 <= column < W:
                patches[r, i * (k * C + 1) + j * C + c, s] = maps[c, row, column]

    images      (C, H, W, B), a view; in memory rows of pixels come first
    gradient    of the loss with respect to them, likewise; a workspace gives it memory
    patches     (h, k·(k·C + 1), w·B), a view that is right once `shift` has been called
    """

    gradient: np.ndarray

    def __init__(
        self, shape: Shape, B: int, dtype: type, kernel: int = 1, padding: int = 0, output: Sequence[int] | None = None
    ):
        """`output`: h and w of the convolution's maps; without it, as many as these have."""
        (C, H, W), (h, w), self.padding = shape, output or shape[1:], padding
        self.rows = np.zeros((h + kernel - 1, kernel * C + 1, W, B), dtype)
        self.rows[:, -1] = 1
        self.copies = self.rows[padding : padding + H, :-1].reshape(H, kernel, C, W, B).transpose(1, 2, 0, 3, 4)
        self.images = self.copies[padding]
        self.patches = row_windows(self.rows, kernel, w * B)

    def shift(self) -> None:
        """Fill the shifted copies: pixel s of copy j is pixel s + j − padding of the images."""
        W = self.images.shape[2]
        for j, copy in enumerate(self.copies):
            if j != self.padding:
                to, of = shifted(j - self.padding, W, W)
                copy[:, :, to] = self.images[:, :, of]


def row_windows(rows: np.ndarray, kernel: int, columns: int) -> np.ndarray:
    """Return each `kernel` rows (values, W, B) that follow one another as a matrix (kernel·values, columns): a view."""
    n, values, *_ = rows.shape
    return as_strided(rows, (n - kernel + 1, kernel * values, columns), (*rows.strides[:2], rows.itemsize))


def shifted(by: int, w: int, W: int) -> tuple[slice, slice]:
    """Return the places s among w for which s + `by` is one of W, and these."""
    first, end = max(-by, 0), min(w, W - by)
    return slice(first, max(end, first)), slice(first + by, max(end, first) + by)


def as_rows(kernels: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return kernels (n, k, k, C) and biases (n) as the matrix (n, k·(k·C + 1)) by which patches are multiplied."""
    n, k, _, C = kernels.shape
    W = np.zeros((n, k, k * C + 1), kernels.dtype)
    W[:, :, :-1] = kernels.reshape(n, k, -1)
    W[:, 0, -1] = b  # of k ones, one is enough
    return W.reshape(n, -1)


# -------------------------------------------------------------------------------------------- layers


class Layer:
    """A layer from maps x (C, H, W, B) to maps y (D, h, w, B).

    `forward` fills y.images; `backward` fills x.gradient, given y.gradient, and the gradients of weights.
    """

    def __init__(self, stage: Any, x: Maps, y: Maps):
        self.stage, self.x, self.y = stage, x, y


class MaxPoolLayer(Layer):
    """The maximum of each window. Its gradient goes to the first pixel that has it.

    places     (C, h, w, B), the number of that pixel in its window, row by row
    """

    def forward(self) -> None:
        y = self.y.images
        y[...], self.places = -np.inf, np.zeros_like(y, np.min_scalar_type(self.stage.size**2))
        for place, pixels, reached in self._pixels(self.x.images):
            larger = (pixels > y[reached]) * self.places.dtype.type(place)
            np.maximum(self.places[reached], larger, out=self.places[reached])
            np.maximum(y[reached], pixels, out=y[reached])

    def backward(self) -> None:
        self.x.gradient[...] = 0
        for place, dpixels, reached in self._pixels(self.x.gradient):
            dpixels += self.y.gradient[reached] * (self.places[reached] == place)

    def _pixels(self, x: np.ndarray) -> Iterator[tuple[int, np.ndarray, tuple]]:
        """Yield each place in a window, the pixels of x there of all windows that have it (a view), and these."""
        (size, stride), (_, h, w, _) = self.stage, self.y.images.shape
        for place, (i, j) in enumerate(np.ndindex(size, size)):
            pixels = x[:, i::stride, j::stride][:, :h, :w]
            yield place, pixels, (slice(None), slice(pixels.shape[1]), slice(pixels.shape[2]))


class AveragePoolLayer(Layer):
    """The mean of each window."""

    def forward(self) -> None:
        self.y.images[...] = means_of_windows(self.x.images, self.stage.size)

    def backward(self) -> None:
        dx, size = self.x.gradient, self.stage.size
        _, H, W, _ = dx.shape
        share = self.y.gradient / window_sizes(H, W, size)
        dx[...] = share.repeat(size, axis=1)[:, :H].repeat(size, axis=2)[:, :, :W]


def means_of_windows(x: np.ndarray, size: int) -> np.ndarray:
    """Return the means (C, h, w, B) of windows of maps (C, H, W, B), side by side; some may be cut at an edge."""
    _, H, W, _ = x.shape
    sums = np.add.reduceat(np.add.reduceat(x, range(0, W, size), axis=2), range(0, H, size), axis=1)
    return sums / window_sizes(H, W, size)


def window_sizes(H: int, W: int, size: int) -> np.ndarray:
    """Return the number of pixels in each window, (h, w, 1): fewer where it is cut at an edge."""
    return np.outer(*(np.diff([*range(0, length, size), length]) for length in (H, W)))[..., None]


class DropoutLayer(Layer):
    """Values kept or set to zero at random, by `rng`, which each pass sets. Evaluation has no such layer."""

    rng: np.random.Generator

    def forward(self) -> None:
        kept = self.rng.random(self.x.images.shape, np.float32) >= self.stage.rate
        self.mask = kept * np.float32(1 / (1 - self.stage.rate))  # keeps the mean, so that evaluation needs no factor
        np.multiply(self.x.images, self.mask, out=self.y.images)

    def backward(self) -> None:
        np.multiply(self.y.gradient, self.mask, out=self.x.gradient)


LAYERS = {MaxPool: MaxPoolLayer, AveragePool: AveragePoolLayer, Dropout: DropoutLayer}  # without weights

EPSILON = 1e-5  # added to a variance
BATCH_NORM_MOMENTUM = 0.1  # weight of the latest batch in the running statistics


class BatchNorm:
    """Batch normalisation of H's affine map, map by map (Ioffe & Szegedy 2015), in place.

    Training uses the batch's mean and variance. The running mean and variance follow them, and evaluation uses these;
    the running variance is the unbiased one, divided by n − 1 instead of n.

    params, gradients      (2, D): γ above β; gradients are None in evaluation
    running                mean (D,) and variance (D,)
    z                      (D, H, W, B), a view of the affine map; here (B, W, H, D), so that a map is a column
    """

    def __init__(self, params: np.ndarray, gradients: np.ndarray | None, running: Sequence[np.ndarray], z: np.ndarray):
        self.params, self.gradients, self.running, self.z = params, gradients, running, z.T

    def forward(self) -> None:
        """Replace z by γ·ẑ + β, where ẑ has mean 0 and variance 1."""
        z, (gamma, beta), (mean, self.variance) = self.z, self.params, self.running
        if self.gradients is not None:
            n, mean = z[..., 0].size, z.mean(axis=(0, 1, 2))
            self.variance = ((z - mean) ** 2).mean(axis=(0, 1, 2))  # var() would make a complex step real
            unbiased = self.variance * n / max(n - 1, 1)  # only for the running one
            for running, latest in zip(self.running, (mean, unbiased), strict=True):
                running += BATCH_NORM_MOMENTUM * (latest - running)
        self.z_hat = (z - mean) / np.sqrt(self.variance + EPSILON)  # ẑ = (z − mean) / √(variance + ε)
        np.multiply(self.z_hat, gamma, out=z)
        z += beta

    def backward(self, dz: np.ndarray) -> None:
        """Replace dz (D, H, W, B), the gradient with respect to γ·ẑ + β, by the gradient with respect to z."""
        (gamma, _), (dgamma, dbeta), n, dz = self.params, self.gradients, dz[0].size, dz.T
        dbeta[...] = dz.sum(axis=(0, 1, 2))
        dgamma[...] = (dz * self.z_hat).sum(axis=(0, 1, 2))
        # Through mean and variance, factored: dz becomes γ / √(variance + ε) · (dz − mean dz − ẑ · mean(dz·ẑ))
        dz -= dbeta / n
        dz -= self.z_hat * (dgamma / n)
        dz *= gamma / np.sqrt(self.variance + EPSILON)


SMALL_PRODUCT = 10**6  # most multiply-adds of a product that OpenBLAS (AVX-512) computes without packing, and faster
FEWEST_COLUMNS = 64  # of a product: with fewer, its size does not pay


def columns_per_product(weights: int, columns: int) -> int:
    """Return how many columns one product takes: as many as a small one can, equally many in each."""
    most = min(SMALL_PRODUCT // weights, columns)
    return next((m for m in range(most, FEWEST_COLUMNS - 1, -1) if columns % m == 0), columns)


class ConvolutionLayer(Layer):
    """A block whose affine maps are convolutions: z = W x of all patches x, then the pair of functions from BLOCKS.

    Where y has another shape than x, the block must be plain.

    kernels      (G·D, k, k, C), a view of W
    z            (G, D, h, w, B), the affine map of each branch, which becomes H, T, ...
    flat_z       (h, G·D, w·B), the same memory
    norm         batch normalisation between H's affine map and its activation, or None
    """

    def __init__(self, stage: Convolution | Blocks, x: Maps, y: Maps, kind: tuple[Block, Activation], W: Any, dW: Any):
        """W (G·D, k·k·C + 1), and memory for dW."""
        super().__init__(stage, x, y)
        (self.block, self.activation), self.W, self.dW, self.norm = kind, W, dW, None
        (_, h, w, B), n, k = y.images.shape, len(W), stage.kernel
        self.kernels = W[:, :-1].reshape(n, k, k, -1)
        self.flat_z = np.empty((h, n, w * B), W.dtype)
        self.z = self._by_branch(self.flat_z.reshape(h, n, w, B))
        self.product_columns = columns_per_product(W.size, max(w * B, 1))  # there may be no image

    def _by_branch(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (h, G·D, w, B) of the maps of all branches as (G, D, h, w, B), a view."""
        D, h, w, B = self.y.images.shape
        return rows.reshape(h, len(self.block.branches), D, w, B).transpose(1, 2, 0, 3, 4)

    def _cut(self, columns: np.ndarray) -> np.ndarray:
        """Return matrices (h, rows, w·B) as (h, w·B / m, rows, m), a view, for products of m columns."""
        return columns.reshape(*columns.shape[:2], -1, self.product_columns).swapaxes(1, 2)

    def forward(self) -> None:
        self.x.shift()
        affine_forward(as_rows(self.kernels, self.W[:, -1]), self._cut(self.x.patches), self._cut(self.flat_z))
        if self.norm is not None:
            self.norm.forward()  # H's z becomes γ·ẑ + β
        self.block.forward(self.x.images, self.z, self.y.images, self.activation)  # z becomes H, T, ...

    def backward(self, *, dx_wanted: bool = True) -> None:
        dx, (D, h, w, B), (n, k, *_) = self.x.gradient, self.y.images.shape, self.kernels.shape
        rows, above = np.empty((dx.shape[1] + k - 1, n, w, B), dx.dtype), k - 1 - self.stage.padding
        dz_rows, scratch = rows[above : above + h], np.empty((h, D, w, B), dx.dtype).swapaxes(0, 1)
        dz = self._by_branch(dz_rows)
        self.block.backward(self.y.gradient, self.x.images, self.z, dz, dx, self.activation, scratch)
        if self.norm is not None:
            self.norm.backward(dz[0])  # dz of γ·ẑ + β becomes dz of z, in H
        self._fill_dW(self._cut(dz_rows.reshape(h, n, w * B)))
        if dx_wanted:
            rows[:above] = rows[above + h :] = 0
            self._add_to_dx(dx, self._cut(row_windows(rows, k, w * B)))

    def _fill_dW(self, dz: np.ndarray) -> None:
        n, k, *_ = self.kernels.shape
        dWt = self._cut(self.x.patches) @ dz.swapaxes(2, 3).copy()  # dWᵀ = x dzᵀ, which is faster than dW = dz xᵀ
        dW = dWt.sum(axis=(0, 1)).T.reshape(n, k, -1)  # in the form of as_rows
        self.dW[:, :-1], self.dW[:, -1] = dW[:, :, :-1].reshape(n, -1), dW[:, 0, -1]

    def _add_to_dx(self, dx: np.ndarray, dz_windows: np.ndarray) -> None:
        """Add Wᵀ dz: over the rows of a window by one product, as in `Maps.patches`, over its columns by k additions.

        As plain loops, col2im is

            for r, s, i, j, c in np.ndindex(h, w, k, k, C):
                row, column = r + i - padding, s + j - padding
                if 0 <= row < H and 0 <= column < W:
                    dx[c, row, column] += kernels[:, i, j, c] @ dz[:, r, s]
        """
        n, k, _, C = self.kernels.shape
        (_, H, _, B), w = dx.shape, self.y.images.shape[2]
        W = self.kernels[:, ::-1].transpose(2, 3, 1, 0).reshape(k * C, k * n)  # columns: the window's last row first
        through = np.empty((H, k, C, w, B), dx.dtype)
        np.matmul(W, dz_windows, out=self._cut(through.reshape(H, k * C, w * B)))
        for j, dcopy in enumerate(through.transpose(1, 2, 0, 3, 4)):
            of, to = shifted(j - self.x.padding, w, dx.shape[2])
            dx[:, :, to] += dcopy[:, :, of]


class OutputLayer:
    """Logits from all pixels of all maps: a dense layer."""

    def __init__(self, W: np.ndarray, dW: np.ndarray | None, x: Maps):
        self.W, self.dW, self.x = W, dW, x
        self.flat = np.ones((W.shape[1], x.images.shape[-1]), W.dtype)  # (C·H·W + 1, B)

    def forward(self) -> np.ndarray:
        """Return the logits (B, K)."""
        self.flat[:-1].reshape(self.x.images.shape)[...] = self.x.images
        return (self.W @ self.flat).T

    def backward(self, dlogits: np.ndarray) -> None:
        """Fill dW and x.gradient."""
        dflat = np.empty_like(self.flat[:-1])
        affine_backward(dlogits.T, self.W, self.flat, self.dW, dflat)
        self.x.gradient[...] = dflat.reshape(self.x.images.shape)


# --------------------------------------------------------------------------------------------- the net


class PlacedLayer(NamedTuple):
    """A stage at its place in a net, each block of a stage alone; `branches` is empty for a layer without weights."""

    stage: Stage
    x_shape: Shape
    y_shape: Shape
    branches: str


class ConvParameters(Tensors):
    """Parameters of a ConvNet; l counts its convolutions and blocks, from 1.

    l.W_H (D, k·k·C), l.b_H (D), ...     of each branch of layer l
    l.gamma (D), l.beta (D)              of batch normalisation, where H of layer l has it
    W_out (K, C·H·W), b_out (K)          of the dense layer at the end

    convolutions     a list of (G·D, k·k·C + 1) = [W_H b_H; W_T b_T; ...]
    output           (K, C·H·W + 1) = [W_out b_out]
    norms            a dict l -> (2, D), γ above β
    """

    def __init__(self, net: "ConvNet"):
        layers, output = net.convolutions, (net.config["d_out"], math.prod(net.layers[-1].y_shape) + 1)
        matrices = [(len(of.branches) * of.y_shape[0], of.stage.kernel**2 * of.x_shape[0] + 1) for of in layers]
        super().__init__([*matrices, output, *((2, layers[l - 1].y_shape[0]) for l in net.normalised)], net.dtype)
        self.convolutions, self.output = self.pieces[: len(layers)], self.pieces[len(layers)]
        self.norms = dict(zip(net.normalised, self.pieces[len(layers) + 1 :], strict=True))
        for l, (layer, matrix) in enumerate(zip(layers, self.convolutions, strict=True), start=1):
            for branch, rows in zip(layer.branches, np.split(matrix, len(layer.branches)), strict=True):
                self.name_affine(branch, rows, f"{l}.")
        self.name_affine("out", self.output)
        for l, (gamma, beta) in self.norms.items():
            self.update({f"{l}.gamma": gamma, f"{l}.beta": beta})


@dataclass(frozen=True)
class ConvArchitecture(Architecture):
    """Hyperparameters of a ConvNet, beside its stages."""

    activation: str = hyperparameter("relu", "activation in H", ACTIVATIONS)
    init: str = hyperparameter("he", "initial weights: normalised, orthogonal, or uniform in ±1/√fan_in", CONV_INITS)
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
        check("d_out", d_out, int, ZERO_OR_MORE if rng is None else POSITIVE)
        shape = [as_python(size) for size in shape]
        saved = {"shape": shape, "d_out": d_out, "stages": [[type(stage).__name__, *stage] for stage in stages]}
        super().__init__(ConvArchitecture(**architecture), **saved)
        if len(shape) != 3 or any(expected_instead(size, int, POSITIVE) for size in shape):
            raise InputError(f"shape: expected channels, height and width, found {shape}; choose images")
        if shape[0] > 4 and shape[2] in (1, 3, 4):  # as many as an image has channels
            found = f"expected channels, height and width, found {shape}, channels last"
            raise InputError(f"shape: {found}; pass images.transpose(0, 3, 1, 2)")
        if self.block.rows(2) != 2 * len(self.block.branches):  # e.g. lstm, whose branches have half as many rows as x
            found = f"expected branches with as many maps as x, found {self.config['block']} blocks"
            raise InputError(f"block: {found}; choose another")
        self.layers = list(islice(self._place(stages, tuple(shape)), MOST_LAYERS + 1))
        if len(self.layers) > MOST_LAYERS:
            raise InputError(f"stages: expected at most {MOST_LAYERS} layers, found more; use fewer")
        self.convolutions = [layer for layer in self.layers if layer.branches]
        if not self.convolutions:
            raise InputError("stages: expected a convolution or a block, found none; add one")
        blocks = [l for l, layer in enumerate(self.convolutions, start=1) if isinstance(layer.stage, Blocks)]
        self.depth, self.normalised = len(blocks), blocks if self.config["batch_norm"] else []
        self.block = self.block.for_depth(self.depth)
        self.params = self.new_parameters()
        self.draw(rng)
        for l, (gamma, _) in self.params.norms.items():
            gamma[...] = 1
            self.buffers |= {f"{l}.mean": np.zeros_like(gamma), f"{l}.variance": np.ones_like(gamma)}
        if self.config["contrast"]:
            self.buffers["mean"] = np.zeros(shape, self.dtype)

    def _place(self, stages: Sequence[Stage], shape: Shape) -> Iterator[PlacedLayer]:
        """Yield the layers of the stages; raises InputError for a stage that cannot be at its place."""
        for stage in stages:
            check_stage(stage, shape)
            y_shape = output_shape(stage, shape)
            if isinstance(stage, Blocks):
                yield from repeat(
                    PlacedLayer(Blocks(1, stage.kernel), shape, shape, self.block.branches),
                    min(stage.number, MOST_LAYERS + 1),
                )
            else:
                if isinstance(stage, MaxPool | AveragePool):  # a window larger than the maps covers no more pixels
                    stage = stage._replace(size=min(stage.size, max(shape[1:])))
                yield PlacedLayer(stage, shape, y_shape, "H" if isinstance(stage, Convolution) else "")
            shape = y_shape

    def new_parameters(self) -> ConvParameters:
        """Return zeros in the form of this net's parameters."""
        return ConvParameters(self)

    def __repr__(self) -> str:
        of, shape = self.config, " x ".join(map(str, self.config["shape"]))
        blocks = f"{self.depth} {of['block']} blocks of {of['activation']} maps"
        return f"ConvNet({shape} → {blocks} → {of['d_out']}; {of['dtype']}; {self.params.flat.size:,} parameters)"

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> "ConvWorkspace":
        """Allocate the memory of the passes over batches of one size, for training if there is a generator."""
        return ConvWorkspace(self, batch_size, rng)

    def forward(self, x: np.ndarray, workspace: "ConvWorkspace | None" = None) -> tuple[np.ndarray, "ConvWorkspace"]:
        """Return the logits (B, K) of a batch x (B, C, H, W), and the workspace, which is the cache of `backward`.

        Without a workspace, or with one made without `rng`, the pass is an evaluation: it has no dropout, and batch
        normalisation uses the running statistics. Raises InputError for another x, such as pixels (uint8).
        """
        if np.shape(x)[1:] != (shape := self.layers[0].x_shape) == np.shape(x)[-1:] + np.shape(x)[1:-1]:
            raise InputError(f"x: expected images {shape}, found channels last; pass x.transpose(0, 3, 1, 2)")
        x = prepared(x, shape, self.dtype)
        w = ConvWorkspace(self, len(x)) if workspace is None else workspace
        if w.net is not self:
            raise ValueError("workspace: expected one of this net, found another's; make one by its `workspace`")
        if len(x) != w.batch_size:
            raise ValueError(f"expected a batch of {w.batch_size} for this workspace, found {len(x)}")
        return w.forward(x), w

    def backward(self, dlogits: np.ndarray, cache: "ConvWorkspace", *, return_dx: bool = False):
        """Return the gradients of the loss with respect to the parameters, given dlogits (B, K) and the cache.

        They are a mapping like `params`, which lives in the cache. With `return_dx` also return the gradient with
        respect to the images, (B, C, H, W).
        """
        if cache.rng is None:
            raise ValueError("expected a workspace for training, found one for evaluation; give it a generator")
        dx = cache.backward(dlogits, dx_wanted=return_dx)
        return (cache.gradients, dx) if return_dx else cache.gradients

    def predict(self, x: np.ndarray, rows: int = 25) -> np.ndarray:
        """Return the logits (n, K) of images x (n, C, H, W), `rows` at a time. Raises InputError for another x."""
        check("rows", rows, int, POSITIVE)
        logits, workspace = np.empty((len(x), self.config["d_out"]), self.dtype), None
        for start in range(0, len(x), rows):
            batch = x[start : start + rows]
            if workspace is None or len(batch) < rows:
                workspace = ConvWorkspace(self, len(batch))
            logits[start : start + rows], _ = self.forward(batch, workspace)
        return logits

    def preprocess(self, images: np.ndarray) -> np.ndarray:
        """Return images (n, C, H, W) as the net takes them: uint8 as 0 to 255/256, as in the paper's files.

        Floats stay as they are. With `contrast`, return `contrast_normalised(images)` minus the mean image.
        """
        if not self.config["contrast"]:
            return np.multiply(images, 1 / 256 if images.dtype == np.uint8 else 1, dtype=self.dtype)
        return contrast_normalised(images, self.dtype) - self.buffers["mean"]


def contrast_normalised(images: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Global contrast normalisation: return images (n, C, H, W) with mean 0 and standard deviation 1 each.

    An image whose pixels are all equal becomes 0.
    """
    x = images.astype(dtype)
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    deviation = x.std(axis=(1, 2, 3), keepdims=True)
    return np.divide(x, deviation, out=x, where=deviation > 0)


class ConvWorkspace:
    """Maps and layers for the passes over batches of one size, allocated once; each pass overwrites the one before it.

    One with a generator is for training: dropout draws from it, and batch normalisation takes the batch's statistics.

    input, layers, output     the maps of the images, and the layers in order
    first                     the index of the first layer with parameters
    dropouts                  those of the layers that draw from `rng`
    gradients                 of the parameters
    T                         the transform gates (D, H, W, B) of each block that has them
    """

    def __init__(self, net: ConvNet, batch_size: int, rng: np.random.Generator | None = None):
        self.net, self.batch_size, self.rng = net, batch_size, rng
        self.gradients = net.new_parameters()
        unused = Dropout if rng is None else ()
        placed = [of for of in net.layers if not isinstance(of.stage, unused) and of.stage != Dropout(0)]
        windows = [(of.stage.kernel, of.stage.padding, of.y_shape[1:]) if of.branches else () for of in placed]
        maps = [Maps(of.x_shape, batch_size, net.dtype, *window) for of, window in zip(placed, windows, strict=True)]
        maps.append(Maps(placed[-1].y_shape, batch_size, net.dtype))
        flows = np.empty((2, max(of.images.size for of in maps)), net.dtype)  # a layer needs two at a time
        for i, (of, (C, H, *sizes)) in enumerate((of, of.images.shape) for of in maps):
            of.gradient = flows[i % 2, : of.images.size].reshape(H, C, *sizes).swapaxes(0, 1)
        self.layers, convolutions = [], []
        for (stage, *_, branches), x, y in zip(placed, maps, maps[1:], strict=False):
            if not branches:
                self.layers.append(LAYERS[type(stage)](stage, x, y))
                continue
            kind = net.block if isinstance(stage, Blocks) else BLOCKS["plain"], net.activation
            W, dW = (of.convolutions[len(convolutions)] for of in (net.params, self.gradients))
            convolutions.append(ConvolutionLayer(stage, x, y, kind, W, dW))
            self.layers.append(convolutions[-1])
        for l in net.normalised:
            running = net.buffers[f"{l}.mean"], net.buffers[f"{l}.variance"]
            gradients, layer = self.gradients.norms[l] if rng is not None else None, convolutions[l - 1]
            layer.norm = BatchNorm(net.params.norms[l], gradients, running, layer.z[0])
        self.input = maps[0]
        self.dropouts = [layer for layer in self.layers if isinstance(layer, DropoutLayer)]
        self.first = self.layers.index(convolutions[0])
        self.T = [of.z[of.block.branches.index("T")] for of in convolutions if "T" in of.block.branches]
        self.output = OutputLayer(net.params.output, self.gradients.output, maps[-1])

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return the logits (B, K) of images (B, C, H, W)."""
        for layer in self.dropouts:
            layer.rng = self.rng
        self.input.images[...] = x.transpose(1, 2, 3, 0)
        with np.errstate(over="ignore", under="ignore"):  # e^−z may be inf where σ(z) is rightly 0, or 0 where it is 1
            for layer in self.layers:
                layer.forward()
            return self.output.forward()

    def backward(self, dlogits: np.ndarray, *, dx_wanted: bool) -> np.ndarray | None:
        """Fill `gradients`; return the gradient with respect to the images, (B, C, H, W), if it is wanted."""
        with np.errstate(under="ignore"):
            self.output.backward(dlogits)
            for layer in reversed(self.layers[self.first + 1 :]):
                layer.backward()
            self.layers[self.first].backward(dx_wanted=dx_wanted)
            for layer in reversed(self.layers[: self.first * dx_wanted]):
                layer.backward()
        return self.input.gradient.transpose(3, 0, 1, 2).copy() if dx_wanted else None
