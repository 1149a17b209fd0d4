"""Nets trained with constant gates: what is frozen, which constants are set, and the rule of the verdict."""

from dataclasses import replace

import made_up
import numpy as np
import pytest

from experiments import constant_gates as cg
from experiments import models
from experiments.claims import ACCURACY_MARGIN
from experiments.constant_gates_figures import claims
from highway_networks import Config, as_inputs

SHORT = Config(depth=3, hidden=8, epochs=2, n_train=300, n_test=50, clip=0.0)


@pytest.fixture
def trained(digits):
    """Train a kind with mean gates of 0.3; returns its training and its parameters before."""

    def train(kind: str) -> tuple[cg.FrozenTraining, dict[str, np.ndarray]]:
        training = cg.FrozenTraining(SHORT, digits)
        cg.prepare(training.net, kind, np.full((3, 8), 0.3))
        before = {name: tensor.copy() for name, tensor in training.net.params.items()}
        for _ in training.epochs():
            pass
        return training, before

    return train


@pytest.mark.parametrize("kind", [kind for kind in cg.KINDS if kind != cg.RESIDUAL])
def test_only_what_a_kind_freezes_stays(trained, kind):
    training, before = trained(kind)
    same = {name for name, tensor in training.net.params.items() if np.array_equal(tensor, before[name])}
    assert same == set(cg.FROZEN.get(kind, ()))


@pytest.mark.parametrize("kind", [cg.LEARNED, cg.MEAN])
def test_constant_gates_do_not_see_the_input(trained, kind, digits):
    training, _ = trained(kind)
    T = training.net.forward(as_inputs(digits.test_x[:20], np.float32))[1].T  # (L, D, B)
    np.testing.assert_array_equal(T, np.broadcast_to(T[:, :, :1], T.shape))
    assert len(np.unique(T)) == (1 if kind == cg.MEAN else T[:, :, 0].size), "each unit has learned its own"
    if kind == cg.MEAN:
        np.testing.assert_allclose(T, 0.3, rtol=1e-5)


def test_mean_gates_are_those_of_the_highway_net_of_the_same_seed(workdir, digits):
    task = cg.Task("a setting", cg.HIGHWAY, SHORT)
    cg.run_task(task, digits)
    net, images = cg.trained_highway(task, digits), cg.FrozenTraining(SHORT, digits).data.train_x
    T = net.forward(as_inputs(images, np.float32))[1].T
    np.testing.assert_allclose(cg.mean_gates(net, images), T.mean(axis=-1), rtol=1e-5)
    kept = cg.run_task(replace(task, kind=cg.MEAN), digits)
    (path,) = models.CHECKPOINTS.iterdir()
    path.unlink()
    alone = cg.run_task(replace(task, kind=cg.MEAN), digits)
    assert alone.history.test_loss == kept.history.test_loss, "a net that is not kept is trained again"
    assert kept.n_params == alone.n_params == net.params.flat.size - 3 * 8 * 9


def test_every_kind_is_trained_in_every_setting_with_every_seed(as_many_as_mnist):
    by_setting = cg.plan("mnist", as_many_as_mnist, smoke=False)
    assert next(iter(by_setting)) == cg.FIRST
    tasks = [task for of_setting in by_setting.values() for task in of_setting]
    assert len(tasks) == len(set(tasks)) == 3 * len(cg.KINDS) * len(models.SEEDS)
    assert {task.config.epochs for task in tasks} == {cg.EPOCHS}
    for task in tasks:
        assert task.config.block == ("residual" if task.kind == cg.RESIDUAL else "highway")


def test_a_shortened_schedule_ends_at_the_same_rate():
    config = replace(SHORT, epochs=60, lr_decay=0.99)
    assert cg.shorten(config, 10).lr_decay ** 10 == pytest.approx(0.99**60)


@pytest.mark.parametrize(
    ("learned", "mean", "noise", "verdict"),
    [
        ([90, 90], [90, 90], 0.05, "reproduced"),
        ([90, 97], [90, 97], 0.05, "partly"),
        ([90, 97], [97, 90], 0.05, "not reproduced"),
        ([97, 97], [90, 90], 1.0, "inconclusive"),
        ([None, None], [None, None], 0.05, "reproduced"),
    ],
)
def test_the_verdict_follows_its_rule(learned, mean, noise, verdict):
    """Accuracy of both kinds of constants in two settings, noise from seed to seed; other kinds have 97 %."""

    def run(gate_bias: float, kind: str, seed: int, score: float | None) -> cg.ConstantGatesRun:
        task = cg.Task("", kind, replace(SHORT, seed=seed, gate_bias=gate_bias))
        return made_up.trained_run(task, [0.1, score and (score + noise * seed) / 100])

    scores = {kind: (97, 97) for kind in cg.KINDS} | {cg.LEARNED: learned, cg.MEAN: mean}
    runs = [
        run(gate_bias, kind, seed, of_kind[place])
        for place, gate_bias in enumerate((-2.0, -4.0))
        for kind, of_kind in scores.items()
        for seed in (0, 1, 2)
    ]
    assert claims(made_up.log(cg.ConstantGatesLog, margin=ACCURACY_MARGIN, runs=runs))[0].verdict == verdict


def test_beside_the_verdict_stands_the_lead_by_pairs_of_one_seed():
    """What seeds share cancels in pairs, in which a diverged net counts as chance."""
    scores = {cg.HIGHWAY: 0.97, cg.LEARNED: 0.95, cg.MEAN: 0.95}
    runs = [
        made_up.trained_run(cg.Task("", kind, replace(SHORT, seed=seed)), [0.1, score - 0.2 * seed])
        for kind, score in scores.items()
        for seed in (0, 1, 2)
    ]
    (claim,) = claims(made_up.log(cg.ConstantGatesLog, margin=ACCURACY_MARGIN, runs=runs))
    assert claim.verdict == "inconclusive"
    assert (
        "Over 3 pairs of nets with the same seed, highway nets lead nets with learned constant gates by 2.00 points"
        in claim.why
    )
    assert "all +2.00 ± 0.00" in claim.measured
    runs[3] = made_up.trained_run(cg.Task("", cg.LEARNED, replace(SHORT, seed=0)), [0.1, None])
    (claim,) = claims(made_up.log(cg.ConstantGatesLog, margin=ACCURACY_MARGIN, runs=runs))
    assert f"by {(87 + 2 + 2) / 3:.2f} points" in claim.why
