"""Gates as a detector of regimes: markets of known law, forecasts that see no future, a fair idea of chance."""

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments import factor_model as fm
from experiments.claims import Verdict
from experiments.study import Results
from highway_lab.intervals import Interval
from highway_networks import Config

SHORT = Config(n_train=150, n_test=60, epochs=1, seed=0)
FIT = 120  # days of its window


@pytest.fixture(scope="module")
def markets() -> dict[str, fm.Market]:
    return {name: fm.simulate(name, 20_000, seed=1) for name in fm.MARKETS}


# --------------------------------------------------------------------------------------------- markets


def test_a_factor_is_an_autoregression_of_variance_1_from_the_first_day():
    new = math.sqrt(1 - fm.PERSISTENCE**2)
    shocks = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    expected = [[1, 0], [fm.PERSISTENCE, 2 * new], [fm.PERSISTENCE**2, 2 * new * fm.PERSISTENCE]]
    np.testing.assert_allclose(fm.autoregression(shocks), expected)
    assert shocks[1, 1] == 2, "the shocks are the caller's"


def test_regimes_switch_above_the_probability_to_stay_and_last_fifty_days():
    low, high = fm.STAY - 0.01, fm.STAY + 0.01
    assert fm.switching(np.array([0.4, low, high, 0.5, high])).tolist() == [False, False, True, True, False]
    assert fm.switching(np.array([0.6, low, high])).tolist() == [True, True, False]
    second = fm.switching(np.random.default_rng(0).random(400_000))
    assert second.mean() == pytest.approx(0.5, abs=0.02)
    assert len(second) / np.count_nonzero(np.diff(second)) == pytest.approx(1 / (1 - fm.STAY), rel=0.03)


def test_the_functions_of_a_market_have_variance_1_and_are_uncorrelated(markets):
    factors = markets["noise"].x[:, : fm.FACTORS]
    for second in (fm.MARKETS["nonlinear"], fm.MARKETS["both linear"]):
        np.testing.assert_allclose(np.cov(fm.linear(factors), second(factors)), np.eye(2), atol=0.15)
    noise = markets["noise"]
    assert noise.y[noise.second].var() == pytest.approx(fm.NOISE, rel=0.05)


def test_markets_of_a_seed_differ_by_the_returns_of_the_second_regime_alone(markets):
    noise, one, both_linear = (markets[name] for name in fm.MARKETS)
    for other in (both_linear, noise):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y != other.y, one.second)
    assert not np.array_equal(fm.simulate("noise", 50, seed=2).y, noise.y[:50])


# --------------------------------------------------------------------------------------------- measures


def test_an_auc_is_the_share_of_pairs_in_the_right_order():
    second = np.array([False, False, True, True])
    for signal, expected in (([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([1, 3, 2, 4], 0.75), ([1, 2, 2, 3], 3.5 / 4)):
        assert fm.auc(signal, second) == expected
    assert fm.auc([5, 5, 5, 5], second) == 0.5
    assert math.isnan(fm.auc(np.arange(4), np.ones(4, bool)))


# ------------------------------------------------------------------------------------------------ nets


def test_nets_are_of_one_size_and_each_has_nine_settings():
    sizes = [fm.prepare(name, np.zeros((3, 6)), np.zeros(3), SHORT).net.params.flat.size for name in fm.NETS]
    assert max(sizes) / min(sizes) < 1.04
    assert [fm.NETS[name]["block"] for name in fm.GATED] == ["highway", "highway"]
    assert len({*fm.RATES}) == 9


@pytest.mark.parametrize("name", fm.NETS)
def test_a_candidate_keeps_the_parameters_that_made_its_predictions(name):
    x, y, later = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((40, 6), 40, (5, 6)))
    task = replace(SHORT, epochs=2)
    candidates = list(fm.train_net(name, x, y, later, task))
    assert len(candidates) == 2 * len(fm.RATES)
    net = fm.prepare(name, x, y, task).net
    untrained = net.predict(later)
    for _, predicted, params in candidates:
        net.params.flat[...] = params
        np.testing.assert_array_equal(net.predict(later)[:, 0], predicted)
    assert len({predicted.tobytes() for _, predicted, _ in candidates}) == len(candidates)
    assert len({setting for setting, *_ in candidates}) == len(fm.RATES)
    np.testing.assert_array_equal(fm.prepare(name, 2 * x, -y, task).net.predict(later), untrained)
    assert not np.array_equal(fm.prepare(name, x, y, replace(task, seed=1)).net.predict(later), untrained)


# ----------------------------------------------------------------------------------------- walk-forward


def market_of(days: int = SHORT.n_train + SHORT.n_test) -> fm.Market:
    return fm.simulate("nonlinear", days, SHORT.seed)


def garbled(market: fm.Market, day: int) -> fm.Market:
    """Return a market that is the same up to that day."""
    other = fm.simulate("nonlinear", len(market.y), seed=99)
    mixed = (np.concatenate([mine[:day], 1 + 5 * its[day:]]) for mine, its in zip(market, other, strict=True))
    return fm.Market(*mixed)._replace(second=np.concatenate([market.second[:day], other.second[day:]]))


def test_no_forecast_and_no_gate_sees_the_future(monkeypatch):
    monkeypatch.setattr(fm, "RATES", fm.RATES[:1])
    market = market_of()
    predicted, signals, settings = fm.forecast(market, 0, SHORT)
    for known in (20, SHORT.n_test):
        *later, chosen = fm.forecast(garbled(market, SHORT.n_train + known), 0, SHORT)
        assert settings == chosen
        for mine, its in zip((predicted, signals), later, strict=True):
            for name, values in mine.items():
                np.testing.assert_allclose(values[:known], its[name][:known], rtol=1e-4, atol=1e-5, err_msg=name)
                assert known == SHORT.n_test or name == "mean" or np.ptp(values[known:] - its[name][known:]) > 0.01

    blind = market._replace(y=np.concatenate([market.y[: SHORT.n_train], 9 * market.y[SHORT.n_train :]]))
    for name, values in fm.forecast(blind, 0, SHORT)[0].items():
        np.testing.assert_array_equal(values, predicted[name], err_msg=name)


def test_the_last_fifth_of_the_window_chooses_and_never_a_diverged_net(monkeypatch):
    market, chosen_on = market_of(), SHORT.n_train - FIT
    truth = (market.y[FIT:] - market.y[:FIT].mean()) / market.y[:FIT].std()
    good_later, good_then = truth.copy(), truth.copy()
    good_later[:chosen_on] += 1
    good_then[chosen_on:] += 1
    offered = {"diverged": np.full_like(truth, np.nan), "good later": good_later, "good then": good_then}

    def candidates(name, x, y, later, task):
        assert (len(x), len(y), len(later)) == (FIT, FIT, chosen_on + SHORT.n_test)
        np.testing.assert_allclose([x.mean(), y.mean(), x[:, 0].std(), y.std()], [0, 0, 1, 1], atol=1e-5)
        yield from ((name, predicted, None) for name, predicted in offered.items())

    monkeypatch.setattr(fm, "GATED", ())
    monkeypatch.setattr(fm, "NETS", {"net": {}})
    monkeypatch.setattr(fm, "train_net", candidates)
    predicted, _, settings = fm.forecast(market, 0, SHORT)
    assert settings == {"net": "good then"}
    after = market.y[SHORT.n_train :]
    np.testing.assert_allclose(predicted["net"] - after, market.y[:FIT].std(), rtol=1e-3)
    np.testing.assert_allclose(predicted["mean"], market.y[: SHORT.n_train].mean())


def test_each_day_is_predicted_once_and_each_fold_ranked_by_itself(monkeypatch):
    starts = []

    def perfect(market, start, task):
        starts.append(start)
        after = slice(start + task.n_train, start + task.n_train + task.n_test)
        y, second = market.y[after], market.second[after].astype(int)
        signals = {"right": second + start, "right, then wrong": -second if start else +second}
        return (
            {"perfect": y, "half": y / 2, "worse": -y, "mean": 0 * y},
            signals,
            dict.fromkeys(fm.NETS, f"from {start}"),
        )

    monkeypatch.setattr(fm, "forecast", perfect)
    found = fm.train(Results(fm.STUDY, []).next_tasks()[0], None).measured
    assert starts == [0, 1000, 2000]
    assert found.r2 == {"perfect": 1, "half": 0.75, "worse": -3}
    assert found.auc == {"right": 1, "right, then wrong": pytest.approx(1 / 3)}
    assert found.settings[fm.DEEP] == ["from 0", "from 1000", "from 2000"]


# --------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        ({}, Verdict.REPRODUCED),
        ({"both linear": 0.0}, Verdict.PARTLY),
        ({"untrained": 0.0}, Verdict.PARTLY),
        ({"noise": -0.1}, Verdict.NOT_REPRODUCED),
        ({"chance": 0.01}, Verdict.INCONCLUSIVE),
        ({"chance": -0.3}, Verdict.NOT_REPRODUCED),
        ({"noise": np.nan}, Verdict.PARTLY),
    ],
)
def test_the_verdict_needs_a_lead_over_every_baseline(leads, expected):
    clear = {"chance": 0.3, "untrained": 0.3, "both linear": 0.3, "noise": 0.3}
    assert fm.judge_gates({name: Interval(lead, 0.05) for name, lead in (clear | leads).items()}) == expected


def test_leads_are_paired_by_seed():
    seeds = np.array([-0.1, 0.0, 0.1])
    trained = {"nonlinear": 0.8 + seeds, "both linear": 0.6 + seeds, "noise": 0.9 + seeds}
    found = fm.leads_of_gates(trained, {"nonlinear": 0.5 - seeds})
    assert [lead.value for lead in found.values()] == pytest.approx([0.3, 0.3, 0.2, -0.1])
    assert found["both linear"].half == pytest.approx(0, abs=1e-9)
    assert found["untrained"].half == pytest.approx(2 * found["chance"].half)
