"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: on a batch of 100 images, by Nesterov's momentum with weight
decay. There is no dropout: no two libraries draw alike. Every contender first proves that it computes what ours
computes. They then take turns, as in training_step.py, three times: one run on all CPUs, which is what a user waits
for; one thread each; and all CPUs again, where ours has a process for each, as runs of several seeds have.
Last, a process of its own trains each net a little, and tells how much memory that took.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from joblib import cpu_count

from conv_recipes import NETS, SHAPES, configure
from highway_lab.datasets import CLASSES
from highway_lab.fields import Count, NonEmpty, NotNegative
from highway_lab.slices import in_slices
from highway_lab.training import Training
from highway_networks import Dataset, evaluate, rounded

from .contenders import CONV_CONTENDERS, Problem
from .measures import Benchmark
from .training_step import Row, TimedLog, best, measure
from .worker import Team

IMAGES = {"mnist": (60_000, 10_000), "cifar-10": (50_000, 10_000)}  # for training, and for the test
TIMED = ("mnist-16", "mnist-32", "highway-a")
ROUNDS = 6
AVX512 = Path("benchmarks/conv_step_avx512.json")  # a log of another processor


@dataclass(frozen=True)
class ConvCase:
    """A step of one of the paper's nets, on B images."""

    net: str
    batch: int = 100

    # What PyTorch's default layout needs in single precision; a small net passes with those of a dense net.
    tolerances: ClassVar = (5e-3, 1e-2)

    def __str__(self) -> str:
        return self.net + f", batch {self.batch:,}" * (self.batch != ConvCase.batch)

    def problem(self) -> Problem:
        """Return a net, a batch x (B, C, H, W) and y (B,), and how to train: the same at every call."""
        rng, config, shape = np.random.default_rng(0), configure(self.net, dropout=0.0), SHAPES[NETS[self.net].dataset]
        net = in_slices(config.build(shape, CLASSES, rng))
        x = rng.uniform(-1, 1, (self.batch, *shape)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), config


@dataclass
class ConvStepLog(TimedLog):
    """The log of this measurement.

    one_run      each contender in one process, with as many threads as there are CPUs
    one_thread   each in one process of one thread
    many_runs    our step by `processes` of one thread side by side: its milliseconds count the steps of all of them
    peak_mib     the memory that training takes at most, data included, by net; none where the system tells none
    """

    processes: Count
    one_run: NonEmpty[Row[ConvCase]]
    one_thread: NonEmpty[Row[ConvCase]]
    many_runs: NonEmpty[Row[ConvCase]]
    peak_mib: dict[str, NotNegative]


def measure_step(arguments: argparse.Namespace) -> ConvStepLog:
    """Time the training step of convolutional nets beside PyTorch."""
    measured = {name: [] for name in ("one_run", "one_thread", "many_runs")}
    log, names = ConvStepLog.begin(CONV_CONTENDERS, arguments, processes=cpu_count(), peak_mib={}, **measured)
    ours, (all_cpus, alone) = names[0], ([(name, threads) for name in names] for threads in (log.processes, 1))
    side_by_side = [(ours, 1, log.processes), *all_cpus[1:]]
    for case in map(ConvCase, TIMED):
        log.one_run += measure(f"{case}, one run on all CPUs", case, all_cpus, log.rounds)
        log.one_thread += measure(f"{case}, one thread each", case, alone, log.rounds)
        log.many_runs += measure(f"{case}, ours in {log.processes} processes", case, side_by_side, log.rounds)
        with Team(ours, log.processes) as team:
            (peak,) = team.ask(peak_of_training, case)
        if peak:
            log.peak_mib[case.net] = peak
            print(f"\n{case}: training takes {peak:.0f} MiB", flush=True)
    return log


def peak_of_training(case: ConvCase) -> float | None:
    """Return the MiB that this process takes at most, when it has trained a net on two batches as its recipe says.

    The images are made up, as many as the recipe has. None where the system does not tell.
    """
    dataset, rng = NETS[case.net].dataset, np.random.default_rng(0)
    n_train, n_test = IMAGES[dataset]
    images = [rng.integers(0, 256, (n, *SHAPES[dataset]), np.uint8) for n in (n_train, n_test)]
    data = Dataset(images[0], np.arange(n_train) % CLASSES, images[1], np.arange(n_test) % CLASSES, CLASSES)
    training = Training(configure(case.net, batch_size=case.batch), data)
    training.config = replace(training.config, n_train=2 * case.batch)
    next(training.epochs(scored=False))
    evaluate(training.net, data.test_x[: case.batch], data.test_y[: case.batch], training.loss)
    try:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    except OSError:
        return None
    return rounded(int(status["VmHWM"].split()[0]) / 1024, 4)  # getrusage may tell what its parent had


def numbers(log: ConvStepLog) -> dict:
    """Return what the page quotes: the rows by measurement, net and contender, MiB of memory, and PyTorch's ratios."""
    step = {name: best(getattr(log, name)) for name in ("one_run", "one_thread", "many_runs")}
    avx512 = best(BENCHMARK.read(AVX512).one_run)
    ratios = [row["torch-conv-last"].ours_over.median for rows in (*step.values(), avx512) for row in rows.values()]
    return {"step": step, "avx512": avx512, "ratios": ratios, "mib": [*log.peak_mib.values()], "rounds": log.rounds}


BENCHMARK = Benchmark("conv_step", ConvStepLog, measure_step, numbers, rounds=ROUNDS, contenders=CONV_CONTENDERS)
