"""Picture, table and verdicts of what the sketch says beside its numbers; the rules stand in sketch.py."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, INK, draw_by_layer, draw_level, empty_figure, set_title
from highway_lab.intervals import interval
from highway_lab.logs import grouped
from highway_lab.tables import markdown
from highway_networks import Config

from .claims import OURS, Claim, Verdict, combine, holds, judge_better, require
from .common import CHANCE, group_by, points
from .common_figures import draw_dots
from .sketch import LEARNED, SketchLog, SketchRun

SKETCH = "sketch"
MOST, HALF = 0.9, 0.5  # of the nets
ACTIVATIONS = {"relu": "ReLU", "tanh": "tanh"}


def name_net(run: SketchRun) -> str:
    config = run.config
    weights = ", He's weights" * (config.init == "he")
    depth = count_of(config.depth, "block")
    return f"{config.block}, {ACTIVATIONS[config.activation]}{weights}, {depth}, {config.n_train:,} images"


def of_depths(log: SketchLog, is_one: Callable[[Config], bool]) -> dict[int, list[SketchRun]]:
    """Return the runs of some nets by depth."""
    return group_by((run for run in log.runs if is_one(run.config)), lambda run: run.config.depth)


def mean_gates(log: SketchLog, n_train: int) -> np.ndarray:
    """Return mean T by block of the highway nets for so many images that have not diverged, (nets, L)."""
    return np.array([run.measured for run in log.runs if run.measured and run.config.n_train == n_train])


def numbers_of_images(log: SketchLog) -> tuple[int, int]:
    """Return the numbers of training images, the lower first; a smoke run has one."""
    found = {run.config.n_train for run in log.runs}
    return min(found), max(found)


def early_minus_late(T: np.ndarray) -> np.ndarray:
    """Return the mean of the first half of T (nets, L) minus that of its second half, by net."""
    half = T.shape[1] // 2
    return T[:, :half].mean(axis=1) - T[:, -half:].mean(axis=1)


def figure(log: SketchLog) -> Figure:
    """Draw the test accuracy of every net, and mean T by block of the highway nets, few images and all."""
    nets, images = grouped(log.runs, name_net), numbers_of_images(log)
    highway, plain = (runs_on_all(log, block) for block in ("highway", "plain"))
    found = (
        f"{trained_of(highway)} highway nets and {trained_of(plain)} plain nets of {plain[0].config.depth} blocks train"
    )
    picture = empty_figure(6.2)
    set_title(picture, f"On all images, {found}")
    above, below = picture.subfigures(2, height_ratios=(1.15, 1))
    scores, gates = above.subplots(), below.subplots(ncols=2, sharey=True)
    for row, runs in enumerate(nets.values()):
        draw_dots(scores, points(runs), row, color=COLORS[runs[0].config.block])
    for level in (CHANCE, LEARNED):
        scores.axvline(100 * level, color=INK, linewidth=1, linestyle=(0, (3, 5)))
    scores.set_yticks(range(len(nets)), nets, fontsize=8)
    scores.invert_yaxis()
    scores.set(
        xlabel=f"test accuracy (%); dashed: guessing, and {100 * LEARNED:.0f} %",
        xlim=(0, 100),
    )
    for axes, n_train in zip(gates, images, strict=True):
        draw_by_layer(axes, mean_gates(log, n_train), label="highway", color=COLORS["highway"])
        draw_level(axes, 1 / (1 + math.exp(-Config.gate_bias)), "_")
        axes.set(xlabel="block", title=f"highway, {n_train:,} images")
    gates[0].set(ylabel="mean T", ylim=(0, None))
    return picture


def table(log: SketchLog) -> str:
    """Tabulate the test accuracy of each net, and how many of its seeds have trained."""
    rows = [
        [name, f"{interval(points(runs)):.1f}", trained_of(runs)] for name, runs in grouped(log.runs, name_net).items()
    ]
    return markdown(["net", "test accuracy, %", f"above {100 * LEARNED:.0f} %"], rows)


def share_trained(runs: list[SketchRun]) -> float:
    return float(np.mean(points(runs) > 100 * LEARNED))


def trained_of(runs: list[SketchRun]) -> str:
    return f"{round(share_trained(runs) * len(runs))} of {len(runs)}"


def judge_share(share: float) -> Verdict:
    """Judge "these nets train" by the share that does."""
    if share >= MOST:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if share < HALF else Verdict.INCONCLUSIVE


def runs_on_all(log: SketchLog, block: str) -> list[SketchRun]:
    """Return the deepest tanh nets of a kind that saw most images."""
    _, most = numbers_of_images(log)
    found = of_depths(log, lambda of: (of.block, of.activation, of.n_train) == (block, "tanh", most))
    return found[max(found)]


def claims(log: SketchLog) -> list[Claim]:
    few, most = numbers_of_images(log)
    lower = "lower blocks end with higher gates"
    return [
        relu_claim(log, SKETCH, "plain ReLU nets train at modest depth, even without skips", Config.init),
        relu_claim(
            log, OURS, "with He's weights, plain ReLU nets of 10 to 30 blocks train in the sketch's setting", "he"
        ),
        data_claim(log),
        gates_claim(log, SKETCH, lower, few),
        gates_claim(log, OURS, f"on {most:,} images, {lower}", most),
    ]


def relu_claim(log: SketchLog, section: str, sentence: str, init: str) -> Claim:
    """Judge whether plain ReLU nets of one way to draw weights train, at each depth."""
    nets = of_depths(log, lambda of: (of.activation, of.init) == ("relu", init))
    verdicts = {depth: judge_share(share_trained(runs)) for depth, runs in nets.items()}
    measured = ", ".join(f"{trained_of(runs)} at {depth}" for depth, runs in nets.items())
    why = holds(verdicts, "at {} blocks")
    measured = f"nets that train, by blocks: {measured}"
    return Claim(section, sentence, combine(verdicts.values()), why, measured, detail=True, before=True)


def data_claim(log: SketchLog) -> Claim:
    """Judge whether, on all images, deep highway nets and shallow plain ones train, and deep plain ones do not."""
    _, most = numbers_of_images(log)
    plain = of_depths(log, lambda of: (of.block, of.activation, of.n_train) == ("plain", "tanh", most))
    highway, deep, shallow = runs_on_all(log, "highway"), plain[max(plain)], plain[min(plain)]
    shares = share_trained(highway), 1 - share_trained(deep), share_trained(shallow)
    why = (
        f"On all images, {trained_of(highway)} highway nets of {max(plain)} blocks train and {trained_of(deep)} plain "
        f"ones; {trained_of(shallow)} plain nets of {min(plain)} blocks do. This is of one setting."
    )
    measured = "; ".join(
        f"{name}: {interval(points(runs)):.1f} %"
        for name, runs in grouped(log.runs, name_net).items()
        if runs[0].config.n_train == most
    )
    sentence = "that highway nets train and plain ones guess is a matter of depth, not of data"
    return Claim(SKETCH, sentence, require(*map(judge_share, shares)), why, measured, detail=True, before=True)


def gates_claim(log: SketchLog, section: str, sentence: str, n_train: int) -> Claim:
    """Judge whether lower blocks have higher gates in nets for so many images."""
    T = mean_gates(log, n_train)
    lead, half = early_minus_late(T), T.shape[1] // 2
    why = (
        f"The mean T of the first half of the blocks is {T[:, :half].mean():.3f}, that of the second half "
        f"{T[:, -half:].mean():.3f}. The first is higher in {np.count_nonzero(lead > 0)} of {len(T)} nets."
    )
    measured = f"first half minus second half: {interval(lead):+.3f}; {count_of(len(T), 'net')}"
    before = section == OURS  # on few images the answer was known
    return Claim(section, sentence, judge_better(interval(lead), 0.0), why, measured, detail=True, before=before)


FIGURES = {"sketch.png": figure}
TABLES = {"sketch": table}
