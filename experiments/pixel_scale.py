"""What is the scale of the pixels worth?

The dense nets see pixels from -1 to 1, as the sketch does; the paper does not say what its nets see. Here nets of 30
blocks of both kinds see the images of the depth sweep in three scales: from -1 to 1, from 0 to 1, and standardised,
which is less the mean of all training pixels, divided by their standard deviation. Each kind is trained in the sweep's
setting, and tuned anew in each scale: rate and first b_T of highway nets with normalised weights, rate and gain of
plain nets with orthogonal ones. Grids grow around their best. Validation images choose; five other seeds are scored on
all test images.

Rules, committed before the first run. A diverged run counts as one that guesses. A scale is worth something to a kind
of net if the 95 % interval of its difference from -1 to 1, in test accuracy and paired by seed, excludes 0. The lead
of highway nets hangs on the scale if the tuned leads of two scales, paired by seed, differ so.
"""

from dataclasses import dataclass

import numpy as np

from highway_lab.intervals import interval
from highway_networks import Dataset

from . import study_command
from .study import Arm, Cell, Results, Stage, Study, StudyRun, Task, accuracies

UNITS, BLOCKS, EPOCHS, SEEDS = 50, 30, 12, range(5)
PIXELS, UNIT, STANDARD = "from -1 to 1", "from 0 to 1", "standardised"
RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3)
ONE_SETTING = ", one setting"
ARMS = {
    "highway" + ONE_SETTING: Arm({"block": "highway"}, {"lr": (0.005,)}),
    "plain" + ONE_SETTING: Arm({"block": "plain"}, {"lr": (0.005,)}),
    "highway": Arm({"block": "highway", "init": "glorot"}, {"lr": RATES, "gate_bias": (-6.0, -4.0, -2.0)}),
    "plain": Arm({"block": "plain", "init": "orthogonal"}, {"lr": RATES, "init_gain": (1.0, 1.05, 1.1)}),
}
VALIDATION = {"n_train": 6_000, "n_validation": 2_000, "n_test": 1}


@dataclass(frozen=True)
class ScaledCell(Cell):
    """An arm whose nets see pixels in one scale."""

    scale: str


def scaled(images: np.ndarray, training: np.ndarray, scale: str) -> np.ndarray:
    """Return images (n, ...), uint8, in a scale, given those that train; a net takes bytes as numbers from -1 to 1."""
    if scale == PIXELS:
        return images
    mean, deviation = (training.mean(), training.std()) if scale == STANDARD else (0, 255)
    return ((images - mean) / deviation).astype(np.float32)


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net on images in the scale of its cell."""
    train_x, test_x = (scaled(of, data.train_x, task.cell.scale) for of in (data.train_x, data.test_x))
    return study_command.train(task, data._replace(train_x=train_x, test_x=test_x))


STUDY = Study(
    ARMS,
    [ScaledCell(arm, UNITS, BLOCKS, scale) for scale in (PIXELS, UNIT, STANDARD) for arm in ARMS],
    stages=[
        Stage((100,), EPOCHS, options=VALIDATION),
        Stage((101, 102), EPOCHS, best=3, options=VALIDATION),
        Stage(SEEDS, EPOCHS, best=1, options={"n_train": 6_000, "n_test": 10_000}, result="scored"),
    ],
    growth=4,
)


def numbers(results: Results) -> dict:
    """Return what the page quotes: accuracies in % and leads in points, by arm and scale."""
    runs = {(cell.arm, cell.scale): accuracies(of) for cell, of in results.by_cell().items()}
    scales = dict.fromkeys(scale for _, scale in runs)
    leads = {scale: runs["highway", scale] - runs["plain", scale] for scale in scales}
    return {
        "accuracy": {of: runs[of].mean() for of in runs},
        "worth": {
            (arm, scale): interval(runs[arm, scale] - runs[arm, PIXELS]) for arm, scale in runs if scale != PIXELS
        },
        "lead": {scale: interval(leads[scale]) for scale in leads},
        "grown": {scale: interval(leads[scale] - leads[PIXELS]) for scale in leads},
    }
