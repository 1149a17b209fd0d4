"""Depth, image by image: correlations of known value, and the rule of the verdict."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import spearmanr

from experiments.claims import Verdict
from experiments.looks import depth_per_example as dpe
from experiments.looks import models
from experiments.looks.depth_per_example import judge_hardness, judge_variation
from experiments.study import Results
from highway_lab.training import Training
from highway_networks import as_inputs


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
    depth, hardness = np.random.default_rng(0).integers(0, 9, (2, 40)).astype(float)  # with ties
    one_class = np.zeros(40, int)
    expected = spearmanr(depth, hardness).statistic
    assert dpe.correlate(depth, hardness, one_class) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(dpe.correlate(np.full(40, 3.0), hardness, one_class))


def test_a_relation_between_classes_alone_is_none_within_them():
    """Classes lie one above the other; in each a harder image is less deep."""
    labels = np.repeat([0, 1, 2], 20)
    within = np.tile(np.arange(20.0), 3)
    assert dpe.correlate(100 * labels - within, 100 * labels + within, labels) == pytest.approx(-1)


def test_each_value_has_the_mean_of_its_group():
    found = dpe.group_means(np.array([1.0, 5.0, 2.0, 4.0]), np.array([0, 2, 0, 2]))  # group 1 has no values
    assert found.tolist() == [1.5, 4.5, 1.5, 4.5]


def test_each_part_holds_as_many_of_each_class_the_easiest_first():
    labels = np.repeat([0, 1], [20, 30])
    hardness = np.random.default_rng(0).permutation(50).astype(float)
    parts = dpe.parts_of_classes(hardness, labels)
    for label, size in ((0, 2), (1, 3)):
        of_class = parts[labels == label][np.argsort(hardness[labels == label])]
        assert of_class.tolist() == np.repeat(range(dpe.PARTS), size).tolist()


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
        assert kind.mean == pytest.approx(sum(of.gate_means(as_inputs(digits.test_x))), rel=1e-3)
    assert found.score == pytest.approx(np.mean(net.predict(as_inputs(digits.test_x)).argmax(axis=1) == digits.test_y))
