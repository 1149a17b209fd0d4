"""`python -m experiments`: the list of all experiments, running them all, the figures of the logs that are there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ROOT, files_below, slashes
from picture_helpers import committed_log
from test_pictures import PAGE, assert_redrawn

from experiments import __main__ as experiments
from experiments import three_panels
from experiments.__main__ import NAMES, STUDIES
from experiments.common import Experiment, load
from highway_lab import jobs
from highway_lab.figures import save_all

OTHERS = [name for name in NAMES if name not in STUDIES]
OPENING = {".png": b"\x89PNG", ".html": PAGE}


def test_every_experiment_is_in_the_list_and_can_be_run():
    assert sorted(NAMES) == sorted(experiments.modules_with("FIGURES"))
    assert {"what_gates_add", "depth_search"} < {*STUDIES}
    assert {"lesions", "gate_maps"} < {*OTHERS}
    for experiment in map(load, NAMES):
        assert experiment.parser.parse_args(["plot"]).action == experiment.plot
        assert experiment.parser.parse_args(["run", "--jobs", "3"]).jobs == 3


@pytest.mark.parametrize("room", ["", "looks.", "looks/", "experiments.looks.", "experiments/looks/"])
def test_an_experiment_is_found_by_its_last_name_wherever_it_lies(called, room):
    assert experiments.main([f"{room}gate_maps", "plot"]) == 0
    assert called == [("gate_maps", "plot")]


@pytest.mark.parametrize("part", ["experiments.using_depth", "experiments.looks.lesions", "benchmarks.conv_step"])
def test_a_part_of_a_program_says_what_to_type(start, part):
    process = start("-m", part, "run")
    program = f"python -m {part.split('.')[0]}"
    line = f"{part.split('.')[0]}: error: expected {program} NAME, found {part}; {program} lists the names\n"
    assert process.communicate(timeout=60) == ("", line)
    assert process.returncode == 2


def test_no_two_experiments_share_a_figure():
    names = [name for of in map(load, NAMES) for name in of.contents.FIGURES]
    assert len(names) == len(set(names)) > len(OTHERS)


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
        short = experiment.name
        others = (*experiment.datasets[1:], *experiment.more)
        paths = [Path(f"runs/{short}.json"), *(Path(f"runs/{short}-{of}.json") for of in others)]
        paths += [Path("viz") / figure for figure in experiment.contents.FIGURES]
        expected.append(f"{name} {experiment.contents.__doc__.splitlines()[0]}")
        expected += [f"{'there' if path in there else 'missing'} {path}" for path in paths]
    expected.append("three_panels Draw the first picture of the README.")
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
    assert called == [
        ("depth_search", "run", "--dataset", "mnist", "--jobs", "2"),
        ("cifar_net", "run", "--dataset", "cifar-10", "--jobs", "2"),
        ("conv_tables", "run", "--dataset", "mnist", "--jobs", "2"),
    ]


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
        (["depth", "run"], "such as sketch, tuned_plain, depth_search, hundred_layers, pixel_scale, found depth"),
        (["dance"], "NAME: expected that of an experiment, such as "),
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


def run_nothing(_, tasks: list, *__, **___) -> Iterator[None]:
    """In place of jobs.run_tasks where no task may be left."""
    assert not tasks, "run a second time"
    yield from ()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_each_experiment_runs_once_and_draws(workdir, monkeypatch, capsys, name):
    """With the smoke budget; what is finished is not run again."""
    experiment, plot = load(name), f"python -m experiments {name} plot"
    path = f"runs/{experiment.name}-smoke.json"
    assert experiment.main(["run", "--smoke"]) == 0
    assert slashes(capsys.readouterr().out).endswith(f"saved {path}\nto see it: {plot} {path}\n")
    finished = {file: content for file, content in files_below(Path("runs")).items() if file.endswith(".jsonl")}
    if finished:
        monkeypatch.setattr(jobs, "run_tasks", run_nothing)
        assert experiment.main(["run", "--smoke"]) == 0
        assert {file: Path("runs", file).read_bytes() for file in finished} == finished
        capsys.readouterr()
    log = experiment.read(Path(path))
    assert log.dataset.name == "digits"
    assert log.command == f"python -m experiments {name} run --smoke"
    assert experiment.main(["plot", path]) == 0
    figures = experiment.contents
    pictures = files_below(Path("viz"))
    assert pictures.keys() == {f"smoke/{figure}" for figure in figures.FIGURES}
    assert all(content.startswith(OPENING[Path(name).suffix]) for name, content in pictures.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.symlinks
def test_committed_logs_are_small_and_give_the_committed_figures(workdir, name):
    experiment = load(name)
    drawn = [log for log in experiment.log_steps() if (ROOT / log).exists()]
    logs = [*map(committed_log, drawn or [experiment.log_path()])]
    for needed in ("models", "runs", "run_sweep.json"):  # a page is drawn from its net and from other logs, too
        (workdir / needed).symlink_to(ROOT / needed)
    assert all(log.stat().st_size <= 2_000_000 for log in logs)
    assert experiment.main(["plot"]) == 0
    redrawn = files_below(workdir / "viz")
    assert redrawn.keys() == set(experiment.contents.FIGURES)
    for figure, content in redrawn.items():
        assert_redrawn(ROOT / "viz" / figure, content, *logs)


@pytest.mark.slow
def test_the_picture_of_the_readme_comes_out_as_it_is(workdir):
    (workdir / "runs").symlink_to(ROOT / "runs")
    save_all({three_panels.PICTURE.name: three_panels.figure}, three_panels.PICTURE.parent, *three_panels.LOGS)
    logs = [ROOT / log for log in three_panels.LOGS]
    assert_redrawn(ROOT / three_panels.PICTURE, three_panels.PICTURE.read_bytes(), *logs)
