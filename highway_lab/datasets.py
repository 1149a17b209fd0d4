"""Data sets: MNIST and its like, CIFAR, scikit-learn's digits, folders of images; subsets of them."""

import hashlib
import io
import math
import os
import re
import sys
import tarfile
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highway_lab.files import (
    DownloadError,
    Source,
    as_path,
    atomic_write,
    damaged,
    data_directory,
    decompress,
    fetch,
    in_order,
    make_place,
    printable,
    read_bytes,
    verified,
)
from highway_networks import (
    DARK,
    TEST_IMAGES,
    ArgumentError,
    Dataset,
    InputError,
    find_file,
    read_idx,
    reason_of,
)

CLASSES = 10
DIGITS = "sklearn/datasets/data/digits.csv.gz"  # where scikit-learn is installed: its import takes over a second

IDX_FILES = "train-images-idx3-ubyte and the three that belong to it (as they are, .gz or .xz)"

IDX_SOURCES = {
    "mnist": Source(
        ("hinton-mnist", "", "MNIST/raw", "raw"),  # the last two are torchvision's
        f"{IDX_FILES} here, in hinton-mnist/ or in MNIST/raw/",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        "payload",
        "sha256",
        {
            "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    "fashion-mnist": Source(
        ("fashion-mnist", "", "FashionMNIST/raw", "raw", "data/fashion"),  # the last is its authors' repository's
        f"{IDX_FILES} here, in fashion-mnist/, in FashionMNIST/raw/ or in data/fashion/",
        (
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        "file",  # its authors publish the sums of the .gz files only
        "md5",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
}

# ------------------------------------------------------------------------------------- files of CIFAR
# The binary version (https://www.cs.toronto.edu/~kriz/cifar.html). A file is records of one length: a byte for each
# label, then 1,024 red, 1,024 green and 1,024 blue bytes, row by row. It may be compressed.

IMAGE = (3, 32, 32)


class Batch(NamedTuple):
    """A file of records; `sha256` is the published checksum of the first `hashed` of them, if there is one."""

    name: str
    records: int
    sha256: str = ""
    hashed: int = 10_000


class Cifar(NamedTuple):
    """Files of a data set, and the form of their records."""

    archive: Source
    folder: str  # below the data directory, and in the archive
    labels: int  # of each record; the last is its class
    classes: int
    train: Sequence[Batch]
    test: Sequence[Batch]  # the first is in the archive; the others may stand in for it


def _archive(name: str, md5: str, folder: str) -> Source:
    forms = f"{name} here, or its batches here or in {folder}/"
    return Source(("",), forms, ("https://www.cs.toronto.edu/~kriz/",), "file", "md5", {name: md5})


# Neither the whole test batch nor CIFAR-100 has a published checksum but the archive's.
TEST_START = ("8314c96d7cd65618193bab23acdd5d4c4af15bf6dd00a1781d55beedf3be1ef5", 1_000)
CIFARS = {
    "cifar-10": Cifar(
        archive=_archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"),
        folder="cifar-10-batches-bin",
        labels=1,
        classes=10,
        train=[
            Batch("data_batch_1.bin", 10_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            Batch("data_batch_2.bin", 10_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            Batch("data_batch_3.bin", 10_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            Batch("data_batch_4.bin", 10_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            Batch("data_batch_5.bin", 10_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        ],
        test=[Batch("test_batch.bin", 10_000, *TEST_START), Batch("test_batch_first_1000.bin", 1_000, *TEST_START)],
    ),
    "cifar-100": Cifar(
        archive=_archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"),
        folder="cifar-100-binary",
        labels=2,  # coarse, fine
        classes=100,
        train=[Batch("train.bin", 50_000)],
        test=[Batch("test.bin", 10_000)],
    ),
}


# ------------------------------------------------------------------------------------------ the data sets


DATASETS = {  # name -> number of classes
    **dict.fromkeys(IDX_SOURCES, CLASSES),
    **{name: cifar.classes for name, cifar in CIFARS.items()},
    "digits": CLASSES,
}


def load_dataset(name: str, data_dir: str | os.PathLike | None = None, size: int | None = None) -> Dataset:
    """Load a data set, downloading what is missing below the data directory.

    `name`: "mnist", "fashion-mnist", "cifar-10", "cifar-100", "digits" (scikit-learn's bundled 8x8 set, scaled to
    0..255), "auto" (see `choose_dataset`) or a folder of images (see `load_folder`, also for `size`). `data_dir`: else
    $HIGHWAY_DATA_DIR, else ~/.cache; the folder with the files itself, torchvision's root and a clone of
    Fashion-MNIST's repository will do. Images are uint8 (n, channels, rows, columns), one channel or three. Raises
    InputError for an unknown name or a file that fails any check, DownloadError if no mirror delivers.
    """
    if name not in ("auto", *DATASETS):
        if not as_path(name).is_dir():
            expected = f"auto, {', '.join(DATASETS)} or a folder of images"
            there = as_path(name).exists()
            own = "for a table, see examples/compare_on_a_table.py"
            found, remedy = ("a file", own) if there else ("nothing", "choose one of these, or check the path")
            raise InputError(f"data set: expected {expected}, found {found} at {name!r}; {remedy}")
        return load_folder(name, size)
    if size is not None:
        raise ArgumentError(f"`size`: expected only with a folder of images, found with {name}; leave it out")
    if name == "auto":
        name = choose_dataset(data_dir)
    if name == "digits":
        return _load_digits()
    if name in CIFARS:
        return _load_cifar(CIFARS[name], data_dir)
    train_x, train_y, test_x, test_y = _read_idx_files(name, fetch(IDX_SOURCES[name], data_dir))
    return Dataset(train_x[:, None], train_y, test_x[:, None], test_y, CLASSES)  # one channel


def choose_dataset(data_dir: str | os.PathLike | None = None) -> str:
    """Return what "auto" stands for: "mnist" if it is there or can be downloaded, else "digits" with a warning."""
    try:
        fetch(IDX_SOURCES["mnist"], data_dir)
    except DownloadError as error:
        print(f"{'!' * 88}\n{error}", file=sys.stderr)
        print(f"NOT MNIST: using scikit-learn's 8x8 digits instead.\n{'!' * 88}", file=sys.stderr)
        return "digits"
    return "mnist"


def _read_idx_files(dataset: str, files: Mapping[str, Path]) -> list[np.ndarray]:
    """Return the arrays of files; raises InputError for one that is damaged or of another data set."""
    arrays, source = [], IDX_SOURCES[dataset]
    for name, path in files.items():
        payload = verified(read_bytes(path), path, name, source)
        if dataset != "mnist" and hashlib.sha256(payload).hexdigest() in IDX_SOURCES["mnist"].files.values():
            raise InputError(f"{path}: expected {dataset}, found MNIST; check the data directory")
        arrays.append(read_idx(path, payload))
    return arrays


def _load_digits() -> Dataset:
    """Load scikit-learn's 1,797 digits, pixels 0..16 scaled to 0..255, a fixed shuffle cut 1,437 / 360."""
    table = np.loadtxt(str(distribution("scikit-learn").locate_file(DIGITS)), delimiter=",", encoding="utf-8")
    images = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = table[:, -1].astype(np.uint8)
    train, test = np.split(np.random.default_rng(0).permutation(len(images)), [1437])
    return Dataset(images[train], labels[train], images[test], labels[test], CLASSES)


def _load_cifar(cifar: Cifar, data_dir: str | os.PathLike | None) -> Dataset:
    """Load CIFAR's batches; where some are missing, unpack the archive, downloaded if need be.

    The first test images serve if only those are there and no other file is missing.
    """
    root = data_directory(data_dir)
    candidates = [(folder, test) for folder in (root / cifar.folder, root) for test in cifar.test]
    whole = (place for place in candidates if not _missing(place[0], *cifar.train, place[1]))
    folder, test = next(whole, candidates[0])
    if missing := _missing(folder, *cifar.train, test):
        _unpack(cifar, missing, data_dir)
    test_set = TEST_IMAGES if test == cifar.test[0] else f"first {test.records:,} {TEST_IMAGES}"
    return Dataset(*_read(cifar, folder, *cifar.train), *_read(cifar, folder, test), cifar.classes, test_set)


def _missing(folder: Path, *batches: Batch) -> list[Batch]:
    return [batch for batch in batches if not os.path.lexists(find_file(folder, batch.name))]


def _read(cifar: Cifar, folder: Path, *batches: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3, 32, 32) and classes (n,) of batches; raise InputError for a damaged one."""
    tables, length = [], cifar.labels + math.prod(IMAGE)
    for batch in batches:
        path = find_file(folder, batch.name)
        payload = decompress(read_bytes(path), path)
        if len(payload) != batch.records * length:
            raise damaged(path, f"{batch.records:,} records of {length:,} bytes", f"{len(payload):,} bytes")
        sha256 = hashlib.sha256(payload[: batch.hashed * length]).hexdigest()
        if batch.sha256 and sha256 != batch.sha256:
            raise damaged(path, f"sha256 {batch.sha256} of the first {batch.hashed:,} records", sha256)
        tables.append(np.frombuffer(payload, np.uint8).reshape(-1, length))
        if (last := tables[-1][:, cifar.labels - 1].max()) >= cifar.classes:
            raise damaged(path, f"classes 0..{cifar.classes - 1}", last)
    records = np.concatenate(tables)
    return records[:, cifar.labels :].reshape(-1, *IMAGE), records[:, cifar.labels - 1].copy()


def _unpack(cifar: Cifar, batches: Sequence[Batch], data_dir: str | os.PathLike | None) -> None:
    """Write these batches from the archive into the folder, each whole or not at all; raises InputError."""
    folder = data_directory(data_dir) / cifar.folder
    ((name, archive),) = fetch(cifar.archive, data_dir).items()
    content = verified(read_bytes(archive), archive, name, cifar.archive)
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            for batch in batches:
                member = tar.extractfile(f"{cifar.folder}/{batch.name}")
                assert member is not None  # a regular file
                make_place(folder / batch.name)
                with atomic_write(folder / batch.name) as file:
                    file.write(member.read())
    except (tarfile.TarError, KeyError) as error:  # of an archive that was unpacked to .tar, which has no checksum
        raise damaged(archive, f"an archive of {cifar.folder}/", error) from error


# ------------------------------------------------------------------------------------ folders of images

SPLIT = re.compile(  # of a data set: a folder's name in small letters
    r"(?:seg_)?(?:(?P<train>train(?:ing|val)?)|(?P<test>test(?:ing)?)"
    r"|val|valid|validation|dev|eval|evaluation|holdout|unlabell?ed|extra|pred)[ _-]?(?:set|data|images)?(?:\d+|[a-z])?"
)
OF_SYSTEMS = {"@eadir", "#recycle", "$recycle.bin", "__macosx", "desktop.ini", "icon\r", "lost+found", "thumbs.db"}
DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # modes of Pillow with 16 or 32 bits a pixel
DEPTHS = (1, 2, 3, 4, 5, 8, 10, 12, 14, 16)  # bits of a pixel that may be in use
GREY = ("1", "L", "LA", "La", *DEEP)


class Walk:
    """A walk through a folder of images. `noted` has what it leaves out or changes: paths by what happened to them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.noted: dict[str, list[Path]] = defaultdict(list)

    def tell(self) -> None:
        """Print what was noted, if anything, as one line on stderr."""
        parts = (
            f"{what}: {len(paths)} ({paths[0].relative_to(self.folder)}{', ...' * (len(paths) > 1)})"
            for what, paths in self.noted.items()
        )
        if self.noted:
            print(printable(f"{self.folder}: {'; '.join(parts)}"), file=sys.stderr)

    def entries(self, folder: Path) -> tuple[list[Path], list[Path]]:
        """Return the folders and the files in a folder, links followed."""
        folders, files = [], []
        for path in in_order(folder.iterdir()):
            if path.name.startswith(".") or path.name.casefold() in OF_SYSTEMS:
                self.noted["hidden files and those of systems left out"].append(path)
            elif path.is_dir():
                folders.append(path)
            elif path.is_file():
                files.append(path)
            else:
                self.noted["links that lead nowhere, and other non-files, left out"].append(path)
        return folders, files

    def subfolders(self, folder: Path) -> list[Path]:
        """Return the subfolders of a folder that should have nothing else; note what it has."""
        folders, files = self.entries(folder)
        for file in files:
            self.noted["files outside the folders of classes left out"].append(file)
        return folders

    def files(self, folder: Path, seen: set[Path]) -> list[Path]:
        """Return the files below a folder, unless it has been `seen` or lies above one that has."""
        if (real := folder.resolve()) in seen:
            self.noted["folders that lie above, or are taken already, left out"].append(folder)
            return []
        seen |= {real, *real.parents}
        folders, files = self.entries(folder)
        return files + [file for inner in folders for file in self.files(inner, seen)]


def load_folder(folder: str | os.PathLike, size: int | None = None) -> Dataset:
    """Read a folder of images, one subfolder a class, in any format that Pillow reads.

    Two folders for training and testing, by their usual names in any case (train, Training, test_set, ...), may hold
    those of the classes; else a fifth of each class is for testing, drawn at random, the same each time. Links are
    followed. Class names that differ only in their Unicode form are one class.

    Images are grey if all files are, else RGB. Transparent ones are drawn on white. Pixels of more than 8 bits are
    scaled to 0..255 from one range for the whole folder: 0 to the largest number of 1 to 5, 8, 10, 12, 14 or 16 bits,
    whichever holds them all. So are those of 8 bits, as masks and labels have few levels; among brighter images dark
    ones stay. `size`: scale each image to size x size pixels. What was left out or changed is one line on stderr.

    Raises InputError for a file that is no image, for images of several shapes without a size, and for a folder of
    another form.
    """
    folder = as_path(folder)
    walk = Walk(folder)
    places = walk.subfolders(folder)
    if splits := _splits(places):
        if sorted(splits.values()) != ["test", "train"] or len(places) > 2:
            expected = "expected a folder for training and one for testing, or a subfolder a class"
            found = ", ".join(place.name for place in places)
            raise InputError(f"{folder}: {expected}, found {found}; rename or move what is not one of these")
        of = {kind: place for place, kind in splits.items()}
        train, test = (_class_files(walk, of[kind], walk.subfolders(of[kind])) for kind in ("train", "test"))
        if unknown := ", ".join(test.keys() - train.keys()):
            found = f"expected classes of {of['train'].name}/, found {unknown}"
            raise InputError(f"{of['test']}: {found}; remove or rename them")
        test_set = TEST_IMAGES
    else:
        train, test = _split(folder, _class_files(walk, folder, places))
        test_set = "a fifth of each class"
    classes = tuple(train)
    labelled = [(path, classes.index(name)) for half in (train, test) for name in half for path in half[name]]
    paths, labels = zip(*labelled, strict=True)
    x, y = _read_images(walk, paths, size), np.array(labels, np.int64)
    walk.tell()
    n_train = sum(map(len, train.values()))
    return Dataset(x[:n_train], y[:n_train], x[n_train:], y[n_train:], len(classes), test_set, classes=classes)


def read_image(path: str | os.PathLike) -> np.ndarray:
    """Return an image (C, H, W), uint8, as `load_folder` reads it; raises InputError."""
    path = as_path(path)
    walk = Walk(path.parent)
    (image,) = _read_images(walk, [path], None)
    walk.tell()
    return image


def name_of(dataset: str, data: Dataset) -> str:
    """Return the name of a data set in logs: a folder's images have another name if any of them changes."""
    if dataset in DATASETS:
        return dataset
    digest = hashlib.sha256("/".join(data.classes).encode())
    for array in data[:4]:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    folder = re.sub(r"[^\w-]+", "-", composed(as_path(dataset).resolve()))[:40]
    return f"{folder or 'images'}-{digest.hexdigest()[:8]}"


def composed(path: Path) -> str:
    """Return the name of a file in Unicode's composed form: systems differ in which they keep."""
    return unicodedata.normalize("NFC", path.name)


def _splits(places: Iterable[Path]) -> dict[Path, str]:
    """Return which of the folders are splits of one data set: train, test or another; none if it is a single one.

    A class may have the name of one, such as train.
    """
    named = ((place, SPLIT.fullmatch(composed(place).casefold())) for place in places)
    found = {place: split.lastgroup or "another" for place, split in named if split}
    return found if len(found) > 1 else {}


def _class_files(walk: Walk, folder: Path, places: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files below each class's folder, by its name; raises InputError unless there are two classes."""
    files: dict[str, list[Path]] = {}
    for place in sorted(places, key=composed):
        if not place.name.isprintable():
            raise InputError(f"{folder}: expected printable names of classes, found {place.name!a}; rename it")
        paths = in_order(walk.files(place, {*folder.resolve().parents}))
        if not paths:
            raise InputError(f"{place}: expected images of a class, found none; add some, or remove the folder")
        if splits := _splits(path for path in place.iterdir() if path.is_dir()):
            found = ", ".join(sorted(split.name for split in splits))
            remedy = f"put the classes into these folders, or choose {place} itself"
            raise InputError(f"{place}: expected images of a class, found {found}; {remedy}")
        files.setdefault(composed(place), []).extend(paths)
    if len(files) < 2:
        raise InputError(f"{folder}: expected two subfolders or more, one a class, found {len(files)}; sort the images")
    return files


def _split(folder: Path, files: dict[str, list[Path]]) -> tuple[dict[str, list[Path]], dict[str, list[Path]]]:
    """Return four fifths of each class, and one fifth, at least one file each."""
    rng, train, test = np.random.default_rng(0), {}, {}
    for name, paths in files.items():
        if len(paths) < 2:
            raise InputError(f"{folder / name}: expected two images or more, found one; add some, or remove the folder")
        n_test = max(round(len(paths) / 5), 1)
        chosen = {paths[index] for index in rng.permutation(len(paths))[:n_test]}
        train[name], test[name] = ([path for path in paths if (path in chosen) == of] for of in (False, True))
    return train, test


def _read_images(walk: Walk, paths: Sequence[Path], size: int | None) -> np.ndarray:
    """Return images (n, C, H, W), uint8, C = 1 if all are grey, else 3; raises InputError that names what is wrong."""
    from PIL import Image
    from tqdm import tqdm

    images: dict[int, np.ndarray] = {}
    largest, all_grey = np.empty(len(paths), int), True
    for index, path in enumerate(tqdm(paths, "reading images", disable=not sys.stderr.isatty(), delay=1, leave=False)):
        try:
            image, grey = _read_image(walk, path)
        except Exception as error:  # whatever Pillow says of a foreign or truncated file
            found = f"expected an image, found: {reason_of(error):.100}"
            raise InputError(f"{path}: {found}; check, convert or remove it") from error
        largest[index], all_grey = image.max(), all_grey and grey
        if size is not None:
            image = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))
        images[index] = image if image.ndim == 3 else image.astype(np.uint16)[:, :, None]  # deep, of one channel
        if image.shape[:2] != images[0].shape[:2]:
            expected, found = (" x ".join(map(str, of.shape[:2])) for of in (images[0], image))
            found = f"expected {expected} pixels, as {paths[0]} has, found {found}"
            raise ArgumentError(f"{path}: {found}; choose a `size`, such as 32")
    x = np.empty((len(images), 1 if all_grey else 3, *images[0].shape[:2]), np.uint8)
    for kind, dtype in (("deep ", np.uint16), ("", np.uint8)):
        rows = [index for index, image in images.items() if image.dtype == dtype]
        bits = next(bits for bits in DEPTHS if largest[rows].max(initial=0) < 2**bits)
        most = 2**bits - 1
        for index in rows:
            image = images.pop(index)  # all of them twice may not fit into the memory
            if kind or bits != 8:
                image = (image * np.uint32(255) + most // 2) // most  # rounded
                walk.noted[f"{kind}pixels scaled from 0..{most:,} to 0..255"].append(paths[index])
            elif 0 < largest[index] < DARK:
                walk.noted[f"pixels of 0..{DARK - 1} left dark beside brighter ones"].append(paths[index])
            x[index] = image.transpose(2, 0, 1)[: x.shape[1]]
    return x


def _read_image(walk: Walk, path: Path) -> tuple[np.ndarray, bool]:
    """Return an image, upright as its camera noted, and whether it is grey: (H, W, 3) bytes or (H, W) deep pixels."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings(action="ignore"):
        warnings.simplefilter("error", Image.DecompressionBombWarning)  # a small file may fill the memory
        with Image.open(path) as file:
            mode = file.mode
            if mode == "F":
                raise ValueError("floats, whose scale is unknown")
            if getattr(file, "n_frames", 1) > 1:
                file.seek(0)
                walk.noted["files of several frames or pages of which the first is taken"].append(path)
            image = ImageOps.exif_transpose(file)
        if mode in DEEP:
            values = np.asarray(image).astype(np.int32)
            low, high = values.min(), values.max()
            if low < 0 or high >= 2 ** max(DEPTHS):
                raise ValueError(f"values from {low:,} to {high:,}, beyond 0..{2 ** max(DEPTHS) - 1:,}")
            return values, True
        if image.has_transparency_data:
            image = image.convert("RGBA")
            if np.asarray(image)[..., 3].min() < 255:
                walk.noted["transparent images drawn on white"].append(path)
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return np.asarray(image.convert("RGB")), mode in GREY
