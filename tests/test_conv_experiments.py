"""Experiments on convolutional nets: what is run and chosen, rules at their borders."""

import math
from dataclasses import replace

import numpy as np
import pytest

from conv_recipes import configure
from experiments import conv_tables
from experiments.claims import Verdict
from experiments.study import ArmCell, Measured, Results, StudyRun, Task, gains
from highway_lab.intervals import interval
from highway_lab.training import Training

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE


def runs_of(net: str, *accuracies: float, **fields: object) -> list[StudyRun]:
    """Return a run for each test accuracy, with a seed of its own; NaN diverged."""
    runs = []
    for seed, accuracy in enumerate(accuracies):
        config = configure(net, **{"epochs": 20, "n_test": 10_000, "seed": seed} | fields)
        measured = Measured(None, None, None if math.isnan(accuracy) else accuracy, None, None)
        task = Task(ArmCell(config.block), (), config, "scored")
        runs.append(StudyRun(None, task, 1000, math.isnan(accuracy), {}, measured))
    return runs


# ---------------------------------------------------------------------------------------- what is run


def test_a_killed_run_resumes_and_another_data_set_does_not_resume_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    task = Task(ArmCell("highway"), (), config, "scored")
    whole = conv_tables.train(task, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_tables.train(task, digits)
    assert (again, seen) == (whole, []), "its checkpoint is of the last epoch"
    other = digits._replace(train_x=255 - digits.train_x)
    configs = (config, replace(config, lr=1.0))
    assert len({conv_tables.checkpoint_path(of, data) for of in configs for data in (digits, other)}) == 4


def test_a_run_that_chooses_is_scored_on_validation_images(workdir, digits):
    config = configure("digits", epochs=1, n_train=100, n_validation=20, n_test=30)
    for result, column in (("", "validation_score"), ("scored", "test_score")):
        run = conv_tables.train(Task(ArmCell("highway"), (), config, result), digits)
        assert run.measured.score == run.history[column][-1]


@pytest.mark.parametrize("ending", conv_tables.STUDY)
def test_a_study_on_the_digits_is_counted_and_drawn(workdir, digits, ending):
    study, runs = conv_tables.STUDY[ending].small(), []
    while tasks := Results(study, runs).next_tasks(least=99):
        runs += [StudyRun(None, task, 1, False, {}, Measured(None, None, 0.9, None, None)) for task in tasks]
    found = {ending: Results(study, runs)}
    assert conv_tables.numbers(found)["accuracy"]
    assert conv_tables.figure(found)


# ------------------------------------------------------------------------------ tables 1 and 2


@pytest.mark.parametrize(
    ("net", "accuracies", "fields", "verdict"),
    [
        ("mnist-16", (0.994, 0.9942, 0.9939), {}, REPRODUCED),
        ("mnist-16", (0.992, 0.9921, 0.9919), {}, INCONCLUSIVE),  # in fewer epochs than the paper's
        ("mnist-16", (0.992, 0.9921, 0.9919), {"epochs": 300}, NOT_REPRODUCED),
        ("mnist-16", (0.994,), {}, INCONCLUSIVE),  # by its test images
        ("mnist-16", (0.999, math.nan), {}, INCONCLUSIVE),
        ("highway-a", (0.89,), {"n_test": 1000}, INCONCLUSIVE),
        ("highway-a", (0.91,), {"n_test": 1000}, REPRODUCED),
    ],
)
def test_a_net_is_as_good_as_the_papers_by_the_interval_over_seeds_or_images(net, accuracies, fields, verdict):
    runs = runs_of(net, *accuracies, **fields)
    assert conv_tables.judge_net(runs, conv_tables.PAPER[net]) == verdict


def test_images_count_beside_seeds_where_a_part_of_them_is_scored():
    part, whole = (runs_of("highway-a", 0.88, 0.89, 0.9, n_test=n) for n in (1000, 10_000))
    images = 1.96 * 100 * math.sqrt(0.89 * 0.11 / 1000)
    seeds = interval([88, 89, 90])
    assert conv_tables.lead(whole, 89) == pytest.approx((0, seeds.half))
    assert conv_tables.lead(part, 89) == pytest.approx((0, math.hypot(seeds.half, images)))
    assert conv_tables.lead(part[1:2], 89) == pytest.approx((0, images))


def test_runs_are_compared_seed_by_seed():
    runs, others = runs_of("mnist-8", 0.9, 1.0), runs_of("mnist-8", 0.8, 0.9, 0.8)[::-1]
    np.testing.assert_allclose(gains(runs, others), [10, 10])
