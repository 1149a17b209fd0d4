"""The training step in JAX: one jitted function for all of it, its layers in a scan, or unrolled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from highway_networks import DeepNet

from .contenders import LR, Tensors

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

jax.config.update("jax_platforms", "cpu")


def highway(x, layer):
    W, b = layer
    h, t = jnp.split(x @ W + b, 2, axis=1)
    return x + jax.nn.sigmoid(t) * (jnp.tanh(h) - x)


def mean_loss(params, x, y, through_layers):
    x = jnp.tanh(x @ params["W_in"] + params["b_in"])
    x = through_layers(x, params["layers"])
    log_p = jax.nn.log_softmax(x @ params["W_out"] + params["b_out"])
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


def clipped_gradients(params, x, y, clip, through_layers):
    loss, grads = jax.value_and_grad(mean_loss)(params, x, y, through_layers)
    norm = jnp.sqrt(sum(jnp.vdot(grad, grad) for grad in jax.tree.leaves(grads)))
    return loss, jax.tree.map(lambda grad: grad * jnp.minimum(1, clip / norm), grads)


def adam(params, m, v, t, grads):
    t = t + 1
    m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
    v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, grads)
    unbias_m, unbias_v = 1 - BETA1**t, 1 - BETA2**t
    update = lambda p, m, v: p - LR * (m / unbias_m) / (jnp.sqrt(v / unbias_v) + EPS)  # noqa: E731
    return jax.tree.map(update, params, m, v), m, v, t


def step(state, x, y, clip, through_layers):
    loss, grads = clipped_gradients(state[0], x, y, clip, through_layers)
    return adam(*state, grads), loss


class Scanned:
    """The layers' weights stacked, H and T side by side in one product; one scan over the layers."""

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        p = net.params
        layers = np.concatenate((p["W_H"], p["W_T"]), axis=2), np.concatenate((p["b_H"], p["b_T"]), axis=1)
        ends = {name: p[name] for name in ("W_in", "b_in", "W_out", "b_out")}
        params = jax.tree.map(jnp.array, ends | {"layers": self.arrange(*layers)})
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state = params, zeros(params), zeros(params), jnp.float32(0)
        self.batch = jnp.array(x), jnp.array(y), jnp.float32(clip)
        self.step = jax.jit(partial(step, through_layers=self.through_layers), donate_argnums=0)
        self.gradients = jax.jit(partial(clipped_gradients, through_layers=self.through_layers))

    @staticmethod
    def arrange(W: np.ndarray, b: np.ndarray):
        """The layers' weights (L, D, 2D) and biases (L, 2D) as `through_layers` takes them."""
        return W, b

    @staticmethod
    def stack(layers) -> tuple:
        """The inverse of `arrange`."""
        return layers

    @staticmethod
    def through_layers(x, layers):
        return jax.lax.scan(lambda x, layer: (highway(x, layer), None), x, layers)[0]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.state, loss = self.step(self.state, *self.batch)
        jax.block_until_ready((self.state, loss))

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        loss, grads = self.gradients(self.state[0], *self.batch)
        return float(loss), self.as_arrays(grads)

    def parameters(self) -> Tensors:
        return self.as_arrays(self.state[0])

    def as_arrays(self, params) -> Tensors:
        """Parameters, or gradients, under our names."""
        W, b = self.stack(params["layers"])
        W_H, W_T = jnp.split(W, 2, axis=2)
        b_H, b_T = jnp.split(b, 2, axis=1)
        ends = {name: tensor for name, tensor in params.items() if name != "layers"}
        return {name: np.array(t) for name, t in (ends | {"W_H": W_H, "b_H": b_H, "W_T": W_T, "b_T": b_T}).items()}


class Unrolled(Scanned):
    """An array for each layer; the layers written out one after another."""

    @staticmethod
    def arrange(W: np.ndarray, b: np.ndarray):
        return list(zip(W, b, strict=True))

    @staticmethod
    def stack(layers) -> tuple:
        return tuple(jnp.stack(tensors) for tensors in zip(*layers, strict=True))

    @staticmethod
    def through_layers(x, layers):
        for layer in layers:
            x = highway(x, layer)
        return x
