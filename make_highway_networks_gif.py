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

import visualize_highway_networks as viz
from highway_lab.cli import OneLineParser, add_style_flag, run_cli
from highway_lab.figures import (
    check_drawn,
    drawing,
    label_ends,
    name_with_digest,
    new_figure,
    own_style,
    place_labels,
    renderer,
    set_title,
)
from highway_lab.files import atomic_write, check_suffix, make_place
from highway_networks import InputError, as_path

__all__ = ["animate", "main"]

NAME = "highway_networks.gif"
FRAME_MS, LAST_FRAME_MS = 500, 6000
PALETTE_COLORS = 64
MOST_KINDS = 4  # panels
MOST_FRAMES = 100  # if there are more epochs, evenly spaced ones are shown
TOGETHER = 16  # frames that share a palette, and are in memory at once


def frames(log: viz.RunLog) -> Iterator[np.ndarray]:
    """Yield a picture for each epoch, the untrained net (epoch 0) first: uint8, (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kinds = viz.kinds_with_gates(log)
    means = {kind: viz.gate_means(of_kind).mean(axis=0) for kind, of_kind in kinds.items()}
    title, rows, (images, field) = f"{viz.describe(log, log.runs)}: epoch ", 1 + len(kinds), viz.scored_on(log)
    reached = f"{viz.describe(log, log.runs)}, after training: {viz.reached(log.runs, field)}"
    figure, (scores, *panels) = new_figure(reached, 2.8 * rows, nrows=rows)  # the longest title makes room
    viz.draw_history(scores, log, field)
    growing = {line: line.get_xydata() for line in scores.lines}
    for line in growing:
        line.set(marker="o", markersize=2 * line.get_linewidth(), markevery=[-1])  # at epoch 0 there is no line yet
    viz.mark_guessing(scores, log, field)
    scores.set_ylabel(f"{images} {log.runs[0].metric}")
    bars = {}
    for gates, (kind, of_kind) in zip(panels, kinds.items(), strict=True):
        viz.COLORS[of_kind.runs[0].config.block] = viz.COLORS[kind]
        bars[kind] = viz.draw_gates(gates, of_kind, epoch=0)
        gates.set_title(kind if len(kinds) > 1 else "")
    labels = label_ends(scores, *panels)[scores]
    figure.set_layout_engine("none")  # else the axes would move with the curves

    # Scales, most of the work, are drawn once; above them, in each frame, what moves and what may lie above that.
    moving = [*figure.texts]
    for axes in (scores, *panels):
        inside = [*axes.patches, *axes.lines, *axes.texts, *axes.spines.values()]
        moving += sorted(inside, key=lambda artist: artist.zorder)
    for artist in moving:
        artist.set_animated(True)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    last = len(next(iter(means.values()))) - 1
    for epoch in viz.evenly_spaced(last + 1, MOST_FRAMES):
        set_title(figure, reached if epoch == last else f"{title}{epoch}")
        for line, points in growing.items():
            line.set_data(*points[: epoch + 1].T)
        for kind, of_kind in bars.items():
            for bar, height in zip(of_kind, means[kind][epoch], strict=True):
                bar.set_height(height)
        place_labels(scores, labels)
        canvas.restore_region(still)
        for artist in moving:
            artist.draw(canvas.renderer)
        yield np.array(canvas.buffer_rgba())[..., :3]


def share_palettes(pictures: Iterator[np.ndarray]) -> Iterator[Any]:
    """Yield the frames as Pillow's images, TOGETHER of them in one palette of few colours: half the bytes."""
    from PIL import Image

    while together := [*islice(pictures, TOGETHER)]:
        height, width, _ = together[0].shape
        strip = Image.fromarray(np.concatenate(together))
        strip = strip.quantize(PALETTE_COLORS, dither=Image.Dither.NONE).convert("RGB")
        for top in range(0, strip.height, height):
            yield strip.crop((0, top, width, top + height))


def has_animation(log: viz.RunLog) -> bool:
    """Return whether the runs are of one depth, and some of them show gates, of no more kinds than there are panels."""
    return len(viz.depths_of(log)) == 1 and 1 <= len(viz.kinds_with_gates(log)) <= MOST_KINDS


def animate(
    path: str | os.PathLike, out: str | os.PathLike | None = None, style: str | os.PathLike | None = None
) -> Path:
    """Animate a log and return the path of the animation; by default it lies beside the log's pictures.

    style: a matplotlibrc whose lines change the look
    """
    log, path = viz.read_log(path), as_path(path)
    if not has_animation(log):
        found = f"depths {viz.depths_of(log)}, {len(viz.kinds_with_gates(log))} kinds that finished"
        expected = f"expected runs of one depth, of 1 to {MOST_KINDS} kinds with gates"
        raise InputError(f"{path}: {expected}, found {found}; make them with: {viz.COMMAND}")
    own = viz.own_folder(path)
    out = as_path(out) if out else Path(NAME) if own == Path("viz") else own / NAME
    check_drawn(out)
    n = min(len(viz.runs_with_gates(log)[0].gate_means), MOST_FRAMES)
    options: dict[str, Any] = {"loop": 0, "duration": [FRAME_MS] * (n - 1) + [LAST_FRAME_MS]}
    options["comment"] = f"{name_with_digest(path)}\n{renderer()}".encode()
    animation = BytesIO()
    with drawing(out.name, path), own_style(style, **{"figure.dpi": 100}):
        images = share_palettes(frames(log))
        next(images).save(animation, "GIF", save_all=True, append_images=images, **options)  # drawn as it writes
    make_place(out)
    with atomic_write(out) as file:
        file.write(animation.getbuffer())
    return out


def animate_command(arguments: argparse.Namespace) -> None:
    """Animate the logs that are named, or those here that can be, if any can; raises InputError."""
    if arguments.out and len(arguments.logs) != 1:
        raise InputError(f"--out: expected with one LOG.json, found {len(arguments.logs)}; name the log to animate")
    if arguments.out:
        check_suffix("--out", arguments.out, NAME)
    logs = arguments.logs or [path for path in viz.found_logs() if has_animation(viz.read_log(path))]
    for path in logs or viz.found_logs()[:1]:  # which says why it has no animation
        print(f"made {animate(path, arguments.out, arguments.style)}")


def main(argv: list[str] | None = None) -> int:
    parser = OneLineParser(prog="python make_highway_networks_gif.py", description="Animate run logs.")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG.json", help="with gates (default: run*.json here)")
    parser.add_argument("--out", type=Path, metavar="PATH", help=f"the animation (default: {NAME}, or below viz/)")
    add_style_flag(parser)
    return run_cli(parser, animate_command, argv)
