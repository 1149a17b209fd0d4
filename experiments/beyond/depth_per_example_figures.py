"""Pictures and tables of depth, image by image: its correlation with hardness, and early exits."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from highway_lab.console import name_tested
from highway_lab.figures import FAINT_INK, INK, SETTINGS, draw_level, draw_seeds, in_math, markdown, new_figure
from highway_lab.intervals import interval

from .depth_per_example import EFFECTIVE, JUDGE, PARTS, DepthPerExampleLog, Depths, SettingDepth
from .early_exit import Exit

HARDNESS = ("own margin", JUDGE, "other seeds")  # in the table; a net's loss ranks images nearly as its margin does
VERDICTS = {1: "more layers", -1: "fewer layers", 0: "not told apart"}
RULE = (
    "More layers: the interval within classes lies above 0, and so does that of the difference, seed by seed, to the "
    "untrained nets, whose correlation counts as 0 where there is none; fewer: both lie below; else not told apart."
)
FAMILIES = {"-": "each where the net is sure", "--": "all at the same layer"}
APART = 0.25  # distance of the settings in the panel of classes


def coloured(log: DepthPerExampleLog) -> list[tuple[SettingDepth, str]]:
    """Pair each setting with its colour."""
    return list(zip(log.settings, SETTINGS, strict=False))


def both(setting: SettingDepth) -> tuple[list[Depths], list[Depths]]:
    """Return the depths of a setting's nets: trained, untrained."""
    return [net.trained for net in setting.nets], [net.untrained for net in setting.nets]


def column(nets: Sequence, name: str) -> np.ndarray:
    """Return a field of each net, (seeds, ...); NaN in place of None."""
    return np.array([getattr(net, name) for net in nets], float)


def title(log: DepthPerExampleLog, what: str) -> str:
    """Write a title: the data set, the subject, the number of seeds."""
    return f"{name_tested(log.dataset)}: {what}, {len(log.settings[0].nets)} seeds"


# ----------------------------------------------------------------------------------------- figures


def depth_figure(log: DepthPerExampleLog) -> Figure:
    """Draw effective depth minus the net's mean: by an image's hardness within its class, and by class."""
    figure, (left, right) = new_figure(title(log, "effective depth of an image"), 4.6, ncols=2)
    draw_by_part(left, log)
    draw_by_class(right, log)
    label_below(figure, left)
    return figure


def label_below(figure: Figure, axes: Axes, *others: Line2D) -> None:
    """Draw a legend of the settings below a figure, as curves end close to each other, and of other lines."""
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    columns = zip_longest(lines, others)  # a legend is filled column by column
    handles = [line for column in columns for line in column if line]
    figure.legend(handles=handles, ncols=len(lines), loc="outside lower center", frameon=False)


def draw_by_part(axes: Axes, log: DepthPerExampleLog) -> None:
    """Draw the mean of each tenth of all classes: untrained nets grey, trained ones coloured."""
    x = np.arange(1, PARTS + 1)
    for setting in log.settings:
        _, untrained = both(setting)
        axes.plot(x, off_mean(column(untrained, "by_part")).T, color=FAINT_INK, linewidth=1, alpha=0.4)
    axes.lines[0].set_label("untrained")
    for setting, color in coloured(log):
        trained, _ = both(setting)
        draw_seeds(axes, x, off_mean(column(trained, "by_part")), label=in_math(setting.setting.name), color=color)
    axes.set(xlabel="tenth of its class, easiest to hardest", ylabel="less the net's mean (%)")
    axes.set_xticks(x)


def off_mean(values: np.ndarray) -> np.ndarray:
    """Return each row minus its mean, as % of the mean."""
    return 100 * (values / values.mean(axis=1, keepdims=True) - 1)


def draw_by_class(axes: Axes, log: DepthPerExampleLog) -> None:
    """Draw median and quartiles of each class, trained nets: medians of seeds faint, means over seeds bold."""
    draw_level(axes, 0, "_mean")
    for (setting, color), shift in zip(coloured(log), APART * np.arange(-1, len(log.settings) - 1), strict=True):
        trained, _ = both(setting)
        quartiles = column(trained, "by_class")  # (seeds, classes, 3)
        means = np.array([net.mean[EFFECTIVE] for net in trained])
        quartiles = 100 * (quartiles / means[:, None, None] - 1)
        x = np.arange(quartiles.shape[1]) + shift
        low, middle, high = quartiles.mean(axis=0).T
        axes.plot(x, quartiles[:, :, 1].T, ".", color=color, alpha=0.4, markersize=4)
        axes.vlines(x, low, high, color=color, linewidth=1.5)
        axes.plot(x, middle, "_", color=color, markersize=8, markeredgewidth=2)
    axes.set_xlabel("class: median and quartiles, trained")
    axes.set_xticks(range(quartiles.shape[1]))


def exits_figure(log: DepthPerExampleLog) -> Figure:
    """Draw test error: left by the block after which all images leave, right by the mean number of blocks."""
    figure, (left, right) = new_figure(title(log, "leaving early"), 4.6, ncols=2, sharey=True)
    for setting, color in coloured(log):
        fixed, sure = (100 * (1 - column(setting.nets, name)) for name in ("by_layer", "confident_score"))
        depths, chosen = column(setting.nets, "confident_depth"), [net.confident for net in setting.nets]
        layers = np.arange(fixed.shape[1])
        draw_seeds(left, layers, fixed, label=in_math(setting.setting.name), color=color)
        right.plot(layers, fixed.mean(axis=0), "--", color=color, linewidth=1.5)
        right.plot(depths.T, sure.T, color=color, linewidth=1, alpha=0.4)
        right.plot(depths.mean(axis=0), sure.mean(axis=0), color=color)
        right.plot(
            column(chosen, "depth"), fixed[:, -1] + 100 * column(chosen, "lost"), "o", color=color, clip_on=False
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


# ----------------------------------------------------------------------------------------- tables


def correlations(nets: list[Depths], measure: str, hardness: str, which: str = "within") -> np.ndarray:
    """Return a correlation of each net, (seeds,); `which`: "all" images, "within" classes, or the variable held."""
    relations = [net.relations[measure][hardness] for net in nets]
    return np.array([(vars(relation) | relation.held)[which] for relation in relations], float)


def signed(found: np.ndarray) -> str:
    """Format the interval of a mean: `+0.21 ± 0.30`; "none" if a value is missing."""
    return format(interval(found), "+.2f")


def verdict(trained: np.ndarray, untrained: np.ndarray) -> str:
    """Judge by correlations of depth and hardness, (seeds,) each, whether a harder image uses more layers.

    It does if the interval over seeds lies above 0, and so does that of the difference to the untrained nets. An
    untrained net that gives all images the same depth counts as one with correlation 0.
    """
    signs = {interval(trained).sign, interval(trained - np.nan_to_num(untrained)).sign}
    return VERDICTS[signs.pop() if len(signs) == 1 else 0]


def correlations_table(log: DepthPerExampleLog) -> str:
    """Tabulate correlations of effective depth: a row for each setting and measure of hardness."""
    held = list(log.settings[0].nets[0].trained.relations[EFFECTIVE][JUDGE].held)
    rows = []
    for setting in log.settings:
        for hardness in HARDNESS:
            within, before = (correlations(nets, EFFECTIVE, hardness) for nets in both(setting))
            over_all, *others = (correlations(both(setting)[0], EFFECTIVE, hardness, which) for which in ("all", *held))
            cells = map(signed, (over_all, within, before, *others))
            rows.append([setting.setting.name, hardness, *cells, verdict(within, before)])
    header = ["setting", "hardness", "all images", "within classes", "untrained", *(f"{of} held" for of in held)]
    judge = f"{log.fit_images:,} training images, test accuracy {log.settings[0].judge_score:.3f}"
    return (
        f"{markdown([*header, 'a harder image uses'], rows)}\n\nSpearman's correlation of an image's effective depth "
        f"with how hard it is, {log.dataset.n_test:,} test images: by how far the best wrong class is ahead in this "
        f"net, by the loss of logistic regression on pixels ({judge}), by the mean loss of the other seeds' nets. From "
        "the second column of numbers on, means over classes; held constant: the image's mean pixel, the norm of the "
        f"first block's input, that of the last block's output. {intervals_note(log)} {RULE}"
    )


def measures_table(log: DepthPerExampleLog) -> str:
    """Tabulate each measure of depth and its correlation with the judge's loss: a row for each setting and measure."""
    rows = []
    for setting in log.settings:
        for measure in setting.nets[0].trained.mean:
            means = (interval([net.mean[measure] for net in nets]) for nets in both(setting))
            within = [correlations(nets, measure, JUDGE) for nets in both(setting)]
            cells = [*(f"{mean:.1f}" for mean in means), *map(signed, within)]
            rows.append([setting.setting.name, measure, *cells, verdict(*within)])
    header = ["setting", "depth", "mean", "untrained", "correlation", "untrained", "a harder image uses"]
    return (
        f"{markdown(header, rows)}\n\nThe effective depth, and the number of layers with ‖y − x‖ above a share of ‖x‖: "
        "mean over test images, and correlation with the judge's loss within classes; none where all images have the "
        f"same depth. {intervals_note(log)} {RULE}"
    )


def groups_table(log: DepthPerExampleLog) -> str:
    """Tabulate differences of effective depth: hardest and easiest images, misclassified images, classes."""
    rows = []
    for setting in log.settings:
        trained, _ = both(setting)
        parts = [column(nets, "by_part") for nets in both(setting)]
        cells = [
            format(interval([net.mean[EFFECTIVE] for net in trained]), ".2f"),
            *(format(interval(part[:, -1] - part[:, 0]), "+.3f") for part in parts),
            f"{column(setting.nets, 'errors').mean():.0f}",
            format(interval(column(trained, "missed")), "+.3f"),
            *(signed(column(nets, "missed") / column(nets, "spread")) for nets in both(setting)),
            *(f"{column(nets, 'of_class').mean():.1%}" for nets in both(setting)),
            f"{column(trained, 'of_random_groups').mean():.1%}",
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


def early_table(log: DepthPerExampleLog) -> str:
    """Tabulate early exits, a row for each setting: blocks computed and points of accuracy lost."""
    rows = []
    for setting in log.settings:
        confident, fixed = [net.confident for net in setting.nets], [net.fixed for net in setting.nets]
        whole = column(setting.nets, "by_layer")[:, -1]
        doubts = [log.doubts[option] for of in confident for option in of.chosen]
        cells = [
            f"{whole.mean():.2%}",
            f"{min(doubts):g} to {max(doubts):g}",
            format(interval(column(confident, "depth")), ".1f"),
            lost_points(confident),
            f"{100 * np.mean(whole - column(confident, 'at_fixed_depth')):.2f}",
            format(interval(column(fixed, "depth")), ".1f"),
            lost_points(fixed),
        ]
        rows.append([setting.setting.name, *cells])
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
    """Format accuracy lost in points: mean over seeds ± the mean standard error of one net."""
    return " ± ".join(f"{100 * column(found, name).mean():.2f}" for name in ("lost", "lost_error"))


def intervals_note(log: DepthPerExampleLog) -> str:
    """Say what ± means."""
    return f"Mean over {len(log.settings[0].nets)} seeds with its 95 % interval (t)."


FIGURES = {"depth_per_example.png": depth_figure, "early_exits.png": exits_figure}
TABLES = {
    "depth_per_example": correlations_table,
    "depth_measures": measures_table,
    "depth_groups": groups_table,
    "early_exits": early_table,
}
