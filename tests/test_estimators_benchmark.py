"""The comparison of estimators: an interval with a known answer, what is told, a small run."""

import made_up
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from test_benchmarks import logged

from benchmarks import estimators
from benchmarks.estimators import FEW, HIGHWAY, MLP, EstimatorsLog, Scores, Task, corrected
from benchmarks.measures import Spread

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_the_interval_of_a_mean_is_that_of_the_corrected_t_test():
    mean, half = corrected([0.1, 0.2, 0.3, 0.4, 0.5], folds=5)
    assert mean == pytest.approx(0.3)
    # sd² = 0.025; its error √(0.025·(1/5 + 1/4)); Student's t at 97.5 %, 4 degrees of freedom: 2.776
    assert half == pytest.approx(2.776 * (0.025 * 0.45) ** 0.5, rel=1e-3)


def row(task: str, contender: str, *scores: float, seconds: float = 2.0) -> Scores:
    return Scores(task, 100, contender, list(scores), Spread(seconds, seconds, seconds))


def test_a_task_counts_for_the_contender_with_the_highest_mean_and_for_the_verdict_beside_the_mlp():
    scores = [row("one", HIGHWAY, 0.6, 0.7), row("one", MLP, 0.7, 0.8, seconds=0.5)]
    found = estimators.numbers(made_up.log(EstimatorsLog, None, folds=2, seeds=[0], scores=scores))
    assert found["score"]["one"] == pytest.approx({HIGHWAY: 0.65, MLP: 0.75})
    assert found["lead"]["one"] == pytest.approx((-0.1, 0))
    assert (found["best"], found["verdicts"], found["slower"]) == ({MLP: 1}, {"falls behind": 1}, [4])


def quick(task: Task, load, few: bool = False) -> Task:
    """Return a task of fewer samples, whose contenders take two iterations if they learn by such."""
    models = {name: clone(of) for name, of in task.contenders.items()}
    for model in models.values():
        model.set_params(**{"max_iter": 2} if "max_iter" in model.get_params() else {})
    return Task(models, lambda: [part[::2] for part in load(return_X_y=True)], few)


def test_a_run_logs_all_that_its_page_tells(tmp_path, monkeypatch):
    classes, numbers = estimators.TASKS["moons"], estimators.TASKS["linear"]
    tasks = {
        "wine": quick(classes, load_wine),
        f"wine, {FEW} rows": quick(classes, load_wine, few=True),
        "diabetes": quick(numbers, load_diabetes),
    }
    monkeypatch.setattr(estimators, "TASKS", tasks)
    monkeypatch.setattr(estimators, "FOLDS", 2)
    log = logged(estimators.BENCHMARK, tmp_path / "log.json", "--rounds", "1")
    contenders = estimators.CLASSIFIERS
    assert [(of.task, of.contender) for of in log.scores] == [(task, name) for task in tasks for name in contenders]
    assert [len(of.scores) for of in log.scores] == [n for n in (2, 8, 2) for _ in contenders]
    assert estimators.numbers(log)
