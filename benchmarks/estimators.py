"""Highway nets as estimators beside scikit-learn's, each with its defaults: scores and seconds on sixteen tasks.

    python -m benchmarks estimators --json benchmarks/estimators.json

Each task is cut into five folds, anew by each of three seeds, which also seed the estimators. The task with few rows
draws three of each class instead, four times as often. Inputs and the targets of regressions are standardised. Every
estimator has one thread, and its seconds are the processor's, whatever else the machine does meanwhile.
"""

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn import datasets
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from highway_estimators import HighwayClassifier, HighwayRegressor
from highway_lab.fields import Count, NonEmpty, Score
from highway_lab.intervals import LEVEL, Interval, judge
from highway_lab.logs import Log, grouped
from highway_networks import rounded

from .measures import Benchmark, Spread, spread

FOLDS, ROUNDS = 5, 3  # a round is all folds of a seed
FEW, DRAWS = 30, 4  # rows that a task of few rows trains on; how often they are drawn for each fold of another task
HIGHWAY, MLP = "highway", "MLP"
CLASSIFIERS = {
    HIGHWAY: HighwayClassifier(),
    MLP: MLPClassifier(),
    "linear": LogisticRegression(max_iter=1000),
    "gradient boosting": HistGradientBoostingClassifier(),
}
REGRESSORS = {
    HIGHWAY: HighwayRegressor(),
    MLP: MLPRegressor(),
    "linear": Ridge(),
    "gradient boosting": HistGradientBoostingRegressor(),
}


class Task(NamedTuple):
    """A data set to learn, by a function that returns X and y; `few`: from FEW rows."""

    contenders: dict[str, BaseEstimator]
    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    few: bool = False


@dataclass
class Scores:
    """Accuracy, or R² of a regression, in each fold, all folds of the first seed first; the processor's seconds."""

    task: str
    rows: Count
    contender: str
    scores: NonEmpty[Score | None]
    fit_seconds: Spread


@dataclass
class EstimatorsLog(Log):
    """The log of this measurement."""

    folds: Count
    seeds: NonEmpty[Count]
    scores: NonEmpty[Scores]


def corrected(values: Sequence[float], folds: int) -> Interval:
    """Return the mean of a value of each fold of each seed, with its 95 % interval.

    By the resampled t-test, corrected for overlapping training sets (Nadeau & Bengio 2003; Bouckaert & Frank 2004).
    """
    n = len(values)
    error = np.std(values, ddof=1) * np.sqrt(1 / n + 1 / (folds - 1))
    return Interval(float(np.mean(values)), float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * error))


def table(n_samples: int, n_classes: int | None = None, *, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a made-up table: 5 numbers, 2 categories of 5 values as 10 columns of 0 and 1.

    Scores are linear in the columns but for a product of two; noise as large decides the class, or the number.
    """
    rng = np.random.default_rng(random_state)
    values, categories = rng.standard_normal((n_samples, 5)), rng.integers(5, size=(2, n_samples))
    X = np.hstack([values, *np.eye(5)[categories]])
    features = np.hstack([X, values[:, :1] * values[:, 1:2]])
    scores = features @ rng.standard_normal((features.shape[1], n_classes or 1))
    if n_classes:
        return X, (scores + scores.std() * rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, scores[:, 0] + scores.std() * rng.standard_normal(n_samples)


MADE_UP = {  # contenders, and what draws the data
    "2 classes": (CLASSIFIERS, partial(datasets.make_classification, 500, n_informative=5, flip_y=0.1)),
    "4 classes": (CLASSIFIERS, partial(datasets.make_classification, 500, n_classes=4, n_informative=8, flip_y=0.05)),
    "moons": (CLASSIFIERS, partial(datasets.make_moons, 300, noise=0.3)),
    "hastie": (CLASSIFIERS, partial(datasets.make_hastie_10_2, 2000)),
    "table of classes": (CLASSIFIERS, partial(table, 2000, 4)),
    "linear": (REGRESSORS, partial(datasets.make_regression, 300, n_features=20, n_informative=10, noise=50)),
    "friedman1": (REGRESSORS, partial(datasets.make_friedman1, 500, noise=1)),
    "friedman2": (REGRESSORS, partial(datasets.make_friedman2, 500, noise=100)),
    "friedman3": (REGRESSORS, partial(datasets.make_friedman3, 500, noise=0.1)),
    "table of numbers": (REGRESSORS, partial(table, 2000)),
}


BUNDLED = {
    of: partial(getattr(datasets, f"load_{of}"), return_X_y=True) for of in ("iris", "wine", "breast_cancer", "digits")
}
TASKS = {
    **{name: Task(CLASSIFIERS, load) for name, load in BUNDLED.items()},
    f"digits, {FEW} rows": Task(CLASSIFIERS, BUNDLED["digits"], few=True),
    "diabetes": Task(REGRESSORS, partial(datasets.load_diabetes, return_X_y=True)),
    **{name: Task(of, partial(make, random_state=0)) for name, (of, make) in MADE_UP.items()},
}


def cross_validated(name: str, task: Task, contender: str, estimator: BaseEstimator, seeds: Sequence[int]) -> Scores:
    """Score an estimator for a task by cross-validation with every seed; print and return the result."""
    (X, y), scores, seconds = task.load(), [], []
    for seed in seeds:
        seeded = {"random_state": seed} if "random_state" in estimator.get_params() else {}
        whole = make_pipeline(StandardScaler(), clone(estimator).set_params(**seeded))
        if task.few:
            cuts = StratifiedShuffleSplit(DRAWS * FOLDS, train_size=FEW, random_state=seed)
        elif is_classifier(estimator):
            cuts = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        else:
            cuts = KFold(FOLDS, shuffle=True, random_state=seed)
            whole = TransformedTargetRegressor(whole, transformer=StandardScaler())
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the default number of epochs is part of the contest
            for train, test in cuts.split(X, y):
                start = time.process_time()
                whole.fit(X[train], y[train])
                seconds.append(time.process_time() - start)
                scores.append(rounded(whole.score(X[test], y[test]), digits=4))
    row = Scores(name, FEW if task.few else len(X), contender, scores, spread(seconds))
    print(f"{name:<20} {contender:<28} {np.mean(scores):.4f}  {row.fit_seconds} s", flush=True)
    return row


def compare(arguments: argparse.Namespace) -> EstimatorsLog:
    """Compare the estimators with scikit-learn's."""
    seeds = [*range(arguments.rounds)]
    scores = [
        cross_validated(name, task, *contender, seeds)
        for name, task in TASKS.items()
        for contender in task.contenders.items()
    ]
    return EstimatorsLog.new(arguments.command_line, None, folds=FOLDS, seeds=seeds, scores=scores)


def numbers(log: EstimatorsLog) -> dict:
    """Return what the page quotes, by task: mean score and median seconds of each contender, and the lead over MLPs."""
    rows = {task: {row.contender: row for row in of} for task, of in grouped(log.scores, attrgetter("task")).items()}
    score = {task: {name: np.mean(row.scores) for name, row in of.items()} for task, of in rows.items()}
    lead = {of: corrected(np.subtract(rows[of][HIGHWAY].scores, rows[of][MLP].scores), log.folds) for of in rows}
    return {
        "score": score,
        "best": Counter(max(of, key=of.get) for of in score.values()),
        "lead": lead,
        "verdicts": Counter(judge(of, margin=0) for of in lead.values()),
        "slower": [of[HIGHWAY].fit_seconds.median / of[MLP].fit_seconds.median for of in rows.values()],
        "folds": log.folds,
        "seeds": len(log.seeds),
    }


BENCHMARK = Benchmark("estimators", EstimatorsLog, compare, numbers, rounds=ROUNDS)
