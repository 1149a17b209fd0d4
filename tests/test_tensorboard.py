"""`--tensorboard DIR`: TensorBoard is told what the log says, in a folder for each run."""

import dataclasses
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import files_below
from made_up import made_up_run

from highway_lab import datasets, logs, programs
from highway_lab.console import name_files
from visualize_highway_networks import read_log

SHORT = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "3", "--depth", "2")
HPARAMS = {f"_hparams_/{name}" for name in ("experiment", "session_start_info", "session_end_info")}


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


def check_events(folder: Path, run: logs.RunRecord) -> None:
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
    assert {tag for tag, _, value in shown if not value.WhichOneof("value")} == HPARAMS


def hyperparameters(folder: Path) -> dict[str, object]:
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    values = {value.tag: value for event in events(folder) for value in event.summary.value}
    content = values["_hparams_/session_start_info"].metadata.plugin_data.content
    given = HParamsPluginData.FromString(content).session_start_info.hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in given.items()}


def test_tensorboard_is_told_what_the_log_says_of_each_run(workdir):
    assert programs.main([*SHORT, "--seeds", "0,1", "--out", "log.json", "--tensorboard", "new/events"]) == 0
    runs = read_log(Path("log.json")).runs
    folders = {name_files("digits", run.config): run for run in runs}
    assert {path.name for path in Path("new/events").iterdir()} == set(folders)
    assert next(iter(folders)).startswith("digits-highway-depth-2-seed-0-")
    for name, run in folders.items():
        check_events(Path("new/events", name), run)
        assert hyperparameters(Path("new/events", name)) == dataclasses.asdict(run.config)


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
    assert programs.main(words) == 0
    (file,) = Path("events").rglob("events.*")
    file.rename(file.with_name("events.earlier"))  # a second passes
    assert programs.main(words) == 0
    (run,) = read_log(Path("log.json")).runs
    check_events(file.parent, run)


def test_without_tensorboardX_the_flag_is_refused_before_anything_is_read(workdir, refused, monkeypatch):
    for name in [*(name for name in sys.modules if name.startswith("tensorboardX.")), "tensorboardX"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "highway_lab.tensorboard", raising=False)
    assert programs.main([*SHORT, "--out", "log.json"]) == 0, "nothing of it is imported without the flag"
    monkeypatch.setattr(datasets, "_load_digits", lambda *_: pytest.fail("data are read"))
    error = refused(programs.main, ["--tensorboard", "events"])
    assert '--tensorboard: expected tensorboardX, found none; pip install "highway-networks[tensorboard]"' in error
    assert [*files_below(workdir)] == ["log.json"]
