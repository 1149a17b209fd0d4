"""Runs of convolutional nets: their recipes and images, what decides a run, what it records, how it goes on."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import refused_with, small_conv_net, small_images, small_net, train_to, without_seconds

from conv_highway_networks import Blocks, ConvWorkspace, Dropout, contrast_normalised
from conv_recipes import NETS, ConvConfig, configure, crop_and_mirror, mean_image
from highway_lab import checkpoints, logs
from highway_lab.training import Training, train_resumably
from highway_networks import (
    LOSSES,
    SCHEDULE,
    Dataset,
    Momentum,
    decay_weights,
    scheduled_rate,
    softmax_cross_entropy,
)

# A net with dropout, on 8 x 8 images; steps of 50, 50 and 20 images.
SMALL = configure("mnist-8", n_train=120, n_validation=30, n_test=40, n_scored=50, batch_size=50, epochs=3)
EVERYTHING = {"batch_norm": True, "contrast": True, "augment": True}
CONFIGS = {
    "momentum": dataclasses.replace(SMALL, **EVERYTHING),
    "adam": dataclasses.replace(SMALL, **EVERYTHING, optimizer="adam", lr=1e-3, clip=1.0),
    "plain": dataclasses.replace(SMALL, block="plain", schedule="0.5,0.75"),
}


# --------------------------------------------------------------------------------------------- recipes


def test_highway_c_has_blocks_3x3_and_1x1_in_turn_at_each_resolution():
    kernels = "".join(str(stage.kernel) if isinstance(stage, Blocks) else " " for stage in NETS["highway-c"].stages)
    assert kernels.split() == ["313131313"] * 3


@pytest.mark.parametrize("name", NETS)
def test_a_net_is_configured_by_its_recipe_but_for_what_is_given(name):
    config, given = configure(name), configure(name, lr=0.5, seed=3)
    assert {**vars(config), **NETS[name].settings} == vars(config)
    assert given == dataclasses.replace(config, lr=0.5, seed=3)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0])
def test_dropout_is_a_factor_on_the_nets_rates(factor):
    rates = {Dropout(rate): Dropout(factor * rate) for rate in (0.2, 0.3, 0.4, 0.5)}
    expected = [rates.get(stage, stage) for stage in NETS["mnist-16"].stages]
    assert configure("mnist-16", dropout=factor).stages == expected


@pytest.mark.parametrize(("name", "value"), [("net", "mnist-17"), ("init", "glorot"), ("weight_decay", math.nan)])
def test_a_hyperparameter_that_makes_no_sense_is_refused(name, value):
    with refused_with(f"`{name}`: ", value):
        dataclasses.replace(SMALL, **{name: value})


# ---------------------------------------------------------------------------------------------- images


def random_pictures(n: int, shape: tuple[int, int, int] = (3, 4, 5)) -> np.ndarray:
    """Return uint8 images (n, *shape)."""
    return np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_an_image_of_normal_contrast_has_mean_0_and_deviation_1(dtype, tolerance):
    """Over all of its channels, whatever the other images are."""
    pictures = random_pictures(7)
    pictures[1:3] //= 10
    normal = contrast_normalised(pictures, dtype)
    assert normal.dtype == dtype
    np.testing.assert_allclose(normal.mean(axis=(1, 2, 3)), 0, atol=tolerance)
    np.testing.assert_allclose(normal.std(axis=(1, 2, 3)), 1, rtol=10 * tolerance)
    np.testing.assert_array_equal(contrast_normalised(pictures[3:4], dtype), normal[3:4])
    expected = (pictures - pictures.mean(axis=(1, 2, 3), keepdims=True)) / pictures.std(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(normal, expected, rtol=1e-4, atol=1e-6)


def test_an_image_without_contrast_becomes_zero_without_a_warning(recwarn):
    pictures = random_pictures(3, (3, 32, 32))
    pictures[1], pictures[2] = 0, 255
    normal = contrast_normalised(pictures)
    assert [image.any() for image in normal] == [True, False, False]
    assert not recwarn.list


@pytest.mark.parametrize("rows", [1, 3, 7, 1000])
def test_the_mean_image_does_not_depend_on_the_rows_taken_at_a_time(rows):
    pictures = random_pictures(7)
    expected = contrast_normalised(pictures).mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(mean_image(pictures, rows), expected, rtol=1e-12, strict=True)


def test_every_crop_of_the_padded_image_and_its_mirror_occurs():
    """Of 3 x 4 different pixels with 2 zeros on each side: 25 crops, and as many mirrored."""
    x = np.arange(1, 2 * 3 * 4 + 1, dtype=np.float32).reshape(1, 2, 3, 4)
    padded = np.pad(x[0], ((0, 0), (2, 2), (2, 2)))
    crops = {(i, j): padded[:, i : i + 3, j : j + 4] for i in range(5) for j in range(5)}
    kinds = {crop.tobytes(): place for place, crop in crops.items()}
    kinds |= {crop[..., ::-1].tobytes(): (*place, "mirrored") for place, crop in crops.items()}
    batch = x.repeat(2000, axis=0)
    found = [kinds[image.tobytes()] for image in crop_and_mirror(batch, np.random.default_rng(0), padding=2)]
    assert len(kinds) == len(set(found)) == 50
    assert sum(len(kind) == 3 for kind in found) / 2000 == pytest.approx(0.5, abs=0.05)
    assert max(map(found.count, kinds.values())) < 80  # of 40 expected: none is preferred
    np.testing.assert_array_equal(batch, x.repeat(2000, axis=0))


def test_a_net_takes_pixels_from_0_to_1_or_contrast_minus_the_mean_image():
    images = random_pictures(5, (2, 9, 6))
    np.testing.assert_array_equal(small_conv_net().preprocess(images), images / 256)
    np.testing.assert_array_equal(small_conv_net().preprocess(images / 256), images / 256)
    net = small_conv_net(contrast=True)
    assert net.buffers["mean"].any()
    expected = contrast_normalised(images, np.float64) - net.buffers["mean"]
    np.testing.assert_array_equal(net.preprocess(images), expected)


def test_the_mean_image_is_that_of_the_training_samples_alone(digits):
    training = Training(CONFIGS["momentum"], digits)
    expected = mean_image(training.data.train_x)
    np.testing.assert_allclose(training.net.buffers["mean"], expected, rtol=1e-6, atol=1e-7)
    assert np.abs(expected - mean_image(np.concatenate([training.data.train_x, training.validation[0]]))).max() > 1e-3


def test_samples_that_are_no_images_are_refused():
    x, y = np.zeros((200, 64), np.uint8), np.zeros(200, int)
    with refused_with("channels, height and width", [64]):
        Training(SMALL, Dataset(x, y, x, y, outputs=10))


# ---------------------------------------------------------------------------------- what decides a run


@pytest.mark.parametrize("others", [{}, {"batch_norm": True}], ids=str)
def test_a_net_learns_the_digits(digits, others):
    run = train_resumably(configure("digits", n_train=800, n_validation=100, n_test=200, epochs=3, **others), digits)
    assert run.history.train_loss[0] > 2 > 0.8 > run.history.train_loss[-1]
    assert run.history.validation_score[-1] > 0.8
    assert run.history.test_score[-1] > 0.8
    assert not run.diverged


def test_recorded_runs_come_out_again(digits):
    """With the recorded processor, NumPy and kernels to every digit of the log, elsewhere to four."""
    log = logs.read(Path(__file__).with_name("conv_run.json"), logs.RunLog[ConvConfig], "restore it")
    here, there = ((of.numpy, of.kernels, of.cpu) for of in (logs.environment(), log.environment))
    for recorded in log.runs:
        found, expected = (
            dataclasses.asdict(without_seconds(run).history) | {"gates": run.gate_means, "n_params": run.n_params}
            for run in (train_resumably(recorded.config, digits), recorded)
        )
        for name, values in expected.items():
            both = (np.array(numbers, float) for numbers in (found[name], values))  # null as NaN
            np.testing.assert_allclose(*both, rtol=0 if here == there else 1e-4, err_msg=name)


def test_test_samples_have_no_part_in_a_run_but_in_its_last_scores(digits):
    """Nothing that settings are chosen by has seen them; nobody chooses by the mean gates."""
    inverted = digits._replace(test_x=255 - digits.test_x)
    first, other = (train_to(Training(SMALL, data), 3) for data in (digits, inverted))
    np.testing.assert_array_equal(first.net.params.flat, other.net.params.flat)
    for name in ("train_loss", "train_score", "validation_loss", "validation_score", "grad_norm"):
        assert getattr(first.history, name) == getattr(other.history, name)
    assert first.history.test_loss[-1] != other.history.test_loss[-1]


@pytest.mark.parametrize("n_validation", [1437, 5000])
def test_too_many_validation_samples_are_refused_by_their_name(digits, n_validation):
    with refused_with("`n_validation`", "at most 1436", n_validation):
        Training(configure("digits", n_validation=n_validation), digits)


# ------------------------------------------------------------------------------------- decay and schedule


DENSE, CONVOLUTIONAL = small_net("highway", "tanh", 2), small_conv_net(batch_norm=True)


@pytest.mark.parametrize(("net", "weights"), [(DENSE, 4), (CONVOLUTIONAL, 9)], ids=["dense", "convolutional"])
def test_weight_decay_adds_its_share_of_each_weight_and_leaves_the_rest(net, weights):
    grads = net.new_parameters()
    grads.flat[...] = np.random.default_rng(0).standard_normal(grads.flat.size)
    before = {name: gradient.copy() for name, gradient in grads.items()}
    decay_weights(grads, net.params, 0.1)
    assert sum("W_" in name for name in grads) == weights
    for name, gradient in grads.items():
        expected = before[name] + 0.1 * net.params[name] if "W_" in name else before[name]
        np.testing.assert_array_equal(gradient, expected, err_msg=name)


def test_a_step_with_weight_decay_descends_loss_and_squared_weights():
    """The gradient of loss + λ/2 · Σ W², with the same numbers dropped."""
    net, (x, y), decay, lr = small_conv_net(), small_images(), 0.1, 0.01
    first, second = (ConvWorkspace(net, 3, np.random.default_rng(4)) for _ in range(2))
    logits, cache = net.forward(x, first)
    expected, before = net.backward(softmax_cross_entropy(logits, y)[1], cache), net.params.flat.copy()
    decay_weights(expected, net.params, decay)
    optimizer = Momentum(net.params, lr, momentum=0.0, decay=1.0)
    net.train_step(x, y, second, LOSSES["cross-entropy"], optimizer, weight_decay=decay)
    np.testing.assert_allclose((before - net.params.flat) / lr, expected.flat, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", {0: 1, 0.3: 1, 1: 1}),
        ("cosine", {0: 1, 1 / 3: 0.75, 0.5: 0.5, 2 / 3: 0.25, 1: 0}),
        ("0.5,0.75", {0: 1, 0.499: 1, 0.5: 0.1, 0.7499: 0.1, 0.75: 0.01, 1: 0.01}),
        ("0.6", {0: 1, 0.59: 1, 0.6: 0.1, 1: 0.1}),
    ],
)
def test_a_schedule_has_these_rates(schedule, rates):
    assert SCHEDULE[0](schedule)
    for done, rate in rates.items():
        assert scheduled_rate(schedule, done) == pytest.approx(rate, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("schedule", ["", "linear", "0.5,", "0", "1", "nan", "Cosine"])
def test_a_schedule_that_is_none_is_refused(schedule):
    with refused_with("`schedule`: expected constant, cosine, another name in SCHEDULES, or shares"):
        configure("mnist-8", schedule=schedule)


@pytest.mark.parametrize("schedule", ["cosine", "0.5,0.75"])
@pytest.mark.parametrize("stopped_after", [None, 1])
def test_each_step_has_the_rate_of_its_share_of_the_whole_run(digits, tmp_path, monkeypatch, schedule, stopped_after):
    """3 epochs of 3 steps: step i is taken when i/9 are done, in a run that is resumed, too."""
    rates, step = [], Momentum.step
    monkeypatch.setattr(Momentum, "step", lambda self, grads, rate: rates.append(rate) or step(self, grads, rate))
    training = Training(dataclasses.replace(SMALL, schedule=schedule), digits)
    if stopped_after:
        checkpoints.save(tmp_path / "checkpoint.npz", train_to(training, stopped_after))
        training = Training(training.config, digits)
        checkpoints.restore(tmp_path / "checkpoint.npz", training)
    train_to(training, 3)
    assert rates == pytest.approx([scheduled_rate(schedule, i / 9) for i in range(9)], rel=1e-12)
