"""A thousand layers and extreme gate biases: what is measured, and that the arithmetic bears it."""

import math
from dataclasses import replace

import made_up
import numpy as np
import pytest

from experiments.beyond.very_deep import BIAS_DEPTHS, BIASES, Gates, VeryDeepLog, run_config
from experiments.beyond.very_deep_figures import bias_figure, claims, lowest_failing
from experiments.claims import Verdict
from experiments.common import final_values, group
from highway_lab.logs import DatasetInfo
from highway_networks import Config, DeepNet, as_inputs, softmax_cross_entropy


def test_a_run_keeps_the_gates_of_its_last_epoch(digits):
    config = Config(depth=2, hidden=8, epochs=2, n_train=100, n_test=50, gate_bias=-1.0)
    run, longer = (run_config(replace(config, epochs=epochs), digits) for epochs in (2, 3))
    assert run.config == config
    assert run.history.epoch == [0, 1, 2]
    assert len(run.measured.mean_T) == 2
    assert longer.history.train_loss[:3] == run.history.train_loss
    assert longer.measured != run.measured
    assert run_config(replace(config, block="plain"), digits).measured is None


def test_runs_are_grouped_by_what_they_share_and_the_diverged_score_none():
    settings = ((3, 0, 0.8), (2, 0, 0.7), (3, 1, None))
    runs = [made_up.trained_run(Config(depth=depth, seed=seed), [score]) for depth, seed, score in settings]
    grouped = group(runs, "block", "depth")
    assert list(grouped.items()) == [(("highway", 2), [runs[1]]), (("highway", 3), [runs[0], runs[2]])]
    np.testing.assert_array_equal(final_values(grouped["highway", 3], "test_score"), [0.8, math.nan])


def log_of(low: float, high: float, spread: float = 0.01, middle: float = 0.9) -> VeryDeepLog:
    """Return a log of these test accuracies of the lowest, the highest and another bias, which differ between seeds."""
    by_bias = [
        made_up.trained_run(Config(depth=depth, gate_bias=bias, seed=seed), [score + spread * seed])
        for depth in BIAS_DEPTHS
        for bias, score in ((-40.0, low), (-6.0, middle), (4.0, high))
        for seed in (0, 1, 2)
    ]
    return made_up.log(VeryDeepLog, DatasetInfo("mnist", 6000, 2000), by_depth=[], by_bias=by_bias)


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (log_of(0.1, 0.1), Verdict.REPRODUCED),
        (log_of(0.9, 0.1), Verdict.PARTLY),
        (log_of(0.9, 0.9), Verdict.NOT_REPRODUCED),
        (log_of(0.4, 0.4, spread=0.1), Verdict.INCONCLUSIVE),
    ],
)
def test_both_extreme_biases_must_fail(log, verdict):
    claim, _ = claims(log)
    assert claim.verdict == verdict
    assert "of 20 and 100 blocks, n = 3, chance 10: b_T 4 " in claim.measured


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.9, 0.1, Verdict.REPRODUCED),
        (0.1, 0.9, Verdict.NOT_REPRODUCED),
        (0.9, 0.9, Verdict.INCONCLUSIVE),  # as seeds differ by more than the margin
    ],
)
def test_in_doubt_the_lowest_bias_must_beat_the_highest(low, high, verdict):
    _, claim = claims(log_of(low, high, middle=0.95))
    assert claim.verdict == verdict
    costs = f"To start at −40 costs {95 - 100 * low:.1f} points with 20 blocks"
    assert costs in claim.why
    assert claim.why.endswith("compared with −6, the best on average.")


@pytest.mark.parametrize(
    ("low", "middle", "high", "failing"),
    [(0.9, 0.9, 0.1, 4.0), (0.9, 0.1, 0.1, -6.0), (0.1, 0.9, 0.1, 4.0), (0.1, 0.1, 0.9, None)],
)
def test_the_picture_names_the_bias_from_which_on_nets_fail(low, middle, high, failing):
    found = lowest_failing(log_of(low, high, middle=middle))
    assert found == ({} if failing is None else dict.fromkeys(BIAS_DEPTHS, failing))


def test_no_line_joins_biases_that_are_far_apart():
    log = log_of(0.9, 0.1)
    log.by_bias += [
        made_up.trained_run(replace(run.config, gate_bias=0.0), [0.5])
        for run in log.by_bias
        if run.config.gate_bias == 4
    ]
    for run in log.by_bias:
        run.measured = Gates([0.1] * run.config.depth)
    upper, lower = bias_figure(log).axes
    for axes in (upper, lower):
        for line in axes.get_lines():
            if len(line.get_xdata()) > 2:  # no level
                np.testing.assert_array_equal(line.get_xdata(), [0, np.nan, 1, np.nan, 2, 3])


def small_net(depth: int, bias: float, dtype: type = np.float32, block: str = "highway") -> DeepNet:
    """Return an untrained net for the digits."""
    return DeepNet(64, 10, depth=depth, block=block, gate_bias=bias, dtype=dtype, rng=np.random.default_rng(0))


@pytest.mark.parametrize("bias", BIASES)
def test_gradients_are_finite_at_every_bias(digits, bias):
    net = small_net(100, bias)
    logits, cache = net.forward(as_inputs(digits.train_x[:50]))
    loss, dlogits = softmax_cross_entropy(logits, digits.train_y[:50])
    grads = net.backward(dlogits, cache)
    assert math.isfinite(loss)
    assert np.isfinite(grads.flat).all()
    assert np.abs(grads["b_out"]).max() > 1e-3


@pytest.mark.parametrize("bias", [-6.0, -20.0])
def test_a_thousand_highway_layers_pass_the_gradient_plain_ones_lose_it(digits, bias):
    x, y = as_inputs(digits.train_x[:20]), digits.train_y[:20]
    norms = {}
    for block in ("highway", "plain"):
        net = small_net(1000, bias, block=block)
        logits, cache = net.forward(x)
        last, *_, first = map(np.linalg.norm, net.backward_blocks(softmax_cross_entropy(logits, y)[1], cache))
        norms[block] = first / last
    assert 0.05 < norms["highway"] < 20
    assert norms["plain"] < 1e-20
