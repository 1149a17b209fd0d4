"""The gate explorer: which layers of a 50-layer net do the work on a digit that you draw?

The page that `plot` writes, viz/gate_explorer.html, holds the net itself. What it shows beside a drawing is measured
here. A typical image of each class: of the half of its test images that are read right most surely, the one whose gates
are closest to the class's mean. The effective depth of all test images, by class: the sum over layers of the mean T of
a layer's units. The error of the untrained net with layers closed, on the images and in two orders of `lesions`. The
untrained net's weights come from a generator so small that the page draws them, too.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from highway_lab.console import name_data, name_numbers
from highway_lab.datasets import load_dataset
from highway_lab.fields import NonEmpty, NotNegative, Pixel, Share, dict_of, lists_of
from highway_lab.figures import SEQUENTIAL, differences, name_with_digest
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import RunLog, read, rounded_all
from highway_networks import Config, Dataset, DeepNet, InputError, as_inputs, rounded

from .. import common
from ..common import CHANCE, by_config, packed, points, sha256_of
from ..study import Results, accuracies
from . import measurement, models
from .models import Look

SEED = 0  # of the untrained net
ENDS = ("first", "last")  # of closing layers
DIGITS = 4  # significant digits in the log

ARTICLE = Path(__file__).with_name("article")
FILE = re.compile(r"^\{file: (\S+)\}\n", re.MULTILINE)  # a line of the page in place of which goes a file of ARTICLE
PLACEHOLDER = '{"here": "goes what the page shows"}'
COMPUTED = {"highway", "highway-uncoupled", "tanh", "relu", "elu", "uniform", "glorot", "he", "gaussian", "orthogonal"}
OF_DIGITS = ("mnist", "digits")  # data sets
CHOSEN = ("block", "depth", "init", "gate_bias", "lr")  # by a visitor who trains a net
LARGEST = 2**15 - 1  # whole number of 16 bits, with a sign
COLORS = 256  # of a colour map
SWEEP = Path("run_sweep.json")
BROKEN = 5  # points of accuracy below the shallowest nets of a kind: such nets are broken (chosen after the runs)


@dataclass
class EffectiveDepth:
    """Effective depth of the test images of each class: mean and sample standard deviation over images.

    `layers` is the mean T of each layer over all test images.
    """

    mean: lists_of(NotNegative, "K")
    sd: lists_of(NotNegative, "K")
    layers: lists_of(Share, "L")


@dataclass
class Explored(Look):
    """What is seen of a net; `pixels` (classes, H, W) of typical images.

    `untrained_errors`: the untrained net's with the first k layers of each of ENDS closed, k = 0..L.
    """

    pixels: lists_of(Pixel, "K", "H", "W")
    trained: EffectiveDepth
    untrained: EffectiveDepth
    untrained_errors: dict_of(ENDS, NonEmpty[Share])


class SmallGenerator:
    """Random numbers that the page draws, too, with the methods of np.random.Generator that INITS call.

    Mulberry32 (T. Ettinger 2017): a counter in steps of STEP, whose bits are mixed by products modulo 2³².
    """

    STEP = 0x6D2B79F5

    def __init__(self, seed: int):
        self.count = seed

    def random(self, n: int) -> np.ndarray:
        """Return the next n numbers, uniform in [0, 1)."""
        counts = self.count + self.STEP * np.arange(1, n + 1, dtype=np.uint64)
        self.count += self.STEP * n
        t = counts.astype(np.uint32)  # from here on modulo 2³²
        t = (t ^ t >> 15) * (t | 1)
        t ^= t + (t ^ t >> 7) * (t | 61)
        return (t ^ t >> 14) / 2**32

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
        return low + (high - low) * self.random(math.prod(shape)).reshape(shape)

    def normal(self, mean: float, sd: float, shape: tuple[int, ...]) -> np.ndarray:
        """Return √(−2 ln(1 − u)) · cos(2πv) of two uniform numbers u, v each (Box & Muller 1958), scaled."""
        u, v = self.random(2 * math.prod(shape)).reshape(-1, 2).T
        return mean + sd * (np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)).reshape(shape)


def untrained(net: DeepNet) -> DeepNet:
    """Return a net of the same setting with the untrained weights that the page draws, up to rounding."""
    return DeepNet(**net.config, rng=SmallGenerator(SEED))


def find_typical(gates: np.ndarray, logits: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return the index of a typical image of each class, given mean gates (n, L), logits (n, K) and labels (n,)."""
    from scipy.special import log_softmax  # imports in a third of a second

    sureness = log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    typical = []
    for label in range(logits.shape[1]):
        of_class = np.flatnonzero(labels == label)
        distances = np.linalg.norm(gates[of_class] - gates[of_class].mean(axis=0), axis=1)
        unsure = sureness[of_class] < np.median(sureness[of_class])
        typical.append(int(of_class[np.where(unsure, np.inf, distances).argmin()]))
    return typical


def by_class(gates: np.ndarray, labels: np.ndarray, classes: int) -> EffectiveDepth:
    """Return mean and spread of effective depth within each class, given the mean gates (n, L) of images."""
    depths = gates.sum(axis=1)
    groups = [depths[labels == label] for label in range(classes)]
    means, sds = [group.mean() for group in groups], [group.std(ddof=1) for group in groups]
    return EffectiveDepth(*(rounded_all(values, DIGITS) for values in (means, sds, gates.mean(axis=0))))


def measure(net: DeepNet, data: Dataset, common: Look) -> Explored:
    """Look into a net; raises InputError unless images are grey, and the page has the net's equations."""
    if unknown := {net.config[of] for of in ("block", "activation", "init")} - COMPUTED:
        raise InputError(f"--model: expected a net that the page computes, found {min(unknown)}; use gate_maps")
    if (channels := data.test_x.shape[1]) > 1:
        raise InputError(f"--dataset: expected grey images, found {channels} channels; choose mnist")

    fresh = untrained(net)
    gates, fresh_gates = (measurement.mean_gates(of, data.test_x) for of in (net, fresh))
    typical = find_typical(gates, net.predict(as_inputs(data.test_x, net.dtype)), data.test_y)
    errors = zip(ENDS, measurement.close_from_ends(fresh, data), strict=True)

    return Explored(
        **vars(common),
        pixels=data.test_x[typical, 0].tolist(),
        trained=by_class(gates, data.test_y, data.outputs),
        untrained=by_class(fresh_gates, data.test_y, data.outputs),
        untrained_errors={end: rounded_all(of) for end, of in errors},
    )


of_net, train = models.of_net, partial(models.look, measure=measure)
STUDY = models.looks(Explored, "")[""]


def numbers(results: Results) -> dict:
    """Return what the page quotes: effective depths of the classes, lowest and highest, trained and untrained."""
    seen = results.runs[0].measured
    return {
        state: (min(of.mean), max(of.mean)) for state, of in (("trained", seen.trained), ("untrained", seen.untrained))
    }


# ------------------------------------------------------------------------------------------ the page


def page(results: Results) -> str:
    """Return the page, which needs no other file; raises InputError if the net's file is no longer the log's.

    It is article/page.html with its style and its programs in it, and one JSON object: configuration and weights of the
    net, the ten images, effective depths, the errors that the log of lesions has of this net, accuracies of plain and
    highway nets by depth, the digits on which visitors train nets, and colours. What no log tells is left out.
    `make screenshot` draws the page's picture.
    """
    seen, dataset = results.runs[0].measured, results.dataset
    net = load(seen)
    factors, multiples = as_integers(net)
    told = {"lesions": lesion_curve(results), "sweep": depth_sweep(), "lab": lab()}
    paths = [seen.file, *(path for of, _ in told.values() for path in of)]
    content = {
        "sources": [name_with_digest(path) for path in paths],
        "dataset": name_data(dataset.name),
        "classes": dataset.classes,
        "of_digits": dataset.name in OF_DIGITS,
        "config": net.config,
        "test_score": seen.score,
        "factors": factors,
        "weights": packed(multiples.view(np.uint8).reshape(-1, 2).T),  # all low bytes, all high ones: compresses better
        "seed": SEED,
        "pixels": [np.ravel(image).tolist() for image in seen.pixels],
        "effective_depth": {"trained": asdict(seen.trained), "untrained": asdict(seen.untrained)},
        **{name: of for name, (_, of) in told.items()},
        "colors": {"sequential": color_table(SEQUENTIAL), "diverging": color_table(differences(np.ones(1))["cmap"])},
    }
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")  # so that no name ends the script
    return template().replace(PLACEHOLDER, text)


def template() -> str:
    """Return the page with its style and its programs, but without what it shows."""
    page = (ARTICLE / "page.html").read_text(encoding="utf-8")
    return FILE.sub(lambda match: (ARTICLE / match[1]).read_text(encoding="utf-8"), page)


def load(seen: Explored) -> DeepNet:
    """Load the net of the log; raises InputError if its file has changed."""
    if seen.sha256 and (found := sha256_of(Path(seen.file))) != seen.sha256:
        remedy = "put that net back, or look into another by run --model"
        raise InputError(f"{seen.file}: expected the net of sha256 {seen.sha256}, found {found}; {remedy}")
    return DeepNet.load(seen.file)


def lesion_curve(results: Results) -> tuple[list[Path], dict[str, Any] | None]:
    """Return the log of lesions that has this very net, and its errors with layers closed, if there is one."""
    lesions, seen = common.load("lesions"), results.runs[0].measured
    sha256, name = seen.sha256 or "none", results.dataset.name
    path = lesions.log_path("" if name == lesions.datasets[""] else name)
    logs = [path, *path.parent.glob(f"{path.stem}-*-{sha256[:8]}.json")]  # the second by lesions run --model
    for path in filter(Path.exists, logs):
        log = lesions.read(path)
        if net := next((run.measured for run in log.runs if run.measured.sha256 == sha256), None):
            others = [run for run in log.runs if not run.cell.file]
            last = [100 - 100 * run.measured.closed_from_back[-1] for run in others]
            trained = dict(zip(ENDS, (net.closed_from_front, net.closed_from_back), strict=True))
            return [path], {
                "images": log.dataset.n_train,
                "none": net.errors[-1],
                "each": net.errors[:-1],
                "idle": measurement.IDLE,
                "idle_share": rounded(measurement.idle_share(net.errors, 100 * measurement.IDLE) / 100),
                "set_images": min(measurement.SET_IMAGES, log.dataset.n_train),
                "point": measurement.POINT,
                "trained": trained,
                "untrained": seen.untrained_errors,
                "spared": {end: measurement.count_spared(of) for end, of in trained.items()},
                "nets": len(others),
                "seeds": name_numbers([run.config.seed for run in others]),
                "epochs": name_numbers(sorted({run.config.epochs for run in others})),
                "first_layer": value_and_half(interval(last)),
            }
    return [], None


def depth_sweep() -> tuple[list[Path], dict[str, Any] | None]:
    """Return the logs of the depth sweep and of tuned nets, and accuracies by depth in %, if both are there."""
    tuned_nets = common.load("tuned_plain")
    paths = [SWEEP, tuned_nets.log_path()]
    if not all(path.exists() for path in paths):
        return [], None
    sweep = read(SWEEP, RunLog[Config], "make it with make sweep")
    results = Results(tuned_nets.studies[""], tuned_nets.read(paths[1]).runs)
    config, runs = sweep.runs[0].config, by_config(sweep.runs, "block", "depth")
    depths = sorted({depth for _, depth in runs})
    shallow = tuned_nets.contents.best_shallow(results)
    tuned = tuned_nets.contents.by_kind(results)
    nets = {}
    for kind in ("plain", "highway"):
        nets[kind] = [points(runs[kind, depth]) for depth in depths]
        for name, arm in (("tuned", kind), ("orthogonal", f"{kind}, orthogonal")):
            nets[f"{kind}, {name}"] = [accuracies(tuned[arm, config.hidden][depth]) for depth in depths]
    compared = {
        "tuned": ("highway, tuned", "plain, tuned"),
        "orthogonal": ("highway, tuned", "plain, orthogonal"),
        "untuned": ("highway", "plain"),
    }
    seeds = [run.config.seed for run in runs["plain", depths[0]]]
    return paths, {
        "dataset": name_data(sweep.dataset.name),
        "config": {name: getattr(config, name) for name in ("n_train", "n_test", "epochs", "hidden")},
        "seeds": len(seeds),
        "seed_range": name_numbers(seeds),
        "tried": len(results.study.grid(shallow[0].cell)),
        "depths": depths,
        "margin": BROKEN,
        "chance": 100 * CHANCE,
        "nets": {name: by_depth(of) for name, of in nets.items()},
        "shallow": value_and_half(interval(accuracies(shallow))),
        "shallow_blocks": tuned_nets.contents.SHALLOW,
        "shallow_units": shallow[0].cell.hidden,
        "leads": {name: value_and_half(difference(nets[a][-1], nets[b][-1])) for name, (a, b) in compared.items()},
    }


def by_depth(accuracies: Iterable[np.ndarray]) -> dict[str, list]:
    """Return the accuracies of one kind of net: by depth those of all seeds, and mean and interval."""
    seeds = [[round(float(of), 2) for of in of_depth] for of_depth in accuracies]
    return {"seeds": seeds, "means": [value_and_half(interval(of_depth)) for of_depth in seeds]}


def value_and_half(of: Interval) -> list[float | None]:
    """Return value and half width of an interval; null for what a single run does not have."""
    return [round(float(number), 4) if np.isfinite(number) else None for number in of]


def lab() -> tuple[list[Path], dict[str, Any]]:
    """Return the log of small nets, if it is there, and what a visitor's nets need: the digits, training images first,
    the settings that all of them share, and the curves of logged nets.
    """
    data, small_nets = load_dataset("digits"), common.load("small_nets")
    small, paths = small_nets.contents, [path for path in (small_nets.log_path(),) if path.exists()]
    shared = Config(hidden=small.UNITS, epochs=small.EPOCHS, **small.SHARED)
    images, classes = (np.concatenate(both) for both in ((data.train_x, data.test_x), (data.train_y, data.test_y)))
    return paths, {
        "config": {"d_in": images[0].size, "d_out": data.outputs}
        | {name: getattr(shared, name) for name in ("hidden", "batch_size", "epochs", "clip")},
        "n_train": len(data.train_x),
        "n_test": len(data.test_x),
        "digits": packed(np.concatenate([images.ravel(), classes])),
        "logged": [
            dict(zip(CHOSEN, chosen, strict=True)) | {"curves": [run.history["test_score"] for run in of]}
            for path in paths
            for chosen, of in by_config(small_nets.read(path).runs, *CHOSEN).items()
        ],
    }


def as_integers(net: DeepNet) -> tuple[list[float], np.ndarray]:
    """Return the factor of each matrix [W b], and all weights as multiples of these: whole numbers of 16 bits."""
    matrices = [net.params.input, *net.params.blocks, net.params.output]
    factors = [float(abs(matrix).max()) / LARGEST or 1.0 for matrix in matrices]
    multiples = [np.rint(matrix.ravel() / factor) for matrix, factor in zip(matrices, factors, strict=True)]
    return factors, np.concatenate(multiples).astype("<i2")


def color_table(name: str) -> str:
    """Return a colour map as COLORS colours of six hexadecimal digits."""
    return "".join(to_hex(color)[1:] for color in matplotlib.colormaps[name](range(COLORS)))


FIGURES = {"gate_explorer.html": page}
