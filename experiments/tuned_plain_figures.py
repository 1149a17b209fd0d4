"""Picture, tables and verdicts of plain and highway nets that are tuned alike."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of, name_data
from highway_lab.figures import COLORS, draw_level, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.tables import markdown

from . import tuned_plain as tp
from .claims import OURS, Claim, Verdict, combine, in_words, judge_as_good, judge_better, of_learners
from .common import CHANCE, group_by
from .common_figures import draw_against, judge_each, minus
from .rates import edge_note

ORTHOGONAL = tp.PLAIN._replace(orthogonal=True)
OLDER = dict(zip(tp.NETS, ("highway", "plain", "plain, 71 units"), strict=True))
NAMES = OLDER | {net._replace(orthogonal=True): f"{name}, orthogonal" for net, name in OLDER.items()}
LINE_COLORS = {
    tp.HIGHWAY: COLORS["highway"],
    tp.PLAIN: COLORS["plain"],
    tp.WIDE: COLORS["lstm"],
    ORTHOGONAL: COLORS["residual"],
}
COMPARED = (10, 20, 30, 50)  # blocks, on which verdicts depend
LEARNED = 20  # % of test images: twice chance
BLOG_DEPTH, BLOG_ACCURACY = 20, 15  # blocks, %
DEEPEST_WIDE = 30  # blocks: the deepest net of the verdict on parameters
UNTUNED, STRONGEST = "one setting for all", "all tuned, initial weights by validation"
ERROR_TICKS = (5, 10, 20, 50, 90)  # %
LOSS_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2)

Runs = dict[tp.Arm, dict[int, list[tp.ScoredRun]]]  # by arm and depth


def tuned_runs(log: tp.TunedPlainLog) -> Runs:
    """Return the runs of each arm in the settings that it has chosen."""
    return runs_of(log, {key: ranked[0] for key, ranked in tp.rank_settings(log.tried).items()})


def untuned_runs(log: tp.TunedPlainLog) -> Runs:
    keys = [
        (arm, depth)
        for arm, depth in tp.rank_settings(log.tried)
        if arm in (tp.HIGHWAY, tp.PLAIN) and depth >= tp.UNTUNED_FROM
    ]
    return runs_of(log, dict.fromkeys(keys, tp.UNTUNED))


def strongest_runs(log: tp.TunedPlainLog) -> Runs:
    """Return the runs of each net, its initial weights of the kind, older or orthogonal, that validates better."""
    tuned, found = tuned_runs(log), {}
    for (net, depth), arm in tp.strongest(log.tried).items():
        found.setdefault(net, {})[depth] = tuned[arm][depth]
    return found


def shallow_runs(log: tp.TunedPlainLog) -> list[tp.ScoredRun]:
    """Return the runs of the best shallow net, a level that deep nets have to beat; none if the log has no such net."""
    if (key := tp.best_shallow(log.tried)) is None:
        return []
    arm, depth = key
    return tuned_runs(log)[arm][depth]


def runs_of(log: tp.TunedPlainLog, settings: dict[tuple[tp.Arm, int], tp.Setting]) -> Runs:
    """Return the runs of one setting for each arm and depth."""
    by_setting = group_by(log.runs, lambda run: (tp.arm_of(run.config), run.config.depth, tp.setting_of(run.config)))
    found = {}
    for (arm, depth), setting in settings.items():
        found.setdefault(arm, {})[depth] = by_setting[arm, depth, setting]
    return found


def accuracies(runs: list[tp.ScoredRun]) -> np.ndarray:
    """Return the test accuracy of each run in per cent; one that diverged guesses."""
    return 100 * np.array([CHANCE if run.test_score is None else run.test_score for run in runs])


def losses(runs: list[tp.ScoredRun]) -> np.ndarray:
    """Return the training loss of each run; NaN where it diverged."""
    return np.array([run.train_loss for run in runs], float)


def lead(runs: list[tp.ScoredRun], others: list[tp.ScoredRun]) -> Interval:
    return difference(accuracies(runs), accuracies(others))


def depth_figure(log: tp.TunedPlainLog) -> Figure:
    """Draw test error and training loss against depth, log scales: left in the sweep's setting, right tuned."""
    tuned, shallow = tuned_runs(log), shallow_runs(log)
    columns = {"one setting for all, not tuned": untuned_runs(log), "tuned on validation images": tuned}
    leads, depth = leads_by_tuning(log), compared_depths(tuned)[-1]
    first, *_, last = (minus(round(leads[words][depth].value, 1)) for words in (UNTUNED, STRONGEST))
    tuned_lead = f"{last} if all are tuned and orthogonal weights allowed"
    found = f"at {depth} blocks highway nets lead by {first} points, by {tuned_lead}"
    figure, axes = new_figure(
        f"{name_data(log.dataset.name)}: {found}", 6.6, nrows=2, ncols=2, sharex=True, sharey="row"
    )
    depths = depths_of(tuned)
    for (above, below), (words, found) in zip(axes.T, columns.items(), strict=True):
        for arm in filter(LINE_COLORS.get, found):
            by_depth = {depths.index(depth): runs for depth, runs in found[arm].items()}
            style = {"label": NAMES[arm], "color": LINE_COLORS[arm], "markersize": 5}
            for panel, values in ((above, lambda runs: 100 - accuracies(runs)), (below, losses)):
                draw_against(panel, by_depth, values, **style)
        draw_level(above, 100 - 100 * CHANCE, "chance")
        draw_level(below, -np.log(CHANCE), "chance")
        if shallow and found is tuned:
            draw_level(above, 100 - accuracies(shallow).mean(), f"best of ≤ {tp.SHALLOW} blocks")
        above.set(title=words, yscale="log")
        above.set_xticks(range(len(depths)), depths)
        below.set(xlabel="blocks", yscale="log")
        for panel, ticks in ((above, ERROR_TICKS), (below, LOSS_TICKS)):
            panel.set_yticks(ticks, ticks)
            panel.minorticks_off()
    axes[0, 0].set_ylabel("test error (%)")
    axes[1, 0].set_ylabel("training loss")
    for panel in axes.flat:
        label_ends(panel)
    return figure


def leads_by_tuning(log: tp.TunedPlainLog) -> dict[str, dict[int, Interval]]:
    """Return the leads of highway nets over plain ones by what was tuned, and by depth."""
    tuned, best = tuned_runs(log), strongest_runs(log)
    compared = {
        UNTUNED: (untuned_runs(log), tp.PLAIN),
        "all tuned, older initial weights": (tuned, tp.PLAIN),
        STRONGEST: (best, tp.PLAIN),
        f"the same, plain blocks of {tp.WIDE.hidden} units": (best, tp.WIDE),
    }
    return {
        words: {depth: lead(runs[tp.HIGHWAY][depth], runs[plain][depth]) for depth in compared_depths(runs)}
        for words, (runs, plain) in compared.items()
    }


def lead_table(log: tp.TunedPlainLog) -> str:
    """Tabulate by how much highway nets lead plain ones, by what was tuned."""
    leads, seeds = leads_by_tuning(log), len({run.config.seed for run in log.runs})
    rows = [[words, *(f"{of:+.1f}" for of in by_depth.values())] for words, by_depth in leads.items()]
    header = ["highway minus plain nets", *(f"{depth} blocks" for depth in leads[UNTUNED])]
    return f"{markdown(header, rows)}\n\nPoints of test accuracy: means over {seeds} seeds and 95 % intervals."


def accuracy_table(log: tp.TunedPlainLog) -> str:
    """Tabulate the test accuracy of each arm by depth, tuned and not."""
    groups = {"tuned": tuned_runs(log), "not tuned": untuned_runs(log)}
    depths = depths_of(groups["tuned"])
    rows = [
        [words, NAMES[arm], *(accuracy_cell(by_depth.get(depth)) for depth in depths)]
        for words, found in groups.items()
        for arm, by_depth in found.items()
    ]
    table = markdown(["", "net", *(count_of(depth, "block") for depth in depths)], rows)
    return f"{table}\n\nTest accuracy in per cent; a diverged run counts as {CHANCE:.0%}."


def depths_of(runs: Runs) -> list[int]:
    return sorted({depth for by_depth in runs.values() for depth in by_depth})


def accuracy_cell(runs: list[tp.ScoredRun] | None) -> str:
    """Return the mean accuracy with its interval; nothing where an arm has no nets of this depth."""
    if runs is None:
        return ""
    diverged = sum(run.diverged for run in runs)
    return f"{interval(accuracies(runs)):.1f}" + (f" ({diverged} diverged)" if diverged else "")


def settings_table(log: tp.TunedPlainLog) -> str:
    """Tabulate the setting that each arm has chosen at each depth."""
    ranked, tuned = tp.rank_settings(log.tried), tuned_runs(log)
    rows, measured, depths = [], [], depths_of(tuned)
    for arm, by_depth in tuned.items():
        chosen = {depth: name_setting(arm, ranked[arm, depth][0]) for depth in by_depth}
        measured += [runs[0] for runs in by_depth.values()]
        rows.append([NAMES[arm], f"{by_depth[depths[-1]][0].n_params:,}", *(chosen.get(depth, "") for depth in depths)])
    header = ["net", f"parameters, {depths[-1]} blocks", *(count_of(depth, "block") for depth in depths)]
    edges = edge_note(log.tried, measured, lambda run: (NAMES[tp.arm_of(run.config)], run.config.depth), "{} {}".format)
    return (
        f"{markdown(header, rows)}\n\nInitialisation and learning rate, for highway nets also b_T. {edges} "
        f"Not tuned: {name_setting(tp.HIGHWAY, tp.UNTUNED)}."
    )


def name_setting(arm: tp.Arm, setting: tp.Setting) -> str:
    """Return a setting in words; plain nets have no b_T."""
    gain = f" · {setting.init_gain:g}" * (setting.init_gain != 1)
    return f"{setting.init}{gain} {setting.lr:g}" + f", b_T {setting.gate_bias:g}" * (arm.block == "highway")


def leads_table(log: tp.TunedPlainLog) -> str:
    """Tabulate differences in test accuracy between arms, what tuning adds, and what depth costs."""
    tuned, untuned = tuned_runs(log), untuned_runs(log)
    pairs = {
        "highway minus plain, not tuned": (untuned[tp.HIGHWAY], untuned[tp.PLAIN]),
        "highway minus plain": (tuned[tp.HIGHWAY], tuned[tp.PLAIN]),
        f"highway minus plain of {tp.WIDE.hidden} units": (tuned[tp.HIGHWAY], tuned[tp.WIDE]),
        f"plain of {tp.WIDE.hidden} minus {tp.PLAIN.hidden} units": (tuned[tp.WIDE], tuned[tp.PLAIN]),
        "highway: tuned minus not tuned": (tuned[tp.HIGHWAY], untuned[tp.HIGHWAY]),
        "plain: tuned minus not tuned": (tuned[tp.PLAIN], untuned[tp.PLAIN]),
    }
    for net in tp.NETS:
        if (orthogonal := net._replace(orthogonal=True)) in tuned:
            pairs[f"{OLDER[net]}: orthogonal minus older weights"] = tuned[orthogonal], tuned[net]
            if net != tp.HIGHWAY:
                for highway in (tp.HIGHWAY, tp.HIGHWAY._replace(orthogonal=True)):
                    words = "orthogonal" if highway.orthogonal else "older weights"
                    pairs[f"highway, {words}, minus {NAMES[orthogonal]}"] = tuned[highway], tuned[orthogonal]
    for arm, by_depth in tuned.items():
        shallow = compared_depths(tuned)[0]
        pairs[f"{NAMES[arm]}: this depth minus {shallow} blocks"] = (
            by_depth,
            dict.fromkeys(by_depth.keys() - {shallow}, by_depth[shallow]),
        )
    depths = depths_of(tuned)
    rows = [
        [
            words,
            *(
                f"{lead(of[depth], others[depth]):+.1f}" if depth in of.keys() & others.keys() else ""
                for depth in depths
            ),
        ]
        for words, (of, others) in pairs.items()
    ]
    table = markdown(["test accuracy", *(count_of(depth, "block") for depth in depths)], rows)
    return f"{table}\n\nPoints of test accuracy; both nets tuned unless stated."


def claims(log: tp.TunedPlainLog) -> list[Claim]:
    tuned = strongest_runs(log)
    depths = compared_depths(tuned)
    leads = {depth: lead(tuned[tp.HIGHWAY][depth], tuned[tp.PLAIN][depth]) for depth in depths}
    wide = {depth: lead(tuned[tp.WIDE][depth], tuned[tp.HIGHWAY][depth]) for depth in depths if depth <= DEEPEST_WIDE}
    blog = tp.PLAIN, BLOG_DEPTH, tp.UNTUNED
    untuned = [run for run in log.runs if (tp.arm_of(run.config), run.config.depth, tp.setting_of(run.config)) == blog]
    is_better, where_better, better = judge_each(leads, judge_better, tp.MARGIN, "+.1f", "at {} blocks")
    is_as_good, where_as_good, as_good = judge_each(wide, judge_as_good, tp.MARGIN, "+.1f", "at {} blocks")
    learned = all(accuracies(tuned[tp.WIDE][depth]).mean() > LEARNED for depth in wide)
    seeds = count_of(len(tuned[tp.HIGHWAY][depths[0]]), "seed")
    outperform = "deep highway nets outperform plain nets of as many units, both tuned"
    deepest = leads[max(leads)]
    by = f"{deepest.value:.1f} points if both kinds may begin with orthogonal weights"
    equal = {depth: lead(tuned[tp.HIGHWAY][depth], runs) for depth, runs in tuned[tp.WIDE].items() if depth in leads}
    why = f"{where_better} At {max(leads)} blocks they lead by {by}."
    if equal:
        apart = in_words([f"{of:+.1f} at {depth}" for depth, of in equal.items()])
        why += f" From plain nets of as many parameters they differ by {apart} blocks."
    better = f"points of accuracy ({seeds}, by blocks): {better}"
    no_gains = "gates double the parameters without gains over plain nets of as many parameters"
    as_good = f"plain nets of {tp.WIDE.hidden} units minus highway nets, points ({seeds}, by blocks): {as_good}"
    is_as_good = of_learners(is_as_good, learned)
    return [
        Claim(OURS, outperform, is_better, why, better, detail=True, before=True),
        Claim(OURS, no_gains, is_as_good, where_as_good, as_good, detail=True),
        *blog_claims(untuned, tuned[tp.PLAIN].get(BLOG_DEPTH)),
    ]


def blog_claims(untuned: list[tp.ScoredRun], tuned: list[tp.ScoredRun] | None) -> list[Claim]:
    """Judge the blog's plain nets by the sweep's setting, if it was measured: each net alone."""
    if not untuned or not tuned:
        return []
    scores = accuracies(untuned)
    below = int(np.count_nonzero(scores < BLOG_ACCURACY))
    paper = f"plain nets of {BLOG_DEPTH} layers stay below {BLOG_ACCURACY} % accuracy"
    verdict = combine(Verdict.REPRODUCED if score < BLOG_ACCURACY else Verdict.NOT_REPRODUCED for score in scores)
    best = interval(accuracies(tuned))
    why = (
        f"In one setting, {below} of {count_of(len(scores), 'net')} do. It is no property of plain nets: "
        f"tuned, orthogonal weights among the candidates, they reach {best.value:.1f} %."
    )
    measured = f"{interval(scores):.1f} % in one setting; tuned: {best:.1f} %; {count_of(len(scores), 'seed')}"
    return [Claim("blog", paper, verdict, why, measured, detail=True)]


def compared_depths(runs: Runs) -> list[int]:
    return [depth for depth in runs[tp.HIGHWAY] if depth in COMPARED] or [*runs[tp.HIGHWAY]]


FIGURES = {"tuned_plain.png": depth_figure}
TABLES = {
    "tuned_plain_lead": lead_table,
    "tuned_plain": accuracy_table,
    "tuned_plain_settings": settings_table,
    "tuned_plain_gaps": leads_table,
}
