"""The sketch's remarks: what is run, and what the verdicts say of made-up runs."""

from dataclasses import replace

import made_up
import pytest

from experiments import sketch
from experiments.claims import Verdict
from experiments.sketch_figures import claims, early_minus_late, mean_gates
from highway_lab.logs import DatasetInfo
from highway_lab.training import Training
from highway_networks import Config

EARLY, LATE, NEARLY = [0.3, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.3], [0.3, 0.3, 0.1, 0.1]
RELU, ALL = Config(block="plain", activation="relu", depth=10), {"n_train": 60_000, "n_test": 10_000}


def log_of(relu=10, he=10, highway=10, deep=0, shallow=10, few=(EARLY, LATE), many=(EARLY, LATE)) -> sketch.SketchLog:
    """Return a log in which so many of ten nets train; the gates of the first highway nets are given."""

    def runs(config: Config, trained: int, gates: tuple = ()) -> list[sketch.SketchRun]:
        found = [
            made_up.trained_run(replace(config, seed=seed), [0.1, 0.9 if seed < trained else 0.11])
            for seed in sketch.SEEDS
        ]
        for run, T in zip(found, gates, strict=False):
            run.measured = T
        return found

    found = [
        *runs(RELU, relu),
        *runs(replace(RELU, init="he"), he),
        *runs(Config(depth=4), 10, few),
        *runs(Config(depth=4, **ALL), highway, many),
        *runs(Config(block="plain", depth=2, **ALL), shallow),
        *runs(Config(block="plain", depth=4, **ALL), deep),
    ]
    return made_up.log(sketch.SketchLog, DatasetInfo("mnist", 60_000, 10_000), runs=found)


@pytest.mark.parametrize(
    ("trained", "verdict"),
    [(10, Verdict.REPRODUCED), (9, Verdict.REPRODUCED), (5, Verdict.INCONCLUSIVE), (4, Verdict.NOT_REPRODUCED)],
)
def test_nets_train_if_nine_of_ten_do(trained, verdict):
    sketchs, he, *_ = claims(log_of(relu=trained))
    assert (sketchs.verdict, he.verdict) == (verdict, Verdict.REPRODUCED)
    assert claims(log_of(he=trained))[1].verdict == verdict


@pytest.mark.parametrize(
    ("highway", "deep", "shallow", "verdict"),
    [
        (9, 1, 10, Verdict.REPRODUCED),
        (10, 3, 10, Verdict.INCONCLUSIVE),
        (10, 6, 10, Verdict.NOT_REPRODUCED),
        (4, 0, 10, Verdict.NOT_REPRODUCED),
        (10, 0, 4, Verdict.NOT_REPRODUCED),
    ],
)
def test_the_contrast_is_one_of_depth_if_on_all_images_deep_plain_nets_alone_fail(highway, deep, shallow, verdict):
    contrast = claims(log_of(highway=highway, deep=deep, shallow=shallow))[2]
    assert contrast.verdict == verdict
    assert contrast.why == (
        f"On all images, {highway} of 10 highway nets of 4 blocks train and {deep} of 10 plain ones; {shallow} of 10 "
        "plain nets of 2 blocks do. This is of one setting."
    )


@pytest.mark.parametrize(
    ("gates", "verdict"),
    [
        ((EARLY, EARLY, NEARLY), Verdict.REPRODUCED),
        ((LATE, LATE, NEARLY[::-1]), Verdict.NOT_REPRODUCED),
        ((EARLY, LATE, EARLY), Verdict.INCONCLUSIVE),
    ],
)
def test_lower_blocks_are_those_of_the_first_half(gates, verdict):
    log = log_of(few=gates, many=(EARLY, LATE))
    assert len(early_minus_late(mean_gates(log, Config.n_train))) == len(gates), "a net without gates has none"
    of_few, of_many = claims(log)[3:]
    assert (of_few.verdict, of_many.verdict) == (verdict, Verdict.INCONCLUSIVE)


def test_a_net_keeps_the_gates_it_ends_with(digits):
    config = Config(depth=3, hidden=8, epochs=1, n_train=64, n_test=32)
    training = Training(config, digits)
    for _ in training.epochs():
        pass
    seen = training.net.preprocess(training.data.train_x[: sketch.GATE_IMAGES])
    assert sketch.run_config(config, digits).measured == pytest.approx(training.net.gate_means(seen), rel=1e-3)
    assert sketch.run_config(replace(config, block="plain"), digits).measured is None
