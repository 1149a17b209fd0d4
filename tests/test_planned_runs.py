"""The runs that experiments plan: those of the committed logs; and the choice of a rate for each arm."""

from types import ModuleType, SimpleNamespace

import made_up
import pytest
from picture_helpers import committed_log

from experiments.beyond import blocks_compared
from experiments.common import group_by
from experiments.rates import TriedRate, best_rates, edge_note, tried_rates
from highway_networks import Config

CHOICES = [  # an experiment whose arms choose a rate first, the field of its log, and the function that plans it
    (blocks_compared, "runs", blocks_compared.plan),
]


def name(value: object) -> str:
    """Return the name of an experiment, to tell the cases apart."""
    return value.EXPERIMENT.name if isinstance(value, ModuleType) else ""


def as_runs(tasks: list) -> list[SimpleNamespace]:
    """Return planned runs with a `task` and a `config`, as logs hold them."""
    return [SimpleNamespace(task=task, config=getattr(task, "config", task)) for task in tasks]


@pytest.mark.parametrize(("experiment", "field", "plan"), CHOICES, ids=name)
def test_the_committed_logs_are_of_what_is_run(as_many_as_mnist, experiment, field, plan):
    log = experiment.EXPERIMENT.read(committed_log(experiment.EXPERIMENT.log_path()))
    tried = [(run.arm, run.lr, run.seed) for run in log.tried]
    choosing = as_runs(plan(as_many_as_mnist, smoke=False))
    assert tried == [(experiment.arm(run), run.config.lr, run.config.seed) for run in choosing]
    planned = as_runs(plan(as_many_as_mnist, smoke=False, rates=best_rates(log.tried)))
    assert [run.config for run in getattr(log, field)] == [run.config for run in planned]


@pytest.mark.parametrize(("experiment", "field", "plan"), CHOICES, ids=name)
@pytest.mark.parametrize("smoke", [False, True])
def test_no_run_is_planned_twice_and_budgets_fit_the_data(digits, experiment, field, plan, smoke):
    tasks = plan(digits, smoke)
    assert len(tasks) == len(set(tasks))
    for run in as_runs(tasks):
        assert run.config.n_train + run.config.n_validation <= len(digits.train_x)
        assert run.config.n_test <= len(digits.test_x)


@pytest.mark.parametrize(("experiment", "field", "plan"), CHOICES, ids=name)
def test_rates_are_chosen_by_seeds_and_images_that_do_not_measure(as_many_as_mnist, experiment, field, plan):
    choosing = as_runs(plan(as_many_as_mnist, smoke=False))
    tries = group_by(choosing, experiment.arm)
    assert len({frozenset((run.config.lr, run.config.seed) for run in runs) for runs in tries.values()}) == 1
    chosen = {arm: 0.1 + i for i, arm in enumerate(tries)}
    measuring = as_runs(plan(as_many_as_mnist, smoke=False, rates=chosen))
    measured = group_by(measuring, experiment.arm)
    assert {arm: {run.config.lr for run in runs} for arm, runs in measured.items()} == {a: {chosen[a]} for a in tries}
    assert not {run.config.seed for run in choosing} & {run.config.seed for run in measuring}
    assert {(run.config.n_test, run.config.n_validation > 0) for run in choosing} == {(1, True)}
    assert {run.config.n_validation for run in measuring} == {0}


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
