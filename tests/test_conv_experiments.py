"""Experiments on convolutional nets: what is run and chosen, rules at their borders, where gates open."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import ROOT, log_of_net, refused_with

from conv_highway_networks import ConvNet
from conv_recipes import NETS, ConvConfig, configure
from experiments import common, conv_tables
from experiments.claims import Verdict
from experiments.looks import conv_gates
from highway_lab.intervals import interval
from highway_lab.logs import RunRecord
from highway_lab.training import Training
from highway_networks import Dataset

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE
LOGS = [conv_tables.EXPERIMENT.log_path(ending) for ending in (None, "cifar-10", *conv_tables.MORE)]


def runs_of(net: str, *accuracies: float, **fields: object) -> list[RunRecord[ConvConfig]]:
    """Return a run for each test accuracy, with a seed of its own; NaN diverged."""
    config = configure(net, **{"epochs": 20} | fields)
    return [made_up.conv_run(replace(config, seed=seed), accuracy) for seed, accuracy in enumerate(accuracies)]


# ---------------------------------------------------------------------------------------- what is run


def test_a_killed_run_resumes_and_another_data_set_does_not_resume_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    whole = conv_tables.train_one("conv_tables", config, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_tables.train_one("conv_tables", config, digits)
    assert (again.history, seen) == (whole.history, []), "its checkpoint is of the last epoch"
    configs, names = (config, replace(config, lr=1.0)), ("a", "a-fashion-mnist")
    assert len({conv_tables.checkpoint_path(name, of) for name in names for of in configs}) == 4


def test_a_fresh_run_forgets_the_checkpoints_of_its_log_only(workdir, digits):
    config = configure("digits", epochs=1, n_train=100, n_validation=20, n_test=20)
    left = [conv_tables.checkpoint_path(name, config) for name in ("made-up", "made-up-digits")]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"of another training")
    job = made_up.job(digits, fresh=True, jobs=1, to_continue="again")
    (run,) = conv_tables.train_missing(job, [config])
    assert run.history.epoch == [0, 1]
    assert [path.read_bytes()[:2] for path in left] == [b"PK", b"of"]
    Path("made-up.jsonl").unlink()
    assert conv_tables.train_missing(job, [config])[0].history == run.history, "fresh once, it goes on"


def test_a_setting_that_diverged_is_chosen_last_and_of_equals_the_first():
    scores = {0.1: math.nan, 0.2: 0.8, 0.3: 0.8}
    runs = [run for lr, score in scores.items() for run in runs_of("mnist-16", score, lr=lr)]
    assert conv_tables.best([("highway", {"lr": lr}) for lr in scores], runs) == {"highway": {"lr": 0.2}}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_committed_runs_are_those_that_the_plan_asks_for(path, monkeypatch):
    """Choosing anew from the runs that chose gives the choice, and from it follow all configurations of the log."""
    monkeypatch.chdir(ROOT)
    log, kept = conv_tables.EXPERIMENT.read(path), {}
    dataset = log.dataset.name
    study = path.stem.removeprefix("conv_tables").removeprefix(f"-{dataset}").removeprefix("-")
    first = conv_tables.EXPERIMENT.log_path(dataset)
    found = {replace(run.config, seed=0, epochs=1): run for run in log.choosing}
    logged = {run.config: run for run in log.runs}
    sizes = {"mnist": (60_000, 10_000), "cifar-10": (50_000, 1_000)}[dataset]
    images = [np.broadcast_to(np.zeros((1, 1, 1), np.uint8), (n, 1, 1)) for n in sizes]
    data = Dataset(images[0], np.zeros(sizes[0]), images[1], np.zeros(sizes[1]), 10, "test images")

    def train(job, configs):
        return [logged.get(of) or found[replace(of, seed=0, epochs=1)] for of in configs]

    monkeypatch.setattr(conv_tables, "train_missing", train)
    monkeypatch.setattr(conv_tables, "time_step", lambda net, _: net)
    monkeypatch.setattr(common.ExperimentJob, "keep", lambda _, config, **log: kept.update(log))
    monkeypatch.setattr(conv_tables, "checkpoint_path", lambda *_: Path("none"))
    job = made_up.job(data, dataset=dataset, study=study)
    conv_tables.run(replace(job, experiment=conv_tables.EXPERIMENT, path=first))
    assert kept["chosen"] == log.chosen
    assert kept["choosing"] == log.choosing
    assert sorted(map(repr, kept["runs"])) == sorted(map(repr, log.runs))
    assert kept["costs"] == [cost.net for cost in log.costs]


def test_the_shallow_maxout_net_has_no_more_parameters():
    stages = NETS[conv_tables.SHALLOW].stages
    assert ConvNet((1, 28, 28), 10, stages=stages, block="maxout", rng=None).params.flat.size <= 38_986


@pytest.mark.parametrize("study", [*filter(None, conv_tables.PARTS)])
def test_a_smoke_run_of_each_study_is_read_and_drawn(workdir, monkeypatch, study):
    monkeypatch.setattr(conv_tables, "train_missing", lambda _, configs: [made_up.conv_run(of, 0.9) for of in configs])
    experiment, path = conv_tables.EXPERIMENT, conv_tables.EXPERIMENT.log_path(smoke=True)
    assert [experiment.main(["run", "--smoke", *words]) for words in ([], ["--study", study])] == [0, 0]
    logs = [experiment.read(of) for of in (path, common.with_ending(path, study))]
    assert {run.config for run in logs[0].runs}.isdisjoint(run.config for run in logs[1].runs)
    assert conv_tables.numbers(*logs)["accuracy"] != conv_tables.numbers(logs[0])["accuracy"], "the new runs count"
    assert conv_tables.figure(*logs)


@pytest.mark.parametrize("experiment", [conv_gates, conv_tables])
def test_a_data_set_that_does_not_suit_is_refused(workdir, refused, digits, monkeypatch, experiment):
    colour = digits._replace(train_x=np.repeat(digits.train_x, 3, axis=1))
    monkeypatch.setattr(common, "load_data", lambda arguments: ("colour", colour))
    assert "found colour; choose " in refused(experiment.EXPERIMENT.main, ["run"])
    assert list(workdir.iterdir()) == []


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
    assert conv_tables.judge_net(runs, conv_tables.PAPER[net].value) == verdict


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
    log = replace(conv_tables.EXPERIMENT.read(ROOT / LOGS[0]), runs=runs)
    assert conv_tables.numbers(log)["shallow"] == verdict
    axes, *_ = conv_tables.figure(log).axes
    dots = [line for line in axes.lines if line.get_marker() == "o" and line.get_alpha()]
    assert sum(len(line.get_xdata()) for line in dots) == 4 + sum(map(math.isfinite, shallow))


def test_images_count_beside_seeds_where_a_part_of_them_is_scored():
    part = runs_of("highway-a", 0.88, 0.89, 0.9, n_test=1000)
    whole = [replace(run, config=replace(run.config, n_test=10_000)) for run in part]
    images = 1.96 * 100 * math.sqrt(0.89 * 0.11 / 1000)
    seeds = interval([88, 89, 90])
    assert conv_tables.lead(whole, 89) == pytest.approx((0, seeds.half))
    assert conv_tables.lead(part, 89) == pytest.approx((0, math.hypot(seeds.half, images)))
    assert conv_tables.lead(part[1:2], 89) == pytest.approx((0, images))


def test_runs_are_compared_seed_by_seed():
    runs, others = runs_of("mnist-8", 0.9, 1.0), runs_of("mnist-8", 0.8, 0.9, 0.8)[::-1]
    np.testing.assert_allclose(conv_tables.gains(runs, others), [10, 10])


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
    found = conv_gates.measure(made_net, images[:3], images)
    assert [len(T) for T in found.maps[2]] == [24, 24, 12, 12, 12, 6, 6, 6]
    expected = [1 / (1 + math.exp(-l / 10)) for l in range(2, 10)]
    assert found.background == pytest.approx(expected, abs=1e-4)
    assert np.nan_to_num(found.difference) == pytest.approx(np.zeros(8), abs=1e-4)
    assert conv_gates.measure(made_net, images[:1], np.zeros_like(images)).strokes == [None] * 8


def test_gates_that_open_on_ink_are_found_to(made_net):
    made_net.params["1.W_H"][...] = 1 / 25  # the first layer blurs the image
    made_net.params["2.W_T"][...] = 1
    images = np.zeros((5, 1, 28, 28), np.uint8)
    images[:, :, :, 10:18] = 255
    found = conv_gates.measure(made_net, images[:1], images)
    assert found.difference[0] > 0.2
    inner = np.array(found.maps[0][0])
    assert inner[12, 12] > 0.9 > inner[12, 0]


@pytest.mark.parametrize(("without", "above"), [(slice(3), [4, 5, 8]), (slice(None), [])])
def test_blocks_that_see_no_stroke_are_drawn_and_not_counted(without, above):
    log = conv_gates.EXPERIMENT.read(ROOT / "runs" / "conv_gates.json")
    for gates in (log.trained, log.untrained):
        gates.strokes[without] = [None] * len(gates.strokes[without])
    with warnings.catch_warnings(action="error"):
        assert conv_gates.figure(log)
        assert conv_gates.numbers(log)["above"] == above


def test_the_digits_drawn_are_the_first_of_each_class(digits):
    indices = conv_gates.first_of_each_class(digits)
    assert digits.test_y[indices].tolist() == list(range(10))
    assert all(label not in digits.test_y[:index] for label, index in enumerate(indices))
    with refused_with("--dataset: expected test images of each class, found 8 classes without"):
        conv_gates.first_of_each_class(digits._replace(test_y=digits.test_y % 2))


def test_a_net_may_be_given_and_its_log_bears_its_name(workdir, digits):
    net = ConvNet((1, 8, 8), 10, stages=configure("digits").stages, rng=np.random.default_rng(0))
    net.save("mine.npz")
    assert conv_gates.EXPERIMENT.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    log = conv_gates.EXPERIMENT.read(log_of_net("conv_gates-digits", "mine.npz"))
    assert (log.file, log.images, log.net["stages"]) == ("mine.npz", 360, net.config["stages"])
    assert log.trained == log.untrained, "this one is not trained, and drawn from the same seed"


@pytest.mark.parametrize(
    ("block", "shape", "words"),
    [
        ("plain", (1, 8, 8), "expected a net with gates for images (1, 8, 8) of 10 classes, found 4 plain blocks"),
        ("highway", (1, 9, 9), "of 10 classes, found 4 highway blocks for images (1, 9, 9) of 10 classes; give"),
    ],
)
def test_a_net_that_does_not_suit_is_refused(workdir, refused, block, shape, words):
    ConvNet(shape, 10, stages=configure("digits").stages, block=block, rng=0).save("net.npz")
    assert words in refused(conv_gates.EXPERIMENT.main, ["run", "--smoke", "--model", "net.npz"])
    assert [path.name for path in workdir.iterdir()] == ["net.npz"]
