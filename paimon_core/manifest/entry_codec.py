"""A hand-written codec for manifest entries in Avro's binary form.

Java 1.x and 2.x write the same layout.  Files of exactly this layout are decoded directly into
entries, because a plan may read hundreds of thousands of them.  So are files of newer versions
that only have more fields at the end of `_FILE` or of the entry.  Other layouts use the general
decoder, through dicts.

Adjacent entries repeat many values (partitions, column lists, null counts): a field with the same
bytes as in the entry before is not decoded again, and equal values share one object.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.format.avro.container import Block, Container
from paimon_core.format.avro.schema import file_schema
from paimon_core.manifest.avro_codec import known_and_unknown, metadata_blocks
from paimon_core.manifest.data_file import (
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.metadata_file import RecordKind
from paimon_core.manifest.unknown_fields import (
    UnknownField,
    UnknownFields,
    skipper,
    split,
    tail_of,
)
from paimon_core.names import checked_external_path, checked_name

Keep = Callable[[bytes, int, int], bool]
"""Returns whether entries of this partition, bucket and level are wanted."""

ENTRY_VERSION: Final = 2
_ENTRY_LAYOUT: Final = file_schema(MANIFEST_ENTRY)
_KINDS: Final = {kind.value: kind for kind in FileKind}
_SOURCES: Final = {source.value: source for source in FileSource}
_FIRST_BRANCH: Final = b"\0"
_SECOND_BRANCH: Final = b"\2"


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
    """Decode extra files, embedded index and external path at these positions of encoded entries."""
    external = _optional_bytes(data, external_path)[0]
    return (
        _checked_names(_texts(data, extra_files)[0]),
        _optional_bytes(data, index)[0],
        external_path_of(None if external is None else external.decode()),
    )


# --- the common layout --------------------------------------------------------------------------


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
            raise _unsupported_version(version)
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
                bucket,
                total_buckets,
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
                    level=level,
                    extra_files=_checked_names(extra_files),
                    creation_time=created,
                    delete_row_count=deleted_rows,
                    embedded_index=index,
                    file_source=_file_source(source),
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


def _unsupported_version(version: int) -> UnsupportedFeature:
    return UnsupportedFeature(f"manifest entries of version {version}")


# --- any other layout ---------------------------------------------------------------------------


def entry_from_record(r: Mapping[str, Any], unknown: UnknownFields) -> ManifestEntry:
    """Return the entry of a decoded record; UnsupportedFeature for another version."""
    of_file, of_entry = split(unknown, "_FILE")
    if r["_VERSION"] != ENTRY_VERSION:
        raise _unsupported_version(r["_VERSION"])
    return ManifestEntry(
        file_kind(r["_KIND"]),
        r["_PARTITION"],
        r["_BUCKET"],
        r["_TOTAL_BUCKETS"],
        _file_from_record(r["_FILE"], of_file),
        of_entry,
    )


def _file_from_record(f: Mapping[str, Any], unknown: UnknownFields) -> DataFileMeta:
    return DataFileMeta(
        file_name=checked_name(f["_FILE_NAME"], "_FILE_NAME"),
        file_size=f["_FILE_SIZE"],
        row_count=f["_ROW_COUNT"],
        min_key=f["_MIN_KEY"],
        max_key=f["_MAX_KEY"],
        key_stats=stats_from_record(f["_KEY_STATS"]),
        value_stats=stats_from_record(f["_VALUE_STATS"]),
        min_sequence_number=f["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=f["_MAX_SEQUENCE_NUMBER"],
        schema_id=f["_SCHEMA_ID"],
        level=f["_LEVEL"],
        extra_files=_checked_names(f["_EXTRA_FILES"]),
        creation_time=f.get("_CREATION_TIME"),
        delete_row_count=f.get("_DELETE_ROW_COUNT"),
        embedded_index=f.get("_EMBEDDED_FILE_INDEX"),
        file_source=_file_source(f.get("_FILE_SOURCE")),
        value_stats_cols=_optional_tuple(f.get("_VALUE_STATS_COLS")),
        external_path=external_path_of(f.get("_EXTERNAL_PATH")),
        first_row_id=f.get("_FIRST_ROW_ID"),
        write_cols=_optional_tuple(f.get("_WRITE_COLS")),
        unknown=unknown,
    )


def unknown_of(entry: ManifestEntry) -> UnknownFields:
    """Return the unknown fields of an entry and of its file, relative to the entry."""
    if not entry.file.unknown:
        return entry.unknown
    return (*(f.below(("_FILE",)) for f in entry.file.unknown), *entry.unknown)


def file_kind(value: int) -> FileKind:
    """Return the kind of an entry; UnsupportedFeature for one that this version does not know."""
    kind = _KINDS.get(value)
    if kind is None:
        raise UnsupportedFeature(f"manifest entries of kind {value}")
    return kind


def _file_source(value: int | None) -> FileSource | None:
    if value is None:
        return None
    source = _SOURCES.get(value)
    if source is None:
        raise UnsupportedFeature(f"data files of source {value}")
    return source


def entry_to_record(entry: ManifestEntry) -> dict[str, Any]:
    """Return the record of an entry, for formats other than Avro."""
    f = entry.file
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": f.file_name,
            "_FILE_SIZE": f.file_size,
            "_ROW_COUNT": f.row_count,
            "_MIN_KEY": f.min_key,
            "_MAX_KEY": f.max_key,
            "_KEY_STATS": stats_to_record(f.key_stats),
            "_VALUE_STATS": stats_to_record(f.value_stats),
            "_MIN_SEQUENCE_NUMBER": f.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": f.max_sequence_number,
            "_SCHEMA_ID": f.schema_id,
            "_LEVEL": f.level,
            "_EXTRA_FILES": f.extra_files,
            "_CREATION_TIME": f.creation_time,
            "_DELETE_ROW_COUNT": f.delete_row_count,
            "_EMBEDDED_FILE_INDEX": f.embedded_index,
            "_FILE_SOURCE": None if f.file_source is None else int(f.file_source),
            "_VALUE_STATS_COLS": f.value_stats_cols,
            "_EXTERNAL_PATH": f.external_path,
            "_FIRST_ROW_ID": f.first_row_id,
            "_WRITE_COLS": f.write_cols,
        },
    }


def stats_from_record(s: Mapping[str, Any]) -> SimpleStats:
    """Return the statistics of a decoded record."""
    return SimpleStats(s["_MIN_VALUES"], s["_MAX_VALUES"], _optional_tuple(s["_NULL_COUNTS"]))


def stats_to_record(stats: SimpleStats) -> dict[str, Any]:
    """Return the record of statistics for the Avro writer."""
    nulls = stats.null_counts
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": None if nulls is None else list(nulls),
    }


def external_path_of(value: object) -> str | None:
    """Return the value of a decoded `_EXTERNAL_PATH`; ValueError if it is not a full path."""
    return None if value is None else checked_external_path(value, "_EXTERNAL_PATH")


def _checked_names(names: Sequence[object]) -> tuple[str, ...]:
    return tuple(checked_name(name, "_EXTRA_FILES") for name in names)


def _optional_tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


ENTRY_KIND: Final = RecordKind(MANIFEST_ENTRY, entry_from_record, entry_to_record, unknown_of)


# --- encoding -----------------------------------------------------------------------------------


def zigzag(value: int) -> bytes:
    """Encode an Avro int or long."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
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
