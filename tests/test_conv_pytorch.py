"""Convolutional nets against PyTorch's autograd, in float64; skipped without PyTorch, which is not required."""

import numpy as np
import pytest
from helpers import CONV_BLOCKS, SMALL_STAGES, relative_error, small_conv_net, small_images

from conv_highway_networks import AveragePool, Blocks, Convolution, ConvWorkspace, Dropout, MaxPool
from highway_networks import ACTIVATIONS, Momentum, decay_weights, softmax_cross_entropy

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing here to compare with (extra `bench`)")
functional = torch.nn.functional

NO_DROPOUT = [stage for stage in SMALL_STAGES if not isinstance(stage, Dropout)]


class Peer:
    """The same net in PyTorch: parameters p, and running statistics, which follow the batches in training."""

    def __init__(self, net):
        self.net = net
        self.p = {name: torch.tensor(tensor.copy(), requires_grad=True) for name, tensor in net.params.items()}
        self.running = {name: torch.tensor(tensor.copy()) for name, tensor in net.buffers.items()}

    def logits(self, x, training: bool = True):
        """Return the logits of images x, in training or in evaluation."""
        p, l = self.p, 0
        for stage, (C, *_), *_ in self.net.layers:
            match stage:
                case Convolution() | Blocks():
                    l += 1
                    z, k = {}, stage.kernel
                    for branch in self.net.block.branches if isinstance(stage, Blocks) else "H":
                        W = p[f"{l}.W_{branch}"].reshape(-1, k, k, C).permute(0, 3, 1, 2)
                        z[branch] = functional.conv2d(x, W, p[f"{l}.b_{branch}"], padding=stage.padding)
                    if f"{l}.gamma" in p:
                        statistics = self.running[f"{l}.mean"], self.running[f"{l}.variance"]
                        z["H"] = functional.batch_norm(z["H"], *statistics, p[f"{l}.gamma"], p[f"{l}.beta"], training)
                    x = self.combine(z, x, self.net.config["block"] if isinstance(stage, Blocks) else "plain")
                case MaxPool(size, stride):
                    x = functional.max_pool2d(x, size, stride, ceil_mode=True)
                case AveragePool(size):
                    x = functional.avg_pool2d(x, size, ceil_mode=True)
        return functional.linear(x.flatten(1), p["W_out"], p["b_out"])

    def combine(self, z, x, block: str):
        """Return a block's output, given its affine maps z by branch."""
        H = getattr(functional, self.net.config["activation"])(z["H"])
        if block == "plain":
            return H
        if block.startswith("residual"):
            return x + (H / self.net.depth if block == "residual-scaled" else H)
        T = torch.sigmoid(z["T"])
        return T * H + (torch.sigmoid(z["C"]) if block == "highway-uncoupled" else 1 - T) * x


def compare(net) -> None:
    """Fail unless logits, loss, gradients and running statistics are PyTorch's, in two passes and in evaluation."""
    (x, y), peer = small_images(), Peer(net)
    torch_x = torch.tensor(x, requires_grad=True)
    workspace = ConvWorkspace(net, len(x), np.random.default_rng(0))
    for _ in range(2):
        logits, cache = net.forward(x, workspace)
        loss, dlogits = softmax_cross_entropy(logits, y)
        grads, dx = net.backward(dlogits, cache, return_dx=True)
        expected_logits = peer.logits(torch_x)
        expected_loss = functional.cross_entropy(expected_logits, torch.tensor(y))
        for tensor in (*peer.p.values(), torch_x):
            tensor.grad = None
        expected_loss.backward()
        assert relative_error(logits, expected_logits.detach().numpy()) < 1e-10
        assert loss == pytest.approx(expected_loss.item(), rel=1e-10)
        for name, tensor in {**peer.p, "x": torch_x}.items():
            found, expected = {**grads, "x": dx}[name], tensor.grad.numpy()
            if name.endswith("b_H") and name.replace("b_H", "gamma") in peer.p:  # batch normalisation cancels it
                assert np.abs(found).max() < 1e-12
            else:
                assert np.abs(expected).max() > 1e-4, name
                assert relative_error(found, expected) < 1e-10, name
        for name, tensor in peer.running.items():
            assert relative_error(net.buffers[name], tensor.numpy()) < 1e-10, name
    assert relative_error(net.predict(x), peer.logits(torch_x, training=False).detach().numpy()) < 1e-10


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", CONV_BLOCKS)
def test_logits_gradients_and_running_statistics_equal_pytorchs(block, activation, batch_norm):
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


def test_five_nesterov_steps_with_weight_decay_end_where_pytorchs_do():
    net, (x, y) = small_conv_net("highway", "relu", stages=NO_DROPOUT, batch_norm=True), small_images()
    peer, before = Peer(net), {name: tensor.copy() for name, tensor in net.params.items()}
    groups = [
        {"params": [p for name, p in peer.p.items() if ("W_" in name) == decays], "weight_decay": 0.1 * decays}
        for decays in (True, False)
    ]
    theirs = torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)
    ours, workspace = Momentum(net.params, 0.05, 0.9, 1.0, nesterov=True), net.workspace(3, np.random.default_rng(0))
    for _ in range(5):
        logits, cache = net.forward(x, workspace)
        grads = net.backward(softmax_cross_entropy(logits, y)[1], cache)
        decay_weights(grads, net.params, 0.1)
        ours.step(grads)
        theirs.zero_grad()
        functional.cross_entropy(peer.logits(torch.tensor(x)), torch.tensor(y)).backward()
        theirs.step()
    for name, tensor in peer.p.items():
        np.testing.assert_allclose(net.params[name], tensor.detach().numpy(), rtol=1e-9, atol=1e-12, err_msg=name)
        assert (net.params[name] != before[name]).any() or name.endswith("b_H"), name
