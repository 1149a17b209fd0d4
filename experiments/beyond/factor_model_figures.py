"""Pictures and tables of the simulated markets: which models predict returns, which signals detect the regime."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import seeds_of
from highway_lab.figures import COLORS, FAINT_INK, INK, label_ends, markdown, new_figure, pale
from highway_lab.intervals import interval

from .factor_model import GATED, NETS, UNTRAINED, FactorModelLog, MarketRun
from .simulated_markets import BEST_AUC, MARKETS, NOISE

COMPARED = GATED[0]  # with which each model is compared
SIGNIFICANT = 0.05
SMOOTH = 20  # days


def by_market(log: FactorModelLog, value: Callable[[MarketRun], float | None]) -> dict[str, np.ndarray]:
    """Return a value of each run, (seeds,), by market; NaN in place of None."""
    return {of: np.array([value(run) for run in log.runs if run.task.market == of], float) for of in MARKETS}


def r2(log: FactorModelLog, model: str, regime: str = "all") -> dict[str, np.ndarray]:
    """Return the out-of-sample R² of a model, (seeds,), by market."""
    return by_market(log, lambda run: getattr(run.scores[model], regime))


def auc(log: FactorModelLog, signal: str, field: str = "auc") -> dict[str, np.ndarray]:
    """Return the AUC of a signal, or another field of its detection, (seeds,), by market."""
    return by_market(log, lambda run: getattr(run.detections[signal], field))


def color(name: str) -> str | tuple[float, ...]:
    """Return the colour of a model or of a signal: by its block, paler if it is untrained."""
    block = NETS.get(name.split(":")[0].removesuffix(UNTRAINED), {}).get("block")
    return pale(COLORS.get(block, INK), 0.5 if UNTRAINED in name else 1)


# --------------------------------------------------------------------------------------------- figures


def seeds(log: FactorModelLog) -> str:
    """Say for a title how many seeds a row shows."""
    return f"{len({run.task.seed for run in log.runs})} seeds, mean, 95 % interval"


def draw_rows(panels: Iterable[Axes], rows: dict[str, dict[str, np.ndarray]], xlabel: str) -> None:
    """Draw a panel for each market, a row for each name: a faint dot for each seed, the mean and its interval bold."""
    for axes, market in zip(panels, MARKETS, strict=True):
        for place, (name, values) in enumerate(rows.items()):
            of, (mean, half) = values[market], interval(values[market])
            axes.plot(of, np.full(len(of), place + 0.22), "o", color=color(name), alpha=0.4, markersize=3, linewidth=0)
            axes.errorbar(mean, place - 0.12, xerr=half, fmt="|", color=color(name), markersize=9, linewidth=2)
        axes.set_title(market, fontsize=11)
        axes.set_xlabel(xlabel)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.5, -0.5)


def returns_figure(log: FactorModelLog) -> Figure:
    """Draw out-of-sample R²: a row for each model, a panel for each market."""
    rows = {name: r2(log, name) for name in reversed(log.runs[0].scores)}
    figure, panels = new_figure(f"Returns predicted: {seeds(log)}", 4.4, ncols=len(MARKETS), sharex=True, sharey=True)
    draw_rows(panels, rows, "out-of-sample R²")
    panels[0].axvline(0, color=FAINT_INK, linewidth=0.8)
    return figure


def regimes_figure(log: FactorModelLog) -> Figure:
    """Draw AUC for the second regime: a row for each signal, a panel for each market; grey: with shifted regimes."""
    rows = {name: auc(log, name) for name in log.runs[0].detections}
    title = f"The second regime detected: {seeds(log)}; grey: one seed by chance"
    figure, panels = new_figure(title, 4.6, ncols=len(MARKETS), sharex=True, sharey=True)
    for axes, market in zip(panels, MARKETS, strict=True):
        low, high = (np.array([auc(log, name, field)[market].mean() for name in rows]) for field in ("low", "high"))
        axes.barh(range(len(rows)), high - low, left=low, height=0.9, color=pale(FAINT_INK, 0.25))
        axes.axvline(0.5, color=INK, linewidth=1, linestyle=(0, (3, 5)))
    draw_rows(panels, rows, "AUC")
    panels[0].set(xlim=(0, 1), xticks=(0, 0.5, 1), xticklabels=("0", "½", "1"))
    return figure


def days_figure(log: FactorModelLog) -> Figure:
    """Draw mean T on the days that the first fold predicts, first seed; the second regime's days are shaded."""
    shown = [run for run in log.runs if run.second]
    title = f"Mean T, seed {shown[0].task.seed}, mean of {SMOOTH} days; shaded: the second regime"
    figure, panels = new_figure(title, 5.6, nrows=len(shown), sharex=True, sharey=True)
    for axes, run in zip(panels, shown, strict=True):
        days = np.arange(len(run.second))
        axes.fill_between(
            days, 0, 1, where=run.second, transform=axes.get_xaxis_transform(), color=pale(FAINT_INK, 0.25), step="mid"
        )
        for name, strength in zip(GATED, (1, 0.5), strict=True):
            smooth = np.convolve(np.array(run.mean_T[name], float), np.full(SMOOTH, 1 / SMOOTH), "valid")
            line = {"color": pale(COLORS["highway"], strength), "label": name.removeprefix("highway, ")}
            axes.plot(days[SMOOTH - 1 :], smooth, linewidth=1.5, **line)
        axes.set_title(run.task.market, fontsize=11)
        axes.margins(x=0)
    panels[1].set_ylabel("mean T, standardised by the window")
    panels[-1].set_xlabel("day")
    for axes in panels:
        label_ends(axes)
    return figure


# ---------------------------------------------------------------------------------------------- tables


def signed(values: np.ndarray) -> str:
    """Format the interval of a mean: `+0.021 ± 0.003`."""
    return f"{interval(values):+.3f}"


def returns_table(log: FactorModelLog) -> str:
    """Tabulate out-of-sample R² by market and model, on all days and in each regime, and the highway net's lead."""
    rows = []
    for market in MARKETS:
        best = r2(log, COMPARED)[market]
        for name in log.runs[0].scores:
            scores = [r2(log, name, regime)[market].tolist() for regime in ("all", "first", "second")]
            lead = "" if name == COMPARED else signed(best - r2(log, name)[market])
            rows.append([market, name, *(f"{interval(of):.3f}" for of in scores), lead, commonest(log, market, name)])
    header = ["market", "model", "R²", "first regime", "second regime", f"lead of {COMPARED}", "commonest setting"]
    task, sizes = log.runs[0].task, sorted(log.n_params.values())
    return (
        f"{markdown(header, rows)}\n\n{task.folds} folds: windows of {task.window:,} days, {task.horizon:,} predicted "
        f"after each. {seeds_of(run.task for run in log.runs)} Leads: mean and 95 % interval (t) of differences "
        f"seed by seed. Nets of {sizes[0]:,} to {sizes[-1]:,} parameters. Best: the expected return given what the "
        f"models see, and given factors and regime; the noise leaves the latter 1/{1 + NOISE:g} in expectation."
    )


def commonest(log: FactorModelLog, market: str, model: str) -> str:
    """Name the setting that most fits of a model chose, and how many did."""
    chosen = [setting for run in log.runs if run.task.market == market for setting in run.settings.get(model, [])]
    return f"{Counter(chosen).most_common(1)[0][0]}: {max(Counter(chosen).values())} of {len(chosen)}" if chosen else ""


def regimes_table(log: FactorModelLog) -> str:
    """Tabulate AUC by signal and market, with the number of seeds above and below chance; then the verdicts."""
    rows = []
    for name in log.runs[0].detections:
        cells = []
        for market, values in auc(log, name).items():
            told = auc(log, name, "p")[market] < SIGNIFICANT
            sides = (np.count_nonzero(told & (values > 0.5)), np.count_nonzero(told & (values < 0.5)))
            cells.append(f"{interval(values):.3f} ({sides[0]}, {sides[1]})")
        rows.append([name, *cells])
    n_seeds = len({run.task.seed for run in log.runs})
    return (
        f"{markdown(['signal', *MARKETS], rows)}\n\nAUC for the days of the second regime, mean over folds: mean ± "
        f"sample standard deviation over {n_seeds} seeds; in brackets how many of them lie above ½, and below, with "
        f"p < {SIGNIFICANT:g} by shifted regimes. Best block: chosen, and its sign, by the window's regimes. Where a "
        f"day's inputs tell the regime, no detector is expected to get beyond {BEST_AUC:.3f} by them. "
        f"{' '.join(verdict(log, net) for net in GATED)}"
    )


def verdict(log: FactorModelLog, net: str) -> str:
    """Judge whether a net's open gates mark the nonlinear regime.

    The AUC of its mean T has to exceed four baselines, each by the interval of the differences: chance, the untrained
    net, the market of two linear regimes, and that of a second regime of noise.
    """
    found, untrained = auc(log, f"{net}: mean T"), auc(log, f"{net}{UNTRAINED}: mean T")
    leads = {
        "½": found["nonlinear"] - 0.5,
        "that of the untrained net": found["nonlinear"] - untrained["nonlinear"],
        "that with two linear regimes": found["nonlinear"] - found["both linear"],
        "that with a second regime of noise": found["nonlinear"] - found["noise"],
    }
    signs = [interval(values).sign for values in leads.values()]
    held, refuted = min(signs) > 0, min(signs) < 0
    words = "held" if held else "not" if refuted else "partly" if signs[0] > 0 else "open"
    beyond = ", ".join(f"{signed(values)} over {name}" for name, values in leads.items())
    return f"{net.capitalize()}: open gates mark the nonlinear regime: {words}; AUC of mean T {beyond} (95 %, t)."


FIGURES = {
    "factor_model.png": returns_figure,
    "factor_model_regimes.png": regimes_figure,
    "factor_model_days.png": days_figure,
}
TABLES = {"factor_model": returns_table, "factor_model_regimes": regimes_table}
