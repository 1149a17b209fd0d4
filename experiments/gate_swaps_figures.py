"""Figure, tables and verdicts of swapped gates; their rule was put in this form after the runs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import count_of, name_tested
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, draw_level, new_figure
from highway_lab.intervals import Interval, interval
from highway_lab.tables import markdown

from . import gate_swaps as gs
from .claims import ACCURACY_MARGIN, OURS, Claim, combine, holds, judge_better
from .common import group_by
from .common_figures import PAPER, name_setting
from .gate_swaps import GateSwapsLog, NetSwaps, Swap

RIGHT, NONE, WRONG = COLORS["highway"], COLORS["lstm"], COLORS["plain"]  # by the class that the donor's gates tell
DONORS = {  # in the picture
    gs.OWN: INK,
    **dict.fromkeys((gs.SAME, gs.CLASS_MEAN), RIGHT),
    **dict.fromkeys((gs.OVERALL_MEAN, gs.UNTRAINED), NONE),
    **dict.fromkeys((gs.OTHER_MEAN, gs.OTHER), WRONG),
}
TICKS = (0.1, 1, 10, 100)  # of errors in %
BRANCHES = {"T": "gates", "H": "states"}  # fields of the log
MEASURES = {"error": "error", "as_donor": "donor's class", "changed": "changed"}  # columns of the details


def settings(log: GateSwapsLog) -> dict[str, list[NetSwaps]]:
    return group_by(log.nets, lambda net: name_setting(net.task.source.training))


def swaps_figure(log: GateSwapsLog) -> Figure:
    """Draw, by setting, the error with gates given in all blocks, above, and its rise by the one that gets them."""
    groups = settings(log)
    costs = {setting: interval(rises(nets, gs.OVERALL_MEAN)) for setting, nets in groups.items()}
    found = ", ".join(f"{cost:.1f} ({setting})" for setting, cost in costs.items())
    title = f"{name_tested(log.dataset)}: the mean gates of all images cost, in points, {found}"
    figure, (above, below) = new_figure(title, 6.2, nrows=2, ncols=len(groups), sharey="row", height_ratios=(1.25, 1))
    for axes, (setting, nets) in zip(above, groups.items(), strict=True):
        donors_panel(axes, nets)
        axes.set_title(setting)
    above[1].set_xlabel("error (%), gates given in all blocks")
    for axes, nets in zip(below, groups.values(), strict=True):
        blocks_panel(axes, nets)
    below[0].set_ylabel("rise in error (points)")
    below[1].set_xlabel("the only block that gets these gates")
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
    for kind in (gs.SAME, gs.OTHER):
        rises = [100 * (np.array(net.layers[kind].each) - net.error) for net in nets]
        draw_by_layer(axes, np.array(rises), label=kind, color=DONORS[kind])


def swaps_of(nets: Sequence[NetSwaps], field: str, kind: str) -> list[Swap]:
    """Return the effect of a kind of donor in each net; `field` is gates, states or untrained."""
    return [getattr(net, field)[kind] for net in nets]


def per_cent(swaps: list[Swap], measure: str) -> str:
    """Return the mean of a share with its interval, in %."""
    return f"{interval([100 * getattr(swap, measure) for swap in swaps]):.1f}"


def errors_table(log: GateSwapsLog) -> str:
    """Tabulate the error with each kind of given gates, or H, and how often it is the donor's class."""
    groups = settings(log)
    lines = [
        (f"{branch}: {kind}", field, kind, "error")
        for branch, field in BRANCHES.items()
        for kind in gs.KINDS
        if kind in getattr(log.nets[0], field)
    ]
    lines += [
        (f"{branch}: {gs.OTHER}, and classified as it", field, gs.OTHER, "as_donor")
        for branch, field in BRANCHES.items()
    ]
    rows = [
        [words, *(per_cent(swaps_of(nets, field, kind), measure) for nets in groups.values())]
        for words, field, kind, measure in lines
    ]
    seeds = count_of(len(log.nets) // len(groups), "seed")
    return (
        f"{markdown(['error (%), given', *groups], rows)}\n\nMean and 95 % interval (t) over "
        f"{seeds}; T or H is given in all blocks. By chance, one error in nine is the "
        "donor's class; the donor is the image whose T or H is given."
    )


def details_table(log: GateSwapsLog) -> str:
    """Tabulate all measures of each swap in all blocks: gates, then H, then gates in the untrained nets."""
    rows = []
    for setting, nets in settings(log).items():
        for words, field in (BRANCHES | {"T, untrained": "untrained"}).items():
            for kind in getattr(nets[0], field):
                swaps = swaps_of(nets, field, kind)
                distance = interval([swap.distance for swap in swaps])
                cells = (per_cent(swaps, measure) for measure in MEASURES)
                rows.append([setting, f"{words}: {kind}", f"{distance:.3f}", *cells])
    return (
        f"{markdown(['net', 'given', 'distance', *MEASURES.values()], rows)}\n\nDistance: mean absolute difference "
        "from an image's own. In % of the images: misclassified; of these, as the donor's class; classified "
        "differently than with an image's own. Mean and 95 % interval (t) over seeds."
    )


def rises(nets: Sequence[NetSwaps], kind: str) -> list[float]:
    """Return by how many points the error with gates of one kind exceeds that with an image's own, of each net."""
    given, own = (swaps_of(nets, "gates", which) for which in (kind, gs.OWN))
    return [100 * (swap.error - before.error) for swap, before in zip(given, own, strict=True)]


def claims(log: GateSwapsLog) -> list[Claim]:
    """Judge section 4.1's conclusion by gates that depend on no image: do they cost more than an image's own?

    Gates of another class would not do, as they tell a wrong class. Untrained nets are no control: their error is that
    of chance, so they have nothing to lose. A question of ours is whether gates of the same class cost anything.
    """
    groups = settings(log)
    mean, same = (
        {of: interval(rises(nets, kind)) for of, nets in groups.items()} for kind in (gs.OVERALL_MEAN, gs.SAME)
    )
    others = {setting: cost for setting, cost in mean.items() if setting != PAPER}
    n = f"n = {len(log.nets) // len(groups)}"
    paper = "a trained net computes with its gates"
    costs = sorted(rises(groups[PAPER], gs.OVERALL_MEAN))
    why = (
        f"One mean gate for all images costs {mean[PAPER].value:.1f} points of test error, from {costs[0]:.0f} to "
        f"{costs[-1]:.0f} in {count_of(len(costs), 'net')}."
    )
    judged = judge_better(mean[PAPER], ACCURACY_MARGIN)
    return [
        Claim("4.1", paper, judged, why, f"points of test error, {PAPER}: {mean[PAPER]:.1f}; {n}"),
        judge_ours(f"in nets of other settings, {paper}", others, n),
        judge_ours("an image needs its own gates, and not only those of another image of its class", same, n),
    ]


def judge_ours(claim: str, costs: Mapping[str, Interval], n: str) -> Claim:
    """Return the verdict on "these gates cost something" in several settings."""
    verdicts = {setting: judge_better(cost, ACCURACY_MARGIN) for setting, cost in costs.items()}
    measured = f"points of test error, {'; '.join(f'{of} {cost:+.1f}' for of, cost in costs.items())}; {n} each"
    return Claim(OURS, claim, combine(verdicts.values()), holds(verdicts, "for {}"), measured, detail=True)


FIGURES = {"gate_swaps.png": swaps_figure}
TABLES = {"gate_swaps": errors_table, "gate_swaps_details": details_table}
