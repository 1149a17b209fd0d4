"""Figures, tables and verdicts of what the gates do for each class.

The paper's sentence on MNIST is judged by section_4, on nets of its setting; none was trained on CIFAR-100. What a
single net of ours shows is a row of ours.

Rules, put in this form after the runs: gates differ by class in a block if logistic regression classifies test images
better by this block's gates than by an untrained net's; the 95 % interval of the lead is that of two proportions.
Differences are spread out if the first blocks' share of them is at most ONE_NET above that of an even spread. Where one
of both holds, the verdict is partly.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_data, name_tested
from highway_lab.figures import (
    COLORS,
    INK,
    differences,
    draw_by_layer,
    draw_level,
    label_ends,
    pale,
    part_each,
    set_title,
)
from highway_lab.intervals import Interval, interval
from highway_lab.tables import markdown

from .claims import ACCURACY_MARGIN, ONE_NET, Claim, Verdict, combine, judge_as_good, judge_better, of_cifar_100
from .class_routing import Accuracies, ClassRoutingLog, Routing
from .gate_maps_figures import SHOWN, draw_map, of_our_net

JUDGED = "logistic regression"  # the classifier of the verdicts and the picture
DRAWN = 10  # classes whose maps are drawn
TICKS = ((40, 60, 80, 100), (10, 20, 50, 100), (1, 10, 100), (0.1, 1, 10, 100))  # of errors in %, narrowest first


@part_each(height=6.2)
def routing_figure(figure: FigureBase, log: ClassRoutingLog) -> None:
    """Draw a map of blocks and units for each class, ten at most, on one scale."""
    maps = np.array(log.routing.difference[:DRAWN])  # (K, L, D)
    end = np.quantile(np.abs(maps), SHOWN)
    found = f"differs by up to {round(end, 2) or end:.2g} from that of all"
    set_title(figure, f"{name_data(log.dataset.name)}: the mean T of a class {found} ({100 * SHOWN:g} % of units)")
    grid = figure.subplots(nrows=2, ncols=-(-len(maps) // 2), sharex=True, sharey=True, squeeze=False)
    names = log.dataset.classes or [f"class {index}" for index in range(len(maps))]
    for axes, values, name in zip(grid.flat, maps, names, strict=False):
        image = draw_map(axes, values, **differences(end))
        axes.set_title(f"{name:.16}", parse_math=False)
        axes.set(xlabel="unit", ylabel="block")
        axes.label_outer()
    grid.flat[-1].set_visible(len(maps) % 2 == 0)
    figure.colorbar(image, ax=grid, location="bottom", aspect=50, label="difference of mean T", pad=0.02, extend="both")


@part_each(height=3.7)
def classes_figure(figure: FigureBase, log: ClassRoutingLog) -> None:
    gates, pixels = (100 - 100 * np.array(getattr(log.accuracies[JUDGED], of).test) for of in ("gates", "pixels"))
    found = f"the gates of a block tell the class with {gates.min():.1f} to {gates.max():.1f} % errors"
    set_title(figure, f"{name_tested(log.dataset)}: {found}, pixels with {pixels[0]:.1f} %")
    left, right = figure.subplots(ncols=2)
    error_panel(left, log.accuracies[JUDGED], log.chance)
    size_panel(right, log.routing, log.first_layers)


def error_panel(axes: Axes, found: Accuracies, chance: float) -> None:
    """Draw a classifier's test error by block for gates and outputs, beside untrained gates, pixels and chance."""

    def error(accuracies: list[float]) -> np.ndarray:
        return np.maximum(100 * (1 - np.array([accuracies])), TICKS[-1][0])  # (1, L); no logarithm shows 0

    draw_by_layer(axes, error(found.untrained.test), color=pale(COLORS["highway"], 0.55), label="gates, untrained")
    draw_by_layer(axes, error(found.gates.test), color=COLORS["highway"], label="gates")
    draw_by_layer(axes, error(found.outputs.test), color=INK, linewidth=1.5, label="outputs")
    draw_level(axes, error(found.pixels.test).item(), "pixels")
    draw_level(axes, 100 * (1 - chance), "chance")
    lowest = error(found.gates.test + found.outputs.test + found.untrained.test + found.pixels.test).min()
    ticks = next((ticks for ticks in TICKS if ticks[0] < lowest), TICKS[-1])
    axes.set(title=f"test error (%) of {JUDGED}", xlabel="block", yscale="log", ylim=(ticks[0], ticks[-1]))
    axes.set_yticks(ticks, ticks)
    axes.yaxis.set_minor_formatter(NullFormatter())
    label_ends(axes)


def size_panel(axes: Axes, routing: Routing, first: int) -> None:
    """Draw the mean |difference| of class means by block, beside random groups, and the first blocks' share."""
    draw_by_layer(axes, np.array([routing.size]), color=COLORS["highway"], label="classes")
    draw_by_layer(axes, np.array([routing.size_of_random_groups]), color=INK, linewidth=1.5, label="random groups")
    axes.set(title="distance of class means of T", xlabel="block", ylim=(0, None))
    if first < len(routing.size):
        axes.axvspan(1, first, color=INK, alpha=0.07, linewidth=0)
        words = f"{routing.share_in_first_layers:.0%} of the sum\n    (evenly: {first / len(routing.size):.0%})"
        axes.text(first + 1, 0.98, f"← {words}", transform=axes.get_xaxis_transform(), va="top")
    label_ends(axes)


def class_routing_table(*logs: ClassRoutingLog) -> str:
    """Tabulate test accuracies of each classifier of gates, outputs, untrained gates and pixels."""
    rows = []
    for log in logs:
        for name, found in log.accuracies.items():
            gates = found.gates
            best = [f"{of.test[of.best]:.1%} ({of.best + 1})" for of in (gates, found.outputs, found.untrained)]
            ends = [f"{accuracy:.1%}" for accuracy in (gates.test[0], gates.test[-1])]
            pixels = f"{found.pixels.test[0]:.1%}"
            rows.append([name_data(log.dataset.name), name, best[0], *ends, *best[1:], pixels])
    gates = ("gates", "gates, block 1", "gates, last block")
    table = markdown(["images", "classifier", *gates, "outputs", "untrained gates", "pixels"], rows)
    chance = " and ".join(f"{log.chance:.1%}" for log in logs)
    n_test = " and ".join(f"{log.dataset.n_test:,}" for log in logs)
    return (
        f"{table}\n\nTest accuracy on {n_test} images; the commonest class: {chance}. Without a block's name: the "
        "block of highest validation accuracy, in brackets."
    )


def clusters_table(*logs: ClassRoutingLog) -> str:
    """Tabulate how well k-means of each kind of vectors agrees with the classes."""
    clusters = [log.clusters for log in logs]
    rows = [[of, *(f"{interval(by[of].adjusted_mutual_information):.2f}" for by in clusters)] for of in clusters[0]]
    table = markdown(["clusters of", *(name_data(log.dataset.name) for log in logs)], rows)
    seeds = f"{len(clusters[0]['gates'].purity)} seeds of k-means"
    return f"{table}\n\nAdjusted mutual information with the classes (1: the same, 0: chance), {seeds}."


def claims(log: ClassRoutingLog) -> list[Claim]:
    """Return what one net shows of the paper's sentence on figure 3, and that on CIFAR-100, which was not tried."""
    if log.dataset.name.startswith("cifar"):
        spread_out = "on CIFAR-100, class differences are spread out over all layers"
        return [of_cifar_100("4.1, figure 3", spread_out), spread_claim(log)]
    lead = least_lead(log, log.first_layers)
    sentence = f"the gates of each of the first {log.first_layers} blocks tell the class"
    why = (
        f"A classifier of one block's gates is at least {lead.value:.1f} points better than one of an untrained net's."
    )
    measured = f"least lead in points of accuracy: {lead:+.1f}"
    return [of_our_net(log, sentence, judge_better(lead, ACCURACY_MARGIN), why, measured)]


def spread_claim(log: ClassRoutingLog) -> Claim:
    """Return the claim on all blocks: each tells classes, and the first ones do not have most of the differences."""
    first, depth = log.first_layers, len(log.routing.size)
    sentence = "class differences are spread out over all blocks"
    if first >= depth:
        return of_our_net(
            log, sentence, Verdict.NOT_TESTED, f"The net has {depth} blocks only.", f"{depth} blocks only"
        )
    lead, share, even = least_lead(log, depth), 100 * log.routing.share_in_first_layers, 100 * first / depth
    tells, is_spread = judge_better(lead, ACCURACY_MARGIN), judge_as_good(Interval(even - share, 0), ONE_NET)
    why = (
        f"From the gates of any one block the class can be told better than in an untrained net, by at least "
        f"{lead.value:.1f} points. The first {first} blocks have {share:.0f}% of the differences."
    )
    measured = f"least lead {lead:+.1f} points ({tells}); spread evenly it would be {even:.0f}% ({is_spread})"
    return of_our_net(log, sentence, combine((tells, is_spread)), why, measured)


def least_lead(log: ClassRoutingLog, blocks: int) -> Interval:
    """Return the least lead of gates over untrained gates in the first blocks, in points of test accuracy."""
    found = log.accuracies[JUDGED]
    pairs = zip(found.gates.test[:blocks], found.untrained.test[:blocks], strict=True)
    gates, untrained = min(pairs, key=lambda pair: pair[0] - pair[1])
    variance = sum(share * (1 - share) for share in (gates, untrained)) / log.dataset.n_test
    return Interval(100 * (gates - untrained), 196 * variance**0.5)


FIGURES = {"fig3_class_routing.png": routing_figure, "gates_tell_class.png": classes_figure}
TABLES = {"class_routing": class_routing_table, "class_routing_clusters": clusters_table}
