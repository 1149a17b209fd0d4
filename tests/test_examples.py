"""The examples: each runs in a quick form, draws its picture, and finds what it says."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import matplotlib
import pytest
from helpers import ROOT
from matplotlib import pyplot as plt

import highway_networks as hn

QUICK = {  # texts and what stands in for them
    "mend_a_plain_net": [
        ("EPOCHS = 20", "EPOCHS = 6"),
        ('("uniform", "glorot", "he")', '("glorot",)'),
        ("(0.005, 0.002, 0.001)", "(0.001,)"),
    ],
    "look_into_a_net": [("IMAGES = 1000", "IMAGES = 100")],
    "own_block": [("SEEDS, EPOCHS = 3, 10", "SEEDS, EPOCHS = 1, 5")],
    "own_images": [("IMAGES, EPOCHS = 100, 20", "IMAGES, EPOCHS = 60, 10")],
    "table_in_a_pipeline": [
        ("ROWS, FOLDS = 2000, 3", "ROWS, FOLDS = 2000, 2"),
        ("HighwayClassifier(random_state", "HighwayClassifier(tol=9, n_iter_no_change=1, random_state"),
        ("depth=20", "tol=9, n_iter_no_change=1, depth=2"),
        ("max_iter=1000", "tol=0.01"),
    ],
}
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.py"))}


@pytest.fixture
def run_example(workdir) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs a copy of an example, in its quick form, with more changes (old, new), and returns its variables.

    It draws its picture beside itself and leaves nothing else.
    """
    matplotlib.use("agg")
    known = set(hn.BLOCKS)

    def run_example(name: str, *changes: tuple[str, str]) -> dict[str, Any]:
        code = EXAMPLES[name]
        for old, new in [*QUICK[name], *changes]:
            assert code.count(old) == 1, old
            code = code.replace(old, new)
        Path(f"{name}.py").write_text(code, encoding="utf-8")
        variables = runpy.run_path(f"{name}.py")
        assert sorted(path.name for path in Path().iterdir()) == [f"{name}.png", f"{name}.py"]
        return variables

    yield run_example
    plt.close("all")
    for added in hn.BLOCKS.keys() - known:
        del hn.BLOCKS[added]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_its_picture_is_700_pixels_wide(name):
    assert EXAMPLES[name].count("\n# %% ") >= 4
    assert 30 <= len([line for line in EXAMPLES[name].splitlines() if line]) <= 60
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
    for (run,) in run_example("own_block")["runs"].values():
        assert run.history.validation_score[-1] > 0.6


def test_the_own_block_s_check_finds_a_wrong_gradient(run_example):
    with pytest.raises(AssertionError, match="backward pass"):
        run_example("own_block", ("a * b / 2 *", "a * b *"))


def test_the_net_of_images_learns_the_shapes_and_leaves_no_folder(run_example):
    found = run_example("own_images")
    assert found["score"] > 0.5  # chance: a third
    assert found["closed"].min() < found["score"]
    assert not found["FOLDER"].exists()


def test_the_pipeline_s_gates_are_those_of_its_rows(run_example):
    found = run_example("table_in_a_pipeline")
    assert len(found["depth"]) == len(found["test"])
    assert found["depth"].between(0, 2).all()
