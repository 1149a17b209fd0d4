"""Picture, table and verdict of nets that are trained with gates that do not see their input."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import count_of, name_tested
from highway_lab.figures import COLORS, FAINT_INK, new_figure, pale
from highway_lab.intervals import Interval, interval, judge
from highway_lab.tables import markdown

from .claims import OURS, Claim, Verdict, combine, holds
from .common import group_by, points
from .common_figures import lead, minus, name_setting
from .constant_gates import CONSTANT, HIGHWAY, KINDS, LEARNED, ConstantGatesLog, ConstantGatesRun

LARGEST = 3.2  # points: differences are drawn up to here
Runs = dict[str, list[ConstantGatesRun]]  # by kind


def by_setting(log: ConstantGatesLog) -> dict[str, Runs]:
    return {
        setting: {kind: [run for run in runs if run.task.kind == kind] for kind in KINDS}
        for setting, runs in group_by(log.runs, lambda run: name_setting(run.config)).items()
    }


def gaps_figure(log: ConstantGatesLog) -> Figure:
    """Draw test accuracy minus highway's, a panel a setting: seeds faint, the mean and its interval bold."""
    settings = by_setting(log)
    lost = {setting: lead(kinds[HIGHWAY], kinds[LEARNED]) for setting, kinds in settings.items()}
    found = ", ".join(f"{points:.1f} ({setting})" for setting, points in lost.items())
    title = f"{name_tested(log.dataset)}: points lost with learned constant gates: {found}"
    figure, panels = new_figure(title, 3.4, ncols=len(settings), sharex=True, sharey=True)
    for axes, (setting, kinds) in zip(panels, settings.items(), strict=True):
        axes.axvspan(-log.margin, log.margin, color=pale(FAINT_INK, 0.25), zorder=0)
        axes.axvline(0, color=FAINT_INK, linewidth=1, zorder=0)
        for row, (kind, runs) in enumerate(kinds.items()):
            gaps_row(axes, row, runs, kinds[HIGHWAY], COLORS.get(kind, COLORS["lstm"]))
        axes.set(
            title=setting.replace("from", "from $b_T$"), xlim=(-LARGEST, LARGEST), ylim=(len(KINDS) - 0.5, -0.5)
        )  # the first on top
    panels[0].set_yticks(range(len(KINDS)), KINDS)
    panels[0].text(log.margin + 0.1, len(KINDS) - 1, f"margin:\n±{log.margin:g}", va="center")
    panels[1].set_xlabel("test accuracy minus that of highway (points)")
    return figure


def gaps_row(axes: Axes, row: int, runs: list[ConstantGatesRun], highway: list[ConstantGatesRun], color: str) -> None:
    """Draw one kind; a number stands for a mean beyond the axes, and highway itself has no difference."""
    gaps, between = points(runs) - points(highway).mean(), lead(runs, highway)
    if abs(between.value) > LARGEST:
        number, below = minus(round(between.value)), between.value < 0
        words, place, side = (f"← {number}", -LARGEST, "left") if below else (f"{number} →", LARGEST, "right")
        axes.text(place, row, words, color=color, ha=side, va="center")
        return
    axes.plot(gaps, [row] * len(gaps), "o", color=color, alpha=0.3, markersize=6)
    axes.plot(between.value, row, "o", color=color, markersize=7)
    if runs is not highway:
        axes.plot([between.low, between.high], [row, row], color=color)


def kinds_table(log: ConstantGatesLog) -> str:
    """Tabulate test accuracy and training loss of each kind in each setting, and the difference to highway."""
    rows = []
    for setting, kinds in by_setting(log).items():
        for kind, runs in kinds.items():
            (n_params,) = {run.n_params for run in runs}
            losses = [run.history.train_loss[-1] for run in runs if not run.diverged]
            diverged = len(runs) - len(losses)
            between = lead(runs, kinds[HIGHWAY])
            beside = "" if kind == HIGHWAY else f"{between} ({judge(between, log.margin)})"
            score = f"{interval(points(runs)):.2f}" + (f" ({diverged} diverged)" if diverged else "")
            loss = f"{np.mean(losses):.4f}" if losses else "none"
            rows.append([setting, kind, f"{n_params:,}", score, beside, loss])
    seeds = count_of(len(runs), "seed")
    header = ["setting", "gates", "trained parameters", "test accuracy (%)", "minus highway", "training loss"]
    return (
        f"{markdown(header, rows)}\n\nMean and 95 % interval (t) over {seeds}; a diverged run counts as "
        f"chance, and is left out of the mean training loss. Margin: {log.margin:g} points."
    )


def judge_setting(leads: list[Interval], margin: float) -> Verdict:
    """Judge by highway's leads over the kinds of constants in one setting, by the rule of constant_gates.py."""
    if all(lead.sign > 0 for lead in leads):
        return Verdict.REPRODUCED
    matched = any(lead.sign < 0 or judge(lead, margin) == "as good as" for lead in leads)
    return Verdict.NOT_REPRODUCED if matched else Verdict.INCONCLUSIVE


def claims(log: ConstantGatesLog) -> list[Claim]:
    """Return the verdict on gates as computation, with each setting's lead that is least certain to exist.

    Beside it stand the leads over learned constants by pairs of nets of one seed, of each setting and of all together.
    """
    settings, verdicts, words = by_setting(log), {}, []
    for setting, kinds in settings.items():
        leads = [lead(kinds[HIGHWAY], kinds[kind]) for kind in CONSTANT]
        verdicts[setting] = judge_setting(leads, log.margin)
        words.append(f"{setting} {min(leads, key=lambda lead: lead.low)}")
    pairs = {setting: points(kinds[HIGHWAY]) - points(kinds[LEARNED]) for setting, kinds in settings.items()}
    together = np.concatenate([*pairs.values()])
    why = (
        f"{holds(verdicts, 'for {}')} Over {len(together)} pairs of nets with the same seed, highway nets lead nets "
        f"with learned constant gates by {together.mean():.2f} points of test accuracy."
    )
    by_pairs = "; ".join(f"{setting} {interval(of)}" for setting, of in (pairs | {"all": together}).items())
    measured = (
        "points over those constants (learned or mean) whose interval reaches lower: "
        f"{'; '.join(words)}; over learned ones, by pairs: {by_pairs}; n = {len(together) // len(settings)}"
    )
    paper = "nets trained with constant gates do worse"
    return [Claim(OURS, paper, combine(verdicts.values()), why, measured, detail=True, before=True)]


FIGURES = {"constant_gates.png": gaps_figure}
TABLES = {"constant_gates": kinds_table}
