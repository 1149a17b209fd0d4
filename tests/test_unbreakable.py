"""What goes wrong around the programs: lost output, signals, claims too large, files that are none, full disks."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers import A_PIPE, ROOT, child_environment, files_below, limited_file_size, refused_with, small_log

import conv_recipes as conv
import highway_lab.files
import highway_networks as hn
import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from experiments import common
from experiments.looks import models
from highway_lab import commands, datasets, logs, programs
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.console import Unfailing, name_files, unfailing_output
from highway_networks import fitted

DIGITS = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "1")
SHORT = (*DIGITS, "--depth", "1", "--block", "plain")
MAIN = str(ROOT / "highway_networks.py")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command line as a user types it."""
    words, options = command.replace("python", sys.executable, 1), {"capture_output": True, "encoding": "utf-8"}
    return subprocess.run(words, shell=True, cwd=cwd, env=child_environment(**environment), timeout=300, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "jobs"),
    [
        *((where, jobs) for where, jobs in ((">&- 2>&- <&-", 1), ("| head -1", 1), (">&- 2>&- <&-", 2))),
        *(pytest.param(where, 1, marks=pytest.mark.linux) for where in (">/dev/full", "2>/dev/full >&2")),
    ],
)
@pytest.mark.posix
def test_a_log_is_saved_wherever_the_output_goes(tmp_path, redirected, jobs):
    shell(f"python {MAIN} {shlex.join(DIGITS)} --depth 1 --jobs {jobs} --out log.json {redirected}", tmp_path)
    assert len(logs.read(tmp_path / "log.json", logs.RunLog[hn.Config], "").runs) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log.json"]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "-OO "], ids=["an encoding without the characters", "no docstrings"])
def test_a_bare_python_is_enough(tmp_path, words):
    done = shell(f"python {words}{MAIN} {shlex.join(SHORT)}", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.posix
def test_a_name_of_bytes_that_are_no_text_is_logged_readably_and_drawn(workdir):
    log = "a\udcff.json"
    assert programs.main([*DIGITS, "--depth", "1", "--out", log, "--tensorboard", "events\udcff"]) == 0
    assert r"'a\udcff.json'" in logs.read(log, logs.RunLog[hn.Config], "").command
    assert viz.main([log]) == gif.main([log]) == 0
    assert Path("viz/a\udcff/learning_curves.png").read_bytes().count(rb"a\udcff.json sha256 ") == 1
    assert Path("viz/a\udcff/highway_networks.gif").exists()


@pytest.mark.posix
@pytest.mark.parametrize("words", [["a\nb.json"], ["a.json", "--out\r\nb"]], ids=["file", "flag"])
def test_an_error_is_one_line_whatever_it_quotes(workdir, refused, words):
    error = refused(viz.main, [*words, "\x1b[2J\x9b1m\x07\u202e"])  # would clear a terminal, colour, ring
    assert re.search(r"a\\nb|\\r\\nb", error)
    assert error.removesuffix("\n").isprintable()


def test_commands_that_overlap_leave_the_streams_as_they_were():
    streams, first, second = (sys.stdout, sys.stderr), ExitStack(), ExitStack()
    for inside in (first, second):
        inside.enter_context(unfailing_output())
    first.close()
    assert isinstance(sys.stdout, Unfailing)
    second.close()
    assert (sys.stdout, sys.stderr) == streams


def test_a_net_whose_outputs_overflow_is_not_looked_into(workdir, digits):
    net = hn.DeepNet(64, 10, hidden=20, depth=6, activation="relu", rng=np.random.default_rng(0))
    net.params.flat[:] = 1e8 * np.sign(net.params.flat)
    net.save("net.npz")
    with refused_with("net.npz", "1e15"):
        models.load(Path("net.npz"), digits)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        A_PIPE,
        pytest.param(os.mkdir, "a directory", id="folder"),
        pytest.param(partial(os.symlink, "/dev/zero"), "a device or a pipe", id="device", marks=pytest.mark.posix),
        pytest.param(lambda at: os.symlink(at, at), "a link that leads nowhere", id="loop", marks=pytest.mark.symlinks),
    ],
)
@pytest.mark.parametrize("name", ["log.digits.jsonl", "log.json", "net.npz"])
def test_what_is_no_file_in_the_place_of_one_is_refused(workdir, refused, no_training, make, found, name):
    make(name)
    error = refused(programs.main, [*SHORT, "--out", "log.json", "--save-model", "net.npz"])
    assert f"error: {name}: expected a place to write, found: {found}" in error
    assert f"error: {name}: expected a " in refused(viz.main, [name])


def test_a_log_that_would_fill_the_memory_is_not_read(workdir, refused):
    """Lists in a field that no log has, in 25 MB: they would take a gigabyte."""
    Path("log.json").write_bytes(b'{"other": [' + b"[]," * logs.MOST_VALUES + b"0]}")
    error = refused(viz.main, ["log.json"])
    assert "log.json: expected a log of this version, found: more than 8,388,608 values" in error
    Path("log.digits.jsonl").write_bytes(b'{"environment": ' + b"\n" * logs.MOST_VALUES)
    assert "log.digits.jsonl: expected a file of results, found: more than 8,388,608" in refused(
        viz.main, ["log.digits.jsonl"]
    )
    os.truncate("log.digits.jsonl", highway_lab.files.MAX_BYTES + 1)
    assert "found: more than 268,435,456 bytes" in refused(viz.main, ["log.digits.jsonl"])


def spoilt_log(change) -> dict:
    log = json.loads(logs.dumps(small_log()))
    log["runs"].append(json.loads(json.dumps(log["runs"][0])))
    change(log, log["runs"][2])
    return log


def longer(log: dict, run: dict) -> None:
    run["history"] = {name: values + values[-1:] for name, values in run["history"].items()}
    run["history"]["epoch"][-1] += 1
    run["config"]["epochs"] += 1
    run["gate_means"].append(run["gate_means"][-1])


SPOILT = {
    "other epochs": longer,
    "other blocks": lambda log, run: run.update(gate_means=[[0.1] * 3] * 2),
    "an unknown data set": lambda log, run: log["dataset"].update(name="imagenet"),
    "a slash": lambda log, run: log["dataset"].update(name="../x"),
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("main", [viz.main, gif.main])
def test_a_log_that_cannot_be_drawn_is_refused(workdir, refused, main, change):
    Path("log.json").write_text(json.dumps(spoilt_log(change)), "utf-8")
    assert "log.json: expected" in refused(main, ["log.json"])
    assert [*files_below(workdir)] == ["log.json"]


@pytest.mark.parametrize("name", ["very_deep", "gate_maps"])
def test_experiments_notice_before_training_that_runs_is_no_folder(workdir, refused, no_training, name):
    Path("runs").write_text("", "utf-8")
    assert f"runs/{name}-smoke.json" in refused(common.load(name).main, ["run", "--smoke"])


def test_runs_that_may_not_be_added_to_are_noticed_before_training(
    public_folder, as_ordinary_user, monkeypatch, refused, no_training, digits
):
    monkeypatch.setattr(datasets, "_load_digits", lambda: digits)  # the ordinary user may not read root's environment
    monkeypatch.chdir(public_folder)
    public_folder.chmod(0o777)
    Path("log.digits.jsonl").touch(0o444)
    Path("runs").mkdir(0o755)
    with as_ordinary_user():
        assert "log.digits.jsonl: expected a file to add to" in refused(programs.main, [*SHORT, "--out", "log.json"])
        assert "no permission to write in runs" in refused(common.load("very_deep").main, ["run", "--smoke"])
        assert "no permission to write in runs" in refused(common.load("gate_maps").main, ["run", "--smoke"])


FULL_DISK = {  # the largest file, what is wanted, what the error says
    "an epoch": (
        500,
        "--out log.json",
        ["log.digits.jsonl: File too large", "0 of 1 runs are safe in log.digits.jsonl"],
    ),
    "events": (
        1000,
        "--out log.json --tensorboard events",
        ["File too large", "0 of 1 runs are safe in log.digits.jsonl"],
    ),
}


@pytest.mark.parametrize(("size", "words", "parts"), FULL_DISK.values(), ids=FULL_DISK)
def test_a_full_disk_ends_the_job_with_a_line_and_it_goes_on_later(workdir, capsys, size, words, parts):
    with limited_file_size(size):
        assert programs.main([*SHORT, *words.split()]) == 1
    error = capsys.readouterr().err
    assert all(part in error for part in ["interrupted: ", *parts]), error
    assert "--fresh" not in error, "what is safe would be forgotten"
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
    assert not Path("log.digits.jsonl").exists()


def test_ctrl_c_while_flags_are_parsed_is_told_in_a_line(capsys):
    parser = OneLineParser(prog="python slow.py")
    parser.add_argument("--slow", type=lambda text: signal.raise_signal(signal.SIGINT))
    assert run_cli(parser, lambda given: 0, ["--slow", "1"]) == 130
    assert capsys.readouterr().err == "\npython slow.py: interrupted\n"


def test_nothing_is_forgotten_beside_a_file_of_something_else(workdir, refused, digits):
    config = fitted(conv.configure("digits"), digits)
    Path(f"log.{name_files('digits', config)}.npz").write_bytes(b"an earlier one")
    Path("log.digits.jsonl").write_bytes(b"Dear diary")
    before = files_below(workdir)
    error = refused(conv.main, ["--net", "digits", "--out", "log.json", "--fresh"])
    assert "log.digits.jsonl: expected a RunRecord a line, found something else; move the file" in error
    assert files_below(workdir) == before


def test_what_a_killed_writer_left_goes_with_the_next_writer(workdir):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    Path(f".log.json.{ended.pid}-0123abcd").write_text("torn and longer", "utf-8")
    with highway_lab.files.atomic_write("log.json") as file:
        file.write(b"whole")
    assert files_below(workdir) == {"log.json": b"whole"}


def test_two_writers_of_a_file_do_not_meet(workdir):
    with highway_lab.files.atomic_write("log.json") as first:
        first.write(b"whole")
        with suppress(ZeroDivisionError), highway_lab.files.atomic_write("log.json") as second:
            second.write(bytes(1 // 0))
    assert files_below(workdir) == {"log.json": b"whole"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--hidden", "1000000000"],
            "memory: expected enough, found: Unable to allocate ",
        ),
        (["--dataset", ""], "arguments: expected none that is empty, found ''; give it a value, or leave it out"),
    ],
)
def test_what_no_machine_or_nobody_has_is_one_line(workdir, refused, words, message):
    assert message in refused(programs.main, ["--dataset", "digits", "--depth", "14", *words])


@pytest.mark.parametrize("lose", [lambda: Path("runs").chmod(0o555), lambda: shutil.rmtree(Path.cwd())])
def test_a_folder_that_is_lost_in_mid_job_is_told_in_a_line(
    public_folder, as_ordinary_user, monkeypatch, capsys, digits, lose
):
    train = commands.train_resumably
    monkeypatch.setattr(datasets, "_load_digits", lambda: digits)
    monkeypatch.setattr(commands, "train_resumably", lambda *of, **others: lose() or train(*of, **others))
    public_folder.chmod(0o777)
    monkeypatch.chdir(public_folder)
    with as_ordinary_user():
        Path("place/runs").mkdir(parents=True)
        os.chdir("place")
        try:
            code = programs.main([*SHORT, "--out", "runs/log.json"])
        except SystemExit as stopped:
            code = stopped.code
    assert code in (1, 2)
    assert capsys.readouterr().err.strip().count("\n") == 0


def test_a_disk_too_full_for_the_log_loses_no_run(workdir, refused, monkeypatch):
    dumps = logs.dumps
    monkeypatch.setattr(logs, "dumps", lambda log: "x" * 10**6 if log.finished else dumps(log))
    with limited_file_size(10**5):
        error = refused(programs.main, [*SHORT, "--fresh", "--out", "log.json"])
    assert "log.json: expected a place to write, found: File too large" in error
    assert error.endswith(f"to continue: python highway_networks.py {shlex.join(SHORT)} --out log.json\n")
    assert [*files_below(workdir)] == ["log.digits.jsonl"]
    monkeypatch.undo()
    monkeypatch.chdir(workdir)
    monkeypatch.setattr(commands, "train_resumably", lambda *_, **__: pytest.fail("trained again"))
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
