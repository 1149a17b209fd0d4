"""Swapped gates: passes with given gates, who gives to whom, and what is counted."""

import numpy as np
import pytest
from helpers import digits_net

from experiments.looks import gate_swaps, measurement
from experiments.looks.gate_swaps import KINDS, OTHER, OVERALL_MEAN, OWN, SAME, NetSwaps
from experiments.study import Results, StudyRun
from highway_networks import LOSSES, DeepNet, as_inputs, evaluate


@pytest.fixture
def few(digits) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels: more than one batch."""
    return digits.train_x[: measurement.ROWS + 90], digits.train_y[: measurement.ROWS + 90]


def test_partners_are_others_of_the_class_that_is_asked_for(digits):
    labels, images = digits.test_y, np.arange(len(digits.test_y))
    partners = gate_swaps.draw_partners(labels, np.random.default_rng(0))
    assert all((partner != images).all() for partner in partners.values())
    assert (labels[partners[SAME]] == labels).all()
    assert (labels[partners[OTHER]] != labels).all()
    assert set(labels[partners[OTHER]]) == set(range(10))
    assert sorted(partners[SAME]) == images.tolist(), "each gives once"


def test_donors_give_what_they_compute_or_the_mean_of_a_class(digits):
    net, part = digits_net(), slice(10, 30)
    _, cache = net.forward(as_inputs(digits.test_x[part], net.dtype))
    np.testing.assert_allclose(gate_swaps.from_images(net, digits.test_x)(part), cache.T, rtol=1e-12)
    means = np.random.default_rng(0).random((10, net.depth, net.hidden))
    given = gate_swaps.from_means(means, digits.test_y)(part)
    assert np.array_equal(given[:, :, 3], means[digits.test_y[13]])


def test_where_gates_alone_decide_each_image_becomes_its_donor(few):
    """H = 1 throughout, x_0 = 0: all that the output can depend on is T, which here is a one-hot label."""
    images, labels = few
    net = DeepNet(64, 10, hidden=10, depth=2, dtype=np.float64, activation="relu", rng=None)
    net.params["b_H"][...], net.params["W_out"][...] = 1, np.eye(10)
    donors = np.roll(labels, 7)
    given = np.broadcast_to(np.eye(10)[:, donors], (2, 10, len(labels)))
    found = gate_swaps.predict(net, images, lambda part: given[:, :, part])
    np.testing.assert_array_equal(found, donors)


def test_a_net_errs_as_ever_with_its_own_gates_and_otherwise_with_those_of_others(digits, workdir):
    task, *_ = Results(gate_swaps.STUDY.small(), []).next_tasks()
    seen = gate_swaps.train(task, digits).measured
    net = gate_swaps.models.trained(task.config, digits)
    _, score = evaluate(net, digits.test_x, digits.test_y, LOSSES["cross-entropy"])
    assert seen.error[OWN] == pytest.approx(1 - score, abs=1e-4)
    partners = gate_swaps.draw_partners(digits.test_y, np.random.default_rng(task.config.seed))[OTHER]
    found = gate_swaps.predict(net, digits.test_x, gate_swaps.from_images(net, digits.test_x[partners]))
    assert seen.error[OTHER] == pytest.approx(np.mean(found != digits.test_y), abs=1e-4)


@pytest.mark.parametrize(
    ("papers", "others", "verdicts"),
    [
        ((10, 10.5), [(20, 20.1), (1, 1.1)], ("reproduced", "reproduced", "not reproduced")),
        ((0, 20), [(10, 10.5), (0, 20)], ("inconclusive", "partly", "inconclusive")),
        ((0.01, -0.01), [(0.1, -0.1), (-20, -20.1)], ("not reproduced", "inconclusive", "partly")),
    ],
)
def test_the_papers_setting_and_ours_are_judged_by_intervals_and_not_by_means(papers, others, verdicts):
    """Each setting's two seeds, in points by which the mean gates of all images cost more than an image's own."""

    def swaps(rise: float) -> NetSwaps:
        errors = dict.fromkeys(KINDS, 0.5) | {OWN: 0.3, OVERALL_MEAN: 0.3 + rise / 100, SAME: 0.3 - 0.2 * rise / 100}
        return NetSwaps(errors)

    study = gate_swaps.models.look_at(NetSwaps, gate_swaps.models.BY_SETTING, range(2))
    rises = [rise for seeds in (others[0], papers, others[1]) for rise in seeds]
    tasks = Results(study, []).next_tasks(least=6)
    runs = [StudyRun(None, task, 1, False, {}, swaps(rise)) for task, rise in zip(tasks, rises, strict=True)]
    found = gate_swaps.numbers(Results(study, runs))
    assert (found["verdict"], found["of_others"], found["of_same_class"]) == verdicts
