"""Committed logs, what to do where one was made anew, and the cells of tables."""

import os
from pathlib import Path

import pytest
from helpers import ROOT


def committed_log(name: str) -> Path:
    """The path of a committed log; the test is skipped where it is not there."""
    log = ROOT / name
    if not log.exists():
        pytest.skip(f"{name} is not there: it is made by hand, see the README")
    return log


def outdated(message: str) -> None:
    """Fail in continuous integration; elsewhere a log may have been made anew by hand, so skip."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{message}: run make figures")


def cells(table: str) -> list[list[str]]:
    """Return the header and the rows of a Markdown table."""
    header, _, *rows = (line for line in table.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (header, *rows)]
