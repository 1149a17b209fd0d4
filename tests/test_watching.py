"""A run as it is watched: the log after every epoch, what TensorBoard is told, pictures that are drawn as it grows."""

import dataclasses
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    ROOT,
    SOME_ENVIRONMENT,
    assert_says,
    files_below,
    group_lives,
    limited_file_size,
    wait_until,
    without_seconds,
)
from made_up import made_up_log, made_up_run

import conv_recipes as cn
import highway_networks as hn
import visualize_highway_networks as viz
from highway_lab import jobs, logs
from highway_lab.cli import InputError
from highway_lab.console import full_name
from highway_lab.jobs import REST, LogSoFar
from highway_lab.logs import DatasetInfo, RunLog
from highway_lab.training import Training

SHORT = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "3", "--depth", "2")
CONV = ("--net", "digits", "--n-train", "100", "--n-validation", "20", "--n-test", "20")
UNFINISHED = Path("log.unfinished.json")
HPARAMS = ("experiment", "session_start_info", "session_end_info")


def read(path: Path, config: type = hn.Config) -> RunLog:
    return logs.read(path, RunLog[config], "a remedy")


# ------------------------------------------------------------------------------ the log after every epoch


@pytest.mark.parametrize("old", [None, "a whole log"])
def test_the_log_is_there_after_every_epoch_and_gives_way_to_the_finished_one(workdir, monkeypatch, old):
    """Each run is trained as ever; the log is looked at before its next epoch."""
    monkeypatch.setattr(jobs, "REST", 0)
    if old:
        Path("log.json").write_text(old)
    train_epoch, seen = Training._train_epoch, []

    def look_first(training):
        log = read(UNFINISHED)
        seen.append([(run.config.block, run.history.epoch[-1]) for run in log.runs])
        assert not log.finished
        assert log.runs[-1].history == training.history
        assert (Path("log.json").read_text() if Path("log.json").exists() else None) == old
        return train_epoch(training)

    monkeypatch.setattr(Training, "_train_epoch", look_first)
    assert hn.main([*SHORT, "--out", "log.json"]) == 0
    first = [[("highway", epoch)] for epoch in range(3)]
    assert seen == [*first, *([("highway", 3), ("plain", epoch)] for epoch in range(3))]
    assert list(files_below(workdir)) == ["log.json"]
    assert read(Path("log.json")).finished


@pytest.mark.parametrize("old", ["--keep", "--fresh"])
@pytest.mark.parametrize("there", ["a finished log", "notes"])
def test_what_no_unfinished_job_has_left_is_neither_replaced_nor_removed(workdir, there, old, capsys):
    if there == "notes":
        UNFINISHED.write_text('{"my": "notes"}')
    else:
        logs.write(UNFINISHED, made_up_log())
    before = UNFINISHED.read_bytes()
    with pytest.raises(SystemExit) as stopped:
        hn.main([*SHORT, "--out", "log.json", old])
    assert stopped.value.code == 2
    assert re.search(r"log.unfinished.json: expected .*; move", capsys.readouterr().err)
    assert files_below(workdir) == {"log.unfinished.json": before}


def test_a_job_that_is_not_to_be_saved_leaves_nothing(workdir):
    assert hn.main([*SHORT, "--no-save"]) == 0
    assert files_below(workdir) == {}


def test_runs_side_by_side_that_are_killed_leave_a_log_and_go_on_to_the_same_one(tmp_path, monkeypatch, start):
    words = [*CONV, "--block", "both", "--epochs", "40", "--out", "log.json", "--tensorboard", "events"]
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert cn.main(words) == 0
    whole = read(Path("log.json"), cn.ConvConfig).runs

    (tmp_path / "cut").mkdir()
    monkeypatch.chdir(tmp_path / "cut")
    words += ["--jobs", "2"]
    process = start(str(ROOT / "conv_highway_networks.py"), *words)
    wait_until(UNFINISHED.exists, "a run")  # both, unless they wrote at the same moment
    process.kill()
    process.communicate()
    wait_until(lambda: not group_lives(process.pid), "the workers' end")
    left = read(UNFINISHED, cn.ConvConfig)
    assert not left.finished
    for run in left.runs:  # which may have reached their end: a worker notices within a second that its parent is gone
        (expected,) = (other for other in whole if other.config == run.config)
        rows = len(run.history.epoch)
        assert run.history.train_loss == expected.history.train_loss[:rows]
        assert run.gate_means == (expected.gate_means and expected.gate_means[:rows])
    assert not Path("log.json").exists()

    assert cn.main(words) == 0
    runs = read(Path("log.json"), cn.ConvConfig).runs
    assert [without_seconds(run) for run in runs] == [without_seconds(run) for run in whole]
    assert sorted(path.name for path in Path().iterdir() if not path.name.startswith(".")) == ["events", "log.json"]
    for run in runs:
        check_events(Path("events", full_name("digits", run.config)), run)


def log_of(*, runs: list, finished: bool, command: str = "a command", dataset: str = "digits") -> RunLog:
    return RunLog.new(command, DatasetInfo(dataset, 50, 20), runs=runs, finished=finished)


def test_processes_add_their_runs_to_those_of_the_others(workdir, monkeypatch):
    monkeypatch.setattr(jobs, "REST", 0)
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
    logs.write(UNFINISHED, dataclasses.replace(earlier, environment=SOME_ENVIRONMENT))
    LogSoFar(UNFINISHED, log_of, runs[1].config)(runs[1])
    log = read(UNFINISHED)
    assert log.environment == logs.environment(1)
    assert [run.environment for run in log.runs] == [SOME_ENVIRONMENT, None]


@pytest.mark.parametrize("change", [{"command": "another"}, {"dataset": "mnist"}], ids=str)
def test_what_another_job_has_left_is_replaced(workdir, change):
    runs = [made_up_run("highway", 2, seed, 3, False) for seed in (0, 1)]
    logs.write(UNFINISHED, log_of(runs=runs[:1], finished=False, **change))
    LogSoFar(UNFINISHED, log_of, runs[1].config)(runs[1])
    assert read(UNFINISHED).runs == runs[1:]


def test_one_part_in_a_hundred_of_the_time_is_spent_on_it(workdir, monkeypatch):
    times = [10.0, 10.5, 10.5 + 0.5 * REST - 0.1, 10.5 + 0.5 * REST, 99.0]
    run, now = made_up_run("highway", 2, 0, 3, False), iter(times)
    monkeypatch.setattr(jobs.time, "monotonic", lambda: next(now))
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
    monkeypatch.setattr(Training, "__init__", lambda *_: pytest.fail("training has begun"))
    UNFINISHED.write_text("a diary")
    assert f"{UNFINISHED}: expected a valid log" in refused(hn.main, [*SHORT, "--out", "log.json"])
    assert files_below(workdir) == {UNFINISHED.name: b"a diary"}


def test_somebody_elses_log_that_comes_to_lie_there_ends_the_job_with_a_line(workdir, monkeypatch, capsys):
    monkeypatch.setattr(jobs, "REST", 0)
    train_epoch = Training._train_epoch

    def put_another_there(training):
        logs.write(UNFINISHED, made_up_log())
        return train_epoch(training)

    monkeypatch.setattr(Training, "_train_epoch", put_another_there)
    assert hn.main([*SHORT, "--out", "log.json"]) == 1
    error = capsys.readouterr().err
    assert re.search("interrupted: log.unfinished.json: expected what an unfinished job has left.*; to continue", error)
    assert read(UNFINISHED).finished


def test_fresh_forgets_what_an_unfinished_job_has_left(workdir):
    LogSoFar(UNFINISHED, log_of, hn.Config())(made_up_run("highway", 2, 0, 3, True))
    assert hn.main([*SHORT, "--out", "log.json", "--fresh"]) == 0
    assert list(files_below(workdir)) == ["log.json"]


# ------------------------------------------------------------------------------------------- TensorBoard


def events(folder: Path) -> Iterator:
    """The events in a folder's files, in their order, checksums checked: what a START does not void."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for path in sorted(folder.iterdir()):
        content, place = path.read_bytes(), 0
        while place < len(content):
            length, check = struct.unpack_from("<QI", content, place)
            assert check == masked_crc32c(content[place : place + 8])
            record = content[place + 12 : place + 12 + length]
            assert struct.unpack_from("<I", content, place + 12 + length) == (masked_crc32c(record),)
            place += 16 + length
            event = Event.FromString(record)
            if event.session_log.status == SessionLog.START:
                found = [earlier for earlier in found if earlier.step < event.step]
            found.append(event)
    return found


def check_events(folder: Path, run: logs.Run) -> None:
    """A folder holds every number of a run once, and nothing else."""
    shown = [(value.tag, event.step, value) for event in events(folder) for value in event.summary.value]
    keys = [(tag, step) for tag, step, _ in shown]
    assert len(set(keys)) == len(keys)
    history, expected = run.history, {}
    for tag, column in {
        **{"loss/train": history.train_loss, "accuracy/train": history.train_score, "gradient_norm": history.grad_norm},
        **{"loss/test": history.test_loss, "accuracy/test": history.test_score},
        **{"loss/validation": history.validation_loss, "accuracy/validation": history.validation_score},
    }.items():
        expected |= {(tag, epoch): value for epoch, value in enumerate(column) if value is not None}
    for epoch, means in enumerate(run.gate_means or []):
        expected |= {(f"T/block_{l}", epoch): T for l, T in enumerate(means, start=1)}
    found = {(tag, step): value.simple_value for tag, step, value in shown if value.HasField("simple_value")}
    assert found == {key: np.float32(value) for key, value in expected.items()}
    assert {tag for tag, _, value in shown if not value.WhichOneof("value")} == {
        f"_hparams_/{name}" for name in HPARAMS
    }
    histograms = {step: value.histo for tag, step, value in shown if tag == "T/blocks"}
    assert list(histograms) == (history.epoch if run.gate_means else [])
    for epoch, histogram in histograms.items():
        assert histogram.num == sum(histogram.bucket) == run.config.depth
        assert histogram.sum == pytest.approx(sum(run.gate_means[epoch]))
        assert histogram.bucket_limit[0] <= min(run.gate_means[epoch])
        assert max(run.gate_means[epoch]) <= histogram.bucket_limit[-1]


def hyperparameters(folder: Path) -> dict[str, object]:
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    (given,) = (
        HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info.hparams
        for event in events(folder)
        for value in event.summary.value
        if value.tag == "_hparams_/session_start_info"
    )
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in given.items()}


def test_tensorboard_is_told_what_the_log_says_of_each_run_in_a_folder_of_its_own(workdir):
    assert hn.main([*SHORT, "--seeds", "0,1", "--out", "log.json", "--tensorboard", "new/events"]) == 0
    runs = read(Path("log.json")).runs
    folders = {full_name("digits", run.config): run for run in runs}
    assert {path.name for path in Path("new/events").iterdir()} == set(folders)
    assert next(iter(folders)).startswith("digits-highway-depth-2-seed-0-")
    for name, run in folders.items():
        check_events(Path("new/events", name), run)
        assert hyperparameters(Path("new/events", name)) == dataclasses.asdict(run.config)


def test_a_run_on_other_data_or_of_another_config_has_another_name(digits):
    config = hn.Config(lr=0.01)
    assert len({full_name("mnist", config), full_name("digits", config), full_name("mnist", hn.Config())}) == 3


def test_a_run_that_diverged_is_told_without_what_is_not_finite(workdir):
    from highway_lab.tensorboard import EventFile

    run = made_up_run("highway", 2, 0, 3, True)
    run.gate_means[1] = [None, None]
    EventFile(Path("events"), "digits", run.config)(run)
    (folder,) = Path("events").iterdir()
    values = [(event.step, value) for event in events(folder) for value in event.summary.value]
    assert {step for step, value in values if value.WhichOneof("value")} == {0}


def test_a_run_that_is_made_again_replaces_what_it_was(workdir):
    words = [*SHORT, "--block", "highway", "--out", "log.json", "--tensorboard", "events"]
    assert hn.main(words) == 0
    (file,) = Path("events").rglob("events.*")
    file.rename(file.with_name("events.earlier"))  # a second passes
    assert hn.main(words) == 0
    (run,) = read(Path("log.json")).runs
    check_events(file.parent, run)


def test_nothing_of_it_is_imported_without_the_flag(tmp_path):
    words = [*SHORT, "--no-save"]
    program = f"import sys, highway_networks; highway_networks.main({words}); print('tensorboardX' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("program", [hn, cn])
def test_without_tensorboardX_the_flag_is_refused_before_anything_is_read(workdir, refused, monkeypatch, program):
    for name in [*(name for name in sys.modules if name.startswith("tensorboardX.")), "tensorboardX"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "highway_lab.tensorboard", raising=False)
    monkeypatch.setattr(program, "load_dataset", lambda *_: pytest.fail("data are read"))
    error = refused(program.main, ["--tensorboard", "events"])
    assert "--tensorboard: expected tensorboardX, found none; pip install 'highway-networks[tensorboard]'" in error
    assert files_below(workdir) == {}


def test_a_folder_that_cannot_be_made_is_refused_before_training(workdir, refused, monkeypatch):
    monkeypatch.setattr(Training, "__init__", lambda *_: pytest.fail("training has begun"))
    Path("events").write_text("a file")
    error = refused(hn.main, [*SHORT, "--out", "log.json", "--tensorboard", "events"])
    assert re.search(r"expected a place to write, found: events/.*: Not a directory; choose", error)
    assert files_below(workdir) == {"events": b"a file"}


def test_a_file_in_the_place_of_a_runs_folder_is_refused_before_training(workdir, refused, monkeypatch):
    monkeypatch.setattr(Training, "__init__", lambda *_: pytest.fail("training has begun"))
    Path("events").mkdir()
    of_the_last = hn.Config(seed=1, block="highway", depth=2, hidden=4, n_train=50, n_test=20, epochs=3)
    place = Path("events", full_name("digits", of_the_last))
    place.write_text("a file")
    error = refused(hn.main, [*SHORT, "--seeds", "0,1", "--out", "log.json", "--tensorboard", "events"])
    assert f"{place}/events: expected a place to write, found: {place}: File exists; choose another path" in error
    assert files_below(workdir) == {str(place): b"a file"}


def test_a_disk_that_is_full_ends_the_job_with_a_line(workdir, capsys):
    with limited_file_size(1000):
        assert hn.main([*SHORT, "--no-save", "--tensorboard", "events"]) == 1
    error = capsys.readouterr().err
    assert re.search("interrupted: events/digits-highway.*/events: expected a place to write, found: File too", error)
    assert error.endswith("choose another path or free the disk; nothing is kept with --no-save\n")


# ---------------------------------------------------------------------------------------- drawn as it grows


def unfinished(epochs: int, rows: int) -> RunLog:
    log = made_up_log(blocks=["plain"], epochs=rows)
    log.runs[0].config, log.finished = dataclasses.replace(log.runs[0].config, epochs=epochs), False
    return log


def play(monkeypatch, *states) -> None:
    """Watch log.json through these states: each puts something there while the watcher waits."""
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.plain_loss_collapse,))
    left = iter(states)
    viz.watch(Path("log.json"), None, lambda seconds: next(left, lambda: pytest.fail("waits for ever"))())


def put(name: str | Path, log: RunLog | str | None):
    def change() -> None:
        if log is None:
            Path(name).unlink()
        elif isinstance(log, str):
            Path(name).write_text(log)
        else:
            logs.write(name, log)

    return change


def finish() -> None:
    put("log.json", made_up_log(blocks=["plain"]))()
    put(UNFINISHED, None)()


def nothing() -> None:
    pass


def test_a_log_is_waited_for_and_drawn_whenever_it_has_grown_until_it_is_finished(workdir, monkeypatch, capsys):
    growing = [put(UNFINISHED, unfinished(3, rows)) for rows in (1, 2)]
    play(monkeypatch, nothing, growing[0], nothing, nothing, growing[1], nothing, finish)
    assert capsys.readouterr().out.splitlines() == [
        "waiting for log.json",
        "drew 1 pictures in viz/log.unfinished, unfinished: epoch 1 of 3",
        "drew 1 pictures in viz/log.unfinished, unfinished: epoch 2 of 3",
        "drew 1 pictures in viz/log, finished",
    ]


def test_an_earlier_log_gives_way_to_what_is_under_way(workdir, monkeypatch, capsys):
    put("log.json", made_up_log(blocks=["plain"]))()
    put(UNFINISHED, unfinished(3, 1))()
    play(monkeypatch, finish)
    assert [line.split(", ")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "unfinished: epoch 1 of 3",
        "finished",
    ]


def test_what_an_earlier_job_has_left_unfinished_does_not_hide_a_later_log(workdir, monkeypatch, capsys):
    put(UNFINISHED, unfinished(3, 1))()
    put("log.json", made_up_log(blocks=["plain"]))()
    os.utime(UNFINISHED, ns=(0, 0))
    play(monkeypatch)
    assert capsys.readouterr().out == "drew 1 pictures in viz/log, finished\n"


def test_one_who_watches_what_is_unfinished_sees_the_end(workdir, monkeypatch, capsys):
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.plain_loss_collapse,))
    moments = iter([put("log.json", made_up_log(blocks=["plain"]))])  # waiting longer is an error
    viz.watch(UNFINISHED, None, lambda seconds: next(moments)())
    assert capsys.readouterr().out == "waiting for log.json\ndrew 1 pictures in viz/log, finished\n"


@pytest.mark.parametrize("path", [".", "/", "missing/log.json"])
def test_a_log_that_cannot_come_is_not_waited_for(workdir, refused, path):
    assert f"found neither at {path}; name another" in refused(viz.main, [path, "--watch"])


def test_a_log_that_is_caught_broken_is_an_error_if_it_stays_so(workdir, monkeypatch, capsys):
    play(monkeypatch, put("log.json", "{"), put("log.json", made_up_log(blocks=["plain"])))
    assert capsys.readouterr().out == "waiting for log.json\ndrew 1 pictures in viz/log, finished\n"
    put("log.json", "{")()
    with pytest.raises(InputError) as error:
        play(monkeypatch, nothing)
    assert_says(error.value, "log.json: expected a valid log")


def test_a_log_that_gives_way_while_it_is_drawn_is_no_error(workdir, monkeypatch, capsys):
    put(UNFINISHED, unfinished(3, 1))()
    save = viz.save
    monkeypatch.setattr(viz, "save", lambda *a: (UNFINISHED.exists() and finish(), save(*a)))
    play(monkeypatch, nothing)
    assert capsys.readouterr().out == "drew 1 pictures in viz/log, finished\n"


def test_the_command_watches_one_log(workdir, refused, capsys):
    put("log.json", made_up_log(blocks=["plain"]))()
    assert viz.main(["log.json", "--watch", "--out", "here"]) == 0
    assert capsys.readouterr().out == "drew 2 pictures in here, finished\n"
    assert "--watch: expected one LOG.json, found 0" in refused(viz.main, ["--watch"])
    assert "--watch: expected one LOG.json, found 2" in refused(viz.main, ["log.json", "log.json", "--watch"])
