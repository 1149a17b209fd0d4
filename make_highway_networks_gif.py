"""Animate a run log, one frame an epoch: run.json -> highway_networks.gif.

    python make_highway_networks_gif.py               every run*.json of one depth with gates here
    python make_highway_networks_gif.py LOG.json ...  these

Above: the score, such as accuracy, epoch by epoch. Below: the mean transform gate T of each block, from closed (0) to
open (1), in a panel for each kind of net that has T. The last frame says what each kind of net has reached, and stays
for a while.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("make_highway_networks_gif")

import argparse
import os
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import visualize_highway_networks as viz
from highway_lab import figures
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.files import as_path
from highway_networks import InputError

__all__ = ["animate", "main"]

NAME = "highway_networks.gif"
FRAME_MS, LAST_FRAME_MS = 500, 6000
PALETTE_COLORS = 64
MOST_KINDS = 4  # panels
MOST_FRAMES = 100  # if there are more epochs, evenly spaced ones are shown
TOGETHER = 16  # frames that share a palette, and are in memory at once


def frames(log: viz.RunLog) -> Iterator[np.ndarray]:
    """Yield a picture for each epoch, the untrained net (epoch 0) first: uint8, (height, width, 3)."""
    kinds = viz.kinds_with_gates(log)
    title, rows, (images, field) = f"{viz.describe(log, log.runs)}: epoch ", 1 + len(kinds), viz.scored_on(log)
    reached = f"{viz.describe(log, log.runs)}, after training: {viz.reached(log.runs, field)}"
    figure, (scores, *panels) = figures.new_figure(reached, 2.8 * rows, nrows=rows)  # the longest title makes room
    viz.draw_history(scores, log, field)
    growing = {line: line.get_xydata() for line in scores.lines}
    for line in growing:
        line.set(marker="o", markersize=2 * line.get_linewidth(), markevery=[-1])  # at epoch 0 there is no line yet
    viz.mark_guessing(scores, log, field)
    scores.set_ylabel(f"{images} {log.runs[0].metric}")
    means, bars = [], []
    for gates, (kind, of_kind) in zip(panels, kinds.items(), strict=True):
        viz.COLORS[of_kind.runs[0].config.block] = viz.COLORS[kind]
        means.append(viz.gate_means(of_kind).mean(axis=0))
        bars.append(viz.draw_gates(gates, of_kind, epoch=0))
        gates.set_title(kind if len(kinds) > 1 else "")
    labels = figures.label_ends(scores, *panels)[scores]
    figure.set_layout_engine("none")  # else the axes would move with the curves

    canvas = FigureCanvasAgg(figure)
    last = len(means[0]) - 1
    for epoch in viz.evenly_spaced(last + 1, MOST_FRAMES):
        figures.set_title(figure, reached if epoch == last else f"{title}{epoch}")
        for line, points in growing.items():
            line.set_data(*points[: epoch + 1].T)
        for of_kind, heights in zip(bars, means, strict=True):
            for bar, height in zip(of_kind, heights[epoch], strict=True):
                bar.set_height(height)
        figures.place_labels(scores, labels)
        canvas.draw()
        yield np.array(canvas.buffer_rgba())[..., :3]


def share_palettes(pictures: Iterator[np.ndarray]) -> Iterator[Any]:
    """Yield the frames as Pillow's images, TOGETHER of them in one palette of few colours: half the bytes."""
    while together := [*islice(pictures, TOGETHER)]:
        height, width, _ = together[0].shape
        strip = Image.fromarray(np.concatenate(together))
        strip = strip.quantize(PALETTE_COLORS, dither=Image.Dither.NONE).convert("RGB")
        for top in range(0, strip.height, height):
            yield strip.crop((0, top, width, top + height))


def has_animation(log: viz.RunLog) -> bool:
    """Return whether the runs are of one depth, and some of them show gates, of no more kinds than there are panels."""
    return len(viz.depths_of(log)) == 1 and 1 <= len(viz.kinds_with_gates(log)) <= MOST_KINDS


def animate(path: str | os.PathLike, out: str | os.PathLike | None = None) -> Path:
    """Animate a log and return the path of the animation; by default it lies beside the log's pictures."""
    log, path = viz.read_log(path), as_path(path)
    if not has_animation(log):
        found = f"depths {viz.depths_of(log)}, {len(viz.kinds_with_gates(log))} kinds that finished"
        expected = f"expected runs of one depth, of 1 to {MOST_KINDS} kinds with gates"
        raise InputError(f"{path}: {expected}, found {found}; make them with: {viz.COMMAND}")

    def animation() -> bytes:
        file, n = BytesIO(), min(len(viz.runs_with_gates(log)[0].gate_means), MOST_FRAMES)
        options: dict[str, Any] = {"loop": 0, "duration": [FRAME_MS] * (n - 1) + [LAST_FRAME_MS]}
        options["comment"] = f"{figures.name_with_digest(path)}\n{figures.renderer()}".encode()
        with figures.own_style(**{"figure.dpi": 100}):
            images = share_palettes(frames(log))
            next(images).save(file, "GIF", save_all=True, append_images=images, **options)  # drawn as it writes
        return file.getvalue()

    own = viz.own_folder(path)
    place = Path() if own == Path("viz") else own
    return figures.save_all({NAME: animation}, place, path, out=out)[0]


def animate_command(arguments: argparse.Namespace) -> None:
    """Animate the logs that are named, or those here that can be, if any can; raises InputError."""
    if arguments.out and len(arguments.logs) != 1:
        raise InputError(f"--out: expected with one LOG.json, found {len(arguments.logs)}; name the log to animate")
    logs = arguments.logs or [path for path in viz.found_logs() if has_animation(viz.read_log(path))]
    for path in logs or viz.found_logs()[:1]:  # which says why it has no animation
        print(f"made {animate(path, arguments.out)}")


def main(argv: list[str] | None = None) -> int:
    parser = OneLineParser(prog="python make_highway_networks_gif.py", description="Animate run logs.")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG.json", help="with gates (default: run*.json here)")
    parser.add_argument("--out", type=Path, metavar="PATH", help=f"the animation (default: {NAME}, or below viz/)")
    return run_cli(parser, animate_command, argv)
