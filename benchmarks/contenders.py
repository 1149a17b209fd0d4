"""The contenders: one training step (forward, loss, backward, clip, Adam) of the same net, by different hands.

A contender is built from a net, a batch x, y and the norm to clip to, and has
    run(steps)               so many training steps, done when it returns
    loss_and_gradients()     the mean loss and the clipped gradients at its weights, in our form
    parameters()             its weights, likewise
The floor, which does a step's matrix products and nothing else, has `run` alone.
"""

import importlib
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import highway_networks as hn
from highway_networks import CLASSES, DeepNet, Parameters

D_IN = 784
CLIP = 5.0
GATE_BIAS = -4.0  # gradients reach the first of 1,000 layers; at −2 denormal numbers would be timed, which are slow
LR = 1e-3
CHECKED_STEPS = 3
TOLERANCE = 1e-4  # of the loss, and of each gradient's norm
MOVE_TOLERANCE = 1e-3  # of the distance each tensor has moved: rounding makes 1e-4 of it, one decimal of a β more

Contender = Any  # what the first lines describe


@dataclass(frozen=True)
class Case:
    """The size of a step: L blocks of D units, B images."""

    depth: int
    width: int = 50
    batch: int = 128

    def __str__(self) -> str:
        unusual = (self.width, self.batch) != (Case.width, Case.batch)
        return f"depth {self.depth:,}" + f", width {self.width}, batch {self.batch:,}" * unusual


class Ours:
    """This project."""

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        self.net, self.x, self.y, self.clip = net, x, y, clip
        self.optimizer = hn.Adam(net.params, LR)
        self.loss, self.workspace = hn.LOSSES["cross-entropy"], hn.Workspace(net, len(x))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            hn.train_step(self.net, self.loss, self.optimizer, self.x, self.y, self.clip, self.workspace)

    def passes(self) -> Iterator[str]:
        """The same step in its parts, layer by layer as `train_step` takes it; yields a part's name when it is done."""
        net, w, p, grads = self.net, self.workspace, self.net.params, self.workspace.gradients
        w.input[:, :-1] = self.x
        net._input_layer(w.input.T, w.x[0])
        yield "input: copy, layer"
        for l in range(net.depth):
            hn.affine_forward(p.blocks[l], w.x1[l], w.z[l])
            yield "blocks forward: products"
            net.block.forward(w.x[l], w.branches[l], w.x[l + 1], net.activation)
            yield "blocks forward: elementwise"
        _, dlogits = self.loss.function(net._output_layer(w.x1[-1]), self.y)
        (dy, dx, scratch), dbranches = w.flows, w.dz.reshape(w.branches.shape[1:])
        hn.affine_backward(dlogits.T, w.x1[-1], p.output, grads.output, dy)
        yield "output: layer, loss, backward"
        for l in reversed(range(net.depth)):
            net.block.backward(dy, w.x[l], w.branches[l], dbranches, dx, net.activation, scratch)
            yield "blocks backward: elementwise"
            hn.affine_backward(w.dz, w.x1[l], p.blocks[l], grads.blocks[l], scratch)
            yield "blocks backward: products"
            dx += scratch
            dy, dx = dx, dy
            yield "blocks backward: elementwise"
        net.activation.backward(dy, w.x[0], scratch)
        hn.affine_backward(dy, w.input.T, p.input, grads.input, None)
        yield "input: backward"
        hn.clip_global_norm(grads, self.clip)
        yield "clip"
        self.optimizer.step(grads)
        yield "Adam"

    def loss_and_gradients(self) -> tuple[float, Parameters]:
        logits, cache = self.net.forward(self.x, self.workspace)
        loss, dlogits = self.loss.function(logits, self.y)
        grads = self.net.backward(dlogits, cache)
        hn.clip_global_norm(grads, self.clip)
        return float(loss), grads

    def parameters(self) -> Parameters:
        return self.net.params


class Floor:
    """The matrix products of a step, each as our engine does it, in memory that is allocated before.

    `products` lists (a, b, out) for out = a @ b, in the step's order.
    """

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        w, p, grads = hn.Workspace(net, len(x)), net.params, net.new_parameters()
        net.forward(x, w)
        dz, dx, dlogits = w.dz, w.flows[0], np.ones((CLASSES, len(x)), np.float32)
        dz[...], dx[...] = 1, 1
        blocks = list(zip(p.blocks, w.x1[:-1], w.z, grads.blocks, strict=True))
        self.products = [(p.input, w.input.T, w.x[0])]
        self.products += [(W, x_l, z) for W, x_l, z, _ in blocks]
        self.products += [(p.output, w.x1[-1], dlogits)]
        self.products += [(dlogits, w.x1[-1].T, grads.output), (p["W_out"].T, dlogits, dx)]
        for W, x_l, _, dW in reversed(blocks):
            self.products += [(dz, x_l.T, dW), (W[:, :-1].T, dz, dx)]
        self.products += [(dx, w.input, grads.input)]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for a, b, out in self.products:
                np.matmul(a, b, out=out)


class Entry(NamedTuple):
    """A line of the table: how pictures and tables call it, the library it needs, and the class that does it.

    kernels: those that OpenBLAS is told to take, instead of choosing for the processor.
    """

    label: str
    library: str
    build: str
    compiles: bool = False
    kernels: str | None = None


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


def why_missing(name: str) -> str | None:
    """What a contender lacks on this machine; None if it can run."""
    entry = CONTENDERS[name]
    if importlib.util.find_spec(entry.library) is None:
        return f"{entry.library} is not installed (extra `bench`)"
    if entry.compiles and not shutil.which(os.environ.get("CXX", "g++")):
        return "no C++ compiler (g++, or $CXX)"
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("openblas configuration", "")
    if entry.kernels and not ("DYNAMIC_ARCH" in blas and platform.machine() in ("x86_64", "AMD64")):
        return f"no choice of kernels: {entry.kernels}'s are in OpenBLAS for x86 with DYNAMIC_ARCH"
    return None


def problem(case: Case, clip: float = CLIP) -> tuple[DeepNet, np.ndarray, np.ndarray, float]:
    """What a contender is built from: a net, a batch x (B, d_in) and y (B,), and the norm; the same at every call."""
    rng = np.random.default_rng(0)
    net = DeepNet(D_IN, CLASSES, hidden=case.width, depth=case.depth, gate_bias=GATE_BIAS, rng=rng)
    x = rng.uniform(-1, 1, (case.batch, D_IN)).astype(np.float32)
    return net, x, rng.integers(0, CLASSES, case.batch), clip


def build(name: str, case: Case, clip: float = CLIP) -> Contender:
    """The contender of that name; raises RuntimeError if it does not compute what ours computes."""
    module, kind = CONTENDERS[name].build.split(".")
    contender = getattr(importlib.import_module(f"{__package__}.{module}"), kind)(*problem(case, clip))
    if module != "contenders":
        check(contender, Ours(*problem(case, clip)), f"{name} at {case}")
    return contender


def check(contender: Contender, ours: Ours, where: str) -> None:
    """Compare a contender with ours: loss and gradients at the first weights, and the weights a few steps later.

    Both must hold equal weights and batches. Raises RuntimeError, which says `where`, if they disagree.
    """
    norm, start = np.linalg.norm, {name: tensor.copy() for name, tensor in ours.parameters().items()}
    (found_loss, found), (loss, grads) = contender.loss_and_gradients(), ours.loss_and_gradients()
    require(abs(found_loss - loss) / abs(loss), TOLERANCE, f"{where}: loss")
    for name, grad in grads.items():
        require(norm(found[name] - grad) / norm(grad), TOLERANCE, f"{where}: gradient {name}")

    contender.run(CHECKED_STEPS)
    ours.run(CHECKED_STEPS)
    found, where = contender.parameters(), f"{where} after {CHECKED_STEPS} steps"
    for name, tensor in ours.parameters().items():
        require(norm(found[name] - tensor) / norm(tensor - start[name]), MOVE_TOLERANCE, f"{where}: {name}")


def require(error: float, tolerance: float, what: str) -> None:
    """Raise RuntimeError if the error is above the tolerance, or not a number."""
    if not error <= tolerance:
        raise RuntimeError(f"{what} is {error:.1e} from ours, beyond {tolerance:.0e}")
