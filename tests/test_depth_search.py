"""The random search over depth: its settings, its selection, its resumption, and the same results wherever it runs."""

import dataclasses
import json
import math
import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_says, files_below, limited_file_size, wait_until
from matplotlib.figure import Figure
from picture_helpers import committed_log

from experiments import depth_search
from experiments.depth_search import (
    BLOCKS,
    DEPTHS,
    EXPERIMENT,
    SPACE,
    BestRun,
    DepthSearchLog,
    Trial,
    TrialResult,
    best_of_arm,
    by_arm,
    draw_trials,
    halve,
    last_rung,
    run_best,
    run_trial,
)
from experiments.depth_search_figures import arms_table, claims, curves_panel, settings_table
from highway_lab import checkpoints, logs
from highway_lab.cli import InputError
from highway_lab.jobs import ResultFile
from highway_lab.logs import History
from highway_lab.training import LOSSES, Training, evaluate
from highway_networks import DeepNet, load_dataset

BUDGET = {"dataset": "digits", "n_train": 200, "epochs": 2}
TRIAL = Trial("highway", 3, 0, "tanh", 0.05, 0.9, 0.95, -2.0, **BUDGET)


def main(*arguments: str) -> int:
    return EXPERIMENT.main([*arguments])


LOG = "runs/depth_search-digits-configs6-depths3,5-epochs20"  # of SEARCH, below


def read_log(path: str = f"{LOG}.json") -> DepthSearchLog:
    return EXPERIMENT.read(Path(path))


# ------------------------------------------------------------------------------------------- settings


def test_a_setting_depends_on_nothing_but_its_arm_and_index():
    few, many = draw_trials(3, (20,), **BUDGET), draw_trials(7, (50, 20, 10), **BUDGET)
    assert set(few) < set(many)


def test_every_setting_is_another():
    drawn = [dataclasses.replace(t, block="", depth=0, index=0) for t in draw_trials(100, DEPTHS, **BUDGET)]
    assert len(set(drawn)) == 800


def test_an_unfinished_search_is_a_fair_smaller_one():
    trials = draw_trials(6, DEPTHS, **BUDGET)
    for n in range(1, 7):
        arms = Counter(trial.arm for trial in trials[: 8 * n])
        assert arms == {(block, depth): n for block in BLOCKS for depth in DEPTHS}
        assert {trial.index for trial in trials[: 8 * n]} == set(range(n))


N = 2_000
DRAWN = {
    "lr": (lambda trial: trial.lr, np.log),
    "1 - momentum": (lambda trial: 1 - trial.momentum, np.log),
    "last rate": (lambda trial: trial.decay ** (BUDGET["epochs"] - 1), np.log),
    "gate_bias": (lambda trial: trial.gate_bias, lambda bias: bias),
}


@pytest.fixture(scope="module")
def many() -> list[Trial]:
    return draw_trials(N, (50,), **BUDGET)


@pytest.mark.parametrize("name", SPACE)
@pytest.mark.parametrize("block", BLOCKS)
def test_settings_fill_their_ranges_evenly(many, block, name):
    """Kolmogorov and Smirnov: 2,000 draws, or their logarithms where stated, are uniform in their range.

    The last epoch's rate is the first's times the factor of an epoch for each of the others.
    """
    (value, law), (low, high) = DRAWN[name], SPACE[name]
    if name == "gate_bias" and block == "plain":
        assert all(trial.gate_bias is None for trial in many if trial.block == "plain")
        return
    values = np.sort([value(trial) for trial in many if trial.block == block])
    assert low * (1 - 1e-5) - 1e-9 <= values[0] or low < 0
    assert values[-1] <= high + 1e-9
    quantiles = (law(values) - law(low)) / (law(high) - law(low))
    assert np.abs(quantiles - (np.arange(N) + 0.5) / N).max() < 1.63 / math.sqrt(N)


def test_the_activations_are_drawn_equally_often(many):
    relu = sum(trial.activation == "relu" for trial in many)
    assert abs(relu - N) < 4 * math.sqrt(N / 2), "4 standard deviations of 2N draws"
    assert {trial.activation for trial in many} == {"relu", "tanh"}


def test_the_ranges_are_those_that_the_paper_states():
    """Section 3.1: b_T in [-10, -1]; 10, 20, 50 and 100 layers; plain and highway nets; the ten best."""
    assert SPACE["gate_bias"] == [-10, -1]
    assert DEPTHS == [10, 20, 50, 100]
    assert BLOCKS == ("plain", "highway")
    assert depth_search.TOP == 10


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_net_has_the_papers_depth_width_and_initialisation(digits, block, depth):
    """One plain layer, then depth - 1 blocks: 50 wide highway, 71 wide plain, about 5,000 parameters each."""
    for trial in draw_trials(20, (depth,), **BUDGET):
        if trial.block != block:
            continue
        config = trial.config(n_test=100)
        assert (config.block, config.depth) == (block, depth - 1)
        assert config.hidden == {"plain": 71, "highway": 50}[block]
        assert config.init == {"tanh": "glorot", "relu": "he"}[config.activation]
        assert (config.activation, config.lr, config.momentum) == (trial.activation, trial.lr, trial.momentum)
        assert (config.optimizer, config.nesterov, config.clip) == ("momentum", False, 0.0)
        assert (config.seed, config.epochs, config.n_train) == (trial.index, trial.epochs, trial.n_train)
        assert dataclasses.replace(trial, repeat=1).config(n_test=100) == dataclasses.replace(
            config, seed=trial.index + depth_search.REPEAT
        )
        if block == "highway":
            assert config.gate_bias == trial.gate_bias
    net = Training(config, digits).net
    in_and_out = 64 * config.hidden + config.hidden + config.hidden * 10 + 10
    assert (net.params.flat.size - in_and_out) / (depth - 1) == pytest.approx(5_100, rel=0.01)


@pytest.mark.parametrize("n_train", [128, 200, 1_000])
def test_the_rate_decays_by_its_factor_in_an_epoch(digits, n_train):
    training = Training(dataclasses.replace(TRIAL, n_train=n_train).config(n_test=50), digits)
    for epoch, _ in enumerate(training.epochs(scored=False), start=1):
        assert training.optimizer.lr == pytest.approx(TRIAL.lr * TRIAL.decay**epoch, rel=1e-12)
    assert training.epoch == 2


@pytest.fixture(scope="module")
def committed() -> DepthSearchLog:
    return read_log(committed_log(EXPERIMENT.log_path()))


def test_the_committed_log_holds_the_settings_that_are_drawn(committed):
    """All of them on the first rung; on each later one the best of the one before, and the best again at the end."""
    assert committed.space == SPACE
    results = {result.trial: result for result in committed.results}
    trials = draw_trials(100, DEPTHS, dataset="mnist", n_train=60_000, epochs=40)
    assert halve(trials, lambda rung: [results[trial] for trial in rung]) == committed.results
    rungs = Counter((result.trial.arm, result.trial.epochs) for result in committed.results)
    expected = {4: 100, 8: 25, 40: 10}
    assert rungs == {(arm, epochs): n for arm in product(BLOCKS, DEPTHS) for epochs, n in expected.items()}
    best = {
        (result.trial, repeat)
        for ranked in by_arm(last_rung(committed.results)).values()
        for result in ranked[:2]
        for repeat in (1, 2, 3)
    }
    assert {(dataclasses.replace(run.trial, repeat=0), run.trial.repeat) for run in committed.best} == best


def test_a_log_of_the_first_edition_is_read(whole, tmp_path):
    """Its results do not say where they were made, its blocks are architectures, its thresholds stood in the code."""
    first = dataclasses.asdict(whole)
    for name in ("top", "level", "levels", "best_command"):
        del first[name]
    del first["environment"]["kernels"]
    for result in first["results"]:
        del result["environment"], result["trial"]["repeat"]
        result["trial"]["architecture"] = result["trial"].pop("block")
    path, environment = tmp_path / "first.json", dataclasses.replace(whole.environment, kernels="unknown")
    path.write_text(json.dumps(first))
    assert read_log(path) == dataclasses.replace(whole, environment=environment, level=0.1)


def test_list_prints_each_setting(workdir, capsys):
    assert main("list", "--dataset", "digits", "--configs", "2", "--depths", "10,3") == 0
    rows = capsys.readouterr().out.splitlines()
    trials = draw_trials(2, (10, 3), dataset="digits", n_train=1437, epochs=40)
    assert [Trial(**json.loads(row)) for row in rows] == trials
    assert len(rows) == 8
    assert files_below(workdir) == {}


# ------------------------------------------------------------------------------------------ selection


def test_no_test_image_has_a_say(digits):
    """Other test images, and another number of them, change nothing that the selection sees."""
    rng = np.random.default_rng(0)
    test_x, test_y = rng.integers(0, 256, (7, 1, 8, 8), np.uint8), rng.integers(0, 10, 7, np.uint8)
    noise = digits._replace(test_x=test_x, test_y=test_y)
    results = [dataclasses.replace(run_trial(TRIAL, data), seconds=0.0) for data in (digits, noise)]
    assert results[0] == results[1]


def test_a_trial_learns_and_its_losses_are_of_the_training_images(digits):
    result = run_trial(dataclasses.replace(TRIAL, epochs=12), digits)
    assert len(result.train_loss) == 12
    assert not result.diverged
    assert result.lowest_loss < 1 < result.train_loss[0]
    other = digits._replace(train_x=255 - digits.train_x)
    assert run_trial(TRIAL, other).train_loss != result.train_loss[:2]


def test_a_diverged_trial_is_a_result(digits, workdir):
    result = run_trial(dataclasses.replace(TRIAL, activation="relu", lr=1e9, epochs=5), digits)
    assert result.diverged
    assert result.train_loss[-1] is None
    assert len(result.train_loss) < 5
    ResultFile("runs.jsonl", TrialResult).append(result)
    assert ResultFile("runs.jsonl", TrialResult).read() == [result]


def made_up(arm: tuple[str, int], index: int, *losses: float | None) -> TrialResult:
    trial = dataclasses.replace(TRIAL, block=arm[0], depth=arm[1], index=index)
    return TrialResult(None, trial, list(losses), losses[-1] is None, 1.0)


def test_settings_are_ranked_by_their_lowest_training_loss():
    results = [
        made_up(("plain", 10), 0, 2.0, 0.5, 0.9),
        made_up(("highway", 20), 0, None),
        made_up(("plain", 10), 1, 2.0, 0.6, 0.6),
        made_up(("highway", 20), 1, 2.0, 1.9),
        made_up(("highway", 10), 0, None),
        made_up(("plain", 10), 2, 0.4, None),
    ]
    ranked = by_arm(results)
    assert list(ranked) == [("highway", 10), ("highway", 20), ("plain", 10)]
    assert [[result.trial.index for result in arm] for arm in ranked.values()] == [[0], [1, 0], [0, 1, 2]]
    assert [result.lowest_loss for result in ranked["highway", 20]] == [1.9, math.inf]


def test_tables_count_settings_and_divergence_and_average_the_best(whole):
    """Ten best losses of 1 to 10: their geometric mean is the tenth root of 10! = 4.53."""
    arm = ("plain", 10)
    results = [*(made_up(arm, i, 1.0 + i) for i in range(12)), made_up(arm, 12, None)]
    log = dataclasses.replace(whole, results=results, level=3.5)
    longer = [dataclasses.replace(of, trial=dataclasses.replace(of.trial, epochs=9)) for of in results[2:4]]
    ranked = settings_table(dataclasses.replace(log, results=results + longer))
    assert ranked.splitlines()[-1].endswith("| 3 |"), "it was third before"
    assert "| plain 10 | 4.5 | 1 to 10 |" in arms_table(log)
    assert "| plain 10 | 1 of 13 | 3 of 13 | 0.5 to 0.5 | 10 of 10 |" in settings_table(log), "rates: 0.05 / (1 − 0.9)"
    assert "| plain 10 | none | " in arms_table(dataclasses.replace(log, results=results[12:]))


def test_a_search_reports_each_tenth_of_its_way():
    results = [made_up(("plain", 10), i, 1.0 - i / 100) for i in range(20)]
    reports = [depth_search.report(results[:n], 20) for n in range(1, 21)]
    assert [n for n, text in enumerate(reports, start=1) if text] == list(range(2, 21, 2))
    assert reports[5] == "6 of 20 settings; lowest loss: plain 10: 0.95"


def longer_run(index: int, *losses: float | None) -> BestRun:
    n = len(losses)
    history = History([*range(n)], list(losses), *([0.5] * n for _ in range(5)))
    return BestRun(None, dataclasses.replace(TRIAL, index=index), 1, losses[-1] is None, history)


def test_of_an_arms_longer_runs_the_lowest_loss_counts_and_divergence_comes_last():
    runs = [longer_run(0, 2.3, 0.3), longer_run(1, 2.3, 0.2, 0.4), longer_run(2, 2.3, 0.1, None)]
    assert best_of_arm(runs)[TRIAL.arm] is runs[1]
    assert best_of_arm(runs[2:])[TRIAL.arm] is runs[2]


# --------------------------------------------------------------------------------------------- verdicts

SPREAD = (0.98, 1.0, 1.02)  # by which the seeds of an arm differ
PAPER = {  # losses as the paper has them, in what matters
    **{("plain", depth): loss for depth, loss in zip(DEPTHS, (5e-5, 8e-5, 5e-4, 1.0), strict=True)},
    **{("highway", depth): 6e-5 for depth in DEPTHS},
}


def judged_log(whole: DepthSearchLog, losses: dict, epochs: dict, spread=SPREAD) -> DepthSearchLog:
    """A made-up log: two settings an arm, three seeds; an arm's loss falls to its last after so many epochs of 9."""
    best = []
    for (block, depth), loss in losses.items():
        for setting, (repeat, factor) in product((0, 1), enumerate(spread, start=1)):
            curve = [2.3] * epochs.get((block, depth), 5) + [loss * factor] * (10 - epochs.get((block, depth), 5))
            trial = dataclasses.replace(TRIAL, block=block, depth=depth, index=setting, repeat=repeat, epochs=9)
            history = History([*range(10)], curve, *([0.5] * 10 for _ in range(5)))
            best.append(BestRun(None, trial, 1, False, history))
    return dataclasses.replace(whole, best=best)


def verdicts(log: DepthSearchLog) -> list[str]:
    return [claim.verdict for claim in claims(log)]


def test_the_papers_own_losses_hold_all_its_claims(whole):
    slower = {("plain", depth): 7 for depth in (50, 100)}
    found = verdicts(judged_log(whole, PAPER, slower))
    alike = "50: not told apart; 100: not told apart"
    faster = "highway first in 6 of 12 comparisons, plain in 0"
    assert found == ["held in 9 epochs", "held", alike, "held in 9 epochs", faster]


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({("plain", 10): 2e-4, ("plain", 20): 3e-4}, 0, "not in 9 epochs"),
        ({("plain", 20): 3e-4}, 0, "1 of 2 held, 1 refuted in 9 epochs"),
        ({("plain", 50): 1e-6}, 1, "2 of 3 held, 1 refuted"),
        ({("highway", 100): 6e-4}, 2, "50: not told apart; 100: worse, 10 times"),
        ({("highway", 50): 6e-6}, 2, "50: better, 10 times; 100: not told apart"),
        ({("plain", 100): 1e-3}, 3, "not in 9 epochs"),
        ({("plain", 100): 6e-3}, 3, "not told apart in 9 epochs"),
        ({("highway", 100): 1.0}, 4, "highway first in 0 of 9 comparisons, plain in 0"),
    ],
)
def test_other_losses_give_other_verdicts(whole, changes, claim, verdict):
    assert verdicts(judged_log(whole, PAPER | changes, {}))[claim] == verdict


def test_a_seed_that_diverges_is_counted_and_does_not_improve_the_curve(whole):
    """The median of three seeds of which one has ended is the worse of the others; a cross stands where it ended."""
    runs = [longer_run(0, 2.3, 0.5, 0.4), longer_run(0, 2.3, 0.5, 0.2), longer_run(0, 2.3, 0.1, None)]
    log = dataclasses.replace(whole, results=[made_up(TRIAL.arm, 0, 0.3)], best=runs)
    assert "| 1 of 3 |" in arms_table(log)
    axes = Figure().subplots()
    curves_panel(axes, runs)
    (median,) = (line for line in axes.lines if line.get_label() == "highway 3")
    assert list(median.get_ydata()) == [2.3, 0.5, 0.4]
    (cross,) = (line for line in axes.lines if line.get_marker() == "x")
    assert cross.get_xydata().tolist() == [[1, 0.1]]
    axes = Figure().subplots()
    curves_panel(axes, [runs[0], runs[2], runs[2]])
    (median,) = (line for line in axes.lines if line.get_label() == "highway 3")
    np.testing.assert_equal(median.get_ydata(), [2.3, 0.1, np.nan])


def test_of_one_seed_nothing_is_told_apart_and_without_every_arm_there_is_no_verdict(whole):
    assert verdicts(judged_log(whole, PAPER, {}, spread=(1.0,)))[:2] == ["not told apart in 9 epochs", "not told apart"]
    assert claims(whole) == []


# ------------------------------------------------------------------------------------ successive halving


def rungs_of(n: int, losses, epochs: int = 40) -> list[list[TrialResult]]:
    """The rungs of a made-up search, n settings an arm; losses(trial) gives those of its epochs."""
    rungs = []

    def train(rung: list[Trial]) -> list[TrialResult]:
        rungs.append([dataclasses.replace(made_up(trial.arm, 0, *losses(trial)), trial=trial) for trial in rung])
        return rungs[-1]

    trials = draw_trials(n, (10, 50), dataset="digits", n_train=200, epochs=epochs)
    results = halve(trials, train)
    assert results == [result for rung in rungs for result in rung]
    assert all(dataclasses.replace(result.trial, epochs=epochs) in trials for result in results), (
        "the rate decays over the whole training, on whichever rung"
    )
    return rungs


def test_the_best_of_each_arm_go_on_to_the_next_rung():
    """Of 20 settings an arm five and then two go on: here those of the highest index, whatever the other arms do."""
    rungs = rungs_of(20, lambda trial: [trial.depth - trial.index / 100])
    assert [{result.trial.epochs for result in rung} for rung in rungs] == [{4}, {8}, {40}]
    arms = [(block, depth) for block in BLOCKS for depth in (10, 50)]
    for rung, first in zip(rungs, (0, 15, 18), strict=True):
        found = sorted((result.trial.arm, result.trial.index) for result in rung)
        assert found == sorted(product(arms, range(first, 20)))


def test_a_setting_that_has_diverged_does_not_go_on_however_low_its_loss_was():
    rungs = rungs_of(20, lambda trial: [0.001, None] if trial.index >= 15 else [1 + trial.index])
    assert {result.trial.index for result in rungs[1]} == {0, 1, 2, 3, 4}


def test_what_has_been_trained_again_for_a_rung_is_not_counted_twice(workdir):
    """With a single epoch all rungs are the same."""
    flags = ("--dataset", "digits", "--configs", "4", "--depths", "3", "--epochs", "1")
    assert main("run", *flags) == 0
    log = read_log("runs/depth_search-digits-configs4-depths3-epochs1.json")
    assert len(log.results) == len({result.trial for result in log.results}) == 8
    assert last_rung(log.results) == log.results


# ---------------------------------------------------------------------------- the nets that are looked into


def test_the_best_deep_highway_nets_of_the_committed_search_are_kept(small_mnist, workdir):
    data = ("--data-dir", str(small_mnist))
    assert main("run", *data, "--configs", "2", "--depths", "3,50,100", "--epochs", "2") == 0
    log = Path("runs/depth_search-configs2-depths3,50,100-epochs2.json")
    assert main("best", str(log), *data, "--seeds", "1") == 0
    assert not Path("models").exists(), "of other flags than the committed search's"
    log.rename("runs/depth_search.json")
    assert main("best", *data) == 0
    best = best_of_arm(read_log("runs/depth_search.json").best)
    for depth in (50, 100):
        net = DeepNet.load(f"models/highway-{depth}.npz")
        assert (net.depth, net.hidden, net.config["block"]) == (depth - 1, 50, "highway")
        loss, _ = evaluate(net, *load_dataset("mnist", small_mnist)[:2], LOSSES["cross-entropy"])
        assert loss == pytest.approx(best["highway", depth].history.train_loss[-1], rel=1e-5)


@pytest.mark.parametrize("left", ["nothing", "another budget's checkpoint"])
def test_no_untrained_net_is_kept(digits, workdir, left):
    if left != "nothing":
        run_best(dataclasses.replace(TRIAL, epochs=1), digits)
    with pytest.raises(InputError) as error:
        depth_search.keep_net(TRIAL, digits, depth_search.MODEL)
    assert_says(error.value, depth_search.checkpoint_path(TRIAL))
    assert not Path("models").exists()


# -------------------------------------------------------------------------------------- the command line

SEARCH = ("--dataset", "digits", "--configs", "6", "--depths", "3,5", "--epochs", "20")
TRIALS = 4 * (6 + 2 + 1)


def run_search(*flags: str) -> DepthSearchLog:
    """Run the search; returns its log."""
    assert main("run", *SEARCH, *flags) == 0
    return read_log()


def findings(log: DepthSearchLog) -> dict:
    """All of a log but where, when and by which command it was made."""
    kept = dataclasses.asdict(log)
    del kept["created"], kept["command"], kept["environment"]
    for result in kept["results"]:
        del result["seconds"], result["environment"]
    return kept


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> DepthSearchLog:
    """The log of a search that nothing cut short, by one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("whole"))
        return run_search()


def test_the_log_holds_every_setting_in_order(whole):
    drawn = draw_trials(6, (3, 5), dataset="digits", n_train=1437, epochs=20)
    assert {r.trial for r in whole.results[:24]} == {dataclasses.replace(trial, epochs=2) for trial in drawn}
    assert [r.trial.index for r in whole.results[:24]] == [trial.index for trial in drawn]
    assert Counter(r.trial.epochs for r in whole.results) == {2: 24, 4: 8, 20: 4}
    assert (whole.space, whole.top, whole.level, whole.levels) == (SPACE, 10, 0.25, [0.1, 0.01, 0.001])
    assert {result.environment for result in whole.results} == {None}, "made where the log was"
    assert whole.command == f"python -m experiments.depth_search run {shlex.join(SEARCH)}"
    assert (whole.dataset.name, whole.dataset.n_train, whole.dataset.n_test) == ("digits", 1437, 360)
    assert (whole.best, whole.best_command) == ([], None)


def test_results_say_where_they_were_made_however_often_their_log_is_written_again(workdir, monkeypatch):
    """Made on a and b, whose results b puts into a log; trained again on c, from where d has them."""
    here = logs.environment()
    searched = "runs/depth_search-digits-configs1-depths3-n_train200-epochs2"
    for name, trial in zip("ab", draw_trials(1, (3,), **BUDGET), strict=True):
        for epochs in (1, 2):
            trial, losses = dataclasses.replace(trial, epochs=epochs), [1.0, 0.5][:epochs]
            result = TrialResult(dataclasses.replace(here, cpu=name), trial, losses, False, 1.0)
            ResultFile(f"{searched}.jsonl", TrialResult).append(result)
    flags = ["--dataset", "digits", "--configs", "1", "--depths", "3", "--n-train", "200", "--epochs", "2"]
    run, best = ["run", *flags], ["best", f"{searched}.json", *flags[:2], "--seeds", "1"]
    for machine, command in (("b", run), ("c", best), ("d", best)):
        there = dataclasses.replace(here, cpu=machine)
        monkeypatch.setattr(logs, "environment", lambda threads=1, there=there: there)
        assert main(*command) == 0
        log = read_log(f"{searched}.json" if machine == "b" else f"{searched}-seeds1.json")
        assert log.environment == there
        assert [(result.environment or there).cpu for result in log.results] == ["b", "a", "b", "a"]
        assert [(run.environment or there).cpu for run in log.best] == ([] if machine == "b" else ["c", "c"])
        assert log.command == f"python -m experiments.depth_search {shlex.join(run)}", "that of the search alone"
    assert log.best_command == f"python -m experiments.depth_search {shlex.join(best)}"


def test_a_search_that_is_run_again_keeps_what_was_trained_again(workdir):
    logs = []
    for command in ("run", "best", "run"):
        assert main(command, "--smoke") == 0
        logs.append(read_log("runs/depth_search-smoke.json"))
    assert [len(log.best) for log in logs] == [0, 12, 12]
    assert logs[2].best_command == logs[1].best_command == "python -m experiments.depth_search best --smoke"


BAD_ARGUMENTS = {
    "run --configs 0": "argument --configs: expected a positive number, found '0'",
    "run --epochs 0": "argument --epochs: expected a positive number, found '0'",
    "run --n-train 0": "argument --n-train: expected a positive number, found '0'",
    "run --n-train 1438": "--n-train: expected at most 1437 images, found 1438",
    "run --depths 1,10": "--depths: expected at least 2, found 1",
    "run --depths 10,x": "argument --depths: expected numbers like 5,10,20 or 0-19, found '10,x'",
    "run --jobs 0": "argument --jobs: expected a positive number, found '0'",
    "best --seeds 0": "argument --seeds: expected a positive number, found '0'",
    "best --top 0": "argument --top: expected a positive number, found '0'",
    "best --first-repeat 0": "argument --first-repeat: expected a positive number, found '0'",
    "best --arms highway-3,plain-7": "--arms: expected some of highway-3, highway-5, plain-3, plain-5, found plain-7",
}


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS.items())
def test_a_wrong_argument_is_one_line_and_exit_code_2_and_writes_nothing(workdir, capsys, refused, arguments, message):
    if arguments.startswith("best"):
        assert main("run", "--smoke") == 0
        Path("runs/depth_search-smoke.json").rename("runs/depth_search-digits.json")
        capsys.readouterr()
    before = files_below(workdir)
    command, *flags = arguments.split()
    assert message in refused(main, command, "--dataset", "digits", *flags)
    assert files_below(workdir) == before


def test_best_and_plot_without_a_search_say_how_to_make_one(workdir, refused):
    expected = "expected a log, found: No such file or directory; make it with python -m experiments.depth_search run\n"
    for command in (["best", "--dataset", "digits"], ["plot"]):
        assert refused(main, *command).endswith(expected)


def test_best_refuses_a_search_on_other_data_and_a_foreign_file_in_its_place(small_mnist, workdir, capsys, refused):
    assert main("run", "--smoke") == 0
    log = Path("runs/depth_search-smoke.json")
    (workdir / "runs/depth_search-smoke-seeds1.json").write_text("Dear diary")
    capsys.readouterr()
    before = files_below(workdir)
    on_mnist = refused(main, "best", str(log), "--data-dir", str(small_mnist))
    assert f"{log}: expected a search on mnist, found one on digits; add --dataset digits" in on_mnist
    assert "seeds1.json: expected " in refused(main, "best", str(log), "--dataset", "digits", "--seeds", "1")
    assert files_below(workdir) == before


def test_best_trains_some_arms_from_later_seeds_for_longer(workdir):
    assert main("run", "--smoke") == 0
    Path("runs/depth_search-smoke.json").rename("runs/depth_search-digits.json")
    flags = ("--first-repeat", "4", "--seeds", "2", "--arms", "highway-3", "--epochs", "11", "--top", "1")
    assert main("best", "--dataset", "digits", *flags) == 0
    log = read_log("runs/depth_search-digits-top1-seeds2-first_repeat4-armshighway-3-epochs11.json")
    (of_search,) = {result.trial for result in by_arm(last_rung(log.results))["highway", 3][:1]}
    assert [(run.trial.arm, run.trial.repeat, run.trial.epochs) for run in log.best] == [
        (("highway", 3), 4, 11),
        (("highway", 3), 5, 11),
    ]
    for run in log.best:
        assert run.trial.decay**10 == pytest.approx(of_search.decay ** (of_search.epochs - 1)), (
            "the last rate is the same"
        )


# ------------------------------------------------------------------------- longer runs, cut in the middle

LONGER = dataclasses.replace(TRIAL, epochs=4)


def without_seconds(run):
    return dataclasses.replace(run, history=dataclasses.replace(run.history, seconds=[0.0] * len(run.history.epoch)))


class Killed(BaseException):
    """As the system would end the process: nothing catches it."""


@pytest.mark.parametrize("epochs", [0, 1, 3, 4])
def test_a_longer_run_killed_after_any_epoch_goes_on_as_if_it_had_not_been(digits, workdir, monkeypatch, epochs):
    """Killed once the checkpoint of an epoch is on disk; after the last one too, before the result is."""
    whole = without_seconds(run_best(LONGER, digits))
    assert whole.history.epoch == [0, 1, 2, 3, 4]
    (path,) = Path("runs/checkpoints").iterdir()
    path.rename("whole.npz")
    save, train_epoch, trained = checkpoints.save, Training._train_epoch, []

    def save_and_die(path, training):
        save(path, training)
        if training.epoch == epochs:
            raise Killed

    monkeypatch.setattr(checkpoints, "save", save_and_die)
    with pytest.raises(Killed):
        run_best(LONGER, digits)
    monkeypatch.setattr(checkpoints, "save", save)
    monkeypatch.setattr(Training, "_train_epoch", lambda self: trained.append(self) or train_epoch(self))

    assert without_seconds(run_best(LONGER, digits)) == whole
    assert len(trained) == 4 - epochs
    with np.load(path) as found, np.load("whole.npz") as expected:
        assert all(found[name].tobytes() == expected[name].tobytes() for name in ("params", "v"))


def test_a_diverged_run_that_was_killed_is_not_trained_on(digits, workdir, monkeypatch):
    trial = dataclasses.replace(LONGER, activation="relu", lr=1e9)
    whole = without_seconds(run_best(trial, digits))
    assert whole.diverged
    assert whole.history.train_loss[-1] is None
    assert len(whole.history.epoch) < 5
    assert without_seconds(run_best(trial, digits)) == whole


# ---------------------------------------------------------------------- real processes, cut in the middle


def wait_for_lines(process: subprocess.Popen, n: int) -> None:
    """Wait until `n` runs are finished."""

    def finished() -> bool:
        assert process.poll() is None, f"ended too early: {process.stderr.read()}"
        return len(lines()) >= n

    wait_until(finished, "the runs")


def lines() -> list[bytes]:
    path = Path(f"{LOG}.jsonl")
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def workers(process: subprocess.Popen) -> list[int]:
    """The processes that work for a process, as Linux tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
            if parent == process.pid and "LokyProcess" in path.with_name("cmdline").read_text():
                found.append(int(path.parent.name))
    return found


def test_a_search_that_is_killed_twice_loses_no_finished_run_and_repeats_none(workdir, whole, start):
    """First a worker is killed; the command that the message names goes on; then the parent is killed."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc, to find a worker process")
    command = f"python -m experiments.depth_search run {shlex.join(SEARCH)} --jobs 2"
    first = start(*shlex.split(command)[1:])
    wait_for_lines(first, 3)
    os.kill(workers(first)[0], signal.SIGKILL)
    assert first.wait(timeout=60) == 1
    safe = lines()
    assert 3 <= len(safe) < TRIALS
    message = first.stderr.read()
    found = re.fullmatch(
        r"\npython -m experiments\.depth_search: interrupted: TerminatedWorkerError: .*; (\d+) of 24 runs are safe in "
        rf"{re.escape(LOG)}\.jsonl; to continue: (.*)\n",
        message,
    )
    assert found, message
    assert found.groups() == (str(len(safe)), command)

    second = start(*shlex.split(found[2])[1:])
    wait_for_lines(second, len(safe) + 3)
    second.kill()
    assert second.wait(timeout=60) == -signal.SIGKILL
    *still_safe, last = lines()
    still_safe += [last] if last.endswith(b"\n") else []
    assert still_safe[: len(safe)] == safe
    assert len(still_safe) < TRIALS

    assert findings(run_search("--jobs", "2")) == findings(whole)
    assert lines()[: len(still_safe)] == still_safe
    assert len(lines()) == len({json.dumps(json.loads(line)["trial"]) for line in lines()}) == TRIALS


@pytest.mark.parametrize("configs", [1, 1000], ids=["less than a pipe holds", "more than a pipe holds"])
def test_a_reader_who_has_seen_enough_is_no_error(workdir, start, configs):
    """`list | head`."""
    process = start("-m", "experiments.depth_search", "list", "--dataset", "digits", "--configs", str(configs))
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == ""


def test_a_disk_too_full_for_a_checkpoint_says_what_is_safe_and_how_to_go_on(workdir, capsys):
    assert main("run", "--smoke") == 0
    capsys.readouterr()
    with limited_file_size(50_000):
        assert main("best", "--smoke") == 1
    assert re.fullmatch(
        r"\n(python -m experiments\.depth_search): interrupted: runs/checkpoints/.*: File too large; .*; "
        r"0 of 12 runs are safe in runs/depth_search-smoke_best\.jsonl; to continue: \1 best --smoke\n",
        capsys.readouterr().err,
    )
    assert files_below(Path("runs/checkpoints")) == {}
    assert main("best", "--smoke") == 0


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install '.[cluster]'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        yield local.scheduler_address


def test_a_cluster_gives_the_results_of_one_process(workdir, whole, cluster):
    assert findings(run_search("--scheduler", cluster)) == findings(whole)
    assert len(lines()) == TRIALS


# -------------------------------------------------------------------------------------------- end to end


def test_each_step_again_does_nothing_but_write_the_same(workdir):
    for _ in range(2):
        assert main("run", "--smoke") == 0
        assert main("best", "--smoke") == 0
    log = read_log("runs/depth_search-smoke.json")
    assert (len(log.results), len(log.best)) == (4 * (4 + 1 + 1), 4 * 3)
    for run in log.best:
        assert run.history.epoch == [0, 1, 2, 3, 4, 5, 6]
        assert run.trial.n_train == 256
    assert Path("runs/depth_search-smoke.jsonl").read_bytes().count(b"\n") == 24
    assert Path("runs/depth_search-smoke_best.jsonl").read_bytes().count(b"\n") == 12
    assert not Path("models").exists()
