"""A user's own file: imported by --import; blocks, losses and nets in it; the names of the public modules."""

import ast
import dataclasses
import importlib
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from helpers import ROOT, files_below, refused_with

import highway_networks as hn
import visualize_highway_networks as viz
from conv_recipes import ConvConfig
from experiments.common import load
from highway_lab import __version__, cli, logs, programs
from highway_lab.logs import environment
from highway_networks import BLOCKS, Config

SHORT = ("--dataset", "digits", "--depth", "1", "--hidden", "4", "--epochs", "1", "--n-train", "50", "--n-test", "20")
OWN = """
from highway_networks import BLOCKS

BLOCKS["own"] = BLOCKS["highway"]
"""
UNGUARDED = 'expected `if __name__ == "__main__":` above the call of main, found none; add it'


@pytest.fixture
def own_file(imports_undone) -> str:
    """A file with a block."""
    Path("own_block.py").write_text(OWN, "utf-8")
    return "own_block.py"


def test_a_block_of_a_users_file_is_trained_beside_another_and_drawn(own_file, capsys):
    assert programs.main([*SHORT, "--block", "plain,own", "--import", own_file, "--out", "log.json"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"to draw it: python -m visualize_highway_networks log.json --import {own_file}\n")
    log = viz.read_log("log.json")
    assert [run.config.block for run in log.runs] == ["plain", "own"]
    assert [run.gate_means is None for run in log.runs] == [True, False]
    assert viz.main(["log.json", "--import", own_file]) == 0


@pytest.mark.slow
def test_a_users_program_is_part_of_the_code_in_every_process(own_file, start):
    Path(own_file).write_text(
        f"{OWN}\ndef run():\n    from highway_lab.programs import main\n    main()\n\n"
        "if __name__ == '__main__':\n    run()",
        "utf-8",
    )
    process = start(own_file, *SHORT, "--block", "own", "--seeds", "0,1", "--jobs", "2", "--out", "log.json")
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    assert out.endswith(f"log.json --import {own_file}\n")
    log = json.loads(Path("log.json").read_text("utf-8"))
    assert [run["environment"] for run in log["runs"]] == [None, None]
    cli.import_file(own_file)
    assert log["environment"]["code"] == environment().code


@pytest.mark.slow
def test_a_program_that_starts_in_each_process_is_refused_in_a_line(own_file, start):
    Path(own_file).write_text("import sys\nfrom highway_lab.programs import main\nsys.exit(main())", "utf-8")
    process = start(own_file, *SHORT, "--seeds", "0,1", "--jobs", "2")
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error.count("\n")) == (2, 1), error
    assert f"{own_file}: {UNGUARDED}" in error


WAYS = {
    "import": "import math, helper",
    "for a table": "BLOCKS['own'] = Block('H', *[__import__('help' 'er').f] * 2)",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_users_file_and_what_it_is_made_of_are_part_of_the_code(own_file, way):
    codes = [environment().code]
    path = "import importlib.util, os, sys\nsys.path.insert(0, os.path.abspath('lib'))"
    Path(own_file).write_text(f"{OWN}\n{path}\nfrom highway_networks import Block\n{way}", "utf-8")
    Path("lib").mkdir()
    for text in ("A = 1", "A = 2", "A = 2  # a comment"):
        Path("lib/helper.py").write_text(f"{text}\ndef f(): pass", "utf-8")
        cli.import_file(own_file)
        codes.append(environment(programs=logs.mathematics(Config(block="own"))).code)
    assert len(set(codes)) == 3
    assert codes[2] == codes[3]


FOREIGN_NAMES = ("x/../../../out", "two words", "x" * 41, "both", "0.5", "5e-1")


@pytest.mark.parametrize("config", [Config, ConvConfig])
def test_the_names_of_every_table_to_which_a_file_may_add_are_checked(config):
    rules = [of.metadata["rule"] for of in dataclasses.fields(config) if of.metadata["rule"]]
    tables = [table for _, table in rules if isinstance(table, dict)]
    assert len(tables) >= 5
    for table in tables:
        assert any(checked is table for checked, _ in cli.TABLES.values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("BLOCKS['own'] = None", "'own': None"),
        ("BLOCKS[7] = BLOCKS['plain']", "7: Block("),
        *((f"BLOCKS[{name!r}] = BLOCKS['plain']", f"{name!r}: Block(") for name in FOREIGN_NAMES),
        ("raise SystemExit('enough')", "SystemExit: enough"),
    ],
)
def test_a_file_that_adds_what_is_no_block_or_ends_python_is_refused(own_file, refused, no_training, line, found):
    Path(own_file).write_text(OWN + line, "utf-8")
    error = refused(programs.main, [*SHORT, "--import", own_file])
    assert f"{own_file}: {'' if 'Exit' in found else 'BLOCKS: '}expected " in error
    assert f"found{':' * ('Exit' in found)} {found}" in error
    assert "; mend " in error
    assert logs.imported == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.txt", OWN, "--import: expected a name like block.py, found own.txt; choose another"),
        ("none.py", None, "--import: expected a file at none.py, found none; check the path"),
        ("own.block.py", OWN, "found: ModuleNotFoundError: No module named 'own'; mend or rename it"),
        ("torn_block.py", "1 +", "torn_block.py: expected a file that can be imported, found: SyntaxError"),
        ("main_block.py", f"{OWN}\nfrom highway_lab.programs import main\nmain()", f"main_block.py: {UNGUARDED}"),
        ("random.py", OWN, "random.py: expected a name that no other module has, found that of "),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused(workdir, refused, no_training, monkeypatch, name, text, message):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python's own __pycache__ of what it has imported
    if text:
        Path(name).write_text(text, "utf-8")
    assert message in refused(programs.main, [*SHORT, "--import", name])
    assert {*files_below(workdir)} <= {name}


def test_a_log_or_a_net_of_an_unknown_block_says_what_to_do(own_file, refused):
    words = ["--block", "own", "--import", own_file, "--out", "log.json", "--save-model", "m.npz"]
    assert programs.main([*SHORT, *words]) == 0
    del BLOCKS["own"]
    error = refused(viz.main, ["log.json"])
    assert "found own; choose another, or import the file that adds it" in error
    assert "make it" not in error
    with refused_with("m.npz", "found own"):
        hn.DeepNet.load("m.npz")


@pytest.mark.parametrize("main", [programs.main, viz.main, load("gate_maps").main])
def test_every_command_states_its_version(capsys, main):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert (stopped.value.code, capsys.readouterr().out) == (0, f"highway-networks {__version__}\n")


def test_the_version_is_that_of_the_citation():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


MODULES = [path for path in ROOT.glob("*.py") if "__all__" in path.read_text("utf-8")]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_public_names_exist_and_include_those_that_the_pages_import(module):
    names = __import__(module.stem).__all__
    assert all(hasattr(__import__(module.stem), name) for name in names)
    assert len(names) == len(set(names))
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text("utf-8")
        for imported in re.findall(rf"^from {module.stem} import (.*)$", text, re.MULTILINE):
            assert {*imported.split(", ")} - {"*"} <= {*names}, page


@pytest.mark.parametrize(
    "module", ["highway_networks", "conv_highway_networks", "highway_estimators", "highway_image_estimator"]
)
def test_a_module_that_is_reloaded_says_to_restart_the_kernel_and_stays_as_it_was(module):
    module = importlib.import_module(module)
    before = dict(vars(module))
    with pytest.raises(ImportError, match="found a reload; restart the kernel"):
        importlib.reload(module)
    assert all(vars(module)[name] is value for name, value in before.items() if not name.startswith("__"))


def test_the_package_names_the_versions_of_python_on_which_it_is_tested():
    tested = re.search(r"python: (\[.*\])", (ROOT / ".github/workflows/tests.yml").read_text("utf-8"))[1]
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert ast.literal_eval(tested) == [named[0], named[-1]]


def test_all_modules_that_are_installed_name_what_is_public():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert {*about["tool"]["setuptools"]["py-modules"]} == {path.stem for path in MODULES}
