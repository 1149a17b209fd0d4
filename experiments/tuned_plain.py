"""How much of the highway nets' lead is left once plain nets are tuned, too?

Three arms are tuned alike, by the depth sweep's budget: highway blocks of 50 units, plain blocks of 50, and plain
blocks of 71, which have as many parameters as a highway block. An overview of such nets says that highway blocks double
the parameters without proportional gains (compare section 3.3.1); the third arm tests that. Each arm chooses at each
depth its initialisation and its learning rate, the highway arm then also its b_T, by validation accuracy: images beyond
the 6,000 that train, of which a diverged run guesses a tenth. All settings are tried with one seed, the best FINALISTS
of them with two more; the highest mean over the three is chosen. Twenty other seeds of the chosen setting are scored on
test images, beside the sweep's setting (highway and plain, 50 units), run again. At first every setting was to be tried
with all three seeds; this was changed before any result was looked at.

Rules. Accuracy is the final one on test images; a diverged run counts as chance (0.1). Arms are compared by the 95 %
interval of the difference of their means (Welch). Each depth of a claim has a verdict; `claims.combine` takes them
together. Depth 5 is shown, but no verdict depends on it.

"Highway nets outperform plain ones": the interval of highway minus plain of 50 units excludes 0, at 10, 20, 30 and 50
blocks. "Without proportional gains": plain nets of 71 units are at most MARGIN worse than highway nets, at 10, 20 and
30 blocks.

These comparisons and MARGIN were fixed before the run. So was another word for the second claim: where the depths
disagree, it was to be inconclusive. The five words call that partly; inconclusive is an interval that allows both.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start(__spec__.name, "EXPERIMENT.main")

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from highway_lab.fields import SCORE, Count, rule
from highway_lab.logs import Log, Result
from highway_networks import BLOCKS, Config, Dataset, train

from .common import CHANCE, Experiment, ExperimentJob, fit, group_by

DEPTHS = (5, 10, 20, 30, 50)
INITS = ("uniform", "glorot", "he")
RATES = (5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
GATE_BIASES = (-1.0, -2.0, -4.0)
CHOOSING_SEEDS = (100, 101, 102)
FINALISTS = 5  # settings that are tried with every choosing seed
SEEDS = tuple(range(20))
BUDGET = {"epochs": 12, "n_train": 6_000, "n_test": 2_000}
MARGIN = 1.0  # points of accuracy; not the usual 0.5, as 20 seeds leave intervals of ± 0.4 and more


class Arm(NamedTuple):
    """A kind of net that is compared at each depth."""

    block: str
    hidden: int


class Setting(NamedTuple):
    """Hyperparameters that an arm chooses."""

    init: str
    lr: float
    gate_bias: float


ARMS = HIGHWAY, PLAIN, WIDE = Arm("highway", 50), Arm("plain", 50), Arm("plain", 71)
UNTUNED = Setting(Config.init, Config.lr, Config.gate_bias)  # the sweep's


@dataclass
class ScoredRun(Result):
    """One training run by its last scores; validation accuracy is null unless the run chooses a setting."""

    config: Config
    n_params: Count
    diverged: bool
    train_loss: float | None
    test_score: Annotated[float | None, rule(within=SCORE)]
    validation_score: Annotated[float | None, rule(within=SCORE)]


@dataclass
class TriedSetting:
    """One run that tried a setting; validation accuracy is null if the run diverged."""

    block: Annotated[str, rule(among=BLOCKS)]
    hidden: Count
    depth: Count
    init: Annotated[str, rule(among=INITS)]
    lr: float
    gate_bias: float
    seed: Count
    validation_score: Annotated[float | None, rule(within=SCORE)]


@dataclass
class TunedPlainLog(Log):
    """runs/tuned_plain.json; `tried` chose the settings of `runs`, among which are those of the untuned setting."""

    tried: Annotated[list[TriedSetting], rule("tried")]
    runs: Annotated[list[ScoredRun], rule("runs")]


EXPERIMENT = Experiment(__name__, __doc__, TunedPlainLog)


def run_config(config: Config, data: Dataset) -> ScoredRun:
    run = train(config, data)
    history = run.history
    validation_score = history.validation_score[-1] if config.n_validation else None
    scores = history.train_loss[-1], history.test_score[-1], validation_score
    return ScoredRun(None, config, run.n_params, run.diverged, *((None,) * 3 if run.diverged else scores))


def arm_of(of: Config | TriedSetting) -> Arm:
    return Arm(of.block, of.hidden)


def setting_of(of: Config | TriedSetting) -> Setting:
    return Setting(of.init, of.lr, of.gate_bias)


def rank_settings(tried: Iterable[TriedSetting]) -> dict[tuple[Arm, int], list[Setting]]:
    """Return settings by arm and depth: those with most seeds first, of them the highest mean accuracy first."""

    def quality(seeds: list[TriedSetting]) -> tuple[int, float]:
        scores = [CHANCE if run.validation_score is None else run.validation_score for run in seeds]
        return len(scores), float(np.mean(scores))

    ranked = {}
    for key, runs in group_by(tried, lambda run: (arm_of(run), run.depth)).items():
        by_setting = group_by(runs, setting_of)
        ranked[key] = sorted(by_setting, key=lambda setting: quality(by_setting[setting]), reverse=True)
    return ranked


def configure(arm: Arm, depth: int, setting: Setting, seeds: Sequence[int], budget: dict) -> list[Config]:
    """Return the runs of an arm at a depth, in one setting."""
    return [Config(**arm._asdict(), **setting._asdict(), depth=depth, seed=seed, **budget) for seed in seeds]


def choose(
    finish: Callable[[list[Config]], list[ScoredRun]], data: Dataset, smoke: bool
) -> tuple[list[TriedSetting], dict[tuple[Arm, int], Setting]]:
    """Try settings; returns the tries, and the chosen setting of each arm and depth."""
    depths, inits, rates, biases = (
        ((4, 2), INITS[:2], RATES[5:7], GATE_BIASES[:2]) if smoke else (DEPTHS[::-1], INITS, RATES, GATE_BIASES)
    )
    first, *others = CHOOSING_SEEDS[: 2 if smoke else None]
    budget = fit(BUDGET, data, smoke)
    budget |= {"n_validation": budget["n_test"], "n_test": 1, "n_scored": 1}
    tried = {}  # by config

    def rank(tries: Iterable[tuple[Arm, int, Setting]], seeds: Sequence[int]) -> dict[tuple[Arm, int], list[Setting]]:
        configs = [config for arm, depth, setting in tries for config in configure(arm, depth, setting, seeds, budget)]
        for run in finish(configs):
            of = run.config
            tried[of] = TriedSetting(*arm_of(of), of.depth, *setting_of(of), of.seed, run.validation_score)
        return rank_settings(tried.values())

    settings = [Setting(init, lr, Config.gate_bias) for init in inits for lr in rates]
    ranked = rank(((arm, depth, one) for depth in depths for arm in ARMS for one in settings), [first])
    ranked = rank(((*key, one) for key, of in ranked.items() for one in of[:FINALISTS]), others)
    best = {depth: ranked[HIGHWAY, depth][0] for depth in depths}
    biased = [(HIGHWAY, depth, best[depth]._replace(gate_bias=b_T)) for depth in depths for b_T in biases]
    ranked = rank(biased, [first, *others])
    return list(tried.values()), {key: of[0] for key, of in ranked.items()}


def plan_measurement(data: Dataset, smoke: bool, best: dict[tuple[Arm, int], Setting]) -> list[Config]:
    """Return the runs that are scored on test images; one that is both tuned and untuned stands once."""
    budget, seeds = fit(BUDGET, data, smoke), SEEDS[: 2 if smoke else None]
    untuned = {(arm, depth): UNTUNED for arm, depth in best if arm != WIDE}
    measured = [*best.items(), *untuned.items()]
    runs = (configure(arm, depth, setting, seeds, budget) for (arm, depth), setting in measured)
    return list(dict.fromkeys(config for of_setting in runs for config in of_setting))


def run(job: ExperimentJob) -> None:
    finish = partial(job.run_missing, run_config, schema=ScoredRun)
    tried, best = choose(finish, job.data, job.smoke)
    runs = finish(plan_measurement(job.data, job.smoke, best))
    job.keep(runs[0].config, tried=tried, runs=runs)


EXPERIMENT.add_run(run, "train all nets; resumable")
