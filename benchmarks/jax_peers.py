"""The training step in JAX: one jitted function for all of it, its layers in a scan, or unrolled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from highway_networks import Config, DeepNet, Parameters

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


def clipped_gradients(params, x, y, config, through_blocks):
    loss, grads = jax.value_and_grad(mean_loss)(params, x, y, through_blocks)
    norm = jnp.sqrt(sum(jnp.vdot(grad, grad) for grad in jax.tree.leaves(grads)))
    return loss, jax.tree.map(lambda grad: grad * jnp.minimum(1, config.clip / norm), grads)


def step(state, x, y, config, through_blocks):
    """One step of Adam; the state is parameters, their moments m and v, and the number of steps."""
    params, m, v, t = state
    loss, grads = clipped_gradients(params, x, y, config, through_blocks)
    t = t + 1
    m = jax.tree.map(lambda m, g: config.beta1 * m + (1 - config.beta1) * g, m, grads)
    v = jax.tree.map(lambda v, g: config.beta2 * v + (1 - config.beta2) * g * g, v, grads)
    unbias_m, unbias_v = 1 - config.beta1**t, 1 - config.beta2**t

    def updated(p, m, v):
        return p - config.lr * (m / unbias_m) / (jnp.sqrt(v / unbias_v) + config.eps)

    return (jax.tree.map(updated, params, m, v), m, v, t), loss


class Scanned:
    """The blocks' weights stacked, H and T side by side in one product; one scan over the blocks."""

    arrange = np.asarray  # keeps a tensor of all blocks as one array

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, config: Config):
        self.net = net
        matrices = (net.params.input, net.params.blocks, net.params.output)
        first, blocks, last = ((matrix[..., :-1].swapaxes(-1, -2), matrix[..., -1]) for matrix in matrices)
        params = jax.tree.map(jnp.array, (first, tuple(map(self.arrange, blocks)), last))
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state = params, zeros(params), zeros(params), jnp.float32(0)
        self.batch = jnp.array(x), jnp.array(y)
        how = {"config": config, "through_blocks": self.through_blocks}
        self.step = jax.jit(partial(step, **how), donate_argnums=0)
        self.gradients = jax.jit(partial(clipped_gradients, **how))

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
    arrange = list  # an array for each block

    @staticmethod
    def through_blocks(x, blocks):
        for block in zip(*blocks, strict=True):
            x = highway(x, block)
        return x
