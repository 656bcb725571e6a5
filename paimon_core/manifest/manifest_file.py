"""Manifests: the entries of files added and deleted (Java: `manifest/ManifestFile`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from paimon_core.io.file_io import FileIO, delete_abandoned
from paimon_core.io.read_retry import read_whole
from paimon_core.manifest.data_file import FileKind, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.entries.decoding import Keep, decode_entries
from paimon_core.manifest.entries.encoding import encode_entry
from paimon_core.manifest.entries.records import ENTRY_KIND
from paimon_core.manifest.metadata_file import (
    Sink,
    decode_metadata,
    layout_of,
    open_sink,
    read_metadata,
)
from paimon_core.manifest.partition_stats import partition_stats
from paimon_core.manifest.unknown_fields import UnknownLayout
from paimon_core.options import MANIFEST_TARGET_SIZE, Options
from paimon_core.paths import TablePaths
from paimon_core.types.data_types import RowType

_TOGETHER: Final = 10_000
"""The number of entries that are looked through for unknown fields before they are written."""
_ROLL_CHECK: Final = 1000
"""The number of entries after which Java checks the file's size."""


@dataclass(frozen=True, slots=True)
class SizedEntries:
    """The entries of a manifest, and the size of its file in bytes."""

    entries: tuple[ManifestEntry, ...]
    size: int

    def __len__(self) -> int:
        return len(self.entries)


def read_sized_manifest(io: FileIO, path: str) -> SizedEntries:
    """Return the entries of one manifest in order, and its size; errors as `read_manifest`."""
    data = read_whole(io, path)
    entries = decode_metadata(data, path, ENTRY_KIND, decode_entries)
    return SizedEntries(tuple(entries), len(data))


def read_manifest(io: FileIO, path: str, *, keep: Keep | None = None) -> list[ManifestEntry]:
    """Return the entries of one manifest in order; with `keep`, only those that it accepts.

    Raises FileNotFoundError if the file is missing, CorruptTable if it cannot be decoded,
    UnsupportedFeature for another version or format.
    """
    entries = read_metadata(io, path, ENTRY_KIND, lambda c: decode_entries(c, keep))
    if keep is None:
        return entries
    return [e for e in entries if keep(e.partition, e.bucket, e.file.level)]


def write_manifests(
    io: FileIO,
    paths: TablePaths,
    entries: Iterable[ManifestEntry],
    *,
    options: Options,
    partition_type: RowType,
    new_uuid: Callable[[], str],
    schema_id: int = 0,
) -> list[ManifestFileMeta]:
    """Write the entries in order and return the new manifests; empty without entries.

    A new manifest starts when one has reached `manifest.target-file-size`.  A few thousand entries
    are in memory at a time.  On failure, written files are deleted again.  A manifest's schema id
    is the greatest of its files; like Java, a manifest without files gets `schema_id`, the newest
    schema's id.
    """
    target = options.value(MANIFEST_TARGET_SIZE)
    made: list[ManifestFileMeta] = []
    prefix, name, count = "", "", 0
    layout: UnknownLayout | None = None
    sink: Sink[ManifestEntry] | None = None
    summary = _Summary()
    remaining = iter(entries)
    try:
        while together := list(islice(remaining, _TOGETHER)):
            needed = layout_of(ENTRY_KIND, together)
            if sink is not None and needed is not None and needed != layout:
                made.append(summary.meta(name, sink.close(), partition_type, schema_id))
                sink = None
            for entry in together:
                if sink is None:
                    prefix = prefix or f"manifest-{new_uuid()}-"
                    name, layout, summary = f"{prefix}{len(made)}", needed, _Summary()
                    sink = open_sink(
                        io, paths.manifest(name), ENTRY_KIND, options, layout, encode_entry
                    )
                sink.add(entry)
                summary.add(entry)
                count += 1
                if count % _ROLL_CHECK == 0 and sink.size >= target:
                    made.append(summary.meta(name, sink.close(), partition_type, schema_id))
                    sink = None
        if sink is not None:
            made.append(summary.meta(name, sink.close(), partition_type, schema_id))
    except BaseException:
        if sink is not None:
            sink.abort()
        delete_abandoned(io, [paths.manifest(meta.file_name) for meta in made])
        raise
    return made


@dataclass(slots=True)
class _Summary:
    """What a manifest list says about the entries of one manifest."""

    count: int = 0
    added: int = 0
    partitions: Counter[bytes] = field(default_factory=Counter)
    schemas: set[int] = field(default_factory=set)
    buckets: set[int] = field(default_factory=set)
    levels: set[int] = field(default_factory=set)
    with_row_ids: int = 0
    first_row: int = 0
    last_row: int = 0

    def add(self, entry: ManifestEntry) -> None:
        """Count one more entry."""
        file = entry.file
        self.count += 1
        self.added += entry.kind is FileKind.ADD
        self.partitions[entry.partition] += 1
        self.schemas.add(file.schema_id)
        self.buckets.add(entry.bucket)
        self.levels.add(file.level)
        first = file.first_row_id
        if first is not None:
            last = first + file.row_count - 1
            self.first_row = min(self.first_row, first) if self.with_row_ids else first
            self.last_row = max(self.last_row, last) if self.with_row_ids else last
            self.with_row_ids += 1

    def meta(self, name: str, size: int, partition_type: RowType, newest: int) -> ManifestFileMeta:
        """Return the manifest's record in a manifest list."""
        has_ids = self.with_row_ids == self.count
        return ManifestFileMeta(
            file_name=name,
            file_size=size,
            num_added_files=self.added,
            num_deleted_files=self.count - self.added,
            partition_stats=partition_stats(self.partitions, partition_type),
            schema_id=max(self.schemas, default=newest),
            min_bucket=min(self.buckets),
            max_bucket=max(self.buckets),
            min_level=min(self.levels),
            max_level=max(self.levels),
            min_row_id=self.first_row if has_ids else None,
            max_row_id=self.last_row if has_ids else None,
        )
