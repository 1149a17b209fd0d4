"""Figure and claims of the gates of a trained net."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage

from highway_lab.console import name_data
from highway_lab.figures import differences, number_layers, part_each, set_title

from .claims import Claim
from .gate_maps import GateMapsLog

MNIST_LAYERS, CIFAR_LAYERS = 15, 40  # first layers, in which the paper sees most of the change
CORRELATED = 0.5  # least absolute correlation
SHOWN = 0.995  # share of values that a colour scale covers: outliers would hide all others


def draw_map(axes: Axes, values: np.ndarray, **style) -> AxesImage:
    """Draw a map (L, D): a row a layer, layer 1 at the top, a column a unit."""
    depth, width = values.shape
    extent = (0.5, width + 0.5, depth + 0.5, 0.5)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **style)
    number_layers(axes.xaxis, width)
    number_layers(axes.yaxis, depth)
    return image


@part_each(height=4.4)
def gate_maps_figure(figure: FigureBase, log: GateMapsLog) -> None:
    """Draw the four maps."""
    maps = {name: np.array(values) for name, values in vars(log.maps).items()}
    initial = log.model.net["gate_bias"]
    moved = differences(np.quantile(np.abs(maps["b_T"] - initial), SHOWN))
    moved["norm"].vcenter = initial
    outputs = differences(np.array(1)) if log.model.net["activation"] == "tanh" else {"vmin": 0}
    panels = (
        ("b_T", "bias after training", moved, "both"),
        ("mean_T", "mean T", {"vmin": 0, "vmax": np.quantile(maps["mean_T"], SHOWN)}, "max"),
        ("sample_T", "T, one sample", {"vmin": 0, "vmax": 1}, "neither"),
        ("sample_y", "its outputs", outputs, "neither"),
    )
    set_title(figure, f"Gates by layer and unit: {name_data(log.dataset.name)}, the sample of class {log.label}")
    grid = figure.subplots(ncols=4, sharey=True)
    for axes, (name, label, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, maps[name], **style)
        axes.set(title=label, xlabel="unit")
        figure.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend).ax.tick_params(labelsize=9)
    grid[0].set_ylabel("layer, from input to output")


def claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on figure 2, judged by a net and an untrained one."""
    return cifar_claims(log) if log.dataset.name.startswith("cifar") else mnist_claims(log)


def mnist_claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on MNIST."""
    found, before = log.claims, log.untrained
    return [
        Claim(
            "4, figure 2",
            "most gate biases decrease in training",
            f"{found.biases_decreased:.0%} of them; mean change of all {found.bias_change:+.3f}; 1 net",
            "held" if found.biases_decreased > 0.5 else "not",
        ),
        Claim(
            "4, figure 2",
            "the gates of one sample are sparse",
            f"{found.closed_for_a_sample:.1%} are below {log.closed}; untrained {before.closed_for_a_sample:.1%}",
            "held; training lowers it" if found.closed_for_a_sample < before.closed_for_a_sample else "held",
        ),
        Claim(
            "4, figure 2",
            "gates are selective",
            f"{found.selective_beyond_rare:.0%} are above {log.open} for {log.rare:.0%} to {1 - log.rare:.0%} of the "
            f"images; untrained {before.selective_beyond_rare:.0%}",
            "held" if found.selective_beyond_rare > before.selective_beyond_rare else "not",
        ),
        change_claim(log, MNIST_LAYERS),
    ]


def change_claim(log: GateMapsLog, first: int, paper: str = "", here: str = "") -> Claim:
    """Return the claim on the first layers' share of the change, beside an untrained net and an even spread.

    `paper` and `here` begin its sentences.
    """
    found, before, depth = log.claims, log.untrained, len(log.maps.b_T)
    early, early_before = (sum(of.change[:first]) / sum(of.change) for of in (found, before))
    even = first / depth
    return Claim(
        "4, figure 2",
        f"{paper}most of the change in outputs happens in about the first {first} layers",
        f"{here}{early:.0%} of it in {first} of {depth} (untrained {early_before:.0%}, evenly {even:.0%}), "
        f"{log.most:.0%} by layer {found.layer_of_most_change}; {log.model.net['activation']}",
        "not" if early <= max(0.5, even, early_before) else "held" if early_before < 0.5 else "held, as when untrained",
    )


def cifar_claims(log: GateMapsLog) -> list[Claim]:
    """Return the paper's claims on CIFAR-100."""
    found, before = log.claims, log.untrained
    with_depth, with_T = found.bias_and_layer or 0, found.bias_and_mean_T or 0  # null where all are equal
    held = (with_depth >= CORRELATED) + (with_T <= -CORRELATED)
    active, of_a_sample = (
        [1 - getattr(of, field) for of in (found, before)] for field in ("closed_in_the_mean", "closed_for_a_sample")
    )
    return [
        Claim(
            "4, figure 2",
            "on CIFAR-100, biases increase with depth, inversely to mean T",
            f"CIFAR-10, correlation over layers: with depth {with_depth:+.2f}, with mean T {with_T:+.2f}",
            ("not", "partly", "held")[held],
            detail=True,
        ),
        Claim(
            "4, figure 2",
            "on CIFAR-100, most gates are active on average, few for one sample",
            f"CIFAR-10, above {log.closed}: {active[0]:.1%} of mean T, {of_a_sample[0]:.1%} of one sample's; untrained "
            f"{active[1]:.1%}, {of_a_sample[1]:.1%}",
            "held" if active[0] > 0.5 > of_a_sample[0] else "not",
            detail=True,
        ),
        change_claim(log, CIFAR_LAYERS, "on CIFAR-100, ", "CIFAR-10: ")._replace(detail=True),
    ]


FIGURES = {"fig2_gate_maps.png": gate_maps_figure}
TABLES = {}
