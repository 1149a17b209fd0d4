"""Picture, tables and verdicts of nets of 100 layers whose gradients are clipped."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from highway_lab.console import count_of, name_data
from highway_lab.figures import COLORS, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.tables import markdown

from . import hundred_layers as hl
from .claims import LOSS_MARGIN, OURS, Claim, Verdict, combine, holds, in_words, judge_better
from .common import CHANCE, group_by
from .common_figures import loss_in_words, minus, times
from .comparisons import holm
from .depth_search_figures import FIGURE_1

HIGHWAYS = (hl.HIGHWAY, hl.RELU)  # those that are compared with the others
LINE_COLORS = {
    hl.HIGHWAY: COLORS["highway"],
    hl.RELU: COLORS["highway-uncoupled"],
    hl.PLAIN: COLORS["plain"],
    hl.ORTHOGONAL: COLORS["lstm"],
    hl.RESIDUAL: COLORS["residual-scaled"],
    hl.REZERO: COLORS["residual"],
}
NAMES = {
    hl.HIGHWAY: "highway nets",
    hl.RELU: "highway nets with ReLU",
    hl.PLAIN: "plain nets",
    hl.ORTHOGONAL: "plain nets with orthogonal weights",
    hl.RESIDUAL: "residual nets whose branches are scaled by depth",
    hl.REZERO: "ReZero nets",
}
LONG_EPOCHS = hl.STRETCH * hl.BUDGET["epochs"]
MISSING = f"No net was trained for {LONG_EPOCHS} epochs. "
ORDERS = 2  # of magnitude, by which highway nets are better in the paper's sentence
ERROR_RATE = 0.05  # of all comparisons of one highway net and budget together

Runs = list[hl.HundredLayersRun]


def by_budget(logs: Iterable[hl.HundredLayersLog]) -> list[hl.HundredLayersLog]:
    """Return a log a budget, in which the runs of step 3 stand beside those of step 1."""
    found = group_by(logs, lambda log: log.judged_by).values()
    return [replace(of[0], runs=[run for log in of for run in log.runs]) for of in found]


def by_rate(log: hl.HundredLayersLog) -> dict[str, list[Runs]]:
    """Return the scored runs by arm and rate; the runs of the rate that stands for the arm come first.

    It is that of the lowest mean loss; of equal ones, the higher rate, which is the chosen one.
    """
    by_arm = group_by(log.runs, lambda run: run.task.arm)
    return {
        arm: sorted(
            group_by(by_arm[arm], lambda run: -run.config.lr).values(),
            key=lambda runs: hl.log_losses(runs, log.judged_by).mean(),
        )
        for arm in hl.ARMS
        if arm in by_arm
    }


def standing(log: hl.HundredLayersLog) -> dict[str, Runs]:
    """Return by arm the runs of the rate that stands for it."""
    return {arm: rates[0] for arm, rates in by_rate(log).items()}


# ------------------------------------------------------------------------------------------- comparisons


@dataclass
class Lead:
    """The orders of magnitude by which highway nets are ahead of another arm.

    p         Welch's, corrected after Holm for all comparisons of these highway nets in its log
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


def find_leads(log: hl.HundredLayersLog, highway: str = hl.HIGHWAY) -> dict[str, Lead]:
    """Return the lead of one of HIGHWAYS over each other arm."""
    runs = standing(log)
    losses = {arm: hl.log_losses(of, log.judged_by) for arm, of in runs.items()}
    others = [arm for arm in runs if arm not in HIGHWAYS]
    ps = holm([welch_p(losses[arm], losses[highway]) for arm in others])
    learned = [not all(run.failed for run in runs[arm] + runs[highway]) for arm in others]
    orders = [difference(losses[arm], losses[highway]) for arm in others]
    return {arm: Lead(*of) for arm, *of in zip(others, orders, ps, learned, strict=True)}


def highways(log: hl.HundredLayersLog) -> list[str]:
    """Return those of HIGHWAYS that a log has."""
    return [arm for arm in HIGHWAYS if arm in standing(log)]


def compare(log: hl.HundredLayersLog, highway: str, other: str) -> str:
    """Say how the training loss of one of HIGHWAYS lies beside that of another arm."""
    orders = find_leads(log, highway)[other].orders.value
    return f"that of {NAMES[highway]} is {times(abs(orders))} times {'lower' if orders > 0 else 'higher'}"


def welch_p(a: np.ndarray, b: np.ndarray) -> float:
    """Return the p of equal means by Welch's test; 1 where it has none, as for equal values."""
    from scipy.stats import ttest_ind

    with warnings.catch_warnings(action="ignore"):  # about equal values
        p = ttest_ind(a, b, equal_var=False).pvalue if min(len(a), len(b)) > 1 else np.nan
    return 1.0 if np.isnan(p) else float(p)


# ----------------------------------------------------------------------------------------------- picture


def loss_figure(*logs: hl.HundredLayersLog) -> Figure:
    """Draw training loss by epoch, a panel a budget: every seed faint, the median of each arm bold."""
    budgets, layers = by_budget(logs), logs[0].runs[0].config.depth + 1
    after = {epochs_of(log): f" after {epochs_of(log)} epochs" * (len(budgets) > 1) for log in budgets}
    found = [
        f"{times(find_leads(log, of)[hl.PLAIN].orders.value)} times that of {NAMES[of]}{after[epochs_of(log)]}"
        for log in budgets
        for of in highways(log)
        if hl.PLAIN in standing(log)
    ]
    words = f": the loss of plain nets is {in_words(found)}" if found else ""
    title = f"{name_data(logs[0].dataset.name)}, {layers} layers{words}"
    figure, axes = new_figure(title, 0.6 + 3.4 * len(budgets), nrows=len(budgets), squeeze=False)
    for panel, log in zip(axes[:, 0], budgets, strict=True):
        for arm, runs in standing(log).items():
            curves = np.array([drawn_losses(run) for run in runs])
            epochs = np.arange(curves.shape[1])
            draw_seeds(panel, epochs, curves, label=arm, center=np.median, color=LINE_COLORS[arm])
        draw_level(panel, hl.CHANCE_LOSS, "chance")
        panel.set(xlabel="epoch", ylabel="training loss", yscale="log", title=f"{epochs_of(log)} epochs")
        panel.margins(x=0)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    label_ends(*axes[:, 0])
    return figure


def drawn_losses(run: hl.HundredLayersRun) -> np.ndarray:
    """Return a run's loss before training and after each epoch; from where it diverged on it is that of guessing."""
    losses = np.full(run.config.epochs + 1, hl.CHANCE_LOSS)
    found = np.array(run.losses, float)
    losses[: len(found)] = np.where(np.isfinite(found), found, hl.CHANCE_LOSS)
    return losses


def epochs_of(log: hl.HundredLayersLog) -> int:
    return log.runs[0].config.epochs


# ------------------------------------------------------------------------------------------------ tables


def losses_table(*logs: hl.HundredLayersLog) -> str:
    """Tabulate the losses of each arm and what became of its runs; the rate that stands for an arm is bold."""
    budgets = by_budget(logs)
    rows = [
        [f"{arm}, {epochs_of(log)} epochs", *cells_of(runs, log, stands=runs is rates[0])]
        for log in budgets
        for arm, rates in by_rate(log).items()
        for runs in rates
    ]
    header = ["net", "rate", "final loss", "lowest loss", "lowest loss, if failed runs count with theirs"]
    header += ["diverged", "at chance", "clipped steps (%)", "parameters", "test accuracy (%)"]
    judged = "; ".join(f"after {epochs_of(log)} epochs, the {log.judged_by} loss judges" for log in budgets)
    return (
        f"{markdown(header, rows)}\n\nLosses: geometric means over seeds with 95 % intervals; {judged}. Runs that "
        f"diverge or end at chance count with {hl.CHANCE_LOSS:.2f}, the loss of guessing, but for the third loss. A "
        f"diverged run counts as {CHANCE:.0%} accuracy. Final: over all training images; lowest: over 10,000 of them. "
        "Bold: the rate that stands for the net."
    )


def cells_of(runs: Runs, log: hl.HundredLayersLog, *, stands: bool) -> list[str]:
    """Return the cells of an arm's runs at one rate."""
    rate, scores = f"{runs[0].config.lr:g}", [CHANCE if run.diverged else run.test_score for run in runs]
    counted = [
        hl.log_losses(runs, hl.FINAL),
        hl.log_losses(runs, hl.LOWEST),
        np.log10([run.lowest_loss for run in runs]),
    ]
    return [
        f"**{rate}**" if stands else rate,
        *(loss_in_words(interval(losses)) for losses in counted),
        *failures(runs),
        f"{100 * np.mean([run.clipped for run in runs]):.1f}",
        f"{runs[0].n_trained:,}",
        f"{interval(100 * np.array(scores)):.1f}",
    ]


def leads_table(*logs: hl.HundredLayersLog) -> str:
    """Tabulate by how much highway nets are ahead of each other arm."""
    rows = [
        [f"{highway}, {epochs_of(log)} epochs", arm, f"{lead.orders:+.2f}", f"{lead.p:.2g}", lead.words]
        for log in by_budget(logs)
        for highway in highways(log)
        for arm, lead in find_leads(log, highway).items()
    ]
    header = ["highway net", "other net", "lead (orders of magnitude)", "p", "highway nets are"]
    return (
        f"{markdown(header, rows)}\n\nWelch's 95 % intervals over seeds; p is corrected after Holm for the comparisons "
        f"of one highway net and budget. Alike: the interval lies within {LOSS_MARGIN:g} on both sides of 0."
    )


def settings_table(*logs: hl.HundredLayersLog) -> str:
    """Tabulate the setting that each arm has chosen, and how its tries ended."""
    tried = group_by([run for log in logs for run in log.tried], lambda run: run.task.arm)
    rows, at_rate, at_scale = [], [], []
    for arm, setting in hl.chosen_settings(run for runs in tried.values() for run in runs).items():
        longest = hl.tried_longest(run for run in tried[arm] if run.task.setting == setting)
        losses = hl.log_losses(longest, hl.FINAL)
        scale, scales = hl.ARMS[arm].scale, hl.ARMS[arm].scales
        cells = [f"{setting.lr:g}", f"{scale} = {minus(setting.scale)}", loss_in_words(interval(losses))]
        rows.append([arm, *cells, *failures(tried[arm])])
        at_rate += [f"{arm} ({setting.lr:g})"] * (setting.lr in (min(hl.RATES), max(hl.RATES)))
        at_scale += [f"{arm} ({minus(setting.scale)})"] * (setting.scale in (min(scales), max(scales)))
    header = ["net", "rate", "scale", "loss, tuning seeds", "tries that diverged", "tries at chance"]
    return (
        f"{markdown(header, rows)}\n\nRates from {min(hl.RATES):g} to {max(hl.RATES):g}; chosen at an end: "
        f"{'; '.join(at_rate) or 'none'}. Scale at an end: {'; '.join(at_scale) or 'none'}."
    )


def failures(runs: Runs) -> list[str]:
    """Return how many of the runs diverged, and how many ended at chance."""
    return [f"{sum(getattr(run, end) for run in runs)} of {len(runs)}" for end in ("diverged", "at_chance")]


# ---------------------------------------------------------------------------------------------- verdicts


def claims(*logs: hl.HundredLayersLog) -> list[Claim]:
    """Return the paper's sentence and our comparisons; what needs the runs of 400 epochs is not tested without them."""
    by_loss = {log.judged_by: log for log in by_budget(logs)}
    short, long = by_loss.get(hl.FINAL), by_loss.get(hl.LOWEST)
    others = [arm for arm in hl.FIRST_ARMS if arm != hl.HIGHWAY]
    return [
        *(orders_claim(long or short, arm) for arm in (hl.PLAIN, hl.ORTHOGONAL, hl.RESIDUAL)),
        lead_claim(long, hl.HIGHWAY, [arm for arm in others if arm in hl.LONG_ARMS], LONG_EPOCHS),
        *(lead_claim(short, of, others, hl.BUDGET["epochs"]) for of in (highways(short) if short else ())),
    ]


def orders_claim(log: hl.HundredLayersLog, other: str) -> Claim:
    """Judge whether highway nets are more than ORDERS orders of magnitude better than another arm.

    A log of shorter runs than the paper's does not judge it, but says what they found.
    """
    of_paper = other == hl.PLAIN
    section, clipped = FIGURE_1 if of_paper else OURS, ", gradients clipped in both" * of_paper
    paper = f"at 100 layers highway nets are more than {ORDERS} orders of magnitude better than {NAMES[other]}{clipped}"
    lead, judges = find_leads(log)[other].orders, log.judged_by == hl.LOWEST
    verdict = judge_better(Interval(lead.value - ORDERS, lead.half), 0) if judges else Verdict.NOT_TESTED
    runs = standing(log)
    failed = {arm: sum(run.failed for run in runs[arm]) for arm in (hl.HIGHWAY, other)}
    lost = [f"{failed[arm]} of {len(runs[arm])} {NAMES[arm]}" for arm in failed]
    ends = f"Runs that diverge or end at chance count as guesses: {in_words(lost)}."
    found = in_words([compare(log, highway, other) for highway in highways(log)])
    why = (
        f"{'' if judges else MISSING}Beside the loss of {NAMES[other]} after {epochs_of(log)} epochs, {found}. "
        f"{ends if any(failed.values()) else 'No run diverged or ended at chance.'}"
    )
    after = f"after {epochs_of(log)} epochs ({count_of(len(runs[hl.HIGHWAY]), 'seed')}, none left out)"
    measured = f"{lead:+.2f} orders of magnitude {after}"
    return Claim(section, paper, verdict, why, measured, detail=not of_paper, before=True)


def lead_claim(log: hl.HundredLayersLog | None, highway: str, others: list[str], epochs: int) -> Claim:
    """Judge, in a row of our own, whether one of HIGHWAYS reaches a lower loss than every other arm."""
    paper = f"at 100 layers {NAMES[highway]} reach a lower loss than other nets, after {epochs} epochs"
    if log is None:
        return Claim(OURS, paper, Verdict.NOT_TESTED, MISSING.strip(), "", detail=True, before=True)
    leads = find_leads(log, highway)
    why = holds({NAMES[arm]: leads[arm].verdict for arm in others}, "beside {}")
    judged = "; ".join(f"{leads[arm].orders:+.2f} over {NAMES[arm]}" for arm in others)
    seeds = count_of(len(standing(log)[highway]), "seed")
    measured = f"orders of magnitude ({seeds}; p corrected after Holm): {judged}"
    verdict = combine(leads[arm].verdict for arm in others)
    return Claim(OURS, paper, verdict, why, measured, detail=True, before=True)


FIGURES = {"hundred_layers.png": loss_figure}
TABLES = {
    "hundred_layers": losses_table,
    "hundred_layers_leads": leads_table,
    "hundred_layers_settings": settings_table,
}
