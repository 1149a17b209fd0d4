"""Does batch normalisation help a convolutional highway net, or a plain one?

The paper's nets have none: it appeared in the same year. A widely read implementation of the highway convolution puts
it between H's affine map and its activation. Here table 1's net of 16 maps has it or not, highway and plain, over three
seeds, with 20,000 images and 6 epochs. All four have the setting that table 1's nets have here; nothing was tuned.
"""

from conv_recipes import ConvConfig
from highway_lab.logs import RunLog
from highway_networks import Dataset

from ..common import Experiment, ExperimentJob
from ..conv_runs import FEW_EPOCHS, config_of, train_missing

NET = "mnist-16"
BLOCKS = ("highway", "plain")
SEEDS = (0, 1, 2)
BUDGET = {"epochs": 6, "n_train": 20_000, "n_test": 10_000}

EXPERIMENT = Experiment(__name__, __doc__, RunLog[ConvConfig])


def configs(data: Dataset, smoke: bool) -> list[ConvConfig]:
    """Return the runs of both kinds of block, without and with normalisation, with every seed."""
    return [
        config_of(data, NET, smoke, BUDGET, **FEW_EPOCHS, block=block, batch_norm=batch_norm, seed=seed)
        for seed in (SEEDS[:2] if smoke else SEEDS)
        for block in BLOCKS
        for batch_norm in (False, True)
    ]


def run(job: ExperimentJob) -> None:
    runs = train_missing(job, configs(job.data, job.smoke))
    job.keep(runs[0].config, runs=runs)


EXPERIMENT.add_run(run, "train all nets; resumable")
