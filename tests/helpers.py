"""What several tests share: derivatives without backpropagation, writers of files, a log to spoil, a mirror."""

import dataclasses
import gzip
import hashlib
import math
import os
import re
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from http.server import SimpleHTTPRequestHandler
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conv_highway_networks import AveragePool, Blocks, ConvNet, Convolution, Dropout, MaxPool
from highway_lab.gradients import relative_error
from highway_lab.jobs import sealed, unsealed
from highway_lab.logs import SCHEMA, DatasetInfo, Environment, RunLog, RunRecord
from highway_lab.nets import load_net
from highway_lab.threads import blas_pools
from highway_lab.training import Training
from highway_networks import (
    BLOCKS,
    Block,
    Config,
    DeepNet,
    History,
    InputError,
    Net,
    highway_backward,
    highway_forward,
)

ROOT = Path(__file__).resolve().parent.parent
COUNTED = pytest.mark.skipif(
    not blas_pools().lib_controllers, reason="needs a BLAS whose threads can be counted: Accelerate's cannot"
)


# --------------------------------------------------------------------------------------- derivatives


def small_net(block: str, activation: str, depth: int, dtype=np.float64, d_in: int = 5, d_out: int = 3) -> DeepNet:
    """A net 4 units wide, of each state, whose biases, also of gates, lie around 0: no unit saturates, none is idle."""
    rng, hidden = np.random.default_rng(3), 8 if block == "lstm" else 4
    net = DeepNet(d_in, d_out, hidden=hidden, depth=depth, block=block, activation=activation, dtype=dtype, rng=rng)
    for name, tensor in net.params.items():
        if name.startswith("b_"):
            tensor[...] = rng.uniform(-1, 1, tensor.shape)
    return net


def swapped_block() -> Block:
    """A highway block whose branches stand in another order: T above H."""

    def forward(x, z, y, activation):
        highway_forward(x, z[::-1], y, activation)

    def backward(dy, x, z, dz, dx, activation, scratch):
        highway_backward(dy, x, z[::-1], dz[::-1], dx, activation, scratch)

    return Block("TH", forward, backward)


def swapped(net: Net) -> Net:
    """A copy of a highway net whose blocks are of the kind "swapped", which BLOCKS must have."""
    copy = type(net)(**net.config | {"block": "swapped"}, rng=None)
    for name, tensor in net.params.items():
        copy.params[name][...] = tensor
    return copy


def digits_net(depth: int = 4, **options) -> DeepNet:
    """A float64 net for the digits whose gates lie around one half, so that every layer counts."""
    options = {"block": "highway", "hidden": 7, "dtype": np.float64, "gate_bias": 0.0} | options
    return DeepNet(64, 10, depth=depth, rng=np.random.default_rng(1), **options)


def small_batch(rows: int = 7, d_in: int = 5, d_out: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """x (rows, d_in) in [-1, 1] and y (rows,)."""
    rng = np.random.default_rng(5)
    return rng.uniform(-1, 1, (rows, d_in)), rng.integers(0, d_out, rows)


CONV_BLOCKS = [name for name in BLOCKS if name != "lstm" and not name[-1].isdigit()]  # with a number: of 1 alone

# One of each stage: a convolution that shrinks, windows that hang over edges, a second width, blocks 3x3 and 1x1.
SMALL_STAGES = (
    *(Dropout(0.2), Convolution(2, 3, padding=0), Blocks(2), MaxPool(3, 2)),
    *(Convolution(3, 1, padding=0), Blocks(1, 1), AveragePool(2), Dropout(0.3)),
)
SMALL_SHAPE = (2, 9, 6)


def small_conv_net(block="highway", activation="tanh", stages=SMALL_STAGES, dtype=np.float64, **others) -> ConvNet:
    """A net for images (2, 9, 6) and 3 classes, its biases around 0; what normalises is neither 0 nor 1."""
    rng = np.random.default_rng(4)
    described = {"stages": stages, "block": block, "activation": activation, "dtype": dtype}
    net = ConvNet(SMALL_SHAPE, 3, **(described | others), rng=rng)
    lowest = {"b": -1, "beta": -1, "mean": -1, "gamma": 0.5, "variance": 0.5}
    for name, tensor in {**net.params, **net.buffers}.items():
        kind = name.rpartition(".")[-1].split("_")[0]
        if kind in lowest:
            tensor[...] = rng.uniform(lowest[kind], lowest[kind] + 2, tensor.shape)
    return net


def small_images(n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """x (n, 2, 9, 6) in [-1, 1] and y (n,)."""
    x, y = small_batch(n, math.prod(SMALL_SHAPE))
    return x.reshape(n, *SMALL_SHAPE), y


def check_gradients(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float) -> None:
    """Fail unless each gradient equals its derivative; a derivative near zero fails too, as it would check nothing."""
    assert list(found) == list(expected)
    for name, derivative in expected.items():
        assert found[name].shape == derivative.shape, name
        if derivative.size:
            assert np.abs(derivative).max() > 1e-4, f"{name}: the derivative is too small to check anything"
            error = relative_error(found[name], derivative)
            assert error < tolerance, f"{name}: relative error {error:.1e}"


# ---------------------------------------------------------------------------------------------- runs


def without_seconds(run: RunRecord) -> RunRecord:
    history = dataclasses.replace(run.history, seconds=[0.0] * len(run.history.epoch))
    return dataclasses.replace(run, history=history)


def train_to(training: Training, epochs: int, scored: bool = True) -> Training:
    """Train up to `epochs`."""
    for _ in training.epochs(scored=scored):
        if training.epoch == epochs:
            break
    return training


def everything(training: Training) -> dict[str, object]:
    """All that the rest of a run depends on, and its record but for the seconds."""
    found = {name: value for name, value in vars(training.optimizer).items() if name != "params"} | training.net.buffers
    found |= {name: getattr(training, name) for name in ("epoch", "diverged", "gate_means")}
    history = dataclasses.asdict(training.history) | {"seconds": len(training.history.seconds)}
    return found | {"params": training.net.params.flat, "rng": training.rng.bit_generator.state, "history": history}


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


# --------------------------------------------------------------------------------------------- files


def idx_bytes(array: np.ndarray) -> bytes:
    """`array` (uint8) in the idx format."""
    return struct.pack(f">HBB{array.ndim}I", 0, 0x08, array.ndim, *array.shape) + array.tobytes()


def gz(payload: bytes) -> bytes:
    """One gzip member, the same bytes whenever it is made."""
    return gzip.compress(payload, mtime=0)


MNIST_FILES = [f"{half}-{of}-ubyte.gz" for half in ("train", "t10k") for of in ("images-idx3", "labels-idx1")]


def write_small_mnist(folder: Path, n_train: int = 60, n_test: int = 20) -> dict[str, str]:
    """Write the four files of a made-up MNIST of 4x4 images; returns the SHA-256 of each payload."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(6)
    sizes = [of for n in (n_train, n_test) for of in ((256, (n, 4, 4)), (10, (n,)))]
    arrays = [rng.integers(0, high, shape, dtype=np.uint8) for high, shape in sizes]
    files = {}
    for name, array in zip(MNIST_FILES, arrays, strict=True):
        payload = idx_bytes(array)
        files[name] = hashlib.sha256(payload).hexdigest()
        (folder / name).write_bytes(gz(payload))
    return files


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Let the system refuse to write beyond `size` bytes of a file: a write that really fails, as on a full disk."""
    resource = pytest.importorskip("resource", reason="only Unix limits the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones included, with its bytes."""
    paths = filter(Path.is_file, sorted(folder.rglob("*")))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def resealed(lines: Path, old: str, new: str) -> bytes:
    """The lines of a file of results with other words in them, as if they had been written so."""
    texts = filter(None, map(unsealed, lines.read_bytes().split(b"\n")))
    return b"".join(sealed(text.replace(old.encode(), new.encode())) + b"\n" for text in texts)


def contents(path: Path) -> dict[str, np.ndarray]:
    """The arrays in an .npz file."""
    with np.load(path) as stored:
        return dict(stored)


def rewrite(path: Path, **changes: np.ndarray | None) -> None:
    """Write an .npz file again with some arrays replaced; None leaves one out."""
    arrays = contents(path) | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def same_nets(first, second) -> bool:
    """Tell whether two fitted estimators have the same parameters and buffers, bit for bit."""
    tensors = ([estimator.net_.params.flat, *estimator.net_.buffers.values()] for estimator in (first, second))
    return all(map(np.array_equal, *tensors))


class Intruder:
    """Makes a folder when it is unpickled."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return Path.mkdir, (self.trace,)


def refuse_net(kind: type[Net], path: Path, *parts: object) -> None:
    """Fail unless a file is refused as a saved net of that kind, in one line that names it and contains `parts`."""
    with pytest.raises(InputError) as error:
        load_net(path, kind) if issubclass(kind, Net) else kind.load(path)
    assert_says(error.value, path, *parts)


# ---------------------------------------------------------------------------------------------- logs


SOME_ENVIRONMENT = Environment(
    *("3.11.7", "2.4.6", "openblas 0.3", "Haswell", 1),
    *("Linux", "a processor", "c0de", "5a9e", "0123456789abcdef", False),
)


def small_log() -> RunLog[Config]:
    """A valid log of two runs, highway, which was made elsewhere, and a diverged plain one."""
    highway = RunRecord(
        dataclasses.replace(SOME_ENVIRONMENT, kernels="Zen", commit=None),
        Config(depth=2, epochs=1),
        100,
        "accuracy",
        False,
        History([0, 1], [2.3, 0.5], [0.1, 0.8], [2.4, 0.625], [0.1, 0.75], [None, 1.5], [0.0, 0.25]),
        [[0.12, 0.12], [0.125, 0.25]],
    )
    plain = RunRecord(
        None,
        Config(block="plain", depth=2, epochs=1),
        50,
        "accuracy",
        True,
        History([0, 1], [2.3, None], [0.1, None], [2.4, None], [0.1, None], [None, None], [0.0, 0.25]),
        None,
    )
    command = "python highway_networks.py --depth 2"
    dataset = DatasetInfo("mnist", 6000, 2000)
    return RunLog(SCHEMA, "2026-11-20T10:00:00Z", command, dataset, SOME_ENVIRONMENT, [highway, plain])


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of every entry of JSON; of the first, the middle and the last one of a list."""
    keys: Any = value if isinstance(value, dict) else ()
    if isinstance(value, list) and value:
        keys = sorted({0, len(value) // 2, len(value) - 1})
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def holder(value: Any, path: tuple) -> Any:
    """The object or list of JSON that the last step of a path is taken in."""
    return reduce(getitem, path[:-1], value)


def log_of_net(begins: str, model: str | Path) -> Path:
    """The path of an experiment's log of a user's net: named after the net's file and its content."""
    model = Path(model)
    return Path(f"runs/{begins}-{model.stem}-{hashlib.sha256(model.read_bytes()).hexdigest()[:8]}.json")


# -------------------------------------------------------------------------------------------- errors


def slashes(text: str) -> str:
    """A message with / wherever this system's paths have something else."""
    return text.replace(str(Path("a/b"))[1], "/")


def assert_says(error: InputError, *parts: object) -> None:
    """The error is one line "where: expected X, found Y; remedy" that contains each of `parts`."""
    message = str(error)
    assert re.fullmatch(r"[^\n]+: expected [^\n]+, found[^\n]+; [^\n]+", message), message
    assert len(message) < 500, message
    for part in parts:
        assert slashes(str(part)) in slashes(message), message


@contextmanager
def refused_with(*parts: object) -> Iterator[None]:
    """Check that the block raises an InputError of one line that contains each of `parts`."""
    with pytest.raises(InputError) as error:
        yield
    assert_says(error.value, *parts)


# ------------------------------------------------------------------------------------------ mirrors


class Handler(SimpleHTTPRequestHandler):
    """A mirror's answers, without a word on them."""

    def log_message(self, *_):
        pass


# ----------------------------------------------------------------------------------------- processes


def child_environment(**others: str) -> dict[str, str]:
    """The environment of a Python that finds this checkout and what this one was told to find, and prints UTF-8."""
    found = (str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": os.pathsep.join(found), "PYTHONIOENCODING": "utf-8"} | others


def end(process: subprocess.Popen) -> None:
    """Kill a process and end all that it started; what tidies up after them ends by itself."""
    process.kill()
    with suppress(ProcessLookupError, AttributeError):  # Windows has no groups
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)


def group_lives(leader: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


A_PIPE = pytest.param(lambda path: os.mkfifo(path), "a device or a pipe", marks=pytest.mark.posix, id="pipe")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"{what}: waited for too long"
        time.sleep(0.01)
