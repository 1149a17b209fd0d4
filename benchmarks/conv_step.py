"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks.conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: on a batch of 100 images, without dropout, by Nesterov's
momentum with weight decay. Every contender first proves that it computes what ours computes. They then take turns, as
in training_step.py, twice. First with one thread each. Then with all CPUs: ours has a process for each, as runs of
several seeds have, and PyTorch has a thread for each in one process. Ours is also timed pass by pass, and the memory
of its training is measured.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from conv_recipes import NETS
from highway_lab.logs import number

from .contenders import CONV_CONTENDERS
from .conv_contenders import SAMPLES, ConvCase, peak_of_training
from .measures import new_parser, run
from .training_step import Pass, Row, TimedLog, add_only, cpus, measure, measure_passes
from .worker import Team, teams

TIMED = ["mnist-16", "mnist-32", "highway-a"]
ROUNDS = 6


@dataclass
class Targets:
    """Targets beside PyTorch's better eager layout.

    one_thread, aim       our time over its time with one thread each: the largest allowed, and the aim
    all_cpus              our images a second over its: the smallest allowed
    peak_mib              memory of a training run: the largest allowed
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
class ConvStepLog(TimedLog):
    """The log of this measurement.

    In `all_cpus` our step is done by `processes` side by side: its milliseconds count the steps of all of them, its
    threads are those of each.
    """

    processes: int
    targets: Targets
    one_thread: list[Row[ConvCase]]
    all_cpus: list[Row[ConvCase]]
    passes: list[Pass[ConvCase]]
    peaks: list[Peak]


def run_command(arguments: argparse.Namespace) -> ConvStepLog:
    """Measure, and print each net when it is done."""
    measured = {name: [] for name in ("one_thread", "all_cpus", "passes", "peaks")}
    log, names = ConvStepLog.begin(CONV_CONTENDERS, arguments, processes=cpus(), targets=Targets(), **measured)
    ours, *others = names
    with teams() as start:
        for case in map(ConvCase, arguments.nets):
            alone = [start(name, 1) for name in names]
            log.one_thread += measure(f"{case}, one thread each", case, alone, log.rounds)
            log.passes += measure_passes(case, alone[0], log.rounds)
            whole_machine = [start(ours, 1, log.processes), *(start(name, cpus()) for name in others)]
            title = f"{case}, all CPUs, ours in {log.processes} processes"
            log.all_cpus += measure(title, case, whole_machine, log.rounds)
            with Team(ours, 1) as apart:  # a process that does nothing else
                (mib,) = apart.ask(peak_of_training, case)
            log.peaks.append(Peak(case, number(mib, 4)))
            print(f"  training takes {mib:.0f} MiB", flush=True)
    return log


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = new_parser("conv_step", "Time the training step of convolutional nets.", ROUNDS)
    nets = [net for net, recipe in NETS.items() if recipe.dataset in SAMPLES]
    parser.add_argument("--nets", nargs="+", choices=nets, default=TIMED, help=f"default: {' '.join(TIMED)}")
    add_only(parser, CONV_CONTENDERS)
    return run(parser, run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
