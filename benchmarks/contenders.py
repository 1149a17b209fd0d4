"""The contenders: one training step (forward, loss, backward, clip, Adam) of the same net, by different hands.

A contender is built from a case's problem: a net, a batch x, y and how to train; here, the norm to clip to. It has
    run(steps)               so many training steps, done when it returns
    loss_and_gradients()     the mean loss and the clipped gradients at its weights, in our form
    parameters()             its weights, likewise
and ours
    seconds_by_pass(steps)   the time that each part of so many steps takes, by its name
The floor, which does a step's matrix products and nothing else, has `run` alone.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

import highway_networks as hn
from highway_networks import CLASSES, DeepNet, Parameters

D_IN = 784
CLIP = 5.0
GATE_BIAS = -4.0  # gradients reach the first of 1,000 layers; at −2 denormal numbers would be timed, which are slow
LR = 1e-3
CHECKED_STEPS = 3
TOLERANCE = 1e-4  # of the loss
TOLERANCES = (
    TOLERANCE,  # of each gradient's norm
    1e-3,  # of the distance each tensor has moved: rounding makes 1e-4 of it, one decimal of a β more
)

Contender = Any  # what the first lines describe


@dataclass(frozen=True)
class Case:
    """The size of a step: L blocks of D units, B images."""

    depth: int
    width: int = 50
    batch: int = 128

    tolerances: ClassVar = TOLERANCES

    def __str__(self) -> str:
        unusual = (self.width, self.batch) != (Case.width, Case.batch)
        return f"depth {self.depth:,}" + f", width {self.width}, batch {self.batch:,}" * unusual

    def problem(self, clip: float = CLIP) -> tuple[DeepNet, np.ndarray, np.ndarray, float]:
        """A net, a batch x (B, d_in) and y (B,), and the norm; the same at every call."""
        rng = np.random.default_rng(0)
        net = DeepNet(D_IN, CLASSES, hidden=self.width, depth=self.depth, gate_bias=GATE_BIAS, rng=rng)
        x = rng.uniform(-1, 1, (self.batch, D_IN)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), clip

    def ours(self, clip: float = CLIP) -> "Ours":
        """What every other contender is compared with."""
        return Ours(*self.problem(clip))


class Ours:
    """This project."""

    weight_decay = 0.0

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        self.net, self.x, self.y, self.clip = net, x, y, clip
        self.optimizer = hn.Adam(net.params, LR)
        self.loss, self.workspace = hn.LOSSES["cross-entropy"], hn.Workspace(net, len(x))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.net, self.loss, self.optimizer, self.x, self.y, self.clip, self.workspace
            hn.train_step(*step, weight_decay=self.weight_decay)

    def seconds_by_pass(self, steps: int) -> Counter[str]:
        seconds, last = Counter(), time.perf_counter()
        for _ in range(steps):
            for name in self.passes():
                now = time.perf_counter()
                seconds[name] += now - last
                last = now
        return seconds

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

    build: a module of this package and a class in it. kernels: those that OpenBLAS is told to take, instead of choosing
    for the processor.
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
CONV_CONTENDERS = {
    "ours-conv": Entry("this project", "numpy", "conv_contenders.Ours"),
    "torch-conv": Entry("PyTorch, default layout", "torch", "torch_conv_peers.Eager"),
    "torch-conv-last": Entry("PyTorch, channels last", "torch", "torch_conv_peers.ChannelsLast"),
    "torch-conv-compiled": Entry("PyTorch, compiled", "torch", "torch_conv_peers.Compiled", compiles=True),
}
ENTRIES = CONTENDERS | CONV_CONTENDERS


def who_can_run(contenders: Collection[str], only: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """The first, which is ours, and those of the others that are asked for and can run; what each that cannot lacks."""
    ours, *_ = contenders
    names = [name for name in contenders if name in {ours, *only}]
    missing = {name: reason for name in names if (reason := why_missing(name))}
    for name, reason in missing.items():
        print(f"MISSING {ENTRIES[name].label}: {reason}")
    return [name for name in names if name not in missing], missing


def versions(names: Collection[str]) -> dict[str, str]:
    """Those of the libraries that these contenders need."""
    libraries = sorted({ENTRIES[name].library for name in names})
    return {library: importlib.metadata.version(library) for library in libraries}


def why_missing(name: str) -> str | None:
    """What a contender lacks on this machine; None if it can run."""
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
    """The contender of that name; raises RuntimeError if it does not compute what ours computes.

    A case has `problem` and `ours`, which take `how`, and `tolerances`.
    """
    entry = ENTRIES[name]
    module, kind = entry.build.split(".")
    contender = getattr(importlib.import_module(f"{__package__}.{module}"), kind)(*case.problem(*how))
    if entry.library != "numpy":
        check(contender, case.ours(*how), f"{name} at {case}", *case.tolerances)
    return contender


def check(
    contender: Contender, ours: Ours, where: str, of_gradients: float = TOLERANCES[0], of_moves: float = TOLERANCES[1]
) -> None:
    """Compare a contender with ours: loss and gradients at the first weights, and the weights a few steps later.

    Both must hold equal weights and batches. Raises RuntimeError, which says `where`, if they disagree.
    """
    norm, start = np.linalg.norm, {name: tensor.copy() for name, tensor in ours.parameters().items()}
    (found_loss, found), (loss, grads) = contender.loss_and_gradients(), ours.loss_and_gradients()
    require(abs(found_loss - loss) / abs(loss), TOLERANCE, f"{where}: loss")
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
