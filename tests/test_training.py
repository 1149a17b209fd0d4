"""Training runs: what decides them, what they record, how they end."""

import dataclasses
import math
import warnings
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from helpers import assert_says, small_log, small_net

import highway_networks as hn
from highway_networks import Config, Dataset, DeepNet, batches, evaluate, mean_sd, scale, softmax_cross_entropy, train
from run_log import InputError, Run, RunLog, read, write

SMALL = Config(depth=2, hidden=8, epochs=2, n_train=150, n_test=50, batch_size=32)
DIVERGING = dataclasses.replace(SMALL, optimizer="momentum", activation="relu", lr=1e12, clip=0, epochs=5)


def without_seconds(run: Run) -> Run:
    history = dataclasses.replace(run.history, seconds=[0.0] * len(run.history.epoch))
    return dataclasses.replace(run, history=history)


# ---------------------------------------------------------------------------------- reproducibility


@pytest.mark.parametrize("block", ["highway", "plain"])
@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_the_same_seed_gives_the_same_bits(digits, tmp_path, block, optimizer):
    config = dataclasses.replace(SMALL, block=block, optimizer=optimizer)
    runs, nets = [], []
    for name in ("first.npz", "second.npz"):
        runs.append(without_seconds(train(config, digits, save_model=tmp_path / name)))
        nets.append(DeepNet.load(tmp_path / name).params.flat)
    assert runs[0] == runs[1]
    np.testing.assert_array_equal(nets[0], nets[1])


def test_watching_a_run_does_not_change_it(digits):
    """The global generator, an extra evaluation: nothing outside the config reaches the run."""
    np.random.seed(7)  # noqa: NPY002
    bystander = small_net("highway", "tanh", 2, d_in=64, d_out=10)

    def watch(_):
        np.random.random(3)  # noqa: NPY002
        evaluate(bystander, digits.test_images, digits.test_labels)

    assert without_seconds(train(SMALL, digits, report=watch)) == without_seconds(train(SMALL, digits))


OTHER_VALUES = {
    "depth": 3,
    "hidden": 9,
    "activation": "relu",
    "init": "glorot",
    "gate_bias": -1.0,
    "optimizer": "momentum",
    "lr": 4e-3,
    "beta1": 0.8,
    "beta2": 0.99,
    "eps": 1e-2,
    "clip": 0.1,
    "batch_size": 31,
    "drop_last": True,
    "epochs": 3,
    "n_train": 149,
    "n_test": 49,
    "seed": 1,
    "dtype": "float64",
    "block": "plain",
}
OTHER_MOMENTUM_VALUES = {"lr": 4e-3, "lr_decay": 0.9, "momentum": 0.8, "nesterov": True}


@pytest.mark.parametrize(
    ("base", "name", "value"),
    [
        *((SMALL, name, value) for name, value in OTHER_VALUES.items()),
        *((dataclasses.replace(SMALL, optimizer="momentum"), *item) for item in OTHER_MOMENTUM_VALUES.items()),
    ],
)
def test_every_hyperparameter_changes_the_run(digits, tmp_path, base, name, value):
    """One that changed nothing would be a setting that the log states and the run ignores."""
    results = []
    for config in (base, dataclasses.replace(base, **{name: value})):
        run = train(config, digits, save_model=tmp_path / "net.npz")
        assert run.config == config
        results.append((run.history.test_loss, DeepNet.load(tmp_path / "net.npz").params.flat.tolist()))
    assert results[0] != results[1]


def test_every_hyperparameter_is_checked_above():
    assert {*OTHER_VALUES, *OTHER_MOMENTUM_VALUES} == {field.name for field in dataclasses.fields(Config)}


# -------------------------------------------------------------------------------------- the record


@pytest.mark.parametrize("block", ["highway", "plain"])
def test_a_run_records_the_untrained_net_and_then_a_row_an_epoch(digits, block):
    run = train(dataclasses.replace(SMALL, block=block), digits)
    history = dataclasses.asdict(run.history)
    assert history["epoch"] == [0, 1, 2]
    assert {name: len(values) for name, values in history.items()} == dict.fromkeys(history, 3)
    assert history["grad_norm"][0] is None
    assert history["train_loss"][0] == pytest.approx(math.log(10), abs=0.3)
    del history["grad_norm"]
    assert all(math.isfinite(value) for values in history.values() for value in values)
    assert not run.diverged


def test_the_last_row_is_what_the_saved_net_scores(digits, tmp_path):
    config = dataclasses.replace(SMALL, n_train=len(digits.train_images), n_test=len(digits.test_images))
    run = train(config, digits, save_model=tmp_path / "net.npz")
    net = DeepNet.load(tmp_path / "net.npz")
    for which, images, labels in (("train", digits[0], digits[1]), ("test", digits[2], digits[3])):
        loss, accuracy = evaluate(net, images, labels)
        assert getattr(run.history, f"{which}_loss")[-1] == pytest.approx(loss, rel=1e-5)
        assert getattr(run.history, f"{which}_acc")[-1] == pytest.approx(accuracy, abs=1e-6)
    assert run.n_params == net.params.flat.size


def test_the_mean_gate_of_each_block_is_recorded_each_epoch_and_starts_near_its_bias(digits):
    run = train(dataclasses.replace(SMALL, depth=4, gate_bias=-3.0), digits)
    assert [len(row) for row in run.gate_means] == [4, 4, 4]
    np.testing.assert_allclose(run.gate_means[0], 1 / (1 + math.exp(3)), rtol=0.25)
    assert run.gate_means[0] != run.gate_means[2]
    assert train(dataclasses.replace(SMALL, block="plain"), digits).gate_means is None


def test_the_recorded_gradient_norm_is_the_one_before_clipping(digits):
    clipped, free = (train(dataclasses.replace(SMALL, clip=clip, epochs=1), digits) for clip in (1e-3, 0))
    for run in (clipped, free):
        assert run.history.grad_norm[1] > 0.1


def test_the_report_is_called_with_the_history_so_far_after_each_epoch(digits):
    lengths = []
    train(SMALL, digits, report=lambda history: lengths.append(len(history.epoch)))
    assert lengths == [1, 2, 3]


def test_a_deep_highway_net_learns_where_the_plain_net_does_not(digits):
    """The paper's point, at 30 blocks and the default hyperparameters, on small images."""
    sizes = {"n_train": len(digits.train_images), "n_test": len(digits.test_images)}
    highway, plain = (train(Config(block=block, **sizes), digits).history for block in ("highway", "plain"))
    assert highway.test_acc[-1] > 0.9
    assert plain.test_acc[-1] < 0.3
    assert plain.train_loss[-1] > 2 > 0.5 > highway.train_loss[-1]


# ------------------------------------------------------------------------------------- divergence


def test_a_run_that_diverges_ends_there_and_says_so_without_a_warning(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = train(DIVERGING, digits)
    assert run.diverged
    assert len(run.history.epoch) < DIVERGING.epochs + 1
    assert run.history.train_loss[0] is not None
    assert run.history.train_loss[-1] is run.history.test_acc[-1] is None


def test_a_diverged_run_is_read_back_from_its_log(digits, tmp_path):
    log = dataclasses.replace(small_log(), runs=[train(DIVERGING, digits)])
    write(tmp_path / "run.json", log)
    assert "NaN" not in (tmp_path / "run.json").read_text()
    assert read(tmp_path / "run.json", RunLog[Config], "remedy") == log


def test_a_run_whose_test_loss_alone_is_not_finite_has_diverged(digits, monkeypatch):
    """There would be no test accuracy to report."""

    def evaluate_blinded(net, images, labels):
        return (math.nan, math.nan) if len(images) == SMALL.n_test else evaluate(net, images, labels)

    monkeypatch.setattr(hn, "evaluate", evaluate_blinded)
    assert train(SMALL, digits).diverged


# ---------------------------------------------------------------------------------------- batches


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that say their own number, with the labels that belong to them."""
    images = np.arange(n, dtype=np.uint8)
    return images[:, None], images % 10


def seen(epoch: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[list[int], np.ndarray]:
    """Batch sizes, and the images' numbers in the order in which they came; labels must have come along."""
    sizes, numbers = [], []
    for x, y in epoch:
        numbers.append(np.rint((x[:, 0] + 1) * 127.5).astype(int))
        np.testing.assert_array_equal(y, numbers[-1] % 10)
        sizes.append(len(y))
    return sizes, np.concatenate(numbers)


def test_an_epoch_sees_every_image_once_the_last_short_batch_included():
    config = dataclasses.replace(SMALL, batch_size=4)
    sizes, order = seen(batches(*numbered(10), config, np.random.default_rng(0)))
    assert sizes == [4, 4, 2]
    assert sorted(order) == list(range(10))


def test_the_last_short_batch_is_left_out_on_request():
    config = dataclasses.replace(SMALL, batch_size=4, drop_last=True)
    sizes, order = seen(batches(*numbered(10), config, np.random.default_rng(0)))
    assert sizes == [4, 4]
    assert len(set(order)) == 8
    sizes, _ = seen(batches(*numbered(8), config, np.random.default_rng(0)))
    assert sizes == [4, 4]


def test_every_epoch_and_every_seed_has_an_order_of_its_own(digits, monkeypatch):
    orders = []

    def recorded(*arguments):
        epoch = list(batches(*arguments))
        orders.append(np.concatenate([y for _, y in epoch]).tolist())
        return epoch

    monkeypatch.setattr(hn, "batches", recorded)
    for seed in (0, 1):
        train(dataclasses.replace(SMALL, seed=seed), digits)
    assert len(orders) == 4
    assert all(first != second for first, second in combinations(orders, 2))


@pytest.mark.parametrize(("batch_size", "drop_last"), [(1, False), (150, True), (151, False), (10_000, False)])
def test_batches_of_one_and_batches_of_all_can_be_trained_on(digits, batch_size, drop_last):
    config = dataclasses.replace(SMALL, batch_size=batch_size, drop_last=drop_last, epochs=1)
    assert not train(config, digits).diverged


# -------------------------------------------------------------------------------------- evaluation


def test_evaluation_is_the_mean_over_all_images_however_they_are_cut(digits):
    net = small_net("highway", "tanh", 2, d_in=64, d_out=10)
    images, labels = digits.train_images[:1300], digits.train_labels[:1300]
    logits = net.forward(scale(images, np.float64))[0]
    loss, accuracy = evaluate(net, images, labels)
    assert loss == pytest.approx(softmax_cross_entropy(logits, labels)[0], rel=1e-12)
    assert accuracy == (logits.argmax(axis=1) == labels).mean()


# ------------------------------------------------------------------------------------------ config


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, bad) for name in ("hidden", "batch_size", "epochs", "n_train", "n_test") for bad in (0, -1)]
    + [(name, bad) for name in ("lr", "eps") for bad in (0.0, -1.0, math.nan, math.inf)]
    + [(name, bad) for name in ("beta1", "beta2", "momentum") for bad in (-0.1, 1.0, math.nan)]
    + [("lr_decay", bad) for bad in (0.0, 1.1, math.nan)]
    + [("gate_bias", bad) for bad in (math.nan, math.inf)]
    + [("clip", bad) for bad in (-1.0, math.nan, math.inf)]
    + [("depth", -1), ("seed", -1)]
    + [(name, "unknown") for name in ("block", "activation", "init", "optimizer", "dtype")],
)
def test_a_hyperparameter_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(InputError) as error:
        Config(**{name: value})
    assert_says(error.value, "--" + name.replace("_", "-"), value)


def test_leaving_out_the_only_batch_is_refused():
    with pytest.raises(InputError) as error:
        Config(n_train=100, batch_size=128, drop_last=True)
    assert_says(error.value, "--drop-last", "128", "100")


def test_more_images_than_there_are_are_refused(digits):
    with pytest.raises(InputError) as error:
        train(dataclasses.replace(SMALL, n_train=1438), digits)
    assert_says(error.value, "--n-train", "1437", "1438")


def test_a_mean_comes_with_the_sample_standard_deviation_of_several_values():
    assert mean_sd([0.9, 0.92, 0.94]) == "0.920 ± 0.020"
    assert mean_sd([0.9]) == "0.900"
    assert mean_sd([]) == "none"


def test_one_image_of_each_kind_is_enough_to_train_on():
    data = Dataset(*(array[:1] for array in (*numbered(1), *numbered(1))))
    run = train(dataclasses.replace(SMALL, n_train=1, n_test=1), data)
    assert run.history.test_acc[-1] == 1
