"""Section 2.2: do 1,000 layers train by SGD, and does their depth do anything?

The paper reports that SGD with momentum did not stall with more than 1,000 layers. A blog (Fleming 2015) reports that
1,000 layers reach about 95 % on MNIST with b_T near -20. A net whose blocks all copy their input trains as easily as a
net of no blocks (one plain layer and a softmax), so that net is the control. Each arm has its own rate, chosen by the
validation loss with one other seed, on half of the images: these runs would otherwise cost more than those that are
scored.

With --long, nets of 1,000 blocks from −6 and −20, and those of no blocks, are trained for 30 epochs in place of 3, at
the rates chosen for 3: to choose anew would cost ten times as much. From −4 nets only guess after 3 epochs, at the
lowest rate, and are not trained longer. Is depth put to use when there is time? It is if 1,000 blocks outperform none:
if the 95 % interval of the difference of their test accuracies lies above 0.

With --residual, the rivals that came later: residual nets y = x + H/√L, and y = x + H whose initial weights are a tenth
as large, as its gradients would otherwise explode (through 1,000 untrained blocks they grow more than a million-fold,
and none are clipped here). Beside them 1,000 highway blocks from −8: from −6 little of a gradient passes at first, and
from −20 every block is a copy. Rates are chosen as for the others. A residual block has half of a highway block's
parameters. What its branches do is measured, too, by the accuracy without them.

A block takes part if its mean T over training images has at least doubled in training, and is above 0.01. To find how
many blocks are needed, all but the k blocks of the highest mean T are closed, so that they copy their input. The least
k from which on test accuracy is at most 0.1 points below that of the whole net is the number of needed blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from highway_lab.fields import Count, NonEmpty, Share, lists_of
from highway_lab.logs import Log, TrainedRun, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet, InputError, evaluate, rounded

from .blocks import numbered
from .common import Experiment, ExperimentJob, fit
from .rates import TriedRate, choose_and_measure, choosing

DEPTHS = (10, 100, 1000)
BLOCKS = (("highway", -4.0), ("highway", -6.0), ("highway", -20.0), ("plain", Config.gate_bias))  # block, gate bias
CONTROL = ("plain", Config.gate_bias, 0)  # block, gate bias, depth
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
CHOOSING_SEED = 100
SEEDS = (0, 1, 2)
SETTING = {"init": "glorot", "optimizer": "momentum", "schedule": "cosine", "clip": 0.0}
BUDGET = {"epochs": 3, "n_train": 60_000, "n_scored": 10_000, "n_test": 10_000}
CHOOSING_BUDGET = BUDGET | {"n_train": 30_000}
LONG_BLOCKS, LONG_EPOCHS = BLOCKS[1:3], 30
SCALED = numbered("residual-scaled", 0.5)
RESIDUAL = (("residual", Config.gate_bias), (SCALED, Config.gate_bias))  # without gates, though each has a bias
GAINS = {"residual": {"init_gain": 0.1}}
MORE_BIAS = -8.0  # of the deepest highway nets, trained beside residual ones
GATE_IMAGES = 1_000  # training images over which mean T is taken
GROWTH, ACTIVE = 2.0, 0.01  # a block takes part if its mean T has grown by this factor and is above this value
KEPT = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # numbers of blocks that stay while all others are closed
TOLERANCE = 0.001  # test accuracy that the blocks that are not needed may be worth


@dataclass
class Gates:
    """The part that the blocks of a net take; mean T is by block, before and after training, null without gates."""

    untrained: lists_of(Share, "L") | None
    trained: lists_of(Share, "L") | None
    taking_part: Count
    # k: all blocks but the k of highest mean T are closed; the last k is the depth.
    kept: lists_of(Count, "kept")
    scores: lists_of(Share, "kept")  # test accuracy for each k
    needed: Count


DeepRun = TrainedRun[Config, Gates | None]  # null where the net is plain, tries a rate, or diverged


@dataclass
class ThousandLayersLog(Log):
    """The log runs/thousand_layers.json; `tried` chose the rates of `runs`.

    tried                       none with --long, whose rates are those of the log of 3 epochs
    growth, active, tolerance   by which blocks take part, and are needed
    guessing_loss               the least loss of a net that gives every training image the same answer
    """

    guessing_loss: float
    growth: float
    active: float
    tolerance: float
    tried: list[TriedRate]
    runs: NonEmpty[DeepRun]


EXPERIMENT = Experiment(__name__, __doc__, ThousandLayersLog, more={"long": "run --long", "residual": "run --residual"})


def entropy(y: np.ndarray) -> float:
    """Return the entropy (nats) of classes y (n,): the least loss of a net that gives every image the same answer."""
    shares = np.unique(y, return_counts=True)[1] / len(y)
    return float(-shares @ np.log(shares))


def count_needed(kept: list[int], scores: list[float]) -> int:
    """Return the least of `kept` from which on no score is more than the tolerance below the last."""
    short = np.flatnonzero(np.array(scores) < scores[-1] - TOLERANCE)
    return kept[short[-1] + 1 if len(short) else 0]


def mean_T(net: DeepNet, images: np.ndarray) -> list[float]:
    """Return the mean T of each block over images, uint8, as the log has it."""
    return numbers(net.gate_means(net.preprocess(images)), digits=4)


def measure_gates(training: Training, untrained: list[float], trained: list[float]) -> Gates:
    """Count the blocks of a trained highway net that take part and those that are needed, given mean T of each."""
    net, data = training.net, training.data
    before, after = np.array(untrained), np.array(trained)
    order = np.argsort(-after, kind="stable")
    kept = [*(k for k in KEPT if k < net.depth), net.depth]
    scores = [evaluate(net.without(order[k:]), data.test_x, data.test_y, training.loss)[1] for k in kept]
    taking_part = np.count_nonzero((after >= GROWTH * before) & (after > ACTIVE))
    return Gates(untrained, trained, int(taking_part), kept, scores, count_needed(kept, scores))


def measure_branches(training: Training) -> Gates:
    """Measure a trained residual net with its branches and, at last, without: where W_H and b_H are 0, H is."""
    net, data = training.net, training.data
    whole = training.history.test_score[-1]
    net.params["W_H"][...] = net.params["b_H"][...] = 0
    kept, scores = [0, net.depth], [evaluate(net, data.test_x, data.test_y, training.loss)[1], whole]
    return Gates(None, None, 0, kept, scores, count_needed(kept, scores))


def run_config(config: Config, data: Dataset) -> DeepRun:
    """Train one net, and measure what its blocks do unless it tries a rate."""
    training, gates = Training(config, data), None
    images = training.data.train_x[:GATE_IMAGES]
    gated, is_residual = config.block == "highway", (config.block, config.gate_bias) in RESIDUAL
    if config.n_validation:
        gated = is_residual = False
    with one_thread():
        untrained = mean_T(training.net, images) if gated else []
        for _ in training.epochs():
            pass
        if gated and not training.diverged:
            gates = measure_gates(training, untrained, mean_T(training.net, images))
        elif is_residual and not training.diverged:
            gates = measure_branches(training)
    return TrainedRun.of(config, training.so_far(), gates)


def plan(
    data: Dataset, smoke: bool, rates: dict[tuple, float] | None = None, *, residual: bool = False
) -> list[Config]:
    """Return the runs that try rates, or, given `rates` by arm, the runs that measure; the deepest first.

    residual    whether residual nets take the place of highway and plain ones
    """
    depths, tried, seeds = ((3, 6), RATES[1:3], SEEDS[:2]) if smoke else (DEPTHS, RATES, SEEDS)
    blocks, deepest = (RESIDUAL, [("highway", MORE_BIAS, max(depths))]) if residual else (BLOCKS, [])
    arms = [*deepest, *((*block, depth) for depth, block in product(sorted(depths, reverse=True), blocks)), CONTROL]
    if rates is None:
        return configs(dict.fromkeys(arms, tried), [CHOOSING_SEED], choosing(fit(CHOOSING_BUDGET, data, smoke)))
    return configs({arm: [rates[arm]] for arm in arms}, seeds, fit(BUDGET, data, smoke))


def plan_long(data: Dataset, smoke: bool, rates: dict[tuple, float]) -> list[Config]:
    """Return the runs of --long, given rates by arm."""
    deepest = max(depth for *_, depth in rates)
    arms = [*((*block, deepest) for block in LONG_BLOCKS), CONTROL]
    budget = fit(BUDGET | {"epochs": LONG_EPOCHS}, data, smoke)
    return configs({arm: [rates[arm]] for arm in arms}, SEEDS[: 2 if smoke else None], budget)


def configs(rates: dict[tuple, Sequence[float]], seeds: Sequence[int], budget: dict) -> list[Config]:
    """Return the configurations of every arm for each seed and each of its rates."""
    return [
        Config(block=block, depth=depth, gate_bias=bias, lr=lr, seed=seed, **SETTING, **GAINS.get(block, {}), **budget)
        for (block, bias, depth), lrs in rates.items()
        for seed in seeds
        for lr in lrs
    ]


def arm(run: DeepRun) -> tuple[str, float, int]:
    return run.config.block, run.config.gate_bias, run.config.depth


def run(job: ExperimentJob) -> None:
    residual = job.arguments.residual
    if job.arguments.long:
        rates = {arm(run): run.config.lr for run in EXPERIMENT.read(job.path).runs}
        if missing := [block for block in LONG_BLOCKS if block not in {of[:2] for of in rates}]:
            words = ", ".join(f"{block} from {bias:g}" for block, bias in missing)
            raise InputError(f"{job.path}: expected nets of {words}, found none; make it with {parser.prog}")
        job, tried = job.for_more("long"), []
        runs = job.run_missing(run_config, plan_long(job.data, job.smoke, rates), DeepRun)
    else:
        job = job.for_more("residual") if residual else job
        tried, runs = choose_and_measure(job, run_config, partial(plan, residual=residual), DeepRun, arm)
    constants = {"growth": GROWTH, "active": ACTIVE, "tolerance": TOLERANCE}
    guessing_loss = rounded(entropy(job.data.train_y))
    job.keep(runs[0].config, guessing_loss=guessing_loss, **constants, tried=tried, runs=runs)


parser = EXPERIMENT.add_run(run, "train all nets; resumable")
which = parser.add_mutually_exclusive_group()
which.add_argument("--residual", action="store_true", help="residual nets")
which.add_argument("--long", action="store_true", help=f"the deepest nets for {LONG_EPOCHS} epochs, after run")
