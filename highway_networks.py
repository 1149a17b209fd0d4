"""Training very deep networks, in NumPy: highway and plain nets, forward and backward written by hand.

    python highway_networks.py --seed 0                           the headline: 30 blocks, both nets
    python highway_networks.py --seed 0 --depths 5,10,20,30,50    the depth sweep

From Srivastava, Greff & Schmidhuber, "Training Very Deep Networks", NIPS 2015 (arXiv:1507.06228), whose symbols and
numbers of equations and sections the comments use:

    y = H(x, W_H)                                    a plain block                                    (1)
    y = H(x, W_H)·T(x, W_T) + x·C(x, W_C)            a highway block with a carry gate of its own     (2)
    y = H(x, W_H)·T(x, W_T) + x·(1 − T(x, W_T))      a highway block: C = 1 − T                       (3)
    dH = T·dy     dT = (H − x)·dy     dx = (1 − T)·dy                                                 (9)

where H = act(W_H x + b_H), T = σ(W_T x + b_T), σ is the logistic function, and · multiplies unit by unit. dH is the
gradient of the loss with respect to H, and so for every name. Eq. 9 gives the direct part of dx; the part that flows
back through the affine maps of H and T is added to it.

A block here is a whole layer, where the paper calls each unit of a layer a block. L is the number of blocks, `depth` in
the code; the paper also counts the plain layer before them, so its depth is L + 1. x_l is the input of block l, from 0.

Inside the net a column is a sample: a batch is (D, B), D units of B samples. The G branches of a block (H, T, C) have
their matrices stacked, W = [W_H b_H; W_T b_T] of shape (G·D, D + 1), and x has a last row of ones, for the biases. So a
block is three products: z = W x, dW = dz xᵀ, dx = Wᵀ dz. (W x is the paper's W_Tᵀ x.) Callers pass and get rows:
inputs (B, d_in), logits (B, K) of K classes.

The file reads from top to bottom: blocks, affine map, parameters, net, loss, optimisers, data, configuration, command.
The training loop, files and the flags of the command are in highway_lab/.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("highway_networks")

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from highway_lab import InputError, checkpoints, datasets
from highway_lab.cli import FINITE, POSITIVE, ZERO_OR_MORE, hyperparameter, one_of
from highway_lab.commands import TrainingCommand
from highway_lab.datasets import Dataset, as_inputs, check_prepared, load_folder
from highway_lab.files import damaged, decompress, read_bytes
from highway_lab.logs import ADD_NAME
from highway_lab.threads import count_threads
from highway_lab.training import LOSSES, OPTIMIZERS, Loss, TrainingConfig, batch_sizes, train, weighted_mean

__all__ = ["ACTIVATIONS", "BLOCKS", "INITS", "Activation", "Adam", "Block", "Config", "Dataset", "DeepNet", "Momentum"]
__all__ += ["Workspace", "accuracy", "clip_global_norm", "load_dataset", "load_folder", "main", "read_idx"]
__all__ += ["sigmoid_backward", "sigmoid_forward", "softmax_cross_entropy", "train"]

# ---------------------------------------------------------------------------------------------- blocks
# Each forward function stands above its backward; all blocks share one signature. z (G, D, B) holds the affine maps of
# the branches, which become H, T, ... in place. dz (G, D, B) receives the gradients with respect to these maps, and
# dx (D, B) the gradient along the paths around them. `scratch` (D, B) is working memory: what it holds means nothing
# before or after a call.


class Activation(NamedTuple):
    """An activation of the block state. Both functions work in place: z becomes H, dH becomes dz."""

    forward: Callable[[np.ndarray], None]  # z
    backward: Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # dH, H, scratch


def tanh_forward(z):
    np.tanh(z, out=z)  # H = tanh z


def tanh_backward(dH, H, scratch):
    np.multiply(H, H, out=scratch)
    np.subtract(1, scratch, out=scratch)
    dH *= scratch  # dz = (1 − H²)·dH


def relu_forward(z):
    np.clip(z, 0, np.inf, out=z)  # H = max(z, 0), in half of np.maximum's time


def relu_backward(dH, H, scratch):
    scratch[...] = H > 0
    dH *= scratch  # dz = dH where H > 0, else 0


def elu_forward(z):
    np.expm1(z, out=z, where=z < 0)  # H = z where z > 0, else e^z − 1    (Clevert et al. 2016)


def elu_backward(dH, H, scratch):
    np.minimum(H, 0, out=scratch)
    scratch += 1
    dH *= scratch  # dz = dH where H > 0, else (H + 1)·dH


ACTIVATIONS = {
    "tanh": Activation(tanh_forward, tanh_backward),
    "relu": Activation(relu_forward, relu_backward),
    "elu": Activation(elu_forward, elu_backward),
}


def sigmoid_forward(z):
    """z becomes T = σ(z) = 1 / (1 + e^−z), in place.

    Written so, σ keeps its relative precision at very negative z, where the gates of deep highway nets are.
    """
    np.negative(z, out=z)
    np.exp(z, out=z)
    z += 1
    np.divide(1, z, out=z)


def sigmoid_backward(dT, T, scratch):
    """dT becomes dz, in place."""
    np.subtract(1, T, out=scratch)
    dT *= T
    dT *= scratch  # dz = T·(1 − T)·dT


def plain_forward(x, z, y, activation):
    (H,) = z
    activation.forward(H)  # H = act(W_H x + b_H)
    y[...] = H  # y = H    (eq. 1)


def plain_backward(dy, x, z, dz, dx, activation, scratch):
    (H,), (dH,) = z, dz
    dH[...] = dy  # dH = dy
    dx[...] = 0  # no path around the affine map
    activation.backward(dH, H, scratch)


def highway_forward(x, z, y, activation):
    H, T = z
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid_forward(T)  # T = σ(W_T x + b_T)
    np.subtract(H, x, out=y)
    y *= T
    y += x  # y = H·T + x·(1 − T), as (H − x)·T + x    (eq. 3)


def highway_backward(dy, x, z, dz, dx, activation, scratch):
    (H, T), (dH, dT) = z, dz
    np.multiply(T, dy, out=dH)  # dH = T·dy    (eq. 9)
    np.subtract(H, x, out=dT)
    dT *= dy  # dT = (H − x)·dy    (eq. 9)
    np.subtract(dy, dH, out=dx)  # dx = (1 − T)·dy, as dy − T·dy    (eq. 9)
    sigmoid_backward(dT, T, scratch)
    activation.backward(dH, H, scratch)


def highway_uncoupled_forward(x, z, y, activation):
    H, T, C = z
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid_forward(T)  # T = σ(W_T x + b_T)
    sigmoid_forward(C)  # C = σ(W_C x + b_C)
    np.multiply(H, T, out=y)
    y += x * C  # y = H·T + x·C    (eq. 2); allocates one array


def highway_uncoupled_backward(dy, x, z, dz, dx, activation, scratch):
    (H, T, C), (dH, dT, dC) = z, dz
    np.multiply(T, dy, out=dH)  # dH = T·dy, and so on: eq. 2, differentiated
    np.multiply(H, dy, out=dT)  # dT = H·dy
    np.multiply(x, dy, out=dC)  # dC = x·dy
    np.multiply(C, dy, out=dx)  # dx = C·dy
    sigmoid_backward(dC, C, scratch)
    sigmoid_backward(dT, T, scratch)
    activation.backward(dH, H, scratch)


def residual_forward(x, z, y, activation):
    (H,) = z
    activation.forward(H)  # H = act(W_H x + b_H)
    np.add(H, x, out=y)  # y = H + x    (He et al. 2016, eq. 1, with one layer)


def residual_backward(dy, x, z, dz, dx, activation, scratch):
    (H,), (dH,) = z, dz
    dH[...] = dy  # dH = dy
    dx[...] = dy  # dx = dy
    activation.backward(dH, H, scratch)


class Block(NamedTuple):
    """A kind of block: its branches, each an affine map of x, and the pair of functions that combine them.

    branches      one letter each, in the order of z; T is a transform gate
    bias_signs    for a branch, its initial bias divided by `gate_bias` (0 where it is missing): σ(b_C) = 1 − σ(b_T)

    `BLOCKS["my-block"] = Block(...)` adds a block. A subclass may override the methods.
    """

    branches: str
    forward: Callable[..., None]  # x, z, y, activation
    backward: Callable[..., None]  # dy, x, z, dz, dx, activation, scratch
    bias_signs: Mapping[str, int] = {"T": 1, "C": -1}

    def for_depth(self, depth: int) -> "Block":
        """Return this block for a net of `depth` blocks."""
        return self

    def rows(self, D: int) -> int:
        """Return the rows of z, given the rows D of x."""
        return len(self.branches) * D


BLOCKS = {
    "plain": Block("H", plain_forward, plain_backward),
    "highway": Block("HT", highway_forward, highway_backward),
    "highway-uncoupled": Block("HTC", highway_uncoupled_forward, highway_uncoupled_backward),
    "residual": Block("H", residual_forward, residual_backward),
}


# -------------------------------------------------------------------------------------- the affine map
# W = [W_H b_H; W_T b_T; ...] (G·D, D + 1) against x (D + 1, B), whose last row is 1.


def affine_forward(W, x, z):
    np.matmul(W, x, out=z)  # z = W x


def affine_backward(dz, W, x, dW, dx):
    np.matmul(dz, x.T, out=dW)  # dW = dz xᵀ, of weights and biases
    if dx is not None:  # None: nobody wants the gradient with respect to the net's input
        np.matmul(W[:, :-1].T, dz, out=dx)  # dx = Wᵀ dz, summed over the branches


def with_ones(x: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return x (rows, B) above a row of ones: (rows + 1, B), a copy."""
    extended = np.ones((len(x) + 1, x.shape[1]), dtype)
    extended[:-1] = x
    return extended


# -------------------------------------------------------------------------------------- the parameters


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw weights (..., fan_out, fan_in) uniform in ±1/√fan_in."""
    bound = 1 / math.sqrt(shape[-1])
    return rng.uniform(-bound, bound, shape)


def glorot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw weights uniform in ±√(6 / (fan_in + fan_out)): normalised for tanh (Glorot & Bengio 2010, eq. 16)."""
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-bound, bound, shape)


def he(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw weights from a normal of variance 2 / fan_in: normalised for ReLU (He et al. 2015, eq. 10)."""
    return rng.normal(0, math.sqrt(2 / shape[-1]), shape)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw weights from a normal of standard deviation 0.01 (Krizhevsky et al. 2012, section 5)."""
    return rng.normal(0, 0.01, shape)


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw matrices with orthonormal columns, or rows where these are fewer (Saxe et al. 2014, the paper's [19]).

    Uniform over all such matrices: the Q of a normal matrix, its signs fixed by R > 0 (Mezzadri 2007).
    """
    normal = rng.normal(0, 1, shape)
    wide = shape[-2] < shape[-1]
    Q, R = np.linalg.qr(normal.swapaxes(-1, -2) if wide else normal)
    Q *= np.sign(np.diagonal(R, axis1=-2, axis2=-1))[..., None, :]
    return Q.swapaxes(-1, -2) if wide else Q


INITS = {"uniform": uniform, "glorot": glorot, "he": he, "gaussian": gaussian, "orthogonal": orthogonal}
SCALED = ("in", "H", "out")  # the weights that `init_gain` multiplies: those of gates are left alone


class Tensors(Mapping[str, np.ndarray]):
    """Tensors by name: views into one flat vector, so that an optimiser is a few vector operations.

    flat      the vector
    pieces    the vector cut into tensors of the given shapes
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: DTypeLike):
        ends = list(accumulate(math.prod(shape) for shape in shapes))
        self.flat = np.zeros(ends[-1], dtype)
        pieces = np.split(self.flat, ends[:-1])
        self.pieces = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        self.views: dict[str, np.ndarray] = {}

    def name_affine(self, branch: str, matrix: np.ndarray, layer: str = "") -> None:
        """Name the weights and the biases of a branch, whose matrix is [W b]."""
        self.views |= {f"{layer}W_{branch}": matrix[..., :-1], f"{layer}b_{branch}": matrix[..., -1]}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __len__(self) -> int:
        return len(self.views)


class Parameters(Tensors):
    """Parameters of a DeepNet: W_in (D, d_in), b_in (D); W_H (L, D, D), b_H (L, D), ...; W_out (K, D), b_out (K).

    input     (D, d_in + 1) = [W_in b_in]
    blocks    (L, G·D, D + 1) = [W_H b_H; W_T b_T; ...] of each block
    output    (K, D + 1) = [W_out b_out]
    """

    def __init__(self, d_in: int, d_out: int, hidden: int, depth: int, block: Block, dtype: DTypeLike):
        L, D = depth, hidden
        super().__init__(((D, d_in + 1), (L, block.rows(D), D + 1), (d_out, D + 1)), dtype)
        self.input, self.blocks, self.output = self.pieces
        self.name_affine("in", self.input)
        for branch, matrix in zip(block.branches, np.split(self.blocks, len(block.branches), axis=1), strict=True):
            self.name_affine(branch, matrix)
        self.name_affine("out", self.output)


def name_in_layer(name: str) -> str:
    """Return a tensor's name without the prefix of a ConvNet's layer: W_H of 3.W_H."""
    return name.rpartition(".")[-1]


# --------------------------------------------------------------------------------------------- the net


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters of any net. b_T starts at `gate_bias`, b_C at −`gate_bias`, other biases at 0."""

    block: str = hyperparameter("highway", "kind of block", one_of(BLOCKS))
    activation: str = hyperparameter("tanh", "activation in H", one_of(ACTIVATIONS))
    init: str = hyperparameter("uniform", "initial weights; glorot and he are the normalised ones", one_of(INITS))
    init_gain: float = hyperparameter(1.0, "factor on the initial weights, but for those of gates", POSITIVE)
    gate_bias: float = hyperparameter(-2.0, "initial transform-gate bias b_T", FINITE)
    dtype: str = hyperparameter("float32", "precision", one_of(("float32", "float64")))


@dataclass(frozen=True)
class DeepArchitecture(Architecture):
    """Hyperparameters of a DeepNet. The paper counts the plain layer before the blocks, too: its depth is L + 1."""

    depth: int = hyperparameter(30, "blocks", ZERO_OR_MORE)
    hidden: int = hyperparameter(50, "units in each block", POSITIVE)


class Net:
    """Base class of all nets: configuration, parameters, training step, saving.

    buffers: state that is not trained, such as running means.
    """

    params: Tensors
    depth: int
    forward: Callable[..., Any]
    backward: Callable[..., Any]

    def __init__(self, architecture: Architecture, **sizes: Any):
        self.dtype = np.dtype(architecture.dtype)
        self.config = sizes | asdict(architecture) | {"dtype": self.dtype.name}
        for option, table in (("block", BLOCKS), ("activation", ACTIVATIONS), ("init", INITS)):
            if self.config[option] not in table:
                found = f"expected one of {', '.join(table)}, found {self.config[option]!r}"
                raise InputError(f"{option}: {found}; choose one, or {ADD_NAME}")
        self.block, self.activation = BLOCKS[architecture.block], ACTIVATIONS[architecture.activation]
        self.buffers: dict[str, np.ndarray] = {}

    @property
    def has_gates(self) -> bool:
        """Whether there are blocks with transform gates."""
        return "T" in self.block.branches and self.depth > 0

    def check_gates(self) -> None:
        """Raise InputError if the blocks have no transform gates."""
        if "T" not in self.block.branches:
            found = f"expected blocks with a transform gate T, found {self.config['block']} blocks"
            raise InputError(f"gates: {found}; choose others, such as highway")

    def draw(self, rng: np.random.Generator) -> None:
        """Give the parameters their initial values."""
        for name, tensor in self.params.items():
            kind, _, branch = name_in_layer(name).partition("_")
            if kind == "W":
                tensor[...] = INITS[self.config["init"]](rng, tensor.shape)
                if branch in SCALED:
                    tensor *= self.config["init_gain"]
            elif kind == "b":
                sign = self.block.bias_signs.get(branch)
                tensor[...] = sign * self.config["gate_bias"] if sign else 0  # a product with 0 would be −0

    def train_step(
        self,
        x: np.ndarray,
        y: np.ndarray,
        workspace: Any,
        loss: Loss,
        optimizer: Any,
        *,
        clip: float = 0.0,
        weight_decay: float = 0.0,
        rate: float = 1.0,
        weights: np.ndarray | None = None,
    ) -> tuple[float, float]:
        """Take one step: forward, loss, backward, clip, weight decay, update.

        x, y      a batch, as `forward` and the loss take it
        clip      largest norm of the gradients; 0: no limit
        rate      factor on the learning rate
        weights   as in softmax_cross_entropy

        Returns the loss and the gradients' norm before clipping.
        """
        outputs, cache = self.forward(x, workspace)
        value, doutputs = loss.function(outputs, y, weights)
        grads = self.backward(doutputs, cache)
        norm = clip_global_norm(grads, clip or math.inf)
        if weight_decay:
            decay_weights(grads, self.params, weight_decay)
        optimizer.step(grads, rate)
        return float(value), norm

    def save(self, path: str | os.PathLike) -> None:
        """Write parameters and configuration as .npz, whole or not at all; raises InputError if it cannot."""
        checkpoints.save_net(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read a net that `save` wrote. Raises InputError for anything else; never unpickles."""
        return checkpoints.load_net(path, cls)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds: the parameters once, though there are many views of them."""
        return {"config": self.config, "params": self.params.flat, "buffers": self.buffers}

    def __setstate__(self, stored: dict[str, Any]) -> None:
        type(self).__init__(self, **stored["config"], rng=None)
        self.params.flat[...] = stored["params"]
        for name, tensor in stored["buffers"].items():
            self.buffers[name][...] = tensor


class Workspace:
    """Memory for the passes over batches of one size, allocated once, and the cache that a forward pass leaves in it.

    x (L+1, D, B)           the input of each block and, last, the output of the last
    H, T, C, ... (L, D, B)  the block states, the transform gates, the carry gates, each where the block has it
    input (B, d_in + 1)     the batch, each sample with a 1 at its end; x1 (L+1, D+1, B) is x with a row of ones
    z (L, G·D, B)           the affine maps of all branches, which become H, T, ...: `branches` (L, G, D, B)

    Of the backward pass, allocated by the first one, as evaluation needs none: gradients; dz (G·D, B); dy, dx and
    scratch in flows (3, D, B). Each pass overwrites what the last one left.
    """

    H: np.ndarray
    T: np.ndarray

    def __init__(self, net: "DeepNet", batch_size: int):
        self._net = net
        G, L, D, B, rows = len(net.block.branches), net.depth, net.hidden, batch_size, net.block.rows(net.hidden)
        self.input = np.ones((B, net.config["d_in"] + 1), net.dtype)
        self.x1 = np.ones((L + 1, D + 1, B), net.dtype)
        self.x = self.x1[:, :-1]
        self.z = np.empty((L, rows, B), net.dtype)
        self.branches = self.z.reshape(L, G, rows // G, B)
        for g, branch in enumerate(net.block.branches):
            setattr(self, branch, self.branches[:, g])

    @cached_property
    def gradients(self) -> Parameters:
        return self._net.new_parameters()

    @cached_property
    def dz(self) -> np.ndarray:
        return np.empty(self.z.shape[1:], self.z.dtype)

    @cached_property
    def flows(self) -> np.ndarray:
        return np.empty((3, *self.x.shape[1:]), self.x.dtype)


class DeepNet(Net):
    """A deep net of equal blocks: a plain layer d_in -> D, L = `depth` blocks D -> D, a linear layer D -> K = d_out.

    architecture   the fields of DeepArchitecture: hidden (D), depth, block, activation, init, gate_bias, dtype; dtype
                   may also be complex128 (forward and loss only), for derivatives by complex steps in tests
    rng            draws the weights; None leaves every parameter 0

    Raises InputError for an unknown block, activation or initialisation.
    """

    params: Parameters

    def __init__(self, d_in: int, d_out: int, *, rng: np.random.Generator | None, **architecture: Any):
        super().__init__(DeepArchitecture(**architecture), d_in=d_in, d_out=d_out)
        self.hidden, self.depth = self.config["hidden"], self.config["depth"]
        self.block = self.block.for_depth(self.depth)
        self.params = self.new_parameters()
        if rng:
            self.draw(rng)

    def new_parameters(self) -> Parameters:
        """Return zeros, shaped and named like this net's parameters; gradients are such, too."""
        d_in, d_out = self.config["d_in"], self.config["d_out"]
        return Parameters(d_in, d_out, self.hidden, self.depth, self.block, self.dtype)

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> Workspace:
        """Allocate the memory of the passes over batches of one size."""
        return Workspace(self, batch_size)

    def preprocess(self, x: np.ndarray) -> np.ndarray:
        """Return samples (n, ...) as the net takes them: rows (n, d_in), pixels 0..255 (uint8) as -1..1."""
        return as_inputs(x, self.dtype)

    def forward(self, x: np.ndarray, workspace: Workspace | None = None) -> tuple[np.ndarray, Workspace]:
        """Return the logits (B, K) of a batch x (B, d_in), and the cache that `backward` needs.

        The cache is `workspace`, which is overwritten, or new memory if there is none. Raises InputError for uint8.
        """
        check_prepared(x)
        w, p = workspace or Workspace(self, len(x)), self.params
        if len(x) != len(w.input):
            raise ValueError(f"expected a batch of {len(w.input)} for this workspace, found {len(x)}")
        w.input[:, :-1] = x
        affine_forward(p.input, w.input.T, w.x[0])  # the plain layer that brings x to the blocks' width (section 2.1)
        self.activation.forward(w.x[0])
        with np.errstate(over="ignore"):  # e^−z may overflow to inf, where σ(z) is rightly 0
            for l in range(self.depth):
                affine_forward(p.blocks[l], w.x1[l], w.z[l])
                self.block.forward(w.x[l], w.branches[l], w.x[l + 1], self.activation)
        logits = np.empty((len(p.output), len(x)), self.dtype)
        affine_forward(p.output, w.x1[-1], logits)
        return logits.T, w

    def backward(self, dlogits: np.ndarray, cache: Workspace, *, return_dx: bool = False) -> Any:
        """Return the gradients of the loss with respect to the parameters, given dlogits (B, K) and the cache.

        A mapping like `params`, which lives in the cache; with `return_dx` also the gradient with respect to the net's
        input, (B, d_in).
        """
        w, p, grads = cache, self.params, cache.gradients
        *_, dx_0 = self.backward_blocks(dlogits, cache)
        self.activation.backward(dx_0, w.x[0], w.flows[-1])  # dx_0 becomes dz of the plain layer
        dx = np.empty((self.config["d_in"], len(dlogits)), self.dtype) if return_dx else None
        affine_backward(dx_0, p.input, w.input.T, grads.input, dx)
        return grads if dx is None else (grads, dx.T)

    def backward_blocks(self, dlogits: np.ndarray, cache: Workspace) -> Iterator[np.ndarray]:
        """Yield the gradient (D, B) with respect to x_L, ..., x_0: `forward`, from its last line to its first.

        With that of x_l, the gradients of blocks l to L − 1 and of the output layer are there. A yielded array is
        overwritten two yields later.
        """
        w, p, grads = cache, self.params, cache.gradients
        dy, dx, scratch = w.flows
        dbranches = w.dz.reshape(w.branches.shape[1:])
        affine_backward(dlogits.T, p.output, w.x1[-1], grads.output, dy)
        yield dy
        for l in reversed(range(self.depth)):
            self.block.backward(dy, w.x[l], w.branches[l], dbranches, dx, self.activation, scratch)
            affine_backward(w.dz, p.blocks[l], w.x1[l], grads.blocks[l], scratch)
            dx += scratch  # around the affine maps, and through them
            yield dx
            dy, dx = dx, dy  # the gradient with respect to the input of block l is that of the output of block l − 1

    def predict(self, x: np.ndarray, rows: int = 512) -> np.ndarray:
        """Return the logits (n, K) of x (n, d_in), `rows` at a time, with no cache. Raises InputError for uint8."""
        logits = np.empty((len(x), self.config["d_out"]), self.dtype)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            logits[part] = self.forward_from(self.embed(x[part]), 0)
        return logits

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Return the input (D, B) of the first block, given the net's input x (B, d_in)."""
        check_prepared(x)
        x_0 = np.empty((self.hidden, len(x)), self.dtype)
        affine_forward(self.params.input, with_ones(x.T, self.dtype), x_0)
        self.activation.forward(x_0)
        return x_0

    def forward_from(self, x_l: np.ndarray, l: int) -> np.ndarray:
        """Return the logits (B, K) given x_l (D, B), the input of block l."""
        outputs = [x_l, *(y for _, y in self.iterate_blocks(x_l, l))]  # each overwrites the one before the last
        return (self.params.output @ with_ones(outputs[-1], self.dtype)).T

    def iterate_blocks(self, x_l: np.ndarray, l: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the branches z (G, D, B), that is H, T, ..., and the output y (D, B) of block l and of all after it.

        It takes the memory of one block, however deep the net: z is overwritten by the next block, y by the one after
        it. x_l (D, B) stays as it was.
        """
        x1, y1 = with_ones(x_l, self.dtype), with_ones(x_l, self.dtype)
        z = np.empty((self.block.rows(self.hidden), x_l.shape[1]), self.dtype)
        branches = z.reshape(len(self.block.branches), -1, x_l.shape[1])
        for W in self.params.blocks[l:]:
            with np.errstate(over="ignore"):
                affine_forward(W, x1, z)
                self.block.forward(x1[:-1], branches, y1[:-1], self.activation)
            yield branches, y1[:-1]
            x1, y1 = y1, x1

    def without(self, blocks: Sequence[int]) -> "DeepNet":
        """Return a copy of the net without the given blocks, counted from 0.

        In a net of coupled highway blocks that equals closing their gates, T = 0 (section 4.2).

        Raises ValueError for a block that depends on the number of blocks.
        """
        if self.block is not BLOCKS[self.config["block"]]:
            raise ValueError(f"{self.config['block']} blocks depend on the depth: those that stay would change")
        p, kept = self.params, np.delete(np.arange(self.depth), blocks)
        net = DeepNet(**self.config | {"depth": len(kept)}, rng=None)
        for tensor, source in zip(net.params.pieces, (p.input, p.blocks[kept], p.output), strict=True):
            tensor[...] = source
        return net

    def iterate_gates(self, x_l: np.ndarray, l: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield T and the output y, (D, B) each, of block l and of all after it: `iterate_blocks`, for a net with T."""
        self.check_gates()
        T = self.block.branches.index("T")
        yield from ((z[T], y) for z, y in self.iterate_blocks(x_l, l))

    def gate_means(self, x: np.ndarray) -> np.ndarray:
        """Return the mean of T of each block, (L,), over its units and x (B, d_in); for a net with gates."""
        return np.array([T.mean() for T, _ in self.iterate_gates(self.embed(x))])


# ---------------------------------------------------------------------------------------------- the loss


def softmax_cross_entropy(
    logits: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the mean loss in nats, and dlogits (B, K), of logits (B, K) and classes y (B,).

    weights (B,): a factor on each sample's loss, 1 on average over the data set; None: all are 1.
    """
    rows = np.arange(len(y))
    shifted = logits - logits.max(axis=1, keepdims=True)  # so that no exponential overflows
    dlogits = np.exp(shifted)
    total = dlogits.sum(axis=1, keepdims=True)
    losses = np.log(total[:, 0]) - shifted[rows, y]
    dlogits /= total  # softmax
    dlogits[rows, y] -= 1
    dlogits /= len(y)  # d mean loss / d logits = (softmax − one-hot) / B
    return weighted_mean(losses, dlogits, weights)


def accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    """Return the share of samples classified correctly: whose largest logit is that of their class."""
    return float(np.mean(logits.argmax(axis=1) == y))


LOSSES["cross-entropy"] = Loss(softmax_cross_entropy, "accuracy", accuracy, "classes")


# ------------------------------------------------------------------------------------------ optimisers


def clip_global_norm(grads: Tensors, max_norm: float) -> float:
    """Scale the gradients, in place, to a global L2 norm of at most `max_norm`; return the norm before."""
    norm = math.sqrt(grads.flat @ grads.flat)
    if math.isinf(norm):  # the square of a float32 overflows above 1e19
        norm = float(np.linalg.norm(grads.flat.astype(np.float64)))
    if norm > max_norm:
        grads.flat *= max_norm / norm
    return norm


CHUNK = 32_768  # parameters updated at a time: all that belongs to them stays in the processor's cache meanwhile


def _chunks(*vectors: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Yield vectors of one length in chunks, cut alike."""
    for start in range(0, len(vectors[0]), CHUNK):
        yield [vector[start : start + CHUNK] for vector in vectors]


class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1) over the flat parameter vector.

    m and v are kept without the factors 1 − β1 and 1 − β2: these and the bias corrections are inside `step_size` and
    `eps` below, which saves two passes over the vectors.
    """

    def __init__(self, params: Tensors, lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8):
        self.params, self.lr, self.beta1, self.beta2, self.eps = params, lr, beta1, beta2, eps
        self.t = 0
        self.m, self.v = np.zeros((2, params.flat.size), params.flat.dtype)

    def step(self, grads: Tensors, rate: float = 1.0) -> None:
        """Move the parameters by one step, at the share `rate` of the learning rate."""
        self.t += 1
        scale_m = (1 - self.beta1) / (1 - self.beta1**self.t)  # m̂ = scale_m · m
        scale_v = math.sqrt((1 - self.beta2) / (1 - self.beta2**self.t))  # √v̂ = scale_v · √v
        step_size, eps = rate * self.lr * scale_m / scale_v, self.eps / scale_v
        scratch = np.empty(CHUNK, self.m.dtype)
        for p, g, m, v in _chunks(self.params.flat, grads.flat, self.m, self.v):
            s = scratch[: len(p)]
            m *= self.beta1
            m += g  # m ← β1·m + g
            np.multiply(g, g, out=s)
            v *= self.beta2
            v += s  # v ← β2·v + g²
            np.sqrt(v, out=s)
            s += eps
            np.divide(m, s, out=s)
            s *= step_size
            p -= s  # p ← p − lr·m̂ / (√v̂ + ε)


class Momentum:
    """SGD with momentum and an exponentially decaying rate (section 3.1): step t uses lr · decay^t, t from 0.

    Classical: v ← μ·v − lr·g, p ← p + v. Nesterov (Sutskever et al. 2013, as a step from the look-ahead point):
    v ← μ·v − lr·g, p ← p + μ·v − lr·g.
    """

    def __init__(self, params: Tensors, lr: float, momentum: float, decay: float, nesterov: bool = False):
        self.params, self.lr, self.momentum, self.decay, self.nesterov = params, lr, momentum, decay, nesterov
        self.v = np.zeros_like(params.flat)

    def step(self, grads: Tensors, rate: float = 1.0) -> None:
        """Move the parameters by one step, at the share `rate` of the learning rate, then multiply that by `decay`."""
        scratch = np.empty(CHUNK, self.v.dtype)
        for p, g, v in _chunks(self.params.flat, grads.flat, self.v):
            s = scratch[: len(p)]
            np.multiply(g, rate * self.lr, out=s)
            v *= self.momentum
            v -= s
            if self.nesterov:
                p -= s
                np.multiply(v, self.momentum, out=s)
                p += s
            else:
                p += v
        self.lr *= self.decay


def decay_weights(grads: Tensors, params: Tensors, decay: float) -> None:
    """Add the gradient of decay/2 · ‖W‖² to those of the weights W of every layer, in place; biases are left alone."""
    for name, tensor in params.items():
        if name_in_layer(name).startswith("W"):
            grad = grads[name]
            grad += decay * tensor  # in place: `grads[name][...] +=` would copy it onto itself, too


# The training loop finds optimisers by name.
OPTIMIZERS["adam"] = lambda params, config: Adam(params, config.lr, config.beta1, config.beta2, config.eps)
OPTIMIZERS["momentum"] = lambda params, config: Momentum(
    params, config.lr, config.momentum, config.lr_decay, config.nesterov
)


# ------------------------------------------------------------------------------------------------ data

IDX_UINT8 = 0x08


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """Read one idx file of unsigned bytes; one whose name ends in .gz or .xz is uncompressed first.

    Returns a read-only uint8 array of the shape that the header states. Raises InputError, naming the file, if it is
    damaged or has extra bytes.
    Format: two zero bytes, type code (0x08), number of dimensions, each dimension as big-endian uint32, the bytes.
    """
    path = Path(path)
    return parse_idx(decompress(read_bytes(path), path), path)


def parse_idx(payload: bytes, path: Path) -> np.ndarray:
    """Return the array in the bytes of an idx file; `path` is for the message of the InputError."""
    if len(payload) < 4 or payload[:2] != b"\0\0":
        raise damaged(path, "an idx header (00 00, type, dimensions)", f"{payload[:4].hex(' ') or 'nothing'}")
    if payload[2] != IDX_UINT8:
        raise damaged(path, "idx type code 0x08 (unsigned bytes)", f"0x{payload[2]:02x}")
    if not 1 <= payload[3] <= 4:
        raise damaged(path, "1 to 4 dimensions", f"{payload[3]}")
    start = 4 + 4 * payload[3]
    if len(payload) < start:
        raise damaged(path, f"a header of {start} bytes", f"{len(payload)} bytes")
    shape = tuple(int.from_bytes(payload[i : i + 4], "big") for i in range(4, start, 4))
    if 0 in shape:
        raise damaged(path, "dimensions of at least 1", " x ".join(map(str, shape)))
    if len(payload) - start != math.prod(shape):
        size = f"{' x '.join(map(str, shape))} = {math.prod(shape)} bytes"
        raise damaged(path, f"{size} after the header", f"{len(payload) - start}")
    return np.frombuffer(payload, np.uint8, offset=start).reshape(shape)


def load_dataset(name: str, data_dir: str | os.PathLike | None = None, size: int | None = None) -> Dataset:
    """Load a data set, downloading what is missing below the data directory.

    `name`: "mnist", "fashion-mnist", "cifar-10", "cifar-100", "digits" (scikit-learn's bundled 8x8 set, scaled to
    0..255), "auto" (see `choose_dataset`) or a folder of images (see `load_folder`, also for `size`). `data_dir`: else
    $HIGHWAY_DATA_DIR, else ~/.cache. Images are uint8 (n, channels, rows, columns), one channel or three.
    Raises InputError for an unknown name or a file that fails any check, DownloadError if no mirror delivers.
    """
    return datasets.load(name, data_dir, parse_idx, size)


# ---------------------------------------------------------------------------------------------- one run


@dataclass(frozen=True)
class Config(TrainingConfig, DeepArchitecture):
    """All hyperparameters of a run of a DeepNet."""

    SIZE = "depth"  # the field that a sweep varies

    @property
    def title(self) -> str:
        return f"{self.block} depth {self.depth}"

    def new_net(self, data: Dataset, rng: np.random.Generator) -> DeepNet:
        """Make the net for `data`, whose weights `rng` draws."""
        architecture = {field.name: getattr(self, field.name) for field in fields(DeepArchitecture)}
        return DeepNet(math.prod(data.train_x.shape[1:]), data.outputs, **architecture, rng=rng)

    def memory(self, data: Dataset) -> int:
        """Estimate the bytes of a run: parameters, Adam's moments; for each size of batch, gradients and workspace."""
        d_in, d_out, L, D = math.prod(data.train_x.shape[1:]), data.outputs, self.depth, self.hidden
        rows, sizes = BLOCKS[self.block].rows(D), batch_sizes(self)
        n_params = D * (d_in + 1) + L * rows * (D + 1) + d_out * (D + 1)
        a_sample = d_in + 1 + (L + 1) * (D + 1) + (L + 1) * rows + 3 * D
        return (n_params * (3 + len(sizes)) + a_sample * sum(sizes)) * np.dtype(self.dtype).itemsize

    def threads(self) -> int:
        """Return how many BLAS threads suit products (D, D) by (D, B)."""
        return count_threads(self.hidden**2 * self.batch_size)


# ----------------------------------------------------------------------------------------- the command

COMMAND = TrainingCommand(
    module="highway_networks",
    description="Train highway and plain networks side by side and log every epoch as JSON.",
    config=Config,
    configure=Config,
    load=load_dataset,
    dataset=lambda depth: "mnist",
    fallback=True,
    block="both",
    quick={"depth": 10, "epochs": 5},
    sweep={"depth": [5, 10, 20, 30, 50], "seed": list(range(20))},
)
main = COMMAND.run
