"""Do carry paths move less data than a plain net of the same depth?

The blocks of plain, residual and highway nets, of equal width or of equal parameters, run
forward and backward on Scalars that record every read; tracing.py charges the reads. First layer, last layer and loss,
which all nets share, are left out. The stack holds the parameters, in the order of the optimiser, then x_0, and later
dL/dx_L.

Two rules of such a count are open, so there are four counts. A copy, such as a plain block's y = H, may be a read, as
in arrays of floats, or free, as it makes no new number. A value that is never read again may stay in the stack, as in
the definition, or leave it, as where its memory is reused; parameters and their gradients always stay.

No code branches on a value, so a cost depends on sizes alone: random numbers serve, and there is no spread.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from highway_lab.fields import Count, NonEmpty, dict_of
from highway_lab.logs import Log, Result
from highway_networks import Activation, Block, DeepNet, Workspace, affine_forward

from ..common import NO_DATA, Experiment, ExperimentJob
from .tracing import BYTES, Memory, Trace, costs, depths

BLOCKS = ("plain", "residual", "highway")
WIDER = {2: 3, 14: 20, 84: 119}  # a plain block's width for as many parameters: 12, 420, 14,280
SIZES = {"width": 14, "depth": 8, "batch": 1}  # where they are not varied
VARIED = {"width": tuple(WIDER), "depth": (2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}
# Parts of a block that read; the affine maps also sum the gradients through and around them:
AFFINE, ACTIVATION, COMBINATION = PARTS = ("affine maps", "activations", "gates, paths, copies")


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
USUAL = next(iter(RULES))  # the rule by which reads are split into parts


@dataclass(frozen=True)
class Setting:
    """Sizes of the nets that are compared: equal "width" or "parameters"; `width` is the highway net's."""

    equal: Literal["width", "parameters"]
    width: Count
    depth: Count
    batch: Count

    def width_of(self, block: str) -> int:
        wider = self.equal == "parameters" and block != "highway"
        return WIDER[self.width] if wider else self.width


@dataclass
class Reads:
    """Cost of the reads by one part of one pass, `reader`, of "weights" or of values that a pass made."""

    reader: str
    part: str
    read: str
    cost: Count


@dataclass
class Movement:
    """Data movement of one step: cost by each of RULES, number of operations beside copies, reads by USUAL."""

    width: Count
    n_params: Count
    operations: Count
    costs: dict_of(RULES, Annotated[int, Meta(ge=1)])
    reads: NonEmpty[Reads]


@dataclass
class Comparison(Result):
    """Nets of one setting by their kind of block."""

    setting: Setting
    nets: dict_of(BLOCKS, Movement)

    def relative(self, block: str, rule: str = USUAL) -> float:
        """Return a net's cost as a multiple of the plain net's."""
        return self.nets[block].costs[rule] / self.nets["plain"].costs[rule]


@dataclass
class DataMovementLog(Log):
    """runs/data_movement.json; `bytes` per value."""

    dataset: None
    bytes: Count
    comparisons: NonEmpty[Comparison]

    def varied(self, name: str, equal: str = "parameters") -> list[Comparison]:
        """Return the comparisons in which only that size differs from SIZES, in its order."""
        usual = Setting(equal, **SIZES)
        chosen = [of for of in self.comparisons if replace(of.setting, **{name: SIZES[name]}) == usual]
        return sorted(chosen, key=lambda of: getattr(of.setting, name))


EXPERIMENT = Experiment(__name__, __doc__, DataMovementLog, NO_DATA)


def scalar_blocks(net: DeepNet, trace: Trace) -> DeepNet:
    """Return the blocks of a net with Scalars as parameters; their events are labelled by pass and by one of PARTS."""

    def labelled(pair: Activation | Block, part: str) -> Activation | Block:
        passes = ("forward", "backward")
        return pair._replace(**{which: trace.labelled(which, part)(getattr(pair, which)) for which in passes})

    blocks = DeepNet(**net.config | {"d_in": 0, "d_out": 0, "dtype": object}, rng=None)
    with trace.labelled("weights"):
        np.copyto(blocks.params.blocks, trace.argument(net.params.blocks))
    blocks.activation = labelled(blocks.activation, ACTIVATION)
    blocks.block = labelled(blocks.block, COMBINATION)
    return blocks


def trace_step(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray, *, copies: bool) -> tuple[Trace, DeepNet, Workspace]:
    """Run a net's blocks forward and backward on Scalars, given x_0 and dL/dx_L, (D, B) each."""
    trace = Trace(copies=copies)
    blocks = scalar_blocks(net, trace)
    w = Workspace(blocks, x_0.shape[1])
    for name in ("x", "dz", "flows"):  # to which blocks copy
        setattr(w, name, getattr(w, name).view(Memory))
    with trace.labelled("forward", AFFINE):
        np.copyto(w.x[0], trace.argument(x_0))
        for l in range(net.depth):  # as DeepNet.forward does
            affine_forward(blocks.params.blocks[l], w.x1[l], w.z[l])
            blocks.block.forward(w.x[l], w.branches[l], w.x[l + 1], blocks.activation)
    with trace.labelled("backward", AFFINE):
        gradients = blocks.backward_blocks(np.empty((x_0.shape[1], 0)), w)
        np.copyto(next(gradients), trace.argument(dx_L))
        for _ in gradients:
            pass
    return trace, blocks, w


def measure(net: DeepNet, x_0: np.ndarray, dx_L: np.ndarray) -> Movement:
    """Trace a step of a net's blocks, and charge it by each rule."""
    steps = {copies: trace_step(net, x_0, dx_L, copies=copies) for copies in (True, False)}
    charged = {}
    for name, (copies, stays) in RULES.items():
        trace, blocks, workspace = steps[copies]
        lasting = (*blocks.params.blocks.flat, *workspace.gradients.blocks.flat)
        charged[name] = costs(depths(trace.events, None if stays else {scalar.number for scalar in lasting}))
    return Movement(
        width=net.hidden,
        n_params=net.params.blocks.size,
        operations=sum(operands != () for _, operands in steps[False][0].events),
        costs={name: int(charges.sum()) for name, charges in charged.items()},
        reads=by_part(steps[RULES[USUAL].copies][0], charged[USUAL]),
    )


def by_part(trace: Trace, charges: np.ndarray) -> list[Reads]:
    """Sum the charges of all reads, given in their order, by reader and by what is read."""
    kinds = [(*label, trace.events[value][0][0]) for label, operands in trace.events for value in operands]
    totals = Counter()
    for kind, charge in zip(kinds, charges.tolist(), strict=True):
        totals[kind] += charge
    return [Reads(*kind, cost) for kind, cost in sorted(totals.items())]


def compare(setting: Setting, _: None) -> Comparison:
    rng, nets = np.random.default_rng(0), {}
    for block in BLOCKS:
        D = setting.width_of(block)
        net = DeepNet(1, 1, hidden=D, depth=setting.depth, block=block, dtype=np.float64, rng=rng)
        nets[block] = measure(net, *rng.standard_normal((2, D, setting.batch)))
    return Comparison(None, setting, nets)


def plan(smoke: bool) -> list[Setting]:
    """Return the settings to compare, the largest first."""
    few = slice(2 if smoke else None)
    panels = [("width", "depth"), *(("parameters", name) for name in VARIED)]
    settings = {Setting(equal, **SIZES | {name: value}) for equal, name in panels for value in VARIED[name][few]}
    settings.add(Setting("width", **SIZES))
    return sorted(settings, key=lambda s: (s.width**2 * s.depth * s.batch, s.equal), reverse=True)


def run(job: ExperimentJob) -> None:
    job.keep(bytes=BYTES, comparisons=job.run_missing(compare, plan(job.smoke), Comparison))


EXPERIMENT.add_run(run, "trace all nets; resumable", dataset=None)
