"""Which gate bias, learning rate, activation and initialisation let 50 blocks train?

The paper (section 2.2): a negative bias b_T was sufficient for learning to proceed in very deep networks, for various
zero-mean initial distributions of W_H and different activation functions; its guideline for convolutional nets is a
lower bias the deeper the net. In the depth sweep here, 50 blocks fall behind at a rate of 5e-3 with b_T = -2.

Two grids at 50 blocks, five seeds each, all else as in the headline nets. Rate by bias: is it the rate, the bias, or
both together? Activation by initialisation, at four biases, with plain nets and nets of no blocks beside them, as a net
that lets everything pass learns, too: each at its own rate of seven, chosen by the loss on held-out training images
over two other seeds, so that no distribution is judged at a rate that suits another. An initialisation is that of all
weights, those of T included.
"""

import argparse
from dataclasses import dataclass
from functools import partial
from itertools import product

from highway_lab.logs import DatasetInfo, Log
from highway_networks import ACTIVATIONS, INITS, Config, Dataset

from .common import (
    Experiment,
    TrainedRun,
    TriedRate,
    add_run_flags,
    best_rates,
    choosing,
    fit,
    load_data,
    start,
    train_one,
    tried_rates,
)

DEPTH = 50
SEEDS = (0, 1, 2, 3, 4)
CHOOSING_SEEDS = (100, 101)
RATES = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
BIASES = (-1.0, -2.0, -3.0, -4.0, -6.0)
STARTS = (  # block, bias, depth
    *(("highway", bias, DEPTH) for bias in (0.0, -2.0, -4.0, -8.0)),
    *(("plain", Config.gate_bias, depth) for depth in (DEPTH, 0)),
)
START_RATES = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
SMOKE_STARTS = tuple((block, bias, min(depth, 6)) for block, bias, depth in STARTS[-3:])
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 2_000}


@dataclass
class BiasAndRateLog(Log):
    """runs/bias_and_rate.json; by_init: at the rates that `tried` chose."""

    by_rate: list[TrainedRun]
    tried: list[TriedRate]
    by_init: list[TrainedRun]


EXPERIMENT = Experiment(__name__, __doc__, BiasAndRateLog)


def rate_configs(data: Dataset, smoke: bool) -> list[Config]:
    """The runs of the grid of rates and biases."""
    rates, biases, seeds, depth = (RATES[-2:], BIASES[:2], SEEDS[:1], 6) if smoke else (RATES, BIASES, SEEDS, DEPTH)
    budget = fit(BUDGET, data, smoke)
    return [
        Config(depth=depth, lr=lr, gate_bias=bias, seed=seed, **budget)
        for lr, bias, seed in product(rates, biases, seeds)
    ]


def init_configs(data: Dataset, smoke: bool, rates: dict[tuple, float] | None = None) -> list[Config]:
    """The runs that choose a rate, or, given the chosen `rates` (by arm), those that measure with it."""
    starts, tried = (SMOKE_STARTS, START_RATES[-2:]) if smoke else (STARTS, START_RATES)
    seeds = (CHOOSING_SEEDS if rates is None else SEEDS)[: 1 if smoke else None]
    budget = fit(BUDGET, data, smoke)
    budget = choosing(budget) if rates is None else budget
    return [
        Config(block=block, activation=activation, init=init, gate_bias=bias, lr=lr, seed=seed, depth=depth, **budget)
        for activation, init, (block, bias, depth) in product(ACTIVATIONS, INITS, starts)
        for lr in (tried if rates is None else [rates[activation, init, block, bias, depth]])
        for seed in seeds
    ]


def arm(run: TrainedRun) -> tuple[str, str, str, float, int]:
    """What is compared: by activation, initialisation, block, bias and depth."""
    config = run.config
    return config.activation, config.init, config.block, config.gate_bias, config.depth


def run(arguments: argparse.Namespace) -> None:
    """Train what is missing and write the log."""
    dataset, data = load_data(arguments)
    path = EXPERIMENT.log_path(dataset, arguments.smoke)
    finish = partial(EXPERIMENT.finish, train_one, data=data, schema=TrainedRun, log=path, arguments=arguments)
    by_rate = finish(rate_configs(data, arguments.smoke))
    tried = tried_rates(finish(init_configs(data, arguments.smoke)), arm)
    by_init = finish(init_configs(data, arguments.smoke, best_rates(tried)))
    info = DatasetInfo(dataset, by_rate[0].config.n_train, by_rate[0].config.n_test, data.test_set)
    EXPERIMENT.keep(path, arguments.command_line, info, by_rate=by_rate, tried=tried, by_init=by_init)


add_run_flags(EXPERIMENT.add("run", run, "train all nets; resumable"))

if __name__ == "__main__":
    start(__spec__.name)
