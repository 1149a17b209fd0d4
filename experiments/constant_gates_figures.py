"""Picture, table and verdict of nets that are trained with gates that do not see their input."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import name_tested
from highway_lab.figures import COLORS, FAINT_INK, in_math, markdown, new_figure
from highway_lab.intervals import Interval, difference, interval, judge

from .claims import Claim
from .common import points
from .constant_gates import CONSTANT, HIGHWAY, KINDS, RESIDUAL, ConstantGatesLog, ConstantGatesRun

Runs = dict[str, list[ConstantGatesRun]]  # by kind


def by_setting(log: ConstantGatesLog) -> dict[str, Runs]:
    """The runs of each setting, in the log's order, by kind."""
    settings = {}
    for run in log.runs:
        settings.setdefault(run.task.setting, {kind: [] for kind in KINDS})[run.task.kind].append(run)
    return settings


def error_figure(log: ConstantGatesLog) -> Figure:
    """Test error of every kind, a panel a setting: every seed a dot, the mean a bar; far larger errors as numbers."""
    settings, config = by_setting(log), log.runs[0].config
    title = f"{name_tested(log.dataset)}: {config.depth} blocks, {config.epochs} epochs, every seed and the mean"
    figure, panels = new_figure(title, 3.2, ncols=len(settings), sharex=True, sharey=True)
    heights = np.arange(len(KINDS))[::-1]
    gated = [run for run in log.runs if run.task.kind != RESIDUAL]
    largest = 1.2 * (100 - points(gated)).max()
    for axes, (setting, kinds) in zip(panels, settings.items(), strict=True):
        axes.axvline((100 - points(kinds[HIGHWAY])).mean(), color=FAINT_INK, linewidth=1, zorder=0)
        for height, (kind, runs) in zip(heights, kinds.items(), strict=True):
            errors = 100 - points(runs)
            color = {HIGHWAY: COLORS["highway"], RESIDUAL: COLORS["residual"]}.get(kind, COLORS["lstm"])
            if errors.min() > largest:
                axes.text(largest, height, f"{errors.mean():.0f} % →", color=color, ha="right", va="center")
            else:
                axes.plot(errors, [height] * len(errors), "o", color=color, alpha=0.5, markersize=6, clip_on=False)
                axes.plot([errors.mean()] * 2, [height - 0.3, height + 0.3], color=color)
        axes.set(title=in_math(setting), xlabel="test error (%)", xlim=(0, largest))
    panels[0].set_yticks(heights, KINDS)
    panels[0].set_ylim(-0.5, len(KINDS) - 0.5)
    return figure


def kinds_table(log: ConstantGatesLog) -> str:
    """Test accuracy and training loss of each kind in each setting, and how far it is from highway."""
    rows = []
    for setting, kinds in by_setting(log).items():
        for kind, runs in kinds.items():
            (n_trained,) = {run.n_trained for run in runs}
            losses = [run.history.train_loss[-1] for run in runs if not run.diverged]
            diverged = len(runs) - len(losses)
            between = "" if kind == HIGHWAY else judged(compare(runs, kinds[HIGHWAY]), log.margin)
            score = f"{interval(points(runs)):.2f}" + (f" ({diverged} diverged)" if diverged else "")
            loss = f"{np.mean(losses):.4f}" if losses else "none"
            rows.append([setting, kind, f"{n_trained:,}", score, between, loss])
    header = ["setting", "gates", "trained parameters", "test accuracy (%)", "minus highway", "training loss"]
    seeds = len({run.config.seed for run in log.runs})
    return (
        f"{markdown(header, rows)}\n\nMean and 95 % interval over {seeds} seeds (t; unequal variances for differences, "
        f"in points); a diverged run counts as chance. As good as: the interval lies within {log.margin:g} points on "
        "both sides of 0. Training loss: mean over runs that did not diverge."
    )


def compare(runs: list[ConstantGatesRun], others: list[ConstantGatesRun]) -> Interval:
    """Points of test accuracy by which runs outperform others."""
    return difference(points(runs), points(others))


def judged(between: Interval, margin: float) -> str:
    """A difference and what it says."""
    return f"{between} ({judge(between, margin)})"


def claims(log: ConstantGatesLog) -> list[Claim]:
    """The verdict on gates as computation."""
    gaps = {
        setting: {kind: compare(kinds[HIGHWAY], kinds[kind]) for kind in CONSTANT}
        for setting, kinds in by_setting(log).items()
    }
    better = [setting for setting, of in gaps.items() if all(gap.sign > 0 for gap in of.values())]
    matched = [
        setting
        for setting, of in gaps.items()
        if any(gap.sign < 0 or judge(gap, log.margin) == "as good as" for gap in of.values())
    ]
    if len(better) == len(gaps):
        verdict = "reproduced"
    elif better:
        verdict = f"partly: {'; '.join(better)}"
    else:
        verdict = "not reproduced" if len(matched) == len(gaps) else "inconclusive"
    found = [
        f"{setting}: {', '.join(f'{gap} beside {kind}' for kind, gap in of.items())}" for setting, of in gaps.items()
    ]
    paper = "gates are a part of the computation: constants, trained with, do not replace them"
    return [Claim("4.1", paper, f"points of test accuracy by which highway outperforms, {'; '.join(found)}", verdict)]


FIGURES = {"constant_gates.png": error_figure}
TABLES = {"constant_gates": kinds_table}
