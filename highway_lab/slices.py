"""Nets in slices of a batch, side by side: what a second BLAS thread would gain, with bits that no CPU decides."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import numpy as np

from conv_highway_networks import ConvNet
from highway_networks import DeepNet, Net, Tensors

SAMPLES, IMAGES = 256, 25  # of a slice: of a dense net, and of a convolutional one, whose maps fit into the cache then
WIDE = 2**24  # multiply-adds of a dense branch's product on a batch, from which slices pay for themselves


def free_cpus() -> int:
    """Return the number of CPUs that this process may use, or its share where the environment limits threads."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = map(os.environ.get, ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"))  # joblib, Dask, a user
    return min([there, *(int(share) for share in shares if share and share.isdigit() and int(share))])


def side_by_side(threads: int, function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
    """Return function(...) of all items, as `map` does, by so many threads; each has the caller's `np.errstate`."""
    contexts = [copy_context() for _ in items[0]]  # one each: two threads cannot share one
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda context, *of: context.run(function, *of), contexts, *items))


def slices_of(net: Net, batch_size: int) -> list[slice]:
    """Return the slices in which a batch is trained on, whatever the number of CPUs.

    A narrow net takes a batch as one, and so does batch normalisation, whose statistics are those of the whole batch.
    """
    if isinstance(net, ConvNet):
        size = batch_size if net.normalised else IMAGES
    else:
        size = SAMPLES if net.config["hidden"] ** 2 * batch_size >= WIDE else batch_size
    return [slice(start, min(start + size, batch_size)) for start in range(0, batch_size, size)]


class SlicedWorkspace:
    """A workspace for each slice of a batch, and the sum of their gradients."""

    def __init__(self, rows: list[slice], parts: list[Any], rng: Any, gradients: Tensors):
        self.rows, self.parts, self.rng, self.gradients = rows, parts, rng, gradients
        self.threads = free_cpus()


class InSlices(Net):
    """A net that trains on slices of a batch; gradients are added in their order."""

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> Any:
        rows = slices_of(self, batch_size)
        if len(rows) == 1:
            return super().workspace(batch_size, rng)
        parts = [super(InSlices, self).workspace(of.stop - of.start, rng) for of in rows]
        return SlicedWorkspace(rows, parts, rng, self.new_parameters())

    def forward(self, x: np.ndarray, workspace: Any = None) -> tuple[np.ndarray, Any]:
        if not isinstance(workspace, SlicedWorkspace):
            return super().forward(x, workspace)
        for w in workspace.parts:
            if getattr(w, "dropouts", None):  # each slice draws from a generator of its own, whenever its thread does
                w.rng = np.random.default_rng(workspace.rng.integers(2**63))
        passes = super().forward
        found = side_by_side(workspace.threads, lambda rows, w: passes(x[rows], w)[0], workspace.rows, workspace.parts)
        return np.concatenate(found), workspace

    def backward(self, dlogits: np.ndarray, cache: Any, *, return_dx: bool = False) -> Any:
        if not isinstance(cache, SlicedWorkspace):
            return super().backward(dlogits, cache, return_dx=return_dx)
        passes = super().backward

        def pass_back(rows: slice, w: Any) -> Any:
            return passes(dlogits[rows], w, return_dx=return_dx)

        found = side_by_side(cache.threads, pass_back, cache.rows, cache.parts)
        first, *others = (w.gradients.flat for w in cache.parts)
        cache.gradients.flat[...] = first
        for grads in others:
            cache.gradients.flat += grads
        return (cache.gradients, np.concatenate([dx for _, dx in found])) if return_dx else cache.gradients


class SlicedNet(InSlices, DeepNet):
    """A DeepNet that trains on slices."""


class SlicedConvNet(InSlices, ConvNet):
    """A ConvNet that trains on slices, and predicts with all CPUs."""

    def predict(self, x: np.ndarray, rows: int = IMAGES) -> np.ndarray:
        threads = free_cpus()
        share = rows * max(math.ceil(len(x) / rows / threads), 1)
        return np.concatenate(
            side_by_side(threads, super().predict, [x[i : i + share] for i in range(0, len(x) or 1, share)])
        )


def in_slices(net: Any) -> Any:
    """Return a net with the same parameters that trains in slices."""
    sliced = (SlicedConvNet if isinstance(net, ConvNet) else SlicedNet)(**net.config, rng=None)
    sliced.params, sliced.buffers, sliced.classes = net.params, net.buffers, net.classes
    return sliced
