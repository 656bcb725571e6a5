"""Checks that data files and deletion vectors match after a commit (java-rules A2, C1).

Two things must not happen.  First, a commit rewrites a file while another one marks rows of it as
deleted: these rows would come back. Second, a commit marks a row of a file as deleted while another
one rewrites the file: the row would remain beside the one that supersedes it.

Java checks this for bucket=-1 tables only (`ConflictDetection`, where a file's vector is part of
its identity); it always replaces the index file of a bucket.  Here all tables are checked.  It is
enough to check the state after the commit: changes name the index files that they replace, so a
vector that changed meanwhile is in an index file that still exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_core.commit.conflict import conflict_with
from paimon_core.commit.index_changes import combine_index_files
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.index.deletion_vectors import DELETION_VECTORS_INDEX
from paimon_core.manifest.data_file import FileKind, IndexManifestEntry, ManifestEntry
from paimon_core.snapshot.snapshot import Snapshot

_File = tuple[bytes, int, str]
"""Partition, bucket and name of a data file."""


def check_vectors(
    *,
    table: str,
    latest: Snapshot,
    base: Sequence[ManifestEntry],
    index_files: Sequence[IndexManifestEntry],
    changes: ManifestChanges,
    bucket_unaware: bool,
) -> None:
    """Raise CommitConflict if the vectors after the commit do not match its files.

    `base` holds the live files of all partitions that change, `index_files` all index files of the
    newest snapshot.
    """
    added = _files(changes.files, FileKind.ADD)
    gone = _files(changes.files, FileKind.DELETE) - added
    after = combine_index_files(
        index_files, changes.index_files, table=table, bucket_unaware=bucket_unaware
    )
    live: set[_File] | None = None
    known = {e.index_file.file_name for e in index_files}
    for entry in after:
        if entry.index_file.index_type != DELETION_VECTORS_INDEX:
            continue
        is_new = entry.index_file.file_name not in known
        for vector in entry.index_file.dv_ranges or ():
            file = (entry.partition, entry.bucket, vector.data_file)
            if file in gone:
                raise conflict_with(
                    table,
                    latest,
                    f"rows of file {vector.data_file}, which this commit replaces, were deleted "
                    f"meanwhile",
                    file=vector.data_file,
                )
            if is_new:
                if live is None:
                    live = (_files(base, FileKind.ADD) | added) - gone
                if file not in live:
                    raise conflict_with(
                        table,
                        latest,
                        f"file {vector.data_file}, whose rows this commit deletes, is no longer "
                        f"there",
                        file=vector.data_file,
                    )


def _files(entries: Iterable[ManifestEntry], kind: FileKind) -> set[_File]:
    return {(e.partition, e.bucket, e.file.file_name) for e in entries if e.kind is kind}
