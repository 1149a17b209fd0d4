"""Do three remarks of the sketch that this project set out from hold: on ReLU, on the number of images, on the gates?

The sketch trains one net of each depth and kind on 6,000 images of MNIST, with tanh and one setting for all nets, which
is highway_networks.py's own; its numbers stand in depth_sweep.py. Beside them it makes three remarks, which are tested
here with ten seeds. A net trains if it reads more than LEARNED of the test images, twice what guessing gives; nets of
one kind train if at least nine of ten do, they do not if fewer than half do, and else the evidence does not decide.

- Plain nets with ReLU train at modest depth even without skips: whether plain ReLU nets of 10, 20 and 30 blocks train.
  Beside the sketch's weights stand He's, which are made for ReLU, as a question of ours.
- That highway nets of 30 blocks train where plain ones guess is a matter of depth, not of data. It holds if, on all
  60,000 images, highway nets of 30 blocks train, plain ones do not (at most one of ten does), and plain ones of 5 do.
- Lower blocks, those near the input, end with higher gates. It holds if the mean T of the first half of the blocks,
  minus that of the second half, lies above 0 (95 % interval over nets of 30 blocks), does not if it lies below, and
  else the evidence does not decide. On 6,000 images, as in the sketch; on all images it is a question of ours.

These rules were committed before a first run, but for what was added after it: He's weights, plain nets of 5 and 10
blocks on all images, and gates on 6,000 images, where the answer was known from the depth sweep. A net that diverged
has not trained, and has no gates.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from highway_lab.fields import Count, Share
from highway_lab.intervals import interval
from highway_lab.logs import rounded_all
from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet

from . import study_command
from .claims import Verdict, combine, judge_better, require
from .common import CHANCE
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, Task, accuracies

LEARNED = 2 * CHANCE
MOST, HALF = 0.9, 0.5  # of the nets
UNITS, SHALLOW, DEPTH, SEEDS = Config.hidden, 5, 30, range(10)
DEPTHS = (10, 20, DEPTH)
FEW, ALL = 6_000, 60_000  # images
N_TEST = {FEW: 2_000, ALL: 10_000}
GATE_IMAGES = 1_000  # training images over which mean T is taken
RATE, RELU = {"lr": (Config.lr,)}, {"block": "plain", "activation": "relu"}
ARMS = {
    "plain, ReLU": Arm(RELU, RATE),
    "plain, ReLU, He's weights": Arm(RELU | {"init": "he"}, RATE),
    "highway": Arm({"block": "highway"}, RATE),
    "plain": Arm({"block": "plain"}, RATE),
}


@dataclass(frozen=True)
class ImagesCell(Cell):
    """An arm in one size that learns so many images."""

    n_train: Count


@dataclass
class GatesMeasured(Measured):
    """What is measured of a run; `opened` is the mean T of each block, null where the net has no gates, or diverged."""

    opened: list[Share] | None


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net, and measure its gates over the first images that it has learned."""
    images = Training(task.config, data).data.train_x[:GATE_IMAGES]

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> GatesMeasured:
        known = net.has_gates and common.train_loss is not None
        opened = rounded_all(net.gate_means(net.preprocess(images)), digits=4) if known else None
        return GatesMeasured(**vars(common), opened=opened)

    return study_command.train(task, data, measure=measure)


def configure(fields: Mapping, cell: ImagesCell, stage: Stage) -> ArmConfig:
    sizes = {"hidden": cell.hidden, "depth": cell.depth, "n_train": cell.n_train, "n_test": N_TEST[cell.n_train]}
    return ArmConfig(**sizes, **fields)


STUDY = Study(
    ARMS,
    [
        *(ImagesCell(arm, UNITS, depth, FEW) for arm in tuple(ARMS)[:2] for depth in DEPTHS),
        *(ImagesCell("highway", UNITS, DEPTH, images) for images in (FEW, ALL)),
        *(ImagesCell("plain", UNITS, depth, ALL) for depth in (SHALLOW, 10, DEPTH)),
    ],
    stages=(Stage(SEEDS, Config.epochs, result="scored"),),
    configure=configure,
    own=lambda name, arm: ImagesCell(name, UNITS, DEPTH, FEW),
    measured=GatesMeasured,
)


def judge_share(share: float) -> Verdict:
    """Judge "these nets train" by the share that does."""
    if share >= MOST:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if share < HALF else Verdict.INCONCLUSIVE


def judge_depth(highway: float, deep: float, shallow: float) -> Verdict:
    """Judge "it is depth" by the shares that train of highway nets, and of as deep and of shallow plain ones."""
    return require(*map(judge_share, (highway, 1 - deep, shallow)))


def halves(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the first half and that of the second half of T (nets, L), by net."""
    half = T.shape[1] // 2
    return T[:, :half].mean(axis=1), T[:, -half:].mean(axis=1)


def numbers(results: Results) -> dict:
    """Return what the page quotes; by arm, blocks and images, gates by images."""
    found = {(of.arm, of.depth, of.n_train): runs for of, runs in results.by_cell().items()}
    scores = {of: accuracies(runs) for of, runs in found.items()}
    train = {of: int((values > 100 * LEARNED).sum()) for of, values in scores.items()}
    share = {of: train[of] / len(scores[of]) for of in scores}
    opened = {of: [run.measured.opened for run in found["highway", DEPTH, of] if run.measured.opened] for of in N_TEST}
    gates = {images: halves(np.array(T)) for images, T in opened.items()}
    lead = {images: interval(first - second) for images, (first, second) in gates.items()}
    return {
        "accuracy": {of: interval(values) for of, values in scores.items()},
        "train": train,
        "relu": {arm: combine(judge_share(share[of]) for of in share if of[0] == arm).value for arm in tuple(ARMS)[:2]},
        "depth": judge_depth(share["highway", DEPTH, ALL], share["plain", DEPTH, ALL], share["plain", SHALLOW, ALL]),
        "lower": {images: judge_better(of, 0.0).value for images, of in lead.items()},
        "lead": lead,
        "first_higher": {images: int((first > second).sum()) for images, (first, second) in gates.items()},
        "diverged": sum(run.diverged for runs in found.values() for run in runs),
    }
