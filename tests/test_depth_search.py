"""The depth search: what it draws, what it sees, and its rules at their borders."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers import SOME_ENVIRONMENT, files_below
from picture_helpers import committed_log

from experiments import depth_search as ds
from experiments.claims import Verdict
from experiments.common import load
from experiments.study import Cell, Results, StudyRun, Task
from highway_lab.training import Training
from highway_networks import LOSSES, DeepNet, evaluate

REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, _ = Verdict
SMALL = ds.STUDY.small()


def cell(block: str, layers: int) -> Cell:
    return next(of for of in ds.STUDY.cells if (of.arm, of.depth + 1) == (block, layers))


# ------------------------------------------------------------------------------------------ what is drawn


def test_a_setting_depends_on_nothing_but_its_net_and_index():
    few = replace(ds.STUDY, settings=3, cells=ds.STUDY.cells[2:3])
    assert few.grid(few.cells[0]) == ds.STUDY.grid(few.cells[0])[:3]
    grids = [ds.STUDY.grid(of) for of in ds.STUDY.cells]
    assert len({setting[1:] for grid in grids for setting in grid}) == 8 * ds.SETTINGS, "each is drawn anew"


@pytest.mark.parametrize("of", ds.STUDY.cells, ids=str)
def test_settings_lie_in_the_ranges_and_fill_them(of):
    index, activation, *numbers = zip(*ds.STUDY.grid(of), strict=True)
    assert index == (*range(100),)
    assert 30 < activation.count("tanh") < 70
    lr, momentum, decay = map(np.array, numbers[:3])
    scales = {"lr": lr, "1 - momentum": 1 - momentum, "last rate": decay**39}
    for name, values in scales.items():
        low, high = np.log(ds.SPACE[name])
        share = (np.log(values) - low) / (high - low)  # of a range on a logarithmic scale
        assert -1e-3 < share.min() < 0.1
        assert 0.9 < share.max() < 1.001
        assert 0.4 < share.mean() < 0.6
    if of.arm == "highway":
        assert -10 <= min(numbers[3]) < -9
        assert -2 < max(numbers[3]) <= -1


@pytest.mark.parametrize(("block", "layers"), [*product(ds.UNITS, ds.LAYERS)])
def test_a_net_has_the_papers_depth_width_and_initialisation(digits, block, layers):
    """One plain layer, then blocks: 50 wide highway, 71 wide plain, about 5,000 parameters each."""
    of = cell(block, layers)
    for setting in ds.STUDY.grid(of)[:20]:
        config = ds.STUDY.task(of, ds.STUDY.stages[0], setting, 0).config
        assert (config.block, config.depth, config.hidden) == (block, layers - 1, {"plain": 71, "highway": 50}[block])
        assert config.init == {"tanh": "glorot", "relu": "he"}[config.activation]
        assert (config.optimizer, config.nesterov, config.clip, config.seed) == ("momentum", False, 0.0, setting[0])
        again = ds.STUDY.task(of, ds.STUDY.stages[3], setting, 2).config
        assert again == replace(config, epochs=40, seed=setting[0] + 2 * ds.REPEAT)
    net = Training(replace(config, n_train=100, n_test=50), digits).net
    in_and_out = 64 * config.hidden + config.hidden + config.hidden * 10 + 10
    assert (net.params.flat.size - in_and_out) / (layers - 1) == pytest.approx(5_100, rel=0.01)


def test_a_longer_training_ends_at_the_same_rate():
    of = cell("highway", 50)
    setting = ds.STUDY.grid(of)[7]
    for stage in ds.STUDY.stages:
        config, steps = ds.STUDY.task(of, stage, setting, 1).config, 469
        whole = stage.epochs if stage.epochs > 40 else 40
        assert config.lr_decay ** (steps * (whole - 1)) == pytest.approx(setting[4] ** 39, rel=1e-6)


# -------------------------------------------------------------------------------------------- what it sees


def small_task(result: bool = False, **changed) -> Task:
    of = SMALL.cells[1]
    task = SMALL.task(of, SMALL.stages[3 if result else 0], SMALL.grid(of)[0], 100)
    return replace(task, config=replace(task.config, **changed))


def test_no_test_image_has_a_say(digits):
    """Other test images change nothing by which a setting is chosen."""
    noise = digits._replace(test_x=255 - digits.test_x, test_y=digits.test_y[::-1])
    runs = [ds.train(small_task(lr=0.05, epochs=2), data) for data in (digits, noise)]
    assert runs[0].history == runs[1].history
    assert runs[0].measured.lowest_loss == runs[1].measured.lowest_loss == min(runs[0].history["batch_loss"][1:])
    assert runs[0].measured.score is None


def test_a_run_that_diverges_counts_last_whatever_it_reached(digits):
    run = ds.train(small_task(result=True, activation="relu", init="he", lr=1e9, epochs=5), digits)
    assert run.diverged
    assert (run.measured.score, run.history["train_loss"][-1]) == (None, None)
    good = replace(run, diverged=False, history={}, measured=replace(run.measured, lowest_loss=2.0))
    lost = replace(good, diverged=True, measured=replace(run.measured, lowest_loss=1e-3))
    never = replace(lost, measured=replace(run.measured, lowest_loss=None))
    assert sorted((never, lost, good), key=ds.STUDY.criteria["lowest loss"]) == [good, lost, never]


def test_the_best_deep_highway_nets_are_saved(digits, workdir, monkeypatch):
    """That of the lowest loss: trained again, it reaches what its log says."""
    monkeypatch.setattr(ds, "KEPT", {10: Path("models/highway-10.npz")})
    runs = []
    while tasks := Results(SMALL, runs).next_tasks():
        runs += [ds.train(task, digits) for task in tasks]
    results = Results(SMALL, runs)
    ds.finish(digits, results)
    best = min(ds.runs_of(results, "scored")["highway", 10], key=ds.lowest_loss)
    net, samples = DeepNet.load("models/highway-10.npz"), Training(best.config, digits).data
    loss, _ = evaluate(net, samples.train_x, samples.train_y, LOSSES["cross-entropy"])
    assert loss == pytest.approx(best.history["train_loss"][-1], rel=1e-5)
    Path("models/highway-10.npz").write_bytes(b"another")
    ds.finish(digits, results)
    assert files_below(workdir) == {"models/highway-10.npz": b"another"}, "a net that is there stays"


def test_the_saved_nets_are_those_of_the_committed_log(digits):
    log = load("depth_search").read(committed_log("runs/depth_search.json"))
    results = Results(ds.STUDY, log.runs)
    for layers, path in ds.KEPT.items():
        config, net = ds.best_run(results, layers).config, DeepNet.load(committed_log(path))
        shared = ("block", "depth", "hidden", "activation", "gate_bias")
        assert {name: net.config[name] for name in shared} == {name: getattr(config, name) for name in shared}


# ------------------------------------------------------------------------------- the rules at their borders

SPREAD = (0.98, 1.0, 1.02)  # by which the seeds of a net differ
PAPER = {  # losses as the paper has them, in what matters
    **{("plain", layers): loss for layers, loss in zip(ds.LAYERS, (5e-5, 8e-5, 5e-4, 1.0), strict=True)},
    **{("highway", layers): 6e-5 for layers in ds.LAYERS},
}
FEW = replace(ds.STUDY, settings=6)
Change = Callable[[StudyRun, tuple[str, int], int], None]


@cache
def tasks() -> list[Task]:
    """All runs of a small search in which settings of a higher index do worse."""
    runs = []
    while tasks := Results(FEW, runs).next_tasks(10**6):
        runs += [StudyRun(SOME_ENVIRONMENT, of, 1, False, {}, ds.Found(1 + of.setting[0], 0.97, 1.0)) for of in tasks]
    return [run.task for run in runs]


def judged(losses: dict = PAPER, new: dict | tuple = (), change: Change = lambda *_: None) -> dict:
    """Return the numbers of a search whose nets reach these losses; those of new seeds apart.

    change: changes a run, given its net and the number of its seed
    """
    losses, runs = PAPER | losses, []
    for task in tasks():
        net, seed = (task.cell.arm, task.cell.depth + 1), task.config.seed // ds.REPEAT
        loss = (losses | dict(new) if task.result == "new seeds" else losses)[net]
        loss *= SPREAD[seed % 3] if seed else 1 + task.setting[0] / 100
        late = task.config.epochs * {"plain": 6, "highway": 4}[net[0]] // 9  # epochs without progress
        history = {"train_loss": [2.3] * (1 + late) + [loss] * (task.config.epochs - late)}
        runs.append(StudyRun(SOME_ENVIRONMENT, task, 1, False, history, ds.Found(loss, 0.97 + 1e-5 * seed, 1.0)))
        change(runs[-1], net, seed)
    return ds.numbers(Results(FEW, runs))


def diverge(run: StudyRun, loss: float = 1.0) -> None:
    run.diverged, run.measured.lowest_loss, run.measured.score = True, loss, None


def test_the_papers_own_losses_reproduce_all_its_claims():
    assert {*judged()["verdict"].values()} == {REPRODUCED}


PLAIN_ALIKE = {("plain", layers): 1e-4 for layers in ds.LAYERS}
HIGHWAY_WORSE = {("highway", 50): 1e-3, ("highway", 100): 1e-3}


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({("plain", 10): 2e-4, ("plain", 20): 3e-4}, "level", NOT_REPRODUCED),
        ({("plain", 20): 3e-4}, "level", PARTLY),
        ({("plain", 50): 1e-6}, "degrade", REPRODUCED),  # the deepest are compared with the shallow
        ({("plain", 100): 7e-5}, "degrade", NOT_REPRODUCED),
        ({("highway", layers): 2.3 for layers in ds.LAYERS}, "like", INCONCLUSIVE),  # alike, as none has learned
        ({("highway", 20): 6e-7}, "like", INCONCLUSIVE),
        (HIGHWAY_WORSE, "like", NOT_REPRODUCED),
        (dict.fromkeys(HIGHWAY_WORSE, 1e-5), "like", NOT_REPRODUCED),  # better by more than the margin is not alike
        (HIGHWAY_WORSE, "top", PARTLY),
        (PLAIN_ALIKE | HIGHWAY_WORSE, "top", NOT_REPRODUCED),
        ({("plain", 100): 1e-3}, "orders", NOT_REPRODUCED),
        ({("highway", layers): 1e3 for layers in ds.LAYERS}, "faster", NOT_REPRODUCED),
        ({("highway", 100): 1e3}, "faster", PARTLY),
    ],
)
def test_other_losses_give_other_verdicts(changes, claim, verdict):
    assert judged(changes)["verdict"][claim] == verdict


@pytest.mark.parametrize(("old", "new", "verdict"), [(HIGHWAY_WORSE, {}, 1), ({}, HIGHWAY_WORSE, 0)])
def test_new_seeds_alone_tell_whether_deep_highway_nets_perform_alike(old, new, verdict):
    alike = {net: 6e-5 for net in HIGHWAY_WORSE} | new
    assert judged(old, alike)["verdict"]["like"] == (REPRODUCED if verdict else NOT_REPRODUCED)


@pytest.mark.parametrize(("lost", "verdict"), [(0, REPRODUCED), (1, PARTLY), (2, PARTLY)])
def test_the_lead_is_judged_without_diverged_runs_and_with_them(lost, verdict):
    """Of a single seed, so many of the two settings diverge."""
    left = [lost]

    def change(run: StudyRun, net: tuple[str, int], seed: int) -> None:
        if run.task.result == "long" and net == ("highway", 100) and seed == 1 and left[0]:
            left[0] -= 1
            diverge(run)

    found = judged(change=change)
    assert found["verdict"]["orders"] == verdict
    assert found["diverged"]["highway", 100] == lost
    assert np.log10(found["higher"]["finished"]) == pytest.approx(4.22, abs=0.01)
    assert (found["higher"]["all"] < found["higher"]["finished"] / 2) == (lost > 0)


def test_runs_at_chance_count_as_guesses_like_those_that_diverge():
    def change(run: StudyRun, net: tuple[str, int], seed: int) -> None:
        if run.task.result == "long" and seed == 1 and net[1] == 100:
            run.measured.score = 0.1

    found = judged(change=change)
    assert found["at_chance"] == {net: 2 * (net[1] == 100) for net in PAPER}
    assert found["higher"]["guesses"] < found["higher"]["all"]
