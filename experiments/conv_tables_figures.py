"""Pictures, tables and claims of tables 1 and 2: what the nets reach here in a part of the paper's budget."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from conv_highway_networks import ConvConfig, configure
from highway_lab.console import final, name_data, name_tested
from highway_lab.figures import COLORS, draw_level, label_ends, markdown, pale, part_each, set_title
from highway_lab.logs import Run

from .claims import Claim
from .common import final_values, group_by
from .conv_figures import FIELDS, Runs, draw_epochs
from .conv_tables import ConvTablesLog, Cost

DAY = 24 * 60 * 60  # seconds
ENOUGH = 2  # standard errors of the images: a smaller shortfall is told, not judged


class Reported(NamedTuple):
    """What the paper says of a net; accuracies in %, the mean of its runs where it gives one.

    Epochs and steps are those of the authors' released files; of table 2 there is none, and table 3's is taken.
    """

    table: str
    net: str
    parameters: str
    accuracy: str
    mean: float
    epochs: str
    steps: int


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
FITNETS = {"highway-a": ("FitNet A", "250 K", "89.01"), "highway-b": ("FitNet B", "2.5 M", "91.61")}


def rows(log: ConvTablesLog) -> list[Runs]:
    """The table's runs, the seeds together: by net, first as the recipe has it and the shortest, first the highway."""

    def key(run: Run[ConvConfig]) -> tuple[str, bool, int, str]:
        config = run.config
        return config.net, config.augment != configure(config.net).augment, config.epochs, config.block

    return list(group_by(log.runs, key).values())


def kind(config: ConvConfig) -> str:
    """What a row is called beside its net."""
    return config.block + ", no augmentation" * (config.augment != configure(config.net).augment)


def label(config: ConvConfig, first: ConvConfig) -> str:
    """What a row is called where epochs are told only if they are not those of its net's first row."""
    return kind(config) + f", {config.epochs} epochs" * (config.epochs != first.epochs)


def n_seeds(runs: Runs) -> str:
    """How many seeds a row has, in words."""
    return f"{len(runs)} seed{'s' * (len(runs) > 1)}"


def images_error(runs: Runs) -> float:
    """The binomial standard error of the mean test accuracy, in points: what another sample of images would change."""
    accuracy = np.mean(final_values(runs, "test_score"))
    return 100 * float(np.sqrt(accuracy * (1 - accuracy) / runs[0].config.n_test))


# --------------------------------------------------------------------------------------------- pictures


@part_each(height=4.2)
def curves_figure(figure: FigureBase, log: ConvTablesLog) -> None:
    """Error on held-out images by epoch, a panel a net; dots, and dashed the paper's: error on test images."""
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
            tested = 100 - 100 * np.mean(final_values(runs, "test_score"))
            size = 8 if kind(runs[0].config) == runs[0].config.block else 5  # dots that coincide are both seen
            style = {"color": color(runs[0].config), "markersize": size, "clip_on": False, "zorder": 4}
            axes.plot(runs[0].config.epochs, tested, "o", **style)
        label_ends(axes)


def draw_shorter(axes: Axes, log: ConvTablesLog, config: ConvConfig) -> None:
    """The same setting with fewer epochs, dotted, if the candidates were compared in fewer."""
    chosen = [run for run in log.choosing if run.config.net == config.net and is_chosen(log, run)]
    shorter = [run for run in chosen if run.config.epochs < config.epochs]
    for run in shorter:
        style = {"color": COLORS[run.config.block], "linestyle": (0, (1, 1))}
        draw_epochs(axes, "validation_score", {"_": (style, [run])})
    for epochs in {run.config.epochs for run in shorter}:
        axes.text(0.97, 0.92, f"dotted: {epochs} epochs", transform=axes.transAxes, ha="right")


def line_style(config: ConvConfig, first: ConvConfig) -> dict[str, Any]:
    """How a row's line is drawn: broken where its epochs are not those of its net's first row."""
    return {"color": color(config), "linestyle": "-" if config.epochs == first.epochs else "-."}


def color(config: ConvConfig) -> str | tuple[float, ...]:
    """The colour of a row's line."""
    return COLORS[config.block] if kind(config) == config.block else pale(COLORS[config.block], 0.5)


# ---------------------------------------------------------------------------------------------- tables


def main_table(*logs: ConvTablesLog) -> str:
    """What each net reaches, beside the paper."""
    header = ["net", "block", "parameters", "epochs", "seeds", "held-out accuracy (%)", "test accuracy (%)"]
    header += ["standard error of the images", "paper (%)", "paper's epochs"]
    cells = [row_cells(runs) for log in logs for runs in rows(log)]
    trained = {run.config.net for log in logs for run in log.runs}
    for name, parameters, accuracy in (FITNETS[net] for net in FITNETS if net in trained):
        cells.append([name, "taught by hints", parameters, *[""] * 5, accuracy, ""])
    notes = [
        f"{name_tested(log.dataset)}: {log.dataset.n_train:,} training, "
        f"{log.runs[0].config.n_validation:,} held-out and {log.dataset.n_test:,} test images."
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
    """A line of the main table."""
    config = runs[0].config
    scores = [final(runs, field, percent=True) for field in ("validation_score", "test_score")]
    paper = PAPER.get(config.net) if kind(config) == "highway" else None
    net = [config.net, kind(config), f"{runs[0].n_params:,}", str(config.epochs), str(len(runs))]
    return [*net, *scores, f"{images_error(runs):.2f}", *((paper.accuracy, paper.epochs) if paper else ("", ""))]


def choosing_table(*logs: ConvTablesLog) -> str:
    """The candidates for what the recipe leaves open, each by one run."""
    cells = [
        [
            run.config.net,
            run.config.block,
            ", ".join(f"{name} {getattr(run.config, name)}" for name in tried(log)),
            str(run.config.epochs),
            final([run], "validation_score", percent=True),
            "yes" if is_chosen(log, run) else "",
        ]
        for log in logs
        for run in log.choosing
    ]
    header = ["net", "block", "tried", "epochs", "held-out accuracy (%)", "chosen"]
    images = " and ".join({f"{log.choosing[0].config.n_validation:,}": None for log in logs})
    return (
        f"{markdown(header, cells)}\n\nOne run each, scored on {images} held-out training images. Dropout: a factor on "
        "the recipe's. Of equals the first is chosen, for all nets of the data set."
    )


def tried(log: ConvTablesLog) -> list[str]:
    """The fields in which any of the candidates is not the recipe."""
    return list(dict.fromkeys(name for run in log.choosing for name in differences(run.config)))


BUDGET = ("block", "epochs", "seed", "n_train", "n_validation", "n_test")


def differences(config: ConvConfig) -> dict[str, Any]:
    """The fields in which a config is not the recipe of its net, but for the block and the budget."""
    usual = asdict(configure(config.net))
    return {name: value for name, value in asdict(config).items() if value != usual[name] and name not in BUDGET}


def is_chosen(log: ConvTablesLog, run: Run[ConvConfig]) -> bool:
    """Whether a run of `choosing` is that of the candidate that was chosen."""
    return differences(run.config) == differences(configure(run.config.net, **log.chosen[run.config.block]))


def costs_table(*logs: ConvTablesLog) -> str:
    """What the nets that were not trained would cost, beside FitNets, which the paper compares its nets with."""
    costs = [cost for log in logs for cost in log.costs]
    if not costs:
        return "No other net was timed."
    header = ["net", "parameters", "paper's", "seconds a step", "days a run", "paper (%)", "FitNet (%)"]
    return (
        f"{markdown(header, [cost_cells(cost) for cost in costs])}\n\nA training step on a batch of "
        f"{costs[0].batch_size}, the median of a few; a run of the paper's {TABLE_2[1]:,} steps, unscored, on one core."
    )


def days(cost: Cost) -> float:
    """What a run of the paper's budget would take here."""
    return PAPER[cost.net].steps * cost.seconds_a_step / DAY


def cost_cells(cost: Cost) -> list[str]:
    """A line of the table of costs; without the paper's numbers for a net that is not in it."""
    own = [f"{cost.n_params:,}", f"{cost.seconds_a_step:.3g}"]
    if cost.net not in PAPER:
        return [cost.net, own[0], "", own[1], "", "", ""]
    paper = PAPER[cost.net]
    name, parameters, accuracy = FITNETS.get(cost.net, ("", "", ""))
    fitnet = f"{accuracy} ({name}, {parameters})" if name else ""
    return [paper.net, own[0], paper.parameters, own[1], f"{days(cost):.0f}", paper.accuracy, fitnet]


# ---------------------------------------------------------------------------------------------- claims


def claims(log: ConvTablesLog) -> list[Claim]:
    """A row for each net of the paper that was trained, and one for those that were only timed."""
    nets = group_by(rows(log), lambda runs: runs[0].config.net)
    found = [net_claim(log, *arms) for net, arms in nets.items() if net in PAPER]
    timed = {cost.net: cost for cost in log.costs if cost.net in PAPER}
    if timed:
        reported = "; ".join(f"{PAPER[net].net}: {PAPER[net].mean:.2f} %" for net in timed)
        here = f"days that a run would take on one core: {', '.join(f'{days(cost):.0f}' for cost in timed.values())}"
        found.append(Claim(PAPER[next(iter(timed))].table, reported, here, "not tested"))
    return found


def net_claim(log: ConvTablesLog, main: Runs, *others: Runs) -> Claim:
    """What a net reached beside what the paper says of it; `main` is as the recipe has it, with gates.

    Judged by the largest budget of such nets.
    """
    config, paper = main[0].config, PAPER[main[0].config.net]
    fitnet, _, accuracy = FITNETS.get(config.net, ("", "", ""))
    beside = f" ({fitnet}, taught by hints: {accuracy})" * bool(fitnet)
    found = f"{final(main, 'test_score', percent=True)} in {config.epochs} epochs, {n_seeds(main)}"
    images = f"{name_tested(log.dataset)}, standard error {images_error(main):.2f}"
    longest = [runs for runs in (main, *others) if kind(runs[0].config) == kind(config)][-1]  # the last in `rows`
    beside_it = "; ".join(
        f"{label(runs[0].config, config)} {final(runs, 'test_score', percent=True)} ({n_seeds(runs)})"
        for runs in others
    )
    judged = verdict(longest, paper)
    if judged == "held" and any(reaches(runs, paper) for runs in others if runs[0].config.block == "plain"):
        judged += "; plain nets, too"
    return Claim(
        paper.table,
        f"{paper.net}: {paper.mean:.2f} % on {name_data(log.dataset.name)}{beside}",
        f"{found} ({images}); {beside_it}",
        judged,
    )


def verdict(runs: Runs, paper: Reported) -> str:
    """Whether the mean reaches the paper's; by how much it falls short, if that is little."""
    if reaches(runs, paper):
        return "held"
    if shortfall(runs, paper) <= ENOUGH * images_error(runs):
        return f"{shortfall(runs, paper):.2f} points short, {n_seeds(runs)}"
    return f"not in {runs[0].config.epochs} epochs, {n_seeds(runs)}"


def reaches(runs: Runs, paper: Reported) -> bool:
    """Whether the mean test accuracy is at least the paper's."""
    return shortfall(runs, paper) <= 0


def shortfall(runs: Runs, paper: Reported) -> float:
    """What the mean test accuracy lacks of the paper's, in points; NaN if a run diverged."""
    return paper.mean - 100 * float(np.mean(final_values(runs, "test_score")))


FIGURES = {"conv_tables.png": curves_figure}
TABLES = {"conv_tables": main_table, "conv_choosing": choosing_table, "conv_costs": costs_table}
