"""`python -m experiments`: the list of all experiments, running them all, the figures of the logs that are there."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT, files_below
from picture_helpers import committed_log
from test_pictures import assert_redrawn

from experiments import __main__ as experiments
from experiments.__main__ import STEPS, module
from experiments.command_line import default_log


@pytest.fixture
def workdir(tmp_path, monkeypatch) -> Path:
    """An empty current directory."""
    path = tmp_path / "workdir"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


# ---------------------------------------------------------------------------------------------- the list


def test_every_experiment_is_in_the_list_and_has_its_steps():
    with_figures = {path.stem for path in (ROOT / "experiments").glob("*.py") if "\nFIGURES = " in path.read_text()}
    assert with_figures == set(STEPS)
    for name, steps in STEPS.items():
        parsers = module(name).commands().parsers.choices
        assert {*steps, "plot"} <= parsers.keys()
        for step in steps:
            parsed = module(name).commands().parser.parse_args([step, "--jobs", "3"])
            assert parsed.jobs == 3


def test_no_two_experiments_share_a_figure():
    figures = [figure for name in STEPS for figure in module(name).FIGURES]
    assert len(figures) == len(set(figures)) > len(STEPS)


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_the_list_says_what_each_answers_and_what_is_there(workdir, capsys, arguments):
    there = [Path("runs/very_deep.json"), Path("viz/gate_bias.png")]
    for path in there:
        path.parent.mkdir()
        path.touch()
    assert experiments.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = []
    for name in STEPS:
        paths = [default_log(name, "mnist", smoke=False), *(Path("viz") / figure for figure in module(name).FIGURES)]
        expected.append(f"{name} {module(name).__doc__.splitlines()[0]}")
        expected += [f"{'there' if path in there else 'missing'} {path}" for path in paths]
    assert [" ".join(line.split()) for line in lines] == expected
    assert sum("there" in line.split()[:1] for line in lines) == 2


# ---------------------------------------------------------------------------------------------- running


@pytest.fixture
def called(monkeypatch) -> list[tuple[str, ...]]:
    """The command lines that would have been carried out; the one of "lesions run" ends with exit code 1."""
    calls = []

    def stand_in(name: str) -> SimpleNamespace:
        def main(argv: list[str]) -> int:
            calls.append((name, *argv))
            return 1 if name == "lesions" else 0

        return SimpleNamespace(commands=lambda: SimpleNamespace(main=main))

    monkeypatch.setattr(experiments, "module", stand_in)
    return calls


def test_running_all_stops_where_one_does_not_end_well(workdir, called):
    assert experiments.main(["run", "--jobs", "2"]) == 1
    assert called == [
        ("depth_search", "run", "--jobs", "2"),
        ("depth_search", "best", "--jobs", "2"),
        ("gate_maps", "run", "--jobs", "2"),
        ("class_routing", "run", "--jobs", "2"),
        ("lesions", "run", "--jobs", "2"),
    ]


def test_the_figures_of_every_log_that_is_there_are_drawn(workdir, called, capsys):
    Path("runs").mkdir()
    for name in ("depth_search", "very_deep"):
        default_log(name, "mnist", smoke=False).touch()
    assert experiments.main(["plot"]) == 0
    assert called == [("depth_search", "plot"), ("very_deep", "plot")]
    error = capsys.readouterr().err
    assert error.count("\n") == len(STEPS) - 2
    assert "no log, no figure: python -m experiments.gate_maps run makes it\n" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--jobs", "0"], "argument --jobs: expected a positive number, found '0'"),
        (["run", "--jobs", "x"], "argument --jobs: expected a positive number, found 'x'"),
        (["plot", "--jobs", "1"], "unrecognized arguments: --jobs 1"),
        (["dance"], "argument command: invalid choice: 'dance'"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(workdir, called, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        experiments.main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert called == []
    assert files_below(workdir) == {}


# ------------------------------------------------------------------------------------- what is committed


@pytest.mark.parametrize("name", STEPS)
def test_the_committed_log_is_small_and_its_figures_are_those_that_it_gives(workdir, name):
    log = committed_log(default_log(name, "mnist", smoke=False))
    assert log.stat().st_size <= 1_000_000
    assert module(name).commands().main(["plot", str(log)]) == 0
    redrawn = files_below(workdir / "viz")
    assert redrawn.keys() == set(module(name).FIGURES)
    for figure, content in redrawn.items():
        assert_redrawn(ROOT / "viz" / figure, log, content)
