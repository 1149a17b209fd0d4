"""Does the sketch that this project set out from hold for ReLU, for all images, and for the gates?

The sketch trains one net of each depth and kind on 6,000 images of MNIST, with tanh and one setting for all nets, which
is highway_networks.py's own; its numbers stand in depth_sweep.py. Beside them it says three things that are tested here
in the same setting, with ten seeds:

- plain nets with ReLU train at modest depth even without skips. A net trains if it reads more than LEARNED of the test
  images, twice what guessing gives. The sentence holds at a depth where at least nine of ten nets train, does not where
  fewer than half do, and else the evidence does not decide;
- that highway nets of 30 blocks train where plain ones guess is a matter of depth, not of data. It holds if, on all
  60,000 images, at least nine of ten highway nets train and at most one plain net does, does not if fewer than half of
  the highway nets or more than half of the plain ones train, and else the evidence does not decide;
- lower blocks, those near the input, end with higher gates. It holds if the mean T of the first half of the blocks,
  minus that of the second half, lies above 0 (95 % interval over highway nets that saw all images), does not if it lies
  below, and else the evidence does not decide.

A net that diverged has not trained, and has no gates.
"""

from dataclasses import dataclass, replace

from highway_lab.fields import NonEmpty, Share
from highway_lab.logs import Log, TrainedRun, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import Config, Dataset

from .common import CHANCE, Experiment, ExperimentJob, fit

SEEDS = range(10)
LEARNED = 2 * CHANCE
RELU_DEPTHS, DEPTH = (10, 20, 30), 30
FEW_IMAGES = {"epochs": Config.epochs, "n_train": Config.n_train, "n_test": Config.n_test}
ALL_IMAGES = FEW_IMAGES | {"n_train": 60_000, "n_test": 10_000}
GATE_IMAGES = 1_000  # training images over which mean T is taken

SketchRun = TrainedRun[Config, list[Share] | None]  # mean T by block; null where the net has no gates, or diverged


@dataclass
class SketchLog(Log):
    """The log runs/sketch.json."""

    runs: NonEmpty[SketchRun]


EXPERIMENT = Experiment(__name__, __doc__, SketchLog)


def run_config(config: Config, data: Dataset) -> SketchRun:
    """Train one net, and measure its gates."""
    training = Training(config, data)
    with one_thread():
        for _ in training.epochs():
            pass
        gates = None
        if training.net.has_gates and not training.diverged:
            images = training.net.preprocess(training.data.train_x[:GATE_IMAGES])
            gates = numbers(training.net.gate_means(images), digits=4)
    return TrainedRun.of(config, training.so_far(), gates)


def run(job: ExperimentJob) -> None:
    seeds = SEEDS[:2] if job.smoke else SEEDS
    few, many = (fit(budget, job.data, job.smoke) for budget in (FEW_IMAGES, ALL_IMAGES))
    relu = [Config(block="plain", activation="relu", depth=depth, **few) for depth in RELU_DEPTHS]
    tanh = [Config(block=block, depth=DEPTH, **many) for block in ("highway", "plain")]
    configs = [replace(config, seed=seed) for config in (*relu, *tanh) for seed in seeds]
    job.keep(configs[-1], runs=job.run_missing(run_config, configs, SketchRun))


EXPERIMENT.add_run(run, "train all nets; resumable")
