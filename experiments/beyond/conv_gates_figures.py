"""Picture and table of where the gates of a convolutional net open."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.console import name_data
from highway_lab.figures import COLORS, FAINT_INK, empty_figure, label_ends, set_title
from highway_lab.tables import markdown

from .conv_gates import ConvGatesLog, Gates

KINDS = ("trained", "untrained")
SHOWN = slice(None, None, 2)  # every other digit
GAP = 1  # pixels about each image of a mosaic


def gates_figure(log: ConvGatesLog) -> Figure:
    """Draw T of each block at each pixel for every other digit, trained and untrained; below, its means by block."""
    figure = empty_figure(6.3)
    (strokes, background), untrained = map(means, (log.trained, log.untrained))
    more, before = strokes - background, np.subtract(*untrained)
    found = f"in {(more > np.fmax.reduce(before)).sum()} of {len(more)} blocks"
    set_title(figure, f"Gates open more on strokes: {found} by more than in any untrained block")
    upper, lower = figure.subfigures(2, height_ratios=[1.7, 1])
    pixels, blocks = inner_pixels(log), len(log.trained.strokes)
    side = len(pixels[0])
    digits, *panels = upper.subplots(ncols=3, width_ratios=[1, blocks, blocks])
    digits.imshow(mosaic([[image] for image in pixels[SHOWN]], side), cmap="gray_r")
    digits.set_axis_off()
    largest = max(np.max(T) for kind in KINDS for maps in getattr(log, kind).maps for T in maps)
    for axes, kind in zip(panels, KINDS, strict=True):
        image = axes.imshow(mosaic(getattr(log, kind).maps[SHOWN], side), vmin=0, vmax=largest)
        axes.set_title(f"{kind} net: T by block")
        axes.set_xticks((side + 2 * GAP) * (np.arange(blocks) + 0.5), range(1, blocks + 1))
        axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False, pad=0)
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    bar = {"location": "bottom", "aspect": 60, "label": "T, mean over maps (0: the block copies its input)"}
    upper.colorbar(image, ax=[digits, *panels], **bar)
    panels = lower.subplots(ncols=2, sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        draw_means(axes, getattr(log, kind), f"{kind} net: mean T, {log.images:,} images")
    panels[0].set_ylim(0)  # of both, so that neither is cut off by the other's range
    label_ends(*panels)
    return figure


def means(gates: Gates) -> np.ndarray:
    """Return mean T on strokes and on background, (2, L); NaN where there is no such pixel."""
    return np.array([gates.strokes, gates.background], float)


def mosaic(rows: Sequence[Sequence[Any]], side: int) -> np.ndarray:
    """Return square images, by row and column, as one image, each enlarged to `side` pixels, with gaps of NaN."""

    def enlarged(image: Any) -> np.ndarray:
        times = -(-side // len(image))
        return np.pad(np.kron(image, np.ones((times, times)))[:side, :side], GAP, constant_values=np.nan)

    return np.block([[enlarged(image) for image in row] for row in rows])


def draw_means(axes: Axes, gates: Gates, title: str) -> None:
    """Draw mean T on strokes and on background by block."""
    blocks = range(1, len(gates.strokes) + 1)
    for label, color in {"strokes": COLORS["highway"], "background": FAINT_INK}.items():
        axes.plot(blocks, np.array(getattr(gates, label), float), "o-", label=label, color=color, markersize=4)
    axes.set(title=title, xlabel="block", xticks=blocks)


def inner_pixels(log: ConvGatesLog) -> np.ndarray:
    """Return the images (n, h, w) without the frame that the first convolution takes off."""
    pixels = np.array(log.pixels)
    frame = (pixels.shape[1] - len(log.trained.maps[0][0])) // 2
    return pixels[:, frame : pixels.shape[1] - frame, frame : pixels.shape[2] - frame]


def gates_table(log: ConvGatesLog) -> str:
    """Tabulate mean T of each block on strokes and on background, and the difference, trained and untrained."""
    columns = {
        "block": [str(block + 1) for block in range(len(log.trained.strokes))],
        "pixels": [f"{len(T)} x {len(T[0])}" for T in log.trained.maps[0]],
    }
    for kind in KINDS:
        strokes, background = means(getattr(log, kind))
        columns[f"{kind}: strokes"] = [f"{T:.3f}" for T in strokes]
        columns[f"{kind}: background"] = [f"{T:.3f}" for T in background]
        columns[f"{kind}: difference"] = [f"{T:+.3f}" for T in strokes - background]
    table = markdown([*columns], [*map(list, zip(*columns.values(), strict=True))])
    score = f"{100 * log.test_score:.2f} % test accuracy"
    return f"{table}\n\nMean T over {log.images:,} test images of {name_data(log.dataset.name)}; one net, {score}."


FIGURES = {"conv_gates.png": gates_figure}
TABLES = {"conv_gates": gates_table}
