"""The nets: parameters, the blocks' equations, the cache, prediction, the loss."""

import math
import warnings

import numpy as np
import pytest
from helpers import small_batch, small_net

from highway_networks import ACTIVATIONS, BLOCKS, DeepNet, evaluate, softmax_cross_entropy
from run_log import InputError

DERIVATIVES = {"tanh": lambda H: 1 - H**2, "relu": lambda H: (H > 0).astype(H.dtype)}


def loss_and_gradients(net, x, y, workspace=None):
    logits, cache = net.forward(x, workspace)
    loss, dlogits = softmax_cross_entropy(logits, y)
    return loss, net.backward(dlogits, cache).flat.copy()


# ------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("block", "branches"), [("plain", "H"), ("highway", "HT"), ("highway-uncoupled", "HTC"), ("residual", "H")]
)
def test_parameters_and_gradients_have_these_names_shapes_and_order(block, branches):
    shapes = {"W_in": (5, 4), "b_in": (4,)}
    for branch in branches:
        shapes |= {f"W_{branch}": (3, 4, 4), f"b_{branch}": (3, 4)}
    shapes |= {"W_out": (4, 2), "b_out": (2,)}
    net = small_net(block, "tanh", 3, d_out=2)
    x, y = small_batch(d_out=2)
    logits, cache = net.forward(x)
    for tensors in (net.params, net.backward(softmax_cross_entropy(logits, y)[1], cache)):
        assert [(name, tensor.shape) for name, tensor in tensors.items()] == list(shapes.items())
        assert tensors.flat.shape == (sum(math.prod(shape) for shape in shapes.values()),)
        np.testing.assert_array_equal(np.concatenate([tensor.ravel() for tensor in tensors.values()]), tensors.flat)


@pytest.mark.parametrize("block", BLOCKS)
def test_parameters_are_views_into_the_flat_vector(block):
    params = small_net(block, "tanh", 3).params
    params.flat[...] = np.arange(params.flat.size)
    np.testing.assert_array_equal(np.concatenate([tensor.ravel() for tensor in params.values()]), params.flat)
    for tensor in params.values():
        tensor[...] = -1
    assert (params.flat == -1).all()


@pytest.mark.parametrize(
    ("block", "depth", "count"),
    [("highway", 30, 192_760), ("plain", 30, 116_260), ("highway", 0, 39_760), ("plain", 0, 39_760)],
)
def test_parameter_count_of_the_headline_nets(block, depth, count):
    """784·50 + 50, then 50·50 + 50 for each branch of a block (two in highway), then 50·10 + 10."""
    assert DeepNet(784, 10, depth=depth, block=block, rng=np.random.default_rng(0)).params.flat.size == count


FAN_IN_AND_OUT = {"W_in": (100, 64), "W_H": (64, 64), "W_T": (64, 64), "W_out": (64, 10)}


@pytest.mark.parametrize(
    ("init", "bound"),
    [
        ("uniform", lambda fan_in, fan_out: 1 / math.sqrt(fan_in)),
        ("glorot", lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out))),
    ],
)
def test_uniform_weights_fill_the_range_that_their_fans_give(init, bound):
    net = DeepNet(100, 10, hidden=64, depth=3, init=init, rng=np.random.default_rng(0))
    for name, fans in FAN_IN_AND_OUT.items():
        b = np.float32(bound(*fans))
        assert 0.95 * b < net.params[name].max() <= b
        assert -b <= net.params[name].min() < -0.95 * b
        assert abs(net.params[name].mean()) < 0.1 * b


def test_he_weights_are_normal_with_twice_the_inverse_fan_in_as_variance():
    net = DeepNet(100, 10, hidden=64, depth=3, init="he", rng=np.random.default_rng(0))
    for name, (fan_in, _) in FAN_IN_AND_OUT.items():
        assert net.params[name].std() == pytest.approx(math.sqrt(2 / fan_in), rel=0.1)
        assert np.abs(net.params[name]).max() > 2.5 * math.sqrt(2 / fan_in)


@pytest.mark.parametrize("block", BLOCKS)
def test_biases_start_at_zero_and_gates_at_their_bias(block):
    """An uncoupled carry gate starts at the opposite: C = 1 − T, as in the coupled block."""
    params = DeepNet(5, 3, depth=3, block=block, gate_bias=-3.5, rng=np.random.default_rng(0)).params
    for name in (name for name in params if name.startswith("b_")):
        assert (params[name] == {"b_T": -3.5, "b_C": 3.5}.get(name, 0)).all()


def test_the_generator_alone_decides_the_weights():
    first, second, other = (DeepNet(5, 3, depth=2, rng=np.random.default_rng(seed)).params.flat for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.parametrize(("name", "value"), [("block", "brick"), ("activation", "sine"), ("init", "ones")])
def test_an_unknown_block_activation_or_initialisation_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: expected .*, found '{value}'; "):
        DeepNet(5, 3, **{name: value}, rng=np.random.default_rng(0))


# -------------------------------------------------------------------------------------- equations


def test_a_highway_block_is_equation_3():
    net = small_net("highway", "tanh", 3)
    logits, cache = net.forward(small_batch()[0])
    p = net.params
    for layer in range(3):
        x = cache.x[layer]
        H = np.tanh(x @ p["W_H"][layer] + p["b_H"][layer])
        T = 1 / (1 + np.exp(-(x @ p["W_T"][layer] + p["b_T"][layer])))
        np.testing.assert_allclose(cache.H[layer], H, rtol=1e-12)
        np.testing.assert_allclose(cache.T[layer], T, rtol=1e-12)
        np.testing.assert_allclose(cache.x[layer + 1], H * T + x * (1 - T), rtol=1e-12)
    np.testing.assert_allclose(logits, cache.x[3] @ p["W_out"] + p["b_out"], rtol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_highway_blocks_gradients_are_equation_9(activation):
    """dH = T·dy, dT = (H − x)·dy, dx = (1 − T)·dy, then through the two affine maps."""
    net = small_net("highway", activation, 1)
    inputs, y = small_batch()
    logits, cache = net.forward(inputs)
    _, dlogits = softmax_cross_entropy(logits, y)
    grads = net.backward(dlogits, cache)

    p, (x, _), (H,), (T,) = net.params, cache.x, cache.H, cache.T
    dy = dlogits @ p["W_out"].T
    dH, dT, dx = T * dy, (H - x) * dy, (1 - T) * dy
    dz_H, dz_T = dH * DERIVATIVES[activation](H), dT * T * (1 - T)
    dx = dx + dz_H @ p["W_H"][0].T + dz_T @ p["W_T"][0].T
    dz_in = dx * DERIVATIVES[activation](x)
    expected = {
        "W_in": inputs.T @ dz_in,
        "b_in": dz_in.sum(axis=0),
        "W_H": [x.T @ dz_H],
        "b_H": [dz_H.sum(axis=0)],
        "W_T": [x.T @ dz_T],
        "b_T": [dz_T.sum(axis=0)],
    }
    for name, gradient in expected.items():
        np.testing.assert_allclose(grads[name], gradient, rtol=1e-12, atol=1e-16, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_closed_gates_pass_the_input_unchanged(activation, dtype):
    """T = 0 makes a block the identity, to the bit (eq. 5), and no overflow is complained of on the way."""
    net = small_net("highway", activation, 5, dtype)
    net.params["b_T"][...] = -1e4
    x, y = small_batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits, cache = net.forward(x.astype(dtype))
        net.backward(softmax_cross_entropy(logits, y)[1], cache)
        net.predict(x.astype(dtype))
    assert not cache.T.any()
    for layer in range(5):
        np.testing.assert_array_equal(cache.x[layer + 1], cache.x[0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_open_gates_make_a_highway_net_the_plain_net(activation):
    """T = 1 leaves y = H (eq. 5), forward and backward."""
    highway, plain = small_net("highway", activation, 4), small_net("plain", activation, 4)
    highway.params["b_T"][...] = 1e4
    for name, tensor in plain.params.items():
        tensor[...] = highway.params[name]
    x, y = small_batch()
    (logits, cache), (plain_logits, plain_cache) = highway.forward(x), plain.forward(x)
    np.testing.assert_allclose(logits, plain_logits, rtol=1e-12)
    dlogits = softmax_cross_entropy(logits, y)[1]
    grads, plain_grads = highway.backward(dlogits, cache), plain.backward(dlogits, plain_cache)
    for name, gradient in plain_grads.items():
        np.testing.assert_allclose(grads[name], gradient, rtol=1e-10, atol=1e-14, err_msg=name)
    assert not grads["W_T"].any()
    assert not grads["b_T"].any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_uncoupled_block_is_equation_2_and_equals_the_coupled_one_where_c_is_1_minus_t(activation):
    """σ(−z) = 1 − σ(z): with W_C = −W_T and b_C = −b_T both blocks are one."""
    coupled, uncoupled = small_net("highway", activation, 4), small_net("highway-uncoupled", activation, 4)
    for name, tensor in coupled.params.items():
        uncoupled.params[name][...] = tensor
    uncoupled.params["W_C"][...] = -coupled.params["W_T"]
    uncoupled.params["b_C"][...] = -coupled.params["b_T"]
    x, y = small_batch()
    (logits, cache), (coupled_logits, coupled_cache) = uncoupled.forward(x), coupled.forward(x)
    np.testing.assert_allclose(logits, coupled_logits, rtol=1e-12)
    dlogits = softmax_cross_entropy(logits, y)[1]
    grads, coupled_grads = uncoupled.backward(dlogits, cache), coupled.backward(dlogits, coupled_cache)
    np.testing.assert_allclose(grads["W_H"], coupled_grads["W_H"], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(grads["W_T"] - grads["W_C"], coupled_grads["W_T"], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_residual_block_adds_the_plain_ones_output_to_its_input(activation):
    residual = small_net("residual", activation, 2)
    _, cache = residual.forward(small_batch()[0])
    for layer in range(2):
        np.testing.assert_allclose(cache.x[layer + 1], cache.x[layer] + cache.H[layer], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_keep_their_relative_precision_at_very_negative_biases(dtype):
    """A thousand layers want b_T near −20, where T is 2e-9: rounded to 0 it would never learn to open."""
    net = small_net("highway", "tanh", 1, dtype)
    net.params["W_T"][...] = 0
    net.params["b_T"][...] = [-5, -10, -20, -40]
    _, cache = net.forward(small_batch()[0].astype(dtype))
    expected = [1 / (1 + math.exp(-b)) for b in (-5, -10, -20, -40)]
    np.testing.assert_allclose(cache.T[0, 0], expected, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("block", BLOCKS)
def test_depth_zero_is_one_plain_layer_and_the_classifier(block):
    net = small_net(block, "tanh", 0)
    x, _ = small_batch()
    p = net.params
    expected = np.tanh(x @ p["W_in"] + p["b_in"]) @ p["W_out"] + p["b_out"]
    np.testing.assert_allclose(net.forward(x)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_batch_of_one_is_a_row_of_the_batch(block):
    """Logits are computed row by row, and the gradient of a mean loss is the mean of the images' gradients."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    _, expected = loss_and_gradients(net, x, y)
    gradients = []
    for row in range(len(x)):
        one = slice(row, row + 1)
        np.testing.assert_allclose(net.forward(x[one])[0], net.forward(x)[0][one], rtol=1e-12)
        gradients.append(loss_and_gradients(net, x[one], y[one])[1])
    np.testing.assert_allclose(np.mean(gradients, axis=0), expected, rtol=1e-11, atol=1e-15)


# -------------------------------------------------------------------------------------- the cache


@pytest.mark.parametrize("block", BLOCKS)
def test_the_cache_holds_block_inputs_states_and_gates(block):
    net = small_net(block, "tanh", 3)
    _, cache = net.forward(small_batch()[0])
    assert cache.x.shape == (4, 7, 4)
    for branch in net.block.branches:
        assert getattr(cache, branch).shape == (3, 7, 4)


@pytest.mark.parametrize("block", BLOCKS)
def test_two_forward_passes_may_be_alive_at_once(block):
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    _, expected = loss_and_gradients(net, x, y)
    logits, cache = net.forward(x)
    kept = logits.copy()
    other_logits, other_cache = net.forward(-x)
    other_grads = net.backward(softmax_cross_entropy(other_logits, y)[1], other_cache)
    kept_other = other_grads.flat.copy()
    np.testing.assert_array_equal(logits, kept)
    np.testing.assert_array_equal(net.backward(softmax_cross_entropy(logits, y)[1], cache).flat, expected)
    np.testing.assert_array_equal(other_grads.flat, kept_other)


@pytest.mark.parametrize("own_workspace", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_evaluation_between_forward_and_backward_changes_nothing(block, own_workspace):
    net = small_net(block, "tanh", 3, np.float32)
    images = np.random.default_rng(0).integers(0, 256, (7, 5), dtype=np.uint8)
    x, y = small_batch()
    x = x.astype(np.float32)
    _, expected = loss_and_gradients(net, x, y)
    params = net.params.flat.copy()
    logits, cache = net.forward(x, net.workspace(len(x)) if own_workspace else None)
    evaluate(net, images, y)
    net.gate_means(-x)
    net.predict(-x)
    grads = net.backward(softmax_cross_entropy(logits, y)[1], cache)
    np.testing.assert_array_equal(grads.flat, expected)
    np.testing.assert_array_equal(net.params.flat, params)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_reused_workspace_gives_the_results_of_a_fresh_one(block):
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    workspace = net.workspace(len(x))
    for sign in (1, -1, 1):
        loss, gradients = loss_and_gradients(net, sign * x, y)
        reused_loss, reused_gradients = loss_and_gradients(net, sign * x, y, workspace)
        assert reused_loss == loss
        np.testing.assert_array_equal(reused_gradients, gradients)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_workspace_full_of_nan_gives_the_results_of_a_fresh_one(block):
    """Nothing that an earlier pass left behind is read."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    workspace = net.workspace(len(x))
    loss_and_gradients(net, np.full_like(x, np.nan), y, workspace)
    assert np.isnan(workspace.x).all()
    np.testing.assert_array_equal(loss_and_gradients(net, x, y, workspace)[1], loss_and_gradients(net, x, y)[1])


@pytest.mark.parametrize("block", BLOCKS)
def test_a_pass_leaves_the_batch_and_the_parameters_alone(block):
    net = small_net(block, "relu", 3)
    x, y = small_batch()
    params, inputs = net.params.flat.copy(), x.copy()
    loss_and_gradients(net, x, y)
    np.testing.assert_array_equal(net.params.flat, params)
    np.testing.assert_array_equal(x, inputs)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_backward_pass_leaves_the_forward_passs_values_and_can_be_repeated(block):
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    logits, cache = net.forward(x)
    kept = cache.x.copy(), cache.z.copy()
    dlogits = softmax_cross_entropy(logits, y)[1]
    first = net.backward(dlogits, cache).flat.copy()
    np.testing.assert_array_equal(cache.x, kept[0])
    np.testing.assert_array_equal(cache.z, kept[1])
    np.testing.assert_array_equal(net.backward(dlogits, cache).flat, first)


# ------------------------------------------------------------------------------------- prediction


@pytest.mark.parametrize("rows", [0, 1, 2, 511, 512, 513, 1300])
@pytest.mark.parametrize("block", BLOCKS)
def test_predict_equals_the_logits_of_forward_for_any_number_of_rows(block, rows):
    net = small_net(block, "tanh", 3)
    x, _ = small_batch(rows)
    predicted = net.predict(x)
    assert predicted.shape == (rows, 3)
    np.testing.assert_allclose(predicted, net.forward(x)[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_net_can_be_walked_block_by_block_from_any_block_on(block):
    net = small_net(block, "relu", 4)
    x, _ = small_batch()
    logits, cache = net.forward(x)
    np.testing.assert_allclose(net.enter(x), cache.x[0], rtol=1e-12)
    for start in range(5):
        x_l = cache.x[start].copy()
        blocks = [(z.copy(), y.copy()) for z, y in net.walk(x_l, start)]
        assert len(blocks) == 4 - start
        for layer, (z, y) in enumerate(blocks, start):
            np.testing.assert_allclose(z, cache.z[layer], rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(y, cache.x[layer + 1], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(net.predict_from(x_l, start), logits, rtol=1e-12)
        np.testing.assert_array_equal(x_l, cache.x[start])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_array_has_the_nets_precision(dtype):
    net = small_net("highway", "tanh", 2, dtype)
    x, y = small_batch()
    logits, cache = net.forward(x.astype(dtype))
    _, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    arrays = (logits, cache.x, cache.H, cache.T, dlogits, grads.flat, dx, net.predict(x.astype(dtype)))
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def test_gate_means_are_the_mean_of_T_per_block_and_none_without_gates():
    x, _ = small_batch()
    net = small_net("highway", "tanh", 3)
    _, cache = net.forward(x)
    np.testing.assert_allclose(net.gate_means(x), [T.mean() for T in cache.T], rtol=1e-3)
    assert small_net("plain", "tanh", 3).gate_means(x) is None


# --------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_the_loss_of_uniform_logits_is_the_logarithm_of_the_number_of_classes(classes):
    loss, _ = softmax_cross_entropy(np.full((4, classes), 7.5), np.zeros(4, np.uint8))
    assert loss == pytest.approx(math.log(classes), rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_loss_of_extreme_logits_is_finite_and_right(dtype):
    """A right answer at +1e4 costs nothing, a wrong one at −1e4 costs the whole difference."""
    logits = np.array([[1e4, -1e4, 0], [1e4, -1e4, 0], [-1e4, -1e4, -1e4]], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, dlogits = softmax_cross_entropy(logits, np.array([0, 1, 2]))
    assert loss == pytest.approx((0 + 2e4 + math.log(3)) / 3, rel=1e-6)
    np.testing.assert_allclose(dlogits, [[0, 0, 0], [1 / 3, -1 / 3, 0], [1 / 9, 1 / 9, -2 / 9]], atol=1e-7)


def test_the_loss_is_the_mean_over_the_batch_of_the_negative_log_softmax():
    logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
    loss, dlogits = softmax_cross_entropy(logits + np.array([[3], [-8]]), np.array([1, 2]))
    assert loss == pytest.approx(-(math.log(0.25) + math.log(0.7)) / 2, rel=1e-12)
    np.testing.assert_allclose(dlogits, [[0.25, -0.375, 0.125], [0.05, 0.1, -0.15]], rtol=1e-12)
