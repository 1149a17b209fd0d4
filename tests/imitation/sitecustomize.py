"""Imitate on Linux what other systems lack or do otherwise; each Python that finds this file does so when it starts.

    SYSTEM=windows PYTHONPATH=$PWD/tests/imitation python -m pytest -W "ignore:only soft file lock" tests/test_jobs.py

windows: texts are in cp1252 with CRLF unless said otherwise, paths that our code prints have backslashes and are sorted
whatever their case, a file that is open stays. macos: no affinity, no /proc, no pools of threads that can be seen.
"""

import builtins
import contextlib
import glob
import io
import multiprocessing
import os
import pathlib
import sys

SYSTEM, ROOT = os.environ["SYSTEM"], str(pathlib.Path(__file__).parents[2])
GONE = ["sched_getaffinity", "sched_setaffinity", "setresuid"]
HIDDEN = ("/proc/cpuinfo", "/proc/self/status")
plain_open, text_of = io.open, pathlib.PurePath.__str__


def open_as_there(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    if not isinstance(file, int) and os.fspath(file) in HIDDEN:
        raise FileNotFoundError(2, "No such file or directory", file)
    if SYSTEM == "windows" and "b" not in mode:
        encoding, newline = encoding or "cp1252", "\r\n" if newline is None and "r" not in mode else newline
    return plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)


def text_as_there(path):
    ours = sys._getframe(1).f_code.co_filename.startswith(ROOT)
    return text_of(path).replace("/", "\\") if ours and not path.is_absolute() else text_of(path)


def unless_open(function):
    def call(*paths, **options):
        for path in filter(os.path.isfile, paths if not options.get("dir_fd") else ()):
            for descriptor in glob.glob("/proc/[1-9]*/fd/*"):
                same = False
                with contextlib.suppress(OSError):  # closed meanwhile, or another user's
                    same = os.path.samefile(descriptor, path)
                if same:
                    raise PermissionError(13, "The file is in use by another process", path)
        return function(*paths, **options)

    return call


with contextlib.suppress(ImportError):
    import psutil  # noqa: F401, which each system has, here by what is hidden below

builtins.open = io.open = open_as_there
if SYSTEM == "windows":
    GONE += ["fork", "killpg", "setsid", "mkfifo", "register_at_fork"]
    sys.modules["fcntl"] = sys.modules["resource"] = None
    pathlib.PurePath.__fspath__, pathlib.PurePosixPath.__str__ = text_of, text_as_there
    pathlib.PurePath.__lt__ = lambda self, other: text_of(self).lower() < text_of(other).lower()
    os.remove = os.unlink = unless_open(os.unlink)
    os.replace = unless_open(os.replace)
    parent = os.getppid()
    os.getppid = lambda: parent
    multiprocessing.set_start_method("spawn")
else:
    __import__("threadpoolctl").ThreadpoolController._load_libraries = lambda self: None
for name in GONE:
    delattr(os, name)
