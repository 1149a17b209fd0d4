"""Measure the main job as whole processes: wall time, CPU time and memory of the headline and of the depth sweep.

    python -m benchmarks.main_job --json benchmarks/main_job.json

The commands take turns, round by round, so that whatever slows the machine slows all alike.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from highway_networks import Config, choose_dataset, count_threads
from run_log import Environment, InputError, environment, now, write

from .command_line import new_parser, run
from .measures import Spread, Target, describe, spread

SCHEMA = 1
ROUNDS = 5
ROOT = Path(__file__).resolve().parent.parent
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
COMMANDS = {
    "import": "-c 'import highway_networks'",
    "help": "highway_networks.py --help",
    "headline, 1 job": "highway_networks.py --seed 0 --jobs 1",
    "headline, 2 jobs": "highway_networks.py --seed 0 --jobs 2",
    "sweep, 1 job": "highway_networks.py --seed 0 --depths 5,10,20,30,50 --jobs 1",
    "sweep, 2 jobs": "highway_networks.py --seed 0 --depths 5,10,20,30,50 --jobs 2",
}


@dataclass
class Usage:
    """What one command took: CPU time with that of its children, the memory of its largest process."""

    name: str
    command: str
    wall_seconds: Spread
    cpu_seconds: Spread
    peak_mib: Spread


@dataclass
class JobLog:
    """What `--json` writes; `sweep_2_jobs_over_1` compares wall times within each round."""

    schema: int
    created: str
    command: str
    environment: Environment
    dataset: str
    rounds: int
    usages: list[Usage]
    sweep_2_jobs_over_1: Spread

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, found {self.schema}")


def run_measured(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Run Python with these arguments: seconds on the clock, CPU seconds, MiB of the largest process.

    Raises InputError if it fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise InputError(
            f"python {shlex.join(arguments)}: expected exit code 0, found {process.returncode}; run it to see why"
        )
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * MAXRSS_UNIT / 2**20


def measure(dataset: str, rounds: int) -> tuple[list[Usage], Spread]:
    """Run every command once a round; what each took, and the sweep's time with two jobs over that with one."""
    only_dataset = ["--dataset", dataset, "--no-save"]
    argvs = {name: shlex.split(command) for name, command in COMMANDS.items()}
    argvs |= {name: argv + only_dataset for name, argv in argvs.items() if "--jobs" in argv}
    took = np.array([[run_measured(argv) for argv in argvs.values()] for _ in range(rounds)])  # (rounds, commands, 3)
    usages = [
        Usage(name, shlex.join(["python", *argv]), *map(spread, took[:, i].T))
        for i, (name, argv) in enumerate(argvs.items())
    ]
    wall = dict(zip(argvs, took[..., 0].T, strict=True))
    return usages, spread(wall["sweep, 2 jobs"] / wall["sweep, 1 job"])


def targets(log: JobLog) -> Iterable[Target]:
    """What is to be reached, and what was."""
    usages = {usage.name: usage for usage in log.usages}
    return [
        Target("import, in a fresh Python: seconds", usages["import"].wall_seconds.median, 0.4),
        Target("--help: seconds", usages["help"].wall_seconds.median, 0.4),
        Target("headline: peak memory, MiB", usages["headline, 1 job"].peak_mib.median, 200),
        Target("sweep: wall time with 2 jobs / with 1", log.sweep_2_jobs_over_1.median, 0.65),
    ]


def table(usages: Sequence[Usage]) -> str:
    """What every command took."""
    lines = [f"{'':<20}{'wall s':<24}{'CPU s':<24}peak MiB"]
    lines += [f"{u.name:<20}{u.wall_seconds!s:<24}{u.cpu_seconds!s:<24}{u.peak_mib.median:.0f}" for u in usages]
    return "\n".join(lines)


def run_command(arguments: argparse.Namespace, command: str) -> None:
    """Measure, print, and write the log if one is asked for; raises InputError."""
    if not hasattr(os, "wait4"):
        raise InputError(
            f"main_job: expected Unix, which accounts for child processes, found {sys.platform}; run it there"
        )
    dataset = choose_dataset()
    usages, ratio = measure(dataset, arguments.rounds)
    threads = count_threads(Config.hidden, Config.batch_size)
    log = JobLog(SCHEMA, now(), command, environment(threads), dataset, arguments.rounds, usages, ratio)
    print(table(usages) + "\n\n" + describe(targets(log)))
    if arguments.json:
        write(arguments.json, log)
        print(f"saved {arguments.json}")


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run(new_parser("main_job", "Measure the main job as a process.", ROUNDS), run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
