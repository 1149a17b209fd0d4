"""Highway nets as estimators beside scikit-learn's: accuracy by cross-validation, by depth, and the time of an epoch.

    python -m benchmarks estimators --json benchmarks/estimators.json

Accuracy: five folds, cut anew by each of three seeds, which also seed the nets. Time of an epoch: the contenders take
turns, so that a slow spell of the machine slows all alike.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats
from sklearn import datasets
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from highway_estimators import HighwayClassifier, HighwayRegressor
from highway_lab.datasets import choose_dataset, load_dataset
from highway_lab.fields import Count, NonEmpty, Score
from highway_lab.intervals import LEVEL, Interval
from highway_lab.logs import DatasetInfo, Log, numbers
from highway_lab.threads import blas_pools
from highway_networks import DeepNet, as_inputs

from .measures import Spread, run, spread

FOLDS = 5
SEEDS = (0, 1, 2)
N_IMAGES = 6000  # of MNIST
HIDDEN = 50  # units a layer, where nets are of one size
DEPTHS = (3, 10, 30, 50)
DEPTH, WIDTHS, PRECISIONS = 30, (20, 50, 100), ("float32", "float64")  # of the nets whose epochs are timed
EPOCHS = 5  # at a time
ROUNDS = 10
MLP, MLP_ALONE = "MLP", "MLP, one BLAS thread"  # by default it takes every CPU, which may slow it down
SAME_NET, SAME_WIDTH, SAME_PARAMETERS = "plain blocks", "highway blocks", "highway, as many parameters"


@dataclass
class Scores:
    """Accuracy, or R² of a regression, in each fold, all folds of the first seed first; seconds of a fit."""

    dataset: str
    samples: Count
    contender: str
    scores: NonEmpty[Score | None]
    fit_seconds: Spread


@dataclass
class AtDepth:
    """Scores of nets of one depth, on scikit-learn's digits."""

    depth: Count
    scores: NonEmpty[Scores]


@dataclass
class Epoch:
    """Milliseconds of an epoch of N_IMAGES images, and their ratio to those of the faster MLPClassifier, each turn."""

    precision: str
    width: int
    contender: str
    n_params: Count
    ms: Spread
    over_mlp: Spread


@dataclass
class Targets:
    """Target for DEPTH blocks of HIDDEN units: the largest ratio of an epoch's time to the faster MLPClassifier's."""

    over_mlp: float = 0.5


@dataclass
class EstimatorsLog(Log):
    """The log of this measurement; `depth` is that of the nets whose epochs are timed."""

    targets: Targets
    rounds: Count
    folds: Count
    seeds: NonEmpty[Count]
    depth: Count
    scores: NonEmpty[Scores]
    deep: NonEmpty[AtDepth]
    epochs: NonEmpty[Epoch]


def corrected(values: Sequence[float], folds: int) -> Interval:
    """Return the mean of a value of each fold of each seed, with its 95 % interval.

    By the resampled t-test, corrected for overlapping training sets (Nadeau & Bengio 2003; Bouckaert & Frank 2004).
    """
    n = len(values)
    error = np.std(values, ddof=1) * np.sqrt(1 / n + 1 / (folds - 1))
    return Interval(float(np.mean(values)), float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * error))


def find(rows: Sequence[Scores], dataset: str, contender: str) -> Scores:
    return next(row for row in rows if (row.dataset, row.contender) == (dataset, contender))


def leads(rows: Sequence[Scores], contender: str, other: str, folds: int) -> dict[str, Interval]:
    """Return a contender's score minus another's, by data set."""
    return {
        of: corrected(np.subtract(*(find(rows, of, name).scores for name in (contender, other))), folds)
        for of in dict.fromkeys(row.dataset for row in rows)
    }


def layers(depth: int, hidden: int) -> tuple[int, ...]:
    """Return the hidden layers of an MLP as large as a highway net: the plain layer before the blocks, and these."""
    return (hidden,) * (depth + 1)


def of_three_blocks(highway: type[BaseEstimator], mlp: type[BaseEstimator]) -> dict[str, BaseEstimator]:
    """Return a highway net and an MLP, with their defaults and with three blocks."""
    return {
        "highway": highway(),
        "highway, 3 blocks": highway(3, HIDDEN),
        "MLP, of that size": mlp(hidden_layer_sizes=layers(3, HIDDEN)),
        "MLP": mlp(),
    }


CLASSIFIERS = of_three_blocks(HighwayClassifier, MLPClassifier) | {
    "gradient boosting": HistGradientBoostingClassifier(),
    "linear": LogisticRegression(max_iter=1000),
    "commonest class": DummyClassifier(),
}
REGRESSORS = of_three_blocks(HighwayRegressor, MLPRegressor) | {
    "gradient boosting": HistGradientBoostingRegressor(),
    "linear": Ridge(),
    "mean": DummyRegressor(),
}
TANH = {"activation": "tanh", "learning_rate": 2e-3, "early_stopping": False}  # the MLPs do not stop early
DEEP: dict[str, Callable[[int], BaseEstimator]] = {
    "highway": lambda depth: HighwayClassifier(depth, HIDDEN, **TANH),
    "plain": lambda depth: HighwayClassifier(depth, HIDDEN, block="plain", **TANH),
    "MLP": lambda depth: MLPClassifier(hidden_layer_sizes=layers(depth, HIDDEN)),
    "MLP, tanh": lambda depth: MLPClassifier(hidden_layer_sizes=layers(depth, HIDDEN), activation="tanh"),
}
BUNDLED = ("digits", "breast_cancer", "wine", "diabetes")  # with scikit-learn


def timed_nets(d_in: int, d_out: int, width: int) -> dict[str, BaseEstimator]:
    """Return the nets of DEPTH blocks whose epochs are timed; they train for EPOCHS epochs, whatever the loss."""

    def size(hidden: int, block: str) -> int:
        return DeepNet(d_in, d_out, hidden=hidden, depth=DEPTH, block=block, rng=None).params.flat.size

    narrower = min(range(1, width), key=lambda hidden: abs(size(hidden, "highway") - size(width, "plain")))
    same = {"max_iter": EPOCHS, "early_stopping": False, "activation": "tanh", "random_state": 0}
    same |= {"tol": 0.0, "n_iter_no_change": EPOCHS + 1}
    mlp = MLPClassifier(hidden_layer_sizes=layers(DEPTH, width), **same)
    return {
        MLP: mlp,
        MLP_ALONE: clone(mlp),
        SAME_NET: HighwayClassifier(DEPTH, width, block="plain", **same),
        SAME_PARAMETERS: HighwayClassifier(DEPTH, narrower, **same),
        SAME_WIDTH: HighwayClassifier(DEPTH, width, **same),
    }


def n_params(net: BaseEstimator) -> int:
    if isinstance(net, MLPClassifier):
        return sum(part.size for part in net.coefs_ + net.intercepts_)
    return net.net_.params.flat.size


def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a data set that comes with scikit-learn."""
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def images() -> tuple[str, np.ndarray, np.ndarray]:
    """Return a data set's name and its first N_IMAGES training images: pixels from -1 to 1, and classes."""
    name = choose_dataset()
    data = load_dataset(name)
    return name, as_inputs(data.train_x[:N_IMAGES]), data.train_y[:N_IMAGES]


def cross_validated(dataset: str, X: np.ndarray, y: np.ndarray, contender: str, estimator: BaseEstimator) -> Scores:
    """Cross-validate an estimator on standardised inputs, with every seed, and print its mean score."""
    scores, seconds = [], []
    for seed in SEEDS:
        seeded = {"random_state": seed} if "random_state" in estimator.get_params() else {}
        whole = make_pipeline(StandardScaler(), clone(estimator).set_params(**seeded))
        if is_classifier(estimator):
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        else:
            folds = KFold(FOLDS, shuffle=True, random_state=seed)
            whole = TransformedTargetRegressor(whole, transformer=StandardScaler())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the default number of epochs is part of the contest
            done = cross_validate(whole, X, y, cv=folds)
        scores += numbers(done["test_score"].tolist(), digits=4)
        seconds += done["fit_time"].tolist()
    row = Scores(dataset, len(X), contender, scores, spread(seconds))
    print(f"{dataset:<16} {contender:<28} {np.mean(scores):.4f}  {row.fit_seconds} s", flush=True)
    return row


def epochs(X: np.ndarray, y: np.ndarray, width: int, rounds: int) -> list[Epoch]:
    """Time the nets of a width, which take turns, and print the result."""
    nets = timed_nets(X.shape[1], len(np.unique(y)), width)
    ms = {name: [] for name in nets}
    for _ in range(rounds):
        for name, net in nets.items():
            threads = 1 if name == MLP_ALONE else None  # ours chooses for itself
            start = time.perf_counter()
            with threadpool_limits(threads, "blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                net.fit(X, y)
            ms[name].append(1e3 * (time.perf_counter() - start) / EPOCHS)
    faster = min((MLP, MLP_ALONE), key=lambda name: np.median(ms[name]))
    rows = [
        Epoch(X.dtype.name, width, name, n_params(net), spread(ms[name]), spread(np.divide(ms[name], ms[faster])))
        for name, net in nets.items()
    ]
    for row in rows:
        print(f"{row.precision}, {row.width} units: {row.contender:<28}{row.ms} ms an epoch, {row.over_mlp} × MLP's")
    return rows


def compare(arguments: argparse.Namespace) -> EstimatorsLog:
    """Compare the estimators with scikit-learn's."""
    name, X, y = images()
    log = EstimatorsLog.new(
        arguments.command_line,
        DatasetInfo(name, len(X), 1),
        threads=blas_pools().info()[0]["num_threads"],  # ours may take fewer
        targets=Targets(),
        rounds=arguments.rounds,
        folds=FOLDS,
        seeds=list(SEEDS),
        depth=DEPTH,
        **{part: [] for part in ("scores", "deep", "epochs")},
    )
    for precision in PRECISIONS:  # first, before hours of fits warm the machine
        for width in WIDTHS:
            log.epochs += epochs(X.astype(precision), y, width, arguments.rounds)
    samples = {of: bundled(of) for of in BUNDLED} | {name: (X, y)}
    for of, (inputs, targets) in samples.items():
        contenders = REGRESSORS if of == "diabetes" else CLASSIFIERS
        log.scores += [cross_validated(of, inputs, targets, *contender) for contender in contenders.items()]
    for depth in DEPTHS:
        scores = [cross_validated("digits", *samples["digits"], of, new(depth)) for of, new in DEEP.items()]
        log.deep.append(AtDepth(depth, scores))
    return log


main = partial(run, "estimators", compare, rounds=ROUNDS)
