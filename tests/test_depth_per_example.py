"""Depth, image by image: correlations of known value, exits that can be counted, and the rule of the verdict."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import digits_net
from scipy.special import log_softmax, softmax
from scipy.stats import spearmanr

from experiments.claims import Verdict
from experiments.looks import depth_per_example as dpe
from experiments.looks import measurement, models
from experiments.looks.depth_per_example import judge_hardness, judge_variation
from experiments.study import Results
from highway_lab.nets import without
from highway_lab.training import Training
from highway_networks import as_inputs


def test_layers_are_counted_that_change_the_state_by_more_than_a_share(digits):
    net = digits_net(gate_bias=-1.0)
    net.params["b_T"][1] = -1e4  # T = 0: this layer changes nothing
    depths, last = dpe.measures(net, digits.test_x)
    used = np.array([depths[of] for of in dpe.MEASURES[1:]])
    _, cache = net.forward(as_inputs(digits.test_x, net.dtype))
    shares = np.linalg.norm(np.diff(cache.x, axis=0), axis=1) / np.linalg.norm(cache.x[:-1], axis=1)
    np.testing.assert_array_equal(used, [(shares > share).sum(axis=0) for share in dpe.SHARES])
    assert used.max() == 3
    assert (used[0] > used[-1]).any(), "no share separates the layers"
    np.testing.assert_allclose(last, np.linalg.norm(cache.x[-1], axis=0), rtol=1e-12)
    np.testing.assert_allclose(depths[dpe.EFFECTIVE], measurement.mean_gates(net, digits.test_x).sum(axis=1))


def test_losses_are_those_of_a_softmax_without_rounding_to_0():
    rng = np.random.default_rng(0)
    logits, labels = 5 * rng.normal(size=(50, 10)), rng.integers(0, 10, 50)
    own = log_softmax(logits, axis=1)[np.arange(50), labels]
    np.testing.assert_allclose(dpe.losses(logits, labels), -own, rtol=1e-10)
    sure = np.array([[50.0, 0], [60.0, 0], [0, 900.0]], np.float32)
    np.testing.assert_allclose(dpe.losses(sure, np.zeros(3, int)), [np.exp(-50), np.exp(-60), 900])


def test_the_judge_has_not_seen_the_test_images(digits):
    logits = dpe.judge(digits)
    assert 0.9 < np.mean(logits.argmax(axis=1) == digits.test_y) < 1
    relabelled = digits._replace(test_y=(digits.test_y + 1) % 10)
    np.testing.assert_array_equal(dpe.judge(relabelled), logits)


def test_the_loss_of_the_other_seeds_leaves_out_the_net_itself(digits, monkeypatch):
    task, *_ = Results(dpe.STUDY.small(), []).next_tasks()
    task = replace(task, config=replace(task.config, seed=1))
    seen = []
    monkeypatch.setattr(models, "trained", lambda config, data: Training(config, data).net)
    monkeypatch.setattr(dpe, "describe", lambda net, data, hardness: seen.append(hardness))
    dpe.train(task, digits)
    x = as_inputs(digits.test_x, np.float32)
    others = [Training(replace(task.config, seed=seed), digits).net.predict(x) for seed in (0, 3)]
    expected = np.mean([dpe.losses(logits, digits.test_y) for logits in others], axis=0)
    np.testing.assert_array_equal(seen[0]["other seeds"], expected)


def test_correlations_are_spearmans_and_none_where_all_values_are_equal():
    values = np.random.default_rng(0).integers(0, 9, (3, 40)).astype(float)  # with ties
    np.testing.assert_allclose(dpe.correlations(values), spearmanr(values, axis=1).statistic, rtol=1e-12)
    values[1] = 3
    assert np.isfinite(dpe.correlations(values)).tolist() == [[True, False, True], [False] * 3, [True, False, True]]


def test_a_correlation_by_a_common_cause_vanishes_when_it_is_held():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=5_000)
    x, y = cause + rng.normal(size=(2, 5_000))
    r = dpe.correlations(np.array([x, y, cause]))
    assert r[0, 1] > 0.4
    assert abs(dpe.partial(r)) < 0.05
    assert dpe.partial(dpe.correlations(np.array([x, cause, y]))) > 0.4, "the cause stays one"


def test_a_relation_between_classes_alone_is_none_within_them():
    """Classes lie one above the other; in each a harder image is less deep."""
    labels = np.repeat([0, 1, 2], 20)
    within = np.tile(np.arange(20.0), 3)
    norm = np.random.default_rng(0).normal(size=60)
    found = dpe.relate(100 * labels - within, 100 * labels + within, norm, labels)
    assert (found.within, found.held) == (-1, pytest.approx(-1))


@pytest.mark.parametrize(("values", "share"), [([1, 1, 5, 5], 1), ([1, 5, 1, 5], 0), ([0, 2, 2, 4], 0.5)])
def test_groups_explain_the_variance_between_them(values, share):
    assert dpe.explained(np.array(values, float), np.array([0, 0, 1, 1])) == pytest.approx(share)


def test_each_part_holds_as_many_of_each_class_the_easiest_first():
    labels = np.repeat([0, 1], [20, 30])
    hardness = np.random.default_rng(0).permutation(50).astype(float)
    parts = dpe.parts_of_classes(hardness, labels)
    for label, size in ((0, 2), (1, 3)):
        of_class = parts[labels == label][np.argsort(hardness[labels == label])]
        assert of_class.tolist() == np.repeat(range(dpe.PARTS), size).tolist()


def test_leaving_after_l_blocks_is_a_net_without_the_later_ones(digits):
    net = digits_net(gate_bias=1.0)
    right, doubt = dpe.exits(net, digits.test_x, digits.test_y)
    x = as_inputs(digits.test_x, net.dtype)
    for l in range(net.depth + 1):
        logits = without(net, range(l, net.depth)).predict(x)
        np.testing.assert_array_equal(right[l], logits.argmax(axis=1) == digits.test_y)
        np.testing.assert_allclose(doubt[l], 1 - softmax(logits, axis=1).max(axis=1), rtol=1e-9)
    assert len({tuple(row) for row in right}) > 1
    net.params["W_out"][...] = 0
    net.params["b_out"][...] = [60, *[0] * 9]
    _, doubt = dpe.classify(net, np.zeros((7, 1)), np.zeros(1, int))
    assert doubt == pytest.approx(9 * np.exp(-60), rel=1e-9, abs=0), "a doubt that 1 − p would round to 0"


def test_an_image_leaves_where_the_net_is_sure_first_or_at_the_end():
    doubt = np.array([[0.3, 0.9, 0.6], [0.4, 1e-9, 0.7], [0.0, 0.9, 0.8]])
    leaving = dict(zip(dpe.DOUBTS, dpe.leave_when_sure(doubt).tolist(), strict=True))
    assert leaving[0.5] == [0, 1, 2]
    assert leaving[0.2] == [2, 1, 2]
    assert leaving[0.0] == [2, 2, 2], "never sure enough, so the whole net"
    assert sorted(dpe.DOUBTS, reverse=True) == list(dpe.DOUBTS)


@pytest.mark.parametrize(
    ("lost", "option"),
    [([0.5, 0.01, 0.0, 0.0], 2), ([0.0, 0.002, 0.0005, 0.0], 2), ([0.0, -0.1, 0.0009, 0.0], 0), ([1, 1, 1, 0], 3)],
)
def test_an_option_before_one_that_fails_is_not_chosen(lost, option):
    assert dpe.choose(np.array(lost)) == option


def test_an_exit_is_measured_on_images_that_did_not_choose_it():
    """Leaving at once loses nothing on half a and all on half b; each half tries the choice of the other."""
    images = 1_000
    _, b = np.array_split(np.random.default_rng(dpe.SEED).permutation(images), 2)
    right = np.ones((3, images), bool)
    right[0, b] = False
    found = dpe.measure_exit(np.indices(right.shape)[0], right)
    assert found.chosen == [0, 1]
    assert found.depth == pytest.approx(0.5)  # b leaves at once, as chosen on a; a after one block
    assert found.lost == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("trained", "untrained", "verdict"),
    [
        ([0.30, 0.31, 0.32], [0.0, 0.01, 0.0], Verdict.REPRODUCED),
        ([-0.30, -0.31, -0.32], [0.0, 0.01, 0.0], Verdict.NOT_REPRODUCED),
        ([0.30, 0.31, 0.32], [0.30, 0.33, 0.31], Verdict.INCONCLUSIVE),  # beside an untrained net
        ([0.30, 0.31, 0.32], [None, None, None], Verdict.REPRODUCED),
        ([0.30, 0.31, None], [0.0, 0.0, 0.0], Verdict.INCONCLUSIVE),
    ],
)
def test_harder_images_use_more_layers_if_both_intervals_say_so(trained, untrained, verdict):
    assert judge_hardness(np.array(trained, float), np.array(untrained, float)) is verdict


@pytest.mark.parametrize(
    ("trained", "verdict"),
    [([25, 26, 27], Verdict.REPRODUCED), ([9, 10, 11], Verdict.NOT_REPRODUCED), ([5, 15, 25], Verdict.INCONCLUSIVE)],
)
def test_depth_varies_if_training_raises_its_variation_enough(trained, verdict):
    assert judge_variation(np.array(trained), np.array([1.0, 2.0, 3.0])) is verdict


@pytest.mark.slow
def test_what_is_measured_is_of_the_net_that_is_kept(digits, workdir, monkeypatch):
    task, *_ = Results(dpe.STUDY.small(), []).next_tasks()
    found = dpe.train(task, digits).measured
    net, fresh = models.trained(task.config, digits), Training(task.config, digits).net
    for kind, of in ((found.untrained, fresh), (found.trained, net)):
        assert kind.mean[dpe.EFFECTIVE] == pytest.approx(sum(of.gate_means(as_inputs(digits.test_x))), rel=1e-3)
    wrong = net.predict(as_inputs(digits.test_x)).argmax(axis=1) != digits.test_y
    assert found.by_layer[-1] == found.confident_score[-1] == pytest.approx(1 - wrong.mean(), abs=1e-5)
