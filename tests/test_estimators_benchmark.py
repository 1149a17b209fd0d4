"""The comparison of estimators: equal sizes, an interval with a known answer, a log that reads back, its tables."""

from collections.abc import Callable
from functools import partial

import made_up
import numpy as np
import pytest
from picture_helpers import cells
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_diabetes, load_wine
from test_benchmarks import LINUX_ONLY, logged

from benchmarks import estimator_defaults, estimators
from benchmarks import estimator_defaults_figures as defaults_figures
from benchmarks.estimator_defaults import Contest, DefaultsLog, chosen, rank
from benchmarks.estimators import MLP, AtDepth, Epoch, EstimatorsLog, Scores, Targets, corrected
from benchmarks.estimators_figures import LEFT, RIGHT, TABLES
from benchmarks.measures import Spread
from highway_lab.logs import DatasetInfo

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_nets_whose_epochs_are_timed_are_of_one_size(monkeypatch):
    monkeypatch.setattr(estimators, "EPOCHS", 1)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 784)), np.arange(20) % 10
    sizes = {name: estimators.n_params(net.fit(X, y)) for name, net in estimators.timed_nets(784, 10, width=50).items()}
    assert sizes[estimators.SAME_NET] == sizes[estimators.MLP]
    assert sizes[estimators.SAME_PARAMETERS] == pytest.approx(sizes[estimators.MLP], rel=0.03)
    assert sizes[estimators.SAME_WIDTH] - sizes[estimators.SAME_NET] == estimators.DEPTH * 50 * 51


def made_up_log() -> EstimatorsLog:
    """Return a log of two folds and one seed; in the second fold each score is a tenth higher."""

    def row(dataset: str, contender: str, tenths: int) -> Scores:
        return Scores(dataset, 100, contender, [tenths / 10, (tenths + 1) / 10], Spread(1, 2, 3))

    scores = [row("digits", name, tenths) for tenths, name in ((6, LEFT), (7, RIGHT), (1, "commonest class"))]
    deep = [AtDepth(depth, [row("digits", name, depth) for name in ("highway", "MLP")]) for depth in (3, 8)]
    ratio = {"MLP, one BLAS thread": 1.0, "plain blocks": 0.4, "highway blocks": 0.8}
    epochs = [
        Epoch("float32", width, name, 1000 * width, Spread(1, 100 * of, 3), Spread(of, of, of))
        for width in (20, 50)
        for name, of in ratio.items()
    ]
    measured = {"targets": Targets(), "scores": scores, "deep": deep, "epochs": epochs}
    dataset = DatasetInfo("mnist", 6000, 1)
    return made_up.log(EstimatorsLog, dataset, rounds=3, folds=2, seeds=[0], depth=30, **measured)


def rows_of(name: str) -> list[list[str]]:
    return cells(TABLES[name](made_up_log()))[1:]


def test_tables_show_means_with_their_interval_and_the_target():
    # sd 0.0707; its error, of two values in two folds, √(1/2 + 1) times that; Student's t, 1 degree of freedom: 12.706
    half = f"{12.706 * 0.1 * 0.5**0.5 * 1.5**0.5:.3f}"
    assert rows_of("estimators")[0] == ["digits", LEFT, f"0.650 ± {half}", "2"]
    assert rows_of("estimators_shallow")[0][-2:] == ["-0.1000 ± 0.0000", "falls behind"]
    assert rows_of("estimators_depth") == [[depth, *[f"0.{depth}50 ± {half}"] * 2] for depth in "38"]
    assert "The commonest class: 0.150." in TABLES["estimators_depth"](made_up_log())
    assert [row[-1] for row in rows_of("estimators_epoch")] == [
        *("1.00 (1.00–1.00)", "0.40 (0.40–0.40)", "0.80 (0.80–0.80)"),  # of a width without a target
        *("1.00 (1.00–1.00)", "0.40 (0.40–0.40), 0.5 reached", "0.80 (0.80–0.80), 0.5 missed"),
    ]


def test_the_interval_of_a_mean_is_that_of_the_corrected_t_test():
    mean, half = corrected([0.1, 0.2, 0.3, 0.4, 0.5], folds=5)
    assert mean == pytest.approx(0.3)
    # sd² = 0.025; its error √(0.025·(1/5 + 1/4)); Student's t at 97.5 %, 4 degrees of freedom: 2.776
    assert half == pytest.approx(2.776 * (0.025 * 0.45) ** 0.5, rel=1e-3)


def fewer(load: Callable, step: int) -> list[np.ndarray]:
    return [part[::step] for part in load(return_X_y=True)]


def quick(net: BaseEstimator) -> BaseEstimator:
    """Return a copy that trains for two epochs or has two trees, if it learns by either."""
    return clone(net).set_params(**{"max_iter": 2} if "max_iter" in net.get_params() else {})


@LINUX_ONLY
def test_a_run_logs_all_that_its_tables_tell(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    few = ("mnist", rng.standard_normal((60, 9), dtype=np.float32), np.arange(60) % 3)
    monkeypatch.setattr(estimators, "images", lambda: few)
    bundled = {"digits": fewer(load_wine, 4), "diabetes": fewer(load_diabetes, 4)}
    monkeypatch.setattr(estimators, "BUNDLED", tuple(bundled))
    monkeypatch.setattr(estimators, "bundled", bundled.get)
    for kind in ("CLASSIFIERS", "REGRESSORS"):
        monkeypatch.setattr(estimators, kind, {name: quick(net) for name, net in getattr(estimators, kind).items()})
    deep = {name: lambda depth, new=new: quick(new(depth)) for name, new in estimators.DEEP.items()}
    monkeypatch.setattr(estimators, "DEEP", deep)
    for name, value in {"FOLDS": 2, "SEEDS": (0,), "DEPTHS": (1,), "WIDTHS": (4,), "DEPTH": 2, "EPOCHS": 1}.items():
        monkeypatch.setattr(estimators, name, value)
    log = logged(estimators.main, EstimatorsLog, tmp_path / "log.json", "--rounds", "1")
    assert {(row.dataset, row.contender) for row in log.scores} == {
        *((of, name) for of in ("digits", "mnist") for name in estimators.CLASSIFIERS),
        *(("diabetes", name) for name in estimators.REGRESSORS),
    }
    assert {row.precision for row in log.epochs} == {"float32", "float64"}
    ratios = {(row.precision, row.contender): row.over_mlp.median for row in log.epochs}
    for precision in estimators.PRECISIONS:  # all are compared with the faster of the two
        assert min(ratios[precision, name] for name in (estimators.MLP, estimators.MLP_ALONE)) == 1
    assert all(table(log) for table in TABLES.values())
    assert "ms an epoch" in capsys.readouterr().out


def contest_of(**leads: list[float]) -> Contest:
    """Return a contest of four folds on two data sets; each candidate's mean scores are given, the MLP's are 0."""
    rows = {MLP: [0.0, 0.0]} | leads
    noise = np.array([-0.01, 0.01, -0.02, 0.02])
    scores = [
        Scores(of, 100, name, (lead[i] + noise * (name != MLP)).tolist(), Spread(1, 1, 1))
        for name, lead in rows.items()
        for i, of in enumerate(("one", "two"))
    ]
    return Contest("regressor", list(leads), [9 if name == "large" else 5 for name in leads], scores)


def test_what_falls_behind_least_often_is_chosen_then_the_smaller_then_the_better():
    held = contest_of(often=[-0.5, -0.5], once=[0.9, -0.5], never=[0.0, 0.01], better=[0.01, 0.01], large=[0.9, 0.9])
    assert [rank(held, name, 4)[0] for name in held.candidates] == [2, 1, 0, 0, 0]
    assert chosen(held, 4) == "better"
    log = made_up.log(DefaultsLog, None, folds=4, seeds=[0], contests=[held])
    assert [row[1:] for row in cells(defaults_figures.candidates_table(log))[1:]] == [
        ["often", "2", "-0.500", ""],
        ["once", "1", "+0.200", ""],
        ["never", "0", "+0.005", ""],
        ["better", "0", "+0.010", "chosen"],
        ["large", "0", "+0.900", ""],
    ]


@LINUX_ONLY
def test_the_choice_of_defaults_is_logged_and_tabulated(tmp_path, monkeypatch, capsys):
    for name, load in (("classifier", load_wine), ("regressor", load_diabetes)):
        monkeypatch.setitem(estimator_defaults.DATA, name, {"few": partial(fewer, load, 8)})
        monkeypatch.setitem(estimator_defaults.CANDIDATES, name, [{"depth": L, "max_iter": 2} for L in (1, 2)])
    for name, value in {"FOLDS": 2, "SEEDS": (0,)}.items():
        monkeypatch.setattr(estimators, name, value)
        monkeypatch.setattr(estimator_defaults, name, value)
    monkeypatch.setattr(estimator_defaults, "N_JOBS", 1)
    log = logged(estimator_defaults.main, DefaultsLog, tmp_path / "log.json")
    assert [(len(held.candidates), len(held.scores)) for held in log.contests] == [(2, 3), (2, 3)]
    assert "regressor: depth=" in capsys.readouterr().out
    assert all(table(log) for table in defaults_figures.TABLES.values())


@pytest.mark.parametrize("kind", estimator_defaults.ESTIMATORS)
def test_the_defaults_are_among_the_candidates(kind):
    defaults = estimator_defaults.ESTIMATORS[kind][0]().get_params()
    auto = {"early_stopping": True} if defaults["early_stopping"] == "auto" else {}
    assert any(candidate.items() <= (defaults | auto).items() for candidate in estimator_defaults.CANDIDATES[kind])
