"""Do the gates of a net that predicts returns tell the regime of the market?

One reads that a highway net suits factor models of returns: in stable markets its gates would close and carry the raw
factors, in complex ones open to process them, so that open gates would mark the days of a nonlinear regime. That can be
tried where regimes are known: in markets that are simulated (simulated_markets.py). The first regime's returns are
linear in the factors, the second's are not; models see the factors and a noisy state variable that tells the regime.
Three controls: the state variable is that of other regimes, so that no input tells those that rule ("hidden"); the
second regime is linear, too, with other loadings, and so no more complex than the first ("both linear"); in the second
regime no factor counts, so that it is harder to predict than the first, but there is nothing to process ("noise").

Walk-forward: every model is fitted to the first four fifths of a rolling window; its setting, of nine, and how long it
is trained are chosen on the last fifth; then, not fitted again, it predicts the days that follow. Out-of-sample R² is
1 − the sum of its squared errors / that of the window's mean (Campbell & Thompson 2008, eq. 1). As ten plain blocks may
just be too many, a plain net of one block and as many parameters stands beside them, as does a path without gates.

As a detector of the second regime on those days: mean T, less its mean over the window, and T of a single block, that
which told the regimes best in the window, by the sign that it had there. Measured by AUC in each fold, beside the same
of the untrained net, a logistic regression that was taught the window's regimes, and chance: the AUC with the regimes
shifted by every number of days, the last to the first, so that they stay as persistent as they are. Over all shifts the
mean is ½; p is the share that lies as far from it as the AUC does.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from highway_lab.logs import Log, Result, number, numbers
from highway_networks import Config, Dataset, DeepNet, Training

from ..common import NO_DATA, Experiment, add_run_flags, start
from .simulated_markets import FACTORS, MARKETS, Market, simulate

SEEDS = tuple(range(20))
BUDGET = {"window": 3000, "horizon": 1000, "folds": 3, "epochs": 60, "rounds": 300}
SMOKE = {"window": 400, "horizon": 200, "folds": 1, "epochs": 2, "rounds": 20}
HELD_OUT = 0.2  # share of a window that chooses
DEEP = {"depth": 10, "activation": "tanh", "init": "glorot"}  # as elsewhere here
SHALLOW = {"depth": 4, "activation": "relu", "init": "he"}  # as suggested for returns
NETS = {  # 4,225 to 4,361 parameters
    "plain, 1 block": DEEP | {"depth": 1, "block": "plain", "hidden": 61},
    "plain, 10 blocks": DEEP | {"block": "plain", "hidden": 20},
    "residual, scaled, 10 blocks": DEEP | {"block": "residual-scaled", "hidden": 20},
    "highway, 10 blocks": DEEP | {"block": "highway", "hidden": 14, "gate_bias": -1.0},
    "highway, 4 blocks": SHALLOW | {"block": "highway", "hidden": 22, "gate_bias": -1.0},
}
GATED = tuple(name for name, net in NETS.items() if net["block"] == "highway")
RATES = tuple(product((1e-3, 3e-3, 1e-2), (0.0, 3e-3, 1e-2)))  # of learning, and weight decay
TREES = tuple(product((0.03, 0.1, 0.3), (4, 8, 16)))  # rate, leaves
PENALTIES = tuple(10.0**power for power in range(-2, 7))
SHIFTED = (0.025, 0.975)  # quantiles of the AUC with shifted regimes


@dataclass(frozen=True)
class Task:
    """A market and how it is walked through; window and horizon in days."""

    market: str
    seed: int
    window: int
    horizon: int
    folds: int
    epochs: int
    rounds: int  # of boosting


@dataclass
class Score:
    """Out-of-sample R² of all days and of each regime's."""

    all: float | None
    first: float | None
    second: float | None


@dataclass
class Detection:
    """AUC of a signal for the second regime, mean over folds; quantiles of that with shifted regimes; p."""

    auc: float | None
    low: float | None
    high: float | None
    p: float


@dataclass
class MarketRun(Result):
    """What came out in one market; scores and detections by name, settings by model and fold.

    mean_T (less the window's mean, in its standard deviations) by net, and whether the second regime ruled: on the days
    that the first fold predicts, kept for the first seed alone.
    """

    task: Task
    scores: dict[str, Score]
    detections: dict[str, Detection]
    settings: dict[str, list[str]]
    mean_T: dict[str, list[float | None]]
    second: list[bool]


@dataclass
class FactorModelLog(Log):
    """runs/factor_model.json."""

    dataset: None
    n_params: dict[str, int]
    runs: list[MarketRun]


EXPERIMENT = Experiment(__name__, __doc__, FactorModelLog, NO_DATA)


# ---------------------------------------------------------------------------------------------- models
# Each is a generator, given days to fit (n, d) and (n,), and later ones (m, d) to predict: of a candidate for each
# setting and each length of training.


class Candidate(NamedTuple):
    """A setting in words, its predictions (m,), and, of a net, the parameters."""

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
    """A net before its first epoch, the same for all days of a seed; no score is taken, so no day is there to test."""
    budget = {"epochs": task.epochs, "n_train": len(x), "n_test": 1, "seed": task.seed}
    config = Config(loss="squared-error", **NETS[name], **budget, **setting)
    return Training(config, Dataset(x, y[:, None], x[:1], y[:1, None], outputs=1))


MODELS = {
    "ridge": partial(ridge, 1),
    "ridge, products of two": partial(ridge, 2),
    "boosting": boosting,
    **{name: partial(train, name) for name in NETS},
}


# ----------------------------------------------------------------------------------------- walk-forward


class Forecast(NamedTuple):
    """Of the days after a window, (horizon,) each: predictions by model and signals by detector; settings by model."""

    predicted: dict[str, np.ndarray]
    signals: dict[str, np.ndarray]
    settings: dict[str, str]


def forecast(market: Market, day: int, task: Task) -> Forecast:
    """Fit and choose on the window that begins with that day, predict the days after it."""
    x, y, second, *_ = (days[day : day + task.window + task.horizon] for days in market)
    fit, window = round((1 - HELD_OUT) * task.window), task.window
    inputs, targets = standardised(x, fit), standardised(y, fit)

    def error(candidate: Candidate) -> float:
        errors = candidate.predicted[: window - fit] - targets[fit:window]
        return float(np.nan_to_num(np.mean(errors**2), nan=np.inf))  # of a net that diverged

    chosen = {
        name: min(model(inputs[:fit], targets[:fit], inputs[fit:], task), key=error) for name, model in MODELS.items()
    }
    predicted = {name: y[:fit].mean() + y[:fit].std() * best.predicted[window - fit :] for name, best in chosen.items()}
    predicted["mean"] = np.full(task.horizon, y[:window].mean())

    signals = {}
    for name in GATED:
        net = prepare(name, inputs[:fit], targets[:fit], task).net
        untrained = gates(net, inputs)
        net.params.flat[...] = chosen[name].params
        signals |= watch(name, gates(net, inputs), second[:window])
        signals |= watch(f"{name}, untrained", untrained, second[:window])
    signals["logistic regression"] = taught(inputs, second[:window])
    return Forecast(predicted, signals, {name: best.setting for name, best in chosen.items()})


def standardised(days: np.ndarray, fit: int) -> np.ndarray:
    """Days (n, ...) shifted and scaled so that those that are there to fit have mean 0 and variance 1."""
    return ((days - days[:fit].mean(axis=0)) / days[:fit].std(axis=0)).astype(np.float32)


def gates(net: DeepNet, x: np.ndarray) -> np.ndarray:
    """T of each block, mean over units, (L, n), on days x (n, d)."""
    return np.array([T.mean(axis=0) for (_, T), _ in net.walk(net.enter(x))])


def watch(name: str, T: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Signals of the days after a window, given T (L, n) of all days and the regimes of the window's, (n_window,)."""
    from scipy.stats import rankdata

    T = np.vstack([T.mean(axis=0), T])
    past = T[:, : len(second)]
    signals = (T - past.mean(axis=1, keepdims=True)) / past.std(axis=1, keepdims=True)
    leads = np.array([auc(block, second) for block in rankdata(past[1:], axis=1)]) - 0.5
    best, after = np.abs(leads).argmax(), signals[:, len(second) :]
    return {f"{name}: mean T": after[0], f"{name}: best block": np.sign(leads[best]) * after[1 + best]}


def taught(x: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Log odds of the second regime on the days after a window, given all days x (n, d) and the window's regimes."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(x[: len(second)], second).decision_function(x[len(second) :])


# --------------------------------------------------------------------------------------------- measures


def score(y: np.ndarray, predicted: np.ndarray, mean: np.ndarray, second: np.ndarray) -> Score:
    """Out-of-sample R² of predictions beside the windows' means; all (n,)."""
    errors, total = (y - predicted) ** 2, (y - mean) ** 2
    with np.errstate(invalid="ignore"):  # of a regime that never ruled
        return Score(*(number(1 - errors[days].sum() / total[days].sum()) for days in (..., ~second, second)))


def auc(ranks: np.ndarray, second: np.ndarray) -> float:
    """Share of pairs of days, one of each regime, in which that of the second ranks higher (Mann & Whitney 1947)."""
    n = np.count_nonzero(second)
    pairs = n * (len(second) - n)
    return (ranks[second].sum() - n * (n + 1) / 2) / pairs if pairs else math.nan


def detect(signal: np.ndarray, second: np.ndarray) -> Detection:
    """How well a signal tells the days of the second regime, and of shifted ones, (folds, n) each: mean over folds.

    A fold by itself, as each has a net of its own, in which a gate may mean the opposite.
    """
    from scipy.stats import rankdata

    ranked = rankdata(signal, axis=1)
    aucs = np.array([np.mean([*map(auc, ranked, np.roll(second, n, axis=1))]) for n in range(second.shape[1])])
    nearer = np.abs(aucs - 0.5) < abs(aucs[0] - 0.5)
    return Detection(number(aucs[0]), *numbers(np.quantile(aucs, SHIFTED)), number(1 - nearer.mean()))


def run_task(task: Task, _: Any) -> MarketRun:
    """Simulate a market and walk through it."""
    import sklearn.ensemble  # noqa: F401, so that its threads are there when all are limited
    from threadpoolctl import threadpool_limits

    market = simulate(task.market, task.window + task.folds * task.horizon, task.seed)
    with threadpool_limits(1):
        forecasts = [forecast(market, fold * task.horizon, task) for fold in range(task.folds)]
    predicted, signals = (
        {name: np.concatenate([parts[name] for parts in folds]) for name in folds[0]}
        for folds in zip(*((of.predicted, of.signals) for of in forecasts), strict=True)
    )
    _, y, second, known, seen = (days[task.window :] for days in market)
    mean = predicted.pop("mean")
    predicted |= {"best by a day's inputs": seen, "best, regime known": known}
    illustrated = slice(task.horizon if task.seed == SEEDS[0] else 0)
    return MarketRun(
        None,
        task,
        scores={name: score(y, values, mean, second) for name, values in predicted.items()},
        detections={
            name: detect(*(of.reshape(task.folds, -1) for of in (signal, second))) for name, signal in signals.items()
        },
        settings={name: [of.settings[name] for of in forecasts] for name in MODELS},
        mean_T={name: numbers(signals[f"{name}: mean T"][illustrated], digits=3) for name in GATED},
        second=second[illustrated].tolist(),
    )


def run(arguments: argparse.Namespace) -> None:
    """Walk through the markets that have not been walked through yet, and write the log."""
    path = EXPERIMENT.log_path(smoke=arguments.smoke)
    seeds, budget = (SEEDS[:2], SMOKE) if arguments.smoke else (SEEDS, BUDGET)
    tasks = [Task(market, seed, **budget) for seed in seeds for market in MARKETS]
    runs = EXPERIMENT.finish(run_task, tasks, None, MarketRun, path, arguments)
    n_params = {name: DeepNet(FACTORS + 1, 1, **net, rng=None).params.flat.size for name, net in NETS.items()}
    EXPERIMENT.keep(path, arguments.command_line, None, n_params=n_params, runs=runs)


add_run_flags(EXPERIMENT.add("run", run, "simulate, fit, measure; resumable"), default=None)

if __name__ == "__main__":
    start(__spec__.name)
