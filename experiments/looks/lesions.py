"""Figure 4: which layers of a trained 50-layer net matter, and how many can be closed?

The paper (section 4.2) lesions one layer of its best 50-layer net at a time, forcing all its gates to T = 0 so that it
copies its input, and measures the error on the full training set. Here the same, error and loss, for nets of one
setting beside the net of the depth search. Ours: a layer is idle if closing it changes the error by less than 0.1
percentage points. Beyond the paper: layers closed one after another from either end, and how many can be closed before
accuracy has fallen by one point. In blocks other than the paper's, too, a closed layer copies its input.

The paper's sentences on MNIST are judged by section_4, on nets of its setting; none was trained on CIFAR-100.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import FigureBase

from highway_lab.console import name_data
from highway_lab.fields import Count, NonEmpty, Share, lists_of
from highway_lab.figures import COLORS, FAINT_INK, INK, draw_by_layer, label_ends, part_each, set_title
from highway_lab.intervals import interval
from highway_lab.logs import Log, Result, rounded_all
from highway_lab.threads import one_thread
from highway_networks import Dataset, rounded

from ..common import Experiment, ExperimentJob
from . import measurement, models
from .measurement import TIMES, idle_share, rises
from .models import Source

SEEDS = (0, 1, 2)
TRAIN_EPOCHS = 20
ORDERS = {"last first": -1, "first first": 1}  # in which layers are closed: steps through them


@dataclass
class Closing:
    """Layers closed one after another, in one or several orders, on measurement.SET_IMAGES training images."""

    errors: lists_of(Share, "orders", "L+1")  # the first k layers closed, k = 0..L
    # By order: layers that can be closed before accuracy has fallen by one point.
    spared: lists_of(Count, "orders")


@dataclass
class NetLesions(Result):
    """Lesions of one net; layers count from 1, errors are shares of the training images, losses are in nats."""

    source: Source
    error: Share
    loss: float
    lesioned_error: lists_of(Share, "L")  # by layer closed
    lesioned_loss: lists_of(float, "L")
    idle_share: Share
    closings: dict[str, Closing]  # by ORDERS; in the committed logs others, too
    unread = ("idle", "needed")


@dataclass
class LesionsLog(Log):
    """runs/lesions.json; `idle` is the threshold of idle_share, `point` that of spared layers."""

    idle: float
    point: float
    set_images: Count
    nets: NonEmpty[NetLesions]
    unread = ("idle_thresholds",)


EXPERIMENT = Experiment(__name__, __doc__, LesionsLog, tuple(models.NETS), nets=models.NETS)


def examine(source: Source, data: Dataset) -> NetLesions:
    """Load or train a net, and measure all lesions."""
    with one_thread():
        net = models.obtain(source, data)
        error, loss, _ = measurement.close_each(net, data.train_x, data.train_y)
        closings = {}
        for name, step in ORDERS.items():
            errors = measurement.close_in_order(net, *measurement.closing_images(data), np.arange(net.depth)[::step])
            closings[name] = Closing([rounded_all(errors)], [measurement.count_spared(errors)])
    return NetLesions(
        None,
        source=source,
        error=rounded(error[-1]),
        loss=rounded(loss[-1]),
        lesioned_error=rounded_all(error[:-1]),
        lesioned_loss=rounded_all(loss[:-1]),
        idle_share=rounded(np.mean(np.round(np.abs(error[:-1] - error[-1]), 9) < measurement.IDLE)),
        closings=closings,
    )


def plan(job: ExperimentJob) -> list[Source]:
    """Return the nets to lesion: that of --model, or that of NETS if it is there, and one a seed."""
    found, flags = models.find_net(job), job.arguments
    seeds = () if flags.model or (flags.alone and found) else SEEDS[: 2 if job.smoke else None]
    trained = [models.from_training(EXPERIMENT.name, job, epochs=TRAIN_EPOCHS, seed=seed) for seed in seeds]
    return [found, *trained] if found else trained


def run(job: ExperimentJob) -> None:
    sources = plan(job)
    job = job.named_after(job.arguments.model)
    job.keep(
        idle=measurement.IDLE,
        point=measurement.POINT,
        set_images=min(measurement.SET_IMAGES, len(job.data.train_x)),
        nets=job.run_missing(examine, sources, NetLesions),
    )


parser = models.add_run(EXPERIMENT, run, "lesion nets; resumable")
parser.add_argument("--alone", action="store_true", help="lesion the best net alone, if it is there")


# ---------------------------------------------------------------------------------------- what was found


def groups(log: LesionsLog) -> dict[str, list[NetLesions]]:
    """Return the nets trained here, which share a setting, and each net from a file."""
    trained = [net for net in log.nets if net.source.training]
    kinds = {f"{len(trained)} seeds": trained} if trained else {}
    return kinds | {  # a $ would begin mathematics
        Path(net.source.file).stem.replace("$", r"\$"): [net] for net in log.nets if not net.source.training
    }


def numbers(*logs: LesionsLog) -> dict:
    """Return what the page quotes, by data set and group: shares of blocks and errors in %; a list is by net."""
    idle = 100 * logs[0].idle

    def found(nets: list[NetLesions]) -> dict:
        return {
            "start": nets[0].source.training and nets[0].source.training.gate_bias,
            "error": [100 * net.error for net in nets],
            "idle": {times: interval([idle_share(net, idle * times) for net in nets]) for times in TIMES},
            "costly": {40: [int(np.count_nonzero(rises(net)[:40] > idle)) for net in nets]},
            "spared": {order: [net.closings[order].spared[0] for net in nets] for order in ORDERS},
        }

    by_group = {log.dataset.name: groups(log).items() for log in logs}
    return {"of": {data: {name: found(nets) for name, nets in kinds} for data, kinds in by_group.items()}}


@part_each(height=3.2)
def lesions_figure(part: FigureBase, log: LesionsLog) -> None:
    """Draw by how much the error rises, by closed block, a curve a net; within the grey band a block is idle."""
    kinds, idle, axes = groups(log), 100 * log.idle, part.subplots()
    for name, nets in kinds.items():
        color = COLORS["highway"] if nets[0].source.training else INK
        draw_by_layer(axes, np.array([rises(net) for net in nets]), label=name, color=color)
    first, *_ = kinds.values()
    share, of_all = np.mean([idle_share(net, idle) for net in first]), ", mean over seeds" * (len(first) > 1)
    set_title(part, f"{name_data(log.dataset.name)}: {share:.0f} % of the blocks are idle{of_all}")
    axes.axhline(0, color=FAINT_INK, linewidth=1, zorder=1)
    axes.axhspan(-idle, idle, color="#E4E4E4", linewidth=0, zorder=0)
    axes.set(xlabel="closed block", ylabel="rise in error (points)")
    label_ends(axes)


FIGURES = {"fig4_lesions.png": lesions_figure}
