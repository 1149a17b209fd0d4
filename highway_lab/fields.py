"""Rules of what the fields of a log may hold: declared with each field, checked wherever a log is read."""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple, get_type_hints

LARGEST = 1e100  # magnitude of a number in a log: larger ones overflow in sums of squares
COUNT, SHARE, SCORE = (0, LARGEST), (0, 1), (-LARGEST, 1)  # the least and the greatest number of a kind


class Rule(NamedTuple):
    """A rule of what a field of a dataclass may hold, as `Annotated[TYPE, rule(...)]` declares it.

    levels  for each level of nested lists and mappings: the name of a length, or the keys of a mapping
    within  the least and the greatest number
    among   the texts that are known; None: any
    """

    levels: tuple[str | Collection[str], ...]
    within: tuple[float, float]
    among: Collection[str] | None


def rule(
    *levels: str | Collection[str],
    within: tuple[float, float] = (-LARGEST, LARGEST),
    among: Collection[str] | None = None,
) -> Rule:
    """Make a Rule.

    A length is at least 1, and the same wherever its name stands in an object and in all that this holds; "L+1" is one
    more than "L".
    """
    return Rule(levels, within, among)


ANY = rule()
Count = Annotated[int, rule(within=COUNT)]
Share = Annotated[float, rule(within=SHARE)]


OF_OTHERS: dict[type, Mapping[str, Rule]] = {}  # rules of dataclasses that cannot declare them


@functools.cache
def rules(kind: Any) -> Mapping[str, Rule]:
    """Return the rules of a dataclass's fields."""
    hints = get_type_hints(kind, include_extras=True)
    declared = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in dataclasses.fields(kind)}
    own = {name: next((of for of in found if isinstance(of, Rule)), ANY) for name, found in declared.items()}
    return {**own, **OF_OTHERS.get(kind, {})}


def check(value: Any, place: str = "$", lengths: dict[str, int] | None = None, rule: Rule = ANY) -> None:
    """Raise ValueError, naming the place, unless `value` keeps its rule and all that it holds keep theirs.

    A dataclass whose fields must agree says what does not in `contradiction()`.
    """
    lengths = {} if lengths is None else lengths
    if dataclasses.is_dataclass(value):
        lengths = dict(lengths)
        kind: Any = type(value)
        for name, of in rules(kind).items():
            check(getattr(value, name), f"{place}.{name}", lengths, of)
        if found := getattr(value, "contradiction", lambda: None)():
            raise ValueError(f"{place}: {found}")
    elif isinstance(value, dict | list | tuple):
        if rule.levels:
            _check_level(value, place, lengths, rule.levels[0])
        inside = rule._replace(levels=rule.levels[1:])
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            if not (type(part) is float and rule.within[0] <= part <= rule.within[1]):  # else it is fine, as most are
                check(part, f"{place}[{key!r}]", lengths, inside)
    elif isinstance(value, str):
        if rule.among is not None and value not in rule.among:
            raise ValueError(f"{place}: expected one of {', '.join(rule.among)}, found {value!r:.80}")
    elif not (value is None or isinstance(value, bool) or rule.within[0] <= value <= rule.within[1]):
        lowest, highest = rule.within
        raise ValueError(f"{place}: expected a number from {lowest:g} to {highest:g}, found {value!s:.40}")


def _check_level(value: Any, place: str, lengths: dict[str, int], level: str | Collection[str]) -> None:
    if isinstance(level, str):
        name, _, more = level.partition("+")
        expected = lengths.setdefault(name, max(len(value), 1) - int(more or 0)) + int(more or 0)
        if len(value) != expected:
            raise ValueError(f"{place}: expected {expected} entries, found {len(value)}")
    elif set(value) != set(level):
        raise ValueError(f"{place}: expected the keys {', '.join(level)}, found {', '.join(value)}"[:200])
