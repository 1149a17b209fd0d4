"""Does batch normalisation help a convolutional highway net, or a plain one?

The paper's nets have none: it appeared in the same year. A widely read implementation of the highway convolution puts
it between H's affine map and its activation. Here table 1's net of 16 maps has it or not, highway and plain, over three
seeds, with 20,000 images and 6 epochs. All four have the setting that table 1's nets have here; nothing was tuned.

Nets are compared seed by seed, as these share images and batches, by points of test accuracy and by orders of magnitude
of the training loss over the first 1,000 training images. One kind *outperforms* another or *falls behind* if the 95 %
interval of the mean difference excludes 0; else it is *as good as* the other if the interval lies within the margins of
all verdicts, or *inconclusive*. A run that diverges counts as one that guesses.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

import conv_recipes
from conv_recipes import ConvConfig
from highway_lab.intervals import interval, judge

from . import study_command
from .claims import ACCURACY_MARGIN, LOSS_MARGIN
from .common import CHANCE_LOSS, FEW_EPOCHS
from .study import Arm, ArmCell, Results, Stage, Study, StudyRun, accuracies

BUDGET = {"n_train": 20_000, "n_test": 10_000}
COMPARED = {  # a kind of net, and the one with which it is compared
    "highway": ("highway, normalised", "highway"),
    "plain": ("plain, normalised", "plain"),
    "both": ("plain, normalised", "highway"),
}


def configure(fields: Mapping, cell: ArmCell, stage: Stage) -> ConvConfig:
    return conv_recipes.configure("mnist-16", **{**FEW_EPOCHS, **BUDGET, **fields})


train = partial(study_command.train, columns=("train_loss", "validation_score"))
ARMS = {
    **{block: Arm({"block": block}, {}) for block in ("highway", "plain")},
    **{f"{block}, normalised": Arm({"block": block, "batch_norm": True}, {}) for block in ("highway", "plain")},
}
STUDY = Study(
    ARMS,
    [*map(ArmCell, ARMS)],
    stages=[Stage(range(3), 6, result="scored")],
    configure=configure,
    own=lambda name, arm: ArmCell(name),
    config=ConvConfig,
)


def last_loss(run: StudyRun) -> float:
    return CHANCE_LOSS if run.diverged else run.history["train_loss"][-1]


def numbers(results: Results) -> dict:
    """Return what the page quotes: accuracies in %, and by COMPARED what is gained, and by which factor losses fall."""
    runs = {cell.arm: of for cell, of in results.by_cell().items()}
    accuracy = {arm: accuracies(of) for arm, of in runs.items()}
    gains = {name: accuracy[arm] - accuracy[other] for name, (arm, other) in COMPARED.items()}
    gain = {name: interval(of) for name, of in gains.items()}
    loss = {arm: np.log10([last_loss(run) for run in of]) for arm, of in runs.items()}
    lower = {name: interval(loss[other] - loss[arm]) for name, (arm, other) in COMPARED.items()}
    return {
        "accuracy": {arm: of.mean() for arm, of in accuracy.items()},
        "gain": gain,
        "gain_word": {name: judge(of, ACCURACY_MARGIN) for name, of in gain.items()},
        "least_gain": {name: of.min() for name, of in gains.items()},
        "lower": {name: (10**of.value, 10**of.low, 10**of.high) for name, of in lower.items()},
        "lower_word": {name: judge(of, LOSS_MARGIN) for name, of in lower.items()},
        "parameters": {arm: of[0].n_trained for arm, of in runs.items()},
        "seeds": {len(of) for of in runs.values()},
        "diverged": sum(run.diverged for run in results.runs),
        "epochs": STUDY.stages[0].epochs,
    }
