"""The choice of a rate for each arm."""

import made_up
import pytest

from experiments.rates import TriedRate, best_rates, edge_note, tried_rates
from highway_networks import Config


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
