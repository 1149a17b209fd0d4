"""The grids of rate, bias, activation and initialisation: what is equal in them, and the verdict on them."""

from dataclasses import replace
from itertools import product

import made_up
import pytest

from experiments.bias_and_rate import INITS, BiasAndRateLog
from experiments.bias_and_rate_figures import claims
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
    ("log", "verdict", "where"),
    [
        (log_of(SCORES), Verdict.REPRODUCED, "It holds from b_T = −2 and −4."),
        (log_of(SCORES, poor=1), Verdict.REPRODUCED, "It holds from b_T = −4; it does not hold from b_T = −2."),
        (log_of(SCORES, poor=1, spread=-0.01), Verdict.INCONCLUSIVE, "It does not hold from b_T = −2; from b_T = −4"),
        (  # learns like no blocks
            log_of(SCORES | {LOWER: 0.92}, poor=1),
            Verdict.NOT_REPRODUCED,
            "It does not hold from b_T = −2 and −4.",
        ),
        (  # 0 is not negative
            log_of(SCORES | {("highway", 0.0, 50): 0.95, LOWER: 0.92}, poor=1),
            Verdict.NOT_REPRODUCED,
            "It does not hold from b_T = −2 and −4.",
        ),
    ],
)
def test_a_bias_suffices_if_every_run_learns_and_blocks_help_and_one_bias_is_enough(log, verdict, where):
    (claim,) = claims(log)
    assert claim.verdict == verdict
    assert claim.why.startswith(where)
    assert claim.measured.endswith("points over nets without blocks (mean of 12 pairs, n = 2)")


def test_the_biases_that_the_paper_names_stand_beside_the_verdict_at_their_best_rate():
    scores = {5e-3: (0.2, 0.3, 0.3), 1e-3: (0.1, 0.1, 0.9)}
    log = log_of(SCORES)
    log.by_rate = [
        made_up.trained_run(replace(FIFTY, gate_bias=-1.0, lr=lr, seed=seed), [score])
        for lr, of_rate in scores.items()
        for seed, score in enumerate(of_rate)
    ]
    (claim,) = claims(log)
    assert claim.why.endswith("these learn: 1 of 3 from −1.")
