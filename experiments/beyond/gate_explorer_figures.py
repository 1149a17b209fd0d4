"""The page of the gate explorer, viz/gate_explorer.html, and its table.

The page is article/page.html with its style and its programs in it, the equations of the net's layers, and one JSON
object: configuration and weights of the net, the ten images, effective depths, the errors that the log of lesions has
of this net, accuracies of plain and highway nets by depth, the digits on which visitors train nets, and colours. What
no log tells is left out. `make screenshot` draws the page's picture.
"""

import base64
import json
import re
import string
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

import highway_lab.logs
from highway_lab.console import name_data, name_numbers
from highway_lab.datasets import load_dataset
from highway_lab.figures import SEQUENTIAL, differences, drawing, name_with_digest
from highway_lab.intervals import Interval, difference, interval
from highway_lab.logs import RunLog
from highway_lab.tables import markdown
from highway_networks import BLOCKS, Config, DeepNet, InputError

from .. import common, small_nets, tuned_plain
from ..common import CHANCE, group, points
from ..looks import lesions
from ..study import Results, accuracies
from ..study_command import StudyLog
from .gate_explorer import ENDS, GateExplorerLog
from .recording import Equation

ARTICLE = Path(__file__).with_name("article")
FILE = re.compile(r"^\{file: (\S+)\}\n", re.MULTILINE)  # a line of the page in place of which goes a file of ARTICLE
PLACEHOLDERS = ('{"here": "go the equations"}', '{"here": "goes what the page shows"}')
OF_DIGITS = ("mnist", "digits")  # data sets; so is a folder whose classes are named 0 to 9
CHOSEN = ("block", "depth", "init", "gate_bias", "lr")  # by a visitor who trains a net
LARGEST = 2**15 - 1  # whole number of 16 bits, with a sign
COLORS = 256  # of a colour map
SWEEP = Path("run_sweep.json")
BROKEN = 5  # points of accuracy below the shallowest nets of a kind: such nets are broken (chosen after the runs)


def template() -> str:
    """Return the page with its style and its programs, but without what it shows."""

    def read(name: str) -> str:
        return (ARTICLE / name).read_text(encoding="utf-8")

    return FILE.sub(lambda match: read(match[1]), read("page.html"))


def page(log: GateExplorerLog) -> str:
    """Return the page, which needs no other file; raises InputError if the net's file is no longer the log's."""
    net, (lesions_path, lesioned) = load(log), lesion_curve(log)
    signs, blocks = net.block.bias_signs, {"plain": BLOCKS["plain"], net.config["block"]: net.block}
    plain, equation = (Equation(name, block, net.activation, net.hidden) for name, block in blocks.items())
    sweep_paths, sweep = depth_sweep()
    factors, multiples = as_integers(net)
    small = common.load("small_nets")
    small_path = small.log_path()
    logged = small.read(small_path) if small_path.exists() else None
    there = ((lesions_path, lesioned), (small_path, logged), *((path, sweep) for path in sweep_paths))
    sources = [path for path, content in there if content]
    content = {
        "sources": [name_with_digest(path) for path in (log.model.source.file, *sources)],
        "dataset": name_data(log.dataset.name),
        "classes": log.dataset.classes,
        "of_digits": log.dataset.name in OF_DIGITS or "".join(log.dataset.classes) == string.digits,
        "config": log.model.net,
        "biases": {branch: signs.get(branch, 0) * net.config["gate_bias"] for branch in net.block.branches},  # initial
        "formula": equation.formula(),
        "test_score": log.model.test_score,
        "factors": factors,
        "weights": packed(multiples.view(np.uint8).reshape(-1, 2).T),  # all low bytes, all high ones: compresses better
        "seed": log.seed,
        "pixels": [np.ravel(image).tolist() for image in log.pixels],
        "framing": framing(np.array(log.pixels)),
        "effective_depth": {
            name: asdict(of) | {"all": float(np.average(of.mean, weights=log.images))}
            for name, of in (("trained", log.trained), ("untrained", log.untrained))
        },
        "lesions": lesioned,
        "sweep": sweep,
        "lab": lab(logged),
        "colors": {"sequential": color_table(SEQUENTIAL), "diverging": color_table(differences(np.ones(1))["cmap"])},
    }
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")  # so that no name ends the script
    page = template()
    for placeholder, here in zip(PLACEHOLDERS, (f"[{plain.javascript()}, {equation.javascript()}]", text), strict=True):
        page = page.replace(placeholder, here)
    return page


def framing(pixels: np.ndarray) -> dict[str, Any]:
    """Return how images (n, side, side) were scaled and centred: the side of the `box` that ink fills, and `by_mass`.

    By mass: whether the ink's centre of mass varies less than the middle of its box.
    """
    ink, side = np.where(pixels.any(axis=(1, 2), keepdims=True), pixels, 1), pixels.shape[-1]  # a blank one is full
    along = np.stack([ink.sum(axis=axis) for axis in (1, 2)])  # columns, rows: (2, n, side)
    first, end = (along > 0).argmax(axis=-1), side - (along[..., ::-1] > 0).argmax(axis=-1)
    masses = along @ np.arange(side) / along.sum(axis=-1)
    spread = {"mass": masses.std(axis=1).sum(), "box": ((first + end) / 2).std(axis=1).sum()}
    return {"box": int((end - first).max()), "by_mass": bool(spread["mass"] < spread["box"])}


def load(log: GateExplorerLog) -> DeepNet:
    """Load the net of the log; raises InputError if its file has changed."""
    source = log.model.source
    net, found = DeepNet.load(source.file), name_with_digest(source.file)
    if source.sha256 and not found.endswith(source.sha256):
        remedy = f"make its log anew with {log.command}"
        raise InputError(f"{source.file}: expected the net of sha256 {source.sha256}, found {found}; {remedy}")
    return net


def lesion_curve(log: GateExplorerLog) -> tuple[Path, dict[str, Any] | None]:
    """Return the path of a log of lesions, and the errors of this very net with layers closed, if it is there."""
    path, sha256 = lesions.EXPERIMENT.log_path(log.dataset.name), log.model.source.sha256 or "none"
    logs = [path, *path.parent.glob(f"{path.stem}-*-{sha256[:8]}.json")]  # the second by lesions run --model
    for path in filter(Path.exists, logs):
        measured = lesions.EXPERIMENT.read(path)
        net = next((net for net in measured.nets if net.source.sha256 == sha256), None)
        if net:
            others = [of for of in measured.nets if of.source.training]
            return path, {
                "images": measured.dataset.n_train,
                "none": net.error,
                "each": net.lesioned_error,
                "idle": measured.idle,
                "idle_share": net.idle_share,
                "set_images": measured.set_images,
                "point": measured.point,
                "trained": {end: net.closings[order].errors[0] for end, order in ENDS.items()},
                "untrained": log.untrained_errors,
                "spared": {end: net.closings[order].spared[0] for end, order in ENDS.items()},
                "nets": len(others),
                "seeds": name_numbers([of.source.training.seed for of in others]),
                "epochs": name_numbers(sorted({of.source.training.epochs for of in others})),
                "first_layer": value_and_half(
                    interval([100 - 100 * of.closings[ENDS["last"]].errors[0][-1] for of in others])
                ),
            }
    return path, None


def depth_sweep() -> tuple[list[Path], dict[str, Any] | None]:
    """Return the paths of the logs of the depth sweep and of tuned nets, and their accuracies, if both are there."""
    tuned_nets = common.load("tuned_plain")
    paths = [SWEEP, tuned_nets.log_path()]
    if not all(path.exists() for path in paths):
        return paths, None
    sweep = highway_lab.logs.read(SWEEP, RunLog[Config], "make it with make sweep")
    results = Results(tuned_nets.studies[""], tuned_nets.read(paths[1]).runs)
    with drawing("the sweep", *paths):
        tuned, runs = tuned_plain.by_kind(results), group(sweep.runs, "block", "depth")
        if not (shallow := tuned_plain.best_shallow(results)):
            words = f"expected nets of at most {tuned_plain.SHALLOW} blocks, found none"
            raise InputError(f"{paths[1]}: {words}; make it with {tuned_nets.parser.prog} run")
        config, depths = sweep.runs[0].config, sorted({depth for _, depth in runs})
        nets = {}
        for arm, units in (tuned_plain.PLAIN, tuned_plain.HIGHWAY):
            nets[arm] = by_depth(depths, (points(runs[arm, depth]) for depth in depths))
            for name, of in (("tuned", arm), ("orthogonal", f"{arm}, orthogonal")):
                nets[f"{arm}, {name}"] = by_depth(depths, (accuracies(tuned[of, units][depth]) for depth in depths))
        highway, plain = tuned[tuned_plain.HIGHWAY], tuned[tuned_plain.PLAIN]
        leads = {
            "tuned": tuned_plain.leads_of(highway, plain),
            "orthogonal": tuned_plain.leads_of(highway, tuned["plain, orthogonal", tuned_plain.PLAIN[1]]),
            "untuned": {of: difference(points(runs["highway", of]), points(runs["plain", of])) for of in depths},
        }
        seeds = [run.config.seed for run in runs["plain", depths[0]]]
        return paths, {
            "dataset": name_data(sweep.dataset.name),
            "config": {name: getattr(config, name) for name in ("n_train", "n_test", "epochs", "hidden")},
            "seeds": seeds,
            "seed_range": name_numbers(seeds),
            "tried": len(results.study.grid(shallow[0].cell)),
            "depths": depths,
            "margin": BROKEN,
            "chance": 100 * CHANCE,
            "nets": nets,
            "shallow": value_and_half(interval(accuracies(shallow))),
            "shallow_blocks": tuned_plain.SHALLOW,
            "shallow_units": shallow[0].config.hidden,
            "leads": {name: [value_and_half(of[depth]) for depth in depths] for name, of in leads.items()},
        }


def by_depth(depths: list[int], accuracies: Iterable[np.ndarray]) -> dict[str, Any]:
    """Return accuracies of one kind of net in per cent, by depth: mean and interval, seeds, and where they break."""
    seeds = [[round(float(of), 2) for of in of_depth] for of_depth in accuracies]
    means = [value_and_half(interval(of_depth)) for of_depth in seeds]
    broken = [depth for depth, (mean, _) in zip(depths, means, strict=True) if mean < means[0][0] - BROKEN]
    return {"means": means, "seeds": seeds, "broken": broken[0] if broken else None}


def value_and_half(of: Interval) -> list[float | None]:
    """Return value and half width of an interval; null for what a single run does not have."""
    return [round(float(number), 4) if np.isfinite(number) else None for number in of]


def lab(logged: StudyLog | None) -> dict[str, Any]:
    """Return what a visitor's nets need: the digits, training images first, the settings that all of them share, and
    the curves of logged nets.
    """
    data = load_dataset("digits")
    images, classes = (np.concatenate(both) for both in ((data.train_x, data.test_x), (data.train_y, data.test_y)))
    shared = {name: getattr(small_nets.SHARED, name) for name in ("hidden", "batch_size", "epochs", "clip")}
    runs = group(logged.runs if logged else [], *CHOSEN)
    return {
        "config": {"d_in": images[0].size, "d_out": data.outputs} | shared,
        "n_train": len(data.train_x),
        "n_test": len(data.test_x),
        "digits": packed(np.concatenate([images.ravel(), classes])),
        "logged": [
            dict(zip(CHOSEN, chosen, strict=True)) | {"curves": [run.history["test_score"] for run in of]}
            for chosen, of in runs.items()
        ],
    }


def as_integers(net: DeepNet) -> tuple[list[float], np.ndarray]:
    """Return the factor of each matrix [W b], and all weights as multiples of these: whole numbers of 16 bits."""
    matrices = [net.params.input, *net.params.blocks, net.params.output]
    factors = [float(abs(matrix).max()) / LARGEST or 1.0 for matrix in matrices]
    multiples = [np.rint(matrix.ravel() / factor) for matrix, factor in zip(matrices, factors, strict=True)]
    return factors, np.concatenate(multiples).astype("<i2")


def packed(numbers: np.ndarray) -> str:
    """Return bytes, compressed, in base64."""
    return base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode()


def color_table(name: str) -> str:
    """Return a colour map as COLORS colours of six hexadecimal digits."""
    return "".join(to_hex(color)[1:] for color in matplotlib.colormaps[name].resampled(COLORS)(range(COLORS)))


def depths_table(log: GateExplorerLog) -> str:
    """Tabulate the effective depth of each class's images, trained and untrained."""
    kinds, names = (log.trained, log.untrained), log.dataset.classes or range(len(log.images))
    rows = [
        [str(names[label]), f"{images:,}", *(f"{of.mean[label]:.2f} (sd {of.sd[label]:.2f})" for of in kinds)]
        for label, images in enumerate(log.images)
    ]
    note = f"Mean and sd over the test images of {name_data(log.dataset.name)}; one trained net and one untrained."
    return f"{markdown(['class', 'images', 'effective depth', 'untrained'], rows)}\n\n{note}"


FIGURES = {"gate_explorer.html": page}
TABLES = {"gate_explorer": depths_table}
