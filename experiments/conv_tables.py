"""Tables 1 and 2: do convolutional highway nets do as well as the paper says, and plain ones of the same layers?

The budget is a small part of the paper's. Its schedule, a tenth of the rate after each third or half of the epochs,
becomes half a cosine. What else a short budget needs is chosen for each kind of block on 5,000 validation images, by
one shorter run of each candidate. Test images are scored once a run, after its last epoch (long: after each). Highway B
and C would take days here: their parameters are counted and one training step is timed.

Long: Highway A for as long as we can afford, on all 50,000 training images of CIFAR-10. Its rate, then the padding of
its random crops, are chosen by validation images, by one run of 12 epochs for each candidate; so are those of the plain
net. Schedule and dropout (none) are those chosen before, by runs of 4 epochs, which favour none. With two seeds and
1,000 test images the interval is far wider than the margin: expect no verdict but inconclusive. The number and its
curve are what these runs are for.

Maxout: a shallow net of maxout blocks on MNIST, 5 layers of 25 maps, with no more parameters than the highway net of 10
layers and 16 maps. Its weights are orthogonal, which keep the size of what a maxout unit passes on (those of the others
suit ReLU), and it chooses among the candidates of the others and a lower rate. The authors argue in section 5 that deep
and narrow highway nets are as good as wide and shallow maxout nets; the maxout net that they quote has 420 K
parameters, ten times as many.

More seeds: table 1's larger net again, from three other seeds for more epochs, by the settings chosen before.

The rules of the verdicts were put in this form after the runs but those of more seeds and long. A net reproduces the
paper's number if it is as good, in its longest budget: the 95 % interval of its lead over that number excludes a loss
of the margin. The interval is that over seeds; a single seed has that of its test images. Where our test images are a
part of the paper's, both count. A shorter budget than the paper's can reach its number, but not refute it: the verdict
is then inconclusive. Highway nets match the maxout net that the paper quotes by the same rule, which was applied to it
when the runs were known. They match a shallow maxout net of ours if they are as good, by the margin of table 1; this
was fixed before it was trained.

    python -m experiments conv_tables run [--dataset cifar-10] [--study more-seeds|maxout|long]
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from conv_recipes import NETS, ConvConfig, configure
from highway_lab.console import digest_of_config, name_data
from highway_lab.fields import Count, NonEmpty
from highway_lab.figures import COLORS, INK, new_figure, pale
from highway_lab.files import make_place
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import DatasetInfo, Log, RunRecord, grouped
from highway_lab.training import Training, train_resumably
from highway_networks import Dataset, InputError, rounded

from . import blocks  # noqa: F401, adds maxout to BLOCKS, in the processes that train, too
from .claims import ACCURACY_MARGIN, Verdict, combine, judge_as_good
from .common import Experiment, ExperimentJob, by_config, final_values, points
from .common_figures import Runs, draw_dots
from .looks.conv_gates import MODEL
from .quotes import PAPER

STEPS = 200_000  # of a run of table 2, taken from the authors' file of table 3's net
TEST_IMAGES = 10_000  # of MNIST and of CIFAR-10, in the paper
NORMAL = 1.96  # standard errors of a 95 % interval
MARGINS = {"mnist": 0.07, "cifar-10": ACCURACY_MARGIN}  # points; the first is half of what lies between table 1's nets
EPOCHS = {"mnist": 300, "cifar-10": 400}  # of the authors' files; table 2 has none, so table 3's is taken
RIVALS = {"mnist-16": "maxout", "mnist-32": "maxout", "highway-a": "FitNet A"}  # of others, quoted by the paper
SHALLOW = "mnist-25-shallow"
NAMES = {
    "mnist-16": "10 layers, 16 maps",
    "mnist-32": "10 layers, 32 maps",
    SHALLOW: "5 layers, 25 maps",
    "highway-a": "Highway A, 11 layers",
}


class Part(NamedTuple):
    """The runs of one log.

    net, epochs   of the runs that choose
    rounds        fields, candidates for each block; those of a later round are tried beside the best before
    runs          net, epochs, seeds by block, fields beside the chosen ones
    timed         nets of which a training step is timed
    after         whether it begins with what `run` has chosen
    """

    net: str
    epochs: int
    rounds: Sequence[Sequence[dict]]
    runs: Sequence[tuple[str, int, dict[str, range], dict]]
    timed: Sequence[str] = ()
    after: bool = False

    def small(self) -> "Part":
        """Return a part of the same form whose runs take seconds, on the digits."""
        _, _, seeds, fields = self.runs[0]
        runs = [("digits", 2, {block: of[:1] for block, of in seeds.items()}, fields)]
        rounds = [candidates[:2] for candidates in self.rounds]
        return Part("digits", 1, rounds, runs, ["digits"] * bool(self.timed), self.after)


def both(seeds: range) -> dict[str, range]:
    return {"highway": seeds, "plain": seeds}


TUNED = [{"dropout": share, "lr": lr} for share in (0.25, 0.5) for lr in (0.03, 0.1)]
SCHEDULED = [{"dropout": 0.0, "lr": 0.03}, {"dropout": 0.0, "lr": 0.06}, {"schedule": "0.6,0.85", "lr": 0.025}]
RATES = [{"lr": lr} for lr in (0.03, 0.06, 0.12, 0.25)]
ORTHOGONAL = [{"init": "orthogonal", "dropout": share, "lr": lr} for share in (0.25, 0.5) for lr in (0.01, 0.03, 0.1)]
MNIST_RUNS = [("mnist-16", 20, both(range(5)), {}), ("mnist-32", 12, both(range(2)), {})]
CIFAR_RUNS = [
    ("highway-a", 30, {"highway": range(2), "plain": range(1)}, {}),
    ("highway-a", 60, {"highway": range(1)}, {}),
    ("highway-a", 30, {"highway": range(1)}, {"augment": False}),
]
LONG_RUNS = [("highway-a", 200, {"highway": range(2), "plain": range(1)}, {"n_validation": 0})]
PARTS = {  # by study and data set
    "": {
        "mnist": Part("mnist-16", 6, [TUNED], MNIST_RUNS),
        "cifar-10": Part("highway-a", 4, [SCHEDULED], CIFAR_RUNS, timed=["highway-b", "highway-c"]),
    },
    "more-seeds": {"mnist": Part("", 0, [], [("mnist-32", 20, both(range(2, 5)), {})], after=True)},
    "maxout": {"mnist": Part(SHALLOW, 3, [ORTHOGONAL], [(SHALLOW, 20, {"maxout": range(3)}, {})])},
    "long": {"cifar-10": Part("highway-a", 12, [RATES, [{"padding": 4}]], LONG_RUNS, after=True)},
}


@dataclass
class Cost:
    """A net that is not trained here: its parameters, and the median seconds of a training step of one batch."""

    net: Literal[*NETS]
    n_params: Count
    batch_size: Count
    seconds_a_step: float


@dataclass
class ConvTablesLog(Log):
    """The logs runs/conv_tables.json, of MNIST, runs/conv_tables-cifar-10.json, and those of MORE.

    choosing   a run of each candidate with each kind of block; none of more seeds
    chosen     by block, the fields of the best candidate
    runs       the table's
    """

    dataset: DatasetInfo
    choosing: list[RunRecord[ConvConfig]]
    chosen: dict[str, dict[str, int | float | str]]
    runs: NonEmpty[RunRecord[ConvConfig]]
    costs: list[Cost]


MORE = {
    "more-seeds": "run --study more-seeds",
    "maxout": "run --study maxout",
    "cifar-10-long": "run --study long --dataset cifar-10",
}
EXPERIMENT = Experiment(__name__, __doc__, ConvTablesLog, datasets=("mnist", "cifar-10"), more=MORE)


def run(job: ExperimentJob) -> None:
    """Choose settings, train the nets of a part, time those that are too large."""
    study, data, parts = job.arguments.study, job.data, PARTS[job.arguments.study]
    if job.dataset not in (*parts, "digits"):
        raise InputError(f"--dataset: expected one of {', '.join(parts)}, found {job.dataset}; choose one of these")
    part = parts[job.dataset] if job.dataset in parts else next(iter(parts.values())).small()
    chosen = EXPERIMENT.read(job.path).chosen if part.after else {}
    job = job.for_more(study) if study else job
    tried, choosing = [], []
    for candidates in part.rounds:
        arms = [(of, {**chosen.get(of, {}), **fields}) for of in part.runs[0][2] for fields in candidates]
        configs = [config_of(data, part.net, part.epochs, block=of, **fields) for of, fields in arms]
        tried, choosing = tried + arms, choosing + train_missing(job, configs)
        chosen = best(tried, choosing)
    configs = [
        config_of(data, net, epochs, block=block, seed=seed, **{**chosen[block], **fields})
        for net, epochs, seeds, fields in part.runs
        for block in seeds
        for seed in seeds[block]
    ]
    runs, costs = train_missing(job, configs), [time_step(net, data) for net in part.timed]
    job.keep(configs[0], choosing=choosing, chosen=chosen, runs=runs, costs=costs)
    if job.path == EXPERIMENT.log_path() and checkpoint_path(job.path.stem, configs[0]).exists():
        make_place(MODEL)
        train_one(job.path.stem, configs[0], data, any_code=True).net.save(MODEL)  # as its checkpoint has it


def config_of(data: Dataset, net: str, epochs: int, n_validation: int = 5000, **fields: Any) -> ConvConfig:
    """Return a net's recipe for all images of `data`, of which at most a tenth are for validation."""
    n_validation = min(n_validation, len(data.train_x) // 10)
    sizes = {"n_train": len(data.train_x) - n_validation, "n_validation": n_validation, "n_test": len(data.test_x)}
    return configure(net, epochs=epochs, **sizes, **fields)


def checkpoint_path(name: str, config: ConvConfig) -> Path:
    """Return the file of a run's checkpoint; its folder is named after the log, and so tells its data set."""
    run = f"{config.net}-{config.block}-{config.seed}-{digest_of_config(config)}"
    return Path("runs") / "checkpoints" / name / f"{run}.npz"


def train_one(name: str, config: ConvConfig, data: Dataset, *, any_code: bool = False) -> RunRecord[ConvConfig]:
    """Train one net of the log `name`, with a checkpoint after each epoch, from which a killed run resumes."""
    return RunRecord.of(train_resumably(config, data, keep=checkpoint_path(name, config), any_code=any_code))


def train_missing(job: ExperimentJob, configs: Sequence[ConvConfig]) -> list[RunRecord[ConvConfig]]:
    """Train the nets of a job that are not trained yet; returns all runs."""
    train = partial(train_one, job.path.stem, any_code=job.arguments.any_code)
    kept = checkpoint_path(job.path.stem, configs[0]).parent.glob("*.npz")
    return job.run_missing(train, configs, RunRecord[ConvConfig], checkpoints=kept)


def best(arms: Sequence[tuple[str, dict]], runs: Runs) -> dict[str, dict]:
    """Return by block the fields of the run of the highest last validation accuracy; a diverged run comes last."""
    scores = np.nan_to_num(final_values(runs, "validation_score"), nan=-1)
    worst_first = sorted(zip(scores[::-1], arms[::-1], strict=True), key=lambda tried: tried[0])
    return {block: fields for _, (block, fields) in worst_first}


def time_step(net: str, data: Dataset) -> Cost:
    """Time training steps of a net, each an epoch of one batch."""
    config = config_of(data, net, epochs=5)
    training = Training(replace(config, n_train=config.batch_size, n_validation=1, n_test=1), data)
    times = [time.perf_counter(), *(time.perf_counter() for _ in training.epochs(scored=False))]
    return Cost(net, training.net.params.flat.size, config.batch_size, rounded(float(np.median(np.diff(times)))))


parser = EXPERIMENT.add_run(run, "choose, train, time")
parser.add_argument("--study", choices=[*filter(None, PARTS)], default="", help="further runs, with a log of their own")


# ---------------------------------------------------------------------------------------- what was found


def augmented(run: RunRecord) -> bool:
    """Tell whether a run has the augmentation of its recipe; tables 1 and 2 are of such runs."""
    return run.config.augment == configure(run.config.net).augment


def runs_of(*logs: ConvTablesLog) -> dict[tuple[str, int, str], Runs]:
    """Return the tables' runs by net, epochs, which rise, and block."""
    runs = [run for log in logs for run in log.runs if augmented(run)]
    return by_config(runs, "net", "epochs", "block")


def longest(*logs: ConvTablesLog) -> dict[tuple[str, str], Runs]:
    """Return by net and block the runs of most epochs."""
    return {(net, block): runs for (net, _, block), runs in runs_of(*logs).items()}


def images_error(runs: Runs) -> float:
    """Return half of the 95 % interval of the mean test accuracy, in points, for another sample of images."""
    accuracy = points(runs).mean()
    return NORMAL * (accuracy * (100 - accuracy) / runs[0].config.n_test) ** 0.5


def lead(runs: Runs, level: float) -> Interval:
    """Return the points by which the mean test accuracy exceeds a level, by the interval of the rules above."""
    over_seeds, over_images = interval(points(runs)), images_error(runs)
    both = math.hypot(over_seeds.half, over_images * (runs[0].config.n_test < TEST_IMAGES))
    return Interval(over_seeds.value - level, over_images if len(runs) == 1 else both)


def gains(runs: Runs, others: Runs) -> np.ndarray:
    """Return the points of test accuracy gained over others of the same seeds, (seeds,); NaN where one diverged."""
    own, theirs = (
        {run.config.seed: score for run, score in zip(group, final_values(group, "test_score"), strict=True)}
        for group in (runs, others)
    )
    return 100 * np.array([own[seed] - theirs[seed] for seed in own if seed in theirs])


def judge_net(runs: Runs, level: float) -> Verdict:
    """Judge whether a net of the paper is as good as a level; fewer epochs than the paper's cannot refute it."""
    dataset = NETS[runs[0].config.net].dataset
    verdict = judge_as_good(lead(runs, level), MARGINS[dataset])
    shorter = runs[0].config.epochs < EPOCHS[dataset]
    return Verdict.INCONCLUSIVE if verdict == Verdict.NOT_REPRODUCED and shorter else verdict


def numbers(*logs: ConvTablesLog) -> dict:
    """Return what the page quotes, by net, epochs and block; accuracies are in %, and verdicts are on the longest."""
    found, last = runs_of(*logs), longest(*logs)
    nets = {net: runs for (net, block), runs in last.items() if block == "highway" and net in RIVALS}
    beside = {net: judge_net(runs, PAPER[RIVALS[net]].value) for net, runs in nets.items()}
    small, shallow = last.get(("mnist-16", "highway"), []), last.get((SHALLOW, "maxout"), [])
    learned, choosing = [run for run in shallow if not run.diverged], [run for log in logs for run in log.choosing]
    match = judge_as_good(difference(points(small), points(shallow)), MARGINS["mnist"])
    tried = grouped(choosing, lambda run: (run.config.net, run.config.epochs, run.config.block, run.config.lr))
    return {
        "accuracy": {of: interval(points(runs)) for of, runs in found.items()},
        "images": {of: images_error(runs) for of, runs in found.items()},
        "seeds": {of: len(runs) for of, runs in found.items()},
        "parameters": {of: runs[0].n_params for of, runs in found.items()},
        "ahead": {net: interval(gains(runs, last[net, "plain"])) for net, runs in nets.items()},
        "not_augmented": points(run for log in logs for run in log.runs if not augmented(run)),
        "verdict": {net: judge_net(runs, PAPER[net].value) for net, runs in nets.items()},
        "beside": beside,
        "match": combine(verdict for net, verdict in beside.items() if RIVALS[net] == "maxout"),
        "shallow": match if learned else Verdict.INCONCLUSIVE,  # nets that learn nothing are alike, too
        "learned": points(learned),
        "diverged": sum(run.diverged for runs in found.values() for run in runs),
        "tried": {of: [*final_values(runs, "validation_score")] for of, runs in tried.items()},
        "days": {of.net: STEPS * of.seconds_a_step / (24 * 60 * 60) for log in logs for of in log.costs},
        "epochs": EPOCHS,
        "margin": MARGINS,
        "not_tested": Verdict.NOT_TESTED,
    }


def figure(*logs: ConvTablesLog) -> Figure:
    """Draw test errors after most epochs beside the paper's: a dot a seed, unless it diverged, a bar for the images."""
    datasets = [*grouped(logs, lambda log: log.dataset.name).values()]
    rows = [len(longest(*of)) for of in datasets]
    height = 0.8 + 0.75 * len(rows) + 0.3 * sum(rows)
    figure, grid = new_figure("Plain nets do about as well", height, nrows=len(rows), height_ratios=rows, squeeze=False)
    for axes, of in zip(grid[:, 0], datasets, strict=True):
        names, data = [], of[0].dataset
        for row, ((net, block), runs) in enumerate(longest(*of).items()):
            ended, color = [run for run in runs if not run.diverged], COLORS[block]
            names.append(f"{NAMES.get(net, net)}: {block}, {len(ended)} of {len(runs)} seeds")
            if ended:
                errors = 100 - points(ended)
                bar = errors.mean() + images_error(ended) * np.array([-1, 1])
                axes.plot(bar, [row, row], color=pale(color, 0.3), linewidth=7, solid_capstyle="butt", zorder=1)
                draw_dots(axes, errors, row, color=color)
            if net in PAPER:
                axes.plot(100 - PAPER[net].value, row, "|", color=INK, markersize=20, markeredgewidth=2)
        axes.set_yticks(range(len(names)), names)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=f"error on {data.test_set} of {name_data(data.name)} (%)")
    return figure


FIGURES = {"conv_tables.png": figure}
