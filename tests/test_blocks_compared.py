"""Kinds of block side by side: their Jacobians, the gradients' norms, and a rate chosen without test images."""

import math
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import pytest
from helpers import complex_step, relative_error, small_batch, small_net

from experiments.beyond import blocks_compared as bc
from experiments.beyond.blocks_compared_figures import judge_accuracy, judge_gradients
from experiments.claims import Verdict
from experiments.common import final_values
from experiments.rates import best_rates
from highway_networks import ACTIVATIONS, Config, DeepNet, as_inputs, softmax_cross_entropy
from highway_networks import BLOCKS as ALL_BLOCKS

SHORT = Config(depth=2, hidden=8, epochs=2, n_train=100, n_test=50)
TASK = bc.Task("depth", False, SHORT)


@pytest.mark.parametrize("block", ALL_BLOCKS)
@pytest.mark.parametrize("l", [0, 1, 2])
def test_a_jacobian_equals_its_complex_step_derivative(block, l):
    net = small_net(block, "tanh", 3)
    twin = DeepNet(**net.config | {"dtype": np.complex128}, rng=np.random.default_rng(0))
    twin.params.flat[...] = net.params.flat
    _, cache = net.forward(small_batch()[0])
    x = cache.x[l, :, :1].astype(np.complex128)
    expected = np.array(
        [complex_step(lambda i=i: next(twin.iterate_blocks(x, l))[1][i, 0], x[:, 0]) for i in range(net.hidden)]
    )
    found = bc.jacobian(net, cache.x[l, :, 0], l)
    assert np.abs(expected).max() > 0.1
    assert relative_error(found, expected) < 1e-12
    assert relative_error(found, expected.T) > 0.01, "rows and columns could be swapped"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_jacobian_is_the_identity_at_closed_gates_H_prime_at_open_ones(activation):
    """Eq. 5."""
    plain, highway = small_net("plain", activation, 2), small_net("highway", activation, 2)
    for name in ("W_H", "b_H"):
        highway.params[name][...] = plain.params[name]
    highway.params["W_T"][...] = 0
    x = small_batch(d_in=4)[0][0]
    highway.params["b_T"][...] = -1e4
    np.testing.assert_array_equal(bc.jacobian(highway, x, 1), np.eye(4))
    highway.params["b_T"][...] = 1e4
    np.testing.assert_allclose(bc.jacobian(highway, x, 1), bc.jacobian(plain, x, 1), rtol=1e-14)
    assert np.abs(bc.jacobian(plain, x, 1)).max() > 0.1


@pytest.mark.parametrize("block", ALL_BLOCKS)
def test_gradient_norms_are_those_of_the_loss_by_each_blocks_input(block):
    """The last by its definition; all others by the chain rule, one Jacobian an image and block."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    found = bc.gradient_norms(net, x, y)

    logits, cache = net.forward(x)
    dx = softmax_cross_entropy(logits, y)[1] @ net.params["W_out"]  # (B, D)
    expected = [np.linalg.norm(dx)]
    for l in (2, 1, 0):
        dx = np.array([row @ bc.jacobian(net, x_l, l) for row, x_l in zip(dx, cache.x[l].T, strict=True)])
        expected.insert(0, np.linalg.norm(dx))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert expected[-1] > 1e-3


def test_gradient_norms_are_right_where_float32_cannot_hold_a_square(digits):
    x, y = digits.train_x[:20], digits.train_y[:20]
    norms = {}
    for dtype in (np.float32, np.float64):
        net = DeepNet(64, 10, depth=100, block="plain", dtype=dtype, rng=np.random.default_rng(0))
        norms[dtype] = bc.gradient_norms(net, as_inputs(x, dtype), y)
    assert norms[np.float64][0] < 1e-24
    np.testing.assert_allclose(norms[np.float32], norms[np.float64], rtol=1e-3)


def test_the_flow_is_of_the_middle_layer_at_the_first_image():
    net = small_net("highway", "tanh", 3)
    x, y = small_batch()
    _, cache = net.forward(x)
    flow = bc.measure_flow(net, x, y)
    values = np.linalg.svd(bc.jacobian(net, cache.x[1, :, 0], 1), compute_uv=False)
    np.testing.assert_allclose(flow.singular_values, values, rtol=1e-3)
    np.testing.assert_allclose(flow.gradient_norms, bc.gradient_norms(net, x, y), rtol=1e-3)


def test_the_flow_of_a_net_that_diverged_is_null():
    net = small_net("plain", "tanh", 2)
    net.params["W_H"][...] = np.nan
    flow = bc.measure_flow(net, *small_batch())
    assert flow.singular_values == [None] * 4
    assert flow.gradient_norms[0] is None


def test_blocks_have_equal_widths_or_equal_parameters():
    sizes = {}
    for equal, widths in bc.WIDTHS.items():
        assert widths.keys() == set(bc.BLOCKS)
        for block, hidden in widths.items():
            net = DeepNet(784, 10, block=block, hidden=hidden, depth=1, rng=np.random.default_rng(0))
            sizes[equal, block] = net.params.blocks.size
    assert set(bc.WIDTHS["depth"].values()) == {50}
    of_equal = [sizes["parameters", block] for block in bc.BLOCKS]
    assert max(of_equal) / min(of_equal) < 1.015
    assert sizes["parameters", "highway"] == sizes["depth", "highway"]


def test_a_run_has_its_history_and_the_flow_before_and_after(digits):
    run = bc.run_task(TASK, digits)
    assert not run.diverged
    assert run.history.epoch == [0, 1, 2]
    assert run.history.train_loss[2] < run.history.train_loss[0]
    assert run.measured.untrained != run.measured.trained
    for flow in (run.measured.untrained, run.measured.trained):
        assert (len(flow.gradient_norms), len(flow.singular_values)) == (3, 8)
    choosing = bc.run_task(replace(TASK, choosing=True), digits)
    assert choosing.measured is None
    assert choosing.history.test_loss == run.history.test_loss


def test_a_diverged_run_says_so_and_when(digits):
    fields = {"block": "residual", "activation": "relu", "optimizer": "momentum", "lr": 1e9, "clip": 0.0, "epochs": 9}
    run = bc.run_task(replace(TASK, config=replace(SHORT, **fields)), digits)
    assert run.diverged
    assert run.history.train_loss[-1] is None
    assert 1 <= run.history.epoch[-1] < 9
    assert math.isnan(final_values([run], "test_score")[0])


@pytest.mark.slow
def test_it_chooses_on_validation_images_and_measures_on_test_images(digits, workdir):
    assert bc.EXPERIMENT.main(["run", "--smoke"]) == 0
    log = bc.EXPERIMENT.read(Path("runs/blocks_compared-smoke.json"))
    tasks = bc.plan(digits, True)
    tried = [(*run.arm, run.lr, run.seed) for run in log.tried]
    assert tried == [(t.equal, t.config.block, t.config.depth, t.config.lr, t.config.seed) for t in tasks]
    assert {task.config.n_validation for task in tasks} == {42}
    assert [run.task for run in log.runs] == bc.plan(digits, True, best_rates(log.tried))
    assert {(run.config.n_validation, len(run.history.validation_loss)) for run in log.runs} == {(0, 0)}


def run_of(
    block: str, depth: int = 2, *, score: float | None = 0.5, norm: float = 1.0, **flows: bc.Flow
) -> bc.ComparedRun:
    """Return a run of this last test accuracy; `norm`: of dL/dx at its first block, 1 at its last."""
    task, flow = replace(TASK, config=replace(SHORT, block=block, depth=depth)), bc.Flow([norm, 1.0], [1.0])
    return made_up.trained_run(task, [0.1, score], measured=bc.Flows(**{"untrained": flow, "trained": flow} | flows))


@pytest.mark.parametrize(
    ("judge", "field", "highway", "residual", "verdict"),
    [
        (judge_accuracy, "score", (0.9, 0.8), [(0.9, 0.8002), (0.8998, 0.8)], Verdict.REPRODUCED),
        (judge_accuracy, "score", (0.9, 0.8), [(0.9, 0.8002), (0.88, 0.7802)], Verdict.PARTLY),
        (judge_accuracy, "score", (0.9, 0.8), [(0.88, 0.7802), (0.88, 0.7802)], Verdict.NOT_REPRODUCED),
        (judge_gradients, "norm", (10, 0.101), [(1, 1.01), (1, 0.99)], Verdict.REPRODUCED),
        (judge_gradients, "norm", (10, 0.101), [(1, 1.01), (1e3, 1e3)], Verdict.PARTLY),
        (judge_gradients, "norm", (10, 0.101), [(1e-3, 1e-3), (1e3, 1e3)], Verdict.NOT_REPRODUCED),
    ],
)
def test_residual_blocks_are_judged_beside_highway_blocks_at_every_depth(judge, field, highway, residual, verdict):
    runs = []
    for depth, of_depth in zip((2, 4), residual, strict=True):
        runs += [run_of("highway", depth, **{field: value}) for value in highway]
        runs += [run_of("residual", depth, **{field: value}) for value in of_depth]
    assert judge(made_up.log(bc.BlocksComparedLog, tried=[], runs=runs), "residual") == verdict
