"""Measure the article in a browser: a stroke on its drawing areas, and the nets that a visitor trains.

    python -m benchmarks article --json benchmarks/article.json

A stroke is a ring of MOVES moves of the pointer on an empty drawing area, of the first figure or of the one that shows
a digit's way. The browser's own profiler, its trace, tells how long the processor was busy in the page's main thread:
in all tasks from the first move to the last, by the number of moves; and in the longest task from the press until the
page is at rest again. A processor of a quarter of the speed takes four times as long. A training is one task of its
worker, of which the trace tells as much.
"""

import argparse
import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from highway_lab.fields import Count, NonEmpty
from highway_lab.logs import Log
from highway_networks import InputError

from .measures import Spread, run, spread

PAGE = Path("viz/gate_explorer.html")
MOVES, ROUNDS = 60, 5
AREAS = {"the first figure": "#draw .paper", "a digit’s way": "#way .paper"}
NETS = (  # that the page trains; the other settings are the page's own
    {"block": "plain", "depth": 50},
    {"block": "highway", "depth": 30},
    {"block": "highway", "depth": 100},
)
MARKS = ("press", "moves", "lift", "rest")
REST, TRAINED = 1.0, 120.0  # seconds: until the page is at rest, at most until a net is trained
TRAIN = """
const [block, depth, done] = arguments, slider = document.getElementById("lab-depth"), seconds = [];
document.querySelector(`[name=lab-block][value=${block}]`).click();
slider.value = depth;
slider.dispatchEvent(new Event("input"));
document.getElementById("lab-train").click();
const { scores } = explorer.runs.at(-1), start = performance.now();
const watch = setInterval(() => {
    while (seconds.length < scores.length) seconds.push((performance.now() - start) / 1000);
    if (scores.length <= 12) return;
    clearInterval(watch);
    done(seconds);
}, 20);
"""
TRACED = {"traceCategories": "toplevel,blink.user_timing", "enableNetwork": False, "enablePage": False}


@dataclass
class Stroke:
    """Milliseconds of the processor on a drawing area: a move, and the longest task of a stroke."""

    area: str
    move_ms: Spread
    longest_ms: Spread


@dataclass
class Training:
    """Seconds from the press of Train to the first epoch and to the last; seconds in which its worker is `busy`.

    The first two are longer where other programs take turns.
    """

    block: str
    depth: Count
    first_epoch: Spread
    ends: Spread
    busy: Spread


@dataclass
class ArticleLog(Log):
    """The log of this measurement, in a `browser` of this version; the page has `size` bytes."""

    browser: str
    size: Count
    rounds: Count
    moves: Count
    strokes: NonEmpty[Stroke]
    trainings: NonEmpty[Training]


@contextmanager
def opened(page: Path) -> Iterator[Any]:
    """Open a page in a headless Chromium whose main thread is traced; raises InputError where there is none."""
    try:
        from selenium import webdriver
    except ImportError as error:
        raise InputError("article: expected selenium, found none; pip install -e '.[test]'") from error
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        raise InputError("article: expected chromium and chromedriver, found no such programs; install them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", TRACED)
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    try:
        driver.get(page.absolute().as_uri())
        while not driver.execute_script("return Boolean(window.explorer)"):
            time.sleep(0.1)
        time.sleep(REST)
        yield driver
    finally:
        driver.quit()


def draw(driver: Any, area: str, stroke: str) -> None:
    """Draw a stroke of this name on an empty drawing area; its MARKS are in the trace."""
    place = driver.execute_script(
        """const paper = document.querySelector(arguments[0]);
        paper.scrollIntoView({ block: "center", behavior: "instant" });
        paper.closest("[data-pad]").querySelector(".clear").click();
        return paper.getBoundingClientRect().toJSON();""",
        area,
    )

    def mark(name: str) -> None:
        driver.execute_script("performance.mark(arguments[0])", f"{stroke}, {name}")

    def point(kind: str, move: int) -> None:
        angle = 2 * math.pi * move / MOVES
        x = place["x"] + place["width"] * (0.5 + 0.3 * math.sin(angle))
        y = place["y"] + place["height"] * (0.5 - 0.4 * math.cos(angle))
        event = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    time.sleep(REST)
    mark("press")
    point("mousePressed", 0)
    mark("moves")
    for move in range(1, MOVES + 1):
        point("mouseMoved", move)
    mark("lift")
    point("mouseReleased", MOVES)
    time.sleep(REST)
    mark("rest")
    if not driver.execute_script("return explorer.state.pixels.some(Boolean)"):
        raise RuntimeError(f"{area}: the stroke has missed the drawing area")


def trace(driver: Any) -> list[dict[str, Any]]:
    """Return the events of the trace; it can be read once."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [message["params"] for message in messages if message["method"] == "Tracing.dataCollected"]


def tasks(events: list[dict[str, Any]], stroke: str) -> list[list[float]]:
    """Return the milliseconds of the processor of each task of the main thread, between the MARKS of a stroke."""
    marks = {of["name"]: of for of in events if of["cat"] == "blink.user_timing"}
    times = [marks[f"{stroke}, {mark}"]["ts"] for mark in MARKS]
    pid, tid = (marks[f"{stroke}, press"][of] for of in ("pid", "tid"))
    found = [of for of in events if of["name"].endswith("RunTask") and (of["pid"], of["tid"]) == (pid, tid)]
    return [[of.get("tdur", 0) / 1000 for of in found if start <= of["ts"] < end] for start, end in pairwise(times)]


def measure_strokes(rounds: int) -> list[Stroke]:
    """Draw on each area, once in a browser of each round: a trace has no room for more."""
    moves, longest = {area: [] for area in AREAS}, {area: [] for area in AREAS}
    for _ in range(rounds):
        with opened(PAGE) as driver:
            for area, selector in AREAS.items():
                draw(driver, selector, area)
            events = trace(driver)
        for area in AREAS:
            pressed, moved, lifted = tasks(events, area)
            moves[area].append(sum(moved) / MOVES)
            longest[area].append(max(*pressed, *moved, *lifted))
    return [Stroke(area, spread(moves[area]), spread(longest[area])) for area in AREAS]


def measure_training(net: dict[str, Any], rounds: int) -> Training:
    """Train a net in a browser of its own; a training is one task of its worker."""
    with opened(PAGE) as driver:
        driver.set_script_timeout(TRAINED)
        seconds = [driver.execute_async_script(TRAIN, net["block"], net["depth"]) for _ in range(rounds)]
        events = trace(driver)
    names = ((of, of["args"].get("name", "")) for of in events if of["name"] == "thread_name")
    workers = {(of["pid"], of["tid"]) for of, name in names if "DedicatedWorker" in name}
    found = [of for of in events if of["name"].endswith("RunTask") and (of["pid"], of["tid"]) in workers]
    busy = sorted((of.get("tdur", 0) / 1e6 for of in found), reverse=True)[:rounds]
    first, last = (spread([run[at] for run in seconds]) for at in (1, -1))
    return Training(**net, first_epoch=first, ends=last, busy=spread(busy))


def measure(arguments: argparse.Namespace) -> ArticleLog:
    """Measure strokes on the article, and the nets that it trains."""
    strokes = measure_strokes(arguments.rounds)
    for of in strokes:
        print(f"{of.area}: {of.move_ms} ms a move, {of.longest_ms} ms the longest task", flush=True)
    trainings = [measure_training(net, arguments.rounds) for net in NETS]
    for of in trainings:
        print(f"{of.block}, {of.depth} blocks: busy for {of.busy} s, ends after {of.ends} s", flush=True)
    with opened(PAGE) as driver:
        browser = f"{driver.capabilities['browserName']} {driver.capabilities['browserVersion']}"
    measured = {"browser": browser, "size": PAGE.stat().st_size, "rounds": arguments.rounds, "moves": MOVES}
    return ArticleLog.new(arguments.command_line, None, **measured, strokes=strokes, trainings=trainings)


main = partial(run, "article", measure, rounds=ROUNDS)
