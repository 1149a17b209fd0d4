"""Types of the fields of a log, which msgspec checks wherever one is read."""

from collections.abc import Iterable
from typing import Annotated, Any, TypedDict, TypeVar

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
    """Return the type of lists in lists, none of them empty: a level for each name of a length, such as "L"."""
    for _ in names:
        kind = NonEmpty[kind]
    return kind
