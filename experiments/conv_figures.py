"""What the figures and tables of convolutional nets share: curves by epoch, differences seed by seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from conv_recipes import ConvConfig
from highway_lab.figures import draw_seeds
from highway_lab.logs import Run

from .common import curve, final_values

Runs = Sequence[Run[ConvConfig]]
FIELDS = {"validation_score": "error on held-out images (%)", "train_loss": "training loss"}


def draw_epochs(axes: Axes, field: str, arms: Mapping[str, tuple[dict[str, Any], Runs]]) -> None:
    """Draw a field of FIELDS after each epoch, log scale, one line for each label: its style and its runs.

    The caller labels the lines, as panels that share an axis change one another's heights.
    """
    for label, (style, runs) in arms.items():
        values = np.array([curve(run, field)[1:] for run in runs])
        if field == "validation_score":
            values = np.maximum(100 * (1 - values), 50 / runs[0].config.n_validation)  # none wrong is half an image
        draw_seeds(axes, np.arange(1, values.shape[1] + 1), values, label=label, **style)
    axes.set(xlabel="epoch", title=FIELDS[field])
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    scale_by_logarithm(axes)


def scale_by_logarithm(axes: Axes) -> None:
    """Set a logarithmic scale for errors or losses, with plain numbers beside it."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def gains(runs: Runs, others: Runs) -> np.ndarray:
    """Return the points of test accuracy gained over others of the same seeds, (seeds,); NaN where one diverged."""
    own, theirs = (
        dict(zip((run.config.seed for run in of), final_values(of, "test_score"), strict=True)) for of in (runs, others)
    )
    return 100 * np.array([own[seed] - theirs[seed] for seed in own if seed in theirs])
