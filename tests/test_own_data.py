"""What a user meets at a prompt: own arrays train or are refused in one line, nets describe themselves."""

import json
import math
import re
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, dia_array, lil_array

import highway_estimators  # noqa: F401, adds the loss of labels
import highway_networks as hn
from conv_highway_networks import Blocks, ConvNet, Convolution
from highway_lab.nets import without
from highway_networks import SCHEDULES, Config, Dataset, DeepNet, InputError, train

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(60, 4)), RNG.normal(size=(20, 4))
Y, Y_TEST = (X[:, 0] > 0).astype(int), (X_TEST[:, 0] > 0).astype(int)
SMALL = Config(depth=2, hidden=8, epochs=3)


def test_own_arrays_train_and_the_record_says_how_many_there_were():
    run = train(SMALL, Dataset(X, Y, X_TEST, Y_TEST))
    assert (run.config.n_train, run.config.n_test, run.net.config["d_out"]) == (60, 20, 2)
    assert (SMALL.n_train, SMALL.n_test) == (6000, 2000)
    again = train(SMALL, (X.tolist(), Y.tolist(), X_TEST, Y_TEST))  # lists, in a plain tuple
    np.testing.assert_array_equal(again.net.params.flat, run.net.params.flat)


def test_labels_may_be_texts():
    names = np.array(["cat", "dog"])
    numbered = train(SMALL, (X, Y, X_TEST, Y_TEST))
    for kind in (object, np.dtypes.StringDType()):
        run = train(SMALL, (X, names[Y].tolist(), X_TEST, names[Y_TEST].astype(kind)))
        np.testing.assert_array_equal(run.net.params.flat, numbered.net.params.flat)
        assert (run.classes, numbered.classes) == (("cat", "dog"), ())


CLASSES = {
    "from 1": (Y + 1, Y_TEST + 1, (1, 2)),
    "-1 and +1": (2 * Y - 1, 2 * Y_TEST - 1, (-1, 1)),
    "numbers of customers": (Y * 10**9, Y_TEST * 10**9, (0, 10**9)),
    "truth values": (Y > 0, Y_TEST > 0, ()),
    "integers as objects": (Y.astype(object) + 1, Y_TEST + 1, (1, 2)),
    "a column of texts": (np.array(["no", "yes"])[Y][:, None], np.array(["no", "yes"])[Y_TEST], ("no", "yes")),
}


@pytest.mark.parametrize(("y", "y_test", "classes"), CLASSES.values(), ids=CLASSES)
def test_distinct_labels_in_order_are_the_classes(y, y_test, classes):
    numbered = train(SMALL, (X, Y, X_TEST, Y_TEST)).net
    run = train(SMALL, (X, y, X_TEST, y_test))
    assert run.classes == classes
    predicted = run.net.predict(X_TEST).argmax(axis=1)
    if classes:  # of the labels' own type, so that they compare
        assert np.mean(np.array(run.classes)[predicted] == np.ravel(y_test)) == run.history.test_score[-1]
    np.testing.assert_array_equal(run.net.params.flat, numbered.params.flat)


def test_a_class_that_is_missing_is_called_so():
    for missing in (None, math.nan, pd.NA):
        with pytest.raises(InputError, match=r"test_y: expected an array of classes .*, found list of object; "):
            train(SMALL, (X, 30 * ["no", "yes"], X_TEST, ["no", missing] + 18 * ["yes"]))
    for y in (Y_TEST, np.array(["no", "yes"])[Y_TEST]):
        with pytest.raises(InputError, match=r"test_y: expected an array of classes .*, found MaskedArray of "):
            train(SMALL, (X, Y, X_TEST, np.ma.masked_array(y, np.arange(20) < 1)))


@pytest.mark.parametrize("y", [Y.astype(float), Y[:, None] / 2, np.eye(2)[Y], [math.nan, *Y[1:]]])
def test_labels_in_another_form_are_refused_with_what_mends_them(y):
    with pytest.raises(InputError, match=r"^train_y: expected .*class.*, found .*; "):
        train(SMALL, (X, y, X_TEST, Y_TEST))


def test_one_hot_rows_are_refused_with_the_line_that_numbers_them():
    with pytest.raises(InputError, match=r"train_y: .* \(60, 2\) and \(20,\); .* one-hot rows by np\.argmax"):
        train(SMALL, (X, np.eye(2, dtype=int)[Y], X_TEST, Y_TEST))


def test_a_data_set_that_states_its_outputs_keeps_its_numbers():
    run = train(SMALL, Dataset(X, Y + 1, X_TEST, Y_TEST + 1, outputs=4))
    assert (run.net.config["d_out"], run.classes) == (4, ())
    run = train(SMALL, Dataset(X, Y, X_TEST, Y_TEST, classes=("cat", "dog", "emu")))
    assert (run.net.config["d_out"], run.classes) == (3, ("cat", "dog", "emu"))


def test_training_reports_each_epoch_and_ends_where_it_is_told_to(capsys):
    data = (X, Y, X_TEST, Y_TEST)
    silent = train(SMALL, data)
    assert capsys.readouterr().out == ""
    run = train(SMALL, data, report=print)
    lines = capsys.readouterr().out.splitlines()
    assert [f"epoch {epoch}:" in line for epoch, line in enumerate(lines)] == [True] * 4
    assert lines[-1] == repr(run)
    np.testing.assert_array_equal(run.net.params.flat, silent.net.params.flat)
    train(Config(depth=1, epochs=1, n_validation=9), data, report=print)
    assert "in validation" in (first := capsys.readouterr().out.splitlines()[0])
    assert "None" not in first
    ended = train(SMALL, data, report=lambda run: run.history.epoch[-1] == 2)
    assert ended.history.train_loss == silent.history.train_loss[:3]


def test_sparse_samples_train_as_dense_ones_do():
    dense = train(SMALL, (X, Y, X_TEST, Y_TEST)).net
    for make in (csr_array, coo_array, csc_array, bsr_array, dia_array, lil_array):
        net = train(SMALL, (make(X), Y, make(X_TEST), Y_TEST)).net
        np.testing.assert_array_equal(net.params.flat, dense.params.flat)
        np.testing.assert_array_equal(net.predict(make(X_TEST)), dense.predict(X_TEST))


def test_data_frames_of_numbers_and_truth_values_are_taken():
    frame = pd.DataFrame(X, columns=[*"abcd"])
    run = train(SMALL, (frame.assign(flag=X[:, 1] > 0), Y, frame.assign(flag=False), pd.Series(Y, dtype="category")))
    expected = train(SMALL, (np.c_[X, X[:, 1] > 0], Y, np.c_[X, 0 * Y], Y))
    np.testing.assert_array_equal(run.net.params.flat, expected.net.params.flat)


def test_a_list_of_pixels_is_as_good_as_an_array():
    pixels = [np.uint8(255 * (row > 0)) for row in X]
    net = train(SMALL, (pixels, Y, pixels, Y)).net
    np.testing.assert_array_equal(net.params.flat, train(SMALL, (np.array(pixels), Y, pixels, Y)).net.params.flat)
    with pytest.raises(InputError, match=r"found uint8 .*; pass net\.preprocess"):
        net.predict(pixels)


TIMES = X.astype(int).astype("timedelta64[ns]")
NO_NUMBERS = {
    "durations": TIMES,
    "a list of them": [*TIMES],
    "dates in a frame": pd.DataFrame(X).assign(c=pd.Timestamp(0)),
    "dates alone": pd.DataFrame(X).assign(c=pd.Timestamp(0))[["c"]],
    "dates as objects": pd.DataFrame(X).assign(c=pd.Timestamp(0)).to_numpy(),
    "durations as objects": [[time, 1.0] for time, *_ in TIMES],
    "texts": X.astype(str),
    "complex, sparse": csr_array(X + 1j),
    "a mask": np.ma.masked_less(X, 0),
    "a gap": pd.DataFrame(X).astype(object).replace(X[0, 0], None),
    "one number": np.array(3.0),
}


@pytest.mark.parametrize("x", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_numpy_would_make_numbers_of_is_refused(x):
    with pytest.raises(InputError, match=r"^train_x: expected an array of numbers, found .* of .*; convert it, and"):
        train(SMALL, (x, Y, X_TEST, Y_TEST))


@pytest.mark.filterwarnings("error")
def test_columns_far_from_standardised_are_warned_of():
    wide = X * [1, 1, 1000, 1]
    with pytest.warns(UserWarning, match="train_x: expected columns of one scale, found .* in column 2") as warned:
        train(SMALL, (wide, Y, wide, Y))
    assert warned[0].filename == __file__
    masks = (X > 0).astype(np.uint8)
    for levels in (1, 3):
        with pytest.warns(UserWarning, match=f"pixels from 0 to 255, found 0 to {levels}; multiply by {255 // levels}"):
            train(SMALL, (levels * masks, Y, levels * masks, Y))
    for like in (X, csr_array(X), masks.astype(int), 255 * masks):
        train(SMALL, (like, Y, like, Y))


def holed(x: np.ndarray, hole: float) -> np.ndarray:
    x = x.copy()
    x[3, 1] = hole
    return x


GOOD = {"train_x": X, "train_y": Y, "test_x": X_TEST, "test_y": Y_TEST}
BAD = {
    "negative class": {"train_y": Y - 1, "outputs": 2},
    "more outputs than names": {"classes": ("a", "b"), "outputs": 3},
    "class that no output has": {"train_y": Y + 1, "outputs": 2},
    "classes in training, numbers in the test": {"test_y": Y_TEST.astype(float)},
    "two columns of classes": {"train_y": np.c_[Y, Y]},
    "more classes than samples": {"train_y": np.r_[Y, Y]},
    "masked": {"train_x": np.ma.masked_less(X, 0)},
    "dates": {"train_x": np.full(X.shape, "2020-01-01", "datetime64[D]")},
    "NaN": {"train_x": holed(X, math.nan)},
    "other columns in the test": {"test_x": X_TEST[:, :3]},
    "texts in training, numbers in the test": {"train_y": np.array(["no", "yes"])[Y]},
    "numbers in training, pixels in the test": {"test_x": X_TEST.astype(np.uint8)},
    "no samples": {"train_x": X[:0], "train_y": Y[:0]},
}


@pytest.mark.parametrize("changed", BAD.values(), ids=BAD)
def test_a_data_set_that_cannot_be_trained_on_is_refused_in_one_line(changed):
    with pytest.raises(InputError, match=r": expected .*, found .*; ") as refused:
        train(SMALL, Dataset(**GOOD | changed))
    assert str(refused.value).startswith((next(iter(changed)), "train_y", "test_y", "`loss`", "`outputs`", "classes"))
    assert "\n" not in str(refused.value)


def test_classes_for_a_loss_of_numbers_are_refused_and_so_are_targets_that_are_no_labels():
    labels = np.c_[Y, 1 - Y].astype(float), np.c_[Y_TEST, 1 - Y_TEST].astype(float)
    config = Config(depth=1, epochs=1, loss="sigmoid-cross-entropy")
    assert train(config, (X, labels[0], X_TEST, labels[1])).net.config["d_out"] == 2
    with pytest.raises(InputError, match=r"train_y: .* from 0 to 1, found \(60, 2\) from 0 to 5"):
        train(config, (X, 5 * labels[0], X_TEST, labels[1]))
    with pytest.raises(InputError, match=r"train_y: .* \(60, 1\), found \(60,\) from -"):
        train(Config(depth=1, epochs=1, loss="squared-error"), (X, X[:, 0], X_TEST, X_TEST[:, 0]))
    with pytest.raises(InputError, match="`loss`: expected a loss of classes, found sigmoid-cross-entropy"):
        train(config, (X, Y, X_TEST, Y_TEST))


# ------------------------------------------------------------------------------------------- a net


NET = DeepNet(20, 2, depth=10, rng=0)


def test_nets_and_runs_describe_themselves():
    assert repr(NET) == "DeepNet(20 → 10 highway blocks of 50 tanh units → 2; float32; 52,152 parameters)"
    run = repr(train(SMALL, tuple(GOOD.values())))
    assert re.fullmatch(r"Run\(highway depth 2, seed 0; epoch 3: accuracy [\d.]+ in training, .* in the test\)", run)


@pytest.mark.parametrize("x", [np.zeros(20), np.zeros((5, 19)), np.zeros((5, 20, 1)), [["a"] * 20]])
def test_what_a_net_cannot_take_is_refused(x):
    for call in (NET.forward, NET.predict, NET.gate_means):
        with pytest.raises(InputError, match=r"^x: expected .*, found .*; "):
            call(x)


def test_a_tensor_is_assigned_in_place_and_a_block_that_is_not_there_is_named():
    net = DeepNet(4, 2, depth=1, hidden=3, rng=0)
    net.params["W_H"] = 7
    assert (net.params.flat == 7).sum() == 9
    for of in (net, ConvNet((1, 8, 8), 2, stages=[Convolution(2), Blocks(1)], rng=0)):
        with pytest.raises(IndexError, match="index 99 is out of bounds"):
            without(of, [99])
        assert (without(of, []).depth, without(of, [0]).depth) == (1, 0)


@pytest.mark.parametrize("y", [[-1, 0], [0, 2]], ids=str)
def test_the_loss_refuses_a_class_that_no_logit_has(y):
    with pytest.raises(InputError, match="y: expected classes from 0 to 1, found "):
        hn.softmax_cross_entropy(np.zeros((2, 2)), np.array(y))


# -------------------------------------------------------------------------------------------- a run


def test_training_goes_on_from_a_net_which_stays_as_it_was():
    data = (X, Y, X_TEST, Y_TEST)
    first = train(SMALL, data)
    before = first.net.params.flat.copy()
    second = train(SMALL, data, net=first.net)
    assert second.history.train_loss[0] == first.history.train_loss[-1]
    assert second.history.train_loss[-1] < first.history.train_loss[-1]
    np.testing.assert_array_equal(first.net.params.flat, before)
    with pytest.raises(InputError, match=r"net: expected DeepNet\(4 → 3 highway.*, found DeepNet\(4 → 2 highway"):
        train(Config(depth=3, hidden=8), data, net=first.net)
    with pytest.raises(InputError, match=r"net: expected DeepNet\(.*, found net\.npz"):
        train(SMALL, data, net="net.npz")


def test_a_net_keeps_its_classes_and_goes_on_with_these_alone(tmp_path):
    names = np.array(["cat", "dog"])
    train(SMALL, (X, names[Y], X_TEST, names[Y_TEST])).net.save(tmp_path / "net.npz")
    net = DeepNet.load(tmp_path / "net.npz")
    assert net.classes == train(SMALL, (X, names[Y], X_TEST, names[Y_TEST]), net=net).net.classes == ("cat", "dog")
    for of in (np.array(["dog", "emu"]), np.array([0, 1]), np.array([1, 2])):
        with pytest.raises(InputError, match=r"net: expected one of the classes \(.*, found one of \('cat', 'dog'\); "):
            train(SMALL, (X, of[Y], X_TEST, of[Y_TEST]), net=net)
    net.classes = (1, 2)
    assert train(SMALL, (X, Y + 1, X_TEST, Y_TEST + 1), net=net).classes == (1, 2)
    train(SMALL, (X, Y, X_TEST, Y_TEST)).net.save(tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz") as arrays:
        assert "classes" not in arrays


def test_an_annotation_that_only_type_checkers_know_stops_no_training():
    @dataclass(frozen=True)
    class Mine(Config):
        cache: "NotImported | None" = None  # noqa: F821
        rate: "float" = 0

    config = Mine(depth=1, hidden=8, epochs=1, n_train=50)
    assert train(config, (X, Y, X_TEST, Y_TEST)).config == replace(config, n_test=20)
    with pytest.raises(InputError, match="`n_train`: expected a value of type int, found 'many'"):
        replace(config, n_train="many")
    assert hn.type_of(Mine.__dataclass_fields__["rate"]) is float


def test_classes_beyond_the_floats_stay_apart_whatever_integers_the_halves_have():
    large = 2**53 + Y.astype(np.uint64)
    assert train(SMALL, (X, large, X_TEST, 2**53 + Y_TEST)).classes == (2**53, 2**53 + 1)
    assert train(SMALL, (X, Y.astype("u8") + 1, X_TEST, Y_TEST + 1)).classes == (1, 2)
    stated, numbers = (train(SMALL, Dataset(X, y, X_TEST, Y_TEST, 2)) for y in (Y > 0, Y))
    np.testing.assert_array_equal(stated.net.params.flat, numbers.net.params.flat)


@pytest.mark.parametrize("weights", [[-1.0] * 60, np.ones(59), np.ones(99), np.zeros(60)], ids=len)
def test_weights_that_weigh_nothing_right_are_refused(weights):
    with pytest.raises(InputError, match=r"train_weights: expected .*, found "):
        train(SMALL, Dataset(X, Y, X_TEST, Y_TEST, train_weights=weights))


def test_shares_of_a_schedule_lie_between_0_and_1():
    for wrong in ("0.0", "0,0.5", "1", "0.5,", "later"):
        with pytest.raises(InputError, match="schedule"):
            Config(schedule=wrong)
    assert Config(schedule="0.5, 0.75").schedule == "0.5, 0.75"


def test_a_schedule_of_ones_own_is_a_function_of_the_share_that_is_done(monkeypatch):
    monkeypatch.setitem(SCHEDULES, "late", lambda done: float(done >= 1 / 3))
    losses = train(Config(depth=2, hidden=8, epochs=3, schedule="late"), (X, Y, X_TEST, Y_TEST)).history.train_loss
    assert losses[0] == losses[1] > losses[3]


def test_a_run_that_diverges_says_so_at_once():
    with pytest.warns(UserWarning, match="training has diverged: the loss is not finite in epoch 1"):
        run = train(Config(activation="relu", lr=1e20, clip=0.0, optimizer="momentum"), (X, Y, X_TEST, Y_TEST))
    assert run.diverged
    assert repr(run).endswith("epoch 1: diverged)")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_whose_squares_overflow_are_clipped_to_the_norm(dtype):
    grads = hn.Tensors([(2,)], dtype)
    grads.flat[...] = np.array([3.0, 4.0]) * np.sqrt(np.finfo(dtype).max)
    before = grads.flat.copy()
    norm = hn.clip_global_norm(grads, 5.0)
    assert norm == pytest.approx(5 * np.sqrt(float(np.finfo(dtype).max)), rel=1e-6)
    np.testing.assert_allclose(grads.flat, 5 * before / norm, rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        *(({"depth": depth}, "type int") for depth in ("10", 2.5, True, None)),
        ({"gate_bias": "a"}, "type float"),
        *(({name: "brick"}, "one of ") for name in ("block", "activation", "init")),
        ({"dtype": "int32"}, "one of float32, float64"),
        ({"hidden": 0}, "positive"),
        ({"depth": -3}, "zero or a positive number"),
        ({"d_out": 2.5}, "type int"),
    ],
    ids=str,
)
def test_a_net_of_impossible_sizes_or_kinds_is_refused(wrong, expected):
    with pytest.raises(InputError, match=f"`{next(iter(wrong))}`: expected .*{expected}.*, found .*; choose another"):
        DeepNet(**{"d_in": 5, "d_out": 2, "rng": 0} | wrong)


def test_numbers_of_numpys_are_as_good_as_pythons(tmp_path):
    byte = np.uint8(200)  # twice of which is another byte
    dense = DeepNet(byte, byte, depth=np.int64(1), hidden=byte, gate_bias=np.float32(-1), rng=0)
    conv = ConvNet(np.array([1, 8, 8]), byte, stages=[Convolution(np.int8(2)), Blocks(np.int64(1))], rng=0)
    for net in (dense, conv):
        net.save(tmp_path / "net.npz")
        assert type(net).load(tmp_path / "net.npz").config == net.config
    for numpys, pythons in (({"lr": np.float64(0.5)}, {"lr": 0.5}), ({"depth": byte}, {"depth": 200})):
        assert json.dumps(asdict(Config(**numpys))) == json.dumps(asdict(Config(**pythons)))


@pytest.mark.parametrize("wrong", [{"d_out": 2.5}, {"d_out": 0}, {"shape": (1, 8.0, 8.0)}], ids=str)
def test_a_convolutional_net_of_impossible_sizes_is_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))}`?: expected .*, found .*; choose"):
        ConvNet(**{"shape": (1, 8, 8), "d_out": 2, "stages": [Blocks(1)], "rng": 0} | wrong)
