"""The benchmark of the article: what it reads from a trace, and its tables. Nothing is timed here."""

import made_up
import pytest
from picture_helpers import cells, committed_log

from benchmarks import article
from benchmarks.article import MARKS, ArticleLog, Stroke, Training, tasks
from benchmarks.article_figures import strokes_table, trainings_table
from benchmarks.measures import Spread
from highway_lab.logs import read


def event(name: str, at: int, busy: int = 0, thread: int = 1, cat: str = "toplevel") -> dict:
    return {"name": name, "ts": at, "tdur": busy, "pid": 7, "tid": thread, "cat": cat}


def test_tasks_of_the_main_thread_are_read_between_the_marks_of_a_stroke():
    marks = [
        event(f"ring, {name}", at, cat="blink.user_timing") for name, at in zip(MARKS, (10, 20, 30, 40), strict=True)
    ]
    busy = [event("Thread::RunTask", at, 1000 * at) for at in (5, 10, 21, 29, 30, 41)]
    others = [event("Thread::RunTask", 22, 9000, thread=2), event("Paint", 23, 9000)]
    assert tasks([*busy, *others, *marks], "ring") == [[10], [21, 29], [30]]


def times(median: float) -> Spread:
    return Spread(median / 2, median, 2 * median)


def test_tables_judge_moves_and_the_longest_task_by_their_limits():
    strokes = [Stroke("first", times(7.9), times(12.6)), Stroke("second", times(8), times(12.4))]
    trainings = [Training("plain", 50, times(0.25), times(2), times(1.5))]
    fields = {"browser": "chrome 156", "size": 850_000, "rounds": 1, "moves": 60}
    log = made_up.log(ArticleLog, None, **fields, strokes=strokes, trainings=trainings)
    first, second = cells(strokes_table(log))[1:]
    assert first == ["first", "7.9 (3.95–15.8)", "yes", "12.6 (6.3–25.2)", "50", "missed"]
    assert (second[2], second[-1]) == ("missed", "yes")
    assert cells(trainings_table(log))[1:] == [["plain", "50", "0.25 (0.125–0.5)", "2 (1–4)", "1.5 (0.75–3)"]]
    assert "Chrome 156; the page has 0.85 MB." in trainings_table(log)


def test_a_missing_browser_is_said_in_one_line(monkeypatch, refused):
    pytest.importorskip("selenium")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)  # of which a benchmark warns
    monkeypatch.setattr(article.shutil, "which", lambda name: None)
    assert "expected chromium and chromedriver, found no such programs; install them" in refused(article.main, [])


def test_the_committed_log_keeps_the_limits():
    log = read(committed_log("benchmarks/article.json"), ArticleLog, "make it anew")
    assert "missed" not in strokes_table(log)
