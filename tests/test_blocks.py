"""The nets: parameters, the blocks' equations, the cache, prediction, the loss."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from helpers import (
    CONV_BLOCKS,
    SMALL_SHAPE,
    SMALL_STAGES,
    refused_with,
    small_batch,
    small_conv_net,
    small_images,
    small_net,
    swapped,
    swapped_block,
)
from scipy.special import expit

from conv_highway_networks import ConvNet
from experiments.blocks import make_known, numbered
from highway_estimators import huber, pinball  # and its losses in the table
from highway_lab.nets import without
from highway_networks import ACTIVATIONS, BLOCKS, INITS, LOSSES, DeepNet, Workspace, evaluate, softmax_cross_entropy

every_block = pytest.mark.parametrize("block", BLOCKS)
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
every_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def backward(net, logits, cache, y):
    return net.backward(softmax_cross_entropy(logits, y)[1], cache)


def gradients(net, x, y, workspace=None):
    """Return a copy of the flat gradient of a batch's loss."""
    return backward(net, *net.forward(x, workspace), y).flat.copy()


# ------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("block", "branches", "D"),
    [
        *(("plain", "H", 4), ("highway", "HT", 4), ("highway-uncoupled", "HTC", 4)),
        *(("residual", "H", 4), ("residual-scaled", "H", 4), ("lstm", "HIFO", 8)),
    ],
)
def test_parameters_and_gradients_have_these_names_and_shapes(block, branches, D):
    """A branch has D units, in an LSTM block half of them."""
    shapes = {"W_in": (D, 5), "b_in": (D,)}
    for branch in branches:
        shapes |= {f"W_{branch}": (3, 4, D), f"b_{branch}": (3, 4)}
    shapes |= {"W_out": (2, D), "b_out": (2,)}
    net = small_net(block, "tanh", 3, d_out=2)
    x, y = small_batch(d_out=2)
    for tensors in (net.params, backward(net, *net.forward(x), y)):
        assert [(name, tensor.shape) for name, tensor in tensors.items()] == list(shapes.items())
        assert tensors.flat.shape == (sum(math.prod(shape) for shape in shapes.values()),)


@every_block
def test_parameters_are_views_that_share_out_the_flat_vector(block):
    """Each entry of the vector belongs to one tensor, and each block's branches, biases last, to one matrix."""
    net = small_net(block, "tanh", 3)
    p = net.params
    p.flat[...] = np.arange(p.flat.size)
    np.testing.assert_array_equal(np.sort(np.concatenate([tensor.ravel() for tensor in p.values()])), p.flat)
    for l, matrix in enumerate(p.blocks):
        rows = [np.c_[p[f"W_{branch}"][l], p[f"b_{branch}"][l]] for branch in net.block.branches]
        np.testing.assert_array_equal(matrix, np.concatenate(rows))
    for tensor in p.values():
        tensor[...] = -1
    assert (p.flat == -1).all()


UNIFORM, NORMAL = (0.95 * math.sqrt(3), 1.00001 * math.sqrt(3)), (2.5, math.inf)  # farthest, in standard deviations


@pytest.mark.parametrize(
    ("init", "sd", "farthest"),
    [
        ("uniform", lambda fan_in, fan_out: 1 / math.sqrt(3 * fan_in), UNIFORM),
        ("glorot", lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)), UNIFORM),
        ("he", lambda fan_in, fan_out: math.sqrt(2 / fan_in), NORMAL),
        ("gaussian", lambda fan_in, fan_out: 0.01, NORMAL),
    ],
)
def test_weights_have_the_distribution_of_their_initialisation(init, sd, farthest):
    net = DeepNet(100, 10, hidden=64, depth=3, init=init, rng=np.random.default_rng(0))
    for name, fans in {"W_in": (100, 64), "W_H": (64, 64), "W_T": (64, 64), "W_out": (64, 10)}.items():
        weights = net.params[name] / sd(*fans)
        assert weights.std() == pytest.approx(1, rel=0.1), name
        assert abs(weights.mean()) < 0.15, name
        for end in (weights.max(), -weights.min()):
            assert farthest[0] < end <= farthest[1], name


def gram(W):
    """Products of the columns with each other, or of the rows where these are fewer."""
    W = W.astype(float)
    return W @ W.swapaxes(-1, -2) if W.shape[-2] < W.shape[-1] else W.swapaxes(-1, -2) @ W


@pytest.mark.parametrize("make", [partial(DeepNet, 100, 10, hidden=64, depth=3, rng=0), small_conv_net])
def test_orthogonal_weights_are_orthonormal_each_branch_apart_and_no_gain_reaches_gates(make):
    params = make(init="orthogonal", init_gain=1.1, dtype=np.float64).params
    for name, weights in params.items():
        kind = name.rpartition(".")[-1]
        if kind.startswith("W"):
            gain, found = 1.0 if kind == "W_T" else 1.1, gram(weights)
            expected = np.broadcast_to(gain**2 * np.eye(found.shape[-1]), found.shape)
            np.testing.assert_allclose(found, expected, atol=1e-12)
    if "W_H" in params:
        assert (np.diff(params["W_H"], axis=0) != 0).all(), "each block has its own"


@pytest.mark.parametrize("init", INITS)
def test_a_gain_multiplies_the_weights_of_every_initialisation(init):
    drawn, scaled = (DeepNet(9, 3, hidden=7, depth=2, init=init, init_gain=of, rng=1).params for of in (1.0, 0.5))
    for name in drawn:
        factor = 0.5 if name in ("W_in", "W_H", "W_out") else 1
        np.testing.assert_array_equal(scaled[name], np.float32(factor) * drawn[name])


@pytest.mark.parametrize(
    "make",
    [
        *(partial(DeepNet, 5, depth=3, block=block) for block in BLOCKS),
        *(partial(ConvNet, SMALL_SHAPE, stages=SMALL_STAGES, batch_norm=True, block=block) for block in CONV_BLOCKS),
    ],
)
def test_biases_start_at_zero_gates_at_their_bias_and_normalised_maps_as_they_are(make):
    """An uncoupled carry gate starts at the opposite: C = 1 − T, as in the coupled block; so does a forget gate."""
    starts = {"b_T": -3.5, "b_C": 3.5, "b_I": -3.5, "b_F": 3.5, "gamma": 1, "variance": 1}
    for name, tensor in make(d_out=3, gate_bias=-3.5, rng=np.random.default_rng(0)).tensors().items():
        kind = name.rpartition(".")[-1]
        if not kind.startswith("W_"):
            assert (tensor == starts.get(kind, 0)).all(), name
            assert (np.signbit(tensor) == np.signbit(starts.get(kind, 0))).all(), "−0 is not the bits of 0"


# -------------------------------------------------------------------------------------- equations


def lstm(x, H, I, F, O):
    """c' = I·H + F·c and h' = O·tanh c': the cell is the first half of the units, the output the other half."""
    c = I * H + F * np.split(x, 2)[0]
    return np.concatenate([c, O * np.tanh(c)])


EQUATIONS = {  # y of x and of the branches, in a net of three blocks
    "plain": lambda x, H: H,
    "highway": lambda x, H, T: H * T + x * (1 - T),
    "highway-uncoupled": lambda x, H, T, C: H * T + x * C,
    "residual": lambda x, H: H + x,
    **{numbered("residual-scaled", p): lambda x, H, p=p: 3**-p * H + x for p in (1, 0.75, 0.1)},
    "residual-gated": lambda x, H, T: H * T + x,
    **{numbered("rezero", s): lambda x, H, A, s=s: s * A * H + x for s in (0.3, 1, 30)},
    "lstm": lstm,
}


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("block", EQUATIONS)
def test_each_block_computes_its_equation(block, depth):
    net = small_net(block, "tanh", depth)
    inputs, p = small_batch()[0], net.params
    logits, cache = net.forward(inputs)
    np.testing.assert_allclose(cache.x[0].T, np.tanh(inputs @ p["W_in"].T + p["b_in"]), rtol=1e-12)
    for l in range(depth):
        x, branches = cache.x[l], []
        for branch in net.block.branches:
            z = p[f"W_{branch}"][l] @ x + p[f"b_{branch}"][l, :, None]
            branches.append(np.tanh(z) if branch == "H" else z if branch == "A" else expit(z))
            np.testing.assert_allclose(getattr(cache, branch)[l], branches[-1], rtol=1e-12)
        np.testing.assert_allclose(cache.x[l + 1], EQUATIONS[block](x, *branches), rtol=1e-12)
    np.testing.assert_allclose(logits.T, p["W_out"] @ cache.x[-1] + p["b_out"][:, None], rtol=1e-12)


@pytest.mark.parametrize(("z", "H"), [(3.0, 3.0), (0.0, 0.0), (-1.0, 1 / math.e - 1), (-800.0, -1.0)])
def test_an_exponential_linear_unit_bends_at_zero(z, H):
    value = np.array([[z]])
    ACTIVATIONS["elu"].forward(value)
    assert value[0, 0] == pytest.approx(H, rel=1e-15)


@every_precision
@every_activation
def test_closed_gates_pass_the_input_unchanged(activation, dtype):
    """T = 0 makes a block the identity, to the bit (eq. 5), without a warning of overflow."""
    net = small_net("highway", activation, 5, dtype)
    net.params["b_T"][...] = -1e4
    x, y = small_batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits, cache = net.forward(x.astype(dtype))
        backward(net, logits, cache, y)
        net.predict(x.astype(dtype))
    assert not cache.T.any()
    assert (cache.x == cache.x[0]).all()


@every_precision
def test_gates_keep_their_relative_precision_at_very_negative_biases(dtype):
    """A thousand layers want b_T near −20, where T is 2e-9: rounded to 0 it would never learn to open."""
    net, biases = small_net("highway", "tanh", 1, dtype), [-5, -10, -20, -40]
    net.params["W_T"][...] = 0
    net.params["b_T"][...] = biases
    _, cache = net.forward(small_batch()[0].astype(dtype))
    np.testing.assert_allclose(cache.T[0, :, 0], [1 / (1 + math.exp(-b)) for b in biases], rtol=8 * np.finfo(dtype).eps)


# -------------------------------------------------------------------------------------- the cache


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        *((partial(small_net, block, "tanh", 3), small_batch()) for block in BLOCKS),
        *((partial(small_conv_net, block, batch_norm=True), small_images()) for block in CONV_BLOCKS),
    ],
)
def test_evaluation_between_forward_and_backward_changes_nothing(make, batch):
    net, other, (x, y) = make(), make(), batch
    (logits, cache), of_other = (of.forward(x, of.workspace(len(x), np.random.default_rng(4))) for of in (net, other))
    evaluate(net, (100 + 100 * x).astype(np.uint8), y, LOSSES["cross-entropy"])
    net.predict(-x)
    net.forward(2 * x)
    if "T" in net.block.branches:
        net.gate_means(-x)
    np.testing.assert_array_equal(logits, of_other[0])
    for name, tensor in other.tensors().items():
        np.testing.assert_array_equal(net.tensors()[name], tensor)
    np.testing.assert_array_equal(backward(net, logits, cache, y).flat, backward(other, *of_other, y).flat)


@every_activation
@every_block
def test_a_workspace_full_of_nan_gives_the_results_of_a_fresh_one(block, activation):
    """Nothing that an earlier pass left is read, but for the rows of ones, which last."""
    net = small_net(block, activation, 3)
    x, y = small_batch()
    workspace = Workspace(net, len(x))
    for sign in (1, -1, 1):
        found = gradients(net, sign * x, y, workspace)
        np.testing.assert_array_equal(found, gradients(net, sign * x, y))
        assert np.isfinite(found).all()
        assert (workspace.input[:, -1] == 1).all()
        assert (workspace.x1[:, -1] == 1).all()
        arrays = [value for value in vars(workspace).values() if isinstance(value, np.ndarray)]
        assert len(arrays) - len(net.block.branches) == 7, "input, x1, x, z, branches, dz, flows: others stay full"
        for array in (*arrays, workspace.gradients.flat):
            array[...] = np.nan
        workspace.input[:, -1] = workspace.x1[:, -1] = 1


@every_block
def test_passes_leave_their_inputs_and_the_backward_pass_can_be_repeated(block):
    net = small_net(block, "relu", 3)
    x, y = small_batch()
    before = net.params.flat.copy(), x.copy()
    logits, cache = net.forward(x)
    dlogits = softmax_cross_entropy(logits, y)[1]
    before += cache.x.copy(), cache.z.copy(), dlogits.copy()
    first = net.backward(dlogits, cache).flat.copy()
    for found, expected in zip((net.params.flat, x, cache.x, cache.z, dlogits), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(net.backward(dlogits, cache).flat, first)


# ------------------------------------------------------------------------------------- prediction


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11])
@pytest.mark.parametrize(
    ("make", "batch"),
    [
        *((partial(small_net, block, "tanh", 3), small_batch) for block in BLOCKS),
        (partial(small_conv_net, batch_norm=True), small_images),
    ],
)
def test_predict_equals_the_logits_of_forward_for_any_number_of_rows(make, batch, n):
    net, (x, _) = make(), batch(n)
    predicted = net.predict(x, rows=4)
    assert predicted.shape == (n, 3)
    if n:
        np.testing.assert_allclose(predicted, net.forward(x)[0], rtol=1e-12, atol=1e-14)


@every_block
def test_a_net_is_iterated_block_by_block_from_any_block_on(block):
    net, x = small_net(block, "relu", 4), small_batch()[0]
    logits, cache = net.forward(x)
    assert cache.x.shape == (5, net.hidden, 7)
    assert {getattr(cache, branch).shape for branch in net.block.branches} == {(4, 4, 7)}
    np.testing.assert_allclose(net.embed(x), cache.x[0], rtol=1e-12)
    if "T" in net.block.branches:
        np.testing.assert_allclose(net.gate_means(x), cache.T.mean(axis=(1, 2)), rtol=1e-3)
    for start in range(5):
        x_l = cache.x[start].copy()
        blocks = [(z.copy(), y.copy()) for z, y in net.iterate_blocks(x_l, start)]
        assert len(blocks) == 4 - start
        for l, (z, y) in enumerate(blocks, start):
            expected = [getattr(cache, branch)[l] for branch in net.block.branches]
            np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(y, cache.x[l + 1], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(net.forward_from(x_l, start), logits, rtol=1e-12)
        np.testing.assert_array_equal(x_l, cache.x[start])


@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (partial(small_net, "highway", "tanh", 2), small_batch()),
        (partial(small_conv_net, batch_norm=True, contrast=True), small_images()),
    ],
    ids=["dense", "conv"],
)
@every_precision
def test_every_array_has_the_nets_precision(make, batch, dtype):
    net, x, y = make(dtype=dtype), batch[0].astype(dtype), batch[1]
    logits, cache = net.forward(x, net.workspace(len(x), np.random.default_rng(0)))
    _, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)
    images = net.preprocess((100 + 100 * x).astype(np.uint8))
    arrays = (logits, *cache.T, dlogits, grads.flat, dx, net.predict(x), *net.buffers.values(), images)
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def test_T_is_found_by_its_name_whatever_the_order_of_the_branches(monkeypatch):
    monkeypatch.setitem(BLOCKS, "swapped", swapped_block())
    for net, (x, _) in ((small_net("highway", "tanh", 3), small_batch()), (small_conv_net(), small_images())):
        other = swapped(net)
        np.testing.assert_allclose(other.predict(x), net.predict(x), rtol=1e-12)
        np.testing.assert_allclose(other.gate_means(x), net.gate_means(x), rtol=1e-12)


@pytest.mark.parametrize("branches", ["Hx", "HH"])
def test_a_branch_may_not_take_the_place_of_another_array_of_the_cache(monkeypatch, branches):
    monkeypatch.setitem(BLOCKS, "own", BLOCKS["plain"]._replace(branches=branches))
    with refused_with("block: expected a capital letter of its own", branches):
        small_net("own", "tanh", 1)


def test_blocks_are_left_out_of_a_net_whose_kind_was_defined_anew(monkeypatch):
    monkeypatch.setitem(BLOCKS, "mine", BLOCKS["highway"])
    net, x = DeepNet(3, 2, hidden=4, depth=2, block="mine", rng=0), np.ones((5, 3))
    expected = without(net, [0]).predict(x)
    monkeypatch.setitem(BLOCKS, "mine", BLOCKS["highway"]._replace(forward=BLOCKS["plain"].forward))
    np.testing.assert_array_equal(without(net, [0]).predict(x), expected)


@pytest.mark.parametrize("block", ["plain", "lstm"])
def test_gates_of_blocks_without_T_are_refused(block):
    net, x = small_net(block, "tanh", 3), small_batch()[0]
    with refused_with("gates: expected blocks with a transform gate T", f"found {block} blocks"):
        net.gate_means(x)


# ------------------------------------------------------------------------------------- the losses


@every_precision
def test_the_loss_of_extreme_logits_is_finite_and_right(dtype):
    """A right answer at +1e4 costs nothing, a wrong one at −1e4 costs the whole difference."""
    logits = np.array([[1e4, -1e4, 0], [1e4, -1e4, 0], [-1e4, -1e4, -1e4]], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, dlogits = softmax_cross_entropy(logits, np.array([0, 1, 2]))
    assert loss == pytest.approx((0 + 2e4 + math.log(3)) / 3, rel=1e-6)
    np.testing.assert_allclose(dlogits, [[0, 0, 0], [1 / 3, -1 / 3, 0], [1 / 9, 1 / 9, -2 / 9]], atol=1e-7)


def test_the_loss_is_the_mean_of_the_negative_log_softmax():
    logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
    loss, dlogits = softmax_cross_entropy(logits + np.array([[3], [-8]]), np.array([1, 2]))
    assert loss == pytest.approx(-(math.log(0.25) + math.log(0.7)) / 2, rel=1e-12)
    np.testing.assert_allclose(dlogits, [[0.25, -0.375, 0.125], [0.05, 0.1, -0.15]], rtol=1e-12)


def test_sigmoid_cross_entropy_is_that_of_each_label_however_large_the_outputs():
    outputs = np.array([[1000.0, -1000, 0], [-1000, 2, 0]])
    loss, gradient = LOSSES["sigmoid-cross-entropy"].function(outputs, np.eye(2, 3))
    np.testing.assert_allclose(loss, (2 * np.log(2) + np.log1p(np.exp(-2))) / 2)
    np.testing.assert_allclose(gradient, np.array([[0, 0, 0.5], [0, 1 / (1 + np.exp(-2)) - 1, 0.5]]) / 2, atol=1e-15)


def test_squared_error_is_the_mean_over_samples_and_targets():
    outputs, y = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[1.0, 0, 3], [1, 5, 7]])
    loss, gradient = LOSSES["squared-error"].function(outputs, y)
    assert loss == pytest.approx((4 + 9 + 1) / 6, rel=1e-14)
    np.testing.assert_allclose(gradient, np.array([[0, 4, 0], [6, 0, -2]]) / 6, rtol=1e-14)


@pytest.mark.parametrize("loss", [huber, partial(pinball, quantile=0.9)])
@pytest.mark.parametrize("weights", [None, np.array([0.5, 1.5])])
def test_the_slopes_of_robust_losses_are_their_gradients(loss, weights):
    assert huber(np.array([[0.5], [-3.0]]), np.zeros((2, 1)))[0] == pytest.approx((0.125 + 2.5) / 2)
    outputs, y, step = np.array([[0.0, 0.3], [3.0, -2.0]]), np.zeros((2, 2)) + 0.1, 1e-6 * np.eye(4).reshape(4, 2, 2)
    found = [(loss(outputs + of, y, weights)[0] - loss(outputs - of, y, weights)[0]) / 2e-6 for of in step]
    np.testing.assert_allclose(loss(outputs, y, weights)[1].ravel(), found, atol=1e-9)
    assert loss(np.float32(outputs), np.float32(y))[1].dtype == np.float32


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


def test_a_block_that_has_a_number_is_made_from_its_name(monkeypatch):
    """In another process, or for a log, which know only the name; whatever the number."""
    for name in ("rezero-300", "residual-scaled-0.0625", "rezero-1e-05", "rezero--1", numbered("rezero", 1 / 7)):
        monkeypatch.setitem(BLOCKS, name, None)  # so that it is forgotten after this test
        del BLOCKS[name]
        make_known(name)
        assert name in BLOCKS
    net = small_net("rezero-300", "tanh", 2)
    assert net.block.forward.keywords == {"s": 300}
    assert BLOCKS["rezero-0.142857"].forward.keywords == {"s": 0.142857}
    for other in ("rezero-", "rezero-x", "residual-scaled-0.5-", "highway-3", "rezero-1e"):
        make_known(other)
        assert other not in BLOCKS
