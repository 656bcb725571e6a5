"""The row changes of snapshots (Java: `IncrementalDeltaStartingScanner`, follow-up scanners).

For tables without a changelog, the changes are the files that APPEND snapshots add; with a
changelog producer, they are the changelog files.  Rows are returned as written, with their kinds,
unmerged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.features import check_readable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.lsm.changelog_producers import changelog_producer_of
from paimon_core.manifest.data_file import FileKind, ManifestEntry
from paimon_core.paths import POSTPONE_BUCKET
from paimon_core.read.damaged_files import readable_rows
from paimon_core.read.data_file import read_data_file
from paimon_core.read.table_read import BATCH_ROWS
from paimon_core.scan.scan import scan_changelog, scan_delta
from paimon_core.scan.splits import skips_level_0
from paimon_core.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from paimon_core.snapshot.snapshot import CommitKind, Snapshot
from paimon_core.types.buffers import int8_array


def has_changelog(table: FileStoreTable) -> bool:
    """Return whether the table's changes are in changelog files."""
    return table.has_primary_key and changelog_producer_of(table.options).has_changelog


def changes_of(
    table: FileStoreTable, snapshot: Snapshot, mode: str = "auto"
) -> list[ManifestEntry] | None:
    """Return the files with the snapshot's changes; None if it has no changes to report.

    `mode` is "delta" or "changelog"; "auto" chooses what the table has.  Compactions and overwrites
    of tables without changelog are skipped, as in Java: they move rows, or replace them without
    recording it.
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
    mode: str,
    columns: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes after `start`, up to and including `end`, as `read_changes`.

    `columns` are by default those of the table.  Raises InvalidArgument if some of the snapshots
    are gone; `start` may be the one before the earliest.
    """
    check_readable(table)
    earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if earliest is None or latest is None or start < earliest - 1 or end > latest:
        raise InvalidArgument(
            f"table {table.name} has the snapshots {earliest} to {latest}, but not all of {start} to {end}",
            table=table.name,
        )
    names = table.schema.names if columns is None else columns
    return _read_range(table, range(start + 1, end + 1), names, mode)


def _read_range(
    table: FileStoreTable, ids: range, columns: Collection[str], mode: str
) -> Iterator[pa.RecordBatch]:
    newest = table.latest_or_not_found()
    # Like its batch reads, Java 1.4 skips level 0 here; 2.0 does not.
    skip_level_0 = skips_level_0(table) and not newest.written_by_2_0
    for snapshot_id in ids:
        snapshot = table.snapshots.get(snapshot_id)
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            continue  # no changes, neither as delta nor as changelog
        entries = [
            e
            for e in changes_of(table, snapshot, mode) or []
            if e.bucket != POSTPONE_BUCKET and not (skip_level_0 and e.file.level == 0)
        ]
        yield from read_changes(table, entries, columns)


def read_changes(
    table: FileStoreTable, entries: Iterable[ManifestEntry], columns: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these files unmerged, including deletes: `_VALUE_KIND` and the columns.

    The columns come in the order of the table; rows with a key have `_SEQUENCE_NUMBER` too.
    """
    names = [n for n in table.schema.names if n in columns]
    read_type = table.schema.row_type.project(names)
    number = [SEQUENCE_NUMBER] if SEQUENCE_NUMBER in columns else []
    for entry in entries:
        file = entry.file
        path = table.paths.data_file(entry.partition, entry.bucket, file)
        batches = read_data_file(
            table.io,
            path,
            file,
            file_schema=table.schema_of(file.schema_id),
            read_type=read_type,
            key_value=table.has_primary_key,
            batch_rows=BATCH_ROWS,
            partition=entry.partition,
        )
        for batch in readable_rows(table, path, batches):
            if table.has_primary_key:
                yield batch.select([VALUE_KIND, *names, *number])
            else:
                kinds = int8_array(np.zeros(batch.num_rows, np.int8))
                yield pa.RecordBatch.from_arrays([kinds, *batch.columns], [VALUE_KIND, *names])
