"""The grids of rate, bias, activation and initialisation: what is equal in them, and the verdict on them."""

from dataclasses import replace
from itertools import product

import made_up
import pytest

from experiments.bias_and_rate import INITS, BiasAndRateLog
from experiments.bias_and_rate_figures import claims, gains_table, init_table, rate_figure, starts_table
from experiments.claims import Verdict
from highway_lab.logs import DatasetInfo
from highway_networks import ACTIVATIONS, Config

PAIRS = list(product(ACTIVATIONS, INITS))
FIFTY = Config(depth=50)
HIGHER, LOWER, NO_BLOCKS = ("highway", -2.0, 50), ("highway", -4.0, 50), ("plain", -2.0, 0)
SCORES = {("highway", 0.0, 50): 0.3, HIGHER: 0.94, LOWER: 0.93, ("plain", -2.0, 50): 0.1, NO_BLOCKS: 0.92}


def log_of(scores: dict[tuple[str, float, int], float], poor: int = 0, spread: float = 0.0) -> BiasAndRateLog:
    """Return a log of every pair; one seed of b_T -2 stays at chance in the first `poor`, b_T -4 differs by seed."""
    runs = []
    for (pair, (activation, init)), start, seed in product(enumerate(PAIRS), scores, (0, 1)):
        block, bias, depth = start
        config = Config(block=block, gate_bias=bias, depth=depth, activation=activation, init=init, seed=seed)
        score = scores[start] + spread * seed * (start == LOWER)
        stays = (start, seed) == (HIGHER, 1) and pair < poor
        runs.append(made_up.trained_run(config, [0.1 if stays else score]))
    info, by_rate = DatasetInfo("mnist", 6000, 2000), [made_up.trained_run(FIFTY, [0.5])]
    return made_up.log(BiasAndRateLog, info, by_rate=by_rate, tried=[], by_init=runs)


@pytest.mark.parametrize(
    ("log", "verdict", "enough"),
    [
        (log_of(SCORES), Verdict.REPRODUCED, "−2 and −4"),
        (log_of(SCORES, poor=1), Verdict.PARTLY, "−4"),
        (log_of(SCORES, poor=1, spread=-0.01), Verdict.INCONCLUSIVE, "none"),
        (log_of(SCORES | {LOWER: 0.92}, poor=1), Verdict.NOT_REPRODUCED, "none"),  # learns like no blocks
        (log_of(SCORES | {("highway", 0.0, 50): 0.95}, poor=1), Verdict.PARTLY, "−4"),  # 0 is not negative
    ],
)
def test_a_bias_suffices_if_every_run_learns_and_blocks_help(log, verdict, enough):
    (claim,) = claims(log)
    assert claim.verdict == verdict
    assert claim.why.startswith(
        f"b_T that suffice: {enough}; points over nets without blocks, mean of 12 pairs, n = 2, "
    )


def test_starts_are_compared_with_nets_of_no_blocks():
    table = starts_table(log_of(SCORES, poor=1))
    assert "| plain | 0 of 24 | 0 of 12 | -82.00 ± 0.00 | 0 | 12 |" in table
    assert "| b_T −2 | 23 of 24 | 11 of 12 | -1.50 ± 44.47 | 11 | 0 |" in table
    assert "| no blocks | 24 of 24 | 12 of 12 |  |  |  |" in table


def by_rate(scores: dict[tuple[float, float], tuple[float | None, ...]]) -> BiasAndRateLog:
    """Return a log of these scores, one a seed, by bias and rate."""
    runs = [
        made_up.trained_run(replace(FIFTY, gate_bias=bias, lr=lr, seed=seed), [score])
        for (bias, lr), of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    return replace(log_of(SCORES), by_rate=runs)


def test_the_picture_of_rates_has_a_cell_for_each_bias_and_rate():
    log = by_rate({(b, lr): (0.5 + lr, 0.52 + lr - b) for b, lr in product((-0.1, -0.2), (0.01, 0.02))})
    cells = [text.get_text() for text in rate_figure(log).axes[0].texts]
    assert cells == ["57.0\n± 76.2", "58.0\n± 76.2", "62.0\n± 139.8", "63.0\n± 139.8"]
    assert "gained |\n| :-- | --: | --: | --: |\n\n" in gains_table(log), "rows of cells that the log lacks"


def test_a_lower_rate_and_a_lower_bias_are_compared_seed_by_seed():
    grid = {(-2, 5e-3): (0.5, None), (-2, 1e-3): (0.6, 0.4), (-6, 5e-3): (0.9, 0.5), (-6, 1e-3): (0.9, 0.9)}
    table = gains_table(by_rate(grid))
    assert "| lower rate | -2, 0.005 | -2, 0.001 | +20.00 ± 127.06 |\n| lower bias | -2, 0.005 | -6, 0.005 |" in table
    assert "| lower rate at the lower bias | -6, 0.005 | -6, 0.001 | +20.00 ± 254.12 |" in table


def test_the_table_of_pairs_has_a_row_for_each_and_a_column_a_start():
    table = init_table(log_of(SCORES))
    assert "| tanh | he | 10.0 ± 0.0 (0.005) | 30.0 ± 0.0 (0.005) | 94.0 ± 0.0 (0.005) | 93.0 ± 0.0 (0.005) |" in table
    assert sum(line.startswith("| ") for line in table.splitlines()) == 2 + len(PAIRS)
