"""Adam, momentum and clipping against steps computed by hand."""

import math

import numpy as np
import pytest

from highway_networks import Adam, DeepNet, Momentum, clip_global_norm


def parameters(value=1.0, dtype=np.float64, hidden=1):
    """Parameters that are all `value`."""
    net = DeepNet(1, 1, hidden=hidden, depth=1, block="plain", dtype=dtype, rng=np.random.default_rng(0))
    net.params.flat[...] = value
    return net.params


def steps(optimizer, params, gradients):
    """The parameter after each step, all entries having moved alike."""
    grads = parameters(hidden=params["b_in"].size, dtype=params.flat.dtype)
    places = []
    for gradient in gradients:
        grads.flat[...] = gradient
        optimizer.step(grads)
        assert (params.flat == params.flat[0]).all()
        places.append(params.flat[0])
    return places


def test_adam_takes_the_steps_computed_by_hand():
    """β1 = 1/2, β2 = 3/4, lr = 0.1, gradients 2, −2, 0.

    m = 1, −1/2, −1/4 and v = 1, 7/4, 21/16; without their bias m̂ = 2, −2/3, −2/7 and v̂ = 4, 4, 84/37.
    """
    params = parameters(1.0)
    optimizer = Adam(params, 0.1, beta1=0.5, beta2=0.75, eps=0)
    found = steps(optimizer, params, [2, -2, 0])
    expected = [0.9, 0.9 + 1 / 30, 0.9 + 1 / 30 + 0.1 * (2 / 7) / math.sqrt(84 / 37)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_adam_adds_epsilon_to_the_root_of_the_unbiased_second_moment():
    """m̂ = 2 and √v̂ = 2, so that with ε = 1 the first step is lr · 2/3."""
    params = parameters(1.0)
    found = steps(Adam(params, 0.1, beta1=0.5, beta2=0.75, eps=1), params, [2])
    np.testing.assert_allclose(found, [1 - 0.1 * 2 / 3], rtol=1e-14)


@pytest.mark.parametrize("gradient", [1e-3, 1, -1e3])
def test_adams_first_step_is_the_learning_rate_whatever_the_gradients_size(gradient):
    params = parameters(1.0)
    found = steps(Adam(params, 5e-3), params, [gradient])
    np.testing.assert_allclose(found, [1 - math.copysign(5e-3, gradient)], rtol=1e-6)


def test_adam_stays_where_no_gradient_has_ever_been():
    params = parameters(1.0)
    assert steps(Adam(params, 5e-3), params, [0, 0]) == [1, 1]


@pytest.mark.parametrize(("nesterov", "expected"), [(False, [0.9, 0.75, 0.675]), (True, [0.85, 0.675, 0.6375])])
def test_momentum_takes_the_steps_computed_by_hand(nesterov, expected):
    """μ = 1/2, gradients 1, 2, 0 at rates 0.1, 0.05, 0.025: v = −0.1, −0.15, −0.075; Nesterov steps by v/2 − rate·g."""
    params = parameters(1.0)
    found = steps(Momentum(params, 0.1, momentum=0.5, decay=0.5, nesterov=nesterov), params, [1, 2, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_nesterovs_parameters_are_the_look_ahead_points_of_the_original_formulation():
    """On p²/2, whose gradient is p: v ← μ·v − lr·(q + μ·v), q ← q + v visits q where p = q + μ·v (Sutskever 2013)."""
    params = parameters(1.0)
    optimizer = Momentum(params, 0.1, momentum=0.9, decay=1.0, nesterov=True)
    q, v = 1.0, 0.0
    for _ in range(20):
        (p,) = steps(optimizer, params, [params.flat[0]])
        v = 0.9 * v - 0.1 * (q + 0.9 * v)
        q += v
        assert p == pytest.approx(q + 0.9 * v, rel=1e-12)


@pytest.mark.parametrize(
    "make", [lambda p: Adam(p, 5e-3), lambda p: Momentum(p, 0.1, 0.9, 0.95, nesterov=True)], ids=["adam", "momentum"]
)
def test_every_parameter_of_a_large_net_moves_like_that_of_a_small_one(make):
    """`steps` asserts that all entries move alike: none is missed, none is moved twice."""
    gradients = [1, -2, 0.5]
    small, large = parameters(1.0, np.float32), parameters(1.0, np.float32, hidden=200)
    assert large.flat.size > 40_000
    assert steps(make(large), large, gradients) == steps(make(small), small, gradients)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping_returns_the_norm_before_and_keeps_the_direction(dtype):
    grads = parameters(dtype=dtype)
    direction = np.arange(1, 1 + grads.flat.size, dtype=dtype)
    grads.flat[...] = direction
    norm = math.sqrt(sum(i * i for i in range(1, 1 + direction.size)))
    assert clip_global_norm(grads, 2.0) == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(grads.flat, 2 * direction / norm, rtol=1e-6)


@pytest.mark.parametrize("max_norm", [7.0, 7.5, math.inf])
def test_clipping_leaves_gradients_up_to_the_limit_untouched(max_norm):
    grads = parameters(0.0)
    grads.flat[:3] = 2, 3, 6
    before = grads.flat.copy()
    assert clip_global_norm(grads, max_norm) == 7
    np.testing.assert_array_equal(grads.flat, before)


def test_clipping_gradients_whose_squares_overflow_keeps_their_direction():
    grads = parameters(0.0, np.float32)
    grads.flat[:2] = 3e25, -4e25
    with np.errstate(over="ignore"):
        assert clip_global_norm(grads, 5.0) == pytest.approx(5e25, rel=1e-6)
    np.testing.assert_allclose(grads.flat[:3], [3, -4, 0], rtol=1e-6)
