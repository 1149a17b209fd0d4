"""The gate explorer's log and the content of its page; test_gate_explorer_page.py opens the page in a browser."""

import base64
import hashlib
import itertools
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, files_below, log_of_net, refused_with
from picture_helpers import committed_log

from experiments.common import load
from experiments.looks import gate_explorer, measurement
from experiments.looks.gate_explorer import SmallGenerator
from experiments.looks.models import Look
from highway_lab.datasets import load_dataset
from highway_lab.nets import without
from highway_networks import ACTIVATIONS, BLOCKS, INITS, Dataset, DeepNet, as_inputs

TEMPLATE, EXPERIMENT = gate_explorer.template(), load("gate_explorer")
COMMON = Look("net.npz", None, 1.0)
NET = {"hidden": 5, "depth": 3, "block": "highway", "gate_bias": -1.0}


def net_for(data: Dataset, **others) -> DeepNet:
    return DeepNet(data.test_x[0].size, data.outputs, **(NET | others), rng=np.random.default_rng(1))


@pytest.fixture
def saved(digits, workdir) -> DeepNet:
    """Save a net for the digits as mine.npz."""
    net = net_for(digits)
    net.save("mine.npz")
    return net


def run_and_plot(model: str = "mine.npz") -> dict:
    """Look into a user's net for the digits; returns the content of its page."""
    assert EXPERIMENT.main(["run", "--dataset", "digits", "--model", model]) == 0
    assert EXPERIMENT.main(["plot", log_of_net("gate_explorer-digits", model).as_posix()]) == 0
    return held_by(page_of(model))


def page_of(model: str) -> Path:
    name = log_of_net("gate_explorer-digits", model).stem.removeprefix("gate_explorer-")
    return Path("viz", name, "gate_explorer.html")


def held_by(page: Path) -> dict:
    """Return the JSON object in a page."""
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_depths_are_averaged_by_class():
    gates = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, 2.0], [4.0, 2.0]])
    found = gate_explorer.by_class(gates, np.array([0, 1, 0, 1]), 2)
    assert found == gate_explorer.EffectiveDepth([2.0, 5.5], [1.414, 0.7071], [2.0, 1.75])


def test_a_typical_image_is_read_surely_and_opens_the_gates_of_its_class():
    gates = np.array([[1.0], [2.0], [3.1], [6.0], [5.0]])  # means of the classes: 2.03 and 5.5
    sure, unsure = [9.0, 0.0], [0.5, 0.0]
    logits = np.array([sure, unsure, sure, sure[::-1], sure[::-1]])
    found = gate_explorer.find_typical(gates, logits, np.array([0, 0, 0, 1, 1]))
    assert found == [0, 3]  # not 1, which is the closest


def test_the_log_holds_a_test_image_of_each_class_and_untrained_errors(digits, saved):
    EXPERIMENT.main(["run", "--dataset", "digits", "--model", "mine.npz"])
    log = EXPERIMENT.read(log_of_net("gate_explorer-digits", "mine.npz")).runs[0].measured
    for label, pixels in enumerate(log.pixels):
        assert pixels in digits.test_x[digits.test_y == label, 0].tolist()
    depths = measurement.mean_gates(gate_explorer.untrained(saved), digits.test_x).sum(axis=1)
    assert log.untrained.mean[7] == pytest.approx(depths[digits.test_y == 7].mean(), rel=1e-3)
    assert log.trained != log.untrained
    images, labels = measurement.closing_images(digits)
    for layers, end, count in (((), "last", 0), ((1, 2), "last", 2), ((0,), "first", 1), ((0, 1, 2), "first", 3)):
        predicted = without(gate_explorer.untrained(saved), layers).predict(as_inputs(images)).argmax(axis=1)
        assert log.untrained_errors[end][count] == pytest.approx((predicted != labels).mean(), rel=1e-3)


def test_any_number_of_draws_gives_the_sequence_of_mulberry32():
    rng = SmallGenerator(2**32 - 1)
    found = 2**32 * np.concatenate([rng.random(n) for n in (2, 1, 0, 97)])
    assert (found[:3].tolist(), found.sum()) == ([3850105811, 813802916, 3073704848], 221007250008)


@pytest.mark.parametrize("init", INITS)
def test_untrained_weights_have_the_spread_of_their_initialisation(digits, init):
    net = gate_explorer.untrained(net_for(digits, init=init, hidden=40))
    for name in ("W_in", "W_H", "W_T", "W_out"):
        expected = INITS[init](np.random.default_rng(0), (100, *net.params[name].shape[-2:])).std()
        assert net.params[name].std() == pytest.approx(expected, rel=0.1), name
        assert abs(net.params[name].mean()) < expected / 4, name
    assert (net.params["b_T"] == NET["gate_bias"]).all()
    assert not net.params["b_H"].any()


def as_the_page(net: DeepNet) -> DeepNet:
    """Give a net the weights that its page has; returns it."""
    factors, multiples = gate_explorer.as_integers(net)
    sizes = [matrix.size for matrix in (net.params.input, *net.params.blocks, net.params.output)]
    net.params.flat[:] = np.repeat(factors, sizes) * multiples
    return net


def unpacked(packed: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)


def test_the_page_holds_the_weights_in_16_bits(saved):
    held, exact = run_and_plot(), saved.params.flat.copy()
    assert as_the_page(saved) is saved
    np.testing.assert_allclose(saved.params.flat, exact, rtol=0, atol=abs(exact).max() / 65_000)
    multiples = np.ascontiguousarray(unpacked(held["weights"]).reshape(2, -1).T).view("<i2")[:, 0]
    np.testing.assert_array_equal(multiples, gate_explorer.as_integers(saved)[1])
    assert held["config"] == saved.config
    assert held["sources"] == [f"mine.npz sha256 {hashlib.sha256(Path('mine.npz').read_bytes()).hexdigest()}"]


def test_all_test_images_keep_their_answer_with_weights_of_16_bits(real_mnist):
    log = EXPERIMENT.read(committed_log("runs/gate_explorer.json"))
    net, x = gate_explorer.load(log.runs[0].measured), as_inputs(load_dataset("mnist", real_mnist).test_x)
    before = net.predict(x).argmax(axis=1)
    np.testing.assert_array_equal(as_the_page(net).predict(x).argmax(axis=1), before)


def test_the_page_holds_the_digits_and_the_twenty_logged_nets_behind_each_that_it_suggests(digits, monkeypatch):
    monkeypatch.chdir(ROOT)
    log, suggested = load("small_nets").read(committed_log("runs/small_nets.json")), load("small_nets").contents.NETS
    _, lab = gate_explorer.lab()
    images, classes = np.split(unpacked(lab["digits"]), [1797 * 64])
    for of, start in ((digits.train_x, 0), (digits.test_x, lab["n_train"])):
        np.testing.assert_array_equal(images.reshape(-1, 1, 8, 8)[start : start + len(of)], of)
    np.testing.assert_array_equal(classes, [*digits.train_y, *digits.test_y])
    assert [json.loads(net) for net in re.findall(r"data-net='(.*?)'", TEMPLATE)] == [*suggested]
    for net in suggested:
        (found,) = (of for of in lab["logged"] if net.items() <= of.items())
        runs = [run for run in log.runs if net.items() <= vars(run.config).items()]
        assert found["curves"] == [run.history["test_score"] for run in runs]
        assert len(runs) == 20


def test_a_net_that_has_changed_since_its_log_is_refused(digits, saved, refused):
    run_and_plot()
    before, log = files_below(Path("viz")), log_of_net("gate_explorer-digits", "mine.npz")
    net_for(digits, depth=4).save("mine.npz")
    message = refused(EXPERIMENT.main, ["plot", log.as_posix()])
    for part in ("mine.npz: expected the net of sha256", "; put that net back, or look into another by run --model"):
        assert part in message
    assert files_below(Path("viz")) == before


def test_lesions_are_shown_of_this_very_net_only(digits, saved):
    for net, path in ((net_for(digits, depth=4), "other.npz"), (saved, "mine.npz")):
        net.save(path)
        assert load("lesions").main(["run", "--dataset", "digits", "--model", path]) == 0
        if path == "other.npz":
            log_of_net("lesions-digits", path).rename("runs/lesions-digits.json")
            assert run_and_plot()["lesions"] is None
    found, log = run_and_plot()["lesions"], load("lesions").read(log_of_net("lesions-digits", "mine.npz"))
    net = log.runs[0].measured
    assert (found["none"], found["each"]) == (net.errors[-1], net.errors[:-1])
    of = found["trained"]
    assert of["first"][-1] == of["last"][-1]  # no layer is left
    assert of["first"] == net.closed_from_front != of["last"]
    assert found["untrained"]["last"][0] != of["last"][0]


def test_a_name_cannot_end_the_script(saved):
    Path("mine.npz").rename("<!--<script>.npz")
    held = run_and_plot("<!--<script>.npz")
    assert held["sources"][0].startswith("<!--<script>.npz sha256 ")
    assert "<!--" not in page_of("<!--<script>.npz").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "table"), [("block", BLOCKS), ("activation", ACTIVATIONS), ("init", INITS)])
def test_a_net_of_parts_that_the_page_does_not_have_is_refused(digits, monkeypatch, name, table):
    monkeypatch.setitem(table, "mine", table[net_for(digits).config[name]])
    with refused_with("--model: expected a net that the page computes, found mine; use gate_maps"):
        gate_explorer.measure(net_for(digits, **{name: "mine"}), digits, COMMON)


def test_images_that_nobody_can_draw_are_refused(digits):
    data = digits._replace(test_x=np.zeros((20, 3, 8, 8), np.uint8))
    with refused_with("--dataset: expected grey images, found 3 channels; choose mnist"):
        gate_explorer.measure(net_for(data), data, COMMON)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours #rrggbb (WCAG 2.2)."""
    shares = np.frombuffer(bytes.fromhex(one[1:] + other[1:]), np.uint8).reshape(2, 3) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return (light + 0.05) / (dark + 0.05)


def test_text_stands_out_from_its_background_in_both_colour_schemes():
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    texts = set(re.findall(r"[^-]color: var\(--(\w+)\)", TEMPLATE)) | {"ink", "faint", "open", "shut"}
    texts.remove("paper")  # on a button of the colour `open`
    schemes = re.findall(r":root \{([^}]*--paper.*?)\}", TEMPLATE, re.DOTALL)
    assert len(schemes) == 2
    for scheme, text, behind in itertools.product(schemes, texts, ("paper", "panel")):
        colors = dict(re.findall(r"--(\w+): (#\w{6});", scheme))
        assert contrast(colors[text], colors[behind]) >= 4.5, (text, behind)


def test_the_template_fetches_nothing_and_runs_no_foreign_code():
    links = re.findall(r'<a href="https://[^"]*">', TEMPLATE)  # which fetch nothing until they are clicked
    assert links == ['<a href="https://arxiv.org/abs/1507.06228">']
    text = TEMPLATE.replace(*links, "")
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=(?!\"data:)|url\(|@import|\bfetch\(|XMLHttpRequest|\son\w+=", text)
    assert "http" not in text.replace("http-equiv", "")
    assert TEMPLATE.count(gate_explorer.PLACEHOLDER) == 1
    assert min(map(float, re.findall(r"font(?:-size)?: ([\d.]+)rem", TEMPLATE))) >= 13 / 16
    assert not re.search(r"font(-size)?: [\d.]+px", TEMPLATE)
