"""Do carry paths move less data than a plain net of the same depth?

The blocks of plain, residual and highway nets of equal parameters (and in one size of equal width) run forward and
backward on values that record every read. First layer, last layer and loss, which all nets share, are left out. In
arrays of objects NumPy calls the methods of the elements, so the code that is traced is the code that trains nets.
There np.matmul is a plain loop over rows, columns and products, without blocks that fit a processor cache.

The cost is ByteDMD, the data movement distance of Smith, Goldfarb & Ding (2022, arXiv:2203.02536) counted in bytes. All
that a program has touched lies in one stack, the value used last on top. To read a byte at depth d costs ⌈√d⌉, because
a plane that stores d bytes extends that far. Computing and writing are free. In detail:

- Arguments are pushed in their order, unread: the parameters, in the order of the optimiser, then x_0, and later
  dL/dx_L. An operation pushes its result as a new value.
- The bytes of a value lie side by side.
- An operation first finds its operands, then moves them to the top, the left one before the right one.
- Constants are not values. A copy, such as a plain block's y = H, is a read and a new value, as in arrays of floats.

One rule of such a count is open, so there are two counts. A value that is never read again may stay in the stack, as in
the definition, or leave it, as where its memory is reused; parameters and their gradients always stay.

No code branches on a value, so a cost depends on sizes alone: values need no numbers, and there is no spread.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count, product
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from highway_lab.fields import Count, dict_of
from highway_lab.figures import COLORS, draw_level, label_ends, new_figure
from highway_networks import Config, DeepNet, Workspace, affine_forward

from .study import Arm, Results, Stage, Study, StudyRun, Task

BYTES = 4  # per value: nets are trained in float32
BLOCKS = ("plain", *(CARRYING := ("residual", "highway")))
EQUAL = ("width", "parameters")
WIDER = {2: 3, 14: 20, 84: 119}  # a plain block's width for as many parameters: 12, 420, 14,280
SIZES = {"width": 14, "depth": 8, "batch": 1}  # where they are not varied
VARIED = {"width": tuple(WIDER), "depth": (2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}
Event = tuple[int, ...]  # the values that are read: none, one or two


# ------------------------------------------------------------------------------------- reads and costs


class Value:
    """A number of a program, of which only the reads count: event i of `events` makes value i."""

    def __init__(self, events: list[Event], *operands: "Value"):
        self.events, self.number = events, len(events)
        events.append(tuple(of.number for of in operands))

    def made(self, *others: "Value | float") -> "Value":
        """Return what an operation makes of this value and others."""
        return Value(self.events, self, *(of for of in others if isinstance(of, Value)))

    __neg__ = __add__ = __sub__ = __mul__ = __truediv__ = exp = tanh = made
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = made
    __pos__ = made  # a copy


class Memory(np.ndarray):
    """An array of values that copies what is assigned to it, as in y[...] = H."""

    def __setitem__(self, key, values):
        super().__setitem__(key, +values)


def trace_step(block: str, D: int, L: int, B: int) -> tuple[list[Event], set[int]]:
    """Run a net's blocks forward and backward; return the events, and the parameters and gradients among the values."""
    events: list[Event] = []
    net = DeepNet(0, 0, hidden=D, depth=L, block=block, dtype=object, rng=None)
    w = Workspace(net, B)
    for name in ("x", "dz", "flows"):  # to which blocks copy
        setattr(w, name, getattr(w, name).view(Memory))

    def push(arguments: np.ndarray) -> None:
        arguments.flat = [Value(events) for _ in range(arguments.size)]

    push(net.params.blocks)
    push(w.x[0])
    for l in range(L):  # as DeepNet.forward does
        affine_forward(net.params.blocks[l], w.x1[l], w.z[l])
        net.block.forward(w.x[l], w.branches[l], w.x[l + 1], net.activation)
    gradients = net.backward_blocks(np.empty((B, 0)), w)
    push(next(gradients))
    for _ in gradients:
        pass
    return events, {value.number for of in (net.params, w.gradients) for value in of.blocks.flat}


def depths(events: Collection[Event], lasting: Iterable[int]) -> np.ndarray:
    """Return the depth at which each read finds its value, in values, 1 on top; reads in their order.

    lasting: values that stay to the end, while all others leave the stack after their last read.

    The stack is the list of the times at which its values were last used. These ascend, so bisection finds a value;
    most reads are near the end, so deleting moves little.
    """
    last_read = {value: event for event, operands in enumerate(events) for value in operands}
    last_read |= dict.fromkeys(lasting, math.inf)
    found, stack, used, clock = [], [], [], count()
    for event, operands in enumerate(events):
        found += [len(stack) - bisect_left(stack, used[value]) for value in operands]
        for value in dict.fromkeys(operands):
            del stack[bisect_left(stack, used[value])]
            used[value] = next(clock)
            if last_read[value] > event:
                stack.append(used[value])
        used.append(next(clock))
        if event in last_read:
            stack.append(used[event])
    return np.array(found)


def cost(depths: np.ndarray) -> int:
    """Return the cost of reading values at these depths: Σ ⌈√d⌉ over the depths d of their bytes."""
    return int(np.ceil(np.sqrt(BYTES * depths[:, None] - np.arange(BYTES))).sum())


# ----------------------------------------------------------------------------------------------- study

RULES = (USUAL, REUSED) = ("nothing leaves the stack", "dead values leave it")


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

    costs: dict_of(BLOCKS, dict_of(RULES, Count))

    def relative(self, block: str, rule: str = USUAL) -> float:
        """Return a net's cost as a multiple of the plain net's."""
        return self.costs[block][rule] / self.costs["plain"][rule]


def measure(block: str, D: int, L: int, B: int) -> dict[str, int]:
    """Trace a step of a net's blocks, and charge it by each rule."""
    events, lasting = trace_step(block, D, L, B)
    return {USUAL: cost(depths(events, range(len(events)))), REUSED: cost(depths(events, lasting))}


def train(task: Task, _: None) -> StudyRun:
    """Trace a step of a net of each kind."""
    cell = task.cell
    costs = {block: measure(block, cell.width_of(block), cell.depth, cell.batch) for block in BLOCKS}
    n_parameters = 2 * cell.depth * cell.width * (cell.width + 1)  # of the highway net
    return StudyRun(None, task, n_parameters, False, {}, Movement(costs))


CELLS = {SizeCell("parameters", **SIZES | {name: value}) for name, values in VARIED.items() for value in values}
DATASET = None
STUDY = Study(
    {equal: Arm({"block": "highway"}, {}) for equal in EQUAL},
    sorted(CELLS | {SizeCell("width", **SIZES)}, key=lambda of: (of.width**2 * of.depth * of.batch, of.arm)),
    [Stage((0,), 1, result="scored")],
    configure=lambda fields, cell, stage: Config(**fields, hidden=cell.width, depth=cell.depth),
    criteria={"highway": lambda run: run.measured.relative("highway")},
    config=Config,
    measured=Movement,
)


# ---------------------------------------------------------------------------------------- what was found


def varied(results: Results, name: str) -> dict[int, Movement]:
    """Return by one of the sizes, at equal parameters, what was measured where all others are those of SIZES."""
    found = {run.cell: run.measured for run in results.runs}
    cells = {value: SizeCell("parameters", **SIZES | {name: value}) for value in VARIED[name]}
    return {value: found[cell] for value, cell in cells.items() if cell in found}


def numbers(results: Results) -> dict:
    """Return what the page quotes: costs as multiples of the plain net's.

    equal_width            by block, by USUAL; all others are of nets of equal parameters
    depth, batch, every    by block and rule: by that size, and of all sizes
    """
    of_equal = {equal: [run.measured for run in results.runs if run.cell.arm == equal] for equal in EQUAL}
    kinds = [*product(CARRYING, RULES)]
    every = {of: [one.relative(*of) for one in of_equal["parameters"]] for of in kinds}
    multiples = [multiple for of in every.values() for multiple in of]
    return {
        "equal_width": {block: one.relative(block) for block in CARRYING for one in of_equal["width"]},
        "depth": {of: {size: one.relative(*of) for size, one in varied(results, "depth").items()} for of in kinds},
        "batch": {of: {size: one.relative(*of) for size, one in varied(results, "batch").items()} for of in kinds},
        "every": every,
        "settings": len(of_equal["parameters"]),
        "comparisons": len(multiples),
        "more": sum(multiple > 1 for multiple in multiples),
    }


def figure(results: Results) -> Figure:
    """Draw by how much a net's cost exceeds the plain net's; bold: counted by USUAL, faint: by REUSED."""
    figure, grid = new_figure("Carry paths mostly move more data", 3.4, ncols=3)
    labels = {"depth": "blocks", "width": "units of highway nets", "batch": "samples in a batch"}
    for axes, (name, label) in zip(grid, labels.items(), strict=True):
        by_size = varied(results, name)
        draw_level(axes, 0, "plain")
        for block, rule in product(CARRYING, reversed(RULES)):
            more = [100 * (one.relative(block, rule) - 1) for one in by_size.values()]
            style = {"label": block} if rule == USUAL else {"linewidth": 1, "alpha": 0.4}
            axes.plot([*by_size], more, color=COLORS[block], marker="o", markersize=3, **style)
        axes.set(xscale="log", xlabel=label)
        axes.set_xticks([*by_size][::2], [*by_size][::2])
        axes.minorticks_off()
    grid[0].set_ylabel("data moved, % more than plain")
    label_ends(*grid)
    return figure


FIGURES = {"data_movement.png": figure}
