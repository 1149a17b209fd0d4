"""Saved nets: a loaded net predicts as the saved one, to the bit; anything else is refused, and never unpickled."""

import copy
import json
import math
import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers import CONV_BLOCKS, SMALL_SHAPE, Intruder, contents, refuse_net, rewrite, small_conv_net, small_net

from conv_highway_networks import Blocks, Convolution
from highway_lab import nets
from highway_lab.files import atomic_write
from highway_networks import ACTIVATIONS, BLOCKS, DeepNet, InputError

dense = partial(small_net, "highway", "tanh", 2)
everything = partial(small_conv_net, batch_norm=True, contrast=True)  # that there is to save


@pytest.fixture
def saved(tmp_path) -> Path:
    """Save a highway net of two blocks."""
    path = tmp_path / "net.npz"
    dense().save(path)
    return path


refuse = partial(refuse_net, DeepNet)


NETS = [
    *((partial(small_net, block, activation, 3), (5,)) for block in BLOCKS for activation in ACTIVATIONS),
    *((partial(make, block), SMALL_SHAPE) for make in (everything, small_conv_net) for block in CONV_BLOCKS),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("make", "shape"), NETS)
def test_a_loaded_net_predicts_as_the_saved_one_to_the_bit(tmp_path, make, shape, dtype):
    net, images = make(dtype=dtype), np.random.default_rng(0).integers(0, 256, (7, *shape), dtype=np.uint8)
    net.save(tmp_path / "net.npz")
    loaded = type(net).load(tmp_path / "net.npz")
    np.testing.assert_array_equal(loaded.predict(loaded.preprocess(images)), net.predict(net.preprocess(images)))
    for name, tensor in net.tensors().items():
        np.testing.assert_array_equal(loaded.tensors()[name], tensor, strict=True)
    assert (loaded.config, loaded.depth) == (net.config, net.depth)


@pytest.mark.posix
def test_a_file_that_is_written_again_keeps_its_mode(saved, tmp_path):
    log = tmp_path / "log.json"
    log.touch()
    for path in (saved, log):
        path.chmod(0o600)
    dense().save(saved)
    with atomic_write(log) as file:
        assert [of.stat().st_mode & 0o777 for of in tmp_path.iterdir()] == [0o600] * 3  # while it is written, too
        file.write(b"{}")
    assert [of.stat().st_mode & 0o777 for of in tmp_path.iterdir()] == [0o600] * 2


@pytest.mark.parametrize("make", [dense, everything])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_the_tensors_of_a_copy_are_views_of_its_own_flat_vector(make, again):
    net = make()
    other, params = again(net), again(net.params)
    assert (type(params), params.keys()) == (dict, net.params.keys()), "views would come apart"
    assert not any(np.shares_memory(params[name], tensor) for name, tensor in net.params.items())
    for name, tensor in net.tensors().items():
        np.testing.assert_array_equal(other.tensors()[name], tensor)
    for tensor in (other.params.flat, *other.buffers.values()):
        tensor[...] = 7
    assert all((tensor == 7).all() for tensor in other.tensors().values())
    assert not any((tensor == 7).any() for tensor in net.tensors().values())


@pytest.mark.parametrize("make", [dense, partial(everything, stages=[Convolution(2), Blocks(1)])])
def test_a_missing_misshapen_or_infinite_tensor_is_refused(tmp_path, make):
    """Also one that would broadcast."""
    net, path = make(), tmp_path / "net.npz"
    for name, tensor in net.tensors().items():
        for wrong in (None, tensor[:-1], tensor[:1, ...][..., :1], np.nan * tensor, tensor.astype(np.float32)):
            net.save(path)
            rewrite(path, **{name: wrong})
            refuse_net(type(net), path, name)
    net.save(path)
    rewrite(path, surplus=np.zeros(2))
    refuse_net(type(net), path, "surplus")


def test_a_net_with_names_for_other_outputs_than_it_has_is_refused(saved):
    rewrite(saved, classes=np.array('["a"]'))
    refuse(saved, "1 classes for ")


@pytest.mark.posix
def test_no_net_takes_the_place_of_a_pipe(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(OSError, match="found a directory, a pipe or a device"):
        dense().save(pipe)
    assert pipe.is_fifo()


def test_a_net_of_another_format_is_refused(saved):
    """The first format is not in its file, and its weights are the transpose of ours: square ones would fit."""
    rewrite(saved, format=None)
    refuse(saved, "format 1, not 2")
    for found in (1, 3, "two"):
        rewrite(saved, format=np.array(found))
        refuse(saved, found)


@pytest.mark.parametrize(("make", "other"), [(dense, everything), (everything, dense)])
def test_a_net_of_the_other_kind_is_refused(tmp_path, make, other):
    make().save(tmp_path / "net.npz")
    kind = type(other())
    refuse_net(kind, tmp_path / "net.npz", f"{kind.__name__}.save")


OF_DENSE = [
    *({"depth": 3}, {"hidden": 5}, {"d_in": 6}, {"d_out": 2}, {"block": "plain"}, {"block": "brick"}),
    *({"depth": -1}, {"hidden": "four"}, {"activation": None}, {"dtype": "float31"}, {"surplus": 1}),
    *("{", "[]", "{}", {"depth": 10**9}, {"hidden": 10**30}, {"d_in": None}, {"d_out": [1]}, {"gate_bias": math.inf}),
]
OF_CONV = [
    *({"shape": shape} for shape in ([2, 7], [2, 7, 7], None, ["2", 9, 6])),
    *({"stages": stages} for stages in (None, [], ["Blocks"], [["Blocks", 1]], {"a": 1}, [["Blocks", 10**9]])),
    *({"stages": [entry]} for entry in (["__class__", 1], [["Blocks"], 1], ["Convolution", 10**9, 10**9])),
    *({"block": "plain"}, {"block": "brick"}, {"batch_norm": False}, {"contrast": False}, {"dtype": "complex128"}),
    *({"d_out": 4}, {"d_out": -1}, {"gate_bias": 1e10}, {"gate_bias": "-1"}, {"surplus": 1}),
]


@pytest.mark.parametrize(
    ("make", "change"), [*((dense, change) for change in OF_DENSE), *((everything, change) for change in OF_CONV)]
)
def test_a_config_that_does_not_fit_the_tensors_is_refused(tmp_path, make, change):
    net, path = make(), tmp_path / "net.npz"
    net.save(path)
    config = json.loads(str(contents(path)["config"]))
    rewrite(path, config=np.array(change if isinstance(change, str) else json.dumps(config | change)))
    refuse_net(type(net), path)


@pytest.mark.parametrize("name", ["W_H", "config", "surplus", None])
def test_a_pickle_is_refused_and_not_run_inside_an_archive_or_alone(saved, tmp_path, name):
    intruder = Intruder(tmp_path / "trace")
    if name:
        rewrite(saved, **{name: np.array([intruder], dtype=object)})
    else:
        saved.write_bytes(pickle.dumps(intruder))
    refuse(saved)
    assert not (tmp_path / "trace").exists()


ONE_ARRAY = b"\x93NUMPY\x01\0\x36\0{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\n" + bytes(8)


@pytest.mark.parametrize("content", [b"", b"<html>", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), ONE_ARRAY], ids=repr)
def test_a_file_that_is_no_archive_of_tensors_is_refused(saved, content):
    saved.write_bytes(content)
    refuse(saved)


def test_an_archive_cut_anywhere_is_refused(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), 97):
        saved.write_bytes(content[:length])
        refuse(saved)


def test_an_archive_with_a_flipped_bit_in_a_tensor_is_refused(saved):
    content = bytearray(saved.read_bytes())
    content[content.index(DeepNet.load(saved).params["W_H"].tobytes()) + 5] ^= 1
    saved.write_bytes(content)
    refuse(saved)


def test_neither_a_missing_file_nor_a_directory_is_a_net_nor_a_device_which_may_have_no_end(tmp_path):
    for path, found in ((tmp_path / "missing.npz", "No such file"), (tmp_path, "directory"), (os.devnull, "a device")):
        refuse(path, found)


@pytest.mark.parametrize("path", ["", "."])
def test_no_file_is_written_in_the_place_of_a_folder(workdir, path):
    net = small_net("highway", "tanh", 2)
    with pytest.raises(InputError, match="expected a place to write, found: a directory"):
        nets.save_net(path, net)
    with pytest.raises(OSError, match="found a directory"):
        net.save(path)
    assert [*workdir.iterdir()] == []
