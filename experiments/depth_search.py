"""Figures 1 and 5: how well can plain and highway nets of 10 to 100 layers be optimised?

The paper (section 3.1) tries 100 random settings for each of 4 depths x 2 kinds of block on MNIST, by SGD with momentum
and an exponentially decaying rate. It shows the training curve of each arm's best setting (left) and the mean of its
ten best (right).

As in the paper: depth counts one plain layer and depth - 1 blocks; highway nets are 50 wide, plain nets 71, about 5,000
parameters a layer either way; normalised initialisation; selection by training loss alone.
Not stated there, assumed here: the ranges below, batches of 128, no clipping, epochs (its axis ends after 400).

Ours: successive halving (Jamieson & Talwalkar 2016). All settings are trained for a tenth of the epochs, the best
quarter of each arm for a fifth, the best tenth to the end, each by the schedule of the whole training; the loss is the
mean over an epoch's batches. `best` trains each arm's two best settings again, from three other seeds, and measures the
loss on all training images. Its flags ask for more seeds, for some arms alone, or for more epochs, each with a log of
its own. For more epochs the schedule is stretched: it ends at the same rate.

Rules of the verdicts. Losses are decimal logarithms of a run's lowest, averaged over an arm's settings and compared by
the 95 % interval over seeds (Welch). Runs that diverge are left out, and their number stands beside.
- Below 1e-4: the interval is, at 10 and at 20 layers, for the best setting of each depth, as in the paper's figure.
- Plain nets degrade: those of 100 layers are worse than those of 10 and 20. Beside it stands each step of depth.
- Highway nets of 50 and 100 layers perform like those of 10 and 20 if the interval lies within 0.3 orders of magnitude
  on both sides of 0; new seeds of these, if there are any, judge alone. The ten best settings of the search, one seed
  each, must not be worse by as much, and those of plain nets worse.
- Two orders of magnitude: plain minus highway at 100 layers is above 2, both if diverged runs are left out and if they
  count with their lowest earlier loss. If it is above 2 in one way of the two alone, the claim holds in part.
- Faster: the logarithm of the loss, averaged over all epochs, is lower, at each depth. It needs no level, so it has no
  runs that never reach one.
- Same activation, a question of ours: at 50 layers, the best tanh and the best ReLU setting of each kind of block, from
  all seeds. The interval of plain minus highway is above 0. A diverged run counts with its lowest earlier loss.
- Test images, a question of ours: at 10 and 20 layers, where plain nets train, too, highway nets are at most half a
  point of accuracy worse.
The runs of most epochs judge all of these but "perform like", which has seeds of its own, and "same activation". The
paper's axis ends after 400 epochs. A shorter training can reach an amount (1e-4, two orders of magnitude), but not
refute it: its curves still fall, so to miss it is inconclusive.

The rules were written after the search and its repeats, before the further logs. Some were changed after these logs:
"judge alone" after that of the new seeds, "of most epochs" when 2 of 48 runs of 400 epochs had ended. After all logs:
"for the best setting" (both settings before), "those of 100 layers" (each step before), both ways to count diverged
runs (left out before), "from all seeds" (the same seeds before), and the question about test images.

    python -m experiments depth_search run --jobs 2    search; may be stopped and started again
    python -m experiments depth_search best --jobs 2   train each arm's best settings from other seeds
    python -m experiments depth_search plot            tables and figures
"""

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from highway_lab import checkpoints
from highway_lab.cli import count, list_of_numbers
from highway_lab.console import name_numbers
from highway_lab.datasets import DATASETS
from highway_lab.fields import Count, NonEmpty, NotNegative, dict_of
from highway_lab.files import make_place
from highway_lab.jobs import ResultT, check_number
from highway_lab.logs import Log, Result, TrainedRun, lowest
from highway_lab.training import Training, train_resumably
from highway_networks import Config, Dataset, InputError, rounded

from .common import Experiment, ExperimentJob, group_by

DEPTHS = [10, 20, 50, 100]  # the paper's counting: one plain layer + depth - 1 blocks
BLOCKS = ("plain", "highway")
WIDTH = {"plain": 71, "highway": 50}
INIT = {"tanh": "glorot", "relu": "he"}
BATCH_SIZE = 128
SEARCH_SEED = 0
REPEAT = 1_000_000  # distance between the seeds of a setting
TOP = 10  # settings of an arm that count as its best
LEVEL = 0.25  # training loss below which a setting of the first rung is good
RUNGS = ((1.0, 0.1), (0.25, 0.2), (0.1, 1.0))  # share of an arm's settings, share of the epochs
SEARCH_FLAGS = {"configs": 100, "depths": DEPTHS, "n_train": None, "epochs": 40}  # of the committed log
BEST_FLAGS = {"top": 2, "seeds": 3, "first_repeat": 1, "arms": None, "activation": None, "epochs": None}
LEVELS = [0.1, 0.01, 0.001]  # training losses by which the speed of convergence is measured

# Rates and distances from 1 are drawn log-uniformly, as their order of magnitude matters: "last rate" is the last
# epoch's rate as a share of the first's, momentum lies in 0.5 to 0.99. Gate biases (highway nets) are drawn uniformly.
SPACE = {"lr": [1e-5, 1.0], "last rate": [1e-3, 1.0], "1 - momentum": [0.01, 0.5], "gate_bias": [-10.0, -1.0]}

ANALYSED = ("highway", 50)  # the arm whose best net section 4 analyses
MODEL = Path("models") / "highway-50.npz"
KEPT = {ANALYSED: MODEL, ("highway", 100): Path("models") / "highway-100.npz"}


@dataclass(frozen=True)
class Trial:
    """One setting of the search and its budget: all that its result depends on."""

    block: Literal[*BLOCKS]
    depth: Count
    index: Count  # 0, 1, ... within the arm
    activation: Literal[*INIT]
    lr: float
    momentum: float
    decay: float  # factor on the rate per epoch, applied smoothly after each step
    gate_bias: float | None
    dataset: Literal[*DATASETS]
    n_train: Count
    epochs: Count
    repeat: Count = 0  # from 1 for `best`

    @property
    def arm(self) -> tuple[str, int]:
        """A kind of block at a depth: the unit of the paper's comparison."""
        return self.block, self.depth

    @property
    def setting(self) -> "Trial":
        """The trial of the search whose setting this is."""
        return dataclasses.replace(self, repeat=0)

    def configure(self, n_test: int) -> Config:
        steps = math.ceil(self.n_train / BATCH_SIZE)
        return Config(
            block=self.block,
            depth=self.depth - 1,
            hidden=WIDTH[self.block],
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
            seed=self.index + REPEAT * self.repeat,
        )

    def __post_init__(self) -> None:
        try:
            self.configure(n_test=1)
        except ArithmeticError as error:
            raise ValueError(str(error)) from error


@dataclass
class TrialResult(Result):
    """Result of one setting; train_loss: mean over each epoch's batches, in nats; a diverged run ends with null."""

    task: Trial
    train_loss: NonEmpty[float | None]
    diverged: bool
    seconds: NotNegative

    @property
    def lowest_loss(self) -> float:
        """The lowest loss of any epoch (the paper's criterion); inf if none is finite."""
        return lowest(self.train_loss)


BestRun = TrainedRun[Trial, None]  # of an arm's best settings, from another seed


@dataclass
class DepthSearchLog(Log):
    """runs/depth_search.json. `command` made the search, `best_command` the runs from other seeds.

    results: of all rungs; top, level, levels: see TOP, LEVEL, LEVELS.
    """

    space: dict_of(SPACE, NonEmpty[float])
    top: Count
    level: float
    levels: NonEmpty[float]
    results: NonEmpty[TrialResult]
    best_command: str | None
    best: list[BestRun]

    def __post_init__(self) -> None:
        others = {run.task.dataset for run in (*self.results, *self.best)} - {self.dataset.name}
        if others:
            raise ValueError(f"expected trials on {self.dataset.name}, found some on {', '.join(others)}")


MORE = {  # runs beside those of runs/depth_search.json: new seeds; the other activation; the paper's epochs
    "seeds10-first_repeat4-armshighway-50,highway-100": (
        "best --seeds 10 --first-repeat 4 --arms highway-50,highway-100"
    ),
    "top1-armshighway-50-activationtanh": "best --top 1 --arms highway-50 --activation tanh",
    "top1-armsplain-50-activationrelu": "best --top 1 --arms plain-50 --activation relu",
    "epochs400": "best --epochs 400",
}
EXPERIMENT = Experiment(__name__, __doc__, DepthSearchLog, more=MORE)


# -------------------------------------------------------------------------------------------- settings


def draw_trials(n: int, depths: Iterable[int], *, dataset: str, n_train: int, epochs: int) -> list[Trial]:
    """Return n settings for each arm, index by index through all arms, so that an unfinished search is a smaller one.

    Setting i of an arm depends neither on n nor on the other arms; its rate decays over all `epochs`.
    """
    depths = list(depths)
    check_number(n * len(depths) * len(BLOCKS))
    drawn = {}
    for depth, block in product(depths, BLOCKS):
        rng = np.random.default_rng([SEARCH_SEED, BLOCKS.index(block), depth])
        drawn[block, depth] = [_setting(block, rng, epochs) for _ in range(n)]
    budget = {"dataset": dataset, "n_train": n_train, "epochs": epochs}
    return [Trial(*arm, index, **drawn[arm][index], **budget) for index in range(n) for arm in drawn]


def _setting(block: str, rng: np.random.Generator, epochs: int) -> dict:
    return {
        "activation": str(rng.choice(["relu", "tanh"])),
        "lr": rounded(_log_uniform(rng, "lr")),
        "momentum": rounded(1 - _log_uniform(rng, "1 - momentum")),
        "decay": rounded(_log_uniform(rng, "last rate") ** (1 / max(epochs - 1, 1))),
        "gate_bias": rounded(rng.uniform(*SPACE["gate_bias"])) if block == "highway" else None,
    }


def _log_uniform(rng: np.random.Generator, name: str) -> float:
    return math.exp(rng.uniform(*map(math.log, SPACE[name])))


# -------------------------------------------------------------------------------------------- training


def halve(trials: list[Trial], train: Callable[[list[Trial]], list[TrialResult]]) -> list[TrialResult]:
    """Return all results of successive halving: each of RUNGS trains the best settings of each arm from the start."""
    results, whole, arms = {}, trials[0].epochs, group_by(trials, lambda trial: trial.arm)
    settings = len(trials) // len(arms)
    for share, of_epochs in RUNGS:
        epochs, best = math.ceil(of_epochs * whole), math.ceil(share * settings)
        rung = [dataclasses.replace(trial, epochs=epochs) for arm in arms.values() for trial in arm[:best]]
        done = train(sorted(rung, key=lambda trial: trial.index))
        results |= {result.task: result for result in done}
        arms = {arm: [result.task for result in ranked] for arm, ranked in by_arm(done).items()}
    return list(results.values())


def last_rung(results: Iterable[TrialResult]) -> list[TrialResult]:
    """Return the results of the settings that were trained for longest."""
    results = list(results)
    epochs = max(result.task.epochs for result in results)
    return [result for result in results if result.task.epochs == epochs]


def run_trial(trial: Trial, data: Dataset) -> TrialResult:
    """Train one setting for the epochs of its rung, without a look at test images."""
    began = time.perf_counter()
    training = Training(trial.configure(n_test=len(data.test_x)), data)
    losses = [rounded(loss) for loss in training.epochs(scored=False)]
    return TrialResult(None, trial, losses, training.diverged, rounded(time.perf_counter() - began))


def run_best(trial: Trial, data: Dataset, *, any_code: bool = False) -> BestRun:
    """Train one setting, with a checkpoint after each epoch from which a killed run continues.

    any_code: whether also from one of other code
    """
    config = trial.configure(n_test=len(data.test_x))
    return TrainedRun.of(trial, train_resumably(config, data, keep=checkpoint_path(trial), any_code=any_code))


def checkpoint_path(trial: Trial) -> Path:
    name = (EXPERIMENT.name, trial.dataset, *trial.arm, trial.index, trial.repeat, trial.epochs)
    return Path("runs") / "checkpoints" / f"{'-'.join(map(str, name))}.npz"


# ------------------------------------------------------------------------------------------------- log


def best_of_arm(runs: Iterable[BestRun]) -> dict[tuple[str, int], BestRun]:
    """Return each arm's run of lowest training loss; a diverged run only if all diverged."""
    arms = group_by(runs, lambda run: run.task.arm)
    return {arm: min(attempts, key=lambda run: (run.diverged, run.lowest_loss)) for arm, attempts in arms.items()}


def by_arm(results: Iterable[TrialResult]) -> dict[tuple[str, int], list[TrialResult]]:
    """Return the results of each arm, best first, diverged ones last; arms by kind of block, then depth."""
    ranked = sorted(results, key=lambda result: (result.diverged, result.lowest_loss))
    return group_by(ranked, lambda result: result.task.arm)


def append_flags(path: Path, arguments: argparse.Namespace, defaults: Mapping[str, Any]) -> Path:
    """Return the log's path with all flags that are not at their defaults appended to its name."""
    given = {name: getattr(arguments, name) for name in defaults if not arguments.smoke}
    differing = {name: value for name, value in given.items() if value != defaults[name]}
    words = (f"{name}{name_numbers(value) if isinstance(value, list) else value}" for name, value in differing.items())
    return path.with_stem("-".join([path.stem, *words]))


def write_log(job: ExperimentJob, results: list[TrialResult]) -> None:
    """Write the log of a search; keep the runs of `best` from an earlier log of the same search."""
    fields = {"space": SPACE, "top": TOP, "level": LEVEL, "levels": LEVELS, "best_command": None, "best": []}
    old = EXPERIMENT.read(job.path) if job.path.exists() else None
    if old and [result.task for result in old.results] == [result.task for result in results]:
        fields |= {"best_command": old.best_command, "best": located(old.best, old)}
    job.keep(results[0].task.configure(n_test=len(job.data.test_x)), results=results, **fields)


def located(results: list[ResultT], log: DepthSearchLog) -> list[ResultT]:
    """Return a log's results with their environments: null means the log's, and another log may be made elsewhere."""
    return [dataclasses.replace(result, environment=result.environment or log.environment) for result in results]


# --------------------------------------------------------------------------------------- command line


def plan(arguments: argparse.Namespace, dataset: str, data: Dataset) -> list[Trial]:
    if arguments.smoke:
        return draw_trials(4, (3, 5), dataset=dataset, n_train=256, epochs=6)
    n_images = len(data.train_x)
    n_train, shallowest = arguments.n_train or n_images, min(arguments.depths)
    if shallowest < 2:
        raise InputError(f"--depths: expected at least 2, found {shallowest}; raise it")
    if n_train > n_images:
        raise InputError(f"--n-train: expected at most {n_images} images, found {n_train}; ask for fewer")
    budget = {"dataset": dataset, "n_train": n_train, "epochs": arguments.epochs}
    return draw_trials(arguments.configs, arguments.depths, **budget)


def run(job: ExperimentJob) -> None:
    trials = plan(job.arguments, job.dataset, job.data)
    job = dataclasses.replace(job, path=append_flags(job.path, job.arguments, SEARCH_FLAGS))

    def train(rung: list[Trial]) -> list[TrialResult]:
        options = {"report": partial(report, total=len(rung))}
        return job.run_missing(run_trial, rung, TrialResult, **options)

    write_log(job, halve(trials, train))


def report(done: list[TrialResult], total: int) -> str | None:
    """Return, after each tenth of a rung, a line with the lowest loss of each arm."""
    if len(done) % math.ceil(total / 10):
        return None
    reached = (f"{block} {depth}: {ranked[0].lowest_loss:.3g}" for (block, depth), ranked in by_arm(done).items())
    return f"{len(done)} of {total} settings; lowest loss: {', '.join(reached)}"


def best(job: ExperimentJob) -> None:
    """Train each arm's best settings from other seeds; add the runs to the log, save the nets of KEPT.

    The best of many runs is lucky as well as good: only other seeds show how good.
    """
    flags, path = job.arguments, job.arguments.log or job.path
    log = EXPERIMENT.read(path)
    if log.dataset.name != job.dataset:
        found = log.dataset.name
        raise InputError(f"{path}: expected a search on {job.dataset}, found one on {found}; add --dataset {found}")
    path = append_flags(path, flags, BEST_FLAGS)
    if path.exists():
        EXPERIMENT.read(path)  # raises InputError for a foreign file
    beside = dataclasses.replace(job, path=path.with_stem(f"{path.stem}_best"))
    trials, train = plan_best(log, flags), partial(run_best, any_code=flags.any_code)
    runs = beside.run_missing(train, trials, BestRun, checkpoints=map(checkpoint_path, trials))
    fields = {name: getattr(log, name) for name in ("space", "top", "level", "levels")}
    fields |= {"results": located(log.results, log), "best_command": flags.command_line, "best": runs}
    EXPERIMENT.keep(path, log.command, log.dataset, **fields)
    if path == EXPERIMENT.log_path():
        best_runs = best_of_arm(runs)
        for arm in KEPT.keys() & best_runs.keys():
            keep_net(best_runs[arm].task, job.data, KEPT[arm])


def plan_best(log: DepthSearchLog, flags: argparse.Namespace) -> list[Trial]:
    """Return the trials from other seeds of the arms' best settings."""
    results = [run for run in last_rung(log.results) if flags.activation in (None, run.task.activation)]
    arms = {f"{block}-{depth}": ranked for (block, depth), ranked in by_arm(results).items()}
    wanted = flags.arms.split(",") if flags.arms else [*arms]
    if missing := [name for name in wanted if name not in arms]:
        raise InputError(f"--arms: expected some of {', '.join(arms)}, found {', '.join(missing)}; choose others")
    check_number(flags.seeds * len(wanted))
    return [
        stretch(dataclasses.replace(result.task, repeat=repeat), flags.epochs)
        for repeat in range(flags.first_repeat, flags.first_repeat + flags.seeds)
        for name in wanted
        for result in arms[name][: flags.top]
    ]


def stretch(trial: Trial, epochs: int | None) -> Trial:
    """Return the trial with its schedule stretched to `epochs`, if any: it ends at the same rate."""
    epochs = epochs or trial.epochs
    decay = trial.decay ** (max(trial.epochs - 1, 1) / max(epochs - 1, 1))
    return trial if epochs == trial.epochs else dataclasses.replace(trial, epochs=epochs, decay=decay)


def keep_net(trial: Trial, data: Dataset, model: Path) -> None:
    """Save the net of a finished run; raises InputError if its checkpoint is gone."""
    training = Training(trial.configure(n_test=len(data.test_x)), data)
    path = checkpoint_path(trial)
    if not checkpoints.restore(path, training, any_code=True):
        raise InputError(
            f"{path}: expected the checkpoint of the best run, found none; "
            f"delete that run's line in runs/{EXPERIMENT.name}_best.jsonl and run best again"
        )
    make_place(model)
    training.net.save(model)
    print(f"saved {model}")


parser = EXPERIMENT.add_run(run, "search by successive halving; resumable")
parser.set_defaults(**SEARCH_FLAGS)
parser.add_argument("--configs", type=count, metavar="N", help="settings an arm (default: %(default)s)")
parser.add_argument("--depths", type=list_of_numbers, help="default: 10,20,50,100")
parser.add_argument("--n-train", type=count, metavar="N", help="training images (default: all)")
parser.add_argument("--epochs", type=count, metavar="N", help="default: %(default)s")

parser = EXPERIMENT.add_run(best, "train each arm's best settings from other seeds; resumable", name="best")
parser.set_defaults(**BEST_FLAGS)
parser.add_argument("log", nargs="?", type=Path, help="log of the search (default: the data set's)")
parser.add_argument("--seeds", type=count, metavar="N", help="seeds of each setting (default: %(default)s)")
parser.add_argument("--top", type=count, metavar="K", help="settings of each arm (default: %(default)s)")
parser.add_argument("--first-repeat", type=count, metavar="N", help="number of the first seed (default: %(default)s)")
parser.add_argument("--arms", metavar="ARM,ARM,...", help="some arms alone, like highway-50 (default: all)")
parser.add_argument("--activation", choices=INIT, help="the best settings of this activation (default: of any)")
parser.add_argument("--epochs", type=count, metavar="N", help="stretch the schedule (default: that of the search)")
