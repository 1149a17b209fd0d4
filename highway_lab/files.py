"""Files: read and verified, downloaded from mirrors, written as a whole, locked, and temporary ones removed."""

import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

from highway_networks import DAMAGED, DECOMPRESS, InputError, find_file

MIRROR_SECONDS = 10.0  # a mirror that says nothing for so long is left for the next
MAX_BYTES = 2**28  # of a file


class Source(NamedTuple):
    """Files of a data set: where they may lie, mirrors and checksums."""

    folders: Sequence[str]  # below the data directory; what is downloaded comes into the first
    forms: str  # what will do, for people
    mirrors: Sequence[str]
    checksum_of: str  # "payload" (the uncompressed bytes) or "file"
    algorithm: str  # as hashlib names it
    files: Mapping[str, str]  # by name: the checksum, in hexadecimal digits


class DownloadError(InputError):
    """No mirror delivered the file."""


def printable(text: str) -> str:
    """Return a text as one line: what cannot be printed, such as line breaks, is escaped as Python writes it."""
    return "".join(of if of.isprintable() else ascii(of)[1:-1] for of in text)


# ------------------------------------------------------------------------------------------- reading


def as_path(path: str | os.PathLike) -> Path:
    """Return a path with ~ and ~user replaced by that home folder; raises InputError if there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        found = "expected a home folder in place of ~, found none"
        raise InputError(f"{path}: {found}; write the path in full (for data sets: in HIGHWAY_DATA_DIR)") from error


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return paths in the order of their names on every system: capital letters first, as Windows sorts no path."""
    return sorted(paths, key=lambda path: path.parts)


def check_regular(path: str | os.PathLike) -> None:
    """Raise OSError if `path` is a directory, a pipe or a device: reading those may never end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(None, "a directory" if os.path.isdir(path) else "a device or a pipe")


def content_of(path: str | os.PathLike) -> bytes:
    """Return the content of a regular file; raise OSError if it cannot be read, or is larger than MAX_BYTES."""
    check_regular(place := as_path(path))
    if place.stat().st_size > MAX_BYTES:
        raise OSError(None, f"more than {MAX_BYTES:,} bytes ({MAX_BYTES >> 20} MiB)")
    return place.read_bytes()


def read_bytes(path: str | os.PathLike, remedy: str = "check the path, its permissions and its size") -> bytes:
    """Return the content of a regular file; raise InputError if it cannot be read."""
    try:
        return content_of(path)
    except OSError as error:
        raise InputError(f"{path}: expected a readable file, found: {error.strerror}; {remedy}") from error


def decompress(content: bytes, path: Path) -> bytes:
    """Return the payload of a .gz or .xz file, or the content itself of a file with another suffix.

    Raises InputError for a damaged one.
    """
    try:
        return DECOMPRESS.get(path.suffix, bytes)(content)
    except DAMAGED as error:
        raise damaged(path, f"an intact {path.suffix} file", f"a damaged one ({error})") from error


def damaged(path: Path, expected: object, found: object) -> InputError:
    """Make the error of a file below the data directory that is not the published one."""
    remedy = f"move {path.name} away and run again to download it, or put an intact copy there"
    return InputError(f"{path}: expected {expected}, found {found}; {remedy}")


def data_directory(data_dir: str | os.PathLike | None = None) -> Path:
    """Return `data_dir`, else $HIGHWAY_DATA_DIR, else ~/.cache; raises InputError for a file."""
    root = as_path(data_dir or os.environ.get("HIGHWAY_DATA_DIR") or "~/.cache")
    if root.is_file():
        raise InputError(f"{root}: expected a data directory, found a file; name the folder that it lies in")
    return root


def verified(content: bytes, path: Path, name: str, source: Source) -> bytes:
    """Return the payload of the source's file `name`; raise InputError unless its checksum is the published one."""
    payload = decompress(content, path)
    if source.checksum_of == "file" and path.name != name:
        return payload  # unpacked, or packed otherwise: nothing is published of it
    hashed = payload if source.checksum_of == "payload" else content
    expected, found = source.files[name], hashlib.new(source.algorithm, hashed).hexdigest()
    if found != expected:
        raise damaged(path, f"{source.algorithm} {expected} of the {source.checksum_of}", found)
    return payload


# ---------------------------------------------------------------------------------------- downloading


def fetch(source: Source, data_dir: str | os.PathLike | None = None) -> dict[str, Path]:
    """Return where the source's files lie, by their published names, unpacked or packed otherwise, too.

    That is in the first folder that has all; if none has, those that the first lacks are downloaded. Raises InputError
    if the data directory cannot be written, DownloadError if no mirror delivers.
    """
    root = data_directory(data_dir)

    def place(folder: Path, name: str) -> Path:
        path, other = folder / name, find_file(folder, name.removesuffix(".gz"))
        return other if os.path.lexists(other) and not os.path.lexists(path) else path

    found = [{name: place(root / folder, name) for name in source.files} for folder in source.folders]
    paths = next((of for of in found if all(path.is_file() for path in of.values())), found[0])
    for path in paths.values():
        if not os.path.lexists(path):
            _download(path, source, root)
    return paths


def _download(path: Path, source: Source, root: Path) -> None:
    """Download a file from the first mirror that delivers it intact; only then it, and its folder, are there."""
    import pooch

    check_writable(next(folder for folder in path.parents if folder.exists()) / path.name)
    pooch.get_logger().setLevel("WARNING")
    transfer, failures = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=MIRROR_SECONDS), []
    for mirror in source.mirrors:
        with TemporaryDirectory() as folder:
            try:
                found = pooch.retrieve(mirror + path.name, None, path.name, folder, downloader=transfer)
                verified(content := Path(found).read_bytes(), path, path.name, source)
            except Exception as error:  # whatever went wrong, the next mirror may be right
                failures.append(f"{mirror}: {type(error).__name__}")
                continue
        make_place(path)
        with atomic_write(path) as file:
            file.write(content)
        return
    raise DownloadError(
        f"{root}: expected {source.forms}, or a download of {path.name}, found neither ({'; '.join(failures)}); "
        "connect to the internet, name another data directory (HIGHWAY_DATA_DIR), or use the digits"
    )


# ---------------------------------------------------------------------------------------- writing


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a temporary file, for bytes, that replaces `path` on success, and is removed on any failure.

    A symbolic link stays, and the file that it leads to is replaced. Raises InputError if the folder cannot be written
    or the disk is full; `path` is then as before.
    """
    check_writable(path)
    place = followed(path)
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        try:
            with open(temporary, "x+b") as file:
                if place.exists():
                    shutil.copymode(place, temporary)
                yield file
                file.flush()
                os.fsync(file.fileno())
            patiently(os.replace, temporary, place)
        finally:
            remove(temporary)
    except OSError as error:
        raise unwritable(path, error.strerror) from error


def patiently(function: Callable[..., None], *paths: str | os.PathLike) -> None:
    """Call a function of files, again for about a second if it is refused: a virus scanner may hold one so long."""
    for _ in range(20):
        with suppress(PermissionError):
            return function(*paths)
        time.sleep(0.05)
    function(*paths)


def remove(*paths: str | os.PathLike) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            patiently(os.unlink, path)


def check_writable(path: str | os.PathLike) -> None:
    """Raise the InputError that `atomic_write` would raise, before hours of work rather than after them."""
    place = followed(path)
    try:
        check_regular(place)
        if os.path.islink(place):
            raise OSError(None, "a link that leads nowhere")
        if not os.path.isdir(place.parent):
            raise OSError(None, f"no directory {place.parent}")
        if not os.access(place.parent, os.W_OK):
            raise OSError(None, f"no permission to write in {place.parent}")
    except OSError as error:
        raise unwritable(path, error.strerror) from error


def check_suffix(flag: str, path: Path, like: str) -> None:
    """Raise InputError if a file that a flag names is not named like what will be in it."""
    if path.suffix != Path(like).suffix:
        raise InputError(f"{flag}: expected a name like {like}, found {path}; choose another")


def check_output(flag: str, path: Path, like: str, replace: bool, is_own: Callable[[], Any] | None = None) -> None:
    """Raise InputError unless a file that a flag names is named `like` it, and can be written.

    A file that is there must be the job's own log, or is to be replaced.
    """
    check_suffix(flag, path, like)
    check_writable(path)
    if not replace and os.path.exists(path) and not (is_own and is_own()):
        found = f"expected no file{', or a log that the same job has made' * bool(is_own)}, found another"
        raise InputError(f"{path}: {found}; choose another path, or replace it (--replace)")


def make_place(path: str | os.PathLike) -> None:
    """Make a file's folder; raises InputError if the file could not be written there."""
    try:
        as_path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, f"{error.filename}: {error.strerror}") from error
    check_writable(path)


def followed(path: str | os.PathLike) -> Path:
    path = as_path(path)
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def unwritable(path: str | os.PathLike, found: str | None) -> InputError:
    return InputError(f"{path}: expected a place to write, found: {found}; choose another path or free the disk")


@contextmanager
def lock_log(log: str | os.PathLike) -> Iterator[None]:
    """Reserve a log, and the files beside it, for this command; make its folder.

    The lock, an empty file beside the log, ends with this process, however that ends. Raises InputError if another
    command has it, or if that file cannot be made.
    """
    from filelock import FileLock, Timeout

    make_place(log)
    place = followed(log)
    lock = place.with_name(f".{place.name}.lock")
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout as error:
        found = "expected a log that no other command is making, found one at work"
        raise InputError(f"{log}: {found}; wait for it, or choose another log") from error
    except OSError as error:
        raise unwritable(lock, error.strerror) from error
    try:
        yield
    finally:
        with suppress(OSError):  # the folder has become read-only: the next command takes it over
            lock.unlink()  # before the release: whoever waits sees that the file which it locked is gone
        held.release()
