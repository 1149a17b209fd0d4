"""The net for CIFAR-10: its setting is chosen on held-out images, by the mean over seeds, and it is trained by it."""

import math
from dataclasses import replace

import made_up
import numpy as np
import pytest

from experiments import cifar_net, common
from experiments.cifar_net import EXPERIMENT, VALIDATION_SHARE, choose, configs, means
from experiments.common import hold_out
from experiments.looks import models
from highway_lab.logs import TrainedRun
from highway_networks import Config, DeepNet

CONFIG = Config(epochs=3, n_train=1000, n_test=1000)  # a standard error of 1.6 points


def run(lr: float, seed: int, scores: list[float | None], losses: tuple[float, ...] = ()) -> TrainedRun:
    """Return a run of the grid with these scores."""
    return made_up.trained_run(replace(CONFIG, lr=lr, seed=seed), scores, losses)


def test_rate_and_epochs_are_those_of_the_highest_mean_over_seeds():
    runs = [run(0.1, 0, [0.1, 0.2, 0.9, 0.3]), run(0.1, 1, [0.1, 0.2, 0.1, 0.3])]
    runs += [run(0.2, 0, [0.9, 0.6, 0.5, 0.2]), run(0.2, 1, [0.9, 0.5, 0.4, 0.2])]
    np.testing.assert_allclose(means(runs, "test_score")[0.1], [0.1, 0.2, 0.5, 0.3])
    margin, *chosen = choose(runs)
    assert chosen == [0.2, 1], "an untrained net is none, however well it does"
    assert margin == pytest.approx(math.sqrt(0.55 * 0.45 / 1000))


def test_of_those_within_the_margin_the_lowest_training_loss_is_chosen():
    runs = [
        run(0.1, 0, [0.1, 0.5, 0.5, 0.47], (9, 3.0, 2.5, 1.0)),
        run(0.2, 0, [0.1, 0.49, 0.48, 0.49], (9, 2, 1.5, 1.9)),
    ]
    assert choose(runs)[1:] == (0.2, 3)


def test_a_rate_is_chosen_for_no_epoch_from_which_a_seed_has_diverged():
    runs = [run(0.1, 0, [0.1, 0.6, None]), run(0.1, 1, [0.1, 0.4, 0.9, 0.9])]
    runs += [run(0.2, seed, [0.1, 0.2, 0.3, 0.4]) for seed in (0, 1)]
    assert np.isnan(means(runs, "test_score")[0.1][2:]).all()
    assert choose(runs)[1:] == (0.1, 1)


def test_the_grid_sees_training_images_alone_and_differs_by_rate_and_seed(digits):
    kept = hold_out(digits, VALIDATION_SHARE)
    assert kept.test_set == "held-out training images"
    grid = configs(kept, smoke=False)
    assert {(config.n_train, config.n_test) for config in grid} == {(1437 - 143, 143)}
    assert {(config.lr, config.seed) for config in grid} == {(lr, s) for lr in cifar_net.RATES for s in cifar_net.SEEDS}
    assert len({replace(config, lr=1.0, seed=0) for config in grid}) == 1


def test_the_net_that_is_kept_is_the_one_that_the_log_describes(workdir, digits, monkeypatch):
    seen, train_one = [], common.train_one
    monkeypatch.setattr(
        common, "train_one", lambda module, config, data: seen.append(data) or train_one(module, config, data)
    )
    assert EXPERIMENT.main(["run", "--smoke"]) == 0
    assert {data.test_set for data in seen} == {"held-out training images"}
    log = EXPERIMENT.read(EXPERIMENT.log_path(smoke=True))
    training = log.net.source.training
    assert (training.lr, training.epochs, training.n_train) == (log.lr, log.epochs, len(digits.train_x))
    net = DeepNet.load(log.net.source.file)
    assert models.describe(log.net.source, net, digits) == log.net


@pytest.mark.parametrize("words", [["--smoke"], ["--dataset", "digits"]])
def test_no_other_run_replaces_a_committed_net(workdir, monkeypatch, words):
    monkeypatch.setattr(cifar_net, "EPOCHS", 1)
    monkeypatch.setattr(cifar_net, "RATES", (0.1,))
    monkeypatch.setattr(models, "FALLBACK", models.SMOKE)
    assert EXPERIMENT.main(["run", *words]) == 0
    assert not (workdir / "models").exists()


def rows(images: np.ndarray, labels: np.ndarray) -> set[bytes]:
    """Return images with their labels, as what a set can hold."""
    return {image.tobytes() + bytes([label]) for image, label in zip(images, labels, strict=True)}


def test_a_tenth_of_the_training_images_validates_and_no_test_image(digits):
    kept = hold_out(digits, VALIDATION_SHARE)
    train, validation = rows(*kept[:2]), rows(*kept[2:4])
    assert len(kept.train_y) + len(kept.test_y) == len(digits.train_y)
    assert len(kept.test_y) == len(digits.train_y) // 10
    assert train | validation == rows(*digits[:2])
    assert not train & validation
    again = hold_out(digits._replace(test_x=digits.test_x[:0], test_y=digits.test_y[:0]), VALIDATION_SHARE)
    assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True))
