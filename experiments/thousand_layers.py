"""Do 1,000 layers train by SGD, and does their depth do anything?

The paper (section 2.2) reports that SGD with momentum did not stall with more than 1,000 layers. A blog (Fleming 2015)
reports that 1,000 layers reach about 95 % on MNIST with b_T near -20, and an overview that highway nets struggle beyond
about 100 layers. A net whose blocks all copy their input trains as easily as a net of no blocks (one plain layer and a
softmax), so that net is the control. Each arm has its own rate, chosen by the validation loss with one other seed, on
half of the images: these runs would otherwise cost more than those that are scored.

`long`: nets of 1,000 blocks from −6 and −20, and those of no blocks, for 30 epochs in place of 3, at the rates chosen
for 3: to choose anew would cost ten times as much. From −4 nets only guess after 3 epochs, at the lowest rate, and are
not trained longer.

`residual`: the rivals that came later, y = x + H/√L, and y = x + H whose initial weights are a tenth as large, as its
gradients would otherwise explode (through 1,000 untrained blocks they grow more than a million-fold, and none are
clipped here). Beside them 1,000 highway blocks from −8: from −6 little of a gradient passes at first, and from −20
every block is a copy. A residual block has half of a highway block's parameters.

Blocks are of use if test accuracy falls by more than 0.1 points when all of them are closed, so that they copy their
input. (Commit 405c2b5 counts the blocks of the highest mean T that are needed.)

Rules of the verdicts, by 95 % intervals over seeds; the first two are judged by the longest runs from a bias.

- A net trains if its training loss is below that of guessing, in orders of magnitude. "Does not stall" holds if the
  deepest nets train from any bias.
- The blog's nets must reach 95 % or fall short by less than ACCURACY_MARGIN, and each must use about 15 blocks, which
  nets do not whose blocks are of no use; of others it is open here (10 or 20 needed blocks were asked for).
- Highway nets struggle where residual ones do not if, after 3 epochs, nets of 1,000 blocks lose test accuracy against
  100 from the same bias, −20 apart, as its nets use no block at any depth; and if the kind of residual net with the
  lowest validation loss trains at 1,000 blocks and is there as good as at 100, by ACCURACY_MARGIN.
- The factors 1 − T compound if they leave less than CARRIED of an input in the deepest untrained nets from any bias.
- 1,000 blocks outperform none if the interval of the difference of their accuracies after 30 epochs lies above 0.
- 1,000 residual blocks of that kind outperform 1,000 highway blocks if the interval of the difference to the bias with
  the lowest validation loss lies above 0, from −20 apart, whose nets are nets without blocks.

The last was fixed before any residual net was trained, as was what is asked of these in the third; the last but one
before the runs of 30 epochs. All others were written after runs of 3 epochs, that of the factors 1 − T after all runs,
and two were changed then: "does not stall" asked for use of the blocks, too, and "about 95 %" allowed for no more than
the margin on either side. A diverged run counts as one that guesses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from highway_lab.fields import Score, Share
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import rounded_all
from highway_lab.training import Training
from highway_networks import Dataset, rounded

from .blocks import numbered
from .claims import ACCURACY_MARGIN, LOSS_MARGIN, Verdict, any_of, combine, decide, judge_as_good, judge_better, require
from .common_figures import minus, rows_figure
from .study import Arm, Cell, Results, Stage, Study, StudyRun, Task, accuracies, score_loss

UNITS, SHALLOWER, DEEPEST = 50, 100, 1000
DEPTHS = (DEEPEST, SHALLOWER, 10)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
CHOOSING_SEED, SEEDS = 100, range(3)
EPOCHS, LONG_EPOCHS = 3, 30
GUESSING = 2.30116  # nats: the entropy of MNIST's training labels, the least loss of the same answer for every image
GATE_IMAGES = 1_000  # training images over which mean T is taken
TOLERANCE = 0.1  # points of test accuracy that blocks of no use may be worth
CARRIED = 0.01  # of an input: where less arrives at the end, the factors 1 − T have compounded
BLOG_ACCURACY = 95.0
HIGHWAY = {bias: f"highway, b_T {minus(bias)}" for bias in (-4.0, -6.0, -8.0, -20.0)}  # arms by gate bias
COPIES = -20.0  # the blog's bias, from which every block stays a copy
RESIDUAL = ("residual", "residual, scaled")
NO_BLOCKS = "no blocks"
OPTIONS = {name: {"block": "highway", "gate_bias": bias} for bias, name in HIGHWAY.items()} | {
    "plain": {"block": "plain"},
    "residual": {"block": "residual", "init_gain": 0.1},
    "residual, scaled": {"block": numbered("residual-scaled", 0.5)},
    NO_BLOCKS: {"block": "plain"},
}
LONG_RATES = {HIGHWAY[-6.0]: 0.3, HIGHWAY[COPIES]: 0.03, NO_BLOCKS: 0.03}  # those that were chosen for 3 epochs


@dataclass
class DeepMeasured:
    """What is measured after the last epoch, losses in nats; null where a run diverged.

    train_loss   of a result, over `n_scored` training images
    score        of a result, on test images
    score_loss   on test images or, of a run that chooses, validation images
    carried      of a result, the share of an input that its untrained blocks copy to their end, Π(1 − mean T) over
                 GATE_IMAGES training images; null without gates
    closed       of a result, test accuracy with all blocks closed; null where blocks are plain
    """

    train_loss: float | None = None
    score: Score | None = None
    score_loss: float | None = None
    carried: Share | None = None
    closed: Share | None = None


def measure_carried(training: Training) -> float:
    """Return the share of an input that the blocks of a net, as it is, copy to their end."""
    net, images = training.net, training.data.train_x[:GATE_IMAGES]
    return rounded(np.prod(1 - np.array(rounded_all(net.gate_means(net.preprocess(images)), digits=4))))


def score_closed(training: Training) -> float:
    """Return the test accuracy of a net with all its blocks closed."""
    net, data = training.net, training.data
    logits = net.forward_from(net.embed(net.preprocess(data.test_x)), net.depth)
    return float(np.mean(logits.argmax(axis=1) == data.test_y))


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net, and measure it: one that chooses on validation images alone."""
    training, measured = Training(task.config, data), DeepMeasured()
    carried = measure_carried(training) if training.net.has_gates else None
    for _ in training.epochs():
        pass
    history = training.history
    if task.result and not training.diverged:
        last = (column[-1] for column in (history.train_loss, history.test_score, history.test_loss))
        measured = DeepMeasured(*last, carried, None if task.config.block == "plain" else score_closed(training))
    elif not training.diverged:
        measured.score_loss = history.validation_loss[-1]
    return StudyRun(None, task, training.net.n_trained, training.diverged, {}, measured)


def study(depths: Mapping[str, Sequence[int]], epochs: int, rates: Mapping[str, float] | None = None) -> Study:
    """Return a study of arms in these depths, each with a rate of its own: those given, or chosen among RATES."""
    regime = {"init": "glorot", "optimizer": "momentum", "schedule": "cosine", "clip": 0.0, "n_scored": 10_000}
    half = regime | {"n_train": 25_000, "n_validation": 5_000, "n_test": 1}
    choosing = [] if rates else [Stage((CHOOSING_SEED,), epochs, options=half)]
    whole = regime | {"n_train": 60_000, "n_test": 10_000}
    return Study(
        {name: Arm(OPTIONS[name], {"lr": (rates[name],) if rates else RATES}) for name in depths},
        [Cell(name, UNITS, depth) for name in depths for depth in depths[name]],
        [*choosing, Stage(SEEDS, epochs, best=1 if choosing else None, options=whole, result="scored")],
        criteria={"loss": score_loss},
        own=lambda name, arm: Cell(name, UNITS, DEEPEST),
        measured=DeepMeasured,
    )


NONE = {NO_BLOCKS: (0,)}
STUDY = {  # by the endings of their logs
    "": study(dict.fromkeys((HIGHWAY[-4.0], HIGHWAY[-6.0], HIGHWAY[COPIES], "plain"), DEPTHS) | NONE, EPOCHS),
    "long": study(dict.fromkeys((HIGHWAY[-6.0], HIGHWAY[COPIES]), (DEEPEST,)) | NONE, LONG_EPOCHS, LONG_RATES),
    "residual": study({HIGHWAY[-8.0]: (DEEPEST,)} | dict.fromkeys(RESIDUAL, DEPTHS) | NONE, EPOCHS),
}


# ---------------------------------------------------------------------------------------- what was found


def nets(results: Mapping[str, Results], *endings: str) -> dict[tuple[str, int], list[StudyRun]]:
    """Return results by arm and blocks of finished cells; of a cell that several studies have, those of the first."""
    found = [results[ending].by_cell() for ending in reversed(endings) if ending in results]
    return {(cell.arm, cell.depth): runs for of in found for cell, runs in of.items()}


def judge_training(runs: Sequence[StudyRun]) -> Verdict:
    """Judge whether nets train, by orders of magnitude of the training loss below that of guessing."""
    ratios = [GUESSING / (run.measured.train_loss or GUESSING) for run in runs]
    return judge_better(interval(np.log10(ratios)), LOSS_MARGIN)


def best_validated(results: Mapping[str, Results], arms: Iterable[str]) -> str:
    """Return the arm whose deepest nets have the lowest validation loss."""
    cells = [Cell(arm, UNITS, DEEPEST) for arm in arms]
    found = [(of, cell) for of in (results[""], results["residual"]) for cell in cells if cell in of.rungs]
    return min(found, key=lambda pair: min(map(score_loss, pair[0].tries(pair[1]))))[1].arm


def lead(runs: Sequence[StudyRun], others: Sequence[StudyRun]) -> Interval:
    """Return the points of test accuracy by which runs outperform others."""
    return difference(accuracies(runs), accuracies(others))


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what pages quote, by gate bias, or by the name of a net that has none.

    found    of the longest runs of 1,000 blocks: accuracy in %, points over no blocks, points lost with all closed
    shares   of an input that 1,000 untrained blocks copy to their end, Π(1 − mean T)
    early    points over no blocks of 1,000 blocks from −6, after EPOCHS
    losses   points that 1,000 blocks lose against 100; `gains`: that the best residual net gains over fewer, by blocks
    """
    short, long = nets(results, "", "residual"), nets(results, "long")
    bias_of = {name: bias for bias, name in HIGHWAY.items()}
    deepest = {bias_of.get(arm, arm): runs for (arm, depth), runs in (short | long).items() if depth == DEEPEST}
    trains = {bias: judge_training(deepest[bias]) for bias in HIGHWAY}
    shares = {bias: np.mean([run.measured.carried for run in deepest[bias]]) for bias in HIGHWAY}
    found = {
        of: {
            "bias": of,
            "epochs": runs[0].config.epochs,
            "accuracy": accuracies(runs).mean(),
            "over_none": lead(runs, (short if runs[0].config.epochs == EPOCHS else long)[NO_BLOCKS, 0]),
            "lost": sorted(
                100 * (run.accuracy - run.measured.closed) for run in runs if run.measured.closed is not None
            ),
            "lowest_rate": runs[0].config.lr == min(RATES),
        }
        for of, runs in deepest.items()
    }
    losses = {bias: lead(short[HIGHWAY[bias], SHALLOWER], short[HIGHWAY[bias], DEEPEST]) for bias in (-4.0, -6.0)}
    rival = best_validated(results, RESIDUAL)
    best = best_validated(results, [name for bias, name in HIGHWAY.items() if bias != COPIES])
    gains = {depth: lead(short[rival, DEEPEST], short[rival, depth]) for depth in DEPTHS}
    blog = [
        judge_as_good(interval(accuracies(deepest[COPIES]) - BLOG_ACCURACY), ACCURACY_MARGIN),
        *(decide(False, lost < TOLERANCE) for lost in found[COPIES]["lost"]),
    ]
    keeps = require(judge_training(short[rival, DEEPEST]), judge_as_good(gains[SHALLOWER], ACCURACY_MARGIN))
    over_highway = lead(short[rival, DEEPEST], short[best, DEEPEST])
    return {
        "verdict": {
            "stall": any_of(trains.values()),
            "blog": combine(blog),
            "struggle": combine(require(judge_better(loss, ACCURACY_MARGIN), keeps) for loss in losses.values()),
            "copies": Verdict.REPRODUCED if min(shares.values()) < CARRIED else Verdict.NOT_REPRODUCED,
            "used": combine(judge_better(found[bias]["over_none"], ACCURACY_MARGIN) for bias in (-6.0, COPIES)),
            "residual": judge_better(over_highway, ACCURACY_MARGIN),
        },
        "found": found,
        "trains": [bias for bias in trains if trains[bias] == Verdict.REPRODUCED],
        "shares": shares,
        "losses": losses,
        "gains": gains,
        "over_highway": over_highway,
        "early": lead(short[HIGHWAY[-6.0], DEEPEST], short[NO_BLOCKS, 0]),
        "rivals": [rival, best],
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw the test error of nets of 1,000 blocks and of none, those of 30 epochs first."""
    rows = {
        f"{arm}, {runs[0].config.epochs} epochs": 100 - accuracies(runs)
        for ending in STUDY
        for (arm, depth), runs in nets(results, ending).items()
        if depth == DEEPEST or arm == NO_BLOCKS
    }
    rows = dict(sorted(rows.items(), key=lambda row: (f" {EPOCHS} epochs" in row[0], row[1].mean())))
    figure = rows_figure("1,000 highway blocks train, but no gain is shown", rows, "test error (%)")
    figure.axes[0].set(xscale="log", xlim=(2, 100))
    figure.axes[0].set_xticks((2, 5, 10, 20, 50, 100), (2, 5, 10, 20, 50, 100))
    figure.axes[0].minorticks_off()
    return figure


FIGURES = {"thousand_layers.png": figure}
