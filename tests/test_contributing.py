"""CONTRIBUTING.md: its examples obey ruff, its commands run, and its checks find a wrong gradient."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from helpers import ROOT

from highway_lab.gradients import check_gradients
from highway_networks import BLOCKS, LOSSES

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = {name: code for code, name in re.findall(r"^```python\n(# (\S+)\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)}
COMMANDS = [shlex.split(line) for line in re.findall(r"^python (.*)$", PAGE, re.MULTILINE)]


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A copy of the code with the files of the page, as the current directory."""
    folder = tmp_path / "checkout"
    for package in ("highway_lab", "experiments", "tests"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*ROOT.glob("*.py"), ROOT / "pyproject.toml"):
        shutil.copy(path, folder)
    for name, code in EXAMPLES.items():
        (folder / name).write_text(code, "utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def python(start):
    """Runs Python; returns its exit code and all that it printed."""

    def python(*arguments: str) -> tuple[int, str]:
        process = start(*arguments)
        output = "".join(process.communicate(timeout=300))
        return process.returncode, output

    return python


def test_the_page_has_an_example_of_each_kind():
    assert len(EXAMPLES) == 4
    assert len(COMMANDS) == 11


def test_the_examples_obey_ruff(checkout, python):
    for rule in (["check"], ["format", "--check"]):
        assert python("-m", "ruff", *rule, *EXAMPLES)[0] == 0


@pytest.mark.slow
def test_every_command_of_the_page_runs(checkout, python):
    for command in COMMANDS:
        code, output = python(*command)
        assert code == 0, output
    assert output.startswith("arm,hidden,depth,result,lr,gate_bias,chosen_by,epochs,seed,")
    folder = "viz/digits-quick-highway,addgate-seed0,1"
    for made in ("addgate.npz", f"{folder}/T_gate_bars-addgate.png", "viz/smoke/width.png"):
        assert Path(made).exists()
    assert len([*Path("runs").glob("gate_maps-digits-addgate-*.json")]) == 1


@pytest.mark.parametrize(
    ("table", "name", "right", "wrong", "fields", "found"),
    [
        (BLOCKS, "addgate", "dx[...] = dy", "dx[...] = 0", {"block": "addgate"}, "dx"),
        (LOSSES, "one-hot", "2 / len(y)", "1 / len(y)", {"loss": "one-hot"}, "dlogits"),
    ],
)
def test_the_checks_of_the_page_find_a_wrong_gradient(monkeypatch, table, name, right, wrong, fields, found):
    monkeypatch.setitem(table, name, None)
    (code,) = (code for code in EXAMPLES.values() if f'["{name}"] = ' in code)
    exec(code, {"__name__": "example"})
    assert not check_gradients(**fields)
    exec(code.replace(right, wrong), {"__name__": "example"})
    assert check_gradients(**fields) == found


def test_hooks_and_tests_run_the_same_minor_version_of_ruff():
    (hook,) = re.findall(r"rev: v(\d+\.\d+)\.", (ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert f'"ruff~={hook}.0"' in (ROOT / "pyproject.toml").read_text("utf-8")
