"""Picture, tables and verdicts of plain and highway nets that are tuned alike."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import name_numbers, name_tested
from highway_lab.figures import COLORS, draw_level, draw_seeds, label_ends, markdown, new_figure
from highway_lab.intervals import Interval, difference, interval, judge

from .claims import Claim
from .common import CHANCE
from .tuned_plain import (
    ARMS,
    HIGHWAY,
    MARGIN,
    PLAIN,
    UNTUNED,
    WIDE,
    Arm,
    ScoredRun,
    Setting,
    TunedPlainLog,
    arm_of,
    rank_settings,
    setting_of,
)

NAMES = {HIGHWAY: "highway", PLAIN: "plain", WIDE: "plain, 71 units"}
LINE_COLORS = {HIGHWAY: COLORS["highway"], PLAIN: COLORS["plain"], WIDE: COLORS["lstm"]}
COMPARED = (10, 20, 30, 50)  # blocks, on which verdicts depend
DEEPEST_WIDE = 30  # blocks: the deepest net of the verdict on parameters
ERROR_TICKS = (5, 10, 20, 50, 90)  # %
LOSS_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2)

Runs = dict[tuple[Arm, int], list[ScoredRun]]  # by arm and depth


def tuned_runs(log: TunedPlainLog) -> Runs:
    """The runs of each arm in the setting that it has chosen."""
    return {key: runs_in(log, *key, ranked[0]) for key, ranked in rank_settings(log.tried).items()}


def untuned_runs(log: TunedPlainLog) -> Runs:
    """The runs of the sweep's setting."""
    keys = dict.fromkeys((arm_of(run.config), run.config.depth) for run in log.runs)
    return {key: runs_in(log, *key, UNTUNED) for key in keys if key[0] != WIDE}


def runs_in(log: TunedPlainLog, arm: Arm, depth: int, setting: Setting) -> list[ScoredRun]:
    """The runs of an arm at a depth, in one setting."""
    wanted = arm, depth, setting
    return [run for run in log.runs if (arm_of(run.config), run.config.depth, setting_of(run.config)) == wanted]


def accuracies(runs: list[ScoredRun]) -> np.ndarray:
    """Test accuracy of each run in per cent; one that diverged guesses."""
    return 100 * np.array([CHANCE if run.test_score is None else run.test_score for run in runs])


def losses(runs: list[ScoredRun]) -> np.ndarray:
    """Training loss of each run; NaN where it diverged."""
    return np.array([run.train_loss for run in runs], float)


def depths_of(runs: Runs) -> list[int]:
    """The depths, the least first."""
    return sorted({depth for _, depth in runs})


def depth_figure(log: TunedPlainLog) -> Figure:
    """Test error and training loss against depth, log scales: left in the sweep's setting, right tuned."""
    seeds = len({run.config.seed for run in log.runs})
    title = f"{name_tested(log.dataset)}: {log.dataset.n_train:,} training images, {seeds} seeds"
    figure, axes = new_figure(title, 6.6, nrows=2, ncols=2, sharex=True, sharey="row")
    columns = {"one setting for all, not tuned": untuned_runs(log), "tuned on validation images": tuned_runs(log)}
    for (above, below), (words, found) in zip(axes.T, columns.items(), strict=True):
        depths = depths_of(found)
        for arm in [arm for arm in ARMS if (arm, depths[0]) in found]:
            by_depth = [found[arm, depth] for depth in depths]
            style = {"label": NAMES[arm], "color": LINE_COLORS[arm], "marker": "o", "markersize": 5}
            draw_seeds(above, depths, np.transpose([100 - accuracies(runs) for runs in by_depth]), **style)
            draw_seeds(below, depths, np.transpose([losses(runs) for runs in by_depth]), **style)
        draw_level(above, 100 - 100 * CHANCE, "chance")
        above.set(title=words, yscale="log", xticks=depths)
        below.set(xlabel="blocks", yscale="log")
        for panel, ticks in ((above, ERROR_TICKS), (below, LOSS_TICKS)):
            panel.set_yticks(ticks, ticks)
            panel.minorticks_off()
    axes[0, 0].set_ylabel("test error (%)")
    axes[1, 0].set_ylabel("training loss (nats)")
    for panel in axes.flat:
        label_ends(panel)
    return figure


# ------------------------------------------------------------------------------------ tables and verdicts


def accuracy_table(log: TunedPlainLog) -> str:
    """Test accuracy of each arm by depth, tuned and not."""
    groups, rows = {"tuned": tuned_runs(log), "not tuned": untuned_runs(log)}, []
    depths = depths_of(groups["tuned"])
    for words, found in groups.items():
        arms = [arm for arm in ARMS if (arm, depths[0]) in found]
        rows.extend([words, NAMES[arm], *(accuracy_cell(found[arm, depth]) for depth in depths)] for arm in arms)
    header = ["", "net", *(f"{depth} blocks" for depth in depths)]
    seeds = len({run.config.seed for run in log.runs})
    return (
        f"{markdown(header, rows)}\n\nTest accuracy in per cent: mean and 95 % interval (t) over {seeds} seeds; "
        f"a diverged run counts as {CHANCE:.0%}. Plain nets have {PLAIN.hidden} units a block, and {WIDE.hidden} where "
        f"it is said: as many parameters as a highway block of {HIGHWAY.hidden}."
    )


def accuracy_cell(runs: list[ScoredRun]) -> str:
    """Mean accuracy with its interval, and how many runs diverged."""
    diverged = sum(run.diverged for run in runs)
    return f"{interval(accuracies(runs)):.1f}" + (f" ({diverged} diverged)" if diverged else "")


def settings_table(log: TunedPlainLog) -> str:
    """The setting that each arm has chosen at each depth."""
    ranked = rank_settings(log.tried)
    depths = sorted({depth for _, depth in ranked})
    rows = []
    for arm in ARMS:
        (n_params,) = {run.n_params for run in tuned_runs(log)[arm, depths[-1]]}
        chosen = [name_setting(arm, ranked[arm, depth][0]) for depth in depths]
        rows.append([NAMES[arm], f"{n_params:,}", *chosen])
    header = ["net", f"parameters, {depths[-1]} blocks", *(f"{depth} blocks" for depth in depths)]
    rates = sorted({run.lr for run in log.tried})
    ends = [
        f"{NAMES[arm]} {depth}" for (arm, depth), settings in ranked.items() if settings[0].lr in (rates[0], rates[-1])
    ]
    seeds = len({run.seed for run in log.tried})
    return (
        f"{markdown(header, rows)}\n\nInitialisation and learning rate, for highway nets also b_T: the highest "
        f"validation accuracy over {seeds} seeds. Rates from {rates[0]:g} to {rates[-1]:g}; chosen at an end: "
        f"{', '.join(ends) or 'none'}. Not tuned: {name_setting(HIGHWAY, UNTUNED)}."
    )


def name_setting(arm: Arm, setting: Setting) -> str:
    """A setting in words; plain nets have no b_T."""
    return f"{setting.init} {setting.lr:g}" + (f", b_T {setting.gate_bias:g}" if arm == HIGHWAY else "")


def gaps_table(log: TunedPlainLog) -> str:
    """Differences in test accuracy between arms, what tuning adds, and what depth costs."""
    tuned, untuned = tuned_runs(log), untuned_runs(log)
    depths, shallow = depths_of(tuned), compared_depths(log)[0]
    pairs = {
        "highway minus plain, not tuned": ((untuned, HIGHWAY), (untuned, PLAIN)),
        "highway minus plain": ((tuned, HIGHWAY), (tuned, PLAIN)),
        f"highway minus plain of {WIDE.hidden} units": ((tuned, HIGHWAY), (tuned, WIDE)),
        f"plain of {WIDE.hidden} minus {PLAIN.hidden} units": ((tuned, WIDE), (tuned, PLAIN)),
        "highway: tuned minus not": ((tuned, HIGHWAY), (untuned, HIGHWAY)),
        "plain: tuned minus not": ((tuned, PLAIN), (untuned, PLAIN)),
    }
    rows = [
        [words, *(f"{gap(runs[arm, depth], others[other, depth]):+.1f}" for depth in depths)]
        for words, ((runs, arm), (others, other)) in pairs.items()
    ]
    rows += [
        [
            f"{NAMES[arm]}: minus that of {shallow} blocks",
            *("" if depth == shallow else f"{gap(tuned[arm, depth], tuned[arm, shallow]):+.1f}" for depth in depths),
        ]
        for arm in ARMS
    ]
    return (
        f"{markdown(['test accuracy', *(f'{depth} blocks' for depth in depths)], rows)}\n\nPoints of test accuracy "
        "with 95 % intervals (t, unequal variances)."
    )


def gap(runs: list[ScoredRun], others: list[ScoredRun]) -> Interval:
    """Points of test accuracy by which runs outperform others."""
    return difference(accuracies(runs), accuracies(others))


def compared_depths(log: TunedPlainLog) -> list[int]:
    """The depths on which verdicts depend; all of a smoke run."""
    depths = depths_of(tuned_runs(log))
    return [depth for depth in depths if depth in COMPARED] or depths


def claims(log: TunedPlainLog) -> list[Claim]:
    """The verdicts on tuned nets."""
    return [lead_claim(log), parameters_claim(log)]


def lead_claim(log: TunedPlainLog) -> Claim:
    """Do highway nets outperform plain ones of as many units, where both are tuned?"""
    tuned = tuned_runs(log)
    gaps = {depth: gap(tuned[HIGHWAY, depth], tuned[PLAIN, depth]) for depth in compared_depths(log)}
    better = [depth for depth, between in gaps.items() if between.sign > 0]
    if len(better) == len(gaps):
        verdict = "reproduced"
    elif better:
        verdict = f"partly: at {name_numbers(better)} blocks"
    else:
        verdict = (
            "inconclusive"
            if "inconclusive" in [judge(between, MARGIN) for between in gaps.values()]
            else "not reproduced"
        )
    return Claim("4", "deep highway nets outperform plain nets of as many units, both tuned", words_for(gaps), verdict)


def parameters_claim(log: TunedPlainLog) -> Claim:
    """Do gates gain more than as many parameters spent on width?"""
    tuned = tuned_runs(log)
    depths = [depth for depth in compared_depths(log) if depth <= DEEPEST_WIDE]
    gaps = {depth: gap(tuned[HIGHWAY, depth], tuned[WIDE, depth]) for depth in depths}
    if all(between.high < MARGIN for between in gaps.values()):
        verdict = "reproduced"
    else:
        verdict = "not reproduced" if all(between.sign > 0 for between in gaps.values()) else "inconclusive"
    paper = "gates double the parameters without proportional gains: plain nets of as many parameters do as well"
    return Claim("overview", paper, words_for(gaps), verdict)


def words_for(gaps: dict[int, Interval]) -> str:
    """Differences by depth in words."""
    found = (f"{depth} blocks: {between:+.1f} ({judge(between, MARGIN)})" for depth, between in gaps.items())
    return f"points of test accuracy, {'; '.join(found)}"


FIGURES = {"tuned_plain.png": depth_figure}
TABLES = {
    "tuned_plain": accuracy_table,
    "tuned_plain_settings": settings_table,
    "tuned_plain_gaps": gaps_table,
}
