"""The benchmark of convolutional nets: contenders compute what ours computes, all passes are timed, logs say it all.

Nothing is timed here: what a step takes is the machine's business.
"""

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import SOME_ENVIRONMENT
from test_benchmarks import LINUX_ONLY, cells

from benchmarks import conv_contenders, conv_step
from benchmarks.contenders import CONV_CONTENDERS, TOLERANCES, build, check, why_missing
from benchmarks.conv_contenders import ConvCase, Ours, Stopwatch, peak_mib
from benchmarks.conv_step import ConvStepLog, Peak, Targets
from benchmarks.conv_step_figures import TABLES
from benchmarks.measures import Spread
from benchmarks.training_step import Pass, Row
from benchmarks.worker import Team
from conv_highway_networks import NETS, AveragePool, Blocks, Convolution, MaxPool, Recipe
from experiments import readme_tables
from highway_lab.logs import dumps, read

SMALL = ConvCase("digits", batch=10)
PEERS = [name for name, entry in CONV_CONTENDERS.items() if entry.library != "numpy"]
# Every kind, blocks of both kernels, a pool whose last windows hang over.
EVERY_STAGE = (Convolution(4, 5, padding=0), Blocks(1), MaxPool(3, 2), Convolution(6), Blocks(1, 1), AveragePool(2))


# ------------------------------------------------------------------------------------------- the peers


@pytest.mark.parametrize("name", PEERS)
def test_peer_computes_what_ours_computes(name, monkeypatch):
    if reason := why_missing(name):
        pytest.skip(reason)
    monkeypatch.setitem(NETS, "made up", Recipe("digits", EVERY_STAGE))
    monkeypatch.setattr(ConvCase, "tolerances", TOLERANCES)  # so small a net has no two pixels that are nearly equal
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})  # one thread is enough
    case = ConvCase("made up", batch=10)
    net, *_ = case.problem()
    assert [place.y[1:] for place in net.places] == [(4, 4), (4, 4), (2, 2), (2, 2), (2, 2), (1, 1)]
    build(name, case)


class Wrong(Ours):
    """Ours, but for one thing."""

    def __init__(self, fault: str):
        super().__init__(*SMALL.problem())
        if fault == "classical momentum":
            self.optimizer.nesterov = False
        if fault == "no weight decay":
            self.weight_decay = 0.0


@pytest.mark.parametrize("fault", ["classical momentum", "no weight decay"])
def test_check_rejects_a_contender_that_updates_otherwise(fault):
    check(Wrong("nothing"), SMALL.ours(), "a peer")
    with pytest.raises(RuntimeError, match="a peer after 3 steps"):
        check(Wrong(fault), SMALL.ours(), "a peer")


def test_every_problem_is_the_same_and_its_own():
    (net, x, y, _), (other, other_x, other_y, _) = SMALL.problem(), SMALL.problem()
    for mine, its in ((net.params.flat, other.params.flat), (x, other_x), (y, other_y)):
        assert (mine == its).all()
    assert not np.shares_memory(net.params.flat, other.params.flat)


@pytest.mark.parametrize("net", conv_step.TIMED)
def test_nets_are_the_papers_and_nothing_is_dropped(net):
    net, x, *_ = ConvCase(net, batch=1).problem()
    assert x.shape[1:] == net.places[0].x
    assert not any(getattr(place.stage, "rate", 0) for place in net.places)


# ------------------------------------------------------------------------------------------ the passes


def test_steps_that_are_timed_by_passes_are_the_same_steps():
    whole, parts = SMALL.ours(), SMALL.ours()
    whole.run(2)
    parts.seconds_by_pass(2)
    assert (parts.net.params.flat == whole.net.params.flat).all()
    whole.run(1)
    parts.run(1)  # and nothing is timed any more
    assert (parts.net.params.flat == whole.net.params.flat).all()


def test_every_pass_is_told_by_its_direction():
    found = SMALL.ours().seconds_by_pass(1)
    of_both = {"patches", "products", "elementwise", "zeros between images", "pools", "output layer"}
    assert found.keys() == {
        *(f"{direction}: {part}" for direction in ("forward", "backward") for part in of_both),
        *("step: the rest", "forward: batch copy", "output: loss", "backward: the rest"),
        *("update: norm", "update: weight decay", "update: momentum"),
    }


def test_stopwatch_gives_a_function_its_own_time_and_its_callers_direction(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(conv_contenders.time, "perf_counter", lambda: next(clock))  # each look at it takes a second
    watch = Stopwatch()
    inner = watch.timed(lambda: None, "inner")
    outer = watch.timed(lambda times: [inner() for _ in range(times)], "outer", "there")
    outer(2)
    outer(0)
    assert watch.seconds == {"there: outer": 3 + 1, "there: inner": 2}


def test_a_stopwatch_stops_where_a_function_fails():
    watch = Stopwatch()
    with pytest.raises(ZeroDivisionError):
        watch.timed(divmod, "fails", "there")(1, 0)
    assert watch.place is None


# ----------------------------------------------------------------------------------------- the machine


class Fake:
    """A worker whose step takes so many milliseconds."""

    name, threads = "fake", 1

    def __init__(self, ms: float):
        self.ms = ms

    def submit(self, _):
        return self

    def result(self) -> float:
        return self.ms


def test_a_team_does_the_steps_of_all():
    assert Team([Fake(100.0), Fake(100.0)]).turn() == 50
    assert Team([Fake(100.0), Fake(300.0)]).turn() == pytest.approx(75)


@LINUX_ONLY
def test_a_run_without_pytorch_names_it_and_its_log_reads_back(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    monkeypatch.setattr(conv_step, "cpus", lambda: 2)
    path = tmp_path / "log.json"
    assert conv_step.main(["--nets", "digits", "--rounds", "1", "--json", str(path)]) == 0
    log = read(path, ConvStepLog, "write it again")
    assert dumps(log) == path.read_text()
    assert log.missing.keys() == set(PEERS)
    case = ConvCase("digits")
    for rows in (log.one_thread, log.all_cpus):
        assert [(row.contender, row.case, row.threads) for row in rows] == [("ours-conv", case, 1)]
    assert {part.case for part in log.passes} == {peak.case for peak in log.peaks} == {case}
    assert 30 < log.peaks[0].mib < 1024
    assert "MISSING PyTorch, compiled: torch is not installed" in capsys.readouterr().out
    assert all(table(log) for table in TABLES.values())


@LINUX_ONLY
def test_a_process_takes_nothing_for_its_own_that_the_one_that_started_it_had():
    code = "from benchmarks.conv_contenders import peak_mib; print(peak_mib())"
    large = np.ones(2**26)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 10 < float(told.stdout) < large.nbytes / 2**20 < peak_mib()


# -------------------------------------------------------------------------------------------- the tables


def made_up_log() -> ConvStepLog:
    """A valid log in which contender number i, from 1, takes 100·i ms with one thread and half of it with all CPUs."""
    case = ConvCase("mnist-16")

    def rows(factor: float) -> list[Row]:
        ms = {name: 100.0 * i * factor for i, name in enumerate(CONV_CONTENDERS, start=1)}
        return [
            Row(name, case, 1, "kernels", Spread(ms[name], ms[name], ms[name]), Spread(*[100 * factor / ms[name]] * 3))
            for name in CONV_CONTENDERS
        ]

    envelope = (1, "2026-11-20T10:00:00Z", "a command", None, SOME_ENVIRONMENT)
    passes = [Pass(case, "a", 25e3), Pass(case, "b", 75e3)]
    return ConvStepLog(*envelope, {}, {}, 3, 2, Targets(), rows(1), rows(0.5), passes, [Peak(case, 512.0)])


def rows_of(name: str, log: ConvStepLog) -> list[list[str]]:
    return [cells(line) for line in TABLES[name](log).splitlines() if line.startswith("| ")][2:]


def test_tables_show_times_images_a_second_and_how_ours_compares():
    log = made_up_log()
    assert rows_of("conv_step", log)[:2] == [
        ["this project", "100 (100–100)", ""],
        ["PyTorch, default layout", "200 (200–200)", "0.50"],
    ]
    assert rows_of("conv_step_all_cpus", log)[:2] == [
        ["this project", "2,000", ""],
        ["PyTorch, default layout", "1,000", "2.00"],
    ]
    assert rows_of("conv_step_passes", log) == [
        ["a", "25,000 (25%)"],
        ["b", "75,000 (75%)"],
        ["together", "100,000"],
        ["the step, timed whole", "100,000"],
    ]


def test_targets_are_judged_beside_the_better_eager_layout():
    log = made_up_log()
    assert rows_of("conv_step_targets", log) == [["mnist-16", "0.5", "2", "512"]]
    log.targets = Targets(one_thread=0.4, all_cpus=2.5, peak_mib=500.0)
    assert rows_of("conv_step_targets", log) == [["mnist-16", "0.5, missed", "2, missed", "512, missed"]]
    for rows in (log.one_thread, log.all_cpus):
        rows[:] = [replace(row, ms=Spread(1, 1, 1)) if row.contender == "torch-conv-compiled" else row for row in rows]
    assert rows_of("conv_step_targets", log)[0][1] == "0.5, missed"  # though compiled it is faster
    del log.one_thread[1:]
    assert rows_of("conv_step_targets", log)[0][1] == ""


def test_tables_are_registered():
    registered = readme_tables.all_tables()
    assert registered.keys() >= {*TABLES, "conv_step_environment"}


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--nets", "mnist-16", "no-such-net"], "no-such-net"),
        (["--only", "floor"], "floor"),
        (["--rounds", "0"], "--rounds"),
        (["--json", "/no/such/folder/log.json"], "/no/such/folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(argv, named, refused):
    assert named in refused(conv_step.main, argv)
