"""Section 4.1: are gates computation? What happens to an image that is given the gates of another one?

Each layer computes H of its input x, as usual, but mixes it by gates that are given: y = H(x)·T + x·(1 − T). KINDS
lists whose gates; an image's own are the control. Gates are given in all layers at once, and the error is measured, on
test images; nothing is chosen by them. (Commit 405c2b5 also has the error with gates given in one layer at a time; the
share of predictions that change, beside the same in the net before training; and a mirror experiment, which gives an
image the H of another one and leaves it its gates.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from highway_lab.fields import Share, dict_of
from highway_lab.figures import COLORS, FAINT_INK, INK, new_figure
from highway_lab.intervals import interval
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from ..claims import ACCURACY_MARGIN, combine, judge_better
from ..common_figures import PAPER
from ..study import Results, StudyRun, Task
from . import measurement, models
from .measurement import in_batches, walk

OWN, UNTRAINED = "own", "untrained net"
SAME, OTHER = "same class", "another class"  # donors that are images
CLASS_MEAN, OTHER_MEAN, OVERALL_MEAN = "mean of its class", "mean of another class", "mean of all"
KINDS = {  # of donors, as they are listed, and their colours, by the class that their gates tell: right, none, wrong
    OWN: INK,
    **dict.fromkeys((SAME, CLASS_MEAN), COLORS["highway"]),
    **dict.fromkeys((OVERALL_MEAN, UNTRAINED), COLORS["lstm"]),
    **dict.fromkeys((OTHER_MEAN, OTHER), COLORS["plain"]),
}
DIGITS = 4  # significant ones

Donor = Callable[[slice], np.ndarray]  # returns T of all layers, (L, D, B), for a slice of the images


@dataclass
class NetSwaps:
    """The error of a net on the test images, with the gates of each kind of donor in all layers."""

    error: dict_of(KINDS, Share)


def draw_partners(labels: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return, by kind, a donor's index for each image, (n,); its own if no other has its class."""
    rng.permutation(len(labels))  # once the order of a third kind of donor: the others stay those of the logged runs
    same, other = np.empty((2, len(labels)), int)
    for label in np.unique(labels):
        order = rng.permutation(np.flatnonzero(labels == label))
        same[order] = np.roll(order, 1)
        other[order] = rng.choice(np.flatnonzero(labels != label), len(order))
    return {SAME: same, OTHER: other}


def from_images(net: DeepNet, images: np.ndarray) -> Donor:
    """Return the donor of the gates that the net computes for images (n, ...), uint8."""
    return lambda part: net.forward(as_inputs(images[part], net.dtype))[1].T


def from_means(means: np.ndarray, labels: np.ndarray) -> Donor:
    """Return the donor of the mean T, of `means` (K, L, D), of the class in `labels` (n,)."""
    return lambda part: means[labels[part]].transpose(1, 2, 0)


def predict(net: DeepNet, images: np.ndarray, donor: Donor) -> np.ndarray:
    """Return as what images (n, ...), uint8, are predicted, (n,), with gates given in all layers."""
    found = np.empty(len(images), int)
    for part, x in in_batches(net, images, "swaps"):
        *_, y = walk(net, x, T=donor(part))
        found[part] = net.forward_from(y, net.depth).argmax(axis=1)
    return found


def train(task: Task, data: Dataset) -> StudyRun:
    """Load or train a net, and measure all swaps."""
    images, labels = data.test_x, data.test_y
    partners = draw_partners(labels, np.random.default_rng(task.config.seed))
    net, untrained = models.trained(task.config, data), Training(task.config, data).net
    means = measurement.class_means(net, data.train_x, data.train_y).astype(net.dtype)
    overall = np.average(means, axis=0, weights=np.bincount(data.train_y, minlength=len(means)))
    donors = {
        OWN: from_images(net, images),
        **{kind: from_images(net, images[of]) for kind, of in partners.items()},
        CLASS_MEAN: from_means(means, labels),
        OTHER_MEAN: from_means(means, labels[partners[OTHER]]),
        OVERALL_MEAN: from_means(np.broadcast_to(overall, means.shape), labels),
        UNTRAINED: from_images(untrained, images),
    }
    error = {kind: rounded(np.mean(predict(net, images, donors[kind]) != labels), DIGITS) for kind in KINDS}
    return StudyRun(None, task, net.params.flat.size, False, {}, NetSwaps(error))


STUDY = models.look_at(
    NetSwaps, models.BY_SETTING, models.SEEDS, criteria={"error": lambda run: run.measured.error[OWN]}
)


# ---------------------------------------------------------------------------------------- what was found


def by_setting(results: Results) -> dict[str, list[NetSwaps]]:
    return {cell.arm: [run.measured for run in runs] for cell, runs in results.by_cell().items()}


def errors(nets: Sequence[NetSwaps], kind: str) -> np.ndarray:
    """Return the error of each net in %, with gates of one kind of donor."""
    return np.array([100 * net.error[kind] for net in nets])


def numbers(results: Results) -> dict:
    """Return what the page quotes: means and intervals, in %, of ReLU, tanh from −2 and tanh from −4, in this order.

    The rule, in this form since the runs, judges by gates that depend on no image: do they cost more than an image's
    own? Gates of another class would not do, as they tell a wrong class. Untrained nets are no control: their error is
    that of chance, so they have nothing to lose. A question of ours is whether gates of the same class cost anything.
    """
    groups = by_setting(results)
    rise = {  # of the error, over that with an image's own gates
        kind: {of: interval(errors(nets, kind) - errors(nets, OWN)) for of, nets in groups.items()}
        for kind in (SAME, OVERALL_MEAN)
    }
    judged = {kind: {of: judge_better(rise[kind][of], ACCURACY_MARGIN) for of in groups} for kind in rise}
    return {
        "error": {kind: [of for nets in groups.values() for of in interval(errors(nets, kind))] for kind in KINDS},
        "rise": rise,
        "verdict": judged[OVERALL_MEAN].pop(PAPER),
        "of_others": combine(judged[OVERALL_MEAN].values()),
        "of_same_class": combine(judged[SAME].values()),
        "gate_bias": [models.SETTINGS[of].gate_bias for of in groups],
        "seeds": len(groups[PAPER]),
    }


TICKS = (0.1, 1, 10, 100)  # of errors in %


def figure(results: Results) -> Figure:
    """Draw, by setting, the error with gates given in all blocks: a row a donor, a dot a net, a bar the mean."""
    groups = by_setting(results)
    figure, panels = new_figure(
        "Gates of other classes cost trained nets accuracy", 3.4, ncols=len(groups), sharey=True
    )
    for axes, (setting, nets) in zip(panels, groups.items(), strict=True):
        for row, (kind, color) in enumerate(KINDS.items()):
            found = errors(nets, kind)
            axes.plot(found, [row] * len(found), "o", color=color, alpha=0.5, markersize=6, clip_on=False)
            axes.plot([found.mean()] * 2, [row - 0.35, row + 0.35], color=color)
        axes.axvline(errors(nets, OWN).mean(), color=FAINT_INK, linewidth=1, zorder=0)
        axes.set(title=setting, xscale="log", xlim=(0.03, TICKS[-1]), ylim=(len(KINDS) - 0.5, -0.5))  # the first on top
        axes.set_xticks(TICKS, TICKS)
        axes.minorticks_off()
    panels[0].set_yticks(range(len(KINDS)), KINDS)
    panels[1].set_xlabel("error (%), gates given in all blocks")
    return figure


FIGURES = {"gate_swaps.png": figure}
