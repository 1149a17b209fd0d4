"""Figure, tables and claims of section 4 on nets like the paper's."""

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from highway_lab.console import name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, in_math, markdown, new_figure, pale
from highway_lab.intervals import Interval, interval

from .claims import Claim
from .common import group_by
from .lesions import PAPER_IDLE
from .lesions_figures import listed
from .models import name_setting
from .section_4 import NetSeen, Section4Log, Seen

SUBSTANTIAL = 2  # least ratio of a substantial class difference to that of random groups
SELECTIVE = 0.1  # least share of gates that training makes selective
ABOUT = 0.1  # margin of "about 60 %"
RULES = {"error": "by the error", "loss": "by the loss", "flips": "by flips"}
STATES = ("trained", "untrained")
LINEAR = 0.1  # points; below, the axis of rises in error is linear


def settings(log: Section4Log) -> dict[str, list[NetSeen]]:
    """Return the nets by setting."""
    return group_by(log.nets, lambda net: name_setting(net.source.training))


# ------------------------------------------------------------------------------------ of one net


def change_so_far(seen: Seen) -> np.ndarray:
    """Return the share of the change in outputs up to and with each layer, (L,)."""
    return np.cumsum(seen.gates.change) / np.sum(seen.gates.change)


def share_in_first(values: list[float], first: int) -> float:
    """Return the share of the first layers in the sum over all."""
    return sum(values[:first]) / sum(values)


def times_chance(seen: Seen, first: int) -> float:
    """Return the least ratio, over the first layers, of class differences to those of random groups."""
    return min(np.divide(seen.class_difference, seen.group_difference)[:first])


def rise(seen: Seen) -> np.ndarray:
    """Return the rise in error with each layer closed, (L,)."""
    return np.array(seen.lesioned_error) - seen.error


def idle_layers(seen: Seen, log: Section4Log) -> dict[str, np.ndarray]:
    """Return which layers are idle, (L,), by each of RULES."""
    cost = np.array(seen.lesioned_loss) - seen.loss
    return {
        "error": np.abs(rise(seen)) < log.idle,
        "loss": cost < log.idle_of_most * cost.max(),
        "flips": np.array(seen.flips) < log.idle,
    }


def early_and_late(values: np.ndarray, log: Section4Log) -> tuple[float, float]:
    """Return the means of values (L,) over the early layers, and over those that the paper finds idle."""
    begin, end = log.late
    return values[: begin - 1].mean(), values[begin - 1 : end].mean()


def idle_shares(seen: Seen, log: Section4Log, rule: str) -> tuple[float, float, float]:
    """Return the share of idle layers: of all, of the early ones, of those that the paper finds idle."""
    idle = idle_layers(seen, log)[rule]
    return idle.mean(), *early_and_late(idle, log)


def late_minus_early(nets: list[NetSeen], log: Section4Log, rule: str, state: str = "trained") -> Interval:
    """Return the share of idle layers, late minus early, in points, over seeds."""
    shares = [idle_shares(getattr(net, state), log, rule) for net in nets]
    return interval([100 * (late - early) for _, early, late in shares])


def early_minus_late(nets: list[NetSeen], log: Section4Log, state: str = "trained") -> Interval:
    """Return the mean rise in error by a closed layer, early minus late, in points, over seeds."""
    means = [early_and_late(100 * rise(getattr(net, state)), log) for net in nets]
    return interval([early - late for early, late in means])


# ----------------------------------------------------------------------------------------- figure


def section_4_figure(log: Section4Log) -> Figure:
    """Draw a row a setting; columns: change in outputs so far, class differences, rise in error by closed layer."""
    by_setting = settings(log)
    title, rows = f"Figures 2 to 4 by layer: {name_data(log.dataset.name)}, all training images", len(by_setting)
    figure, grid = new_figure(title, 1.1 + 2.3 * rows, nrows=rows, ncols=3, sharex=True, squeeze=False)
    for row, (setting, nets) in zip(grid, by_setting.items(), strict=True):
        change_panel(row[0], nets)
        difference_panel(row[1], nets)
        rise_panel(row[2], nets)
        row[0].set_ylabel(in_math(setting))
        for axes in row:
            axes.axvline(log.first, color=FAINT_INK, linewidth=0.8, linestyle=":", label=f"layer {log.first}")
    share_limits(grid[:, 1])
    share_limits(grid[:, 2])
    titles = ("change so far (%)", "class difference of T", "rise in error (points)")
    for upper, lower, title, label in zip(grid[0], grid[-1], titles, ("layer", "layer", "closed layer"), strict=True):
        upper.set_title(title)
        lower.set_xlabel(label)
    handles = {line.get_label(): line for axes in grid[0] for line in axes.lines if line.get_label()[0] != "_"}
    figure.legend(handles=list(handles.values()), ncols=len(handles), loc="outside lower center", frameon=False)
    return figure


def draw_states(axes: Axes, nets: list[NetSeen], curve: Callable[[Seen], np.ndarray]) -> None:
    """Draw a curve by layer of the trained nets above that of the untrained ones."""
    for state, color in zip(STATES[::-1], (pale(FAINT_INK, 0.6), COLORS["highway"]), strict=True):
        draw_by_layer(axes, np.array([curve(getattr(net, state)) for net in nets]), label=state, color=color)


def change_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """Draw the share of the change so far, beside an even spread."""
    draw_states(axes, nets, lambda seen: 100 * change_so_far(seen))
    depth = len(nets[0].trained.flips)
    axes.plot([0, depth], [0, 100], color=INK, linewidth=1, linestyle=(0, (3, 5)), label="evenly")
    axes.set_ylim(0, 100)


def difference_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """Draw mean |class difference|, log scale, beside that of random groups in the trained nets."""
    draw_states(axes, nets, lambda seen: np.array(seen.class_difference))
    by_chance = np.mean([net.trained.group_difference for net in nets], axis=0)
    style = {"color": COLORS["plain"], "linewidth": 1}
    axes.plot(np.arange(1, len(by_chance) + 1), by_chance, **style, label="random groups")
    axes.set_yscale("log")


def rise_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """Draw the rise in error by closed layer, in points."""
    axes.set_yscale("symlog", linthresh=LINEAR)
    draw_states(axes, nets, lambda seen: 100 * rise(seen))
    axes.yaxis.set_major_locator(FixedLocator([-10, -1, -LINEAR, 0, LINEAR, 1, 10, 100]))
    axes.yaxis.set_major_formatter("{x:g}")


def share_limits(column: np.ndarray) -> None:
    """Give all panels the range of all their values."""
    low, high = np.transpose([axes.get_ylim() for axes in column])
    for axes in column:
        axes.set_ylim(low.min(), high.max())


# ----------------------------------------------------------------------------------------- tables


def gates_table(log: Section4Log) -> str:
    """Tabulate figure 2."""
    columns = {
        "biases lower": lambda seen: seen.gates.biases_decreased,
        "mean change": lambda seen: seen.gates.bias_change,
        "gates closed": lambda seen: seen.gates.closed_for_a_sample,
        "gates selective": lambda seen: seen.gates.selective_beyond_rare,
        f"change by layer {log.first}": lambda seen: change_so_far(seen)[log.first - 1],
    }
    scores = (
        f"{setting}: {interval([100 * net.test_score for net in nets]):.2f}" for setting, nets in settings(log).items()
    )
    return (
        f"{states_table(log, columns)}\n\n{seeds_note(log)} In %, the mean change of the biases in hundredths. Closed: "
        f"T below {log.closed}, for one image; selective: T above {log.open} for {log.rare:.0%} to "
        f"{1 - log.rare:.0%} of the images. Evenly spread, {evenly(log)} of the change would have happened by layer "
        f"{log.first}. Test accuracy: {', '.join(scores)}."
    )


def classes_table(log: Section4Log) -> str:
    """Tabulate figure 3."""
    first = log.first
    columns = {
        "class difference (%)": lambda seen: np.mean(seen.class_difference[:first]),
        "times random groups'": lambda seen: times_chance(seen, first) / 100,
        f"share of layers 1 to {first} (%)": lambda seen: share_in_first(seen.class_difference, first),
        "of random groups (%)": lambda seen: share_in_first(seen.group_difference, first),
    }
    return (
        f"{states_table(log, columns)}\n\n{seeds_note(log)} The class difference of T, mean of the first {first} "
        "layers; how many times as large as random groups' it is where this is least; the share of these layers in the "
        f"sum over all, of which they are {evenly(log)}."
    )


def states_table(log: Section4Log, columns: dict[str, Callable[[Seen], float]]) -> str:
    """Tabulate values, in %: a row for the trained, one for the untrained nets of each setting."""
    rows = []
    for setting, nets in settings(log).items():
        for state in STATES:
            seen = [getattr(net, state) for net in nets]
            cells = [f"{interval([100 * value(of) for of in seen]):.1f}" for value in columns.values()]
            rows.append([f"{setting}, {state}", *cells])
    return markdown(["nets", *columns], rows)


def evenly(log: Section4Log) -> str:
    """Return the first layers' share under an even spread."""
    return f"{log.first / len(log.nets[0].trained.flips):.0%}"


def seeds_note(log: Section4Log) -> str:
    """Return the sentence that says what ± means."""
    return f"Mean ± sample standard deviation over {len(next(iter(settings(log).values())))} seeds."


def lesions_table(log: Section4Log) -> str:
    """Tabulate figure 4: the share of idle layers by each rule, early and late."""
    begin, end = log.late
    rows = []
    for setting, nets in settings(log).items():
        for rule, words in RULES.items():
            shares = [idle_shares(net.trained, log, rule) for net in nets]
            untrained = [idle_shares(net.untrained, log, rule)[0] for net in nets]
            cells = [f"{interval([100 * share for share in of]):.0f}" for of in (*zip(*shares, strict=True), untrained)]
            gaps = [f"{late_minus_early(nets, log, rule, state):+.0f}" for state in STATES]
            rows.append([f"{setting}, {words}", *cells[:3], gaps[0], cells[3], gaps[1]])
    header = ["nets", "idle", f"of 1 to {begin - 1}", f"of {begin} to {end}", "late less early"]
    return "\n\n".join(
        [
            markdown([*header, "untrained: idle", "late less early"], rows),
            f"In %. {seeds_note(log)} Late less early: points, mean over seeds with its 95 % interval (t). Idle: "
            f"closing it changes the error by less than {100 * log.idle:g} points; or raises the loss by less than "
            f"{log.idle_of_most:.0%} of what closing the costliest does; or flips the predicted class of fewer than "
            f"{log.idle:.1%} of the images. The paper: about {PAPER_IDLE:.0%} idle.",
            *(deep_note(net, log) for net in log.deep),
        ]
    )


def deep_note(net: NetSeen, log: Section4Log) -> str:
    """Return sentences on a deeper net's layers."""
    seen, untrained = net.trained, idle_layers(net.untrained, log)
    counts = (
        f"{np.count_nonzero(idle)} {RULES[rule]} (untrained {np.count_nonzero(untrained[rule])})"
        for rule, idle in idle_layers(seen, log).items()
    )
    needed = np.count_nonzero(rise(seen) > log.point)
    return (
        f"{net.source.file}, {len(seen.lesioned_error)} blocks: training error {seen.error:.2%}, test accuracy "
        f"{net.test_score:.2%}. Idle: {', '.join(counts)}; needed, as without it the error is over "
        f"{100 * log.point:g} points higher: {needed}."
    )


# --------------------------------------------------------------------------------------- verdicts


def claims(log: Section4Log) -> list[Claim]:
    """Return section 4's claims on MNIST, judged by each net, and by each net before training."""
    first, even = log.first, log.first / len(log.nets[0].trained.flips)
    figure_2, judge = "4, figure 2", partial(judge_nets, log)
    return [
        judge(
            figure_2,
            "most gate biases decrease in training",
            lambda seen: seen.gates.biases_decreased,
            lambda share, _: share > 0.5,
        ),
        judge(
            figure_2,
            "the gates of one sample are sparse",
            lambda seen: seen.gates.closed_for_a_sample,
            lambda share, _: share > 0.5,
            detail=True,
        ),
        judge(
            figure_2,
            f"gates are selective (T above {log.open})",
            lambda seen: seen.gates.selective_beyond_rare,
            lambda share, untrained: share - untrained > SELECTIVE,
        ),
        judge(
            figure_2,
            f"most of the change in outputs happens in about the first {first} layers",
            lambda seen: change_so_far(seen)[first - 1],
            lambda share, _: share > max(0.5, even),
        ),
        judge(
            "4.1, figure 3",
            f"the mean gates of a class differ substantially within the first {first} layers",
            lambda seen: times_chance(seen, first),
            lambda times, _: times > SUBSTANTIAL,
            unit=" times random groups'",
        ),
        order_claim(log),
        *(
            judge(
                "4.2, figure 4",
                f"about {PAPER_IDLE:.0%} of the layers do not contribute ({RULES[rule]})",
                lambda seen, rule=rule: idle_shares(seen, log, rule)[0],
                lambda share, _: abs(share - PAPER_IDLE) <= ABOUT,
                detail=rule != "error",
            )
            for rule in ("error", "loss")
        ),
    ]


def judge_nets(
    log: Section4Log,
    section: str,
    paper: str,
    value: Callable[[Seen], float],
    holds: Callable[[float, float], bool],
    unit: str = "%",
    detail: bool = False,
) -> Claim:
    """Return a claim that holds of a net if holds(its value, that before training), with the values by setting.

    The verdict counts the nets, and the untrained nets, of which it holds.
    """
    counts, words = {state: [] for state in STATES}, []
    for setting, nets in settings(log).items():
        values = {state: [value(getattr(net, state)) for net in nets] for state in STATES}
        for state in STATES:
            counts[state].append(sum(map(holds, values[state], values["untrained"])))
        trained, untrained = (interval((100 if unit == "%" else 1) * np.array(values[state])) for state in STATES)
        words.append(f"{setting}: {trained:.0f}{unit} (untrained {untrained.value:.0f})")
    return Claim(section, paper, "; ".join(words), verdict(*counts.values(), len(nets)), detail)


def verdict(trained: list[int], untrained: list[int], total: int, what: str = "nets") -> str:
    """Return the verdict, given for each setting of how many of `total` nets a claim holds."""
    if not any(trained):
        return "not"
    held = "held" if min(trained) == total else f"in {listed(trained)} of {total} {what}"
    if min(untrained) == total:
        return f"{held}; untrained, too"
    return held + (f"; untrained in {listed(untrained)}" if any(untrained) else "")


def order_claim(log: Section4Log) -> Claim:
    """Return the claim that closing an early layer costs more than a late one, judged by each setting's interval."""
    begin, end = log.late
    held, words = dict.fromkeys(STATES, 0), []
    for setting, nets in settings(log).items():
        gaps = {state: early_minus_late(nets, log, state) for state in STATES}
        held = {state: held[state] + (gap.sign > 0) for state, gap in gaps.items()}
        idle = late_minus_early(nets, log, "error")
        words.append(f"{setting}: {gaps['trained']} (untrained {gaps['untrained']}; idle {idle:+.0f})")
    return Claim(
        "4.2, figure 4",
        f"closing an early layer raises the training error, closing one of {begin} to {end} hardly does",
        f"mean rise in error, points, layers 1 to {begin - 1} less {begin} to {end} (and how many points more of these "
        f"are idle by the error), {'; '.join(words)}",
        verdict([held["trained"]], [held["untrained"]], len(words), "settings"),
    )


FIGURES = {"section_4.png": section_4_figure}
TABLES = {"section_4": gates_table, "section_4_classes": classes_table, "section_4_lesions": lesions_table}
