"""More kinds of block: residual ones whose branch is scaled by depth, gated or by ReZero's number, an LSTM's.

Importing this module makes them known to the nets, as any file of a user's may: `residual-gated`, `lstm`,
`residual-scaled` (p = 1) and `rezero` (s = 1). `numbered` adds those of other p and s, such as `rezero-10`.
"""

import re
from contextlib import suppress
from functools import partial

import numpy as np

from highway_networks import BLOCKS, Block, InputError, sigmoid_backward, sigmoid_forward, tanh_backward


def residual_scaled_forward(x, z, y, activation, scale):
    (H,) = z
    activation.forward(H)  # H = act(W_H x + b_H)
    np.multiply(scale, H, out=y)
    y += x  # y = s·H + x    (s = L^−p)


def residual_scaled_backward(dy, x, z, dz, dx, activation, scratch, scale):
    (H,), (dH,) = z, dz
    np.multiply(scale, dy, out=dH)  # dH = s·dy
    dx[...] = dy  # dx = dy
    activation.backward(dH, H, scratch)


def residual_gated_forward(x, z, y, activation):
    H, T = z
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid_forward(T)  # T = σ(W_T x + b_T)
    np.multiply(H, T, out=y)
    y += x  # y = H·T + x: the gate of a highway block, but a carry path that nothing closes


def residual_gated_backward(dy, x, z, dz, dx, activation, scratch):
    (H, T), (dH, dT) = z, dz
    np.multiply(T, dy, out=dH)  # dH = T·dy
    np.multiply(H, dy, out=dT)  # dT = H·dy
    dx[...] = dy  # dx = dy
    sigmoid_backward(dT, T, scratch)
    activation.backward(dH, H, scratch)


def rezero_forward(x, z, y, activation, s):
    H, A = z
    activation.forward(H)  # H = act(W_H x + b_H)
    np.multiply(A, H, out=y)
    y *= s
    y += x  # y = s·A·H + x    (Bachlechner et al. 2021, where W_A stays 0: A = b_A)


def rezero_backward(dy, x, z, dz, dx, activation, scratch, s):
    (H, A), (dH, dA) = z, dz
    np.multiply(s, dy, out=dx)
    np.multiply(A, dx, out=dH)  # dH = s·A·dy
    np.multiply(H, dx, out=dA)  # dA = s·H·dy
    dx[...] = dy  # dx = dy
    activation.backward(dH, H, scratch)


def lstm_forward(x, z, y, activation):
    (H, I, F, O), (c, _), (c_y, h_y) = z, np.split(x, 2), np.split(y, 2)  # cell and output, of x and of y
    activation.forward(H)  # H = act(W_H x + b_H)
    for gate in (I, F, O):
        sigmoid_forward(gate)  # I = σ(W_I x + b_I), ...
    np.multiply(I, H, out=c_y)
    c_y += F * c  # c' = I·H + F·c    (Gers et al. 2000, along depth)
    np.tanh(c_y, out=h_y)
    h_y *= O  # h' = O·tanh c'


def lstm_backward(dy, x, z, dz, dx, activation, scratch):
    (H, I, F, O), (dH, dI, dF, dO), (c, _) = z, dz, np.split(x, 2)
    (dc_y, dh_y), (dc, dh), (a, scratch) = (np.split(both, 2) for both in (dy, dx, scratch))
    np.multiply(I, H, out=a)
    a += F * c
    np.tanh(a, out=a)  # a = tanh c', once more
    np.multiply(a, dh_y, out=dO)  # dO = tanh c'·dh'
    dc_whole = O * dh_y
    tanh_backward(dc_whole, a, scratch)
    dc_whole += dc_y  # dc' by way of h', and along the cells
    np.multiply(c, dc_whole, out=dF)  # dF = c·dc'
    np.multiply(H, dc_whole, out=dI)  # dI = H·dc'
    np.multiply(I, dc_whole, out=dH)  # dH = I·dc'
    np.multiply(F, dc_whole, out=dc)  # dc = F·dc'
    dh[...] = 0  # no path around the affine maps
    for dgate, gate in ((dO, O), (dF, F), (dI, I)):
        sigmoid_backward(dgate, gate, scratch)
    activation.backward(dH, H, scratch)


class ScaledBlock(Block):
    """A block whose functions take a `scale`: a power of the net's depth."""

    p = 1.0

    def for_depth(self, depth: int) -> Block:
        """Return this block for a net of `depth` blocks."""
        scale = 1 / max(depth, 1) ** self.p
        return Block(self.branches, partial(self.forward, scale=scale), partial(self.backward, scale=scale))


class LSTMBlock(Block):
    """A block whose x and y are cell and output, one above the other, with half of the units each."""

    def rows(self, D: int) -> int:
        """Return the rows of z, given the rows D of x; raises InputError if D is odd."""
        if D % 2:
            raise InputError(f"hidden: expected a multiple of 2 units for lstm blocks, found {D}; choose another")
        return super().rows(D) // 2


BLOCKS["residual-gated"] = Block("HT", residual_gated_forward, residual_gated_backward)
BLOCKS["lstm"] = LSTMBlock("HIFO", lstm_forward, lstm_backward, {"I": 1, "F": -1})


# ----------------------------------------------------------------------------- blocks that have a number
# Their name ends with it, unless it is 1, and is all that a log or another process needs to make them.


def scaled_block(p: float) -> Block:
    block = ScaledBlock("H", residual_scaled_forward, residual_scaled_backward)
    block.p = p
    return block


def rezero_block(s: float) -> Block:
    return Block("HA", partial(rezero_forward, s=s), partial(rezero_backward, s=s))


NUMBERED = {"residual-scaled": scaled_block, "rezero": rezero_block}


def numbered(kind: str, number: float) -> str:
    """Return the name of a block of one of NUMBERED, which the nets know from now on; its number has six digits."""
    digits = f"{number:g}"
    name = kind + f"-{digits}" * (digits != "1")
    if name not in BLOCKS:
        BLOCKS[name] = NUMBERED[kind](float(digits))
    return name


def scaled_fields(p: float, **others: float) -> dict:
    """Return the fields of a configuration whose blocks are scaled by L^−p, beside others."""
    return {**others, "block": numbered("residual-scaled", p)}


def rezero_fields(s: float, **others: float) -> dict:
    """Return the fields of a configuration whose blocks are ReZero's with a factor s, beside others."""
    return {**others, "block": numbered("rezero", s)}


def number_of(name: str) -> tuple[str, float] | None:
    """Return kind and number of a block that has one; None for any other name."""
    for kind in NUMBERED:
        if found := re.fullmatch(rf"{kind}(?:-(-?\d[\d.e+-]*))?", name):
            with suppress(ValueError):  # of what only looks like a number
                return kind, float(found[1] or 1)
    return None


def make_known(name: str) -> None:
    """Let the nets know a block that has a number, by its name; do nothing for any other."""
    if found := number_of(name):
        numbered(*found)


for kind in NUMBERED:
    numbered(kind, 1)
