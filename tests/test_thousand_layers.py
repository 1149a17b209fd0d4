"""A thousand layers by SGD: what is run, which blocks take part, and what the verdicts say of made-up runs."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import refused_with

from experiments import thousand_layers as tl
from experiments import thousand_layers_figures
from experiments.claims import Verdict
from experiments.rates import TriedRate, best_rates
from experiments.thousand_layers_figures import claims, deepest, judge_training
from highway_lab.logs import DatasetInfo
from highway_lab.training import Training
from highway_networks import Config, as_inputs

ARMS = [tl.CONTROL, *((*block, depth) for block, depth in product(tl.BLOCKS, tl.DEPTHS))]
SHORT = Config(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)
LOG = Path("runs/thousand_layers-smoke.json")


def test_long_runs_without_the_log_of_rates_name_the_step_that_makes_it(workdir, refused):
    message = refused(tl.EXPERIMENT.main, ["run", "--smoke", "--long"])
    assert message.endswith("make it with python -m experiments thousand_layers run --smoke\n")


def test_a_fresh_run_forgets_once_though_it_trains_twice(digits, workdir):
    """First the nets that choose the rates, then those that are measured at them."""
    assert tl.EXPERIMENT.main(["run", "--smoke", "--fresh"]) == 0
    results, log = LOG.with_suffix(".jsonl").read_bytes(), tl.EXPERIMENT.read(LOG)
    choosing, measuring = tl.plan(digits, True), tl.plan(digits, True, best_rates(log.tried))
    assert [run.config for run in log.runs] == measuring
    assert results.count(b"\n") == len(choosing) + len(measuring)
    assert all((run.measured is None) == (run.config.block == "plain") for run in log.runs)
    assert log.guessing_loss == pytest.approx(math.log(10), abs=0.01)

    assert tl.EXPERIMENT.main(["run", "--smoke", "--long"]) == 0
    long = tl.EXPERIMENT.read(LOG.with_stem("thousand_layers-smoke-long"))
    assert {tl.arm(run): run.config.lr for run in long.runs}.items() <= best_rates(log.tried).items()
    assert {run.config.depth for run in long.runs} == {0, 6}
    for draw in thousand_layers_figures.FIGURES.values():
        draw(long)  # alone, a single panel

    runs = [replace(run, diverged=True, measured=None) if run.config.depth == 6 else run for run in log.runs]
    for draw in thousand_layers_figures.FIGURES.values():
        draw(replace(log, runs=runs))  # though the deepest nets have all diverged


def test_guessing_costs_the_entropy_of_the_classes():
    assert tl.entropy(np.repeat(np.arange(10), 7)) == pytest.approx(math.log(10))
    assert tl.entropy(np.array([3, 3, 3, 7])) == pytest.approx(math.log(4) - 0.75 * math.log(3))


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
    assert tl.count_needed([0, 1, 2, 3], scores) == needed


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
    means = tl.mean_T(net, data.train_x)
    gates = tl.measure_gates(training, [1e-13] * 4, means)
    assert (gates.taking_part, gates.needed, gates.kept) == (1, 1, [0, 1, 2, 4])
    all_closed = np.mean(net.without(range(4)).predict(x).argmax(axis=1) == labels)
    assert gates.scores == [all_closed, 1, 1, 1]
    assert all_closed < 0.5
    assert tl.measure_gates(training, means, means).taking_part == 0, "open from the start"
    params["b_T"][2] = math.log(0.009)
    assert tl.measure_gates(training, [1e-13] * 4, tl.mean_T(net, data.train_x)).taking_part == 0, "nearly closed"


def test_a_run_keeps_its_gates_before_and_after(digits):
    run, training = tl.run_config(SHORT, digits), Training(SHORT, digits)
    images = training.data.train_x
    assert run.measured.untrained == tl.mean_T(training.net, images)
    for _ in training.epochs():
        pass
    assert run.measured.trained == tl.mean_T(training.net, images) != run.measured.untrained
    assert run.history.test_score == training.history.test_score
    assert run.measured.kept[-1] == SHORT.depth
    assert run.measured.scores[-1] == pytest.approx(run.history.test_score[-1])


@pytest.mark.parametrize("other", [{"block": "plain"}, {"n_validation": 20}, {"block": "plain", "depth": 0}])
def test_a_run_that_tries_a_rate_or_has_no_gates_keeps_none(digits, other):
    assert tl.run_config(replace(SHORT, **other), digits).measured is None


STALLED = (0.11, 2.3011, 0.0)


def log_of(**made: tuple[float, float, float]) -> tl.ThousandLayersLog:
    """Return a log of test accuracy, training loss and accuracy lost with all blocks closed, by bias and depth (b4_10).

    The first two differ by 0.001 between seeds. Other highway nets do as well as the control and use their blocks;
    plain ones stall.
    """
    runs, tried = [], []
    for block, bias, depth in ARMS:
        usual = (0.95, 0.2, 0.0) if not depth else STALLED if block == "plain" else (0.95, 0.2, 0.02)
        score, loss, lost = made.get(f"b{-bias:g}_{depth}", usual)
        tried.append(TriedRate((block, bias, depth), Config.lr, tl.CHOOSING_SEED, loss))
        for seed, shift in zip(tl.SEEDS, (-0.001, 0, 0.001), strict=True):
            config = Config(block=block, gate_bias=bias, depth=depth, seed=seed, n_train=60_000, n_test=10_000)
            needed = 10 if lost else 0
            scores = [score + shift - lost * (1 + 500 * shift), score + shift]
            gates = tl.Gates([0.01], [0.02], 0, [0, depth], scores, needed) if block == "highway" else None
            runs.append(made_up.trained_run(config, [0.1, score + shift], [2.3, loss + shift], gates))
    constants = {"guessing_loss": 2.3011, "growth": 2.0, "active": 0.01, "tolerance": 0.001}
    return made_up.log(tl.ThousandLayersLog, DatasetInfo("mnist", 60_000, 10_000), **constants, tried=tried, runs=runs)


IDLE = (0.95, 0.2, 0.0)


@pytest.mark.parametrize(
    ("made", "verdict", "why"),
    [
        ({}, Verdict.REPRODUCED, "costs 1.0 to 3.0 points in nets from −4, "),
        (
            {"b4_1000": STALLED, "b20_1000": IDLE},
            Verdict.REPRODUCED,
            "It holds if b_T starts at −6 and −20; it does not hold if b_T starts at −4. These nets do not "
            "outperform nets of no blocks. Closing all 1,000 blocks costs 1.0 to 3.0 points in nets from −6 and "
            "nothing in nets from −20.",
        ),
        (
            dict.fromkeys(("b4_1000", "b6_1000", "b20_1000"), STALLED),
            Verdict.NOT_REPRODUCED,
            "It does not hold if b_T starts at −4, −6 and −20. No highway net of 1,000 blocks trains.",
        ),
        (
            dict.fromkeys(("b4_1000", "b6_1000", "b20_1000"), (0.94, 0.2, 0.0)),
            Verdict.REPRODUCED,
            "These nets do not outperform nets of no blocks. Closing all 1,000 blocks costs nothing in nets from −4, "
            "nothing in nets from −6 and nothing in nets from −20.",
        ),
    ],
)
def test_training_from_any_bias_is_no_stall_and_what_the_blocks_do_stands_beside(made, verdict, why):
    claim, *_ = claims(log_of(**made))
    assert claim.verdict == verdict
    assert why in claim.why


def test_training_is_judged_by_the_interval_of_the_loss():
    log = log_of(b4_1000=(0.5, 1.4, 0.1))  # 0.2 orders of magnitude below guessing: little, but sure
    runs = deepest(log)[-4.0]
    assert judge_training(log, runs) == Verdict.REPRODUCED
    runs[0].history.train_loss[-1] = 0.1
    assert judge_training(log, runs) == Verdict.INCONCLUSIVE
    stalled = [replace(run, diverged=True) for run in runs]
    assert judge_training(log, stalled) == Verdict.NOT_REPRODUCED


def test_nets_of_one_seed_are_not_said_to_stall():
    log = log_of(b4_1000=STALLED)
    assert "it does not hold if b_T starts at −4." in claims(log)[0].why
    log.runs = [run for run in log.runs if run.config.seed == 0]
    assert claims(log)[0].verdict == Verdict.INCONCLUSIVE
    assert claims(log)[0].why.startswith("If b_T starts at −4, −6 and −20 the evidence does not decide.")


def residual_log(score: float, shallower: float = 0.95) -> tl.ThousandLayersLog:
    """Return a log of residual nets that reach this accuracy at 1,000 blocks; scaled ones validate best."""
    log = log_of()
    runs, tried = [run for run in log.runs if tl.arm(run) == tl.CONTROL], []
    for (block, bias), loss in zip(tl.RESIDUAL, (0.3, 0.1), strict=True):
        for depth in tl.DEPTHS:
            tried.append(TriedRate((block, bias, depth), Config.lr, tl.CHOOSING_SEED, loss))
            reached = (score if depth == 1000 else shallower) if block == tl.SCALED else 0.5
            configs = [
                replace(log.runs[0].config, block=block, gate_bias=bias, depth=depth, seed=seed) for seed in tl.SEEDS
            ]
            runs += [made_up.trained_run(config, [0.1, reached], [2.3, 0.1], None) for config in configs]
    return replace(log, runs=runs, tried=tried)


@pytest.mark.parametrize(
    ("score", "verdict"), [(0.96, Verdict.REPRODUCED), (0.95, Verdict.NOT_REPRODUCED), (0.94, Verdict.NOT_REPRODUCED)]
)
def test_the_best_residual_nets_are_compared_with_the_best_highway_nets_that_are_no_copies(score, verdict):
    *_, claim = claims(log_of(b20_1000=(0.97, 0.01, 0.0)), residual_log(score))
    assert claim.verdict == verdict
    assert claim.why.startswith(
        f"After 12 epochs, scaled residual nets reach {100 * score:.1f} %, highway nets from −6 95"
    )
    assert claims(log_of(), residual_log(score))[:2] == claims(log_of())[:2], "the control counts once"


@pytest.mark.parametrize(
    ("highway", "residual", "verdict"),
    [
        (0.93, 0.95, Verdict.REPRODUCED),
        (0.93, 0.93, Verdict.NOT_REPRODUCED),  # residual nets lose as much
        (0.95, 0.95, Verdict.NOT_REPRODUCED),
        (0.11, 0.11, Verdict.NOT_REPRODUCED),
    ],
)
def test_highway_nets_struggle_where_residual_ones_do_not(highway, residual, verdict):
    log = log_of(**dict.fromkeys(("b4_1000", "b6_1000"), (highway, 0.2, 0.0)))
    assert claims(log, residual_log(residual))[2].verdict == verdict


def test_residual_nets_of_one_seed_decide_nothing():
    log, residual = log_of(b4_1000=(0.93, 0.2, 0.0), b6_1000=(0.93, 0.2, 0.0)), residual_log(0.95)
    alone = replace(residual, runs=[run for run in residual.runs if run.config.seed == tl.SEEDS[0]])
    assert claims(log, alone)[2].verdict == Verdict.INCONCLUSIVE


def test_verdicts_that_a_log_does_not_allow_are_one_error():
    log = log_of()
    without = replace(log, runs=[run for run in log.runs if run.config.gate_bias != -20])
    with refused_with("the logs of thousand_layers", "the verdicts", "KeyError"):
        list(tl.EXPERIMENT.judge([without]))


def test_a_log_without_the_nets_that_learn_longer_is_refused(digits, workdir, refused):
    log = tl.EXPERIMENT
    assert log.main(["run", "--smoke", "--residual"]) == 0
    LOG.with_stem(f"{LOG.stem}-residual").rename(LOG)
    words = ["run", "--smoke", "--long"]
    assert "expected nets of highway from -6, highway from -20, found none" in refused(log.main, words)


def test_what_residual_blocks_do_is_what_they_add_to_no_branches(digits):
    config = replace(SHORT, block=tl.SCALED, gate_bias=Config.gate_bias)
    run, training = tl.run_config(config, digits), Training(config, digits)
    for _ in training.epochs():
        pass
    params, data = training.net.params, training.data
    x = np.tanh(params["W_in"] @ training.net.preprocess(data.test_x).T + params["b_in"][:, None])
    labels = (params["W_out"] @ x + params["b_out"][:, None]).argmax(axis=0)
    assert run.measured.kept == [0, 4]
    assert run.measured.scores == [pytest.approx(np.mean(labels == data.test_y)), run.history.test_score[-1]]


@pytest.mark.parametrize(
    ("score", "lost", "verdict"),
    [
        (0.95, 0.02, Verdict.REPRODUCED),
        (0.95, 0.0, Verdict.PARTLY),
        (0.946, 0.02, Verdict.PARTLY),
        (0.96, 0.02, Verdict.REPRODUCED),  # more than stated is no less
        (0.96, 0.0, Verdict.PARTLY),
        (0.94, 0.0, Verdict.NOT_REPRODUCED),
        (0.946, 0.0, Verdict.INCONCLUSIVE),
    ],
)
def test_the_blogs_net_reaches_95_percent_by_about_15_blocks(score, lost, verdict):
    _, claim, *_ = claims(log_of(b20_1000=(score, 0.2, lost)))
    assert claim.verdict == verdict
    assert "; no blocks: 95.00 ± 0.25 %; n = 3; " in claim.measured


def test_the_longest_runs_of_a_bias_judge_whether_it_stalls():
    idle = dict.fromkeys(("b4_1000", "b6_1000", "b20_1000"), IDLE)
    short, long = log_of(**idle), log_of(b20_1000=IDLE)
    kept = {(block, bias, 1000) for block, bias in tl.LONG_BLOCKS} | {tl.CONTROL}
    long.runs = [replace(run, task=replace(run.config, epochs=30)) for run in long.runs if tl.arm(run) in kept]
    stall, blog, struggle, better, _ = claims(short, long)
    costs = "−4 after 12 epochs, 1.0 to 3.0 points in nets from −6 after 30 epochs and nothing in nets from −20 after"
    assert stall.why.endswith(f"Closing all 1,000 blocks costs nothing in nets from {costs} 30 epochs.")
    assert "−4: 0.200 ± 0.002 after 12 epochs; −6: 0.200 ± 0.002 after 30 epochs; " in stall.measured
    assert "% after 30 epochs; no blocks" in blog.measured
    assert struggle == claims(short)[2]
    assert "after 30 epochs, n = 3: +0.00 ± 0.23 at b_T −6, +0.00 ± 0.23 at b_T −20" in better.measured


def test_deeper_nets_struggle_if_they_surely_lose_accuracy():
    claim = claims(log_of(b4_1000=(0.93, 0.3, 0.1), b6_1000=(0.948, 0.2, 0.1), b20_1000=(0.8, 0.2, 0.0)))[2]
    assert claim.verdict == Verdict.PARTLY
    assert claim.measured.endswith("+2.00 ± 0.23 at b_T −4, +0.20 ± 0.23 at b_T −6")
    assert claim.why.startswith("After 12 epochs it holds from b_T −4; it does not hold from b_T −6.")
    assert claims(log_of())[2].verdict == Verdict.NOT_REPRODUCED


@pytest.mark.parametrize(("score", "verdict"), [(0.97, Verdict.PARTLY), (0.95, Verdict.NOT_REPRODUCED)])
def test_depth_helps_where_nets_surely_outperform_those_of_no_blocks(score, verdict):
    stall, _, _, better, _ = claims(log_of(b6_1000=(score, 0.2, 0.0)))
    assert better.verdict == verdict
    assert ("These nets do not outperform" in stall.why) == (verdict == Verdict.NOT_REPRODUCED)


@pytest.mark.parametrize(("mean_T", "share", "verdict"), [(0.99, "0.01", "reproduced"), (0.5, "0.5", "not reproduced")])
def test_copies_compound_if_hardly_anything_of_an_input_arrives_from_any_bias(mean_T, share, verdict):
    log = log_of()
    for run in deepest(log)[-6.0]:
        run.measured.untrained = [mean_T, 0.01]
    claim = claims(log)[-1]
    assert claim.verdict == verdict
    assert claim.why.endswith(f"is 1 in nets from −4, {share} in nets from −6 and 1 in nets from −20.")
