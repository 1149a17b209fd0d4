"""The gate explorer: which layers of a 50-layer net do the work on a digit that you draw?

The paper's figures 2 to 4 show the gates of one sample, those of a class, and the error with one layer closed. The page
that `plot` writes, viz/gate_explorer.html, holds the net itself: draw a digit, see its gates, close layers. Measured
here is what the page sets beside that: the effective depth of all test images, by class; and it takes along ten images,
the first of each class.

Ours: the effective depth of an image is the sum over layers of the mean T of a layer's units; a layer whose gates are
all open counts 1, one whose gates are all closed 0. The net is compared with an untrained one of the same settings,
whose weights come from a generator so small that the page draws them, too.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_lab.cli import InputError
from highway_lab.logs import Log, numbers
from highway_networks import Dataset, DeepNet

from .. import models
from ..common import Experiment, start
from ..models import Model
from .conv_gates import first_of_each_class

SEED = 0  # of the untrained net
DIGITS = 4  # significant ones


@dataclass
class EffectiveDepth:
    """Of the test images of each class, in order: mean, and sample standard deviation over images."""

    mean: list[float]
    sd: list[float]


@dataclass
class GateExplorerLog(Log):
    """runs/gate_explorer.json; `pixels` (classes, H, W) are the ten digits', `images` how many each class has."""

    model: Model
    seed: int
    pixels: list[list[list[int]]]
    images: list[int]
    trained: EffectiveDepth
    untrained: EffectiveDepth


EXPERIMENT = Experiment(__name__, __doc__, GateExplorerLog)


class SmallGenerator:
    """A seed's random numbers, which the page draws, too: what INITS call of np.random.Generator.

    Mulberry32 (T. Ettinger 2017): a counter in steps of STEP, whose bits are mixed by products modulo 2³².
    """

    STEP = 0x6D2B79F5

    def __init__(self, seed: int):
        self.count = seed

    def random(self, n: int) -> np.ndarray:
        """The next n numbers, uniform in [0, 1)."""
        counts = self.count + self.STEP * np.arange(1, n + 1, dtype=np.uint64)
        self.count = int(counts[-1]) if n else self.count
        t = counts.astype(np.uint32)  # modulo 2³², as is all that follows
        t = (t ^ t >> 15) * (t | 1)
        t ^= t + (t ^ t >> 7) * (t | 61)
        return (t ^ t >> 14) / 2**32

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
        return low + (high - low) * self.random(math.prod(shape)).reshape(shape)

    def normal(self, mean: float, sd: float, shape: tuple[int, ...]) -> np.ndarray:
        """Of two uniform numbers u, v each: √(−2 ln(1 − u)) · cos(2πv) (Box & Muller 1958)."""
        u, v = self.random(2 * math.prod(shape)).reshape(-1, 2).T
        return mean + sd * (np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)).reshape(shape)


def untrained(net: DeepNet, seed: int = SEED) -> DeepNet:
    """A net with the settings of this one and fresh weights: those that the page draws, but for last bits."""
    return DeepNet(**net.config, rng=SmallGenerator(seed))


def effective_depth(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """For each of images (n, ...), uint8, the sum over layers of the mean T over units: (n,)."""
    depths = np.zeros(len(images))
    for part, x in models.in_batches(net, images, "effective depth"):
        for (_, T), _ in net.walk(x):
            depths[part] += T.mean(axis=0)
    return depths


def by_class(depths: np.ndarray, labels: np.ndarray, classes: int) -> EffectiveDepth:
    """Mean and spread of depths (n,) within each class."""
    groups = [depths[labels == label] for label in range(classes)]
    mean, sd = (numbers([of(group) for group in groups], DIGITS) for of in (np.mean, lambda x: np.std(x, ddof=1)))
    return EffectiveDepth(mean, sd)


def look(net: DeepNet, data: Dataset, _: int) -> dict[str, Any]:
    """The fields of the log; raises InputError for images that cannot be drawn in ink on a square."""
    channels, height, width = data.test_x.shape[1:]
    if channels != 1 or height != width:
        found = f"images of {channels} x {height} x {width}"
        raise InputError(f"--dataset: expected square grey images, found {found}; choose mnist")
    trained_depth, untrained_depth = (
        by_class(effective_depth(of, data.test_x), data.test_y, data.outputs) for of in (net, untrained(net))
    )
    return {
        "seed": SEED,
        "pixels": data.test_x[first_of_each_class(data), 0].tolist(),
        "images": np.bincount(data.test_y, minlength=data.outputs).tolist(),
        "trained": trained_depth,
        "untrained": untrained_depth,
    }


models.add_look(EXPERIMENT, look)

if __name__ == "__main__":
    start(__spec__.name)
