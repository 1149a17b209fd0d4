"""Do carry paths move less data than a plain net of the same depth?

The blocks of plain, residual and highway nets, of equal width or of equal parameters, run forward and backward on
Scalars that record every read; tracing.py charges the reads. First layer, last layer and loss, which all nets share,
are left out. The stack holds the parameters, in the order of the optimiser, then x_0, and later dL/dx_L.

Two rules of such a count are open, so there are four counts. A copy, such as a plain block's y = H, may be a read, as
in arrays of floats, or free, as it makes no new number. A value that is never read again may stay in the stack, as in
the definition, or leave it, as where its memory is reused; parameters and their gradients always stay.

No code branches on a value, so a cost depends on sizes alone: random numbers serve, and there is no spread.

Verdict on "carry paths move less data": by the first rule, such a net costs less than the plain one by MARGIN or more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from msgspec import Meta

from highway_lab.fields import Count, dict_of
from highway_lab.figures import COLORS, draw_level, label_ends, new_figure
from highway_networks import Config, DeepNet, Workspace, affine_forward

from .claims import Verdict, combine
from .study import Arm, Results, Stage, Study, StudyRun, Task
from .tracing import Memory, Trace, costs, depths

BLOCKS = ("plain", *(CARRYING := ("residual", "highway")))
EQUAL = ("width", "parameters")
WIDER = {2: 3, 14: 20, 84: 119}  # a plain block's width for as many parameters: 12, 420, 14,280
SIZES = {"width": 14, "depth": 8, "batch": 1}  # where they are not varied
VARIED = {"width": tuple(WIDER), "depth": (2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}
MARGIN = 0.01  # of the plain net's cost: at equal parameters, highway blocks read 1 % fewer weights


class Rule(NamedTuple):
    """A way to count: whether copies are reads, and whether values that are never read again stay in the stack."""

    copies: bool
    stays: bool


RULES = {
    "nothing leaves the stack": Rule(copies=True, stays=True),
    "dead values leave it": Rule(copies=True, stays=False),
    "nothing leaves, copies free": Rule(copies=False, stays=True),
    "dead values leave, copies free": Rule(copies=False, stays=False),
}
USUAL = next(iter(RULES))  # the rule that decides


@dataclass(frozen=True)
class SizeCell:
    """Sizes of the nets that are compared: of equal "width" or "parameters"; `width` is the highway net's."""

    arm: Literal[*EQUAL]
    width: Count
    depth: Count
    batch: Count

    def width_of(self, block: str) -> int:
        wider = self.arm == "parameters" and block != "highway"
        return WIDER[self.width] if wider else self.width


@dataclass
class Movement:
    """Data movement of one step, by kind of block and by each of RULES."""

    costs: dict_of(BLOCKS, dict_of(RULES, Annotated[int, Meta(ge=1)]))

    def relative(self, block: str, rule: str = USUAL) -> float:
        """Return a net's cost as a multiple of the plain net's."""
        return self.costs[block][rule] / self.costs["plain"][rule]


def trace_step(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray, *, copies: bool) -> tuple[Trace, DeepNet, Workspace]:
    """Run a net's blocks forward and backward on Scalars, given x_0 and dL/dx_L, (D, B) each."""
    trace = Trace(copies=copies)
    blocks = DeepNet(**net.config | {"d_in": 0, "d_out": 0, "dtype": object}, rng=None)
    np.copyto(blocks.params.blocks, trace.argument(net.params.blocks))
    w = Workspace(blocks, x_0.shape[1])
    for name in ("x", "dz", "flows"):  # to which blocks copy
        setattr(w, name, getattr(w, name).view(Memory))
    np.copyto(w.x[0], trace.argument(x_0))
    for l in range(net.depth):  # as DeepNet.forward does
        affine_forward(blocks.params.blocks[l], w.x1[l], w.z[l])
        blocks.block.forward(w.x[l], w.branches[l], w.x[l + 1], blocks.activation)
    gradients = blocks.backward_blocks(np.empty((x_0.shape[1], 0)), w)
    np.copyto(next(gradients), trace.argument(dx_L))
    for _ in gradients:
        pass
    return trace, blocks, w


def measure(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray) -> dict[str, int]:
    """Trace a step of a net's blocks, and charge it by each rule."""
    steps = {copies: trace_step(net, x_0, dx_L, copies=copies) for copies in (True, False)}
    charged = {}
    for name, (copies, stays) in RULES.items():
        trace, blocks, workspace = steps[copies]
        lasting = (*blocks.params.blocks.flat, *workspace.gradients.blocks.flat)
        found = depths(trace.events, None if stays else {scalar.number for scalar in lasting})
        charged[name] = int(costs(found).sum())
    return charged


def train(task: Task, _: None) -> StudyRun:
    """Trace a step of a net of each kind."""
    rng, charged = np.random.default_rng(0), {}
    for block in BLOCKS:
        D = task.cell.width_of(block)
        net = DeepNet(1, 1, hidden=D, depth=task.cell.depth, block=block, dtype=np.float64, rng=rng)
        charged[block] = measure(net, *rng.standard_normal((2, D, task.cell.batch)))
    return StudyRun(None, task, net.params.blocks.size, False, {}, Movement(charged))


PANELS = [("width", "depth"), *(("parameters", name) for name in VARIED)]  # what is equal, and what is varied
CELLS = {SizeCell(equal, **SIZES | {name: value}) for equal, name in PANELS for value in VARIED[name]}
DATASET = None
STUDY = Study(
    {equal: Arm({"block": "highway"}, {}) for equal in EQUAL},
    sorted(CELLS, key=lambda of: (of.width**2 * of.depth * of.batch, of.arm)),
    [Stage((0,), 1, result="scored")],
    configure=lambda fields, cell, stage: Config(**fields, hidden=cell.width, depth=cell.depth),
    criteria={"highway": lambda run: run.measured.relative("highway")},
    config=Config,
    measured=Movement,
)


# ---------------------------------------------------------------------------------------- what was found


def judge_saving(found: Iterable[Movement], block: str) -> Verdict:
    """Judge "carry paths move less data": by USUAL, such a net costs less than the plain one by MARGIN or more."""
    less = (of.relative(block) <= 1 - MARGIN for of in found)
    return combine(Verdict.REPRODUCED if saved else Verdict.NOT_REPRODUCED for saved in less)


def varied(results: Results, name: str, equal: str = "parameters") -> dict[int, Movement]:
    """Return by one of the sizes, in its order, what was measured where all others are those of SIZES."""
    usual, found = SizeCell(equal, **SIZES), {}
    for cell, runs in results.by_cell().items():
        if replace(cell, **{name: SIZES[name]}) == usual:
            found[getattr(cell, name)] = runs[0].measured
    return dict(sorted(found.items()))


def numbers(results: Results) -> dict:
    """Return what the page quotes, by what is equal and by block: costs as multiples of the plain net's.

    usual, every    of all sizes, by USUAL and by all RULES
    depth, batch    by that size, by USUAL; the latter at equal parameters
    """
    found = {name: {equal: {} for equal in EQUAL} for name in ("usual", "every", "depth", "batch", "verdict")}
    for equal, block in product(EQUAL, CARRYING):
        of = [run.measured for run in results.runs if run.cell.arm == equal]
        found["usual"][equal][block] = [one.relative(block) for one in of]
        found["every"][equal][block] = [one.relative(block, rule) for one in of for rule in RULES]
        for name in ("depth", "batch"):
            by_size = varied(results, name, equal)
            found[name][equal][block] = {size: one.relative(block) for size, one in by_size.items()}
        found["verdict"][equal][block] = judge_saving(of, block).value
    multiples = [cost for of in found["every"].values() for costs in of.values() for cost in costs]
    return found | {
        "comparisons": len(multiples),
        "more": sum(cost > 1 for cost in multiples),
        "settings": len(results.runs),
        "rules": len(RULES),
        "margin": MARGIN,
    }


def figure(results: Results) -> Figure:
    """Draw by how much a net's cost exceeds the plain net's; bold: counted by USUAL, faint: by the other rules."""
    figure, grid = new_figure("Carry paths mostly move more data", 3.4, ncols=3)
    panels = {  # what is varied, and what is equal, by title
        "equal width": ("depth", "width", "blocks"),
        "equal parameters": ("depth", "parameters", "blocks"),
        "equal parameters, 8 blocks": ("batch", "parameters", "samples in a batch"),
    }
    for axes, (title, (name, equal, label)) in zip(grid, panels.items(), strict=True):
        by_size = varied(results, name, equal)
        draw_level(axes, 0, "plain")
        for block, rule in product(CARRYING, reversed(RULES)):
            more = [100 * (one.relative(block, rule) - 1) for one in by_size.values()]
            style = {"label": block} if rule == USUAL else {"linewidth": 1, "alpha": 0.4}
            axes.plot([*by_size], more, color=COLORS[block], marker="o", markersize=3, **style)
        axes.set(title=title, xscale="log", xlabel=label)
        axes.set_xticks([*by_size][::2], [*by_size][::2])
        axes.minorticks_off()
    grid[0].set_ylabel("data moved, % more than plain")
    label_ends(*grid)
    return figure


FIGURES = {"data_movement.png": figure}
