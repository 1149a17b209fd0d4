"""Gates as a detector of regimes: markets of known law, forecasts that see no future, a fair idea of chance."""

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import made_up
import numpy as np
import pytest
from helpers import ROOT, refused_with, small_log
from picture_helpers import cells
from scipy.stats import rankdata

from experiments import __main__ as experiments
from experiments.beyond import factor_model as fm
from experiments.beyond import factor_model_figures as figures
from experiments.beyond import simulated_markets as sm
from experiments.claims import Verdict
from experiments.common import Experiment, ExperimentJob, load
from highway_lab import logs

SHORT = fm.Task("nonlinear", 0, window=150, horizon=60, folds=2, epochs=1, rounds=3)
FIT = 120  # days of its window


@pytest.fixture(scope="module")
def markets() -> dict[str, sm.Market]:
    return {name: sm.simulate(name, 20_000, seed=1) for name in sm.MARKETS}


@pytest.fixture
def few_candidates(monkeypatch) -> Iterator[None]:
    """Give each model few settings and one thread."""
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import threadpool_limits

    monkeypatch.setattr(fm, "RATES", fm.RATES[:1])
    monkeypatch.setattr(fm, "TREES", fm.TREES[:1])
    with threadpool_limits(1):
        yield


# --------------------------------------------------------------------------------------------- markets


def test_a_factor_is_an_autoregression_of_variance_1_from_the_first_day():
    new = math.sqrt(1 - sm.PERSISTENCE**2)
    shocks = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    expected = [[1, 0], [sm.PERSISTENCE, 2 * new], [sm.PERSISTENCE**2, 2 * new * sm.PERSISTENCE]]
    np.testing.assert_allclose(sm.autoregression(shocks), expected)
    assert shocks[1, 1] == 2, "the shocks are the caller's"


def test_regimes_switch_above_the_probability_to_stay_and_last_fifty_days():
    low, high = sm.STAY - 0.01, sm.STAY + 0.01
    assert sm.switching(np.array([0.4, low, high, 0.5, high])).tolist() == [False, False, True, True, False]
    assert sm.switching(np.array([0.6, low, high])).tolist() == [True, True, False]
    second = sm.switching(np.random.default_rng(0).random(400_000))
    assert second.mean() == pytest.approx(0.5, abs=0.02)
    assert len(second) / np.count_nonzero(np.diff(second)) == pytest.approx(1 / (1 - sm.STAY), rel=0.03)


def test_expected_returns_have_variance_1_and_no_correlation():
    factors = np.random.default_rng(0).normal(size=(100_000, sm.FACTORS))
    expected = np.array([function(factors) for function in (sm.linear, sm.nonlinear, sm.also_linear)])
    np.testing.assert_allclose(expected.mean(axis=1), 0, atol=0.02)
    np.testing.assert_allclose(np.cov(expected)[0], [1, 0, 0], atol=0.02)
    np.testing.assert_allclose(np.diag(np.cov(expected)), 1, atol=0.02)
    np.testing.assert_allclose(np.corrcoef(factors.T, expected)[: sm.FACTORS, sm.FACTORS + 1], 0, atol=0.02)


@pytest.mark.parametrize("name", sm.MARKETS)
def test_who_knows_the_regime_has_the_r_squared_that_the_noise_leaves(markets, name):
    market = markets[name]
    found = fm.score(market.y, market.known, np.zeros_like(market.y), market.second)
    all_days, second = (0.5 / (0.5 + sm.NOISE), 0) if name == "noise" else (1 / (1 + sm.NOISE), 1 / (1 + sm.NOISE))
    assert [found.all, found.first, found.second] == pytest.approx([all_days, 1 / (1 + sm.NOISE), second], abs=0.03)


def test_markets_of_a_seed_differ_by_the_second_regime_or_by_the_state(markets):
    one, hidden, both_linear, noise = (markets[name] for name in sm.MARKETS)
    for mine, other in (
        (one.second, hidden.second),
        (one.y, hidden.y),
        (one.x[:, : sm.FACTORS], hidden.x[:, : sm.FACTORS]),
        (one.x, both_linear.x),
        (one.known != both_linear.known, one.second),
        (np.where(one.second, 0, one.known), noise.known),
    ):
        np.testing.assert_array_equal(mine, other)
    for other in (both_linear, noise):
        np.testing.assert_allclose(one.y - one.known, other.y - other.known)
    assert not np.array_equal(sm.simulate("hidden", 50, seed=2).y, hidden.y[:50])


def test_the_state_separates_the_regimes_as_two_normals_or_not_at_all(markets):
    found = {name: fm.auc(rankdata(market.x[:, -1]), market.second) for name, market in markets.items()}
    assert found["nonlinear"] == pytest.approx(sm.BEST_AUC, abs=0.01)
    assert found["hidden"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", sm.MARKETS)
def test_no_function_of_the_inputs_improves_the_best_prediction(markets, name):
    """The error of the best prediction is uncorrelated with functions of factors and state."""
    market = markets[name]
    factors, state = market.x[:, : sm.FACTORS], market.x[:, -1]
    error = market.known - market.seen
    apart = sm.nonlinear(factors) - sm.linear(factors)
    for of_state in (np.ones_like(state), state, state > 1, state < -1):
        assert np.corrcoef(error, of_state * apart)[0, 1] == pytest.approx(0, abs=0.07)
    assert np.corrcoef(error, market.second * apart)[0, 1] > 0.2


# --------------------------------------------------------------------------------------------- measures


def test_an_auc_is_the_share_of_pairs_in_the_right_order():
    second = np.array([False, False, True, True])
    for signal, expected in (([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([1, 3, 2, 4], 0.75), ([1, 2, 2, 3], 3.5 / 4)):
        assert fm.auc(rankdata(signal), second) == expected
    assert fm.auc(rankdata([5, 5, 5, 5]), second) == 0.5
    assert math.isnan(fm.auc(rankdata(np.arange(4)), np.ones(4, bool)))


def test_over_all_shifts_of_the_regimes_the_auc_is_one_half():
    rng = np.random.default_rng(0)
    second, signal = sm.switching(rng.random(500)).reshape(2, 250), rng.normal(size=(2, 250)) ** 3
    folds = [(rankdata(fold), regimes) for fold, regimes in zip(signal, second, strict=True)]
    found = [np.mean([fm.auc(ranks, np.roll(regimes, days)) for ranks, regimes in folds]) for days in range(250)]
    assert np.mean(found) == pytest.approx(0.5, abs=1e-12)
    detected = fm.detect(signal, second)
    expected = found[0], *np.quantile(found, (0.025, 0.975))
    assert (detected.auc, detected.low, detected.high) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_signal_and_its_opposite_are_beyond_chance(sign):
    second = np.repeat([False, True, False, True], [40, 30, 20, 10])
    found = fm.detect(sign * second[None].astype(float), second[None])
    assert (found.auc, found.p) == ((1 + sign) / 2, 0.01)
    assert found.low < 0.4
    assert found.high > 0.6


def test_each_fold_is_ranked_by_itself():
    second = np.tile(np.repeat([False, True], 20), (2, 1))
    signal = second.astype(float)
    assert fm.detect(signal + np.array([[0], [5]]), second).auc == 1
    signal[1] *= -1
    assert fm.detect(signal, second).auc == 0.5


def test_a_regime_that_never_rules_is_detected_by_nothing():
    assert fm.detect(np.arange(9.0)[None], np.zeros((1, 9), bool)) == fm.Detection(None, None, None, 1.0)


def test_two_independent_persistent_series_are_within_chance():
    rng = np.random.default_rng(0)
    series = (sm.autoregression(rng.normal(size=(300, 1))).T for _ in range(40))
    found = np.array([fm.detect(signal, sm.switching(rng.random(300))[None]).p for signal in series])
    assert np.mean(found < 0.05) < 0.15
    assert np.mean(found < 0.5) == pytest.approx(0.5, abs=0.2)


def test_r_squared_is_taken_against_the_windows_mean_and_by_regime():
    y, mean = np.array([1.0, -1.0, 3.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
    second = np.array([False, False, True, True])
    assert fm.score(y, y, mean, second) == fm.R2(1, 1, 1)
    assert fm.score(y, mean, mean, second) == fm.R2(0, 0, 0)
    assert fm.score(y, np.array([1.0, 0.0, 1.0, -1.0]), mean, second) == fm.R2(1 - 9 / 6, 0.5, -1)
    assert fm.score(y, y, mean, np.zeros(4, bool)) == fm.R2(1, 1, None)


# ---------------------------------------------------------------------------------------------- models


def test_nets_are_of_one_size_and_every_model_has_nine_settings():
    sizes = [fm.prepare(name, np.zeros((3, 6)), np.zeros(3), SHORT).net.params.flat.size for name in fm.NETS]
    assert max(sizes) / min(sizes) < 1.04
    deep = [net for net in fm.NETS.values() if net["depth"] == 10]
    assert [net["block"] for net in deep] == ["plain", "residual-scaled", "highway"]
    assert len({(net["activation"], net["init"]) for net in deep}) == 1
    assert {len(grid) for grid in (fm.PENALTIES, fm.TREES, fm.RATES)} == {9}


def test_ridge_on_products_finds_what_plain_ridge_cannot():
    x, later = np.random.default_rng(0).normal(size=(2, 400, 3))
    fitted = [next(fm.ridge(degree, x, x[:, 0] * x[:, 1], later, SHORT)).predicted for degree in (1, 2)]
    plain, products = np.corrcoef([*fitted, later[:, 0] * later[:, 1]])[:2, 2]
    assert products > 0.99
    assert abs(plain) < 0.3


@pytest.mark.parametrize("name", fm.NETS)
def test_a_candidate_keeps_the_parameters_that_made_its_predictions(name):
    x, y, later = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((40, 6), 40, (5, 6)))
    task = replace(SHORT, epochs=2)
    candidates = list(fm.train(name, x, y, later, task))
    assert len(candidates) == 2 * len(fm.RATES)
    net = fm.prepare(name, x, y, task).net
    untrained = net.predict(later)
    for candidate in candidates:
        net.params.flat[...] = candidate.params
        np.testing.assert_array_equal(net.predict(later)[:, 0], candidate.predicted)
    assert len({candidate.predicted.tobytes() for candidate in candidates}) == len(candidates)
    assert len({candidate.setting for candidate in candidates}) == len(fm.RATES)
    np.testing.assert_array_equal(fm.prepare(name, 2 * x, -y, task).net.predict(later), untrained)
    assert not np.array_equal(fm.prepare(name, x, y, replace(task, seed=1)).net.predict(later), untrained)


def test_the_gates_of_a_block_are_its_mean_T():
    x = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    net = fm.prepare(fm.GATED[1], x, x[:, 0], SHORT).net
    _, cache = net.forward(x)
    np.testing.assert_allclose(fm.gates(net, x), cache.T.mean(axis=1), rtol=1e-6)


def test_the_best_block_is_that_of_the_window_with_its_sign_there():
    second = np.array([False, False, True, True])
    weak, strong = np.array([[0.1, 0.4, 0.3, 0.5, 0.9, 0.1], [0.8, 0.7, 0.2, 0.1, 0.3, 0.6]])
    signals = fm.gate_signals("net", np.array([weak, strong]), second)
    for name, sign, T in (("mean T", 1, (weak + strong) / 2), ("best block", -1, strong)):
        np.testing.assert_allclose(signals[f"net: {name}"], sign * (T[4:] - T[:4].mean()) / T[:4].std())


# ----------------------------------------------------------------------------------------- walk-forward


def market_of(days: int = SHORT.window + SHORT.horizon) -> sm.Market:
    return sm.simulate("nonlinear", days, SHORT.seed)


def garbled(market: sm.Market, day: int) -> sm.Market:
    """Return a market that is the same up to that day."""
    other = sm.simulate("nonlinear", len(market.y), seed=99)
    mixed = (np.concatenate([mine[:day], 1 + 5 * its[day:]]) for mine, its in zip(market, other, strict=True))
    return sm.Market(*mixed)._replace(second=np.concatenate([market.second[:day], other.second[day:]]))


def test_no_forecast_and_no_gate_sees_the_future(few_candidates):
    market = market_of()
    found = fm.forecast(market, 0, SHORT)
    for known in (20, SHORT.horizon):
        later = fm.forecast(garbled(market, SHORT.window + known), 0, SHORT)
        assert found.settings == later.settings
        for mine, its in ((found.predicted, later.predicted), (found.signals, later.signals)):
            for name, values in mine.items():
                np.testing.assert_allclose(values[:known], its[name][:known], rtol=1e-4, atol=1e-5, err_msg=name)
                assert known == SHORT.horizon or name == "mean" or np.ptp(values[known:] - its[name][known:]) > 0.01

    blind = market._replace(y=np.concatenate([market.y[: SHORT.window], 9 * market.y[SHORT.window :]]))
    for name, values in fm.forecast(blind, 0, SHORT).predicted.items():
        np.testing.assert_array_equal(values, found.predicted[name], err_msg=name)


def test_a_forecast_sees_the_window_it_is_given(few_candidates):
    market = market_of(SHORT.window + SHORT.horizon + 70)
    moved = sm.Market(*(days[70:] for days in market))
    found, expected = fm.forecast(market, 70, SHORT), fm.forecast(moved, 0, SHORT)
    for name, values in expected.predicted.items():
        np.testing.assert_array_equal(found.predicted[name], values)


def test_the_last_fifth_of_the_window_chooses_and_never_a_diverged_net(monkeypatch):
    market, chosen_on = market_of(), SHORT.window - FIT
    truth = (market.y[FIT:] - market.y[:FIT].mean()) / market.y[:FIT].std()
    good_later, good_then = truth.copy(), truth.copy()
    good_later[:chosen_on] += 1
    good_then[chosen_on:] += 1
    offered = {"diverged": np.full_like(truth, np.nan), "good later": good_later, "good then": good_then}

    def model(x, y, later, task):
        assert (len(x), len(y), len(later)) == (FIT, FIT, chosen_on + SHORT.horizon)
        np.testing.assert_allclose([x.mean(), y.mean(), x[:, 0].std(), y.std()], [0, 0, 1, 1], atol=1e-5)
        yield from (fm.Candidate(name, predicted) for name, predicted in offered.items())

    monkeypatch.setattr(fm, "GATED", ())
    monkeypatch.setattr(fm, "MODELS", {"model": model})
    found = fm.forecast(market, 0, SHORT)
    assert found.settings == {"model": "good then"}
    after = market.y[SHORT.window :]
    np.testing.assert_allclose(found.predicted["model"] - after, market.y[:FIT].std(), rtol=1e-3)
    np.testing.assert_allclose(found.predicted["mean"], market.y[: SHORT.window].mean())


def test_gates_are_those_of_the_first_and_of_the_chosen_parameters(monkeypatch):
    market = market_of()
    inputs, second = fm.standardised(market.x, FIT), market.second[: SHORT.window]
    models, expected = {}, {}
    for name in fm.GATED:
        net = fm.prepare(name, inputs[:FIT], inputs[:FIT, 0], SHORT).net
        expected |= fm.gate_signals(f"{name}{fm.UNTRAINED}", fm.gates(net, inputs), second)
        net.params.flat[...] = np.linspace(-1, 1, net.params.flat.size)
        expected |= fm.gate_signals(name, fm.gates(net, inputs), second)
        candidate = fm.Candidate("the only one", np.zeros(len(inputs) - FIT), net.params.flat)
        models[name] = lambda *_, candidate=candidate: iter([candidate])
    monkeypatch.setattr(fm, "MODELS", models)
    signals = fm.forecast(market, 0, SHORT).signals
    for name, values in expected.items():
        np.testing.assert_array_equal(signals[name], values, err_msg=name)


def test_each_day_is_predicted_once_and_scored_with_its_own_regime(monkeypatch):
    starts = []

    def perfect(market, start, task):
        starts.append(start)
        after = slice(start + task.window, start + task.window + task.horizon)
        y, second = market.y[after], market.second[after]
        named = {f"{name}: mean T": second.astype(float) for name in fm.GATED}
        return fm.Forecast({"perfect": y, "mean": 0 * y}, named, dict.fromkeys(fm.MODELS, f"from {start}"))

    monkeypatch.setattr(fm, "forecast", perfect)
    task = fm.Task("nonlinear", 0, **fm.BUDGET)
    found = fm.run_task(task, None)
    assert starts == [0, 1000, 2000]
    market = sm.simulate("nonlinear", 6000, 0)
    assert found.scores["perfect"] == fm.R2(1, 1, 1)
    known, zero, second = market.known[3000:], np.zeros(3000), market.second[3000:]
    assert found.scores["best, regime known"] == fm.score(market.y[3000:], known, zero, second)
    assert found.scores["best by a day's inputs"].all < found.scores["best, regime known"].all
    assert {detection.auc for detection in found.detections.values()} == {1}
    assert found.settings["ridge"] == ["from 0", "from 1000", "from 2000"]
    assert found.second == market.second[3000:4000].tolist()
    assert fm.run_task(replace(task, seed=1), None).second == []


def test_a_run_can_be_repeated(few_candidates):
    task = replace(SHORT, folds=1)
    found = fm.run_task(task, None)
    assert found == fm.run_task(task, None)
    assert list(found.scores) == [*fm.MODELS, "best by a day's inputs", "best, regime known"]
    untrained = {f"{name}{fm.UNTRAINED}: {signal}" for name in fm.GATED for signal in ("mean T", "best block")}
    assert {name for name in found.detections if fm.UNTRAINED in name} == untrained


def test_the_loss_of_returns_is_known_where_nothing_else_is_imported():
    code = "import experiments.beyond.factor_model; from highway_networks import LOSSES; LOSSES['squared-error']"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_twenty_seeds_walk_through_every_market(workdir, monkeypatch):
    planned = []
    monkeypatch.setattr(ExperimentJob, "run_missing", lambda job, function, tasks, schema: planned.extend(tasks) or [])
    assert fm.EXPERIMENT.main(["run"]) == 0
    assert planned == [fm.Task(market, seed, **fm.BUDGET) for seed in range(20) for market in sm.MARKETS]


# ------------------------------------------------------------------------------------ logs and tables

HALF = dict.fromkeys(sm.MARKETS, 0.5)


def made_up_log(mean_T: dict[str, float], untrained: float = 0.5, p: float = 0.01) -> fm.FactorModelLog:
    """Make up a log of three seeds; `mean_T`: the AUC of the deep net's, by market."""

    def run(seed: int, market: str) -> fm.MarketRun:
        levels = {net: 0.5 for net in fm.GATED} | {fm.GATED[0]: mean_T[market]}
        levels |= {f"{net}{fm.UNTRAINED}": untrained for net in fm.GATED}
        detections = {f"{net}: mean T": fm.Detection(of + 0.02 * (seed - 1), 0.4, 0.6, p) for net, of in levels.items()}
        scores = {name: fm.R2(of + 0.01 * seed * of, of, None) for name, of in (("ridge", 0.1), (fm.GATED[0], 0.16))}
        task = replace(SHORT, market=market, seed=seed)
        return fm.MarketRun(
            None, task, scores, detections, {"ridge": ["a", "b", "b"]}, {net: [] for net in fm.GATED}, []
        )

    runs = [run(seed, market) for seed in (0, 1, 2) for market in sm.MARKETS]
    return made_up.log(fm.FactorModelLog, n_params=dict.fromkeys(fm.NETS, 4000), runs=runs)


@pytest.mark.parametrize(
    ("mean_T", "untrained", "expected"),
    [
        ({"nonlinear": 0.8}, 0.5, Verdict.REPRODUCED),
        ({"nonlinear": 0.8, "both linear": 0.8}, 0.5, Verdict.PARTLY),
        ({"nonlinear": 0.8, "noise": 0.8}, 0.5, Verdict.PARTLY),
        ({"nonlinear": 0.8, "noise": 0.9}, 0.5, Verdict.NOT_REPRODUCED),
        ({"nonlinear": 0.8}, 0.8, Verdict.PARTLY),
        ({"nonlinear": 0.51}, 0.5, Verdict.INCONCLUSIVE),
        ({"nonlinear": 0.2}, 0.5, Verdict.NOT_REPRODUCED),
    ],
)
def test_the_verdict_needs_a_lead_over_every_baseline(mean_T, untrained, expected):
    log = made_up_log(HALF | mean_T, untrained)
    other = Verdict.INCONCLUSIVE if untrained == 0.5 else Verdict.NOT_REPRODUCED  # its AUC is ½ in all markets
    assert [figures.judge_gates(log, net) for net in fm.GATED] == [expected, other]
    assert [row[-1] for row in cells(figures.verdicts_table(log))] == ["verdict", expected, other]


def test_one_seed_has_no_interval_and_none_no_value():
    log = made_up_log(HALF | {"nonlinear": 0.8})
    log.runs = [run for run in log.runs if run.task.seed == 1]
    assert cells(figures.verdicts_table(log))[1][1:] == ["+0.300"] * 4 + ["inconclusive"]
    log.runs[0].detections[f"{fm.GATED[0]}: mean T"].auc = None
    assert cells(figures.verdicts_table(log))[1][1:] == ["none"] * 4 + ["inconclusive"]


def test_the_gates_of_a_net_that_diverged_can_be_logged_and_drawn(tmp_path):
    log = made_up_log(HALF)
    for run in log.runs[: len(sm.MARKETS)]:
        run.second, run.mean_T = [True, False] * 20, {fm.GATED[0]: [None] * 40, fm.GATED[1]: [0.5] * 40}
    logs.write(tmp_path / "log.json", log)
    (line, _), *_ = (axes.lines for axes in figures.days_figure(fm.EXPERIMENT.read(tmp_path / "log.json")).axes)
    assert np.isnan(line.get_ydata()).all()


def test_a_log_names_a_data_set_if_and_only_if_the_experiment_needs_one(tmp_path):
    path, log, very_deep = tmp_path / "log.json", made_up_log(HALF), load("very_deep")
    logs.write(path, log)
    assert fm.EXPERIMENT.read(path) == log
    for experiment, other, parts in (
        (fm.EXPERIMENT, replace(log, dataset=small_log().dataset), ("dataset", f"{fm.EXPERIMENT.parser.prog} run")),
        (very_deep, made_up.log(very_deep.log, runs=[]), ("found one of none",)),
    ):
        logs.write(path, other)
        with refused_with(path, *parts):
            experiment.read(path)


def test_running_all_names_no_data_set_where_none_is_needed(monkeypatch):
    calls = []
    monkeypatch.setattr(experiments, "STEPS", {"factor_model": ("run",)})
    monkeypatch.setattr(Experiment, "main", lambda _, argv: calls.append(argv))
    assert experiments.main(["run"]) == 0
    assert calls == [["run", "--jobs", "1"]]
