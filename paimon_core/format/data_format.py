"""Data files of any format: which format a file has, and its rows in batches.

=========  ==========================================================================
parquet    the default; streamed out of row groups of any size
orc        streamed out of stripes; timestamps between 1678 and 2261 only
avro       rows through Python values: about a tenth of Parquet's speed
=========  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from paimon_core.errors import CorruptTable, PaimonError, UnsupportedFeature
from paimon_core.format.avro_reader import read_avro
from paimon_core.format.orc_reader import read_orc
from paimon_core.format.parquet_reader import read_parquet
from paimon_core.io.file_io import FileIO
from paimon_core.types.data_types import RowType

BATCH_ROWS: Final = 65_536
_WHOLE_BELOW: Final = 4 * 1024 * 1024
"""Remote files up to this size are fetched by one request instead of one a column."""
_COMPRESS_EXTENSIONS: Final = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")


def format_of(file_name: str) -> str:
    """The format that a data file's name tells (Java: `DataFilePathFactory.formatIdentifier`)."""
    parts = file_name.lower().split(".")
    if len(parts) > 2 and parts[-1] in _COMPRESS_EXTENSIONS:
        return parts[-2]
    if len(parts) > 1:
        return parts[-1]
    raise CorruptTable("a data file's name does not tell its format", file=file_name)


def read_batches(
    io: FileIO,
    path: str,
    fields: RowType,
    *,
    file_format: str | None = None,
    batch_rows: int = BATCH_ROWS,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in batches of at most `batch_rows` (Avro: about as many).

    `fields` are the columns wanted, under the names that they have in the file and with the types
    that the file's schema gives them; a column that the file lacks is null.  An empty row gives
    batches that carry their row count only.  Memory is bounded however large the file is.
    FileNotFoundError if the file is gone, CorruptTable if it cannot be decoded.
    """
    file_format = file_format or format_of(path.rsplit("/", 1)[-1])
    if file_format not in ("parquet", "orc", "avro"):
        raise UnsupportedFeature(f"file format {file_format}", file=path)
    try:
        with _open(io, path) as source:
            match file_format:
                case "parquet":
                    yield from read_parquet(
                        source, fields, batch_rows=batch_rows, use_threads=use_threads
                    )
                case "orc":
                    yield from read_orc(
                        source, fields, batch_rows=batch_rows, use_threads=use_threads
                    )
                case _:
                    yield from read_avro(source, fields, batch_rows=batch_rows)
    except PaimonError as e:
        e.file = e.file or path
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise CorruptTable(f"a data file cannot be decoded: {e}", file=path) from e
    except OSError as e:
        if e.errno is not None:
            raise
        # Arrow's own complaints about what it read; those of the system carry a number.
        raise CorruptTable(f"a data file cannot be decoded: {e}", file=path) from e


def _open(io: FileIO, path: str) -> pa.NativeFile:
    source = io.open_input(path)
    if io.parallelism > 1 and source.size() <= _WHOLE_BELOW:
        with source:
            return pa.BufferReader(source.read_buffer())
    return source
