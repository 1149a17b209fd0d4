"""Training in the laboratory: with one BLAS thread, so that bits do not depend on the machine, and resumable."""

import os
from collections.abc import Callable, Iterator

import highway_networks
from conv_highway_networks import ConvNet
from highway_lab import checkpoints
from highway_lab.slices import in_slices, slices_of
from highway_lab.threads import one_thread
from highway_networks import Dataset, DeepNet, Run, TrainingConfig, check_hyperparameters


class Training(highway_networks.Training):
    """A training that takes one BLAS thread."""

    def __init__(self, config: TrainingConfig, data: Dataset):
        check_hyperparameters(config)  # again: a worker process may lack a block or a loss that a user's file has added
        with one_thread():
            super().__init__(config, data)
        kind, largest = type(self.net), max(self.workspaces)
        if kind is ConvNet or (kind is DeepNet and len(slices_of(self.net, largest)) > 1):
            self.net = in_slices(self.net)
            self.workspaces = {size: self.net.workspace(size, self.rng) for size in self.workspaces}

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
    any_code: bool | None = None,
) -> Run:
    """Train one net as `highway_networks.train` does; returns the run, whose `net` is the trained net.

    `report` is called with the run so far after each epoch, the untrained net's (epoch 0) included, and where a run
    goes on. `keep`: where a checkpoint is kept after each epoch, from which the run goes on if it is there; one of
    other code is used if `any_code`, refused if that is False, written over if it is None. Raises InputError for this,
    and if `data` does not suit the config.
    """
    training = Training(config, data)
    if keep and checkpoints.restore(keep, training, any_code=any_code):
        report(training.run())  # also of one whose last epoch was its checkpoint's
    for _ in training.epochs():
        if keep:
            checkpoints.save(keep, training)
        report(training.run())
    return training.run()
