"""A run that is killed between two epochs and goes on from its checkpoint is, bit for bit, the run that was not."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import test_conv_training
from helpers import assert_same_bits, contents, files_below, limited_file_size, refused_with, rewrite, train_to

from highway_lab import Interrupted, checkpoints
from highway_lab.training import Training, train_resumably
from highway_networks import Config, DeepNet

SHORT = Config(depth=2, hidden=8, batch_size=64, epochs=4, n_train=200, n_test=50)
CONFIGS = {
    "adam": SHORT,
    "momentum": dataclasses.replace(SHORT, optimizer="momentum", lr=0.05, lr_decay=0.99, clip=0.0),
    "nesterov": dataclasses.replace(SHORT, optimizer="momentum", lr=0.05, lr_decay=0.99, nesterov=True),
    "plain": dataclasses.replace(SHORT, block="plain"),
}
CONV_CONFIGS = {f"conv, {name}": config for name, config in test_conv_training.CONFIGS.items()}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "new" / "checkpoint.npz"


@pytest.fixture
def saved(digits, path) -> Training:
    """A run after two epochs, of which `path` holds the checkpoint."""
    training = train_to(Training(SHORT, digits), epochs=2)
    checkpoints.save(path, training)
    return training


@pytest.mark.parametrize(("scored", "epochs"), [(True, 0), (True, 2), (False, 2)])
@pytest.mark.parametrize("config", [*CONFIGS.values(), *CONV_CONFIGS.values()], ids=[*CONFIGS, *CONV_CONFIGS])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(digits, path, config, scored, epochs):
    """Moments, the generator, also of crops and dropout, running statistics and the mean image are restored."""
    whole = train_to(Training(config, digits), config.epochs, scored)
    first = train_to(Training(config, digits), epochs, scored)
    checkpoints.save(path, first)
    second = Training(config, digits)
    assert checkpoints.restore(path, second)
    assert_same_bits(second, first)
    assert second.history == first.history
    assert_same_bits(train_to(second, config.epochs, scored), whole)
    assert whole.history.epoch == ([*range(config.epochs + 1)] if scored else [])


def test_a_diverged_run_with_its_nulls_is_restored_and_not_trained_on(digits, path):
    config = dataclasses.replace(SHORT, optimizer="momentum", activation="relu", lr=1e12, clip=0.0)
    training, restored = train_to(Training(config, digits), 4), Training(config, digits)
    assert training.diverged
    assert training.history.train_loss[-1] is None
    checkpoints.save(path, training)
    assert checkpoints.restore(path, restored)
    assert list(restored.epochs()) == []
    assert_same_bits(restored, training)


@pytest.mark.parametrize("epochs", [2, 4])
def test_where_a_run_goes_on_its_record_so_far_is_told(digits, path, epochs):
    checkpoints.save(path, train_to(Training(SHORT, digits), epochs))
    told = []
    train_resumably(SHORT, digits, keep=path, report=lambda run: told.append(run.history.epoch[-1]))
    assert told == list(range(epochs, 5))


def test_a_checkpoint_that_the_disk_will_not_have_leaves_the_one_before(path, saved):
    before = files_below(path.parent)
    with limited_file_size(1000), pytest.raises(Interrupted, match="File too large"):
        checkpoints.save(path, saved)
    assert files_below(path.parent) == before


@pytest.mark.parametrize(
    "change", [{"epochs": 5}, {"lr": 0.001}, {"seed": 1}, {"depth": 3}, {"optimizer": "momentum"}, {"block": "plain"}]
)
def test_a_run_begins_anew_without_a_checkpoint_of_its_own_config(digits, path, saved, change):
    config = dataclasses.replace(SHORT, **change)
    training = Training(config, digits)
    for place in (path, path.with_name("missing.npz")):
        assert not checkpoints.restore(place, training)
    assert_same_bits(training, Training(config, digits))


def change_state(path: Path, **changes) -> None:
    state = json.loads(str(contents(path)["state"]))
    rewrite(path, state=np.array(json.dumps(state | changes)))


DAMAGED = {"a surplus array": lambda path: rewrite(path, surplus=np.zeros(2))}
for name in ("params", "m", "v"):
    DAMAGED[f"no {name}"] = lambda path, name=name: rewrite(path, **{name: None})
    DAMAGED[f"other {name}"] = lambda path, name=name: rewrite(path, **{name: contents(path)[name][1:]})
for share in (0, 0.5, 0.999):
    DAMAGED[f"{share} of it"] = lambda path, share=share: os.truncate(path, int(share * path.stat().st_size))


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_checkpoint_that_is_not_as_it_was_written_is_refused(digits, path, saved, damage):
    damage(path)
    assert_refused(digits, path, "--fresh")


def assert_refused(digits, path: Path, *words: str) -> None:
    """A line says that the file is no checkpoint of today's, and the run stands where it begins."""
    training = Training(SHORT, digits)
    with refused_with(path, "expected a checkpoint", "move it", *words):
        checkpoints.restore(path, training, any_code=False)
    assert not checkpoints.restore(path, training), "an experiment trains the run anew"
    assert_same_bits(training, Training(SHORT, digits))


FALSE_STATES = {
    "another generator": {"rng": {"bit_generator": "MT19937"}},
    "no optimiser": {"optimizer": {}},
    "a short history": {"history": {"epoch": [0]}},
    "more epochs than rows": {"epoch": 3},
    "neither diverged nor not": {"diverged": None},
    "gates of other blocks": {"gate_means": [[0.5]] * 3},
    "a field too many": {"surplus": 1},
}


@pytest.mark.parametrize("change", FALSE_STATES.values(), ids=FALSE_STATES)
def test_a_state_that_its_run_cannot_have_is_not_believed(digits, path, saved, change):
    change_state(path, **change)
    assert_refused(digits, path)


def test_a_checkpoint_of_other_code_is_refused_unless_any_will_do(digits, path, saved, capsys):
    change_state(path, code="another")
    training = Training(SHORT, digits)
    with refused_with(path, "one of other code", "--keep", "--fresh"):
        checkpoints.restore(path, training, any_code=False)
    assert not checkpoints.restore(path, training)
    assert capsys.readouterr().err.endswith("found: one of other code; its run is trained anew\n")
    assert_same_bits(training, Training(SHORT, digits))
    assert checkpoints.restore(path, training, any_code=True)
    assert_same_bits(training, saved)


def test_a_file_of_something_else_is_refused(digits, tmp_path):
    DeepNet(2, 2, rng=0).save(tmp_path / "net.npz")
    (tmp_path / "diary").write_bytes(b"Dear diary")
    for path in tmp_path.iterdir():
        assert_refused(digits, path)
