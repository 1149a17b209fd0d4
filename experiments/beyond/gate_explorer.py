"""The gate explorer: which layers of a 50-layer net do the work on a digit that you draw?

The page that `plot` writes, viz/gate_explorer.html, holds the net itself. What it shows beside a drawing is measured
here. A typical image of each class: of the half of its test images that are read right most surely, the one whose gates
are closest to the class's mean. The effective depth of all test images, by class: the sum over layers of the mean T of
a layer's units. The error of the untrained net with layers closed, on the images and in two orders of `lesions`. The
untrained net's weights come from a generator so small that the page draws them, too.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_lab.fields import Count, NonEmpty, NotNegative, Pixel, Share, dict_of, lists_of
from highway_lab.logs import Log, numbers
from highway_networks import Dataset, DeepNet, InputError, as_inputs

from .. import lesions
from ..common import Experiment
from ..looks import measurement, models
from ..looks.models import Model
from .recording import Equation

SEED = 0  # of the untrained net
ENDS = {"first": "first first", "last": "last first"}  # of closing layers, by their names in the log of lesions
DIGITS = 4  # significant digits in the log


@dataclass
class EffectiveDepth:
    """Effective depth of the test images of each class: mean and sample standard deviation over images.

    `layers` is the mean T of each layer over all test images.
    """

    mean: lists_of(NotNegative, "K")
    sd: lists_of(NotNegative, "K")
    layers: lists_of(Share, "L")


@dataclass
class GateExplorerLog(Log):
    """runs/gate_explorer.json; `pixels` (classes, H, W) of typical images, number of `images` in each class.

    `untrained_errors`: the untrained net's with the first k layers of each of ENDS closed, k = 0..L.
    """

    model: Model
    seed: Count
    pixels: lists_of(Pixel, "K", "H", "W")
    images: lists_of(Count, "K")
    trained: EffectiveDepth
    untrained: EffectiveDepth
    untrained_errors: dict_of(ENDS, NonEmpty[Share])

    def __post_init__(self) -> None:
        found = {len(errors) for errors in self.untrained_errors.values()} - {len(self.trained.layers) + 1}
        if found:
            raise ValueError(f"expected an error for each k in untrained_errors, found {found.pop()}")


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


def find_typical(gates: np.ndarray, logits: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return the index of a typical image of each class, given mean gates (n, L), logits (n, K) and labels (n,)."""
    from scipy.special import log_softmax  # imports in a third of a second

    sureness = log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    typical = []
    for label in range(logits.shape[1]):
        of_class = np.flatnonzero(labels == label)
        distances = np.linalg.norm(gates[of_class] - gates[of_class].mean(axis=0), axis=1)
        unsure = sureness[of_class] < np.median(sureness[of_class])
        typical.append(int(of_class[np.where(unsure, np.inf, distances).argmin()]))
    return typical


def by_class(gates: np.ndarray, labels: np.ndarray, classes: int) -> EffectiveDepth:
    """Return mean and spread of effective depth within each class, given the mean gates (n, L) of images."""
    depths = gates.sum(axis=1)
    groups = [depths[labels == label] for label in range(classes)]
    means, sds = [group.mean() for group in groups], [group.std(ddof=1) for group in groups]
    return EffectiveDepth(*(numbers(values, DIGITS) for values in (means, sds, gates.mean(axis=0))))


def look(net: DeepNet, data: Dataset, _: int) -> dict[str, Any]:
    """Return the fields of the log; raises InputError unless images are square and grey, blocks elementwise."""
    Equation(net.config["block"], net.block, net.activation, net.hidden)
    channels, height, width = data.test_x.shape[1:]
    if channels != 1 or height != width:
        found = f"images of {channels} x {height} x {width}"
        raise InputError(f"--dataset: expected square grey images, found {found}; choose mnist, or convert them")
    if (least := min(np.bincount(data.test_y, minlength=data.outputs))) < 2:
        found = f"expected two test images or more of each class, found {least} ({data.test_set})"
        raise InputError(f"--dataset: {found}; add some")

    fresh = untrained(net)
    gates, fresh_gates = (measurement.mean_gates(of, data.test_x) for of in (net, fresh))
    for mean in (of for both in (gates, fresh_gates) for of in (both.min(), both.max())):
        if not 0 <= mean <= 1:
            found = f"expected T from 0 to 1, whose sum is the effective depth, found a mean of {mean:.2f}"
            raise InputError(f"block {net.config['block']}: {found}; use gate_maps, class_routing and lesions")
    typical = find_typical(gates, net.predict(as_inputs(data.test_x, net.dtype)), data.test_y)
    orders = lesions.closing_orders(np.zeros(net.depth))
    closed = measurement.closing_images(data)

    return {
        "seed": SEED,
        "pixels": data.test_x[typical, 0].tolist(),
        "images": np.bincount(data.test_y, minlength=data.outputs).tolist(),
        "trained": by_class(gates, data.test_y, data.outputs),
        "untrained": by_class(fresh_gates, data.test_y, data.outputs),
        "untrained_errors": {
            end: numbers(measurement.close_in_order(fresh, *closed, orders[order][0])) for end, order in ENDS.items()
        },
    }


models.add_look(EXPERIMENT, look)
