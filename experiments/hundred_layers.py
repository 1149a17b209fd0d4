"""A comparison of nets of 100 layers where gradients are clipped, so that runs end and every run counts.

Figure 1 of the paper (section 3.1) says that at 100 layers highway nets are more than 2 orders of magnitude better than
plain ones. In the depth search, half of the highway runs of 400 epochs diverged, as their gradients were not clipped:
whether they count decides the verdict. Here the regime is the paper's, and gradients are clipped in all nets alike.

Regime: all 60,000 training images of MNIST, as they are; one plain layer and 99 blocks; tanh; batches of BATCH_SIZE;
SGD with momentum 0.9 and a rate that decays exponentially to LAST_RATE of its first value; gradients clipped at a
global norm of CLIP. Highway blocks have 50 units, blocks without gates 71, so that a block has as many parameters. Five
nets are compared, each with a scale of its own that is tuned beside the rate:

    highway             normalised initialisation (glorot);               b_T
    plain               glorot;                                           the factor on the initial weights (gain)
    plain, orthogonal   orthogonal weights;                               the gain
    residual, scaled    y = x + L^−p·H, where L = 99 blocks; glorot;      p
    ReZero              y = x + s·A·H, where A starts at 0 and is         s
                        learned, one number a unit; glorot

Step 1 (`run`). Each net has twelve settings: RATES times its scales. All are tried for 10 epochs with the first tuning
seed, the best FINALISTS of each net by training loss for 40 epochs with both; the lowest mean over both seeds is
chosen. It is trained from the five SEEDS, none of which has tuned, for 40 epochs. No run that tunes sees a test image.
(All settings were to be tried for 40 epochs; this was shortened for its cost after four such runs, before any other.)

Step 2 (`run --long`, after step 1). All nets but ReZero are trained for 400 epochs from the same five seeds, in the
setting that step 1 has chosen and at half of its rate. The schedule is stretched: it ends at the same share of the
first rate. Of the two rates, the one of the lower mean loss over seeds stands for the net; if they are equal, the
chosen one. The other is shown.

Step 3 (`run --relu`, after step 1). In figure 1's search the best highway nets of 100 layers have ReLU units, from b_T
near −9. So highway nets with ReLU and he weights are tuned as in step 1, with b_T as their scale, and trained for 40
epochs. They are compared with the four other nets of step 1 by the rules below, in a family of four comparisons of
their own. The other nets have tanh alone, which favours highway nets. (This step was added when the results of step 1
were known but for the last seeds. In these, highway nets are behind all but the plain nets with normalised
initialisation, and have chosen the highest rate. No run of step 3 had been made.)

Rules, fixed before any run of steps 1 and 2:
- The loss is the cross-entropy in nats, and all means, differences and orders of magnitude are those of its decimal
  logarithm. After 40 epochs the final loss over all training images judges; after 400 epochs the lowest loss after any
  epoch, which is the paper's quantity, over 10,000 training images that the run's seed draws. Both losses are shown
  for both budgets.
- A run fails if it diverges (a loss is not finite) or if it ends at chance: its final loss is above AT_CHANCE, 95 % of
  ln 10. Both kinds count with ln 10, the loss of guessing, whatever the run reached before. Beside it stands what is
  found if a failed run counts with its lowest earlier loss; no verdict depends on that.
- A loss below FLOOR, where float32 has no digits left, counts as FLOOR.
- Every seed counts; none is left out.
- The lead of highway nets over others is mean(others) − mean(highway), with the 95 % interval of Welch's t over seeds.
- The paper's sentence, "at 100 layers highway nets are more than 2 orders of magnitude better than plain ones", is
  judged by the plain nets with normalised initialisation after 400 epochs: reproduced if the interval of the lead lies
  above 2, not reproduced if it lies below 2, else inconclusive. The same is asked of orthogonal plain nets and of
  scaled residual nets; these two rows are our comparisons, not the paper's.
- Highway nets are ahead of others if the lead is above 0 and Welch's p is below 0.05 after Holm's correction for all
  comparisons of one budget: four after 40 epochs, three after 400. If they are not, "highway nets reach a lower loss"
  is not reproduced where the interval lies below LOSS_MARGIN (0.3 orders of magnitude), else inconclusive. They are
  behind if the lead is below 0 and p as small. Two nets are alike if the interval lies within LOSS_MARGIN on both sides
  of 0, unless every run of both has failed.

What each outcome would mean:
- The lead over plain nets is above 2: the paper's sentence holds where no run is left out. If it is below 2, the gap in
  figure 1 is in part one of tuning, of clipping, or of how runs are counted.
- Orthogonal plain nets and highway nets are alike: the trouble that plain tanh nets have with depth in this regime was
  their initialisation. If highway nets stay ahead of them, gates do what initialisation does not.
- Scaled residual nets, or ReZero's, and highway nets are alike, or highway nets are behind: to start near the identity
  is enough, and gates that see their input are not needed. If highway nets are ahead of both, such gates add something.
- Highway nets themselves fail in half of their runs or more: clipping does not cure what the depth search found.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from highway_lab import checkpoints
from highway_lab.console import digest_of_config
from highway_lab.fields import Count, NonEmpty, Score, Share
from highway_lab.logs import Log, Result
from highway_lab.threads import one_thread
from highway_networks import Config, Dataset, evaluate, rounded

from . import blocks, rates
from .claims import LOSS_MARGIN
from .common import CHANCE_LOSS, Experiment, ExperimentJob, fit, group_by
from .partly_frozen import ClippedNet, FrozenTraining

LAYERS = 100  # the paper's counting: one plain layer and 99 blocks
BATCH_SIZE = 128
CLIP = 5.0
LAST_RATE = 0.05  # of the last step, as a share of the first step's
RATES = (0.003, 0.01, 0.03, 0.1)
GAINS = (1.0, 1.05, 1.1)
TUNING_SEEDS = (100, 101)
FINALISTS = 3  # settings of a net that are tried for all epochs, with both tuning seeds
TRIED_SHORTER = 4  # times the epochs of the first tries are those of all other runs of step 1
SEEDS = (0, 1, 2, 3, 4)
BUDGET = {"depth": LAYERS - 1, "epochs": 40, "n_train": 60_000, "n_test": 10_000}
STRETCH = 10  # times the epochs of step 1 are those of step 2
RATE_FACTORS = (1.0, 0.5)  # on the chosen rate, in step 2
N_SCORED = 10_000  # training images whose loss is taken after each epoch
AT_CHANCE = 0.95 * CHANCE_LOSS
FLOOR = 1e-7
FINAL, LOWEST = "final", "lowest"  # the losses that judge the runs of 40 and of 400 epochs


class Arm(NamedTuple):
    """A kind of net: the name and the values of its own scale, and the part of a configuration that these decide."""

    scale: str
    scales: tuple[float, ...]
    options: Callable[[float], dict[str, Any]]


class Setting(NamedTuple):
    """Hyperparameters that an arm chooses."""

    lr: float
    scale: float


HIGHWAY, PLAIN, ORTHOGONAL, RESIDUAL, REZERO = "highway", "plain", "plain, orthogonal", "residual, scaled", "ReZero"
RELU = "highway, ReLU"
RELU_OPTIONS = {"block": "highway", "hidden": 50, "activation": "relu", "init": "he"}
ARMS = {
    HIGHWAY: Arm("b_T", (-2.0, -4.0, -6.0), lambda b_T: {"block": "highway", "hidden": 50, "gate_bias": b_T}),
    PLAIN: Arm("gain", GAINS, lambda gain: {"block": "plain", "init_gain": gain}),
    ORTHOGONAL: Arm("gain", GAINS, lambda gain: {"block": "plain", "init": "orthogonal", "init_gain": gain}),
    RESIDUAL: Arm("p", (1.0, 0.75, 0.5), lambda p: {"block": blocks.numbered("residual-scaled", p)}),
    REZERO: Arm("s", (1.0, 3.0, 10.0), lambda s: {"block": blocks.numbered("rezero", s)}),
    RELU: Arm("b_T", (-6.0, -8.0, -10.0), lambda b_T: RELU_OPTIONS | {"gate_bias": b_T}),
}
FIRST_ARMS = (HIGHWAY, PLAIN, ORTHOGONAL, RESIDUAL, REZERO)  # those of step 1
LONG_ARMS = (HIGHWAY, PLAIN, ORTHOGONAL, RESIDUAL)  # that are trained for 400 epochs
FROZEN = {REZERO: ("W_A",)}  # parameters that are 0 and stay so: A is then a learned number a unit, b_A


@dataclass(frozen=True)
class Task:
    """One run: its arm, the value of the arm's scale, and the configuration."""

    arm: Literal[*ARMS]
    scale: float
    config: Config

    @property
    def setting(self) -> Setting:
        return Setting(self.config.lr, self.scale)

    @property
    def tunes(self) -> bool:
        """Whether the run helps to choose a setting; it sees no test image."""
        return self.config.seed in TUNING_SEEDS


@dataclass
class HundredLayersRun(Result):
    """One training run.

    n_trained    parameters that are trained
    clipped      share of its steps whose gradients were longer than the limit
    train_loss   after the last epoch, over all training images; null if the run diverged
    test_score   after the last epoch; null if the run diverged or tunes
    losses       over N_SCORED training images, before training and after each epoch; none if the run tunes
    """

    task: Task
    n_trained: Count
    diverged: bool
    clipped: Share
    train_loss: float | None
    test_score: Score | None
    losses: list[float | None]

    @property
    def config(self) -> Config:
        return self.task.config

    @property
    def at_chance(self) -> bool:
        """Whether the run ended no better than a guess; a diverged run has no end."""
        return not self.diverged and self.train_loss > AT_CHANCE

    @property
    def failed(self) -> bool:
        return self.diverged or self.at_chance

    @property
    def lowest_loss(self) -> float:
        """The lowest loss after any epoch, though the run may have failed later; at most that of guessing."""
        return min([CHANCE_LOSS, *(loss for loss in self.losses if loss is not None)])

    def contradiction(self) -> str | None:
        """Return in words what does not agree."""
        if self.diverged != (self.train_loss is None):
            return f"expected a train_loss unless the run diverged, found {self.train_loss}"
        rows, most = len(self.losses), 0 if self.task.tunes else self.config.epochs + 1
        if rows > most or (rows < most and not self.diverged):
            return f"expected {most} entries in losses, found {rows}"
        return None


@dataclass
class HundredLayersLog(Log):
    """runs/hundred_layers.json, and those of steps 2 and 3; step 2 tries no settings, as those of step 1 hold.

    margin      LOSS_MARGIN
    at_chance   AT_CHANCE
    judged_by   the loss that judges
    """

    margin: float
    at_chance: float
    judged_by: Literal[FINAL, LOWEST]
    tried: list[HundredLayersRun]
    runs: NonEmpty[HundredLayersRun]


EXPERIMENT = Experiment(__name__, __doc__, HundredLayersLog, more={"long": "run --long", "relu": "run --relu"})


# ------------------------------------------------------------------------------------------ what counts


def log_loss(run: HundredLayersRun, judged_by: str) -> float:
    """Return the decimal logarithm of the loss with which a run counts."""
    loss = run.lowest_loss if judged_by == LOWEST else run.train_loss
    return math.log10(CHANCE_LOSS if run.failed else max(loss, FLOOR))


def log_losses(runs: Iterable[HundredLayersRun], judged_by: str) -> np.ndarray:
    return np.array([log_loss(run, judged_by) for run in runs])


def rank_settings(tried: Iterable[HundredLayersRun]) -> dict[str, list[Setting]]:
    """Return settings by arm: those tried longest and most often first, of them the lowest mean loss first."""

    def quality(runs: list[HundredLayersRun]) -> tuple[int, int, float]:
        longest = tried_longest(runs)
        return longest[0].config.epochs, len(longest), -log_losses(longest, FINAL).mean()

    found = rates.ranked(tried, lambda run: run.task.arm, lambda run: run.task.setting, quality)
    return {arm: [*found[arm]] for arm in ARMS if arm in found}


def tried_longest(runs: Iterable[HundredLayersRun]) -> list[HundredLayersRun]:
    """Return the runs of most epochs."""
    by_epochs = group_by(runs, lambda run: run.config.epochs)
    return by_epochs[max(by_epochs)]


def chosen_settings(tried: Iterable[HundredLayersRun]) -> dict[str, Setting]:
    return {arm: ranked[0] for arm, ranked in rank_settings(tried).items()}


# -------------------------------------------------------------------------------------------- the plans


def budget_of(data: Dataset, smoke: bool) -> dict[str, int]:
    """Return numbers of blocks, epochs and images of a run of step 1."""
    budget = fit(BUDGET, data, smoke) | ({"depth": 4} if smoke else {})
    return budget | {"n_scored": min(N_SCORED, budget["n_train"])}


def make_task(arm: str, setting: Setting, seed: int, budget: dict[str, int]) -> Task:
    """Return the run of a setting from a seed."""
    steps = budget["epochs"] * math.ceil(budget["n_train"] / BATCH_SIZE)
    options = {"hidden": 71, "init": "glorot"} | ARMS[arm].options(setting.scale)
    config = Config(
        **options,
        **budget,
        optimizer="momentum",
        momentum=0.9,
        lr=setting.lr,
        lr_decay=rounded(LAST_RATE ** (1 / max(steps - 1, 1)), digits=12),
        clip=CLIP,
        batch_size=BATCH_SIZE,
        seed=seed,
    )
    return Task(arm, setting.scale, config)


def settings_of(arm: str, smoke: bool) -> list[Setting]:
    """Return the settings that an arm tries; two in a smoke run."""
    rates, scales = (RATES[1:3], ARMS[arm].scales[:1]) if smoke else (RATES, ARMS[arm].scales)
    return [Setting(lr, scale) for lr, scale in product(rates, scales)]


def tune(
    finish: Callable[[Sequence[Task]], list[HundredLayersRun]], data: Dataset, smoke: bool, arms: Iterable[str]
) -> list[HundredLayersRun]:
    """Return the runs that try settings: all of them with one seed, the best of each arm for longer with two."""
    budget, seed = budget_of(data, smoke), TUNING_SEEDS[0]
    short = budget | {"epochs": math.ceil(budget["epochs"] / TRIED_SHORTER)}
    tried = finish([make_task(arm, setting, seed, short) for arm in arms for setting in settings_of(arm, smoke)])
    best = [(arm, setting) for arm, ranked in rank_settings(tried).items() for setting in ranked[:FINALISTS]]
    return tried + finish([make_task(*of, seed, budget) for of in best for seed in TUNING_SEEDS])


def plan(data: Dataset, smoke: bool, chosen: dict[str, Setting]) -> list[Task]:
    """Return the scored runs of step 1 or 3, seed by seed."""
    budget, seeds = budget_of(data, smoke), SEEDS[: 2 if smoke else None]
    return [make_task(*of, seed, budget) for seed in seeds for of in chosen.items()]


def plan_long(data: Dataset, smoke: bool, chosen: dict[str, Setting]) -> list[Task]:
    """Return the runs of step 2, seed by seed, so that an unfinished step has as many runs of each arm."""
    budget, seeds = budget_of(data, smoke), SEEDS[: 2 if smoke else None]
    budget["epochs"] *= STRETCH
    return [
        make_task(arm, chosen[arm]._replace(lr=rounded(factor * chosen[arm].lr)), seed, budget)
        for seed, arm, factor in product(seeds, LONG_ARMS, RATE_FACTORS)
    ]


# --------------------------------------------------------------------------------------------- training


class ClippedTraining(FrozenTraining):
    """The training of a task; frozen parameters are 0."""

    net_type = ClippedNet

    def __init__(self, task: Task, data: Dataset):
        super().__init__(task.config, data)
        self.net.frozen = FROZEN.get(task.arm, ())
        for name in self.net.frozen:
            self.net.params[name][...] = 0


def run_task(task: Task, data: Dataset) -> HundredLayersRun:
    """Train one net of step 1 or 3; one that tunes is scored at its end alone."""
    training = ClippedTraining(task, data)
    for _ in training.epochs(scored=not task.tunes):
        pass
    return record(task, training)


def run_long(task: Task, data: Dataset, *, dataset: str, any_code: bool = False) -> HundredLayersRun:
    """Train one net of step 2, with a checkpoint after each epoch from which a killed run continues.

    any_code: whether also from one of other code
    """
    training, path = ClippedTraining(task, data), checkpoint_path(task, dataset)
    checkpoints.restore(path, training, any_code=any_code)
    for _ in training.epochs():
        checkpoints.save(path, training)
    return record(task, training)


def record(task: Task, training: ClippedTraining) -> HundredLayersRun:
    """Return the record of a finished run; the loss over all training images is taken here, not after each epoch."""
    net, data = training.net, training.data
    with one_thread():
        loss, _ = evaluate(net, data.train_x, data.train_y, training.loss)
        test_score = None if task.tunes else rounded(evaluate(net, data.test_x, data.test_y, training.loss)[1])
    diverged = training.diverged or not math.isfinite(loss)
    scores = (None, None) if diverged else (rounded(loss), test_score)
    return HundredLayersRun(
        None, task, net.n_trained, diverged, rounded(net.clipped), *scores, training.history.train_loss
    )


def checkpoint_path(task: Task, dataset: str) -> Path:
    return Path("runs") / "checkpoints" / f"{EXPERIMENT.name}-{dataset}-{digest_of_config(task.config)}.npz"


# ---------------------------------------------------------------------------------------------- the run


def run(job: ExperimentJob) -> None:
    constants = {"margin": LOSS_MARGIN, "at_chance": rounded(AT_CHANCE)}
    if job.arguments.long:
        tasks = plan_long(job.data, job.smoke, chosen_settings(EXPERIMENT.read(job.path).tried))
        train = partial(run_long, dataset=job.dataset, any_code=job.arguments.old == "keep")
        paths = [checkpoint_path(task, job.dataset) for task in tasks]
        job = job.for_more("long")
        runs = job.run_missing(train, tasks, HundredLayersRun, checkpoints=paths)
        job.keep(tasks[0].config, **constants, judged_by=LOWEST, tried=[], runs=runs)
    else:
        arms, job = ((RELU,), job.for_more("relu")) if job.arguments.relu else (FIRST_ARMS, job)
        finish = partial(job.run_missing, run_task, schema=HundredLayersRun)
        tried = tune(finish, job.data, job.smoke, arms)
        runs = finish(plan(job.data, job.smoke, chosen_settings(tried)))
        job.keep(runs[0].config, **constants, judged_by=FINAL, tried=tried, runs=runs)


parser = EXPERIMENT.add_run(run, "tune all nets and train them for 40 epochs; resumable")
step = parser.add_mutually_exclusive_group()
step.add_argument("--long", action="store_true", help="four kinds of net for 400 epochs, after run; resumable")
step.add_argument("--relu", action="store_true", help="highway nets with ReLU units; resumable")
