"""Row ids of new files (Java: `operation/commit/RowTrackingCommitUtils`; java-rules L1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from paimon_core.errors import CorruptTable
from paimon_core.manifest.data_file import FileSource, ManifestEntry, ManifestFileMeta
from paimon_core.names import LARGEST_LONG
from paimon_core.read.data_evolution import is_blob_file
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import Snapshot


def by_partition(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries with those of a partition next to each other, otherwise in their order.

    So the row ids of a commit have no gaps within a partition, and compaction joins its files.
    """
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition, []).append(entry)
    return [entry for group in groups.values() for entry in group]


def free_row_id(manifests: Iterable[ManifestFileMeta]) -> int:
    """Return the first row id after those of all files of the manifests, as far as these say."""
    return max((m.max_row_id + 1 for m in manifests if m.max_row_id is not None), default=0)


def next_row_id_of(
    snapshot: Snapshot | None, manifests: Iterable[ManifestFileMeta], *, table: str
) -> int:
    """Return the first row id for new files after a snapshot with these manifests.

    Raises CorruptTable if a file has it, which Java does not check: rows of two files would have
    the same ids, and one of them would hide the other.
    """
    if snapshot is None:
        return 0
    next_row_id, free = snapshot.next_row_id or 0, free_row_id(manifests)
    if next_row_id < free:
        raise CorruptTable(
            f"snapshot {snapshot.id} of table {table} says that new rows have ids from "
            f"{next_row_id} on, but its files have ids below {free}",
            table=table,
            snapshot=snapshot.id,
            next_step="run `caretaker verify` on the table, and roll back to a snapshot without "
            "this finding",
        )
    return next_row_id


def with_row_ids(
    entries: Sequence[ManifestEntry], *, table: str, snapshot_id: int, next_row_id: int
) -> tuple[list[ManifestEntry], int]:
    """Return the entries of snapshot `snapshot_id` with row ids assigned, and the next row id.

    Files from a writer get row ids in the order of the entries, unless they already have row ids or
    hold a row id column.  The BLOB files of a column have the rows of the data file before them.
    Files without numbers (smallest sequence number 0) get the snapshot's id as sequence number;
    files with some changed rows (largest number 0) get it as the largest.  CorruptTable if no ids
    are left for them.
    """
    result: list[ManifestEntry] = []
    blobs_from, next_of_blobs = next_row_id, dict[str, int]()
    for entry in entries:
        file = entry.file
        if file.min_sequence_number == 0:
            file = replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        elif file.max_sequence_number == 0:
            file = replace(file, max_sequence_number=snapshot_id)
        brings_ids = file.write_cols is not None and ROW_ID in file.write_cols
        if file.file_source is FileSource.APPEND and file.first_row_id is None and not brings_ids:
            if is_blob_file(file) and file.write_cols:
                (column,) = file.write_cols
                first = next_of_blobs.get(column, blobs_from)
                next_of_blobs[column] = first + file.row_count
            else:
                first = blobs_from = next_row_id
                next_row_id += file.row_count
                next_of_blobs.clear()
            file = replace(file, first_row_id=first)
        result.append(entry if file is entry.file else replace(entry, file=file))
    if not 0 <= next_row_id <= LARGEST_LONG:
        raise CorruptTable(
            f"the ids of new rows of table {table} would reach {next_row_id}, which does not fit into "
            "64 bits",
            table=table,
            snapshot=snapshot_id,
        )
    return result, next_row_id
