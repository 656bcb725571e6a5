"""Manifest entries from and to records, the dicts of the general Avro codec.

This way serves every layout of the files.  `decoding` is faster for the common one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from paimon_core.errors import UnsupportedFeature
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from paimon_core.manifest.layouts import MANIFEST_ENTRY
from paimon_core.manifest.metadata_file import RecordKind
from paimon_core.manifest.unknown_fields import (
    UnknownFields,
    split,
)
from paimon_core.names import checked_external_path, checked_name

ENTRY_VERSION: Final = 2
_KINDS: Final = {kind.value: kind for kind in FileKind}
_LEAST_INT: Final = -(2**31)
_LARGEST_INT: Final = 2**31 - 1
_SOURCES: Final = {source.value: source for source in FileSource}


def entry_from_record(r: Mapping[str, Any], unknown: UnknownFields) -> ManifestEntry:
    """Return the entry of a decoded record; UnsupportedFeature for another version."""
    of_file, of_entry = split(unknown, "_FILE")
    if r["_VERSION"] != ENTRY_VERSION:
        raise unsupported_version(r["_VERSION"])
    return ManifestEntry(
        file_kind(r["_KIND"]),
        r["_PARTITION"],
        checked_int(r["_BUCKET"], "_BUCKET"),
        checked_int(r["_TOTAL_BUCKETS"], "_TOTAL_BUCKETS"),
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
        level=checked_level(f["_LEVEL"]),
        extra_files=checked_extra_files(f["_EXTRA_FILES"]),
        creation_time=f.get("_CREATION_TIME"),
        delete_row_count=f.get("_DELETE_ROW_COUNT"),
        embedded_index=f.get("_EMBEDDED_FILE_INDEX"),
        file_source=file_source(f.get("_FILE_SOURCE")),
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


def file_source(value: int | None) -> FileSource | None:
    """Return the source of a data file; UnsupportedFeature for an unknown one."""
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


def checked_extra_files(names: Sequence[object]) -> tuple[str, ...]:
    """Return the names of extra files; ValueError for one that is not a plain file name."""
    return tuple(checked_name(name, "_EXTRA_FILES") for name in names)


def checked_int(value: int, field: str) -> int:
    """Return the value of an INT; ValueError if it has more bits, as in Java.

    Avro encodes INT and BIGINT alike.
    """
    if not _LEAST_INT <= value <= _LARGEST_INT:
        raise ValueError(f"{field} {value} does not fit into 32 bits")
    return value


def checked_level(value: int) -> int:
    """Return the level of a file, an INT; ValueError if it is negative: readers would miss it."""
    if checked_int(value, "_LEVEL") < 0:
        raise ValueError(f"_LEVEL {value} is negative")
    return value


def optional_int(value: int | None, field: str) -> int | None:
    """Return the value of an INT that may be missing; errors as in `checked_int`."""
    return None if value is None else checked_int(value, field)


def _optional_tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def unsupported_version(version: int) -> UnsupportedFeature:
    """Return the error for entries of this version."""
    return UnsupportedFeature(f"manifest entries of version {version}")


ENTRY_KIND: Final = RecordKind(MANIFEST_ENTRY, entry_from_record, entry_to_record, unknown_of)
