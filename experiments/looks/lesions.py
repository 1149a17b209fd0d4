"""Figure 4: which layers of a trained 50-layer net matter, and how many can be closed?

The paper (section 4.2) lesions one layer of its best 50-layer net at a time, forcing all its gates to T = 0 so that it
copies its input, and measures the error on the full training set. Here the same for nets of one setting
beside the net of the depth search. Ours: a layer is idle if closing it changes the error by less than 0.1
percentage points. Beyond the paper: layers closed one after another from either end, and how many can be closed before
accuracy has fallen by one point. In blocks other than the paper's, too, a closed layer copies its input.

The paper's sentences on MNIST are judged by section_4, on nets of its setting; none was trained on CIFAR-100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import FigureBase

from highway_lab.console import name_data
from highway_lab.fields import Share, lists_of
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, in_parts, label_ends, set_title
from highway_lab.intervals import interval
from highway_lab.logs import rounded_all
from highway_networks import Dataset

from ..study import NetCell, Results, StudyRun, Task
from . import measurement, models
from .measurement import TIMES, idle_share, rises

SEEDS = (0, 1, 2)
TRAIN_EPOCHS = 20


@dataclass
class NetLesions:
    """Lesions of one net: errors on the training images, the last two on measurement.SET_IMAGES of them."""

    sha256: str | None  # of a net in a file
    errors: lists_of(Share, "L+1")  # with each layer closed and, last, with none
    closed_from_front: lists_of(Share, "L+1")  # with the first k layers closed, k = 0..L
    closed_from_back: lists_of(Share, "L+1")  # with the last k

    @property
    def score(self) -> float:
        """Accuracy on training images."""
        return 1 - self.errors[-1]


def train(task: Task, data: Dataset) -> StudyRun:
    """Load or train a net, and measure all lesions."""
    net, _, sha256 = models.obtain(task, data)
    errors = rounded_all(measurement.close_each(net, data.train_x, data.train_y))
    front, back = map(rounded_all, measurement.close_from_ends(net, data))
    lesions = NetLesions(sha256, errors, front, back)
    return StudyRun(None, task, net.params.flat.size, False, {}, lesions)


DATASET, of_net = models.DATASET, models.of_net
OURS = replace(models.BEST, **models.OF_MNIST, epochs=TRAIN_EPOCHS)
STUDY = {  # by the endings of their logs
    "": models.look_at(NetLesions, {NetCell(f"{len(SEEDS)} seeds"): OURS, models.MNIST: OURS}, SEEDS),
    **models.looks(NetLesions, "cifar-10"),
}


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes, by data set and group: shares of blocks and errors in %; a list is by net."""
    idle, named = 100 * measurement.IDLE, [(ending or "mnist", of) for ending, of in results.items()]

    def found(runs: list[StudyRun]) -> dict:
        nets = [run.measured for run in runs]
        return {
            "start": runs[0].config.gate_bias,
            "error": [100 * net.errors[-1] for net in nets],
            "idle": {times: interval([idle_share(net.errors, idle * times) for net in nets]) for times in TIMES},
            "costly": {40: [int(np.count_nonzero(rises(net.errors)[:40] > idle)) for net in nets]},
            "spared": {
                "from front": [measurement.count_spared(net.closed_from_front) for net in nets],
                "from back": [measurement.count_spared(net.closed_from_back) for net in nets],
            },
        }

    return {"of": {name: {cell.arm: found(runs) for cell, runs in of.by_cell().items()} for name, of in named}}


def draw_lesions(part: FigureBase, results: Results) -> None:
    """Draw by how much the error rises, by closed block, a curve a net; within the grey band a block is idle."""
    kinds, idle, axes = results.by_cell(), 100 * measurement.IDLE, part.subplots()
    for cell, runs in kinds.items():
        color = INK if cell.file else COLORS["highway"]
        draw_by_layer(axes, np.array([rises(run.measured.errors) for run in runs]), label=cell.arm, color=color)
    first, *_ = kinds.values()
    share = np.mean([idle_share(run.measured.errors, idle) for run in first])
    of_all = ", mean over seeds" * (len(first) > 1)
    set_title(part, f"{name_data(results.dataset.name)}: {share:.0f} % of the blocks are idle{of_all}")
    axes.axhline(0, color=FAINT_INK, linewidth=1, zorder=1)
    axes.axhspan(-idle, idle, color="#E4E4E4", linewidth=0, zorder=0)
    axes.set(xlabel="closed block", ylabel="rise in error (points)")
    label_ends(axes)


FIGURES = {"fig4_lesions.png": lambda results: in_parts(draw_lesions, [*results.values()], 3.2)}
