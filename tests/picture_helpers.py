"""What the tests of pictures and tables share: made-up logs, and what to do where a committed log is not as it was."""

import math
import os
from collections.abc import Collection
from itertools import product
from pathlib import Path

import pytest
from helpers import ROOT, SOME_ENVIRONMENT

from highway_lab.logs import SCHEMA, DatasetInfo, History, Run, RunLog
from highway_networks import Config


def made_up_run(block: str, depth: int, seed: int, epochs: int, diverged: bool) -> Run[Config]:
    """A run whose numbers follow from its config; a diverged one has no finite number after epoch 1."""
    config = Config(block=block, depth=depth, seed=seed, epochs=epochs)
    rows = range(2 if diverged else epochs + 1)
    learned = [(1 - math.exp(-epoch)) * (0.8 if block == "highway" else 0.1) - 0.01 * seed for epoch in rows]
    if diverged:
        learned[-1] = math.nan

    def finite(values: list[float]) -> list[float | None]:
        return [None if math.isnan(value) else value for value in values]

    history = History(
        epoch=list(rows),
        train_loss=finite([2.3 - 2 * value for value in learned]),
        train_score=finite([0.12 + value for value in learned]),
        test_loss=finite([2.4 - 2 * value for value in learned]),
        test_score=finite([0.1 + value for value in learned]),
        grad_norm=[None, *finite([1 + value for value in learned[1:]])],
        seconds=[0.125 * (epoch + 1) for epoch in rows],
    )
    gates = [[0.12 + 0.01 * epoch * layer + 0.005 * seed for layer in range(depth)] for epoch in rows]
    gate_means = gates if block == "highway" and depth else None
    return Run(None, config, 1000 + depth, "accuracy", diverged, history, gate_means)


def made_up_log(
    *,
    blocks: Collection[str] = ("highway", "plain"),
    depths: Collection[int] = (4,),
    seeds: Collection[int] = (0,),
    epochs: int = 3,
    diverged: Collection[tuple[str, int]] = (),
    dataset: str = "mnist",
) -> RunLog[Config]:
    """A log of every depth, seed and block; `diverged` names the (block, seed) whose runs end early."""
    runs = [
        made_up_run(block, depth, seed, epochs, (block, seed) in diverged)
        for depth, seed, block in product(depths, seeds, blocks)
    ]
    command = "python highway_networks.py --seed 0"
    return RunLog(SCHEMA, "2026-11-20T10:00:00Z", command, DatasetInfo(dataset, 6000, 2000), SOME_ENVIRONMENT, runs)


def committed_log(name: str) -> Path:
    """The path of a committed log; the test is skipped where it is not there."""
    log = ROOT / name
    if not log.exists():
        pytest.skip(f"{name} is not there: it is made by hand, see the README")
    return log


def outdated(message: str) -> None:
    """Fail in continuous integration; elsewhere a log may have been made anew by hand, so skip."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{message}: run make figures")
