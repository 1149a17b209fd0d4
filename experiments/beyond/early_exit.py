"""Early exits: the last layer classifies the state after l blocks, and a rule says which images leave there.

A rule gives the number of blocks after which each image leaves. A family of rules is an array (options, n): each option
leaves later than the one before it, for every image, and the last one is the whole net. There are two families: all
images leave at the same block, or each leaves where the net is first sure, that is where the highest softmax
probability p exceeds 1 − ε. Each half of the images chooses an option that is good enough; the other half measures it.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from highway_lab.fields import Count, NonEmpty
from highway_networks import DeepNet, rounded, with_ones

from ..looks.measurement import in_batches

DOUBTS = (  # ε; at 0 no image leaves early
    *(float(f"{digit}e-{power}") for power in range(1, 9) for digit in (5, 2, 1)),
    *(10.0**-power for power in range(9, 41)),  # some nets are as sure of wrong classes
    0.0,
)
LOST = 0.001  # an exit has to cost less accuracy
SEED = 0  # draws the halves


@dataclass
class Exit:
    """A family of rules: the option that each half chose, and its effect on the other half."""

    chosen: NonEmpty[Count]  # the option's index in its family, by half
    depth: float  # mean number of blocks computed
    lost: float  # accuracy of the whole net minus accuracy with exits
    lost_error: float  # standard error of `lost`, over paired images
    at_fixed_depth: float  # accuracy if all images leave at that mean depth


def exits(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the class is right, and the doubt 1 − p, after l = 0..L blocks: (L+1, n) each."""
    right, doubt = np.empty((net.depth + 1, len(images)), bool), np.empty((net.depth + 1, len(images)))
    for part, x in in_batches(net, images, "exits"):
        for l, state in enumerate(chain([x], (y for _, y in net.iterate_blocks(x)))):
            right[l, part], doubt[l, part] = classify(net, state, labels[part])
    return right, doubt


def classify(net: DeepNet, x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the last layer classifies states x (D, B) correctly, and its doubt, (B,) each.

    The doubt is a sum over the other classes, not a difference from 1, so that doubts below 1e-16 differ, too.
    """
    logits = (net.params.output @ with_ones(x, net.dtype)).astype(np.float64)  # (K, B)
    found = logits.argmax(axis=0)
    likelihoods = np.exp(logits - logits.max(axis=0))
    np.put_along_axis(likelihoods, found[None], 0, axis=0)
    others = likelihoods.sum(axis=0)
    return found == labels, others / (1 + others)


def confident(doubt: np.ndarray) -> np.ndarray:
    """Return the block after which each image leaves, for each of DOUBTS: (options, n), given the doubt (L+1, n)."""
    sure = np.array([doubt < level for level in DOUBTS])
    sure[:, -1] = True  # there is no further block
    return sure.argmax(axis=1)


def fixed(right: np.ndarray) -> np.ndarray:
    """Return the block after which each image leaves if all leave after 0..L blocks: (L+1, n)."""
    return np.indices(right.shape)[0]


def outcome(leaving: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return whether each image is classified correctly where it leaves, in the shape of `leaving` (..., n)."""
    return right[leaving, np.arange(right.shape[1])]


def choose(lost: np.ndarray) -> int:
    """Return the first option from which on none loses LOST or more; the last one loses nothing."""
    failing = np.flatnonzero(lost >= LOST)
    return int(failing[-1]) + 1 if len(failing) else 0


def measure_exit(leaving: np.ndarray, right: np.ndarray) -> Exit:
    """Choose an option of `leaving` (options, n) on each half of the images, and measure it on the other half."""
    images = leaving.shape[1]
    lost = right[-1] - outcome(leaving, right).astype(float)  # (options, n)
    halves = np.array_split(np.random.default_rng(SEED).permutation(images), 2)
    chosen = [choose(lost[:, half].mean(axis=1)) for half in halves]
    option = np.empty(images, int)
    option[halves[1]], option[halves[0]] = chosen
    own, depth = (of[option, np.arange(images)] for of in (lost, leaving))
    return Exit(
        chosen,
        depth=rounded(depth.mean()),
        lost=rounded(own.mean()),
        lost_error=rounded(own.std(ddof=1) / images**0.5),
        at_fixed_depth=rounded(np.interp(depth.mean(), np.arange(len(right)), right.mean(axis=1))),
    )
