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

Widened (NEXT), after the results of steps 1 and 3 were known and before any of its runs. Five of the six nets had
chosen an end of their grid, and no net without gates had ReLU units. So every net tries six rates, WIDE_RATES, and its
grid grows: settings one step from any of the best FINALISTS, in one hyperparameter at a time, are tried too, at most
four times. Four nets with ReLU units are added: plain with he weights and their gain, plain with orthogonal weights and
a gain near √2, scaled residual with p near 1, ReZero with s near 0.1. A pilot (one seed, rates 0.003 to 0.03) had
highway nets ahead of these; of scaled residual nets it tried p = 0.5 alone, of ReZero s = 3 alone, and both failed, so
that p near 1 and s near 0.1 are guesses. Another pilot, with 6,000 images and Adam, had ReZero and scaled residual nets
ahead.

The verdicts of the first grids stand; those of the wide ones are told beside them, and where they differ both are told.
The scores of the five seeds in the old settings were known when this was written. A net that keeps its setting keeps
its runs; one that changes it gets new runs from the same seeds; no score chooses. Three families of four comparisons
are judged, highway nets with tanh beside the four nets of step 1, highway nets with ReLU beside these, and beside the
four with ReLU, each by Holm in itself, with LOSS_MARGIN; Holm over all twelve is told, too. If fewer than FINALISTS
settings learn, ties go by the order of the grid. A choice with an untried neighbour is named; settings tried and runs
that failed are told by net.

Highway nets with ReLU ahead of all four with ReLU: highway blocks lower the training loss beyond these, which does not
say whether gates must see the input. Alike with one, or behind it: that one does as well or better. Else the comparison
is inconclusive beside those that are named.

Added after all results above: nets of one layer, of 71 tanh units and of 707, which have as many parameters as
the deep nets, from glorot weights, tuned as in the wide grids. No rule judges them. Their loss and test accuracy are
told beside those of the deep nets, as whether depth is worth anything in this regime.
"""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from highway_lab.intervals import Estimate, welch
from highway_networks import rounded

from . import study_command
from .blocks import rezero_fields, scaled_fields
from .claims import LOSS_MARGIN
from .common import CHANCE_LOSS
from .common_figures import rows_figure
from .comparisons import LEVEL, holm
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Results, Stage, Study, StudyRun, accuracies

LAYERS = 100  # the paper's counting: one plain layer and 99 blocks
BATCH_SIZE, N_TRAIN = 128, 60_000
FIRST_EPOCHS, EPOCHS, LONG_EPOCHS, SEEDS = 10, 40, 400, range(5)
LAST_RATE = 0.05  # of the last step, as a share of the first step's
FINALISTS = 3
AT_CHANCE = 0.95 * CHANCE_LOSS
FLOOR = 1e-7
RATES, WIDE_RATES = (0.003, 0.01, 0.03, 0.1), (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
GAINS = (1.0, 1.05, 1.1)
LONG = Stage(SEEDS, LONG_EPOCHS, best=1, result="long")  # step 2, registered, not run: the chosen rate (and half)
GLOROT, RELU, GATED = {"init": "glorot"}, {"init": "he", "activation": "relu"}, {"block": "highway"}
PLAIN, ORTHOGONAL = {"block": "plain"}, {"block": "plain", "init": "orthogonal"}
NUMBER = {"zero": "W_A"}  # A of ReZero is then a learned number a unit, b_A


def arms(rates: tuple[float, ...]) -> dict[str, Arm]:
    """Return the nets of steps 1 and 3."""
    lr = {"lr": rates}
    return {
        "highway": Arm(GLOROT | GATED, lr | {"gate_bias": (-2.0, -4.0, -6.0)}),
        "plain": Arm(GLOROT | PLAIN, lr | {"init_gain": GAINS}),
        "plain, orthogonal": Arm(ORTHOGONAL, lr | {"init_gain": GAINS}),
        "residual, scaled": Arm(GLOROT, lr | {"p": (1.0, 0.75, 0.5)}, scaled_fields),
        "ReZero": Arm(GLOROT | NUMBER, lr | {"s": (1.0, 3.0, 10.0)}, rezero_fields),
        "highway, ReLU": Arm(RELU | GATED, lr | {"gate_bias": (-6.0, -8.0, -10.0)}),
    }


WIDE = {"lr": WIDE_RATES}
RELU_ARMS = {
    "plain, ReLU": Arm(RELU | PLAIN, WIDE | {"init_gain": (0.98, 1.0, 1.02)}),
    "plain, orthogonal, ReLU": Arm(RELU | ORTHOGONAL, WIDE | {"init_gain": (1.386, 1.414, 1.442)}),
    "residual, scaled, ReLU": Arm(RELU, WIDE | {"p": (1.25, 1.0, 0.75)}, scaled_fields),
    "ReZero, ReLU": Arm(RELU | NUMBER, WIDE | {"s": (0.03, 0.1, 0.3)}, rezero_fields),
}
ONE_LAYER = {"one layer": 71, "one layer, as large": 707}  # units
OTHERS = ("plain", "plain, orthogonal", "residual, scaled", "ReZero")
FAMILIES = {  # highway nets, and those with which they are compared
    "tanh": ("highway", OTHERS),
    "relu": ("highway, ReLU", OTHERS),
    "all relu": ("highway, ReLU", tuple(RELU_ARMS)),
}


def configure(fields: Mapping, cell: Cell, stage: Stage) -> ArmConfig:
    decay = LAST_RATE ** (1 / (stage.epochs * math.ceil(N_TRAIN / BATCH_SIZE) - 1))
    regime = {"optimizer": "momentum", "lr_decay": rounded(decay, digits=12), "clip": 5.0, "batch_size": BATCH_SIZE}
    samples = {"n_train": N_TRAIN, "n_test": 10_000, "n_scored": 10_000}
    return ArmConfig(**regime, **samples, **fields, hidden=cell.hidden, depth=cell.depth)


train = partial(study_command.train, columns=("train_loss",))


def failed(run: StudyRun) -> bool:
    """Tell whether a run diverged or ended no better than a guess."""
    return run.diverged or run.measured.train_loss > AT_CHANCE


def log_loss(run: StudyRun) -> float:
    """Return the decimal logarithm of the loss with which a run counts."""
    return math.log10(CHANCE_LOSS if failed(run) else max(run.measured.train_loss, FLOOR))


def study(arms: Mapping[str, Arm], growth: int) -> Study:
    return Study(
        arms,
        [
            Cell(name, ONE_LAYER.get(name, arm.units), (name not in ONE_LAYER) * (LAYERS - 1))
            for name, arm in arms.items()
        ],
        stages=(
            Stage((100,), FIRST_EPOCHS),
            Stage((100, 101), EPOCHS, best=FINALISTS),
            Stage(SEEDS, EPOCHS, best=1, result="scored"),
        ),
        configure=configure,
        criteria={"orders": log_loss},
        growth=growth,
        own=lambda name, arm: Cell(name, arm.units, LAYERS - 1),
    )


FIRST = study(arms(RATES), growth=0)
SHALLOW = Arm(GLOROT | PLAIN, WIDE | {"init_gain": GAINS})
STUDY = study(arms(WIDE_RATES) | RELU_ARMS | dict.fromkeys(ONE_LAYER, SHALLOW), growth=4)


def word(lead: Estimate, p: float) -> str:
    """Say by the rules whether highway nets are ahead of another net, behind it, or alike."""
    side = "inconclusive" if p >= LEVEL else "ahead" if lead.value > 0 else "behind"
    within = lead.interval()
    if within.low > -LOSS_MARGIN and within.high < LOSS_MARGIN:
        return "alike" if p >= LEVEL else f"alike, but {side}"
    return side


def words_of(leads: Mapping[tuple[str, str], Estimate]) -> dict[tuple[str, str], str]:
    """Return the words of leads that are one family."""
    return dict(zip(leads, map(word, leads.values(), holm([lead.p for lead in leads.values()])), strict=True))


def compare(results: Results) -> dict[str, dict]:
    """Return by family and other net the lead of highway nets in orders, and the word, in its family and in all."""
    orders, leads, words = {cell.arm: results.judged(results.scored(cell)) for cell in results.finished}, {}, {}
    for of, (highway, others) in FAMILIES.items():
        if {highway, *others} <= orders.keys():
            family = {(of, other): welch(orders[other], orders[highway]) for other in others}
            leads, words = leads | family, words | words_of(family)
    return {"lead": {of: lead.interval() for of, lead in leads.items()}, "word": words, "among_all": words_of(leads)}


def numbers(results: Results) -> dict:
    """Return what the page quotes; `first`: what the first grids say."""
    scored = {cell.arm: results.scored(cell) for cell in results.finished}
    tries = {cell.arm: results.tries(cell) for cell in results.study.cells}
    return {
        **compare(results),
        "first": compare(Results(FIRST, results.runs)),
        "loss": {arm: 10 ** results.judged(runs).mean() for arm, runs in scored.items()},
        "accuracy": {name: accuracies(runs).mean() for name, runs in scored.items()},
        "clipped": {name: 100 * np.mean([run.measured.clipped for run in runs]) for name, runs in scored.items()},
        "verdict": "not tested" if LONG not in results.study.stages else "",
        "runs": len(results.runs),
        "failed_tries": {arm: (sum(map(failed, of)), len(of)) for arm, of in tries.items()},
        "settings": {arm: len({run.setting for run in of}) for arm, of in tries.items()},
        "superfluous": len(results.superfluous),
        "failed": sum(failed(run) for runs in scored.values() for run in runs),
        "diverged": sum(run.diverged for run in results.runs),
        "untried": {cell.arm: results.untried(cell) for cell in results.finished},
    }


def figure(results: Results) -> Figure:
    """Draw the orders of the final training loss of each finished net, the lowest first: a small dot is a run."""
    orders = {cell.arm: results.judged(results.scored(cell)) for cell in results.finished}
    rows = dict(sorted(orders.items(), key=lambda row: row[1].mean()))
    return rows_figure("At 100 layers ReZero fits best", rows, "log₁₀ of the training loss")


FIGURES = {"hundred_layers.png": figure}
