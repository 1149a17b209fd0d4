"""The contenders of a convolutional net's training step: forward, loss, backward, weight decay and Nesterov momentum.

As in contenders.py, but that a problem ends with a ConvConfig. There is no dropout: no two libraries draw alike.
"""

import dataclasses
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np

import conv_highway_networks as cn
import highway_networks as hn
from conv_highway_networks import (
    CONV_FIELDS,
    NETS,
    AveragePoolLayer,
    ConvConfig,
    ConvNet,
    ConvolutionLayer,
    ConvTraining,
    ConvWorkspace,
    MaxPoolLayer,
    OutputLayer,
    configure,
    fit_to,
)
from highway_networks import CLASSES, Dataset

from . import contenders

SAMPLES = {  # of a data set: the shape of its images, how many there are for training, and for testing
    "mnist": ((1, 28, 28), 60_000, 10_000),
    "cifar-10": ((3, 32, 32), 50_000, 10_000),
    "digits": ((1, 8, 8), 1437, 360),
}
STEPS = 3  # of a training run whose memory is measured: more take no more
PASSES = (  # what is timed: where the function is, its name there, the part that it is, in which direction if it tells
    (ConvNet, "forward", "batch copy", "forward"),
    (cn, "patches_forward", "patches"),
    (cn, "affine_forward", "products"),
    (ConvolutionLayer, "forward", "zeros between images"),
    (MaxPoolLayer, "forward", "pools"),
    (AveragePoolLayer, "forward", "pools"),
    (OutputLayer, "forward", "output layer"),
    (ConvNet, "backward", "the rest", "backward"),
    (OutputLayer, "backward", "output layer"),
    (AveragePoolLayer, "backward", "pools"),
    (MaxPoolLayer, "backward", "pools"),
    (ConvolutionLayer, "backward", "zeros between images"),
    (ConvolutionLayer, "_affine_backward", "products"),
    (cn, "patches_backward", "patches"),
    (hn, "clip_global_norm", "norm", "update"),
    (hn, "decay_weights", "weight decay", "update"),
    (hn.Momentum, "step", "momentum", "update"),
)


@dataclass(frozen=True)
class ConvCase:
    """A step of a net of the paper's, on B images."""

    net: str
    batch: int = 100

    # What PyTorch's default layout needs in single precision; a small net passes by the usual ones.
    tolerances: ClassVar = (5e-3, 1e-2)

    def __str__(self) -> str:
        return self.net + f", batch {self.batch:,}" * (self.batch != ConvCase.batch)

    @property
    def samples(self) -> tuple[tuple[int, int, int], int, int]:
        """Those of the net's data set, as in SAMPLES."""
        return SAMPLES[NETS[self.net].dataset]

    def problem(self) -> tuple[ConvNet, np.ndarray, np.ndarray, ConvConfig]:
        """A net, a batch x (B, C, H, W) and y (B,), and how to train; the same at every call."""
        rng, config, (shape, *_) = np.random.default_rng(0), configure(self.net, dropout=0.0), self.samples
        net = ConvNet(shape, CLASSES, **{name: getattr(config, name) for name in CONV_FIELDS}, rng=rng)
        x = rng.uniform(-1, 1, (self.batch, *shape)).astype(np.float32)
        return net, x, rng.integers(0, CLASSES, self.batch), config

    def ours(self) -> "Ours":
        """What every other contender is compared with."""
        return Ours(*self.problem())


class Stopwatch:
    """What functions take by themselves: without the functions that they call, where those are timed, too."""

    def __init__(self):
        self.seconds, self.place, self.since = Counter(), None, 0.0

    def timed(self, function: Callable, part: str, direction: str = "") -> Callable:
        """The function, whose time counts as the part's; in the direction of the one that calls it if none is given."""

        def run(*arguments, **named):
            outer = self.place
            self._move((direction or outer[0], part))
            try:
                return function(*arguments, **named)
            finally:
                self._move(outer)

        return run

    def _move(self, place: tuple[str, str] | None) -> None:
        now = time.perf_counter()
        if self.place:
            self.seconds[": ".join(self.place)] += now - self.since
        self.place, self.since = place, now


class Ours(contenders.Ours):
    """This project, as in training."""

    def __init__(self, net: ConvNet, x: np.ndarray, y: np.ndarray, config: ConvConfig):
        self.net, self.x, self.y, self.clip, self.weight_decay = net, x, y, math.inf, config.weight_decay
        self.optimizer = hn.OPTIMIZERS[config.optimizer](net.params, config)
        self.loss, self.workspace = hn.LOSSES[config.loss], ConvWorkspace(net, len(x), np.random.default_rng(0))

    def seconds_by_pass(self, steps: int) -> Counter[str]:
        """Of the step as it is: its functions are timed, wherever they are called."""
        watch = Stopwatch()
        with ExitStack() as patches:
            for place, name, *part in PASSES:
                patches.enter_context(patch.object(place, name, watch.timed(getattr(place, name), *part)))
            for layer in self.workspace.layers:
                if isinstance(layer, ConvolutionLayer):
                    pair = {name: getattr(layer.block, name) for name in ("forward", "backward")}
                    block = layer.block._replace(**{name: watch.timed(f, "elementwise") for name, f in pair.items()})
                    patches.enter_context(patch.object(layer, "block", block))
            loss = self.loss._replace(function=watch.timed(self.loss.function, "loss", "output"))
            patches.enter_context(patch.object(self, "loss", loss))
            watch.timed(self.run, "the rest", "step")(steps)
        return watch.seconds


def peak_of_training(case: ConvCase) -> float:
    """The memory in MiB that this process takes at most, when it has trained the net as its recipe says.

    Data are made up, as many as the recipe has; a few steps of an epoch are done, and a few test images are scored.
    """
    (shape, n_train, n_test), rng = case.samples, np.random.default_rng(0)
    images = [rng.integers(0, 256, (n, *shape), np.uint8) for n in (n_train, n_test)]
    data = Dataset(images[0], np.arange(n_train) % CLASSES, images[1], np.arange(n_test) % CLASSES, CLASSES)
    config = configure(case.net, batch_size=case.batch, **fit_to(data, case.net, {}))
    training = ConvTraining(config, data)
    training.config = dataclasses.replace(config, n_train=STEPS * case.batch)
    next(training.epochs(scored=False))
    few = slice(STEPS * case.batch)
    hn.evaluate(training.net, data.test_x[few], data.test_y[few], training.loss, training.inputs)
    return peak_mib()


def peak_mib() -> float:
    """The memory that this process has taken at most; getrusage may tell that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
