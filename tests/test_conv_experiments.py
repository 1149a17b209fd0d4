"""Experiments on convolutional nets: what is run, how runs are compared, and what tables and verdicts say of them."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers import SOME_ENVIRONMENT

from conv_highway_networks import Blocks, ConvConfig, ConvNet, configure
from experiments import common, conv_bias, conv_runs, conv_tables
from experiments.beyond import batch_norm, conv_gates
from experiments.beyond.batch_norm_figures import norm_table
from experiments.beyond.conv_gates_figures import gates_table, inner_pixels
from experiments.conv_bias_figures import bias_figure, bias_table, by_depth
from experiments.conv_bias_figures import claims as bias_claims
from experiments.conv_figures import gains
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
from highway_lab.figures import COLORS
from highway_lab.logs import SCHEMA, DatasetInfo, History, Log, Run, RunLog
from highway_lab.training import Training

MNIST = DatasetInfo("mnist", 55_000, 10_000)
CIFAR = DatasetInfo("cifar-10", 45_000, 1_000, "first 1,000 test images")


def made_up_run(config: ConvConfig, accuracy: float, n_params: int = 1000) -> Run[ConvConfig]:
    """A run whose last test accuracy is as given, NaN where it is to have diverged; held-out scores rise to it."""
    history = History.empty()
    for epoch in range(config.epochs + 1):
        done = epoch / config.epochs
        score = (0.1 + (accuracy - 0.1) * done**0.2) + 0.001 * config.seed * done
        test = accuracy if epoch == config.epochs else math.nan
        history.append(epoch, 2.3 * (1.01 - score), score, math.nan, test, 1.0, 2.0, 1.0, score)
    return Run(None, config, n_params, "accuracy", math.isnan(accuracy), history, None)


def made_up_log(schema: type[Log], dataset: DatasetInfo, **measured) -> Log:
    envelope = (SCHEMA, "2026-11-20T10:00:00Z", "python -m experiments.conv_tables run", dataset, SOME_ENVIRONMENT)
    return schema(*envelope, **measured)


def mnist_log(accuracies: tuple[float, ...] = (0.99, 0.992, 0.994), plain: float = 0.98) -> ConvTablesLog:
    """Candidates of which the second was chosen, three seeds of the first net, one of a plain one."""
    chosen = {"dropout": 0.5}
    configs = [configure("mnist-16", epochs=20, seed=seed, **chosen) for seed in range(len(accuracies))]
    runs = [made_up_run(config, accuracy) for config, accuracy in zip(configs, accuracies, strict=True)]
    runs += [made_up_run(replace(configs[0], block="plain"), plain)]
    choosing = [made_up_run(replace(configs[0], dropout=dropout), 0.9) for dropout in (1.0, 0.5)]
    return made_up_log(ConvTablesLog, MNIST, choosing=choosing, chosen=of_both(chosen), runs=runs, costs=[])


def of_both(fields: dict) -> dict[str, dict]:
    """The same choice for each kind of block."""
    return {"highway": fields, "plain": fields}


def cifar_log(accuracy: float = 0.83) -> ConvTablesLog:
    """Highway A, with twice the budget and without augmentation, a plain net; the cost of two more."""
    chosen = {"dropout": 0.0}
    config = configure("highway-a", epochs=30, n_test=1000, **chosen)
    others = (replace(config, epochs=60), replace(config, block="plain"), replace(config, augment=False))
    runs = [made_up_run(of, value) for of, value in zip((config, *others), (accuracy, 0.85, 0.8, 0.75), strict=True)]
    choosing = [made_up_run(replace(config, epochs=8), 0.7)]
    costs = [Cost("highway-b", 2_256_838, 100, 2.16), Cost("highway-c", 1_250_000, 100, 4.32)]
    return made_up_log(ConvTablesLog, CIFAR, choosing=choosing, chosen=of_both(chosen), runs=runs, costs=costs)


def cells(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table, by the words of its header."""
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"
    ]
    return [dict(zip(header, row, strict=True)) for row in rows]


# ---------------------------------------------------------------------------------------- what is run


def test_every_bias_is_run_at_every_depth_with_every_seed_and_plain_nets_beside_them(as_many_as_mnist):
    configs = conv_bias.configs(as_many_as_mnist, smoke=False)
    found = {(c.depth + 2, c.gate_bias if c.block == "highway" else "plain", c.seed) for c in configs}
    arms = (-1.0, -2.0, -3.0, "plain")
    assert found == {(layers, arm, seed) for layers in (10, 20, 30) for arm in arms for seed in (0, 1, 2)}
    assert len(configs) == len(found) == 36
    assert {(c.epochs, c.n_train, c.n_validation, c.n_test) for c in configs} == {(8, 10_000, 5_000, 10_000)}
    assert [c.depth for c in configs] == sorted((c.depth for c in configs), reverse=True), "the longest first"


def test_nets_of_different_depth_are_of_one_kind():
    for layers, net in conv_bias.NETS.items():
        config = configure(net)
        assert conv_bias.layers(config) == layers == 2 + sum(s.number for s in config.stages if isinstance(s, Blocks))
    first, *others = (
        [s for s in configure(net).stages if not isinstance(s, Blocks)] for net in conv_bias.NETS.values()
    )
    assert others == [first] * 2


def test_normalisation_is_all_that_a_pair_of_runs_differs_by(as_many_as_mnist):
    configs = batch_norm.configs(as_many_as_mnist, smoke=False)
    assert len(set(configs)) == len(configs) == 2 * 2 * 3
    for without, normed in zip(configs[::2], configs[1::2], strict=True):
        assert replace(without, batch_norm=True) == normed
    assert {(c.net, c.epochs, c.n_train) for c in configs} == {("mnist-16", 6, 20_000)}


@pytest.mark.parametrize("configs", [conv_bias.configs, batch_norm.configs])
@pytest.mark.parametrize("smoke", [False, True])
def test_budgets_fit_the_data(digits, configs, smoke):
    for config in configs(digits, smoke):
        assert config.n_train + config.n_validation <= len(digits.train_x)
        assert config.n_test <= len(digits.test_x)


def test_a_killed_run_goes_on_and_another_data_set_does_not_go_on_with_it(workdir, digits, monkeypatch):
    config = configure("digits", epochs=2, n_train=100, n_validation=20, n_test=20)
    whole = conv_runs.train_one("conv_bias", config, digits)
    seen = []
    monkeypatch.setattr(Training, "_train_epoch", lambda training: seen.append(training))
    again = conv_runs.train_one("conv_bias", config, digits)
    assert (again.history, seen) == (whole.history, []), "its checkpoint is of the last epoch"
    names = {
        conv_runs.checkpoint_path(name, of)
        for name in ("a", "a-fashion-mnist")
        for of in (config, replace(config, lr=1.0))
    }
    assert len(names) == 4


# --------------------------------------------------------------------------------- how runs are compared


def test_runs_are_compared_seed_by_seed():
    config = configure("mnist-8", epochs=2)
    runs = [made_up_run(replace(config, seed=seed), 0.9 + 0.1 * seed) for seed in (0, 1)]
    others = [made_up_run(replace(config, seed=seed), 0.8 + 0.1 * seed) for seed in (1, 0, 2)]
    np.testing.assert_allclose(gains(runs, others), [10, 10])


# ------------------------------------------------------------------------------ section 2.2 and its verdict


def bias_log(lead: dict[tuple[int, float], float]) -> RunLog[ConvConfig]:
    """Every run of the experiment; `lead`: points by which a bias is ahead at a depth."""
    noise = (0.0, 0.001, -0.001)
    runs = []
    for layers, net in conv_bias.NETS.items():
        for seed in conv_bias.SEEDS:
            for arm in ({"gate_bias": -1.0}, {"gate_bias": -2.0}, {"gate_bias": -3.0}, {"block": "plain"}):
                config = configure(net, epochs=2, seed=seed, **arm)
                ahead = lead.get((layers, arm.get("gate_bias")), 0) / 100
                runs.append(made_up_run(config, 0.97 + noise[seed] * (1 + config.gate_bias) + ahead))
    return made_up_log(RunLog[ConvConfig], MNIST, runs=runs)


def test_the_guideline_holds_where_it_beats_each_other_bias():
    best = {(10, -1.0): 1.0, (20, -2.0): 1.0, (30, -3.0): 1.0}
    (claim,) = bias_claims(bias_log(best))
    assert claim.verdict == "held"
    (claim,) = bias_claims(bias_log(best | {(30, -3.0): 0.0, (20, -3.0): 2.0}))
    assert claim.verdict == "held at 10; not at 20; not told apart at 30"
    (claim,) = bias_claims(bias_log({}))
    assert claim.verdict == "not told apart"


def test_the_table_shows_each_bias_beside_the_guidelines():
    log = bias_log({(20, -2.0): 1.0})
    found = {(row["layers"], row["b_T"]): row["points gained"] for row in cells(bias_table(log))}
    assert len(found) == 3 * 4
    assert [key for key, gained in found.items() if gained == "the guideline"] == [
        ("10", "-1"),
        ("20", "-2"),
        ("30", "-3"),
    ]
    assert found["20", "-1"].startswith("-1.00")
    assert list(by_depth(log)[10]) == [-1.0, -2.0, -3.0, "plain"]


def test_a_diverged_run_is_counted_and_decides_nothing():
    log = bias_log({(10, -1.0): 1.0})
    spoilt = next(run for run in log.runs if (conv_bias.layers(run.config), run.config.gate_bias) == (10, -2.0))
    log.runs[log.runs.index(spoilt)] = made_up_run(spoilt.config, math.nan)
    row = next(row for row in cells(bias_table(log)) if (row["layers"], row["b_T"]) == ("10", "-2"))
    assert row["test accuracy (%)"].endswith("(1 diverged)")
    assert row["points gained"] == "diverged"
    assert "held" not in bias_claims(log)[0].verdict
    assert bias_figure(log)


def test_what_normalisation_does_is_said_as_far_as_it_is_shown():
    configs = [
        configure("mnist-16", epochs=2, block=block, batch_norm=normed, seed=seed)
        for block in batch_norm.BLOCKS
        for normed in (False, True)
        for seed in range(3)
    ]
    runs = [made_up_run(c, 0.98 + 0.01 * (c.batch_norm and c.block == "plain")) for c in configs]
    table = norm_table(made_up_log(RunLog[ConvConfig], MNIST, runs=runs))
    assert "plain +1.00 ± 0.00: it helps" in table
    assert "highway +0.00 ± 0.00: 0 is within it" in table


# ------------------------------------------------------------------------------ tables 1 and 2


def test_the_standard_error_is_that_of_the_images():
    runs = rows(cifar_log(0.83))[0]
    assert images_error(runs) == pytest.approx(100 * math.sqrt(0.83 * 0.17 / 1000))
    assert images_error(rows(mnist_log((0.99,)))[0]) == pytest.approx(100 * math.sqrt(0.99 * 0.01 / 10_000))


def test_the_main_table_has_a_row_for_each_net_beside_the_paper():
    table = main_table(mnist_log(), cifar_log())
    found = cells(table)
    assert [(row["net"], row["block"], row["epochs"]) for row in found] == [
        ("mnist-16", "highway", "20"),
        ("mnist-16", "plain", "20"),
        ("highway-a", "highway", "30"),
        ("highway-a", "plain", "30"),
        ("highway-a", "highway", "60"),
        ("highway-a", "highway, no augmentation", "30"),
        ("FitNet A", "taught by hints", ""),
    ]
    assert [row["paper (%)"] for row in found] == ["99.43 (99.4 ± 0.03)", "", "89.18", "", "89.18", "", "89.01"]
    assert [row["paper's epochs"] for row in found][:3] == ["300", "", "about 400"]
    assert found[0]["test accuracy (%)"] == "99.20 ± 0.20"
    assert (found[0]["epochs"], found[0]["seeds"], found[2]["standard error of the images"]) == ("20", "3", "1.19")
    assert "CIFAR-10, first 1,000 test images: 45,000 training, 5,000 held-out and 1,000 test images." in table


def test_the_candidates_are_named_by_what_they_change():
    log = mnist_log()
    found = cells(choosing_table(log))
    assert [row["tried"] for row in found] == ["dropout 1.0", "dropout 0.5"]
    assert [row["chosen"] for row in found] == ["", "yes"]
    for dataset, (net, epochs, candidates) in conv_tables.CHOICES.items():
        for chosen in candidates:
            same = replace(log, chosen=of_both(chosen))
            runs = [made_up_run(configure(net, epochs=epochs, **fields), 0.5) for fields in candidates]
            assert [is_chosen(same, run) for run in runs] == [fields is chosen for fields in candidates], dataset


def test_a_run_of_the_papers_budget_would_take_days():
    cost = Cost("highway-b", 2_256_838, 100, 0.432)
    assert days(cost) == pytest.approx(1)
    first, second = cells(costs_table(cifar_log()))
    assert (first["net"], first["days a run"], first["FitNet (%)"]) == (
        "Highway B, 19 layers",
        "5",
        "91.61 (FitNet B, 2.5 M)",
    )
    assert (second["net"], second["days a run"], second["FitNet (%)"]) == ("Highway C, 32 layers", "10", "")
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
def test_a_net_is_judged_by_the_mean_of_the_papers_and_the_error_of_the_images(accuracies, verdict):
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


def test_the_papers_numbers_belong_to_nets_of_their_size():
    for net, reported in PAPER.items():
        number, unit = reported.parameters.split()
        stated = float(number) * {"K": 1e3, "M": 1e6}[unit]
        shape = (1, 28, 28) if net.startswith("mnist") else (3, 32, 32)
        built = ConvNet(shape, 10, stages=configure(net).stages, rng=None)
        near = 0.2 if net == "highway-c" else 0.03  # its widths are not in the paper, and ours are wider
        assert built.params.flat.size == pytest.approx(stated, rel=near), net
        assert reported.net.split(" layers")[0].split()[-1] == str(paper_layers(built)), net


def paper_layers(net: ConvNet) -> int:
    """Convolutions and blocks, and the dense layer."""
    return sum(bool(place.branches) for place in net.places) + 1


def test_the_curves_show_the_papers_level_and_the_shorter_run():
    figure = curves_figure(mnist_log(), cifar_log())
    mnist, cifar = figure.axes
    assert {line.get_label() for line in mnist.lines} >= {"highway", "plain", "paper (test)"}
    levels = [line.get_ydata()[0] for axes in figure.axes for line in axes.lines if line.get_label() == "paper (test)"]
    assert levels == pytest.approx([0.6, 10.82])
    assert "dotted: 8 epochs" in {text.get_text() for text in cifar.texts}
    assert "epochs" not in "".join(text.get_text() for text in mnist.texts)
    (runs, *_) = rows(mnist_log())
    error = 100 - 100 * np.mean([run.history.test_score[-1] for run in runs])
    (tested,) = [line for line in mnist.lines if line.get_marker() == "o" and line.get_color() == COLORS["highway"]]
    assert tested.get_ydata()[0] == pytest.approx(error)


# ------------------------------------------------------------------------------- where gates open


def test_what_lies_beneath_a_pixel_is_the_image_without_its_frame_shrunk():
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


def test_gates_that_do_not_look_at_the_image_are_alike_on_strokes_and_on_background(made_net):
    images = np.random.default_rng(1).integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)
    found = conv_gates.measure(made_net, images[:3], images)
    assert [len(found.maps), len(found.maps[0])] == [3, 8]
    assert [len(T) for T in found.maps[0]] == [24, 24, 12, 12, 12, 6, 6, 6]
    expected = [1 / (1 + math.exp(-l / 10)) for l in range(2, 10)]
    assert found.background == pytest.approx(expected, abs=1e-4)
    assert all(
        stroke is None or stroke == pytest.approx(e, abs=1e-4)
        for stroke, e in zip(found.strokes, expected, strict=True)
    )
    assert all(before < after for before, after in pairwise(found.background))
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


@pytest.mark.parametrize(
    ("experiment", "name", "words"),
    [
        (conv_gates, "colour", "expected grey images of strokes, found colour; choose mnist"),
        (conv_tables, "colour", "expected one of mnist, cifar-10, digits, found colour; choose one of these"),
    ],
)
def test_a_data_set_that_does_not_suit_is_refused(workdir, refused, digits, monkeypatch, experiment, name, words):
    colour = digits._replace(train_x=np.repeat(digits.train_x, 3, axis=1))
    monkeypatch.setattr(common, "load_data", lambda arguments: (name, colour))
    assert words in refused(experiment.EXPERIMENT.main, ["run"])
    assert list(workdir.iterdir()) == []
