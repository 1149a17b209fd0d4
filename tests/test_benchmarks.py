"""The benchmarks: contenders compute what ours computes, the floor does our products, logs and errors are as promised.

Nothing is timed: what a step takes is the machine's business.
"""

import importlib.util
import os
import platform
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ROOT, SOME_ENVIRONMENT, assert_says
from picture_helpers import committed_log
from test_pictures import assert_redrawn

import highway_networks as hn
from benchmarks import conv_step_figures, main_job, main_job_figures, training_step
from benchmarks import training_step_figures as figures
from benchmarks.contenders import CONTENDERS, Case, Floor, Ours, build, check, why_missing
from benchmarks.main_job import JobLog
from benchmarks.measures import Spread, spread
from benchmarks.training_step import DEPTHS, WIDE, Pass, Row, StepLog
from benchmarks.worker import Worker, seeing_cpus
from highway_lab.cli import InputError
from highway_lab.logs import dumps, environment, read, write

TABLES = figures.TABLES | main_job_figures.TABLES
SMALL = Case(depth=3, width=8, batch=16)
PEERS = [name for name, entry in CONTENDERS.items() if entry.library != "numpy"]


# ------------------------------------------------------------------------------------------- the floor


def test_floor_does_the_matrix_products_of_our_step_in_its_order_and_no_others(monkeypatch):
    ours, floor, matmul = SMALL.ours(), Floor(*SMALL.problem()), np.matmul
    shapes = []
    monkeypatch.setattr(np, "matmul", lambda a, b, out: (matmul(a, b, out=out), shapes.append((a.shape, b.shape))))
    ours.run(1)
    of_ours = shapes.copy()
    shapes.clear()
    floor.run(1)
    del shapes[SMALL.depth + 1]  # of the output layer: an `@`, which is not seen in ours
    assert shapes == of_ours
    assert len(shapes) == 3 * SMALL.depth + 4


def test_floor_multiplies_as_often_as_the_mathematics_asks():
    net, *_ = SMALL.problem()
    floor = Floor(*SMALL.problem())
    done = sum(out.size * a.shape[-1] for a, _, out in floor.products)
    weights = {name: tensor.size for name, tensor in net.params.items() if name.startswith("W")}
    dx = sum(weights.values()) - weights["W_in"]  # no dx of the input
    assert done == SMALL.batch * (2 * net.params.flat.size + dx)  # y, and dW: with the biases


# ------------------------------------------------------------------------------------------- the peers


@pytest.mark.parametrize("clip", [5.0, 0.05], ids=["not clipped", "clipped"])
@pytest.mark.parametrize("name", PEERS)
def test_peer_computes_what_ours_computes(name, clip):
    if reason := why_missing(name):
        pytest.skip(reason)
    build(name, SMALL, clip)


def test_clip_norms_of_the_test_above_lie_on_both_sides_of_the_gradients():
    net, x, y, _ = SMALL.problem()
    logits, cache = net.forward(x)
    grads = net.backward(hn.softmax_cross_entropy(logits, y)[1], cache)
    assert 0.05 < hn.clip_global_norm(grads, np.inf) < 5.0


class Wrong(Ours):
    """Ours, but for one thing."""

    def __init__(self, fault: str):
        super().__init__(*SMALL.problem())
        self.fault = fault
        if fault == "Adam":
            self.optimizer.beta1 = 0.89

    def loss_and_gradients(self):
        loss, grads = super().loss_and_gradients()
        if self.fault in grads:
            grads[self.fault][...] *= 1.001
        return loss * (1.001 if self.fault == "loss" else 1), grads

    def parameters(self):
        params = super().parameters()
        return {name: tensor * np.nan for name, tensor in params.items()} if self.fault == "nan" else params


def test_check_accepts_ours_itself():
    check(Wrong("nothing"), SMALL.ours(), "ours")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("loss", "loss is 1.0e-03 from ours"),
        ("W_T", "gradient W_T is 1.0e-03 from ours"),
        ("b_in", "gradient b_in is 1.0e-03 from ours"),
        ("Adam", "after 3 steps: .* from ours"),
        ("nan", "after 3 steps: W_in is nan from ours"),
    ],
)
def test_check_rejects_a_contender_that_is_slightly_wrong(fault, message):
    with pytest.raises(RuntimeError, match=rf"a peer.*{message}"):
        check(Wrong(fault), SMALL.ours(), "a peer")


def test_the_passes_of_our_step_together_are_the_step():
    whole, parts = SMALL.ours(), SMALL.ours()
    whole.run(2)
    names = [*parts.passes(), *parts.passes()]
    assert (parts.net.params.flat == whole.net.params.flat).all()
    assert len(names) == 2 * (5 + 5 * SMALL.depth)


def test_every_problem_is_the_same_and_its_own():
    (net, x, y, _), (other, other_x, other_y, _) = SMALL.problem(), SMALL.problem()
    for mine, its in ((net.params.flat, other.params.flat), (x, other_x), (y, other_y)):
        assert (mine == its).all()
    assert not np.shares_memory(net.params.flat, other.params.flat)


# ----------------------------------------------------------------------------------------- the workers


LINUX_ONLY = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux limits processes to CPUs")


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
def test_worker_tells_of_failures():
    with Worker("floor", 1) as worker:
        with pytest.raises(ZeroDivisionError) as error:
            worker.ask(divmod, 1, 0)
        assert error.value.__notes__ == ["floor, 1 threads"]
        assert worker.ask(divmod, 7, 2) == (3, 1)
        with pytest.raises(BrokenProcessPool):
            worker.ask(os._exit, 1)


@LINUX_ONLY
def test_worker_has_the_kernels_that_its_contender_asks_for_and_no_other_process_has():
    if reason := why_missing("ours-avx2"):
        pytest.skip(reason)
    with Worker("ours-avx2", 1) as told, Worker("ours", 1) as free, Worker("torch-eager", 1) as torch:
        assert told.kernels() == "Haswell"
        assert free.kernels() == environment().kernels
        assert torch.kernels() == "torch's own"


@LINUX_ONLY
def test_worker_ends_when_the_one_who_asks_is_killed(tmp_path):
    dies = "import os; from benchmarks.worker import Worker; print(Worker('floor', 1).ask(os.getpid), flush=True); "
    with (tmp_path / "pid").open("w") as pid:
        subprocess.run([sys.executable, "-c", f"{dies}os._exit(9)"], cwd=ROOT, stdout=pid, check=False)
    worker = Path("/proc", (tmp_path / "pid").read_text().strip())
    for _ in range(3000):  # half a minute, if need be
        if not worker.exists():
            return
        time.sleep(0.01)
    pytest.fail("the worker goes on")


# --------------------------------------------------------------------------------- what is made of times


CASES = (Case(5), Case(30), Case(100), Case(1000), WIDE)


def made_up_log(names=tuple(CONTENDERS), cases=CASES) -> StepLog:
    """A valid log in which contender number i, from 1, takes i ms a block with one thread and twice that with two.

    Depth 1,000 has no passes, as it is not among the cases in which all are timed.
    """
    rows = [
        Row(name, case, threads, "kernels", Spread(0.9 * ms, ms, 1.1 * ms), Spread(0.9 / ms, 1 / ms, 1.1 / ms))
        for case in cases
        for i, name in enumerate(CONTENDERS, start=1)
        if name in names
        for threads in (1, 2)
        for ms in [float(i * case.depth * threads)]
    ]
    parts = (("a", 100.0), ("b", 1300.0))
    passes = [Pass(case, *part) for case in cases if case != Case(1000) for part in parts]
    envelope = (1, "2026-11-20T10:00:00Z", "a command", None, SOME_ENVIRONMENT)
    return StepLog(*envelope, {"numpy": "2.4.6"}, {"jax-scanned": "no JAX"}, 3, rows, passes)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_shows_the_better_number_of_threads_and_what_is_missing():
    header, _, *rows = TABLES["training_step"](made_up_log(["ours", "floor"])).splitlines()
    assert cells(header)[1::2] == ["depth 5", "depth 30", "depth 100", "depth 4, width 512, batch 1,024"]
    assert cells(rows[0]) == ["this project", "5", "", "30", "", "100", "", "4", ""]
    assert cells(rows[2])[:3] == ["products alone", "15", f"{1 / 15:.2f}"]
    assert cells(rows[-4])[:3] == ["JAX, scanned", "no JAX", ""]
    assert rows[-1].endswith("takes 10.0 times as long as at depth 100.")


def test_table_of_passes_shows_their_shares_beside_the_whole_step():
    _, _, *rows = TABLES["training_step_passes"](made_up_log()).splitlines()
    assert [cells(row)[:2] for row in rows] == [
        ["a", "100 (7%)"],
        ["b", "1,300 (93%)"],
        ["together", "1,400"],
        ["the step, timed whole", "5,000"],
    ]


def test_every_table_has_its_place_in_the_readme():
    text = (ROOT / "benchmarks/README.md").read_text()
    environments = (f"{name}_environment" for name in ("training_step", "conv_step", "main_job"))
    for name in (*TABLES, *conv_step_figures.TABLES, *environments):
        assert f"\n<!-- table: {name} -->\n" in text


def test_spread_is_the_median_and_the_quartiles():
    assert spread([4, 1, 2, 3, 5]) == Spread(2, 3, 4)


def test_every_contender_is_planned_at_the_depths_and_ours_and_the_floor_elsewhere():
    plan = training_step.plan(list(CONTENDERS), [7])
    assert plan[Case(7)] == plan[WIDE] == list(CONTENDERS)
    assert {tuple(names) for case, names in plan.items() if case not in (Case(7), WIDE)} == {("ours", "floor")}
    assert {Case(10), Case(1000), Case(30, width=512)} < set(plan)


# ------------------------------------------------------------------------------------------ a small run


@LINUX_ONLY
def test_a_run_names_the_missing_and_its_log_reads_back(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "jax") else find(name))
    monkeypatch.setattr(training_step, "WIDE", Case(1, width=6, batch=4))
    monkeypatch.setattr(training_step, "GROWTH", (Case(2, width=4, batch=4),))
    monkeypatch.setenv("OPENBLAS_CORETYPE", environment().kernels)
    path = tmp_path / "log.json"
    assert training_step.main(["--depths", "2", "--rounds", "2", "--json", str(path)]) == 0
    log = read(path, StepLog, "write it again")
    assert dumps(log) == path.read_text()
    assert log.missing == {name: reason for name in CONTENDERS if (reason := why_missing(name))}
    assert log.missing.keys() >= set(PEERS)
    full = [Case(2), Case(1, 6, 4)]
    assert [(row.case, row.contender) for row in log.rows if row.threads == 1] == [
        *((case, name) for case in full for name in CONTENDERS if name not in log.missing),
        *((Case(2, 4, 4), name) for name in ("ours", "floor")),
    ]
    assert all(row.ours_over.median == 1 and row.kernels for row in log.rows if row.contender == "ours")
    names = dict.fromkeys(SMALL.ours().passes())
    assert [(part.case, part.name) for part in log.passes] == [(case, name) for case in full for name in names]
    assert all(part.microseconds > 0 for part in log.passes)
    printed = capsys.readouterr()
    for name in PEERS:
        assert f"MISSING {CONTENDERS[name].label}: {CONTENDERS[name].library} is not installed" in printed.out
    assert "WARNING OPENBLAS_CORETYPE is set" in printed.err


def test_contenders_are_missing_where_there_is_no_compiler_or_no_choice_of_kernels(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert "no C++ compiler" in why_missing("torch-compiled")
    assert "no choice of kernels" in why_missing("ours-avx2")
    assert why_missing("torch-fused") is why_missing("ours") is None


# ---------------------------------------------------------------------------------- the main job's usage


def test_usage_counts_the_children_of_the_command():
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    wall, cpu, _ = main_job.run_measured(
        ["-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"]
    )
    assert cpu > 0.3
    assert wall > 0.3


def test_usage_tells_the_memory_that_was_held_at_once():
    code = "from benchmarks import main_job; print(main_job.run_measured(['-c', 'bytearray(300 * 2**20)'])[2])"
    peak = float(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT))  # which holds little itself
    assert 300 < peak < 400


def test_a_command_that_fails_is_an_error():
    with pytest.raises(InputError) as error:
        main_job.run_measured(["-c", "raise SystemExit(3)"])
    assert_says(error.value, "found 3", "SystemExit")


def test_a_run_logs_every_command_and_how_another_commit_compares(tmp_path, monkeypatch):
    monkeypatch.setattr(main_job, "COMMANDS", dict.fromkeys(main_job.COMMANDS, "highway_networks.py --help --jobs 1"))
    (tmp_path / "highway_networks.py").write_text("open('ran_here', 'w')")
    path = tmp_path / "log.json"
    assert main_job.main(["--rounds", "1", "--json", str(path), "--beside", str(tmp_path)]) == 0
    assert (tmp_path / "ran_here").exists()
    log = read(path, JobLog, "write it again")
    assert dumps(log) == path.read_text()
    assert [use.name for use in log.usages] == [*main_job.COMMANDS, main_job.OTHER]
    assert all(use.command.endswith("--no-save") for use in log.usages)
    assert 0 < log.over_other.low <= log.over_other.high
    assert log.other_commit is None
    assert "of the time of commit unknown." in TABLES["main_job"](log)
    assert "commit" not in TABLES["main_job"](replace(log, usages=log.usages[:-1], over_other=None))
    assert main_job.commit_of(ROOT) == environment().commit


# --------------------------------------------------------------------------------------------- picture


def test_picture_shows_the_log_and_is_drawn_the_same_twice(tmp_path):
    log, source = made_up_log(), tmp_path / "training_step.json"
    write(source, log)
    pictures = [tmp_path / "one.png", tmp_path / "two.png"]
    for picture in pictures:
        assert figures.main([str(source), "--out", str(picture)]) == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()

    left, right = figures.step_figure(log).axes
    lines = {line.get_label(): line for line in left.lines}
    assert list(lines) == [entry.label for entry in CONTENDERS.values()]
    assert list(lines["JAX, scanned"].get_xdata()) == DEPTHS
    assert list(lines["JAX, scanned"].get_ydata()) == [7 * depth for depth in DEPTHS]
    assert [line.get_label() for line in right.lines] == ["this project", "products alone"]
    assert list(right.lines[0].get_xdata()) == [*DEPTHS, 1000]
    assert left.get_xscale() == left.get_yscale() == "log"

    left, _ = figures.step_figure(made_up_log(["ours"], [Case(5), Case(30)])).axes
    assert [line.get_label() for line in left.lines] == ["this project"]


def test_committed_picture_is_that_of_the_committed_log(tmp_path):
    log = committed_log(str(figures.LOG))
    redrawn = tmp_path / figures.PICTURE.name
    figures.main([str(log), "--out", str(redrawn)])
    assert_redrawn(ROOT / figures.PICTURE, redrawn.read_bytes(), log)


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("main", "argv", "named"),
    [
        (training_step.main, ["--depths", "5,x"], "--depths"),
        (training_step.main, ["--depths", "0"], "--depths"),
        (training_step.main, ["--rounds", "0"], "--rounds"),
        (training_step.main, ["--only", "floor", "nobody"], "nobody"),
        (training_step.main, ["--json", "/no/such/folder/log.json"], "/no/such/folder"),
        (main_job.main, ["--rounds", "-1"], "--rounds"),
        (main_job.main, ["--json", "/"], "/"),
        (main_job.main, ["--beside", "/no/such/folder"], "/no/such/folder"),
        (figures.main, ["no-such.json"], "python -m benchmarks.training_step --json no-such.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(main, argv, named, capsys):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m benchmarks.")
    assert err.count("\n") == 1
    assert named in err
