"""The contenders: programs that each do the same training step of a dense net, this project's and those of others.

A step is forward, loss, backward, clip and Adam. A contender is built from a case's problem: a net, a batch x, y and
how to train, which for a dense net is the norm to clip to. It has
    run(steps)               does training steps, and returns when they are done
    loss_and_gradients()     the mean loss and the clipped gradients at its weights, as tensors of our net
    parameters()             its weights, as tensors of our net
and ours
    seconds_by_pass(steps)   the time of each part of the step, by its name
The floor, which does a step's matrix products and nothing else, has `run` alone.
"""

import importlib
import importlib.util
import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import numpy as np

import highway_networks as hn
from highway_lab.datasets import CLASSES
from highway_networks import LOSSES, DeepNet, Parameters

D_IN = 784
CLIP = 5.0
GATE_BIAS = -4.0  # gradients reach the first of 1,000 layers; from -2 they would be denormal numbers, which are slow
LR = 1e-3
CHECKED_STEPS = 3
LOSS_TOLERANCE = 1e-4
TOLERANCES = (
    1e-4,  # of each gradient's norm
    1e-3,  # of the distance each tensor has moved: rounding makes 1e-4 of it, one decimal of a β more
)
UPDATE_PASSES = (  # owner and name of a function that is timed, the part of the step that it is, its direction
    (hn, "clip_global_norm", "norm", "update"),
    (hn, "decay_weights", "weight decay", "update"),
    (hn.Adam, "step", "Adam", "update"),
    (hn.Momentum, "step", "momentum", "update"),
)

Contender = Any  # the first lines describe it


@dataclass(frozen=True)
class Case:
    """The size of a step: L blocks of D units, B images."""

    depth: int
    width: int = 50
    batch: int = 128

    tolerances: ClassVar = TOLERANCES

    def __str__(self) -> str:
        unusual = (self.width, self.batch) != (Case.width, Case.batch)
        return f"{self.depth:,} blocks" + f", width {self.width}, batch {self.batch:,}" * unusual

    def problem(self, clip: float = CLIP) -> tuple[DeepNet, np.ndarray, np.ndarray, float]:
        """Return a net, a batch x (B, d_in) and y (B,), and the norm to clip to: the same at every call."""
        rng = np.random.default_rng(0)
        net = DeepNet(D_IN, CLASSES, hidden=self.width, depth=self.depth, gate_bias=GATE_BIAS, rng=rng)
        x = rng.uniform(-1, 1, (self.batch, D_IN)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), clip

    def ours(self, clip: float = CLIP) -> "Ours":
        """Return our contender, with which every other is compared."""
        return Ours(*self.problem(clip))


class Stopwatch:
    """The time of functions, without that of the timed functions that they call."""

    def __init__(self):
        self.seconds, self.place, self.since = Counter(), None, 0.0

    def timed(self, function: Callable, part: str, direction: str = "") -> Callable:
        """Return the function, its time counted for a part of the step; the direction is its caller's by default."""

        def run(*arguments, **named):
            outer = self.place
            self._move((direction or outer[0], part))
            try:
                return function(*arguments, **named)
            finally:
                self._move(outer)

        return run

    def _move(self, place: tuple[str, str] | None) -> None:
        now = time.perf_counter()
        if self.place:
            self.seconds[": ".join(self.place)] += now - self.since
        self.place, self.since = place, now


class Ours:
    """This project's training step."""

    passes = (  # as in UPDATE_PASSES; a function without a direction has its caller's
        (DeepNet, "forward", "the rest", "forward"),
        (hn, "affine_forward", "products"),
        (DeepNet, "backward", "the rest", "backward"),
        (hn, "affine_backward", "products"),
        *UPDATE_PASSES,
    )

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        self.net, self.x, self.y, self.clip, self.weight_decay = net, x, y, clip, 0.0
        self.optimizer = hn.Adam(net.params, LR)
        self.loss, self.workspace = LOSSES["cross-entropy"], hn.Workspace(net, len(x))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.x, self.y, self.workspace, self.loss, self.optimizer
            self.net.train_step(*step, clip=self.clip, weight_decay=self.weight_decay)

    def layers_of_blocks(self) -> Sequence[Any]:
        """Return the objects whose attribute `block` computes blocks."""
        return [self.net]

    def seconds_by_pass(self, steps: int) -> Counter[str]:
        """Run steps whose functions are timed wherever they are called; return the seconds of each part."""
        watch = Stopwatch()
        with ExitStack() as patches:
            for owner, name, *place in self.passes:
                patches.enter_context(patch.object(owner, name, watch.timed(getattr(owner, name), *place)))
            for layer in self.layers_of_blocks():
                passes = (watch.timed(f, "elementwise") for f in (layer.block.forward, layer.block.backward))
                block = layer.block._replace(**dict(zip(("forward", "backward"), passes, strict=True)))
                patches.enter_context(patch.object(layer, "block", block))
            loss = self.loss._replace(function=watch.timed(self.loss.function, "loss", "output"))
            patches.enter_context(patch.object(self, "loss", loss))
            watch.timed(self.run, "the rest", "step")(steps)
        return watch.seconds

    def loss_and_gradients(self) -> tuple[float, Parameters]:
        logits, cache = self.net.forward(self.x, self.workspace)
        loss, dlogits = self.loss.function(logits, self.y)
        grads = self.net.backward(dlogits, cache)
        hn.clip_global_norm(grads, self.clip)
        return float(loss), grads

    def parameters(self) -> Parameters:
        return self.net.params


class Floor:
    """The matrix products of our step, (a, b, out) for out = a @ b, recorded while it runs once; no other work."""

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        ours, matmul, self.products = Ours(net, x, y, clip), np.matmul, []

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
    kernels: str | None = None  # which OpenBLAS takes, instead of choosing for the processor


CONTENDERS = {
    "ours": Entry("this project", "numpy", "contenders.Ours"),
    "ours-avx2": Entry("this project, AVX2 kernels", "numpy", "contenders.Ours", kernels="Haswell"),
    "floor": Entry("products alone", "numpy", "contenders.Floor"),
    "torch-eager": Entry("PyTorch, eager", "torch", "torch_peers.Eager"),
    "torch-fused": Entry("PyTorch, fused", "torch", "torch_peers.Fused"),
    "torch-compiled": Entry("PyTorch, compiled", "torch", "torch_peers.Compiled", compiles=True),
    "jax-scanned": Entry("JAX, scanned", "jax", "jax_peers.Scanned"),
    "jax-unrolled": Entry("JAX, unrolled", "jax", "jax_peers.Unrolled"),
}
CONV_CONTENDERS = {
    "ours-conv": Entry("this project", "numpy", "conv_contenders.Ours"),
    "torch-conv": Entry("PyTorch, default layout", "torch", "torch_conv_peers.Eager"),
    "torch-conv-last": Entry("PyTorch, channels last", "torch", "torch_conv_peers.ChannelsLast"),
    "torch-conv-compiled": Entry("PyTorch, compiled", "torch", "torch_conv_peers.Compiled", compiles=True),
}
ENTRIES = CONTENDERS | CONV_CONTENDERS


def why_missing(name: str) -> str | None:
    """Return a contender's missing requirement on this machine; None if it can run."""
    entry = ENTRIES[name]
    if importlib.util.find_spec(entry.library) is None:
        return f"{entry.library} is not installed (extra `bench`)"
    if entry.compiles and not shutil.which(os.environ.get("CXX", "g++")):
        return "no C++ compiler (g++, or $CXX)"
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("openblas configuration", "")
    if entry.kernels and not ("DYNAMIC_ARCH" in blas and platform.machine() in ("x86_64", "AMD64")):
        return f"no choice of kernels: {entry.kernels}'s are in OpenBLAS for x86 with DYNAMIC_ARCH"
    return None


def build(name: str, case: Any, *how: Any) -> Contender:
    """Return a contender; raises RuntimeError if it does not compute what ours computes.

    A case has `problem` and `ours`, which take `how`, and `tolerances`.
    """
    entry = ENTRIES[name]
    module, kind = entry.build.split(".")
    contender = getattr(importlib.import_module(f"{__package__}.{module}"), kind)(*case.problem(*how))
    if entry.library != "numpy":
        check(contender, case.ours(*how), f"{name} at {case}", case.tolerances)
    return contender


def check(contender: Contender, ours: Ours, where: str, tolerances: tuple[float, float] = TOLERANCES) -> None:
    """Compare a contender with ours: loss and gradients at the first weights, and the weights a few steps later.

    Both must have equal weights and batches. Raises RuntimeError, whose message begins with `where`, if they disagree.
    """
    norm, (of_gradients, of_moves) = np.linalg.norm, tolerances
    start = {name: tensor.copy() for name, tensor in ours.parameters().items()}
    (found_loss, found), (loss, grads) = contender.loss_and_gradients(), ours.loss_and_gradients()
    require(abs(found_loss - loss) / abs(loss), LOSS_TOLERANCE, f"{where}: loss")
    for name, grad in grads.items():
        require(norm(found[name] - grad) / norm(grad), of_gradients, f"{where}: gradient {name}")

    contender.run(CHECKED_STEPS)
    ours.run(CHECKED_STEPS)
    found, where = contender.parameters(), f"{where} after {CHECKED_STEPS} steps"
    for name, tensor in ours.parameters().items():
        require(norm(found[name] - tensor) / norm(tensor - start[name]), of_moves, f"{where}: {name}")


def require(error: float, tolerance: float, what: str) -> None:
    """Raise RuntimeError if the error is above the tolerance, or not a number."""
    if not error <= tolerance:
        raise RuntimeError(f"{what} is {error:.1e} from ours, beyond {tolerance:.0e}")
