"""Nets that learn tasks of several difficulties: what is measured of each, which count, and the rule of the verdict."""

from dataclasses import replace

import made_up
import numpy as np
import pytest
from picture_helpers import cells

from experiments import inside, models
from experiments import task_difficulty as td
from experiments.claims import Verdict
from experiments.common import group_by
from experiments.digit_pairs import TASKS, pair_digits
from experiments.task_difficulty_figures import FIGURES, TABLES, by_setting, claims, judge_setting, learned, tau
from highway_lab.intervals import Interval
from highway_lab.logs import DatasetInfo
from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet, as_inputs

REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict
SMALL = Config(depth=4, hidden=6, gate_bias=-1.0, optimizer="momentum", lr=0.05, epochs=3, n_train=300, n_test=60)
DEPTH = 49


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
    assert seen.test_score == pytest.approx(
        np.mean(outputs(net, pairs.test_x)[0].argmax(axis=1) == pairs.test_y), abs=1e-6
    )
    each = [error(l) for l in range(L)]
    from_back = [error(*range(L - k, L)) for k in range(L + 1)]
    assert seen.lesioned_error == pytest.approx(each, abs=1e-6)
    assert seen.closed_from_back == pytest.approx(from_back, abs=1e-6), "300 pairs: all of them are taken"
    expected = [np.mean([abs(of - error()) < threshold for of in each]) for threshold in inside.IDLE_THRESHOLDS]
    assert seen.idle_share == pytest.approx(expected)
    closable = 0
    while closable < L and from_back[closable + 1] - from_back[0] < 0.01:
        closable += 1
    assert seen.needed == L - closable
    assert seen.mean_T == pytest.approx(T.mean(axis=(0, 2)), rel=1e-4)
    assert seen.effective_depth == pytest.approx(T.mean(axis=(0, 2)).sum(), rel=1e-4)


def test_a_net_is_measured_before_training_with_the_weights_that_training_begins_with(digits, pairs):
    config = replace(SMALL, n_train=len(pair_digits(digits, "sum").train.y))
    result = td.examine(td.Task("a setting", "sum", config), digits)
    data = pair_digits(digits, "sum").to_score()
    assert result.untrained == td.see(Training(config, data).net, data)
    assert result.trained == td.see(td.train_net(config, data), data)
    shallow = td.train_net(replace(config, depth=0), data)
    wrong = shallow.predict(as_inputs(data.train_x)).argmax(axis=1) != data.train_y
    assert result.without_blocks == pytest.approx(wrong.mean(), abs=1e-6)
    commonest = max(np.count_nonzero(data.train_y == label) for label in range(10))
    assert result.guess_error == pytest.approx(1 - commonest / len(data.train_y), abs=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverged_net_is_logged_without_measures(digits):
    config = replace(SMALL, activation="relu", lr=1e12, clip=0.0, n_train=200)
    result = td.examine(td.Task("a setting", "parity", config), digits)
    assert (result.diverged, result.trained) == (True, None)
    assert result.untrained.error > 0.3
    assert result.contradiction() is None
    assert replace(result, diverged=False).contradiction()


def test_the_order_holds_every_task_once_and_all_learn_the_same_settings(as_many_as_mnist):
    assert sorted(td.ORDER) == sorted(TASKS)
    tasks = td.plan(made_up.job(as_many_as_mnist, "mnist"), as_many_as_mnist)
    assert len(tasks) == len({*tasks}) == 75
    settings = group_by(tasks, lambda task: task.setting).values()
    of = [{replace(task.config, seed=0) for task in tasks} for tasks in settings]
    assert [len(configs) for configs in of] == [1, 1, 1], "but for the seed"
    for (config,) in of:
        steps = config.epochs * -(-config.n_train // config.batch_size)
        assert config.lr_decay**steps == pytest.approx(models.LAST_RATE)
        assert (config.depth, config.hidden, config.epochs) == (49, 50, 30)


# ------------------------------------------------------------------------------------------- verdicts

SETTINGS = {
    "relu": replace(models.RELU, n_train=300),
    "tanh -2": replace(models.FALLBACK, n_train=300, gate_bias=-2.0),
    "tanh -4": replace(models.FALLBACK, n_train=300),
}
NEEDED = {"two classes": 5, "parity": 8, "ten classes": 12, "sum": 20, "random": 30}


def seen(needed: float, error: float = 0.02) -> td.Seen:
    """Return measures of a net that needs so many blocks."""
    curve = [error] * (DEPTH - int(needed) + 1) + [min(error + 0.3, 1.0)] * int(needed)
    return td.Seen(error, 0.1, 0.9, [error] * DEPTH, [0.5] * 7, curve, int(needed), [0.1] * DEPTH)


def log_of(changed: dict[str, dict[str, list[td.Seen | None]]] | None = None) -> td.TaskDifficultyLog:
    """Return a log of five seeds whose nets need NEEDED blocks, a few more or less; `changed`: by setting and task."""
    results = []
    for setting, config in SETTINGS.items():
        for name, needed in NEEDED.items():
            usual = [seen(needed + spread) for spread in (-1, -1, 0, 1, 1)]
            nets = (changed or {}).get(setting, {}).get(name, usual)
            for seed, net in enumerate(nets):
                task = td.Task(setting, name, replace(config, seed=seed))
                results.append(td.TaskResult(None, task, 0.5, net is None, net, seen(0, 0.9), 0.1))
    fields = {"order": [*td.ORDER], "idle_thresholds": [*inside.IDLE_THRESHOLDS], "point": inside.POINT}
    fields |= {"set_images": 300, "least_gain": td.LEAST_GAIN, "least_nets": td.LEAST_NETS, "margin": td.MARGIN}
    return made_up.log(td.TaskDifficultyLog, DatasetInfo("mnist", 300, 60), **fields, results=results)


def verdict(changed: dict[str, list[td.Seen | None]]) -> Verdict:
    """Return the verdict if all settings are changed alike."""
    (claim,) = claims(log_of(dict.fromkeys(SETTINGS, changed)))
    return claim.verdict


def test_harder_tasks_that_need_more_blocks_reproduce_the_claim():
    assert verdict({}) == REPRODUCED
    (claim,) = claims(log_of())
    assert "tanh from −2 +8.0 ± 1.5, n = 5 and 5, rank correlation +1.0 over 5 tasks" in claim.measured


def test_as_many_blocks_for_the_harder_task_refute_it():
    assert verdict({"sum": [seen(12 + spread) for spread in (-1, -1, 0, 1, 1)]}) == NOT_REPRODUCED


def test_a_rank_correlation_that_is_not_positive_is_no_reproduction():
    falling = {name: [seen(needed + spread) for spread in (-1, 0, 0, 0, 1)] for name, needed in [("two classes", 40)]}
    falling |= {"parity": [seen(39)] * 5, "random": [seen(3)] * 5}
    assert tau([40, 39, 12, 20, 3]) < 0
    assert verdict(falling) == INCONCLUSIVE


def test_settings_that_disagree_make_it_partly():
    same = {"sum": [seen(12 + spread) for spread in (-1, -1, 0, 1, 1)]}
    (claim,) = claims(log_of({"relu": same}))
    assert claim.verdict == PARTLY
    assert claim.why.startswith("It holds with tanh from −2 and tanh from −4; it does not hold with ReLU.")


@pytest.mark.parametrize("missing", [None, seen(20, 0.46)], ids=["diverged", "has not learned"])
@pytest.mark.parametrize("task", ["sum", "ten classes"])
def test_a_task_counts_if_three_of_five_nets_have_learned_it(task, missing):
    nets = [seen(NEEDED[task] + spread) for spread in (-1, 0, 1)]
    assert verdict({task: [*nets, missing, missing]}) == REPRODUCED
    assert verdict({task: [*nets[:2], missing, missing, missing]}) == INCONCLUSIVE
    assert verdict({task: [missing] * 5}) == INCONCLUSIVE


def test_nets_that_have_not_learned_are_in_no_mean_but_are_counted():
    changed = {"relu": {"random": [None, seen(40, 0.45), seen(40, 0.46), seen(1, 0.44), seen(3, 0.2)]}}
    log = log_of(changed)
    found = learned(log, by_setting(log)["ReLU"]["random"])
    assert [result.trained.needed for result in found] == [1, 3], "0.45 is 5 points below guessing, no more"
    _, *rows = cells(TABLES["task_difficulty"](log))
    (row,) = (row for row in rows if row[:2] == ["ReLU", "random"])
    assert row[2] == "2 of 5 (1 diverged)"
    assert row[5].startswith("2.0 ± ")
    (claim,) = claims(log)
    assert "ReLU +8.0 ± 1.5, n = 5 and 5, rank correlation +1.0 over 4 tasks" in claim.measured


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
        (Interval(-5.0, 1.0), -1.0, False, INCONCLUSIVE),
        (Interval(5.0, np.inf), 1.0, True, INCONCLUSIVE),
    ],
)
def test_the_rule_of_one_setting(lead, rank, counts, expected):
    assert judge_setting(lead, rank, counts, margin=2.0) == expected


@pytest.mark.parametrize(("values", "expected"), [([1, 2, 3], 1), ([3, 2, 1], -1), ([1, 3, 2], 1 / 3), ([4, 4], 0)])
def test_kendalls_tau(values, expected):
    assert tau(values) == pytest.approx(expected)
    assert tau([1.0]) == 0


def test_a_log_in_which_no_net_of_a_setting_has_learned_is_drawn_and_tabulated():
    log = log_of({"relu": dict.fromkeys(NEEDED, [None] * 5)})
    assert [draw(log) for draw in FIGURES.values()]
    for table in TABLES.values():
        assert len(cells(table(log))) == 1 + 3 * 5
