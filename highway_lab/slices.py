"""Wide nets in slices of a batch, side by side: what a second BLAS thread would gain, with bits that no CPU decides."""

from typing import Any

import numpy as np

from conv_highway_networks import free_cpus, run_side_by_side
from highway_networks import DeepNet, Parameters, Workspace

SLICE = 256  # samples
WIDE = 2**24  # multiply-adds of a branch's product on a batch, from which slices pay for themselves


def slices_of(hidden: int, batch_size: int) -> list[slice]:
    """Return the slices in which a batch is trained on: one for a narrow net, whatever the number of CPUs."""
    size = SLICE if hidden**2 * batch_size >= WIDE else batch_size
    return [slice(start, min(start + size, batch_size)) for start in range(0, batch_size, size)]


class SlicedWorkspace:
    """A workspace for each slice of a batch, and the sum of their gradients."""

    def __init__(self, net: DeepNet, rows: list[slice]):
        self.rows = rows
        self.parts = [Workspace(net, of.stop - of.start) for of in rows]
        self.gradients: Parameters = net.new_parameters()
        self.threads = min(free_cpus(), len(rows))


class SlicedNet(DeepNet):
    """A DeepNet that trains on slices of a batch; gradients are added in their order."""

    def workspace(self, batch_size: int, rng: np.random.Generator | None = None) -> Any:
        rows = slices_of(self.hidden, batch_size)
        return SlicedWorkspace(self, rows) if len(rows) > 1 else super().workspace(batch_size)

    def forward(self, x: np.ndarray, workspace: Any = None) -> tuple[np.ndarray, Any]:
        if not isinstance(workspace, SlicedWorkspace):
            return super().forward(x, workspace)
        passes = super().forward
        found = run_side_by_side(
            workspace.threads, lambda rows, w: passes(x[rows], w)[0], workspace.rows, workspace.parts
        )
        return np.concatenate(found), workspace

    def backward(self, dlogits: np.ndarray, cache: Any, *, return_dx: bool = False) -> Any:
        if not isinstance(cache, SlicedWorkspace):
            return super().backward(dlogits, cache, return_dx=return_dx)

        passes = super().backward

        def pass_back(rows: slice, w: Workspace) -> Any:
            return passes(dlogits[rows], w, return_dx=return_dx)

        found = run_side_by_side(cache.threads, pass_back, cache.rows, cache.parts)
        first, *others = (w.gradients.flat for w in cache.parts)
        cache.gradients.flat[...] = first
        for grads in others:
            cache.gradients.flat += grads
        return (cache.gradients, np.concatenate([dx for _, dx in found])) if return_dx else cache.gradients


def in_slices(net: DeepNet) -> SlicedNet:
    """Return a net with the same parameters that trains in slices."""
    sliced = SlicedNet(**net.config, rng=None)
    sliced.params = net.params
    return sliced
