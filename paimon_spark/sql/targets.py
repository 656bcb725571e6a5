"""The table that UPDATE, DELETE or MERGE changes, and the one commit that changes it.

Rows are read once from a pinned snapshot, and each is known by its number.  A primary-key table gets
changes for its keys.  An append table loses rows by deletion vectors where it has them, else by
rewriting the files concerned (copy on write); the commit fails if those files are gone meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_core.commit.committer import commit
from paimon_core.commit.message import CommitMessage
from paimon_core.errors import CommitConflict, InvalidArgument, UnsupportedFeature
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.index.deletion_vectors import (
    DELETION_VECTORS_INDEX,
    Positions,
    read_deletion_vectors,
    union,
    write_deletion_vectors,
)
from paimon_core.manifest.data_file import IndexFileMeta, ManifestEntry
from paimon_core.options import (
    DELETION_VECTOR_BITMAP64,
    DELETION_VECTORS_ENABLED,
    parse_bool,
)
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.after_commit import AfterCommit
from paimon_core.table.batch_scan import BatchScan
from paimon_core.table.write_session import delete_messages, new_writer, write_rows
from paimon_core.types.data_types import AtomicType, DataField, RowType, TypeRoot
from paimon_core.write.incoming_rows import Kinds
from paimon_spark.sql.dataframes import arrow_dataframe, table_rows
from paimon_spark.sql.metadata_columns import (
    FILE_PATH,
    PlacedRows,
    metadata_columns_in,
    metadata_of,
    placed_rows,
    scanned_rows,
)
from paimon_spark.sql.pushdown import plain_condition
from paimon_spark.sql.session import SqlSession, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_NUMBER: Final = "__paimon_row"
NUMBER_FIELD: Final = DataField(id=0, name=ROW_NUMBER, type=AtomicType(kind=TypeRoot.BIGINT))
_UPDATABLE: Final = ("deduplicate", "partial-update")
_REMOVE: Final = {
    "partial-update": (
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
    ),
    "aggregation": ("aggregation.remove-record-on-delete",),
}
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Target:
    """All rows of a table at a snapshot; of an append table also where each of them lies."""

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

    def dataframe(self, text: str = "") -> DataFrame:
        """The rows with `__paimon_row`, their number, as the first column.

        They have the hidden columns that the text of the statement names.
        """
        numbers = pa.array(np.arange(self.rows.num_rows, dtype=np.int64))
        rows = self.rows.add_column(0, ROW_NUMBER, numbers)
        fields = (NUMBER_FIELD, *self.table.schema.fields)
        if self.placed is not None:
            for field, values in metadata_of(self.placed, metadata_columns_in(text)):
                rows, fields = rows.append_column(field.name, values), (*fields, field)
        return arrow_dataframe(self.session, rows, RowType(fields=fields))

    def commit(
        self,
        removed: Numbers,
        added: pa.Table | None = None,
        kinds: Kinds | None = None,
    ) -> None:
        """Commit that these rows are gone and others are there.

        `kinds` belong to `added` and say what happens to keys; `removed` are the rows of an append
        table, and the rows of a primary-key table to delete.
        """
        if not len(removed) and (added is None or not added.num_rows):
            return
        if self.table.has_primary_key and not self.rewrites:
            self._commit_changes(removed, added, kinds)
        else:
            self._commit_files(removed, added)

    def _commit_changes(
        self, removed: Numbers, added: pa.Table | None, kinds: Kinds | None
    ) -> None:
        gone = self.rows.take(pa.array(removed))
        gone_kinds: Kinds = np.full(len(removed), 3, np.int8)
        if added is None:
            write_rows(self.table, gone, gone_kinds, env=self.session.env)
            return
        if kinds is None:
            kinds = np.zeros(added.num_rows, np.int8)
        both = pa.concat_tables([gone, added.select(gone.schema.names).cast(gone.schema)])
        write_rows(self.table, both, np.concatenate([gone_kinds, kinds]), env=self.session.env)

    def _commit_files(self, removed: Numbers, added: pa.Table | None) -> None:
        table, env = self.table, self.session.env
        user = env.new_uuid()
        gone: dict[int, Positions] = {
            int(file): np.sort(self.positions[removed][self.files[removed] == file])
            for file in np.unique(self.files[removed])
        }
        after = AfterCommit(table, env=env)
        writer = new_writer(table, env=env, user=user)
        messages: list[CommitMessage] = []
        try:
            if added is not None and added.num_rows:
                writer.write(added)
            if table.options.value(DELETION_VECTORS_ENABLED):
                messages += self._vectors(gone)
            else:
                kept = np.isin(self.files, list(gone))
                kept[removed] = False
                rest = self.rows.filter(pa.array(kept))
                if rest.num_rows:
                    writer.write(rest)
                messages += [_without(self.entries[file]) for file in gone]
            messages += writer.prepare_commit()
        except BaseException:
            writer.abort()
            raise
        try:
            commit(table, messages, user=user, env=env)
        except CommitConflict:
            delete_messages(table, messages)
            raise
        after.run(user=user, identifier=BATCH_COMMIT_IDENTIFIER)

    def _vectors(self, gone: Mapping[int, Positions]) -> list[CommitMessage]:
        """New index files in place of those that hold vectors of the files, one message a bucket."""
        assert self.snapshot is not None
        table = self.table
        known = vector_files(table, self.snapshot)
        buckets: dict[tuple[bytes, int], list[int]] = defaultdict(list)
        for file in gone:
            entry = self.entries[file]
            buckets[entry.partition, entry.bucket].append(file)
        messages = []
        for (partition, bucket), files in buckets.items():
            touched = {self.entries[f].file.file_name: gone[f] for f in files}
            old = [
                index
                for index in known.get((partition, bucket), ())
                if table.bucket_mode is not BucketMode.UNAWARE
                or any(r.data_file in touched for r in index.dv_ranges or ())
            ]
            vectors: dict[str, Positions] = {}
            for index in old:
                path = table.paths.index_file(partition, bucket, index)
                vectors.update(read_deletion_vectors(table.io, path, index))
            for name, positions in touched.items():
                before = vectors.get(name)
                vectors[name] = positions if before is None else union(before, positions)
            blank = IndexFileMeta(
                index_type=DELETION_VECTORS_INDEX,
                file_name=f"index-{self.session.env.new_uuid()}-0",
                file_size=0,
                row_count=0,
            )
            path = table.paths.index_file(partition, bucket, blank)
            bitmap64 = table.options.value(DELETION_VECTOR_BITMAP64)
            new = write_deletion_vectors(table.io, path, vectors, bitmap64=bitmap64)
            messages.append(
                CommitMessage(
                    partition=partition,
                    bucket=bucket,
                    total_buckets=self.entries[files[0]].total_buckets,
                    new_index_files=(new,),
                    deleted_index_files=tuple(old),
                )
            )
        return messages


def _without(entry: ManifestEntry) -> CommitMessage:
    return CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        deleted_files=(entry.file,),
    )


def open_target(
    session: SqlSession, name: TableName, what: str, condition: str | None = None
) -> Target:
    """The table and its rows; `what` is UPDATE, DELETE or MERGE.

    With a `condition` that the table understands, files without a row that meets it are left out.

    UnsupportedFeature for tables that do not allow it: some merge engines, row tracking.
    """
    table = session.open(name, to_write=True)
    for option in ("row-tracking.enabled", "data-evolution.enabled"):
        if parse_bool(table.options.get(option, "false")):
            raise UnsupportedFeature(f"{what} on tables with {option}", table=table.name)
    rewrites = what == "DELETE" and not _deletes_by_changes(table)
    if what != "DELETE":
        _check_engine(table, what)
    predicate = None if condition is None else plain_condition(table, condition)
    snapshot = table.snapshots.latest()
    if table.has_primary_key and not rewrites:
        rows, _ = table_rows(session, table, predicate=predicate)
        none = np.empty(0, np.int64)
        return Target(session, name, table, snapshot, rows, none.astype(np.int32), none, ())
    placed = _unmerged(table, snapshot) if rewrites else placed_rows(table, snapshot, predicate)
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
    )


def _unmerged(table: FileStoreTable, snapshot: Snapshot | None) -> PlacedRows:
    """The rows of a primary-key table by file; InvalidArgument if some have to be merged."""
    try:
        return scanned_rows(BatchScan(table=table, whole=snapshot), (FILE_PATH,))
    except UnsupportedFeature as e:
        raise InvalidArgument(
            "Only compacted table can generate touched files, please use 'COMPACT' procedure first.",
            table=table.name,
            next_step="CALL sys.compact, then delete again",
        ) from e


def _check_engine(table: FileStoreTable, what: str) -> None:
    engine = table.options.get("merge-engine", "deduplicate")
    if table.has_primary_key and engine not in _UPDATABLE:
        raise UnsupportedFeature(
            f"{what} with merge-engine {engine}",
            f"merge engine {engine} can not support {what.title()}, currently only "
            f"{', '.join(_UPDATABLE)} can support {what.title()}.",
            table=table.name,
        )


def _deletes_by_changes(table: FileStoreTable) -> bool:
    """Whether a delete removes a key (Java: `TableUtils.validatePKUpsertDeletable`)."""
    engine = table.options.get("merge-engine", "deduplicate")
    if not table.has_primary_key or engine == "deduplicate":
        return True
    if engine == "first-row":
        # Its readers do not see rewritten rows before the next compaction.
        raise UnsupportedFeature("DELETE with merge-engine first-row", table=table.name)
    return any(table.options.get(o, "false") != "false" for o in _REMOVE.get(engine, ()))
