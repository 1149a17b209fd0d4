"""Figures, tables and claims of lesions; the rules of figure 4's verdicts, which were put in this form after the runs.

"About 60 %" and "fewer are idle" must hold at half, once and twice the threshold of an idle block. CIFAR-10 stands in
for CIFAR-100 in claims of ours alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from highway_lab.console import count_of, name_data
from highway_lab.figures import (
    COLORS,
    FAINT_INK,
    INK,
    draw_by_layer,
    draw_seeds,
    label_ends,
    part_each,
    set_title,
    without_math,
)
from highway_lab.intervals import Interval, interval
from highway_lab.tables import markdown

from . import section_4
from .claims import ONE_NET, OURS, Claim, Verdict, combine, judge_about, judge_better, of_cifar_100, require
from .common_figures import legend_below, minus, name_setting
from .lesions import PAPER_IDLE, LesionsLog, NetLesions
from .looks import models

FIRST = slice(0, 40)  # blocks that the paper finds to cost, of its net for CIFAR-100
COSTLY = {"1 to 14": slice(0, 14), "15 to 45": slice(14, 45), "1 to 40": FIRST}
LAST = 45  # block of these: a shorter net is not split
ABOUT = 10  # points: margin of "about 60 % of the layers"
TIMES = (0.5, 1, 2)  # the threshold of an idle block, at which shares of idle blocks are judged
ALIKE = "tanh from −4"  # the nets for MNIST that have the setting of the net for CIFAR-10
NEARLY_ALL = 80  # % of the blocks that count as "any of them": the paper's borders are approximate
ORDERS = {  # by their names in the log: their names here, and their dashes, as the third curve lies on the first
    "last first": ("closed from the back", "-"),
    "first first": ("closed from the front", "-"),
    "least loss first": ("least loss first", "--"),
    "random": ("random", "-"),
}
PAPER_LAYERS = {  # first and last of the layers of which the paper says so
    "mnist": ((15, 45), "the paper: close to no effect"),
    "cifar": ((1, 40), "the paper, CIFAR-100: each raises the error noticeably"),
}
BAND = "#E4E4E4"  # of the rises of idle layers


def label_of(source: models.Source) -> str:
    """Name the origin of a net."""
    if source.training:
        return f"seed {source.training.seed}"
    names = dict(zip(models.NETS.values(), ("best of the search", "chosen by the grid"), strict=True))
    return names.get(Path(source.file), Path(source.file).stem)


def rise(net: Any) -> np.ndarray:
    """Return the points by which a net's error rises with each block closed, (L,)."""
    return 100 * (np.array(net.lesioned_error) - net.error)


def idle_at(net: Any, points: float) -> float:
    """Return the share of blocks, in %, whose closing changes the error by less than so many points."""
    return float(100 * np.mean(np.abs(rise(net)) < points))


def groups(log: LesionsLog) -> dict[str, list[NetLesions]]:
    """Return the nets trained here, which share a setting, and each net from a file."""
    trained = [net for net in log.nets if net.source.training]
    kinds = {count_of(len(trained), "seed"): trained} if trained else {}
    return kinds | {without_math(label_of(net.source)): [net] for net in log.nets if not net.source.training}


@part_each(height=3.2)
def lesions_figure(figure: FigureBase, log: LesionsLog) -> None:
    """Draw by how much the error rises, by closed block, beside what the paper says of these."""
    kinds = groups(log)
    first, *_ = kinds.values()
    rises = np.mean([rise(net) for net in first], axis=0)
    idle = np.mean([idle_at(net, 100 * log.idle) for net in first])
    found = f"closing block {rises.argmax() + 1} costs most on average, {minus(round(rises.max(), 1))} points"
    set_title(figure, f"{name_data(log.dataset.name)}: {found}; {idle:.0f} % of the blocks are idle")
    axes = figure.subplots()
    for name, nets in kinds.items():
        color = COLORS["highway"] if nets[0].source.training else INK
        draw_by_layer(axes, np.array([rise(net) for net in nets]), label=name, color=color)
    draw_idle(axes, 100 * log.idle)
    bottom, top = axes.get_ylim()
    axes.set(xlabel="closed block", ylabel="rise in error (points)")
    axes.set_ylim(min(bottom, -0.18 * top, -130 * log.idle), 1.2 * top)  # room for words
    layers, words = PAPER_LAYERS["cifar" if log.dataset.name.startswith("cifar") else "mnist"]
    if layers[1] <= axes.get_xlim()[1] and not log.dataset.classes:
        place = {"transform": axes.get_xaxis_transform()}
        axes.plot(layers, [0.9, 0.9], color=FAINT_INK, linewidth=1, **place)
        axes.text(layers[1], 0.93, words, horizontalalignment="right", size=9, **place)
    label_ends(axes)


def draw_idle(axes: Axes, idle: float, words: str = "idle: within ±{:g} points") -> None:
    """Draw the band of rises in error, in points, within which a block is idle, and name it."""
    axes.axhline(0, color=FAINT_INK, linewidth=1, zorder=1)
    axes.axhspan(-idle, idle, color=BAND, linewidth=0, zorder=0)
    place = {"xycoords": axes.get_yaxis_transform(), "xytext": (-2, -2), "textcoords": "offset points"}
    place |= {"horizontalalignment": "right", "verticalalignment": "top"}
    box = {"facecolor": "white", "linewidth": 0, "pad": 0}  # hides curves behind the words
    axes.annotate(words.format(idle), (1, -idle), **place, size=9, bbox=box)


@part_each(height=3.9)
def sets_figure(figure: FigureBase, log: LesionsLog) -> None:
    """Draw the rise in error by number of closed blocks: a curve an order, a panel a group of nets."""
    kinds = groups(log)
    first, *_ = kinds.values()
    spared = [sorted(net.closings[order].spared[0] for net in first) for order in ("last first", "first first")]
    back, front = (" to ".join(map(str, dict.fromkeys([few[0], few[-1]]))) for few in spared)
    found = f"{back} blocks from the back can be closed, or {front} from the front"
    set_title(figure, f"{name_data(log.dataset.name)}: at a cost of at most {100 * log.point:g} point, {found}")
    panels = figure.subplots(ncols=len(kinds), sharey=True, squeeze=False)[0]
    for axes, (name, nets) in zip(panels, kinds.items(), strict=True):
        for (order, (label, dashes)), color in zip(ORDERS.items(), COLORS.values(), strict=False):
            errors = 100 * np.array([np.mean(net.closings[order].errors, axis=0) for net in nets])
            closed = np.arange(errors.shape[1])
            draw_seeds(axes, closed, errors - errors[:, :1], label=label, color=color, linestyle=dashes)
        axes.axhline(0, color=FAINT_INK, linewidth=1, zorder=1)
        axes.set(title=name, xlabel="closed blocks", xlim=(0, closed[-1]))
    panels[0].set_ylabel("rise in error (points)")
    legend_below(figure, panels[0])  # as all curves end at the same point: the net with all blocks closed


def lesions_table(*logs: LesionsLog) -> str:
    """Tabulate, by net, its error, its idle blocks by several thresholds, and the blocks that it needs."""
    log, depths = logs[0], [len(net.lesioned_error) for of in logs for net in of.nets]
    costly = COSTLY if min(depths) >= LAST else {f"1 to {max(depths)}": slice(None)}
    thresholds = [value for value in log.idle_thresholds if log.idle / 2 <= value <= 2 * log.idle]
    rows = [
        [
            name_net(of, net),
            f"{net.error:.2%}",
            *(f"{net.idle[of.idle_thresholds.index(value)] / len(net.lesioned_error):.0%}" for value in thresholds),
            *(f"{np.count_nonzero(rise(net)[part] > 100 * of.idle)}" for part in costly.values()),
            f"{len(net.needed)}",
        ]
        for of in logs
        for net in of.nets
    ]
    idle = [f"idle, {100 * value:g} points" for value in thresholds]
    note = (
        f"Idle: blocks whose closing changes the error by less than this. Costly: closing raises it by over "
        f"{100 * log.idle:g} points. Very costly: by over {100 * log.point:g}."
    )
    names = [f"costly, blocks {words}" for words in costly]
    return f"{markdown(['net', 'training error', *idle, *names, 'very costly'], rows)}\n\n{note}"


def sets_table(*logs: LesionsLog) -> str:
    """Tabulate, by net, how many blocks can be closed in each order before accuracy has fallen by a point."""
    rows = [
        [name_net(log, net), *(f"{np.mean(net.closings[order].spared):.0f}" for order in ORDERS)]
        for log in logs
        for net in log.nets
    ]
    return (
        f"{markdown(['net', *(label for label, _ in ORDERS.values())], rows)}\n\n"
        f"Blocks that can be closed in this order before accuracy has fallen by {100 * logs[0].point:g} point; "
        "random: the mean of ten orders."
    )


def name_net(log: LesionsLog, net: NetLesions) -> str:
    return f"{name_data(log.dataset.name)}, {label_of(net.source)}"


def judge_any(shares: Sequence[float]) -> Verdict:
    """Judge "closing any of these layers raises the error" by each net's share of costly blocks, in %.

    The claim is on every block of a net, so a net fulfils it or not: all nets must, and a single one does not suffice.
    """
    fulfilled = {share >= NEARLY_ALL for share in shares}
    if len(shares) == 1 and True in fulfilled:
        return Verdict.INCONCLUSIVE
    return {(True,): Verdict.REPRODUCED, (False,): Verdict.NOT_REPRODUCED}.get((*fulfilled,), Verdict.INCONCLUSIVE)


def judge_idle(shares: Sequence[float]) -> Verdict:
    """Judge "about 60 % of the layers do not contribute" by the nets' shares of idle blocks, in %."""
    return judge_about(interval(np.subtract(shares, 100 * PAPER_IDLE)), ABOUT)


def judge_fewer(share: float, others: Sequence[float]) -> Verdict:
    """Judge "fewer blocks are idle" by the share of one net, which has ONE_NET for an interval, and those of others."""
    beyond = interval(np.subtract(others, share))
    return judge_better(Interval(beyond.value, beyond.half + ONE_NET), 0)


def idle_range(idle: float, half: Sequence[float], twice: Sequence[float]) -> str:
    """Say how far the share of idle blocks depends on the threshold and on the net."""
    return (
        f"A block is idle if closing it changes the training error by less than {idle:g} points. The share of idle "
        f"blocks depends on that threshold: from half of it to twice, it lies between {min(half):.0f} and "
        f"{max(twice):.0f} % in single nets."
    )


def claims(log: LesionsLog) -> list[Claim]:
    """Return the claims on figure 4 and the data set: on MNIST by the nets of one setting."""
    if log.dataset.name.startswith("cifar"):
        return cifar_claims(log)
    nets, idle = next(iter(groups(log).values())), 100 * log.idle
    half, once, twice = ([idle_at(net, idle * times) for net in nets] for times in TIMES)
    about_60 = f"about {PAPER_IDLE:.0%} of the blocks are idle in nets of our search's best setting"
    measured = (
        f"{interval(once):.0f} % of the blocks are idle at {idle:g} points, {interval(half):.0f} % at half of that, "
    )
    measured += f"{interval(twice):.0f} % at twice; n = {len(nets)}"
    verdict = combine(judge_idle(shares) for shares in (half, once, twice))
    return [Claim(OURS, about_60, verdict, idle_range(idle, half, twice), measured, detail=True)]


def cifar_claims(log: LesionsLog) -> list[Claim]:
    """Return the paper's claim on CIFAR-100, and what a net for CIFAR-10 shows, alone and beside nets for MNIST."""
    idle, data = 100 * log.idle, name_data(log.dataset.name)
    cost = [100 * float(np.mean(rise(net)[FIRST] > idle)) for net in log.nets]
    paper, ours = (
        f"on {of}, closing any of the first 40 layers raises the error noticeably" for of in ("CIFAR-100", data)
    )
    why = (
        f"{np.mean(cost):.0f} % of these blocks cost over {idle:g} points of training error when one is closed; we "
        f"ask for at least {NEARLY_ALL} %."
    )
    measured = f"of the first 40 blocks, {interval(cost):.0f} % cost over {idle:g} points; n = {len(cost)}"
    return [
        of_cifar_100("4.2, figure 4", paper),
        Claim(OURS, ours, judge_any(cost), why, measured, detail=True),
        like_for_like(log),
    ]


def like_for_like(log: LesionsLog) -> Claim:
    """Return the claim that a net for CIFAR-10 uses more blocks than nets of the same setting that learned MNIST."""
    path, net, idle = section_4.EXPERIMENT.log_path(), log.nets[0], 100 * log.idle
    others = [of.trained for of in section_4.EXPERIMENT.read(path).nets if name_setting(of.source.training) == ALIKE]
    shares = {
        idle * times: (idle_at(net, idle * times), [idle_at(of, idle * times) for of in others]) for times in TIMES
    }
    share, mnist = shares[idle]
    why = (
        f"{share:.0f} % of its blocks are idle, and {np.mean(mnist):.0f} % of theirs. But its training error is "
        f"{net.error:.0%}, so more of its images can tip."
    )
    each = "; ".join(
        f"{of:.0f} and {interval(those):.0f} % at {points:g} points" for points, (of, those) in shares.items()
    )
    measured = f"idle blocks: {each}; n = 1 and {len(others)}"
    paper = f"a net for {name_data(log.dataset.name)} leaves fewer blocks idle than nets of its setting for MNIST"
    return Claim(OURS, paper, require(*(judge_fewer(*of) for of in shares.values())), why, measured, detail=True)


FIGURES = {"fig4_lesions.png": lesions_figure, "lesion_sets.png": sets_figure}
TABLES = {"lesions": lesions_table, "lesions_sets": sets_table}
