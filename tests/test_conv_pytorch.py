"""Convolutional nets against PyTorch's autograd, in float64; PyTorch is no requirement of ours."""

import copy

import numpy as np
import pytest
from helpers import CONV_BLOCKS, SMALL_STAGES, relative_error, small_conv_net, small_images

from conv_highway_networks import AveragePool, Blocks, Convolution, ConvWorkspace, Dropout, MaxPool
from highway_networks import ACTIVATIONS, Momentum, decay_weights, softmax_cross_entropy

torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing here to compare with (extra `bench`)")
functional = torch.nn.functional

NO_DROPOUT = [stage for stage in SMALL_STAGES if not isinstance(stage, Dropout)]


def as_tensors(net) -> dict:
    return {name: torch.tensor(tensor.copy(), requires_grad=True) for name, tensor in net.params.items()}


def torch_logits(net, p, x, training: bool, running: dict):
    """The same net in PyTorch's words, of parameters p and running statistics, which it moves while training."""
    act, layer = getattr(torch.nn.functional, net.config["activation"]), 0
    for stage, (C, *_), *_ in net.layers:
        match stage:
            case Convolution() | Blocks():
                layer += 1
                z, k = {}, stage.kernel
                for branch in net.block.branches if isinstance(stage, Blocks) else "H":
                    W = p[f"{layer}.W_{branch}"].reshape(-1, k, k, C).permute(0, 3, 1, 2)
                    z[branch] = functional.conv2d(x, W, p[f"{layer}.b_{branch}"], padding=stage.padding)
                if f"{layer}.gamma" in p:
                    statistics = running[f"{layer}.mean"], running[f"{layer}.variance"]
                    affine = p[f"{layer}.gamma"], p[f"{layer}.beta"]
                    z["H"] = functional.batch_norm(z["H"], *statistics, *affine, training)
                x = combined(z, x, net.config["block"] if isinstance(stage, Blocks) else "plain", act, net.depth)
            case MaxPool(size, stride):
                x = functional.max_pool2d(x, size, stride, ceil_mode=True)
            case AveragePool(size):
                x = functional.avg_pool2d(x, size, ceil_mode=True)
    return functional.linear(x.flatten(1), p["W_out"], p["b_out"])


def combined(z, x, block, act, depth):
    """A block's output, given its affine maps, in a net of so many blocks."""
    H = act(z["H"])
    if block == "plain":
        return H
    if block.startswith("residual"):
        return x + (H / depth if block == "residual-scaled" else H)
    T = torch.sigmoid(z["T"])
    return T * H + (torch.sigmoid(z["C"]) if block == "highway-uncoupled" else 1 - T) * x


def compare(net) -> None:
    """Fail unless logits, loss, all gradients and the statistics afterwards are PyTorch's, twice in a row."""
    x, y = small_images()
    p, torch_x = as_tensors(net), torch.tensor(x, requires_grad=True)
    running = {name: torch.tensor(tensor.copy()) for name, tensor in net.buffers.items()}
    workspace = ConvWorkspace(net, len(x), np.random.default_rng(0))
    for _ in range(2):
        logits, cache = net.forward(x, workspace)
        loss, dlogits = softmax_cross_entropy(logits, y)
        grads, dx = net.backward(dlogits, cache, return_dx=True)
        expected_logits = torch_logits(net, p, torch_x, True, running)
        expected_loss = functional.cross_entropy(expected_logits, torch.tensor(y))
        for tensor in (*p.values(), torch_x):
            tensor.grad = None
        expected_loss.backward()
        assert relative_error(logits, expected_logits.detach().numpy()) < 1e-10
        assert loss == pytest.approx(expected_loss.item(), rel=1e-10)
        for name, tensor in {**p, "x": torch_x}.items():
            found, expected = {**grads, "x": dx}[name], tensor.grad.numpy()
            if name.replace("b_H", "gamma") in p and name.endswith("b_H"):  # the batch's mean takes it away again
                assert np.abs(found).max() < 1e-12
            else:
                assert np.abs(expected).max() > 1e-4, name
                assert relative_error(found, expected) < 1e-10, name
        for name, tensor in running.items():
            assert relative_error(net.buffers[name], tensor.numpy()) < 1e-10, name
    evaluated = torch_logits(net, p, torch_x, False, running).detach().numpy()
    assert relative_error(net.predict(x), evaluated) < 1e-10


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", CONV_BLOCKS)
def test_a_nets_logits_gradients_and_running_statistics_equal_pytorchs(block, activation, batch_norm):
    """While training, and the logits in evaluation."""
    compare(small_conv_net(block, activation, stages=NO_DROPOUT, batch_norm=batch_norm))


STAGES = [
    *(Convolution(3, kernel, padding) for kernel, padding in ((1, 0), (3, 0), (3, 1), (5, 0), (5, 1), (5, 2))),
    *(MaxPool(3, 2), MaxPool(2, 2), MaxPool(3, 1), MaxPool(2, 3), MaxPool(5, 2)),
    *(AveragePool(2), AveragePool(4), AveragePool(6)),
]


@pytest.mark.parametrize("before", [[], [Convolution(2, 2, 0)]], ids=["9 x 6", "8 x 5"])
@pytest.mark.parametrize("stage", STAGES, ids=str)
def test_each_stage_equals_pytorchs_on_odd_and_even_sizes(stage, before):
    compare(small_conv_net("highway", stages=[*before, stage, Blocks(1)]))


def test_five_steps_with_nesterov_momentum_and_weight_decay_end_where_pytorchs_do():
    net, (x, y) = small_conv_net("highway", "relu", stages=NO_DROPOUT, batch_norm=True), small_images()
    p, running = as_tensors(net), {name: torch.tensor(tensor.copy()) for name, tensor in net.buffers.items()}
    before = copy.deepcopy(p)
    weights = [tensor for name, tensor in p.items() if "W_" in name]
    others = [tensor for name, tensor in p.items() if "W_" not in name]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
    theirs = torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)
    ours, workspace = (
        Momentum(net.params, 0.05, 0.9, 1.0, nesterov=True),
        ConvWorkspace(net, 3, np.random.default_rng(0)),
    )
    for _ in range(5):
        logits, cache = net.forward(x, workspace)
        grads = net.backward(softmax_cross_entropy(logits, y)[1], cache)
        decay_weights(grads, net.params, 0.1)
        ours.step(grads)
        theirs.zero_grad()
        functional.cross_entropy(torch_logits(net, p, torch.tensor(x), True, running), torch.tensor(y)).backward()
        theirs.step()
    for name, tensor in p.items():
        np.testing.assert_allclose(net.params[name], tensor.detach().numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
        assert not torch.equal(tensor, before[name]) or name.endswith("b_H"), name
