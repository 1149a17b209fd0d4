"""Pictures, tables and verdicts of the simulated markets: which models predict returns, which signals tell regimes."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import seeds_of
from highway_lab.figures import COLORS, FAINT_INK, INK, label_ends, new_figure, pale
from highway_lab.intervals import interval
from highway_lab.tables import markdown

from ..claims import Verdict
from .factor_model import GATED, MODELS, NETS, UNTRAINED, FactorModelLog, MarketRun
from .simulated_markets import BEST_AUC, MARKETS, NOISE

COMPARED = GATED[0]  # with which each model is compared
LIMIT = "best by a day's inputs"
TITLES = {  # of panels, by market
    "nonlinear": "second regime nonlinear",
    "hidden": "nonlinear, regime hidden",
    "both linear": "both regimes linear",
    "noise": "second regime only noise",
}
SIGNALS = ("logistic regression", *(f"{net}{of}: mean T" for net in GATED for of in ("", UNTRAINED)))  # drawn
DASHED = {"color": INK, "linewidth": 1, "linestyle": (0, (3, 5))}
GREY = pale(FAINT_INK, 0.25)
SIGNIFICANT = 0.05
SMOOTH = 20  # days


def by_seed(log: FactorModelLog, market: str, value: Callable[[MarketRun], float | None]) -> np.ndarray:
    """Return a value of each run in a market, (seeds,); NaN in place of None."""
    return np.array([value(run) for run in log.runs if run.task.market == market], float)


def r2(log: FactorModelLog, market: str, model: str, regime: str = "all") -> np.ndarray:
    """Return the out-of-sample R² of a model in a market, (seeds,)."""
    return by_seed(log, market, lambda run: getattr(run.scores[model], regime))


def auc(log: FactorModelLog, market: str, signal: str, field: str = "auc") -> np.ndarray:
    """Return the AUC of a signal in a market, or another field of its detection, (seeds,)."""
    return by_seed(log, market, lambda run: getattr(run.detections[signal], field))


def color(name: str) -> str | tuple[float, ...]:
    """Return the colour of a model or of a signal: by its block, paler if it is untrained."""
    block = NETS.get(name.split(":")[0].removesuffix(UNTRAINED), {}).get("block")
    return pale(COLORS.get(block, INK), 0.5 if UNTRAINED in name else 1)


def rows_figure(
    log: FactorModelLog, names: Iterable[str], values: Callable[..., np.ndarray], *words: str, height: float
) -> tuple[Figure, dict[str, Axes]]:
    """Draw values(log, market, name): a panel for each market, a row for each name; `words`: title and x label.

    A faint dot is a seed, a bold line the mean with its 95 % interval.
    """
    names, n_seeds, (title, xlabel) = [*names], len({run.task.seed for run in log.runs}), words
    title += f": {n_seeds} seeds, mean, 95 % interval"
    figure, grid = new_figure(title, height, nrows=2, ncols=2, sharex=True, sharey=True)
    panels = dict(zip(MARKETS, grid.flat, strict=True))
    for market, axes in panels.items():
        for place, name in enumerate(names):
            of = values(log, market, name)
            mean, half = interval(of)
            axes.plot(of, np.full(len(of), place + 0.22), "o", color=color(name), alpha=0.4, markersize=3, linewidth=0)
            axes.errorbar(mean, place - 0.12, xerr=half, fmt="|", color=color(name), markersize=9, linewidth=2)
        axes.set_title(TITLES[market], fontsize=11)
        axes.set_yticks(range(len(names)), [name.removesuffix(": mean T") for name in names])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(names) - 0.5, -0.5)
    for axes in grid[-1]:
        axes.set_xlabel(xlabel)
    return figure, panels


def returns_figure(log: FactorModelLog) -> Figure:
    """Draw out-of-sample R²: a row for each model; dashed: what a day's inputs allow."""
    best = [max(MODELS, key=lambda name: r2(log, market, name).mean()) for market in MARKETS]
    often = max(best, key=best.count)
    title = f"“{often}” has the highest mean R² in {best.count(often)} of {len(best)} markets"
    figure, panels = rows_figure(log, reversed(MODELS), r2, title, "out-of-sample R²", height=6.6)
    for market, axes in panels.items():
        best = r2(log, market, LIMIT).mean()
        axes.axvline(best, **DASHED)
        axes.text(best, -0.9, " best possible", verticalalignment="center", fontsize=10)
        axes.set(xlim=(0, 0.32), ylim=(len(MODELS) - 0.5, -1.3))
    return figure


def regimes_figure(log: FactorModelLog) -> Figure:
    """Draw the AUC for the second regime's days: a row for each signal; grey: with shifted regimes."""
    signal = f"{COMPARED}: mean T"
    noise, nonlinearity = (auc(log, market, signal).mean() for market in ("noise", "nonlinear"))
    found = ("noise", "nonlinearity") if noise > nonlinearity else ("nonlinearity", "noise")
    title = f"Mean T marks {' better than '.join(found)}"
    figure, panels = rows_figure(log, SIGNALS, auc, title, "AUC", height=5.2)
    for market, axes in panels.items():
        low, high = (np.array([auc(log, market, name, of).mean() for name in SIGNALS]) for of in ("low", "high"))
        axes.barh(range(len(SIGNALS)), high - low, left=low, height=0.9, color=GREY, zorder=0)
        axes.axvline(0.5, **DASHED)
        axes.set(xlim=(0, 1), xticks=(0, 0.5, 1), xticklabels=("0", "½", "1"))
    return figure


def days_figure(log: FactorModelLog) -> Figure:
    """Draw mean T on the days that the first fold predicts, first seed: as it is, and its mean in each regime."""
    shown = [run for run in log.runs if run.second]
    title = f"Mean T by day, {COMPARED}, seed {shown[0].task.seed}; grey: days of the second regime"
    figure, panels = new_figure(title, 6.4, nrows=len(shown), sharex=True, sharey=True)
    for axes, run in zip(panels, shown, strict=True):
        second, T = np.array(run.second), np.array(run.mean_T[COMPARED], float)
        days = np.arange(len(T))
        axes.fill_between(days, 0, 1, where=second, transform=axes.get_xaxis_transform(), color=GREY, step="mid")
        smooth = np.convolve(T, np.full(SMOOTH, 1 / SMOOTH), "valid")
        axes.plot(days[SMOOTH - 1 :], smooth, linewidth=1, color=COLORS["highway"], label=f"mean of {SMOOTH} days")
        means = np.where(second, T[second].mean(), T[~second].mean())
        axes.step(days, means, where="mid", color=COLORS["plain"], linewidth=2, label="mean of regime")
        axes.set_title(TITLES[run.task.market], fontsize=11)
        axes.margins(x=0)
    panels[1].set_ylabel("mean T, standardised")
    panels[-1].set_xlabel("day")
    label_ends(*panels)
    return figure


def market_table(names: Iterable[str], cell: Callable[[str, str], str], note: str) -> str:
    """Tabulate cell(market, name): a row for each name, a column for each market."""
    rows = [[name, *(cell(market, name) for market in MARKETS)] for name in names]
    return f"{markdown(['', *MARKETS], rows)}\n\n{note}"


def mean_table(log: FactorModelLog, names: Iterable[str], cell: Callable[[str, str], str], note: str) -> str:
    """Tabulate means over seeds, with their intervals."""
    return market_table(names, cell, f"{note} {seeds_of(run.task for run in log.runs)}")


def returns_table(log: FactorModelLog) -> str:
    """Tabulate out-of-sample R² by model and market."""
    scores = log.runs[0].scores
    return mean_table(log, scores, lambda *of: f"{interval(r2(log, *of)):.3f}", "Out-of-sample R².")


def leads_table(log: FactorModelLog) -> str:
    """Tabulate the lead of a highway net over each other model by market."""

    def lead(market: str, model: str) -> str:
        return f"{interval(r2(log, market, COMPARED) - r2(log, market, model)):+.3f}"

    others = (model for model in log.runs[0].scores if model != COMPARED)
    return mean_table(log, others, lead, f"R² of {COMPARED}, minus that of the model, paired by seed.")


def by_regime_table(log: FactorModelLog) -> str:
    """Tabulate out-of-sample R² on the days of each regime."""

    def both(market: str, model: str) -> str:
        return "; ".join(f"{interval(r2(log, market, model, regime)):.3f}" for regime in ("first", "second"))

    few, *_, many = sorted(log.n_params.values())
    note = (
        f"R² on the days of the first and of the second regime. Nets of {few:,} to {many:,} parameters. Best: the "
        f"expected return given what the models see, and given factors and regime; the noise leaves the latter "
        f"1/{1 + NOISE:g} in expectation."
    )
    return mean_table(log, log.runs[0].scores, both, note)


def settings_table(log: FactorModelLog) -> str:
    """Tabulate the setting that most fits of a model chose, and how many did."""

    def commonest(market: str, model: str) -> str:
        chosen = [setting for run in log.runs if run.task.market == market for setting in run.settings[model]]
        (setting, n), *_ = Counter(chosen).most_common(1)
        return f"{setting}: {n} of {len(chosen)}"

    note = "The setting that most fits chose, over all seeds and windows of time."
    return market_table(log.runs[0].settings, commonest, note)


def regimes_table(log: FactorModelLog) -> str:
    """Tabulate AUC by signal and market, with the number of seeds above and below chance."""

    def cell(market: str, signal: str) -> str:
        values, told = auc(log, market, signal), auc(log, market, signal, "p") < SIGNIFICANT
        above, below = np.count_nonzero(told & (values > 0.5)), np.count_nonzero(told & (values < 0.5))
        return f"{interval(values):.3f} ({above}, {below})"

    note = (
        f"AUC for the days of the second regime, mean over windows; in brackets the seeds above ½, and below, with p < "
        f"{SIGNIFICANT:g} by shifted regimes. Best block: chosen, and its sign, by the window's regimes. No detector "
        f"is expected to exceed {BEST_AUC:.3f}."
    )
    return mean_table(log, log.runs[0].detections, cell, note)


def leads_of_gates(log: FactorModelLog, net: str) -> dict[str, np.ndarray]:
    """Return the AUC of a net's mean T in the nonlinear market minus that of each baseline, (seeds,)."""
    found = {market: auc(log, market, f"{net}: mean T") for market in MARKETS}
    return {
        "above guessing": found["nonlinear"] - 0.5,
        "above the untrained net": found["nonlinear"] - auc(log, "nonlinear", f"{net}{UNTRAINED}: mean T"),
        "above both linear": found["nonlinear"] - found["both linear"],
        "above noise": found["nonlinear"] - found["noise"],
    }


def judge_gates(log: FactorModelLog, net: str) -> Verdict:
    """Judge "open gates mark the nonlinear regime": the AUC of mean T has to exceed that of every baseline.

    Not reproduced: it falls behind one. Partly: it exceeds chance, but not every baseline.
    """
    signs = [interval(lead).sign for lead in leads_of_gates(log, net).values()]
    if min(signs) < 0:
        return Verdict.NOT_REPRODUCED
    if min(signs) > 0:
        return Verdict.REPRODUCED
    return Verdict.PARTLY if signs[0] > 0 else Verdict.INCONCLUSIVE


def verdicts_table(log: FactorModelLog) -> str:
    """Tabulate for each net how its gates mark the nonlinear regime beside four baselines, and the verdict."""
    rows = []
    for net in GATED:
        leads = leads_of_gates(log, net)
        rows.append([net, *(f"{interval(lead):+.3f}" for lead in leads.values()), str(judge_gates(log, net))])
    header = ["AUC of mean T, nonlinear market", *leads, "verdict"]
    return f"{markdown(header, rows)}\n\nDifferences paired by seed, 95 % intervals (t)."


FIGURES = {
    "factor_model.png": returns_figure,
    "factor_model_regimes.png": regimes_figure,
    "factor_model_days.png": days_figure,
}
TABLES = {
    "factor_model": returns_table,
    "factor_model_verdicts": verdicts_table,
    "factor_model_leads": leads_table,
    "factor_model_by_regime": by_regime_table,
    "factor_model_settings": settings_table,
    "factor_model_regimes": regimes_table,
}
