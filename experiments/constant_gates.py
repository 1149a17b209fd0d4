"""Section 4.1: do gates compute, or would constants do? Nets that are trained with gates that do not see their input.

Giving a trained net mean gates cannot settle this, as the net was trained with others. So here 49 blocks are trained
from the start, in the three settings of models.by_setting, with the five kinds of mixing that constant_gates.md lists.

Rules, fixed before the run. Test accuracy is that after the last epoch; a diverged run counts as chance (0.1). One kind
outperforms another if the 95 % interval of the difference of means (Welch, over seeds) excludes 0; it is as good if
that interval lies within 0.5 points on both sides of 0. "Gates are computation" is reproduced if highway outperforms
learned constants and mean gates in all three settings; not reproduced if in all three one of these two is as good as
highway, or outperforms it; partly if highway outperforms both in some settings; else inconclusive.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from highway_lab.console import digest_of_config
from highway_lab.fields import NonEmpty
from highway_lab.files import make_place
from highway_lab.logs import Log, TrainedRun, environment
from highway_networks import Config, Dataset, DeepNet

from . import models
from .claims import ACCURACY_MARGIN
from .common import Experiment, ExperimentJob
from .inside import measure_gates
from .partly_frozen import FrozenTraining, PartlyFrozenNet

FIRST = "tanh, b_T -2"
EPOCHS = 10
N_SCORED = 10_000  # training images for the training loss
KINDS = ("highway", "learned constants", "mean gates", "untrained gates", "residual")
HIGHWAY, LEARNED, MEAN, UNTRAINED, RESIDUAL = KINDS
CONSTANT = (LEARNED, MEAN)  # kinds whose gates do not see the input
FROZEN = {LEARNED: ("W_T",), MEAN: ("W_T", "b_T"), UNTRAINED: ("W_T", "b_T")}  # parameters that are not trained


@dataclass(frozen=True)
class Task:
    """One run: a setting of models.by_setting, a kind of mixing, and the configuration."""

    setting: str
    kind: Literal[*KINDS]
    config: Config


ConstantGatesRun = TrainedRun[Task, None]


@dataclass
class ConstantGatesLog(Log):
    margin: float  # points of test accuracy within which two kinds are as good as each other
    runs: NonEmpty[ConstantGatesRun]


EXPERIMENT = Experiment(__name__, __doc__, ConstantGatesLog)


def prepare(net: PartlyFrozenNet, kind: str, mean_T: np.ndarray | None) -> None:
    """Set the gates of a fresh net, and freeze what its kind does not train; mean_T (L, D) is that of mean gates."""
    net.frozen = FROZEN.get(kind, ())
    if kind in CONSTANT:
        net.params["W_T"][...] = 0
    if kind == MEAN:
        net.params["b_T"][...] = np.log(mean_T / (1 - mean_T))


def mean_gates(net: DeepNet, images: np.ndarray) -> np.ndarray:
    """Return the mean T (L, D) of each unit of each block over images (n, ...), uint8; below 1 and above 0."""
    return np.clip(measure_gates(net, images).T, 1e-6, 1 - 1e-6)


def run_task(task: Task, data: Dataset) -> ConstantGatesRun:
    """Train one net; one with mean gates trains the highway net before, unless it is kept."""
    training = FrozenTraining(task.config, data)
    mean_T = mean_gates(trained_highway(task, data), training.data.train_x) if task.kind == MEAN else None
    prepare(training.net, task.kind, mean_T)
    for _ in training.epochs():
        pass
    if task.kind == HIGHWAY:
        path = net_path(task.config)
        make_place(path)
        training.net.save(path)
    return TrainedRun(None, task, training.net.n_trained, training.diverged, training.history, None)


def trained_highway(task: Task, data: Dataset) -> DeepNet:
    path = net_path(task.config)
    if not path.exists():
        run_task(replace(task, kind=HIGHWAY), data)
    return DeepNet.load(path)


def net_path(config: Config) -> Path:
    return models.CHECKPOINTS / f"{EXPERIMENT.name}-{digest_of_config(config)}-{environment().code}.npz"


def plan(dataset: str, data: Dataset, smoke: bool) -> dict[str, list[Task]]:
    """Return every kind with every seed, by setting; that of the paper's MNIST net first."""
    tasks = {}
    for setting, sources in sorted(models.by_setting(dataset, data, smoke).items(), key=lambda item: item[0] != FIRST):
        configs = [shorten(source.training, 2 if smoke else EPOCHS) for source in sources]
        blocks = {kind: "residual" if kind == RESIDUAL else "highway" for kind in KINDS}
        tasks[setting] = [
            Task(setting, kind, replace(config, block=block)) for config in configs for kind, block in blocks.items()
        ]
    return tasks


def shorten(config: Config, epochs: int) -> Config:
    """Return the configuration for fewer epochs, at whose end the learning rate is what it was at the end of all."""
    n_scored = min(N_SCORED, config.n_train)
    lr_decay = config.lr_decay ** (config.epochs / epochs)
    return replace(config, epochs=epochs, lr_decay=lr_decay, n_scored=n_scored)


def run(job: ExperimentJob) -> None:
    """Train the nets setting by setting, highway nets first, and write the log."""
    finish = partial(job.run_missing, run_task, schema=ConstantGatesRun)
    runs = []
    for tasks in plan(job.dataset, job.data, job.smoke).values():
        finish([task for task in tasks if task.kind == HIGHWAY])
        runs += finish(tasks)
    job.keep(runs[0].config, margin=ACCURACY_MARGIN, runs=runs)


EXPERIMENT.add_run(run, "train all nets; resumable")
