"""Picture and table of the gates of a trained net."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from figure_style import differences, markdown, new_figure, number_layers

from .common import name_data
from .gate_maps import GateMapsLog

SHOWN = 0.995  # share of the differences that a colour scale covers: a few outliers would hide all others


def draw_map(axes: Axes, values: np.ndarray, **style) -> AxesImage:
    """Draw a map (L, D): a row a layer, the first at the top, a column a unit, both counted from 1."""
    depth, width = values.shape
    extent = (0.5, width + 0.5, depth + 0.5, 0.5)
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **style)
    number_layers(axes.xaxis, width)
    number_layers(axes.yaxis, depth)
    return image


def gate_maps_figure(log: GateMapsLog) -> Figure:
    """The four maps, layer 1 at the top."""
    maps = {name: np.array(values) for name, values in vars(log.maps).items()}
    initial = log.model.net["gate_bias"]
    moved = differences(np.quantile(np.abs(maps["b_T"] - initial), SHOWN))
    moved["norm"].vcenter = initial
    outputs = differences(np.array(1)) if log.model.net["activation"] == "tanh" else {"vmin": 0}
    panels = (
        ("b_T", "bias after training", moved, "both"),
        ("mean_T", "mean T", {"vmin": 0, "vmax": 1}, "neither"),
        ("sample_T", f"T, one sample (a {log.label})", {"vmin": 0, "vmax": 1}, "neither"),
        ("sample_y", "its outputs", outputs, "neither"),
    )
    figure, grid = new_figure(f"Gates by layer and unit: {name_data(log.dataset.name)}", 4.4, ncols=4, sharey=True)
    for axes, (name, label, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, maps[name], **style)
        axes.set(title=label, xlabel="unit")
        figure.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend).ax.tick_params(labelsize=9)
    grid[0].set_ylabel("layer, from input to output")
    return figure


def gate_maps_table(log: GateMapsLog) -> str:
    """What the paper says of figure 2, beside what was measured on this net."""
    claims, depth, correlation = log.claims, len(log.maps.b_T), log.claims.bias_and_mean_T
    rows = [
        ["most gate biases decreased in training", f"{claims.biases_decreased:.0%} did"],
        [
            f"the gates of one sample are sparse (T below {log.closed} is closed)",
            f"{claims.closed_for_a_sample:.0%} closed for a sample, {claims.closed_in_the_mean:.0%} in the mean",
        ],
        [
            f"gates are selective (T above {log.open} is open)",
            f"{claims.ever_open:.0%} open for some image, {claims.selective:.0%} for some and not for all",
        ],
        [
            "most of the change in outputs happens in about the first 15 layers",
            f"{log.most:.0%} of it by layer {claims.layer_of_most_change} of {depth}",
        ],
        [
            "the biases are inversely correlated with the mean activity (said of CIFAR-100)",
            "one of them is constant" if correlation is None else f"correlation over layers {correlation:+.2f}",
        ],
    ]
    return markdown(["the paper", "here"], rows)


FIGURES = {"fig2_gate_maps.png": gate_maps_figure}
TABLES = {"gate_maps": gate_maps_table}
