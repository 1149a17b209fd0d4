"""Many runs that are cut short: whatever is killed, full or lost, no finished run is lost and none is repeated."""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from filelock import FileLock, SoftFileLock
from helpers import SOME_ENVIRONMENT, child_environment, end, files_below, limited_file_size, refused_with, wait_until
from psutil import pid_exists
from tqdm import tqdm

from highway_lab import Interrupted, jobs
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.files import lock_log
from highway_lab.jobs import ResultFile, run_missing, sealed
from highway_lab.logs import Result, environment

TASKS = range(12)
HELD = 5  # tasks from this one on wait until they are let go: a run can be cut short at a known point
COMMAND = "python squares.py"
SQUARES = Path("squares.jsonl")
NEEDS_DASK = "needs Dask: pip install '.[cluster]'"


@dataclass
class Square(Result):
    """A result: `task` squared; null where a number is not finite."""

    task: int
    square: float | None


def made_here(task: int, square: float | None) -> Square:
    """A result as `run_missing` returns it: it is told where it was made."""
    return Square(environment(), task, square)


def square(task: int, data: object) -> Square:
    """The run of one task, with a bar that is not shown; each start leaves a file that says in which process."""
    tqdm(disable=True)
    Path(f"started-{task}-{os.getpid()}-{time.monotonic_ns()}").touch()
    while task >= HELD and not Path("go").exists():
        time.sleep(0.02)
    return Square(None, task, float(task**2))


def square_all(path=SQUARES, tasks=TASKS, function=square, **flags) -> list[Square]:
    """Finish the tasks; returns their results."""
    return run_missing(
        function, list(tasks), None, ResultFile(path, Square), **{"to_continue": COMMAND, "jobs": 1} | flags
    )


def main() -> int:
    """A command line like those of the experiments."""
    parser = OneLineParser(prog=COMMAND)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scheduler")

    def action(given: argparse.Namespace) -> None:
        flags = {"jobs": given.jobs, "scheduler": given.scheduler, "to_continue": given.to_continue}
        reported = itertools.count(1)
        square_all(**flags, report=lambda result: Path(f"reported-{next(reported)}").touch())

    return run_cli(parser, action, sys.argv[1:])


@pytest.fixture
def let_go(workdir) -> None:
    """No task waits."""
    Path("go").touch()


def check_all_done(safe: bytes) -> None:
    """Finishing the tasks gives all results; the file keeps the lines that were safe and has one for each task."""
    Path("go").touch()
    assert square_all() == [made_here(task, task**2) for task in TASKS]
    assert SQUARES.read_bytes().startswith(safe)
    assert SQUARES.read_bytes().count(b"\n") == len(TASKS)


# ---------------------------------------------------------------------------------- the file of results

HERE = json.dumps(asdict(environment())).encode()
LINES = [sealed(b'{"environment": %s, "task": %d, "square": %.1f}' % (HERE, n, n**2)) + b"\n" for n in range(3)]


def test_what_is_appended_is_read_back_line_by_line(workdir):
    results = [Square(None, 0, 0.0), Square(SOME_ENVIRONMENT, 1, None), made_here(2, 1 / 3)]
    file = ResultFile("new/squares.jsonl", Square)
    assert file.read() == []
    for n, result in enumerate(results, start=1):
        file.append(result)
        assert file.read() == results[:n]
    assert Path("new/squares.jsonl").read_bytes().count(b"\n") == 3


def test_a_last_line_torn_anywhere_is_dropped_and_its_run_repeated(workdir):
    whole = b"".join(LINES)
    for cut in range(1, len(LINES[2])):
        SQUARES.write_bytes(whole[:-cut])
        assert ResultFile(SQUARES, Square).read() == [made_here(0, 0.0), made_here(1, 1.0)]
        if cut % 50 == 1:
            assert square_all(tasks=range(3)) == [made_here(0, 0.0), made_here(1, 1.0), made_here(2, 4.0)]
            assert SQUARES.read_bytes() == whole


FOREIGN_LINES = {
    "a field missing": b'{"environment": null, "task": 1}',
    "not a number": b'{"environment": null, "task": 1, "square": NaN}',
    "deep": b'{"environment": ' + b"[" * 100_000 + b"}",
}


@pytest.mark.parametrize("line", FOREIGN_LINES.values(), ids=FOREIGN_LINES)
def test_a_line_as_written_that_is_no_such_result_is_refused(workdir, line):
    """The file is somebody else's: nothing in it is thrown away."""
    content = LINES[0] + sealed(line) + b"\n" + LINES[2] + b"torn"
    SQUARES.write_bytes(content)
    with refused_with("squares.jsonl: line 2: expected a Square of this version, found", "delete this line"):
        square_all(tasks=range(3))
    assert SQUARES.read_bytes() == content


DAMAGED_LINES = {
    "empty": b"\n",
    "two in one": LINES[1][:-1] + LINES[1],
    "another score": LINES[1].replace(b'"square": 1.0', b'"square": 2.0'),
    "no digest, as before there was one": LINES[1].partition(b', "sha256"')[0] + b"}\n",
}


@pytest.mark.parametrize("line", DAMAGED_LINES.values(), ids=DAMAGED_LINES)
def test_a_line_that_is_not_as_it_was_written_is_trained_anew(let_go, capsys, line):
    SQUARES.write_bytes(LINES[0] + line + LINES[2])
    assert ResultFile(SQUARES, Square).read() == [made_here(0, 0.0), made_here(2, 4.0)]
    assert square_all(tasks=range(3)) == [made_here(task, task**2) for task in range(3)]
    assert SQUARES.read_bytes() == LINES[0] + LINES[2] + LINES[1]
    said = "squares.jsonl: damaged, found: 1 line no longer as written, or of an older version; trained anew\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("content", "fresh"), [(b"no newline", False), (b'{"schema": 1}', False), (b"Dear diary", True)]
)
def test_somebody_elses_file_is_neither_cut_nor_forgotten(let_go, content, fresh):
    SQUARES.write_bytes(content)
    with refused_with("squares.jsonl", "expected a Square", "move the file"):
        square_all(fresh=fresh)
    assert SQUARES.read_bytes() == content


@pytest.mark.symlinks
def test_a_log_is_held_by_one_command_at_a_time_under_whatever_name(workdir):
    Path("link.json").symlink_to("log.json")
    with lock_log("log.json"):
        for name in ("log.json", "./log.json", workdir / "log.json", "link.json"):
            expected = f"{name}: expected a log that no other command is making"
            with refused_with(expected, "wait for it"), lock_log(name):
                pass
        with lock_log("other.json"):
            pass
    with lock_log("link.json"):
        pass
    assert [path.name for path in workdir.iterdir()] == ["link.json"]


@pytest.mark.skipif(issubclass(FileLock, SoftFileLock), reason="needs a system that locks files")
def test_the_lock_of_a_command_that_was_killed_is_taken_over(workdir):
    killed = "import os\nfrom highway_lab.files import lock_log\nwith lock_log('log.json'): os._exit(9)"
    subprocess.run([sys.executable, "-c", killed], env=child_environment())
    assert [*files_below(workdir)] == [".log.json.lock"]
    with lock_log("log.json"):
        pass
    assert files_below(workdir) == {}


# -------------------------------------------------------------------------------------- what is finished


def test_results_have_the_order_of_the_tasks_and_reports_of_arrival(let_go):
    SQUARES.write_bytes(b"".join(reversed(LINES)))
    reported = []
    results = square_all(tasks=[4, 2, 0, 3], report=lambda result: reported.append(result.task))
    assert [r.task for r in results] == [4, 2, 0, 3]
    assert [r.square for r in results] == [16, 4, 0, 9]
    assert reported == [4, 3]


def test_a_thousand_jobs_start_no_thousand_processes(workdir, monkeypatch):
    begun = []
    monkeypatch.setattr(jobs, "_on_this_machine", lambda function, tasks, data, jobs: begun.append(jobs) or iter(()))
    with pytest.raises(KeyError):  # nothing was run
        square_all(tasks=range(1_000), jobs=1_000)
    assert begun == [max(64, os.cpu_count())]


def fail_at_three(task: int, data: object) -> Square:
    if task == 3:
        raise ZeroDivisionError("a defect of the task")
    return Square(None, task, 0.0)


def test_a_defect_of_a_task_is_shown_as_it_is(let_go):
    with pytest.raises(ZeroDivisionError, match="a defect of the task"):
        square_all(function=fail_at_three)


def hears_ctrl_c(task: int, data: object) -> Square:
    return Square(None, task, float(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN))


@pytest.mark.slow
def test_ctrl_c_is_answered_by_the_process_that_was_asked_alone(let_go):
    """A terminal's Ctrl-C reaches every process, one that is just starting too."""
    assert {result.square for result in square_all("two.jsonl", function=hears_ctrl_c, jobs=2)} == {0}
    assert multiprocessing.active_children() == [], "the others end with their work, before Ctrl-C can end this one"


# ------------------------------------------------------------------------------------------- a full disk


def check_interruption(error: Interrupted, reason: str, safe: int) -> None:
    """The message says why, how many runs are safe and where, and how to go on, in one line."""
    expected = rf"{reason}; {safe} of 12 runs are safe in squares\.jsonl; to continue: {COMMAND}"
    assert re.fullmatch(expected, str(error)), error


def test_a_full_disk_says_what_is_safe_and_how_to_go_on(let_go):
    """The disk is full in the middle of the fifth line."""
    whole = sum(map(len, LINES)) + len(LINES[0])
    with limited_file_size(whole + 10), pytest.raises(Interrupted) as error:
        square_all()
    check_interruption(error.value, r"squares\.jsonl: File too large", 4)
    safe = SQUARES.read_bytes()[:whole]
    assert safe.count(b"\n") == 4
    check_all_done(safe)
    assert Counter(started()) == Counter([*TASKS, 4]), "the run that could not be written alone is repeated"


# ------------------------------------------------------------------------ real processes, cut in the middle


def started() -> Iterator[int]:
    """The tasks that were started, once for each time."""
    return (int(path.name.split("-")[1]) for path in Path().glob("started-*"))


def pids_of(task: int | str) -> list[int]:
    """The processes that started a task."""
    return [int(path.name.split("-")[2]) for path in Path().glob(f"started-{task}-*")]


@pytest.fixture
def begin(workdir, start) -> Callable[..., subprocess.Popen]:
    """Starts the tasks in another process and returns it once those that are not held are safe and all others wait."""

    def begin(*flags: str, workers: int) -> subprocess.Popen:
        process = start("-c", "import sys, test_jobs as t; sys.exit(t.main())", *flags)

        def in_the_middle() -> bool:
            assert process.poll() is None, process.communicate()
            return Path(f"reported-{HELD}").exists() and set(started()) >= set(range(HELD + workers))

        wait_until(in_the_middle, "the first runs")
        return process

    return begin


def kill_parent(process: subprocess.Popen) -> None:
    process.kill()


def kill_worker(process: subprocess.Popen) -> None:
    (pid,) = pids_of(HELD)
    assert pid != process.pid
    os.kill(pid, KILL)


def press_ctrl_c(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGINT)


KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which kills, on Windows
ACCIDENTS = [  # what happens, the exit code, what the message gives as the reason
    pytest.param(kill_parent, -KILL if os.name == "posix" else 1, None, id="the parent is killed"),
    pytest.param(kill_worker, 1, "TerminatedWorkerError: .*", id="a worker is killed"),
    pytest.param(press_ctrl_c, 130, "stopped by a signal, such as Ctrl-C", id="Ctrl-C", marks=pytest.mark.posix),
]


@pytest.mark.slow
@pytest.mark.parametrize(("strike", "code", "reason"), ACCIDENTS)
def test_what_is_finished_survives_and_nothing_else(strike, code, reason, begin, tmp_path, monkeypatch):
    (scratch := tmp_path / "scratch").mkdir()
    for name in ("TMPDIR", "TEMP"):
        monkeypatch.setenv(name, str(scratch))
    jobs = 2
    process = begin("--jobs", str(jobs), workers=jobs)
    safe, workers = SQUARES.read_bytes(), pids_of("*")
    assert [*scratch.iterdir()]
    strike(process)
    assert process.wait(timeout=60) == code
    wait_until(lambda: not any(map(pid_exists, workers)), "the workers' end")
    wait_until(lambda: not [*scratch.iterdir()], "the end of scratch folders")
    if reason:
        message = rf"\n{COMMAND}: interrupted: {reason}; "
        rest = rf"5 of 12 runs are safe in squares\.jsonl; to continue: {COMMAND} --jobs {jobs}\n"
        error = process.stderr.read()
        assert re.fullmatch(message + rest, error), error

    check_all_done(safe)
    assert all(times == 1 for task, times in Counter(started()).items() if task < HELD), "repeated"


# --------------------------------------------------------------------------------------------- a cluster

CLUSTER = """
import sys
from dask.distributed import LocalCluster
with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cluster(workdir, start) -> tuple[str, subprocess.Popen]:
    """A Dask cluster of a single worker, in processes of its own: its address and the process of its scheduler."""
    pytest.importorskip("distributed", reason=NEEDS_DASK)
    process = start("-c", CLUSTER)
    return process.stdout.readline().strip(), process


@pytest.mark.slow
@pytest.mark.peers
def test_a_cluster_that_is_lost_leaves_what_is_finished(cluster, begin):
    address, scheduler = cluster
    client = begin("--scheduler", address, workers=1)
    assert client.pid not in pids_of(0), "the cluster should do the work, were it of a single worker"
    safe = SQUARES.read_bytes()
    end(scheduler)

    assert client.wait(timeout=60) == 1
    message = rf"\n{COMMAND}: interrupted: .*scheduler-connection-lost.*; 5 of 12 runs are safe in squares\.jsonl"
    error = client.stderr.read()
    assert re.fullmatch(rf"{message}; to continue: {COMMAND} --scheduler {address}\n", error), error
    assert SQUARES.read_bytes() == safe


@pytest.mark.slow
@pytest.mark.peers
def test_the_work_of_a_sole_worker_that_is_killed_is_tried_again(cluster, begin):
    client = begin("--scheduler", cluster[0], workers=1)
    (worker,) = pids_of(HELD)
    Path("go").touch()
    os.kill(worker, KILL)
    client.wait(timeout=60)
    assert len(SQUARES.read_bytes().splitlines()) == len(TASKS), client.stderr.read()
    assert square_all() == [made_here(task, task**2) for task in TASKS]


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_an_address_without_a_scheduler_is_refused(let_go, monkeypatch, address):
    pytest.importorskip("distributed", reason=NEEDS_DASK)
    monkeypatch.setattr(jobs, "CONNECT_SECONDS", 0.1)
    with refused_with(f"--scheduler: expected a Dask scheduler at {address}, found none"):
        square_all(scheduler=address)
    assert not SQUARES.exists()


@pytest.mark.peers
def test_a_scheduler_that_is_silent_is_refused_also_in_a_loop_that_runs(let_go, monkeypatch):
    """As that of a notebook's own event loop, which the command holds up."""
    pytest.importorskip("distributed", reason=NEEDS_DASK)
    monkeypatch.setattr(jobs, "CONNECT_SECONDS", 0.1)

    async def cell() -> None:
        square_all(scheduler=f"tcp://127.0.0.1:{silent.getsockname()[1]}")

    with socket.create_server(("127.0.0.1", 0)) as silent, refused_with("found none that answers", "of its own"):
        asyncio.run(cell())


def test_without_dask_a_scheduler_is_refused(let_go, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with refused_with("--scheduler: expected Dask, found none", "highway-networks[cluster]"):
        square_all(scheduler="tcp://127.0.0.1:1")
