"""The depth search: its settings, its selection, its resumption, and the same results wherever it runs."""

import json
import math
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import files_below, refused_with, without_seconds
from picture_helpers import cells, committed_log

from experiments import depth_search as ds
from experiments.claims import Claim, Verdict
from experiments.depth_search_figures import activation_claims, activations_table, claims, ways_figure
from highway_lab import logs
from highway_lab.datasets import load_dataset
from highway_lab.jobs import ResultFile
from highway_lab.training import Training
from highway_networks import LOSSES, DeepNet, evaluate

BUDGET = {"dataset": "digits", "n_train": 200, "epochs": 2}
TRIAL = ds.Trial("highway", 3, 0, "tanh", 0.05, 0.9, 0.95, -2.0, **BUDGET)


def main(*arguments: str) -> int:
    return ds.EXPERIMENT.main([*arguments])


LOG = "runs/depth_search-digits-configs6-depths3,5-epochs20"  # of SEARCH, below


def read_log(path: str = f"{LOG}.json") -> ds.DepthSearchLog:
    return ds.EXPERIMENT.read(Path(path))


# ------------------------------------------------------------------------------------------- settings


def test_a_setting_depends_on_nothing_but_its_arm_and_index():
    few, many = ds.draw_trials(3, (20,), **BUDGET), ds.draw_trials(7, (50, 20, 10), **BUDGET)
    assert set(few) < set(many)


def test_an_unfinished_search_is_a_fair_smaller_one():
    trials = ds.draw_trials(6, ds.DEPTHS, **BUDGET)
    for n in range(1, 7):
        arms = Counter(trial.arm for trial in trials[: 8 * n])
        assert arms == {(block, depth): n for block in ds.BLOCKS for depth in ds.DEPTHS}
        assert {trial.index for trial in trials[: 8 * n]} == set(range(n))


@pytest.mark.parametrize(("block", "depth"), [*product(ds.BLOCKS, ds.DEPTHS)])
def test_a_net_has_the_papers_depth_width_and_initialisation(digits, block, depth):
    """One plain layer, then depth - 1 blocks: 50 wide highway, 71 wide plain, about 5,000 parameters each."""
    for trial in (trial for trial in ds.draw_trials(20, (depth,), **BUDGET) if trial.block == block):
        config = trial.configure(n_test=100)
        assert (config.block, config.depth, config.hidden) == (block, depth - 1, {"plain": 71, "highway": 50}[block])
        assert config.init == {"tanh": "glorot", "relu": "he"}[config.activation]
        assert (config.activation, config.lr, config.momentum) == (trial.activation, trial.lr, trial.momentum)
        assert (config.optimizer, config.nesterov, config.clip) == ("momentum", False, 0.0)
        assert (config.seed, config.epochs, config.n_train) == (trial.index, trial.epochs, trial.n_train)
        assert block == "plain" or config.gate_bias == trial.gate_bias
        again = replace(trial, repeat=1).configure(n_test=100)
        assert again == replace(config, seed=trial.index + ds.REPEAT)
    net = Training(config, digits).net
    in_and_out = 64 * config.hidden + config.hidden + config.hidden * 10 + 10
    assert (net.params.flat.size - in_and_out) / (depth - 1) == pytest.approx(5_100, rel=0.01)


@pytest.mark.parametrize("n_train", [128, 200, 1_000])
def test_the_rate_decays_by_its_factor_in_an_epoch(digits, n_train):
    training = Training(replace(TRIAL, n_train=n_train).configure(n_test=50), digits)
    for epoch, _ in enumerate(training.epochs(scored=False), start=1):
        assert training.optimizer.lr == pytest.approx(TRIAL.lr * TRIAL.decay**epoch, rel=1e-12)
    assert training.epoch == 2


@pytest.fixture(scope="module")
def committed() -> ds.DepthSearchLog:
    return read_log(committed_log(ds.EXPERIMENT.log_path()))


def test_the_committed_log_holds_the_settings_that_are_drawn(committed):
    """All of them on the first rung; on each later one the best of the one before, and the best again at the end."""
    assert committed.space == ds.SPACE
    results = {result.task: result for result in committed.results}
    trials = ds.draw_trials(100, ds.DEPTHS, dataset="mnist", n_train=60_000, epochs=40)
    assert ds.halve(trials, lambda rung: [results[trial] for trial in rung]) == committed.results
    rungs = Counter((result.task.arm, result.task.epochs) for result in committed.results)
    expected = {4: 100, 8: 25, 40: 10}
    assert rungs == {(arm, epochs): n for arm in product(ds.BLOCKS, ds.DEPTHS) for epochs, n in expected.items()}
    best = {
        (result.task, repeat)
        for ranked in ds.by_arm(ds.last_rung(committed.results)).values()
        for result in ranked[:2]
        for repeat in (1, 2, 3)
    }
    assert {(replace(run.task, repeat=0), run.task.repeat) for run in committed.best} == best


@pytest.mark.parametrize(("ending", "step"), ds.MORE.items())
def test_a_further_log_holds_the_runs_that_its_step_plans(committed, ending, step):
    """Its name is the one that the step gives it, its search the committed one."""
    flags = ds.EXPERIMENT.parser.parse_args(step.split())
    path = ds.EXPERIMENT.log_path(ending)
    assert ds.append_flags(ds.EXPERIMENT.log_path(), flags, ds.BEST_FLAGS) == path
    log = read_log(committed_log(path))
    searched = [[(result.task, result.train_loss) for result in of.results] for of in (log, committed)]
    assert searched[0] == searched[1]
    assert [run.task for run in log.best] == ds.plan_best(committed, flags)


# ------------------------------------------------------------------------------------------ selection


def test_no_test_image_has_a_say(digits):
    """Other test images, and another number of them, change nothing that the selection sees."""
    rng = np.random.default_rng(0)
    test_x, test_y = rng.integers(0, 256, (7, 1, 8, 8), np.uint8), rng.integers(0, 10, 7, np.uint8)
    noise = digits._replace(test_x=test_x, test_y=test_y)
    results = [replace(ds.run_trial(TRIAL, data), seconds=0.0) for data in (digits, noise)]
    assert results[0] == results[1]


def test_a_trial_learns_and_its_losses_are_of_the_training_images(digits):
    result = ds.run_trial(replace(TRIAL, epochs=12), digits)
    assert len(result.train_loss) == 12
    assert not result.diverged
    assert result.lowest_loss < 1 < result.train_loss[0]
    other = digits._replace(train_x=255 - digits.train_x)
    assert ds.run_trial(TRIAL, other).train_loss != result.train_loss[:2]


def test_a_diverged_trial_is_a_result(digits):
    result = ds.run_trial(replace(TRIAL, activation="relu", lr=1e9, epochs=5), digits)
    assert result.diverged
    assert result.train_loss[-1] is None
    assert len(result.train_loss) < 5


def result(arm: tuple[str, int], index: int, *losses: float | None) -> ds.TrialResult:
    return made_up.search_result(replace(TRIAL, block=arm[0], depth=arm[1], index=index), *losses)


def test_settings_are_ranked_by_their_lowest_training_loss():
    results = [
        result(("plain", 10), 0, 2.0, 0.5, 0.9),
        result(("highway", 20), 0, None),
        result(("plain", 10), 1, 2.0, 0.6, 0.6),
        result(("highway", 20), 1, 2.0, 1.9),
        result(("highway", 10), 0, None),
        result(("plain", 10), 2, 0.4, None),
    ]
    ranked = ds.by_arm(results)
    assert list(ranked) == [("highway", 10), ("highway", 20), ("plain", 10)]
    assert [[of.task.index for of in arm] for arm in ranked.values()] == [[0], [1, 0], [0, 1, 2]]
    assert [of.lowest_loss for of in ranked["highway", 20]] == [1.9, math.inf]


def test_an_arms_best_run_has_the_lowest_loss_without_divergence_if_any():
    losses = ([2.3, 0.3], [2.3, 0.2, 0.4], [2.3, 0.1, None])
    runs = [made_up.best_run(replace(TRIAL, index=index), *of) for index, of in enumerate(losses)]
    assert ds.best_of_arm(runs)[TRIAL.arm] is runs[1]
    assert ds.best_of_arm(runs[2:])[TRIAL.arm] is runs[2]


# --------------------------------------------------------------------------------------------- verdicts

SPREAD = (0.98, 1.0, 1.02)  # by which the seeds of an arm, and its best settings, differ
PAPER = {  # losses as the paper has them, in what matters
    **{("plain", depth): loss for depth, loss in zip(ds.DEPTHS, (5e-5, 8e-5, 5e-4, 1.0), strict=True)},
    **{("highway", depth): 6e-5 for depth in ds.DEPTHS},
}
LATE = {"plain": 7, "highway": 5}  # epochs without progress, of 9
REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict


def trained(losses: dict, epochs: int = 400, late: dict = LATE, spread=SPREAD, first: int = 1) -> list[ds.BestRun]:
    """Return runs of arms that reach these losses, by two settings for each factor of `spread`, a seed each."""
    best = []
    for (block, depth), loss in losses.items():
        for index, (repeat, factor) in product((0, 1), enumerate(spread, start=first)):
            trial = replace(TRIAL, block=block, depth=depth, index=index, repeat=repeat, epochs=epochs)
            best.append(made_up.best_run(trial, *[2.3] * late[block], *[loss * factor] * (10 - late[block])))
    return best


def judged(losses: dict, *how, more: Sequence[ds.BestRun] = (), **changed) -> list[Claim]:
    """Return the claims on arms that reach these losses; `more` are the runs of another log."""
    best = trained(losses, *how, **changed)
    searched = [
        result(arm, index, loss * factor) for arm, loss in losses.items() for index, factor in enumerate(SPREAD)
    ]
    return claims(made_up.search_log(searched, best), made_up.search_log(best=more))


@pytest.mark.parametrize("epochs", [40, 400])
def test_the_papers_own_losses_reproduce_all_its_claims(epochs):
    assert {claim.verdict for claim in judged(PAPER, epochs)} == {REPRODUCED}


PLAIN_ALIKE = {("plain", depth): 1e-4 for depth in ds.DEPTHS}
HIGHWAY_WORSE = {("highway", 50): 1e-3, ("highway", 100): 1e-3}
ABOVE = {("plain", 10): 2e-4, ("plain", 20): 3e-4}


@pytest.mark.parametrize(
    ("changes", "epochs", "number", "verdict"),
    [
        (ABOVE, 400, 0, NOT_REPRODUCED),
        (ABOVE, 40, 0, INCONCLUSIVE),
        ({("plain", 20): 3e-4}, 40, 0, PARTLY),
        ({("plain", 50): 1e-6}, 400, 1, REPRODUCED),  # the deepest are compared with the shallow
        ({("plain", 100): 7e-5}, 400, 1, NOT_REPRODUCED),
        (PLAIN_ALIKE, 40, 1, NOT_REPRODUCED),
        ({("highway", depth): 2.3 for depth in ds.DEPTHS}, 400, 2, INCONCLUSIVE),  # alike, as none has learned
        ({("highway", 20): 6e-7}, 400, 2, INCONCLUSIVE),
        (HIGHWAY_WORSE, 40, 2, NOT_REPRODUCED),
        ({("highway", 20): 6e-7}, 400, 3, PARTLY),
        (PLAIN_ALIKE | HIGHWAY_WORSE, 400, 3, NOT_REPRODUCED),
        ({("plain", 100): 1e-3}, 400, 4, NOT_REPRODUCED),
        ({("plain", 100): 1e-3}, 40, 4, INCONCLUSIVE),
        ({("highway", depth): 1e3 for depth in ds.DEPTHS}, 40, 5, NOT_REPRODUCED),
    ],
)
def test_other_losses_give_other_verdicts(changes, epochs, number, verdict):
    assert judged(PAPER | changes, epochs)[number].verdict == verdict


ALIKE = {("highway", 50): 6e-5, ("highway", 100): 6e-5}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (HIGHWAY_WORSE, ALIKE, REPRODUCED),
        (ALIKE, HIGHWAY_WORSE, NOT_REPRODUCED),
        (ALIKE, dict.fromkeys(ALIKE, 1e-5), NOT_REPRODUCED),  # better by more than the margin is not alike, either
        (ALIKE, ALIKE | {("highway", 50): 1e-5}, PARTLY),
    ],
)
def test_new_seeds_alone_tell_whether_deep_highway_nets_perform_alike(old, new, verdict):
    new = trained(new, first=4)
    new[0] = made_up.best_run(new[0].task, 2.3, None)
    without, found = judged(PAPER | old), judged(PAPER | old, more=new)
    assert found[2].verdict == verdict
    assert "epochs, 3 new seeds)" in found[2].measured
    assert found[2].measured.endswith("; diverged: 1 of 6, 0 of 6")
    assert found[:2] + found[3:] == without[:2] + without[3:], "the other claims are of the first seeds"
    foreign = [replace(run, task=replace(run.task, lr=0.01)) for run in new]
    assert judged(PAPER | old, more=foreign) == without, "runs of other settings are no seeds of these"


def test_the_runs_of_most_epochs_judge_all_but_what_has_its_own_seeds():
    short = PAPER | ABOVE | {("plain", 100): 1e-3}
    at_40, at_400 = judged(short, 40), judged(PAPER | HIGHWAY_WORSE, 400)
    found = judged(short, 40, more=trained(PAPER | HIGHWAY_WORSE, 400))
    assert [found[0], found[1], *found[4:6]] == [at_400[0], at_400[1], *at_400[4:6]]
    assert [(claim.verdict, claim.measured) for claim in found[2:4]] == [
        (claim.verdict, claim.measured) for claim in at_40[2:4]
    ]
    assert found[2].why == f"{at_40[2].why} In 400 epochs 0 of 12 do."
    assert ["(400 epochs, 3 seeds)" in found[1].measured, "(40 epochs, 3 seeds)" in found[2].measured] == [True, True]
    some_arms = {arm: loss for arm, loss in PAPER.items() if arm != ("plain", 10)}
    assert judged(short, 40, more=trained(some_arms, 400)) == at_40


@pytest.mark.parametrize(
    ("n_lost", "verdict", "with_them"),
    [
        (0, REPRODUCED, "+4.22 ± 0.02, reproduced"),
        (1, PARTLY, "+3.52 ± 3.01, inconclusive"),
        (2, PARTLY, "+2.81 ± 6.05, inconclusive"),
    ],
)
def test_the_lead_is_judged_without_diverged_runs_and_with_them(n_lost, verdict, with_them):
    runs = trained(PAPER)
    first_seed = [run for run in runs if run.task.arm == ("highway", 100) and run.task.repeat == 1]
    lost = [made_up.best_run(run.task, 1.0, None) for run in first_seed[:n_lost]]
    whole = [run for run in runs if run.task not in {of.task for of in lost}]
    searched = [result(arm, index, loss) for arm, loss in PAPER.items() for index in (0, 1)]
    found = claims(made_up.search_log(searched, whole + lost))
    assert found[4].verdict == verdict
    assert found[4].measured.startswith("+4.22 ± 0.02 orders of magnitude after 400 epochs ")
    assert f", reproduced; counting the lowest earlier loss of diverged runs: {with_them}; " in found[4].measured
    told = f"{n_lost} of 6 highway runs diverged. Without them the training loss of plain nets is 17,000 times as high"
    assert told in found[4].why


def test_the_lead_is_drawn_by_every_way_to_count():
    """A seed's highway runs of one setting diverge; another seed's plain runs of both end at chance."""
    lost, chance = {("highway", 0, 1)}, {("plain", 0, 2), ("plain", 1, 2)}
    runs = []
    for run in trained(PAPER):
        key = run.task.block, run.task.index, run.task.repeat
        if run.task.depth == 100 and key in lost:
            run = made_up.best_run(run.task, 1.0, None)
        if run.task.depth == 100 and key in chance:
            run.history.test_score[-1] = 0.1
        runs.append(run)
    (axes,) = ways_figure(made_up.search_log([result(arm, 0, loss) for arm, loss in PAPER.items()], runs)).axes
    leads = [text.get_text() for text in axes.texts]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    found = dict(zip(labels, leads, strict=True))
    assert len(found) == 10
    assert found["both settings, diverged left out"] == "+4.22 ± 0.02"
    assert found["both settings, all runs"] == "+3.52 ± 3.01"
    assert found["both settings, both kinds as guesses"] == "+3.58 ± 3.17"
    assert found["best setting, diverged left out"] != found["best setting, all runs"]
    assert found["both settings, at chance left out"].startswith("+3.52 ± 3.0")
    assert axes.figure.get_suptitle().endswith(" ways to count")


def test_shallow_plain_nets_are_judged_by_the_best_setting_of_each_depth():
    searched = [result(arm, index, loss) for arm, loss in PAPER.items() for index in (0, 1)]
    for bad, verdict in ((1, REPRODUCED), (0, NOT_REPRODUCED)):
        runs = [made_up.best_run(run.task, *[0.1] * 10) if run.task.index == bad else run for run in trained(PAPER)]
        assert claims(made_up.search_log(searched, runs))[0].verdict == verdict


IN_MAIN_LOG = (("tanh", "plain"), ("relu", "highway"))  # as in the committed logs; each other net has its own


def by_nets(losses: dict[tuple[str, str], list[float | None]]) -> list[ds.DepthSearchLog]:
    """Return logs of nets of 50 layers, by activation and kind of block, whose seeds reach these losses.

    None: the run diverges after a loss of 0.5. Each net has a worse setting, too, with runs of loss 1e-9.
    """
    searched, main, others = [], [], []
    for index, (net, reached) in enumerate(losses.items()):
        best = replace(TRIAL, block=net[1], depth=50, activation=net[0], index=index)
        worse = replace(best, index=10 + index)
        searched += [made_up.search_result(worse, 0.2), made_up.search_result(best, 0.1)]
        runs = [
            made_up.best_run(replace(best, repeat=repeat), 2.3, *[loss] if loss else [0.5, None])
            for repeat, loss in enumerate(reached, start=1)
        ]
        runs += [made_up.best_run(replace(worse, repeat=1), 2.3, 1e-9)]
        if net in IN_MAIN_LOG:
            main += runs
        else:
            others.append(made_up.search_log(best=runs))
    return [made_up.search_log(searched, main), *others]


HIGH, LOW = [0.098, 0.1, 0.102], [0.0098, 0.01, 0.0102]  # an order apart
ALL_HIGH = {(activation, block): HIGH for activation in ("tanh", "relu") for block in ds.BLOCKS}
TANH_LOW, RELU_LOW = {("tanh", "highway"): LOW}, {("relu", "highway"): LOW}


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        (
            TANH_LOW | RELU_LOW,
            REPRODUCED,
            "+1.00 ± 0.02 with tanh (3 and 3 seeds), +1.00 ± 0.02 with ReLU (3 and 3 seeds)",
        ),
        (TANH_LOW, PARTLY, "+1.00 ± 0.02 with tanh (3 and 3 seeds), +0.00 ± 0.02 with ReLU (3 and 3 seeds)"),
        (RELU_LOW, PARTLY, "+0.00 ± 0.02 with tanh (3 and 3 seeds), +1.00 ± 0.02 with ReLU (3 and 3 seeds)"),
        ({}, NOT_REPRODUCED, "+0.00 ± 0.02 with tanh (3 and 3 seeds), +0.00 ± 0.02 with ReLU (3 and 3 seeds)"),
        ({("relu", "highway"): [0.01, 0.01, None]}, INCONCLUSIVE, "+0.43 ± 2.44 with ReLU (3 and 3 seeds)"),
    ],
)
def test_kinds_of_block_are_compared_at_the_same_activation(changes, verdict, why):
    (claim,) = activation_claims(*by_nets(ALL_HIGH | changes))
    assert claim.verdict == verdict
    assert claim.measured.startswith("orders of magnitude below plain nets after 2 epochs: ")
    assert claim.measured.endswith(why)


def test_seeds_of_every_log_judge_nets_of_the_same_activation():
    main, tanh, relu = by_nets(ALL_HIGH | RELU_LOW | {("relu", "plain"): [*HIGH, *HIGH]})
    (claim,) = activation_claims(main, tanh, relu)
    assert claim.measured.endswith("+1.00 ± 0.02 with ReLU (6 and 3 seeds)")
    assert claim.why == "It holds with ReLU; it does not hold with tanh."


def test_without_one_of_the_nets_there_is_no_verdict_on_activations():
    main, tanh, relu = by_nets(ALL_HIGH)
    assert activation_claims(main) == activation_claims(main, tanh) == activation_claims(main, relu) == []
    assert [row[1:] for row in cells(activations_table(main))[2:4]] == [[""] * 3] * 2


def test_plain_nets_may_be_faster_and_a_partly_names_the_depths():
    reverse = judged(dict.fromkeys(PAPER, 6e-5), late={"plain": 5, "highway": 7})[5]
    slow = judged(PAPER | {("highway", 100): 1e3})[5]
    assert (reverse.verdict, slow.verdict) == (NOT_REPRODUCED, PARTLY)
    assert slow.why.startswith("It holds at 10, 20 and 50 layers; it does not hold at 100 layers. ")


@pytest.mark.parametrize(
    ("points", "verdict"), [(0.0, REPRODUCED), (-0.3, REPRODUCED), (-0.8, NOT_REPRODUCED), (0.8, REPRODUCED)]
)
def test_highway_nets_may_be_worse_on_test_images_by_less_than_the_margin(points, verdict):
    runs = trained(PAPER)
    for run in runs:
        shallow_highway = run.task.block == "highway" and run.task.depth <= 20
        run.history.test_score[-1] = 0.97 + points / 100 * shallow_highway + 1e-5 * run.task.repeat
    searched = [result(arm, index, loss) for arm, loss in PAPER.items() for index in (0, 1)]
    claim = claims(made_up.search_log(searched, runs))[6]
    assert claim.verdict == verdict
    assert f"differ from plain nets by {points:+.1f} points at 10 layers" in claim.why


def test_one_seed_is_inconclusive_and_a_missing_arm_allows_no_verdict():
    verdicts = [claim.verdict for claim in judged(PAPER, spread=(1.0,))]
    assert verdicts == [INCONCLUSIVE] * 3 + [REPRODUCED] + [INCONCLUSIVE] * 3, "all but that of the search"
    assert claims(made_up.search_log()) == []


# ------------------------------------------------------------------------------------ successive halving


def rungs_of(n: int, losses, epochs: int = 40) -> list[list[ds.TrialResult]]:
    """The rungs of a made-up search, n settings an arm; losses(trial) gives those of its epochs."""
    rungs = []

    def train(rung: list[ds.Trial]) -> list[ds.TrialResult]:
        rungs.append([made_up.search_result(trial, *losses(trial)) for trial in rung])
        return rungs[-1]

    trials = ds.draw_trials(n, (10, 50), dataset="digits", n_train=200, epochs=epochs)
    results = ds.halve(trials, train)
    assert results == [result for rung in rungs for result in rung]
    assert {replace(result.task, epochs=epochs) for result in results} <= set(trials), "by the whole training's rates"
    return rungs


def test_the_best_of_each_arm_go_on_to_the_next_rung():
    """Of 20 settings an arm five and then two go on: here those of the highest index, whatever the other arms do."""
    rungs = rungs_of(20, lambda trial: [trial.depth - trial.index / 100])
    assert [{result.task.epochs for result in rung} for rung in rungs] == [{4}, {8}, {40}]
    arms = [(block, depth) for block in ds.BLOCKS for depth in (10, 50)]
    for rung, first in zip(rungs, (0, 15, 18), strict=True):
        found = sorted((result.task.arm, result.task.index) for result in rung)
        assert found == sorted(product(arms, range(first, 20)))


def test_a_diverged_setting_does_not_go_on_however_low_its_loss_was():
    rungs = rungs_of(20, lambda trial: [0.001, None] if trial.index >= 15 else [1 + trial.index])
    assert {result.task.index for result in rungs[1]} == {0, 1, 2, 3, 4}


def test_a_setting_is_not_counted_twice_if_rungs_have_equal_epochs(workdir):
    """With a single epoch all rungs are the same."""
    flags = ("--dataset", "digits", "--configs", "4", "--depths", "3", "--epochs", "1")
    assert main("run", *flags) == 0
    log = read_log("runs/depth_search-digits-configs4-depths3-epochs1.json")
    assert len(log.results) == len({result.task for result in log.results}) == 8
    assert ds.last_rung(log.results) == log.results


# ---------------------------------------------------------------------------- the nets that are looked into


@pytest.mark.slow
def test_the_best_deep_highway_nets_of_the_usual_search_are_kept(small_mnist, workdir):
    data = ("--data-dir", str(small_mnist))
    assert main("run", *data, "--configs", "2", "--depths", "3,50,100", "--epochs", "2") == 0
    log = Path("runs/depth_search-configs2-depths3,50,100-epochs2.json")
    assert main("best", str(log), *data, "--seeds", "1") == 0
    assert not Path("models").exists(), "of other flags than the committed search's"
    log.rename("runs/depth_search.json")
    assert main("best", *data) == 0
    best = ds.best_of_arm(read_log("runs/depth_search.json").best)
    for depth in (50, 100):
        net = DeepNet.load(f"models/highway-{depth}.npz")
        assert (net.depth, net.hidden, net.config["block"]) == (depth - 1, 50, "highway")
        loss, _ = evaluate(net, *load_dataset("mnist", small_mnist)[:2], LOSSES["cross-entropy"])
        assert loss == pytest.approx(best["highway", depth].history.train_loss[-1], rel=1e-5)


@pytest.mark.parametrize("left", ["nothing", "another budget's checkpoint"])
def test_no_untrained_net_is_kept(digits, workdir, left):
    if left != "nothing":
        ds.run_best(replace(TRIAL, epochs=1), digits)
    with refused_with(ds.checkpoint_path(TRIAL)):
        ds.keep_net(TRIAL, digits, ds.MODEL)
    assert not Path("models").exists()


# -------------------------------------------------------------------------------------- the command line

SEARCH = ("--dataset", "digits", "--configs", "6", "--depths", "3,5", "--epochs", "20")
TRIALS = 4 * (6 + 2 + 1)


def run_search(*flags: str) -> ds.DepthSearchLog:
    """Run the search; returns its log."""
    assert main("run", *SEARCH, *flags) == 0
    return read_log()


def findings(log: ds.DepthSearchLog) -> dict:
    """All of a log but where, when and by which command it was made."""
    kept = asdict(log)
    del kept["created"], kept["command"], kept["environment"]
    for result in kept["results"]:
        del result["seconds"], result["environment"]
    return kept


def test_results_say_where_they_were_made_when_a_log_is_written_again(workdir, monkeypatch):
    """Made on a and b, whose results b puts into a log; trained again on c, from where d has them."""
    here = replace(logs.environment(), samples=logs.digest_of_samples(load_dataset("digits")))
    searched = "runs/depth_search-digits-configs1-depths3-n_train200-epochs2"
    for name, trial in zip("ab", ds.draw_trials(1, (3,), **BUDGET), strict=True):
        for epochs in (1, 2):
            trial, losses = replace(trial, epochs=epochs), [1.0, 0.5][:epochs]
            result = ds.TrialResult(replace(here, cpu=name), trial, losses, False, 1.0)
            ResultFile(f"{searched}.jsonl", ds.TrialResult).append(result)
    flags = ["--dataset", "digits", "--configs", "1", "--depths", "3", "--n-train", "200", "--epochs", "2"]
    run, best = ["run", *flags], ["best", f"{searched}.json", *flags[:2], "--seeds", "1"]
    for machine, command in (("b", run), ("c", best), ("d", best)):
        there = replace(here, cpu=machine)
        monkeypatch.setattr(logs, "environment", lambda threads=1, programs=(), there=there: there)
        assert main(*command) == 0
        log = read_log(f"{searched}.json" if machine == "b" else f"{searched}-seeds1.json")
        assert log.environment == there
        assert [(result.environment or there).cpu for result in log.results] == ["b", "a", "b", "a"]
        assert [(run.environment or there).cpu for run in log.best] == ([] if machine == "b" else ["c", "c"])
        assert log.command == f"python -m experiments depth_search {shlex.join(run)}", "that of the search alone"
    assert log.best_command == f"python -m experiments depth_search {shlex.join(best)}"


@pytest.mark.slow
def test_a_search_that_is_run_again_keeps_the_runs_of_best(workdir):
    logs = []
    for command in ("run", "best", "run"):
        assert main(command, "--smoke") == 0
        logs.append(read_log("runs/depth_search-smoke.json"))
    assert [len(log.best) for log in logs] == [0, 12, 12]
    assert logs[2].best_command == logs[1].best_command == "python -m experiments depth_search best --smoke"
    assert not Path("models").exists(), "the nets of a smoke run are not kept"
    left = [*Path("runs/checkpoints").iterdir()]
    for path in left:
        path.write_bytes(b"of another training")
    assert main("best", "--smoke", "--fresh") == 0
    assert {path.read_bytes()[:2] for path in left} == {b"PK"}


BAD_ARGUMENTS = {
    "run --configs 0": "argument --configs: expected a number from 1 to 999999, found '0'",
    "run --n-train 1438": "--n-train: expected at most 1437 images, found 1438",
    "run --depths 1,10": "--depths: expected at least 2, found 1",
    "best --first-repeat 0": "argument --first-repeat: expected a number from 1 to 999999, found '0'",
    "best --arms highway-3,plain-7": "--arms: expected some of highway-3, highway-5, plain-3, plain-5, found plain-7",
    "best --seeds 999999": "runs: expected at most 100,000, found more",
}


@pytest.fixture(scope="module")
def smoke_log(tmp_path_factory) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("smoke"))
        assert main("run", "--smoke") == 0
        return Path("runs/depth_search-smoke.json").read_bytes()


@pytest.fixture
def searched(workdir, smoke_log) -> Path:
    """The log of a smoke run, named as that of a search on the digits."""
    path = Path("runs/depth_search-digits.json")
    path.parent.mkdir()
    path.write_bytes(smoke_log)
    return path


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS.items())
def test_a_wrong_argument_is_refused_and_writes_nothing(request, workdir, refused, arguments, message):
    if arguments.startswith("best"):
        request.getfixturevalue("searched")
    before = files_below(workdir)
    command, *flags = arguments.split()
    assert message in refused(main, command, "--dataset", "digits", *flags)
    assert files_below(workdir) == before


def test_best_and_plot_without_a_search_say_how_to_make_one(workdir, refused):
    expected = "expected a log, found: No such file or directory; make it with python -m experiments depth_search run"
    for command, step in ((["best", "--dataset", "digits"], ""), (["plot"], " --dataset mnist")):
        assert refused(main, *command).endswith(f"{expected}{step}\n")


def test_best_refuses_a_search_on_other_data_and_a_foreign_file(small_mnist, workdir, searched, refused):
    searched.with_stem(f"{searched.stem}-seeds1").write_text("Dear diary")
    before = files_below(workdir)
    on_mnist = refused(main, "best", str(searched), "--data-dir", str(small_mnist))
    assert f"{searched}: expected a search on mnist, found one on digits; add --dataset digits" in on_mnist
    assert "seeds1.json: expected " in refused(main, "best", "--dataset", "digits", "--seeds", "1")
    assert files_below(workdir) == before


@pytest.mark.parametrize(("activation", "indices"), [("tanh", [97, 10]), ("relu", [27, 31])])
def test_best_of_an_activation_takes_the_best_setting_that_has_it(committed, activation, indices):
    words = ["best", "--activation", activation, "--top", "1", "--seeds", "1", "--arms", "highway-50,plain-50"]
    trials = ds.plan_best(committed, ds.EXPERIMENT.parser.parse_args(words))
    assert [(trial.activation, trial.index) for trial in trials] == [(activation, index) for index in indices]


def test_best_trains_some_arms_from_later_seeds_for_longer(searched):
    flags = ("--first-repeat", "4", "--seeds", "2", "--arms", "highway-3", "--epochs", "11", "--top", "1")
    assert main("best", "--dataset", "digits", *flags) == 0
    log = read_log("runs/depth_search-digits-top1-seeds2-first_repeat4-armshighway-3-epochs11.json")
    trials, usual = [run.task for run in log.best], ds.by_arm(ds.last_rung(log.results))["highway", 3][0].task
    assert [(trial.arm, trial.repeat, trial.epochs) for trial in trials] == [(("highway", 3), of, 11) for of in (4, 5)]
    for trial in trials:
        assert trial.decay**10 == pytest.approx(usual.decay ** (usual.epochs - 1)), "the last rate is the same"


# ----------------------------------------------------------------------------------------- cut short


def test_a_run_goes_on_from_its_checkpoint(digits, workdir, monkeypatch):
    trial, train_epoch, trained = replace(TRIAL, epochs=4), Training._train_epoch, []

    def interrupted(training):
        trained.append(training.epoch)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return train_epoch(training)

    monkeypatch.setattr(Training, "_train_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ds.run_best(trial, digits)
    found = without_seconds(ds.run_best(trial, digits))
    assert trained == [0, 1, 2, 2, 3]
    ds.checkpoint_path(trial).unlink()
    assert without_seconds(ds.run_best(trial, digits)) == found


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"dataset": "../../escaped"}, ["task.dataset", "Invalid enum value", "../../escaped"]),
        ({"dataset": "mnist"}, ["expected trials on digits, found some on mnist"]),
        ({"block": "brick"}, ["task.block", "brick"]),
        ({"activation": "../relu"}, ["task.activation", "../relu"]),
        ({"lr": -1.0}, ["`lr`: expected", "-1"]),
        ({"depth": 0}, ["`depth`: expected", "-1"]),
        ({"n_train": 0}, ["results[0].task"]),
    ],
)
def test_a_search_of_trials_that_no_run_could_have_is_refused(workdir, refused, change, parts):
    """Names of trials become names of files."""
    trial = ds.draw_trials(1, [3], dataset="digits", n_train=100, epochs=1)[0]
    log = json.loads(logs.dumps(made_up.search_log([made_up.search_result(trial, 0.5)])))
    log["results"][0]["task"] |= change
    Path("runs").mkdir()
    Path("runs/log.json").write_text(json.dumps(log))
    error = refused(ds.EXPERIMENT.main, ["best", "runs/log.json", "--dataset", "digits"])
    assert all(part in error for part in ["log.json: expected a log of this version", *parts]), error
    assert [*files_below(workdir)] == ["runs/log.json"]


@pytest.mark.slow
def test_a_search_that_was_cut_short_repeats_no_finished_run(workdir):
    """Cut in the middle of a line, and continued by two processes."""
    whole = run_search()
    shutil.rmtree("runs")
    results = ResultFile(f"{LOG}.jsonl", ds.TrialResult)
    for done in whole.results[:25]:
        results.append(replace(done, environment=whole.environment))
    safe = results.path.read_bytes()
    results.path.write_bytes(safe + safe[:40])
    assert findings(run_search("--jobs", "2")) == findings(whole)
    assert results.path.read_bytes().startswith(safe)
    assert results.path.read_bytes().count(b"\n") == TRIALS
