"""Highway nets as estimators for scikit-learn: fit, predict, and look at the gates.

    from sklearn.datasets import load_digits
    from highway_estimators import HighwayClassifier

    X, y = load_digits(return_X_y=True)
    net = HighwayClassifier(depth=30, random_state=0).fit(X[:1000] / 16, y[:1000])
    net.score(X[1000:] / 16, y[1000:])
    net.effective_depth(X[1000:] / 16)    # of 30: the mean gate of each block, added up

What has the name of a parameter, a method or an attribute of scikit-learn's MLPClassifier and MLPRegressor means what
it does there. As there, inputs are best standardised, and a regressor's targets, too: by a StandardScaler in a
pipeline, and by a TransformedTargetRegressor. Computations are in the inputs' precision, float32 or float64.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_array, check_consistent_length, check_random_state, gen_batches
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from highway_lab.checkpoints import optimizer_state
from highway_lab.cli import BELOW_ONE, FINITE, POSITIVE, ZERO_OR_MORE, Rule, one_of
from highway_lab.training import OPTIMIZERS, Training
from highway_networks import ACTIVATIONS, BLOCKS, Config, Dataset, DeepNet

ROWS = 512  # samples that are looked at together: what a block makes of them stays in the processor's cache
LARGEST_BATCH = 200  # of batch_size="auto", scikit-learn's
LARGEST_BIAS = -1.0  # of gate_bias="auto"
OPEN_BLOCKS = 2.0  # for gate_bias="auto": the effective depth of a fresh net
PRECISIONS = [np.float64, np.float32]

ACCEPTED = {int: Integral, float: Real, str: str, bool: bool | np.bool_}
PARAMETERS: dict[str, tuple[type, Rule]] = {
    "depth": (int, ZERO_OR_MORE),
    "hidden": (int, POSITIVE),
    "block": (str, one_of(BLOCKS)),
    "activation": (str, one_of(ACTIVATIONS)),
    "gate_bias": (float, FINITE),
    "optimizer": (str, one_of(OPTIMIZERS)),
    "learning_rate": (float, POSITIVE),
    "batch_size": (int, POSITIVE),
    "weight_decay": (float, ZERO_OR_MORE),
    "clip": (float, ZERO_OR_MORE),
    "max_iter": (int, POSITIVE),
    "tol": (float, ZERO_OR_MORE),
    "n_iter_no_change": (int, POSITIVE),
    "validation_fraction": (float, BELOW_ONE),
    **dict.fromkeys(("early_stopping", "warm_start"), (bool, (lambda value: True, "True or False"))),
}
AUTO = ("gate_bias", "batch_size")  # may be "auto" instead


def checked(name: str, value: Any) -> Any:
    """A parameter as Python's own int, float, ...; raises ValueError if it is of another kind or breaks its rule."""
    kind, (holds, expected) = PARAMETERS[name]
    if name in AUTO and isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, ACCEPTED[kind]) and (kind is bool or not isinstance(value, bool)):
        with suppress(OverflowError):  # an integer that no float holds
            if holds(kind(value)):
                return kind(value)
    expected = f"{expected}{' or auto' * (name in AUTO)}, of type {kind.__name__}"
    raise ValueError(f"{name}: expected {expected}, found {value!r}; choose another")


def gate_bias_for(depth: int) -> float:
    """The initial b_T with which the gates of a fresh net add up to about OPEN_BLOCKS blocks, but at most LARGEST_BIAS.

    -1.6, -2.3 and -2.7 for 10, 20 and 30 blocks, for which the paper advises -1, -2 and -3 (section 2.2).
    """
    return min(LARGEST_BIAS, math.log(OPEN_BLOCKS) - math.log(max(depth, 1)))


def epochs_without_gain(scores: Sequence[float], tol: float) -> int:
    """How many epochs ago a score was last above the best one before it by more than `tol`."""
    best, without = -math.inf, 0
    for score in scores:
        without = 0 if score > best + tol else without + 1
        best = max(best, score)
    return without


def has_gates(estimator: "HighwayEstimator") -> bool:
    """Whether its blocks have transform gates; raises AttributeError if not, as an absent method does."""
    block = estimator.net_.config["block"] if hasattr(estimator, "net_") else estimator.block
    if "T" not in BLOCKS[block].branches:
        raise AttributeError(f"{block} blocks have no transform gates; choose block='highway'")
    return True


PARAMETERS_IN_WORDS = """
    Parameters
    ----------
    depth : int
        Blocks L; before them is a plain layer that brings the inputs to their width.
    hidden : int
        Units D of a block.
    block : {"highway", "highway-uncoupled", "plain", "residual", "residual-scaled", "lstm"}
        The kind of block, a name in `highway_networks.BLOCKS`.
    activation : {"tanh", "relu", "elu"}
        The activation of the block state H.
    gate_bias : float or "auto"
        The initial bias b_T of the transform gates; "auto" follows the depth, see `gate_bias_for`.
    optimizer : {"adam", "momentum"}
        The update rule.
    learning_rate : float
        Its learning rate, constant.
    batch_size : int or "auto"
        Samples a step; "auto" is 200, or as many as there are.
    weight_decay : float
        Factor on the weights that is added to their gradients.
    clip : float
        The largest global L2 norm of the gradients; 0 for no limit.
    max_iter : int
        Epochs at most.
    tol, n_iter_no_change : float, int
        Training ends when for more than so many epochs loss or validation score has not improved by more than `tol`.
    early_stopping : bool
        Judge by the score of samples that are held out, and keep the parameters of the best epoch.
    validation_fraction : float
        The share of the samples that `early_stopping` holds out, of every class alike.
    warm_start : bool
        Whether `fit` goes on from the net and the optimiser of the last one.
    random_state : int, RandomState instance or None
        Of the weights, the batches and the samples held out.
    verbose : bool
        Print a line an epoch.

    Attributes
    ----------
    net_ : highway_networks.DeepNet
        The trained net; `net_.save(path)` writes it, without pickle.
    n_features_in_, feature_names_in_ : int, ndarray
        Of the inputs, as of every estimator.
    loss_curve_ : list of float
        The mean loss over batches of each epoch.
    validation_scores_ : list of float or None
        Of each epoch, with `early_stopping`.
    n_iter_ : int
        Epochs trained, with `warm_start` and `partial_fit` in all."""


class HighwayEstimator(BaseEstimator):
    """What HighwayClassifier and HighwayRegressor share; a subclass says what its targets are."""

    _loss: str  # a name in LOSSES

    def __init__(
        self,
        depth=10,
        hidden=50,
        *,
        block="highway",
        activation="tanh",
        gate_bias="auto",
        optimizer="adam",
        learning_rate=2e-3,
        batch_size="auto",
        weight_decay=0.0,
        clip=5.0,
        max_iter=200,
        tol=1e-4,
        n_iter_no_change=10,
        early_stopping=False,
        validation_fraction=0.1,
        warm_start=False,
        random_state=None,
        verbose=False,
    ):
        self.depth = depth
        self.hidden = hidden
        self.block = block
        self.activation = activation
        self.gate_bias = gate_bias
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.clip = clip
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None) -> Self:
        """Train from fresh weights or, with `warm_start`, from those of the last fit.

        X is (n, d_in), y (n,) or, for a regressor, (n, K); sample_weight (n,) are factors on the samples' losses. Warns
        (ConvergenceWarning) if max_iter epochs were not enough; raises ValueError if the loss is finite no longer.
        """
        return self._fit(X, y, sample_weight, going_on=self.warm_start and hasattr(self, "net_"))

    def _fit(self, X, y, sample_weight, **how: Any) -> Self:
        """Train; if that fails, what an earlier fit has left stays as it was, labels and all."""
        before = dict(vars(self))
        try:
            self._train(X, y, sample_weight, **how)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _train(self, X, y, sample_weight, *, going_on: bool, incremental: bool = False, **targets: Any) -> None:
        given = SimpleNamespace(**{name: checked(name, getattr(self, name)) for name in PARAMETERS})
        if given.early_stopping and incremental:
            raise ValueError("partial_fit does not support early_stopping=True")
        dtype = self.net_.dtype if going_on else PRECISIONS
        X, y, outputs = self._check_samples(X, y, {"dtype": dtype, "reset": not going_on}, **targets)
        weights, chance, validation = check_weights(sample_weight, X), check_random_state(self.random_state), None
        if given.early_stopping:
            (X, y, weights), validation = self._split(X, y, weights, given.validation_fraction, chance)
        config = Config(
            depth=given.depth,
            hidden=given.hidden,
            block=given.block,
            activation=given.activation,
            loss=self._loss,
            gate_bias=gate_bias_for(given.depth) if given.gate_bias == "auto" else given.gate_bias,
            optimizer=given.optimizer,
            lr=given.learning_rate,
            weight_decay=given.weight_decay,
            clip=given.clip,
            batch_size=LARGEST_BATCH if given.batch_size == "auto" else given.batch_size,
            epochs=1 if incremental else given.max_iter,
            n_train=len(X),
            n_test=1,
            seed=chance.randint(2**31),
            dtype=X.dtype.name,
        )
        # A data set has a test sample; nothing is scored on this one.
        training = Training(config, Dataset(X, y, X[:1], y[:1], outputs, train_weights=normalised(weights, X.dtype)))
        if going_on:
            self._hand_over(training)
        earlier = self.validation_scores_ if going_on and validation else None
        losses, scores = self._run(training, validation, earlier or [], incremental)
        self.net_, self._rng, self._moments = training.net, training.rng, (self.optimizer, moments(training))
        self.loss_curve_ = (self.loss_curve_ if going_on else []) + losses
        self.validation_scores_ = (earlier or []) + scores if validation else None
        self.n_iter_ = len(self.loss_curve_)

    def _split(self, X, y, weights, share: float, chance: np.random.RandomState):
        """Samples to train on, and that share of them to validate by: X, y and weights of both.

        Of every class alike, where there are enough of each.
        """
        n, n_validation = len(X), math.ceil(share * len(X))
        if n_validation < 2:
            raise ValueError("The validation set is too small. Increase 'validation_fraction' or the number of samples")
        _, counts = np.unique(y, return_counts=True)
        enough = counts.min() >= 2 and len(counts) <= min(n_validation, n - n_validation)
        stratify = y if is_classifier(self) and enough else None
        parts = train_test_split(np.arange(n), test_size=n_validation, stratify=stratify, random_state=chance)
        return ((X[rows], y[rows], None if weights is None else weights[rows]) for rows in parts)

    def _hand_over(self, training: Training) -> None:
        """Let a training go on from where the last one ended."""
        found, expected = (net.config | {"gate_bias": None} for net in (training.net, self.net_))
        if differs := ", ".join(f"{name} {found[name]}" for name in found if found[name] != expected[name]):
            raise ValueError(f"warm_start: expected the net of the last fit, found one of {differs}; fit without it")
        training.net.params.flat[...] = self.net_.params.flat
        training.rng, (optimizer, kept) = copy.deepcopy((self._rng, self._moments))  # a fit that fails spoils neither
        if optimizer == self.optimizer:
            vars(training.optimizer).update(kept)

    def _run(
        self, training: Training, validation: tuple | None, earlier: list[float], incremental: bool
    ) -> tuple[list, list]:
        """Train until nothing is gained any more; returns each epoch's loss and, with validation samples, its score.

        With validation samples, the parameters of the best epoch are those that stay: `earlier` are the scores of the
        fits before, of which these parameters were the best.
        """
        losses, scores, params = [], [], training.net.params.flat
        best = params.copy()
        try:
            for loss in training.epochs(scored=False):
                if training.diverged or not np.isfinite(params).all():
                    found = f"a loss of {loss}" if training.diverged else "weights that are not"
                    raise ValueError(
                        f"training diverged in epoch {training.epoch}: expected finite loss and weights, "
                        f"found {found}; standardise inputs and targets, or lower learning_rate"
                    )
                losses.append(loss)
                if validation:
                    scores.append(self._validate(training.net, *validation))
                    best = params.copy() if scores[-1] >= max(earlier + scores) else best
                if self.verbose:
                    score = f", validation score {scores[-1]:.4f}" if scores else ""
                    print(f"epoch {training.epoch}: loss {loss:.6f}{score}")
                gains = scores or [-loss for loss in losses]
                if epochs_without_gain(gains, self.tol) > self.n_iter_no_change:
                    break
            else:
                if not incremental:
                    lacking = f"max_iter={self.max_iter} epochs were not enough to converge; allow more, or raise tol"
                    warnings.warn(lacking, ConvergenceWarning, stacklevel=4)
        except KeyboardInterrupt:
            warnings.warn("Training was interrupted; the net is as it was then.", stacklevel=4)
        if validation:
            params[...] = best
        return losses, scores

    # ---------------------------------------------------------------------------------- using the net

    def _inputs(self, X) -> np.ndarray:
        """X (n, d_in) as the fitted net takes it."""
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=self.net_.dtype)

    def _outputs(self, X) -> np.ndarray:
        """The net's outputs, (n, K)."""
        X = self._inputs(X)
        return self.net_.predict(X)

    def _gates(self, X: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Yield some of the samples, a block, and T (D, B) of these, for all samples and blocks; T is overwritten."""
        which = self.net_.block.branches.index("T")
        for rows in gen_batches(len(X), ROWS):
            for l, (z, _) in enumerate(self.net_.iterate_blocks(self.net_.embed(X[rows]))):
                yield rows, l, z[which]

    @available_if(has_gates)
    def transform_gates(self, X) -> np.ndarray:
        """T of every block for each sample of X (n, d_in): (n, L, D); 1 transforms a unit, 0 passes it on."""
        X = self._inputs(X)
        T = np.empty((len(X), self.net_.depth, self.net_.hidden), self.net_.dtype)
        for rows, l, T_l in self._gates(X):
            T[rows, l] = T_l.T
        return T

    @available_if(has_gates)
    def effective_depth(self, X) -> np.ndarray:
        """The sum over blocks of the mean T of their units, for each sample of X (n, d_in): (n,)."""
        X = self._inputs(X)
        depth = np.zeros(len(X), self.net_.dtype)
        for rows, _, T_l in self._gates(X):
            depth[rows] += T_l.mean(axis=0)
        return depth

    def lesion(self, layers: int | Sequence[int]) -> Self:
        """A fitted copy without those blocks, counted from 0 as in `transform_gates` (section 4.2).

        Raises IndexError for a block that is not there, ValueError for blocks that are scaled by the depth.
        """
        check_is_fitted(self)
        lesioned = copy.deepcopy(self)
        lesioned.net_, lesioned._moments = self.net_.without(layers), (None, {})
        lesioned.depth = lesioned.net_.depth
        return lesioned


def moments(training: Training) -> dict[str, Any]:
    """What an optimiser has gathered; the rate is the user's, and may be another when training goes on."""
    return {name: value for name, value in optimizer_state(training).items() if name != "lr"}


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    """Weights (n,) of the samples X (n, d_in), or None; raises ValueError if they cannot be weights."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(len(X), sample_weight)
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    weights = column_or_1d(weights)
    check_consistent_length(X, weights)
    if weights.min() < 0:
        raise ValueError("Sample weights must be non-negative.")
    return weights


def normalised(weights: np.ndarray | None, dtype: np.dtype) -> np.ndarray | None:
    """Weights whose mean is 1; raises ValueError if all are 0."""
    if weights is None:
        return None
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    weights = weights / weights.max()  # whose sum cannot overflow
    return (weights / weights.mean()).astype(dtype)


class HighwayClassifier(ClassifierMixin, HighwayEstimator):
    __doc__ = f"""A highway net that tells classes, trained on the cross-entropy.
    {PARAMETERS_IN_WORDS}
    classes_ : ndarray of shape (K,)
        The labels, of whatever type, in order.
    """

    _loss = "cross-entropy"

    def partial_fit(self, X, y, sample_weight=None, classes=None) -> Self:
        """Train for one epoch on these samples; the first call has to name all `classes`."""
        going_on = hasattr(self, "net_")
        if not going_on and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if going_on and classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise ValueError(
                f"classes: expected {self.classes_}, as in the first call, found {classes}; leave them out"
            )
        return self._fit(X, y, sample_weight, going_on=going_on, incremental=True, classes=classes)

    def _check_samples(self, X, y, how: dict[str, Any], classes=None) -> tuple[np.ndarray, np.ndarray, int]:
        X, y = validate_data(self, X, y, **how)
        check_classification_targets(y)
        if how["reset"]:
            self._encoder = LabelEncoder().fit(unique_labels(y if classes is None else classes))
            self.classes_ = self._encoder.classes_
        if unseen := set(unique_labels(y).tolist()) - set(self.classes_.tolist()):  # before y takes on their type
            raise ValueError(f"y: expected labels among {self.classes_}, found {unseen}; fit anew to learn others")
        return X, self._encoder.transform(y), len(self.classes_)

    def _validate(self, net: DeepNet, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
        return accuracy_score(y, net.predict(X).argmax(axis=1), sample_weight=weights)

    def predict(self, X) -> np.ndarray:
        """The likeliest class of each sample of X (n, d_in): (n,)."""
        logits = self._outputs(X)
        return self.classes_[logits.argmax(axis=1)]

    def predict_proba(self, X) -> np.ndarray:
        """The probability of each class, in the order of `classes_`: (n, K)."""
        return softmax(self._outputs(X), axis=1)

    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of the probabilities, (n, K)."""
        return log_softmax(self._outputs(X), axis=1)


class HighwayRegressor(RegressorMixin, HighwayEstimator):
    __doc__ = f"""A highway net that gives numbers, one or several, trained on the squared error.
    {PARAMETERS_IN_WORDS}"""

    _loss = "squared-error"

    def partial_fit(self, X, y, sample_weight=None) -> Self:
        """Train for one epoch on these samples."""
        return self._fit(X, y, sample_weight, going_on=hasattr(self, "net_"), incremental=True)

    def _check_samples(self, X, y, how: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **how)
        self._target_shape = y.shape[1:]
        y = y.reshape(len(y), -1).astype(X.dtype)
        return X, y, y.shape[1]

    def _validate(self, net: DeepNet, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
        return r2_score(y, net.predict(X), sample_weight=weights)

    def predict(self, X) -> np.ndarray:
        """The targets of each sample of X (n, d_in), in the shape in which they were given: (n,) or (n, K)."""
        return self._outputs(X).reshape(-1, *self._target_shape)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
