"""A test whether the depth that a net uses follows the difficulty of its task.

The paper (section 4.2) says that for complex problems a highway network can learn to use all of its layers, while for
simpler problems like MNIST it keeps many of them idle. It compares nets for MNIST and for CIFAR-100, which differ in
their images, classes and settings. Here all of that is the same, and only the labels change: pairs of MNIST digits side
by side (digit_pairs.py), labelled by five tasks, for each of the three settings of section 4's nets (49 blocks of 50
units). Every task has ten outputs. Each net learns from 30,000 pairs for 30 epochs, in which its learning rate decays
to LAST_RATE of the first; five seeds draw its weights and the order of the pairs, but not the pairs.

Rules, fixed before the first run:

- The order of difficulty is that of ORDER: two classes (is the left digit at least 5?), parity (of the left digit), ten
  classes (the left digit), sum (of both digits, modulo ten), random (labels that nothing predicts). As a check, the
  training error of nets without a block, trained alike, is shown beside it; it does not change the order.
- Depth used is the number of blocks needed: 49 less those that can be closed, T = 0, one after another from the last
  to the first, before accuracy has fallen by one point on 10,000 training pairs (measurement.count_spared). A second
  measure is the effective depth, the sum over blocks of the mean T over units and training pairs. No verdict depends
  on it, nor on the blocks needed at other falls than one point, nor on idle blocks, those whose closing alone changes
  the training error by less than a threshold, which are shown as a curve over thresholds. (Commit 405c2b5 has these.)
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
guesses has little to lose when its blocks are closed, so it needs hardly any. (It needed many; see commit 405c2b5.)

    python -m experiments task_difficulty run --fresh --jobs 2
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from highway_lab.fields import Share, lists_of
from highway_lab.intervals import difference
from highway_lab.logs import rounded_all
from highway_networks import Dataset, DeepNet, rounded

from . import study_command
from .claims import Verdict, combine, judge_better, of_learners
from .digit_pairs import pair_digits
from .looks import measurement
from .study import Arm, Measured, Results, Stage, Study, StudyRun, Task

ORDER = ("two classes", "parity", "ten classes", "sum", "random")  # of difficulty, fixed in advance
EASIER, HARDER = "ten classes", "sum"  # whose difference decides
LEAST_GAIN = 0.05  # over guessing: a net whose training error is lower by no more has not learned
LEAST_NETS = 3  # that must have learned a task in a setting
MARGIN = 2.0  # blocks
LEAD = 0.1  # of a net's lead over guessing: a fall that is fair to tasks of any error
SEEDS, EPOCHS, N_TRAIN, BATCH_SIZE = range(5), 30, 30_000, 128
LAST_RATE = 0.2  # of the last epoch, as a share of the first's
REGIME = {
    **{"hidden": 50, "depth": 49, "n_train": N_TRAIN, "n_test": 10_000, "batch_size": BATCH_SIZE, "clip": 0.0},
    **{"optimizer": "momentum", "lr_decay": LAST_RATE ** (1 / (EPOCHS * math.ceil(N_TRAIN / BATCH_SIZE)))},
}
TANH = {"activation": "tanh", "init": "glorot", "momentum": 0.9}
ARMS = {  # the settings of section 4: a net of the search, the paper's, and one whose gates start more closed
    "ReLU": Arm(
        {"activation": "relu", "init": "he", "momentum": 0.986845, "gate_bias": -4.74714}, {"lr": (0.00476411,)}
    ),
    "tanh from −2": Arm(TANH | {"gate_bias": -2.0}, {"lr": (0.05,)}),
    "tanh from −4": Arm(TANH | {"gate_bias": -4.0}, {"lr": (0.05,)}),
}


@dataclass(frozen=True)
class LabelledCell:
    """A setting, and the labels that its nets learn."""

    arm: str
    labels: Literal[*ORDER]


@dataclass
class Seen:
    """Errors of a trained net on the training pairs, as shares."""

    error: Share
    closed_from_back: lists_of(Share, "L+1")  # with the last k blocks closed, on measurement.SET_IMAGES pairs


@dataclass
class Examined:
    """A net, null if it diverged; `guess_error`: that of guessing the commonest class.

    without_blocks   training error of a net of no blocks that is trained alike; null if that diverged
    """

    guess_error: Share
    trained: Seen | None
    without_blocks: Share | None


def train(task: Task, digits: Dataset) -> StudyRun:
    """Train a net, and beside it one without blocks, and measure both on the training pairs."""
    data = pair_digits(digits, task.cell.labels, result=True)
    pairs = data.train_x, data.train_y
    bare = study_command.train(replace(task, config=replace(task.config, depth=0)), data, judged=pairs)

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> Examined:
        guess_error = rounded(1 - np.bincount(y).max() / len(y))
        trained = None if (error := error_of(common)) is None else see(net, data, error)
        return Examined(guess_error, trained, error_of(bare.measured))

    return study_command.train(task, data, judged=pairs, measure=measure)


def error_of(measured: Measured) -> float | None:
    """Return the share of the training pairs that a net labels wrongly; None if it diverged."""
    return None if measured.score is None else rounded(1 - measured.score)


def see(net: DeepNet, data: Dataset, error: float) -> Seen:
    from_back = measurement.close_in_order(net, *measurement.closing_images(data), np.arange(net.depth)[::-1])
    return Seen(error, rounded_all(from_back))


STUDY = Study(
    ARMS,
    [LabelledCell(arm, labels) for arm in ARMS for labels in ORDER],
    stages=(Stage(SEEDS, EPOCHS, options=REGIME, result="scored"),),
    criteria={"blocks needed": lambda run: needed(run) if has_learned(run) else 0},
    measured=Examined,
)


def has_learned(run: StudyRun) -> bool:
    """Tell whether a net's training error is lower than that of guessing by more than LEAST_GAIN."""
    of = run.measured
    return of.trained is not None and of.guess_error - of.trained.error > LEAST_GAIN


def needed(run: StudyRun, of_lead: float = 0.0) -> int:
    """Return the blocks that a net needs until it has lost a point, or a share of its lead over guessing."""
    errors, lead = run.measured.trained.closed_from_back, run.measured.guess_error - run.measured.trained.error
    return len(errors) - 1 - measurement.count_spared(errors, of_lead * lead or measurement.POINT)


def tau(values: Sequence[float]) -> float:
    """Return Kendall's τ of values with their order: pairs that rise less pairs that fall, over all; 0 of one value."""
    signs = [np.sign(after - before) for before, after in combinations(values, 2)]
    return float(np.mean(signs)) if signs else 0.0


def verdict_of(blocks: Mapping[str, Sequence[int]]) -> Verdict:
    """Return the verdict on the paper's sentence in a setting, given the blocks that nets need which have learned."""
    lead = difference(blocks[HARDER], blocks[EASIER])
    rank = tau([float(np.mean(of)) for of in blocks.values() if len(of) >= LEAST_NETS])
    verdict = judge_better(lead, MARGIN)
    if verdict == Verdict.REPRODUCED and rank <= 0:
        verdict = Verdict.NOT_REPRODUCED if lead.high < MARGIN else Verdict.INCONCLUSIVE
    return of_learners(verdict, min(len(blocks[labels]) for labels in (EASIER, HARDER)) >= LEAST_NETS)


def numbers(results: Results) -> dict:
    """Return what pages quote, by setting and labels; errors in %."""
    runs = {(cell.arm, cell.labels): found for cell, found in results.by_cell().items()}
    learned = {of: [run for run in found if has_learned(run)] for of, found in runs.items()}
    trained = {of: found for of, found in learned.items() if found}
    verdicts = {arm: verdict_of({of: [*map(needed, learned[arm, of])] for of in ORDER}) for arm in ARMS}
    return {
        "verdict": str(combine(verdicts.values())),
        "holding": [*verdicts.values()].count(Verdict.REPRODUCED),
        "needed": {of: np.mean([*map(needed, found)]) for of, found in trained.items()},
        "by_lead": {of: np.mean([needed(run, LEAD) for run in found]) for of, found in trained.items()},
        "learned": {of: len(found) for of, found in learned.items()},
        "diverged": {arm: sum(run.diverged for labels in ORDER for run in runs[arm, labels]) for arm in ARMS},
        "error": {of: 100 * np.array([run.measured.trained.error for run in found]) for of, found in trained.items()},
        "shallow_error": {of: np.mean([100 * run.measured.without_blocks for run in runs[of]]) for of in runs},
    }
