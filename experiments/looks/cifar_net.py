"""A 50-layer net for a harder data set, CIFAR-10: the one that figures 2 to 4 look into beside MNIST's.

The paper's net for CIFAR-100 (section 4) has 49 highway layers of 50 tanh units after a plain one, with gate biases
from -4; its other settings are not published. Rate and number of epochs are chosen here on a tenth of the training
images: of all that come within a standard error of the highest mean accuracy over seeds, the one of the lowest training
loss, which is the paper's criterion. The net of that setting is then trained on all training images and saved.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from highway_lab.logs import grouped
from highway_networks import Config, Dataset

from .. import study_command
from ..study import Arm, Cell, Results, Stage, Study, StudyRun, Task
from . import models

DATASET = "cifar-10"
RATES = (0.01, 0.02, 0.05, 0.1)
SEEDS = (100, 101, 102)  # not those of the nets that figure 4 adds to this one
EPOCHS = 30
VALIDATION_SHARE = 0.1  # of the training images
N_TRAIN = 50_000


def hold_out(data: Dataset) -> Dataset:
    """Return the training images, with a fixed share of them, the validation set, in place of the test images."""
    x, y = data.train_x, data.train_y
    held, kept = np.split(np.random.default_rng(0).permutation(len(x)), [int(len(x) * VALIDATION_SHARE)])
    return Dataset(x[kept], y[kept], x[held], y[held], data.outputs, "held-out training images")


def train(task: Task, data: Dataset) -> StudyRun:
    return study_command.train(task, hold_out(data), columns=("train_loss", "test_score", "seconds"))


def configure(fields: Mapping, cell: Cell, stage: Stage) -> Config:
    n_held = int(N_TRAIN * VALIDATION_SHARE)
    return replace(models.FALLBACK, **fields, n_train=N_TRAIN - n_held, n_test=n_held)


STUDY = Study(
    {"highway": Arm({"block": "highway"}, {"lr": RATES})},
    [Cell("highway", models.FALLBACK.hidden, models.FALLBACK.depth)],
    [Stage(SEEDS, EPOCHS, result="scored")],
    configure=configure,
    config=Config,
)


def means(runs: Iterable[StudyRun], field: str) -> dict[float, np.ndarray]:
    """Return a field by rate and epoch, (epochs + 1,): the mean over seeds, of rates with which none has diverged."""
    by_rate = grouped(runs, lambda run: run.config.lr).items()
    return {
        lr: np.mean([run.history[field] for run in seeds], axis=0)
        for lr, seeds in by_rate
        if not any(run.diverged for run in seeds)
    }


def choose(runs: list[StudyRun]) -> tuple[float, float, int]:
    """Return the margin, and rate and epochs of the lowest training loss within it of the highest accuracy."""
    scores, losses = means(runs, "test_score"), means(runs, "train_loss")
    best = np.max([scores[lr][1:] for lr in scores])  # epoch 0 is an untrained net
    margin = math.sqrt(best * (1 - best) / runs[0].config.n_test)
    within = [(lr, epoch) for lr in scores for epoch in range(1, len(scores[lr])) if scores[lr][epoch] >= best - margin]
    return margin, *min(within, key=lambda setting: losses[setting[0]][setting[1]])


def finish(data: Dataset, results: Results) -> None:
    """Train the net of the setting that was chosen on all images, and save it, unless it is there."""
    _, lr, epochs = choose(results.runs)
    chosen = {"lr": lr, "epochs": epochs, "seed": SEEDS[0], "n_train": len(data.train_x), "n_test": len(data.test_x)}
    study_command.keep_net(models.NETS[DATASET], replace(models.FALLBACK, **chosen), data)


def numbers(results: Results) -> dict:
    """Return what the page quotes: validation accuracies in %, at the best epoch of a rate and at the choice."""
    margin, lr, epochs = choose(results.runs)
    return {
        "best": {lr: float(100 * of[1:].max()) for lr, of in means(results.runs, "test_score").items()},
        "chosen": {"rate": lr, "epochs": epochs},
        "margin": 100 * margin,
    }
