"""Figures, tables and claims of section 4 on nets like the paper's.

A sentence of the paper is judged on nets of the paper's own setting for MNIST, tanh from b_T -2; what other settings
show is a row of ours, by the same rule. Rules take the 95 % interval over a setting's nets (a single one: ONE_NET). A
sentence on what nets are is judged as a state, one on what training does beside the nets that it began with. The rules
stand at `questions`; figure 4's are those of lesions_figures, and "about 60 %" is asked at half, once and twice the
threshold of an idle block. All were put in this form after the runs.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FixedLocator

from highway_lab.console import name_data
from highway_lab.figures import (
    COLORS,
    FAINT_INK,
    INK,
    draw_by_layer,
    draw_seeds,
    empty_figure,
    new_figure,
    pale,
    set_title,
)
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from .claims import OURS, Claim, Verdict, combine, holds, judge_as_good, judge_better, require, share_of_nets
from .common import group_by
from .common_figures import PAPER, draw_dots, joined, name_setting
from .lesions import PAPER_IDLE
from .lesions_figures import ABOUT, NEARLY_ALL, TIMES, draw_idle, idle_at, idle_range, judge_any, judge_idle, rise
from .section_4 import NetSeen, Section4Log, Seen

SELECTIVE = 10  # points: least rise of the share of selective gates by training
SUBSTANTIAL = 0.01  # least difference of mean T that is substantial, chosen after the data
HALF = 50  # %: more is most
RULES = ("loss", "predictions")  # by which a block is idle, beside the error
THRESHOLDS = np.geomspace(0.01, 1, 81)  # points of error, drawn
TICKS = (0.01, 0.1, 1)  # of these
STATES = ("trained", "untrained")
STATE_COLORS = {"trained": COLORS["highway"], "untrained": FAINT_INK}
DOTTED = {"color": FAINT_INK, "linewidth": 0.8, "linestyle": ":"}
LINEAR = 0.1  # points; below, the axis of rises in error is linear

Values = Callable[..., np.ndarray]  # the values of one of the `measures`, (seeds,), given its name and one of STATES


class Question(NamedTuple):
    """A sentence of the paper on nets of one setting, and how it is judged.

    measure   the one of `measures` that is shown
    rule      its verdict on the nets of a setting
    answer    what they show, in a sentence
    """

    section: str
    paper: str
    measure: str
    rule: Callable[[Values], Verdict]
    answer: Callable[[Values], str]


def settings(log: Section4Log) -> dict[str, list[NetSeen]]:
    return group_by(log.nets, lambda net: name_setting(net.source.training))


def deep_nets(log: Section4Log) -> dict[str, list[NetSeen]]:
    return {f"one net of {len(net.trained.flips)} blocks": [net] for net in log.deep}


def change_so_far(seen: Seen) -> np.ndarray:
    """Return how many % of the change in outputs happen up to and with each block, (L,)."""
    return 100 * np.cumsum(seen.gates.change) / np.sum(seen.gates.change)


def idle_blocks(seen: Seen, log: Section4Log) -> dict[str, np.ndarray]:
    """Return which blocks are idle, (L,), by each of RULES."""
    cost = np.array(seen.lesioned_loss) - seen.loss
    idle = (cost < log.idle_of_most * cost.max(), np.array(seen.flips) < log.idle)
    return dict(zip(RULES, idle, strict=True))


def name_idle(points: float) -> str:
    """Return the name of the share of blocks that are idle by so many points of error, among the `measures`."""
    return f"idle by {points:g} points, %"


def measures(seen: Seen, log: Section4Log) -> dict[str, float]:
    """Return the values of a net that tables and claims take, by the names that they have there."""
    gates, first, (begin, end) = seen.gates, log.first, log.late
    with_depth, with_T = gates.bias_and_layer, gates.bias_and_mean_T  # correlations; None without training
    early, late = rise(seen)[: begin - 1], rise(seen)[begin - 1 : end]
    classes, groups = np.array(seen.class_difference), np.array(seen.group_difference)
    return {
        "training error, %": 100 * seen.error,
        "biases lowered, %": 100 * gates.biases_decreased,
        "mean change of biases": gates.bias_change,
        "the lower correlation (with depth; with −mean T)": np.nan if with_depth is None else min(with_depth, -with_T),
        "mean T, %": 100 * gates.mean_T,
        "gates closed, %": 100 * gates.closed_for_a_sample,
        "gates closed on average over images, %": 100 * gates.closed_in_the_mean,
        "gates selective, %": 100 * gates.selective_beyond_rare,
        "change in the first blocks, %": change_so_far(seen)[first - 1],
        "class difference": classes[:first].mean(),
        "random groups' difference": groups[:first].mean(),
        "class difference / random groups'": np.divide(classes, groups)[:first].mean(),
        "in the first blocks, %": 100 * classes[:first].sum() / classes.sum(),
        "random groups', %": 100 * groups[:first].sum() / groups.sum(),
        **{name_idle(100 * log.idle * times): idle_at(seen, 100 * log.idle * times) for times in TIMES},
        **{f"idle by the {rule}, %": 100 * idle.mean() for rule, idle in idle_blocks(seen, log).items()},
        "costly early blocks, %": 100 * np.mean(early > 100 * log.idle),
        "costly late blocks, %": 100 * np.mean(late > 100 * log.idle),
        "rise, early": early.mean(),
        "rise, late": late.mean(),
        "early minus late": early.mean() - late.mean(),
        "all closed": np.nan if seen.closed_error is None else 100 * (seen.closed_error - seen.error),
        "change by a late block, points": np.abs(late).mean(),
    }


def over_nets(log: Section4Log, nets: list[NetSeen], name: str, state: str = "trained") -> np.ndarray:
    """Return one of the `measures` of each net, (seeds,)."""
    return np.array([measures(getattr(net, state), log)[name] for net in nets])


def name_range(values: list[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f} %"


def idle_figure(*logs: Section4Log) -> Figure:
    """Draw the share of idle blocks: above a row of dots a setting, below against the threshold, a panel a setting."""
    log = joined("nets", logs)
    by_setting = settings(log)
    rows, idle = by_setting | deep_nets(log), 100 * log.idle
    figure = empty_figure(6.4)
    means = [over_nets(log, nets, name_idle(idle)).mean() for nets in by_setting.values()]
    found = f"{name_range(means)} of the blocks are idle at {idle:g} points, by setting"
    set_title(figure, f"{name_data(log.dataset.name)}: {found}")
    above, below = figure.subfigures(2, height_ratios=(1.15, 1))
    dots_panel(above.subplots(), {name: [states(net, idle) for net in nets] for name, nets in rows.items()}, idle)
    curve_panels(below, by_setting, idle)
    return figure


def states(net: NetSeen, points: float) -> tuple[float, ...]:
    """Return the share of idle blocks in each of STATES."""
    return tuple(idle_at(getattr(net, state), points) for state in STATES)


def dots_panel(axes: Axes, rows: dict[str, list[tuple[float, ...]]], idle: float) -> None:
    """Draw the shares of idle blocks of trained and of untrained nets, two lines of dots a setting."""
    for row, shares in enumerate(rows.values()):
        for shift, state, values in zip((-0.16, 0.16), STATES, np.transpose(shares), strict=True):
            label = state if row == 0 else "_" + state
            draw_dots(axes, values, row + shift, label=label, color=STATE_COLORS[state])
    mark_about(axes.axvspan)
    axes.text(
        100 * PAPER_IDLE, len(rows) - 0.45, f"the paper: about {PAPER_IDLE:.0%}", size=9, ha="center", va="bottom"
    )
    axes.set(xlim=(0, 100), ylim=(len(rows) - 0.4, -0.6))  # the first on top
    axes.set_yticks(range(len(rows)), [name.replace("from", "from $b_T$") for name in rows])
    axes.set_xlabel(f"idle blocks (%): closing one changes the error by less than {idle:g} points")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, labelcolor="linecolor", handletextpad=0)


def curve_panels(part: SubFigure, by_setting: dict[str, list[NetSeen]], idle: float) -> None:
    """Draw the share of idle blocks against the threshold, trained and untrained."""
    grid = part.subplots(ncols=len(by_setting), sharey=True, squeeze=False)[0]
    for axes, (setting, nets) in zip(grid, by_setting.items(), strict=True):
        for state in STATES[::-1]:
            curves = np.array([[idle_at(getattr(net, state), points) for points in THRESHOLDS] for net in nets])
            draw_seeds(axes, THRESHOLDS, curves, label=state, color=STATE_COLORS[state])
        mark_about(axes.axhspan)
        axes.axvline(idle, **DOTTED)
        axes.set(title=setting.replace("from", "from $b_T$"), xscale="log", ylim=(0, 100))
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.margins(x=0)
    grid[0].set_ylabel("idle blocks (%)")
    part.supxlabel("threshold of an idle block (points of error)", size=11)


def mark_about(span: Callable[..., object]) -> None:
    """Draw, by axvspan or axhspan, the band of what counts as about the paper's share."""
    span(100 * PAPER_IDLE - ABOUT, 100 * PAPER_IDLE + ABOUT, color=pale(COLORS["lstm"], 0.3), linewidth=0, zorder=0)


def layers_figure(*logs: Section4Log) -> Figure:
    """Draw a column a setting: above the change in outputs so far, below the rise in error by closed block."""
    log = joined("nets", logs)
    by_setting, first = settings(log), log.first
    parts = [over_nets(log, nets, "change in the first blocks, %").mean() for nets in by_setting.values()]
    title = f"{name_data(log.dataset.name)}: the first {first} blocks make {name_range(parts)} of the change"
    figure, grid = new_figure(title, 5.6, nrows=2, ncols=len(by_setting), sharex=True, sharey="row", squeeze=False)
    for (above, below), (setting, nets) in zip(grid.T, by_setting.items(), strict=True):
        above.set_title(setting.replace("from", "from $b_T$"))
        for state in STATES[::-1]:
            curves = np.array([change_so_far(getattr(net, state)) for net in nets])
            draw_by_layer(above, curves, label=state, color=STATE_COLORS[state])
        draw_by_layer(below, np.array([rise(net.trained) for net in nets]), label="", color=STATE_COLORS["trained"])
        draw_idle(below, 100 * log.idle, "idle: within ±{:g}")
        below.set_xlabel("block")
        for axes in (above, below):
            axes.axvline(first, **DOTTED)
    for axes in grid[0]:
        depth = axes.get_xlim()[1]
        axes.axhline(HALF, **DOTTED)
        axes.plot([0, depth], [0, 100], color=INK, linewidth=1, linestyle=(0, (3, 5)))
        axes.set_xticks([1, first, depth])
    grid[0, 0].text(depth, 20, "spread evenly", size=9, horizontalalignment="right")
    grid[0, -1].legend(loc="lower right", handlelength=1, frameon=False, labelcolor="linecolor", fontsize=9)
    grid[0, 0].set(ylabel="change in outputs,\nsum so far (%)", ylim=(0, 100), yticks=(0, 25, HALF, 75, 100))
    grid[1, 0].set_yscale("symlog", linthresh=LINEAR)
    grid[1, 0].set_ylabel("rise in error if closed\n(points; log beyond 0.1)")
    grid[1, 0].yaxis.set_major_locator(FixedLocator([-LINEAR, 0, LINEAR, 1, 10]))
    grid[1, 0].yaxis.set_major_formatter("{x:g}")
    return figure


def states_table(log: Section4Log, columns: dict[str, str]) -> str:
    """Tabulate measures in these formats: a row for the trained, one for the untrained nets of each setting."""
    rows = [
        [f"{name}, {state}", *(f"{interval(over_nets(log, nets, of, state)):{form}}" for of, form in columns.items())]
        for name, nets in (settings(log) | deep_nets(log)).items()
        for state in STATES
    ]
    return markdown(["nets", *columns], rows)


def idle_table(*logs: Section4Log) -> str:
    """Tabulate the share of idle blocks after training and before, and at half and twice the threshold."""
    log = joined("nets", logs)
    half, once, twice = (name_idle(100 * log.idle * times) for times in TIMES)
    columns = [(once, "trained"), (once, "untrained"), (half, "trained"), (twice, "trained")]
    rows = [
        [name, str(len(nets)), *(f"{interval(over_nets(log, nets, *of)):.0f}" for of in columns)]
        for name, nets in (settings(log) | deep_nets(log)).items()
    ]
    by_threshold = [f"after training, {name}" for name in (once, half, twice)]
    header = ["nets, by first b_T", "nets", by_threshold[0], f"before training, {once}", *by_threshold[1:]]
    return markdown(header, rows)


def gates_table(*logs: Section4Log) -> str:
    log = joined("nets", logs)
    shares = ("mean T, %", "gates closed, %", "gates selective, %", "change in the first blocks, %")
    columns = {"training error, %": ".2f", "biases lowered, %": ".1f", "mean change of biases": ".3f"}
    groups = (settings(log) | deep_nets(log)).items()
    scores = (f"{name} {interval([100 * net.test_score for net in nets]):.1f}" for name, nets in groups)
    return (
        f"{states_table(log, columns | dict.fromkeys(shares, '.1f'))}\n\nClosed: T below {log.closed}, for one image. "
        f"Selective: T above {log.open} for {log.rare:.0%} to {1 - log.rare:.0%} of the images. First blocks: 1 to "
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
    shares = ("in the first blocks, %", "random groups', %")
    return (
        f"{states_table(log, columns | dict.fromkeys(shares, '.1f'))}\n\nDifferences of mean T, means over blocks 1 to "
        f"{log.first}; the share of these blocks in the sum over all."
    )


def lesions_table(*logs: Section4Log) -> str:
    """Tabulate figure 4: shares of idle blocks, and the mean rise in error by a closed block."""
    log = joined("nets", logs)
    idle = name_idle(100 * log.idle), *(f"idle by the {rule}, %" for rule in RULES)
    shares = *idle, "costly early blocks, %", "costly late blocks, %"
    rises = ("rise, early", "rise, late", "early minus late", "all closed")
    begin, end = log.late
    table = states_table(log, dict.fromkeys(shares, ".0f") | dict.fromkeys(rises, ".3f"))
    return (
        f"{table}\n\nIdle: closing the block changes the error by less than {100 * log.idle:g} points; raises the loss "
        f"by less than {log.idle_of_most:.0%} of what closing the costliest block does; changes the class of fewer "
        f"than {log.idle:.1%} of the images. Costly: closing it raises the error by over {100 * log.idle:g} points. "
        f"Early: blocks 1 to {begin - 1}, late: {begin} to {end}. Rises: means, in points; with "
        "all blocks closed, measured for tanh nets from −6.2 alone."
    )


def is_most(shares: np.ndarray) -> Verdict:
    return judge_better(share_of_nets(shares - HALF), 0)


def is_selective(of: Values) -> Verdict:
    """Judge "training makes gates selective", by SELECTIVE points of their share."""
    name = "gates selective, %"
    return judge_better(interval(of(name) - of(name, "untrained") - SELECTIVE), 0)


def questions(log: Section4Log) -> list[Question]:
    """Return what the paper says of its net for MNIST."""
    first, (begin, end), idle = log.first, log.late, 100 * log.idle
    figure_2, figure_4 = "4, figure 2", "4.2, figure 4"
    lowered, closed, selective = "biases lowered, %", "gates closed, %", "gates selective, %"
    changed, differ = "change in the first blocks, %", "class difference"
    costly, late = "costly early blocks, %", "change by a late block, points"
    half, once, twice = (name_idle(idle * times) for times in TIMES)
    nearly, on_average = f"nearly closed (T below {log.closed:g})", "gates closed on average over images, %"
    evenly = 100 * first / len(settings(log)[PAPER][0].trained.gates.change)
    return [
        Question(
            figure_2,
            "most gate biases decrease in training",
            lowered,
            lambda of: is_most(of(lowered)),
            lambda of: f"{of(lowered).mean():.0f} % of the gate biases end below where they started.",
        ),
        Question(
            figure_2,
            "the gates of one sample are sparse",
            closed,
            lambda of: is_most(of(closed)),
            lambda of: (
                f"For one image, {of(closed).mean():.0f} % of the gates are {nearly}; sparse would be most. They "
                f"start at {of('mean T, %', 'untrained').mean() / 100:.2f}, and no other limit was tried."
            ),
        ),
        Question(
            figure_2,
            "training makes gates selective",
            selective,
            is_selective,
            lambda of: (
                f"{of(selective).mean():.0f} % of the gates are open (T above {log.open:g}) for some images and not "
                f"for others, and {of(selective, 'untrained').mean():.0f} % before training. We ask for a rise of "
                f"{SELECTIVE} points."
            ),
        ),
        Question(
            figure_2,
            f"most of the change in outputs happens in about the first {first} layers",
            changed,
            lambda of: is_most(of(changed)),
            lambda of: (
                f"The first {first} blocks make {of(changed).mean():.0f} % of the change; spread evenly it would be "
                f"{evenly:.0f} %. In untrained nets they make {of(changed, 'untrained').mean():.0f} %."
            ),
        ),
        Question(
            "4.1",
            "a sample uses few gates, other samples use others",
            selective,
            lambda of: require(is_most(of(closed)), is_selective(of)),
            lambda of: (
                f"For one image, {of(closed).mean():.0f} % of the gates are {nearly}, and {of(selective).mean():.0f} % "
                "are open for some images and not for others. But averaged over images, only "
                f"{of(on_average).mean():.0f} % are nearly closed, a contrast that the authors show."
            ),
        ),
        Question(
            "4.1, figure 3",
            f"the mean gates of a class differ substantially within the first {first} layers",
            differ,
            lambda of: judge_better(interval(of(differ) - of("random groups' difference") - SUBSTANTIAL), 0),
            lambda of: (
                f"Averaged over units, the mean T of a class differs by {of(differ).mean():.3f} from that of all "
                f"images ({of('mean T, %').mean() / 100:.2f}), in untrained nets by "
                f"{of(differ, 'untrained').mean():.3f}. More than {SUBSTANTIAL:g} counts as substantial, a size chosen "
                f"after the data. The first {first} blocks have {of('in the first blocks, %').mean():.0f} % of the "
                f"differences; spread evenly it would be {evenly:.0f} %."
            ),
        ),
        Question(
            figure_4,
            "closing any of the early layers raises the error",
            costly,
            lambda of: judge_any(of(costly)),
            lambda of: (
                f"{of(costly).mean():.0f} % of the first {begin - 1} blocks raise the error by over {idle:g} points "
                f"when one is closed. We ask for at least {NEARLY_ALL} % in every net."
            ),
        ),
        Question(
            figure_4,
            f"closing one of layers {begin} to {end} hardly changes the error",
            late,
            lambda of: judge_as_good(interval(-of(late)), idle),
            lambda of: f"Closing one of these blocks changes the error by {of(late).mean():.2f} points on average.",
        ),
        Question(
            figure_4,
            f"about {PAPER_IDLE:.0%} of the layers do not contribute",
            once,
            lambda of: combine(judge_idle(of(name)) for name in (half, once, twice)),
            lambda of: (
                f"{idle_range(idle, of(half), of(twice))} At {idle:g} points it is {of(once).mean():.0f} % on average, "
                f"and {of(once, 'untrained').mean():.0f} % before training."
            ),
        ),
    ]


def claims(*logs: Section4Log) -> list[Claim]:
    """Return each sentence of the paper judged in its own setting, then in ours; then what we ask of all settings."""
    log = joined("nets", logs)
    groups, found = settings(log), []
    papers = {PAPER: groups[PAPER]}
    others = {setting: nets for setting, nets in groups.items() if setting != PAPER}
    for section, paper, measure, rule, answer in questions(log):
        of, measured = partial(over_nets, log, groups[PAPER]), in_numbers(log, papers, measure)
        found.append(Claim(section, paper, rule(of), answer(of), measured, detail=measure != name_idle(100 * log.idle)))
        found.append(judge_ours(log, others, f"in nets of other settings, {paper}", measure, rule))
    gradient = "the lower correlation (with depth; with −mean T)"
    rises = "in nets for MNIST, gate biases rise with depth, inversely to mean T"
    found.append(judge_ours(log, groups, rises, gradient, lambda of: judge_better(interval(of(gradient)), 0)))
    for name in RULES:
        about, share = f"about {PAPER_IDLE:.0%} of the blocks are idle by the {name}", f"idle by the {name}, %"
        found.append(judge_ours(log, groups, about, share, lambda of, share=share: judge_idle(of(share))))
    return found


def judge_ours(
    log: Section4Log, groups: dict[str, list[NetSeen]], claim: str, measure: str, rule: Callable[[Values], Verdict]
) -> Claim:
    """Return the verdict on nets of several settings, and for which of them it holds."""
    verdicts = {setting: rule(partial(over_nets, log, nets)) for setting, nets in groups.items()}
    why, measured = holds(verdicts, "for {}"), in_numbers(log, groups, measure)
    return Claim(OURS, claim, combine(verdicts.values()), why, measured, detail=True)


def in_numbers(log: Section4Log, groups: dict[str, list[NetSeen]], measure: str) -> str:
    """Return the mean of a measure in each setting with its interval, and in brackets that of the untrained nets."""
    after, before = ({group: over_nets(log, nets, measure, of) for group, nets in groups.items()} for of in STATES)
    form = ".3f" if np.max(np.abs([*map(np.mean, after.values())])) < 1 else ".0f"
    beside = bool(np.nansum([*map(np.mean, before.values())]))  # biases that have not moved, correlate with nothing
    words = [
        f"{group}: {interval(values):{form}}" + f" ({before[group].mean():{form}})" * beside
        for group, values in after.items()
    ]
    n = ", ".join(f"{len(nets)}" for nets in groups.values())
    return f"{measure}{' (in brackets: means of untrained nets)' * beside}, {'; '.join(words)}; n = {n}"


FIGURES = {"section_4.png": idle_figure, "section_4_layers.png": layers_figure}
TABLES = {
    "section_4_idle": idle_table,
    "section_4": gates_table,
    "section_4_classes": classes_table,
    "section_4_lesions": lesions_table,
}
