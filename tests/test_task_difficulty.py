"""Nets that learn tasks of several difficulties: what is measured of each, which count, and the rule of the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import task_difficulty as td
from experiments.claims import Verdict
from experiments.digit_pairs import TASKS, pair_digits
from experiments.looks import measurement
from experiments.partly_frozen import ArmConfig
from experiments.study import Results, StudyRun, Task
from highway_lab.intervals import Interval
from highway_lab.training import Training
from highway_networks import Dataset, DeepNet, as_inputs

REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict
SMALL = ArmConfig(depth=4, hidden=6, gate_bias=-1.0, optimizer="momentum", lr=0.05, epochs=3, n_train=300, n_test=60)
CELL = td.LabelledCell("ReLU", "sum")


@pytest.fixture(scope="module")
def pairs(digits) -> Dataset:
    """A few pairs, labelled by the left digit."""
    return pair_digits(digits, "ten classes", n_train=300, n_test=60).to_score()


def outputs(net: DeepNet, images: np.ndarray, closed: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return logits (n, K) and T (n, L, D), an image and a unit at a time, with T = 0 in closed blocks."""
    *hidden, last = [np.asarray(of, np.float64) for of in (net.params.input, *net.params.blocks, net.params.output)]
    logits, gates = [], []
    for image in as_inputs(images, np.float64):
        x = np.tanh(hidden[0] @ [*image, 1])
        gates.append([])
        for l, W in enumerate(hidden[1:]):
            z = W @ [*x, 1]
            H, T = np.tanh(z[: len(x)]), 1 / (1 + np.exp(-z[len(x) :]))
            gates[-1].append(T)
            x = x if l in closed else H * T + x * (1 - T)
        logits.append(last @ [*x, 1])
    return np.array(logits), np.array(gates)


def test_measures_agree_with_a_slow_computation(pairs):
    net, L = td.train_net(SMALL, pairs), SMALL.depth
    seen = td.see(net, pairs)

    def error(*closed: int) -> float:
        return np.mean(outputs(net, pairs.train_x, closed)[0].argmax(axis=1) != pairs.train_y)

    logits, T = outputs(net, pairs.train_x)
    likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert seen.error == pytest.approx(error(), abs=1e-6)
    assert seen.loss == pytest.approx(-np.log(likely[np.arange(300), pairs.train_y]).mean(), rel=1e-4)
    right = outputs(net, pairs.test_x)[0].argmax(axis=1) == pairs.test_y
    assert seen.test_score == pytest.approx(right.mean(), abs=1e-6)
    each = [error(l) for l in range(L)]
    from_back = [error(*range(L - k, L)) for k in range(L + 1)]
    assert seen.lesioned_error == pytest.approx(each, abs=1e-6)
    assert seen.closed_from_back == pytest.approx(from_back, abs=1e-6), "300 pairs: all of them are taken"
    expected = [np.mean([abs(of - error()) < threshold for of in each]) for threshold in measurement.IDLE_THRESHOLDS]
    assert seen.idle_share == pytest.approx(expected)
    closable = 0
    while closable < L and from_back[closable + 1] - from_back[0] < 0.01:
        closable += 1
    assert seen.needed == L - closable
    assert seen.mean_T == pytest.approx(T.mean(axis=(0, 2)), rel=1e-4)


def test_a_net_is_measured_before_training_with_the_weights_that_training_begins_with(digits):
    data = pair_digits(digits, "sum").to_score()
    config = replace(SMALL, n_train=len(data.train_y))
    run = td.train(Task(CELL, (0.05,), config, "scored"), digits)
    found = run.measured
    assert (run.diverged, run.n_trained) == (False, Training(config, data).net.params.flat.size)
    assert found.untrained == td.see(Training(config, data).net, data)
    assert found.trained == td.see(td.train_net(config, data), data)
    shallow = td.train_net(replace(config, depth=0), data)
    wrong = shallow.predict(as_inputs(data.train_x)).argmax(axis=1) != data.train_y
    assert found.without_blocks == pytest.approx(wrong.mean(), abs=1e-6)
    commonest = max(np.count_nonzero(data.train_y == label) for label in range(10))
    assert found.guess_error == pytest.approx(1 - commonest / len(data.train_y), abs=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverged_net_has_no_measures(digits):
    config = replace(SMALL, activation="relu", lr=1e12, clip=0.0, n_train=200)
    run = td.train(Task(CELL, (0.05,), config, "scored"), digits)
    assert (run.diverged, run.measured.trained, td.has_learned(run)) == (True, None, False)
    assert run.measured.untrained.error > 0.3


def results(changed: dict) -> Results:
    """Results whose nets need more blocks the harder the task; `changed`: by labels, what five nets need, or None."""
    usual = {"two classes": 5, "parity": 8, "ten classes": 12, "sum": 20, "random": 30}
    runs = []
    for task in td.STUDY.next_tasks([], least=10**6):
        spread = (-1, -1, 0, 1, 1)[task.config.seed]
        of = changed.get(task.cell.labels, [usual[task.cell.labels] + spread] * 5)[task.config.seed]
        seen = td.Seen(0.02 if of else 0.46, 0.1, 0.9, [0.0] * 49, [0.5] * 7, [0.0] * 50, of or 0, [0.1] * 49)
        runs.append(StudyRun(None, task, 1, False, {}, td.Examined(0.5, seen, seen, 0.1)))
    return Results(td.STUDY, runs)


def test_a_task_counts_if_three_of_five_nets_have_learned_it():
    """A training error 4 points below that of guessing is not learned."""
    assert td.numbers(results({}))["verdict"] == REPRODUCED
    for labels in ("sum", "ten classes"):
        nets = {"sum": [19, 20, 21], "ten classes": [11, 12, 13]}[labels]
        assert td.numbers(results({labels: [*nets, None, None]}))["verdict"] == REPRODUCED
        assert td.numbers(results({labels: [*nets[:2], None, None, None]}))["verdict"] == INCONCLUSIVE
    assert td.numbers(results({"sum": [11, 11, 12, 13, 13]}))["verdict"] == NOT_REPRODUCED
    falling = {"two classes": [39, 40, 40, 40, 41], "parity": [39] * 5, "random": [3] * 5}
    assert td.numbers(results(falling))["verdict"] == INCONCLUSIVE


@pytest.mark.parametrize(
    ("lead", "rank", "counts", "expected"),
    [
        (Interval(3.0, 2.9), 0.2, True, REPRODUCED),
        (Interval(3.0, 3.1), 1.0, True, INCONCLUSIVE),
        (Interval(0.5, 1.4), 1.0, True, NOT_REPRODUCED),
        (Interval(0.5, 0.4), 0.2, True, REPRODUCED),
        (Interval(0.5, 0.4), 0.0, True, NOT_REPRODUCED),
        (Interval(5.0, 1.0), 0.0, True, INCONCLUSIVE),
        (Interval(5.0, 1.0), 1.0, False, INCONCLUSIVE),
        (Interval(5.0, np.inf), 1.0, True, INCONCLUSIVE),
    ],
)
def test_the_rule_of_one_setting(lead, rank, counts, expected):
    assert td.judge_setting(lead, rank, counts) == expected


def test_kendalls_tau_and_the_tasks_in_their_order():
    assert [td.tau(of) for of in ([1, 2, 3], [3, 2, 1], [4, 4], [1])] == [1, -1, 0, 0]
    assert td.tau([1, 3, 2]) == pytest.approx(1 / 3)
    assert sorted(td.ORDER) == sorted(TASKS)
