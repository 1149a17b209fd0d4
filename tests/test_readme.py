"""The main README: its code is the code, and its commands do what it says of them."""

import re
import shlex
import subprocess
import sys
from glob import glob
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, child_environment
from sklearn.datasets import load_iris

from highway_networks import DeepNet

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SMALLER = ("--epochs", "1", "--n-train", "300", "--n-test", "100")  # the same commands in seconds


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language; "" for commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def test_the_layer_in_a_dozen_lines_is_that_of_the_core():
    code, *_ = blocks("python")
    exec(code, layer := {})
    rng, net = np.random.default_rng(0), DeepNet(4, 3, hidden=4, depth=1, dtype="float64", rng=0)
    x, dy = rng.normal(size=(2, 4, 5))
    W_H, b_H, W_T, b_T = (net.params[name][0] for name in ("W_H", "b_H", "W_T", "b_T"))
    y, H, T = layer["forward"](x, W_H, b_H[:, None], W_T, b_T[:, None])
    ((z, expected),) = net.iterate_blocks(x)
    np.testing.assert_allclose([y, H, T], [expected, *z], rtol=1e-12)
    workspace = net.workspace(5)
    workspace.x[0], workspace.x[1], workspace.branches[0] = x, y, z
    net.params.output[...] = 0
    net.params.output[:, :3] = np.eye(3)  # dlogits is dy, where that is not 0
    dy[3] = 0
    dx, *dW = layer["backward"](dy, x, H, T, W_H, W_T)
    *_, expected_dx = net.backward_blocks(dy[:3].T, workspace)
    np.testing.assert_allclose(dx, expected_dx, rtol=1e-12)
    for name, gradient in zip(("W_H", "b_H", "W_T", "b_T"), dW, strict=True):
        np.testing.assert_allclose(gradient, np.reshape(workspace.gradients[name][0], (4, -1)), rtol=1e-12)


def test_the_core_trains_saves_and_loads_in_a_few_lines(small_mnist, workdir, capsys):
    _, code, *_ = blocks("python")
    folder = next(path.parent for path in small_mnist.rglob("train-images*"))
    smaller = "Config(depth=10, epochs=1, n_train=60, n_test=20)"
    exec(code.replace("FOLDER", str(folder)).replace("Config(depth=10)", smaller), {})
    net, score = capsys.readouterr().out.splitlines()
    assert re.match(r"DeepNet\(\d+ → 10 highway blocks of 50 tanh units → 10; ", net)
    assert 0 <= float(score) <= 1
    assert DeepNet.load("net.npz").depth == 10


def test_own_arrays_train_in_four_lines(capsys):
    _, _, code, _ = blocks("python")
    X, y = load_iris(return_X_y=True)
    found = {"X": X[::2], "y": y[::2], "X_test": X[1::2], "y_test": y[1::2]}
    exec(f"from highway_networks import *\n{code}", found)
    assert capsys.readouterr().out.startswith("Run(highway depth 10, seed 0; epoch 12: accuracy ")
    assert found["logits"].shape == (75, 3)
    assert found["run"].history.test_score[-1] > 0.8  # chance: 1/3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_three_lines_fit_and_score_and_one_looks_at_gates(capsys):
    *_, code = blocks("python")
    X, y = load_iris(return_X_y=True)
    exec(code, {"X": X[::2], "y": y[::2], "X_test": X[1::2], "y_test": y[1::2]})
    score, *found = map(float, re.findall(r"[\d.]+", capsys.readouterr().out))
    assert score > 0.9  # chance: 1/3
    assert len(found) == 75 + 30
    assert all(0 < depth < 30 for depth in found[:75])
    assert all(0 <= closed <= 1 for closed in found[75:])


@pytest.mark.slow
@pytest.mark.symlinks
@pytest.mark.parametrize("start", ["python highway_networks.py --seed 0", "python highway_networks.py --block highway"])
def test_commands_do_what_it_says(real_mnist, tmp_path, start):
    """Each block of commands in turn, as it stands but for fewer images and epochs where a net is trained."""
    for name in ("highway_networks.py", "conv_highway_networks.py", "visualize_highway_networks.py", "experiments"):
        (tmp_path / name).symlink_to(ROOT / name)
    (block,) = (block for block in blocks("") if start in block)
    commands = [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("python ")]
    for command in commands:
        if command[1] == "highway_networks.py":
            command += SMALLER if "--save-model" in command else (*SMALLER, "--out", "run_sweep-seed0.json")
        if command[1] == "conv_highway_networks.py":
            command += SMALLER
        if command[1:3] != ["-m", "pytest"]:
            environment = child_environment(HIGHWAY_DATA_DIR=str(real_mnist))
            words = [found for word in command[1:] for found in glob(word, root_dir=tmp_path) or [word]]  # as a shell
            done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True)
            assert done.returncode == 0, done.stderr.decode()
    for promised in re.findall(r"# -> (\S+)", block) + re.findall(r"(?:plot|--save-model) (\S+)", block):
        assert glob(promised, root_dir=tmp_path), promised
    assert {path.name for path in Path(tmp_path).iterdir()} <= {path.name for path in ROOT.iterdir()} | {
        *(
            "mine.npz",
            "run_sweep-seed0.json",
            "run-mnist-16-quick-epochs1-n_train300-n_test100.json",
            "run-highway-depth20-gate_bias-3.0-epochs1-n_train300-n_test100.json",
        )
    }
