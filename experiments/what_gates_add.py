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
standard error is over seeds and test images (comparisons.py). Of each difference one of four words is true: highway is
*as good as* the other if the difference is smaller than the margin (two one-sided tests at 0.05 over five; 0.5 points,
0.3 orders of magnitude); else it *outperforms* it, or *falls behind*, if Holm's p over the five is below 0.05; else it
is *inconclusive*. A true difference near the margin will come out so. The same is shown in the same settings without
clipping, with a constant rate, and with ReLU: what else was looked at, each family corrected in itself.

On the sum, at 1 to 50 blocks, first plain nets of all depths, wide ones, and residual nets. *Depth helps* there if the
residual net of 5 or more blocks that validates best leads over the best net of at most one block, of any width, by more
than 0.5 points (the low end of the paired 95 % interval). If it does not, no other arm is run, and the sum of three
digits takes its place, by the same rules. Compared there: highway minus each other arm of MAIN, each at the number of
blocks at which it validates best; one family of accuracy. The pairs are one draw, which no interval knows.

What outcomes mean; several may hold. Highway as good as
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

Widened (NEXT), after all results above were known and before any of its runs. (In STUDY the studies of 60 epochs are
the first and "wide"; those of twelve, all of them, are "short".) Highway nets had chosen the lowest b_T on offer,
ReZero the highest s, and by training loss several nets an end of their rates. So in the studies of 60 epochs each grid
grows: settings one step from any of the best FINALISTS, in one hyperparameter at a time, are tried too, at most four
times; rules, seeds and margins stay, and old verdicts stay beside the new. The chosen nets that are compared first are
scored without clipping, too, as was registered. The same nets are tuned and trained for 60 epochs at a constant rate;
that they are tuned anew for it was not registered. Highway, orthogonal plain, scaled residual and ReZero nets are tuned
with 200 blocks, too, at the cosine rate and clipped. ReLU is not run.

Families: both of the first comparison, of which the outcomes are taken anew; the same two without clipping, and at the
constant rate; with 200 blocks, highway minus three, accuracy; among wide nets the three rivals as before. Residual and
gated residual nets join the wide nets, with ten seeds: a family of two. All but the first comparison are exploratory.
The deficit of highway nets to another net was one of too narrow a grid if they are now *as good as* it or *outperform*
it, and their new setting is better than their old one (the paired 95 % interval lies above 0). If they still fall
behind, the deficit stands; if the word is *inconclusive*, or their choice has an untried neighbour, nothing is said of
the cause. From −8 the next b_T is −16; between them nothing is tried.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.intervals import Estimate, mean_of
from highway_lab.logs import grouped
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet

from . import study_command
from .blocks import rezero_fields, scaled_fields
from .claims import ACCURACY_MARGIN, LOSS_MARGIN
from .common import CHANCE_LOSS, packed, unpacked
from .common_figures import rows_figure
from .comparisons import BEHIND, OUTPERFORMS, judge_family, over_seeds_and_images
from .digit_pairs import pair_digits
from .flow import Flow, measure_flow
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, Task, accuracies
from .study_command import ROWS

# ------------------------------------------------------------------------------------------- the arms

RATES = {"lr": (5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3)}
GAINS = RATES | {"init_gain": (1.0, 1.05, 1.1, 1.2)}  # of plain nets: at 1, between dying and chaotic signals
BIASES, PAIR_BIASES = (-1.0, -2.0, -4.0, -8.0), (0.0, -1.0, -2.0, -4.0)  # shallower nets may begin with open gates
COPY_BIASES, COPY_RATE = (-2.0, -4.0, -8.0), 1.6e-3
FINALISTS = 5  # settings by each criterion
MORE_SEEDS, SEEDS = range(20), range(10)
LEAST_LOSS = 1e-6
GLOROT, PLAIN, GATED, ORTHOGONAL = {"init": "glorot"}, {"block": "plain"}, {"block": "highway"}, {"init": "orthogonal"}


def arms(biases: tuple[float, ...]) -> dict[str, Arm]:
    gates, gated = RATES | {"gate_bias": biases}, GLOROT | GATED
    factors, number = RATES | {"s": (0.3, 1.0, 3.0, 10.0)}, GLOROT | {"zero": "W_A"}
    return {
        "plain": Arm(GLOROT | PLAIN, GAINS),
        "plain, orthogonal": Arm(PLAIN | ORTHOGONAL, GAINS),
        "plain, identity": Arm(GLOROT | PLAIN | {"identity": True}, RATES | {"init_gain": (1.0, 1.02, 1.05, 1.1)}),
        "residual": Arm(GLOROT | {"block": "residual"}, RATES | {"init_gain": (0.5, 0.7, 1.0, 1.4)}),
        "residual, scaled": Arm(GLOROT, RATES | {"p": (1.0, 0.75, 0.5, 0.25)}, scaled_fields),
        "ReZero": Arm(number, factors, rezero_fields),
        "ReZero by block": Arm(number | {"shared": "b_A"}, factors, rezero_fields),
        "residual, gated": Arm(GLOROT | {"block": "residual-gated"}, gates),
        "constant gates": Arm(gated | {"zero": "W_T"}, gates),
        "gates as drawn": Arm(gated | {"frozen": "W_T,b_T"}, gates),
        "highway": Arm(gated, gates),
        "highway, orthogonal": Arm(GATED | ORTHOGONAL, gates),
        "highway, gain": Arm(gated | {"gate_bias": -8.0}, RATES | {"init_gain": (0.7, 1.0, 1.4, 2.0)}),
    }


ARMS = arms(BIASES)
RIVALS = ("plain, orthogonal", "residual, scaled", "ReZero", "constant gates")
COMPARED, COPIED = ("highway", *RIVALS), ("residual, gated", "highway")
OTHERS = ("plain", "plain, identity", "residual", "ReZero by block", "residual, gated", "gates as drawn")
MAIN = ("plain", "plain, orthogonal", "residual", "residual, scaled", "ReZero", "residual, gated", "highway")
SHALLOW = 5  # blocks at most


@dataclass(frozen=True)
class TaskCell(Cell):
    """An arm in one size, on the digits or on the sum of two."""

    of: Literal["digit", "sum"] = "digit"


def deep(names: Sequence[str], depth: int = 100) -> list[TaskCell]:
    return [TaskCell(name, ARMS[name].units, depth) for name in names]


def sized(arm: str, *sizes: tuple[int, int]) -> list[TaskCell]:
    return [TaskCell(arm, hidden, depth) for hidden, depth in sizes]


# With no more parameters than the deep highway net: plain nets, highway nets, and others of 2 and 5 blocks.
WIDE_SIZES, HIGHWAY_SIZES = ((691, 0), (443, 1), (361, 2), (261, 5)), ((361, 1), (284, 2), (197, 5))
NARROW = [cell for hidden in (71, 50) for cell in sized("plain", *((hidden, depth) for depth in (0, 1, 2, 5)))]
WIDE = [*sized("highway", *HIGHWAY_SIZES), *(cell for arm in RIVALS[1:] for cell in sized(arm, *WIDE_SIZES[2:]))]
LONG = [*deep(COMPARED), *NARROW[:4], *sized("plain", *WIDE_SIZES), *deep((*OTHERS, "highway, orthogonal"))]
AT_50 = [TaskCell(name, 50, 100) for name in (*OTHERS, *COMPARED) if ARMS[name].units == 71]
SHORT = [*LONG, *AT_50, *NARROW[4:], *deep(COMPARED, 50), *deep(COMPARED, 200), *WIDE, *deep(["highway, gain"])]
PAIRS = [
    TaskCell("plain", 100, 0, "sum"),
    *(TaskCell(arm, hidden, 1, "sum") for arm, hidden in (("plain", 299), ("plain", 548), ("residual", 299))),
    *(TaskCell(arm, 100, depth, "sum") for depth in (1, 2, 5, 10, 20, 50) for arm in MAIN),
]


# ------------------------------------------------------------------------------------------- the runs

N_TRAIN, N_PAIRS, N_VALIDATION_PAIRS, N_TEST = 6_000, 30_000, 5_000, 10_000
LEAST_EPOCHS = 30  # of runs whose test images are compared one by one, and so are kept


@dataclass
class ArmMeasured(Measured):
    """What is measured of a run; what only results have is null in one that chooses.

    right     which test images are classified correctly, a bit each, packed; null for short runs, too
    start     of the untrained net, of the first seed that is scored; singular values are those of dx_L/dx_0
    """

    right: str | None
    start: Flow | None


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net, then score it."""
    if task.cell.of == "sum":
        data = pair_digits(data, "sum", bool(task.result), task.config.n_train, N_VALIDATION_PAIRS)
    judged = None if task.config.n_validation else (data.test_x, data.test_y)  # in the data set's order

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> ArmMeasured:
        right = start = None
        if task.result and task.config.seed == 0:
            fresh = Training(task.config, data)
            start = measure_flow(fresh.net, fresh.data, range(net.depth))
        if task.result and common.train_loss is not None and task.config.epochs >= LEAST_EPOCHS:
            starts = range(0, len(x), ROWS)
            found = [net.predict(net.preprocess(x[at : at + ROWS])).argmax(axis=1) for at in starts]
            right = packed(np.packbits(np.concatenate(found) == y))
        return ArmMeasured(**vars(common), right=right, start=start)

    return study_command.train(task, data, judged=judged, measure=measure)


# ---------------------------------------------------------------------------------------- the studies


def log_loss(run: StudyRun) -> float:
    """Return the logarithm of a run's training loss as it is compared: that of guessing if it diverged, or at most."""
    loss = run.measured.train_loss
    return math.log10(CHANCE_LOSS if loss is None else min(max(loss, LEAST_LOSS), CHANCE_LOSS))


CRITERIA = {"accuracy": lambda run: -run.accuracy, "loss": log_loss}


def configure(fields: Mapping, cell: TaskCell, stage: Stage) -> ArmConfig:
    """Return the configuration of a run; one that chooses is scored on validation images, or on validation pairs."""
    n_train, validating = N_TRAIN, {"n_test": 1, "n_validation": 2_000}
    if cell.of == "sum":
        n_train, validating = N_PAIRS, {"n_test": N_VALIDATION_PAIRS}
    samples = {"n_test": N_TEST} if stage.result else validating
    return ArmConfig(**fields, **samples, n_train=n_train, hidden=cell.hidden, depth=cell.depth)


def is_compared(cell: TaskCell) -> bool:
    return cell.arm in COMPARED or (cell.arm == "plain" and cell.depth <= SHALLOW)


def scoring_seeds(cell: TaskCell) -> range:
    """Return more seeds for highway nets, rivals and shallow plain nets on the digits than for others."""
    return MORE_SEEDS if is_compared(cell) and cell.of == "digit" else SEEDS


def study(cells: Sequence[TaskCell], first: int, epochs: int, schedule: str, **options: Any) -> Study:
    """Return a study whose cells try all settings for `first` epochs, and the best for all."""
    fields = {"schedule": schedule}
    stages = (
        Stage((100,), first, None, fields),
        Stage((101, 102), epochs, FINALISTS, fields),
        Stage(scoring_seeds, epochs, 1, fields, "scored"),
    )
    usual = {"stages": stages, "criteria": CRITERIA, "own": lambda name, arm: TaskCell(name, arm.units, 100)}
    return Study(**{"arms": ARMS, **usual, **options}, cells=cells, configure=configure, measured=ArmMeasured)


COPY_GRID = {"lr": (COPY_RATE,), "gate_bias": COPY_BIASES}
of_copy = {"arms": {name: Arm(ARMS[name].options, COPY_GRID) for name in COPIED}, "own": None}
of_pairs = {"arms": arms(PAIR_BIASES), "criteria": {"accuracy": CRITERIA["accuracy"]}, "own": None}
scored = Stage(SEEDS, 60, options={"schedule": "cosine"}, result="scored")
JUDGED = [*filter(is_compared, LONG)]
WHOLE = [*sized("residual", *WIDE_SIZES[2:]), *sized("residual, gated", *HIGHWAY_SIZES[1:])]
wider, UNCLIPPED = study(LONG, 20, 60, "cosine", growth=4), "without clipping"
unclipped = Stage(lambda of: MORE_SEEDS if of in JUDGED else (), 60, 1, {**scored.options, "clip": 0.0}, UNCLIPPED)
STUDY = {  # by the endings of their logs
    "": replace(wider, stages=[*wider.stages, unclipped]),
    "wide": study([*WIDE, *WHOLE], 20, 60, "cosine", growth=4),
    "copy": study(deep(COPIED), 20, 60, "cosine", stages=[scored], **of_copy),
    "short": study(SHORT, 12, 12, "constant"),
    "sum": study(PAIRS, 8, 30, "cosine", **of_pairs),
}
NEXT = {
    "": replace(STUDY[""], cells=[*LONG, *deep(COMPARED[:4], 200)]),
    "constant": study(JUDGED, 20, 60, "constant", growth=4),
}
FIRST = {"": study(LONG, 20, 60, "cosine"), "wide": study(WIDE, 20, 60, "cosine")}  # before their grids grew


# ---------------------------------------------------------------------------------------- what was found

HIGHWAY, BEST_SHALLOW = TaskCell("highway", 50, 100), "best shallow net"
DEEP = {**{cell.arm: [cell] for cell in deep(COMPARED)}, BEST_SHALLOW: [of for of in JUDGED if of.depth <= SHALLOW]}
WIDE_KINDS = grouped(WIDE, lambda cell: cell.arm)
WHOLE_KINDS = {"highway": WIDE_KINDS["highway"], **grouped(WHOLE, lambda cell: cell.arm)}
PASSED = 0.01  # of the largest singular value: directions above it count as passed on


def name_of(cell: TaskCell) -> str:
    return f"{cell.arm}, {count_of(cell.depth, 'block')} of {cell.hidden}"


def right_images(run: StudyRun) -> np.ndarray:
    """Return which test images a run classifies correctly (n,), 1 or 0; that of guessing for each if it diverged."""
    if run.diverged:
        return np.full(run.config.n_test, run.accuracy)
    return np.unpackbits(unpacked(run.measured.right), count=run.config.n_test).astype(float)


def compare(runs: Sequence[StudyRun], others: Sequence[StudyRun], criterion: str = "accuracy") -> Estimate:
    """Return by how much runs are better than others, over the seeds of both: in points, or in orders of magnitude."""
    theirs = {run.config.seed: run for run in others}
    pairs = [(run, theirs[run.config.seed]) for run in runs if run.config.seed in theirs]
    if criterion == "loss":
        return mean_of([log_loss(other) - log_loss(run) for run, other in pairs])
    return over_seeds_and_images(100 * np.array([right_images(run) - right_images(other) for run, other in pairs]))


def best(results: Results, kinds: Mapping[str, Sequence[TaskCell]], criterion: str = "accuracy") -> dict[str, TaskCell]:
    """Return of each kind the cell that was best by a criterion where settings were chosen."""
    return {kind: min(cells, key=lambda of: results.quality(of, criterion)) for kind, cells in kinds.items()}


def family(
    results: Results, kinds: Mapping[str, Sequence[TaskCell]], criterion: str = "accuracy", result: str = "scored"
) -> dict[str, Estimate]:
    """Return by how much highway nets are better than each other kind, in the sizes and settings that were best."""
    cells = best(results, kinds, criterion)
    highway = results.scored(cells.pop("highway"), criterion, result)
    return {kind: compare(highway, results.scored(cell, criterion, result), criterion) for kind, cell in cells.items()}


def passed_on(results: Results, arm: str) -> tuple[int, int]:
    """Return how many directions of an input an untrained net of 100 blocks passes on as it was chosen, and of all."""
    (start,) = [run.measured.start for run in results.scored(*deep([arm])) if run.measured.start]
    values = np.array(start.singular_values, float)
    return int(np.sum(values > PASSED * np.nanmax(values))), len(values)


def workable(results: Results, cell: TaskCell) -> int:
    """Return how many of the settings tried first validate within 2 points of the best of them, with the first seed."""
    tried = [run for run in results.tries(cell) if run.config.seed == 100 and run.setting in results.study.grid(cell)]
    return int(np.sum(accuracies(tried) > accuracies(tried).max() - 2))


def width(results: Mapping[str, Results]) -> dict[str, Estimate]:
    """Return by how much the best wide highway net is better than the best shallow plain one, and than the deep one."""
    highway = results["wide"].scored(best(results["wide"], WIDE_KINDS)["highway"])
    others = {BEST_SHALLOW: best(results[""], DEEP)[BEST_SHALLOW], "deep": HIGHWAY}
    return {name: compare(highway, results[""].scored(cell)) for name, cell in others.items()}


def families(results: Mapping[str, Results], first: Mapping[str, Results]) -> dict[str, dict[Any, Estimate]]:
    """Return by name by how much highway nets are better than others, in each family; first `accuracy` and `loss`."""
    regimes = {"": (results[""], "scored"), "first ": (first[""], "scored"), "unclipped ": (results[""], UNCLIPPED)}
    return {
        **{f"{name}{of}": family(at, DEEP, of, stage) for name, (at, stage) in regimes.items() for of in CRITERIA},
        "wide": family(results["wide"], WIDE_KINDS),
        "first wide": family(first["wide"], WIDE_KINDS),
        "whole": family(results["wide"], WHOLE_KINDS),
        "width": width(results),
        "first width": width(first),
        "sum": family(results["sum"], grouped([cell for cell in PAIRS if cell.hidden == 100], lambda cell: cell.arm)),
    }


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what pages quote: accuracies in %, by the name of a net, and by how many points it is ahead of highway.

    The nets of 60 epochs are `long`, those of twelve `short`; leads are over 100 highway blocks. `beside`: the word of
    the other net. `at_an_end`: whether a deep net of the sum chose an end of its grid.
    """
    parts = {"long": ("", "wide"), "short": ("short",), "sum": ("sum",)}
    runs = {
        of: {name_of(cell): results[ending].scored(cell) for ending in parts[of] for cell in results[ending].finished}
        for of in parts
    }
    scores = {of: {name: accuracies(each) for name, each in runs[of].items()} for of in parts}
    copied = {cell.arm: results["copy"].settings(cell) for cell in results["copy"].finished}
    done = {(of, name_of(cell)): cell for of in ("", "wide", "short") for cell in results[of].finished}
    first = {of: Results(study, results[of].runs) for of, study in FIRST.items()}
    leads = families(results, first)
    leads["copy"] = {of[1]: compare(runs, copied["highway"][of]) for of, runs in copied["residual, gated"].items()}
    word = {
        of: judge_family(each, LOSS_MARGIN if of.endswith("loss") else ACCURACY_MARGIN) for of, each in leads.items()
    }
    return {
        "long": {name: each.mean() for name, each in scores["long"].items()},
        "unclipped": {name_of(of): accuracies(results[""].scored(of, result=UNCLIPPED)).mean() for of in JUDGED},
        "pairs": {name: each.mean() for name, each in scores["sum"].items()},
        "clipped": {name: 100 * np.mean([run.measured.clipped for run in each]) for name, each in runs["long"].items()},
        "best": {
            "": {kind: name_of(cell) for kind, cell in best(results[""], DEEP).items()},
            "wide": {kind: name_of(cell) for kind, cell in best(results["wide"], WIDE_KINDS | WHOLE_KINDS).items()},
        },
        "ahead": {
            of: {name: np.mean(each - scores[of][name_of(HIGHWAY)][: len(each)]) for name, each in scores[of].items()}
            for of in ("long", "short")
        },
        "word": word,
        "beside": {
            name: {OUTPERFORMS: BEHIND, BEHIND: OUTPERFORMS}.get(of, of) for name, of in word["accuracy"].items()
        },
        "lead": leads,
        "kept": [first[""].chosen(cell) == results[""].chosen(cell) for cell in deep(COMPARED)],
        "widest": max(lead.interval().half for lead in leads["accuracy"].values()),
        "copy": {(arm, of[1]): accuracies(copied[arm][of]).mean() for arm in COPIED for of in copied[arm]},
        "passed_on": {arm: passed_on(results["short"], arm) for arm in MAIN},
        "chosen": {of: results[of[0]].chosen(cell) for of, cell in done.items()},
        "untried": {of: results[of[0]].untried(cell) for of, cell in done.items()},
        "untried_by_loss": results[""].untried(*deep(["ReZero"]), "loss"),
        "workable": {cell.arm: workable(results[""], cell) for cell in deep(COMPARED)},
        "settings": {of: len({run.setting for run in results[of[0]].tries(cell)}) for of, cell in done.items()},
        "at_an_end": [bool(results["sum"].untried(cell)) for cell in PAIRS if cell.depth >= 10],
        "epochs": {of: results[parts[of][0]].study.stages[-1].epochs for of in parts},
        "lowest": min(scores["sum"]["highway, 10 blocks of 100"]),
        "diverged": sum(run.diverged for of in results.values() for run in of.runs),
        "superfluous": {of: len(each.superfluous) for of, each in results.items()},
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw the test error of nets of 60 epochs with as many parameters; of wide nets, of those that validate best."""
    shown = [("", cell) for cell in results[""].finished if cell.depth == 100] if "" in results else []
    if shown and "wide" in results and results["wide"].finished:
        wide = best(results["wide"], grouped(results["wide"].finished, lambda cell: cell.arm))
        shown += [("", best(results[""], DEEP)[BEST_SHALLOW]), *(("wide", cell) for cell in wide.values())]
    errors = {name_of(cell): 100 - accuracies(results[of].scored(cell)) for of, cell in shown}
    rows = dict(sorted(errors.items(), key=lambda row: row[1].mean()))
    return rows_figure("At 100 blocks a whole copy can beat a gated one", rows, "test error (%) after 60 epochs")


FIGURES = {"what_gates_add.png": figure}
