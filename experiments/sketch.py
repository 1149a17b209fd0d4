"""Do three remarks of the sketch that this project set out from hold: on ReLU, on the number of images, on the gates?

The sketch trains one net of each depth and kind on 6,000 images of MNIST, with tanh and one setting for all nets, which
is highway_networks.py's own; its numbers stand in depth_sweep.py. Beside them it makes three remarks, which are tested
here with ten seeds. A net trains if it reads more than LEARNED of the test images, twice what guessing gives; nets of
one kind train if at least nine of ten do, they do not if fewer than half do, and else the evidence does not decide.

- Plain nets with ReLU train at modest depth even without skips: whether plain ReLU nets of 10, 20 and 30 blocks train.
  Beside the sketch's weights stand He's, which are made for ReLU, as a question of ours.
- That highway nets of 30 blocks train where plain ones guess is a matter of depth, not of data. It holds if, on all
  60,000 images, highway nets of 30 blocks train, plain ones do not (at most one of ten does), and plain ones of 5 do.
- Lower blocks, those near the input, end with higher gates. It holds if the mean T of the first half of the blocks,
  minus that of the second half, lies above 0 (95 % interval over nets of 30 blocks), does not if it lies below, and
  else the evidence does not decide. On 6,000 images, as in the sketch; on all images it is a question of ours.

These rules were committed before a first run, but for what was added after it: He's weights, plain nets of 5 and 10
blocks on all images, and gates on 6,000 images, where the answer was known from the depth sweep. A net that diverged
has not trained, and has no gates.
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
RELU_DEPTHS, SHALLOW_DEPTHS, DEPTH = (10, 20, 30), (5, 10), 30
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


def plan(data: Dataset, smoke: bool) -> list[Config]:
    """Return the runs: every net for each seed."""
    few, many = (fit(budget, data, smoke) for budget in (FEW_IMAGES, ALL_IMAGES))
    relu = Config(block="plain", activation="relu", **few)
    nets = [replace(relu, init=init, depth=depth) for init in (Config.init, "he") for depth in RELU_DEPTHS]
    nets += [Config(depth=DEPTH, **budget) for budget in (few, many)]
    nets += [Config(block="plain", depth=depth, **many) for depth in (*SHALLOW_DEPTHS, DEPTH)]
    seeds = SEEDS[:2] if smoke else SEEDS
    return [replace(net, seed=seed) for net in dict.fromkeys(nets) for seed in seeds]  # smoke runs have one budget


def run(job: ExperimentJob) -> None:
    configs = plan(job.data, job.smoke)
    job.keep(configs[-1], runs=job.run_missing(run_config, configs, SketchRun))


EXPERIMENT.add_run(run, "train all nets; resumable")
