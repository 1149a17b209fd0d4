"""Figure 2: what do the gates of a trained 50-layer net look like?

The paper (section 4) shows, for its best 50-layer nets, 49 highway layers x 50 blocks: the transform-gate biases after
training, the mean T over the training set, and T and the block outputs for one random training sample. Its claims: most
biases decreased during training, which makes the gates selective rather than shut; the gates of a single sample are
sparse; most outputs stay constant over many layers, a pattern of stripes, and most of the change happens in about the
first 15 layers (MNIST).

Measured here beside the maps, over all training images: a gate is closed below T = 0.1 and open above 0.5; a gate is
selective if it is open for some samples and not for others; the change of a layer is the mean norm of y - x.
Ours: layer 1 is at the top, so that information flows downward; the colours of the biases are centred on their initial
value and cover 99.5 % of them. T is drawn from 0 to 1 as in the paper, block outputs over the range of the activation.

    python -m experiments.gate_maps run                    the net of the depth search
    python -m experiments.gate_maps run --model NET.npz    a net of your own
    python -m experiments.gate_maps plot
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import run_log
from highway_networks import DeepNet, scale
from run_log import DatasetInfo, Environment, number, numbers

from . import models
from .command_line import Commands, add_plot_flags, load_data
from .models import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "gate_maps"
FIGURES = ("fig2_gate_maps.png",)
SAMPLE_SEED = 0
CLOSED, OPEN = 0.1, 0.5  # T below, T above
MOST = 0.9  # of the change in block outputs
RARE = 0.01  # share of samples; a gate that is open for fewer, or closed for fewer, is all but constant
DIGITS = 3  # significant ones, in the maps


@dataclass
class Maps:
    """What the figure shows, each (L, D)."""

    b_T: list[list[float]]
    mean_T: list[list[float]]
    sample_T: list[list[float]]
    sample_y: list[list[float]]


@dataclass
class Claims:
    """What the paper says, measured; shares are of gates, layers count from 1, correlations are Pearson's."""

    biases_decreased: float
    closed_for_a_sample: float  # mean over samples
    closed_in_the_mean: float  # share of gates whose mean T is that low
    mean_T: float
    ever_open: float
    selective: float  # open for some samples, not for all
    selective_beyond_rare: float  # open for at least 1 % of the samples and not for at least 1 %
    change: list[float]  # mean norm of y - x, by layer
    layer_of_most_change: int  # by which MOST of the sum of `change` has happened
    sample_layer_of_most_change: int
    bias_and_mean_T: float | None  # correlation over layers, of the layers' means
    bias_and_layer: float | None
    bias_and_mean_T_by_gate: float | None  # correlation over all gates


@dataclass
class GateMapsLog:
    """runs/gate_maps.json; `sample` is an index into the training images, `label` its class."""

    schema: int
    created: str
    command: str
    dataset: DatasetInfo
    environment: Environment
    model: Model
    sample: int
    label: int
    maps: Maps
    claims: Claims


# ---------------------------------------------------------------------------------------- measuring


class Activity(NamedTuple):
    """Means over samples: T, how often a gate was closed and open, each (L, D), and the norm of y - x, (L,)."""

    T: np.ndarray
    closed: np.ndarray
    open: np.ndarray
    change: np.ndarray


def measure(net: DeepNet, images: np.ndarray) -> Activity:
    """Activity of all gates over images (n, d_in), uint8, a batch at a time."""
    T_sum, closed, opened = np.zeros((3, net.depth, net.hidden))
    change = np.zeros(net.depth)
    for _, x in models.in_batches(net, images, "gates"):
        for l, ((_, T), y) in enumerate(net.walk(x)):
            T_sum[l] += T.sum(axis=0, dtype=np.float64)
            closed[l] += np.count_nonzero(T < CLOSED, axis=0)
            opened[l] += np.count_nonzero(T > OPEN, axis=0)
            change[l] += np.linalg.norm(y - x, axis=1).sum(dtype=np.float64)
            x = y
    return Activity(*(total / len(images) for total in (T_sum, closed, opened, change)))


def look_at(net: DeepNet, image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T and block outputs (L, D) of one image (d_in,), uint8, and the norm of y - x of each layer (L,)."""
    _, cache = net.forward(scale(image[None], net.dtype))
    x = cache.x[:, 0]
    return cache.T[:, 0], x[1:], np.linalg.norm(np.diff(x, axis=0), axis=1)


def layer_of_most(change: np.ndarray) -> int:
    """The layer, counted from 1, by which MOST of the total change has happened."""
    total = np.cumsum(change)
    return int(np.searchsorted(total, MOST * total[-1])) + 1


def correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Pearson's; None if either is constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return number(np.corrcoef(a.ravel(), b.ravel())[0, 1], digits=3)


def check_claims(net: DeepNet, activity: Activity, sample_change: np.ndarray) -> Claims:
    """Every number that stands beside a claim of the paper."""
    b_T = net.params["b_T"]
    mean_bias, mean_T = b_T.mean(axis=1), activity.T.mean(axis=1)

    def share(of: np.ndarray) -> float:
        return number(of.mean(), digits=4)

    return Claims(
        biases_decreased=share(b_T < net.config["gate_bias"]),
        closed_for_a_sample=share(activity.closed),
        closed_in_the_mean=share(activity.T < CLOSED),
        mean_T=share(activity.T),
        ever_open=share(activity.open > 0),
        selective=share((activity.open > 0) & (activity.open < 1)),
        selective_beyond_rare=share((activity.open >= RARE) & (activity.open <= 1 - RARE)),
        change=numbers(activity.change, DIGITS),
        layer_of_most_change=layer_of_most(activity.change),
        sample_layer_of_most_change=layer_of_most(sample_change),
        bias_and_mean_T=correlation(mean_bias, mean_T),
        bias_and_layer=correlation(mean_bias, np.arange(net.depth)),
        bias_and_mean_T_by_gate=correlation(b_T, activity.T),
    )


# ---------------------------------------------------------------------------------------------- log


def read_log(path: str | Path) -> GateMapsLog:
    """Read and check a log of this experiment; raises InputError."""
    return run_log.read(path, GateMapsLog, f"make it with python -m experiments.{NAME} run")


def run_command(arguments: argparse.Namespace) -> None:
    """Look into the net and write the log."""
    from threadpoolctl import threadpool_limits

    dataset, data = load_data(arguments)
    source = models.choose(arguments, dataset, data)
    path = models.prepare_log(NAME, dataset, arguments.smoke, source)
    with threadpool_limits(1):
        net = models.obtain(source, data)
        model = models.describe(source, net, data)
        activity = measure(net, data.train_images)
        sample = int(np.random.default_rng(SAMPLE_SEED).integers(len(data.train_images)))
        sample_T, sample_y, sample_change = look_at(net, data.train_images[sample])
    log = GateMapsLog(
        schema=run_log.SCHEMA,
        created=run_log.now(),
        command=arguments.command_line,
        dataset=DatasetInfo(dataset, len(data.train_images), len(data.test_images)),
        environment=run_log.environment(threads=1),
        model=model,
        sample=sample,
        label=int(data.train_labels[sample]),
        maps=Maps(
            b_T=numbers(net.params["b_T"]),  # in full: they may have moved little
            mean_T=numbers(activity.T, DIGITS),
            sample_T=numbers(sample_T, DIGITS),
            sample_y=numbers(sample_y, DIGITS),
        ),
        claims=check_claims(net, activity, sample_change),
    )
    run_log.write(path, log)
    print(f"{summary(log)}\nsaved {path}")


def summary(log: GateMapsLog) -> str:
    """The claims in words."""
    c = log.claims
    return f"""{models.summary(log.model)}
biases that decreased: {c.biases_decreased:.1%}
gates with T < {CLOSED}: {c.closed_for_a_sample:.1%} for a sample, {c.closed_in_the_mean:.1%} in the mean
gates open for some samples but not for all: {c.selective:.1%}, beyond {RARE:.0%} of them: {c.selective_beyond_rare:.1%}
{MOST:.0%} of the change by layer {c.layer_of_most_change}, the one sample's by layer {c.sample_layer_of_most_change}
correlation of bias and mean T over layers: {c.bias_and_mean_T}"""


# ------------------------------------------------------------------------------------------ picture


def plot_command(arguments: argparse.Namespace) -> None:
    """Draw figure 2."""
    from figure_style import save

    log = read_log(arguments.log)
    path = models.figure_path(FIGURES[0], log.dataset.name, log.model.source)
    save(gate_maps(log), path, arguments.log)
    print(f"drew {path}")


def gate_maps(log: GateMapsLog) -> "Figure":
    """The four maps, layer 1 at the top."""
    from figure_style import differences, new_figure, number_layers

    maps = {name: np.array(values) for name, values in vars(log.maps).items()}
    initial = log.model.net["gate_bias"]
    moved = differences(np.quantile(np.abs(maps["b_T"] - initial), models.SHOWN))
    moved["norm"].vcenter = initial
    outputs = differences(np.array(1)) if log.model.net["activation"] == "tanh" else {"vmin": 0}
    panels = (
        ("b_T", "bias after training", moved, "both"),
        ("mean_T", "mean T", {"vmin": 0, "vmax": 1}, "neither"),
        ("sample_T", f"T, one sample (a {log.label})", {"vmin": 0, "vmax": 1}, "neither"),
        ("sample_y", "its block outputs", outputs, "neither"),
    )
    title = f"Gates by layer and block: {models.name_data(log.dataset.name)}"
    figure, axes = new_figure(title, 4.4, ncols=4, sharey=True)
    depth, width = maps["b_T"].shape
    for ax, (name, label, style, extend) in zip(axes, panels, strict=True):
        extent = (0.5, width + 0.5, depth + 0.5, 0.5)
        cells = ax.imshow(maps[name], aspect="auto", interpolation="nearest", extent=extent, **style)
        ax.set_title(label)
        ax.set_xlabel("block")
        number_layers(ax.xaxis, width)
        figure.colorbar(cells, ax=ax, location="bottom", aspect=12, extend=extend).ax.tick_params(labelsize=9)
    number_layers(axes[0].yaxis, depth)
    axes[0].set_ylabel("layer, from input to output")
    return figure


def commands() -> Commands:
    """The experiment's sub-commands."""
    commands = Commands(NAME, __doc__.splitlines()[0])
    models.add_model_flags(commands.add("run", run_command, "look into a net"))
    add_plot_flags(commands.add("plot", plot_command, "draw the figure from the log"), NAME)
    return commands


if __name__ == "__main__":
    sys.exit(commands().main())
