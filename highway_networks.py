"""Training very deep networks, in NumPy: highway and plain nets, forward and backward written by hand.

    python highway_networks.py --seed 0                           the headline: 30 blocks, both nets
    python highway_networks.py --seed 0 --depths 5,10,20,30,50    the depth sweep
    python highway_networks.py --check-gradients                  each line of the backward pass, by complex steps

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

The file reads from blocks to training; what these lean on follows. It needs NumPy alone, and copied alone it trains,
saves and loads; with OPENBLAS_NUM_THREADS=1 its bits do not depend on the number of CPUs. Flags, logs, jobs that resume
and pictures are in highway_lab/, which imports it.
"""

if __name__ == "__main__":
    try:
        from highway_lab.start import start
    except ModuleNotFoundError as error:
        found = f"highway_networks.py: expected highway_lab and what it needs, found: {error}"
        remedy = "pip install the checkout, or import this file: train(Config(), load_mnist(FOLDER))"
        raise SystemExit(f"{found}; {remedy}") from None
    start("highway_lab.programs")  # ends the process; it imports this file again, by the name that workers know

if "DeepNet" in globals():  # its classes and blocks would be others than those that are in use
    raise ImportError("highway_networks: expected to be imported once, found a reload; restart the kernel")

import gzip
import json
import lzma
import math
import os
import re
import shutil
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

__all__ = ["ACTIVATIONS", "BLOCKS", "INITS", "LOSSES", "OPTIMIZERS", "SCHEDULES", "Activation", "Adam", "Block"]
__all__ += ["Config", "Dataset", "DeepNet", "History", "InputError", "Loss", "Momentum", "Run", "Workspace"]
__all__ += ["accuracy", "clip_global_norm", "load_mnist", "read_idx", "sigmoid_backward"]
__all__ += ["sigmoid_forward", "softmax_cross_entropy", "train", "weighted_mean"]

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

    branches      a capital letter each, in the order of z; T is a transform gate
    bias_signs    for a branch, its initial bias divided by `gate_bias` (0 where it is missing): σ(b_C) = 1 − σ(b_T)

    `BLOCKS["my-block"] = Block(...)` adds a block. A subclass may override the methods: `for_depth` if it is scaled by
    the depth, `rows` if its branches have fewer rows than x, as an LSTM's.
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


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw matrices with orthonormal columns, or rows if fewer (Saxe et al. 2014): Q of a normal matrix, with R > 0."""
    normal = rng.normal(0, 1, shape)
    wide = shape[-2] < shape[-1]
    Q, R = np.linalg.qr(normal.swapaxes(-1, -2) if wide else normal)
    Q *= np.sign(np.diagonal(R, axis1=-2, axis2=-1))[..., None, :]
    return Q.swapaxes(-1, -2) if wide else Q


INITS = {  # of a generator and the shape (..., fan_out, fan_in) of the weights
    # uniform in ±1/√fan_in
    "uniform": lambda rng, shape: rng.uniform(-(bound := 1 / math.sqrt(shape[-1])), bound, shape),
    # uniform, normalised for tanh (Glorot & Bengio 2010, eq. 16)
    "glorot": lambda rng, shape: rng.uniform(-(bound := math.sqrt(6 / sum(shape[-2:]))), bound, shape),
    # normal, normalised for ReLU (He et al. 2015, eq. 10)
    "he": lambda rng, shape: rng.normal(0, math.sqrt(2 / shape[-1]), shape),
    "gaussian": lambda rng, shape: rng.normal(0, 0.01, shape),  # (Krizhevsky et al. 2012, section 5)
    "orthogonal": orthogonal,
}
INITIAL = ("init", "init_gain", "gate_bias")  # hyperparameters that a net has no trace of once it is trained
SCALED = ("in", "H", "out")  # layers and branches whose initial weights `init_gain` multiplies: no gates


class Tensors(dict[str, np.ndarray]):
    """Tensors by name: views into `flat`, one vector, so that an optimiser is a few vector operations.

    pieces    the vector cut into tensors of the given shapes
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: DTypeLike):
        ends = list(accumulate(math.prod(shape) for shape in shapes))
        if ends[-1] * np.dtype(dtype).itemsize > np.iinfo(np.intp).max:  # NumPy would not speak of memory
            raise MemoryError(f"Unable to allocate {ends[-1]:.1e} parameters")
        self.flat = np.zeros(ends[-1], dtype)
        pieces = np.split(self.flat, ends[:-1])
        self.pieces = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def name_affine(self, branch: str, matrix: np.ndarray, layer: str = "") -> None:
        """Name the weights and the biases of a branch, whose matrix is [W b]."""
        self.update({f"{layer}W_{branch}": matrix[..., :-1], f"{layer}b_{branch}": matrix[..., -1]})

    def __setitem__(self, name: str, value: Any) -> None:
        self[name][...] = value

    def __reduce__(self) -> tuple:
        """Copy and pickle as a plain dictionary of arrays: views of one vector would come apart."""
        return dict, ({name: tensor.copy() for name, tensor in self.items()},)


class Parameters(Tensors):
    """Parameters of a DeepNet: W_in (D, d_in), b_in (D); W_H (L, D, D), b_H (L, D), ...; W_out (K, D), b_out (K).

    input     (D, d_in + 1) = [W_in b_in]
    blocks    (L, G·D, D + 1) = [W_H b_H; W_T b_T; ...] of each block
    output    (K, D + 1) = [W_out b_out]
    """

    def __init__(self, net: "DeepNet"):
        L, D, block = net.depth, net.hidden, net.block
        shapes = (D, net.config["d_in"] + 1), (L, block.rows(D), D + 1), (net.config["d_out"], D + 1)
        super().__init__(shapes, net.dtype)
        self.input, self.blocks, self.output = self.pieces
        self.name_affine("in", self.input)
        for branch, matrix in zip(block.branches, np.split(self.blocks, len(block.branches), axis=1), strict=True):
            self.name_affine(branch, matrix)
        self.name_affine("out", self.output)


# ------------------------------------------------------------------------------------- hyperparameters
# A field of a configuration says what it means and what it may be; a command makes its flags of that.


class InputError(ValueError):
    """A file or an option that the user gave cannot be used; the message is one line and names the remedy."""


def reason_of(error: BaseException) -> str:
    """Return what an error says, as one line of at most 300 characters: it may quote a whole foreign file."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(words[:3_000].split())[:300]


class ArgumentError(InputError):
    """An argument that cannot be used. The message has arguments in backticks, which a command shows as its flags."""


Rule = tuple[Callable[[Any], bool], str | Collection[str]]  # a test of a value; its name, or the table of all values
POSITIVE: Rule = (lambda value: value > 0, "a positive number")
ZERO_OR_MORE: Rule = (lambda value: value >= 0, "zero or a positive number")
BELOW_ONE: Rule = (lambda value: 0 <= value < 1, "a number in [0, 1)")
UP_TO_ONE: Rule = (lambda value: 0 < value <= 1, "a number in (0, 1]")
FINITE: Rule = (math.isfinite, "a finite number")
ADD_NAME = "import the file that adds it (--import of a command)"  # remedy of a name that a table lacks


class UpTo(int):
    """A number of samples, in place of which all are taken where there are fewer."""


def hyperparameter(default: Any, help: str, rule: Rule | Mapping[str, Any] | list[str] | None = None) -> Any:
    """Make a field of a dataclass of hyperparameters: default, meaning, and the rule, or the table, of its values."""
    tested = rule if rule is None or isinstance(rule, tuple) else (rule.__contains__, rule)
    return field(default=default, metadata={"help": help, "rule": tested})


def words_of(rule: Rule) -> str:
    """Return what a rule expects, in words; of a long table, its first names."""
    return rule[1] if isinstance(rule[1], str) else "one of " + ", ".join([*rule[1]][:12])


# --------------------------------------------------------------------------------------------- the net


def documented(*sources: type) -> Callable[[type], type]:
    """Add to a class's docstring a line for each field of dataclasses of hyperparameters: default, meaning, rule."""

    def add(kind: type) -> type:
        for of in (of for source in sources for of in fields(source)):
            rule = f" ({words_of(of.metadata['rule'])})" if of.metadata["rule"] else ""
            kind.__doc__ = f"{kind.__doc__ or ''}\n    {of.name} = {of.default!r}: {of.metadata['help']}{rule}"
        return kind

    return add


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters of any net. b_T starts at `gate_bias`, b_C at −`gate_bias`, other biases at 0."""

    block: str = hyperparameter("highway", "kind of block", BLOCKS)
    activation: str = hyperparameter("tanh", "activation in H", ACTIVATIONS)
    init: str = hyperparameter("uniform", "initial weights; glorot and he are the normalised ones", INITS)
    init_gain: float = hyperparameter(1.0, "factor on the initial weights, but for those of gates", POSITIVE)
    gate_bias: float = hyperparameter(-2.0, "initial transform-gate bias b_T", FINITE)
    dtype: str = hyperparameter("float32", "precision", ["float32", "float64"])


@dataclass(frozen=True)
class DeepArchitecture(Architecture):
    """Hyperparameters of a DeepNet. The paper counts the plain layer before the blocks, too: its depth is L + 1."""

    depth: int = hyperparameter(30, "blocks", ZERO_OR_MORE)
    hidden: int = hyperparameter(50, "units in each block", POSITIVE)


class Net:
    """Base class of all nets: configuration, parameters, training step, saving.

    classes    the class of each output, in order, of a net that was trained on others than 0..K-1
    """

    params: Tensors
    classes: tuple[Any, ...] = ()
    depth: int
    workspace: Callable[..., Any]
    new_parameters: Callable[..., Tensors]
    forward: Callable[..., Any]
    backward: Callable[..., Any]

    def __init__(self, architecture: Architecture, **sizes: Any):
        self.dtype = np.dtype(architecture.dtype)
        beyond = self.dtype in (np.complex128, object)  # for complex steps, and for numbers that are traced
        check_hyperparameters(replace(architecture, dtype="float64" if beyond else self.dtype.name))
        config = sizes | asdict(architecture) | {"dtype": self.dtype.name}
        self.config = {name: as_python(value) for name, value in config.items()}
        self.block, self.activation = BLOCKS[architecture.block], ACTIVATIONS[architecture.activation]
        if not (letters := self.block.branches).isupper() or len({*letters}) < len(letters):
            found = f"expected a capital letter of its own for each branch of {architecture.block}, found {letters}"
            raise InputError(f"block: {found}; rename them")  # a cache has x, z and such beside H and T
        self.buffers: dict[str, np.ndarray] = {}  # state that is not trained, such as running means

    @property
    def has_gates(self) -> bool:
        """Whether there are blocks with transform gates."""
        return "T" in self.block.branches and self.depth > 0

    def gate_means(self, x: np.ndarray, rows: int = 128) -> np.ndarray:
        """Return the mean of T of each block, (L,), over samples x as `forward` takes them, `rows` at a time.

        Raises InputError if the blocks have no transform gates.
        """
        if "T" not in self.block.branches:
            found = f"expected blocks with a transform gate T, found {self.config['block']} blocks"
            raise InputError(f"gates: {found}; choose others, such as highway")
        parts = [x[start : start + rows] for start in range(0, len(x), rows)]
        means = [[T.mean() for T in self.forward(part)[1].T] for part in parts]
        return np.average(means, axis=0, weights=[len(part) for part in parts])

    def draw(self, rng: np.random.Generator | int | None) -> None:
        """Give the parameters their initial values, from a generator or a seed; None leaves them as they are."""
        if rng is None:
            return
        generator: Any = rng if hasattr(rng, "normal") else np.random.default_rng(rng)
        for name, tensor in self.params.items():
            kind, _, branch = name.rpartition(".")[-1].partition("_")  # a ConvNet's names begin with a layer's
            if kind == "W":
                tensor[...] = INITS[self.config["init"]](generator, tensor.shape)
                if branch in SCALED:
                    tensor *= self.config["init_gain"]
            elif kind == "b":
                sign = self.block.bias_signs.get(branch)
                tensor[...] = sign * self.config["gate_bias"] if sign else 0  # a product with 0 would be −0

    def take(self, net: "Net") -> None:
        """Take the parameters and buffers of a net of the same classes and architecture; raises InputError for another.

        INITIAL hyperparameters may differ.
        """
        fixed = {name: value for name, value in self.config.items() if name not in INITIAL}
        if not isinstance(net, Net) or any(net.config.get(name) != value for name, value in fixed.items()):
            raise InputError(f"net: expected {self}, found {net!s:.200}; give the configuration of that net")
        if (found := tuple(net.classes)) != self.classes:
            expected = f"one of the classes {self.classes!s:.60}, found one of {found!s:.60}"
            raise InputError(f"net: expected {expected}; relabel the data, or set net.classes to what it is to learn")
        fill(self.tensors(), net.tensors())

    def train_step(self, x, y, workspace, loss, optimizer, *, clip=0.0, weight_decay=0.0, rate=1.0, weights=None):
        """Take one step: forward, loss, backward, clip, weight decay, update.

        x, y are a batch as `forward` and the loss take it; `rate` is a factor on the learning rate; a `clip` of 0 is no
        limit; `weights` are those of softmax_cross_entropy. Returns the loss and the gradients' norm before clipping.
        """
        outputs, cache = self.forward(x, workspace)
        value, doutputs = loss.function(outputs, y, weights)
        grads = self.backward(doutputs, cache)
        norm = clip_global_norm(grads, clip or math.inf)
        if weight_decay:
            decay_weights(grads, self.params, weight_decay)
        optimizer.step(grads, rate)
        return float(value), norm

    def tensors(self) -> dict[str, np.ndarray]:
        """Return all tensors by name, parameters and buffers."""
        return {**self.params, **self.buffers}

    def packed(self) -> dict[str, Any]:
        """Return the arrays of a file that holds the net: tensors, format, configuration, classes."""
        classes = {"classes": np.array(json.dumps(self.classes, default=str))} if self.classes else {}
        return {"format": np.array(FORMAT), "config": np.array(json.dumps(self.config)), **classes, **self.tensors()}

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return the net that was `packed`; raises some exception for other arrays."""
        if (version := int(arrays.pop("format", 1))) != FORMAT:
            raise ValueError(f"format {version}, not {FORMAT}: its weights are not laid out as W @ x")
        net = cls(**json.loads(str(arrays.pop("config"))), rng=None)  # takes no memory yet for what that claims
        net.classes = tuple(json.loads(str(arrays.pop("classes", "[]"))))
        if len(net.classes) not in (0, net.config["d_out"]):
            raise ValueError(f"{len(net.classes)} classes for {net.config['d_out']} outputs")
        fill(net.tensors(), arrays)
        return net

    def save(self, path: str | os.PathLike) -> None:
        """Write tensors and configuration as .npz, whole or not at all; raises OSError if it cannot."""
        place = Path(path).expanduser().resolve()
        if place.exists() and not place.is_file():
            raise OSError(f"{path}: expected a place for a file, found a directory, a pipe or a device; choose another")
        with TemporaryDirectory(dir=place.parent) as folder:
            beside = Path(folder, place.name)
            with open(beside, "wb") as file:  # of NumPy's own choice a name would end with .npz
                np.savez(file, **self.packed())
            if place.exists():
                shutil.copymode(place, beside)
            os.replace(beside, place)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read a net that `save` wrote, never unpickles. Else raises InputError."""
        try:
            with open(Path(path).expanduser(), "rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as arrays:
                return cls.unpacked(dict(arrays))
        except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
            ending = "" if isinstance(error, InputError) else "; choose another"
            found = f"expected what {cls.__name__}.save wrote, found: {reason_of(error)}{ending}"
            raise InputError(f"{path}: {found}") from error

    def __reduce__(self) -> tuple:
        """Return what a copy or a pickle is made by: each tensor once, though there are many views of it."""
        return type(self).unpacked, (self.packed(),)


class Workspace:
    """Memory for the passes over batches of one size, allocated once, and the cache that a forward pass leaves in it.

    x (L+1, D, B)           the input of each block and, last, the output of the last
    H, T, C, ... (L, D, B)  the block states, the transform gates, the carry gates, each where the block has it
    input (B, d_in + 1)     the batch, each sample with a 1 at its end; x1 (L+1, D+1, B) is x with a row of ones
    z (L, G·D, B)           the affine maps of all branches, which become H, T, ...: `branches` (L, G, D, B)

    Of the backward pass: gradients; dz (G·D, B); dy, dx and scratch in flows (3, D, B). Each pass overwrites what the
    last one left; the system gives memory where it is first written to.
    """

    def __init__(self, net: "DeepNet", batch_size: int):
        G, L, D, B, rows = len(net.block.branches), net.depth, net.hidden, batch_size, net.block.rows(net.hidden)
        self.input = np.ones((B, net.config["d_in"] + 1), net.dtype)
        self.x1 = np.ones((L + 1, D + 1, B), net.dtype)
        self.x = self.x1[:, :-1]
        self.z = np.empty((L, rows, B), net.dtype)
        self.branches = self.z.reshape(L, G, rows // G, B)
        for g, branch in enumerate(net.block.branches):
            setattr(self, branch, self.branches[:, g])
        self.gradients = net.new_parameters()
        self.dz, self.flows = np.empty((rows, B), net.dtype), np.empty((3, D, B), net.dtype)


@documented(DeepArchitecture)
class DeepNet(Net):
    """A deep net of equal blocks: a plain layer d_in -> D, L = `depth` blocks D -> D, a linear layer D -> K = d_out.

    rng     draws the weights: a generator or its seed; None leaves every parameter 0
    dtype   may also be complex128 (forward and loss only), for derivatives by complex steps in tests

    Raises InputError for a value that breaks its rule. The other arguments are:
    """

    params: Parameters

    def __init__(self, d_in: int, d_out: int, *, rng: np.random.Generator | int | None, **architecture: Any):
        for name, size in (("d_in", d_in), ("d_out", d_out)):
            check(name, size, int, ZERO_OR_MORE if rng is None else POSITIVE)
        super().__init__(DeepArchitecture(**architecture), d_in=d_in, d_out=d_out)
        self.hidden, self.depth = self.config["hidden"], self.config["depth"]
        self.block = self.block.for_depth(self.depth)
        self.params = self.new_parameters()
        self.draw(rng)

    def __repr__(self) -> str:
        of, D = self.config, f"{self.hidden} {self.config['activation']} units"
        shape = f"{of['d_in']} → {self.depth} {of['block']} blocks of {D} → {of['d_out']}"
        return f"DeepNet({shape}; {of['dtype']}; {self.params.flat.size:,} parameters)"

    def new_parameters(self) -> Parameters:
        """Return zeros, shaped and named like this net's parameters; gradients are such, too."""
        return Parameters(self)

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> Workspace:
        """Allocate the memory of the passes over batches of one size; `rng` is for nets with dropout."""
        return Workspace(self, batch_size)

    def preprocess(self, x: np.ndarray) -> np.ndarray:
        """Return samples (n, ...) as the net takes them: rows (n, d_in), pixels 0..255 (uint8) as -1..1."""
        return as_inputs(x, self.dtype)

    def forward(self, x: np.ndarray, workspace: Workspace | None = None) -> tuple[np.ndarray, Workspace]:
        """Return the logits (B, K) of a batch x (B, d_in), and the cache that `backward` needs.

        The cache is `workspace`, which is overwritten, or new memory if there is none. Raises InputError for another x.
        """
        x = prepared(x, (self.config["d_in"],), self.dtype)
        w, p = workspace or Workspace(self, len(x)), self.params
        w.input[:, :-1] = x
        affine_forward(p.input, w.input.T, w.x[0])  # the plain layer that brings x to the blocks' width (section 2.1)
        self.activation.forward(w.x[0])
        with np.errstate(over="ignore", under="ignore"):  # e^−z may be inf where σ(z) is rightly 0, or 0 where it is 1
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
        """Return the logits (n, K) of x (n, d_in), `rows` at a time, with no cache. Raises InputError for another x."""
        check("rows", rows, int, POSITIVE)
        x = prepared(x, (self.config["d_in"],), self.dtype)
        logits = np.empty((len(x), self.config["d_out"]), self.dtype)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            logits[part] = self.forward_from(self.embed(x[part]), 0)
        return logits

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Return the input (D, B) of the first block, given the net's input x (B, d_in)."""
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

        Unlike `forward` it keeps nothing for a backward pass, and so takes the memory of one block: z is overwritten by
        the next block, y by the one after it. x_l (D, B) stays as it was.
        """
        x1, y1 = with_ones(x_l, self.dtype), with_ones(x_l, self.dtype)
        z = np.empty((self.block.rows(self.hidden), x_l.shape[1]), self.dtype)
        branches = z.reshape(len(self.block.branches), -1, x_l.shape[1])
        for W in self.params.blocks[l:]:
            with np.errstate(over="ignore", under="ignore"):
                affine_forward(W, x1, z)
                self.block.forward(x1[:-1], branches, y1[:-1], self.activation)
            yield branches, y1[:-1]
            x1, y1 = y1, x1


# ---------------------------------------------------------------------------------------------- the loss


class Loss(NamedTuple):
    """A loss, the score that goes with it (more is better, 1 is perfect), and its kind of targets."""

    function: Callable[..., tuple[float, np.ndarray]]  # outputs (B, K), y, weights -> mean loss, gradient (B, K)
    metric: str
    score: Callable[[np.ndarray, np.ndarray], float]  # outputs, y
    target: str  # "classes", "numbers", or "labels": numbers from 0 to 1


def weighted_mean(losses: np.ndarray, gradient: np.ndarray, weights: np.ndarray | None) -> tuple[float, np.ndarray]:
    """Return the mean of losses (B,), each times its weight, and `gradient` (B, K) weighted alike, in place."""
    if weights is not None:
        losses = weights * losses
        gradient *= weights[:, None]
    return losses.mean(), gradient


def softmax_cross_entropy(
    logits: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the mean loss in nats, and dlogits (B, K), of logits (B, K) and classes y (B,).

    weights (B,): a factor on each sample's loss, 1 on average over the data set; None: all are 1. Raises InputError for
    a class that no logit has.
    """
    first, last, K = np.min(y), np.max(y), logits.shape[1]
    if first < 0 or last >= K:
        raise InputError(f"y: expected classes from 0 to {K - 1}, found {first} to {last}; number them from 0")
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


LOSSES = {"cross-entropy": Loss(softmax_cross_entropy, "accuracy", accuracy, "classes")}


# ------------------------------------------------------------------------------------------ optimisers


def clip_global_norm(grads: Tensors, max_norm: float) -> float:
    """Scale the gradients, in place, to a global L2 norm of at most `max_norm`; return the norm before."""
    with np.errstate(over="ignore"):
        norm = math.sqrt(grads.flat @ grads.flat)
    if math.isinf(norm):  # perhaps only the squares overflow
        norm = float(np.linalg.norm(grads.flat.astype(np.longdouble)))
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

    state = ("t", "m", "v")  # attributes that a step changes, beside the parameters: all that a checkpoint keeps

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

    state = ("lr", "v")

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
        if name.rpartition(".")[-1].startswith("W"):
            grad = grads[name]
            grad += decay * tensor  # in place: `grads[name][...] +=` would copy it onto itself, too


OPTIMIZERS: dict[str, Callable[[Tensors, Any], Any]] = {  # of parameters and a configuration
    "adam": lambda params, config: Adam(params, config.lr, config.beta1, config.beta2, config.eps),
    "momentum": lambda params, config: Momentum(params, config.lr, config.momentum, config.lr_decay, config.nesterov),
}

# -------------------------------------------------------------------------------------------- training

SCHEDULES = {  # factor on the learning rate, given the share of all steps that is done
    "constant": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,  # from 1 to 0 (Loshchilov & Hutter 2017, eq. 5)
}


def scheduled_rate(schedule: str, done: float) -> float:
    """Return the factor on the learning rate when the share `done` of all steps is done.

    "0.5,0.75" is a tenth after half of the steps, a hundredth after three quarters, as in section 3 of the paper.
    """
    if schedule in SCHEDULES:
        return SCHEDULES[schedule](done)
    return 0.1 ** sum(done >= float(share) for share in schedule.split(","))


GATE_SAMPLES = 128  # test samples over which the mean T of a block is taken, whatever the batch size
SCHEDULE: Rule = (
    lambda text: text in SCHEDULES or bool(re.fullmatch(r"0?\.\d*[1-9]\d*(, ?0?\.\d*[1-9]\d*)*", text)),
    "constant, cosine, another name in SCHEDULES, or shares of the training like 0.5,0.75",
)


@dataclass(frozen=True)
class TrainingConfig:
    """Hyperparameters of any training run, to which a family of nets adds its own, `depth` among them.

    Raises InputError for a value that breaks its rule.
    """

    SIZE: ClassVar[str]  # names the field that a sweep varies
    title: ClassVar[Any]  # the name of such a run in words
    new_net: ClassVar[Callable[..., Any]]  # data, rng -> a net for the data set, whose weights the generator draws

    loss: str = hyperparameter("cross-entropy", "what is minimised", LOSSES)
    optimizer: str = hyperparameter("adam", "update rule", OPTIMIZERS)
    lr: float = hyperparameter(5e-3, "learning rate", POSITIVE)
    schedule: str = hyperparameter("constant", "factor on lr over the training; shares: a tenth after each", SCHEDULE)
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
    n_train: int = hyperparameter(UpTo(6000), "training samples, drawn at random", POSITIVE)
    n_validation: int = hyperparameter(0, "validation samples; the test set is then scored last only", ZERO_OR_MORE)
    n_scored: int = hyperparameter(0, "training samples that are scored after each epoch; 0: all", ZERO_OR_MORE)
    n_test: int = hyperparameter(UpTo(2000), "test samples, drawn at random", POSITIVE)
    seed: int = hyperparameter(0, "of subset, weights and shuffling", ZERO_OR_MORE)

    def __post_init__(self) -> None:
        check_hyperparameters(self)
        vars(self).update({name: as_python(value) for name, value in vars(self).items()})
        if self.drop_last and self.n_train < self.batch_size:
            found = f"expected a full batch of {self.batch_size}, found {self.n_train} samples"
            raise ArgumentError(f"`drop_last`: {found}; lower `batch_size`")

    def augmented(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return preprocessed training samples after random changes, if the family has any."""
        return x


@documented(DeepArchitecture, TrainingConfig)
@dataclass(frozen=True)
class Config(TrainingConfig, DeepArchitecture):
    """All hyperparameters of a run of a DeepNet."""

    SIZE = "depth"

    @property
    def title(self) -> str:
        return f"{self.block} depth {self.depth}"

    def new_net(self, data: "Dataset", rng: np.random.Generator) -> DeepNet:
        """Make the net for `data`, whose weights `rng` draws."""
        architecture = {field.name: getattr(self, field.name) for field in fields(DeepArchitecture)}
        return DeepNet(math.prod(data.train_x.shape[1:]), data.outputs or 0, **architecture, rng=rng)


def train(
    config: TrainingConfig, data: Any, *, net: Net | None = None, report: Callable[["Run"], Any] = lambda run: None
) -> "Run":
    """Train one net on a random subset of a Dataset, or of its four arrays; returns the record, whose `net` is trained.

    net: one whose parameters are where the training begins, with a fresh optimiser; it stays as it was. report: called
    with the run so far after each epoch, the untrained net's (epoch 0) included, and ends it by returning True; `print`
    prints a line. A loss that is not finite ends the run as diverged, with a warning; columns far from standardised
    are warned of, too. Raises InputError if the arguments do not suit each other.
    """
    training = Training(config, data, net)
    warn_of_scale("train_x", training.data.train_x)
    for _ in training.epochs():
        if report(training.run()):
            break
    if training.diverged:
        found = f"the loss is not finite in epoch {training.epoch}; choose a lower lr, clip, or standardise the inputs"
        warnings.warn(f"training has diverged: {found}", stacklevel=2)
    return training.run()


def batches(config: TrainingConfig, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the sample indices (B,) of one epoch's batches, shuffled."""
    order = rng.permutation(config.n_train)
    end = len(order) - len(order) % config.batch_size if config.drop_last else len(order)
    for start in range(0, end, config.batch_size):
        yield order[start : start + config.batch_size]


class Training:
    """A run between two epochs: net, optimiser and generator, which decide what follows, and the record.

    epoch, diverged         epochs trained so far; whether a loss was not finite, which ends the run
    history, gate_means     a row an epoch, the untrained net's first, if `epochs` keeps scores
    data, validation        the samples in use; validation samples (x, y)
    """

    def __init__(self, config: TrainingConfig, data: Any, net: Net | None = None):
        """Draw subset and weights from the config's seed, or take those of `net`; raises InputError for misfits."""
        subset_rng, weight_rng, self.rng = np.random.default_rng(config.seed).spawn(3)
        self.loss, data = LOSSES[config.loss], as_dataset(data, config.loss)
        self.config = config = fitted(config, data)
        train, rest = np.split(subset_rng.permutation(data.train_x.shape[0]), [config.n_train])
        halves = {"train": train, "test": subset_rng.permutation(data.test_x.shape[0])[: config.n_test]}
        drawn = {f"{half}_{of}": getattr(data, f"{half}_{of}")[rows] for half, rows in halves.items() for of in "xy"}
        weights = None if data.train_weights is None else data.train_weights[train]
        self.data = data._replace(**drawn, train_weights=weights)
        rest = rest[: config.n_validation]
        self.validation = data.train_x[rest], data.train_y[rest]
        self.net: Any = config.new_net(self.data, weight_rng)
        self.net.classes = self.data.classes
        if net is not None:
            self.net.take(net)
        self.optimizer = OPTIMIZERS[config.optimizer](self.net.params, config)
        sizes = {len(chosen) for chosen in batches(config, np.random.default_rng(0))}
        self.workspaces = {size: self.net.workspace(size, self.rng) for size in sizes}
        self.epoch, self.diverged = 0, False
        self.history = History()
        self.gate_means: list[list[float | None]] = []

    def epochs(self, *, scored: bool = True) -> Iterator[float]:
        """Train to the config's last epoch, or until a loss is not finite; yield each epoch's mean loss over batches.

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
        """Take one step a batch, until a loss is not finite; return means over batches: loss and gradient norm."""
        config, sample_weights = self.config, self.data.train_weights
        epoch, measured = [*batches(config, self.rng)], []
        with np.errstate(all="ignore"):  # a loss that overflows is recorded
            for step, chosen in enumerate(epoch):
                x, y = self.net.preprocess(self.data.train_x[chosen]), self.data.train_y[chosen]
                batch = config.augmented(x, self.rng), y, self.workspaces[len(chosen)]
                rate = scheduled_rate(config.schedule, (self.epoch + step / len(epoch)) / config.epochs)
                weights = None if sample_weights is None else sample_weights[chosen]
                options = {"clip": config.clip, "weight_decay": config.weight_decay, "rate": rate, "weights": weights}
                measured.append(self.net.train_step(*batch, self.loss, self.optimizer, **options))
                if not math.isfinite(measured[-1][0]):
                    break
            return tuple(np.mean(measured, axis=0).tolist())

    def _record(self, norm: float, start: float) -> None:
        """Append losses, scores and mean gates to the record; training is left as it was."""
        data, scored = self.data, slice(self.config.n_scored or None)
        last = self.diverged or self.epoch == self.config.epochs
        with np.errstate(all="ignore"):
            train = evaluate(self.net, data.train_x[scored], data.train_y[scored], self.loss)
            validation = evaluate(self.net, *self.validation, self.loss) if self.config.n_validation else ()
            tested = last or not validation
            test = evaluate(self.net, data.test_x, data.test_y, self.loss) if tested else (math.nan, math.nan)
            if self.net.has_gates:
                means = self.net.gate_means(self.net.preprocess(data.test_x[:GATE_SAMPLES]))
                self.gate_means.append([rounded(mean, digits=4) for mean in means])
        measured = (train, validation) if validation else (train, test)
        self.diverged = self.diverged or not all(math.isfinite(loss) for loss, _ in measured)
        self.history.append(self.epoch, *train, *test, norm, time.perf_counter() - start, *validation)

    def run(self) -> "Run":
        """Return the record so far, and the net as `net`."""
        measured = self.loss.metric, self.diverged, self.history, self.gate_means or None
        return Run(self.config, self.net.params.flat.size, *measured, self.net, self.net.classes)


# ----------------------------------------------------------------------------------------- the record


def rounded(value: float, digits: int = 6) -> float | None:
    """Round to significant digits; None, which is null in JSON, if the value is not finite."""
    return float(f"{max(-1e100, min(float(value), 1e100)):.{digits}g}") if math.isfinite(value) else None


@dataclass
class History:
    """Columns of one row an epoch, the untrained net first (epoch 0); losses are means over samples.

    The validation columns are empty without validation samples; with them, only the last row has test scores.
    """

    epoch: list[int] = field(default_factory=list)
    train_loss: list[float | None] = field(default_factory=list)
    train_score: list[float | None] = field(default_factory=list)
    test_loss: list[float | None] = field(default_factory=list)
    test_score: list[float | None] = field(default_factory=list)
    grad_norm: list[float | None] = field(default_factory=list)  # mean global L2 norm before clipping, null at epoch 0
    seconds: list[float] = field(default_factory=list)  # wall time
    validation_loss: list[float | None] = field(default_factory=list)
    validation_score: list[float | None] = field(default_factory=list)

    def columns(self) -> list[list]:
        return [getattr(self, column.name) for column in fields(self)]

    def append(self, epoch: int, *row: float) -> None:
        """Append one epoch's numbers, in the order of the fields; one that is not finite becomes None."""
        self.epoch.append(epoch)
        for column, value in zip(self.columns()[1:], row, strict=False):  # the last two may be left out
            column.append(rounded(value))


@dataclass
class Run:
    """The record of a training, and its net."""

    config: TrainingConfig
    n_params: int
    metric: str  # names the scores of the history; in each, more is better and 1 is perfect
    diverged: bool
    history: History
    gate_means: list[list[float | None]] | None  # mean T of each block, one row an epoch; None without gates
    net: Any
    classes: tuple[Any, ...] = ()  # the class of each output, in order, if the classes were anything but 0..K-1

    def __repr__(self) -> str:
        of = self.history
        halves = {"training": of.train_score, "validation": of.validation_score, "the test": of.test_score}
        scores = [f"{rows[-1]} in {half}" for half, rows in halves.items() if rows and rows[-1] is not None]
        last = "diverged" if self.diverged else f"{self.metric} {', '.join(scores)}"
        return f"Run({self.config.title}, seed {self.config.seed}; epoch {of.epoch[-1]}: {last})"


def evaluate(net: Any, x: np.ndarray, y: np.ndarray, loss: Loss, rows: int = 512) -> tuple[float, float]:
    """Return mean loss and score over samples x (n, ...), `rows` at a time; both NaN if the loss is not finite."""
    starts = range(0, x.shape[0], rows)  # len() of a sparse matrix fails
    outputs = np.concatenate([net.predict(net.preprocess(x[start : start + rows])) for start in starts])
    mean = float(loss.function(outputs, y)[0])
    return (mean, loss.score(outputs, y)) if math.isfinite(mean) else (math.nan, math.nan)


# -------------------------------------------------------------------------------- checks of arguments

KINDS = {int: int, float: float | int, str: str, bool: bool}
LARGEST = {int: 2**63 - 1, float: 3.4e38}  # that arrays hold: of int64, of float32


def expected_instead(value: Any, kind: Any, rule: Rule | None) -> str | None:
    """Return what was expected instead of a value that breaks its rule or is too large for its kind; else None."""
    value = as_python(value)  # bounds would overflow in NumPy's small types
    if kind in KINDS and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind is not bool)):
        return f"a value of type {kind.__name__}"
    if kind in LARGEST and abs(value) > LARGEST[kind]:
        return f"a number up to {LARGEST[kind]:.2g}"
    return None if rule is None or rule[0](value) else words_of(rule)


def as_python(value: Any) -> Any:
    """Return a number or a text of NumPy's as Python's own, which neither overflows nor fails in JSON; others as is."""
    if isinstance(value, np.floating):
        return float(value)  # item() of a long double is one
    return value.item() if isinstance(value, np.generic) else value


def check(name: str, value: Any, kind: Any, rule: Rule | None) -> None:
    """Raise ArgumentError, naming the argument, if a value breaks its rule or is too large for its kind."""
    if expected := expected_instead(value, kind, rule):
        remedy = "choose another" + f", or {ADD_NAME}" * (rule is not None and isinstance(rule[1], Mapping))
        raise ArgumentError(
            f"`{name}`: expected {expected}, found {value if kind is str else repr(value)!s:.40}; {remedy}"
        )


def type_of(of: Field) -> Any:
    """Return the type of a field; where its annotation is a text, that one of KINDS, else the type of its default."""
    named = {kind.__name__: kind for kind in KINDS}
    return named.get(of.type, type(of.default)) if isinstance(of.type, str) else of.type


def check_hyperparameters(config: Any) -> None:
    """Raise ArgumentError if a field of the dataclass breaks its rule, or is too large for its type."""
    for of in fields(config):
        check(of.name, getattr(config, of.name), type_of(of), of.metadata.get("rule"))


# ----------------------------------------------------------------------------------------------- data

TEST_IMAGES = "test images"  # Dataset.test_set if all of them are used


class Dataset(NamedTuple):
    """Samples for training and for testing."""

    train_x: np.ndarray  # images as uint8 (n, channels, rows, columns), or features as floats (n, ...), also sparse
    train_y: np.ndarray  # classes (n,) or (n, 1) as integers, truth values or texts, or floats (n, K), also sparse
    test_x: np.ndarray
    test_y: np.ndarray
    outputs: int | None = None  # K, that a net needs: classes are 0..K-1; None: as many as the targets have
    test_set: str = TEST_IMAGES  # which samples are there for testing, in words
    train_weights: np.ndarray | None = None  # (n,), factors on the losses of the training samples, 1 on average
    classes: tuple[Any, ...] = ()  # the class of each output, in order, if the classes were anything but 0..K-1


LARGEST_SIZE = 20  # mean absolute value of a column, beyond which `train` warns
DARK = 32  # pixels of 8 bits that are all below are masks, or labels, or in another range


def dense(x: Any) -> Any:
    """Return an array as it is, one of SciPy's sparse matrices as a dense array."""
    return x.toarray() if hasattr(x, "toarray") else x


def as_inputs(x: np.ndarray, dtype: DTypeLike = np.float32) -> np.ndarray:
    """Return samples (n, ...) as rows (n, d_in): pixels 0..255 (uint8) as -1..1, floats as they are."""
    x = dense(x)
    rows = x.reshape(len(x), -1)
    if x.dtype != np.uint8:
        return rows.astype(dtype, copy=False)
    scaled = np.multiply(rows, 1 / 127.5, dtype=dtype)
    scaled -= 1
    return scaled


def as_array(name: str, x: Any, kinds: str = "buif") -> Any:
    """Return an array of these kinds of numbers, or of texts (U), or a sparse matrix that has rows.

    Raises InputError for another: what NumPy would make numbers or texts of is no number for that, such as a date.
    """
    array = x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)
    if array.dtype.kind == "U" and not hasattr(x, "dtype"):  # NumPy makes texts of gaps in a list
        array = np.asarray(x, object)
    if array.dtype.kind in "OT" and len({isinstance(of, str) for of in array.flat}) == 1:  # no texts among others
        array = np.array(array.tolist())
    if np.ma.isMaskedArray(x) or array.dtype.kind not in kinds or not array.shape:
        expected = f"an array of {'numbers' if 'f' in kinds else 'classes as integers'}{' or texts' * ('U' in kinds)}"
        found = f"{type(x).__name__} of {array.dtype}; convert it, and leave out or fill in what is missing"
        raise InputError(f"{name}: expected {expected}, found {found}")
    return array


def prepared(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a batch (B, *shape) as an array; raises InputError for another, and for pixels."""
    x = dense(as_array("x", x, "buifc" if dtype.kind == "c" else "buif"))
    if x.shape[1:] != shape or x.dtype == np.uint8:
        expected = f"a batch of shape (B, {', '.join(map(str, shape))}), of numbers as the net takes them"
        raise InputError(f"x: expected {expected}, found {x.dtype} of shape {x.shape}; pass net.preprocess(samples)")
    return x


def warn_of_scale(name: str, x: Any, stacklevel: int = 3) -> None:
    """Warn of features x (n, ...) of which one drowns the others, and of pixels that are all dark."""
    sizes = np.ravel(abs(x[:1000]).mean(axis=0))
    if x.dtype == np.uint8 and (most := int(x.max())) < DARK:
        found = f"found 0 to {most}; multiply by {255 // max(most, 1)}, in both halves"
        warnings.warn(f"{name}: expected 8-bit pixels from 0 to 255, {found}", stacklevel=stacklevel)
    elif x.dtype != np.uint8 and sizes.max() > LARGEST_SIZE:
        found = f"a mean size of {sizes.max():.3g} in column {sizes.argmax()}"
        remedy = "subtract the training mean and divide by the standard deviation, in both halves"
        warnings.warn(f"{name}: expected columns of one scale, found {found}; {remedy}", stacklevel=stacklevel)


def check_array(name: str, x: Any, shape: tuple[int, ...], least: float = -math.inf, most: float = math.inf) -> None:
    """Raise InputError unless an array has a shape and finite numbers between two bounds."""
    low, high = (float(x.min()), float(x.max())) if math.prod(x.shape) else (math.nan, math.nan)
    if x.shape == shape and math.isfinite(high - low) and least <= low and high <= most:
        return
    expected = f"finite numbers of shape {shape}" + f" from {least:g} to {most:g}" * math.isfinite(least)
    found = f"{x.shape} from {low:g} to {high:g}" if math.prod(x.shape) else f"none, in the shape {x.shape}"
    raise InputError(f"{name}: expected {expected}, found {found}; mend the data set, or reshape it")


def as_dataset(data: Any, loss: str) -> Dataset:
    """Return a Dataset, or one of its first four arrays, that a loss can be trained on; raises InputError for another.

    Unless `outputs` or `classes` say more, the distinct classes of both halves are numbered, in order.
    """
    data = data if isinstance(data, Dataset) else Dataset(*data)
    kind, K, classes = LOSSES[loss].target, data.outputs or len(data.classes), data.classes
    x = [as_array(name, getattr(data, name)) for name in ("train_x", "test_x")]
    kinds = "buif" if kind != "classes" else "biu" if K else "biuU"
    y = [as_array(name, dense(getattr(data, name)), kinds) for name in ("train_y", "test_y")]
    if kind != "classes" and y[0].dtype.kind != "f":
        found = f"expected a loss of classes, found {loss} for targets of {y[0].dtype}"
        raise ArgumentError(f"`loss`: {found}; choose another, or convert them to floats")
    if kind == "classes":
        if any(of.size != len(of) for of in y):
            found = f"found arrays of shape {y[0].shape} and {y[1].shape}"
            raise InputError(f"train_y: expected a class for each sample, {found}; number one-hot rows by np.argmax")
        y = [np.ravel(of) for of in y]
    if classes and len(classes) != K:
        raise InputError(f"classes: expected a name for each of {K} outputs, found {len(classes)}; state what agrees")
    for name, there in (("test_x", [of.dtype == np.uint8 for of in x]), ("test_y", [of.dtype.kind == "U" for of in y])):
        if len({*there}) > 1:
            expected = "pixels (uint8), or texts, in both halves or in none"
            raise InputError(f"{name}: expected {expected}, found them in one; convert it")
    if kind == "classes" and K:
        y = [of.astype(int) for of in y]
    elif kind == "classes":  # as objects: unsigned and signed integers would become floats
        labels, codes = np.unique(np.concatenate([of.astype(object) for of in y]), return_inverse=True)
        y, K = np.split(codes, [len(y[0])]), len(labels)
        classes = () if np.array_equal(labels, range(K)) else tuple(labels.tolist())
    K = K or math.prod(y[0].shape[1:])
    bounds = {"classes": (0, K - 1), "labels": (0, 1)}.get(kind, ())
    for half, rows, targets in zip(("train", "test"), x, y, strict=True):
        check_array(f"{half}_x", rows, (rows.shape[0], *x[0].shape[1:]))
        check_array(f"{half}_y", targets, (rows.shape[0], K)[: 1 if kind == "classes" else 2], *bounds)
    if (weights := data.train_weights) is not None:
        weights = as_array("train_weights", weights)
        check_array("train_weights", weights, x[0].shape[:1], 0)
        if not weights.any():
            raise InputError("train_weights: expected a weight above 0, found 0 for all; leave them out to weigh alike")
    return Dataset(x[0], y[0], x[1], y[1], K, data.test_set, weights, classes)


def fitted(config: Any, data: Dataset) -> Any:
    """Return a configuration with all samples where it asks for `UpTo` more; raises ArgumentError for other counts."""

    def fewer(name: str, there: int) -> int:
        wanted = getattr(config, name)
        if wanted > there and not isinstance(wanted, UpTo):
            raise ArgumentError(f"`{name}`: expected at most {there} samples, found {wanted}; ask for fewer")
        return min(wanted, there)

    n = data.train_x.shape[0]  # len() of a sparse matrix fails
    n_validation = fewer("n_validation", n // 10 if isinstance(config.n_validation, UpTo) else n - 1)
    n_train, n_test = fewer("n_train", n - n_validation), fewer("n_test", data.test_x.shape[0])
    return replace(config, n_validation=n_validation, n_train=n_train, n_test=n_test)


# ---------------------------------------------------------------------------------------------- files

MNIST_FILES = [f"{half}-{kind}-ubyte" for half in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
FORMAT = 2  # of saved nets; in 1 weights were transposed, as x @ W


def fill(tensors: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> None:
    """Copy into tensors others of the same names, types and shapes; raises ValueError, and copies none, for others."""
    forms = [{name: f"{of.dtype} of shape {of.shape}" for name, of in each.items()} for each in (tensors, others)]
    for name in {**forms[0], **forms[1]}:
        expected, found = (form.get(name) for form in forms)
        if found != expected:
            raise ValueError(f"tensor {name}: expected {expected}, found {found}")
    for name, tensor in tensors.items():
        tensor[...] = others[name]


DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}  # by the suffix
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what these raise for a damaged file


def read_idx(path: str | os.PathLike, payload: bytes | None = None) -> np.ndarray:
    """Read one idx file of unsigned bytes; one whose name ends in .gz or .xz is uncompressed first.

    Format: two zero bytes, type code (0x08), number of dimensions, each dimension as big-endian uint32, the bytes.
    Returns a read-only uint8 array of the shape that the header states. Raises InputError, naming the file, if it is
    damaged or has extra bytes. `payload`: its uncompressed bytes, where they are known.
    """
    try:
        path = Path(path).expanduser()
        if payload is None:
            payload = DECOMPRESS.get(path.suffix, bytes)(path.read_bytes())
        if payload[:3] != b"\0\0\x08" or not 1 <= payload[3] <= 4:
            raise ValueError(f"a file that begins with {payload[:4].hex(' ') or 'nothing'}, not with 00 00 08")
        start = 4 + 4 * payload[3]
        shape = [int.from_bytes(payload[i : i + 4], "big") for i in range(4, start, 4)]
        return np.frombuffer(payload, np.uint8, offset=start).reshape(shape)
    except (*DAMAGED, RuntimeError, IndexError, ValueError) as error:
        found = f"expected an idx file of unsigned bytes, found: {reason_of(error)}"
        raise InputError(f"{path}: {found}; put an intact copy there") from error


def find_file(folder: str | os.PathLike, name: str) -> Path:
    """Return the path under which a file lies in a folder: as it is, as .gz or as .xz; as it is if none is there."""
    paths = [Path(folder, f"{name}{ending}").expanduser() for ending in ("", ".gz", ".xz")]
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def load_mnist(folder: str | os.PathLike) -> Dataset:
    """Read MNIST's four files in a folder, each as it is, as .gz or as .xz; raises InputError for a damaged one."""
    train_x, train_y, test_x, test_y = (read_idx(find_file(folder, name)) for name in MNIST_FILES)
    return Dataset(train_x[:, None], train_y, test_x[:, None], test_y, 10)  # one channel
