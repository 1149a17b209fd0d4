"""`python -m experiments`: the list of all experiments, running them all, the figures of the logs that are there."""

from pathlib import Path

import pytest
from helpers import ROOT, files_below
from test_pictures import assert_redrawn

from experiments import __main__ as experiments
from experiments import three_panels
from experiments.__main__ import NAMES
from experiments.common import load
from experiments.study_command import Experiment
from highway_lab.figures import save_all


def test_every_experiment_is_in_the_list_and_can_be_run():
    assert sorted(NAMES) == experiments.STUDIES
    assert {"what_gates_add", "depth_search", "lesions"} < {*NAMES}
    for experiment in map(load, NAMES):
        assert experiment.parser.parse_args(["plot"]).action == experiment.plot
        assert experiment.parser.parse_args(["run", "--jobs", "3"]).jobs == 3


def test_an_experiment_is_found_by_its_name_wherever_it_lies(called):
    assert experiments.main(["gate_maps", "plot"]) == 0
    assert called == [("gate_maps", "plot")]


@pytest.mark.parametrize("part", ["experiments.using_depth", "experiments.looks.lesions", "benchmarks.conv_step"])
def test_a_part_of_a_program_says_what_to_type(start, part):
    process = start("-m", part, "run")
    program = f"python -m {part.split('.')[0]}"
    line = f"{part.split('.')[0]}: error: expected {program} NAME, found {part}; {program} lists the names\n"
    assert process.communicate(timeout=60) == ("", line)
    assert process.returncode == 2


def test_no_two_experiments_share_a_figure():
    names = [name for of in map(load, NAMES) for name in of.figures]
    assert len(names) == len(set(names)) > 10


def test_the_list_says_what_each_answers_and_what_is_there(workdir, capsys):
    there = [Path("runs/using_depth.json"), Path("viz/using_depth.png")]
    for path in there:
        path.parent.mkdir()
        path.touch()
    assert experiments.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = []
    for name in NAMES:
        experiment = load(name)
        paths = [Path(f"runs/{name}{'-' * bool(of)}{of}.json") for of in experiment.studies]
        paths += [Path("viz") / figure for figure in experiment.figures]
        expected.append(f"{name} {experiment.contents.__doc__.splitlines()[0]}")
        expected += [f"{'there' if path in there else 'missing'} {path}" for path in paths]
    assert [" ".join(line.split()) for line in lines] == expected
    assert sum("there" in line.split()[:1] for line in lines) == 2


@pytest.fixture
def called(monkeypatch) -> list[tuple[str, ...]]:
    """The command lines that would have been carried out; those of conv_tables end with exit code 1."""
    calls = []

    def main(experiment: Experiment, argv: list[str]) -> int:
        calls.append((experiment.name, *argv))
        return 1 if experiment.name == "conv_tables" else 0

    monkeypatch.setattr(Experiment, "main", main)
    return calls


def test_running_all_stops_where_one_does_not_end_well(workdir, called):
    assert experiments.main(["run", "--jobs", "2"]) == 1
    assert called[:2] == [("depth_search", "run", "--jobs", "2"), ("bias_and_rate", "run", "--jobs", "2")]
    assert called[-1] == ("conv_tables", "run", "--jobs", "2")


def test_the_figures_of_every_log_that_is_there_are_drawn(workdir, called, capsys):
    Path("runs").mkdir()
    for name in ("depth_search", "very_deep"):
        Path(f"runs/{name}.json").touch()
    assert experiments.main(["plot"]) == 0
    assert called == [("depth_search", "plot"), ("very_deep", "plot")]
    error = capsys.readouterr().err
    assert error.count("\n") == len(NAMES) - 2
    assert "no log, no figure: python -m experiments gate_maps run makes it\n" in error
    Path("runs/conv_tables-cifar-10.json").touch()
    assert experiments.main(["plot"]) == 1
    assert called[2:] == [("depth_search", "plot"), ("conv_tables", "plot")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--jobs", "0"], "argument --jobs: expected a number from 1 to 999999, found '0'"),
        (["run", "--jobs", "x"], "argument --jobs: expected a number from 1 to 999999, found 'x'"),
        (["plot", "--jobs", "1"], "unrecognized arguments: --jobs 1\n"),
        (["x" * 300], f"found {'x' * 300}; python -m experiments lists them all"),
        (["dance"], "NAME: expected an experiment, such as "),
        (
            ["looks.lesoins", "run"],
            "such as lesions, class_routing, section_4, found looks.lesoins; python -m experiments lists",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(workdir, called, refused, arguments, message):
    assert message in refused(experiments.main, arguments)
    assert called == []
    assert files_below(workdir) == {}


@pytest.mark.slow
def test_the_picture_of_the_readme_comes_out_as_it_is(workdir):
    (workdir / "runs").symlink_to(ROOT / "runs")
    save_all({three_panels.PICTURE.name: three_panels.figure}, three_panels.PICTURE.parent, *three_panels.LOGS)
    logs = [ROOT / log for log in three_panels.LOGS]
    assert_redrawn(ROOT / three_panels.PICTURE, three_panels.PICTURE.read_bytes(), *logs)
