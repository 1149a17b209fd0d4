"""Early exits: the last layer's classifier on the state after l blocks, and who may leave there.

A rule says after how many blocks each image leaves; a family of rules is (options, n), each option later for every
image than the one before it, and the last the whole net. Two families: all images leave at the same block, or each
where the net is first sure, that is where the highest softmax probability p exceeds 1 − ε. Which option is good enough
is chosen on one half of the images and measured on the other, and the other way round.
"""

from dataclasses import dataclass

import numpy as np

from highway_lab.logs import number
from highway_networks import DeepNet, with_ones

from .. import models

DOUBTS = (  # ε; 0: nobody leaves
    *(float(f"{digit}e-{power}") for power in range(1, 9) for digit in (5, 2, 1)),
    *(10.0**-power for power in range(9, 41)),  # some nets are that sure of what they get wrong
    0.0,
)
LOST = 0.001  # accuracy that an exit may cost: less than a tenth of a point
SEED = 0  # of the halves


@dataclass
class Exit:
    """A family of rules: the option chosen on each half, and what it does to the other half."""

    chosen: list[int]  # the option's place in its family, by half
    depth: float  # mean number of blocks computed
    lost: float  # accuracy of the whole net less that with exits
    lost_error: float  # standard error of `lost`, of paired images
    at_fixed_depth: float  # accuracy if all leave at the same block, of equal mean depth


def exits(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the class is right, and the doubt 1 − p, on leaving after l = 0..L blocks: (L+1, n) each."""
    right, doubt = np.empty((net.depth + 1, len(images)), bool), np.empty((net.depth + 1, len(images)))
    for part, x in models.in_batches(net, images, "exits"):
        right[0, part], doubt[0, part] = classify(net, x, labels[part])
        for l, (_, y) in enumerate(net.walk(x), start=1):
            right[l, part], doubt[l, part] = classify(net, y, labels[part])
    return right, doubt


def classify(net: DeepNet, x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the last layer classifies states x (D, B) rightly, and its doubt, (B,) each.

    As a sum over the other classes, not as a difference from 1: so that doubts below 1e-16 differ, too.
    """
    logits = (net.params.output @ with_ones(x, net.dtype)).astype(np.float64)  # (K, B)
    found = logits.argmax(axis=0)
    likelihoods = np.exp(logits - logits.max(axis=0))
    np.put_along_axis(likelihoods, found[None], 0, axis=0)
    others = likelihoods.sum(axis=0)
    return found == labels, others / (1 + others)


def confident(doubt: np.ndarray) -> np.ndarray:
    """After how many blocks each image leaves, for each of DOUBTS: (options, n), given the doubt (L+1, n)."""
    sure = np.array([doubt < level for level in DOUBTS])
    sure[:, -1] = True  # there is no further block
    return sure.argmax(axis=1)


def fixed(right: np.ndarray) -> np.ndarray:
    """The same where all leave after 0..L blocks: (L+1, n)."""
    layers, images = right.shape
    return np.repeat(np.arange(layers)[:, None], images, axis=1)


def outcome(leaving: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether each image is classified rightly where it leaves: of the shape of `leaving` (..., n)."""
    return right[leaving, np.arange(right.shape[1])]


def choose(lost: np.ndarray) -> int:
    """The first option (of those in order, the last of which loses nothing) from which on none loses LOST or more."""
    failing = np.flatnonzero(lost >= LOST)
    return int(failing[-1]) + 1 if len(failing) else 0


def measure_exit(leaving: np.ndarray, right: np.ndarray) -> Exit:
    """Choose an option of `leaving` (options, n) on each half of the images, and measure it on the other."""
    images = leaving.shape[1]
    lost = right[-1] - outcome(leaving, right).astype(float)  # (options, n)
    halves = np.array_split(np.random.default_rng(SEED).permutation(images), 2)
    chosen = [choose(lost[:, half].mean(axis=1)) for half in halves]
    option = np.empty(images, int)
    option[halves[1]], option[halves[0]] = chosen
    own, depth = (of[option, np.arange(images)] for of in (lost, leaving))
    return Exit(
        chosen,
        depth=number(depth.mean()),
        lost=number(own.mean()),
        lost_error=number(own.std(ddof=1) / images**0.5),
        at_fixed_depth=number(np.interp(depth.mean(), np.arange(len(right)), right.mean(axis=1))),
    )
