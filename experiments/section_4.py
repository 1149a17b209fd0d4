"""Section 4 on nets like the paper's: do figures 2 to 4 hold for tanh nets from b_T -2 and -4, beside the ReLU net?

The paper's section 4 looks into two nets, the best of its searches: tanh from b_T -2 for MNIST, tanh from b_T -4 for
CIFAR-100. Here tanh nets from both biases stand beside ReLU nets of the best setting of an earlier search of four
epochs. Beside each net stands the one that its training began with, which shows what a bias and chance do without
learning. All is measured on all training images. Ours: the change of a layer is the mean norm of y - x; its class
difference is the mean |mean T of a class - mean T of all|, over classes and units. A layer is idle by the error if
closing it changes the error by less than 0.1 points; by the loss if closing it raises the loss by less than 1 % of what
closing the costliest layer does; by flips if closing it changes the prediction of fewer than 0.1 % of the images. The
error of an untrained net is close to chance whatever is closed, so flips are the measure for it.

With --searched: the tanh setting of the lowest training loss in the search of depth_search for 50 layers, trained from
ten seeds, for the search's 40 epochs. (The paper's search chose the activation, too; its best net was tanh, ours ReLU.)
These nets are a fourth setting, judged by the same rules. A seed from which training diverges is replaced by the next,
and the page says so.

And of the 99 blocks of the best 100-layer net of the search, how many work?
"""

from dataclasses import dataclass, replace
from pathlib import Path

from highway_lab.fields import Count, NonEmpty, Share, lists_of
from highway_lab.logs import Log, Result, numbers
from highway_lab.threads import one_thread
from highway_lab.training import Training
from highway_networks import LOSSES, Dataset, DeepNet, evaluate, rounded

from . import class_routing, gate_maps
from .common import Experiment, ExperimentJob
from .looks import measurement, models
from .looks.models import Source

DEEP = Path("models/highway-100.npz")
SEARCHED = replace(  # the search's tanh setting of the lowest training loss
    models.FALLBACK, gate_bias=-6.23991, lr=0.0279031, lr_decay=0.9999243767593939, momentum=0.939221, epochs=40
)
SEARCHED_SEEDS = range(1_000_097, 10_000_098, 1_000_000)  # as the search numbers repetitions of its draw 97
FIRST, LATE = 15, (15, 45)  # the paper's first layers, and those that it finds idle, counted from 1
IDLE_OF_MOST = 0.01  # share of the costliest layer's rise in loss, below which a layer is idle
DIGITS = 7  # significant ones: a lesion of an untrained net changes the loss in the fifth


@dataclass
class Seen:
    """Measures of figures 2 to 4 for one net, on all training images; lists are by layer, or by closed layer."""

    gates: gate_maps.Claims
    class_difference: lists_of(float, "L")  # of T, mean over classes and units
    group_difference: lists_of(float, "L")  # of random groups of the same sizes
    error: Share
    loss: float
    lesioned_error: lists_of(Share, "L")
    lesioned_loss: lists_of(float, "L")
    flips: lists_of(Share, "L")  # share of images whose prediction changes
    closed_error: Share | None  # with all layers closed; null where it was not measured


@dataclass
class NetSeen(Result):
    """A net and the net that its training began with, or, for a net from a file, one with fresh weights."""

    source: Source
    test_score: Share
    trained: Seen
    untrained: Seen


@dataclass
class Section4Log(Log):
    """runs/section_4.json; the thresholds are those of the module's docstring and of gate_maps."""

    first: Count  # number of first layers
    late: tuple[int, int]  # first and last of the layers that the paper finds idle
    idle: float  # threshold of idle layers by the error and by flips
    idle_of_most: float  # threshold of idle layers by the loss
    point: float  # closing a needed layer raises the error by more
    closed: float
    open: float
    rare: float
    nets: NonEmpty[NetSeen]
    deep: list[NetSeen]


MORE = {"searched": "run --searched"}
EXPERIMENT = Experiment(__name__, __doc__, Section4Log, more=MORE, nets={"mnist": DEEP})


def see(net: DeepNet, data: Dataset) -> Seen:
    """Measure a net as gate_maps, class_routing and lesions do."""
    images, labels = data.train_x, data.train_y
    *_, sample_change = gate_maps.look_at(net, images[gate_maps.choose_sample(images)])
    routing = class_routing.measure_routing(net, images, labels)
    error, loss, flips = (numbers(values, DIGITS) for values in measurement.close_each(net, images, labels))
    return Seen(
        gates=gate_maps.check_claims(net, measurement.measure_gates(net, images), sample_change),
        class_difference=routing.size,
        group_difference=routing.size_of_random_groups,
        error=error[-1],
        loss=loss[-1],
        lesioned_error=error[:-1],
        lesioned_loss=loss[:-1],
        flips=flips[:-1],
        closed_error=rounded(1 - evaluate(net.without(range(net.depth)), images, labels, LOSSES["cross-entropy"])[1]),
    )


def examine(source: Source, data: Dataset) -> NetSeen:
    """Load or train a net, and measure it and an untrained one."""
    with one_thread():
        net = models.obtain(source, data)
        untrained = Training(source.training, data).net if source.training else measurement.fresh(net)
        _, test_score = evaluate(net, data.test_x, data.test_y, LOSSES["cross-entropy"])
        return NetSeen(None, source, rounded(test_score), see(net, data), see(untrained, data))


def deep_net(job: ExperimentJob) -> Source:
    """Return the best 100-layer net of the search; in a smoke run one that is trained here."""
    if job.smoke:
        return models.from_training(f"{EXPERIMENT.name}-smoke", job, epochs=2, seed=0)
    return models.from_file(DEEP, job.data)


def searched(job: ExperimentJob) -> list[Source]:
    """Return the nets of the search's best tanh setting, one a seed; in a smoke run two that are like others."""
    if job.smoke:
        return [models.from_training(f"{EXPERIMENT.name}-searched", job, epochs=2, seed=seed) for seed in (1, 2)]
    sizes = {"n_train": len(job.data.train_x), "n_test": len(job.data.test_x)}
    configs = [replace(SEARCHED, seed=seed, **sizes) for seed in SEARCHED_SEEDS]
    names = (f"{job.dataset}-searched-seed-{config.seed}.npz" for config in configs)
    return [Source(str(models.CHECKPOINTS / name), None, of) for name, of in zip(names, configs, strict=True)]


def run(job: ExperimentJob) -> None:
    if job.arguments.searched:
        job, sources, deep = job.for_more("searched"), searched(job), []
    else:
        settings = models.by_setting(job.dataset, job.data, job.smoke)
        sources, deep = [source for seeds in settings.values() for source in seeds], [deep_net(job)]
    seen = job.run_missing(examine, [*sources, *deep], NetSeen)
    job.keep(
        first=2 if job.smoke else FIRST,
        late=(3, 5) if job.smoke else LATE,
        idle=measurement.IDLE,
        idle_of_most=IDLE_OF_MOST,
        point=measurement.POINT,
        closed=measurement.CLOSED,
        open=measurement.OPEN,
        rare=gate_maps.RARE,
        nets=seen[: len(sources)],
        deep=seen[len(sources) :],
    )


parser = EXPERIMENT.add_run(run, "train nets and look into them; resumable")
parser.add_argument("--searched", action="store_true", help="nets of the best tanh setting of the search")
