"""Tables 1 and 2: do convolutional highway nets do as well as the paper says, and plain ones of the same layers?

The budget is a small part of the paper's. Its schedule, a tenth of the rate after each third or half of the epochs,
becomes half a cosine. What else a short budget needs is chosen for each kind of block on 5,000 validation images, by
one shorter run of each candidate. Test images are scored once a run, after its last epoch (long: after each). Highway B
and C take too long here and are not trained.

Long: Highway A for as long as we can afford, on all 50,000 training images of CIFAR-10. Its rate, then the padding of
its random crops, are chosen by validation images, by one run of 12 epochs for each candidate; so are those of the plain
net. Schedule and dropout (none) are those chosen before, by runs of 4 epochs, which favour none. With two seeds and
1,000 test images the interval is far wider than the margin: expect no verdict but inconclusive. The number and its
curve are what these runs are for.

More seeds: table 1's larger net again, from three other seeds for more epochs, by the settings chosen before.

The rules of the verdicts were put in this form after the runs but those of more seeds and long. A net reproduces the
paper's number if it is as good, in its longest budget: the 95 % interval of its lead over that number excludes a loss
of the margin. The interval is that over seeds; a single seed has that of its test images. Where our test images are a
part of the paper's, both count. A shorter budget than the paper's can reach its number, but not refute it: the verdict
is then inconclusive. Highway nets match the maxout net that the paper quotes by the same rule, which was applied to it
when the runs were known.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import conv_recipes
from conv_recipes import NETS, ConvConfig
from highway_lab.console import digest_of_config, name_data
from highway_lab.figures import COLORS, INK, new_figure, pale
from highway_lab.intervals import Interval, interval
from highway_lab.logs import digest_of_samples, grouped
from highway_lab.training import train_resumably
from highway_networks import Dataset

from .claims import ACCURACY_MARGIN, Verdict, combine, judge_as_good
from .common import by_config
from .common_figures import draw_dots
from .quotes import PAPER
from .study import Arm, ArmCell, Measured, Results, Stage, Study, StudyRun, Task, accuracies, gains

TEST_IMAGES = 10_000  # of MNIST and of CIFAR-10, in the paper
NORMAL = 1.96  # standard errors of a 95 % interval
MARGINS = {"mnist": 0.07, "cifar-10": ACCURACY_MARGIN}  # points; the first is half of what lies between table 1's nets
EPOCHS = {"mnist": 300, "cifar-10": 400}  # of the authors' files; table 2 has none, so table 3's is taken
RIVALS = {"mnist-16": "maxout", "mnist-32": "maxout", "highway-a": "FitNet A"}  # of others, quoted by the paper
NAMES = {
    "mnist-16": "10 layers, 16 maps",
    "mnist-32": "10 layers, 32 maps",
    "highway-a": "Highway A, 11 layers",
}


DATASET = {"cifar-10": "cifar-10", "cifar-10-long": "cifar-10"}  # of studies whose images are not MNIST's
SIZES = {
    "mnist": {"n_train": 55_000, "n_validation": 5_000, "n_test": TEST_IMAGES},
    "cifar-10": {"n_train": 45_000, "n_validation": 5_000, "n_test": 1_000},
}


# ------------------------------------------------------------------------------------------- the runs


@dataclass(frozen=True)
class Tables(Study):
    """A study whose seed 0 chooses, on validation images, in fewer epochs, and then is one of those that are scored."""

    def __post_init__(self) -> None:
        """Refuse no seed."""


def configure(fields: Mapping[str, Any], cell: ArmCell, stage: Stage) -> ConvConfig:
    """Return a net's recipe for all images of its data set, of which some are for validation."""
    return conv_recipes.configure(**{**SIZES.get(NETS[fields["net"]].dataset, {}), **fields})


def checkpoint_path(config: ConvConfig, data: Dataset) -> Path:
    return Path("runs/checkpoints", f"{digest_of_samples(data)}-{digest_of_config(config)}.npz")


def train(task: Task, data: Dataset) -> StudyRun:
    """Train one net, with a checkpoint after each epoch, from which a killed run resumes."""
    run = train_resumably(task.config, data, keep=checkpoint_path(task.config, data))
    history = {name: column for name, column in vars(run.history).items() if column and name != "epoch"}
    score = None if run.diverged else history["test_score" if task.result else "validation_score"][-1]
    return StudyRun(None, task, run.n_params, run.diverged, history, Measured(None, None, score, None, None))


def scored(
    net: str, epochs: int, highway: Sequence[int], plain: Sequence[int], result: str = "scored", **options: Any
) -> Stage:
    """Return a stage of results of a net, from these seeds of each block, in the chosen settings but for `options`."""
    seeds = {"highway": highway, "plain": plain}
    return Stage(lambda cell: seeds.get(cell.arm, highway), epochs, 1, {"net": net, **options}, result)


def choosing(net: str, epochs: int, **more: Any) -> Stage:
    return Stage((0,), epochs, options={"net": net}, **more)


def study(
    grid: Mapping[str, Sequence], stages: Sequence[Stage], of: Callable[..., Mapping] = dict, **arms: dict
) -> Study:
    """Return a study of blocks that choose by the highest accuracy on validation images; of equals, the first."""
    arms = arms or {block: {"block": block} for block in ("highway", "plain")}
    return Tables(
        {name: Arm(options, grid, of) for name, options in arms.items()},
        [*map(ArmCell, arms)],
        stages,
        configure=configure,
        criteria={"minus accuracy": lambda run: -run.accuracy},
        config=ConvConfig,
    )


SCHEDULED = {  # candidates of table 2's net, by name
    "0.03": {"dropout": 0.0, "lr": 0.03},
    "0.06": {"dropout": 0.0, "lr": 0.06},
    "in steps": {"schedule": "0.6,0.85", "lr": 0.025},
}
STUDY = {  # by the endings of their logs
    "": study(
        {"dropout": (0.25, 0.5), "lr": (0.03, 0.1)},
        [
            choosing("mnist-16", 6),
            scored("mnist-16", 20, range(5), range(5)),
            scored("mnist-32", 12, range(2), range(2), "larger"),
            scored("mnist-32", 20, range(2, 5), range(2, 5), "more seeds"),
        ],
    ),
    "cifar-10": study(
        {"rate": tuple(SCHEDULED)},
        [
            choosing("highway-a", 4),
            scored("highway-a", 30, range(2), range(1)),
            scored("highway-a", 60, range(1), (), "longer"),
            scored("highway-a", 30, range(1), (), "not augmented", augment=False),
        ],
        lambda rate: SCHEDULED[rate],
    ),
    "cifar-10-long": study(
        {"lr": (0.03, 0.06, 0.12, 0.25), "padding": (8,)},
        [
            choosing("highway-a", 12),
            choosing("highway-a", 12, best=1, vary={"padding": (8, 4)}),
            scored("highway-a", 200, range(2), range(1), n_train=50_000, n_validation=0),
        ],
        highway={"block": "highway", "dropout": 0.0},
        plain={"block": "plain", "dropout": 0.0},
    ),
}


# ---------------------------------------------------------------------------------------- what was found


def by_net(results: Mapping[str, Results]) -> dict[tuple[str, int, str], list[StudyRun]]:
    """Return the tables' runs by net, epochs, which rise, and block: they have the augmentation of their recipe."""
    runs = [run for of in results.values() for run in of.runs if run.task.result not in ("", "not augmented")]
    return by_config(runs, "net", "epochs", "block")


def longest(results: Mapping[str, Results]) -> dict[tuple[str, str], list[StudyRun]]:
    """Return by net and block the runs of most epochs."""
    return {(net, block): runs for (net, _, block), runs in by_net(results).items()}


def images_error(runs: Sequence[StudyRun]) -> float:
    """Return half of the 95 % interval of the mean test accuracy, in points, for another sample of images."""
    accuracy = accuracies(runs).mean()
    return NORMAL * (accuracy * (100 - accuracy) / runs[0].config.n_test) ** 0.5


def lead(runs: Sequence[StudyRun], level: float) -> Interval:
    """Return the points by which the mean test accuracy exceeds a level, by the interval of the rules above."""
    over_seeds, over_images = interval(accuracies(runs)), images_error(runs)
    both = math.hypot(over_seeds.half, over_images * (runs[0].config.n_test < TEST_IMAGES))
    return Interval(over_seeds.value - level, over_images if len(runs) == 1 else both)


def judge_net(runs: Sequence[StudyRun], level: float) -> Verdict:
    """Judge whether a net of the paper is as good as a level; fewer epochs than the paper's cannot refute it."""
    dataset = NETS[runs[0].config.net].dataset
    verdict = judge_as_good(lead(runs, level), MARGINS[dataset])
    shorter = runs[0].config.epochs < EPOCHS[dataset]
    return Verdict.INCONCLUSIVE if verdict == Verdict.NOT_REPRODUCED and shorter else verdict


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes, by net, epochs and block; accuracies are in %, and verdicts are on the longest."""
    found, last = by_net(results), longest(results)
    results_of = grouped((run for of in results.values() for run in of.runs), lambda run: run.task.result)
    nets = {net: runs for (net, block), runs in last.items() if block == "highway" and net in RIVALS}
    beside = {net: judge_net(runs, PAPER[RIVALS[net]]) for net, runs in nets.items()}
    tried = by_config(results_of.get("", []), "net", "epochs", "block", "lr")
    return {
        "accuracy": {of: interval(accuracies(runs)) for of, runs in found.items()},
        "images": {of: images_error(runs) for of, runs in found.items()},
        "seeds": {of: len(runs) for of, runs in found.items()},
        "parameters": {of: runs[0].n_trained for of, runs in found.items()},
        "ahead": {net: interval(gains(runs, last[net, "plain"])) for net, runs in nets.items()},
        "not_augmented": accuracies(results_of.get("not augmented", [])),
        "verdict": {net: judge_net(runs, PAPER[net]) for net, runs in nets.items()},
        "beside": beside,
        "match": combine(verdict for net, verdict in beside.items() if RIVALS[net] == "maxout"),
        "tried": {of: np.array([run.measured.score for run in runs], float) for of, runs in tried.items()},
        "not_tested": Verdict.NOT_TESTED,
    }


def figure(results: Mapping[str, Results]) -> Figure:
    """Draw test errors after most epochs beside the paper's: a dot a seed, unless it diverged, a bar for the images."""
    by_dataset = grouped(longest(results).items(), lambda item: NETS[item[0][0]].dataset)
    by_dataset = dict(sorted(by_dataset.items(), reverse=True))  # MNIST first
    rows = [*map(len, by_dataset.values())]
    height = 0.8 + 0.75 * len(rows) + 0.3 * sum(rows)
    figure, grid = new_figure(
        "On MNIST plain nets do about as well", height, nrows=len(rows), height_ratios=rows, squeeze=False
    )
    for axes, (dataset, nets) in zip(grid[:, 0], by_dataset.items(), strict=True):
        names = []
        for row, ((net, block), runs) in enumerate(nets):
            ended, color = [run for run in runs if not run.diverged], COLORS[block]
            names.append(f"{NAMES.get(net, net)}: {block}, {len(ended)} of {len(runs)} seeds")
            if ended:
                errors = 100 - accuracies(ended)
                bar = errors.mean() + images_error(ended) * np.array([-1, 1])
                axes.plot(bar, [row, row], color=pale(color, 0.3), linewidth=7, solid_capstyle="butt", zorder=1)
                draw_dots(axes, errors, row, color=color)
            if net in PAPER and block == "highway":
                axes.plot(100 - PAPER[net], row, "|", color=INK, markersize=20, markeredgewidth=2)
        axes.set_yticks(range(len(names)), names)
        scored = "first 1,000 test images" if dataset == "cifar-10" else "test images"
        axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=f"error on {scored} of {name_data(dataset)} (%)")
    return figure


FIGURES = {"conv_tables.png": figure}
