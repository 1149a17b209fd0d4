"""Figure, tables and verdict of swapped gates."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import name_tested
from highway_lab.figures import (
    COLORS,
    FAINT_INK,
    INK,
    draw_by_layer,
    draw_level,
    in_math,
    markdown,
    new_figure,
)
from highway_lab.intervals import Interval, interval

from .claims import ACCURACY_MARGIN, Claim, combine, judge_better
from .common import group_by
from .gate_swaps import (
    ANY,
    CLASS_MEAN,
    KINDS,
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

RIGHT, NONE, WRONG = COLORS["highway"], COLORS["lstm"], COLORS["plain"]  # by the class that the donor's gates tell
DONORS = {  # in the picture
    OWN: INK,
    SAME: RIGHT,
    CLASS_MEAN: RIGHT,
    OVERALL_MEAN: NONE,
    UNTRAINED: NONE,
    OTHER_MEAN: WRONG,
    OTHER: WRONG,
}
TICKS = (0.1, 1, 10, 100)  # of errors in %
BRANCHES = {"T": "gates", "H": "states"}  # fields of the log
PER_CENT = {"error": "error", "as_donor": "donor's class", "changed": "changed"}  # columns of the details


def settings(log: GateSwapsLog) -> dict[str, list[NetSwaps]]:
    """Return the nets by setting."""
    return group_by(log.nets, lambda net: net.task.setting)


def swaps_figure(log: GateSwapsLog) -> Figure:
    """Draw, by setting, the error with gates given in all blocks, above, and its rise by the one that gets them."""
    groups = settings(log)
    title = f"{name_tested(log.dataset)}: test error with the gates of other images, every net and the mean"
    figure, (above, below) = new_figure(title, 6.2, nrows=2, ncols=len(groups), sharey="row", height_ratios=(1.25, 1))
    for axes, (setting, nets) in zip(above, groups.items(), strict=True):
        donors_panel(axes, nets)
        axes.set_title(in_math(setting))
    above[1].set_xlabel("error (%), gates given in all blocks")
    for axes, nets in zip(below, groups.values(), strict=True):
        blocks_panel(axes, nets)
    below[0].set_ylabel("rise in error (points)")
    below[1].set_xlabel("the one block that is given gates")
    below[-1].legend(loc="upper right", handlelength=1, frameon=False, labelcolor="linecolor")
    return figure


def donors_panel(axes: Axes, nets: Sequence[NetSwaps]) -> None:
    """Draw the error with gates given in all blocks: a row a donor, a dot a net, a bar the mean."""
    for row, (kind, color) in enumerate(DONORS.items()):
        errors = [100 * net.gates[kind].error for net in nets]
        axes.plot(errors, [row] * len(errors), "o", color=color, alpha=0.5, markersize=6, clip_on=False)
        axes.plot([np.mean(errors)] * 2, [row - 0.35, row + 0.35], color=color)
    axes.axvline(np.mean([100 * net.error for net in nets]), color=FAINT_INK, linewidth=1, zorder=0)
    axes.set(xscale="log", xlim=(0.03, TICKS[-1]), ylim=(len(DONORS) - 0.5, -0.5))  # the first on top
    axes.set_xticks(TICKS, TICKS)
    axes.minorticks_off()
    axes.set_yticks(range(len(DONORS)), DONORS)


def blocks_panel(axes: Axes, nets: Sequence[NetSwaps]) -> None:
    """Draw by how much the error rises if one block is given gates, and the others keep their own."""
    draw_level(axes, 0, "_own")
    for kind in (SAME, OTHER):
        rises = [100 * (np.array(net.layers[kind].each) - net.error) for net in nets]
        draw_by_layer(axes, np.array(rises), label=kind, color=DONORS[kind])


# ------------------------------------------------------------------------------------------- the tables


def per_cent(nets: Sequence[NetSwaps], of: Callable[[NetSwaps], float]) -> str:
    """Return the mean over nets of a share in per cent, with its interval."""
    return f"{interval([100 * of(net) for net in nets]):.1f}"


def errors_table(log: GateSwapsLog) -> str:
    """Tabulate the error with each kind of given gates, or H, and how often it is the donor's class."""
    groups = settings(log)

    def row(words: str, of: Callable[[NetSwaps], float]) -> list[str]:
        return [words, *(per_cent(nets, of) for nets in groups.values())]

    rows = [
        row(f"{branch}: {kind}", lambda net, field=field, kind=kind: getattr(net, field)[kind].error)
        for branch, field in BRANCHES.items()
        for kind in KINDS
        if kind in getattr(log.nets[0], field)
    ]
    rows += [
        row(f"of the errors by {branch} of {OTHER}, this class", lambda net, field=field: steered(net, field))
        for branch, field in BRANCHES.items()
    ]
    return (
        f"{markdown(['error (%), given', *groups], rows)}\n\nMean and 95 % interval (t) over "
        f"{len(next(iter(groups.values())))} seeds; T or H is given in all blocks. Errors that ignored the donor would "
        "be its class in 11 % of the cases."
    )


def steered(net: NetSwaps, field: str) -> float:
    """Return the share of errors with a branch of another class that are predictions of this class."""
    swap = getattr(net, field)[OTHER]
    return swap.as_donor / swap.error


def details_table(log: GateSwapsLog) -> str:
    """Tabulate all measures of each swap in all blocks: gates, then H, then gates in the untrained nets."""
    rows = [
        [setting, f"{words}: {kind}", *cells([getattr(net, field)[kind] for net in nets])]
        for setting, nets in settings(log).items()
        for words, field in (BRANCHES | {"T, untrained": "untrained"}).items()
        for kind in getattr(nets[0], field)
    ]
    return (
        f"{markdown(['net', 'given', 'distance', *PER_CENT.values()], rows)}\n\nDistance: mean absolute difference "
        "from an image's own. In % of the images: misclassified; of these, as the donor's class; classified otherwise "
        "than with an image's own. Mean and 95 % interval (t) over seeds."
    )


def cells(swaps: Sequence[Swap]) -> list[str]:
    """Return means over the nets of one setting, for one kind of donor."""
    shares = (interval([100 * getattr(swap, name) for swap in swaps]) for name in PER_CENT)
    return [f"{interval([swap.distance for swap in swaps]):.3f}", *(f"{share:.1f}" for share in shares)]


# -------------------------------------------------------------------------------------------- the claim


def rise(nets: Sequence[NetSwaps], kind: str, field: str = "gates") -> Interval:
    """Return by how many points the error with gates of one kind exceeds that with an image's own."""
    swaps = [getattr(net, field) for net in nets]
    return interval([100 * (of[kind].error - of[OWN].error) for of in swaps])


def claims(log: GateSwapsLog) -> list[Claim]:
    """Judge section 4.1's conclusion by gates that depend on no image: do they cost more than an image's own?

    Gates of another class would not do, as they tell a wrong class. An untrained net, whose error is that of chance,
    has nothing to lose; it stands beside the trained ones with the gates of any image.
    """
    groups = settings(log)
    costs = [rise(nets, OVERALL_MEAN) for nets in groups.values()]
    untrained = rise(log.nets, ANY, "untrained")
    found = ", ".join(f"{cost:.1f}" for cost in costs)
    return [
        Claim(
            "4.1",
            "the gating system is an important part of the computation in a trained net",
            f"constant (mean) gates cost {found} points of error ({'; '.join(groups)}; "
            f"{len(log.nets) // len(groups)} nets each); untrained nets lose nothing ({untrained:+.1f})",
            combine(judge_better(cost, ACCURACY_MARGIN) for cost in costs),
        )
    ]


FIGURES = {"gate_swaps.png": swaps_figure}
TABLES = {"gate_swaps": errors_table, "gate_swaps_details": details_table}
