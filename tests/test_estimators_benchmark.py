"""The comparison of estimators and the choice of their defaults: an interval with a known answer, the rule."""

import made_up
import numpy as np
import pytest
from picture_helpers import committed_log
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from test_benchmarks import logged

from benchmarks import estimator_defaults, estimators
from benchmarks.estimator_defaults import DefaultsLog, chosen
from benchmarks.estimators import FEW, HIGHWAY, MLP, EstimatorsLog, Scores, Task, corrected
from benchmarks.measures import Spread
from highway_estimators import DECAY_OF_ALL, HighwayClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_the_interval_of_a_mean_is_that_of_the_corrected_t_test():
    mean, half = corrected([0.1, 0.2, 0.3, 0.4, 0.5], folds=5)
    assert mean == pytest.approx(0.3)
    # sd² = 0.025; its error √(0.025·(1/5 + 1/4)); Student's t at 97.5 %, 4 degrees of freedom: 2.776
    assert half == pytest.approx(2.776 * (0.025 * 0.45) ** 0.5, rel=1e-3)


def test_no_task_that_chooses_the_defaults_reports_on_them():
    """Tasks of the same name are drawn from other seeds."""
    assert len(estimators.TASKS) == 16
    for name in estimators.TASKS.keys() & estimator_defaults.TASKS.keys():
        first, second = (module.TASKS[name].load()[0] for module in (estimators, estimator_defaults))
        assert not np.isin(first[:, 0], second[:, 0]).all()


def row(task: str, contender: str, *scores: float, seconds: float = 2.0) -> Scores:
    return Scores(task, 100, contender, list(scores), Spread(seconds, seconds, seconds))


def test_a_task_counts_for_the_contender_with_the_highest_mean_and_for_the_verdict_beside_the_mlp():
    scores = [row("one", HIGHWAY, 0.6, 0.7), row("one", MLP, 0.7, 0.8, seconds=0.5)]
    found = estimators.numbers(made_up.log(EstimatorsLog, None, folds=2, seeds=[0], scores=scores))
    assert found["score"]["one"] == pytest.approx({HIGHWAY: 0.65, MLP: 0.75})
    assert found["lead"]["one"] == pytest.approx((-0.1, 0))
    assert (found["best"], found["verdicts"], found["slower"]) == ({MLP: 1}, {"falls behind": 1}, [4])


def test_the_fastest_of_those_whose_worst_task_is_alike_is_chosen():
    differences = {"uneven": (0.5, -0.2), "best": (-0.01, 0.0), "alike": (-0.018, -0.018), "worse": (-0.022, 0.9)}
    taken = {"uneven": 0.1, "best": 3.0, "alike": 2.0, "worse": 1.0}
    scores = [row(task, MLP, 0.0, 0.0) for task in ("one", "two")]
    for name, means in differences.items():
        for task, mean in zip(("one", "two"), means, strict=True):
            scores.append(row(task, name, mean - 0.1, mean + 0.1, seconds=taken[name]))
    log = made_up.log(DefaultsLog, None, folds=2, seeds=[0], candidates=list(differences), scores=scores)
    assert chosen(log) == "alike"
    assert estimator_defaults.numbers(log)["worst"] == pytest.approx({of: min(differences[of]) for of in differences})


def quick(task: Task, load, few: bool = False) -> Task:
    """Return a task of fewer samples, whose contenders take two iterations if they learn by such."""
    models = {name: clone(of) for name, of in task.contenders.items()}
    for model in models.values():
        model.set_params(**{"max_iter": 2} if "max_iter" in model.get_params() else {})
    return Task(models, lambda: [part[::2] for part in load(return_X_y=True)], few)


@pytest.mark.parametrize(("module", "argv"), [(estimators, ["--rounds", "1"]), (estimator_defaults, [])])
def test_a_run_logs_all_that_its_page_tells(tmp_path, monkeypatch, module, argv):
    classes, numbers = module.TASKS["moons"], module.TASKS["linear"]
    tasks = {
        "wine": quick(classes, load_wine),
        f"wine, {FEW} rows": quick(classes, load_wine, few=True),
        "diabetes": quick(numbers, load_diabetes),
    }
    monkeypatch.setattr(module, "TASKS", tasks)
    monkeypatch.setattr(module, "FOLDS", 2)
    monkeypatch.setattr(estimator_defaults, "CANDIDATES", [{"weight_decay": 0.1}, {"weight_decay": "3 / samples"}])
    log = logged(module.BENCHMARK, tmp_path / "log.json", *argv)
    candidates = [MLP, "weight_decay=0.1", "weight_decay=3 / samples"]
    contenders = estimators.CLASSIFIERS if module is estimators else candidates
    assert [(of.task, of.contender) for of in log.scores] == [(task, name) for task in tasks for name in contenders]
    assert [len(of.scores) for of in log.scores] == [n for n in (2, 8, 2) for _ in contenders]
    assert module.numbers(log)


def test_the_defaults_are_the_candidate_that_the_rule_takes():
    log = estimator_defaults.BENCHMARK.read(committed_log("benchmarks/estimator_defaults.json"))
    defaults = HighwayClassifier().get_params() | {"weight_decay": f"{DECAY_OF_ALL:g} / samples"}  # "auto"
    names = {estimator_defaults.words(of): of for of in estimator_defaults.CANDIDATES}
    assert names[chosen(log)].items() <= defaults.items()
