"""Manifests: the entries of files added and deleted (Java: `manifest/ManifestFile`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from paimon_core.io.file_io import FileIO, delete_abandoned
from paimon_core.manifest.data_file import FileKind, ManifestEntry, ManifestFileMeta
from paimon_core.manifest.entry_decoding import Keep, decode_entries
from paimon_core.manifest.entry_encoding import encode_entry
from paimon_core.manifest.entry_records import ENTRY_KIND
from paimon_core.manifest.metadata_file import Sink, layout_of, open_sink, read_metadata
from paimon_core.manifest.partition_stats import partition_stats
from paimon_core.options import MANIFEST_TARGET_SIZE, Options
from paimon_core.paths import TablePaths
from paimon_core.types.data_types import RowType

_ROLL_CHECK: Final = 1000
"""The number of entries after which Java checks the file's size."""


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
    entries: Sequence[ManifestEntry],
    *,
    options: Options,
    partition_type: RowType,
    new_uuid: Callable[[], str],
    schema_id: int = 0,
) -> list[ManifestFileMeta]:
    """Write the entries in order and return the new manifests; empty without entries.

    A new manifest starts when one has reached `manifest.target-file-size`.  On failure, written
    files are deleted again.  A manifest's schema id is the greatest of its files; like Java, a
    manifest without files gets `schema_id`, the newest schema's id.
    """
    target = options.value(MANIFEST_TARGET_SIZE)
    prefix = f"manifest-{new_uuid()}-" if entries else ""
    made: list[ManifestFileMeta] = []
    layout = layout_of(ENTRY_KIND, entries)
    sink: Sink[ManifestEntry] | None = None
    start = 0
    try:
        for count, entry in enumerate(entries, start=1):
            name = f"{prefix}{len(made)}"
            if sink is None:
                path = paths.manifest(name)
                sink = open_sink(io, path, ENTRY_KIND, options, layout, encode_entry)
            sink.add(entry)
            if count == len(entries) or (count % _ROLL_CHECK == 0 and sink.size >= target):
                part = entries[start:count]
                made.append(_describe(name, sink.close(), part, partition_type, schema_id))
                start, sink = count, None
    except BaseException:
        if sink is not None:
            sink.abort()
        delete_abandoned(io, [paths.manifest(meta.file_name) for meta in made])
        raise
    return made


def _describe(
    name: str, size: int, entries: Sequence[ManifestEntry], partition_type: RowType, newest: int
) -> ManifestFileMeta:
    files = [e.file for e in entries]
    added = sum(e.kind is FileKind.ADD for e in entries)
    row_ids = [(f.first_row_id, f.row_count) for f in files if f.first_row_id is not None]
    has_ids = len(row_ids) == len(files)
    return ManifestFileMeta(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=partition_stats((e.partition for e in entries), partition_type),
        schema_id=max((f.schema_id for f in files), default=newest),
        min_bucket=min(e.bucket for e in entries),
        max_bucket=max(e.bucket for e in entries),
        min_level=min(f.level for f in files),
        max_level=max(f.level for f in files),
        min_row_id=min(first for first, _ in row_ids) if has_ids else None,
        max_row_id=max(first + count - 1 for first, count in row_ids) if has_ids else None,
    )
