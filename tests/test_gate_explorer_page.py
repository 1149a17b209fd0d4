"""The gate explorer in a browser: it computes as Python does; mouse, keyboard and touch work; nothing is fetched.

Skipped without Chromium, its driver or selenium. One browser serves all tests of this file.
"""

import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, log_of_net
from picture_helpers import committed_log
from test_gate_explorer import as_the_page

from experiments.common import load
from experiments.looks import gate_explorer
from highway_lab.nets import without
from highway_networks import Adam, DeepNet, as_inputs, clip_global_norm, softmax_cross_entropy

pytestmark = pytest.mark.browser
PAGE = "viz/gate_explorer.html"
TRAINING = (gate_explorer.ARTICLE / "training.js").read_text(encoding="utf-8")


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
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}.items()
        features = [{"name": name, "value": value} for name, value in features]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def see(self, selector: str) -> Any:
        """Return the first such element, scrolled to the middle of the window."""
        element = self.find("css selector", selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        return element

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click(); explorer.show()", selector)

    def enter(self, name: str, value: int) -> None:
        """Move a slider, or type a number."""
        code = "const [name, value] = arguments, field = document.getElementById(name); field.value = value;"
        code += "for (const type of ['input', 'change']) field.dispatchEvent(new Event(type)); explorer.show()"
        self.run(code, name, value)

    def text(self, selector: str) -> str:
        """Return the text of an element in the current state; a space that does not break is a space."""
        code = "explorer.show(); return document.querySelector(arguments[0]).textContent.replaceAll('\\u00a0', ' ')"
        return self.run(code, selector)

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements("css selector", selector))

    def drag(self, start: int, end: int) -> list[int]:
        """Drag over layers, counted from 1; returns those that are closed then."""
        first, last = (self.see(f"#list :nth-child({l})") for l in (start, end))
        self.actions().click_and_hold(first).move_to_element(last).release().perform()
        return self.closed()

    def closed(self) -> list[int]:
        """Return the closed layers, counted from 1."""
        selected = "return [...document.querySelectorAll('[role=option]')].map(o => o.ariaSelected === 'true')"
        return (np.flatnonzero(self.run(f"explorer.show(); {selected}")) + 1).tolist()

    def draw(self, *strokes: list[tuple[int, int]]) -> None:
        """Draw lines through points, in pixels from the middle of the canvas."""
        paper, actions = self.see("#draw .paper"), self.actions()
        for first, *others in strokes:
            actions.move_to_element_with_offset(paper, *first).click_and_hold()
            for point in others:
                actions.move_to_element_with_offset(paper, *point)
            actions.release()
        actions.perform()

    def actions(self) -> Any:
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver, duration=0)

    def logits(self, images: np.ndarray, *variants: tuple[str, tuple[int, ...]]) -> np.ndarray:
        """Return the page's logits (variants, n, K) of images (n, ...), uint8; a variant: net, closed layers."""
        code = """const [images, variants] = arguments, { forward, nets, state, asInputs } = explorer;
        return variants.map(([net, closed]) => images.map(pixels => [
            ...forward(nets[net], asInputs(pixels), state.closed.map((_, l) => closed.includes(l))).logits]));"""
        return np.array(self.run(code, images.reshape(len(images), -1).tolist(), variants))

    def train(self, button: str) -> list[float]:
        """Press a button that trains a net; returns its accuracy after each epoch."""
        self.click(button)
        self.wait(lambda: self.run("return explorer.runs.at(-1).scores.length > 12"))
        return self.run("return explorer.runs.at(-1).scores")


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
def log() -> gate_explorer.Explored:
    return load("gate_explorer").read(committed_log("runs/gate_explorer.json")).runs[0].measured


@pytest.fixture(scope="module")
def shown(log) -> tuple[DeepNet, np.ndarray]:
    """Return the net of the page, with the weights that the page has, and its ten images as inputs."""
    return as_the_page(DeepNet.load(ROOT / log.file)), as_inputs(np.array(log.pixels, np.uint8))


@pytest.fixture
def opened(browser) -> Browser:
    """Return the browser with the committed page in its initial state."""
    page = committed_log(PAGE)
    if browser.run("return location.href") != page.as_uri():
        browser.open(page)
    for selector in ("#reset", "[value=trained]", "#draw .samples button"):
        browser.click(selector)
    for slider in ("step", "depth"):
        browser.enter(slider, 0)
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


# ------------------------------------------------------------------------------------------- the net


@pytest.mark.parametrize(
    ("block", "activation", "init"),
    [("highway", "tanh", "orthogonal"), ("highway-uncoupled", "relu", "uniform"), ("highway", "elu", "gaussian")],
)
def test_a_page_of_another_net_shows_that_net(browser, digits, workdir, block, activation, init):
    kind = {"block": block, "activation": activation, "init": "he", "init_gain": 1.1}
    net = DeepNet(64, 10, hidden=7, depth=4, **kind, rng=np.random.default_rng(1))
    net.config["init"] = init
    net.save("mine.npz")
    lesioned = activation == "elu"
    for experiment in (load("gate_explorer"), *([load("lesions")] if lesioned else [])):
        assert experiment.main(["run", "--dataset", "digits", "--model", "mine.npz"]) == 0
    log = log_of_net("gate_explorer-digits", "mine.npz")
    assert load("gate_explorer").main(["plot", log.as_posix()]) == 0
    browser.open(Path("viz", log.stem.removeprefix("gate_explorer-"), "gate_explorer.html").absolute())
    images = digits.test_x[:50]
    found, x = browser.logits(images, ("trained", ()), ("untrained", ()), ("trained", (1, 3))), as_inputs(images)
    as_the_page(net)
    expected = (net.predict(x), gate_explorer.untrained(net).predict(x), without(net, (1, 3)).predict(x))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    for name, there in (("sweep", False), ("measured", lesioned), ("others", False), ("own-block", block != "highway")):
        assert browser.find("id", name).is_displayed() == there
    assert browser.text("[data-is=block]") == block
    assert browser.text("#formula") == ("(H − x)·T + x" if block == "highway" else "H·T + x·C")
    assert ("(one image: 0.07)" in browser.text("#end")) == lesioned  # of 1,437
    assert browser.driver.get_log("browser") == []


def test_a_net_that_reads_other_things_than_digits_says_so(browser, tmp_path):
    text = committed_log(PAGE).read_text(encoding="utf-8")
    before, content, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', text, maxsplit=1, flags=re.DOTALL)
    for changed, words in (
        ({"classes": [*"0123456789"]}, ""),
        ({"of_digits": False, "classes": [*"ABCDEFGHIJ"]}, "where 0 is A, 1 is B, 2 is"),
        ({"of_digits": False, "dataset": "fashion-MNIST"}, "on fashion-MNIST: a digit that it sees is the number"),
    ):
        page = before + json.dumps(json.loads(content) | changed) + after
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        browser.open(tmp_path / "page.html")
        said = browser.find("id", "own-classes")
        assert said.is_displayed() == bool(words)
        assert words in said.text


# ------------------------------------------------------------------------------------------- drawing


DIGITS = {  # as strokes
    2: [[(-50, -50), (-25, -85), (25, -85), (50, -50), (35, -5), (-55, 85), (60, 85)]],
    4: [[(-40, -80), (-50, 10), (60, 10)], [(35, -80), (30, 90)]],
    7: [[(-70, -80), (70, -80), (0, 90)]],
}


def test_a_drawing_begins_anew_on_a_stored_image_or_after_a_pause_and_is_read_right(opened):
    """Nobody presses Clear, and the second stroke of a 4 belongs to the first."""
    for label, strokes in DIGITS.items():
        opened.click(f"#draw .samples :nth-child({(label + 3) % 10 + 1})")
        opened.draw(*strokes)
        assert opened.text("[data-is=best]") == str(label)
    opened.wait(lambda: opened.count("#draw .ground.finished"))
    opened.draw(*DIGITS[4])
    assert opened.text("[data-is=best]") == "4"


def test_an_empty_canvas_says_so_everywhere(opened):
    opened.drag(3, 5)
    opened.click("#way .clear")
    for place in ("[data-is=sure]", "#way-says", "#unit-equation", "#verdict-trained", "#answer-says"):
        assert "nothing drawn" in opened.text(place).lower(), place
    assert (opened.text("[data-is=best]"), opened.text("#your-depth"), opened.count("tr.best")) == ("–", "–", 0)
    assert opened.text("#classes tbody") == "".join(f"{label}––" for label in range(10))


def test_a_sample_becomes_itself_and_a_drawing_is_scaled_and_moved_into_its_place(opened, log):
    code = """const { pads, show, state } = explorer;
    document.querySelector(`#way [aria-label$='${arguments[0]}']`).click();
    show();  // on both papers
    return [state.pixels, ...pads.map(pad => { pad.look(); return state.pixels; })].map(pixels => [...pixels]);"""
    for label in (0, 7):
        for found in opened.run(code, label):
            assert found == np.ravel(log.pixels[label]).tolist()
    code = """const n = 280, rgba = new Uint8ClampedArray(4 * n * n);
    for (let y = 30; y < 80; y++) for (let x = 10; x < 210; x++) rgba[4 * (y * n + x) + 3] = 200;
    return [...explorer.asDigit(rgba, n)];"""  # a bar of 200 x 50 points becomes one of 20 x 5 pixels in the middle
    expected = np.zeros((28, 28), int)
    expected[12:17, 5:25] = 200
    np.testing.assert_array_equal(np.reshape(opened.run(code), (28, 28)), expected)
    opened.click("#draw .clear")
    opened.draw([(-110, -100), (-60, 30), (-100, 60)], [(-110, 0), (-30, -20)])
    found = np.reshape(opened.run("explorer.show(); return [...explorer.state.pixels]"), (28, 28))
    assert max(map(np.ptp, np.nonzero(found))) + 1 == 20
    for places in np.indices(found.shape) + 0.5:
        assert 13.9 < np.average(places, weights=found) < 15.1, "the centre of mass"
    assert ((found > 0) & (found < 255)).sum() > 20, "smooth edges"


# -------------------------------------------------------------------------------------- closing layers


def test_layers_are_closed_by_clicks_drags_keys_and_from_both_ends(opened, log):
    from selenium.webdriver.common.keys import Keys

    L = len(log.trained.layers)
    assert opened.drag(12, 12) == [12]
    assert opened.drag(14, 18) == [12, 14, 15, 16, 17, 18]
    assert opened.drag(18, 11) == []  # the first is closed, so all are opened
    for end, n, expected in (
        ("last", 3, [L - 2, L - 1, L]),
        ("first", 2, [1, 2, L - 2, L - 1, L]),
        ("last", 1, [1, 2, L]),
        ("first", L, list(range(1, L + 1))),
        ("first", 0, []),
    ):
        opened.enter(end, n)
        assert opened.closed() == expected
    assert opened.drag(1, 2) == [1, 2]
    assert (opened.find("id", "first").get_property("value"), opened.text("#first-count")) == ("2", f"2 of {L}")

    def press(*keys: str) -> list[int]:
        opened.driver.switch_to.active_element.send_keys(*keys)
        return opened.closed()

    opened.click("#reset")
    opened.drag(1, 1)
    opened.run("document.querySelector('[role=option][tabindex=\"0\"]').focus()")
    assert press(" ") == []
    assert press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, " ") == [3]
    assert press(Keys.SHIFT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT) == [3, 4, 5]
    assert press(Keys.END, Keys.ENTER) == [3, 4, 5, L]
    press(Keys.HOME, Keys.ARROW_LEFT)
    assert opened.driver.switch_to.active_element.accessible_name.startswith("Layer 1,")


def test_the_page_says_what_was_measured_of_the_closed_layers(opened, log):
    runs, L = load("lesions").read(committed_log("runs/lesions.json")).runs, len(log.trained.layers)
    (net,) = (run.measured for run in runs if run.measured.sha256 == log.sha256)
    trained, untrained = net.closed_from_front, log.untrained_errors["first"]
    cases = [(range(1, k + 1), 1 - trained[k], untrained[k]) for k in (1, 2, L)]
    cases += [([7], net.errors[6], None), *((layers, None, None) for layers in ([7, 9], [9, L]))]
    for layers, share, error in cases:
        opened.click("#reset")
        for layer in layers if len(layers) < 3 else ():
            opened.drag(layer, layer)
        if len(layers) == L:
            opened.drag(L, 1)
        words = opened.text("#measured")
        assert ("not been measured" if share is None else f" {100 * share:.2f} % of ") in words, layers
        assert error is None or f"untrained net {100 - 100 * error:.2f} %." in words
        marked = opened.run("return [...document.querySelectorAll('#lesions circle')].map(c => c.matches('.closed'))")
        assert (np.flatnonzero(marked) + 1).tolist() == [*layers]
    opened.run("document.getElementById('errors').closest('details').open = true")
    rows = zip(["none", *range(1, L + 1)], [net.errors[-1], *net.errors[:-1]], strict=True)
    assert opened.find("id", "errors").text.splitlines()[1:] == [f"{name} {100 * of:.2f} %" for name, of in rows]


def test_how_many_layers_a_digit_can_spare_is_answered(browser, shown):
    (net, x), L = shown, shown[0].depth

    def spared(label: int, order: np.ndarray) -> int:
        found = [int(without(net, order[:k]).predict(x[[label]]).argmax()) == label for k in range(L + 1)]
        return [*found, False].index(False) - 1

    browser.open(committed_log(PAGE))
    label = int(browser.text("[data-is=best]"))
    assert "How many layers" in browser.text("#spared")
    browser.enter("closed", most := spared(label, np.arange(L)[::-1]))
    assert browser.closed() == [*range(L - most + 1, L + 1)]
    assert browser.text("[data-is=best]") == str(label)
    assert f"It stays a {label} with up to {most} of {L} layers closed" in browser.text("#spared")
    browser.enter("closed", most + 1)
    assert browser.text("[data-is=best]") != str(label)
    browser.click("#way [aria-label$='7']")
    words = browser.text("#answer-says")
    for end, order in (("back", np.arange(L)[::-1]), ("front", np.arange(L))):
        assert f"with {spared(7, order)} layers closed from the {end}" in words


# -------------------------------------------------------------------------------------- one digit's way


def test_the_way_is_stepped_and_played_and_each_state_is_read_by_the_output_layer(opened, shown):
    """The logits after layer l are those of the net whose later layers are closed."""
    (net, x), L = shown, shown[0].depth
    for l in (0, 1, 30, L):
        opened.enter("step", l)
        logits = "return [...document.querySelectorAll('#classes tbody tr')].map(r => r.lastChild.textContent)"
        expected = without(net, range(l, L)).predict(x[:1])[0]
        found = [float(logit.replace("−", "-")) for logit in opened.run(logits)]
        np.testing.assert_allclose(found, expected, atol=0.0501)
        assert opened.text("tr.best th") == str(expected.argmax())
        assert f"Read here, it is a {expected.argmax()} " in opened.text("#way-says")
    opened.enter("step", 0)
    for button, l in (("next", "1"), ("next", "2"), ("back", "1")):
        opened.click(f"#{button}")
        assert opened.text("#where") == f"after layer {l} of {L}"
    opened.enter("step", L - 3)
    opened.click("#play")
    assert opened.text("#play") == "Pause"
    opened.wait(lambda: opened.text("#where") == f"after layer {L} of {L}")
    assert opened.text("#play") == "Play"


def test_a_click_on_a_map_picks_a_unit_and_shows_its_equation(opened, shown):
    opened.actions().move_to_element_with_offset(opened.see("#map-x"), 2, 2).click().perform()
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", opened.text("#unit-equation").replace("−", "-"))]
    layer, unit = (int(opened.find("id", f"at-{of}").get_property("value")) for of in ("layer", "unit"))
    _, cache = shown[0].forward(shown[1][:1])
    expected = [of[layer - 1, unit - 1, 0] for of in (cache.H, cache.x, cache.T, cache.x, cache.x[1:])]
    np.testing.assert_allclose(numbers, expected, atol=0.0051)  # y = (H − x)·T + x


# --------------------------------------------------------------------------------------------- break it


def test_the_slider_of_depth_shows_the_accuracies_and_which_nets_are_broken(opened):
    text = committed_log(PAGE).read_text(encoding="utf-8")  # whose numbers are those of the logs
    sweep = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])["sweep"]
    broken = {5: "no kind of net is", 50: "tuned plain nets and plain nets in one setting are"}
    for i, depth in enumerate(sweep["depths"]):
        opened.enter("depth", i)
        for arm in ("plain", "highway"):
            means = [sweep["nets"][kind]["means"][i] for kind in (arm, f"{arm}, tuned", f"{arm}, orthogonal")]
            assert opened.text(f"#readout .{arm}") == arm + "".join(f"{mean:.1f} ± {half:.1f}" for mean, half in means)
        words = broken.get(depth, "plain nets in one setting are")
        assert opened.text("#broken-says") == f"At {depth} blocks, {words} broken."


# ------------------------------------------------------------------------------------ nets that train


@pytest.mark.parametrize(("block", "init"), [("plain", "orthogonal"), ("highway", "uniform")])
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
    optimizer = Adam(net.params, lr)
    for step, found in enumerate(losses):
        part = slice(step * size, (step + 1) * size)
        logits, cache = net.forward(x[part])
        loss, dlogits = softmax_cross_entropy(logits, y[part])
        grads = net.backward(dlogits, cache)
        if step == 0:
            assert np.linalg.norm(grads.flat - gradient) < 1e-8 * np.linalg.norm(grads.flat)
        clip_global_norm(grads, clip if step else np.inf)
        optimizer.step(grads)
        assert found == pytest.approx(loss, abs=1e-6)


def test_a_visitor_trains_nets_whose_curves_stay_before_those_that_were_logged(opened):
    opened.click("#lab-clear")
    for name, value in (("lab-depth", 2), ("lab-rate", 0.01), ("lab-bias", -2)):
        opened.enter(name, value)
    first = opened.train("#lab-train")
    assert first[-1] > 0.9
    opened.click("[name=lab-block][value=highway]")
    opened.train("#lab-train")
    rows = "[...document.querySelectorAll('#lab-runs tbody tr')].map(row => [...row.cells].map(c => c.textContent))"
    one, two = opened.run(f"explorer.show(); return {rows}")
    assert one == ["1", "2", "plain", "uniform", "", "0.01", f"{100 * first[-1]:.1f}\u00a0%"]
    assert two[:-1] == ["2", "2", "highway", "uniform", "−2", "0.01"]
    assert [opened.count(f"#lab-curves line.{kind}") for kind in ("past", "mean", "faint")] == [12, 12, 0]
    opened.wait(lambda: "Net 2, a highway net of 2 blocks" in opened.text("#spoken"))
    opened.click("#lab-clear")
    opened.train("#steps button")
    assert opened.text("#lab-logged").startswith("Faint: 20 nets of the chosen setting")
    assert opened.count("#lab-curves line.faint") == 20 * 12
    opened.enter("lab-depth", 100)
    assert opened.count("#lab-curves line.faint") == 0
    opened.click("#lab-train")
    opened.wait(lambda: opened.run("return explorer.runs.at(-1).scores.length") > 0)
    opened.click("#lab-stop")
    assert "stopped at epoch" in opened.text("#lab-says")
    assert opened.driver.get_log("browser") == []


# ----------------------------------------------------------------------------------------------- touch


def swipe(browser: Browser, selector: str, dx: int, dy: int, during: Callable[[], object] = lambda: None) -> float:
    """Swipe, or tap, in the middle of an element; returns by how many pixels the page scrolled."""
    x, y, top = browser.run(
        """const element = document.querySelector(arguments[0]); element.scrollIntoView({block: "center"});
        const {left, top, width, height} = element.getBoundingClientRect();
        return [left + width / 2, top + height / 2, scrollY];""",
        selector,
    )
    times = itertools.count(time.time() - 1, 0.1)  # of each event, in seconds: the page does not scroll on by itself

    def dispatch(kind: str, *points: dict) -> None:
        event = {"type": kind, "touchPoints": points, "timestamp": next(times)}
        browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", event)

    dispatch("touchStart", {"x": x, "y": y})
    for part in (0.3, 0.7, 1) if dx or dy else ():
        dispatch("touchMove", {"x": x + dx * part, "y": y + dy * part})
    during()
    dispatch("touchEnd")
    next_frame = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0](scrollY)))"
    return browser.driver.execute_async_script(next_frame) - top


def test_a_vertical_swipe_scrolls_a_tap_closes_a_layer_and_a_sideways_swipe_several(phone):
    sliders = ("#last", "#first", "#step", "#depth")
    for selector in ("#list", ".strip.by-unit", "#accuracies", *sliders):
        assert swipe(phone, selector, 0, -200) > 100, selector
    for selector in sliders:
        assert phone.run("return document.querySelector(arguments[0]).value", selector) == "0", selector
    assert phone.closed() == []
    assert phone.text("#where") == "after the plain layer"
    assert swipe(phone, "#list", 0, 0) == 0
    assert phone.closed() == [25]
    phone.click("#reset")
    seen = []
    assert swipe(phone, "#list", 120, 0, lambda: seen.append(phone.find("id", "loupe").text)) == 0
    closed = phone.closed()
    assert closed == [*range(closed[0], closed[-1] + 1)]
    assert len(closed) > 10
    assert seen[0] in [f"layer {layer} closed" for layer in closed], "a finger sees which layer it hides"
    assert phone.find("id", "loupe").text == ""
    assert swipe(phone, ".strip.by-unit", 0, 0) == 0
    assert phone.text("#where").startswith("after layer 25 ")


def test_a_finger_draws_above_the_fold(phone):
    place = phone.run("return document.querySelector('#draw .paper').getBoundingClientRect().toJSON()")
    assert 150 < place["width"] < 250  # room beside it to scroll
    assert place["bottom"] < 640
    phone.click("#draw .clear")
    phone.run("scrollTo(0, 0)")
    gesture = {"x": place["x"] + 100, "y": place["y"] + 30, "xDistance": 0, "yDistance": 130, "speed": 4000}
    gesture |= {"gestureSourceType": "touch", "preventFling": True}
    phone.driver.execute_cdp_cmd("Input.synthesizeScrollGesture", gesture)
    assert phone.text("[data-is=best]") == "1"
    assert phone.run("return scrollY") == 0


# ----------------------------------------------------------------------------------- the page as such


@pytest.mark.parametrize("width", [360, 800, 1600])  # pixels: a phone, a tablet, a large screen
def test_it_fits_its_window_can_be_touched_and_does_not_move_when_words_change(opened, width, log):
    opened.resize(width, "dark")
    all_details = "document.querySelectorAll('details').forEach(details => { details.open = arguments[0]; })"
    opened.run(all_details, True)
    small = """return [...document.querySelectorAll('button, input:not([type=radio]), label')].filter(element => {
        const { width, height } = element.getBoundingClientRect(); return Math.min(width, height) < 24;
    }).map(element => element.outerHTML);"""
    found = opened.run("return document.documentElement.scrollWidth"), opened.run(small)
    assert not re.search(r"\d[ \n]%", opened.run("return document.body.innerText"))  # no % stands alone on a line
    opened.run(all_details, False)
    L = len(log.trained.layers)
    changes = [("last", 19), ("last", L), ("first", L), ("first", 4), *(("depth", i) for i in range(5)), ("closed", 9)]
    changes += [("step", 1), ("step", 9), ("step", L), "[value=untrained]", "#draw .clear", "[value=trained]"]
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
    assert (*found, moved if width != 800 else []) == (width, [], [])  # on a tablet lines of text may wrap


def test_every_control_has_a_name_images_to_pick_are_one_stop_of_the_tab_key_and_the_answer_is_spoken(opened):
    from selenium.webdriver.common.keys import Keys

    roles = ["button", "slider", "radio", "region", "image", "listbox", "option", "radiogroup", "link", "figure"]
    nodes = opened.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
    assert {role for role, _ in named} >= {*roles}
    assert [role for role, name in named if role in roles and not name] == []
    assert all(name[0].isalpha() for role, name in named if role == "region")  # no number of a part without its digit
    stops = "return [...document.querySelectorAll('.samples')].map(s => s.querySelectorAll('[tabindex=\"0\"]').length)"
    opened.find("css selector", "#draw .samples button").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.SPACE)
    assert opened.text("[data-is=best]") == "2"
    assert opened.run(stops) == [1, 1]
    assert opened.find("id", "spoken").aria_role == "status"
    opened.wait(lambda: "The trained net sees a 2" in opened.text("#spoken"))  # after a pause
