"""Downloads from local mirrors: any failure leads to the next mirror, and only a verified file stays."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import MNIST_FILES, Handler, assert_says, files_below, refused_with, write_small_mnist

from highway_lab import files, programs
from highway_lab.datasets import IDX_SOURCES, load_dataset
from highway_lab.files import DownloadError


@pytest.fixture
def closed_port() -> str:
    """The address of a server that has stopped."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.fixture
def mirrored(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Name the mirrors of a small MNIST, which lies in tmp_path/good; returns an empty data directory."""
    known = write_small_mnist(tmp_path / "good")

    def set_mirrors(*mirrors: str) -> Path:
        source = IDX_SOURCES["mnist"]._replace(mirrors=mirrors, files=known)
        monkeypatch.setitem(IDX_SOURCES, "mnist", source)
        return tmp_path / "data"

    return set_mirrors


def assert_is_small_mnist(data_dir: Path, good: Path) -> None:
    """Check that the four files lie there, byte for byte, and no other."""
    assert files_below(data_dir / "hinton-mnist") == files_below(good)


@pytest.mark.parametrize("name", ["mnist", "auto"])
def test_missing_files_are_downloaded_once(mirrored, serve, closed_port, tmp_path, capsys, name):
    data_dir = mirrored(serve(tmp_path / "good"))
    first = load_dataset(name, data_dir)
    assert capsys.readouterr().err == ""
    assert_is_small_mnist(data_dir, tmp_path / "good")
    mirrored(closed_port)
    for downloaded, read_again in zip(first, load_dataset("mnist", data_dir), strict=True):
        np.testing.assert_array_equal(downloaded, read_again)


class Interrupted(Handler):
    """Hangs up halfway through the file."""

    def do_GET(self):
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])


@pytest.fixture(params=["missing", "interrupted", "closed port", "silent", "other content"])
def bad_mirror(request, serve, closed_port, tmp_path, monkeypatch) -> Iterator[str]:
    """A mirror that fails."""
    if request.param == "closed port":
        yield closed_port
    elif request.param == "silent":
        monkeypatch.setattr(files, "MIRROR_SECONDS", 0.2)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    elif request.param == "other content":
        write_small_mnist(tmp_path / "other", n_train=61)
        yield serve(tmp_path / "other")
    elif request.param == "missing":
        yield serve(tmp_path / "nowhere")
    else:
        yield serve(tmp_path / "good", Interrupted)


@pytest.mark.slow
def test_the_next_mirror_is_used_if_one_fails(mirrored, bad_mirror, serve, tmp_path):
    data_dir = mirrored(bad_mirror, serve(tmp_path / "good"))
    shutil.copytree(tmp_path / "good", data_dir / "hinton-mnist")
    path = data_dir / "hinton-mnist" / MNIST_FILES[0]
    path.unlink()
    kept = {other: other.stat().st_mtime_ns for other in path.parent.iterdir()}
    load_dataset("mnist", data_dir)
    assert_is_small_mnist(data_dir, tmp_path / "good")
    assert {other: other.stat().st_mtime_ns for other in kept} == kept, "only the missing file is downloaded"


def test_no_half_written_file_stays_if_every_mirror_fails(mirrored, serve, tmp_path):
    data_dir = mirrored(serve(tmp_path / "good", Interrupted))
    with pytest.raises(DownloadError) as error:
        load_dataset("mnist", data_dir)
    assert_says(error.value, data_dir, "hinton-mnist/", "MNIST/raw/", "127.0.0.1", "use the digits")
    assert not data_dir.exists(), "nothing is made, no folder either"


SHORT_RUN = ("--depth", "1", "--block", "plain", "--epochs", "1")


def test_auto_falls_back_to_digits_with_a_warning_and_the_log_names_them(mirrored, closed_port, workdir, capsys):
    assert programs.main(["--data-dir", str(mirrored(closed_port)), *SHORT_RUN]) == 0
    warning = capsys.readouterr().err
    assert all(words in warning for words in ("NOT MNIST", "digits instead", "!" * 40))
    (log,) = workdir.glob("*.json")
    dataset = json.loads(log.read_text("utf-8"))["dataset"]
    assert (log.name, dataset["name"], dataset["n_train"]) == ("run-digits-plain-depth1-epochs1.json", "digits", 1437)


def test_mnist_by_name_never_becomes_digits(mirrored, closed_port, workdir, refused):
    refused(programs.main, ["--dataset", "mnist", "--data-dir", str(mirrored(closed_port)), *SHORT_RUN])
    assert not list(workdir.glob("*.json"))


def test_a_data_directory_that_is_a_file_is_refused(mirrored, serve, tmp_path):
    mirrored(serve(tmp_path / "good"))
    (tmp_path / "file").write_text("not a folder", "utf-8")
    for name in ("mnist", "auto"):
        with refused_with(tmp_path / "file", "expected a data directory, found a file"):
            load_dataset(name, tmp_path / "file")


def test_a_data_directory_closed_to_writing_is_refused(mirrored, serve, tmp_path, closed_folder):
    mirrored(serve(tmp_path / "good"))
    with refused_with(closed_folder, "expected a place to write"):
        load_dataset("mnist", closed_folder)
