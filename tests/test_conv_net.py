"""Whole convolutional nets: parameters, what is refused, gradients by complex steps, batches, evaluation, files."""

import copy
import json
import math

import numpy as np
import pytest
from helpers import (
    CONV_BLOCKS,
    SMALL_SHAPE,
    SMALL_STAGES,
    Intruder,
    assert_says,
    assert_zeros_around,
    check_gradients,
    complex_step,
    contents,
    refuse_net,
    small_conv_net,
    small_images,
    small_net,
)

import conv_highway_networks as conv
from conv_highway_networks import (
    NETS,
    AveragePool,
    Blocks,
    ConvNet,
    Convolution,
    ConvWorkspace,
    Dropout,
    MaxPool,
)
from highway_lab.cli import InputError
from highway_networks import ACTIVATIONS, BLOCKS, DeepNet, softmax_cross_entropy

every_block = pytest.mark.parametrize("block", CONV_BLOCKS)
NO_DROPOUT = [stage for stage in SMALL_STAGES if not isinstance(stage, Dropout)]


def training(net: ConvNet, batch: int = 3) -> ConvWorkspace:
    """A workspace for training, whose chance is the same each time."""
    return ConvWorkspace(net, batch, np.random.default_rng(4))


def gradients(net: ConvNet, x: np.ndarray, y: np.ndarray, workspace: ConvWorkspace | None = None) -> dict:
    """Copies of the gradients with respect to every parameter and to the images, called x."""
    logits, cache = net.forward(x, workspace or training(net, len(x)))
    grads, dx = net.backward(softmax_cross_entropy(logits, y)[1], cache, return_dx=True)
    return {name: gradient.copy() for name, gradient in {**grads, "x": dx}.items()}


# ------------------------------------------------------------------------------------------- parameters

SHAPES = {"mnist": (1, 28, 28), "cifar-10": (3, 32, 32), "digits": (1, 8, 8)}


def net_of_the_paper(name: str, **others) -> ConvNet:
    return ConvNet(SHAPES[NETS[name].dataset], 10, stages=NETS[name].stages, **others, rng=None)


@pytest.mark.parametrize(
    ("name", "layers", "count"),
    [
        ("mnist-16", 10, 38_986),
        ("mnist-32", 10, 151_690),
        ("highway-a", 11, 236_714),
        ("highway-b", 19, 2_256_838),
        ("highway-c", 32, 1_251_798),
        ("table-3", 19, 2_256_838),
    ],
)
def test_the_papers_nets_have_these_layers_and_parameters(name, layers, count):
    """It counts convolutions, blocks and the dense layer."""
    net = net_of_the_paper(name)
    assert net.params.flat.size == count
    assert sum(bool(place.branches) for place in net.places) + 1 == layers


@pytest.mark.parametrize(("name", "millions", "tolerance"), [("highway-b", 2.3, 0.05), ("highway-c", 1.25, 0.005)])
def test_the_counts_that_the_paper_rounds_are_met(name, millions, tolerance):
    assert net_of_the_paper(name).params.flat.size / 1e6 == pytest.approx(millions, abs=tolerance)


def test_highway_c_has_blocks_3x3_and_1x1_in_turn_within_each_stage():
    kernels = "".join(str(stage.kernel) if isinstance(stage, Blocks) else " " for stage in NETS["highway-c"].stages)
    assert kernels.split() == ["313131313"] * 3


@pytest.mark.parametrize("name", NETS)
def test_every_net_takes_the_images_of_its_data_set_to_a_few_pixels(name):
    last = {"mnist": (3, 3), "cifar-10": (1, 1), "digits": (2, 2)}
    assert net_of_the_paper(name).places[-1].y[1:] == last[NETS[name].dataset]


@every_block
def test_parameters_and_gradients_have_these_names_and_shapes(block):
    branches = BLOCKS[block].branches
    expected = {"1.W_H": (2, 18), "1.b_H": (2,)}
    for layer in (2, 3):
        for branch in branches:
            expected |= {f"{layer}.W_{branch}": (2, 18), f"{layer}.b_{branch}": (2,)}
    expected |= {"4.W_H": (3, 2), "4.b_H": (3,)}
    for branch in branches:
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
def test_a_patchs_numbers_are_the_fan_in_of_a_convolutions_weights(init, scale):
    """A deviation of √(2 / fan_in), or of ±1/√fan_in uniformly."""
    stages = [Convolution(64, 5), Blocks(1)]
    net = ConvNet((3, 8, 8), 10, stages=stages, init=init, rng=np.random.default_rng(0))
    fans = {"1.W_H": 75, "2.W_H": 576, "2.W_T": 576, "W_out": 64 * 6 * 6}
    for name, fan_in in fans.items():
        assert net.params[name].std() == pytest.approx(scale / math.sqrt(fan_in), rel=0.05), name


@every_block
def test_biases_start_at_zero_gates_at_their_bias_and_normalisation_as_none(block):
    net = ConvNet(
        SMALL_SHAPE, 3, stages=SMALL_STAGES, block=block, gate_bias=-3.5, batch_norm=True, rng=np.random.default_rng(0)
    )
    starts = {"b_T": -3.5, "b_C": 3.5, "gamma": 1, "variance": 1}
    for name, tensor in {**net.params, **net.buffers}.items():
        part = name.split(".")[-1]
        assert tensor.any() if part.startswith("W_") else (tensor == starts.get(part, 0)).all(), name


def test_a_copy_has_running_statistics_and_parameters_of_its_own():
    net = small_conv_net(batch_norm=True)
    for tensor in net.buffers.values():
        tensor += 3
    other = copy.deepcopy(net)
    for name, tensor in {**net.params, **net.buffers}.items():
        np.testing.assert_array_equal({**other.params, **other.buffers}[name], tensor)
    x = small_images()[0]
    np.testing.assert_array_equal(other.predict(x), net.predict(x))
    for tensor in other.buffers.values():
        tensor += 100
    assert not np.array_equal(other.predict(x), net.predict(x))


# ---------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("stage", *("expected", "found")),
    [
        (Convolution(2, 3, padding=2), "padding of at most half the kernel", "padding=2"),
        (Convolution(2, 1, padding=1), "padding of at most half the kernel", "padding=1"),
        (Convolution(2, 8, padding=0), "a kernel that fits into the maps", SMALL_SHAPE),
        (Convolution(2, 7, padding=0), "a kernel that fits into the maps", SMALL_SHAPE),
        (Convolution(0), "maps 1 or more", "maps=0"),
        (Convolution(2, 3, padding=-1), "padding 0 or more", "padding=-1"),
        (Convolution(2.0), "a whole number", "2.0"),
        (Blocks(-1), "number 1 or more", "-1"),
        (Blocks(1, 0), "kernel 1 or more", "kernel=0"),
        (Blocks(10**9), "at most 10000 blocks", "1000000001"),
        (MaxPool(3, 0), "stride 1 or more", "stride=0"),
        (MaxPool("3", 2), "size 1 or more", "'3'"),
        (AveragePool(0), "size 1 or more", "size=0"),
        (Dropout(1.0), "a rate in [0, 1)", "rate=1.0"),
        (Dropout(math.nan), "a rate in [0, 1)", "nan"),
        (Dropout(None), "a rate in [0, 1)", "None"),
        (["Convolution"], "one of Convolution, Blocks, MaxPool, AveragePool, Dropout", "['Convolution']"),
        (["Blocks", 1, 3, 1], "one of Convolution", "['Blocks', 1, 3, 1]"),
        (["Dense", 3], "one of Convolution", "['Dense', 3]"),
        ([], "one of Convolution", "[]"),
        (7, "one of Convolution", "7"),
    ],
    ids=str,
)
def test_a_stage_that_cannot_work_is_refused(stage, expected, found):
    with pytest.raises(InputError) as error:
        small_conv_net(stages=[Blocks(1), stage])
    assert_says(error.value, "stages: ", expected, found)


def test_blocks_are_counted_over_all_stages():
    with pytest.raises(InputError) as error:
        small_conv_net(stages=[Blocks(6000), Blocks(6000)])
    assert_says(error.value, "stages: ", "at most 10000 blocks", "12000")


def test_maps_that_shrink_below_a_pixel_on_the_way_are_refused():
    """What fits into the image need not fit into what is left of it."""
    with pytest.raises(InputError) as error:
        small_conv_net(stages=[Convolution(2), MaxPool(3, 2), Convolution(4), Convolution(2, 5, 0)])
    assert_says(error.value, "fits into the maps", "kernel=5", "(4, 4, 3)")


@pytest.mark.parametrize("stages", [[], [MaxPool(3, 2), Dropout(0.5)]])
def test_a_net_without_a_convolution_is_refused(stages):
    with pytest.raises(InputError) as error:
        small_conv_net(stages=stages)
    assert_says(error.value, "a convolution or a block")


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 0, 8), (2, 1, 8, 8)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(InputError) as error:
        ConvNet(shape, 3, stages=SMALL_STAGES, rng=None)
    assert_says(error.value, "channels, rows and columns", list(shape))


def test_a_block_whose_units_have_two_parts_is_refused():
    with pytest.raises(InputError, match=r"block: .*lstm"):
        small_conv_net(block="lstm")


@pytest.mark.parametrize(("name", "value"), [("block", "brick"), ("activation", "sine"), ("init", "ones")])
def test_an_unknown_block_activation_or_initialisation_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: expected .*, found '{value}'; "):
        small_conv_net(**{name: value})


@pytest.mark.parametrize("shape", [(2, *SMALL_SHAPE), (3, 1, 9, 6), (3, 2, 1, 6), (3, 2, 6, 9), (3, 108)], ids=str)
def test_a_batch_of_another_shape_is_refused_one_that_would_broadcast_too(shape):
    net = small_conv_net()
    with pytest.raises(ValueError, match=r"expected .*\(3, 2, 9, 6\)") as error:
        net.forward(np.zeros(shape), ConvWorkspace(net, 3))
    assert str(shape) in str(error.value)


# -------------------------------------------------------------------------------------------- gradients


def derivatives(net: ConvNet, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """By moving one entry at a time, the same numbers dropped each time."""
    rng = np.random.default_rng(4)
    start, workspace = rng.bit_generator.state, ConvWorkspace(net, len(x), rng)

    def loss():
        rng.bit_generator.state = start
        return softmax_cross_entropy(net.forward(x, workspace)[0], y)[0]

    return {name: complex_step(loss, tensor) for name, tensor in {**net.params, "x": x}.items()}


def without_shifts(gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All but those of biases which the batch's mean takes away again."""
    shifts = {name.replace("gamma", "b_H") for name in gradients if name.endswith(".gamma")}
    assert all(np.abs(gradients[name]).max() < 1e-12 for name in shifts)
    return {name: gradient for name, gradient in gradients.items() if name not in shifts}


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@every_block
def test_gradients_equal_complex_step_derivatives(block, activation, batch_norm):
    """Of a net with one of every stage, dropout included, while it is trained."""
    x, y = small_images(2)
    found = gradients(small_conv_net(block, activation, batch_norm=batch_norm), x, y)
    complex_net = small_conv_net(block, activation, batch_norm=batch_norm, dtype=np.complex128)
    expected = derivatives(complex_net, x.astype(complex), y)
    check_gradients(without_shifts(found), without_shifts(expected), 1e-10)


@every_block
def test_the_parameters_gradients_are_the_same_if_that_of_the_images_is_not_wanted(block):
    net, (x, y) = small_conv_net(block, batch_norm=True), small_images()
    expected = gradients(net, x, y)
    logits, cache = net.forward(x, training(net))
    found = net.backward(softmax_cross_entropy(logits, y)[1], cache)
    for name, gradient in found.items():
        np.testing.assert_array_equal(gradient, expected[name], err_msg=name)


@pytest.mark.parametrize("batch_norm", [False, True])
@every_block
def test_float32_gradients_equal_float64_ones_to_single_precision(block, batch_norm):
    x, y = small_images()
    single = gradients(small_conv_net(block, dtype=np.float32, batch_norm=batch_norm), x.astype(np.float32), y)
    assert {gradient.dtype for gradient in single.values()} == {np.dtype(np.float32)}
    double = gradients(small_conv_net(block, batch_norm=batch_norm), x, y)
    names = without_shifts(double)
    check_gradients({name: single[name] for name in names}, {name: double[name] for name in names}, 1e-3)


@every_block
def test_a_batchs_gradient_is_the_mean_of_its_images(block):
    """Where nothing is dropped or normalised, each image goes its own way."""
    net, (x, y) = small_conv_net(block, stages=NO_DROPOUT), small_images(4)
    alone = [gradients(net, x[[i]], y[[i]]) for i in range(4)]
    for name, gradient in gradients(net, x, y).items():
        parts = [one[name] for one in alone]
        expected = np.concatenate(parts) / 4 if name == "x" else np.mean(parts, axis=0)
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-14, err_msg=name)


# ----------------------------------------------------------------------------------- images side by side


@pytest.mark.parametrize("batch_norm", [False, True])
@every_block
def test_what_lies_amid_the_images_stays_zero(block, batch_norm):
    """Of all maps and their gradients, after passes over different batches."""
    net, (x, y) = small_conv_net(block, batch_norm=batch_norm), small_images()
    workspace = training(net)
    for sign in (1, -2):
        gradients(net, sign * x, y, workspace)
    layers = workspace.layers
    assert_zeros_around(
        workspace.input, *(m for layer in layers for m in (layer.y, layer.x.gradient, layer.y.gradient))
    )


@every_block
def test_a_permuted_batch_has_its_logits_permuted(block):
    net, (x, _) = small_conv_net(block, "relu"), small_images(5)
    order = [3, 0, 4, 2, 1]
    np.testing.assert_allclose(net.forward(x[order])[0], net.forward(x)[0][order], rtol=1e-12)


@pytest.mark.parametrize("stages", [NO_DROPOUT, [Blocks(1, 1), Blocks(1, 5), MaxPool(4, 3)]], ids=["small", "wide"])
@pytest.mark.parametrize("changed", range(3))
@every_block
def test_an_image_changes_no_others_logits_and_has_no_gradient_from_them(block, changed, stages):
    """However large its pixels and wide the windows: nothing leaks over an edge."""
    net, (x, y) = small_conv_net(block, "relu", stages=stages), small_images()
    others = [i for i in range(3) if i != changed]
    workspace = training(net)
    logits, _ = net.forward(x, workspace)
    dlogits = softmax_cross_entropy(logits, y)[1]
    dlogits[changed] = 0
    _, dx = net.backward(dlogits, workspace, return_dx=True)
    assert not dx[changed].any()
    assert all(dx[i].any() for i in others)
    louder = x.copy()
    louder[changed] *= 1e6
    changed_logits, _ = net.forward(louder)
    np.testing.assert_allclose(changed_logits[others], logits[others], rtol=1e-12)
    assert (changed_logits[changed] != logits[changed]).all()


@pytest.mark.parametrize("cached", [1, 3000, 2**30])
@pytest.mark.parametrize("batch_norm", [False, True])
@every_block
def test_results_do_not_depend_on_how_many_images_are_taken_at_a_time(monkeypatch, block, batch_norm, cached):
    net, (x, y) = small_conv_net(block, batch_norm=batch_norm), small_images(5)
    expected, logits = gradients(net, x, y), net.predict(x)
    monkeypatch.setattr(conv, "MAX_PATCH_ELEMENTS", cached)
    parts = {len(layer.chunks) for layer in training(net, 5).layers if hasattr(layer, "chunks")}
    assert max(parts) == {1: 5, 3000: 3, 2**30: 1}[cached]
    np.testing.assert_allclose(net.predict(x), logits, rtol=1e-10)
    for name, gradient in gradients(net, x, y).items():
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-9, atol=1e-13, err_msg=name)


# -------------------------------------------------------------------------------------------- workspaces


@every_block
def test_a_workspace_that_was_used_gives_the_results_of_a_fresh_one_to_the_bit(block):
    net, (x, y) = small_conv_net(block, "relu", stages=NO_DROPOUT, batch_norm=True), small_images()
    used = training(net)
    for sign in (1, -2, 3):
        found = gradients(net, sign * x, y, used)
        for name, gradient in gradients(net, sign * x, y).items():
            np.testing.assert_array_equal(found[name], gradient, err_msg=name)


def test_a_convolution_takes_no_more_memory_than_the_images_of_its_batch_need():
    net = small_conv_net()
    for layer in ConvWorkspace(net, 1).layers:
        if hasattr(layer, "patches"):
            assert layer.patches.shape[1] == layer.z.shape[1] == layer.x.columns.shape[1]


@every_block
def test_evaluation_between_forward_and_backward_changes_nothing(block):
    net, (x, y) = small_conv_net(block, batch_norm=True), small_images()
    expected = gradients(net, x, y)
    images, params = x.copy(), net.params.flat.copy()
    logits, cache = net.forward(x, training(net))
    kept, state = logits.copy(), {name: tensor.copy() for name, tensor in net.buffers.items()}
    net.predict(-x)
    net.forward(2 * x)
    if "T" in net.block.branches:
        net.gate_means(-x)
    np.testing.assert_array_equal(logits, kept)
    grads, dx = net.backward(softmax_cross_entropy(logits, y)[1], cache, return_dx=True)
    for name, gradient in {**grads, "x": dx}.items():
        np.testing.assert_array_equal(gradient, expected[name], err_msg=name)
    np.testing.assert_array_equal(x, images)
    np.testing.assert_array_equal(net.params.flat, params)
    for name, tensor in net.buffers.items():
        np.testing.assert_array_equal(tensor, state[name], err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_array_has_the_nets_precision(dtype):
    net, (x, y) = small_conv_net(dtype=dtype, batch_norm=True, contrast=True), small_images()
    x = x.astype(dtype)
    logits, cache = net.forward(x, training(net))
    grads, dx = net.backward(softmax_cross_entropy(logits, y)[1], cache, return_dx=True)
    images = net.preprocess((100 + 100 * x).astype(np.uint8))
    arrays = (logits, *cache.T, grads.flat, dx, net.predict(x), net.params.flat, *net.buffers.values(), images)
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


def test_a_pass_leaves_numpys_own_buffer_as_it_was():
    net, (x, y) = small_conv_net(), small_images()
    before = np.getbufsize()
    gradients(net, x, y)
    assert np.getbufsize() == before


# -------------------------------------------------------------------------------------------- evaluation


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11])
def test_predict_equals_the_logits_of_forward_for_any_number_of_images(n):
    net, (x, _) = small_conv_net(batch_norm=True), small_images(n)
    predicted = net.predict(x, rows=4)
    assert predicted.shape == (n, 3)
    if n:
        np.testing.assert_allclose(predicted, net.forward(x)[0], rtol=1e-12, atol=1e-14)


def test_a_workspace_for_evaluation_has_no_backward_pass():
    net = small_conv_net()
    logits, cache = net.forward(np.zeros((2, *net.places[0].x)))
    with pytest.raises(ValueError, match="expected a workspace for training"):
        net.backward(logits, cache)


@every_block
def test_nothing_is_dropped_in_evaluation(block):
    """A net without dropout has the same parameters and predicts the same, and chance has no part in it."""
    net, without, (x, _) = small_conv_net(block), small_conv_net(block, stages=NO_DROPOUT), small_images()
    np.testing.assert_array_equal(without.params.flat, net.params.flat)
    np.testing.assert_array_equal(net.predict(x), without.predict(x))
    np.testing.assert_array_equal(net.predict(x), net.predict(x))
    assert (net.forward(x, training(net))[0] != net.predict(x)).all()


def test_evaluation_normalises_by_running_statistics_image_by_image():
    """What else is in the batch does not matter then, while in training it does."""
    net, (x, _) = small_conv_net(stages=NO_DROPOUT, batch_norm=True), small_images()
    together, alone = net.forward(x)[0], [net.forward(x[[i]])[0][0] for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    trained_on = net.forward(x, training(net))[0]
    assert (np.abs(trained_on - together) > 1e-3).any()
    assert (np.abs(net.forward(x[:1], training(net, 1))[0] - trained_on[0]) > 1e-3).any()


def test_running_statistics_come_to_be_those_of_batches_that_repeat():
    """After 200 equal batches nothing is left of the beginning: 0.9²⁰⁰ is 1e-9. But for the unbiased variance."""
    net, (x, _) = small_conv_net(stages=[Convolution(2), Blocks(1)], batch_norm=True), small_images()
    workspace = training(net)
    for _ in range(200):
        trained_on, _ = net.forward(x, workspace)
    net.buffers["2.variance"] *= (3 * 54 - 1) / (3 * 54)
    np.testing.assert_allclose(net.predict(x), trained_on, rtol=1e-6)


@pytest.mark.parametrize("block", ["highway", "highway-uncoupled"])
def test_gate_means_are_those_of_each_block_over_images_and_pixels(block):
    net, (x, _) = small_conv_net(block), small_images()
    biases = {"2.b_T": (-3, 1), "3.b_T": (-2, -2), "5.b_T": (0, 2, 4)}
    for name, bias in biases.items():
        net.params[name][...] = bias
        net.params[name.replace("b", "W")][...] = 0
    expected = [np.mean(1 / (1 + np.exp(-np.array(bias)))) for bias in biases.values()]
    np.testing.assert_allclose(net.gate_means(x), expected, rtol=1e-3)
    _, workspace = net.forward(x)
    assert [T.shape for T in workspace.T] == [(2, 3, 7, 4), (2, 3, 7, 4), (3, 3, 3, 2)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_closed_gates_pass_the_maps_unchanged_without_a_warning(dtype, recwarn):
    net, (x, y) = small_conv_net(stages=[Blocks(4)], dtype=dtype), small_images()
    for layer in range(1, 5):
        net.params[f"{layer}.b_T"][...] = -1e4
    x = x.astype(dtype)
    logits, cache = net.forward(x, training(net))
    net.backward(softmax_cross_entropy(logits, y)[1], cache)
    np.testing.assert_array_equal(cache.layers[-1].y.images, x.transpose(1, 0, 2, 3))
    assert not recwarn.list


# ------------------------------------------------------------------------------------------- saved nets


@pytest.fixture
def saved(tmp_path):
    """A saved net with everything that there is to save."""
    path = tmp_path / "net.npz"
    small_conv_net(batch_norm=True, contrast=True).save(path)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_norm", [False, True])
@every_block
def test_a_loaded_net_predicts_as_the_saved_one_to_the_bit(tmp_path, block, batch_norm, dtype):
    net = small_conv_net(block, dtype=dtype, batch_norm=batch_norm, contrast=True)
    net.save(tmp_path / "net.npz")
    loaded = ConvNet.load(tmp_path / "net.npz")
    images = np.random.default_rng(0).integers(0, 256, (5, *SMALL_SHAPE), dtype=np.uint8)
    np.testing.assert_array_equal(loaded.predict(loaded.preprocess(images)), net.predict(net.preprocess(images)))
    assert loaded.params.flat.tobytes() == net.params.flat.tobytes()
    assert loaded.buffers.keys() == net.buffers.keys()
    for name, tensor in net.buffers.items():
        assert (loaded.buffers[name].dtype, loaded.buffers[name].tobytes()) == (tensor.dtype, tensor.tobytes())
    assert (loaded.config, loaded.places, loaded.depth) == (net.config, net.places, 3)


def test_a_loaded_net_goes_on_as_the_saved_one(saved):
    """It is trained by the same gradients, and its running statistics follow the batches."""
    net, loaded, (x, y) = small_conv_net(batch_norm=True, contrast=True), ConvNet.load(saved), small_images()
    expected, found = gradients(net, x, y) | net.buffers, gradients(loaded, x, y) | loaded.buffers
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)


def test_saving_again_gives_the_same_bytes(saved):
    ConvNet.load(saved).save(saved.with_name("again.npz"))
    assert saved.read_bytes() == saved.with_name("again.npz").read_bytes()


@pytest.mark.parametrize("name", ["1.W_H", "2.b_T", "3.gamma", "5.variance", "mean", "W_out"])
def test_a_tensor_that_is_missing_misshapen_or_not_finite_is_refused(saved, name):
    tensors = contents(saved)
    wrong = {"missing": None, "short": tensors[name][:-1], "one": tensors[name][:1, ...][..., :1]}
    wrong |= {"nan": np.full_like(tensors[name], np.nan), "single": tensors[name].astype(np.float32)}
    for value in wrong.values():
        changed = tensors | {name: value}
        np.savez(saved, **{name: tensor for name, tensor in changed.items() if tensor is not None})
        refuse_net(ConvNet, saved, name)


def test_a_negative_variance_is_refused(saved):
    """Its root would make every logit NaN."""
    tensors = contents(saved)
    tensors["2.variance"][-1] = -1e-3
    np.savez(saved, **tensors)
    refuse_net(ConvNet, saved, "2.variance", "below 0")


@pytest.mark.parametrize("name", ["4.gamma", "6.W_H", "surplus"])
def test_a_tensor_that_the_net_does_not_have_is_refused(saved, name):
    np.savez(saved, **contents(saved), **{name: np.zeros(3)})
    refuse_net(ConvNet, saved, name)


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"shape": [2, 7]},
            {"shape": [2, 7, 7]},
            {"shape": None},
            {"shape": ["2", 9, 6]},
            {"d_out": 4},
            {"d_out": -1},
        ),
        *({"block": "plain"}, {"block": "brick"}, {"batch_norm": False}, {"contrast": False}, {"dtype": "complex128"}),
        *({"stages": None}, {"stages": []}, {"stages": ["Blocks"]}, {"stages": [["Blocks", 1]]}, {"stages": {"a": 1}}),
        *({"stages": [["Blocks", 10**9]]}, {"stages": [["__class__", 1]]}, {"stages": [[["Blocks"], 1]]}),
        *({"stages": [["Convolution", 10**9, 10**9]]}, {"gate_bias": 1e10}, {"gate_bias": "-1"}, {"surplus": 1}),
    ],
    ids=str,
)
def test_a_config_that_does_not_fit_the_tensors_is_refused(saved, change):
    tensors = contents(saved)
    tensors["config"] = np.array(json.dumps(json.loads(str(tensors["config"])) | change))
    np.savez(saved, **tensors)
    refuse_net(ConvNet, saved)


@pytest.mark.parametrize("name", ["1.W_H", "2.mean", "config", "surplus"])
def test_a_pickle_inside_is_refused_and_not_run(saved, tmp_path, name):
    intruder = np.array([Intruder(tmp_path / "trace")], dtype=object)
    np.savez(saved, **(contents(saved) | {name: intruder}))
    refuse_net(ConvNet, saved)
    assert not (tmp_path / "trace").exists()


def test_a_damaged_file_is_refused(saved):
    content = saved.read_bytes()
    flipped = bytearray(content)
    flipped[content.index(ConvNet.load(saved).buffers["mean"].tobytes()) + 5] ^= 1
    for wrong in (
        flipped,
        b"",
        b"<html>",
        *(content[: round(share * len(content))] for share in (0.1, 0.5, 0.9, 0.999)),
    ):
        saved.write_bytes(wrong)
        refuse_net(ConvNet, saved)


def test_a_net_of_the_other_kind_is_refused(saved):
    refuse_net(DeepNet, saved, "DeepNet.save")
    small_net("highway", "tanh", 2).save(saved)
    refuse_net(ConvNet, saved, "ConvNet.save")
