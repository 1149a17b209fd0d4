"""Looking into trained nets: gates, classes, lesions, the nets that are looked into, and the verdicts on section 4."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, digits_net, files_below, log_of_net, refused_with, swapped, swapped_block
from picture_helpers import committed_log

import highway_lab.logs
from experiments import common, study_command
from experiments.claims import Verdict
from experiments.common import load
from experiments.looks import class_routing, gate_maps, lesions, measurement, models, section_4
from experiments.looks.measurement import walk
from experiments.study import Results, StudyRun
from experiments.study_command import train_task
from highway_lab.training import Training, train_resumably
from highway_networks import BLOCKS, LOSSES, DeepNet, as_inputs, evaluate

NAMES = ("gate_maps", "class_routing", "lesions")
LOSS = LOSSES["cross-entropy"]
REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict


def closed(net: DeepNet, layers) -> DeepNet:
    """A copy of a net whose own parameters force T = 0 in some layers."""
    copy = DeepNet(**net.config, rng=np.random.default_rng(0))
    copy.params.flat[...] = net.params.flat
    copy.params["W_T"][layers] = 0
    copy.params["b_T"][layers] = -1e4  # σ(−1e4) is exactly 0
    return copy


# ------------------------------------------------------------------------------------------- closing


def test_measured_lesions_equal_whole_passes_over_lesioned_nets(digits):
    net = digits_net()
    images, labels = digits.train_x, digits.train_y
    assert len(images) > 2 * measurement.ROWS, "several batches, the last one short"
    expected = [1 - evaluate(closed(net, layers), images, labels, LOSS)[1] for layers in (*range(net.depth), [])]
    assert len({*expected}) > 1
    np.testing.assert_allclose(measurement.close_each(net, images, labels), expected, rtol=1e-10)
    order = np.array([2, 0, 3, 1])
    expected = [1 - evaluate(closed(net, order[:k]), images, labels, LOSS)[1] for k in range(net.depth + 1)]
    np.testing.assert_allclose(measurement.close_in_order(net, images, labels, order), expected, rtol=1e-10)


def test_given_gates_take_the_place_of_a_nets_own(digits):
    net, other = digits_net(), digits_net(gate_bias=1.0)
    _, own = net.forward(as_inputs(digits.test_x[:50], net.dtype))
    _, given = other.forward(as_inputs(digits.test_x[50:100], net.dtype))
    x = own.x[0]
    for T in (None, own.T):
        np.testing.assert_allclose(list(walk(net, x, T=T)), own.x, atol=1e-12)
    *_, none = walk(net, x, T=np.zeros_like(own.T))
    np.testing.assert_array_equal(none, x)
    _, first = walk(net, x, [2], T=given.T)
    z, _ = next(net.iterate_blocks(x, 2))
    np.testing.assert_allclose(first, z[0] * given.T[2] + x * (1 - given.T[2]), atol=1e-12)


@pytest.mark.parametrize(
    ("errors", "fall", "spared"),
    [
        *(([0.5, 0.5], 0.01, 1), ([0.5, 0.52], 0.01, 0), ([0.1, 0.105, 0.1095, 0.111, 0.1], 0.01, 2)),
        *(([0.1, 0.104, 0.108, 0.14, 0.3], fall, k) for k, fall in enumerate((0.002, 0.006, 0.02, 0.1, 0.5))),
    ],
)
def test_layers_are_spared_until_accuracy_has_fallen(errors, fall, spared):
    assert measurement.count_spared(errors, fall) == spared


def test_a_shut_layer_is_idle_and_layers_are_closed_from_either_end(digits, tmp_path):
    net = closed(digits_net(), [1, 2])
    net.params["b_T"][3] = 30  # T = 1: the layer replaces its input
    net.save(tmp_path / "net.npz")
    study = models.of_net(lesions.STUDY[""], tmp_path / "net.npz", digits)
    found = lesions.train(Results(study, []).next_tasks()[0], digits).measured
    assert found.errors[1:3] == [found.errors[-1]] * 2
    assert measurement.idle_share(found.errors, 100 * measurement.IDLE) == 50
    first, last = found.closed_from_front, found.closed_from_back
    assert first[0] == last[0] == pytest.approx(found.errors[-1], abs=1e-6), "all digits are in the set"
    assert first[1:4] == [found.errors[0]] * 3
    assert last[1:4] == [found.errors[3]] * 3


# ----------------------------------------------------------------------------------- gates and classes


def test_activity_equals_what_whole_caches_hold(digits):
    net = digits_net()
    images = digits.train_x
    _, cache = net.forward(as_inputs(images, net.dtype))
    activity = measurement.measure_gates(net, images)
    np.testing.assert_allclose(activity.T, cache.T.mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(activity.closed, (cache.T < 0.1).mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(activity.open, (cache.T > 0.5).mean(axis=2), rtol=1e-12)
    changes = np.linalg.norm(cache.x[1:] - cache.x[:-1], axis=1)
    np.testing.assert_allclose(activity.change, changes.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(measurement.mean_gates(net, images), cache.T.mean(axis=1).T, rtol=1e-12)


@pytest.mark.parametrize(
    "measure",
    [
        lambda net, x, y: measurement.measure_gates(net, x),
        lambda net, x, y: measurement.class_means(net, x, y),
        lambda net, x, y: measurement.mean_gates(net, x),
        lambda net, x, y: class_routing.by_layer(net, x),
    ],
)
def test_gates_are_measured_by_their_name_whatever_the_order_of_the_branches(digits, monkeypatch, measure):
    monkeypatch.setitem(BLOCKS, "swapped", swapped_block())
    net, samples = digits_net(), (digits.test_x, digits.test_y)
    for found, expected in zip(measure(swapped(net), *samples), measure(net, *samples), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_measures_count_gates_as_they_say(digits, monkeypatch):
    net = digits_net(depth=2, hidden=2, gate_bias=-2.0)
    net.params["b_T"][...] = [[-3, -2], [-2.5, 1]]  # two below their initial value, one on it
    T = np.array([[0.05, 0.2], [0.09, 0.5]])
    opened = np.array([[0.0, 0.005], [0.5, 1.0]])
    activity = measurement.Activity(T, np.array([[1, 0], [0.5, 0]]), opened, np.array([9.5, 0.5]))
    monkeypatch.setattr(measurement, "measure_gates", lambda *of: activity)
    monkeypatch.setattr(section_4, "FIRST", 1)
    found = section_4.see(net, digits).measures
    assert found["biases lowered"] == 50
    assert (found["closed"], found["closed on average"]) == (37.5, 50)
    assert (found["selective, rare ones too"], found["selective"]) == (50, 25)
    assert found["change in the first"] == 95


def test_class_means_average_to_the_overall_mean(digits):
    net = digits_net()
    images, labels = digits.train_x, digits.train_y
    means = measurement.class_means(net, images, labels)
    _, cache = net.forward(as_inputs(images, net.dtype))
    for digit in range(10):
        np.testing.assert_allclose(means[digit], cache.T[:, :, labels == digit].mean(axis=2), rtol=1e-12)
    difference = measurement.class_differences(net, images, labels)
    np.testing.assert_allclose(difference, means - measurement.measure_gates(net, images).T, atol=1e-14)
    found = section_4.see(net, digits).measures
    assert found["classes differ"] == pytest.approx(np.abs(difference).mean(), rel=1e-5)
    assert found["groups differ"] < found["classes differ"] / 2


def test_features_are_what_whole_caches_hold(digits):
    net, images = digits_net(), digits.train_x[:600]
    _, cache = net.forward(as_inputs(images, net.dtype))
    gates, outputs = (class_routing.by_layer(net, images, outputs=of) for of in (False, True))
    np.testing.assert_allclose(gates, cache.T.swapaxes(1, 2), rtol=1e-12)
    np.testing.assert_allclose(outputs, cache.x[1:].swapaxes(1, 2), rtol=1e-12)


@pytest.mark.filterwarnings("error")
def test_classifiers_find_classes_only_where_there_are_any():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 10, (2, 600))
    clear, noise, constant = np.eye(10)[labels], rng.normal(size=(2, 600, 10)), np.full((2, 600, 10), 0.12)
    for vectors, low, high in ((clear, 1, 1), (noise, 0, 0.2), (constant, 0, 0.2)):
        assert low <= class_routing.classify(vectors, labels) <= high


@pytest.mark.slow
def test_accuracies_are_of_their_layer(digits):
    net, untrained = digits_net(depth=3), digits_net(depth=3)
    net.params["W_T"][1, 1:] = 0  # a single gate of the second layer knows anything of the image
    untrained.params["W_T"][...] = 0  # and none of this net's at all, but for one
    untrained.params["W_T"][:, 0, 0] = 1
    few = digits._replace(train_x=digits.train_x[:400], train_y=digits.train_y[:400])
    gates, outputs, of_untrained, pixels = class_routing.measure_accuracies(net, untrained, few).values()
    first, second, third = gates
    assert min(first, third, *outputs, *pixels) > max(second, *of_untrained) + 0.1


# ---------------------------------------------------------------------------------------- which net


def test_the_nets_that_are_kept_have_the_settings_that_were_chosen(monkeypatch):
    monkeypatch.chdir(ROOT)
    search = load("depth_search")
    best = search.contents.best_run(search.committed()[""], 50).config
    (config,) = models.LOOKED_INTO[""].values()
    assert replace(config, lr_decay=best.lr_decay) == best


def test_a_net_without_a_file_is_trained_and_one_in_a_file_has_its_digest(workdir, digits):
    task, *_ = Results(gate_maps.STUDY[""].small(), []).next_tasks()
    net, file, sha256 = models.obtain(task, digits)
    assert (DeepNet.load(file).params.flat == net.params.flat).all()
    assert sha256 is None
    there = replace(task, cell=replace(task.cell, file=file))
    assert models.obtain(there, digits)[1:] == (file, common.sha256_of(Path(file)))


def test_a_net_of_other_training_code_is_trained_anew(digits, workdir, monkeypatch):
    task, *_ = Results(gate_maps.STUDY[""].small(), []).next_tasks()
    seen = []
    monkeypatch.setattr(study_command, "Training", lambda *of: seen.append(Training(*of)) or seen[-1])
    for code in ("a", "a", "b"):
        here = replace(highway_lab.logs.environment(), code=code)
        monkeypatch.setattr(models, "environment", lambda here=here, **_: here)
        models.trained(task.config, digits)
    assert len(seen) == len([*models.CHECKPOINTS.iterdir()]) == 2


def test_a_net_whose_training_diverges_is_not_kept(digits, workdir):
    task, *_ = Results(gate_maps.STUDY[""].small(), []).next_tasks()
    with refused_with("expected a net to look into, found that lr 3e+38 diverged; lower it"):
        models.trained(replace(task.config, lr=3e38), digits)
    assert files_below(workdir) == {}


BAD_NETS = {
    "plain": (
        lambda: digits_net(block="plain"),
        "a transform gate T, found 4 plain blocks; train",
    ),
    "no layers": (lambda: digits_net(depth=0), "found 0 highway blocks"),
    "MNIST's": (lambda: DeepNet(784, 10, depth=1, rng=np.random.default_rng(0)), "found {'d_in': 784, 'd_out': 10};"),
    "not finite": (lambda: digits_net(gate_bias=1e30), "numbers that are not finite, or beyond"),
    "two classes": (lambda: DeepNet(64, 2, depth=1, rng=np.random.default_rng(0)), "{'d_in': 64, 'd_out': 2}; give"),
}


@pytest.mark.parametrize(("make", "found"), BAD_NETS.values(), ids=list(BAD_NETS))
def test_a_net_that_cannot_be_looked_into_is_refused(digits, tmp_path, make, found):
    make().save(tmp_path / "net.npz")
    with refused_with(tmp_path / "net.npz", found):
        models.of_net(gate_maps.STUDY[""], tmp_path / "net.npz", digits)


@pytest.mark.parametrize("name", [*NAMES, "gate_explorer"])
def test_a_missing_model_is_one_line_and_leaves_nothing_behind(name, workdir, refused):
    message = refused(load(name).main, ["run", "--dataset", "digits", "--model", "missing.npz"])
    assert "missing.npz: expected a saved net, found: No such file" in message
    assert files_below(workdir) == {}


def test_a_net_is_lesioned_again_only_if_its_file_has_changed(workdir, monkeypatch):
    examined, train = [], lesions.train
    monkeypatch.setattr(lesions, "train", lambda *task: examined.append(task) or train(*task))
    for depth, count, path in ((2, 1, "mine.npz"), (2, 1, str(workdir / "mine.npz")), (3, 2, "mine.npz")):
        digits_net(depth=depth).save("mine.npz")
        assert load("lesions").main(["run", "--dataset", "digits", "--model", path]) == 0
        assert len(examined) == count
        log = load("lesions").read(log_of_net("lesions-digits", "mine.npz"))
        assert [len(run.measured.errors) - 1 for run in log.runs] == [depth]


# ------------------------------------------------------------------------------------- a user's net


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_users_net_has_a_log_and_pictures(name, workdir, refused):
    DeepNet(64, 10, depth=3, hidden=5, rng=0).save("mine.npz")
    experiment, words = load(name), ["run", "--dataset", "digits"]
    assert experiment.main([*words, "--model", "mine.npz"]) == 0
    log = log_of_net(f"{name}-digits", "mine.npz").as_posix()
    assert experiment.main(["plot", log]) == 0
    folder = Path("viz", Path(log).stem.removeprefix(f"{name}-"))
    assert {path.name for path in folder.iterdir()} == experiment.figures.keys()
    assert "--model: expected a net that was trained on digits" in refused(experiment.main, words)
    assert "--dataset: invalid choice: 'images'" in refused(experiment.main, ["run", "--dataset", "images"])


# ------------------------------------------------------------------- section 4 on nets of several settings


@pytest.fixture
def seen(workdir, digits) -> StudyRun:
    """A small net of section 4, looked into."""
    return train_task(section_4.__name__, Results(section_4.STUDY.small(), []).next_tasks()[0], digits)


def test_every_net_stands_beside_the_one_that_its_training_began_with(seen, digits):
    config, net = seen.config, seen.measured
    run = train_resumably(config, digits)
    trained = models.trained(config, digits)
    assert (trained.params.flat == run.net.params.flat).all()
    for of, state in ((Training(config, digits).net, net.untrained), (trained, net.trained)):
        errors = measurement.close_each(of, digits.train_x, digits.train_y)
        np.testing.assert_allclose(state.errors, errors, rtol=1e-6)
    assert net.score == pytest.approx(run.history.test_score[-1], abs=0.1)
    assert net.untrained.measures["biases lowered"] == 0
    assert 0 < net.trained.measures["biases lowered"] < 100


def test_blocks_are_idle_if_closing_them_hardly_changes_the_error(digits, monkeypatch):
    monkeypatch.setattr(section_4, "LATE", (3, 5))
    rises = np.array([20.0, 0.19, 0.15, 0.05, -0.15, 0.0, 0.0])  # points of error; blocks 1 and 2 are early
    monkeypatch.setattr(measurement, "close_each", lambda *of: 0.01 + rises / 100)
    found = section_4.measures(section_4.see(digits_net(depth=6), digits))
    assert found["idle at 1"] == pytest.approx(200 / 6), "a block that does harm is not idle"
    assert (found["idle at 0.5"], found["idle at 2"]) == pytest.approx((100 / 6, 500 / 6))
    assert found["costly early"] == 100
    assert found["late change"] == pytest.approx(0.35 / 3)


GOOD = {  # two nets that fulfil all sentences, trained and untrained
    **{"biases lowered": [90, 91], "closed": [90, 91], "change in the first": [70, 71], "selective": [50, 51]},
    **{"classes differ": [1.5, 1.5], "groups differ": [0.5, 0.5]},
    **{"costly early": [100, 80], "late change": [0.01, 0.01]},
    **{f"idle at {times:g}": [60, 61] for times in measurement.TIMES},
}
BAD = {  # and two that fulfil none
    **{name: [10, 11] for name in ("biases lowered", "closed", "change in the first")},
    **{"selective": [0, 1], "classes differ": [0.505, 0.505]},
    **{"costly early": [79, 0], "late change": [1, 1.1]},
    **{f"idle at {times:g}": [90, 91] for times in measurement.TIMES},
}


def judged(untrained: dict = BAD, **trained: list) -> dict[str, Verdict]:
    return section_4.verdicts(
        *({name: np.array(of) for name, of in (GOOD | given).items()} for given in (trained, untrained))
    )


def test_a_verdict_follows_from_the_nets_of_its_setting():
    assert {*judged().values()} == {REPRODUCED}
    assert {*judged(**BAD).values()} == {NOT_REPRODUCED}
    apart = judged(**{name: [GOOD[name][0], values[0] - 0.01] for name, values in BAD.items()})
    assert {*apart.values()} == {INCONCLUSIVE}, "nets that disagree"
    alike = judged(untrained=GOOD)
    changed = {name for name, verdict in alike.items() if verdict != REPRODUCED}
    assert changed == {"training makes selective", "few gates a sample"}, "what training is said to do"


@pytest.mark.parametrize(
    ("name", "trained", "verdict"),
    [
        ("about 60 % idle", {"idle at 2": [90, 91]}, PARTLY),
        ("about 60 % idle", {f"idle at {times:g}": [50, 70] for times in measurement.TIMES}, INCONCLUSIVE),
        ("closing early ones costs", {"costly early": [80, 79]}, INCONCLUSIVE),  # every net has to agree
        ("closing early ones costs", {"costly early": [79, 79]}, NOT_REPRODUCED),
        ("most biases decrease", {"biases lowered": [50.1, 50.1]}, REPRODUCED),
        ("classes differ", {"classes differ": [0.511, 0.511]}, REPRODUCED),  # the least size is 0.01
        ("classes differ", {"classes differ": [0.509, 0.509]}, NOT_REPRODUCED),
        ("training makes selective", {"selective": [10.4, 10.6]}, INCONCLUSIVE),  # by ten points
    ],
)
def test_verdicts_at_the_borders_of_their_rules(name, trained, verdict):
    assert judged(**trained)[name] == verdict


@pytest.mark.parametrize(("T", "verdict"), [(0.61, REPRODUCED), (0.59, INCONCLUSIVE), (0.39, NOT_REPRODUCED)])
def test_early_gates_are_open_if_those_of_some_block_are(T, verdict):
    log = load("gate_maps").read(committed_log("runs/gate_maps.json"))
    log.runs[0].measured.mean_T[:] = [[0.01] * 50] * 3 + [[T - 0.01, T + 0.01] * 25] + [[0.01] * 50] * 45
    found = gate_maps.numbers({"": Results(gate_maps.STUDY[""], log.runs, log.dataset)})["of"]["mnist"]
    assert (found["early gates are open"], found["most open"]["block"]) == (verdict, 4)


def test_nine_nets_have_the_papers_two_biases_and_relu():
    tasks = Results(section_4.STUDY, []).next_tasks(least=99)
    assert [(of.config.activation, round(of.config.gate_bias, 1)) for of in tasks[::3]] == [
        *(("relu", -4.7), ("tanh", -2), ("tanh", -4))
    ]
    assert len(tasks) == 9
