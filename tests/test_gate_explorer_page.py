"""The gate explorer in a browser: it computes as Python does, mouse and keyboard work, nothing is fetched.

Skipped without Chromium, its driver or selenium. One browser serves all tests of this file.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, log_of_net
from picture_helpers import committed_log

from experiments import lesions
from experiments.beyond import gate_explorer
from highway_lab.datasets import as_inputs
from highway_networks import DeepNet

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
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.get_log("browser")
        self.driver.get(page.as_uri())
        WebDriverWait(self.driver, 60).until(lambda _: self.run("return Boolean(window.explorer)"))

    def resize(self, width: int, scheme: str) -> None:
        """Resize the window to this width in pixels, for a visitor who prefers this colour scheme."""
        size = {"width": width, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def enter(self, name: str, value: int) -> None:
        """Move a slider, or type a number."""
        code = "const [name, value] = arguments, field = document.getElementById(name); field.value = value;"
        self.run(f"{code} for (const type of ['input', 'change']) field.dispatchEvent(new Event(type))", name, value)
        self.show()

    def text(self, selector: str) -> str:
        """Return the text of an element in the current state."""
        self.show()
        return self.find("css selector", selector).get_property("textContent")

    def show(self) -> None:
        """Show the current state now, not in the next frame."""
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
    browser.resize(1600, "light")
    yield browser
    driver.quit()


@pytest.fixture
def log() -> gate_explorer.GateExplorerLog:
    return gate_explorer.EXPERIMENT.read(committed_log("runs/gate_explorer.json"))


@pytest.fixture
def opened(browser) -> Browser:
    """Return the browser with the committed page in its initial state."""
    page = committed_log("viz/gate_explorer.html")
    if browser.run("return location.href") != page.as_uri():
        browser.open(page)
    for selector in ("#reset", "[value=trained]", "#samples button"):
        browser.click(selector)
    browser.show()
    return browser


# ------------------------------------------------------------------------------------------- the net


@pytest.mark.parametrize(("activation", "init"), [("tanh", "glorot"), ("relu", "uniform"), ("elu", "gaussian")])
def test_a_page_of_another_net_shows_that_net(browser, digits, workdir, activation, init):
    net = DeepNet(64, 10, hidden=7, depth=4, activation=activation, init="he", rng=np.random.default_rng(1))
    net.config["init"] = init
    net.save("mine.npz")
    assert gate_explorer.EXPERIMENT.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    log = log_of_net("gate_explorer-digits", "mine.npz")
    assert gate_explorer.EXPERIMENT.main(["plot", str(log)]) == 0
    browser.open(workdir / "viz" / log.stem.removeprefix("gate_explorer-") / "gate_explorer.html")
    images = digits.test_x[:50]
    found = browser.logits(images, ("trained", ()), ("untrained", ()), ("trained", (1, 3)))
    x = as_inputs(images)
    expected = (net.predict(x), gate_explorer.untrained(net).predict(x), net.without((1, 3)).predict(x))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert "No log of lesions" in browser.text("#measured")
    assert browser.driver.get_log("browser") == []


# ------------------------------------------------------------------------------------------- drawing


def draw(browser: Browser, *strokes: list[tuple[int, int]]) -> None:
    """Draw lines through points, in pixels from the middle of the canvas."""
    paper, actions = browser.find("id", "paper"), browser.actions()
    for first, *others in strokes:
        actions.move_to_element_with_offset(paper, *first).click_and_hold()
        for point in others:
            actions.move_to_element_with_offset(paper, *point)
        actions.release()
    actions.perform()
    browser.show()


def test_a_stroke_changes_the_prediction(opened):
    for label, stroke in (("1", [(0, -90), (0, 90)]), ("7", [(-70, -80), (70, -80), (0, 90)])):
        opened.click("#clear")
        assert not opened.pixels().any()
        assert "nothing drawn" in opened.text("#summary")
        draw(opened, stroke)
        assert (opened.text("tr.best th"), opened.text("#best")) == (label, label)


def test_a_sample_that_is_drawn_big_becomes_itself(opened, log):
    for label, pixels in enumerate(log.pixels):
        opened.click(f"#samples [aria-label$='{label}']")
        np.testing.assert_array_equal(opened.pixels(), pixels)
        opened.run("explorer.drawing.look()")
        np.testing.assert_array_equal(opened.pixels(), pixels)


def test_a_drawing_is_scaled_and_moved_into_its_place(opened):
    """A bar of 200 x 50 points becomes one of 20 x 5 pixels in the middle."""
    code = """const n = 280, rgba = new Uint8ClampedArray(4 * n * n);
    for (let y = 30; y < 80; y++) for (let x = 10; x < 210; x++) rgba[4 * (y * n + x) + 3] = 200;
    return [...explorer.asDigit(rgba, n)];"""
    expected = np.zeros((28, 28), int)
    expected[12:17, 5:25] = 200
    np.testing.assert_array_equal(np.reshape(opened.run(code), (28, 28)), expected)


def test_the_centre_of_mass_lies_in_the_middle_and_edges_are_smooth(opened):
    opened.click("#clear")
    draw(opened, [(-120, -100), (-60, 30), (-100, 60)], [(-110, 0), (-30, -20)])
    found = opened.pixels()
    rows, columns = np.nonzero(found)
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    for places in np.indices(found.shape) + 0.5:
        assert 13.9 < np.average(places, weights=found) < 15.1
    assert ((found > 0) & (found < 255)).sum() > 20


# -------------------------------------------------------------------------------------- closing layers


def drag(browser: Browser, start: int, end: int) -> None:
    """Drag over layers, counted from 1."""
    options = browser.driver.find_elements("css selector", "[role=option]")
    browser.actions().click_and_hold(options[start - 1]).move_to_element(options[end - 1]).release().perform()


def test_a_click_and_a_drag_close_layers_and_open_them_again(opened):
    drag(opened, 12, 12)
    assert opened.closed() == [12]
    drag(opened, 14, 18)
    assert opened.closed() == [12, 14, 15, 16, 17, 18]
    drag(opened, 18, 11)  # the first is closed, so all are opened
    assert opened.closed() == []


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
    nets = lesions.EXPERIMENT.read(committed_log("runs/lesions.json")).nets
    (net,) = (net for net in nets if net.source == log.model.source)
    first, last = (net.closings[f"{end} first"].errors[0] for end in ("first", "last"))
    L = len(net.lesioned_error)
    closed = ([], [1], [1, 2], [7], [L - 1, L], [7, 9], [1, 9], [9, L])
    errors = (net.error, net.lesioned_error[0], first[2], net.lesioned_error[6], last[2], None, None, None)
    for layers, error in zip(closed, errors, strict=True):
        opened.click("#reset")
        for layer in layers:
            drag(opened, layer, layer)
        expected = "not been measured" if error is None else f"it gets {100 * error:.2f}\N{NO-BREAK SPACE}% of "
        assert expected in opened.text("#measured"), layers
        marked = opened.run("return [...document.querySelectorAll('circle')].map(c => c.matches('.closed'))")
        assert (np.flatnonzero(marked) + 1).tolist() == layers


def test_the_keyboard_does_what_the_mouse_does(opened, log):
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> list[int]:
        opened.driver.switch_to.active_element.send_keys(*keys)
        return opened.closed()

    drag(opened, 1, 1)
    opened.run("document.querySelector('[role=option][tabindex=\"0\"]').focus()")
    assert press(" ") == []
    assert press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, " ") == [3]
    assert press(Keys.SHIFT, Keys.ARROW_DOWN, Keys.ARROW_DOWN) == [3, 4, 5]
    assert press(Keys.END, Keys.ENTER) == [3, 4, 5, log.model.net["depth"]]
    press(Keys.HOME, Keys.ARROW_UP)
    assert opened.driver.switch_to.active_element.accessible_name.startswith("Layer 1,")
    assert opened.run("return document.querySelectorAll('[role=option][tabindex=\"0\"]').length") == 1


def test_a_click_on_a_map_picks_a_unit_and_shows_its_equation(opened, log):
    opened.actions().move_to_element_with_offset(opened.find("id", "map-y"), 2, 2).click().perform()
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", opened.text("#equation").replace("−", "-"))]
    layer, unit = (int(opened.find("id", f"at-{of}").get_property("value")) for of in ("layer", "unit"))
    middle = (log.model.net["depth"] + 1) / 2, log.model.net["hidden"] / 2 + 1
    assert (layer, unit) == middle
    H, T, x, carry, y = numbers
    assert carry == pytest.approx(1 - T, abs=0.011)
    assert y == pytest.approx(H * T + x * carry, abs=0.01 * (2 + abs(H) + abs(x)))
    net = DeepNet.load(ROOT / log.model.source.file)
    _, cache = net.forward(as_inputs(np.array(log.pixels[0], np.uint8)[None]))
    expected = [of[layer - 1, unit - 1, 0] for of in (cache.H, cache.T, cache.x, 1 - cache.T, cache.x[1:])]
    np.testing.assert_allclose(numbers, expected, atol=0.0051)


def test_layer_1_shows_the_weights_of_its_input_as_an_image(opened):
    for layer, shown in ((1, True), (2, False)):
        opened.enter("at-layer", layer)
        assert opened.find("id", "W_in").is_displayed() == shown
        assert opened.find("id", "W_T").is_displayed()


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
    small = """return [...document.querySelectorAll('button, input:not([type=radio]), label')].filter(element => {
        const { width, height } = element.getBoundingClientRect(); return Math.min(width, height) < 24;
    }).map(element => element.outerHTML);"""
    found = opened.run("return document.documentElement.scrollWidth"), opened.run(small)
    opened.resize(1600, "light")
    assert found == (width, [])


def test_every_control_and_picture_has_a_name(opened):
    for kind in ("button", "input", "section", *(f"[role={role}]" for role in ("img", "listbox", "option", "group"))):
        found = opened.driver.find_elements("css selector", kind)[:20]
        assert found, kind
        assert [e.get_attribute("outerHTML") for e in found if e.is_displayed() and not e.accessible_name] == []


def test_a_screen_reader_hears_the_prediction_after_a_pause(opened):
    from selenium.webdriver.support.ui import WebDriverWait

    status = opened.find("id", "spoken")
    assert status.aria_role == "status"
    opened.click("#samples button:nth-child(5)")
    drag(opened, 30, 30)
    WebDriverWait(opened.driver, 60).until(lambda _: "1\N{NO-BREAK SPACE}closed" in status.get_property("textContent"))
    for words in ("a 4, ", "effective depth"):
        assert words in status.get_property("textContent")
