"""Nets some of whose parameters are not trained, and their configuration."""

import math
from dataclasses import dataclass

import numpy as np

from highway_networks import Config, Dataset, DeepNet, InputError, hyperparameter

from .blocks import make_known


class ArmNet(DeepNet):
    """A net of a kind that a study compares, which counts its clipped steps and all its steps.

    frozen: names of parameters that are not trained: their gradients are 0.
    shared: names of tensors (L, D) of which all units of a block share one number. They begin alike, and each gets the
    gradient of that number, divided by √D, so that the norm counts it once; Adam does not see the divisor.
    """

    frozen: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.buffers["steps"] = np.zeros(2, np.int64)  # clipped, all: a checkpoint holds them, too

    def backward(self, dlogits, cache):
        gradients = super().backward(dlogits, cache)
        for name in self.frozen:
            gradients[name][...] = 0
        for name in self.shared:
            gradient = gradients[name]
            gradient[...] = gradient.sum(axis=1, keepdims=True) / math.sqrt(self.hidden)
        return gradients

    def train_step(self, *batch, clip: float = 0.0, **options):
        loss, norm = super().train_step(*batch, clip=clip, **options)
        self.buffers["steps"] += 0 < clip < norm, True
        return loss, norm

    @property
    def clipped(self) -> float:
        """Share of the steps whose gradients were clipped."""
        clipped, steps = self.buffers["steps"]
        return clipped / steps

    @property
    def n_trained(self) -> int:
        """Number of parameters that are trained, a shared one counted once."""
        fixed = sum(self.params[name].size for name in self.frozen)
        return self.params.flat.size - fixed - sum(self.params[name].size - self.depth for name in self.shared)


@dataclass(frozen=True)
class ArmConfig(Config):
    """All hyperparameters of a run of an ArmNet; names of parameters stand between commas."""

    frozen: str = hyperparameter("", "parameters that stay as they are drawn")
    zero: str = hyperparameter("", "parameters that stay 0: a branch without weights is one learned number a unit")
    shared: str = hyperparameter("", "biases of which the units of a block share one")
    identity: bool = hyperparameter(False, "whether each W_H begins as the identity, times init_gain")

    def __post_init__(self) -> None:
        make_known(self.block)  # which may have a number
        super().__post_init__()

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        make_known(self.block)  # to another process, too

    def new_net(self, data: Dataset, rng: np.random.Generator) -> ArmNet:
        """Make the net for `data`, whose weights `rng` draws as those of a DeepNet."""
        drawn = super().new_net(data, rng)
        net = ArmNet(**drawn.config, rng=None)
        net.params = drawn.params
        frozen, zero, net.shared = (tuple(filter(None, of.split(","))) for of in (self.frozen, self.zero, self.shared))
        net.frozen = frozen + zero
        if unknown := {*net.frozen, *net.shared} - net.params.keys():
            expected = f"expected names among {', '.join(net.params)}"
            raise InputError(f"frozen, zero, shared: {expected}, found {min(unknown)}; rename it")
        for name in zero:
            net.params[name] = 0
        if self.identity:
            net.params["W_H"] = self.init_gain * np.eye(self.hidden)
        return net
