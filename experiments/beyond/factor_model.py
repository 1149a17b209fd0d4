"""Do the gates of a net that predicts returns tell the regime of the market?

Walk-forward: every model is fitted to the first four fifths of a rolling window. The last fifth chooses one of nine
settings and the length of training. Then the model predicts the days after the window. Out-of-sample R² is 1 − the sum
of its squared errors / that of the window's mean (Campbell & Thompson 2008, eq. 1).

Two signals detect the second regime on those days: mean T, minus its mean over the window; and T of the block that
separated the regimes best in the window, with the sign that it had there. Each fold gives an AUC. Baselines: the
untrained net, a logistic regression that was fitted to the window's regimes, and chance. Chance is the AUC with the
regimes shifted by every number of days, cyclically, which keeps them as persistent as they are. Its mean over all
shifts is ½; p is the share of shifts whose AUC is at least as far from ½.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

import highway_estimators  # noqa: F401, adds squared-error to LOSSES
from highway_lab.fields import Count, NonEmpty, Score, Share, dict_of
from highway_lab.logs import Log, Result, numbers
from highway_lab.training import Training
from highway_networks import Config, Dataset, DeepNet, rounded

from .. import blocks  # noqa: F401, adds residual-scaled to BLOCKS
from ..common import NO_DATA, Experiment, ExperimentJob
from .simulated_markets import FACTORS, MARKETS, Market, simulate

SEEDS = tuple(range(20))
BUDGET = {"window": 3000, "horizon": 1000, "folds": 3, "epochs": 60, "rounds": 300}
SMOKE = {"window": 200, "horizon": 100, "folds": 1, "epochs": 2, "rounds": 5}
VALIDATION = 0.2  # share of a window that chooses the setting
DEEP = {"depth": 10, "activation": "tanh", "init": "glorot"}  # as in most of these experiments
SHALLOW = {"depth": 4, "activation": "relu", "init": "he"}  # as suggested for returns
NETS = {  # 4,225 to 4,361 parameters
    "plain, 1 block": DEEP | {"depth": 1, "block": "plain", "hidden": 61},
    "plain, 10 blocks": DEEP | {"block": "plain", "hidden": 20},
    "residual, scaled, 10 blocks": DEEP | {"block": "residual-scaled", "hidden": 20},
    "highway, 10 blocks": DEEP | {"block": "highway", "hidden": 14, "gate_bias": -1.0},
    "highway, 4 blocks": SHALLOW | {"block": "highway", "hidden": 22, "gate_bias": -1.0},
}
UNTRAINED = ", untrained"
GATED = tuple(name for name, net in NETS.items() if net["block"] == "highway")
RATES = tuple(product((1e-3, 3e-3, 1e-2), (0.0, 3e-3, 1e-2)))  # learning rate, weight decay
TREES = tuple(product((0.03, 0.1, 0.3), (4, 8, 16)))  # learning rate, leaves
PENALTIES = tuple(10.0**power for power in range(-2, 7))
QUANTILES = (0.025, 0.975)  # of the AUC with shifted regimes


@dataclass(frozen=True)
class Task:
    """A market, its seed, and the walk-forward through it; window and horizon in days."""

    market: Literal[*MARKETS]
    seed: Count
    window: Count
    horizon: Count
    folds: Count
    epochs: Count
    rounds: Count  # of boosting, at most


@dataclass
class R2:
    """Out-of-sample R² on all days and on those of each regime."""

    all: Score | None
    first: Score | None
    second: Score | None


@dataclass
class Detection:
    """AUC of a signal for the second regime, mean over folds; QUANTILES of the AUC with shifted regimes; p."""

    auc: Share | None
    low: Share | None
    high: Share | None
    p: Share


@dataclass
class MarketRun(Result):
    """One market; the last two are of the days that the first fold predicts, kept for the first seed alone."""

    task: Task
    scores: dict[str, R2]  # by model
    detections: dict[str, Detection]  # by signal
    settings: dict[str, list[str]]  # chosen, by model and fold
    mean_T: dict_of(GATED, list[float | None])  # by net, standardised by the window
    second: list[bool]  # whether the second regime ruled


@dataclass
class FactorModelLog(Log):
    dataset: None
    n_params: dict_of(NETS, Count)
    runs: NonEmpty[MarketRun]


EXPERIMENT = Experiment(__name__, __doc__, FactorModelLog, NO_DATA)


# ---------------------------------------------------------------------------------------------- models
# Each is a generator that takes days to fit, (n, d) and (n,), and later days (m, d). It yields a candidate for each
# setting and each length of training.


class Candidate(NamedTuple):
    """A setting in words, its predictions (m,), and the parameters if it is a net."""

    setting: str
    predicted: np.ndarray
    params: np.ndarray | None = None


def ridge(degree: int, x: np.ndarray, y: np.ndarray, later: np.ndarray, _: Task) -> Iterator[Candidate]:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    for penalty in PENALTIES:
        model = make_pipeline(PolynomialFeatures(degree, include_bias=False), StandardScaler(), Ridge(penalty))
        yield Candidate(f"penalty {penalty:g}", model.fit(x, y).predict(later))


def boosting(x: np.ndarray, y: np.ndarray, later: np.ndarray, task: Task) -> Iterator[Candidate]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    for rate, leaves in TREES:
        setting = {"learning_rate": rate, "max_leaf_nodes": leaves, "max_iter": task.rounds, "early_stopping": False}
        model = HistGradientBoostingRegressor(**setting).fit(x, y)
        for predicted in model.staged_predict(later):
            yield Candidate(f"rate {rate:g}, {leaves} leaves", predicted)


def train(name: str, x: np.ndarray, y: np.ndarray, later: np.ndarray, task: Task) -> Iterator[Candidate]:
    for lr, weight_decay in RATES:
        training = prepare(name, x, y, task, lr=lr, weight_decay=weight_decay)
        for _ in training.epochs(scored=False):
            predicted = training.net.predict(later)[:, 0]
            yield Candidate(f"rate {lr:g}, decay {weight_decay:g}", predicted, training.net.params.flat.copy())


def prepare(name: str, x: np.ndarray, y: np.ndarray, task: Task, **setting: float) -> Training:
    """Return the training of a net before its first epoch, whose weights depend on the seed alone."""
    budget = {"epochs": task.epochs, "n_train": len(x), "n_test": 1, "seed": task.seed}
    config = Config(loss="squared-error", **NETS[name], **budget, **setting)
    return Training(config, Dataset(x, y[:, None], x[:1], y[:1, None], outputs=1))  # the test day is never scored


MODELS = {
    "ridge": partial(ridge, 1),
    "ridge, products of two": partial(ridge, 2),
    "boosting": boosting,
    **{name: partial(train, name) for name in NETS},
}


class Forecast(NamedTuple):
    """Predictions by model and signals by name for the days after a window, (horizon,) each; settings by model."""

    predicted: dict[str, np.ndarray]
    signals: dict[str, np.ndarray]
    settings: dict[str, str]


def forecast(market: Market, day: int, task: Task) -> Forecast:
    """Fit and choose on the window that begins with `day`, and predict the days after the window."""
    from sklearn.linear_model import LogisticRegression

    x, y, second, *_ = (days[day : day + task.window + task.horizon] for days in market)
    fit, window = round((1 - VALIDATION) * task.window), task.window
    inputs, targets = standardised(x, fit), standardised(y, fit)

    def error(candidate: Candidate) -> float:
        errors = candidate.predicted[: window - fit] - targets[fit:window]
        return float(np.nan_to_num(np.mean(errors**2), nan=np.inf))  # NaN if a net diverged

    given = inputs[:fit], targets[:fit], inputs[fit:], task
    chosen = {name: min(model(*given), key=error) for name, model in MODELS.items()}
    predicted = {name: y[:fit].mean() + y[:fit].std() * best.predicted[window - fit :] for name, best in chosen.items()}
    predicted["mean"] = np.full(task.horizon, y[:window].mean())

    signals = {}
    for name in GATED:
        net = prepare(name, inputs[:fit], targets[:fit], task).net
        untrained = gates(net, inputs)
        net.params.flat[...] = chosen[name].params
        signals |= gate_signals(name, gates(net, inputs), second[:window])
        signals |= gate_signals(f"{name}{UNTRAINED}", untrained, second[:window])
    regression = LogisticRegression().fit(inputs[:window], second[:window])
    signals["logistic regression"] = regression.decision_function(inputs[window:])  # log odds of the second regime
    return Forecast(predicted, signals, {name: best.setting for name, best in chosen.items()})


def standardised(days: np.ndarray, fit: int) -> np.ndarray:
    """Shift and scale days (n, ...) so that the first `fit` of them have mean 0 and variance 1."""
    return ((days - days[:fit].mean(axis=0)) / days[:fit].std(axis=0)).astype(np.float32)


def gates(net: DeepNet, x: np.ndarray) -> np.ndarray:
    """Return the mean T of each block over its units, (L, n), on days x (n, d)."""
    return np.array([T.mean(axis=0) for T, _ in net.iterate_gates(net.embed(x))])


def gate_signals(name: str, T: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Return a net's signals on the days after a window, given T (L, n) on all days and the window's regimes."""
    from scipy.stats import rankdata

    T = np.vstack([T.mean(axis=0), T])
    past = T[:, : len(second)]
    signals = (T - past.mean(axis=1, keepdims=True)) / past.std(axis=1, keepdims=True)
    skills = np.array([auc(block, second) for block in rankdata(past[1:], axis=1)]) - 0.5
    best, after = np.abs(skills).argmax(), signals[:, len(second) :]
    return {f"{name}: mean T": after[0], f"{name}: best block": np.sign(skills[best]) * after[1 + best]}


def score(y: np.ndarray, predicted: np.ndarray, mean: np.ndarray, second: np.ndarray) -> R2:
    """Return the out-of-sample R² of predictions, given the windows' means; all (n,)."""
    errors, total = (y - predicted) ** 2, (y - mean) ** 2
    with np.errstate(invalid="ignore"):  # 0 / 0 for a regime that never ruled
        return R2(*(rounded(1 - errors[days].sum() / total[days].sum()) for days in (..., ~second, second)))


def auc(ranks: np.ndarray, second: np.ndarray) -> float:
    """Return the share of pairs, a day of each regime, in which the second ranks higher (Mann & Whitney 1947)."""
    n = np.count_nonzero(second)
    pairs = n * (len(second) - n)
    return (ranks[second].sum() - n * (n + 1) / 2) / pairs if pairs else math.nan


def detect(signal: np.ndarray, second: np.ndarray) -> Detection:
    """Compare a signal with the regimes and with shifted regimes, (folds, n) each; AUCs are means over folds.

    Each fold is ranked by itself: its net is another one, in which a gate may mean the opposite.
    """
    from scipy.stats import rankdata

    ranked = rankdata(signal, axis=1)
    aucs = np.array([np.mean([*map(auc, ranked, np.roll(second, n, axis=1))]) for n in range(second.shape[1])])
    nearer = np.abs(aucs - 0.5) < abs(aucs[0] - 0.5)
    return Detection(rounded(aucs[0]), *numbers(np.quantile(aucs, QUANTILES)), rounded(1 - nearer.mean()))


def run_task(task: Task, _: Any) -> MarketRun:
    """Simulate a market, and predict it window by window."""
    import sklearn.ensemble  # noqa: F401, so that its threads are there when all are limited
    from threadpoolctl import threadpool_limits

    market = simulate(task.market, task.window + task.folds * task.horizon, task.seed)
    with threadpool_limits(1):
        folds = [forecast(market, fold * task.horizon, task) for fold in range(task.folds)]
    _, y, second, known, seen = (days[task.window :] for days in market)
    predicted = {name: np.concatenate([fold.predicted[name] for fold in folds]) for name in folds[0].predicted}
    mean = predicted.pop("mean")
    predicted |= {"best by a day's inputs": seen, "best, regime known": known}
    signals = {name: np.array([fold.signals[name] for fold in folds]) for name in folds[0].signals}  # (folds, horizon)
    kept = slice(task.horizon if task.seed == SEEDS[0] else 0)
    return MarketRun(
        None,
        task,
        scores={name: score(y, values, mean, second) for name, values in predicted.items()},
        detections={name: detect(signal, second.reshape(signal.shape)) for name, signal in signals.items()},
        settings={name: [fold.settings[name] for fold in folds] for name in MODELS},
        mean_T={name: numbers(signals[f"{name}: mean T"][0, kept], digits=3) for name in GATED},
        second=second[kept].tolist(),
    )


def run(job: ExperimentJob) -> None:
    seeds, budget = (SEEDS[:2], SMOKE) if job.smoke else (SEEDS, BUDGET)
    tasks = [Task(market, seed, **budget) for seed in seeds for market in MARKETS]
    n_params = {name: DeepNet(FACTORS + 1, 1, **net, rng=None).params.flat.size for name, net in NETS.items()}
    job.keep(n_params=n_params, runs=job.run_missing(run_task, tasks, MarketRun))


EXPERIMENT.add_run(run, "simulate, fit, measure; resumable", dataset=None)
