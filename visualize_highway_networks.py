"""Draw the run logs: run.json and run_sweep.json -> viz/*.png.

    python visualize_highway_networks.py               every run*.json here
    python visualize_highway_networks.py LOG.json ...  these
    python visualize_highway_networks.py LOG.json --watch   this one again whenever it has grown, until it is finished

Pictures of run.json and run_sweep.json go to viz/, those of any other log to a folder of its own there: also those of
LOG.unfinished.json, which is what a job that goes on, or was killed, has so far. They say how far that is.
"""

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

os.environ["MPLBACKEND"] = "agg"  # nothing is shown; the user's may be unknown

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.ticker import MaxNLocator

import highway_lab.logs
from conv_highway_networks import ConvConfig
from highway_lab.cli import InputError, OneLineParser, run_cli
from highway_lab.console import final, name_tested, seeds_of
from highway_lab.datasets import DATASETS
from highway_lab.figures import (
    COLORS,
    INK,
    draw_level,
    draw_seeds,
    label_ends,
    markdown,
    new_figure,
    number_layers,
    pale,
    picture_folder,
    save,
)
from highway_lab.jobs import UNFINISHED, unfinished_beside
from highway_lab.logs import Run, RunLog
from highway_networks import Config

Log = RunLog  # of either command
MOST_PANELS = 8


# ---------------------------------------------------------------------------------- from logs to arrays


def by_block(log: Log) -> dict[str, list[Run]]:
    """The runs of each kind of block."""
    blocks = dict.fromkeys(run.config.block for run in log.runs)
    return {block: [run for run in log.runs if run.config.block == block] for block in blocks}


def curves(runs: list[Run], field: str) -> np.ndarray:
    """A field of the histories, (seeds, epochs + 1), NaN from where a run diverged."""
    table = np.full((len(runs), max(len(run.history.epoch) for run in runs)), np.nan)
    for row, run in zip(table, runs, strict=True):
        row[: len(run.history.epoch)] = getattr(run.history, field)
    return drawable(table, field)


def finals(runs: list[Run], field: str, depths: list[int]) -> np.ndarray:
    """The last value of a field, (seeds, depths), NaN where a run diverged, is missing or has epochs to come."""
    seeds = sorted({run.config.seed for run in runs})
    table = np.full((len(seeds), len(depths)), np.nan)
    for run in runs:
        if run.ended and not run.diverged:
            table[seeds.index(run.config.seed), depths.index(run.config.depth)] = getattr(run.history, field)[-1]
    return drawable(table, field)


def drawable(values: np.ndarray, field: str) -> np.ndarray:
    """Values within bounds that axes can take, which overflow long before a loss does; those of scores are 0 to 1."""
    bound = 1 if field.endswith("score") else 1e30
    return np.clip(values, -bound, bound)


def judged_by(log: Log) -> str:
    """The field of the scores that were taken of other samples than those trained on, after every epoch."""
    return "validation_score" if log.runs[0].config.n_validation else "test_score"


def images_of(field: str) -> str:
    """Name the images that a field of scores is measured on."""
    return "held-out" if field == "validation_score" else "test"


def gated(log: Log) -> list[Run]:
    """The runs that have gates to show: those of a diverged one end in numbers that are not finite.

    Of a log that is not finished, those that are furthest.
    """
    runs = [run for run in log.runs if run.gate_means and not run.diverged]
    furthest = max((len(run.gate_means) for run in runs), default=0)
    return [run for run in runs if log.finished or len(run.gate_means) == furthest]


def gate_means(log: Log) -> np.ndarray:
    """Mean T of each block after each epoch, (seeds, epochs + 1, L)."""
    return np.array([run.gate_means for run in gated(log)])


# -------------------------------------------------------------------------- one function a figure or panel


def describe(log: Log, runs: list[Run]) -> str:
    """Which runs a picture shows, for its title."""
    kind = runs[0].config.SIZE
    sizes, seeds = ({getattr(run.config, name) for run in runs} for name in (kind, "seed"))
    of_size = f", {kind} {min(sizes)}" if len(sizes) == 1 else ""
    of_seeds = f"seed {min(seeds)}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    return f"{name_tested(log.dataset)}{of_size}, {of_seeds}"


def how_far(log: Log) -> str:
    """`finished`, or by its runs that have epochs to come, if any: `unfinished: epoch 7 of 12`."""
    if log.finished:
        return "finished"
    epochs = {run.history.epoch[-1] for run in log.runs if not run.ended} or {log.runs[-1].history.epoch[-1]}
    reached = " to ".join(map(str, sorted({min(epochs), max(epochs)})))
    return f"unfinished: epoch {reached} of {log.runs[0].config.epochs}"


def name_line(block: str, runs: list[Run]) -> str:
    """The kind of block, and how many of its runs diverged if any did."""
    diverged = sum(run.diverged for run in runs)
    return f"{block} ({diverged} of {len(runs)} diverged)" if diverged else block


def draw_history(axes: Axes, log: Log, field: str) -> None:
    """A field of the histories against epoch, in a colour for each kind of block."""
    for block, runs in by_block(log).items():
        values = curves(runs, field)
        draw_seeds(axes, np.arange(values.shape[1]), values, color=COLORS[block], label=name_line(block, runs))
    axes.margins(x=0)
    number_epochs(axes)


def number_epochs(axes: Axes) -> None:
    """Few ticks for epochs, all of them whole."""
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))


def mark_chance(axes: Axes, log: Log) -> None:
    """Set an accuracy's range and draw the accuracy of guessing."""
    draw_level(axes, 1 / DATASETS[log.dataset.name], "chance")
    axes.set_ylim(0, 1)


def mark_log_classes(axes: Axes, log: Log) -> None:
    """Set a loss's range and draw the loss of calling all classes equally likely."""
    classes = DATASETS[log.dataset.name]
    draw_level(axes, np.log(classes), f"log {classes} = {np.log(classes):.3f}")
    axes.set_ylim(bottom=0)


def learning_curves(log: Log) -> np.ndarray:
    """Accuracy on training and on other images against epoch; returns the two axes."""
    judged = images_of(judged_by(log))
    title = f"Accuracy by epoch: {describe(log, log.runs)}"
    _, panels = new_figure(title, 3.6, ncols=2, sharey=True)
    for axes, field, images in zip(panels, ("train_score", judged_by(log)), ("training", judged), strict=True):
        draw_history(axes, log, field)
        mark_chance(axes, log)
        axes.set_title(f"{images} images")
        label_ends(axes)
    return panels


def plain_loss_collapse(log: Log) -> Axes:
    """Training loss against epoch, beside the loss of calling all classes equally likely."""
    _, axes = new_figure(f"Training loss by epoch: {describe(log, log.runs)}", 3.8)
    draw_history(axes, log, "train_loss")
    mark_log_classes(axes, log)
    axes.set_ylabel("mean cross-entropy (nats)")
    label_ends(axes)
    return axes


def depth_sweep(log: Log) -> np.ndarray:
    """Final test accuracy and training loss against depth; returns the two axes."""
    _, panels = new_figure(f"After the last epoch, by depth: {describe(log, log.runs)}", 3.8, ncols=2)
    depths = depths_of(log)
    for axes, field in zip(panels, ("test_score", "train_loss"), strict=True):
        for block, runs in by_block(log).items():
            values = finals(runs, field, depths)
            draw_seeds(axes, np.array(depths), values, color=COLORS[block], label=name_line(block, runs), marker="o")
        axes.set(xlabel="blocks", xticks=depths, xlim=(0, max(depths[-1], 1)))
    mark_chance(panels[0], log)
    mark_log_classes(panels[1], log)
    for axes, title in zip(panels, ("test accuracy", "training loss (nats)"), strict=True):
        axes.set_title(title)
        label_ends(axes)
    return panels


def T_gate_evolution(log: Log) -> Axes:
    """Mean T of each block (row) after each epoch (column); epoch 0 is the untrained net."""
    means = gate_means(log).mean(axis=0)
    epochs, depth = means.shape
    figure, axes = new_figure(f"Mean transform gate by block and epoch: {describe(log, gated(log))}", 4.6)
    cells = axes.imshow(means.T, vmin=0, aspect="auto", extent=(-0.5, epochs - 0.5, depth + 0.5, 0.5))
    axes.set_ylabel("block, front to back")
    number_epochs(axes)
    number_layers(axes.yaxis, depth)
    scale = figure.colorbar(cells, label="mean T (white line: untrained)", pad=0.02)
    scale.ax.axhline(means[0].mean(), color="white", linewidth=2)
    return axes


def draw_gates(axes: Axes, log: Log, epoch: int) -> BarContainer:
    """A bar for the mean T of each block after an epoch, beside the untrained net's."""
    means = gate_means(log).mean(axis=0)
    depth = means.shape[1]
    bars = axes.bar(np.arange(1, depth + 1), means[epoch], color=COLORS[gated(log)[0].config.block])
    edges = np.arange(depth + 1) + 0.5
    axes.step(edges, [*means[0], means[0, -1]], where="post", color=INK, linewidth=1, label="untrained")
    axes.set(xlabel="block, front to back", ylabel="mean T", xlim=edges[[0, -1]])
    axes.yaxis.set_major_locator(MaxNLocator(5))
    number_layers(axes.xaxis, depth)
    return bars


def T_gate_final(log: Log) -> Axes:
    """Mean T of each block after the last epoch beside the untrained net's, each seed a dot if there are several."""
    _, axes = new_figure(f"Mean transform gate after training: {describe(log, gated(log))}", 3.6)
    bars = draw_gates(axes, log, epoch=-1)
    draw_dots(axes, bars, gate_means(log)[:, -1])
    label_ends(axes)
    return axes


def draw_dots(axes: Axes, bars: BarContainer, seeds: np.ndarray) -> None:
    """A dot for each seed's value of each bar, (seeds, bars), if there are several."""
    if len(seeds) > 1:
        x, size = [bar.get_center()[0] for bar in bars], min(3.5, 200 * bars[0].get_width() / len(bars))
        axes.plot(x, seeds.T, "o", color=INK, markeredgewidth=0, markersize=size)


def T_gate_bars(log: Log) -> np.ndarray:
    """Mean T of each block before and after training, each seed a dot if there are several."""
    return draw_before_and_after(log, [gated(log)])


def T_gate_bars_by_depth(log: Log) -> np.ndarray:
    """The same, a panel a depth; of more than MOST_PANELS depths, so many evenly spaced ones are shown."""
    of_depths = [[run for run in log.runs if run.config.depth == depth] for depth in depths_of(log)]
    groups = [runs for runs in (gated(dataclasses.replace(log, runs=runs)) for runs in of_depths) if runs]
    chosen = np.rint(np.linspace(0, len(groups) - 1, min(len(groups), MOST_PANELS))).astype(int)
    return draw_before_and_after(log, [groups[i] for i in chosen])


def draw_before_and_after(log: Log, groups: list[list[Run]]) -> np.ndarray:
    """A panel for each group of runs of one depth: two bars for each block; returns the axes."""
    shown = [run for runs in groups for run in runs]
    title = f"Mean transform gate before and after training: {describe(log, shown)}"
    figure, panels = new_figure(title, 1.6 + 1.9 * len(groups), nrows=len(groups), sharey=True, squeeze=False)
    for axes, runs in zip(panels[:, 0], groups, strict=True):
        color, blocks = COLORS[runs[0].config.block], np.arange(1, runs[0].config.depth + 1)
        for when, epoch, shift, shade in (("before", 0, -0.2, pale(color, 0.4)), ("after", -1, 0.2, color)):
            means = np.array([run.gate_means[epoch] for run in runs])  # (seeds, L)
            bars = axes.bar(blocks + shift, means.mean(axis=0), 0.4, color=shade, label=f"{when} training")
            draw_dots(axes, bars, means)
        axes.set(ylabel="mean T", xlim=(0.5, blocks[-1] + 0.5))
        number_layers(axes.xaxis, blocks[-1])
        if len(groups) > 1:
            axes.set_title(f"depth {blocks[-1]}")
    axes.set_xlabel("block, front to back")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False)
    return panels[:, 0]


# ------------------------------------------------------------------------------------- one function a table


class Scores(NamedTuple):
    """What the sketch, the write-up that this project set out from, reports of one run (seed 0)."""

    test_score: float
    train_loss: float


SKETCH = {
    ("highway", 5): Scores(0.903, 0.190),
    ("highway", 10): Scores(0.913, 0.187),
    ("highway", 20): Scores(0.910, 0.215),
    ("highway", 30): Scores(0.926, 0.189),
    ("highway", 50): Scores(0.905, 0.301),
    ("plain", 5): Scores(0.857, 0.478),
    ("plain", 10): Scores(0.292, 1.773),
    ("plain", 20): Scores(0.098, 2.303),
    ("plain", 30): Scores(0.124, 2.302),
    ("plain", 50): Scores(0.124, 2.302),
}
SKETCH_SECONDS = {("highway", 30): 4.9, ("plain", 30): 1.9}


def headline(log: Log) -> str:
    """Each net's final scores, size and time, beside the sketch's."""
    rows = []
    for (block, depth), runs in grouped(log).items():
        seconds = sum(sum(run.history.seconds) for run in runs) / len(runs)
        rows.append(
            [
                f"{block}, depth {depth}",
                *beside_the_sketch(runs, block, depth, "test_score"),
                *beside_the_sketch(runs, block, depth, "train_loss"),
                f"{runs[0].n_params:,}",
                f"{seconds:.1f}",
                str(SKETCH_SECONDS.get((block, depth), "")),
            ]
        )
    header = ["net", "test accuracy", "sketch", "training loss", "sketch", "parameters", "seconds", "sketch"]
    return f"{markdown(header, rows)}{spread_note(log)}"


def sweep_table(log: Log) -> str:
    """Final scores by depth, highway beside plain, beside the sketch's."""
    groups = grouped(log)
    blocks = list(dict.fromkeys(block for block, _ in groups))
    columns = [(block, field) for field in Scores._fields for block in blocks]
    words = {"test_score": "test accuracy", "train_loss": "training loss"}
    header = ["depth", *(word for block, field in columns for word in (f"{block} {words[field]}", "sketch"))]
    rows = []
    for depth in depths_of(log):
        cells = [beside_the_sketch(groups.get((block, depth), []), block, depth, field) for block, field in columns]
        rows.append([str(depth), *(cell for pair in cells for cell in pair)])
    return f"{markdown(header, rows)}{spread_note(log)}"


def grouped(log: Log) -> dict[tuple[str, int], list[Run]]:
    """The runs of each (block, depth)."""
    groups = {}
    for run in log.runs:
        groups.setdefault((run.config.block, run.config.depth), []).append(run)
    return groups


def beside_the_sketch(runs: list[Run], block: str, depth: int, field: str) -> list[str]:
    """A final value as mean ± sd, and the sketch's number for the same net; empty where it reports none."""
    scores = SKETCH.get((block, depth))
    return [final(runs, field), f"{getattr(scores, field):.3f}" if scores else ""]


def spread_note(log: Log) -> str:
    """The sentence below a table of several seeds; empty for a single one."""
    several = len({run.config.seed for run in log.runs}) > 1
    return f"\n\n{seeds_of(run.config for run in log.runs)} The sketch: one run, seed 0." if several else ""


# -------------------------------------------------------------------------------------- from logs to files

COMMAND = "python highway_networks.py --seed 0"
SWEEP_COMMAND = "python highway_networks.py --seeds 0-19 --depths 5,10,20,30,50 --jobs 2"
RUN_FIGURES = (learning_curves, plain_loss_collapse, T_gate_evolution, T_gate_final, T_gate_bars)
SWEEP_FIGURES = (depth_sweep, T_gate_bars_by_depth)
GATE_FIGURES = (T_gate_evolution, T_gate_final, T_gate_bars, T_gate_bars_by_depth)  # of them


def read_log(path: Path) -> Log:
    """Read a log that has something to draw, of either command; raises InputError."""
    log = read_either(path, f"make it with: {COMMAND}")
    if log.dataset.name not in DATASETS:
        known = ", ".join(DATASETS)
        raise InputError(f"{path}: expected a data set of {known}, found {log.dataset.name}; make it with: {COMMAND}")
    if not log.runs:
        raise InputError(f"{path}: expected at least one run, found none; make it with: {COMMAND}")
    for run in log.runs:
        if run.gate_means and (found := len(run.gate_means[0])) != run.config.depth:
            raise InputError(
                f"{path}: expected gate_means of {run.config.depth} blocks, found {found}; make it with: {COMMAND}"
            )
    epochs = {len(run.gate_means) - 1 for run in gated(log)}
    if len(epochs) > 1 and len(depths_of(log)) == 1:
        found = ", ".join(map(str, sorted(epochs)))
        raise InputError(f"{path}: expected runs of equally many epochs, found {found}; make it with: {COMMAND}")
    return log


def read_either(path: Path, remedy: str) -> Log:
    """A log of dense nets or, if it is no such log, of convolutional ones; raises InputError."""
    try:
        return highway_lab.logs.read(path, RunLog[Config], remedy)
    except InputError as error:
        try:
            return highway_lab.logs.read(path, RunLog[ConvConfig], remedy)
        except InputError:
            raise error from None


def depths_of(log: Log) -> list[int]:
    """The depths of a log's runs."""
    return sorted({run.config.depth for run in log.runs})


def found_logs() -> list[Path]:
    """The logs here that `highway_networks.py` has named, or just run.json if there is none."""
    return sorted(Path().glob("run*.json")) or [Path("run.json")]


def own_folder(path: Path) -> Path:
    """Where the pictures of a log go: viz/ for run.json and run_sweep.json, a folder of its own there for any other."""
    return picture_folder(path, "run_sweep" if path.stem.startswith("run_sweep") else "run")


def draw(path: Path, folder: Path | None = None) -> list[Path]:
    """Draw a log, as a sweep if it has several depths, into a folder (by default its own); returns the pictures."""
    return draw_log(read_log(path), path, folder or own_folder(path))


def draw_log(log: Log, path: Path, folder: Path) -> list[Path]:
    """The same for a log that has been read; of one without gates, what shows them is left out."""
    pictures = []
    for figure in RUN_FIGURES if len(depths_of(log)) == 1 else SWEEP_FIGURES:
        if gated(log) or figure not in GATE_FIGURES:
            drawn = np.ravel(figure(log))[0].figure
            if not log.finished:
                drawn.supxlabel(how_far(log), x=0.01, horizontalalignment="left", fontsize="medium")
            pictures.append(folder / f"{figure.__name__}.png")
            save(drawn, pictures[-1], path)
    return pictures


def watch(path: Path, folder: Path | None, wait: Callable[[float], object] = time.sleep) -> None:
    """Draw a log, or what there is of it so far, again whenever that has changed, until it is finished.

    One that is not there yet is waited for. Raises InputError if it could not come to be there, or if one that cannot
    be drawn stays so.
    """
    if path.name.endswith(UNFINISHED):
        path = path.with_name(path.name.removesuffix(UNFINISHED) + ".json")
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(
            f"--watch: expected a log, or a folder where one will be, found neither at {path}; name another"
        )
    places, drawn, failed = (unfinished_beside(path), path), None, None
    if not any(place.exists() for place in places):
        print(f"waiting for {path}", flush=True)
    while True:
        found = filter(None, map(version, places))
        there = max(found, key=itemgetter(1), default=None)  # an earlier job may have left another
        if there and there != drawn:
            try:
                log = read_log(there[0])
                pictures = draw_log(log, there[0], folder or own_folder(there[0]))
            except (InputError, OSError):  # it may have given way to the next while it was read
                if there == failed:
                    raise
                failed = there
            else:
                drawn = there
                print(f"drew {len(pictures)} pictures in {pictures[0].parent}, {how_far(log)}", flush=True)
                if log.finished:
                    return
        wait(1)


def version(path: Path) -> tuple | None:
    """What tells a file from another one at the same path later: the path, when it was written, and more.

    None if nothing is there.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return path, found.st_mtime_ns, found.st_ino, found.st_size


def draw_command(arguments: argparse.Namespace) -> None:
    """Draw the logs that are named, or those that are here; raises InputError."""
    if arguments.out and not arguments.logs:
        raise InputError("--out: expected with a LOG.json, found none; name the log to draw")
    if arguments.watch:
        if len(arguments.logs) != 1:
            raise InputError(f"--watch: expected one LOG.json, found {len(arguments.logs)}; name the log to watch")
        watch(arguments.logs[0], arguments.out)
        return
    for path in arguments.logs or found_logs():
        pictures = draw(path, arguments.out)
        for picture in pictures:
            print(f"drew {picture}")
        if {figure.__name__ for figure in GATE_FIGURES}.isdisjoint(picture.stem for picture in pictures):
            print(f"{path}: no run with gates has finished, pictures of gates are left out")


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = OneLineParser(prog="python visualize_highway_networks.py", description="Draw run logs.")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG.json", help="default: every run*.json here")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where pictures go (default: viz, or below it)")
    parser.add_argument("--watch", action="store_true", help="draw it whenever it has grown, until it is finished")
    return run_cli(parser, draw_command, argv)


if __name__ == "__main__":
    sys.exit(main())
