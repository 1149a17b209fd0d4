"""The contenders: one training step (forward, loss, backward, clip, Adam) of the same net, by different hands.

A contender is built from a net, a batch x, y and the norm to clip to, and has
    run(steps)               so many training steps, done when it returns
    loss_and_gradients()     the mean loss and the clipped gradients at its weights; the tensors are named as ours
    parameters()             its weights
The floor, which does a step's matrix products and nothing else, has `run` alone.
"""

import importlib
import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from highway_networks import CLASSES, Adam, DeepNet, clip_global_norm, softmax_cross_entropy, train_step

D_IN = 784
CLIP = 5.0
GATE_BIAS = -4.0  # gradients reach the first of 1,000 layers; at −2 denormal numbers would be timed, which are slow
LR = 1e-3
CHECKED_STEPS = 3
TOLERANCE = 1e-4  # of the loss, and of each gradient's norm
MOVE_TOLERANCE = 1e-3  # of the distance each tensor has moved: rounding makes 1e-4 of it, one decimal of a β more

Tensors = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """The size of a step: L blocks of D units, B images."""

    depth: int
    width: int = 50
    batch: int = 128


class Contender(Protocol):
    """What the module's first lines describe."""

    def run(self, steps: int) -> None: ...
    def loss_and_gradients(self) -> tuple[float, Tensors]: ...
    def parameters(self) -> Tensors: ...


class Ours:
    """This project."""

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        self.net, self.x, self.y, self.clip = net, x, y, clip
        self.optimizer = Adam(net.params, LR)
        self.workspace = net.workspace(len(x))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            train_step(self.net, self.optimizer, self.x, self.y, self.clip, self.workspace)

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        logits, cache = self.net.forward(self.x, self.workspace)
        loss, dlogits = softmax_cross_entropy(logits, self.y)
        grads = self.net.backward(dlogits, cache)
        clip_global_norm(grads, self.clip)
        return float(loss), grads

    def parameters(self) -> Tensors:
        return self.net.params


class Floor:
    """The matrix products of a step, each as our engine does it, in memory that is allocated before.

    `products` lists (a, b, out) for out = a @ b, in the step's order.
    """

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        L, B, D = net.depth, len(x), net.hidden
        rng = np.random.default_rng(1)

        def matrix(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape, np.float32)

        x_l, z, dz, dx, dx_through = (
            matrix(L + 1, B, D),
            matrix(L, 2, B, D),
            matrix(2, B, D),
            matrix(B, D),
            matrix(2, B, D),
        )
        W, dW, W_in, W_out = matrix(L, 2, D, D), matrix(L, 2, D, D), matrix(D_IN, D), matrix(D, CLASSES)
        dW_in, dW_out, logits = matrix(D_IN, D), matrix(D, CLASSES), matrix(B, CLASSES)
        self.products = [(x, W_in, x_l[0])]
        self.products += [(x_l[l], W[l], z[l]) for l in range(L)]
        self.products += [(x_l[L], W_out, logits), (x_l[L].T, logits, dW_out), (logits, W_out.T, dx)]
        for l in reversed(range(L)):
            self.products += [(x_l[l].T, dz, dW[l]), (dz, W[l].swapaxes(1, 2), dx_through)]
        self.products += [(x.T, dx, dW_in)]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for a, b, out in self.products:
                np.matmul(a, b, out=out)


class Entry(NamedTuple):
    """A line of the table: how pictures and tables call it, the library it needs, and the class that does it."""

    label: str
    library: str
    module: str
    build: str
    compiles: bool = False


CONTENDERS = {
    "ours": Entry("this project", "numpy", "contenders", "Ours"),
    "floor": Entry("products alone", "numpy", "contenders", "Floor"),
    "torch-eager": Entry("PyTorch, eager", "torch", "torch_peers", "Eager"),
    "torch-fused": Entry("PyTorch, fused", "torch", "torch_peers", "Fused"),
    "torch-compiled": Entry("PyTorch, compiled", "torch", "torch_peers", "Compiled", compiles=True),
    "jax-scanned": Entry("JAX, scanned", "jax", "jax_peers", "Scanned"),
    "jax-unrolled": Entry("JAX, unrolled", "jax", "jax_peers", "Unrolled"),
}


def why_missing(name: str) -> str | None:
    """What a contender lacks on this machine; None if it can run."""
    entry = CONTENDERS[name]
    if importlib.util.find_spec(entry.library) is None:
        return f"{entry.library} is not installed (extra `bench`)"
    if entry.compiles and not shutil.which(os.environ.get("CXX", "g++")):
        return "no C++ compiler (g++, or $CXX)"
    return None


def problem(case: Case, clip: float = CLIP) -> tuple[DeepNet, np.ndarray, np.ndarray, float]:
    """What a contender is built from: a net, a batch x (B, d_in) and y (B,), and the norm; the same at every call."""
    rng = np.random.default_rng(0)
    net = DeepNet(D_IN, CLASSES, hidden=case.width, depth=case.depth, gate_bias=GATE_BIAS, rng=rng)
    x = rng.uniform(-1, 1, (case.batch, D_IN)).astype(np.float32)
    return net, x, rng.integers(0, CLASSES, case.batch), clip


def build(name: str, case: Case, clip: float = CLIP) -> Contender:
    """The contender of that name; raises RuntimeError if it does not compute what ours computes."""
    entry = CONTENDERS[name]
    module = importlib.import_module(f"{__package__}.{entry.module}")
    contender = getattr(module, entry.build)(*problem(case, clip))
    if name not in ("ours", "floor"):
        check(contender, Ours(*problem(case, clip)), f"{name} at {case}")
    return contender


def check(contender: Contender, ours: Ours, where: str) -> None:
    """Compare a contender with ours: loss and gradients at the first weights, and the weights a few steps later.

    Both must hold equal weights and batches. Raises RuntimeError, which says `where`, if they disagree.
    """
    start = {name: tensor.copy() for name, tensor in ours.parameters().items()}
    (found_loss, found), (loss, grads) = contender.loss_and_gradients(), ours.loss_and_gradients()
    errors = {"loss": abs(found_loss - loss) / abs(loss)}
    errors |= {f"gradient {name}": distance(found[name], grad) / np.linalg.norm(grad) for name, grad in grads.items()}
    require(errors, TOLERANCE, where)

    contender.run(CHECKED_STEPS)
    ours.run(CHECKED_STEPS)
    found, expected = contender.parameters(), ours.parameters()
    moved = {name: distance(found[name], expected[name]) / distance(expected[name], start[name]) for name in start}
    require(moved, MOVE_TOLERANCE, f"{where} after {CHECKED_STEPS} steps")


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The L2 norm of a − b."""
    return float(np.linalg.norm(a - b))


def require(errors: dict[str, float], tolerance: float, where: str) -> None:
    """Raise RuntimeError if the largest error is above the tolerance, or not a number."""
    for name, error in errors.items():
        if not error <= tolerance:
            raise RuntimeError(f"{where}: {name} is {error:.1e} from ours, beyond {tolerance:.0e}")
