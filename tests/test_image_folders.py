"""Folders of images, one subfolder a class: how they are read and split, what is refused, both programs."""

import json
import os
import re
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
from helpers import refused_with, slashes
from PIL import Image

import conv_recipes
import visualize_highway_networks as pictures
from highway_lab import datasets, programs
from highway_lab.datasets import load_dataset, load_folder, read_image
from highway_networks import Dataset


def write_images(folder: Path, n: int, colour: bool = True, shape: tuple[int, int] = (6, 8)) -> None:
    """Write n images of one class; the first pixel of image i is 10·i."""
    folder.mkdir(parents=True)
    for i in range(n):
        image = np.full((*shape, 3) if colour else shape, 200, np.uint8)
        image[0, 0] = 10 * i
        iio.imwrite(folder / f"{i:02}.png", image)


@pytest.fixture
def flowers(workdir) -> Path:
    """The path of 10 images of roses and 5 of tulips, grey."""
    write_images(Path("flowers/rose"), 10, colour=False)
    write_images(Path("flowers/tulip"), 5, colour=False)
    return Path("flowers")


def numbers(images: np.ndarray) -> list[int]:
    """Return the numbers of the images that `write_images` wrote."""
    return sorted((images[:, 0, 0, 0] // 10).tolist())


def all_images(data: Dataset) -> np.ndarray:
    return np.concatenate([data.train_x, data.test_x])


# ------------------------------------------------------------------------------------------------ reading


def test_a_fifth_of_each_class_is_for_testing_the_same_each_time(flowers):
    data = load_folder(flowers)
    assert (data.train_x.shape, data.test_x.shape) == ((12, 1, 6, 8), (3, 1, 6, 8))
    assert {data.train_x.dtype, data.test_x.dtype} == {np.dtype(np.uint8)}
    assert [np.bincount(y).tolist() for y in (data.train_y, data.test_y)] == [[8, 4], [2, 1]]
    for label, n in enumerate((10, 5)):
        train, test = data.train_x[data.train_y == label], data.test_x[data.test_y == label]
        assert sorted(numbers(train) + numbers(test)) == list(range(n))
    assert (data.outputs, data.classes, data.test_set) == (2, ("rose", "tulip"), "a fifth of each class")
    for first, second in zip(data, load_dataset(str(flowers)), strict=True):
        np.testing.assert_array_equal(first, second)


def test_folders_for_training_and_testing_are_used_as_they_are(workdir):
    for half, n in (("train", 3), ("test", 2)):
        write_images(Path("images", half, "cat"), n)
        write_images(Path("images", half, "dog", "puppies"), 1)
    Path("images/test/cat/.DS_Store").write_text("hidden", "utf-8")
    write_images(Path("images/test/dog/.copies"), 1)
    data = load_folder("images")
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([0, 0, 0, 1], [0, 0, 1])
    assert numbers(data.test_x[:2]) == [0, 1]
    assert (data.train_x.shape[1:], data.test_set) == ((3, 6, 8), "test images")


@pytest.mark.parametrize(
    ("mode", "suffix", "grey"),
    [
        *(("1", "png", True), ("L", "bmp", True), ("LA", "png", True), ("I;16", "tif", True), ("I;16", "png", True)),
        *(("P", "gif", False), ("RGB", "png", False), ("RGBA", "png", False), ("CMYK", "jpg", False)),
    ],
)
def test_a_picture_of_any_mode_has_its_brightness(tmp_path, mode, suffix, grey):
    bright = 255 if mode == "1" else 200
    pixels = np.repeat(np.array([[0, bright]], np.uint8), 8, axis=1).repeat(16, axis=0)
    deep = Image.fromarray(pixels.astype(np.uint16) * 257)
    picture = deep if mode == "I;16" else Image.fromarray(pixels).convert(mode)
    picture.save(tmp_path / f"picture.{suffix}")
    image = read_image(tmp_path / f"picture.{suffix}")
    assert (len(image), image.dtype) == (1 if grey else 3, np.uint8)
    np.testing.assert_allclose(image.astype(int), np.broadcast_to(pixels, image.shape), atol=3)


@pytest.mark.parametrize(("mode", "empty", "ink"), [("RGBA", (0, 0, 0, 0), (0, 0, 0, 255)), ("LA", (0, 0), (0, 255))])
def test_transparent_pixels_are_white(tmp_path, mode, empty, ink):
    picture = Image.new(mode, (4, 3), empty)
    picture.putpixel((1, 2), ink)
    picture.save(tmp_path / "drawing.png")
    image = read_image(tmp_path / "drawing.png")
    assert (image[:, 2, 1].max(), (image == 255).sum()) == (0, image.size - len(image))


@pytest.mark.parametrize(
    ("dtype", "largest", "most"),
    [
        *((np.uint16, 4000, 4095), (np.uint16, 255, 255), (np.uint16, 60_000, 65_535)),
        *((np.int32, 10_000, 16_383), (np.uint16, 1, 1), (np.uint8, 2, 3)),
    ],
)
def test_deep_pixels_keep_their_levels_on_one_scale_for_the_folder(workdir, capsys, dtype, largest, most):
    values = np.linspace(0, largest, 60).round().astype(dtype).reshape(10, 2, 3)
    for label, half in zip("ab", np.split(values, 2), strict=True):
        Path("deep", label).mkdir(parents=True)
        for i, image in enumerate(half):
            Image.fromarray(image).save(f"deep/{label}/{i}.{'tif' if dtype == np.int32 else 'png'}")
    found = np.sort(all_images(load_folder("deep")), axis=None)
    np.testing.assert_allclose(found, np.sort(values, axis=None) * (255 / most), atol=0.51)
    assert f"pixels scaled from 0..{most:,} to 0..255: 10 (a/0." in slashes(capsys.readouterr().err)


def test_a_picture_is_turned_as_its_camera_noted(tmp_path):
    values, exif = 20 * np.arange(12, dtype=np.uint8).reshape(3, 4), Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    Image.fromarray(values).save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "turned.png")[0], np.rot90(values, -1))


@pytest.mark.posix
def test_a_line_says_what_is_left_out_or_changed(flowers, capsys):
    load_folder(flowers)
    assert capsys.readouterr().err == ""
    for name in (".DS_Store", "Thumbs.db"):
        (flowers / "rose" / name).write_text("of the system", "utf-8")
    write_images(flowers / "__MACOSX" / "rose", 2)
    (flowers / "la\nbels.csv").write_text("rose", "utf-8")
    (flowers / "tulip/05.png").symlink_to("nowhere")
    frames = [Image.new("L", (8, 6), colour) for colour in (50, 60)]
    frames[0].putpixel((1, 1), 0)
    frames[0].save(flowers / "tulip/pages.tif", save_all=True, append_images=frames[1:])
    Image.new("L", (8, 6), 3).save(flowers / "tulip/mask.png")
    assert len(all_images(load_folder(flowers))) == 17
    line = slashes(capsys.readouterr().err)
    assert line.count("\n") == 1
    for words in (
        *("those of systems left out: 3 (__MACOSX, ...)", r"outside the folders of classes left out: 1 (la\nbels.csv)"),
        "nowhere, and other non-files, left out: 1 (tulip/05.png)",
        "several frames or pages of which the first is taken: 1 (tulip/pages.tif)",
        "pixels of 0..31 left dark beside brighter ones: 1 (tulip/mask.png)",
    ):
        assert words in line


@pytest.mark.symlinks
def test_links_to_folders_are_followed_once(flowers, capsys):
    write_images(Path("store/white"), 2, colour=False)
    (flowers / "lily").symlink_to("../store")
    (flowers / "tulip/up").symlink_to("..")
    data = load_folder(flowers)
    assert data.classes == ("lily", "rose", "tulip")
    assert np.bincount(np.concatenate([data.train_y, data.test_y])).tolist() == [2, 10, 5]
    assert "lie above, or are taken already, left out: 1 (tulip/up)" in slashes(capsys.readouterr().err)


@pytest.mark.parametrize("halves", [("Training", "TEST"), ("training_set", "testset"), ("seg_train", "Test-Data")])
def test_folders_for_training_and_testing_have_their_usual_names(workdir, halves):
    for half, n in zip(halves, (4, 2), strict=True):
        for label in "ab":
            write_images(Path("images", half, label), n)
    data = load_folder("images")
    assert (data.classes, len(data.train_x), len(data.test_x)) == (("a", "b"), 8, 4)


@pytest.mark.parametrize(
    "found",
    [
        ["test", "train", "unlabeled"],
        ["Train", "Val"],
        ["test_set", "train", "training_set"],
        ["cats", "test", "train"],
    ],
)
def test_classes_that_look_like_splits_are_refused_by_name(workdir, found):
    for name in found:
        write_images(Path("images", name, "a"), 2)
    with refused_with("images: ", "a folder for training and one for testing", ", ".join(found)):
        load_folder("images")


def test_a_class_that_holds_splits_is_refused(workdir):
    for place in ("a/train", "a/test", "b"):
        write_images(Path("images", place), 2)
    with refused_with("images/a: ", "found test, train", "put the classes into these folders, or choose images/a"):
        load_folder("images")


@pytest.mark.parametrize("names", [("bus", "train"), ("test_tube", "train_station"), ("invalid", "valid")])
def test_a_class_may_have_the_word_for_a_split_in_its_name(workdir, names):
    for name in names:
        write_images(Path("images", name), 2)
    for name in ("train", "test"):
        Path("images", names[0], f"{name}.png").write_bytes(Path("images", names[0], "00.png").read_bytes())
    assert load_folder("images").classes == names


def test_the_name_of_a_folder_says_which_images(flowers):
    names = {datasets.name_of("flowers", load_folder(flowers, size)) for size in (None, 4, 4)}
    iio.imwrite(flowers / "rose" / "00.png", np.zeros((6, 8), np.uint8) + 1)
    names.add(datasets.name_of("./flowers/", load_folder(flowers)))
    assert len(names) == 3
    assert all(re.fullmatch(r"flowers-[0-9a-f]{8}", name) for name in names)
    assert datasets.name_of("mnist", load_folder(flowers)) == "mnist"


def test_a_folder_with_the_name_of_a_data_set_is_named_by_its_path(flowers):
    flowers.rename("digits")
    assert load_dataset("digits").outputs == 10
    assert load_dataset("./digits").classes == ("rose", "tulip")


# ------------------------------------------------------------------------------------------------ refusing


SPOIL = {
    "another format": (lambda: Path("flowers/rose/a.txt").write_text("rose"), ("rose/a.txt", "cannot identify")),
    "truncated": (lambda: os.truncate("flowers/rose/00.png", 50), ("rose/00.png",)),
    "another shape": (
        lambda: iio.imwrite("flowers/tulip/09.png", np.zeros((9, 9), np.uint8)),
        ("tulip/09.png", "6 x 8", "9 x 9", "`size`"),
    ),
    "an empty class": (lambda: Path("flowers/lily").mkdir(), ("flowers/lily", "found none")),
    "one image": (lambda: write_images(Path("flowers/lily"), 1), ("flowers/lily", "found one")),
    "a name": (lambda: write_images(Path("flowers/li\nly"), 2), (r"'li\nly'", "rename")),
    "one class": (lambda: Path("flowers/tulip").rename("flowers/.tulip"), ("flowers", "two subfolders or more")),
    "floats": (lambda: Image.fromarray(np.zeros((6, 8), np.float32)).save("flowers/rose/a.tif"), ("floats",)),
}


@pytest.mark.parametrize(("spoil", "says"), SPOIL.values(), ids=SPOIL)
def test_what_cannot_be_read_is_refused_by_its_name(flowers, spoil, says):
    spoil()
    with refused_with(*says):
        load_folder(flowers)


def test_a_test_class_that_nothing_is_trained_on_is_refused(workdir):
    for place in ("train/cat", "train/dog", "test/cat", "test/cow"):
        write_images(Path("images", place), 2)
    with refused_with("images/test", "found cow"):
        load_folder("images")


def test_an_image_that_would_fill_the_memory_is_refused(flowers, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with refused_with("rose/00.png: expected an image", "exceeds limit of 40 pixels"):
        load_folder(flowers)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: load_dataset("nowhere"), ("fashion-mnist", "a folder of images, found nothing at 'nowhere'; choose")),
        (lambda: load_dataset(__file__), ("data set", __file__, "for a table, see examples/compare_on_a_table.py")),
        (lambda: load_dataset("digits", size=8), ("`size`", "digits")),
    ],
)
def test_a_wrong_folder_or_size_is_refused(flowers, call, says):
    with refused_with(*says):
        call()


# ------------------------------------------------------------------------------------------- both programs


@pytest.mark.parametrize(
    ("program", "net", "taken", "batch_size"),
    [
        (programs, ["--depth", "2"], "", 128),
        (conv_recipes, ["--net", "digits"], "defaults for a folder: --dropout 0.0 --batch-size 8\n", 8),
        (conv_recipes, ["--net", "digits", "--batch-size", "4"], "defaults for a folder: --dropout 0.0\n", 4),
    ],
)
def test_both_programs_train_on_a_folder_and_their_logs_are_drawn(flowers, capsys, program, net, taken, batch_size):
    command = [*net, "--dataset", "flowers", "--size", "8", "--epochs", "1"]
    assert program.main(command) == 0
    out = capsys.readouterr().out
    assert taken in out
    assert ("for a folder" in out) == bool(taken)
    (path,) = Path().glob("run-*.json")
    log = json.loads(path.read_text("utf-8"))
    assert log["runs"][0]["config"]["batch_size"] == batch_size
    assert log["dataset"]["name"] == datasets.name_of("flowers", load_folder(flowers, size=8))
    assert log["dataset"]["name"] in path.name
    assert log["dataset"]["classes"] == ["rose", "tulip"]
    drawn = pictures.read_log(path)
    (level,) = (line for line in pictures.learning_curves(drawn)[0].lines if line.get_label() == "chance")
    assert list(level.get_ydata()) == [1 / 2] * 2
