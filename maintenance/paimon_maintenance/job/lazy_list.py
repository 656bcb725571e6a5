"""Lazy lists, whose items are computed on access, and JSON of them in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, overload

_TOGETHER: Final = 1000
"""The number of items of a lazy list that are encoded at a time."""
S = TypeVar("S")
T = TypeVar("T")


class LazyList(Sequence[T], Generic[S, T]):
    """A lazy list: it applies a function to the items of another list, on each access."""

    __slots__ = ("_make", "_sources")

    def __init__(self, sources: Sequence[S], make: Callable[[S], T]) -> None:
        self._sources = sources
        self._make = make

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._make(source) for source in self._sources[index]]
        return self._make(self._sources[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list


def plain(value: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON object whose lazy lists are ordinary lists."""
    return {key: _listed(item) for key, item in value.items()}


def _listed(value: object) -> object:
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, LazyList) or (isinstance(value, list) and _holds_lazy(value)):
        return [_listed(item) for item in value]
    return value


def json_parts(value: object, *, indent: int | None = None) -> Iterator[str]:
    """Yield the JSON text of the value in parts, so that no lazy list is completely in memory.

    Characters beyond ASCII are not escaped.  With `indent`, the text is one part.
    """
    if indent is not None or not _holds_lazy(value):
        yield _text(value, indent)
    elif isinstance(value, Mapping):
        start = "{"
        for key, item in value.items():
            yield f"{start}{_text(key)}: "
            yield from json_parts(item)
            start = ", "
        yield "}"
    elif isinstance(value, LazyList):
        start = "["
        for first in range(0, len(value), _TOGETHER):
            yield start + _text(value[first : first + _TOGETHER])[1:-1]
            start = ", "
        yield "[]" if start == "[" else "]"
    elif isinstance(value, list):
        start = "["
        for item in value:
            yield start
            yield from json_parts(item)
            start = ", "
        yield "]"


def _text(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)


def _holds_lazy(value: object) -> bool:
    """Return whether the value, or something directly in its mappings and lists, is a lazy list."""
    if isinstance(value, LazyList):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_lazy, value.values()))
    return isinstance(value, list) and any(map(_holds_lazy, value))


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, LazyList) else str(value)
