"""Picture and table of where the gates of a convolutional net open."""

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import name_data
from highway_lab.figures import empty_figure, markdown, set_title

from .conv_gates import ConvGatesLog, Gates

KINDS = ("trained", "untrained")


def gates_figure(log: ConvGatesLog) -> Figure:
    """Draw a row for each digit: its image, then T of each block, trained, then untrained; one scale."""
    figure, blocks = empty_figure(6.5), len(log.trained.strokes)
    figure.get_layout_engine().set(wspace=0.02, hspace=0.02, w_pad=0.01, h_pad=0.01)
    set_title(figure, f"{name_data(log.dataset.name)}: T of blocks 1 to {blocks}, mean over the maps of each\n")
    grid = figure.subplots(len(log.pixels), 2 * blocks + 3, width_ratios=[1, *[0.4, *[1] * blocks] * 2])
    for axes in grid.flat:
        axes.set_axis_off()
    for row, pixels in zip(grid[:, 0], inner_pixels(log), strict=True):
        row.imshow(pixels, cmap="gray_r", vmin=0, vmax=255)
    scale = {"vmin": 0, "vmax": max(np.max(T) for kind in KINDS for maps in getattr(log, kind).maps for T in maps)}
    for kind, panels in zip(KINDS, (grid[:, 2 : blocks + 2], grid[:, blocks + 3 :]), strict=True):
        for row, maps in zip(panels, getattr(log, kind).maps, strict=True):
            for axes, T in zip(row, maps, strict=True):
                image = axes.imshow(T, **scale)
        for block, axes in enumerate(panels[0]):
            axes.set_title(f"{kind}\n" * (block == 0) + str(block + 1), fontsize=9)
    figure.colorbar(image, ax=grid, location="bottom", aspect=50, label="T", pad=0.02)
    return figure


def inner_pixels(log: ConvGatesLog) -> np.ndarray:
    """Return the images (n, h, w) without the frame that the first convolution takes off."""
    pixels = np.array(log.pixels)
    frame = (pixels.shape[1] - len(log.trained.maps[0][0])) // 2
    return pixels[:, frame : pixels.shape[1] - frame, frame : pixels.shape[2] - frame]


def gates_table(log: ConvGatesLog) -> str:
    """Tabulate mean T of each block on strokes and on background, trained and untrained."""
    rows = []
    for block, T in enumerate(log.trained.maps[0]):
        cells = [cell for kind in KINDS for cell in places(getattr(log, kind), block)]
        rows.append([str(block + 1), f"{len(T)} x {len(T[0])}", *cells])
    header = ["block", "pixels", *(f"{kind}: {place}" for kind in KINDS for place in ("strokes", "background"))]
    return (
        f"{markdown(header, rows)}\n\nMean T over {log.images:,} test images of {name_data(log.dataset.name)}; one "
        f"net, of test accuracy {log.test_score:.4f}. Gates are further open on strokes than on background in "
        f"{further_open(log.trained)} of {len(rows)} blocks, untrained in {further_open(log.untrained)}."
    )


def places(gates: Gates, block: int) -> list[str]:
    """Return a block's mean T on strokes and on background."""
    values = gates.strokes[block], gates.background[block]
    return ["no such pixel" if value is None else f"{value:.3f}" for value in values]


def further_open(gates: Gates) -> int:
    """Count the blocks in which T is larger on strokes than on background."""
    pairs = zip(gates.strokes, gates.background, strict=True)
    return sum(None not in pair and pair[0] > pair[1] for pair in pairs)


FIGURES = {"conv_gates.png": gates_figure}
TABLES = {"conv_gates": gates_table}
