"""Parquet files opened with bounds on what their footer may claim.

A footer begins every list with its length, and Arrow makes room for the elements before it reads
them.  An element takes bytes of the file, so the file's size bounds every honest length.
"""

from __future__ import annotations

from typing import Any, Final, cast

import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable
from paimon_core.format.thrift_compact import Struct, ThriftList, decode_struct, field_value

TAIL: Final = 8
"""Bytes after the footer: its length and the magic number."""
# Field numbers of parquet.thrift.
FILE_SCHEMA, FILE_ROW_GROUPS = 2, 4
ELEMENT_TYPE = 1
GROUP_COLUMNS = 1
CHUNK_META = 3
META_TYPE, META_ENCODINGS, META_CODEC = 1, 2, 4
_CODECS: Final = range(8)
_ENCODINGS: Final = range(10)
_LEAST_ELEMENT_BYTES: Final = 64
"""Bytes of the file for each column of a row group: its footer entry and its page."""
_LEAST_LIMIT: Final = 10_000
_MOST_ELEMENTS: Final = 500_000
_MOST_TEXT: Final = 100 * 1024 * 1024


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """The file, its footer read; `options` are those of `pyarrow.parquet.ParquetFile`.

    Pages that come with a checksum are held against it: that takes 4 % of the time of reading
    zstd, up to 14 % with snappy, and what compaction reads it would otherwise make permanent.
    ArrowException or OSError without a number if footer or pages cannot be read.
    """
    size = source.size()
    return pq.ParquetFile(
        source,
        page_checksum_verification=True,
        thrift_string_size_limit=max(_LEAST_LIMIT, min(_MOST_TEXT, size)),
        thrift_container_size_limit=max(
            _LEAST_LIMIT, min(_MOST_ELEMENTS, size // _LEAST_ELEMENT_BYTES)
        ),
        **options,
    )


def read_footer(source: Any) -> pq.FileMetaData:
    """What the footer says, for its schema and counts; errors as in `open_parquet`."""
    return open_parquet(source).metadata


def read_checked_footer(source: Any) -> pq.FileMetaData:
    """The same, for whoever looks at the column chunks.

    CorruptTable if a chunk has another type than its column, or a codec or encoding that does not
    exist: asked for such a chunk, Arrow ends the process.
    """
    _check_chunks(decode_struct(footer_bytes(source)))
    source.seek(0)
    return read_footer(source)


def footer_bytes(source: Any) -> bytes:
    """The footer as it lies in the file; CorruptTable if the file is shorter than it says."""
    size = source.size()
    source.seek(max(0, size - TAIL))
    length = int.from_bytes(cast("bytes", source.read(TAIL))[:4], "little")
    if not 0 < length <= size - TAIL:
        raise CorruptTable(f"a Parquet footer of {length:,} bytes in a file of {size:,}")
    source.seek(size - TAIL - length)
    return cast("bytes", source.read(length))


def structs_of(parent: Struct, number: int) -> list[Struct]:
    """The structs in a list field; CorruptTable if the field holds anything else."""
    value = field_value(parent, number)
    if isinstance(value, ThriftList) and all(isinstance(item, list) for item in value.items):
        return cast("list[Struct]", value.items)
    raise CorruptTable(f"field {number} of a Parquet footer is not a list of structures")


def _check_chunks(metadata: Struct) -> None:
    elements = structs_of(metadata, FILE_SCHEMA)
    types = [t for t in (field_value(e, ELEMENT_TYPE) for e in elements) if t is not None]
    for group in structs_of(metadata, FILE_ROW_GROUPS):
        chunks = [field_value(c, CHUNK_META) for c in structs_of(group, GROUP_COLUMNS)]
        found = [field_value(c, META_TYPE) if isinstance(c, list) else None for c in chunks]
        if found != types:
            raise CorruptTable("the column chunks of a Parquet file are not those of its schema")
        for chunk in cast("list[Struct]", chunks):
            _check_numbers(chunk)


def _check_numbers(chunk: Struct) -> None:
    codec, encodings = field_value(chunk, META_CODEC), field_value(chunk, META_ENCODINGS)
    known = (
        isinstance(codec, int)
        and codec in _CODECS
        and isinstance(encodings, ThriftList)
        and all(isinstance(e, int) and e in _ENCODINGS for e in encodings.items)
    )
    if not known:
        raise CorruptTable("a column chunk of a Parquet file has an unknown codec or encoding")
