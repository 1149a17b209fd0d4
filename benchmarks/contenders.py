"""The contenders: programs that each do the same training step, this project's and those of others.

A step is forward, loss, backward and update. A contender is built from a case's problem: a net, a batch x, y and the
configuration of its training. It has
    run(steps)               does training steps, and returns when they are done
    loss_and_gradients()     the mean loss and the clipped gradients at its weights, as tensors of our net
    parameters()             its weights, as tensors of our net
The floor, which does a step's matrix products and nothing else, has `run` alone.
"""

import importlib.util
import math
import os
import shutil
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np

from highway_lab.datasets import CLASSES
from highway_lab.threads import one_thread
from highway_networks import LOSSES, OPTIMIZERS, Config, DeepNet, Net, Tensors, TrainingConfig, clip_global_norm

D_IN = 784
GATE_BIAS = -4.0  # gradients reach the first of 1,000 layers; from -2 they would be denormal numbers, which are slow
TRAINING = Config(lr=1e-3)  # of dense nets: Adam, and gradients clipped to a norm of 5
CHECKED_STEPS = 3
LOSS_TOLERANCE = 1e-4

Problem = tuple[Net, np.ndarray, np.ndarray, TrainingConfig]
Contender = Any  # the first lines describe it


@dataclass(frozen=True)
class Case:
    """The size of a step: L blocks of D units, B images."""

    depth: int
    width: int = 50
    batch: int = 128

    tolerances: ClassVar = (
        1e-4,  # of each gradient's norm
        1e-3,  # of the distance each tensor has moved: rounding makes 1e-4 of it, one decimal of a β more
    )

    def __str__(self) -> str:
        unusual = (self.width, self.batch) != (Case.width, Case.batch)
        return f"{self.depth:,} blocks" + f", width {self.width}, batch {self.batch:,}" * unusual

    def problem(self) -> Problem:
        """Return a net, a batch x (B, d_in) and y (B,), and how to train: the same at every call."""
        rng = np.random.default_rng(0)
        net = DeepNet(D_IN, CLASSES, hidden=self.width, depth=self.depth, gate_bias=GATE_BIAS, rng=rng)
        x = rng.uniform(-1, 1, (self.batch, D_IN)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), TRAINING


class Ours:
    """This project's training step, of any net."""

    def __init__(self, net: Net, x: np.ndarray, y: np.ndarray, config: TrainingConfig):
        self.net, self.x, self.y, self.config = net, x, y, config
        self.loss, self.optimizer = LOSSES[config.loss], OPTIMIZERS[config.optimizer](net.params, config)
        self.workspace = net.workspace(len(x), np.random.default_rng(0))

    def run(self, steps: int) -> None:
        options = {"clip": self.config.clip, "weight_decay": self.config.weight_decay}
        with one_thread():  # as in every command: a convolutional net has threads of its own
            for _ in range(steps):
                self.net.train_step(self.x, self.y, self.workspace, self.loss, self.optimizer, **options)

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        logits, cache = self.net.forward(self.x, self.workspace)
        loss, dlogits = self.loss.function(logits, self.y)
        grads = self.net.backward(dlogits, cache)
        clip_global_norm(grads, self.config.clip or math.inf)
        return float(loss), grads

    def parameters(self) -> Tensors:
        return self.net.params


class Floor:
    """The matrix products of our step, (a, b, out) for out = a @ b, recorded while it runs once; no other work."""

    def __init__(self, *problem: Any):
        ours, matmul, self.products = Ours(*problem), np.matmul, []

        def record(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
            self.products.append((a, b, out))
            return matmul(a, b, out=out)

        with patch.object(np, "matmul", record):
            ours.run(1)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for a, b, out in self.products:
                np.matmul(a, b, out=out)


class Entry(NamedTuple):
    """A contender as the command knows it before it is built."""

    label: str  # in pictures and tables
    library: str  # which it needs
    build: str  # module and class in this package
    compiles: bool = False  # needs a C++ compiler


CONTENDERS = {
    "ours": Entry("this project", "numpy", "contenders.Ours"),
    "floor": Entry("products alone", "numpy", "contenders.Floor"),
    "torch-eager": Entry("PyTorch, eager", "torch", "torch_peers.Eager"),
    "torch-fused": Entry("PyTorch, fused", "torch", "torch_peers.Fused"),
    "torch-compiled": Entry("PyTorch, compiled", "torch", "torch_peers.Compiled", compiles=True),
    "jax-scanned": Entry("JAX, scanned", "jax", "jax_peers.Scanned"),
    "jax-unrolled": Entry("JAX, unrolled", "jax", "jax_peers.Unrolled"),
}
CONV_CONTENDERS = {
    "ours-conv": Entry("this project", "numpy", "contenders.Ours"),
    "floor-conv": Entry("products alone", "numpy", "contenders.Floor"),
    "torch-conv": Entry("PyTorch, default layout", "torch", "torch_peers.ConvEager"),
    "torch-conv-last": Entry("PyTorch, channels last", "torch", "torch_peers.ChannelsLast"),
    "torch-conv-compiled": Entry("PyTorch, compiled", "torch", "torch_peers.ConvCompiled", compiles=True),
}
ENTRIES = CONTENDERS | CONV_CONTENDERS


def why_missing(name: str) -> str | None:
    """Return a contender's missing requirement on this machine; None if it can run."""
    entry = ENTRIES[name]
    if importlib.util.find_spec(entry.library) is None:
        return f"{entry.library} is not installed (extra `bench`)"
    if entry.compiles and not shutil.which(os.environ.get("CXX", "g++")):
        return "no C++ compiler (g++, or $CXX)"
    return None


def build(name: str, case: Any) -> Contender:
    """Return a contender; raises RuntimeError if it does not compute what ours computes.

    A case has a `problem`, and `tolerances` of the check.
    """
    entry = ENTRIES[name]
    contender = resolve_name(f"{__package__}.{entry.build}")(*case.problem())
    if entry.library != "numpy":
        check(contender, Ours(*case.problem()), f"{name} at {case}", case.tolerances)
    return contender


def check(contender: Contender, ours: Ours, where: str, tolerances: tuple[float, float]) -> None:
    """Compare a contender with ours: loss and gradients at the first weights, and the weights a few steps later.

    Both must have equal weights and batches. Raises RuntimeError, whose message begins with `where`, if they disagree.
    """
    norm, (of_gradients, of_moves) = np.linalg.norm, tolerances
    start = {name: tensor.copy() for name, tensor in ours.parameters().items()}
    (found_loss, found), (loss, grads) = contender.loss_and_gradients(), ours.loss_and_gradients()
    errors = [("loss", abs(found_loss - loss) / abs(loss), LOSS_TOLERANCE)]
    errors += [(f"gradient {name}", norm(found[name] - of) / norm(of), of_gradients) for name, of in grads.items()]

    contender.run(CHECKED_STEPS)
    ours.run(CHECKED_STEPS)
    found, later = contender.parameters(), f"after {CHECKED_STEPS} steps"
    for name, of in ours.parameters().items():
        errors.append((f"{later}: {name}", norm(found[name] - of) / norm(of - start[name]), of_moves))
    for what, error, tolerance in errors:
        if not error <= tolerance:  # nor is NaN
            raise RuntimeError(f"{where}: {what} is {error:.1e} from ours, beyond {tolerance:.0e}")
