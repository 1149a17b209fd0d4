"""Picture, tables and verdicts of section 4 on nets like the paper's."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from highway_lab.console import mean_sd, name_data
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_seeds, in_math, markdown, new_figure, number_layers, pale

from .claims import Claim
from .common import group_by
from .intervals import Interval, interval
from .lesions import PAPER_IDLE
from .lesions_figures import listed
from .models import name_setting
from .section_4 import NetSeen, Section4Log, Seen

SUBSTANTIAL = 2  # times as large as by chance, at least
SELECTIVE = 0.1  # of the gates, more than when untrained, at least
ABOUT = 0.1  # how far a share may be from "about 60 %"
RULES = {"error": "by the error", "loss": "by the loss", "flips": "by flips"}
STATES = ("trained", "untrained")
LEAST_POINTS = 0.1  # below, the axis of rises in error is linear


def settings(log: Section4Log) -> dict[str, list[NetSeen]]:
    """The nets by setting, the seeds together."""
    return group_by(log.nets, lambda net: name_setting(net.source.training))


# ------------------------------------------------------------------------------------ of one net


def change_so_far(seen: Seen) -> np.ndarray:
    """The share of the change in outputs that has happened by each layer, (L,)."""
    return np.cumsum(seen.gates.change) / np.sum(seen.gates.change)


def share_in_first(of: list[float], first: int) -> float:
    """The share that the first layers have in the sum over all."""
    return sum(of[:first]) / sum(of)


def times_chance(seen: Seen, first: int) -> float:
    """How many times as large as random groups' the class differences of the first layers are, where they are least."""
    return min(np.divide(seen.class_difference, seen.group_difference)[:first])


def idle_layers(seen: Seen, log: Section4Log) -> dict[str, np.ndarray]:
    """Which layers are idle, (L,), by each of RULES."""
    cost = np.array(seen.lesioned_loss) - seen.loss
    return {
        "error": np.abs(np.array(seen.lesioned_error) - seen.error) < log.idle,
        "loss": cost < log.idle_of_most * cost.max(),
        "flips": np.array(seen.flips) < log.idle,
    }


def idle_parts(seen: Seen, log: Section4Log, rule: str) -> tuple[float, float, float]:
    """The share of idle layers among all, the early ones, and those that the paper finds idle."""
    idle = idle_layers(seen, log)[rule]
    begin, end = log.late
    return idle.mean(), idle[: begin - 1].mean(), idle[begin - 1 : end].mean()


def late_less_early(nets: list[NetSeen], log: Section4Log, rule: str, state: str = "trained") -> Interval:
    """By how many points more of the late layers are idle than of the early ones, over seeds."""
    parts = [idle_parts(getattr(net, state), log, rule) for net in nets]
    return interval([100 * (late - early) for _, early, late in parts])


# ----------------------------------------------------------------------------------------- figure


def section_4_figure(log: Section4Log) -> Figure:
    """A row a setting; columns: change in outputs so far, class differences, rise in error by the layer closed."""
    by_setting = settings(log)
    title = f"Figures 2 to 4 by layer: {name_data(log.dataset.name)}, all training images"
    figure, grid = new_figure(
        title, 1.1 + 2.3 * len(by_setting), nrows=len(by_setting), ncols=3, sharex=True, squeeze=False
    )
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
    for axes, words in zip(grid[0], titles, strict=True):
        axes.set_title(words)
    depth = len(log.nets[0].trained.flips)
    for axes, words in zip(grid[-1], ("layer", "layer", "closed layer"), strict=True):
        axes.set(xlabel=words, xlim=(1, depth))
        number_layers(axes.xaxis, depth)
    handles = {line.get_label(): line for axes in grid[0] for line in axes.lines if line.get_label()[0] != "_"}
    figure.legend(handles=list(handles.values()), ncols=len(handles), loc="outside lower center", frameon=False)
    return figure


def draw_states(axes: Axes, nets: list[NetSeen], curve: Callable[[Seen], np.ndarray]) -> None:
    """A curve by layer of every seed and their mean, the untrained nets' below that of the trained."""
    for state, color in zip(STATES[::-1], (pale(FAINT_INK, 0.6), COLORS["highway"]), strict=True):
        curves = np.array([curve(getattr(net, state)) for net in nets])
        draw_seeds(axes, np.arange(1, curves.shape[1] + 1), curves, label=state, color=color)


def change_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """The share of the change that has happened by each layer, beside an even spread."""
    draw_states(axes, nets, lambda seen: 100 * change_so_far(seen))
    depth = len(nets[0].trained.flips)
    axes.plot([0, depth], [0, 100], color=INK, linewidth=1, linestyle=(0, (3, 5)), label="evenly")
    axes.set_ylim(0, 100)


def difference_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """Mean |class difference| by layer, log scale, beside that of random groups in the trained nets."""
    draw_states(axes, nets, lambda seen: np.array(seen.class_difference))
    by_chance = np.array([net.trained.group_difference for net in nets])
    style = {"color": COLORS["plain"], "linewidth": 1}
    axes.plot(np.arange(1, by_chance.shape[1] + 1), by_chance.mean(axis=0), **style, label="random groups")
    axes.set_yscale("log")


def rise_panel(axes: Axes, nets: list[NetSeen]) -> None:
    """The rise in error by the layer closed, in points."""
    draw_states(axes, nets, lambda seen: 100 * (np.array(seen.lesioned_error) - seen.error))
    axes.set_yscale("symlog", linthresh=LEAST_POINTS)
    axes.yaxis.set_major_locator(FixedLocator([-10, -1, -LEAST_POINTS, 0, LEAST_POINTS, 1, 10, 100]))
    axes.yaxis.set_major_formatter("{x:g}")


def share_limits(column: np.ndarray) -> None:
    """Let panels show the same range, that of all their values."""
    low, high = np.transpose([axes.get_ylim() for axes in column])
    for axes in column:
        axes.set_ylim(low.min(), high.max())


# ----------------------------------------------------------------------------------------- tables


def gates_table(log: Section4Log) -> str:
    """Figure 2 in numbers."""
    columns = {
        "biases lower": lambda seen: seen.gates.biases_decreased,
        "mean change": lambda seen: seen.gates.bias_change,
        "gates closed": lambda seen: seen.gates.closed_for_a_sample,
        "gates selective": lambda seen: seen.gates.selective_beyond_rare,
        f"change by layer {log.first}": lambda seen: change_so_far(seen)[log.first - 1],
    }
    scores = (
        f"{setting}: {mean_sd([100 * net.test_score for net in nets], 2)}" for setting, nets in settings(log).items()
    )
    return (
        f"{states_table(log, columns)}\n\n{seeds_note(log)} In %, the mean change of the biases in hundredths. Closed: "
        f"T below {log.closed}, for one image; selective: T above {log.open} for {log.rare:.0%} to "
        f"{1 - log.rare:.0%} of the images. Evenly spread, {evenly(log)} of the change would have happened by layer "
        f"{log.first}. Test accuracy: {', '.join(scores)}."
    )


def classes_table(log: Section4Log) -> str:
    """Figure 3 in numbers."""
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
    """A row for the trained and for the untrained nets of each setting, values in hundredths."""
    rows = []
    for setting, nets in settings(log).items():
        for state in STATES:
            seen = [getattr(net, state) for net in nets]
            cells = [mean_sd([100 * value(of) for of in seen], digits=1) for value in columns.values()]
            rows.append([f"{setting}, {state}", *cells])
    return markdown(["nets", *columns], rows)


def evenly(log: Section4Log) -> str:
    """What the first layers have of what all have evenly."""
    return f"{log.first / len(log.nets[0].trained.flips):.0%}"


def seeds_note(log: Section4Log) -> str:
    """What ± means."""
    return f"Mean ± sample standard deviation over {len(next(iter(settings(log).values())))} seeds."


def lesions_table(log: Section4Log) -> str:
    """Figure 4 in numbers: how many layers are idle by each rule, and where they are."""
    begin, end = log.late
    rows = []
    for setting, nets in settings(log).items():
        for rule, words in RULES.items():
            parts = np.array([idle_parts(net.trained, log, rule) for net in nets]).T
            before = [idle_parts(net.untrained, log, rule)[0] for net in nets]
            cells = [mean_sd(list(100 * of), digits=0) for of in (*parts, np.array(before))]
            gaps = [f"{late_less_early(nets, log, rule, state):+.0f}" for state in STATES]
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
    """What a deeper net's layers do."""
    seen, untrained = net.trained, idle_layers(net.untrained, log)
    counts = (
        f"{np.count_nonzero(idle)} {RULES[rule]} (untrained {np.count_nonzero(untrained[rule])})"
        for rule, idle in idle_layers(seen, log).items()
    )
    needed = np.count_nonzero(np.array(seen.lesioned_error) - seen.error > log.point)
    return (
        f"{net.source.file}, {len(seen.lesioned_error)} blocks: training error {seen.error:.2%}, test accuracy "
        f"{net.test_score:.2%}. Idle: {', '.join(counts)}; needed, as without it the error is over "
        f"{100 * log.point:g} points higher: {needed}."
    )


# --------------------------------------------------------------------------------------- verdicts


def claims(log: Section4Log) -> list[Claim]:
    """What section 4 says of MNIST's net, net by net, and of nets that were not trained."""
    first = log.first

    def more_than_evenly(seen: Seen, _: Seen) -> bool:
        return change_so_far(seen)[first - 1] > max(0.5, first / len(seen.flips))

    return [
        judged(
            log,
            ("4, figure 2", "most gate biases decrease in training"),
            lambda seen: seen.gates.biases_decreased,
            lambda seen, _: seen.gates.biases_decreased > 0.5,
        ),
        judged(
            log,
            ("4, figure 2", "the gates of one sample are sparse"),
            lambda seen: seen.gates.closed_for_a_sample,
            lambda seen, _: seen.gates.closed_for_a_sample > 0.5,
            detail=True,
        ),
        judged(
            log,
            ("4, figure 2", f"gates are selective (T above {log.open})"),
            lambda seen: seen.gates.selective_beyond_rare,
            lambda seen, before: seen.gates.selective_beyond_rare - before.gates.selective_beyond_rare > SELECTIVE,
        ),
        judged(
            log,
            ("4, figure 2", f"most of the change in outputs happens in about the first {first} layers"),
            lambda seen: change_so_far(seen)[first - 1],
            more_than_evenly,
        ),
        judged(
            log,
            ("4.1, figure 3", f"the mean gates of a class differ substantially within the first {first} layers"),
            lambda seen: times_chance(seen, first),
            lambda seen, _: times_chance(seen, first) > SUBSTANTIAL,
            unit=" times random groups'",
        ),
        order_claim(log),
        *(idle_claim(log, rule) for rule in ("error", "loss")),
    ]


def judged(
    log: Section4Log,
    sentence: tuple[str, str],
    value: Callable[[Seen], float],
    holds: Callable[[Seen, Seen], bool],
    unit: str = "%",
    detail: bool = False,
) -> Claim:
    """A sentence that holds of a net, given what is seen of it and of its untrained self, or does not.

    Of the trained and of the untrained nets: in how many of each setting, and the value.
    """
    counts, words = {state: [] for state in STATES}, []
    for setting, nets in settings(log).items():
        found = {}
        for state in STATES:
            seen = [(getattr(net, state), net.untrained) for net in nets]
            counts[state].append(sum(holds(*pair) for pair in seen))
            found[state] = interval([(100 if unit == "%" else 1) * value(of) for of, _ in seen])
        words.append(f"{setting}: {found['trained']:.0f}{unit} (untrained {found['untrained'].value:.0f})")
    return Claim(*sentence, "; ".join(words), verdict(*counts.values(), len(nets)), detail)


def verdict(trained: list[int], untrained: list[int], of: int, what: str = "nets") -> str:
    """Given of how many nets of each setting a sentence holds."""
    if not any(trained):
        return "not"
    held = "held" if min(trained) == of else f"in {listed(trained)} of {of} {what}"
    if min(untrained) == of:
        return f"{held}; untrained, too"
    return held + (f"; untrained in {listed(untrained)}" if any(untrained) else "")


def early_less_late(nets: list[NetSeen], log: Section4Log, state: str = "trained") -> Interval:
    """By how many points more closing an early layer raises the error than a late one, on average, over seeds."""
    begin, end = log.late
    rises = [100 * (np.array(seen.lesioned_error) - seen.error) for seen in (getattr(net, state) for net in nets)]
    return interval([rise[: begin - 1].mean() - rise[begin - 1 : end].mean() for rise in rises])


def order_claim(log: Section4Log) -> Claim:
    """That closing an early layer costs more than closing a late one: told apart, over seeds, or not."""
    begin, end = log.late
    by_setting, words = settings(log), []
    told = {state: [early_less_late(nets, log, state).sign > 0 for nets in by_setting.values()] for state in STATES}
    for setting, nets in by_setting.items():
        gap, idle = early_less_late(nets, log), late_less_early(nets, log, "error")
        words.append(f"{setting}: {gap} (untrained {early_less_late(nets, log, 'untrained')}; idle {idle:+.0f})")
    return Claim(
        "4.2, figure 4",
        f"closing an early layer raises the training error, closing one of {begin} to {end} hardly does",
        f"mean rise in error, points, layers 1 to {begin - 1} less {begin} to {end} (and how many points more of these "
        f"are idle by the error), {'; '.join(words)}",
        verdict([sum(told["trained"])], [sum(told["untrained"])], len(by_setting), "settings"),
    )


def idle_claim(log: Section4Log, rule: str) -> Claim:
    """That about 60 % of the layers are idle, by one of the rules."""

    def share(seen: Seen) -> float:
        return idle_parts(seen, log, rule)[0]

    paper = f"about {PAPER_IDLE:.0%} of the layers do not contribute ({RULES[rule]})"
    sentence, detail = ("4.2, figure 4", paper), rule != "error"
    return judged(log, sentence, share, lambda seen, _: abs(share(seen) - PAPER_IDLE) <= ABOUT, detail=detail)


FIGURES = {"section_4.png": section_4_figure}
TABLES = {"section_4": gates_table, "section_4_classes": classes_table, "section_4_lesions": lesions_table}
