"""The gate explorer: which layers of a 50-layer net do the work on a digit that you draw?

The page that `plot` writes, viz/gate_explorer.html, holds the net itself. For comparison it shows ten images, the first
of each class, and the effective depth of all test images, by class, which is measured here: the sum over layers of the
mean T of a layer's units. The untrained net's weights come from a generator so small that the page draws them, too.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name, "EXPERIMENT.main")

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from highway_lab import InputError
from highway_lab.fields import COUNT, Count, rule
from highway_lab.logs import Log, numbers
from highway_networks import Dataset, DeepNet

from .. import models
from ..common import Experiment
from ..models import Model
from .conv_gates import first_of_each_class

SEED = 0  # of the untrained net
DIGITS = 4  # significant digits in the log


@dataclass
class EffectiveDepth:
    """Effective depth of the test images of each class: mean and sample standard deviation over images."""

    mean: Annotated[list[float], rule("K", within=COUNT)]
    sd: Annotated[list[float], rule("K", within=COUNT)]


@dataclass
class GateExplorerLog(Log):
    """runs/gate_explorer.json; `pixels` (classes, H, W) of the ten images, number of `images` in each class."""

    model: Model
    seed: Count
    pixels: Annotated[list[list[list[int]]], rule("K", "H", "W", within=(0, 255))]
    images: Annotated[list[int], rule("K", within=COUNT)]
    trained: EffectiveDepth
    untrained: EffectiveDepth


EXPERIMENT = Experiment(__name__, __doc__, GateExplorerLog, nets=models.NETS)


class SmallGenerator:
    """Random numbers that the page draws, too, with the methods of np.random.Generator that INITS call.

    Mulberry32 (T. Ettinger 2017): a counter in steps of STEP, whose bits are mixed by products modulo 2³².
    """

    STEP = 0x6D2B79F5

    def __init__(self, seed: int):
        self.count = seed

    def random(self, n: int) -> np.ndarray:
        """Return the next n numbers, uniform in [0, 1)."""
        counts = self.count + self.STEP * np.arange(1, n + 1, dtype=np.uint64)
        self.count += self.STEP * n
        t = counts.astype(np.uint32)  # from here on modulo 2³²
        t = (t ^ t >> 15) * (t | 1)
        t ^= t + (t ^ t >> 7) * (t | 61)
        return (t ^ t >> 14) / 2**32

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
        return low + (high - low) * self.random(math.prod(shape)).reshape(shape)

    def normal(self, mean: float, sd: float, shape: tuple[int, ...]) -> np.ndarray:
        """Return √(−2 ln(1 − u)) · cos(2πv) of two uniform numbers u, v each (Box & Muller 1958), scaled."""
        u, v = self.random(2 * math.prod(shape)).reshape(-1, 2).T
        return mean + sd * (np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)).reshape(shape)


def untrained(net: DeepNet) -> DeepNet:
    """Return a net of the same setting with the untrained weights that the page draws, up to rounding."""
    return DeepNet(**net.config, rng=SmallGenerator(SEED))


def effective_depth(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """Return the sum over layers of the mean T over units, (n,), of images (n, ...), uint8."""
    depths = np.zeros(len(images))
    for part, x in models.in_batches(net, images, "effective depth"):
        for T, _ in net.iterate_gates(x):
            depths[part] += T.mean(axis=0)
    return depths


def by_class(depths: np.ndarray, labels: np.ndarray, classes: int) -> EffectiveDepth:
    """Return mean and spread of depths (n,) within each class."""
    groups = [depths[labels == label] for label in range(classes)]
    means, sds = [group.mean() for group in groups], [group.std(ddof=1) for group in groups]
    return EffectiveDepth(numbers(means, DIGITS), numbers(sds, DIGITS))


def look(net: DeepNet, data: Dataset, _: int) -> dict[str, Any]:
    """Return the fields of the log; raises InputError unless blocks are highway blocks, images square and grey."""
    if (block := net.config["block"]) != "highway":
        found = f"expected highway blocks, whose equation the page computes, found {block} blocks"
        raise InputError(f"--model: {found}; look into them with gate_maps, class_routing or lesions")
    channels, height, width = data.test_x.shape[1:]
    if channels != 1 or height != width:
        found = f"images of {channels} x {height} x {width}"
        raise InputError(f"--dataset: expected square grey images, found {found}; choose mnist")

    def describe(net: DeepNet) -> EffectiveDepth:
        return by_class(effective_depth(net, data.test_x), data.test_y, data.outputs)

    return {
        "seed": SEED,
        "pixels": data.test_x[first_of_each_class(data), 0].tolist(),
        "images": np.bincount(data.test_y, minlength=data.outputs).tolist(),
        "trained": describe(net),
        "untrained": describe(untrained(net)),
    }


models.add_look(EXPERIMENT, look)
