"""Measure the main job as whole processes: wall time, CPU time and memory of the headline and of the depth sweep.

    python -m benchmarks main_job --json benchmarks/main_job.json

The commands take turns, round by round, so that a slow spell of the machine slows all alike. With `--beside FOLDER`, a
checkout of another commit (`git worktree add FOLDER COMMIT`), its headline takes turns with them.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from highway_lab.datasets import choose_dataset, load_dataset
from highway_lab.fields import Count, rule
from highway_lab.logs import DatasetInfo, Log, git
from highway_networks import Config, InputError

from .measures import Spread, new_parser, run, spread

ROUNDS = 5
ROOT = Path(__file__).resolve().parent.parent
HEADLINE, OTHER = "headline, 1 job", "headline, 1 job, other commit"
COMMANDS = {
    "import": "-c 'import highway_networks'",
    "help": "highway_networks.py --help",
    HEADLINE: "highway_networks.py --seed 0 --jobs 1",
    "headline, 2 jobs": "highway_networks.py --seed 0 --jobs 2",
    "sweep, 1 job": "highway_networks.py --seed 0 --depths 5,10,20,30,50 --jobs 1",
    "sweep, 2 jobs": "highway_networks.py --seed 0 --depths 5,10,20,30,50 --jobs 2",
}


@dataclass
class Usage:
    """Time and memory of one command: CPU time includes its children's, the peak is that of its largest process."""

    name: str
    command: str
    wall_seconds: Spread
    cpu_seconds: Spread
    peak_mib: Spread


@dataclass
class JobLog(Log):
    """The log of this measurement; its ratios are of wall times within each round."""

    rounds: Count
    usages: Annotated[list[Usage], rule("usages")]
    sweep_2_jobs_over_1: Spread
    over_other: Spread | None  # our headline over the other commit's, if there is one
    other_commit: str | None


def run_measured(arguments: Sequence[str], folder: Path = ROOT) -> tuple[float, float, float]:
    """Run Python; return wall seconds, CPU seconds and MiB of the largest process. Raises InputError if it fails."""
    start = time.perf_counter()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, **silent)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise InputError(
            f"python {shlex.join(arguments)}: expected exit code 0, found {process.returncode}; "
            f"run it in {folder} to see why"
        )
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(dataset: str, rounds: int, beside: Path | None) -> dict:
    """Run every command once a round; return the measured fields of a JobLog."""
    argvs = {name: shlex.split(command) for name, command in COMMANDS.items()}
    for argv in argvs.values():
        argv += ["--dataset", dataset, "--no-save"] * ("--jobs" in argv)
    jobs = {name: (argv, ROOT) for name, argv in argvs.items()}
    if beside:
        jobs[OTHER] = (argvs[HEADLINE], beside)
    took = np.array([[run_measured(*job) for job in jobs.values()] for _ in range(rounds)])  # (rounds, commands, 3)
    wall = dict(zip(jobs, took[..., 0].T, strict=True))
    return {
        "usages": [
            Usage(name, shlex.join(["python", *argv]), *map(spread, took[:, i].T))
            for i, (name, (argv, _)) in enumerate(jobs.items())
        ],
        "sweep_2_jobs_over_1": spread(wall["sweep, 2 jobs"] / wall["sweep, 1 job"]),
        "over_other": spread(wall[HEADLINE] / wall[OTHER]) if beside else None,
        "other_commit": git("rev-parse", "HEAD", folder=beside) if beside else None,
    }


def run_command(arguments: argparse.Namespace) -> JobLog:
    if arguments.beside and not (arguments.beside / "highway_networks.py").exists():
        raise InputError(
            f"--beside: expected a checkout of this project, found no {arguments.beside}/highway_networks.py; "
            "make one with git worktree add"
        )
    dataset = choose_dataset()
    # Before the images are loaded: a process counts in its peak the memory of the one that starts it.
    measured = measure(dataset, arguments.rounds, arguments.beside)
    data, config = load_dataset(dataset), Config()
    info = DatasetInfo(dataset, min(config.n_train, len(data.train_x)), min(config.n_test, len(data.test_x)))
    rounds = arguments.rounds
    log = JobLog.new(arguments.command_line, info, rounds=rounds, **measured)
    for use in log.usages:
        print(f"{use.name:<30}{use.wall_seconds!s:<24} s  {use.cpu_seconds!s:<24} CPU s  {use.peak_mib.median:.0f} MiB")
    return log


def main(argv: Sequence[str] | None = None) -> int:
    parser = new_parser("main_job", "Measure the main job as a process.", ROUNDS)
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="a checkout of another commit to compare with")
    return run(parser, run_command, argv)
