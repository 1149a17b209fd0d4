"""What experiments share beside their engine: how they are found, levels of guessing, runs by their settings."""

import base64
import functools
import hashlib
import importlib
import math
import zlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from highway_lab.files import read_bytes
from highway_lab.logs import grouped

CHANCE = 0.1  # accuracy of guessing among ten classes; a diverged run counts as this
CHANCE_LOSS = math.log(1 / CHANCE)  # of guessing
FEW_EPOCHS = {"dropout": 0.25, "lr": 0.03}  # of convolutional nets, chosen by conv_tables; recipes are for 300 epochs


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; raises InputError if it cannot be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def packed(numbers: np.ndarray) -> str:
    """Return bytes, compressed, in base64."""
    return base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Return the bytes (n,) that were `packed`."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)


@functools.cache
def load(name: str) -> Any:
    """Import an experiment by its last name, such as "lesions"; raises ModuleNotFoundError if there is none."""
    room = "" if find_spec(f"experiments.{name}") else "looks."
    module = importlib.import_module(f"experiments.{room}{name}")
    return importlib.import_module("experiments.study_command").Experiment(module)


def by_config(runs: Iterable, *names: str) -> dict[tuple, list]:
    """Return runs by the values of the named hyperparameters, sorted."""
    found = grouped(runs, lambda run: tuple(getattr(run.config, name) for name in names))
    return dict(sorted(found.items()))


def points(runs: Iterable) -> np.ndarray:
    """Return the final test accuracy of each run in %; CHANCE for a diverged one."""
    return 100 * np.array([CHANCE if run.diverged else run.history.test_score[-1] for run in runs])
