"""Picture and table of what comes of swapped gates."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import mean_sd, name_tested, seeds_of
from highway_lab.figures import (
    COLORS,
    SETTINGS,
    draw_level,
    draw_seeds,
    empty_figure,
    in_math,
    label_ends,
    markdown,
    number_layers,
    set_title,
)

from .claims import Claim
from .common import group_by
from .gate_swaps import (
    ANY,
    CLASS_MEAN,
    OTHER,
    OTHER_MEAN,
    OVERALL_MEAN,
    OWN,
    SAME,
    UNTRAINED,
    GateSwapsLog,
    NetSwaps,
    Swap,
)
from .intervals import Interval, interval

KINDS = (OWN, SAME, CLASS_MEAN, OVERALL_MEAN, UNTRAINED, ANY, OTHER, OTHER_MEAN)  # in this order, top to bottom
LINES = {SAME: COLORS["highway"], OTHER: COLORS["plain"]}  # of gates that are given layer by layer
APART = 0.2  # of a row, between settings
TICKS = (0.01, 0.1, 1, 10, 100)  # of errors in %; 10,000 images tell no less than the first


def settings(log: GateSwapsLog) -> dict[str, list[NetSwaps]]:
    """The nets by setting, the seeds together."""
    return group_by(log.nets, lambda net: net.task.setting)


def swaps_figure(log: GateSwapsLog) -> Figure:
    """Left: error by whose gates are given, a dot a net. Right, by setting: error by the layer that gets them."""
    figure, groups = empty_figure(5.6), settings(log)
    set_title(figure, f"Gates of another image, error (%): {name_tested(log.dataset)}")
    grid = figure.add_gridspec(len(groups), 2, width_ratios=(1.25, 1))
    donors = figure.add_subplot(grid[:, 0])
    donors_panel(donors, groups)
    figure.legend(*donors.get_legend_handles_labels(), ncols=len(groups), loc="outside lower left", frameon=False)
    for row, (setting, nets) in enumerate(groups.items()):
        layers_panel(figure.add_subplot(grid[row, 1]), setting, nets, lowest=row == len(groups) - 1)
    return figure


def donors_panel(axes: Axes, groups: Mapping[str, Sequence[NetSwaps]]) -> None:
    """Error with given gates in all layers, a row for each kind of donor, a colour for each setting."""
    rows = np.arange(len(KINDS))
    for place, (color, (setting, nets)) in enumerate(zip(SETTINGS, groups.items(), strict=False)):
        errors = 100 * np.array([[net.gates[kind].error for kind in KINDS] for net in nets])  # (seeds, kinds)
        shift = APART * (place - (len(groups) - 1) / 2)
        style = {"color": color, "marker": "o", "markersize": 5, "linestyle": "none", "clip_on": False}
        lines = axes.plot(np.maximum(errors, TICKS[0]).T, rows + shift, **style)
        lines[0].set_label(in_math(setting))  # one of the seeds
    axes.set_yticks(rows, KINDS)
    axes.set(title="whose gates, in all layers", xscale="log", xlim=TICKS[:: len(TICKS) - 1])
    axes.set_ylim(len(KINDS) - 0.5, -0.5)  # the first on top
    axes.set_xticks(TICKS, TICKS)
    axes.minorticks_off()
    axes.grid(axis="x", linewidth=0.5)
    axes.set_axisbelow(True)


def layers_panel(axes: Axes, setting: str, nets: Sequence[NetSwaps], *, lowest: bool) -> None:
    """Error with given gates in one layer at a time, beside the nets' own."""
    for kind, color in LINES.items():
        curves = 100 * np.array([net.layers[kind].each for net in nets])  # (seeds, L)
        draw_seeds(axes, np.arange(1, curves.shape[1] + 1), curves, label=kind, color=color)
    draw_level(axes, 100 * np.mean([net.error for net in nets]), OWN)
    axes.set(title=f"in one layer: {in_math(setting)}", xlim=(1, curves.shape[1]))
    number_layers(axes.xaxis, curves.shape[1])
    if lowest:
        axes.set_xlabel("layer that gets them")
    label_ends(axes)


# -------------------------------------------------------------------------------------------- the table


def swaps_table(log: GateSwapsLog) -> str:
    """What comes of each kind of swap in all layers, by setting: gates, and then H."""
    rows = []
    for setting, nets in settings(log).items():
        for branch, field in (("T", "gates"), ("H", "states")):
            for kind in (kind for kind in KINDS if kind in getattr(nets[0], field)):
                swaps = [getattr(net, field)[kind] for net in nets]
                untrained = [net.untrained[kind].changed for net in nets if field == "gates" and kind in net.untrained]
                rows.append([setting, f"{branch}: {kind}", *cells(swaps), per_cent(untrained) if untrained else ""])
    header = ["net", "given", "distance", "error", "donor's class", "neither", "changed", "changed, untrained"]
    return f"{markdown(header, rows)}\n\n{swaps_note(log)}"


def cells(swaps: Sequence[Swap]) -> list[str]:
    """Means over the nets of one setting, for one kind of donor."""
    neither = [swap.error - swap.as_donor for swap in swaps]
    return [
        mean_sd([swap.distance for swap in swaps]),
        *(per_cent(values) for values in ([swap.error for swap in swaps], [swap.as_donor for swap in swaps])),
        *(per_cent(values) for values in (neither, [swap.changed for swap in swaps])),
    ]


def per_cent(shares: Sequence[float]) -> str:
    """Mean ± sd in per cent."""
    return mean_sd([100 * share for share in shares], digits=1)


def swaps_note(log: GateSwapsLog) -> str:
    """What stands below the table."""
    steered = (
        f"{setting} {per_cent([net.gates[OTHER].as_donor / net.gates[OTHER].error for net in nets])} % (T), "
        f"{per_cent([net.states[OTHER].as_donor / net.states[OTHER].error for net in nets])} % (H)"
        for setting, nets in settings(log).items()
    )
    return (
        f"In all layers at once, % of {log.dataset.n_test:,} test images. The error has two parts: predicted as the "
        "donor's class, as neither. Distance: mean |given − own|; changed: other predictions than with an image's "
        "own, and the same with gates swapped in the net before training. Errors with the gates, or H, of another "
        f"class that are this class (one in nine if blind to it): {'; '.join(steered)}. "
        f"{seeds_of(net.task.source.training for net in log.nets)}"
    )


# -------------------------------------------------------------------------------------------- the claim


def costs(nets: Sequence[NetSwaps], kind: str, than: str) -> Interval:
    """By how many points the error is higher with gates of one kind than with those of another."""
    return interval([100 * (net.gates[kind].error - net.gates[than].error) for net in nets])


def claims(log: GateSwapsLog) -> list[Claim]:
    """What section 4.1 concludes: of trained nets, if gates that depend on no image cost more than an image's own.

    By the interval of each setting: held if all lie above 0, partly if some do. Beside it, what gates of another class
    cost more than those of the same: these tell the net a label, wrongly or rightly, so they do not decide.
    """
    groups = settings(log)
    by_class = {setting: costs(nets, OTHER, SAME) for setting, nets in groups.items()}
    fixed = {setting: costs(nets, OVERALL_MEAN, OWN) for setting, nets in groups.items()}
    told = [value.sign > 0 for value in fixed.values()]
    words = (f"{setting} {value:+.1f} ({by_class[setting]:+.1f})" for setting, value in fixed.items())
    return [
        Claim(
            "4.1",
            "the gating system is a part of the computation",
            "points of error, mean gates of all images less own ones (gates of an image of another class less those of "
            f"one of the same): {', '.join(words)}; nets trained with fixed gates: not tested",
            "held of trained nets" if all(told) else "partly" if any(told) else "not",
        )
    ]


FIGURES = {"gate_swaps.png": swaps_figure}
TABLES = {"gate_swaps": swaps_table}
