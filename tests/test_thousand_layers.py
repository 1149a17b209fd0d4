"""A thousand layers by SGD: what is measured of their blocks, and what the rules say of made-up nets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import ROOT, SOME_ENVIRONMENT

from experiments import thousand_layers as tl
from experiments.common import load
from experiments.partly_frozen import ArmConfig
from experiments.study import Results, StudyRun
from highway_lab.nets import without
from highway_lab.training import Training
from highway_networks import as_inputs

SHORT = ArmConfig(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)
GUESSING = 2.3011  # nats


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
    assert tl.count_needed(tl.Blocks(None, None, [0, 1, 2, 3], scores)) == needed


def test_only_an_open_block_is_needed(digits):
    """Of four blocks the third alone is open, and writes what it is given, negated: without it, labels change."""
    training = Training(SHORT, digits)
    net, params, x = training.net, training.net.params, as_inputs(training.data.test_x)
    params["W_T"] = params["W_H"] = 0
    params["b_T"] = -30
    params["b_T"][2] = 30
    params["W_H"][2] = -3 * np.eye(8)
    training.data = training.data._replace(test_y=net.predict(x).argmax(axis=1))  # so the net makes no error
    blocks = tl.measure_blocks(training, None)
    closed = np.mean(without(net, range(4)).predict(x).argmax(axis=1) == training.data.test_y)
    assert (blocks.kept, blocks.scores) == ([0, 1, 2, 4], [closed, 1, 1, 1])
    assert tl.count_needed(blocks) == 1
    assert closed < 0.5


def test_what_residual_blocks_do_is_what_they_add_to_no_branches(digits):
    training = Training(replace(SHORT, **tl.OPTIONS["residual, scaled"]), digits)
    for _ in training.epochs():
        pass
    params, data = training.net.params, training.data
    x = np.tanh(params["W_in"] @ training.net.preprocess(data.test_x).T + params["b_in"][:, None])
    labels = (params["W_out"] @ x + params["b_out"][:, None]).argmax(axis=0)
    blocks = tl.measure_blocks(training, None)
    assert blocks.kept == [0, 4]
    assert blocks.scores == pytest.approx([np.mean(labels == data.test_y), training.history.test_score[-1]])


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
        blocks = tl.Blocks([share, share], [0.1, 0.1], [0, 10, 1000], [reached - lost, reached, reached])
        return tl.DeepMeasured(own_loss, GUESSING, reached, validation, blocks)

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
        ({"lost": 0.0, "loss": {B4: GUESSING, B6: GUESSING, B8: GUESSING}}, {"stall": "reproduced", "blog": "partly"}),
        ({"score": {(B20, 1000): 0.96}}, {"blog": "reproduced"}),  # more than stated is no less
        ({"score": {(B20, 1000): 0.94}, "lost": 0.0}, {"blog": "not reproduced"}),
        ({"score": {(B4, 1000): 0.93, (B6, 1000): 0.93}}, {"struggle": "reproduced"}),
        ({"score": {(B4, 1000): 0.93, (B6, 1000): 0.93, (RIVAL, 1000): 0.93}}, {"struggle": "not reproduced"}),
        ({"score": {(B6, 1000): 0.97}}, {"used": "partly"}),
        ({"score": {(RIVAL, 1000): 0.96, (B20, 1000): 0.97}}, {"residual": "reproduced"}),  # nets of copies apart
        ({"share": 0.89}, {"copies": "not reproduced"}),  # of two blocks 0.0121 of an input is left
        ({"share": 0.91}, {"copies": "reproduced"}),
    ],
)
def test_the_rules_at_their_borders(made, verdicts):
    told = tl.numbers(made_up(**{"score": {}, "loss": {}, "lost": 0.02, "share": 0.01} | made))
    assert {of: told["verdict"][of] for of in verdicts} == verdicts


def test_a_net_that_diverges_counts_as_one_that_guesses(digits):
    study = tl.STUDY[""].small()
    task = study.task(study.cells[0], study.stages[-1], (0.1,), 200)
    run = tl.train(replace(task, config=replace(task.config, lr=3e38)), digits)
    assert (run.diverged, run.measured.train_loss, run.measured.blocks) == (True, None, None)
    assert (tl.judge_training([run, run, run]), tl.judge_training([run])) == ("not reproduced", "inconclusive")
    assert run.accuracy == 0.1


def test_long_training_takes_the_rates_that_were_chosen():
    experiment = load("thousand_layers")
    short = Results(tl.STUDY[""], experiment.read(ROOT / experiment.log_path()).runs)
    chosen = {cell.arm: short.chosen(cell)[0] for cell in short.finished if cell.depth in (0, tl.DEEPEST)}
    assert tl.LONG_RATES.items() <= chosen.items()
