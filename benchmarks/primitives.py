"""Time the elementwise NumPy functions of a pass beside their alternatives: which one is fastest decides the code.

    python -m benchmarks primitives --json benchmarks/primitives.json

Each works on 16 maps of 3,400 pixels in float32, as a convolutional net has them. They take turns, round by round.
"""

import argparse
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from highway_lab.fields import COUNT, Count, rule
from highway_lab.logs import Log
from highway_networks import rounded

from .measures import Spread, new_parser, run, spread

SHAPE = 16, 3_400
REPEATS = 20
ROUNDS = 200

rng = np.random.default_rng(0)
z, dH = rng.normal(size=(2, *SHAPE)).astype(np.float32)
H, e, out, zeros = np.maximum(z, 0), np.exp(z), np.empty_like(z), np.zeros_like(z)


def multiply_by_mask_as_numbers() -> None:
    out[...] = H > 0
    np.multiply(dH, out, out=out)


def multiply_by_sign() -> None:
    np.sign(H, out=out)
    np.multiply(dH, out, out=out)


# By purpose: how many arrays are read or written, and the ways; the first is the code's.
PRIMITIVES: dict[str, tuple[int, dict[str, Callable[[], object]]]] = {
    "H = max(z, 0)": (
        2,
        {
            "clip(z, 0, inf)": lambda: np.clip(z, 0, np.inf, out=out),
            "maximum(z, 0)": lambda: np.maximum(z, 0, out=out),
            "maximum(z, array of zeros)": lambda: np.maximum(z, zeros, out=out),
        },
    ),
    "dz = dH where H > 0": (
        3,
        {
            "multiply by H > 0 as numbers": multiply_by_mask_as_numbers,
            "multiply by sign(H)": multiply_by_sign,
            "multiply by H > 0": lambda: np.multiply(dH, H > 0, out=out),
        },
    ),
    "T = 1 / (1 + e^−z)": (
        2,
        {"divide(1, x)": lambda: np.divide(1, e, out=out), "reciprocal(x)": lambda: np.reciprocal(e, out=out)},
    ),
    "e^−z": (2, {"exp": lambda: np.exp(z, out=out)}),
    "tanh z": (2, {"tanh": lambda: np.tanh(z, out=out)}),
    "H − x": (3, {"subtract": lambda: np.subtract(z, dH, out=out)}),
    "H·T": (3, {"multiply": lambda: np.multiply(z, dH, out=out)}),
    "copy": (2, {"copyto": lambda: np.copyto(out, z)}),
}


@dataclass
class Primitive:
    """A way to compute something; GB/s count each array that must be read or written once."""

    purpose: str
    name: str
    used: bool
    microseconds: Spread
    gb_per_second: Annotated[float, rule(within=COUNT)]


@dataclass
class PrimitivesLog(Log):
    """The log of this measurement."""

    rounds: Count
    primitives: Annotated[list[Primitive], rule("primitives")]


def run_command(arguments: argparse.Namespace) -> PrimitivesLog:
    """Measure all primitives in turn."""
    ways = [way for _, by_name in PRIMITIVES.values() for way in by_name.values()]
    rounds = [[timeit.timeit(way, number=REPEATS) for way in ways] for _ in range(arguments.rounds)]
    microseconds, found = iter(1e6 / REPEATS * np.transpose(rounds)), []
    for purpose, (arrays, by_name) in PRIMITIVES.items():
        for name, of in zip(by_name, microseconds, strict=False):
            speed = rounded(arrays * z.nbytes / np.median(of) / 1e3, 3)
            found.append(Primitive(purpose, name, name == next(iter(by_name)), spread(of), speed))
    return PrimitivesLog.new(arguments.command_line, None, rounds=arguments.rounds, primitives=found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    return run(new_parser("primitives", "Time the elementwise functions of a pass.", ROUNDS), run_command, argv)
