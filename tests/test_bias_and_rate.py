"""The grids of rate, bias, activation and initialisation: what is equal in them, and the verdict on them."""

from dataclasses import replace
from itertools import product

import made_up
import pytest

from experiments.bias_and_rate import (
    BiasAndRateLog,
)
from experiments.bias_and_rate_figures import claims, init_table, rate_table
from highway_lab.logs import DatasetInfo
from highway_networks import ACTIVATIONS, INITS, Config

PAIRS = list(product(ACTIVATIONS, INITS))
FIFTY = Config(depth=50)
HIGHER, LOWER = ("highway", -2.0, 50), ("highway", -4.0, 50)
SCORES = {("highway", 0.0, 50): 0.3, HIGHER: 0.9, LOWER: 0.9, ("plain", -2.0, 50): 0.1, ("plain", -2.0, 0): 0.92}


def log_of(scores: dict[tuple[str, float, int], float], poor: int = 0) -> BiasAndRateLog:
    """Return a log of every pair; in the first `poor` of them one seed of b_T -2 stays at chance."""
    runs = []
    for (pair, (activation, init)), start, seed in product(enumerate(PAIRS), scores, (0, 1)):
        block, bias, depth = start
        config = Config(block=block, gate_bias=bias, depth=depth, activation=activation, init=init, seed=seed)
        stays = (start, seed) == (HIGHER, 1) and pair < poor
        runs.append(made_up.trained_run(config, [0.1 if stays else scores[start]]))
    info, by_rate = DatasetInfo("mnist", 6000, 2000), [made_up.trained_run(FIFTY, [0.5])]
    return made_up.log(BiasAndRateLog, info, by_rate=by_rate, tried=[], by_init=runs)


@pytest.mark.parametrize(
    ("scores", "poor", "verdict"),
    [(SCORES, 0, "held from -2"), (SCORES, 1, "held from -4"), (SCORES | {LOWER: 0.4}, 1, "not for all")],
)
def test_a_bias_suffices_if_every_seed_of_every_pair_learns(scores, poor, verdict):
    (claim,) = claims(log_of(scores, poor))
    assert claim.verdict == verdict
    assert f"plain: 0 (0); no blocks: 12 (24); b_T 0: 0 (0); b_T −2: {12 - poor} ({24 - poor}); " in claim.here


def test_a_bias_of_zero_is_not_a_negative_one():
    (claim,) = claims(log_of(SCORES | {("highway", 0.0, 50): 0.9}))
    assert claim.verdict == "held from -2"


def rates_of(scores: dict[tuple[float, float], tuple[float | None, ...]]) -> str:
    """Return the table of these scores, one a seed, by bias and rate."""
    runs = [
        made_up.trained_run(replace(FIFTY, gate_bias=bias, lr=lr, seed=seed), [score])
        for (bias, lr), of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    return rate_table(replace(log_of(SCORES), by_rate=runs))


def test_the_table_of_rates_has_a_cell_for_each_bias_and_rate():
    table = rates_of({(b, lr): (0.5 + lr, 0.52 + lr - b) for b, lr in product((-0.1, -0.2), (0.01, 0.02))})
    assert "| -0.1 | 0.570 ± 0.085 | 0.580 ± 0.085 |\n| -0.2 | 0.620 ± 0.156 | 0.630 ± 0.156 |" in table
    assert "Points, seed by seed" not in table


def test_a_lower_rate_and_a_lower_bias_are_compared_seed_by_seed():
    table = rates_of({(-2, 5e-3): (0.5, None), (-2, 1e-3): (0.6, 0.4), (-6, 5e-3): (0.9, 0.5), (-6, 1e-3): (0.9, 0.9)})
    assert "b_T -2, lr 0.001 over -2, 0.005 +20.00 ± 127.06; b_T -6, lr 0.005 over -2, 0.005 +40.00 ± 0.00; " in table
    assert "b_T -6, lr 0.001 over -2, 0.001 +40.00 ± 127.06; b_T -6, lr 0.001 over -6, 0.005 +20.00" in table


def test_the_table_of_pairs_has_a_row_for_each_and_a_column_a_start():
    table = init_table(log_of(SCORES))
    row = "| tanh | he | 0.300 ± 0.000 (lr 0.005) | 0.900 ± 0.000 (lr 0.005) | 0.900 ± 0.000 (lr 0.005) | 0.100 ±"
    assert row in table
    assert sum(line.startswith("| ") for line in table.splitlines()) == 2 + len(PAIRS)
