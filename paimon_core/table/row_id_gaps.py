"""Gives the rows of each partition row ids without gaps, so that compaction can join their files.

Java: `append/dataevolution/DataEvolutionRowIdReassigner`, `DataEvolutionRowIdAssignmentPlanner`;
java-rules L2.

Each commit numbers its rows after those of the commits before.  If commits write into the same
partitions in turn, the ids of a partition have gaps, and data evolution joins only files without a
gap between their ids::

    partition   a     b     a     b             a         b
    row ids     0..4  5..9  10..14  15..19  ->  20..29    30..39
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import check_mergeable
from paimon_core.commit.renumbering import MovedRows, Renumbering
from paimon_core.commit.request import CommitRequest
from paimon_core.commit.row_tracking import next_row_id_of
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, InvalidArgument
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.manifest.entries.columns import NULL, Column, EntryColumns
from paimon_core.options import REASSIGN_SKIP_CONTIGUOUS_ROWS
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution, is_dedicated
from paimon_core.scan.columns import scan_columns
from paimon_core.scan.manifests import data_manifests
from paimon_core.scan.row_ranges import are_dedicated, check_row_ids, joined_ranges
from paimon_core.scan.scan import partition_filter, partition_order
from paimon_core.snapshot.snapshot import CommitKind, Snapshot


def planned_renumbering(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None
) -> Renumbering:
    """Return the new row ids of all partitions whose ids have gaps, as far as these match.

    Runs without a gap of more than `data-evolution.reassign.skip-contiguous-row-count` rows keep
    their ids.  Raises CorruptTable for files without row ids, InvalidArgument for a table without
    data evolution.
    """
    check_committable(table)
    if not has_data_evolution(table):
        raise InvalidArgument(
            f"table {table.name} must enable data-evolution.enabled before row ids are reassigned",
            table=table.name,
            next_step="nothing: only tables with data evolution need row ids without gaps",
        )
    next_row_id = snapshot.next_row_id
    if next_row_id is None:
        raise CorruptTable(
            f"snapshot {snapshot.id} of table {table.name} has no next row id",
            table=table.name,
            snapshot=snapshot.id,
        )
    manifests = data_manifests(table, snapshot)
    check_mergeable(manifests)
    moved: dict[bytes, MovedRows] = {}
    if table.schema.partition_keys:
        live = scan_columns(table, snapshot, ("first_row_id", "row_count"))
        check_row_ids(table, live)
        next_row_id = next_row_id_of(snapshot, manifests, table=table.name)
        for partition, runs in _runs_by_partition(table, live, predicate):
            try:
                rows = _moved_rows(table, runs, next_row_id)
            except OverflowError as e:
                raise CorruptTable(
                    f"row ids of snapshot {snapshot.id} of table {table.name} do not fit into 64 "
                    "bits",
                    table=table.name,
                    snapshot=snapshot.id,
                ) from e
            if rows is not None:
                moved[partition] = rows
                next_row_id += rows.count
    return Renumbering(moved, next_row_id)


def commit_renumbering(
    table: FileStoreTable, predicate: Predicate | None, *, user: str, env: Environment
) -> tuple[Snapshot, Renumbering]:
    """Give rows new ids in one OVERWRITE snapshot without changes to files; return both.

    The ids are those of `planned_renumbering` for the snapshot that the commit builds on.
    """
    done: list[Renumbering] = []

    def provide(latest: Snapshot | None) -> ManifestChanges:
        planned = (
            Renumbering({}, 0) if latest is None else planned_renumbering(table, latest, predicate)
        )
        done.append(planned)
        entries = () if latest is None else table.index_entries(latest)
        return ManifestChanges(
            index_files=tuple(planned.index_changes(entries)), renumbering=planned
        )

    request = CommitRequest(user=user, kind=CommitKind.OVERWRITE)
    snapshot = commit_changes(table, provide, request, env=env)
    return snapshot, done[-1]


def without_gaps(table: FileStoreTable, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
    """Return all files of a partition with the row ids that `planned_renumbering` would give them.

    Files that would keep their ids are as they are.
    """
    rows = [f for f in files if f.first_row_id is not None and not is_dedicated(f)]
    if not rows or not table.schema.partition_keys:
        return files
    starts = np.array([f.first_row_id for f in rows], np.int64)
    stops = starts + np.array([f.row_count for f in rows], np.int64)
    order = np.argsort(starts, kind="stable")
    runs = joined_ranges(starts[order], stops[order])
    moved = _moved_rows(table, runs, runs[-1].stop)
    return files if moved is None else [moved.file(f) or f for f in files]


def _moved_rows(table: FileStoreTable, runs: Sequence[range], to: int) -> MovedRows | None:
    """Return the move of a partition's rows to the ids from `to` on; None if they stay."""
    lengths = np.array([len(r) for r in runs], np.int64)
    short = [runs[i] for i in np.flatnonzero(is_short(table, lengths)).tolist()]
    return MovedRows.of(short, to) if len(short) > 1 else None


def is_short(table: FileStoreTable, lengths: Column) -> Column:
    """Return whether ranges of so many rows move where a partition has several of them."""
    most = table.options.value(REASSIGN_SKIP_CONTIGUOUS_ROWS)
    return np.full(len(lengths), True) if most <= 0 else lengths <= most


def _runs_by_partition(
    table: FileStoreTable, live: EntryColumns, predicate: Predicate | None
) -> Iterator[tuple[bytes, list[range]]]:
    """Yield partitions in the order of their values, with their row ids as ranges with gaps."""
    keep = partition_filter(table, predicate)
    rows = live.partitions.rows
    wanted = np.array([keep is None or keep(row) for row in rows], bool)
    first, partition = live.numbers["first_row_id"], live.partition
    chosen = wanted[partition] if len(rows) else np.zeros(0, bool)
    without = np.flatnonzero(chosen & (first == NULL))
    if len(without):
        name = live.name(int(without[0]))
        raise CorruptTable(
            f"file {name} of table {table.name} has no row ids", table=table.name, file=name
        )
    chosen &= ~are_dedicated(live)
    at = np.flatnonzero(chosen)
    at = at[np.lexsort((first[at], partition[at]))]
    starts, stops = first[at], first[at] + live.numbers["row_count"][at]
    codes, begins = np.unique(partition[at], return_index=True)
    ends = [*begins[1:].tolist(), len(at)]
    places = {rows[code]: i for i, code in enumerate(codes.tolist())}
    for row in sorted(places, key=partition_order(table)):
        here = slice(int(begins[places[row]]), ends[places[row]])
        yield row, joined_ranges(starts[here], stops[here])
