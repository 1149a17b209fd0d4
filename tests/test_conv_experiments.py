"""Experiments on convolutional nets: what is run, how runs are compared, and what tables and verdicts say of them."""

import math
from dataclasses import replace
from itertools import product

import made_up
import numpy as np
import pytest
from picture_helpers import cells

from conv_highway_networks import Blocks, ConvNet
from conv_recipes import ConvConfig, configure
from experiments import common, conv_bias, conv_runs, conv_tables
from experiments.beyond import batch_norm, conv_gates
from experiments.beyond.batch_norm_figures import norm_table
from experiments.beyond.conv_gates_figures import gates_table, inner_pixels
from experiments.common_figures import gains
from experiments.conv_bias_figures import bias_figure, bias_table, by_depth
from experiments.conv_bias_figures import claims as bias_claims
from experiments.conv_tables import ConvTablesLog, Cost
from experiments.conv_tables_figures import (
    PAPER,
    choosing_table,
    claims,
    costs_table,
    curves_figure,
    days,
    images_error,
    is_chosen,
    main_table,
    rows,
)
from highway_lab.figures import COLORS, pale
from highway_lab.logs import DatasetInfo, RunLog
from highway_lab.training import Training

MNIST = DatasetInfo("mnist", 55_000, 10_000)
CIFAR = DatasetInfo("cifar-10", 45_000, 1_000, "first 1,000 test images")


def for_both(fields: dict) -> dict[str, dict]:
    """Return one choice for each kind of block."""
    return {"highway": fields, "plain": fields}


def mnist_log(accuracies: tuple[float, ...] = (0.99, 0.992, 0.994), plain: float = 0.98) -> ConvTablesLog:
    """Return a log of two candidates, the second chosen, of the first net with a seed an accuracy, of a plain one."""
    config = configure("mnist-16", epochs=20, dropout=0.5)
    runs = [made_up.conv_run(replace(config, seed=seed), accuracy) for seed, accuracy in enumerate(accuracies)]
    runs.append(made_up.conv_run(replace(config, block="plain"), plain))
    choosing = [made_up.conv_run(replace(config, dropout=dropout), 0.9) for dropout in (1.0, 0.5)]
    chosen = for_both({"dropout": 0.5})
    return made_up.log(ConvTablesLog, MNIST, choosing=choosing, chosen=chosen, runs=runs, costs=[])


def cifar_log(accuracy: float = 0.83) -> ConvTablesLog:
    """Return a log of Highway A, with twice the budget, plain and without augmentation; and the cost of two nets."""
    config = configure("highway-a", epochs=30, n_test=1000, dropout=0.0)
    scores = {
        config: accuracy,
        replace(config, epochs=60): 0.85,
        replace(config, block="plain"): 0.8,
        replace(config, augment=False): 0.75,
    }
    runs = [made_up.conv_run(of, score) for of, score in scores.items()]
    choosing = [made_up.conv_run(replace(config, epochs=8), 0.7)]
    costs = [Cost("highway-b", 2_256_838, 100, 2.16), Cost("highway-c", 1_250_000, 100, 4.32)]
    chosen = for_both({"dropout": 0.0})
    return made_up.log(ConvTablesLog, CIFAR, choosing=choosing, chosen=chosen, runs=runs, costs=costs)


def by_header(table: str) -> list[dict[str, str]]:
    """Return the rows of a Markdown table, by the words of its header."""
    header, *rows = cells(table)
    return [dict(zip(header, row, strict=True)) for row in rows]


# ---------------------------------------------------------------------------------------- what is run


def test_nets_of_different_depth_are_of_one_kind():
    beside_blocks = []
    for layers, net in conv_bias.NETS.items():
        config = configure(net)
        assert conv_bias.layers(config) == layers == 2 + sum(s.number for s in config.stages if isinstance(s, Blocks))
        beside_blocks.append([stage for stage in config.stages if not isinstance(stage, Blocks)])
    assert beside_blocks == beside_blocks[:1] * 3


def test_normalisation_is_all_that_a_pair_of_runs_differs_by(as_many_as_mnist):
    configs = batch_norm.configs(as_many_as_mnist, smoke=False)
    assert len(set(configs)) == len(configs) == 2 * 2 * 3
    assert [replace(without, batch_norm=True) for without in configs[::2]] == configs[1::2]
    assert {(c.net, c.epochs, c.n_train) for c in configs} == {("mnist-16", 6, 20_000)}


def test_a_killed_run_resumes_and_another_data_set_does_not_resume_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    whole = conv_runs.train_one("conv_bias", config, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_runs.train_one("conv_bias", config, digits)
    assert (again.history, seen) == (whole.history, []), "its checkpoint is of the last epoch"
    configs, names = (config, replace(config, lr=1.0)), ("a", "a-fashion-mnist")
    assert len({conv_runs.checkpoint_path(name, of) for name in names for of in configs}) == 4


# ------------------------------------------------------------------------- section 2.2 and normalisation


def bias_log(lead: dict[tuple[int, float], float]) -> RunLog[ConvConfig]:
    """Return a log of every run of the experiment; `lead`: points by which a bias outperforms the others at a depth."""
    noise, runs = (0.0, 0.001, -0.001), []
    for (layers, net), seed in product(conv_bias.NETS.items(), conv_bias.SEEDS):
        for arm in ({"gate_bias": -1.0}, {"gate_bias": -2.0}, {"gate_bias": -3.0}, {"block": "plain"}):
            config = configure(net, epochs=2, seed=seed, **arm)
            gain = lead.get((layers, arm.get("gate_bias")), 0) / 100
            runs.append(made_up.conv_run(config, 0.97 + noise[seed] * (1 + config.gate_bias) + gain))
    return made_up.log(RunLog[ConvConfig], MNIST, runs=runs)


def test_runs_are_compared_seed_by_seed():
    config = configure("mnist-8", epochs=2)
    runs = [made_up.conv_run(replace(config, seed=seed), 0.9 + 0.1 * seed) for seed in (0, 1)]
    others = [made_up.conv_run(replace(config, seed=seed), 0.8 + 0.1 * seed) for seed in (1, 0, 2)]
    np.testing.assert_allclose(gains(runs, others), [10, 10])


BEST = {(10, -1.0): 1.0, (20, -2.0): 1.0, (30, -3.0): 1.0}


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [
        (BEST, "held"),
        (BEST | {(30, -3.0): 0.0, (20, -3.0): 2.0}, "held at 10; not at 20; not told apart at 30"),
        ({}, "not told apart"),
    ],
)
def test_the_guideline_holds_where_it_beats_each_other_bias(lead, verdict):
    (claim,) = bias_claims(bias_log(lead))
    assert claim.verdict == verdict


def test_the_table_shows_each_bias_beside_the_guidelines():
    log = bias_log({(20, -2.0): 1.0})
    found = {(row["layers"], row["b_T"]): row["points gained"] for row in by_header(bias_table(log))}
    assert len(found) == 3 * 4
    guideline = [key for key, gained in found.items() if gained == "the guideline"]
    assert guideline == [("10", "-1"), ("20", "-2"), ("30", "-3")]
    assert found["20", "-1"].startswith("-1.00")
    assert list(by_depth(log)[10]) == [-1.0, -2.0, -3.0, "plain"]


def test_a_diverged_run_is_counted_and_decides_nothing():
    log = bias_log({(10, -1.0): 1.0})
    place = next(i for i, run in enumerate(log.runs) if (run.config.depth, run.config.gate_bias) == (8, -2.0))
    log.runs[place] = made_up.conv_run(log.runs[place].config, math.nan)
    (row,) = (row for row in by_header(bias_table(log)) if (row["layers"], row["b_T"]) == ("10", "-2"))
    assert row["test accuracy (%)"].endswith("(1 diverged)")
    assert row["points gained"] == "diverged"
    assert "held" not in bias_claims(log)[0].verdict
    assert bias_figure(log)


def test_what_normalisation_does_is_said_as_far_as_it_is_shown():
    runs = []
    for block, normed, seed in product(batch_norm.BLOCKS, (False, True), range(3)):
        config = configure("mnist-16", epochs=2, block=block, batch_norm=normed, seed=seed)
        runs.append(made_up.conv_run(config, 0.98 + 0.01 * (normed and block == "plain")))
    table = norm_table(made_up.log(RunLog[ConvConfig], MNIST, runs=runs))
    assert "plain +1.00 ± 0.00: it helps" in table
    assert "highway +0.00 ± 0.00: 0 is within it" in table


# ------------------------------------------------------------------------------ tables 1 and 2


def test_the_standard_error_is_that_of_the_images():
    assert images_error(rows(cifar_log(0.83))[0]) == pytest.approx(100 * math.sqrt(0.83 * 0.17 / 1000))
    assert images_error(rows(mnist_log((0.99,)))[0]) == pytest.approx(100 * math.sqrt(0.99 * 0.01 / 10_000))


def test_the_main_table_has_a_row_for_each_net_beside_the_paper():
    table = main_table(mnist_log(), cifar_log())
    found = by_header(table)
    columns = ("net", "block", "epochs", "paper (%)", "paper's epochs")
    assert [tuple(row[column] for column in columns) for row in found] == [
        ("mnist-16", "highway", "20", "99.43 (99.4 ± 0.03)", "300"),
        ("mnist-16", "plain", "20", "", ""),
        ("highway-a", "highway", "30", "89.18", "about 400"),
        ("highway-a", "plain", "30", "", ""),
        ("highway-a", "highway", "60", "89.18", "about 400"),
        ("highway-a", "highway, no augmentation", "30", "", ""),
        ("FitNet A", "taught by hints", "", "89.01", ""),
    ]
    assert found[0]["test accuracy (%)"] == "99.20 ± 0.20"
    assert (found[0]["seeds"], found[2]["standard error of the images"]) == ("3", "1.19")
    assert "CIFAR-10, first 1,000 test images: 45,000 training, 5,000 held-out and 1,000 test images." in table


def test_the_candidates_are_named_by_what_they_change():
    log = mnist_log()
    found = [(row["tried"], row["chosen"]) for row in by_header(choosing_table(log))]
    assert found == [("dropout 1.0", ""), ("dropout 0.5", "yes")]
    for dataset, (net, epochs, candidates) in conv_tables.CHOICES.items():
        runs = [made_up.conv_run(configure(net, epochs=epochs, **fields), 0.5) for fields in candidates]
        for chosen in candidates:
            log = replace(log, chosen=for_both(chosen))
            assert [is_chosen(log, run) for run in runs] == [fields is chosen for fields in candidates], dataset


def test_a_run_of_the_papers_budget_would_take_days():
    assert days(Cost("highway-b", 2_256_838, 100, 0.432)) == pytest.approx(1)
    found = [(row["net"], row["days a run"], row["FitNet (%)"]) for row in by_header(costs_table(cifar_log()))]
    assert found == [("Highway B, 19 layers", "5", "91.61 (FitNet B, 2.5 M)"), ("Highway C, 32 layers", "10", "")]
    assert costs_table(mnist_log()) == "No other net was timed."


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ((0.994, 0.9942), "held"),
        ((0.993, 0.9932), "0.09 points short, 2 seeds"),
        ((0.99, 0.992), "not in 20 epochs, 2 seeds"),
        ((0.999, math.nan), "not in 20 epochs, 2 seeds"),
    ],
)
def test_a_net_is_judged_by_the_papers_mean_and_the_error_of_the_images(accuracies, verdict):
    (claim,) = claims(mnist_log(accuracies))
    assert (claim.section, claim.verdict) == ("3.2, table 1", verdict)
    assert claim.paper.endswith("99.40 % on MNIST")


@pytest.mark.parametrize(
    ("highway", "plain", "verdict"),
    [(0.994, 0.995, "held; plain nets, too"), (0.9935, 0.995, "0.05 points short, 1 seed"), (0.994, 0.993, "held")],
)
def test_what_plain_nets_reach_as_well_is_told(highway, plain, verdict):
    (claim,) = claims(mnist_log((highway,), plain))
    assert claim.verdict == verdict


def test_nets_that_were_only_timed_are_not_tested():
    trained, timed = claims(cifar_log())
    assert trained.verdict == "not in 60 epochs, 1 seed"
    assert "83.00 in 30 epochs, 1 seed (CIFAR-10, first 1,000 test images, standard error 1.19)" in trained.here
    beside = "plain 80.00 (1 seed); highway, 60 epochs 85.00 (1 seed); highway, no augmentation 75.00 (1 seed)"
    assert trained.here.endswith(f"; {beside}")
    assert (timed.section, timed.here.rpartition(": ")[2], timed.verdict) == ("3.3, table 2", "5, 10", "not tested")
    assert "Highway B, 19 layers: 92.28 %; Highway C, 32 layers: 91.20 %" in timed.paper


@pytest.mark.parametrize("net", PAPER)
def test_the_papers_numbers_belong_to_nets_of_their_size(net):
    number, unit = PAPER[net].parameters.split()
    stated = float(number) * {"K": 1e3, "M": 1e6}[unit]
    shape = (1, 28, 28) if net.startswith("mnist") else (3, 32, 32)
    built = ConvNet(shape, 10, stages=configure(net).stages, rng=None)
    near = 0.2 if net == "highway-c" else 0.03  # its widths are not in the paper, and ours are wider
    assert built.params.flat.size == pytest.approx(stated, rel=near)
    layers = len(built.convolutions) + 1  # convolutions, blocks, the dense layer
    assert f" {layers} layers" in f" {PAPER[net].net}"


def test_the_curves_show_the_papers_level_and_the_shorter_run():
    log = mnist_log()
    mnist, cifar = curves_figure(log, cifar_log()).axes
    assert {line.get_label() for line in mnist.lines} >= {"highway", "plain", "paper (test)"}
    lines = [line for axes in (mnist, cifar) for line in axes.lines]
    levels = [line.get_ydata()[0] for line in lines if line.get_label() == "paper (test)"]
    assert levels == pytest.approx([0.6, 10.82])
    assert "dotted: 8 epochs" in {text.get_text() for text in cifar.texts}
    assert "epochs" not in "".join(text.get_text() for text in mnist.texts)
    error = 100 - 100 * np.mean([run.history.test_score[-1] for run in rows(log)[0]])
    color = pale(COLORS["highway"], 1)
    (tested,) = [line for line in mnist.lines if line.get_marker() == "o" and line.get_color() == color]
    assert tested.get_ydata()[0] == pytest.approx(error)


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


def test_a_net_may_be_given_and_its_log_bears_its_name(workdir, digits):
    net = ConvNet((1, 8, 8), 10, stages=configure("digits").stages, rng=np.random.default_rng(0))
    net.save("mine.npz")
    assert conv_gates.EXPERIMENT.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    log = conv_gates.EXPERIMENT.read(workdir / "runs" / "conv_gates-digits-mine.json")
    assert (log.file, log.images, log.net["stages"]) == ("mine.npz", 360, net.config["stages"])
    assert log.trained == log.untrained, "this one is not trained, and drawn from the same seed"
    assert np.array_equal(inner_pixels(log), digits.test_x[conv_gates.first_of_each_class(digits), 0])
    assert "Gates are further open on strokes" in gates_table(log)


@pytest.mark.parametrize(
    ("fields", "shape", "words"),
    [
        ({"block": "plain"}, (1, 8, 8), "expected a net with gates, found 4 plain blocks"),
        ({}, (1, 9, 9), "expected a net for images (1, 8, 8), found one for (1, 9, 9)"),
    ],
)
def test_a_net_that_does_not_suit_is_refused(workdir, refused, fields, shape, words):
    ConvNet(shape, 10, stages=configure("digits").stages, **fields, rng=np.random.default_rng(0)).save("net.npz")
    assert words in refused(conv_gates.EXPERIMENT.main, ["run", "--smoke", "--model", "net.npz"])


@pytest.mark.parametrize("experiment", [conv_gates, conv_tables])
def test_a_data_set_that_does_not_suit_is_refused(workdir, refused, digits, monkeypatch, experiment):
    colour = digits._replace(train_x=np.repeat(digits.train_x, 3, axis=1))
    monkeypatch.setattr(common, "load_data", lambda arguments: ("colour", colour))
    assert "found colour; choose " in refused(experiment.EXPERIMENT.main, ["run"])
    assert list(workdir.iterdir()) == []
