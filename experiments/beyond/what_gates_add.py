"""A comparison of what a highway net may owe its success to: gates, their start, scale, initial weights, or nothing.

A highway block does several things at once. At the start it nearly copies its input; its gates scale what a block adds,
and weaken what it carries; they are learned; and they depend on the input. Each arm keeps some of this:

    plain                    y = H, Glorot's initialisation (He's with ReLU)
    plain, orthogonal        y = H, orthogonal weights (Saxe et al. 2014; Pennington et al. 2017), times √2 with ReLU
    plain, identity          y = H, W_H begins as the identity matrix
    residual                 y = x + H
    residual, scaled         y = x + L^−p·H in a net of L blocks (compare Zhang et al. 2019, De & Smith 2020)
    ReZero, ReZero by block  y = x + a·H, one learned number a per unit, or per block, from 0 (Bachlechner et al. 2021)
    residual, gated          y = x + T(x)·H
    constant gates           y = T·H + (1 − T)·x, T one learned number per unit, the same for all inputs
    gates as drawn           a highway block whose W_T and b_T are not trained
    highway                  y = T(x)·H + (1 − T(x))·x (eq. 3)
    highway, orthogonal      a highway block, orthogonal weights

ReZero's number is a branch A whose weights stay 0, so that A = b_A; so is T of constant gates. Beside them stand
*shallow* nets: plain ones of 0, 1, 2 and 5 blocks, as wide as the others or so wide that they have as many parameters
as the deep highway net. A net without blocks still has its plain layer. A highway block of 50 units has two matrices;
arms with one that is trained run at 71 units, where a block has as many parameters, and at 50.

Two tasks. *Surviving depth*: the digits of MNIST, 6,000 images, where shallow nets do well. *Using depth*: the sum
modulo ten of two digits side by side (digit_pairs.py), 30,000 pairs drawn once, 10,000 test pairs. There all deep nets
have 100 units, so a gated net has twice the parameters: that it falls behind is then no matter of size.

Tuning. At each depth and width an arm chooses among 28 candidates: seven learning rates (RATES) times four values of
one hyperparameter of its own, its scale: the gain of the initial weights, p, b_T, or the factor s on the rate of a
(Adam does not see the size of a gradient, so that a = s·b_A moves s times as fast). All are tried with one seed, for 12
epochs, or for 20 of 60 and 8 of 30; the best FINALISTS by validation accuracy and the best FINALISTS by training loss
(on the sum by accuracy alone) are trained for all epochs with two other seeds. Settings are compared by the mean over
the seeds that were given all epochs. Accuracy is reported in the setting best by validation accuracy, training loss in
the one best by training loss. Test images are seen by the chosen settings alone, from other seeds. A chosen value that
lies at an end of its grid is named. What the grids hold was decided after a pilot of one to three seeds, no log of
which is kept; it suggested that scaled residual nets and ReZero come within a point of highway nets on the digits, and
that residual nets lead on the sum.

Rules. A diverged run counts as one that guesses: accuracy 0.1, loss ln 10. A loss above ln 10 counts as ln 10, one
below LEAST_LOSS as that, since single precision says nothing of smaller ones. All seeds count. The number of runs that
diverged or end at chance (accuracy below 0.2) stands beside each result, and so does the share of clipped steps.

Compared first: at 100 blocks of tanh units, 60 epochs, cosine, highway minus each of RIVALS (orthogonal plain, scaled
residual, ReZero, constant gates; of 71 units) and minus the shallow net that is best by the criterion at hand. Two
families of five tests: accuracy in points, which decides; and the decimal logarithm of the training loss, with a minus
sign, so that more is better, which is told beside it. Twenty seeds are paired: the same seed draws the same images. The
standard error is over seeds and test images. Of each difference one of four words is true: highway is *as good as* the
other if the difference is smaller than the margin (two one-sided tests at 0.05 over five; 0.5 points, 0.3
orders of magnitude); else it *outperforms* it, or *falls behind*, if Holm's p over the five is below 0.05; else it is
*inconclusive*. A true difference near the margin will come out so. The same is shown in the same settings without
clipping, with a constant rate, and with ReLU: what else was looked at, each family corrected in itself.

On the sum, at 1 to 50 blocks, first plain nets of all depths, wide ones, and residual nets. *Depth helps* there if the
residual net of 5 or more blocks that validates best leads over the best net of at most one block, of any width, by more
than 0.5 points (the low end of the paired 95 % interval). If it does not, no other arm is run, and the sum of three
digits takes its place, by the same rules. Compared there: highway minus each other arm of MAIN, each at the number of
blocks at which it validates best; one family of accuracy. The pairs are one draw, which no interval knows.

What outcomes mean; `outcomes` applies this, and several may hold. Highway as good as
- scaled residual nets or ReZero, and outperforming orthogonal plain nets: a start near the identity is what matters;
- orthogonal plain nets: the trouble of deep plain tanh nets was their initialisation;
- all four rivals in accuracy, and outperforming all in loss: gates help to fit, and add nothing to what is learned.
Highway outperforming
- all four rivals, constant gates among them: gating by the data helps;
- all rivals but constant gates: mixing T and 1 − T helps, and it need not see the data.
Highway not outperforming the best shallow net: for highway nets, depth does not help on this task; the arms compare how
well depth is survived.
Highway falling behind residual or scaled residual nets on the sum: gates do not use depth as well as a plain sum does.
Beside it stands the effective depth (the sum over blocks of the mean T) for every b_T and rate that was tried.
Where none holds, the words of the tests are told, and no more.

How wide the range of workable settings is: the share of the 28 candidates, tried with the first seed, whose validation
accuracy is within 2 points of the best of them. A gate may buy robustness instead of accuracy. It is described only.

Also run: 50 and 200 blocks for highway and its rivals; the other arms for 60 epochs (a study of its own since before
any run was scored, so that what is compared need not wait for them); and studies whose rules came after the first
study, before their own runs. *Wide*, for 12 epochs: highway nets of 1, 2 and 5 blocks so wide that they have as many
parameters as the deep one. The one that validates best is compared with the deep highway net and with the plain net of
at most 5 blocks that validates best. If it outperforms the plain one, gates help without depth; if it is as good or
worse, the lead of wide nets over deep highway nets is one of width, and the missing gates have no part in it.
*Wide-rivals*, after *wide*: scaled residual nets, ReZero and constant gates of 2 and 5 blocks, so wide that they have
as many parameters. The highway net of *wide* that validates best is compared with the best of each. If it outperforms
all three, gates that see the input help nets of few wide blocks; if it is as good as one or falls behind, what highway
nets gain there over plain nets is owed to the copy. *Gain*: 100 highway blocks from b_T −8, which the first study
chose, tuned by the gain of the initial weights instead, as plain and residual nets are. It is compared with highway,
constant gates and scaled residual. If it outperforms constant gates, a gain of gates was missed for want of tuning.
*Copy*, after all kinds of net for 60 epochs: the chosen highway and gated residual nets differ in b_T, too. So both are
scored from each of COPY_BIASES at the rate that both chose, with ten seeds; a family of three differences of
accuracy, gated residual minus highway. If gated residual nets outperform from every b_T, the factor 1 − T costs highway
nets accuracy wherever their gates begin; if only from the higher ones, it is open gates that it makes costly; if from
none, the difference is owed to the choice of settings. (Two validation runs each had shown none from −8.)
*Wide-long* and *wide-rivals-long*, after the comparison of 60 epochs: the nets of *wide* and *wide-rivals* for 60
epochs, by the same rules; the deep highway net and the plain nets are those of 60 epochs. All are families of accuracy,
by the margins above.

Not among the arms: batch and layer normalisation, which couple samples or units; a residual net with ReLU is tamed by
its scale alone, so the one without is shown as it is.

The picture of why: at the start, in the setting chosen by accuracy, the norm of the gradient by block and the singular
values of the Jacobian of all blocks, dx_L/dx_0, at one image.

    python -m experiments beyond.what_gates_add run --study STUDY     each study of STUDIES has its log; resumable
"""

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from highway_lab.fields import Count, NonEmpty, Score, Share
from highway_lab.logs import Log, Result, numbers
from highway_lab.threads import one_thread
from highway_networks import BLOCKS, LOSSES, Config, Dataset, DeepNet, InputError, evaluate, rounded

from ..blocks import number_of, numbered
from ..claims import ACCURACY_MARGIN
from ..common import CHANCE, CHANCE_LOSS, SMOKE_BUDGET, Experiment, ExperimentJob, group_by
from ..comparisons import Difference, over_seeds, over_seeds_and_images
from ..digit_pairs import pair_digits
from ..inside import ROWS
from ..partly_frozen import ClippedNet, FrozenTraining
from .blocks_compared import FLOW_BATCH, Flow, gradient_norms, jacobian

RATES = (5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3)
GAINS = (1.0, 1.05, 1.1, 1.2)  # of plain nets: at 1, a tanh net is at the edge between dying and chaotic signals
IDENTITY_GAINS = (1.0, 1.02, 1.05, 1.1)
RELU_GAINS = (0.98, 1.0, 1.02, 1.04)  # nothing bounds a ReLU net: in 100 blocks 1.1 is 10,000
RESIDUAL_GAINS = (0.5, 0.7, 1.0, 1.4)
HIGHWAY_GAINS = (0.7, 1.0, 1.4, 2.0)
BIASES = (-1.0, -2.0, -4.0, -8.0)
PAIR_BIASES = (0.0, -1.0, -2.0, -4.0)  # of shallower nets, which may begin with open gates
FINALISTS = 5  # settings by each criterion
TUNING_SEEDS = (100, 101, 102)
BLOCKS_OF_FIRST = 100
COPY_BIASES, COPY_RATE = (-2.0, -4.0, -8.0), 1.6e-3
NARROW, WIDE = 50, 71  # units: with two matrices and with one, a block has about 5,100 parameters
SHALLOW = (0, 1, 2, 5)
LEAST_LOSS = 1e-6


# ------------------------------------------------------------------------------------------- the arms


class Arm(NamedTuple):
    """A kind of net, and the four values of the hyperparameter that is its own scale.

    scale       the name of that hyperparameter, a field of Config
    fixed       other fields of Config; Glorot's initialisation where none is named
    constant    the branch that does not see the input: its weights stay 0, its biases are trained
    by_block    whether the units of a block share the bias of that branch
    frozen      parameters that stay as they were drawn
    identity    whether each W_H begins as the identity matrix, times the gain
    """

    scale: str
    values: Sequence[Any]
    fixed: Mapping[str, Any]
    constant: str = ""
    by_block: bool = False
    frozen: tuple[str, ...] = ()
    identity: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        """Units: as many parameters as highway blocks of 50 first, then as many units."""
        trains_gates = "block" in self.fixed and "T" in BLOCKS[self.fixed["block"]].branches and not self.constant
        return (NARROW,) if trains_gates and not self.frozen else (WIDE, NARROW)


PLAIN, GATED = {"block": "plain"}, {"block": "highway"}
ORTHOGONAL = {"init": "orthogonal"}
P = [numbered("residual-scaled", p) for p in (1, 0.75, 0.5, 0.25)]
S = [numbered("rezero", s) for s in (0.3, 1, 3, 10)]
ARMS = {
    "plain": Arm("init_gain", GAINS, PLAIN),
    "plain, orthogonal": Arm("init_gain", GAINS, PLAIN | ORTHOGONAL),
    "plain, identity": Arm("init_gain", IDENTITY_GAINS, PLAIN, identity=True),
    "residual": Arm("init_gain", RESIDUAL_GAINS, {"block": "residual"}),
    "residual, scaled": Arm("block", P, {}),
    "ReZero": Arm("block", S, {}, constant="A"),
    "ReZero by block": Arm("block", S, {}, constant="A", by_block=True),
    "residual, gated": Arm("gate_bias", BIASES, {"block": "residual-gated"}),
    "constant gates": Arm("gate_bias", BIASES, GATED, constant="T"),
    "gates as drawn": Arm("gate_bias", BIASES, GATED, frozen=("W_T", "b_T")),
    "highway": Arm("gate_bias", BIASES, GATED),
    "highway, orthogonal": Arm("gate_bias", BIASES, GATED | ORTHOGONAL),
    "highway, gain": Arm("init_gain", HIGHWAY_GAINS, GATED | {"gate_bias": -8.0}),
}
FURTHER = ("highway, gain",)  # not among the deep nets of each study
RIVALS = ("plain, orthogonal", "residual, scaled", "ReZero", "constant gates")
COMPARED = ("highway", *RIVALS)
MAIN = ("plain", "plain, orthogonal", "residual", "residual, scaled", "ReZero", "residual, gated", "highway")
DIGIT, SUM = "digit", "sum"  # tasks
GAIN_OF_RELU = math.sqrt(2)  # keeps the size of a signal of which ReLU drops half (He et al. 2015)


class Cell(NamedTuple):
    """An arm with its numbers of blocks and units: what is tuned by itself."""

    arm: str
    hidden: int
    depth: int


class Setting(NamedTuple):
    """Hyperparameters that a cell chooses: learning rate and the value of its own scale."""

    lr: float
    value: float | str


def candidates(arm: Arm, activation: str, of: str) -> list[Setting]:
    """Return the settings among which an arm chooses on a task."""
    values = arm.values
    if arm.scale == "gate_bias" and of == SUM:
        values = PAIR_BIASES
    if arm.fixed.get("block") == "plain" and activation == "relu":
        values = [gain * (GAIN_OF_RELU if arm.fixed.get("init") == "orthogonal" else 1) for gain in RELU_GAINS]
    return [Setting(lr, value) for lr, value in product(RATES, values)]


def configure(cell: Cell, setting: Setting, activation: str, **budget: Any) -> Config:
    """Return the configuration of a run; with ReLU, He's initialisation takes the place of Glorot's."""
    arm, fields = ARMS[cell.arm], {"init": "glorot"}
    if activation == "relu":
        fields = {"init": "he"} | ({"init_gain": GAIN_OF_RELU} if arm.fixed.get("init") == "orthogonal" else {})
    fields |= arm.fixed | {arm.scale: setting.value}
    return Config(**fields, hidden=cell.hidden, depth=cell.depth, lr=setting.lr, activation=activation, **budget)


class ArmNet(ClippedNet):
    """A net of an arm.

    shared: the name of a tensor (L, D) of which all units of a block share one number. They begin alike, and each gets
    the gradient of that number, divided by √D, so that the norm counts it once; Adam does not see the divisor.
    """

    shared: str | None = None

    def backward(self, dlogits, cache):
        gradients = super().backward(dlogits, cache)
        if self.shared:
            gradient = gradients[self.shared]
            gradient[...] = gradient.sum(axis=1, keepdims=True) / math.sqrt(self.hidden)
        return gradients

    @property
    def n_trained(self) -> int:
        """Number of parameters that are trained, a shared one counted once."""
        return super().n_trained - (self.params[self.shared].size - self.depth if self.shared else 0)


class ArmTraining(FrozenTraining):
    """The training of an arm's net."""

    net_type = ArmNet

    def __init__(self, arm: Arm, config: Config, data: Dataset):
        super().__init__(config, data)
        self.net.frozen = arm.frozen
        if arm.identity:
            self.net.params["W_H"][...] = config.init_gain * np.eye(config.hidden)
        if arm.constant:
            weights, biases = f"W_{arm.constant}", f"b_{arm.constant}"
            self.net.params[weights][...] = 0
            self.net.frozen, self.net.shared = (*arm.frozen, weights), biases if arm.by_block else None


# ------------------------------------------------------------------------------------------- the runs

N_VALIDATION, N_PAIRS, N_VALIDATION_PAIRS = 2_000, 30_000, 5_000
LEAST_EPOCHS = 30  # of runs whose test images are compared one by one, and so are kept


@dataclass(frozen=True)
class Task:
    """One run of an arm; `tuning`: whether it tries a setting, on validation images, or is scored on test images."""

    arm: Literal[*ARMS]
    of: Literal[DIGIT, SUM]
    tuning: bool
    config: Config

    @property
    def cell(self) -> Cell:
        return Cell(self.arm, self.config.hidden, self.config.depth)

    @property
    def setting(self) -> Setting:
        return Setting(self.config.lr, getattr(self.config, ARMS[self.arm].scale))


@dataclass
class ArmRun(Result):
    """A run by its last scores, null where it diverged; the loss is that of all training images.

    score     accuracy on validation images if the run is tuning, else on test images
    right     which test images are classified correctly, a bit each, in base 64; null for short and for tuning runs
    opened    mean over units and the first images that score of T, or of |s·A|, in each block; null if it has neither
    start     of the untrained net, of the first seed that is scored; singular values are those of dx_L/dx_0
    """

    task: Task
    n_trained: Count  # parameters
    diverged: bool
    clipped: Share  # of the steps
    train_loss: float | None
    score: Score | None
    right: str | None
    opened: list[float | None] | None
    start: Flow | None

    @property
    def config(self) -> Config:
        return self.task.config

    @property
    def effective_depth(self) -> float | None:
        """The sum over blocks of what is open; None if there is nothing to open or the run diverged."""
        return None if self.opened is None else sum(value or 0 for value in self.opened)


@dataclass
class Tried:
    """A run that tried a setting, as a log keeps it; null where it diverged."""

    arm: Literal[*ARMS]
    hidden: Count
    depth: Count
    lr: float
    value: float | str
    schedule: str
    epochs: Count
    seed: Count
    clipped: Share
    train_loss: float | None
    validation_score: Score | None
    opened: float | None  # sum over blocks of ArmRun.opened: the effective depth

    @property
    def cell(self) -> Cell:
        return Cell(self.arm, self.hidden, self.depth)

    @property
    def setting(self) -> Setting:
        return Setting(self.lr, self.value)


@dataclass
class WhatGatesAddLog(Log):
    """The log of one study; `tried` chose the settings of `runs`, and is empty if the study names them."""

    study: str
    tried: list[Tried]
    runs: NonEmpty[ArmRun]


def run_task(task: Task, data: Dataset) -> ArmRun:
    """Train one net, then score it."""
    if task.of == SUM:
        pairs = pair_digits(data, "sum", task.config.n_train, N_VALIDATION_PAIRS)
        data = pairs.to_tune() if task.tuning else pairs.to_score()
    training = ArmTraining(ARMS[task.arm], task.config, data)
    net = training.net
    x, y = training.validation if task.config.n_validation else (data.test_x, data.test_y)  # in the data set's order
    with one_thread():
        start = measure_start(training) if task.config.seed == SCORING_SEEDS[0] else None
        for _ in training.epochs(scored=False):
            pass
        train_loss, _ = evaluate(net, training.data.train_x, training.data.train_y, LOSSES["cross-entropy"])
        diverged = training.diverged or not math.isfinite(train_loss)
        right = predicted(net, x) == y
        opened = None if diverged else mean_opening(net, x)
    keep = not (task.tuning or diverged) and task.config.epochs >= LEAST_EPOCHS
    return ArmRun(
        None,
        task,
        n_trained=net.n_trained,
        diverged=diverged,
        clipped=rounded(net.clipped),
        train_loss=None if diverged else rounded(train_loss),
        score=None if diverged else rounded(right.mean()),
        right=base64.b64encode(np.packbits(right)).decode() if keep else None,
        opened=None if opened is None else numbers(opened, digits=4),
        start=start,
    )


def predicted(net: DeepNet, x: np.ndarray) -> np.ndarray:
    """Return the classes (n,) that a net predicts for samples (n, ...)."""
    starts = range(0, len(x), ROWS)
    return np.concatenate([net.predict(net.preprocess(x[start : start + ROWS])).argmax(axis=1) for start in starts])


def mean_opening(net: DeepNet, x: np.ndarray) -> np.ndarray | None:
    """Return the mean over units and the first samples (n, ...) of T, or of |s·A|, by block, (L,); None without."""
    if "A" in net.block.branches:
        return number_of(net.config["block"])[1] * np.abs(net.params["b_A"]).mean(axis=1)
    return net.gate_means(net.preprocess(x[:ROWS])) if net.has_gates else None


def measure_start(training: ArmTraining) -> Flow:
    """Measure an untrained net: gradients on a batch of training samples, the Jacobian at the first of them."""
    net, data = training.net, training.data
    x, y = net.preprocess(data.train_x[:FLOW_BATCH]), data.train_y[:FLOW_BATCH]
    _, cache = net.forward(x)
    J = np.eye(net.hidden)
    for l in range(net.depth):
        J = jacobian(net, cache.x[l, :, 0], l) @ J
    finite = np.isfinite(J).all()
    values = np.linalg.svd(J, compute_uv=False) if finite else np.full(net.hidden, np.nan)
    return Flow(numbers(gradient_norms(net, x, y), digits=4), numbers(values, digits=4))


# ---------------------------------------------------------------------------------------- the studies


@dataclass(frozen=True)
class Study:
    """One log: the cells that it tunes and scores, on which task and for how long.

    first       epochs for which all candidates are tried
    seeds       that score highway nets, rivals and shallow nets; the other cells have half of them
    base        the study that has to be there
    anew        whether the finalists of `base` are the only candidates
    unclipped   whether the chosen settings are scored without clipping, too
    settings    that are scored without being tuned
    """

    cells: Sequence[Cell]
    of: str = DIGIT
    activation: str = "tanh"
    epochs: int = 12
    first: int = 12
    schedule: str = "constant"
    criteria: tuple[str, ...] = ("accuracy", "loss")
    seeds: int = 20
    base: str | None = None
    anew: bool = False
    unclipped: bool = False
    settings: tuple[Setting, ...] = ()


def as_wide(d_in: int, matrices: int, hidden: int, depth: int, classes: int = 10) -> int:
    """Return how wide a net of so many square matrices may be, to have no more parameters than a deep highway net."""
    n_params = (d_in + 1) * hidden + 2 * depth * hidden * (hidden + 1) + classes * (hidden + 1)
    b, c = d_in + 1 + matrices + classes, classes - n_params  # matrices·D² + b·D + c = 0
    return int((math.sqrt(b * b - 4 * matrices * c) - b) / (2 * matrices)) if matrices else -c // b


PIXELS, PAIR_PIXELS, PAIR_UNITS = 784, 1_568, 100
PAIR_DEPTHS = (1, 2, 5, 10, 20, 50)
FIRST_OF_PAIRS = ("plain", "residual")  # that show whether depth helps
SHALLOW_CELLS = [
    *(Cell("plain", hidden, depth) for hidden in (WIDE, NARROW) for depth in SHALLOW),
    *(Cell("plain", as_wide(PIXELS, depth, NARROW, BLOCKS_OF_FIRST), depth) for depth in SHALLOW),
]
DEEP_ARMS = {name: arm for name, arm in ARMS.items() if name not in FURTHER}
DEEP_CELLS = [Cell(name, D, BLOCKS_OF_FIRST) for name, arm in DEEP_ARMS.items() for D in arm.widths]
LONG_CELLS = [  # that are compared: with as many parameters as highway nets, or 71 units
    *(Cell(name, ARMS[name].widths[0], BLOCKS_OF_FIRST) for name in COMPARED),
    *(cell for cell in SHALLOW_CELLS if cell.hidden != NARROW),
]
OTHER_LONG_CELLS = [
    Cell(name, arm.widths[0], BLOCKS_OF_FIRST) for name, arm in DEEP_ARMS.items() if name not in COMPARED
]
COPY_CELLS = [Cell(name, NARROW, BLOCKS_OF_FIRST) for name in ("residual, gated", "highway")]
OTHER_DEPTHS = [Cell(name, ARMS[name].widths[0], depth) for depth in (50, 200) for name in COMPARED]
WIDE_CELLS = [Cell("highway", as_wide(PIXELS, 2 * depth, NARROW, BLOCKS_OF_FIRST), depth) for depth in SHALLOW if depth]
WIDE_RIVAL_CELLS = [
    Cell(name, as_wide(PIXELS, depth, NARROW, BLOCKS_OF_FIRST), depth) for name in RIVALS[1:] for depth in (2, 5)
]
WIDE_PAIR_CELLS = [
    *(Cell("plain", as_wide(PAIR_PIXELS, 1, PAIR_UNITS, depth), 1) for depth in (20, 50)),
    Cell("residual", as_wide(PAIR_PIXELS, 1, PAIR_UNITS, 20), 1),
]
FIRST_PAIR_CELLS = [
    Cell("plain", PAIR_UNITS, 0),
    *WIDE_PAIR_CELLS,
    *(Cell(name, PAIR_UNITS, depth) for name in FIRST_OF_PAIRS for depth in PAIR_DEPTHS),
]
PAIR_CELLS = [Cell(name, PAIR_UNITS, depth) for depth in PAIR_DEPTHS for name in MAIN if name not in FIRST_OF_PAIRS]
PAIRS = {"of": SUM, "epochs": 30, "first": 8, "schedule": "cosine", "criteria": ("accuracy",), "seeds": 10}
LONG = {"epochs": 60, "first": 20, "schedule": "cosine"}
STUDIES = {
    "tanh": Study([*DEEP_CELLS, *SHALLOW_CELLS]),
    "sum-first": Study(FIRST_PAIR_CELLS, **PAIRS),
    "sum": Study(PAIR_CELLS, **PAIRS, base="sum-first"),
    "tanh-long": Study(LONG_CELLS, **LONG, unclipped=True),
    "tanh-long-others": Study(OTHER_LONG_CELLS, **LONG),
    "wide-long": Study(WIDE_CELLS, **LONG),
    "wide-rivals-long": Study(WIDE_RIVAL_CELLS, **LONG),
    "relu": Study([*DEEP_CELLS, *SHALLOW_CELLS], activation="relu"),
    "depths": Study(OTHER_DEPTHS),
    "tanh-constant": Study(LONG_CELLS, epochs=60, base="tanh", anew=True),
    "relu-long": Study(LONG_CELLS, **LONG, activation="relu", unclipped=True),
    "wide": Study(WIDE_CELLS),
    "wide-rivals": Study(WIDE_RIVAL_CELLS),
    "copy": Study(COPY_CELLS, **LONG | {"seeds": 10}, settings=tuple(Setting(COPY_RATE, bias) for bias in COPY_BIASES)),
    "gain": Study([Cell(name, NARROW, BLOCKS_OF_FIRST) for name in FURTHER]),
}
FIRST_STUDY, *MORE = STUDIES
SCORING_SEEDS = tuple(range(20))
BUDGETS = {DIGIT: {"n_train": 6_000, "n_test": 10_000}, SUM: {"n_train": N_PAIRS, "n_test": 10_000}}
EXPERIMENT = Experiment(__name__, __doc__, WhatGatesAddLog, more={name: f"run --study {name}" for name in MORE})


def mean_quality(tries: Iterable[Tried], criterion: str) -> float:
    """Return the mean over seeds of what a criterion compares, more is better; a diverged run guesses."""
    if criterion == "accuracy":
        return float(np.mean([CHANCE if of.validation_score is None else of.validation_score for of in tries]))
    return -float(np.mean([math.log10(counted_loss(of.train_loss)) for of in tries]))


def counted_loss(loss: float | None) -> float:
    """Return the training loss of a run as it is compared: at most that of guessing, which is a diverged run's."""
    return CHANCE_LOSS if loss is None else min(max(loss, LEAST_LOSS), CHANCE_LOSS)


def ranked(tried: Iterable[Tried], cell: Cell, criterion: str) -> list[tuple[Setting, float]]:
    """Return the settings of a cell and their mean quality: those tried longest and most often first, then the best."""
    of_cell = [of for of in tried if of.cell == cell]
    longest = max(of.epochs for of in of_cell)
    found = []
    for tries in group_by(of_cell, lambda of: tuple(map(str, of.setting))).values():
        whole = [of for of in tries if of.epochs == longest]
        found.append((tries[0].setting, len(whole), mean_quality(whole or tries, criterion)))
    found.sort(key=lambda of: of[1:], reverse=True)
    return [(setting, quality) for setting, _, quality in found]


def finalists(tried: Sequence[Tried], cell: Cell, criteria: Iterable[str]) -> list[Setting]:
    """Return the best settings of a cell by each criterion."""
    best = [setting for criterion in criteria for setting, _ in ranked(tried, cell, criterion)[:FINALISTS]]
    return list(dict.fromkeys(best))


def is_shallow(cell: Cell) -> bool:
    return cell.arm == "plain" and cell.depth <= max(SHALLOW)


def is_compared(cell: Cell) -> bool:
    """Return whether a cell is highway's, a rival's or a shallow net's."""
    return cell.arm in COMPARED or is_shallow(cell)


@dataclass
class Plan:
    """Runs of a study. `finish` trains those tasks of a list that have no result yet, and returns all results.

    budget          of a run that is scored
    n_validation    samples on which settings are tuned
    every           one of so many candidates is tried
    """

    study: Study
    cells: Sequence[Cell]
    budget: dict[str, int]
    n_validation: int
    finish: Callable[[list[Task]], list[ArmRun]]
    every: int = 1

    def task(self, cell: Cell, setting: Setting, seed: int, *, tuning: bool, **options: Any) -> Task:
        study, budget = self.study, self.budget | {"epochs": self.study.epochs, "schedule": self.study.schedule}
        if tuning:  # validation pairs take the place of test pairs
            budget |= (
                {"n_test": self.n_validation} if study.of == SUM else {"n_test": 1, "n_validation": self.n_validation}
            )
        return Task(
            cell.arm, study.of, tuning, configure(cell, setting, study.activation, seed=seed, **budget | options)
        )

    def try_out(self, settings: Mapping[Cell, Iterable[Setting]], seeds: Sequence[int], **options: Any) -> list[Tried]:
        """Try settings of each cell."""
        tries = [(cell, setting, seed) for cell, of in settings.items() for setting in of for seed in seeds]
        return [as_tried(run) for run in self.finish([self.task(*of, tuning=True, **options) for of in tries])]

    def tune(self, base: Sequence[Tried] | None) -> list[Tried]:
        """Try all candidates, then the finalists with other seeds; or only the finalists of `base`."""
        study, tried = self.study, base
        if tried is None:
            every = {cell: candidates(ARMS[cell.arm], study.activation, study.of)[:: self.every] for cell in self.cells}
            tried = self.try_out(every, TUNING_SEEDS[:1], epochs=study.first)
        best = {cell: finalists(tried, cell, study.criteria) for cell in self.cells}
        return [*([] if base else tried), *self.try_out(best, TUNING_SEEDS[1:])]

    def score(self, tried: Sequence[Tried], seeds: Sequence[int], **options: Any) -> list[ArmRun]:
        """Score the study's settings, or those that are best by each criterion; `options` are fields of Config."""
        best = {
            cell: self.study.settings
            or dict.fromkeys(ranked(tried, cell, criterion)[0][0] for criterion in self.study.criteria)
            for cell in self.cells
        }
        few = seeds[: math.ceil(len(seeds) / 2)]
        tasks = [
            self.task(cell, setting, seed, tuning=False, **options)
            for cell, settings in best.items()
            for setting in settings
            for seed in (seeds if is_compared(cell) or self.study.of == SUM or self.study.settings else few)
        ]
        return self.finish(tasks)


def as_tried(run: ArmRun) -> Tried:
    """Return what a log keeps of a run that tried a setting."""
    return Tried(
        *run.task.cell,
        *run.task.setting,
        schedule=run.config.schedule,
        epochs=run.config.epochs,
        seed=run.config.seed,
        clipped=run.clipped,
        train_loss=run.train_loss,
        validation_score=run.score,
        opened=None if run.opened is None else rounded(run.effective_depth, digits=4),
    )


def new_plan(study: Study, job: ExperimentJob, own: ExperimentJob) -> Plan:
    """Return the plan of a study; that of a smoke run has a few small nets."""
    cells, budget, n_validation, every = study.cells, BUDGETS[study.of], N_VALIDATION, 1
    if job.smoke:
        arms = [cell.arm for cell in cells] if study.settings else ["residual", "ReZero by block", *COMPARED]
        cells = [*(Cell(arm, 8, 6) for arm in arms), *[Cell("plain", 8, 1)] * (not study.settings)]
        study, budget, n_validation, every = replace(study, epochs=2, first=1), SMOKE_BUDGET, 64, 5
    if study.of == SUM:
        parts = pair_digits(job.data, "sum", N_PAIRS, N_VALIDATION_PAIRS)
        n_train, n_validation, n_test = (len(part.y) for part in parts)
        budget = {"n_train": min(budget["n_train"], n_train), "n_test": min(budget["n_test"], n_test)}
    finish = partial(own.run_missing, run_task, schema=ArmRun)
    return Plan(study, cells, {**budget}, n_validation, finish, every)


# ------------------------------------------------------------------------------------ what was found


def scored_runs(log: WhatGatesAddLog, cell: Cell, criterion: str, *, clipped: bool = True) -> list[ArmRun]:
    """Return the runs of a cell in the setting that is best by a criterion, one a seed."""
    wanted = cell, ranked(log.tried, cell, criterion)[0][0], clipped
    return [of for of in log.runs if (of.task.cell, of.task.setting, of.config.clip > 0) == wanted]


def best_cell(log: WhatGatesAddLog, cells: Iterable[Cell], criterion: str) -> Cell:
    """Return the cell whose best setting is best by a criterion, on validation images or by training loss."""
    return max(cells, key=lambda cell: ranked(log.tried, cell, criterion)[0][1])


def values_of(runs: Sequence[ArmRun], criterion: str) -> np.ndarray:
    """Return what is compared, more is better: accuracy in points, or minus the decimal logarithm of the loss."""
    if criterion == "accuracy":
        return np.array([100 * (CHANCE if run.score is None else run.score) for run in runs])
    return np.array([-math.log10(counted_loss(run.train_loss)) for run in runs])


def right_images(run: ArmRun) -> np.ndarray:
    """Return which test images a run classifies correctly (n,), 1 or 0; CHANCE for each where it diverged."""
    n = run.config.n_test
    if run.right is None:
        return np.full(n, CHANCE)
    return np.unpackbits(np.frombuffer(base64.b64decode(run.right), np.uint8), count=n).astype(float)


def compare(runs: Sequence[ArmRun], others: Sequence[ArmRun], criterion: str) -> Difference:
    """Return the difference of two nets over the seeds that both have, in points or orders of magnitude.

    The images of short runs are not kept: their accuracy is compared over seeds alone.
    """
    theirs = {run.config.seed: run for run in others}
    pairs = [(run, theirs[run.config.seed]) for run in runs if run.config.seed in theirs]
    if criterion == "loss" or not all(run.right or run.diverged for pair in pairs for run in pair):
        return over_seeds(np.subtract(*(values_of(of, criterion) for of in zip(*pairs, strict=True))))
    return over_seeds_and_images(100 * np.array([right_images(a) - right_images(b) for a, b in pairs]))


def lead_of_depth(log: WhatGatesAddLog) -> Difference:
    """Return the points by which the best residual net of 5 or more blocks leads over the best of at most one."""
    cells = dict.fromkeys(of.cell for of in log.tried)
    deep = [cell for cell in cells if cell.arm == "residual" and cell.depth >= 5]
    shallow = [cell for cell in cells if cell.depth <= 1]
    best = (best_cell(log, of, "accuracy") for of in (deep, shallow))
    return compare(*(scored_runs(log, cell, "accuracy") for cell in best), "accuracy")


def run(job: ExperimentJob) -> None:
    name = job.arguments.study
    study, own = STUDIES[name], job if name == FIRST_STUDY else job.for_more(name)
    base = study.base and EXPERIMENT.read((job if study.base == FIRST_STUDY else job.for_more(study.base)).path)
    if study.base == "sum-first" and not job.smoke and (lead := lead_of_depth(base).interval()).low <= ACCURACY_MARGIN:
        found = f"expected deep residual nets that lead by more than {ACCURACY_MARGIN} points, found {lead}"
        raise InputError(f"--study {name}: {found}; take the sum of three digits")
    plan = new_plan(study, job, own)
    tried = [] if study.settings else plan.tune(base.tried if study.anew else None)
    seeds = SCORING_SEEDS[: 2 if job.smoke else study.seeds]
    runs = []
    for options in ({}, {"clip": 0.0})[: 1 + study.unclipped]:
        runs += plan.score(tried, seeds, **options)
        own.keep(runs[0].config, study=name, tried=tried, runs=runs)  # what is compared need not wait for the rest


parser = EXPERIMENT.add_run(run, "tune and score the arms of a study; resumable")
parser.add_argument("--study", choices=STUDIES, default=FIRST_STUDY, help="default: %(default)s")
