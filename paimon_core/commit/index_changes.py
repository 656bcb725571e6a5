"""The index manifest after a commit (Java: `manifest/IndexManifestFileHandler`; java-rules C)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from paimon_core.commit.unknown_metadata import check_index_replacement
from paimon_core.errors import CommitConflict, UnsupportedFeature
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.index.hash_index import HASH_INDEX
from paimon_core.index.primary_key import has_sources
from paimon_core.manifest.data_file import FileKind, IndexFileMeta, IndexManifestEntry
from paimon_core.scan.global_index import index_range, indexed_id

_KNOWN = (DELETION_VECTORS_INDEX, HASH_INDEX)


def combine_index_files(
    previous: Sequence[IndexManifestEntry],
    changes: Sequence[IndexManifestEntry],
    *,
    table: str,
    bucket_unaware: bool,
) -> list[IndexManifestEntry]:
    """Return the live index entries of the table after `changes`.

    Bucketed tables hold one file per partition, bucket and type.  Java lets an ADD replace it
    silently, so lost updates go unnoticed.  Here the changes must name the files that they replace:
    CommitConflict is raised if such a file no longer exists, or if there is an unexpected file.
    Bucket-unaware tables hold deletion vectors by file name, with at most one vector per data file.
    A column has one global index, and a later commit covers other rows.
    Raises UnsupportedFeature for changes to an unknown index type, and for a new index file in
    place of one whose entry has unknown fields.
    """
    for entry in changes:
        file = entry.index_file
        if file.index_type not in _KNOWN and file.global_index is None:
            raise UnsupportedFeature(f"index type {file.index_type}")
    live = {e.index_file.file_name: e for e in previous}
    check_index_replacement(live, changes)
    for entry in changes:
        name = entry.index_file.file_name
        if entry.kind is FileKind.DELETE and live.pop(name, None) is None:
            raise _conflict(table, name, "which this commit replaces, is no longer there")
    for entry in changes:
        if entry.kind is FileKind.ADD:
            name = entry.index_file.file_name
            if name in live:
                raise _conflict(table, name, "which this commit adds, is already there")
            live[name] = entry
    _check_unique(table, list(live.values()), bucket_unaware=bucket_unaware)
    _check_ranges(table, list(live.values()), changes)
    return list(live.values())


def _check_unique(
    table: str, entries: Sequence[IndexManifestEntry], *, bucket_unaware: bool
) -> None:
    seen: set[object] = set()
    for entry in entries:
        file = entry.index_file
        if file.index_type not in _KNOWN:
            continue
        keys: list[object]
        if file.index_type == DELETION_VECTORS_INDEX and bucket_unaware:
            keys = [r.data_file for r in file.dv_ranges or ()]
        else:
            keys = [(entry.partition, entry.bucket, file.index_type)]
        for key in keys:
            if key in seen:
                same = "data file" if bucket_unaware else "bucket"
                raise _conflict(
                    table,
                    file.file_name,
                    f"which this commit adds, is for the same {same} as another one",
                )
            seen.add(key)


def _check_ranges(
    table: str, entries: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry]
) -> None:
    """Check that no new global index covers rows that another one of its column covers."""
    # Those of primary-key tables number the rows of one level of a bucket.
    indexes = [
        e.index_file
        for e in entries
        if e.index_file.global_index is not None and not has_sources(e.index_file)
    ]
    names = {e.index_file.file_name for e in changes if e.kind is FileKind.ADD}
    retained: dict[object, list[IndexFileMeta]] = defaultdict(list)
    for file in indexes:
        if file.file_name not in names:
            retained[indexed_id(file)].append(file)
    for files in retained.values():
        files.sort(key=lambda f: index_range(f).first)
    for file in indexes:
        others = retained.get(indexed_id(file), [])
        if file.file_name not in names or not others:
            continue
        # Ranges of one column are equal or apart.
        at = bisect_right(others, index_range(file).last, key=lambda f: index_range(f).first) - 1
        if at >= 0 and index_range(others[at]).last >= index_range(file).first:
            raise _conflict(
                table,
                file.file_name,
                f"which this commit adds, covers rows that {others[at].file_name} covers",
            )


def _conflict(table: str, name: str, what: str) -> CommitConflict:
    message = f"cannot commit to table {table}: index file {name}, {what}"
    return CommitConflict(message, table=table, file=name)
