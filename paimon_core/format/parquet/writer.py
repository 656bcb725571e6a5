"""Writes Parquet files like Java Paimon (Java: `format/parquet/*`).

The schema carries field ids, decimals up to 18 digits are integers, TIMESTAMP beyond microseconds
is INT96.  Differences from Java's files that the format allows:

- several row groups instead of one, so that the memory of writing is bounded;
- a dictionary only where a sample shows a benefit;
- bounds of FLOAT and DOUBLE only in row groups without NaN: Arrow ignores NaN in them, and an
  engine that sorts it above all numbers would skip rows.  Such files do not have Arrow's name in
  `created_by`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.arrow_conversion import with_children, without_validity
from paimon_core.format.column_stats import has_minimum, ordered_bounds
from paimon_core.format.dictionary_choice import dictionary_columns, leaves
from paimon_core.format.parquet.chunks import ARROW, ENCODED_BY, value_of
from paimon_core.format.parquet.footer import drop_bounds, with_changed_footer, with_writer
from paimon_core.format.parquet.int96 import RAW_TYPE, from_timestamps, with_int96
from paimon_core.format.parquet.thrift_compact import Struct
from paimon_core.types.arrow import arrow_schema, stored_schema
from paimon_core.types.data_types import FLOAT_TYPES, AtomicType, RowType, TypeRoot

ROW_GROUP_BYTES: Final = 48 * 1024 * 1024
"""The Arrow bytes that are collected for a row group; about half of that on disk."""
PAGE_ROWS: Final = 20_000
"""The rows of a page, as in Java: the pages of most columns end at the same rows."""
FIRST_RATIO: Final = 0.5
"""The estimated bytes on disk per Arrow byte before anything is written."""
_LONGEST_BOUND: Final = 4096
"""The bytes of a minimum or maximum beyond which Arrow leaves it out of the footer."""
# BROTLI needs a library that no bundle of Java Paimon contains; users install it themselves.
# Arrow has no LZO.
_CODECS: Final = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "none": "none",
    "uncompressed": "none",
}


class ParquetFileWriter:
    """`FormatWriter` of one Parquet file."""

    def __init__(
        self,
        sink: pa.NativeFile,
        row_type: RowType,
        *,
        compression: str,
        zstd_level: int,
        row_group_bytes: int = ROW_GROUP_BYTES,
        dictionaries: bool = True,
    ) -> None:
        """Without `dictionaries`, no column gets one, so that its pages stand for themselves."""
        codec = _CODECS.get(compression.lower())
        if codec is None:
            raise UnsupportedFeature(f"compression {compression} of Parquet files")
        self._codec = codec
        self._level = zstd_level if codec == "zstd" else None
        self._schema = arrow_schema(row_type)
        stored = stored_schema(row_type)
        self._file_schema = pa.schema([f.with_type(_file_type(f.type)) for f in stored])
        self._changed = [
            i
            for i, (f, g) in enumerate(zip(self._schema, self._file_schema, strict=True))
            if not f.type.equals(g.type)
        ]
        self._has_int96 = not self._file_schema.equals(stored)
        self._ordered = _ordered(self._file_schema)
        self._floats = [f.name for f in self._file_schema if pa.types.is_floating(f.type)]
        self._with_nan: list[set[str]] = []
        """The FLOAT and DOUBLE columns that hold NaN, for each row group."""
        ordered = set(self._ordered)  # a table may have thousands of columns
        self._types = {
            f.name: f.type
            for f in row_type
            if f.name in ordered and isinstance(f.type, AtomicType) and _has_known_bounds(f.type)
        }
        self._long: dict[tuple[int, str], tuple[Any, Any] | None] = {}
        """Bounds of texts that Arrow leaves out of the footer, by row group and column."""
        self._metadata: list[pq.FileMetaData] = []
        self._dictionaries = dictionaries
        self._sink = sink
        self._tail = _Tail(sink) if self._has_int96 or self._floats else None
        self._writer: pq.ParquetWriter | None = None
        self._row_group_bytes = row_group_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._encoded_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= self._row_group_bytes:
            self._flush()

    def bytes_written(self) -> int:
        written = self._sink.tell()
        ratio = written / self._encoded_bytes if self._encoded_bytes else FIRST_RATIO
        return int(written + self._waiting_bytes * ratio)

    def close(self) -> int:
        self._flush()
        # Schema.empty_table imports pandas.
        writer = self._writer or self._open(pa.Table.from_batches([], self._schema))
        if self._tail is None:
            writer.close()
        else:
            self._tail.hold()
            writer.close()
            self._sink.write(self._corrected(self._tail.held()))
        size = int(self._sink.tell())
        self._sink.close()
        return size

    @property
    def bounded(self) -> Collection[str]:
        """Return the columns of which `bounds` tells the statistics."""
        return self._types.keys()

    def bounds(self) -> Iterator[tuple[str, int, Sequence[Any] | None]]:
        """Yield (column, nulls, bounds) for the row groups of the closed file, from its footer.

        As `StatsCollector.add_known` takes them; Java takes them from there, too.
        """
        (metadata,) = self._metadata
        columns = [f.name for f in self._file_schema for _ in leaves("", pa.nulls(0, f.type))]
        wanted = [(i, name) for i, name in enumerate(columns) if name in self._types]
        for number, group in enumerate(map(metadata.row_group, range(metadata.num_row_groups))):
            for leaf, name in wanted:
                chunk = group.column(leaf)
                statistics = chunk.statistics
                bounds: Sequence[Any] | None = ()
                if (number, name) in self._long:
                    bounds = self._long[number, name]
                elif statistics.has_min_max:
                    stored = (statistics.min_raw, statistics.max_raw)
                    bounds = [value_of(raw, self._types[name]) for raw in stored]
                    bounds = None if None in bounds else bounds
                elif statistics.null_count < chunk.num_values:
                    bounds = None
                yield name, statistics.null_count, bounds

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # or its destructor would write a footer
        self._waiting.clear()
        self._sink.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        columns = pa.Table.from_batches(self._waiting)
        table = pa.table(columns.columns, names=self._schema.names)
        self._waiting = []
        for i in self._changed:
            field = self._file_schema.field(i)
            chunks = [_to_file(c, field.type) for c in table.column(i).chunks]
            table = table.set_column(i, field, pa.chunked_array(chunks, field.type))
        if not table.schema.equals(self._file_schema):
            table = table.cast(self._file_schema)
        writer = self._writer or self._open(table)
        writer.write_table(table, row_group_size=table.num_rows)
        for name in self._types:
            column = table.column(name)
            if pa.types.is_string(column.type) and _longest(column) > _LONGEST_BOUND:
                self._long[len(self._with_nan), name] = ordered_bounds(column)
        self._with_nan.append({name for name in self._floats if _has_nan(table.column(name))})
        self._encoded_bytes += self._waiting_bytes
        self._waiting_bytes = 0

    def _corrected(self, tail: bytes) -> bytes:
        """Return the end of the file without what is wrong about INT96 and NaN."""

        def correct(footer: Struct) -> None:
            if self._has_int96:
                with_int96(footer)
            drop_bounds(footer, self._with_nan)

        if self._has_int96 or any(self._with_nan):
            tail = with_changed_footer(tail, correct)
        created_by = self._metadata[0].created_by or ""
        return with_writer(tail, created_by, created_by.replace(ARROW, ENCODED_BY))

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        self._writer = pq.ParquetWriter(
            self._tail or self._sink,
            self._file_schema,
            compression=self._codec,
            compression_level=self._level,
            use_dictionary=(self._dictionaries and dictionary_columns(first)) or False,
            write_statistics=self._ordered or False,
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            write_page_checksum=True,
            write_page_index=True,
            max_rows_per_page=PAGE_ROWS,
            metadata_collector=self._metadata,
        )
        return self._writer


class _Tail:
    """A file object that passes on bytes until `hold`, and keeps the rest."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    def hold(self) -> None:
        self._held = bytearray()

    def held(self) -> bytes:
        return bytes(self._held or b"")

    def write(self, data: Any) -> int:
        if self._held is None:
            self._sink.write(data)
        else:
            self._held += data
        return len(data)

    def tell(self) -> int:
        return int(self._sink.tell()) + len(self._held or b"")

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The sink is closed by its owner."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def _has_known_bounds(data_type: AtomicType) -> bool:
    """Return whether the footer tells minimum and maximum of such a column, as they are."""
    # It leaves out NaN and the sign of zeros, and does not tell bytes from texts.
    not_told = (*FLOAT_TYPES, TypeRoot.BLOB)
    return data_type.root not in not_told and has_minimum(data_type, "parquet")


def _longest(column: pa.ChunkedArray) -> int:
    """Return the bytes of the longest text."""
    return pc.max(pc.binary_length(column)).as_py() or 0


def _has_nan(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_nan(column)).as_py())


def _ordered(schema: pa.Schema) -> list[str]:
    """Return the paths of the leaf columns that get statistics."""
    paths = [
        (path, leaf.type.equals(RAW_TYPE) or (pa.types.is_floating(leaf.type) and path != f.name))
        for f in schema
        for path, leaf in leaves(f.name, pa.nulls(0, f.type))
    ]
    # Arrow takes paths as text: a field `b` of a column `a` has that of a column `a.b`.
    unordered = {path for path, is_unordered in paths if is_unordered}
    return [path for path, _ in paths if path not in unordered]


def _file_type(t: pa.DataType) -> pa.DataType:
    """Return the type with nanosecond timestamps as 12 bytes, at any depth."""
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_file_type(f.type)) for f in t])
    if pa.types.is_map(t):
        key, item = t.key_field, t.item_field
        return pa.map_(key.with_type(_file_type(key.type)), item.with_type(_file_type(item.type)))
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_file_type(t.value_type)))
    return RAW_TYPE if pa.types.is_timestamp(t) and t.unit == "ns" else t


def _to_file(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert the column to its stored form.  Nulls in NOT NULL parts must be below other nulls."""
    if array.type.equals(target):
        return array
    if pa.types.is_struct(target):
        parts = [(array.field(i), f) for i, f in enumerate(target)]
    elif pa.types.is_map(target):
        parts = [(array.keys, target.key_field), (array.items, target.item_field)]
    elif pa.types.is_list(target):
        parts = [(array.values, target.value_field)]
    else:
        return from_timestamps(array)
    return with_children(array, target, [_part(child, field) for child, field in parts])


def _part(array: pa.Array, field: pa.Field) -> pa.Array:
    array = _to_file(array, field.type)
    return array if field.nullable or not array.null_count else without_validity(array)
