"""Do the gates of a net that predicts returns tell the regime of the market?

A simulated day has FACTORS factors, independent AR(1) series of variance 1; a regime, the first or the second, by a
Markov chain; a state variable, −1 in the first regime and 1 in the second, plus standard normal noise; and a return, a
function of the factors by the regime, plus normal noise. The functions have variance 1 and are uncorrelated, so neither
regime is easier; except in "noise", whose second function is 0.

Walk-forward: every net is fitted to the first four fifths of a rolling window. The last fifth chooses one of nine
settings and the length of training. Then the net predicts the days after the window. Out-of-sample R² is 1 − the sum
of its squared errors / that of the window's mean (Campbell & Thompson 2008, eq. 1).

Mean T detects the second regime on those days; each fold gives an AUC. Baselines: the untrained net, a logistic
regression that was fitted to the window's regimes, and chance, ½.

Verdict on "open gates mark the nonlinear regime": the AUC of mean T in the nonlinear market has to exceed chance, that
of the untrained net, and those of "both linear" and of "noise". Not reproduced: it falls behind one. Partly: it exceeds
chance, but not every baseline. ("noise", and that falling behind refutes, were added after runs.)
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

import highway_estimators  # noqa: F401, adds squared-error to LOSSES
from highway_lab.fields import Score, Share
from highway_lab.figures import FAINT_INK
from highway_lab.intervals import Interval, interval
from highway_lab.training import Training
from highway_networks import Config, Dataset, rounded

from .claims import Verdict
from .common_figures import rows_figure
from .looks.measurement import mean_gates
from .study import Arm, ArmCell, Results, Stage, Study, StudyRun, Task

# --------------------------------------------------------------------------------------------- markets

FACTORS = 5
PERSISTENCE = 0.9  # autocorrelation of a factor from one day to the next
STAY = 0.98  # probability that a regime lasts another day: 50 days on average
NOISE = 2.0  # variance of the returns around their expectation


class Market(NamedTuple):
    """Days: factors and, last, the state variable; returns; whether the second regime rules."""

    x: np.ndarray  # (n, FACTORS + 1)
    y: np.ndarray  # (n,)
    second: np.ndarray  # (n,)


def linear(f: np.ndarray) -> np.ndarray:
    """Return expected returns (n,) of factors (n, FACTORS): each factor counts alike."""
    return f.sum(axis=1) / math.sqrt(FACTORS)


MARKETS = {  # the second regime's expected returns; the first's are linear
    "noise": lambda f: np.zeros(len(f)),
    "nonlinear": lambda f: (f[:, 0] * f[:, 1] + np.sign(f[:, 2]) * f[:, 3]) / math.sqrt(2),
    "both linear": lambda f: f @ [0.5, 0.5, -0.5, -0.5, 0],  # orthogonal to `linear`
}


def simulate(market: str, days: int, seed: int) -> Market:
    """Draw one of MARKETS; with the same seed all have the same factors, regimes and noise."""
    of_factors, of_regime, _, of_state, of_return = np.random.default_rng(seed).spawn(5)
    factors = autoregression(of_factors.normal(size=(days, FACTORS)))
    second = switching(of_regime.random(days))
    state = np.where(second, 1, -1) + of_state.normal(size=days)
    expected = np.where(second, MARKETS[market](factors), linear(factors))
    returns = expected + math.sqrt(NOISE) * of_return.normal(size=days)
    return Market(np.column_stack([factors, state]), returns, second)


def autoregression(shocks: np.ndarray) -> np.ndarray:
    """Return AR(1) series of variance 1, given standard normal shocks (n, k)."""
    series = shocks * np.append(1, np.full(len(shocks) - 1, math.sqrt(1 - PERSISTENCE**2)))[:, None]
    for yesterday, today in pairwise(series):
        today += PERSISTENCE * yesterday
    return series


def switching(uniform: np.ndarray) -> np.ndarray:
    """Return a chain of two equally likely states, given numbers uniform in 0 to 1, (n,)."""
    switches = uniform > np.append(0.5, np.full(len(uniform) - 1, STAY))
    return np.cumsum(switches) % 2 == 1


# ------------------------------------------------------------------------------------------------ nets

SEEDS, FOLDS, VALIDATION = range(20), 3, 0.2  # the last: the share of a window that chooses the setting
USUAL = {"activation": "tanh", "init": "glorot"}  # as in most of these experiments
SUGGESTED = {"activation": "relu", "init": "he"}  # for returns
NETS = {  # 4,225 to 4,361 parameters
    "plain, 1 block": USUAL | {"block": "plain", "depth": 1, "hidden": 61},
    "plain, 10 blocks": USUAL | {"block": "plain", "depth": 10, "hidden": 20},
    "residual, scaled, 10 blocks": USUAL | {"block": "residual-scaled", "depth": 10, "hidden": 20},
    (DEEP := "highway, 10 blocks"): USUAL | {"block": "highway", "depth": 10, "hidden": 14, "gate_bias": -1.0},
    "highway, 4 blocks": SUGGESTED | {"block": "highway", "depth": 4, "hidden": 22, "gate_bias": -1.0},
}
GATED, UNTRAINED = tuple(NETS)[-2:], ", untrained"
RATES = tuple(product((1e-3, 3e-3, 1e-2), (0.0, 3e-3, 1e-2)))  # learning rate, weight decay
Candidate = tuple[str, np.ndarray, np.ndarray]


def train_net(name: str, x: np.ndarray, y: np.ndarray, later: np.ndarray, walk: Config) -> Iterator[Candidate]:
    """Yield a candidate for each setting and epoch: the setting, predictions (m,) for `later`, and the parameters."""
    for lr, weight_decay in RATES:
        training = prepare(name, x, y, walk, lr=lr, weight_decay=weight_decay)
        for _ in training.epochs(scored=False):
            predicted = training.net.predict(later)[:, 0]
            yield f"rate {lr:g}, decay {weight_decay:g}", predicted, training.net.params.flat.copy()


def prepare(name: str, x: np.ndarray, y: np.ndarray, walk: Config, **setting: float) -> Training:
    """Return the training of a net before its first epoch, whose weights depend on the seed alone."""
    budget = {"epochs": walk.epochs, "n_train": len(x), "n_test": 1, "seed": walk.seed}
    config = Config(loss="squared-error", **NETS[name], **budget, **setting)
    return Training(config, Dataset(x, y[:, None], x[:1], y[:1, None], outputs=1))  # the test day is never scored


def forecast(market: Market, day: int, walk: Config) -> tuple[dict, dict, dict]:
    """Fit and choose on the window that begins with `day`.

    Return predictions by net and signals by name, (horizon,) each, for the days after it, and settings by net. The
    signal of a net is its mean T over all units of all blocks.
    """
    window, horizon = walk.n_train, walk.n_test
    x, y, second = (days[day : day + window + horizon] for days in market)
    fit = round((1 - VALIDATION) * window)
    inputs, targets = standardised(x, fit), standardised(y, fit)

    def error(candidate: Candidate) -> float:
        _, values, _ = candidate
        mean = np.mean((values[: window - fit] - targets[fit:window]) ** 2)
        return float(np.nan_to_num(mean, nan=np.inf))  # NaN if a net diverged

    given = inputs[:fit], targets[:fit], inputs[fit:], walk
    chosen = {name: min(train_net(name, *given), key=error) for name in NETS}
    predicted = {name: y[:fit].mean() + y[:fit].std() * of[window - fit :] for name, (_, of, _) in chosen.items()}
    predicted["mean"] = np.full(horizon, y[:window].mean())

    signals = {}
    for name in GATED:
        net = prepare(name, inputs[:fit], targets[:fit], walk).net
        signals[name + UNTRAINED] = mean_gates(net, inputs[window:]).mean(axis=1)
        net.params.flat[...] = chosen[name][-1]
        signals[name] = mean_gates(net, inputs[window:]).mean(axis=1)
    regression = LogisticRegression().fit(inputs[:window], second[:window])
    signals["logistic regression"] = regression.decision_function(inputs[window:])  # log odds of the second regime
    return predicted, signals, {name: setting for name, (setting, *_) in chosen.items()}


def standardised(days: np.ndarray, fit: int) -> np.ndarray:
    """Shift and scale days (n, ...) so that the first `fit` of them have mean 0 and variance 1."""
    return ((days - days[:fit].mean(axis=0)) / days[:fit].std(axis=0)).astype(np.float32)


def auc(signal: np.ndarray, second: np.ndarray) -> float:
    """Return the share of pairs, a day of each regime, in which the second's signal is higher (Mann & Whitney 1947)."""
    n = np.count_nonzero(second)
    pairs = n * (len(second) - n)
    return (rankdata(signal)[second].sum() - n * (n + 1) / 2) / pairs if pairs else math.nan


# ----------------------------------------------------------------------------------------------- study


@dataclass
class Walked:
    """What was found in one market: out-of-sample R² by net, AUC by signal, the settings that each fold chose."""

    r2: dict[str, Score | None]
    auc: dict[str, Share | None]
    settings: dict[str, list[str]]


def train(task: Task, _: Any) -> StudyRun:
    """Simulate a market, and predict it window by window."""
    walk = task.config
    market = simulate(task.cell.arm, walk.n_train + FOLDS * walk.n_test, walk.seed)
    folds = [forecast(market, fold * walk.n_test, walk) for fold in range(FOLDS)]
    predicted, signals, settings = (
        {name: [fold[name] for fold in part] for name in part[0]} for part in zip(*folds, strict=True)
    )
    y, second = (days[walk.n_train :].reshape(FOLDS, walk.n_test) for days in (market.y, market.second))
    squares = {name: float(((y - of) ** 2).sum()) for name, of in predicted.items()}
    r2 = {name: rounded(1 - squares[name] / squares["mean"]) for name in predicted if name != "mean"}
    # Each fold is ranked by itself: its net is another one, in which a gate may mean the opposite.
    detected = {name: rounded(np.mean([*map(auc, of, second)])) for name, of in signals.items()}
    return StudyRun(None, task, 0, False, {}, Walked(r2, detected, settings))


DATASET = None
STUDY = Study(
    {market: Arm({"block": "highway"}, {}) for market in MARKETS},
    [*map(ArmCell, MARKETS)],
    [Stage(SEEDS, 60, result="scored")],
    # `n_train` days in a window, then `n_test` days that are predicted:
    configure=lambda fields, cell, stage: Config(**fields, n_train=3_000, n_test=1_000),
    criteria={"1 - AUC": lambda run: 1 - (run.measured.auc[DEEP] or 0)},
    config=Config,
    measured=Walked,
)


# ---------------------------------------------------------------------------------------- what was found


def by_market(results: Results, kind: str, name: str) -> dict[str, np.ndarray]:
    """Return what was measured of a net or a signal, (seeds,), by market; NaN in place of None."""
    found = results.by_cell().items()
    return {cell.arm: np.array([getattr(run.measured, kind)[name] for run in runs], float) for cell, runs in found}


def leads_of_gates(trained: Mapping[str, np.ndarray], untrained: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    """Return the AUC of a net's mean T in the nonlinear market minus that of each baseline, paired by seed."""
    baselines = {"chance": 0.5, "untrained": untrained["nonlinear"]}
    baselines |= {market: trained[market] for market in ("both linear", "noise")}
    return {name: interval(trained["nonlinear"] - of) for name, of in baselines.items()}


def judge_gates(leads: Mapping[str, Interval]) -> Verdict:
    """Judge "open gates mark the nonlinear regime" by `leads_of_gates`."""
    signs = [lead.sign for lead in leads.values()]
    if min(signs) < 0:
        return Verdict.NOT_REPRODUCED
    if min(signs) > 0:
        return Verdict.REPRODUCED
    return Verdict.PARTLY if leads["chance"].sign > 0 else Verdict.INCONCLUSIVE


def numbers(results: Results) -> dict:
    """Return what the page quotes, by market or by net.

    auc             of a signal in the nonlinear market
    leads, verdict  of mean T of each net, over the baselines
    lead            in R², of the deep highway net over another, in each market
    highest_rate    the share of a net's fits that chose the highest learning rate
    """
    leads = {net: leads_of_gates(*(by_market(results, "auc", net + of) for of in ("", UNTRAINED))) for net in GATED}
    r2 = {net: by_market(results, "r2", net) for net in NETS}
    chosen = {net: [setting for run in results.runs for setting in run.measured.settings[net]] for net in NETS}
    highest = f"rate {RATES[-1][0]:g},"
    return {
        "auc": {
            signal: interval(by_market(results, "auc", signal)["nonlinear"])
            for signal in (DEEP + UNTRAINED, "logistic regression")
        },
        "leads": leads,
        "verdict": {net: judge_gates(leads[net]) for net in GATED},
        "lead": {net: {of: interval(r2[DEEP][of] - r2[net][of]) for of in r2[DEEP]} for net in NETS},
        "highest_rate": {net: np.mean([of.startswith(highest) for of in chosen[net]]) for net in NETS},
    }


def figure(results: Results) -> Figure:
    """Draw the AUC of mean T of every seed, a row for each net and market; that of an untrained net is alike in all."""
    rows: dict[str, np.ndarray] = {}
    for net in GATED:
        rows |= {f"{net}: {market}": auc for market, auc in by_market(results, "auc", net).items()}
        rows[f"{net}: untrained"] = by_market(results, "auc", net + UNTRAINED)["nonlinear"]
    figure = rows_figure("Gates mark noise better than nonlinearity", rows, "AUC of mean T; ½ is guessing")
    figure.axes[0].axvline(0.5, color=FAINT_INK, linewidth=1, zorder=0)
    return figure


FIGURES = {"factor_model.png": figure}
