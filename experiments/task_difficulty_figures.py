"""Figure, tables and verdict of nets that learn tasks of several difficulties; the rules are task_difficulty.py's."""

from collections.abc import Callable, Sequence
from itertools import combinations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from highway_lab.console import count_of, name_data
from highway_lab.figures import FAINT_INK, LABEL_PAD, SEQUENTIAL, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.tables import markdown

from .claims import Claim, Verdict, combine, holds, judge_better, of_learners
from .common import group_by
from .common_figures import draw_dots, name_setting
from .inside import IDLE, count_spared
from .task_difficulty import EASIER, HARDER, Seen, TaskDifficultyLog, TaskResult, has_learned

FALLS = (0.005, 0.01, 0.02, 0.05)  # of accuracy, at which the table counts the blocks needed
LEAD = 0.1  # share of a net's lead over guessing, a fall that is fair to tasks of any error
Results = dict[str, list[TaskResult]]  # by task, the easiest first
Measure = Callable[[Seen], float]


def by_setting(log: TaskDifficultyLog) -> dict[str, Results]:
    return {
        setting: {name: [result for result in results if result.task.name == name] for name in log.order}
        for setting, results in group_by(log.results, lambda result: name_setting(result.task.config)).items()
    }


def learned(log: TaskDifficultyLog, results: Sequence[TaskResult]) -> list[TaskResult]:
    return [result for result in results if has_learned(result, log.least_gain)]


def needed_by_task(log: TaskDifficultyLog, tasks: Results) -> dict[str, list[int]]:
    """Return the blocks that the nets need which have learned, by task."""
    return {name: [result.trained.needed for result in learned(log, results)] for name, results in tasks.items()}


def tau(values: Sequence[float]) -> float:
    """Return Kendall's τ of values with their order: pairs that rise less pairs that fall, over all; 0 of one value."""
    signs = [np.sign(after - before) for before, after in combinations(values, 2)]
    return float(np.mean(signs)) if signs else 0.0


def judge_setting(lead: Interval, rank: float, counts: bool, margin: float) -> Verdict:
    """Judge by the blocks that the harder task needs beyond the easier; `counts`: whether enough nets learned both."""
    verdict = judge_better(lead, margin)
    if verdict == Verdict.REPRODUCED and rank <= 0:
        verdict = Verdict.NOT_REPRODUCED if lead.high < margin else Verdict.INCONCLUSIVE
    return of_learners(verdict, counts)


def verdict_of(log: TaskDifficultyLog, tasks: Results) -> tuple[Verdict, Interval, list[float]]:
    """Return the verdict in a setting, the harder task's lead in blocks needed, and the means of tasks that count."""
    needed = needed_by_task(log, tasks)
    counting = {name: float(np.mean(found)) for name, found in needed.items() if len(found) >= log.least_nets}
    lead, means = difference(needed[HARDER], needed[EASIER]), [*counting.values()]
    return judge_setting(lead, tau(means), least_learned(log, tasks) >= log.least_nets, log.margin), lead, means


def least_learned(log: TaskDifficultyLog, tasks: Results) -> int:
    """Return how many nets have learned the harder or the easier task, whichever fewer have."""
    return min(len(learned(log, tasks[name])) for name in (EASIER, HARDER))


def claims(log: TaskDifficultyLog) -> list[Claim]:
    """Return the verdict on the paper's sentence, with the lead and the rank correlation of each setting."""
    verdicts, words, failed = {}, [], ""
    for setting, tasks in by_setting(log).items():
        verdicts[setting], lead, means = verdict_of(log, tasks)
        needed = needed_by_task(log, tasks)
        for name in (EASIER, HARDER):
            if len(needed[name]) < log.least_nets:
                failed += f" With {setting}, {len(needed[name])} of {len(tasks[name])} nets learned the {name}."
        before = difference(*([result.untrained.needed for result in tasks[name]] for name in (HARDER, EASIER)))
        n = f"n = {len(needed[HARDER])} and {len(needed[EASIER])}"
        words.append(
            f"{setting} {lead:+.1f}, {n}, rank correlation {tau(means):+.1f} over {count_of(len(means), 'task')}, "
            f"untrained {before:+.1f}"
        )
    paper = "a complex problem makes a net use more of its layers, a simpler one leaves many idle"
    counting = [tasks for tasks in by_setting(log).values() if least_learned(log, tasks) >= log.least_nets]
    worst = [
        max((100 * of.trained.error for tasks in counting for of in learned(log, tasks[name])), default=np.nan)
        for name in (HARDER, EASIER)
    ]
    why = f"{holds(verdicts, 'with {}')}{failed} The images are the same, only their labels differ."
    if worst[0] > worst[1]:
        why += (
            f" But nets have learned the {HARDER} worse: where enough nets learn, they err on up to {worst[0]:.0f} % "
            f"of the training pairs, and on up to {worst[1]:.1f} % with {EASIER}."
        )
    measured = f'blocks needed for "{HARDER}" minus "{EASIER}": {"; ".join(words)}'
    return [Claim("4.2", paper, combine(verdicts.values()), why, measured, detail=True, before=True)]


def difficulty_figure(log: TaskDifficultyLog) -> Figure:
    """Draw a column a setting: idle blocks against the threshold, and the blocks that each task needs."""
    settings = by_setting(log)
    colors = matplotlib.colormaps[SEQUENTIAL](np.linspace(0, 0.9, len(log.order)))
    verdicts = [verdict_of(log, tasks)[0] for tasks in settings.values() if log.least_nets <= least_learned(log, tasks)]
    of_settings = f"{verdicts.count(Verdict.REPRODUCED)} of {count_of(len(verdicts), 'setting')} whose nets learn it"
    found = f'"{HARDER}" needs more blocks than "{EASIER}" in {of_settings}'
    figure, grid = new_figure(
        f"Pairs from {name_data(log.dataset.name)}: {found}",
        6.0,
        nrows=2,
        ncols=len(settings),
        sharey="row",
        squeeze=False,
    )
    for (above, below), (setting, tasks) in zip(grid.T, settings.items(), strict=True):
        above.set_title(setting.replace("from", "from $b_T$"))
        draw_idle_shares(above, log, tasks, colors)
        draw_needed(below, log, tasks, colors)
    grid[0, 0].set(ylabel="idle blocks (%)", ylim=(0, 100))
    grid[0, len(settings) // 2].set_xlabel("threshold, points of training error")
    depth = log.results[0].task.config.depth
    grid[1, len(settings) // 2].set_xlabel(f"blocks needed, of {depth}; vertical lines: before training")
    grid[1, 0].set_yticks(range(len(log.order)), log.order)
    grid[1, 0].set_ylim(len(log.order) - 0.5, -0.5)  # the easiest on top
    for label, color in zip(grid[1, 0].get_yticklabels(), colors, strict=True):
        label.set_color(color)
    label_ends(grid[0, -1])
    return figure


def draw_idle_shares(axes: Axes, log: TaskDifficultyLog, tasks: Results, colors: np.ndarray) -> None:
    """Draw the share of idle blocks against the threshold: a line a task, and one of all nets before training."""
    thresholds = 100 * np.array(log.idle_thresholds)
    for (name, results), color in zip(tasks.items(), colors, strict=True):
        if found := learned(log, results):
            shares = 100 * np.mean([result.trained.idle_share for result in found], axis=0)
            axes.plot(thresholds, shares, color=color, label=name, clip_on=False)
    before = [result.untrained.idle_share for results in tasks.values() for result in results]
    style = {"color": FAINT_INK, "linestyle": ":", "label": "untrained", "clip_on": False}
    axes.plot(thresholds, 100 * np.mean(before, axis=0), **style)
    axes.set_xscale("log")
    axes.set_xlim(thresholds[0], thresholds[-1])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def draw_needed(axes: Axes, log: TaskDifficultyLog, tasks: Results, colors: np.ndarray) -> None:
    """Draw the blocks needed, a row a task: every net that has learned faint, their mean bold, how many of how many."""
    for row, ((name, results), color) in enumerate(zip(tasks.items(), colors, strict=True)):
        if found := needed_by_task(log, tasks)[name]:
            draw_dots(axes, found, row, color=color)
        before = np.mean([result.untrained.needed for result in results])
        axes.plot([before] * 2, [row - 0.3, row + 0.3], color=FAINT_INK, clip_on=False)
        style = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center", "size": 9}
        axes.annotate(f"{len(found)} of {len(results)}", (1, row), xytext=(LABEL_PAD, 0), **style)
    axes.set_xlim(0, results[0].task.config.depth)


def average(results: Sequence[TaskResult], measure: Measure, form: str, state: str = "trained") -> str:
    """Return the mean of a measure with its interval, or "none" without nets."""
    return f"{interval([measure(getattr(result, state)) for result in results]):{form}}"


def difficulty_table(log: TaskDifficultyLog) -> str:
    """Tabulate, by setting and task, what the nets that have learned reach and use, beside the untrained nets."""
    idle = log.idle_thresholds.index(IDLE)
    measures: dict[str, tuple[Measure, str]] = {
        "blocks needed": (lambda seen: seen.needed, ".1f"),
        "effective depth": (lambda seen: seen.effective_depth, ".2f"),
        "idle (%)": (lambda seen: 100 * seen.idle_share[idle], ".0f"),
        "costly": (lambda seen: np.sum(np.array(seen.lesioned_error) - seen.error >= log.point), ".1f"),
    }
    scores: dict[str, tuple[Measure, str]] = {
        "training error (%)": (lambda seen: 100 * seen.error, ".2f"),
        "test accuracy (%)": (lambda seen: 100 * seen.test_score, ".2f"),
    }
    rows = []
    for setting, tasks in by_setting(log).items():
        for name, results in tasks.items():
            found = learned(log, results)
            shallow = [100 * result.without_blocks for result in results if result.without_blocks is not None]
            cells = [average(found, *of) for of in (scores | measures).values()]
            before = [average(results, *of, "untrained") for of in measures.values()]
            diverged = sum(result.diverged for result in results)
            words = f"{len(found)} of {len(results)}" + f" ({diverged} diverged)" * (diverged > 0)
            rows.append([setting, name, words, *cells, *before, f"{interval(shallow):.2f}"])
    header = ["setting", "task", "learned", *scores, *measures, *(f"untrained: {name}" for name in measures)]
    return (
        f"{markdown([*header, 'training error without blocks (%)'], rows)}\n\n"
        "Means and 95 % intervals over the nets that have learned; untrained nets: over all. Learned: the training "
        f"error is more than {100 * log.least_gain:g} points below that of guessing the commonest class. Blocks "
        f"needed: those not closed, from the last on, before accuracy on {log.set_images:,} training pairs has fallen "
        f"by {100 * log.point:g} in 100. Effective depth: the sum over blocks of the mean T. Idle: blocks whose "
        f"closing alone changes the training error by less than {100 * IDLE:g} points; costly: blocks whose closing "
        f"alone raises it by at least {100 * log.point:g} in 100."
    )


def falls_table(log: TaskDifficultyLog) -> str:
    """Tabulate the blocks needed, by setting and task, at several falls of accuracy."""
    rows = []
    for setting, tasks in by_setting(log).items():
        for name, results in tasks.items():
            found = learned(log, results)
            by_fall = [[blocks_needed(of, fall) for of in found] for fall in FALLS]
            by_lead = [blocks_needed(of, LEAD * (of.guess_error - of.trained.error)) for of in found]
            rows.append([setting, name, *(f"{interval(needed):.1f}" for needed in (*by_fall, by_lead))])
    header = ["setting", "task", *(f"{100 * fall:g} in 100" for fall in FALLS), f"{LEAD:.0%} of its lead"]
    return (
        f"{markdown(header, rows)}\n\nBlocks needed until accuracy has fallen by so much; the last column: by a tenth "
        "of what the net is better than guessing."
    )


def blocks_needed(result: TaskResult, fall: float) -> int:
    errors = result.trained.closed_from_back
    return len(errors) - 1 - count_spared(errors, fall)


FIGURES = {"task_difficulty.png": difficulty_figure}
TABLES = {"task_difficulty": difficulty_table, "task_difficulty_falls": falls_table}
