"""Figures 1 and 5: how well can plain and highway nets of 10 to 100 layers be optimised?

The paper (section 3.1) tries 100 random settings for each of 4 depths x 2 kinds of block on MNIST, by SGD with momentum
and an exponentially decaying rate. It shows the training curve of each arm's best setting (left) and the mean of its
ten best (right).

As in the paper: depth counts one plain layer and depth - 1 blocks; highway nets are 50 wide, plain nets 71, about 5,000
parameters a layer either way; normalised initialisation; selection by training loss alone.
Not stated there, assumed here: the ranges below, batches of 128, no clipping, epochs (its axis ends after 400).

Ours: successive halving (Jamieson & Talwalkar 2016). All settings are trained for a tenth of the epochs, the best
quarter of each arm for a fifth, the best tenth to the end, each by the schedule of the whole training; the loss is the
mean over an epoch's batches. Each arm's two best settings are then trained again, from three other seeds, and the loss
is measured on all training images; highway nets of 50 and 100 layers from ten more seeds; and the two best settings for
the paper's epochs. For more epochs the schedule is stretched: it ends at the same rate.

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
The runs of most epochs judge all of these but "perform like", which has seeds of its own. The paper's axis ends after
400 epochs. A shorter training can reach an amount (1e-4, two orders of magnitude), but not refute it: its curves still
fall, so to miss it is inconclusive.

The rules were written after the search and its repeats, before the further logs. Some were changed after these logs:
"judge alone" after that of the new seeds, "of most epochs" when 2 of 48 runs of 400 epochs had ended. After all logs:
"for the best setting" (both settings before), "those of 100 layers" (each step before) and both ways to count diverged
runs (left out before). Two questions of ours, on nets of the same activation and on test images, are in commit 405c2b5.

    python -m experiments depth_search run --jobs 2    all of it; then saves the best highway net of 50 layers
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from highway_lab.fields import NotNegative, Score
from highway_lab.figures import COLORS, draw_level, label_ends, new_figure
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import grouped
from highway_lab.training import Training
from highway_networks import Config, Dataset, rounded

from . import study_command
from .claims import LOSS_MARGIN, combine, judge_about, judge_as_good, judge_better, of_learners
from .common import CHANCE, CHANCE_LOSS
from .common_figures import draw_losses
from .study import DIVERGED, Arm, Cell, Results, Setting, Stage, Study, StudyRun, Task

LAYERS = 10, 20, 50, 100  # the paper's counting: one plain layer and the blocks
SHALLOW, DEEP = LAYERS[:2], LAYERS[2:]
UNITS = {"plain": 71, "highway": 50}
INIT = {"tanh": "glorot", "relu": "he"}
N_TRAIN, BATCH_SIZE = 60_000, 128
SETTINGS, EPOCHS, PAPER_EPOCHS = 100, 40, 400
SEEDS, NEW_SEEDS = range(1, 4), range(4, 14)
REPEAT = 1_000_000  # distance between the seeds of a setting
LEVEL = 0.25  # training loss below which nets have learned
TARGET = 1e-4  # training loss that the paper's plain nets of SHALLOW layers reach
ORDERS = 2  # of magnitude, by which the paper's highway nets of 100 layers are better
SCORES = "train_loss", "train_score", "test_loss", "test_score", "grad_norm", "seconds"
KEPT = {50: Path("models/highway-50.npz")}  # by layers, nets that other experiments look into

# Rates and distances from 1 are drawn log-uniformly, as their order of magnitude matters: "last rate" is the last
# epoch's rate as a share of the first's, momentum lies in 0.5 to 0.99. Gate biases (highway nets) are drawn uniformly.
SPACE = {"lr": (1e-5, 1.0), "last rate": (1e-3, 1.0), "1 - momentum": (0.01, 0.5), "gate_bias": (-10.0, -1.0)}
DRAWN = dict.fromkeys(("index", "activation", "lr", "momentum", "decay"), ("drawn",))  # decay: of the rate in an epoch


# ----------------------------------------------------------------------------------------------- the search


@dataclass(frozen=True)
class Search(Study):
    """A study that draws so many settings for each cell, instead of trying a grid."""

    settings: int = SETTINGS

    def grid(self, cell: Cell) -> list[Setting]:
        """Return a cell's settings; the first ones depend neither on their number nor on other cells."""
        rng = np.random.default_rng([0, [*UNITS].index(cell.arm), cell.depth + 1])
        return [(index, *draw(cell.arm, rng)) for index in range(self.settings)]

    def around(self, *_: Any) -> list[Setting]:
        """Return none: what is drawn has no neighbours."""
        return []

    def small(self) -> "Search":
        return replace(super().small(), settings=4)


def draw(block: str, rng: np.random.Generator) -> Setting:
    """Draw activation, rate, momentum, decay of the rate in an epoch and, for highway nets, the gate bias."""

    def log_uniform(name: str) -> float:
        return math.exp(rng.uniform(*map(math.log, SPACE[name])))

    activation, lr = str(rng.choice(["relu", "tanh"])), rounded(log_uniform("lr"))
    momentum, decay = rounded(1 - log_uniform("1 - momentum")), rounded(log_uniform("last rate") ** (1 / (EPOCHS - 1)))
    bias = (rounded(rng.uniform(*SPACE["gate_bias"])),) if block == "highway" else ()
    return activation, lr, momentum, decay, *bias


def configure(fields: Mapping[str, Any], cell: Cell, stage: Stage) -> Config:
    """Return the configuration of a run; a seed is one of the setting's."""
    fields = dict(fields)
    seed = int(fields.pop("index")) + REPEAT * fields.pop("seed")
    stretched = (EPOCHS - 1) / (max(stage.epochs, EPOCHS) - 1)  # the rungs have the whole training's schedule
    decay = fields.pop("decay") ** (stretched / math.ceil(N_TRAIN / BATCH_SIZE))
    regime = {"optimizer": "momentum", "lr_decay": rounded(decay, digits=12), "clip": 0.0, "batch_size": BATCH_SIZE}
    sizes = {"hidden": cell.hidden, "depth": cell.depth, "n_train": N_TRAIN, "n_test": 10_000}
    return Config(**fields, **regime, **sizes, init=INIT[fields["activation"]], seed=seed)


@dataclass
class Found:
    """What is measured of a run: its lowest training loss, in nats, also if it diverged later; score on test images."""

    lowest_loss: float | None
    score: Score | None
    seconds: NotNegative


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net; of a run that chooses, the loss is the mean over an epoch's batches, and no test image is seen."""
    began, training = time.perf_counter(), Training(task.config, data)
    losses = [rounded(loss) for loss in training.epochs(scored=bool(task.result))]
    history, score = {"batch_loss": [None, *losses]}, None
    if task.result:
        history = {name: getattr(training.history, name) for name in SCORES}
        losses, score = history["train_loss"], history["test_score"][-1]
    reached = min((loss for loss in losses if loss is not None), default=None)
    found = Found(reached, score, rounded(time.perf_counter() - began))
    return StudyRun(None, task, training.net.params.flat.size, training.diverged, history, found)


def lowest_loss(run: StudyRun) -> float:
    """Return the lowest loss of any epoch (the paper's criterion); DIVERGED if none is finite."""
    return DIVERGED if run.measured.lowest_loss is None else run.measured.lowest_loss


STUDY = Search(
    {"plain": Arm({"block": "plain"}, DRAWN), "highway": Arm({"block": "highway"}, DRAWN | {"gate_bias": ("drawn",)})},
    [Cell(block, UNITS[block], layers - 1) for layers, block in product(LAYERS, UNITS)],
    stages=(
        Stage((0,), EPOCHS // 10),
        Stage((0,), EPOCHS // 5, best=SETTINGS // 4),
        Stage((0,), EPOCHS, best=SETTINGS // 10),
        Stage(SEEDS, EPOCHS, best=2, result="scored"),
        Stage(
            lambda of: NEW_SEEDS if of.arm == "highway" and of.depth >= 49 else (), EPOCHS, best=2, result="new seeds"
        ),
        Stage(SEEDS, PAPER_EPOCHS, best=2, result="long"),
    ),
    configure=configure,
    criteria={"lowest loss": lambda run: lowest_loss(run) + DIVERGED * run.diverged},
    config=Config,
    measured=Found,
)


def finish(data: Dataset, results: Results) -> None:
    """Train those best highway nets of KEPT again that are not there, and save them."""
    for layers, path in KEPT.items():
        study_command.keep_net(path, best_run(results, layers).config, data)


# ---------------------------------------------------------------------------------------- what was found

Nets = Mapping[tuple[str, int], Sequence[StudyRun]]  # by kind of block and layers


def runs_of(results: Results, stage: str, best: int | None = None) -> Nets:
    """Return the results of a stage by net, of all its settings or of the `best` of the search."""
    by_cell = {cell: [*results.settings(cell, stage).values()][:best] for cell in results.finished}
    return {(cell.arm, cell.depth + 1): [run for runs in of for run in runs] for cell, of in by_cell.items()}


def best_run(results: Results, layers: int) -> StudyRun:
    """Return the run of the lowest loss of a highway net's best settings; a diverged one only if all diverged."""
    return min(runs_of(results, "scored")["highway", layers], key=results.study.criteria["lowest loss"])


def at_chance(run: StudyRun) -> bool:
    """Tell whether a run finished with at most twice the accuracy of guessing."""
    return not run.diverged and run.accuracy <= 2 * CHANCE


def log_loss(run: StudyRun) -> float:
    return math.log10(lowest_loss(run))


def by_seed(runs: Nets, block: str, *layers: int, value: Any = log_loss, diverged: bool = False) -> list[float]:
    """Return the mean value of each seed of some nets, whose settings are taken together; of a search, of each run.

    diverged: whether runs that diverged count, too
    """
    counted = ([run for run in runs[block, of] if diverged or not run.diverged] for of in layers)
    nets = (grouped(of, lambda run: run.config.seed // REPEAT or -run.config.seed) for of in counted)
    return [np.mean([*map(value, of)]) for seeds in nets for of in seeds.values()]


def lead(runs: Nets, layers: int, **how: Any) -> Interval:
    """Return by how much the values of highway nets are below those of plain nets."""
    return difference(*(by_seed(runs, block, layers, **how) for block in UNITS))


RULES = {  # how each difference is judged, and the margin
    **dict.fromkeys(("degrade", "top plain", "faster"), (judge_better, LOSS_MARGIN)),
    **dict.fromkeys(("level", "orders"), (judge_better, 0)),
    "like": (judge_about, LOSS_MARGIN),
    "top highway": (judge_as_good, LOSS_MARGIN),
}


def numbers(results: Results) -> dict:
    """Return what the page quotes: leads in orders of magnitude, by layers; verdicts by the rules above."""
    scored, new, long = (runs_of(results, stage) for stage in ("scored", "new seeds", "long"))
    best, tried = runs_of(results, "long", best=1), {cell: results.tried(cell).values() for cell in results.finished}
    top = {(cell.arm, cell.depth + 1): [run for runs in of for run in runs] for cell, of in tried.items()}
    shallow = by_seed(scored, "highway", *SHALLOW)
    few, plain = partial(by_seed, top), partial(by_seed, long, "plain")

    def log_curve(run: StudyRun) -> float:
        return float(np.mean(np.log10(run.history["train_loss"][1:])))

    def loss_as_guess(run: StudyRun) -> float:
        return math.log10(CHANCE_LOSS) if run.diverged or at_chance(run) else log_loss(run)

    leads = {
        "level": {of: interval(math.log10(TARGET) - np.array(by_seed(best, "plain", of))) for of in SHALLOW},
        "degrade": {100: difference(plain(100), plain(*SHALLOW))},
        "like": {of: difference(shallow, by_seed(new, "highway", of)) for of in DEEP},
        "top plain": {of: difference(few("plain", of), few("plain", *SHALLOW)) for of in DEEP},
        "top highway": {of: difference(few("highway", *SHALLOW), few("highway", of)) for of in DEEP},
        "faster": {of: lead(long, of, value=log_curve) for of in LAYERS},
    }
    orders = {
        "finished": lead(long, 100),
        "all": lead(long, 100, diverged=True),
        "guesses": lead(long, 100, diverged=True, value=loss_as_guess),
    }
    judged = leads | {"orders": {of: found._replace(value=found.value - ORDERS) for of, found in orders.items()}}
    word = {of: {name: judge(judged[of][name], margin) for name in judged[of]} for of, (judge, margin) in RULES.items()}
    verdict = {of: combine(word[of].values()) for of in word}
    learned = all(np.mean(by_seed(scored, "highway", of)) < math.log10(LEVEL) for of in SHALLOW)
    verdict["like"] = of_learners(verdict["like"], learned)
    verdict["top"] = combine([verdict["top plain"], verdict["top highway"]])
    verdict["orders"] = combine([word["orders"]["finished"], word["orders"]["all"]])
    counted = [difference(shallow, by_seed(new, "highway", of, diverged=True)) for of in DEEP]
    lost = [run.diverged for of in DEEP for run in new["highway", of]]
    return {
        "verdict": verdict,
        "word": word,
        "orders": orders,
        "lost": {"new": sum(lost), "of": len(lost), "word": combine(judge_about(of, LOSS_MARGIN) for of in counted)},
        "lead": leads,
        "higher": {of: 10**found.value for of, found in (orders | leads["degrade"]).items()},
        "diverged": {net: sum(run.diverged for run in runs) for net, runs in long.items()},
        "at_chance": {net: sum(map(at_chance, runs)) for net, runs in long.items()},
        "runs": len(long["highway", 100]),
    }


def figure(results: Results) -> Figure:
    """Draw the training loss of the longest runs by epoch, a panel a depth; a cross is a run that diverged."""
    long, third = runs_of(results, "long"), partial(np.quantile, q=0.4, method="lower")  # of six runs
    depths = sorted({layers for _, layers in long})
    title = "Deep plain nets lag, half of the deep highway nets diverge"
    figure, panels = new_figure(title, 3.6, ncols=len(depths) or 1, sharey=True, squeeze=False)
    for axes, layers in zip(panels[0], depths, strict=False):
        for block in UNITS:
            runs, style = long[block, layers], {"color": COLORS[block]}
            draw_losses(axes, runs, center=third, label=block, **style)
            ends = [[loss for loss in run.history["train_loss"] if loss is not None] for run in runs if run.diverged]
            axes.plot([len(of) - 1 for of in ends], [of[-1] for of in ends], "X", markeredgecolor="white", **style)
            if ends:
                axes.set_title(f"{len(ends)} of {len(runs)} diverged", loc="right", y=0.88, fontsize=9, **style)
        if layers in SHALLOW:
            draw_level(axes, TARGET, "_")
        axes.set(title=f"{layers} layers", ylim=(None, 20))
    panels[0, 0].set_ylabel("training loss")
    label_ends(panels[0, -1])
    return figure


FIGURES = {"fig1_depth_search.png": figure}
