"""JSON logs: a common envelope, written whole or not at all, read with every field checked.

A log is strict JSON: no NaN; a number that is not finite is null. Each kind of log is a subclass of `Log`, which adds
measured fields to the envelope; the results it lists are subclasses of `Result`.
"""

import ast
import functools
import hashlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec
import numpy as np

import highway_networks as core
from highway_lab.fields import Count, NonEmpty
from highway_lab.files import atomic_write, content_of
from highway_networks import ADD_NAME, BLOCKS, TEST_IMAGES, Config, Dataset, History, InputError, rounded

SCHEMA: Literal[1] = 1
ROOT = Path(__file__).parent.parent
DENSE = ("highway_networks", "highway_lab.slices")  # the modules that decide the bits of a run
CONVOLUTIONAL = (*DENSE, "conv_highway_networks", "conv_recipes")
ABOVE = ("visualize_highway_networks", "highway_estimators", "highway_image_estimator", "experiments", "benchmarks")
OURS = (*CONVOLUTIONAL, *ABOVE, "highway_lab")
TABLES: dict[str, tuple[Mapping, Any]] = {  # to which a user's file may add: what they hold
    "BLOCKS": (core.BLOCKS, core.Block),
    "ACTIVATIONS": (core.ACTIVATIONS, core.Activation),
    "LOSSES": (core.LOSSES, core.Loss),
    "INITS": (core.INITS, Callable),
    "OPTIMIZERS": (core.OPTIMIZERS, Callable),
    "SCHEDULES": (core.SCHEDULES, Callable),
}
PYTHON = sysconfig.get_path("stdlib")
imported: list[str] = []  # files of the user, by --import or as the program: part of the code
ConfigT = TypeVar("ConfigT", bound=Any)
LogT = TypeVar("LogT")


# ---------------------------------------------------------------------------------------- the envelope


@dataclass
class DatasetInfo:
    """Data set of the runs, and numbers of samples; `test_set` says in words from which samples the n_test are.

    classes: their names, for a folder of images; none for other data sets
    """

    name: str
    n_train: Count
    n_test: Count
    test_set: str = TEST_IMAGES
    classes: list[str] = field(default_factory=list)


@dataclass
class Environment:
    """Machine and code of a run: enough to explain a difference in the last bits or in seconds."""

    python: str
    numpy: str
    blas: str
    kernels: str  # the set that OpenBLAS has chosen for the processor: it decides both
    threads: Count
    platform: str
    cpu: str
    code: str  # fingerprint of the mathematics: of DENSE or CONVOLUTIONAL, and of a user's files
    samples: str  # digest of the samples that the runs were given
    commit: str | None  # null outside a checkout of this project
    dirty: bool | None  # whether a .py file had changed since


@dataclass
class Result:
    """A result that may have been made on another machine or another day; environment: null stands for the log's."""

    environment: Environment | None


@dataclass
class Log:
    """The envelope of a log: schema, time, command, data set (null: none) and environment."""

    schema: Literal[1]
    created: str
    command: str
    dataset: DatasetInfo | None
    environment: Environment

    @classmethod
    def new(cls, command: str, dataset: DatasetInfo | None, *, threads: int = 1, **measured: Any) -> Self:
        """Make a log here and now; `threads`: the number of BLAS threads of the runs."""
        results = [of for values in measured.values() if isinstance(values, list) for of in values]
        first = next((of for of in results if isinstance(of, Result)), None)
        here = environment(threads, mathematics(first))
        if first and first.environment:
            here = replace(here, samples=first.environment.samples)
        for name, values in measured.items():
            if isinstance(values, list):
                measured[name] = [
                    replace(of, environment=None) if getattr(of, "environment", None) == here else of for of in values
                ]
        return cls(SCHEMA, now(), command, dataset, here, **measured)


# ----------------------------------------------------------------------------------------- training runs


def check_rows(config: Any, diverged: bool, history: History, gate_means: list | None) -> None:
    """Raise ValueError unless the rows of a run's record, one for each epoch from 0 on, agree with one another."""
    rows, means = len(history.epoch), gate_means or []
    for name, column in vars(history).items():
        expected = rows if history.validation_loss or "validation" not in name else 0
        if len(column) != expected:
            raise ValueError(f"expected {name} of {expected} entries, found {len(column)}")
    if not rows or history.epoch != [*range(rows)]:
        raise ValueError("expected epochs from 0 on, each following the one before, found others")
    if means and (len(means), {*map(len, means)}) != (rows, {config.depth}):
        found = f"{len(means)} of {len(means[0])}"
        raise ValueError(f"expected {rows} rows of gate_means of {config.depth} blocks, found {found}")
    if not diverged and history.train_loss[-1] is None:
        raise ValueError("expected a last train_loss of a run that has not diverged, found null")
    if not diverged and None in itertools.chain(*means):
        raise ValueError("expected numbers in gate_means of a run that has not diverged, found null")


@dataclass
class RunRecord(Result, Generic[ConfigT]):
    """A run of a training command, as its log keeps it: a `Run` without its net."""

    config: ConfigT
    n_params: Count
    metric: str  # names the scores of the history; in each, more is better and 1 is perfect
    diverged: bool
    history: History
    # Mean T of each block, one row an epoch; null without gates.
    gate_means: NonEmpty[NonEmpty[float | None]] | None

    def __post_init__(self) -> None:
        check_rows(self.config, self.diverged, self.history, self.gate_means)
        last, epochs = self.history.epoch[-1], self.config.epochs
        if last > epochs or (last < epochs and not self.diverged):
            raise ValueError(f"expected the epochs 0 to {epochs}, found 0 to {last}")

    @classmethod
    def of(cls, run: Any) -> Self:
        return cls(None, run.config, run.n_params, run.metric, run.diverged, run.history, run.gate_means)


@dataclass
class RunLog(Log, Generic[ConfigT]):
    """Log of a training command."""

    dataset: DatasetInfo
    runs: NonEmpty[RunRecord[ConfigT]]
    finished: Literal[True] = True  # as all logs have it


def grouped(items: Iterable, key: Callable[[Any], Any]) -> dict[Any, list]:
    """Return items, such as runs, by key, in their order."""
    groups: dict[Any, list] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def varied_in(runs: Iterable) -> list[str]:
    """Return the hyperparameters of which runs, or configs, have several values, but for block, size and seed."""
    configs = [getattr(run, "config", run) for run in runs]
    names = [of.name for of in fields(configs[0]) if of.name not in ("block", configs[0].SIZE, "seed")]
    return [name for name in names if len({getattr(config, name) for config in configs}) > 1]


def values_of(config: Any, names: Iterable[str]) -> list[str]:
    """Return hyperparameters in words: `gate bias -4`."""
    values = {name.replace("_", " "): getattr(config, name) for name in names}
    return [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()]


def kinds_of(runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return runs by their kind of net: by block and, within it, by the hyperparameters that vary.

    The name of a kind says what differs: not the block if there is one only, nor what the runs of a block share.
    """
    blocks = grouped(runs, lambda run: run.config.block)
    kinds: dict[str, list[RunRecord]] = {}
    for block, of_block in blocks.items():
        varied = varied_in(of_block)
        opening = [block] if len(blocks) > 1 or not varied else []
        for run in of_block:
            kinds.setdefault(", ".join([*opening, *values_of(run.config, varied)]), []).append(run)
    return kinds


# ------------------------------------------------------------------------------------- fields of a log


def now() -> str:
    """Return the time as logs state it: UTC, to the second, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rounded_all(values: Any, digits: int = 6) -> list:
    """Apply `rounded` to every entry of an array; return nested lists of the same shape."""
    nested = getattr(values, "tolist", lambda: values)()
    return [rounded_all(v, digits) if isinstance(v, list) else rounded(v, digits) for v in nested]


def mathematics(of: Any) -> tuple[str, ...]:
    """Return the modules that decide a run's bits, given its task or result: of its configuration and of its block."""
    config = getattr(of, "config", of)
    found = {kind.__module__ for kind in type(config).__mro__}
    block = getattr(BLOCKS.get(getattr(config, "block", "")), "forward", None)
    block = getattr(block, "func", block)  # of a partial function
    own = getattr(block, "__module__", "")
    own = [own] * (own.partition(".")[0] in OURS and own not in CONVOLUTIONAL)  # others are users' code
    return (*(name for name in CONVOLUTIONAL if name in found or name in DENSE), *own)


def digest_of_samples(data: Any) -> str:
    """Return twelve hexadecimal digits that identify the arrays of a data set; "none" if there is no data set."""
    if not isinstance(data, Dataset):
        return "none"
    found = hashlib.sha256()
    for array in data[:4]:
        found.update(f"{array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:12]


@functools.cache
def environment(threads: int = 1, programs: tuple[str, ...] = DENSE) -> Environment:
    """Describe this machine and this checkout; `threads` is the number of BLAS threads of the runs."""
    from threadpoolctl import threadpool_info

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    kernels = [pool.get("architecture", "unknown") for pool in threadpool_info() if pool["user_api"] == "blas"]
    ours = git("ls-files", "--error-unmatch", Path(__file__).name) is not None  # else it is another project's checkout
    commit = git("rev-parse", "HEAD") if ours else None
    changed = git("status", "--porcelain", "--", ":/*.py") if ours else None
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in programs}
    places = {name: Path(file or ROOT / f"{name.replace('.', '/')}.py") for name, file in files.items()}
    return Environment(
        python=platform.python_version(),
        numpy=np.__version__,
        blas=f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        kernels=kernels[0] if kernels else "unknown",
        threads=threads,
        platform=platform.platform(),
        cpu=_cpu(),
        code=fingerprint(users_code() | {name: path.read_bytes() for name, path in places.items()}),
        samples="none",
        commit=commit,
        dirty=None if changed is None else bool(changed),
    )


_parsing = threading.Lock()  # CPython counts the depth of recursion for all threads together


def parsed(program: bytes) -> ast.Module:
    with _parsing:
        return ast.parse(program)


def users_code() -> dict[str, bytes]:
    """Read the user's files that were imported, or that a table has an entry of, and those that these import."""
    programs: dict[str, bytes] = {}
    entries = [of for table, _ in TABLES.values() for of in table.values()]
    parts = [part for of in entries for part in (of if isinstance(of, tuple) else [of])]
    origins = [getattr(getattr(part, "func", part), "__module__", None) or "" for part in parts]  # of a partial
    files: list[tuple[str, str | None]] = [(Path(file).stem, file) for file in imported]
    files += [(name, getattr(sys.modules.get(name), "__file__", None)) for name in origins]
    for name, file in files:
        path = Path(file or os.devnull)
        name = path.stem if name == "__main__" else name
        installed = {"site-packages", "dist-packages"} & {*path.parts} or path.is_relative_to(PYTHON)
        if name in programs or name.partition(".")[0] in OURS or installed or not path.is_file():
            continue
        with suppress(ImportError, SyntaxError, ValueError):  # of what cannot have been imported
            tree = parsed(program := path.read_bytes())
            programs[name] = program
            package = name if path.stem == "__init__" else name.rpartition(".")[0]
            for node in ast.walk(tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    dots = "." * (getattr(node, "level", 0) if package else 0)
                    base = resolve_name(dots + (getattr(node, "module", None) or ""), package)
                    files += [of for alias in node.names for of in _modules(f"{base}.{alias.name}".strip("."))]
    return programs


def _modules(name: str) -> Iterator[tuple[str, str | None]]:
    """Yield names and files of a module and of its packages, also of those that are not imported yet."""
    path = None
    for part in itertools.accumulate(name.split("."), "{}.{}".format):
        if module := sys.modules.get(part):
            yield part, getattr(module, "__file__", None)
            path = getattr(module, "__path__", [])
        elif spec := PathFinder.find_spec(part, path):
            yield part, spec.origin
            path = spec.submodule_search_locations or []
        else:
            return


def fingerprint(programs: Mapping[str, bytes]) -> str:
    """Return twelve hexadecimal digits that identify programs by their names, as far as `essence` tells them apart."""
    texts = "".join(name + essence(program) for name, program in sorted(programs.items()))
    return hashlib.sha256(texts.encode(errors="surrogateescape")).hexdigest()[:12]


@functools.cache
def essence(program: bytes) -> str:
    """Return a program's syntax tree as text, without comments, docstrings, layout and messages.

    Messages are the texts in raised errors, assertions, warnings, what is printed, and arguments that are `help`; any
    other text may be mathematics.
    """
    tree = parsed(program)
    for node in ast.walk(tree):
        messages: Sequence[ast.AST] = []
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            messages = [node]
        elif isinstance(node, ast.Assert) and node.msg:
            messages = [node.msg]
        elif isinstance(node, ast.Call):
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            messages = node.args[1:2] if function == "hyperparameter" else [node] * (function in ("print", "warn"))
        for part in itertools.chain(*map(ast.walk, messages)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                part.value = ""
    return _dump(tree)


def _dump(part: Any) -> str:
    """Return a syntax tree as text, without empty fields: each version of Python has others, and dumps others."""
    if isinstance(part, ast.AST):
        given = (f"{name}={_dump(value)}" for name, value in ast.iter_fields(part) if value not in (None, []))
        return f"{type(part).__name__}({','.join(given)})"
    return f"[{','.join(map(_dump, part))}]" if isinstance(part, list) else repr(part)


def git(*arguments: str) -> str | None:
    """Return git's answer for the checkout that this file lies in; None outside a checkout."""
    command = ["git", "--no-optional-locks", *arguments]  # a lock would stay if this process were killed
    place = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, encoding="utf-8", check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu() -> str:
    """Return the processor's name: from /proc on Linux, elsewhere from the platform module."""
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*:(.*)", text, re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()


# ------------------------------------------------------------------------------------ writing, reading


def write(path: str | os.PathLike, log: Any) -> None:
    """Write a log (a dataclass) as strict JSON, whole or not at all.

    Each top-level field starts a line, and so does each entry of a list of objects: small diffs, few lines.
    Raises InputError if `path` cannot be written.
    """
    with atomic_write(path) as file:
        file.write(dumps(log).encode())


def dumps(log: Any) -> str:
    """Return the text of a log, as `write` writes it."""
    raw = log.packed() if hasattr(log, "packed") else asdict(log)
    lines = ",\n".join(f"{json.dumps(name)}: {_lines(value)}" for name, value in raw.items())
    return f"{{\n{lines}\n}}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(json.dumps(entry, allow_nan=False) for entry in value) + "\n]"
    return json.dumps(value, allow_nan=False)


def read(
    path: str | os.PathLike,
    schema: type[LogT] = RunLog[Config],  # type: ignore[assignment]
    remedy: str = "name a log of fully connected nets",
) -> LogT:
    """Read a log and check it against its schema: no field missing, none unknown, each of its type.

    The default is the schema of the command of fully connected nets; a log of convolutional nets is a
    `RunLog[conv_recipes.ConvConfig]`. Raises InputError naming the file, the field, what was expected and the remedy.
    """
    try:
        return loads(content_of(path), schema)
    except OSError as error:
        raise InputError(f"{path}: expected a log, found: {error.strerror}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        ending = "" if ADD_NAME in str(error) else f"; {remedy}"
        raise InputError(f"{path}: expected a log of this version, found: {error}{ending}") from error


def read_any(path: str | os.PathLike, schema: type[LogT]) -> LogT | None:
    """Read a log as `read` does; None if there is no such log."""
    try:
        return read(path, schema, "")
    except InputError:
        return None


def loads(text: bytes, schema: type[LogT]) -> LogT:
    """Return the log or the result in `text`; raises ValueError where it differs from the schema.

    A schema may have a shorter form in files: `packed()` makes it of a log, and `unpacked` what `asdict` gives of it.
    """
    raw = msgspec.json.decode(text)
    if unpacked := getattr(schema, "unpacked", None):
        with suppress(AttributeError, LookupError, TypeError):  # of another form: the next line says where
            raw = unpacked(raw, schema)
    log = msgspec.convert(raw, schema)
    check_objects(raw, log, "$")
    return log


def check_objects(raw: Any, value: Any, place: str) -> None:
    """Raise ValueError unless what msgspec made of JSON has its fields, no more and no less.

    msgspec lets pass unknown fields, and missing ones that have a default. What must agree, a dataclass checks in
    `__post_init__`, which msgspec calls.
    """
    if isinstance(raw, dict):
        known = value if isinstance(value, dict) else {of.name: getattr(value, of.name) for of in fields(value)}
        for name in sorted(raw.keys() ^ known.keys()):
            found = "contains unknown" if name in raw else "missing required"
            raise ValueError(f"Object {found} field `{name}` - at `{place}`")
        for name, part in raw.items():
            check_objects(part, known[name], f"{place}.{name}")
    elif isinstance(raw, list):
        for index, part in enumerate(raw):
            check_objects(part, value[index], f"{place}[{index}]")
