"""The two training commands: what they plan, train, write and say, and how they end."""

import dataclasses
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, contents, files_below, group_lives, resealed, rewrite, slashes, wait_until, without_seconds
from made_up import made_up_log

import conv_highway_networks
import conv_recipes as cn
import highway_estimators  # noqa: F401, adds its losses
import highway_networks as hn
from highway_lab import commands, datasets, logs, programs
from highway_lab.commands import lines_beside
from highway_lab.console import describe_chance, name_files, summary
from highway_lab.jobs import ResultFile
from highway_lab.logs import RunLog, RunRecord
from highway_lab.training import Training

FEW = ("--epochs", "1", "--n-train", "100", "--n-test", "50")
SMALL = {
    programs: ("--dataset", "digits", "--hidden", "8", *FEW, "--depth", "1"),
    cn: ("--net", "digits", *FEW, "--block", "both"),
}
DENSE = SMALL[programs]
WITHOUT_DEPTH = DENSE[:-2]
LINES = Path("log.digits.jsonl")
both_programs = pytest.mark.parametrize("program", [programs, cn], ids=["dense", "conv"])


def read(path: Path | str, program=programs) -> RunLog:
    return logs.read(path, RunLog[program.COMMAND.config], "run it again")


def kept_runs(path: Path = LINES) -> list[RunRecord]:
    return ResultFile(path, RunRecord[hn.Config]).read()


def interrupt(*_, **__):
    raise KeyboardInterrupt


def stop_at(monkeypatch, n: int) -> list:
    """Let the n-th run of the process be stopped; return the list of configs to which each start of a run is added."""
    trained, train = [], commands.train_resumably

    def train_or_stop(config, data, **options):
        trained.append(config)
        return interrupt() if len(trained) == n else train(config, data, **options)

    monkeypatch.setattr(commands, "train_resumably", train_or_stop)
    return trained


# ------------------------------------------------------------------------------ files that are there


NET_OF_OTHERS = (ROOT / "models/highway-50.npz").read_bytes()
LOG_OF_OTHERS = (ROOT / "runs/lesions.json").read_bytes()


@both_programs
@pytest.mark.symlinks
@pytest.mark.parametrize(
    ("name", "content"),
    [("log.json", LOG_OF_OTHERS), ("net.npz", NET_OF_OTHERS), ("log.json", b"")],
)
def test_a_file_that_the_job_has_not_made_is_replaced_only_if_the_command_says_so(
    workdir, refused, monkeypatch, program, name, content
):
    words = [*SMALL[program], "--block", "plain", "--out", "log.json", "--save-model", "net.npz"]
    Path("others").write_bytes(content)
    Path(name).symlink_to("others")
    with monkeypatch.context() as patch:
        patch.setattr(commands, "train_resumably", lambda *_, **__: pytest.fail("training has begun"))
        error = refused(program.main, words)
    also = ", or a log that the same job has made" * (name == "log.json")
    assert f"{name}: expected no file{also}, found another; choose" in error
    assert Path("others").read_bytes() == content
    assert program.main([*words, "--replace"]) == 0
    assert Path("others").read_bytes() != content


@both_programs
def test_the_same_job_replaces_its_own_log_another_one_does_not(workdir, refused, program, capsys):
    words = [*SMALL[program], "--block", "plain", "--out", "log.json"]
    assert [program.main(words), program.main([*words, "--fresh"])] == [0] * 2
    assert "saved log.json\n" in capsys.readouterr().out
    assert program.main([*words, "--fresh", "--save-model", "net.npz"]) == 0
    assert "Net.load('net.npz'); net.predict(net.preprocess(images))\n" in capsys.readouterr().out
    assert "log.json: expected no file" in refused(program.main, [*words, "--seed", "1"])


# ------------------------------------------------------------------------------------------ end to end


@pytest.mark.slow
def test_a_quick_job_on_the_digits_from_end_to_end(workdir, capsys):
    """`--quick` is depth 10 for 5 epochs; all else is the default, cut to the images that there are."""
    assert programs.main(["--dataset", "digits", "--quick"]) == 0
    (path,) = workdir.iterdir()
    assert path.name == "run-digits-quick.json"
    log, (out, err) = read(path), capsys.readouterr()
    assert (log.command, err) == ("python highway_networks.py --dataset digits --quick", "")
    assert (log.dataset.name, log.dataset.n_train, log.dataset.n_test) == ("digits", 1437, 360)
    assert log.environment.threads == 1
    expected = [hn.Config(block=b, depth=10, epochs=5, n_train=1437, n_test=360) for b in ("highway", "plain")]
    assert [r.config for r in log.runs] == expected
    assert log.runs[0].history.test_score[-1] > 0.8
    lines = out.splitlines()
    assert sum("epoch" in line for line in lines) == 12
    assert any(line.startswith("10     highway") for line in lines)
    assert lines[-2:] == [f"saved {path.name}", f"to draw it: python -m visualize_highway_networks {path.name}"]


@pytest.mark.slow
def test_runs_side_by_side_give_the_same_log_but_for_times(workdir, capfd):
    found = []
    for n in ("1", "2"):
        assert (
            programs.main([*WITHOUT_DEPTH, "--depths", "1,3", "--seeds", "0,1", "--out", "log.json", "--jobs", n]) == 0
        )
        found.append([without_seconds(r) for r in read("log.json").runs])
    assert capfd.readouterr().err == ""
    assert found[0] == found[1]
    order = [(r.config.depth, r.config.seed, r.config.block) for r in found[0]]
    assert order == [(d, s, b) for d in (1, 3) for s in (0, 1) for b in ("highway", "plain")]


def test_the_summary_fits_a_terminal_of_80_columns_and_counts_diverged_runs():
    log = made_up_log(blocks=("highway-uncoupled", "plain"), seeds=(0, 1, 2), diverged={("plain", 1)})
    _, header, uncoupled, plain, _ = lines = summary(log.runs, log.dataset).splitlines()
    assert max(map(len, lines)) <= 80
    starts = [header.index(name) for name in ("block", "test", "train", "seconds", "diverged")]
    for row in (uncoupled, plain):
        assert all(row[start - 2 : start] == "  " != row[start] for start in starts), "columns are in line"
    assert [row[starts[-1] :] for row in (uncoupled, plain)] == ["0 of 3", "1 of 3"]
    varied = made_up_log(gate_bias=(-4.0, 0.5), init=("he", "glorot")).runs[:-3]  # of plain nets one
    names = [re.split("  +", line)[1] for line in summary(varied, log.dataset).splitlines()[1:]]
    of_highway = [f"highway, init {init}, gate bias {bias}" for bias in ("-4", "0.5") for init in ("he", "glorot")]
    assert names == ["net", *of_highway, "plain"]


def test_runs_that_are_no_better_than_guessing_are_named():
    runs = made_up_log(seeds=range(4)).runs
    said = describe_chance(runs, np.repeat([0, 1], 50))
    assert said.startswith("no better than guessing the commonest class (0.500): plain depth 4 seed 0, plain depth")
    assert "seed 2 and 1 run more; try more --epochs" in said
    assert describe_chance([run for run in runs if run.config.block == "highway"], np.repeat([0, 1], 50)) == ""


SHARED = {
    **{"block": "plain", "loss": "cross-entropy", "init": "he", "init_gain": 0.9, "gate_bias": -1.5, "lr": 0.02},
    **{"momentum": 0.8, "beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "batch_size": 30, "drop_last": True, "epochs": 2},
    **{"n_train": 100, "n_validation": 40, "n_scored": 50, "n_test": 50, "seed": 7, "dtype": "float64"},
    **{"schedule": "0.5,0.75", "weight_decay": 1e-3, "lr_decay": 0.99},
}
OWN = {
    programs: {"depth": 2, "hidden": 9, "activation": "relu", "optimizer": "momentum", "nesterov": True, "clip": 0.0},
    cn: {"net": "digits", "activation": "tanh", "optimizer": "adam", "nesterov": False, "clip": 1.0}
    | {"batch_norm": True, "dropout": 0.5, "contrast": True, "augment": True, "padding": 2},
}


@both_programs
def test_every_hyperparameter_has_a_flag_that_reaches_log_and_net(workdir, capsys, program):
    given = SHARED | OWN[program]
    assert given.keys() == {field.name for field in dataclasses.fields(program.COMMAND.config)}
    flags = []
    for name, value in given.items():
        word = name.replace("_", "-")
        flags += [f"--{'' if value else 'no-'}{word}"] if isinstance(value, bool) else [f"--{word}", str(value)]
    assert program.main([*flags, "--dataset", "digits", "--out", "log.json", "--save-model", "net.npz"]) == 0
    kind = "DeepNet" if program is programs else "ConvNet"
    assert f"saved net.npz; in Python: net = {kind}.load('net.npz'); " in capsys.readouterr().out
    (found,) = read("log.json", program).runs
    assert found.config == program.COMMAND.config(**given)
    net = (hn.DeepNet if program is programs else conv_highway_networks.ConvNet).load("net.npz")
    assert (net.params.flat.size, net.block, net.dtype) == (found.n_params, hn.BLOCKS["plain"], "float64")


def test_a_log_states_command_and_data(workdir, monkeypatch):
    for program, script, stated in (
        (programs, "./highway_networks.py", "python highway_networks.py"),
        (programs, "/bin/highway-networks", "highway-networks"),
        (cn, "conv_highway_networks.py", "python conv_highway_networks.py"),
    ):
        monkeypatch.setattr(sys, "argv", [script])
        assert program.main([*SMALL[program], "--out", "my log.json", "--replace"]) == 0
        raw = json.loads(Path("my log.json").read_text("utf-8"))
        assert raw["command"] == f"{stated} {' '.join(SMALL[program])} --out 'my log.json' --replace"
        numbers = {"n_train": 100, "n_test": 50}
        assert raw["dataset"] == {"name": "digits", **numbers, "test_set": "test images", "classes": []}


# ------------------------------------------------------------------------------------------ what is planned


def planned(program, arguments: str, data: hn.Dataset) -> list:
    return program.COMMAND.plan(program.COMMAND.parser().parse_args(arguments.split()), data)


@pytest.mark.parametrize(
    ("program", "arguments", "name"),
    [
        (programs, "", "run"),
        (programs, "--seeds 0-19 --depths 5,10,20,30,50", "run_sweep"),
        (programs, "--seed 0 --depths 5,10,20,30,50", "run_sweep-seed0"),
        (programs, "--depths 5,10 --seeds 3,5", "run_sweep-depth5,10-seed3,5"),
        (programs, "--seed 1 --n-train 200", "run-seed1-n_train200"),
        (programs, "--quick", "run-quick"),
        (programs, "--block highway,plain", "run"),
        (programs, "--lr 0.1,1e-3 --gate-bias -4,-2,0 --block plain", "run-plain-lr0.1,0.001-gate_bias-4.0,-2.0,0.0"),
        (cn, "", "run-mnist-16"),
        (cn, "--seeds 0,1", "run_sweep-mnist-16-seed0,1"),
        (cn, "--block both --seed 3", "run-mnist-16-highway,plain-seed3"),
        (cn, "--lr 0.03 --batch-norm", "run-mnist-16-lr0.03-batch_normTrue"),
        (cn, "--net highway-a --lr 0.06", "run-highway-a"),
    ],
)
def test_the_name_of_a_log_says_what_differs_from_a_committed_job(as_many_as_mnist, program, arguments, name):
    command = program.COMMAND
    given = command.parser().parse_args(arguments.split())
    configs = command.plan(given, as_many_as_mnist)
    usual = command.dataset(getattr(configs[0], command.config.SIZE))
    assert command.log_name(given, usual, configs) == f"{name}.json"
    assert "-digits" in command.log_name(given, "digits", configs)


def test_a_net_has_its_recipe_but_for_the_flags(as_many_as_mnist):
    assert planned(cn, "--net highway-a", as_many_as_mnist) == [cn.configure("highway-a")]
    assert planned(cn, "--net highway-a --lr 0.5", as_many_as_mnist) == [cn.configure("highway-a", lr=0.5)]
    quick = cn.configure("mnist-16", **(cn.COMMAND.quick | {"n_train": 3000}))
    assert planned(cn, "--quick --n-train 3000", as_many_as_mnist) == [quick]


def test_a_run_is_made_for_each_combination_of_values_but_once_if_they_do_not_matter(as_many_as_mnist):
    words = "--init he,glorot --lr 0.1,0.2 --hidden 8-9 --depths 2,4 --seeds 0,1 --block residual --init-gain 0.5,2"
    assert len({*planned(programs, words, as_many_as_mnist)}) == 2**6
    found = planned(programs, "--gate-bias -4,-2 --blocks highway,plain", as_many_as_mnist)
    assert [(of.block, of.gate_bias) for of in found] == [("highway", -4), ("plain", -4), ("highway", -2)]


def test_numbers_of_images_are_cut_to_those_that_there_are(digits):
    (config,) = planned(cn, "", digits)
    assert (config.n_train, config.n_validation, config.n_test) == (1437 - 143, 143, 360)
    for program in (programs, cn):
        config, *_ = planned(program, "--n-validation 37", digits)
        assert (config.n_train, config.n_validation, config.n_test) == (1400, 37, 360)


# ------------------------------------------------------------------------------------------- errors

BAD_ARGUMENTS = {
    "--seeds 0-1000000": "argument --seed/--seeds: expected at most 1,000,000 numbers, found '0-1000000'",
    "--depths 5,x": "argument --depth/--depths: expected numbers like 5,10,20 or 0-19, found '5,x'",
    "--depths 5,5": "argument --depth/--depths: expected different values",
    "--n-train 1438": "--n-train: expected at most 1437 samples, found 1438",
    "--lr 0": "--lr: expected a positive number, found 0.0",
    "--jobs 0": "argument --jobs: expected a number from 1 to 999999, found '0'",
    "--block plain,highway,plain": "argument --block/--blocks: expected different values, found 'plain,highway,plain'",
    "--block brick": "--block: expected one of",
    "--loss squared-error": "--loss: expected a loss of classes, found squared-error",
    "--drop-last --batch-size 2000": "--drop-last: expected a full batch of 2000, found 1437 samples",
    "--save-model net.npz": "--save-model: expected a single run, found 2",
    "--save-model log.digits.jsonl --block plain": "--save-model: expected a name like net.npz, found log.digits.jsonl",
    "--out missing/log.json": "missing/log.json: expected a place to write, found: no directory missing",
    "--out notes.txt": "--out: expected a name like log.json, found notes.txt",
    "--epoch 1": "unrecognized arguments: --epoch 1; is --epochs meant?",
    "--depth 1000000000": "memory: expected enough, found: Unable to allocate ",
    f"--epochs 1{'0' * 400}": "--epochs: expected a number up to 9.2e+18, found 10000",
    "--gate-bias 1e39": "--gate-bias: expected a number up to 3.4e+38, found 1e+39; choose another",
}
BAD_ARGUMENTS["--depth 1000 --hidden 100000"] = "memory: expected enough, found: Unable to allocate "
BAD_CONV_ARGUMENTS = {
    "--seeds 0,1 --save-model net.npz": "--save-model: expected a single run, found 2",
    "--n-train 9999": "--n-train: expected at most 1294 samples",
    "--seeed 1": "unrecognized arguments: --seeed 1; is --seed meant?",
}
BAD = [(programs, f"--dataset digits {words}", message) for words, message in BAD_ARGUMENTS.items()]
BAD += [(cn, f"--net digits {words}", message) for words, message in BAD_CONV_ARGUMENTS.items()]


@pytest.mark.parametrize(("program", "arguments", "message"), BAD)
def test_a_wrong_argument_is_refused_and_nothing_written(workdir, capsys, program, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        program.main(arguments.split())
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert slashes(captured.err).startswith(f"python {program.COMMAND.module}.py: error: {message}")
    assert files_below(workdir) == {}


# ---------------------------------------------------------------------------------- jobs that are cut short


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_ended_job_keeps_its_finished_runs_and_leaves_nothing_else(workdir, start, monkeypatch, number):
    """A terminal's signals reach every process of the job, SIGTERM one; one of many runs has finished."""
    scratch = workdir.with_name("scratch")
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    words = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--depth", "10")
    words += ("--epochs", "30", "--block", "highway", "--seeds", "0-199", "--jobs", "2", "--out", "log.json")
    number = getattr(signal, number)
    process = start(hn.__file__, *words)
    wait_until(kept_runs, "the first run")
    (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)
    error = process.communicate(timeout=300)[1]
    wait_until(lambda: not group_lives(process.pid), "the workers' end")
    assert [*scratch.iterdir()] == []
    assert [*Path("/dev/shm").glob(f"*loky-{process.pid}-*")] == []  # where there is one
    assert process.returncode == 130, error
    assert not re.search("Traceback|leaked|semlock", error)
    said = re.search(r"(\d+) of 200 runs are safe in log\.digits\.jsonl; to continue: python highway_net", error)
    assert len(kept_runs()) - int(said[1]) in (0, 1)  # it may come between keeping a run and counting it
    assert [path.name for path in workdir.iterdir()] == [LINES.name]


def test_a_program_runs_in_a_thread_which_receives_no_signals(workdir, monkeypatch):
    monkeypatch.setattr(sys, "argv", [hn.__file__, *DENSE])
    with ThreadPoolExecutor(1) as thread, pytest.raises(SystemExit) as stopped:
        thread.submit(runpy.run_path, hn.__file__, run_name="__main__").result()
    assert stopped.value.code == 0


@both_programs
def test_a_job_that_was_cut_short_goes_on_where_it_was(workdir, monkeypatch, program):
    trained = stop_at(monkeypatch, 3)
    arguments = [*SMALL[program], "--seeds", "0,1", "--out", "log.json"]
    assert program.main(arguments) == 130
    assert sorted(files_below(workdir)) == [LINES.name]
    assert program.main(arguments) == 0
    assert len(trained) == 5
    assert [run.config for run in read("log.json", program).runs] == sorted(set(trained), key=trained.index)
    assert [path.name for path in workdir.iterdir()] == ["log.json"]


@pytest.fixture
def cut_short(workdir) -> list[str]:
    """The command line of a job of two runs that was stopped after the first."""
    arguments = [*DENSE, "--out", "log.json"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2)
        assert programs.main(arguments) == 130
    return arguments


def as_the_shell_reads(command: str) -> list[str]:
    """Split a command as a shell does that carries it out."""
    return subprocess.run(["bash", "-c", rf"printf '%s\0' {command}"], capture_output=True).stdout.decode().split("\0")


@pytest.mark.posix
@pytest.mark.parametrize("name", ["a --fresh $(touch OWNED) 'b'.json", "--fresh.json"])
def test_the_command_to_continue_can_be_copied_and_loses_nothing(workdir, capsys, monkeypatch, name):
    words = [*DENSE, "--seeds", "0,1", "--fresh", f"--out=./{name}"]
    stop_at(monkeypatch, 3)
    assert programs.main(words) == 130
    said = capsys.readouterr().err
    assert "2 of 4 runs are safe" in said
    python, script, *again, end = as_the_shell_reads(said.partition("to continue: ")[2])
    assert again == [word for word in words if word != "--fresh"]
    assert (python, script, end, Path("OWNED").exists()) == ("python", "highway_networks.py", "", False)


def test_runs_of_another_job_are_neither_taken_nor_lost(cut_short):
    """Another job of the same --out: other settings leave its runs alone, another data set has its own file."""
    before = kept_runs()
    assert programs.main([*cut_short, "--lr", "0.1"]) == 0
    assert ResultFile(LINES, RunRecord[hn.Config]).read() == before
    assert {run.config.lr for run in read("log.json").runs} == {0.1}
    assert lines_beside(Path("log.json"), "mnist") != LINES


def test_runs_of_other_code_are_kept_or_forgotten_only_on_request(workdir, cut_short, refused, capsys):
    capsys.readouterr()
    lines = resealed(LINES, logs.environment().code, "another")
    LINES.write_bytes(lines)
    before = files_below(workdir)
    error = refused(programs.main, cut_short)
    assert all(part in error for part in (LINES.name, "found 1 of other code", "--keep", "--fresh"))
    assert files_below(workdir) == before
    assert programs.main([*cut_short, "--keep"]) == 0
    kept, fresh = read("log.json").runs
    assert (kept.environment.code, fresh.environment) == ("another", None)
    LINES.write_bytes(lines)
    assert programs.main([*cut_short, "--fresh"]) == 0
    assert [run.environment for run in read("log.json").runs] == [None, None]


@pytest.mark.parametrize(("module", "where"), [(commands, "train_resumably"), (datasets, "_load_digits")])
def test_ctrl_c_before_the_first_run_has_finished_saves_nothing(workdir, monkeypatch, capsys, module, where):
    monkeypatch.setattr(module, where, interrupt)
    assert programs.main([*DENSE, "--out", "log.json"]) == 130
    said = capsys.readouterr().err.strip()
    assert said.startswith("python highway_networks.py: interrupted")
    assert ("0 of 2 runs are safe" in said) == (where == "train_resumably")
    assert files_below(workdir) == {}


@pytest.mark.posix  # else nothing tells when the workers of a killed job have ended
@pytest.mark.slow
def test_runs_go_on_from_their_last_epoch_to_the_same_bits(tmp_path, monkeypatch, start, capsys):
    words = ["--net", "digits", "--n-train", "100", "--n-validation", "20", "--n-test", "20", "--epochs", "12"]
    words += ["--block", "both", "--augment", "--jobs", "2", "--out", "log.json"]
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert cn.main([*words, "--jobs", "1"]) == 0
    whole = {run.config: without_seconds(run) for run in read("log.json", cn).runs}

    def begun() -> list[int]:
        return [json.loads(str(contents(path)["state"]))["epoch"] for path in Path().glob("log.*.npz")]

    monkeypatch.chdir(tmp_path / "cut")
    process = start(conv_highway_networks.__file__, *words)
    wait_until(lambda: len(begun()) == len(whole) and min(begun()) >= 2, "epochs of each net")
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not group_lives(process.pid), "the workers' end")
    assert not Path("log.json").exists()
    capsys.readouterr()
    assert cn.main([*words, "--jobs", "1"]) == 0
    assert "epoch  0/12" not in capsys.readouterr().out
    runs = read("log.json", cn).runs
    assert [without_seconds(run) for run in runs] == list(whole.values())
    seen = [{of.name for of in folder.glob("[!.]*")} for folder in (Path(), tmp_path / "whole")]
    assert seen[0] == seen[1]  # a process that is killed within a write leaves a hidden file


def test_a_checkpoint_is_used_by_its_own_config_until_fresh(workdir, refused):
    words = ["--net", "digits", "--epochs", "1", "--n-train", "100", "--out", "log.json"]
    assert cn.main(words) == 0
    place = Path(f"log.{name_files('digits', read('log.json', cn).runs[0].config)}.npz")
    place.write_bytes(b"no checkpoint")
    assert "expected a checkpoint" in refused(cn.main, words)
    assert cn.main([*words, "--lr", "0.01", "--replace"]) == 0
    assert place.read_bytes() == b"no checkpoint"
    assert cn.main([*words, "--fresh", "--replace"]) == 0
    assert sorted(files_below(workdir)) == ["log.json"]


def test_a_checkpoint_of_other_code_is_refused_where_a_run_goes_on_from_it(workdir, refused, monkeypatch, capsys):
    words = ["--net", "digits", "--n-train", "40", "--n-test", "20", "--epochs", "3", "--out", "log.json"]
    with monkeypatch.context() as stopped:
        stopped.setattr(Training, "_train_epoch", interrupt)
        assert cn.main(words) == 130
    (place,) = Path().glob("log.*.npz")
    state = str(contents(place)["state"])
    rewrite(place, state=np.array(state.replace(json.loads(state)["code"], "c0dec0dec0de")))
    before = files_below(workdir)
    capsys.readouterr()
    assert "found: one of other code; go on with it (--keep)" in refused(cn.main, words)
    assert files_below(workdir) == before
    assert cn.main([*words, "--keep"]) == 0


def test_a_home_folder_is_expanded_in_every_path(workdir, monkeypatch, refused):
    monkeypatch.setenv("HOME", str(workdir / "home"))
    Path("home").mkdir()
    flags = {"--out": "~/log.json", "--save-model": "~/net.npz", "--data-dir": "~/data"}
    words = [f"{flag}={path}" for flag, path in flags.items()]
    assert programs.main([*DENSE, "--block", "plain", *words]) == 0
    assert {path.name for path in Path("home").iterdir()} == {"log.json", "net.npz"}
    assert [path.name for path in Path().iterdir()] == ["home"]
    assert "'--out=~/log.json'" in read("~/log.json").command
    assert "~nobody-there/log.json: expected a home folder" in refused(programs.main, ["--out=~nobody-there/log.json"])
