"""The house: every file imports rooms below its own alone, and the core stands on NumPy."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from helpers import ROOT

from experiments.__main__ import STUDIES
from experiments.common import load
from highway_lab.start import start

ROOMS = [  # from the ground up: a file imports its own room and those below
    ["highway_networks"],
    ["conv_highway_networks"],
    ["highway_lab"],
    ["conv_recipes"],
    ["highway_estimators", "highway_image_estimator", "visualize_highway_networks", "make_highway_networks_gif"],
    ["experiments", "benchmarks", "my_run"],
]
FLOORS = {name: floor for floor, names in enumerate(ROOMS) for name in names}
FILES = [path for name in FLOORS for place in (f"{name}.py", f"{name}/**/*.py") for path in ROOT.glob(place)]


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """The modules that a file names in an import, wherever it stands, and with them the names that it takes of them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            origin = ".".join((*package, *filter(None, [node.module])))
            found |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return found


def test_no_file_imports_in_a_circle():
    graph = {module(path): imported(path) for path in [*FILES, ROOT / "pages.py"]}
    [*TopologicalSorter(graph).static_order()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_nothing_from_above(path):
    floor = FLOORS[path.relative_to(ROOT).parts[0].removesuffix(".py")]
    above = {name for name in imported(path) if FLOORS.get(name.partition(".")[0], 0) > floor}
    starts = path.name in ("highway_networks.py", "conv_highway_networks.py")  # as programs they hand over to the lab
    assert above <= ({"highway_lab.start", "highway_lab.start.start"} if starts else set())


def test_no_study_imports_another():
    studies = {load(name).module for name in STUDIES}
    for name in studies:
        assert imported(ROOT / f"{name.replace('.', '/')}.py") & studies == set(), name


def test_the_core_names_numpy_and_the_standard_library_alone():
    found = {name.partition(".")[0] for name in imported(ROOT / "highway_networks.py")}
    assert found - sys.stdlib_module_names <= {"numpy", "highway_lab"}


ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
from highway_networks import *
run = train(Config(depth=3, hidden=8, epochs=1, n_train=50, n_test=10), load_mnist(sys.argv[1]))
run.net.save("net.npz")
print(len(run.history.epoch), DeepNet.load("net.npz").config["depth"])
"""


def test_the_core_copied_alone_trains_saves_and_loads_with_numpy_alone(tmp_path, small_mnist):
    core = tmp_path / "alone" / "highway_networks.py"
    core.parent.mkdir()
    core.write_bytes((ROOT / "highway_networks.py").read_bytes())
    blocked = ["highway_lab", "scipy", "sklearn", "matplotlib", "msgspec", "threadpoolctl", "joblib", "pooch", "PIL"]
    folder = next(path.parent for path in Path(small_mnist).rglob("train-images*"))
    words = [sys.executable, "-c", ALONE.replace("{blocked}", repr(blocked)), str(folder)]
    how = {"cwd": core.parent, "capture_output": True, "encoding": "utf-8", "timeout": 120, "env": {"PATH": ""}}
    done = subprocess.run(words, **how)
    assert (done.stdout, done.stderr) == ("2 3\n", "")
    done = subprocess.run([sys.executable, "-S", "highway_networks.py"], **how)  # -S: without what is installed
    assert done.stderr.startswith("highway_networks.py: expected highway_lab and what it needs, found: No module named")
    assert done.stderr.count("\n") == 1


UNTOUCHED = """
import os, signal, matplotlib, numpy
from threadpoolctl import threadpool_info
matplotlib.rcParams["figure.figsize"] = (3, 2)
def host():
    threads = [pool["num_threads"] for pool in threadpool_info()][:1]  # of NumPy's BLAS, the first
    backend = os.environ.get("MPLBACKEND")
    return dict(matplotlib.rcParams), backend, signal.getsignal(signal.SIGINT), numpy.geterr(), threads
before = host()
import visualize_highway_networks, make_highway_networks_gif, highway_image_estimator, pages
assert host() == before
"""


@pytest.mark.slow
def test_importing_changes_nothing_in_the_host():
    words = [sys.executable, "-c", UNTOUCHED]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_program_says_in_one_line_which_package_is_missing(refused):
    error = refused(start, "no_such_package")
    assert "expected the packages that this program needs, found: No module named 'no_such_package'; install" in error
