"""Kinds of block side by side: their Jacobians, the gradients' norms, and a rate chosen without test images."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from helpers import complex_step, relative_error, small_batch, small_net

from experiments.beyond.blocks_compared import (
    BLOCKS,
    CHOOSING_SEEDS,
    DEPTHS,
    EXPERIMENT,
    GATE_BIAS,
    RATES,
    SEEDS,
    WIDTHS,
    BlocksComparedLog,
    ComparedRun,
    Flow,
    Task,
    arm,
    gradient_norms,
    jacobian,
    measure_flow,
    plan,
    run_task,
)
from experiments.beyond.blocks_compared_figures import edges, flow_table
from experiments.common import final_values
from experiments.rates import best_rates, tried_rates
from highway_lab.datasets import as_inputs
from highway_lab.logs import History
from highway_networks import ACTIVATIONS, Config, DeepNet, softmax_cross_entropy
from highway_networks import BLOCKS as ALL_BLOCKS

SHORT = Config(depth=2, hidden=8, epochs=2, n_train=100, n_test=50)
TASK = Task("depth", False, SHORT)


# ------------------------------------------------------------------------------------------- gradients


def complex_twin(net: DeepNet) -> DeepNet:
    """The same net in complex numbers."""
    twin = DeepNet(**net.config | {"dtype": np.complex128}, rng=np.random.default_rng(0))
    twin.params.flat[...] = net.params.flat
    return twin


@pytest.mark.parametrize("block", ALL_BLOCKS)
@pytest.mark.parametrize("l", [0, 1, 2])
def test_a_jacobian_equals_its_complex_step_derivative(block, l):
    net = small_net(block, "tanh", 3)
    inputs, _ = small_batch()
    _, cache = net.forward(inputs)
    twin, x = complex_twin(net), cache.x[l, :, :1].astype(np.complex128)
    expected = np.array(
        [complex_step(lambda i=i: next(twin.iterate_blocks(x, l))[1][i, 0], x[:, 0]) for i in range(net.hidden)]
    )

    found = jacobian(net, cache.x[l, :, 0], l)
    assert np.abs(expected).max() > 0.1
    assert relative_error(found, expected) < 1e-12
    assert relative_error(found, expected.T) > 0.01, "rows and columns could be swapped"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_jacobian_is_the_identity_where_gates_are_shut_and_H_prime_where_they_are_open(activation):
    """Eq. 5."""
    plain, highway = small_net("plain", activation, 2), small_net("highway", activation, 2)
    for name in ("W_H", "b_H"):
        highway.params[name][...] = plain.params[name]
    highway.params["W_T"][...] = 0
    x = small_batch(d_in=4)[0][0]
    highway.params["b_T"][...] = -1e4
    np.testing.assert_array_equal(jacobian(highway, x, 1), np.eye(4))
    highway.params["b_T"][...] = 1e4
    np.testing.assert_allclose(jacobian(highway, x, 1), jacobian(plain, x, 1), rtol=1e-14)
    assert np.abs(jacobian(plain, x, 1)).max() > 0.1


@pytest.mark.parametrize("block", ALL_BLOCKS)
def test_gradient_norms_are_those_of_the_loss_by_each_blocks_input(block):
    """The last by its definition; all others by the chain rule, one Jacobian an image and block."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    found = gradient_norms(net, x, y)

    logits, cache = net.forward(x)
    dx = softmax_cross_entropy(logits, y)[1] @ net.params["W_out"]  # (B, D)
    expected = [np.linalg.norm(dx)]
    for l in (2, 1, 0):
        dx = np.array([row @ jacobian(net, x_l, l) for row, x_l in zip(dx, cache.x[l].T, strict=True)])
        expected.insert(0, np.linalg.norm(dx))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert expected[-1] > 1e-3


def test_gradient_norms_are_true_where_float32_can_hold_the_gradient_but_not_its_square(digits):
    x, y = digits.train_x[:20], digits.train_y[:20]
    norms = {}
    for dtype in (np.float32, np.float64):
        net = DeepNet(64, 10, depth=100, block="plain", dtype=dtype, rng=np.random.default_rng(0))
        norms[dtype] = gradient_norms(net, as_inputs(x, dtype), y)
    assert norms[np.float64][0] < 1e-24
    np.testing.assert_allclose(norms[np.float32], norms[np.float64], rtol=1e-3)


def test_the_flow_is_of_the_middle_layer_at_the_first_image():
    net = small_net("highway", "tanh", 3)
    x, y = small_batch()
    _, cache = net.forward(x)
    flow = measure_flow(net, x, y)
    values = np.linalg.svd(jacobian(net, cache.x[1, :, 0], 1), compute_uv=False)
    np.testing.assert_allclose(flow.singular_values, values, rtol=1e-3)
    np.testing.assert_allclose(flow.gradient_norms, gradient_norms(net, x, y), rtol=1e-3)


def test_the_flow_of_a_net_that_diverged_is_null():
    net = small_net("plain", "tanh", 2)
    net.params["W_H"][...] = np.nan
    flow = measure_flow(net, *small_batch())
    assert flow.singular_values == [None] * 4
    assert flow.gradient_norms[0] is None


# --------------------------------------------------------------------------------------- what is compared


def test_blocks_have_equal_widths_or_equal_parameters():
    assert set(BLOCKS) == set(ALL_BLOCKS)
    sizes = {}
    for equal, widths in WIDTHS.items():
        assert widths.keys() == set(BLOCKS)
        for block, hidden in widths.items():
            net = DeepNet(784, 10, block=block, hidden=hidden, depth=1, rng=np.random.default_rng(0))
            sizes[equal, block] = net.params.blocks.size
    assert set(WIDTHS["depth"].values()) == {50}
    equal = [sizes["parameters", block] for block in BLOCKS]
    assert max(equal) / min(equal) < 1.015
    assert sizes["parameters", "highway"] == sizes["depth", "highway"]


def test_a_rate_is_chosen_for_each_arm_by_seeds_that_then_do_not_measure(as_many_as_mnist):
    assert not set(CHOOSING_SEEDS) & set(SEEDS)
    choosing = plan(as_many_as_mnist, smoke=False)
    found = {(t.equal, t.config.block, t.config.depth, t.config.seed, t.config.lr) for t in choosing}
    expected = {
        (equal, block, depth, seed, lr)
        for equal in WIDTHS
        for block in BLOCKS
        for depth in DEPTHS
        for seed in CHOOSING_SEEDS
        for lr in RATES
    }
    assert found == expected
    assert len(choosing) == len(expected)
    assert all(task.choosing and task.config.hidden == WIDTHS[task.equal][task.config.block] for task in choosing)

    rates = {arm[:3]: 1e-4 * (1 + i) for i, arm in enumerate(sorted({arm[:3] for arm in expected}))}
    measuring = plan(as_many_as_mnist, smoke=False, rates=rates)
    assert len(measuring) == len(rates) * len(SEEDS)
    assert {task.config.seed for task in measuring} == set(SEEDS)
    for task in measuring:
        assert not task.choosing
        assert task.config.lr == rates[task.equal, task.config.block, task.config.depth]
    beside_the_rate = {
        dataclasses.replace(t.config, lr=1.0, seed=0, block="plain", depth=1, hidden=1, gate_bias=0.0)
        for t in choosing + measuring
    }
    assert len(beside_the_rate) == 2, "all else is equal among those that choose, and among the others"
    assert {config.init for config in beside_the_rate} == {"glorot"}
    for task in choosing + measuring:
        if "highway" in task.config.block or task.config.block == "lstm":
            assert task.config.gate_bias == GATE_BIAS[task.config.depth]
    budgets = {(c.n_train, c.n_validation, c.n_test, c.epochs) for c in beside_the_rate}
    assert budgets == {(6_000, 0, 10_000, 12), (5_000, 1_000, 1, 12)}


# -------------------------------------------------------------------------------- how the rate is chosen


def made_up(block: str, lr: float, seed: int, loss: float | None, equal: str = "depth") -> ComparedRun:
    config = dataclasses.replace(SHORT, block=block, lr=lr, seed=seed)
    history = History(*([0, 2] for _ in range(7)), validation_loss=[2.3, loss], validation_score=[0.1, 0.9])
    return ComparedRun(None, Task(equal, True, config), 100, loss is None, history, Flow([], []), Flow([], []))


def test_the_chosen_rate_has_the_lowest_mean_validation_loss_of_its_arm():
    runs = [
        *(made_up("plain", 0.001, seed, loss) for seed, loss in ((100, 0.5), (101, 0.7))),
        *(made_up("plain", 0.002, seed, loss) for seed, loss in ((100, 0.1), (101, None))),
        *(made_up("plain", 0.005, seed, loss) for seed, loss in ((100, 0.4), (101, 0.9))),
        *(made_up("highway", 0.001, seed, loss) for seed, loss in ((100, 0.5), (101, 0.7))),
        *(made_up("highway", 0.002, seed, loss) for seed, loss in ((100, 0.1), (101, 1.0))),
        *(made_up("plain", lr, 100, loss, "parameters") for lr, loss in ((0.001, 0.4), (0.005, 0.3))),
    ]
    assert best_rates(tried_rates(runs, arm)) == {
        ("depth", "plain", 2): 0.001,
        ("depth", "highway", 2): 0.002,
        ("parameters", "plain", 2): 0.005,
    }


# ------------------------------------------------------------------------------------------ what is run


def test_a_run_has_its_history_and_the_flow_before_and_after(digits):
    run = run_task(TASK, digits)
    assert run.history.epoch == [0, 1, 2]
    assert run.history.train_loss[2] < run.history.train_loss[0]
    assert run.history.grad_norm[0] is None
    assert run.history.seconds[1] > 0
    assert not run.diverged
    for flow in (run.untrained, run.trained):
        assert len(flow.gradient_norms) == 3
        assert len(flow.singular_values) == 8
    assert run.untrained != run.trained
    choosing = run_task(dataclasses.replace(TASK, choosing=True), digits)
    assert choosing.untrained == choosing.trained == Flow([], [])
    assert choosing.history.test_loss == run.history.test_loss


def test_a_diverged_run_says_so_and_when(digits):
    config = dataclasses.replace(
        SHORT, block="residual", activation="relu", optimizer="momentum", lr=1e9, clip=0.0, epochs=9
    )
    run = run_task(Task("depth", False, config), digits)
    assert run.diverged
    assert run.history.train_loss[-1] is None
    assert 1 <= run.history.epoch[-1] < 9
    assert math.isnan(final_values([run], "test_score")[0])


def test_the_whole_experiment_chooses_on_validation_images_and_measures_on_test_images(digits, workdir):
    assert EXPERIMENT.main(["run", "--smoke"]) == 0
    log = EXPERIMENT.read(Path("runs/blocks_compared-smoke.json"))
    tasks = plan(digits, True)
    assert [(run.arm[1:], run.lr, run.seed) for run in log.tried] == [
        ((task.config.block, task.config.depth), task.config.lr, task.config.seed) for task in tasks
    ]
    assert {task.config.n_validation for task in tasks} == {85}
    assert [run.task for run in log.runs] == plan(digits, True, best_rates(log.tried))
    assert {(run.config.n_validation, len(run.history.validation_loss)) for run in log.runs} == {(0, 0)}


def test_no_test_image_has_a_say_in_the_choice(digits):
    noise = digits._replace(test_x=255 - digits.test_x[::-1])
    task = plan(digits, smoke=True)[0]
    losses = [run_task(task, data).history.validation_loss for data in (digits, noise)]
    assert losses[0] == losses[1]


def test_a_table_tells_how_gradients_grow_on_their_way_back():
    """100-fold and, in one of two seeds, not at all; a net that diverged and a gradient that is lost have no say."""
    plain, lost = made_up("plain", 0.001, 0, 0.1), made_up("highway", 0.001, 0, 0.1)
    grown = dataclasses.replace(plain, trained=Flow([5.0, 1.0, 0.05], [1.5, 0.5]), untrained=Flow([2.0, 2.0], [1.0]))
    same = dataclasses.replace(plain, trained=Flow([0.05, 0.05], [1.25, 0.25]), untrained=Flow([2.0, 2.0], [1.0]))
    diverged = dataclasses.replace(plain, diverged=True, trained=Flow([None, None], [None]))
    lost = dataclasses.replace(lost, trained=Flow([0.0, 1.0], [None]), untrained=Flow([0.2, 2.0], [0.5]))
    log = BlocksComparedLog.new("made up", None, tried=[], runs=[grown, same, diverged, lost])
    table = flow_table(log)
    assert "| plain | 0.00 ± 0.00 | 1 to 1 | 1.00 ± 1.41 | 0.25 to 1.5 |" in table
    assert "| highway | -1.00 | 0.5 to 0.5 | none | none |" in table


def test_arms_that_choose_near_an_end_of_the_grid_are_named(digits):
    def run(block: str, lr: float) -> ComparedRun:
        return made_up(block, lr, 0, 0.1)

    tried = tried_rates([run("plain", lr) for lr in RATES], arm)
    log = BlocksComparedLog.new("made up", None, tried=tried, runs=[run("plain", RATES[1]), run("highway", RATES[2])])
    assert edges(log) == "Rates from 2e-05 to 0.05; chosen nearer than 2 steps to an end: plain 2 (all 50 wide)."
