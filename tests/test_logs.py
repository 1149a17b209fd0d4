"""The run log: written whole or not at all, read back exactly, and refused where any field is not as it should be."""

import dataclasses
import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from helpers import SOME_ENVIRONMENT, files_below, holder, places, refused_with, small_log

import experiments.blocks  # noqa: F401, adds its blocks
from conv_recipes import ConvConfig
from highway_lab import logs
from highway_lab.fields import Count, NonEmpty, Score, Share, dict_of, lists_of
from highway_lab.files import atomic_write, check_writable
from highway_lab.logs import RunLog, dumps, environment, read, rounded_all, write
from highway_networks import Config, rounded

REMEDY = "run python highway_networks.py"
LOG = asdict(small_log())


def spelled(path: tuple) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def read_text(tmp_path: Path, text: str | bytes) -> RunLog:
    path = tmp_path / "run.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, RunLog[Config], REMEDY)


def refuse(tmp_path: Path, log, *parts: str) -> None:
    """Reading `log` (JSON's text, or what is to be made it) fails in one line that holds these parts."""
    with refused_with(tmp_path / "run.json", REMEDY, *parts):
        read_text(tmp_path, log if isinstance(log, str | bytes) else json.dumps(log))


@pytest.fixture
def log() -> dict:
    """A log to spoil."""
    return json.loads(json.dumps(LOG))


FIELDS = [path for path in places(LOG) if isinstance(path[-1], str)]
OBJECTS = [(), *(path for path in places(LOG) if isinstance(holder(LOG, (*path, "")), dict))]


def test_a_log_is_read_back_as_it_was_written(tmp_path):
    write(tmp_path / "run.json", small_log())
    assert read(tmp_path / "run.json", RunLog[Config], REMEDY) == small_log()


def test_a_log_is_strict_json_with_null_where_a_number_is_not_finite():
    log = small_log()
    assert json.loads(dumps(log), parse_constant=pytest.fail) == LOG
    log.runs[0].history.train_loss[1] = math.nan
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(log)


def test_numbers_are_rounded_and_null_where_not_finite():
    assert rounded(0.123456789) == 0.123457
    assert rounded(123456789) == 123457000
    assert rounded(math.nan) is rounded(math.inf) is rounded(-math.inf) is None
    assert rounded_all(np.array([[0.123456, np.nan], [1, 2]], np.float32), digits=3) == [[0.123, None], [1, 2]]


NET = '''"""A net."""
from highway_lab.loop import train  # imported
def f(x):
    "What it does."
    p.add_argument("x", help="how many")
    if x in ("name",):
        raise ValueError(f"expected {x} to be less")
    assert x == "a", f"not {x}"
    warnings.warn("slow")
    print(f"{x} it is")
    np.einsum("ij, jk -> ik")
    y: int = hyperparameter(1, "Number of y")
    return x + 1
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("A net.", "Another docstring.", True),
        ("  # imported", "", True),
        ("x + 1", "(x +\n 1)", True),
        (" to be less", " to be more", True),
        ("not {x}", "no {x}", True),
        ('"a"', '"b"', False),
        ('"slow"', '"fast"', True),
        (" it is", " it was", True),
        ('"name"', '"another"', False),
        ("how many", "how few", True),
        ("Number of y", "A number", True),
        ("ij, jk", "ji, jk", False),
        ("x + 1", "x + 2", False),
    ],
)
def test_a_fingerprint_of_code_leaves_out_what_does_not_run(old, new, same):
    found = {logs.fingerprint({"net": text.encode()}) for text in (NET, NET.replace(old, new))}
    assert (len(found) == 1) == same


def test_a_fingerprint_is_the_same_in_every_version_of_python():
    """3.12 has given functions a field more; from 3.13 on `ast.dump` leaves empty ones out."""
    assert logs.fingerprint({"net": NET.encode()}) == "d5404be53672"


def test_the_code_of_a_run_has_the_helpers_in_packages(tmp_path, monkeypatch):
    texts = {"run.py": "from pk.m import K", "pk/__init__.py": "", "pk/m.py": "from . import n", "pk/n.py": ""}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(logs, "imported", [str(tmp_path / "run.py")])
    assert {*logs.users_code()} == {"run", "pk", "pk.m", "pk.n"}


def test_the_code_of_a_run_is_the_mathematics_of_its_kind_of_net():
    assert logs.mathematics(Config()) == logs.mathematics(None) == ("highway_networks", "highway_lab.slices")
    assert logs.mathematics(Config(block="lstm"))[-1] == "experiments.blocks"
    convolutional = logs.mathematics(ConvConfig())
    assert convolutional[2:] == ("conv_highway_networks", "conv_recipes")
    assert environment().code != environment(programs=convolutional).code


def test_samples_are_known_by_their_values_types_and_shapes(digits):
    others = {"train_y": digits.train_y.astype(np.int32)}, {"test_x": 255 - digits.test_x}
    changed = [digits._replace(**of) for of in others]
    found = [logs.digest_of_samples(data) for data in (digits, *changed, None)]
    assert len(set(found)) == 4
    assert logs.digest_of_samples(digits._replace(test_set="others")) == found[0]


def test_only_results_made_elsewhere_keep_an_environment_in_a_log():
    here = dataclasses.replace(environment(threads=2))
    others = [SOME_ENVIRONMENT, dataclasses.replace(here, kernels="Zen"), dataclasses.replace(here, commit="another")]
    runs = [dataclasses.replace(small_log().runs[0], environment=made) for made in (here, None, *others)]
    log = RunLog.new("a command", None, threads=2, runs=runs)
    assert log.environment == here
    assert [run.environment for run in log.runs] == [None, None, *others]


# ------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("path", FIELDS, ids=spelled)
def test_a_missing_field_is_refused(tmp_path, log, path):
    """A config's fields too, though they have defaults: a log says what every value was.

    Where the default does not agree with the rest of a run, that is said.
    """
    del holder(log, path)[path[-1]]
    agrees = "history" not in path[:-1] and path[-1] not in ("depth", "epochs")
    words = f"missing required field `{path[-1]}`" if agrees or "validation" in path[-1] else ""
    refuse(tmp_path, log, "expected a log of this version", words)


@pytest.mark.parametrize("path", OBJECTS, ids=spelled)
def test_an_extra_field_is_refused(tmp_path, log, path):
    holder(log, (*path, ""))["surplus"] = 1
    refuse(tmp_path, log, "expected a log of this version", "unknown field `surplus`", f"`{spelled(path)}`")


@pytest.mark.parametrize("path", list(places(LOG)), ids=spelled)
def test_a_field_of_another_type_is_refused(tmp_path, log, path):
    there = holder(log, path)
    there[path[-1]] = 7 if isinstance(there[path[-1]], str | list | dict) else ["seven"]
    refuse(tmp_path, log, path[-1] if isinstance(path[-1], str) else spelled(path[:-1]))


WRONG = [  # a field, a value that it cannot have, what the message names
    *((("schema",), schema, ["schema"]) for schema in (0, 2, "1")),
    (("runs", 0, "n_params"), 100.5, ["$.runs[0].n_params"]),
    (("runs", 0, "diverged"), 0, ["$.runs[0].diverged"]),
    *((("runs", 0, "history", field), [0] * 3, ["$.runs[0]", "found"]) for field in LOG["runs"][0]["history"]),
    (("runs", 0, "gate_means"), [[0.12, 0.12], [0.125]], ["gate_means", "$.runs[0]"]),
    (("runs", 0, "gate_means"), [[0.12, 0.12]], ["2 rows", "found 1", "$.runs[0]"]),
    (("runs", 0, "gate_means"), [[0.12] * 3] * 2, ["gate_means", "$.runs[0]"]),
    (("runs", 0, "config", "lr"), 0, ["`lr`", "0"]),
]


@pytest.mark.parametrize(("path", "value", "parts"), WRONG)
def test_a_value_that_a_field_cannot_have_is_refused(tmp_path, log, path, value, parts):
    holder(log, path)[path[-1]] = value
    refuse(tmp_path, log, *parts)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(tmp_path, literal):
    text = dumps(small_log())
    assert "0.625" in text
    refuse(tmp_path, text.replace("0.625", literal))


@pytest.mark.parametrize("text", ["", "null", "[]", '"log"', b"\xff\xfe", "[" * 5000, "{}{}"], ids=range(7))
def test_what_is_no_log_at_all_is_refused(tmp_path, text):
    refuse(tmp_path, text)


# ------------------------------------------------------------------------------- whole or not at all


@pytest.fixture
def old(tmp_path) -> Path:
    """A file that lay there before."""
    path = tmp_path / "run.json"
    path.write_text("old", "utf-8")
    return path


def test_writing_replaces_a_file_and_leaves_nothing_beside_it(old):
    write(old, small_log())
    assert files_below(old.parent) == {"run.json": dumps(small_log()).encode()}


def test_a_write_that_is_interrupted_halfway_leaves_the_old_file_alone(old):
    with pytest.raises(KeyboardInterrupt), atomic_write(old) as file:  # noqa: PT012
        file.write(b"half")
        file.flush()
        raise KeyboardInterrupt
    assert files_below(old.parent) == {"run.json": b"old"}


def assert_unwritable(path: Path, *parts: object) -> None:
    """Both the check before the work and the writing after it refuse the path, in the same words."""
    with refused_with(path, *parts):
        check_writable(path)
    with refused_with(path, *parts):
        write(path, small_log())


@pytest.mark.symlinks
def test_a_link_stays_and_what_it_leads_to_is_replaced(old):
    link = old.parent / "link.json"
    for target in (old, old.parent / "new.json"):
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        write(link, small_log())
        assert link.is_symlink()
        assert read(target, RunLog[Config], REMEDY) == small_log()
    link.unlink()
    link.symlink_to("missing/run.json")
    assert_unwritable(link, "no directory", old.parent / "missing")


def test_a_directory_that_may_not_be_written_is_refused(closed_folder):
    assert_unwritable(closed_folder / "run.json")


# ------------------------------------------------------------------------------- the types of fields


@dataclasses.dataclass
class Part:
    curves: lists_of(Share | None, "orders", "L+1")

    def __post_init__(self) -> None:
        if 0.7 in self.curves[0]:
            raise ValueError("expected no 0.7, found one")


@dataclasses.dataclass
class Whole:
    layers: lists_of(Share, "L")
    parts: dict_of(("a", "b"), Part)
    runs: NonEmpty[int]
    count: Count
    score: Score
    free: float | list | None


PARTS = {"a": {"curves": [[0, None, 1]]}, "b": {"curves": [[0.5] * 3] * 2}}
WHOLE = {"layers": [0.5, 1], "parts": PARTS, "runs": [7], "count": 3, "score": 0.5, "free": 1.0}


@pytest.mark.parametrize("changed", [{}, {"count": 0}, {"score": -1e100}, {"free": [True, "text", None, -1e100]}])
def test_what_the_types_allow_is_read(changed):
    assert asdict(logs.loads(json.dumps(WHOLE | changed).encode(), Whole)) == WHOLE | changed


def in_b(*curves: list) -> dict:
    return {"parts": PARTS | {"b": {"curves": [*curves]}}}


WRONG_FIELDS = [  # a change, what is said of it and where
    ({"runs": []}, "Expected `array` of length >= 1", "$.runs"),
    (in_b([]), "Expected `array` of length >= 1", "$.parts.b.curves[0]"),
    (in_b([0, 0.5, 1.5]), "Expected `float` <= 1.0", "$.parts.b.curves[0][2]"),
    (in_b([0.7] * 3), "expected no 0.7, found one", "$.parts.b"),
    ({"parts": PARTS | {"c": PARTS["a"]}}, "Object contains unknown field `c`", "$.parts"),
    ({"parts": {"a": PARTS["a"]}}, "Object missing required field `b`", "$.parts"),
    ({"count": -1}, "Expected `int` >= 0", "$.count"),
    ({"score": 1.01}, "Expected `float` <= 1.0", "$.score"),
]


@pytest.mark.parametrize(("changed", "words", "place"), WRONG_FIELDS)
def test_what_they_do_not_allow_is_named_with_its_place(changed, words, place):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the words follow
        logs.loads(json.dumps(WHOLE | changed).encode(), Whole)
    assert words in str(error.value)
    assert place in str(error.value)
