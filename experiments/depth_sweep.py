"""Tables of the nets that highway_networks.py trains: run.json, and run_sweep.json beside nets that are tuned."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from highway_lab.console import name_data, seeds_of
from highway_lab.intervals import interval
from highway_lab.logs import RunLog
from highway_lab.tables import markdown

from .common import final_values, group, points
from .common_figures import minus
from .study import Results, StudyRun, accuracies
from .study_command import StudyLog
from .tuned_plain import HIGHWAY, PLAIN, STUDY, by_kind

SKETCH = {  # the write-up that this project set out from: one run (seed 0) of each block and depth
    "test_score": {
        "highway": {5: "90.3", 10: "91.3", 20: "91.0", 30: "92.6", 50: "90.5"},
        "plain": {5: "85.7", 10: "29.2", 20: "9.8", 30: "12.4", 50: "12.4"},
    },
    "train_loss": {
        "highway": {5: "0.190", 10: "0.187", 20: "0.215", 30: "0.189", 50: "0.301"},
        "plain": {5: "0.478", 10: "1.773", 20: "2.303", 30: "2.302", 50: "2.302"},
    },
    "seconds": {"highway": {30: "4.9"}, "plain": {30: "1.9"}},
}
FIELDS = {"test_score": "test accuracy (%)", "train_loss": "training loss"}
KINDS = HIGHWAY, PLAIN, ("plain, orthogonal", 50)  # of tuned nets; the first two in one setting, too


def in_sketch(field: str, block: str, depth: int) -> str:
    """Return the sketch's number for a net; empty where it reports none."""
    return SKETCH[field].get(block, {}).get(depth, "")


def final_or_chance(runs: Sequence[Any], field: str) -> str:
    """Return the last value of a field of FIELDS, mean and interval; a diverged run guesses, and has no loss."""
    return f"{interval(points(runs)):.1f}" if field == "test_score" else f"{interval(final_values(runs, field)):.3f}"


def headline(sweep: RunLog, *logs: StudyLog) -> str:
    """Return a table of test accuracy by depth: highway and plain nets in the sweep's one setting, and tuned.

    The logs are those of `tuned_plain`; the second completes that setting where the sweep has no nets of a depth.
    """
    config, of_sweep = sweep.runs[0].config, group(sweep.runs, "depth", "block")
    tuned, untuned = (by_kind(Results(study, log.runs)) for study, log in zip(STUDY.values(), logs, strict=True))
    rows = []
    for depth in tuned[PLAIN]:
        rows.append([str(depth)])
        for kind in KINDS[:2]:
            runs = of_sweep.get((depth, kind[0]))
            rows[-1].append(final_or_chance(runs, "test_score") if runs else accuracy_cell(untuned[kind].get(depth)))
        rows[-1] += [accuracy_cell(tuned[kind].get(depth)) for kind in KINDS]
    header = ["blocks", *(f"{arm}, one setting" for arm, _ in KINDS[:2]), *(f"{arm}, tuned" for arm, _ in KINDS)]
    return (
        f"{markdown(header, rows)}\n\nTest accuracy in %. {seeds_of(run.config for run in sweep.runs)} "
        f"One setting: {config.n_train:,} {name_data(sweep.dataset.name)} images, {config.epochs} epochs of "
        f"{config.optimizer.capitalize()} at rate {config.lr:g}. {config.hidden} {config.activation} units a block, "
        f"{config.init} weights (±1/√fan_in), b_T {minus(config.gate_bias)}. Tuned: at each depth, rate and initial "
        "weights of each kind of net were chosen by validation accuracy, for highway nets b_T, too; orthogonal weights "
        "have a column of their own. Empty: not measured; a net of 0 blocks has no gates."
    )


def accuracy_cell(runs: Sequence[StudyRun] | None) -> str:
    """Return mean accuracy and interval; empty where there are no nets of a depth."""
    return f"{interval(accuracies(runs)):.1f}" if runs else ""


def run_table(log: RunLog) -> str:
    """Return a table of each net's final scores, size and time, beside the sketch's."""
    rows = []
    for (block, depth), runs in group(log.runs, "block", "depth").items():
        rows.append([f"{block}, {depth} blocks"])
        for field in FIELDS:
            rows[-1] += [final_or_chance(runs, field), in_sketch(field, block, depth)]
        seconds = sum(sum(run.history.seconds) for run in runs) / len(runs)
        rows[-1] += [f"{runs[0].n_params:,}", f"{seconds:.1f}", in_sketch("seconds", block, depth)]
    return markdown(["net", *beside_sketch(FIELDS.values()), "parameters", *beside_sketch(["seconds"])], rows)


def sweep_table(log: RunLog) -> str:
    """Return a table of final scores by depth, a column for each kind of block, beside the sketch's."""
    groups = group(log.runs, "depth", "block")
    columns = list(product(FIELDS, dict.fromkeys(run.config.block for run in log.runs)))
    rows = []
    for depth in sorted({depth for depth, _ in groups}):
        rows.append([str(depth)])
        for field, block in columns:
            rows[-1] += [final_or_chance(groups[depth, block], field), in_sketch(field, block, depth)]
    header = ["blocks", *beside_sketch(f"{block} {FIELDS[field]}" for field, block in columns)]
    return f"{markdown(header, rows)}\n\n{seeds_of(run.config for run in log.runs)}"


def beside_sketch(words: Iterable[str]) -> list[str]:
    return [title for word in words for title in (word, "sketch")]
