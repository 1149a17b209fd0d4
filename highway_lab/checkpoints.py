"""Files (.npz) of a training run between two epochs, which goes on from there to the same bits.

`training` is a highway_lab.training.Training, or an object with its attributes.
"""

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab import Interrupted, logs
from highway_lab.fields import Count
from highway_lab.files import MAX_BYTES, atomic_write, check_regular, make_place, reason_of
from highway_lab.logs import RunRecord
from highway_lab.nets import check_like, described, packed_arrays
from highway_networks import History, InputError


@dataclass
class State:
    """The part of a checkpoint beside its arrays; history: null unless scores are kept."""

    config: dict[str, Any]
    code: str  # fingerprint of the training code
    optimizer: dict[str, Any]
    rng: dict[str, Any]
    epoch: Count
    diverged: bool
    history: History | None
    gate_means: list[list[float | None]]

    def contradiction(self) -> str | None:
        """Return in words what does not agree."""
        rows = len(self.history.epoch) if self.history else self.epoch + 1
        return None if rows == self.epoch + 1 else f"expected a row of history an epoch, found {rows} at {self.epoch}"


def code_of(training: Any) -> str:
    """Return the fingerprint of the mathematics of a training."""
    return logs.environment(programs=logs.mathematics(training)).code


def save(path: str | os.PathLike, training: Any) -> None:
    """Write all that decides how training goes on, and the record so far; raises Interrupted if the disk is full."""
    state = State(
        config=asdict(training.config),
        code=code_of(training),
        optimizer={name: of for name, of in optimizer_state(training).items() if not isinstance(of, np.ndarray)},
        rng=training.rng.bit_generator.state,
        epoch=training.epoch,
        diverged=training.diverged,
        history=training.history if training.history.epoch else None,
        gate_means=training.gate_means,
    )
    arrays: dict[str, Any] = {"state": np.array(json.dumps(asdict(state)))} | _arrays(training)
    try:
        make_place(path)
        with atomic_write(path, "wb") as file:
            np.savez(file, **arrays | {"digest": np.array(digest_of_arrays(arrays))})
    except InputError as error:
        raise Interrupted(str(error)) from error


def restore(path: str | os.PathLike, training: Any, *, any_code: bool = False) -> bool:
    """Bring `training` to where the checkpoint was made; False if there is none, or if it belongs to another config.

    False, too, after a line that says so, for a checkpoint that is not as it was written or, unless `any_code` will do,
    of other code than today's: `training` stays as it was. Raises InputError for a file of something else.
    """
    if not Path(path).exists():
        return False
    _check_ours(path)
    own = _arrays(training)
    try:
        with zipfile.ZipFile(path) as archive:
            packed = packed_arrays(archive)
            written = packed.pop("digest").text() if "digest" in packed else None
            text = packed.pop("state").text(MAX_BYTES)
            state = logs.loads(text.encode(), State)
            if state.config != asdict(training.config):
                return False
            if not any_code and state.code != code_of(training):
                print(f"{path}: found a checkpoint of other code; its run is trained anew", file=sys.stderr)
                return False
            for name in own.keys() | packed.keys():
                check_like(name, packed.get(name), own.get(name))
            arrays = {name: of.unpack() for name, of in packed.items()}
        if written != digest_of_arrays(arrays | {"state": np.array(text)}):
            raise ValueError("another content than was written, or one of an older version")
        rng = _check_state(state, training)
    except Exception as error:  # whatever numpy, zip and json say of a damaged file
        print(f"{path}: damaged, found: {reason_of(error)}; its run is trained anew", file=sys.stderr)
        return False
    for name, array in own.items():
        array[...] = arrays[name]
    vars(training.optimizer).update(state.optimizer)
    training.rng.bit_generator.state = rng.bit_generator.state
    training.history, training.gate_means = state.history or History(), state.gate_means
    training.epoch, training.diverged = state.epoch, state.diverged
    return True


def _check_ours(path: str | os.PathLike) -> None:
    """Raise InputError for a file that does not begin as `save` begins one, however short it is cut."""
    try:
        check_regular(path)
        with open(path, "rb") as file:
            begun = file.read(30 + len("state.npy"))  # a zip archive's first member is named from byte 30 on
        if begun[:4] not in b"PK\x03\x04" or begun[30:] not in b"state.npy":
            raise OSError(None, "something else")
    except OSError as error:
        raise InputError(f"{path}: expected a checkpoint, found: {error.strerror}; move it") from error


def _check_state(state: State, training: Any) -> np.random.Generator:
    """Raise an error unless the state could be that of `training`; return its generator."""
    kept = {name: of for name, of in optimizer_state(training).items() if not isinstance(of, np.ndarray)}
    found, wanted = ({name: _kind(of) for name, of in values.items()} for values in (state.optimizer, kept))
    if found != wanted:
        raise ValueError(f"optimizer: expected {wanted}, found {found}")
    if state.history:
        metric, gate_means = training.loss.metric, state.gate_means or None
        record = RunRecord(None, training.config, 1, metric, state.diverged, state.history, gate_means)
        if contradiction := record.contradiction():
            raise ValueError(contradiction)
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    return rng


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def digest_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of arrays."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {described(array)} ".encode() + array.tobytes())
    return found.hexdigest()


def _arrays(training: Any) -> dict[str, np.ndarray]:
    """Return parameters, buffers and what the optimiser keeps of each parameter under their names in a checkpoint."""
    kept = {name: value for name, value in optimizer_state(training).items() if isinstance(value, np.ndarray)}
    buffers = {f"net.{name}": value for name, value in training.net.buffers.items()}
    return {"params": training.net.params.flat} | kept | buffers


def optimizer_state(training: Any) -> dict[str, Any]:
    """Return an optimiser's attributes, except the parameters that it moves."""
    return {name: value for name, value in vars(training.optimizer).items() if name != "params"}
