"""CIFAR: records, plain or compressed, the first test images in place of all, archives."""

import hashlib
import io
import lzma
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from helpers import files_below, gz, refused_with

import highway_networks as hn
import visualize_highway_networks as viz
from highway_lab import logs, programs
from highway_lab.datasets import CIFARS, Batch, load_dataset

FOLDER, ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar.gz"
TEST, FIRST = "test_batch.bin", "test_batch_first_2.bin"
N_TRAIN, N_TEST, N_FIRST = 4, 5, 2  # records of each training batch, of the test batch, of its beginning
RECORD = 1 + 3 * 32 * 32


def records(name: str, n: int, labels: int = 1, classes: int = 10) -> bytes:
    """Random records, whose last label is below `classes`; one name, one content."""
    rng = np.random.default_rng(list(name.encode()))
    table = rng.integers(0, 256, (n, labels + 3 * 32 * 32), np.uint8)
    table[:, :labels] %= classes
    return table.tobytes()


@pytest.fixture
def payloads() -> dict[str, bytes]:
    """Contents of a small made-up CIFAR-10, by file name."""
    train = {batch.name: records(batch.name, N_TRAIN) for batch in CIFARS["cifar-10"].train}
    return train | {TEST: records(TEST, N_TEST)}


@pytest.fixture
def archive(payloads) -> bytes:
    """The archive of these files and of one more."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in (payloads | {"readme.html": b"<html>"}).items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gz(buffer.getvalue())


@pytest.fixture
def data_dir(tmp_path, monkeypatch, payloads, archive) -> Path:
    """A data directory with an empty folder; the made-up files count as the real ones, and nothing is online."""
    cifar_10 = CIFARS["cifar-10"]
    known = {name: hashlib.sha256(payload).hexdigest() for name, payload in payloads.items()}
    start = (hashlib.sha256(payloads[TEST][: N_FIRST * RECORD]).hexdigest(), N_FIRST)
    files = {ARCHIVE: hashlib.md5(archive).hexdigest()}
    small = cifar_10._replace(
        archive=cifar_10.archive._replace(mirrors=(), files=files),
        train=[Batch(name, N_TRAIN, known[name]) for name in payloads if name != TEST],
        test=[Batch(TEST, N_TEST, *start), Batch(FIRST, N_FIRST, *start)],
    )
    monkeypatch.setitem(CIFARS, "cifar-10", small)
    (tmp_path / "data" / FOLDER).mkdir(parents=True)
    return tmp_path / "data"


@pytest.fixture
def folder(data_dir, payloads) -> Path:
    """The folder of a complete CIFAR-10."""
    for name, payload in payloads.items():
        (data_dir / FOLDER / name).write_bytes(payload)
    return data_dir / FOLDER


def load(data_dir: Path) -> hn.Dataset:
    return load_dataset("cifar-10", data_dir)


def refuse(data_dir: Path, *parts: object) -> None:
    """Check that loading raises an InputError that contains the parts, and changes no file."""
    before = files_below(data_dir)
    with refused_with(*parts):
        load(data_dir)
    assert files_below(data_dir) == before


def test_a_record_is_its_class_and_three_colours_of_32_rows(folder, payloads):
    data = load(folder.parent)
    assert data.train_x.shape == (5 * N_TRAIN, 3, 32, 32)
    assert data.test_x.shape == (N_TEST, 3, 32, 32)
    assert {array.dtype for array in data[:4]} == {np.dtype(np.uint8)}
    assert (data.outputs, data.test_set) == (10, "test images")
    last_batch, image = payloads["data_batch_5.bin"], data.train_x[-2]
    record = last_batch[-2 * RECORD : -RECORD]
    assert data.train_y[-2] == record[0]
    assert image[0, 0, 1] == record[1 + 1], "red comes first, and a row is read before the next"
    assert image[1, 0, 0] == record[1 + 1024]
    assert image[2, 31, 30] == record[-2]
    np.testing.assert_array_equal(data.test_y, np.frombuffer(payloads[TEST], np.uint8)[::RECORD])
    np.testing.assert_array_equal(load(folder).train_x, data.train_x)  # the folder itself may be named


def test_of_two_labels_the_last_is_the_class(tmp_path, monkeypatch):
    small = CIFARS["cifar-100"]._replace(train=[Batch("train.bin", 3)], test=[Batch("test.bin", 2)])
    monkeypatch.setitem(CIFARS, "cifar-100", small)
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    payloads = {name: records(name, n, labels=2, classes=100) for name, n in (("train.bin", 3), ("test.bin", 2))}
    for name, payload in payloads.items():
        (folder / name).write_bytes(payload)
    data = load_dataset("cifar-100", tmp_path)
    table = np.frombuffer(payloads["train.bin"], np.uint8).reshape(3, 2 + 3072)
    np.testing.assert_array_equal(data.train_y, table[:, 1])
    np.testing.assert_array_equal(data.train_x.reshape(3, -1), table[:, 2:])
    assert (data.train_x.shape, data.test_x.shape) == ((3, 3, 32, 32), (2, 3, 32, 32))
    assert (data.outputs, data.test_set) == (100, "test images")


def flip(payload: bytes, place: int) -> bytes:
    return payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1 :]


BAD_RECORDS = {
    "a record short": (TEST, lambda payload: payload[:-RECORD], f"{(N_TEST - 1) * RECORD:,} bytes"),
    "a changed pixel": ("data_batch_1.bin", lambda payload: flip(payload, len(payload) - 1), "sha256"),
    "another beginning of the test": (TEST, lambda payload: flip(payload, RECORD), "sha256"),
    "a class too high": (TEST, lambda payload: payload[:-RECORD] + b"\x0a" + payload[1 - RECORD :], "0..9, found 10"),
}


@pytest.mark.parametrize(("name", "change", "found"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_bad_file_is_refused_and_left_alone(folder, name, change, found):
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    refuse(folder.parent, folder / name, found)


@pytest.fixture
def first(folder, payloads) -> Path:
    """The folder with the first test images instead of all."""
    (folder / TEST).unlink()
    (folder / f"{FIRST}.xz").write_bytes(lzma.compress(payloads[TEST][: N_FIRST * RECORD]))
    return folder


def test_the_first_test_images_stand_in_for_all(first, payloads):
    data = load(first.parent)
    assert data.test_set == "first 2 test images"
    np.testing.assert_array_equal(data.test_x.reshape(N_FIRST, -1)[1], list(payloads[TEST][RECORD + 1 : 2 * RECORD]))


def test_the_log_and_its_picture_name_the_first_test_images(first, workdir, capsys):
    words = ("--dataset", "cifar-10", "--data-dir", str(first.parent), "--quick", "--depth", "1", "--hidden", "4")
    assert programs.main([*words, "--out", "log.json"]) == 0
    assert "\nCIFAR-10, first 2 test images: 20 training, 2 test samples\n" in capsys.readouterr().out
    log = viz.read_log(Path("log.json"))
    assert log.dataset == logs.DatasetInfo("cifar-10", 5 * N_TRAIN, N_FIRST, "first 2 test images")
    assert viz.describe(log, log.runs).startswith("CIFAR-10, first 2 test images, ")


def test_only_the_missing_files_are_unpacked(folder, archive, payloads):
    (folder.parent / ARCHIVE).write_bytes(archive)
    kept = lzma.compress(payloads["data_batch_1.bin"])
    (folder / "data_batch_1.bin.xz").write_bytes(kept)
    for name in ("data_batch_1.bin", "data_batch_4.bin", TEST):
        (folder / name).unlink()
    assert load(folder.parent).test_set == "test images"
    found = files_below(folder)
    assert found.pop("data_batch_1.bin.xz") == kept
    assert found == {name: payload for name, payload in payloads.items() if name != "data_batch_1.bin"}


def test_an_archive_is_downloaded_into_an_empty_directory(tmp_path, data_dir, archive, payloads, monkeypatch, serve):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / ARCHIVE).write_bytes(archive)
    source = CIFARS["cifar-10"].archive._replace(mirrors=(serve(tmp_path / "nowhere"), serve(tmp_path / "web")))
    monkeypatch.setitem(CIFARS, "cifar-10", CIFARS["cifar-10"]._replace(archive=source))
    shutil.rmtree(data_dir)
    assert load(data_dir).train_x.shape == (5 * N_TRAIN, 3, 32, 32)
    assert files_below(data_dir) == {ARCHIVE: archive} | {f"{FOLDER}/{name}": payloads[name] for name in payloads}


def test_the_real_cifar_10_has_its_known_labels_and_means():
    root = os.environ.get("HIGHWAY_DATA_DIR")
    if not root or not (Path(root) / "cifar-10-batches-bin").is_dir():
        pytest.skip("needs the real CIFAR-10: set HIGHWAY_DATA_DIR to the directory that holds cifar-10-batches-bin/")
    real_cifar = load_dataset("cifar-10", root)
    assert real_cifar.train_x.shape == (50_000, 3, 32, 32)
    assert real_cifar.train_y[:5].tolist() == [6, 9, 9, 4, 1]
    assert real_cifar.test_y[:5].tolist() == [3, 8, 8, 0, 6]
    assert np.bincount(real_cifar.train_y).tolist() == [5000] * 10
