"""The training loop that all nets share, and the configuration of a run.

A net reaches the loop by what it offers (see `TrainableNet`); its configuration, a TrainingConfig, makes it. Losses and
optimisers are found in the tables LOSSES and OPTIMIZERS, to which anyone may add.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from highway_lab import ArgumentError, InputError, Interrupted, checkpoints
from highway_lab.cli import BELOW_ONE, POSITIVE, UP_TO_ONE, ZERO_OR_MORE, check_hyperparameters, hyperparameter, one_of
from highway_lab.datasets import Dataset, draw_subset
from highway_lab.jobs import check_memory
from highway_lab.logs import History, Run, numbers
from highway_lab.threads import quiet_threads

# ------------------------------------------------------------------------------------------- the losses


class Loss(NamedTuple):
    """A loss, the score that goes with it (more is better, 1 is perfect), and its kind of targets."""

    function: Callable[..., tuple[float, np.ndarray]]  # outputs (B, K), y, weights -> mean loss, gradient (B, K)
    metric: str
    score: Callable[[np.ndarray, np.ndarray], float]  # outputs, y
    target: str  # "classes" or "numbers"


def weighted_mean(losses: np.ndarray, gradient: np.ndarray, weights: np.ndarray | None) -> tuple[float, np.ndarray]:
    """Return the mean of losses (B,), each times its weight, and `gradient` (B, K) weighted alike, in place."""
    if weights is not None:
        losses = weights * losses
        gradient *= weights[:, None]
    return losses.mean(), gradient


def squared_error(outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Return the mean over samples and targets of (output − y)², and its gradient (B, K); outputs and y are (B, K)."""
    difference = outputs - y
    return weighted_mean((difference * difference).mean(axis=1), 2 / difference.size * difference, weights)


def r_squared(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return 1 − residual / total sum of squares, mean over targets; NaN where a target is constant."""
    residual, total = ((outputs - y) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    total[total == 0] = np.nan
    return float(np.mean(1 - residual / total))


def sigmoid_cross_entropy(
    outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return the mean over samples of −Σ log σ(±output), in nats, and its gradient (B, K).

    Each of K labels is there or not: y (B, K) is 1 or 0, which decides the sign of its output (B, K).
    """
    positive = np.maximum(outputs, 0)  # so that no exponential overflows
    on, off = np.exp(outputs - positive), np.exp(-positive)
    losses = (np.log(on + off) + positive - y * outputs).sum(axis=1)
    return weighted_mean(losses, (on / (on + off) - y) / len(y), weights)


def all_labels_right(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the share of samples whose labels are all right: an output is positive where y is 1."""
    return float(np.mean(((outputs > 0) == (y > 0)).all(axis=1)))


LOSSES = {
    "squared-error": Loss(squared_error, "R²", r_squared, "numbers"),
    "sigmoid-cross-entropy": Loss(sigmoid_cross_entropy, "accuracy", all_labels_right, "numbers"),
}
OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {}  # name -> f(params, config), an object with step(grads, rate)


# ----------------------------------------------------------------------------------------- the schedule


def is_schedule(text: str) -> bool:
    """Tell whether `scheduled_rate` knows this schedule."""
    try:
        return text in ("constant", "cosine") or all(0 < float(share) < 1 for share in text.split(","))
    except ValueError:
        return False


def scheduled_rate(schedule: str, done: float) -> float:
    """Return the factor on the learning rate when the share `done` of all steps is done.

    "constant" is 1, "cosine" half a cosine from 1 to 0 (Loshchilov & Hutter 2017, eq. 5), and "0.5,0.75" a tenth after
    half of the steps, a hundredth after three quarters, as in section 3 of the paper.
    """
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 0.1 ** sum(done >= float(share) for share in schedule.split(","))


SCHEDULE = (is_schedule, "constant, cosine or shares of the training like 0.5,0.75")


# ------------------------------------------------------------------------------------ the configuration


class TrainableNet(Protocol):
    """A net as the training loop uses it."""

    params: Any  # a mapping of tensors, with all of them in one vector, `.flat`
    buffers: dict[str, np.ndarray]  # state that is not trained

    @property
    def train_step(self) -> Callable[..., tuple[float, float]]:
        """Take one step; return the batch's loss and the gradients' norm before clipping (highway_networks.Net)."""

    @property
    def has_gates(self) -> bool:
        """Whether blocks have transform gates."""

    def preprocess(self, x: np.ndarray) -> np.ndarray:
        """Return samples (n, ...) as the net takes them."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return outputs (n, K) of preprocessed samples."""

    def workspace(self, batch_size: int, rng: np.random.Generator) -> Any:
        """Allocate the memory of training steps on batches of one size."""

    def gate_means(self, x: np.ndarray) -> np.ndarray:
        """Return the mean T of each block, (L,), over preprocessed samples."""

    def save(self, path: str | os.PathLike) -> None:
        """Write the net; raises InputError if that fails."""


@dataclass(frozen=True)
class TrainingConfig:
    """Hyperparameters of any training run. Raises InputError for a value that breaks its rule.

    A family of nets adds the fields that describe its nets, and the methods that follow.
    """

    loss: str = hyperparameter("cross-entropy", "what is minimised", one_of(LOSSES))
    optimizer: str = hyperparameter("adam", "update rule", one_of(OPTIMIZERS))
    lr: float = hyperparameter(5e-3, "learning rate", POSITIVE)
    schedule: str = hyperparameter("constant", "of the learning rate: constant, cosine or steps", SCHEDULE)
    lr_decay: float = hyperparameter(1.0, "momentum: factor on lr after each step", UP_TO_ONE)
    momentum: float = hyperparameter(0.9, "momentum: share of the last step kept", BELOW_ONE)
    nesterov: bool = hyperparameter(False, "momentum: Nesterov's")
    beta1: float = hyperparameter(0.9, "Adam: decay of the first moment", BELOW_ONE)
    beta2: float = hyperparameter(0.999, "Adam: decay of the second moment", BELOW_ONE)
    eps: float = hyperparameter(1e-8, "Adam: added to the root of the second moment", POSITIVE)
    weight_decay: float = hyperparameter(0.0, "factor on the weights that is added to their gradients", ZERO_OR_MORE)
    clip: float = hyperparameter(5.0, "largest global L2 norm of the gradients; 0: no limit", ZERO_OR_MORE)
    batch_size: int = hyperparameter(128, "samples a step", POSITIVE)
    drop_last: bool = hyperparameter(False, "leave out each epoch's last batch if it is short")
    epochs: int = hyperparameter(12, "passes over the training samples", POSITIVE)
    n_train: int = hyperparameter(6000, "training samples, drawn at random", POSITIVE)
    n_validation: int = hyperparameter(
        0, "validation samples; the test set is then scored after the last epoch only", ZERO_OR_MORE
    )
    n_scored: int = hyperparameter(0, "training samples that are scored after each epoch; 0: all", ZERO_OR_MORE)
    n_test: int = hyperparameter(2000, "test samples, drawn at random", POSITIVE)
    seed: int = hyperparameter(0, "of subset, weights and shuffling", ZERO_OR_MORE)

    SIZE: ClassVar[str]  # the field that says how large a net is

    def __post_init__(self) -> None:
        check_hyperparameters(self)
        if self.drop_last and self.n_train < self.batch_size:
            raise ArgumentError(
                f"`drop_last`: expected a full batch of {self.batch_size}, found {self.n_train} images; "
                "lower `batch_size`"
            )

    @property
    def title(self) -> str:
        """Name of a net in words."""
        raise NotImplementedError

    def new_net(self, data: Dataset, rng: np.random.Generator) -> TrainableNet:
        """Make the net for `data`, whose weights `rng` draws."""
        raise NotImplementedError

    def memory(self, data: Dataset) -> int:
        """Estimate the bytes that a run takes: parameters, moments and, for each size of batch, the passes."""
        raise NotImplementedError

    def threads(self) -> int:
        """Return how many BLAS threads a run takes."""
        return 1

    def augmented(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return preprocessed training samples after random changes, if the family has any."""
        return x


def batches(config: TrainingConfig, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the sample indices (B,) of one epoch's batches, shuffled."""
    order = rng.permutation(config.n_train)
    end = len(order) - len(order) % config.batch_size if config.drop_last else len(order)
    for start in range(0, end, config.batch_size):
        yield order[start : start + config.batch_size]


def steps_an_epoch(config: TrainingConfig) -> int:
    full, rest = divmod(config.n_train, config.batch_size)
    return full + (rest > 0 and not config.drop_last)


def batch_sizes(config: TrainingConfig) -> set[int]:
    last = 0 if config.drop_last else config.n_train % config.batch_size
    return {min(config.batch_size, config.n_train), last} - {0}


# ---------------------------------------------------------------------------------------------- the run

GATE_SAMPLES = 128  # test samples over which the mean T of a block is taken, whatever the batch size


def evaluate(net: TrainableNet, x: np.ndarray, y: np.ndarray, loss: Loss, rows: int = 512) -> tuple[float, float]:
    """Return mean loss and score over samples x (n, ...), `rows` at a time; both NaN if the loss is not finite."""
    starts = range(0, len(x), rows)
    outputs = np.concatenate([net.predict(net.preprocess(x[start : start + rows])) for start in starts])
    mean = float(loss.function(outputs, y)[0])
    return (mean, loss.score(outputs, y)) if math.isfinite(mean) else (math.nan, math.nan)


def check_targets(data: Dataset, loss: str) -> None:
    """Raise InputError unless the targets suit the loss, and `data.outputs` suits the targets."""
    y = data.train_y
    target = "classes" if np.issubdtype(y.dtype, np.integer) else "numbers"
    if target != LOSSES[loss].target:
        raise ArgumentError(f"`loss`: expected a loss of {target}, found {loss}; choose another")
    if (y.max(initial=0) >= data.outputs) if target == "classes" else (y.shape[1:] != (data.outputs,)):
        found = f"{target} of shape {y.shape}, up to {y.max(initial=0)}"
        raise InputError(f"targets: expected {target} for {data.outputs} outputs, found {found}; mend the data set")


class Training:
    """A run between two epochs: net, optimiser and generator, which decide what follows, and the record.

    epoch, diverged         epochs trained so far; whether a loss was not finite, which ends the run
    history, gate_means     a row an epoch, the untrained net's first, if `epochs` keeps scores
    data, validation        the samples in use; validation samples (x, y)
    """

    def __init__(self, config: TrainingConfig, data: Dataset):
        """Draw subset and weights from the config's seed; raises InputError if `data` does not suit the config."""
        check_hyperparameters(config)  # again: a worker process may lack a block or a loss that a user's file has added
        subset_rng, weight_rng, self.rng = np.random.default_rng(config.seed).spawn(3)
        self.config, self.loss = config, LOSSES[config.loss]
        check_targets(data, config.loss)
        check_memory(config.memory(data))
        data = draw_subset(data, config.n_train, config.n_test, subset_rng, config.n_validation)
        self.validation = data.train_x[config.n_train :], data.train_y[config.n_train :]
        self.data = data._replace(train_x=data.train_x[: config.n_train], train_y=data.train_y[: config.n_train])
        with quiet_threads(1):  # the bits of orthogonal weights would depend on the number of BLAS threads
            self.net = config.new_net(self.data, weight_rng)
        self.optimizer = OPTIMIZERS[config.optimizer](self.net.params, config)
        self.workspaces = {size: self.net.workspace(size, self.rng) for size in batch_sizes(config)}
        self.epoch, self.diverged = 0, False
        self.history = History.empty()
        self.gate_means: list[list[float | None]] = []

    def epochs(self, *, scored: bool = True) -> Iterator[float]:
        """Train to the config's last epoch, or until a loss is not finite; yield each epoch's mean loss over batches.

        With `scored`, each yield has a new row in `history` and in `gate_means`; the first is the untrained net's, for
        which NaN is yielded. A run that was restored between two epochs goes on from there.
        """
        if scored and not self.history.epoch:
            self._record(math.nan, time.perf_counter())
            yield math.nan
        while self.epoch < self.config.epochs and not self.diverged:
            start = time.perf_counter()
            loss, norm = self._train_epoch()
            self.epoch += 1
            self.diverged = not math.isfinite(loss)
            if scored:
                self._record(norm, start)
            yield loss

    def _train_epoch(self) -> tuple[float, float]:
        """Take one step a batch, until a loss is not finite; return means over batches: loss and gradient norm."""
        config, steps, weights, losses = self.config, steps_an_epoch(self.config), self.data.train_weights, []
        with quiet_threads(config.threads()):
            for step, chosen in enumerate(batches(config, self.rng)):
                losses.append(
                    self.net.train_step(
                        config.augmented(self.net.preprocess(self.data.train_x[chosen]), self.rng),
                        self.data.train_y[chosen],
                        self.workspaces[len(chosen)],
                        self.loss,
                        self.optimizer,
                        clip=config.clip,
                        weight_decay=config.weight_decay,
                        rate=scheduled_rate(config.schedule, (self.epoch + step / steps) / config.epochs),
                        weights=None if weights is None else weights[chosen],
                    )
                )
                if not math.isfinite(losses[-1][0]):
                    break
            return tuple(np.mean(losses, axis=0).tolist())

    def _record(self, norm: float, start: float) -> None:
        """Append losses, scores and mean gates to the record; training is left as it was."""
        data, scored = self.data, slice(self.config.n_scored or None)
        last = self.diverged or self.epoch == self.config.epochs
        with quiet_threads(self.config.threads()):
            train = evaluate(self.net, data.train_x[scored], data.train_y[scored], self.loss)
            validation = evaluate(self.net, *self.validation, self.loss) if self.config.n_validation else ()
            tested = last or not validation
            test = evaluate(self.net, data.test_x, data.test_y, self.loss) if tested else (math.nan, math.nan)
            if self.net.has_gates:
                means = self.net.gate_means(self.net.preprocess(data.test_x[:GATE_SAMPLES]))
                self.gate_means.append(numbers(means, digits=4))
        measured = (train, validation) if validation else (train, test)
        self.diverged = self.diverged or not all(math.isfinite(loss) for loss, _ in measured)
        self.history.append(self.epoch, *train, *test, norm, time.perf_counter() - start, *validation)

    def run(self) -> Run:
        """Return the record so far, and the net as `net`."""
        n_params, gate_means = self.net.params.flat.size, self.gate_means or None
        run = Run(None, self.config, n_params, self.loss.metric, self.diverged, self.history, gate_means)
        run.net = self.net
        return run


def train(
    config: TrainingConfig,
    data: Dataset,
    *,
    report: Callable[[Run], None] = lambda run: None,
    save_model: str | os.PathLike | None = None,
    keep: str | os.PathLike | None = None,
    any_code: bool = False,
) -> Run:
    """Train one net on a random subset of `data`; return the record of the run, whose `net` is the trained net.

    `report` is called with the record so far after each epoch, the untrained net's (epoch 0) included, and where a run
    goes on. A loss that is not finite ends the run as diverged. `save_model`: where to put the trained net; `keep`:
    where a checkpoint is kept after each epoch, from which the run goes on if it is there and of today's code, or of
    `any_code`. Raises InputError if `data` does not suit the config, Interrupted if the disk will not have the net.
    """
    training = Training(config, data)
    if keep and checkpoints.restore(keep, training, any_code=any_code):
        report(training.run())  # also of one whose last epoch was its checkpoint's
    for _ in training.epochs():
        if keep:
            checkpoints.save(keep, training)
        report(training.run())
    if save_model:
        try:
            training.net.save(save_model)
        except InputError as error:
            raise Interrupted(str(error)) from error
    return training.run()
