"""Figure and verdicts of the gates of a trained net.

Rules: a verdict on a share of gates or of change asks for more than its baseline (`judge_beside`): half of the gates,
an untrained net of the same settings, or an even spread over the layers. A single net has no interval over seeds, so a
lead below ONE_NET is inconclusive. A correlation over layers must exclude 0.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from highway_lab.console import name_data
from highway_lab.figures import differences, number_layers, part_each, set_title
from highway_lab.intervals import Interval

from .claims import Claim, Verdict, combine, judge_better
from .common_figures import minus
from .gate_maps import GateMapsLog

MNIST_LAYERS, CIFAR_LAYERS = 15, 40  # first layers, in which the paper sees most of the change
HALF = 0.5  # more is "most"
ONE_NET = 0.1  # allowance for other seeds: those of one setting in runs/section_4.json differ by less
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
    """Draw the four maps; above each stands the end of its colour scale, as scales differ between nets."""
    net, maps = log.model.net, {name: np.array(values) for name, values in vars(log.maps).items()}
    moved = maps["b_T"] - net["gate_bias"]
    bias_end, mean_end = (np.quantile(np.abs(values), SHOWN) for values in (moved, maps["mean_T"]))
    y_end, signed = maps["sample_y"].max(), net["activation"] == "tanh"
    outputs = differences(np.array(1)) if signed else {"vmin": 0, "vmax": y_end}
    panels = (
        ("change of bias", f"±{bias_end:.2f}", "$b_T$, after − before", moved, differences(bias_end), "both"),
        (
            "mean gate",
            f"0 to {mean_end:.2f}",
            "T, mean of all images",
            maps["mean_T"],
            {"vmin": 0, "vmax": mean_end},
            "max",
        ),
        ("gate, one image", "0 to 1", "T", maps["sample_T"], {"vmin": 0, "vmax": 1}, "neither"),
        ("output, same image", "±1" if signed else f"0 to {y_end:.0f}", "y", maps["sample_y"], outputs, "neither"),
    )
    start = f"{net['activation']}, $b_T$ from {minus(round(net['gate_bias'], 1))}"
    set_title(figure, f"{name_data(log.dataset.name)}: {net['depth']} highway layers by unit ({start})")
    grid = figure.subplots(ncols=len(panels), sharey=True)
    for axes, (title, scale, label, values, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, values, **style)
        axes.set(title=f"{title}\n$\\bf{{scale~{scale.replace(' ', '~')}}}$", xlabel="unit")
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend, label=label)
        bar.ax.xaxis.set_major_locator(MaxNLocator(2))
    grid[0].set_ylabel("layer, from input to output")


def judge_beside(share: float, *baselines: float) -> Verdict:
    """Judge "more than each of the baselines" by one net: less is not reproduced, more by ONE_NET is reproduced."""
    return judge_better(Interval(share - max(baselines), ONE_NET), ONE_NET)


def claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on figure 2, judged by a net and an untrained one."""
    return cifar_claims(log) if log.dataset.name.startswith("cifar") else mnist_claims(log)


def mnist_claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on MNIST."""
    found, before, data = log.claims, log.untrained, f"1 {log.model.net['activation']} net"
    sparse = [judge_beside(found.closed_for_a_sample, of) for of in (HALF, before.closed_for_a_sample)]
    return [
        bias_claim(log, data),
        gradient_claim(log, f"MNIST stands in; {data}"),
        Claim(
            "4, figure 2",
            "the gates of one sample are sparse",
            f"below {log.closed} for one image: {found.closed_for_a_sample:.1%}; over half: {sparse[0]}; more than "
            f"untrained ({before.closed_for_a_sample:.1%}): {sparse[1]}; {data}",
            combine(sparse),
        ),
        Claim(
            "4.1, figure 2",
            "gates are selective: other samples open other gates",
            f"{found.selective_beyond_rare:.0%} of gates are above {log.open} for {log.rare:.0%} to "
            f"{1 - log.rare:.0%} of the images; untrained {before.selective_beyond_rare:.0%}; {data}",
            judge_beside(found.selective_beyond_rare, before.selective_beyond_rare),
        ),
        change_claim(log, MNIST_LAYERS, data),
    ]


def cifar_claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on CIFAR-100."""
    data = f"CIFAR-10 stands in; 1 {log.model.net['activation']} net"
    on_average, untrained = (1 - of.closed_in_the_mean for of in (log.claims, log.untrained))
    of_one = 1 - log.claims.closed_for_a_sample
    claims = [
        bias_claim(log, data),
        gradient_claim(log, data),
        Claim(
            "4.1, figure 2",
            "on CIFAR-100, most gates are active on average, few for one sample",
            f"T above {log.closed}: {on_average:.1%} on average (untrained {untrained:.1%}), "
            f"{of_one:.1%} for one image; {data}",
            judge_beside(min(on_average, 1 - of_one), HALF),
        ),
        change_claim(log, CIFAR_LAYERS, data),
    ]
    return [claim._replace(detail=True) for claim in claims]


def bias_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on falling biases; `data` ends the reason, here and below."""
    share, change = log.claims.biases_decreased, log.claims.bias_change
    return Claim(
        "4, figure 2",
        "most gate biases decrease in training",
        f"{share:.1%} of them (by chance 50%), mean change {change:+.3f}; {data}",
        judge_beside(share, HALF),
    )


def gradient_claim(log: GateMapsLog, data: str) -> Claim:
    """Return the claim on a layer's mean bias: both correlations over layers exclude 0 (Fisher), with their signs."""
    found, depth = log.claims, len(log.maps.b_T)
    with_depth, with_T = found.bias_and_layer or 0, found.bias_and_mean_T or 0  # null where all are equal
    chance = float(np.tanh(1.96 / np.sqrt(max(depth - 3, 1))))
    return Claim(
        "4, figure 2",
        "on CIFAR-100, biases increase with depth, inversely to mean T",
        f"correlation over layers: with depth {with_depth:+.2f}, with mean T {with_T:+.2f}, by chance within "
        f"±{chance:.2f}; {data}",
        combine(judge_better(Interval(of, chance), 0) for of in (with_depth, -with_T)),
    )


def change_claim(log: GateMapsLog, first: int, data: str) -> Claim:
    """Return the claim on the first layers' share of the change, beside an untrained net and an even spread."""
    depth = len(log.maps.b_T)
    share, untrained = (sum(of.change[:first]) / sum(of.change) for of in (log.claims, log.untrained))
    even = first / depth
    return Claim(
        "4, figure 2",
        f"most of the change in outputs happens in about the first {first} layers",
        f"{share:.0%} of it in {first} of {depth}; untrained {untrained:.0%}, evenly spread {even:.0%}; {data}",
        judge_beside(share, HALF, untrained, even),
    )


FIGURES = {"fig2_gate_maps.png": gate_maps_figure}
TABLES = {}
