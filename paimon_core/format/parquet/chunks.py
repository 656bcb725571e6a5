"""Stored column chunks of Parquet files, for copying without decoding.

The pages of a chunk hold everything needed to decode them, except for a dictionary, which is a
separate page at the front.  So a chunk can be moved to another file unchanged, and chunks without
dictionaries can be concatenated.

The footer's statistics of a column are trusted only for writers known to be correct, and the pages
are checked during the copy: their sizes, value counts and checksums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.index_bytes import (
    DATA_PAGES,
    DICTIONARY_PAGE,
    PageFields,
    page_fields,
)
from paimon_core.format.parquet.stored_page import Raw, StoredPage, value_of_bound
from paimon_core.format.parquet.thrift_compact import Struct, decode_at, field_value
from paimon_core.types.arrow import arrow_type
from paimon_core.types.data_types import AtomicType, DataType, TypeRoot

try:
    # Ten times as fast as zlib, which takes a sixth of the time of copying pages.
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this processor
    from zlib import crc32

Read = Callable[[int, int], pa.Buffer | memoryview]
"""Reads a number of bytes of a file from an offset; they may be valid until the next call only."""

WINDOW: Final = 8 * 1024 * 1024
"""The bytes of a chunk held in memory at once; more if a page is larger."""
_LONGEST_PAGE: Final = 512 * 1024 * 1024
CREATED_BY: Final = "paimon-caretaker"
"""The `created_by` prefix of files that were assembled from chunks."""
ENCODINGS: Final = {
    "PLAIN": 0,
    "PLAIN_DICTIONARY": 2,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7,
    "RLE_DICTIONARY": 8,
    "BYTE_STREAM_SPLIT": 9,
}
"""Numbers of the encodings in parquet.thrift, by the names that Arrow gives them."""
_KNOWN_WRITERS: Final = ("parquet-mr", "parquet-cpp-arrow", CREATED_BY)
# Arrow ignores NaN in minimum and maximum; other writers then omit both, and so does this library.
ARROW: Final = "parquet-cpp-arrow"
ENCODED_BY: Final = f"{CREATED_BY}-arrow"
"""The `created_by` prefix, in place of Arrow's, of files that Arrow encoded for this library."""
# Field numbers of parquet.thrift: of a page's header, and of its part for each kind of page.
_KIND, _UNPACKED, _SIZE, _CHECKSUM = 1, 2, 3, 4
_VALUES: Final = 1
_PHYSICAL: Final = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "INT96": 3,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}
"""Numbers of the physical types in parquet.thrift, by the names that Arrow gives them."""
_FLOATS: Final = (4, 5)


class PageStatistics(NamedTuple):
    """What is known of the values of a page; None for what is not."""

    values: int | None
    nulls: int | None
    minimum: Raw | None
    maximum: Raw | None


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column chunk in some file, or consecutive pages of one.

    `start` and `size` are bytes in the file, `first_data` the bytes before the first data page (0
    without a dictionary).  `uncompressed` bytes and `values` of some pages are known once the pages
    are read.  Unknown null counts, minima and maxima are None, and so are `pages` without an index.
    """

    start: int
    size: int
    first_data: int
    uncompressed: int | None
    values: int | None
    encodings: frozenset[str]
    nulls: int | None
    minimum: Raw | None
    maximum: Raw | None
    physical_type: int = -1
    pages: tuple[StoredPage, ...] | None = None

    @property
    def has_dictionary(self) -> bool:
        return any("DICTIONARY" in name for name in self.encodings) or self.first_data > 0

    @property
    def dictionary(self) -> StoredColumn:
        """Return the dictionary page alone."""
        return replace(self, size=self.first_data, uncompressed=None, values=0, nulls=0, pages=())

    def of_pages(self, pages: Sequence[StoredPage], data_type: DataType | None) -> StoredColumn:
        """Return the part with some consecutive data pages, without the dictionary.

        `data_type` is the column's type, None inside a nested column.
        """
        part = replace(
            self,
            start=pages[0].offset,
            size=sum(p.size for p in pages),
            first_data=0,
            uncompressed=None,
            values=None if data_type is None else sum(p.rows for p in pages),
            pages=tuple(pages),
        )
        flat = data_type is not None
        nulls, low, high = joined([self._page(p, flat=flat) for p in pages], data_type)
        return replace(part, nulls=nulls, minimum=low, maximum=high)

    def _page(self, page: StoredPage, *, flat: bool) -> PageStatistics:
        low, high = (
            None if bound is None else value_of_bound(self.physical_type, bound)
            for bound in (page.minimum, page.maximum)
        )
        values = page.nulls if page.all_null else page.rows if flat else None
        return PageStatistics(values, page.nulls, low, high)


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A row group in some file: its rows, the number of rows before it, its leaf columns."""

    first_row: int
    rows: int
    columns: tuple[StoredColumn, ...]

    @property
    def size(self) -> int:
        """Return the bytes in the file."""
        return sum(c.size for c in self.columns)

    @property
    def uncompressed(self) -> int:
        """Return the uncompressed bytes of all pages."""
        return sum(c.uncompressed or 0 for c in self.columns)


def stored_groups(
    metadata: pq.FileMetaData,
    like: pq.FileMetaData,
    codec: str,
    pages: Sequence[Sequence[tuple[StoredPage, ...] | None] | None] | None = None,
) -> list[StoredGroup] | None:
    """Return the row groups of a file if its chunks can be copied to a file with schema `like`.

    None if they cannot: another schema or codec, an unknown writer or encoding, or numbers of rows
    that contradict each other.  `pages` are those of all chunks, if known.
    """
    created_by = metadata.created_by or ""
    if not created_by.startswith(_KNOWN_WRITERS) or not _same_schema(metadata, like):
        return None
    believe_floats = not created_by.startswith(ARROW)
    groups = []
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = []
        for place in range(metadata.num_columns):
            chunk = group.column(place)
            if chunk.compression != codec or not ENCODINGS.keys() >= set(chunk.encodings):
                return None
            repeated = metadata.schema.column(place).max_repetition_level > 0
            if not repeated and chunk.num_values != group.num_rows:
                return None
            known = None if pages is None else pages[number]
            columns.append(
                _stored(
                    chunk, None if known is None else known[place], believe_floats=believe_floats
                )
            )
        groups.append(StoredGroup(first_row, group.num_rows, tuple(columns)))
        first_row += group.num_rows
    return groups if first_row == metadata.num_rows else None


def _same_schema(metadata: pq.FileMetaData, like: pq.FileMetaData) -> bool:
    # `equals` compares only the leaves, so it ignores the element names of lists.
    return bool(metadata.schema.equals(like.schema)) and all(
        metadata.schema.column(i).path == like.schema.column(i).path
        for i in range(metadata.num_columns)
    )


def _stored(
    chunk: pq.ColumnChunkMetaData,
    pages: tuple[StoredPage, ...] | None,
    *,
    believe_floats: bool,
) -> StoredColumn:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    nulls, minimum, maximum = _known(chunk, believe_floats=believe_floats)
    physical_type = _PHYSICAL.get(chunk.physical_type, -1)
    if pages is not None and physical_type in _FLOATS and not believe_floats:
        pages = tuple(replace(p, nulls=None, minimum=None, maximum=None) for p in pages)
    return StoredColumn(
        start=start,
        size=chunk.total_compressed_size,
        first_data=chunk.data_page_offset - start,
        uncompressed=chunk.total_uncompressed_size,
        values=chunk.num_values,
        encodings=frozenset(chunk.encodings),
        nulls=nulls,
        minimum=minimum,
        maximum=maximum,
        physical_type=physical_type,
        pages=pages,
    )


def _known(
    chunk: pq.ColumnChunkMetaData, *, believe_floats: bool
) -> tuple[int | None, Raw | None, Raw | None]:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None:
        return None, None, None
    nulls = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max or chunk.physical_type == "INT96":
        return nulls, None, None
    low, high = statistics.min_raw, statistics.max_raw
    if isinstance(low, float) and (not believe_floats or math.isnan(low) or math.isnan(high)):
        return nulls, None, None
    return nulls, low, high


def joined(
    columns: Sequence[StoredColumn | PageStatistics], data_type: DataType | None
) -> tuple[int | None, Raw | None, Raw | None]:
    """Return null count, minimum and maximum over all chunks or pages; None if one is unknown.

    `data_type` is the column's type, None inside a nested column.
    """
    nulls = None
    if all(c.nulls is not None for c in columns):
        nulls = sum(cast("int", c.nulls) for c in columns)
    telling = [c for c in columns if c.nulls is None or c.values is None or c.nulls < c.values]
    if not telling or any(c.minimum is None or c.maximum is None for c in telling):
        return nulls, None, None
    if data_type is None and isinstance(telling[0].minimum, bytes):
        return nulls, None, None  # it is unknown here whether they are strings or numbers
    is_decimal = data_type is not None and data_type.root is TypeRoot.DECIMAL
    order: Callable[[Any], Any] = stored_number if is_decimal else _as_stored
    lows, highs = [c.minimum for c in telling], [c.maximum for c in telling]
    return nulls, min(lows, key=order), max(highs, key=order)


def _as_stored(value: Any) -> Any:
    return value


def stored_number(value: Raw) -> int:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else int(value)


def value_of(stored: Raw, data_type: AtomicType) -> Any:
    """Return a value for `StatsCollector.add_known`; None if it does not fit the type."""
    kind = arrow_type(data_type)
    if pa.types.is_decimal(kind):
        return Decimal(f"{stored_number(stored)}E-{kind.scale}")
    if isinstance(stored, bytes):
        try:
            return stored.decode()
        except UnicodeDecodeError:
            return None
    return stored


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What the header of a page says: bytes with the header, the same uncompressed, values.

    A dictionary has no values (None).
    """

    size: int
    uncompressed: int
    values: int | None


def checked_pages(
    read: Read, column: StoredColumn, name: str, headers: list[PageHeader] | None = None
) -> Iterator[memoryview]:
    """Yield the bytes of a chunk, a few checked pages at a time; add their headers to `headers`.

    The bytes may be valid until the next ones only.

    Raises CorruptTable if the pages do not fill the chunk, hold another number of values than the
    footer or the page index says, or have a wrong checksum.
    """
    headers = [] if headers is None else headers
    at, window = 0, WINDOW
    while at < column.size:
        data = memoryview(read(column.start + at, min(window, column.size - at))).cast("B")
        if len(data) < min(window, column.size - at):
            raise CorruptTable(f"a data file ends within column {name}")
        used = 0
        while used < len(data):
            page = page_fields(data, used) or _unusual_page(data, used, name)
            end = None if page is None else page.end + page.size
            if page is None or end is None or end > len(data):
                break
            headers.append(_checked(page, data[page.end : end], used, name))
            used = end
        if used == 0:
            if at + len(data) == column.size:
                raise CorruptTable(f"a page of column {name} extends beyond its column chunk")
            window *= 2
            if window > _LONGEST_PAGE:
                raise CorruptTable(
                    f"a page of column {name} is longer than {_LONGEST_PAGE:,} bytes"
                )
            continue
        yield data[:used]
        at += used
    values = sum(h.values or 0 for h in headers)
    if column.values is not None and values != column.values:
        raise CorruptTable(
            f"the pages of column {name} hold {values} values, its footer says {column.values}"
        )
    if column.pages is not None:
        sizes = [h.size for h in headers if h.values is not None]
        if sizes != [p.size for p in column.pages]:
            raise CorruptTable(f"the pages of column {name} are not those of its index")


def _unusual_page(data: memoryview, at: int, name: str) -> PageFields | None:
    """Return the header of any page at this position; None if the bytes end first."""
    decoded = decode_at(data, at)
    if decoded is None:
        return None
    header, end = decoded
    size, unpacked = field_value(header, _SIZE), field_value(header, _UNPACKED)
    if not isinstance(size, int) or size < 0:
        raise CorruptTable(f"a page of column {name} has no size")
    if not isinstance(unpacked, int) or unpacked < 0:
        raise CorruptTable(f"a page of column {name} has no uncompressed size")
    checksum, kind = field_value(header, _CHECKSUM), field_value(header, _KIND)
    values = None if kind == DICTIONARY_PAGE else values_of(header)
    if values is None and kind != DICTIONARY_PAGE:
        raise CorruptTable(f"column {name} has a page of the unknown kind {kind!r}")
    return PageFields(end, size, unpacked, checksum if isinstance(checksum, int) else None, values)


def _checked(page: PageFields, body: memoryview, begin: int, name: str) -> PageHeader:
    """Check a page that begins there, and return what its header says."""
    if page.checksum is not None and crc32(body) != page.checksum & 0xFFFFFFFF:
        raise CorruptTable(f"a page of column {name} does not have its checksum")
    header = page.end - begin
    return PageHeader(header + page.size, header + page.uncompressed, page.values)


def values_of(header: Struct) -> int | None:
    """Return the number of values of a data page, nulls included; None for other pages."""
    counts = field_value(header, DATA_PAGES.get(cast("int", field_value(header, _KIND)), 0))
    values = field_value(counts, _VALUES) if isinstance(counts, list) else None
    return values if isinstance(values, int) else None
