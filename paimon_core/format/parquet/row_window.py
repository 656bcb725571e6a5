"""Reads a range of the rows of a Parquet file, decoding only the pages that hold them.

Java writes one row group per file, whatever the file's size, so skipping row groups is not enough.
The pages of two columns end at different rows::

    wanted rows              |-----------------|
    BIGINT column     |--------|--------|--------|--------|      pages 1 to 3 are decoded
    STRING column     |---|---|---|---|---|---|---|---|---|      pages 2 to 7 are decoded

So columns whose pages begin and end at the same rows are read together, as a Parquet file of their
own: a footer that names only these pages, over the bytes of the real file.  What they hold beyond
the wanted rows is cut off.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, cast

import pyarrow as pa

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.chunks import values_of
from paimon_core.format.parquet.footer import (
    CHUNK_META,
    ELEMENT_REPETITION,
    ELEMENT_TYPE,
    FILE_ROW_GROUPS,
    FILE_SCHEMA,
    GROUP_COLUMNS,
    KEPT_BYTES,
    KEPT_FOOTERS,
    META_STATISTICS,
    REPEATED,
    check_chunks,
    children_of,
    footer_bytes,
    metadata_of,
    open_parquet,
    structs_of,
)
from paimon_core.format.parquet.index_bytes import page_values
from paimon_core.format.parquet.int96 import with_raw_int96
from paimon_core.format.parquet.page_index import (
    ChunkPages,
    PageLocation,
    chunk_pages,
    stored_chunk,
)
from paimon_core.format.parquet.thrift_compact import (
    I64,
    LIST,
    STRUCT,
    Field,
    Struct,
    ThriftList,
    Value,
    decode_at,
    decode_struct,
    field_value,
)
from paimon_core.format.row_range import rows_in

# Field numbers of parquet.thrift.
_FILE_ROWS: Final = 3
_ELEMENT_NAME: Final = 4
_GROUP_BYTES, _GROUP_ROWS = 2, 3
_PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_DROPPED: Final = (10, _DICTIONARY_PAGE, META_STATISTICS, 13, 14, 15)
_MAGIC_BYTES: Final = 4
_LONGEST_HEADER: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Decoding:
    """How pages are decoded: rows of a batch, bytes of a chunk held in memory (0: all), threads."""

    batch_rows: int
    buffer_size: int
    use_threads: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: its first row in the file, its rows, and its column chunks."""

    first_row: int
    rows: int
    chunks: tuple[Struct, ...]


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows of the file at which pages of some columns begin and end."""

    begin: int
    end: int


_KnownPages = dict[int, Mapping[int, ChunkPages]]
"""By a row group's first row and by leaf column, for the groups of which only a part is read."""


@dataclass(frozen=True, slots=True)
class PagedFile:
    """A footer."""

    footer: Struct
    columns: dict[str, range]
    """The leaf columns of each column."""
    flat: frozenset[int]
    """The leaf columns that have a value in each row, null or not."""
    groups: tuple[_Group, ...]

    def are_groups(self, rows: range) -> bool:
        """Return whether these are all rows of some row groups."""
        borders = {0, *(g.first_row + g.rows for g in self.groups)}
        return {rows.start, rows.stop} <= borders

    def group_at(self, row: int) -> _Group:
        """Return the group that holds this row."""
        return self.groups[bisect_right([g.first_row for g in self.groups], row) - 1]


def paged_file(source: Any) -> PagedFile:
    """Read the footer for `read_pages`; CorruptTable if its row groups contradict its schema."""
    stored = footer_bytes(source)
    return _recent_footer(stored) if len(stored) <= KEPT_BYTES else _decoded_footer(stored)


def _decoded_footer(data: bytes) -> PagedFile:
    footer = decode_struct(data)
    stored = structs_of(footer, FILE_ROW_GROUPS)
    # The check removes the places of the indexes from the footer.
    kept = [[list(chunk) for chunk in structs_of(group, GROUP_COLUMNS)] for group in stored]
    check_chunks(footer)
    with_raw_int96(footer)
    groups, first = [], 0
    for group, chunks in zip(stored, kept, strict=True):
        rows = field_value(group, _GROUP_ROWS)
        if not isinstance(rows, int) or rows < 0:
            raise CorruptTable("a row group of a Parquet file has no number of rows")
        if rows:
            groups.append(_Group(first, rows, tuple(chunks)))
        first += rows
    return PagedFile(footer, *_columns(footer), tuple(groups))


_recent_footer = lru_cache(maxsize=KEPT_FOOTERS)(_decoded_footer)


def read_pages(
    source: Any,
    names: Sequence[str],
    rows: range,
    how: Decoding,
    file: PagedFile | None = None,
) -> Iterator[pa.RecordBatch] | None:
    """Yield these rows of the file with those of these columns that it has; `file` is its footer.

    None if the row groups hold no other rows, if pages are unknown, or if the file has none of the
    columns.  Raises CorruptTable if the footer is damaged, or pages hold fewer rows than their
    index says.
    """
    file = file or paged_file(source)
    total = sum(g.rows for g in file.groups)
    rows = range(rows.start, min(rows.stop, total))
    names = [name for name in names if name in file.columns]
    if not rows or not names or file.are_groups(rows):
        return None
    leaves = [leaf for name in names for leaf in file.columns[name]]
    pages: _KnownPages = {}
    for group in map(file.group_at, (rows[0], rows[-1])):
        if group.first_row in pages:
            continue
        known = chunk_pages(source, [group.chunks[leaf] for leaf in leaves], group.rows)
        if known is None:
            return None
        pages[group.first_row] = dict(zip(leaves, known, strict=True))
    windows: dict[_Window, list[str]] = defaultdict(list)
    for name in names:
        windows[_window(file, pages, file.columns[name], rows)].append(name)
    parts = [
        rows_in(
            _decoded(source, file, pages, window, columns, how),
            range(rows.start - window.begin, rows.stop - window.begin),
        )
        for window, columns in windows.items()
    ]
    if len({window.begin for window in windows}) > 1:
        # Otherwise batches begin and end at the same rows.
        parts = [_of_one_size(part, how.batch_rows) for part in parts]
    return parts[0] if len(parts) == 1 else _side_by_side(parts)


def _window(file: PagedFile, pages: _KnownPages, leaves: range, rows: range) -> _Window:
    """Return the rows of the pages of a column that hold `rows`."""
    first, last = file.group_at(rows[0]).first_row, file.group_at(rows[-1]).first_row
    begins, ends = _borders(pages[first], leaves), _borders(pages[last], leaves)
    return _Window(
        first + begins[bisect_right(begins, rows.start - first) - 1],
        last + ends[bisect_left(ends, rows.stop - last)],
    )


def _borders(pages: Mapping[int, ChunkPages], leaves: range) -> list[int]:
    """Return the rows at which pages of all these leaves begin or end."""
    return sorted(set.intersection(*({p.first_row for p in pages[i].pages} for i in leaves)))


def _columns(footer: Struct) -> tuple[dict[str, range], frozenset[int]]:
    """Return (the leaf columns of each column, the leaf columns that are columns themselves)."""
    columns, flat, first = {}, set(), 0
    root, *elements = structs_of(footer, FILE_SCHEMA)
    at = 0
    for _ in range(children_of(root)):
        column, leaves, waiting = elements[at], 0, 1
        while waiting:  # a tree in depth-first order; IndexError if it is not complete
            element = elements[at]
            at += 1
            is_leaf = field_value(element, ELEMENT_TYPE) is not None
            leaves += is_leaf
            waiting += -1 if is_leaf else children_of(element) - 1
        name = cast("bytes", field_value(column, _ELEMENT_NAME)).decode()
        columns[name] = range(first, first + leaves)
        is_flat = field_value(column, ELEMENT_TYPE) is not None
        if is_flat and field_value(column, ELEMENT_REPETITION) != REPEATED:
            flat.add(first)
        first += leaves
    return columns, frozenset(flat)


# --- a file of some pages -------------------------------------------------------------------------


def _decoded(
    source: Any,
    file: PagedFile,
    known: _KnownPages,
    window: _Window,
    names: Sequence[str],
    how: Decoding,
) -> Iterator[pa.RecordBatch]:
    leaves = {i for name in names for i in file.columns[name]}
    pages = _Pages(source)
    groups: list[Value] = []
    for group in file.groups:
        begin = max(window.begin - group.first_row, 0)
        end = min(window.end - group.first_row, group.rows)
        if begin < end:
            chunks = _cut(file, group, known.get(group.first_row), leaves, range(begin, end), pages)
            groups.append(
                [
                    Field(GROUP_COLUMNS, LIST, ThriftList(STRUCT, cast("list[Value]", chunks))),
                    Field(_GROUP_BYTES, I64, 0),
                    Field(_GROUP_ROWS, I64, end - begin),
                ]
            )
    changed: dict[int, tuple[int, Value]] = {
        _FILE_ROWS: (I64, window.end - window.begin),
        FILE_ROW_GROUPS: (LIST, ThriftList(STRUCT, groups)),
    }
    footer = [Field(f.id, *changed.get(f.id, (f.type, f.value))) for f in file.footer]
    with open_parquet(
        pa.PythonFile(pages, mode="r"),
        metadata=metadata_of(footer),
        pre_buffer=False,
        buffer_size=how.buffer_size if pages.size > how.buffer_size else 0,
        arrow_extensions_enabled=False,
    ) as opened:
        yield from opened.iter_batches(
            how.batch_rows, columns=list(names), use_threads=how.use_threads
        )


def _cut(
    file: PagedFile,
    group: _Group,
    known: Mapping[int, ChunkPages] | None,
    leaves: set[int],
    rows: range,
    pages: _Pages,
) -> list[Struct]:
    """Return the chunks of the group, those of `leaves` cut to these rows and added to `pages`."""
    chunks = []
    for number, chunk in enumerate(group.chunks):
        meta = [
            Field(f.id, f.type, f.value)
            for f in cast("Struct", field_value(chunk, CHUNK_META))
            if f.id not in _DROPPED
        ]
        if number in leaves:
            dictionary, data, end = stored_chunk(chunk)
            cut = [PageLocation(data, 0), PageLocation(end, group.rows)]
            if known is not None:
                cut = [p for p in known[number].pages if rows.start <= p.first_row <= rows.stop]
                if number in file.flat:
                    pages.expect(cut)
            _place(meta, pages, None if dictionary is None else range(dictionary, data), cut)
        chunks.append([Field(2, I64, 0), Field(CHUNK_META, STRUCT, meta)])
    return chunks


def _place(
    meta: Struct, pages: _Pages, dictionary: range | None, data: Sequence[PageLocation]
) -> None:
    """Add the dictionary and the data pages; change the chunk's metadata accordingly."""
    start = pages.size
    if dictionary:
        pages.add(dictionary.start, dictionary.stop)
        meta.append(Field(_DICTIONARY_PAGE, I64, start))
    changed = {_DATA_PAGE: pages.size}
    pages.add(data[0].offset, data[-1].offset)
    changed[_PACKED] = pages.size - start
    for field in meta:
        # The number of values stays: those of nested pages are unknown, and Arrow reads by rows.
        field.value = changed.get(field.id, field.value)
    meta.sort(key=lambda field: field.id)


class _Pages:
    """A read-only file of parts of another file, behind four bytes for the magic number."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._source = source
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._at = 0
        self._counts: dict[int, int] = {}
        self._expected: list[int] | None = None
        self.size = _MAGIC_BYTES

    def expect(self, pages: Sequence[PageLocation]) -> None:
        """Check the number of values of each page as it is read; the last element is their end."""
        for page, following in pairwise(pages):
            self._counts[page.offset] = following.first_row - page.first_row
        self._expected = None

    def add(self, begin: int, end: int) -> None:
        """Append the bytes from `begin` to `end` of the other file."""
        if end > begin:
            self._starts.append(self.size)
            self._offsets.append(begin)
            self.size += end - begin

    def read(self, count: int = -1) -> bytes:
        stop = self.size if count < 0 else min(self.size, self._at + count)
        parts = []
        if self._at < _MAGIC_BYTES:
            parts.append(bytes(min(stop, _MAGIC_BYTES) - self._at))
            self._at = min(stop, _MAGIC_BYTES)
        while self._at < stop:
            place = bisect_right(self._starts, self._at) - 1
            end = self._starts[place + 1] if place + 1 < len(self._starts) else self.size
            size = min(stop, end) - self._at
            offset = self._offsets[place] + self._at - self._starts[place]
            data = self._source.read_at(size, offset)
            self._check(data, offset)
            parts.append(data)
            self._at += len(data)
            if len(data) < size:
                break  # Arrow says that the file ends too early
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check(self, data: bytes, offset: int) -> None:
        """Raise CorruptTable if pages that begin in `data` hold other rows than their index says.

        Otherwise the rows of one column would meet those of others.
        """
        if self._expected is None:
            self._expected = sorted(self._counts)
        first = bisect_left(self._expected, offset)
        for at in self._expected[first : bisect_left(self._expected, offset + len(data))]:
            count = self._counts.pop(at, None)
            if count is None:
                continue  # checked by an earlier read
            if page_values(data, at - offset) == count:
                continue
            page = decode_at(data, at - offset)
            if page is None:
                page = decode_at(self._source.read_at(_LONGEST_HEADER, at), 0)
            if page is None or values_of(page[0]) != count:
                raise CorruptTable("a page of a Parquet file holds other rows than its index says")

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self.size)[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """The other file is closed by its owner."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True


def _of_one_size(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches of up to `size` rows in batches of `size` but for the last."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.num_rows
        if held >= size:
            rest = batch.slice(batch.num_rows - (held - size))
            waiting[-1] = batch.slice(0, batch.num_rows - rest.num_rows)
            yield pa.concat_batches(waiting)
            waiting, held = ([rest], rest.num_rows) if rest.num_rows else ([], 0)
    if waiting:
        yield pa.concat_batches(waiting)


def _side_by_side(parts: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the parts, which have the same number of rows, together."""
    heads: list[Any] = [next(part, None) for part in parts]
    while all(head is not None for head in heads):
        size = min(head.num_rows for head in heads)
        pieces = [head.slice(0, size) for head in heads]
        yield pa.RecordBatch.from_arrays(
            [array for piece in pieces for array in piece.columns],
            names=[name for piece in pieces for name in piece.schema.names],
        )
        heads = [
            head.slice(size) if head.num_rows > size else next(part, None)
            for head, part in zip(heads, parts, strict=True)
        ]
