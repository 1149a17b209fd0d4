"""Highway nets as estimators beside scikit-learn's: accuracy by cross-validation, by depth, and what an epoch takes.

    python -m benchmarks.estimators --json benchmarks/estimators.json

Every estimator is used as it comes, but for the size of the nets; inputs are standardised, and the targets of
regressions. Accuracy: five folds, cut anew by each of three seeds, which are those of the nets, too. An epoch: the
contenders take turns, so that whatever slows the machine slows all alike.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
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
from highway_lab.logs import DatasetInfo, Log, numbers
from highway_lab.threads import blas_pools
from highway_networks import DeepNet, as_inputs, choose_dataset, load_dataset

from .measures import Spread, new_parser, run, spread

Maker = Callable[..., BaseEstimator]
FOLDS = 5
SEEDS = (0, 1, 2)
N_IMAGES = 6000  # of MNIST
HIDDEN = 50  # units a layer, where nets are of one size
DEPTHS = (3, 10, 30, 50)
DEPTH, WIDTHS, PRECISIONS = 30, (20, 50, 100), ("float32", "float64")  # of the nets whose epochs are timed
EPOCHS = 5  # at a time
ROUNDS = 10
MLP, MLP_ALONE = "MLP", "MLP, one BLAS thread"  # as it comes it takes every CPU, which may slow it down
SAME_NET, SAME_WIDTH, SAME_PARAMETERS = "plain blocks", "highway blocks", "highway, as many parameters"


@dataclass
class Scores:
    """Accuracy, or R² of a regression, of each fold, those of the first seed first; seconds that a fit takes."""

    dataset: str
    samples: int
    contender: str
    scores: list[float | None]
    fit_seconds: Spread


@dataclass
class AtDepth:
    """Those of nets of so many blocks, on scikit-learn's digits."""

    depth: int
    scores: list[Scores]


@dataclass
class Epoch:
    """Milliseconds of an epoch of N_IMAGES images, and how many times the better of MLPClassifier's, turn by turn."""

    precision: str
    width: int
    contender: str
    n_params: int
    ms: Spread
    over_mlp: Spread


@dataclass
class Targets:
    """What was to be reached, at DEPTH blocks as wide as HIDDEN: an epoch's time over the better of MLPClassifier's."""

    over_mlp: float = 0.5


@dataclass
class EstimatorsLog(Log):
    """benchmarks/estimators.json; `depth` is that of the nets whose epochs are timed."""

    targets: Targets
    rounds: int
    folds: int
    seeds: list[int]
    depth: int
    scores: list[Scores]
    deep: list[AtDepth]
    epochs: list[Epoch]


def layers(depth: int, hidden: int) -> tuple[int, ...]:
    """The hidden layers of an MLP of that size: the plain layer before the blocks, and these."""
    return (hidden,) * (depth + 1)


def contenders(highway: Maker, mlp: Maker, boosting: Maker, linear: Maker, **guess: Maker) -> dict[str, Maker]:
    """What is compared on each data set; `guess` looks at no input."""
    return {
        "highway": highway,
        "highway, 3 blocks": partial(highway, 3, HIDDEN),
        "MLP, of that size": partial(mlp, hidden_layer_sizes=layers(3, HIDDEN)),
        "MLP": mlp,
        "gradient boosting": boosting,
        "linear": linear,
        **guess,
    }


CLASSIFIERS = contenders(
    *(HighwayClassifier, MLPClassifier, HistGradientBoostingClassifier, partial(LogisticRegression, max_iter=1000)),
    **{"commonest class": DummyClassifier},
)
REGRESSORS = contenders(HighwayRegressor, MLPRegressor, HistGradientBoostingRegressor, Ridge, mean=DummyRegressor)
DEEP: dict[str, Callable[[int], BaseEstimator]] = {
    "highway": lambda depth: HighwayClassifier(depth, HIDDEN),
    "plain": lambda depth: HighwayClassifier(depth, HIDDEN, block="plain"),
    "MLP": lambda depth: MLPClassifier(hidden_layer_sizes=layers(depth, HIDDEN)),
    "MLP, tanh": lambda depth: MLPClassifier(hidden_layer_sizes=layers(depth, HIDDEN), activation="tanh"),
}
BUNDLED = {
    "digits": datasets.load_digits,
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
}


def images() -> tuple[str, np.ndarray, np.ndarray]:
    """The first N_IMAGES training images of MNIST, pixels from -1 to 1, and their classes."""
    name = choose_dataset()
    data = load_dataset(name)
    return name, as_inputs(data.train_x[:N_IMAGES]), data.train_y[:N_IMAGES]


def scores(dataset: str, X: np.ndarray, y: np.ndarray, contender: str, estimator: BaseEstimator) -> Scores:
    """Cross-validate an estimator, standardised, with every seed."""
    found, seconds = [], []
    for seed in SEEDS:
        seeded = {"random_state": seed} if "random_state" in estimator.get_params() else {}
        whole = make_pipeline(StandardScaler(), clone(estimator).set_params(**seeded))
        if is_classifier(estimator):
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        else:
            folds, whole = KFold(FOLDS, shuffle=True, random_state=seed), TransformedTargetRegressor(whole)
            whole.set_params(transformer=StandardScaler())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what an estimator reaches as it comes is what counts
            done = cross_validate(whole, X, y, cv=folds)
        found += numbers(done["test_score"].tolist(), digits=4)
        seconds += done["fit_time"].tolist()
    row = Scores(dataset, len(X), contender, found, spread(seconds))
    print(f"{dataset:<15}{contender:<28}{np.mean(found):.4f}  {row.fit_seconds} s", flush=True)
    return row


def size(d_in: int, d_out: int, hidden: int, block: str) -> int:
    """How many parameters a net of DEPTH blocks has."""
    return DeepNet(d_in, d_out, hidden=hidden, depth=DEPTH, block=block, rng=None).params.flat.size


def timed_nets(d_in: int, d_out: int, width: int) -> dict[str, BaseEstimator]:
    """The nets of DEPTH blocks whose epochs are timed: EPOCHS of them, whatever the loss."""
    n_params = size(d_in, d_out, width, "plain")
    narrower = min(range(1, width), key=lambda hidden: abs(size(d_in, d_out, hidden, "highway") - n_params))
    same = {"max_iter": EPOCHS, "tol": 0.0, "n_iter_no_change": EPOCHS + 1, "activation": "tanh", "random_state": 0}
    mlp = MLPClassifier(hidden_layer_sizes=layers(DEPTH, width), **same)
    return {
        MLP: mlp,
        MLP_ALONE: clone(mlp),
        SAME_NET: HighwayClassifier(DEPTH, width, block="plain", **same),
        SAME_PARAMETERS: HighwayClassifier(DEPTH, narrower, **same),
        SAME_WIDTH: HighwayClassifier(DEPTH, width, **same),
    }


def n_params(net: BaseEstimator) -> int:
    """How many parameters a fitted net has."""
    if isinstance(net, MLPClassifier):
        return sum(part.size for part in net.coefs_ + net.intercepts_)
    return net.net_.params.flat.size


def epochs(X: np.ndarray, y: np.ndarray, width: int, rounds: int) -> list[Epoch]:
    """Let the nets of a width take turns."""
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
    better = min((MLP, MLP_ALONE), key=lambda name: np.median(ms[name]))
    rows = [
        Epoch(X.dtype.name, width, name, n_params(net), spread(ms[name]), spread(np.divide(ms[name], ms[better])))
        for name, net in nets.items()
    ]
    for row in rows:
        print(f"{row.precision}, {row.width} units: {row.contender:<28}{row.ms} ms an epoch, {row.over_mlp} × MLP's")
    return rows


def run_command(arguments: argparse.Namespace) -> EstimatorsLog:
    """Measure and print; epochs first, before the machine is warm from hours of fits."""
    name, X, y = images()
    log = EstimatorsLog.new(
        arguments.command_line,
        DatasetInfo(name, len(X), 1),
        threads=blas_pools().info()[0]["num_threads"],  # which ours does not always take
        targets=Targets(),
        rounds=arguments.rounds,
        folds=FOLDS,
        seeds=list(SEEDS),
        depth=DEPTH,
        scores=[],
        deep=[],
        epochs=[],
    )
    for precision in PRECISIONS:
        for width in WIDTHS:
            log.epochs += epochs(X.astype(precision), y, width, arguments.rounds)
    bundled = {of: load(return_X_y=True) for of, load in BUNDLED.items()}
    for of, samples in {**bundled, name: (X, y)}.items():
        known = REGRESSORS if of == "diabetes" else CLASSIFIERS
        log.scores += [scores(of, *samples, contender, new()) for contender, new in known.items()]
    for depth in DEPTHS:
        nets = {contender: new(depth) for contender, new in DEEP.items()}
        found = [scores("digits", *bundled["digits"], contender, net) for contender, net in nets.items()]
        log.deep.append(AtDepth(depth, found))
    return log


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run(new_parser("estimators", "Compare the estimators with scikit-learn's.", ROUNDS), run_command, argv)


if __name__ == "__main__":
    sys.exit(main())
