"""Assembles a Parquet file from column chunks, or pages, of other files and newly encoded ones.

Arrow only writes chunks that it has encoded itself.  So Arrow encodes new chunks in memory, as a
file with one row group, and they are copied from there like all others; the footer and the page
indexes are built here, with the schema that Arrow writes for these columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.chunks import (
    CREATED_BY,
    ENCODINGS,
    PageHeader,
    Read,
    StoredColumn,
    checked_pages,
    joined,
    stored_groups,
)
from paimon_core.format.parquet.footer import (
    CHUNK_META,
    FILE_ROW_GROUPS,
    GROUP_COLUMNS,
    MAGIC,
    footer_bytes,
    footer_of,
    structs_of,
)
from paimon_core.format.parquet.stored_page import (
    Raw,
    StoredPage,
    column_index,
    group_pages,
    offset_index,
)
from paimon_core.format.parquet.thrift_compact import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    Struct,
    ThriftList,
    Value,
    decode_struct,
    encode_struct,
    field_value,
)
from paimon_core.format.parquet.writer import FIRST_RATIO, ROW_GROUP_BYTES, ParquetFileWriter
from paimon_core.io.threads import Threads
from paimon_core.types.data_types import AtomicType, DataType, RowType

VERSION: Final = "1.0.0"
"""The version of this assembler, for readers that must work around its faults."""
COPIED_CODECS: Final = {"zstd": "ZSTD", "snappy": "SNAPPY", "gzip": "GZIP", "none": "UNCOMPRESSED"}
"""Compressions whose chunks can be copied, by option value; LZ4 has two forms in Parquet."""
_CODEC_NUMBERS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6}
# Field numbers of parquet.thrift.
_UNPACKED: Final = 6
_SCHEMA, _ROWS, _GROUPS, _CREATED_BY = 2, 3, 4, 6
_TYPE, _REPETITION, _NAME, _CHILDREN = 1, 3, 4, 5
_REPEATED: Final = 2
_OFFSET_INDEX, _COLUMN_INDEX = (4, 5), (6, 7)


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """A column chunk, or pages of one, a function that reads bytes of its file, and its path.

    Pages are checked unless `checked` says that this is not necessary: they were just encoded.
    """

    column: StoredColumn
    read: Read
    path: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column: its physical type, its path, and the column's type unless it is nested.

    `flat`: it has a value in each row, null or not.
    """

    type: int
    path: tuple[bytes, ...]
    data_type: DataType | None
    flat: bool

    @property
    def name(self) -> str:
        return b".".join(self.path).decode()


class ParquetAssembler:
    """`FormatWriter` of one Parquet file, which also copies stored row groups."""

    def __init__(
        self,
        sink: pa.NativeFile,
        row_type: RowType,
        *,
        compression: str,
        zstd_level: int,
        row_group_bytes: int = ROW_GROUP_BYTES,
        threads: Threads | None = None,
    ) -> None:
        """`compression` is one of `COPIED_CODECS`.

        With `threads`, each of them encodes a row group while rows are added, and takes up to
        `row_group_bytes` more memory.
        """
        self._sink = sink
        self._encode = partial(encoded, compression=compression, zstd_level=zstd_level)
        self._row_type = row_type
        self._codec = COPIED_CODECS[compression]
        self._footer = _footer_like(row_type, compression)
        self._leaves = _leaves(self._footer, row_type)
        self._row_group_bytes = row_group_bytes
        self._groups: list[Value] = []
        self._indexed: list[tuple[Struct, _Leaf, list[StoredPage]]] = []
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._encoded_bytes = 0
        self._threads = threads
        self._encoding: deque[_Encoding] = deque()
        sink.write(MAGIC)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._row_group_bytes:
            self._flush()

    def take_over(self, rows: int, leaves: Sequence[Sequence[ChunkSource]]) -> None:
        """Add a row group from the chunks of each leaf column, concatenated.

        A dictionary must come first, and be the only one of its column.  Raises CorruptTable if
        pages contradict their footer or index.
        """
        self._flush()
        self._append_encoded()
        self._append(rows, leaves)

    def held(self, most_bytes: int) -> list[pa.RecordBatch]:
        """Return the rows that wait for their row group, and forget them.

        If they have more than `most_bytes`, they become a row group instead.
        """
        if self._waiting_bytes > most_bytes:
            self._flush()
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return waiting

    def bytes_written(self) -> int:
        written = int(self._sink.tell())
        ratio = written / self._encoded_bytes if self._encoded_bytes else FIRST_RATIO
        waiting = self._waiting_bytes + sum(e.bytes for e in self._encoding)
        return int(written + waiting * min(ratio, 1.0))

    def close(self) -> int:
        self._flush()
        self._append_encoded()
        self._write_indexes()
        changed: dict[int, Value] = {
            _ROWS: self._rows,
            _GROUPS: ThriftList(STRUCT, self._groups),
            _CREATED_BY: f"{CREATED_BY} version {VERSION}".encode(),
        }
        for field in self._footer:
            field.value = changed.get(field.id, field.value)
        footer = encode_struct(self._footer)
        self._sink.write(footer + len(footer).to_bytes(4, "little") + MAGIC)
        size = int(self._sink.tell())
        self._sink.close()
        return size

    def abort(self) -> None:
        self._waiting.clear()
        for encoding in self._encoding:
            encoding.leaves.cancel()
        self._encoding.clear()
        self._sink.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        rows = sum(b.num_rows for b in waiting)
        if self._threads is None:
            self._append_new(rows, size, self._encode(waiting, self._row_type))
            return
        leaves = self._threads.pool.submit(self._encode, waiting, self._row_type)
        self._encoding.append(_Encoding(rows, size, leaves))
        # The size of the first row group tells when the file is large enough.
        self._append_encoded(self._threads.count - 1 if self._encoded_bytes else 1)

    def _append_encoded(self, most: int = 0) -> None:
        """Append row groups in order until `most` of them are left to encode."""
        while len(self._encoding) > most:
            done = self._encoding.popleft()
            self._append_new(done.rows, done.bytes, done.leaves.result())

    def _append_new(self, rows: int, size: int, leaves: Sequence[ChunkSource]) -> None:
        self._encoded_bytes += size
        self._append(rows, [[leaf] for leaf in leaves])

    def _append(self, rows: int, leaves: Sequence[Sequence[ChunkSource]]) -> None:
        start = int(self._sink.tell())
        chunks = [
            self._chunk(leaf, sources) for leaf, sources in zip(self._leaves, leaves, strict=True)
        ]
        unpacked = sum(cast("int", field_value(_meta(chunk), _UNPACKED)) for chunk in chunks)
        self._groups.append(
            [
                Field(GROUP_COLUMNS, LIST, ThriftList(STRUCT, cast("list[Value]", chunks))),
                Field(2, I64, unpacked),
                Field(3, I64, rows),
                Field(5, I64, start),
                Field(6, I64, int(self._sink.tell()) - start),
                Field(7, I16, len(self._groups)),
            ]
        )
        self._rows += rows

    def _chunk(self, leaf: _Leaf, sources: Sequence[ChunkSource]) -> Struct:
        """Copy the pages and return their footer entry."""
        start = int(self._sink.tell())
        copied = _Copied()
        for source in sources:
            self._copy(leaf, source, copied)
        columns = [s.column for s in sources]
        encodings = sorted(ENCODINGS[e] for e in frozenset().union(*(c.encodings for c in columns)))
        first_data = columns[0].first_data
        path = ThriftList(BINARY, list(leaf.path))
        meta = [
            Field(1, I32, leaf.type),
            Field(2, LIST, ThriftList(I32, list(encodings))),
            Field(3, LIST, path),
            Field(4, I32, _CODEC_NUMBERS[self._codec]),
            Field(5, I64, copied.values),
            Field(_UNPACKED, I64, copied.uncompressed),
            Field(7, I64, int(self._sink.tell()) - start),
            Field(9, I64, start + first_data),
        ]
        if first_data:
            meta.append(Field(11, I64, start))
        statistics = _statistics(leaf, columns)
        if statistics:
            meta.append(Field(12, STRUCT, statistics))
        chunk = [Field(2, I64, 0), Field(CHUNK_META, STRUCT, meta)]
        if copied.pages:
            self._indexed.append((chunk, leaf, copied.pages))
        return chunk

    def _copy(self, leaf: _Leaf, source: ChunkSource, copied: _Copied) -> None:
        """Copy the pages of one source and note them."""
        column, at = source.column, int(self._sink.tell())
        if source.checked:
            assert column.values is not None  # it is a whole chunk
            assert column.uncompressed is not None
            self._sink.write(source.read(column.start, column.size))
            copied.add(column.values, column.uncompressed, at - column.start, column.pages)
            return
        headers: list[PageHeader] = []
        try:
            for data in checked_pages(source.read, column, leaf.name, headers):
                self._sink.write(data)
        except CorruptTable as e:
            e.file = e.file or source.path
            raise
        pages: Sequence[StoredPage] | None = column.pages
        if pages is None and leaf.flat:
            pages = _pages_of(headers, column.start)
        values, uncompressed = (
            sum(h.values or 0 for h in headers),
            sum(h.uncompressed for h in headers),
        )
        copied.add(values, uncompressed, at - column.start, pages)

    def _write_indexes(self) -> None:
        """Write the column indexes and then the offset indexes, as other writers do."""
        for chunk, leaf, pages in self._indexed:
            index = column_index(pages, leaf.type)
            if index is not None:
                self._write_index(chunk, _COLUMN_INDEX, index)
        for chunk, _, pages in self._indexed:
            self._write_index(chunk, _OFFSET_INDEX, offset_index(pages))
            chunk.sort(key=lambda field: field.id)

    def _write_index(self, chunk: Struct, fields: tuple[int, int], index: bytes) -> None:
        chunk += [Field(fields[0], I64, int(self._sink.tell())), Field(fields[1], I32, len(index))]
        self._sink.write(index)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """A row group that a thread encodes: its rows, and their bytes in memory."""

    rows: int
    bytes: int
    leaves: Future[list[ChunkSource]]


class _Copied:
    """What was copied of a column chunk; `pages` is None once the rows of some are unknown."""

    __slots__ = ("pages", "rows", "uncompressed", "values")

    def __init__(self) -> None:
        self.values = 0
        self.uncompressed = 0
        self.rows = 0
        self.pages: list[StoredPage] | None = []

    def add(
        self, values: int, uncompressed: int, moved: int, pages: Sequence[StoredPage] | None
    ) -> None:
        """Add pages that were moved by this number of bytes."""
        self.values += values
        self.uncompressed += uncompressed
        if pages is None or self.pages is None:
            self.pages = None
            return
        for page in pages:
            self.pages.append(page.moved(page.offset + moved, self.rows))
            self.rows += page.rows


def _pages_of(headers: Sequence[PageHeader], start: int) -> list[StoredPage]:
    """Return the data pages, without statistics, of a chunk with a value in each row."""
    pages, at = [], start
    for header in headers:
        if header.values is not None:
            pages.append(StoredPage(at, header.size, 0, header.values))
        at += header.size
    return pages


def _meta(chunk: Struct) -> Struct:
    return cast("Struct", field_value(chunk, CHUNK_META))


def encoded(
    batches: Sequence[pa.RecordBatch],
    columns: RowType,
    *,
    compression: str,
    zstd_level: int,
    dictionaries: bool = True,
) -> list[ChunkSource]:
    """Return the leaf columns of the rows, encoded as one row group in memory."""
    file = _in_memory(
        batches,
        columns,
        compression=compression,
        zstd_level=zstd_level,
        dictionaries=dictionaries,
    )
    source = pa.BufferReader(file)
    metadata = pq.read_metadata(source)
    footer = decode_struct(footer_bytes(source))
    pages = group_pages(
        source,
        [
            (metadata.num_rows, structs_of(group, GROUP_COLUMNS))
            for group in structs_of(footer, FILE_ROW_GROUPS)
        ],
    )
    groups = stored_groups(metadata, metadata, COPIED_CODECS[compression], pages)
    assert groups is not None  # for it is like itself
    (group,) = groups
    return [ChunkSource(column, reader(file), checked=True) for column in group.columns]


def layout_like(columns: RowType, compression: str) -> pq.FileMetaData:
    """Return the metadata of an empty file with these columns."""
    empty = _in_memory([], columns, compression=compression, zstd_level=1)
    return pq.read_metadata(pa.BufferReader(empty))


def reader(file: pa.Buffer) -> Read:
    """Return a function that reads bytes of an in-memory file without copying them."""

    def read(start: int, size: int) -> pa.Buffer:
        return file.slice(start, min(size, file.size - start))

    return read


def _in_memory(
    batches: Sequence[pa.RecordBatch],
    columns: RowType,
    *,
    compression: str,
    zstd_level: int,
    dictionaries: bool = True,
) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    writer = ParquetFileWriter(
        sink,
        columns,
        compression=compression,
        zstd_level=zstd_level,
        row_group_bytes=np.iinfo(np.int64).max,
        dictionaries=dictionaries,
    )
    for batch in batches:
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def _footer_like(row_type: RowType, compression: str) -> Struct:
    file = _in_memory([], row_type, compression=compression, zstd_level=1)
    return decode_struct(footer_of(file.to_pybytes()))


def _leaves(footer: Struct, row_type: RowType) -> list[_Leaf]:
    elements = iter(cast("list[Struct]", cast("ThriftList", field_value(footer, _SCHEMA)).items))

    def below(path: tuple[bytes, ...], children: int) -> Iterator[_Leaf]:
        for _ in range(children):
            element = next(elements)
            here = (*path, cast("bytes", field_value(element, _NAME)))
            count = field_value(element, _CHILDREN)
            if isinstance(count, int) and count > 0:
                yield from below(here, count)
            else:
                kind = cast("int", field_value(element, _TYPE))
                flat = len(here) == 1 and field_value(element, _REPETITION) != _REPEATED
                yield _Leaf(kind, here, types.get(here), flat)

    types: dict[tuple[bytes, ...], DataType]
    types = {(f.name.encode(),): f.type for f in row_type.fields if isinstance(f.type, AtomicType)}
    return list(below((), cast("int", field_value(next(elements), _CHILDREN))))


def _statistics(leaf: _Leaf, columns: Sequence[StoredColumn]) -> Struct:
    nulls, low, high = joined(columns, leaf.data_type)
    fields: Struct = [] if nulls is None else [Field(3, I64, nulls)]
    if low is not None and high is not None:
        store = _STORED.get(leaf.type)
        fields += [Field(5, BINARY, _plain(high, store)), Field(6, BINARY, _plain(low, store))]
    return fields


_STORED: Final[dict[int, Callable[[Raw], bytes]]] = {
    0: lambda v: bytes([bool(v)]),
    1: lambda v: np.int32(v).tobytes(),
    2: lambda v: np.int64(v).tobytes(),
    4: lambda v: np.float32(v).tobytes(),
    5: lambda v: np.float64(v).tobytes(),
}
"""The struct format of a physical type's values; other types store the bytes themselves."""


def _plain(value: Raw, store: Callable[[Raw], bytes] | None) -> bytes:
    return cast("bytes", value) if store is None else store(value)
