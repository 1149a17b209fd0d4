"""Pictures, tables and claims of tables 1 and 2: what the nets reach here in a part of the paper's budget.

The rules of the verdicts were put in this form after the runs but those of --more-seeds and --long. A net reproduces
the paper's number if it is as good, in its longest budget: the 95 % interval of its lead over that number excludes a
loss of the margin. The interval is that over seeds; a single seed has that of its test images. Where our test images
are a part of the paper's, both count. A shorter budget than the paper's can reach its number, but not refute it: the
verdict is then inconclusive.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure, FigureBase

from conv_recipes import ConvConfig, configure
from highway_lab.console import count_of, final_of_finished, name_data, name_tested
from highway_lab.figures import COLORS, SETTINGS, draw_level, label_ends, part_each, set_title
from highway_lab.intervals import Interval, interval
from highway_lab.logs import RunRecord
from highway_lab.tables import markdown

from .claims import ACCURACY_MARGIN, Claim, Verdict, judge_as_good
from .common import group_by, points
from .common_figures import Runs, draw_epochs, gains, joined
from .conv_tables import ConvTablesLog, Cost

STEPS = 200_000  # of a run of table 2, taken from the authors' file of table 3's net
TEST_IMAGES = 10_000  # of MNIST and of CIFAR-10, in the paper
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
    return PAPER[net].net if net in PAPER else net


def by_dataset(logs: Sequence[ConvTablesLog]) -> list[ConvTablesLog]:
    """Return a log of each data set, with all its runs."""
    names = dict.fromkeys(log.dataset.name for log in logs)
    return [joined("runs", [log for log in logs if log.dataset.name == name]) for name in names]


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
    over_seeds, over_images = interval(points(runs)), 1.96 * images_error(runs)
    both = math.hypot(over_seeds.half, over_images * (runs[0].config.n_test < TEST_IMAGES))
    return Interval(over_seeds.value - level, over_images if len(runs) == 1 else both)


@part_each(height=3.5)
def draw_curves(figure: FigureBase, log: ConvTablesLog) -> None:
    """Draw validation error by epoch, a panel for each net and budget; right of it each seed's test error."""
    set_title(figure, f"{name_data(log.dataset.name)}: error (%) on validation images; dots: {log.dataset.test_set}")
    panels = list(dict.fromkeys((net, epochs) for net, epochs, _ in rows(log)))
    grid = figure.subplots(ncols=len(panels), sharey=True, squeeze=False)[0]
    for axes, (net, epochs) in zip(grid, panels, strict=True):
        arms = {of: runs for (*panel, of), runs in rows(log).items() if panel == [net, epochs]}
        colors = {of: COLORS.get(of, SETTINGS[2]) for of in arms}
        lines = {of.removeprefix("highway, "): ({"color": colors[of]}, runs) for of, runs in arms.items()}
        draw_epochs(axes, "validation_score", lines)
        tested = [(100 - score, colors[of]) for of, runs in arms.items() for score in points(runs)]
        places = epochs * (1.12 + 0.05 * np.arange(len(tested)))
        for place, (error, color) in zip(places, tested, strict=True):  # side by side: none hides another
            axes.plot(place, error, "o", color=color, markersize=4, clip_on=False, zorder=4)
        title = f"{name_net(net)}\n{epochs} epochs"
        if net in PAPER:
            draw_level(axes, 100 - PAPER[net].mean, "paper, test")
            title += f" (paper: {PAPER[net].epochs})"
        if not all(run.config.n_validation for runs in arms.values() for run in runs):
            title += "\ncurves: test images"
        axes.set_xticks([1, epochs // 2, epochs, places.mean()], ["1", f"{epochs // 2}\nepoch", epochs, "\ntest"])
        axes.set(xlim=(1, places[-1] + 0.06 * epochs), xlabel="", title=title)
    label_ends(*grid)


def curves_figure(*logs: ConvTablesLog) -> Figure:
    return draw_curves(*by_dataset(logs))


def main_table(*logs: ConvTablesLog) -> str:
    cells, logs = [], by_dataset(logs)
    for log in logs:
        cells += [row_cells(rows(log), *row) for row in rows(log)]
        quoted = QUOTED.get(log.dataset.name, {})
        cells += [[net, "quoted by the paper", n_params, *[""] * 6, score] for net, (n_params, score) in quoted.items()]
    header = ["net", "blocks", "parameters", "epochs", "seeds", "validation accuracy (%)", "test accuracy (%)", "SE"]
    header += ["minus plain", "paper's accuracy (%)"]
    return (
        f"{markdown(header, cells)}\n\n±: 95 % interval over seeds. SE: binomial, of the test images. Minus plain: "
        f"points, over seeds that both have. Tested on: {'; '.join(name_tested(log.dataset) for log in logs)}."
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
    return [*cells, f"{images_error(runs):.2f}", gain, paper]


def choosing_table(*logs: ConvTablesLog) -> str:
    cells = []
    for log in logs:
        tried = dict.fromkeys(name for run in log.choosing for name in differences(run.config))
        for run in log.choosing:
            values = ", ".join(f"{name} {getattr(run.config, name)}" for name in tried)
            score, chosen = (
                final_of_finished([run], "validation_score", percent=True),
                "yes" if is_chosen(log, run) else "",
            )
            cells.append([name_net(run.config.net), run.config.block, values, str(run.config.epochs), score, chosen])
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


def is_chosen(log: ConvTablesLog, run: RunRecord[ConvConfig]) -> bool:
    return differences(run.config) == differences(configure(run.config.net, **log.chosen[run.config.block]))


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


def claims(*logs: ConvTablesLog) -> list[Claim]:
    """Judge each net of the paper that was trained, and plain nets of its layers; name what was not tested."""
    (log,) = by_dataset(logs)
    longest = {(net, of): runs for (net, _, of), runs in rows(log).items()}  # epochs rise
    nets = [net for net, of in longest if of == "highway" and net in PAPER]
    found = [net_claim(log, longest[net, "highway"], longest[net, "plain"]) for net in nets]
    if "highway-a" in nets:
        found.append(depth_claim(longest["highway-a", "plain"]))
    costs = {cost.net: f"{days(cost):.0f} days a run on one core" for cost, _ in untrained(log)}
    for net, cost in costs.items():
        paper = PAPER[net]
        found.append(
            Claim(paper.section, f"{paper.net}: {paper.mean:.2f} %", Verdict.NOT_TESTED, "WHY", cost, detail=True)
        )
    if "highway-b" in costs:
        reported = "19 layers: 92.31 % on CIFAR-10, 67.61 % on CIFAR-100"
        why = f"{costs['highway-b']}: Highway B's layers"
        found.append(Claim("3.3, table 3", reported, Verdict.NOT_TESTED, "WHY", why, detail=True))
    return found


def net_claim(log: ConvTablesLog, runs: Runs, plain: Runs) -> Claim:
    """Judge whether a net is as good as the paper's; beside it stands the plain net of its layers, in its budget."""
    epochs, shared = runs[0].config.epochs, plain[0].config.epochs
    paper = PAPER[runs[0].config.net]
    verdict = judge_as_good(lead(runs, paper.mean), paper.margin)
    if verdict == Verdict.NOT_REPRODUCED and epochs < int(paper.epochs.strip("~")):
        verdict = Verdict.INCONCLUSIVE
    beside = f"plain net: {score(plain)}"
    if len(plain) != len(runs):
        beside += f", {count_of(len(plain), 'seed')}"
    if shared != epochs:
        beside = f"after {shared} epochs: {score(rows(log)[runs[0].config.net, shared, 'highway'])}, {beside}"
    reported = f"{paper.net}: {paper.mean:.2f} % on {name_data(log.dataset.name)}"
    why = f"{score(runs)} in {epochs} of {paper.epochs} epochs, {count_of(len(runs), 'seed')}; {beside}"
    return Claim(paper.section, reported, verdict, "WHY", why, detail=paper is PAPER["mnist-32"])


def depth_claim(plain: Runs) -> Claim:
    """Show what a plain net of 11 layers reaches: no test of what Romero et al. found for maxout nets."""
    paper = "plain maxout nets of 250 K parameters train only up to 5 layers"
    net = f"11 layers of ReLU (not maxout), {plain[0].n_params / 1000:.0f} K parameters"
    why = f"{net}, reach {score(plain)}, {count_of(len(plain), 'seed')}; chance: 10 %"
    return Claim("3.3.1", paper, Verdict.NOT_TESTED, "WHY", why, detail=True)


def score(runs: Runs) -> str:
    """Return the mean test accuracy in %, with the standard error of the images where `lead` counts it."""
    note = f" (SE {images_error(runs):.2f})" * (len(runs) == 1 or runs[0].config.n_test < TEST_IMAGES)
    diverged = sum(run.diverged for run in runs)
    return f"{interval(points(runs)):.2f} %{note}" + f" ({diverged} diverged)" * (diverged > 0)


FIGURES = {"conv_tables.png": curves_figure}
TABLES = {"conv_tables": main_table, "conv_choosing": choosing_table, "conv_costs": costs_table}
