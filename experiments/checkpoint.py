"""A run between two epochs, on disk: what it goes on from is bit for bit what it would have been."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np

from highway_networks import Training
from run_log import History, InputError, atomic_write

from .resumable import Interrupted


def save(path: str | os.PathLike, training: Training, history: History) -> None:
    """Keep parameters, the optimiser's state, the generator's state and the history so far, whole or not at all.

    Raises Interrupted if the disk will not have it.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    state = {
        "config": asdict(training.config),
        "optimizer": {name: value for name, value in _optimizer(training).items() if not _is_array(value)},
        "rng": training.rng.bit_generator.state,
        "history": asdict(history),
    }
    arrays = {name: value for name, value in _optimizer(training).items() if _is_array(value)}
    try:
        with atomic_write(path, "wb") as file:
            np.savez(file, state=np.array(json.dumps(state)), params=training.net.params.flat, **arrays)
    except InputError as error:
        raise Interrupted(str(error)) from error


def restore(path: str | os.PathLike, training: Training) -> History | None:
    """Bring `training` to where the checkpoint was made; None if there is none, or if it belongs to another config.

    Raises InputError for a file that is no checkpoint.
    """
    if not Path(path).exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            state = json.loads(str(stored["state"]))
            if state["config"] != asdict(training.config):
                return None
            _fill(training.net.params.flat, stored["params"])
            for name, value in _optimizer(training).items():
                if _is_array(value):
                    _fill(value, stored[name])
                else:
                    setattr(training.optimizer, name, state["optimizer"][name])
        training.rng.bit_generator.state = state["rng"]
        return History(**state["history"])
    except Exception as error:  # whatever numpy, zip and json say of a foreign or truncated file
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected a checkpoint, found: {reason}; delete it to start afresh") from error


def _fill(array: np.ndarray, stored: np.ndarray) -> None:
    """Copy, where NumPy's assignment would also broadcast and cast."""
    if (stored.shape, stored.dtype) != (array.shape, array.dtype):
        raise ValueError(f"{stored.dtype} of shape {stored.shape} in the place of {array.dtype} of {array.shape}")
    array[...] = stored


def _optimizer(training: Training) -> dict:
    """All that an optimiser is, beside the parameters it moves."""
    return {name: value for name, value in vars(training.optimizer).items() if name != "params"}


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)
