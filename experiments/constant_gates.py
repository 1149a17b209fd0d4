"""Section 4.1: do gates compute, or would constants do? Nets that are trained with gates that do not see their input.

Giving a trained net mean gates cannot settle this, as the net was trained with others. So here 49 blocks are trained
from the start, in the three settings of models.SETTINGS, with five kinds of mixing:

    highway            y = T·H + (1 − T)·x, T = σ(W_T x + b_T)
    learned constants  W_T = 0; b_T is trained, one number a unit
    mean gates         W_T = 0; T is fixed for each unit at its mean in the trained highway net of the same seed
    untrained gates    W_T and b_T stay as they are drawn, so T depends on x
    residual           y = x + H

Rules, fixed before the run. Test accuracy is that after the last epoch; a diverged run counts as chance (0.1). One kind
outperforms another if the 95 % interval of the difference of means (Welch, over seeds) excludes 0; it is as good if
that interval lies within 0.5 points on both sides of 0. "Gates are computation" is reproduced if highway outperforms
learned constants and mean gates in all three settings; not reproduced if in all three one of these two is as good as
highway, or outperforms it; partly if highway outperforms both in some settings; else inconclusive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from highway_lab.intervals import Interval, difference, interval, judge
from highway_lab.training import Training
from highway_networks import Dataset, hyperparameter

from . import study_command
from .claims import ACCURACY_MARGIN, Verdict, combine
from .looks.measurement import measure_gates
from .looks.models import LONG, N_TEST, N_TRAIN, SEEDS, SETTINGS
from .partly_frozen import ArmConfig, ArmNet
from .study import Arm, Cell, Results, Stage, Study, accuracies

EPOCHS = 10
KINDS = ("highway", "learned constants", "mean gates", "untrained gates", "residual")
HIGHWAY, LEARNED, MEAN, UNTRAINED, RESIDUAL = KINDS
CONSTANT = (LEARNED, MEAN)  # kinds whose gates do not see the input


@dataclass(frozen=True)
class GatesConfig(ArmConfig):
    """All hyperparameters of a run of such a net."""

    mean_gates: bool = hyperparameter(False, "whether b_T begins at the mean gates of a highway net, trained alike")

    def new_net(self, data: Dataset, rng: np.random.Generator) -> ArmNet:
        """Make the net for `data`, whose weights `rng` draws; one with mean gates trains the highway net before."""
        net = super().new_net(data, rng)
        if self.mean_gates:
            training = Training(replace(self, frozen="", zero="", mean_gates=False), data)
            training.data = data  # in this order, not drawn from it again
            for _ in training.epochs(scored=False):
                pass
            T = np.clip(measure_gates(training.net, data.train_x).T, 1e-6, 1 - 1e-6)  # (L, D)
            net.params["b_T"] = np.log(T / (1 - T))
        return net


GRID = {"setting": tuple(SETTINGS)}
train = partial(study_command.train, columns=("train_loss",))


def configure(fields: Mapping, cell: Cell, stage: Stage) -> GatesConfig:
    setting, of_arm = SETTINGS[fields["setting"]], {name: fields[name] for name in fields if name != "setting"}
    sizes = {"hidden": cell.hidden, "depth": cell.depth, "n_train": N_TRAIN, "n_scored": 10_000, "n_test": N_TEST}
    sizes["lr_decay"] = setting.lr_decay ** (LONG / EPOCHS)  # so that the rate ends where it did after LONG
    return GatesConfig(**{**asdict(setting), **sizes, **of_arm})


STUDY = Study(
    {
        HIGHWAY: Arm({"block": "highway"}, GRID),
        LEARNED: Arm({"block": "highway", "zero": "W_T"}, GRID),
        MEAN: Arm({"block": "highway", "zero": "W_T", "frozen": "b_T", "mean_gates": True}, GRID),
        UNTRAINED: Arm({"block": "highway", "frozen": "W_T,b_T"}, GRID),
        RESIDUAL: Arm({"block": "residual"}, GRID),
    },
    [Cell(kind, 50, 49) for kind in KINDS],
    stages=[Stage(SEEDS, EPOCHS, result="scored")],
    configure=configure,
    config=GatesConfig,
)


def judge_setting(leads: Sequence[Interval]) -> Verdict:
    """Judge "gates are computation" in one setting by highway's leads over the kinds of constants."""
    if all(lead.sign > 0 for lead in leads):
        return Verdict.REPRODUCED
    matched = any(lead.sign < 0 or judge(lead, ACCURACY_MARGIN) == "as good as" for lead in leads)
    return Verdict.NOT_REPRODUCED if matched else Verdict.INCONCLUSIVE


def numbers(results: Results) -> dict:
    """Return what the page quotes, by setting and kind: highway's leads in points of accuracy, and verdicts."""
    kinds = {cell.arm: results.settings(cell) for cell in results.study.cells}
    scores = {name: {kind: accuracies(kinds[kind][name,]) for kind in KINDS} for name in SETTINGS}
    lead = {name: {kind: difference(of[HIGHWAY], of[kind]) for kind in KINDS[1:]} for name, of in scores.items()}
    verdicts = {name: judge_setting([of[kind] for kind in CONSTANT]) for name, of in lead.items()}
    pairs = {name: of[HIGHWAY] - of[LEARNED] for name, of in scores.items()}
    together, relu = np.concatenate([*pairs.values()]), {kind: kinds[kind]["ReLU",] for kind in KINDS}
    learned, highway = (np.mean([run.history["train_loss"][-1] for run in relu[of]]) for of in (LEARNED, HIGHWAY))
    return {
        "lead": lead,
        "largest": max(of[kind].value for of in lead.values() for kind in CONSTANT),
        "verdicts": verdicts,
        "verdict": combine(verdicts.values()),
        "by_pairs": {name: interval(of) for name, of in pairs.items()} | {"all": interval(together)},
        "pairs": len(together),
        "loss_ratio": learned / highway,
        "diverged": sum(run.diverged for run in relu[RESIDUAL]),
        "share_trained": relu[LEARNED][0].n_trained / relu[HIGHWAY][0].n_trained,
        "depth": results.study.cells[0].depth,
    }
