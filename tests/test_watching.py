"""A run as it is watched: the log after every epoch."""

import dataclasses
from pathlib import Path

import pytest
from helpers import (
    ROOT,
    SOME_ENVIRONMENT,
    files_below,
    group_lives,
    limited_file_size,
    wait_until,
    without_seconds,
)
from picture_helpers import made_up_run

import conv_highway_networks as cn
import highway_networks as hn
import run_log
import training_job
from run_log import DatasetInfo, RunLog
from training_job import REST, LogSoFar

SHORT = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "3", "--depth", "2")
CONV = ("--net", "digits", "--n-train", "100", "--n-held-out", "20", "--n-test", "20")
UNFINISHED = Path("log.unfinished.json")


def read(path: Path, config: type = hn.Config) -> RunLog:
    return run_log.read(path, RunLog[config], "a remedy")


# ------------------------------------------------------------------------------ the log after every epoch


@pytest.mark.parametrize("old", [None, "a whole log"])
def test_the_log_is_there_after_every_epoch_and_gives_way_to_the_finished_one(workdir, monkeypatch, old):
    """Each run is trained as ever; the log is looked at before its next epoch."""
    monkeypatch.setattr(training_job, "REST", 0)
    if old:
        Path("log.json").write_text(old)
    train_epoch, seen = hn.Training._train_epoch, []

    def look_first(training):
        log = read(UNFINISHED)
        seen.append([(run.config.block, run.history.epoch[-1]) for run in log.runs])
        assert not log.finished
        assert log.runs[-1].history == training.history
        assert (Path("log.json").read_text() if Path("log.json").exists() else None) == old
        return train_epoch(training)

    monkeypatch.setattr(hn.Training, "_train_epoch", look_first)
    assert hn.main([*SHORT, "--out", "log.json"]) == 0
    first = [[("highway", epoch)] for epoch in range(3)]
    assert seen == [*first, *([("highway", 3), ("plain", epoch)] for epoch in range(3))]
    assert list(files_below(workdir)) == ["log.json"]
    assert read(Path("log.json")).finished


def test_a_job_that_is_not_to_be_saved_leaves_nothing(workdir):
    assert hn.main([*SHORT, "--no-save"]) == 0
    assert files_below(workdir) == {}


def test_runs_side_by_side_that_are_killed_leave_a_log_and_go_on_to_the_same_one(tmp_path, monkeypatch, start):
    words = [*CONV, "--block", "both", "--epochs", "30", "--out", "log.json"]
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert cn.main(words) == 0
    whole = read(Path("log.json"), cn.ConvConfig).runs

    (tmp_path / "cut").mkdir()
    monkeypatch.chdir(tmp_path / "cut")
    words += ["--jobs", "2"]
    process = start(str(ROOT / "conv_highway_networks.py"), *words)
    wait_until(lambda: UNFINISHED.exists() and len(read(UNFINISHED, cn.ConvConfig).runs) == 2, "both runs")
    process.kill()
    process.communicate()
    wait_until(lambda: not group_lives(process.pid), "the workers' end")
    left = read(UNFINISHED, cn.ConvConfig)
    assert not left.finished
    assert any(not run.ended for run in left.runs)
    for run in left.runs:
        (expected,) = (other for other in whole if other.config == run.config)
        rows = len(run.history.epoch)
        assert run.history.train_loss == expected.history.train_loss[:rows]
        assert run.gate_means == (expected.gate_means and expected.gate_means[:rows])
    assert not Path("log.json").exists()

    assert cn.main(words) == 0
    runs = read(Path("log.json"), cn.ConvConfig).runs
    assert [without_seconds(run) for run in runs] == [without_seconds(run) for run in whole]
    assert sorted(path.name for path in Path().iterdir() if not path.name.startswith(".")) == ["log.json"]


def log_of(*, runs: list, finished: bool, command: str = "a command", dataset: str = "digits") -> RunLog:
    return RunLog.new(command, DatasetInfo(dataset, 50, 20), runs=runs, finished=finished)


def test_processes_add_their_runs_to_those_of_the_others(workdir, monkeypatch):
    monkeypatch.setattr(training_job, "REST", 0)
    first, second = (made_up_run("highway", 2, seed, 3, False) for seed in (0, 1))
    begun = made_up_run("highway", 2, 0, 3, True)  # of which there are two rows
    one, other = (LogSoFar(UNFINISHED, log_of, first.config) for _ in range(2))
    one(begun)
    other(second)
    assert read(UNFINISHED).runs == [begun, second]
    one(first)
    assert read(UNFINISHED).runs == [first, second]


def test_each_run_keeps_the_environment_that_it_was_made_in(workdir):
    runs = [made_up_run("highway", 2, seed, 3, False) for seed in (0, 1)]
    earlier = log_of(runs=runs[:1], finished=False)
    run_log.write(UNFINISHED, dataclasses.replace(earlier, environment=SOME_ENVIRONMENT))
    LogSoFar(UNFINISHED, log_of, runs[1].config)(runs[1])
    log = read(UNFINISHED)
    assert log.environment == run_log.environment(1)
    assert [run.environment for run in log.runs] == [SOME_ENVIRONMENT, None]


@pytest.mark.parametrize("change", [{"command": "another"}, {"dataset": "mnist"}], ids=str)
def test_what_another_job_has_left_is_replaced(workdir, change):
    runs = [made_up_run("highway", 2, seed, 3, False) for seed in (0, 1)]
    run_log.write(UNFINISHED, log_of(runs=runs[:1], finished=False, **change))
    LogSoFar(UNFINISHED, log_of, runs[1].config)(runs[1])
    assert read(UNFINISHED).runs == runs[1:]


def test_one_part_in_a_hundred_of_the_time_is_spent_on_it(workdir, monkeypatch):
    times = [10.0, 10.5, 10.5 + 0.5 * REST - 0.1, 10.5 + 0.5 * REST, 99.0]
    run, now = made_up_run("highway", 2, 0, 3, False), iter(times)
    monkeypatch.setattr(training_job.time, "monotonic", lambda: next(now))
    so_far = LogSoFar(UNFINISHED, log_of, run.config)
    for written in (True, False, True):
        UNFINISHED.unlink(missing_ok=True)
        so_far(run)
        assert UNFINISHED.exists() == written


def test_a_disk_that_will_not_have_it_ends_the_job_with_a_line(workdir, capsys):
    with limited_file_size(500):
        assert hn.main([*SHORT, "--out", "log.json"]) == 1
    error = capsys.readouterr().err
    assert "interrupted: log.unfinished.json: expected a place to write, found: File too large" in error
    assert "0 of 2 runs are safe in log.digits.jsonl; to continue: python" in error
    assert files_below(workdir) == {}


def test_what_is_no_log_in_its_place_is_refused_before_training_and_left_alone(workdir, refused, monkeypatch):
    monkeypatch.setattr(hn.Training, "__init__", lambda *_: pytest.fail("training has begun"))
    UNFINISHED.write_text("a diary")
    assert f"{UNFINISHED}: expected a valid log" in refused(hn.main, [*SHORT, "--out", "log.json"])
    assert files_below(workdir) == {UNFINISHED.name: b"a diary"}


def test_fresh_forgets_what_was_there(workdir):
    UNFINISHED.write_text("a diary")
    assert hn.main([*SHORT, "--out", "log.json", "--fresh"]) == 0
    assert list(files_below(workdir)) == ["log.json"]
