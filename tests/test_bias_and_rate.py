"""The grids of rate, bias, activation and initialisation: what is equal in them, and the verdict on them."""

import dataclasses
from itertools import product

import numpy as np
import pytest

from experiments.bias_and_rate import (
    BIASES,
    CHOOSING_SEEDS,
    RATES,
    SEEDS,
    START_RATES,
    STARTS,
    BiasAndRateLog,
    init_configs,
    rate_configs,
)
from experiments.bias_and_rate_figures import claims, init_table, rate_table
from experiments.common import TrainedRun
from highway_lab.logs import DatasetInfo, History
from highway_networks import ACTIVATIONS, INITS, Config


def test_the_first_grid_differs_by_rate_bias_and_seed_alone(as_many_as_mnist):
    configs = rate_configs(as_many_as_mnist, smoke=False)
    assert {(c.lr, c.gate_bias, c.seed) for c in configs} == set(product(RATES, BIASES, SEEDS))
    assert len(configs) == len(RATES) * len(BIASES) * len(SEEDS)
    (rest,) = {dataclasses.replace(c, lr=1.0, gate_bias=0.0, seed=0) for c in configs}
    assert rest == Config(depth=50, lr=1.0, gate_bias=0.0), "the headline nets' settings"


def test_the_second_chooses_by_seeds_that_then_do_not_measure(as_many_as_mnist):
    tried = init_configs(as_many_as_mnist, smoke=False)
    arms = set(product(ACTIVATIONS, INITS, STARTS))
    assert {(c.activation, c.init, (c.block, c.gate_bias, c.depth)) for c in tried} == arms
    assert len(tried) == len(arms) * len(START_RATES) * len(CHOOSING_SEEDS)
    assert {(c.seed, c.n_train, c.n_validation) for c in tried} == {(seed, 5_000, 1_000) for seed in CHOOSING_SEEDS}
    rates = {(activation, init, *start): 0.1 + i for i, (activation, init, start) in enumerate(arms)}
    measured = init_configs(as_many_as_mnist, smoke=False, rates=rates)
    assert len(measured) == len(arms) * len(SEEDS)
    assert {(c.seed, c.n_train, c.n_validation) for c in measured} == {(seed, 6_000, 0) for seed in SEEDS}
    assert all(c.lr == rates[c.activation, c.init, c.block, c.gate_bias, c.depth] for c in measured)
    assert not set(SEEDS) & set(CHOOSING_SEEDS)


def made_up(score: float | None, **fields) -> TrainedRun:
    """A run that ends with that score; one of none diverged."""
    config = Config(**{"depth": 50} | fields)
    history = History(*([0.5, score] for _ in range(7)), validation_loss=[], validation_score=[])
    return TrainedRun(None, config, score is None, history)


def made_up_log(scores: dict[tuple[str, float, int], float], poor: int) -> BiasAndRateLog:
    """A log of every pair; in the first `poor` of them one seed of b_T -2 stays at chance."""
    runs = [
        made_up(
            0.1 if (block, bias, seed) == ("highway", -2.0, 1) and pair < poor else score,
            block=block,
            gate_bias=bias,
            depth=depth,
            activation=activation,
            init=init,
            seed=seed,
        )
        for pair, (activation, init) in enumerate(product(ACTIVATIONS, INITS))
        for (block, bias, depth), score in scores.items()
        for seed in (0, 1)
    ]
    info = DatasetInfo("mnist", 6000, 2000)
    return BiasAndRateLog.new("made up", info, by_rate=[made_up(0.5)], tried=[], by_init=runs)


HIGHER, LOWER = ("highway", -2.0, 50), ("highway", -4.0, 50)
SCORES = {("highway", 0.0, 50): 0.3, HIGHER: 0.9, LOWER: 0.9, ("plain", -2.0, 50): 0.1, ("plain", -2.0, 0): 0.92}


@pytest.mark.parametrize(
    ("scores", "poor", "verdict"),
    [
        (SCORES, 0, "held from -2"),
        (SCORES, 1, "held from -4"),
        (SCORES | {LOWER: 0.4}, 1, "not for all"),
    ],
)
def test_a_bias_suffices_if_from_one_that_is_negative_every_seed_of_every_pair_learns(scores, poor, verdict):
    (claim,) = claims(made_up_log(scores, poor))
    assert claim.verdict == verdict
    assert f"plain: 0 (0); no blocks: 12 (24); b_T 0: 0 (0); b_T −2: {12 - poor} ({24 - poor}); " in claim.here


def test_the_tables_have_a_cell_for_each_bias_and_rate_and_for_each_pair_and_start():
    log = made_up_log(SCORES, 0)
    by_rate = [
        made_up(0.5 + lr * 10 - bias / 10 + seed / 50, lr=lr, gate_bias=bias, seed=seed)
        for lr, bias, seed in product((0.001, 0.002), (-1.0, -2.0), (0, 1))
    ]
    table = rate_table(dataclasses.replace(log, by_rate=by_rate))
    assert "| -1 | 0.620 ± 0.014 | 0.630 ± 0.014 |\n| -2 | 0.720 ± 0.014 | 0.730 ± 0.014 |" in table
    assert "Points, seed by seed" not in table
    scores = {(-2.0, 5e-3): (0.5, None), (-2.0, 1e-3): (0.6, 0.4), (-6.0, 5e-3): (0.9, 0.5), (-6.0, 1e-3): (0.9, 0.9)}
    asked = [
        made_up(score, lr=lr, gate_bias=bias, seed=seed)
        for (bias, lr), of in scores.items()
        for seed, score in enumerate(of)
    ]
    table = rate_table(dataclasses.replace(log, by_rate=asked))
    assert "b_T -2, lr 0.001 over -2, 0.005 +20.00 ± 127.06; b_T -6, lr 0.005 over -2, 0.005 +40.00 ± 0.00; " in table
    assert "b_T -6, lr 0.001 over -2, 0.001 +40.00 ± 127.06; b_T -6, lr 0.001 over -6, 0.005 +20.00" in table
    row = "| tanh | he | 0.300 ± 0.000 (lr 0.005) | 0.900 ± 0.000 (lr 0.005) | 0.900 ± 0.000 (lr 0.005) | 0.100 ±"
    assert row in init_table(log)
    assert np.count_nonzero([line.startswith("| ") for line in init_table(log).splitlines()]) == 2 + len(
        ACTIVATIONS
    ) * len(INITS)
