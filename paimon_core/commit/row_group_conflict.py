"""Checks updates and compactions of tables with data evolution against the newest snapshot.

Java: `operation/commit/ConflictDetection`, the checks of row ids.  An update of columns holds
values for all rows of a group of files, so it must not hide columns that another commit wrote
meanwhile, and the rows must still be there.  A compaction makes one group of several, and an update
that came first may hold only some rows of it: nobody could read both.  If the compaction gives the
rows new ids, an update of the old ones would be lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from paimon_core.commit.conflict import conflict_with
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.errors import RowsChanged
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import (
    DataFileMeta,
    FileKind,
    IndexManifestEntry,
    ManifestEntry,
)
from paimon_core.options import GLOBAL_INDEX_COLUMN_UPDATE_ACTION
from paimon_core.read.data_evolution import (
    files_of_lost_ids,
    has_data_evolution,
    held_columns,
    is_dedicated,
)
from paimon_core.scan.global_index import IGNORED_UPDATES, index_range, indexed_id
from paimon_core.snapshot.snapshot import Snapshot

RowGroup = Sequence[ManifestEntry]
"""Files with the same rows, as an update read them."""


def check_row_groups(
    *, table: str, latest: Snapshot, base: Iterable[ManifestEntry], groups: Iterable[RowGroup]
) -> None:
    """Raise RowsChanged if the rows of a group are now in other files than those read.

    `base` holds the live entries of all partitions of the groups.
    """
    live = [e for e in base if e.file.first_row_id is not None]
    for group in groups:
        place = group[0].partition, group[0].bucket
        first, last = _range(group[0])
        now = set()
        for entry in live:
            start, end = _range(entry)
            if (entry.partition, entry.bucket) == place and start <= last and end >= first:
                now.add(entry.file.file_name)
        if now != {e.file.file_name for e in group}:
            raise RowsChanged(
                f"cannot commit to table {table}: For Data Evolution table, multiple 'MERGE INTO' "
                "operations have encountered conflicts, updating the same file, which can render "
                f"some updates ineffective. Rows {first} to {last} were changed before snapshot "
                f"{latest.id}",
                table=table,
                snapshot=latest.id,
            )


def check_indexed_columns(
    table: FileStoreTable,
    *,
    latest: Snapshot,
    index_files: Iterable[IndexManifestEntry],
    changes: ManifestChanges,
) -> None:
    """Raise CommitConflict if new columns would make a global index wrong.

    Updates refuse columns with an index or drop it, but it may be newer than their plan.
    """
    if table.options.value(GLOBAL_INDEX_COLUMN_UPDATE_ACTION) == IGNORED_UPDATES:
        return
    dropped = {e.index_file.file_name for e in changes.index_files if e.kind is FileKind.DELETE}
    indexes = [
        e.index_file
        for e in index_files
        if e.index_file.global_index is not None and e.index_file.file_name not in dropped
    ]
    for entry in changes.files:
        file = entry.file
        if entry.kind is not FileKind.ADD or file.first_row_id is None or file.write_cols is None:
            continue
        columns = held_columns(table, file)
        for index in indexes:
            covered = index_range(index)
            if (
                indexed_id(index) in columns
                and covered.first < _end(file)
                and covered.last >= _first(file)
            ):
                raise conflict_with(
                    table.name,
                    latest,
                    f"file {file.file_name} has new values of a column that got the global index "
                    f"{index.file_name} meanwhile",
                    file=file.file_name,
                )


def check_merged_groups(
    table: FileStoreTable,
    *,
    latest: Snapshot,
    base: Iterable[ManifestEntry],
    delta: Iterable[ManifestEntry],
) -> None:
    """Raise CommitConflict if compacted groups cannot be read beside the other files.

    `base` holds the live entries of all partitions that `delta` touches.
    """
    changes = list(delta)
    gone = {e.identity: e.file for e in changes if e.kind is FileKind.DELETE}
    added = [e.file for e in changes if e.kind is FileKind.ADD]
    removed = list(gone.values())
    others: list[DataFileMeta] = []
    for entry in base:
        read = gone.get(entry.identity)
        if read is None:
            others.append(entry.file)
        elif read.first_row_id != entry.file.first_row_id:
            raise conflict_with(
                table.name,
                latest,
                f"the rows of file {read.file_name} got other row ids meanwhile",
                file=read.file_name,
            )
    found = torn_rows(table, added, others)
    if found is not None:
        left, right = (f.file_name for f in found)
        raise conflict_with(
            table.name,
            latest,
            f"files {left} and {right} would share only some rows: columns were updated during a "
            "compaction",
            file=right,
        )
    update = update_of_lost_ids(removed, added, others)
    if update is not None:
        raise conflict_with(
            table.name,
            latest,
            f"file {update.file_name} has new values of rows that a compaction gives new ids",
            file=update.file_name,
        )


def update_of_lost_ids(
    removed: Iterable[DataFileMeta],
    added: Iterable[DataFileMeta],
    others: Iterable[DataFileMeta],
) -> DataFileMeta | None:
    """Return another live file with values of rows that got new ids; None if there is none."""
    lost = sorted((_first(f), _end(f)) for f in files_of_lost_ids(removed, added))
    for file in others:
        if lost and file.first_row_id is not None:
            before = bisect_left(lost, (_end(file),)) - 1
            if before >= 0 and lost[before][1] > _first(file):
                return file
    return None


def without_indexes_of_lost_ids(
    table: FileStoreTable, latest: Snapshot | None, changes: ManifestChanges
) -> ManifestChanges:
    """Return the changes, and without the global indexes of partitions whose rows get new ids.

    Those of the newest snapshot: an index may be newer than the plan of the compaction (Java:
    `DataEvolutionCompactGlobalIndexDropper`).
    """
    if latest is None or not has_data_evolution(table):
        return changes
    removed: dict[bytes, list[DataFileMeta]] = defaultdict(list)
    added: dict[bytes, list[DataFileMeta]] = defaultdict(list)
    for entry in changes.files:
        (removed if entry.kind is FileKind.DELETE else added)[entry.partition].append(entry.file)
    partitions = {p for p, files in removed.items() if files_of_lost_ids(files, added[p])}
    if not partitions:
        return changes
    named = {e.index_file.file_name for e in changes.index_files}
    dropped = tuple(
        replace(e, kind=FileKind.DELETE)
        for e in table.index_entries(latest)
        if e.partition in partitions
        and e.index_file.global_index is not None
        and e.index_file.file_name not in named
    )
    return replace(changes, index_files=(*changes.index_files, *dropped))


def torn_rows(
    table: FileStoreTable, added: Collection[DataFileMeta], others: Iterable[DataFileMeta]
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Return two files that cannot be read together once files are added; None if all can.

    Data files that share rows must have the same ones.  Files that the commit gives row ids share
    none.
    """
    placed = [f for f in added if f.first_row_id is not None]
    live = [*placed, *(f for f in others if f.first_row_id is not None)]
    ordered = sorted(
        (f for f in live if not is_dedicated(f)), key=lambda f: (_first(f), f.row_count)
    )
    for file, other in pairwise(ordered):
        if _first(other) < _end(file) and (_first(other), _end(other)) != (
            _first(file),
            _end(file),
        ):
            return file, other
    return partly_held_column(table, (f for f in placed if not is_dedicated(f)), live)


def partly_held_column(
    table: FileStoreTable, files: Iterable[DataFileMeta], live: Iterable[DataFileMeta]
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Return one of the data files, and a live one with BLOBs of only some of its rows.

    None if there are none.  Java may commit such files, and cannot read them.
    """
    apart = sorted((f for f in live if is_dedicated(f)), key=_first)
    starts = [_first(f) for f in apart]
    for file in files:
        reached: dict[int, int] = {}
        last: dict[int, DataFileMeta] = {}
        for other in apart[bisect_left(starts, _first(file)) : bisect_left(starts, _end(file))]:
            for column in held_columns(table, other):
                if _first(other) > reached.setdefault(column, _first(file)):
                    return file, other
                reached[column] = max(reached[column], _end(other))
                last[column] = other
        for column, end in reached.items():
            if end < _end(file):
                return file, last[column]
    return None


def _first(file: DataFileMeta) -> int:
    assert file.first_row_id is not None
    return file.first_row_id


def _end(file: DataFileMeta) -> int:
    return _first(file) + file.row_count


def _range(entry: ManifestEntry) -> tuple[int, int]:
    return _first(entry.file), _end(entry.file) - 1
