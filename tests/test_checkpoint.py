"""A run that is killed between two epochs and goes on from its checkpoint is, bit for bit, the run that was not."""

import dataclasses
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_says

from experiments import checkpoint
from experiments.depth_search import Trial, run_best
from highway_networks import Config, Training
from run_log import History, InputError

SHORT = Config(depth=2, hidden=8, batch_size=64, epochs=4, n_train=200, n_test=50)
CONFIGS = {
    "adam": SHORT,
    "momentum": dataclasses.replace(SHORT, optimizer="momentum", lr=0.05, lr_decay=0.99, clip=0.0),
    "nesterov": dataclasses.replace(SHORT, optimizer="momentum", lr=0.05, lr_decay=0.99, nesterov=True),
}


def train(training: Training, history: History, epochs: int) -> None:
    """Train up to `epochs`."""
    for epoch in range(len(history.epoch) + 1, epochs + 1):
        _, norm = training.run_epoch()
        history.append(epoch, *training.scores(), norm, 0.0)


def everything(training: Training) -> dict[str, object]:
    """All that the rest of a run depends on."""
    optimizer = {name: value for name, value in vars(training.optimizer).items() if name != "params"}
    return {"params": training.net.params.flat, "rng": training.rng.bit_generator.state, **optimizer}


def assert_same_bits(found: Training, expected: Training) -> None:
    found, expected = everything(found), everything(expected)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype, name
            assert found[name].tobytes() == value.tobytes(), name
        else:
            assert type(found[name]) is type(value), name
            assert found[name] == value, name


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "new" / "checkpoint.npz"


@pytest.fixture
def saved(digits, path) -> tuple[Training, History]:
    """A run and its history after two epochs, of which `path` holds the checkpoint."""
    training, history = Training(SHORT, digits), History.empty()
    train(training, history, epochs=2)
    checkpoint.save(path, training, history)
    return training, history


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(digits, path, config):
    whole, whole_history = Training(config, digits), History.empty()
    train(whole, whole_history, epochs=4)

    first, history = Training(config, digits), History.empty()
    train(first, history, epochs=2)
    checkpoint.save(path, first, history)

    second = Training(config, digits)
    restored = checkpoint.restore(path, second)
    assert restored == history
    assert_same_bits(second, first)
    train(second, restored, epochs=4)
    assert_same_bits(second, whole)
    assert restored == whole_history


def test_saving_leaves_the_run_as_it_was(digits, saved):
    training, _ = saved
    undisturbed = Training(SHORT, digits)
    train(undisturbed, History.empty(), epochs=2)
    assert_same_bits(training, undisturbed)


def test_a_history_with_nulls_is_restored(digits, path):
    history = History.empty()
    history.append(0, math.nan, 0.1, math.inf, 0.1, math.nan, 0.5)
    training = Training(SHORT, digits)
    checkpoint.save(path, training, history)
    assert checkpoint.restore(path, training) == history
    assert history.train_loss == [None]


def test_a_checkpoint_takes_the_place_of_the_one_before(digits, path, saved):
    training, history = saved
    train(training, history, epochs=3)
    checkpoint.save(path, training, history)
    assert checkpoint.restore(path, Training(SHORT, digits)).epoch == [1, 2, 3]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_without_a_checkpoint_a_run_begins(digits, path):
    training = Training(SHORT, digits)
    assert checkpoint.restore(path, training) is None
    assert_same_bits(training, Training(SHORT, digits))


@pytest.mark.parametrize(
    "change", [{"epochs": 5}, {"lr": 0.001}, {"seed": 1}, {"depth": 3}, {"optimizer": "momentum"}, {"block": "plain"}]
)
def test_the_checkpoint_of_another_config_is_left_aside(digits, path, saved, change):
    config = dataclasses.replace(SHORT, **change)
    training = Training(config, digits)
    assert checkpoint.restore(path, training) is None
    assert_same_bits(training, Training(config, digits))


# ---------------------------------------------------------------------------------------- no checkpoint


def refuse(path: Path, digits) -> None:
    with pytest.raises(InputError) as error:
        checkpoint.restore(path, Training(SHORT, digits))
    assert_says(error.value, f"{path}: expected a checkpoint, found", "delete it")


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(digits, path, saved, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refuse(path, digits)


def test_a_flipped_bit_is_refused(digits, path, saved):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refuse(path, digits)


@pytest.mark.parametrize("content", [b"Dear diary", b"PK\x03\x04", pickle.dumps({"params": 0})])
def test_a_foreign_file_is_refused(digits, path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    refuse(path, digits)


def test_a_directory_is_refused(digits, path):
    path.mkdir(parents=True)
    refuse(path, digits)


def test_a_saved_net_is_refused(digits, path, saved):
    saved[0].net.save(path)
    refuse(path, digits)


def change_arrays(path: Path, **changes) -> None:
    """Write the checkpoint again with some arrays replaced; None leaves one out."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def change_state(path: Path, **changes) -> None:
    with np.load(path) as stored:
        state = json.loads(str(stored["state"]))
    change_arrays(path, state=np.array(json.dumps(state | changes)))


@pytest.mark.parametrize("name", ["params", "m", "v", "state"])
def test_a_missing_array_is_refused(digits, path, saved, name):
    change_arrays(path, **{name: None})
    refuse(path, digits)


FAULTS = {
    "shorter": lambda array: array[1:],
    "one number for all": lambda array: array[:1],
    "a number": lambda array: array[0],
    "float64": lambda array: array.astype(np.float64),
    "text": lambda array: array.astype(str),
}


@pytest.mark.parametrize("name", ["params", "m", "v"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_array_of_another_shape_or_precision_is_refused(digits, path, saved, name, fault):
    training, _ = saved
    change_arrays(path, **{name: FAULTS[fault](everything(training)[name])})
    refuse(path, digits)


@pytest.mark.parametrize(
    "changes",
    [
        {"rng": {"bit_generator": "MT19937"}},
        {"rng": None},
        {"optimizer": {}},
        {"history": {}},
        {"history": {"epoch": [0]}},
    ],
    ids=str,
)
def test_a_state_that_is_none_is_refused(digits, path, saved, changes):
    change_state(path, **changes)
    refuse(path, digits)


# ------------------------------------------------------------------------------ the longer runs of a search


@pytest.fixture
def trial(tmp_path, monkeypatch) -> Trial:
    """A setting to train for four epochs, in an empty current directory."""
    monkeypatch.chdir(tmp_path)
    return Trial("highway", 3, 0, "tanh", 0.05, 0.9, 0.9, -2.0, "digits", 200, 4)


def without_seconds(run):
    return dataclasses.replace(run, history=dataclasses.replace(run.history, seconds=[0.0] * len(run.history.epoch)))


class Killed(BaseException):
    """As the system would end the process: nothing catches it."""


@pytest.mark.parametrize("epochs", [0, 1, 3, 4])
def test_a_longer_run_killed_after_any_epoch_goes_on_as_if_it_had_not_been(digits, trial, monkeypatch, epochs):
    """Killed once the checkpoint of an epoch is on disk; after the last one too, before the result is."""
    whole = without_seconds(run_best(trial, digits))
    assert whole.history.epoch == [0, 1, 2, 3, 4]
    (path,) = Path("runs/checkpoints").iterdir()
    path.rename("whole.npz")
    save, run_epoch, trained = checkpoint.save, Training.run_epoch, []

    def save_and_die(path, training, history):
        save(path, training, history)
        if history.epoch[-1] == epochs:
            raise Killed

    monkeypatch.setattr(checkpoint, "save", save_and_die)
    with pytest.raises(Killed):
        run_best(trial, digits)
    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr(Training, "run_epoch", lambda self: trained.append(self) or run_epoch(self))

    assert without_seconds(run_best(trial, digits)) == whole
    assert len(trained) == 4 - epochs
    with np.load(path) as found, np.load("whole.npz") as expected:
        assert all(found[name].tobytes() == expected[name].tobytes() for name in ("params", "v"))


def test_a_diverged_run_that_was_killed_is_not_trained_on(digits, trial, monkeypatch):
    trial = dataclasses.replace(trial, activation="relu", lr=1e9)
    whole = without_seconds(run_best(trial, digits))
    assert whole.diverged
    assert whole.history.train_loss[-1] is None
    assert len(whole.history.epoch) < 5
    assert without_seconds(run_best(trial, digits)) == whole
