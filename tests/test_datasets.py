"""Data sets: an intact file is read exactly, any other is refused in one line; subsets; digits."""

import gzip
import hashlib
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers import MNIST_FILES, digits_net, files_below, gz, idx_bytes, refused_with, small_conv_net, write_small_mnist
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import highway_networks as hn
from conv_highway_networks import Blocks
from highway_lab import datasets
from highway_lab.datasets import IDX_SOURCES, load_dataset
from highway_networks import InputError, as_inputs

IMAGES = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
PAYLOAD = idx_bytes(IMAGES)
COMPRESS = {"": bytes, ".gz": gz, ".xz": lzma.compress}
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = MNIST_FILES


def read(path: Path, content: bytes) -> np.ndarray:
    path.write_bytes(content)
    return hn.read_idx(path)


def header(*dimensions: int, type_code: int = 0x08) -> bytes:
    return struct.pack(f">HBB{len(dimensions)}I", 0, type_code, len(dimensions), *dimensions)


@given(array=arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=6)), suffix=st.sampled_from([*COMPRESS]))
def test_an_array_written_as_idx_is_read_back(tmp_path_factory, array, suffix):
    found = read(tmp_path_factory.getbasetemp() / f"array{suffix}", COMPRESS[suffix](idx_bytes(array)))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


BAD_PAYLOADS = {
    "nothing": (b"", "nothing"),
    "wrong magic": (b"\x89PNG" + PAYLOAD[4:], "89 50 4e 47"),
    "unknown type code": (header(3, 4, 4, type_code=0x0A) + PAYLOAD[16:], "00 00 0a 03"),
    "header cut short": (PAYLOAD[:14], "found: "),
    "a dimension too small": (header(2, 4, 4) + PAYLOAD[16:], "into shape (2,4,4)"),
    "huge dimensions": (header(*[2**32 - 1] * 3) + PAYLOAD[16:], "found: "),
    "payload one byte short": (PAYLOAD[:-1], "of size 47 into shape"),
    "payload one byte long": (PAYLOAD + b"\0", "of size 49 into shape"),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(("payload", "found"), BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
def test_a_payload_that_is_no_idx_array_is_refused(tmp_path, payload, suffix, found):
    path = tmp_path / f"images{suffix}"
    with refused_with(path, found, "put an intact copy there"):
        read(path, COMPRESS[suffix](payload))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_flipped_bit_never_changes_the_array(tmp_path, suffix):
    """The few bits that may flip are remarks in gzip's header: a time, a system."""
    image = IMAGES[0, :2, :2]
    stream = COMPRESS[suffix](idx_bytes(image))
    refused = 0
    for bit in range(8 * len(stream)):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            np.testing.assert_array_equal(read(tmp_path / f"image{suffix}", flipped), image)
        except InputError:
            refused += 1
    assert refused > 5 * len(stream)


def test_mnist_is_images_with_one_channel_and_labels(small_mnist):
    data = load_dataset("mnist", small_mnist)
    folder = small_mnist / "hinton-mnist"
    np.testing.assert_array_equal(data.train_x, hn.read_idx(folder / TRAIN_IMAGES).reshape(60, 1, 4, 4))
    np.testing.assert_array_equal(data.train_y, hn.read_idx(folder / TRAIN_LABELS))
    np.testing.assert_array_equal(data.test_x, hn.read_idx(folder / TEST_IMAGES).reshape(20, 1, 4, 4))
    np.testing.assert_array_equal(data.test_y, hn.read_idx(folder / TEST_LABELS))
    assert {array.dtype for array in data[:4]} == {np.dtype(np.uint8)}
    assert data.outputs == 10


def test_the_data_directory_is_argument_variable_or_cache(small_mnist, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HIGHWAY_DATA_DIR", str(tmp_path / "nowhere"))
    load_dataset("mnist", small_mnist)
    monkeypatch.setenv("HIGHWAY_DATA_DIR", str(small_mnist))
    load_dataset("mnist")
    small_mnist.rename(tmp_path / "home")
    monkeypatch.setenv("HIGHWAY_DATA_DIR", "~")
    load_dataset("mnist")
    load_dataset("mnist", "~/")
    monkeypatch.delenv("HIGHWAY_DATA_DIR")
    (tmp_path / "home" / ".cache").mkdir()
    (tmp_path / "home" / "hinton-mnist").rename(tmp_path / "home" / ".cache" / "hinton-mnist")
    load_dataset("mnist")


def test_a_home_that_is_not_there_is_refused_in_one_line(monkeypatch):
    for call in (load_dataset, datasets.load_folder):
        with refused_with("~nobody-there/data", "home folder", "in full"):
            call("~nobody-there/data")
    for call, error in ((hn.read_idx, InputError), (hn.DeepNet.load, InputError), (hn.load_mnist, RuntimeError)):
        with pytest.raises(error, match="home directory"):
            call("~nobody-there/data")
    monkeypatch.delenv("HIGHWAY_DATA_DIR", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as without $HOME, for a user without an entry
    with refused_with("~/.cache", "home folder", "HIGHWAY_DATA_DIR"):
        load_dataset("auto")


SPOIL = {
    "ended before": lambda path: path.write_bytes(gz(PAYLOAD)[:-6]),
    "sha256": lambda path: path.write_bytes(gz(PAYLOAD)),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize(("found", "spoil"), SPOIL.items())
def test_a_spoilt_file_is_refused_and_left_alone(small_mnist, found, spoil):
    path = small_mnist / "hinton-mnist" / TEST_LABELS
    spoil(path)
    before, kind = files_below(small_mnist), path.lstat().st_mode
    with refused_with(path, found):
        load_dataset("mnist", small_mnist)
    assert (files_below(small_mnist), path.lstat().st_mode) == (before, kind)


def repack(path: Path, suffix: str) -> Path:
    """Put a .gz file's payload beside it, with another ending, in place of the file; returns its path."""
    payload = gzip.decompress(path.read_bytes())
    path.unlink()
    packed = {".gz": gzip.compress(payload, compresslevel=1, mtime=1), ".xz": lzma.compress(payload), "": payload}
    path.with_suffix(suffix).write_bytes(packed[suffix])
    return path.with_suffix(suffix)


@pytest.mark.parametrize(
    ("place", "suffix"),
    [*(("hinton-mnist", of) for of in COMPRESS), (".", ".gz"), (".", ""), ("MNIST/raw", ""), ("raw", "")],
)
def test_mnist_may_be_packed_anew_and_lie_in_its_own_folder_or_in_torchvisions(small_mnist, tmp_path, place, suffix):
    data, root = load_dataset("mnist", small_mnist), tmp_path / "root"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (small_mnist / "hinton-mnist").rename(root / place)
    for name in MNIST_FILES:
        path = repack(root / place / name, suffix)
    for read in (load_dataset("auto", root), hn.load_mnist(path.parent)):
        np.testing.assert_array_equal(read.train_x, data.train_x)
        np.testing.assert_array_equal(read.test_y, data.test_y)
    path.write_bytes(COMPRESS[suffix](PAYLOAD))
    before = files_below(root)
    published, found = IDX_SOURCES["mnist"].files[TEST_LABELS], hashlib.sha256(PAYLOAD).hexdigest()
    with refused_with(path, f"sha256 {published}", found, f"move {path.name} away and run again to download it"):
        load_dataset("mnist", root)
    assert files_below(root) == before


@pytest.mark.parametrize("place", ["fashion-mnist", ".", "FashionMNIST/raw", "data/fashion"])
def test_fashion_mnist_has_the_md5_of_its_files_wherever_they_lie_and_is_never_mnist(tmp_path, monkeypatch, place):
    root, folder = tmp_path / "root", tmp_path / "root" / place
    sums = write_small_mnist(folder)
    files = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in MNIST_FILES}
    monkeypatch.setitem(IDX_SOURCES, "fashion-mnist", IDX_SOURCES["fashion-mnist"]._replace(mirrors=(), files=files))
    repack(folder / TRAIN_LABELS, "")  # of which nothing is published
    (folder / TEST_LABELS).with_suffix("").write_bytes(b"beside the published file, of which a sum is known")
    assert load_dataset("fashion-mnist", root).train_x.shape == (60, 1, 4, 4)
    files[TEST_LABELS], right = "0" * 32, files[TEST_LABELS]
    with refused_with(folder / TEST_LABELS, "md5", "0" * 32):
        load_dataset("fashion-mnist", root)
    files[TEST_LABELS] = right
    monkeypatch.setitem(IDX_SOURCES, "mnist", IDX_SOURCES["mnist"]._replace(mirrors=(), files=sums))
    with refused_with(folder / TRAIN_IMAGES, "expected fashion-mnist, found MNIST"):
        load_dataset("fashion-mnist", root)


def test_digits_are_scikit_learns_on_the_scale_of_mnist(digits):
    assert digits.train_x.shape == (1437, 1, 8, 8)
    assert digits.test_x.shape == (360, 1, 8, 8)
    assert {array.dtype for array in digits[:4]} == {np.dtype(np.uint8)}
    assert digits.outputs == 10
    assert digits.train_x.min() == 0
    assert digits.train_x.max() == 255
    counts = np.bincount(digits.train_y) + np.bincount(digits.test_y)
    np.testing.assert_array_equal(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180])


def test_pixels_become_rows_from_minus_one_to_one():
    images = np.array([[[0, 51], [204, 255]], [[255, 0], [0, 0]]], np.uint8)[:, None]
    rows = as_inputs(images)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[-1, -0.6, 0.6, 1], [1, -1, -1, -1]], rtol=1e-6)
    np.testing.assert_allclose(as_inputs(images, np.float64)[0], [-1, -0.6, 0.6, 1], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_become_rows_and_keep_their_values(dtype):
    x = np.random.default_rng(0).normal(0, 1000, (5, 2, 3)).astype(dtype)
    rows = as_inputs(x, dtype)
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, x.reshape(5, 6))
    np.testing.assert_array_equal(as_inputs(x, np.float32), x.reshape(5, 6).astype(np.float32))


@pytest.mark.parametrize("kind", ["deep", "convolutional"])
def test_a_net_refuses_pixels_that_are_not_preprocessed(kind):
    net = digits_net() if kind == "deep" else small_conv_net(stages=(Blocks(1),), dtype=np.float32)
    shape = (3, 64) if kind == "deep" else (3, 2, 9, 6)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    for use in (net.predict, net.forward, net.gate_means):
        with refused_with("x: expected", "found uint8", "net.preprocess("):
            use(pixels)
    assert np.isfinite(net.predict(net.preprocess(pixels))).all()


def test_the_real_mnist_has_its_known_shape_labels_and_mean(real_mnist):
    data = load_dataset("mnist", real_mnist)
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.train_y[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.test_y[:5].tolist() == [7, 2, 1, 0, 4]
    counts = [[5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]]
    counts += [[980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]]
    assert [np.bincount(labels).tolist() for labels in (data.train_y, data.test_y)] == counts
    assert data.train_x.mean() == pytest.approx(33.318421, abs=1e-6)
