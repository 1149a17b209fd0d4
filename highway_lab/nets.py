"""Nets in tables, and saved nets from anywhere: bounded in what a small file may unpack to, every tensor checked."""

import json
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from conv_highway_networks import Blocks
from highway_lab.files import atomic_write, check_regular, reason_of
from highway_networks import ADD_NAME, FORMAT, DeepNet, InputError, as_path

LONGEST_TEXT = 2**24  # bytes, four a character, of what describes a net or an estimator
MOST_MEMBERS = 10_000  # of an archive: the header of each is read
MOST_EXPANSION = 10  # times the bytes of the file; what is saved here is not compressed
LARGEST = 1e9  # magnitude of a saved parameter; the products of larger ones soon overflow


def save_net(path: str | os.PathLike, net: Any, origin: str = "", **beside: np.ndarray) -> None:
    """Write a net's tensors and configuration, and arrays `beside` them, as .npz, whole or not at all.

    `origin` says where the net is from: the archive's comment. Raises InputError if it cannot be written.
    """
    with atomic_write(path, "w+b") as file:
        arrays = net.tensors() | beside
        np.savez(file, format=np.array(FORMAT), config=np.array(json.dumps(net.config)), **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = origin.encode()


def origin_of(path: str | os.PathLike) -> str | None:
    """Return where a net that `save_net` wrote is from; None if there is no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment.decode(errors="replace")
    except Exception:  # whatever zip says of a foreign or damaged file
        return None


def load_net(path: str | os.PathLike, kind: type) -> Any:
    """Read a net of the class `kind` that `save_net` wrote. Raises InputError for anything else; never unpickles."""
    with saved_arrays(path, kind) as arrays:
        return net_of(arrays, kind)


def summary(net: Any) -> str:
    """Return a table of a net's layers in lines of text: what they are, shapes of input and output, parameters."""
    rows = [(name, f"{before} → {after}", f"{size:,}") for name, before, after, size in layers_of(net)]
    rows = [("layer", "shape", "parameters"), *rows, ("in all", "", f"{net.params.flat.size:,}")]
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"{name:<{first}}  {shape:<{second}}  {size:>{third}}" for name, shape, size in rows)


def layers_of(net: Any) -> Iterator[tuple[str, str, str, int]]:
    """Yield name, shape before, shape after and parameters of each layer of a net; equal blocks are one."""
    block, K = net.config["block"], str(net.config["d_out"])
    if isinstance(net, DeepNet):
        D, p = str(net.hidden), net.params
        yield "plain layer", str(net.config["d_in"]), D, p.input.size
        yield f"{net.depth} {block} blocks", D, D, p.blocks.size
        yield "linear layer", D, K, p.output.size
        return
    sizes = iter([matrix.size for matrix in net.params.convolutions])
    for layer in net.layers:
        name = f"{block} block" if isinstance(layer.stage, Blocks) else type(layer.stage).__name__
        before, after = (" x ".join(map(str, shape)) for shape in (layer.x_shape, layer.y_shape))
        yield name, before, after, next(sizes) if layer.branches else 0
    if net.params.norms:
        yield "batch normalisation", "", "", sum(norm.size for norm in net.params.norms.values())
    yield "linear layer", str(net.params.output.shape[1] - 1), K, net.params.output.size


@contextmanager
def saved_arrays(path: str | os.PathLike, kind: type) -> Iterator[dict[str, "Packed"]]:
    """Give the arrays of a file that the class `kind` saved; raises InputError for whatever goes wrong with them."""
    try:
        check_regular(as_path(path))
        with zipfile.ZipFile(as_path(path)) as archive:
            yield packed_arrays(archive)
    except OSError as error:
        found = error.strerror or "a damaged archive"
        raise InputError(f"{path}: expected a saved net, found: {found}; check the path") from error
    except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
        reason = reason_of(error)
        expected = f"expected a net saved by {kind.__name__}.save"
        ending = "" if ADD_NAME in reason else "; choose another, or save it anew"
        raise InputError(f"{path}: {expected}, found: {reason}{ending}") from error


def net_of(tensors: dict[str, "Packed"], kind: type) -> Any:
    """Return the net of the class `kind` in the arrays of a file; raises some exception for anything else."""
    version = int(tensors.pop("format").text()) if "format" in tensors else 1
    if version != FORMAT:
        raise ValueError(f"format {version}, not {FORMAT}: its weights are not laid out as W @ x")
    config = json.loads(tensors.pop("config").text())
    if config["dtype"] not in ("float32", "float64"):
        raise ValueError(f"a net of {config['dtype']}")
    try:
        net = kind(**config, rng=None)  # takes no memory yet for what the config claims
    except TypeError as error:
        found = "convolutional" if "stages" in config else "fully connected" if "hidden" in config else "foreign"
        raise ValueError(f"a {found} net") from error
    expected = net.tensors()
    for name in expected.keys() | tensors.keys():
        check_like(name, tensors.get(name), expected.get(name))
        tensor = tensors[name].unpack()
        if not (np.abs(tensor) < LARGEST).all():  # nor is NaN
            raise ValueError(f"tensor {name} with numbers that are not finite, or beyond {LARGEST:g}")
        if name.endswith("variance") and tensor.min() < 0:
            raise ValueError(f"tensor {name} with numbers below 0")
        expected[name][...] = tensor
    if not abs(config["gate_bias"]) < LARGEST:
        raise ValueError(f"gate_bias {config['gate_bias']}")
    return net


class Packed:
    """An array in an .npz file whose header alone is read at first: a file of a megabyte may hold many gigabytes.

    shape, dtype  as of an array
    """

    def __init__(self, archive: zipfile.ZipFile, member: str):
        self.archive, self.member = archive, member
        with archive.open(member) as file:
            if (version := np.lib.format.read_magic(file)) != (1, 0):  # the headers of others may have any length
                raise ValueError(f"{member} in version {version} of its format, not (1, 0)")
            self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(file)

    def unpack(self) -> np.ndarray:
        """Return the array; raises ValueError for pickled objects."""
        with self.archive.open(self.member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def text(self, most: int = LONGEST_TEXT) -> str:
        """Return the text or the number that the array holds; raises ValueError for one of more bytes than `most`."""
        if (found := math.prod(self.shape) * self.dtype.itemsize) > most:
            raise ValueError(f"{self.member} of {found:,} bytes, more than {most:,}")
        return str(self.unpack())


def packed_arrays(archive: zipfile.ZipFile) -> dict[str, Packed]:
    """Return the arrays in an .npz file by name; raises ValueError for too many, or if they expand too much."""
    members, size = archive.infolist(), os.path.getsize(archive.filename or "")
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"{len(members):,} arrays, more than {MOST_MEMBERS:,}")
    if (expanded := sum(member.file_size for member in members)) > MOST_EXPANSION * size:
        raise ValueError(f"{expanded:,} bytes in a file of {size:,}, more than {MOST_EXPANSION} times as many")
    return {member.removesuffix(".npy"): Packed(archive, member) for member in archive.namelist()}


def array_of(values: Any, dtype: str) -> np.ndarray:
    """Return values of a file's JSON as an array; raises ValueError for a type in which they take too many bytes."""
    if (found := len(values) * np.dtype(dtype).itemsize) > LONGEST_TEXT:
        raise ValueError(f"{len(values)} values of {dtype}, {found:,} bytes, more than {LONGEST_TEXT:,}")
    return np.array(values, dtype)


Tensor = np.ndarray | Packed | None  # None: there is no array


def check_like(name: str, tensor: Tensor, expected: Tensor) -> None:
    """Raise ValueError unless a tensor has the type and the shape of the `expected` one; None: there is none."""
    if described(tensor) != described(expected):
        raise ValueError(f"tensor {name}: expected {described(expected)}, found {described(tensor)}")


def described(tensor: Tensor) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of shape {tensor.shape}"
