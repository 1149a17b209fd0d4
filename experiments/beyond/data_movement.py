"""Do carry paths move less data than a plain net of the same depth?

The sketch's last question, which the paper does not ask. The blocks of plain, residual and highway nets, forward and
backward, run on numbers that record every read, and each read is charged as tracing.py says: ⌈√d⌉ for a byte at depth d
of a stack of all that was touched so far. Blocks are of equal width and, separately, of equal parameters, at depths of
2 to 128, one sample at a time; then of other widths and in larger batches. Ours: what is common to all nets, the first
and the last layer and the loss, is left out. On the stack lie the blocks' parameters, in the order in which an
optimiser passes over them, when x_0 is pushed, and later dL/dx_L.

Two things are open in such a count, so there are four: a copy, such as a plain block's y = H, may be a read, as it is
in arrays of floats, or free, as it makes no new number; and what is never read again may stay in the stack, as the
definition has it, or leave, as where its memory is used anew (parameters and their gradients never do).

No branch of the code looks at a value, so a cost depends on sizes alone: the numbers are random, neither they nor the
seed change it, and there is no spread. What reads is one of three: the affine maps, with the sum of what flows back
through and around them; the activations; and whatever else blocks do, which is gates, carry paths and copies.
"""

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from highway_lab.logs import Log, Result
from highway_networks import Activation, Block, DeepNet, Workspace

from ..common import NO_DATA, Experiment, add_run_flags, start
from .tracing import BYTES, Memory, Trace, costs, depths

BLOCKS = ("plain", "residual", "highway")
WIDER = {2: 3, 14: 20, 84: 119}  # a plain block's width for as many parameters: 12, 420, 14,280
SIZES = {"width": 14, "depth": 8, "batch": 1}  # where they are not varied
VARIED = {"width": tuple(WIDER), "depth": (2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}
AFFINE, ACTIVATION, COMBINATION = PARTS = ("affine maps", "activations", "gates, paths, copies")


class Rule(NamedTuple):
    """A way to count: whether copies are reads, and whether what is never read again stays in the stack."""

    copies: bool
    stays: bool


RULES = {
    "nothing leaves the stack": Rule(copies=True, stays=True),  # the one whose reads are taken apart
    "dead values leave it": Rule(copies=True, stays=False),
    "nothing leaves, copies free": Rule(copies=False, stays=True),
    "dead values leave, copies free": Rule(copies=False, stays=False),
}
USUAL = next(iter(RULES))
Pair = TypeVar("Pair", Activation, Block)


@dataclass(frozen=True)
class Setting:
    """What nets of several kinds of block are compared at: `equal` "width" or "parameters", the highway net's width."""

    equal: str
    width: int
    depth: int
    batch: int

    def width_of(self, block: str) -> int:
        """Of a net with such blocks."""
        wider = self.equal == "parameters" and block != "highway"
        return WIDER[self.width] if wider else self.width


@dataclass
class Reads:
    """What one part of one pass reads of weights, or of what a pass ("forward", "backward") has made."""

    reader: str
    part: str
    read: str
    cost: int


@dataclass
class Movement:
    """What a step of one net costs by each of RULES; how many operations it has beside copies; its reads by USUAL."""

    width: int
    n_params: int
    operations: int
    costs: dict[str, int]
    reads: list[Reads]


@dataclass
class Comparison(Result):
    """Nets by their kind of block."""

    setting: Setting
    nets: dict[str, Movement]

    def relative(self, block: str, rule: str = USUAL) -> float:
        """A net's cost as a multiple of the plain one's."""
        return self.nets[block].costs[rule] / self.nets["plain"].costs[rule]


@dataclass
class DataMovementLog(Log):
    """runs/data_movement.json; `bytes` of a value."""

    dataset: None
    bytes: int
    comparisons: list[Comparison]

    def varied(self, name: str, equal: str = "parameters") -> list[Comparison]:
        """Those that differ in one of SIZES alone, in its order."""
        usual = Setting(equal, **SIZES)
        chosen = [of for of in self.comparisons if replace(of.setting, **{name: SIZES[name]}) == usual]
        return sorted(chosen, key=lambda of: getattr(of.setting, name))


EXPERIMENT = Experiment(__name__, __doc__, DataMovementLog, NO_DATA)


class Blocks(DeepNet):
    """The blocks of a net alone, their parameters Scalars; a label says which pass and which of PARTS an event is of.

    What the layer before them would make, x_0, has to be in the workspace when `forward` begins.
    """

    def __init__(self, net: DeepNet, trace: Trace):
        super().__init__(**net.config | {"d_in": 0, "d_out": 0, "dtype": object}, rng=None)
        with trace.labelled("weights"):
            np.copyto(self.params.blocks, trace.argument(net.params.blocks))
        self.activation = labelled(self.activation, trace, ACTIVATION)
        self.block = labelled(self.block, trace, COMBINATION)

    def _input_layer(self, x: np.ndarray, x_0: np.ndarray) -> None:
        pass


def labelled(pair: Pair, trace: Trace, part: str) -> Pair:
    """A pair of functions, forward and backward, that label what they do."""
    passes = ("forward", "backward")
    return pair._replace(**{which: trace.labelled(which, part)(getattr(pair, which)) for which in passes})


def trace_step(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray, *, copies: bool) -> tuple[Trace, Blocks, Workspace]:
    """Run a net's blocks forward and backward on Scalars, given x_0 and dL/dx_L, (D, B) each.

    Returns the blocks and the workspace with what they computed, too.
    """
    trace, nothing = Trace(copies=copies), np.empty((x_0.shape[1], 0))
    blocks = Blocks(net, trace)
    workspace = Workspace(blocks, len(nothing))
    for name in ("x", "dz", "flows"):  # into which blocks copy
        setattr(workspace, name, getattr(workspace, name).view(Memory))
    with trace.labelled("forward", AFFINE):
        np.copyto(workspace.x[0], trace.argument(x_0))
        _, cache = blocks.forward(nothing, workspace)
    with trace.labelled("backward", AFFINE):
        walk = blocks.walk_back(nothing, cache)
        np.copyto(next(walk), trace.argument(dx_L))
        for _ in walk:
            pass
    return trace, blocks, workspace


def measure(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray) -> Movement:
    """Trace a step of a net's blocks, and charge it in every way."""
    steps = {copies: trace_step(net, x_0, dx_L, copies=copies) for copies in (True, False)}
    charged = {}
    for rule, (copies, stays) in RULES.items():
        trace, blocks, workspace = steps[copies]
        lasting = (*blocks.params.blocks.flat, *workspace.gradients.blocks.flat)
        charged[rule] = costs(depths(trace.events, None if stays else {scalar.number for scalar in lasting}))
    return Movement(
        width=net.hidden,
        n_params=net.params.blocks.size,
        operations=sum(operands != () for _, operands in steps[False][0].events),
        costs={rule: int(charges.sum()) for rule, charges in charged.items()},
        reads=take_apart(steps[RULES[USUAL].copies][0], charged[USUAL]),
    )


def take_apart(trace: Trace, charged: np.ndarray) -> list[Reads]:
    """The reads by their label and by what they read, given what each was charged."""
    kinds = [(*label, trace.events[value][0][0]) for label, operands in trace.events for value in operands]
    cost = Counter()
    for kind, charge in zip(kinds, charged.tolist(), strict=True):
        cost[kind] += charge
    return [Reads(*kind, cost[kind]) for kind in sorted(cost)]


def compare(setting: Setting, _: None) -> Comparison:
    """Measure a net of each kind of block."""
    rng, nets = np.random.default_rng(0), {}
    for block in BLOCKS:
        D = setting.width_of(block)
        net = DeepNet(1, 1, hidden=D, depth=setting.depth, block=block, dtype=np.float64, rng=rng)
        nets[block] = measure(net, *rng.standard_normal((2, D, setting.batch)))
    return Comparison(None, setting, nets)


def plan(smoke: bool) -> list[Setting]:
    """What is compared, the largest first."""
    few = slice(2 if smoke else None)
    settings = {Setting("width", **SIZES | {"depth": depth}) for depth in (*VARIED["depth"][few], SIZES["depth"])}
    settings |= {
        Setting("parameters", **SIZES | {name: value}) for name, values in VARIED.items() for value in values[few]
    }
    return sorted(settings, key=lambda s: (s.width**2 * s.depth * s.batch, s.equal), reverse=True)


def run(arguments: argparse.Namespace) -> None:
    """Trace all nets, write the log."""
    path = EXPERIMENT.log_path(smoke=arguments.smoke)
    comparisons = EXPERIMENT.finish(compare, plan(arguments.smoke), None, Comparison, path, arguments)
    EXPERIMENT.keep(path, arguments.command_line, None, bytes=BYTES, comparisons=comparisons)


add_run_flags(EXPERIMENT.add("run", run, "trace all nets; resumable"), default=None)

if __name__ == "__main__":
    start(__spec__.name)
