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
blocks, 81 at 10 and 73 at 50; the difference is told. Beside them stand plain and highway nets of 1 and of 3 blocks
with as many parameters as the residual net of 20 blocks, and highway nets of 100 units and 20 blocks, which have more.
Cells are trained in the order of CELLS, and each is told when it is done.

Tuning. Every cell tunes its rate and the gain of its initial weights (not of its gates'); those with gates also b_T,
from +1 to −2. Each has 48 first tries, tried for 20 epochs with one seed: eight rates times six gains, or, with gates,
three rates times four gains times four b_T. Then its grid grows: settings one step from any of the four that validate
best, in one hyperparameter at a time, are tried too, beyond the ends of the grid, and so on, four times at most. The
best four are trained for 60 epochs from two other seeds, and the best of these by the mean accuracy on validation pairs
is chosen. It is scored on the test pairs from other seeds still, which have chosen nothing. Validation alone decides;
but grids and arms were thought out after a look at test accuracies of the earlier study, from other seeds and other
pairs of the same test images, and the images behind the test pairs are not new.

Rules, fixed before any run of this study:
- What is compared is the accuracy on test pairs in the chosen setting, by Welch's test over seeds. Seeds are
  independent; all nets share the pairs, whose choice no interval knows.
- A run that diverges counts as 10 %; one that ends at chance counts as it is. Every seed counts, none is added or
  left out. The median over seeds is told beside the mean.
- *Primary*: highway minus residual nets of 20 blocks with as many parameters. Highway nets are *as good as* residual
  ones if the difference is surely below one point either way (two one-sided tests at 0.05); else they *outperform* or
  *fall behind* if p is below 0.05; else the comparison is *inconclusive*.
- *Second family*, told when all its cells are done: highway nets of 20 blocks minus the nets of 20 blocks with y = x
  + T(x)·H, minus plain orthogonal nets, minus plain nets, and minus that net of at most three blocks whose chosen
  setting has the best mean accuracy on validation pairs. The same words, corrected for four differences after Holm.
- The cells of both families have 20 scored seeds, since with the earlier spread of 1.9 points ten seeds would find a
  lead of one point in 11 of 100 studies. All other cells have ten. All other comparisons are exploratory, and called
  so.
- A chosen setting beside which a neighbour was never tried is named in the sentence that rests on it.

What outcomes mean.
- Primary *falls behind*: with scale, gate bias and rate tuned as the rivals' are, coupled gates use 20 blocks less
  well than a plain sum does. *As good as*: the deficit that we reported was one of tuning. *Outperforms*: gates help
  to use depth.
- Highway nets fall behind y = x + T(x)·H, which differ in the factor 1 − T alone: that factor costs accuracy here; if
  both are as good as each other, it does not.
- Highway nets do not outperform the best net of at most three blocks: for them depth is worth nothing on this task
  that width does not give. If they fall behind plain nets, too, gates do not help to use depth, which is not what
  they are for in the paper.
- Anything *inconclusive* is told as that, with its interval.

    python -m experiments using_depth run --jobs 2
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from highway_lab.figures import COLORS, new_figure
from highway_networks import BLOCKS, Dataset

from . import study_command
from .common_figures import draw_dots
from .comparisons import Difference, judge_family, welch
from .digit_pairs import pair_digits
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Results, Stage, Study, StudyRun, Task

PAIRS = {"n_train": 30_000, "n_validation": 5_000, "n_test": 10_000, "seed": 1}
PIXELS, CLASSES, UNITS, BLOCKS_OF_FIRST = 2 * 784, 10, 100, 20
CHANCE = 0.1  # accuracy of a run that diverged
MARGIN = 1.0  # points within which two kinds of net are as good as each other
RATES = (2.5e-5, 5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3)
GAINS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
PLAIN_GAINS = (0.9, 1.0, 1.05, 1.1, 1.2, 1.4)  # at 1, a tanh net is at the edge between dying and chaotic signals
GATES = {"lr": (2e-4, 4e-4, 8e-4), "init_gain": (0.7, 1.0, 1.4, 2.0), "gate_bias": (1.0, 0.0, -1.0, -2.0)}
GLOROT = {"init": "glorot"}
ARMS = {
    "residual": Arm(GLOROT | {"block": "residual"}, {"lr": RATES, "init_gain": GAINS}),
    "highway": Arm(GLOROT | {"block": "highway"}, GATES),
    "residual, gated": Arm(GLOROT | {"block": "residual-gated"}, GATES),
    "plain, orthogonal": Arm({"init": "orthogonal", "block": "plain"}, {"lr": RATES, "init_gain": PLAIN_GAINS}),
    "plain": Arm(GLOROT | {"block": "plain"}, {"lr": RATES, "init_gain": PLAIN_GAINS}),
    "highway, uncoupled": Arm(GLOROT | {"block": "highway-uncoupled"}, GATES),
}
KINDS = {"residual, gated": "residual-scaled", "plain, orthogonal": "lstm", "highway, uncoupled": "highway-uncoupled"}
FIVE = ("residual", "highway", "residual, gated", "plain, orthogonal", "plain")  # that both families compare


def n_params(matrices: int, hidden: int, depth: int) -> int:
    """Return the parameters of a net on pairs whose blocks have so many matrices."""
    return (PIXELS + 1) * hidden + matrices * depth * hidden * (hidden + 1) + CLASSES * (hidden + 1)


def as_many(arm: Arm, depth: int, like: int | None = None) -> int:
    """Return the units with which an arm's net has the parameters of a residual net of `like` (or `depth`) blocks."""
    matrices, wanted = len(BLOCKS[arm.options["block"]].branches), n_params(1, UNITS, like or depth)
    return min(range(1, 10 * UNITS), key=lambda hidden: abs(n_params(matrices, hidden, depth) - wanted))


def cell_of(name: str, depth: int, like: int | None = None) -> Cell:
    return Cell(name, as_many(ARMS[name], depth, like), depth)


SHALLOW = [cell_of(name, depth, BLOCKS_OF_FIRST) for name in ("plain", "highway") for depth in (1, 3)]
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


def configure(fields: Mapping, cell: Cell, stage: Stage) -> ArmConfig:
    """Return the configuration of a run; one that chooses is scored on validation pairs in place of test pairs."""
    n_test = PAIRS["n_test" if stage.result else "n_validation"]
    sizes = {"hidden": cell.hidden, "depth": cell.depth, "n_train": PAIRS["n_train"], "n_test": n_test}
    return ArmConfig(**fields, **sizes, schedule="cosine")


def train(task: Task, data: Dataset) -> StudyRun:
    pairs = pair_digits(data, "sum", **PAIRS)
    data = pairs.to_score() if task.result else pairs.to_tune()
    return study_command.train(task, data, judged=(data.test_x, data.test_y))


STUDY = Study(
    ARMS,
    CELLS,
    stages=(
        Stage((100,), 20),
        Stage((101, 102), 60, best=4),
        Stage(lambda cell: range(200, 220 if cell in JUDGED else 210), 60, best=1, result="scored"),
    ),
    configure=configure,
    criteria={"error": lambda run: 1 - (CHANCE if run.measured.score is None else run.measured.score)},
    growth=4,
    own=lambda name, arm: Cell(name, as_many(arm, BLOCKS_OF_FIRST), BLOCKS_OF_FIRST),
    smoke={"hidden": 8, "depth": 3, "n_train": 256, "n_test": 64},
)


# ---------------------------------------------------------------------------------------- what was found


def points(results: Results, cell: Cell) -> np.ndarray:
    """Return the test accuracies of a cell in %, one a seed; none if it is unfinished."""
    return 100 * (1 - results.values(cell))


def validated(results: Results, cell: Cell) -> float:
    """Return the mean accuracy in % on validation pairs by which a finished cell's setting was chosen."""
    runs = results.tried(cell)[results.chosen(cell)]
    return 100 * (1 - float(np.mean([STUDY.criteria["error"](run) for run in runs])))


def second_family(results: Results) -> tuple[Cell, ...]:
    """Return the cells with which the second family compares highway nets; none as long as one is unfinished."""
    if not {*JUDGED} <= {*results.finished}:
        return ()
    shallow = max(SHALLOW, key=lambda cell: validated(results, cell))
    return (*(FIRST[name] for name in ("residual, gated", "plain, orthogonal", "plain")), shallow)


def compare(results: Results, others: Sequence[Cell]) -> dict[Cell, tuple[Difference, str]]:
    """Return what highway nets of 20 blocks are ahead of others, in points, and the word of the rules."""
    leads = [welch(points(results, FIRST["highway"]), points(results, cell)) for cell in others]
    return dict(zip(others, zip(leads, judge_family(leads, MARGIN), strict=True), strict=True))


def primary(results: Results) -> tuple[Difference, str] | None:
    """Return the primary comparison and its word; None as long as one of its cells is unfinished."""
    both = {FIRST[name] for name in ("highway", "residual")}
    return compare(results, [FIRST["residual"]])[FIRST["residual"]] if both <= {*results.finished} else None


def numbers(results: Results) -> dict:
    """Return what the page quotes; accuracies in % by arm, blocks and units."""
    done = {(cell.arm, cell.depth, cell.hidden): points(results, cell) for cell in results.finished}
    first, family = primary(results), compare(results, second_family(results))
    return {
        "cells": len(CELLS),
        "finished": len(done),
        "runs": len(results.runs),
        "first_tries": {len(STUDY.grid(cell)) for cell in CELLS},
        "units": {(cell.arm, cell.depth): cell.hidden for cell in reversed(CELLS)},
        "accuracy": {of: values.mean() for of, values in done.items()},
        "median": {of: np.median(values) for of, values in done.items()},
        "primary": first and {"lead": first[0].value, "half": first[0].interval().half, "word": first[1]},
        "family": {(cell.arm, cell.depth): {"lead": lead.value, "word": word} for cell, (lead, word) in family.items()},
    }


def figure(results: Results) -> Figure:
    """Draw the test error of each finished cell, the best first: a small dot is a net, a large one the mean."""
    errors = {cell: 100 - points(results, cell) for cell in results.finished}
    rows = sorted(errors, key=lambda cell: errors[cell].mean())
    figure, axes = new_figure("Test error on the sum of two digits", 1.4 + 0.26 * len(rows))
    for row, cell in enumerate(rows):
        draw_dots(axes, errors[cell], row, color=COLORS[KINDS.get(cell.arm, cell.arm)])
    axes.set_yticks(range(len(rows)), [f"{cell.arm}, {cell.depth} blocks of {cell.hidden}" for cell in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlabel("test error (%)")
    return figure


FIGURES = {"using_depth.png": figure}
