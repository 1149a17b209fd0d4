"""The engine of studies: what is planned, chosen and kept, however a study is killed or extended."""

import math
import pickle
import random
import sys
import zlib
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from helpers import SOME_ENVIRONMENT, slashes

from experiments import study_command
from experiments.blocks import numbered
from experiments.partly_frozen import ArmConfig
from experiments.study import Arm, Cell, Measured, Results, Stage, Study, StudyRun, beyond
from experiments.study_command import Experiment, StudyLog
from highway_lab import jobs, logs
from highway_lab.files import lock_log
from highway_lab.jobs import ResultFile
from highway_networks import BLOCKS, InputError

GAINS, RATES = (1.0, 1.4), (1e-3, 3e-3, 1e-2)
ARMS = {
    "x": Arm({}, {"lr": RATES, "init_gain": (*GAINS, 2.0)}),
    "y": Arm({"block": "plain"}, {"lr": RATES, "init_gain": GAINS, "gate_bias": (0.0, -1.0, -2.0)}),
}
CELLS = (Cell("x", 3, 2), Cell("y", 3, 2))
STAGES = (Stage((100,), 2), Stage((101, 102), 4, best=3), Stage(range(4), 4, best=1, result="scored"))


CRITERIA = {"a": lambda run: run.measured.train_loss, "b": lambda run: run.measured.score}
STUDY = Study(ARMS, CELLS, STAGES, CRITERIA, growth=4, own=lambda name, arm: Cell(name, 4, 2))
LONG = replace(STUDY, stages=(replace(STAGES[0], epochs=4), *STAGES[1:]))  # first tries as long as the second's


def made(task):
    """A run whose numbers follow from its configuration, with noise: best far from the middle of the grids."""
    of = task.config
    numbers = f"{of.lr} {of.init_gain} {of.gate_bias} {of.epochs} {of.seed}"
    noise = [zlib.crc32(f"{numbers} {name}".encode()) for name in "ab"]
    distance = (math.log10(of.lr) + 1.6) ** 2 + (math.log10(of.init_gain) - 0.4) ** 2 + (of.gate_bias + 3) ** 2 / 50
    loss, score = ((distance + of / 2**33) / 10 for of in noise)
    return StudyRun(SOME_ENVIRONMENT, task, 1, False, {}, Measured(0.0, loss, score, None, None))


def complete(study, runs=()):
    """All runs that a study asks for, made whole stage after whole stage."""
    runs = [*runs]
    while tasks := Results(study, runs).next_tasks():
        runs += map(made, tasks)
    return runs


def whole(study):
    return Results(study, complete(study))


def by_task(runs):
    return {run.task: run.measured for run in runs}


def with_rates(rates):
    return {of: arm._replace(grid=arm.grid | {"lr": rates}) for of, arm in ARMS.items()}


def choices(study, runs):
    results = Results(study, runs)
    return {(cell, of): [run.task for run in results.scored(cell, of)] for cell in study.cells for of in study.criteria}


def test_cells_whose_means_are_equal_are_equally_good():
    """Though floating point says 0.9525 and 0.9524999999999999: then the first of them is taken."""
    accuracies = {"x": (0.9505, 0.9545), "y": (0.953, 0.952)}
    criteria = {"accuracy": lambda run: -accuracies[run.cell.arm][run.config.seed - 101]}
    arms = {name: Arm(ARMS[name].options, {"lr": (1e-3,)}) for name in ARMS}
    results = whole(replace(STUDY, arms=arms, stages=STAGES[1:], criteria=criteria, growth=0))
    assert results.quality(CELLS[0]) == results.quality(CELLS[1]) == -0.9525


@pytest.mark.parametrize("study", [STUDY, LONG])
def test_a_study_that_is_killed_after_any_run_ends_as_if_it_had_not_been(study):
    rng, undisturbed = random.Random(0), complete(study)
    for _ in range(4):
        runs = []
        while tasks := Results(study, runs).next_tasks(least=10**6):
            runs += map(made, rng.sample(tasks, rng.randint(1, len(tasks))))
        assert by_task(runs) == by_task(undisturbed)
        assert len(runs) == len(undisturbed)
        assert choices(study, runs) == choices(study, undisturbed)
    assert not Results(study, undisturbed).superfluous


@pytest.mark.parametrize("study", [STUDY, LONG])
@pytest.mark.parametrize(
    "earlier",
    [
        lambda study: replace(study, cells=CELLS[:1]),
        lambda study: replace(study, arms={"x": ARMS["x"]}, cells=CELLS[:1]),
        lambda study: replace(study, growth=0),
        lambda study: replace(study, stages=study.stages[::2]),
        lambda study: replace(study, stages=(study.stages[0], replace(study.stages[1], best=1), study.stages[2])),
        lambda study: replace(study, arms=with_rates(RATES[:2])),
        lambda study: replace(study, arms=with_rates(RATES[1:])),
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
    first = Results(STUDY, []).next_tasks()
    assert {task.cell for task in first} == {CELLS[0]}
    runs = [made(task) for task in first[1:]]
    assert Results(STUDY, runs).next_tasks() == first[:1]
    assert [task.cell for task in Results(STUDY, runs).next_tasks(least=3)] == [CELLS[0], CELLS[1], CELLS[1]]


def test_two_stages_of_results_are_never_mixed():
    """Though their configurations are the same; a cell is finished with the last."""
    study = replace(STUDY, stages=(*STAGES, Stage(range(6), 4, best=1, result="again")))
    results = whole(study)
    for cell in CELLS:
        once, again = (results.scored(cell, result=of) for of in ("scored", "again"))
        assert (len(once), len(again)) == (4, 6)
        assert {run.task.result for run in again} == {"again"}
        assert [run.config for run in once] == [run.config for run in again[:4]]
    assert [stage.result for stage, *_ in results.rungs[CELLS[0]]][2:] == ["scored", "again"]
    assert results.finished == [*CELLS]
    results = Results(study, [run for run in results.runs if run.task.result != "again"])
    assert results.finished == []
    assert len(results.scored(CELLS[0])) == 4
    assert results.settings(CELLS[0], "again") == {}


def test_a_run_counts_once():
    """Given twice, and where two stages ask for it."""
    runs = complete(LONG)
    assert choices(LONG, [*runs, *runs]) == choices(LONG, runs)
    assert len(Results(LONG, [*runs, *runs]).runs) == len(runs)
    same = replace(LONG, stages=(replace(STAGES[0], epochs=4), Stage((100, 101), 4, best=3), STAGES[2]))
    _, _, tried = whole(same).rungs[CELLS[0]][2]
    assert {len(of) for of in tried.values()} == {2}
    assert [len({id(run) for run in of}) for of in tried.values()] == [2] * len(tried)


@pytest.mark.parametrize("shorter", [{"epochs": 2}, {"options": {"n_train": 60}}])
def test_runs_of_fewer_epochs_or_other_options_do_not_count_where_longer_ones_choose(shorter):
    study = replace(LONG, stages=(replace(LONG.stages[0], **shorter), *STAGES[1:]))
    _, _, tried = whole(study).rungs[CELLS[0]][2]
    assert {(run.config.epochs, run.config.n_train) for of in tried.values() for run in of} == {(4, ArmConfig.n_train)}


def test_a_stage_that_varies_a_hyperparameter_chooses_among_its_values():
    """Of arms that have it; runs of the same configuration count once, and results are of the best value."""
    values = (-6.0, -1.0, 0.0)
    stage = Stage((100, 101, 102), 4, best=1, vary={"gate_bias": values})
    study = replace(LONG, stages=(*LONG.stages[:2], stage, STAGES[2]), criteria={"a": CRITERIA["a"]})
    results = whole(study)
    assert not results.superfluous
    x, y = CELLS
    assert results.settings(x).keys() == {results.study.ranked(results.rungs[x][2][2], "a")[0]}
    before, tried = results.rungs[y][2][2], results.tried(y)
    best = study.ranked(before, "a")[0]
    assert tried.keys() == {(*best[:2], value) for value in values}
    assert [[run.config.seed for run in of] for of in tried.values()] == [[100, 101, 102]] * len(values)
    assert results.scored(y)[0].setting == min(tried, key=lambda of: results.judged(tried[of]).mean())


def test_an_end_of_what_a_stage_varies_is_named():
    arms = {"x": Arm({}, {"lr": RATES, "gate_bias": (-1.0,)})}
    stage = Stage((100,), 2, best=1, vary={"gate_bias": (-3.0, -1.0)})
    stages, lowest = (STAGES[0], stage, STAGES[2]), {"bias": lambda run: run.config.gate_bias}
    study = replace(STUDY, arms=arms, cells=CELLS[:1], stages=stages, criteria=lowest, growth=0)
    results = whole(study)
    assert results.chosen(CELLS[0])[1] == -3.0
    assert "gate_bias -9" in results.untried(CELLS[0])


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ((*STAGES[:2], Stage(range(99, 110), 4, result="scored")), "seeds that have chosen nothing, found 100 in both"),
        ((*STAGES[:2], Stage(lambda cell: (98 + cell.depth,), 4, result="scored")), "found 100 in both"),
    ],
)
def test_stages_that_contradict_each_other_are_refused(stages, words):
    with pytest.raises(InputError, match=words):
        replace(STUDY, stages=stages)


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_criterion_that_is_no_number_is_an_error(value):
    study = replace(STUDY, criteria={"c": lambda run: value if run.config.lr == RATES[0] else 1.0})
    with pytest.raises(InputError, match=r"c: expected a number for every run, diverged ones too, found (nan|inf);"):
        complete(study)


def test_grids_grow_around_what_the_next_stage_takes_at_most_so_often():
    """By a step in one hyperparameter at a time, beyond the ends; a choice with an untried neighbour names it."""
    grown, once, fixed = (whole(replace(STUDY, growth=of)) for of in (4, 1, 0))
    assert fixed.chosen(CELLS[0])[0] == RATES[-1]
    assert "lr 0.0333" in fixed.untried(CELLS[0])
    assert grown.chosen(CELLS[0])[0] > RATES[-1]
    assert grown.untried(CELLS[0]) == []
    offered = {*STUDY.grid(CELLS[0])}
    assert offered < {*grown.rungs[CELLS[0]][0][1]}
    assert len(offered) < len(once.rungs[CELLS[0]][0][1]) < len(grown.rungs[CELLS[0]][0][1])


@pytest.mark.parametrize(
    ("before", "end", "value"), [(3e-3, 1e-3, 3.33e-4), (-1.0, -2.0, -4.0), (1.0, 0.0, -1.0), (0.0, 1.0, 2.0)]
)
def test_a_step_beyond_the_end_of_a_grid(before, end, value):
    assert beyond(before, end) == value


@pytest.mark.parametrize(
    ("name", "values", "grown"),
    [
        ("activation", ("tanh", "relu"), set()),
        ("momentum", (0.5, 0.8), {0.312}),  # above, at 1.28, there is no momentum
        ("gate_bias", (0, -1, -2), {1.0, -4.0}),
        ("gate_bias", (-1.0,), set()),
        ("beta2", (0.999, 0.9995), set()),  # either step beyond is rounded to 0.999, which was tried, or to 1
    ],
)
def test_a_grid_grows_within_what_there_is(name, values, grown):
    arms = {"x": Arm({"optimizer": "momentum" if name == "momentum" else "adam"}, {"lr": RATES, name: values})}
    study = replace(STUDY, arms=arms, cells=CELLS[:1], growth=1)
    rung = {setting: [] for setting in study.grid(CELLS[0])}
    around = study.around(CELLS[0], rung, rung)
    assert {value for _, value in around} - {*values} == grown


def test_results_grow_no_grid():
    stage = Stage(range(4), 4, result="scored")
    study = replace(STUDY, stages=(stage, replace(stage, result="again")))
    assert {run.setting for run in complete(study)} == {of for cell in CELLS for of in study.grid(cell)}


def test_another_process_learns_of_blocks_that_have_a_number():
    task = STUDY.task(CELLS[0], STAGES[0], (RATES[0], 1.0), 0)
    task = pickle.dumps(replace(task, config=replace(task.config, block=numbered("rezero", 19))))
    del BLOCKS["rezero-19"]
    assert pickle.loads(task).config.block in BLOCKS


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


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"defaults"', '"default"', "got `int` - at `$.runs[0].environment`"),
        ('"environment": 0', '"environment": 7', "got `int` - at `$.runs[0].environment`"),
        ('"cell": 0', '"cell": null', "got `int` - at `$.runs[0].environment`"),
        ('"clipped": 0.0', '"clipped": 2.0', "Expected `float` <= 1.0"),
        ('"score"', '"scores"', "unknown field `scores`"),
        ('"block": "highway"', '"block": "rezero-x"', "expected one of plain"),
    ],
)
def test_a_log_of_something_else_is_told_in_a_line(tmp_path, old, new, words):
    path = tmp_path / "log.json"
    path.write_text(logs.dumps(log_of(complete(STUDY)[:3])).replace(old, new, 1), "utf-8")
    with pytest.raises(InputError) as error:
        logs.read(path, SCHEMA, "make it anew")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_says_by_which_criterion_a_setting_was_chosen():
    results = whole(STUDY)
    rows = [row for row in study_command.rows_of(results) if row["result"]]
    assert {row["chosen_by"] for row in rows} <= {"a", "b", "a and b"}
    for cell, criterion in product(CELLS, CRITERIA):
        of = [row["seed"] for row in rows if row["arm"] == cell.arm and criterion in row["chosen_by"].split()]
        assert of == [run.config.seed for run in results.scored(cell, criterion)] == [*range(4)]
    assert len(rows) > 8, "else both criteria have chosen alike"


# --------------------------------------------------------------------------------------- the command


@pytest.fixture
def tiny(workdir, monkeypatch) -> Experiment:
    """A study of small nets, in a module of its own."""
    module = ModuleType("experiments.tiny", "A tiny study.")
    arms = {"x": Arm({}, {"lr": RATES[:2]}), "y": Arm({"block": "plain"}, {"lr": RATES[:2]})}
    images = {"n_train": 60, "n_test": 20}
    stages = (Stage((100,), 1, options=images), Stage(range(2), 1, best=1, options=images, result="scored"))
    criteria = {"loss": lambda run: run.measured.train_loss or 9.0}
    module.STUDY = Study(arms, CELLS, stages, criteria, own=lambda name, arm: Cell(name, 4, 2))
    module.train = partial(study_command.train, columns=("train_loss",))
    module.FIGURES = {"tiny.png": lambda results: empty(sorted(cell.arm for cell in results.finished))}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Experiment(module)


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
    assert LOG.read_bytes() == before
    capsys.readouterr()
    assert tiny.main(["plot", LOG.as_posix()]) == 0
    shown = slashes(capsys.readouterr().out)
    assert "x, 3, 2: lr 0." in shown
    assert "beside it never tried: lr " in shown
    assert "8 runs, 0 of them superfluous; 0 cells unfinished" in shown
    assert "drew viz/digits/tiny.png" in shown
    assert tiny.main(["table", LOG.as_posix()]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("arm,hidden,depth,result,lr,chosen_by,epochs,seed,n_trained,diverged,clipped,")
    assert len(table) == 9
    assert tiny.main([*RUN, "--fresh"]) == 0
    assert len(trained) == 16


def test_what_was_there_outlasts_a_fresh_start_that_is_refused(tiny, refused):
    assert tiny.main(RUN) == 0
    before, beside = LOG.read_bytes(), LOG.with_suffix(".jsonl")
    with lock_log(LOG):
        assert "no other command is making" in refused(tiny.main, [*RUN, "--fresh"])
    beside.write_text("mine", "utf-8")
    assert "expected a StudyRun a line" in refused(tiny.main, [*RUN, "--fresh"])
    assert (LOG.read_bytes(), beside.read_text("utf-8")) == (before, "mine")


def test_a_log_wins_over_what_a_kill_has_left_beside_it(tiny):
    """And what is left goes."""
    assert tiny.main(RUN) == 0
    log = tiny.read(LOG)
    first, *_ = log.runs
    beside = ResultFile(LOG.with_suffix(".jsonl"), tiny.schema)
    beside.append(replace(first, n_trained=17))
    assert tiny.main(RUN) == 0
    assert tiny.read(LOG) == log
    assert not beside.path.exists()
    logs.write(LOG, replace(log, runs=log.runs[:-1]))
    unasked = replace(first, task=replace(first.task, config=replace(first.config, seed=17)))
    for run in (replace(first, n_trained=17), unasked):
        beside.append(run)
    assert tiny.main(RUN) == 0
    assert by_task(tiny.read(LOG).runs) == by_task([*log.runs, unasked])
    assert tiny.read(LOG).runs[0] == first
    beside.append(replace(first, n_trained=17))
    assert tiny.main([*RUN, "--fresh"]) == 0
    assert tiny.read(LOG).runs[0].n_trained == first.n_trained


def test_runs_on_other_images_are_never_mixed(tiny, refused, small_mnist):
    mnist = ["run", "--data-dir", str(small_mnist)]
    assert tiny.main(mnist) == 0
    log = tiny.read(Path("runs/tiny.json"))
    logs.write(LOG, replace(log, runs=log.runs[:3]))
    assert "found 3 of other code" in refused(tiny.main, RUN)


def test_a_log_of_ones_own_arms_that_is_not_there_is_made_with_them(tiny, my_arm, refused):
    found = refused(tiny.main, ["plot", "--with", "my_arm.py"])
    assert "expected a log, found none; make it with" in found
    assert found.endswith(" run --with my_arm.py\n")


@pytest.mark.parametrize(
    ("arm", "found"),
    [
        ('{1: Arm({"block": "plain"}, {"lr": (0.1,)})}', "Expected `str`, got `int`"),
        ('{"a": Arm({"block": "plain"}, {"lr": ()})}', "one without a setting"),
        ('{"a": Arm({"block": "plain"}, {"lr": (__import__("numpy").arange(1, 2)[0],)})}', "int64 is not JSON"),
        ('{"a": Arm({"block": "plain"}, {"lr": 0.1})}', "TypeError"),
        ('{"a": Arm({"block": "plain", "units": 3}, {"lr": (0.1,)})}', "units"),
        ('{"a": Arm({"block": "none"}, {"lr": (0.1,)})}', "expected one of plain"),
        ('{"a": Arm({"frozen": "W_Q"}, {"lr": (0.1,)})}', "expected names among W_in"),
        ('{"a": Arm({}, {"lr": (0.1,)}, lambda lr: 1 / 0)}', "ZeroDivisionError"),
    ],
)
def test_arms_that_make_no_net_are_told_in_a_line(tiny, my_arm, refused, arm, found):
    my_arm.write_text(f"from experiments.study import Arm\nARMS = {arm}\n", "utf-8")
    assert found in refused(tiny.main, [*RUN, "--with", "my_arm.py"])
    assert not Path("runs/tiny-digits-with-my_arm.json").exists()


def test_a_study_has_to_say_in_which_size_it_takes_an_arm(tiny, my_arm, refused):
    tiny.contents.STUDY = replace(tiny.contents.STUDY, own=None)
    again = Experiment(tiny.contents)
    assert "expected a study that takes nets of one's own" in refused(again.main, [*RUN, "--with", "my_arm.py"])


def test_a_cluster_gets_all_runs_that_can_be_made_now(tiny, monkeypatch):
    asked = []

    def stop(function, tasks, *rest, **options):
        asked.append(len(tasks))
        raise jobs.Interrupted("enough")

    monkeypatch.setattr(study_command, "check_scheduler", lambda address: None)
    monkeypatch.setattr(study_command, "run_missing", stop)
    assert tiny.main(RUN) == tiny.main([*RUN, "--scheduler", "tcp://there:1"]) == 1
    assert asked == [2, 4], "the first cell's, and both cells'"


def test_runs_of_other_code_are_refused_unless_they_are_to_be_kept(tiny, refused, capsys):
    assert tiny.main(RUN) == 0
    log = tiny.read(LOG)
    log.runs = [replace(run, environment=replace(run.environment, code="other")) for run in log.runs[:3]]
    logs.write(LOG, log)
    before = LOG.read_bytes()
    assert "expected runs of the training code as it is now, found 3 of other code" in refused(tiny.main, RUN)
    assert LOG.read_bytes() == before
    assert tiny.main([*RUN, "--keep"]) == 0
    assert {run.environment.code for run in tiny.read(LOG).runs} > {"other"}
    assert tiny.main(RUN) == 0
    assert "nothing is missing, but 3 runs by other code; to train all anew: " in capsys.readouterr().out
    LOG.write_bytes(b"of an older form")
    assert "; move the file, or begin anew (--fresh)\n" in refused(tiny.main, RUN)


def test_a_study_that_is_being_widened_trains_its_next_form_into_the_same_log(tiny, workdir, capsys):
    assert tiny.main(RUN) == 0
    wider = {"x": Arm({}, {"lr": RATES})}
    tiny.contents.NEXT = replace(tiny.contents.STUDY, arms=tiny.contents.STUDY.arms | wider)
    again = Experiment(tiny.contents)
    assert again.main(RUN) == 0
    assert len(again.read(LOG).runs) == 8
    assert again.main([*RUN, "--next"]) == 0
    assert len(again.read(LOG).runs) in (9, 11)  # 11 if the new value was chosen
    capsys.readouterr()
    assert again.main(["plot", LOG.as_posix()]) == 0
    assert "of them superfluous" in capsys.readouterr().out
    tiny.contents.NEXT = {"far": tiny.contents.STUDY}  # of which there is no picture yet
    again = Experiment(tiny.contents)
    assert again.main(["run", "--smoke", "--study", "far"]) == 0
    assert slashes(capsys.readouterr().out) == "saved runs/tiny-smoke-far.json\n"
    assert again.main(["table", "runs/tiny-smoke-far.json", "--study", "far"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 9


def test_a_kind_of_net_of_ones_own_is_tuned_and_drawn_beside_ours(tiny, my_arm, capsys, refused, small_mnist):
    run = ["run", "--data-dir", str(small_mnist)]
    assert tiny.main(run) == 0
    committed, own = Path("runs/tiny.json"), Path("runs/tiny-with-my_arm.json")
    ours = committed.read_bytes()
    assert tiny.main([*run, "--with", "my_arm.py"]) == 0
    capsys.readouterr()
    assert committed.read_bytes() == ours
    assert {of.cell for of in tiny.read(own).runs} == {Cell("mine", 4, 2)}
    assert tiny.main(["table", own.as_posix()]) == 0, "without the file that has the arm"
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.startswith("arm,hidden,depth,result,setting,chosen_by,epochs")
    assert first.startswith("mine,4,2,,")
    for words in ([], [own.as_posix()]):
        assert tiny.main(["table", *words, "--with", "my_arm.py"]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert [row.partition(",")[0] for row in rows] == ["arm", *["x"] * 4, *["y"] * 4, *["mine"] * 4]
        assert tiny.main(["plot", *words, "--with", "my_arm.py"]) == 0
        shown = slashes(capsys.readouterr().out)
        assert "12 runs, 0 of them superfluous; 0 cells unfinished\n\ndrew viz/with-my_arm/tiny.png" in shown
    committed.write_bytes(ours.replace(b"experiments tiny", b"experiments large"))
    assert "expected a log of tiny, found one of 'python -m experiments large run" in refused(tiny.main, ["plot"])
    committed.write_bytes(ours)
    Path("other.py").write_text("ARMS = {}", "utf-8")
    assert "expected ARMS = " in refused(tiny.main, [*run, "--with", "other.py"])
    Path("taken.py").write_text(my_arm.read_text("utf-8").replace('{"mine": Arm', '{"x": Arm'), "utf-8")
    assert "expected names that no other arm has, found 'x'" in refused(tiny.main, [*run, "--with", "taken.py"])
