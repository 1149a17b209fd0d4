"""What goes wrong around the programs: lost output, signals, claims too large, files that are none, full disks."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import A_PIPE, ROOT, child_environment, files_below, limited_file_size, small_log

import highway_networks as hn
import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from experiments import common
from highway_lab import commands, logs, programs

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
    [(">&- 2>&- <&-", 2), ("> /dev/null", 1)],
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
def test_an_error_is_one_line_whatever_it_quotes(workdir, refused):
    error = refused(viz.main, ["a\nb.json", "\x1b[2J\x9b1m\x07\u202e"])  # would clear a terminal, colour, ring
    assert r"a\nb" in error
    assert error.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    ("make", "found"),
    [
        A_PIPE,
        pytest.param(os.mkdir, "a directory", id="folder"),
        pytest.param(lambda at: os.symlink(at, at), "a link that leads nowhere", id="loop", marks=pytest.mark.symlinks),
    ],
)
@pytest.mark.parametrize("name", ["log.digits.jsonl", "log.json", "net.npz"])
def test_what_is_no_file_in_the_place_of_one_is_refused(workdir, refused, no_training, make, found, name):
    make(name)
    error = refused(programs.main, [*SHORT, "--out", "log.json", "--save-model", "net.npz"])
    assert f"error: {name}: expected a place to write, found: {found}" in error
    assert f"error: {name}: expected a " in refused(viz.main, [name])


@pytest.mark.parametrize("name", ["imagenet", "../x"])
@pytest.mark.parametrize("main", [viz.main, gif.main])
def test_a_log_of_an_unknown_data_set_is_refused(workdir, refused, main, name):
    Path("log.json").write_text(logs.dumps(small_log()).replace('"mnist"', f'"{name}"'), "utf-8")
    assert "log.json: expected" in refused(main, ["log.json"])
    assert [*files_below(workdir)] == ["log.json"]


def test_runs_that_may_not_be_added_to_are_noticed_before_training(workdir, monkeypatch, refused, no_training):
    Path("log.digits.jsonl").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name not in ("log.digits.jsonl", "runs"))
    assert "log.digits.jsonl: expected a file to add to" in refused(programs.main, [*SHORT, "--out", "log.json"])
    for name in ("very_deep", "gate_maps"):
        assert "no permission to write in runs" in refused(common.load(name).main, ["run", "--smoke"])


def test_a_full_disk_ends_the_job_with_a_line_and_it_goes_on_later(workdir, capsys):
    with limited_file_size(500):
        assert programs.main([*SHORT, "--out", "log.json"]) == 1
    error = capsys.readouterr().err
    for part in ("interrupted: ", "log.digits.jsonl: File too large", "0 of 1 runs are safe in log.digits.jsonl"):
        assert part in error
    assert "--fresh" not in error, "what is safe would be forgotten"
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
    assert not Path("log.digits.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hidden", "1000000000"], "memory: expected enough, found: Unable to allocate "),
        (["--dataset", ""], "arguments: expected none that is empty, found ''; give it a value, or leave it out"),
    ],
)
def test_what_no_machine_or_nobody_has_is_one_line(workdir, refused, words, message):
    assert message in refused(programs.main, ["--dataset", "digits", "--depth", "14", *words])


def test_a_disk_too_full_for_the_log_loses_no_run(workdir, refused, monkeypatch):
    monkeypatch.setattr(logs, "dumps", lambda log: "x" * 10**6)
    with limited_file_size(10**5):
        error = refused(programs.main, [*SHORT, "--fresh", "--out", "log.json"])
    assert "log.json: expected a place to write, found: File too large" in error
    assert error.endswith(f"to continue: python highway_networks.py {shlex.join(SHORT)} --out log.json\n")
    assert [*files_below(workdir)] == ["log.digits.jsonl"]
    monkeypatch.undo()
    monkeypatch.chdir(workdir)
    monkeypatch.setattr(commands, "train_resumably", lambda *_, **__: pytest.fail("trained again"))
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
