"""The benchmarks: contenders compute what ours computes, logs and tables are right.

Nothing is timed here.
"""

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import made_up
import numpy as np
import pytest
from helpers import ROOT
from picture_helpers import cells, committed_log
from test_pictures import assert_redrawn

import pages
from benchmarks import contenders, conv_step, conv_step_figures, training_step, worker
from benchmarks import training_step_figures as figures
from benchmarks.contenders import CONTENDERS, CONV_CONTENDERS, Case, Floor, Ours, build, check, why_missing
from benchmarks.conv_step import ConvCase, ConvStepLog, Peak, Targets, peak_mib
from benchmarks.measures import Spread, spread
from benchmarks.training_step import FULL, Pass, Row, StepLog, measure_passes
from benchmarks.worker import Team, seeing_cpus, take_turn_by_functions
from conv_highway_networks import AveragePool, Blocks, Convolution, MaxPool
from conv_recipes import NETS, Recipe
from highway_lab.logs import LogT, dumps, environment, read

TABLES = figures.TABLES | conv_step_figures.TABLES
SMALL, SMALL_CONV = Case(depth=3, width=8, batch=16), ConvCase("digits", batch=10)
PEERS, CONV_PEERS = (
    [name for name, entry in kind.items() if entry.library != "numpy"] for kind in (CONTENDERS, CONV_CONTENDERS)
)
LINUX_ONLY = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux limits processes to CPUs")


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
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})  # one thread is enough
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


def test_contenders_that_are_compiled_are_missing_without_a_compiler(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no C++ compiler" in why_missing("torch-compiled")
    assert why_missing("torch-fused") is why_missing("ours") is None


# ------------------------------------------------------------------------------------------ the profile


@pytest.mark.parametrize(("case", "functions"), [(SMALL, {"Adam.step"}), (SMALL_CONV, {"patches_forward"})], ids=str)
def test_a_profile_names_the_functions_of_the_step(case, functions, monkeypatch):
    monkeypatch.setattr(worker, "_contender", Ours(*case.problem()))
    monkeypatch.setattr(worker, "TURN_SECONDS", 0)
    assert take_turn_by_functions().keys() >= functions | {"affine_forward", "highway_forward", "highway_backward"}


@LINUX_ONLY
def test_functions_are_sorted_and_the_smallest_are_added_up(monkeypatch):
    turns = iter([{"small": 3, "b": 100, "a": 300}, {"small": 4, "b": 102, "a": 500}, {"small": 5, "b": 700, "a": 400}])
    monkeypatch.setattr(Team, "prepare", lambda team, case: team)
    monkeypatch.setattr(Team, "ask", lambda team, function: [Counter(next(turns), tiny=1)])
    found = measure_passes(SMALL, "ours", rounds=3)
    assert [(of.name, of.microseconds) for of in found] == [("a", 400), ("b", 102), ("other functions", 5)]


# ----------------------------------------------------------------------------------------- the workers


@LINUX_ONLY
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


@LINUX_ONLY
def test_a_team_counts_the_steps_of_all_its_processes(monkeypatch):
    with Team("ours", 1, processes=2) as team:
        assert len(set(team.ask(os.getpid))) == 2
        for ms, expected in (([100.0, 100.0], 50), ([100.0, 300.0], 75)):
            monkeypatch.setattr(team, "ask", lambda _, ms=ms: ms)
            assert team.turn() == pytest.approx(expected)


@LINUX_ONLY
@pytest.mark.slow
def test_a_process_ends_when_the_one_that_started_it_is_killed(tmp_path):
    dies = "import os; from benchmarks.worker import Team; print(*Team('floor', 1).ask(os.getpid), flush=True); "
    with (tmp_path / "pid").open("w") as pid:
        subprocess.run([sys.executable, "-c", f"{dies}os._exit(9)"], cwd=ROOT, stdout=pid, check=False)
    process = Path("/proc", (tmp_path / "pid").read_text().strip())
    for _ in range(3000):  # half a minute, if need be
        if not process.exists():
            return
        time.sleep(0.01)
    pytest.fail("the process goes on")


@LINUX_ONLY
def test_the_peak_of_a_process_leaves_out_that_of_the_one_that_started_it():
    code = "from benchmarks.conv_step import peak_mib; print(peak_mib())"
    large = np.ones(2**26)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert 10 < float(told.stdout) < large.nbytes / 2**20 < peak_mib()


# ------------------------------------------------------------------------------------------ small runs


def logged(main: Callable, schema: type[LogT], path: Path, *argv: str) -> LogT:
    """Run a measurement and return its log, which reads back as it was written."""
    assert main([*argv, "--json", str(path)]) == 0
    log = read(path, schema, "write it again")
    assert dumps(log) == path.read_text()
    return log


@pytest.fixture
def without_peers(monkeypatch) -> None:
    """PyTorch and JAX count as missing."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "jax") else find(name))


@LINUX_ONLY
@pytest.mark.slow
@pytest.mark.usefixtures("without_peers")
def test_a_run_names_the_missing_and_its_log_reads_back(tmp_path, monkeypatch, capsys):
    full = Case(2), Case(1, 6, 4)
    monkeypatch.setattr(training_step, "FULL", full)
    monkeypatch.setattr(training_step, "GROWTH", (Case(2, 4, 4),))
    monkeypatch.setenv("OPENBLAS_CORETYPE", environment().kernels)
    log = logged(training_step.main, StepLog, tmp_path / "log.json", "--rounds", "2")
    assert log.missing == {name: reason for name in CONTENDERS if (reason := why_missing(name))}
    assert log.missing.keys() >= set(PEERS)
    assert [(row.case, row.contender) for row in log.rows if row.threads == 1] == [
        *((case, name) for case in full for name in CONTENDERS if name not in log.missing),
        *((Case(2, 4, 4), name) for name in ("ours", "floor")),
    ]
    assert all(row.ours_over.median == 1 and row.kernels for row in log.rows if row.contender == "ours")
    assert {part.case for part in log.passes} == set(full)
    assert all(part.microseconds > 0 for part in log.passes)
    printed = capsys.readouterr()
    for name in PEERS:
        assert f"MISSING {CONTENDERS[name].label}: {CONTENDERS[name].library} is not installed" in printed.out
    assert "WARNING OPENBLAS_CORETYPE is set" in printed.err


@LINUX_ONLY
@pytest.mark.slow
@pytest.mark.usefixtures("without_peers")
def test_a_run_of_convolutional_nets_logs_all_that_its_tables_show(tmp_path, monkeypatch):
    monkeypatch.setattr(conv_step, "cpu_count", lambda: 2)
    monkeypatch.setattr(conv_step, "TIMED", ["digits"])
    log = logged(conv_step.main, ConvStepLog, tmp_path / "log.json", "--rounds", "1")
    assert log.missing.keys() == set(CONV_PEERS)
    case = ConvCase("digits")
    for rows, threads in ((log.one_run, 2), (log.one_thread, 1), (log.many_runs, 1)):
        assert [(row.contender, row.case, row.threads) for row in rows] == [("ours-conv", case, threads)]
    assert {part.case for part in log.passes} == {peak.case for peak in log.peaks} == {case}
    assert 30 < log.peaks[0].mib < 1024
    assert all(table(log) for table in conv_step_figures.TABLES.values())


# -------------------------------------------------------------------------------- tables and the picture


CASES = (*FULL, Case(1000))


def step_log(names=tuple(CONTENDERS), cases=CASES) -> StepLog:
    """Return a log in which contender i, from 1, takes i ms a block with one thread and twice that with two.

    Of 1,000 blocks, only ours and the floor are timed, and no passes.
    """
    rows = [
        Row(name, case, threads, "kernels", Spread(0.9 * ms, ms, 1.1 * ms), Spread(0.9 / ms, 1 / ms, 1.1 / ms))
        for case in cases
        for i, name in enumerate(CONTENDERS, start=1)
        if name in names and (case != Case(1000) or name in ("ours", "floor"))
        for threads in (1, 2)
        for ms in [float(i * case.depth * threads)]
    ]
    passes = [Pass(case, *part) for case in cases if case != Case(1000) for part in (("a", 100.0), ("b", 1300.0))]
    measured = {"rounds": 3, "rows": rows, "passes": passes}
    return made_up.log(StepLog, libraries={"numpy": "2.4.6"}, missing={"jax-scanned": "no JAX"}, **measured)


def conv_step_log() -> ConvStepLog:
    """Return a log in which contender i, from 1, takes 60·i, 100·i and 50·i ms in the three measurements."""
    case = ConvCase("mnist-16")

    def rows(ms: float) -> list[Row]:
        entries = enumerate(CONV_CONTENDERS, start=1)
        return [Row(name, case, 1, "kernels", Spread(*[i * ms] * 3), Spread(*[1 / i] * 3)) for i, name in entries]

    measured = {name: rows(ms) for name, ms in (("one_run", 60.0), ("one_thread", 100.0), ("many_runs", 50.0))}
    measured |= {"peaks": [Peak(case, 399.0)], "rounds": 3}
    measured |= {"passes": [Pass(case, "a", 25e3), Pass(case, "b", 75e3)], "processes": 2, "targets": Targets()}
    return made_up.log(ConvStepLog, libraries={}, missing={}, **measured)


def test_table_shows_the_better_number_of_threads_and_what_is_missing():
    table = TABLES["training_step"](step_log(["ours", "floor"]))
    header, *rows = cells(table)
    assert header[1::2] == ["5 blocks", "30 blocks", "100 blocks", "4 blocks, width 512, batch 1,024"]
    assert rows[0] == ["this project", "5", "", "30", "", "100", "", "4", ""]
    assert rows[1][:3] == ["products alone", "10", f"{1 / 10:.2f}"]
    assert rows[-2][:3] == ["JAX, scanned", "no JAX", ""]


@pytest.mark.parametrize(("name", "ms"), [("one_run", 60), ("one_thread", 100), ("many_runs", 50)])
def test_tables_of_convolutional_nets_show_times_and_ratios(name, ms):
    assert cells(TABLES[f"conv_step_{name}"](conv_step_log()))[1:3] == [
        ["this project", f"{ms} ({ms}–{ms})", ""],
        ["PyTorch, default layout", f"{2 * ms} ({2 * ms}–{2 * ms})", "0.50"],
    ]


@pytest.mark.parametrize(
    ("name", "log", "rows"),
    [
        ("training_step_passes", step_log(), ["100 (7%)", "1,300 (93%)", "1,400", "5,000"]),
        ("conv_step_passes", conv_step_log(), ["25,000 (25%)", "75,000 (75%)", "100,000", "100,000"]),
    ],
)
def test_tables_of_passes_show_their_shares_beside_the_whole_step(name, log, rows):
    _, *found = cells(TABLES[name](log))
    assert [row[0] for row in found] == ["a", "b", "together", "the step, timed whole"]
    assert [row[1] for row in found] == rows


def test_targets_are_judged_beside_the_better_eager_layout():
    log = conv_step_log()

    def judged() -> list[str]:
        return cells(TABLES["conv_step_targets"](log))[1]

    assert judged() == ["mnist-16", "0.5", "0.5", "0.5", "399 of 400"]
    log.targets = Targets(one_run=0.4, one_thread=0.5, many_runs=0.45, peak_mib={"mnist-16": 300.0})
    assert judged() == ["mnist-16", "0.5, missed", "0.5", "0.5, missed", "399, missed of 300"]
    rows = log.one_run
    rows[:] = [replace(row, ms=Spread(1, 1, 1)) if row.contender == "torch-conv-compiled" else row for row in rows]
    assert judged()[1] == "0.5, missed"  # though compiled it is faster
    del log.one_run[1:]
    assert judged()[1] == ""


@pytest.mark.parametrize("name", pages.BENCHMARKS)
def test_every_table_stands_on_the_page_of_its_measurement(name):
    page = "estimators" if name == "estimator_defaults" else name
    text = (ROOT / f"benchmarks/{page}.md").read_text()
    module, _ = pages.BENCHMARKS[name]
    for table in (*module.TABLES, f"{name}_environment"):
        assert table in pages.all_tables()
        assert f"\n<!-- table: {table} -->\n" in text
    assert f"({page}.md)" in (ROOT / "benchmarks/README.md").read_text()


def test_spread_is_the_median_and_the_quartiles():
    assert spread([4, 1, 2, 3, 5]) == Spread(2, 3, 4)
    assert str(Spread(2, 3, 4.1239)) == "3 (2–4.12)"
    assert f"{Spread(2, 3, 4):.1f}" == "3.0 (2.0–4.0)"


def test_picture_shows_the_log():
    torch, jax, floor = figures.step_figure(step_log()).axes
    assert [line.get_label() for line in torch.lines] == ["this project", "eager", "fused", "compiled"]
    lines = {line.get_label(): line for line in jax.lines}
    assert list(lines) == ["this project", "scanned", "unrolled"]
    assert list(lines["scanned"].get_xdata()) == list(lines["this project"].get_xdata()) == [5, 30, 100]
    assert list(lines["scanned"].get_ydata()) == [6 * depth for depth in (5, 30, 100)]
    assert [line.get_label() for line in floor.lines] == ["this project", "products alone"]
    assert list(floor.lines[0].get_xdata()) == [5, 30, 100, 1000]
    assert {axes.get_xscale() for axes in (torch, jax, floor)} == {torch.get_yscale()} == {"log"}

    for axes in figures.step_figure(step_log(["ours"], [Case(5), Case(30)])).axes:
        assert [line.get_label() for line in axes.lines] == ["this project"]


def test_committed_picture_is_that_of_the_committed_log(tmp_path):
    log, redrawn = committed_log(str(figures.LOG)), tmp_path / figures.PICTURE.name
    assert figures.main([str(log), "--out", str(redrawn)]) == 0
    assert_redrawn(ROOT / figures.PICTURE, redrawn.read_bytes(), log)


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("main", "argv", "named"),
    [
        (training_step.main, ["--rounds", "0"], "--rounds"),
        (training_step.main, ["--only", "floor", "nobody"], "nobody"),
        (training_step.main, ["--json", "/no/such/folder/log.json"], "/no/such/folder"),
        (training_step.main, ["--json", str(ROOT / "benchmarks/conv_step.json")], "or replace the file (--replace)"),
        (training_step.main, ["--json", str(ROOT / "README.md")], "--json: expected a name like training_step.json"),
        (figures.main, [str(figures.LOG), "--out", str(ROOT / "README.md")], "expected a name like training_step.png"),
        (conv_step.main, ["--only", "floor"], "floor"),
        (figures.main, ["no-such.json"], "python -m benchmarks training_step --json no-such.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(main, argv, named, refused):
    error = refused(main, argv)
    assert error.startswith("python -m benchmarks ")
    assert named in error
