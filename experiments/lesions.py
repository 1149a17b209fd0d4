"""Figure 4: which layers of a trained 50-layer net matter, and how many can go?

The paper (section 4.2) lesions one layer of its best 50-layer net at a time, forcing all its gates to T = 0 so that it
copies its input, and measures the error on the full training set. Its claims for MNIST: the error rises significantly
if any of the early layers is removed; layers 15 to 45 have close to no effect; about 60 % of the layers do not
contribute.

Here the same, error and loss, for three nets of one setting (seeds 0, 1, 2) beside the net of the depth search. Ours: a
layer counts as idle if closing it changes the error by less than 0.1 percentage points (the log has other thresholds,
too), as needed if the error rises by more than one point. Beyond the paper, on 10,000 training images: layers closed
one after another - from the back, from the front, those of least single loss first, and in ten random orders, the first
k of which are a random set of k layers - and how many can go before accuracy has fallen by one point.

    python -m experiments.lesions run --jobs 2           trains the three nets; may be stopped and started again
    python -m experiments.lesions run --model NET.npz    a net of your own
    python -m experiments.lesions plot
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import run_log
from highway_networks import Dataset, DeepNet, softmax_cross_entropy
from run_log import DatasetInfo, Environment, number, numbers

from . import models
from .command_line import Commands, add_plot_flags, load_data
from .models import Source
from .resumable import ResultFile, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "lesions"
FIGURES = ("fig4_lesions.png", "lesion_sets.png")
SEEDS = (0, 1, 2)
TRAIN_EPOCHS = 20
POINT = 0.01  # one percentage point of error
IDLE = 0.001  # a layer that changes the error by less is idle
IDLE_THRESHOLDS = (0.0001, 0.0002, 0.0005, IDLE, 0.002, 0.005, POINT)
SET_IMAGES = 10_000  # training images on which sets of layers are closed
SET_SEED = 0  # of these images and of the random orders
RANDOM_ORDERS = 10
PAPER_IDLE = 0.6  # share of the layers


@dataclass
class Closing:
    """Layers closed one after another, in one or several orders, on SET_IMAGES training images."""

    errors: list[list[float]]  # (orders, L+1): the first k layers closed, k = 0..L
    spared: list[int]  # by order: how many can go before accuracy has fallen by one point


@dataclass
class NetLesions:
    """What lesions do to one net; layers count from 1, errors are shares of the training images, losses in nats."""

    source: Source
    error: float
    loss: float
    lesioned_error: list[float]  # by layer closed
    lesioned_loss: list[float]
    idle_share: float
    idle: list[int]  # layers that change the error by less than each of IDLE_THRESHOLDS
    needed: list[int]  # layers whose closing raises the error by more than one point
    closings: dict[str, Closing]


@dataclass
class LesionsLog:
    """runs/lesions.json."""

    schema: int
    created: str
    command: str
    dataset: DatasetInfo
    environment: Environment
    idle_thresholds: list[float]
    set_images: int
    nets: list[NetLesions]


# ------------------------------------------------------------------------------------------- lesions


def lesion_each(net: DeepNet, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the logits (B, K) with layer l closed, l = 0..L-1, and last the unlesioned ones, given x_0 (B, D).

    A layer whose T is 0 passes its input on, so the net without it goes on from there: half a forward pass on average.
    """
    for l, (_, y) in enumerate(net.walk(x)):
        yield net.predict_from(x, l + 1)
        x = y
    yield net.predict_from(x, net.depth)


def predict_through(net: DeepNet, x: np.ndarray, layers: Iterable[int]) -> np.ndarray:
    """Logits (B, K) given x_0 (B, D) when these layers alone are open; all others pass their input on."""
    for l in layers:
        _, x = next(net.walk(x, l))
    return net.predict_from(x, net.depth)


def measure_layers(net: DeepNet, images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Error and mean loss with each layer closed and, last, with none, (L+1,) each; images (n, d_in), uint8."""
    wrong, loss = np.zeros((2, net.depth + 1))
    for part, x in models.in_batches(net, images, "lesions"):
        y = labels[part]
        for l, logits in enumerate(lesion_each(net, x)):
            wrong[l] += np.count_nonzero(logits.argmax(axis=1) != y)
            loss[l] += softmax_cross_entropy(logits, y)[0] * len(y)
    return wrong / len(labels), loss / len(labels)


def measure_order(net: DeepNet, images: np.ndarray, labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Error with the first k layers of an order closed, k = 0..L: (L+1,)."""
    wrong = np.zeros(net.depth + 1)
    for part, x in models.in_batches(net, images, "sets of layers"):
        for k in range(net.depth + 1):
            logits = predict_through(net, x, np.sort(order[k:]))
            wrong[k] += np.count_nonzero(logits.argmax(axis=1) != labels[part])
    return wrong / len(labels)


def closing_orders(lesioned_loss: np.ndarray) -> dict[str, list[np.ndarray]]:
    """In which orders to close the layers, given the loss with each of them closed, (L,)."""
    layers, rng = np.arange(len(lesioned_loss)), np.random.default_rng(SET_SEED)
    return {
        "last first": [layers[::-1]],
        "first first": [layers],
        "least loss first": [np.argsort(lesioned_loss, kind="stable")],
        "random": [rng.permutation(layers) for _ in range(RANDOM_ORDERS)],
    }


def count_spared(errors: np.ndarray) -> int:
    """How many layers of an order can go before accuracy has fallen by one point; `errors` is (L+1,)."""
    fallen = errors >= errors[0] + POINT
    return int(fallen.argmax()) - 1 if fallen.any() else len(errors) - 1


def examine(source: Source, data: Dataset) -> NetLesions:
    """Load or train the net, and measure all lesions."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        net = models.obtain(source, data)
        error, loss = measure_layers(net, data.train_images, data.train_labels)
        chosen = np.random.default_rng(SET_SEED).permutation(len(data.train_images))[:SET_IMAGES]
        images, labels = data.train_images[chosen], data.train_labels[chosen]
        closings = {}
        for name, orders in closing_orders(loss[:-1]).items():
            errors = np.array([measure_order(net, images, labels, order) for order in orders])
            closings[name] = Closing(numbers(errors), [count_spared(row) for row in errors])
    rise = error[:-1] - error[-1]
    idle = [int(np.count_nonzero(np.abs(rise) < threshold)) for threshold in IDLE_THRESHOLDS]
    return NetLesions(
        source=source,
        error=number(error[-1]),
        loss=number(loss[-1]),
        lesioned_error=numbers(error[:-1]),
        lesioned_loss=numbers(loss[:-1]),
        idle_share=number(idle[IDLE_THRESHOLDS.index(IDLE)] / net.depth),
        idle=idle,
        needed=(np.flatnonzero(rise > POINT) + 1).tolist(),
        closings=closings,
    )


# ---------------------------------------------------------------------------------------------- log


def plan(arguments: argparse.Namespace, dataset: str, data: Dataset) -> list[Source]:
    """The nets to examine: that of --model, or one for each seed and that of the depth search if it is there."""
    if arguments.model:
        return [models.of_file(arguments.model, data)]
    found = models.found_net(dataset, arguments.smoke)
    settings = [
        models.setting(dataset, data, smoke=arguments.smoke, epochs=TRAIN_EPOCHS, seed=seed)
        for seed in SEEDS[: 2 if arguments.smoke else None]
    ]
    trained = [models.of_training(config, NAME, dataset) for config in settings]
    return [*([models.of_file(found, data)] if found else []), *trained]


def read_log(path: str | Path) -> LesionsLog:
    """Read and check a log of this experiment; raises InputError."""
    return run_log.read(path, LesionsLog, f"make it with python -m experiments.{NAME} run")


def run_command(arguments: argparse.Namespace) -> None:
    """Examine the nets that have not been examined yet, and write the log."""
    dataset, data = load_data(arguments)
    sources = plan(arguments, dataset, data)
    path = models.prepare_log(NAME, dataset, arguments.smoke, sources[0])
    nets = finish(
        examine,
        sources,
        data,
        ResultFile(path.with_suffix(".jsonl"), NetLesions),
        key=lambda item: getattr(item, "source", item),
        command=arguments.command_line,
        jobs=arguments.jobs,
    )
    log = LesionsLog(
        schema=run_log.SCHEMA,
        created=run_log.now(),
        command=arguments.command_line,
        dataset=DatasetInfo(dataset, len(data.train_images), len(data.test_images)),
        environment=run_log.environment(threads=1),
        idle_thresholds=list(IDLE_THRESHOLDS),
        set_images=min(SET_IMAGES, len(data.train_images)),
        nets=nets,
    )
    run_log.write(path, log)
    print(f"{summary(log)}\nsaved {path}")


def summary(log: LesionsLog) -> str:
    """One line a net."""
    orders = list(log.nets[0].closings)
    lines = [f"{'net':<22}{'error':>8}{'idle':>7}{'needed':>8}   can go: {', '.join(orders)}"]
    for net in log.nets:
        spared = ", ".join(f"{np.mean(net.closings[name].spared):.1f}" for name in orders)
        lines.append(
            f"{net.source.label:<22}{net.error:>8.2%}{net.idle_share:>7.0%}{len(net.needed):>8}   {spared} "
            f"of {len(net.lesioned_error)}"
        )
    return "\n".join([*lines, f"the paper's net: about {PAPER_IDLE:.0%} idle"])


# ----------------------------------------------------------------------------------------- pictures


def plot_command(arguments: argparse.Namespace) -> None:
    """Draw figure 4, and what closing sets of layers does."""
    from figure_style import save

    log = read_log(arguments.log)
    for name, figure in zip(FIGURES, (lesions_figure(log), sets_figure(log)), strict=True):
        path = models.figure_path(name, log.dataset.name, log.nets[0].source)
        save(figure, path, arguments.log)
        print(f"drew {path}")


def groups(log: LesionsLog) -> dict[str, list[NetLesions]]:
    """The nets trained here, which differ by their seed alone, and those that came from a file."""
    trained = [net for net in log.nets if net.source.training]
    kinds = {f"{len(trained)} seeds": trained} if trained else {}
    return kinds | {net.source.label: [net] for net in log.nets if not net.source.training}


def lesions_figure(log: LesionsLog) -> "Figure":
    """Error, and loss, against the layer that is closed; dashed where none is."""
    from matplotlib.ticker import NullFormatter

    from figure_style import COLORS, INK, draw_seeds, label_ends, new_figure, number_layers

    title = f"Training set with one layer closed: {models.name_data(log.dataset.name)}"
    figure, panels = new_figure(title, 6.0, nrows=2, sharex=True)
    for axes, field, factor in zip(panels, ("error", "loss"), (100, 1), strict=True):
        for (name, nets), color in zip(groups(log).items(), (COLORS["highway"], INK), strict=False):
            curves = factor * np.array([getattr(net, f"lesioned_{field}") for net in nets])
            layers = np.arange(1, curves.shape[1] + 1)
            draw_seeds(axes, layers, curves, label=name, color=color)
            level = factor * np.mean([getattr(net, field) for net in nets])
            axes.axhline(level, color=color, linewidth=1, linestyle=(0, (3, 5)), label="none closed")
        axes.set_xlim(1, layers[-1])
        number_layers(axes.xaxis, layers[-1])
    panels[0].set_title("error (%)")
    panels[0].set_ylim(bottom=0)
    decades = np.log10(panels[1].dataLim.intervaly)
    panels[1].set(title="mean loss (nats)", yscale="log", xlabel="closed layer")
    panels[1].set_ylim(10 ** np.floor(decades[0]), 10 ** np.ceil(decades[1]))
    panels[1].yaxis.set_minor_formatter(NullFormatter())
    for axes in panels:
        label_ends(axes)
    return figure


def sets_figure(log: LesionsLog) -> "Figure":
    """Error against the number of closed layers, a curve for each order, a panel for each group of nets."""
    from figure_style import COLORS, draw_seeds, new_figure

    kinds = groups(log)
    title = f"{log.set_images:,} training images with several layers closed: {models.name_data(log.dataset.name)}"
    figure, panels = new_figure(title, 4.2, ncols=len(kinds), sharey=True, squeeze=False)
    for axes, (name, nets) in zip(panels[0], kinds.items(), strict=True):
        for order, color in zip(nets[0].closings, COLORS.values(), strict=True):
            errors = 100 * np.concatenate([net.closings[order].errors for net in nets])
            draw_seeds(axes, np.arange(errors.shape[1]), errors, label=order, color=color)
        axes.set(title=name, xlabel="closed layers", xlim=(0, errors.shape[1] - 1))
    panels[0, 0].set(ylabel="error (%)", ylim=(0, None))
    panels[0, 0].legend(frameon=False, loc="upper left")  # all curves end in the same net, without any layer
    return figure


def commands() -> Commands:
    """The experiment's sub-commands."""
    commands = Commands(NAME, __doc__.splitlines()[0])
    models.add_model_flags(commands.add("run", run_command, "lesion nets; resumable"))
    add_plot_flags(commands.add("plot", plot_command, "draw the figures from the log"), NAME)
    return commands


if __name__ == "__main__":
    from experiments import lesions  # not as __main__, whose functions and classes workers cannot import

    sys.exit(lesions.commands().main())
