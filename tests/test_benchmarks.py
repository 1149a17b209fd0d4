"""The benchmarks of training steps: contenders compute what ours computes; workers, logs, the picture.

Nothing is timed here.
"""

import importlib.util
import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, wait_until
from picture_helpers import committed_log
from psutil import pid_exists
from test_pictures import assert_redrawn

from benchmarks import __main__ as benchmarks
from benchmarks import contenders, conv_step, training_step, worker
from benchmarks.contenders import CONTENDERS, CONV_CONTENDERS, Case, Floor, Ours, build, check, why_missing
from benchmarks.conv_step import ConvCase
from benchmarks.measures import Benchmark, Spread, spread
from benchmarks.training_step import PICTURE, Row, best, plot
from benchmarks.worker import Team, seeing_cpus
from conv_highway_networks import AveragePool, Blocks, Convolution, MaxPool
from conv_recipes import NETS, Recipe
from highway_lab.logs import Log, dumps
from highway_networks import rounded

SMALL, SMALL_CONV = Case(depth=3, width=8, batch=16), ConvCase("digits", batch=10)
PEERS, CONV_PEERS = ([of for of in kind if kind[of].library != "numpy"] for kind in (CONTENDERS, CONV_CONTENDERS))


# -------------------------------------------------------------------------------------- the contenders


def test_floor_multiplies_as_often_as_the_mathematics_asks():
    net, *_ = SMALL.problem()
    floor = Floor(*SMALL.problem())
    assert len(floor.products) == 3 * SMALL.depth + 5  # y, dW and dx of every layer; no dx of the input
    done = sum(out.size * a.shape[-1] for a, _, out in floor.products)
    weights = {name: tensor.size for name, tensor in net.params.items() if name.startswith("W")}
    assert done == SMALL.batch * (2 * net.params.flat.size + sum(weights.values()) - weights["W_in"])
    floor.run(1)


@pytest.fixture
def every_stage(monkeypatch) -> ConvCase:
    """A small net with every kind of stage, blocks of both kernels and a pool whose last windows hang over."""
    stages = (Convolution(4, 5, padding=0), Blocks(1), MaxPool(3, 2), Convolution(6), Blocks(1, 1), AveragePool(2))
    monkeypatch.setitem(NETS, "made up", Recipe("digits", stages))
    monkeypatch.setattr(ConvCase, "tolerances", Case.tolerances)  # it has no two pixels that are nearly equal
    return ConvCase("made up", batch=10)


@pytest.mark.peers
@pytest.mark.parametrize(("name", "clip"), [*product(PEERS, [5.0, 0.05]), *product(CONV_PEERS, [None])])  # 0.05 cuts
def test_peer_computes_what_ours_computes(name, clip, every_stage, monkeypatch):
    if reason := why_missing(name):
        pytest.skip(reason)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # one thread is enough
    if clip:
        monkeypatch.setattr(contenders, "TRAINING", replace(contenders.TRAINING, clip=clip))
    build(name, SMALL if clip else every_stage)


class Faulty(Ours):
    """Ours with a fault in what it returns."""

    fault = "nothing"

    def loss_and_gradients(self):
        loss, grads = super().loss_and_gradients()
        if self.fault in grads:
            grads[self.fault][...] *= 1.001
        return loss * (1.001 if self.fault == "loss" else 1), grads

    def parameters(self):
        return {name: np.nan if self.fault == "nan" else tensor for name, tensor in super().parameters().items()}


@pytest.mark.parametrize(
    ("case", "fault", "message"),
    [
        (SMALL, "loss", "loss is 1.0e-03 from ours"),
        (SMALL, "b_in", "gradient b_in is 1.0e-03 from ours"),
        (SMALL, "nan", "after 3 steps: W_in is nan from ours"),
        (SMALL, {"beta1": 0.89}, "after 3 steps: .* from ours"),
        (SMALL_CONV, {"nesterov": False}, "after 3 steps: .* from ours"),
        (SMALL_CONV, {"weight_decay": 0.0}, "after 3 steps: .* from ours"),
    ],
    ids=str,
)
def test_check_rejects_a_contender_that_is_slightly_wrong(case, fault, message):
    check(Faulty(*case.problem()), Ours(*case.problem()), "a peer", Case.tolerances)
    *problem, config = case.problem()
    wrong = Faulty(*problem, config if isinstance(fault, str) else replace(config, **fault))
    wrong.fault = fault if isinstance(fault, str) else "nothing"
    with pytest.raises(RuntimeError, match=rf"a peer.*{message}"):
        check(wrong, Ours(*case.problem()), "a peer", Case.tolerances)


# ----------------------------------------------------------------------------------------- the workers


@pytest.mark.linux
def test_libraries_find_as_many_cpus_as_the_contender_has_threads():
    before = os.sched_getaffinity(0)
    go, found = threading.Event(), []
    with seeing_cpus(1):
        assert len(os.sched_getaffinity(0)) == 1
        thread = threading.Thread(target=lambda: go.wait() and found.append(os.sched_getaffinity(0)))
        thread.start()
    go.set()
    thread.join()
    assert found == [before]  # a thread started inside runs where it likes outside
    assert os.sched_getaffinity(0) == before


def test_a_team_counts_the_steps_of_all_its_processes(monkeypatch):
    with Team("ours", 1, processes=2) as team:
        assert len(set(team.ask(os.getpid))) == 2
        for ms, expected in (([100.0, 100.0], 50), ([100.0, 300.0], 75)):
            monkeypatch.setattr(team, "ask", lambda _, ms=ms: ms)
            assert team.turn() == pytest.approx(expected)


@pytest.mark.slow
def test_a_process_ends_when_the_one_that_started_it_is_killed(tmp_path):
    dies = "import os; from benchmarks.worker import Team; print(*Team('floor', 1).ask(os.getpid), flush=True); "
    with (tmp_path / "pid").open("w") as pid:
        subprocess.run([sys.executable, "-c", f"{dies}os._exit(9)"], cwd=ROOT, stdout=pid, check=False)
    process = int((tmp_path / "pid").read_text("utf-8"))
    wait_until(lambda: not pid_exists(process), "the process's end")


# ------------------------------------------------------------------------------------------ small runs


def logged(benchmark: Benchmark, path: Path, *argv: str) -> Log:
    """Run a measurement and return its log, which reads back as it was written."""
    assert benchmark.main([*argv, "--json", str(path)]) == 0
    log = benchmark.read(path)
    assert dumps(log) == path.read_text("utf-8")
    return log


@pytest.fixture
def without_peers(monkeypatch) -> None:
    """PyTorch and JAX count as missing."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "jax") else find(name))


@pytest.mark.slow
@pytest.mark.usefixtures("without_peers")
def test_a_run_names_the_missing_and_its_log_reads_back(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training_step, "FULL", full := (Case(1, 6, 4),))
    monkeypatch.setattr(training_step, "GROWTH", ())
    monkeypatch.setattr(training_step, "cpu_count", lambda: 1)
    log = logged(training_step.BENCHMARK, tmp_path / "log.json", "--rounds", "2")
    assert log.missing == {name: reason for name in CONTENDERS if (reason := why_missing(name))}
    assert log.missing.keys() >= set(PEERS)
    there = [name for name in CONTENDERS if name not in log.missing]
    assert [(row.case, row.contender) for row in log.rows] == [(case, name) for case in full for name in there]
    assert all(row.ours_over.median == 1 and row.kernels for row in log.rows if row.contender == "ours")
    printed = capsys.readouterr().out
    for name in PEERS:
        assert f"MISSING {CONTENDERS[name].label}: {CONTENDERS[name].library} is not installed" in printed


@pytest.mark.usefixtures("without_peers")
def test_which_cases_are_timed_with_how_many_threads_and_processes(tmp_path, monkeypatch):
    asked, milliseconds = [], itertools.count(1.0)
    monkeypatch.setattr(Team, "prepare", lambda team, case: asked.append((str(case), len(team.processes))) or team)
    monkeypatch.setattr(Team, "turn", lambda team: next(milliseconds))
    monkeypatch.setattr(worker, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    for module in (training_step, conv_step):
        monkeypatch.setattr(module, "cpu_count", lambda: 2)
    log = logged(training_step.BENCHMARK, tmp_path / "dense.json", "--rounds", "1")
    timed = [(row.case, row.contender, row.threads) for row in log.rows]
    expected = [("ours", 1), ("floor", 1), ("floor", 2)]
    assert timed == [(case, *of) for case in (*training_step.FULL, *training_step.GROWTH) for of in expected]
    assert [row.ms.median for row in log.rows] == list(range(1, len(timed) + 1))
    assert [row.ours_over.median for row in log.rows[:3]] == [1, 0.5, rounded(1 / 3, 4)]
    asked.clear()
    monkeypatch.setattr(conv_step, "peak_of_training", lambda case: 7.0)
    log = logged(conv_step.BENCHMARK, tmp_path / "convolutional.json", "--rounds", "1")
    assert log.missing.keys() == set(CONV_PEERS)
    assert asked == [(name, processes) for name in conv_step.TIMED for processes in (1, 1, 1, 1, 2, 1)]
    for rows, ours, floor in ((log.one_run, 2, 2), (log.one_thread, 1, 1), (log.many_runs, 1, 2)):
        timed = [(row.contender, row.case, row.threads) for row in rows]
        expected = [("ours-conv", ours), ("floor-conv", floor)]
        assert timed == [(name, ConvCase(net), threads) for net in conv_step.TIMED for name, threads in expected]
    assert log.peak_mib == dict.fromkeys(conv_step.TIMED, 7.0)


# --------------------------------------------------------------------------- what is told of a log, the picture


def test_each_contender_counts_by_its_better_number_of_threads():
    same, ms = Spread(1, 1, 1), {("ours", 1): 4.0, ("ours", 2): 3.0, ("floor", 1): 1.0, ("floor", 2): 2.0}
    cases = Case(30), Case(1000)
    found = best([Row(name, case, of, "", Spread(t, t, t), same) for case in cases for (name, of), t in ms.items()])
    assert found.keys() == {"30 blocks", "1,000 blocks"}
    for of in found.values():
        assert {name: (of[name].threads, of[name].ms.median) for name in of} == {"floor": (1, 1), "ours": (2, 3)}


def test_spread_is_the_median_and_the_quartiles():
    assert spread([4, 1, 2, 3, 5]) == Spread(2, 3, 4)
    assert str(Spread(2, 3, 4.1239)) == "3 (2–4.12)"


def test_committed_picture_is_that_of_the_committed_log(tmp_path):
    log, redrawn = committed_log(str(training_step.BENCHMARK.log_path)), tmp_path / PICTURE.name
    assert plot([str(log), "--out", str(redrawn)]) == 0
    assert_redrawn(ROOT / PICTURE, redrawn.read_bytes(), log)


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["training_step", "--rounds", "0"], "--rounds"),
        (["training_step", "--only", "floor", "nobody"], "nobody"),
        (["training_step", "--json", "/no/such/folder/log.json"], "/no/such/folder"),
        (["training_step", "--json", str(ROOT / "benchmarks/conv_step.json")], "or replace it (--replace)"),
        (["training_step", "--json", str(ROOT / "README.md")], "--json: expected a name like training_step.json"),
        (["plot", "--out", str(ROOT / "README.md")], "a name that ends with .png, .pdf, .svg, found"),
        (["plot", "no-such.json"], "python -m benchmarks training_step --json no-such.json"),
        (["article"], "invalid choice: 'article'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(argv, named, refused):
    error = refused(benchmarks.main, argv)
    assert error.startswith("python -m benchmarks")
    assert named in error
