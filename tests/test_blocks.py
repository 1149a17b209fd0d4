"""The nets: parameters, the blocks' equations, the cache, prediction, the loss."""

import math
import warnings

import numpy as np
import pytest
from helpers import small_batch, small_net

from highway_lab.cli import InputError
from highway_lab.training import LOSSES, evaluate
from highway_networks import ACTIVATIONS, BLOCKS, DeepNet, Workspace, softmax_cross_entropy

DERIVATIVES = {"tanh": lambda H: 1 - H**2, "relu": lambda H: H > 0, "elu": lambda H: np.where(H > 0, 1, H + 1)}


def loss_and_gradients(net, x, y, workspace=None):
    logits, cache = net.forward(x, workspace)
    loss, dlogits = softmax_cross_entropy(logits, y)
    return loss, net.backward(dlogits, cache).flat.copy()


# ------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("block", "branches", "D"),
    [
        ("plain", "H", 4),
        ("highway", "HT", 4),
        ("highway-uncoupled", "HTC", 4),
        ("residual", "H", 4),
        ("residual-scaled", "H", 4),
        ("lstm", "HIFO", 8),
    ],
)
def test_parameters_and_gradients_have_these_names_and_shapes(block, branches, D):
    """An LSTM block's branches have the units of its cell, half of D; the others' have all."""
    shapes = {"W_in": (D, 5), "b_in": (D,)}
    for branch in branches:
        shapes |= {f"W_{branch}": (3, 4, D), f"b_{branch}": (3, 4)}
    shapes |= {"W_out": (2, D), "b_out": (2,)}
    net = small_net(block, "tanh", 3, d_out=2)
    x, y = small_batch(d_out=2)
    logits, cache = net.forward(x)
    for tensors in (net.params, net.backward(softmax_cross_entropy(logits, y)[1], cache)):
        assert [(name, tensor.shape) for name, tensor in tensors.items()] == list(shapes.items())
        assert tensors.flat.shape == (sum(math.prod(shape) for shape in shapes.values()),)


@pytest.mark.parametrize("block", BLOCKS)
def test_parameters_are_views_that_share_out_the_flat_vector(block):
    """Each entry of the vector belongs to one tensor, and each block's branches, biases last, to one matrix."""
    net = small_net(block, "tanh", 3)
    p, L = net.params, range(3)
    p.flat[...] = np.arange(p.flat.size)
    np.testing.assert_array_equal(np.sort(np.concatenate([tensor.ravel() for tensor in p.values()])), p.flat)
    rows = [[np.c_[p[f"W_{branch}"][l], p[f"b_{branch}"][l]] for branch in net.block.branches] for l in L]
    np.testing.assert_array_equal(p.blocks, [np.concatenate(matrices) for matrices in rows])
    for tensor in p.values():
        tensor[...] = -1
    assert (p.flat == -1).all()


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
    """An uncoupled carry gate starts at the opposite: C = 1 − T, as in the coupled block; so does a forget gate."""
    params = DeepNet(5, 3, depth=3, block=block, gate_bias=-3.5, rng=np.random.default_rng(0)).params
    for name in (name for name in params if name.startswith("b_")):
        assert (params[name] == {"b_T": -3.5, "b_C": 3.5, "b_I": -3.5, "b_F": 3.5}.get(name, 0)).all()


def test_gaussian_weights_are_small_whatever_their_fans():
    net = DeepNet(100, 10, hidden=64, depth=3, init="gaussian", rng=np.random.default_rng(0))
    for name in FAN_IN_AND_OUT:
        assert net.params[name].std() == pytest.approx(0.01, rel=0.1)
        assert np.abs(net.params[name]).max() > 0.025


def test_units_that_a_block_cannot_part_are_refused():
    with pytest.raises(InputError, match="hidden: expected a multiple of 2 units for lstm blocks, found 7; "):
        DeepNet(5, 3, hidden=7, block="lstm", rng=None)


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
        H = np.tanh(p["W_H"][layer] @ x + p["b_H"][layer, :, None])
        T = 1 / (1 + np.exp(-(p["W_T"][layer] @ x + p["b_T"][layer, :, None])))
        np.testing.assert_allclose(cache.H[layer], H, rtol=1e-12)
        np.testing.assert_allclose(cache.T[layer], T, rtol=1e-12)
        np.testing.assert_allclose(cache.x[layer + 1], H * T + x * (1 - T), rtol=1e-12)
    np.testing.assert_allclose(logits.T, p["W_out"] @ cache.x[3] + p["b_out"][:, None], rtol=1e-12)


@pytest.mark.parametrize(("block", "scale"), [("residual", 1), ("residual-scaled", 1 / 3)])
def test_a_residual_block_adds_to_its_input_one_over_the_depth_where_it_is_scaled(block, scale):
    net = small_net(block, "tanh", 3)
    _, cache = net.forward(small_batch()[0])
    for layer in range(3):
        x = cache.x[layer]
        H = np.tanh(net.params["W_H"][layer] @ x + net.params["b_H"][layer, :, None])
        np.testing.assert_allclose(cache.x[layer + 1], x + scale * H, rtol=1e-12)


def test_an_lstm_block_is_an_lstm_along_depth():
    """c' = I·H + F·c and h' = O·tanh c': the cell is the first half of the units, the output the other."""
    net = small_net("lstm", "tanh", 3)
    _, cache = net.forward(small_batch()[0])
    p = net.params
    for layer in range(3):
        x = cache.x[layer]
        H, I, F, O = (p[f"W_{branch}"][layer] @ x + p[f"b_{branch}"][layer, :, None] for branch in "HIFO")
        I, F, O = (1 / (1 + np.exp(-z)) for z in (I, F, O))
        c = I * np.tanh(H) + F * x[:4]
        np.testing.assert_allclose(cache.x[layer + 1], [*c, *(O * np.tanh(c))], rtol=1e-12)


@pytest.mark.parametrize(("z", "H"), [(3.0, 3.0), (0.0, 0.0), (-1.0, 1 / math.e - 1), (-800.0, -1.0)])
def test_an_exponential_linear_unit_bends_at_zero(z, H):
    value = np.array([[z]])
    ACTIVATIONS["elu"].forward(value)
    assert value[0, 0] == pytest.approx(H, rel=1e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_highway_blocks_gradients_are_equation_9(activation):
    """dH = T·dy, dT = (H − x)·dy, dx = (1 − T)·dy; the first two go on through the activation and σ."""
    x, dy, y, dx, scratch = np.random.default_rng(0).standard_normal((5, 4, 7))
    H, T = z = np.random.default_rng(1).standard_normal((2, 4, 7))
    dz = np.empty_like(z)
    BLOCKS["highway"].forward(x, z, y, ACTIVATIONS[activation])
    BLOCKS["highway"].backward(dy, x, z, dz, dx, ACTIVATIONS[activation], scratch)
    np.testing.assert_allclose(dz[0], T * dy * DERIVATIVES[activation](H), rtol=1e-12)
    np.testing.assert_allclose(dz[1], (H - x) * dy * T * (1 - T), rtol=1e-12)
    np.testing.assert_allclose(dx, (1 - T) * dy, rtol=1e-12)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_keep_their_relative_precision_at_very_negative_biases(dtype):
    """A thousand layers want b_T near −20, where T is 2e-9: rounded to 0 it would never learn to open."""
    net = small_net("highway", "tanh", 1, dtype)
    net.params["W_T"][...] = 0
    net.params["b_T"][...] = [-5, -10, -20, -40]
    _, cache = net.forward(small_batch()[0].astype(dtype))
    expected = [1 / (1 + math.exp(-b)) for b in (-5, -10, -20, -40)]
    np.testing.assert_allclose(cache.T[0, :, 0], expected, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("block", BLOCKS)
def test_depth_zero_is_one_plain_layer_and_the_classifier(block):
    net = small_net(block, "tanh", 0)
    x, _ = small_batch()
    p = net.params
    expected = np.tanh(x @ p["W_in"].T + p["b_in"]) @ p["W_out"].T + p["b_out"]
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
    logits, cache = net.forward(x, Workspace(net, len(x)) if own_workspace else None)
    evaluate(net, images, y, LOSSES["cross-entropy"])
    list(net.iterate_blocks(net.embed(-x)))
    net.predict(-x)
    grads = net.backward(softmax_cross_entropy(logits, y)[1], cache)
    np.testing.assert_array_equal(grads.flat, expected)
    np.testing.assert_array_equal(net.params.flat, params)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_workspace_full_of_nan_gives_the_results_of_a_fresh_one(block):
    """Nothing that an earlier pass left behind is read; the rows of ones alone are there for good."""
    net = small_net(block, "tanh", 3)
    x, y = small_batch()
    workspace = Workspace(net, len(x))
    for sign in (1, -1, 1):
        loss, gradients = loss_and_gradients(net, sign * x, y)
        reused_loss, reused_gradients = loss_and_gradients(net, sign * x, y, workspace)
        assert reused_loss == loss
        np.testing.assert_array_equal(reused_gradients, gradients)
        assert (workspace.input[:, -1] == 1).all()
        assert (workspace.x1[:, -1] == 1).all()
        for array in (*arrays_of(workspace), workspace.gradients.flat):
            array[...] = np.nan
        workspace.input[:, -1] = workspace.x1[:, -1] = 1


def arrays_of(workspace: Workspace) -> list[np.ndarray]:
    """Every array that a workspace holds, those of its backward pass included."""
    arrays = [value for value in vars(workspace).values() if isinstance(value, np.ndarray)]
    shared = len(workspace.branches[0]) if len(workspace.branches) else 0  # H, T, ...: views of branches
    assert len(arrays) - shared == 7, "input, x1, x, z, branches, dz, flows: more would not be emptied here"
    return arrays


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_backward_function_writes_before_it_reads(block, activation):
    """What lies in scratch, dz and dx beforehand does not matter, and what belongs to the forward pass stays."""
    (branches, forward, backward, _), activation = BLOCKS[block].for_depth(5), ACTIVATIONS[activation]
    rng = np.random.default_rng(0)
    x, dy, y = rng.standard_normal((3, 4, 7))
    z = rng.standard_normal((len(branches), BLOCKS[block].rows(4) // len(branches), 7))
    forward(x, z, y, activation)
    kept, results = (x.copy(), z.copy(), dy.copy()), []
    for fill in (0, np.nan):
        dz, dx, scratch = np.full_like(z, fill), np.full_like(x, fill), np.full_like(x, fill)
        backward(dy, x, z, dz, dx, activation, scratch)
        results.append((dz, dx))
        for array, before in zip((x, z, dy), kept, strict=True):
            np.testing.assert_array_equal(array, before)
    for from_zeros, from_nan in zip(*results, strict=True):
        np.testing.assert_array_equal(from_nan, from_zeros)
        assert np.isfinite(from_nan).all()


@pytest.mark.parametrize("block", BLOCKS)
def test_a_pass_leaves_the_batch_and_the_parameters_and_the_backward_pass_the_cache_and_can_be_repeated(block):
    net = small_net(block, "relu", 3)
    x, y = small_batch()
    before, inputs = net.params.flat.copy(), x.copy()
    logits, cache = net.forward(x)
    dlogits = softmax_cross_entropy(logits, y)[1]
    kept = cache.x.copy(), cache.z.copy(), dlogits.copy()
    first = net.backward(dlogits, cache).flat.copy()
    pairs = zip((net.params.flat, x, cache.x, cache.z, dlogits), (before, inputs, *kept), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found, expected)
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
    assert cache.x.shape == (5, net.hidden, 7)
    assert {getattr(cache, branch).shape for branch in net.block.branches} == {(4, 4, 7)}
    np.testing.assert_allclose(net.embed(x), cache.x[0], rtol=1e-12)
    for start in range(5):
        x_l = cache.x[start].copy()
        blocks = [(z.copy(), y.copy()) for z, y in net.iterate_blocks(x_l, start)]
        assert len(blocks) == 4 - start
        for layer, (z, y) in enumerate(blocks, start):
            for branch, found in zip(net.block.branches, z, strict=True):
                np.testing.assert_allclose(found, getattr(cache, branch)[layer], rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(y, cache.x[layer + 1], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(net.forward_from(x_l, start), logits, rtol=1e-12)
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


def test_gate_means_are_the_mean_of_T_per_block():
    x, _ = small_batch()
    net = small_net("highway", "tanh", 3)
    _, cache = net.forward(x)
    np.testing.assert_allclose(net.gate_means(x), [T.mean() for T in cache.T], rtol=1e-3)


# ------------------------------------------------------------------------------------- the losses


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


def test_squared_error_is_the_mean_over_samples_and_targets():
    outputs, y = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[1.0, 0, 3], [1, 5, 7]])
    loss, gradient = LOSSES["squared-error"].function(outputs, y)
    assert loss == pytest.approx((4 + 9 + 1) / 6, rel=1e-14)
    np.testing.assert_allclose(gradient, np.array([[0, 4, 0], [6, 0, -2]]) / 6, rtol=1e-14)


def test_r_squared_is_the_mean_over_targets_of_the_variation_explained():
    """A residual of 1 in a total of 2, and of 0 in 8: the mean of 1/2 and 1. A constant target has no such share."""
    r_squared = LOSSES["squared-error"].score
    y = np.array([[0.0, 1], [1, 5], [2, 3]])
    outputs = np.array([[0.0, 1], [1, 5], [1, 3]])
    assert r_squared(outputs, y) == pytest.approx(0.75, rel=1e-14)
    assert r_squared(np.broadcast_to(y.mean(axis=0), y.shape), y) == pytest.approx(0, abs=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(r_squared(outputs, np.array([[0.0, 3], [1, 3], [2, 3]])))
        assert math.isnan(r_squared(np.full((3, 1), 2.0), np.full((3, 1), 2.0)))
