"""Training in the laboratory: with one BLAS thread, so that bits do not depend on the machine, and resumable."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import highway_networks
from highway_lab import checkpoints
from highway_lab.jobs import check_memory
from highway_lab.threads import one_thread
from highway_networks import BLOCKS, Config, Dataset, Run, TrainingConfig, batch_sizes, check_hyperparameters


def memory_of(config: Any, data: Dataset) -> int:
    """Estimate the bytes of a run, by the configuration's own `memory` if it has one; 0 for a family without.

    Those of a DeepNet are parameters, Adam's moments and, for each size of batch, gradients and workspace.
    """
    if hasattr(config, "memory"):
        return config.memory(data)
    if not isinstance(config, Config):
        return 0
    d_in, d_out, L, D = math.prod(data.train_x.shape[1:]), data.outputs or 0, config.depth, config.hidden
    rows, sizes = BLOCKS[config.block].rows(D), batch_sizes(config)
    n_params = D * (d_in + 1) + L * rows * (D + 1) + d_out * (D + 1)
    a_sample = d_in + 1 + (L + 1) * (D + 1) + (L + 1) * rows + 3 * D
    return (n_params * (3 + len(sizes)) + a_sample * sum(sizes)) * np.dtype(config.dtype).itemsize


class Training(highway_networks.Training):
    """A training that takes one BLAS thread; raises ArgumentError for one that takes more memory than there is."""

    def __init__(self, config: TrainingConfig, data: Dataset):
        check_hyperparameters(config)  # again: a worker process may lack a block or a loss that a user's file has added
        with one_thread():
            super().__init__(config, data)

    def new_net(self, rng: np.random.Generator) -> Any:
        check_memory(memory_of(self.config, self.data))
        return super().new_net(rng)

    def epochs(self, *, scored: bool = True) -> Iterator[float]:
        """Train as the core does, each epoch with one thread."""
        steps = super().epochs(scored=scored)
        while True:
            with one_thread():
                try:
                    loss = next(steps)
                except StopIteration:
                    return
            yield loss


def train_resumably(
    config: TrainingConfig,
    data: Dataset,
    *,
    report: Callable[[Run], None] = lambda run: None,
    keep: str | os.PathLike | None = None,
    any_code: bool = False,
) -> Run:
    """Train one net as `highway_networks.train` does; returns the run, whose `net` is the trained net.

    `report` is called with the run so far after each epoch, the untrained net's (epoch 0) included, and where a run
    goes on. `keep`: where a checkpoint is kept after each epoch, from which the run goes on if it is there and of
    today's code, or of `any_code`. Raises InputError if `data` does not suit the config.
    """
    training = Training(config, data)
    if keep and checkpoints.restore(keep, training, any_code=any_code):
        report(training.run())  # also of one whose last epoch was its checkpoint's
    for _ in training.epochs():
        if keep:
            checkpoints.save(keep, training)
        report(training.run())
    return training.run()
