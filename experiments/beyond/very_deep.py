"""Section 2.2 and the blog, by Adam: how do 50 to 1,000 blocks do in minutes, and which gate biases work?

Two measurements: by depth, plain and highway, the latter from two biases; and by gate bias, which a blog (Fleming 2015)
asks for. Mean T after training shows whether the blocks do more than copy their input. `thousand_layers` trains by SGD,
as the paper does, on all images.
"""

from dataclasses import dataclass

from highway_lab.fields import NonEmpty, Share
from highway_lab.logs import Log, TrainedRun
from highway_lab.training import train_resumably
from highway_networks import Config, Dataset

from ..common import Experiment, ExperimentJob, fit

SEEDS = (0, 1, 2)
DEPTHS = (50, 100, 200, 500, 1000)
ARMS = (("highway", -6.0), ("highway", -20.0), ("plain", Config.gate_bias))  # block, gate bias
DEPTH_BUDGET = {"lr": 1e-3, "epochs": 10, "n_train": 10_000, "n_test": 2_000}
BIASES = (4.0, 2.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -10.0, -20.0, -40.0)
BIAS_DEPTHS = (20, 100)
BIAS_BUDGET = {"lr": 2e-3, "epochs": 12, "n_train": 6_000, "n_test": 2_000}


@dataclass
class Gates:
    """Mean T of each block after training; null where the run diverged."""

    mean_T: NonEmpty[Share | None]


DeepRun = TrainedRun[Config, Gates | None]  # null without gates


@dataclass
class VeryDeepLog(Log):
    by_depth: NonEmpty[DeepRun]
    by_bias: NonEmpty[DeepRun]


EXPERIMENT = Experiment(__name__, __doc__, VeryDeepLog)


def depth_configs(data: Dataset, smoke: bool) -> list[Config]:
    depths, seeds = ((5, 20), (0,)) if smoke else (DEPTHS, SEEDS)
    budget = fit(DEPTH_BUDGET, data, smoke)
    return [
        Config(block=block, depth=depth, gate_bias=bias, seed=seed, **budget)
        for depth in sorted(depths, reverse=True)
        for seed in seeds
        for block, bias in ARMS
    ]


def bias_configs(data: Dataset, smoke: bool) -> list[Config]:
    depths, seeds = ((5,), (0,)) if smoke else (BIAS_DEPTHS, SEEDS)
    budget = fit(BIAS_BUDGET, data, smoke)
    return [
        Config(depth=depth, gate_bias=bias, seed=seed, **budget)
        for depth in sorted(depths, reverse=True)
        for bias in BIASES
        for seed in seeds
    ]


def run_config(config: Config, data: Dataset) -> DeepRun:
    """Train one net, and keep the means of its gates after the last epoch."""
    run = train_resumably(config, data)
    return TrainedRun.of(config, run, run.gate_means and Gates(run.gate_means[-1]))


def run(job: ExperimentJob) -> None:
    by_depth = job.run_missing(run_config, depth_configs(job.data, job.smoke), DeepRun)
    by_bias = job.run_missing(run_config, bias_configs(job.data, job.smoke), DeepRun)
    job.keep(by_depth[0].config, by_depth=by_depth, by_bias=by_bias)


EXPERIMENT.add_run(run, "train all nets; resumable")
