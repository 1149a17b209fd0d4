"""Logs, finished runs and checkpoints with something changed in them: read as they stand, or refused in one line."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, assert_same_bits, assert_says, contents, files_below, holder, places, small_log, train_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from experiments.__main__ import NAMES
from experiments.common import load
from highway_lab import checkpoints, logs
from highway_lab.jobs import ResultFile, sealed
from highway_lab.logs import RunLog, RunRecord
from highway_lab.training import Training
from highway_networks import Config, InputError
from pages import BENCHMARKS

pytestmark = pytest.mark.slow
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
SOME = settings(MANY, max_examples=MANY.max_examples // 3)  # of each kind of log
FEW = settings(MANY, max_examples=10)
NUMBERS = (None, -1, 0, 42, 1e15, 1e99, 1e308, math.nan, 10**18, 10**400, "a", True, [], {})
TEXTS = ("", "no such", "../../escaped", None, 7)
SMALL = 3  # entries of a list that are kept in a small form of a log


@st.composite
def changed(draw: Callable, text: str) -> str:
    """JSON in which one entry is left out, cut, doubled, renamed or replaced."""
    raw = json.loads(text)
    path = draw(st.sampled_from(all_places(text)))
    inside, last = holder(raw, path), path[-1]
    value = inside[last]
    if draw(st.integers(0, 5)) == 0:
        del inside[last]
    elif isinstance(value, dict):
        inside[last] = draw(st.sampled_from([{}, None, {f"x{name}": of for name, of in value.items()}]))
    elif isinstance(value, list):
        inside[last] = draw(st.sampled_from([[], None, value[: len(value) // 2], value[1:], value + value[-1:]]))
    else:
        inside[last] = draw(st.sampled_from(TEXTS if isinstance(value, str) else NUMBERS))
    return json.dumps(raw)


@cache
def all_places(text: str) -> list[tuple]:
    return list(places(json.loads(text)))


def assert_valid_or_refused(action: Callable[[], object], *parts: object) -> None:
    """The action succeeds, or it is an InputError of one line that names the file."""
    try:
        action()
    except InputError as error:
        assert_says(error, *parts)


def in_small_form(raw: Any, lists: int = 0) -> Any:
    """A log without most results, and without most columns of what has three dimensions."""
    if isinstance(raw, list):
        kept = SMALL if (raw and isinstance(raw[0], dict)) or lists == 2 else None
        return [in_small_form(entry, lists + 1) for entry in raw[:kept]]
    return {key: in_small_form(value) for key, value in raw.items()} if isinstance(raw, dict) else raw


KINDS = {load(name).log_path(): load(name).log for name in NAMES if (ROOT / load(name).log_path()).exists()}
KINDS |= {benchmark.log_path: benchmark.schema for benchmark in BENCHMARKS.values()}
KINDS[Path("run.json")] = RunLog[Config]


@pytest.mark.parametrize("path", KINDS, ids=str)
@SOME
@given(data=st.data())
def test_a_changed_log_is_read_or_refused_in_one_line(path, data, tmp_path):
    place = tmp_path / "log.json"
    place.write_text(data.draw(changed(small_text(path))), "utf-8")
    assert_valid_or_refused(lambda: logs.read(place, KINDS[path], "make it anew"), place)


@cache
def small_text(path: Path) -> str:
    return json.dumps(in_small_form(json.loads((ROOT / path).read_text("utf-8"))))


RUN = json.dumps(asdict(small_log().runs[0])).encode()


@MANY
@given(data=st.data(), line=st.integers(0, 2))
def test_a_changed_line_is_never_taken_for_a_finished_run(data, line, tmp_path):
    lines = [sealed(RUN.replace(b'"seed": 0', b'"seed": %d' % seed)) for seed in range(3)]
    file = ResultFile(tmp_path / "log.digits.jsonl", RunRecord[Config])
    file.path.write_bytes(b"".join(line + b"\n" for line in lines))
    whole = file.read()
    lines[line] = data.draw(changed(lines[line].decode())).encode()
    file.path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert_valid_or_refused(lambda: all(run in whole for run in file.read()) or pytest.fail("believed"), file.path)


SHORT = Config(depth=1, hidden=4, epochs=2, n_train=60, n_test=20)


@pytest.fixture(scope="module")
def checkpoint(digits, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "checkpoint.npz"
    checkpoints.save(path, train_to(Training(SHORT, digits), 1))
    return path


@MANY
@given(data=st.data())
def test_a_changed_checkpoint_leaves_the_run_at_its_beginning(data, digits, checkpoint, tmp_path):
    content, place = bytearray(checkpoint.read_bytes()), tmp_path / "checkpoint.npz"
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.sampled_from([1, 4, 100, len(content)]))
    replaced = data.draw(st.sampled_from([b"", b"\0", b"\xff", bytes(50)]))
    content[start : start + length] = replaced
    place.write_bytes(content)
    training, expected = Training(SHORT, digits), Training(SHORT, digits)
    if content != checkpoint.read_bytes():
        assert_valid_or_refused(lambda: checkpoints.restore(place, training), place)
    if training.epoch:  # what has changed is no part of the content, such as the time of writing
        assert checkpoints.restore(checkpoint, expected)
    assert_same_bits(training, expected)


@MANY
@given(data=st.data())
def test_a_false_state_raises_nothing(data, digits, checkpoint, tmp_path):
    arrays, place = contents(checkpoint), tmp_path / "checkpoint.npz"
    arrays["state"] = np.array(data.draw(changed(str(arrays["state"]))))
    np.savez(place, **arrays)
    assert_valid_or_refused(lambda: checkpoints.restore(place, Training(SHORT, digits)), place)


@pytest.mark.parametrize("program", [viz, gif])
@FEW
@given(data=st.data())
def test_of_a_changed_run_log_all_pictures_are_drawn_or_none(program, data, workdir, capsys):
    shutil.rmtree(workdir / "viz", ignore_errors=True)
    Path("log.json").write_text(data.draw(changed(logs.dumps(small_log()))), "utf-8")
    before, code = files_below(workdir), 0
    try:
        code = program.main(["log.json"])
    except SystemExit as stopped:
        code = stopped.code
    if code:
        assert (code, capsys.readouterr().err.count("\n"), files_below(workdir)) == (2, 1, before)
