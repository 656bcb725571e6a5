"""Deletes the rows that match a condition, in one commit.

Java: the row-level commands of its Spark connector (`DeleteFromPaimonTableCommand`).

- Primary-key tables get a delete for each matching key.
- Append tables with deletion vectors get vectors; the files stay, and so do the ids of the rows.
- In other append tables the files with matching rows are rewritten without them.

Append tables are committed against the files that were read: CommitConflict if another commit
replaced one of them meanwhile.  Memory is bounded by one batch and the positions of deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.features import check_rows_changeable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.engines.traits import removes_deleted_keys, traits_of
from paimon_core.lsm.merge_engine import DELETE
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import (
    DATA_EVOLUTION_ENABLED,
    DELETION_VECTORS_ENABLED,
    IGNORE_DELETE,
    ROW_TRACKING_ENABLED,
)
from paimon_core.predicate import Predicate, evaluate, fields_of
from paimon_core.read.data_evolution import anchor, has_data_evolution
from paimon_core.read.data_file import read_table_file
from paimon_core.read.table_read import bucket_vectors, by_file_indexes
from paimon_core.scan.scan import in_plan_order, scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.sink.row_deletions import file_deletion, vector_deletions
from paimon_core.table.sink.write_session import (
    commit_files,
    commit_write,
    delete_messages,
    new_writer,
)
from paimon_core.table.source.batch_scan import BatchScan, read_batch
from paimon_core.table.source.placed_rows import cheap_column, group_units
from paimon_core.write.incoming_rows import without_defaults
from paimon_core.write.on_failure import aborted_on_failure
from paimon_core.write.row_writer import RowWriter


@dataclass(frozen=True, slots=True)
class Deleted:
    """The number of deleted rows, and the snapshots of the commit; none if no row matched."""

    rows: int
    snapshots: tuple[Snapshot, ...] = ()


def delete_rows(table: FileStoreTable, predicate: Predicate, *, env: Environment) -> Deleted:
    """Delete the rows of the newest snapshot that match.

    Raises UnsupportedFeature for tables that do not allow it: row tracking without deletion
    vectors, merge engines that keep the row of a deleted key, `ignore-delete`.  Raises
    CommitConflict if another commit changed the rows meanwhile; nothing is deleted then.
    """
    table, snapshot = table.at_newest_snapshot()
    check_deletable(table)
    if snapshot is None:
        return Deleted(0)
    if table.has_primary_key:
        return _delete_keys(table, snapshot, predicate, env)
    return _AppendDelete(table, snapshot, predicate, env).run()


def count_rows(table: FileStoreTable, predicate: Predicate) -> int:
    """Return how many rows of the newest snapshot `delete_rows` deletes; errors as there."""
    check_deletable(table)
    snapshot = table.snapshots.latest()
    if snapshot is None:
        return 0
    columns = _named(table, predicate)
    rows = read_batch(BatchScan(table=table, whole=snapshot), columns=columns, predicate=predicate)
    return sum(batch.num_rows for batch in rows)


def check_deletable(table: FileStoreTable) -> None:
    """Raise UnsupportedFeature for tables whose rows cannot be deleted one by one."""
    check_rows_changeable(table)
    without_vectors = not table.options.value(DELETION_VECTORS_ENABLED)
    for option, next_step in _TRACKING.items():
        if table.options.value(option) and without_vectors:
            raise UnsupportedFeature(
                f"deleting rows of tables with {option.key} and without deletion vectors",
                table=table.name,
                next_step=next_step,
            )
    if not table.has_primary_key:
        return
    if table.options.value(IGNORE_DELETE):
        raise UnsupportedFeature(
            "deleting rows of a table with ignore-delete",
            f"table {table.name} ignores deletes (option ignore-delete)",
            table=table.name,
        )
    if not removes_deleted_keys(table.options):
        traits = traits_of(table.options)
        raise UnsupportedFeature(
            f"deleting rows with merge-engine {traits.name}",
            f"merge engine {traits.name} of table {table.name} keeps the row of a deleted key",
            table=table.name,
            next_step=f"set {' or '.join(traits.removing_options)}"
            if traits.removing_options
            else "overwrite the partition",
        )


_TRACKING: Final = {
    DATA_EVOLUTION_ENABLED: "set deletion-vectors.modifiable=true, "
    "then deletion-vectors.enabled=true",
    ROW_TRACKING_ENABLED: "use DELETE of SQL, which rewrites the files",
}
"""Options of tables whose rows have ids, and what to do without deletion vectors."""


def _named(table: FileStoreTable, predicate: Predicate) -> list[str]:
    """Return the columns that the predicate needs; else one that is cheap to read."""
    fields = fields_of(predicate)
    return [n for n in table.schema.names if n in fields] or [cheap_column(table)]


def _delete_keys(
    table: FileStoreTable, snapshot: Snapshot, predicate: Predicate, env: Environment
) -> Deleted:
    user = new_commit_user(table, env)
    writer = new_writer(without_defaults(table), env=env, user=user)
    count = 0
    with aborted_on_failure((writer,)):
        for batch in read_batch(BatchScan(table=table, whole=snapshot), predicate=predicate):
            count += batch.num_rows
            rows = batch.drop_columns([VALUE_KIND])
            writer.write(rows, np.full(batch.num_rows, DELETE, np.int8))
        messages = writer.prepare_commit()
    if not count:
        return Deleted(0)
    made = commit_write(table, messages, env=env, user=user, rows_at=snapshot.identity)
    return Deleted(count, made)


class _AppendDelete:
    """One delete from an append table."""

    def __init__(
        self, table: FileStoreTable, snapshot: Snapshot, predicate: Predicate, env: Environment
    ) -> None:
        self._table = table
        self._snapshot = snapshot
        self._predicate = predicate
        self._env = env
        self._index_files = vector_files(table, snapshot)
        self._count = 0

    def run(self) -> Deleted:
        table = self._table
        user = new_commit_user(table, self._env)
        writer = new_writer(without_defaults(table), env=self._env, user=user)
        vectors = table.options.value(DELETION_VECTORS_ENABLED)
        messages: list[CommitMessage] = []
        try:
            for message in self._with_vectors() if vectors else self._rewritten(writer):
                messages.append(message)  # noqa: PERF402 - those before a failure are cleaned up
            if not messages:
                writer.abort()
                return Deleted(0)
            messages += writer.prepare_commit()
        except BaseException:
            writer.abort()
            delete_messages(table, messages)
            raise
        return Deleted(self._count, commit_files(table, messages, env=self._env, user=user))

    # --- finding rows ---

    def _files(self) -> Iterator[tuple[ManifestEntry, Positions | None]]:
        """Yield each file with the positions that are deleted already."""
        table, predicate = self._table, self._predicate
        found = list(scan_files(table, self._snapshot, predicate=predicate))
        for entry in in_plan_order(table, by_file_indexes(table, found, predicate)):
            bucket = entry.partition, entry.bucket
            vectors = bucket_vectors(table, bucket, self._index_files.get(bucket, ()))
            yield entry, vectors.get(entry.file.file_name)

    def _matching(self, entry: ManifestEntry, deleted: Positions | None) -> Positions:
        """Return the positions of live rows that match."""
        found: list[Positions] = []
        for first, batch in self._rows(entry, _named(self._table, self._predicate)):
            places = np.flatnonzero(np.asarray(evaluate(self._predicate, batch))) + first
            if deleted is not None:
                places = places[np.isin(places, deleted, invert=True)]
            found.append(places.astype(np.int64))
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _rows(self, entry: ManifestEntry, names: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the file's batches with the position of their first row."""
        table = self._table
        first = 0
        for batch in read_table_file(
            table, entry.partition, entry.bucket, entry.file, table.schema.row_type.project(names)
        ):
            yield first, batch
            first += batch.num_rows

    # --- copy on write ---

    def _rewritten(self, writer: RowWriter) -> Iterator[CommitMessage]:
        """Write what is left of the files concerned; yield messages that delete the old ones."""
        for entry, deleted in self._files():
            gone = self._matching(entry, deleted)
            if not len(gone):
                continue
            if deleted is not None:
                raise UnsupportedFeature(
                    "deletion vectors of a table whose deletion-vectors.enabled is false",
                    table=self._table.name,
                    next_step="compact the table fully, then delete again",
                )
            self._count += len(gone)
            for first, batch in self._rows(entry, list(self._table.schema.names)):
                places = np.arange(first, first + batch.num_rows)
                rest = batch.filter(pa.array(np.isin(places, gone, invert=True)))
                if rest.num_rows:
                    writer.write(rest)
            yield file_deletion(entry)

    # --- deletion vectors ---

    def _with_vectors(self) -> Iterator[CommitMessage]:
        """Write vectors in place of the index files that hold those of the same files."""
        evolves = has_data_evolution(self._table)
        touched: list[tuple[ManifestEntry, Positions]] = []
        for entry, gone in self._in_groups() if evolves else self._in_files():
            if len(gone):
                self._count += len(gone)
                touched.append((entry, gone))
        yield from vector_deletions(
            self._table, touched, index_files=self._index_files, env=self._env
        )

    def _in_files(self) -> Iterator[tuple[ManifestEntry, Positions]]:
        for entry, deleted in self._files():
            yield entry, self._matching(entry, deleted)

    def _in_groups(self) -> Iterator[tuple[ManifestEntry, Positions]]:
        """Yield the file of each group that has the vector of all its rows, and their positions."""
        names = _named(self._table, self._predicate)
        for unit in group_units(self._table, self._snapshot, self._predicate):
            found = [
                placed.positions[np.asarray(evaluate(self._predicate, placed.rows))]
                for placed in unit.batches(self._table, names)
            ]
            yield anchor(unit.group), np.concatenate([np.empty(0, np.int64), *found])
