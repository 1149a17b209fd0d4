"""Experiments on convolutional nets: what is run, how runs are compared, and what tables and verdicts say of them."""

import argparse
import math
import subprocess
import sys
import warnings
from dataclasses import astuple, replace
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import ROOT, log_of_net, refused_with, small_conv_net

from conv_highway_networks import ConvNet
from conv_recipes import NETS, ConvConfig, configure
from experiments import common, conv_runs, conv_tables
from experiments import conv_tables_figures as ctf
from experiments.beyond import conv_gates
from experiments.beyond.conv_gates_figures import gates_figure, inner_pixels
from experiments.claims import Verdict
from experiments.common import load
from experiments.common_figures import gains, minus
from experiments.conv_tables import ConvTablesLog
from highway_lab.intervals import interval
from highway_lab.logs import DatasetInfo
from highway_lab.training import Training

MNIST = DatasetInfo("mnist", 55_000, 10_000)
CIFAR = DatasetInfo("cifar-10", 45_000, 1_000, "first 1,000 test images")


def tables_log(dataset: DatasetInfo, scores: dict[ConvConfig, float]) -> ConvTablesLog:
    """Return a log of runs of these test accuracies."""
    runs = [made_up.conv_run(config, score) for config, score in scores.items()]
    return made_up.log(ConvTablesLog, dataset, choosing=[], chosen={}, runs=runs, costs=[])


def mnist_log(*accuracies: float, epochs: int = 20) -> ConvTablesLog:
    """Return a log of the first net, with a seed for each accuracy, and of its plain net."""
    config = configure("mnist-16", epochs=epochs)
    highway = {replace(config, seed=seed): of for seed, of in enumerate(accuracies)}
    return tables_log(MNIST, highway | {replace(config, block="plain"): 0.98})


def cifar_log(longest: float = 0.85, plain: float = 0.8) -> ConvTablesLog:
    """Return a log of Highway A, also in twice the epochs, and of its plain net."""
    config = configure("highway-a", epochs=30, n_test=1000)
    longer, of_plain = replace(config, epochs=60), replace(config, block="plain")
    return tables_log(CIFAR, {config: 0.83, longer: longest, of_plain: plain})


# ---------------------------------------------------------------------------------------- what is run


def test_a_killed_run_resumes_and_another_data_set_does_not_resume_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    whole = conv_runs.train_one("conv_tables", config, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_runs.train_one("conv_tables", config, digits)
    assert (again.history, seen) == (whole.history, []), "its checkpoint is of the last epoch"
    configs, names = (config, replace(config, lr=1.0)), ("a", "a-fashion-mnist")
    assert len({conv_runs.checkpoint_path(name, of) for name in names for of in configs}) == 4


def test_a_fresh_run_forgets_the_checkpoints_of_its_log_only(workdir, digits):
    config = configure("digits", epochs=1, n_train=100, n_validation=20, n_test=20)
    left = [conv_runs.checkpoint_path(name, config) for name in ("made-up", "made-up-digits")]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"of another training")
    job = made_up.job(digits, fresh=True, jobs=1, to_continue="again")
    (run,) = conv_runs.train_missing(job, [config])
    assert run.history.epoch == [0, 1]
    assert [path.read_bytes()[:2] for path in left] == [b"PK", b"of"]
    Path("made-up.jsonl").unlink()
    assert conv_runs.train_missing(job, [config])[0].history == run.history, "fresh once, it goes on"


def test_the_net_of_gate_maps_goes_on_from_its_checkpoint_until_fresh(workdir, digits, monkeypatch):
    there = []

    def train(config, data, *, keep, **_):
        there.append(keep.exists())
        keep.parent.mkdir(exist_ok=True)
        keep.touch()
        return argparse.Namespace(net=small_conv_net())

    monkeypatch.setattr(conv_gates, "train_resumably", train)
    for fresh in (False, False, True):
        conv_gates.train_short(made_up.job(digits, smoke=True, fresh=fresh))
    assert there == [False, True, False]


@pytest.mark.parametrize(
    ("shallow", "verdict"),
    [(0.99, Verdict.REPRODUCED), (0.9935, Verdict.NOT_REPRODUCED), (0.9925, Verdict.INCONCLUSIVE)],
)
def test_highway_nets_are_compared_with_a_shallow_maxout_net(shallow, verdict):
    config = configure(ctf.SHALLOW, epochs=20, block="maxout")
    scores = {replace(config, seed=seed): shallow + 0.0002 * seed for seed in range(3)}
    *_, claim = ctf.claims(mnist_log(0.992, 0.9922, 0.9924), tables_log(MNIST, scores))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("lost", "found"),
    [(1, ", maxout nets of 5 layers and 25 maps 99.00 %. Of 3 maxout nets 1 diverged"), (3, ". Of 3 maxout nets 3")],
)
def test_maxout_nets_that_diverged_are_counted_and_decide_nothing(lost, found):
    config = configure(ctf.SHALLOW, epochs=20, block="maxout")
    log = tables_log(MNIST, {replace(config, seed=seed): 0.99 for seed in range(3)})
    for run in log.runs[:lost]:
        run.diverged, run.history.test_score = True, []
    *_, claim = ctf.claims(mnist_log(0.992, 0.9922, 0.9924), log)
    assert claim.verdict == Verdict.INCONCLUSIVE
    assert found in claim.why


def test_a_diverged_net_is_counted_beside_its_row_and_has_no_dot():
    config = configure(ctf.SHALLOW, epochs=20, block="maxout")
    log = tables_log(MNIST, {replace(config, seed=seed): 0.99 for seed in range(3)})
    log.runs[0].diverged, log.runs[0].history.test_score = True, []
    (part,) = ctf.FIGURES["conv_tables.png"](log).subfigs
    (axes,) = part.axes
    assert "maxout, 3 seeds, 1 diverged" in [text.get_text() for text in axes.texts]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [[*line.get_xdata()] for line in dots] == [pytest.approx([1, 1])]


def test_a_setting_that_diverged_is_chosen_last():
    config = configure(ctf.SHALLOW, epochs=2)
    runs = [made_up.conv_run(replace(config, lr=lr), score) for lr, score in ((0.1, 0.9), (0.2, 0.8))]
    runs[0].diverged = True
    assert conv_tables.best([("highway", {"lr": run.config.lr}) for run in runs], runs) == {"highway": {"lr": 0.2}}


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [((0.9950, 0.9951, 0.9952), Verdict.REPRODUCED), ((0.990, 0.9901, 0.9902), Verdict.INCONCLUSIVE)],
)
def test_the_quoted_maxout_net_can_be_matched_but_not_refuted_by_fewer_epochs(accuracies, verdict):
    _, claim = ctf.claims(mnist_log(*accuracies))
    assert (claim.section, claim.verdict) == ("5", verdict)


def test_a_process_that_only_trains_knows_maxout():
    program = "import experiments.conv_runs; from highway_networks import BLOCKS; BLOCKS['maxout']"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_maxout_net_chooses_its_setting_and_has_no_more_parameters(digits, workdir, monkeypatch):
    seen = []

    def train(job, configs):
        seen.extend(configs)
        return [made_up.conv_run(config, config.lr) for config in configs]  # the highest rate is best

    monkeypatch.setattr(conv_tables, "train_missing", train)
    monkeypatch.setattr(common.ExperimentJob, "keep", lambda _, config, **log: seen.append(log["chosen"]))
    conv_tables.run_maxout(made_up.job(digits, dataset="mnist"))
    *runs, chosen = seen
    assert chosen == {"maxout": {"init": "orthogonal", "dropout": 0.25, "lr": 0.1}}
    (net,) = {
        ConvNet((1, 28, 28), 10, stages=NETS[run.net].stages, block="maxout", rng=None).params.flat.size for run in runs
    }
    assert net <= 38_986


def test_runs_are_compared_seed_by_seed():
    config = configure("mnist-8", epochs=2)
    runs = [made_up.conv_run(replace(config, seed=seed), 0.9 + 0.1 * seed) for seed in (0, 1)]
    others = [made_up.conv_run(replace(config, seed=seed), 0.8 + 0.1 * seed) for seed in (1, 0, 2)]
    np.testing.assert_allclose(gains(runs, others), [10, 10])


# ------------------------------------------------------------------------------ tables 1 and 2


def test_the_standard_error_is_that_of_the_images():
    assert ctf.images_error(cifar_log().runs[:1]) == pytest.approx(100 * math.sqrt(0.83 * 0.17 / 1000))
    assert ctf.images_error(mnist_log(0.99).runs[:1]) == pytest.approx(100 * math.sqrt(0.99 * 0.01 / 10_000))


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.994, 0.9942, 0.9939), Verdict.REPRODUCED),
        ((0.992, 0.9921, 0.9919), Verdict.INCONCLUSIVE),  # in fewer epochs than the paper's
        ((0.994,), Verdict.INCONCLUSIVE),
        ((0.999, math.nan), Verdict.INCONCLUSIVE),
    ],
)
def test_a_net_is_as_good_as_the_papers_by_the_interval_over_seeds(accuracies, verdict):
    claim, _ = ctf.claims(mnist_log(*accuracies))
    assert claim.verdict == verdict


def test_a_rule_came_before_the_runs_of_a_later_log_only():
    first, later = mnist_log(0.994, epochs=12), mnist_log(0.994, 0.9942)
    assert [claim.before for logs in ([first], [first, later]) for claim in ctf.claims(*logs)[:1]] == [False, True]


@pytest.mark.parametrize(
    ("longest", "verdict"), [(0.85, Verdict.INCONCLUSIVE), (0.89, Verdict.INCONCLUSIVE), (0.91, Verdict.REPRODUCED)]
)
def test_a_single_seed_is_judged_by_its_test_images_in_the_longest_budget(longest, verdict):
    assert ctf.claims(cifar_log(longest=longest))[0].verdict == verdict


def test_as_many_epochs_as_the_papers_can_refute_it():
    assert ctf.claims(mnist_log(0.99, 0.9901, 0.9899, epochs=300))[0].verdict == Verdict.NOT_REPRODUCED


def test_the_title_says_what_highway_nets_reach_and_how_far_plain_nets_are_behind_or_ahead():
    assert ctf.gist(mnist_log(0.994, 0.9942, 0.9939)) == (
        "highway nets reach the paper's accuracy; plain nets minus highway nets: −1.40 points"
    )
    assert ctf.gist(cifar_log(longest=0.85)) == (
        "whether highway nets reach the paper's accuracy is open; plain nets minus highway nets: −5.00 points"
    )


def test_images_count_beside_seeds_where_a_part_of_them_is_scored():
    config = configure("highway-a", epochs=2, n_test=1000)
    part = [made_up.conv_run(replace(config, seed=seed), 0.88 + 0.01 * seed) for seed in range(3)]
    whole = [replace(run, config=replace(run.config, n_test=10_000)) for run in part]
    seeds = interval([88, 89, 90])
    assert ctf.lead(whole, 89) == pytest.approx((0, seeds.half))
    assert ctf.lead(part, 89) == pytest.approx((0, math.hypot(seeds.half, 1.96 * ctf.images_error(part))))


def test_a_diverged_run_counts_as_chance_in_words():
    claim = next(claim for claim in ctf.claims(cifar_log(plain=math.nan)) if claim.section == "3.3.1")
    assert claim.verdict == Verdict.NOT_TESTED, "it is no maxout net"
    assert "reach 10.00 % (± 1.9 because only 1,000 test images are at hand, 1 diverged), 1 seed" in claim.measured


@pytest.mark.parametrize("net", ctf.PAPER)
def test_the_papers_numbers_belong_to_nets_of_their_size(net):
    number, unit = ctf.PAPER[net].parameters.split()
    layers, n_params = NETS[net].counts
    assert n_params == pytest.approx(float(number) * {"K": 1e3, "M": 1e6}[unit], rel=0.03)
    assert f" {layers} layers" in f" {ctf.PAPER[net].net}"


# ------------------------------------------------------------------------------- where gates open


def test_images_are_averaged_down_without_their_frame():
    images = np.zeros((1, 1, 28, 28), np.uint8)
    images[0, 0, 2:4, 2:4] = 255  # the first 2 x 2 pixels inside the frame
    images[0, 0, :2] = 255  # the frame counts for nothing
    assert conv_gates.average_down(images, 2, 24).sum() == 4
    np.testing.assert_array_equal(conv_gates.average_down(images, 2, 12)[0, :2, :2], [[1, 0], [0, 0]])
    assert conv_gates.average_down(images, 2, 6)[0, 0, 0] == 0.25
    assert conv_gates.average_down(np.full_like(images, 255), 2, 6).tolist() == np.ones((1, 6, 6)).tolist()


@pytest.fixture
def made_net() -> ConvNet:
    """A net of table 1 whose gates depend on nothing but a block's bias."""
    net = ConvNet((1, 28, 28), 10, stages=configure("mnist-8").stages, rng=np.random.default_rng(0))
    for name, tensor in net.params.items():
        layer, _, part = name.rpartition(".")
        if part == "W_T":
            tensor[...] = 0
        elif part == "b_T":
            tensor[...] = int(layer) / 10
    return net


def test_gates_that_ignore_the_image_are_alike_on_strokes_and_background(made_net):
    images = np.random.default_rng(1).integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)
    found = conv_gates.measure(made_net, images[:3], images)
    assert len(found.maps) == 3
    assert [len(T) for T in found.maps[0]] == [24, 24, 12, 12, 12, 6, 6, 6]
    expected = [1 / (1 + math.exp(-l / 10)) for l in range(2, 10)]
    assert found.background == pytest.approx(expected, abs=1e-4)
    strokes = [mean if stroke is None else stroke for stroke, mean in zip(found.strokes, expected, strict=True)]
    assert strokes == pytest.approx(expected, abs=1e-4)
    blank = conv_gates.measure(made_net, images[:1], np.zeros_like(images))
    assert blank.strokes == [None] * 8


@pytest.mark.parametrize("without", [slice(3), slice(None)])
def test_blocks_that_see_no_stroke_are_drawn_and_not_counted(without):
    log = conv_gates.EXPERIMENT.read(ROOT / "runs" / "conv_gates.json")
    for gates in (log.trained, log.untrained):
        gates.strokes[without] = [None] * len(gates.strokes[without])
    with warnings.catch_warnings(action="error"):
        title = gates_figure(log).get_suptitle()
    assert title.startswith("Gates open more on strokes: in ")
    assert ("in 0 of" in title) == (without == slice(None))


def test_gates_that_open_on_ink_are_found_to(made_net):
    made_net.params["1.W_H"][...] = 1 / 25  # the first layer blurs the image
    made_net.params["2.W_T"][...] = 1
    images = np.zeros((5, 1, 28, 28), np.uint8)
    images[:, :, :, 10:18] = 255
    found = conv_gates.measure(made_net, images[:1], images)
    assert found.strokes[0] > found.background[0] + 0.2
    inner = np.array(found.maps[0][0])
    assert inner[12, 12] > 0.9 > inner[12, 0]


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
    assert np.array_equal(inner_pixels(log), digits.test_x[conv_gates.first_of_each_class(digits), 0])


@pytest.mark.parametrize(
    ("fields", "shape", "d_out", "words"),
    [
        ({"block": "plain"}, (1, 8, 8), 10, "expected a net with gates, found 4 plain blocks"),
        ({}, (1, 9, 9), 10, "expected a net for images (1, 8, 8) of 10 classes, found one for (1, 9, 9) of 10"),
        ({}, (1, 8, 8), 3, "expected a net for images (1, 8, 8) of 10 classes, found one for (1, 8, 8) of 3"),
    ],
)
def test_a_net_that_does_not_suit_is_refused(workdir, refused, fields, shape, d_out, words):
    ConvNet(shape, d_out, stages=configure("digits").stages, **fields, rng=np.random.default_rng(0)).save("net.npz")
    assert words in refused(conv_gates.EXPERIMENT.main, ["run", "--smoke", "--model", "net.npz"])
    assert [path.name for path in workdir.iterdir()] == ["net.npz"]


@pytest.mark.parametrize("experiment", [conv_gates, conv_tables])
def test_a_data_set_that_does_not_suit_is_refused(workdir, refused, digits, monkeypatch, experiment):
    colour = digits._replace(train_x=np.repeat(digits.train_x, 3, axis=1))
    monkeypatch.setattr(common, "load_data", lambda arguments: ("colour", colour))
    assert "found colour; choose " in refused(experiment.EXPERIMENT.main, ["run"])
    assert list(workdir.iterdir()) == []


def test_a_long_run_takes_a_rate_then_a_padding_and_all_training_images(workdir, monkeypatch, digits):
    """Rates of 0.1 and paddings of 4 score better here; highway nets are logged before the plain net is trained."""
    path = Path("runs/conv_tables-smoke-long.json")

    def train(job, configs):
        if configs[0].block == "plain" and not configs[0].n_validation:
            assert [run.config.block for run in conv_tables.EXPERIMENT.read(path).runs] == ["highway"]
        return [made_up.conv_run(of, 0.5 + of.lr - 0.01 * of.padding) for of in configs]

    monkeypatch.setattr(conv_tables, "train_missing", train)
    assert [conv_tables.EXPERIMENT.main(["run", "--smoke", *words]) for words in ([], ["--long"])] == [0, 0]
    log = conv_tables.EXPERIMENT.read(path)
    assert [run.config.block for run in log.runs] == ["highway", "plain"]
    assert log.chosen["highway"].items() >= {"lr": 0.1, "padding": 4}.items()
    tried = {(run.config.block, run.config.lr, run.config.padding) for run in log.choosing}
    assert tried == {(block, *of) for block in ("highway", "plain") for of in ((0.05, 8), (0.1, 8), (0.1, 4))}
    assert all(run.config.n_validation and run.config.n_train < len(digits.train_x) for run in log.choosing)
    config = log.runs[0].config
    assert (config.n_train, config.n_validation, config.lr, config.padding) == (len(digits.train_x), 0, 0.1, 4)


def test_further_seeds_have_a_log_of_their_own_and_the_first_ones_settings(workdir, monkeypatch):
    experiment, flag, log = load("conv_tables"), "--more-seeds", {}
    train = lambda job, configs: [made_up.conv_run(config, 0.9) for config in configs]  # noqa: E731
    monkeypatch.setattr("experiments.conv_tables.train_missing", train)
    for words in ([], [flag]):
        assert experiment.main(["run", "--smoke", *words]) == 0
        path = experiment.log_path(smoke=True)
        log[flag in words] = experiment.read(path.with_stem(path.stem + flag[1:] * len(words)))
    settings = [{astuple(replace(run.config, seed=0)) for run in log[new].runs} for new in (False, True)]
    seeds = [{run.config.seed for run in log[new].runs} for new in (False, True)]
    assert settings[1] <= settings[0]
    assert seeds[0].isdisjoint(seeds[1])
    for table in (*experiment.tables.values(), *experiment.figures.FIGURES.values()):
        assert table(log[False], log[True])
    table = experiment.tables["conv_tables"]
    assert table(log[False], log[True]) != table(log[False]), "the new seeds count"


def test_a_negative_number_has_a_minus_sign_and_zero_has_none():
    assert [minus(value) for value in (-2.5, round(-0.04, 1), 0, 3)] == ["−2.5", "0", "0", "3"]
