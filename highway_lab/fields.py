"""Types of the fields of a log, which msgspec checks wherever one is read, and lengths that must agree."""

import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict, TypeVar, get_type_hints

from msgspec import Meta

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Score = Annotated[float, Meta(le=1)]
Pixel = Annotated[int, Meta(ge=0, le=255)]
NonEmpty = Annotated[list[T], Meta(min_length=1)]


def dict_of(keys: Iterable[str], kind: Any) -> Any:
    """Return the type of a dictionary that has each of these keys, and no other."""
    return TypedDict("Keyed", dict.fromkeys(keys, kind))  # type: ignore[operator]


def lists_of(kind: Any, *names: str) -> Any:
    """Return the type of lists in lists, none of them empty, with a name for the length of each level.

    A name stands for the same length in an object and in all that it holds; "L+1" is one more than "L".
    """
    for _ in names:
        kind = NonEmpty[kind]
    return Annotated[kind, names]


@functools.cache
def named_lengths(kind: type) -> Mapping[str, tuple[str, ...]]:
    """Return the names that `lists_of` gave to the lengths of a dataclass's fields."""
    declared = {name: getattr(of, "__metadata__", ()) for name, of in get_type_hints(kind, include_extras=True).items()}
    return {name: names for name, found in declared.items() for names in found if isinstance(names, tuple)}


def check_lengths(record: Any, around: Mapping[str, int], place: str) -> dict[str, int]:
    """Return the named lengths in a dataclass and around it; raises ValueError for a list of another length."""
    lengths = dict(around)
    for field, names in named_lengths(record.__class__).items():
        level = [getattr(record, field)]
        for name in names:
            base, _, more = name.partition("+")
            for found in level:
                expected = lengths.setdefault(base, len(found) - int(more or 0)) + int(more or 0)
                if len(found) != expected:
                    raise ValueError(f"{place}.{field}: expected {expected} entries, found {len(found)}")
            level = [part for found in level for part in found]
    return lengths
