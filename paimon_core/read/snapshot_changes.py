"""What snapshots changed, row by row (Java: `IncrementalDeltaStartingScanner`, follow-up scanners).

Tables without a changelog tell their changes by the files that APPEND snapshots add; those with a
changelog producer by changelog files.  Rows come as they were written, with their kinds, unmerged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.features import check_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.data_file import read_data_file
from paimon_core.read.table_read import BATCH_ROWS, skips_level_0
from paimon_core.scan.scan import scan_changelog, scan_delta
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.types.buffers import int8_array


def has_changelog(table: FileStoreTable) -> bool:
    """Whether the table's changes are in changelog files."""
    return table.has_primary_key and changelog_producer_of(table.options).has_changelog


def changes_of(
    table: FileStoreTable, snapshot: Snapshot, mode: str = "auto"
) -> list[ManifestEntry] | None:
    """The files that hold what the snapshot changed; None for one that changed nothing to tell.

    `mode`: "delta" and "changelog" ask for the one or the other, "auto" for what the table has.

    Compactions and overwrites of tables without changelog move rows, or replace them without
    saying so, and are passed over as in Java.
    """
    if mode == "changelog" or (mode == "auto" and has_changelog(table)):
        if snapshot.changelog_manifest_list is None:
            return None
        return scan_changelog(table, snapshot)
    if snapshot.commit_kind is not CommitKind.APPEND:
        return None
    entries = scan_delta(table, snapshot)
    for entry in entries:
        if entry.kind is not FileKind.ADD:
            raise CorruptTable(
                f"the append {snapshot.id} deletes file {entry.file.file_name}",
                table=table.name,
                snapshot=snapshot.id,
                file=entry.file.file_name,
            )
    return entries


def read_between(
    table: FileStoreTable,
    start: int,
    end: int,
    *,
    columns: Sequence[str] | None = None,
    mode: str = "auto",
) -> Iterator[pa.RecordBatch]:
    """What the snapshots after `start`, up to and including `end`, changed: `_VALUE_KIND` + columns.

    InvalidArgument if some of them are gone; `start` may be the one before the earliest.
    """
    check_readable(table)
    earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if earliest is None or latest is None or start < earliest - 1 or end > latest:
        raise InvalidArgument(
            f"table {table.name} has the snapshots {earliest} to {latest}, but not all of {start} to {end}",
            table=table.name,
        )
    return _read_range(table, range(start + 1, end + 1), columns or table.schema.names, mode)


def _read_range(
    table: FileStoreTable, ids: range, columns: Collection[str], mode: str
) -> Iterator[pa.RecordBatch]:
    newest = table.latest_or_not_found()
    # Java 1.4 does not look at level 0 here where a batch read would not either; 2.0 does.
    skip_level_0 = skips_level_0(table) and not newest.written_by_2_0
    for snapshot_id in ids:
        snapshot = table.snapshots.get(snapshot_id)
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            continue  # tells nothing, as delta or as changelog
        entries = [
            e
            for e in changes_of(table, snapshot, mode) or []
            if e.bucket != POSTPONE_BUCKET and not (skip_level_0 and e.file.level == 0)
        ]
        yield from read_changes(table, entries, columns)


def read_changes(
    table: FileStoreTable, entries: Iterable[ManifestEntry], columns: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of these files as they stand, deletes and all: `_VALUE_KIND` and the columns."""
    names = [n for n in table.schema.names if n in columns]
    read_type = table.schema.row_type.project(names)
    for entry in entries:
        file = entry.file
        for batch in read_data_file(
            table.io,
            table.paths.data_file(entry.partition, entry.bucket, file),
            file,
            file_schema=table.schema_of(file.schema_id),
            read_type=read_type,
            key_value=table.has_primary_key,
            batch_rows=BATCH_ROWS,
            partition=entry.partition,
        ):
            if table.has_primary_key:
                yield batch.select([VALUE_KIND, *names])
            else:
                kinds = int8_array(np.zeros(batch.num_rows, np.int8))
                yield pa.RecordBatch.from_arrays([kinds, *batch.columns], [VALUE_KIND, *names])
