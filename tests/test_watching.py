"""A job as it is watched: the epochs that it has trained so far, and pictures that are drawn as they grow."""

import dataclasses
import os
from pathlib import Path

import pytest
from helpers import refused_with, slashes
from made_up import made_up_log, made_up_run

import highway_networks as hn
import visualize_highway_networks as viz
from highway_lab import logs, programs
from highway_lab.commands import EpochLines, read_unfinished
from highway_lab.jobs import ResultFile
from highway_lab.logs import RunRecord, joined
from highway_lab.training import Training

SHORT = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "3", "--depth", "2")
LINES = Path("log.digits.jsonl")


@pytest.mark.parametrize("old", [None, "a whole log"])
def test_each_epoch_is_a_line_until_the_log_is_finished(workdir, monkeypatch, old):
    """Each run is trained as ever; the lines are looked at before its next epoch."""
    if old:
        Path("log.json").write_text(old, "utf-8")
    train_epoch, seen = Training._train_epoch, []

    def look_first(training):
        log = read_unfinished(LINES, hn.Config)
        seen.append([(run.config.block, run.history.epoch[-1]) for run in log.runs])
        assert (log.finished, log.dataset.name) == (False, "digits")
        assert log.runs[-1].history == training.history
        assert (Path("log.json").read_text("utf-8") if Path("log.json").exists() else None) == old
        assert {path.name for path in workdir.iterdir()} - {"log.json"} == {LINES.name, ".log.json.lock"}
        return train_epoch(training)

    monkeypatch.setattr(Training, "_train_epoch", look_first)
    assert programs.main([*SHORT, "--out", "log.json", "--replace"]) == 0
    first = [[("highway", epoch)] for epoch in range(3)]
    assert seen == [*first, *([("highway", 3), ("plain", epoch)] for epoch in range(3))]
    assert [path.name for path in workdir.iterdir()] == ["log.json"]
    assert viz.read_log(Path("log.json")).finished


def test_records_of_epochs_put_together_are_the_run():
    run = made_up_run("highway", 2, 0, 3, False)
    other = made_up_run("plain", 2, 0, 3, False)
    rows = [run.rows(start, stop) for start, stop in ((0, 1), (1, 2), (2, 4))]
    assert joined([rows[0], other, rows[1], rows[2]]) == [run, other]
    assert joined([*rows[:2], rows[0], *rows[1:]]) == [run], "a run that began again"
    assert joined([*rows, *rows[1:]]) == [run], "epochs that are told again"
    assert joined([*rows, run]) == [run]
    assert joined(rows[1:]) == []
    assert [record.whole for record in (*rows, run)] == [False, False, False, True]


def unfinished(epochs: int, rows: int) -> RunRecord:
    (run,) = made_up_log(blocks=["plain"], epochs=rows).runs
    return dataclasses.replace(run, config=dataclasses.replace(run.config, epochs=epochs))


def play(monkeypatch, *states) -> None:
    """Watch log.json through these states: each puts something there while the watcher waits."""
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.training_loss,))
    left = iter(states)
    viz.watch("log.json", None, lambda seconds: next(left, lambda: pytest.fail("waits for ever"))())


def train_to(epochs: int):
    def change() -> None:
        LINES.unlink(missing_ok=True)
        EpochLines(ResultFile(LINES, RunRecord[hn.Config]), "none")(unfinished(3, epochs))

    return change


def finish() -> None:
    logs.write("log.json", made_up_log(blocks=["plain"]))
    LINES.unlink(missing_ok=True)


def nothing() -> None:
    pass


def said(capsys) -> list[str]:
    return slashes(capsys.readouterr().out).splitlines()


def test_a_log_is_waited_for_and_drawn_as_it_grows(workdir, monkeypatch, capsys):
    play(monkeypatch, nothing, train_to(1), nothing, nothing, train_to(2), nothing, finish)
    assert said(capsys) == [
        "waiting for log.json",
        "drew 1 pictures in viz/log.digits, unfinished: epoch 1 of 3",
        "drew 1 pictures in viz/log.digits, unfinished: epoch 2 of 3",
        "drew 1 pictures in viz/log, finished",
    ]


def test_what_an_earlier_job_has_left_does_not_hide_a_later_log(workdir, monkeypatch, capsys):
    logs.write("log.json", made_up_log(blocks=["plain"]))
    train_to(1)()
    os.utime(LINES, ns=(0, 0))
    play(monkeypatch)
    assert said(capsys) == ["drew 1 pictures in viz/log, finished"]


def test_the_epochs_of_a_killed_job_are_drawn_by_name(workdir, refused, capsys):
    train_to(2)()
    assert viz.main([LINES.name]) == 0
    assert said(capsys)[0].startswith("drew viz/log.digits/")
    LINES.rename("log.jsonl")
    assert "log.jsonl: expected runs in a file named LOG.DATASET.jsonl" in refused(viz.main, ["log.jsonl"])


@pytest.mark.parametrize("path", [".", "/", "missing/log.json"])
def test_a_log_that_cannot_come_is_not_waited_for(workdir, refused, path):
    assert f"found neither at {path}; name another" in refused(viz.main, [path, "--watch"])


def test_a_log_that_is_caught_broken_is_an_error_if_it_stays_so(workdir, monkeypatch, capsys):
    play(monkeypatch, lambda: Path("log.json").write_text("{", "utf-8"), finish)
    assert said(capsys) == ["waiting for log.json", "drew 1 pictures in viz/log, finished"]
    Path("log.json").write_text("{", "utf-8")
    with refused_with("log.json: expected a log of this version"):
        play(monkeypatch, nothing)


def test_the_command_watches_one_log(workdir, refused, capsys):
    finish()
    assert viz.main(["log.json", "--watch", "--out", "here"]) == 0
    assert said(capsys) == ["drew 2 pictures in here, finished"]
    for logs_named in ([], ["log.json", "log.json"]):
        error = refused(viz.main, [*logs_named, "--watch"])
        assert f"--watch: expected one LOG.json, found {len(logs_named)}" in error
