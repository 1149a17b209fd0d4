"""Is a fixed path around a block as good as a gate? Six kinds of block side by side, and their gradients.

The blocks: plain (eq. 1), residual, residual with a branch divided by the depth, highway coupled (eq. 3), highway with
its own carry gate (eq. 2), and an LSTM along depth. Each arm has its own learning rate, chosen by the validation loss
over two seeds. All nets have normalised initialisation, which plain blocks need.

Gradient flow is the norm of dL/dx of every block on a fixed batch, and the singular values of the middle block's
Jacobian dy/dx at one image, before and after training.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from highway_lab.fields import NonEmpty
from highway_lab.logs import Log, TrainedRun, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet, as_inputs

from .. import blocks  # noqa: F401, adds residual-scaled and lstm to BLOCKS
from ..common import Experiment, ExperimentJob, fit
from ..flow import FLOW_BATCH, Flow, gradient_norms, jacobian
from ..rates import TriedRate, choose_and_measure, choosing

BLOCKS = ("plain", "residual", "residual-scaled", "highway", "highway-uncoupled", "lstm")
DEPTHS = (10, 30, 100)
WIDTHS = {
    "depth": dict.fromkeys(BLOCKS, 50),
    "parameters": {  # about 5,100 a block
        **{"plain": 71, "residual": 71, "residual-scaled": 71},
        **{"highway": 50, "highway-uncoupled": 41, "lstm": 50},
    },
}
RATES = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)
# The paper's guideline (section 2.2) for 10 and 30 layers; for 100, what trains in the search of figure 1.
GATE_BIAS = {10: -1.0, 30: -3.0, 100: -6.0}
GATED = ("highway", "highway-uncoupled", "lstm")
CHOOSING_SEEDS = (100, 101)
SEEDS = (0, 1, 2, 3, 4)
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 10_000}


@dataclass(frozen=True)
class Task:
    """One run; `choosing`: whether it tries a rate or measures with the chosen one."""

    # Across kinds of block at one depth: "depth", so the width, or "parameters".
    equal: Literal["depth", "parameters"]
    choosing: bool
    config: Config


@dataclass
class Flows:
    untrained: Flow
    trained: Flow


ComparedRun = TrainedRun[Task, Flows | None]  # null where the run tries a rate


@dataclass
class BlocksComparedLog(Log):
    """The log runs/blocks_compared.json; `tried` chose the rates of `runs`."""

    tried: NonEmpty[TriedRate]
    runs: NonEmpty[ComparedRun]


EXPERIMENT = Experiment(__name__, __doc__, BlocksComparedLog)


def measure_flow(net: DeepNet, x: np.ndarray, y: np.ndarray) -> Flow:
    """Measure gradient norms over a batch, and the middle block's singular values at its first image."""
    _, cache = net.forward(x)
    middle = net.depth // 2
    J = jacobian(net, cache.x[middle, :, 0], middle)
    values = np.linalg.svd(J, compute_uv=False) if np.isfinite(J).all() else np.full(net.hidden, np.nan)
    return Flow(numbers(gradient_norms(net, x, y), digits=4), numbers(values, digits=4))


def run_task(task: Task, data: Dataset) -> ComparedRun:
    """Train one net; measure its gradients before and after, unless it tries a rate."""
    training = Training(task.config, data)
    x, y = as_inputs(training.data.train_x[:FLOW_BATCH], training.net.dtype), training.data.train_y[:FLOW_BATCH]

    with one_thread():
        untrained = None if task.choosing else measure_flow(training.net, x, y)
        for _ in training.epochs():
            pass
        flows = untrained and Flows(untrained, measure_flow(training.net, x, y))
    return TrainedRun.of(task, training.so_far(), flows)


def plan(data: Dataset, smoke: bool, rates: dict[tuple, float] | None = None) -> list[Task]:
    """Return the runs that try rates, or, given `rates` by arm, the runs that measure; the deepest first."""
    budget = choosing(fit(BUDGET, data, smoke)) if rates is None else fit(BUDGET, data, smoke)
    seeds = (CHOOSING_SEEDS if rates is None else SEEDS)[: 1 if smoke else None]
    arms = product(WIDTHS, BLOCKS, (2, 4) if smoke else DEPTHS)
    return [
        Task(
            equal,
            choosing=rates is None,
            config=Config(
                block=block,
                depth=depth,
                hidden=WIDTHS[equal][block],
                init="glorot",
                gate_bias=GATE_BIAS.get(depth, Config.gate_bias) if block in GATED else Config.gate_bias,
                lr=lr,
                seed=seed,
                **budget,
            ),
        )
        for equal, block, depth in sorted(arms, key=lambda arm: -arm[-1])
        for seed in seeds
        for lr in (RATES[:: 5 if smoke else 1] if rates is None else [rates[equal, block, depth]])
    ]


def arm(run: ComparedRun) -> tuple[str, str, int]:
    return run.task.equal, run.config.block, run.config.depth


def run(job: ExperimentJob) -> None:
    tried, runs = choose_and_measure(job, run_task, plan, ComparedRun, arm)
    job.keep(runs[0].config, tried=tried, runs=runs)


EXPERIMENT.add_run(run, "train all nets; resumable")
