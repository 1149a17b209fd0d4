"""A thousand layers by SGD: what is run, which blocks take part, and what the verdicts say of made-up runs."""

import dataclasses
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from picture_helpers import committed_log

from experiments import thousand_layers, thousand_layers_figures
from experiments.rates import TriedRate, best_rates
from experiments.thousand_layers import (
    BLOCKS,
    CHOOSING_SEED,
    CONTROL,
    DEPTHS,
    EXPERIMENT,
    RATES,
    SEEDS,
    DeepRun,
    ThousandLayersLog,
    count_needed,
    entropy,
    measure_gates,
    plan,
    run_config,
)
from experiments.thousand_layers_figures import arms_table, claims
from highway_lab.datasets import as_inputs
from highway_lab.logs import DatasetInfo, History, numbers
from highway_lab.training import Training
from highway_networks import Config

ARMS = [CONTROL, *((*block, depth) for block, depth in product(BLOCKS, DEPTHS))]
SHORT = Config(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)

# ---------------------------------------------------------------------------------------- what is run


def test_a_rate_is_chosen_for_each_arm_by_a_seed_that_then_does_not_measure(as_many_as_mnist):
    choosing = plan(as_many_as_mnist, smoke=False)
    found = [(c.block, c.gate_bias, c.depth, c.seed, c.lr) for c in choosing]
    assert set(found) == {(*of, CHOOSING_SEED, lr) for of in ARMS for lr in RATES}
    rates = {of: RATES[place % len(RATES)] for place, of in enumerate(ARMS)}
    measuring = plan(as_many_as_mnist, smoke=False, rates=rates)
    found += [(c.block, c.gate_bias, c.depth, c.seed, c.lr) for c in measuring]
    assert set(found[len(choosing) :]) == {(*of, seed, rates[of]) for of in ARMS for seed in SEEDS}
    assert len(found) == len(set(found)) == 13 * (6 + 3)
    assert CHOOSING_SEED not in SEEDS
    for configs in (choosing, measuring):
        assert [c.depth for c in configs] == sorted((c.depth for c in configs), reverse=True)


def test_the_committed_log_is_of_what_is_run(as_many_as_mnist):
    log = EXPERIMENT.read(committed_log(EXPERIMENT.log_path()))
    choosing = plan(as_many_as_mnist, smoke=False)
    assert [(*run.arm, run.lr, run.seed) for run in log.tried] == [
        (c.block, c.gate_bias, c.depth, c.lr, c.seed) for c in choosing
    ]
    assert [run.config for run in log.runs] == plan(as_many_as_mnist, smoke=False, rates=best_rates(log.tried))


def test_all_train_by_sgd_without_clipping_and_as_wide_and_test_images_choose_nothing(as_many_as_mnist):
    rates = dict.fromkeys(ARMS, 0.1)
    configs = plan(as_many_as_mnist, smoke=False) + plan(as_many_as_mnist, smoke=False, rates=rates)
    others = {dataclasses.replace(c, lr=0.1, seed=0, block="plain", depth=0, gate_bias=0.0) for c in configs}
    shared = {(c.optimizer, c.momentum, c.clip, c.schedule, c.init, c.batch_size, c.hidden, c.epochs) for c in others}
    assert shared == {("momentum", 0.9, 0.0, "cosine", "glorot", 128, 50, 3)}
    assert {(c.n_train, c.n_validation, c.n_test) for c in others} == {(25_000, 5_000, 1), (60_000, 0, 10_000)}
    assert len(others) == 2, "all else is equal among those that choose, and among the others"


def test_a_second_run_trains_nothing(digits, workdir, monkeypatch):
    made = []

    def count(config, data):
        made.append(config)
        return run_config(config, data)

    monkeypatch.setattr(thousand_layers, "run_config", count)
    for _ in range(2):
        assert EXPERIMENT.main(["run", "--smoke"]) == 0
        log = EXPERIMENT.read(Path("runs/thousand_layers-smoke.json"))
    choosing = plan(digits, smoke=True)
    measuring = plan(digits, smoke=True, rates=best_rates(log.tried))
    assert made == choosing + measuring
    assert [run.config for run in log.runs] == measuring
    assert all((run.gates is None) == (run.config.block == "plain") for run in log.runs)
    assert log.guessing_loss == pytest.approx(math.log(10), abs=0.01)


# ------------------------------------------------------------------------------------ what is measured


def test_guessing_costs_the_entropy_of_the_classes():
    assert entropy(np.repeat(np.arange(10), 7)) == pytest.approx(math.log(10))
    assert entropy(np.array([3, 3, 3, 7])) == pytest.approx(math.log(4) - 0.75 * math.log(3))


@pytest.mark.parametrize(
    ("scores", "needed"),
    [
        ([0.9, 0.9, 0.9, 0.9], 0),
        ([0.9, 0.8, 0.9, 0.9], 2),  # a k that happens to do is not enough
        ([0.1, 0.8995, 0.95, 0.9], 1),  # more than all is no lack
        ([0.1, 0.2, 0.3, 0.9], 3),
    ],
)
def test_as_many_blocks_are_needed_as_keep_the_score_from_there_on(scores, needed):
    assert count_needed([0, 1, 2, 3], scores) == needed


def test_only_an_open_block_takes_part_and_is_needed(digits):
    """Of four blocks the third alone is open, and writes what it is given, negated: without it, labels change."""
    training = Training(SHORT, digits)
    net, data = training.net, training.data
    params, shut, opened = net.params, -30.0, 30.0
    params["W_T"][...] = params["W_H"][...] = 0
    params["b_T"][...] = shut
    params["b_T"][2] = opened
    params["W_H"][2] = -3 * np.eye(8)
    labels = net.predict(as_inputs(data.test_x)).argmax(axis=1)  # the net is right of all by definition
    training.data = data._replace(test_y=labels)
    images = training.net.preprocess(data.train_x)
    gates = measure_gates(training, [1e-13] * 4, net.gate_means(images).tolist())
    assert (gates.taking_part, gates.needed) == (1, 1)
    assert gates.kept == [0, 1, 2, 4]
    assert gates.scores[1:] == [1, 1, 1]
    assert (
        gates.scores[0] == np.mean(net.without(range(4)).predict(as_inputs(data.test_x)).argmax(axis=1) == labels) < 0.5
    )
    before = net.gate_means(images)
    assert measure_gates(training, before, before).taking_part == 0, "open from the start"
    net.params["b_T"][2] = math.log(0.009)
    assert measure_gates(training, [1e-13] * 4, net.gate_means(images).tolist()).taking_part == 0, "nearly shut"


def test_a_run_keeps_its_gates_before_and_after_unless_it_chooses_or_has_none(digits):
    run = run_config(SHORT, digits)
    training = Training(SHORT, digits)
    images = training.net.preprocess(training.data.train_x)
    assert run.gates.untrained == numbers(training.net.gate_means(images), digits=4)
    for _ in training.epochs():
        pass
    assert run.gates.trained == numbers(training.net.gate_means(images), digits=4) != run.gates.untrained
    assert run.history.test_score == training.history.test_score
    assert run.gates.kept[-1] == SHORT.depth
    assert run.gates.scores[-1] == pytest.approx(run.history.test_score[-1])
    for other in ({"block": "plain"}, {"n_validation": 20}, {"block": "plain", "depth": 0}):
        assert run_config(dataclasses.replace(SHORT, **other), digits).gates is None


# ---------------------------------------------------------------------------------------- the verdicts


def made_up(key: tuple, score: float, loss: float, seed: int) -> DeepRun:
    """A run whose scores differ by 0.001 from seed to seed."""
    block, bias, depth = key
    config = Config(block=block, gate_bias=bias, depth=depth, seed=seed, epochs=1, n_train=60_000, n_test=10_000)
    shift = 0.001 * (seed - 1)
    history = History([0, 1], [2.3, loss + shift], *([0.1, score + shift] for _ in range(5)))
    return DeepRun(None, config, False, history, None)


def made_up_log(**scores: tuple[float, float]) -> ThousandLayersLog:
    """Scores and losses by bias and depth (b4_1000); other highway nets do as the control, plain ones stall."""
    runs, tried = [], []
    for key in ARMS:
        block, bias, depth = key
        usual = (0.1, 2.301) if depth and block == "plain" else (0.95, 0.2)
        score, loss = scores.get(f"b{-bias:g}_{depth}", usual)
        runs += [made_up(key, score, loss, seed) for seed in SEEDS]
        tried += [TriedRate(key, Config.lr, CHOOSING_SEED, loss)]
    info = DatasetInfo("mnist", 60_000, 10_000)
    constants = {"guessing_loss": 2.3011, "growth": 2.0, "active": 0.01, "tolerance": 0.001}
    return ThousandLayersLog.new("made up", info, **constants, tried=tried, runs=runs)


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
    claim, _, _ = claims(made_up_log(**scores))
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
    _, claim, _ = claims(made_up_log(b20_1000=(score, 0.2)))
    assert claim.verdict == verdict
    assert "no blocks 95.00 ± 0.25 %" in claim.here


def test_a_net_struggles_that_loses_over_a_point_or_does_not_train_at_all():
    *_, claim = claims(made_up_log(b4_1000=(0.93, 0.3), b6_1000=(0.939, 0.2)))
    assert claim.verdict == "b_T -4: yes; b_T -6: open; b_T -20: no"
    assert claim.here.startswith(
        "points of test accuracy, 1,000 blocks less 100: b_T -4: -2.00 ± 0.23; b_T -6: -1.10 ± 0.23"
    )
    *_, claim = claims(made_up_log(b4_1000=STALLED, b4_100=STALLED))
    assert claim.verdict == "b_T -4: yes; b_T -6: no; b_T -20: no"


def test_the_table_has_a_row_for_each_arm_beside_that_of_no_blocks():
    log = made_up_log(b6_1000=(0.97, 0.1))
    table = arms_table(log)
    rows = table.split("\n\n")[0].splitlines()[2:]
    assert len(rows) == len(ARMS)
    assert rows[0] == "| 0 | no blocks | 0.005 | 95.00 ± 0.10 |  | 0.200 ± 0.001 |  |  |"
    assert "| 1,000 | highway, b_T -6 | 0.005 | 97.00 ± 0.10 | +2.00 ± 0.23 | 0.100 ± 0.001 |  |  |" in rows


def test_beginning_anew_forgets_once_though_runs_are_made_twice(workdir):
    """The runs that choose the rates, and then those that are measured by them."""
    assert EXPERIMENT.main(["run", "--smoke", "--fresh"]) == 0
    made = Path("runs/thousand_layers-smoke.jsonl").read_bytes()
    log = EXPERIMENT.read(Path("runs/thousand_layers-smoke.json"))
    assert made.count(b"\n") == len(log.tried) + len(log.runs)
    assert EXPERIMENT.main(["run", "--smoke"]) == 0
    assert Path("runs/thousand_layers-smoke.jsonl").read_bytes() == made


def test_the_deepest_nets_may_all_have_diverged(workdir):
    assert EXPERIMENT.main(["run", "--smoke"]) == 0
    log = EXPERIMENT.read(Path("runs/thousand_layers-smoke.json"))
    runs = [dataclasses.replace(run, diverged=True, gates=None) if run.config.depth == 6 else run for run in log.runs]
    for draw in thousand_layers_figures.FIGURES.values():
        draw(dataclasses.replace(log, runs=runs))
