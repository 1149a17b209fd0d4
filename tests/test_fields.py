"""What is declared with the fields of a log is checked wherever one is read."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from highway_lab.fields import LARGEST, Count, Share, check, rule


@dataclass
class Part:
    both: Annotated[list[list[float]], rule("orders", "L+1")]

    def contradiction(self) -> str | None:
        return "expected no 7, found one" if 7 in self.both[0] else None


@dataclass
class Whole:
    layers: Annotated[list[float | None], rule("L", within=(0, 1))]
    parts: Annotated[dict[str, Part], rule(("a", "b"))]
    kind: Annotated[str | None, rule(among={"plain": 1})]
    count: Count
    share: Share
    free: float | list


def whole(**changed) -> Whole:
    fields = {"layers": [0, None, 1.0], "parts": {"a": Part([[0.0] * 4]), "b": Part([[1.0] * 4] * 2)}}
    return Whole(**fields | {"kind": "plain", "count": 3, "share": 0.5, "free": 1.0} | changed)


@pytest.mark.parametrize("changed", [{}, {"kind": None}, {"count": 0}, {"free": [True, "text", None, -LARGEST]}])
def test_what_keeps_its_rules_is_let_be(changed):
    check(whole(**changed))


WRONG = [
    ({"layers": []}, "$.layers: expected 1 entries, found 0"),
    ({"layers": [0.5]}, "$.parts['a'].both[0]: expected 2 entries, found 4"),
    ({"layers": [0, 0.5, 1.5]}, "$.layers[2]: expected a number from 0 to 1, found 1.5"),
    ({"parts": {"a": Part([[0.0] * 4])}}, "$.parts: expected the keys a, b, found a"),
    ({"parts": {"a": Part([[0.0] * 4]), "b": Part([])}}, "$.parts['b'].both: expected 1 entries, found 0"),
    ({"parts": {"a": Part([[0.0] * 4]), "b": Part([[7.0] * 4])}}, "$.parts['b']: expected no 7, found one"),
    ({"kind": "../plain"}, "$.kind: expected one of plain, found '../plain'"),
    ({"count": -1}, "$.count: expected a number from 0 to 1e+100, found -1"),
    ({"count": 10**400}, "$.count: expected a number from 0 to 1e+100, found 1000"),
    ({"share": 1.01}, "$.share: expected a number from 0 to 1, found 1.01"),
    ({"free": 1e308}, "$.free: expected a number from -1e+100 to 1e+100, found 1e+308"),
    ({"free": [[1e308]]}, "$.free[0][0]: expected a number"),
]


@pytest.mark.parametrize(("changed", "words"), WRONG)
def test_what_breaks_a_rule_is_named_with_its_place(changed, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the words follow
        check(whole(**changed))
    assert str(error.value).startswith(words)
