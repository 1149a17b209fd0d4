"""The engine of studies: what is planned, chosen and kept, however a study is killed or extended."""

import math
import random
import sys
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from helpers import SOME_ENVIRONMENT

from experiments import study_command
from experiments.partly_frozen import ArmConfig
from experiments.study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, beyond
from experiments.study_command import StudyExperiment, StudyLog
from highway_lab import jobs, logs
from highway_networks import InputError

GAINS, RATES = (1.0, 1.4), (1e-3, 3e-3, 1e-2)
ARMS = {
    "x": Arm({}, {"lr": RATES, "init_gain": (*GAINS, 2.0)}),
    "y": Arm({"block": "plain"}, {"lr": RATES, "init_gain": GAINS, "gate_bias": (0.0, -1.0, -2.0)}),
}
CELLS = (Cell("x", 3, 2), Cell("y", 3, 2))
STAGES = (Stage((100,), 2), Stage((101, 102), 4, best=3), Stage(range(4), 4, best=1, result="scored"))


def configure(fields, cell, stage):
    return ArmConfig(**fields, hidden=cell.hidden, depth=cell.depth)


CRITERIA = {"a": lambda run: run.measured.train_loss, "b": lambda run: run.measured.score}
STUDY = Study(ARMS, CELLS, STAGES, configure, CRITERIA, growth=4, own=lambda name, arm: Cell(name, 4, 2))
LONG = replace(STUDY, stages=(replace(STAGES[0], epochs=4), *STAGES[1:]))  # first tries as long as the second's


def made(task):
    """A run whose numbers follow from its configuration, with noise: best far from the middle of the grids."""
    of = task.config
    noise = [
        zlib.crc32(f"{of.lr} {of.init_gain} {of.gate_bias} {of.epochs} {of.seed} {name}".encode()) for name in "ab"
    ]
    distance = (math.log10(of.lr) + 1.6) ** 2 + (math.log10(of.init_gain) - 0.4) ** 2 + (of.gate_bias + 3) ** 2 / 50
    loss, score = ((distance + of / 2**33) / 10 for of in noise)
    return StudyRun(SOME_ENVIRONMENT, task, 1, False, {}, Measured(0.0, loss, score, None))


def complete(study, runs=()):
    """All runs that a study asks for, made whole stage after whole stage."""
    runs = [*runs]
    while tasks := study.next_tasks(runs):
        runs += map(made, tasks)
    return runs


def by_task(runs):
    return {run.task: run.measured for run in runs}


def choices(study, runs):
    results = Results(study, runs)
    return {(cell, of): [run.task for run in results.scored(cell, of)] for cell in study.cells for of in study.criteria}


@pytest.mark.parametrize("study", [STUDY, LONG])
def test_a_study_that_is_killed_after_any_run_ends_as_if_it_had_not_been(study):
    rng, whole = random.Random(0), complete(study)
    for _ in range(10):
        runs = []
        while tasks := study.next_tasks(runs, least=10**6):
            runs += map(made, rng.sample(tasks, rng.randint(1, len(tasks))))
        assert by_task(runs) == by_task(whole)
        assert len(runs) == len(whole)
        assert choices(study, runs) == choices(study, whole)
    assert not Results(study, whole).superfluous


@pytest.mark.parametrize("study", [STUDY, LONG])
@pytest.mark.parametrize(
    "earlier",
    [
        lambda study: replace(study, cells=CELLS[:1]),
        lambda study: replace(study, arms={"x": ARMS["x"]}, cells=CELLS[:1]),
        lambda study: replace(study, growth=0),
        lambda study: replace(study, stages=study.stages[::2]),
        lambda study: replace(study, stages=(study.stages[0], replace(study.stages[1], best=1), study.stages[2])),
        lambda study: replace(
            study, arms={of: ARMS[of]._replace(grid=ARMS[of].grid | {"lr": RATES[:2]}) for of in ARMS}
        ),
        lambda study: replace(
            study, arms={of: ARMS[of]._replace(grid=ARMS[of].grid | {"lr": RATES[1:]}) for of in ARMS}
        ),
    ],
    ids=["cell", "arm", "growth", "stage", "best", "value above", "value below"],
)
def test_an_extended_study_makes_the_choices_of_a_fresh_start(study, earlier):
    fresh, old = complete(study), complete(earlier(study))
    extended = complete(study, old)
    assert choices(study, extended) == choices(study, fresh)
    assert {*by_task(fresh)} <= {*by_task(extended)}
    superfluous = {run.task for run in Results(study, extended).superfluous}
    assert superfluous == {*by_task(old)} - {*by_task(fresh)}


def test_the_first_unfinished_cell_comes_first_and_others_fill_up_the_workers():
    first = STUDY.next_tasks([])
    assert {task.cell for task in first} == {CELLS[0]}
    runs = [made(task) for task in first[1:]]
    assert STUDY.next_tasks(runs) == first[:1]
    assert [task.cell for task in STUDY.next_tasks(runs, least=3)] == [CELLS[0], CELLS[1], CELLS[1]]


def test_two_stages_of_results_are_never_mixed():
    """Though their configurations are the same."""
    study = replace(STUDY, stages=(*STAGES, Stage(range(6), 4, best=1, result="again")))
    results = Results(study, complete(study))
    for cell in CELLS:
        once, again = (results.scored(cell, result=of) for of in ("scored", "again"))
        assert (len(once), len(again)) == (4, 6)
        assert {run.task.result for run in again} == {"again"}
        assert [run.config for run in once] == [run.config for run in again[:4]]
    assert [stage.result for stage, *_ in results.rungs[CELLS[0]]][2:] == ["scored", "again"]


def test_a_run_counts_once():
    """Given twice, and where two stages ask for it."""
    runs = complete(LONG)
    assert choices(LONG, [*runs, *runs]) == choices(LONG, runs)
    assert len(Results(LONG, [*runs, *runs]).runs) == len(runs)
    same = replace(LONG, stages=(replace(STAGES[0], epochs=4), Stage((100, 101), 4, best=3), STAGES[2]))
    results = Results(same, complete(same))
    _, _, tried = results.rungs[CELLS[0]][2]
    assert {len(of) for of in tried.values()} == {2}
    assert [len({id(run) for run in of}) for of in tried.values()] == [2] * len(tried)


def test_runs_of_fewer_epochs_do_not_count_where_longer_ones_choose():
    _, _, tried = Results(STUDY, complete(STUDY)).rungs[CELLS[0]][2]
    assert {run.config.epochs for of in tried.values() for run in of} == {4}


def test_seeds_that_have_chosen_give_no_results():
    with pytest.raises(InputError, match="results from seeds that have chosen nothing, found 100 in both"):
        replace(STUDY, stages=(*STAGES[:2], Stage(range(99, 110), 4, best=1, result="scored")))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_criterion_that_is_no_number_is_an_error(value):
    study = replace(STUDY, criteria={"c": lambda run: value if run.config.lr == RATES[0] else 1.0})
    with pytest.raises(InputError, match=f"c: expected a number for every run, diverged ones too, found {value} at"):
        complete(study)


def test_grids_grow_around_what_the_next_stage_takes_at_most_so_often():
    """By a step in one hyperparameter at a time, beyond the ends; a choice with an untried neighbour names it."""
    grown, fixed = (
        Results(STUDY, complete(STUDY)),
        Results(replace(STUDY, growth=0), complete(replace(STUDY, growth=0))),
    )
    assert fixed.chosen(CELLS[0])[0] == RATES[-1]
    assert "lr 0.0333" in fixed.untried(CELLS[0])
    assert grown.chosen(CELLS[0])[0] > RATES[-1]
    assert grown.untried(CELLS[0]) == []
    offered = {*STUDY.grid(CELLS[0])}
    for _, rung, _ in grown.rungs[CELLS[0]][:1]:
        assert offered < {*rung}
    once = Results(replace(STUDY, growth=1), complete(replace(STUDY, growth=1)))
    assert len(offered) < len(once.rungs[CELLS[0]][0][1]) < len(grown.rungs[CELLS[0]][0][1])


@pytest.mark.parametrize(
    ("before", "end", "value"),
    [
        (1e-3, 3e-3, 9e-3),
        (3e-3, 1e-3, 3.33e-4),
        (-1.0, -2.0, -4.0),
        (1.0, 0.0, -1.0),
        (0.0, 1.0, 2.0),
        (1.0, 0.5, 0.25),
    ],
)
def test_a_step_beyond_the_end_of_a_grid(before, end, value):
    assert beyond(before, end) == value


def test_names_are_no_numbers_and_do_not_grow():
    arms = {"x": Arm({}, {"lr": RATES, "activation": ("tanh", "relu")})}
    study = replace(STUDY, arms=arms, cells=CELLS[:1])
    tried = {run.setting for run in complete(study) if run.config.seed == 100}
    assert {activation for _, activation in tried} == {"tanh", "relu"}


# ------------------------------------------------------------------------------------------- the log

SCHEMA = StudyLog[StudyRun[Cell, ArmConfig, Measured]]


def log_of(runs):
    info = logs.DatasetInfo("digits", 200, 100)
    return SCHEMA(logs.SCHEMA, "2026-11-27T10:00:00Z", "made up", info, SOME_ENVIRONMENT, runs)


def test_a_log_gives_back_what_was_written(tmp_path):
    """With the environment of every sitting, and blocks that this process has not seen."""
    runs = complete(STUDY)
    other = replace(SOME_ENVIRONMENT, commit="0" * 40)
    runs[1] = replace(runs[1], environment=other, task=replace(runs[1].task, config=replace(runs[1].config, lr=0.5)))
    text = logs.dumps(log_of(runs)).replace('"block": "plain"', '"block": "rezero-17"', 1)
    found = logs.loads(text.encode(), SCHEMA)
    assert found.runs[:3] == runs[:3]
    assert found.runs[1].environment == other
    assert len(text) < len(runs) * 400
    assert "rezero-17" in {run.config.block for run in found.runs}
    earlier = text.replace(', "identity": false', "").replace(', "shared": ""', "")  # before these were thought of
    assert earlier != text
    assert logs.loads(earlier.encode(), SCHEMA) == found


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"defaults"', '"default"', f"one of an older form, which commit {study_command.OLDER} reads"),
        ('"environment": 0', '"environment": 7', "none of a study (IndexError"),
        ('"cell": 0', '"cell": null', "none of a study (TypeError"),
        ('"diverged": false', '"diverged": true', "expected no train_loss of a run that diverged"),
        ('"history": {}', '"history": {"train_loss": [1.0]}', "expected a history of 3 rows, found 1"),
        ('"clipped": 0.0', '"clipped": 2.0', "Expected `float` <= 1.0"),
        ('"score"', '"scores"', "unknown field `scores`"),
        ('"result": ""', '"result": 3', "Expected `str`, got `int`"),
        ('"block": "highway"', '"block": "rezero-x"', "expected one of plain"),
        ("{", "", "is malformed"),
    ],
)
def test_a_log_of_something_else_is_told_in_a_line(tmp_path, old, new, words):
    path = tmp_path / "log.json"
    path.write_text(logs.dumps(log_of(complete(STUDY)[:3])).replace(old, new, 1))
    with pytest.raises(InputError) as error:
        logs.read(path, SCHEMA, "make it anew")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


# --------------------------------------------------------------------------------------- the command


@pytest.fixture
def tiny(workdir, monkeypatch) -> StudyExperiment:
    """A study of small nets, in a module of its own."""
    module = ModuleType("experiments.tiny", "A tiny study.")
    arms = {"x": Arm({}, {"lr": RATES[:2]}), "y": Arm({"block": "plain"}, {"lr": RATES[:2]})}
    stages = (Stage((100,), 1), Stage(range(2), 1, best=1, result="scored"))

    def configure(fields, cell, stage):
        return ArmConfig(**fields, hidden=cell.hidden, depth=cell.depth, n_train=60, n_test=20)

    criteria = {"loss": lambda run: run.measured.train_loss or 9.0}
    module.STUDY = Study(arms, CELLS, stages, configure, criteria, own=lambda name, arm: Cell(name, 4, 2))
    module.train = partial(study_command.train, columns=("train_loss",))
    module.FIGURES = {"tiny.png": lambda results: empty(sorted(cell.arm for cell in results.finished))}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return StudyExperiment(module)


def empty(names):
    from highway_lab.figures import new_figure

    return new_figure(", ".join(names), 1)[0]


LOG = Path("runs/tiny-digits.json")
RUN = ["run", "--dataset", "digits"]


def test_a_study_is_trained_resumed_and_drawn(tiny, monkeypatch, capsys):
    """After a kill what is finished is kept; no file is left beside the log."""
    real, trained = jobs.run_tasks, []

    def killed_after_three(function, tasks, *rest, **options):
        for result in real(function, tasks, *rest, **options):
            trained.append(result.task)
            yield result
            if len(trained) == 3:
                raise jobs.Interrupted("killed")

    monkeypatch.setattr(jobs, "run_tasks", killed_after_three)
    assert tiny.main(RUN) == 1
    assert len(tiny.read(LOG).runs) == 2  # of the first batch; the third is beside it
    assert tiny.main(RUN) == 0
    assert len(trained) == len({*trained}) == 8
    assert [*Path("runs").iterdir()] == [LOG]
    log = tiny.read(LOG)
    assert {run.task for run in log.runs} == {*trained}
    assert all(len(run.history["train_loss"]) == 2 if run.task.result else run.history == {} for run in log.runs)
    assert all((run.measured.score is None) == (run.task.result == "") for run in log.runs)
    before = LOG.read_bytes()
    assert tiny.main(RUN) == 0
    assert len(trained) == 8
    assert LOG.read_bytes().count(b"\n") == before.count(b"\n")
    capsys.readouterr()
    assert tiny.main(["plot", str(LOG)]) == 0
    shown = capsys.readouterr().out
    assert "x, 3, 2: lr 0." in shown
    assert "beside it never tried: lr " in shown
    assert "8 runs, 0 of them superfluous" in shown
    assert "drew viz/digits/tiny.png" in shown
    assert tiny.main(["table", str(LOG)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("arm,hidden,depth,result,lr,epochs,seed,n_trained,diverged,clipped,train_loss,")
    assert len(table) == 9
    assert tiny.main([*RUN, "--fresh"]) == 0
    assert len(trained) == 16


def test_runs_of_other_code_are_refused_unless_they_are_to_be_kept(tiny, refused):
    assert tiny.main(RUN) == 0
    log = tiny.read(LOG)
    log.runs = [replace(run, environment=replace(run.environment, code="other")) for run in log.runs[:3]]
    logs.write(LOG, log)
    before = LOG.read_bytes()
    assert "expected runs of the training code as it is now, found 3 of other code" in refused(tiny.main, RUN)
    assert LOG.read_bytes() == before
    assert tiny.main([*RUN, "--keep"]) == 0
    assert {run.environment.code for run in tiny.read(LOG).runs} > {"other"}


def test_a_study_that_is_being_widened_trains_its_next_form_into_the_same_log(tiny, workdir, capsys):
    assert tiny.main(RUN) == 0
    wider = {"x": Arm({}, {"lr": RATES})}
    tiny.contents.NEXT = replace(tiny.contents.STUDY, arms=tiny.contents.STUDY.arms | wider)
    again = StudyExperiment(tiny.contents)
    assert again.main(RUN) == 0
    assert len(again.read(LOG).runs) == 8
    assert again.main([*RUN, "--next"]) == 0
    assert len(again.read(LOG).runs) in (9, 11)  # 11 if the new value was chosen
    capsys.readouterr()
    assert again.main(["plot", str(LOG)]) == 0
    assert "of them superfluous" in capsys.readouterr().out


def test_a_kind_of_net_of_ones_own_is_tuned_and_drawn_beside_ours(tiny, my_arm, capsys, refused, small_mnist):
    run = ["run", "--data-dir", str(small_mnist)]
    assert tiny.main(run) == 0
    committed, own = Path("runs/tiny.json"), Path("runs/tiny-my_arm.json")
    ours = committed.read_bytes()
    capsys.readouterr()
    assert tiny.main([*run, "--with", "my_arm.py"]) == 0
    assert capsys.readouterr().out.endswith(f"plot {own} --with my_arm.py\n")
    assert committed.read_bytes() == ours
    assert {of.cell for of in tiny.read(own).runs} == {Cell("mine", 4, 2)}
    for words in ([], [str(own)]):
        assert tiny.main(["table", *words, "--with", "my_arm.py"]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert [row.partition(",")[0] for row in rows] == ["arm", *["x"] * 4, *["y"] * 4, *["mine"] * 4]
        assert tiny.main(["plot", *words, "--with", "my_arm.py"]) == 0
        assert "12 runs, 0 of them superfluous\n\ndrew viz/my_arm/tiny.png" in capsys.readouterr().out
    Path("other.py").write_text("ARMS = {}")
    assert "expected ARMS = " in refused(tiny.main, [*run, "--with", "other.py"])
    Path("taken.py").write_text(my_arm.read_text().replace('{"mine": Arm', '{"x": Arm'))
    assert "expected names that no other arm has, found 'x'" in refused(tiny.main, [*run, "--with", "taken.py"])
