"""The gate explorer in a browser: it computes as Python does; mouse, keyboard and touch work; nothing is fetched.

Skipped without Chromium, its driver or selenium. One browser serves all tests of this file.
"""

import itertools
import json
import re
import runpy
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import CONV_BLOCKS, ROOT, log_of_net, swapped_block
from picture_helpers import committed_log
from test_contributing import EXAMPLES
from test_gate_explorer import as_the_page

from experiments import tuned_plain
from experiments.common import group, load, points
from experiments.looks import gate_explorer
from experiments.looks.recording import Equation
from experiments.study import Results, accuracies
from highway_lab.intervals import interval
from highway_lab.logs import RunLog, read
from highway_networks import (
    ACTIVATIONS,
    BLOCKS,
    INITS,
    Adam,
    Config,
    DeepNet,
    as_inputs,
    clip_global_norm,
    softmax_cross_entropy,
)

pytestmark = pytest.mark.browser


class Browser:
    """A headless Chromium with the actions of these tests."""

    def __init__(self, driver: Any):
        self.driver, self.find = driver, driver.find_element

    def run(self, code: str, *arguments: object) -> Any:
        """Run a function body in the page; returns its result."""
        return self.driver.execute_script(code, *arguments)

    def open(self, page: Path) -> None:
        """Open a page with an empty message log, and wait until it is ready."""
        self.driver.get_log("browser")
        self.driver.get(page.as_uri())
        self.wait(lambda: self.run("return Boolean(window.explorer)"))

    def wait(self, condition: Callable[[], bool]) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60, poll_frequency=0.02).until(lambda _: condition())

    def resize(self, width: int, scheme: str = "light", height: int = 1000) -> None:
        """Resize the window to this size in pixels, for a visitor who prefers this colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def see(self, selector: str) -> Any:
        """Return the first such element, scrolled to the middle of the window."""
        element = self.find("css selector", selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        return element

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def enter(self, name: str, value: int) -> None:
        """Move a slider, or type a number."""
        code = "const [name, value] = arguments, field = document.getElementById(name); field.value = value;"
        self.run(f"{code} for (const type of ['input', 'change']) field.dispatchEvent(new Event(type))", name, value)
        self.show()

    def text(self, selector: str) -> str:
        """Return the text of an element in the current state; a space that does not break is a space."""
        code = "explorer.show(); return document.querySelector(arguments[0]).textContent.replaceAll('\\u00a0', ' ')"
        return self.run(code, selector)

    def show(self) -> None:
        """Show what is to be shown anew now, not in the next frame."""
        self.run("explorer.show()")

    def actions(self) -> Any:
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver, duration=0)

    def logits(self, images: np.ndarray, *variants: tuple[str, tuple[int, ...]]) -> np.ndarray:
        """Return the page's logits (variants, n, K) of images (n, ...), uint8; a variant: net, closed layers."""
        code = """const [images, variants] = arguments, { forward, nets, state, asInputs } = explorer;
        return variants.map(([net, closed]) => images.map(pixels => [
            ...forward(nets[net], asInputs(pixels), state.closed.map((_, l) => closed.includes(l))).logits]));"""
        return np.array(self.run(code, images.reshape(len(images), -1).tolist(), variants))

    def pixels(self) -> np.ndarray:
        """Return the net's input image, (28, 28)."""
        return np.reshape(self.run("return [...explorer.state.pixels]"), (28, 28))

    def closed(self) -> list[int]:
        """Return the closed layers, counted from 1."""
        self.show()
        selected = "return [...document.querySelectorAll('[role=option]')].map(o => o.ariaSelected === 'true')"
        return (np.flatnonzero(self.run(selected)) + 1).tolist()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install -e '.[test]'")
    from selenium.common.exceptions import WebDriverException

    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs Chromium and its driver: Debian's packages chromium and chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        driver = selenium.Chrome(options, selenium.ChromeService(chromedriver))
    except WebDriverException as error:
        pytest.skip(f"needs a Chromium that starts: {error.msg}")
    browser = Browser(driver)
    browser.resize(1600)
    yield browser
    driver.quit()


@pytest.fixture(scope="module")
def log() -> gate_explorer.GateExplorerLog:
    return gate_explorer.EXPERIMENT.read(committed_log("runs/gate_explorer.json"))


def shown_net(log: gate_explorer.GateExplorerLog) -> DeepNet:
    """Return the net of the log with the weights that the page has."""
    return as_the_page(DeepNet.load(ROOT / log.model.source.file))


@pytest.fixture
def addgate(workdir, monkeypatch) -> None:
    """Add the block of CONTRIBUTING.md."""
    Path("addgate.py").write_text(EXAMPLES["addgate.py"])
    monkeypatch.setitem(BLOCKS, "addgate", runpy.run_path("addgate.py")["BLOCKS"].pop("addgate"))


@pytest.fixture
def opened(browser) -> Browser:
    """Return the browser with the committed page in its initial state."""
    page = committed_log("viz/gate_explorer.html")
    if browser.run("return location.href") != page.as_uri():
        browser.open(page)
    browser.run(
        """for (const selector of ["#reset", "[value=trained]", "#draw .samples button"])
            document.querySelector(selector).click();
        for (const slider of ["step", "depth"]) {
            document.getElementById(slider).value = 0;
            document.getElementById(slider).dispatchEvent(new Event("input"));
        }
        explorer.show();"""
    )
    return browser


@pytest.fixture
def phone(opened) -> Iterator[Browser]:
    """Yield the browser as a phone of 360 x 640 pixels."""
    opened.resize(360, height=640)
    opened.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    opened.run("scrollTo(0, 0)")
    yield opened
    opened.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    opened.resize(1600)
    opened.run("scrollTo(0, 0)")


# ------------------------------------------------------------------------------------------- the net


def test_the_page_computes_what_blocks_do(browser, addgate, monkeypatch):
    """The largest error is below 1e-6, of values of moderate size, in the page's float32 as in NumPy's."""
    monkeypatch.setitem(BLOCKS, "swapped", swapped_block())
    D, rng = 20, np.random.default_rng(0)
    x, z = rng.normal(size=D).astype(np.float32), rng.normal(0, 2, 3 * D).astype(np.float32)
    kinds = [(block, activation) for block in (*CONV_BLOCKS, "swapped") for activation in ACTIVATIONS]
    code, expected = [], []
    for block, activation in kinds:
        of, G = BLOCKS[block].for_depth(5), len(BLOCKS[block].branches)
        code.append(Equation(block, of, ACTIVATIONS[activation], D).javascript())
        branches, y = z[: G * D].reshape(G, D, 1).copy(), np.empty((D, 1), np.float32)
        of.forward(x[:, None], branches, y, ACTIVATIONS[activation])
        expected.append([*y.ravel(), *branches.ravel()])
    found = browser.run(
        f"""const D = {D}, [x, z_row] = [...arguments].map(row => new Float32Array(row));
        return [{", ".join(code)}].map(equation => {{
            const z = z_row.slice(), y = new Float32Array(D);
            equation(x, z, y);
            return [...y, ...z];
        }});""",
        x.tolist(),
        z.tolist(),
    )
    for kind, of_page, of_numpy in zip(kinds, found, expected, strict=True):
        np.testing.assert_allclose(of_page[: len(of_numpy)], of_numpy, rtol=0, atol=1e-6, err_msg=str(kind))


@pytest.mark.parametrize(
    ("block", "activation", "init"),
    [
        *(("highway", "tanh", "glorot"), ("highway-uncoupled", "relu", "uniform"), ("addgate", "elu", "gaussian")),
        ("highway", "tanh", "orthogonal"),
    ],
)
def test_a_page_of_another_net_shows_that_net(browser, digits, addgate, block, activation, init):
    kind = {"block": block, "activation": activation, "init": "he", "init_gain": 1.1}
    net = DeepNet(64, 10, hidden=7, depth=4, **kind, rng=np.random.default_rng(1))
    net.config["init"] = init
    net.save("mine.npz")
    lesioned = block == "addgate"
    for experiment in (gate_explorer.EXPERIMENT, *([load("lesions")] if lesioned else [])):
        assert experiment.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    log = log_of_net("gate_explorer-digits", "mine.npz")
    assert gate_explorer.EXPERIMENT.main(["plot", str(log)]) == 0
    browser.open(Path("viz", log.stem.removeprefix("gate_explorer-"), "gate_explorer.html").absolute())
    images = digits.test_x[:50]
    found = browser.logits(images, ("trained", ()), ("untrained", ()), ("trained", (1, 3)))
    x = as_inputs(images)
    as_the_page(net)
    expected = (net.predict(x), gate_explorer.untrained(net).predict(x), net.without((1, 3)).predict(x))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    for shown, there in (("sweep", False), ("measured", lesioned), ("others", False)):  # there is no log of a sweep
        assert browser.find("id", shown).is_displayed() == there
    assert browser.text("[data-is=block]") == block
    assert browser.find("id", "own-block").is_displayed() == (block != "highway")
    code = """const n = 120, rgba = new Uint8ClampedArray(4 * n * n);
    for (let y = 5; y < 85; y++) for (let x = 30; x < 70; x++) rgba[4 * (y * n + x) + 3] = 200;
    return [...explorer.asDigit(rgba, n)];"""
    np.testing.assert_array_equal(np.reshape(browser.run(code), (8, 8)), 8 * [[0, 0, 200, 200, 200, 200, 0, 0]])
    assert ("(one image: 0.07)" in browser.text("#end")) == lesioned  # of 1,437
    assert browser.driver.get_log("browser") == []


def test_a_net_that_reads_other_things_than_digits_says_so(browser, log, tmp_path):
    names, file = [f"a letter {letter}" for letter in "ABCDEFGHIJ"], tmp_path / "page.html"
    for dataset, words in (
        (replace(log.dataset, classes=[*"0123456789"], name="mine"), ""),
        (replace(log.dataset, classes=names, name="letters"), "where 0 is a letter A, 1 is a letter B, 2 is"),
        (replace(log.dataset, name="fashion-mnist"), "on fashion-MNIST: a digit that it sees is the number"),
    ):
        file.write_text(gate_explorer.page(replace(log, dataset=dataset)), encoding="utf-8")
        browser.open(file)
        said = browser.find("id", "own-classes")
        assert said.is_displayed() == bool(words)
        assert words in said.text


# ------------------------------------------------------------------------------------------- drawing


def draw(browser: Browser, *strokes: list[tuple[int, int]]) -> None:
    """Draw lines through points, in pixels from the middle of the canvas."""
    paper, actions = browser.see("#draw .paper"), browser.actions()
    for first, *others in strokes:
        actions.move_to_element_with_offset(paper, *first).click_and_hold()
        for point in others:
            actions.move_to_element_with_offset(paper, *point)
        actions.release()
    actions.perform()
    browser.show()


DIGITS = {  # as strokes
    0: [[(0, -85), (-45, -60), (-55, 0), (-45, 60), (0, 85), (45, 60), (55, 0), (45, -60), (0, -85)]],
    1: [[(0, -90), (0, 90)]],
    2: [[(-50, -50), (-25, -85), (25, -85), (50, -50), (35, -5), (-55, 85), (60, 85)]],
    3: [[(-45, -75), (0, -90), (45, -60), (40, -20), (-10, -5), (45, 20), (50, 60), (0, 90), (-50, 70)]],
    4: [[(-40, -80), (-50, 10), (60, 10)], [(35, -80), (30, 90)]],
    5: [[(50, -80), (-40, -80), (-45, -10), (15, -20), (50, 20), (40, 70), (-10, 88), (-50, 70)]],
    6: [[(30, -85), (-25, -40), (-45, 30), (-25, 80), (25, 80), (45, 40), (15, 10), (-40, 30)]],
    7: [[(-70, -80), (70, -80), (0, 90)]],
    8: [[(0, -5), (-45, -45), (0, -90), (45, -45), (-45, 45), (0, 90), (45, 45), (0, -5)]],
    9: [[(45, -50), (0, -85), (-45, -50), (-10, -10), (45, -45), (40, 20), (20, 90)]],
}


def test_a_drawing_begins_anew_on_a_stored_image_and_is_read_right(opened):
    found = {}
    for label, strokes in DIGITS.items():
        opened.click(f"#draw .samples :nth-child({(label + 3) % 10 + 1})")  # nobody presses Clear
        draw(opened, *strokes)
        found[label] = opened.text("[data-is=best]")
    assert found == {label: str(label) for label in DIGITS}


def test_a_stroke_after_a_pause_begins_a_new_drawing(opened):
    """Nobody presses Clear, and the second stroke of a 4 belongs to the first."""
    found = []
    for label in (7, 4, 8):
        draw(opened, *DIGITS[label])
        found.append(opened.text("[data-is=best]"))
        opened.wait(lambda: opened.driver.find_elements("css selector", "#draw .ground.finished"))
    assert found == ["7", "4", "8"]


def test_during_a_stroke_the_answer_alone_follows(opened):
    """Until the pointer lifts, all else shows the image before, even where it is in view."""
    paper, before = opened.see("#way .paper"), opened.text("#way-says")
    opened.actions().move_to_element_with_offset(paper, 0, -90).click_and_hold().move_by_offset(0, 180).perform()
    opened.wait(lambda: opened.run("return document.querySelector('#way [data-is=best]').textContent") == "1")
    assert opened.run("return document.getElementById('way-says').textContent").replace("\u00a0", " ") == before
    opened.actions().release().perform()
    opened.wait(
        lambda: (
            "it stays a 1" in opened.run("return document.getElementById('way-says').innerText").replace("\u00a0", " ")
        )
    )


def test_an_empty_canvas_says_so_everywhere(opened):
    drag(opened, 3, 5)
    opened.click("#way .clear")
    for place in (
        "[data-is=sure]",
        "#way-says",
        "#unit-equation",
        "#verdict-trained",
        "#verdict-untrained",
        "#answer-says",
    ):
        assert "nothing drawn" in opened.text(place).lower(), place
    assert (opened.text("[data-is=best]"), opened.text("#your-depth")) == ("–", "–")
    assert opened.text("#classes tbody") == "".join(f"{label}––" for label in range(10))
    assert opened.driver.find_elements("css selector", "tr.best") == []
    ink = "return [...document.querySelectorAll('.paper, .strip canvas')].map(c => c.getContext('2d')."
    assert not any(opened.run(f"{ink}getImageData(0, 0, c.width, c.height).data.some(Boolean))"))
    names = "return [...document.querySelectorAll('.paper, .strip [role=img], #means')].map(e => e.ariaLabel)"
    assert [name for name in opened.run(names) if not re.search("nothing drawn|Empty", name)] == []


def test_a_sample_that_is_drawn_big_becomes_itself(opened, log):
    code = """const { pads, show, state } = explorer;
    document.querySelector(`#way [aria-label$='${arguments[0]}']`).click();
    show();  // on both papers
    return [state.pixels, ...pads.map(pad => { pad.look(); return state.pixels; })].map(pixels => [...pixels]);"""
    for label, pixels in enumerate(log.pixels):
        for found in opened.run(code, label):
            assert found == np.ravel(pixels).tolist()


def test_a_drawing_is_scaled_and_moved_into_its_place(opened):
    """A bar of 200 x 50 points becomes one of 20 x 5 pixels in the middle."""
    code = """const n = 280, rgba = new Uint8ClampedArray(4 * n * n);
    for (let y = 30; y < 80; y++) for (let x = 10; x < 210; x++) rgba[4 * (y * n + x) + 3] = 200;
    return [...explorer.asDigit(rgba, n)];"""
    expected = np.zeros((28, 28), int)
    expected[12:17, 5:25] = 200
    np.testing.assert_array_equal(np.reshape(opened.run(code), (28, 28)), expected)


def test_the_centre_of_mass_lies_in_the_middle_and_edges_are_smooth(opened):
    opened.click("#draw .clear")
    draw(opened, [(-110, -100), (-60, 30), (-100, 60)], [(-110, 0), (-30, -20)])
    found = opened.pixels()
    rows, columns = np.nonzero(found)
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    for places in np.indices(found.shape) + 0.5:
        assert 13.9 < np.average(places, weights=found) < 15.1
    assert ((found > 0) & (found < 255)).sum() > 20


# -------------------------------------------------------------------------------------- closing layers


def drag(browser: Browser, start: int, end: int) -> None:
    """Drag over layers, counted from 1."""
    first, last = (browser.see(f"#list :nth-child({l})") for l in (start, end))
    browser.actions().click_and_hold(first).move_to_element(last).release().perform()


def test_a_click_and_a_drag_close_layers_and_open_them_again(opened):
    drag(opened, 12, 12)
    assert opened.closed() == [12]
    drag(opened, 14, 18)
    assert opened.closed() == [12, 14, 15, 16, 17, 18]
    drag(opened, 18, 11)  # the first is closed, so all are opened
    assert opened.closed() == []


ENDS = ("first", "last")


def lesions_of(log: gate_explorer.GateExplorerLog) -> Any:
    nets = load("lesions").read(committed_log("runs/lesions.json")).nets
    (net,) = (net for net in nets if net.source == log.model.source)
    return net


def test_layers_are_closed_from_both_ends(opened, log):
    L = log.model.net["depth"]
    for end, n, expected in (
        ("last", 3, [L - 2, L - 1, L]),
        ("first", 2, [1, 2, L - 2, L - 1, L]),
        ("last", 1, [1, 2, L]),
        ("first", L, list(range(1, L + 1))),
        ("first", 0, []),
    ):
        opened.enter(end, n)
        assert opened.closed() == expected
    drag(opened, 1, 2)
    assert opened.closed() == [1, 2]
    assert (opened.find("id", "first").get_property("value"), opened.text("#first-count")) == ("2", f"2 of {L}")
    opened.click("#reset")
    assert opened.closed() == []


def test_the_page_says_what_was_measured_of_the_closed_layers(opened, log):
    net, L = lesions_of(log), log.model.net["depth"]
    trained, untrained = ({end: net.closings[f"{end} first"].errors[0] for end in ENDS}, log.untrained_errors)
    in_a_row = {("last", 0): [], ("first", 1): [1], ("first", 2): [1, 2], ("last", 2): [L - 1, L]}
    in_a_row["last", L] = [*range(1, L + 1)]
    cases = [(layers, 1 - trained[end][n], untrained[end][n]) for (end, n), layers in in_a_row.items()]
    cases += [([7], net.lesioned_error[6], None), *((layers, None, None) for layers in ([7, 9], [1, 9], [9, L]))]
    for layers, share, error in cases:
        opened.click("#reset")
        for layer in layers if len(layers) < 3 else ():
            drag(opened, layer, layer)
        if len(layers) == L:
            drag(opened, L, 1)
        words = opened.text("#measured")
        assert ("not been measured" if share is None else f" {100 * share:.2f} % of ") in words, layers
        assert error is None or f"untrained net {100 - 100 * error:.2f} %." in words
        marked = opened.run("return [...document.querySelectorAll('#lesions circle')].map(c => c.matches('.closed'))")
        assert (np.flatnonzero(marked) + 1).tolist() == layers


def test_how_many_layers_a_digit_can_spare_is_answered(opened, log):
    net, x = shown_net(log), as_inputs(np.array(log.pixels, np.uint8))
    label, L = 7, net.depth
    answers = {
        end: [int(net.without(order[:k]).predict(x[[label]]).argmax()) for k in range(L + 1)]
        for end, order in (("back", np.arange(L)[::-1]), ("front", np.arange(L)))
    }
    opened.click(f"#way [aria-label$='{label}']")
    drag(opened, L, L)  # it is answered once a layer has been closed
    words = opened.text("#answer-says")
    for end, found in answers.items():
        changed = next((k for k, of in enumerate(found) if of != found[0]), L + 1)
        assert f"with {changed - 1} layers closed from the {end}" in words
    assert f"stays a {label}" in words


def test_the_first_figure_closes_layers_from_the_back_and_then_says_how_many(browser, log):
    browser.open(committed_log("viz/gate_explorer.html"))
    net, x, L = shown_net(log), as_inputs(np.array(log.pixels, np.uint8)), log.model.net["depth"]
    label = int(browser.text("[data-is=best]"))
    kept = [int(net.without(range(L - k, L)).predict(x[[label]]).argmax()) == label for k in range(L + 1)]
    most = kept.index(False) - 1
    assert "How many layers" in browser.text("#spared")
    assert "stays" not in browser.text("#spared") + browser.text("#answer-says")
    browser.enter("closed", most)
    assert browser.closed() == [*range(L - most + 1, L + 1)]
    assert browser.text("[data-is=best]") == str(label)
    assert f"It stays a {label} with up to {most} of {L} layers closed" in browser.text("#spared")
    browser.enter("closed", most + 1)
    assert browser.text("[data-is=best]") != str(label)


def test_errors_by_layer_are_also_a_table(opened, log):
    opened.run("document.getElementById('errors').closest('details').open = true")
    rows = opened.find("id", "errors").text.splitlines()[1:]
    errors = [lesions_of(log).error, *lesions_of(log).lesioned_error]
    names = ["none", *range(1, len(errors))]
    assert rows == [f"{name} {100 * error:.2f} %" for name, error in zip(names, errors, strict=True)]


def test_the_keyboard_does_what_the_mouse_does(opened, log):
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> list[int]:
        opened.driver.switch_to.active_element.send_keys(*keys)
        return opened.closed()

    drag(opened, 1, 1)
    opened.run("document.querySelector('[role=option][tabindex=\"0\"]').focus()")
    assert press(" ") == []
    assert press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, " ") == [3]
    assert press(Keys.SHIFT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT) == [3, 4, 5]
    assert press(Keys.END, Keys.ENTER) == [3, 4, 5, log.model.net["depth"]]
    press(Keys.HOME, Keys.ARROW_LEFT)
    assert opened.driver.switch_to.active_element.accessible_name.startswith("Layer 1,")
    assert opened.run("return document.querySelectorAll('[role=option][tabindex=\"0\"]').length") == 1


# -------------------------------------------------------------------------------------- one digit's way


def test_each_state_is_read_by_the_output_layer(opened, log):
    """The logits after layer l are those of the net whose later layers are closed."""
    net, x = shown_net(log), as_inputs(np.array(log.pixels[:1], np.uint8))
    for l in (0, 1, 30, net.depth):
        opened.enter("step", l)
        found = opened.run(
            "return [...document.querySelectorAll('#classes tbody tr')].map(r => r.lastChild.textContent)"
        )
        expected = net.without(range(l, net.depth)).predict(x)[0]
        np.testing.assert_allclose([float(logit.replace("−", "-")) for logit in found], expected, atol=0.0501)
        assert opened.text("tr.best th") == str(expected.argmax())
        assert f"Read here, it is a {expected.argmax()} " in opened.text("#way-says")


def test_the_way_is_stepped_and_played_to_its_end(opened, log):
    L = log.model.net["depth"]
    for button, expected in (("next", "1"), ("next", "2"), ("back", "1")):
        opened.click(f"#{button}")
        assert opened.text("#where") == f"after layer {expected} of {L}"
    opened.enter("step", L - 3)
    opened.click("#play")
    assert opened.text("#play") == "Pause"
    opened.wait(lambda: opened.text("#where") == f"after layer {L} of {L}")
    assert opened.text("#play") == "Play"


def test_a_click_on_a_map_picks_a_unit_and_shows_its_equation(opened, log):
    opened.actions().move_to_element_with_offset(opened.see("#map-x"), 2, 2).click().perform()
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", opened.text("#unit-equation").replace("−", "-"))]
    layer, unit = (int(opened.find("id", f"at-{of}").get_property("value")) for of in ("layer", "unit"))
    assert (layer, unit) == ((log.model.net["depth"] + 1) / 2, log.model.net["hidden"] / 2 + 1)
    H, x, T, _, y = numbers  # y = (H − x)·T + x
    assert y == pytest.approx((H - x) * T + x, abs=0.01 * (2 + abs(H - x)))
    net = shown_net(log)
    _, cache = net.forward(as_inputs(np.array(log.pixels[0], np.uint8)[None]))
    expected = [of[layer - 1, unit - 1, 0] for of in (cache.H, cache.x, cache.T, cache.x, cache.x[1:])]
    np.testing.assert_allclose(numbers, expected, atol=0.0051)


# --------------------------------------------------------------------------------------------- break it


def test_the_slider_of_depth_shows_the_accuracies_of_the_logs(opened):
    sweep = group(read(committed_log("run_sweep.json"), RunLog[Config], "").runs, "block", "depth")
    log = load("tuned_plain").read(committed_log("runs/tuned_plain.json"))
    tuned = tuned_plain.by_kind(Results(tuned_plain.STUDY[""], log.runs))
    broken = {
        5: "no kind of net is",
        10: "plain nets in one setting are",
        50: "tuned plain nets and plain nets in one setting are",
    }
    for i, depth in enumerate(sorted({depth for _, depth in sweep})):
        opened.enter("depth", i)
        for arm, units in (tuned_plain.PLAIN, tuned_plain.HIGHWAY):
            found = opened.text(f"#readout .{arm}").removeprefix(arm)
            kinds = (tuned[of, units][depth] for of in (arm, arm + tuned_plain.ORTHOGONAL))
            expected = (points(sweep[arm, depth]), *map(accuracies, kinds))
            assert found == "".join(f"{interval(of):.1f}" for of in expected)
        assert opened.text("#broken-says") == f"At {depth} blocks, {broken.get(depth, broken[10])} broken."


def test_intervals_of_few_seeds_and_a_net_without_an_error_stay_within_the_chart(browser, tmp_path):
    """The scale is a logarithm, which has no place for them."""
    text = committed_log("viz/gate_explorer.html").read_text(encoding="utf-8")
    before, content, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', text, maxsplit=1, flags=re.DOTALL)
    content = json.loads(content)
    nets = content["sweep"]["nets"]["highway"]
    nets["means"][0], nets["seeds"][0][0] = [60, 70], 100
    page = tmp_path / "page.html"
    page.write_text(before + json.dumps(content) + after, encoding="utf-8")
    browser.open(page)
    heights = browser.run(
        """return [...document.querySelectorAll("#accuracies :is(line, circle)")].flatMap(
            of => ["y1", "y2", "cy"].map(name => of.getAttribute(name)).filter(Boolean));"""
    )
    assert len(heights) > 20
    assert all(0 <= float(height.removesuffix("%")) <= 100 for height in heights)


# ------------------------------------------------------------------------------------ nets that train


TRAINING = (gate_explorer.ARTICLE / "training.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("block", "init"), [*itertools.product(("plain", "highway"), ("uniform", "orthogonal"))])
def test_nets_train_in_javascript_as_in_numpy(browser, digits, block, init):
    """In double precision the first gradient agrees to 1e-8 of its norm, the losses of twenty steps to 1e-6."""
    kind = {"hidden": 20, "depth": 10, "block": block, "init": init, "gate_bias": -1.0}
    net, lr, clip, size, steps = DeepNet(64, 10, **kind, dtype="float64", rng=1), 5e-3, 1.0, 30, 20
    x, y = as_inputs(digits.train_x[: size * steps], np.float64), digits.train_y[: size * steps]
    losses, gradient = browser.run(
        f"""{TRAINING}
        const [config, weights, x, y, lr, clip, B] = arguments, net = new DeepNet(config), w = net.workspace(B);
        net.flat.set(weights);
        const optimizer = new Adam(net.flat, lr), samples = {{ x: Float64Array.from(x), y: Uint8Array.from(y) }};
        const losses = [];
        let gradient = null;
        for (let start = 0; start < y.length; start += B) {{
            fill(w, samples, Array.from({{ length: B }}, (_, i) => start + i));
            losses.push(trainStep(net, w, optimizer, gradient ? clip : Infinity));
            gradient ??= [...w.gradient];
        }}
        return [losses, gradient];""",
        *({"d_in": 64, "d_out": 10} | kind, net.params.flat.tolist(), x.ravel().tolist(), y.tolist(), lr, clip, size),
    )
    optimizer, expected = Adam(net.params, lr), []
    for step in range(steps):
        part = slice(step * size, (step + 1) * size)
        logits, cache = net.forward(x[part])
        loss, dlogits = softmax_cross_entropy(logits, y[part])
        grads = net.backward(dlogits, cache)
        if step == 0:
            assert np.linalg.norm(grads.flat - gradient) < 1e-8 * np.linalg.norm(grads.flat)
            np.testing.assert_allclose(gradient, grads.flat, rtol=0, atol=1e-8)
        clip_global_norm(grads, clip if step else np.inf)
        optimizer.step(grads)
        expected.append(loss)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 20), (20, 64), (64, 20)])
def test_orthogonal_weights_are_orthonormal(browser, shape):
    code = f"{TRAINING}\nreturn drawWeights('orthogonal', mulberry32(arguments[0]), ...arguments[1])"
    for seed in range(5):
        W = np.array(browser.run(code, seed, shape))
        Q = W if shape[0] >= shape[1] else W.T
        np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), rtol=0, atol=1e-12)
    expected = INITS["orthogonal"](gate_explorer.SmallGenerator(4), shape)
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-10)


def train(browser: Browser, button: str) -> list[float]:
    """Press a button that trains a net; returns its accuracy after each epoch."""
    browser.click(button)
    browser.wait(lambda: browser.run("const { scores } = explorer.runs.at(-1); return scores.length > 12"))
    return browser.run("return explorer.runs.at(-1).scores")


def test_a_visitor_trains_nets_whose_curves_stay(opened):
    opened.click("#lab-clear")
    assert opened.text("#lab-logged") == ""
    for name, value in (("lab-depth", 2), ("lab-rate", 0.01), ("lab-bias", -2)):
        opened.enter(name, value)
    first = train(opened, "#lab-train")
    assert first[-1] > 0.9
    opened.click("[name=lab-block][value=highway]")
    train(opened, "#lab-train")
    opened.show()
    rows = opened.run(
        "return [...document.querySelectorAll('#lab-runs tbody tr')].map(row => [...row.cells].map(c => c.textContent))"
    )
    assert [row[:-1] for row in rows] == [
        ["1", "2", "plain", "uniform", "", "0.01"],
        ["2", "2", "highway", "uniform", "−2", "0.01"],
    ]
    assert rows[0][-1].replace("\u00a0", " ") == f"{100 * first[-1]:.1f} %"
    assert [
        len(opened.driver.find_elements("css selector", f"#lab-curves line.{kind}")) for kind in ("past", "mean")
    ] == [12, 12]
    opened.wait(lambda: "Net 2, a highway net of 2 blocks" in opened.text("#spoken"))
    assert opened.driver.get_log("browser") == []


def test_nets_that_were_trained_before_appear_after_the_visitors_own(opened):
    opened.click("#lab-clear")
    assert opened.driver.find_elements("css selector", "#lab-curves line.faint") == []
    train(opened, "#steps button")
    assert opened.text("#lab-logged").startswith("Faint: 20 nets of the chosen setting")
    assert len(opened.driver.find_elements("css selector", "#lab-curves line.faint")) == 20 * 12
    opened.enter("lab-depth", 6)
    assert opened.driver.find_elements("css selector", "#lab-curves line.faint") == []


def test_a_training_is_stopped(opened):
    opened.enter("lab-depth", 100)
    opened.click("#lab-train")
    opened.wait(lambda: opened.run("return explorer.runs.at(-1).scores.length") > 0)
    opened.show()
    opened.click("#lab-stop")
    assert "stopped at epoch" in opened.text("#lab-says")
    assert opened.run("return document.getElementById('lab-stop').disabled")


# ----------------------------------------------------------------------------------------------- touch


def touch(browser: Browser, x: float, y: float, dx: int, dy: int) -> None:
    """Put a finger down at a place of the window, move it by this much, and lift it."""

    times = itertools.count(time.time() - 1, 0.1)  # of each event, in seconds: the page does not scroll on by itself

    def dispatch(kind: str, *points: dict) -> None:
        event = {"type": kind, "touchPoints": points, "timestamp": next(times)}
        browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", event)

    dispatch("touchStart", {"x": x, "y": y})
    for part in (0.3, 0.7, 1) if dx or dy else ():
        dispatch("touchMove", {"x": x + dx * part, "y": y + dy * part})
    dispatch("touchEnd")


def swipe(browser: Browser, selector: str, dx: int, dy: int) -> float:
    """Swipe, or tap, in the middle of an element; returns by how many pixels the page scrolled."""
    x, y, top = browser.run(
        """const element = document.querySelector(arguments[0]); element.scrollIntoView({block: "center"});
        const {left, top, width, height} = element.getBoundingClientRect();
        return [left + width / 2, top + height / 2, scrollY];""",
        selector,
    )
    touch(browser, x, y, dx, dy)
    next_frame = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0](scrollY)))"
    return browser.driver.execute_async_script(next_frame) - top


def test_a_vertical_swipe_over_layers_and_maps_scrolls_and_does_nothing_else(phone):
    sliders = ("#last", "#first", "#step", "#depth")
    for selector in ("#list", ".strip.by-unit", "#accuracies", *sliders):
        assert swipe(phone, selector, 0, -200) > 100, selector
    for selector in sliders:
        assert phone.run("return document.querySelector(arguments[0]).value", selector) == "0", selector
    assert phone.closed() == []
    assert phone.text("#where") == "after the plain layer"


def test_a_tap_closes_a_layer_and_a_sideways_swipe_several(phone):
    assert swipe(phone, "#list", 0, 0) == 0
    (tapped,) = phone.closed()
    assert tapped == 25
    phone.click("#reset")
    assert swipe(phone, "#list", 120, 0) == 0
    closed = phone.closed()
    assert closed == [*range(closed[0], closed[-1] + 1)]
    assert len(closed) > 10
    assert swipe(phone, ".strip.by-unit", 0, 0) == 0
    assert phone.text("#where").startswith("after layer 25 ")


def test_a_finger_sees_which_layer_it_hides(phone):
    x, y = phone.run(
        """const list = document.getElementById("list"); list.scrollIntoView({ block: "center" });
        const { left, top, width, height } = list.getBoundingClientRect();
        return [left + width / 2, top + height / 2];"""
    )
    events = (("touchStart", [{"x": x, "y": y}]), ("touchMove", [{"x": x + 40, "y": y}]), ("touchEnd", []))
    shown = []
    for kind, points_of_touch in events:
        phone.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points_of_touch})
        shown.append(phone.find("id", "loupe").text)
    assert shown == ["", f"layer {phone.closed()[-1]} closed", ""]


def test_a_finger_draws_above_the_fold(phone):
    place = phone.run("return document.querySelector('#draw .paper').getBoundingClientRect().toJSON()")
    assert 150 < place["width"] < 250  # room beside it to scroll
    assert place["bottom"] < 640
    phone.click("#draw .clear")
    phone.run("scrollTo(0, 0)")
    place = {
        "x": place["x"] + 100,
        "y": place["y"] + 30,
        "xDistance": 0,
        "yDistance": 130,
        "gestureSourceType": "touch",
    }
    phone.driver.execute_cdp_cmd("Input.synthesizeScrollGesture", place | {"speed": 4000, "preventFling": True})
    assert phone.text("[data-is=best]") == "1"
    assert phone.run("return scrollY") == 0


# ----------------------------------------------------------------------------------- the page as such


def test_it_fetches_nothing_and_has_no_complaint(browser):
    browser.open(committed_log("viz/gate_explorer.html"))
    browser.click("[value=untrained]")
    drag(browser, 5, 8)
    browser.show()
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.driver.get_log("browser") == []


@pytest.mark.parametrize("width", [360, 800, 1600])  # pixels: a phone, a tablet, a large screen
def test_it_fits_its_window_and_can_be_touched(opened, width):
    opened.resize(width, "dark")
    opened.run("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    small = """return [...document.querySelectorAll('button, input:not([type=radio]), label')].filter(element => {
        const { width, height } = element.getBoundingClientRect(); return Math.min(width, height) < 24;
    }).map(element => element.outerHTML);"""
    found = opened.run("return document.documentElement.scrollWidth"), opened.run(small)
    assert not re.search(r"\d[ \n]%", opened.run("return document.body.innerText"))  # no % stands alone on a line
    opened.run("document.querySelectorAll('details').forEach(details => { details.open = false; })")
    opened.resize(1600)
    assert found == (width, [])


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_moves_when_words_change(opened, width, log):
    opened.resize(width)
    L = log.model.net["depth"]
    changes = [
        ("last", 19),
        ("last", L),
        ("first", L),
        ("first", 4),
        *(("depth", i) for i in range(5)),
        ("closed", 9),
        ("step", 1),
    ]
    changes += [("step", 9), ("step", L), "[value=untrained]", "#draw .clear", "[value=trained]"]
    changes += [f"#way .samples button:nth-child({i})" for i in (8, 10)]
    moved = opened.run(
        """const elements = [...document.querySelectorAll("h2, h3, svg, .strip, button, details, footer")];
        const places = () => elements.map(of => Math.round(of.getBoundingClientRect().top + scrollY)).join();
        const before = places();
        return arguments[0].filter(change => {
            const [name, value] = Array.isArray(change) ? change : [], field = document.getElementById(name);
            if (field) { field.value = value; field.dispatchEvent(new Event("input")); }
            else document.querySelector(change).click();
            explorer.show();
            return places() !== before;
        });""",
        changes,
    )
    opened.resize(1600)
    assert moved == []


def test_every_control_and_picture_has_a_name(opened):
    nodes = opened.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in (
        "button",
        "slider",
        "radio",
        "region",
        "image",
        "listbox",
        "option",
        "radiogroup",
        "link",
        "figure",
        "table",
    ):
        assert all(names[role]), (role, names[role])
    assert not [name for name in names["region"] if not name[0].isalpha()]  # no number of a part without its digit


def test_images_to_pick_are_one_stop_of_the_tab_key(opened):
    from selenium.webdriver.common.keys import Keys

    stops = """return [...document.querySelectorAll(".samples")].map(group =>
        group.querySelectorAll("[tabindex='0']").length)"""
    assert opened.run(stops) == [1, 1]
    opened.find("css selector", "#draw .samples button").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.SPACE)
    assert opened.text("[data-is=best]") == "2"
    assert opened.run(stops) == [1, 1]


def test_a_screen_reader_hears_the_findings_after_a_pause(opened):
    status = opened.find("id", "spoken")
    assert status.aria_role == "status"
    for act, words in (
        (lambda: drag(opened, 30, 30), "1 layer closed: the trained net sees a 0"),
        (lambda: opened.enter("step", 3), "it stays a 0"),
        (lambda: opened.enter("depth", 1), "At 10 blocks, plain nets in one setting are broken"),
    ):
        act()
        opened.wait(lambda words=words: words in opened.text("#spoken"))


def test_a_screen_reader_hears_no_old_result_when_another_net_is_chosen(opened):
    train(opened, "#steps button")
    opened.wait(lambda: "Net" in opened.text("#spoken"))
    opened.enter("lab-depth", 7)
    opened.wait(lambda: opened.text("#spoken") == "")
