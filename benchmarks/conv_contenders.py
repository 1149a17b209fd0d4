"""The contenders of a convolutional net's training step: forward, loss, backward, weight decay and Nesterov momentum.

They are as in contenders.py, but a problem ends with a ConvConfig. There is no dropout: no two libraries draw alike.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import conv_highway_networks as cn
from conv_highway_networks import AveragePoolLayer, ConvNet, ConvolutionLayer, ConvWorkspace, MaxPoolLayer, OutputLayer
from conv_recipes import NETS, ConvConfig, configure
from highway_lab.commands import fit_to
from highway_lab.datasets import CLASSES
from highway_lab.training import Training
from highway_networks import LOSSES, OPTIMIZERS, Dataset, evaluate

from . import contenders

SAMPLES = {  # shape of a data set's images, number of training images, number of test images
    "mnist": ((1, 28, 28), 60_000, 10_000),
    "cifar-10": ((3, 32, 32), 50_000, 10_000),
    "digits": ((1, 8, 8), 1437, 360),
}
STEPS = 3  # of a training run whose memory is measured: more take no more


@dataclass(frozen=True)
class ConvCase:
    """A step of one of the paper's nets, on B images."""

    net: str
    batch: int = 100

    # What PyTorch's default layout needs in single precision; a small net passes with the usual ones.
    tolerances: ClassVar = (5e-3, 1e-2)

    def __str__(self) -> str:
        return self.net + f", batch {self.batch:,}" * (self.batch != ConvCase.batch)

    @property
    def samples(self) -> tuple[tuple[int, int, int], int, int]:
        """The entry of the net's data set in SAMPLES."""
        return SAMPLES[NETS[self.net].dataset]

    def problem(self) -> tuple[ConvNet, np.ndarray, np.ndarray, ConvConfig]:
        """Return a net, a batch x (B, C, H, W) and y (B,), and how to train: the same at every call."""
        rng, config, (shape, *_) = np.random.default_rng(0), configure(self.net, dropout=0.0), self.samples
        net = config.build(shape, CLASSES, rng)
        x = rng.uniform(-1, 1, (self.batch, *shape)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), config

    def ours(self) -> "Ours":
        """Return our contender, with which every other is compared."""
        return Ours(*self.problem())


class Ours(contenders.Ours):
    """This project's training step of a convolutional net."""

    passes = (
        (ConvNet, "forward", "batch copy", "forward"),
        (cn, "patches_forward", "patches"),
        (cn, "affine_forward", "products"),
        (ConvolutionLayer, "forward", "the rest"),
        (MaxPoolLayer, "forward", "pools"),
        (AveragePoolLayer, "forward", "pools"),
        (OutputLayer, "forward", "output layer"),
        (ConvNet, "backward", "the rest", "backward"),
        (OutputLayer, "backward", "output layer"),
        (AveragePoolLayer, "backward", "pools"),
        (MaxPoolLayer, "backward", "pools"),
        (ConvolutionLayer, "_add_to_dW", "products"),
        (ConvolutionLayer, "_add_to_dx", "products"),
        (cn, "patches_backward", "patches"),
        *contenders.UPDATE_PASSES,
    )

    def __init__(self, net: ConvNet, x: np.ndarray, y: np.ndarray, config: ConvConfig):
        self.net, self.x, self.y, self.clip, self.weight_decay = net, x, y, math.inf, config.weight_decay
        self.optimizer = OPTIMIZERS[config.optimizer](net.params, config)
        self.loss, self.workspace = LOSSES[config.loss], ConvWorkspace(net, len(x), np.random.default_rng(0))

    def layers_of_blocks(self) -> Sequence[ConvolutionLayer]:
        """Return the layers whose attribute `block` computes blocks."""
        layers = [layer for part in self.workspace.slices for layer in part.layers]
        return [layer for layer in layers if isinstance(layer, ConvolutionLayer)]


def peak_of_training(case: ConvCase) -> float:
    """Train a net as its recipe says; return the largest memory of this process, in MiB.

    The data are made up, as many as the recipe has. A few steps are done, and a few test images scored.
    """
    (shape, n_train, n_test), rng = case.samples, np.random.default_rng(0)
    images = [rng.integers(0, 256, (n, *shape), np.uint8) for n in (n_train, n_test)]
    data = Dataset(images[0], np.arange(n_train) % CLASSES, images[1], np.arange(n_test) % CLASSES, CLASSES)
    config = configure(case.net, batch_size=case.batch, **fit_to(data, configure(case.net), {}))
    training = Training(config, data)
    training.config = dataclasses.replace(config, n_train=STEPS * case.batch)
    next(training.epochs(scored=False))
    few = slice(STEPS * case.batch)
    evaluate(training.net, data.test_x[few], data.test_y[few], training.loss)
    return peak_mib()


def peak_mib() -> float:
    """Return the largest memory that this process has taken; getrusage may count that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
