"""The engine against PyTorch's autograd, in float64; skipped without PyTorch, which the project does not require."""

from functools import partial

import numpy as np
import pytest
from helpers import relative_error, small_batch, small_net

from highway_networks import ACTIVATIONS, Adam, Momentum, softmax_cross_entropy

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing here to compare with (extra `bench`)")

MOMENTUM = {"lr": 0.1, "momentum": 0.9}
BLOCKS = ["plain", "highway", "highway-uncoupled", "residual", "residual-scaled", "lstm"]


def as_tensors(net):
    return {name: torch.tensor(tensor, requires_grad=True) for name, tensor in net.params.items()}


def torch_logits(p, x, block, activation):
    """Return the logits of a net of these parameters."""
    linear, act = torch.nn.functional.linear, getattr(torch.nn.functional, activation)
    x = act(linear(x, p["W_in"], p["b_in"]))
    for layer in range(len(p["W_H"])):
        z = {name[2:]: linear(x, W[layer], p["b_" + name[2:]][layer]) for name, W in p.items() if W.ndim == 3}
        H = act(z["H"])
        if block == "plain":
            x = H
        elif block.startswith("residual"):
            x = x + (H / len(p["W_H"]) if block == "residual-scaled" else H)
        elif block == "lstm":
            (c, _), (I, F, O) = x.chunk(2, dim=1), (torch.sigmoid(z[gate]) for gate in "IFO")
            c = I * H + F * c
            x = torch.cat([c, O * torch.tanh(c)], dim=1)
        else:
            T = torch.sigmoid(z["T"])
            x = T * H + (torch.sigmoid(z["C"]) if block == "highway-uncoupled" else 1 - T) * x
    return linear(x, p["W_out"], p["b_out"])


@pytest.mark.parametrize("depth", [0, 1, 3, 10])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", BLOCKS)
def test_logits_loss_and_all_gradients_equal_autograds(block, activation, depth):
    net = small_net(block, activation, depth)
    x, y = small_batch()
    logits, cache = net.forward(x)
    loss, dlogits = softmax_cross_entropy(logits, y)
    grads, dx = net.backward(dlogits, cache, return_dx=True)

    p, torch_x = as_tensors(net), torch.tensor(x, requires_grad=True)
    expected_logits = torch_logits(p, torch_x, block, activation)
    expected_loss = torch.nn.functional.cross_entropy(expected_logits, torch.tensor(y))
    expected_loss.backward()

    assert relative_error(logits, expected_logits.detach().numpy()) < 1e-10
    assert loss == pytest.approx(expected_loss.item(), rel=1e-10)
    for name, tensor in {**p, "x": torch_x}.items():
        if tensor.numel():
            assert relative_error({**grads, "x": dx}[name], tensor.grad.numpy()) < 1e-10, name


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (partial(Adam, lr=5e-3), partial(torch.optim.Adam, lr=5e-3)),
        (partial(Momentum, **MOMENTUM, decay=1.0), partial(torch.optim.SGD, **MOMENTUM)),
        (partial(Momentum, **MOMENTUM, decay=1.0, nesterov=True), partial(torch.optim.SGD, **MOMENTUM, nesterov=True)),
    ],
    ids=["adam", "momentum", "nesterov"],
)
def test_ten_optimiser_steps_end_where_pytorchs_do(ours, theirs):
    net = small_net("highway", "tanh", 3)
    x, y = small_batch()
    p = as_tensors(net)
    our_optimizer, their_optimizer = ours(net.params), theirs(list(p.values()))
    for _ in range(10):
        logits, cache = net.forward(x)
        our_optimizer.step(net.backward(softmax_cross_entropy(logits, y)[1], cache))
        their_optimizer.zero_grad()
        logits = torch_logits(p, torch.tensor(x), "highway", "tanh")
        torch.nn.functional.cross_entropy(logits, torch.tensor(y)).backward()
        their_optimizer.step()
    for name, tensor in p.items():
        np.testing.assert_allclose(net.params[name], tensor.detach().numpy(), rtol=1e-9, err_msg=name)
