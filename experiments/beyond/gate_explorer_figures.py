"""The page of the gate explorer, viz/gate_explorer.html, and its table.

The page is gate_explorer.html with one JSON object in it: configuration and weights of the net, the ten images,
effective depths, the errors that the log of lesions has of this net, and colours. `make screenshot` draws its picture.
"""

import base64
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from highway_lab import InputError
from highway_lab.console import name_data
from highway_lab.figures import SEQUENTIAL, differences, fingerprint, markdown
from highway_networks import DeepNet

from .. import lesions
from ..models import Source
from .gate_explorer import EXPERIMENT, GateExplorerLog

TEMPLATE = Path(__file__).with_name("gate_explorer.html")
PLACEHOLDER = '{"here": "goes what the page shows"}'  # of the JSON object in the template
COLORS = 256  # of a colour map


def page(log: GateExplorerLog) -> str:
    """Return the page, which needs no other file; raises InputError if the net's file is no longer the log's."""
    net, (path, lesioned) = load(log.model.source), lesion_curve(log)
    content = {
        "sources": [fingerprint(log.model.source.file), *([fingerprint(path)] if lesioned else [])],
        "dataset": name_data(log.dataset.name),
        "config": log.model.net,
        "test_score": log.model.test_score,
        "weights": packed(net.params.flat),
        "seed": log.seed,
        "pixels": [np.ravel(image).tolist() for image in log.pixels],
        "effective_depth": {"trained": asdict(log.trained), "untrained": asdict(log.untrained)},
        "lesions": lesioned,
        "colors": {"sequential": color_table(SEQUENTIAL), "diverging": color_table(differences(np.ones(1))["cmap"])},
    }
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")  # so that no name ends the script
    return TEMPLATE.read_text(encoding="utf-8").replace(PLACEHOLDER, text)


def load(source: Source) -> DeepNet:
    """Load the net of the log; raises InputError if its file has changed."""
    net, found = DeepNet.load(source.file), fingerprint(source.file)
    if source.sha256 and not found.endswith(source.sha256):
        remedy = f"make its log anew with {EXPERIMENT.parser.prog} run"
        raise InputError(f"{source.file}: expected the net of sha256 {source.sha256}, found {found}; {remedy}")
    return net


def lesion_curve(log: GateExplorerLog) -> tuple[Path, dict[str, Any] | None]:
    """Return the path of the log of lesions, and the errors of this very net with layers closed, if it is there."""
    path = lesions.EXPERIMENT.log_path(log.dataset.name)
    measured = lesions.EXPERIMENT.read(path) if path.exists() else None
    for net in measured.nets if measured else []:
        if net.source.sha256 and net.source.sha256 == log.model.source.sha256:
            return path, {
                "images": measured.dataset.n_train,
                "none": net.error,
                "each": net.lesioned_error,
                "set_images": measured.set_images,
                "first": net.closings["first first"].errors[0],
                "last": net.closings["last first"].errors[0],
            }
    return path, None


def packed(weights: np.ndarray) -> str:
    """Return float32 numbers, compressed, in base64: all first bytes, all second bytes, …, which compress better."""
    planes = weights.astype("<f4").view(np.uint8).reshape(-1, 4).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def color_table(name: str) -> str:
    """Return a colour map as COLORS colours of six hexadecimal digits."""
    return "".join(to_hex(color)[1:] for color in matplotlib.colormaps[name].resampled(COLORS)(range(COLORS)))


def depths_table(log: GateExplorerLog) -> str:
    """Tabulate the effective depth of each class's images, trained and untrained."""
    kinds = (log.trained, log.untrained)
    rows = [
        [str(label), f"{images:,}", *(f"{of.mean[label]:.2f} (sd {of.sd[label]:.2f})" for of in kinds)]
        for label, images in enumerate(log.images)
    ]
    note = f"Mean and sd over the test images of {name_data(log.dataset.name)}; 1 net and 1 untrained net."
    return f"{markdown(['class', 'images', 'effective depth', 'untrained'], rows)}\n\n{note}"


FIGURES = {"gate_explorer.html": page}
TABLES = {"gate_explorer": depths_table}
