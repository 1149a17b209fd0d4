"""Pictures, tables and verdicts of depth, image by image: its correlation with hardness, and early exits.

The paper speaks of harder problems, which task_difficulty judges; harder images of one problem are a question of ours.
The rules, at `judge_hardness` and `judge_variation`, were written after the runs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import count_of, name_tested
from highway_lab.figures import COLORS, FAINT_INK, draw_level, draw_seeds, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from ..claims import OURS, Claim, Verdict, combine, holds, in_words, judge_better
from ..common_figures import PAPER, legend_below, minus, name_setting, scale_by_logarithm
from .depth_per_example import EFFECTIVE, JUDGE, MARGIN, OTHERS, PARTS, DepthPerExampleLog, Depths, SettingDepth

HARDNESS = (MARGIN, JUDGE, OTHERS)  # in the table; a net's loss ranks images nearly as its margin does
STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}
VARIED = 10  # points of the variation


def name(setting: SettingDepth) -> str:
    return name_setting(setting.setting.sources[0].training)


def depths_of(setting: SettingDepth, state: str) -> list[Depths]:
    """Return the depths of a setting's nets, "trained" or "untrained"."""
    return [getattr(net, state) for net in setting.nets]


def column(nets: Sequence, name: str) -> np.ndarray:
    """Return a field of each net, (seeds, ...); NaN in place of None."""
    return np.array([getattr(net, name) for net in nets], float)


def mean_depth(nets: list[Depths]) -> np.ndarray:
    """Return the mean effective depth of each net, (seeds,)."""
    return np.array([net.mean[EFFECTIVE] for net in nets])


def variation(nets: list[Depths]) -> np.ndarray:
    """Return the standard deviation of effective depth over all images of each net, in % of its mean: (seeds,)."""
    within, of_class = column(nets, "spread"), column(nets, "of_class")
    return 100 * within / np.sqrt(1 - of_class) / mean_depth(nets)


def correlations(nets: list[Depths], hardness: str, which: str = "within", measure: str = EFFECTIVE) -> np.ndarray:
    """Return a correlation of each net, (seeds,); `which`: "all" images, "within" classes, or the variable held."""
    relations = [net.relations[measure][hardness] for net in nets]
    return np.array([(vars(relation) | relation.held)[which] for relation in relations], float)


def title(log: DepthPerExampleLog, what: str) -> str:
    return f"{name_tested(log.dataset)}: {what}, {count_of(len(log.settings[0].nets), 'seed')}"


def depth_figure(log: DepthPerExampleLog) -> Figure:
    """Draw effective depth minus the net's mean, by setting: above by hardness within classes, below by class."""
    parts = [column(depths_of(setting, "trained"), "by_part").mean(axis=0) for setting in log.settings]
    found = in_words([minus(float(f"{part[-1] - part[0]:.2g}")) for part in parts])
    words = title(log, f"effective depth of the hardest tenth minus that of the easiest: {found} blocks")
    figure, (above, below) = new_figure(words, 5.8, nrows=2, ncols=len(log.settings), sharex="row", sharey="row")
    for by_part, by_class, setting in zip(above, below, log.settings, strict=True):
        for shift, (state, color) in zip((-0.15, 0.15), STATES.items(), strict=True):
            nets = depths_of(setting, state)
            part, quartiles = (off_mean(column(nets, name), nets) for name in ("by_part", "by_class"))
            draw_seeds(by_part, np.arange(1, PARTS + 1), part, label=state, color=color)
            draw_quartiles(by_class, np.arange(quartiles.shape[1]) + shift, quartiles, color)
        mean = mean_depth(depths_of(setting, "trained")).mean()
        by_part.set_title(f"{name(setting)}: mean {mean:.1f}")
    above[0].set(ylabel="% above the net's mean", xticks=(1, PARTS))
    above[1].set_xlabel("tenth of its class, from easy to hard")
    above[-1].legend(loc="lower left", handlelength=1, frameon=False, labelcolor="linecolor")
    below[0].set(ylabel="% above the net's mean", xticks=range(quartiles.shape[1]))
    below[1].set_xlabel("class: median and quartiles of its images")
    return figure


def off_mean(values: np.ndarray, nets: list[Depths]) -> np.ndarray:
    """Return values (seeds, ...) minus their nets' mean effective depth, in % of it."""
    return 100 * ((values.T / mean_depth(nets)).T - 1)


def draw_quartiles(axes: Axes, x: np.ndarray, quartiles: np.ndarray, color: str) -> None:
    """Draw quartiles (seeds, classes, 3): means over seeds, and the median of each seed faint."""
    low, middle, high = quartiles.mean(axis=0).T
    axes.plot(x, quartiles[:, :, 1].T, ".", color=color, alpha=0.4, markersize=4)
    axes.vlines(x, low, high, color=color, linewidth=1.5)
    axes.plot(x, middle, "_", color=color, markersize=6, markeredgewidth=2)


def exits_figure(log: DepthPerExampleLog) -> Figure:
    """Draw test error against the mean number of blocks computed, by setting and by the rule of leaving."""
    found = in_words([f"{np.mean([net.confident.depth for net in setting.nets]):.0f}" for setting in log.settings])
    words = title(log, f"if an image leaves when the net is sure, {found} blocks are computed")
    figure, panels = new_figure(words, 4.1, ncols=len(log.settings), sharey=True)
    for axes, setting in zip(panels, log.settings, strict=True):
        same, sure = (100 * (1 - column(setting.nets, name)) for name in ("by_layer", "confident_score"))
        depths, chosen = column(setting.nets, "confident_depth"), [net.confident for net in setting.nets]
        style = {"color": COLORS["highway"]}
        draw_seeds(axes, np.arange(same.shape[1]), same, label="all after the same block", color=COLORS["lstm"])
        axes.plot(depths.T, sure.T, linewidth=1, alpha=0.4, **style)
        axes.plot(depths.mean(axis=0), sure.mean(axis=0), label="each when the net is sure", **style)
        errors = same[:, -1] + 100 * column(chosen, "lost")
        axes.plot(column(chosen, "depth"), errors, "o", clip_on=False, label="chosen rule, one dot per net", **style)
        draw_level(axes, same[:, -1].mean(), "all blocks")
        axes.set(title=name(setting), xlim=(0, same.shape[1] - 1))
        scale_by_logarithm(axes)
    panels[0].set_ylabel("test error (%)")
    panels[1].set_xlabel("blocks computed, mean over images")
    legend_below(figure, panels[0], ncols=2)
    return figure


def judge_hardness(trained: np.ndarray, untrained: np.ndarray) -> Verdict:
    """Judge "a harder image uses more layers" by correlations of depth and hardness, (seeds,) each.

    The interval over seeds must lie above 0, and so must that of the difference to the untrained nets, seed by seed;
    the claim is not reproduced if both lie below. An untrained net that gives all images the same depth counts as one
    with correlation 0.
    """
    verdicts = {judge_better(interval(of), 0) for of in (trained, trained - np.nan_to_num(untrained))}
    return verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE


def judge_variation(trained: np.ndarray, untrained: np.ndarray) -> Verdict:
    """Judge "different inputs have different depths": training raises the `variation` by more than VARIED points."""
    return judge_better(interval(trained - untrained - VARIED), 0)


def claims(log: DepthPerExampleLog) -> list[Claim]:
    """Return the verdicts on depth that adapts to the image, beside the nets before training."""
    settings = {name(of): of for of in log.settings}
    hardness, varied = (
        {setting: [measure(depths_of(of, state)) for state in STATES] for setting, of in settings.items()}
        for measure in (lambda nets: correlations(nets, JUDGE), variation)
    )
    harder = {of: judge_hardness(trained, untrained) for of, (untrained, trained) in hardness.items()}
    differ = {of: judge_variation(trained, untrained) for of, (untrained, trained) in varied.items()}
    untrained, trained = (values.mean() for values in varied[PAPER])
    return [
        Claim(
            OURS,
            "a harder image of one problem uses more blocks",
            combine(harder.values()),
            f"{holds(harder, 'for {}')} For {PAPER}, effective depth has a correlation of "
            f"{hardness[PAPER][1].mean():.2f} with hardness.",
            f"correlation of effective depth and hardness: {beside_untrained(log, hardness, '+.2f')}",
            detail=True,
        ),
        Claim(
            "overview",
            "the net uses different effective depths for different inputs",
            combine(differ.values()),
            f"{holds(differ, 'for {}')} For {PAPER}, the sum of mean gates varies over images by {trained:.0f} % of "
            f"its mean; before training it is {untrained:.0f} %.",
            f"sd over images, % of the mean: {beside_untrained(log, varied, '.0f')}",
            detail=True,
        ),
    ]


def beside_untrained(log: DepthPerExampleLog, found: Mapping[str, list[np.ndarray]], form: str) -> str:
    """Write the mean of each setting with its interval, given its values (untrained, trained) by seed."""
    words = (
        f"{of} {interval(trained):{form}} (untrained {np.mean(untrained):{form}})"
        for of, (untrained, trained) in found.items()
    )
    return f"{'; '.join(words)}; {count_of(len(log.settings[0].nets), 'net')} each"


def summary_table(log: DepthPerExampleLog) -> str:
    """Tabulate measures of effective depth: a row for each, trained and untrained, a column for each setting."""

    def hardest_minus_easiest(nets: list[Depths]) -> np.ndarray:
        part = column(nets, "by_part")
        return part[:, -1] - part[:, 0]

    measures = {
        "effective depth, blocks": (mean_depth, ".2f"),
        "sd over images, % of the mean": (variation, ".1f"),
        "correlation with hardness": (lambda nets: correlations(nets, JUDGE), "+.2f"),
        "hardest minus easiest tenth, blocks": (hardest_minus_easiest, "+.3f"),
        "misclassified minus others, blocks": (lambda nets: column(nets, "missed"), "+.3f"),
        "misclassified minus others, in sds of a class": (
            lambda nets: column(nets, "missed") / column(nets, "spread"),
            "+.2f",
        ),
        "classes' share of the variance, %": (lambda nets: 100 * column(nets, "of_class"), ".1f"),
    }
    rows = [
        [words, state, *(format(interval(measure(depths_of(of, state))), form) for of in log.settings)]
        for words, (measure, form) in measures.items()
        for state in reversed(STATES)
    ]
    return f"{markdown(['', 'nets', *(name(of) for of in log.settings)], rows)}\n\n{intervals_note(log)}"


def correlations_table(log: DepthPerExampleLog) -> str:
    """Tabulate correlations: effective depth with each measure of hardness, other measures of depth with the judge."""
    relations = log.settings[0].nets[0].trained.relations
    held = list(relations[EFFECTIVE][JUDGE].held)
    pairs = [(EFFECTIVE, hardness) for hardness in HARDNESS]
    pairs += [(measure, JUDGE) for measure in relations if measure != EFFECTIVE]
    rows = []
    for setting in log.settings:
        trained, untrained = (depths_of(setting, state) for state in ("trained", "untrained"))
        for measure, hardness in pairs:
            means = (interval([net.mean[measure] for net in nets]) for nets in (trained, untrained))
            within, before = (correlations(nets, hardness, measure=measure) for nets in (trained, untrained))
            others = (correlations(trained, hardness, which, measure) for which in ("all", *held))
            cells = [*(f"{mean:.1f}" for mean in means), hardness]
            cells += [f"{interval(found):+.2f}" for found in (within, before, *others)]
            rows.append([name(setting), measure, *cells, judge_hardness(within, before)])
    header = ["setting", "depth", "mean", "untrained", "hardness", "correlation", "untrained", "all images"]
    header += [*(f"{of} held" for of in held), "harder images use more blocks"]
    judge = f"{log.fit_images:,} training images, test accuracy {log.settings[0].judge_score:.3f}"
    return (
        f"{markdown(header, rows)}\n\nDepth: effective depth, or blocks with ‖y − x‖ above a share of ‖x‖. Hardness: "
        "this net's margin for the best wrong class; the loss of a judge, logistic regression on pixels "
        f"({judge}); the mean loss of the other seeds' nets. Correlations are means over classes, but for *all "
        "images*; none: all depths are equal. Held constant: mean pixel, norm of the first block's input, norm of the "
        f"last block's output. {intervals_note(log)}"
    )


def early_table(log: DepthPerExampleLog) -> str:
    """Tabulate early exits, a row for each setting: blocks computed and points of accuracy lost."""
    rows = []
    for setting in log.settings:
        sure, same = ([getattr(net, rule) for net in setting.nets] for rule in ("confident", "fixed"))
        whole = column(setting.nets, "by_layer")[:, -1]
        doubts = [log.doubts[option] for of in sure for option in of.chosen]
        found = [
            (column(sure, "depth"), ".1f"),
            (100 * column(sure, "lost"), ".2f"),
            (100 * (whole - column(sure, "at_fixed_depth")), ".2f"),
            (column(same, "depth"), ".1f"),
            (100 * column(same, "lost"), ".2f"),
        ]
        cells = (format(interval(values), form) for values, form in found)
        rows.append([name(setting), f"{whole.mean():.2%}", f"{min(doubts):g} to {max(doubts):g}", *cells])
    blocks = len(log.settings[0].nets[0].by_layer) - 1
    header = ["setting", "test accuracy", "ε", f"each when sure: blocks of {blocks}", "points lost"]
    header += ["all after that many: points lost", "all after one chosen block: blocks", "points lost"]
    return f"{markdown(header, rows)}\n\n{intervals_note(log)}"


def intervals_note(log: DepthPerExampleLog) -> str:
    return f"Mean and 95 % interval (t) over {count_of(len(log.settings[0].nets), 'seed')}."


FIGURES = {"depth_per_example.png": depth_figure, "early_exits.png": exits_figure}
TABLES = {"depth_per_example": summary_table, "early_exits": early_table, "depth_correlations": correlations_table}
