"""Draw the run logs: run.json and run_sweep.json -> viz/*.png.

    python visualize_highway_networks.py               every run*.json here
    python visualize_highway_networks.py LOG.json ...  these

In a program: `plot(read_log("run.json"), "T_gate_bars").savefig("gates.pdf")`.

Pictures of run.json and run_sweep.json go to viz/, those of any other log to a folder of its own there.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("visualize_highway_networks")

import argparse
import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from conv_recipes import ConvConfig
from highway_lab.cli import FORMATS, OneLineParser, add_picture_flags, picture_flags, quote, run_cli
from highway_lab.console import count_of, name_tested
from highway_lab.datasets import DATASETS
from highway_lab.figures import (
    COLORS,
    INK,
    draw_level,
    draw_seeds,
    label_ends,
    new_figure,
    number_layers,
    own_style,
    picture_folder,
    save_all,
    set_title,
)
from highway_lab.files import as_path, in_order, read_bytes
from highway_lab.logs import RunLog, RunRecord, grouped, kinds_of, read, varied_in
from highway_networks import Config, InputError

__all__ = ["draw", "main", "plot", "read_log"]

MOST_PANELS = 8
LONG_LABEL = 24  # letters; two panels of one set of labels have longer ones beside the last panel only


# ---------------------------------------------------------------------------------- from logs to arrays


def depths_of(log: RunLog) -> list[int]:
    return sorted({run.config.depth for run in log.runs})


def curves(runs: list[RunRecord], field: str) -> np.ndarray:
    """Return a field of the histories, (seeds, epochs + 1), NaN from where a run diverged."""
    columns = zip_longest(*(getattr(run.history, field) for run in runs), fillvalue=np.nan)
    return drawable(np.array([*columns], float).T, field)


def finals(runs: list[RunRecord], field: str, depths: list[int]) -> np.ndarray:
    """Return the last value of a field, (seeds, depths), NaN where a run diverged or is missing."""
    there = {(run.config.seed, run.config.depth): run for run in runs if not run.diverged}
    last = {place: getattr(run.history, field)[-1] for place, run in there.items()}
    seeds = sorted({run.config.seed for run in runs})
    return drawable(np.array([[last.get((seed, depth)) for depth in depths] for seed in seeds], float), field)


def drawable(values: np.ndarray, field: str) -> np.ndarray:
    """Clip values to bounds that axes can take: they overflow long before a loss does. A score ends at ±1."""
    bound = 1 if field.endswith("score") else 1e30
    return np.clip(values, -bound, bound)


def scored_on(log: RunLog) -> tuple[str, str]:
    """Name the images, beside the training images, that are scored after every epoch, and the field of these scores."""
    return ("validation", "validation_score") if log.runs[0].config.n_validation else ("test", "test_score")


def runs_with_gates(log: RunLog) -> list[RunRecord]:
    """Return the runs with gates that are finite to the end."""
    return [run for run in log.runs if run.gate_means and not run.diverged]


def kinds_with_gates(log: RunLog) -> dict[str, RunLog]:
    """Return the log with the runs of one kind of net, for each kind whose gates can be shown."""
    there = {run.config for run in runs_with_gates(log)}
    shown = {kind: [of for of in runs if of.config in there] for kind, runs in kinds_of(log.runs).items()}
    return {kind: dataclasses.replace(log, runs=runs) for kind, runs in shown.items() if runs}


def gate_means(log: RunLog) -> np.ndarray:
    """Return the mean T of each block after each epoch, (seeds, epochs + 1, L), of a log with one kind that has T."""
    return np.array([run.gate_means for run in runs_with_gates(log)])


# -------------------------------------------------------------------------- one function a figure or panel


def describe(log: RunLog, runs: list[RunRecord]) -> str:
    """Return data set, size and seeds of the runs in a picture, for its title."""
    kind = runs[0].config.SIZE
    sizes, seeds = ({getattr(run.config, name) for run in runs} for name in (kind, "seed"))
    (size, *others) = sizes
    of_size = "" if others else ", " + (count_of(size, "block") if kind == "depth" else f"{kind} {size}")
    of_seeds = f"seed {min(seeds)}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{name_tested(log.dataset)}{of_size}, {of_seeds}"


def reached(runs: list[RunRecord], field: str, digits: int = 0) -> str:
    """Return in words the mean of the last scores, or losses, of each kind of net, and how many runs diverged.

    If hyperparameters vary, it is the least and the largest mean.
    """
    words, means = [], {}
    for kind, of_kind in kinds_of(runs).items():
        last = [getattr(run.history, field)[-1] for run in of_kind if not run.diverged]
        if known := [value for value in last if value is not None]:  # test images may be scored at a run's end only
            mean = np.mean(known)
            is_accuracy = field.endswith("score") and of_kind[0].metric == "accuracy"
            number = f"{100 * mean:.{digits}f} %" if is_accuracy else f"{mean:.2g}"
            words.append(f"{name_line(kind, of_kind)} {number}")
            means[kind] = mean, f"{number} ({kind})"
        else:
            words.append(f"{kind} {'none' if last else 'diverged'}")
    if means and any(varied_in(of_block) for of_block in grouped(runs, attrgetter("config.block")).values()):
        words = [" to ".join(words for _, words in (min(means.values()), max(means.values())))]
    return ", ".join(words)


def name_line(kind: str, runs: list[RunRecord]) -> str:
    """Return the kind of net, and the number of its runs that diverged if any did."""
    diverged = sum(run.diverged for run in runs)
    return f"{kind} ({diverged} of {len(runs)} diverged)" if diverged else kind


def draw_history(axes: Axes, log: RunLog, field: str) -> None:
    """Draw a field of the histories against epoch, in a colour for each kind of net."""
    for kind, runs in kinds_of(log.runs).items():
        values = curves(runs, field)
        draw_seeds(axes, np.arange(values.shape[1]), values, color=COLORS[kind], label=name_line(kind, runs))
    axes.margins(x=0)
    number_epochs(axes)


def number_epochs(axes: Axes) -> None:
    """Label the x-axis with epochs, at a few whole numbers."""
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))


def loss_unit(log: RunLog) -> str:
    """Return the unit of the cross-entropy, or the name of a loss that a user has added."""
    loss = log.runs[0].config.loss
    return "nats" if loss == "cross-entropy" else loss


def mark_guessing(axes: Axes, log: RunLog, field: str) -> None:
    """Draw the accuracy of guessing, or the cross-entropy of calling all classes equally likely, and set the range.

    Another score or loss, which a user has added, is left as it is: what guessing would give is not known.
    """
    classes = DATASETS.get(log.dataset.name) or len(log.dataset.classes)
    if field.endswith("score") and log.runs[0].metric == "accuracy":
        draw_level(axes, 1 / classes, "chance")
        axes.set_ylim(0, 1)
    elif field.endswith("loss") and loss_unit(log) == "nats":
        draw_level(axes, np.log(classes), f"guessing, {np.log(classes):.3f}")
        axes.set_ylim(bottom=0)


def learning_curves(log: RunLog) -> np.ndarray:
    """Draw the score on training and on other images against epoch; return the two axes."""
    scored = scored_on(log)
    title = f"{describe(log, log.runs)}: {log.runs[0].metric} {reached(log.runs, scored[1])}"
    _, panels = new_figure(title, 3.6, ncols=2, sharey=True)
    for axes, (images, field) in zip(panels, (("training", "train_score"), scored), strict=True):
        draw_history(axes, log, field)
        mark_guessing(axes, log, field)
        axes.set_title(f"{images} images")
    longest = max(len(line.get_label()) for line in panels[0].lines)
    label_ends(*(panels[1:] if longest > LONG_LABEL else panels))
    return panels


def training_loss(log: RunLog) -> Axes:
    """Draw training loss against epoch, beside the loss of calling all classes equally likely."""
    _, axes = new_figure(f"{describe(log, log.runs)}: training loss {reached(log.runs, 'train_loss')}", 3.8)
    draw_history(axes, log, "train_loss")
    mark_guessing(axes, log, "train_loss")
    axes.set_ylabel(f"mean {'cross-entropy' if loss_unit(log) == 'nats' else 'loss'} ({loss_unit(log)})")
    label_ends(axes)
    return axes


def depth_sweep(log: RunLog) -> np.ndarray:
    """Draw the final test score and training loss against depth; return the two axes."""
    depths = depths_of(log)
    deepest, metric = [run for run in log.runs if run.config.depth == depths[-1]], log.runs[0].metric
    title = f"{describe(log, log.runs)}, {count_of(depths[-1], 'block')}: {metric} {reached(deepest, 'test_score')}"
    _, panels = new_figure(title, 3.8, ncols=2)
    columns = {"test_score": f"test {metric}", "train_loss": f"training loss ({loss_unit(log)})"}
    for axes, (field, title) in zip(panels, columns.items(), strict=True):
        for kind, runs in kinds_of(log.runs).items():
            values = finals(runs, field, depths)
            draw_seeds(axes, np.array(depths), values, color=COLORS[kind], label=name_line(kind, runs), marker="o")
        axes.set(xlabel="blocks", xticks=depths, xlim=(0, max(depths[-1], 1)))
        axes.set_title(title)
        mark_guessing(axes, log, field)
    label_ends(*panels)
    return panels


def T_gate_evolution(log: RunLog) -> Axes:
    """Draw what training changes: the mean T of each block (row) by epoch (column); white: as in the untrained net."""
    means = gate_means(log).mean(axis=0)
    depth, opened = means.shape[1], int(np.count_nonzero(means[-1] > means[0]))
    words = f"Training opens {count_of(opened, 'block')} (red) and closes {depth - opened} (blue)"
    _, axes = new_figure(f"{words}: {describe(log, runs_with_gates(log))}", 4.6)
    draw_maps([axes], [means.T], means[0].mean(), first=0)
    axes.set_ylabel("block, front to back")
    number_epochs(axes)
    number_layers(axes.yaxis, depth)
    return axes


def draw_maps(panels: Sequence[Axes], maps: Sequence[np.ndarray], untrained: float, first: int = 1) -> None:
    """Draw mean gates (rows, columns), white where they are as before training; columns count from `first`."""
    lowest, highest = min(0, *(of.min() for of in maps)), max(of.max() for of in maps)
    norm = CenteredNorm(untrained, max(highest - untrained, untrained - lowest))
    for axes, values in zip(panels, maps, strict=True):
        left, (rows, columns) = first - 0.5, values.shape
        extent = (left, left + columns, rows + 0.5, 0.5)
        cells = axes.imshow(values, aspect="auto", extent=extent, cmap="RdBu_r", norm=norm)
    scale = axes.figure.colorbar(cells, ax=panels, label=f"mean T (white: untrained, {untrained:.2g})", pad=0.02)
    scale.ax.set_ylim(lowest, highest)


def draw_gates(axes: Axes, log: RunLog, epoch: int) -> BarContainer:
    """Draw a bar for the mean T of each block after an epoch, a line: before training."""
    seeds = gate_means(log)
    means, depth = seeds.mean(axis=0), seeds.shape[2]
    bars = axes.bar(np.arange(1, depth + 1), means[epoch], color=COLORS[runs_with_gates(log)[0].config.block])
    edges = np.arange(depth + 1) + 0.5
    axes.step(edges, [*means[0], means[0, -1]], where="post", color=INK, linewidth=1, label="untrained")
    axes.set(xlabel="block, front to back", ylabel="mean T (0: closed, 1: open)", xlim=edges[[0, -1]])
    axes.set_ylim(min(0, 1.05 * seeds.min()), max(0, 1.3 * seeds.max()) or 1)  # in which bars are seen
    axes.yaxis.set_major_locator(MaxNLocator(5))
    number_layers(axes.xaxis, depth)
    return bars


def T_gate_bars(log: RunLog) -> Axes:
    """Draw how far each block's gate is open after training, a line for the untrained net, dots for several seeds."""
    means = gate_means(log)
    title = f"After training the mean T is {means[:, -1].mean():.2f}"
    _, axes = new_figure(f"{title}: {describe(log, runs_with_gates(log))}", 3.6)
    bars = draw_gates(axes, log, epoch=-1)
    if len(means) > 1:
        x, size = [bar.get_center()[0] for bar in bars], min(3.5, 200 * bars[0].get_width() / len(bars))
        axes.plot(x, means[:, -1].T, "o", color=INK, markeredgewidth=0, markersize=size)
    label_ends(axes)
    return axes


def T_gate_bars_by_depth(log: RunLog) -> np.ndarray:
    """Draw the mean T after training, a panel a depth (at most MOST_PANELS), a row a run; white: before training."""
    groups = [runs for _, runs in sorted(grouped(runs_with_gates(log), attrgetter("config.depth")).items())]
    groups = [groups[i] for i in evenly_spaced(len(groups), MOST_PANELS)]
    shown = [run for runs in groups for run in runs]
    later = [sum(of[-half:]) > sum(of[:half]) for run in shown if (half := len(of := run.gate_means[-1]) // 2)]
    found = f"The later half ends more open in {sum(later)} of {count_of(len(later), 'run')}" if later else "Mean T"
    title = f"{found}: {describe(log, shown)}"
    _, panels = new_figure(title, 1.2 + 0.9 * len(groups), nrows=len(groups), squeeze=False)
    maps = [np.array([run.gate_means[-1] for run in runs]) for runs in groups]
    draw_maps(panels[:, 0], maps, np.mean([np.mean(run.gate_means[0]) for run in shown]))
    for axes, (_, depth) in zip(panels[:, 0], map(np.shape, maps), strict=True):
        axes.set(ylabel=count_of(depth, "block"), yticks=())
        number_layers(axes.xaxis, depth)
    axes.set_xlabel("block, front to back")
    return panels[:, 0]


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """Return the indices 0 ... n − 1 or, if there are more, `most` of them, both ends included."""
    return np.rint(np.linspace(0, n - 1, min(n, most))).astype(int)


# -------------------------------------------------------------------------------------- from logs to files

COMMAND = "python highway_networks.py --seed 0"
RUN_FIGURES = (learning_curves, training_loss, T_gate_evolution, T_gate_bars)
SWEEP_FIGURES = (depth_sweep, T_gate_bars_by_depth)
GATE_FIGURES = (T_gate_evolution, T_gate_bars, T_gate_bars_by_depth)  # of them


def read_log(path: str | os.PathLike) -> RunLog:
    """Read a log of dense or convolutional nets that has something to draw; raises InputError."""
    path, remedy = as_path(path), f"make it with: {COMMAND}"
    content = read_bytes(path, remedy) if path.is_file() else b""
    made_by = r'"command": "(?:\S* )*?python -m (experiments|benchmarks)[. ](?:\w+\.)*(\w+)'
    if other := re.search(made_by, content[:1000].decode(errors="replace")):
        package, name = other.groups()
        draw = f"{name} plot {quote(path)}" if package == "experiments" else "plot"
        raise InputError(f"{path}: expected a log of a run, found one of {name}; try: python -m {package} {draw}")
    config = ConvConfig if b'"net": ' in content else Config  # dense nets have no name
    log = read(path, RunLog[config], remedy)
    if len({run.config.epochs for run in log.runs}) > 1 and len(depths_of(log)) == 1:
        raise InputError(f"{path}: expected runs of equally many epochs, found others; {remedy}")
    return log


def found_logs() -> list[Path]:
    """Return the logs here that the training commands have named, or run.json if there is none."""
    return in_order(Path().glob("run*.json")) or [Path("run.json")]


def own_folder(path: Path) -> Path:
    """Return the folder of a log's pictures: viz/ for run.json and run_sweep.json, a folder below it for any other."""
    return picture_folder(path, Path("run_sweep.json" if path.stem.startswith("run_sweep") else "run.json"))


def draw(
    path: str | os.PathLike, out: str | os.PathLike | None = None, log: RunLog | None = None, **flags: Any
) -> list[Path]:
    """Draw a log, as a sweep if it has several depths, into a folder (by default its own); return the pictures.

    log: what was read there, if it was; flags: `format`, as the command has it
    """
    pictures = {f"{name}.png": of for name, of in figures_of(log or read_log(path)).items()}
    return save_all(pictures, own_folder(as_path(path)), path, out=out, **flags)


def plot(log: RunLog, name: str | None = None) -> Figure:
    """Return a figure of a log, by default the first, as matplotlib's; it has the name of the picture of a command."""
    figures = figures_of(log)
    if name not in (None, *figures):
        raise InputError(f"name: expected one of {', '.join(figures)}, found {name}; choose one of them")
    with own_style():
        return figures[name or next(iter(figures))]()


def figures_of(log: RunLog) -> dict[str, Callable[[], Figure]]:
    """Return what draws each figure of a log, by name; several depths are a sweep, each kind of gates has a figure."""

    def drawn(figure: Callable[[RunLog], Axes | np.ndarray], shown: RunLog, kind: str) -> Figure:
        for each in kinds_of(log.runs):
            COLORS[each]  # a kind has one colour in all pictures of its log, also where others are not shown
        if kind:
            COLORS[shown.runs[0].config.block] = COLORS[kind]
        picture = np.ravel(figure(shown))[0].figure
        if kind:
            set_title(picture, f"{picture.get_suptitle()}, {kind}")
        return picture

    kinds, pictures = kinds_with_gates(log), {}
    for figure in RUN_FIGURES if len(depths_of(log)) == 1 else SWEEP_FIGURES:
        # The loss of plain nets, if they are deep, does not fall.
        is_stuck = figure is training_loss and "plain" in {run.config.block for run in log.runs}
        name = "plain_loss_collapse" if is_stuck else figure.__name__
        for kind, of_kind in kinds.items() if figure in GATE_FIGURES else [("", log)]:
            ending = kind if len(kinds) > 1 else ""
            named = "-".join([name, *re.findall("[^, ]+", ending)])
            pictures[named] = partial(drawn, figure, of_kind, ending)
    return pictures


def draw_command(arguments: argparse.Namespace) -> None:
    """Draw the logs in `arguments`, or else those in this folder; raises InputError."""
    logs, out = arguments.logs, arguments.out
    if out and len(logs) != 1 and (not logs or out.suffix[1:] in FORMATS):
        raise InputError(f"--out: expected one LOG.json, found {len(logs)}; name the log to draw")
    for path in logs or found_logs():
        log = read_log(path)
        for picture in draw(path, log=log, **picture_flags(arguments)):
            print(f"drew {picture}")
        if not runs_with_gates(log):
            print(f"{path}: no run with gates has finished, pictures of gates are left out")


def main(argv: list[str] | None = None) -> int:
    parser = OneLineParser(prog="python visualize_highway_networks.py", description="Draw run logs.")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG.json", help="default: every run*.json here")
    add_picture_flags(parser)
    return run_cli(parser, draw_command, argv)
