"""The command line: what it runs, writes and says, and how it ends."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from helpers import ROOT, command_line, files_below

import highway_lab.logs
import highway_networks as hn
from highway_lab.jobs import ResultFile, default_log, runs_beside
from highway_lab.logs import Run, RunLog, read

DIGITS = ("--dataset", "digits")
SHORT = (*DIGITS, "--hidden", "8", "--epochs", "1", "--n-train", "100", "--n-test", "50")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run the command line as a user would: in a process of its own."""
    return subprocess.run(command_line(*arguments), cwd=cwd, capture_output=True, text=True, timeout=300)


def read_log(path: Path) -> RunLog[hn.Config]:
    return read(path, RunLog[hn.Config], "run it again")


# --------------------------------------------------------------------------------------- end to end


def test_a_quick_job_on_the_digits_from_end_to_end(tmp_path):
    """`--quick` is depth 10 for 5 epochs; all else is the default, cut to the images that there are."""
    done = run(*DIGITS, "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (path,) = tmp_path.iterdir()
    assert path.name == "run-digits-quick.json"

    log = read_log(path)
    assert log.command == "python highway_networks.py --dataset digits --quick"
    assert (log.dataset.name, log.dataset.n_train, log.dataset.n_test) == ("digits", 1437, 360)
    assert log.environment.threads == 1
    expected = [hn.Config(block=b, depth=10, epochs=5, n_train=1437, n_test=360) for b in ("highway", "plain")]
    assert [r.config for r in log.runs] == expected
    assert log.runs[0].history.test_score[-1] > 0.8

    lines = done.stdout.splitlines()
    epochs = [line for line in lines if "epoch" in line]
    assert len(epochs) == 12
    assert epochs[5].startswith("highway depth 10 seed 0  epoch 5/5  test ")
    assert f"test {log.runs[0].history.test_score[-1]:.3f}" in epochs[5]
    (row,) = (line for line in lines if line.startswith("   10   "))
    assert f"{log.runs[0].history.test_score[-1]:.3f}" in row
    assert f"{log.runs[1].history.test_score[-1]:.3f}" in row
    assert lines[-2:] == [
        "saved run-digits-quick.json",
        "to draw it: python visualize_highway_networks.py run-digits-quick.json",
    ]


def test_runs_side_by_side_give_the_same_log_but_for_times(tmp_path):
    jobs = ("--depths", "1,3", "--seeds", "0,1", "--out", "log.json")
    logs = []
    for n in ("1", "2"):
        done = run(*SHORT, *jobs, "--jobs", n, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        log = json.loads((tmp_path / "log.json").read_text())
        del log["created"], log["command"]
        for r in log["runs"]:
            del r["history"]["seconds"]
        logs.append(log)
    assert logs[0] == logs[1]
    order = [(r["config"]["depth"], r["config"]["seed"], r["config"]["block"]) for r in logs[0]["runs"]]
    assert order == [(d, s, b) for d in (1, 3) for s in (0, 1) for b in ("highway", "plain")]


def test_the_summary_sets_highway_beside_plain_with_mean_and_deviation_over_seeds(workdir, capsys):
    assert hn.main([*SHORT, "--depths", "3,1", "--seeds", "0,1,2", "--no-save"]) == 0
    output = capsys.readouterr().out
    header, *rows = output.split("\n\n")[-1].splitlines()
    columns = ("test accuracy", "train loss", "seconds")
    assert " ".join(header.split()) == " ".join(["depth", "highway", *columns, "plain", *columns])
    assert [row.split()[0] for row in rows] == ["1", "3"]
    assert all(row.count("±") == 4 for row in rows)
    assert files_below(workdir) == {}


def test_the_summary_leaves_room_for_every_kind_of_block(workdir, capsys):
    assert hn.main([*SHORT, "--depth", "1", "--block", "highway-uncoupled", "--no-save"]) == 0
    header, row = capsys.readouterr().out.splitlines()[-2:]
    assert "highway-uncoupled test accuracy train loss  " in header
    assert len(row) == len(header)


def test_every_hyperparameter_has_a_flag_that_reaches_the_log(workdir):
    given = {
        **{"hidden": 9, "activation": "relu", "init": "he", "gate_bias": -1.5, "optimizer": "momentum", "lr": 0.02},
        **{"lr_decay": 0.99, "momentum": 0.8, "nesterov": True, "beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "clip": 0.0},
        **{"batch_size": 30, "drop_last": True, "epochs": 2, "n_train": 100, "n_test": 50, "dtype": "float64"},
        **{"depth": 2, "seed": 7, "block": "plain", "loss": "cross-entropy", "schedule": "0.5,0.75"},
        **{"weight_decay": 1e-3, "n_validation": 40, "n_scored": 50},
    }
    assert given.keys() == {field.name for field in dataclasses.fields(hn.Config)}
    flags = []
    for name, value in given.items():
        flags.append("--" + name.replace("_", "-"))
        if value is not True:
            flags.append(str(value))
    assert hn.main([*DIGITS, *flags, "--out", "log.json", "--save-model", "net.npz"]) == 0
    (found,) = read_log(workdir / "log.json").runs
    assert found.config == hn.Config(**given)
    net = hn.DeepNet.load("net.npz")
    assert (net.params.flat.size, net.block) == (found.n_params, hn.BLOCKS["plain"])


def test_a_log_states_the_command_as_it_was_given(workdir, monkeypatch):
    for program, stated in (("./highway_networks.py", "python highway_networks.py"), ("/bin/highway-networks",) * 2):
        monkeypatch.setattr(sys, "argv", [program])
        assert hn.main([*SHORT, "--depth", "1", "--block", "plain", "--out", "my log.json"]) == 0
        command = read_log(workdir / "my log.json").command
        assert command == f"{Path(stated).name} {' '.join(SHORT)} --depth 1 --block plain --out 'my log.json'"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("", "run"),
        ("--seed 0 --depth 30", "run"),
        ("--lr 0.005 --jobs 2", "run"),
        ("--seeds 0-19 --depths 5,10,20,30,50", "run_sweep"),
        ("--seed 0 --depths 5,10,20,30,50", "run_sweep-seed0"),
        ("--depths 5,10 --seeds 3,5", "run_sweep-depth5,10-seed3,5"),
        ("--lr 0.01", "run-lr0.01"),
        ("--depth 1 --epochs 1", "run-depth1-epochs1"),
        ("--seed 1 --n-train 200", "run-seed1-n_train200"),
        ("--block plain", "run-plain"),
        ("--quick", "run-quick"),
    ],
)
def test_only_a_job_with_every_default_is_named_as_the_committed_logs_are(digits, arguments, name):
    given = hn.build_parser().parse_args(arguments.split())
    configs = hn.plan(given, digits)
    assert default_log(given, [], configs, hn.Config(), hn.SWEEP) == f"{name}.json"
    stem, _, rest = name.partition("-")
    assert (
        default_log(given, ["digits"], configs, hn.Config(), hn.SWEEP)
        == "-".join(filter(None, (stem, "digits", rest))) + ".json"
    )


def test_a_job_on_the_real_files_is_named_by_what_differs(small_mnist, workdir):
    small = ("--data-dir", str(small_mnist), "--hidden", "8", "--epochs", "1", "--block", "plain", "--depth", "1")
    assert hn.main([*small]) == hn.main([*small, "--out", "mine.json"]) == 0
    assert {path.name for path in workdir.iterdir()} == {"run-plain-depth1-hidden8-epochs1.json", "mine.json"}


def test_a_diverged_run_is_saved_and_summarised(workdir, capsys):
    diverging = ("--optimizer", "momentum", "--activation", "relu", "--lr", "1e12", "--clip", "0")
    assert hn.main([*SHORT, *diverging, "--depth", "3", "--out", "log.json"]) == 0
    assert "1 diverged" in capsys.readouterr().out
    assert any(r.diverged for r in read_log(workdir / "log.json").runs)


def test_a_terminal_is_shown_a_bar_with_loss_and_accuracies_instead_of_lines(workdir, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert hn.main([*SHORT, "--depth", "1", "--block", "plain", "--no-save"]) == 0
    output, error = capsys.readouterr()
    assert "epoch" not in output
    last = error.replace("\r", "\n").strip().splitlines()[-1]
    assert re.match(r"test 0\.\d{3} train 0\.\d{3} loss \d\.\d{3} +plain depth 1 seed 0 +1/1 ", last)  # what fits first


def test_importing_needs_numpy_alone_and_touches_nothing(tmp_path):
    program = (
        "import sys, numpy.random; before = set(sys.modules)\n"
        "import highway_networks\n"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("HIGHWAY_DATA_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    ours = {"highway_lab", *(path.stem for path in ROOT.glob("*.py"))}
    assert {"highway_networks", "highway_lab"} <= set(done.stdout.split()) <= ours, done.stderr
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- errors

BAD_ARGUMENTS = {
    "--depths 5,x": "argument --depths: expected numbers like 5,10,20 or 0-19, found '5,x'",
    "--depths 5,,10": "argument --depths",
    "--depths 5,5": "argument --depths: expected different numbers",
    "--depth -1": "--depth: expected zero or a positive number, found -1",
    "--depth 1.5": "argument --depth",
    "--depth 1 --depths 1,2": "argument --depths: not allowed with argument --depth",
    "--seeds 0,x": "argument --seeds",
    "--seeds 0,0": "argument --seeds: expected different numbers",
    "--seed -1": "--seed: expected zero or a positive number, found -1",
    "--seed 0 --seeds 1,2": "argument --seeds: not allowed with argument --seed",
    "--n-train 1438": "--n-train: expected at most 1437 images, found 1438",
    "--n-test 361": "--n-test: expected at most 360 images, found 361",
    "--lr 0": "--lr: expected a positive number, found 0.0",
    "--jobs 0": "argument --jobs: expected a positive number, found '0'",
    "--jobs two": "argument --jobs",
    "--block brick": "argument --block",
    "--activation sine": "--activation: expected one of tanh, relu, elu, found sine",
    "--loss none": "--loss: expected one of cross-entropy, squared-error, found none",
    "--loss squared-error": "--loss: expected a loss of classes, found squared-error",
    "--dtype float16": "--dtype: expected one of float32, float64, found float16",
    "--dataset imagenet": "argument --dataset",
    "--drop-last --batch-size 2000": "--drop-last: expected a full batch of 2000, found 1437 images",
    "--save-model net.npz": "--save-model: expected a single run, found 2",
    "--save-model net.npz --block plain --seeds 0,1": "--save-model: expected a single run, found 2",
    "--save-model missing/net.npz --block plain": "missing/net.npz: expected a place to write, found: no directory",
    "--save-model . --block plain": "--save-model: expected a name like net.npz, found .",
    "--out missing/log.json": "missing/log.json: expected a place to write, found: no directory missing",
    "--out .": "--out: expected a name like log.json",
    "--unknown": "unrecognized arguments: --unknown",
    "surplus": "unrecognized arguments: surplus",
    "--epoch 1": "unrecognized arguments: --epoch 1",
}
for size in ("--hidden", "--batch-size", "--epochs", "--n-train", "--n-test"):
    BAD_ARGUMENTS |= {f"{size} {n}": f"{size}: expected a positive number, found {n}" for n in (0, -1)}
    BAD_ARGUMENTS[f"{size} x"] = f"argument {size}: invalid int value: 'x'"


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS.items())
def test_a_wrong_argument_is_one_line_and_exit_code_2_and_writes_nothing(workdir, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        hn.main([*DIGITS, *arguments.split()])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"python highway_networks.py: error: {message}")
    assert files_below(workdir) == {}


def test_an_error_in_a_worker_process_is_one_line_too(tmp_path):
    done = run(*DIGITS, "--n-train", "1438", "--depth", "1", "--jobs", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "python highway_networks.py: error: --n-train: expected at most 1437 images, found 1438; ask for fewer\n"
    )
    assert files_below(tmp_path) == {}


def test_a_bad_data_file_is_one_line_and_exit_code_2(small_mnist, workdir, capsys):
    path = small_mnist / "hinton-mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SystemExit) as stopped:
        hn.main(["--data-dir", str(small_mnist)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"python highway_networks.py: error: {path}: expected ")
    assert files_below(workdir) == {}


# ------------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(("jobs", "old_log"), [(1, None), (2, "a whole log")], ids=["1 job", "2 jobs, old log"])
def test_ctrl_c_keeps_the_runs_that_have_finished(tmp_path, jobs, old_log):
    """A terminal's Ctrl-C reaches every process of the job, here as soon as one of many runs has finished."""
    out = tmp_path / "log.json"
    if old_log:
        out.write_text(old_log)
    (tmp_path / ".log.unfinished.json.0123abcd").touch()  # as a worker leaves it that is killed while it writes
    seeds = ",".join(map(str, range(200)))
    arguments = (*SHORT, "--depth", "10", "--epochs", "50", "--block", "highway", "--seeds", seeds, "--jobs", str(jobs))
    process = subprocess.Popen(
        command_line(*arguments, "--out", out.name),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in process.stdout:
        if jobs > 1 or "seed 1 " in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    error = process.communicate(timeout=300)[1]

    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "leaked" not in error
    assert (out.read_text() if out.exists() else None) == old_log
    kept = kept_runs(tmp_path / "log.digits.jsonl")
    assert 1 <= len(kept) < 200
    assert all(len(r.history.epoch) == 51 for r in kept)
    said = re.search(
        r"(\d+) of 200 runs are safe in log\.digits\.jsonl; to continue: python highway_networks\.py ", error
    )
    assert len(kept) - int(said[1]) in (0, 1)  # Ctrl-C may come between keeping a run and counting it
    left = {"log.digits.jsonl", "log.unfinished.json", *(["log.json"] if old_log else [])}
    assert {path.name for path in tmp_path.iterdir()} == left


def kept_runs(path: Path) -> list[Run]:
    return ResultFile(path, Run[hn.Config]).read()


def test_a_job_that_was_cut_short_goes_on_where_it_was(workdir, monkeypatch):
    arguments = [*SHORT, "--depth", "1", "--seeds", "0,1", "--out", "log.json"]
    train, trained = hn.train, []

    def interrupted_at_the_third(config, data, **options):
        trained.append(config)
        return train(config, data, **options) if len(trained) != 3 else interrupt()

    monkeypatch.setattr(hn, "train", interrupted_at_the_third)
    assert hn.main(arguments) == 130
    assert len(kept_runs(workdir / "log.digits.jsonl")) == 2
    assert hn.main(arguments) == 0
    assert len(trained) == 5
    assert [run.config for run in read_log(workdir / "log.json").runs] == sorted(set(trained), key=trained.index)
    assert [path.name for path in workdir.iterdir()] == ["log.json"]


def test_the_runs_of_another_job_are_neither_taken_nor_lost(workdir, monkeypatch):
    """Another job of the same --out: other settings leave the file alone, another data set has one of its own."""
    arguments = [*SHORT, "--depth", "1", "--out", "log.json"]
    with monkeypatch.context() as patch:
        train = hn.train
        patch.setattr(hn, "train", lambda c, d, **kw: train(c, d, **kw) if c.block == "highway" else interrupt())
        assert hn.main(arguments) == 130
    before = (workdir / "log.digits.jsonl").read_bytes()
    assert hn.main([*arguments, "--lr", "0.1"]) == 0
    assert (workdir / "log.digits.jsonl").read_bytes().startswith(before)
    assert {run.config.lr for run in read_log(workdir / "log.json").runs} == {0.1}
    assert runs_beside(workdir / "log.json", "mnist") != workdir / "log.digits.jsonl"


def test_runs_of_other_code_are_kept_or_forgotten_only_on_request(workdir, monkeypatch, refused, capsys):
    arguments = [*SHORT, "--depth", "1", "--out", "log.json"]
    monkeypatch.setattr(
        hn, "train", lambda c, d, train=hn.train, **kw: train(c, d, **kw) if c.block == "highway" else interrupt()
    )
    assert hn.main(arguments) == 130
    monkeypatch.undo()
    monkeypatch.chdir(workdir)
    lines = (workdir / "log.digits.jsonl").read_text()
    code = highway_lab.logs.environment().code
    (workdir / "log.digits.jsonl").write_text(lines.replace(code, "another"))
    before = files_below(workdir)
    capsys.readouterr()
    assert "log.digits.jsonl: expected runs of the training code as it is now, found 1 of other" in refused(
        hn.main, arguments
    )
    assert files_below(workdir) == before
    assert hn.main([*arguments, "--keep"]) == 0
    kept, fresh = read_log(workdir / "log.json").runs
    assert (kept.environment.code, fresh.environment) == ("another", None)
    (workdir / "log.digits.jsonl").write_text(lines.replace(code, "another"))
    assert hn.main([*arguments, "--fresh"]) == 0
    assert [run.environment for run in read_log(workdir / "log.json").runs] == [None, None]


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["train", "load_dataset"])
def test_ctrl_c_before_the_first_run_has_finished_saves_nothing(workdir, monkeypatch, capsys, where):
    monkeypatch.setattr(hn, where, interrupt)
    assert hn.main([*SHORT, "--depth", "1", "--out", "log.json"]) == 130
    said = capsys.readouterr().err.strip()
    assert said.startswith("python highway_networks.py: interrupted")
    assert ("0 of 2 runs are safe" in said) == (where == "train")
    assert files_below(workdir) == {}


def test_a_killed_process_loses_no_finished_run(workdir, monkeypatch, capsys):
    train = hn.train

    def killed_at_the_second(config, data, **options):
        if config.block == "plain":
            raise BrokenExecutor("a worker was killed")
        return train(config, data, **options)

    monkeypatch.setattr(hn, "train", killed_at_the_second)
    assert hn.main([*SHORT, "--depth", "1", "--out", "log.json"]) == 1
    assert "BrokenExecutor: a worker was killed; 1 of 2 runs are safe in log.digits.jsonl" in capsys.readouterr().err
    assert [run.config.block for run in kept_runs(workdir / "log.digits.jsonl")] == ["highway"]


def test_ctrl_c_with_no_save_ends_cleanly_and_writes_nothing(workdir, monkeypatch, capsys):
    train = hn.train
    monkeypatch.setattr(hn, "train", lambda c, d, **kw: train(c, d, **kw) if c.block == "highway" else interrupt())
    assert hn.main([*SHORT, "--depth", "1", "--no-save"]) == 130
    assert capsys.readouterr().err.endswith("interrupted: nothing is kept with --no-save\n")
    assert files_below(workdir) == {}
