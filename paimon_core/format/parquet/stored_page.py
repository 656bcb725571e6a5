"""The data pages of column chunks with their statistics, from the indexes of a Parquet file.

The offset index of a chunk says where its pages are, the column index what is in them: null counts
and bounds.  Java (parquet-mr), Arrow and this library write both.  A bound may be shortened: then
it is still below or above all values of its page.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.index_bytes import (
    PageBounds,
    encode_bounds,
    encode_locations,
    page_bounds,
)
from paimon_core.format.parquet.page_index import ChunkPages, PageLocation, chunk_pages
from paimon_core.format.parquet.thrift_compact import (
    Struct,
    ThriftList,
    decode_at,
    field_value,
)

Raw = bool | int | float | bytes
"""A stored value: a number, or the bytes of a string or a long decimal."""

# Field numbers of parquet.thrift: places in a column chunk, a column index, an offset index.
_PLACES: Final = ((4, 5), (6, 7))
_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS = 1, 2, 3, 5
_LONGEST_INDEXES: Final = 64 * 1024 * 1024
_UNORDERED, _ASCENDING = 0, 1
_VALUES: Final[dict[int, Callable[[bytes], Raw]]] = {
    0: lambda b: bool(b[0]),
    1: lambda b: cast("int", struct.unpack("<i", b)[0]),
    2: lambda b: cast("int", struct.unpack("<q", b)[0]),
    4: lambda b: cast("float", struct.unpack("<f", b)[0]),
    5: lambda b: cast("float", struct.unpack("<d", b)[0]),
    6: bytes,
    7: bytes,
}
"""Decoders of bounds by physical type; INT96 has no order."""
_INT96: Final = 3


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A data page: its bytes in the file, its rows in the row group, and its statistics.

    `nulls` None: the statistics are unknown.  A page without bounds holds nothing but nulls, or
    has unknown bounds; `all_null` tells which.
    """

    offset: int
    size: int
    first_row: int
    rows: int
    nulls: int | None = None
    all_null: bool = False
    minimum: bytes | None = None
    maximum: bytes | None = None

    @property
    def end_row(self) -> int:
        return self.first_row + self.rows

    def moved(self, offset: int, first_row: int) -> StoredPage:
        """Return the page at another place; `dataclasses.replace` takes ten times as long."""
        return StoredPage(
            offset,
            self.size,
            first_row,
            self.rows,
            self.nulls,
            self.all_null,
            self.minimum,
            self.maximum,
        )


def value_of_bound(physical_type: int, bound: bytes) -> Raw | None:
    """Decode a bound; None if it has no order or another width than its type."""
    try:
        return None if physical_type == _INT96 else _VALUES[physical_type](bound)
    except (KeyError, IndexError, struct.error):
        return None


def group_pages(
    source: Any,
    groups: Sequence[tuple[int, Sequence[Struct]]],
    only: Collection[int] | None = None,
) -> list[list[tuple[StoredPage, ...] | None] | None]:
    """Return the pages of each chunk of some row groups, given as (rows, chunks of the footer).

    None for a group in which a chunk has no offset index, or one that contradicts it.  With `only`,
    the pages of other leaf columns are not looked for.
    """
    wanted = [
        [(i, chunk) for i, chunk in enumerate(chunks) if only is None or i in only]
        for _, chunks in groups
    ]
    places = [
        place
        for chunks in wanted
        for _, chunk in chunks
        for fields in _PLACES
        if (place := _place(chunk, fields)) is not None
    ]
    if not places:
        return [None] * len(groups)
    begin, end = min(o for o, _ in places), max(o + n for o, n in places)
    if end - begin > _LONGEST_INDEXES or end > source.size():
        return [None] * len(groups)
    region = _Region(bytes(source.read_at(end - begin, begin)), begin)
    found: list[list[tuple[StoredPage, ...] | None] | None] = []
    for (rows, all_chunks), chunks in zip(groups, wanted, strict=True):
        located = chunk_pages(region, [chunk for _, chunk in chunks], rows)
        if located is None:
            found.append(None)
            continue
        pages_of: list[tuple[StoredPage, ...] | None] = [None] * len(all_chunks)
        for (i, chunk), pages in zip(chunks, located, strict=True):
            pages_of[i] = _pages(region, chunk, pages)
        found.append(pages_of)
    return found


@dataclass(frozen=True, slots=True)
class _Region:
    """The bytes of a file that hold its indexes, addressed as in the file."""

    data: bytes
    begin: int

    def read_at(self, size: int, offset: int) -> bytes:
        return self.data[offset - self.begin : offset - self.begin + size]

    def size(self) -> int:
        return self.begin + len(self.data)


def _place(chunk: Struct, fields: tuple[int, int]) -> tuple[int, int] | None:
    offset, length = (field_value(chunk, n) for n in fields)
    known = isinstance(offset, int) and isinstance(length, int) and offset > 0 and length > 0
    return (offset, length) if known else None  # type: ignore[return-value]


def _pages(region: _Region, chunk: Struct, located: ChunkPages) -> tuple[StoredPage, ...]:
    pages = [
        StoredPage(page.offset, after.offset - page.offset, page.first_row, _rows(page, after))
        for page, after in pairwise(located.pages)
    ]
    place = _place(chunk, _PLACES[1])
    index = None if place is None else _column_index(region.read_at(place[1], place[0]), len(pages))
    if index is None:
        return tuple(pages)
    return tuple(
        StoredPage(
            page.offset,
            page.size,
            page.first_row,
            page.rows,
            nulls,
            all_null,
            None if all_null else minimum,
            None if all_null else maximum,
        )
        for page, (all_null, minimum, maximum, nulls) in zip(pages, index, strict=True)
    )


def _rows(page: PageLocation, after: PageLocation) -> int:
    return after.first_row - page.first_row


def _column_index(data: bytes, pages: int) -> list[PageBounds] | None:
    """Return (all null, minimum, maximum, nulls) of each page; None if the index is unusable."""
    usual = page_bounds(data, pages)
    if usual is not None:
        return usual
    try:
        decoded = decode_at(data, 0)
    except CorruptTable:
        return None
    if decoded is None:
        return None
    lists = [field_value(decoded[0], n) for n in (_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS)]
    if not all(isinstance(x, ThriftList) and len(x.items) == pages for x in lists):
        return None
    rows = list(zip(*(cast("ThriftList", x).items for x in lists), strict=True))
    kinds = (bool, bytes, bytes, int)
    if not all(isinstance(v, kind) for row in rows for v, kind in zip(row, kinds, strict=True)):
        return None
    bounds = cast("list[PageBounds]", rows)
    return bounds if all(nulls >= 0 for *_, nulls in bounds) else None


# --- writing --------------------------------------------------------------------------------------


def offset_index(pages: Sequence[StoredPage]) -> bytes:
    """Return the offset index of a chunk with these pages."""
    return encode_locations([(p.offset, p.size, p.first_row) for p in pages])


def column_index(pages: Sequence[StoredPage], physical_type: int) -> bytes | None:
    """Return the column index of a chunk with these pages; None if statistics are unknown."""
    if any(
        p.nulls is None or not (p.all_null or (p.minimum is not None and p.maximum is not None))
        for p in pages
    ):
        return None
    return encode_bounds(
        [(p.all_null, p.minimum or b"", p.maximum or b"", p.nulls or 0) for p in pages],
        _ASCENDING if _ascending(pages, physical_type) else _UNORDERED,
    )


def _ascending(pages: Sequence[StoredPage], physical_type: int) -> bool:
    """Return whether bounds never decrease from page to page, for numbers that sort as stored.

    Bytes may be strings or numbers, which differ in their order.
    """
    if physical_type not in (1, 2):
        return False
    bounds = [
        (value_of_bound(physical_type, p.minimum), value_of_bound(physical_type, p.maximum))
        for p in pages
        if p.minimum is not None and p.maximum is not None
    ]
    return all(
        a is not None and b is not None and a <= b  # type: ignore[operator]
        for left, right in pairwise(bounds)
        for a, b in zip(left, right, strict=True)
    )
