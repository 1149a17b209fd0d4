"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: on a batch of 100 images, by Nesterov's momentum with weight
decay. There is no dropout: no two libraries draw alike. Every contender first proves that it computes what ours
computes. They then take turns, as in training_step.py, three times: one run on all CPUs, which is what a user waits
for; one thread each; and all CPUs again, where ours has a process for each, as runs of several seeds have.
"""

import argparse
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from joblib import cpu_count

from conv_recipes import NETS, configure
from highway_lab.datasets import CLASSES
from highway_lab.fields import Count, NonEmpty

from .contenders import CONV_CONTENDERS, Problem
from .measures import Benchmark
from .training_step import Row, TimedLog, best, measure

SHAPES = {"mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}  # of a data set's images
TIMED = ("mnist-16", "mnist-32", "highway-a")
ROUNDS = 6


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
class ConvStepLog(TimedLog):
    """The log of this measurement.

    one_run      each contender in one process, with as many threads as there are CPUs
    one_thread   each in one process of one thread
    many_runs    our step by `processes` of one thread side by side: its milliseconds count the steps of all of them
    targets, peaks    limits, and the memory of training, in logs that have them
    """

    processes: Count
    targets: dict[str, float | dict[str, float]]
    one_run: NonEmpty[Row[ConvCase]]
    one_thread: NonEmpty[Row[ConvCase]]
    many_runs: NonEmpty[Row[ConvCase]]
    peaks: list[dict[str, float | dict[str, str | int]]]


def measure_step(arguments: argparse.Namespace) -> ConvStepLog:
    """Time the training step of convolutional nets beside PyTorch."""
    measured = {name: [] for name in ("one_run", "one_thread", "many_runs")}
    log, names = ConvStepLog.begin(CONV_CONTENDERS, arguments, processes=cpu_count(), targets={}, peaks=[], **measured)
    ours, (all_cpus, alone) = names[0], ([(name, threads) for name in names] for threads in (log.processes, 1))
    side_by_side = [(ours, 1, log.processes), *all_cpus[1:]]
    for case in map(ConvCase, TIMED):
        log.one_run += measure(f"{case}, one run on all CPUs", case, all_cpus, log.rounds)
        log.one_thread += measure(f"{case}, one thread each", case, alone, log.rounds)
        log.many_runs += measure(f"{case}, ours in {log.processes} processes", case, side_by_side, log.rounds)
    return log


def numbers(log: ConvStepLog) -> dict:
    """Return what the page quotes: the rows by measurement, net and contender, and MiB of memory."""
    step = {name: best(getattr(log, name)) for name in ("one_run", "one_thread", "many_runs")}
    return {"step": step, "mib": [peak["mib"] for peak in log.peaks], "rounds": log.rounds}


BENCHMARK = Benchmark("conv_step", ConvStepLog, measure_step, numbers, rounds=ROUNDS, contenders=CONV_CONTENDERS)
