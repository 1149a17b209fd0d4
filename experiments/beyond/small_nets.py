"""How surely does a small net learn that begins as the article suggests?

The article of `gate_explorer` lets a visitor train nets of 20 units on scikit-learn's digits, one at a time, and leads
through NETS. One net proves little, so each is trained here with twenty seeds; the article draws them faintly behind
the visitor's own. Here NumPy draws weights and batches, there the page does. All else is the same.
"""

from dataclasses import dataclass, replace

from highway_lab.fields import NonEmpty
from highway_lab.logs import Log, TrainedRun
from highway_networks import Config

from ..common import Experiment, ExperimentJob, fit

SEEDS = range(20)
SHARED = Config(hidden=20, batch_size=32, n_train=1437, n_test=360)  # all else but the epochs is what a visitor chooses
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

SmallRun = TrainedRun[Config, None]  # nothing was measured beside the history


@dataclass
class SmallNetsLog(Log):
    runs: NonEmpty[SmallRun]


EXPERIMENT = Experiment(__name__, __doc__, SmallNetsLog, ("digits",))


def run(job: ExperimentJob) -> None:
    budget = fit({name: getattr(SHARED, name) for name in ("epochs", "n_train", "n_test")}, job.data, job.smoke)
    seeds = SEEDS[:2] if job.smoke else SEEDS
    configs = [replace(SHARED, **net, **budget, seed=seed) for net in NETS for seed in seeds]
    job.keep(configs[0], runs=job.train(configs))


EXPERIMENT.add_run(run, "train all nets; resumable", dataset="digits")
