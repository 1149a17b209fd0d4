"""Pictures, tables and claims of tables 1 and 2: what the nets reach here in a part of the paper's budget."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from conv_recipes import ConvConfig, configure
from highway_lab.console import final, name_data, name_tested
from highway_lab.figures import COLORS, draw_level, label_ends, markdown, pale, part_each, set_title
from highway_lab.logs import Run

from .claims import Claim
from .common import final_values, group_by
from .common_figures import FIELDS, Runs, draw_epochs
from .conv_tables import ConvTablesLog, Cost

DAY = 24 * 60 * 60  # seconds
ENOUGH = 2  # standard errors of the images: a smaller shortfall is stated, not judged


class Reported(NamedTuple):
    """The paper's numbers of a net; accuracies in %, the mean of its runs where it gives one.

    Epochs and steps are those of the authors' released files. Table 2 has no such file, so table 3's is taken.
    """

    table: str
    net: str
    parameters: str
    accuracy: str
    mean: float
    epochs: str
    steps: int


class FitNet(NamedTuple):
    """A net of Romero et al., taught by hints, as the paper quotes it; accuracy in %."""

    name: str
    parameters: str
    accuracy: str


TABLE_1, TABLE_2 = (("300", 180_000), ("about 400", 200_000))  # epochs, steps
PAPER = {
    "mnist-16": Reported(
        "3.2, table 1", "convolutional, 10 layers, 16 maps", "39 K", "99.43 (99.4 ± 0.03)", 99.4, *TABLE_1
    ),
    "mnist-32": Reported(
        "3.2, table 1", "convolutional, 10 layers, 32 maps", "151 K", "99.55 (99.54 ± 0.02)", 99.54, *TABLE_1
    ),
    "highway-a": Reported("3.3, table 2", "Highway A, 11 layers", "236 K", "89.18", 89.18, *TABLE_2),
    "highway-b": Reported("3.3, table 2", "Highway B, 19 layers", "2.3 M", "92.46 (92.28 ± 0.16)", 92.28, *TABLE_2),
    "highway-c": Reported("3.3, table 2", "Highway C, 32 layers", "1.25 M", "91.20", 91.2, *TABLE_2),
}
FITNETS = {"highway-a": FitNet("FitNet A", "250 K", "89.01"), "highway-b": FitNet("FitNet B", "2.5 M", "91.61")}


def rows(log: ConvTablesLog) -> list[Runs]:
    """Return the table's runs by row: by net, the recipe first, then the shortest, then highway."""

    def key(run: Run[ConvConfig]) -> tuple[str, bool, int, str]:
        config = run.config
        return config.net, not is_augmented(config), config.epochs, config.block

    return list(group_by(log.runs, key).values())


def is_augmented(config: ConvConfig) -> bool:
    """Return whether a net's images are augmented as its recipe has it."""
    return config.augment == configure(config.net).augment


def kind(config: ConvConfig) -> str:
    """Return the name of a row beside its net."""
    return config.block + ("" if is_augmented(config) else ", no augmentation")


def label(config: ConvConfig, first: ConvConfig) -> str:
    """Return the name of a row; it states epochs if they are not those of its net's first row."""
    return kind(config) + f", {config.epochs} epochs" * (config.epochs != first.epochs)


def n_seeds(runs: Runs) -> str:
    """Return the number of seeds in words."""
    return f"{len(runs)} seed{'s' * (len(runs) > 1)}"


def accuracy(runs: Runs) -> float:
    """Return the mean test accuracy in per cent; NaN if a run diverged."""
    return 100 * float(np.mean(final_values(runs, "test_score")))


def images_error(runs: Runs) -> float:
    """Return the binomial standard error of the mean test accuracy, in points, for another sample of images."""
    return (accuracy(runs) * (100 - accuracy(runs)) / runs[0].config.n_test) ** 0.5


# --------------------------------------------------------------------------------------------- pictures


@part_each(height=4.2)
def curves_figure(figure: FigureBase, log: ConvTablesLog) -> None:
    """Draw validation error by epoch, a panel a net; test error as dots, the paper's dashed."""
    nets = group_by(rows(log), lambda runs: runs[0].config.net)
    dots = f"dots: on {log.dataset.test_set}"
    set_title(figure, f"{name_data(log.dataset.name)}: {FIELDS['validation_score']}; {dots}")
    for axes, (net, arms) in zip(figure.subplots(ncols=len(nets), squeeze=False)[0], nets.items(), strict=True):
        first = arms[0][0].config
        lines = {label(runs[0].config, first): (line_style(runs[0].config, first), runs) for runs in arms}
        draw_epochs(axes, "validation_score", lines)
        draw_shorter(axes, log, first)
        axes.set_title(net + f"; paper: {PAPER[net].epochs} epochs" if net in PAPER else net)
        if net in PAPER:
            draw_level(axes, 100 - PAPER[net].mean, "paper (test)")
        for runs in arms:
            config = runs[0].config
            size = 8 if is_augmented(config) else 5  # dots that coincide are both seen
            style = line_style(config, first) | {"markersize": size, "clip_on": False, "zorder": 4}
            axes.plot(config.epochs, 100 - accuracy(runs), marker="o", **style)
        label_ends(axes)


def draw_shorter(axes: Axes, log: ConvTablesLog, config: ConvConfig) -> None:
    """Draw the chosen candidates of a net dotted, if they were compared in fewer epochs."""
    words = ""
    for run in log.choosing:
        if run.config.net == config.net and run.config.epochs < config.epochs and is_chosen(log, run):
            style = {"color": COLORS[run.config.block], "linestyle": (0, (1, 1))}
            draw_epochs(axes, "validation_score", {"_": (style, [run])})
            words = f"dotted: {run.config.epochs} epochs"
    axes.text(0.97, 0.92, words, transform=axes.transAxes, ha="right")


def line_style(config: ConvConfig, first: ConvConfig) -> dict[str, Any]:
    """Return the style of a row's line: broken if its epochs are not those of its net's first row."""
    color = pale(COLORS[config.block], 1.0 if is_augmented(config) else 0.5)
    return {"color": color, "linestyle": "-" if config.epochs == first.epochs else "-."}


# ---------------------------------------------------------------------------------------------- tables


def main_table(*logs: ConvTablesLog) -> str:
    """Tabulate the scores of each net beside the paper's."""
    header = ["net", "block", "parameters", "epochs", "seeds", "held-out accuracy (%)", "test accuracy (%)"]
    header += ["standard error of the images", "paper (%)", "paper's epochs"]
    cells = [row_cells(runs) for log in logs for runs in rows(log)]
    trained = {run.config.net for log in logs for run in log.runs}
    cells += [
        [fitnet.name, "taught by hints", fitnet.parameters, *[""] * 5, fitnet.accuracy, ""]
        for net, fitnet in FITNETS.items()
        if net in trained
    ]
    notes = [
        f"{name_tested(log.dataset)}: {log.dataset.n_train:,} training, {log.runs[0].config.n_validation:,} held-out "
        f"and {log.dataset.n_test:,} test images."
        for log in logs
    ]
    return (
        f"{markdown(header, cells)}\n\n{' '.join(notes)} Mean ± sample standard deviation over seeds; the standard "
        "error is the binomial one of the mean test accuracy, in points. Paper: best (mean ± standard deviation) of 5 "
        "runs where there are three numbers; it trains no plain nets here, and quotes the FitNets of Romero et al. Its "
        "epochs: of the authors' released files, where table 2 is taken to be trained as table 3. Held-out images are "
        "drawn by the seed."
    )


def row_cells(runs: Runs) -> list[str]:
    """Return a row of the main table."""
    config = runs[0].config
    scores = [final(runs, field, percent=True) for field in ("validation_score", "test_score")]
    paper = PAPER.get(config.net) if kind(config) == "highway" else None
    net = [config.net, kind(config), f"{runs[0].n_params:,}", str(config.epochs), str(len(runs))]
    return [*net, *scores, f"{images_error(runs):.2f}", *((paper.accuracy, paper.epochs) if paper else ("", ""))]


def choosing_table(*logs: ConvTablesLog) -> str:
    """Tabulate the candidates for what the recipe leaves open, one run each."""
    cells = []
    for log in logs:
        tried = dict.fromkeys(name for run in log.choosing for name in differences(run.config))
        for run in log.choosing:
            values = ", ".join(f"{name} {getattr(run.config, name)}" for name in tried)
            score, chosen = final([run], "validation_score", percent=True), "yes" if is_chosen(log, run) else ""
            cells.append([run.config.net, run.config.block, values, str(run.config.epochs), score, chosen])
    header = ["net", "block", "tried", "epochs", "held-out accuracy (%)", "chosen"]
    images = " and ".join(dict.fromkeys(f"{log.choosing[0].config.n_validation:,}" for log in logs))
    return (
        f"{markdown(header, cells)}\n\nOne run each, scored on {images} held-out training images. Dropout: a factor on "
        "the recipe's. Of equals the first is chosen, for all nets of the data set."
    )


BUDGET = ("block", "epochs", "seed", "n_train", "n_validation", "n_test")


def differences(config: ConvConfig) -> dict[str, Any]:
    """Return the fields in which a config differs from the recipe of its net, but for the block and the budget."""
    recipe = asdict(configure(config.net))
    return {name: value for name, value in asdict(config).items() if value != recipe[name] and name not in BUDGET}


def is_chosen(log: ConvTablesLog, run: Run[ConvConfig]) -> bool:
    """Return whether a run of `choosing` is that of the chosen candidate."""
    return differences(run.config) == differences(configure(run.config.net, **log.chosen[run.config.block]))


def costs_table(*logs: ConvTablesLog) -> str:
    """Tabulate the costs of nets that were not trained, beside FitNets, which the paper compares its nets with."""
    costs = [cost for log in logs for cost in log.costs]
    if not costs:
        return "No other net was timed."
    header = ["net", "parameters", "paper's", "seconds a step", "days a run", "paper (%)", "FitNet (%)"]
    return (
        f"{markdown(header, [cost_cells(cost) for cost in costs])}\n\nA training step on a batch of "
        f"{costs[0].batch_size}, the median of a few; a run of the paper's {TABLE_2[1]:,} steps, unscored, on one core."
    )


def days(cost: Cost) -> float:
    """Return the days that a run of the paper's budget would take here."""
    return PAPER[cost.net].steps * cost.seconds_a_step / DAY


def cost_cells(cost: Cost) -> list[str]:
    """Return a row of the table of costs; without the paper's numbers if the paper does not have the net."""
    n_params, seconds = f"{cost.n_params:,}", f"{cost.seconds_a_step:.3g}"
    if cost.net not in PAPER:
        return [cost.net, n_params, "", seconds, "", "", ""]
    paper, fitnet = PAPER[cost.net], FITNETS.get(cost.net)
    beside = f"{fitnet.accuracy} ({fitnet.name}, {fitnet.parameters})" if fitnet else ""
    return [paper.net, n_params, paper.parameters, seconds, f"{days(cost):.0f}", paper.accuracy, beside]


# ---------------------------------------------------------------------------------------------- claims


def claims(log: ConvTablesLog) -> list[Claim]:
    """Judge each net of the paper that was trained; name those that were only timed."""
    nets = group_by(rows(log), lambda runs: runs[0].config.net)
    found = [net_claim(log, *arms) for net, arms in nets.items() if net in PAPER]
    timed = [cost for cost in log.costs if cost.net in PAPER]
    if timed:
        reported = "; ".join(f"{PAPER[cost.net].net}: {PAPER[cost.net].mean:.2f} %" for cost in timed)
        here = f"days that a run would take on one core: {', '.join(f'{days(cost):.0f}' for cost in timed)}"
        found.append(Claim(PAPER[timed[0].net].table, reported, here, "not tested"))
    return found


def net_claim(log: ConvTablesLog, main: Runs, *others: Runs) -> Claim:
    """Judge a net by its largest budget; `main` is as the recipe has it, with gates, `others` are shown beside it."""
    config = main[0].config
    paper, fitnet = PAPER[config.net], FITNETS.get(config.net)
    beside = f" ({fitnet.name}, taught by hints: {fitnet.accuracy})" if fitnet else ""
    images = f"{name_tested(log.dataset)}, standard error {images_error(main):.2f}"
    found = f"{final(main, 'test_score', percent=True)} in {config.epochs} epochs, {n_seeds(main)} ({images})"
    shown = [
        f"{label(runs[0].config, config)} {final(runs, 'test_score', percent=True)} ({n_seeds(runs)})"
        for runs in others
    ]
    longest = [runs for runs in (main, *others) if kind(runs[0].config) == kind(config)][-1]  # the last in `rows`
    verdict = judge(longest, paper)
    if verdict == "held" and any(accuracy(runs) >= paper.mean for runs in others if runs[0].config.block == "plain"):
        verdict += "; plain nets, too"
    return Claim(
        paper.table,
        f"{paper.net}: {paper.mean:.2f} % on {name_data(log.dataset.name)}{beside}",
        f"{found}; {'; '.join(shown)}",
        verdict,
    )


def judge(runs: Runs, paper: Reported) -> str:
    """Return whether the mean test accuracy reaches the paper's, or by how much it falls short, if that is little."""
    shortfall = paper.mean - accuracy(runs)
    if shortfall <= 0:
        return "held"
    if shortfall <= ENOUGH * images_error(runs):
        return f"{shortfall:.2f} points short, {n_seeds(runs)}"
    return f"not in {runs[0].config.epochs} epochs, {n_seeds(runs)}"


FIGURES = {"conv_tables.png": curves_figure}
TABLES = {"conv_tables": main_table, "conv_choosing": choosing_table, "conv_costs": costs_table}
