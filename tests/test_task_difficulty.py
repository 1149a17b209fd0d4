"""Nets that learn tasks of several difficulties: what is measured of each, which count, and the rule of the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import task_difficulty as td
from experiments.claims import Verdict
from experiments.digit_pairs import pair_digits
from experiments.partly_frozen import ArmConfig
from experiments.study import StudyRun, Task
from highway_lab.nets import without
from highway_lab.training import Training
from highway_networks import as_inputs

REPRODUCED, _, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict
SMALL = ArmConfig(depth=4, hidden=6, gate_bias=-1.0, optimizer="momentum", lr=0.05, epochs=3, n_train=100, n_test=60)
CELL = td.LabelledCell("ReLU", "sum")


def test_blocks_are_closed_one_by_one_and_from_the_last(digits):
    """Of four blocks the third alone is open, and writes what it is given, negated: without it, labels change."""
    net = Training(SMALL, digits).net
    net.params["W_T"] = net.params["W_H"] = 0
    net.params["b_T"] = -30
    net.params["b_T"][2] = 30
    net.params["W_H"][2] = -3 * np.eye(6)
    labels = net.predict(as_inputs(digits.train_x)).argmax(axis=1)
    data = digits._replace(train_y=labels)
    wrong = np.mean(without(net, [2]).predict(as_inputs(data.train_x)).argmax(axis=1) != data.train_y)
    seen = td.see(net, data, error=0.0)
    examined = td.Examined(guess_error=wrong, trained=seen, without_blocks=None)
    run = StudyRun(None, Task(CELL, (0.05,), SMALL, "scored"), 1, False, {}, examined)
    assert (td.needed(run), td.needed(run, of_lead=1.1)) == (3, 0)
    assert seen.closed_from_back == pytest.approx([0, 0, wrong, wrong, wrong], abs=1e-6)
    assert wrong > 0.5


def test_a_net_is_measured_on_the_pairs_that_it_learns_and_one_without_blocks_beside_it(digits):
    data = pair_digits(digits, "sum", result=True)
    config = replace(SMALL, n_train=len(data.train_y))
    run = td.train(Task(CELL, (0.05,), config, "scored"), digits)
    found = run.measured
    errors = []
    for of in (config, replace(config, depth=0)):
        training = Training(of, data)
        for _ in training.epochs(scored=False):
            pass
        errors.append(np.mean(training.net.predict(as_inputs(data.train_x)).argmax(axis=1) != data.train_y))
    assert (run.diverged, run.n_trained) == (False, Training(config, data).net.params.flat.size)
    assert [found.trained.error, found.without_blocks] == pytest.approx(errors, abs=1e-6)
    commonest = max(np.count_nonzero(data.train_y == label) for label in range(10))
    assert found.guess_error == pytest.approx(1 - commonest / len(data.train_y), abs=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverged_net_has_no_measures_and_one_has_learned_that_is_five_points_better_than_a_guess(digits):
    config = replace(SMALL, activation="relu", lr=1e12, clip=0.0, n_train=200)
    run = td.train(Task(CELL, (0.05,), config, "scored"), digits)
    of = run.measured
    assert (run.diverged, of.trained, td.has_learned(run)) == (True, None, False)
    for gain, learned in ((0.04, False), (0.06, True)):
        of.trained = td.Seen(of.guess_error - gain, [1.0])
        assert td.has_learned(run) == learned


USUAL = {"two classes": [5] * 5, "parity": [8] * 5, "ten classes": [11, 12, 13], "sum": [19, 20, 21], "random": []}


@pytest.mark.parametrize(
    ("changed", "verdict"),  # the blocks that nets need which have learned
    [
        ({}, REPRODUCED),
        ({"sum": [19, 21]}, INCONCLUSIVE),  # too few
        ({"ten classes": [12, 12]}, INCONCLUSIVE),
        ({"sum": [11, 11, 12, 13, 13]}, NOT_REPRODUCED),
        ({"sum": [9, 15, 18]}, INCONCLUSIVE),  # two more or none
        ({"ten classes": [12] * 3, "sum": [12, *[13] * 7]}, REPRODUCED),
        (
            {"ten classes": [12] * 3, "sum": [12, *[13] * 7], "parity": [40] * 3, "two classes": [50] * 3},
            NOT_REPRODUCED,
        ),
        ({"two classes": [39, 40, 41], "parity": [39] * 3, "random": [3] * 3}, INCONCLUSIVE),  # the ranks fall
        ({"two classes": [99], "random": [3, 3]}, REPRODUCED),  # these do not count
    ],
)
def test_a_task_counts_if_three_nets_have_learned_it(changed, verdict):
    assert td.verdict_of(USUAL | changed) == verdict


def test_kendalls_tau():
    assert [td.tau(of) for of in ([1, 2, 3], [3, 2, 1], [4, 4], [1])] == [1, -1, 0, 0]
    assert td.tau([1, 3, 2]) == pytest.approx(1 / 3)
