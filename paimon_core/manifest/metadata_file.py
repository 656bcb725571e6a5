"""Manifests, manifest lists and index manifests as files of any format.

Nearly all tables use Avro; `manifest.format` may be ORC or Parquet.  A reader detects the format
from the file's first bytes, because the option may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from paimon_core.errors import CorruptTable, UnsupportedFeature
from paimon_core.format.avro.container import MAGIC, Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.format.damage import DAMAGE_OF_STREAMS, cause
from paimon_core.io.file_io import FileIO, delete_abandoned
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.avro_codec import (
    RecordWriter,
    SeenRecords,
    avro_codec,
    known_and_unknown,
    record_encoder,
)
from paimon_core.manifest.unknown_columns import check_columns
from paimon_core.manifest.unknown_fields import (
    UnknownFields,
    UnknownLayout,
    unknown_layout,
    valued,
)
from paimon_core.options import MANIFEST_COMPRESSION, MANIFEST_FORMAT, ZSTD_LEVEL, Options
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
_BATCH_RECORDS: Final = 1000


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[T]):
    """A kind of metadata file: its row type, and the conversion between values and records.

    `from_record` raises UnsupportedFeature for an unknown version.  `unknown` returns the unknown
    fields of a value, which `to_record` leaves out.
    """

    row_type: RowType
    from_record: Callable[[Mapping[str, Any], UnknownFields], T]
    to_record: Callable[[T], dict[str, Any]]
    unknown: Callable[[T], UnknownFields]


def read_metadata(
    io: FileIO,
    path: str,
    kind: RecordKind[T],
    decode_avro: Callable[[Container], list[T]] | None = None,
) -> list[T]:
    """Return the values in the file in order; FileNotFoundError if it is missing.

    Otherwise as `decode_metadata`.
    """
    return decode_metadata(read_whole(io, path), path, kind, decode_avro)


def decode_metadata(
    data: bytes,
    path: str,
    kind: RecordKind[T],
    decode_avro: Callable[[Container], list[T]] | None = None,
    seen: SeenRecords[T] | None = None,
) -> list[T]:
    """Return the values in a file's content in order; `decode_avro` is an optional faster decoder.

    `seen` are records of files that were read before (`known_and_unknown`).

    Raises CorruptTable, naming the file at `path`, if it cannot be decoded; UnsupportedFeature for
    an unknown version or format.
    """
    try:
        if data.startswith(MAGIC):
            container = Container(BytesIO(data))
            if decode_avro is not None:
                return decode_avro(container)
            return known_and_unknown(container, kind.row_type, kind.from_record, seen)
        return [kind.from_record(r, ()) for r in _columnar_records(data, kind.row_type)]
    except (UnsupportedFeature, CorruptTable) as e:
        e.file = path
        raise
    except DAMAGE_OF_STREAMS as e:
        raise CorruptTable(f"cannot read metadata file {path}: {cause(e)}", file=path) from e


class Sink(Protocol[T_contra]):
    """A metadata file being written."""

    @property
    def size(self) -> int:
        """Return its approximate size in bytes."""

    def add(self, value: T_contra) -> None:
        """Append one value."""

    def close(self) -> int:
        """Finish the file and return its size in bytes."""

    def abort(self) -> None:
        """Abandon the file and delete it."""


def open_sink(
    io: FileIO,
    path: str,
    kind: RecordKind[T],
    options: Options,
    layout: UnknownLayout | None,
    encode_avro: Callable[[T], bytes] | None = None,
) -> Sink[T]:
    """Open a new metadata file in the table's format and compression; errors as for data files.

    `layout` declares the unknown fields of the values that will be added (`layout_of`).
    """
    if options.value(MANIFEST_FORMAT) == "avro":
        return _AvroSink(io, path, kind, options, layout, encode_avro)
    return _ColumnarSink(io, path, kind, options)


def layout_of(kind: RecordKind[T], values: Iterable[T]) -> UnknownLayout | None:
    """Return the layout of the unknown fields of these values; None if they have none."""
    return unknown_layout((kind.unknown(v) for v in values), file_schema(kind.row_type))


def write_metadata(
    io: FileIO, path: str, kind: RecordKind[T], values: Iterable[T], options: Options
) -> int:
    """Write the values to a new file and return its size in bytes; on failure no file remains."""
    values = list(values)
    sink = open_sink(io, path, kind, options, layout_of(kind, values))
    try:
        for value in values:
            sink.add(value)
        return sink.close()
    except BaseException:
        sink.abort()
        raise


def _unwritable(path: str, error: Exception) -> CorruptTable:
    """Return the error for values that no file can hold, such as numbers of more than 64 bits."""
    return CorruptTable(
        f"cannot write metadata file {path}: {cause(error)}",
        file=path,
        next_step="run `caretaker verify` on the table: other metadata has numbers that no table "
        "reaches",
    )


class _AvroSink(Generic[T]):
    def __init__(
        self,
        io: FileIO,
        path: str,
        kind: RecordKind[T],
        options: Options,
        layout: UnknownLayout | None,
        encode: Callable[[T], bytes] | None,
    ) -> None:
        codec = avro_codec(options.get("avro.codec", options.value(MANIFEST_COMPRESSION)))
        self._io = io
        self._path = path
        schema = file_schema(kind.row_type) if layout is None else layout.schema()
        self._writer = RecordWriter(schema, codec=codec, level=options.value(ZSTD_LEVEL))
        self._unknown = kind.unknown
        self._layout = layout
        if encode is None:
            encode_record, to_record = record_encoder(kind.row_type), kind.to_record
            self._encode: Callable[[T], bytes] = lambda value: encode_record(to_record(value))
        else:
            self._encode = encode

    @property
    def size(self) -> int:
        return self._writer.size

    def add(self, value: T) -> None:
        try:
            record = self._encode(value)
        except (ValueError, OverflowError) as e:
            raise _unwritable(self._path, e) from e
        if self._layout is not None:
            record = self._layout.extended(record, self._unknown(value))
        self._writer.add(record)

    def close(self) -> int:
        content = self._writer.finish()
        self._io.write_bytes(self._path, content)
        return len(content)

    def abort(self) -> None:
        delete_abandoned(self._io, [self._path])


class _ColumnarSink(Generic[T]):
    def __init__(self, io: FileIO, path: str, kind: RecordKind[T], options: Options) -> None:
        self._io = io
        self._path = path
        self._kind = kind
        self._schema = arrow_schema(kind.row_type)
        self._pending: list[dict[str, Any]] = []
        from paimon_core.format.data_format import open_writer  # noqa: PLC0415 - fast start

        self._writer = open_writer(
            io,
            path,
            kind.row_type,
            file_format=options.value(MANIFEST_FORMAT),
            compression=options.value(MANIFEST_COMPRESSION),
            options=options,
        )

    @property
    def size(self) -> int:
        return self._writer.bytes_written()

    def add(self, value: T) -> None:
        if lost := valued(self._kind.unknown(value)):
            raise UnsupportedFeature(
                f"the metadata field {lost[0]} in manifests that are not Avro", file=self._path
            )
        self._pending.append(self._kind.to_record(value))
        if len(self._pending) == _BATCH_RECORDS:
            self._flush()

    def close(self) -> int:
        if self._pending:
            self._flush()
        return self._writer.close()

    def abort(self) -> None:
        with suppress(OSError):
            self._writer.abort()
        delete_abandoned(self._io, [self._path])

    def _flush(self) -> None:
        try:
            batch = pa.RecordBatch.from_pylist(self._pending, schema=self._schema)
        except (ValueError, OverflowError) as e:
            raise _unwritable(self._path, e) from e
        self._writer.write(batch)
        self._pending = []


def _columnar_records(data: bytes, row_type: RowType) -> Iterator[dict[str, Any]]:
    source = pa.BufferReader(data)
    check_columns(data, arrow_schema(row_type))
    if data.startswith(b"ORC"):
        from paimon_core.format.orc.reader import read_orc  # noqa: PLC0415 - fast start

        batches = read_orc(
            source, row_type, batch_rows=_BATCH_RECORDS, use_threads=False, legacy_ltz=False
        )
    elif data.startswith(b"PAR1"):
        from paimon_core.format.parquet.reader import read_parquet  # noqa: PLC0415 - fast start

        batches = read_parquet(source, row_type, batch_rows=_BATCH_RECORDS, use_threads=False)
    else:
        raise ValueError(f"neither Avro nor ORC nor Parquet: it begins with {data[:8]!r}")
    for batch in batches:
        for record in batch.to_pylist():
            yield _with_plain_times(record)


def _with_plain_times(record: dict[str, Any]) -> dict[str, Any]:
    # Avro records hold milliseconds where Arrow has dates.
    for name, value in record.items():
        if isinstance(value, dict):
            _with_plain_times(value)
        elif isinstance(value, datetime):
            since = value.replace(tzinfo=None) - datetime(1970, 1, 1)  # noqa: DTZ001 - wall clock
            record[name] = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return record
