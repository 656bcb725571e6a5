"""Sequence numbers by snapshot (Java: `FileStoreCommitImpl.stampSequenceWithSnapshotId`, 2.0).

Several writers of one primary-key table cannot agree on sequence numbers.  With
`sequence.snapshot-ordering` the later commit wins: all rows of a commit have the snapshot's id as
their number.  It is in the metadata of their files, as the files exist before the commit.  Rows
that a compaction wrote have these numbers in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_core.manifest.data_file import FileKind, ManifestEntry


def with_snapshot_numbers(
    entries: Sequence[ManifestEntry], snapshot_id: int
) -> list[ManifestEntry]:
    """Return the entries of a writer's commit, whose new files have the snapshot's id as number.

    A file that is removed and added again, with other metadata, keeps its number.
    """
    stays = {e.file.file_name for e in entries if e.kind is FileKind.DELETE}

    def numbered(entry: ManifestEntry) -> ManifestEntry:
        if entry.kind is not FileKind.ADD or entry.file.file_name in stays:
            return entry
        file = replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        return replace(entry, file=file)

    return [numbered(e) for e in entries]
