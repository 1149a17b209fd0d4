"""Experiments on convolutional nets: what is run and chosen, rules at their borders, where gates open."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, log_of_net, refused_with

from conv_highway_networks import ConvNet
from conv_recipes import NETS, configure
from experiments import common, conv_tables
from experiments.claims import Verdict
from experiments.conv_tables import TableMeasured
from experiments.looks import conv_gates
from experiments.study import ArmCell, Results, StudyRun, Task, gains
from highway_lab.intervals import interval
from highway_lab.training import Training

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE


def runs_of(net: str, *accuracies: float, **fields: object) -> list[StudyRun]:
    """Return a run for each test accuracy, with a seed of its own; NaN diverged."""
    runs = []
    for seed, accuracy in enumerate(accuracies):
        config = configure(net, **{"epochs": 20, "n_test": 10_000, "seed": seed} | fields)
        measured = TableMeasured(None if math.isnan(accuracy) else accuracy, None)
        task = Task(ArmCell(config.block), (), config, "scored")
        runs.append(StudyRun(None, task, 1000, math.isnan(accuracy), {}, measured))
    return runs


# ---------------------------------------------------------------------------------------- what is run


def test_a_killed_run_resumes_and_another_data_set_does_not_resume_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    task = Task(ArmCell("highway"), (), config, "scored")
    whole = conv_tables.train(task, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_tables.train(task, digits)
    assert (again, seen) == (whole, []), "its checkpoint is of the last epoch"
    other = digits._replace(train_x=255 - digits.train_x)
    configs = (config, replace(config, lr=1.0))
    assert len({conv_tables.checkpoint_path(of, data) for of in configs for data in (digits, other)}) == 4


def test_a_run_that_chooses_is_scored_on_validation_images(workdir, digits):
    config = configure("digits", epochs=1, n_train=100, n_validation=20, n_test=30)
    for result, column in (("", "validation_score"), ("scored", "test_score")):
        run = conv_tables.train(Task(ArmCell("highway"), (), config, result), digits)
        assert run.measured.score == run.history[column][-1]


def test_a_large_net_is_timed_step_by_step(digits):
    config = configure("digits", epochs=5)
    run = conv_tables.train(Task(ArmCell("highway"), (), config, conv_tables.TIMED[0]), digits)
    assert run.measured.seconds_a_step > 0
    assert run.history == {}


def test_the_shallow_maxout_net_has_no_more_parameters():
    stages = NETS[conv_tables.SHALLOW].stages
    assert ConvNet((1, 28, 28), 10, stages=stages, block="maxout", rng=None).params.flat.size <= 38_986


@pytest.mark.parametrize("ending", conv_tables.STUDY)
def test_a_study_on_the_digits_is_counted_and_drawn(workdir, digits, ending):
    study, runs = conv_tables.STUDY[ending].small(), []
    while tasks := Results(study, runs).next_tasks(least=99):
        runs += [StudyRun(None, task, 1, False, {}, TableMeasured(0.9, 0.1)) for task in tasks]
    found = {ending: Results(study, runs)}
    assert conv_tables.numbers(found)["accuracy"]
    assert conv_tables.figure(found)


def test_colours_are_refused_where_strokes_are_asked_for(digits):
    colour = digits._replace(train_x=np.repeat(digits.train_x, 3, axis=1))
    with refused_with("--dataset: expected grey images of strokes, found images of 3 channels"):
        conv_gates.of_net(conv_gates.STUDY, Path("net.npz"), colour)


# ------------------------------------------------------------------------------ tables 1 and 2


@pytest.mark.parametrize(
    ("net", "accuracies", "fields", "verdict"),
    [
        ("mnist-16", (0.994, 0.9942, 0.9939), {}, REPRODUCED),
        ("mnist-16", (0.992, 0.9921, 0.9919), {}, INCONCLUSIVE),  # in fewer epochs than the paper's
        ("mnist-16", (0.992, 0.9921, 0.9919), {"epochs": 300}, NOT_REPRODUCED),
        ("mnist-16", (0.994,), {}, INCONCLUSIVE),  # by its test images
        ("mnist-16", (0.999, math.nan), {}, INCONCLUSIVE),
        ("highway-a", (0.89,), {"n_test": 1000}, INCONCLUSIVE),
        ("highway-a", (0.91,), {"n_test": 1000}, REPRODUCED),
    ],
)
def test_a_net_is_as_good_as_the_papers_by_the_interval_over_seeds_or_images(net, accuracies, fields, verdict):
    runs = runs_of(net, *accuracies, **fields)
    assert conv_tables.judge_net(runs, conv_tables.PAPER[net]) == verdict


@pytest.mark.parametrize(
    ("shallow", "verdict"),
    [
        ((0.99, 0.9902, 0.9904), REPRODUCED),
        ((0.9935, 0.9937, 0.9939), NOT_REPRODUCED),
        ((0.9925, 0.9927, 0.9929), INCONCLUSIVE),
        ((math.nan, 0.9902, 0.9904), INCONCLUSIVE),
        ((math.nan, math.nan, math.nan), INCONCLUSIVE),
    ],
)
def test_highway_nets_are_compared_with_shallow_maxout_nets_which_must_learn(shallow, verdict):
    runs = [*runs_of("mnist-16", 0.992, 0.9922, 0.9924), *runs_of("mnist-16", 0.98, block="plain")]
    runs += runs_of(conv_tables.SHALLOW, *shallow, block="maxout")
    results = {"": Results(conv_tables.STUDY[""], runs)}
    assert conv_tables.numbers(results)["shallow"] == verdict
    axes, *_ = conv_tables.figure(results).axes
    dots = [line for line in axes.lines if line.get_marker() == "o" and line.get_alpha()]
    assert sum(len(line.get_xdata()) for line in dots) == 4 + sum(map(math.isfinite, shallow))


def test_images_count_beside_seeds_where_a_part_of_them_is_scored():
    part, whole = (runs_of("highway-a", 0.88, 0.89, 0.9, n_test=n) for n in (1000, 10_000))
    images = 1.96 * 100 * math.sqrt(0.89 * 0.11 / 1000)
    seeds = interval([88, 89, 90])
    assert conv_tables.lead(whole, 89) == pytest.approx((0, seeds.half))
    assert conv_tables.lead(part, 89) == pytest.approx((0, math.hypot(seeds.half, images)))
    assert conv_tables.lead(part[1:2], 89) == pytest.approx((0, images))


def test_runs_are_compared_seed_by_seed():
    runs, others = runs_of("mnist-8", 0.9, 1.0), runs_of("mnist-8", 0.8, 0.9, 0.8)[::-1]
    np.testing.assert_allclose(gains(runs, others), [10, 10])


# ------------------------------------------------------------------------------- where gates open


def test_images_are_averaged_down_without_their_frame():
    images = np.zeros((1, 1, 28, 28), np.uint8)
    images[0, 0, 2:4, 2:4] = 255  # the first 2 x 2 pixels inside the frame
    images[0, 0, :2] = 255  # the frame counts for nothing
    assert conv_gates.average_down(images, 2, 24).sum() == 4
    np.testing.assert_array_equal(conv_gates.average_down(images, 2, 12)[0, :2, :2], [[1, 0], [0, 0]])
    assert conv_gates.average_down(images, 2, 6)[0, 0, 0] == 0.25


@pytest.fixture
def made_net() -> ConvNet:
    """A net of table 1 whose gates depend on nothing but a block's bias."""
    net = ConvNet((1, 28, 28), 10, stages=configure("mnist-8").stages, rng=np.random.default_rng(0))
    for name, tensor in net.params.items():
        layer, _, part = name.rpartition(".")
        if part in ("W_T", "b_T"):
            tensor[...] = int(layer) / 10 * (part == "b_T")
    return net


def test_gates_that_ignore_the_image_are_alike_on_strokes_and_background(made_net):
    images = np.random.default_rng(1).integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)
    found = conv_gates.see(made_net, images[:3], images)
    assert [len(T) for T in found.maps[2]] == [24, 24, 12, 12, 12, 6, 6, 6]
    expected = [1 / (1 + math.exp(-l / 10)) for l in range(2, 10)]
    assert found.background == pytest.approx(expected, abs=1e-4)
    assert np.nan_to_num(found.difference) == pytest.approx(np.zeros(8), abs=1e-4)
    with np.errstate(invalid="ignore"):
        assert conv_gates.see(made_net, images[:1], np.zeros_like(images)).strokes == [None] * 8


def test_gates_that_open_on_ink_are_found_to(made_net):
    made_net.params["1.W_H"][...] = 1 / 25  # the first layer blurs the image
    made_net.params["2.W_T"][...] = 1
    images = np.zeros((5, 1, 28, 28), np.uint8)
    images[:, :, :, 10:18] = 255
    found = conv_gates.see(made_net, images[:1], images)
    assert found.difference[0] > 0.2
    inner = np.array(found.maps[0][0])
    assert inner[12, 12] > 0.9 > inner[12, 0]


@pytest.mark.parametrize(("without", "above"), [(slice(3), [4, 5, 8]), (slice(None), [])])
def test_blocks_that_see_no_stroke_are_drawn_and_not_counted(without, above, monkeypatch):
    monkeypatch.chdir(ROOT)
    results = common.load("conv_gates").committed()[""]
    for gates in (results.runs[0].measured.trained, results.runs[0].measured.untrained):
        gates.strokes[without] = [None] * len(gates.strokes[without])
    with warnings.catch_warnings(action="error"):
        assert conv_gates.figure(results)
        assert conv_gates.numbers(results)["above"] == above


def test_a_net_may_be_given_and_its_log_bears_its_name(workdir, digits):
    net = ConvNet((1, 8, 8), 10, stages=configure("digits").stages, rng=np.random.default_rng(0))
    net.save("mine.npz")
    experiment = common.load("conv_gates")
    assert experiment.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    (run,) = experiment.read(log_of_net("conv_gates-digits", "mine.npz")).runs
    for label, image in enumerate(run.measured.pixels):
        np.testing.assert_array_equal(image, digits.test_x[digits.test_y == label][0, 0])
    assert (run.cell.file, run.measured.images, run.n_trained) == ("mine.npz", 360, net.params.flat.size)
    assert run.measured.trained == run.measured.untrained, "this one is not trained, and drawn from the same seed"


@pytest.mark.parametrize(
    ("block", "shape", "words"),
    [
        (
            "plain",
            (1, 8, 8),
            "blocks with a transform gate T, found 4 plain blocks",
        ),
        ("highway", (1, 9, 9), "found {'shape': [1, 9, 9], 'd_out': 10}; give"),
    ],
)
def test_a_net_that_does_not_suit_is_refused(workdir, refused, block, shape, words):
    ConvNet(shape, 10, stages=configure("digits").stages, block=block, rng=0).save("net.npz")
    assert words in refused(common.load("conv_gates").main, ["run", "--smoke", "--model", "net.npz"])
    assert [path.name for path in workdir.iterdir()] == ["net.npz"]
