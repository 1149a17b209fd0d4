"""Depth, image by image: correlations whose value is known, exits that can be counted, and the rule of the verdict."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from scipy.stats import spearmanr

from experiments import models
from experiments.beyond import depth_per_example, early_exit
from experiments.beyond.depth_per_example import EFFECTIVE, EXPERIMENT, JUDGE, SHARES, Depths, NetDepth, Relation
from experiments.beyond.depth_per_example_figures import correlation, verdict
from highway_networks import DeepNet, Training, as_inputs


def small_net(**options) -> DeepNet:
    """A float64 net for the digits whose gates lie around one half."""
    options = {"hidden": 7, "depth": 4, "dtype": np.float64, "gate_bias": 0.0} | options
    return DeepNet(64, 10, **options, rng=np.random.default_rng(1))


# ------------------------------------------------------------------------------------------- depth


def test_layers_that_change_the_state_are_counted_as_whole_caches_have_it(digits):
    net = small_net(gate_bias=-1.0)
    net.params["b_T"][1] = -1e4  # T = 0: this layer changes nothing
    used, first, last = depth_per_example.layers_used(net, digits.test_x)
    _, cache = net.forward(as_inputs(digits.test_x, net.dtype))
    shares = np.linalg.norm(np.diff(cache.x, axis=0), axis=1) / np.linalg.norm(cache.x[:-1], axis=1)
    np.testing.assert_array_equal(used, [(shares > share).sum(axis=0) for share in SHARES])
    assert used.max() == 3
    assert (used[0] > used[-1]).any(), "some layers change the state by more than the least share, not the greatest"
    np.testing.assert_allclose([first, last], np.linalg.norm(cache.x[[0, -1]], axis=1), rtol=1e-12)


# ---------------------------------------------------------------------------------------- hardness


def test_losses_and_margins_are_those_of_a_softmax_and_small_losses_differ():
    rng = np.random.default_rng(0)
    logits, labels = 5 * rng.normal(size=(50, 10)), rng.integers(0, 10, 50)
    expected = log_softmax(logits, axis=1)
    own = expected[np.arange(50), labels]
    np.testing.assert_allclose(depth_per_example.losses(logits, labels), -own, rtol=1e-10)
    expected[np.arange(50), labels] = -np.inf
    np.testing.assert_allclose(depth_per_example.margins(logits, labels), own - expected.max(axis=1), rtol=1e-10)
    sure = np.array([[50.0, 0], [60.0, 0], [0, 900.0]], np.float32)
    np.testing.assert_allclose(depth_per_example.losses(sure, np.zeros(3, int)), [np.exp(-50), np.exp(-60), 900])


def test_the_judge_has_not_seen_the_test_images(digits):
    logits = depth_per_example.judge(digits)
    assert 0.9 < np.mean(logits.argmax(axis=1) == digits.test_y) < 1
    relabelled = digits._replace(test_y=(digits.test_y + 1) % 10)
    np.testing.assert_array_equal(depth_per_example.judge(relabelled), logits)


def test_the_other_seeds_are_asked_without_the_net_itself(digits, monkeypatch):
    sources = models.by_setting("digits", digits, smoke=True)["tanh, b_T -2"]
    nets = {source: Training(source.training, digits).net for source in sources}
    asked = []
    monkeypatch.setattr(models, "obtain", lambda source, data: nets[source])
    monkeypatch.setattr(depth_per_example, "judge", lambda data: np.zeros((len(data.test_y), 10)))
    monkeypatch.setattr(
        depth_per_example, "examine_net", lambda net, fresh, data, hardness, seed: asked.append(hardness)
    )
    depth_per_example.examine(depth_per_example.Setting("tanh", tuple(sources)), digits)
    first, second = asked
    np.testing.assert_array_equal(first["other seeds"], second["own loss"])
    np.testing.assert_array_equal(second["other seeds"], first["own loss"])


# ------------------------------------------------------------------------------- depth and hardness


def test_correlations_are_spearmans_and_none_where_all_values_are_equal():
    values = np.random.default_rng(0).integers(0, 9, (3, 40)).astype(float)  # with ties
    np.testing.assert_allclose(depth_per_example.correlations(values), spearmanr(values, axis=1).statistic, rtol=1e-12)
    values[1] = 3
    found = depth_per_example.correlations(values)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[0, 2])


def test_a_correlation_by_a_common_cause_vanishes_with_the_cause_held_constant():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=5_000)
    x, y = cause + rng.normal(size=(2, 5_000))
    r = depth_per_example.correlations(np.array([x, y, cause]))
    assert r[0, 1] > 0.4
    assert abs(depth_per_example.partial(r, 0, 1, 2)) < 0.05
    assert depth_per_example.partial(r, 0, 2, 1) > 0.4, "the cause stays one"


def test_a_relation_between_classes_alone_is_none_within_them():
    """Classes one above the other, in each of which a harder image is less deep."""
    labels = np.repeat([0, 1, 2], 20)
    within = np.tile(np.arange(20.0), 3)
    ink = np.random.default_rng(0).normal(size=60)
    found = depth_per_example.relate({"d": 100 * labels - within}, {"h": 100 * labels + within}, {"ink": ink}, labels)
    assert found["d"]["h"].all > 0.5
    assert found["d"]["h"].within == -1
    assert found["d"]["h"].held["ink"] == pytest.approx(-1)


def test_groups_explain_all_of_what_differs_between_them_and_nothing_of_what_does_not():
    groups = np.array([0, 0, 1, 1])
    assert depth_per_example.explained(np.array([1.0, 1, 5, 5]), groups) == 1
    assert depth_per_example.explained(np.array([1.0, 5, 1, 5]), groups) == 0
    assert depth_per_example.explained(np.array([0.0, 2, 2, 4]), groups) == pytest.approx(0.5)


def test_missed_images_are_set_beside_the_others_of_their_class():
    """A class that is deeper, and more often missed, alone makes no difference; nor does one that is missed whole."""
    labels = np.array([0, 0, 0, 1, 1, 1, 2])
    wrong = np.array([1, 0, 0, 1, 1, 0, 1], bool)
    by_class = np.array([1.0, 1, 1, 9, 9, 9, 50])
    assert depth_per_example.missed_gap(by_class, wrong, labels) == 0
    assert depth_per_example.missed_gap(by_class + 2 * wrong, wrong, labels) == 2
    assert np.isnan(depth_per_example.missed_gap(by_class, np.zeros(7, bool), labels))


def test_each_part_holds_as_many_of_each_class_the_easiest_first():
    labels = np.repeat([0, 1], [20, 30])
    hardness = np.random.default_rng(0).permutation(50).astype(float)
    parts = depth_per_example.parts_of_classes(hardness, labels)
    for label, size in ((0, 2), (1, 3)):
        of_class = parts[labels == label]
        assert np.bincount(of_class).tolist() == [size] * depth_per_example.PARTS
        assert (np.diff(of_class[np.argsort(hardness[labels == label])]) >= 0).all()


# ------------------------------------------------------------------------------------- early exits


def test_leaving_after_l_blocks_is_a_net_without_the_later_ones(digits):
    net = small_net(gate_bias=1.0)
    right, doubt = early_exit.exits(net, digits.test_x, digits.test_y)
    x = as_inputs(digits.test_x, net.dtype)
    for l in range(net.depth + 1):
        logits = net.without(range(l, net.depth)).predict(x)
        np.testing.assert_array_equal(right[l], logits.argmax(axis=1) == digits.test_y)
        np.testing.assert_allclose(doubt[l], 1 - softmax(logits, axis=1).max(axis=1), rtol=1e-9)
    assert len({tuple(row) for row in right}) > 1


def test_an_image_leaves_where_the_net_is_sure_first_or_at_the_end():
    doubt = np.array([[0.3, 0.9, 0.6], [0.4, 1e-9, 0.7], [0.0, 0.9, 0.8]])
    leaving = dict(zip(early_exit.DOUBTS, early_exit.confident(doubt).tolist(), strict=True))
    assert leaving[0.5] == [0, 1, 2]
    assert leaving[0.2] == [2, 1, 2]
    assert leaving[0.0] == [2, 2, 2], "never sure enough: the whole net"
    assert sorted(early_exit.DOUBTS, reverse=True) == list(early_exit.DOUBTS)


@pytest.mark.parametrize(
    ("lost", "option"),
    [([0.5, 0.01, 0.0, 0.0], 2), ([0.0, 0.002, 0.0005, 0.0], 2), ([0.0, -0.1, 0.0009, 0.0], 0), ([1, 1, 1, 0], 3)],
)
def test_an_option_that_is_good_by_luck_before_one_that_is_not_is_not_chosen(lost, option):
    assert early_exit.choose(np.array(lost)) == option


def test_an_exit_is_measured_on_images_that_had_no_say_in_its_choice():
    """On half a, leaving at once loses nothing; on half b it loses all: each choice is put to the other half."""
    images = 1_000
    _, b = np.array_split(np.random.default_rng(early_exit.SEED).permutation(images), 2)
    right = np.ones((3, images), bool)
    right[0, b] = False
    found = early_exit.measure_exit(early_exit.fixed(right), right)
    assert found.chosen == [0, 1]
    assert found.depth == pytest.approx(0.5)  # b leaves at once, as chosen on a; a after one block
    assert found.lost == pytest.approx(0.5)
    assert found.lost_error == pytest.approx(0.5 / images**0.5, rel=1e-2)
    assert found.at_fixed_depth == pytest.approx(0.75)  # halfway between 0.5 and 1


# ------------------------------------------------------------------------------------------ verdict


def of_seeds(trained: list[float], untrained: list[float | None]):
    """A setting of which nothing but the correlations within classes is known."""

    def depths(within: float | None) -> Depths:
        fields = dict.fromkeys((field.name for field in dataclasses.fields(Depths)), None)
        return Depths(**fields | {"relations": {EFFECTIVE: {JUDGE: Relation(None, within, {})}}})

    rest = dict.fromkeys((field.name for field in dataclasses.fields(NetDepth)), None)
    nets = [
        NetDepth(**rest | {"untrained": depths(before), "trained": depths(after)})
        for before, after in zip(untrained, trained, strict=True)
    ]
    return depth_per_example.SettingDepth(None, depth_per_example.Setting("made up", ()), 0.9, nets)


@pytest.mark.parametrize(
    ("trained", "untrained", "words"),
    [
        ([0.30, 0.31, 0.32], [0.0, 0.01, 0.0], "more layers"),
        ([-0.30, -0.31, -0.32], [0.0, 0.01, 0.0], "fewer layers"),
        ([0.30, 0.31, 0.32], [0.30, 0.33, 0.31], "not told apart"),  # from an untrained net
        ([0.30, 0.31, 0.32], [0.6, 0.61, 0.6], "not told apart"),
        ([0.30, -0.31, 0.32], [0.0, 0.01, 0.0], "not told apart"),
        ([0.30, 0.31, 0.32], [None, None, None], "more layers"),
        ([0.30, 0.31, None], [0.0, 0.0, 0.0], "not told apart"),
    ],
)
def test_the_verdict_needs_both_intervals(trained, untrained, words):
    within = correlation(EFFECTIVE, JUDGE, lambda relation: relation.within)
    assert verdict(of_seeds(trained, untrained), within) == words


# ------------------------------------------------------------------------------------- end to end


def test_a_second_run_trains_and_measures_nothing(digits, workdir, monkeypatch, capsys):
    for _ in range(2):
        assert EXPERIMENT.main(["run", "--smoke"]) == 0
        log = EXPERIMENT.read(Path("runs/depth_per_example-smoke.json"))
        monkeypatch.setattr(models, "obtain", None)
    wanted = models.by_setting("digits", digits, smoke=True)
    assert {of.setting.name: list(of.setting.sources) for of in log.settings} == wanted
    source, found = log.settings[0].setting.sources[1], log.settings[0].nets[1]
    fresh, net = Training(source.training, digits).net, DeepNet.load(source.file)
    for kind, of in ((found.untrained, fresh), (found.trained, net)):
        assert kind.mean[EFFECTIVE] == pytest.approx(sum(of.gate_means(as_inputs(digits.test_x))), rel=1e-3)
    wrong = net.predict(as_inputs(digits.test_x)).argmax(axis=1) != digits.test_y
    assert (found.seed, found.errors) == (1, np.count_nonzero(wrong))
    assert found.by_layer[-1] == found.confident_score[-1] == pytest.approx(1 - wrong.mean(), abs=1e-5)
    assert EXPERIMENT.main(["plot", "runs/depth_per_example-smoke.json"]) == 0
    assert capsys.readouterr().out.count("drew viz/smoke/") == 2
