"""Where the data pages of column chunks begin, from the offset indexes of a Parquet file.

An offset index lists the pages of a chunk with their bytes and their first row.  Java (parquet-mr)
and this library write one for each chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.footer import CHUNK_META
from paimon_core.format.parquet.index_bytes import page_locations
from paimon_core.format.parquet.thrift_compact import Struct, field_value

# Field numbers of parquet.thrift.
_INDEX_OFFSET, _INDEX_LENGTH = 4, 5
_PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_KEPT_CHUNKS: Final = 512
"""Column chunks whose pages a process keeps: the slices of a bucket read the same files."""
_KEPT_BYTES: Final = 4 * 1024
"""Larger indexes, of more than about 400 pages, are not kept."""
_LONGEST_INDEX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PageLocation:
    """A data page: its first byte in the file, and its first row in the row group."""

    offset: int
    first_row: int


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """The pages of a column chunk, in bytes of the file and rows of the row group.

    `dictionary` is the offset of the dictionary page, which lies before the first data page; None
    without one.  The last element of `pages` is the end of the chunk.
    """

    dictionary: int | None
    pages: tuple[PageLocation, ...]


def stored_chunk(chunk: Struct) -> tuple[int | None, int, int]:
    """Return (dictionary page, first data page, end) of a chunk, in bytes of the file.

    Raises CorruptTable if the footer does not hold them.
    """
    meta = field_value(chunk, CHUNK_META)
    size, data, dictionary = (
        field_value(meta, n) if isinstance(meta, list) else None
        for n in (_PACKED, _DATA_PAGE, _DICTIONARY_PAGE)
    )
    if not isinstance(size, int) or not isinstance(data, int) or data < 0 or size < 0:
        raise CorruptTable("a column chunk of a Parquet file has no place in the file")
    # Some writers store 0 for a missing dictionary.
    if not isinstance(dictionary, int) or not 0 < dictionary < data:
        return None, data, data + size
    return dictionary, data, dictionary + size


def chunk_pages(source: Any, chunks: Sequence[Struct], rows: int) -> list[ChunkPages] | None:
    """Return the pages of these chunks of one row group with this number of rows.

    None if one of them has no offset index, or one that contradicts its chunk.
    """
    places = [_index_place(chunk) for chunk in chunks]
    if not places or None in places:
        return None
    known = [p for p in places if p is not None]
    begin, end = min(o for o, _ in known), max(o + n for o, n in known)
    if end - begin > _LONGEST_INDEX or end > source.size():
        return None
    data = bytes(source.read_at(end - begin, begin))  # writers put them side by side
    found = [
        (_recent_pages if n <= _KEPT_BYTES else _pages)(
            *stored_chunk(chunk), data[o - begin : o - begin + n], rows
        )
        for chunk, (o, n) in zip(chunks, known, strict=True)
    ]
    complete = [pages for pages in found if pages is not None]
    return complete if len(complete) == len(found) else None


def _index_place(chunk: Struct) -> tuple[int, int] | None:
    offset, length = field_value(chunk, _INDEX_OFFSET), field_value(chunk, _INDEX_LENGTH)
    known = isinstance(offset, int) and isinstance(length, int) and offset > 0 and length > 0
    return (offset, length) if known else None  # type: ignore[return-value]


def _pages(
    dictionary: int | None, data: int, end: int, index: bytes, rows: int
) -> ChunkPages | None:
    pages, at = [], data
    for offset, size, row in page_locations(index) or ():
        if offset != at or size <= 0:
            return None
        pages.append(PageLocation(at, row))
        at += size
    pages.append(PageLocation(at, rows))
    ascending = all(a.first_row < b.first_row for a, b in pairwise(pages))
    if at != end or pages[0].first_row != 0 or not ascending:
        return None
    return ChunkPages(dictionary, tuple(pages))


_recent_pages = lru_cache(maxsize=_KEPT_CHUNKS)(_pages)
