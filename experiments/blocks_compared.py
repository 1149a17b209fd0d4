"""Is a fixed path around a block as good as a gate? Six kinds of block side by side, and their gradients.

The blocks: plain (eq. 1), residual, residual with a branch divided by the depth, highway coupled (eq. 3), highway with
its own carry gate (eq. 2), and an LSTM along depth. They are compared at equal width, and at widths with about as many
parameters a block. Each cell has its own learning rate, chosen by the validation loss over two other seeds. All nets
have normalised initialisation, which plain blocks need.

Gradient flow is the norm of dL/dx of every block on a fixed batch, before and after training.

Rules, stated after the runs. A kind of block is as good as the highway block if, at every depth, at equal width and at
equal parameters, the 95 % interval of its lead in test accuracy, paired by seed, excludes a loss of half a point.
Gradients pass it more surely if, at every depth, untrained and at equal width, their norm changes on the way back by
fewer orders of magnitude: the 95 % interval of the difference excludes 0. A run that diverges counts as one that
guesses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from highway_lab.figures import COLORS, FAINT_INK, draw_seeds, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet

from . import study_command
from .claims import ACCURACY_MARGIN, LOSS_MARGIN, Verdict, combine, judge_as_good, judge_better
from .flow import measure_flow
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, Task, accuracies, score_loss

RATES = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)
BLOCKS = {  # and the units with which one has about 5,100 parameters
    "plain": ("plain", 71),
    "residual": ("residual", 71),
    "residual / L": ("residual-scaled", 71),
    "highway": ("highway", 50),
    "highway, uncoupled": ("highway-uncoupled", 41),
    "lstm": ("lstm", 50),
}
GATED = ("highway", "highway-uncoupled", "lstm")
# The paper's guideline (section 2.2) for 10 and 30 blocks; for 100, what trains in the search of figure 1.
GATE_BIAS = {10: -1.0, 30: -3.0, 100: -6.0}
UNITS, DEEPEST, EPOCHS, CLIP = 50, 100, 12, 5.0
AS_LARGE = {arm: units for arm, (_, units) in BLOCKS.items()}
WIDTHS = (dict.fromkeys(BLOCKS, UNITS), AS_LARGE)
CELLS = [*dict.fromkeys(Cell(arm, of[arm], depth) for depth in GATE_BIAS for of in WIDTHS for arm in BLOCKS)]


@dataclass
class FlowMeasured(Measured):
    """What is measured of a run; the norms of dL/dx_l, l = 0..L, only in results."""

    untrained: list[float | None] | None
    trained: list[float | None] | None


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net; of a result, measure how gradients flow before and after, over the first images that it learns."""

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, common: Measured) -> FlowMeasured:
        if not task.result:
            return FlowMeasured(**vars(common), untrained=None, trained=None)
        fresh = Training(task.config, data)
        untrained, trained = (measure_flow(of, fresh.data, ()).gradient_norms for of in (fresh.net, net))
        return FlowMeasured(**vars(common), untrained=untrained, trained=trained)

    return study_command.train(task, data, columns=("grad_norm",), measure=measure)


def configure(fields: Mapping, cell: Cell, stage: Stage) -> ArmConfig:
    start = {"gate_bias": GATE_BIAS[cell.depth]} if fields["block"] in GATED else {}
    return ArmConfig(**{"init": "glorot", "clip": CLIP, "hidden": cell.hidden, "depth": cell.depth, **start, **fields})


STUDY = Study(
    {arm: Arm({"block": block}, {"lr": RATES}) for arm, (block, _) in BLOCKS.items()},
    CELLS,
    stages=[
        Stage((100, 101), EPOCHS, options={"n_train": 5_000, "n_validation": 1_000, "n_test": 1}),
        Stage(range(5), EPOCHS, best=1, options={"n_train": 6_000, "n_test": 10_000}, result="scored"),
    ],
    configure=configure,
    criteria={"loss": score_loss},
    own=lambda name, arm: Cell(name, UNITS, DEEPEST),
    measured=FlowMeasured,
)


def judge_accuracy(found: Iterable[Interval]) -> Verdict:
    """Judge "such blocks are as good as highway blocks" by their leads at each depth and width."""
    return combine(judge_as_good(lead, ACCURACY_MARGIN) for lead in found)


def judge_gradients(highway: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> Verdict:
    """Judge "gradients pass such blocks more surely than highway blocks", given the growth of both at each depth."""
    gains = [difference(abs(own), abs(of)) for own, of in zip(highway, others, strict=True)]
    return combine(judge_better(gain, LOSS_MARGIN) for gain in gains)


def numbers(results: Results) -> dict:
    """Return what pages quote.

    lead                 points of test accuracy over highway nets of the same seeds, by arm and units, for each depth
    untrained, trained   factor by which the norm of dL/dx grows on its way back through all blocks, by arm and depth
    """
    runs = {(cell.arm, cell.hidden, cell.depth): results.scored(cell) for cell in results.finished}
    score = {of: accuracies(runs[of]) for of in runs}
    sizes = [*dict.fromkeys((arm, units) for arm, units, _ in runs)]
    lead = {of: [interval(score[*of, depth] - score["highway", UNITS, depth]) for depth in GATE_BIAS] for of in sizes}
    equal = {(arm, depth): of for (arm, units, depth), of in runs.items() if units == UNITS}
    grown = {state: {of: growth(equal[of], state) for of in equal} for state in STATES}
    untrained = {arm: [grown["untrained"][arm, depth] for depth in GATE_BIAS] for arm in BLOCKS}
    residual = ("residual", "residual / L")
    return {
        "accuracy": {arm: judge_accuracy(lead[arm, UNITS] + lead[arm, AS_LARGE[arm]]).value for arm in residual},
        "gradients": {arm: judge_gradients(untrained["highway"], untrained[arm]).value for arm in residual},
        "lead": lead,
        "behind": sorted(-of.value for units in (50, 71) for of in lead["residual / L", units]),
        **{state: {of: 10 ** orders.mean() for of, orders in grown[state].items()} for state in STATES},
        "depths": [*GATE_BIAS],
        "seeds": max(map(len, runs.values())),
    }


STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}


def growth(runs: Iterable[StudyRun], state: str) -> np.ndarray:
    """Return the orders of magnitude by which the norm of dL/dx grows on its way back through all blocks, (seeds,)."""
    norms = np.array([getattr(run.measured, state) for run in runs], float)
    return np.log10(norms[:, 0] / norms[:, -1])


def figure(results: Results) -> Figure:
    """Draw the norm of dL/dx of every block: a panel for each arm."""
    cells = [cell for cell in results.finished if (cell.hidden, cell.depth) == (UNITS, DEEPEST)]
    title = "Untrained blocks keep gradients if they nearly copy"
    figure, grid = new_figure(title, 3.4, ncols=max(1, len(cells)), sharey=True, squeeze=False)
    for axes, cell in zip(grid.flat, cells, strict=False):
        for state, color in STATES.items():
            curves = np.array([getattr(run.measured, state) for run in results.scored(cell)], float)
            places = np.arange(1, curves.shape[1] + 1)
            draw_seeds(axes, places, curves, label=state, color=color, center=np.median)
        axes.set(title=cell.arm.replace(", ", ",\n"), yscale="log", xticks=(1, cell.depth))
    grid[0, 0].set(xlabel="input of block", ylabel="norm of the gradient")
    label_ends(grid[0, -1])
    return figure


FIGURES = {"gradient_flow.png": figure}
