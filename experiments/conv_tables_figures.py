"""Pictures, tables and claims of tables 1 and 2: what the nets reach here in a part of the paper's budget."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import FigureBase

from conv_highway_networks import NETS, ConvConfig
from figure_style import COLORS, draw_level, label_ends, markdown, pale, part_each, set_title
from reporting import final, name_data, name_tested
from run_log import Run

from .claims import Claim
from .common import group_by
from .conv_figures import FIELDS, Runs, draw_epochs
from .conv_tables import ConvTablesLog, Cost

BATCH = 100
DAY = 24 * 60 * 60  # seconds


class Reported(NamedTuple):
    """What the paper says of a net: layers, parameters, accuracy (%), its mean where one is given; epochs, steps.

    The epochs are those of the authors' released files.
    """

    layers: int
    parameters: str
    accuracy: str
    mean: float
    epochs: str
    steps: int


PAPER = {
    "mnist-16": Reported(10, "39 K", "99.43 (99.4 ± 0.03)", 99.4, "300", 180_000),
    "mnist-32": Reported(10, "151 K", "99.55 (99.54 ± 0.02)", 99.54, "300", 180_000),
    "highway-a": Reported(11, "236 K", "89.18", 89.18, "about 400", 200_000),
    "highway-b": Reported(19, "2.3 M", "92.46 (92.28 ± 0.16)", 92.28, "about 400", 200_000),
    "highway-c": Reported(32, "1.25 M", "91.20", 91.20, "about 400", 200_000),
}
FITNETS = {"FitNet A": (11, "250 K", "89.01"), "FitNet B": (19, "2.5 M", "91.61")}
