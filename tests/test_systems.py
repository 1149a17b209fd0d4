"""What differs between systems: the order of paths, files that somebody holds, processes, shells, ends of lines."""

import errno
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from helpers import ROOT, files_below

from highway_lab.cli import quote
from highway_lab.files import atomic_write, in_order, remove


@pytest.mark.parametrize("kind", [PurePosixPath, PureWindowsPath])
def test_files_are_in_one_order_on_every_system(kind):
    names = ["B/a.png", "a/B.png", "a/a/c.png", "a/a.png", "a-b/c.png"]
    assert in_order(map(kind, reversed(names))) == [*map(kind, names[:2]), *map(kind, names[2:])]


def write(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"new")


@pytest.mark.parametrize(
    ("function", "change", "left"),
    [("replace", write, True), ("unlink", remove, False)],
    ids=["written", "removed"],
)
def test_a_file_that_somebody_holds_for_a_moment_is_waited_for(workdir, monkeypatch, function, change, left):
    """As a virus scanner does on Windows."""
    Path("file").write_bytes(b"old")
    held, plain = [None] * 3, getattr(os, function)

    def refuse(*paths, **options):
        if held and Path("file") in map(Path, map(os.path.relpath, paths)):
            raise PermissionError(errno.EACCES, held.pop())
        plain(*paths, **options)

    monkeypatch.setattr(os, function, refuse)
    change(Path("file"))
    assert held == []
    assert [*files_below(workdir)] == ["file"] * left
    assert files_below(workdir).get("file") != b"old"


@pytest.mark.parametrize(("system", "quoted"), [("linux", r"'my runs\a.json'"), ("win32", r'"my runs\a.json"')])
def test_commands_are_quoted_for_the_shell_that_is_there(monkeypatch, system, quoted):
    monkeypatch.setattr(sys, "platform", system)
    assert quote(r"my runs\a.json") == quoted
    assert quote("a.json") == "a.json"


def test_a_clone_has_the_same_bytes_on_every_system():
    """Digests of logs, and pictures, are of bytes; git on Windows may turn the ends of lines."""
    words = ["git", "-c", "core.autocrlf=true", "ls-files", "--eol"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8")
    if done.returncode:
        pytest.skip("needs a checkout of git")
    for line in done.stdout.splitlines():
        stored, _, attribute, *rest = line.split()
        assert (stored, attribute) == ("i/-text", "attr/-text") or (stored != "i/crlf" and "eol=lf" in rest), line
