"""Figure and verdicts of the gates of a trained net.

The paper's sentences on MNIST are judged by section_4, on nets of its setting; none was trained on CIFAR-100. What a
single net of ours shows is a row of ours.

Rules, put in this form after the runs: a verdict on a share of gates or of change asks for more than its baseline
(`judge_beside`): half of the gates, an even spread over the blocks or, where the sentence is on training, an untrained
net of the same settings. A single net has no interval over seeds, so ONE_NET stands in its place: less than that above
or below the baseline is inconclusive. A correlation over blocks must exclude 0.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from highway_lab.console import name_data
from highway_lab.figures import differences, number_layers, part_each, set_title, without_math
from highway_lab.intervals import Interval

from .claims import OURS, Claim, Verdict, judge_better, of_cifar_100, require, share_of_nets
from .class_routing import ClassRoutingLog
from .common_figures import minus
from .gate_maps import GateMapsLog

MNIST_LAYERS, CIFAR_LAYERS = 15, 40  # first blocks, in which the paper sees most of the change
HALF = 0.5  # more is "most"
SHOWN = 0.995  # share of values that a colour scale covers: outliers would hide all others


def draw_map(axes: Axes, values: np.ndarray, **style) -> AxesImage:
    """Draw a map (L, D): a row a block, block 1 at the top, a column a unit."""
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
    set_title(figure, f"{name_data(log.dataset.name)}: {net['depth']} {block} blocks by unit ({origin})", math=True)
    grid = figure.subplots(ncols=len(panels), sharey=True)
    for axes, (title, label, values, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, values, **style)
        start, end = image.get_clim()
        scale = f"±{end:.2g}" if start == -end else f"{start:.2g}~to~{end:.2g}"
        axes.set(title=f"{title}\n$\\bf{{scale~{scale}}}$", xlabel="unit")
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend, label=label)
        bar.ax.xaxis.set_major_locator(MaxNLocator(2))
    grid[0].set_ylabel("block, from input to output")


def judge_beside(share: float, *baselines: float) -> Verdict:
    """Judge "more than each of the baselines" by one net: its distance from the highest must exceed ONE_NET."""
    return judge_better(share_of_nets([100 * (share - max(baselines))]), 0)


def claims(log: GateMapsLog) -> list[Claim]:
    """Return what one net shows of the paper's sentences on figure 2, and those on CIFAR-100, which was not tried."""
    if log.dataset.name.startswith("cifar"):
        papers = [
            of_cifar_100("4, figure 2", "on CIFAR-100, biases increase with depth, inversely to mean T"),
            of_cifar_100("4.1, figure 2", "on CIFAR-100, most gates are active on average, few for one sample"),
            of_cifar_100(
                "4, figure 2", f"on CIFAR-100, most of the change happens in about the first {CIFAR_LAYERS} layers"
            ),
        ]
        ours = bias_claim, gradient_claim, average_claim, change_claim
        return [*papers, *(claim(log) for claim in ours), open_claim(log)]
    ours = bias_claim, sparse_claim, selective_claim, change_claim, gradient_claim
    return [*(claim(log) for claim in ours), open_claim(log)]


def of_our_net(log: GateMapsLog | ClassRoutingLog, sentence: str, verdict: Verdict, why: str, measured: str) -> Claim:
    """Return a claim on the net of the log."""
    activation = {"relu": "ReLU"}.get(log.model.net["activation"], log.model.net["activation"])
    net = f"a {activation} net for {name_data(log.dataset.name)}"
    return Claim(OURS, f"in {net}, {sentence}", verdict, why, f"{measured}; 1 net", detail=True)


def bias_claim(log: GateMapsLog) -> Claim:
    share, change = log.claims.biases_decreased, log.claims.bias_change
    why = f"{share:.1%} of the gate biases end below where they started; by chance it would be half."
    measured = f"mean change {change:+.3f}"
    return of_our_net(log, "most gate biases decrease in training", judge_beside(share, HALF), why, measured)


def sparse_claim(log: GateMapsLog) -> Claim:
    closed, untrained = (of.closed_for_a_sample for of in (log.claims, log.untrained))
    why = f"For one image, {closed:.1%} of the gates are nearly closed (T below {log.closed:g}); sparse means most."
    measured = f"untrained {untrained:.1%}"
    return of_our_net(log, "the gates of one sample are sparse", judge_beside(closed, HALF), why, measured)


def selective_claim(log: GateMapsLog) -> Claim:
    share, untrained = (of.selective_beyond_rare for of in (log.claims, log.untrained))
    why = (
        f"{share:.0%} of the gates are open (T above {log.open:g}) for some images and not for others. In an untrained "
        f"net it is {untrained:.0%}."
    )
    measured = f"open for {log.rare:.0%} to {1 - log.rare:.0%} of the images: {share:.1%}, untrained {untrained:.1%}"
    return of_our_net(log, "training makes gates selective", judge_beside(share, untrained), why, measured)


def average_claim(log: GateMapsLog) -> Claim:
    """Return the claim on gates that are active on average, of which few are active for one sample."""
    mean, untrained = (1 - of.closed_in_the_mean for of in (log.claims, log.untrained))
    one = 1 - log.claims.closed_for_a_sample
    why = (
        f"{mean:.1%} of the gates are active on average (T above {log.closed:g}), and {one:.1%} for one image; the "
        "sentence asks for most on average."
    )
    sentence = "most gates are active on average, few for one sample"
    return of_our_net(
        log, sentence, judge_beside(min(mean, 1 - one), HALF), why, f"untrained {untrained:.1%} on average"
    )


def open_claim(log: GateMapsLog) -> Claim:
    """Return the overview's claim on early layers, judged by whichever block has the most open gates."""
    by_block = np.mean(log.maps.mean_T, axis=1)
    block, most = int(by_block.argmax()) + 1, float(by_block.max())
    why = f"The block with the most open gates, block {block}, has a mean T of {most:.2f}."
    measured = f"{name_data(log.dataset.name)}: highest mean T of a block {most:.3f}; 1 net"
    sentence = "the gates of early layers tend to be open, with T near 1"
    return Claim("overview", sentence, judge_beside(most, HALF), why, measured, detail=True)


def gradient_claim(log: GateMapsLog) -> Claim:
    """Return the claim on a block's mean bias: both correlations over blocks exclude 0 (Fisher), with their signs."""
    found, depth = log.claims, len(log.maps.b_T)
    with_depth, with_T = found.bias_and_layer or 0, found.bias_and_mean_T or 0  # null where all are equal
    chance = float(np.tanh(1.96 / np.sqrt(max(depth - 3, 1))))
    why = (
        f"The mean bias of a block has a correlation of {with_depth:+.2f} with its depth, and of {with_T:+.2f} with "
        "its mean T; the sentence asks for a positive and a negative one."
    )
    verdict = require(*(judge_better(Interval(of, chance), 0) for of in (with_depth, -with_T)))
    sentence = "biases increase with depth, inversely to mean T"
    return of_our_net(log, sentence, verdict, why, f"by chance within ±{chance:.2f}")


def change_claim(log: GateMapsLog) -> Claim:
    """Return the claim on the first blocks' share of the change, beside an even spread."""
    first, depth = CIFAR_LAYERS if log.dataset.name.startswith("cifar") else MNIST_LAYERS, len(log.maps.b_T)
    share, untrained = (sum(of.change[:first]) / sum(of.change) for of in (log.claims, log.untrained))
    sentence = f"most of the change in outputs happens in about the first {first} blocks"
    if first >= depth:
        return of_our_net(
            log, sentence, Verdict.NOT_TESTED, f"The net has {depth} blocks only.", f"{depth} blocks only"
        )
    even = first / depth
    why = f"The first {first} blocks of {depth} make {share:.0%} of the change; spread evenly it would be {even:.0%}."
    return of_our_net(log, sentence, judge_beside(share, HALF, even), why, f"untrained {untrained:.0%}")


FIGURES = {"fig2_gate_maps.png": gate_maps_figure}
TABLES = {}
