"""Looking into a trained net: lesions, class means, gate statistics, and the experiments that report them."""

import io
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import ROOT, digits_net, files_below, log_of_net, refused_with, swapped, swapped_block
from matplotlib.figure import Figure
from picture_helpers import committed_log
from PIL import Image

from experiments import (
    class_routing,
    class_routing_figures,
    gate_maps,
    lesions,
    lesions_figures,
)
from experiments.claims import OURS, Verdict
from experiments.common import load
from experiments.lesions import LesionsLog
from experiments.looks import measurement, models
from highway_lab.datasets import load_folder, name_of
from highway_lab.figures import new_figure
from highway_lab.logs import DatasetInfo
from highway_networks import BLOCKS, LOSSES, Block, DeepNet, as_inputs, evaluate, sigmoid_forward

INCONCLUSIVE, NOT_REPRODUCED, NOT_TESTED = Verdict.INCONCLUSIVE, Verdict.NOT_REPRODUCED, Verdict.NOT_TESTED
PARTLY, REPRODUCED = Verdict.PARTLY, Verdict.REPRODUCED
NAMES = ("gate_maps", "class_routing", "lesions")
LOSS = LOSSES["cross-entropy"]


def closed(net: DeepNet, layers) -> DeepNet:
    """A copy of a net whose own parameters force T = 0 in some layers."""
    copy = DeepNet(**net.config, rng=np.random.default_rng(0))
    copy.params.flat[...] = net.params.flat
    copy.params["W_T"][layers] = 0
    copy.params["b_T"][layers] = -1e4  # σ(−1e4) is exactly 0
    return copy


# ------------------------------------------------------------------------------------------- lesions


def test_measured_lesions_equal_whole_passes_over_lesioned_nets(digits):
    net = digits_net()
    images, labels = digits.train_x, digits.train_y
    assert len(images) > 2 * measurement.ROWS, "several batches, the last one short"
    error, loss, flips = measurement.close_each(net, images, labels)
    classes = net.predict(as_inputs(images, net.dtype)).argmax(axis=1)
    for l in range(net.depth):
        lesioned = closed(net, l)
        np.testing.assert_allclose((loss[l], 1 - error[l]), evaluate(lesioned, images, labels, LOSS), rtol=1e-10)
        anew = lesioned.predict(as_inputs(images, net.dtype)).argmax(axis=1)
        assert flips[l] == np.mean(anew != classes) > 0
    assert flips[-1] == 0
    np.testing.assert_allclose((loss[-1], 1 - error[-1]), evaluate(net, images, labels, LOSS), rtol=1e-10)


def test_closing_layers_one_after_another_equals_lesioned_nets(digits):
    net = digits_net()
    images, labels = digits.train_x[:600], digits.train_y[:600]
    _, loss, _ = measurement.close_each(net, images, labels)
    orders = lesions.closing_orders(loss[:-1])
    assert orders["last first"][0].tolist() == [3, 2, 1, 0]
    assert orders["first first"][0].tolist() == [0, 1, 2, 3]
    assert (np.diff(loss[orders["least loss first"][0]]) >= 0).all()
    assert len(orders["random"]) == lesions.RANDOM_ORDERS
    for order in (orders[name][0] for name in orders):
        assert sorted(order) == [0, 1, 2, 3]
        errors = measurement.close_in_order(net, images, labels, order)
        expected = [1 - evaluate(closed(net, order[:k]), images, labels, LOSS)[1] for k in range(net.depth + 1)]
        np.testing.assert_allclose(errors, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("errors", "spared"),
    [([0.5, 0.5], 1), ([0.5, 0.52], 0), ([0.1, 0.105, 0.1095, 0.111, 0.1], 2), ([0.1, 0.05, 0.2], 1)],
)
def test_layers_are_spared_until_accuracy_has_fallen_by_a_point(errors, spared):
    assert measurement.count_spared(errors) == spared


def test_more_layers_are_spared_until_a_deeper_fall():
    errors = [0.1, 0.104, 0.108, 0.14, 0.3]
    assert [measurement.count_spared(errors, fall) for fall in (0.002, 0.006, 0.02, 0.1, 0.5)] == [0, 1, 2, 3, 4]


def test_a_shut_layer_is_idle_and_a_layer_that_decides_is_needed(digits, tmp_path):
    net = closed(digits_net(), [1, 2])
    net.params["b_T"][3] = 30  # T = 1: the layer replaces its input
    net.save(tmp_path / "net.npz")
    found = lesions.examine(models.from_file(tmp_path / "net.npz", digits), digits)
    assert found.lesioned_error[1:3] == [found.error] * 2
    assert found.idle[0] >= 2
    assert sorted(found.idle) == found.idle, "a wider threshold makes no layer less idle"
    rises = np.array(found.lesioned_error) - found.error
    assert found.needed == [l + 1 for l in range(4) if rises[l] > 0.01]
    assert not {2, 3} & set(found.needed)
    assert found.closings["random"].errors[0][0] == pytest.approx(found.error, abs=1e-6)  # all digits are in the set


# ----------------------------------------------------------------------------------- gates and classes


def test_activity_equals_what_whole_caches_hold(digits):
    net = digits_net()
    images = digits.train_x
    _, cache = net.forward(as_inputs(images, net.dtype))
    activity = measurement.measure_gates(net, images)
    np.testing.assert_allclose(activity.T, cache.T.mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(activity.closed, (cache.T < 0.1).mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(activity.open, (cache.T > 0.5).mean(axis=2), rtol=1e-12)
    change = np.linalg.norm(cache.x[1:] - cache.x[:-1], axis=1).mean(axis=1)
    np.testing.assert_allclose(activity.change, change, rtol=1e-12)

    T, y, sample_change = gate_maps.look_at(net, images[5])
    x = cache.x[:, :, 5]
    np.testing.assert_allclose(T, cache.T[:, :, 5], rtol=1e-10)
    np.testing.assert_allclose(y, x[1:], rtol=1e-10)
    np.testing.assert_allclose(sample_change, np.linalg.norm(np.diff(x, axis=0), axis=1), rtol=1e-10)


@pytest.mark.parametrize(
    "measure",
    [
        lambda net, x, y: measurement.measure_gates(net, x),
        lambda net, x, y: measurement.class_means(net, x, y),
        lambda net, x, y: class_routing.vectors(net, x, "gates"),
        lambda net, x, y: [T for kind, sets in class_routing.features(net, net, [as_inputs(x)]) for T in sets],
        lambda net, x, y: measurement.mean_gates(net, x),
    ],
)
def test_gates_are_measured_by_their_name_whatever_the_order_of_the_branches(digits, monkeypatch, measure):
    monkeypatch.setitem(BLOCKS, "swapped", swapped_block())
    net, samples = digits_net(), (digits.test_x, digits.test_y)
    for found, expected in zip(measure(swapped(net), *samples), measure(net, *samples), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(("change", "layer"), [([50, 45, 5], 2), ([1, 1, 1, 7], 4), ([95, 5], 1), ([3], 1)])
def test_most_of_the_change_has_happened_by_this_layer(change, layer):
    assert gate_maps.layer_of_most(np.array(change)) == layer


def test_claims_count_gates_as_they_say():
    net = digits_net(depth=2, hidden=2, gate_bias=-2.0)
    net.params["b_T"][...] = [[-3, -2], [-2.5, 1]]  # two below their initial value, one on it
    T = np.array([[0.05, 0.2], [0.09, 0.5]])
    opened = np.array([[0.0, 0.005], [0.5, 1.0]])
    activity = measurement.Activity(T, np.array([[1, 0], [0.5, 0]]), opened, np.array([9.5, 0.5]))
    claims = gate_maps.check_claims(net, activity, np.array([1.0, 9.0]))
    assert claims.biases_decreased == 0.5
    assert (claims.closed_for_a_sample, claims.closed_in_the_mean) == (0.375, 0.5)
    assert (claims.ever_open, claims.selective, claims.selective_beyond_rare) == (0.75, 0.5, 0.25)
    assert (claims.layer_of_most_change, claims.sample_layer_of_most_change) == (1, 2)
    assert claims.bias_and_mean_T == 1  # two layers: the second has the higher bias and the higher mean


def test_class_means_average_to_the_overall_mean(digits):
    net = digits_net()
    images, labels = digits.train_x, digits.train_y
    means = measurement.class_means(net, images, labels)
    _, cache = net.forward(as_inputs(images, net.dtype))
    for digit in range(10):
        np.testing.assert_allclose(means[digit], cache.T[:, :, labels == digit].mean(axis=2), rtol=1e-12)
    overall = np.average(means, axis=0, weights=np.bincount(labels))
    np.testing.assert_allclose(overall, measurement.measure_gates(net, images).T, rtol=1e-12)
    difference = class_routing.differences(net, images, labels)
    np.testing.assert_allclose(difference, means - overall, atol=1e-15)


def test_vectors_hold_the_gates_or_the_outputs_of_all_layers(digits):
    net = digits_net()
    _, cache = net.forward(as_inputs(digits.train_x, net.dtype))
    for kind, expected in (("gates", cache.T), ("outputs", cache.x[1:])):
        vectors = class_routing.vectors(net, digits.train_x, kind)
        np.testing.assert_allclose(vectors, expected.transpose(2, 0, 1).reshape(len(vectors), -1), rtol=1e-12)


def test_features_of_a_layer_stay_when_later_layers_are_computed(digits):
    net, untrained = digits_net(), digits_net(gate_bias=-1.0)
    train, test = (as_inputs(images[:20], net.dtype) for images in (digits.train_x, digits.test_x))
    found = list(class_routing.features(net, untrained, (train, test)))
    (_, cache), (_, of_untrained) = net.forward(test), untrained.forward(test)
    expected = {"gates": cache.T, "outputs": cache.x[1:], "untrained": of_untrained.T}
    for kind, layers in expected.items():
        seen = [sets[1] for name, sets in found if name == kind]
        np.testing.assert_allclose(seen, layers.swapaxes(1, 2), rtol=1e-12)
    assert np.array_equal(found[0][1], (train, test))


def test_classifiers_and_clusters_find_classes_only_where_there_are_any():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 10, (3, 600))
    clear, silent = np.eye(10)[labels], rng.normal(size=(3, 600, 10))
    for vectors, low, high in ((clear, 1, 1), (silent, 0, 0.2)):
        _, _, scores = class_routing.classify((0, ("gates", vectors)), labels)
        assert np.shape(scores) == (2, 2), "two classifiers, two sets beside the one that is fitted"
        assert np.min(scores) >= low, scores
        assert np.max(scores) <= high, scores
        found = class_routing.cluster(vectors[0], labels[0], 10)
        assert all(low - 0.1 <= score <= high for score in found.adjusted_mutual_information), found
        assert all(score == 1 if low else score < 0.3 for score in found.purity), found
        assert np.sum(found.table, axis=0).tolist() == np.bincount(labels[0]).tolist()


@pytest.mark.parametrize(("n", "n_fitted", "n_validation"), [(60_000, 10_000, 1_666), (1437, 1198, 239)])
def test_no_classifier_was_fitted_to_a_validation_image(n, n_fitted, n_validation):
    fitted, validating = class_routing.choose_images(n)
    assert (len(fitted), len(validating)) == (n_fitted, n_validation)
    assert len({*fitted, *validating}) == n_fitted + n_validation
    assert max(*fitted, *validating) < n


@pytest.mark.filterwarnings("error")
def test_one_image_a_class_is_enough_for_classifiers():
    class_routing.classify((0, ("gates", [np.eye(4)] * 3)), [np.arange(4)] * 3)


def test_too_few_images_for_classifiers_are_refused(digits):
    few = digits._replace(train_x=digits.train_x[:4], train_y=digits.train_y[:4])
    with refused_with("--dataset: expected enough training images", "found 4"):
        class_routing.measure_accuracies(digits_net(), digits_net(), few, 1)


def test_the_test_images_have_no_say_in_which_layer_is_chosen(digits):
    """Other labels for the test images: other test accuracies, the same choice."""
    net, untrained = digits_net(depth=2), digits_net(depth=2)
    mislabelled = digits._replace(test_y=digits.test_y[::-1])
    one, two = (class_routing.measure_accuracies(net, untrained, data, 1) for data in (digits, mislabelled))
    for name, found in one.items():
        assert found.gates.validation == two[name].gates.validation
        assert found.gates.best == two[name].gates.best
        assert found.gates.test != two[name].gates.test


@pytest.mark.slow
def test_accuracies_are_of_their_layer_in_any_number_of_processes(digits):
    net, untrained = digits_net(depth=3), digits_net(depth=3)
    net.params["W_T"][1, 1:] = 0  # a single gate of the second layer knows anything of the image
    untrained.params["W_T"][...] = 0  # and none of this net's at all, but for one
    untrained.params["W_T"][:, 0, 0] = 1
    few = digits._replace(train_x=digits.train_x[:500], train_y=digits.train_y[:500])
    one, two = (class_routing.measure_accuracies(net, untrained, few, jobs) for jobs in (1, 2))
    assert one == two
    for found in one.values():
        for kind in ("validation", "test"):
            gates, outputs, of_untrained, pixels = (getattr(of, kind) for of in vars(found).values())
            first, second, third = gates
            assert min(first, third, *outputs, *pixels) > max(second, *of_untrained) + 0.1
        assert found.gates.best in (0, 2)


# ---------------------------------------------------------------------------------------- which net


@pytest.mark.parametrize("dataset", models.NETS)
def test_nets_are_trained_in_the_setting_of_the_saved_net(digits, dataset):
    """Of MNIST's, which the depth search found, by the committed log of lesions; of the other, by that of the grid."""
    logs = {"mnist": "runs/lesions.json", "cifar-10": "runs/cifar_net.json"}
    log = load(Path(logs[dataset]).stem).read(committed_log(logs[dataset]))
    expected = log.nets[1].source.training if dataset == "mnist" else log.net.source.training
    found = models.from_training("made-up", made_up.job(digits, dataset), epochs=expected.epochs, seed=expected.seed)
    assert replace(found.training, n_train=expected.n_train, n_test=expected.n_test) == expected


def test_each_data_set_has_its_net(workdir, digits, monkeypatch):
    monkeypatch.setattr(models, "from_file", lambda path, data: path)

    def found(dataset: str, smoke: bool = False, model: str | None = None):
        return models.find_net(made_up.job(digits, dataset, smoke=smoke, model=model))

    assert found("mnist") is found("cifar-10") is None
    models.NETS["mnist"].parent.mkdir()
    models.NETS["mnist"].touch()
    assert found("mnist") == models.NETS["mnist"]
    assert found("fashion-mnist") is found("cifar-10") is None
    models.NETS["cifar-10"].touch()
    assert found("cifar-10") == Path("models/highway-50-cifar-10.npz")
    assert found("mnist", smoke=True) is None
    assert found("mnist", model="mine.npz") == "mine.npz"


def gated_forward(x, z, y, activation):
    H, T = z
    sigmoid_forward(T)
    np.multiply(H, T, out=y)  # y = H·T


BAD_NETS = {
    "plain": (lambda: digits_net(block="plain"), "4 plain blocks, which have no transform gate T"),
    "residual": (lambda: digits_net(block="residual"), "4 residual blocks, which have no transform gate T"),
    "no path": (lambda: digits_net(block="gated"), "4 gated blocks, which have no path past T"),
    "no layers": (lambda: digits_net(depth=0), "0 highway blocks"),
    "MNIST's": (lambda: DeepNet(784, 10, depth=1, rng=np.random.default_rng(0)), "expected 64 inputs"),
    "not finite": (lambda: digits_net(gate_bias=1e30), "numbers that are not finite, or beyond"),
    "two classes": (lambda: DeepNet(64, 2, depth=1, rng=np.random.default_rng(0)), "found 64 and 2"),
}


@pytest.mark.parametrize(("make", "found"), BAD_NETS.values(), ids=list(BAD_NETS))
def test_a_net_that_cannot_be_looked_into_is_refused(digits, tmp_path, monkeypatch, make, found):
    monkeypatch.setitem(BLOCKS, "gated", Block("HT", gated_forward, None))
    make().save(tmp_path / "net.npz")
    with refused_with(tmp_path / "net.npz", found):
        models.from_file(tmp_path / "net.npz", digits)


@pytest.mark.parametrize("name", [*NAMES, "gate_explorer"])
def test_a_missing_model_is_one_line_and_leaves_nothing_behind(name, workdir, refused):
    message = refused(load(name).main, ["run", "--dataset", "digits", "--model", "missing.npz"])
    assert "missing.npz: expected a saved net, found: No such file" in message
    assert files_below(workdir) == {}


# ------------------------------------------------------------------------------------- end to end


def of_cifar(name: str):
    """A committed log of MNIST that says CIFAR-10."""
    log = load(name).read(committed_log(load(name).log_path()))
    return replace(log, dataset=replace(log.dataset, name="cifar-10"))


def judged(experiment: str, log, words: str):
    """The claim of ours on a log whose sentence holds these words."""
    found = load(experiment).figures.claims(log)
    (claim,) = (claim for claim in found if words in claim.paper and claim.section == OURS)
    return claim


GATE_CLAIMS = {  # words of a claim, and the statistics that it goes by: their values, and its verdict
    # more than half of the biases decrease, and with another seed they do, too
    ("biases decrease", "biases_decreased"): [
        *((0.61, REPRODUCED), (0.59, INCONCLUSIVE), (0.41, INCONCLUSIVE), (0.39, NOT_REPRODUCED))
    ],
    # over 49 layers, correlations beyond ±0.28 exclude 0
    ("biases increase", "bias_and_layer", "bias_and_mean_T"): [
        *((0.3, -0.7, REPRODUCED), (0.6, -0.2, INCONCLUSIVE), (-0.6, -0.7, NOT_REPRODUCED)),
        *((0.2, 0.6, NOT_REPRODUCED), (-0.9, 0.9, NOT_REPRODUCED), (None, None, INCONCLUSIVE)),
    ],
    # on average most gates are not closed, for one sample most are
    ("active on average", "closed_in_the_mean", "closed_for_a_sample"): [
        *((0.3, 0.9, REPRODUCED), (0.45, 0.9, INCONCLUSIVE), (0.65, 0.9, NOT_REPRODUCED), (0.2, 0.35, NOT_REPRODUCED))
    ],
}


@pytest.mark.parametrize(("claim", "case"), [(claim, case) for claim in GATE_CLAIMS for case in GATE_CLAIMS[claim]])
def test_a_claim_on_gates_is_judged_by_its_statistics(claim, case):
    (words, *names), (*values, verdict) = claim, case
    log = of_cifar("gate_maps")
    found = replace(log.claims, **dict(zip(names, values, strict=True)))
    assert judged("gate_maps", replace(log, claims=found), words).verdict == verdict


@pytest.mark.parametrize(("closed", "verdict"), [(0.61, REPRODUCED), (0.59, INCONCLUSIVE), (0.3, NOT_REPRODUCED)])
def test_gates_are_sparse_where_most_are_closed(closed, verdict):
    log = load("gate_maps").read(committed_log("runs/gate_maps.json"))
    log = replace(log, claims=replace(log.claims, closed_for_a_sample=closed))
    assert judged("gate_maps", log, "sparse").verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(95, REPRODUCED), (85, INCONCLUSIVE), (70, NOT_REPRODUCED)])
def test_the_blocks_of_most_change_are_judged_beside_an_even_spread(share, verdict):
    """Of 40 blocks of 49, that is 82 %."""
    log = of_cifar("gate_maps")
    log.claims.change[:] = [share / 40] * 40 + [(100 - share) / 9] * 9
    assert judged("gate_maps", log, "change in outputs").verdict == verdict


def test_no_net_for_cifar_10_judges_a_sentence_on_cifar_100():
    for name in NAMES:
        for claim in load(name).figures.claims(of_cifar(name)):
            assert (
                ("CIFAR-100" in claim.paper)
                == (claim.verdict == NOT_TESTED)
                == (claim.section not in (OURS, "overview"))
            )


@pytest.mark.parametrize(("T", "verdict"), [(0.61, REPRODUCED), (0.59, INCONCLUSIVE), (0.39, NOT_REPRODUCED)])
def test_early_gates_are_open_if_those_of_some_block_are(T, verdict):
    log = load("gate_maps").read(committed_log("runs/gate_maps.json"))
    log.maps.mean_T[:] = [[0.01] * 50] * 3 + [[T - 0.01, T + 0.01] * 25] + [[0.01] * 50] * 45
    (claim,) = (claim for claim in load("gate_maps").figures.claims(log) if claim.section == "overview")
    assert (claim.verdict, "block 4," in claim.why) == (verdict, True)


@pytest.mark.parametrize(("name", "first"), [("gate_maps", 40), ("class_routing", 15)])
def test_a_net_of_no_more_layers_does_not_test_a_claim_on_the_first(name, first):
    log = of_cifar(name)
    if name == "gate_maps":
        maps = {field: values[:first] for field, values in vars(log.maps).items()}
        log = replace(log, maps=replace(log.maps, **maps))
    else:
        del log.routing.size[first:]
    claim = judged(name, log, "change in outputs" if name == "gate_maps" else "spread out")
    assert (claim.verdict, f"{first} blocks only" in claim.why) == (NOT_TESTED, True)


def with_costly(log: LesionsLog, costly: list[int], idle: int = 0) -> LesionsLog:
    """A log of nets whose first blocks cost 0.3 points each, so many in each net, and whose last do nothing."""
    for net, count in zip(log.nets, costly, strict=True):
        net.error, net.lesioned_error = 0.5, [0.503] * count + [0.497] * (49 - count - idle) + [0.5] * idle
    return log


@pytest.mark.parametrize(
    ("costly", "verdict"),
    [
        ([40] * 4, REPRODUCED),
        ([40, 32, 40, 32], REPRODUCED),
        ([40, 31, 40, 40], INCONCLUSIVE),
        ([17] * 4, NOT_REPRODUCED),
        ([40], INCONCLUSIVE),  # one net may refute "any layer", but not prove it
        ([17], NOT_REPRODUCED),
    ],
)
def test_any_layer_means_four_in_five_of_every_net(costly, verdict):
    log = of_cifar("lesions")
    papers, any_layer, _ = lesions_figures.claims(with_costly(replace(log, nets=log.nets[: len(costly)]), costly))
    assert (papers.verdict, any_layer.verdict) == (NOT_TESTED, verdict), "CIFAR-10 says nothing of CIFAR-100"


@pytest.mark.parametrize(("idle", "verdict"), [(25, REPRODUCED), (42, INCONCLUSIVE), (49, INCONCLUSIVE)])
def test_a_net_for_cifar_uses_more_blocks_if_it_leaves_fewer_idle_than_nets_of_its_setting(idle, verdict):
    """Those for MNIST have 45 to 48 idle blocks."""
    log = with_costly(of_cifar("lesions"), [0] * 4, idle)
    assert lesions_figures.claims(log)[2].verdict == verdict


@pytest.mark.parametrize(("idle", "verdict"), [(29, REPRODUCED), (5, NOT_REPRODUCED), (35, NOT_REPRODUCED)])
def test_about_60_is_judged_by_the_nets_of_one_setting(idle, verdict):
    log = with_costly(load("lesions").read(committed_log(load("lesions").log_path())), [14] * 4, idle)
    log.nets[0].lesioned_error = [0.5] * 49  # of the net from a file
    (claim,) = lesions_figures.claims(log)
    assert claim.verdict == verdict


def test_about_60_at_one_threshold_alone_holds_in_part():
    log = load("lesions").read(committed_log(load("lesions").log_path()))
    for net in log.nets:
        net.error, net.lesioned_error = 0.5, [0.5] * 29 + [0.5015] * 20  # all are idle by 0.2 points
    (claim,) = lesions_figures.claims(log)
    assert claim.verdict == PARTLY


def routes(name: str, leads: list[float], early: float = 1.0):
    """A log in which gates outperform untrained gates by `leads`, and early class differences are larger."""
    log = replace(of_cifar("class_routing"), dataset=DatasetInfo(name, 60_000, 1000))
    found = log.accuracies["logistic regression"]
    found.untrained.test[:] = [0.3] * 49
    found.gates.test[:] = [0.3 + lead for lead in leads]
    log.routing.share_in_first_layers = 15 * early / (15 * early + 34)
    return log


@pytest.mark.parametrize(
    ("leads", "early", "verdict"),
    [
        ([0.1] * 49, 1.0, REPRODUCED),
        ([0.1] * 49, 9.0, PARTLY),  # 80 % of the differences lie in the first layers
        ([0.1] * 48 + [-0.1], 1.0, PARTLY),
        ([0.1] * 48 + [-0.1], 9.0, NOT_REPRODUCED),
        ([0.1] * 48 + [0.03], 9.0, INCONCLUSIVE),  # a lead of 3.0 ± 4.1 points
    ],
)
def test_class_differences_are_spread_out_where_every_layer_tells_classes(leads, early, verdict):
    _, claim = class_routing_figures.claims(routes("cifar-10", leads, early))
    assert claim.verdict == verdict


@pytest.mark.parametrize(("least", "verdict"), [(0.1, REPRODUCED), (0.03, INCONCLUSIVE), (-0.1, NOT_REPRODUCED)])
def test_the_first_layers_differ_by_class_if_each_beats_untrained_gates(least, verdict):
    (claim,) = class_routing_figures.claims(routes("mnist", [0.2] * 14 + [least] + [0.0] * 34))
    assert claim.verdict == verdict


def stretched_forward(x, z, y, activation):
    H, T = z
    activation.forward(H)
    sigmoid_forward(T)
    T[...] = 1.2 * T - 0.1
    y[...] = H * T + x * (1 - T)


@pytest.fixture
def own_folder(workdir, digits, monkeypatch) -> list[str]:
    """The flags that name a folder of three classes, and a net for it whose T leave the range from 0 to 1."""
    monkeypatch.setitem(BLOCKS, "stretched", Block("HT", stretched_forward, None))
    for label in range(3):
        Path(f"images/no $_{label}").mkdir(parents=True)
        for i, image in enumerate(digits.train_x[digits.train_y == label][:20]):
            Image.fromarray(image[0]).save(f"images/no $_{label}/{i}.png")
    net = DeepNet(36, 3, depth=3, hidden=5, block="stretched", rng=np.random.default_rng(0))
    net.params["b_T"][0], net.params["b_T"][1] = -50, 50
    net.save("mine.npz")
    return ["--dataset", "images", "--size", "6", "--model", "mine.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_users_net_and_images_have_a_log_and_each_log_its_part_of_a_picture(name, own_folder, refused):
    experiment = load(name)
    assert experiment.main(["run", *own_folder]) == 0
    log = str(log_of_net(f"{name}-{name_of('images', load_folder('images', 6))}", "mine.npz"))
    assert experiment.read(Path(log)).dataset.classes == ["no $_0", "no $_1", "no $_2"]
    folder = Path("viz", Path(log).stem.removeprefix(f"{name}-"))
    assert experiment.main(["plot", log]) == 0
    alone = {path.name: Image.open(io.BytesIO(path.read_bytes())) for path in folder.iterdir()}
    assert alone.keys() == experiment.figures.FIGURES.keys()
    assert experiment.main(["plot", log, log]) == 0
    for figure, one in alone.items():
        with Image.open(folder / figure) as two:
            assert (two.width, two.height) == (one.width, 2 * one.height)
            assert two.text["Source"] == "\n".join([one.text["Source"]] * 2)
    assert "plot: expected at most 2 logs, found 3" in refused(experiment.main, ["plot", log, log, log])
    assert "--model: expected a net that was trained on the folder's images" in refused(
        experiment.main, ["run", *own_folder[:-2]]
    )


def test_gates_beyond_0_and_1_are_logged_and_drawn(own_folder):
    assert gate_maps.EXPERIMENT.main(["run", *own_folder]) == 0
    (path,) = Path("runs").iterdir()
    log = gate_maps.EXPERIMENT.read(path)
    assert [np.unique(T).tolist() for T in log.maps.mean_T[:2]] == [[-0.1], [1.1]]
    figure = Figure()
    gate_maps.EXPERIMENT.figures.gate_maps_figure.__wrapped__(figure, log)
    assert figure.axes[2].images[0].get_clim() == (-0.1, 1.1)


def test_a_short_nets_costly_layers_are_not_counted_in_the_papers_ranges():
    log = load("lesions").read(committed_log("runs/lesions.json"))
    assert "| costly, blocks 1 to 14 | costly, blocks 15 to 45 |" in lesions_figures.lesions_table(log)
    short = replace(log, nets=[replace(log.nets[0], lesioned_error=log.nets[0].lesioned_error[:5])])
    assert "0.2 points | costly, blocks 1 to 5 | very costly |" in lesions_figures.lesions_table(short)


def test_verdicts_are_printed_of_committed_logs_alone(workdir, monkeypatch, capsys):
    monkeypatch.setattr(load("gate_maps").figures, "FIGURES", {})
    Path("runs").mkdir()
    monkeypatch.setattr(load("gate_maps"), "more", {"more": "run --more"})
    paths = [Path(f"runs/gate_maps{ending}.json") for ending in ("", "-mine", "-more")]
    paths[0].symlink_to(committed_log("runs/gate_maps.json"))
    for path in paths[1:]:
        shutil.copy(paths[0], path)
    (workdir / "models").symlink_to(ROOT / "models")
    for path, verdicts in zip(paths, (6, 0, 0), strict=True):
        assert load("gate_maps").main(["plot", str(path)]) == 0
        words = "|".join(Verdict)
        assert (
            len(re.findall(rf"^(?:ours|overview): .*\n    ({words}): ", capsys.readouterr().out, re.MULTILINE))
            == verdicts
        )


@pytest.mark.parametrize(("named", "place"), [([], "viz"), (["runs/lesions.json"], "viz/lesions")])
def test_only_all_committed_logs_draw_over_the_picture_of_all(workdir, monkeypatch, named, place):
    drawn = {"a.png": lambda *logs: new_figure(f"{len(logs)} logs", 2)[0]}
    monkeypatch.setattr(load("lesions").figures, "FIGURES", drawn)
    for name in ("runs", "models"):
        Path(name).symlink_to(ROOT / name)
    assert load("lesions").main(["plot", *named]) == 0
    assert [path.as_posix() for path in Path("viz").rglob("*.png")] == [f"{place}/a.png"]


def test_a_users_net_writes_over_no_log_of_a_data_set_or_of_another_net(workdir):
    job, model, logs = made_up.job(dataset="mnist"), Path("cifar-10.npz"), {"made-up.json", "made-up-cifar-10.json"}
    for content in ("one", "another"):
        model.write_text(content)
        logs.add(job.named_after(model).path.name)
    assert len(logs) == 4


def test_a_net_whose_path_could_not_stand_in_a_log_is_refused(workdir, refused):
    digits_net().save("a\nb.npz")
    message = refused(load("gate_maps").main, ["run", "--dataset", "digits", "--model", "a\nb.npz"])
    assert r"--model: expected a path of printable characters, found 'a\nb.npz'" in message
    assert [path.name for path in workdir.iterdir()] == ["a\nb.npz"]


def test_a_net_is_lesioned_again_only_if_its_file_has_changed(digits, workdir, monkeypatch):
    examined, examine = [], lesions.examine
    monkeypatch.setattr(lesions, "examine", lambda *task: examined.append(task) or examine(*task))
    for depth, count in ((2, 1), (2, 1), (3, 2)):
        digits_net(depth=depth).save("mine.npz")
        assert lesions.EXPERIMENT.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
        assert len(examined) == count
        log = lesions.EXPERIMENT.read(log_of_net("lesions-digits", "mine.npz"))
        assert [len(net.lesioned_error) for net in log.nets] == [depth]


def test_the_best_net_may_be_lesioned_alone(workdir, digits, monkeypatch):
    monkeypatch.setitem(models.NETS, "digits", Path("net.npz"))
    digits_net().save("net.npz")
    assert [source.file for source in lesions.plan(made_up.job(digits, alone=True))] == ["net.npz"]
    assert len(lesions.plan(made_up.job(digits, alone=False))) == 4


def test_training_and_measuring_need_no_pictures():
    """Not even scikit-learn is imported before it is needed: listing the experiments stays quick."""
    code = f"import sys; from experiments import {', '.join(NAMES)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"matplotlib", "sklearn", "highway_lab.figures"} & set(done.stdout.split())


def test_classifiers_without_an_error_are_drawn():
    layers, pixels = (class_routing.Scores(validation=[1.0] * n, test=[1.0] * n) for n in (3, 1))
    perfect = class_routing.Accuracies(layers, layers, layers, pixels)
    axes = Figure().subplots()
    class_routing_figures.error_panel(axes, perfect, 0.1)
    assert axes.get_ylim() == (0.1, 100)


def test_all_that_the_title_tells_is_within_the_axes_of_errors():
    layers, untrained, pixels = (class_routing.Scores(of, of) for of in ([0.4] * 3, [0.7] * 3, [0.95]))
    axes = Figure().subplots()
    class_routing_figures.error_panel(axes, class_routing.Accuracies(layers, layers, untrained, pixels), 0.5)
    assert axes.get_ylim() == (1, 100)


def test_a_scale_below_a_hundredth_is_not_called_zero():
    log = class_routing.EXPERIMENT.read(committed_log("runs/class_routing.json"))
    log.routing.difference = [[[0.0034] * 3] * 2] * 2
    (part,) = class_routing_figures.FIGURES["fig3_class_routing.png"](log).subfigs
    assert "by up to 0.0034 from" in part.get_suptitle()


def test_titles_of_lesions_count_one_block_and_have_no_minus_zero():
    log = lesions.EXPERIMENT.read(committed_log("runs/lesions.json"))
    (net, *_) = log.nets
    for order in net.closings.values():
        order.spared = [1] * len(order.spared)
    net.lesioned_error = [net.error - 0.0001] * len(net.lesioned_error)
    alone = replace(log, nets=[net])
    parts = [lesions_figures.FIGURES[name](alone).subfigs for name in ("lesion_sets.png", "fig4_lesions.png")]
    sets, single = (" ".join(part.get_suptitle().split()) for (part,) in parts)
    assert "1 blocks from the back can be closed, or 1 from the front" in sets
    assert "costs most on average, 0 points" in single
