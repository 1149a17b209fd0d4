"""Pictures, tables and outcomes of the arms: what each reaches, and how a highway net compares."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, INK, draw_seeds, label_ends, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from ..claims import ACCURACY_MARGIN, LOSS_MARGIN
from ..common_figures import draw_dots
from ..paired import Paired, judge_family
from . import what_gates_add as wga

AT_CHANCE = 20  # % of test images, below which a run counts as one at chance
NEAR_BEST = 0.02  # validation accuracy: candidates within it count as workable
MARGINS = {"accuracy": ACCURACY_MARGIN, "loss": LOSS_MARGIN}
SHALLOW_NET = "best shallow net"


class Compared(NamedTuple):
    """A difference highway minus another net, and the word that is true of it."""

    other: str
    cell: wga.Cell
    lead: Paired
    word: str


Family = dict[str, Compared]  # by the name of the other net


def cells_of(log: wga.WhatGatesAddLog) -> list[wga.Cell]:
    return list(dict.fromkeys(of.cell for of in log.tried))


def family(
    highway: tuple[wga.WhatGatesAddLog, wga.Cell],
    others: dict[str, tuple[wga.WhatGatesAddLog, wga.Cell]],
    criterion: str,
    *,
    clipped: bool = True,
) -> Family:
    """Compare highway nets with others by a criterion; the words are corrected for all of these."""

    def runs(of: tuple[wga.WhatGatesAddLog, wga.Cell]) -> list[wga.ArmRun]:
        return wga.scored_runs(*of, criterion, clipped=clipped)

    leads = [wga.compare(runs(highway), runs(other), criterion) for other in others.values()]
    words = judge_family(leads, MARGINS[criterion])
    return {
        name: Compared(name, cell, lead, word)
        for (name, (_, cell)), lead, word in zip(others.items(), leads, words, strict=True)
    }


def first_family(log: wga.WhatGatesAddLog, criterion: str, *, clipped: bool = True) -> Family:
    """Compare highway with each rival and the best shallow net, at the number of blocks that all share."""
    deepest = max(cell.depth for cell in cells_of(log))
    cells = {cell.arm: cell for cell in cells_of(log) if cell.depth == deepest and wga.is_compared(cell)}
    others = {rival: (log, cells[rival]) for rival in wga.RIVALS}
    others[SHALLOW_NET] = log, wga.best_cell(log, filter(wga.is_shallow, cells_of(log)), criterion)
    return family((log, cells["highway"]), others, criterion, clipped=clipped)


def pair_family(logs: Sequence[wga.WhatGatesAddLog]) -> Family:
    """Compare highway with each other main arm on the sum, each at the number of blocks at which it validates best."""
    best = {}
    for log in logs:
        for arm in wga.MAIN:
            if cells := [cell for cell in cells_of(log) if cell.arm == arm and cell not in wga.WIDE_PAIR_CELLS]:
                best[arm] = log, wga.best_cell(log, cells, "accuracy")
    return family(best.pop("highway"), best, "accuracy")


def outcomes(accuracy: Family, loss: Family, pairs: Family) -> list[str]:
    """Return the sentences that the rules of what_gates_add.py give to what was found; a family may be empty."""
    rivals, found = {*wga.RIVALS}, []
    alike = {name for name, of in accuracy.items() if of.word == "as good as"}
    worse = {name for name, of in accuracy.items() if of.word == "outperforms"}
    if alike & {"residual, scaled", "ReZero"} and "plain, orthogonal" in worse:
        found.append("a start near the identity is what matters")
    if "plain, orthogonal" in alike:
        found.append("the trouble of deep plain tanh nets was their initialisation")
    if rivals <= alike and all(of.word == "outperforms" for name, of in loss.items() if name in rivals):
        found.append("gates help to fit, and add nothing to what is learned")
    if rivals <= worse:
        found.append("gating by the data helps")
    elif rivals - {"constant gates"} <= worse:
        found.append("mixing T and 1 − T helps, and it need not see the data")
    if accuracy and SHALLOW_NET not in worse:
        found.append("for highway nets, depth does not help on the digits: the arms compare how well it is survived")
    if any(pairs[name].word == "falls behind" for name in ("residual", "residual, scaled") if name in pairs):
        found.append("gates do not use depth as well as a plain sum does")
    return found


def name_cell(cell: wga.Cell) -> str:
    return f"{cell.arm}, {count_of(cell.depth, 'block')} of {cell.hidden}"


def name_setting(log: wga.WhatGatesAddLog, cell: wga.Cell) -> str:
    """Return the setting chosen by accuracy: rate and scale."""
    setting = wga.ranked(log.tried, cell, "accuracy")[0][0]
    value = setting.value if isinstance(setting.value, str) else f"{wga.ARMS[cell.arm].scale} {setting.value:.3g}"
    return f"{setting.lr:g}, {value}"


def arms_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate every cell of every study: accuracy and loss, counts of failures, settings, workable candidates."""
    rows = []
    for log in logs:
        gated = {cell.depth: wga.scored_runs(log, cell, "accuracy") for cell in cells_of(log) if cell.arm == "highway"}
        for cell in cells_of(log):
            highway = gated.get(cell.depth) or gated.get(max(gated, default=0), [])
            accuracy, loss = (wga.scored_runs(log, cell, of) for of in (wga.STUDIES[log.study].criteria * 2)[:2])
            points = wga.values_of(accuracy, "accuracy")
            rows.append(
                [
                    log.study,
                    name_cell(cell),
                    f"{interval(points):.1f}",
                    f"{wga.compare(highway, accuracy, 'accuracy').interval():+.1f}" if highway != accuracy else "",
                    f"{10 ** -wga.values_of(loss, 'loss').mean():.2g}",
                    f"{np.count_nonzero(points < AT_CHANCE)} of {len(points)}",
                    f"{100 * np.mean([run.clipped for run in accuracy]):.0f} %",
                    workable(log, cell),
                    name_setting(log, cell),
                ]
            )
    header = ["study", "net", "test accuracy, %", "highway minus it", "training loss", "at chance or diverged"]
    table = markdown([*header, "steps clipped", "workable candidates", "setting"], rows)
    return f"{table}\n\nHighway minus it: points, highway nets of as many blocks, else of the most; paired by seed."


def workable(log: wga.WhatGatesAddLog, cell: wga.Cell) -> str:
    """Return the share of candidates near the best of those tried with the first seed; nothing if few were tried."""
    tries = [of for of in log.tried if (of.cell, of.seed) == (cell, wga.TUNING_SEEDS[0])]
    if not tries:
        return ""
    scores = np.array([wga.CHANCE if of.validation_score is None else of.validation_score for of in tries])
    return f"{np.mean(scores >= scores.max() - NEAR_BEST):.0%}"


def compared_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate the comparisons of each study that has them, each family corrected in itself."""
    rows = [
        [words, name_cell(of.cell), f"{of.lead.interval():+.2f}", f"{of.lead.n}", of.word]
        for words, found in families(logs).items()
        for of in found.values()
    ]
    header = ["family", "highway minus", "difference", "seeds", "highway is, or does"]
    return (
        f"{markdown(header, rows)}\n\nAccuracy in points, training loss in orders of magnitude; more is better. "
        "± is the 95 % interval of one difference; the words are corrected for all of a family."
    )


def families(logs: Sequence[wga.WhatGatesAddLog]) -> dict[str, Family]:
    """Return the families of comparisons that the logs allow, by their names."""
    found = {}
    for log in logs:
        study = wga.STUDIES[log.study]
        if study.epochs >= 60:
            for criterion in study.criteria:
                for clipped in (True, False)[: 1 + study.unclipped]:
                    name = f"{log.study}, {criterion}{', unclipped' * (not clipped)}"
                    found[name] = first_family(log, criterion, clipped=clipped)
    pairs = [log for log in logs if wga.STUDIES[log.study].of == wga.SUM]
    if any(cell.arm not in wga.FIRST_OF_PAIRS for log in pairs for cell in cells_of(log)):
        found["sum, accuracy"] = pair_family(pairs)
    return found


def outcomes_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate the sentences that the rules give to what was found."""
    found = families(logs)
    words = outcomes(*(found.get(name, {}) for name in ("tanh-long, accuracy", "tanh-long, loss", "sum, accuracy")))
    return markdown(["what the rules say of it"], [[of] for of in words or ["no sentence holds"]])


def arms_figure(*logs: wga.WhatGatesAddLog) -> Figure:
    """Draw surviving depth, every arm at 100 blocks beside shallow nets, and using it, accuracy by depth."""
    digits = [log for log in logs if wga.STUDIES[log.study].of != wga.SUM]
    pairs = [log for log in logs if wga.STUDIES[log.study].of == wga.SUM]
    names = ["Surviving depth: 100 blocks, and shallow nets"] * bool(digits) + ["using it"] * bool(pairs)
    figure, panels = new_figure("; ".join(names), 6.4, ncols=len(names), squeeze=False)
    if digits:
        draw_survival(panels[0, 0], digits[0])
    if pairs:
        draw_use(panels[0, -1], pairs)
    return figure


def draw_survival(axes: Axes, log: wga.WhatGatesAddLog) -> None:
    """Draw the test accuracy of the cells with as many parameters, a dot a seed."""
    cells = [cell for cell in cells_of(log) if cell.hidden == wga.ARMS[cell.arm].widths[0]]
    cells = [cell for cell in cells if not wga.is_shallow(cell)]
    cells += [cell for cell in cells_of(log) if wga.is_shallow(cell) and cell.hidden != wga.NARROW]
    for height, cell in enumerate(reversed(cells)):
        kind = "highway" if cell.arm.startswith("highway") else "plain"
        color = INK if wga.is_shallow(cell) else COLORS[kind]
        draw_dots(axes, wga.values_of(wga.scored_runs(log, cell, "accuracy"), "accuracy"), height, color=color)
    axes.set_yticks(range(len(cells)), [name_cell(cell) for cell in reversed(cells)], fontsize=8)
    axes.set_xlabel("test accuracy (%), digits")


def draw_use(axes: Axes, logs: Sequence[wga.WhatGatesAddLog]) -> None:
    """Draw the test accuracy on the sum by the number of blocks, a line for each arm."""
    for arm, color in zip(wga.MAIN, COLORS.values(), strict=False):
        by_depth: dict[int, np.ndarray] = {}
        for log in logs:
            for cell in cells_of(log):
                if cell.arm == arm and cell not in wga.WIDE_PAIR_CELLS:
                    by_depth[cell.depth] = wga.values_of(wga.scored_runs(log, cell, "accuracy"), "accuracy")
        if by_depth:
            depths = sorted(by_depth)
            draw_seeds(axes, depths, np.transpose([by_depth[of] for of in depths]), label=arm, color=color, marker="o")
    axes.set(xlabel="blocks", ylabel="test accuracy (%), sum of two digits", xscale="symlog")
    label_ends(axes)


FIGURES = {"what_gates_add.png": arms_figure}
TABLES = {
    "what_gates_add": arms_table,
    "what_gates_add_compared": compared_table,
    "what_gates_add_outcomes": outcomes_table,
}
