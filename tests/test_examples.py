"""The examples: each runs in a quick form, as program and as notebook, draws its picture, and finds what it says."""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import matplotlib
import nbformat
import numpy as np
import pandas as pd
import pytest
from helpers import ROOT, child_environment
from matplotlib import pyplot as plt

import highway_networks as hn
from docs.notebooks import notebook_of, run
from highway_lab.datasets import load_dataset
from highway_networks import accuracy

QUICK = {  # texts and what stands in for them
    "highway_layer": [("EPOCHS = 30, 40, 30", "EPOCHS = 30, 40, 4")],
    "mend_a_plain_net": [
        ("EPOCHS = 20", "EPOCHS = 6"),
        ('("uniform", "glorot", "he")', '("glorot",)'),
        ("(0.005, 0.002, 0.001)", "(0.001,)"),
    ],
    "look_into_a_net": [("IMAGES = 1000", "IMAGES = 100")],
    "own_block": [("SEEDS, EPOCHS = 3, 10", "SEEDS, EPOCHS = 1, 5")],
    "read_a_digit": [],
    "own_images": [("IMAGES, EPOCHS = 100, 20", "IMAGES, EPOCHS = 60, 10")],
    "compare_on_a_table": [
        ("FOLDS, EPOCHS, DEPTHS, RATES = 0.2, 2, 100, [1, 3, 10],", "FOLDS, EPOCHS, DEPTHS, RATES = 0.2, 2, 10, [1],")
    ],
    "table_in_a_pipeline": [
        ("ROWS, FOLDS = 2000, 3", "ROWS, FOLDS = 2000, 2"),
        ("HighwayClassifier(random_state", "HighwayClassifier(tol=9, n_iter_no_change=1, random_state"),
        ("depth=20", "tol=9, n_iter_no_change=1, depth=2"),
        ("max_iter=1000", "tol=0.01"),
    ],
}
NOTEBOOKS = sorted(path.stem for path in (ROOT / "examples").glob("*.ipynb"))
EXAMPLES = {name: (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8") for name in NOTEBOOKS}
PROGRAMS = [name for name in EXAMPLES if name != "highway_layer"]  # the lecture is read as a notebook


def quick(name: str, *changes: tuple[str, str]) -> str:
    """The code of an example in its quick form, with more changes (old, new)."""
    code = EXAMPLES[name]
    for old, new in [*QUICK[name], *changes]:
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.text for output in outputs if output.output_type == "stream")


@pytest.fixture
def run_example(workdir) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs an example as `quick` makes it and returns its variables; it leaves a picture and nothing else."""
    matplotlib.use("agg")
    known = set(hn.BLOCKS)

    def run_example(name: str, *changes: tuple[str, str]) -> dict[str, Any]:
        Path(f"{name}.py").write_text(quick(name, *changes), encoding="utf-8")
        variables = runpy.run_path(f"{name}.py")
        assert sorted(path.name for path in Path().iterdir()) == [f"{name}.png", f"{name}.py"]
        return variables

    yield run_example
    plt.close("all")
    for added in hn.BLOCKS.keys() - known:
        del hn.BLOCKS[added]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_notebook_has_the_cells_of_its_program_with_what_they_print_and_draw(name):
    path = ROOT / "examples" / f"{name}.ipynb"
    committed, made = nbformat.read(path, as_version=4), notebook_of(EXAMPLES[name])
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in made.cells
    ], "make notebooks"
    assert printed(committed)
    kinds = [output.output_type for cell in committed.cells for output in cell.get("outputs", [])]
    assert set(kinds) == {"stream", "display_data"}  # no errors, no objects that a cell happens to end with
    assert path.stat().st_size < 300_000


@pytest.mark.slow
def test_each_notebook_is_one_file_of_html_that_loads_nothing(tmp_path):
    pytest.importorskip("nbconvert", reason="needs the extra notebooks")
    words = ["make", "--dry-run", "handouts", f"PYTHON={sys.executable}", f"HANDOUTS={tmp_path}"]
    recipe = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    (command,) = re.findall(r"^.*-m nbconvert (?:.*\\\n)*.*$", recipe, re.MULTILINE)
    subprocess.run(command, shell=True, cwd=ROOT, check=True)
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")}
    assert sorted(pages) == NOTEBOOKS
    for name, page in pages.items():
        assert re.findall(r"<(?:script|link|iframe)\b|@import|(?:src=|url\()(?![\"']?data:)", page) == [], name
        assert 'src="data:image/png' in page


@pytest.mark.slow
def test_the_lecture_s_gates_let_gradients_through_and_the_net_learn(workdir, capfd):
    notebook = notebook_of(quick("highway_layer"))
    run(notebook, workdir)
    assert "WARNING" not in capfd.readouterr().err  # of the kernel
    text = printed(notebook)
    highway, plain = map(float, re.findall(r"(\S+) of the gradient arrives", text))
    assert highway > 1e-2
    assert plain < 1e-6
    highway, plain = map(float, re.findall(r"([\d.]+)% of the test images", text))
    assert highway > 50
    assert plain < 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short_and_its_picture_is_700_pixels_wide(name):
    assert EXAMPLES[name].count("\n# %% ") >= 4
    most = {"compare_on_a_table": 150, "read_a_digit": 75}.get(name, 60)  # these are programs, too
    assert 30 <= len([line for line in EXAMPLES[name].splitlines() if line]) <= most
    assert iio.improps(ROOT / "examples" / f"{name}.png").shape[1] == 700


def test_a_plain_net_fails_until_its_weights_are_tuned(run_example):
    plain, highway, mended = run_example("mend_a_plain_net")["accuracy"].values()
    assert plain < 0.2
    assert 0.6 < mended < highway


def test_the_trained_net_needs_its_first_layers_most(run_example, real_mnist, monkeypatch):
    monkeypatch.setenv("HIGHWAY_DATA_DIR", str(real_mnist))
    found = run_example("look_into_a_net")
    assert found["gates"].shape == (49, 10)
    assert found["error"] < 0.05
    assert found["closed"][:10].mean() > found["closed"][10:].mean()


def test_the_own_block_learns(run_example):
    for (found,) in run_example("own_block")["runs"].values():
        assert found.history.validation_score[-1] > 0.6


def test_the_own_block_s_check_finds_a_wrong_gradient(run_example, capsys):
    with pytest.raises(AssertionError, match="the backward pass does not belong"):
        run_example("own_block", ("a * b / 2 *", "a * b *"))
    assert "the first that is wrong is dT\n" in capsys.readouterr().out


def test_the_net_of_images_learns_the_shapes_and_leaves_no_folder(run_example):
    found = run_example("own_images")
    assert found["score"] > 0.5  # chance: a third
    assert found["closed"].min() < found["score"]
    assert not found["FOLDER"].exists()


def test_digits_are_read_in_pictures_of_any_size_dark_on_bright_and_bright_on_dark(
    run_example, real_mnist, monkeypatch, tmp_path_factory, capsys
):
    monkeypatch.setattr(sys, "argv", ["read_a_digit.py"])
    found, rng = run_example("read_a_digit"), np.random.default_rng(0)
    net, as_mnist, data = found["net"], found["as_mnist"], load_dataset("mnist", real_mnist)
    for paper, ink, scale in ((230, 30, 7), (20, 200, 1)):
        pages = np.full((50, 3, 40 * scale, 60 * scale), paper, np.uint8)
        for page, digit in zip(pages, data.test_x, strict=False):
            row, column = rng.integers(0, 12 * scale, 2)
            larger = np.kron(digit[0] / 255, np.ones((scale, scale)))
            page[:, row:, column:][:, : 28 * scale, : 28 * scale] = paper + (ink - paper) * larger
            page[...] = page * np.linspace(1, 0.4, page.shape[-1])  # light from a side
        images = np.stack([as_mnist(page) for page in pages])
        assert accuracy(net.predict(net.preprocess(images)), data.test_y[:50]) > 0.9
    path = tmp_path_factory.mktemp("pictures") / "four.png"
    monkeypatch.setattr(sys, "argv", ["read_a_digit.py", str(path)])
    iio.imwrite(path, 255 - found["picture"][0])
    assert run_example("read_a_digit")["digit"] == 4 == found["digit"] != found["misread"]
    iio.imwrite(path, np.full((9, 9), 200, np.uint8))
    with pytest.raises(SystemExit, match="2"):
        run_example("read_a_digit")
    assert "found nothing but paper" in capsys.readouterr().err


def test_the_pipeline_s_gates_are_those_of_its_rows(run_example):
    found = run_example("table_in_a_pipeline")
    assert len(found["depth"]) == len(found["test"])
    assert found["depth"].between(0, 2).all()


@pytest.fixture
def hire(workdir) -> pd.DataFrame:
    """A table of one's own, hire.csv, of numbers and texts, some of them missing."""
    rng, names = np.random.default_rng(0), ["sun", "rain", None]
    hour, gaps = rng.uniform(0, 24, 120), np.where(rng.uniform(size=120) < 0.1, np.nan, 1)
    columns = {"hour": hour * gaps, "weather": rng.choice(names, 120), "busy": np.where(hour > 12, "yes", "no")}
    table = pd.DataFrame(columns | {"price": 2 * hour + rng.normal(size=120)})
    table.to_csv("hire.csv", index=False)
    return table


@pytest.mark.slow
@pytest.mark.parametrize(("target", "workers"), [("busy", -1), ("price", 1)])
def test_nets_and_a_block_of_ones_own_are_compared_on_a_table_of_ones_own(hire, target, workers):
    """By worker processes, too, which learn to know the block from the file."""
    Path("mine.py").write_text("from highway_networks import BLOCKS\nBLOCKS['mine'] = BLOCKS['residual']\n", "utf-8")
    Path("compare.py").write_text(quick("compare_on_a_table", ("n_jobs=-1", f"n_jobs={workers}")), "utf-8")
    words = [target, "--seeds", "2", "--tries", "1", "--import", "mine.py", "--out", "found"]
    command = [sys.executable, "compare.py", "hire.csv", "--target", *words]
    done = subprocess.run(command, env=child_environment(), capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv("found.csv", index_col="kind")
    assert {*table.index} == {"highway", "residual", "plain", "plain, orthogonal", "mine", "MLP", "boosted trees"}
    assert table["accuracy" if target == "busy" else "R²"].is_monotonic_decreasing
    assert table.iloc[0, 0] > 0.8
    assert (table.n == 2).all()
    assert all(kind in done.stdout for kind in table.index)
    assert Path("found.tex").read_text(encoding="utf-8").count(r"\\") == 8
    assert iio.improps("found.png").shape[1] == 700


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hours", "--target: expected one of hour, weather, busy, price, name, none, found hours; choose another"),
        ("busy", "found 120 different texts; leave it out (--drop name), or make it numbers"),
        ("price --drop name", "none: expected finite numbers, or at most 50 different texts, found no value; "),
        ("busy --drop busy", "--drop: expected one of hour, weather, busy, price, name, none, found busy"),
        ("name --drop none", "name: expected at least 5 rows of each class, found 1; join or drop some"),
    ],
)
def test_a_table_that_cannot_be_compared_is_refused_in_a_line(hire, monkeypatch, refused, words, message):
    hire.assign(name=[f"n{i}" for i in range(120)], none=None).to_csv("hire.csv", index=False)
    program = str(ROOT / "examples" / "compare_on_a_table.py")
    monkeypatch.setattr(sys, "argv", [program, "hire.csv", "--target", *words.split()])
    assert message in refused(runpy.run_path, program)


def test_a_kind_of_net_of_ones_own_is_trained_and_drawn_beside_those_of_a_study(workdir):
    """Each command is a process of its own, which learns to know the block from the file."""
    own = ["--with", str(ROOT / "examples" / "my_arm.py")]
    for words in (["run", "--smoke", *own], ["plot", "runs/small_nets-smoke-with-my_arm.json", *own]):
        command = [sys.executable, "-m", "experiments", "small_nets", *words]
        shown = subprocess.run(command, env=child_environment(), capture_output=True, encoding="utf-8")
        assert shown.returncode == 0, shown.stderr
    assert "residual, halved, 20, 50: lr 0.0005; error " in shown.stdout
    assert Path("viz/smoke-with-my_arm/small_nets.png").exists()
