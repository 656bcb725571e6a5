"""Encodes manifest entries in Avro's binary form, in the layout that Java 1.x and 2.x write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_core.manifest.data_file import (
    ManifestEntry,
    SimpleStats,
)
from paimon_core.manifest.entries.records import ENTRY_VERSION

_FIRST_BRANCH: Final = b"\0"
_SECOND_BRANCH: Final = b"\2"
_MOST: Final = 2**64 - 1


def zigzag(value: int) -> bytes:
    """Encode an Avro int or long; OverflowError for more than 64 bits, which nobody could read."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    if number > _MOST:
        raise OverflowError(f"{value} does not fit into 64 bits")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes((i,)) for i in range(0x80))


def encode_entry(entry: ManifestEntry) -> bytes:
    """Encode one entry in the common layout."""
    f = entry.file
    return b"".join(
        (
            _VERSION_BYTES,
            zigzag(entry.kind),
            _put_bytes(entry.partition),
            zigzag(entry.bucket),
            zigzag(entry.total_buckets),
            _put_bytes(f.file_name.encode()),
            zigzag(f.file_size),
            zigzag(f.row_count),
            _put_bytes(f.min_key),
            _put_bytes(f.max_key),
            _put_stats(f.key_stats),
            _put_stats(f.value_stats),
            zigzag(f.min_sequence_number),
            zigzag(f.max_sequence_number),
            zigzag(f.schema_id),
            zigzag(f.level),
            _put_texts(f.extra_files),
            _put_optional_long(f.creation_time),
            _put_optional_long(f.delete_row_count),
            _FIRST_BRANCH
            if f.embedded_index is None
            else _SECOND_BRANCH + _put_bytes(f.embedded_index),
            _put_optional_long(f.file_source),
            _put_optional_texts(f.value_stats_cols),
            _FIRST_BRANCH
            if f.external_path is None
            else _SECOND_BRANCH + _put_bytes(f.external_path.encode()),
            _put_optional_long(f.first_row_id),
            _put_optional_texts(f.write_cols),
        )
    )


_VERSION_BYTES: Final = zigzag(ENTRY_VERSION)


def _put_bytes(value: bytes) -> bytes:
    return zigzag(len(value)) + value


def _put_optional_long(value: int | None) -> bytes:
    return _FIRST_BRANCH if value is None else _SECOND_BRANCH + zigzag(value)


def _put_texts(texts: Sequence[str]) -> bytes:
    if not texts:
        return b"\0"
    return b"".join((zigzag(len(texts)), *(_put_bytes(t.encode()) for t in texts), b"\0"))


def _put_optional_texts(texts: Sequence[str] | None) -> bytes:
    return _FIRST_BRANCH if texts is None else _SECOND_BRANCH + _put_texts(texts)


def _put_stats(stats: SimpleStats) -> bytes:
    low, high, nulls = stats.min_values, stats.max_values, stats.null_counts
    if nulls is None:
        counts = _FIRST_BRANCH
    elif not nulls:
        counts = _SECOND_BRANCH + b"\0"
    else:
        counts = b"".join(
            (_SECOND_BRANCH, zigzag(len(nulls)), *map(_put_optional_long, nulls), b"\0")
        )
    return b"".join((zigzag(len(low)), low, zigzag(len(high)), high, counts))
