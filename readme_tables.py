"""Write the README's tables from the committed logs.

    python readme_tables.py           rewrite them
    python readme_tables.py --check   change nothing; exit code 1 if one differs from its log

A table stands in README.md between the lines `<!-- table: NAME -->` and `<!-- end table -->`; NAME is a key of TABLES.
"""

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import run_log
from benchmarks.contenders import CONTENDERS, Case
from benchmarks.main_job import JobLog
from benchmarks.training_step import DEPTHS, WIDE, StepLog, fastest
from experiments import blocks_compared, class_routing, depth_search, gate_maps, lesions
from experiments.blocks_compared import BlocksComparedLog
from experiments.class_routing import ClassRoutingLog
from experiments.command_line import group_by
from experiments.depth_search import BestRun, DepthSearchLog
from experiments.gate_maps import GateMapsLog
from experiments.lesions import LesionsLog
from experiments.very_deep import VeryDeepLog
from figure_style import fingerprint
from highway_networks import Config, OneLineParser, mean_sd
from run_log import InputError, Run, RunLog, atomic_write

README = Path("README.md")
COMMAND = "python readme_tables.py"
OPENED = re.compile(r"^<!-- table:", re.MULTILINE)
MARKED = re.compile(r"^<!-- table: (\S+) -->\n(?:(?!<!-- table:).)*?^<!-- end table -->$", re.DOTALL | re.MULTILINE)


class Scores(NamedTuple):
    """What the stub, the sketch that this project grew from, reports of one run (seed 0)."""

    test_acc: float
    train_loss: float


STUB = {
    ("highway", 5): Scores(0.903, 0.190),
    ("highway", 10): Scores(0.913, 0.187),
    ("highway", 20): Scores(0.910, 0.215),
    ("highway", 30): Scores(0.926, 0.189),
    ("highway", 50): Scores(0.905, 0.301),
    ("plain", 5): Scores(0.857, 0.478),
    ("plain", 10): Scores(0.292, 1.773),
    ("plain", 20): Scores(0.098, 2.303),
    ("plain", 30): Scores(0.124, 2.302),
    ("plain", 50): Scores(0.124, 2.302),
}
STUB_SECONDS = {("highway", 30): 4.9, ("plain", 30): 1.9}


# ------------------------------------------------------------------------------ one function a table


def headline(log: RunLog[Config]) -> str:
    """Each net's final scores, size and time, beside the stub's."""
    rows = []
    for (kind, depth), runs in grouped(log).items():
        seconds = sum(sum(run.history.seconds) for run in runs) / len(runs)
        rows.append(
            [
                f"{kind}, depth {depth}",
                final(runs, "test_acc"),
                stub(kind, depth, "test_acc"),
                final(runs, "train_loss"),
                stub(kind, depth, "train_loss"),
                f"{runs[0].n_params:,}",
                f"{seconds:.1f}",
                str(STUB_SECONDS.get((kind, depth), "")),
            ]
        )
    return markdown(
        ["net", "test accuracy", "stub", "training loss", "stub", "parameters", "seconds", "stub"], rows
    ) + count_seeds(log)


def depth_sweep(log: RunLog[Config]) -> str:
    """Final scores by depth, highway beside plain, beside the stub's."""
    groups = grouped(log)
    kinds = list(dict.fromkeys(kind for kind, _ in groups))
    columns = [(kind, field) for field in Scores._fields for kind in kinds]
    words = {"test_acc": "test accuracy", "train_loss": "training loss"}
    header = ["depth"]
    for kind, field in columns:
        header += [f"{kind} {words[field]}", "stub"]
    rows = []
    for depth in sorted({depth for _, depth in groups}):
        row = [str(depth)]
        for kind, field in columns:
            row += [final(groups.get((kind, depth), []), field), stub(kind, depth, field)]
        rows.append(row)
    return markdown(header, rows) + count_seeds(log)


def environment(log: Any) -> str:
    """How and where a log was made, in a line: of any log with a `command`, a `created` and an `environment`."""
    machine = log.environment
    threads = f"{machine.threads} BLAS thread{'s' * (machine.threads > 1)}"
    commit = f"commit {(machine.commit or 'unknown')[:7]}{' with changes' * bool(machine.dirty)}"
    versions = f"Python {machine.python}, NumPy {machine.numpy}, {machine.blas}, {threads}"
    return f"`{log.command}`: {versions}, {machine.cpu}, {commit}, {log.created[:10]}."


def depth_search_table(log: DepthSearchLog) -> str:
    """By arm: the ten best settings of the search, and the longer run of the best one."""
    rows = []
    longer = depth_search.best_of_arm(log.best)
    for arm, ranked in depth_search.by_arm(log.results).items():
        trial = longer[arm].trial if arm in longer else ranked[0].trial
        top = [result.best_loss for result in ranked[: depth_search.TOP]]
        bias = "" if trial.gate_bias is None else f", b_T {trial.gate_bias:.1f}"
        rows.append(
            [
                f"{trial.architecture} {trial.depth}",
                f"{np.mean(top):.3g} ± {np.std(top, ddof=1):.2g}",
                f"{sum(result.diverged for result in ranked)} of {len(ranked)}",
                f"{trial.activation}, lr {trial.lr:.2g}, momentum {trial.momentum:.2g}{bias}",
                *longer_run(longer.get(arm)),
            ]
        )
    header = ["arm", "ten best: loss", "diverged", "best setting", "lowest loss", "epochs to 0.1", "test accuracy"]
    return markdown(header, rows)


def depth_search_claims(log: DepthSearchLog) -> str:
    """What the paper says of figure 1, beside the lowest training losses of the longer runs."""
    best = depth_search.best_of_arm(log.best)
    loss = {arm: run.lowest_loss for arm, run in best.items()}
    reached = {arm: longer_run(run)[1] for arm, run in best.items()}

    def listed(of: dict, kind: str, *depths: int) -> str:
        return ", ".join(f"{of[kind, d]:.1e}" if of is loss else of[kind, d] for d in depths)

    orders = math.log10(loss["plain", 100] / loss["highway", 100])
    every = depth_search.DEPTHS
    rows = [
        ["plain nets of 10 and 20 layers reach a loss below 1e-4", listed(loss, "plain", 10, 20)],
        ["plain nets degrade as depth grows", f"at 10, 20, 50, 100: {listed(loss, 'plain', *every)}"],
        ["highway nets of 50 and 100 layers do as well as 10 and 20", listed(loss, "highway", *every)],
        ["at 100 layers highway is more than 2 orders of magnitude better", f"{orders:.1f} orders"],
        [
            "highway nets converge faster (epochs until the loss is below 0.1)",
            f"highway {listed(reached, 'highway', *every)}; plain {listed(reached, 'plain', *every)}",
        ],
    ]
    return markdown(["the paper", f"here, lowest loss in {best['plain', 10].trial.epochs} epochs"], rows)


def longer_run(run: BestRun | None) -> list[str]:
    """Lowest training loss, epochs until it was below 0.1, and final test accuracy; empty where there is no run."""
    if run is None:
        return ["", "", ""]
    losses = [math.inf if loss is None else loss for loss in run.history.train_loss]
    reached = next((str(epoch) for epoch, loss in enumerate(losses) if loss < 0.1), "never")
    accuracy = run.history.test_acc[-1]
    return [f"{min(losses):.2g}", reached, "diverged" if accuracy is None else f"{accuracy:.4f}"]


def gate_maps_table(log: GateMapsLog) -> str:
    """What the paper says of figure 2, beside what was measured on this net."""
    claims, depth = log.claims, len(log.maps.b_T)
    rows = [
        ["most gate biases decreased in training", f"{claims.biases_decreased:.0%} did"],
        [
            f"the gates of one sample are sparse (T below {gate_maps.CLOSED} is closed)",
            f"{claims.closed_for_a_sample:.0%} closed for a sample, {claims.closed_in_the_mean:.0%} in the mean",
        ],
        [
            f"gates are selective (T above {gate_maps.OPEN} is open)",
            f"{claims.ever_open:.0%} open for some image, {claims.selective:.0%} for some and not for all",
        ],
        [
            "most of the change in outputs happens in about the first 15 layers",
            f"{gate_maps.MOST:.0%} of it by layer {claims.layer_of_most_change} of {depth}",
        ],
        [
            "the biases are inversely correlated with the mean activity (said of CIFAR-100)",
            f"correlation over layers {claims.bias_and_mean_T:+.2f}",
        ],
    ]
    return markdown(["the paper", "here"], rows)


def class_routing_table(log: ClassRoutingLog) -> str:
    """How well each classifier reads the digit off one layer's gates, off its outputs, and off the pixels."""
    rows = []
    for name, accuracies in log.accuracies.items():
        layer = int(np.argmax(accuracies.gates))
        rows.append(
            [
                name,
                f"{accuracies.gates[layer]:.3f} (layer {layer + 1})",
                f"{accuracies.gates[0]:.3f}",
                f"{accuracies.gates[-1]:.3f}",
                f"{accuracies.outputs[-1]:.3f}",
                f"{accuracies.pixels:.3f}",
            ]
        )
    header = ["classifier", "gates, best layer", "first layer", "last layer", "last layer's outputs", "pixels"]
    clusters = ", ".join(
        f"{mean_sd(found.adjusted_mutual_information)} for {name}" for name, found in log.clusters.items()
    )
    return (
        f"{markdown(header, rows)}\n\nTest accuracy; always guessing the commonest class: {log.chance:.3f}. "
        f"{log.routing.share_in_first_layers:.0%} of the class differences of T lie in the first "
        f"{class_routing.FIRST_LAYERS} layers. Adjusted mutual information of ten k-means clusters with the digits: "
        f"{clusters}."
    )


def lesions_table(log: LesionsLog) -> str:
    """For each net: its error, the idle layers, and how many layers can go in several orders."""
    orders = list(log.nets[0].closings)
    rows = []
    for net in log.nets:
        needed = f"{len(net.needed)} ({min(net.needed)} to {max(net.needed)})" if net.needed else "none"
        spared = [f"{np.mean(net.closings[order].spared):.0f}" for order in orders]
        rows.append([net.source.label, f"{net.error:.2%}", f"{net.idle_share:.0%}", needed, *spared])
    return markdown(["net", "training error", "idle layers", "needed layers", *orders], rows) + (
        f"\n\nIdle: closing the layer changes the error by less than {lesions.IDLE:.1%} (absolute); needed: by more "
        f"than {lesions.POINT:.0%}. The last columns: how many layers can be closed, in that order, before accuracy "
        f"falls by one point. The paper: about {lesions.PAPER_IDLE:.0%} idle."
    )


def training_step_table(log: StepLog) -> str:
    """Milliseconds of a step of each contender, and our time over its time, within each round."""
    cases = {f"depth {depth}": Case(depth) for depth in DEPTHS} | {"depth 4, width 512, batch 1,024": WIDE}
    rows = []
    for name, contender in CONTENDERS.items():
        row = [contender.label]
        for case in cases.values():
            found = fastest(log, case, [name])
            row.append(f"{found.ms.median:.3g}" if found else log.missing.get(name, ""))
            row.append(f"{found.ours_over.median:.2f}" if found and name != "ours" else "")
        rows.append(row)
    header = ["milliseconds a step", *(word for case in cases for word in (case, "ours / it"))]
    deep = [fastest(log, Case(depth), ["ours"]).ms.median for depth in (100, 1000)]
    return (
        f"{markdown(header, rows)}\n\nMedians over {log.rounds} rounds, each contender at its better number of "
        f"threads; width 50 and batch 128 unless stated. Our step at depth 1,000 takes {deep[1] / deep[0]:.1f} times "
        "as long as at depth 100."
    )


def main_job_table(log: JobLog) -> str:
    """Whole commands as processes."""
    rows = [
        [use.name, f"{use.wall_seconds.median:.3g}", f"{use.cpu_seconds.median:.3g}", f"{use.peak_mib.median:.0f}"]
        for use in log.usages
    ]
    return (
        f"{markdown(['command', 'wall seconds', 'CPU seconds', 'peak MiB'], rows)}\n\nMedians over {log.rounds} "
        f"rounds. The sweep at two jobs takes {log.sweep_2_jobs_over_1.median:.2f} of its time at one."
    )


def very_deep_table(log: VeryDeepLog) -> str:
    """Final test accuracy by depth: highway nets from two biases, and plain ones."""
    by_arm = group_by(log.by_depth, lambda run: (run.config.block, run.config.gate_bias))
    names = {arm: arm[0] if arm[0] == "plain" else f"highway, b_T {arm[1]:g}" for arm in by_arm}
    depths = sorted({run.config.depth for run in log.by_depth})
    rows = []
    for depth in depths:
        same = {arm: [run for run in runs if run.config.depth == depth] for arm, runs in by_arm.items()}
        rows.append([f"{depth:,}", *(spread_of(runs) for runs in same.values())])
    return markdown(["blocks", *names.values()], rows) + seeds_of([run.config for run in log.by_depth])


def gate_bias_table(log: VeryDeepLog) -> str:
    """Final test accuracy by initial gate bias."""
    by_bias = group_by(log.by_bias, lambda run: run.config.gate_bias)
    depths = sorted({run.config.depth for run in log.by_bias})
    rows = [
        [f"{bias:g}", *(spread_of([run for run in runs if run.config.depth == depth]) for depth in depths)]
        for bias, runs in reversed(by_bias.items())
    ]
    header = ["b_T", *(f"{depth} blocks" for depth in depths)]
    return markdown(header, rows) + seeds_of([run.config for run in log.by_bias])


def blocks_compared_table(log: BlocksComparedLog) -> str:
    """Final test accuracy of each block by depth, with the rate that was chosen for it."""
    groups = blocks_compared.arms(log.runs)
    depths = sorted({depth for _, _, depth in groups})
    rows = []
    for equal in blocks_compared.WIDTHS:
        for block in blocks_compared.BLOCKS:
            cells = [groups[equal, block, depth] for depth in depths]
            width = cells[0][0].task.config.hidden
            scores = [f"{spread_of(runs)} (lr {runs[0].task.config.lr:g})" for runs in cells]
            rows.append([f"equal {equal}", block, str(width), *scores])
    header = ["", "block", "width", *(f"{depth} blocks" for depth in depths)]
    return markdown(header, rows) + seeds_of([run.task.config for run in log.runs])


def spread_of(runs: list) -> str:
    """Final test accuracy of runs with a history, mean ± sd over those that finished, and how many did not."""
    return final(runs, "test_acc")


def seeds_of(configs: list[Config]) -> str:
    """The sentence below a table that says what ± means."""
    seeds = sorted({config.seed for config in configs})
    listed = ", ".join(map(str, seeds))
    return f"\n\nTest accuracy, mean ± sample standard deviation over {len(seeds)} seeds ({listed})."


def grouped(log: RunLog[Config]) -> dict[tuple[str, int], list[Run]]:
    """The runs of each (block, depth)."""
    groups = {}
    for run in log.runs:
        groups.setdefault((run.config.block, run.config.depth), []).append(run)
    return groups


def final(runs: list[Run], field: str) -> str:
    """The last value of a field as mean ± sd over the runs that finished, and how many did not."""
    values = [getattr(run.history, field)[-1] for run in runs if not run.diverged]
    diverged = len(runs) - len(values)
    return mean_sd(values) + (f" ({diverged} diverged)" if diverged else "")


def stub(kind: str, depth: int, field: str) -> str:
    """The stub's number for the same net; empty where it reports none."""
    scores = STUB.get((kind, depth))
    return f"{getattr(scores, field):.3f}" if scores else ""


def count_seeds(log: RunLog[Config]) -> str:
    """The sentence below a table that says what ± means; empty for a single seed."""
    seeds = sorted({run.config.seed for run in log.runs})
    if len(seeds) == 1:
        return ""
    listed = ", ".join(map(str, seeds))
    return f"\n\nMean ± sample standard deviation over {len(seeds)} seeds ({listed}); the stub: seed 0 alone."


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; its first column is set to the left, all others to the right."""
    rule = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


# ------------------------------------------------------------------------------------- the README


class Table(NamedTuple):
    """A log, the class of its schema, the command that makes it, and the function that makes it Markdown."""

    log: str
    schema: type
    command: str
    render: Callable[[Any], str]


RUN = ("run.json", RunLog[Config], "python highway_networks.py --seed 0")
SWEEP = (
    "run_sweep.json",
    RunLog[Config],
    "python highway_networks.py --seeds 0,1,2,3,4 --depths 5,10,20,30,50",
)
DEPTH_SEARCH = ("runs/depth_search.json", DepthSearchLog, "python -m experiments.depth_search run")
STEP = ("benchmarks/training_step.json", StepLog, "make bench")
JOB = ("benchmarks/main_job.json", JobLog, "make bench")
GATE_MAPS = ("runs/gate_maps.json", GateMapsLog, "python -m experiments.gate_maps run")
CLASS_ROUTING = ("runs/class_routing.json", ClassRoutingLog, "python -m experiments.class_routing run")
LESIONS = ("runs/lesions.json", LesionsLog, "python -m experiments.lesions run")
VERY_DEEP = ("runs/very_deep.json", VeryDeepLog, "python -m experiments.very_deep run")
BLOCKS_COMPARED = ("runs/blocks_compared.json", BlocksComparedLog, "python -m experiments.blocks_compared run")
TABLES = {
    "headline": Table(*RUN, headline),
    "run_environment": Table(*RUN, environment),
    "depth_sweep": Table(*SWEEP, depth_sweep),
    "run_sweep_environment": Table(*SWEEP, environment),
    "training_step": Table(*STEP, training_step_table),
    "training_step_environment": Table(*STEP, environment),
    "main_job": Table(*JOB, main_job_table),
    "depth_search": Table(*DEPTH_SEARCH, depth_search_table),
    "depth_search_claims": Table(*DEPTH_SEARCH, depth_search_claims),
    "gate_maps": Table(*GATE_MAPS, gate_maps_table),
    "class_routing": Table(*CLASS_ROUTING, class_routing_table),
    "lesions": Table(*LESIONS, lesions_table),
    "very_deep": Table(*VERY_DEEP, very_deep_table),
    "gate_bias": Table(*VERY_DEEP, gate_bias_table),
    "blocks_compared": Table(*BLOCKS_COMPARED, blocks_compared_table),
}


def block(name: str) -> str:
    """The table `name` as it stands in the README, markers and the fingerprint of its log included."""
    if name not in TABLES:
        raise InputError(f"{README}: expected one of the tables {', '.join(TABLES)}, found {name!r}; rename its marker")
    table = TABLES[name]
    log = run_log.read(table.log, table.schema, f"make it with: {table.command}")
    return "\n".join(
        [
            f"<!-- table: {name} -->",
            f"<!-- {fingerprint(table.log)} -->",
            "",
            table.render(log),
            "",
            f"From [{table.log}]({table.log}).",
            "<!-- end table -->",
        ]
    )


def filled(text: str) -> str:
    """The README's text with every table made anew; raises InputError for a marker that has no end or no table."""
    opened, closed = len(OPENED.findall(text)), len(MARKED.findall(text))
    if closed < opened:
        raise InputError(
            f"{README}: expected a line `<!-- end table -->` after each line `<!-- table: NAME -->`, "
            f"found {opened - closed} without; mend the markers"
        )
    return MARKED.sub(lambda match: block(match[1]), text)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if --check finds a difference, 2 for an error of the user's."""
    parser = OneLineParser(prog="readme_tables.py", description="Write the README's tables from the committed logs.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 if a table differs")
    arguments = parser.parse_args(argv)
    try:
        text = read_readme()
        wanted = filled(text)
        if arguments.check and wanted != text:
            print(f"{README}: expected the tables of the logs, found others; run: {COMMAND}", file=sys.stderr)
            return 1
        if wanted != text:
            with atomic_write(README) as file:
                file.write(wanted)
    except InputError as error:
        parser.error(str(error))
    return 0


def read_readme() -> str:
    try:
        return README.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{README}: expected to be here, found: {error.strerror}; run this in its folder") from error


if __name__ == "__main__":
    sys.exit(main())
