"""A thousand layers and extreme gate biases: what is run, and that the arithmetic bears it."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from experiments.beyond import very_deep
from experiments.beyond.very_deep import (
    ARMS,
    BIAS_DEPTHS,
    BIASES,
    DEPTHS,
    SEEDS,
    bias_configs,
    depth_configs,
    run_config,
)
from experiments.common import final_values, group
from highway_lab.datasets import as_inputs
from highway_networks import Config, DeepNet, softmax_cross_entropy, train

# ---------------------------------------------------------------------------------------- what is run


def test_every_depth_is_run_with_every_net_and_seed_and_the_deepest_first(as_many_as_mnist):
    configs = depth_configs(as_many_as_mnist, smoke=False)
    found = {(c.depth, c.block, c.gate_bias, c.seed) for c in configs}
    assert found == {(depth, block, bias, seed) for depth in DEPTHS for block, bias in ARMS for seed in SEEDS}
    assert len(configs) == len(found) == 5 * 3 * 3
    assert [c.depth for c in configs] == sorted((c.depth for c in configs), reverse=True)
    assert {(c.lr, c.epochs, c.n_train, c.n_test) for c in configs} == {(1e-3, 10, 10_000, 2_000)}


def test_the_depths_reach_a_thousand_layers_and_the_biases_both_extremes():
    """The blog: 1,000 layers with b_T near -20; biases that are too high and too low."""
    assert DEPTHS == (50, 100, 200, 500, 1000)
    assert ("plain", Config.gate_bias) in ARMS
    assert ("highway", -20.0) in ARMS
    assert (max(BIASES), min(BIASES)) == (4, -40)
    assert BIAS_DEPTHS == (20, 100)


def test_every_bias_is_run_at_every_depth_with_every_seed(as_many_as_mnist):
    configs = bias_configs(as_many_as_mnist, smoke=False)
    found = {(c.depth, c.gate_bias, c.seed) for c in configs}
    assert found == {(depth, bias, seed) for depth in BIAS_DEPTHS for bias in BIASES for seed in SEEDS}
    assert len(configs) == len(found) == 2 * 11 * 3
    assert {(c.block, c.lr, c.epochs, c.n_train, c.n_test) for c in configs} == {("highway", 2e-3, 12, 6_000, 2_000)}


@pytest.mark.parametrize("smoke", [False, True])
def test_no_run_is_made_twice_and_budgets_fit_the_data(digits, smoke):
    configs = depth_configs(digits, smoke) + bias_configs(digits, smoke)
    assert len(configs) == len(set(configs))
    assert all(c.n_train <= 1437 and c.n_test <= 360 for c in configs)


# ------------------------------------------------------------------------------------ what is measured


def test_a_run_keeps_the_gates_of_its_last_epoch(digits):
    config = Config(depth=2, hidden=8, epochs=2, n_train=100, n_test=50, gate_bias=-1.0)
    run = run_config(config, digits)
    assert run.config == config
    assert run.history.epoch == [0, 1, 2]
    assert len(run.gate_means) == 2
    longer = run_config(dataclasses.replace(config, epochs=3), digits)
    assert longer.history.train_loss[:3] == run.history.train_loss
    assert longer.gate_means != run.gate_means
    assert run_config(dataclasses.replace(config, block="plain"), digits).gate_means is None


def test_runs_are_grouped_by_what_they_share_and_the_diverged_do_not_count(digits):
    base = Config(depth=2, hidden=4, epochs=1, n_train=50, n_test=20)
    run = run_config(base, digits)
    runs = [
        dataclasses.replace(run, config=dataclasses.replace(base, depth=depth, seed=seed), diverged=diverged)
        for depth, seed, diverged in ((3, 0, False), (2, 0, False), (3, 1, True))
    ]
    grouped = group(runs, "block", "depth")
    assert list(grouped) == [("highway", 2), ("highway", 3)]
    assert grouped["highway", 3] == [runs[0], runs[2]]
    first, second = final_values(grouped["highway", 3], "test_score")
    assert first == run.history.test_score[-1]
    assert math.isnan(second)


def test_a_second_run_trains_nothing(digits, workdir, monkeypatch):
    trained = []
    monkeypatch.setattr(very_deep, "train", lambda config, data: trained.append(config) or train(config, data))
    configs = depth_configs(digits, smoke=True), bias_configs(digits, smoke=True)
    for _ in range(2):
        assert very_deep.EXPERIMENT.main(["run", "--smoke"]) == 0
        log = very_deep.EXPERIMENT.read(Path("runs/very_deep-smoke.json"))
        assert [run.config for run in log.by_depth] == configs[0]
        assert [run.config for run in log.by_bias] == configs[1]
    assert trained == configs[0] + configs[1]


# ------------------------------------------------------------------------------------ the arithmetic


def small_net(depth: int, bias: float, dtype: type = np.float32) -> DeepNet:
    return DeepNet(64, 10, hidden=50, depth=depth, gate_bias=bias, dtype=dtype, rng=np.random.default_rng(0))


def test_gates_shut_by_a_bias_of_minus_40_are_open_by_4e_18_in_float32(digits):
    """σ(−40) = 4.2e-18, times what the weights add: neither 0 nor NaN, and no gate differs from float64's by 0.01 %."""
    x = as_inputs(digits.test_x[:100])
    _, single = small_net(20, -40.0).forward(x)
    _, double = small_net(20, -40.0, np.float64).forward(x.astype(np.float64))
    assert single.T.dtype == np.float32
    np.testing.assert_allclose(single.T, double.T, rtol=1e-4)
    assert np.median(single.T) == pytest.approx(1 / (1 + math.exp(40)), rel=0.2)
    assert single.T.min() > 1e-19
    assert single.T.max() < 1e-16
    means = small_net(20, -40.0).gate_means(x)
    assert all(1e-18 < mean < 1e-17 for mean in means)


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
def test_a_thousand_highway_layers_hand_the_gradient_down_and_a_thousand_plain_ones_lose_it(digits, bias):
    x, y = as_inputs(digits.train_x[:20]), digits.train_y[:20]
    norms = {}
    for block in ("highway", "plain"):
        net = DeepNet(64, 10, depth=1000, block=block, gate_bias=bias, rng=np.random.default_rng(0))
        logits, cache = net.forward(x)
        last, *_, first = map(np.linalg.norm, net.backward_blocks(softmax_cross_entropy(logits, y)[1], cache))
        norms[block] = first / last
    assert 0.05 < norms["highway"] < 20
    assert norms["plain"] < 1e-20
