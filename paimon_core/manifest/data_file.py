"""The manifest entries of data files (Java: `io/DataFileMeta`, `manifest/ManifestEntry`).

Rows inside metadata (partitions, keys, statistics) are kept as stored bytes: four bytes of
big-endian arity, then the BinaryRow.  These bytes *are* the identity of a partition (two partitions
may have the same text); `paimon_core.types.binary_row` decodes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from paimon_core.manifest.unknown_fields import UnknownFields

EMPTY_ROW = bytes(12)
"""The stored bytes of an empty row: partition of an unpartitioned table, empty keys."""


class FileKind(IntEnum):
    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minima, maxima (stored row bytes) and null counts over some columns of one file.

    `null_counts` holds one entry per column, None if unknown.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data (or changelog) file.

    Units: sizes in bytes, `creation_time` in milliseconds of *local wall clock without zone* (Java:
    `creationTime` is a LocalDateTime), None only in files older than the field.  `value_stats_cols`
    None means "all columns of the schema", an empty tuple "none".  `unknown` are fields of newer
    versions, which stay with the file.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    unknown: UnknownFields = ()

    def upgraded(self, level: int) -> DataFileMeta:
        """Return the same file at a higher level: only the level changes (java-rules E6)."""
        if level <= self.level:
            raise ValueError(f"cannot upgrade {self.file_name} from {self.level} to {level}")
        return replace(self, level=level)


class FileIdentity(NamedTuple):
    """The identity of a file in manifest entries (Java: `manifest/FileEntry.Identifier`)."""

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    embedded_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file added to or deleted from the table."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta
    unknown: UnknownFields = ()

    @property
    def identity(self) -> FileIdentity:
        f = self.file
        return FileIdentity(
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )

    @property
    def place(self) -> tuple[bytes, int, str]:
        """Return partition, bucket and name, which stay when the file moves to another level."""
        return self.partition, self.bucket, self.file.file_name

    def as_delete(self) -> ManifestEntry:
        """Return the entry that deletes this file: it differs only in the kind."""
        return replace(self, kind=FileKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """The entry of a manifest in a manifest list.

    Bucket, level and row-id ranges may be unknown.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    unknown: UnknownFields = ()


@dataclass(frozen=True, slots=True)
class DeletionVectorRange:
    """The location of a data file's deletion vector in an index file (bytes)."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file: `index_type` is HASH, DELETION_VECTORS or a global index's name."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    dv_ranges: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """An index file added to or deleted from a bucket."""

    kind: FileKind
    partition: bytes
    bucket: int
    index_file: IndexFileMeta
    unknown: UnknownFields = ()
