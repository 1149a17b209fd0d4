"""A thousand layers by SGD: what is run, which blocks take part, and what the verdicts say of made-up runs."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import made_up
import numpy as np
import pytest

from experiments import thousand_layers_figures
from experiments.rates import TriedRate, best_rates
from experiments.thousand_layers import (
    BLOCKS,
    CHOOSING_SEED,
    CONTROL,
    DEPTHS,
    EXPERIMENT,
    SEEDS,
    DeepRun,
    ThousandLayersLog,
    count_needed,
    entropy,
    mean_T,
    measure_gates,
    plan,
    run_config,
)
from experiments.thousand_layers_figures import arms_table, claims
from highway_lab.datasets import as_inputs
from highway_lab.logs import DatasetInfo
from highway_lab.training import Training
from highway_networks import Config

ARMS = [CONTROL, *((*block, depth) for block, depth in product(BLOCKS, DEPTHS))]
SHORT = Config(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)
LOG = Path("runs/thousand_layers-smoke.json")

# ---------------------------------------------------------------------------------------- what is run


def test_a_fresh_run_forgets_once_though_it_trains_twice(digits, workdir):
    """First the nets that choose the rates, then those that are measured at them."""
    assert EXPERIMENT.main(["run", "--smoke", "--fresh"]) == 0
    results, log = LOG.with_suffix(".jsonl").read_bytes(), EXPERIMENT.read(LOG)
    choosing, measuring = plan(digits, True), plan(digits, True, best_rates(log.tried))
    assert [run.config for run in log.runs] == measuring
    assert results.count(b"\n") == len(choosing) + len(measuring)
    assert all((run.gates is None) == (run.config.block == "plain") for run in log.runs)
    assert log.guessing_loss == pytest.approx(math.log(10), abs=0.01)

    runs = [replace(run, diverged=True, gates=None) if run.config.depth == 6 else run for run in log.runs]
    for draw in thousand_layers_figures.FIGURES.values():
        draw(replace(log, runs=runs))  # though the deepest nets have all diverged


# ------------------------------------------------------------------------------------ what is measured


def test_guessing_costs_the_entropy_of_the_classes():
    assert entropy(np.repeat(np.arange(10), 7)) == pytest.approx(math.log(10))
    assert entropy(np.array([3, 3, 3, 7])) == pytest.approx(math.log(4) - 0.75 * math.log(3))


@pytest.mark.parametrize(
    ("scores", "needed"),
    [
        ([0.9, 0.9, 0.9, 0.9], 0),
        ([0.9, 0.8, 0.9, 0.9], 2),  # one k that happens to do is not enough
        ([0.1, 0.8995, 0.95, 0.9], 1),  # more than all have is no lack
        ([0.1, 0.2, 0.3, 0.9], 3),
    ],
)
def test_as_many_blocks_are_needed_as_keep_the_score_from_there_on(scores, needed):
    assert count_needed([0, 1, 2, 3], scores) == needed


def test_only_an_open_block_takes_part_and_is_needed(digits):
    """Of four blocks the third alone is open, and writes what it is given, negated: without it, labels change."""
    training = Training(SHORT, digits)
    net, params, data = training.net, training.net.params, training.data
    params["W_T"][...] = params["W_H"][...] = 0
    params["b_T"][...] = -30
    params["b_T"][2] = 30
    params["W_H"][2] = -3 * np.eye(8)
    x = as_inputs(data.test_x)
    labels = net.predict(x).argmax(axis=1)  # so the net makes no error
    training.data = data._replace(test_y=labels)
    means = mean_T(net, data.train_x)
    gates = measure_gates(training, [1e-13] * 4, means)
    assert (gates.taking_part, gates.needed, gates.kept) == (1, 1, [0, 1, 2, 4])
    all_closed = np.mean(net.without(range(4)).predict(x).argmax(axis=1) == labels)
    assert gates.scores == [all_closed, 1, 1, 1]
    assert all_closed < 0.5
    assert measure_gates(training, means, means).taking_part == 0, "open from the start"
    params["b_T"][2] = math.log(0.009)
    assert measure_gates(training, [1e-13] * 4, mean_T(net, data.train_x)).taking_part == 0, "nearly closed"


def test_a_run_keeps_its_gates_before_and_after(digits):
    run, training = run_config(SHORT, digits), Training(SHORT, digits)
    images = training.data.train_x
    assert run.gates.untrained == mean_T(training.net, images)
    for _ in training.epochs():
        pass
    assert run.gates.trained == mean_T(training.net, images) != run.gates.untrained
    assert run.history.test_score == training.history.test_score
    assert run.gates.kept[-1] == SHORT.depth
    assert run.gates.scores[-1] == pytest.approx(run.history.test_score[-1])


@pytest.mark.parametrize("other", [{"block": "plain"}, {"n_validation": 20}, {"block": "plain", "depth": 0}])
def test_a_run_that_tries_a_rate_or_has_no_gates_keeps_none(digits, other):
    assert run_config(replace(SHORT, **other), digits).gates is None


# ---------------------------------------------------------------------------------------- the verdicts


def log_of(**scores: tuple[float, float]) -> ThousandLayersLog:
    """Return a log of these scores and losses, by bias and depth (b4_1000), which differ by 0.001 between seeds.

    Other highway nets do as well as the control; plain ones stall.
    """
    runs, tried = [], []
    for block, bias, depth in ARMS:
        usual = (0.1, 2.301) if depth and block == "plain" else (0.95, 0.2)
        score, loss = scores.get(f"b{-bias:g}_{depth}", usual)
        tried.append(TriedRate((block, bias, depth), Config.lr, CHOOSING_SEED, loss))
        for seed, shift in zip(SEEDS, (-0.001, 0, 0.001), strict=True):
            config = Config(block=block, gate_bias=bias, depth=depth, seed=seed, n_train=60_000, n_test=10_000)
            history = made_up.history(2.3, loss + shift, test_score=[0.1, score + shift])
            runs.append(DeepRun(None, config, False, history, None))
    constants = {"guessing_loss": 2.3011, "growth": 2.0, "active": 0.01, "tolerance": 0.001}
    return made_up.log(ThousandLayersLog, DatasetInfo("mnist", 60_000, 10_000), **constants, tried=tried, runs=runs)


STALLED = (0.11, 2.3011)


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        (
            {"b6_1000": (0.97, 0.1), "b4_1000": (0.94, 0.1)},
            "held from -4 (without blocks better), -6 (without blocks worse), -20 (without blocks as well)",
        ),
        ({"b4_1000": STALLED, "b20_1000": STALLED}, "held from -6 (without blocks as well)"),
        ({"b4_1000": STALLED, "b6_1000": STALLED, "b20_1000": STALLED}, "not"),
    ],
)
def test_to_train_is_one_thing_and_to_do_better_than_no_blocks_another(scores, verdict):
    claim, _, _ = claims(log_of(**scores))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (0.95, "held; without blocks as well"),
        (0.96, "held; without blocks worse"),
        (0.90, "not; without blocks better"),
        (0.946, "not told apart from 94.5 %; without blocks better"),
    ],
)
def test_the_blogs_accuracy_is_judged_beside_that_of_no_blocks(score, verdict):
    _, claim, _ = claims(log_of(b20_1000=(score, 0.2)))
    assert claim.verdict == verdict
    assert "no blocks 95.00 ± 0.25 %" in claim.here


def test_a_net_struggles_that_loses_over_a_point_or_does_not_train_at_all():
    *_, claim = claims(log_of(b4_1000=(0.93, 0.3), b6_1000=(0.939, 0.2), b20_1000=(0.941, 0.2)))
    assert claim.verdict == "b_T -4: yes; b_T -6: open; b_T -20: open"
    assert claim.here.startswith(
        "points of test accuracy, 1,000 blocks less 100: b_T -4: -2.00 ± 0.23; b_T -6: -1.10 ± 0.23"
    )
    *_, claim = claims(log_of(b4_1000=STALLED, b4_100=STALLED))
    assert claim.verdict == "b_T -4: yes; b_T -6: no; b_T -20: no"


def test_the_table_has_a_row_for_each_arm_beside_that_of_no_blocks():
    log = log_of(b6_1000=(0.97, 0.1))
    table = arms_table(log)
    rows = table.split("\n\n")[0].splitlines()[2:]
    assert len(rows) == len(ARMS)
    assert rows[0] == "| 0 | no blocks | 0.005 | 95.00 ± 0.10 |  | 0.200 ± 0.001 |  |  |"
    assert "| 1,000 | highway, b_T -6 | 0.005 | 97.00 ± 0.10 | +2.00 ± 0.23 | 0.100 ± 0.001 |  |  |" in rows
