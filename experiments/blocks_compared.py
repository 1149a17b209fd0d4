"""What does the gate buy? Plain, residual, highway and uncoupled highway blocks side by side, and their gradients.

It is often said that the fixed identity of y = x + H(x) passes gradients more surely than a gate can. Four blocks -
plain (eq. 1), residual, highway coupled (eq. 3) and highway with its own carry gate (eq. 2) - at 10, 30 and 100 layers,
at equal depth (all 50 wide) and, separately, at equal parameters a layer (plain and residual 71 wide, uncoupled 41).
Each at its own best rate of a small grid, chosen by the loss on held-out training images over two seeds, and gated
blocks from a bias that grows with depth, as the paper advises; then five other seeds, scored on test images. The paper
itself compares plain with coupled highway blocks only.

With it, gradient flow: the norm of dL/dx of every layer on a fixed batch, and the singular values of the middle layer's
Jacobian dy/dx at one image, before and after training.

    python -m experiments.blocks_compared run --jobs 2
    python -m experiments.blocks_compared plot
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import run_log
from highway_networks import BLOCKS as KINDS
from highway_networks import (
    Config,
    Dataset,
    DeepNet,
    Training,
    mean_sd,
    scale,
    softmax_cross_entropy,
    training_conditions,
)
from run_log import DatasetInfo, Environment, History, numbers

from .command_line import Commands, add_plot_flags, add_run_flags, default_log, fit, group_by, load_data
from .resumable import ResultFile, finish

NAME = "blocks_compared"
FIGURES = ("blocks_compared.png", "gradient_flow.png")
BLOCKS = ("plain", "residual", "highway", "highway-uncoupled")
DEPTHS = (10, 30, 100)
WIDTHS = {
    "depth": dict.fromkeys(BLOCKS, 50),
    "parameters": {"plain": 71, "residual": 71, "highway": 50, "highway-uncoupled": 41},  # about 5,100 a layer
}
RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
# The paper's guideline (section 2.2) for 10 and 30 layers; for 100, what trains in the search of figure 1.
GATE_BIAS = {10: -1.0, 30: -3.0, 100: -6.0}
CHOOSING_SEEDS = (100, 101)
SEEDS = (0, 1, 2, 3, 4)
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 2_000}
SMOKE_BUDGET = {"epochs": 2, "n_train": 512, "n_test": 128}
HELD_OUT = 1 / 6  # share of the training images that only the choice of the rate looks at
FLOW_BATCH = 256


@dataclass(frozen=True)
class Task:
    """One run: what is equal across blocks, and whether the run chooses a rate or measures with the chosen one."""

    equal: str  # "depth" or "parameters"
    choosing: bool
    config: Config


@dataclass
class Flow:
    """Before or after training: norms of dL/dx_l, l = 0..L, and singular values of the middle layer's Jacobian."""

    gradient_norms: list[float | None]
    singular_values: list[float | None]


@dataclass
class ComparedRun:
    """One run's first and last rows, seconds in all; test scores are of held-out images where it chooses a rate."""

    task: Task
    n_params: int
    diverged: bool
    history: History
    untrained: Flow
    trained: Flow


@dataclass
class BlocksComparedLog:
    """runs/blocks_compared.json."""

    schema: int
    created: str
    command: str
    dataset: DatasetInfo
    environment: Environment
    choosing: list[ComparedRun]
    runs: list[ComparedRun]


# ------------------------------------------------------------------------------------------- gradients


def gradient_norms(net: DeepNet, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Norm of dL/dx_l over a batch, for the input of every block and the last one's output: (L+1,)."""
    logits, cache = net.forward(x)
    _, dlogits = softmax_cross_entropy(logits, y)
    net.backward(dlogits, cache)
    return np.linalg.norm(cache.dx, axis=(1, 2))


def jacobian(net: DeepNet, x_l: np.ndarray, l: int) -> np.ndarray:
    """dy/dx (D, D) of block l at one input x_l (D,), row i holding dy_i/dx (compare eq. 5).

    A batch of D copies of x_l, with one unit vector each as dy, gives all rows in one backward pass.
    """
    x = np.tile(x_l, (net.hidden, 1))
    z, _ = next(net.walk(x, l))
    dz, dx = np.empty_like(z), np.empty_like(x)
    net.block.backward(np.eye(net.hidden, dtype=net.dtype), x, z, dz, dx, net.activation)
    return dx + (dz @ net.params.W[l].swapaxes(1, 2)).sum(axis=0)


def measure_flow(net: DeepNet, x: np.ndarray, y: np.ndarray) -> Flow:
    """Gradient norms over the batch, and the middle layer's singular values at its first image."""
    _, cache = net.forward(x)
    middle = net.depth // 2
    J = jacobian(net, cache.x[middle, 0], middle)
    values = np.linalg.svd(J, compute_uv=False) if np.isfinite(J).all() else np.full(net.hidden, np.nan)
    return Flow(numbers(gradient_norms(net, x, y), digits=4), numbers(values, digits=4))


# ---------------------------------------------------------------------------------------------- runs


def hold_out(data: Dataset) -> Dataset:
    """The training images alone, a fixed part of them in the place of the test images."""
    order = np.random.default_rng(0).permutation(len(data.train_images))
    held, kept = np.split(order, [int(len(order) * HELD_OUT)])
    return Dataset(data.train_images[kept], data.train_labels[kept], data.train_images[held], data.train_labels[held])


def run_task(task: Task, data: Dataset) -> ComparedRun:
    """Train one net and measure its gradients before and after."""
    training = Training(task.config, data)
    net, images = training.net, training.data
    x, y = scale(images.train_images[:FLOW_BATCH], net.dtype), images.train_labels[:FLOW_BATCH]
    history, epoch, norm = History.empty(), 0, np.nan
    with training_conditions(task.config):
        untrained = measure_flow(net, x, y)
        history.append(epoch, *training.scores(), norm, 0.0)
        start = time.perf_counter()
        for epoch in range(1, task.config.epochs + 1):  # noqa: B007, the last epoch is recorded
            loss, norm = training.run_epoch()
            if not np.isfinite(loss):
                break
        scores = training.scores()
        history.append(epoch, *scores, norm, time.perf_counter() - start)
        trained = measure_flow(net, x, y)
    diverged = not np.isfinite(loss + sum(scores))
    return ComparedRun(task, net.params.flat.size, diverged, history, untrained, trained)


def plan(data: Dataset, smoke: bool, rates: dict[tuple, float] | None = None) -> list[Task]:
    """The runs that choose a rate, or, given the chosen `rates` (by what is equal, block and depth), the others."""
    budget = fit(SMOKE_BUDGET if smoke else BUDGET, data)
    depths = (2, 4) if smoke else DEPTHS
    seeds = CHOOSING_SEEDS if rates is None else SEEDS
    return [
        Task(
            equal,
            choosing=rates is None,
            config=Config(
                block=block,
                depth=depth,
                hidden=WIDTHS[equal][block],
                gate_bias=GATE_BIAS.get(depth, Config.gate_bias) if "T" in KINDS[block].branches else Config.gate_bias,
                lr=lr,
                seed=seed,
                **budget,
            ),
        )
        for depth in sorted(depths, reverse=True)
        for equal in WIDTHS
        for block in BLOCKS
        for seed in seeds[: 1 if smoke else None]
        for lr in (RATES if rates is None else [rates[equal, block, depth]])
    ]


def chosen_rates(runs: list[ComparedRun]) -> dict[tuple, float]:
    """The rate of lowest mean held-out loss, by what is equal, block and depth; a diverged run counts as infinite."""

    def mean_loss(group: list[ComparedRun]) -> float:
        return float(np.mean([np.inf if run.diverged else run.history.test_loss[-1] for run in group]))

    rates = {}
    for arm, group in arms(runs).items():
        by_rate = group_by(group, lambda run: run.task.config.lr)
        rates[arm] = min(by_rate, key=lambda lr: mean_loss(by_rate[lr]))
    return rates


def read_log(path: str | Path) -> BlocksComparedLog:
    """Read and check a log of this experiment; raises InputError."""
    return run_log.read(path, BlocksComparedLog, f"make it with python -m experiments.{NAME} run")


def run_command(arguments: argparse.Namespace) -> None:
    """Choose the rates, measure with them, write the log."""
    dataset, data = load_data(arguments)
    path = default_log(NAME, dataset, arguments.smoke)

    def finished(tasks: list[Task], images: Dataset) -> list[ComparedRun]:
        return finish(
            run_task,
            tasks,
            images,
            ResultFile(path.with_suffix(".jsonl"), ComparedRun),
            key=lambda item: getattr(item, "task", item),
            command=arguments.command_line,
            jobs=arguments.jobs,
        )

    kept = hold_out(data)
    choosing = finished(plan(kept, arguments.smoke), kept)
    runs = finished(plan(data, arguments.smoke, chosen_rates(choosing)), data)
    for run in choosing:  # the choice needs their scores alone
        run.untrained = run.trained = Flow([], [])
    config = runs[0].task.config
    log = BlocksComparedLog(
        schema=run_log.SCHEMA,
        created=run_log.now(),
        command=arguments.command_line,
        dataset=DatasetInfo(dataset, config.n_train, config.n_test),
        environment=run_log.environment(threads=1),
        choosing=choosing,
        runs=runs,
    )
    run_log.write(path, log)
    print(f"{summary(log)}\nsaved {path}")


def arms(runs: list[ComparedRun]) -> dict[tuple[str, str, int], list[ComparedRun]]:
    """Runs by what is equal, block and depth: the seeds (and rates) together."""
    return group_by(runs, lambda run: (run.task.equal, run.task.config.block, run.task.config.depth))


def accuracies(runs: list[ComparedRun]) -> list[float]:
    """Final test accuracy of each run; NaN where it diverged."""
    return [np.nan if run.diverged else run.history.test_acc[-1] for run in runs]


def summary(log: BlocksComparedLog) -> str:
    """Final test accuracy, mean ± sd over seeds, with the chosen rate."""
    lines = [f"{'equal':<12}{'block':<19}{'depth':>5}{'width':>7}{'lr':>9}   test accuracy"]
    for (equal, block, depth), runs in sorted(arms(log.runs).items()):
        config = runs[0].task.config
        row = f"{equal:<12}{block:<19}{depth:>5}{config.hidden:>7}{config.lr:>9g}   {mean_sd(accuracies(runs))}"
        lines.append(row)
    return "\n".join(lines)


def plot_command(arguments: argparse.Namespace) -> None:
    """Draw accuracies, gradient norms and singular values."""
    from .blocks_compared_figures import draw

    draw(read_log(arguments.log), arguments.log)


def commands() -> Commands:
    """The experiment's sub-commands."""
    commands = Commands(NAME, __doc__.splitlines()[0])
    add_run_flags(commands.add("run", run_command, "train all nets; resumable"))
    add_plot_flags(commands.add("plot", plot_command, "draw the figures from the log"), NAME)
    return commands


if __name__ == "__main__":
    from experiments import blocks_compared  # not as __main__, whose functions and classes workers cannot import

    sys.exit(blocks_compared.commands().main())
