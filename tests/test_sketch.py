"""The sketch's sentences: what is run, and what the verdicts say of made-up runs."""

import made_up
import pytest

from experiments import sketch
from experiments.claims import Verdict
from experiments.sketch_figures import claims, early_minus_late, mean_gates
from highway_lab.logs import DatasetInfo
from highway_networks import Config

EARLY, LATE = [0.3, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.3]
ALL = {"n_train": 60_000, "n_test": 10_000}


def log_of(
    relu: int = 10, highway: int = 10, plain: int = 0, gates: list[list[float]] | None = None
) -> sketch.SketchLog:
    """Return a log in which so many of ten nets train; the gates of the first highway nets are given."""

    def runs(config: Config, trained: int) -> list[sketch.SketchRun]:
        return [made_up.trained_run(seeded(config, i), [0.1, 0.9 if i < trained else 0.11]) for i in sketch.SEEDS]

    gated = runs(Config(depth=4, **ALL), highway)
    for run, T in zip(gated, gates or [EARLY, EARLY, [0.3, 0.3, 0.1, 0.1]], strict=False):
        run.measured = T
    relus = runs(Config(block="plain", activation="relu", depth=10), relu)
    ungated = runs(Config(block="plain", **ALL), plain)
    return made_up.log(sketch.SketchLog, DatasetInfo("mnist", 60_000, 10_000), runs=[*relus, *gated, *ungated])


def seeded(config: Config, seed: int) -> Config:
    return Config(**vars(config) | {"seed": seed})


@pytest.mark.parametrize(
    ("trained", "verdict"),
    [(10, Verdict.REPRODUCED), (9, Verdict.REPRODUCED), (5, Verdict.INCONCLUSIVE), (4, Verdict.NOT_REPRODUCED)],
)
def test_nets_train_if_nine_of_ten_do(trained, verdict):
    relu, *_ = claims(log_of(relu=trained))
    assert relu.verdict == verdict


@pytest.mark.parametrize(
    ("highway", "plain", "verdict"),
    [
        (9, 1, Verdict.REPRODUCED),
        (10, 3, Verdict.INCONCLUSIVE),
        (10, 6, Verdict.NOT_REPRODUCED),
        (4, 0, Verdict.NOT_REPRODUCED),
    ],
)
def test_the_contrast_is_not_one_of_data_if_it_is_there_on_all_images(highway, plain, verdict):
    _, contrast, _ = claims(log_of(highway=highway, plain=plain))
    assert contrast.verdict == verdict
    assert contrast.why == f"On all images, {highway} of 10 highway nets train, and {plain} of 10 plain nets."


@pytest.mark.parametrize(
    ("gates", "verdict"),
    [
        ([EARLY, EARLY, [0.3, 0.3, 0.1, 0.1]], Verdict.REPRODUCED),
        ([LATE, LATE, [0.1, 0.1, 0.3, 0.3]], Verdict.NOT_REPRODUCED),
        ([EARLY, LATE, EARLY], Verdict.INCONCLUSIVE),
    ],
)
def test_lower_blocks_are_those_of_the_first_half(gates, verdict):
    log = log_of(gates=gates)
    assert len(early_minus_late(mean_gates(log))) == len(gates), "a net without gates has none"
    assert claims(log)[-1].verdict == verdict


def test_a_net_keeps_the_gates_it_ends_with(digits):
    config = Config(depth=3, hidden=8, epochs=1, n_train=64, n_test=32)
    run = sketch.run_config(config, digits)
    assert len(run.measured) == 3
    assert all(0 < T < 1 for T in run.measured)
    assert sketch.run_config(Config(**vars(config) | {"block": "plain"}), digits).measured is None
