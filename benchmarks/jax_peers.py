"""The training step in JAX: one jitted function for all of it, its layers in a scan, or unrolled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from highway_networks import DeepNet, Parameters

from .contenders import LR

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

jax.config.update("jax_platforms", "cpu")


def affine(x, layer):
    W, b = layer
    return x @ W + b


def highway(x, layer):
    h, t = jnp.split(affine(x, layer), 2, axis=1)
    return x + jax.nn.sigmoid(t) * (jnp.tanh(h) - x)


def mean_loss(params, x, y, through_blocks):
    first, blocks, last = params
    x = through_blocks(jnp.tanh(affine(x, first)), blocks)
    log_p = jax.nn.log_softmax(affine(x, last))
    return -jnp.take_along_axis(log_p, y[:, None], axis=1).mean()


def clipped_gradients(params, x, y, clip, through_blocks):
    loss, grads = jax.value_and_grad(mean_loss)(params, x, y, through_blocks)
    norm = jnp.sqrt(sum(jnp.vdot(grad, grad) for grad in jax.tree.leaves(grads)))
    return loss, jax.tree.map(lambda grad: grad * jnp.minimum(1, clip / norm), grads)


def adam(params, m, v, t, grads):
    t = t + 1
    m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
    v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, grads)
    unbias_m, unbias_v = 1 - BETA1**t, 1 - BETA2**t
    update = lambda p, m, v: p - LR * (m / unbias_m) / (jnp.sqrt(v / unbias_v) + EPS)  # noqa: E731
    return jax.tree.map(update, params, m, v), m, v, t


def step(state, x, y, clip, through_blocks):
    loss, grads = clipped_gradients(state[0], x, y, clip, through_blocks)
    return adam(*state, grads), loss


class Scanned:
    """The blocks' weights stacked, H and T side by side in one product; one scan over the blocks."""

    arrange = np.asarray  # keeps a tensor of all blocks as one array

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        self.net = net
        matrices = (net.params.input, net.params.blocks, net.params.output)
        first, blocks, last = ((matrix[..., :-1].swapaxes(-1, -2), matrix[..., -1]) for matrix in matrices)
        params = jax.tree.map(jnp.array, (first, tuple(map(self.arrange, blocks)), last))
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state = params, zeros(params), zeros(params), jnp.float32(0)
        self.batch = jnp.array(x), jnp.array(y), jnp.float32(clip)
        self.step = jax.jit(partial(step, through_blocks=self.through_blocks), donate_argnums=0)
        self.gradients = jax.jit(partial(clipped_gradients, through_blocks=self.through_blocks))

    @staticmethod
    def through_blocks(x, blocks):
        return jax.lax.scan(lambda x, block: (highway(x, block), None), x, blocks)[0]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.state, loss = self.step(self.state, *self.batch)
        jax.block_until_ready((self.state, loss))

    def loss_and_gradients(self) -> tuple[float, Parameters]:
        loss, grads = self.gradients(self.state[0], *self.batch)
        return float(loss), self.as_ours(grads)

    def parameters(self) -> Parameters:
        return self.as_ours(self.state[0])

    def as_ours(self, params) -> Parameters:
        """Return parameters, or gradients, as tensors of our net."""
        ours = self.net.new_parameters()
        for matrix, (W, b) in zip((ours.input, ours.blocks, ours.output), params, strict=True):
            matrix[..., :-1], matrix[..., -1] = np.asarray(W).swapaxes(-1, -2), np.asarray(b)
        return ours


class Unrolled(Scanned):
    """An array for each block; the blocks written out one after another."""

    arrange = list

    @staticmethod
    def through_blocks(x, blocks):
        for block in zip(*blocks, strict=True):
            x = highway(x, block)
        return x
