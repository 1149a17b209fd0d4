"""A 50-layer net for a harder data set, CIFAR-10: the one that figures 2 to 4 look into beside MNIST's.

The paper's net for CIFAR-100 (section 4) has 49 highway layers of 50 tanh units after a plain one, with gate biases
from -4; its other settings are not published. Rate and number of epochs are chosen here on a tenth of the training
images: of all that come within a standard error of the highest mean accuracy over seeds, the one of the lowest training
loss, which is the paper's criterion. The net of that setting is then trained on all training images and saved.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from highway_lab.fields import Count, NonEmpty, Share
from highway_lab.logs import Log, Trained
from highway_lab.training import train_resumably
from highway_networks import Config, Dataset, History, rounded

from ..common import SMOKE_BUDGET, Experiment, ExperimentJob, by_config
from . import models
from .models import Model, Source

RATES = (0.01, 0.02, 0.05, 0.1)
SEEDS = (100, 101, 102)  # not those of the nets that figure 4 adds to this one
EPOCHS = 30
VALIDATION_SHARE = 0.1  # of the training images


@dataclass
class GridRun(Trained):
    """A run of the grid."""

    task: Config
    n_params: Count
    diverged: bool
    history: History
    unread = ("measured",)

    @property
    def config(self) -> Config:
        return self.task


@dataclass
class CifarNetLog(Log):
    """The log runs/cifar_net.json: the grid, what it chose, and the net of that setting, trained on all images."""

    runs: NonEmpty[GridRun]
    margin: Share  # by which a validation accuracy may miss the highest: its standard error
    lr: float
    epochs: Count
    net: Model


EXPERIMENT = Experiment(__name__, __doc__, CifarNetLog, datasets=("cifar-10",))


def hold_out(data: Dataset) -> Dataset:
    """Return the training images, with a fixed share of them, the validation set, in place of the test images."""
    x, y = data.train_x, data.train_y
    held, kept = np.split(np.random.default_rng(0).permutation(len(x)), [int(len(x) * VALIDATION_SHARE)])
    return Dataset(x[kept], y[kept], x[held], y[held], data.outputs, "held-out training images")


def configs(data: Dataset, smoke: bool) -> list[Config]:
    net, rates, seeds = (models.SMOKE, RATES[:2], SEEDS[:1]) if smoke else (models.FALLBACK, RATES, SEEDS)
    budget = {"epochs": EPOCHS, "n_train": len(data.train_x), "n_test": len(data.test_x)}
    budget |= SMOKE_BUDGET if smoke else {}
    return [replace(net, lr=lr, seed=seed, **budget) for lr in rates for seed in seeds]


def train(config: Config, data: Dataset) -> GridRun:
    run = train_resumably(config, data)
    return GridRun(None, config, run.n_params, run.diverged, run.history)


def means(runs: list[GridRun], field: str) -> dict[float, np.ndarray]:
    """Return a field by rate and epoch, (epochs + 1,): the mean over seeds, NaN where one has diverged."""
    found = {}
    for (lr,), seeds in by_config(runs, "lr").items():
        curves = np.full((len(seeds), seeds[0].config.epochs + 1), np.nan)
        for curve, run in zip(curves, seeds, strict=True):
            curve[: len(run.history.epoch)] = getattr(run.history, field)
        found[lr] = curves.mean(axis=0)
    return found


def choose(runs: list[GridRun]) -> tuple[float, float, int]:
    """Return the margin, and rate and epochs of the lowest training loss within it of the highest accuracy."""
    scores, losses = means(runs, "test_score"), means(runs, "train_loss")
    best = np.nanmax([scores[lr][1:] for lr in scores])  # epoch 0 is an untrained net
    margin = math.sqrt(best * (1 - best) / runs[0].config.n_test)
    within = [(lr, epoch) for lr in scores for epoch in range(1, len(scores[lr])) if scores[lr][epoch] >= best - margin]
    return margin, *min(within, key=lambda setting: losses[setting[0]][setting[1]])


def run(job: ExperimentJob) -> None:
    data, kept = job.data, hold_out(job.data)
    runs = replace(job, data=kept).run_missing(train, configs(kept, job.smoke), GridRun)
    margin, lr, epochs = choose(runs)
    committed = job.path == EXPERIMENT.log_path()
    file = models.NETS[job.dataset] if committed else Path("runs/checkpoints", f"{job.path.stem}.npz")
    budget = {"epochs": epochs, "n_train": len(data.train_x), "n_test": len(data.test_x)}
    source = Source(file.as_posix(), None, replace(runs[0].config, lr=lr, **budget))
    net = models.describe(source, models.obtain(source, data), data)
    print(f"saved {file}")
    job.keep(runs=runs, margin=rounded(margin), lr=lr, epochs=epochs, net=net)


EXPERIMENT.add_run(run, "train the grid and the net; resumable", "cifar-10")

FIGURES = {}


def numbers(log: CifarNetLog) -> dict:
    """Return what the page quotes: validation accuracies in %, at the best epoch of a rate and at the choice."""
    scores = means(log.runs, "test_score")
    return {
        "best": {lr: float(100 * np.nanmax(values[1:])) for lr, values in scores.items()},
        "chosen": {"rate": log.lr, "epochs": log.epochs},
        "seeds": len({run.config.seed for run in log.runs}),
        "margin": 100 * log.margin,
        "train_score": 100 * log.net.train_score,
        "test_score": 100 * log.net.test_score,
    }
