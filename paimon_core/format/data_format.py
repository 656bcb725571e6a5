"""Data files of any format: detects the format, reads batches and opens writers.

=========  ==========================================================================
parquet    the default; streamed out of row groups of any size
orc        streamed out of stripes; timestamps between 1678 and 2261 only
avro       rows through Python values: about a tenth of Parquet's speed
=========  ==========================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from paimon_core.errors import CorruptTable, PaimonError, UnsupportedFeature
from paimon_core.format.avro.reader import read_avro
from paimon_core.format.avro.writer import AvroFileWriter
from paimon_core.format.damage import DAMAGE, cause
from paimon_core.format.orc.reader import read_orc
from paimon_core.format.orc.writer import OrcFileWriter
from paimon_core.format.orc.zone import UTC
from paimon_core.format.parquet.assembler import ParquetAssembler
from paimon_core.format.parquet.reader import read_parquet
from paimon_core.format.parquet.row_window import PagedFile, paged_file
from paimon_core.format.parquet.writer import ROW_GROUP_BYTES, ParquetFileWriter
from paimon_core.format.row_range import rows_in
from paimon_core.io.file_io import FileIO, named_in_errors
from paimon_core.io.read_retry import not_a_file
from paimon_core.io.threads import Threads
from paimon_core.options import ORC_LEGACY_LTZ, ORC_TIME_ZONE, ZSTD_LEVEL, Option, Options
from paimon_core.paths import compacted_changelog
from paimon_core.types.arrow import arrow_schema
from paimon_core.types.data_types import RowType

BATCH_ROWS: Final = 65_536
NO_OPTIONS: Final = Options()
_WHOLE_BELOW: Final = 4 * 1024 * 1024
"""Remote files up to this size are fetched by one request instead of one per column."""
_OWN_COMPRESSION: Final = {
    "parquet": "parquet.compression",
    "orc": "orc.compress",
    "avro": "avro.codec",
}
"""Options of the formats themselves, which take precedence over `file.compression`."""
_PARQUET_ZSTD_LEVEL: Final[Option[int | None]] = Option(
    "parquet.compression.codec.zstd.level", int, None
)
_COMPACTED_PREFIX: Final = "cc-"
"""The prefix of the format name of changelog files that Flink joined."""
_COMPRESS_EXTENSIONS: Final = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")


_Writer = TypeVar("_Writer", bound="FormatWriter")


def format_of(file_name: str) -> str:
    """Return the format in a data file's name (Java: `DataFilePathFactory.formatIdentifier`)."""
    parts = file_name.lower().split(".")
    if len(parts) > 2 and parts[-1] in _COMPRESS_EXTENSIONS:
        return parts[-2]
    if len(parts) > 1:
        return parts[-1].removeprefix(_COMPACTED_PREFIX)
    raise CorruptTable("a data file's name does not show its format", file=file_name)


def read_batches(
    io: FileIO,
    path: str,
    fields: RowType,
    *,
    file_format: str | None = None,
    batch_rows: int = BATCH_ROWS,
    use_threads: bool = False,
    options: Options = NO_OPTIONS,
    rows: range | None = None,
    size: int | None = None,
    footers: dict[str, PagedFile] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of at most `batch_rows` (Avro: about as many).

    `fields` are the wanted columns, with the names and types of the file's schema; a column that
    the file lacks is null.  With no fields, batches only have a row count.  Only `rows` are
    yielded, if given; a Parquet file is decoded only where they are, others up to their end.
    `size` is the file's size in bytes, if known.  `footers` keeps the footers of Parquet files, by
    path, whose rows are read range by range.  Memory is bounded for files of any size.  Raises
    FileNotFoundError if the file is missing, CorruptTable if it cannot be decoded or has fewer
    rows.
    """
    file_format = file_format or format_of(path.rsplit("/", 1)[-1])
    if file_format not in ("parquet", "orc", "avro"):
        raise UnsupportedFeature(f"file format {file_format}", file=path)
    with decoding(path), open_data_file(io, path, size) as source:
        match file_format:
            case "parquet":
                yield from read_parquet(
                    source,
                    fields,
                    batch_rows=batch_rows,
                    use_threads=use_threads,
                    rows=rows,
                    footer=None if footers is None else partial(_kept, footers, path, source),
                )
            case "orc":
                orc = read_orc(
                    source,
                    fields,
                    batch_rows=batch_rows,
                    use_threads=use_threads,
                    legacy_ltz=options.value(ORC_LEGACY_LTZ),
                )
                yield from orc if rows is None else rows_in(orc, rows)
            case _:
                avro = read_avro(source, fields, batch_rows=batch_rows)
                yield from avro if rows is None else rows_in(avro, rows)


def _kept(footers: dict[str, PagedFile], path: str, source: pa.NativeFile) -> PagedFile:
    footers[path] = footers.get(path) or paged_file(source)
    return footers[path]


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Add the file name to errors; raise CorruptTable for errors in its content."""
    try:
        yield
    except PaimonError as e:
        e.file = e.file or path
        raise
    except pa.ArrowCancelled:
        raise  # also an Arrow exception, but not caused by the file
    except MemoryError as e:
        raise CorruptTable(
            f"a data file needs more memory than is available: {e}",
            file=path,
            next_step="run `caretaker verify --deep` on the table; if the file is sound, run again "
            "with a lower parallelism or with more memory",
        ) from e
    except DAMAGE as e:
        raise CorruptTable(f"a data file cannot be decoded: {cause(e)}", file=path) from e
    except (IsADirectoryError, NotADirectoryError) as e:
        raise not_a_file(path, e) from e
    except OSError as e:
        if e.errno is not None:
            e.filename = e.filename or path
            raise
        # Arrow's own errors about the content; system errors have a number.
        raise CorruptTable(f"a data file cannot be decoded: {e}", file=path) from e


def open_data_file(io: FileIO, path: str, size: int | None = None) -> pa.NativeFile:
    """Open the file for reading; for changelog files that Flink joined, only the addressed part.

    `size` is the file's size in bytes if metadata holds it (`FileIO.open_input`).  Raises
    CorruptTable if that part exceeds the file, or the file has another size: it is not the one that
    was committed.  Java does not find the footer of such a Parquet file.
    """
    piece = compacted_changelog(path)
    if piece is not None:
        with io.open_input(piece.path) as whole:
            end = piece.offset + piece.length
            part = whole.read_at(piece.length, piece.offset) if end <= whole.size() else b""
        if len(part) != piece.length:
            raise CorruptTable(
                f"a changelog file ends before byte {piece.offset + piece.length}", file=path
            )
        return pa.BufferReader(part)
    if io.parallelism > 1 and size is not None and size <= _WHOLE_BELOW:
        data = io.read_bytes(path)
        _check_size(path, len(data), size)
        return pa.BufferReader(data)
    source = io.open_input(path, size)
    found = source.size()
    if size is not None and found != size:
        source.close()
        _check_size(path, found, size)
    if io.parallelism > 1 and found <= _WHOLE_BELOW:
        with source:
            return pa.BufferReader(source.read_buffer())
    return source


def _check_size(path: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise CorruptTable(
            f"a data file has {found:,} bytes where its metadata says {wanted:,}", file=path
        )


class FormatWriter(Protocol):
    """A file being written.  Batches have the columns of the row type it was opened with."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; they may be buffered in memory."""

    def bytes_written(self) -> int:
        """Return the file's bytes so far, with an estimate for buffered rows."""

    def close(self) -> int:
        """Finish the file and return its size in bytes."""

    def abort(self) -> None:
        """Abandon the file; the caller must delete what is left of it."""


def open_writer(
    io: FileIO,
    path: str,
    row_type: RowType,
    *,
    file_format: str,
    compression: str,
    options: Options,
    row_group_bytes: int = ROW_GROUP_BYTES,
) -> FormatWriter:
    """Open a writer for a new file of these columns.

    `row_group_bytes` limits the memory of a Parquet or ORC writer, in bytes of Arrow data.  Raises
    UnsupportedFeature for a format or compression that Java does not write, and for types that the
    format cannot hold (Avro: TIMESTAMP beyond microseconds; Avro and Parquet: rows without fields).
    """
    if file_format != "orc":
        _check_fields(row_type, file_format)
    compression = compression_of(file_format, compression, options)
    zstd_level = options.value(ZSTD_LEVEL)
    make: Callable[[pa.NativeFile], FormatWriter]
    match file_format:
        case "parquet":
            make = partial(
                ParquetFileWriter,
                row_type=row_type,
                compression=compression,
                zstd_level=parquet_zstd_level(options),
                row_group_bytes=row_group_bytes,
            )
        case "orc":
            make = partial(
                OrcFileWriter,
                row_type=row_type,
                compression=compression,
                zstd_level=zstd_level,
                stripe_bytes=row_group_bytes,
                ltz_zone=options.value(ORC_TIME_ZONE) if options.value(ORC_LEGACY_LTZ) else UTC,
            )
        case "avro":
            make = partial(
                AvroFileWriter,
                row_type=row_type,
                compression=compression,
                zstd_level=zstd_level,
                # The marker must be unique per file, like the name.
                sync=hashlib.md5(path.encode(), usedforsecurity=False).digest(),
            )
        case _:
            raise UnsupportedFeature(f"file format {file_format}", file=path)
    return _opened(io, path, make)


def open_assembler(
    io: FileIO,
    path: str,
    row_type: RowType,
    *,
    compression: str,
    options: Options,
    row_group_bytes: int,
    threads: Threads | None = None,
) -> ParquetAssembler:
    """Open a writer for a new Parquet file that copies chunks of others.

    `threads` encode row groups while rows are added.
    """
    make = partial(
        ParquetAssembler,
        row_type=row_type,
        compression=compression,
        zstd_level=parquet_zstd_level(options),
        row_group_bytes=row_group_bytes,
        threads=threads,
    )
    return _opened(io, path, make)


def compression_of(file_format: str, compression: str, options: Options) -> str:
    """Return the compression of a writer, which options of the format itself may override."""
    return options.get(_OWN_COMPRESSION.get(file_format, ""), compression)


def parquet_zstd_level(options: Options) -> int:
    """Return the Zstandard level of Parquet files."""
    own = options.value(_PARQUET_ZSTD_LEVEL)
    return options.value(ZSTD_LEVEL) if own is None else own


def _check_fields(row_type: RowType, file_format: str) -> None:
    """UnsupportedFeature for a column whose type is or contains a row without fields."""
    for field in arrow_schema(row_type):
        if _has_empty_row(field.type):
            raise UnsupportedFeature(
                f"rows without fields in {file_format} files",
                f"column {field.name} is or contains a ROW without fields, which {file_format} files "
                "cannot hold",
                next_step="drop the column, or add a field to the ROW",
            )


def _has_empty_row(data_type: pa.DataType) -> bool:
    fields = data_type.num_fields
    if pa.types.is_struct(data_type) and not fields:
        return True
    return any(_has_empty_row(data_type.field(i).type) for i in range(fields))


def _opened(io: FileIO, path: str, make: Callable[[pa.NativeFile], _Writer]) -> _Writer:
    sink = io.open_output(path)
    try:
        with named_in_errors(path):
            return make(sink)
    except BaseException:
        sink.close()
        io.delete(path)
        raise
