import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from helpers import MNIST_FILES, Handler, child_environment, end, slashes, write_small_mnist
from hypothesis import settings
from threadpoolctl import threadpool_limits

import highway_networks as hn
from highway_lab import logs
from highway_lab.datasets import IDX_SOURCES, load_dataset
from highway_lab.logs import environment
from highway_lab.training import Training

# Nothing is timed, nothing is stored, and the same examples are tried each time.
settings.register_profile("project", deadline=None, derandomize=True, database=None, max_examples=100)
settings.register_profile("thorough", settings.get_profile("project"), max_examples=200)
settings.load_profile("project")

# A shell that starts the suite in the background has it, and all that it starts, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def symlinks() -> bool:
    """Whether the system lets this user make symbolic links."""
    with tempfile.TemporaryDirectory() as folder, suppress(OSError):
        Path(folder, "link").symlink_to("nowhere")
        return True
    return False


THERE = {"posix": hasattr(os, "killpg"), "linux": hasattr(os, "sched_setaffinity"), "symlinks": symlinks()}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use the real MNIST; skip those that need what this system has not."""
    reasons = dict(line.split(": ", 1) for line in config.getini("markers"))
    for item in items:
        if "real_mnist" in getattr(item, "fixturenames", ()):
            item.add_marker("mnist")
        for name, there in THERE.items():
            if item.get_closest_marker(name) and not there:
                item.add_marker(pytest.mark.skip(reason=reasons[name]))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP, where the tests' imports load them, have one thread each: more would spin beside other tests."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def workdir(tmp_path, monkeypatch) -> Path:
    """An empty current directory."""
    path = tmp_path / "workdir"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def small_mnist(tmp_path, monkeypatch) -> Path:
    """A data directory with a small made-up MNIST that counts as the real one; nothing can be downloaded."""
    files = write_small_mnist(tmp_path / "data" / IDX_SOURCES["mnist"].folders[0])
    monkeypatch.setitem(IDX_SOURCES, "mnist", IDX_SOURCES["mnist"]._replace(mirrors=(), files=files))
    return tmp_path / "data"


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., str]]:
    """Start a mirror of a folder, each on a port of its own; returns its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers = []

    def start(folder: Path, handler: type[Handler] = Handler) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


MY_ARM = """
from experiments.study import Arm
from highway_networks import BLOCKS
BLOCKS["mine"] = BLOCKS["residual"]
ARMS = {"mine": Arm({"block": "mine"}, {"lr": (1e-3, 3e-3)})}
"""


@pytest.fixture
def imports_undone(workdir, monkeypatch) -> Iterator[None]:
    """What importing a user's files in the current directory changes lasts as long as the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    blocks = dict(hn.BLOCKS)
    yield
    for file in workdir.rglob("*.py"):
        sys.modules.pop(file.stem, None)
    logs.imported.clear()
    environment.cache_clear()
    hn.BLOCKS.clear()
    hn.BLOCKS.update(blocks)


@pytest.fixture
def my_arm(imports_undone) -> Path:
    """A file with a kind of net of one's own."""
    path = Path("my_arm.py")
    path.write_text(MY_ARM, "utf-8")
    return path


@pytest.fixture
def refused(capsys) -> Callable[..., str]:
    """Carries out a command line that must be refused, `main(*arguments)`; returns its error: one line, exit code 2."""

    def refused(main: Callable, *arguments: object) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(*arguments)
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return slashes(error)

    return refused


@pytest.fixture
def no_training(monkeypatch) -> None:
    """No run may begin."""
    monkeypatch.setattr(Training, "__init__", lambda *_: pytest.fail("training has begun"))


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts Python in a process group of its own, as a terminal does, and ends it with the test."""
    processes = []

    def start(*arguments: str) -> subprocess.Popen:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = child_environment(PYTHONUNBUFFERED="")
        command = [sys.executable, *arguments]
        processes.append(subprocess.Popen(command, env=environment, **pipes, encoding="utf-8", start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        end(process)


@pytest.fixture(scope="session")
def digits() -> hn.Dataset:
    return load_dataset("digits")


@pytest.fixture(scope="session")
def as_many_as_mnist() -> hn.Dataset:
    """Images in MNIST's numbers, of one pixel."""
    return hn.Dataset(*(np.zeros((n, 1), np.uint8) for n in (60_000, 60_000, 10_000, 10_000)), outputs=10)


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


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder in which this user may not write; root, whom no permission stops, becomes an ordinary user."""
    root = hasattr(os, "setresuid") and os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        if root:
            with suppress(PermissionError):
                os.setresuid(65534, 65534, 0)
        if os.access(folder, os.W_OK):
            pytest.skip("needs a user whom permissions stop")
        yield Path(folder)
        if root:
            os.setresuid(0, 0, 0)


@pytest.fixture(autouse=True)
def no_processes_left_over():
    """Worker processes end with the test that started them: those of one that was cut short may not serve the next."""
    yield
    if multiprocessing.active_children():
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
