"""Is a fixed path around a block as good as a gate? Six kinds of block side by side, and their gradients.

The blocks: plain (eq. 1), residual, residual with a branch divided by the depth, highway coupled (eq. 3), highway with
its own carry gate (eq. 2), and an LSTM along depth. They are compared at equal width, and at widths with about as many
parameters a block. Each cell has its own learning rate, chosen by the validation loss over two other seeds. All nets
have normalised initialisation, which plain blocks need.

Gradient flow is the norm of dL/dx of every block on a fixed batch, and the singular values of the middle block's
Jacobian dy/dx at one image, before and after training.

Rules, stated after the runs. A kind of block is as good as the highway block if, at every depth, at equal width and at
equal parameters, the 95 % interval of its lead in test accuracy, paired by seed, excludes a loss of half a point.
Gradients pass it more surely if, at every depth, untrained and at equal width, their norm changes on the way back by
fewer orders of magnitude: the 95 % interval of the difference excludes 0. A run that diverges counts as one that
guesses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from highway_lab.figures import COLORS, FAINT_INK, draw_level, draw_seeds, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import grouped
from highway_lab.logs import numbers as rounded_all
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, evaluate, rounded

from . import study_command
from .claims import ACCURACY_MARGIN, LOSS_MARGIN, Verdict, combine, judge_as_good, judge_better
from .common_figures import arm_color, minus
from .flow import FLOW_BATCH, Flow, gradient_norms, jacobian
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, Task, accuracies, score_loss

RATES = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)
BLOCKS = {
    "plain": "plain",
    "residual": "residual",
    "residual / L": "residual-scaled",
    "highway": "highway",
    "highway, uncoupled": "highway-uncoupled",
    "lstm": "lstm",
}
GATED = ("highway", "highway-uncoupled", "lstm")
# The paper's guideline (section 2.2) for 10 and 30 blocks; for 100, what trains in the search of figure 1.
GATE_BIAS = {10: -1.0, 30: -3.0, 100: -6.0}
UNITS, DEEPEST, EPOCHS, CLIP = 50, 100, 12, 5.0
WIDTHS = {
    "equal width": dict.fromkeys(BLOCKS, UNITS),
    "equal parameters a block": {  # about 5,100
        **{"plain": 71, "residual": 71, "residual / L": 71},
        **{"highway": 50, "highway, uncoupled": 41, "lstm": 50},
    },
}
CELLS = [
    *dict.fromkeys(Cell(arm, widths[arm], depth) for depth in GATE_BIAS for widths in WIDTHS.values() for arm in BLOCKS)
]
RESIDUAL = ("residual", "residual / L")
POINTS = (-30, -10, -3, -1, 0, 1)  # ticks
STATES = {"untrained": FAINT_INK, "trained": COLORS["highway"]}


@dataclass
class FlowMeasured(Measured):
    """What is measured of a run; how gradients flow only in results.

    score_loss   mean loss over the samples that give the score
    """

    score_loss: float | None
    untrained: Flow | None
    trained: Flow | None


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net; of a result, measure how gradients flow before and after, over the first images that it learns."""
    training = Training(task.config, data)
    seen = training.net.preprocess(training.data.train_x[:FLOW_BATCH]), training.data.train_y[:FLOW_BATCH]
    untrained = measure_flow(training.net, *seen) if task.result else None

    def measure(net: DeepNet, x: np.ndarray, y: np.ndarray, *common: Any) -> FlowMeasured:
        _, train_loss, *_ = common
        loss, _ = evaluate(net, x, y, training.loss)
        trained = measure_flow(net, *seen) if task.result else None
        return FlowMeasured(*common, None if train_loss is None else rounded(loss), untrained, trained)

    return study_command.train(task, data, columns=("grad_norm",), measure=measure)


def measure_flow(net: DeepNet, x: np.ndarray, y: np.ndarray) -> Flow:
    """Measure gradient norms over a batch, and the middle block's singular values at its first image."""
    with one_thread():
        _, cache = net.forward(x)
        middle = net.depth // 2
        J = jacobian(net, cache.x[middle, :, 0], middle)
        values = np.linalg.svd(J, compute_uv=False) if np.isfinite(J).all() else np.full(net.hidden, np.nan)
        return Flow(rounded_all(gradient_norms(net, x, y), digits=4), rounded_all(values, digits=4))


def configure(fields: Mapping, cell: Cell, stage: Stage) -> ArmConfig:
    start = {"gate_bias": GATE_BIAS[cell.depth]} if fields["block"] in GATED else {}
    return ArmConfig(**{"init": "glorot", "clip": CLIP, "hidden": cell.hidden, "depth": cell.depth, **start, **fields})


STUDY = Study(
    {arm: Arm({"block": block}, {"lr": RATES}) for arm, block in BLOCKS.items()},
    CELLS,
    stages=[
        Stage((100, 101), EPOCHS, options={"n_train": 5_000, "n_validation": 1_000, "n_test": 1}),
        Stage(range(5), EPOCHS, best=1, options={"n_train": 6_000, "n_test": 10_000}, result="scored"),
    ],
    configure=configure,
    criteria={"loss": score_loss},
    own=lambda name, arm: Cell(name, UNITS, DEEPEST),
    smoke={"hidden": 8, "depth": 4, "n_train": 256, "n_validation": 64, "n_test": 64},
    measured=FlowMeasured,
)


# ---------------------------------------------------------------------------------------- what was found


def leads(results: Results) -> dict[tuple[str, int], dict[int, np.ndarray]]:
    """Return by arm and width, then by depth, the points of test accuracy over highway nets of the same seed."""
    scores = {cell: accuracies(results.scored(cell)) for cell in results.finished}
    highway = {cell.depth: of for cell, of in scores.items() if cell.arm == "highway"}
    compared = [cell for cell in scores if cell.arm != "highway" and cell.depth in highway]
    sizes = grouped(compared, lambda cell: (cell.arm, cell.hidden))
    return {of: {cell.depth: scores[cell] - highway[cell.depth] for cell in cells} for of, cells in sizes.items()}


def judge_accuracy(found: Iterable[Interval]) -> Verdict:
    """Judge "such blocks are as good as highway blocks" by their leads at each depth and width."""
    return combine(judge_as_good(lead, ACCURACY_MARGIN) for lead in found)


def growth(runs: Sequence[StudyRun], state: str = "untrained") -> np.ndarray:
    """Return the orders of magnitude by which the norm of dL/dx grows on its way back through all blocks, (seeds,)."""
    norms = np.array([getattr(run.measured, state).gradient_norms for run in runs], float)
    return np.log10(norms[:, 0] / norms[:, -1])


def judge_gradients(highway: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> Verdict:
    """Judge "gradients pass such blocks more surely than highway blocks", given the growth of both at each depth."""
    gains = [difference(abs(own), abs(of)) for own, of in zip(highway, others, strict=True)]
    return combine(judge_better(gain, LOSS_MARGIN) for gain in gains)


def numbers(results: Results) -> dict:
    """Return what the page quotes; leads by arm and width, for each depth; factors of gradients by arm and depth."""
    lead = {of: [*map(interval, by_depth.values())] for of, by_depth in leads(results).items()}
    scored = {cell: results.scored(cell) for cell in results.finished}
    equal = {(cell.arm, cell.depth): runs for cell, runs in scored.items() if cell.hidden == UNITS}
    grown = {arm: [growth(equal[arm, depth]) for depth in GATE_BIAS] for arm in BLOCKS}
    norm = {cell: np.mean([run.history["grad_norm"][1:] for run in runs]) for cell, runs in scored.items()}
    as_large = WIDTHS["equal parameters a block"]
    return {
        "accuracy": {arm: judge_accuracy(lead[arm, UNITS] + lead[arm, as_large[arm]]).value for arm in RESIDUAL},
        "gradients": {arm: judge_gradients(grown["highway"], grown[arm]).value for arm in RESIDUAL},
        "lead": lead,
        "behind": sorted(-of.value for (arm, _), by_depth in lead.items() for of in by_depth if arm == RESIDUAL[1]),
        "parameters": {(cell.arm, cell.hidden, cell.depth): runs[0].n_trained for cell, runs in scored.items()},
        "untrained": {of: 10 ** growth(runs).mean() for of, runs in equal.items()},
        "trained": {of: 10 ** growth(runs, "trained").mean() for of, runs in equal.items()},
        "clipped": {arm: sorted({of.depth for of in norm if of.arm == arm and norm[of] > CLIP}) for arm in BLOCKS},
        "at_end": sum(len(results.untried(cell)) for cell in scored),
        "diverged": sum(run.diverged for run in results.runs),
        "depths": [*GATE_BIAS],
        "bias": GATE_BIAS,
        "rates": len(RATES),
        "seeds": {len(runs) for runs in scored.values()},
        "epochs": EPOCHS,
    }


def leads_figure(results: Results) -> Figure:
    """Draw the points of test accuracy over highway nets against depth, at equal width and at equal parameters."""
    figure, panels = new_figure("Deep residual nets need a scaled branch", 4.0, ncols=2, sharey=True)
    found = leads(results)
    for axes, (equal, widths) in zip(panels, WIDTHS.items(), strict=True):
        for arm in results.study.arms:
            if of := found.get((arm, widths.get(arm, UNITS))):
                style = {"label": arm, "color": arm_color(arm), "marker": "o"}
                draw_seeds(axes, [*of], np.transpose([*of.values()]), **style)
        draw_level(axes, 0, "highway")
        axes.set(xscale="log", xlabel="blocks", title=equal)
        axes.set_xticks([*GATE_BIAS], [*GATE_BIAS])
        axes.set_yscale("symlog", linthresh=1)
        axes.set_yticks(POINTS, [minus(points) for points in POINTS])
        axes.minorticks_off()
    panels[0].set_ylabel("points of test accuracy over highway")
    label_ends(*panels)
    return figure


def flow_figure(results: Results) -> Figure:
    """Draw the norm of dL/dx of every block, and singular values of one block's Jacobian: a column for each arm."""
    cells = [cell for cell in results.finished if (cell.hidden, cell.depth) == (UNITS, DEEPEST)]
    figure, grid = new_figure(
        "Untrained, scaled residual blocks keep gradients",
        5.6,
        nrows=2,
        ncols=max(1, len(cells)),
        sharey="row",
        squeeze=False,
    )
    for (norms, values), cell in zip(grid.T, cells, strict=False):
        norms.set_title(cell.arm.replace(", ", ",\n"))
        for axes, field, last in ((norms, "gradient_norms", cell.depth), (values, "singular_values", cell.hidden)):
            for state, color in STATES.items():
                flows = [getattr(run.measured, state) for run in results.scored(cell)]
                curves = np.array([getattr(flow, field) for flow in flows], float)
                places = np.arange(1, curves.shape[1] + 1)
                draw_seeds(axes, places, curves, label=state, color=color, center=np.median)
            axes.set(yscale="log", xticks=(1, last))
    grid[0, 0].set(xlabel="input of block", ylabel="norm of dL/dx")
    grid[1, 0].set(xlabel="rank", ylabel="singular values of dy/dx,\nmiddle block")
    label_ends(*grid[:, -1])
    return figure


FIGURES = {"blocks_compared.png": leads_figure, "gradient_flow.png": flow_figure}
