"""Reading idx files and data sets: what is intact is read exactly, what is not is refused in one line."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers import MNIST_FILES, assert_says, files_below, gz, idx_bytes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import highway_networks as hn
from highway_lab.cli import InputError
from highway_lab.files import IDX_SOURCES

IMAGES = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
PAYLOAD = idx_bytes(IMAGES)
ARCHIVE = gz(PAYLOAD)
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = MNIST_FILES


def read(path: Path, content: bytes) -> np.ndarray:
    path.write_bytes(content)
    return hn.read_idx(path)


def header(*dimensions: int, type_code: int = 0x08) -> bytes:
    return struct.pack(f">HBB{len(dimensions)}I", 0, type_code, len(dimensions), *dimensions)


def flip(content: bytes, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


# ------------------------------------------------------------------------------------- one file


@given(array=arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=6)), compressed=st.booleans())
def test_what_is_written_as_idx_is_read_back(tmp_path_factory, array, compressed):
    path = tmp_path_factory.getbasetemp() / ("array.gz" if compressed else "array")
    found = read(path, gz(idx_bytes(array)) if compressed else idx_bytes(array))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


BAD_ARCHIVES = {
    "empty": (b"", "truncated"),
    "of nothing": (gz(b""), "nothing"),
    "HTML page": (b"<!DOCTYPE html><title>404</title>", "damaged"),
    "cut in the header": (ARCHIVE[:5], "truncated"),
    "cut in the checksum": (ARCHIVE[:-6], "truncated"),
    "flipped CRC": (flip(ARCHIVE, 8 * (len(ARCHIVE) - 8)), "damaged"),
    "trailing zeros": (ARCHIVE + bytes(512), "512 bytes after its end"),
    "two members": (gz(PAYLOAD[:20]) + gz(PAYLOAD[20:]), "after its end"),
    "gz of gz": (gz(ARCHIVE), "an idx header"),
}
BAD_PAYLOADS = {
    "wrong magic": (b"\x89PNG" + PAYLOAD[4:], "89 50 4e 47"),
    "little-endian magic": (PAYLOAD[3::-1] + PAYLOAD[4:], "03 08 00 00"),
    "shorter than a magic number": (PAYLOAD[:3], "00 00 08"),
    "float type code": (header(3, 4, 4, type_code=0x0D) + PAYLOAD[16:], "0x0d"),
    "no dimension": (header() + PAYLOAD[16:], "0"),
    "five dimensions": (header(3, 4, 4, 1, 1) + PAYLOAD[16:], "5"),
    "255 dimensions": (header(*[1] * 255) + b"a", "255"),
    "header cut short": (PAYLOAD[:14], "14 bytes"),
    "header alone": (PAYLOAD[:16], "found 0"),
    "a dimension too small": (header(2, 4, 4) + PAYLOAD[16:], "found 48"),
    "a dimension too large": (header(4, 4, 4) + PAYLOAD[16:], "found 48"),
    "a dimension of zero": (header(0, 4, 4), "0 x 4 x 4"),
    "huge dimensions": (header(*[2**32 - 1] * 3) + PAYLOAD[16:], "4294967295 x 4294967295 x 4294967295"),
    "huge dimensions and a zero": (header(*[2**32 - 1] * 3, 0), "4294967295"),
    "payload one byte short": (PAYLOAD[:-1], "found 47"),
    "payload one byte long": (PAYLOAD + b"\0", "found 49"),
}
BAD_FILES = {name: (content, ".gz", found) for name, (content, found) in BAD_ARCHIVES.items()}
for name, (payload, found) in BAD_PAYLOADS.items():
    BAD_FILES[name] = (payload, "", found)
    BAD_FILES[f"{name}, in a gz"] = (gz(payload), ".gz", found)


@pytest.mark.parametrize(("content", "suffix", "found"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path, content, suffix, found):
    path = tmp_path / f"images{suffix}"
    with pytest.raises(InputError) as error:
        read(path, content)
    assert_says(error.value, path, found, "delete", "download")


def test_a_gz_with_any_bit_flipped_is_refused_or_read_as_what_it_was(tmp_path):
    """The few bits that may flip are remarks in the gzip header: a time, a system."""
    image = IMAGES[0, :2, :2]
    archive = gz(idx_bytes(image))
    refused = 0
    for bit in range(8 * len(archive)):
        try:
            np.testing.assert_array_equal(read(tmp_path / "image.gz", flip(archive, bit)), image)
        except InputError:
            refused += 1
    assert refused > 5 * len(archive)


def test_a_gz_cut_anywhere_is_refused(tmp_path):
    for length in range(len(ARCHIVE)):
        with pytest.raises(InputError):
            read(tmp_path / "images.gz", ARCHIVE[:length])


@given(content=st.binary(max_size=40), start=st.sampled_from([b"", b"\0\0\x08", b"\0\0\x08\x01", gz(b"")[:10]]))
def test_no_bytes_at_all_make_read_idx_fail_otherwise(tmp_path_factory, content, start):
    for name in ("noise", "noise.gz"):
        path = tmp_path_factory.getbasetemp() / name
        try:
            found = read(path, start + content)
        except InputError as error:
            assert_says(error, path)
        else:
            assert idx_bytes(found) in (start + content, PAYLOAD)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "directory"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
    ids=["nothing", "a directory", "a loop of links"],
)
def test_what_is_no_file_is_refused(tmp_path, make, found):
    make(tmp_path / "images.gz")
    with pytest.raises(InputError) as error:
        hn.read_idx(tmp_path / "images.gz")
    assert_says(error.value, tmp_path / "images.gz", found)


def test_a_file_without_read_permission_is_refused(public_folder, as_ordinary_user):
    path = public_folder / "images.gz"
    path.write_bytes(ARCHIVE)
    path.chmod(0)
    with as_ordinary_user(), pytest.raises(InputError) as error:
        hn.read_idx(path)
    assert_says(error.value, path, "Permission denied")


# --------------------------------------------------------------------------------- the data sets


def replace(data_dir: Path, name: str, payload: bytes) -> Path:
    """Put another payload there, and let its checksum count as the right one."""
    path = data_dir / "hinton-mnist" / name
    path.write_bytes(gz(payload))
    IDX_SOURCES["mnist"].checksums[name] = hashlib.sha256(payload).hexdigest()
    return path


def test_images_keep_their_form_and_labels_stay_beside_them(small_mnist):
    data = hn.load_dataset("mnist", small_mnist)
    folder = small_mnist / "hinton-mnist"
    np.testing.assert_array_equal(data.train_x, hn.read_idx(folder / TRAIN_IMAGES).reshape(60, 1, 4, 4))
    np.testing.assert_array_equal(data.train_y, hn.read_idx(folder / TRAIN_LABELS))
    np.testing.assert_array_equal(data.test_x, hn.read_idx(folder / TEST_IMAGES).reshape(20, 1, 4, 4))
    np.testing.assert_array_equal(data.test_y, hn.read_idx(folder / TEST_LABELS))
    assert {array.dtype for array in data[:4]} == {np.dtype(np.uint8)}
    assert data.outputs == 10


def test_the_data_directory_is_the_argument_else_the_variable_else_the_cache(small_mnist, tmp_path, monkeypatch):
    folder = small_mnist / "hinton-mnist"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HIGHWAY_DATA_DIR", str(tmp_path / "nowhere"))
    hn.load_dataset("mnist", small_mnist)
    monkeypatch.setenv("HIGHWAY_DATA_DIR", str(small_mnist))
    hn.load_dataset("mnist")
    monkeypatch.delenv("HIGHWAY_DATA_DIR")
    (tmp_path / "home" / ".cache").mkdir(parents=True)
    folder.rename(tmp_path / "home" / ".cache" / "hinton-mnist")
    hn.load_dataset("mnist")


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>", ARCHIVE, ARCHIVE[:-6]])
def test_a_bad_file_of_a_data_set_is_refused_and_left_alone(small_mnist, content):
    path = small_mnist / "hinton-mnist" / TEST_LABELS
    path.write_bytes(content)
    before = files_below(small_mnist)
    with pytest.raises(InputError) as error:
        hn.load_dataset("mnist", small_mnist)
    assert_says(error.value, path)
    assert files_below(small_mnist) == before


@pytest.mark.parametrize("name", MNIST_FILES)
def test_a_payload_of_the_right_size_but_the_wrong_checksum_is_refused(small_mnist, name):
    path = small_mnist / "hinton-mnist" / name
    array = hn.read_idx(path).copy()
    array.flat[-1] ^= 1
    path.write_bytes(gz(idx_bytes(array)))
    expected = IDX_SOURCES["mnist"].checksums[name]
    with pytest.raises(InputError) as error:
        hn.load_dataset("mnist", small_mnist)
    assert_says(error.value, path, expected, hashlib.sha256(idx_bytes(array)).hexdigest())


def test_a_payload_compressed_anew_is_accepted_where_the_payload_is_what_is_checked(small_mnist):
    path = small_mnist / "hinton-mnist" / TRAIN_IMAGES
    data = hn.load_dataset("mnist", small_mnist)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=1))
    np.testing.assert_array_equal(hn.load_dataset("mnist", small_mnist).train_x, data.train_x)


def test_fashion_mnist_is_checked_by_the_md5_of_the_file_itself(small_mnist, monkeypatch):
    folder = small_mnist / "hinton-mnist"
    checksums = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in MNIST_FILES}
    folder.rename(small_mnist / "fashion-mnist")
    source = IDX_SOURCES["fashion-mnist"]._replace(mirrors=(), checksums=checksums)
    monkeypatch.setitem(IDX_SOURCES, "fashion-mnist", source)
    assert hn.load_dataset("fashion-mnist", small_mnist).train_x.shape == (60, 1, 4, 4)
    checksums[TEST_LABELS] = "0" * 32
    with pytest.raises(InputError) as error:
        hn.load_dataset("fashion-mnist", small_mnist)
    assert_says(error.value, small_mnist / "fashion-mnist" / TEST_LABELS, "md5", "0" * 32)


WRONG_ARRAYS = [
    (TEST_IMAGES, np.zeros(20), ("images (3 dimensions)", "1 dimension", "swapped")),
    (TEST_LABELS, np.zeros((20, 4, 4)), ("labels (1 dimension", "3 dimensions", "swapped")),
    (TEST_LABELS, np.array([*range(9), 10] * 2), ("0..9", "found 10")),
    (TRAIN_LABELS, np.zeros(59), ("60 labels", TRAIN_IMAGES, "found 59")),
]


@pytest.mark.parametrize(("name", "array", "parts"), WRONG_ARRAYS, ids=[parts[0] for _, _, parts in WRONG_ARRAYS])
def test_arrays_that_are_no_images_with_their_labels_are_refused_whatever_their_checksums(
    small_mnist, name, array, parts
):
    path = replace(small_mnist, name, idx_bytes(array.astype(np.uint8)))
    with pytest.raises(InputError) as error:
        hn.load_dataset("mnist", small_mnist)
    assert_says(error.value, path, *parts)


def test_a_directory_in_a_files_place_is_refused(small_mnist):
    path = small_mnist / "hinton-mnist" / TEST_LABELS
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError) as error:
        hn.load_dataset("mnist", small_mnist)
    assert_says(error.value, path, "directory")


def test_a_link_to_nowhere_is_refused_rather_than_replaced(small_mnist):
    path = small_mnist / "hinton-mnist" / TEST_LABELS
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(InputError) as error:
        hn.load_dataset("mnist", small_mnist)
    assert_says(error.value, path)
    assert path.is_symlink()


def test_an_unknown_data_set_is_refused():
    with pytest.raises(InputError) as error:
        hn.load_dataset("imagenet")
    assert_says(error.value, "--dataset", "mnist", "fashion-mnist", "digits", "'imagenet'")


def test_digits_are_scikit_learns_on_the_scale_of_mnist(digits):
    assert digits.train_x.shape == (1437, 1, 8, 8)
    assert digits.test_x.shape == (360, 1, 8, 8)
    assert {array.dtype for array in digits[:4]} == {np.dtype(np.uint8)}
    assert digits.outputs == 10
    assert digits.train_x.min() == 0
    assert digits.train_x.max() == 255
    counts = np.bincount(digits.train_y) + np.bincount(digits.test_y)
    np.testing.assert_array_equal(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180])


def test_digits_are_cut_the_same_way_each_time(digits):
    for first, second in zip(digits, hn.load_dataset("digits"), strict=True):
        np.testing.assert_array_equal(first, second)


# ---------------------------------------------------------------------------------------- subsets


def test_pixels_become_rows_from_minus_one_to_one():
    images = np.array([[[0, 51], [204, 255]], [[255, 0], [0, 0]]], np.uint8)[:, None]
    rows = hn.as_inputs(images)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[-1, -0.6, 0.6, 1], [1, -1, -1, -1]], rtol=1e-6)
    np.testing.assert_allclose(hn.as_inputs(images, np.float64)[0], [-1, -0.6, 0.6, 1], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_are_no_pixels_become_rows_and_stay_what_they_are(dtype):
    x = np.random.default_rng(0).normal(0, 1000, (5, 2, 3)).astype(dtype)
    rows = hn.as_inputs(x, dtype)
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, x.reshape(5, 6))
    np.testing.assert_array_equal(hn.as_inputs(x, np.float32), x.reshape(5, 6).astype(np.float32))


def numbered(n_train: int, n_test: int) -> hn.Dataset:
    """Images that say their own number, with the labels that belong to them."""
    train, test = np.arange(n_train, dtype=np.uint8), np.arange(n_test, dtype=np.uint8)
    return hn.Dataset(train[:, None], train % 10, test[:, None], test % 10, outputs=10)


def test_a_subset_is_drawn_without_repeats_and_keeps_each_label_with_its_image():
    drawn = hn.draw_subset(numbered(200, 100), 50, 30, np.random.default_rng(0))
    for images, labels, size in ((drawn[0], drawn[1], 50), (drawn[2], drawn[3], 30)):
        assert len(np.unique(images)) == len(images) == size
        np.testing.assert_array_equal(labels, images[:, 0] % 10)


def test_a_subset_is_decided_by_its_seed():
    first, second, other = (hn.draw_subset(numbered(200, 100), 50, 30, np.random.default_rng(s)) for s in (0, 0, 1))
    for a, b, c in zip(first[:4], second[:4], other[:4], strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


@pytest.mark.parametrize(("n_train", "n_test", "flag"), [(201, 10, "--n-train"), (10, 101, "--n-test")])
def test_more_images_than_there_are_cannot_be_drawn(n_train, n_test, flag):
    with pytest.raises(InputError) as error:
        hn.draw_subset(numbered(200, 100), n_train, n_test, np.random.default_rng(0))
    assert_says(error.value, flag, max(n_train, n_test), max(n_train, n_test) - 1)


# --------------------------------------------------------------------------------- the real MNIST


def test_the_real_mnist_is_read_as_it_is_known(real_mnist):
    data = hn.load_dataset("mnist", real_mnist)
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.train_y[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.test_y[:5].tolist() == [7, 2, 1, 0, 4]
    counts = [[5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]]
    counts += [[980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]]
    assert [np.bincount(labels).tolist() for labels in (data.train_y, data.test_y)] == counts
    assert data.train_x.mean() == pytest.approx(33.318421, abs=1e-6)
