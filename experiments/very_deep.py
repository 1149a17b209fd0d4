"""Section 2.2 and the blog: do 1,000 layers train, and which gate biases work?

The paper reports that SGD did not stall with more than 1,000 layers; a blog (Fleming 2015) that 1,000 layers reach
about 95 % on MNIST with b_T near -20, and that very low and very high biases both fail to converge in reasonable time;
elsewhere one reads that highway networks struggle beyond about 100 layers.

Two measurements, each over three seeds. Depth: 50 to 1,000 blocks, plain and highway, the latter from two biases; the
mean T after training tells whether the layers take part or merely let pass. Gate bias: +4 to -40 at 20 and 100 blocks.
Deviations: Adam in place of SGD with momentum, and budgets of minutes, in the constants below; nothing was tuned.

    python -m experiments.very_deep run --jobs 2
    python -m experiments.very_deep plot
"""

import argparse
from dataclasses import dataclass

from highway_networks import Config, Dataset, train
from reporting import mean_sd
from run_log import DatasetInfo, History, Log, Result
from side_by_side import ResultFile, finish

from .common import Experiment, add_run_flags, final_scores, fit, group_by, load_data, start

SEEDS = (0, 1, 2)
DEPTHS = (50, 100, 200, 500, 1000)
ARMS = (("highway", -6.0), ("highway", -20.0), ("plain", None))  # block, gate bias
DEPTH_BUDGET = {"lr": 1e-3, "epochs": 10, "n_train": 10_000, "n_test": 2_000}
BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
BIAS_DEPTHS = (20, 100)
BIAS_BUDGET = {"lr": 2e-3, "epochs": 12, "n_train": 6_000, "n_test": 2_000}
SMOKE_BUDGET = {"epochs": 2, "n_train": 512, "n_test": 128}


@dataclass
class DeepRun(Result):
    """One training run; gate_means is the mean T of each block after training, null without gates."""

    config: Config
    diverged: bool
    history: History
    gate_means: list[float | None] | None


@dataclass
class VeryDeepLog(Log):
    """runs/very_deep.json."""

    by_depth: list[DeepRun]
    by_bias: list[DeepRun]


EXPERIMENT = Experiment("very_deep", __doc__, VeryDeepLog)


def depth_configs(data: Dataset, smoke: bool) -> list[Config]:
    """The runs of the depth measurement, the deepest first."""
    depths, seeds = ((5, 20), (0,)) if smoke else (DEPTHS, SEEDS)
    budget = fit(DEPTH_BUDGET | (SMOKE_BUDGET if smoke else {}), data)
    return [
        Config(block=block, depth=depth, seed=seed, **({} if bias is None else {"gate_bias": bias}), **budget)
        for depth in sorted(depths, reverse=True)
        for seed in seeds
        for block, bias in ARMS
    ]


def bias_configs(data: Dataset, smoke: bool) -> list[Config]:
    """The runs of the gate-bias measurement."""
    depths, seeds = ((5,), (0,)) if smoke else (BIAS_DEPTHS, SEEDS)
    budget = fit(BIAS_BUDGET | (SMOKE_BUDGET if smoke else {}), data)
    return [
        Config(depth=depth, gate_bias=bias, seed=seed, **budget)
        for depth in sorted(depths, reverse=True)
        for bias in BIASES
        for seed in seeds
    ]


def run_config(config: Config, data: Dataset) -> DeepRun:
    """Train one net; of its gates, only the last epoch's means are kept."""
    run = train(config, data)
    return DeepRun(None, config, run.diverged, run.history, run.gate_means and run.gate_means[-1])


def run(arguments: argparse.Namespace) -> None:
    """Train what is missing and write the log."""
    dataset, data = load_data(arguments)
    path = EXPERIMENT.log_path(dataset, arguments.smoke)
    by_depth, by_bias = depth_configs(data, arguments.smoke), bias_configs(data, arguments.smoke)
    runs = finish(
        run_config,
        by_depth + by_bias,
        data,
        ResultFile(path.with_suffix(".jsonl"), DeepRun),
        key=lambda item: getattr(item, "config", item),
        command=arguments.command_line,
        jobs=arguments.jobs,
    )
    info = DatasetInfo(dataset, by_depth[0].n_train, by_depth[0].n_test)
    measured = {"by_depth": runs[: len(by_depth)], "by_bias": runs[len(by_depth) :]}
    log = VeryDeepLog.new(arguments.command_line, info, **measured)
    EXPERIMENT.keep(path, log, summary(log))


def group(runs: list[DeepRun], *names: str) -> dict[tuple, list[DeepRun]]:
    """Runs that share the named hyperparameters, the seeds together."""
    return group_by(runs, lambda run: tuple(getattr(run.config, name) for name in names))


def name_arm(block: str, bias: float) -> str:
    """What a table or a legend calls an arm."""
    return block if block == "plain" else f"{block}, b_T {bias:g}"


def summary(log: VeryDeepLog) -> str:
    """Final test accuracies, mean ± sd over seeds."""
    lines = ["test accuracy by depth"]
    for (block, bias, depth), runs in group(log.by_depth, "block", "gate_bias", "depth").items():
        lines.append(f"  {name_arm(block, bias):<20}{depth:>6}   {mean_sd(final_scores(runs))}")
    lines.append("test accuracy by gate bias")
    for (depth, bias), runs in group(log.by_bias, "depth", "gate_bias").items():
        lines.append(f"  depth {depth:<6}b_T {bias:>5g}   {mean_sd(final_scores(runs))}")
    return "\n".join(lines)


add_run_flags(EXPERIMENT.add("run", run, "train all nets; resumable"))

if __name__ == "__main__":
    start("very_deep")
