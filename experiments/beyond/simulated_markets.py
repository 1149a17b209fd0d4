"""Simulated markets, whose regimes and expected returns are known, for factor_model.

A day has FACTORS factors, independent AR(1) series of variance 1; a regime, the first or the second, by a Markov chain;
a state variable, −1 in the first regime and 1 in the second, plus standard normal noise; and a return, a function of
the factors by the regime, plus normal noise. The functions have variance 1 and are uncorrelated, so neither regime is
easier, and whoever knows function and regime has R² = 1 / (1 + NOISE); except in "noise", whose second function is 0.
"""

import math
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FACTORS = 5
PERSISTENCE = 0.9  # autocorrelation of a factor from one day to the next
STAY = 0.98  # probability that a regime lasts another day: 50 days on average
NOISE = 2.0  # variance of the returns around their expectation
BEST_AUC = NormalDist().cdf(math.sqrt(2))  # of any detector by one day's inputs: N(1, 1) against N(−1, 1)


class Market(NamedTuple):
    """Days: factors and, last, the state variable; returns; whether the second regime rules; expected returns."""

    x: np.ndarray  # (n, FACTORS + 1)
    y: np.ndarray  # (n,)
    second: np.ndarray  # (n,)
    known: np.ndarray  # (n,), given factors and regime
    seen: np.ndarray  # (n,), given x alone: the best possible prediction


def simulate(market: str, days: int, seed: int) -> Market:
    """Draw one of MARKETS; with the same seed all have the same factors, regimes and noise."""
    of_factors, of_regime, of_another, of_state, of_return = np.random.default_rng(seed).spawn(5)
    factors = autoregression(of_factors.normal(size=(days, FACTORS)))
    second, another = switching(of_regime.random(days)), switching(of_another.random(days))
    hidden = market == "hidden"
    state = np.where(another if hidden else second, 1, -1) + of_state.normal(size=days)
    likely = 0.5 if hidden else 1 / (1 + np.exp(-2 * state))  # P(second | state), by the densities of N(±1, 1)
    g1, g2 = linear(factors), MARKETS[market](factors)
    known = np.where(second, g2, g1)
    returns = known + math.sqrt(NOISE) * of_return.normal(size=days)
    return Market(np.column_stack([factors, state]), returns, second, known, likely * g2 + (1 - likely) * g1)


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


def linear(f: np.ndarray) -> np.ndarray:
    """Return expected returns (n,) of factors (n, FACTORS): each factor counts alike."""
    return f.sum(axis=1) / math.sqrt(FACTORS)


def nonlinear(f: np.ndarray) -> np.ndarray:
    """Add the product of two factors to a factor whose sign a third one sets."""
    return (f[:, 0] * f[:, 1] + np.sign(f[:, 2]) * f[:, 3]) / math.sqrt(2)


def also_linear(f: np.ndarray) -> np.ndarray:
    """Weigh the factors by loadings orthogonal to those of `linear`."""
    return f @ [0.5, 0.5, -0.5, -0.5, 0]


def nothing(f: np.ndarray) -> np.ndarray:
    """Return 0: no factor counts."""
    return np.zeros(len(f))


# The second regime's expected returns; the first's are linear.
MARKETS = {"nonlinear": nonlinear, "hidden": nonlinear, "both linear": also_linear, "noise": nothing}
