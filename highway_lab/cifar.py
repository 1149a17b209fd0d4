"""CIFAR-10 and CIFAR-100 in their binary version: from their folders below the data directory, else from the archives.

A file is records of one length: labels of a byte each, then 1,024 red, 1,024 green and 1,024 blue bytes, row by row
(https://www.cs.toronto.edu/~kriz/cifar.html). It may lie there compressed, its name ending in .xz.
"""

import hashlib
import io
import math
import os
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highway_lab.cli import InputError
from highway_lab.files import (
    Source,
    atomic_write,
    data_directory,
    fetch,
    prepare_folder,
    read_bytes,
    read_verified,
    remedy,
    uncompressed,
)
from highway_lab.logs import TEST_IMAGES

IMAGE = (3, 32, 32)


class Batch(NamedTuple):
    """A file of records, and the SHA-256 of its first `hashed` records; 0: none is published."""

    name: str
    records: int
    hashed: int = 0
    sha256: str = ""


class Cifar(NamedTuple):
    """A data set's files, and how to read them."""

    archive: Source
    folder: str  # below the data directory, and in the archive
    labels: int  # of each record; the last is its class
    classes: int
    train: Sequence[Batch]
    test: Sequence[Batch]  # the one that the archive has, and what may stand in for it


def _archive(name: str, md5: str) -> Source:
    return Source("", ("https://www.cs.toronto.edu/~kriz/",), "file", "md5", {name: md5})


# Of the whole test batch, as of all CIFAR-100, no checksum is published but the archive's. Where it lies there already,
# its size and its labels are checked, and that it begins as it should.
TEST_START = (1_000, "8314c96d7cd65618193bab23acdd5d4c4af15bf6dd00a1781d55beedf3be1ef5")
CIFARS = {
    "cifar-10": Cifar(
        archive=_archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        folder="cifar-10-batches-bin",
        labels=1,
        classes=10,
        train=[
            Batch(f"data_batch_{number}.bin", 10_000, 10_000, sha256)
            for number, sha256 in enumerate(
                (
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                ),
                start=1,
            )
        ],
        test=[Batch("test_batch.bin", 10_000, *TEST_START), Batch("test_batch_first_1000.bin", 1_000, *TEST_START)],
    ),
    "cifar-100": Cifar(
        archive=_archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        folder="cifar-100-binary",
        labels=2,  # coarse, fine
        classes=100,
        train=[Batch("train.bin", 50_000)],
        test=[Batch("test.bin", 10_000)],
    ),
}


def load(name: str, data_dir: str | os.PathLike | None = None) -> tuple:
    """The data set of this name in CIFARS, unpacked from its archive, or downloaded, where files are missing.

    Returns images (n, 3, 32, 32) and classes (n,), uint8, to train with, then to test with; the number of classes; and
    which test images these are: the first ones where nothing is missing but the rest of them.
    Raises InputError for a file or an archive that fails any check, DownloadError if the archive cannot be had.
    """
    cifar = CIFARS[name]
    folder = data_directory(data_dir) / cifar.folder
    there = (test for test in cifar.test if not missing(folder, (*cifar.train, test)))
    test = next(there, cifar.test[0])
    if lacking := missing(folder, (*cifar.train, test)):
        unpack(cifar, lacking, data_dir)
    halves = [read(cifar, folder, batches) for batches in (cifar.train, [test])]
    return (*halves[0], *halves[1], cifar.classes, name_test_set(cifar, test))


def name_test_set(cifar: Cifar, test: Batch) -> str:
    """Which test images a batch holds."""
    return TEST_IMAGES if test == cifar.test[0] else f"first {test.records:,} {TEST_IMAGES}"


# ------------------------------------------------------------------------------------------- files


def lying(folder: Path, batch: Batch) -> Path | None:
    """Where something lies in a batch's place, plain or compressed."""
    return next((path for end in ("", ".xz") if os.path.lexists(path := folder / f"{batch.name}{end}")), None)


def missing(folder: Path, batches: Iterable[Batch]) -> list[Batch]:
    """The batches in whose places nothing lies."""
    return [batch for batch in batches if lying(folder, batch) is None]


def read(cifar: Cifar, folder: Path, batches: Sequence[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and classes (n,) of batches that lie in the folder; raises InputError."""
    records = np.concatenate([read_batch(cifar, lying(folder, batch), batch) for batch in batches])
    return records[:, cifar.labels :].reshape(-1, *IMAGE), records[:, cifar.labels - 1].copy()


def read_batch(cifar: Cifar, path: Path, batch: Batch) -> np.ndarray:
    """The records (n, length) of a file, uint8; raises InputError unless they are this batch's."""

    def reject(expected: object, found: object) -> InputError:
        return InputError(f"{path}: expected {expected}, found {found}; {remedy(path)}")

    payload, length = uncompressed(read_bytes(path), path), length_of_record(cifar)
    if len(payload) != batch.records * length:
        raise reject(f"{batch.records:,} records of {length:,} bytes", f"{len(payload):,} bytes")
    sha256 = hashlib.sha256(payload[: batch.hashed * length]).hexdigest()
    if batch.hashed and sha256 != batch.sha256:
        raise reject(f"sha256 {batch.sha256} of the first {batch.hashed:,} records", sha256)
    records = np.frombuffer(payload, np.uint8).reshape(-1, length)
    if (last := records[:, cifar.labels - 1].max()) >= cifar.classes:
        raise reject(f"labels 0..{cifar.classes - 1}", last)
    return records


def length_of_record(cifar: Cifar) -> int:
    """Bytes."""
    return cifar.labels + math.prod(IMAGE)


# ----------------------------------------------------------------------------------------- archive


def unpack(cifar: Cifar, batches: Iterable[Batch], data_dir: str | os.PathLike | None) -> None:
    """Write these batches from the archive into the folder, each whole or not at all; raises InputError."""
    folder = data_directory(data_dir) / cifar.folder
    prepare_folder(folder)
    (archive,) = fetch(cifar.archive, data_dir)
    with tarfile.open(fileobj=io.BytesIO(read_verified(archive, cifar.archive))) as tar:
        for batch in batches:
            with atomic_write(folder / batch.name, "wb") as file:
                file.write(tar.extractfile(f"{cifar.folder}/{batch.name}").read())
