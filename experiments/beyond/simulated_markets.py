"""Markets whose regimes and expected returns are known: what factor_model tries its models on.

A day has FACTORS factors, independent AR(1) series of variance 1; a regime, the first or the second, by a Markov chain;
a state variable, -1 in the first regime and 1 in the second, plus standard normal noise; and a return, a function of
the factors by the regime, plus normal noise. The functions have variance 1 and are not correlated, so that neither
regime is worth more than the other, and whoever knows function and regime has R² = 1 / (1 + NOISE); but for a second
regime in which no factor counts.
"""

import math
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FACTORS = 5
PERSISTENCE = 0.9  # of a factor, from a day to the next
STAY = 0.98  # probability that a regime stays: it lasts 50 days on average
NOISE = 2.0  # variance of the returns about their expectation
BEST_AUC = NormalDist().cdf(math.sqrt(2))  # of what tells the regime by a day's inputs, so N(1, 1) from N(-1, 1)


class Market(NamedTuple):
    """n days: factors and, last, the state variable; returns; whether the second regime rules; expected returns."""

    x: np.ndarray  # (n, FACTORS + 1)
    y: np.ndarray  # (n,)
    second: np.ndarray  # (n,)
    known: np.ndarray  # (n,), given factors and regime
    seen: np.ndarray  # (n,), given x alone: what the best model could predict


def simulate(market: str, days: int, seed: int) -> Market:
    """Draw one of MARKETS: for a seed, all have the same factors, regimes and noise."""
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
    """AR(1) series of variance 1 made of standard normal shocks (n, k)."""
    series = shocks * np.append(1, np.full(len(shocks) - 1, math.sqrt(1 - PERSISTENCE**2)))[:, None]
    for yesterday, today in pairwise(series):
        today += PERSISTENCE * yesterday
    return series


def switching(uniform: np.ndarray) -> np.ndarray:
    """A chain of two states, equally likely, made of numbers uniform in 0 to 1, (n,)."""
    switches = uniform > np.append(0.5, np.full(len(uniform) - 1, STAY))
    return np.cumsum(switches) % 2 == 1


def linear(f: np.ndarray) -> np.ndarray:
    """Expected returns (n,) of factors (n, FACTORS): each factor counts alike."""
    return f.sum(axis=1) / math.sqrt(FACTORS)


def nonlinear(f: np.ndarray) -> np.ndarray:
    """The product of two factors, and a factor whose sign is decided by a threshold of another."""
    return (f[:, 0] * f[:, 1] + np.sign(f[:, 2]) * f[:, 3]) / math.sqrt(2)


def also_linear(f: np.ndarray) -> np.ndarray:
    """Other loadings, at right angles to those of `linear`."""
    return f @ [0.5, 0.5, -0.5, -0.5, 0]


def nothing(f: np.ndarray) -> np.ndarray:
    """No factor counts."""
    return np.zeros(len(f))


# Their second regime's expected returns; the first's are linear.
MARKETS = {"nonlinear": nonlinear, "hidden": nonlinear, "both linear": also_linear, "noise": nothing}
