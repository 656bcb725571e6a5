"""Decodes manifest entries from Avro's binary form without the general decoder.

Java 1.x and 2.x write the same layout.  Files of exactly this layout are decoded directly into
entries, because a plan may read hundreds of thousands of them.  So are files of newer versions
that only have more fields at the end of `_FILE` or of the entry.  Other layouts use the general
decoder (`records`).

Adjacent entries repeat many values (partitions, column lists, null counts): a field with the same
bytes as in the entry before is not decoded again, and equal values share one object.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from paimon_core.format.avro.container import Block, Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.manifest.avro_codec import known_and_unknown, metadata_blocks
from paimon_core.manifest.data_file import (
    EMPTY_STATS,
    DataFileMeta,
    ManifestEntry,
    SimpleStats,
)
from paimon_core.manifest.entries.records import (
    ENTRY_VERSION,
    checked_extra_files,
    checked_int,
    checked_level,
    entry_from_record,
    external_path_of,
    file_kind,
    file_source,
    unsupported_version,
)
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.unknown_fields import (
    UnknownField,
    UnknownFields,
    skipper,
    tail_of,
)
from paimon_core.names import checked_external_path, checked_name

Keep = Callable[[bytes, int, int], bool]
"""Returns whether entries of this partition, bucket and level are wanted."""

_ENTRY_LAYOUT: Final = file_schema(MANIFEST_ENTRY)


def decode_entries(container: Container, keep: Keep | None = None) -> list[ManifestEntry]:
    """Decode the wanted entries in order; unwanted entries are skipped.

    Raises UnsupportedFeature for entries of another version; ValueError, IndexError or KeyError for
    damaged data.
    """
    try:
        tail = _Tail(container.schema)
    except ValueError:

        def made(r: dict[str, Any], unknown: UnknownFields) -> ManifestEntry | None:
            wanted = keep is None or keep(r["_PARTITION"], r["_BUCKET"], r["_FILE"]["_LEVEL"])
            return entry_from_record(r, unknown) if wanted else None

        found = known_and_unknown(container, MANIFEST_ENTRY, made)
        return [entry for entry in found if entry is not None]
    return _decode_blocks(metadata_blocks(container), tail, keep)


def decode_blocks(blocks: Iterable[Block]) -> list[ManifestEntry]:
    """Decode blocks of entries in the common layout; errors as in `decode_entries`."""
    return _decode_blocks(blocks, _Tail(_ENTRY_LAYOUT), None)


def rare_of(
    data: bytes, extra_files: int, index: int, external_path: int
) -> tuple[tuple[str, ...], bytes | None, str | None]:
    """Decode extra files, embedded index and external path at these positions of entries."""
    external = _optional_bytes(data, external_path)[0]
    return (
        checked_extra_files(_texts(data, extra_files)[0]),
        _optional_bytes(data, index)[0],
        external_path_of(None if external is None else external.decode()),
    )


def _decode_blocks(blocks: Iterable[Block], tail: _Tail, keep: Keep | None) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    shared: dict[bytes, bytes] = {}
    # All new objects stay alive, so garbage collection would only take 50 % more time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for count, records in blocks:
            _decode_block(records, count, entries, shared, tail, keep)
    finally:
        if collecting:
            gc.enable()
    return entries


def _decode_block(
    data: bytes,
    count: int,
    entries: list[ManifestEntry],
    shared: dict[bytes, bytes],
    tail: _Tail,
    keep: Keep | None,
) -> None:
    at = 0
    key_nulls, value_nulls, value_cols, write_cols, unknown = (
        _Repeated(),
        _Repeated(),
        _Repeated(),
        _Repeated(),
        _Repeated(),
    )
    unknown.value = ((), ())
    for _ in range(count):
        version, at = read_zigzag(data, at)
        if version != ENTRY_VERSION:
            raise unsupported_version(version)
        kind, at = read_zigzag(data, at)
        partition, at = _bytes(data, at)
        bucket, at = read_zigzag(data, at)
        total_buckets, at = read_zigzag(data, at)
        name, at = _bytes(data, at)
        size, at = read_zigzag(data, at)
        rows, at = read_zigzag(data, at)
        min_key, at = _bytes(data, at)
        max_key, at = _bytes(data, at)
        key_low, at = _bytes(data, at)
        key_high, at = _bytes(data, at)
        at = key_nulls.read(data, at, _nullable_longs)
        value_low, at = _bytes(data, at)
        value_high, at = _bytes(data, at)
        at = value_nulls.read(data, at, _nullable_longs)
        min_sequence, at = read_zigzag(data, at)
        max_sequence, at = read_zigzag(data, at)
        schema_id, at = read_zigzag(data, at)
        level, at = read_zigzag(data, at)
        extra_files, at = _texts(data, at)
        created, at = _optional_long(data, at)
        deleted_rows, at = _optional_long(data, at)
        index, at = _optional_bytes(data, at)
        source, at = _optional_long(data, at)
        at = value_cols.read(data, at, _optional_texts)
        external, at = _optional_bytes(data, at)
        first_row_id, at = _optional_long(data, at)
        at = write_cols.read(data, at, _optional_texts)
        if tail.fields:
            at = unknown.read(data, at, tail.read)
        if keep is not None and not keep(partition, bucket, level):
            continue
        entries.append(
            ManifestEntry(
                file_kind(kind),
                shared.setdefault(partition, partition),
                checked_int(bucket, "_BUCKET"),
                checked_int(total_buckets, "_TOTAL_BUCKETS"),
                DataFileMeta(
                    file_name=checked_name(name.decode(), "_FILE_NAME"),
                    file_size=size,
                    row_count=rows,
                    min_key=shared.setdefault(min_key, min_key),
                    max_key=shared.setdefault(max_key, max_key),
                    key_stats=_stats(key_low, key_high, key_nulls.value),
                    value_stats=_stats(value_low, value_high, value_nulls.value),
                    min_sequence_number=min_sequence,
                    max_sequence_number=max_sequence,
                    schema_id=schema_id,
                    level=checked_level(level),
                    extra_files=checked_extra_files(extra_files),
                    creation_time=created,
                    delete_row_count=deleted_rows,
                    embedded_index=index,
                    file_source=file_source(source),
                    value_stats_cols=value_cols.value,
                    external_path=None
                    if external is None
                    else checked_external_path(external.decode(), "_EXTERNAL_PATH"),
                    first_row_id=first_row_id,
                    write_cols=write_cols.value,
                    unknown=unknown.value[0],
                ),
                unknown.value[1],
            )
        )
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes are left after the last entry of a block")


class _Tail:
    """The fields of newer versions after the last known ones, of `_FILE` and of the entry."""

    __slots__ = ("fields",)

    def __init__(self, schema: Any) -> None:
        """Raise ValueError for a schema that differs in more than such fields."""
        self.fields = [
            (path[1:], path != (), field["name"], json.dumps(field), skipper(field["type"]))
            for path, field in ([] if schema == _ENTRY_LAYOUT else tail_of(schema, _ENTRY_LAYOUT))
        ]

    def read(self, data: bytes, at: int) -> tuple[tuple[UnknownFields, UnknownFields], int]:
        """Return the unknown fields of the file and of the entry, and the position after them."""
        of_file: list[UnknownField] = []
        of_entry: list[UnknownField] = []
        for path, in_file, name, declaration, skip in self.fields:
            end = skip(data, at)
            found = UnknownField(path, name, declaration, data[at:end])
            (of_file if in_file else of_entry).append(found)
            at = end
        return (tuple(of_file), tuple(of_entry)), at


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """Decode the Avro int or long at this position; return it and the position after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 1 << 64:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("an Avro integer has more than 64 bits")


class _Repeated:
    """A field whose bytes are usually those of the entry before."""

    __slots__ = ("_raw", "value")

    def __init__(self) -> None:
        self._raw: bytes | None = None
        self.value: Any = None

    def read(self, data: bytes, at: int, decode: Callable[[bytes, int], tuple[Any, int]]) -> int:
        """Decode the field into `value`; return the position after it."""
        raw = self._raw
        if raw is not None and data.startswith(raw, at):
            return at + len(raw)
        self.value, end = decode(data, at)
        self._raw = data[at:end]
        return end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    if size < 0x80 and not size & 1:
        at += 1
        end = at + (size >> 1)
    else:
        size, at = read_zigzag(data, at)
        end = at + size
    if not at <= end <= len(data):
        raise IndexError(f"a value of {end - at} bytes at {at} of a block of {len(data)} bytes")
    return data[at:end], end


def _optional_long(data: bytes, at: int) -> tuple[int | None, int]:
    if data[at] == 0:
        return None, at + 1
    return read_zigzag(data, at + 1)


def _optional_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    if data[at] == 0:
        return None, at + 1
    return _bytes(data, at + 1)


def _optional_texts(data: bytes, at: int) -> tuple[tuple[str, ...] | None, int]:
    if data[at] == 0:
        return None, at + 1
    return _texts(data, at + 1)


def _texts(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    if data[at] == 0:
        return (), at + 1
    texts: list[str] = []
    while True:
        count, at = _array_count(data, at)
        if count == 0:
            return tuple(texts), at
        for _ in range(count):
            text, at = _bytes(data, at)
            texts.append(text.decode())


def _nullable_longs(data: bytes, at: int) -> tuple[tuple[int | None, ...] | None, int]:
    if data[at] == 0:
        return None, at + 1
    at += 1
    numbers: list[int | None] = []
    while True:
        count, at = _array_count(data, at)
        if count == 0:
            return tuple(numbers), at
        for _ in range(count):
            number, at = _optional_long(data, at)
            numbers.append(number)


def _array_count(data: bytes, at: int) -> tuple[int, int]:
    count, at = read_zigzag(data, at)
    if count < 0:  # the size in bytes follows, for readers that skip
        _, at = read_zigzag(data, at)
    return abs(count), at


def _stats(low: bytes, high: bytes, nulls: tuple[int | None, ...] | None) -> SimpleStats:
    if nulls == () and low == EMPTY_STATS.min_values:
        return EMPTY_STATS
    return SimpleStats(low, high, nulls)
