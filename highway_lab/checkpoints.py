"""Files (.npz) of a training run between two epochs, which goes on from there to the same bits.

`training` is a highway_lab.training.Training, or an object with its attributes.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from highway_lab import Interrupted, logs
from highway_lab.fields import Count
from highway_lab.files import as_path, atomic_write, check_regular, make_place
from highway_lab.nets import unpacked
from highway_networks import History, InputError, fill, reason_of


@dataclass
class State:
    """The part of a checkpoint beside its arrays; history: null unless scores are kept."""

    config: dict[str, Any]
    code: str  # fingerprint of the training code
    optimizer: dict[str, int | float]
    rng: dict[str, Any]
    epoch: Count
    diverged: bool
    history: History | None
    gate_means: list[list[float | None]]

    def __post_init__(self) -> None:
        rows = len(self.history.epoch) if self.history else self.epoch + 1
        if rows != self.epoch + 1:
            raise ValueError(f"expected a row of history an epoch, found {rows} at {self.epoch}")


def code_of(training: Any) -> str:
    return logs.environment(programs=logs.mathematics(training)).code


def save(path: str | os.PathLike, training: Any) -> None:
    """Write all that decides how training goes on, and the record so far; raises Interrupted if the disk is full."""
    arrays, numbers = _state(training)
    state = State(
        config=asdict(training.config),
        code=code_of(training),
        optimizer=numbers,
        rng=training.rng.bit_generator.state,
        epoch=training.epoch,
        diverged=training.diverged,
        history=training.history if training.history.epoch else None,
        gate_means=training.gate_means,
    )
    try:
        make_place(path)
        with atomic_write(path) as file:
            np.savez(file, **arrays, state=np.array(json.dumps(asdict(state))))
    except InputError as error:
        raise Interrupted(str(error)) from error


def restore(path: str | os.PathLike, training: Any, *, any_code: bool | None = None) -> bool:
    """Bring `training` to where the checkpoint was made; False if there is none, or if it belongs to another config.

    Raises InputError for one of other code than today's, unless `any_code`, and for anything but a checkpoint as it was
    written. With `any_code` None it is False for these, too, after a line that says so. `training` is as it was.
    """
    path = as_path(path)
    if not path.exists():
        return False
    own, numbers = _state(training)
    remedy = "move it, or begin anew (--fresh)"
    try:
        check_regular(path)
        arrays = unpacked(path)
        state = logs.loads(str(arrays.pop("state")).encode(), State)
        if state.config != asdict(training.config):
            return False
        if state.code != code_of(training) and not any_code:
            remedy = f"go on with it (--keep), {remedy}"
            raise ValueError("one of other code")
        if state.history:
            logs.check_rows(training.config, state.diverged, state.history, state.gate_means)
        numbers = {name: state.optimizer[name] for name in numbers}
        rng = np.random.default_rng()
        rng.bit_generator.state = state.rng
        fill(own, arrays)
    except Exception as error:  # whatever numpy, zip and json say of a damaged or foreign file
        found = f"expected a checkpoint by the training code as it is now, found: {reason_of(error)}"
        if any_code is not None:
            raise InputError(f"{path}: {found}; {remedy}") from error
        print(f"{path}: {found}; its run is trained anew", file=sys.stderr)
        return False
    vars(training.optimizer).update(numbers)
    training.rng.bit_generator.state = rng.bit_generator.state
    training.history, training.gate_means = state.history or History(), state.gate_means
    training.epoch, training.diverged = state.epoch, state.diverged
    return True


def _state(training: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what steps change, by its name in a checkpoint: arrays, those of net and optimiser, and other values."""
    kept = optimizer_state(training.optimizer)
    arrays = {name: value for name, value in kept.items() if isinstance(value, np.ndarray)}
    buffers = {f"net.{name}": value for name, value in training.net.buffers.items()}
    numbers = {name: value for name, value in kept.items() if name not in arrays}
    return {"params": training.net.params.flat} | arrays | buffers, numbers


def optimizer_state(optimizer: Any) -> dict[str, Any]:
    """Return what an optimiser's steps change, beside the parameters: the attributes that its `state` names."""
    return {name: getattr(optimizer, name) for name in optimizer.state}
