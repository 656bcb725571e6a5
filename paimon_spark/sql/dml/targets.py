"""The table that UPDATE, DELETE or MERGE changes, and the one commit that changes it.

Rows are read once from a pinned snapshot, and each is known by its number.  A primary-key table
gets changes for its keys.  An append table loses rows by deletion vectors where it has them, else
by rewriting the files concerned (copy on write); the commit fails if another commit removed those
files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.ddl.column_directives import is_blob_column
from paimon_core.environment import Environment
from paimon_core.errors import InvalidArgument, UnsupportedFeature
from paimon_core.features import check_not_renumbered, check_rows_changeable
from paimon_core.file_store_table import FileStoreTable
from paimon_core.index.deletion_vectors import Positions
from paimon_core.lsm.engines.traits import MERGE_ENGINES, removes_deleted_keys, traits_of
from paimon_core.manifest.data_file import ManifestEntry
from paimon_core.options import DELETION_VECTORS_ENABLED, IGNORE_EMPTY_COMMIT
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.read.table_read import least_level
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.schema.table_schema import SEQUENCE_NUMBER
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import NO_SNAPSHOT, Identity, Snapshot
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.level_rewrite import without_rows
from paimon_core.table.sink.real_buckets import RealBuckets
from paimon_core.table.sink.row_deletions import file_deletion, vector_deletions
from paimon_core.table.sink.write_session import (
    commit_files,
    delete_messages,
    new_writer,
    write_rows,
)
from paimon_core.table.source.batch_scan import BatchScan
from paimon_core.table.source.placed_rows import (
    FileUnit,
    PlacedRows,
    collected,
    file_units,
    scan_units,
)
from paimon_core.table.source.postponed_rows import postponed_tasks
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_core.write.incoming_rows import Kinds, fit_to_schema, without_defaults
from paimon_core.write.on_failure import aborted_on_failure
from paimon_spark.metadata_columns import metadata_columns_in, metadata_of
from paimon_spark.sql.dml.postpone import write_to_buckets
from paimon_spark.sql.dml.retry_updates import opened_beside_expiry
from paimon_spark.sql.frames.dataframes import arrow_dataframe, needed_columns, table_rows
from paimon_spark.sql.frames.evolution import EvolvedRows, commit_evolved, evolved_rows
from paimon_spark.sql.frames.pushdown import plain_condition
from paimon_spark.sql.query.column_names import columns_in
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_NUMBER: Final = "__paimon_row"
NUMBER_FIELD: Final = DataField(id=0, name=ROW_NUMBER, type=AtomicType(kind=TypeRoot.BIGINT))
Numbers = npt.NDArray[np.int64]


class ChangedTable(Protocol):
    """The table of an UPDATE, DELETE or MERGE, wherever its rows are."""

    @property
    def session(self) -> SqlSession:
        """The session of the statement."""

    @property
    def name(self) -> TableName:
        """The name in the statement."""

    @property
    def table(self) -> FileStoreTable:
        """The table."""

    def dataframe(self, text: str = "") -> DataFrame:
        """The rows with `__paimon_row`, their number, as the first column."""


@dataclass(frozen=True, slots=True)
class Target:
    """All rows of a table at a snapshot; for an append table also their positions in files.

    Of rows whose files are rewritten only to delete some, there are only the columns that the
    statement names.
    """

    session: SqlSession
    name: TableName
    table: FileStoreTable
    snapshot: Snapshot | None
    rows: pa.Table
    files: npt.NDArray[np.int32]
    positions: Numbers
    entries: Sequence[ManifestEntry]
    placed: PlacedRows | None = None
    rewrites: bool = False
    """Whether the files of a primary-key table are rewritten instead of writing changes."""
    evolved: EvolvedRows | None = None
    """The rows of a table with data evolution."""
    operation: str = "UPDATE"
    """UPDATE, DELETE or MERGE, as the snapshot names it."""
    inserts: bool = False
    """Whether rows are added that the statement did not find."""

    @property
    def _env(self) -> Environment:
        return self.session.env.doing(self.operation)

    @property
    def _looked_at(self) -> Identity | None:
        if not self.inserts:
            return None
        return NO_SNAPSHOT if self.snapshot is None else self.snapshot.identity

    def dataframe(self, text: str = "") -> DataFrame:
        """The rows with `__paimon_row`, their number, as the first column.

        They have the hidden columns that the text of the statement names.
        """
        numbers = pa.array(np.arange(self.rows.num_rows, dtype=np.int64))
        rows = self.rows.add_column(0, ROW_NUMBER, numbers)
        own = self.table.schema.row_type.project(self.rows.schema.names).fields
        fields = (NUMBER_FIELD, *own)
        if self.placed is not None:
            for field, values in metadata_of(self.placed, metadata_columns_in(text)):
                rows, fields = rows.append_column(field.name, values), (*fields, field)
        return arrow_dataframe(self.session, rows, RowType(fields=fields))

    def commit(
        self,
        removed: Numbers,
        added: pa.Table | None = None,
        kinds: Kinds | None = None,
        origins: Numbers | None = None,
        columns: Collection[str] = (),
    ) -> None:
        """Commit the removal of these rows and the addition of others.

        `kinds` belong to `added` and say what happens to keys; `removed` are the rows of an append
        table, and the rows of a primary-key table to delete.  `origins` are the rows that those of
        `added` replace, -1 for new ones (default: all are new): in a table with row tracking they
        keep their ids.  `columns` are those with new values, which matter under data evolution.
        """
        if not len(removed) and (added is None or not added.num_rows):
            if not self.table.options.value(IGNORE_EMPTY_COMMIT):
                env = self._env
                after = AfterCommit(self.table, env=env, of_engine=True)
                user = new_commit_user(self.table, env)
                commit_files(self.table, (), env=env, user=user, after=after)
            return
        if self.evolved is not None:
            self._commit_evolved(removed, added, origins, columns)
        elif self.table.has_primary_key and not self.rewrites:
            self._commit_changes(removed, added, kinds)
        else:
            self._commit_files(removed, added, origins)

    def _commit_changes(
        self, removed: Numbers, added: pa.Table | None, kinds: Kinds | None
    ) -> None:
        env = self._env
        rows = self.rows.take(pa.array(removed))
        all_kinds: Kinds = np.full(len(removed), 3, np.int8)
        if added is not None:
            new = fit_to_schema(self.table, added.select(rows.schema.names)).cast(rows.schema)
            rows = pa.concat_tables([rows, new])
            new_kinds = np.zeros(len(new), np.int8) if kinds is None else kinds
            all_kinds = np.concatenate([all_kinds, new_kinds])
        # Deleted rows are as they were read: a changelog takes back what it told before.
        table = without_defaults(self.table)
        buckets = RealBuckets.for_rows(table, rows)
        rows_at = NO_SNAPSHOT if self.snapshot is None else self.snapshot.identity
        if buckets is not None and not has_postponed(self.table, self.snapshot):
            write_to_buckets(table, rows, all_kinds, buckets, env=env, rows_at=rows_at)
        else:
            after = AfterCommit(self.table, env=env, of_engine=True)
            write_rows(table, rows, all_kinds, env=env, after=after, rows_at=rows_at)

    def _commit_evolved(
        self,
        removed: Numbers,
        added: pa.Table | None,
        origins: Numbers | None,
        columns: Collection[str],
    ) -> None:
        assert self.evolved is not None
        if added is None:
            added = self.rows.slice(0, 0)
        if origins is None:
            origins = np.full(added.num_rows, -1, np.int64)
        replaced = origins >= 0
        commit_evolved(
            self.table,
            self.evolved,
            snapshot=self.snapshot,
            updated=added.filter(pa.array(replaced)),
            numbers=origins[replaced],
            columns=columns,
            removed=np.setdiff1d(removed, origins[replaced]),
            inserted=added.filter(pa.array(~replaced)),
            env=self._env,
            rows_at=self._looked_at,
        )

    def _commit_files(
        self, removed: Numbers, added: pa.Table | None, origins: Numbers | None
    ) -> None:
        table, env = self.table, self._env
        user = new_commit_user(table, env)
        gone: dict[int, Positions] = {
            int(file): np.sort(self.positions[removed][self.files[removed] == file])
            for file in np.unique(self.files[removed])
        }
        messages: list[CommitMessage] = []
        try:
            if table.options.value(DELETION_VECTORS_ENABLED):
                kept = np.empty(0, np.int64)
                for message in self._vectors(gone):
                    messages.append(message)  # noqa: PERF402 - a failure cleans these up
            elif self.rewrites:
                kept = np.empty(0, np.int64)
                for index, positions in gone.items():
                    entry = self.entries[index]
                    messages.append(without_rows(table, entry, positions, env=env))
            else:
                stays = np.isin(self.files, list(gone))
                stays[removed] = False
                kept = np.flatnonzero(stays).astype(np.int64)
                messages += [file_deletion(self.entries[file]) for file in gone]
            for into, rows, tracked in self._new_rows(kept, added, origins):
                messages += _written(into, rows, env=env, user=user, tracked=tracked)
        except BaseException:
            delete_messages(table, messages)
            raise
        after = AfterCommit(table, env=env, of_engine=True)
        commit_files(table, messages, env=env, user=user, after=after, rows_at=self._looked_at)

    def _new_rows(
        self, kept: Numbers, added: pa.Table | None, origins: Numbers | None
    ) -> Iterator[tuple[FileStoreTable, pa.Table, bool]]:
        """Yield the table to write into, the rows, and whether they have ids (java-rules L1).

        Rows of rewritten files come in their old order, an updated one in its old place.  Those
        that stay keep their nulls, changed ones get default values.
        """
        placed, table = self.placed, self.table
        unchanged = without_defaults(table)
        if placed is None or placed.row_ids is None or placed.sequences is None:
            yield unchanged, self.rows.take(pa.array(kept)), False
            if added is not None:
                yield table, added, False
            return
        numbers, sequences = kept, pa.array(placed.sequences[kept])
        rows = self.rows.take(pa.array(kept))
        if added is not None and origins is not None:
            replaced = origins >= 0
            old = added.filter(pa.array(replaced)).select(rows.schema.names)
            old = fit_to_schema(table, old).cast(rows.schema)
            rows = pa.concat_tables([rows, old])
            numbers = np.concatenate([kept, origins[replaced]])
            sequences = pa.concat_arrays([sequences, pa.nulls(old.num_rows, pa.int64())])
            added = added.filter(pa.array(~replaced))
        order = pa.array(np.argsort(numbers, kind="stable"))
        rows = rows.append_column(ROW_ID, pa.array(placed.row_ids[numbers]))
        yield unchanged, rows.append_column(SEQUENCE_NUMBER, sequences).take(order), True
        if added is not None:
            yield table, added, False

    def _vectors(self, gone: Mapping[int, Positions]) -> Iterator[CommitMessage]:
        """New index files that replace those with vectors of the files, one message for each
        bucket.
        """
        if self.snapshot is None:
            return iter(())
        return vector_deletions(
            self.table,
            ((self.entries[file], positions) for file, positions in gone.items()),
            index_files=vector_files(self.table, self.snapshot),
            env=self._env,
        )


def has_postponed(table: FileStoreTable, snapshot: Snapshot | None) -> bool:
    """Whether changes go to the postpone bucket, where they are newer than what is there.

    Java writes them to real buckets, where the postponed rows hide them.
    """
    return snapshot is not None and bool(postponed_tasks(table, snapshot))


def _written(
    table: FileStoreTable, rows: pa.Table, *, env: Environment, user: str, tracked: bool
) -> list[CommitMessage]:
    """Write the rows; the messages of their files."""
    if not rows.num_rows:
        return []
    writer = new_writer(table, env=env, user=user, tracked=tracked)
    with aborted_on_failure((writer,)):
        writer.write(rows)
        return writer.prepare_commit()


def open_target(
    session: SqlSession,
    name: TableName,
    what: str,
    condition: str | None = None,
    *,
    text: str = "*",
) -> Target:
    """The table and its rows; `what` is UPDATE, DELETE or MERGE, `text` the statement.

    BLOBs are only fetched if the text may name their columns; otherwise they are descriptors.  With
    a `condition` that the table understands, files without a row that meets it are left out.

    UnsupportedFeature for tables that do not allow the statement: some merge engines, row tracking.
    """
    opened = opened_beside_expiry(
        session, name, partial(_opened, session, name, what, condition, text)
    )
    return replace(opened, operation=what)


def _opened(
    session: SqlSession, name: TableName, what: str, condition: str | None, text: str
) -> Target:
    table, snapshot = session.open(name, to_write=True).at_newest_snapshot()
    check_target(table, what)
    rewrites = what == "DELETE" and not deletes_by_changes(table)
    predicate = None if condition is None else plain_condition(table, condition)
    if has_data_evolution(table):
        described = not may_name_blobs(table, text)
        evolved = evolved_rows(table, snapshot, predicate, described=described)
        return _placed_target(session, name, table, snapshot, evolved.placed, evolved=evolved)
    if table.has_primary_key and not rewrites:
        rows, _ = table_rows(session, table, predicate=predicate)
        none = np.empty(0, np.int64)
        return Target(session, name, table, snapshot, rows, none.astype(np.int32), none, ())
    if rewrites:
        named = needed_columns(table, columns_in(text, of_change=True))
        placed = collected(table, unmerged_files(table, snapshot, predicate), named)
    else:
        placed = collected(table, file_units(table, snapshot, predicate), table.schema.names)
    return _placed_target(session, name, table, snapshot, placed, rewrites=rewrites)


def may_name_blobs(table: FileStoreTable, text: str) -> bool:
    """Whether a statement may need the content of a BLOB, or gives one a new value."""
    said = text.replace("``", "`").lower()
    if "*" in said or "identifier" in said:
        return True
    blobs = (re.escape(f.name.lower()) for f in table.schema.fields if is_blob_column(f.type))
    return any(re.search(rf"(?<!\w){name}(?!\w)", said) for name in blobs)


def _placed_target(
    session: SqlSession,
    name: TableName,
    table: FileStoreTable,
    snapshot: Snapshot | None,
    placed: PlacedRows,
    *,
    rewrites: bool = False,
    evolved: EvolvedRows | None = None,
) -> Target:
    return Target(
        session,
        name,
        table,
        snapshot,
        placed.rows,
        placed.files,
        placed.positions,
        placed.entries,
        placed,
        rewrites,
        evolved,
    )


def check_target(table: FileStoreTable, what: str) -> None:
    """UnsupportedFeature for tables that do not allow it."""
    check_rows_changeable(table)
    if what == "DELETE":
        check_deletable(table)
    else:
        _check_engine(table, what)


def check_deletable(table: FileStoreTable) -> None:
    """UnsupportedFeature for data evolution without deletion vectors, even to delete all rows."""
    if has_data_evolution(table) and not table.options.value(DELETION_VECTORS_ENABLED):
        raise UnsupportedFeature(
            "DELETE with data-evolution.enabled",
            "Can only perform deletion operation on data evolution tables with DeletionVector "
            "enabled.",
            table=table.name,
            next_step=f"set deletion-vectors.modifiable=true, then {DELETION_VECTORS_ENABLED.key}=true",
        )


def unmerged_files(
    table: FileStoreTable, snapshot: Snapshot | None, predicate: Predicate | None
) -> list[FileUnit]:
    """The files of a primary-key table without those that the predicate excludes.

    InvalidArgument if some of their rows have to be merged, UnsupportedFeature for a table whose
    files cannot be rewritten.
    """
    check_not_renumbered(table, "rewritten to delete rows")
    try:
        if (
            snapshot is not None
            and least_level(table)
            and any(e.file.level == 0 for e in scan_files(table, snapshot, predicate=predicate))
        ):
            raise UnsupportedFeature("rows that readers do not see yet", table=table.name)
        scan = BatchScan(table=table, whole=snapshot)
        units = scan_units(scan, needs_files=True, predicate=predicate)
        return [unit for unit in units if isinstance(unit, FileUnit)]
    except UnsupportedFeature as e:
        raise InvalidArgument(
            "Only compacted table can generate touched files, please use 'COMPACT' procedure first.",
            table=table.name,
            next_step="CALL sys.compact, then delete again",
        ) from e


def _check_engine(table: FileStoreTable, what: str) -> None:
    if not table.has_primary_key:
        return
    traits = traits_of(table.options)
    if not traits.updatable:
        updatable = ", ".join(name for name, engine in MERGE_ENGINES.items() if engine.updatable)
        raise UnsupportedFeature(
            f"{what} with merge-engine {traits.name}",
            f"merge engine {traits.name} can not support {what.title()}, currently only "
            f"{updatable} can support {what.title()}.",
            table=table.name,
            next_step="write the changes with INSERT, as the merge engine takes them",
        )


def deletes_by_changes(table: FileStoreTable) -> bool:
    """Whether a delete removes a key."""
    if not table.has_primary_key:
        return True
    return removes_deleted_keys(table.options)
