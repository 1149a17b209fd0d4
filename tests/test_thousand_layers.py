"""A thousand layers by SGD: what is measured of their blocks, and what the rules say of made-up nets."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import ROOT, SOME_ENVIRONMENT

from experiments import thousand_layers as tl
from experiments.common import load
from experiments.partly_frozen import ArmConfig
from experiments.study import Cell, Results, StudyRun
from highway_lab.training import Training

GUESSING = tl.GUESSING
SHORT = ArmConfig(depth=4, hidden=8, epochs=2, n_train=100, n_test=50, optimizer="momentum", lr=0.1, clip=0.0)


def test_guessing_costs_the_entropy_of_the_classes():
    shares = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]) / 60_000  # digits of each class
    assert -shares @ np.log(shares) == pytest.approx(GUESSING, abs=5e-6)


@pytest.mark.parametrize("arm", ["residual, scaled", tl.HIGHWAY[-4.0]])
def test_a_net_whose_blocks_are_closed_has_its_input_and_its_output_layer_alone(digits, arm):
    training = Training(replace(SHORT, **tl.OPTIONS[arm]), digits)
    for _ in training.epochs():
        pass
    params, data = training.net.params, training.data
    x = np.tanh(params["W_in"] @ training.net.preprocess(data.test_x).T + params["b_in"][:, None])
    labels = (params["W_out"] @ x + params["b_out"][:, None]).argmax(axis=0)
    assert tl.score_closed(training) == pytest.approx(np.mean(labels == data.test_y))


def test_an_input_is_carried_by_what_all_untrained_gates_leave(digits):
    task = tl.STUDY[""].small().task(Cell(tl.HIGHWAY[-4.0], 50, 1000), tl.STUDY[""].small().stages[-1], (0.1,), 200)
    training = Training(task.config, digits)
    T = training.net.gate_means(training.net.preprocess(training.data.train_x[: tl.GATE_IMAGES]))
    assert tl.train(task, digits).measured.carried == pytest.approx(np.prod(1 - T), rel=1e-3)


USUAL = {"plain": 0.11, "residual": 0.5}


def made_up(score: dict, loss: dict, lost: float, share: float) -> dict:
    """Results of nets that score 95 %, train, and use their blocks, but for those named by arm or by arm and blocks.

    Validation prefers scaled residual nets and, of highway nets, those from −20, before −6; seeds differ by 0.1 points.
    """

    def measured(task):
        arm, seed = task.cell.arm, task.config.seed
        best = 0.95 if task.cell.depth < 1000 else USUAL.get(arm, 0.95)
        reached = score.get((arm, task.cell.depth), best) + 0.001 * (seed - 1)
        own_loss = loss.get(arm, 0.2) * 1.001**seed
        validation = {"residual, scaled": 0.1, tl.HIGHWAY[-20.0]: 0.1, tl.HIGHWAY[-6.0]: 0.2}.get(arm, 0.3)
        return tl.DeepMeasured(own_loss, reached, validation, share, reached - lost)

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
        ({}, {"stall": "reproduced", "blog": "partly", "used": "not reproduced", "struggle": "not reproduced"}),
        ({"loss": dict.fromkeys(tl.HIGHWAY.values(), GUESSING)}, {"stall": "not reproduced"}),
        (
            {"lost": 0.0, "loss": {B4: GUESSING, B6: GUESSING, B8: GUESSING}},
            {"stall": "reproduced", "blog": "partly"},
        ),
        ({"score": {(B20, 1000): 0.96}}, {"blog": "partly"}),  # more than stated is no less
        ({"score": {(B20, 1000): 0.94}}, {"blog": "inconclusive"}),
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
