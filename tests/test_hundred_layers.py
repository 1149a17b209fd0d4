"""Nets of 100 layers with clipped gradients: what is planned, what is counted, and by which rules it is judged."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import pytest

from experiments import hundred_layers as hl
from experiments.claims import LOSS_MARGIN, Verdict
from experiments.hundred_layers_figures import (
    FIGURES,
    TABLES,
    claims,
    drawn_losses,
    find_leads,
    losses_table,
    settings_table,
    standing,
)
from highway_lab import checkpoints
from highway_lab.logs import DatasetInfo, dumps, loads
from highway_networks import BLOCKS, DeepNet

LOG = Path("runs/hundred_layers-smoke.json")
BUDGET = {"depth": 4, "epochs": 3, "n_train": 256, "n_test": 100, "n_scored": 200}
CHOSEN = {arm: hl.Setting(0.03, of.scales[0]) for arm, of in hl.ARMS.items()}


def finished(task: hl.Task, loss: float | None, lowest: float | None = None) -> hl.HundredLayersRun:
    """A made-up run that ends with a loss, None if it diverges, after it had reached another, the lowest."""
    losses = [2.4, *[loss if lowest is None else lowest] * (task.config.epochs - 1), loss]
    score = None if loss is None or task.tunes else 0.9
    return hl.HundredLayersRun(None, task, 100, loss is None, 0.25, loss, score, [] if task.tunes else losses)


def task_of(arm: str, seed: int = 0, lr: float = 0.03) -> hl.Task:
    return hl.make_task(arm, hl.Setting(lr, hl.ARMS[arm].scales[0]), seed, BUDGET)


# ------------------------------------------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def tuned(as_many_as_mnist) -> tuple[list[list[hl.Task]], list[hl.HundredLayersRun]]:
    """What is tried, by stage, and how it ends where the rate 0.03 and the middle scale do best."""
    stages = []

    def finish(tasks: Sequence[hl.Task]) -> list[hl.HundredLayersRun]:
        stages.append([*tasks])
        worth = [(of.setting.lr == 0.03) + 2 * (of.scale == hl.ARMS[of.arm].scales[1]) for of in tasks]
        return [finished(task, 10.0**-good) for task, good in zip(tasks, worth, strict=True)]

    return stages, hl.tune(finish, as_many_as_mnist, smoke=False, arms=hl.ARMS)


def test_every_arm_has_as_many_tries_and_no_run_is_made_twice(tuned, as_many_as_mnist):
    (first, second), tried = tuned
    assert Counter(task.arm for task in first) == dict.fromkeys(hl.ARMS, 12)
    assert Counter(task.arm for task in second) == dict.fromkeys(hl.ARMS, 2 * hl.FINALISTS)
    chosen = hl.chosen_settings(tried)
    assert chosen == {arm: hl.Setting(0.03, of.scales[1]) for arm, of in hl.ARMS.items()}
    short, long = (plan(as_many_as_mnist, False, chosen) for plan in (hl.plan, hl.plan_long))
    assert Counter(task.arm for task in short) == dict.fromkeys(hl.ARMS, 5)
    assert Counter(task.arm for task in long) == dict.fromkeys(hl.LONG_ARMS, 10)
    everything = [*first, *second, *short, *long]
    assert len(everything) == len({task.config for task in everything}) == 6 * (12 + 6 + 5) + 40
    assert {task.config.epochs for task in first} == {10}
    assert {task.config.epochs for task in second + short} == {40}
    assert {task.config.epochs for task in long} == {400}
    assert {task.setting for task in long if task.arm == hl.PLAIN} == {hl.Setting(lr, 1.05) for lr in (0.03, 0.015)}


def test_seeds_that_tune_do_not_score(tuned, as_many_as_mnist):
    (first, second), _ = tuned
    scored = hl.plan(as_many_as_mnist, False, CHOSEN) + hl.plan_long(as_many_as_mnist, False, CHOSEN)
    assert {task.config.seed for task in first} == {hl.TUNING_SEEDS[0]}
    assert {task.config.seed for task in second} == set(hl.TUNING_SEEDS)
    assert {task.config.seed for task in scored} == set(hl.SEEDS)
    assert not set(hl.SEEDS) & set(hl.TUNING_SEEDS)
    assert [task.tunes for task in (*first, *second, *scored)] == [True] * 6 * (12 + 6) + [False] * (6 * 5 + 40)


def test_all_nets_are_trained_alike_and_a_block_has_as_many_parameters(as_many_as_mnist):
    for task in hl.plan(as_many_as_mnist, False, CHOSEN) + hl.plan_long(as_many_as_mnist, False, CHOSEN):
        config, steps = task.config, task.config.epochs * 469
        assert (config.depth, config.optimizer, config.momentum) == (99, "momentum", 0.9)
        assert (config.n_train, config.n_test, config.batch_size, config.clip) == (60_000, 10_000, 128, 5.0)
        assert config.lr_decay ** (steps - 1) == pytest.approx(0.05, rel=1e-6)
        own = {hl.ORTHOGONAL: ("tanh", "orthogonal"), hl.RELU: ("relu", "he")}
        assert (config.activation, config.init) == own.get(task.arm, ("tanh", "glorot"))
        trained = len(set(BLOCKS[config.block].branches) - {"A"}) * config.hidden * (config.hidden + 1)
        assert trained == pytest.approx(5_100, rel=0.01)


def test_the_own_scale_of_an_arm_reaches_its_net():
    for arm, of in hl.ARMS.items():
        configs = [hl.make_task(arm, hl.Setting(0.01, scale), 0, BUDGET).config for scale in of.scales]
        assert len({(config.block, config.gate_bias, config.init_gain) for config in configs}) == len(of.scales) == 3
    assert hl.make_task(hl.RESIDUAL, hl.Setting(0.01, 0.5), 0, BUDGET).config.block == "residual-scaled-0.5"
    assert hl.make_task(hl.REZERO, hl.Setting(0.01, 10.0), 0, BUDGET).config.block == "rezero-10"


def test_the_lowest_mean_over_both_seeds_is_chosen_and_failures_are_alike():
    losses = {0.003: (0.01, 0.01), 0.01: (0.0001, None), 0.03: (0.0001, 2.3), 0.1: (1e-6,)}
    tried = [
        finished(task_of(hl.PLAIN, seed, lr), loss)
        for lr, of_seeds in losses.items()
        for seed, loss in zip(hl.TUNING_SEEDS, of_seeds, strict=False)
    ]
    ranked = [setting.lr for setting in hl.rank_settings(tried)[hl.PLAIN]]
    assert ranked == [0.003, 0.01, 0.03, 0.1], "of equal ones the lower rate is first, as both failures count alike"


def test_a_longer_try_decides_whatever_a_shorter_one_reached():
    shorter, longer = (task_of(hl.PLAIN, hl.TUNING_SEEDS[0], lr) for lr in (0.01, 0.03))
    shorter = replace(shorter, config=replace(shorter.config, epochs=1))
    before = replace(longer, config=replace(longer.config, epochs=1))
    tried = [finished(shorter, 1e-6), finished(before, None), finished(longer, 1e-3)]
    assert hl.chosen_settings(tried) == {hl.PLAIN: longer.setting}
    assert hl.tried_longest(tried) == tried[2:]


# ---------------------------------------------------------------------------------------------- training


def test_a_rezero_net_trains_one_number_a_unit_and_its_frozen_weights_stay_0(digits):
    task = task_of(hl.REZERO, lr=0.1)
    training = hl.ClippedTraining(task, digits)
    params = training.net.params
    assert not params["W_A"].any()
    assert not params["b_A"].any()
    for _ in training.epochs():
        assert not params["W_A"].any()
    assert params["b_A"].all()
    run = hl.run_task(task, digits)
    assert run.n_trained == params.flat.size - 4 * 71 * 71
    assert hl.run_task(task_of(hl.PLAIN), digits).n_trained == 65 * 71 + 4 * 71 * 72 + 72 * 10


def test_clipped_steps_are_counted(digits):
    task = task_of(hl.HIGHWAY, lr=1e-9)  # so small a step leaves the gradients as they are
    norms = []

    class Listening(hl.ClippedNet):
        def train_step(self, *batch, **options):
            norms.append(DeepNet.train_step(self, *batch, **options)[1])
            return 1.0, norms[-1]

    training = hl.ClippedTraining(task, digits)
    training.net.__class__ = Listening
    for _ in training.epochs():
        pass
    assert len(norms) == 3 * 2
    limits = [(math.inf, 0), (0.0, 0), (float(np.mean(sorted(norms)[3:5])), 2 / 6), (1e-9, 1)]
    for clip, share in limits:
        config = replace(task.config, clip=min(clip, 1e9))
        assert hl.run_task(replace(task, config=config), digits).clipped == pytest.approx(share, abs=1e-5)


def test_a_run_that_tunes_sees_no_test_image(digits):
    noise = digits._replace(test_x=255 - digits.test_x, test_y=digits.test_y[::-1].copy())
    task = task_of(hl.HIGHWAY, hl.TUNING_SEEDS[0])
    found, same = (hl.run_task(task, data) for data in (digits, noise))
    assert found == same
    assert (found.test_score, found.losses) == (None, [])
    assert found.train_loss > 0


def test_a_diverged_run_is_recorded_without_losses(digits):
    task = task_of(hl.RESIDUAL)
    config = replace(task.config, lr=3e38, clip=0.0)
    run = hl.run_task(replace(task, config=config), digits)
    assert (run.diverged, run.failed, run.train_loss, run.test_score) == (True, True, None, None)
    assert run.losses[-1] is None
    assert hl.log_loss(run, hl.LOWEST) == math.log10(math.log(10))
    assert drawn_losses(run)[-1] == math.log(10)


def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_record(workdir, digits, monkeypatch):
    task = task_of(hl.HIGHWAY, lr=0.1)
    task = replace(task, config=replace(task.config, clip=0.8))
    whole, save, saved = hl.run_long(task, digits, dataset="whole"), checkpoints.save, []

    def save_twice(path, training):
        if len(saved) == 2:
            raise KeyboardInterrupt
        save(path, training)
        saved.append(training.epoch)

    monkeypatch.setattr(checkpoints, "save", save_twice)
    with pytest.raises(KeyboardInterrupt):
        hl.run_long(task, digits, dataset="killed")
    assert saved == [0, 1]
    again = []
    monkeypatch.setattr(checkpoints, "save", lambda path, training: again.append(training.epoch))
    assert hl.run_long(task, digits, dataset="killed") == whole
    assert again == [2, 3]
    assert 0 < whole.clipped < 1, "the counts of clipped steps go on, too"
    assert whole == hl.run_task(task, digits)


def test_the_experiment_runs_all_steps_and_reads_its_logs(workdir, refused):
    message = refused(hl.EXPERIMENT.main, ["run", "--smoke", "--long"])
    assert message.endswith("make it with python -m experiments hundred_layers run --smoke\n")
    assert hl.EXPERIMENT.main(["run", "--smoke"]) == 0
    for more in ("--long", "--relu"):
        assert hl.EXPERIMENT.main(["run", "--smoke", more]) == 0
    short, long, relu = map(hl.EXPERIMENT.read, [LOG, *(LOG.with_stem(LOG.stem + of) for of in ("-long", "-relu"))])
    assert (short.judged_by, long.judged_by, long.tried) == (hl.FINAL, hl.LOWEST, [])
    assert {run.task.arm for run in short.runs} == set(hl.FIRST_ARMS)
    assert {run.task.arm for run in relu.tried + relu.runs} == {hl.RELU}
    chosen = hl.chosen_settings(short.tried)
    assert {run.task.setting for run in short.runs if run.task.arm == hl.REZERO} == {chosen[hl.REZERO]}
    for arm in hl.LONG_ARMS:
        rates = {run.config.lr for run in long.runs if run.task.arm == arm}
        assert rates == {chosen[arm].lr, chosen[arm].lr / 2}
    for logs in ([short], [short, long, relu], [long], [relu]):
        for make in (*FIGURES.values(), *TABLES.values()):
            make(*logs)


def test_a_log_of_a_run_with_lost_epochs_is_refused():
    run = finished(task_of(hl.PLAIN), 0.5)
    assert loads(dumps(run).encode(), hl.HundredLayersRun) == run
    with pytest.raises(ValueError, match="expected 4 entries in losses, found 3"):
        loads(dumps(replace(run, losses=run.losses[1:])).encode(), hl.HundredLayersRun)
    with pytest.raises(ValueError, match="unless the run diverged"):
        loads(dumps(replace(run, diverged=True)).encode(), hl.HundredLayersRun)


# ---------------------------------------------------------------------------------------------- verdicts

SPREAD = (0.9, 0.95, 1.0, 1.05, 1.1)  # of the losses of five seeds
LOSSES = {hl.HIGHWAY: 1e-4, hl.RELU: 1e-4, hl.PLAIN: 0.1, hl.ORTHOGONAL: 0.1, hl.RESIDUAL: 0.1, hl.REZERO: 0.1}


def log_of(
    judged_by: str = hl.LOWEST, runs: Sequence[hl.HundredLayersRun] = (), **losses: float
) -> hl.HundredLayersLog:
    """Return a log of five seeds an arm that differ by a tenth; `runs` are instead of those of their arms."""
    instead, own = {run.task.arm for run in runs}, LOSSES | losses
    arms = [arm for arm in (hl.ARMS if judged_by == hl.FINAL else hl.LONG_ARMS) if arm not in instead]
    made = [
        finished(task_of(arm, seed), own[arm] * of) for arm in arms for seed, of in zip(hl.SEEDS, SPREAD, strict=True)
    ]
    constants = {"margin": LOSS_MARGIN, "at_chance": hl.AT_CHANCE, "judged_by": judged_by, "tried": []}
    return made_up.log(hl.HundredLayersLog, DatasetInfo("mnist", 60_000, 10_000), **constants, runs=[*made, *runs])


def five(arm: str, *ends: tuple[float | None, float | None]) -> list[hl.HundredLayersRun]:
    """Five runs of an arm, each by the loss that it ends with and the lowest that it had reached."""
    return [finished(task_of(arm, seed), *end) for seed, end in zip(hl.SEEDS, ends, strict=True)]


@pytest.mark.parametrize(
    ("plain", "verdict"), [(0.1, Verdict.REPRODUCED), (0.0101, Verdict.INCONCLUSIVE), (0.005, Verdict.NOT_REPRODUCED)]
)
def test_two_orders_are_judged_by_the_interval_of_the_lead(plain, verdict):
    paper, orthogonal, residual, *_ = claims(log_of(plain=plain))
    assert paper.verdict == verdict
    assert (orthogonal.verdict, residual.verdict) == (Verdict.REPRODUCED, Verdict.REPRODUCED)
    assert [claim.detail for claim in (paper, orthogonal, residual)] == [False, True, True]


GOOD, DIVERGED, FELL = (1e-4, None), (None, 1e-5), (2.2, 1e-5)  # the last two had been better than the first


@pytest.mark.parametrize("failures", [(DIVERGED, DIVERGED), (DIVERGED, FELL), (FELL, FELL)])
def test_diverged_runs_and_runs_at_chance_count_alike_whatever_they_had_reached(failures):
    log = log_of(runs=five(hl.HIGHWAY, GOOD, GOOD, GOOD, *failures))
    losses = hl.log_losses(standing(log)[hl.HIGHWAY], hl.LOWEST)
    np.testing.assert_allclose(losses, [-4, -4, -4, *[math.log10(math.log(10))] * 2])
    lead = find_leads(log)[hl.PLAIN].orders
    assert lead.value == pytest.approx(-1.0 - (3 * -4 + 2 * 0.362) / 5, abs=0.01)
    assert claims(log)[0].verdict == Verdict.INCONCLUSIVE, "none is left out"
    claim, *_ = claims(log)
    assert claim.why.startswith(
        "Beside the loss of plain nets after 3 epochs, that of highway nets is 18 times lower. "
    )
    assert claim.why.endswith("count as guesses: 2 of 5 highway nets and 0 of 5 plain nets.")


def test_a_run_that_only_ends_worse_than_it_was_counts_with_its_lowest_loss_in_the_long_run():
    run = finished(task_of(hl.PLAIN), 0.5, 0.01)
    assert hl.log_loss(run, hl.LOWEST) == pytest.approx(-2)
    assert hl.log_loss(run, hl.FINAL) == pytest.approx(math.log10(0.5))
    assert hl.log_loss(finished(task_of(hl.PLAIN), 0.0), hl.FINAL) == math.log10(hl.FLOOR)


def test_the_table_shows_what_is_found_if_failed_runs_count_with_their_earlier_loss():
    runs = five(hl.HIGHWAY, *[DIVERGED] * 4, FELL)
    row = next(line for line in losses_table(log_of(runs=runs)).splitlines() if line.startswith("| highway"))
    assert "| 2.3 (2.3 to 2.3) | 2.3 (2.3 to 2.3) | 1e-05 (1e-05 to 1e-05) | 4 of 5 | 1 of 5 | 25.0 |" in row


def test_of_two_rates_the_one_of_the_lower_mean_stands_for_the_arm():
    slower = [replace(run, task=task_of(hl.PLAIN, run.config.seed, 0.015)) for run in five(hl.PLAIN, *[GOOD] * 5)]
    faster = five(hl.PLAIN, *[(1e-5, None)] * 4, DIVERGED)
    log = log_of(runs=[*faster, *slower])
    assert {run.config.lr for run in standing(log)[hl.PLAIN]} == {0.015}
    equal = [replace(run, train_loss=2.3) for run in slower]
    log = log_of(runs=[*equal, *five(hl.PLAIN, *[DIVERGED] * 5)])
    assert {run.config.lr for run in standing(log)[hl.PLAIN]} == {0.03}, "of equal ones the chosen one"


def test_a_lead_must_stay_significant_after_the_correction():
    """One whose interval alone excludes 0 is inconclusive beside two others of none, and stands beside two sure."""
    noisy = five(hl.PLAIN, *((loss, None) for loss in (2e-4, 1.3e-4, 4e-4, 1.3e-4, 2.5e-4)))
    for others, words in ((1e-4, "inconclusive"), (0.1, "ahead")):
        leads = find_leads(log_of(runs=noisy, **{hl.ORTHOGONAL: others, hl.RESIDUAL: others}))
        assert leads[hl.PLAIN].orders.low > 0
        assert leads[hl.PLAIN].words == words
        assert (leads[hl.PLAIN].verdict == Verdict.REPRODUCED) == (words == "ahead")


@pytest.mark.parametrize(
    ("plain", "words", "verdict"),
    [
        (1.0e-4, "alike", Verdict.NOT_REPRODUCED),
        (1.5e-4, "alike, but ahead", Verdict.REPRODUCED),
        (0.5e-4, "behind", Verdict.NOT_REPRODUCED),
        (1.0e-2, "ahead", Verdict.REPRODUCED),
    ],
)
def test_nets_are_alike_within_the_margin(plain, words, verdict):
    lead = find_leads(log_of(plain=plain))[hl.PLAIN]
    assert (lead.words, lead.verdict) == (words, verdict)


def test_nets_that_have_not_learned_are_not_alike():
    failed = [run for arm in (hl.HIGHWAY, hl.PLAIN) for run in five(arm, *[DIVERGED] * 3, FELL, FELL)]
    log = log_of(runs=failed)
    assert find_leads(log)[hl.PLAIN].words == "no run has learned"
    assert find_leads(log)[hl.PLAIN].p == 1
    assert claims(log)[0].verdict == Verdict.NOT_REPRODUCED


def test_without_the_long_runs_their_claims_are_not_tested():
    *of_long, of_short, _ = claims(log_of(hl.FINAL))
    assert {claim.verdict for claim in of_long} == {Verdict.NOT_TESTED}
    assert of_long[0].why.startswith(
        "No net was trained for 400 epochs. Beside the loss of plain nets after 3 epochs, "
    )
    assert of_short.verdict == Verdict.REPRODUCED
    assert "over ReZero" in of_short.measured
    *of_long, of_short, _ = claims(log_of(hl.FINAL, **{hl.REZERO: 1e-5}), log_of())
    assert {claim.verdict for claim in of_long} == {Verdict.REPRODUCED}
    assert of_short.verdict == Verdict.PARTLY


def test_highway_nets_with_relu_are_compared_with_the_others_and_stand_in_a_log_of_their_own():
    whole = log_of(hl.FINAL, **{hl.RELU: 0.1})
    first, relu = (
        replace(whole, runs=[run for run in whole.runs if (run.task.arm == hl.RELU) == of]) for of in (False, True)
    )
    assert claims(first, relu) == claims(whole)
    *_, of_tanh, of_relu = claims(whole)
    assert (of_tanh.verdict, of_relu.verdict) == (Verdict.REPRODUCED, Verdict.NOT_REPRODUCED)
    assert "highway nets with ReLU" in of_relu.paper
    assert hl.HIGHWAY not in find_leads(whole, hl.RELU)
    assert losses_table(first, relu) == losses_table(whole)


def test_a_choice_at_an_end_of_what_was_tried_is_named():
    log = log_of(hl.FINAL)
    log.tried = [finished(task_of(hl.PLAIN, seed, 0.1), 0.01) for seed in hl.TUNING_SEEDS]
    assert settings_table(log).endswith("chosen at an end: plain (0.1). Scale at an end: plain (1).")
