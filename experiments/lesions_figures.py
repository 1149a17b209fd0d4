"""Figures, table and claim of lesions."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_data
from highway_lab.figures import COLORS, INK, draw_by_layer, draw_seeds, label_ends, markdown, part_each, set_title

from .claims import Claim
from .lesions import PAPER_IDLE, LesionsLog, NetLesions

DASHES = ("-", "-", "--", "-")  # by order: the third curve lies on the first
FIRST, LATER = slice(0, 40), slice(40, None)  # layers of CIFAR's nets, as the paper divides them


def groups(log: LesionsLog) -> dict[str, list[NetLesions]]:
    """Return the nets trained here, which share a setting, and each net from a file."""
    trained = [net for net in log.nets if net.source.training]
    kinds = {f"{len(trained)} seeds": trained} if trained else {}
    return kinds | {net.source.label: [net] for net in log.nets if not net.source.training}


@part_each(height=6.0)
def lesions_figure(figure: FigureBase, log: LesionsLog) -> None:
    """Draw error and loss by closed layer; dashed: none closed."""
    set_title(figure, f"Training set with one layer closed: {name_data(log.dataset.name)}")
    panels = figure.subplots(nrows=2, sharex=True)
    for axes, field, factor in zip(panels, ("error", "loss"), (100, 1), strict=True):
        for name, nets in groups(log).items():
            color = COLORS["highway"] if nets[0].source.training else INK
            curves = factor * np.array([getattr(net, f"lesioned_{field}") for net in nets])
            draw_by_layer(axes, curves, label=name, color=color)
            level = factor * np.mean([getattr(net, field) for net in nets])
            axes.axhline(level, color=color, linewidth=1, linestyle=(0, (3, 5)), label="none closed")
    panels[0].set_title("error (%)")
    begin_at_zero(panels[0], margin=0.04)  # so that the line of a net without errors shows
    panels[1].set(title="mean loss (nats)", xlabel="closed layer")
    decades = np.log10(panels[1].dataLim.intervaly)
    if np.ptp(decades) > 1:
        panels[1].set_yscale("log")
        panels[1].set_ylim(10 ** np.floor(decades[0]), 10 ** np.ceil(decades[1]))
        panels[1].yaxis.set_minor_formatter(NullFormatter())
    for axes in panels:
        label_ends(axes)


def begin_at_zero(axes: Axes, margin: float = 0) -> None:
    """Let the axis begin at zero, or a margin below it, unless all values lie far above."""
    low, high = axes.dataLim.intervaly
    if low < high / 2:
        axes.set_ylim(bottom=-margin * axes.get_ylim()[1])


@part_each(height=4.2)
def sets_figure(figure: FigureBase, log: LesionsLog) -> None:
    """Draw the error by number of closed layers: a curve an order, a panel a group of nets."""
    kinds = groups(log)
    set_title(figure, f"{log.set_images:,} training images with several layers closed: {name_data(log.dataset.name)}")
    panels = figure.subplots(ncols=len(kinds), sharey=True, squeeze=False)
    for axes, (name, nets) in zip(panels[0], kinds.items(), strict=True):
        for order, color, dashes in zip(nets[0].closings, COLORS.values(), DASHES, strict=False):
            errors = 100 * np.concatenate([net.closings[order].errors for net in nets])
            draw_seeds(axes, np.arange(errors.shape[1]), errors, label=order, color=color, linestyle=dashes)
        axes.set(title=name, xlabel="closed layers", xlim=(0, errors.shape[1] - 1))
    panels[0, 0].set_ylabel("error (%)")
    begin_at_zero(panels[0, 0])
    # A legend below, as all curves end at the same point: the net with all layers closed.
    lines = [line for line in panels[0, 0].lines if not line.get_label().startswith("_")]
    figure.legend(handles=lines, ncols=len(lines), loc="outside lower center", frameon=False)


def lesions_table(*logs: LesionsLog) -> str:
    """Tabulate, by net, its error, its idle and needed layers, and how many layers can be closed by order."""
    orders = list(logs[0].nets[0].closings)
    rows = []
    for log in logs:
        for net in log.nets:
            needed = f"{len(net.needed)} ({min(net.needed)} to {max(net.needed)})" if net.needed else "none"
            spared = [f"{np.mean(net.closings[order].spared):.0f}" for order in orders]
            name = f"{name_data(log.dataset.name)}, {net.source.label}"
            rows.append([name, f"{net.error:.2%}", f"{net.idle_share:.0%}", needed, *spared])
    table = markdown(["net", "training error", "idle layers", "needed layers", *orders], rows)
    return "\n\n".join([table, *dict.fromkeys(map(lesions_note, logs))])


def lesions_note(log: LesionsLog) -> str:
    """Return the note below the table on one log."""
    return (
        f"Idle: closing the layer changes the error by less than {100 * log.idle:g} percentage points; needed: it "
        f"rises by over {100 * log.point:g}. The last columns: how many layers can be closed, in that order, before "
        f"accuracy has fallen by {100 * log.point:g}. The paper: about {PAPER_IDLE:.0%} idle on MNIST."
    )


def claims(log: LesionsLog) -> list[Claim]:
    """Return the paper's claim on figure 4 and CIFAR-100, judged by each net."""
    rises = [np.array(net.lesioned_error) - net.error for net in log.nets]
    early, late = ([int(np.count_nonzero(rise[part] > log.idle)) for rise in rises] for part in (FIRST, LATER))
    at_all = [int(np.count_nonzero(rise[FIRST] > 0)) for rise in rises]
    idle = [net.idle_share for net in log.nets]
    return [
        Claim(
            "4.2, figure 4",
            "on CIFAR-100, closing any of the first 40 layers raises the error noticeably",
            f"CIFAR-10, by over {100 * log.idle:g} points: {listed(early)} of 40 (at all: {listed(at_all)}), "
            f"{listed(late)} of 9; "
            f"idle: {' to '.join(dict.fromkeys((f'{min(idle):.0%}', f'{max(idle):.0%}')))}",
            "held" if min(early) == 40 else "mostly" if min(early) > 30 else "partly" if min(early) > 20 else "not",
        )
    ]


def listed(counts: list[int]) -> str:
    return ", ".join(map(str, counts))


FIGURES = {"fig4_lesions.png": lesions_figure, "lesion_sets.png": sets_figure}
TABLES = {"lesions": lesions_table}
