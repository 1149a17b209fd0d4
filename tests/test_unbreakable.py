"""What goes wrong around the programs: lost output, signals, claims too large, files that are none, full disks."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, files_below, limited_file_size, refused_with, small_log

import conv_recipes as conv
import highway_lab.files
import highway_networks as hn
import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from experiments import common, gate_maps
from experiments.looks import models
from highway_lab import commands, datasets, logs, programs
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.commands import checkpoint_beside, fit_to
from highway_lab.files import read_bytes
from highway_lab.logs import LARGEST
from highway_networks import InputError

DIGITS = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "1")
SHORT = (*DIGITS, "--depth", "1", "--block", "plain")
CONV = ("--net", "digits", "--n-train", "50", "--n-validation", "20", "--n-test", "20", "--epochs", "1")
MAIN = str(ROOT / "highway_networks.py")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command line as a user types it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    words = command.replace("python", sys.executable, 1)
    return subprocess.run(words, shell=True, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "jobs"),
    [
        *((where, 1) for where in (">&- 2>&- <&-", ">/dev/full", "| head -1", "2>/dev/full >&2")),
        (">&- 2>&- <&-", 2),
    ],
)
def test_a_log_is_saved_wherever_the_output_goes(tmp_path, redirected, jobs):
    shell(f"python {MAIN} {shlex.join(DIGITS)} --depth 1 --jobs {jobs} --out log.json {redirected}", tmp_path)
    assert len(logs.read(tmp_path / "log.json", logs.RunLog[hn.Config], "").runs) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log.json"]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "-OO "], ids=["an encoding without the characters", "no docstrings"])
def test_a_bare_python_is_enough(tmp_path, words):
    done = shell(f"python {words}{MAIN} {shlex.join(SHORT)} --no-save", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_of_bytes_that_are_no_text_is_logged_readably_and_drawn(workdir):
    log = "a\udcff.json"
    assert programs.main([*DIGITS, "--depth", "1", "--out", log, "--tensorboard", "events\udcff"]) == 0
    assert r"$'a\xff.json'" in logs.read(log, logs.RunLog[hn.Config], "").command
    assert viz.main([log]) == gif.main([log]) == 0
    assert Path("viz/a\udcff/learning_curves.png").read_bytes().count(rb"a\udcff.json sha256 ") == 1
    assert Path("viz/a\udcff/highway_networks.gif").exists()


def test_the_command_that_draws_a_log_can_be_typed_though_its_name_begins_as_a_flag(workdir, capsys):
    assert programs.main([*DIGITS, "--depth", "1", "--out=-a b.json"]) == 0
    *_, path = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert path == "./-a b.json"


@pytest.mark.parametrize("words", [["a\nb.json"], ["a.json", "--out\r\nb"]], ids=["file", "flag"])
def test_an_error_is_one_line_whatever_it_quotes(workdir, refused, words):
    error = refused(viz.main, [*words, "\x1b[2J\x9b1m\x07\u202e"])  # would clear a terminal, colour, ring
    assert re.search(r"a\\nb|\\r\\nb", error)
    assert error.removesuffix("\n").isprintable()


def test_a_net_whose_outputs_overflow_is_not_looked_into(workdir, digits):
    net = hn.DeepNet(64, 10, hidden=20, depth=6, activation="relu", rng=np.random.default_rng(0))
    net.params.flat[:] = 1e8 * np.sign(net.params.flat)
    net.save("net.npz")
    with refused_with("net.npz", "1e15"):
        models.load(Path("net.npz"), digits)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        *((os.mkfifo, "a device or a pipe"), (os.mkdir, "a directory")),
        (lambda path: os.symlink("/dev/zero", path), "a device or a pipe"),
        (lambda path: os.symlink(path, path), "a link that leads nowhere"),
    ],
    ids=["pipe", "folder", "device", "loop"],
)
@pytest.mark.parametrize("name", ["log.digits.jsonl", "log.json", "net.npz"])
def test_what_is_no_file_in_the_place_of_one_is_refused(workdir, refused, no_training, make, found, name):
    make(name)
    error = refused(programs.main, [*SHORT, "--out", "log.json", "--save-model", "net.npz"])
    assert f"error: {name}: expected a place to write, found: {found}" in error
    assert f"error: {name}: expected a " in refused(viz.main, [name])


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge-idx1-ubyte"
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match="268,435,456 bytes"):
        read_bytes(path)


def test_a_log_of_more_values_than_memory_should_hold_is_not_read(workdir, refused):
    """Lists in a field that no log has, in 25 MB: they would take a gigabyte."""
    Path("log.json").write_bytes(b'{"other": [' + b"[]," * logs.MOST_VALUES + b"0]}")
    assert "log.json: expected a log of this version, found: more than 8,388,608 values" in refused(
        viz.main, ["log.json"]
    )
    for log in ("log.json", "log.digits.jsonl"):
        Path(log).touch()
        os.truncate(log, highway_lab.files.MAX_BYTES + 1)
        assert f"{log}: expected a " in (error := refused(viz.main, [log]))
        assert "found: more than 268,435,456 bytes" in error


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
    "gates beyond 1": lambda log, run: run.update(gate_means=[[1e308, 0.1]] * 2),
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("main", [viz.main, gif.main])
def test_a_log_that_cannot_be_drawn_is_refused(workdir, refused, main, change):
    Path("log.json").write_text(json.dumps(spoilt_log(change)))
    assert "log.json: expected" in refused(main, ["log.json"])
    assert [*files_below(workdir)] == ["log.json"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["...json", "a\n$b_{.json"])
def test_pictures_stay_in_a_folder_below_viz(workdir, monkeypatch, name):
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.training_loss,))
    Path(name).write_text(logs.dumps(small_log()))
    assert viz.main([name]) == gif.main([name]) == 0
    assert {len(Path(path).parts) for path in files_below(workdir) if path != name} == {3}


@pytest.mark.slow
def test_losses_without_bound_and_epochs_without_number_are_drawn(workdir, monkeypatch):
    monkeypatch.setattr(gif, "MOST_FRAMES", 3)
    log = small_log()
    log.runs[0].history.train_loss[:] = [LARGEST, -LARGEST]
    log.runs[0].history.test_score[:] = [-LARGEST, 1]
    longer_log = json.loads(logs.dumps(log))
    for _ in range(9):
        longer(longer_log, longer_log["runs"][0])
    Path("log.json").write_text(json.dumps(longer_log))
    assert viz.main(["log.json"]) == gif.main(["log.json"]) == 0
    assert len(list(gif.frames(viz.read_log(Path("log.json"))))) == 3


@pytest.mark.parametrize("name", ["very_deep", "gate_maps"])
def test_experiments_notice_before_training_that_runs_is_no_folder(workdir, refused, no_training, name):
    Path("runs").write_text("")
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
        assert "no permission to write in runs" in refused(gate_maps.EXPERIMENT.main, ["run", "--smoke"])


FULL_DISK = {  # the largest file, what is wanted, what the error says
    "an epoch": (
        500,
        "--out log.json",
        ["log.digits.jsonl: File too large", "0 of 1 runs are safe in log.digits.jsonl"],
    ),
    "events": (
        1000,
        "--no-save --tensorboard events",
        ["File too large", "nothing is kept with --no-save\n"],
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
    config = conv.configure("digits", **fit_to(digits, conv.configure("digits"), {}))
    checkpoint_beside(Path("log.json"), "digits", config).write_bytes(b"an earlier one")
    Path("log.digits.jsonl").write_bytes(b"Dear diary")
    before = files_below(workdir)
    error = refused(conv.main, ["--net", "digits", "--out", "log.json", "--fresh"])
    assert "log.digits.jsonl: expected a RunRecord a line, found something else; move the file" in error
    assert files_below(workdir) == before


def test_a_number_below_zero_may_have_an_exponent(workdir):
    assert programs.main([*SHORT, "--gate-bias", "-1e30", "--out", "log.json"]) == 0
    assert logs.read("log.json", logs.RunLog[hn.Config], "").runs[0].config.gate_bias == -1e30


def test_what_a_killed_writer_left_goes_with_the_next_writer(workdir):
    Path(".log.json.99999999.0123").touch()
    with highway_lab.files.atomic_write("log.json") as first:
        with highway_lab.files.atomic_write("log.json") as second:
            second.write("second")
        first.write("first")
    assert files_below(workdir) == {"log.json": b"first"}


def replace_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


RUNS = Path("runs")
LOST = {  # the nets, how the log's folder is lost during the second run, the code, how it is mended, all training
    "read-only": ("dense", lambda: RUNS.chmod(0o555), 2, lambda: RUNS.chmod(0o755), [0, 1]),
    "replaced by a file": ("conv", lambda: replace_by_a_file(RUNS), 2, RUNS.unlink, [0, 1, 0, 1]),
    "removed with the working directory": ("dense", lambda: shutil.rmtree(Path.cwd()), 1, None, [0, 1]),
}


@pytest.mark.parametrize(("nets", "lose", "code", "mend", "expected"), LOST.values(), ids=LOST)
def test_a_folder_that_is_lost_in_mid_job_is_told_in_a_line(
    public_folder, as_ordinary_user, monkeypatch, capsys, digits, nets, lose, code, mend, expected
):
    (main, words), train, trained = (
        (programs.main, SHORT) if nets == "dense" else (conv.main, CONV),
        commands.train_resumably,
        [],
    )
    monkeypatch.setattr(datasets, "_load_digits", lambda: digits)

    def train_or_lose(config, data, **options):
        trained.append(config.seed)
        if trained == [0, 1]:
            lose()
        return train(config, data, **options)

    def job() -> tuple[int | str | None, str]:
        try:
            code = main([*words, "--seeds", "0,1", "--out", "runs/log.json"])
        except SystemExit as stopped:
            code = stopped.code
        return code, capsys.readouterr().err.strip()

    monkeypatch.setattr(commands, "train_resumably", train_or_lose)
    public_folder.chmod(0o777)
    monkeypatch.chdir(public_folder)
    with as_ordinary_user():
        Path("place", RUNS).mkdir(parents=True)
        os.chdir("place")
        found, error = job()
        assert (found, error.count("\n"), bool(error)) == (code, 0, code != 0), error
        if mend:
            mend()
            RUNS.mkdir(exist_ok=True)
            assert job() == (0, "")
    assert trained == expected
    assert [*files_below(public_folder)] == (["place/runs/log.json"] if code == 0 or mend else [])


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
