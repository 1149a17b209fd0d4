"""Time one training step of the paper's convolutional nets beside PyTorch.

    python -m benchmarks conv_step --json benchmarks/conv_step.json

A step is forward, loss, backward and update in float32: on a batch of 100 images, without dropout, by Nesterov's
momentum with weight decay. Every contender first proves that it computes what ours computes. They then take turns, as
in training_step.py, three times: one run on all CPUs, which is what a user waits for; one thread each; and all CPUs
again, where ours has a process for each, as runs of several seeds have. Ours is also timed pass by pass, and the memory
of its training is measured.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from conv_recipes import NETS
from highway_lab.fields import COUNT, Count, rule
from highway_networks import rounded

from .contenders import CONV_CONTENDERS
from .conv_contenders import SAMPLES, ConvCase, peak_of_training
from .measures import new_parser, run
from .training_step import Pass, Row, TimedLog, add_only, cpus, measure, measure_passes
from .worker import Team, teams

TIMED = ["mnist-16", "mnist-32", "highway-a"]
ROUNDS = 6


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
    mib: Annotated[float, rule(within=COUNT)]


@dataclass
class ConvStepLog(TimedLog):
    """The log of this measurement.

    one_run      each contender in one process, with as many threads as there are CPUs
    one_thread   each in one process of one thread
    many_runs    our step by `processes` of one thread side by side: its milliseconds count the steps of all of them
    """

    processes: Count
    targets: Targets
    one_run: Annotated[list[Row[ConvCase]], rule("one_run")]
    one_thread: Annotated[list[Row[ConvCase]], rule("one_thread")]
    many_runs: Annotated[list[Row[ConvCase]], rule("many_runs")]
    passes: Annotated[list[Pass[ConvCase]], rule("passes")]
    peaks: Annotated[list[Peak], rule("peaks")]


def run_command(arguments: argparse.Namespace) -> ConvStepLog:
    """Measure, and print each net when it is done."""
    measured = {name: [] for name in ("one_run", "one_thread", "many_runs", "passes", "peaks")}
    log, names = ConvStepLog.begin(CONV_CONTENDERS, arguments, processes=cpus(), targets=Targets(), **measured)
    ours = names[0]
    with teams() as start:
        for case in map(ConvCase, arguments.nets):
            all_cpus, alone = ([start(name, threads) for name in names] for threads in (cpus(), 1))
            side_by_side = [start(ours, 1, log.processes), *all_cpus[1:]]
            log.one_run += measure(f"{case}, one run on all CPUs", case, all_cpus, log.rounds)
            log.one_thread += measure(f"{case}, one thread each", case, alone, log.rounds)
            log.passes += measure_passes(case, alone[0], log.rounds)
            title = f"{case}, all CPUs, ours in {log.processes} processes"
            log.many_runs += measure(title, case, side_by_side, log.rounds)
            with Team(ours, 1) as apart:  # a process that does nothing else
                (mib,) = apart.ask(peak_of_training, case)
            log.peaks.append(Peak(case, rounded(mib, 4)))
            print(f"  training takes {mib:.0f} MiB", flush=True)
    return log


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = new_parser("conv_step", "Time the training step of convolutional nets.", ROUNDS)
    nets = [net for net, recipe in NETS.items() if recipe.dataset in SAMPLES]
    parser.add_argument("--nets", nargs="+", choices=nets, default=TIMED, help=f"default: {' '.join(TIMED)}")
    add_only(parser, CONV_CONTENDERS)
    return run(parser, run_command, argv)
