"""Training very deep networks, in NumPy: highway and plain nets, forward and backward written by hand.

    python highway_networks.py --seed 0                           the headline: 30 blocks, both nets
    python highway_networks.py --seed 0 --depths 5,10,20,30,50    the depth sweep

From Srivastava, Greff & Schmidhuber, "Training Very Deep Networks", NIPS 2015 (arXiv:1507.06228), whose symbols and
numbers of equations and sections the comments use:

    y = H(x, W_H)                                    a plain block                                    (1)
    y = H(x, W_H)·T(x, W_T) + x·C(x, W_C)            a highway block with a carry gate of its own     (2)
    y = H(x, W_H)·T(x, W_T) + x·(1 − T(x, W_T))      a highway block: C = 1 − T                       (3)
    dy/dx = I where T = 0,  H'(x, W_H) where T = 1                                                    (5)
    dH = T·dy     dT = (H − x)·dy     dx = (1 − T)·dy                                                 (9)

H is an activation of an affine map, T the logistic function σ of another, products are by unit; d + a tensor's name is
the gradient with respect to it; dx as well has what flows back through the affine maps.

A column is a sample, and an affine map is W x (the paper's W_T is the transpose of ours): inside the net a batch is
(D, B), for D units and B samples. The branches of a block (H, T, C: G of them) are one matrix, [W_H b_H; W_T b_T],
against inputs that end in a row of ones, so that a block is three products: z = W x, dW = dz xᵀ, dx = Wᵀ dz. Outside, a
batch is rows, (B, d_in) and (B, K), as elsewhere in Python. L is the depth, in blocks.

The file reads from top to bottom: blocks, the affine map, the net, losses, optimisers, data, training, the command.
"""

import argparse
import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from highway_lab import checkpoints, cifar
from highway_lab.cli import (
    BELOW_ONE,
    FINITE,
    POSITIVE,
    UP_TO_ONE,
    ZERO_OR_MORE,
    InputError,
    Interrupted,
    OneLineParser,
    add_hyperparameters,
    check_hyperparameters,
    hyperparameter,
    list_of_numbers,
    one_of,
    run_cli,
)
from highway_lab.files import (
    IDX_SOURCES,
    DownloadError,
    atomic_write,
    check_regular,
    fetch,
    read_bytes,
    read_verified,
    remedy,
    uncompressed,
)
from highway_lab.jobs import (
    add_training_flags,
    check_memory,
    check_number,
    check_places,
    default_log,
    given_fields,
    run_job,
)
from highway_lab.logs import TEST_IMAGES, DatasetInfo, History, Run, RunLog, numbers
from highway_lab.threads import count_threads, quiet_threads

# ---------------------------------------------------------------------------------------------- blocks
# Forward above backward, each line of the backward mirroring one of the forward. All work is done in arrays that the
# caller owns. z (G, D, B) holds the affine maps of the branches, which become H, T, ... in place; dz (G, D, B) receives
# the gradients with respect to those maps, and dx (D, B) the gradient along the paths around them. `scratch` (D, B) is
# memory to work in: no function reads there what another has written.


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
    np.maximum(z, 0, out=z)  # H = max(z, 0)


def relu_backward(dH, H, scratch):
    np.sign(H, out=scratch)
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

    Of the ways to write σ, this one keeps its relative precision where deep highway nets live: at very negative z.
    """
    np.negative(z, out=z)
    np.exp(z, out=z)
    z += 1
    np.reciprocal(z, out=z)


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
    y += x * C  # y = H·T + x·C    (eq. 2)


def highway_uncoupled_backward(dy, x, z, dz, dx, activation, scratch):
    (H, T, C), (dH, dT, dC) = z, dz
    np.multiply(T, dy, out=dH)  # dH = T·dy
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


def residual_scaled_forward(x, z, y, activation, scale):
    (H,) = z
    activation.forward(H)  # H = act(W_H x + b_H)
    np.multiply(scale, H, out=y)
    y += x  # y = s·H + x


def residual_scaled_backward(dy, x, z, dz, dx, activation, scratch, scale):
    (H,), (dH,) = z, dz
    np.multiply(scale, dy, out=dH)  # dH = s·dy
    dx[...] = dy  # dx = dy
    activation.backward(dH, H, scratch)


def lstm_forward(x, z, y, activation):
    (H, I, F, O), (c, _), (c_y, h_y) = z, np.split(x, 2), np.split(y, 2)  # cell and output, of x and of y
    activation.forward(H)  # H = act(W_H x + b_H)
    for gate in (I, F, O):
        sigmoid_forward(gate)  # I = σ(W_I x + b_I), ...
    np.multiply(I, H, out=c_y)
    c_y += F * c  # c' = I·H + F·c    (Gers et al. 2000, along depth)
    np.tanh(c_y, out=h_y)
    h_y *= O  # h' = O·tanh c'


def lstm_backward(dy, x, z, dz, dx, activation, scratch):
    (H, I, F, O), (dH, dI, dF, dO), (c, _) = z, dz, np.split(x, 2)
    (dc_y, dh_y), (dc, dh), (a, scratch) = (np.split(both, 2) for both in (dy, dx, scratch))
    np.multiply(I, H, out=a)
    a += F * c
    np.tanh(a, out=a)  # a = tanh c', once more
    np.multiply(a, dh_y, out=dO)  # dO = tanh c'·dh'
    dc_whole = O * dh_y
    tanh_backward(dc_whole, a, scratch)
    dc_whole += dc_y  # dc' by way of h', and along the cells
    np.multiply(c, dc_whole, out=dF)  # dF = c·dc'
    np.multiply(H, dc_whole, out=dI)  # dI = H·dc'
    np.multiply(I, dc_whole, out=dH)  # dH = I·dc'
    np.multiply(F, dc_whole, out=dc)  # dc = F·dc'
    dh[...] = 0  # no path around the affine maps
    for dgate, gate in ((dO, O), (dF, F), (dI, I)):
        sigmoid_backward(dgate, gate, scratch)
    activation.backward(dH, H, scratch)


class Block(NamedTuple):
    """A kind of block: its branches, each an affine map of x, and the pair of functions that combine them.

    states: how many equal parts x and y have; each branch has the units of one part.
    scaled: whether the functions take a `scale`, which is one over the net's depth.
    """

    branches: str
    forward: Callable[..., None]  # x, z, y, activation
    backward: Callable[..., None]  # dy, x, z, dz, dx, activation, scratch
    states: int = 1
    scaled: bool = False

    def at(self, depth: int) -> Self:
        """The block as it is in a net of so many."""
        if not self.scaled:
            return self
        pair = (functools.partial(function, scale=1 / max(depth, 1)) for function in (self.forward, self.backward))
        return self._replace(**dict(zip(("forward", "backward"), pair, strict=True)))

    def rows(self, D: int) -> int:
        """How many numbers a sample has in all branches, given the units of x."""
        return len(self.branches) * D // self.states


BLOCKS = {
    "plain": Block("H", plain_forward, plain_backward),
    "highway": Block("HT", highway_forward, highway_backward),
    "highway-uncoupled": Block("HTC", highway_uncoupled_forward, highway_uncoupled_backward),
    "residual": Block("H", residual_forward, residual_backward),
    "residual-scaled": Block("H", residual_scaled_forward, residual_scaled_backward, scaled=True),
    "lstm": Block("HIFO", lstm_forward, lstm_backward, states=2),
}


# -------------------------------------------------------------------------------------- the affine map
# W = [W_H b_H; W_T b_T; ...] (rows, D + 1) against x (D + 1, B), whose last row is 1.


def affine_forward(W, x, z):
    np.matmul(W, x, out=z)  # z = W x


def affine_backward(dz, x, W, dW, dx):
    np.matmul(dz, x.T, out=dW)  # dW = dz xᵀ, of weights and biases
    if dx is not None:  # that of the net's own input is seldom wanted
        np.matmul(W[:, :-1].T, dz, out=dx)  # dx = Wᵀ dz, summed over the branches


# --------------------------------------------------------------------------------------------- the net


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights (..., fan_out, fan_in) uniform in ±1/√fan_in."""
    bound = 1 / math.sqrt(shape[-1])
    return rng.uniform(-bound, bound, shape)


def glorot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normalised initialisation for tanh (Glorot & Bengio 2010, eq. 16): uniform in ±√(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-bound, bound, shape)


def he(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normalised initialisation for ReLU (He et al. 2015, eq. 10): normal with variance 2 / fan_in."""
    return rng.normal(0, math.sqrt(2 / shape[-1]), shape)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small weights whatever the fan-in (Krizhevsky et al. 2012, section 5): normal, standard deviation 0.01."""
    return rng.normal(0, 0.01, shape)


INITS = {"uniform": uniform, "glorot": glorot, "he": he, "gaussian": gaussian}


class Tensors(Mapping):
    """A net's tensors by name: views into one flat vector, so that an optimiser is a few vector operations.

    flat      the vector
    pieces    it in turn, as tensors of the given shapes
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: type):
        ends = list(accumulate(math.prod(shape) for shape in shapes))
        self.flat = np.zeros(ends[-1], dtype)
        pieces = np.split(self.flat, ends[:-1])
        self.pieces = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        self._views = {}

    def name(self, branch: str, matrix: np.ndarray, layer: str = "") -> None:
        """Name the weights and the biases of a branch, whose matrix is [W b]."""
        self.add({f"{layer}W_{branch}": matrix[..., :-1], f"{layer}b_{branch}": matrix[..., -1]})

    def add(self, views: Mapping[str, np.ndarray]) -> None:
        """Name parts of `pieces`."""
        self._views |= views

    def __getitem__(self, name: str) -> np.ndarray:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


class Parameters(Tensors):
    """Those of a DeepNet: W_in (D, d_in), b_in (D); W_H (L, D, D), b_H (L, D), ...; W_out (K, D), b_out (K).

    input     (D, d_in + 1) = [W_in b_in]
    blocks    (L, G·D, D + 1) = [W_H b_H; W_T b_T; ...] of each block; half as many rows where x has two parts
    output    (K, D + 1) = [W_out b_out]
    """

    def __init__(self, d_in: int, d_out: int, hidden: int, depth: int, block: Block, dtype: type):
        L, D = depth, hidden
        super().__init__(((D, d_in + 1), (L, block.rows(D), D + 1), (d_out, D + 1)), dtype)
        self.input, self.blocks, self.output = self.pieces
        self.name("in", self.input)
        for branch, matrix in zip(block.branches, np.split(self.blocks, len(block.branches), axis=1), strict=True):
            self.name(branch, matrix)
        self.name("out", self.output)


def part_of_layer(name: str) -> str:
    """A tensor's name without its layer's: W_H of 3.W_H."""
    return name.rpartition(".")[-1]


class Net:
    """What every net has: `config`, from which it can be built again, `params`, and a way to and from a file.

    state: tensors that training changes, but no gradient.
    """

    config: dict[str, Any]
    params: Tensors

    def __init__(self, config: dict[str, Any]):
        for option, table in (("block", BLOCKS), ("activation", ACTIVATIONS), ("init", INITS)):
            if config[option] not in table:
                found = f"expected one of {', '.join(table)}, found {config[option]!r}"
                raise InputError(f"{option}: {found}; choose one")
        self.config = config | {"dtype": np.dtype(config["dtype"]).name}
        self.dtype = np.dtype(config["dtype"])
        self.block, self.activation = BLOCKS[config["block"]], ACTIVATIONS[config["activation"]]
        self.state: dict[str, np.ndarray] = {}

    def _draw(self, rng: np.random.Generator | None) -> None:
        """Give the parameters, which are 0, their initial values; without a generator they stay as they are."""
        if rng is None:
            return
        gate_bias = self.config["gate_bias"]
        # So that C starts as 1 − T, as in the coupled block, and F as 1 − I.
        constants = {"b_T": gate_bias, "b_C": -gate_bias, "b_I": gate_bias, "b_F": -gate_bias}
        for name, tensor in self.params.items():
            part = part_of_layer(name)
            tensor[...] = INITS[self.config["init"]](rng, tensor.shape) if part[0] == "W" else constants.get(part, 0)

    def save(self, path: str | os.PathLike) -> None:
        """Write parameters and configuration as .npz, whole or not at all; raises InputError if it cannot."""
        with atomic_write(path, "wb") as file:
            np.savez(file, format=np.array(NET_FORMAT), config=np.array(json.dumps(self.config)), **self._tensors())

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read a net that `save` wrote. Raises InputError for anything else; never unpickles."""
        try:
            check_regular(path)
            with np.load(path, allow_pickle=False) as stored:
                tensors = {name: stored[name] for name in stored.files}
            found = int(tensors.pop("format", 1))
            if found != NET_FORMAT:
                raise ValueError(f"format {found}, not {NET_FORMAT}: its weights are not laid out as W @ x")
            config = json.loads(str(tensors.pop("config")))
            if config["dtype"] not in ("float32", "float64"):
                raise ValueError(f"a net of {config['dtype']}")
            net = cls(**config, rng=None)  # takes no memory yet for what the config claims
            expected = net._tensors()
            for name in expected.keys() | tensors.keys():
                found, wanted = (described(of.get(name)) for of in (tensors, expected))
                if found != wanted:
                    raise ValueError(f"tensor {name}: expected {wanted}, found {found}")
                if not (np.abs(tensors[name]) < LARGEST).all():  # nor is NaN
                    raise ValueError(f"tensor {name} with numbers that are not finite, or beyond {LARGEST:g}")
                if part_of_layer(name) == "variance" and tensors[name].min() < 0:
                    raise ValueError(f"tensor {name} with numbers below 0")
                expected[name][...] = tensors[name]
            if not abs(config["gate_bias"]) < LARGEST:
                raise ValueError(f"gate_bias {config['gate_bias']}")
        except OSError as error:
            found = error.strerror or "a damaged archive"
            raise InputError(f"{path}: expected a saved net, found: {found}; check the path") from error
        except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
            reason = " ".join(str(error).split())
            raise InputError(
                f"{path}: expected a net saved by {cls.__name__}.save, found: {reason}; save it again"
            ) from error
        return net

    def _tensors(self) -> dict[str, np.ndarray]:
        return dict(self.params) | self.state

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has; the parameters once, though there are many views of them."""
        return {"config": self.config, "params": self.params.flat, "state": self.state}

    def __setstate__(self, stored: dict[str, Any]) -> None:
        self.__init__(**stored["config"], rng=None)
        self.params.flat[...] = stored["params"]
        for name, tensor in stored["state"].items():
            self.state[name][...] = tensor


class Workspace:
    """Memory for the passes over batches of one size, allocated once; each pass overwrites what the last one left.

    Of the forward pass: input (B, d_in + 1) and x1 (L+1, D+1, B), each sample with a 1 at its end, and z (L, G·D, B).
    Of the backward pass, allocated by the first one, as evaluation needs none: gradients, dz (G·D, B), and dy, dx and
    scratch in flows (3, D, B). x (L+1, D, B) is x1 without the ones.
    """

    def __init__(self, net: "DeepNet", batch_size: int):
        self._net = net
        G, L, D, B, rows = len(net.block.branches), net.depth, net.hidden, batch_size, net.block.rows(net.hidden)
        self.input = np.ones((B, net.config["d_in"] + 1), net.dtype)
        self.x1 = np.ones((L + 1, D + 1, B), net.dtype)
        self.x = self.x1[:, :-1]
        self.z = np.empty((L, rows, B), net.dtype)
        self.branches = self.z.reshape(L, G, rows // G, B)

    @functools.cached_property
    def gradients(self) -> Parameters:
        return self._net.new_parameters()

    @functools.cached_property
    def dz(self) -> np.ndarray:
        return np.empty(self.z.shape[1:], self.z.dtype)

    @functools.cached_property
    def flows(self) -> np.ndarray:
        return np.empty((3, *self.x.shape[1:]), self.x.dtype)


class Cache:
    """What a forward pass leaves for the backward pass: views of a workspace, in the paper's symbols.

    x (L+1, D, B)          the input of each block and, last, the output of the last
    H, T, C, ... (L, D, B) the block states, the transform gates and the carry gates, each where the block has it
    """

    def __init__(self, net: "DeepNet", workspace: Workspace):
        self.workspace, self.x = workspace, workspace.x
        for g, branch in enumerate(net.block.branches):
            setattr(self, branch, workspace.branches[:, g])


class DeepNet(Net):
    """A deep net of equal blocks: a plain layer d_in -> D, `depth` blocks D -> D, a linear layer D -> K.

    d_in, d_out        widths of input and output
    hidden, depth      D and L; depth 0 is the plain layer alone (the paper counts that layer, so its depth is L + 1)
    block              a name in BLOCKS; activation: a name in ACTIVATIONS
    init               a name in INITS, for all weights; biases start at 0, but for
    gate_bias          the initial b_T
    dtype              float32, float64, or complex128 (forward and loss only, for complex-step derivatives)
    rng                np.random.Generator that draws the weights; None leaves every parameter 0

    Raises InputError for an unknown block, activation or initialisation, and for units that the block cannot part.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        hidden: int = 50,
        depth: int = 30,
        block: str = "highway",
        activation: str = "tanh",
        init: str = "uniform",
        gate_bias: float = -2.0,
        dtype: type = np.float32,
        rng: np.random.Generator | None,
    ):
        super().__init__(
            {
                "d_in": d_in,
                "d_out": d_out,
                "hidden": hidden,
                "depth": depth,
                "block": block,
                "activation": activation,
                "init": init,
                "gate_bias": gate_bias,
                "dtype": dtype,
            }
        )
        self.hidden, self.depth, self.block = hidden, depth, self.block.at(depth)
        if hidden % self.block.states:
            found = f"a multiple of {self.block.states} units for {block} blocks, found {hidden}"
            raise InputError(f"hidden: expected {found}; choose another")
        self.params = self.new_parameters()
        self._draw(rng)

    def new_parameters(self) -> Parameters:
        """Zeros in the form of this net's parameters."""
        d_in, d_out = self.config["d_in"], self.config["d_out"]
        return Parameters(d_in, d_out, self.hidden, self.depth, self.block, self.dtype)

    def forward(self, x: np.ndarray, workspace: Workspace | None = None) -> tuple[np.ndarray, Cache]:
        """Logits (B, K) of a batch x (B, d_in), and the cache that `backward` needs.

        The cache is the caller's: views of fresh memory each time, or of `workspace`, which is overwritten.
        """
        w, p = workspace or Workspace(self, len(x)), self.params
        if len(x) != len(w.input):
            raise ValueError(f"expected a batch of {len(w.input)} for this workspace, found {len(x)}")
        w.input[:, :-1] = x
        self._input_layer(w.input.T, w.x[0])
        with np.errstate(over="ignore"):  # e^−z may overflow to inf, where σ(z) is rightly 0
            for W, x1, z, x_l, branches, y in zip(p.blocks, w.x1, w.z, w.x, w.branches, w.x[1:]):  # noqa: B905
                affine_forward(W, x1, z)
                self.block.forward(x_l, branches, y, self.activation)
        return self._output_layer(w.x1[-1]), Cache(self, w)

    def backward(self, dlogits: np.ndarray, cache: Cache, *, return_dx: bool = False):
        """Gradients of the loss with respect to the parameters, given dlogits (B, K) and the forward pass's cache.

        Returns a mapping like `params`, which lives in the cache's workspace; with `return_dx` also the gradient with
        respect to the net's input, (B, d_in).
        """
        w = cache.workspace
        for dz in self.walk_back(dlogits, cache):  # noqa: B007, the last one is the first block's
            pass
        self.activation.backward(dz, cache.x[0], w.flows[-1])
        dx = np.empty((self.config["d_in"], len(dlogits)), self.dtype) if return_dx else None
        affine_backward(dz, w.input.T, self.params.input, w.gradients.input, dx)
        return (w.gradients, dx.T) if return_dx else w.gradients

    def walk_back(self, dlogits: np.ndarray, cache: Cache) -> Iterator[np.ndarray]:
        """Yield the gradient (D, B) with respect to x_l, l = L, ..., 0; fills the gradients of the layers behind it.

        `forward`, read from the last line to the first. Each gradient is overwritten by the one after the next.
        """
        w, p, grads = cache.workspace, self.params, cache.workspace.gradients
        dy, dx, scratch = w.flows
        dz, dbranches = w.dz, w.dz.reshape(w.branches.shape[1:])
        affine_backward(dlogits.T, w.x1[-1], p.output, grads.output, dy)
        yield dy
        for l in reversed(range(self.depth)):
            self.block.backward(dy, w.x[l], w.branches[l], dbranches, dx, self.activation, scratch)
            affine_backward(dz, w.x1[l], p.blocks[l], grads.blocks[l], scratch)
            dx += scratch  # around the affine maps, and through them
            yield dx
            dy, dx = dx, dy  # with respect to this block's input is with respect to the output of the one before

    def _input_layer(self, x: np.ndarray, x_0: np.ndarray) -> None:
        """The plain layer that brings x (d_in + 1, B) to the blocks' width (section 2.1): fills x_0 (D, B)."""
        affine_forward(self.params.input, x, x_0)
        self.activation.forward(x_0)

    def _output_layer(self, x1: np.ndarray) -> np.ndarray:
        """Logits (B, K) of the last block's output x1 (D+1, B)."""
        return (self.params.output @ x1).T

    def predict(self, x: np.ndarray, rows: int = 512) -> np.ndarray:
        """Logits (n, K) of x (n, d_in), any n: `rows` at a time, with no cache."""
        logits = np.empty((len(x), self.config["d_out"]), self.dtype)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            logits[part] = self.predict_from(self.enter(x[part]), 0)
        return logits

    def enter(self, x: np.ndarray) -> np.ndarray:
        """The input (D, B) of the first block, given the net's input x (B, d_in)."""
        x_0 = np.empty((self.hidden, len(x)), self.dtype)
        self._input_layer(with_ones(x.T, self.dtype), x_0)
        return x_0

    def predict_from(self, x_l: np.ndarray, l: int) -> np.ndarray:
        """Logits (B, K) given x_l (D, B), the input of block l."""
        y = x_l
        for _, y in self.walk(x_l, l):  # noqa: B007, the last y is what counts
            pass
        return self._output_layer(with_ones(y, self.dtype))

    def walk(self, x_l: np.ndarray, l: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the branches z (G, D, B), that is H, T, ..., and the output y (D, B) of block l and of all after it.

        Both are overwritten by later blocks, so that a walk takes the memory of one block, however deep the net: z by
        the next block, y by the one after it. x_l (D, B) stays as it was.
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
        """A copy that lacks those blocks, counted from 0: a block whose T is 0 passes its input on (section 4.2).

        Raises ValueError where what the others compute depends on how many there are.
        """
        if self.block.scaled:
            raise ValueError(f"{self.config['block']} blocks are scaled by the depth: those that stay would change")
        p, kept = self.params, np.delete(np.arange(self.depth), blocks)
        net = DeepNet(**self.config | {"depth": len(kept)}, rng=None)
        for tensor, of_this_net in zip(net.params.pieces, (p.input, p.blocks[kept], p.output), strict=True):
            tensor[...] = of_this_net
        return net

    def gate_means(self, x: np.ndarray) -> list[float | None]:
        """Mean of T of each block over x (B, d_in), for a net whose blocks have gates."""
        return numbers([z[1].mean() for z, _ in self.walk(self.enter(x))], digits=4)


NET_FORMAT = 2  # of a saved net: 1 had the weights transposed, as x @ W
LARGEST = 1e9  # magnitude of a saved parameter; the products of larger ones soon overflow


def described(tensor: np.ndarray | None) -> str:
    """A tensor's type and shape in words."""
    return "none" if tensor is None else f"{tensor.dtype} of shape {tensor.shape}"


def with_ones(x: np.ndarray, dtype: type) -> np.ndarray:
    """x (rows, B) above a row of ones: (rows + 1, B), a copy."""
    extended = np.ones((len(x) + 1, x.shape[1]), dtype)
    extended[:-1] = x
    return extended


# ------------------------------------------------------------------------------------------- the losses
# Weights (B,) are factors on the losses of a batch's samples, 1 on average over the data set; without any, all are 1.


def softmax_cross_entropy(
    logits: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Mean loss in nats, and dlogits (B, K), of logits (B, K) and classes y (B,)."""
    rows = np.arange(len(y))
    shifted = logits - logits.max(axis=1, keepdims=True)  # so that no exponential overflows
    dlogits = np.exp(shifted)
    total = dlogits.sum(axis=1, keepdims=True)
    losses = np.log(total[:, 0]) - shifted[rows, y]
    dlogits /= total  # softmax
    dlogits[rows, y] -= 1
    dlogits /= len(y)  # d mean loss / d logits = (softmax − one-hot) / B
    return weighted_mean(losses, dlogits, weights)


def squared_error(outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Mean over samples and targets of (output − y)², and its gradient (B, K); outputs and y are (B, K)."""
    difference = outputs - y
    return weighted_mean((difference * difference).mean(axis=1), 2 / difference.size * difference, weights)


def weighted_mean(losses: np.ndarray, gradient: np.ndarray, weights: np.ndarray | None) -> tuple[float, np.ndarray]:
    """The mean of the samples' losses (B,), and its gradient (B, K), in place, given that of the unweighted mean."""
    if weights is not None:
        losses = weights * losses
        gradient *= weights[:, None]
    return losses.mean(), gradient


def accuracy(logits: np.ndarray, y: np.ndarray) -> float:
    """Share of samples whose largest logit is that of their class."""
    return float(np.mean(logits.argmax(axis=1) == y))


def r_squared(outputs: np.ndarray, y: np.ndarray) -> float:
    """1 − residual / total sum of squares, mean over targets; NaN where a target is constant."""
    residual, total = ((outputs - y) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    total[total == 0] = np.nan
    return float(np.mean(1 - residual / total))


class Loss(NamedTuple):
    """What is minimised, the score that goes with it (more is better, 1 is perfect), and what it is a loss of."""

    function: Callable[..., tuple[float, np.ndarray]]  # outputs, y, weights -> mean loss, gradient
    metric: str
    score: Callable[[np.ndarray, np.ndarray], float]  # outputs, y
    target: str


LOSSES = {
    "cross-entropy": Loss(softmax_cross_entropy, "accuracy", accuracy, "classes"),
    "squared-error": Loss(squared_error, "R²", r_squared, "numbers"),
}


# ------------------------------------------------------------------------------------------ optimisers


def clip_global_norm(grads: Tensors, max_norm: float) -> float:
    """Scale the gradients, in place, to a global L2 norm of at most `max_norm`; returns the norm before."""
    norm = math.sqrt(grads.flat @ grads.flat)
    if math.isinf(norm):  # float32 squares overflow beyond 1e19, long before the gradients do
        norm = float(np.linalg.norm(grads.flat.astype(np.float64)))
    if norm > max_norm:
        grads.flat *= max_norm / norm
    return norm


PIECE = 32_768  # parameters updated at a time: all that belongs to them stays in the processor's cache meanwhile


def _pieces(*vectors: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Vectors of one length, cut alike into pieces."""
    for start in range(0, len(vectors[0]), PIECE):
        yield [vector[start : start + PIECE] for vector in vectors]


class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1) over the flat parameter vector.

    The moments are kept as m / (1 − β1) and v / (1 − β2): the constants, like the bias corrections, move into the two
    scalars of the last line, and each step passes over the vectors two times less.
    """

    def __init__(self, params: Tensors, lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8):
        self.params, self.lr, self.beta1, self.beta2, self.eps = params, lr, beta1, beta2, eps
        self.t = 0
        self.m, self.v = np.zeros((2, params.flat.size), params.flat.dtype)

    def step(self, grads: Tensors, rate: float = 1.0) -> None:
        """Move the parameters by one step, at that share of the learning rate."""
        self.t += 1
        scale_m = (1 - self.beta1) / (1 - self.beta1**self.t)  # m̂ = scale_m · m
        scale_v = math.sqrt((1 - self.beta2) / (1 - self.beta2**self.t))  # √v̂ = scale_v · √v
        lr, eps = rate * self.lr * scale_m / scale_v, self.eps / scale_v
        scratch = np.empty(PIECE, self.m.dtype)
        for p, g, m, v in _pieces(self.params.flat, grads.flat, self.m, self.v):
            s = scratch[: len(p)]
            m *= self.beta1
            m += g  # m ← β1·m + g
            np.multiply(g, g, out=s)
            v *= self.beta2
            v += s  # v ← β2·v + g²
            np.sqrt(v, out=s)
            s += eps
            np.divide(m, s, out=s)
            s *= lr
            p -= s  # p ← p − lr·m̂ / (√v̂ + ε)


class Momentum:
    """SGD with momentum and an exponentially decaying rate (section 3): step t uses lr · decay^t, t from 0.

    Classical: v ← μ·v − lr·g, p ← p + v. Nesterov (Sutskever et al. 2013, as a step from the look-ahead point):
    v ← μ·v − lr·g, p ← p + μ·v − lr·g.
    """

    def __init__(self, params: Tensors, lr: float, momentum: float, decay: float, nesterov: bool = False):
        self.params, self.lr, self.momentum, self.decay, self.nesterov = params, lr, momentum, decay, nesterov
        self.v = np.zeros_like(params.flat)

    def step(self, grads: Tensors, rate: float = 1.0) -> None:
        """Move the parameters by one step, at that share of the learning rate, then let it decay."""
        scratch = np.empty(PIECE, self.v.dtype)
        for p, g, v in _pieces(self.params.flat, grads.flat, self.v):
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
        if part_of_layer(name).startswith("W"):
            grad = grads[name]
            grad += decay * tensor


def is_schedule(text: str) -> bool:
    """Whether `scheduled_rate` knows it."""
    try:
        return text in ("constant", "cosine") or all(0 < float(share) < 1 for share in text.split(","))
    except ValueError:
        return False


def scheduled_rate(schedule: str, done: float) -> float:
    """The factor on the learning rate when that share of the steps is done.

    "constant" is 1, "cosine" half a cosine from 1 to 0 (Loshchilov & Hutter 2017, eq. 5), and "0.5,0.75" a tenth after
    half of the steps, a hundredth after three quarters: the paper's way (section 3).
    """
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 0.1 ** sum(done >= float(share) for share in schedule.split(","))


SCHEDULE = (is_schedule, "constant, cosine or shares of the training like 0.5,0.75")
OPTIMIZERS = {
    "adam": lambda params, c: Adam(params, c.lr, c.beta1, c.beta2, c.eps),
    "momentum": lambda params, c: Momentum(params, c.lr, c.momentum, c.lr_decay, c.nesterov),
}


# ------------------------------------------------------------------------------------------------ data

CLASSES = 10


class Dataset(NamedTuple):
    """Samples for training and for testing.

    x: images as uint8 (n, channels, rows, columns), or any features as floats (n, ...); y: classes as integers (n,), or
    targets as floats (n, K). K, the number of outputs that a net needs, is `outputs`. `test_set` says in words which
    samples are there for testing. `train_weights` (n,): factors on the losses of the training samples, 1 on average.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    outputs: int
    test_set: str = TEST_IMAGES
    train_weights: np.ndarray | None = None


DATASETS = {  # and how many classes each has
    **dict.fromkeys(IDX_SOURCES, CLASSES),
    **{name: files.classes for name, files in cifar.CIFARS.items()},
    "digits": CLASSES,
}
IDX_UINT8 = 0x08


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """Read one idx file of unsigned bytes; one whose name ends in .gz or .xz is uncompressed first.

    Returns a read-only uint8 array of the shape that the header states. Raises InputError, naming the file, for
    anything but exactly one intact gzip member, or xz stream, around exactly one intact idx array.
    Format: two zero bytes, type code (0x08), number of dimensions, each dimension as big-endian uint32, the bytes.
    """
    path = Path(path)
    return parse_idx(uncompressed(read_bytes(path), path), path)


def parse_idx(payload: bytes, path: Path) -> np.ndarray:
    """The array in the bytes of an idx file; `path` is for the message of the InputError."""

    def reject(expected: str, found: str) -> InputError:
        return InputError(f"{path}: expected {expected}, found {found}; {remedy(path)}")

    if payload.startswith(b"\x1f\x8b"):
        raise reject("an idx header", "gzip inside gzip")
    if len(payload) < 4 or payload[:2] != b"\0\0":
        raise reject("an idx header (00 00, type, dimensions)", f"{payload[:4].hex(' ') or 'nothing'}")
    if payload[2] != IDX_UINT8:
        raise reject("idx type code 0x08 (unsigned bytes)", f"0x{payload[2]:02x}")
    if not 1 <= payload[3] <= 4:
        raise reject("1 to 4 dimensions", f"{payload[3]}")
    start = 4 + 4 * payload[3]
    if len(payload) < start:
        raise reject(f"a header of {start} bytes", f"{len(payload)} bytes")
    shape = tuple(int.from_bytes(payload[i : i + 4], "big") for i in range(4, start, 4))
    if 0 in shape:
        raise reject("dimensions of at least 1", " x ".join(map(str, shape)))
    if len(payload) - start != math.prod(shape):
        size = f"{' x '.join(map(str, shape))} = {math.prod(shape)} bytes"
        raise reject(f"{size} after the header", f"{len(payload) - start}")
    return np.frombuffer(payload, np.uint8, offset=start).reshape(shape)


def load_dataset(name: str, data_dir: str | os.PathLike | None = None) -> Dataset:
    """Load a data set, downloading what is missing below the data directory.

    `name`: "mnist", "fashion-mnist", "cifar-10", "cifar-100", "digits" (scikit-learn's bundled 8x8 set, scaled to
    0..255) or "auto" (see `choose_dataset`). `data_dir`: else $HIGHWAY_DATA_DIR, else ~/.cache. Images are uint8
    (n, channels, rows, columns): CIFAR's have three channels, all others one.
    Raises InputError for an unknown name or a file that fails any check, DownloadError if no mirror delivers.
    """
    if name == "auto":
        name = choose_dataset(data_dir)
    if name == "digits":
        return _load_digits()
    if name in cifar.CIFARS:
        return Dataset(*cifar.load(name, data_dir))
    if name not in IDX_SOURCES:
        raise InputError(f"--dataset: expected auto, {', '.join(DATASETS)}, found {name!r}; choose one of these")
    paths = fetch(IDX_SOURCES[name], data_dir)
    arrays = [parse_idx(read_verified(path, IDX_SOURCES[name]), path) for path in paths]
    for images, labels, image_path, label_path in zip(arrays[::2], arrays[1::2], paths[::2], paths[1::2], strict=True):
        _check_pair(images, labels, image_path, label_path)
    return Dataset(*(a[:, None] if a.ndim == 3 else a for a in arrays), CLASSES)  # one channel


def choose_dataset(data_dir: str | os.PathLike | None = None) -> str:
    """What "auto" stands for: "mnist" if it is there or can be downloaded, else "digits" with a warning."""
    try:
        fetch(IDX_SOURCES["mnist"], data_dir)
    except DownloadError as error:
        print(f"{'!' * 88}\n{error}", file=sys.stderr)
        print(f"NOT MNIST: using scikit-learn's 8x8 digits instead.\n{'!' * 88}", file=sys.stderr)
        return "digits"
    return "mnist"


def _load_digits() -> Dataset:
    """scikit-learn's 1,797 bundled digits, pixels 0..16 scaled to 0..255, a fixed shuffle cut 1,437 / 360."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = labels.astype(np.uint8)
    train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])
    return Dataset(images[train], labels[train], images[test], labels[test], CLASSES)


def _check_pair(images: np.ndarray, labels: np.ndarray, image_path: Path, label_path: Path) -> None:
    """Images must be (n, rows, columns), labels (n,) of classes 0..9."""
    for array, ndim, kind, path in ((images, 3, "images", image_path), (labels, 1, "labels", label_path)):
        if array.ndim != ndim:
            raise InputError(
                f"{path}: expected {kind} ({ndim} dimensions), found {array.ndim} dimensions; "
                "are images and labels swapped?"
            )
    if len(images) != len(labels):
        raise InputError(
            f"{label_path}: expected {len(images)} labels, one for each of {image_path.name}, "
            f"found {len(labels)}; {remedy(label_path)}"
        )
    if labels.max(initial=0) >= CLASSES:
        raise InputError(f"{label_path}: expected labels 0..{CLASSES - 1}, found {labels.max()}; {remedy(label_path)}")


def as_inputs(x: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Samples (n, ...) as the net takes them: rows (n, d_in), pixels 0..255 (uint8) as -1..1, floats as they are."""
    rows = x.reshape(len(x), -1)
    if x.dtype != np.uint8:
        return rows.astype(dtype, copy=False)
    scaled = np.multiply(rows, 1 / 127.5, dtype=dtype)
    scaled -= 1
    return scaled


def draw_subset(data: Dataset, n_train: int, n_test: int, rng: np.random.Generator, n_validation: int = 0) -> Dataset:
    """The first n_train and n_test of a random permutation of each half; raises InputError if there are fewer.

    The n_validation training samples after those are the last of train_x and train_y.
    """
    wanted_train, flags = n_train + n_validation, "--n-train" + " and --n-validation" * bool(n_validation)
    for flag, wanted, x in ((flags, wanted_train, data.train_x), ("--n-test", n_test, data.test_x)):
        if wanted > len(x):
            raise InputError(f"{flag}: expected at most {len(x)} images, found {wanted}; ask for fewer")
    train = rng.permutation(len(data.train_x))[:wanted_train]
    test = rng.permutation(len(data.test_x))[:n_test]
    drawn = (data.train_x[train], data.train_y[train], data.test_x[test], data.test_y[test])
    weights = None if data.train_weights is None else data.train_weights[train]
    return Dataset(*drawn, data.outputs, data.test_set, weights)


# -------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class TrainingConfig:
    """What the training of any net depends on. Raises InputError for a value that makes no sense."""

    block: str = hyperparameter("highway", "kind of block", one_of(BLOCKS))
    activation: str = hyperparameter("tanh", "activation in H", one_of(ACTIVATIONS))
    loss: str = hyperparameter("cross-entropy", "what is minimised", one_of(LOSSES))
    init: str = hyperparameter("uniform", "initial weights: uniform in ±1/√fan_in, or normalised", one_of(INITS))
    gate_bias: float = hyperparameter(-2.0, "initial transform-gate bias b_T", FINITE)
    optimizer: str = hyperparameter("adam", "update rule", one_of(OPTIMIZERS))
    lr: float = hyperparameter(5e-3, "learning rate", POSITIVE)
    schedule: str = hyperparameter("constant", "of the learning rate: constant, cosine or steps", SCHEDULE)
    lr_decay: float = hyperparameter(1.0, "momentum: factor on lr after each step", UP_TO_ONE)
    momentum: float = hyperparameter(0.9, "momentum: share of the last step kept", BELOW_ONE)
    nesterov: bool = hyperparameter(False, "momentum: Nesterov's")
    beta1: float = hyperparameter(0.9, "Adam: decay of the first moment", BELOW_ONE)
    beta2: float = hyperparameter(0.999, "Adam: decay of the second moment", BELOW_ONE)
    eps: float = hyperparameter(1e-8, "Adam: added to the root of the second moment", POSITIVE)
    weight_decay: float = hyperparameter(0.0, "factor on the weights that is added to their gradients", ZERO_OR_MORE)
    clip: float = hyperparameter(5.0, "largest global L2 norm of the gradients; 0: no limit", ZERO_OR_MORE)
    batch_size: int = hyperparameter(128, "samples a step", POSITIVE)
    drop_last: bool = hyperparameter(False, "leave out each epoch's last batch if it is short")
    epochs: int = hyperparameter(12, "passes over the training samples", POSITIVE)
    n_train: int = hyperparameter(6000, "training samples, drawn at random", POSITIVE)
    n_validation: int = hyperparameter(0, "validation samples; if any, the test set is scored last only", ZERO_OR_MORE)
    n_scored: int = hyperparameter(0, "training samples that are scored after each epoch; 0: all", ZERO_OR_MORE)
    n_test: int = hyperparameter(2000, "test samples, drawn at random", POSITIVE)
    seed: int = hyperparameter(0, "of subset, weights and shuffling", ZERO_OR_MORE)
    dtype: str = hyperparameter("float32", "precision", one_of(("float32", "float64")))

    SIZE: ClassVar[str]  # the field that says how large a net is
    title: ClassVar[str]  # what the net is called

    def __post_init__(self) -> None:
        check_hyperparameters(self)
        if self.drop_last and self.n_train < self.batch_size:
            raise InputError(
                f"--drop-last: expected a full batch of {self.batch_size}, found {self.n_train} images; "
                "lower --batch-size"
            )


@dataclass(frozen=True)
class Config(TrainingConfig):
    """Every value that a run of a DeepNet depends on, beside the data set."""

    depth: int = hyperparameter(30, "blocks", ZERO_OR_MORE)
    hidden: int = hyperparameter(50, "units a block", POSITIVE)

    SIZE = "depth"

    @property
    def title(self) -> str:
        return f"{self.block} depth {self.depth}"


def batches(config: TrainingConfig, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """One epoch of shuffled batches: the indices of their samples, (B,)."""
    order = rng.permutation(config.n_train)
    end = len(order) - len(order) % config.batch_size if config.drop_last else len(order)
    for start in range(0, end, config.batch_size):
        yield order[start : start + config.batch_size]


def steps_an_epoch(config: TrainingConfig) -> int:
    """How many batches an epoch has."""
    full, rest = divmod(config.n_train, config.batch_size)
    return full + (rest > 0 and not config.drop_last)


def batch_sizes(config: TrainingConfig) -> set[int]:
    """The sizes that an epoch's batches have."""
    last = 0 if config.drop_last else config.n_train % config.batch_size
    return {min(config.batch_size, config.n_train), last} - {0}


def evaluate(
    net: Net,
    x: np.ndarray,
    y: np.ndarray,
    loss: Loss,
    inputs: Callable[[np.ndarray], np.ndarray] | None = None,
    rows: int = 512,
) -> tuple[float, float]:
    """Mean loss and score over samples x (n, ...), which the net takes as `inputs` (else as_inputs) gives them.

    Both are NaN if the loss is not finite.
    """
    inputs, starts = inputs or functools.partial(as_inputs, dtype=net.dtype), range(0, len(x), rows)
    outputs = np.concatenate([net.predict(inputs(x[start : start + rows])) for start in starts])
    mean = float(loss.function(outputs, y)[0])
    return (mean, loss.score(outputs, y)) if math.isfinite(mean) else (math.nan, math.nan)


def train_step(
    net: Net,
    loss: Loss,
    optimizer,
    x: np.ndarray,
    y: np.ndarray,
    clip: float,
    workspace: Any,
    *,
    weight_decay: float = 0.0,
    rate: float = 1.0,
    weights: np.ndarray | None = None,
) -> tuple[float, float]:
    """Forward, loss, backward, clip, decay, update; returns the loss and the gradients' norm before clipping."""
    outputs, cache = net.forward(x, workspace)
    value, doutputs = loss.function(outputs, y, weights)
    grads = net.backward(doutputs, cache)
    norm = clip_global_norm(grads, clip or math.inf)
    if weight_decay:
        decay_weights(grads, net.params, weight_decay)
    optimizer.step(grads, rate)
    return float(value), norm


def memory(config: Config, d_in: int, d_out: int) -> int:
    """Bytes that a run takes, nearly: parameters and two moments; for each size of batch, gradients and the passes."""
    L, D, rows, sizes = config.depth, config.hidden, BLOCKS[config.block].rows(config.hidden), batch_sizes(config)
    n_params = D * (d_in + 1) + L * rows * (D + 1) + d_out * (D + 1)
    a_sample = d_in + 1 + (L + 1) * (D + 1) + (L + 1) * rows + 3 * D
    return (n_params * (3 + len(sizes)) + a_sample * sum(sizes)) * np.dtype(config.dtype).itemsize


NET_FIELDS = ("hidden", "depth", "block", "activation", "init", "gate_bias", "dtype")  # of Config and of DeepNet
GATE_SAMPLES = 128  # test samples over which the mean T of a block is taken, whatever the batch size


def check_targets(data: Dataset, loss: str) -> None:
    """Raise InputError unless the loss is one of such targets, and a net's outputs are as many."""
    y = data.train_y
    target = "classes" if np.issubdtype(y.dtype, np.integer) else "numbers"
    if target != LOSSES[loss].target:
        raise InputError(f"--loss: expected a loss of {target}, found {loss}; choose another")
    if (y.max(initial=0) >= data.outputs) if target == "classes" else (y.shape[1:] != (data.outputs,)):
        found = f"{target} of shape {y.shape}, up to {y.max(initial=0)}"
        raise InputError(f"targets: expected {target} for {data.outputs} outputs, found {found}; mend the data set")


class Training:
    """A run between two epochs: net, optimiser and generator, which decide what follows, and the record.

    epoch, diverged         how many epochs have been trained; whether a loss was not finite, which ends the run
    history, gate_means     a row an epoch, the untrained net's first, if `epochs` keeps scores
    data, validation        the samples that are used; the validation samples (x, y)

    For nets of another kind, override the methods from `memory` to `training_inputs`.
    """

    def __init__(self, config: TrainingConfig, data: Dataset):
        """Draw subset and weights from the config's seed; raises InputError if `data` does not suit the config."""
        subset_rng, weight_rng, self.rng = np.random.default_rng(config.seed).spawn(3)
        self.config, self.loss = config, LOSSES[config.loss]
        check_targets(data, config.loss)
        check_memory(self.memory(data))
        data = draw_subset(data, config.n_train, config.n_test, subset_rng, config.n_validation)
        self.validation = data.train_x[config.n_train :], data.train_y[config.n_train :]
        self.data = data._replace(train_x=data.train_x[: config.n_train], train_y=data.train_y[: config.n_train])
        self.net = self.new_net(weight_rng)
        self.optimizer = OPTIMIZERS[config.optimizer](self.net.params, config)
        self.workspaces = {size: self.new_workspace(size) for size in batch_sizes(config)}
        self.epoch, self.diverged = 0, False
        self.history, self.gate_means = History.empty(), []

    def memory(self, data: Dataset) -> int:
        """Bytes that the run takes, nearly."""
        return memory(self.config, math.prod(data.train_x.shape[1:]), data.outputs)

    def new_net(self, rng: np.random.Generator) -> Net:
        """The net that the config describes, for the data."""
        described = {name: getattr(self.config, name) for name in NET_FIELDS}
        return DeepNet(math.prod(self.data.train_x.shape[1:]), self.data.outputs, **described, rng=rng)

    def new_workspace(self, size: int) -> Any:
        """Memory for training on batches of that size."""
        return Workspace(self.net, size)

    def threads(self) -> int:
        """How many BLAS threads the run takes."""
        return threads_for(self.config)

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Samples x (n, ...) as the net takes them."""
        return as_inputs(x, self.net.dtype)

    def training_inputs(self, x: np.ndarray) -> np.ndarray:
        """The same while training, where chance may change them."""
        return self.inputs(x)

    def epochs(self, *, scored: bool = True) -> Iterator[float]:
        """Train to the config's last epoch, or until a loss is not finite; yields each epoch's mean loss over batches.

        With `scored`, each yield has a new row in `history` and in `gate_means`; the first is the untrained net's, for
        which NaN is yielded. A run that was restored between two epochs goes on from there.
        """
        if scored and not self.history.epoch:
            self._record(math.nan, time.perf_counter())
            yield math.nan
        while self.epoch < self.config.epochs and not self.diverged:
            start = time.perf_counter()
            loss, norm = self._train_epoch()
            self.epoch += 1
            self.diverged = not math.isfinite(loss)
            if scored:
                self._record(norm, start)
            yield loss

    def _train_epoch(self) -> tuple[float, float]:
        """One step a batch, until one's loss is not finite; returns means over batches: loss and gradient norm."""
        config, steps, weights, losses = self.config, steps_an_epoch(self.config), self.data.train_weights, []
        with quiet_threads(self.threads()):
            for step, chosen in enumerate(batches(config, self.rng)):
                x, y = self.training_inputs(self.data.train_x[chosen]), self.data.train_y[chosen]
                rate = scheduled_rate(config.schedule, (self.epoch + step / steps) / config.epochs)
                of_batch = None if weights is None else weights[chosen]
                how = {"weight_decay": config.weight_decay, "rate": rate, "weights": of_batch}
                workspace = self.workspaces[len(y)]
                losses.append(train_step(self.net, self.loss, self.optimizer, x, y, config.clip, workspace, **how))
                if not math.isfinite(losses[-1][0]):
                    break
            return tuple(np.mean(losses, axis=0).tolist())

    def _record(self, norm: float, start: float) -> None:
        """Keep losses and scores, and the gates' means; training is left as it was.

        With validation samples, the test set is scored after the last epoch only.
        """
        data, scored = self.data, slice(self.config.n_scored or None)
        last = self.diverged or self.epoch == self.config.epochs
        with quiet_threads(self.threads()):
            train = self._scores(data.train_x[scored], data.train_y[scored])
            validation = self._scores(*self.validation) if self.config.n_validation else ()
            test = self._scores(data.test_x, data.test_y) if last or not validation else (math.nan, math.nan)
            if "T" in self.net.block.branches and self.net.depth:
                self.gate_means.append(self.net.gate_means(self.inputs(data.test_x[:GATE_SAMPLES])))
        measured = (train, validation) if validation else (train, test)
        self.diverged = self.diverged or not all(math.isfinite(loss) for loss, _ in measured)
        self.history.append(self.epoch, *train, *test, norm, time.perf_counter() - start, *validation)

    def _scores(self, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        return evaluate(self.net, x, y, self.loss, self.inputs)

    def run(self) -> Run:
        """The record so far."""
        n_params, gate_means = self.net.params.flat.size, self.gate_means or None
        return Run(None, self.config, n_params, self.loss.metric, self.diverged, self.history, gate_means)


def train(
    config: TrainingConfig,
    data: Dataset,
    *,
    training: type[Training] = Training,
    report: Callable[[Run], None] = lambda run: None,
    save_model: str | os.PathLike | None = None,
    keep: str | os.PathLike | None = None,
) -> Run:
    """Train one net on a random subset of `data` and return the record of the run.

    `report` is called with the record so far after each epoch, the untrained net's (epoch 0) included, and where a run
    goes on. A loss that is not finite ends the run as diverged. `training`: the kind of run; `save_model`: where to put
    the trained net; `keep`: where a checkpoint is kept after each epoch, from which the run goes on if it is there.
    Raises InputError if `data` does not suit the config, Interrupted if the disk will not have the net.
    """
    run = training(config, data)
    if keep and checkpoints.restore(keep, run):
        report(run.run())  # also of one whose last epoch was its checkpoint's
    for _ in run.epochs():
        if keep:
            checkpoints.save(keep, run)
        report(run.run())
    if save_model:
        try:
            run.net.save(save_model)
        except InputError as error:
            raise Interrupted(str(error)) from error
    return run.run()


def threads_for(config: Config) -> int:
    """How many BLAS threads suit a config's products, (D, D) by (D, B)."""
    return count_threads(config.hidden**2 * config.batch_size)


# ----------------------------------------------------------------------------------------- the command

SWEEP = {"depth": [5, 10, 20, 30, 50], "seed": list(range(20))}  # the committed one


def build_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="highway-networks" if Path(sys.argv[0]).name == "highway-networks" else "python highway_networks.py",
        description="Train highway and plain networks side by side and log every epoch as JSON.",
    )
    depths = parser.add_mutually_exclusive_group()
    depths.add_argument("--depth", dest="depths", type=int, nargs=1, metavar="L", help="blocks (default: 30)")
    depths.add_argument("--depths", type=list_of_numbers, metavar="L,L,...", help="one run for each depth")
    parser.add_argument("--block", default="both", choices=("both", *BLOCKS), help="both: highway and plain")
    parser.add_argument("--quick", action="store_true", help="a smaller job: depth 10, 5 epochs")
    add_hyperparameters(parser, Config, leave_out=("seed", "depth", "block"))
    parser.add_argument("--dataset", default="auto", choices=("auto", *DATASETS), help="auto: MNIST, else digits")
    add_training_flags(parser, "run.json or run_sweep.json, with what differs from them")
    return parser


def plan(arguments: argparse.Namespace, data: Dataset) -> list[Config]:
    """The runs that the command line asks for: every depth, seed and block."""
    given = given_fields(arguments, Config)
    if arguments.quick:
        given.setdefault("epochs", 5)
    for name, x in (("n_train", data.train_x), ("n_test", data.test_x)):
        given.setdefault(name, min(getattr(Config, name), len(x)))
    depths = arguments.depths or [10 if arguments.quick else Config.depth]
    blocks = ("highway", "plain") if arguments.block == "both" else (arguments.block,)
    check_number(len(depths) * len(arguments.seeds or [Config.seed]) * len(blocks))
    return [
        Config(**given, depth=depth, seed=seed, block=block)
        for depth, seed, block in product(depths, arguments.seeds or [Config.seed], blocks)
    ]


def run_command(arguments: argparse.Namespace) -> None:
    """Load, train, save, summarise; raises InputError."""
    dataset = choose_dataset(arguments.data_dir) if arguments.dataset == "auto" else arguments.dataset
    data = load_dataset(dataset, arguments.data_dir)
    configs = plan(arguments, data)
    if arguments.save_model and len(configs) > 1:
        raise InputError(
            f"--save-model: expected a single run, found {len(configs)}; choose one --block, --depth and --seed"
        )
    differs = [dataset] * (dataset != "mnist")
    out = (
        None if arguments.no_save else Path(arguments.out or default_log(arguments, differs, configs, Config(), SWEEP))
    )
    check_places(out, dataset, arguments.save_model)
    info = DatasetInfo(dataset, configs[0].n_train, configs[0].n_test, data.test_set)
    train_one = functools.partial(train, save_model=arguments.save_model)
    log = functools.partial(RunLog.new, arguments.command_line, info, threads=threads_for(configs[0]))
    run_job(train_one, configs, data, dataset, arguments, log, out)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run_cli(build_parser(), run_command, argv)


if __name__ == "__main__":
    import highway_networks  # not as __main__, whose functions and classes worker processes could not import

    sys.exit(highway_networks.main())
