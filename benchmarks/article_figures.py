"""Tabulate a log of the article in a browser."""

from highway_lab.tables import markdown

from .article import ArticleLog

MOST_MOVE, MOST_TASK, SLOWER = 8, 50, 4  # ms; ms on a processor that is so many times slower


def strokes_table(log: ArticleLog) -> str:
    """Tabulate what a stroke costs, beside the limits."""
    rows = []
    for of in log.strokes:
        slow = SLOWER * of.longest_ms.median
        limits = verdict(of.move_ms.median, MOST_MOVE), verdict(slow, MOST_TASK)
        rows.append([of.area, str(of.move_ms), limits[0], str(of.longest_ms), f"{slow:.0f}", limits[1]])
    header = ["drawing area", "ms a move", f"below {MOST_MOVE}", "ms, longest task", f"{SLOWER} times slower"]
    return markdown([*header, f"below {MOST_TASK}"], rows)


def verdict(found: float, most: float) -> str:
    return "yes" if found < most else "missed"


def trainings_table(log: ArticleLog) -> str:
    """Tabulate how long a visitor waits for nets that train."""
    rows = [[of.block, str(of.depth), str(of.first_epoch), str(of.ends), str(of.busy)] for of in log.trainings]
    note = f"{log.browser.capitalize()}; the page has {log.size / 1e6:.2f} MB."
    header = ["kind", "blocks", "seconds to epoch 1", "to the end", "seconds of the processor"]
    return f"{markdown(header, rows)}\n\n{note}"


TABLES = {"article_strokes": strokes_table, "article_trainings": trainings_table}
