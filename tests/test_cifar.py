"""CIFAR: records are read as they are known, what is not intact is refused in one line, an archive is not trusted."""

import dataclasses
import hashlib
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_says, files_below, gz, limited_file_size, small_log

import highway_lab.files
import highway_networks as hn
import visualize_highway_networks as viz
from highway_lab import cifar, logs
from highway_lab.cifar import CIFARS, Batch
from highway_lab.cli import InputError
from highway_lab.console import name_tested, summary
from highway_lab.files import DownloadError

TEST, FIRST = "test_batch.bin", "test_batch_first_2.bin"
N_TRAIN, N_TEST, N_FIRST = 4, 5, 2  # records of each training batch, of the test batch, of its beginning
RECORD = 1 + 3 * 32 * 32


def records(name: str, n: int, labels: int = 1, classes: int = 10) -> bytes:
    """Records of noise, the classes in their last label byte; the same for the same name."""
    rng = np.random.default_rng(list(name.encode()))
    table = rng.integers(0, 256, (n, labels + 3 * 32 * 32), np.uint8)
    table[:, :labels] %= classes
    return table.tobytes()


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar file, gzipped, of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gz(buffer.getvalue())


@pytest.fixture
def payloads() -> dict[str, bytes]:
    """What the files of a small made-up CIFAR-10 hold, by name."""
    train = {batch.name: records(batch.name, N_TRAIN) for batch in CIFARS["cifar-10"].train}
    return train | {TEST: records(TEST, N_TEST)}


@pytest.fixture
def data_dir(tmp_path, monkeypatch, payloads) -> Path:
    """A data directory with the folder of a small made-up CIFAR-10 that counts as the real one; nothing to download."""
    start = (N_FIRST, hashlib.sha256(payloads[TEST][: N_FIRST * RECORD]).hexdigest())
    known = {name: hashlib.sha256(payload).hexdigest() for name, payload in payloads.items()}
    small = CIFARS["cifar-10"]._replace(
        train=[Batch(name, N_TRAIN, N_TRAIN, known[name]) for name in payloads if name != TEST],
        test=[Batch(TEST, N_TEST, *start), Batch(FIRST, N_FIRST, *start)],
    )
    monkeypatch.setitem(CIFARS, "cifar-10", small)
    write_archive_sum(monkeypatch, b"")
    (tmp_path / "data" / small.folder).mkdir(parents=True)
    return tmp_path / "data"


def write_archive_sum(monkeypatch, content: bytes, mirrors: tuple[str, ...] = ()) -> str:
    """Let an archive of this content be the right one; returns its name."""
    source = CIFARS["cifar-10"].archive
    (name,) = source.checksums
    source = source._replace(mirrors=mirrors, checksums={name: hashlib.md5(content).hexdigest()})
    monkeypatch.setitem(CIFARS, "cifar-10", CIFARS["cifar-10"]._replace(archive=source))
    return name


@pytest.fixture
def folder(data_dir, payloads) -> Path:
    """The folder, with all files in it."""
    for name, payload in payloads.items():
        (data_dir / CIFARS["cifar-10"].folder / name).write_bytes(payload)
    return data_dir / CIFARS["cifar-10"].folder


@pytest.fixture
def put_archive(data_dir, monkeypatch) -> Callable[[bytes], Path]:
    """Lays an archive below the data directory, and lets its checksum count as the right one; returns its path."""

    def put(content: bytes) -> Path:
        path = data_dir / write_archive_sum(monkeypatch, content)
        path.write_bytes(content)
        return path

    return put


def inside(payloads: dict[str, bytes]) -> dict[str, bytes]:
    """The files as an archive holds them."""
    return {f"{CIFARS['cifar-10'].folder}/{name}": payload for name, payload in payloads.items()}


def load(data_dir: Path) -> hn.Dataset:
    return hn.load_dataset("cifar-10", data_dir)


def refuse(data_dir: Path, *parts: object) -> None:
    """Loading ends in one line that holds the parts, and leaves every file as it was."""
    before = files_below(data_dir)
    with pytest.raises(InputError) as error:
        load(data_dir)
    assert_says(error.value, *parts)
    assert files_below(data_dir) == before


# ------------------------------------------------------------------------------------------- records


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


def test_of_two_labels_the_last_is_the_class(tmp_path, monkeypatch):
    small = CIFARS["cifar-100"]._replace(train=[Batch("train.bin", 3)], test=[Batch("test.bin", 2)])
    monkeypatch.setitem(CIFARS, "cifar-100", small)
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    payloads = {name: records(name, n, labels=2, classes=100) for name, n in (("train.bin", 3), ("test.bin", 2))}
    for name, payload in payloads.items():
        (folder / name).write_bytes(payload)
    data = hn.load_dataset("cifar-100", tmp_path)
    table = np.frombuffer(payloads["train.bin"], np.uint8).reshape(3, 2 + 3072)
    np.testing.assert_array_equal(data.train_y, table[:, 1])
    np.testing.assert_array_equal(data.train_x.reshape(3, -1), table[:, 2:])
    assert (data.train_x.shape, data.test_x.shape) == ((3, 3, 32, 32), (2, 3, 32, 32))
    assert (data.outputs, data.test_set) == (100, "test images")


def test_files_may_be_compressed(folder):
    plain = load(folder.parent)
    for path in list(folder.iterdir()):
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    for first, second in zip(plain, load(folder.parent), strict=True):
        np.testing.assert_array_equal(first, second)


def spoil(folder: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    return path


def with_label(payload: bytes, record: int, label: int) -> bytes:
    changed = bytearray(payload)
    changed[record * RECORD] = label
    return bytes(changed)


BAD_RECORDS = {
    "cut short": ("data_batch_2.bin", lambda payload: payload[:-1], f"{N_TRAIN * RECORD - 1:,} bytes"),
    "one byte long": (TEST, lambda payload: payload + b"\0", f"{N_TEST * RECORD + 1:,} bytes"),
    "a record short": (TEST, lambda payload: payload[:-RECORD], f"{(N_TEST - 1) * RECORD:,} bytes"),
    "empty": ("data_batch_5.bin", lambda _: b"", "0 bytes"),
    "a changed pixel": ("data_batch_1.bin", lambda payload: payload[:-1] + bytes([payload[-1] ^ 1]), "sha256"),
    "another beginning of the test": (TEST, lambda payload: with_label(payload, 1, payload[RECORD] ^ 1), "sha256"),
    "a class too high": (TEST, lambda payload: with_label(payload, N_TEST - 1, 10), "labels 0..9, found 10"),
}


@pytest.mark.parametrize(("name", "change", "found"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_bad_file_is_refused_and_left_alone(folder, name, change, found):
    refuse(folder.parent, spoil(folder, name, change), found)


STREAM = lzma.compress(b"0123456789" * 20)
BAD_STREAMS = {
    "empty": (b"", "truncated"),
    "gzip": (gz(b"0123456789"), "damaged"),
    "the older lzma": (lzma.compress(b"0123456789", lzma.FORMAT_ALONE), "damaged"),
    "cut in the footer": (STREAM[:-1], "truncated"),
    "a flipped bit": (STREAM[:30] + bytes([STREAM[30] ^ 1]) + STREAM[31:], "damaged"),
    "trailing bytes": (STREAM + b"junk", "4 bytes after its end"),
}


@pytest.mark.parametrize(("content", "found"), BAD_STREAMS.values(), ids=BAD_STREAMS)
def test_what_is_not_exactly_one_xz_stream_is_refused(folder, content, found):
    path = folder / f"{TEST}.xz"
    (folder / TEST).unlink()
    path.write_bytes(content)
    refuse(folder.parent, path, found)


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_a_small_file_of_a_huge_payload_is_not_unpacked(monkeypatch, suffix):
    compress = {".xz": lzma.compress, ".gz": gz}[suffix]
    monkeypatch.setattr(highway_lab.files, "MAX_BYTES", 2**24)
    path = Path(f"file{suffix}")
    assert highway_lab.files.uncompressed(compress(bytes(2**24)), path) == bytes(2**24)
    with pytest.raises(InputError) as error:
        highway_lab.files.uncompressed(compress(bytes(2**24 + 1)), path)
    assert_says(error.value, path, "more than 16,777,216 bytes in it")


def test_an_xz_stream_that_wants_too_much_memory_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**29}]
    with pytest.raises(InputError) as error:
        highway_lab.files.uncompressed(lzma.compress(b"small", filters=filters), Path("file.xz"))
    assert_says(error.value, "file.xz", "Memory usage limit")


@pytest.mark.parametrize("name", ["data_batch_3.bin", TEST, f"{TEST}.xz"])
def test_a_directory_in_a_files_place_is_refused(folder, name):
    (folder / name.removesuffix(".xz")).unlink()
    (folder / name).mkdir()
    refuse(folder.parent, folder / name, "a directory")


def test_a_link_to_nowhere_is_refused_rather_than_replaced(folder):
    (folder / TEST).unlink()
    (folder / TEST).symlink_to("nowhere")
    refuse(folder.parent, folder / TEST)
    assert (folder / TEST).is_symlink()


# ---------------------------------------------------------------------- the beginning of the test images


@pytest.fixture
def first(folder, payloads) -> Path:
    """The folder with the beginning of the test batch in the place of the whole."""
    (folder / TEST).unlink()
    (folder / f"{FIRST}.xz").write_bytes(lzma.compress(payloads[TEST][: N_FIRST * RECORD]))
    return folder


def test_the_first_test_images_stand_in_for_all_and_the_data_set_says_so(first, payloads):
    data = load(first.parent)
    assert data.test_set == "first 2 test images"
    np.testing.assert_array_equal(data.test_x.reshape(N_FIRST, -1)[1], list(payloads[TEST][RECORD + 1 : 2 * RECORD]))
    assert hn.draw_subset(data, 3, 1, np.random.default_rng(0)).test_set == "first 2 test images"


def test_the_whole_test_batch_is_preferred(first, payloads):
    (first / TEST).write_bytes(payloads[TEST])
    assert load(first.parent).test_set == "test images"


def test_the_first_test_images_have_their_checksum(first):
    (first / f"{FIRST}.xz").unlink()
    (first / FIRST).write_bytes(bytes(N_FIRST * RECORD))
    refuse(first.parent, first / FIRST, "sha256")


def test_a_log_and_what_is_shown_of_it_name_the_first_test_images(first, workdir, capsys):
    words = ("--dataset", "cifar-10", "--data-dir", str(first.parent), "--quick", "--depth", "1", "--hidden", "4")
    assert hn.main([*words, "--out", "log.json"]) == 0
    assert "\ntest: first 2 test images\n" in capsys.readouterr().out
    log = viz.read_log(Path("log.json"))
    assert log.dataset == logs.DatasetInfo("cifar-10", 5 * N_TRAIN, N_FIRST, "first 2 test images")
    assert viz.describe(log, log.runs) == "CIFAR-10, first 2 test images, depth 1, seed 0"


def test_all_test_images_need_no_words():
    log = small_log()
    assert name_tested(log.dataset) == "MNIST"
    assert name_tested(dataclasses.replace(log.dataset, name="cifar-100")) == "CIFAR-100"
    assert "test:" not in summary(log.runs, log.dataset.test_set)


# ------------------------------------------------------------------------------------------- archives


def test_what_is_missing_is_unpacked_and_nothing_else(folder, put_archive, payloads):
    """The archive has everything; what lay there is not touched, and what nobody asked for is not taken."""
    put_archive(tar_of(inside(payloads) | inside({"readme.html": b"<html>"})))
    kept = lzma.compress(payloads["data_batch_1.bin"])
    (folder / "data_batch_1.bin").unlink()
    (folder / "data_batch_1.bin.xz").write_bytes(kept)
    for name in ("data_batch_4.bin", TEST):
        (folder / name).unlink()
    assert load(folder.parent).test_set == "test images"
    found = files_below(folder)
    assert found.pop("data_batch_1.bin.xz") == kept
    assert found == {name: payload for name, payload in payloads.items() if name != "data_batch_1.bin"}


def test_a_missing_training_batch_brings_the_whole_test_batch_with_it(first, put_archive, payloads):
    put_archive(tar_of(inside(payloads)))
    (first / "data_batch_2.bin").unlink()
    assert load(first.parent).test_set == "test images"
    assert (first / TEST).read_bytes() == payloads[TEST]


def test_an_archive_is_downloaded_into_an_empty_directory(tmp_path, data_dir, monkeypatch, payloads, serve):
    content = tar_of(inside(payloads))
    (tmp_path / "web").mkdir()
    name = write_archive_sum(monkeypatch, content, (serve(tmp_path / "nowhere"), serve(tmp_path / "web")))
    (tmp_path / "web" / name).write_bytes(content)
    shutil.rmtree(data_dir)
    assert load(data_dir).train_x.shape == (5 * N_TRAIN, 3, 32, 32)
    assert files_below(data_dir) == {name: content} | inside(payloads)


def test_without_files_and_without_an_archive_there_is_no_data_set(data_dir):
    with pytest.raises(DownloadError) as error:
        load(data_dir)
    assert_says(error.value, data_dir / "cifar-10-binary.tar.gz", "--dataset digits")
    assert files_below(data_dir) == {}


def test_an_archive_of_another_checksum_is_refused(data_dir, put_archive, payloads, monkeypatch):
    path = put_archive(tar_of(inside(payloads)))
    write_archive_sum(monkeypatch, b"another")
    refuse(data_dir, path, "md5", hashlib.md5(b"another").hexdigest(), hashlib.md5(path.read_bytes()).hexdigest())


def test_a_full_disk_leaves_no_half_written_batch(data_dir, put_archive, payloads):
    path = put_archive(tar_of(inside(payloads)))
    with limited_file_size(N_TRAIN * RECORD - 1):
        refuse(data_dir, "data_batch_1.bin", "File too large")
    assert list(files_below(data_dir)) == [path.name]
    assert load(data_dir).test_x.shape == (N_TEST, 3, 32, 32)


def test_a_folder_that_cannot_be_written_is_noticed_before_the_download(data_dir, monkeypatch):
    monkeypatch.setattr(cifar, "fetch", lambda *_: pytest.fail("the download has begun"))
    shutil.rmtree(data_dir / "cifar-10-batches-bin")
    (data_dir / "cifar-10-batches-bin").write_bytes(b"no folder")
    refuse(data_dir, data_dir / "cifar-10-batches-bin", "--data-dir")


# --------------------------------------------------------------------------------- the real CIFAR-10


@pytest.fixture(scope="module")
def real_cifar() -> hn.Dataset:
    root = os.environ.get("HIGHWAY_DATA_DIR")
    if not root or not (Path(root) / "cifar-10-batches-bin").is_dir():
        pytest.skip("needs the real CIFAR-10: set HIGHWAY_DATA_DIR to the directory that holds cifar-10-batches-bin/")
    return hn.load_dataset("cifar-10", root)


def test_the_real_cifar_10_is_read_as_it_is_known(real_cifar):
    assert real_cifar.train_x.shape == (50_000, 3, 32, 32)
    assert real_cifar.train_y[:5].tolist() == [6, 9, 9, 4, 1]
    assert real_cifar.test_y[:5].tolist() == [3, 8, 8, 0, 6]
    assert np.bincount(real_cifar.train_y).tolist() == [5000] * 10
    means = real_cifar.train_x.mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)  # the means that everybody subtracts
    assert (
        real_cifar.test_set == f"first {len(real_cifar.test_x):,} " * (len(real_cifar.test_x) < 10_000) + "test images"
    )
