"""CIFAR-10 and CIFAR-100, in their binary version: from their folders below the data directory, else from the archives.

A file is records of one length: a byte for each label, then 1,024 red, 1,024 green and 1,024 blue bytes, row by row
(https://www.cs.toronto.edu/~kriz/cifar.html). It may be compressed, with .xz at the end of its name.
"""

import hashlib
import io
import math
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highway_lab.files import (
    Source,
    atomic_write,
    damaged,
    data_directory,
    fetch,
    prepare_folder,
    read_bytes,
    read_verified,
    uncompressed,
)
from highway_lab.logs import TEST_IMAGES

IMAGE = (3, 32, 32)


class Batch(NamedTuple):
    """A file of `records` records; `sha256` is the published checksum of the first `hashed`, if any."""

    name: str
    records: int
    hashed: int = 0
    sha256: str = ""


class Cifar(NamedTuple):
    """Files of a data set, and the form of their records."""

    archive: Source
    folder: str  # below the data directory, and in the archive
    labels: int  # of each record; the last is its class
    classes: int
    train: Sequence[Batch]
    test: Sequence[Batch]  # the first is in the archive; the others may stand in for it


def _archive(name: str, md5: str) -> Source:
    return Source("", ("https://www.cs.toronto.edu/~kriz/",), "file", "md5", {name: md5})


# Neither the whole test batch nor CIFAR-100 has a published checksum but the archive's.
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
    """Load a data set of CIFARS; missing files are unpacked from its archive, which is downloaded if need be.

    Returns images (n, 3, 32, 32) and classes (n,), uint8, for training, then for testing; the number of classes; and
    the name of the test images: the first ones, if only those are there and no other file is missing.
    Raises InputError for a damaged file, DownloadError if the archive cannot be downloaded.
    """
    cifar = CIFARS[name]
    folder = data_directory(data_dir) / cifar.folder
    test = next((test for test in cifar.test if not _missing(folder, *cifar.train, test)), cifar.test[0])
    if missing := _missing(folder, *cifar.train, test):
        _unpack(cifar, missing, data_dir)
    halves = [np.concatenate([_read(cifar, folder, batch) for batch in half]) for half in (cifar.train, [test])]
    arrays = [a for r in halves for a in (r[:, cifar.labels :].reshape(-1, *IMAGE), r[:, cifar.labels - 1].copy())]
    return (*arrays, cifar.classes, TEST_IMAGES if test == cifar.test[0] else f"first {test.records:,} {TEST_IMAGES}")


def _find(folder: Path, batch: Batch) -> Path | None:
    """Return the path of a batch, plain or compressed, or None if there is neither."""
    paths = (folder / f"{batch.name}{suffix}" for suffix in ("", ".xz"))
    return next(filter(os.path.lexists, paths), None)


def _missing(folder: Path, *batches: Batch) -> list[Batch]:
    return [batch for batch in batches if _find(folder, batch) is None]


def _read(cifar: Cifar, folder: Path, batch: Batch) -> np.ndarray:
    """Return the records (n, bytes) of a batch; raise InputError for a wrong size, checksum or class."""
    path, length = _find(folder, batch), cifar.labels + math.prod(IMAGE)
    payload = uncompressed(read_bytes(path), path)
    if len(payload) != batch.records * length:
        raise damaged(path, f"{batch.records:,} records of {length:,} bytes", f"{len(payload):,} bytes")
    sha256 = hashlib.sha256(payload[: batch.hashed * length]).hexdigest()
    if batch.hashed and sha256 != batch.sha256:
        raise damaged(path, f"sha256 {batch.sha256} of the first {batch.hashed:,} records", sha256)
    records = np.frombuffer(payload, np.uint8).reshape(-1, length)
    if (last := records[:, cifar.labels - 1].max()) >= cifar.classes:
        raise damaged(path, f"classes 0..{cifar.classes - 1}", last)
    return records


def _unpack(cifar: Cifar, batches: Sequence[Batch], data_dir: str | os.PathLike | None) -> None:
    """Write these batches from the archive into the folder, each whole or not at all; raises InputError."""
    folder = data_directory(data_dir) / cifar.folder
    prepare_folder(folder)
    (archive,) = fetch(cifar.archive, data_dir)
    with tarfile.open(fileobj=io.BytesIO(read_verified(archive, cifar.archive))) as tar:
        for batch in batches:
            with atomic_write(folder / batch.name, "wb") as file:
                file.write(tar.extractfile(f"{cifar.folder}/{batch.name}").read())
