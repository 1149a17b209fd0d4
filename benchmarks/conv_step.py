"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: on a batch of 100 images, by Nesterov's momentum with weight
decay. There is no dropout: no two libraries draw alike. Every contender first proves that it computes what ours
computes. They then take turns, as in training_step.py, three times: one run on all CPUs, which is what a user waits
for; one thread each; and all CPUs again, where ours has a process for each, as runs of several seeds have. Ours is also
profiled function by function, and the memory of its training is measured.
"""

import argparse
import dataclasses
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from joblib import cpu_count

from conv_recipes import NETS, configure
from highway_lab.datasets import CLASSES
from highway_lab.fields import Count, NonEmpty, NotNegative
from highway_lab.training import Training
from highway_networks import Dataset, evaluate, rounded

from .contenders import CONV_CONTENDERS, Problem
from .measures import run
from .training_step import Pass, Row, TimedLog, measure, measure_passes
from .worker import Team

SHAPES = {"mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}  # of a data set's images
TIMED = ("mnist-16", "mnist-32", "highway-a")
ROUNDS = 6
STEPS = 3  # of a training run whose memory is measured: more take no more


@dataclass(frozen=True)
class ConvCase:
    """A step of one of the paper's nets, on B images."""

    net: str
    batch: int = 100

    # What PyTorch's default layout needs in single precision; a small net passes with those of a dense net.
    tolerances: ClassVar = (5e-3, 1e-2)

    def __str__(self) -> str:
        return self.net + f", batch {self.batch:,}" * (self.batch != ConvCase.batch)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an image."""
        return SHAPES[NETS[self.net].dataset]

    def problem(self) -> Problem:
        """Return a net, a batch x (B, C, H, W) and y (B,), and how to train: the same at every call."""
        rng, config = np.random.default_rng(0), configure(self.net, dropout=0.0)
        net = config.build(self.shape, CLASSES, rng)
        x = rng.uniform(-1, 1, (self.batch, *self.shape)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), config


@dataclass
class Targets:
    """Targets beside PyTorch's better eager layout: our time over its, and MiB of memory, the largest allowed."""

    one_run: float = 1.5
    one_thread: float = 1.4
    many_runs: float = 1.3
    peak_mib: dict[str, float] = field(
        default_factory=lambda: {"mnist-16": 400.0, "mnist-32": 550.0, "highway-a": 850.0}
    )


@dataclass
class Peak:
    """The memory that training a net takes, with all its data: the largest resident size of the process."""

    case: ConvCase
    mib: NotNegative


@dataclass
class ConvStepLog(TimedLog):
    """The log of this measurement.

    one_run      each contender in one process, with as many threads as there are CPUs
    one_thread   each in one process of one thread
    many_runs    our step by `processes` of one thread side by side: its milliseconds count the steps of all of them
    """

    processes: Count
    targets: Targets
    one_run: NonEmpty[Row[ConvCase]]
    one_thread: NonEmpty[Row[ConvCase]]
    many_runs: NonEmpty[Row[ConvCase]]
    passes: NonEmpty[Pass[ConvCase]]
    peaks: NonEmpty[Peak]


def peak_of_training(case: ConvCase) -> float:
    """Train a net as its recipe says; return the largest memory of this process, in MiB.

    The data are made up, as many as the recipe takes. A few steps are done, and a few test images scored.
    """
    config, rng = configure(case.net, batch_size=case.batch), np.random.default_rng(0)
    n_train, n_test = config.n_train + config.n_validation, config.n_test
    images = [rng.integers(0, 256, (n, *case.shape), np.uint8) for n in (n_train, n_test)]
    data = Dataset(images[0], np.arange(n_train) % CLASSES, images[1], np.arange(n_test) % CLASSES, CLASSES)
    training, few = Training(config, data), slice(STEPS * case.batch)
    training.config = dataclasses.replace(config, n_train=few.stop)
    next(training.epochs(scored=False))
    evaluate(training.net, data.test_x[few], data.test_y[few], training.loss)
    return peak_mib()


def peak_mib() -> float:
    """Return the largest memory that this process has taken; getrusage may count that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def measure_step(arguments: argparse.Namespace) -> ConvStepLog:
    """Time the training step of convolutional nets beside PyTorch."""
    measured = {name: [] for name in ("one_run", "one_thread", "many_runs", "passes", "peaks")}
    log, names = ConvStepLog.begin(CONV_CONTENDERS, arguments, processes=cpu_count(), targets=Targets(), **measured)
    ours, (all_cpus, alone) = names[0], ([(name, threads) for name in names] for threads in (log.processes, 1))
    side_by_side = [(ours, 1, log.processes), *all_cpus[1:]]
    for case in map(ConvCase, TIMED):
        log.one_run += measure(f"{case}, one run on all CPUs", case, all_cpus, log.rounds)
        log.one_thread += measure(f"{case}, one thread each", case, alone, log.rounds)
        log.passes += measure_passes(case, ours, log.rounds)
        log.many_runs += measure(f"{case}, ours in {log.processes} processes", case, side_by_side, log.rounds)
        with Team(ours, 1) as apart:  # a process that does nothing else
            (mib,) = apart.ask(peak_of_training, case)
        log.peaks.append(Peak(case, rounded(mib, 4)))
        print(f"  training takes {mib:.0f} MiB", flush=True)
    return log


main = partial(run, "conv_step", measure_step, rounds=ROUNDS, contenders=CONV_CONTENDERS)
