import os
from pathlib import Path

import pytest
from helpers import MNIST_FILES, write_small_mnist
from hypothesis import settings

import highway_networks as hn

settings.register_profile("project", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("project")


@pytest.fixture
def small_mnist(tmp_path, monkeypatch) -> Path:
    """A data directory with a small made-up MNIST that counts as the real one; nothing can be downloaded."""
    checksums = write_small_mnist(tmp_path / "data" / hn.IDX_SOURCES["mnist"].folder)
    source = hn.IDX_SOURCES["mnist"]._replace(mirrors=(), checksums=checksums)
    monkeypatch.setitem(hn.IDX_SOURCES, "mnist", source)
    return tmp_path / "data"


@pytest.fixture(scope="session")
def digits() -> hn.Dataset:
    return hn.load_dataset("digits")


@pytest.fixture(scope="session")
def real_mnist() -> Path:
    """The data directory that holds the real MNIST."""
    root = os.environ.get("HIGHWAY_DATA_DIR")
    if not root:
        pytest.skip("needs the real MNIST: set HIGHWAY_DATA_DIR to the directory that holds hinton-mnist/")
    folder = Path(root) / "hinton-mnist"
    missing = [name for name in MNIST_FILES if not (folder / name).is_file()]
    if missing:
        pytest.skip(f"needs the real MNIST: {folder} lacks {', '.join(missing)}")
    return Path(root)
