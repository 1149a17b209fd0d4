"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks.conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: of a batch of 100 images, without dropout, by Nesterov's
momentum with weight decay. Every contender first proves that it computes what ours computes. They then take turns, as
in training_step.py, twice: with one thread each; and with all CPUs, of which ours has a process each, as runs of
several seeds have, and PyTorch a thread each in one process. Ours is also timed pass by pass, and the memory measured
that its training takes.
"""

import argparse
import functools
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from conv_highway_networks import NETS
from highway_lab.logs import Log, number

from .contenders import CONV_CONTENDERS, versions, who_can_run
from .conv_contenders import SAMPLES, ConvCase, peak_of_training
from .measures import new_parser, run
from .training_step import Pass, Row, cpus, measure, measure_passes, show
from .worker import Team, Worker

TIMED = ["mnist-16", "mnist-32", "highway-a"]
ROUNDS = 6


@dataclass
class Targets:
    """What is to be reached beside PyTorch's best eager layout.

    one_thread, aim       our time over its time, with one thread each, at most; better still
    all_cpus              our images a second over its, at least
    peak_mib              the memory of a training run, at most
    """

    one_thread: float = 1.7
    aim: float = 1.4
    all_cpus: float = 0.5
    peak_mib: float = 1024.0


@dataclass
class Peak:
    """The memory that training a net takes, with all its data: the largest resident size of the process."""

    case: ConvCase
    mib: float


@dataclass
class ConvStepLog(Log):
    """What `--json` writes. `missing` tells of each contender that could not run what it lacks.

    In `all_cpus` ours are so many `processes` side by side: its milliseconds are those of a step if the steps of all
    count, as its threads are those of each.
    """

    libraries: dict[str, str]
    missing: dict[str, str]
    rounds: int
    processes: int
    targets: Targets
    one_thread: list[Row[ConvCase]]
    all_cpus: list[Row[ConvCase]]
    passes: list[Pass[ConvCase]]
    peaks: list[Peak]


def measure_peak(case: ConvCase) -> Peak:
    """Train in a process that does nothing else."""
    with Worker("ours-conv", 1) as worker:
        return Peak(case, number(worker.ask(peak_of_training, case), 4))


def run_command(arguments: argparse.Namespace) -> ConvStepLog:
    """Measure, and print each net when it is done."""
    names, missing = who_can_run(CONV_CONTENDERS, arguments.only)
    ours, *others = names
    log = ConvStepLog.new(
        arguments.command_line,
        None,
        libraries=versions(names),
        missing=missing,
        rounds=arguments.rounds,
        processes=cpus(),
        targets=Targets(),
        one_thread=[],
        all_cpus=[],
        passes=[],
        peaks=[],
    )
    with ExitStack() as stack:  # each process is started when it is first needed; all end together
        start = functools.cache(lambda *key: stack.enter_context(Worker(*key[:2])))
        for case in map(ConvCase, arguments.nets):
            alone = [start(name, 1) for name in names]
            log.one_thread += measure(case, alone, log.rounds)
            show(f"{case}, one thread each", log.one_thread[-len(names) :])
            log.passes += measure_passes(case, alone[0], log.rounds)
            team = Team([start(ours, 1, place) for place in range(log.processes)])
            log.all_cpus += measure(case, [team, *(start(name, cpus()) for name in others)], log.rounds)
            show(f"{case}, all CPUs, ours in {log.processes} processes", log.all_cpus[-len(names) :])
            log.peaks.append(measure_peak(case))
            print(f"  training takes {log.peaks[-1].mib:.0f} MiB", flush=True)
    return log


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = new_parser("conv_step", "Time the training step of convolutional nets.", ROUNDS)
    nets = [net for net, recipe in NETS.items() if recipe.dataset in SAMPLES]
    parser.add_argument("--nets", nargs="+", choices=nets, default=TIMED, help=f"default: {' '.join(TIMED)}")
    everyone = CONV_CONTENDERS
    parser.add_argument("--only", nargs="+", choices=everyone, default=everyone, help="beside ours, only these")
    return run(parser, run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
