"""What a training command does with its runs: trains them side by side, shows how they go, saves the log."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from command_line import Interrupted, exit_code
from reporting import EpochReporter, show_run, summary
from run_log import Log, Run, write
from side_by_side import run_tasks


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
