"""What a training command does with its runs: trains them side by side, shows how they go, saves the log."""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import Interrupted, exit_code, name_numbers
from reporting import EpochReporter, show_run, summary
from run_log import Log, Run, write
from side_by_side import run_tasks


def given_fields(arguments: argparse.Namespace, config: type) -> dict[str, Any]:
    """The hyperparameters that flags of their own have set."""
    fields = {field.name for field in dataclasses.fields(config)} - {"block"}
    return {name: value for name, value in vars(arguments).items() if name in fields}


def default_log(
    arguments: argparse.Namespace, dataset: str, configs: Sequence[Any], usual_sweep: Mapping[str, list[int]]
) -> str:
    """run.json or run_sweep.json for a job on MNIST with every default; the name of any other says what differs.

    So no exploration overwrites a committed log. `usual_sweep`: depths and seeds of the committed sweep.
    """
    default = type(configs[0])
    found = {name: list(dict.fromkeys(getattr(config, name) for config in configs)) for name in usual_sweep}
    sweep = any(len(values) > 1 for values in found.values())
    usual = usual_sweep if sweep else {name: [getattr(default, name)] for name in found}
    if arguments.quick and not arguments.depths:  # a depth of its own, which the name says
        found.pop("depth")
    differs = {dataset: dataset != "mnist", "quick": arguments.quick, arguments.block: arguments.block != "both"}
    differs |= {f"{name}{name_numbers(values)}": values != usual[name] for name, values in found.items()}
    given = given_fields(arguments, default)
    differs |= {f"{name}{value}": value != getattr(default, name) for name, value in given.items()}
    return "-".join(["run_sweep" if sweep else "run", *(name for name, does in differs.items() if does)]) + ".json"


def run_job(
    train: Callable[..., Run],
    configs: Sequence[Any],
    data: Any,
    jobs: int,
    log: Callable[..., Log],
    out: Path | None,
) -> int:
    """Train every config, `jobs` at a time, the deepest first; print a summary, write log(runs=...); the exit code.

    `train(config, data, report=...)` makes a run. What has finished when the job is cut short is kept: in `out`, or
    beside it where an earlier log lies. Raises Interrupted if nothing has finished.
    """
    from tqdm import tqdm

    tasks = sorted(enumerate(configs), key=lambda task: -task[1].depth)
    hidden = jobs == 1 or not sys.stderr.isatty()
    runs, stopped = {}, None
    try:
        made = run_tasks(functools.partial(_train_one, train, jobs == 1), tasks, data, jobs=jobs)
        for index, run in tqdm(made, total=len(tasks), unit="run", disable=hidden):
            runs[index] = run
            if jobs > 1:
                show_run(run)
    except (Interrupted, KeyboardInterrupt) as error:
        stopped = error
        if not runs:
            raise Interrupted("no run had finished, there is nothing to save") from error
    finished = [runs[index] for index in sorted(runs)]
    print("\n" + summary(finished))
    if stopped:
        reason = str(stopped) or "interrupted"
        print(f"\n{reason}: {len(runs)} of {len(configs)} runs had finished", file=sys.stderr)
        if out and out.exists():  # a whole log is worth more than a part
            out = out.with_stem(f"{out.stem}-interrupted")
    if out:
        write(out, log(runs=finished))
        print(f"saved {out}")
    return exit_code(stopped)


def _train_one(train: Callable[..., Run], in_sight: bool, task: tuple[int, Any], data: Any) -> tuple[int, Run]:
    index, config = task
    report = {"report": EpochReporter(config)} if in_sight else {}
    return index, train(config, data, **report)
