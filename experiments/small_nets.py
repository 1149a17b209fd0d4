"""How reliably does a small net learn with the article's settings?

The article of `gate_explorer` lets a visitor train nets of 20 units on scikit-learn's digits, one at a time, and leads
through NETS. One net proves little, so each is trained here with twenty seeds; the article draws them faintly behind
the visitor's own. Here NumPy draws weights and batches, there the page does. All else is the same. The settings were
chosen by looking at a few trials: they are examples and no comparison. A run that diverges counts as one that guesses.
"""

from functools import partial

from matplotlib.figure import Figure

from highway_lab.console import count_of
from highway_lab.figures import INK

from . import study_command
from .common import CHANCE
from .common_figures import minus, rows_figure
from .partly_frozen import ArmConfig
from .study import Arm, Cell, Results, Stage, Study, accuracies

DATASET = "digits"
UNITS, EPOCHS = 20, ArmConfig.epochs
SHARED = {"batch_size": 32, "n_train": 1437, "n_test": 360}  # all else is a visitor's choice
CARELESS = {"init": "uniform", "lr": 0.005}
NETS = (
    {"block": "plain", "depth": 5} | CARELESS,
    {"block": "plain", "depth": 50} | CARELESS,
    {"block": "plain", "depth": 20, "init": "glorot", "lr": 0.001},
    {"block": "plain", "depth": 50, "init": "glorot", "lr": 0.0005},
    {"block": "plain", "depth": 50, "init": "orthogonal", "lr": 0.001},
    {"block": "plain", "depth": 100, "init": "orthogonal", "lr": 0.0005},
    {"block": "highway", "depth": 50, "gate_bias": -4.0} | CARELESS,
    {"block": "highway", "depth": 50, "gate_bias": 0.0} | CARELESS,
    {"block": "plain", "depth": 1} | CARELESS,
)
WEIGHTS = {"uniform": "uniform", "glorot": "normalised", "orthogonal": "orthogonal"}


def name_net(block: str, depth: int, init: str, lr: float, gate_bias: float | None = None) -> str:
    bias = "" if gate_bias is None else f", b_T {minus(gate_bias)}"
    return f"{block}, {count_of(depth, 'block')}, {WEIGHTS[init]}{bias}, rate {lr:g}"


train = partial(study_command.train, columns=("test_score",))  # which the article draws
STUDY = Study(
    {
        name_net(**of): Arm({name: of[name] for name in of if name not in ("depth", "lr")}, {"lr": (of["lr"],)})
        for of in NETS
    },
    [Cell(name_net(**net), UNITS, net["depth"]) for net in NETS],
    stages=[Stage(range(20), EPOCHS, options=SHARED, result="scored")],
    own=lambda name, arm: Cell(name, UNITS, 50),
)


def numbers(results: Results) -> dict:
    """Return what the page quotes: accuracies in %, by net in the order of NETS."""
    found = [accuracies(runs) for runs in results.by_cell().values()]
    return {
        "mean": [of.mean() for of in found],
        "lowest": [min(of) for of in found],
        "highest": [max(of) for of in found],
        "seeds": {len(of) for of in found},
    }


def figure(results: Results) -> Figure:
    """Draw the test accuracy of each net: a faint dot is a seed, a bold one their mean."""
    rows = {cell.arm: accuracies(runs) for cell, runs in results.by_cell().items()}
    figure = rows_figure("Mending 50 plain blocks by tuning needs luck", rows, "test accuracy (%); dashed: guessing")
    figure.axes[0].axvline(100 * CHANCE, color=INK, linewidth=1, linestyle=(0, (3, 5)))
    figure.axes[0].set_xlim(0, 100)
    return figure


FIGURES = {"small_nets.png": figure}
