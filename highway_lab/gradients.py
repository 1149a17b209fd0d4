"""The check of gradients: the backward pass beside derivatives by complex steps, with NumPy alone."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from highway_networks import LOSSES, Activation, Block, Config, DeepNet

Compared = Iterator[tuple[str, np.ndarray, np.ndarray]]  # names, gradients by hand, derivatives


def complex_step(f: Callable[[], Any], tensor: np.ndarray, step: float = 1e-30) -> np.ndarray:
    """Return df/dtensor as Im f(t + ih) / h, of a complex tensor: exact to rounding, as no difference is taken."""
    derivative = np.empty(tensor.shape)
    for index in np.ndindex(tensor.shape):
        kept = tensor[index]
        tensor[index] = kept + 1j * step
        derivative[index] = f().imag / step
        tensor[index] = kept
    return derivative


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest deviation in a tensor, as a share of its largest entry, or of 1 if it is all zero."""
    return float(np.abs(found - expected).max(initial=0) / (np.abs(expected).max(initial=0) or 1))


def block_gradients(block: Block, activation: Activation, D: int) -> Compared:
    """Compare those of Σ dy·y of a block: dH, dT, ... as it leaves them, by its affine maps, and dx around these."""
    G, rng = len(block.branches), np.random.default_rng(1)
    x, dy, z = (rng.uniform(-1, 1, shape) for shape in ((D, 7), (D, 7), (G, block.rows(D) // G, 7)))

    def forward() -> tuple[np.ndarray, Any]:
        block.forward(x, branches := z.copy(), y := np.empty_like(x), activation)
        return branches, (dy * y).sum()

    dz, dx = np.full_like(z, np.nan), np.full_like(x, np.nan)  # what a block does not fill is wrong
    block.backward(dy, x, forward()[0], dz, dx, activation, np.empty_like(x))
    x, z = x.astype(complex), z.astype(complex)
    derivatives = complex_step(lambda: forward()[1], z)
    yield from zip([f"d{branch}" for branch in block.branches], dz, derivatives, strict=True)
    yield "dx", dx, complex_step(lambda: forward()[1], x)


def net_gradients(net: DeepNet, loss: Callable, x: np.ndarray, *y: Any) -> Compared:
    """Compare those of a loss, in the order in which the backward pass finds them; dx_l is that of x_l."""
    exact, (outputs, cache), L = DeepNet(**net.config | {"dtype": "complex128"}, rng=None), net.forward(x), net.depth
    exact.params.flat[...] = net.params.flat
    dlogits, moved = loss(outputs, *y)[1], outputs.astype(complex)
    yield "dlogits", dlogits, complex_step(lambda: loss(moved, *y)[0], moved)
    for l, dx in zip(range(L, -1, -1), net.backward_blocks(dlogits, cache), strict=True):
        moved = cache.x[l].astype(complex)

        def loss_here(moved: np.ndarray = moved, l: int = l) -> Any:
            return loss(exact.forward_from(moved, l), *y)[0]

        for branch in net.block.branches if l < L else ["out"]:
            for name in (f"W_{branch}", f"b_{branch}"):
                gradient, tensor = (of[name][l] if l < L else of[name] for of in (cache.gradients, exact.params))
                yield f"{name} of block {l + 1}" if l < L else name, gradient, complex_step(loss_here, tensor)
        yield f"dx_{l}", dx, complex_step(loss_here, moved)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    moved = x.astype(complex)
    tensors = {"W_in": exact.params["W_in"], "b_in": exact.params["b_in"], "inputs": moved}
    for name, tensor in tensors.items():
        yield name, {**grads, "inputs": dx}[name], complex_step(lambda: loss(exact.forward(moved)[0], *y)[0], tensor)


def check_gradients(block: str = "highway", activation: str = "tanh", loss: str = "cross-entropy", L: int = 2) -> str:
    """Compare gradients with complex steps, of a block and of L in a small net, and print a line for each.

    Returns the name of the first that is wrong, "" if all are right. Functions of a block, an activation or a loss have
    to take complex numbers, of which np.abs takes no step.
    """
    Config(loss=loss)  # raises InputError if there is none of that name
    net = DeepNet(5, 3, hidden=4, depth=L, block=block, activation=activation, dtype="float64", rng=None)
    kind, rng, wrong = LOSSES[loss], np.random.default_rng(0), ""
    net.params.flat[...] = rng.uniform(-1, 1, net.params.flat.size)
    y = rng.integers(0, 3, 7) if kind.target == "classes" else rng.uniform(0, 1, (7, 3))
    of_net = net_gradients(net, kind.function, rng.uniform(-1, 1, (7, 5)), y, rng.uniform(0.5, 1.5, 7))
    print(f"relative errors: one {block} block, then {L} in a net, {activation}, float64")
    for name, gradient, derivative in chain(block_gradients(net.block, net.activation, net.hidden), of_net):
        right = (error := relative_error(gradient, derivative)) < 1e-10  # of NaN it is not
        print(f"  {name:<16} {error:.0e}{'' if right else '  wrong' if error >= 0 else '  not filled'}")
        wrong = wrong or name * (not right)
    print(f"{block}: {f'the first that is wrong is {wrong}' if wrong else 'all gradients are right'}\n")
    return wrong
