"""Figure 2: what do the gates of a trained 50-layer net look like?

The paper (section 4) shows, for its best 50-layer nets, 49 highway layers of 50 units: the transform-gate biases after
training, the mean T over the training set, and T and the outputs y for one random training sample. Measured here beside
the maps, over all training images: a gate is closed below T = 0.1, open above 0.5, and selective if it is open for some
samples and not for others; the change of a layer is the mean norm of y - x. Ours: layer 1 is at the top, so that
information flows downward.

The paper's sentences on MNIST are judged by section_4, on nets of its setting; none was trained on CIFAR-100. Of a
single net only the overview's sentence is judged here, that the gates of early layers tend to be open, by whichever
block has the most open gates. The rule, put in this form after the runs, asks for a mean T above a half. A single net
has no interval over seeds, so ONE_NET stands in its place: less than that above or below is inconclusive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from highway_lab.fields import Share, lists_of
from highway_lab.figures import differences, in_parts, set_title
from highway_lab.intervals import Interval
from highway_lab.logs import rounded_all
from highway_networks import Dataset, DeepNet, as_inputs, rounded

from ..claims import judge_better
from ..common_figures import SHOWN, draw_map, minus
from ..study import Results, StudyRun
from . import models
from .measurement import CLOSED, DIGITS, SEED, measure_gates
from .models import Look


@dataclass
class GateMaps(Look):
    """What is seen of a net: the maps of the figure, (L, D) each, and the share of gates that an image closes."""

    b_T: lists_of(float, "L", "D")
    mean_T: lists_of(float, "L", "D")
    sample_T: lists_of(float, "L", "D")
    sample_y: lists_of(float, "L", "D")
    closed: Share  # mean over all images


def measure(net: DeepNet, data: Dataset, common: Look) -> GateMaps:
    """Measure the gates on all training images, and draw one of them."""
    image = data.train_x[np.random.default_rng(SEED).integers(len(data.train_x))]
    _, cache = net.forward(as_inputs(image[None], net.dtype))
    activity = measure_gates(net, data.train_x)
    return GateMaps(
        **vars(common),
        b_T=rounded_all(net.params["b_T"]),  # in full: they may have moved little
        mean_T=rounded_all(activity.T, DIGITS),
        sample_T=rounded_all(cache.T[..., 0], DIGITS),
        sample_y=rounded_all(cache.x[1:, :, 0], DIGITS),
        closed=rounded(activity.closed.mean(), digits=4),
    )


DATASET, of_net = models.DATASET, models.of_net
train = partial(models.look, measure=measure)
STUDY = models.looks(GateMaps, "", "cifar-10", "paper")
ONE_NET = 10  # points: nets of one setting in runs/section_4.json differ by less from their mean


def numbers(results: Mapping[str, Results]) -> dict:
    """Return what the page quotes, by data set: the most open block, the verdict, gates closed at limits in %."""

    def found(run: StudyRun) -> dict:
        gates = np.array([run.measured.sample_T, run.measured.mean_T])  # (2, L, D)
        mean_T = gates[1].mean(axis=1)
        return {
            "most open": {"block": int(mean_T.argmax()) + 1, "mean T": float(mean_T.max())},
            "closed": {of: 100 * (gates < of).mean(axis=(1, 2)) for of in (CLOSED, 0.15)},
            "test_score": 100 * run.measured.score,
            "early gates are open": judge_better(Interval(100 * mean_T.max() - 50, ONE_NET), 0),
        }

    return {"of": {name: found(run) for name, run, _ in models.runs_of(results)}}


def draw_maps(part: FigureBase, shown: tuple[str, StudyRun, Results]) -> None:
    """Draw the four maps; above each stands the range of its colours, as it differs between nets."""
    _, run, results = shown
    seen = run.measured
    b_T, mean_T, sample_T, sample_y = map(np.array, (seen.b_T, seen.mean_T, seen.sample_T, seen.sample_y))
    start, mean_end = run.config.gate_bias, np.quantile(mean_T, SHOWN)
    moved = np.quantile(np.abs(b_T - start), SHOWN)
    outputs = differences(1) if run.config.activation == "tanh" else {"vmin": 0}
    panels = (
        (b_T, "bias", f"$b_T$; white: start, {minus(float(f'{start:.3g}'))}", differences(moved, start), "both"),
        (mean_T, "mean gate", "T, mean of all images", {"vmin": 0, "vmax": mean_end}, "max"),
        (sample_T, "gate, one image", "T", {"vmin": 0, "vmax": 1}, "neither"),
        (sample_y, "output, same image", "y", outputs, "neither"),
    )
    closed = f"{100 * seen.closed:.0f} % of the gates are closed for an image"
    set_title(part, f"{models.name_shown(run, results)}: {closed}")
    grid = part.subplots(ncols=len(panels), sharey=True)
    for axes, (values, title, label, style, extend) in zip(grid, panels, strict=True):
        image = draw_map(axes, values, **style)
        axes.set(title=f"{title}\n{' to '.join(minus(float(f'{of:.3g}')) for of in image.get_clim())}", xlabel="unit")
        bar = part.colorbar(image, ax=axes, location="bottom", aspect=12, extend=extend, label=label)
        bar.ax.xaxis.set_major_locator(MaxNLocator(2))
    grid[0].set_ylabel("block, from input to output")


FIGURES = {"fig2_gate_maps.png": lambda results: in_parts(draw_maps, models.runs_of(results), 4.7)}
