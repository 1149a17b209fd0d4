"""Figures, table and claim of what the gates do for each class."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_data, name_tested
from highway_lab.figures import (
    COLORS,
    INK,
    differences,
    draw_level,
    label_ends,
    markdown,
    number_layers,
    part_each,
    set_title,
)
from highway_lab.intervals import interval

from .claims import Claim
from .class_routing import Accuracies, ClassRoutingLog, Clusters, Routing
from .gate_maps_figures import SHOWN, draw_map

SPREAD = 1.2  # the first layers' share, over an even spread's, below which differences are spread out
DRAWN = 10  # classes whose maps are drawn
TICKS = ((40, 60, 80, 100), (10, 20, 50, 100), (1, 10, 100), (0.1, 1, 10, 100))  # of errors in %, narrowest first


@part_each(height=6.4)
def routing_figure(figure: FigureBase, log: ClassRoutingLog) -> None:
    """Draw a map of layers and units for each class, ten at most, on one scale."""
    maps = np.array(log.routing.difference[:DRAWN])  # (K, L, D)
    style = differences(np.quantile(np.abs(maps), SHOWN))
    set_title(figure, f"Mean T of a class less the mean of all: {name_data(log.dataset.name)}")
    grid = figure.subplots(nrows=2, ncols=DRAWN // 2, sharex=True, sharey=True)
    for index, (axes, values) in enumerate(zip(grid.flat, maps, strict=False)):
        image = draw_map(axes, values, **style)
        axes.set_title(f"class {index}")
        axes.set(xlabel="unit", ylabel="layer")
        axes.label_outer()
    label = f"difference of mean T ({1 - SHOWN:.1%} of all lie beyond the scale, which is of this net alone)"
    figure.colorbar(image, ax=grid, location="bottom", aspect=50, label=label, pad=0.02, extend="both")


@part_each(height=6.6)
def classes_figure(figure: FigureBase, log: ClassRoutingLog) -> None:
    """Draw errors by layer, the size of class differences by layer, and classes by cluster."""
    set_title(figure, f"Class and gates, by layer: {name_tested(log.dataset)}")
    grid = figure.subplots(nrows=2, ncols=2)
    for axes, (name, found) in zip(grid[0], log.accuracies.items(), strict=True):
        error_panel(axes, name, found, log.chance)
    size_panel(grid[1, 0], log.routing)
    table_panel(grid[1, 1], log.clusters["gates"])


def error_panel(axes: Axes, name: str, found: Accuracies, chance: float) -> None:
    """Draw a classifier's test error by layer for gates and outputs, beside untrained gates, pixels and chance."""

    def error(accuracy: object) -> np.ndarray:
        return 100 * (1 - np.array(accuracy))

    layers = np.arange(1, len(found.gates.test) + 1)
    axes.plot(layers, error(found.untrained.test), color=COLORS["highway-uncoupled"], linewidth=1, label="untrained")
    for scores, label, color in ((found.gates, "gates", COLORS["highway"]), (found.outputs, "outputs", INK)):
        axes.plot(layers, error(scores.test), color=color, label=label)
    draw_level(axes, error(found.pixels.test[0]), "pixels")
    draw_level(axes, error(chance), "chance")
    lowest = error(max(found.gates.test + found.outputs.test))
    ticks = next((ticks for ticks in TICKS if ticks[0] < lowest), TICKS[-1])
    axes.set(title=f"test error (%), {name}", yscale="log", ylim=ticks[:: len(ticks) - 1], xlim=(1, layers[-1]))
    axes.set_yticks(ticks, ticks)
    axes.yaxis.set_minor_formatter(NullFormatter())
    number_layers(axes.xaxis, layers[-1])
    label_ends(axes)


def size_panel(axes: Axes, routing: Routing) -> None:
    """Draw the mean |difference| of class means by layer, beside random groups."""
    layers = np.arange(1, len(routing.size) + 1)
    axes.plot(layers, routing.size, color=COLORS["highway"], label="classes")
    axes.plot(layers, routing.size_of_random_groups, color=INK, linewidth=1, label="random")
    axes.set(title="mean |difference of class means|", xlabel="layer", xlim=(1, layers[-1]))
    axes.set_ylim(bottom=0)
    number_layers(axes.xaxis, layers[-1])
    label_ends(axes)


def table_panel(axes: Axes, clusters: Clusters) -> None:
    """Draw the share of each class (column) in each cluster (row) of gate vectors."""
    table = np.array(clusters.table)
    percent = 100 * table / table.sum(axis=0)
    axes.imshow(percent, aspect="auto", interpolation="nearest", vmin=0, vmax=100)
    for (cluster, digit), share in np.ndenumerate(percent):
        if share >= 1:
            color = "black" if share > 50 else "white"
            axes.text(digit, cluster, f"{share:.0f}", color=color, size=8, ha="center", va="center")
    axes.set(title="% of a class by cluster of all gates", xlabel="class", ylabel="cluster", yticks=[])
    axes.set_xticks(range(0, len(table), max(1, len(table) // DRAWN)))


def class_routing_table(*logs: ClassRoutingLog) -> str:
    """Tabulate test accuracies of each classifier of gates, outputs, untrained gates and pixels."""
    rows = []
    for log in logs:
        for name, found in log.accuracies.items():
            gates = found.gates
            best = [f"{of.test[of.best]:.3f} (layer {of.best + 1})" for of in (gates, found.outputs, found.untrained)]
            others = [f"{accuracy:.3f}" for accuracy in (gates.test[0], gates.test[-1], found.pixels.test[0])]
            rows.append([name, name_data(log.dataset.name), best[0], *others[:2], *best[1:], others[2]])
    header = [
        *("classifier", "images", "gates, chosen layer", "first layer", "last layer"),
        *("outputs, chosen layer", "untrained gates, chosen layer", "pixels"),
    ]
    return "\n\n".join([markdown(header, rows), *map(routing_note, logs)])


def routing_note(log: ClassRoutingLog) -> str:
    """Return the note below the table on one log."""
    clusters = ", ".join(
        f"{interval(found.adjusted_mutual_information):.3f} for {name}" for name, found in log.clusters.items()
    )
    return (
        f"{name_tested(log.dataset)}: test accuracy; always guessing the commonest class: {log.chance:.3f}. A layer is "
        f"chosen by {log.validation_images:,} training images beside the {log.fit_images:,} that were fitted. "
        f"{log.routing.share_in_first_layers:.0%} of the class differences of T lie in the first {log.first_layers} "
        "layers. Adjusted mutual information of as many k-means clusters with the classes, mean ± sample standard "
        f"deviation over {len(log.clusters['gates'].purity)} seeds: {clusters}."
    )


def claims(log: ClassRoutingLog) -> list[Claim]:
    """Return the paper's claim on figure 3 and CIFAR-100, beside random groups of images."""
    first, routing = log.first_layers, log.routing
    by_class, by_chance = (np.array(sizes) for sizes in (routing.size, routing.size_of_random_groups))
    shares = [sizes[:first].sum() / sizes.sum() for sizes in (by_class, by_chance)]
    least, even = (by_class / by_chance).min(), first / len(by_class)
    return [
        Claim(
            "4.1, figure 3",
            "on CIFAR-100, class differences are spread out over all layers",
            f"CIFAR-10: at least {least:.0f} times those of random groups; the first {first} have {shares[0]:.0%} "
            f"(random groups {shares[1]:.0%}, evenly {even:.0%})",
            "not" if least <= 2 else "held" if shares[0] < SPREAD * even else "partly",
            detail=True,
        )
    ]


FIGURES = {"fig3_class_routing.png": routing_figure, "gates_tell_class.png": classes_figure}
TABLES = {"class_routing": class_routing_table}
