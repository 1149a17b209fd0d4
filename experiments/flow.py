"""How gradients, and small changes of an input, pass through the blocks of a net."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from highway_lab.logs import rounded_all
from highway_networks import Dataset, DeepNet, Workspace, rounded, softmax_cross_entropy

FLOW_BATCH = 256  # images over which norms of gradients are taken


@dataclass
class Flow:
    """Norms of dL/dx_l, l = 0..L, and singular values of a Jacobian."""

    gradient_norms: list[float | None]
    singular_values: list[float | None]


@dataclass
class Paths:
    """Norms of dL/dx_0 over that of dL/dx_L: all, its part on the direct path alone, and the rest, which met H or T.

    Where there are no gates, all is the rest, and null in its place.
    """

    all: float
    direct: float | None
    through: float | None


def measure_paths(net: DeepNet, data: Dataset) -> Paths:
    """Measure over the first training samples on which paths the gradient reaches the first block's input."""
    cache, gradients = block_gradients(net, net.preprocess(data.train_x[:FLOW_BATCH]), data.train_y[:FLOW_BATCH])
    last, first = gradients[0], gradients[-1]
    parts = [first]
    if net.has_gates:
        direct = last * np.prod(1.0 - cache.T, axis=0)
        parts += [direct, first - direct]
    shares = [rounded(np.linalg.norm(part) / np.linalg.norm(last), digits=4) for part in parts]
    return Paths(*shares, *[None] * (3 - len(shares)))


def block_gradients(net: DeepNet, x: np.ndarray, y: np.ndarray) -> tuple[Workspace, list[np.ndarray]]:
    """Return the cache and dL/dx_l (D, B) of a batch x (B, d_in), y (B,), of the last output and each block's input.

    In float64: the square of a gradient may be too small for float32 where the gradient is not.
    """
    logits, cache = net.forward(x)
    _, dlogits = softmax_cross_entropy(logits, y)
    return cache, [dx.astype(np.float64) for dx in net.backward_blocks(dlogits, cache)]


def jacobian(net: DeepNet, x_l: np.ndarray, l: int) -> np.ndarray:
    """Return dy/dx (D, D) of block l at one input x_l (D,); row i holds dy_i/dx (compare eq. 5).

    A batch of D copies of x_l, each with a unit vector as dy, gives all rows in one backward pass, as columns.
    """
    x, W = np.tile(x_l[:, None], net.hidden), net.params.blocks[l]
    z, _ = next(net.iterate_blocks(x, l))
    dz, (dx, scratch) = np.empty_like(z), np.empty((2, *x.shape), x.dtype)
    net.block.backward(np.eye(net.hidden, dtype=net.dtype), x, z, dz, dx, net.activation, scratch)
    return (dx + W[:, :-1].T @ dz.reshape(len(W), -1)).T


def measure_flow(net: DeepNet, data: Dataset, blocks: Iterable[int]) -> Flow:
    """Measure gradients over the first training samples, and the Jacobian of some blocks in a row at the first."""
    cache, gradients = block_gradients(net, net.preprocess(data.train_x[:FLOW_BATCH]), data.train_y[:FLOW_BATCH])
    norms = [np.linalg.norm(dx) for dx in reversed(gradients)]
    J = np.eye(net.hidden)
    for l in blocks:
        J = jacobian(net, cache.x[l, :, 0], l) @ J
    values = np.linalg.svd(J, compute_uv=False) if np.isfinite(J).all() else np.full(net.hidden, np.nan)
    return Flow(rounded_all(norms, digits=4), rounded_all(values, digits=4))
