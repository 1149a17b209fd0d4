"""What goes wrong around the programs: lost output, signals, claims too large, files that are none, full disks."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, files_below, limited_file_size, refused_with, small_log

import conv_recipes as conv
import highway_lab.files
import highway_networks as hn
import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from experiments import common, depth_search, gate_maps
from experiments.looks import models
from highway_lab import commands, datasets, logs, programs
from highway_lab.cli import OneLineParser, ignore_interrupts, run_cli
from highway_lab.commands import checkpoint_beside
from highway_lab.files import read_bytes
from highway_lab.jobs import MOST_LINES
from highway_lab.logs import LARGEST
from highway_lab.training import Training, memory_of
from highway_networks import InputError, fitted

DIGITS = ("--dataset", "digits", "--hidden", "4", "--n-train", "50", "--n-test", "20", "--epochs", "1")
SHORT = (*DIGITS, "--depth", "1", "--block", "plain")
CONV = ("--net", "digits", "--n-train", "50", "--n-validation", "20", "--n-test", "20", "--epochs", "1")
MAIN = str(ROOT / "highway_networks.py")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """A command line as a user types it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    words = command.replace("python", sys.executable, 1)
    return subprocess.run(words, shell=True, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "jobs"),
    [
        *((where, 1) for where in (">&-", "2>&-", ">&- 2>&- <&-", ">/dev/full", "| head -1", "2>/dev/full >&2")),
        *((where, 2) for where in (">&- 2>&- <&-", "2>/dev/full >&2")),
    ],
)
def test_a_log_is_saved_wherever_the_output_goes(tmp_path, redirected, jobs):
    shell(f"python {MAIN} {shlex.join(DIGITS)} --depth 1 --jobs {jobs} --out log.json {redirected}", tmp_path)
    assert len(logs.read(tmp_path / "log.json", logs.RunLog[hn.Config], "").runs) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log.json"]


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str)
@pytest.mark.parametrize("words", [("--help",), (*SHORT, "--seeds", "0,1", "--no-save")], ids=["help", "job"])
def test_an_encoding_without_the_characters_is_enough(tmp_path, environment, words):
    done = shell(f"python {MAIN} {shlex.join(words)}", tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", [f"-OO {MAIN} {shlex.join(SHORT)}", "-OO -m experiments"])
def test_stripped_docstrings_are_not_missed(tmp_path, words):
    assert shell(f"python {words}", tmp_path).returncode == 0


@pytest.mark.slow
def test_an_unknown_backend_of_matplotlib_draws_no_less(tmp_path):
    (tmp_path / "log.json").write_text(logs.dumps(small_log()))
    for program in (gif, viz):
        done = shell(f"python -m {program.__name__} log.json", tmp_path, MPLBACKEND="nonsense")
        assert done.returncode == 0, done.stderr
    done = shell("python -m experiments gate_maps plot", tmp_path, MPLBACKEND="nonsense")
    assert done.returncode == 2, done.stderr  # as there is no log


def test_a_name_of_bytes_that_are_no_text_is_logged_readably_and_drawn(workdir):
    log = "a\udcff.json"
    assert programs.main([*DIGITS, "--depth", "1", "--out", log, "--tensorboard", "events\udcff"]) == 0
    assert r"$'a\xff.json'" in logs.read(log, logs.RunLog[hn.Config], "").command
    assert viz.main([log]) == gif.main([log]) == 0
    assert Path("viz/a\udcff/learning_curves.png").read_bytes().count(rb"a\udcff.json sha256 ") == 1
    assert Path("viz/a\udcff/highway_networks.gif").exists()


def test_the_command_that_draws_a_log_can_be_typed_though_its_name_begins_as_a_flag(workdir, capsys):
    assert programs.main([*DIGITS, "--depth", "1", "--out=-a b.json"]) == 0
    *_, path = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert path == "./-a b.json"
    assert viz.main([path]) == 0


STEERING = "\x1b[2J\x9b1m\x07\u202e"  # clears a terminal, colours, rings, turns the direction of writing


@pytest.mark.parametrize("words", [["a\nb.json"], ["a.json", "--out\r\nb"]], ids=["file", "flag"])
def test_an_error_is_one_line_whatever_it_quotes(workdir, refused, words):
    error = refused(viz.main, [*words, STEERING])
    assert re.search(r"a\\nb|\\r\\nb", error)
    assert error.removesuffix("\n").isprintable()


def test_no_output_steers_the_terminal(workdir, monkeypatch, capsys):
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.training_loss,))
    log = f"{STEERING}.json"
    Path(log).write_text(logs.dumps(small_log()))
    assert viz.main([log]) == 0
    out = capsys.readouterr().out
    assert r"drew viz/\x1b[2J\x9b1m\x07" in out
    assert not set(out) & {"\x1b", "\x9b", "\x07"}


@pytest.mark.parametrize("words", ["run --configs 999999", "run --configs 1 --depths 2,999999 --fresh"])
def test_a_search_that_no_machine_can_hold_is_refused(workdir, refused, words):
    found = refused(depth_search.EXPERIMENT.main, [*words.split(), "--dataset", "digits", "--epochs", "1"])
    assert re.search(r"error: (memory|runs): expected", found)


@pytest.mark.parametrize("change", [{}, {"block": "plain", "batch_size": 30}, {"optimizer": "momentum"}], ids=str)
def test_the_memory_that_a_run_takes_is_known_beforehand(digits, change):
    config = hn.Config(**{"hidden": 40, "depth": 20, "n_train": 100, "n_test": 10, "batch_size": 100} | change)
    training = Training(config, digits)
    for _ in training.epochs(scored=False):
        break
    arrays = [value for value in vars(training.optimizer).values() if isinstance(value, np.ndarray)]
    for w in training.workspaces.values():
        arrays += [w.input, w.x1, w.z, w.dz, w.flows, w.gradients.flat]
    taken = training.net.params.flat.nbytes + sum(array.nbytes for array in arrays)
    assert 1 <= memory_of(config, digits) / taken < 1.5


def test_a_net_whose_outputs_overflow_is_not_looked_into(workdir, digits):
    net = hn.DeepNet(64, 10, hidden=20, depth=6, activation="relu", rng=np.random.default_rng(0))
    net.params.flat[:] = 1e8 * np.sign(net.params.flat)
    net.save("net.npz")
    with refused_with("net.npz", "1e15"):
        models.load(Path("net.npz"), digits)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        *((os.mkfifo, "a device or a pipe"), (os.mkdir, "a directory")),
        (lambda path: os.symlink("/dev/zero", path), "a device or a pipe"),
        (lambda path: os.symlink(path, path), "a link that leads nowhere"),
    ],
    ids=["pipe", "folder", "device", "loop"],
)
@pytest.mark.parametrize("name", ["log.digits.jsonl", "log.json", "net.npz"])
def test_what_is_no_file_in_the_place_of_one_is_refused(workdir, refused, no_training, make, found, name):
    make(name)
    error = refused(programs.main, [*SHORT, "--out", "log.json", "--save-model", "net.npz"])
    assert f"error: {name}: expected a place to write, found: {found}" in error
    assert f"error: {name}: expected a " in refused(viz.main, [name])


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge-idx1-ubyte"
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match="268,435,456 bytes"):
        read_bytes(path)


def test_a_log_of_more_values_than_memory_should_hold_is_not_read(workdir, refused):
    """Lists in a field that no log has, in 25 MB: they would take a gigabyte."""
    Path("log.json").write_bytes(b'{"other": [' + b"[]," * logs.MOST_VALUES + b"0]}")
    assert "log.json: expected a log of this version, found: more than 8,388,608 values" in refused(
        viz.main, ["log.json"]
    )
    for log in ("log.json", "log.digits.jsonl"):
        Path(log).touch()
        os.truncate(log, highway_lab.files.MAX_BYTES + 1)
        assert f"{log}: expected a " in (error := refused(viz.main, [log]))
        assert "found: more than 268,435,456 bytes" in error


def test_more_lines_than_any_job_writes_are_not_looked_at(workdir, refused):
    """Each would be hashed: minutes for a file of 100 MB."""
    Path("log.digits.jsonl").write_bytes(b'{"environment": ' + b"\n" * (MOST_LINES + 1))
    for program, words in ((viz, ["log.digits.jsonl"]), (programs, [*SHORT, "--out", "log.json"])):
        assert "log.digits.jsonl: expected at most 1,048,576 lines, found more" in refused(program.main, words)


def spoilt_log(change) -> dict:
    log = json.loads(logs.dumps(small_log()))
    log["runs"].append(json.loads(json.dumps(log["runs"][0])))
    change(log, log["runs"][2])
    return log


def longer(log: dict, run: dict) -> None:
    run["history"] = {name: values + values[-1:] for name, values in run["history"].items()}
    run["history"]["epoch"][-1] += 1
    run["config"]["epochs"] += 1
    run["gate_means"].append(run["gate_means"][-1])


SPOILT = {
    "other epochs": longer,
    "other blocks": lambda log, run: run.update(gate_means=[[0.1] * 3] * 2),
    "no data set": lambda log, run: log.update(dataset=None),
    "an unknown data set": lambda log, run: log["dataset"].update(name="imagenet"),
    "a slash": lambda log, run: log["dataset"].update(name="../x"),
    "no gates": lambda log, run: run.update(gate_means=[]),
    "gates beyond 1": lambda log, run: run.update(gate_means=[[1e308, 0.1]] * 2),
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("main", [viz.main, gif.main])
def test_a_log_that_cannot_be_drawn_is_refused(workdir, refused, main, change):
    Path("log.json").write_text(json.dumps(spoilt_log(change)))
    assert "log.json: expected" in refused(main, ["log.json"])
    assert [*files_below(workdir)] == ["log.json"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["...json", "run-...json", "run-.json", "a\n$b_{.json"])
def test_pictures_stay_in_a_folder_below_viz(workdir, monkeypatch, name):
    monkeypatch.setattr(viz, "RUN_FIGURES", (viz.training_loss,))
    Path(name).write_text(logs.dumps(small_log()))
    assert viz.main([name]) == gif.main([name]) == 0
    assert {len(Path(path).parts) for path in files_below(workdir) if path != name} == {3}


@pytest.mark.slow
def test_losses_without_bound_and_epochs_without_number_are_drawn(workdir, monkeypatch):
    monkeypatch.setattr(gif, "MOST_FRAMES", 3)
    log = small_log()
    log.runs[0].history.train_loss[:] = [LARGEST, -LARGEST]
    log.runs[0].history.test_score[:] = [-LARGEST, 1]
    longer_log = json.loads(logs.dumps(log))
    for _ in range(9):
        longer(longer_log, longer_log["runs"][0])
    Path("log.json").write_text(json.dumps(longer_log))
    assert viz.main(["log.json"]) == gif.main(["log.json"]) == 0
    assert len(list(gif.frames(viz.read_log(Path("log.json"))))) == 3


@pytest.mark.parametrize("name", ["very_deep", "gate_maps", "depth_search", "lesions", "blocks_compared"])
def test_experiments_notice_before_training_that_runs_is_no_folder(workdir, refused, no_training, name):
    Path("runs").write_text("")
    assert f"runs/{name}-smoke.json" in refused(common.load(name).main, ["run", "--smoke"])


def test_runs_that_may_not_be_added_to_are_noticed_before_training(
    public_folder, as_ordinary_user, monkeypatch, refused, no_training, digits
):
    monkeypatch.setattr(datasets, "_load_digits", lambda: digits)  # the ordinary user may not read root's environment
    monkeypatch.chdir(public_folder)
    public_folder.chmod(0o777)
    Path("log.digits.jsonl").touch(0o444)
    Path("runs").mkdir(0o755)
    with as_ordinary_user():
        assert "log.digits.jsonl: expected a file to add to" in refused(programs.main, [*SHORT, "--out", "log.json"])
        assert "no permission to write in runs" in refused(common.load("very_deep").main, ["run", "--smoke"])
        assert "no permission to write in runs" in refused(gate_maps.EXPERIMENT.main, ["run", "--smoke"])


FULL_DISK = {  # the largest file, what is wanted, what the error says
    "an epoch": (
        500,
        "--out log.json",
        ["log.digits.jsonl: File too large", "0 of 1 runs are safe in log.digits.jsonl"],
    ),
    "the net": (
        10_000,
        "--hidden 50 --out log.json --save-model net.npz --fresh",
        [
            "net.npz: expected a place to write, found: File too large",
            "0 of 1 runs are safe in log.digits.jsonl; to continue: python",
        ],
    ),
    "events": (
        1000,
        "--no-save --tensorboard events",
        [
            "events/digits-plain",
            "/events: expected a place to write, found: File too large",
            "choose another path or free the disk; nothing is kept with --no-save\n",
        ],
    ),
}


@pytest.mark.parametrize(("size", "words", "parts"), FULL_DISK.values(), ids=FULL_DISK)
def test_a_full_disk_ends_the_job_with_a_line_and_it_goes_on_later(workdir, capsys, size, words, parts):
    with limited_file_size(size):
        assert programs.main([*SHORT, *words.split()]) == 1
    error = capsys.readouterr().err
    assert all(part in error for part in ["interrupted: ", *parts]), error
    assert "--fresh" not in error, "what is safe would be forgotten"
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
    assert not Path("log.digits.jsonl").exists()


PROGRAMS = ["highway_networks.py", "conv_highway_networks.py", "visualize_highway_networks.py"]
MODULES = ["experiments", "pages", "benchmarks"]


@pytest.mark.parametrize("words", [*([ROOT / name] for name in PROGRAMS), *(["-m", name] for name in MODULES)])
def test_ctrl_c_while_a_program_imports_ends_it_without_a_traceback(tmp_path, words):
    program = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nfinally:\n    print('imported')"
    (tmp_path / "numpy.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_while_flags_are_parsed_is_told_in_a_line(capsys):
    parser = OneLineParser(prog="python slow.py")
    parser.add_argument("--slow", type=lambda text: signal.raise_signal(signal.SIGINT))
    assert run_cli(parser, lambda given: 0, ["--slow", "1"]) == 130
    assert capsys.readouterr().err == "\npython slow.py: interrupted\n"


def test_a_program_that_is_to_ignore_ctrl_c_does():
    with ignore_interrupts():
        assert run_cli(OneLineParser(), lambda given: signal.raise_signal(signal.SIGINT), []) == 0


def test_ctrl_c_while_it_is_told_what_is_safe_does_nothing():
    with ignore_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def checkpoint(workdir, digits) -> Path:
    """A file in the place of the checkpoint of a convolutional net on the digits, whose log is log.json."""
    config = fitted(conv.configure("digits"), digits)
    path = checkpoint_beside(Path("log.json"), "digits", config)
    path.write_bytes(b"an earlier one")
    return path


@pytest.mark.parametrize("old", [[], ["--fresh"]])
def test_a_net_in_the_place_of_its_runs_checkpoint_is_refused(workdir, refused, checkpoint, old):
    words = ["--net", "digits", "--out", "log.json", "--save-model", checkpoint.name, *old]
    assert f"--save-model: expected a file that outlives the run, found its checkpoint {checkpoint}" in refused(
        conv.main, words
    )
    assert files_below(workdir) == {checkpoint.name: b"an earlier one"}


def test_nothing_is_forgotten_beside_a_file_of_something_else(workdir, refused, checkpoint):
    Path("log.digits.jsonl").write_bytes(b"Dear diary")
    before = files_below(workdir)
    error = refused(conv.main, ["--net", "digits", "--out", "log.json", "--fresh"])
    assert "log.digits.jsonl: expected a RunRecord a line, found something else; move the file" in error
    assert files_below(workdir) == before


@pytest.mark.parametrize("flag", ["--out", "--save-model", "--tensorboard", "--data-dir", "--block"])
def test_empty_arguments_are_refused(workdir, refused, no_training, flag):
    for words in ([flag, ""], [f"{flag}="]):
        assert f"expected no empty one, found one after {words[0]}; give it a value" in refused(
            programs.main, [*SHORT, *words]
        )
    assert files_below(workdir) == {}


def test_a_number_below_zero_may_have_an_exponent(workdir):
    assert programs.main([*SHORT, "--gate-bias", "-1e30", "--out", "log.json"]) == 0
    assert logs.read("log.json", logs.RunLog[hn.Config], "").runs[0].config.gate_bias == -1e30


@pytest.mark.parametrize("length", [225, 240, 250, 300])  # too long for a checkpoint, the runs, the log
def test_a_name_that_the_disk_cannot_have_is_refused_before_training(workdir, refused, no_training, length):
    error = refused(conv.main, ["--net", "digits", "--out", "a" * (length - 5) + ".json"])
    assert re.search(r"expected a place to write, found: a name of \d+ bytes, more than 245; ", error)
    assert files_below(workdir) == {}


def test_the_longest_name_can_be_written(workdir):
    name = "a" * highway_lab.files.LONGEST_NAME
    with highway_lab.files.atomic_write(name) as file:
        file.write("")
    assert files_below(workdir) == {name: b""}


def test_what_a_killed_writer_left_goes_with_the_next_writer(workdir):
    Path(".log.json.01234567").touch()
    with highway_lab.files.atomic_write("log.json") as first:
        with highway_lab.files.atomic_write("log.json") as second:
            second.write("second")
        first.write("first")
    assert files_below(workdir) == {"log.json": b"first"}


def replace_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


RUNS = Path("runs")
LOST = {  # the nets, how the log's folder is lost during the second run, the code, how it is mended, all training
    "read-only": ("dense", lambda: RUNS.chmod(0o555), 2, lambda: RUNS.chmod(0o755), [0, 1]),
    "read-only for checkpoints": ("conv", lambda: RUNS.chmod(0o555), 1, lambda: RUNS.chmod(0o755), [0, 1, 1]),
    "removed": ("conv", lambda: shutil.rmtree(RUNS), 0, None, [0, 1]),
    "replaced by a file": ("conv", lambda: replace_by_a_file(RUNS), 2, RUNS.unlink, [0, 1, 0, 1]),
    "removed with the working directory": ("dense", lambda: shutil.rmtree(Path.cwd()), 1, None, [0, 1]),
}


@pytest.mark.parametrize(("nets", "lose", "code", "mend", "expected"), LOST.values(), ids=LOST)
def test_a_folder_that_is_lost_in_mid_job_is_told_in_a_line(
    public_folder, as_ordinary_user, monkeypatch, capsys, digits, nets, lose, code, mend, expected
):
    (main, words), train, trained = (
        (programs.main, SHORT) if nets == "dense" else (conv.main, CONV),
        commands.train_resumably,
        [],
    )
    monkeypatch.setattr(datasets, "_load_digits", lambda: digits)

    def train_or_lose(config, data, **options):
        trained.append(config.seed)
        if trained == [0, 1]:
            lose()
        return train(config, data, **options)

    def job() -> tuple[int | str | None, str]:
        try:
            code = main([*words, "--seeds", "0,1", "--out", "runs/log.json"])
        except SystemExit as stopped:
            code = stopped.code
        return code, capsys.readouterr().err.strip()

    monkeypatch.setattr(commands, "train_resumably", train_or_lose)
    public_folder.chmod(0o777)
    monkeypatch.chdir(public_folder)
    with as_ordinary_user():
        Path("place", RUNS).mkdir(parents=True)
        os.chdir("place")
        found, error = job()
        assert (found, error.count("\n"), bool(error)) == (code, 0, code != 0), error
        if mend:
            mend()
            RUNS.mkdir(exist_ok=True)
            assert job() == (0, "")
    assert trained == expected
    assert [*files_below(public_folder)] == (["place/runs/log.json"] if code == 0 or mend else [])


def test_a_disk_too_full_for_the_log_loses_no_run(workdir, refused, monkeypatch):
    dumps = logs.dumps
    monkeypatch.setattr(logs, "dumps", lambda log: "x" * 10**6 if log.finished else dumps(log))
    with limited_file_size(10**5):
        error = refused(programs.main, [*SHORT, "--fresh", "--out", "log.json"])
    assert "log.json: expected a place to write, found: File too large" in error
    assert error.endswith(f"to continue: python highway_networks.py {shlex.join(SHORT)} --out log.json\n")
    assert [*files_below(workdir)] == ["log.digits.jsonl"]
    monkeypatch.undo()
    monkeypatch.chdir(workdir)
    monkeypatch.setattr(commands, "train_resumably", lambda *_, **__: pytest.fail("trained again"))
    assert programs.main([*SHORT, "--out", "log.json"]) == 0
