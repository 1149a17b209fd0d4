"""Draw the run logs: run.json and run_sweep.json -> viz/*.png.

    python visualize_highway_networks.py                       every run log here that has its default name
    python visualize_highway_networks.py RUN.json SWEEP.json   these two

Pictures of MNIST go to viz/, those of another data set to viz/NAME/.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.ticker import MaxNLocator

import run_log
from figure_style import COLORS, INK, draw_level, draw_seeds, label_ends, new_figure, number_layers, save
from highway_networks import CLASSES, DATASETS, Config, OneLineParser
from run_log import InputError, Run, RunLog

Log = RunLog[Config]


# ---------------------------------------------------------------------------------- from logs to arrays


def by_kind(log: Log) -> dict[str, list[Run]]:
    """The runs of each kind of block."""
    kinds = dict.fromkeys(run.config.block for run in log.runs)
    return {kind: [run for run in log.runs if run.config.block == kind] for kind in kinds}


def curves(runs: list[Run], field: str) -> np.ndarray:
    """A field of the histories, (seeds, epochs + 1), NaN from where a run diverged."""
    table = np.full((len(runs), max(len(run.history.epoch) for run in runs)), np.nan)
    for row, run in zip(table, runs, strict=True):
        row[: len(run.history.epoch)] = getattr(run.history, field)
    return table


def finals(runs: list[Run], field: str, depths: list[int]) -> np.ndarray:
    """The last value of a field, (seeds, depths), NaN where a run diverged or is missing."""
    seeds = sorted({run.config.seed for run in runs})
    table = np.full((len(seeds), len(depths)), np.nan)
    for run in runs:
        if not run.diverged:
            table[seeds.index(run.config.seed), depths.index(run.config.depth)] = getattr(run.history, field)[-1]
    return table


def gated(log: Log) -> list[Run]:
    """The runs that have gates to show: those of a diverged one end in numbers that are not finite."""
    return [run for run in log.runs if run.gate_means and not run.diverged]


def gate_means(log: Log) -> np.ndarray:
    """Mean T of each block after each epoch, (seeds, epochs + 1, L)."""
    return np.array([run.gate_means for run in gated(log)])


# -------------------------------------------------------------------------- one function a figure or panel


def describe(log: Log, runs: list[Run]) -> str:
    """Which runs a picture shows, for its title."""
    depths = {run.config.depth for run in runs}
    seeds = {run.config.seed for run in runs}
    dataset = log.dataset.name.replace("mnist", "MNIST")
    of_depth = f", depth {min(depths)}" if len(depths) == 1 else ""
    return f"{dataset}{of_depth}, " + (f"seed {min(seeds)}" if len(seeds) == 1 else f"{len(seeds)} seeds")


def name_line(kind: str, runs: list[Run]) -> str:
    """The kind of block, and how many of its runs diverged if any did."""
    diverged = sum(run.diverged for run in runs)
    return f"{kind} ({diverged} of {len(runs)} diverged)" if diverged else kind


def draw_history(axes: Axes, log: Log, field: str) -> None:
    """A field of the histories against epoch, in a colour for each kind of block."""
    for kind, runs in by_kind(log).items():
        values = curves(runs, field)
        draw_seeds(axes, np.arange(values.shape[1]), values, color=COLORS[kind], label=name_line(kind, runs))
    axes.margins(x=0)
    number_epochs(axes)


def number_epochs(axes: Axes) -> None:
    """Few ticks for epochs, all of them whole."""
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))


def mark_chance(axes: Axes) -> None:
    """Set an accuracy's range and draw the accuracy of guessing."""
    draw_level(axes, 1 / CLASSES, "chance")
    axes.set_ylim(0, 1)


def mark_log_classes(axes: Axes) -> None:
    """Set a loss's range and draw the loss of calling all classes equally likely."""
    draw_level(axes, np.log(CLASSES), f"log {CLASSES} = {np.log(CLASSES):.3f}")
    axes.set_ylim(bottom=0)


def learning_curves(log: Log) -> np.ndarray:
    """Accuracy on training and on test images against epoch; returns the two axes."""
    title = f"Accuracy by epoch: {describe(log, log.runs)}"
    _, panels = new_figure(title, 3.6, ncols=2, sharey=True)
    for axes, field, images in zip(panels, ("train_acc", "test_acc"), ("training", "test"), strict=True):
        draw_history(axes, log, field)
        mark_chance(axes)
        axes.set_title(f"{images} images")
        label_ends(axes)
    return panels


def plain_loss_collapse(log: Log) -> Axes:
    """Training loss against epoch, beside the loss of calling all classes equally likely."""
    _, axes = new_figure(f"Training loss by epoch: {describe(log, log.runs)}", 3.8)
    draw_history(axes, log, "train_loss")
    mark_log_classes(axes)
    axes.set_ylabel("mean cross-entropy (nats)")
    label_ends(axes)
    return axes


def depth_sweep(log: Log) -> np.ndarray:
    """Final test accuracy and training loss against depth; returns the two axes."""
    _, panels = new_figure(f"After the last epoch, by depth: {describe(log, log.runs)}", 3.8, ncols=2)
    depths = sorted({run.config.depth for run in log.runs})
    for axes, field in zip(panels, ("test_acc", "train_loss"), strict=True):
        for kind, runs in by_kind(log).items():
            values = finals(runs, field, depths)
            draw_seeds(axes, np.array(depths), values, color=COLORS[kind], label=name_line(kind, runs), marker="o")
        axes.set(xlabel="hidden blocks", xticks=depths, xlim=(0, max(depths[-1], 1)))
    mark_chance(panels[0])
    mark_log_classes(panels[1])
    for axes, title in zip(panels, ("test accuracy", "training loss (nats)"), strict=True):
        axes.set_title(title)
        label_ends(axes)
    return panels


def T_gate_evolution(log: Log) -> Axes:
    """Mean T of each layer (row) after each epoch (column); epoch 0 is the untrained net."""
    means = gate_means(log).mean(axis=0)
    epochs, depth = means.shape
    figure, axes = new_figure(f"Mean transform gate by layer and epoch: {describe(log, gated(log))}", 4.6)
    cells = axes.imshow(means.T, vmin=0, aspect="auto", origin="lower", extent=(-0.5, epochs - 0.5, 0.5, depth + 0.5))
    axes.set_ylabel("layer, from input to output")
    number_epochs(axes)
    number_layers(axes.yaxis, depth)
    scale = figure.colorbar(cells, label="mean T (white line: untrained)", pad=0.02)
    scale.ax.axhline(means[0].mean(), color="white", linewidth=2)
    return axes


def draw_gates(axes: Axes, log: Log, epoch: int) -> BarContainer:
    """A bar for the mean T of each layer after an epoch, beside the untrained net's."""
    means = gate_means(log).mean(axis=0)
    depth = means.shape[1]
    bars = axes.bar(np.arange(1, depth + 1), means[epoch], color=COLORS[gated(log)[0].config.block])
    edges = np.arange(depth + 1) + 0.5
    axes.step(edges, [*means[0], means[0, -1]], where="post", color=INK, linewidth=1, label="untrained")
    axes.set(xlabel="layer, from input to output", ylabel="mean T", xlim=edges[[0, -1]])
    axes.yaxis.set_major_locator(MaxNLocator(5))
    number_layers(axes.xaxis, depth)
    return bars


def T_gate_final(log: Log) -> Axes:
    """Mean T of each layer after the last epoch beside the untrained net's, each seed a dot if there are several."""
    _, axes = new_figure(f"Mean transform gate after training: {describe(log, gated(log))}", 3.6)
    draw_gates(axes, log, epoch=-1)
    seeds = gate_means(log)[:, -1]  # (seeds, L)
    if len(seeds) > 1:
        layers = np.arange(1, seeds.shape[1] + 1)
        axes.plot(layers, seeds.T, "o", color=INK, markeredgecolor="white", markersize=4)
    label_ends(axes)
    return axes


# -------------------------------------------------------------------------------------- from logs to files


class LogKind(NamedTuple):
    """A log by its default name, the command that makes it, and what is drawn from it."""

    stem: str
    command: str
    figures: tuple[Callable[[Log], Axes | np.ndarray], ...]


GATE_FIGURES = (T_gate_evolution, T_gate_final)
RUN = LogKind(
    "run",
    "python highway_networks.py --seed 0",
    (learning_curves, plain_loss_collapse, *GATE_FIGURES),
)
SWEEP = LogKind(
    "run_sweep",
    "python highway_networks.py --seeds 0,1,2,3,4 --depths 5,10,20,30,50",
    (depth_sweep,),
)


def read_log(path: Path, kind: LogKind) -> Log:
    """Read a log that has something to draw; raises InputError."""
    log = run_log.read(path, Log, f"make it with: {kind.command}")
    if not log.runs:
        raise InputError(f"{path}: expected at least one run, found none; make it with: {kind.command}")
    depths = sorted({run.config.depth for run in log.runs})
    if kind is RUN and len(depths) > 1:
        raise InputError(f"{path}: expected runs of one depth, found depths {depths}; give it second, as the sweep")
    return log


def default_logs(kind: LogKind) -> list[Path]:
    """The names that `highway_networks.py` gives to logs of this kind, one for each data set."""
    return [Path(f"{kind.stem}{'' if name == 'mnist' else f'-{name}'}.json") for name in DATASETS]


def found_logs() -> list[tuple[Path, LogKind]]:
    """The logs here that have a default name, or just run.json if none has; says which one of a pair is missing."""
    found = []
    for run, sweep in zip(default_logs(RUN), default_logs(SWEEP), strict=True):
        pair = [(run, RUN), (sweep, SWEEP)]
        here = [(path, kind) for path, kind in pair if path.exists()]
        for path, kind in pair:
            if here and not path.exists():
                print(f"{path}: not there, its pictures are left out; make it with: {kind.command}")
        found += here
    return found or [(default_logs(RUN)[0], RUN)]


def picture_folder(log: Log) -> Path:
    """Where a log's pictures go: those of another data set never replace MNIST's."""
    return Path("viz") if log.dataset.name == "mnist" else Path("viz", log.dataset.name)


def draw(path: Path, kind: LogKind, folder: Path | None = None) -> list[Path]:
    """Draw all pictures of one log into a folder (by default its data set's) and return their paths."""
    log = read_log(path, kind)
    folder = folder or picture_folder(log)
    pictures = []
    for figure in kind.figures:
        if figure in GATE_FIGURES and not gated(log):
            print(f"{path}: no run with gates has finished, {figure.__name__}.png is left out")
            continue
        pictures.append(folder / f"{figure.__name__}.png")
        save(np.ravel(figure(log))[0].figure, pictures[-1], path)
    return pictures


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for an error of the user's."""
    parser = OneLineParser(prog="visualize_highway_networks.py", description="Draw run logs.")
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN.json", help="a log of one depth (default: run.json)")
    parser.add_argument("sweep", nargs="?", type=Path, metavar="SWEEP.json", help="a log of several depths")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where pictures go (default: viz, or viz/DATASET)")
    arguments = parser.parse_args(argv)
    if arguments.out and not arguments.run:
        parser.error("--out: expected with a RUN.json, found none; name the log to draw")
    try:
        logs = [(arguments.run, RUN)] if arguments.run else found_logs()
        if arguments.sweep:
            logs.append((arguments.sweep, SWEEP))
        elif arguments.run:
            print("no SWEEP.json given, its pictures are left out")
        for path, kind in logs:
            for picture in draw(path, kind, arguments.out):
                print(f"drew {picture}")
    except InputError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
