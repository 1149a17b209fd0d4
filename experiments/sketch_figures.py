"""Picture, table and verdicts of what the sketch says beside its numbers."""

import math

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import COLORS, INK, draw_by_layer, draw_level, new_figure
from highway_lab.intervals import interval
from highway_lab.tables import markdown
from highway_networks import Config

from .claims import Claim, Verdict, combine, holds, in_words, judge_better, require
from .common import CHANCE, points
from .common_figures import draw_dots
from .sketch import LEARNED, SketchLog, SketchRun

SKETCH = "sketch"
MOST, HALF = 0.9, 0.5  # of the nets
ACTIVATIONS = {"relu": "ReLU", "tanh": "tanh"}


def name_net(run: SketchRun) -> str:
    config = run.config
    depth = count_of(config.depth, "block")
    return f"{config.block}, {ACTIVATIONS[config.activation]}, {depth}, {config.n_train:,} images"


def by_net(log: SketchLog) -> dict[str, list[SketchRun]]:
    """Return the runs of each net, in the order of the log."""
    names = dict.fromkeys(map(name_net, log.runs))
    return {name: [run for run in log.runs if name_net(run) == name] for name in names}


def figure(log: SketchLog) -> Figure:
    """Draw the test accuracy of every net, and mean T by block of highway nets that saw all images."""
    nets, T, counts = by_net(log), mean_gates(log), on_all_images(log)
    found = [f"{n_trained(runs)} of {count_of(len(runs), f'{block} net')}" for block, runs in counts.items()]
    picture, (scores, gates) = new_figure(f"On all images, {in_words(found)} train", 3.4, ncols=2, width_ratios=(3, 2))
    for row, runs in enumerate(nets.values()):
        draw_dots(scores, points(runs), row, color=COLORS[runs[0].config.block])
    scores.axvline(100 * CHANCE, color=INK, linewidth=1, linestyle=(0, (3, 5)))
    scores.set_yticks(range(len(nets)), nets, fontsize=8)
    scores.invert_yaxis()
    scores.set(xlabel="test accuracy (%); dashed: guessing", xlim=(0, 100))
    draw_by_layer(gates, T, label="highway", color=COLORS["highway"])
    draw_level(gates, 1 / (1 + math.exp(-Config.gate_bias)), "_")
    gates.set(xlabel="block", ylabel="mean T (dashed: at the start)", ylim=(0, None))
    return picture


def mean_gates(log: SketchLog) -> np.ndarray:
    """Return mean T by block of the highway nets that have not diverged, (nets, L)."""
    return np.array([run.measured for run in log.runs if run.measured is not None])


def early_minus_late(T: np.ndarray) -> np.ndarray:
    """Return the mean of the first half of T (nets, L) minus that of its second half, by net."""
    half = T.shape[1] // 2
    return T[:, :half].mean(axis=1) - T[:, -half:].mean(axis=1)


def table(log: SketchLog) -> str:
    """Tabulate the test accuracy of each net, and how many of its seeds have trained."""
    rows = [
        [name, f"{interval(points(runs)):.1f}", f"{n_trained(runs)} of {len(runs)}"]
        for name, runs in by_net(log).items()
    ]
    return markdown(["net", "test accuracy, %", f"above {100 * LEARNED:.0f} %"], rows)


def n_trained(runs: list[SketchRun]) -> int:
    return np.count_nonzero(points(runs) > 100 * LEARNED)


def claims(log: SketchLog) -> list[Claim]:
    return [judge_relu(log), judge_data(log), judge_gates(log)]


def judge_relu(log: SketchLog) -> Claim:
    """Judge whether plain ReLU nets train, at each depth."""
    nets = {runs[0].config.depth: runs for runs in by_net(log).values() if runs[0].config.activation == "relu"}
    verdicts = {depth: judge_share(n_trained(runs) / len(runs)) for depth, runs in nets.items()}
    counts = [f"{n_trained(runs)} of {len(runs)} at {depth}" for depth, runs in nets.items()]
    return Claim(
        SKETCH,
        "plain ReLU nets train at modest depth, even without skips",
        combine(verdicts.values()),
        holds(verdicts, "at {} blocks"),
        f"nets that train, by blocks: {', '.join(counts)}",
        detail=True,
        before=True,
    )


def judge_share(share: float) -> Verdict:
    """Judge "these nets train" by the share that does."""
    if share >= MOST:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if share < HALF else Verdict.INCONCLUSIVE


def judge_data(log: SketchLog) -> Claim:
    """Judge whether highway nets train and plain ones do not if they see all images."""
    nets = on_all_images(log)
    shares = {block: n_trained(runs) / len(runs) for block, runs in nets.items()}
    guess = judge_share(1 - shares["plain"])
    counts = {block: f"{n_trained(runs)} of {count_of(len(runs), f'{block} net')}" for block, runs in nets.items()}
    scores = {block: f"{block} {interval(points(runs)):.1f} %" for block, runs in nets.items()}
    return Claim(
        SKETCH,
        "that highway nets train and plain ones guess is a matter of depth, not of data",
        require(judge_share(shares["highway"]), guess),
        f"On all images, {counts['highway']} train, and {counts['plain']}.",
        "; ".join(scores.values()),
        detail=True,
        before=True,
    )


def on_all_images(log: SketchLog) -> dict[str, list[SketchRun]]:
    """Return the runs that saw most images, by kind of block."""
    most = max(run.config.n_train for run in log.runs)
    return {
        block: [run for run in log.runs if (run.config.block, run.config.n_train) == (block, most)]
        for block in ("highway", "plain")
    }


def judge_gates(log: SketchLog) -> Claim:
    """Judge whether lower blocks have higher gates."""
    lead = interval(early_minus_late(mean_gates(log)))
    verdict = judge_better(lead, 0.0)
    T = mean_gates(log)
    half = T.shape[1] // 2
    means = T[:, :half].mean(), T[:, -half:].mean()
    return Claim(
        SKETCH,
        "lower blocks end with higher gates",
        verdict,
        f"The mean T of the first half of the blocks is {means[0]:.3f}, that of the second half {means[1]:.3f}.",
        f"first half minus second half: {lead:+.3f}; {count_of(len(T), 'net')}",
        detail=True,
        before=True,
    )


FIGURES = {"sketch.png": figure}
TABLES = {"sketch": table}
