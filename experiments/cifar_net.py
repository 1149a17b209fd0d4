"""A 50-layer net for a harder data set, CIFAR-10: the one that figures 2 to 4 look into beside MNIST's.

The paper (section 4) looks into the best net of a random search on CIFAR-100: 49 highway layers of 50 tanh units after
a plain one, gate biases from -4; its other settings are not published. Here the same net on CIFAR-10, and a small grid.

Rate and number of epochs are chosen by the mean accuracy over three seeds on a tenth of the training images, held out:
of all that come within its standard error of the highest, those of the lowest training loss, which is the paper's
criterion. No test image is looked at. By that setting the net is trained once more, on all training images, and kept.
"""

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from highway_lab.logs import Log, number
from highway_networks import Config, Dataset

from . import models
from .common import Experiment, TrainedRun, add_run_flags, curve, fit, group, hold_out, load_data, start, train_one
from .models import Model, Source

RATES = (0.01, 0.02, 0.05, 0.1)
SEEDS = (100, 101, 102)  # others than those of the nets that figure 4 adds to this one
EPOCHS = 30
HELD_OUT = 0.1  # share of the training images


@dataclass
class CifarNetLog(Log):
    """runs/cifar_net.json: the grid, what it chose, and the net that was trained by it on all images."""

    runs: list[TrainedRun]
    margin: float  # by which a held-out accuracy may miss the highest: its standard error
    lr: float
    epochs: int
    net: Model


EXPERIMENT = Experiment(__name__, __doc__, CifarNetLog, datasets=("cifar-10",))


def configs(data: Dataset, smoke: bool) -> list[Config]:
    """The grid's runs."""
    net, rates, seeds = (models.SMOKE, RATES[:2], SEEDS[:1]) if smoke else (models.FALLBACK, RATES, SEEDS)
    budget = fit({"epochs": EPOCHS, "n_train": len(data.train_x), "n_test": len(data.test_x)}, data, smoke)
    return [replace(net, lr=lr, seed=seed, **budget) for lr in rates for seed in seeds]


def means(runs: list[TrainedRun], field: str) -> dict[float, np.ndarray]:
    """A field after each epoch, (epochs + 1,), by rate: the mean over seeds, NaN where one has diverged."""
    return {lr: np.mean([curve(run, field) for run in seeds], axis=0) for (lr,), seeds in group(runs, "lr").items()}


def choose(runs: list[TrainedRun]) -> tuple[float, float, int]:
    """The margin, and, within it of the highest held-out accuracy, rate and epochs of the lowest training loss."""
    scores, losses = means(runs, "test_score"), means(runs, "train_loss")
    best = np.nanmax([scores[lr][1:] for lr in scores])  # an untrained net is none
    margin = math.sqrt(best * (1 - best) / runs[0].config.n_test)
    trained = [(lr, epoch) for lr in scores for epoch in range(1, len(scores[lr]))]
    within = [(lr, epoch) for lr, epoch in trained if scores[lr][epoch] >= best - margin]
    return margin, *min(within, key=lambda setting: losses[setting[0]][setting[1]])


def run(arguments: argparse.Namespace) -> None:
    """Train the grid, choose, train the net, write log and net."""
    dataset, data = load_data(arguments)
    path = EXPERIMENT.log_path(dataset, arguments.smoke)
    kept = hold_out(data, HELD_OUT)
    runs = EXPERIMENT.finish(train_one, configs(kept, arguments.smoke), kept, TrainedRun, path, arguments)
    margin, lr, epochs = choose(runs)
    budget = {"epochs": epochs, "n_train": len(data.train_x), "n_test": len(data.test_x)}
    kept_as = models.NETS[dataset] if path == EXPERIMENT.log_path() else Path("runs/checkpoints", f"{path.stem}.npz")
    source = Source(str(kept_as), None, replace(runs[0].config, lr=lr, **budget))
    net = models.describe(source, models.obtain(source, data), data)
    print(f"saved {kept_as}")
    chosen = {"margin": number(margin), "lr": lr, "epochs": epochs, "net": net}
    EXPERIMENT.keep(path, arguments.command_line, models.whole(dataset, data), runs=runs, **chosen)


add_run_flags(EXPERIMENT.add("run", run, "train the grid and the net; resumable"), "cifar-10")

if __name__ == "__main__":
    start(__spec__.name)
