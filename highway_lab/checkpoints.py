"""Files (.npz) of a training run between two epochs, which goes on from there to the same bits, and of saved nets.

`training` is a highway_lab.training.Training, or an object with its attributes.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab import InputError, Interrupted
from highway_lab.files import atomic_write, check_regular, make_place
from highway_lab.logs import History, completed


def save(path: str | os.PathLike, training: Any) -> None:
    """Write all that decides how training goes on, and the record so far; raises Interrupted if the disk is full."""
    kept = optimizer_state(training)
    arrays: dict[str, Any] = {name: value for name, value in kept.items() if isinstance(value, np.ndarray)}
    state = {
        "config": asdict(training.config),
        "optimizer": {name: value for name, value in kept.items() if name not in arrays},
        "rng": training.rng.bit_generator.state,
        "epoch": training.epoch,
        "diverged": training.diverged,
        "history": asdict(training.history),
        "gate_means": training.gate_means,
    }
    arrays |= _net_state(training)
    try:
        make_place(path)
        with atomic_write(path, "wb") as file:
            np.savez(file, state=np.array(json.dumps(state)), params=training.net.params.flat, **arrays)
    except InputError as error:
        raise Interrupted(str(error)) from error


def restore(path: str | os.PathLike, training: Any) -> bool:
    """Bring `training` to where the checkpoint was made; False if there is none, or if it belongs to another config.

    Raises InputError for a file that is no checkpoint.
    """
    if not Path(path).exists():
        return False
    try:
        check_regular(path)
        with np.load(path, allow_pickle=False) as stored:
            state = completed(json.loads(str(stored["state"])), "checkpoint")
            if state["config"] != asdict(training.config):
                return False
            history = History(**state["history"])
            if (type(state["epoch"]), len(history.epoch)) not in ((int, 0), (int, state["epoch"] + 1)):
                raise ValueError(f"{len(history.epoch)} rows of history after {state['epoch']} epochs")
            _fill(training.net.params.flat, stored["params"])
            for name, value in _net_state(training).items():
                _fill(value, stored[name])
            for name, value in optimizer_state(training).items():
                if isinstance(value, np.ndarray):
                    _fill(value, stored[name])
                else:
                    setattr(training.optimizer, name, state["optimizer"][name])
        training.rng.bit_generator.state = state["rng"]
        training.history, training.gate_means = history, state["gate_means"]
        training.epoch, training.diverged = state["epoch"], state["diverged"]
    except Exception as error:  # whatever numpy, zip and json say of a foreign or truncated file
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected a checkpoint, found: {reason}; delete it to start afresh") from error
    return True


def _fill(array: np.ndarray, stored: np.ndarray) -> None:
    """Copy an array of the same shape and type; NumPy's assignment would also broadcast and cast."""
    if (stored.shape, stored.dtype) != (array.shape, array.dtype):
        raise ValueError(f"{stored.dtype} of shape {stored.shape} in the place of {array.dtype} of {array.shape}")
    array[...] = stored


def optimizer_state(training: Any) -> dict[str, Any]:
    """Return an optimiser's attributes, except the parameters that it moves."""
    return {name: value for name, value in vars(training.optimizer).items() if name != "params"}


def _net_state(training: Any) -> dict[str, np.ndarray]:
    """Return a net's buffers under their names in a checkpoint."""
    return {f"net.{name}": value for name, value in training.net.buffers.items()}


NET_FORMAT = 2  # 1 had the weights transposed, as x @ W
LARGEST = 1e9  # magnitude of a saved parameter; the products of larger ones soon overflow


def save_net(path: str | os.PathLike, net: Any) -> None:
    """Write a net's tensors and configuration as .npz, whole or not at all; raises InputError if it cannot."""
    with atomic_write(path, "wb") as file:
        np.savez(file, format=np.array(NET_FORMAT), config=np.array(json.dumps(net.config)), **tensors_of(net))


def load_net(path: str | os.PathLike, kind: type) -> Any:
    """Read a net of the class `kind` that `save_net` wrote. Raises InputError for anything else; never unpickles."""
    try:
        check_regular(path)
        with np.load(path, allow_pickle=False) as stored:
            tensors = {name: stored[name] for name in stored.files}
        version = int(tensors.pop("format", 1))
        if version != NET_FORMAT:
            raise ValueError(f"format {version}, not {NET_FORMAT}: its weights are not laid out as W @ x")
        config = json.loads(str(tensors.pop("config")))
        if config["dtype"] not in ("float32", "float64"):
            raise ValueError(f"a net of {config['dtype']}")
        net = kind(**config, rng=None)  # takes no memory yet for what the config claims
        expected = tensors_of(net)
        for name in expected.keys() | tensors.keys():
            found, wanted = (described(of.get(name)) for of in (tensors, expected))
            if found != wanted:
                raise ValueError(f"tensor {name}: expected {wanted}, found {found}")
            if not (np.abs(tensors[name]) < LARGEST).all():  # nor is NaN
                raise ValueError(f"tensor {name} with numbers that are not finite, or beyond {LARGEST:g}")
            if name.endswith("variance") and tensors[name].min() < 0:
                raise ValueError(f"tensor {name} with numbers below 0")
            expected[name][...] = tensors[name]
        if not abs(config["gate_bias"]) < LARGEST:
            raise ValueError(f"gate_bias {config['gate_bias']}")
    except OSError as error:
        found = error.strerror or "a damaged archive"
        raise InputError(f"{path}: expected a saved net, found: {found}; check the path") from error
    except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected a net saved by {kind.__name__}.save, found: {reason}; save anew") from error
    return net


def tensors_of(net: Any) -> dict[str, Any]:
    """Return all tensors of a net by name, parameters and buffers."""
    return dict(net.params) | net.buffers


def described(tensor: np.ndarray | None) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of shape {tensor.shape}"
