"""`python conv_highway_networks.py`: what it plans, names, tells, keeps and goes on with."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, files_below, wait_until, without_seconds

import conv_recipes as cn
import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from conv_highway_networks import ConvNet
from conv_recipes import ConvConfig, configure
from highway_lab import logs
from highway_lab.jobs import checkpoint_beside, default_log
from highway_lab.logs import RunLog

SHORT = ("--net", "digits", "--epochs", "1", "--n-train", "100")


def read(path: Path | str) -> RunLog[ConvConfig]:
    return logs.read(path, RunLog[ConvConfig], "a remedy")


def without_times(path: Path) -> tuple:
    return [without_seconds(dataclasses.replace(run, environment=None)) for run in read(path).runs]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("", "run-mnist-16"),
        ("--net mnist-32 --seed 0 --jobs 2", "run-mnist-32"),
        ("--seeds 0,1", "run_sweep-mnist-16-seed0,1"),
        ("--block both --seed 3", "run-mnist-16-both-seed3"),
        ("--lr 0.03 --batch-norm", "run-mnist-16-lr0.03-batch_normTrue"),
        ("--quick", "run-mnist-16-quick"),
        ("--net highway-a --lr 0.06", "run-highway-a"),
        ("--net highway-a --no-augment", "run-highway-a-augmentFalse"),
    ],
)
def test_a_log_is_named_by_its_net_and_by_what_differs_from_its_recipe(as_many_as_mnist, arguments, name):
    given = cn.build_parser().parse_args(arguments.split())
    usual, configs = configure(given.net), cn.plan(given, as_many_as_mnist)
    assert default_log(given, [given.net], configs, usual, {"seed": [0]}, usual.block) == f"{name}.json"


def test_the_recipe_of_a_net_is_what_no_flag_changes(as_many_as_mnist):
    (config,) = cn.plan(cn.build_parser().parse_args(["--net", "highway-a"]), as_many_as_mnist)
    assert config == configure("highway-a")
    (config,) = cn.plan(cn.build_parser().parse_args(["--net", "highway-a", "--lr", "0.5"]), as_many_as_mnist)
    assert config == configure("highway-a", lr=0.5)


def test_numbers_of_images_are_cut_to_those_that_there_are(digits):
    (config,) = cn.plan(cn.build_parser().parse_args([]), digits)
    assert (config.n_train, config.n_validation, config.n_test) == (1437 - 143, 143, 360)
    (config,) = cn.plan(cn.build_parser().parse_args(["--n-validation", "37"]), digits)
    assert (config.n_train, config.n_validation) == (1400, 37)


def test_a_quick_job_takes_few_images_and_what_is_given(as_many_as_mnist):
    (config,) = cn.plan(cn.build_parser().parse_args(["--quick", "--n-train", "3000"]), as_many_as_mnist)
    assert config == configure("mnist-16", **(cn.QUICK | {"n_train": 3000}))


def test_every_hyperparameter_has_a_flag_that_reaches_log_and_net(workdir):
    given = {
        **{"block": "plain", "activation": "tanh", "loss": "cross-entropy", "init": "uniform", "gate_bias": -2.5},
        **{"optimizer": "adam", "lr": 0.002, "schedule": "0.5", "lr_decay": 0.99, "momentum": 0.8, "nesterov": False},
        **{"beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "weight_decay": 1e-4, "clip": 1.0, "batch_size": 30},
        **{"drop_last": True, "epochs": 1, "n_train": 100, "n_validation": 40, "n_scored": 50, "n_test": 50},
        **{"seed": 7, "dtype": "float64", "net": "digits", "batch_norm": True, "dropout": 0.5, "contrast": True},
        **{"augment": True},
    }
    assert given.keys() == {field.name for field in dataclasses.fields(ConvConfig)}
    flags = []
    for name, value in given.items():
        flag = name.replace("_", "-")
        flags += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    assert cn.main([*flags, "--out", "log.json", "--save-model", "net.npz"]) == 0
    (found,) = read("log.json").runs
    assert found.config == ConvConfig(**given)
    net = ConvNet.load("net.npz")
    assert (net.params.flat.size, net.dtype, net.config["batch_norm"]) == (found.n_params, "float64", True)


def test_its_log_is_drawn_as_the_dense_ones(workdir):
    assert cn.main([*SHORT, "--block", "both", "--out", "log.json"]) == 0
    assert viz.main(["log.json"]) == gif.main(["log.json"]) == 0
    drawn = {path.name for path in (workdir / "viz" / "log").iterdir()}
    assert drawn == {f"{figure.__name__}.png" for figure in viz.RUN_FIGURES} | {gif.NAME}
    assert viz.describe(viz.read_log(Path("log.json")), read("log.json").runs) == "digits, net digits, seed 0"


def test_every_epoch_of_runs_side_by_side_is_told_as_it_comes(tmp_path, start):
    """A run may take half an hour."""
    words = ("--net", "digits", "--seeds", "0,1", "--epochs", "2", "--jobs", "2", "--out", str(tmp_path / "log.json"))
    process = start(str(ROOT / "conv_highway_networks.py"), *words)
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    told = [f"highway digits seed {seed}  epoch {epoch}/2" for seed in (0, 1) for epoch in (0, 1, 2)]
    assert sorted(line[: len(told[0])] for line in output.splitlines() if " epoch " in line) == told
    assert list(files_below(tmp_path)) == ["log.json"]


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_goes_on_from_its_last_epoch_to_the_same_bits(tmp_path, start, signal_number):
    folders = [tmp_path / name for name in ("whole", "cut")]
    for folder in folders:
        folder.mkdir()
    words = ("--net", "digits", "--epochs", "4", "--augment", "--save-model", "net.npz", "--out", "log.json")
    command = [sys.executable, str(ROOT / "conv_highway_networks.py"), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folders[0], env=environment, check=True, capture_output=True)

    killed = subprocess.Popen(command, cwd=folders[1], env=environment, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: "epoch 1/4" in killed.stdout.readline(), "an epoch")
    killed.send_signal(signal_number)
    killed.communicate()
    assert killed.returncode == (130 if signal_number == signal.SIGTERM else -signal.SIGKILL)
    (kept,) = folders[1].glob("*.npz")
    assert kept.name.startswith("log.digits-highway-digits-seed-0-")
    left = read(folders[1] / "log.unfinished.json")
    assert not left.finished
    assert 0 <= left.runs[0].history.epoch[-1] < 4
    done = subprocess.run(command, cwd=folders[1], env=environment, check=True, capture_output=True, text=True)
    assert "epoch 0/4" not in done.stdout
    assert "epoch 4/4" in done.stdout
    assert without_times(folders[0] / "log.json") == without_times(folders[1] / "log.json")
    assert (folders[0] / "net.npz").read_bytes() == (folders[1] / "net.npz").read_bytes()
    assert sorted(files_below(folders[1])) == ["log.json", "net.npz"]


def test_fresh_forgets_what_was_kept_between_epochs(workdir, capsys):
    assert cn.main([*SHORT, "--out", "log.json"]) == 0
    place = checkpoint_beside(Path("log.json"), "digits", read("log.json").runs[0].config)
    place.write_bytes(b"no checkpoint")
    with pytest.raises(SystemExit):
        cn.main([*SHORT, "--out", "log.json"])
    assert "expected a checkpoint" in capsys.readouterr().err
    assert cn.main([*SHORT, "--out", "log.json", "--fresh"]) == 0


def test_a_run_of_another_config_leaves_what_was_kept_of_the_first(workdir):
    first = workdir / "log.json"
    assert cn.main([*SHORT, "--out", first.name]) == 0
    kept = checkpoint_beside(first, "digits", read(first).runs[0].config)
    kept.write_bytes(b"two epochs")
    assert cn.main([*SHORT, "--lr", "0.01", "--out", first.name]) == 0
    assert kept.read_bytes() == b"two epochs"


def test_a_log_names_the_data_and_the_command(workdir):
    assert cn.main([*SHORT, "--out", "log.json"]) == 0
    raw = json.loads(Path("log.json").read_text())
    assert raw["command"] == f"python conv_highway_networks.py {' '.join(SHORT)} --out log.json"
    assert raw["dataset"] == {"name": "digits", "n_train": 100, "n_test": 360, "test_set": "test images"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--net", "other"], ["--net", "'other'"]),
        (["--seeds", "0,1", "--save-model", "net.npz"], ["--save-model: expected a single run, found 2"]),
        (["--schedule", "0.5,,"], ["--schedule: expected constant, cosine or shares", "0.5,,"]),
        (["--dropout", "2"], ["--dropout: expected a number in [0, 1], found 2"]),
        (["--n-train", "9999"], ["--n-train and --n-validation: expected at most 1437 images"]),
        (["--batch-size", "0"], ["--batch-size: expected a positive number, found 0"]),
        (["--dataset", "nothing"], ["--dataset", "'nothing'"]),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(workdir, refused, arguments, parts):
    error = refused(cn.main, [*SHORT[:2], *arguments])
    assert all(part in error for part in parts), error
    assert files_below(workdir) == {}
