"""Studies: kinds of net (arms) that choose their settings alike and are compared from seeds that have chosen nothing.

A study is data: cells (an arm in one size), what each tunes, stages. `Study.rungs` says which runs a cell asks for,
stage after stage, given those that are there. It alone plans: what is still to be made (`next_tasks`), what counts
(`scored`), what an earlier form of the study has left (`superfluous`). A stage's settings follow from the whole stages
before it and from nothing else: a study that is killed anywhere, or gets another cell, arm, stage or value of a grid,
ends with the choice that a fresh start would have made.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Real
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from highway_lab.fields import Count, Score, Share
from highway_lab.logs import DatasetInfo, Result
from highway_networks import BLOCKS, InputError, rounded

from .common import CHANCE
from .partly_frozen import ArmConfig

DIVERGED = 1e6  # nats, in place of an infinite loss
Setting = tuple[float | str, ...]  # the values of an arm's hyperparameters, in the order of its grid
CellT = TypeVar("CellT")
ConfigT = TypeVar("ConfigT")
MeasuredT = TypeVar("MeasuredT")


class Arm(NamedTuple):
    """A kind of net: fields of its configuration, and the hyperparameters that it tunes, with the values tried first.

    options   fields that all its nets share
    grid      by hyperparameter, the learning rate `lr` among them, its values, ascending or descending
    of        turns those hyperparameters that are no fields into fields
    """

    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[float | str]]
    of: Callable[..., Mapping[str, Any]] = dict

    def fields(self, setting: Setting) -> dict[str, Any]:
        """Return the fields of a net in one setting."""
        return {**self.options, **self.of(**dict(zip(self.grid, setting, strict=True)))}

    @property
    def matrices(self) -> int:
        """Number of square matrices that a block trains: one a branch, but for those that are fixed."""
        fields = self.fields(tuple(values[0] for values in self.grid.values()))
        fixed = f"{fields.get('zero', '')},{fields.get('frozen', '')}".split(",")
        return len(BLOCKS[fields["block"]].branches) - sum(name.startswith("W") for name in fixed)

    @property
    def units(self) -> int:
        """Number of units with which a block has about 5,100 trained parameters, if it trains one or two matrices."""
        return 71 if self.matrices == 1 else 50


@dataclass(frozen=True)
class Cell:
    """An arm in one size, which chooses a setting by itself. The study alone reads more of it than its arm."""

    arm: str
    hidden: Count
    depth: Count


@dataclass(frozen=True)
class ArmCell:
    """An arm in its only size, or one that chooses a setting once for all its sizes."""

    arm: str


@dataclass(frozen=True)
class Stage:
    """Runs of each cell's settings that are the `best` by any criterion in the stages before; None: of all on offer.

    seeds     or a function that gives those of a cell
    options   fields of the configuration
    result    its name, if its runs are results; else later stages choose by them
    vary      values of a hyperparameter of the grid with which it tries each of its settings, of arms that have it
    """

    seeds: Sequence[int] | Callable[[Any], Sequence[int]]
    epochs: int
    best: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    vary: Mapping[str, Sequence[float | str]] = field(default_factory=dict)

    def seeds_of(self, cell: Any) -> Sequence[int]:
        return self.seeds(cell) if callable(self.seeds) else self.seeds


@dataclass(frozen=True)
class Task(Generic[CellT, ConfigT]):
    """A run that a study asks for; `result` names the stage of results that does, "" one that chooses."""

    cell: CellT
    setting: Setting
    config: ConfigT
    result: str


@dataclass
class Measured:
    """What every study measures after a run's last epoch; null where a run diverged, or where there is no such thing.

    score             on test samples, of a run that chooses on validation samples
    score_loss        mean loss on the same samples; also null in logs from before it was kept
    effective_depth   sum over blocks of the mean gate, over the first samples that are scored
    """

    clipped: Share | None  # of the steps; null if it was not counted
    train_loss: float | None  # over all training samples
    score: Score | None
    effective_depth: float | None
    score_loss: float | None


@dataclass
class StudyRun(Result, Generic[CellT, ConfigT, MeasuredT]):
    """A run as its log keeps it.

    n_trained   parameters that are trained
    history     the columns that the study keeps, a row an epoch, the untrained net's first
    measured    of a type of the study's
    """

    task: Task[CellT, ConfigT]
    n_trained: Count
    diverged: bool
    history: dict[str, list[float | None]]
    measured: MeasuredT

    @property
    def accuracy(self) -> float:
        """Return the share of samples that it reads correctly; of a run that diverged, that of guessing."""
        return CHANCE if self.measured.score is None else self.measured.score

    @property
    def cell(self) -> CellT:
        return self.task.cell

    @property
    def setting(self) -> Setting:
        return self.task.setting

    @property
    def config(self) -> ConfigT:
        return self.task.config


Rung = dict[Setting, list]  # by setting, for each seed its run, or its task where there is none
SMOKE = {"hidden": 8, "depth": 4, "n_train": 256, "n_validation": 64, "n_test": 64}  # at most, in a run of seconds


def configure(fields: Mapping[str, Any], cell: Any, stage: Stage) -> ArmConfig:
    """Return the configuration of a run: what its cell says of it, and fields of arm and stage."""
    size = {name: of for name, of in vars(cell).items() if name in ArmConfig.__dataclass_fields__}
    return ArmConfig(**{**size, **fields})


def error(run: StudyRun) -> float:
    return 1 - run.accuracy


@dataclass(frozen=True)
class Study:
    """Arms, cells and stages, and by which numbers a run is judged.

    criteria    by name, what is compared of a run, less is better: a number for a diverged run, too
    configure   the configuration of a run, given fields (of arm, stage, epochs and seed), cell and stage
    growth      times that a grid may grow around the settings that the second stage takes
    own         the size in which an arm of a user's own is compared, given its name and the arm
    """

    arms: Mapping[str, Arm]
    cells: Sequence[Any]
    stages: Sequence[Stage]
    criteria: Mapping[str, Callable[[StudyRun], float]] = field(default_factory=lambda: {"error": error})
    configure: Callable[..., Any] = configure
    growth: int = 0
    own: Callable[[str, Arm], Any] | None = None
    config: type = ArmConfig
    measured: type = Measured

    def __post_init__(self) -> None:
        for cell, one, other in product(self.cells, self.stages, self.stages):
            if one.result and not other.result and (both := {*one.seeds_of(cell)} & {*other.seeds_of(cell)}):
                expected = "expected results from seeds that have chosen nothing"
                raise InputError(f"{cell}: {expected}, found {min(both)} in both; choose others")

    def rungs(self, runs: Iterable[StudyRun], cell: Any) -> Iterator[tuple[Stage, Rung, Rung]]:
        """Yield a cell's stages, the runs that each asks for, and those by which it chooses; the last lacks some."""
        done, tried = {run.task: run for run in runs if run.cell == cell}, Rung()
        for stage in self.stages:
            taken = self.chosen(tried, stage.best) if tried else self.grid(cell)
            rung = self.rung(done, cell, stage, self.varied(cell, stage, taken))
            for _ in range(0 if tried or stage.result else self.growth):
                if missing(rung) or not (more := self.around(cell, rung, self.chosen(rung, self.stages[1].best))):
                    break
                rung |= self.rung(done, cell, stage, more)
            yield stage, rung, tried
            if missing(rung):
                return
            if not stage.result:  # runs of earlier stages count too, once, if they are such as this one asks for
                alike = {
                    of: [run for run in tried.get(of, ()) if self.task(cell, stage, of, run.config.seed) == run.task]
                    for of in rung
                }
                tried = {of: [*alike[of], *(run for run in rung[of] if run not in alike[of])] for of in rung}

    def grid(self, cell: Any) -> list[Setting]:
        """Return the settings that a cell tries first."""
        return [*product(*self.arms[cell.arm].grid.values())]

    def varied(self, cell: Any, stage: Stage, settings: Sequence[Setting]) -> Sequence[Setting]:
        """Return settings with each of the values that a stage varies; as they are, of an arm without these."""
        for at, name in enumerate(self.arms[cell.arm].grid):
            if values := stage.vary.get(name):
                settings = [(*of[:at], value, *of[at + 1 :]) for of in settings for value in values]
        return settings

    def rung(self, done: Mapping[Task, StudyRun], cell: Any, stage: Stage, settings: Iterable[Setting]) -> Rung:
        tasks = {of: [self.task(cell, stage, of, seed) for seed in stage.seeds_of(cell)] for of in settings}
        return {of: [done.get(task, task) for task in tasks[of]] for of in tasks}

    def task(self, cell: Any, stage: Stage, setting: Setting, seed: int) -> Task:
        """Return the run of a setting and a seed."""
        fields = {**self.arms[cell.arm].fields(setting), **stage.options, "epochs": stage.epochs, "seed": seed}
        return Task(cell, setting, self.configure(fields, cell, stage), stage.result)

    def judge(self, runs: Iterable[StudyRun], criterion: str | None = None) -> np.ndarray:
        """Return what a criterion (the first) says of runs, less is better; raises InputError where it is no number."""
        criterion = criterion or next(iter(self.criteria))
        values = np.array([self.criteria[criterion](run) for run in runs], float)
        if not np.isfinite(values).all():
            expected = "expected a number for every run, diverged ones too"
            raise InputError(f"{criterion}: {expected}, found {values[~np.isfinite(values)][0]}; mend the criterion")
        return values

    def ranked(self, rung: Rung, criterion: str | None = None) -> list[Setting]:
        """Return settings, the best by the mean of a criterion first."""
        return sorted(rung, key=lambda of: self.judge(rung[of], criterion).mean())

    def chosen(self, rung: Rung, best: int | None) -> list[Setting]:
        """Return the settings that are among the best by any criterion."""
        return [*dict.fromkeys(of for criterion in self.criteria for of in self.ranked(rung, criterion)[:best])]

    def around(self, cell: Any, rung: Rung, settings: Iterable[Setting]) -> list[Setting]:
        """Return the settings one step from some, in one hyperparameter that is a number, that were not tried."""
        found = []
        for setting in settings:
            for at, offered in enumerate(self.arms[cell.arm].grid.values()):
                tried = {of[at] for of in rung}
                if len(tried) < 2 or not all(isinstance(value, Real) for value in tried):
                    continue
                values = sorted(tried, reverse=offered[0] > offered[-1])
                where = values.index(setting[at]) + 1  # once there is a value before them
                values = [beyond(values[1], values[0]), *values, beyond(values[-2], values[-1])]
                found += [(*setting[:at], value, *setting[at + 1 :]) for value in values[where - 1 : where + 2]]
        return [of for of in dict.fromkeys(found) if of not in rung and self.makes_net(cell, of)]

    def makes_net(self, cell: Any, setting: Setting) -> bool:
        """Tell whether a setting makes a configuration: one step beyond a momentum of 0.9 there may be none."""
        with suppress(InputError):
            return bool(self.task(cell, self.stages[0], setting, 0))
        return False

    def small(self) -> "Study":
        """Return a study of the same form whose runs take seconds: a cell an arm, few settings, epochs and seeds.

        Nets that are looked into are small ones, which are trained for it.
        """
        cells, arms, stages = {}, {}, []
        for cell in self.cells:
            grid = {of: values[: 1 + (of == "lr")] for of, values in self.arms[cell.arm].grid.items()}
            cells.setdefault(cell.arm, replace(cell, file="") if isinstance(cell, NetCell) else cell)
            arms[cell.arm] = self.arms[cell.arm]._replace(grid=grid)
        for at, stage in enumerate(self.stages):
            seeds, best = (200, 201) if stage.result else (100,), stage.best and 1
            options = {of: "digits" if of == "net" else value for of, value in stage.options.items()}
            stages.append(replace(stage, seeds=seeds, epochs=1 + (at > 0), best=best, options=options))

        def configure(fields: dict, cell: Any, stage: Stage) -> Any:
            known = vars(config := self.configure(fields, cell, stage))
            return replace(config, **{name: min(SMOKE[name], known[name]) for name in SMOKE.keys() & known.keys()})

        return replace(self, arms=arms, cells=[*cells.values()], stages=stages, configure=configure, growth=0)


@dataclass(frozen=True)
class NetCell:
    """A net that is looked into: that of a file or, where there is none, one that is trained for it."""

    arm: str
    file: str = field(default="", compare=False)  # one net may be named by several paths


def look_at(measured: type, nets: Mapping[NetCell, Any], seeds: Sequence[int] = (), **options: Any) -> Study:
    """Return a study that looks into nets of these configurations, those without a file from each of the seeds."""
    first, epochs = next(iter(nets.values())), max(of.epochs for of in nets.values())
    stage = Stage(lambda cell: (nets[cell].seed,) if cell.file or not seeds else seeds, epochs, result="scored")
    return Study(
        {cell.arm: Arm({}, {}) for cell in nets},
        [*nets],
        [stage],
        configure=lambda fields, cell, stage: replace(nets[cell], **fields),
        config=type(first),
        measured=measured,
        **options,
    )


class Results:
    """What is there of a study: its rungs by cell, and what follows from them; and the data set of its log."""

    def __init__(self, study: Study, runs: Iterable[StudyRun], dataset: DatasetInfo | None = None):
        self.study, self.runs, self.dataset = study, [*{run.task: run for run in runs}.values()], dataset
        self.rungs = {cell: [*study.rungs(self.runs, cell)] for cell in study.cells}

    def next_tasks(self, least: int = 1) -> list[Task]:
        """Return runs that can be made now: all of the first unfinished cell, and of others to make up `least`."""
        by_cell = [tasks for rungs in self.rungs.values() for _, rung, _ in rungs if (tasks := missing(rung))]
        first = by_cell[0] if by_cell else []
        return [*first, *(task for tasks in by_cell[1:] for task in tasks)][: max(least, len(first))]

    @property
    def superfluous(self) -> list[StudyRun]:
        """Return the runs that the study does not ask for (any more): kept, told, used for nothing."""
        asked = {id(run) for rungs in self.rungs.values() for _, rung, _ in rungs for of in rung.values() for run in of}
        return [run for run in self.runs if id(run) not in asked]

    @property
    def finished(self) -> list:
        """Return the cells of which every run is there."""
        return [cell for cell in self.rungs if not missing(self.rungs[cell][-1][1])]

    def tries(self, cell: Any) -> list[StudyRun]:
        """Return a cell's runs that choose, each once."""
        runs = [run for stage, rung, _ in self.rungs[cell] if not stage.result for of in rung.values() for run in of]
        return [*{run.task: run for run in runs if isinstance(run, StudyRun)}.values()]

    def settings(self, cell: Any, result: str = "scored") -> Rung:
        """Return a cell's results of a stage by setting, in the order of their seeds; none if some are missing."""
        return next((rung for stage, rung, _ in self.rungs[cell] if stage.result == result and not missing(rung)), {})

    def by_cell(self) -> dict[Any, list[StudyRun]]:
        """Return the scored runs of each finished cell, in the order of their settings and seeds."""
        return {cell: [run for of in self.settings(cell).values() for run in of] for cell in self.finished}

    def tried(self, cell: Any) -> Rung:
        """Return by setting the runs by which a cell chooses; none as long as one of them is missing."""
        return next((tried for stage, _, tried in self.rungs[cell] if stage.result), {})

    def chosen(self, cell: Any, criterion: str | None = None) -> Setting | None:
        """Return the setting that a criterion (the first) chose; None as long as the stages that choose lack runs."""
        tried = self.tried(cell)
        return self.study.ranked(tried, criterion)[0] if tried else None

    def quality(self, cell: Any, criterion: str | None = None) -> float:
        """Return the mean of a criterion over the runs by which a finished cell has chosen; equal ones are equal."""
        return round(float(np.mean(self.judged(self.tried(cell)[self.chosen(cell, criterion)], criterion))), 12)

    def scored(self, cell: Any, criterion: str | None = None, result: str = "scored") -> list[StudyRun]:
        """Return a cell's results of a stage in the chosen setting, in the order of their seeds; none if unfinished."""
        return self.settings(cell, result).get(self.chosen(cell, criterion), [])

    def judged(self, runs: Iterable[StudyRun], criterion: str | None = None) -> np.ndarray:
        """Return what a criterion (the first) says of runs; less is better."""
        return self.study.judge(runs, criterion)

    def untried(self, cell: Any, criterion: str | None = None) -> list[str]:
        """Name the settings one step from a choice (by the first criterion) that were never tried."""
        if (setting := self.chosen(cell, criterion)) is None:
            return []
        tried = {of: runs for _, rung, _ in self.rungs[cell] for of, runs in rung.items()}
        names, neighbours = self.study.arms[cell.arm].grid, self.study.around(cell, tried, [setting])
        return [
            f"{name} {value:g}"
            for neighbour in neighbours
            for name, value, own in zip(names, neighbour, setting, strict=True)
            if value != own
        ]


def accuracies(runs: Iterable[StudyRun]) -> np.ndarray:
    """Return the accuracy of each run in %, on test samples if the runs are results."""
    return 100 * np.array([run.accuracy for run in runs])


def gains(runs: Iterable[StudyRun], others: Iterable[StudyRun]) -> np.ndarray:
    """Return the points of accuracy by which runs are ahead of others of the same seeds, (seeds,)."""
    own, theirs = ({run.config.seed: 100 * run.accuracy for run in of} for of in (runs, others))
    return np.array([own[seed] - theirs[seed] for seed in own if seed in theirs])


def score_loss(run: StudyRun) -> float:
    """Return the loss on the samples that score a run, in nats, of a study that measures it; DIVERGED for infinity."""
    return DIVERGED if run.measured.score_loss is None else run.measured.score_loss


def missing(rung: Rung) -> list[Task]:
    return [run for of in rung.values() for run in of if isinstance(run, Task)]


def beyond(before: float, end: float) -> float:
    """Return the value one step beyond the end of a grid: in proportion where signs agree, else as far again."""
    return rounded(end * end / before if before * end > 0 else 2 * end - before, digits=3)
