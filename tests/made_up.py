"""Made-up logs and what they are made of: one builder each, for tests of pictures, tables and verdicts."""

import math
from collections.abc import Collection
from itertools import product
from typing import Any

from helpers import SOME_ENVIRONMENT

from highway_lab.logs import SCHEMA, DatasetInfo, Log, RunLog, RunRecord
from highway_networks import Config, History


def log(schema: type[Log], dataset: DatasetInfo | None = None, command: str = "made up", **measured: Any) -> Any:
    """Return a log with these fields beyond the envelope."""
    return schema(SCHEMA, "2026-11-20T10:00:00Z", command, dataset, SOME_ENVIRONMENT, **measured)


def history(*train_loss: float | None, **columns: list) -> History:
    """Return a history of these training losses, from epoch 0; a column that is not given holds 0.5 in every row."""
    n = len(train_loss)
    names = ("train_score", "test_loss", "test_score", "grad_norm", "seconds")
    return History([*range(n)], [*train_loss], **{name: [0.5] * n for name in names} | columns)


def made_up_run(block: str, depth: int, seed: int, epochs: int, diverged: bool, **others: Any) -> RunRecord[Config]:
    """Return a run whose numbers follow from its config; a diverged one has no finite number after epoch 1."""
    config = Config(block=block, depth=depth, seed=seed, epochs=epochs, **others)
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
    return RunRecord(None, config, 1000 + depth, "accuracy", diverged, history, gate_means)


def made_up_log(
    *,
    blocks: Collection[str] = ("highway", "plain"),
    depths: Collection[int] = (4,),
    seeds: Collection[int] = (0,),
    epochs: int = 3,
    diverged: Collection[tuple[str, int]] = (),
    dataset: str = "mnist",
    **varied: Collection,
) -> RunLog[Config]:
    """Return a log of every depth, seed, block and value of what is `varied`.

    `diverged` names the (block, seed) whose runs end early.
    """
    runs = [
        made_up_run(block, depth, seed, epochs, (block, seed) in diverged, **dict(zip(varied, values, strict=True)))
        for depth, seed, block, *values in product(depths, seeds, blocks, *varied.values())
    ]
    return log(RunLog[Config], DatasetInfo(dataset, 6000, 2000), "python highway_networks.py --seed 0", runs=runs)
