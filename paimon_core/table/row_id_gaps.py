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

from collections.abc import Iterable, Iterator, Mapping

from paimon_core.commit.committer import commit_changes
from paimon_core.commit.manifest_changes import ManifestChanges
from paimon_core.commit.manifest_merge import check_mergeable
from paimon_core.commit.renumbering import MovedRows, Renumbering
from paimon_core.commit.request import CommitRequest
from paimon_core.environment import Environment
from paimon_core.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from paimon_core.features import check_committable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.manifest.data_file import DataFileMeta
from paimon_core.options import REASSIGN_SKIP_CONTIGUOUS_ROWS
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution, is_dedicated
from paimon_core.scan.manifests import data_manifests
from paimon_core.scan.scan import partition_order, scan_files
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import CommitKind, Snapshot


def planned_renumbering(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None
) -> Renumbering:
    """Return the new row ids of all partitions whose ids have gaps, as far as these match.

    Runs without a gap of more than `data-evolution.reassign.skip-contiguous-row-count` rows keep
    their ids.  Raises UnsupportedFeature for files that hold their row ids, CorruptTable for files
    without row ids, InvalidArgument for a table without data evolution.
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
    check_mergeable(data_manifests(table, snapshot))
    most = table.options.value(REASSIGN_SKIP_CONTIGUOUS_ROWS)
    moved: dict[bytes, MovedRows] = {}
    if table.schema.partition_keys:
        runs = _runs_by_partition(table, snapshot, predicate)
        for partition in sorted(runs, key=partition_order(table)):
            short = [r for r in runs[partition] if most <= 0 or len(r) <= most]
            if len(short) > 1:
                moved[partition] = MovedRows.of(short, next_row_id)
                next_row_id += moved[partition].count
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


def _runs_by_partition(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate | None
) -> Mapping[bytes, list[range]]:
    """Return the row ids of each partition as ranges with gaps between them, in order."""
    found: dict[bytes, list[range]] = {}
    for entry in scan_files(table, snapshot, predicate=predicate):
        rows = _rows(table, entry.file)
        if not is_dedicated(entry.file):
            found.setdefault(entry.partition, []).append(rows)
    return {partition: list(_joined(ranges)) for partition, ranges in found.items()}


def _rows(table: FileStoreTable, file: DataFileMeta) -> range:
    if file.first_row_id is None:
        raise CorruptTable(
            f"file {file.file_name} of table {table.name} has no row ids",
            table=table.name,
            file=file.file_name,
        )
    if file.write_cols is not None and ROW_ID in file.write_cols:
        raise UnsupportedFeature(
            f"column {ROW_ID} in a data file",
            f"the rows of file {file.file_name} of table {table.name} cannot get other ids: the file "
            "holds its ids",
            table=table.name,
            file=file.file_name,
            next_step="leave out its partition",
        )
    return range(file.first_row_id, file.first_row_id + file.row_count)


def _joined(ranges: Iterable[range]) -> Iterator[range]:
    """Yield ranges that overlap or follow each other as one."""
    run: range | None = None
    for rows in sorted(ranges, key=lambda r: r.start):
        if run is not None and rows.start <= run.stop:
            run = range(run.start, max(run.stop, rows.stop))
            continue
        if run is not None:
            yield run
        run = rows
    if run is not None:
        yield run
