"""Figure and verdicts of the gates of a trained net.

Rules: a verdict on a share of gates or of change asks for more than its baseline (`judge_beside`): half of the gates,
an untrained net of the same settings, or an even spread over the layers. A single net has no interval over seeds, so
ONE_NET stands in its place: less than that above or below the baseline is inconclusive. A correlation over layers must
exclude 0.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from highway_lab.console import name_data
from highway_lab.figures import differences, number_layers, part_each, set_title, without_math
from highway_lab.intervals import Interval

from .claims import Claim, Verdict, judge_better, require, share_of_nets
from .common_figures import minus
from .gate_maps import GateMapsLog

MNIST_LAYERS, CIFAR_LAYERS = 15, 40  # first layers, in which the paper sees most of the change
HALF = 0.5  # more is "most"
SHOWN = 0.995  # share of values that a colour scale covers: outliers would hide all others


def draw_map(axes: Axes, values: np.ndarray, **style) -> AxesImage:
    """Draw a map (L, D): a row a layer, layer 1 at the top, a column a unit."""
    depth, width = values.shape
    extent = (0.5, width + 0.5, depth + 0.5, 0.5)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **style)
    number_layers(axes.xaxis, width)
    number_layers(axes.yaxis, depth)
    return image


@part_each(height=4.7)
def gate_maps_figure(figure: FigureBase, log: GateMapsLog) -> None:
    """Draw the four maps; above each stands the range of its colours, as it differs between nets."""
    net, maps = log.model.net, {name: np.array(values) for name, values in vars(log.maps).items()}
    moved, tanh = maps["b_T"] - net["gate_bias"], net["activation"] == "tanh"
    bias_end, mean_end = (np.quantile(np.abs(values), SHOWN) for values in (moved, maps["mean_T"]))
    end = max(1, np.abs(maps["sample_y"]).max())  # tanh keeps a highway net's outputs within ±1, not any block's
    gates = maps["mean_T"], maps["sample_T"]
    lowest, highest = min(0, *map(np.min, gates)), max(1, *map(np.max, gates))  # beyond 0 and 1: blocks of a user
    outputs = differences(end) if tanh else {"vmin": 0}
    panels = (
        ("change of bias", "$b_T$, after − before", moved, differences(bias_end), "both"),
        ("mean gate", "T, mean of all images", maps["mean_T"], {"vmin": lowest, "vmax": mean_end}, "max"),
        ("gate, one image", "T", maps["sample_T"], {"vmin": lowest, "vmax": highest}, "neither"),
        ("output, same image", "y", maps["sample_y"], outputs, "neither"),
    )
    block, activation = without_math(net["block"]), without_math(net["activation"])
    origin = f"{activation}, $b_T$ from {minus(round(net['gate_bias'], 1))}"
    set_title(figure, f"{name_data(log.dataset.name)}: {net['depth']} {block} layers by unit ({origin})", math=True)
    grid = figure.subplots(ncols=len(panels), sharey=True)
    for axes, (title, label, values, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, values, **style)
        start, end = image.get_clim()
        scale = f"±{end:.2g}" if start == -end else f"{start:.2g}~to~{end:.2g}"
        axes.set(title=f"{title}\n$\\bf{{scale~{scale}}}$", xlabel="unit")
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend, label=label)
        bar.ax.xaxis.set_major_locator(MaxNLocator(2))
    grid[0].set_ylabel("layer, from input to output")


def judge_beside(share: float, *baselines: float) -> Verdict:
    """Judge "more than each of the baselines" by one net: its distance from the highest must exceed ONE_NET."""
    return judge_better(share_of_nets([100 * (share - max(baselines))]), 0)


def claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on figure 2; CIFAR-10 stands in for CIFAR-100."""
    net = f"1 {log.model.net['activation']} net"
    if log.dataset.name.startswith("cifar"):
        found = bias_claim, gradient_claim, average_claim, change_claim
        return [claim(log, f"CIFAR-10 stands in; {net}")._replace(detail=True) for claim in found]
    found = bias_claim, sparse_claim, selective_claim, change_claim
    stands_in = f"{name_data(log.dataset.name)} stands in; {net}"
    return [*(claim(log, net) for claim in found), gradient_claim(log, stands_in)]


def bias_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on falling biases; here and below, `data` says what was measured."""
    share, change = log.claims.biases_decreased, log.claims.bias_change
    why = f"{share:.1%} of them (by chance 50%), mean change {change:+.3f}; {data}"
    return Claim("4, figure 2", "most gate biases decrease in training", judge_beside(share, HALF), "WHY", why)


def sparse_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on one sample's gates: most are closed, and more than in an untrained net."""
    closed, untrained = (of.closed_for_a_sample for of in (log.claims, log.untrained))
    why = f"{closed:.1%} of gates are below {log.closed} for one image; untrained {untrained:.1%}; {data}"
    verdict = judge_beside(closed, HALF, untrained)
    return Claim("4, figure 2", "training makes the gates of one sample sparse", verdict, "WHY", why)


def selective_claim(log: GateMapsLog, data: str) -> Claim:
    share, untrained = (of.selective_beyond_rare for of in (log.claims, log.untrained))
    some = f"{log.rare:.0%} to {1 - log.rare:.0%} of the images"
    why = f"{share:.0%} of gates are above {log.open} for {some}; untrained {untrained:.0%}; {data}"
    paper = "gates are selective: other samples open other gates"
    return Claim("4.1, figure 2", paper, judge_beside(share, untrained), "WHY", why)


def average_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on gates that are active on average, of which few are active for one sample."""
    mean, untrained = (1 - of.closed_in_the_mean for of in (log.claims, log.untrained))
    one = 1 - log.claims.closed_for_a_sample
    paper = "on CIFAR-100, most gates are active on average, few for one sample"
    why = f"T above {log.closed}: on average {mean:.1%} (untrained {untrained:.1%}), one image {one:.1%}; {data}"
    return Claim("4.1, figure 2", paper, judge_beside(min(mean, 1 - one), HALF), "WHY", why)


def gradient_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on a layer's mean bias: both correlations over layers exclude 0 (Fisher), with their signs."""
    found, depth = log.claims, len(log.maps.b_T)
    with_depth, with_T = found.bias_and_layer or 0, found.bias_and_mean_T or 0  # null where all are equal
    chance = float(np.tanh(1.96 / np.sqrt(max(depth - 3, 1))))
    paper = "on CIFAR-100, biases increase with depth, inversely to mean T"
    found = f"with depth {with_depth:+.2f}, with mean T {with_T:+.2f}, by chance within ±{chance:.2f}"
    verdict = require(*(judge_better(Interval(of, chance), 0) for of in (with_depth, -with_T)))
    return Claim("4, figure 2", paper, verdict, "WHY", f"correlation over layers: {found}; {data}")


def change_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on the first layers' share of the change, beside an untrained net and an even spread."""
    first, depth = CIFAR_LAYERS if log.dataset.name.startswith("cifar") else MNIST_LAYERS, len(log.maps.b_T)
    share, untrained = (sum(of.change[:first]) / sum(of.change) for of in (log.claims, log.untrained))
    paper = f"most of the change in outputs happens in about the first {first} layers"
    if first >= depth:
        return Claim("4, figure 2", paper, Verdict.NOT_TESTED, "WHY", f"{depth} layers only; {data}")
    even = first / depth
    why = f"{share:.0%} of it in {first} of {depth}; untrained {untrained:.0%}, evenly spread {even:.0%}; {data}"
    return Claim("4, figure 2", paper, judge_beside(share, HALF, untrained, even), "WHY", why)


FIGURES = {"fig2_gate_maps.png": gate_maps_figure}
TABLES = {}
