"""What the types of a log's fields do not allow is refused wherever one is read, with its place."""

import json
from dataclasses import asdict, dataclass

import pytest

from highway_lab.fields import Count, NonEmpty, Score, Share, dict_of, lists_of
from highway_lab.logs import LARGEST, loads


@dataclass
class Part:
    curves: lists_of(Share | None, "orders", "L+1")

    def __post_init__(self) -> None:
        if 0.7 in self.curves[0]:
            raise ValueError("expected no 0.7, found one")


@dataclass
class Whole:
    layers: lists_of(Share, "L")
    parts: dict_of(("a", "b"), Part)
    runs: NonEmpty[int]
    count: Count
    score: Score
    free: float | list | None


PARTS = {"a": {"curves": [[0, None, 1]]}, "b": {"curves": [[0.5] * 3] * 2}}
WHOLE = {"layers": [0.5, 1], "parts": PARTS, "runs": [7], "count": 3, "score": 0.5, "free": 1.0}


@pytest.mark.parametrize("changed", [{}, {"count": 0}, {"score": -LARGEST}, {"free": [True, "text", None, -LARGEST]}])
def test_what_the_types_allow_is_read(changed):
    assert asdict(loads(json.dumps(WHOLE | changed).encode(), Whole)) == WHOLE | changed


def in_b(*curves: list) -> dict:
    return {"parts": PARTS | {"b": {"curves": [*curves]}}}


WRONG = [  # a change, what is said of it and where
    ({"runs": []}, "Expected `array` of length >= 1", "$.runs"),
    ({"layers": [0.5]}, "expected 2 entries, found 3", "$.parts.a.curves"),
    (in_b([]), "Expected `array` of length >= 1", "$.parts.b.curves[0]"),
    (in_b([0] * 3, [0] * 2), "expected 3 entries, found 2", "$.parts.b.curves"),
    (in_b([0, 0.5, 1.5]), "Expected `float` <= 1.0", "$.parts.b.curves[0][2]"),
    (in_b([0.7] * 3), "expected no 0.7, found one", "$.parts.b"),
    ({"parts": PARTS | {"c": PARTS["a"]}}, "Object contains unknown field `c`", "$.parts"),
    ({"parts": {"a": PARTS["a"]}}, "Object missing required field `b`", "$.parts"),
    ({"count": -1}, "Expected `int` >= 0", "$.count"),
    ({"score": 1.01}, "Expected `float` <= 1.0", "$.score"),
    ({"free": 1e308}, "expected a number from -1e+100 to 1e+100, found 1e+308", "$.free"),
]


@pytest.mark.parametrize(("changed", "words", "place"), WRONG)
def test_what_they_do_not_allow_is_named_with_its_place(changed, words, place):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the words follow
        loads(json.dumps(WHOLE | changed).encode(), Whole)
    assert words in str(error.value)
    assert place in str(error.value)
