"""Figure, tables and claims of section 4 on nets like the paper's.

A claim is judged by setting, by the 95 % interval over its nets, and beside the net that each training began with. The
rules stand at the claims; figure 4's are those of lesions_figures. They were put in this form after the runs.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from highway_lab.console import name_data
from highway_lab.figures import (
    COLORS,
    FAINT_INK,
    INK,
    draw_by_layer,
    label_ends,
    markdown,
    new_figure,
)
from highway_lab.intervals import interval
from highway_networks import Config

from .claims import Claim, Verdict, combine, judge_better, require
from .common import group_by
from .common_figures import minus
from .lesions import PAPER_IDLE
from .lesions_figures import draw_idle, judge_any, judge_idle, judge_no_effect, rise, share_of_costly
from .section_4 import NetSeen, Section4Log, Seen

SELECTIVE = 10  # points: least rise of the share of selective gates by training
HALF = 50  # %: more is most
RULES = {"error": "by the error", "loss": "by the loss", "flips": "by changed predictions"}  # of idle layers
STATES = ("trained", "untrained")
STATE_COLORS = {"trained": COLORS["highway"], "untrained": FAINT_INK}
DOTTED = {"color": FAINT_INK, "linewidth": 0.8, "linestyle": ":"}
LINEAR = 0.1  # points; below, the axis of rises in error is linear

Value = Callable[[Seen], float]


def settings(log: Section4Log) -> dict[str, list[NetSeen]]:
    """Return the nets by setting: its activation and, for tanh, its gate bias, which is the paper's."""

    def name(config: Config) -> str:
        return "ReLU" if config.activation == "relu" else f"{config.activation} from {minus(config.gate_bias)}"

    return group_by(log.nets, lambda net: name(net.source.training))


def settings_and_deep(log: Section4Log) -> dict[str, list[NetSeen]]:
    """Return the nets by setting, and the deeper net."""
    return settings(log) | {f"one {len(net.trained.flips)}-block net": [net] for net in log.deep}


def over_nets(nets: list[NetSeen], value: Value, state: str = "trained") -> np.ndarray:
    """Return a value of each net, (seeds,)."""
    return np.array([value(getattr(net, state)) for net in nets])


# ------------------------------------------------------------------------------------ of one net


def closed(seen: Seen) -> float:
    """Return how many % of the gates are closed for one image."""
    return 100 * seen.gates.closed_for_a_sample


def selective(seen: Seen) -> float:
    """Return how many % of the gates are open for some images and not for others."""
    return 100 * seen.gates.selective_beyond_rare


def change_so_far(seen: Seen) -> np.ndarray:
    """Return how many % of the change in outputs happen up to and with each layer, (L,)."""
    return 100 * np.cumsum(seen.gates.change) / np.sum(seen.gates.change)


def times_random(seen: Seen) -> np.ndarray:
    """Return by layer how many times as large as random groups' differences of mean T those of classes are, (L,)."""
    return np.divide(seen.class_difference, seen.group_difference)


def share_in_first(values: list[float], first: int) -> float:
    """Return how many % of the sum over all layers the first ones have."""
    return 100 * sum(values[:first]) / sum(values)


def idle_layers(seen: Seen, log: Section4Log, rule: str) -> np.ndarray:
    """Return which layers are idle, (L,), by one of RULES."""
    cost = np.array(seen.lesioned_loss) - seen.loss
    return {
        "error": np.abs(rise(seen)) < 100 * log.idle,
        "loss": cost < log.idle_of_most * cost.max(),
        "flips": np.array(seen.flips) < log.idle,
    }[rule]


def late_layers(log: Section4Log) -> slice:
    """Return the layers that the paper finds idle; those before them are the early ones."""
    return slice(log.late[0] - 1, log.late[1])


def early_layers(log: Section4Log) -> slice:
    return slice(0, log.late[0] - 1)


def name_layers(layers: slice) -> str:
    return f"layers {layers.start + 1} to {layers.stop}"


def mean_rise(seen: Seen, layers: slice) -> float:
    """Return the mean rise in error when one of these layers is closed, in hundredths of a point."""
    return 100 * rise(seen)[layers].mean()


def idle_share(seen: Seen, log: Section4Log, rule: str) -> float:
    """Return how many % of the layers are idle by one of RULES."""
    return 100 * idle_layers(seen, log, rule).mean()


# ----------------------------------------------------------------------------------------- figure


def section_4_figure(log: Section4Log) -> Figure:
    """Draw a column a setting; rows: change so far, class differences, rise in error, trained and untrained."""
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
            draw_idle(axes, 100 * log.idle, named=state == "trained")
        column[-1].set_xlabel("layer")
        for axes in column:
            axes.axvline(log.first, **DOTTED)
    for axes in grid[0]:
        depth = axes.get_xlim()[1]
        axes.axhline(HALF, **DOTTED)
        axes.plot([0, depth], [0, 100], color=INK, linewidth=1, linestyle=(0, (3, 5)))
        axes.text(depth, 40, "spread evenly", size=9, horizontalalignment="right")
        axes.text(log.first + 1, 4, f"layer {log.first}", size=9)
    grid[0, 0].set(ylabel="change so far (%)", ylim=(0, 100), yticks=(0, 25, HALF, 75, 100))
    grid[1, 0].set(ylabel="class difference,\nrandom groups' = 1", ylim=(0, None))
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


# ----------------------------------------------------------------------------------------- tables


def states_table(log: Section4Log, columns: dict[str, Value]) -> str:
    """Tabulate values: a row for the trained, one for the untrained nets of each setting and of the deeper net."""
    rows = [
        [f"{name}, {state}", *(f"{interval(over_nets(nets, value, state)):.1f}" for value in columns.values())]
        for name, nets in settings_and_deep(log).items()
        for state in STATES
    ]
    return markdown(["nets", *columns], rows)


def evenly(log: Section4Log) -> str:
    """Return the first layers' share under an even spread."""
    return f"{log.first / len(log.nets[0].trained.flips):.0%}"


def gates_table(log: Section4Log) -> str:
    """Tabulate figure 2."""
    columns = {
        "training error": lambda seen: 100 * seen.error,
        "biases lower": lambda seen: 100 * seen.gates.biases_decreased,
        "mean change": lambda seen: 100 * seen.gates.bias_change,
        "mean T": lambda seen: 100 * seen.gates.mean_T,
        "gates closed": closed,
        "gates selective": selective,
        f"change by layer {log.first}": lambda seen: change_so_far(seen)[log.first - 1],
    }
    scores = (
        f"{name} {interval([100 * net.test_score for net in nets]):.1f}"
        for name, nets in settings_and_deep(log).items()
    )
    return (
        f"{states_table(log, columns)}\n\nIn %; the mean change of the biases in hundredths. Closed: T below "
        f"{log.closed}, for one image. Selective: T above {log.open} for {log.rare:.0%} to {1 - log.rare:.0%} of the "
        f"images. Spread evenly, {evenly(log)} of the change would lie in the first {log.first} of 49 layers. Test "
        f"accuracy: {'; '.join(scores)}."
    )


def classes_table(log: Section4Log) -> str:
    """Tabulate figure 3."""
    first = log.first
    columns = {
        "class difference": lambda seen: 1000 * np.mean(seen.class_difference[:first]),
        "of random groups": lambda seen: 1000 * np.mean(seen.group_difference[:first]),
        "times as large": lambda seen: np.mean(times_random(seen)[:first]),
        "share of the first layers": lambda seen: share_in_first(seen.class_difference, first),
        "of random groups'": lambda seen: share_in_first(seen.group_difference, first),
    }
    return (
        f"{states_table(log, columns)}\n\nMeans over the first {first} layers; differences of mean T in thousandths, "
        f"shares of the sum over all layers in % (evenly: {evenly(log)} of 49 layers)."
    )


def lesions_table(log: Section4Log) -> str:
    """Tabulate figure 4: shares of idle layers, and the mean rise in error by a closed layer."""
    early, late = early_layers(log), late_layers(log)
    rises = [partial(mean_rise, layers=layers) for layers in (early, late)]
    columns = {f"idle {words}": partial(idle_share, log=log, rule=rule) for rule, words in RULES.items()} | {
        f"{name_layers(early)}: costly": lambda seen: share_of_costly(seen, early, log.idle),
        "rise": rises[0],
        f"{name_layers(late)}: costly": lambda seen: share_of_costly(seen, late, log.idle),
        "their rise": rises[1],
        "rise, early minus late": lambda seen: rises[0](seen) - rises[1](seen),
    }
    return (
        f"{states_table(log, columns)}\n\nShares of the layers in %, rises in hundredths of a point. Idle: closing the "
        f"layer changes the error by less than {100 * log.idle:g} points; or raises the loss by less than "
        f"{log.idle_of_most:.0%} of what closing the costliest layer does; or changes the predicted class of fewer "
        f"than {log.idle:.1%} of the images. Costly: it raises the error by more than {100 * log.idle:g} points."
    )


# --------------------------------------------------------------------------------------- verdicts


def is_most(nets: list[NetSeen], value: Value) -> Verdict:
    """Judge "most": more than half."""
    return judge_better(interval(over_nets(nets, value) - HALF), 0)


def is_raised(nets: list[NetSeen], value: Value, least: float = 0) -> Verdict:
    """Judge "training raises it", by more than `least`."""
    return judge_better(interval(over_nets(nets, value) - over_nets(nets, value, "untrained") - least), 0)


def is_most_by_training(nets: list[NetSeen], value: Value) -> Verdict:
    """Judge "most, because of training": more than half, and more than untrained."""
    return require(is_most(nets, value), is_raised(nets, value))


def is_positive(nets: list[NetSeen], value: Value) -> Verdict:
    """Judge "positively correlated"."""
    return judge_better(interval(over_nets(nets, value)), 0)


def is_selective(nets: list[NetSeen], value: Value) -> Verdict:
    """Judge "gates are selective": training makes more than a tenth of them so."""
    return is_raised(nets, value, SELECTIVE)


def claims(log: Section4Log) -> list[Claim]:
    """Return section 4's claims, judged by setting."""
    judge, figure_2, figure_4 = partial(judge_settings, log), "4, figure 2", "4.2, figure 4"
    first, early, late = log.first, early_layers(log), late_layers(log)
    idle_claims = [
        judge(
            figure_4,
            f"about {PAPER_IDLE:.0%} of the layers do not contribute" + (f" ({words})" if rule != "error" else ""),
            "idle layers, %",
            partial(idle_share, log=log, rule=rule),
            lambda nets, value: judge_idle(over_nets(nets, value)),
            detail=rule != "error",
        )
        for rule, words in RULES.items()
    ]
    return [
        judge(
            figure_2,
            "most gate biases decrease in training",
            "biases lowered, % (by chance 50)",
            lambda seen: 100 * seen.gates.biases_decreased,
            is_most,
            groups=settings_and_deep(log),
            beside=False,
        ),
        judge(
            figure_2,
            "on CIFAR-100, biases rise with depth, inversely to mean T",
            "the weaker of both correlations",
            lambda seen: min(seen.gates.bias_and_layer, -seen.gates.bias_and_mean_T),
            is_positive,
            form="+.2f",
            beside=False,
            detail=True,
        ),
        judge(
            figure_2,
            "training makes the gates of one sample sparse",
            f"gates below {log.closed} for one image, %",
            closed,
            is_most_by_training,
            detail=True,
        ),
        judge(figure_2, "gates are selective", "selective gates, %", selective, is_selective),
        judge(
            figure_2,
            f"most of the change in outputs happens in about the first {first} layers",
            f"change by layer {first}, %",
            lambda seen: change_so_far(seen)[first - 1],
            is_most_by_training,
        ),
        judge(
            "4.1",
            "a sample uses few gates, other samples use others",
            "selective gates, %, where most are closed for one image",
            selective,
            lambda nets, value: require(is_most(nets, closed), is_selective(nets, value)),
            detail=True,
        ),
        judge(
            "4.1, figure 3",
            f"the mean gates of a class differ substantially within the first {first} layers",
            "times random groups' differences",
            lambda seen: times_random(seen)[:first].mean(),
            is_raised,
        ),
        judge(
            figure_4,
            "closing any of the early layers raises the error",
            f"{name_layers(early)} that cost over {100 * log.idle:g} points, %",
            lambda seen: share_of_costly(seen, early, log.idle),
            lambda nets, value: judge_any(over_nets(nets, value)),
        ),
        judge(
            figure_4,
            f"closing one of {name_layers(late)} hardly changes the error",
            "mean change, points",
            lambda seen: np.abs(rise(seen)[late]).mean(),
            lambda nets, value: judge_no_effect(over_nets(nets, value), log.idle),
            form=".2f",
            detail=True,
        ),
        *idle_claims,
    ]


def judge_settings(
    log: Section4Log,
    section: str,
    paper: str,
    what: str,
    value: Value,
    rule: Callable[[list[NetSeen], Value], Verdict],
    *,
    form: str = ".0f",
    groups: dict[str, list[NetSeen]] | None = None,
    beside: bool = True,
    detail: bool = False,
) -> Claim:
    """Return a claim with the verdict of a rule on the nets of every setting, or of `groups`, together.

    `what` names the value; `beside`: whether that of untrained nets is told. Where settings differ, so is how.
    """
    groups = groups or settings(log)
    verdicts = [rule(nets, value) for nets in groups.values()]
    differ = len({*verdicts}) > 1
    words = [
        f"{name}: {interval(over_nets(nets, value)):{form}}" + (f" ({verdict})" if differ else "")
        for (name, nets), verdict in zip(groups.items(), verdicts, strict=True)
    ]
    if beside:
        before = [over_nets(nets, value, "untrained").mean() for nets in groups.values()]
        words.append(f"untrained: {', '.join(f'{mean:{form}}' for mean in before)}")
    why = f"{what}, {'; '.join(words)}; n = {len(next(iter(groups.values())))} each"
    return Claim(section, paper, why, combine(verdicts), detail)


FIGURES = {"section_4.png": section_4_figure}
TABLES = {"section_4": gates_table, "section_4_classes": classes_table, "section_4_lesions": lesions_table}
