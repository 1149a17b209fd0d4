"""Training very deep networks, in NumPy: highway and plain nets, forward and backward written by hand.

    python highway_networks.py --seed 0                           the headline: 30 blocks, both nets
    python highway_networks.py --seed 0 --depths 5,10,20,30,50    the depth sweep

"eq." and "section" refer to Srivastava, Greff & Schmidhuber, "Training Very Deep Networks", NIPS 2015
(arXiv:1507.06228), and the symbols are theirs: x a block's input, H its state, T its transform gate, y its output.
Shapes: B batch, D width, L blocks (the depth), G branches a block (H, T, C), K classes. A batch is a matrix of rows, so
a layer computes x @ W + b. A gradient is named d + its tensor.

The file reads from top to bottom: data, blocks, the net, the loss, optimisers, training, the command line.
"""

import argparse
import dataclasses
import hashlib
import json
import math
import os
import shlex
import signal
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from run_log import (
    SCHEMA,
    DatasetInfo,
    History,
    InputError,
    Run,
    RunLog,
    atomic_write,
    check_writable,
    environment,
    now,
    numbers,
    write,
)

CLASSES = 10


# ------------------------------------------------------------------------------------------------ data


class Dataset(NamedTuple):
    """Images as uint8 rows (n, d_in), labels as uint8 (n,), for training and for testing."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


class IdxSource(NamedTuple):
    """Where a data set in MNIST's format comes from, and how to know that it arrived whole."""

    folder: str
    mirrors: tuple[str, ...]
    checksum_of: str  # "payload", the uncompressed bytes, or "file", the .gz itself
    algorithm: str
    checksums: dict[str, str]  # file name -> hex digest; images and labels to train, then to test


IDX_SOURCES = {
    "mnist": IdxSource(
        "hinton-mnist",
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        "payload",
        "sha256",
        {
            "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    "fashion-mnist": IdxSource(
        "fashion-mnist",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        "file",  # its authors publish the sums of the .gz files only
        "md5",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
}
DATASETS = (*IDX_SOURCES, "digits")
IDX_UINT8 = 0x08
MIRROR_SECONDS = 5.0  # a mirror that has not answered by then is passed over


class DownloadError(InputError):
    """No mirror delivered the file."""


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """Read one idx file of unsigned bytes; a name ending in .gz is gunzipped first.

    Returns a read-only uint8 array of the shape that the header states. Raises InputError, naming the file, for
    anything but exactly one intact gzip member around exactly one intact idx array.
    Format: two zero bytes, type code (0x08), number of dimensions, each dimension as big-endian uint32, the bytes.
    """
    path = Path(path)
    return _parse_idx(_uncompressed(_read_bytes(path), path), path)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: expected a readable idx file, found: {error.strerror}; check the path and its permissions"
        ) from error


def _uncompressed(content: bytes, path: Path) -> bytes:
    """The payload of one gzip member (RFC 1952), which must fill the file: the gzip module forgives too much."""
    if path.suffix != ".gz":
        return content
    found = None
    member = zlib.decompressobj(wbits=31)
    try:
        payload = member.decompress(content)
    except zlib.error as error:
        found = "an empty file" if not content else f"damage ({error})"
        if not content.startswith(b"\x1f\x8b"):
            found = f"{content[:15]!r}, which is not gzip"
    else:
        if not content:
            found = "an empty file"
        elif not member.eof:
            found = "a truncated one"
        elif member.unused_data:
            found = f"{len(member.unused_data)} bytes after its end"
    if found:
        raise InputError(f"{path}: expected one gzip member, found {found}; {_remedy(path)}")
    return payload


def _parse_idx(payload: bytes, path: Path) -> np.ndarray:
    def reject(expected: str, found: str) -> InputError:
        return InputError(f"{path}: expected {expected}, found {found}; {_remedy(path)}")

    if payload.startswith(b"\x1f\x8b"):
        raise reject("an idx header", "gzip inside gzip")
    if len(payload) < 4 or payload[:2] != b"\0\0":
        raise reject("an idx header (00 00, type, dimensions)", f"{payload[:4].hex(' ') or 'nothing'}")
    if payload[2] != IDX_UINT8:
        raise reject("idx type code 0x08 (unsigned bytes)", f"0x{payload[2]:02x}")
    if not 1 <= payload[3] <= 4:
        raise reject("1 to 4 dimensions", f"{payload[3]}")
    start = 4 + 4 * payload[3]
    if len(payload) < start:
        raise reject(f"a header of {start} bytes", f"{len(payload)} bytes")
    shape = tuple(int.from_bytes(payload[i : i + 4], "big") for i in range(4, start, 4))
    if 0 in shape:
        raise reject("dimensions of at least 1", " x ".join(map(str, shape)))
    if len(payload) - start != math.prod(shape):
        size = f"{' x '.join(map(str, shape))} = {math.prod(shape)} bytes"
        raise reject(f"{size} after the header", f"{len(payload) - start}")
    return np.frombuffer(payload, np.uint8, offset=start).reshape(shape)


def _remedy(path: Path) -> str:
    return f"delete {path.name} and run again to download it, or put an intact copy there"


def load_dataset(name: str, data_dir: str | os.PathLike | None = None) -> Dataset:
    """Load a data set, downloading what is missing below the data directory.

    `name`: "mnist", "fashion-mnist", "digits" (scikit-learn's bundled 8x8 set, scaled to 0..255) or "auto" (see
    `choose_dataset`). `data_dir`: else $HIGHWAY_DATA_DIR, else ~/.cache. Images are uint8 (n, d_in), labels (n,).
    Raises InputError for an unknown name or a file that fails any check, DownloadError if no mirror delivers.
    """
    if name == "auto":
        name = choose_dataset(data_dir)
    if name == "digits":
        return _load_digits()
    if name not in IDX_SOURCES:
        raise InputError(f"--dataset: expected auto, {', '.join(DATASETS)}, found {name!r}; choose one of these")
    paths = _fetch(IDX_SOURCES[name], data_dir)
    arrays = [_read_verified(path, IDX_SOURCES[name]) for path in paths]
    for images, labels, image_path, label_path in zip(arrays[::2], arrays[1::2], paths[::2], paths[1::2], strict=True):
        _check_pair(images, labels, image_path, label_path)
    return Dataset(*(a.reshape(len(a), -1) if a.ndim == 3 else a for a in arrays))


def choose_dataset(data_dir: str | os.PathLike | None = None) -> str:
    """What "auto" stands for: "mnist" if it is there or can be downloaded, else "digits" with a warning."""
    try:
        _fetch(IDX_SOURCES["mnist"], data_dir)
    except DownloadError as error:
        print(f"{'!' * 88}\n{error}", file=sys.stderr)
        print(f"NOT MNIST: using scikit-learn's 8x8 digits instead.\n{'!' * 88}", file=sys.stderr)
        return "digits"
    return "mnist"


def _load_digits() -> Dataset:
    """scikit-learn's 1,797 bundled digits, pixels 0..16 scaled to 0..255, a fixed shuffle cut 1,437 / 360."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = np.rint(images * (255 / 16)).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = np.split(order, [1437])
    labels = labels.astype(np.uint8)
    return Dataset(images[train], labels[train], images[test], labels[test])


def _fetch(source: IdxSource, data_dir: str | os.PathLike | None) -> list[Path]:
    """Paths of the source's files, each downloaded if it is not there."""
    root = data_dir or os.environ.get("HIGHWAY_DATA_DIR") or Path.home() / ".cache"
    paths = [Path(root) / source.folder / name for name in source.checksums]
    for path in paths:
        if not os.path.lexists(path):
            _download(path, source)
    return paths


def _download(path: Path, source: IdxSource) -> None:
    """Download one file: the next mirror on any failure, moved into place only once it is verified."""
    import pooch

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(None, "no permission to write")
    except OSError as error:
        raise InputError(
            f"{path.parent}: expected a writable data directory, found: {error.strerror}; "
            "choose another with --data-dir, or use --dataset digits"
        ) from error

    download = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=(MIRROR_SECONDS, 30))

    def verified_download(url: str, temporary: str, _: object) -> None:
        download(url, temporary, None)
        content = Path(temporary).read_bytes()
        _verify(content, _uncompressed(content, path), path, source)

    pooch.get_logger().setLevel("WARNING")
    failures = []
    for mirror in source.mirrors:
        try:
            if not _answers(mirror + path.name):
                raise TimeoutError("no answer")
            pooch.retrieve(mirror + path.name, None, path.name, path.parent, downloader=verified_download)
            return
        except Exception as error:  # whatever went wrong, the next mirror may be right
            failures.append(f"{mirror}: {type(error).__name__}")
    raise DownloadError(
        f"{path}: expected a download, found {'; '.join(failures)}; "
        "connect to the internet, put the file there by hand, or use --dataset digits"
    )


def _answers(url: str) -> bool:
    """Whether a server answers at `url` in time; in a thread, as a name look-up cannot be given a timeout."""
    import pooch

    answers = []

    def ask() -> None:
        probe = pooch.HTTPDownloader(timeout=MIRROR_SECONDS)
        try:
            answers.append(probe(url, None, None, check_only=True))
        except Exception:  # no answer, then; the caller says so
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(MIRROR_SECONDS)
    return any(answers)


def _read_verified(path: Path, source: IdxSource) -> np.ndarray:
    content = _read_bytes(path)
    payload = _uncompressed(content, path)
    array = _parse_idx(payload, path)
    _verify(content, payload, path, source)
    return array


def _verify(content: bytes, payload: bytes, path: Path, source: IdxSource) -> None:
    checked = payload if source.checksum_of == "payload" else content
    found = hashlib.new(source.algorithm, checked).hexdigest()
    expected = source.checksums[path.name]
    if found != expected:
        raise InputError(
            f"{path}: expected {source.algorithm} {expected} of the {source.checksum_of}, "
            f"found {found}; {_remedy(path)}"
        )


def _check_pair(images: np.ndarray, labels: np.ndarray, image_path: Path, label_path: Path) -> None:
    """Images must be (n, rows, columns), labels (n,) of classes 0..9."""
    for array, ndim, kind, path in ((images, 3, "images", image_path), (labels, 1, "labels", label_path)):
        if array.ndim != ndim:
            raise InputError(
                f"{path}: expected {kind} ({ndim} dimensions), found {array.ndim} dimensions; "
                "are images and labels swapped?"
            )
    if len(images) != len(labels):
        raise InputError(
            f"{label_path}: expected {len(images)} labels, one for each of {image_path.name}, "
            f"found {len(labels)}; {_remedy(label_path)}"
        )
    if labels.max(initial=0) >= CLASSES:
        raise InputError(f"{label_path}: expected labels 0..{CLASSES - 1}, found {labels.max()}; {_remedy(label_path)}")


def scale(images: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """Pixels 0..255 (uint8) to [-1, 1]."""
    scaled = np.multiply(images, 1 / 127.5, dtype=dtype)
    scaled -= 1
    return scaled


def draw_subset(data: Dataset, n_train: int, n_test: int, rng: np.random.Generator) -> Dataset:
    """The first n_train and n_test of a random permutation of each half; raises InputError if there are fewer."""
    for flag, wanted, images in (("--n-train", n_train, data[0]), ("--n-test", n_test, data[2])):
        if wanted > len(images):
            raise InputError(f"{flag}: expected at most {len(images)} images, found {wanted}; ask for fewer")
    train = rng.permutation(len(data.train_images))[:n_train]
    test = rng.permutation(len(data.test_images))[:n_test]
    return Dataset(data.train_images[train], data.train_labels[train], data.test_images[test], data.test_labels[test])


# ---------------------------------------------------------------------------------------------- blocks
# Forward above backward, each line of the backward mirroring one of the forward. All work is done in arrays that the
# caller owns: the pre-activations z (G, B, D) become H, T, ... in place; dz (G, B, D) receives the gradients of z.


class Activation(NamedTuple):
    """An activation function of the block state: `forward` and `backward` work in place."""

    forward: Callable[[np.ndarray], None]  # z -> H
    backward: Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # dH, H, scratch: dH -> dz


def tanh_forward(z):
    np.tanh(z, out=z)


def tanh_backward(dH, H, scratch):
    np.multiply(H, H, out=scratch)
    np.subtract(1, scratch, out=scratch)  # tanh' = 1 − H²
    dH *= scratch


def relu_forward(z):
    np.maximum(z, 0, out=z)


def relu_backward(dH, H, scratch):
    np.sign(H, out=scratch)  # relu' = 1 where H > 0, else 0
    dH *= scratch


ACTIVATIONS = {
    "tanh": Activation(tanh_forward, tanh_backward),
    "relu": Activation(relu_forward, relu_backward),
}


def sigmoid(z):
    """z becomes σ(z) = 1 / (1 + e^−z), in place.

    Of the ways to write σ, this one keeps its relative precision where deep highway nets live: at very negative z.
    """
    np.negative(z, out=z)
    np.exp(z, out=z)
    z += 1
    np.reciprocal(z, out=z)


def sigmoid_backward(dT, T, scratch):
    """dT becomes dz in place; `scratch` is left holding 1 − T."""
    np.subtract(1, T, out=scratch)
    dT *= T
    dT *= scratch  # σ' = T·(1 − T)


def plain_forward(x, z, y, activation):
    (H,) = z  # (B, D)
    activation.forward(H)  # H = act(W_H x + b_H)
    y[...] = H  # y = H    (eq. 1)


def plain_backward(dy, x, z, dz, dx, activation):
    (H,), (dH,) = z, dz  # (B, D)
    dH[...] = dy  # dH = dy
    activation.backward(dH, H, scratch=dx)
    dx[...] = 0  # no path around the transform


def highway_forward(x, z, y, activation):
    H, T = z  # (B, D) each
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid(T)  # T = σ(W_T x + b_T)
    np.subtract(H, x, out=y)
    y *= T
    y += x  # y = H·T + x·(1 − T), as x + T·(H − x)    (eq. 3)


def highway_backward(dy, x, z, dz, dx, activation):
    (H, T), (dH, dT) = z, dz  # (B, D) each
    np.multiply(T, dy, out=dH)  # dH = T·dy    (eq. 9)
    activation.backward(dH, H, scratch=dx)
    np.subtract(H, x, out=dT)
    dT *= dy  # dT = (H − x)·dy    (eq. 9)
    sigmoid_backward(dT, T, scratch=dx)
    dx *= dy  # dx = (1 − T)·dy    (eq. 9)


def highway_uncoupled_forward(x, z, y, activation):
    H, T, C = z  # (B, D) each
    activation.forward(H)  # H = act(W_H x + b_H)
    sigmoid(T)  # T = σ(W_T x + b_T)
    sigmoid(C)  # C = σ(W_C x + b_C)
    np.multiply(H, T, out=y)
    y += x * C  # y = H·T + x·C    (eq. 2)


def highway_uncoupled_backward(dy, x, z, dz, dx, activation):
    (H, T, C), (dH, dT, dC) = z, dz  # (B, D) each
    np.multiply(T, dy, out=dH)  # dH = T·dy
    activation.backward(dH, H, scratch=dx)
    np.multiply(H, dy, out=dT)  # dT = H·dy
    sigmoid_backward(dT, T, scratch=dx)
    np.multiply(x, dy, out=dC)  # dC = x·dy
    sigmoid_backward(dC, C, scratch=dx)
    np.multiply(C, dy, out=dx)  # dx = C·dy


def residual_forward(x, z, y, activation):
    (H,) = z  # (B, D)
    activation.forward(H)  # H = act(W_H x + b_H)
    np.add(x, H, out=y)  # y = x + H    (He et al. 2016, eq. 1, with one layer)


def residual_backward(dy, x, z, dz, dx, activation):
    (H,), (dH,) = z, dz  # (B, D)
    dH[...] = dy  # dH = dy
    activation.backward(dH, H, scratch=dx)
    dx[...] = dy  # dx = dy


class Block(NamedTuple):
    """A kind of hidden block: the names of its affine branches, and the pair of functions that combine them.

    forward(x, z, y, activation): z (G, B, D) holds x @ W + b of each branch and becomes H, T, ...; fills y (B, D).
    backward(dy, x, z, dz, dx, activation): fills dz (G, B, D), the gradients of the affine maps' outputs, and
    dx (B, D), the gradient along paths around them; what flows back through the affine maps is the net's to add.
    """

    branches: str
    forward: Callable[[np.ndarray, np.ndarray, np.ndarray, Activation], None]
    backward: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Activation], None]


BLOCKS = {
    "plain": Block("H", plain_forward, plain_backward),
    "highway": Block("HT", highway_forward, highway_backward),
    "highway-uncoupled": Block("HTC", highway_uncoupled_forward, highway_uncoupled_backward),
    "residual": Block("H", residual_forward, residual_backward),
}


# --------------------------------------------------------------------------------------------- the net


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights (..., fan_in, fan_out) uniform in ±1/√fan_in."""
    bound = 1 / math.sqrt(shape[-2])
    return rng.uniform(-bound, bound, shape)


def glorot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normalised initialisation for tanh (Glorot & Bengio 2010, eq. 16): uniform in ±√(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-bound, bound, shape)


def he(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normalised initialisation for ReLU (He et al. 2015, eq. 10): normal with variance 2 / fan_in."""
    return rng.normal(0, math.sqrt(2 / shape[-2]), shape)


INITS = {"uniform": uniform, "glorot": glorot, "he": he}


class Parameters(Mapping):
    """The net's tensors by name: views into one flat vector, so that an optimiser is a few vector operations.

    In this order: W_in (d_in, D), b_in (D); for each branch (H, then T) W_H (L, D, D), b_H (L, D);
    W_out (D, K), b_out (K). Gradients have the same form.

    flat      the vector
    W, b      the branches of every block again, (L, G, D, D) and (L, G, 1, D): views that stack W_H, W_T, ...
    """

    def __init__(self, d_in: int, d_out: int, hidden: int, depth: int, branches: str, dtype: type):
        L, D, G = depth, hidden, len(branches)
        shapes = {"W_in": (d_in, D), "b_in": (D,)}
        for branch in branches:
            shapes |= {f"W_{branch}": (L, D, D), f"b_{branch}": (L, D)}
        shapes |= {"W_out": (D, d_out), "b_out": (d_out,)}
        sizes = [math.prod(shape) for shape in shapes.values()]
        self.flat = np.zeros(sum(sizes), dtype)
        pieces = np.split(self.flat, np.cumsum(sizes)[:-1])
        self._views = {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
        blocks = self.flat[sum(sizes[:2]) : sum(sizes[:-2])].reshape(G, L * (D * D + D))
        self.W = blocks[:, : L * D * D].reshape(G, L, D, D).swapaxes(0, 1)
        self.b = blocks[:, L * D * D :].reshape(G, L, 1, D).swapaxes(0, 1)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


class Cache:
    """What a forward pass leaves for the backward pass, with the memory that both work in.

    x (L+1, B, D)       the input of each block and, last, the output of the last
    H, T (L, B, D)      block states and transform gates (T, and C, only where the block has them)
    dx (L+1, B, D)      after a backward pass: the gradient of the loss by x
    """

    def __init__(self, net: "DeepNet", batch_size: int):
        self.input = None  # (B, d_in), the batch itself, by reference
        self.x = np.empty((net.depth + 1, batch_size, net.hidden), net.dtype)
        self.z = np.empty((net.depth, len(net.block.branches), batch_size, net.hidden), net.dtype)
        for g, branch in enumerate(net.block.branches):
            setattr(self, branch, self.z[:, g])
        self.dx = None  # the backward pass's memory is allocated by the first one: evaluation never needs it

    def prepare_backward(self, net: "DeepNet") -> None:
        """Allocate what the backward pass works in, once."""
        if self.dx is None:
            self.dx = np.empty_like(self.x)
            self.dz = np.empty(self.z.shape[1:], net.dtype)  # (G, B, D)
            self.dx_through = np.empty_like(self.dz)
            self.ones = np.ones((1, self.x.shape[1]), net.dtype)
            self.gradients = net.new_parameters()


class DeepNet:
    """A deep net of equal blocks: a plain layer d_in -> D, `depth` blocks D -> D, a linear layer D -> K.

    d_in, d_out        widths of input and output
    hidden, depth      D and L; depth 0 is the plain layer alone (the paper counts that layer, so its depth is L + 1)
    block              a name in BLOCKS; activation: a name in ACTIVATIONS
    init               a name in INITS, for all weights; biases start at 0, but for
    gate_bias          the initial b_T
    dtype              float32, float64, or complex128 (forward and loss only, for complex-step derivatives)
    rng                np.random.Generator that draws the weights

    Raises InputError for an unknown block, activation or initialisation.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        *,
        hidden: int = 50,
        depth: int = 30,
        block: str = "highway",
        activation: str = "tanh",
        init: str = "uniform",
        gate_bias: float = -2.0,
        dtype: type = np.float32,
        rng: np.random.Generator,
    ):
        tables = (("block", block, BLOCKS), ("activation", activation, ACTIVATIONS), ("init", init, INITS))
        for option, name, table in tables:
            if name not in table:
                raise InputError(f"{option}: expected one of {', '.join(table)}, found {name!r}; choose one")
        self.config = {
            "d_in": d_in,
            "d_out": d_out,
            "hidden": hidden,
            "depth": depth,
            "block": block,
            "activation": activation,
            "init": init,
            "gate_bias": gate_bias,
            "dtype": np.dtype(dtype).name,
        }
        self.hidden, self.depth, self.dtype = hidden, depth, np.dtype(dtype)
        self.block, self.activation = BLOCKS[block], ACTIVATIONS[activation]
        self.params = self.new_parameters()
        for name, tensor in self.params.items():
            if name.startswith("W"):
                tensor[...] = INITS[init](rng, tensor.shape)
        if "T" in self.block.branches:
            self.params["b_T"][...] = gate_bias
        if "C" in self.block.branches:
            self.params["b_C"][...] = -gate_bias  # so that C starts as 1 − T, as in the coupled block

    def new_parameters(self) -> Parameters:
        """Zeros in the form of this net's parameters."""
        d_in, d_out = self.config["d_in"], self.config["d_out"]
        return Parameters(d_in, d_out, self.hidden, self.depth, self.block.branches, self.dtype)

    def workspace(self, batch_size: int) -> Cache:
        """Memory for passes over batches of `batch_size`, to be given to `forward` again and again."""
        return Cache(self, batch_size)

    def forward(self, x: np.ndarray, workspace: Cache | None = None) -> tuple[np.ndarray, Cache]:
        """Logits (B, K) of a batch x (B, d_in), and the cache that `backward` needs.

        The cache is the caller's: a fresh one each time, or `workspace`, overwritten.
        """
        cache = workspace or self.workspace(len(x))
        cache.input = x
        p = self.params
        self._input_layer(x, out=cache.x[0])
        with np.errstate(over="ignore"):  # e^−z may overflow to inf, where σ(z) is rightly 0
            for x_l, W, b, z, y in zip(cache.x[:-1], p.W, p.b, cache.z, cache.x[1:], strict=True):
                self._block(x_l, W, b, z, y)
        return cache.x[-1] @ p["W_out"] + p["b_out"], cache

    def _input_layer(self, x: np.ndarray, out: np.ndarray) -> None:
        """The plain layer that brings x (B, d_in) to the blocks' width (section 2.1)."""
        np.matmul(x, self.params["W_in"], out=out)
        out += self.params["b_in"]
        self.activation.forward(out)

    def _block(self, x: np.ndarray, W: np.ndarray, b: np.ndarray, z: np.ndarray, y: np.ndarray) -> None:
        """One block: every branch's affine map of x (B, D) into z (G, B, D), then the block's own function into y."""
        np.matmul(x, W, out=z)
        z += b
        self.block.forward(x, z, y, self.activation)

    def backward(self, dlogits: np.ndarray, cache: Cache, *, return_dx: bool = False):
        """Gradients of the loss by the parameters, given dlogits (B, K) and the cache of the forward pass.

        Returns a mapping like `params`, which lives in the cache; with `return_dx` also the gradient by the net's
        input (B, d_in). It is `forward`, read from the last line to the first.
        """
        cache.prepare_backward(self)
        p, grads, dx, dz = self.params, cache.gradients, cache.dx, cache.dz

        np.matmul(cache.x[-1].T, dlogits, out=grads["W_out"])
        np.sum(dlogits, axis=0, out=grads["b_out"])
        np.matmul(dlogits, p["W_out"].T, out=dx[-1])
        for l in reversed(range(self.depth)):
            dy, x_l, dx_l = dx[l + 1], cache.x[l], dx[l]
            self.block.backward(dy, x_l, cache.z[l], dz, dx_l, self.activation)
            np.matmul(x_l.T, dz, out=grads.W[l])
            np.matmul(cache.ones, dz, out=grads.b[l])  # the sum over the batch, as a product: several times faster
            np.matmul(dz, p.W[l].swapaxes(1, 2), out=cache.dx_through)
            for dx_branch in cache.dx_through:
                dx_l += dx_branch

        dz_in = dx[0].copy()
        self.activation.backward(dz_in, cache.x[0], scratch=dz[0])
        np.matmul(cache.input.T, dz_in, out=grads["W_in"])
        np.sum(dz_in, axis=0, out=grads["b_in"])
        return (grads, dz_in @ p["W_in"].T) if return_dx else grads

    def predict(self, x: np.ndarray, rows: int = 512) -> np.ndarray:
        """Logits (n, K) of x (n, d_in), any n: `rows` at a time, with no cache."""
        logits = np.empty((len(x), self.config["d_out"]), self.dtype)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            logits[part] = self.predict_from(self.enter(x[part]), 0)
        return logits

    def enter(self, x: np.ndarray) -> np.ndarray:
        """The input (B, D) of the first block, given the net's input x (B, d_in)."""
        x_0 = np.empty((len(x), self.hidden), self.dtype)
        self._input_layer(x, out=x_0)
        return x_0

    def predict_from(self, x_l: np.ndarray, l: int) -> np.ndarray:
        """Logits (B, K) given x_l (B, D), the input of block l."""
        y = x_l
        for _, y in self.walk(x_l, l):  # noqa: B007, the last y is what counts
            pass
        return y @ self.params["W_out"] + self.params["b_out"]

    def walk(self, x_l: np.ndarray, l: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the branches z (G, B, D), that is H, T, ..., and the output y (B, D) of block l and of all after it.

        Both are overwritten by later blocks, so that a walk takes the memory of one block, however deep the net: z by
        the next block, y by the one after it. x_l (B, D) stays as it was.
        """
        x, y, spare = x_l, np.empty_like(x_l), np.empty_like(x_l)
        z = np.empty((len(self.block.branches), *x_l.shape), self.dtype)
        for W, b in zip(self.params.W[l:], self.params.b[l:], strict=True):
            with np.errstate(over="ignore"):
                self._block(x, W, b, z, y)
            yield z, y
            x, y, spare = y, spare, y

    def gate_means(self, x: np.ndarray) -> list[float | None] | None:
        """Mean of T per block over x (B, d_in); None where the block has no gate."""
        if "T" not in self.block.branches:
            return None
        _, cache = self.forward(x)
        return numbers(cache.T.mean(axis=(1, 2)), digits=4)

    def save(self, path: str | os.PathLike) -> None:
        """Write parameters and configuration as .npz, whole or not at all; raises InputError if it cannot."""
        with atomic_write(path, "wb") as file:
            np.savez(file, config=np.array(json.dumps(self.config)), **self.params)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "DeepNet":
        """Read a net that `save` wrote. Raises InputError for anything else; never unpickles."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                tensors = {name: stored[name] for name in stored.files}
            config = json.loads(str(tensors.pop("config")))
            net = cls(**config, rng=np.random.default_rng(0))
            for name in net.params.keys() | tensors.keys():
                found = tensors[name].shape if name in tensors else "none"
                expected = net.params[name].shape if name in net.params else "none"
                if found != expected:
                    raise ValueError(f"tensor {name}: expected shape {expected}, found {found}")
                net.params[name][...] = tensors[name]
        except OSError as error:
            found = error.strerror or "a damaged archive"
            raise InputError(f"{path}: expected a saved net, found: {found}; check the path") from error
        except Exception as error:  # whatever numpy, zip, json and the constructor say of a foreign file
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: expected a net saved by DeepNet.save, found: {reason}; save it again") from error
        return net


# -------------------------------------------------------------------------------------------- the loss


def softmax_cross_entropy(logits: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean loss in nats, and dlogits (B, K), of logits (B, K) and labels y (B,)."""
    rows = np.arange(len(y))
    shifted = logits - logits.max(axis=1, keepdims=True)  # so that no exponential overflows
    dlogits = np.exp(shifted)
    total = dlogits.sum(axis=1, keepdims=True)
    loss = (np.log(total[:, 0]) - shifted[rows, y]).mean()
    dlogits /= total  # softmax
    dlogits[rows, y] -= 1
    dlogits /= len(y)  # d mean loss / d logits = (softmax − one-hot) / B
    return loss, dlogits


# ------------------------------------------------------------------------------------------ optimisers


def clip_global_norm(grads: Parameters, max_norm: float) -> float:
    """Scale the gradients, in place, to a global L2 norm of at most `max_norm`; returns the norm before."""
    norm = math.sqrt(grads.flat @ grads.flat)
    if math.isinf(norm):  # float32 squares overflow beyond 1e19, long before the gradients do
        norm = float(np.linalg.norm(grads.flat.astype(np.float64)))
    if norm > max_norm:
        grads.flat *= max_norm / norm
    return norm


PIECE = 32_768  # parameters updated at a time: all that belongs to them stays in the processor's cache meanwhile


def _pieces(*vectors: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Vectors of one length, cut alike into pieces."""
    for start in range(0, len(vectors[0]), PIECE):
        yield [vector[start : start + PIECE] for vector in vectors]


class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1) over the flat parameter vector.

    The moments are kept as m / (1 − β1) and v / (1 − β2): the constants, like the bias corrections, move into the two
    scalars of the last line, and each step passes over the vectors two times less.
    """

    def __init__(self, params: Parameters, lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8):
        self.params, self.lr, self.beta1, self.beta2, self.eps = params, lr, beta1, beta2, eps
        self.t = 0
        self.m, self.v = np.zeros((2, params.flat.size), params.flat.dtype)

    def step(self, grads: Parameters) -> None:
        """Move the parameters by one step."""
        self.t += 1
        scale_m = (1 - self.beta1) / (1 - self.beta1**self.t)  # m̂ = scale_m · m
        scale_v = math.sqrt((1 - self.beta2) / (1 - self.beta2**self.t))  # √v̂ = scale_v · √v
        lr, eps = self.lr * scale_m / scale_v, self.eps / scale_v
        scratch = np.empty(PIECE, self.m.dtype)
        for p, g, m, v in _pieces(self.params.flat, grads.flat, self.m, self.v):
            s = scratch[: len(p)]
            m *= self.beta1
            m += g  # m ← β1·m + g
            np.multiply(g, g, out=s)
            v *= self.beta2
            v += s  # v ← β2·v + g²
            np.sqrt(v, out=s)
            s += eps
            np.divide(m, s, out=s)
            s *= lr
            p -= s  # p ← p − lr·m̂ / (√v̂ + ε)


class Momentum:
    """SGD with momentum and an exponentially decaying rate (section 3): step t uses lr · decay^t, t from 0.

    Classical: v ← μ·v − lr·g, p ← p + v. Nesterov (Sutskever et al. 2013, as a step from the look-ahead point):
    v ← μ·v − lr·g, p ← p + μ·v − lr·g.
    """

    def __init__(self, params: Parameters, lr: float, momentum: float, decay: float, nesterov: bool = False):
        self.params, self.lr, self.momentum, self.decay, self.nesterov = params, lr, momentum, decay, nesterov
        self.v = np.zeros_like(params.flat)

    def step(self, grads: Parameters) -> None:
        """Move the parameters by one step, then let the rate decay."""
        scratch = np.empty(PIECE, self.v.dtype)
        for p, g, v in _pieces(self.params.flat, grads.flat, self.v):
            s = scratch[: len(p)]
            np.multiply(g, self.lr, out=s)
            v *= self.momentum
            v -= s
            if self.nesterov:
                p -= s
                np.multiply(v, self.momentum, out=s)
                p += s
            else:
                p += v
        self.lr *= self.decay


OPTIMIZERS = {
    "adam": lambda params, c: Adam(params, c.lr, c.beta1, c.beta2, c.eps),
    "momentum": lambda params, c: Momentum(params, c.lr, c.momentum, c.lr_decay, c.nesterov),
}


# -------------------------------------------------------------------------------------------- training

POSITIVE = (lambda value: 0 < value < math.inf, "a positive number")
ZERO_OR_MORE = (lambda value: 0 <= value < math.inf, "zero or a positive number")
BELOW_ONE = (lambda value: 0 <= value < 1, "a number in [0, 1)")
UP_TO_ONE = (lambda value: 0 < value <= 1, "a number in (0, 1]")
FINITE = (math.isfinite, "a finite number")


def one_of(table) -> tuple[Callable[[str], bool], str]:
    """What a name must satisfy, and how to say so."""
    return (lambda value: value in table, "one of " + ", ".join(table))


def hyperparameter(default, help: str, valid=None):
    """A field of Config: its default, its meaning, and what its values must satisfy."""
    return dataclasses.field(default=default, metadata={"help": help, "valid": valid})


@dataclass(frozen=True)
class Config:
    """Every value that a run depends on, beside the data set. Raises InputError for one that makes no sense."""

    block: str = hyperparameter("highway", "kind of hidden block", one_of(BLOCKS))
    depth: int = hyperparameter(30, "hidden blocks", ZERO_OR_MORE)
    hidden: int = hyperparameter(50, "width of a block", POSITIVE)
    activation: str = hyperparameter("tanh", "activation in H", one_of(ACTIVATIONS))
    init: str = hyperparameter("uniform", "initial weights: uniform in ±1/√fan_in, or normalised", one_of(INITS))
    gate_bias: float = hyperparameter(-2.0, "initial transform-gate bias b_T", FINITE)
    optimizer: str = hyperparameter("adam", "update rule", one_of(OPTIMIZERS))
    lr: float = hyperparameter(5e-3, "learning rate", POSITIVE)
    lr_decay: float = hyperparameter(1.0, "momentum: factor on lr after each step", UP_TO_ONE)
    momentum: float = hyperparameter(0.9, "momentum: share of the last step kept", BELOW_ONE)
    nesterov: bool = hyperparameter(False, "momentum: Nesterov's")
    beta1: float = hyperparameter(0.9, "Adam: decay of the first moment", BELOW_ONE)
    beta2: float = hyperparameter(0.999, "Adam: decay of the second moment", BELOW_ONE)
    eps: float = hyperparameter(1e-8, "Adam: added to the root of the second moment", POSITIVE)
    clip: float = hyperparameter(5.0, "largest global L2 norm of the gradients; 0: no limit", ZERO_OR_MORE)
    batch_size: int = hyperparameter(128, "images a step", POSITIVE)
    drop_last: bool = hyperparameter(False, "leave out each epoch's last batch if it is short")
    epochs: int = hyperparameter(12, "passes over the training images", POSITIVE)
    n_train: int = hyperparameter(6000, "training images, drawn at random", POSITIVE)
    n_test: int = hyperparameter(2000, "test images, drawn at random", POSITIVE)
    seed: int = hyperparameter(0, "of subset, weights and shuffling", ZERO_OR_MORE)
    dtype: str = hyperparameter("float32", "precision", one_of(("float32", "float64")))

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, valid = getattr(self, field.name), field.metadata["valid"]
            if valid and not valid[0](value):
                raise InputError(f"{flag(field.name)}: expected {valid[1]}, found {value}; choose another")
        if self.drop_last and self.n_train < self.batch_size:
            raise InputError(
                f"--drop-last: expected a full batch of {self.batch_size}, found {self.n_train} images; "
                "lower --batch-size"
            )


def flag(name: str) -> str:
    """A field's name as the command line spells it."""
    return "--" + name.replace("_", "-")


def batches(
    images: np.ndarray, labels: np.ndarray, config: Config, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One epoch of shuffled batches: x (B, d_in) scaled to [-1, 1], y (B,)."""
    order = rng.permutation(len(images))
    end = len(order) - len(order) % config.batch_size if config.drop_last else len(order)
    for start in range(0, end, config.batch_size):
        chosen = order[start : start + config.batch_size]
        yield scale(images[chosen], config.dtype), labels[chosen]


def evaluate(net: DeepNet, images: np.ndarray, labels: np.ndarray, rows: int = 512) -> tuple[float, float]:
    """Mean loss and accuracy over images (n, d_in), uint8; both NaN if the loss is not finite."""
    loss = correct = 0.0
    for start in range(0, len(images), rows):
        y = labels[start : start + rows]
        logits = net.predict(scale(images[start : start + rows], net.dtype))
        loss += float(softmax_cross_entropy(logits, y)[0]) * len(y)
        correct += np.count_nonzero(logits.argmax(axis=1) == y)
    if not math.isfinite(loss):
        return math.nan, math.nan
    return loss / len(labels), correct / len(labels)


def train_step(net: DeepNet, optimizer, x: np.ndarray, y: np.ndarray, clip: float, workspace: Cache):
    """Forward, loss, backward, clip, update; returns the loss and the gradients' norm before clipping."""
    logits, cache = net.forward(x, workspace)
    loss, dlogits = softmax_cross_entropy(logits, y)
    grads = net.backward(dlogits, cache)
    norm = clip_global_norm(grads, clip or math.inf)
    optimizer.step(grads)
    return float(loss), norm


class Training:
    """A run between two epochs: the net, the optimiser and the shuffling generator are all that it depends on."""

    def __init__(self, config: Config, data: Dataset):
        """Draw subset and weights from the config's seed; raises InputError if `data` has too few images."""
        subset_rng, weight_rng, self.rng = np.random.default_rng(config.seed).spawn(3)
        self.config = config
        self.data = draw_subset(data, config.n_train, config.n_test, subset_rng)
        self.net = new_net(config, data.train_images.shape[1], weight_rng)
        self.optimizer = OPTIMIZERS[config.optimizer](self.net.params, config)
        self.workspaces = {size: self.net.workspace(size) for size in batch_sizes(config)}

    def run_epoch(self) -> tuple[float, float]:
        """One step a batch, until one's loss is not finite; returns means over batches: loss and gradient norm."""
        losses, norms = [], []
        for x, y in batches(self.data.train_images, self.data.train_labels, self.config, self.rng):
            loss, norm = train_step(self.net, self.optimizer, x, y, self.config.clip, self.workspaces[len(y)])
            losses.append(loss)
            norms.append(norm)
            if not math.isfinite(loss):
                break
        return float(np.mean(losses)), float(np.mean(norms))

    def scores(self) -> tuple[float, float, float, float]:
        """Loss and accuracy on the training images, then on the test images; training is left as it was."""
        data = self.data
        return (
            *evaluate(self.net, data.train_images, data.train_labels),
            *evaluate(self.net, data.test_images, data.test_labels),
        )


def train(
    config: Config,
    data: Dataset,
    *,
    report: Callable[[History], None] = lambda history: None,
    save_model: str | os.PathLike | None = None,
) -> Run:
    """Train one net on a random subset of `data` and return the record of the run.

    `report` is called with the history after each epoch, the untrained net's (epoch 0) included. A loss that is not
    finite ends the run as diverged. `save_model`: where to keep the trained net. Raises InputError if `data` has
    fewer images than the config asks for.
    """
    training = Training(config, data)
    held_out = scale(training.data.test_images[: config.batch_size], config.dtype)
    history, gate_means = History.empty(), []
    loss = norm = math.nan
    with training_conditions(config):
        for epoch in range(config.epochs + 1):
            start = time.perf_counter()
            if epoch > 0:
                loss, norm = training.run_epoch()
            scores = training.scores()
            history.append(epoch, *scores, norm, time.perf_counter() - start)
            gate_means.append(training.net.gate_means(held_out))
            report(history)
            diverged = epoch > 0 and not math.isfinite(loss + sum(scores))
            if diverged:
                break
    if save_model:
        training.net.save(save_model)
    return Run(config, training.net.params.flat.size, diverged, history, gate_means if gate_means[0] else None)


def new_net(config: Config, d_in: int, rng: np.random.Generator) -> DeepNet:
    """The untrained net that a config describes, for inputs (B, d_in)."""
    return DeepNet(
        d_in,
        CLASSES,
        hidden=config.hidden,
        depth=config.depth,
        block=config.block,
        activation=config.activation,
        init=config.init,
        gate_bias=config.gate_bias,
        dtype=config.dtype,
        rng=rng,
    )


def batch_sizes(config: Config) -> set[int]:
    """The sizes that an epoch's batches have."""
    last = 0 if config.drop_last else config.n_train % config.batch_size
    return {min(config.batch_size, config.n_train), last} - {0}


THREADED_PRODUCT = 2**22  # multiply-adds above which a second BLAS thread pays for itself


def count_threads(hidden: int, batch_size: int) -> int:
    """How many BLAS threads suit products of (B, D) by (D, D): one for thin nets, all for wide ones."""
    return 1 if batch_size * hidden * hidden < THREADED_PRODUCT else os.cpu_count() or 1


@contextmanager
def training_conditions(config: Config) -> Iterator[None]:
    """As many BLAS threads as suit the net, and no warnings: a loss that overflows is recorded, not shouted."""
    from threadpoolctl import threadpool_limits

    threads = count_threads(config.hidden, config.batch_size)
    with threadpool_limits(threads, user_api="blas"), np.errstate(all="ignore"):
        yield


# ------------------------------------------------------------------------------------ the command line


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as every error of this project is; exit code 2."""

    def error(self, message: str) -> None:
        self.exit(2, f"{self.prog}: error: {message}\n")


def list_of_numbers(text: str) -> list[int]:
    """`5,10,20` as numbers; raises argparse's error for anything else, a repeated number included."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected integers like 5,10,20, found {text!r}") from None
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"expected different integers, found {text!r}")
    return values


def add_hyperparameters(parser: argparse.ArgumentParser, leave_out: tuple[str, ...] = ()) -> None:
    """A flag for each of Config's fields; a flag that is not given leaves no attribute behind."""
    for field in dataclasses.fields(Config):
        if field.name in leave_out:
            continue
        kind = {"action": argparse.BooleanOptionalAction} if field.type is bool else {"type": field.type}
        parser.add_argument(
            flag(field.name),
            **kind,
            default=argparse.SUPPRESS,
            help=f"{field.metadata['help']} (default: {field.default})",
        )


def build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="highway_networks.py",
        description="Train highway and plain networks side by side and log every epoch as JSON.",
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", dest="seeds", type=int, nargs=1, metavar="N", help="one seed (default: 0)")
    seeds.add_argument("--seeds", type=list_of_numbers, metavar="N,N,...", help="one run for each seed")
    depths = parser.add_mutually_exclusive_group()
    depths.add_argument("--depth", dest="depths", type=int, nargs=1, metavar="L", help="hidden blocks (default: 30)")
    depths.add_argument("--depths", type=list_of_numbers, metavar="L,L,...", help="one run for each depth")
    parser.add_argument("--block", default="both", choices=("both", *BLOCKS), help="both: highway and plain")
    parser.add_argument("--quick", action="store_true", help="a smaller job: depth 10, 5 epochs")
    add_hyperparameters(parser, leave_out=("seed", "depth", "block"))
    parser.add_argument("--dataset", default="auto", choices=("auto", *DATASETS), help="auto: MNIST, else digits")
    parser.add_argument("--data-dir", help="where data sets lie (default: $HIGHWAY_DATA_DIR, else ~/.cache)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs side by side, in N processes")
    parser.add_argument("--out", help="the log (default: run.json; run_sweep.json with --depths or --seeds)")
    parser.add_argument("--no-save", action="store_true", help="write no log")
    parser.add_argument("--save-model", metavar="PATH", help="keep the trained net (.npz); for a single run")
    return parser


def plan(arguments: argparse.Namespace, data: Dataset) -> list[Config]:
    """The runs that the command line asks for: every depth, seed and block."""
    fields = {field.name for field in dataclasses.fields(Config)}
    given = {name: value for name, value in vars(arguments).items() if name in fields - {"block"}}
    if arguments.quick:
        given.setdefault("epochs", 5)
    for name, images in (("n_train", data.train_images), ("n_test", data.test_images)):
        given.setdefault(name, min(getattr(Config, name), len(images)))
    depths = arguments.depths or [10 if arguments.quick else Config.depth]
    kinds = ("highway", "plain") if arguments.block == "both" else (arguments.block,)
    return [
        Config(**given, depth=depth, seed=seed, block=block)
        for depth, seed, block in product(depths, arguments.seeds or [Config.seed], kinds)
    ]


def default_log(arguments: argparse.Namespace, dataset: str, configs: list[Config]) -> str:
    """Only a full MNIST job is named run.json or run_sweep.json: no other overwrites the committed logs."""
    several = len({(c.depth, c.seed) for c in configs}) > 1
    suffix = ("" if dataset == "mnist" else f"-{dataset}") + ("-quick" if arguments.quick else "")
    return f"{'run_sweep' if several else 'run'}{suffix}.json"


class EpochReporter:
    """Shows a run's progress: a bar on a terminal, one line an epoch elsewhere."""

    def __init__(self, config: Config):
        from tqdm import tqdm

        self.label = f"{config.block} depth {config.depth} seed {config.seed}"
        self.epochs = config.epochs
        self.bar = tqdm(total=self.epochs, desc=self.label, unit="epoch") if sys.stderr.isatty() else None

    def __call__(self, history: History) -> None:
        epoch, scores = history.epoch[-1], describe_scores(history)
        if self.bar is not None:
            self.bar.set_postfix_str(scores, refresh=False)
            self.bar.update(epoch - self.bar.n)
            self.bar.refresh()
            if epoch == self.epochs or history.train_loss[-1] is None:
                self.bar.close()
        else:
            print(f"{self.label}  epoch {epoch:>{len(str(self.epochs))}}/{self.epochs}  {scores}", flush=True)


def describe_scores(history: History) -> str:
    """The last row of a history in words."""
    if history.train_loss[-1] is None:
        return "loss not finite: diverged"
    return (
        f"loss {history.train_loss[-1]:.3f}  train acc {history.train_acc[-1]:.3f}  test acc {history.test_acc[-1]:.3f}"
    )


def run_all(configs: list[Config], data: Dataset, jobs: int, save_model: str | None) -> Iterator[tuple[int, Run]]:
    """Train every config, `jobs` at a time; yields (index, run) as runs finish, the deepest started first."""
    from joblib import delayed
    from tqdm import tqdm

    order = sorted(range(len(configs)), key=lambda i: -configs[i].depth)
    tasks = (delayed(_run_one)(i, configs[i], data, jobs == 1, save_model) for i in order)
    finished = side_by_side(tasks, jobs)
    if jobs == 1:
        yield from finished
        return
    yield from tqdm(finished, total=len(configs), unit="run", disable=not sys.stderr.isatty())


def show_run(run: Run) -> None:
    """One line for a run that was trained out of sight."""
    from tqdm import tqdm

    config = run.config
    tqdm.write(f"{config.block} depth {config.depth} seed {config.seed}  {describe_scores(run.history)}")


def side_by_side(calls: Iterator, jobs: int) -> Iterator:
    """The results of joblib's delayed calls as they finish, from `jobs` processes (from this one if it is 1).

    Ctrl-C reaches every process, but this one alone answers.
    """
    from joblib import Parallel

    warnings.filterwarnings("ignore", module="joblib.parallel")  # that calls were cut short is ours to report
    with deaf_to_interrupts():
        return Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C for good."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _run_one(index: int, config: Config, data: Dataset, verbose: bool, save_model: str | None) -> tuple[int, Run]:
    report = {"report": EpochReporter(config)} if verbose else {}
    return index, train(config, data, save_model=save_model, **report)


def summary(runs: list[Run]) -> str:
    """The runs as a table: highway beside plain, per depth; test accuracy and training loss as mean ± sd, seconds."""
    kinds = list(dict.fromkeys(run.config.block for run in runs))
    lines = ["depth" + "".join(f"   {kind + ' test acc':<21}{'train loss':<15}{'seconds':>7}" for kind in kinds)]
    for depth in sorted({run.config.depth for run in runs}):
        cells = [f"{depth:>5}"]
        for kind in kinds:
            group = [run for run in runs if (run.config.block, run.config.depth) == (kind, depth)]
            cells.append(_cells(group))
        lines.append("   ".join(cells))
    return "\n".join(lines)


def _cells(group: list[Run]) -> str:
    if not group:
        return " " * 43
    finished = [run.history for run in group if not run.diverged]
    accuracy = mean_sd([history.test_acc[-1] for history in finished])
    loss = mean_sd([history.train_loss[-1] for history in finished])
    seconds = sum(sum(run.history.seconds) for run in group)
    note = f" ({len(group) - len(finished)} diverged)" if len(finished) < len(group) else ""
    return f"{accuracy:<21}{loss:<15}{seconds:>7.1f}{note}"


def mean_sd(values: list[float]) -> str:
    """`0.912 ± 0.004`: mean and sample standard deviation; the mean alone if there is one value."""
    if not values:
        return "none"
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: `exit_code`'s, or 2 for an error of the user's."""
    argv = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        return run_command(arguments, shlex.join(["python", parser.prog, *argv]))
    except InputError as error:
        parser.error(str(error))
    except (KeyboardInterrupt, BrokenExecutor) as stopped:
        print("\nstopped before a run had finished: nothing to save", file=sys.stderr)
        return exit_code(stopped)


def run_command(arguments: argparse.Namespace, command: str) -> int:
    """Load, train, save, summarise; raises InputError."""
    if arguments.jobs < 1:
        raise InputError(f"--jobs: expected a positive number, found {arguments.jobs}; use 1 or the number of cores")
    dataset = choose_dataset(arguments.data_dir) if arguments.dataset == "auto" else arguments.dataset
    data = load_dataset(dataset, arguments.data_dir)
    configs = plan(arguments, data)
    if arguments.save_model and len(configs) > 1:
        raise InputError(
            f"--save-model: expected a single run, found {len(configs)}; choose one --block, --depth and --seed"
        )
    out = None if arguments.no_save else Path(arguments.out or default_log(arguments, dataset, configs))
    for path in filter(None, (out, arguments.save_model)):
        check_writable(path)

    runs, stopped = {}, None
    try:
        for index, run in run_all(configs, data, arguments.jobs, arguments.save_model):
            runs[index] = run
            if arguments.jobs > 1:
                show_run(run)
    except (KeyboardInterrupt, BrokenExecutor) as error:
        stopped = error
        if not runs:
            raise
    finished = [runs[index] for index in sorted(runs)]
    print("\n" + summary(finished))
    if stopped:
        reason = "interrupted" if isinstance(stopped, KeyboardInterrupt) else "a process was killed"
        print(f"\n{reason}: {len(runs)} of {len(configs)} runs had finished", file=sys.stderr)
        if out and out.exists():  # a whole log is worth more than a part
            out = out.with_stem(f"{out.stem}-interrupted")
    if out:
        info = DatasetInfo(dataset, configs[0].n_train, configs[0].n_test)
        threads = count_threads(configs[0].hidden, configs[0].batch_size)
        write(out, RunLog(SCHEMA, now(), command, info, environment(threads), finished))
        print(f"saved {out}")
    return exit_code(stopped)


def exit_code(stopped: BaseException | None) -> int:
    """0 for a job that went to its end, 130 after Ctrl-C, 1 if a process was lost."""
    if stopped is None:
        return 0
    return 130 if isinstance(stopped, KeyboardInterrupt) else 1


if __name__ == "__main__":
    sys.exit(main())
