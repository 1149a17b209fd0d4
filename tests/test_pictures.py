"""The pictures: they show the numbers of their log, are drawn the same twice, and belong to the committed logs.

Bytes are compared where the versions installed here drew the picture. Elsewhere fonts and layout may differ: then a
warning says so, and the log's digest alone is compared.
"""

import dataclasses
import html
import io
import re
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from helpers import ROOT, assert_says, files_below, refused_with, slashes
from hypothesis import given
from hypothesis import strategies as st
from made_up import made_up_log
from picture_helpers import committed_log, outdated
from PIL import Image, ImageSequence

import make_highway_networks_gif as gif
import visualize_highway_networks as pictures
from highway_lab import figures
from highway_lab.logs import write
from highway_networks import BLOCKS, LOSSES, InputError

PAGE = b"<!DOCTYPE html>"  # the first bytes of a picture that is a page


# ----------------------------------------------------------------------------------- comparing pictures


def origin(picture: bytes) -> tuple[str, str]:
    """Return name and digest of a picture's log, and the software that drew it."""
    if picture.startswith(PAGE):
        about = dict(re.findall(r'<meta name="(source|generator)" content="([^"]*)">', picture.decode()))
        return html.unescape(about["source"]), about["generator"]
    with Image.open(io.BytesIO(picture)) as image:
        if image.format == "GIF":
            log, software = image.info["comment"].decode().split("\n")
            return log, software
        return image.text["Source"], image.text["Comment"]


# ---------------------------------------------------------------------------------- the committed pictures


def assert_redrawn(path: Path, redrawn: bytes, *logs: Path) -> None:
    """Fail unless the committed picture is the one that its logs give."""
    name = path.relative_to(ROOT)
    if not path.exists():
        outdated(f"{name} has not been drawn")
    content = path.read_bytes()
    source, software = origin(content)
    if source != "\n".join(map(figures.name_with_digest, logs)):
        outdated(f"{name} was drawn from other logs than {', '.join(log.name for log in logs)}")
    here = figures.page_renderer() if content.startswith(PAGE) else figures.renderer()
    if software != here:
        return warnings.warn(f"{name}: not compared, as drawn by {software}, here by {here}", stacklevel=1)
    same = content == redrawn
    assert same, f"{name}: other bytes, though from the same logs by the same {software}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "run_sweep.json"])
def test_committed_pictures_are_those_of_the_committed_logs(name, tmp_path):
    log = committed_log(name)
    for redrawn in pictures.draw(log, tmp_path):
        assert_redrawn(ROOT / "viz" / redrawn.name, redrawn.read_bytes(), log)


@pytest.mark.slow
def test_committed_animation_is_that_of_the_committed_log(tmp_path):
    log = committed_log("run.json")
    redrawn = gif.animate(log, tmp_path / gif.NAME)
    assert_redrawn(ROOT / gif.NAME, redrawn.read_bytes(), log)
    assert redrawn.stat().st_size <= 150_000


# ------------------------------------------------------------------------------------------ any log's files


@pytest.fixture
def two_kinds(monkeypatch):
    """A log of two kinds of block with gates, one of them a user's, whose gates are twice as far open."""
    monkeypatch.setitem(BLOCKS, "own", BLOCKS["highway"])
    log = made_up_log(blocks=("highway", "own"))
    highway, own = log.runs
    own.gate_means = [[2 * mean for mean in row] for row in highway.gate_means]
    return log


def test_gates_of_several_kinds_of_block_are_drawn_apart_each_in_its_colour(two_kinds):
    drawn = [*pictures.figures_of(two_kinds)]
    assert drawn[:2] == ["learning_curves", "training_loss"]
    assert drawn[2:] == [f"{name}-{kind}" for name in GATE_PICTURES for kind in ("highway", "own")]
    shown = {}
    for kind, of_kind in pictures.kinds_with_gates(two_kinds).items():
        bars = pictures.T_gate_bars(of_kind).patches
        shown[kind] = bars[0].get_facecolor(), np.array([bar.get_height() for bar in bars])
    np.testing.assert_allclose(shown["own"][1], 2 * shown["highway"][1])
    assert shown["own"][0] != shown["highway"][0]


def test_curves_bars_and_pictures_are_named_by_what_varies():
    log = made_up_log(blocks=("highway",), lr=(0.01, 0.002), depths=(4,))
    assert [*pictures.figures_of(log)][2:] == [f"{name}-lr-{lr}" for name in GATE_PICTURES for lr in (0.01, 0.002)]
    left, _ = pictures.learning_curves(log)
    assert [line.get_label() for line in left.lines] == ["lr 0.01", "lr 0.002", "chance"]
    assert len({line.get_color() for line in left.lines}) == 3
    assert "accuracy 86 % (lr 0.002) to 86 % (lr 0.01)" in left.figure.get_suptitle()
    assert len([*gif.frames(log)]) == 4


def test_gates_of_a_users_block_may_lie_beyond_0_and_1(two_kinds, workdir):
    two_kinds.runs[1].gate_means = [[1 - 5 * mean for mean in row] for row in two_kinds.runs[1].gate_means]
    write("run.json", two_kinds)
    own = pictures.kinds_with_gates(pictures.read_log(Path("run.json")))["own"]
    for figure in pictures.GATE_FIGURES:
        figure(own)
    next(gif.frames(own))


def test_an_animation_has_a_panel_for_the_gates_of_each_kind_of_block(two_kinds):
    (two, *_), (one, *_) = gif.frames(two_kinds), gif.frames(dataclasses.replace(two_kinds, runs=two_kinds.runs[:1]))
    assert two.shape == (one.shape[0] * 3 // 2, *one.shape[1:])


RUN_PICTURES = ["learning_curves", "plain_loss_collapse"]
GATE_PICTURES = ["T_gate_evolution", "T_gate_bars"]
SOME_DIVERGED = {"seeds": (0, 1), "diverged": [("highway", 1), ("plain", 0), ("plain", 1)]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(made_up_log(), RUN_PICTURES + GATE_PICTURES, id="both nets"),
        pytest.param(made_up_log(blocks=["plain"]), RUN_PICTURES, id="plain alone"),
        pytest.param(made_up_log(depths=(0,)), RUN_PICTURES, id="no blocks"),
        pytest.param(made_up_log(**SOME_DIVERGED), RUN_PICTURES + GATE_PICTURES, id="some diverged"),
        pytest.param(made_up_log(diverged=[("highway", 0)]), RUN_PICTURES, id="highway diverged"),
    ],
)
def test_pictures_suit_the_log_and_name_it(log, expected, workdir):
    write("run.json", log)
    drawn = pictures.draw(Path("run.json"), Path("here"))
    assert [path.stem for path in drawn] == expected
    for path in drawn:
        assert origin(path.read_bytes()) == (figures.name_with_digest("run.json"), figures.renderer())
        with Image.open(path) as image:
            assert matplotlib.__version__ in image.text["Software"]


def test_pictures_lie_in_the_folder_of_their_log(workdir):
    write("run.json", made_up_log(blocks=["plain"], epochs=1))
    write("run-digits.json", made_up_log(blocks=["plain"], epochs=1, dataset="digits"))
    write("run_sweep-digits.json", made_up_log(depths=(1, 2), epochs=1, dataset="digits"))
    assert pictures.main([]) == 0
    drawn = {"learning_curves.png", "plain_loss_collapse.png", "digits/depth_sweep.png"}
    drawn.add("digits/T_gate_bars_by_depth.png")
    drawn |= {f"digits/{name}.png" for name in RUN_PICTURES}
    assert set(files_below(workdir / "viz")) == drawn


@pytest.mark.symlinks
def test_only_the_committed_log_has_its_pictures_in_viz_by_whatever_path(workdir):
    Path("runs").mkdir()
    Path("elsewhere").mkdir()
    committed, copy = Path("runs/lesions.json"), Path("elsewhere/lesions.json")
    for path in (committed, copy):
        path.touch()
    Path("link.json").symlink_to(committed)
    for path in (committed, committed.absolute(), Path("runs/../runs/lesions.json"), Path("link.json")):
        assert figures.picture_folder(path, committed) == Path("viz")
    assert figures.picture_folder(copy, committed) == Path("viz/lesions")
    assert figures.picture_folder("elsewhere/lesions-.json", committed) == Path("viz/unnamed")


@pytest.mark.parametrize(
    ("program", "out", "mine"), [(pictures, "here", Path("here/T_gate_bars.png")), (gif, "mine.gif", Path("mine.gif"))]
)
def test_a_file_that_is_no_picture_of_a_log_is_not_replaced(workdir, refused, program, out, mine):
    write("mine.json", made_up_log(blocks=["highway"], epochs=1))
    assert program.main(["mine.json", "--out", out]) == program.main(["mine.json", "--out", out]) == 0
    mine.write_bytes(b"a photograph")
    before = files_below(workdir)
    error = refused(program.main, ["mine.json", "--out", out])
    assert f"{mine.as_posix()}: expected no file, or a picture of a log, found another; move it" in error
    assert files_below(workdir) == before


@pytest.mark.parametrize(
    ("program", "log", "arguments", "parts"),
    [
        pytest.param(pictures, None, [], ["run.json", "python highway_networks.py --seed 0"], id="nothing there"),
        pytest.param(pictures, made_up_log(seeds=()), [], ["run.json", "length >= 1", "$.runs"], id="no runs"),
        pytest.param(pictures, made_up_log(), ["--out", "here"], ["--out", "LOG.json"], id="a folder for no one log"),
        pytest.param(pictures, made_up_log(), ["run.json", "--out", "run.json"], ["run.json"], id="a file in the way"),
        pytest.param(pictures, made_up_log(), ["run.json", "--out", "a.pdf"], ["folder for 4", "--out a"], id="a file"),
        pytest.param(gif, made_up_log(blocks=["plain"]), [], ["run.json", "gates"], id="no gates"),
        pytest.param(gif, made_up_log(diverged=[("highway", 0)]), [], ["run.json", "gates"], id="diverged"),
        pytest.param(gif, made_up_log(depths=(5, 10)), [], ["run.json", "[5, 10]"], id="several depths"),
        pytest.param(gif, made_up_log(lr=(1, 2, 3, 4, 5)), [], ["run.json", "1 to 4 kinds", "5 kinds"], id="kinds"),
    ],
)
def test_errors_are_one_line(program, log, arguments, parts, workdir, refused):
    if log:
        write("run.json", log)
    assert_says(InputError(refused(program.main, arguments).strip()), *parts)
    assert not [name for name in files_below(workdir) if name.endswith("gif")]


# ----------------------------------------------------------------------------------- what the axes show


def line(axes, label: str):
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return found


def test_learning_curves_show_every_seed_and_their_mean():
    log = made_up_log(seeds=(0, 1))
    for axes, field in zip(pictures.learning_curves(log), ("train_score", "test_score"), strict=True):
        for kind, runs in pictures.kinds_of(log.runs).items():
            seeds = [getattr(run.history, field) for run in runs]
            mean = line(axes, kind)
            np.testing.assert_array_equal(mean.get_xdata(), range(4))
            np.testing.assert_allclose(mean.get_ydata(), np.mean(seeds, axis=0))
            faint = [other for other in axes.lines if other.get_color() == mean.get_color() and other is not mean]
            np.testing.assert_array_equal([other.get_ydata() for other in faint], seeds)
            assert all(other.get_linewidth() < mean.get_linewidth() for other in faint)


@pytest.mark.parametrize(("dataset", "classes"), [("mnist", 10), ("cifar-100", 100)])
def test_accuracy_and_loss_are_shown_beside_those_of_guessing(dataset, classes):
    log = made_up_log(dataset=dataset)
    assert list(line(pictures.learning_curves(log)[0], "chance").get_ydata()) == [1 / classes] * 2
    axes = pictures.training_loss(log)
    np.testing.assert_array_equal(line(axes, "plain").get_ydata(), log.runs[1].history.train_loss)
    assert list(line(axes, f"guessing, {np.log(classes):.3f}").get_ydata()) == [np.log(classes)] * 2


def test_a_loss_and_a_score_of_ones_own_are_shown_by_their_names_without_a_guess(monkeypatch):
    monkeypatch.setitem(LOSSES, "one-hot", LOSSES["cross-entropy"])
    log, sweep = made_up_log(), made_up_log(depths=(1, 2))
    for run in (*log.runs, *sweep.runs):
        run.config, run.metric = dataclasses.replace(run.config, loss="one-hot"), "F1"
    loss, (score, final_loss) = pictures.training_loss(log), pictures.depth_sweep(sweep)
    assert loss.get_ylabel() == "mean loss (one-hot)"
    assert (score.get_title(), final_loss.get_title()) == ("test F1", "training loss (one-hot)")
    for axes in (*pictures.learning_curves(log), loss, score, final_loss):
        assert {of.get_label() for of in axes.lines if not of.get_label().startswith("_")} == {"highway", "plain"}
        assert "accuracy" not in axes.figure.get_suptitle()


def test_a_diverged_seed_ends_the_mean_and_is_named():
    log = made_up_log(seeds=(0, 1), diverged=[("plain", 1)])
    axes = pictures.training_loss(log)
    mean = line(axes, "plain (1 of 2 diverged)").get_ydata()
    assert np.isfinite(mean).tolist() == [True, False, False, False]
    finished = log.runs[1].history.train_loss
    assert any(np.array_equal(other.get_ydata(), finished) for other in axes.lines)


def test_gates_are_bars_beside_the_untrained_value_and_each_seed_is_a_dot():
    log = made_up_log(depths=(5,), seeds=(0, 1, 2), diverged=[("highway", 2)])
    axes, means = pictures.T_gate_bars(log), pictures.gate_means(log)
    assert means.shape == (2, 4, 5)
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], means[:, -1].mean(axis=0))
    np.testing.assert_allclose(line(axes, "untrained").get_ydata()[:-1], means[:, 0].mean(axis=0))
    dots = [other for other in axes.lines if other.get_marker() == "o"]
    np.testing.assert_allclose([dot.get_ydata() for dot in dots], means[:, -1])
    assert all(list(dot.get_xdata()) == [1, 2, 3, 4, 5] for dot in dots)
    np.testing.assert_allclose(axes.get_ylim(), (0, 1.3 * means.max()))
    assert "2 seeds" in axes.figure.get_suptitle()


def test_gates_by_epoch_are_white_where_they_are_as_before_training():
    log = made_up_log(depths=(5,))
    (image,) = pictures.T_gate_evolution(log).images
    means = pictures.gate_means(log).mean(axis=0)
    np.testing.assert_allclose(image.get_array(), means.T)
    assert image.norm(means[0].mean()) == pytest.approx(0.5)


def test_gates_of_very_many_depths_are_those_of_some(monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PANELS", 3)
    panels = pictures.T_gate_bars_by_depth(made_up_log(depths=range(1, 10)))
    assert [axes.get_ylabel() for axes in panels] == ["1 block", "5 blocks", "9 blocks"]


# --------------------------------------------------------------------------------------- the animation


@pytest.mark.slow
def test_animation_has_a_frame_an_epoch_and_repeats(workdir):
    write("run.json", made_up_log(blocks=["highway"], epochs=2))
    path = gif.animate(Path("run.json"))
    assert path == Path("highway_networks.gif")
    assert path.read_bytes() == gif.animate("run.json", "again/a.gif").read_bytes()
    assert path.stat().st_size <= 150_000
    assert origin(path.read_bytes()) == (figures.name_with_digest("run.json"), figures.renderer())
    with Image.open(path) as animation:
        assert animation.info["loop"] == 0
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(animation)]
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(animation)]
    assert len(frames) == 3
    assert durations == [gif.FRAME_MS] * 2 + [gif.LAST_FRAME_MS]
    assert gif.LAST_FRAME_MS >= 10 * gif.FRAME_MS, "there is time to read it"
    colors = np.unique(np.concatenate([np.asarray(frame).reshape(-1, 3) for frame in frames]), axis=0)
    assert len(colors) <= gif.PALETTE_COLORS


@pytest.mark.parametrize(("diverged", "word"), [(True, "diverged"), (False, "none")])
def test_titles_say_what_became_of_runs_without_a_score(diverged, word):
    (run,) = made_up_log(blocks=["plain"]).runs
    run.diverged, run.history.test_score[-1] = diverged, None
    assert pictures.reached([run], "test_score") == f"plain {word}"


def test_a_block_of_ones_own_has_one_colour_in_all_pictures_of_a_log(monkeypatch, workdir):
    names, colors = ["gate-a", "gate-b"], []
    for name in names:
        monkeypatch.setitem(BLOCKS, name, BLOCKS["highway"])
    monkeypatch.setattr(pictures, "set_title", lambda *of: colors.append(dict(figures.COLORS)))
    log = made_up_log(blocks=names)
    for run in log.runs:
        run.gate_means = [[0.1] * 4] * 4
    write("run.json", log)
    pictures.draw(Path("run.json"))
    assert [(of["gate-a"], of["gate-b"]) for of in colors] == [(colors[0]["gate-a"], colors[0]["gate-b"])] * 4


def test_epochs_that_change_nothing_keep_their_frames(workdir):
    log = made_up_log(blocks=["highway"], epochs=2)
    for values in (log.runs[0].history.test_score, log.runs[0].gate_means):
        values[1:] = values[:1] * 2
    write("run.json", log)
    with Image.open(gif.animate(Path("run.json"))) as animation:
        assert animation.n_frames == 3


def test_no_text_of_a_log_is_a_format_or_mathematics():
    log = made_up_log(blocks=["highway"], epochs=1)
    log.dataset.test_set = r"{0} {x $\frac$ $_{$ %s"
    pictures.learning_curves(log)[0].figure.draw_without_rendering()
    assert len([*gif.frames(log)]) == 2


def test_logs_that_have_no_animation_keep_none_from_the_others(workdir, capsys):
    write("run-plain.json", made_up_log(blocks=["plain"], epochs=1))
    write("run.json", made_up_log(blocks=["highway"], epochs=1))
    write("run_sweep.json", made_up_log(depths=(1, 2), epochs=1))
    write("run_sweep-depth1.json", made_up_log(blocks=["highway"], epochs=1, seeds=(0, 1)))
    assert gif.main([]) == 0
    assert capsys.readouterr().out.split() == ["made", gif.NAME, "made", str(Path("viz/depth1", gif.NAME))]


# ------------------------------------------------------------------------------------------- the style


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), st.floats(1, 20))
def test_spread_keeps_order_distance_and_bounds(positions, gap):
    positions = np.array(positions)
    moved = figures.spread(positions, gap, 5, 200)
    order = np.argsort(positions, kind="stable")
    assert np.all(np.diff(moved[order]) >= gap - 1e-9)
    assert moved.min() >= 5 - 1e-9
    assert moved.max() <= 200 + 1e-9


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")  # what libraries say of one another
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_labels_of_lines_that_end_together_do_not_overlap(scale):
    figure, axes = figures.new_figure("three lines", 3)
    for height in (0.5, 0.5, 0.51):
        axes.plot([1, 10], [1, height], label=f"to {height}")
    axes.set(xscale=scale, yscale=scale, ylim=(0.1, 1))
    labels = figures.label_ends(axes)[axes]
    figure.draw_without_rendering()
    boxes = sorted((label.get_window_extent() for label in labels.values()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))
    assert all(axes.bbox.x1 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    middle = axes.transData.transform((1, 0.503))[1]
    assert boxes[1].y0 < middle < boxes[1].y1


def test_a_picture_that_cannot_be_drawn_leaves_all_of_them_as_they_were(workdir):
    write("run.json", made_up_log())
    (workdir / "a.png").write_text("old, of a log with sha256 0", "utf-8")
    whole, (broken, axes) = figures.new_figure("whole", 2)[0], figures.new_figure("broken", 2)
    axes.set_title("$\\nosuchcommand$")
    with refused_with("run.json: expected a log to make b.png of, found: ValueError", "nosuchcommand", "anew"):
        figures.save_all({"a.png": lambda: whole, "b.png": lambda: broken}, Path(), "run.json")
    assert files_below(workdir).keys() == {"a.png", "run.json"}
    assert Path("a.png").read_text("utf-8").startswith("old")


def test_a_page_is_saved_as_it_is_but_for_what_it_was_drawn_from(workdir):
    (workdir / "a&b.json").touch()
    text = "<!DOCTYPE html>\n<html>\n<head>\n<title>ü</title>\n<head>"
    figures.save_all({"page.html": lambda: text}, Path(), "a&b.json")
    page = (workdir / "page.html").read_bytes()
    assert origin(page) == (figures.name_with_digest("a&b.json"), figures.page_renderer())
    assert re.sub(rb"\n<meta [^>]*>", b"", page).decode() == text


FORMATS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_log_gives_the_same_bytes_in_each_format(format, workdir):
    write("ü.json", made_up_log(blocks=["highway"], epochs=1))
    flags = ["ü.json", "--format", format, "--out"]
    assert pictures.main([*flags, "a"]) == pictures.main([*flags, "b"]) == 0
    for picture in Path("a").iterdir():
        assert picture.read_bytes() == Path("b", picture.name).read_bytes()
        assert picture.suffix == f".{format}"
        assert picture.read_bytes().startswith(FORMATS[format])


@pytest.mark.parametrize(("out", "format"), [("fig.pdf", "pdf"), ("fig.svg", None), ("fig", "pdf")])
def test_out_is_the_file_of_a_single_picture_or_a_folder(out, format, workdir):
    Path("log.json").touch()
    save = partial(figures.save_all, {"one.png": lambda: figures.new_figure("one", 2)[0]}, Path("viz"), "log.json")
    (made,) = save(out=Path(out), format=format)
    assert files_below(workdir).keys() - {"log.json"} == {made.as_posix()} == {out if "." in out else "fig/one.pdf"}
    for wrong, expected in (("fig.eps", "ends with .png, .pdf, .svg"), ("fig.png", "expected png, as in --out")):
        with refused_with(expected):
            save(out=Path(wrong), format="pdf")


def test_out_chooses_the_picture_that_it_is_named_like(workdir, refused, capsys):
    write("log.json", made_up_log(epochs=1))
    assert pictures.main(["log.json", "--out", "a/T_gate_bars.svg"]) == 0
    assert slashes(capsys.readouterr().out) == "drew a/T_gate_bars.svg\n"
    before = files_below(workdir)
    assert "or a name like learning_curves.png" in refused(pictures.main, ["log.json", "--out", "bars.png"])
    two = ["log.json", "log.json", "--out", "T_gate_bars.png"]
    assert "--out: expected one LOG.json, found 2; name the log" in refused(pictures.main, two)
    assert files_below(workdir) == before


@pytest.mark.parametrize(
    ("log", "command"),
    [
        ("runs/using_depth.json", "experiments using_depth plot"),
        ("runs/lesions-cifar-10.json", "experiments lesions plot"),
        ("benchmarks/conv_step.json", "benchmarks plot"),
    ],
)
def test_a_log_of_another_program_is_sent_to_it(log, command, refused):
    assert f"; try: python -m {command}" in refused(pictures.main, [(ROOT / log).as_posix()])
