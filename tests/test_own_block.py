"""A block of a user's own, in a file of the user's own: it trains side by side, is saved, loaded and drawn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

from highway_lab.figures import COLORS, Palette

PROGRAM = """
from highway_networks import BLOCKS, Block, DeepNet, highway_backward, highway_forward, main

BLOCKS["own"] = Block("HT", highway_forward, highway_backward)

if __name__ == "__main__":
    main()
"""
SMALL = ["--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "1"]


def python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_own_block_trains_in_several_processes_and_is_drawn_and_loaded(workdir):
    Path("own.py").write_text(PROGRAM)
    python("own.py", "--block", "own", *SMALL, "--depths", "1,2", "--jobs", "2", "--out", "log.json")
    log = json.loads(Path("log.json").read_text())
    assert [run["config"]["block"] for run in log["runs"]] == ["own", "own"]
    assert log["command"].startswith("python own.py --block own")
    python("-c", "import own, visualize_highway_networks as v; assert v.main(['log.json']) == 0")
    assert list(Path("viz").rglob("*.png"))
    python("own.py", "--block", "own", *SMALL, "--depth", "1", "--no-save", "--save-model", "net.npz")
    assert python("-c", "import own; print(own.DeepNet.load('net.npz').config['block'])") == "own\n"


def test_a_block_without_a_colour_gets_one_of_its_own():
    colors = Palette(COLORS)
    assert len({colors[name] for name in ("one", "two", *COLORS)}) == len(COLORS) + 2
