"""Nets without some of their blocks, and saved nets from anywhere: every number checked."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, count
from typing import Any

import numpy as np

from conv_highway_networks import Blocks
from highway_lab.files import as_path, atomic_write, check_regular
from highway_networks import ADD_NAME, BLOCKS, DeepNet, InputError, reason_of

LONGEST_TEXT = 2**24  # bytes, four a character, of an estimator's classes
LARGEST = 1e9  # magnitude of a saved parameter; the products of larger ones soon overflow


def without(net: Any, blocks: Sequence[int]) -> Any:
    """Return a copy of a net without these blocks, counted from 0 over all stages.

    In a net of coupled highway blocks that equals closing their gates, T = 0 (section 4.2). Raises IndexError for a
    block that is not there, InputError for a kind of block that depends on their number.
    """
    if (block := BLOCKS[net.config["block"]]).for_depth(net.depth) is not block:
        found = f"expected blocks that do not depend on the depth, found {net.config['block']}"
        raise InputError(f"blocks: {found}: those that stay would change; close their gates instead")
    kept, kind = np.delete(np.arange(net.depth), blocks), type(net)
    if isinstance(net, DeepNet):
        copy, p = kind(**net.config | {"depth": len(kept)}, rng=None), net.params
        copy.block, copy.classes = net.block, net.classes  # its name may mean another by now
        for tensor, source in zip(copy.params.pieces, (p.input, p.blocks[kept], p.output), strict=True):
            tensor[...] = source
        return copy
    number, tensors = count(), net.tensors()
    there = [not isinstance(layer.stage, Blocks) or next(number) in kept for layer in net.layers]
    copy = kind(**net.config | {"stages": [layer.stage for layer in compress(net.layers, there)]}, rng=None)
    copy.block, copy.classes = net.block, net.classes
    with_weights = compress(there, (layer.branches for layer in net.layers))
    numbers = [l for l, stays in enumerate(with_weights, start=1) if stays]  # in `net`, of each layer of `copy`
    for name, tensor in copy.tensors().items():
        l, _, kind_of = name.rpartition(".")
        tensor[...] = tensors[f"{numbers[int(l) - 1]}.{kind_of}" if l else name]
    return copy


def save_net(path: str | os.PathLike, net: Any, **beside: np.ndarray) -> None:
    """Write a net's tensors and configuration, and arrays `beside` them, as .npz, whole or not at all.

    Raises InputError if it cannot be written.
    """
    with atomic_write(path) as file:
        np.savez(file, **net.packed() | beside)


def load_net(path: str | os.PathLike, kind: type) -> Any:
    """Read a net of the class `kind` that `save_net` wrote. Raises InputError for anything else; never unpickles."""
    with saved_arrays(path, kind) as arrays:
        return net_of(arrays, kind)


@contextmanager
def saved_arrays(path: str | os.PathLike, kind: type) -> Iterator[dict[str, np.ndarray]]:
    """Give the arrays of a file that the class `kind` saved; raises InputError for whatever goes wrong with them."""
    try:
        check_regular(place := as_path(path))
        yield unpacked(place)
    except OSError as error:
        found = error.strerror or "a damaged archive"
        raise InputError(f"{path}: expected a saved net, found: {found}; check the path") from error
    except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
        reason = reason_of(error)
        expected = f"expected a net saved by {kind.__name__}.save"
        ending = "" if ADD_NAME in reason else "; choose another, or save it anew"
        raise InputError(f"{path}: {expected}, found: {reason}{ending}") from error


def unpacked(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays in an .npz file by name; never unpickles."""
    with open(path, "rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as arrays:
        return dict(arrays)


def net_of(arrays: dict[str, np.ndarray], kind: Any) -> Any:
    """Return the net of the class `kind` in the arrays of a file; raises some exception for anything else."""
    net = kind.unpacked(arrays)
    if net.dtype.kind != "f":
        raise ValueError(f"a net of {net.dtype}")
    for name, tensor in net.tensors().items():
        if not (np.abs(tensor) < LARGEST).all():  # nor is NaN
            raise ValueError(f"tensor {name} with numbers that are not finite, or beyond {LARGEST:g}")
        if name.endswith("variance") and tensor.min() < 0:
            raise ValueError(f"tensor {name} with numbers below 0")
    if not abs(net.config["gate_bias"]) < LARGEST:
        raise ValueError(f"gate_bias {net.config['gate_bias']}")
    return net


def array_of(values: Any, dtype: str) -> np.ndarray:
    """Return values of a file's JSON as an array; raises ValueError for a type in which they take too many bytes."""
    if (found := len(values) * np.dtype(dtype).itemsize) > LONGEST_TEXT:
        raise ValueError(f"{len(values)} values of {dtype}, {found:,} bytes, more than {LONGEST_TEXT:,}")
    return np.array(values, dtype)
