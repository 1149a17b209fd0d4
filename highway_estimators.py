"""Highway nets as estimators for scikit-learn: fit, predict, and look at the gates.

    from sklearn.datasets import load_digits
    from highway_estimators import HighwayClassifier

    X, y = load_digits(return_X_y=True)
    net = HighwayClassifier(depth=30, random_state=0).fit(X[:1000] / 16, y[:1000])
    net.score(X[1000:] / 16, y[1000:])
    net.effective_depth(X[1000:] / 16)    # of 30: the sum over blocks of the mean gate

These nets are for looking into gates, depth and lesions. For accuracy alone, take linear models and boosted trees
first: on tables, depth gains little, and most fits take longer than those of scikit-learn's MLPs (benchmarks/README.md
has both), the longer the more blocks there are. So by default a net has few blocks, the fewer the fewer rows there are;
ask for more to study them. Cross-validation chose the defaults on other data than that page reports on.

Early stopping begins to wait for gains once a classifier no longer gives all validation samples the same class. It can
still end on a plateau: a deep net whose gates begin closed may gain nothing for more epochs than `n_iter_no_change`.

Parameters, methods and attributes that scikit-learn's MLPClassifier and MLPRegressor have mean the same here. Inputs
should be standardised, and so should a regressor's targets: by a StandardScaler in a pipeline (of sparse inputs with
with_mean=False), and by a TransformedTargetRegressor. Computations are in the inputs' precision, float32 or float64.
"""

if "HighwayClassifier" in globals():  # estimators in use would be of other classes, and could not be pickled
    raise ImportError("highway_estimators: expected to be imported once, found a reload; restart the kernel")

import copy
import dataclasses
import json
import math
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import formatannotation
from types import SimpleNamespace
from typing import Any, ClassVar, Self, get_args

import msgspec
import numpy as np
from joblib import wrap_non_picklable_objects
from scipy.sparse import issparse
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from highway_lab import checkpoints, nets
from highway_lab.fields import Count
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import (
    ACTIVATIONS,
    ADD_NAME,
    BELOW_ONE,
    BLOCKS,
    FINITE,
    INITS,
    LOSSES,
    OPTIMIZERS,
    POSITIVE,
    ZERO_OR_MORE,
    Config,
    Dataset,
    DeepNet,
    Loss,
    as_array,
    as_python,
    expected_instead,
    fill,
    hyperparameter,
    type_of,
    weighted_mean,
    words_of,
)

__all__ = ["HighwayClassifier", "HighwayRegressor", "gate_bias_for"]

ROWS = 512  # samples whose gates are computed together: a block's arrays stay in the processor's cache
LARGEST_BATCH = 200  # of batch_size="auto", as in scikit-learn
DECAY, SHALLOW = 0.003, 5  # of weight_decay="auto": the least factor, and the most blocks of a net that has it
DECAY_OF_ALL = 3.0  # its factor times the number of samples, where these are few
FEWEST = 100  # samples to validate on, of early_stopping="auto"
PRECISIONS = [np.float64, np.float32]
EITHER = (lambda value: True, "True or False")
TABLES = (BLOCKS, ACTIVATIONS, INITS, LOSSES, OPTIMIZERS)  # to which users add
OPTIMIZER = "optimizer."  # begins the names of its vectors in a saved estimator


def gate_bias_for(depth: int) -> float:
    """Return an initial b_T with which the gates of a net add up to about 2 blocks, or −1 if that is less.

    It is -1.6, -2.3 and -2.7 for 10, 20 and 30 blocks, for which the paper advises -1, -2 and -3 (section 2.2).
    """
    return min(-1.0, math.log(2) - math.log(max(depth, 1)))


def depth_for(n_samples: int) -> int:
    """Return the number of blocks for so many training samples: 1 below 1,000, and one more for each factor of ten."""
    return max(1, len(str(n_samples)) - 2)


def squared_error(outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Return the mean over samples and targets of (output − y)², and its gradient (B, K); outputs and y are (B, K)."""
    difference = outputs - y
    return weighted_mean((difference * difference).mean(axis=1), 2 / difference.size * difference, weights)


def huber(outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Return the mean of (output − y)² / 2, which goes on as a line beyond ±1, and its gradient (B, K)."""
    difference = outputs - y
    slopes = np.clip(difference, -1, 1)
    losses = slopes * (difference - slopes / 2)
    return weighted_mean(losses.mean(axis=1), slopes / slopes.size, weights)


def pinball(
    outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, *, quantile: float
) -> tuple[float, np.ndarray]:
    """Return the mean of quantile·(y − output) where y is above, else (1 − quantile)·(output − y); gradient (B, K)."""
    difference = outputs - y
    slopes = ((difference > 0) - quantile).astype(outputs.dtype)
    return weighted_mean((slopes * difference).mean(axis=1), slopes / slopes.size, weights)


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


LOSSES["squared-error"] = Loss(squared_error, "R²", r_squared, "numbers")
LOSSES["huber"] = Loss(huber, "R²", r_squared, "numbers")
LOSSES["sigmoid-cross-entropy"] = Loss(sigmoid_cross_entropy, "accuracy", all_labels_right, "labels")


def epochs_without_gain(scores: Sequence[float], tol: float) -> int:
    """Return the number of epochs since a score was last more than `tol` above the best one before it."""
    best, without = -math.inf, 0
    for score in scores:
        without = 0 if score > best + tol else without + 1
        best = max(best, score)
    return without


def has_gates(estimator: "HighwayEstimator") -> bool:
    """Return True if the blocks have transform gates; raises AttributeError if not, as an absent method does."""
    block = estimator.net_.config["block"] if hasattr(estimator, "net_") else estimator.block
    if "T" not in BLOCKS[block].branches:
        raise AttributeError(f"{block} blocks have no transform gates; choose block='highway'")
    return True


@dataclass(eq=False, repr=False)
class HighwayEstimator(BaseEstimator):
    """The common part of all estimators: training. They add `_net_type` and `_config_type`, targets and scores."""

    _: dataclasses.KW_ONLY
    block: str = hyperparameter("highway", "Kind of block, a name in `highway_networks.BLOCKS`.", BLOCKS)
    activation: str = hyperparameter("relu", "Activation of the block state H.", ACTIVATIONS)
    init: str = hyperparameter("uniform", "Initial weights, a name in `highway_networks.INITS`.", INITS)
    init_gain: float = hyperparameter(1.0, "Factor on the initial weights, but for those of gates.", POSITIVE)
    gate_bias: float | str = hyperparameter("auto", "Initial gate bias b_T; auto: `gate_bias_for` the depth.", FINITE)
    optimizer: str = hyperparameter("adam", "Update rule.", OPTIMIZERS)
    learning_rate: float = hyperparameter(1e-3, "Constant learning rate.", POSITIVE)
    batch_size: int | str = hyperparameter("auto", f"Samples a step; auto is {LARGEST_BATCH}, or all.", POSITIVE)
    weight_decay: float | str = hyperparameter(
        "auto",
        f"Factor on the weights, added to their gradients; auto: {DECAY}, or in `fit` {DECAY_OF_ALL:g} by the number "
        "of samples (by the sum of their weights, if that is larger) if that is more; 0 above "
        f"{SHALLOW} blocks, whose gates would no longer depend on the sample.",
        ZERO_OR_MORE,
    )
    clip: float = hyperparameter(5.0, "Largest global L2 norm of the gradients; 0: no limit.", ZERO_OR_MORE)
    max_iter: int = hyperparameter(200, "Largest number of epochs.", POSITIVE)
    tol: float = hyperparameter(1e-4, "Smallest gain in loss or validation score that counts.", ZERO_OR_MORE)
    n_iter_no_change: int = hyperparameter(10, "Training ends after more than this many epochs without gain.", POSITIVE)
    early_stopping: bool | str = hyperparameter(
        "auto",
        "Hold out samples, validate after each epoch, keep the best epoch's net; auto: in `fit`, if these are at least "
        f"{FEWEST}.",
        EITHER,
    )
    validation_fraction: float = hyperparameter(0.1, "Share of the samples that `early_stopping` takes.", BELOW_ONE)
    validation_shuffle: bool = hyperparameter(
        True, "Draw them at random, of each class alike; False: take the last ones, as rows in time order need.", EITHER
    )
    warm_start: bool = hyperparameter(False, "Let `fit` continue from the last net and optimiser.", EITHER)
    random_state: int | np.random.RandomState | None = hyperparameter(  # noqa: RUF009, a field
        None, "Seed or generator of weights, batches and validation samples."
    )
    verbose: bool = hyperparameter(False, "Print a line an epoch.")

    def __reduce__(self) -> tuple:
        """Take the tables along: a worker process that unpickles this may lack what a user's file added to them.

        All of them, since a grid names more than this estimator; what it does not name may fail to be pickled.
        """
        names = [*vars(self).values(), *(self.net_.config if hasattr(self, "net_") else {}).values()]
        used = [name for name in names if isinstance(name, str)]
        tables = [{} for _ in TABLES]
        for table, kept in zip(TABLES, tables, strict=True):
            for name, entry in table.items():
                with suppress(() if name in used else Exception):
                    # A lambda needs the wrapper; a class would get one for its instances, but for the list.
                    kept[name] = pickle.dumps(wrap_non_picklable_objects([entry], keep_wrapper=False))
        return unpickled, (type(self), used, tables), self.__getstate__()

    def __deepcopy__(self, memo: dict) -> Self:
        """Copy within the process, which has the tables: what cannot be pickled stops no copy."""
        memo[id(self)] = copied = type(self).__new__(type(self))
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def fit(self, X, y, sample_weight=None) -> Self:
        """Train from new weights or, with `warm_start`, from those of the last fit.

        X is (n, d_in), also sparse. y is (n,) or (n, K): K numbers, or K labels, each there (1) or not (0).
        sample_weight (n,) are factors on the samples' losses, and on what they count in validation scores. Warns
        (ConvergenceWarning) if max_iter epochs were not enough; raises ValueError if the training diverges: the loss, a
        weight or an output becomes infinite or NaN. Ctrl-C (KeyboardInterrupt) ends the caller, too, unlike in
        scikit-learn's MLPs, whose next fit would begin; the net keeps what it has learnt.
        """
        return self._fit(X, y, sample_weight, resume=self.warm_start and hasattr(self, "net_"))

    def _fit(self, X, y, sample_weight, **how: Any) -> Self:
        """Train; if that fails, restore all attributes of the last fit."""
        before = dict(vars(self))
        try:
            ended = self._train(X, y, sample_weight, **how)
            if isinstance(ended, Warning):
                warnings.warn(ended, stacklevel=3)  # of the line that called `fit` or `partial_fit`
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        if isinstance(ended, KeyboardInterrupt):
            raise ended
        return self

    def _train(self, X, y, sample_weight, *, resume: bool, incremental: bool = False, **targets: Any) -> Any:
        given = self._checked_parameters()
        if given.early_stopping is True and incremental:
            raise ValueError("partial_fit does not support early_stopping=True")
        if incremental:
            given.max_iter, given.schedule = 1, "constant"  # one more epoch, not a whole training
        dtype = self.net_.dtype if resume else PRECISIONS
        X, y, outputs = self._check_samples(X, y, {"dtype": dtype, "reset": not resume}, **targets)
        weights, rng, validation = self._weights(sample_weight, X, y), check_random_state(self.random_state), None
        if weights is not None:  # a sample of no weight is none, for validation, too
            X, y, weights = (of[weights > 0] for of in (X, y, weights))
        enough = math.ceil(given.validation_fraction * len(y)) >= FEWEST
        if given.early_stopping is True or (given.early_stopping == "auto" and enough and not incremental):
            (X, y, weights), validation = self._split(X, y, weights, given, rng)
        self.n_train_, self.n_validation_ = len(y), len(validation[1]) if validation else 0
        if self.verbose:
            print(f"training on {self.n_train_:,} samples, validating on {self.n_validation_:,}")
        given.lr, given.epochs, given.loss = given.learning_rate, given.max_iter, self._loss
        names = {of.name for of in dataclasses.fields(self._config_type)}
        config = self._new_config(
            resume,
            math.inf if incremental else max(len(y), sum([] if weights is None else weights.tolist())),
            **{name: value for name, value in vars(given).items() if name in names and value != "auto"},
            n_train=X.shape[0],
            seed=rng.randint(2**31),
            dtype=(self.net_.dtype if resume else X.dtype if X.dtype in PRECISIONS else np.dtype(np.float32)).name,
        )
        if weights is not None:
            weights = weights / weights.max()  # whose sum cannot overflow
            weights = (weights / weights.mean()).astype(config.dtype)
        # A data set needs a test sample; this one is not scored.
        data = Dataset(X, y, X[:1], y[:1], outputs, train_weights=weights)
        training = Training(config, data)
        if resume:
            training.net.take(self.net_)
            training.rng.bit_generator.state = self._rng.bit_generator.state  # workspaces draw from this generator
            if self._moments[0] == self.optimizer:
                self._go_on(training.optimizer)
        earlier = self.validation_scores_ if resume and validation else None
        losses, scores, ended = self._run(training, validation, earlier or [], incremental)
        state = checkpoints.optimizer_state(training.optimizer)
        state.pop("lr", None)  # the user may set another before training continues
        self.net_, self._rng, self._moments = training.net, training.rng, (self.optimizer, state)
        self.loss_curve_ = (self.loss_curve_ if resume else []) + losses
        self.validation_scores_ = (earlier or []) + scores if validation else None
        self.n_iter_ = len(self.loss_curve_)
        return ended

    def _checked_parameters(self) -> SimpleNamespace:
        """Return the parameters that have a rule; raises ValueError for a wrong type or a broken rule."""
        given = SimpleNamespace()
        for field in dataclasses.fields(self):
            rule, value = field.metadata.get("rule"), as_python(getattr(self, field.name))
            if rule is None:
                continue
            kind, *auto = get_args(type_of(field)) or (type_of(field),)  # `float | str` stands for a float or "auto"
            if not (auto and isinstance(value, str) and value == "auto"):
                if expected := expected_instead(value, kind, rule):
                    found = f"expected {expected}{' or auto' * bool(auto)}, found {value!r:.40}"
                    remedy = "choose another" + f", or {ADD_NAME}" * isinstance(rule[1], Mapping)
                    raise ValueError(f"{field.name}: {found}; {remedy}")
                value = kind(value)
            setattr(given, field.name, value)
        return given

    def _weights(self, sample_weight: Any, X, y: np.ndarray) -> np.ndarray | None:
        """Return factors (n,) on the samples' losses, or None: all are 1; raises ValueError for others."""
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _split(self, X, y, weights, given: SimpleNamespace, rng: np.random.RandomState):
        """Return X, y, weights to train on, and those to validate on.

        Samples to validate on are drawn, of every class alike if each has enough, or they are the last.
        """
        n, n_validation, shuffle = len(y), math.ceil(given.validation_fraction * len(y)), given.validation_shuffle
        if n_validation < 2:
            raise ValueError("The validation set is too small. Increase 'validation_fraction' or the number of samples")
        _, counts = np.unique(y, return_counts=True)
        enough = counts.min() >= 2 and len(counts) <= min(n_validation, n - n_validation)
        options = {"stratify": y if is_classifier(self) and y.ndim == 1 and enough and shuffle else None}
        parts = train_test_split(np.arange(n), test_size=n_validation, shuffle=shuffle, random_state=rng, **options)
        return ((X[rows], y[rows], None if weights is None else weights[rows]) for rows in parts)

    def _go_on(self, optimizer: Any) -> None:
        """Give an optimiser the state in which the last one ended."""
        kept = copy.deepcopy(self._moments[1])  # unspoilt by a fit that fails
        vars(optimizer).update({name: kept[name] for name in optimizer.state if name in kept})

    def _run(self, training: Training, validation: tuple | None, earlier: list, incremental: bool) -> tuple:
        """Train until there is no more gain; return losses and validation scores of epochs, and what ended it or None.

        With validation samples, the parameters of the best epoch stay, the `earlier` scores of the last fits included:
        its first parameters were the best of those. Gains count after the last epoch that decides alike for all, and
        wrongly for some. A loss of 0 leaves nothing to gain.
        """
        losses, scores, guessed, params, ended = [], [], 0, training.net.params.flat, None
        tensors = [params, *training.net.buffers.values()]
        best = copy.deepcopy(tensors)
        try:
            for loss in training.epochs(scored=False):
                check_finite(training, loss=loss, weights=params)
                losses.append(loss)
                if validation:
                    outputs = predict_in_parts(training.net, validation[0])
                    check_finite(training, outputs=outputs)
                    scores.append(self._validate(outputs, *validation[1:]))
                    best = copy.deepcopy(tensors) if scores[-1] >= max(earlier + scores) else best
                    decided = self._decide(outputs)
                    alike = (decided == decided[0]).all() and (decided != validation[1]).any()
                    guessed = len(scores) if alike else guessed
                if self.verbose:
                    score = f", validation score {scores[-1]:.4f}" if scores else ""
                    print(f"epoch {training.epoch}: loss {loss:.6f}{score}")
                gains = scores or [-loss for loss in losses]
                if loss == 0 or epochs_without_gain(gains[guessed:], self.tol) > self.n_iter_no_change:
                    break
            else:
                # Without a gain in half of the epochs, or of the patience, more would hardly change anything.
                gaining = 2 * epochs_without_gain(gains[guessed:], self.tol) <= min(len(gains), self.n_iter_no_change)
                if gaining and not incremental and training.config.schedule == "constant":  # others end as planned
                    found = f"max_iter={self.max_iter} epochs were not enough to converge"
                    columns = zip("X" if is_classifier(self) else "Xy", training.data, strict=False)
                    names = " and ".join(name for name, values in columns if off_scale(values))
                    remedy = f"standardise {names}, " * bool(names) + "allow more, or raise tol"
                    ended = ConvergenceWarning(f"{found}; {remedy}")
        except KeyboardInterrupt as interrupt:
            ended = interrupt
        if validation:
            for tensor, kept in zip(tensors, best, strict=True):
                tensor[...] = kept
        outputs = predict_in_parts(training.net, training.data.train_x)  # the loss was measured before the last step
        check_finite(training, outputs=outputs)
        return losses, scores, ended

    def lesion(self, layers: int | Sequence[int]) -> Self:
        """Return a fitted copy without these layers, counted from 1 over all blocks, as in pictures (section 4.2).

        Raises ValueError for a layer that is not there, and for blocks that depend on the net's depth.
        """
        check_is_fitted(self)
        chosen = np.ravel(layers)
        if chosen.size and (chosen.dtype.kind not in "iu" or not {*chosen} <= {*range(1, self.net_.depth + 1)}):
            found = f"expected whole numbers from 1 to {self.net_.depth}, found {layers!r:.40}"
            raise ValueError(f"layers: {found}; choose among these")
        lesioned = copy.deepcopy(self)
        lesioned.net_, lesioned._moments = nets.without(self.net_, chosen.astype(int) - 1), (None, {})
        lesioned._follow(lesioned.net_)
        return lesioned

    def lesion_scores(self, X, y) -> np.ndarray:
        """Return the score on X and y without each layer in turn, as `lesion` leaves it out: (L,)."""
        check_is_fitted(self)
        return np.array([self.lesion(l).score(X, y) for l in range(1, self.net_.depth + 1)])

    def _mean_gates(self, X) -> np.ndarray:
        """Return the mean T of each block for each sample, (n, L)."""
        X = self._inputs(X)
        means = np.empty((X.shape[0], self.net_.depth), self.net_.dtype)
        for rows, l, T_l in self._gates(X):
            means[rows, l] = T_l.reshape(-1, T_l.shape[-1]).mean(axis=0)
        return means

    @available_if(has_gates)
    def gate_means(self, X) -> np.ndarray:
        """Return the mean T of each block over its units (and pixels) and the samples X: (L,)."""
        return self._mean_gates(X).mean(axis=0)

    @available_if(has_gates)
    def effective_depth(self, X) -> np.ndarray:
        """Return the sum over blocks of the mean T, for each sample of X: (n,)."""
        return self._mean_gates(X).sum(axis=1)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator as .npz, without pickle, whole or not at all; training can go on from it.

        Raises ValueError if `random_state` is a generator, InputError if the file cannot be written.
        """
        check_is_fitted(self)
        if isinstance(self.random_state, np.random.RandomState):
            raise ValueError("random_state: expected an integer or None, found a generator; set another before saving")
        parameters = self.get_params() | vars(self._checked_parameters())
        optimizer, moments = self._moments
        vectors = {name: value for name, value in moments.items() if isinstance(value, np.ndarray)}
        saved = Saved(
            estimator=type(self).__name__,
            parameters={name: value for name, value in parameters.items() if not isinstance(value, dict | list)},
            feature_names=list(getattr(self, "feature_names_in_", ())),
            n_train=self.n_train_,
            n_validation=self.n_validation_,
            loss_curve=self.loss_curve_,
            validation_scores=self.validation_scores_,
            rng=self._rng.bit_generator.state,
            optimizer=optimizer,
            moments={name: value for name, value in moments.items() if name not in vectors},
            rest=self._saved_rest(),
        )
        text = json.dumps(vars(saved), default=lambda value: value.item())  # of NumPy's numbers
        arrays = {"estimator": np.array(text)} | {f"{OPTIMIZER}{name}": vector for name, vector in vectors.items()}
        nets.save_net(path, self.net_, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read an estimator that `save` wrote. Raises InputError for anything else; never unpickles."""
        with nets.saved_arrays(path, cls) as arrays:
            if "estimator" not in arrays:
                raise ValueError("no estimator")
            arrays.pop("digest", None)  # of a file of an older version
            saved = msgspec.convert(json.loads(str(arrays.pop("estimator"))), Saved)
            if saved.estimator != cls.__name__:
                raise ValueError(f"one saved by {saved.estimator}")
            loaded = cls(**saved.parameters)
            loaded._checked_parameters()
            names = [name for name in arrays if name.startswith(OPTIMIZER)]
            vectors = {name.removeprefix(OPTIMIZER): arrays.pop(name) for name in names}
            loaded.net_ = net = nets.net_of(arrays, cls._net_type)
            fill({name: np.empty_like(net.params.flat) for name in vectors}, vectors)  # raises for others
            loaded._moments = saved.optimizer, saved.moments | vectors
            if saved.optimizer:  # which must be able to go on
                params, gradients = copy.deepcopy(net).params, net.params
                loaded._go_on(optimizer := OPTIMIZERS[saved.optimizer](params, cls._config_type()))
                with np.errstate(all="ignore"):
                    optimizer.step(gradients)
                if not np.isfinite(params.flat).all():
                    raise ValueError(f"a state of {saved.optimizer} whose step is not finite")
            check_random_state(loaded.random_state)
            loaded._rng = np.random.default_rng(0)
            loaded._rng.bit_generator.state = saved.rng
            loaded.n_features_in_ = math.prod(net.config.get("shape") or [net.config["d_in"]])
            if saved.feature_names:
                loaded.feature_names_in_ = np.array(saved.feature_names, object)
            loaded.loss_curve_, loaded.n_iter_ = saved.loss_curve, len(saved.loss_curve)
            loaded.validation_scores_ = saved.validation_scores
            loaded.n_train_, loaded.n_validation_ = saved.n_train, saved.n_validation
            loaded._load_rest(saved.rest)
        return loaded

    @property
    def best_validation_score_(self) -> float | None:
        """The best epoch's score, whose net was kept; None without `early_stopping`."""
        return max(self.validation_scores_) if self.validation_scores_ else None

    def _inputs(self, X) -> np.ndarray:
        """Return X (n, ...), checked and in the fitted net's precision."""
        check_is_fitted(self)
        return self._validated(X, reset=False, dtype=self.net_.dtype)

    def _outputs(self, X) -> np.ndarray:
        """Return the net's outputs, (n, K)."""
        X = self._inputs(X)  # which raises if there is no net
        return predict_in_parts(self.net_, X)


@dataclass(eq=False, repr=False)
class DenseEstimator(HighwayEstimator):
    """The common part of HighwayClassifier and HighwayRegressor: a DeepNet for samples (n, d_in), and a look inside."""

    depth: int | str = hyperparameter(
        "auto",
        "Blocks L, after a plain layer that maps inputs to their width; auto: 1 below 1,000 samples to train on, one "
        "more for each factor of ten; continued training keeps it. Ask for 10 or more to study depth.",
        ZERO_OR_MORE,
    )
    hidden: int = hyperparameter(100, "Units D of a block.", POSITIVE)
    _: dataclasses.KW_ONLY
    n_iter_no_change: int = hyperparameter(30, "Training ends after more than this many epochs without gain.", POSITIVE)

    _net_type: ClassVar[type] = DeepNet
    _config_type: ClassVar[type] = Config

    def _new_config(self, resume: bool, counted: float, **chosen: Any) -> Config:
        """Return the configuration of net and training; `chosen` has all parameters but those that are auto.

        `counted`: the number of samples, or the sum of their weights if that is more; inf if others will follow.
        """
        depth = chosen.get("depth", self.net_.depth if resume else depth_for(chosen["n_train"]))
        auto = {
            "depth": depth,
            "gate_bias": gate_bias_for(depth),
            "weight_decay": max(DECAY, DECAY_OF_ALL / counted) if depth <= SHALLOW else 0.0,
            "batch_size": LARGEST_BATCH,
        }
        return Config(**auto | chosen)

    def _validated(self, X, *y, **how: Any) -> Any:
        """Return X (n, d_in), with y if it is given, as scikit-learn's `validate_data` does."""
        refuse_times(X)
        return validate_data(self, X, *y, accept_sparse="csr", **({"multi_output": True} if y else {}), **how)

    def _gates(self, X) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Yield a slice of the samples, a block's index and its T (D, ..., B), which the next block may overwrite."""
        with one_thread():
            for rows in gen_batches(X.shape[0], ROWS):
                x_0 = self.net_.embed(self.net_.preprocess(X[rows]))
                for l, (z, _) in enumerate(self.net_.iterate_blocks(x_0)):
                    yield rows, l, z[self.net_.block.branches.index("T")]

    @available_if(has_gates)
    def transform_gates(self, X) -> np.ndarray:
        """Return T of every block for each sample of X (n, d_in): (n, L, D); 1 transforms a unit, 0 passes it on."""
        X = self._inputs(X)
        T = np.empty((X.shape[0], self.net_.depth, self.net_.hidden), self.net_.dtype)
        for rows, l, T_l in self._gates(X):
            T[rows, l] = T_l.T
        return T

    def _follow(self, net: DeepNet) -> None:
        """Set the parameters that describe the net to those of this one."""
        self.depth = net.depth

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def unpickled(kind: type[HighwayEstimator], used: list[str], tables: list[dict[str, bytes]]) -> HighwayEstimator:
    """Return an estimator without attributes, after adding what is new in these tables to those of this process."""
    for table, found in zip(TABLES, tables, strict=True):
        for name in found.keys() - table.keys():
            with suppress(() if name in used else Exception):
                (table[name],) = pickle.loads(found[name])
    return kind.__new__(kind)


@dataclass
class Saved:
    """The part of an estimator's file beside the arrays of its net and of its optimiser."""

    estimator: str
    parameters: dict[str, Any]
    feature_names: list[str]
    n_train: Count
    n_validation: Count
    loss_curve: list[float]
    validation_scores: list[float] | None
    rng: dict[str, Any]
    optimizer: str | None
    moments: dict[str, float | bool]
    rest: dict[str, Any]


def check_finite(training: Training, **found: Any) -> None:
    """Raise ValueError, as a training that has diverged, if a named value or array is not finite."""
    for name, values in found.items():
        if not np.isfinite(values).all():
            raise ValueError(
                f"training diverged in epoch {training.epoch}: expected finite {name}, found inf or NaN; "
                "standardise inputs and targets, or lower learning_rate"
            )


def refuse_times(X: Any) -> None:
    """Raise ValueError for dates and times, which libraries turn into numbers of any unit, and for masks they drop."""
    if np.ma.isMaskedArray(X):
        raise ValueError("X: expected an array without a mask, found one; fill in or leave out what is masked")
    types = dict(zip(X.columns, X.dtypes, strict=True)) if hasattr(X, "dtypes") else {"": np.asarray(X).dtype}
    for column, found in types.items():
        if str(found).lower().startswith(("date", "time", "duration", "period")):  # of pandas and polars, too
            where = f" in column {column!r}" * hasattr(X, "dtypes")
            raise ValueError(f"X: expected numbers, found {found}{where}; subtract a date and divide by a unit of time")


def off_scale(values: Any) -> bool:
    """Return True for floats (n, ...) unless the largest mean size of a column is 1/3 to 3; bytes are pixels."""
    with np.errstate(over="ignore"):
        return values.dtype.kind == "f" and not 1 / 3 < abs(values).mean(axis=0, dtype=float).max() < 3


def predict_in_parts(net: Any, X) -> np.ndarray:
    """Return a net's outputs (n, K) for samples X (n, ...), preprocessed a part at a time: pixels may be bytes."""
    with one_thread():
        return np.concatenate([net.predict(net.preprocess(X[rows])) for rows in gen_batches(X.shape[0], ROWS)])


def describe(estimator: type, net: str) -> str:
    """Return the sections of an estimator's docstring on parameters, those that need no name first, and attributes."""
    fields = sorted(dataclasses.fields(estimator), key=lambda field: bool(field.kw_only))
    parameters = "\n".join(
        f"    {of.name} : {formatannotation(of.type)}, default {of.default!r}\n        {of.metadata['help']}"
        + (f" Must be {words_of(rule)}{' or auto' * bool(get_args(of.type))}." if (rule := of.metadata["rule"]) else "")
        for of in fields
    )
    return f"""
    Parameters
    ----------
{parameters}

    Attributes
    ----------
    net_ : {net}
        The trained net; `net_.save(path)` writes it, without pickle.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the inputs.
    loss_curve_ : list of float
        The mean loss over batches of each epoch.
    validation_scores_ : list of float or None
        The score of each epoch, with `early_stopping`.
    best_validation_score_ : float or None
        The best of them, that of the net.
    n_train_, n_validation_ : int
        Samples that the last call trained on, and those that it held out to validate on; samples of weight 0 are none.
    n_iter_ : int
        Epochs trained, with `warm_start` and `partial_fit` those of all calls."""


MLP_DOC = """

    Notes
    -----
    Behind other steps of a pipeline, what looks inside takes the inputs that the net takes:
    ``pipeline[-1].effective_depth(pipeline[:-1].transform(X))``.

    What scikit-learn's MLPs call otherwise:

    ===============================  ==========================================================
    MLPClassifier, MLPRegressor      here
    ===============================  ==========================================================
    hidden_layer_sizes=(D,) * k      hidden=D, depth=k - 1; all layers are of one width
    activation="logistic"            activation="tanh" is nearest; "identity" has no counterpart
    solver="sgd", "lbfgs"            optimizer="momentum"; none
    alpha                            weight_decay=alpha / batch size
    learning_rate_init               learning_rate; it stays constant
    shuffle                          always; validation_shuffle is of the samples held out
    loss_, best_loss_                loss_curve_[-1], min(loss_curve_)
    coefs_, intercepts_              net_.params
    ===============================  ==========================================================
    """

CLASSES_DOC = """
    classes_ : ndarray of shape (K,)
        The labels, sorted: texts, numbers or booleans."""


@dataclass(eq=False, repr=False)
class LabelsMixin(ClassifierMixin):
    """The part of a classifier that has to do with labels."""

    _: dataclasses.KW_ONLY
    class_weight: dict | str | None = hyperparameter(  # noqa: RUF009, a field
        None, "Factors on the losses by class, as a dict; balanced: classes count alike, however frequent they are."
    )

    @property
    def _loss(self) -> str:
        return "sigmoid-cross-entropy" if self.multilabel_ else "cross-entropy"

    def partial_fit(self, X, y, sample_weight=None, classes=None) -> Self:
        """Train for one epoch on these samples; the first call must name all `classes`."""
        resume = hasattr(self, "net_")
        if not resume and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if resume and classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise ValueError(f"classes: expected {self.classes_}, as in the first call, found {classes}; omit them")
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight: expected a dict for partial_fit, which sees a part of the samples, found "
                f"{self.class_weight!r}; compute it from all"
            )
        return self._fit(X, y, sample_weight, resume=resume, incremental=True, classes=classes)

    def _check_samples(self, X, y, how: dict[str, Any], classes=None) -> tuple[Any, np.ndarray, int]:
        for name, labels in (("y", y), ("classes", classes)):
            if labels is not None:
                as_array(name, labels, "buifcU")  # complex ones scikit-learn refuses
        X, y = self._validated(X, y, **how)
        y = y.toarray() if issparse(y) else y
        y = column_or_1d(y, warn=True) if y.shape[1:] in ((), (1,)) else y
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multiclass-multioutput":
            raise ValueError(f"y: expected a class, or labels of 0 and 1, found {kind}; fit a net for each column")
        if how["reset"]:
            self.multilabel_ = kind == "multilabel-indicator"
            self.classes_ = unique_labels(y if classes is None else classes)
        if y.shape[1:] != (expected := (len(self.classes_),) if self.multilabel_ else ()):
            raise ValueError(f"y: expected samples of shape {expected}, found {y.shape[1:]}; fit anew for other labels")
        if self.multilabel_:
            if not np.isin(y, (0, 1)).all():
                raise ValueError(f"y: expected labels of 0 and 1, found {np.unique(y)}; replace them")
            return X, y.astype(X.dtype), y.shape[1]
        if unseen := set(unique_labels(y).tolist()) - set(self.classes_.tolist()):  # before y takes on their type
            raise ValueError(f"y: expected labels among {self.classes_}, found {unseen}; fit anew to learn others")
        return X, np.searchsorted(self.classes_, y), len(self.classes_)

    def _weights(self, sample_weight: Any, X, y: np.ndarray) -> np.ndarray | None:
        weights = super()._weights(sample_weight, X, y)
        if self.class_weight is None:
            return weights
        rows = None if weights is None or self.class_weight != "balanced" else np.flatnonzero(weights)
        factors = compute_sample_weight(self.class_weight, y if self.multilabel_ else self.classes_[y], indices=rows)
        return super()._weights(factors if weights is None else factors * weights, X, y)

    def _validate(self, outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
        right = (self._decide(outputs) == y).reshape(len(y), -1).all(axis=1)  # quicker than accuracy_score
        return float(np.average(right, weights=weights))

    def _decide(self, outputs: np.ndarray) -> np.ndarray:
        """Return the index of the most probable class (n,), or 1 for each label that is there, else 0: (n, K)."""
        return (outputs > 0).astype(int) if self.multilabel_ else outputs.argmax(axis=1)

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each sample of X, (n,), or whether each label is there, (n, K)."""
        found = self._decide(self._outputs(X))
        return found if self.multilabel_ else self.classes_[found]

    def predict_proba(self, X) -> np.ndarray:
        """Return the probability of each class or label, in the order of `classes_`: (n, K)."""
        outputs = self._outputs(X)
        with np.errstate(under="ignore"):  # whatever the host has set
            return expit(outputs) if self.multilabel_ else softmax(outputs, axis=1)

    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithms of the probabilities, (n, K)."""
        outputs = self._outputs(X)
        with np.errstate(under="ignore"):
            return log_expit(outputs) if self.multilabel_ else log_softmax(outputs, axis=1)

    def _saved_rest(self) -> dict[str, Any]:
        """Return what `_load_rest` needs, as JSON has it: dictionaries and lists among the parameters, and targets."""
        return {
            "classes": self.classes_.tolist(),
            "dtype": self.classes_.dtype.str,
            "multilabel": self.multilabel_,
            "class_weight": [  # as pairs: JSON has no keys but texts
                [*weights.items()] for weights in np.atleast_1d(self.class_weight) if isinstance(weights, dict)
            ],
        }

    def _load_rest(self, saved: dict[str, Any]) -> None:
        self.classes_, self.multilabel_ = nets.array_of(saved["classes"], saved["dtype"]), bool(saved["multilabel"])
        classes = self.classes_.tolist()
        if len(classes) != self.net_.config["d_out"] or classes != sorted({*saved["classes"]}):
            raise ValueError(f"classes {classes!r:.60} for {self.net_.config['d_out']} outputs")
        if weights := [dict(pairs) for pairs in saved["class_weight"]]:
            self.class_weight = weights if self.multilabel_ else weights[0]
        self._weights(None, classes, np.eye(len(classes), dtype=int) if self.multilabel_ else np.arange(len(classes)))


@dataclass(eq=False, repr=False)
class HighwayClassifier(LabelsMixin, DenseEstimator):  # its docstring follows: it lists the fields
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


HighwayClassifier.__doc__ = f"""A highway net for classification, trained on the cross-entropy.

    Targets are classes (n,), or an indicator matrix of labels, (n, K), as MLPClassifier takes them.
{describe(HighwayClassifier, "highway_networks.DeepNet")}{CLASSES_DOC}
    multilabel_ : bool
        Whether there may be several labels a sample.{MLP_DOC}"""


@dataclass(eq=False, repr=False)
class HighwayRegressor(RegressorMixin, DenseEstimator):  # its docstring follows: it lists the fields
    loss: str = hyperparameter(
        "squared-error",
        "What is minimised: the squared error for means, huber where some y are far off, quantile for one of y; "
        "`score` is R² all the same. Early stopping goes by R² for the squared error, else by this loss.",
        (
            lambda name: name == "quantile" or (name in LOSSES and LOSSES[name].target == "numbers"),
            "squared-error, huber, quantile, or a loss of numbers in `highway_networks.LOSSES`",
        ),
    )
    quantile: float = hyperparameter(
        0.5, "The quantile that loss='quantile' estimates.", (lambda value: 0 < value < 1, "a number in (0, 1)")
    )

    @property
    def _loss(self) -> str:
        if self.loss != "quantile":
            return self.loss
        name = f"quantile-{float(self.quantile)}"
        LOSSES.setdefault(name, Loss(partial(pinball, quantile=self.quantile), "R²", r_squared, "numbers"))
        return name

    def partial_fit(self, X, y, sample_weight=None) -> Self:
        """Train for one epoch on these samples."""
        return self._fit(X, y, sample_weight, resume=hasattr(self, "net_"), incremental=True)

    def _check_samples(self, X, y, how: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
        if y is not None:
            as_array("y", y, "buifc")  # complex ones scikit-learn refuses
        X, y = self._validated(X, y, y_numeric=True, **how)
        self._target_shape = y.shape[1:]
        y = y.reshape(len(y), -1).astype(X.dtype)
        return X, y, y.shape[1]

    def _saved_rest(self) -> dict[str, Any]:
        return {"shape": self._target_shape}

    def _load_rest(self, saved: dict[str, Any]) -> None:
        self._target_shape = tuple(saved["shape"])
        if self._target_shape not in ((), (self.net_.config["d_out"],)):
            raise ValueError(f"targets of shape {self._target_shape} for {self.net_.config['d_out']} outputs")

    def _decide(self, outputs: np.ndarray) -> np.ndarray:
        return outputs

    def _validate(self, outputs: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
        if self.loss == "squared-error":
            return r2_score(y, outputs, sample_weight=weights)
        return -LOSSES[self._loss].function(outputs, y, None if weights is None else weights / weights.mean())[0]

    def predict(self, X) -> np.ndarray:
        """Return the targets of each sample of X (n, d_in), in the shape of those of `fit`: (n,) or (n, K)."""
        return self._outputs(X).reshape(-1, *self._target_shape)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


HighwayRegressor.__doc__ = f"""A highway net for regression on one target or several.
{describe(HighwayRegressor, "highway_networks.DeepNet")}{MLP_DOC}"""
