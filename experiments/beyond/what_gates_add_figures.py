"""Pictures, tables and outcomes of the arms: what each reaches, and how a highway net compares."""

from collections.abc import Callable, Sequence, Sized
from functools import wraps
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_level, label_ends, new_figure, pale
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from ..claims import ACCURACY_MARGIN, LOSS_MARGIN, in_words
from ..common import group_by
from ..common_figures import draw_dots, legend_below, minus, scale_errors
from ..comparisons import Difference, judge_family
from . import what_gates_add as wga

SHADES = dict(  # of the gate biases, darker the more closed
    zip(
        sorted({*wga.BIASES, *wga.PAIR_BIASES}, reverse=True),
        [pale(COLORS["highway"], strength) for strength in (0.2, 0.4, 0.6, 0.8, 1)],
        strict=True,
    )
)
AT_CHANCE = 20  # % of test images, below which a run counts as one at chance
NEAR_BEST = 0.02  # validation accuracy: candidates within it count as workable
MARGINS = {"accuracy": ACCURACY_MARGIN, "loss": LOSS_MARGIN}
ERROR_TICKS, PAIR_TICKS = (5, 10, 20), (15, 20, 30, 40, 60, 90)  # %
COLORS_OF_MAIN = {
    "plain": COLORS["plain"],
    "plain, orthogonal": COLORS["lstm"],
    "residual": COLORS["residual"],
    "residual, scaled": COLORS["residual-scaled"],
    "ReZero": COLORS["highway-uncoupled"],
    "residual, gated": FAINT_INK,
    "highway": COLORS["highway"],
}
VARIED = {"plain, identity": "plain", "ReZero by block": "ReZero"}
VARIED |= dict.fromkeys(("constant gates", "gates as drawn", "highway, orthogonal", "highway, gain"), "highway")
LEAST_SHOWN = 0.85  # of the highest accuracy: the darkest colour
AT_END = "†"  # marks a hyperparameter at an end of its grid
PASSED = 0.01  # of the largest singular value: directions above it count as passed on
DEEP = 10  # blocks of the nets whose effective depth is drawn
SHALLOW_NET = "best shallow net"
KEPT = {  # by arm: its block, and what this keeps of a highway block
    "highway": ("y = T(x)·H + (1 − T(x))·x", "all"),
    "highway, orthogonal": ("y = T(x)·H + (1 − T(x))·x, from orthogonal weights", "all"),
    "gates as drawn": (
        "y = T(x)·H + (1 − T(x))·x, W_T and b_T not trained",
        "gated copy, small start, dependence on the input",
    ),
    "constant gates": ("y = T·H + (1 − T)·x, one learned number T a unit", "gated copy, small start, learned scale"),
    "residual, gated": ("y = x + T(x)·H", "all, but the copy is whole"),
    "residual, scaled": ("y = x + H/Lᵖ", "whole copy, fixed small scale"),
    "residual": ("y = x + H", "whole copy"),
    "ReZero": ("y = x + a·H, a from 0, one number a unit", "whole copy, small start, learned scale"),
    "ReZero by block": ("y = x + a·H, a from 0, one number a block", "whole copy, small start, learned scale"),
    "plain, identity": ("y = H, W_H begins as the identity", "small change at the start"),
    "plain, orthogonal": ("y = H, orthogonal weights", "nothing"),
    "plain": ("y = H", "nothing"),
}
JUDGED = "tanh-long"  # the study of the digits that the rules judge
MIRRORED = {"outperforms": "falls behind", "falls behind": "outperforms"}  # what the other net does
WIDE_STUDIES = (("wide", "wide-rivals"), ("wide-long", "wide-rivals-long"))  # highway nets, and others
NOTHING = "Nothing yet: the runs of this table are not there."
COMPARED_WITH = {  # the best net of a study, with these nets of another
    "wide": (wga.FIRST_STUDY, ("highway", SHALLOW_NET)),
    "gain": (wga.FIRST_STUDY, ("highway", "constant gates", "residual, scaled")),
    "wide-long": (JUDGED, ("highway", SHALLOW_NET)),
}


class Compared(NamedTuple):
    """A difference highway minus another net, and the word that is true of it."""

    other: str
    cell: wga.Cell
    lead: Difference
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


def further_family(base: wga.WhatGatesAddLog, names: Sequence[str], log: wga.WhatGatesAddLog) -> Family:
    """Compare the net of a study that validates best with nets of another, its base, by accuracy."""
    cells = {cell.arm: cell for cell in equal_cells(base) if not wga.is_shallow(cell)}
    cells[SHALLOW_NET] = wga.best_cell(base, filter(wga.is_shallow, cells_of(base)), "accuracy")
    others = {name: (base, cells[name]) for name in names}
    return family((log, wga.best_cell(log, cells_of(log), "accuracy")), others, "accuracy")


def wide_family(wide: wga.WhatGatesAddLog, rivals: wga.WhatGatesAddLog) -> Family:
    """Compare the wide highway net that validates best with the best of each wide rival."""
    by_arm = group_by(cells_of(rivals), lambda cell: cell.arm)
    others = {arm: (rivals, wga.best_cell(rivals, cells, "accuracy")) for arm, cells in by_arm.items()}
    return family((wide, wga.best_cell(wide, cells_of(wide), "accuracy")), others, "accuracy")


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
    """Return the setting chosen by accuracy: rate and scale, each marked if it lies at an end of its grid."""
    chosen, arm, study = wga.ranked(log.tried, cell, "accuracy")[0][0], wga.ARMS[cell.arm], wga.STUDIES[log.study]
    grid = wga.candidates(arm, study.activation, study.of)  # in order
    lr, scale = (AT_END * (of in ends) for of, *ends in zip(chosen, grid[0], grid[-1], strict=True))
    value = chosen.value if isinstance(chosen.value, str) else f"{arm.scale} {chosen.value:.3g}"
    return f"{chosen.lr:g}{lr}, {value}{scale}"


def arms_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate every cell of every study: accuracy and loss, counts of failures, settings, workable candidates."""
    rows = []
    for log in logs:
        gated = highway_runs([log]) or highway_runs(of_budget(logs, log.study))
        for cell in cells_of(log):
            highway = gated.get(cell.depth) or gated.get(max(gated, default=0), [])
            accuracy, loss = (wga.scored_runs(log, cell, of) for of in (wga.STUDIES[log.study].criteria * 2)[:2])
            points = wga.values_of(accuracy, "accuracy")
            rows.append(
                [
                    log.study,
                    name_cell(cell),
                    f"{interval(points):.1f}",
                    f"{wga.compare(highway, accuracy, 'accuracy').interval():+.1f}"
                    if highway not in ([], accuracy)
                    else "",
                    f"{10 ** -wga.values_of(loss, 'loss').mean():.2g}",
                    f"{np.count_nonzero(points < AT_CHANCE)} of {len(points)}",
                    f"{100 * np.mean([run.clipped for run in accuracy]):.0f} %",
                    workable(log, cell),
                    name_setting(log, cell),
                ]
            )
    header = [
        "study",
        "net",
        "test accuracy, %",
        "highway of as many blocks minus it",
        "training loss",
        "at chance or diverged",
    ]
    table = markdown([*header, "steps clipped", "workable candidates", "setting"], rows)
    return (
        f"{table}\n\nHighway minus it: points, of as many blocks, else of the most; of the same study, "
        "else of another with as many epochs; paired by seed. The training loss is of the setting best by training "
        f"loss, all else of the setting named, of which {AT_END} marks the ends of the grid."
    )


def deep_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate the digits' deep nets with as many parameters, and the shallow ones that rules compare with them."""
    compared = {of.cell for of in families(logs).get(f"{JUDGED}, accuracy", {}).values()}

    def shown(cell: wga.Cell) -> bool:
        is_deep = cell.depth == wga.BLOCKS_OF_FIRST and cell.hidden == wga.ARMS[cell.arm].widths[0]
        return cell.arm in KEPT and (is_deep or cell in compared)

    header, rows = accuracies_by_epochs(logs, shown, (JUDGED,))
    header = ["net", "block", "what it keeps of a highway block", *header]
    return table_of_accuracies(header, [[name_cell(cell), *KEPT[cell.arm], *words] for cell, words in rows.items()])


def wide_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate the digits' nets of few blocks with as many parameters as the deep highway net."""
    header, rows = accuracies_by_epochs(logs, lambda cell: cell.hidden > wga.WIDE, sum(WIDE_STUDIES, ()))
    return table_of_accuracies(["net", *header], [[name_cell(cell), *words] for cell, words in rows.items()])


def copy_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate highway and gated residual nets from the same gate biases: accuracy, and how many blocks' gates open."""
    runs = [run for log in logs if log.study == "copy" for run in log.runs]
    if not runs:
        return NOTHING
    by_bias = group_by(runs, lambda run: run.task.setting.value)
    nets = {bias: group_by(of, lambda run: run.task.arm) for bias, of in by_bias.items()}
    leads = [wga.compare(of["residual, gated"], of["highway"], "accuracy") for of in nets.values()]
    rows = [
        [
            minus(bias),
            *(f"{interval(wga.values_of(of[arm], 'accuracy')):.1f}" for arm in ("highway", "residual, gated")),
            f"{lead.interval():+.2f}, *{word}*",
            *(mean_depth(of[arm]) for arm in ("highway", "residual, gated")),
        ]
        for (bias, of), lead, word in zip(nets.items(), leads, judge_family(leads, ACCURACY_MARGIN), strict=True)
    ]
    header = [
        "b_T",
        "highway",
        "gated residual",
        "better than highway by",
        "effective depth, highway",
        "gated residual",
    ]
    return (
        f"{markdown(header, rows, words=True)}\n\nTest accuracy in % after 60 epochs, rate {wga.COPY_RATE:g}, ten "
        "seeds; differences in points with our rule's word. Effective depth: the sum over blocks of the mean gate."
    )


def depths_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate accuracies on the digits by the number of blocks, as far as "depths" goes, and leads over highway."""
    if "depths" not in {log.study for log in logs}:
        return NOTHING
    runs = {
        (cell.arm, cell.depth): wga.scored_runs(log, cell, "accuracy")
        for log in of_budget(logs, "depths")
        for cell in cells_of(log)
        if cell.arm in wga.COMPARED and cell.hidden == wga.ARMS[cell.arm].widths[0]
    }
    depths, rows = sorted({depth for _, depth in runs}), []
    for arm in wga.COMPARED:
        row = [arm]
        for depth in depths:
            of, highway = (wga.values_of(runs[name, depth], "accuracy") for name in (arm, "highway"))
            row += [f"{interval(of):.1f}", "" if arm == "highway" else f"{interval(of - highway):+.1f}"]
        rows.append(row)
    header = [words for depth in depths for words in (count_of(depth, "block"), "better than highway by")]
    study = wga.STUDIES["depths"]
    return (
        f"{markdown(['net', *header], rows)}\n\nTest accuracy in % after {study.epochs} epochs at a constant rate, of "
        "the setting that validates best at this depth; differences in points, paired by seed. No rule compares them; "
        f"{study.seeds} seeds."
    )


def mean_depth(runs: Sequence[wga.ArmRun]) -> str:
    """Return the mean effective depth of the runs that did not diverge; nothing of none."""
    depths = [run.effective_depth for run in runs if run.opened is not None]
    return f"{np.mean(depths):.1f}" if depths else ""


def table_of_accuracies(header: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return NOTHING
    return (
        f"{markdown(header, rows, words=True)}\n\n"
        "Test accuracy in %, the best net first. Better by: points. The highway net is the one that validates "
        "best after as many epochs. The word in italics is our rules' verdict on a net beside the highway net; "
        "other rows were not judged by a rule. Nets that rules compare have twenty seeds, deep ones beside them "
        "ten."
    )


def accuracies_by_epochs(
    logs: Sequence[wga.WhatGatesAddLog], shown: Callable[[wga.Cell], bool], judging: Sequence[str]
) -> tuple[list[str], dict[wga.Cell, list[str]]]:
    """Return a table's header and rows: accuracies of nets of the digits, and their leads over the best highway net.

    Behind a lead stands the word that the rules give to it in the studies named by `judging`.
    """
    found, header, order, rows = families(logs), [], {}, {}
    for study in (wga.FIRST_STUDY, JUDGED):
        nets = {cell: log for log in of_budget(logs, study) for cell in cells_of(log) if shown(cell)}
        gated = [cell for cell in nets if cell.arm == "highway"]
        if not gated:
            continue
        best = max(gated, key=lambda cell: wga.ranked(nets[cell].tried, cell, "accuracy")[0][1])
        judged = [found.get(f"{name}, accuracy", {}) for name in judging if budget(name) == budget(study)]
        words = {of.cell: f", *{MIRRORED.get(of.word, of.word)}*" for family in judged for of in family.values()}
        highway = wga.scored_runs(nets[best], best, "accuracy")
        for cell, log in nets.items():
            lead = wga.compare(wga.scored_runs(log, cell, "accuracy"), highway, "accuracy").interval()
            points = accuracies(log, cell)
            order[cell] = len(header), points.mean()
            rows.setdefault(cell, [""] * len(header))
            rows[cell] += [f"{interval(points):.1f}", f"{lead:+.2f}{words.get(cell, '')}" if cell != best else ""]
        header += [f"{wga.STUDIES[study].epochs} epochs", "better than highway by"]
    best_first = sorted(rows, key=order.get, reverse=True)
    return header, {cell: rows[cell] + [""] * (len(header) - len(rows[cell])) for cell in best_first}


def sum_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate accuracy on the sum by arm and number of blocks."""
    pairs, rows = [*filter(is_of_pairs, logs)], []
    by_arm = {arm: found for arm in wga.MAIN if (found := pair_scores(pairs, arm))}
    depths = sorted({depth for found in by_arm.values() for depth in found})
    for arm, found in by_arm.items():
        best = max(found, key=lambda depth: found[depth][0])  # on validation pairs
        cells = {depth: f"{interval(scores):.1f}" for depth, (_, scores) in found.items()}
        cells[best] = f"**{cells[best]}**"
        rows.append([arm, *(cells.get(depth, "") for depth in depths)])
    for log in pairs:
        for cell in filter(wga.WIDE_PAIR_CELLS.__contains__, cells_of(log)):
            words = {cell.depth: f"{interval(accuracies(log, cell)):.1f}"}
            rows.append([f"{cell.arm}, {cell.hidden} units", *(words.get(depth, "") for depth in depths)])
    if not rows:
        return NOTHING
    table = markdown(["net", *(count_of(depth, "block") for depth in depths)], rows)
    return (
        f"{table}\n\nTest accuracy in % after 30 epochs, ten seeds. {wga.PAIR_UNITS} units a block where no number is "
        "given. Bold: the number of blocks that validates best, which need not be best on test pairs."
    )


def highway_runs(logs: Sequence[wga.WhatGatesAddLog]) -> dict[int, list[wga.ArmRun]]:
    """Return the runs of highway nets in the setting best by accuracy, by the number of blocks; the last log's."""
    cells = [(log, cell) for log in logs for cell in cells_of(log) if cell.arm == "highway"]
    return {cell.depth: wga.scored_runs(log, cell, "accuracy") for log, cell in cells}


def budget(name: str) -> tuple[str, str, int, str]:
    """Return in what two studies agree whose nets can be compared: task, activation, epochs and schedule."""
    study = wga.STUDIES[name]
    return study.of, study.activation, study.epochs, study.schedule


def of_budget(logs: Sequence[wga.WhatGatesAddLog], name: str) -> list[wga.WhatGatesAddLog]:
    """Return the logs whose nets can be compared with those of a study."""
    return [log for log in logs if budget(log.study) == budget(name)]


def is_of_pairs(log: wga.WhatGatesAddLog) -> bool:
    return wga.STUDIES[log.study].of == wga.SUM


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
        [words, name_cell(of.cell), f"{of.lead.interval():+.2f}", f"{of.lead.df + 1}", of.word]
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
    found, by_study = {}, {log.study: log for log in logs}
    for log in logs:
        study, (base, names) = wga.STUDIES[log.study], COMPARED_WITH.get(log.study, ("", ()))
        if study.cells is wga.LONG_CELLS:
            for criterion in study.criteria:
                for clipped in sorted({run.config.clip > 0 for run in log.runs}, reverse=True):
                    name = f"{log.study}, {criterion}{', unclipped' * (not clipped)}"
                    found[name] = first_family(log, criterion, clipped=clipped)
        elif base in by_study:
            found[f"{log.study}, accuracy"] = further_family(by_study[base], names, log)
    for wide, rivals in WIDE_STUDIES:
        if by_study.keys() >= {wide, rivals}:
            found[f"{rivals}, accuracy"] = wide_family(by_study[wide], by_study[rivals])
    pairs = [*filter(is_of_pairs, logs)]
    if any(cell.arm == "highway" for log in pairs for cell in cells_of(log)):
        found["sum, accuracy"] = pair_family(pairs)
    return found


def outcomes_table(*logs: wga.WhatGatesAddLog) -> str:
    """Tabulate the sentences that the rules give to what was found."""
    found = families(logs)
    words = outcomes(*(found.get(name, {}) for name in (f"{JUDGED}, accuracy", f"{JUDGED}, loss", "sum, accuracy")))
    none = "no sentence holds" if found else "nothing yet: the runs that they judge are not there"
    return markdown(["what the rules say of it"], [[of] for of in words or [none]])


def of_tuned(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Let a picture be drawn of the logs whose settings were tuned; without such a log it says so."""

    @wraps(draw)
    def of_tuned_alone(*logs: wga.WhatGatesAddLog) -> Figure:
        tuned = [log for log in logs if log.tried]
        return draw(*tuned) if tuned else new_figure("No settings were tuned in these runs", 1.5)[0]

    return of_tuned_alone


@of_tuned
def arms_figure(*logs: wga.WhatGatesAddLog) -> Figure:
    """Draw surviving depth, every arm at 100 blocks beside shallow nets, and using it, test error by depth."""
    digits = [log for log in logs if not is_of_pairs(log)]
    pairs = [*filter(is_of_pairs, logs)]
    judged = [log for log in digits if log.study == JUDGED] or digits
    found = [*map(survival_in_words, judged[:1]), *([use_in_words(pairs)] if pairs else [])]
    figure, panels = new_figure("; ".join(found), 6.4, ncols=len(found), squeeze=False)
    if digits:
        draw_survival(panels[0, 0], digits)
    if pairs:
        draw_use(panels[0, -1], pairs)
    return figure


def survival_in_words(log: wga.WhatGatesAddLog) -> str:
    """Say what the highway net and the shallow net that validate best err on."""
    words = []
    for are_shallow in (False, True):
        cells = [cell for cell in cells_of(log) if wga.is_shallow(cell) == are_shallow]
        if cells := [cell for cell in cells if are_shallow or cell.arm == "highway"]:
            cell = wga.best_cell(log, cells, "accuracy")
            accuracy = accuracies(log, cell).mean()
            words.append(f"{count_of(cell.depth, f'{cell.arm} block')} err on {100 - accuracy:.1f} %")
    return f"After {wga.STUDIES[log.study].epochs} epochs {in_words(words)} of the digits"


def use_in_words(logs: Sequence[wga.WhatGatesAddLog]) -> str:
    """Return by how many points the best residual and highway nets lead the best net of at most one block."""
    gains, (_, of_shallow) = [], best_of_one_block(logs)
    for arm in ("residual", "highway"):
        if found := pair_scores(logs, arm):
            _, scores = max(found.values(), key=lambda of: of[0])
            gains.append(f"{arm} nets {scores.mean() - of_shallow.mean():+.1f}".replace("-", "−"))
    return f"points above the best net of one block on the sum: {', '.join(gains)}"


def best_of_one_block(logs: Sequence[wga.WhatGatesAddLog]) -> tuple[wga.Cell, np.ndarray]:
    """Return the net of at most one block that validates best on the sum, and its test accuracy (%) by seed."""
    shallow = [(log, cell) for log in logs for cell in cells_of(log) if cell.depth <= 1]
    log, cell = max(shallow, key=lambda of: wga.ranked(of[0].tried, of[1], "accuracy")[0][1])
    return cell, accuracies(log, cell)


def pair_scores(logs: Sequence[wga.WhatGatesAddLog], arm: str) -> dict[int, tuple[float, np.ndarray]]:
    """Return validation accuracy, and test accuracy (%) by seed, of an arm on the sum, by the number of blocks."""
    return {
        cell.depth: (
            wga.ranked(log.tried, cell, "accuracy")[0][1],
            accuracies(log, cell),
        )
        for log in logs
        for cell in sorted(cells_of(log), key=lambda cell: cell.depth)
        if cell.arm == arm and cell not in wga.WIDE_PAIR_CELLS
    }


def equal_cells(log: wga.WhatGatesAddLog) -> list[wga.Cell]:
    """Return the cells with as many parameters as highway nets, or their block: deep ones first, then shallow ones.

    On the sum, and of wide nets, these are all cells.
    """
    deep = [cell for cell in cells_of(log) if cell.hidden == wga.ARMS[cell.arm].widths[0] and not wga.is_shallow(cell)]
    if is_of_pairs(log) or not deep:
        return cells_of(log)
    return [*deep, *(cell for cell in cells_of(log) if wga.is_shallow(cell) and cell.hidden != wga.NARROW)]


def color_of(cell: wga.Cell) -> str:
    """Return the colour of an arm, or of the main arm that it varies; shallow plain nets have one of their own."""
    return INK if wga.is_shallow(cell) else COLORS_OF_MAIN[VARIED.get(cell.arm, cell.arm)]


def name_rows(axes: Axes, cells: Sequence[wga.Cell]) -> None:
    """Write the names of cells beside the rows 0, 1, ... of a panel, from above."""
    axes.set_yticks(range(len(cells)), [name_cell(cell) for cell in cells], fontsize=8)
    axes.set_ylim(max(1, len(cells)) - 0.5, -0.5)


def draw_survival(axes: Axes, logs: Sequence[wga.WhatGatesAddLog]) -> None:
    """Draw the test error of the cells of the first log with as many parameters, and of wide highway nets.

    A dot is a seed; a diamond is the mean after 60 epochs.
    """
    rows = dict.fromkeys(equal_cells(logs[0]), logs[0])
    beside = (log for log in of_budget(logs, logs[0].study) if log.study in WIDE_STUDIES[0])
    rows |= {cell: log for log in beside for cell in cells_of(log)}
    for row, (cell, log) in enumerate(rows.items()):
        draw_dots(axes, 100 - accuracies(log, cell), row, color=color_of(cell))
        for longer in (log for log in of_budget(logs, JUDGED) if log.study != logs[0].study and cell in cells_of(log)):
            style = {"markeredgecolor": color_of(cell), "markerfacecolor": "white", "zorder": 3}
            axes.plot(100 - accuracies(longer, cell).mean(), row, "D", **style)
    name_rows(axes, [*rows])
    scale_errors(axes, ERROR_TICKS)
    axes.set_xlabel("test error (%) on the digits")


def accuracies(log: wga.WhatGatesAddLog, cell: wga.Cell) -> np.ndarray:
    """Return the test accuracies of a cell in the setting best by accuracy, in %, one a seed."""
    return wga.values_of(wga.scored_runs(log, cell, "accuracy"), "accuracy")


@of_tuned
def start_figure(*logs: wga.WhatGatesAddLog) -> Figure:
    """Draw how untrained deep nets pass on gradients, block by block, and the directions of an input, for each arm.

    Left, the norm of the gradient at each block, as a multiple of that behind the last one; right, the singular values
    of the Jacobian of all blocks at one image.
    """
    log = logs[0]
    deepest = max(cell.depth for cell in equal_cells(log))
    starts = {cell: start for cell in equal_cells(log) if cell.depth == deepest and (start := start_of(log, cell))}
    ranges = {cell: finite(start.singular_values) for cell, start in starts.items()}
    passed = {cell.arm: f"{np.sum(of > PASSED * of.max())} of {len(of)}" for cell, of in ranges.items()}
    found = ", ".join(f"{arm} {passed[arm]}" for arm in ("plain", "highway") if arm in passed)
    title = f"Singular values above {PASSED:.0%} of the largest, before training: {found}"
    figure, (gradients, values) = new_figure(title, height_of(starts), ncols=2, sharey=True)
    for row, (cell, start) in enumerate(starts.items()):
        norms = finite(start.gradient_norms)
        draw_dots(gradients, norms / norms[-1], row, center=lambda of: of[0], color=color_of(cell))
        draw_dots(values, ranges[cell], row, center=np.median, color=color_of(cell))
    name_rows(gradients, [*starts])
    gradients.set(xscale="log", xlabel="gradient by block ÷ that behind the last\n(large: of the first)")
    values.set(xscale="log", xlabel="singular values of $dx_L/dx_0$\n(large: the median)")
    return figure


def start_of(log: wga.WhatGatesAddLog, cell: wga.Cell) -> wga.Flow | None:
    """Return what was measured of an untrained net of a cell, in the setting chosen by accuracy."""
    return next((run.start for run in wga.scored_runs(log, cell, "accuracy") if run.start), None)


def finite(values: Sequence[float | None]) -> np.ndarray:
    return np.array([value for value in values if value is not None])


@of_tuned
def rates_figure(*logs: wga.WhatGatesAddLog) -> Figure:
    """Draw the validation accuracy at each rate, in the best scale there, of the candidates tried with one seed."""
    log = logs[0]
    cells, rates = equal_cells(log), sorted({of.lr for of in log.tried})
    first = min(of.seed for of in log.tried)
    tried = group_by((of for of in log.tried if of.seed == first), lambda of: (of.cell, of.lr))
    scores = np.array([[best_score(tried.get((cell, lr), [])) for lr in rates] for cell in cells])
    suits = np.sum(scores >= np.nanmax(scores, axis=1, keepdims=True) - 100 * NEAR_BEST, axis=1)
    by_arm = dict(zip((cell.arm for cell in cells), suits, strict=True))
    shown = {"highway": "highway nets", "residual, scaled": "scaled residual nets"}
    found = [f"{by_arm[arm]} suit {words}" for arm, words in shown.items() if arm in by_arm]
    title = f"Of {len(rates)} learning rates, {in_words(found)}" if found else f"{len(rates)} learning rates"
    figure, axes = new_figure(title, height_of(cells))
    best = np.nanmax(scores)
    axes.imshow(scores, aspect="auto", vmin=LEAST_SHOWN * best, vmax=best)
    for row, column in np.argwhere(~np.isnan(scores)):
        color = "black" if scores[row, column] > (1 + LEAST_SHOWN) / 2 * best else "white"
        words = f"{scores[row, column]:.0f}"
        axes.text(column, row, words, color=color, size=8, ha="center", va="center")
    axes.set_xticks(range(len(rates)), [f"{lr:g}" for lr in rates])
    name_rows(axes, cells)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("learning rate")
    return figure


@of_tuned
def opened_figure(*logs: wga.WhatGatesAddLog) -> Figure:
    """Draw validation accuracy by effective depth, a dot a highway net that tried a setting, a panel a task and depth.

    The level is the residual net of as many blocks that validates best. Diverged nets have no effective depth.
    """
    nets = deep_nets(logs, "highway")
    found = "; ".join(f"{opened_by_best(*net)} of {net[1].depth}" for net in nets.values())
    title = f"Highway nets within {100 * NEAR_BEST:g} points of the best open so many blocks: {found or 'no such net'}"
    figure, panels = new_figure(title, 4.6, ncols=max(1, len(nets)), sharex=True, sharey=True, squeeze=False)
    for axes, (name, (log, cell)) in zip(panels.flat, nets.items(), strict=False):
        tried = [of for of in log.tried if of.cell == cell and of.opened is not None]
        for bias, color in SHADES.items():
            of_bias = [of for of in tried if of.value == bias]
            scores = [100 * of.validation_score for of in of_bias]
            axes.plot([of.opened for of in of_bias], scores, "o", color=color, label=f"b_T {minus(bias)}")
        if name in (residual := deep_nets(logs, "residual")):
            log, cell = residual[name]
            draw_level(axes, 100 * wga.ranked(log.tried, cell, "accuracy")[0][1], "residual")
        axes.set_title(name)
        axes.set(xscale="log", xlabel="effective depth", xticks=(0.1, 1, 10), xticklabels=(0.1, 1, 10))
    panels[0, 0].set_ylabel("validation accuracy (%)")
    legend_below(figure, panels[0, 0])
    return figure


def deep_nets(logs: Sequence[wga.WhatGatesAddLog], arm: str) -> dict[str, tuple[wga.WhatGatesAddLog, wga.Cell]]:
    """Return log and cell of the nets of an arm of 10 blocks or more, by what a panel calls them."""
    of_tasks = {"digits": logs[:1], "sum": filter(is_of_pairs, logs)}
    return {
        f"{task}, {cell.depth} blocks": (log, cell)
        for task, found in of_tasks.items()
        for log in found
        for cell in equal_cells(log)
        if cell.arm == arm and cell.depth >= DEEP
    }


def opened_by_best(log: wga.WhatGatesAddLog, cell: wga.Cell) -> str:
    """Return the range of effective depth of the nets of a cell that validate about as well as the best of them."""
    tried = [of for of in log.tried if of.cell == cell and of.opened is not None]
    if not tried:
        return "none"
    least = max(of.validation_score for of in tried) - NEAR_BEST
    opened = [of.opened for of in tried if of.validation_score >= least]
    return " to ".join(dict.fromkeys(f"{end:.2g}" for end in (min(opened), max(opened))))


def height_of(rows: Sized) -> float:
    """Return the height of a picture with so many rows, in inches."""
    return 1.6 + 0.24 * len(rows)


def best_score(tries: Sequence[wga.Tried]) -> float:
    """Return the highest validation accuracy in per cent, NaN of no tries; a diverged run guesses."""
    scores = (wga.CHANCE if of.validation_score is None else of.validation_score for of in tries)
    return 100 * max(scores, default=np.nan)


def draw_use(axes: Axes, logs: Sequence[wga.WhatGatesAddLog]) -> None:
    """Draw the test error on the sum by the number of blocks, a line an arm, a dot a seed.

    The level is the best net of one block or none, which may be so wide that it has as many parameters as deep nets.
    """
    depths = sorted({cell.depth for log in logs for cell in cells_of(log)})
    for arm, color in COLORS_OF_MAIN.items():
        errors = {depth: 100 - scores for depth, (_, scores) in pair_scores(logs, arm).items()}
        if errors:
            style = {"color": color, "clip_on": False}
            x = list(map(depths.index, errors))
            for place, of in zip(x, errors.values(), strict=True):
                axes.plot([place] * len(of), of, "o", markersize=3, alpha=0.4, **style)
            axes.plot(x, [of.mean() for of in errors.values()], marker="o", label=arm, **style)
    cell, scores = best_of_one_block(logs)
    draw_level(axes, 100 - scores.mean(), f"{count_of(cell.depth, 'block')} of {cell.hidden}")
    axes.set(xlabel="blocks", ylabel="test error (%) on the sum of two digits", yscale="log")
    axes.set_xticks(range(len(depths)), depths)
    axes.set_yticks(PAIR_TICKS, PAIR_TICKS)
    axes.minorticks_off()
    label_ends(axes)


FIGURES = {
    "what_gates_add.png": arms_figure,
    "what_gates_add_start.png": start_figure,
    "what_gates_add_rates.png": rates_figure,
    "what_gates_add_opened.png": opened_figure,
}
TABLES = {
    "what_gates_add_deep": deep_table,
    "what_gates_add_copy": copy_table,
    "what_gates_add_depths": depths_table,
    "what_gates_add_wide": wide_table,
    "what_gates_add_sum": sum_table,
    "what_gates_add": arms_table,
    "what_gates_add_compared": compared_table,
    "what_gates_add_outcomes": outcomes_table,
}
