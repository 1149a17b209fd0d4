"""Training runs: what decides them, what they record, how they end."""

import argparse
import dataclasses
import functools
import math
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import test_conv_training
from helpers import (
    COUNTED,
    SMALL_STAGES,
    assert_same_bits,
    refused_with,
    small_conv_net,
    small_images,
    small_net,
    train_to,
    without_seconds,
)
from threadpoolctl import threadpool_limits

import highway_estimators  # noqa: F401, adds its losses
from conv_highway_networks import ConvWorkspace, Dropout
from conv_recipes import ConvConfig
from highway_lab import slices
from highway_lab.cli import add_hyperparameters
from highway_lab.threads import blas_pools, one_thread
from highway_lab.training import Training, train_resumably
from highway_networks import (
    BLOCKS,
    LOSSES,
    Architecture,
    Config,
    Dataset,
    DeepNet,
    InputError,
    TrainingConfig,
    as_inputs,
    batches,
    evaluate,
    hyperparameter,
    train,
)

CROSS_ENTROPY = LOSSES["cross-entropy"]
SMALL = Config(depth=2, hidden=8, epochs=2, n_train=150, n_test=50, batch_size=32)
DIVERGING = dataclasses.replace(SMALL, optimizer="momentum", activation="relu", lr=1e12, clip=0, epochs=5)


@dataclasses.dataclass(frozen=True)
class OwnConfig(TrainingConfig, Architecture):
    """A family of nets with a name of its own for their width, and types as `from __future__ import annotations`."""

    units: "int" = hyperparameter(8, "units in each block")  # noqa: RUF009, a field
    noisy: "bool" = hyperparameter(False, "adds noise")  # noqa: RUF009
    title = "own"
    depth = 1

    def new_net(self, data, rng):
        return DeepNet(64, data.outputs, depth=1, hidden=self.units, rng=rng)


def test_a_family_of_ones_own_trains_in_the_laboratory_as_alone(digits):
    config = OwnConfig(epochs=1, n_train=150, n_test=50)
    np.testing.assert_array_equal(*(run(config, digits).net.params.flat for run in (train_resumably, train)))
    with pytest.raises(InputError, match=r"`units`: expected a value of type int, found 2\.5"):
        OwnConfig(units=2.5)
    parser = argparse.ArgumentParser()
    add_hyperparameters(parser, OwnConfig)
    assert vars(parser.parse_args(["--units", "3", "--noisy"])) == {"units": [3], "noisy": True}


# ---------------------------------------------------------------------------------- reproducibility


KINDS = {
    **{of: dataclasses.replace(SMALL, optimizer=of) for of in ("adam", "momentum")},
    **{"plain": dataclasses.replace(SMALL, block="plain")},
    **{f"conv, {name}": config for name, config in test_conv_training.CONFIGS.items()},
}


@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(digits, config):
    first = train_to(Training(config, digits), 2)
    np.random.seed(7)  # noqa: NPY002, the global generator has no part in it
    assert_same_bits(train_to(Training(config, digits), 2), first)
    other = train_to(Training(dataclasses.replace(config, seed=1), digits), 2)
    assert (other.net.params.flat != first.net.params.flat).any()


DENSE_VALUES = {
    **{"block": "plain", "depth": 3, "hidden": 9, "activation": "relu", "init": "glorot", "init_gain": 1.1},
    **{"optimizer": "momentum", "lr": 4e-3, "beta1": 0.8, "beta2": 0.99, "eps": 1e-2, "clip": 0.1, "batch_size": 31},
    **{"drop_last": True, "epochs": 3, "n_train": 149, "n_test": 49, "seed": 1, "dtype": "float64"},
    **{"schedule": "cosine", "weight_decay": 0.1, "n_validation": 50, "gate_bias": -1.0},
}
MOMENTUM_VALUES = {"lr": 4e-3, "lr_decay": 0.9, "momentum": 0.8, "nesterov": True}
CONV_VALUES = {
    **{"block": "plain", "activation": "tanh", "init": "uniform", "gate_bias": -2.0, "optimizer": "adam", "lr": 0.02},
    **{"schedule": "constant", "nesterov": False, "weight_decay": 0.1, "clip": 0.1, "batch_size": 40, "epochs": 2},
    **{"n_train": 110, "n_validation": 20, "n_scored": 40, "n_test": 30, "net": "mnist-16", "batch_norm": True},
    **{"dropout": 0.5, "contrast": True, "augment": True, "seed": 1, "dtype": "float64", "drop_last": True},
    **{"lr_decay": 0.9, "momentum": 0.8, "init_gain": 1.1},
}
CHANGES = [
    *((SMALL, *item) for item in DENSE_VALUES.items()),
    *((dataclasses.replace(SMALL, optimizer="momentum"), *item) for item in MOMENTUM_VALUES.items()),
    *((test_conv_training.SMALL, *item) for item in CONV_VALUES.items()),
    (dataclasses.replace(test_conv_training.SMALL, augment=True), "padding", 2),  # of crops
]


@pytest.fixture(scope="module")
def outcome(digits):
    """Returns the record of a run of a config but for the seconds, and its parameters."""

    @functools.cache
    def outcome(config):
        run = train_resumably(config, digits)
        return without_seconds(run).history, run.net.params.flat.tolist()

    return outcome


@pytest.mark.parametrize(("base", "name", "value"), CHANGES)
def test_every_hyperparameter_changes_the_run(outcome, base, name, value):
    """One that changed nothing would be a setting that the log states and the run ignores."""
    assert outcome(dataclasses.replace(base, **{name: value})) != outcome(base)


def test_every_hyperparameter_is_checked_above():
    """But the loss, which needs other targets, dense nets' n_scored, see below, and Adam's of convolutional nets."""
    for kind, unchecked in ((Config, {"loss", "n_scored"}), (ConvConfig, {"loss", "beta1", "beta2", "eps"})):
        checked = {name for base, name, _ in CHANGES if isinstance(base, kind)}
        assert {field.name for field in dataclasses.fields(kind)} - checked == unchecked


# -------------------------------------------------------------------------------------- the record


@pytest.mark.parametrize("block", ["highway", "plain"])
def test_a_run_records_the_untrained_net_and_then_a_row_an_epoch(digits, block):
    run = train_resumably(dataclasses.replace(SMALL, block=block), digits)
    history = dataclasses.asdict(run.history)
    assert (run.n_params, run.metric) == (run.net.params.flat.size, "accuracy")
    assert history["epoch"] == [0, 1, 2]
    assert (history.pop("validation_loss"), history.pop("validation_score")) == ([], [])
    assert {name: len(values) for name, values in history.items()} == dict.fromkeys(history, 3)
    assert history["grad_norm"][0] is None
    assert history["train_loss"][0] == pytest.approx(math.log(10), abs=0.3)
    del history["grad_norm"]
    assert all(math.isfinite(value) for values in history.values() for value in values)
    assert not run.diverged


def test_with_validation_samples_the_test_set_is_scored_last_only(digits):
    training = Training(dataclasses.replace(SMALL, n_validation=40), digits)
    list(training.epochs())
    history = training.history
    assert [score is None for score in history.test_score] == [True, True, False]
    assert [loss is None for loss in history.test_loss] == [True, True, False]
    loss, accuracy = evaluate(training.net, *training.validation, CROSS_ENTROPY)
    assert (history.validation_loss[-1], history.validation_score[-1]) == pytest.approx((loss, accuracy), rel=1e-5)
    assert len(history.validation_loss) == len(history.validation_score) == 3


def test_validation_samples_are_other_training_samples(digits):
    """Those trained on are the same as without any."""
    numbers = np.arange(len(digits.train_x), dtype=float)[:, None]
    numbered = digits._replace(train_x=numbers, test_x=np.zeros((len(digits.test_x), 1)))
    without, training = (Training(dataclasses.replace(SMALL, n_validation=n), numbered) for n in (0, 40))
    np.testing.assert_array_equal(training.data.train_x, without.data.train_x)
    assert len(set(training.data.train_x[:, 0]) | set(training.validation[0][:, 0])) == SMALL.n_train + 40
    for x, y in (training.data[:2], training.validation):
        np.testing.assert_array_equal(digits.train_y[x[:, 0].astype(int)], y)


def test_fewer_training_samples_may_be_scored(digits):
    """It changes no other number."""
    whole, fewer = (Training(dataclasses.replace(SMALL, n_scored=n), digits) for n in (0, 30))
    assert list(whole.epochs())[1:] == list(fewer.epochs())[1:]
    loss, accuracy = evaluate(fewer.net, fewer.data.train_x[:30], fewer.data.train_y[:30], CROSS_ENTROPY)
    assert (fewer.history.train_loss[-1], fewer.history.train_score[-1]) == pytest.approx((loss, accuracy), rel=1e-5)
    assert fewer.history.test_loss == whole.history.test_loss


def test_mean_gates_are_recorded_each_epoch_and_start_near_the_bias(digits):
    run = train_resumably(dataclasses.replace(SMALL, depth=4, gate_bias=-3.0), digits)
    assert [len(row) for row in run.gate_means] == [4, 4, 4]
    np.testing.assert_allclose(run.gate_means[0], 1 / (1 + math.exp(3)), rtol=0.25)
    assert run.gate_means[0] != run.gate_means[2]
    assert train_resumably(dataclasses.replace(SMALL, block="plain"), digits).gate_means is None


def test_the_recorded_gradient_norm_is_the_one_before_clipping(digits):
    clipped, free = (train_resumably(dataclasses.replace(SMALL, clip=clip, epochs=1), digits) for clip in (1e-3, 0))
    for run in (clipped, free):
        assert run.history.grad_norm[1] > 0.1


def test_a_deep_highway_net_learns_where_the_plain_net_does_not(digits):
    """The paper's point, at 30 blocks and the default hyperparameters, on small images."""
    sizes = {"n_train": len(digits.train_x), "n_test": len(digits.test_x)}
    highway, plain = (train_resumably(Config(block=block, **sizes), digits).history for block in ("highway", "plain"))
    assert highway.test_score[-1] > 0.9
    assert plain.test_score[-1] < 0.3
    assert plain.train_loss[-1] > 2 > 0.5 > highway.train_loss[-1]


# ------------------------------------------------------------------------------------- regression


def regression(targets: int = 2) -> Dataset:
    """Features (n, 3) that are no images, and smooth functions of them."""
    x = np.random.default_rng(0).uniform(-2, 2, (500, 3))
    y = np.stack([np.sin(x[:, 0]) + x[:, 1], x[:, 1] * x[:, 2], 100 + 0 * x[:, 0]], axis=1)[:, :targets]
    return Dataset(x[:400], y[:400], x[400:], y[400:], targets)


SIZES = {"n_train": 400, "n_test": 100, "batch_size": 32}
REGRESSION = Config(loss="squared-error", depth=3, hidden=20, epochs=40, lr=1e-2, **SIZES)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_net_learns_several_targets_from_features_that_are_numbers(dtype, tmp_path):
    config = dataclasses.replace(REGRESSION, dtype=dtype)
    run = train_resumably(config, regression())
    run.net.save(tmp_path / "net.npz")
    assert run.metric == "R²"
    assert run.history.test_score[0] < 0.2
    assert run.history.test_score[-1] > 0.9
    x, y = regression()[2:4]
    outputs = DeepNet.load(tmp_path / "net.npz").predict(x)
    assert outputs.shape == (100, 2)
    assert run.history.test_loss[-1] == pytest.approx(((outputs - y) ** 2).mean(), rel=1e-4)
    residual, total = ((outputs - y) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    assert run.history.test_score[-1] == pytest.approx(np.mean(1 - residual / total), rel=1e-4)


def test_weights_follow_their_samples_into_the_batches(digits):
    """With all samples in one batch, a whole weight counts a sample so often, in every step."""
    few = digits._replace(train_x=digits.train_x[:40], train_y=digits.train_y[:40])
    often = np.random.default_rng(0).integers(0, 4, 40)
    repeated = few._replace(train_x=few.train_x.repeat(often, axis=0), train_y=few.train_y.repeat(often))
    weighted, nets = few._replace(train_weights=often / often.mean()), []
    for data in (weighted, repeated, few):
        config = dataclasses.replace(SMALL, n_train=len(data.train_x), batch_size=200, dtype="float64")
        run = Training(config, data)
        list(run.epochs(scored=False))
        nets.append(run.net.params.flat)
    np.testing.assert_allclose(nets[0], nets[1], atol=1e-9)
    assert np.abs(nets[0] - nets[2]).max() > 1e-3


def test_a_score_that_is_no_number_is_null_and_does_not_end_the_run():
    run = train_resumably(dataclasses.replace(REGRESSION, epochs=2), regression(targets=3))
    assert run.history.test_score == [None, None, None]
    assert not run.diverged


# ------------------------------------------------------------------------------------- divergence


def test_a_run_that_diverges_ends_there_and_says_so_without_a_warning(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = train_resumably(DIVERGING, digits)
    assert run.diverged
    assert len(run.history.epoch) < DIVERGING.epochs + 1
    assert run.history.train_loss[0] is not None
    assert run.history.train_loss[-1] is run.history.test_score[-1] is None


def test_a_run_without_scores_is_otherwise_the_same_run(digits):
    scored, unscored, diverging = Training(SMALL, digits), Training(SMALL, digits), Training(DIVERGING, digits)
    losses = list(scored.epochs())
    assert math.isnan(losses[0])
    assert list(unscored.epochs(scored=False)) == losses[1:]
    np.testing.assert_array_equal(unscored.net.params.flat, scored.net.params.flat)
    *finite, last = diverging.epochs(scored=False)
    assert np.isfinite(finite).all()
    assert (math.isfinite(last), diverging.diverged, diverging.history.epoch) == (False, True, [])


# ---------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(
    ("n", "drop_last", "expected"), [(10, False, [4, 4, 2]), (10, True, [4, 4]), (8, False, [4, 4]), (8, True, [4, 4])]
)
def test_an_epoch_sees_every_image_once_but_for_a_dropped_short_batch(n, drop_last, expected):
    config = dataclasses.replace(SMALL, n_train=n, batch_size=4, drop_last=drop_last)
    epoch = list(batches(config, np.random.default_rng(0)))
    assert [len(chosen) for chosen in epoch] == expected
    order = np.concatenate(epoch)
    assert len(set(order)) == len(order) == sum(expected)
    assert set(order) <= set(range(n))


# -------------------------------------------------------------------------------------- evaluation


def test_evaluation_is_the_mean_over_all_images_however_they_are_cut(digits):
    net = small_net("highway", "tanh", 2, d_in=64, d_out=10)
    images, labels = digits.train_x[:1300], digits.train_y[:1300]
    logits = net.forward(as_inputs(images, np.float64))[0]
    loss, accuracy = evaluate(net, images, labels, CROSS_ENTROPY)
    assert loss == pytest.approx(CROSS_ENTROPY.function(logits, labels)[0], rel=1e-12)
    assert accuracy == (logits.argmax(axis=1) == labels).mean()


# ----------------------------------------------------------------------------------------- threads


@COUNTED
@pytest.mark.parametrize("hidden", [8, 300])
def test_a_net_is_trained_and_scored_with_one_thread_and_no_limit_outlives_it(digits, monkeypatch, hidden):
    """However wide it is: the bits of products depend on the number of BLAS threads."""
    config, seen = dataclasses.replace(SMALL, hidden=hidden, epochs=1), []
    forward = DeepNet.forward_from
    monkeypatch.setattr(DeepNet, "forward_from", lambda *of: seen.append(threads_now()) or forward(*of))
    step = DeepNet.train_step
    monkeypatch.setattr(DeepNet, "train_step", lambda *of, **how: seen.append(threads_now()) or step(*of, **how))
    with blas_pools().limit(limits=2):
        train_resumably(config, digits)
        assert threads_now() == {2}
    assert len(seen) > 5
    assert all(found == {1} for found in seen)


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_wide_net_trains_in_slices_to_the_same_bits_whatever_the_cpus(digits, monkeypatch, cpus):
    monkeypatch.setattr(slices, "free_cpus", lambda: cpus)
    wide = dataclasses.replace(SMALL, hidden=200, depth=2, batch_size=600, n_train=1300, epochs=1)
    monkeypatch.setattr(slices, "WIDE", 200**2 * 600)
    training = train_to(Training(wide, digits), 1, scored=False)
    assert [len(w.rows) for w in training.workspaces.values() if isinstance(w, slices.SlicedWorkspace)] == [3]
    found = training.net.params.flat.copy()
    monkeypatch.setattr(slices, "free_cpus", lambda: 3 - cpus)
    again = train_resumably(wide, digits).net.params.flat
    np.testing.assert_array_equal(found, again)
    monkeypatch.setattr(slices, "WIDE", 10**12)
    np.testing.assert_allclose(found, train_resumably(wide, digits).net.params.flat, atol=2e-2)


def passes(net: Any, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return logits, gradients and dx of one training pass, and what the net predicts."""
    logits, cache = net.forward(x, net.workspace(len(x), np.random.default_rng(4)))
    grads, dx = net.backward(CROSS_ENTROPY.function(logits, y)[1], cache, return_dx=True)
    return [logits, grads.flat.copy(), dx, net.predict(x)]


def test_the_gradients_of_slices_add_up_to_those_of_the_batch(monkeypatch):
    monkeypatch.setattr(slices, "IMAGES", 2)
    rng = np.random.default_rng(0)
    wide = DeepNet(7, 3, hidden=256, depth=2, dtype="float64", rng=1)
    conv = small_conv_net(stages=[stage for stage in SMALL_STAGES if not isinstance(stage, Dropout)])
    for net, batch in (wide, (rng.normal(size=(600, 7)), rng.integers(0, 3, 600))), (conv, small_images(6)):
        sliced = slices.in_slices(net)
        assert len(sliced.workspace(len(batch[0])).rows) == 3
        for whole, parts in zip(passes(net, *batch), passes(sliced, *batch), strict=True):
            np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-13)


def test_bits_of_a_convolutional_net_do_not_depend_on_the_number_of_threads(monkeypatch):
    """With dropout, whose slices draw other values than each other, in each pass anew."""
    monkeypatch.setattr(slices, "IMAGES", 2)
    assert any(isinstance(stage, Dropout) for stage in SMALL_STAGES)
    net, batch = slices.in_slices(small_conv_net()), small_images(7)
    found = []
    for cpus in (1, 2, 9):
        monkeypatch.setattr(slices, "free_cpus", lambda cpus=cpus: cpus)
        found.append(b"".join(array.tobytes() for array in passes(net, *batch)))
    assert len({*found}) == 1
    w, masks = net.workspace(7, np.random.default_rng(4)), []
    assert w.threads == 9
    for _ in range(2):
        net.forward(batch[0], w)
        masks += [part.dropouts[0].mask[..., 0].tobytes() for part in w.parts]
    assert len({*masks}) == 8


def test_batch_normalisation_trains_on_the_whole_batch_at_once():
    net = slices.in_slices(small_conv_net(batch_norm=True))
    assert isinstance(net.workspace(100, np.random.default_rng(0)), ConvWorkspace)


@COUNTED
def test_the_limit_on_threads_lasts_until_the_last_of_several_has_left():
    with threadpool_limits(2, user_api="blas"):
        before, inside, leave = threads_now(), threading.Event(), threading.Event()

        def hold() -> None:
            with one_thread():
                inside.set()
                leave.wait()

        other = threading.Thread(target=hold)
        with one_thread():
            other.start()
            inside.wait()
        assert threads_now() == {1}
        leave.set()
        other.join()
        assert threads_now() == before


def threads_now() -> set[int]:
    return {pool["num_threads"] for pool in blas_pools().info()}


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
    + [(name, "unknown") for name in ("block", "activation", "loss", "init", "optimizer", "dtype")],
)
def test_a_hyperparameter_that_makes_no_sense_is_refused(name, value):
    with refused_with(f"`{name}`: ", value):
        Config(**{name: value})


@pytest.mark.parametrize(("field", "table"), [("block", BLOCKS), ("loss", LOSSES)])
def test_a_process_that_lacks_a_block_or_a_loss_says_so(digits, monkeypatch, field, table):
    """A configuration that came from a process whose tables had it."""
    monkeypatch.setitem(table, "own", next(iter(table.values())))
    config = dataclasses.replace(SMALL, **{field: "own"})
    monkeypatch.delitem(table, "own")
    with pytest.raises(InputError, match=f"`{field}`: expected one of .*, found own; "):
        Training(config, digits)
