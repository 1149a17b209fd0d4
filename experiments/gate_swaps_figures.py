"""Figure, table and claim of swapped gates."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import name_tested, seeds_of
from highway_lab.figures import (
    COLORS,
    SETTINGS,
    draw_by_layer,
    draw_level,
    empty_figure,
    in_math,
    label_ends,
    markdown,
    set_title,
)
from highway_lab.intervals import Interval, interval

from .claims import Claim
from .common import group_by
from .gate_swaps import KINDS, OTHER, OVERALL_MEAN, OWN, SAME, GateSwapsLog, NetSwaps, Swap

LINES = {SAME: COLORS["highway"], OTHER: COLORS["plain"]}  # donors whose gates are given layer by layer
OFFSET = 0.2  # between settings, in rows
TICKS = (0.01, 0.1, 1, 10, 100)  # of errors in %; the first is one of 10,000 images


def settings(log: GateSwapsLog) -> dict[str, list[NetSwaps]]:
    """Return the nets by setting."""
    return group_by(log.nets, lambda net: net.task.setting)


def swaps_figure(log: GateSwapsLog) -> Figure:
    """Draw, left, error by donor, a dot a net; right, by setting, error by the layer that gets the gates."""
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
    """Draw the error with gates given in all layers: a row a kind of donor, a colour a setting."""
    rows = np.arange(len(KINDS))
    for place, (color, (setting, nets)) in enumerate(zip(SETTINGS, groups.items(), strict=False)):
        errors = 100 * np.array([[net.gates[kind].error for kind in KINDS] for net in nets])  # (seeds, kinds)
        shift = OFFSET * (place - (len(groups) - 1) / 2)
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
    """Draw the error with gates given in one layer at a time, beside the nets' own."""
    for kind, color in LINES.items():
        draw_by_layer(axes, 100 * np.array([net.layers[kind].each for net in nets]), label=kind, color=color)
    draw_level(axes, 100 * np.mean([net.error for net in nets]), OWN)
    axes.set_title(f"in one layer: {in_math(setting)}")
    if lowest:
        axes.set_xlabel("layer that gets them")
    label_ends(axes)


# -------------------------------------------------------------------------------------------- the table


def swaps_table(log: GateSwapsLog) -> str:
    """Tabulate each kind of swap in all layers, by setting: gates, then H."""
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
    """Return means over the nets of one setting, for one kind of donor."""
    neither = [swap.error - swap.as_donor for swap in swaps]
    error, as_donor, changed = ([getattr(swap, of) for swap in swaps] for of in ("error", "as_donor", "changed"))
    return [f"{interval([swap.distance for swap in swaps]):.3f}", *map(per_cent, (error, as_donor, neither, changed))]


def per_cent(shares: Sequence[float]) -> str:
    """Return mean ± sd in per cent."""
    return f"{interval([100 * share for share in shares]):.1f}"


def steered(nets: Sequence[NetSwaps], branch: str) -> str:
    """Return the share of errors with a branch of another class that are predictions of this class."""
    swaps = [getattr(net, branch)[OTHER] for net in nets]
    return per_cent([swap.as_donor / swap.error for swap in swaps])


def swaps_note(log: GateSwapsLog) -> str:
    """Return the note below the table."""
    shares = (
        f"{setting} {steered(nets, 'gates')} % (T), {steered(nets, 'states')} % (H)"
        for setting, nets in settings(log).items()
    )
    return (
        f"In all layers at once, % of {log.dataset.n_test:,} test images. The error has two parts: predicted as the "
        "donor's class, as neither. Distance: mean |given − own|; changed: other predictions than with an image's "
        "own, and the same with gates swapped in the net before training. Errors with the gates, or H, of another "
        f"class that are this class (one in nine if blind to it): {'; '.join(shares)}. "
        f"{seeds_of(net.task.source.training for net in log.nets)}"
    )


# -------------------------------------------------------------------------------------------- the claim


def costs(nets: Sequence[NetSwaps], kind: str, than: str) -> Interval:
    """Return by how many points the error with gates of one kind exceeds that with another."""
    return interval([100 * (net.gates[kind].error - net.gates[than].error) for net in nets])


def claims(log: GateSwapsLog) -> list[Claim]:
    """Return section 4.1's conclusion, judged by whether gates that depend on no image cost more than own gates.

    Held if every setting's interval lies above 0, partly if some do. Gates of another class give the net a wrong label,
    so they do not decide; what they cost more than gates of the same class stands beside it.
    """
    groups = settings(log)
    by_class = {setting: costs(nets, OTHER, SAME) for setting, nets in groups.items()}
    fixed = {setting: costs(nets, OVERALL_MEAN, OWN) for setting, nets in groups.items()}
    costly = [value.sign > 0 for value in fixed.values()]
    words = (f"{setting} {value:+.1f} ({by_class[setting]:+.1f})" for setting, value in fixed.items())
    return [
        Claim(
            "4.1",
            "the gating system is a part of the computation",
            "points of error, mean gates of all images less own ones (gates of an image of another class less those of "
            f"one of the same): {', '.join(words)}; nets trained with fixed gates: not tested",
            "held of trained nets" if all(costly) else "partly" if any(costly) else "not",
        )
    ]


FIGURES = {"gate_swaps.png": swaps_figure}
TABLES = {"gate_swaps": swaps_table}
