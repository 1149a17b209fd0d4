"""Nets some of whose parameters are not trained, and their training."""

import numpy as np

from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet


class PartlyFrozenNet(DeepNet):
    """A net some of whose parameters have gradients of 0; `frozen` are their names."""

    frozen: tuple[str, ...] = ()

    def backward(self, dlogits, cache):
        gradients = super().backward(dlogits, cache)
        for name in self.frozen:
            gradients[name][...] = 0
        return gradients

    @property
    def n_trained(self) -> int:
        """Number of parameters that are trained."""
        return self.params.flat.size - sum(self.params[name].size for name in self.frozen)


class ClippedNet(PartlyFrozenNet):
    """A net that counts its clipped steps and all its steps, in a buffer: so a checkpoint holds the counts."""

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.buffers["steps"] = np.zeros(2, np.int64)  # clipped, all

    def train_step(self, *batch, clip: float = 0.0, **options):
        loss, norm = super().train_step(*batch, clip=clip, **options)
        self.buffers["steps"] += 0 < clip < norm, True
        return loss, norm

    @property
    def clipped(self) -> float:
        """Share of the steps whose gradients were clipped."""
        clipped, steps = self.buffers["steps"]
        return clipped / steps


class FrozenTraining(Training):
    """The training of a PartlyFrozenNet, which begins with the parameters of a DeepNet."""

    net_type: type[PartlyFrozenNet] = PartlyFrozenNet

    def __init__(self, config: Config, data: Dataset):
        super().__init__(config, data)
        net = self.net_type(**self.net.config, rng=None)
        net.params, self.net = self.net.params, net  # the optimiser moves these parameters
