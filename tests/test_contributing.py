"""CONTRIBUTING.md: its examples run as they stand, and the gradients of its block are right."""

import re
import shutil
from pathlib import Path

import pytest
import test_gradients
from helpers import ROOT

from highway_networks import BLOCKS

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^python (.*)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the code with the files of the page."""
    folder = tmp_path_factory.mktemp("checkout")
    for package in ("highway_lab", "experiments"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.glob("*.py"):
        shutil.copy(path, folder)
    for name, code in EXAMPLES.items():
        (folder / name).write_text(code)
    return folder


def test_the_page_has_an_example_of_each_kind():
    assert len(EXAMPLES) == len(COMMANDS) == 5


@pytest.mark.slow
def test_every_command_of_the_page_runs(checkout, start, monkeypatch):
    monkeypatch.chdir(checkout)
    for command in COMMANDS:
        process = start(*command.split())
        output, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    assert "| 50 |" in output
    assert Path("viz/smoke/width.png").exists()


def test_the_gradients_of_the_block_are_right(monkeypatch):
    monkeypatch.setitem(BLOCKS, "halved", None)
    exec(EXAMPLES["halved.py"], {"__name__": "halved"})
    test_gradients.test_gradients_equal_complex_step_derivatives("halved", "tanh", 3)


def test_hooks_and_tests_run_the_same_minor_version_of_ruff():
    (hook,) = re.findall(r"rev: v(\d+\.\d+)\.", (ROOT / ".pre-commit-config.yaml").read_text())
    assert f'"ruff~={hook}.0"' in (ROOT / "pyproject.toml").read_text()
