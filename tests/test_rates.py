"""Experiments in which each arm trains at its own rate: which runs choose it, which measure with it, and the choice."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import made_up
import pytest

from experiments import bias_and_rate, thousand_layers
from experiments.beyond import blocks_compared
from experiments.rates import TriedRate, best_rates, edge_note, tried_rates
from highway_networks import ACTIVATIONS, INITS, Config, Dataset

PAIRS = product(ACTIVATIONS, INITS)
SHAPES = product(thousand_layers.BLOCKS, thousand_layers.DEPTHS)
ARMS = {
    bias_and_rate: {(*pair, *start) for pair, start in product(PAIRS, bias_and_rate.STARTS)},
    thousand_layers: {thousand_layers.CONTROL, *((*block, depth) for block, depth in SHAPES)},
    blocks_compared: {*product(blocks_compared.WIDTHS, blocks_compared.BLOCKS, blocks_compared.DEPTHS)},
}
PLANS = {
    bias_and_rate: (bias_and_rate.init_configs, bias_and_rate.START_RATES, bias_and_rate.CHOOSING_SEEDS),
    thousand_layers: (thousand_layers.plan, thousand_layers.RATES, (thousand_layers.CHOOSING_SEED,)),
    blocks_compared: (blocks_compared.plan, blocks_compared.RATES, blocks_compared.CHOOSING_SEEDS),
}
BUDGETS = {  # training, validation and test images of the runs that choose, and of those that measure
    bias_and_rate: ((5_000, 1_000, 1), (6_000, 0, 2_000)),
    thousand_layers: ((25_000, 5_000, 1), (60_000, 0, 10_000)),
    blocks_compared: ((5_000, 1_000, 1), (6_000, 0, 10_000)),
}
each_experiment = pytest.mark.parametrize("experiment", PLANS, ids=lambda module: module.EXPERIMENT.name)


def planned(experiment: Any, data: Dataset, rates: dict[tuple, float] | None = None) -> list[tuple[tuple, Config]]:
    """Return the arm and the config of each run that chooses a rate, or, given `rates`, that measures."""
    tasks = PLANS[experiment][0](data, smoke=False, rates=rates)
    runs = [SimpleNamespace(task=task, config=getattr(task, "config", task)) for task in tasks]
    return [(experiment.arm(run), run.config) for run in runs]


@each_experiment
def test_rates_are_chosen_by_seeds_that_then_do_not_measure(as_many_as_mnist, experiment):
    arms, (_, rates, seeds) = ARMS[experiment], PLANS[experiment]
    choosing = [(arm, config.lr, config.seed) for arm, config in planned(experiment, as_many_as_mnist)]
    assert sorted(choosing) == sorted(product(arms, rates, seeds))
    chosen = {arm: 0.1 + i for i, arm in enumerate(arms)}
    measuring = [(arm, config.lr, config.seed) for arm, config in planned(experiment, as_many_as_mnist, chosen)]
    assert sorted(measuring) == sorted((arm, chosen[arm], seed) for arm, seed in product(arms, experiment.SEEDS))
    assert not set(seeds) & set(experiment.SEEDS)


@each_experiment
def test_all_but_the_arm_is_equal_and_no_test_image_chooses(as_many_as_mnist, experiment):
    same = {name: getattr(Config, name) for name in ("block", "depth", "hidden", "gate_bias", "init", "activation")}
    for rates, budget in zip((None, dict.fromkeys(ARMS[experiment], 0.1)), BUDGETS[experiment], strict=True):
        configs = [config for _, config in planned(experiment, as_many_as_mnist, rates)]
        (rest,) = {replace(config, lr=0.1, seed=0, **same) for config in configs}
        assert (rest.n_train, rest.n_validation, rest.n_test) == budget


def test_the_chosen_rate_has_the_lowest_mean_validation_loss_of_its_arm():
    losses = {
        "plain": {0.001: (0.5, 0.7), 0.002: (0.1, None), 0.005: (0.4, 0.9)},  # None: diverged
        "highway": {0.001: (0.5, 0.7), 0.002: (0.1, 1.0)},
    }
    runs = []
    for block, by_rate in losses.items():
        for lr, of_seeds in by_rate.items():
            for seed, loss in enumerate(of_seeds):
                run = made_up.trained_run(Config(block=block, lr=lr, seed=seed), [loss])
                run.history.validation_loss = [loss]
                runs.append(run)
    tried = tried_rates(runs, lambda run: (run.config.block,))
    assert tried[3] == TriedRate(("plain",), 0.002, 1, None)
    assert best_rates(tried) == {("plain",): 0.001, ("highway",): 0.002}


@pytest.mark.parametrize(("steps", "near"), [(1, "at an end: none"), (2, "nearer than 2 steps to an end: a")])
def test_arms_that_choose_near_an_end_of_the_grid_are_named(steps, near):
    grid = (0.1, 0.2, 0.3, 0.4, 0.5)
    tried = [TriedRate(("a",), lr, 0, 1.0) for lr in grid]
    runs = [made_up.trained_run(Config(block=block, lr=lr), [0.5]) for block, lr in (("plain", 0.2), ("highway", 0.3))]
    note = edge_note(tried, runs, lambda run: (run.config.block,), {"plain": "a", "highway": "b"}.get, steps)
    assert note == f"Rates from 0.1 to 0.5; chosen {near}."
