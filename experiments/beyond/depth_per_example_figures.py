"""Pictures and tables of depth, image by image: what it has to do with hardness, and how early a net may exit."""

from collections.abc import Callable, Iterable
from itertools import zip_longest
from operator import attrgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_tested
from highway_lab.figures import FAINT_INK, INK, SETTINGS, draw_level, draw_seeds, in_math, markdown, new_figure

from ..intervals import Interval, interval
from .depth_per_example import EFFECTIVE, JUDGE, PARTS, DepthPerExampleLog, Depths, Relation, SettingDepth
from .early_exit import Exit

HARDNESS = ("own margin", JUDGE, "other seeds")  # that the table tells; a net's loss ranks images nearly as its margin
WHEN = ("trained", "untrained")
VERDICTS = {1: "more layers", -1: "fewer layers", 0: "not told apart"}
RULE = (
    "More layers: the interval within classes lies above 0, and so does that of the difference, seed by seed, to the "
    "untrained nets, whose correlation counts as 0 where there is none; fewer: both lie below; else not told apart."
)
FAMILIES = {"-": "each where the net is sure", "--": "all at the same layer"}
APART = 0.25  # of the settings, in the panel of classes


def coloured(log: DepthPerExampleLog) -> list[tuple[SettingDepth, str]]:
    """The settings, and the colour of each."""
    return list(zip(log.settings, SETTINGS, strict=False))


def title(log: DepthPerExampleLog, what: str) -> str:
    """What is drawn, data set and seeds."""
    return f"{name_tested(log.dataset)}: {what}, {len(log.settings[0].nets)} seeds"


# ----------------------------------------------------------------------------------------- figures


def depth_figure(log: DepthPerExampleLog) -> Figure:
    """Effective depth, less the net's mean: against how hard an image is among its class, and by class."""
    figure, (left, right) = new_figure(title(log, "effective depth of an image"), 4.6, ncols=2)
    draw_by_part(left, log)
    draw_by_class(right, log)
    label_below(figure, left)
    return figure


def label_below(figure: Figure, axes: Axes, *others: Line2D) -> None:
    """Say below a figure which colour is which setting, as several curves end close to each other; then the others."""
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    columns = zip_longest(lines, others)  # a legend is filled column by column
    handles = [line for column in columns for line in column if line]
    figure.legend(handles=handles, ncols=len(lines), loc="outside lower center", frameon=False)


def draw_by_part(axes: Axes, log: DepthPerExampleLog) -> None:
    """The mean of each tenth of all classes: untrained nets grey, trained ones coloured."""
    x = np.arange(1, PARTS + 1)
    for setting in log.settings:
        axes.plot(x, off_mean(net.untrained.by_part for net in setting.nets).T, color=FAINT_INK, linewidth=1, alpha=0.4)
    axes.lines[0].set_label("untrained")
    for setting, color in coloured(log):
        parts = off_mean(net.trained.by_part for net in setting.nets)
        draw_seeds(axes, x, parts, label=in_math(setting.setting.name), color=color)
    axes.set(xlabel="tenth of its class, easiest to hardest", ylabel="less the net's mean (%)")
    axes.set_xticks(x)


def off_mean(values: Iterable[list[float]]) -> np.ndarray:
    """Each row less its mean, in per cent of it."""
    table = np.array(list(values))
    return 100 * (table / table.mean(axis=1, keepdims=True) - 1)


def draw_by_class(axes: Axes, log: DepthPerExampleLog) -> None:
    """Median and quartiles of each class of the trained nets: each seed's median faint, means over seeds bold."""
    draw_level(axes, 0, "_mean")
    for (setting, color), shift in zip(coloured(log), APART * np.arange(-1, len(log.settings) - 1), strict=True):
        quartiles = np.array([net.trained.by_class for net in setting.nets])  # (seeds, classes, 3)
        means = np.array([net.trained.mean[EFFECTIVE] for net in setting.nets])
        quartiles = 100 * (quartiles / means[:, None, None] - 1)
        x = np.arange(quartiles.shape[1]) + shift
        low, middle, high = quartiles.mean(axis=0).T
        axes.plot(x, quartiles[:, :, 1].T, ".", color=color, alpha=0.4, markersize=4)
        axes.vlines(x, low, high, color=color, linewidth=1.5)
        axes.plot(x, middle, "_", color=color, markersize=8, markeredgewidth=2)
    axes.set_xlabel("class: median and quartiles, trained")
    axes.set_xticks(range(quartiles.shape[1]))


def exits_figure(log: DepthPerExampleLog) -> Figure:
    """Test error: left against the layer at which all images leave, right against the mean depth."""
    figure, (left, right) = new_figure(title(log, "leaving early"), 4.6, ncols=2, sharey=True)
    for setting, color in coloured(log):
        fixed = error(net.by_layer for net in setting.nets)
        sure = error(net.confident_score for net in setting.nets)
        depths = np.array([net.confident_depth for net in setting.nets])
        layers = np.arange(fixed.shape[1])
        draw_seeds(left, layers, fixed, label=in_math(setting.setting.name), color=color)
        right.plot(layers, fixed.mean(axis=0), "--", color=color, linewidth=1.5)
        right.plot(depths.T, sure.T, color=color, linewidth=1, alpha=0.4)
        right.plot(depths.mean(axis=0), sure.mean(axis=0), color=color)
        for net in setting.nets:
            right.plot(
                net.confident.depth, 100 * (1 - net.by_layer[-1] + net.confident.lost), "o", color=color, clip_on=False
            )
    for axes, words in ((left, "blocks computed, the same for all"), (right, "blocks computed, mean over images")):
        axes.set(xlabel=words, xlim=(0, layers[-1]), yscale="log")
    left.set_title("test error (%)")
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100) if left.get_ylim()[0] <= tick <= left.get_ylim()[1]]
    left.set_yticks(ticks, ticks)
    left.yaxis.set_minor_formatter(NullFormatter())
    families = (Line2D([], [], color=INK, linestyle=of, label=name) for of, name in FAMILIES.items())
    label_below(figure, left, *families, Line2D([], [], color=INK, marker="o", linestyle="", label="chosen, by seed"))
    return figure


def error(scores: Iterable[list[float]]) -> np.ndarray:
    """In per cent, a row a seed."""
    return 100 * (1 - np.array(list(scores)))


# ----------------------------------------------------------------------------------------- tables


def values(setting: SettingDepth, of: Callable[[Depths], float | None], when: str = "trained") -> np.ndarray:
    """A value of each of the setting's nets, trained or untrained; NaN where it has none."""
    return np.array([of(getattr(net, when)) for net in setting.nets], float)


def signed(found: Interval) -> str:
    """`+0.21 ± 0.30`; "none" where a net had none."""
    return format(found, "+.2f")


def verdict(setting: SettingDepth, of: Callable[[Depths], float | None]) -> str:
    """Whether a harder image uses more layers, by a correlation of depth and hardness.

    More if it lies above 0 and above that of the same nets untrained, each by its interval over seeds; fewer if below.
    An untrained net that gives all images the same depth counts as one without a correlation.
    """
    trained, untrained = (values(setting, of, when) for when in WHEN)
    signs = {interval(trained).sign, interval(trained - np.nan_to_num(untrained)).sign}
    return VERDICTS[signs.pop() if len(signs) == 1 else 0]


def correlations_table(log: DepthPerExampleLog) -> str:
    """Effective depth and hardness: a row a setting and a measure of hardness."""
    held = list(log.settings[0].nets[0].trained.relations[EFFECTIVE][JUDGE].held)
    rows = []
    for setting in log.settings:
        for hardness in HARDNESS:
            fields = [attrgetter("all"), attrgetter("within"), *(held_constant(name) for name in held)]
            everywhere, within, *with_held = (correlation(EFFECTIVE, hardness, field) for field in fields)
            untrained = interval(values(setting, within, "untrained"))
            cells = [interval(values(setting, of)) for of in (everywhere, within)]
            cells += [untrained, *(interval(values(setting, of)) for of in with_held)]
            rows.append([setting.setting.name, hardness, *map(signed, cells), verdict(setting, within)])
    header = ["setting", "hardness", "all images", "within classes", "untrained", *(f"{of} held" for of in held)]
    judge = f"{log.fit_images:,} training images, test accuracy {log.settings[0].judge_score:.3f}"
    return (
        f"{markdown([*header, 'a harder image uses'], rows)}\n\nSpearman's correlation of an image's effective depth "
        f"with how hard it is, {log.dataset.n_test:,} test images: by how far the best wrong class is ahead in this "
        f"net, by the loss of logistic regression on pixels ({judge}), by the mean loss of the other seeds' nets. From "
        "the second column of numbers on, means over classes; held constant: the image's mean pixel, the norm of the "
        f"first block's input, that of the last block's output. {intervals_note(log)} {RULE}"
    )


def correlation(measure: str, hardness: str, field: Callable[[Relation], float | None]) -> Callable[[Depths], Any]:
    """What takes one of the correlations from the depths of a net."""
    return lambda depths: field(depths.relations[measure][hardness])


def held_constant(name: str) -> Callable[[Relation], float | None]:
    """What takes the correlation with that held constant."""
    return lambda relation: relation.held[name]


def measures_table(log: DepthPerExampleLog) -> str:
    """Each measure of depth and the judge: a row a setting and a measure."""
    rows = []
    for setting in log.settings:
        for measure in setting.nets[0].trained.mean:
            means = (interval(values(setting, lambda of, name=measure: of.mean[name], when)) for when in WHEN)
            within = correlation(measure, JUDGE, attrgetter("within"))
            found = (interval(values(setting, within, when)) for when in WHEN)
            cells = [*(f"{of:.1f}" for of in means), *map(signed, found)]
            rows.append([setting.setting.name, measure, *cells, verdict(setting, within)])
    header = ["setting", "depth", "mean", "untrained", "correlation", "untrained", "a harder image uses"]
    return (
        f"{markdown(header, rows)}\n\nThe effective depth, and the number of layers with ‖y − x‖ above a share of ‖x‖: "
        "mean over test images, and correlation with the judge's loss within classes; none where all images have the "
        f"same depth. {intervals_note(log)} {RULE}"
    )


def groups_table(log: DepthPerExampleLog) -> str:
    """How much of a layer it is: hardest and easiest images, those that are missed, classes."""
    rows = []
    for setting in log.settings:
        cells = [
            format(interval(values(setting, lambda of: of.mean[EFFECTIVE])), ".2f"),
            *(format(interval(values(setting, tenths_apart, when)), "+.3f") for when in WHEN),
            f"{np.mean([net.errors for net in setting.nets]):.0f}",
            format(interval(values(setting, attrgetter("missed"))), "+.3f"),
            *(signed(interval(values(setting, missed_in_spreads, when))) for when in WHEN),
            *(f"{np.mean(values(setting, attrgetter('of_class'), when)):.1%}" for when in WHEN),
            f"{np.mean(values(setting, attrgetter('of_random_groups'))):.1%}",
        ]
        rows.append([setting.setting.name, *cells])
    header = ["setting", "effective depth", "hardest less easiest tenth", "untrained", "missed images"]
    header += ["missed less others", "in standard deviations", "untrained", "share of classes", "untrained", "chance"]
    return (
        f"{markdown(header, rows)}\n\nEffective depth, in layers. Hardest and easiest tenth of each class by the "
        "judge; images that the trained net misses, each less the mean of the others of its class, also in standard "
        "deviations within classes; the share of the variance that classes explain, and that random groups as large "
        f"explain. {intervals_note(log)}"
    )


def missed_in_spreads(depths: Depths) -> float | None:
    """How much deeper missed images are than the others of their class, in standard deviations within classes."""
    return None if depths.missed is None else depths.missed / depths.spread


def tenths_apart(depths: Depths) -> float:
    """Effective depth of the hardest part of each class less that of the easiest."""
    return depths.by_part[-1] - depths.by_part[0]


def early_table(log: DepthPerExampleLog) -> str:
    """How many blocks images need that leave early: a row a setting."""
    rows = []
    for setting in log.settings:
        nets = setting.nets
        confident, fixed = [net.confident for net in nets], [net.fixed for net in nets]
        doubts = [log.doubts[option] for of in confident for option in of.chosen]
        lost_if_fixed = [net.by_layer[-1] - of.at_fixed_depth for net, of in zip(nets, confident, strict=True)]
        rows.append(
            [
                setting.setting.name,
                f"{np.mean([net.by_layer[-1] for net in nets]):.2%}",
                f"{min(doubts):g} to {max(doubts):g}",
                format(interval([of.depth for of in confident]), ".1f"),
                lost_points(confident),
                f"{100 * np.mean(lost_if_fixed):.2f}",
                format(interval([of.depth for of in fixed]), ".1f"),
                lost_points(fixed),
            ]
        )
    layers = len(log.settings[0].nets[0].by_layer) - 1
    header = ["setting", "test accuracy", "ε", f"blocks of {layers}", "points lost", "all at that depth"]
    header += ["all at the same: blocks", "points lost"]
    return (
        f"{markdown(header, rows)}\n\nAn image leaves at the first block after which the last layer gives a class more "
        f"than 1 − ε. ε is the largest such that it and all smaller ones lose less than {100 * log.lost:g} points on "
        "one half of the test images, as no training image is new to these nets; blocks and points lost are those of "
        "the other half, and the other way round. Beside it the points lost if all images leave at the same block, "
        "equally deep (between two blocks, by interpolation), and the earliest same block, chosen alike. Blocks: mean "
        "over seeds with its 95 % interval (t); points: mean over seeds ± standard error of one net's, paired."
    )


def lost_points(found: list[Exit]) -> str:
    """Mean over seeds, and the standard error of one."""
    return f"{100 * np.mean([of.lost for of in found]):.2f} ± {100 * np.mean([of.lost_error for of in found]):.2f}"


def intervals_note(log: DepthPerExampleLog) -> str:
    """What a ± means."""
    return f"Mean over {len(log.settings[0].nets)} seeds with its 95 % interval (t)."


FIGURES = {"depth_per_example.png": depth_figure, "early_exits.png": exits_figure}
TABLES = {
    "depth_per_example": correlations_table,
    "depth_measures": measures_table,
    "depth_groups": groups_table,
    "early_exits": early_table,
}
