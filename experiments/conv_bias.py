"""Section 2.2: which gate bias suits a convolutional net of 10, of 20, of 30 layers?

The paper suggests b_T = -1, -2 and -3 for about these depths, "as a general guideline", and shows no numbers for it.
Here every bias is tried at every depth, on table 1's net and two deeper ones of the same kind, beside plain nets. Runs
of one seed share images, batches and the weights' random numbers, so biases are compared seed by seed.

Three seeds show little. With --new-seeds, ten others at the two greater depths, where nets may fail to learn.
"""

from collections.abc import Iterable, Sequence

from conv_recipes import ConvConfig
from highway_lab.logs import RunLog
from highway_networks import Dataset

from .common import Experiment, ExperimentJob
from .conv_runs import FEW_EPOCHS, config_of, train_missing

NETS = {10: "mnist-8", 20: "mnist-8-20", 30: "mnist-8-30"}  # by number of layers: the first, the blocks, the dense one
GUIDELINE = {10: -1.0, 20: -2.0, 30: -3.0}
BIASES = (-1.0, -2.0, -3.0)
SEEDS = (0, 1, 2)
NEW_DEPTHS, NEW_SEEDS = (20, 30), range(3, 13)
BUDGET = {"epochs": 8, "n_train": 10_000, "n_test": 10_000}

EXPERIMENT = Experiment(__name__, __doc__, RunLog[ConvConfig], more={"new-seeds": "run --new-seeds"})


def layers(config: ConvConfig) -> int:
    """Return the depth as the paper counts it: the convolution, the blocks and the dense layer."""
    return config.depth + 2


def configs(data: Dataset, smoke: bool, depths: Iterable[int] = NETS, seeds: Sequence[int] = SEEDS) -> list[ConvConfig]:
    """Return all runs, the deepest first."""
    depths, seeds = ((10, 20), seeds[:2]) if smoke else (depths, seeds)
    arms = [*({"gate_bias": bias} for bias in BIASES), {"block": "plain"}]
    return [
        config_of(data, NETS[depth], smoke, BUDGET, **FEW_EPOCHS, **arm, seed=seed)
        for depth in sorted(depths, reverse=True)
        for seed in seeds
        for arm in arms
    ]


def run(job: ExperimentJob) -> None:
    new = job.arguments.new_seeds
    job = job.for_more("new-seeds") if new else job
    runs = train_missing(job, configs(job.data, job.smoke, *((NEW_DEPTHS, NEW_SEEDS) if new else ())))
    job.keep(runs[0].config, runs=runs)


parser = EXPERIMENT.add_run(run, "train all nets; resumable")
parser.add_argument("--new-seeds", action="store_true", help="ten other seeds at 20 and 30 layers")
