"""The wheel in fresh environments, which `make test-release` runs: each takes minutes and installs packages.

bare   the wheel and NumPy: the core imports, trains, saves and loads
full   the wheel and what it needs: the command trains and draws; a notebook is left as it was
"""

import email
import json
import os
import re
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from helpers import ROOT, write_small_mnist

from highway_lab.logs import environment


def run(*words: object, folder: Path) -> str:
    """Run a command far from the checkout; returns its output, and fails with it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    home = clean | {"HOME": str(folder / "home"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([*map(str, words)], cwd=folder, env=home, capture_output=True, encoding="utf-8", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built of the sdist that lies beside it, from a copy: building leaves folders beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    left_out = (".*", "*.json", "*.egg-info", "build", "runs", "models", "viz", "experiments", "benchmarks")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*left_out))
    run(fresh_python(folder, "build"), "-m", "build", "--outdir", folder, folder / "source", folder=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_the_sdist_has_no_tests_as_it_would_lack_what_they_need(wheel):
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "/tests" in name]


def test_the_wheel_describes_itself_without_the_checkout(wheel):
    """An index shows this text alone: a link or picture of the checkout would lead nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(archive.read(name))
    assert about["Author"] == "The highway-networks authors"
    assert about["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]*)\)", about.get_payload())
    assert links
    assert all(link.startswith("https://") for link in links)


def fresh_python(folder: Path, *packages: object) -> Path:
    """Make an environment in a folder with these packages alone; returns its Python."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", *packages, folder=folder)
    return python


CORE = """
import sys
from highway_networks import *
run = train(Config(depth=10, n_train=50, n_test=10, epochs=2), load_mnist(sys.argv[1]))
run.net.save("net.npz")
print(run.history.epoch, DeepNet.load("net.npz").config["depth"], "highway_lab" in sys.modules)
"""


def test_with_numpy_alone_the_installed_core_trains_saves_and_loads(wheel, tmp_path):
    python = fresh_python(tmp_path, "--no-deps", "numpy", wheel)
    write_small_mnist(tmp_path / "images")
    assert run(python, "-c", CORE, "images", folder=tmp_path) == "[0, 1, 2] 10 False\n"
    program = tmp_path / "env" / "bin" / "highway-networks"
    done = subprocess.run([program, "--quick"], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=100)
    assert done.returncode == 2
    assert done.stderr.startswith("highway-networks: error: expected the packages that this program needs, found: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="session")
def full(wheel, tmp_path_factory) -> Path:
    """A Python with the wheel, what it needs, and a notebook's kernel."""
    return fresh_python(tmp_path_factory.mktemp("full"), wheel, "ipykernel", "jupyter_client")


def test_the_installed_command_trains_and_draws_with_the_checkouts_fingerprint(full, tmp_path):
    flags = ["--quick", "--dataset", "digits", "--epochs", "1", "--jobs", "2", "--out", "run.json"]
    run(full.with_name("highway-networks"), *flags, folder=tmp_path)
    log = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert log["environment"]["code"] == environment().code
    assert log["environment"]["commit"] is None
    run(full, "-m", "visualize_highway_networks", "run.json", "--out", "viz", folder=tmp_path)
    run(full, "-m", "make_highway_networks_gif", "run.json", "--out", "run.gif", folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "viz", "run.gif", "home"}
    assert [*(tmp_path / "viz").glob("*.png")]


CELLS = """
import sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3")

def cell(code, interrupt=False):
    "Run a cell, which is interrupted once it has printed; return what it shows."
    shown, asked = [], client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=300)
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") != asked:
            continue
        if kind == "stream":
            shown.append(content["text"].strip())
            if interrupt:
                manager.interrupt_kernel()
        if kind in ("display_data", "error"):
            shown.append(content.get("ename", "a picture"))
        if kind == "status" and content["execution_state"] == "idle":
            return shown

import visualize_highway_networks
draw = visualize_highway_networks.__file__
cell(f"%run {draw.replace('visualize_', '')} --quick --dataset digits --epochs 1 --out run.json")
cell(f"%run {draw} run.json --out viz")
print(cell("import time; kept = 1; print('asleep'); time.sleep(60)", interrupt=True))
print(cell("import matplotlib.pyplot as plt; plt.rcParams['figure.figsize'] = (3, 2)"))
print(cell("import visualize_highway_networks; print(kept, plt.rcParams['figure.figsize'])"))
print(cell("plt.plot([1, 2]); plt.show()"))
manager.shutdown_kernel(now=True)
"""


def test_a_notebook_keeps_its_session_its_pictures_and_their_size(full, tmp_path):
    shown = run(full, "-c", CELLS, folder=tmp_path).splitlines()
    assert shown == ["['asleep', 'KeyboardInterrupt']", "[]", "['1 [3.0, 2.0]']", "['a picture']"]
    assert [*(tmp_path / "viz").glob("*.png")]
