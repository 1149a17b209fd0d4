"""A thousand layers by SGD: what is measured of their blocks, and what the rules say of made-up nets."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import ROOT, SOME_ENVIRONMENT

from experiments import thousand_layers as tl
from experiments.common import load
from experiments.partly_frozen import ArmConfig
from experiments.study import Cell, Results, StudyRun
from highway_lab.nets import without
from highway_lab.training import Training
from highway_networks import as_inputs

GUESSING = tl.GUESSING
SHORT = ArmConfig(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)


def test_guessing_costs_the_entropy_of_the_classes():
    shares = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]) / 60_000  # digits of each class
    assert -shares @ np.log(shares) == pytest.approx(GUESSING, abs=5e-6)


@pytest.mark.parametrize(
    ("scores", "needed"),
    [
        ([0.9, 0.9, 0.9, 0.9], 0),
        ([0.9, 0.8, 0.9, 0.9], 2),  # one k that happens to do is not enough
        ([0.1, 0.8995, 0.95, 0.9], 1),  # more than all have is no lack
        ([0.1, 0.2, 0.3, 0.9], 5),
    ],
)
def test_as_many_blocks_are_needed_as_keep_the_score_from_there_on(scores, needed):
    """With all but 0, 1, 2 and 5 of its blocks closed."""
    assert tl.count_needed(scores) == needed


def test_only_an_open_block_is_needed(digits):
    """Of four blocks the third alone is open, and writes what it is given, negated: without it, labels change."""
    training = Training(SHORT, digits)
    net, params, x = training.net, training.net.params, as_inputs(training.data.test_x)
    params["W_T"] = params["W_H"] = 0
    params["b_T"] = -30
    params["b_T"][2] = 30
    params["W_H"][2] = -3 * np.eye(8)
    training.data = training.data._replace(test_y=net.predict(x).argmax(axis=1))  # so the net makes no error
    scores = tl.measure_blocks(training)
    closed = np.mean(without(net, range(4)).predict(x).argmax(axis=1) == training.data.test_y)
    assert scores == [closed, 1, 1, 1], "with 0, 1, 2 and 4 of them open"
    assert tl.count_needed(scores) == 1
    assert closed < 0.5


def test_what_residual_blocks_do_is_what_they_add_to_no_branches(digits):
    training = Training(replace(SHORT, **tl.OPTIONS["residual, scaled"]), digits)
    for _ in training.epochs():
        pass
    params, data = training.net.params, training.data
    x = np.tanh(params["W_in"] @ training.net.preprocess(data.test_x).T + params["b_in"][:, None])
    labels = (params["W_out"] @ x + params["b_out"][:, None]).argmax(axis=0)
    scores = tl.measure_blocks(training)
    assert scores == pytest.approx([np.mean(labels == data.test_y), training.history.test_score[-1]])


def test_an_input_is_carried_by_what_all_untrained_gates_leave(digits):
    task = tl.STUDY[""].small().task(Cell(tl.HIGHWAY[-4.0], 50, 1000), tl.STUDY[""].small().stages[-1], (0.1,), 200)
    training = Training(task.config, digits)
    T = training.net.gate_means(training.net.preprocess(training.data.train_x[: tl.GATE_IMAGES]))
    assert tl.train(task, digits).measured.carried == pytest.approx(np.prod(1 - T), rel=1e-3)


USUAL = {"plain": 0.11, "residual": 0.5}


def made_up(score: dict, loss: dict, lost: float, share: float) -> dict:
    """Results of nets that score 95 %, train, and need ten blocks, but for those named by arm or by arm and blocks.

    Validation prefers scaled residual nets and, of highway nets, those from −20, before −6; seeds differ by 0.1 points.
    """

    def measured(task):
        arm, seed = task.cell.arm, task.config.seed
        best = 0.95 if task.cell.depth < 1000 else USUAL.get(arm, 0.95)
        reached = score.get((arm, task.cell.depth), best) + 0.001 * (seed - 1)
        own_loss = loss.get(arm, 0.2) * 1.001**seed
        validation = {"residual, scaled": 0.1, tl.HIGHWAY[-20.0]: 0.1, tl.HIGHWAY[-6.0]: 0.2}.get(arm, 0.3)
        return tl.DeepMeasured(own_loss, reached, validation, share, [*[reached - lost] * 4, reached, reached])

    found = {}
    for ending, study in tl.STUDY.items():
        runs = []
        while tasks := Results(study, runs).next_tasks(least=10**6):
            runs += [StudyRun(SOME_ENVIRONMENT, task, 1, False, {}, measured(task)) for task in tasks]
        found[ending] = Results(study, runs)
    return found


B4, B6, B8, B20 = tl.HIGHWAY.values()
RIVAL = "residual, scaled"


@pytest.mark.parametrize(
    ("made", "verdicts"),
    [
        ({}, {"stall": "reproduced", "blog": "reproduced", "used": "not reproduced", "struggle": "not reproduced"}),
        ({"loss": dict.fromkeys(tl.HIGHWAY.values(), GUESSING)}, {"stall": "not reproduced"}),
        (
            {"lost": 0.0, "loss": {B4: GUESSING, B6: GUESSING, B8: GUESSING}},
            {"stall": "reproduced", "blog": "partly"},
        ),
        ({"score": {(B20, 1000): 0.96}}, {"blog": "reproduced"}),  # more than stated is no less
        ({"score": {(B20, 1000): 0.94}, "lost": 0.0}, {"blog": "not reproduced"}),
        ({"score": {(B4, 1000): 0.93, (B6, 1000): 0.93}}, {"struggle": "reproduced"}),
        ({"score": {(B4, 1000): 0.93, (B6, 1000): 0.93, (RIVAL, 1000): 0.93}}, {"struggle": "not reproduced"}),
        ({"score": {(B6, 1000): 0.97}}, {"used": "partly"}),
        ({"score": {(RIVAL, 1000): 0.96, (B20, 1000): 0.97}}, {"residual": "reproduced"}),  # nets of copies apart
        ({"share": 0.011}, {"copies": "not reproduced"}),
        ({"share": 0.009}, {"copies": "reproduced"}),
    ],
)
def test_the_rules_at_their_borders(made, verdicts):
    told = tl.numbers(made_up(**{"score": {}, "loss": {}, "lost": 0.02, "share": 0.5} | made))
    assert {of: told["verdict"][of] for of in verdicts} == verdicts


def test_a_net_that_diverges_counts_as_one_that_guesses(digits):
    study = tl.STUDY[""].small()
    task = study.task(study.cells[0], study.stages[-1], (0.1,), 200)
    run = tl.train(replace(task, config=replace(task.config, lr=3e38)), digits)
    assert (run.diverged, run.measured) == (True, tl.DeepMeasured())
    assert (tl.judge_training([run, run, run]), tl.judge_training([run])) == ("not reproduced", "inconclusive")
    assert run.accuracy == 0.1


def test_long_training_takes_the_rates_that_were_chosen():
    experiment = load("thousand_layers")
    short = Results(tl.STUDY[""], experiment.read(ROOT / experiment.log_path()).runs)
    chosen = {cell.arm: short.chosen(cell)[0] for cell in short.finished if cell.depth in (0, tl.DEEPEST)}
    assert tl.LONG_RATES.items() <= chosen.items()
