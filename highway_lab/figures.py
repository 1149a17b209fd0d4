"""The shared look of pictures and tables: colours, sizes, lines for seeds, labels at line ends; and saving.

Figures are made without pyplot, so that no window system is needed, and saved in a style of their own, which leaves
matplotlib's settings as they were. The same log gives the same bytes, as PNG, PDF or SVG.
"""

import hashlib
import html
import io
import os
import platform
import re
import textwrap
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import CenteredNorm, to_rgb
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from highway_lab.cli import FORMATS
from highway_lab.files import as_path, atomic_write, make_place, printable, read_bytes
from highway_networks import InputError

WIDTH = 8.3  # inches: the width of a README's column at 100 pixels an inch
INK, FAINT_INK = "#333333", "#767676"

BLOCK_COLORS = {  # of Okabe & Ito
    "highway": "#0072B2",
    "plain": "#D55E00",
    "residual": "#009E73",
    "highway-uncoupled": "#CC79A7",
    "residual-scaled": "#56B4E9",
    "lstm": "#E69F00",
}
SPARE_COLORS = ("#882255", "#44AA99", "#999933", "#332288", "#CC6677", "#117733", "#DDCC77", "#AA4499")
COLORS = defaultdict(cycle(SPARE_COLORS).__next__, BLOCK_COLORS)  # another block gets the next, in each picture anew
SEQUENTIAL = "viridis"  # ordered values: layers, gates
LABEL_PAD = 7  # from the axes to a label, in points
LABEL_GAP = 1.25  # smallest distance between two labels' middles, in font sizes

STYLE: dict[str, Any] = {
    "axes.edgecolor": FAINT_INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "figure.dpi": 200,  # for dense screens
    "figure.titlesize": 13,
    "font.size": 11,
    "image.cmap": SEQUENTIAL,
    "lines.linewidth": 2.5,
    "lines.solid_capstyle": "round",
    "svg.hashsalt": "highway",  # else each picture has identifiers of its own
    "text.color": INK,
    "xtick.color": FAINT_INK,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT_INK,
    "ytick.labelcolor": INK,
}


@contextmanager
def own_style(**usual: Any) -> Iterator[None]:
    """Draw in STYLE for a while, with `usual` in it: a user's settings would change a picture's bytes."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | usual)
        COLORS.clear()  # what was drawn before must not change the colours of the next picture
        COLORS.update(BLOCK_COLORS)
        COLORS.default_factory = cycle(SPARE_COLORS).__next__
        yield


def new_figure(title: str, height: float, **subplots: Any) -> tuple[Figure, Axes]:
    """Return a figure of README width and its axes (an array if `subplots` asks for several); height in inches."""
    figure = empty_figure(height)
    set_title(figure, title)
    return figure, figure.subplots(**subplots)


def empty_figure(height: float) -> Figure:
    """Return a figure of README width without axes; height in inches."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
    return figure


def in_parts(draw: Callable[[FigureBase, Any], None], logs: Sequence[Any], height: float) -> Figure:
    """Return a figure with a part for each log, `height` inches each, that draw(part, log) fills."""
    figure = empty_figure(height * len(logs))
    for part, log in zip(figure.subfigures(len(logs), squeeze=False)[:, 0], logs, strict=True):
        draw(part, log)
    return figure


def set_title(figure: FigureBase, title: str, *, math: bool = False) -> None:
    """Set the title of a figure, or replace it; `math`: whether a $ in it begins mathematics.

    A title that is wider than the figure, as names of a user's images may make it, takes several lines.
    """
    text = figure.suptitle(title, x=0.01, horizontalalignment="left", parse_math=math)
    room, width = 0.99 * figure.bbox.width, text.get_window_extent().width
    if room < width:
        lines = title.replace(" %", "\u00a0%").replace(" ± ", "\u00a0±\u00a0").split("\n")
        letters = max(1, int(0.9 * room / width * max(map(len, lines))))
        text.set_text("\n".join(textwrap.fill(line, letters, break_long_words=False) for line in lines))


def draw_seeds(
    axes: Axes, x: np.ndarray, curves: np.ndarray, *, label: str, center: Any = np.mean, **style: Any
) -> None:
    """Draw every seed's curve faint and their `center` bold; curves is (seeds, len(x)), NaN where there is no value.

    The mean ends where a seed has no value: a seed that diverges must not improve it by leaving. For a median, give a
    diverged seed the value inf.
    """
    if len(curves) > 1:
        axes.plot(x, curves.T, linewidth=1, alpha=0.4, clip_on=False, **style | {"markersize": 3})
    middle = center(curves, axis=0)
    axes.plot(x, np.where(np.isfinite(middle), middle, np.nan), label=label, clip_on=False, **style)


def pale(color: str, strength: float) -> tuple[float, ...]:
    """Return a colour mixed with white; unlike a transparent one, it hides what lies beneath."""
    return tuple(1 - strength * (1 - channel) for channel in to_rgb(color))


def draw_level(axes: Axes, value: float, label: str) -> None:
    """Draw a dashed level for comparison, such as chance."""
    axes.axhline(value, color=INK, linewidth=1, linestyle=(0, (3, 5)), label=label, zorder=3)


def label_ends(*panels: Axes) -> dict[Axes, dict[Line2D, Annotation]]:
    """Write the label of every labelled line right of its axes, where the line ends; call it when all else is drawn."""
    labels = {
        axes: {
            line: axes.annotate(
                line.get_label(),
                xy=(1, end_height(line)),
                xycoords=axes.get_yaxis_transform(),
                xytext=(LABEL_PAD, 0),
                textcoords="offset points",
                color=line.get_color(),
                verticalalignment="center",
                annotation_clip=False,
            )
            for line in axes.lines
            if not line.get_label().startswith("_")
        }
        for axes in panels
    }
    panels[0].figure.figure.draw_without_rendering()  # only the layout knows how tall the axes are
    for axes in panels:
        place_labels(axes, labels[axes])
    return labels


def place_labels(axes: Axes, labels: Mapping[Line2D, Annotation]) -> None:
    """Move each label to the height at which its line ends, apart from the others and within the axes' height."""
    if not labels:
        return
    ends = [end_height(line) for line in labels]
    points_a_pixel = 72 / axes.figure.dpi
    heights = axes.get_yaxis_transform().transform([(1, end) for end in ends])[:, 1] * points_a_pixel
    tallest = max(label.get_window_extent().height for label in labels.values()) * points_a_pixel
    gap = max(tallest, LABEL_GAP * max(label.get_fontsize() for label in labels.values()))
    bottom, top = axes.bbox.intervaly * points_a_pixel
    places = spread(heights, gap, bottom + gap / 2, top)
    for label, end, shift in zip(labels.values(), ends, places - heights, strict=True):
        label.xy, label.xyann = (1, end), (label.xyann[0], shift)


def end_height(line: Line2D) -> float:
    """Return the last value of a line that is not NaN; the bottom of the axes if it has none."""
    y = np.asarray(line.get_ydata(), float)
    return next(iter(y[~np.isnan(y)][::-1]), line.axes.get_ylim()[0])


def spread(positions: np.ndarray, gap: float, lowest: float, highest: float) -> np.ndarray:
    """Return the positions moved as little as possible (least squares), at least `gap` apart and within the bounds."""
    from scipy.optimize import isotonic_regression  # imports in half a second

    order, steps = np.argsort(positions, kind="stable"), gap * np.arange(len(positions))
    risen = isotonic_regression(positions[order] - steps).x  # minus their steps, positions must not fall
    moved = np.empty(len(positions))
    moved[order] = np.clip(risen, lowest, highest - steps[-1]) + steps
    return moved


def draw_by_layer(axes: Axes, curves: np.ndarray, **style: Any) -> None:
    """Draw curves (seeds, L) with `draw_seeds` against the layers 1 to L."""
    depth = curves.shape[1]
    point = {"marker": "o"} if depth == 1 else {}  # no line shows it
    draw_seeds(axes, np.arange(1, depth + 1), curves, **style, **point)
    axes.set_xlim(1, max(depth, 2))
    number_layers(axes.xaxis, depth)


def number_layers(axis: Axis, depth: int) -> None:
    """Set a few ticks for layers, which count from 1; layer 1 has one."""
    ticks = {1, *MaxNLocator(6, integer=True).tick_values(1, depth).astype(int)}
    axis.set_ticks(sorted(tick for tick in ticks if 1 <= tick <= depth))


def differences(values: Any, center: float = 0) -> dict:
    """Return imshow's keywords for differences: a diverging map whose neutral colour is `center`."""
    return {"cmap": "RdBu_r", "norm": CenteredNorm(center, halfrange=np.nanmax(np.abs(values)))}


def picture_folder(log: str | os.PathLike, committed: Path) -> Path:
    """Return the folder of a log's pictures: viz/ for the committed log STEM.json, by whatever path, for others below.

    That is viz/REST/ for STEM-REST.json or any other name. So the pictures of another place, data set, net or budget do
    not replace those of the committed logs.
    """
    if os.path.realpath(log) == os.path.realpath(committed):
        return Path("viz")
    rest = Path(log).stem.removeprefix(f"{committed.stem}-")
    return Path("viz", rest if rest.strip(".") else "unnamed")  # not viz/..


@contextmanager
def drawing(what: object, *sources: str | os.PathLike) -> Iterator[None]:
    """Turn whatever is raised while a picture or a table is made of logs into an InputError that names it and them.

    Each field of a log has been checked by then: the log contradicts itself in some other way.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        found = " ".join(f"{type(error).__name__}: {error}".split())[:150]
        logs = ", ".join(map(str, sources))
        raise InputError(f"{logs}: expected a log to make {what} of, found: {found}; make the log anew") from error


def save_all(
    pictures: Mapping[str, Callable[[], Figure | str | bytes]],
    folder: Path,
    *sources: str | os.PathLike,
    out: str | os.PathLike | None = None,
    format: str | None = None,
) -> list[Path]:
    """Draw pictures, functions that return a figure, a page of HTML or a file's bytes; return where they are.

    They are written when all are drawn, into `folder`, unless the flags of `add_picture_flags` say otherwise: an `out`
    that is named like one of them is this one. Their metadata name their logs, `sources`. Raises InputError if one
    cannot be drawn or written, or if a file is in its place that is no picture of a log.
    """
    out = as_path(out) if out else None
    if out and len(chosen := [name for name in pictures if Path(name).stem == out.stem]) == 1 and out.suffix:
        pictures = {name: pictures[name] for name in chosen}
    paths = places([*pictures], folder, out, format)
    check_drawn(*paths)
    origin, drawn = "\n".join(map(name_with_digest, sources)), {}
    for path, draw in zip(paths, pictures.values(), strict=True):
        with drawing(path.name, *sources), own_style():
            drawn[path] = _content(draw(), origin, path.suffix)
    for path, content in drawn.items():
        make_place(path)
        with atomic_write(path) as file:
            file.write(content)
    return paths


def places(names: Sequence[str], folder: Path, out: Path | None = None, format: str | None = None) -> list[Path]:
    """Return the paths of pictures: in `out`, else `folder`, or `out` itself if it is a file for a single one."""
    if out is None or out.is_dir() or not out.suffix[1:].isalpha():
        return [(out or folder) / re.sub("png$", format or "png", name) for name in names]
    if len(names) != 1:
        remedy = f"try --out {out.with_suffix('')}, and --format, or a name like {Path(names[0]).stem}.{FORMATS[0]}"
        raise InputError(f"--out: expected a folder for {len(names)} pictures, found {out}; {remedy}")
    endings = [f".{of}" for of in FORMATS] if names[0].endswith(".png") else [Path(names[0]).suffix]
    if out.suffix not in endings:
        expected = f"a folder, or a name that ends with {', '.join(endings)}"
        raise InputError(f"--out: expected {expected}, found {out}; choose another")
    if format not in (None, out.suffix[1:]):
        raise InputError(f"--format: expected {out.suffix[1:]}, as in --out {out}, found {format}; leave one out")
    return [out]


def check_drawn(*paths: Path) -> None:
    """Raise InputError for a file that is no picture of a log, as it has no digest of one in it."""
    for path in paths:
        if path.is_file() and b" sha256 " not in read_bytes(path):
            found = "expected no file, or a picture of a log, found another"
            raise InputError(f"{path}: {found}; move it, or choose another place")


METADATA = {  # names of origin, software and, where it has one by default, date: that would change the bytes
    ".png": ("Source", "Comment"),
    ".pdf": ("Subject", "Keywords", "CreationDate"),
    ".svg": ("Source", "Description", "Date"),
}


def _content(picture: Figure | str | bytes, origin: str, suffix: str) -> bytes:
    """Return the bytes of a figure in the format of a suffix, or of a page of HTML, with its origin; bytes as given."""
    if isinstance(picture, bytes):
        return picture
    if isinstance(picture, str):
        about = {"source": origin, "generator": page_renderer()}
        tags = "".join(f'\n<meta name="{name}" content="{html.escape(of)}">' for name, of in about.items())
        return picture.replace("<head>", f"<head>{tags}", 1).encode()
    file = io.BytesIO()
    if suffix == ".pdf":  # in which other texts are not as they are written
        origin = origin.encode("ascii", "backslashreplace").decode()
    metadata = dict(zip_longest(METADATA[suffix], (origin, renderer())))
    picture.savefig(file, format=suffix[1:], metadata=metadata)
    return file.getvalue()


def name_with_digest(log: str | os.PathLike) -> str:
    """Return a log's name and the SHA-256 of its bytes: a picture holds those of its log."""
    return f"{printable(Path(log).name)} sha256 {hashlib.sha256(as_path(log).read_bytes()).hexdigest()}"


def renderer() -> str:
    """Return the software that a picture's bytes depend on: where it differs, bytes of one log differ too."""
    import PIL

    return f"matplotlib {matplotlib.__version__}, pillow {PIL.__version__}, {platform.system()} {platform.machine()}"


def page_renderer() -> str:
    """Return the software that a page's bytes depend on, by its colours and its compressed data."""
    return f"matplotlib {matplotlib.__version__}, zlib {zlib.ZLIB_RUNTIME_VERSION}"
