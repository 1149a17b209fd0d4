"""Section 4.1: are gates computation? What happens to an image that is given the gates of another one?

Each layer computes H of its input x, as usual, but mixes it by gates that are given: y = H(x)·T + x·(1 − T). KINDS
lists whose gates; an image's own are the control. The mirror experiment gives an image the H of another one and leaves
it its gates.

Measured: the error; the share of predictions that are the donor's class; the share that change, beside the same in the
net before training. Gates are given in all layers at once; for two kinds of donor also in one layer at a time. All on
test images; nothing is chosen by them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highway_lab.fields import Share, dict_of, lists_of
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, draw_level, new_figure
from highway_lab.intervals import interval
from highway_lab.logs import rounded_all
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from ..claims import ACCURACY_MARGIN, combine, judge_better
from ..common_figures import PAPER
from ..study import Results, StudyRun, Task
from . import measurement, models
from .measurement import in_batches, walk

GATES, STATES = "T", "H"  # the branches
OWN, UNTRAINED = "own", "untrained net"
SAME, OTHER, ANY = "same class", "another class", "any image"  # donors that are images
CLASS_MEAN, OTHER_MEAN, OVERALL_MEAN = "mean of its class", "mean of another class", "mean of all"
KINDS = (OWN, SAME, CLASS_MEAN, OVERALL_MEAN, UNTRAINED, ANY, OTHER, OTHER_MEAN)  # of donors, as they are listed
IMAGES = (OWN, SAME, OTHER, ANY)  # kinds for states, and for the net before training
DIGITS = 4  # significant ones

Donor = Callable[[slice], np.ndarray]  # returns a branch of all layers, (L, D, B), for a slice of the images


@dataclass
class Swap:
    """Effect of given gates, or H, in all layers at once, as shares of the images."""

    error: Share
    as_donor: Share  # predicted as the class of the donor, which is not the image's own
    changed: Share  # predicted as another class than with its own gates, or H


@dataclass
class Curves:
    """Errors with gates given in one layer only."""

    each: lists_of(Share, "L")


@dataclass
class NetSwaps:
    """Swaps in one net by kind of donor; `untrained`: gates swapped within the net before training."""

    error: Share
    gates: dict_of(KINDS, Swap)
    states: dict_of(IMAGES, Swap)
    untrained: dict_of(IMAGES, Swap)
    layers: dict_of((SAME, OTHER), Curves)  # of gates


def draw_partners(labels: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return, by kind, a donor's index for each image, (n,); its own if no other has its class."""

    def ring(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(images)
        return order, np.roll(order, 1)

    same, other, anyone = np.empty((3, len(labels)), int)
    order, following = ring(np.arange(len(labels)))
    anyone[order] = following
    for label in np.unique(labels):
        order, following = ring(np.flatnonzero(labels == label))
        same[order] = following
        other[order] = rng.choice(np.flatnonzero(labels != label), len(order))
    return {SAME: same, OTHER: other, ANY: anyone}


def from_images(net: DeepNet, images: np.ndarray, branch: str) -> Donor:
    """Return the donor of what the net computes in a branch for images (n, ...), uint8."""
    return lambda part: getattr(net.forward(as_inputs(images[part], net.dtype))[1], branch)


def from_means(means: np.ndarray, labels: np.ndarray) -> Donor:
    """Return the donor of the mean T, of `means` (K, L, D), of the class in `labels` (n,)."""
    return lambda part: means[labels[part]].transpose(1, 2, 0)


def measure_swap(
    net: DeepNet, images: np.ndarray, labels: np.ndarray, branch: str, donor: Donor, donor_labels: np.ndarray
) -> Swap:
    """Measure images (n, ...), uint8, with a branch given in all layers by donors of classes donor_labels (n,)."""
    found = np.empty(len(labels), int)
    for part, x in in_batches(net, images, "swaps"):
        *_, y = walk(net, x, **{branch: donor(part)})
        found[part] = net.forward_from(y, net.depth).argmax(axis=1)
    before = net.predict(as_inputs(images, net.dtype)).argmax(axis=1)
    return Swap(
        error=rounded(np.mean(found != labels), DIGITS),
        as_donor=rounded(np.mean((found == donor_labels) & (donor_labels != labels)), DIGITS),
        changed=rounded(np.mean(found != before), DIGITS),
    )


def measure_layers(net: DeepNet, images: np.ndarray, labels: np.ndarray, donor: Donor) -> Curves:
    """Measure gates given in one layer at a time."""
    wrong = np.zeros(net.depth)
    for part, _ in in_batches(net, images, "layers"):
        _, cache = net.forward(as_inputs(images[part], net.dtype))
        given = donor(part)
        for l in range(net.depth):
            *_, y = walk(net, cache.x[l], [l], T=given)
            wrong[l] += np.count_nonzero(net.forward_from(y, l + 1).argmax(axis=1) != labels[part])
    return Curves(rounded_all(wrong / len(labels), DIGITS))


def train(task: Task, data: Dataset) -> StudyRun:
    """Load or train a net, and measure all swaps."""
    config, images, labels = task.config, data.test_x, data.test_y
    partners = draw_partners(labels, np.random.default_rng(config.seed))

    def swap(net: DeepNet, branch: str, donors: dict[str, tuple[Donor, np.ndarray]]) -> dict[str, Swap]:
        return {kind: measure_swap(net, images, labels, branch, *by) for kind, by in donors.items()}

    def donors_of(net: DeepNet, branch: str) -> dict[str, tuple[Donor, np.ndarray]]:
        whose = {OWN: np.arange(len(labels))} | partners
        return {kind: (from_images(net, images[of], branch), labels[of]) for kind, of in whose.items()}

    with one_thread():
        net, untrained = models.trained(config, data), Training(config, data).net
        means = measurement.class_means(net, data.train_x, data.train_y).astype(net.dtype)
        another = labels[partners[OTHER]]
        overall = np.average(means, axis=0, weights=np.bincount(data.train_y, minlength=len(means)))
        no_image = {
            CLASS_MEAN: (from_means(means, labels), labels),
            OTHER_MEAN: (from_means(means, another), another),
            OVERALL_MEAN: (from_means(np.broadcast_to(overall, means.shape), labels), labels),
            UNTRAINED: (from_images(untrained, images, GATES), labels),
        }
        swaps = NetSwaps(
            error=rounded(np.mean(net.predict(as_inputs(images, net.dtype)).argmax(axis=1) != labels), DIGITS),
            gates=swap(net, GATES, donors_of(net, GATES) | no_image),
            states=swap(net, STATES, donors_of(net, STATES)),
            untrained=swap(untrained, GATES, donors_of(untrained, GATES)),
            layers={
                kind: measure_layers(net, images, labels, from_images(net, images[partners[kind]], GATES))
                for kind in (SAME, OTHER)
            },
        )
    return StudyRun(None, task, net.params.flat.size, False, {}, swaps)


STUDY = models.study(NetSwaps, criteria={"error": lambda run: run.measured.error})


# ---------------------------------------------------------------------------------------- what was found


def by_setting(results: Results) -> dict[str, list[NetSwaps]]:
    return {cell.arm: [run.measured for run in runs] for cell, runs in results.by_cell().items()}


def points(nets: Sequence[NetSwaps], branch: str, kind: str, measure: str = "error") -> np.ndarray:
    """Return a share of the images in %, of each net; `branch` is gates, states or untrained."""
    return np.array([100 * getattr(getattr(net, branch)[kind], measure) for net in nets])


def numbers(results: Results) -> dict:
    """Return what the page quotes: means and intervals, in %, of ReLU, tanh from −2 and tanh from −4, in this order.

    The rule, in this form since the runs, judges by gates that depend on no image: do they cost more than an image's
    own? Gates of another class would not do, as they tell a wrong class. Untrained nets are no control: their error is
    that of chance, so they have nothing to lose. A question of ours is whether gates of the same class cost anything.
    """
    groups = by_setting(results)

    def shares(branch: str, measure: str) -> dict[str, list[float]]:
        kinds = getattr(groups[PAPER][0], branch)
        return {
            kind: [of for nets in groups.values() for of in interval(points(nets, branch, kind, measure))]
            for kind in kinds
        }

    rise = {  # of the error, over that with an image's own gates
        kind: {of: interval(points(nets, "gates", kind) - points(nets, "gates", OWN)) for of, nets in groups.items()}
        for kind in (SAME, OVERALL_MEAN)
    }
    judged = {kind: {of: judge_better(rise[kind][of], ACCURACY_MARGIN) for of in groups} for kind in rise}
    return {
        "error": shares("gates", "error"),
        "changed": {"trained": shares("gates", "changed")[OTHER], "untrained": shares("untrained", "changed")[OTHER]},
        "as_donor": {"gates": shares("gates", "as_donor")[OTHER], "states": shares("states", "as_donor")[OTHER]},
        "rise": rise,
        "verdict": judged[OVERALL_MEAN].pop(PAPER),
        "of_others": combine(judged[OVERALL_MEAN].values()),
        "of_same_class": combine(judged[SAME].values()),
        "gate_bias": [models.SETTINGS[of].gate_bias for of in groups],
        "seeds": len(groups[PAPER]),
    }


RIGHT, NONE, WRONG = COLORS["highway"], COLORS["lstm"], COLORS["plain"]  # by the class that the donor's gates tell
DRAWN = {
    OWN: INK,
    **dict.fromkeys((SAME, CLASS_MEAN), RIGHT),
    **dict.fromkeys((OVERALL_MEAN, UNTRAINED), NONE),
    **dict.fromkeys((OTHER_MEAN, OTHER), WRONG),
}
TICKS = (0.1, 1, 10, 100)  # of errors in %


def figure(results: Results) -> Figure:
    """Draw, by setting, the error with gates given in all blocks, above, and its rise by the one that gets them."""
    groups = by_setting(results)
    figure, (above, below) = new_figure(
        "The wrong gates cost trained nets accuracy",
        6.2,
        nrows=2,
        ncols=len(groups),
        sharey="row",
        height_ratios=(1.25, 1),
    )
    for top, bottom, (setting, nets) in zip(above, below, groups.items(), strict=True):
        draw_donors(top, nets)
        top.set_title(setting)
        draw_level(bottom, 0, "_own")
        for kind in (SAME, OTHER):
            rises_by_block = [100 * (np.array(net.layers[kind].each) - net.error) for net in nets]
            draw_by_layer(bottom, np.array(rises_by_block), label=kind, color=DRAWN[kind])
    above[1].set_xlabel("error (%), gates given in all blocks")
    below[0].set_ylabel("rise in error (points)")
    below[1].set_xlabel("the only block that gets these gates")
    below[-1].legend(loc="upper right", handlelength=1, frameon=False, labelcolor="linecolor")
    return figure


def draw_donors(axes: Axes, nets: Sequence[NetSwaps]) -> None:
    """Draw the error with gates given in all blocks: a row a donor, a dot a net, a bar the mean."""
    for row, (kind, color) in enumerate(DRAWN.items()):
        errors = points(nets, "gates", kind)
        axes.plot(errors, [row] * len(errors), "o", color=color, alpha=0.5, markersize=6, clip_on=False)
        axes.plot([errors.mean()] * 2, [row - 0.35, row + 0.35], color=color)
    axes.axvline(np.mean([100 * net.error for net in nets]), color=FAINT_INK, linewidth=1, zorder=0)
    axes.set(xscale="log", xlim=(0.03, TICKS[-1]), ylim=(len(DRAWN) - 0.5, -0.5))  # the first on top
    axes.set_xticks(TICKS, TICKS)
    axes.minorticks_off()
    axes.set_yticks(range(len(DRAWN)), DRAWN)


FIGURES = {"gate_swaps.png": figure}
