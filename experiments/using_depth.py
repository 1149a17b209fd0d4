"""A comparison of how well kinds of net use depth, on a task that needs it: the sum of two digits modulo ten.

The task: two images of MNIST side by side, labelled by the sum of the digits modulo ten; 30,000 pairs for training,
5,000 for validation, 10,000 for the test, drawn anew for this study from training images, held-out training images and
test images (digit_pairs.py, seed 1). An earlier comparison on this task, of 30 epochs, chose most of its settings at
the end of what it offered. This one replaces it.

Regime: tanh; Adam; batches of 128; gradients clipped at a global norm of 5; a cosine rate; 60 epochs. Arms:

    residual            y = x + H                          glorot
    highway             y = T(x)·H + (1 − T(x))·x          glorot (eq. 3)
    residual, gated     y = x + T(x)·H                     glorot
    plain, orthogonal   y = H                              orthogonal weights
    plain               y = H                              glorot
    highway, uncoupled  y = T(x)·H + C(x)·x                glorot (eq. 2); b_C begins at −b_T

Nets of one number of blocks have as many trained parameters as the residual net of 100 units has: their units are those
whose number of parameters, the wide input layer included, is nearest. So blocks with one gate have 77 units at 20
blocks, 81 at 10 and 73 at 50, which is 0.5 % and 0.7 % more and 1.1 % fewer parameters. Beside them stand plain and
highway nets of 1 and of 3 wide blocks with as many parameters as the residual net of 20 blocks, within 0.3 %, and
highway nets of 100 units and 20 blocks, which have more. Cells are trained in the order of CELLS, and each is told when
it is done. Not tested: scaled residual nets and ReZero, normalisation, ReLU, branches of two layers, shallow residual
nets.

Tuning. Every cell tunes its rate and the gain of its initial weights, those of the input and output layers included and
those of gates not; nets with gates also tune b_T, from +1 to −2. Each has 48 first tries, tried for 20 epochs with one
seed: eight rates times six gains, or, with gates, three rates times four gains times four b_T. Then its grid grows:
settings one step from any of the six that validate best, in one hyperparameter at a time, are tried too, beyond the
ends of the grid, and so on, four times at most; how many tries each cell had is told. The best six are trained for 60
epochs from other seeds, four in the cells that rules compare and two in the others, and the best of these by the mean
accuracy on validation pairs is chosen; of equals, the first in the order of the grid. It is scored on the test pairs
from seeds that have chosen nothing. Runs of a noisy kind of net are chosen less well, and a cut after 20 epochs favours
settings that learn fast: both holds for all arms, and may cost highway nets, whose accuracy varies most, some tenths of
a point.

What was known before. The regime, the arms and the grids were thought out after the earlier study and after pilots of
three or four seeds, all of which had seen test accuracies, of other pairs of the same test images. The pilots of 60
epochs: residual 84.7 %, gated residual 84.0, plain orthogonal 82.3, highway 79.2 (± 1.9 between seeds), three wide
highway blocks 77.9, three wide plain ones 76.8. So we expect that highway nets fall behind residual ones by about five
points, and the primary comparison confirms or refutes that; what was open is how they compare with few wide blocks.

Rules, fixed before any run of this study:
- What is compared is the accuracy on test pairs in the chosen setting, by Welch's test over seeds. The highway net of
  20 blocks has 60 scored seeds, which no other cell has, as its spread of 1.9 points is most of the noise; the others
  that are compared have 20, all other cells ten. All nets share the pairs, whose choice no interval knows.
- A run that diverges counts as 10 %; one that ends at chance counts as it is. Every seed counts, none is added or left
  out. Beside the mean stand the median, and the number of runs below 20 %. Where a compared cell has such runs, the
  word of the runs above 20 % is told, too; the word of all runs remains the rule's.
- *Primary*: highway minus residual nets of 20 blocks. Highway nets are *as good as* residual ones if the difference is
  surely below one point either way (two one-sided tests at 0.05), whatever p is; else they *outperform* or *fall
  behind* if p is below 0.05; else the comparison is *inconclusive*.
- *Second family*, told when all its cells are done: highway nets of 20 blocks minus the nets of 20 blocks with y = x +
  T(x)·H, minus plain orthogonal nets, minus plain nets (glorot), and minus that net of at most three blocks whose
  chosen setting has the best mean accuracy on validation pairs. The same words; p is corrected for the four after Holm,
  the two one-sided tests are at 0.05/4. The two families together may err in up to one of ten studies.
- If the rival varies as little as residual nets did, a true difference of one point is found in most studies, and two
  equal nets are called *as good as* each other in most; if it varies as much as highway nets, they will rarely be.
- All other comparisons are exploratory, and called so. Nothing in STUDY changes after the first scored run.
- Where a neighbour of a chosen setting was never tried, it is named in the sentence that rests on it, and the word
  holds for the grid that was tried.

What outcomes mean, each in the setting that each kind of net has chosen here, at equal parameters.
- Primary *falls behind*: coupled gates use 20 blocks less well than a plain sum does, with scale, gate bias and rate
  tuned alike. If highway nets of 100 units, with more parameters, do not reach residual nets either, it is no matter of
  size. *As good as*: the deficit that we reported before does not survive retuning, 60 epochs and equal parameters
  together. *Outperforms*, and outperforming the best net of at most three blocks, too: gates help to use depth.
- Highway nets fall behind nets with y = x + T(x)·H: the whole copy is better than the gated one here. As good as: the
  factor 1 − T costs nothing here.
- Highway nets are as good as, or fall behind, the best net of at most three blocks: 20 highway blocks are worth no more
  here than width; that says nothing of ten. If they fall behind plain nets (glorot), too, gates do not help to use
  depth, which the paper does not claim: it claims that they help to train.
- *Inconclusive* supports nothing, and is told with its interval.

    python -m experiments using_depth run --jobs 2
"""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.intervals import Interval, welch
from highway_networks import Dataset

from . import study_command
from .common_figures import rows_figure
from .comparisons import LEVEL, judge_family
from .digit_pairs import pair_digits
from .study import DIVERGED, Arm, Cell, Results, Setting, Stage, Study, StudyRun, Task, accuracies

PAIRS = {"n_train": 30_000, "n_validation": 5_000, "n_test": 10_000, "seed": 1}
SHARED = {"n_train": PAIRS["n_train"], "schedule": "cosine"}
CHOOSING = SHARED | {"n_test": PAIRS["n_validation"]}  # pairs that validate, in place of test pairs
PIXELS, CLASSES, UNITS, BLOCKS_OF_FIRST, EPOCHS = 2 * 784, 10, 100, 20, 60
FAILED = 20  # % of test pairs, below which a run has failed
MARGIN = 1.0  # points within which two kinds of net are as good as each other
RATES = (2.5e-5, 5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3)
GAINS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
PLAIN_GAINS = (0.9, 1.0, 1.05, 1.1, 1.2, 1.4)  # at 1, a deep tanh net is between dying and chaotic signals
GATES = {"lr": (2e-4, 4e-4, 8e-4), "init_gain": (0.7, 1.0, 1.4, 2.0), "gate_bias": (1.0, 0.0, -1.0, -2.0)}
GLOROT, PLAIN = {"init": "glorot"}, {"block": "plain"}
ARMS = {
    "residual": Arm(GLOROT | {"block": "residual"}, {"lr": RATES, "init_gain": GAINS}),
    "highway": Arm(GLOROT | {"block": "highway"}, GATES),
    "residual, gated": Arm(GLOROT | {"block": "residual-gated"}, GATES),
    "plain, orthogonal": Arm(PLAIN | {"init": "orthogonal"}, {"lr": RATES, "init_gain": PLAIN_GAINS}),
    "plain": Arm(GLOROT | PLAIN, {"lr": RATES, "init_gain": PLAIN_GAINS}),
    "plain, wide": Arm(GLOROT | PLAIN, {"lr": RATES, "init_gain": GAINS}),
    "highway, uncoupled": Arm(GLOROT | {"block": "highway-uncoupled"}, GATES),
}
FIVE = ("residual", "highway", "residual, gated", "plain, orthogonal", "plain")  # that both families compare


def n_params(matrices: int, hidden: int, depth: int) -> int:
    """Return the parameters of a net on pairs whose blocks have so many matrices."""
    return (PIXELS + 1) * hidden + matrices * depth * hidden * (hidden + 1) + CLASSES * (hidden + 1)


def as_many(arm: Arm, depth: int, like: int | None = None) -> int:
    """Return the units with which an arm's net has the parameters of a residual net of `like` (or `depth`) blocks."""
    wanted = n_params(1, UNITS, like or depth)
    return min(range(1, 10 * UNITS), key=lambda hidden: abs(n_params(arm.matrices, hidden, depth) - wanted))


def cell_of(name: str, depth: int, like: int | None = None) -> Cell:
    return Cell(name, as_many(ARMS[name], depth, like), depth)


SHALLOW = [cell_of(name, depth, BLOCKS_OF_FIRST) for name in ("plain, wide", "highway") for depth in (1, 3)]
FIRST = {name: cell_of(name, BLOCKS_OF_FIRST) for name in FIVE}
JUDGED = (*FIRST.values(), *SHALLOW)
CELLS = (
    *FIRST.values(),
    cell_of("highway, uncoupled", BLOCKS_OF_FIRST),
    *SHALLOW,
    *(cell_of(name, 10) for name in FIVE),
    *(cell_of(name, 50) for name in ("residual", "residual, gated", "highway")),
    Cell("highway", UNITS, BLOCKS_OF_FIRST),
)


def train(task: Task, data: Dataset) -> StudyRun:
    data = pair_digits(data, "sum", bool(task.result), **PAIRS)
    return study_command.train(task, data, judged=(data.test_x, data.test_y))


def scoring_seeds(cell: Cell) -> range:
    if cell == FIRST["highway"]:
        return range(300, 360)  # no other cell's, so that all compared runs are independent
    return range(200, 220 if cell in JUDGED else 210)


STUDY = Study(
    ARMS,
    CELLS,
    stages=(
        Stage((100,), 20, options=CHOOSING),
        Stage(lambda cell: range(101, 105 if cell in JUDGED else 103), EPOCHS, best=6, options=CHOOSING),
        Stage(scoring_seeds, EPOCHS, best=1, options=SHARED | {"n_test": PAIRS["n_test"]}, result="scored"),
    ),
    growth=4,
    own=lambda name, arm: Cell(name, as_many(arm, BLOCKS_OF_FIRST), BLOCKS_OF_FIRST),
)


def compare(results: Results) -> dict[tuple[str, int], tuple[Interval, str]]:
    """Return by how many points highway nets of 20 blocks are ahead of others, and the word of the rules.

    Each family is told once all nets that it judges are finished.
    """
    families = []
    if {FIRST["highway"], FIRST["residual"]} <= {*results.finished}:
        families.append([FIRST["residual"]])
    if {*JUDGED} <= {*results.finished}:
        families.append([*(FIRST[name] for name in FIVE[2:]), min(SHALLOW, key=results.quality)])
    told = {}
    for cells in families:
        highway, *rivals = (accuracies(results.scored(of)) for of in (FIRST["highway"], *cells))
        leads = {(of.arm, of.depth): welch(highway, rival) for of, rival in zip(cells, rivals, strict=True)}
        words = judge_family(leads, MARGIN)
        told |= {of: (leads[of].interval(1 - LEVEL / len(leads)), words[of]) for of in leads}
    return told


def fits_better(results: Results) -> list[Setting]:
    """Return the settings of highway nets of 20 blocks that fit ten times as well as the chosen, but validate worse."""
    tried, chosen = results.tried(FIRST["highway"]), results.chosen(FIRST["highway"])
    losses = {of: np.mean([run.measured.train_loss or DIVERGED for run in runs]) for of, runs in tried.items()}
    better = [of for of in tried if 10 * losses[of] < losses[chosen]]
    return [of for of in better if results.judged(tried[of]).mean() > results.judged(tried[chosen]).mean()]


def numbers(results: Results) -> dict:
    """Return what the page quotes; accuracies in %, by arm, blocks and units."""
    done = {(cell.arm, cell.depth, cell.hidden): cell for cell in results.finished}
    runs, tries = ({of: ask(cell) for of, cell in done.items()} for ask in (results.scored, results.tries))
    deepest = tries.get(("highway", 50, 73), [])
    return {
        "units": {(cell.arm, cell.depth): cell.hidden for cell in reversed(CELLS)},
        "scores": {of: accuracies(runs[of]) for of in done},
        "accuracy": {of: accuracies(runs[of]).mean() for of in done},
        "off_median": max((abs(np.median(of) - of.mean()) for of in map(accuracies, runs.values())), default=0),
        "lowest": min((accuracies(of).min() for of in runs.values()), default=0),
        "train_loss": {of: np.mean([run.measured.train_loss for run in runs[of]]) for of in done},
        "untried": {of: results.untried(cell) for of, cell in done.items()},
        "settings": {of: len({run.setting for run in tries[of]}) for of in done},
        "open_of_50": Counter(100 * run.accuracy > FAILED for run in deepest if run.setting[2] >= 0),
        "chosen": {of: results.chosen(cell) for of, cell in done.items()},
        "fitted_better": fits_better(results),
        "compared": compare(results),
    }


def figure(results: Results) -> Figure:
    """Draw the test error of each finished cell, the best first: a small dot is a net, a large one the mean."""
    errors = {
        f"{cell.arm}, {count_of(cell.depth, 'block')} of {cell.hidden}": 100 - accuracies(results.scored(cell))
        for cell in results.finished
    }
    rows = dict(sorted(errors.items(), key=lambda row: row[1].mean()))
    return rows_figure("From 20 blocks whole copies lead", rows, "test error (%)")


FIGURES = {"using_depth.png": figure}
