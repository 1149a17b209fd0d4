"""Figure, tables and claims of section 4 on nets like the paper's.

A claim is judged by setting, by the 95 % interval over its nets (a single one: ONE_NET), and beside the net that each
training began with. The rules stand at the claims; figure 4's are those of lesions_figures. They were put in this form
after all runs but those of --searched.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from highway_lab.console import name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, label_ends, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from .claims import Claim, Verdict, combine, judge_as_good, judge_better, require, share_of_nets
from .common import group_by
from .common_figures import joined, name_setting
from .lesions import PAPER_IDLE
from .lesions_figures import draw_idle, judge_any, judge_idle, rise
from .section_4 import NetSeen, Section4Log, Seen

SELECTIVE = 10  # points: least rise of the share of selective gates by training
HALF = 50  # %: more is most
RULES = ("error", "loss", "predictions")  # by which a layer is idle
STATES = ("trained", "untrained")
STATE_COLORS = {"trained": COLORS["highway"], "untrained": FAINT_INK}
DOTTED = {"color": FAINT_INK, "linewidth": 0.8, "linestyle": ":"}
LINEAR = 0.1  # points; below, the axis of rises in error is linear

Rule = Callable[[np.ndarray, np.ndarray], Verdict]  # of one measure of trained and of untrained nets, (seeds,) each


def settings(log: Section4Log) -> dict[str, list[NetSeen]]:
    return group_by(log.nets, lambda net: name_setting(net.source.training))


def settings_and_deep(log: Section4Log) -> dict[str, list[NetSeen]]:
    return settings(log) | {f"one {len(net.trained.flips)}-block net": [net] for net in log.deep}


def change_so_far(seen: Seen) -> np.ndarray:
    """Return how many % of the change in outputs happen up to and with each layer, (L,)."""
    return 100 * np.cumsum(seen.gates.change) / np.sum(seen.gates.change)


def times_random(seen: Seen) -> np.ndarray:
    """Return by layer how many times as large as random groups' differences of mean T those of classes are, (L,)."""
    return np.divide(seen.class_difference, seen.group_difference)


def idle_layers(seen: Seen, log: Section4Log) -> dict[str, np.ndarray]:
    """Return which layers are idle, (L,), by each of RULES."""
    cost = np.array(seen.lesioned_loss) - seen.loss
    idle = (np.abs(rise(seen)) < 100 * log.idle, cost < log.idle_of_most * cost.max(), np.array(seen.flips) < log.idle)
    return dict(zip(RULES, idle, strict=True))


def measures(seen: Seen, log: Section4Log) -> dict[str, float]:
    """Return the values of a net that tables and claims take, by the names that they have there."""
    gates, first, (begin, end) = seen.gates, log.first, log.late
    with_depth, with_T = gates.bias_and_layer, gates.bias_and_mean_T  # correlations; None without training
    selective = 100 * gates.selective_beyond_rare
    early, late = rise(seen)[: begin - 1], rise(seen)[begin - 1 : end]
    classes, groups = np.array(seen.class_difference), np.array(seen.group_difference)
    return {
        "training error, %": 100 * seen.error,
        "biases lowered, %": 100 * gates.biases_decreased,
        "mean change of biases": gates.bias_change,
        "the lower correlation (with depth; with −mean T)": np.nan if with_depth is None else min(with_depth, -with_T),
        "mean T, %": 100 * gates.mean_T,
        "gates closed, %": 100 * gates.closed_for_a_sample,
        "gates selective, %": selective,
        "gates selective, 0 unless most are closed, %": selective * (gates.closed_for_a_sample > 0.5),
        "change in the first layers, %": change_so_far(seen)[first - 1],
        "class difference": classes[:first].mean(),
        "random groups' difference": groups[:first].mean(),
        "class difference / random groups'": times_random(seen)[:first].mean(),
        "in the first layers, %": 100 * classes[:first].sum() / classes.sum(),
        "random groups', %": 100 * groups[:first].sum() / groups.sum(),
        **{f"idle by the {rule}, %": 100 * idle.mean() for rule, idle in idle_layers(seen, log).items()},
        "costly early layers, %": 100 * np.mean(early > 100 * log.idle),
        "costly late layers, %": 100 * np.mean(late > 100 * log.idle),
        "rise, early": early.mean(),
        "rise, late": late.mean(),
        "early minus late": early.mean() - late.mean(),
        "all closed": np.nan if seen.closed_error is None else 100 * (seen.closed_error - seen.error),
        "change by a late layer, points": np.abs(late).mean(),
    }


def over_nets(log: Section4Log, nets: list[NetSeen], name: str, state: str = "trained") -> np.ndarray:
    """Return one of the `measures` of each net, (seeds,)."""
    return np.array([measures(getattr(net, state), log)[name] for net in nets])


def section_4_figure(*logs: Section4Log) -> Figure:
    """Draw a column a setting; rows: change so far, class differences, rise in error, trained and untrained."""
    log = joined("nets", logs)
    by_setting = settings(log)
    title = f"By layer, trained and untrained: {name_data(log.dataset.name)}, all training images"
    figure, grid = new_figure(title, 9.0, nrows=4, ncols=len(by_setting), sharex=True, sharey="row", squeeze=False)
    grid[3, 0].sharey(grid[2, 0])
    for column, (setting, nets) in zip(grid.T, by_setting.items(), strict=True):
        column[0].set_title(setting.replace("from", "from $b_T$"))
        draw_states(column[0], nets, change_so_far)
        draw_states(column[1], nets, times_random)
        for axes, state in zip(column[2:], STATES, strict=True):
            draw_states(axes, nets, rise, (state,))
            draw_idle(axes, 100 * log.idle, "idle: within ±{:g}" if state == "trained" else "")
        column[-1].set_xlabel("layer")
        for axes in column:
            axes.axvline(log.first, **DOTTED)
    for axes in grid[0]:
        depth = axes.get_xlim()[1]
        axes.axhline(HALF, **DOTTED)
        axes.plot([0, depth], [0, 100], color=INK, linewidth=1, linestyle=(0, (3, 5)))
        axes.set_xticks([1, log.first, depth])
    grid[0, 0].text(depth, 20, "spread evenly", size=9, horizontalalignment="right")
    grid[0, 0].set(ylabel="change in outputs,\nsum so far (%)", ylim=(0, 100), yticks=(0, 25, HALF, 75, 100))
    grid[1, 0].set(ylabel="class difference of T,\nrandom groups' = 1", ylim=(0, None))
    grid[2, 0].set_yscale("symlog", linthresh=LINEAR)  # for the last row, too, which shares this axis
    for axes, state in zip(grid[2:, 0], STATES, strict=True):
        axes.set_ylabel(f"{state}: rise in error\n(points, symlog)")
        axes.yaxis.set_major_locator(FixedLocator([-10, -1, -LINEAR, 0, LINEAR, 1, 10, 100]))
        axes.yaxis.set_major_formatter("{x:g}")
    label_ends(grid[1, -1])
    return figure


def draw_states(
    axes: Axes, nets: list[NetSeen], curve: Callable[[Seen], np.ndarray], states: tuple[str, ...] = STATES
) -> None:
    """Draw a curve by layer of the trained nets above that of the untrained ones, or of one of both."""
    for state in states[::-1]:
        curves = np.array([curve(getattr(net, state)) for net in nets])
        draw_by_layer(axes, curves, label=state, color=STATE_COLORS[state])


def states_table(log: Section4Log, columns: dict[str, str]) -> str:
    """Tabulate measures in these formats: a row for the trained, one for the untrained nets of each setting."""
    rows = [
        [f"{name}, {state}", *(f"{interval(over_nets(log, nets, of, state)):{form}}" for of, form in columns.items())]
        for name, nets in settings_and_deep(log).items()
        for state in STATES
    ]
    return markdown(["nets", *columns], rows)


def gates_table(*logs: Section4Log) -> str:
    log = joined("nets", logs)
    shares = ("mean T, %", "gates closed, %", "gates selective, %", "change in the first layers, %")
    columns = {"training error, %": ".2f", "biases lowered, %": ".1f", "mean change of biases": ".3f"}
    groups = settings_and_deep(log).items()
    scores = (f"{name} {interval([100 * net.test_score for net in nets]):.1f}" for name, nets in groups)
    return (
        f"{states_table(log, columns | dict.fromkeys(shares, '.1f'))}\n\nClosed: T below {log.closed}, for one image. "
        f"Selective: T above {log.open} for {log.rare:.0%} to {1 - log.rare:.0%} of the images. First layers: 1 to "
        f"{log.first}. Test accuracy, %: {'; '.join(scores)}."
    )


def classes_table(*logs: Section4Log) -> str:
    """Tabulate figure 3."""
    log = joined("nets", logs)
    columns = {
        "class difference": ".4f",
        "random groups' difference": ".4f",
        "class difference / random groups'": ".1f",
    }
    shares = ("in the first layers, %", "random groups', %")
    return (
        f"{states_table(log, columns | dict.fromkeys(shares, '.1f'))}\n\nDifferences of mean T, means over layers 1 to "
        f"{log.first}; the share of these layers in the sum over all."
    )


def lesions_table(*logs: Section4Log) -> str:
    """Tabulate figure 4: shares of idle layers, and the mean rise in error by a closed layer."""
    log = joined("nets", logs)
    shares = [*(f"idle by the {rule}, %" for rule in RULES), "costly early layers, %", "costly late layers, %"]
    rises = ("rise, early", "rise, late", "early minus late", "all closed")
    begin, end = log.late
    table = states_table(log, dict.fromkeys(shares, ".0f") | dict.fromkeys(rises, ".3f"))
    return (
        f"{table}\n\nIdle: closing the layer changes the error by less than {100 * log.idle:g} points; raises the loss "
        f"by less than {log.idle_of_most:.0%} of what closing the costliest layer does; changes the class of fewer "
        f"than {log.idle:.1%} of the images. Costly: closing it raises the error by over {100 * log.idle:g} points. "
        f"Early: layers 1 to {begin - 1}, late: {begin} to {end}. Rises: means, in points; with "
        "all layers closed, measured for the newest nets alone."
    )


def is_most(trained: np.ndarray) -> Verdict:
    return judge_better(share_of_nets(trained - HALF), 0)


def is_raised(trained: np.ndarray, untrained: np.ndarray, least: float = 0) -> Verdict:
    """Judge "training raises it", by more than `least`."""
    return judge_better(interval(trained - untrained - least), 0)


def is_most_by_training(trained: np.ndarray, untrained: np.ndarray) -> Verdict:
    """Judge "most, because of training": more than half, and more than untrained."""
    return require(is_most(trained), is_raised(trained, untrained))


def alone(rule: Callable[[np.ndarray], Verdict]) -> Rule:
    """Return a rule that takes no account of the untrained nets."""
    return lambda trained, _: rule(trained)


def claims(*logs: Section4Log) -> list[Claim]:
    log = joined("nets", logs)
    judge, figure_2, figure_4 = partial(judge_settings, log), "4, figure 2", "4.2, figure 4"
    first, (begin, end) = log.first, log.late
    is_selective = partial(is_raised, least=SELECTIVE)
    fall = "most gate biases decrease in training"
    gradient = "on CIFAR-100, biases rise with depth, inversely to mean T"
    sparse = "training makes the gates of one sample sparse"
    most_change = f"most of the change in outputs happens in about the first {first} layers"
    few_gates = "a sample uses few gates, other samples use others"
    differ = f"the mean gates of a class differ substantially within the first {first} layers"
    any_early = "closing any of the early layers raises the error"
    no_effect = f"closing one of layers {begin} to {end} hardly changes the error"
    is_positive = alone(lambda correlations: judge_better(interval(correlations), 0))
    is_no_effect = alone(lambda changes: judge_as_good(interval(-changes), 100 * log.idle))
    about_60 = f"about {PAPER_IDLE:.0%} of the layers do not contribute"
    by_error, *by_others = (f"idle by the {rule}, %" for rule in RULES)
    return [
        judge(figure_2, fall, "biases lowered, %", alone(is_most), deep=True, detail=True),
        judge(figure_2, gradient, "the lower correlation (with depth; with −mean T)", is_positive, detail=True),
        judge(figure_2, sparse, "gates closed, %", is_most_by_training, detail=True),
        judge(figure_2, "gates are selective", "gates selective, %", is_selective, detail=True),
        judge(figure_2, most_change, "change in the first layers, %", is_most_by_training, detail=True),
        judge("4.1", few_gates, "gates selective, 0 unless most are closed, %", is_selective, detail=True),
        judge("4.1, figure 3", differ, "class difference / random groups'", is_raised, detail=True),
        judge(figure_4, any_early, "costly early layers, %", alone(judge_any), detail=True),
        judge(figure_4, no_effect, "change by a late layer, points", is_no_effect, detail=True),
        judge(figure_4, about_60, by_error, alone(judge_idle)),
        *(judge(figure_4, f"{about_60} ({name[:-3]})", name, alone(judge_idle), detail=True) for name in by_others),
    ]


def judge_settings(
    log: Section4Log, section: str, paper: str, name: str, rule: Rule, *, deep: bool = False, detail: bool = False
) -> Claim:
    """Return a claim with the verdict of a rule on one of the `measures`, for every setting, and the deeper net.

    The untrained nets' mean stands beside it in brackets. Where settings differ, the reason says how.
    """
    groups = (settings_and_deep if deep else settings)(log).items()
    after, before = ({group: over_nets(log, nets, name, state) for group, nets in groups} for state in STATES)
    verdicts = {group: rule(after[group], before[group]) for group in after}
    form = ".2f" if np.max(np.abs([*map(np.mean, after.values())])) < 1 else ".0f"
    differ = len({*verdicts.values()}) > 1
    untrained = {group: values.mean() for group, values in before.items()}
    beside = bool(np.nansum([*untrained.values()]))  # without training, biases have not moved, correlate with nothing
    words = [
        f"{group}: {interval(values):{form}}"
        + f" ({untrained[group]:{form}})" * beside
        + f", {verdicts[group]}" * differ
        for group, values in after.items()
    ]
    sizes = [len(nets) for nets in settings(log).values()]
    n = f"{sizes[0]} each" if len({*sizes}) == 1 else ", ".join(map(str, sizes))
    why = f"{name}{' (untrained)' * beside}, {'; '.join(words)}; n = {n}"
    return Claim(section, paper, combine(verdicts.values()), "WHY", why, detail)


FIGURES = {"section_4.png": section_4_figure}
TABLES = {"section_4": gates_table, "section_4_classes": classes_table, "section_4_lesions": lesions_table}
