"""Figure 2: what do the gates of a trained 50-layer net look like?

The paper (section 4) shows, for its best 50-layer nets, 49 highway layers of 50 units: the transform-gate biases after
training, the mean T over the training set, and T and the outputs y for one random training sample. Measured here beside
the maps, over all training images: a gate is closed below T = 0.1, open above 0.5, and selective if it is open for some
samples and not for others; the change of a layer is the mean norm of y - x. Ours: layer 1 is at the top, so that
information flows downward; biases are drawn as their change in training.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from highway_lab.fields import Count, NonEmpty, Share, lists_of
from highway_lab.logs import Log, numbers
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from .common import Experiment
from .looks import models
from .looks.measurement import CLOSED, OPEN, Activity, fresh, measure_gates
from .looks.models import Model

SAMPLE_SEED = 0
MOST = 0.9  # share of the change in outputs that counts as most
RARE = 0.01  # share of samples; a gate that is open, or closed, for fewer counts as constant
DIGITS = 3  # significant ones, in the maps


@dataclass
class Maps:
    """Maps of the figure, each (L, D)."""

    b_T: lists_of(float, "L", "D")
    mean_T: lists_of(float, "L", "D")  # from 0 to 1, but for blocks of a user
    sample_T: lists_of(float, "L", "D")
    sample_y: lists_of(float, "L", "D")


@dataclass
class Claims:
    """Measures behind the paper's claims; shares are of gates, layers count from 1, correlations are Pearson's."""

    biases_decreased: Share
    bias_change: float  # mean over gates
    closed_for_a_sample: Share  # mean over samples
    closed_in_the_mean: Share  # mean T is below `closed`
    mean_T: float
    ever_open: Share
    selective: Share  # open for some samples, not for all
    selective_beyond_rare: Share  # open for at least `rare` of the samples, and not for at least `rare`
    change: NonEmpty[float]  # mean norm of y - x, by layer
    layer_of_most_change: Count  # by which most of the sum of `change` has happened
    sample_layer_of_most_change: Count
    bias_and_mean_T: float | None  # correlation of layer means, over layers
    bias_and_layer: float | None
    bias_and_mean_T_by_gate: float | None  # correlation over all gates


@dataclass
class GateMapsLog(Log):
    """runs/gate_maps.json; `sample` is an index into the training images, `label` its class."""

    model: Model
    sample: Count
    label: Count
    maps: Maps
    claims: Claims
    untrained: Claims  # of a net with fresh weights
    closed: float  # thresholds: see CLOSED, OPEN, MOST, RARE
    open: float
    most: float
    rare: float


EXPERIMENT = Experiment(__name__, __doc__, GateMapsLog, tuple(models.NETS), nets=models.NETS)


def choose_sample(images: np.ndarray) -> int:
    return int(np.random.default_rng(SAMPLE_SEED).integers(len(images)))


def look_at(net: DeepNet, image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return T and outputs (L, D) for one image, uint8, and the norm of y - x by layer (L,)."""
    _, cache = net.forward(as_inputs(image[None], net.dtype))
    x = cache.x[..., 0]
    return cache.T[..., 0], x[1:], np.linalg.norm(np.diff(x, axis=0), axis=1)


def layer_of_most(change: np.ndarray) -> int:
    """Return the layer, counted from 1, by which MOST of the total change has happened."""
    total = np.cumsum(change)
    return int(np.searchsorted(total, MOST * total[-1])) + 1


def correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return Pearson's correlation; None if either is constant."""
    if a.size < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        return rounded(np.corrcoef(a.ravel(), b.ravel())[0, 1], digits=3)


def check_claims(net: DeepNet, activity: Activity, sample_change: np.ndarray) -> Claims:
    b_T = net.params["b_T"]
    mean_bias, mean_T = b_T.mean(axis=1), activity.T.mean(axis=1)

    def share(of: np.ndarray) -> float:
        return rounded(of.mean(), digits=4)

    return Claims(
        biases_decreased=share(b_T < net.config["gate_bias"]),
        bias_change=rounded((b_T - net.config["gate_bias"]).mean(), digits=3),
        closed_for_a_sample=share(activity.closed),
        closed_in_the_mean=share(activity.T < CLOSED),
        mean_T=share(activity.T),
        ever_open=share(activity.open > 0),
        selective=share((activity.open > 0) & (activity.open < 1)),
        selective_beyond_rare=share((activity.open >= RARE) & (activity.open <= 1 - RARE)),
        change=numbers(activity.change, DIGITS),
        layer_of_most_change=layer_of_most(activity.change),
        sample_layer_of_most_change=layer_of_most(sample_change),
        bias_and_mean_T=correlation(mean_bias, mean_T),
        bias_and_layer=correlation(mean_bias, np.arange(net.depth)),
        bias_and_mean_T_by_gate=correlation(b_T, activity.T),
    )


def look(net: DeepNet, data: Dataset, _: int) -> dict[str, Any]:
    sample = choose_sample(data.train_x)
    sample_T, sample_y, _ = look_at(net, data.train_x[sample])
    activity, untrained = measure_gates(net, data.train_x), fresh(net)

    def claims(net: DeepNet, activity: Activity) -> Claims:
        *_, change = look_at(net, data.train_x[sample])
        return check_claims(net, activity, change)

    return {
        "sample": sample,
        "label": int(data.train_y[sample]),
        "maps": Maps(
            b_T=numbers(net.params["b_T"]),  # in full: they may have moved little
            mean_T=numbers(activity.T, DIGITS),
            sample_T=numbers(sample_T, DIGITS),
            sample_y=numbers(sample_y, DIGITS),
        ),
        "claims": claims(net, activity),
        "untrained": claims(untrained, measure_gates(untrained, data.train_x)),
        "closed": CLOSED,
        "open": OPEN,
        "most": MOST,
        "rare": RARE,
    }


models.add_look(EXPERIMENT, look)
