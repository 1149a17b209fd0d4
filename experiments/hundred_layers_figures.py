"""Picture, tables and verdicts of nets of 100 layers whose gradients are clipped."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import count_of
from highway_lab.figures import COLORS, draw_level, draw_seeds, label_ends, markdown, new_figure
from highway_lab.intervals import Interval, difference, interval

from .claims import LOSS_MARGIN, Claim, Verdict, combine, judge_better
from .common import CHANCE, group_by
from .common_figures import minus, title
from .hundred_layers import (
    ARMS,
    BUDGET,
    CHANCE_LOSS,
    FINAL,
    HIGHWAY,
    LONG_ARMS,
    LOWEST,
    ORTHOGONAL,
    PLAIN,
    RATES,
    RESIDUAL,
    REZERO,
    STRETCH,
    HundredLayersLog,
    HundredLayersRun,
    chosen_settings,
    log_losses,
)

LINE_COLORS = {
    HIGHWAY: COLORS["highway"],
    PLAIN: COLORS["plain"],
    ORTHOGONAL: COLORS["lstm"],
    RESIDUAL: COLORS["residual-scaled"],
    REZERO: COLORS["residual"],
}
ORDERS = 2  # of magnitude, by which highway nets are better in the paper's sentence
ERROR_RATE = 0.05  # of all comparisons of one budget together

Runs = list[HundredLayersRun]


def by_rate(log: HundredLayersLog) -> dict[str, list[Runs]]:
    """Return the scored runs by arm and rate; the runs of the rate that stands for the arm come first.

    It is that of the lowest mean loss; of equal ones, the higher rate, which is the chosen one.
    """
    by_arm = group_by(log.runs, lambda run: run.task.arm)
    return {
        arm: sorted(
            group_by(by_arm[arm], lambda run: -run.config.lr).values(),
            key=lambda runs: log_losses(runs, log.judged_by).mean(),
        )
        for arm in ARMS
        if arm in by_arm
    }


def standing(log: HundredLayersLog) -> dict[str, Runs]:
    """Return by arm the runs of the rate that stands for it."""
    return {arm: rates[0] for arm, rates in by_rate(log).items()}


# ------------------------------------------------------------------------------------------- comparisons


@dataclass
class Lead:
    """The orders of magnitude by which highway nets are ahead of another arm.

    p         Welch's, corrected after Holm for all comparisons of its log
    learned   whether any run of the two arms has not failed
    """

    orders: Interval
    p: float
    learned: bool

    @property
    def side(self) -> str:
        """Say whether highway nets are surely ahead or behind; nothing if neither is sure."""
        return ("ahead" if self.orders.value > 0 else "behind") if self.p < ERROR_RATE else ""

    @property
    def words(self) -> str:
        """Say how highway nets compare with the other arm."""
        if not self.learned:
            return "no run has learned"
        if self.orders.low > -LOSS_MARGIN and self.orders.high < LOSS_MARGIN:
            return f"alike, but {self.side}" if self.side else "alike"
        return self.side or "inconclusive"

    @property
    def verdict(self) -> Verdict:
        """Judge "highway nets are ahead"."""
        if self.side == "ahead":
            return Verdict.REPRODUCED
        return Verdict.NOT_REPRODUCED if self.orders.high < LOSS_MARGIN else Verdict.INCONCLUSIVE


def find_leads(log: HundredLayersLog) -> dict[str, Lead]:
    """Return the lead of highway nets over each other arm."""
    runs = standing(log)
    losses = {arm: log_losses(of, log.judged_by) for arm, of in runs.items()}
    others = [arm for arm in runs if arm != HIGHWAY]
    p = correct({arm: welch_p(losses[arm], losses[HIGHWAY]) for arm in others})
    return {
        arm: Lead(
            difference(losses[arm], losses[HIGHWAY]), p[arm], not all(run.failed for run in runs[arm] + runs[HIGHWAY])
        )
        for arm in others
    }


def welch_p(a: np.ndarray, b: np.ndarray) -> float:
    """Return the p of equal means by Welch's test; 1 where it has none, as for equal values."""
    from scipy.stats import ttest_ind

    with warnings.catch_warnings(action="ignore"):  # about equal values
        p = ttest_ind(a, b, equal_var=False).pvalue if min(len(a), len(b)) > 1 else np.nan
    return 1.0 if np.isnan(p) else float(p)


def correct(p: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for their number m (Holm 1979): the least times m, the next times m − 1, and so on."""
    corrected, least = {}, 0.0
    for tests, name in zip(range(len(p), 0, -1), sorted(p, key=p.get), strict=True):
        corrected[name] = least = max(least, min(1.0, tests * p[name]))
    return corrected


# ----------------------------------------------------------------------------------------------- picture


def loss_figure(*logs: HundredLayersLog) -> Figure:
    """Draw training loss by epoch, a panel a log: every seed faint, the median of each arm bold."""
    layers = logs[0].runs[0].config.depth + 1
    words = title(logs[0].dataset, logs[0].runs, f"nets of {layers} layers")
    figure, axes = new_figure(words, 0.6 + 3.4 * len(logs), nrows=len(logs), squeeze=False)
    for panel, log in zip(axes[:, 0], logs, strict=True):
        for arm, runs in standing(log).items():
            curves = np.array([drawn_losses(run) for run in runs])
            epochs = np.arange(curves.shape[1])
            draw_seeds(panel, epochs, curves, label=arm, center=np.median, color=LINE_COLORS[arm])
        draw_level(panel, CHANCE_LOSS, "chance")
        panel.set(xlabel="epoch", ylabel="training loss", yscale="log", title=f"{epochs_of(log)} epochs")
        panel.margins(x=0)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    label_ends(*axes[:, 0])
    return figure


def drawn_losses(run: HundredLayersRun) -> np.ndarray:
    """Return a run's loss before training and after each epoch; from where it diverged on it is that of guessing."""
    losses = np.full(run.config.epochs + 1, CHANCE_LOSS)
    found = np.array(run.losses, float)
    losses[: len(found)] = np.where(np.isfinite(found), found, CHANCE_LOSS)
    return losses


def epochs_of(log: HundredLayersLog) -> int:
    return log.runs[0].config.epochs


# ------------------------------------------------------------------------------------------------ tables


def losses_table(*logs: HundredLayersLog) -> str:
    """Tabulate the losses of each arm and what became of its runs; the rate that stands for an arm is bold."""
    rows = [
        [f"{arm}, {epochs_of(log)} epochs", *cells_of(runs, log, stands=runs is rates[0])]
        for log in logs
        for arm, rates in by_rate(log).items()
        for runs in rates
    ]
    header = ["net", "rate", "final loss", "lowest loss", "lowest loss, earlier ones of failed runs counted"]
    header += ["diverged", "at chance", "clipped steps (%)", "parameters", "test accuracy (%)"]
    judged = "; ".join(f"after {epochs_of(log)} epochs, the {log.judged_by} loss judges" for log in logs)
    return (
        f"{markdown(header, rows)}\n\nLosses: geometric means over seeds with 95 % intervals; {judged}. Runs that "
        f"diverge or end at chance count with {CHANCE_LOSS:.2f}, the loss of guessing, but for the third loss. A "
        f"diverged run counts as {CHANCE:.0%} accuracy. Final: over all training images; lowest: over 10,000 of them. "
        "Bold: the rate that stands for the net."
    )


def cells_of(runs: Runs, log: HundredLayersLog, *, stands: bool) -> list[str]:
    """Return the cells of an arm's runs at one rate."""
    rate, scores = f"{runs[0].config.lr:g}", [CHANCE if run.diverged else run.test_score for run in runs]
    counted = [log_losses(runs, FINAL), log_losses(runs, LOWEST), np.log10([run.lowest_loss for run in runs])]
    return [
        f"**{rate}**" if stands else rate,
        *(in_words(interval(losses)) for losses in counted),
        f"{sum(run.diverged for run in runs)} of {len(runs)}",
        f"{sum(run.at_chance for run in runs)} of {len(runs)}",
        f"{100 * np.mean([run.clipped for run in runs]):.1f}",
        f"{runs[0].n_trained:,}",
        f"{interval(100 * np.array(scores)):.1f}",
    ]


def in_words(logarithm: Interval) -> str:
    """Return a loss and the ends of its interval, given its decimal logarithm."""
    ends = f" ({10**logarithm.low:.2g} to {10**logarithm.high:.2g})" if np.isfinite(logarithm.half) else ""
    return f"{10**logarithm.value:.2g}{ends}"


def leads_table(*logs: HundredLayersLog) -> str:
    """Tabulate by how much highway nets are ahead of each other arm."""
    rows = [
        [f"{arm}, {epochs_of(log)} epochs", f"{lead.orders:+.2f}", f"{lead.p:.2g}", lead.words]
        for log in logs
        for arm, lead in find_leads(log).items()
    ]
    header = ["other net", "lead (orders of magnitude)", "p", "highway nets are"]
    return (
        f"{markdown(header, rows)}\n\nWelch's 95 % intervals over seeds; p is corrected after Holm for the comparisons "
        f"of one budget. Alike: the interval lies within {LOSS_MARGIN:g} on both sides of 0."
    )


def settings_table(*logs: HundredLayersLog) -> str:
    """Tabulate the setting that each arm has chosen, and how its tries ended."""
    tried = group_by([run for log in logs for run in log.tried], lambda run: run.task.arm)
    chosen = chosen_settings(run for runs in tried.values() for run in runs)
    rows = [
        [
            arm,
            f"{setting.lr:g}",
            f"{ARMS[arm].scale} = {minus(setting.scale)}",
            in_words(interval(log_losses([run for run in tried[arm] if run.task.setting == setting], FINAL))),
            f"{sum(run.diverged for run in tried[arm])} of {len(tried[arm])}",
            f"{sum(run.at_chance for run in tried[arm])} of {len(tried[arm])}",
        ]
        for arm, setting in chosen.items()
    ]
    header = ["net", "rate", "scale", "loss, tuning seeds", "tries that diverged", "tries at chance"]
    at_rate = name_at_end(chosen, lambda arm, setting: (setting.lr, RATES))
    at_scale = name_at_end(chosen, lambda arm, setting: (setting.scale, ARMS[arm].scales))
    tried_rates = f"Rates from {min(RATES):g} to {max(RATES):g}"
    return f"{markdown(header, rows)}\n\n{tried_rates}; chosen at an end: {at_rate}. Scale at an end: {at_scale}."


def name_at_end(chosen: Mapping, grid_of: Callable) -> str:
    """Name the arms whose chosen value is the least or the greatest that was tried: a better one may lie beyond."""
    names = []
    for arm, setting in chosen.items():
        value, grid = grid_of(arm, setting)
        if value in (min(grid), max(grid)):
            names.append(f"{arm} ({minus(value)})")
    return "; ".join(names) or "none"


# ---------------------------------------------------------------------------------------------- verdicts


def claims(*logs: HundredLayersLog) -> list[Claim]:
    """Return the paper's sentence and our comparisons; what needs the runs of 400 epochs is not tested without them."""
    short = next((log for log in logs if log.judged_by == FINAL), None)
    long = next((log for log in logs if log.judged_by == LOWEST), None)
    return [
        *(orders_claim(long, arm) for arm in (PLAIN, ORTHOGONAL, RESIDUAL)),
        lead_claim(long, [arm for arm in LONG_ARMS if arm != HIGHWAY], STRETCH * BUDGET["epochs"]),
        lead_claim(short, [arm for arm in ARMS if arm != HIGHWAY], BUDGET["epochs"]),
    ]


def orders_claim(long: HundredLayersLog | None, other: str) -> Claim:
    """Judge whether highway nets are more than ORDERS orders of magnitude better than another arm."""
    of_paper = other == PLAIN
    section = "3.1, figure 1" if of_paper else "ours, beside 3.1"
    beside = {
        PLAIN: "plain ones, gradients clipped in both",
        ORTHOGONAL: "plain ones with orthogonal weights (our comparison)",
        RESIDUAL: "residual ones whose branches are scaled by depth (our comparison)",
    }
    paper = f"at 100 layers highway nets are more than {ORDERS} orders of magnitude better than {beside[other]}"
    if long is None:
        return Claim(section, paper, "needs the runs of 400 epochs", Verdict.NOT_TESTED, detail=not of_paper)
    lead = find_leads(long)[other].orders
    verdict = judge_better(Interval(lead.value - ORDERS, lead.half), 0)
    runs = standing(long)
    failed = "; ".join(f"{arm}: {sum(run.failed for run in runs[arm])}" for arm in (HIGHWAY, other))
    seeds = count_of(len(runs[HIGHWAY]), "seed")
    after = f"after {epochs_of(long)} epochs ({seeds}, none left out; failed runs: {failed})"
    why = f"{lead:+.2f} orders of magnitude {after}"
    return Claim(section, paper, why, verdict, detail=not of_paper)


def lead_claim(log: HundredLayersLog | None, others: list[str], epochs: int) -> Claim:
    """Judge, in a row of our own, whether highway nets reach a lower loss than every other arm."""
    section, paper = "ours, beside 3.1", f"at 100 layers highway nets reach a lower loss than others, {epochs} epochs"
    if log is None:
        return Claim(section, paper, f"needs the runs of {epochs} epochs", Verdict.NOT_TESTED, detail=True)
    leads = find_leads(log)
    judged = "; ".join(f"{leads[arm].orders:+.2f} over {arm} ({leads[arm].verdict})" for arm in others)
    seeds = count_of(len(standing(log)[HIGHWAY]), "seed")
    why = f"orders of magnitude ({seeds}; p corrected after Holm): {judged}"
    return Claim(section, paper, why, combine(leads[arm].verdict for arm in others), detail=True)


FIGURES = {"hundred_layers.png": loss_figure}
TABLES = {
    "hundred_layers": losses_table,
    "hundred_layers_leads": leads_table,
    "hundred_layers_settings": settings_table,
}
