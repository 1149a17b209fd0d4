"""A test whether the depth that a net uses follows the difficulty of its task.

The paper (section 4.2) says that for complex problems a highway network can learn to use all of its layers, while for
simpler problems like MNIST it keeps many of them idle. It compares nets for MNIST and for CIFAR-100, which differ in
their images, classes and settings. Here all of that is the same, and only the labels change: pairs of MNIST digits side
by side (digit_pairs.py), labelled by five tasks, for each of the three settings of models.by_setting (49 blocks of 50
units). Every task has ten outputs. Each net learns from 30,000 pairs for 30 epochs, in which its learning rate decays
to LAST_RATE of the first; five seeds draw its weights and the order of the pairs, but not the pairs.

Rules, fixed before the first run:

- The order of difficulty is that of ORDER: two classes (is the left digit at least 5?), parity (of the left digit), ten
  classes (the left digit), sum (of both digits, modulo ten), random (labels that nothing predicts). As a check, the
  training error of nets without a block, trained alike, is shown beside it; it does not change the order.
- Depth used is the number of blocks needed: 49 less those that can be closed, T = 0, one after another from the last
  to the first, before accuracy has fallen by one point on 10,000 training pairs (inside.count_spared). A second
  measure is the effective depth, the sum over blocks of the mean T over units and training pairs. No verdict depends
  on it, nor on the blocks needed at other falls than one point, nor on idle blocks, those whose closing alone changes
  the training error by less than a threshold, which are shown as a curve over thresholds.
- A net has learned if its training error is more than 5 points below that of guessing the commonest class. A diverged
  net, whose loss is not finite, has not; it is not replaced. Nets that have not learned are left out of all means, and
  how many have is said beside these. A task counts in a setting if at least three of its five nets have learned.
- The paper's sentence is, in one setting, reproduced if the 95 % interval (Welch, over seeds) of the blocks needed for
  "sum" minus those for "ten classes" lies above 0 and the rank correlation (Kendall's tau) between ORDER and the mean
  blocks needed, over the tasks that count, is positive. Otherwise it is not reproduced if that interval lies below 2
  blocks, and else inconclusive. If "sum" or "ten classes" does not count, it is inconclusive. `claims.combine` takes
  the three settings together.

Reproduced means that a net needs more of its blocks where only its labels are harder, as the paper says of harder
problems. Not reproduced means that a harder task on the same pictures takes less than two further blocks, so something
else than difficulty would have to explain the paper's comparison. All is measured before training, too: a net that
guesses has little to lose when its blocks are closed, so it needs hardly any.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from highway_lab.fields import Count, NonEmpty, NotNegative, Share, lists_of
from highway_lab.logs import Log, Result, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import LOSSES, Config, Dataset, DeepNet, evaluate, rounded

from . import inside, models
from .common import Experiment, ExperimentJob
from .digit_pairs import pair_digits

ORDER = ("two classes", "parity", "ten classes", "sum", "random")  # of difficulty, fixed in advance
EASIER, HARDER = "ten classes", "sum"  # whose difference decides
EPOCHS = 30
SEEDS = range(5)
LEAST_GAIN = 0.05  # over guessing: a net whose training error is lower by no more has not learned
LEAST_NETS = 3  # that must have learned a task in a setting
MARGIN = 2.0  # blocks


@dataclass(frozen=True)
class Task:
    """One net: a setting of models.by_setting, what it learns, and the configuration."""

    setting: str
    name: Literal[*ORDER]
    config: Config


@dataclass
class Seen:
    """Measures of one net on the training pairs; errors are shares, the loss is in nats, blocks stand from the first.

    closed_from_back  error with the last k blocks closed, k = 0..L, on the log's `set_images` training pairs
    needed            blocks that cannot be closed from the back before accuracy has fallen by the log's `point`
    """

    error: Share
    loss: float
    test_score: Share  # accuracy on test pairs
    lesioned_error: lists_of(Share, "L")  # by block closed
    idle_share: lists_of(Share, "thresholds")  # of the blocks, by the log's idle_thresholds
    closed_from_back: lists_of(Share, "L+1")
    needed: Count
    mean_T: lists_of(NotNegative, "L")  # by block, over units and pairs

    @property
    def effective_depth(self) -> float:
        """Return the sum of the mean T of all blocks."""
        return math.fsum(self.mean_T)


@dataclass
class TaskResult(Result):
    """One net after training, null if it diverged, and before; `guess_error`: that of guessing the commonest class."""

    task: Task
    guess_error: Share
    diverged: bool
    trained: Seen | None
    untrained: Seen
    without_blocks: Share | None  # training error of a net of no blocks, trained alike; null if that diverged

    def contradiction(self) -> str | None:
        """Return in words what does not agree."""
        if self.diverged == (self.trained is None):
            return None
        return f"expected measures of a trained net unless it diverged, found diverged: {self.diverged}"


@dataclass
class TaskDifficultyLog(Log):
    """runs/task_difficulty.json; the thresholds are those of the module's docstring."""

    order: NonEmpty[Literal[*ORDER]]  # the easiest first
    idle_thresholds: lists_of(float, "thresholds")
    point: float
    set_images: Count
    least_gain: float
    least_nets: Count
    margin: float
    results: NonEmpty[TaskResult]


EXPERIMENT = Experiment(__name__, __doc__, TaskDifficultyLog)


def has_learned(result: TaskResult, least_gain: float) -> bool:
    """Tell whether a net's training error is lower than that of guessing by more than `least_gain`."""
    return result.trained is not None and result.guess_error - result.trained.error > least_gain


def see(net: DeepNet, data: Dataset) -> Seen:
    """Measure a net on all training pairs, and its accuracy on test pairs."""
    error, loss, _ = inside.close_each(net, data.train_x, data.train_y)
    from_back = inside.close_in_order(net, *inside.closing_images(data), np.arange(net.depth)[::-1])
    return Seen(
        error=rounded(error[-1]),
        loss=rounded(loss[-1]),
        test_score=rounded(evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])[1]),
        lesioned_error=numbers(error[:-1]),
        idle_share=numbers(np.divide(inside.count_idle(error), net.depth)),
        closed_from_back=numbers(from_back),
        needed=net.depth - inside.count_spared(from_back),
        mean_T=numbers(inside.measure_gates(net, data.train_x).T.mean(axis=1)),
    )


def train_net(config: Config, data: Dataset) -> DeepNet | None:
    """Return the trained net; None if it diverged, which its last step may do, too."""
    training = Training(config, data)
    for _ in training.epochs(scored=False):
        pass
    halves = ((data.train_x, data.train_y), (data.test_x, data.test_y))
    finite = all(math.isfinite(evaluate(training.net, *half, training.loss)[0]) for half in halves)
    return training.net if finite and not training.diverged else None


def error_without_blocks(config: Config, data: Dataset) -> float | None:
    """Return the training error of a net of no blocks that is trained alike; None if it diverged."""
    net = train_net(replace(config, depth=0), data)
    return net and rounded(1 - evaluate(net, data.train_x, data.train_y, LOSSES["cross-entropy"])[1])


def examine(task: Task, digits: Dataset) -> TaskResult:
    """Train a net and measure it, before and after."""
    data = pair_digits(digits, task.name).to_score()
    with one_thread():
        net = train_net(task.config, data)
        return TaskResult(
            None,
            task=task,
            guess_error=rounded(1 - np.bincount(data.train_y).max() / len(data.train_y)),
            diverged=net is None,
            trained=net and see(net, data),
            untrained=see(Training(task.config, data).net, data),
            without_blocks=error_without_blocks(task.config, data),
        )


def plan(job: ExperimentJob, pairs: Dataset) -> list[Task]:
    """Return all nets: every setting, task and seed."""
    epochs, seeds = (2, SEEDS[:2]) if job.smoke else (EPOCHS, SEEDS)
    tasks = []
    for setting, (first, *_) in models.by_setting(job.dataset, pairs, job.smoke).items():
        config = replace(first.training, epochs=epochs)
        lr_decay = models.LAST_RATE ** (1 / (epochs * math.ceil(config.n_train / config.batch_size)))
        tasks += [
            Task(setting, name, replace(config, lr_decay=lr_decay, seed=seed)) for name in ORDER for seed in seeds
        ]
    return tasks


def run(job: ExperimentJob) -> None:
    pairs = pair_digits(job.data, EASIER).to_score()
    results = job.run_missing(examine, plan(job, pairs), TaskResult)
    replace(job, data=pairs).keep(
        order=list(ORDER),
        idle_thresholds=list(inside.IDLE_THRESHOLDS),
        point=inside.POINT,
        set_images=min(inside.SET_IMAGES, len(pairs.train_x)),
        least_gain=LEAST_GAIN,
        least_nets=LEAST_NETS,
        margin=MARGIN,
        results=results,
    )


EXPERIMENT.add_run(run, "train nets on every task and see how deep they are; resumable")
