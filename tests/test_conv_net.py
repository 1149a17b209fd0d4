"""Whole convolutional nets: parameters, refusals, gradients by complex steps, batches, evaluation, files."""

import math
import re

import numpy as np
import pytest
from helpers import CONV_BLOCKS, SMALL_SHAPE, SMALL_STAGES, check_gradients, refused_with, small_conv_net, small_images

from conv_highway_networks import AveragePool, Blocks, ConvNet, Convolution, ConvWorkspace, Dropout, MaxPool
from highway_lab.gradients import complex_step
from highway_lab.nets import without
from highway_networks import BLOCKS, softmax_cross_entropy

every_block = pytest.mark.parametrize("block", CONV_BLOCKS)
with_or_without_batch_norm = pytest.mark.parametrize("batch_norm", [False, True])
NO_DROPOUT = [stage for stage in SMALL_STAGES if not isinstance(stage, Dropout)]


def training(net: ConvNet, batch: int = 3) -> ConvWorkspace:
    """Return a workspace for training that draws the same random numbers each time."""
    return ConvWorkspace(net, batch, np.random.default_rng(4))


def gradients(net: ConvNet, x: np.ndarray, y: np.ndarray, workspace: ConvWorkspace | None = None) -> dict:
    """Return copies of the gradients with respect to every parameter and to the images, called x."""
    logits, cache = net.forward(x, workspace or training(net, len(x)))
    grads, dx = net.backward(softmax_cross_entropy(logits, y)[1], cache, return_dx=True)
    return {name: gradient.copy() for name, gradient in {**grads, "x": dx}.items()}


def assert_equal(found: dict, expected: dict, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Fail unless tensors of the same names are equal."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=rtol, atol=atol, err_msg=name, strict=True)


# ------------------------------------------------------------------------------------------- parameters


@every_block
def test_parameters_and_gradients_have_these_names_and_shapes(block):
    expected = {"1.W_H": (2, 18), "1.b_H": (2,)}
    for layer in (2, 3):
        for branch in BLOCKS[block].branches:
            expected |= {f"{layer}.W_{branch}": (2, 18), f"{layer}.b_{branch}": (2,)}
    expected |= {"4.W_H": (3, 2), "4.b_H": (3,)}
    for branch in BLOCKS[block].branches:
        expected |= {f"5.W_{branch}": (3, 3), f"5.b_{branch}": (3,)}
    expected |= {"W_out": (3, 6), "b_out": (3,)}
    for layer, maps in ((2, 2), (3, 2), (5, 3)):
        expected |= {f"{layer}.gamma": (maps,), f"{layer}.beta": (maps,)}
    net = small_conv_net(block, batch_norm=True)
    for tensors in (net.params, training(net).gradients):
        assert {name: tensor.shape for name, tensor in tensors.items()} == expected
        assert tensors.flat.size == sum(map(math.prod, expected.values()))
        for number, tensor in enumerate(tensors.values()):
            tensor[...] = number  # views: each entry of the vector belongs to one of them
        assert np.bincount(tensors.flat.astype(int)).tolist() == [tensor.size for tensor in tensors.values()]
    assert {name: tensor.shape for name, tensor in net.buffers.items()} == {
        f"{layer}.{name}": (maps,) for layer, maps in ((2, 2), (3, 2), (5, 3)) for name in ("mean", "variance")
    }


@pytest.mark.parametrize(("init", "scale"), [("he", math.sqrt(2)), ("uniform", math.sqrt(1 / 3))])
def test_the_fan_in_of_a_convolution_is_the_size_of_a_patch(init, scale):
    """A standard deviation of √(2 / fan_in), or that of a uniform draw from ±1/√fan_in."""
    stages = [Convolution(64, 5), Blocks(1)]
    net = ConvNet((3, 8, 8), 10, stages=stages, init=init, rng=np.random.default_rng(0))
    fans = {"1.W_H": 75, "2.W_H": 576, "2.W_T": 576, "W_out": 64 * 6 * 6}
    for name, fan_in in fans.items():
        assert net.params[name].std() == pytest.approx(scale / math.sqrt(fan_in), rel=0.05), name


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("stage", "expected", "found"),
    [
        (Convolution(2, 4, padding=2), "padding of less than half the kernel", "padding=2"),
        (Convolution(2, 8, padding=0), "a kernel that fits into the maps", SMALL_SHAPE),
        (Convolution(0), "maps 1 or more", "maps=0"),
        (Convolution(2, 3, padding=-1), "padding 0 or more", "padding=-1"),
        (Blocks(-1), "number 1 or more", "-1"),
        (Blocks(10**12), "at most 10000 layers", "more"),
        (MaxPool(3, 0), "stride 1 or more", "stride=0"),
        (AveragePool(0), "size 1 or more", "size=0"),
        (Dropout(1.0), "a rate in [0, 1)", "rate=1.0"),
        (["Convolution"], "one of Convolution, Blocks, MaxPool, AveragePool, Dropout", "['Convolution']"),
        (7, "one of Convolution", "7"),
    ],
    ids=str,
)
def test_a_stage_that_cannot_work_is_refused(stage, expected, found):
    with refused_with("stages: ", expected, found):
        small_conv_net(stages=[Blocks(1), stage])


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([MaxPool(3, 2), Dropout(0.5)], "a convolution or a block"),
        ([Convolution(2), MaxPool(3, 2), Convolution(4), Convolution(2, 5, 0)], "for maps (4, 4, 3)"),
    ],
)
def test_stages_that_make_no_net_are_refused(stages, words):
    with refused_with(words):
        small_conv_net(stages=stages)


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 0, 8), (2, 1, 8, 8)])
def test_a_shape_that_is_no_images_is_refused(shape):
    with refused_with("channels, height and width", list(shape)):
        ConvNet(shape, 3, stages=SMALL_STAGES, rng=None)


def test_an_lstm_block_is_refused_as_it_splits_its_units_into_two_parts():
    with refused_with("block", "lstm"):
        small_conv_net("lstm")


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 48, 3), (5, 5, 4)])
def test_images_with_channels_last_are_refused_with_the_remedy(shape):
    with refused_with("found [", "channels last", "transpose(0, 3, 1, 2)"):
        ConvNet(shape, 3, stages=SMALL_STAGES, rng=None)
    channels_first = np.zeros((2, *shape)).transpose(0, 3, 1, 2)
    net = ConvNet(channels_first.shape[1:], 3, stages=SMALL_STAGES, rng=None)
    assert net.predict(channels_first).shape == (2, 3)
    with pytest.raises(ValueError, match=re.escape("pass x.transpose(0, 3, 1, 2)")):
        net.predict(np.zeros((2, *shape)))


@pytest.mark.parametrize("shape", [(2, *SMALL_SHAPE), (3, 1, 9, 6), (3, 2, 1, 6), (3, 2, 6, 9), (3, 108)], ids=str)
def test_a_batch_of_another_shape_is_refused_even_if_it_would_broadcast(shape):
    net = small_conv_net()
    with pytest.raises(ValueError, match=r"expected a batch of (3|shape \(B, 2, 9, 6\)) ?.*, found ") as error:
        net.forward(np.zeros(shape), ConvWorkspace(net, 3))
    assert (f"found {shape[0]}" if shape[1:] == SMALL_SHAPE else f"of shape {shape}") in str(error.value)


# -------------------------------------------------------------------------------------------- gradients


def derivatives(net: ConvNet, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return complex-step derivatives of the loss, with the same numbers dropped each time."""
    rng = np.random.default_rng(4)
    start, workspace = rng.bit_generator.state, ConvWorkspace(net, len(x), rng)

    def loss():
        rng.bit_generator.state = start
        return softmax_cross_entropy(net.forward(x, workspace)[0], y)[0]

    return {name: complex_step(loss, tensor) for name, tensor in {**net.params, "x": x}.items()}


def without_shifts(gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return all gradients but those of biases that batch normalisation cancels, which must be 0."""
    layers = [name.removesuffix("gamma") for name in gradients if name.endswith(".gamma")]
    shifts = {next(name for name in gradients if name.startswith(f"{layer}b_")) for layer in layers}  # of H, or of A
    assert all(np.abs(gradients[name]).max() < 1e-12 for name in shifts)
    return {name: gradient for name, gradient in gradients.items() if name not in shifts}


@with_or_without_batch_norm
@every_block
def test_gradients_equal_complex_step_derivatives(block, batch_norm):
    """In training, of a net with one of every stage, dropout included."""
    x, y = small_images(2)
    found = gradients(small_conv_net(block, batch_norm=batch_norm), x, y)
    complex_net = small_conv_net(block, batch_norm=batch_norm, dtype=np.complex128)
    expected = derivatives(complex_net, x.astype(complex), y)
    check_gradients(without_shifts(found), without_shifts(expected), 1e-10)


@pytest.mark.parametrize("stages", [[Blocks(1)], [MaxPool(2, 2), Blocks(2)]], ids=["block first", "pool first"])
def test_the_gradient_of_the_images_passes_the_first_layers(stages):
    x, y = small_images(2)
    found = gradients(small_conv_net(stages=stages), x, y)
    expected = derivatives(small_conv_net(stages=stages, dtype=np.complex128), x.astype(complex), y)
    check_gradients(found, expected, 1e-10)


@every_block
def test_gradients_are_the_same_without_that_of_the_images(block):
    net, (x, y) = small_conv_net(block, batch_norm=True), small_images()
    expected = gradients(net, x, y)
    logits, cache = net.forward(x, training(net))
    found = net.backward(softmax_cross_entropy(logits, y)[1], cache)
    assert_equal({**found, "x": expected["x"]}, expected)


@with_or_without_batch_norm
@every_block
def test_float32_gradients_equal_float64_ones_to_single_precision(block, batch_norm):
    x, y = small_images()
    single = gradients(small_conv_net(block, dtype=np.float32, batch_norm=batch_norm), x.astype(np.float32), y)
    assert {gradient.dtype for gradient in single.values()} == {np.dtype(np.float32)}
    double = without_shifts(gradients(small_conv_net(block, batch_norm=batch_norm), x, y))
    check_gradients({name: single[name] for name in double}, double, 1e-3)


@pytest.mark.parametrize(
    "stages", [NO_DROPOUT, [Blocks(1, 1), Blocks(1, 5)], [Blocks(1, 1), MaxPool(4, 3)]], ids=["small", "wide", "over"]
)
@every_block
def test_a_batchs_gradient_is_the_mean_of_its_images(block, stages):
    """Without dropout and batch normalisation images do not influence each other: nothing leaks over an edge."""
    net, (x, y) = small_conv_net(block, stages=stages), small_images(4)
    alone = [gradients(net, x[[i]], y[[i]]) for i in range(4)]
    expected = {name: np.mean([one[name] for one in alone], axis=0) for name in alone[0]}
    expected["x"] = np.concatenate([one["x"] for one in alone]) / 4
    assert_equal(gradients(net, x, y), expected, rtol=1e-10, atol=1e-14)


# -------------------------------------------------------------------------------------------- workspaces


@every_block
def test_a_used_workspace_gives_the_bits_of_a_fresh_one(block):
    net, (x, y) = small_conv_net(block, "relu", stages=NO_DROPOUT, batch_norm=True), small_images()
    used = training(net)
    for sign in (1, -2, 3):
        assert_equal(gradients(net, sign * x, y, used), gradients(net, sign * x, y))


# -------------------------------------------------------------------------------------------- evaluation


def test_a_workspace_for_evaluation_has_no_backward_pass_and_one_of_another_net_is_refused():
    net, (x, _) = small_conv_net(), small_images()
    with pytest.raises(ValueError, match="expected a workspace for training"):
        net.backward(*net.forward(x))
    with pytest.raises(ValueError, match="expected one of this net"):
        net.forward(x, training(small_conv_net()))


@every_block
def test_nothing_is_dropped_in_evaluation(block):
    """A net without dropout has the same parameters and predicts the same; evaluation draws no random number."""
    net, without, (x, _) = small_conv_net(block), small_conv_net(block, stages=NO_DROPOUT), small_images()
    np.testing.assert_array_equal(without.params.flat, net.params.flat)
    np.testing.assert_array_equal(net.predict(x), without.predict(x))
    np.testing.assert_array_equal(net.predict(x), net.predict(x))
    assert (net.forward(x, training(net))[0] != net.predict(x)).all()


@pytest.mark.parametrize("block", ["highway", "highway-uncoupled"])
def test_gate_means_are_those_of_each_block_over_images_and_pixels(block):
    net, (x, _) = small_conv_net(block), small_images()
    biases = {"2.b_T": (-3, 1), "3.b_T": (-2, -2), "5.b_T": (0, 2, 4)}
    for name, bias in biases.items():
        net.params[name][...] = bias
        net.params[name.replace("b", "W")][...] = 0
    expected = [np.mean(1 / (1 + np.exp(-np.array(bias)))) for bias in biases.values()]
    np.testing.assert_allclose(net.gate_means(x), expected, rtol=1e-3)
    net.params["2.W_T"][...] = 3
    np.testing.assert_allclose(net.gate_means(x, rows=2), net.gate_means(x), rtol=1e-12)  # the last image alone
    _, workspace = net.forward(x)
    assert [T.shape for T in workspace.T] == [(2, 7, 4, 3), (2, 7, 4, 3), (3, 3, 2, 3)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_closed_gates_pass_the_maps_unchanged_without_a_warning(dtype, recwarn):
    net, (x, y) = small_conv_net(stages=[Blocks(4)], dtype=dtype), small_images()
    for layer in range(1, 5):
        net.params[f"{layer}.b_T"][...] = -1e4
    x = x.astype(dtype)
    logits, cache = net.forward(x, training(net))
    net.backward(softmax_cross_entropy(logits, y)[1], cache)
    np.testing.assert_array_equal(cache.layers[-1].y.images, x.transpose(1, 2, 3, 0))
    assert not recwarn.list


def test_without_a_block_the_others_keep_weights_and_running_statistics():
    net, (x, _) = small_conv_net(batch_norm=True), small_images()
    net.forward(x, training(net))
    found, expected = without(net, [0]).tensors(), net.tensors()
    for name, of in (("2.W_T", "3.W_T"), ("2.mean", "3.mean"), ("4.W_H", "5.W_H"), ("4.variance", "5.variance")):
        np.testing.assert_array_equal(found[name], expected[of])


def test_a_layer_fills_a_gradient_that_is_not_the_one_it_reads():
    """A block of one's own may write dx before it has read all of dy."""
    for layer in training(small_conv_net()).layers:
        assert not np.shares_memory(layer.x.gradient, layer.y.gradient)
