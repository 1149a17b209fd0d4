"""Adam, momentum and clipping against steps computed by hand."""

import math
from functools import partial

import numpy as np
import pytest

from highway_networks import Adam, DeepNet, Momentum, clip_global_norm


def parameters(value=1.0, dtype=np.float64, hidden=1):
    """Return parameters that are all `value`."""
    params = DeepNet(1, 1, hidden=hidden, depth=1, block="plain", dtype=dtype, rng=None).params
    params.flat[...] = value
    return params


def steps(make, gradients, **of_net):
    """Return the value of all parameters after each step, from 1 on."""
    params, grads = parameters(**of_net), parameters(**of_net)
    optimizer, values = make(params), []
    for gradient in gradients:
        grads.flat[...] = gradient
        optimizer.step(grads)
        assert (params.flat == params.flat[0]).all(), "some entries moved otherwise"
        values.append(params.flat[0])
    return values


by_halves = partial(Adam, lr=0.1, beta1=0.5, beta2=0.75)


@pytest.mark.parametrize(
    ("make", "gradients", "expected"),
    [
        # m = 1, −1/2, −1/4 and v = 1, 7/4, 21/16; without their bias m̂ = 2, −2/3, −2/7 and v̂ = 4, 4, 84/37
        (partial(by_halves, eps=0), [2, -2, 0], [0.9, 0.9 + 1 / 30, 0.9 + 1 / 30 + 0.2 / 7 / math.sqrt(84 / 37)]),
        (partial(by_halves, eps=1), [2], [1 - 0.1 * 2 / 3]),  # ε is added to √v̂ = 2
        (partial(Adam, lr=5e-3), [0, 0], [1, 1]),
        # rates 0.1, 0.05, 0.025: v = −0.1, −0.15, −0.075; Nesterov steps by v/2 − rate·g
        (partial(Momentum, lr=0.1, momentum=0.5, decay=0.5), [1, 2, 0], [0.9, 0.75, 0.675]),
        (partial(Momentum, lr=0.1, momentum=0.5, decay=0.5, nesterov=True), [1, 2, 0], [0.85, 0.675, 0.6375]),
    ],
    ids=["adam", "adam, epsilon", "adam, no gradient", "momentum", "nesterov"],
)
def test_steps_are_those_computed_by_hand(make, gradients, expected):
    np.testing.assert_allclose(steps(make, gradients), expected, rtol=1e-14)


@pytest.mark.parametrize("gradient", [1e-3, 1, -1e3])
def test_adams_first_step_is_the_learning_rate_for_any_gradient(gradient):
    found = steps(partial(Adam, lr=5e-3), [gradient])
    np.testing.assert_allclose(found, [1 - math.copysign(5e-3, gradient)], rtol=1e-6)


def test_nesterovs_parameters_are_the_look_ahead_points_of_the_paper():
    """On p²/2, whose gradient is p: v ← μ·v − lr·(q + μ·v), q ← q + v visits q where p = q + μ·v (Sutskever 2013)."""
    params, grads = parameters(), parameters()
    optimizer = Momentum(params, 0.1, momentum=0.9, decay=1.0, nesterov=True)
    q, v = 1.0, 0.0
    for _ in range(20):
        grads.flat[...] = params.flat
        optimizer.step(grads)
        v = 0.9 * v - 0.1 * (q + 0.9 * v)
        q += v
        np.testing.assert_allclose(params.flat, q + 0.9 * v, rtol=1e-12)


@pytest.mark.parametrize("make", [partial(Adam, lr=5e-3), partial(Momentum, lr=0.1, momentum=0.9, decay=0.95)])
def test_every_parameter_of_a_large_net_moves_like_that_of_a_small_one(make):
    """`steps` asserts that all entries move alike: none is missed, none is moved twice."""
    assert parameters(hidden=200).flat.size > 40_000
    small, large = (steps(make, [1, -2, 0.5], dtype=np.float32, hidden=hidden) for hidden in (1, 200))
    assert large == small


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping_returns_the_norm_before_and_keeps_the_direction(dtype):
    grads = parameters(dtype=dtype)
    grads.flat[...] = direction = np.arange(1, 1 + grads.flat.size, dtype=dtype)
    norm = math.sqrt(sum(i * i for i in range(1, 1 + direction.size)))
    assert clip_global_norm(grads, 2.0) == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(grads.flat, 2 * direction / norm, rtol=1e-6)


@pytest.mark.parametrize("max_norm", [7.0, 7.5, math.inf])
def test_clipping_leaves_gradients_up_to_the_limit_untouched(max_norm):
    grads = parameters(0.0)
    grads.flat[:3] = 2, 3, 6
    assert clip_global_norm(grads, max_norm) == 7
    assert grads.flat[:4].tolist() == [2, 3, 6, 0]
