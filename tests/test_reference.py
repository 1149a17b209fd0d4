"""The engine against the same mathematics in plain form: a dictionary of tensors, loops, new arrays.

Whatever the engine does for speed (samples as columns, biases among the weights, flat vectors, reused memory, folded
constants) must not change its float64 results beyond rounding.
"""

import numpy as np
import pytest
from helpers import relative_error, small_batch, small_net

from highway_networks import Adam, Momentum, Workspace, clip_global_norm, softmax_cross_entropy

ACTIVATIONS = {
    "tanh": (np.tanh, lambda H: 1 - H**2),
    "relu": (lambda z: np.maximum(z, 0), lambda H: np.where(H > 0, 1.0, 0.0)),
}
TOLERANCE = 1e-12


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def gates(p, x, layer, block):
    """Return T and C of equation 2; they are constants in a block without gates."""
    if block == "plain":
        return 1.0, 0.0
    if block == "residual":
        return 1.0, 1.0
    T = sigmoid(x @ p["W_T"][layer].T + p["b_T"][layer])
    if block == "highway":
        return T, 1 - T
    return T, sigmoid(x @ p["W_C"][layer].T + p["b_C"][layer])


def forward(p, x, block, activation):
    """Return logits, and for the backward pass the net's input, x, H, T, C of every block, and the last x."""
    act, _ = ACTIVATIONS[activation]
    inputs, x = x, act(x @ p["W_in"].T + p["b_in"])
    blocks = []
    for layer in range(len(p["W_H"])):
        H = act(x @ p["W_H"][layer].T + p["b_H"][layer])
        T, C = gates(p, x, layer, block)
        blocks.append((x, H, T, C))
        x = H * T + x * C
    return x @ p["W_out"].T + p["b_out"], (inputs, blocks, x)


def cross_entropy(logits, y):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    one_hot = np.eye(logits.shape[1])[y]
    return -np.mean(np.log((probabilities * one_hot).sum(axis=1))), (probabilities - one_hot) / len(y)


def backward(p, dlogits, values, block, activation):
    """Return gradients by name: equation 2 differentiated; equation 9 is its coupled case."""
    _, act_prime = ACTIVATIONS[activation]
    inputs, blocks, x = values
    grads = {name: np.zeros_like(tensor) for name, tensor in p.items()}

    def through_affine_map(branch, layer, x, dz):
        grads[f"W_{branch}"][layer], grads[f"b_{branch}"][layer] = dz.T @ x, dz.sum(axis=0)
        return dz @ p[f"W_{branch}"][layer]

    grads["W_out"], grads["b_out"] = dlogits.T @ x, dlogits.sum(axis=0)
    dy = dlogits @ p["W_out"]
    for layer in reversed(range(len(blocks))):
        x, H, T, C = blocks[layer]
        dH, dT, dC = T * dy, H * dy, x * dy
        dx = C * dy + through_affine_map("H", layer, x, dH * act_prime(H))
        if block == "highway":
            dx += through_affine_map("T", layer, x, (dT - dC) * T * (1 - T))
        if block == "highway-uncoupled":
            dx += through_affine_map("T", layer, x, dT * T * (1 - T))
            dx += through_affine_map("C", layer, x, dC * C * (1 - C))
        dy = dx
    x_0, *_ = blocks[0]
    dz = dy * act_prime(x_0)
    grads["W_in"], grads["b_in"] = dz.T @ inputs, dz.sum(axis=0)
    return grads


def clip(grads, max_norm):
    norm = np.sqrt(sum((gradient**2).sum() for gradient in grads.values()))
    return norm, {name: gradient * min(1, max_norm / norm) for name, gradient in grads.items()}


class ReferenceAdam:
    """Algorithm 1 of Kingma & Ba (2015), line by line."""

    def __init__(self, p, lr, beta1=0.9, beta2=0.999, eps=1e-8):
        self.lr, self.beta1, self.beta2, self.eps, self.t = lr, beta1, beta2, eps, 0
        self.m = {name: np.zeros_like(tensor) for name, tensor in p.items()}
        self.v = {name: np.zeros_like(tensor) for name, tensor in p.items()}

    def step(self, p, grads):
        self.t += 1
        for name, g in grads.items():
            self.m[name] = self.beta1 * self.m[name] + (1 - self.beta1) * g
            self.v[name] = self.beta2 * self.v[name] + (1 - self.beta2) * g**2
            m_hat = self.m[name] / (1 - self.beta1**self.t)
            v_hat = self.v[name] / (1 - self.beta2**self.t)
            p[name] = p[name] - self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


class ReferenceMomentum:
    """v ← μ·v − lr·g; then v, or from the look-ahead point μ·v − lr·g (Sutskever et al. 2013); step t at lr·decay^t."""

    def __init__(self, p, lr, momentum, decay, nesterov=False):
        self.lr, self.momentum, self.decay, self.nesterov, self.t = lr, momentum, decay, nesterov, 0
        self.v = {name: np.zeros_like(tensor) for name, tensor in p.items()}

    def step(self, p, grads):
        lr = self.lr * self.decay**self.t
        self.t += 1
        for name, g in grads.items():
            self.v[name] = self.momentum * self.v[name] - lr * g
            p[name] = p[name] + (self.momentum * self.v[name] - lr * g if self.nesterov else self.v[name])


MOMENTUM = {"lr": 0.1, "momentum": 0.9, "decay": 0.95}
OPTIMIZERS = {
    "adam": (Adam, ReferenceAdam, {"lr": 5e-3}),
    "adam with other constants": (Adam, ReferenceAdam, {"lr": 1e-2, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}),
    "momentum": (Momentum, ReferenceMomentum, MOMENTUM),
    "nesterov": (Momentum, ReferenceMomentum, MOMENTUM | {"nesterov": True}),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("block", ["plain", "highway", "highway-uncoupled", "residual"])
def test_several_training_steps_equal_the_reference(block, activation, optimizer):
    """Loss, norm, every gradient and every parameter, through six steps: full and short batches, clipped or not."""
    net = small_net(block, activation, 3)
    p = {name: tensor.copy() for name, tensor in net.params.items()}
    engine, reference, constants = OPTIMIZERS[optimizer]
    engine, reference = engine(net.params, **constants), reference(p, **constants)
    workspaces = {rows: Workspace(net, rows) for rows in (7, 3)}
    images, labels = small_batch(40)
    for start, rows, max_norm in ((0, 7, 9), (7, 3, 9), (10, 7, 0.1), (17, 7, 9), (24, 3, 0.1), (27, 7, 9)):
        x, y = images[start : start + rows], labels[start : start + rows]

        logits, cache = net.forward(x, workspaces[rows])
        loss, dlogits = softmax_cross_entropy(logits, y)
        grads = net.backward(dlogits, cache)
        norm = clip_global_norm(grads, max_norm)
        engine.step(grads)

        expected_logits, values = forward(p, x, block, activation)
        expected_loss, expected_dlogits = cross_entropy(expected_logits, y)
        expected_norm, expected_grads = clip(backward(p, expected_dlogits, values, block, activation), max_norm)
        reference.step(p, expected_grads)

        assert relative_error(logits, expected_logits) < TOLERANCE
        assert loss == pytest.approx(expected_loss, rel=TOLERANCE)
        assert norm == pytest.approx(expected_norm, rel=TOLERANCE)
        assert (norm > max_norm) == (max_norm == 0.1)
        for name, tensor in p.items():
            assert relative_error(grads[name], expected_grads[name]) < TOLERANCE, name
            assert relative_error(net.params[name], tensor) < TOLERANCE, name
