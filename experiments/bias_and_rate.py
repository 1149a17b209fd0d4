"""Gate biases, learning rates, activations and initialisations from which 50 blocks train.

Two grids at 50 blocks; all else is as in the headline nets. The first varies rate and bias. The second varies
activation and initialisation, from four biases, beside plain nets and nets of no blocks. Each arm of the second grid
has its own rate, chosen by the validation loss over two other seeds.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product

from highway_lab.fields import NonEmpty
from highway_lab.logs import Log, TrainedRun
from highway_networks import ACTIVATIONS, Config, Dataset

from .common import Experiment, ExperimentJob, fit, train_one
from .rates import TriedRate, choose_and_measure, choosing

DEPTH = 50
SEEDS = (0, 1, 2, 3, 4)
CHOOSING_SEEDS = (100, 101)
RATES = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
BIASES = (-1.0, -2.0, -3.0, -4.0, -6.0)
INITS = ("uniform", "glorot", "he", "gaussian")
STARTS = (  # block, bias, depth
    *(("highway", bias, DEPTH) for bias in (0.0, -2.0, -4.0, -8.0)),
    *(("plain", Config.gate_bias, depth) for depth in (DEPTH, 0)),
)
START_RATES = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
SMOKE_STARTS = tuple((block, bias, min(depth, 6)) for block, bias, depth in STARTS[-3:])
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 2_000}


@dataclass
class BiasAndRateLog(Log):
    """The log runs/bias_and_rate.json; the runs by initialisation train at the rates that `tried` chose."""

    by_rate: NonEmpty[TrainedRun[Config, None]]
    tried: NonEmpty[TriedRate]
    by_init: NonEmpty[TrainedRun[Config, None]]


EXPERIMENT = Experiment(__name__, __doc__, BiasAndRateLog)


def rate_configs(data: Dataset, smoke: bool) -> list[Config]:
    rates, biases, seeds, depth = (RATES[-2:], BIASES[:2], SEEDS[:1], 6) if smoke else (RATES, BIASES, SEEDS, DEPTH)
    budget = fit(BUDGET, data, smoke)
    return [
        Config(depth=depth, lr=lr, gate_bias=bias, seed=seed, **budget)
        for lr, bias, seed in product(rates, biases, seeds)
    ]


def init_configs(data: Dataset, smoke: bool, rates: dict[tuple, float] | None = None) -> list[Config]:
    """Return the runs that try rates for each pair and start, or, given `rates` by arm, the runs that measure."""
    starts, tried = (SMOKE_STARTS, START_RATES[-2:]) if smoke else (STARTS, START_RATES)
    seeds = (CHOOSING_SEEDS if rates is None else SEEDS)[: 1 if smoke else None]
    budget = choosing(fit(BUDGET, data, smoke)) if rates is None else fit(BUDGET, data, smoke)
    return [
        Config(block=block, activation=activation, init=init, gate_bias=bias, lr=lr, seed=seed, depth=depth, **budget)
        for activation, init, (block, bias, depth) in product(ACTIVATIONS, INITS, starts)
        for lr in (tried if rates is None else [rates[activation, init, block, bias, depth]])
        for seed in seeds
    ]


def arm(run: TrainedRun) -> tuple[str, str, str, float, int]:
    config = run.config
    return config.activation, config.init, config.block, config.gate_bias, config.depth


def run(job: ExperimentJob) -> None:
    by_rate = job.train(rate_configs(job.data, job.smoke))
    tried, by_init = choose_and_measure(job, partial(train_one, __name__), init_configs, TrainedRun[Config, None], arm)
    job.keep(by_rate[0].config, by_rate=by_rate, tried=tried, by_init=by_init)


EXPERIMENT.add_run(run, "train all nets; resumable")
