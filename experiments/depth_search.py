"""Figures 1 and 5: how well can plain and highway nets of 10 to 100 layers be optimised?

The paper (section 3.1) draws 100 random settings for each of 4 depths x 2 architectures on MNIST, trains each by SGD
with momentum and an exponentially decaying rate, and shows the training curve of each arm's best setting (left) and the
mean of its ten best (right). Its claims: plain nets of 10 and 20 layers reach a training loss below 1e-4, deeper ones
do not; highway nets of 50 and 100 layers do as well as those of 10 and 20; at 100 layers the highway net is more than
two orders of magnitude better than the plain one, and highway nets converge faster.

As in the paper: depth counts one plain layer and depth - 1 blocks; highway nets are 50 wide, plain nets 71, about 5,000
parameters a layer either way; normalised initialisation; selection by training loss alone.
Not stated there, chosen here: the ranges below, batches of 128, no clipping, epochs. Ours: the search is a short one
(its epochs are in the log) and measures the mean loss over an epoch's batches; `best` trains each arm's two best
settings for longer, measures the loss on all training images after each epoch, and takes the lower.

    python -m experiments.depth_search list                   the settings, as data
    python -m experiments.depth_search run --jobs 2           train them all; may be stopped and started again
    python -m experiments.depth_search run --shard 1/4        a quarter of them, for a batch queue
    python -m experiments.depth_search merge A.jsonl B.jsonl  shards into one log
    python -m experiments.depth_search best --jobs 2          train each arm's best settings for longer
    python -m experiments.depth_search plot                   the figures
"""

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import run_log
from highway_networks import Config, Dataset, Training, list_of_numbers, training_conditions
from run_log import DatasetInfo, Environment, History, InputError, number

from . import checkpoint
from .command_line import (
    Commands,
    add_data_flags,
    add_plot_flags,
    add_run_flags,
    count,
    default_log,
    group_by,
    load_data,
)
from .resumable import ResultFile, finish

NAME = "depth_search"
FIGURES = ("fig1_depth_search.png", "fig1_settings.png")
DEPTHS = (10, 20, 50, 100)  # the paper's counting: one plain layer + depth - 1 blocks
ARCHITECTURES = ("plain", "highway")
WIDTH = {"plain": 71, "highway": 50}
INIT = {"tanh": "glorot", "relu": "he"}
BATCH_SIZE = 128
SEARCH_SEED = 0
TOP = 10

# The search space. Rates and distances from 1 are drawn log-uniformly: what matters is their order of magnitude.
LR = (1e-3, 1.0)  # log-uniform
ONE_MINUS_MOMENTUM = (0.01, 0.5)  # log-uniform: momentum 0.5 to 0.99
ONE_MINUS_DECAY = (1e-3, 0.1)  # log-uniform: the rate's factor per epoch, 0.9 to 0.999
GATE_BIAS = (-10.0, -1.0)  # uniform, highway only

ANALYSED = ("highway", 50)  # the arm whose best net section 4 looks into
MODEL = Path("models") / "highway-50.npz"


@dataclass(frozen=True)
class Trial:
    """One setting of the search and the budget to try it with: all that its result depends on."""

    architecture: str
    depth: int
    index: int  # 0, 1, ... within the arm; also the seed of weights and shuffling
    activation: str
    lr: float
    momentum: float
    decay: float  # factor on the rate per epoch, applied smoothly after each step
    gate_bias: float | None
    dataset: str
    n_train: int
    epochs: int

    @property
    def arm(self) -> tuple[str, int]:
        """What the paper compares: an architecture at a depth."""
        return self.architecture, self.depth

    def config(self, n_test: int) -> Config:
        """The run's hyperparameters."""
        steps = math.ceil(self.n_train / BATCH_SIZE)
        return Config(
            block=self.architecture,
            depth=self.depth - 1,
            hidden=WIDTH[self.architecture],
            activation=self.activation,
            init=INIT[self.activation],
            gate_bias=Config.gate_bias if self.gate_bias is None else self.gate_bias,
            optimizer="momentum",
            lr=self.lr,
            momentum=self.momentum,
            lr_decay=self.decay ** (1 / steps),
            clip=0.0,
            batch_size=BATCH_SIZE,
            epochs=self.epochs,
            n_train=self.n_train,
            n_test=n_test,
            seed=self.index,
        )


@dataclass
class TrialResult:
    """train_loss: mean over each epoch's batches, in nats; a diverged run ends with null."""

    trial: Trial
    train_loss: list[float | None]
    diverged: bool
    seconds: float

    @property
    def best_loss(self) -> float:
        """The lowest loss of any epoch (the paper's criterion); inf if there is none."""
        return min((loss for loss in self.train_loss if loss is not None), default=math.inf)


@dataclass
class BestRun:
    """The longer run of one of an arm's best settings; losses are measured on all images after each epoch."""

    trial: Trial
    n_params: int
    diverged: bool
    history: History

    @property
    def lowest_loss(self) -> float:
        """The lowest loss after any epoch."""
        return min((loss for loss in self.history.train_loss if loss is not None), default=math.inf)


@dataclass
class DepthSearchLog:
    """runs/depth_search.json."""

    schema: int
    created: str
    command: str
    dataset: DatasetInfo
    environment: Environment
    space: dict[str, list[float]]
    results: list[TrialResult]
    best: list[BestRun]


# -------------------------------------------------------------------------------------------- settings


def draw_trials(n: int, depths: Iterable[int], *, dataset: str, n_train: int, epochs: int) -> list[Trial]:
    """n settings for each arm, index by index through all arms, so that an unfinished search is a fair smaller one.

    Setting i of an arm is the same whatever n and whichever other arms there are.
    """
    arms = [(architecture, depth) for depth in depths for architecture in ARCHITECTURES]
    drawn = {arm: _settings(*arm, n) for arm in arms}
    budget = {"dataset": dataset, "n_train": n_train, "epochs": epochs}
    return [Trial(*arm, index, **drawn[arm][index], **budget) for index in range(n) for arm in arms]


def _settings(architecture: str, depth: int, n: int) -> list[dict]:
    rng = np.random.default_rng([SEARCH_SEED, ARCHITECTURES.index(architecture), depth])
    return [_setting(architecture, rng) for _ in range(n)]


def _setting(architecture: str, rng: np.random.Generator) -> dict:
    return {
        "activation": str(rng.choice(["relu", "tanh"])),
        "lr": number(_log_uniform(rng, LR)),
        "momentum": number(1 - _log_uniform(rng, ONE_MINUS_MOMENTUM)),
        "decay": number(1 - _log_uniform(rng, ONE_MINUS_DECAY)),
        "gate_bias": number(rng.uniform(*GATE_BIAS)) if architecture == "highway" else None,
    }


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return math.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1])))


# -------------------------------------------------------------------------------------------- training


def run_trial(trial: Trial, data: Dataset) -> TrialResult:
    """Train one setting for the search's few epochs; no test image is looked at."""
    start, losses = time.perf_counter(), []
    config = trial.config(n_test=len(data.test_images))
    training = Training(config, data)
    with training_conditions(config):
        for _ in range(trial.epochs):
            loss, _ = training.run_epoch()
            losses.append(number(loss))
            if losses[-1] is None:
                break
    return TrialResult(trial, losses, losses[-1] is None, number(time.perf_counter() - start))


def run_best(trial: Trial, data: Dataset) -> BestRun:
    """Train one setting for long, with a checkpoint after each epoch, from which a killed run goes on."""
    config = trial.config(n_test=len(data.test_images))
    training = Training(config, data)
    path = checkpoint_path(trial)
    history = checkpoint.restore(path, training) or History.empty()
    with training_conditions(config):
        while len(history.epoch) <= trial.epochs and None not in history.train_loss[-1:]:
            start, norm = time.perf_counter(), math.nan
            if history.epoch:
                _, norm = training.run_epoch()
            scores = training.scores()
            history.append(len(history.epoch), *scores, norm, time.perf_counter() - start)
            checkpoint.save(path, training, history)
    return BestRun(trial, training.net.params.flat.size, history.train_loss[-1] is None, history)


def checkpoint_path(trial: Trial) -> Path:
    """Where the longer run of a trial is kept between epochs."""
    name = f"{NAME}-{trial.dataset}-{trial.architecture}-{trial.depth}-{trial.index}.npz"
    return Path("runs") / "checkpoints" / name


# ------------------------------------------------------------------------------------------------- log


def best_of_arm(runs: Iterable[BestRun]) -> dict[tuple[str, int], BestRun]:
    """Each arm's longer run of lowest training loss, among those that did not diverge if there are any."""
    by_arm = group_by(runs, lambda run: run.trial.arm)
    return {arm: min(attempts, key=lambda run: (run.diverged, run.lowest_loss)) for arm, attempts in by_arm.items()}


def by_arm(results: Iterable[TrialResult]) -> dict[tuple[str, int], list[TrialResult]]:
    """Results of each arm, best first; arms by architecture, then depth."""
    return group_by(sorted(results, key=lambda result: result.best_loss), lambda result: result.trial.arm)


def summary(results: list[TrialResult]) -> str:
    """One line an arm: how many settings, how many diverged, the best loss and the mean of the ten best."""
    lines = [f"{'arm':<12}{'settings':>9}{'diverged':>9}{'best loss':>12}{'mean of top ' + str(TOP):>16}"]
    for (architecture, depth), ranked in by_arm(results).items():
        top = [result.best_loss for result in ranked[:TOP]]
        diverged = sum(result.diverged for result in ranked)
        lines.append(
            f"{architecture + ' ' + str(depth):<12}{len(ranked):>9}{diverged:>9}{top[0]:>12.4g}{np.mean(top):>16.4g}"
        )
    return "\n".join(lines)


def read_log(path: str | Path) -> DepthSearchLog:
    """Read and check a log of this experiment; raises InputError."""
    return run_log.read(path, DepthSearchLog, f"make it with python -m experiments.{NAME} run")


def write_log(path: Path, command: str, results: list[TrialResult], n_test: int, best: list[BestRun]) -> None:
    """Write the log of a search, or of a search and the longer runs of its best settings."""
    trial = results[0].trial
    space = {
        "lr": list(LR),
        "1 - momentum": list(ONE_MINUS_MOMENTUM),
        "1 - decay": list(ONE_MINUS_DECAY),
        "gate_bias": list(GATE_BIAS),
    }
    info = DatasetInfo(trial.dataset, trial.n_train, n_test)
    path.parent.mkdir(parents=True, exist_ok=True)
    log = DepthSearchLog(
        run_log.SCHEMA, run_log.now(), command, info, run_log.environment(threads=1), space, results, best
    )
    run_log.write(path, log)
    print(f"{summary(results)}\nsaved {path}")


# --------------------------------------------------------------------------------------- command line


def planned(arguments: argparse.Namespace, dataset: str, n_images: int) -> list[Trial]:
    """The trials that the flags ask for."""
    if arguments.smoke:
        return draw_trials(2, (3, 5), dataset=dataset, n_train=256, epochs=2)
    n_train = n_images if arguments.n_train is None else arguments.n_train
    for flag, value, least in (
        ("--configs", arguments.configs, 1),
        ("--epochs", arguments.epochs, 1),
        ("--n-train", n_train, 1),
        ("--depths", min(arguments.depths), 2),
    ):
        if value < least:
            raise InputError(f"{flag}: expected at least {least}, found {value}; raise it")
    if n_train > n_images:
        raise InputError(f"--n-train: expected at most {n_images} images, found {n_train}; ask for fewer")
    return draw_trials(arguments.configs, arguments.depths, dataset=dataset, n_train=n_train, epochs=arguments.epochs)


def shard(text: str) -> tuple[int, int]:
    """`2/8` as (2, 8): the second of eight equal parts; raises argparse's error for anything else."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected a part like 2/8, found {text!r}")
    return int(part), int(parts)


def list_command(arguments: argparse.Namespace) -> None:
    """Print the settings, one a line."""
    dataset, data = load_data(arguments)
    print(
        f"{'architecture':<13}{'depth':>5}{'index':>6}  act   {'lr':>10}{'momentum':>10}{'decay':>10}{'gate bias':>11}"
    )
    for t in planned(arguments, dataset, len(data.train_images)):
        bias = "" if t.gate_bias is None else f"{t.gate_bias:.3f}"
        print(
            f"{t.architecture:<13}{t.depth:>5}{t.index:>6}  {t.activation:<6}"
            f"{t.lr:>10.5f}{t.momentum:>10.4f}{t.decay:>10.5f}{bias:>11}"
        )


def run_command(arguments: argparse.Namespace) -> None:
    """Train what is missing; write the log once all settings are there."""
    dataset, data = load_data(arguments)
    trials = planned(arguments, dataset, len(data.train_images))
    part, parts = arguments.shard
    log = default_log(NAME, dataset, arguments.smoke)
    lines = log.with_suffix(".jsonl") if parts == 1 else log.with_name(f"{log.stem}-{part}-of-{parts}.jsonl")
    trials = trials[part - 1 :: parts]
    results = finish(
        run_trial,
        trials,
        data,
        ResultFile(Path(arguments.log or lines), TrialResult),
        key=lambda item: getattr(item, "trial", item),
        command=arguments.command_line,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
        report=lambda done: summary(done) if len(done) % math.ceil(len(trials) / 10) == 0 else None,
    )
    if parts == 1:
        write_log(log, arguments.command_line, results, len(data.test_images), best=[])
    else:
        print(f"shard {part} of {parts} is whole: {arguments.log or lines}; join the shards with merge")


def merge_command(arguments: argparse.Namespace) -> None:
    """Join shards into the log that `run` with the same flags would have written."""
    dataset, data = load_data(arguments)
    trials = planned(arguments, dataset, len(data.train_images))
    results = {}
    for path in arguments.files:
        if not path.exists():
            raise InputError(f"{path}: expected a shard, found no file; check the path")
        results |= {result.trial: result for result in ResultFile(path, TrialResult).read()}
    missing = sum(trial not in results for trial in trials)
    if missing:
        raise InputError(
            f"merge: expected {len(trials)} trials, found {missing} missing; finish the shards, or give their flags"
        )
    log = arguments.out or default_log(NAME, dataset, arguments.smoke)
    write_log(log, arguments.command_line, [results[trial] for trial in trials], len(data.test_images), best=[])


def best_command(arguments: argparse.Namespace) -> None:
    """Train each arm's best settings for longer, on all images; add the runs to the log, keep the 50-layer net.

    More than one setting, since a search of few epochs cannot know which rates decay too fast, or diverge later.
    """
    dataset, data = load_data(arguments)
    path = default_log(NAME, dataset, arguments.smoke)
    log = read_log(path)
    epochs = 3 if arguments.smoke else arguments.epochs
    trials = [
        dataclasses.replace(result.trial, epochs=epochs, n_train=len(data.train_images))
        for ranked in by_arm(log.results).values()
        for result in ranked[: arguments.top]
    ]
    runs = finish(
        run_best,
        sorted(trials, key=lambda trial: -trial.depth),
        data,
        ResultFile(path.with_name(f"{path.stem}_best.jsonl"), BestRun),
        key=lambda item: getattr(item, "trial", item),
        command=arguments.command_line,
        jobs=arguments.jobs,
    )
    write_log(path, f"{log.command}; {arguments.command_line}", log.results, len(data.test_images), best=runs)
    if dataset == "mnist" and ANALYSED in best_of_arm(runs):
        keep_net(best_of_arm(runs)[ANALYSED].trial, data)


def keep_net(trial: Trial, data: Dataset) -> None:
    """Write the net of a finished longer run to models/."""
    training = Training(trial.config(n_test=len(data.test_images)), data)
    path = checkpoint_path(trial)
    if checkpoint.restore(path, training) is None:
        raise InputError(
            f"{path}: expected the checkpoint of the longer run, found none; "
            f"delete that run's line in runs/{NAME}_best.jsonl and run best again"
        )
    MODEL.parent.mkdir(exist_ok=True)
    training.net.save(MODEL)
    print(f"saved {MODEL}")


def plot_command(arguments: argparse.Namespace) -> None:
    """Draw the figures of the paper, and what it does not show."""
    from .depth_search_figures import draw

    draw(read_log(arguments.log), arguments.log)


def commands() -> Commands:
    """The experiment's sub-commands."""
    commands = Commands(NAME, __doc__.splitlines()[0])

    parser = commands.add("list", list_command, "print the settings")
    add_data_flags(parser)
    add_search_flags(parser)

    parser = commands.add("run", run_command, "train all settings; resumable")
    add_run_flags(parser)
    add_search_flags(parser)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://host:port")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="only part I of N")
    parser.add_argument("--log", metavar="JSONL", help="where finished runs are kept, line by line")

    parser = commands.add("merge", merge_command, "join shards into one log")
    parser.add_argument("files", nargs="+", type=Path, metavar="JSONL")
    add_data_flags(parser)
    add_search_flags(parser)
    parser.add_argument("--out", type=Path, help="the log (default: runs/depth_search.json)")

    parser = commands.add("best", best_command, "train each arm's best settings for longer; resumable")
    add_run_flags(parser)
    parser.add_argument("--epochs", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--top", type=count, default=2, metavar="K", help="settings of each arm (default: %(default)s)")

    add_plot_flags(commands.add("plot", plot_command, "draw the figures from the log"), NAME)
    return commands


def add_search_flags(parser: argparse.ArgumentParser) -> None:
    """What defines a search."""
    parser.add_argument("--configs", type=int, default=100, help="settings an arm (default: %(default)s)")
    parser.add_argument("--depths", type=list_of_numbers, default=DEPTHS, help="default: 10,20,50,100")
    parser.add_argument("--n-train", type=int, help="training images (default: all)")
    parser.add_argument("--epochs", type=int, default=4, help="default: %(default)s")


if __name__ == "__main__":
    from experiments import depth_search  # not as __main__, whose functions and classes workers cannot import

    sys.exit(depth_search.commands().main())
