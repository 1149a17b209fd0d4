"""What training runs look like in words: a bar or a line an epoch, a line a run, a table of all; words for tables."""

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from highway_lab.cli import name_numbers
from highway_lab.logs import TEST_IMAGES, DatasetInfo, Run


def name_data(dataset: str) -> str:
    """A data set's name as titles have it."""
    return re.sub("mnist|cifar", lambda found: found[0].upper(), dataset)


def name_tested(dataset: DatasetInfo) -> str:
    """`CIFAR-10, first 1,000 test images`: a log's data set, and what it was tested on if that is not all there is."""
    return name_data(dataset.name) + f", {dataset.test_set}" * (dataset.test_set != TEST_IMAGES)


def mean_sd(values: Sequence[float], digits: int = 3) -> str:
    """`0.912 ± 0.004`: mean and sample standard deviation; the mean alone if there is one value."""
    if not values:
        return "none"
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def final(runs: Sequence, field: str, *, percent: bool = False) -> str:
    """The last value of a history's field as mean ± sd over the runs that finished, and how many did not."""
    values = [getattr(run.history, field)[-1] for run in runs if not run.diverged]
    diverged = len(runs) - len(values)
    words = mean_sd([100 * value for value in values], digits=2) if percent else mean_sd(values)
    return words + (f" ({diverged} diverged)" if diverged else "")


def seeds_of(configs: Iterable) -> str:
    """The sentence below a table that says what its ± means."""
    seeds = sorted({config.seed for config in configs})
    return f"Mean ± sample standard deviation over {len(seeds)} seeds ({name_numbers(seeds)})."


def describe_scores(run: Run) -> str:
    """The last row of a run's history in words: what matters most first, as what is cut off is at the end."""
    history = run.history
    if history.train_loss[-1] is None:
        return "loss not finite: diverged"
    columns = {"test": history.test_score, "validation": history.validation_score, "train": history.train_score}
    last = {name: column[-1] for name, column in columns.items() if column and column[-1] is not None}
    return "  ".join([*(f"{name} {score:.3f}" for name, score in last.items()), f"loss {history.train_loss[-1]:.3f}"])


class EpochReporter:
    """Shows a run's progress: a bar on a terminal, if the run is `alone` there; one line an epoch elsewhere."""

    def __init__(self, config: Any, *, alone: bool = True):
        from tqdm import tqdm

        self.label, self.epochs = label(config), config.epochs
        shown = alone and sys.stderr.isatty()
        self.bar = tqdm(
            total=self.epochs, bar_format="{desc} {n_fmt}/{total_fmt} |{bar}| {remaining}", disable=not shown
        )

    def __call__(self, run: Run) -> None:
        epoch, scores = run.history.epoch[-1], describe_scores(run)
        if self.bar.disable:
            print(f"{self.label}  epoch {epoch:>{len(str(self.epochs))}}/{self.epochs}  {scores}", flush=True)
            return
        self.bar.set_description_str(
            f"{scores.replace(run.metric, '').replace('  ', ' ')}  {self.label}", refresh=False
        )
        self.bar.update(epoch - self.bar.n)
        self.bar.refresh()
        if run.ended:
            self.bar.close()


def label(config: Any) -> str:
    """What a run is called."""
    return f"{config.title} seed {config.seed}"


def full_name(dataset: str, config: Any) -> str:
    """The same for a file: no run on other data or of another config has it, too."""
    return f"{dataset}-{label(config).replace(' ', '-')}-{digest(config)}"


def digest(config: Any) -> str:
    """Twelve letters that tell a config from any other."""
    return hashlib.sha256(json.dumps(dataclasses.asdict(config)).encode()).hexdigest()[:12]


def summary(runs: Sequence[Run], test_set: str) -> str:
    """The runs as a table: the kinds of block side by side, a row a size; test score and training loss, seconds.

    `test_set` (see DatasetInfo) stands below it where it is not all test images.
    """
    blocks, size = list(dict.fromkeys(run.config.block for run in runs)), runs[0].config.SIZE
    names = [f"{block} test {runs[0].metric}" for block in blocks]
    scored = max(26, *(len(name) + 1 for name in names))
    header = "".join(f"   {name:<{scored}}{'train loss':<15}{'seconds':>7}" for name in names)
    values = sorted({getattr(run.config, size) for run in runs})
    width = max(len(str(value)) for value in (size, *values))
    lines = [f"{size:<{width}}{header}"]
    for value in values:
        groups = ([run for run in runs if (run.config.block, getattr(run.config, size)) == (b, value)] for b in blocks)
        lines.append("   ".join([f"{value:>{width}}", *(_cells(group, scored) for group in groups)]))
    if test_set != TEST_IMAGES:
        lines.append(f"test: {test_set}")
    return "\n".join(lines)


def _cells(group: list[Run], scored: int) -> str:
    if not group:
        return " " * (scored + 22)
    finished = [run.history for run in group if not run.diverged]
    score = mean_sd([history.test_score[-1] for history in finished])
    loss = mean_sd([history.train_loss[-1] for history in finished])
    seconds = sum(sum(run.history.seconds) for run in group)
    note = f" ({len(group) - len(finished)} diverged)" if len(finished) < len(group) else ""
    return f"{score:<{scored}}{loss:<15}{seconds:>7.1f}{note}"
