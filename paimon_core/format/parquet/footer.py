"""Opens Parquet files with limits on the claims of their footer, and changes footers.

In a footer, every list starts with its length, and Arrow allocates room for the elements before it
reads them.  Every element takes bytes of the file, so the file size limits every valid length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_core.errors import CorruptTable
from paimon_core.format.parquet.thrift_compact import (
    Struct,
    ThriftList,
    Value,
    decode_struct,
    encode_struct,
    field_value,
)

MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""The bytes after the footer: its length and the magic number."""
# Field numbers of parquet.thrift.
FILE_SCHEMA, FILE_ROW_GROUPS = 2, 4
ELEMENT_TYPE, ELEMENT_LENGTH = 1, 2
ELEMENT_REPETITION, ELEMENT_CHILDREN = 3, 5
GROUP_COLUMNS = 1
CHUNK_META = 3
META_TYPE, META_ENCODINGS, META_CODEC, META_STATISTICS = 1, 2, 4, 12
REPEATED: Final = 2
_REQUIRED: Final = 0
_META_PATH: Final = 3
_COLUMN_INDEX: Final = (6, 7)
_SIZES: Final = 16
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
_BOUNDS: Final = (1, 2, 5, 6)
_BYTE_ARRAY: Final = 6
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""The bytes of a value by physical type, for types of fixed width."""
_CHUNK_FIELDS: Final = (2, CHUNK_META)
_META_FIELDS: Final = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
# Fields beyond these that Java and Arrow write: the places of the page indexes, size statistics.
_USUAL_CHUNK_FIELDS: Final = frozenset((*_CHUNK_FIELDS, 4, 5, 6, 7))
_USUAL_META_FIELDS: Final = frozenset((*_META_FIELDS, _SIZES))
_CODECS: Final = range(8)
_ENCODINGS: Final = range(10)
_LEAST_ELEMENT_BYTES: Final = 64
"""The minimum file bytes per column of a row group: its footer entry and its page."""
_LEAST_LIMIT: Final = 10_000
KEPT_FOOTERS: Final = 32
"""Decoded footers that a process keeps: compactions and slices open files several times."""
KEPT_BYTES: Final = 32 * 1024
"""Larger footers are not kept: decoded, they take about fifty times their bytes."""
_MOST_ELEMENTS: Final = 500_000
_MOST_TEXT: Final = 100 * 1024 * 1024


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """Open the file and read its footer; `options` are those of `pyarrow.parquet.ParquetFile`.

    Page checksums are verified if present: this takes 4 % of the read time with zstd, up to 14 %
    with snappy, but otherwise compaction would make damage permanent.  Raises ArrowException, or
    OSError without a number, if footer or pages cannot be read.
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
    """Read the footer for its schema and counts; errors as in `open_parquet`."""
    return open_parquet(source).metadata


def read_checked_footer(source: Any) -> pq.FileMetaData:
    """Read the footer for readers of column chunks.

    Arrow crashes the process on a chunk with contradictory metadata.  So CorruptTable is raised if
    a chunk has another type than its column, an unknown codec or encoding, or statistics of
    another type; and Arrow gets only the fields of a chunk that Java and Arrow write.
    """
    return checked_footer(source)[0]


def checked_footer(source: Any) -> tuple[pq.FileMetaData, list[list[Struct]]]:
    """Return the footer as `read_checked_footer` does, and the chunks of each row group as stored.

    The latter hold the places of the page indexes, too.  They are shared: do not change them.
    """
    data = footer_bytes(source)
    source.seek(0)
    return _recent_footer(data) if len(data) <= KEPT_BYTES else _decoded_footer(data)


def _decoded_footer(data: bytes) -> tuple[pq.FileMetaData, list[list[Struct]]]:
    metadata = decode_struct(data)
    stored = [
        [list(chunk) for chunk in structs_of(group, GROUP_COLUMNS)]
        for group in structs_of(metadata, FILE_ROW_GROUPS)
    ]
    is_usual = all(map(_is_usual, chain.from_iterable(stored)))
    check_chunks(metadata)
    # Encoding takes longer than decoding.
    return (_parsed(data) if is_usual else metadata_of(metadata)), stored


_recent_footer = lru_cache(maxsize=KEPT_FOOTERS)(_decoded_footer)


def metadata_of(footer: Struct) -> pq.FileMetaData:
    """Parse a footer with Arrow; ArrowException, or OSError without a number, if it is invalid."""
    return _parsed(encode_struct(footer))


def _parsed(footer: bytes) -> pq.FileMetaData:
    whole = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    return read_footer(pa.BufferReader(whole))


def _is_usual(chunk: Struct) -> bool:
    """Return whether the chunk has no other fields than Java and Arrow write."""
    meta = field_value(chunk, CHUNK_META)
    return (
        isinstance(meta, list)
        and _USUAL_CHUNK_FIELDS.issuperset([f.id for f in chunk])
        and _USUAL_META_FIELDS.issuperset([f.id for f in meta])
    )


def footer_bytes(source: Any) -> bytes:
    """Return the stored footer; CorruptTable if the file is shorter than its length."""
    size = source.size()
    source.seek(max(0, size - TAIL))
    length = int.from_bytes(cast("bytes", source.read(TAIL))[:4], "little")
    if not 0 < length <= size - TAIL:
        raise CorruptTable(f"a Parquet footer of {length:,} bytes in a file of {size:,}")
    source.seek(size - TAIL - length)
    return cast("bytes", source.read(length))


def footer_of(tail: bytes) -> bytes:
    """Return the footer from a file's last bytes, which must contain all of it."""
    length = int.from_bytes(tail[-TAIL:-4], "little")
    return tail[len(tail) - TAIL - length : -TAIL]


def with_changed_footer(tail: bytes, change: Callable[[Struct], None]) -> bytes:
    """Return the last bytes of a file with its footer as `change`, called with it, leaves it."""
    metadata = decode_struct(footer_of(tail))
    change(metadata)
    return _with_footer(tail, encode_struct(metadata))


def with_writer(tail: bytes, old: str, new: str) -> bytes:
    """Return the last bytes of a file with another `created_by`, which is the last text in it.

    Unchanged if the old one is not there.  Decoding the footer of a wide table takes much longer.
    """
    footer = footer_of(tail)
    stored, wanted = (bytes([len(text)]) + text.encode() for text in (old, new))
    at = footer.rfind(stored)
    return tail if at < 0 else _with_footer(tail, footer[:at] + wanted + footer[at + len(stored) :])


def _with_footer(tail: bytes, footer: bytes) -> bytes:
    indexes = tail[: len(tail) - TAIL - len(footer_of(tail))]
    return indexes + footer + len(footer).to_bytes(4, "little") + MAGIC


def drop_bounds(footer: Struct, columns: Sequence[Collection[str]]) -> None:
    """Remove the statistics, also those of pages, of columns by name, given for each row group."""
    groups = structs_of(footer, FILE_ROW_GROUPS)
    for group, names in zip(groups, columns, strict=True):
        paths = [[name.encode()] for name in names]
        for chunk in structs_of(group, GROUP_COLUMNS) if paths else ():
            meta = cast("Struct", field_value(chunk, CHUNK_META))
            if cast("ThriftList", field_value(meta, _META_PATH)).items in paths:
                meta[:] = [f for f in meta if f.id != META_STATISTICS]
                chunk[:] = [f for f in chunk if f.id not in _COLUMN_INDEX]


def structs_of(parent: Struct, number: int) -> list[Struct]:
    """Return the structs in a list field; CorruptTable if the field holds anything else."""
    value = field_value(parent, number)
    if isinstance(value, ThriftList) and all(isinstance(item, list) for item in value.items):
        return cast("list[Struct]", value.items)
    raise CorruptTable(f"field {number} of a Parquet footer is not a list of structures")


def check_chunks(metadata: Struct) -> None:
    """Raise CorruptTable as `read_checked_footer`; keep only the fields of a chunk named there."""
    elements = structs_of(metadata, FILE_SCHEMA)
    leaves = [e for e in elements if field_value(e, ELEMENT_TYPE) is not None]
    types = [field_value(e, ELEMENT_TYPE) for e in leaves]
    levels = list(_levels(elements))
    for group in structs_of(metadata, FILE_ROW_GROUPS):
        chunks = [field_value(c, CHUNK_META) for c in structs_of(group, GROUP_COLUMNS)]
        found = [field_value(c, META_TYPE) if isinstance(c, list) else None for c in chunks]
        if found != types:
            raise CorruptTable("the column chunks of a Parquet file are not those of its schema")
        for chunk in structs_of(group, GROUP_COLUMNS):
            chunk[:] = [f for f in chunk if f.id in _CHUNK_FIELDS]
        for leaf, most, meta in zip(leaves, levels, cast("list[Struct]", chunks), strict=True):
            _check_numbers(meta)
            _check_sizes(leaf, most, field_value(meta, _SIZES))
            meta[:] = [f for f in meta if f.id in _META_FIELDS]
            _check_bounds(leaf, meta)


def _levels(elements: Sequence[Struct]) -> Iterator[tuple[int, int]]:
    """Yield the highest (repetition level, definition level) of each leaf column."""
    open_groups: list[tuple[int, int, int]] = []  # (children that follow, levels)
    for element in elements:
        _, repeated, defined = open_groups[-1] if open_groups else (0, 0, 0)
        if open_groups:
            repetition = field_value(element, ELEMENT_REPETITION)
            repeated += repetition == REPEATED
            defined += repetition != _REQUIRED
            open_groups[-1] = (open_groups[-1][0] - 1, *open_groups[-1][1:])
        if field_value(element, ELEMENT_TYPE) is not None:
            yield repeated, defined
        else:
            open_groups.append((children_of(element), repeated, defined))
        while open_groups and open_groups[-1][0] <= 0:
            open_groups.pop()


def children_of(element: Struct) -> int:
    """Return the number of children of an element of the schema."""
    count = field_value(element, ELEMENT_CHILDREN)
    return count if isinstance(count, int) and count > 0 else 0


def _check_sizes(leaf: Struct, most: tuple[int, int], sizes: Value | None) -> None:
    """Raise CorruptTable for size statistics that do not match the column."""
    if sizes is None:
        return
    known = isinstance(sizes, list)
    for number, level in zip((_REPETITIONS, _DEFINITIONS), most, strict=True):
        counts = field_value(sizes, number) if isinstance(sizes, list) else None
        known &= counts is None or (
            isinstance(counts, ThriftList) and len(counts.items) in (0, level + 1)
        )
    if isinstance(sizes, list) and field_value(sizes, _TEXT_BYTES) is not None:
        known &= field_value(leaf, ELEMENT_TYPE) == _BYTE_ARRAY
    if not known:
        raise CorruptTable("a column chunk of a Parquet file has size statistics of another type")


def _check_bounds(leaf: Struct, meta: Struct) -> None:
    """Raise CorruptTable for a minimum or maximum whose length does not match its type."""
    kind, statistics = field_value(leaf, ELEMENT_TYPE), field_value(meta, META_STATISTICS)
    if statistics is None or kind == _BYTE_ARRAY:
        return
    width = _WIDTHS.get(cast("int", kind), field_value(leaf, ELEMENT_LENGTH))
    bounds = [f for f in statistics if f.id in _BOUNDS] if isinstance(statistics, list) else None
    if bounds is None or any(
        not isinstance(f.value, bytes) or len(f.value) != width for f in bounds
    ):
        raise CorruptTable("a column chunk of a Parquet file has bounds of another type")


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
