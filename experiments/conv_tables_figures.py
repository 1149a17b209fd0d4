"""Pictures, tables and claims of tables 1 and 2: what the nets reach here in a part of the paper's budget.

The rules of the verdicts were put in this form after the runs but those of --more-seeds and --long. A net reproduces
the paper's number if it is as good, in its longest budget: the 95 % interval of its lead over that number excludes a
loss of the margin. The interval is that over seeds; a single seed has that of its test images. Where our test images
are a part of the paper's, both count. A shorter budget than the paper's can reach its number, but not refute it: the
verdict is then inconclusive. Highway nets match the maxout net that the paper quotes by the same rule, which was
applied to it when the runs were known. They match a shallow maxout net of ours if they are as good, by the margin of
table 1; this was fixed before it was trained.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import FigureBase

from conv_recipes import ConvConfig, configure
from highway_lab.console import count_of, final_of_finished, name_data, name_tested
from highway_lab.figures import COLORS, INK, SETTINGS, label_ends, pale, part_each, set_title
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import grouped
from highway_lab.tables import markdown

from .claims import ACCURACY_MARGIN, OURS, Claim, Verdict, combine, holds, in_words, judge_as_good, of_learners
from .common import CHANCE, group_by, points
from .common_figures import Runs, draw_epochs, gains, joined
from .conv_tables import ConvTablesLog, Cost

STEPS = 200_000  # of a run of table 2, taken from the authors' file of table 3's net
TEST_IMAGES = 10_000  # of MNIST and of CIFAR-10, in the paper
NORMAL = 1.96  # standard errors of a 95 % interval
SHALLOW = "mnist-25-shallow"
NAMES = {SHALLOW: "5 layers, 25 maps"}
TABLE_1_MARGIN = 0.07  # points: errors are about 0.5 %; half of what lies between table 1's two nets


class Reported(NamedTuple):
    """The paper's numbers of a net: accuracy in %, its standard deviation and the best of 5 runs where it gives them.

    Epochs are those of the authors' released files. Table 2 has no such file, so table 3's is taken.
    """

    section: str
    net: str
    parameters: str
    mean: float
    spread: str
    epochs: str
    margin: float

    @property
    def accuracy(self) -> str:
        return f"{self.mean:.2f}{self.spread}, {self.epochs} epochs"


TABLE_1, TABLE_2 = ("300", TABLE_1_MARGIN), ("~400", ACCURACY_MARGIN)
PAPER = {
    "mnist-16": Reported("3.2, table 1", "10 layers, 16 maps", "39 K", 99.4, " (sd 0.03, best 99.43)", *TABLE_1),
    "mnist-32": Reported("3.2, table 1", "10 layers, 32 maps", "151 K", 99.54, " (sd 0.02, best 99.55)", *TABLE_1),
    "highway-a": Reported("3.3, table 2", "Highway A, 11 layers", "236 K", 89.18, "", *TABLE_2),
    "highway-b": Reported("3.3, table 2", "Highway B, 19 layers", "2.3 M", 92.28, " (sd 0.16, best 92.46)", *TABLE_2),
    "highway-c": Reported("3.3, table 2", "Highway C, 32 layers", "1.25 M", 91.2, "", *TABLE_2),
}
QUOTED = {  # by other authors, in the paper's tables 1 and 2: parameters, accuracy in %
    "mnist": {"Maxout": ("420 K", "99.55"), "DSN": ("350 K", "99.61")},
    "cifar-10": {"FitNet A, 11 layers": ("250 K", "89.01"), "FitNet B, 19 layers": ("2.5 M", "91.61")},
}


def name_net(net: str) -> str:
    return PAPER[net].net if net in PAPER else NAMES.get(net, net)


def by_dataset(logs: Sequence[ConvTablesLog]) -> list[ConvTablesLog]:
    """Return a log of each data set, with all its runs."""
    return [joined("runs", of_one) for of_one in grouped(logs, lambda log: log.dataset.name).values()]


def rows(log: ConvTablesLog) -> dict[tuple[str, int, str], Runs]:
    return group_by(log.runs, lambda run: (run.config.net, run.config.epochs, kind(run.config)))


def kind(config: ConvConfig) -> str:
    """Return the kind of block, and whether images are not augmented although the recipe has it."""
    return config.block + ", no augmentation" * (config.augment != configure(config.net).augment)


def images_error(runs: Runs) -> float:
    """Return the binomial standard error of the mean test accuracy, in points, for another sample of images."""
    accuracy = points(runs).mean()
    return (accuracy * (100 - accuracy) / runs[0].config.n_test) ** 0.5


def lead(runs: Runs, level: float) -> Interval:
    """Return the points by which the mean test accuracy exceeds a level, by the interval of the rules above."""
    over_seeds, over_images = interval(points(runs)), NORMAL * images_error(runs)
    both = math.hypot(over_seeds.half, over_images * (runs[0].config.n_test < TEST_IMAGES))
    return Interval(over_seeds.value - level, over_images if len(runs) == 1 else both)


@part_each(height=3.2)
def draw_finals(figure: FigureBase, log: ConvTablesLog) -> None:
    """Draw final test errors beside the paper's, a row a net and budget: a dot a seed, a bar for the images.

    Runs that diverged are counted beside their row, and have no dot.
    """
    set_title(figure, f"{name_data(log.dataset.name)}: {gist(log)}")
    axes, lines = figure.subplots(), list(dict.fromkeys((net, epochs) for net, epochs, _ in rows(log)))
    shifts = {"highway": 0.2, "plain": -0.2}
    for (net, epochs, of), runs in rows(log).items():
        height = shifts.get(of, 0) - lines.index((net, epochs))
        color, ended = COLORS.get(of, SETTINGS[2]), [run for run in runs if not run.diverged]
        if ended:
            errors = 100 - points(ended)
            bar = np.mean(errors) + NORMAL * images_error(ended) * np.array([-1, 1])
            axes.plot(bar, [height, height], color=pale(color, 0.35), linewidth=5, solid_capstyle="butt", zorder=1)
            axes.plot(errors, [height] * len(errors), "o", color=color, markersize=5)
        lost = len(runs) - len(ended)
        words = f"{of.removeprefix('highway, ')}, {count_of(len(runs), 'seed')}{f', {lost} diverged' * bool(lost)}"
        axes.annotate(
            words,
            (1, height),
            (6, 0),
            axes.get_yaxis_transform(),
            "offset points",
            color=color,
            va="center",
            fontsize=9,
        )
    for row, (net, _) in enumerate(lines):
        if net in PAPER:
            axes.plot(100 - PAPER[net].mean, -row, "|", color=INK, markersize=32, markeredgewidth=2)
    names = [f"{name_net(net)}\n{epochs} epochs{of_papers(net)}" for net, epochs in lines]
    axes.set_yticks([-row for row in range(len(lines))], names)
    axes.set(xlabel=f"error on {log.dataset.test_set} (%); black: the paper's", ylim=(0.6 - len(lines), 0.5))


def gist(log: ConvTablesLog) -> str:
    """Return what was found of a data set's nets, as a picture's title says it."""
    words = {
        Verdict.REPRODUCED: "highway nets reach the paper's accuracy",
        Verdict.PARTLY: "some highway nets reach the paper's accuracy",
        Verdict.NOT_REPRODUCED: "highway nets fall short of the paper's accuracy",
        Verdict.INCONCLUSIVE: "whether highway nets reach the paper's accuracy is open",
    }
    found = longest(log)
    runs = {net: runs for (net, of), runs in found.items() if of == "highway" and net in PAPER}
    if not runs:
        return f"{in_words(sorted({of for _, of in found}))} nets"
    gaps = [points(found[net, "plain"]).mean() - points(runs[net]).mean() for net in runs if (net, "plain") in found]
    numbers = in_words([f"{gap:+.2f}".replace("-", "−") for gap in gaps])
    beside = f"; plain nets minus highway nets: {numbers} points" if gaps else ""
    return words[combine(map(judge_net, runs.values()))] + beside


def of_papers(net: str) -> str:
    return f" (paper: {PAPER[net].epochs})" if net in PAPER else ""


@part_each(height=3.3)
def draw_curves(figure: FigureBase, log: ConvTablesLog) -> None:
    """Draw error by epoch, a panel for each net and budget: on validation images, on test images if there are none."""
    set_title(figure, f"{name_data(log.dataset.name)}: how the nets got there")
    panels = list(dict.fromkeys((net, epochs) for net, epochs, _ in rows(log)))
    grid = figure.subplots(ncols=len(panels), sharey=True, squeeze=False)[0]
    for axes, (net, epochs) in zip(grid, panels, strict=True):
        arms = {of: runs for (*panel, of), runs in rows(log).items() if panel == [net, epochs]}
        colors = {of: COLORS.get(of, SETTINGS[2]) for of in arms}
        lines = {of.removeprefix("highway, "): ({"color": colors[of]}, runs) for of, runs in arms.items()}
        draw_epochs(axes, "validation_score", lines)
        on = "validation" if all(run.config.n_validation for runs in arms.values() for run in runs) else "test"
        axes.set_xticks([1, epochs // 2, epochs])
        axes.set(xlim=(1, epochs), title=f"{name_net(net)}\n{on} error (%)")
    label_ends(*grid)


def finals_table(*logs: ConvTablesLog) -> str:
    """Tabulate the mean test accuracy of the paper's nets and of plain ones in the longest budget."""
    cells = []
    for log in by_dataset(logs):
        by_net = longest(log)
        for net in dict.fromkeys(net for net, _ in by_net if net in PAPER):
            both = [by_net[net, of] for of in ("highway", "plain")]
            seeds = " and ".join(dict.fromkeys(str(len(runs)) for runs in both))
            scores = [f"{points(runs).mean():.2f}" for runs in both]
            name = f"{name_data(log.dataset.name)}: {name_net(net)}"
            cells.append([name, str(both[0][0].config.epochs), seeds, *scores, f"{PAPER[net].mean:.2f}"])
    header = ["net", "epochs", "seeds", "highway (%)", "plain (%)", "the paper's highway (%)"]
    return f"{markdown(header, cells)}\n\nMean test accuracy."


def main_table(*logs: ConvTablesLog) -> str:
    cells, logs = [], by_dataset(logs)
    for log in logs:
        cells += [row_cells(rows(log), *row) for row in rows(log)]
        quoted = QUOTED.get(log.dataset.name, {})
        cells += [[net, "quoted by the paper", n_params, *[""] * 6, score] for net, (n_params, score) in quoted.items()]
    header = ["net", "blocks", "parameters", "epochs", "seeds", "validation accuracy (%)", "test accuracy (%)"]
    header += ["± images", "minus plain", "paper's accuracy (%)"]
    return (
        f"{markdown(header, cells)}\n\n±: 95 % interval over seeds; ± images: that of a mean for another sample of as "
        "many test images. Minus plain: points, over seeds that both have. Tested on: "
        f"{'; '.join(name_tested(log.dataset) for log in logs)}."
    )


def row_cells(arms: Mapping[tuple[str, int, str], Runs], net: str, epochs: int, of: str) -> list[str]:
    """Return a row of the main table; a highway net beside the plain net of its budget and beside the paper's."""
    runs, plain, gain, paper = arms[net, epochs, of], arms.get((net, epochs, "plain")), "", ""
    if of == "highway":
        gain = str(interval(gains(runs, plain))) if plain else ""
        paper = PAPER[net].accuracy if net in PAPER else ""
    validation = final_of_finished(runs, "validation_score", percent=True) if runs[0].config.n_validation else "none"
    test = final_of_finished(runs, "test_score", percent=True)
    cells = [name_net(net), of, f"{runs[0].n_params:,}", str(epochs), str(len(runs)), validation, test]
    return [*cells, f"{NORMAL * images_error(runs):.2f}", gain, paper]


def choosing_table(*logs: ConvTablesLog) -> str:
    cells = []
    for log in logs:
        tried = dict.fromkeys(name for run in log.choosing for name in differences(run.config))
        for run in log.choosing:
            values = ", ".join(f"{name} {getattr(run.config, name)}" for name in tried)
            score = final_of_finished([run], "validation_score", percent=True)
            chosen = configure(run.config.net, **log.chosen[run.config.block])
            yes = "yes" * (differences(run.config) == differences(chosen))
            cells.append([name_net(run.config.net), run.config.block, values, str(run.config.epochs), score, yes])
    header = ["net", "blocks", "tried", "epochs", "validation accuracy (%)", "chosen"]
    return (
        f"{markdown(header, cells)}\n\nOne run each. Dropout: times the recipe's. On a tie the first is chosen. "
        "Nets of one log share the choice."
    )


BUDGET = ("block", "epochs", "seed", "n_train", "n_validation", "n_test")


def differences(config: ConvConfig) -> dict[str, Any]:
    """Return the fields in which a config differs from the recipe of its net, but for the block and the budget."""
    recipe = asdict(configure(config.net))
    return {name: value for name, value in asdict(config).items() if value != recipe[name] and name not in BUDGET}


def costs_table(*logs: ConvTablesLog) -> str:
    cells = [
        [*paper[1:3], f"{cost.n_params:,}", f"{cost.seconds_a_step:.2f}", f"{days(cost):.0f}", paper.accuracy]
        for log in logs
        for cost, paper in untrained(log)
    ]
    if not cells:
        return "No other net was timed."
    header = ["net", "paper's parameters", "parameters", "seconds a step", "days a run", "paper's accuracy (%)"]
    note = f"The median of a few steps, batch of 100; a run of {STEPS:,} steps on one core."
    return f"{markdown(header, cells)}\n\n{note}"


def untrained(log: ConvTablesLog) -> list[tuple[Cost, Reported]]:
    """Return the costs of the paper's nets that were only timed, and the paper's numbers."""
    return [(cost, PAPER[cost.net]) for cost in log.costs if cost.net in PAPER]


def days(cost: Cost) -> float:
    return STEPS * cost.seconds_a_step / (24 * 60 * 60)


def longest(log: ConvTablesLog) -> dict[tuple[str, str], Runs]:
    """Return, by net and kind, the runs of most epochs."""
    return {(net, of): runs for (net, _, of), runs in rows(log).items()}  # epochs rise


def claims(*logs: ConvTablesLog) -> list[Claim]:
    """Judge each net of the paper that was trained, and plain nets of its layers; name what was not tested."""
    (log,) = by_dataset(logs)
    by_net = longest(log)
    nets = [net for net, of in by_net if of == "highway" and net in PAPER]
    found = []
    for net in nets:
        runs = by_net[net, "highway"]
        found.append(net_claim(log, runs, by_net[net, "plain"], before=runs[0] not in logs[0].runs))
    if "highway-a" in nets:
        found.append(depth_claim(by_net["highway-a", "plain"]))
    if "mnist-16" in nets:
        found.append(quoted_claim(by_net))
    if (SHALLOW, "maxout") in by_net:
        found.append(maxout_claim(by_net))
    costs = {cost.net: days(cost) for cost, _ in untrained(log)}
    for net, cost in costs.items():
        paper = PAPER[net]
        found.append(not_tested(paper.section, f"{paper.net}: {paper.mean:.2f} %", "A run", cost))
    if "highway-b" in costs:
        reported = "19 layers: 92.31 % on CIFAR-10, 67.61 % on CIFAR-100"
        what = "The net has the layers of Highway B, of which a run"
        found.append(not_tested("3.3, table 3", reported, what, costs["highway-b"]))
    return found


def not_tested(section: str, paper: str, what: str, days: float) -> Claim:
    why = f"{what} would take {days:.0f} days on one core."
    return Claim(section, paper, Verdict.NOT_TESTED, why, f"{days:.0f} days a run", detail=True)


def judge_net(runs: Runs, level: float | None = None) -> Verdict:
    """Judge whether a net is as good as the paper's, or as a level; fewer epochs than the paper's cannot refute it."""
    paper = PAPER[runs[0].config.net]
    verdict = judge_as_good(lead(runs, paper.mean if level is None else level), paper.margin)
    shorter = runs[0].config.epochs < int(paper.epochs.strip("~"))
    return Verdict.INCONCLUSIVE if verdict == Verdict.NOT_REPRODUCED and shorter else verdict


def net_claim(log: ConvTablesLog, runs: Runs, plain: Runs, before: bool) -> Claim:
    """Judge a net of the paper; beside it stands the plain net of its layers, in its budget."""
    epochs, shared = runs[0].config.epochs, plain[0].config.epochs
    paper, verdict = PAPER[runs[0].config.net], judge_net(runs)
    beside = f"plain net: {score(plain)}"
    if len(plain) != len(runs):
        beside += f", {count_of(len(plain), 'seed')}"
    if shared != epochs:
        beside = f"after {shared} epochs: {score(rows(log)[runs[0].config.net, shared, 'highway'])}, {beside}"
    reported = f"{paper.net}: {paper.mean:.2f} % on {name_data(log.dataset.name)}"
    judged = {
        Verdict.REPRODUCED: ", as good as the paper's",
        Verdict.NOT_REPRODUCED: ", short of the paper's",
        Verdict.INCONCLUSIVE: "; whether they are as good as the paper's remains open",
    }
    why = f"Our nets reach {points(runs).mean():.2f} % after {epochs} epochs{judged[verdict]}."
    why += f" Without gates, nets of the same layers reach {points(plain).mean():.2f} %."
    measured = f"{score(runs)} in {epochs} of {paper.epochs} epochs, {count_of(len(runs), 'seed')}; {beside}"
    return Claim(paper.section, reported, verdict, why, measured, detail=paper is PAPER["mnist-32"], before=before)


def depth_claim(plain: Runs) -> Claim:
    """Show what a plain net of 11 layers reaches: no test of what Romero et al. found for maxout nets."""
    paper = "plain maxout nets of 250 K parameters train only up to 5 layers"
    net = f"11 layers of ReLU (not maxout), {plain[0].n_params / 1000:.0f} K parameters"
    why = f"We trained no maxout nets on CIFAR-10. Plain ReLU nets of 11 layers reach {points(plain).mean():.2f} %."
    measured = f"{net}, reach {score(plain)}, {count_of(len(plain), 'seed')}; chance: 10 %"
    return Claim("3.3.1", paper, Verdict.NOT_TESTED, why, measured, detail=True)


def quoted_claim(by_net: Mapping[tuple[str, str], Runs]) -> Claim:
    """Judge whether highway nets are as good as the maxout net that the paper quotes."""
    n_params, accuracy = QUOTED["mnist"]["Maxout"]
    nets = {net: runs for (net, of), runs in by_net.items() if of == "highway" and net in PAPER}
    verdicts = {PAPER[net].net: judge_net(runs, float(accuracy)) for net, runs in nets.items()}
    plain, found = max(points(by_net[net, "plain"]).mean() for net in nets), holds(verdicts, "for {}")
    reached = in_words(
        [f"{points(runs).mean():.2f} % in {runs[0].config.epochs} of {PAPER[net].epochs}" for net, runs in nets.items()]
    )
    why = (
        f"Compared with the maxout net that the paper quotes ({n_params} parameters, {accuracy} %): "
        f"{found[0].lower()}{found[1:]} They reach {reached} epochs. It says little of what layers do, as "
        f"plain nets of the same layers reach {plain:.2f} %. This is of MNIST alone."
    )
    measured = "; ".join(f"{PAPER[net].net}: {score(runs)}" for net, runs in nets.items())
    paper = "deep and narrow highway nets match wide and shallow maxout nets"
    return Claim("5", paper, combine(verdicts.values()), why, measured, detail=True)


def maxout_claim(by_net: Mapping[tuple[str, str], Runs]) -> Claim:
    """Judge whether a deep and narrow highway net is as good as a shallow maxout net with no more parameters."""
    highway, shallow = by_net["mnist-16", "highway"], by_net[SHALLOW, "maxout"]
    ended = [run for run in shallow if not run.diverged]
    verdict = of_learners(judge_as_good(difference(points(highway), points(shallow)), TABLE_1_MARGIN), bool(ended))
    why = f"Highway nets of 10 layers and 16 maps reach {points(highway).mean():.2f} %"
    if ended:
        why += f", maxout nets of 5 layers and 25 maps {points(ended).mean():.2f} %"
    why += "."
    if len(ended) < len(shallow):
        why += f" Of {len(shallow)} maxout nets {len(shallow) - len(ended)} diverged (counted as {CHANCE:.0%})."
    measured = f"{score(highway)}; shallow maxout: {score(shallow)}"
    paper = "highway nets of 10 layers match shallow maxout nets of as many parameters"
    return Claim(OURS, paper, verdict, why, measured, detail=True, before=True)


def score(runs: Runs) -> str:
    """Return the mean test accuracy in %, with what makes it uncertain: seeds, and images where `lead` counts them."""
    found, n = interval(points(runs)), runs[0].config.n_test
    diverged, notes = sum(run.diverged for run in runs), []
    if len(runs) > 1:
        notes.append(f"± {found.half:.2f} between seeds")
    if n < TEST_IMAGES:
        notes.append(f"± {NORMAL * images_error(runs):.1f} because only {n:,} test images are at hand")
    elif len(runs) == 1:
        notes.append(f"± {NORMAL * images_error(runs):.2f} because of the choice of test images")
    if diverged:
        notes.append(f"{diverged} diverged")
    return f"{found.value:.2f} % ({', '.join(notes)})"


FIGURES = {
    "conv_tables.png": lambda *logs: draw_finals(*by_dataset(logs)),
    "conv_curves.png": lambda *logs: draw_curves(*by_dataset(logs)),
}
TABLES = {
    "conv_finals": finals_table,
    "conv_tables": main_table,
    "conv_choosing": choosing_table,
    "conv_costs": costs_table,
}
