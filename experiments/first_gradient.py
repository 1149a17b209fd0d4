"""On which path does a gradient reach the first block?

    dx = (1 − T)·dy + what flows back through H and T

The first term is the direct path, on which the gradient meets no matrix. This study measures how much of a gradient
arrives at the first block, and how much of that on the direct path through all blocks, before training, after one epoch
and after the last: in the nets of the animation, of 30 blocks, in plain nets of other initial weights, and in highway
nets of 50 blocks whose gates start nearly closed. Nothing is chosen or judged: the settings are the sweep's.

Norms are taken over the first training images, and divided by that of the gradient behind the last block.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet

from . import study_command
from .flow import Paths, measure_paths
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, Task, accuracies

UNITS, EPOCHS, SEEDS = 50, Config.epochs, range(5)
SWEEP = {"lr": (Config.lr,)}
ARMS = {
    "plain": Arm({"block": "plain"}, SWEEP),
    "plain, glorot": Arm({"block": "plain", "init": "glorot"}, SWEEP),
    "plain, orthogonal": Arm({"block": "plain", "init": "orthogonal", "init_gain": 1.05}, SWEEP),
    "highway from −2": Arm({"block": "highway"}, SWEEP),
    "highway from −4": Arm({"block": "highway", "gate_bias": -4.0}, SWEEP),
}
BLOCKS = dict.fromkeys(ARMS, 30) | {"highway from −4": 50}
GUESSING = 20  # % of test images: twice chance
STATES = ("untrained", "after_one", "trained")


@dataclass
class PathsMeasured(Measured):
    """What is measured of a run: the paths of the gradient before training, after one epoch, and after the last."""

    untrained: Paths
    after_one: Paths
    trained: Paths


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net, and measure the paths of its gradient on the way."""

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> PathsMeasured:
        training = Training(task.config, data)
        untrained = measure_paths(training.net, training.data)
        next(training.epochs(scored=False))
        after_one, trained = (measure_paths(of, training.data) for of in (training.net, net))
        return PathsMeasured(**vars(common), untrained=untrained, after_one=after_one, trained=trained)

    return study_command.train(task, data, measure=measure)


STUDY = Study(
    ARMS,
    [Cell(arm, UNITS, BLOCKS[arm]) for arm in ARMS],
    stages=[Stage(SEEDS, EPOCHS, options={"n_train": 6_000, "n_test": 2_000}, result="scored")],
    measured=PathsMeasured,
)


def mean(runs: Iterable[StudyRun], state: str, path: str) -> float:
    """Return the geometric mean over runs of what a path leaves of the gradient."""
    return float(np.exp(np.mean([np.log(getattr(getattr(run.measured, state), path)) for run in runs])))


def numbers(results: Results) -> Mapping:
    """Return what pages quote: by arm, the share of the norm that arrives, in each state and on each path."""
    runs = {cell.arm: of for cell, of in results.by_cell().items()}
    scores = {arm: accuracies(of) for arm, of in runs.items()}
    gated = [arm for arm in runs if arm.startswith("highway")]
    return {
        "arrives": {state: {arm: mean(runs[arm], state, "all") for arm in runs} for state in STATES},
        "direct": {state: {arm: mean(runs[arm], state, "direct") for arm in gated} for state in STATES},
        "through": {state: {arm: mean(runs[arm], state, "through") for arm in gated} for state in STATES},
        "guess": all(max(of) < GUESSING for arm, of in scores.items() if arm.startswith("plain")),
        "bias": {arm: ARMS[arm].options.get("gate_bias", Config.gate_bias) for arm in gated},
    }
