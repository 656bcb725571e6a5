"""UPDATE, DELETE and MERGE of large tables: executors read, join and write, the driver commits.

The driver does small ones itself (`targets`), in a fraction of the time.  What it holds here are
the places of changed rows, compressed, and the metadata of files.  Tables that need more than that
are changed on the driver whatever their size: row tracking (apart from deletes by deletion
vectors), data evolution, rewrites of primary-key files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_core.commit.message import CommitMessage
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import BucketMode, FileStoreTable
from paimon_core.options import DELETION_VECTORS_ENABLED, ROW_TRACKING_ENABLED
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import has_data_evolution
from paimon_core.scan.scan import scan_files
from paimon_core.scan.vectors import vector_files
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.after_commit import AfterCommit
from paimon_core.table.batch_scan import batch_scan_of
from paimon_core.table.row_deletions import file_deletion, vector_deletion
from paimon_core.table.write_session import commit_files, commit_write
from paimon_spark.sql.dml.targets import ROW_NUMBER, check_target, deletes_by_changes
from paimon_spark.sql.errors import WriteRefused
from paimon_spark.sql.frames.characters import stored_text, with_metadata
from paimon_spark.sql.frames.metadata_columns import metadata_columns_in
from paimon_spark.sql.frames.pushdown import plain_condition
from paimon_spark.sql.session import SqlSession, TableName
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.source.row_changes import Bitmaps, PlacedFile
    from paimon_spark.source.task_writer import TaskMessage

LARGE_CHANGE: Final = 32 * 1024**2
"""Bytes of data files, compressed, from which on executors do the change."""
KIND: Final = "_row_kind_"
"""What a row does: 0 is added, 2 takes the place of another, 3 is deleted."""
KEY: Final = "__paimon_key_"
"""Before the number of a primary-key column as it was."""
INSERTED, UPDATED, DELETED = 0, 2, 3
_NULL: Final = "value appeared in non-nullable field"


@dataclass(frozen=True, slots=True)
class LargeTarget:
    """A table to change: `files` of an append table, none of a primary-key table."""

    session: SqlSession
    name: TableName
    table: FileStoreTable
    snapshot: Snapshot
    predicate: Predicate | None
    files: tuple[PlacedFile, ...]

    def dataframe(self, text: str = "") -> DataFrame:  # noqa: ARG002 - as `Target`
        """The rows with the number of each, `__paimon_row`, as the first column."""
        from pyspark.sql.functions import (  # noqa: PLC0415 - only with a session
            monotonically_increasing_id,
        )

        from paimon_spark.source.reading import (  # noqa: PLC0415 - imports PySpark
            plan_dataframe,
            plan_scan,
        )
        from paimon_spark.source.row_changes import placed_rows  # noqa: PLC0415 - same

        spark, schema = self.session.spark, self.table.schema
        if not self.table.has_primary_key:
            placed = placed_rows(spark, self.table, self.files, schema.row_type)
            return with_metadata(self.session, placed, schema.fields)
        scan = batch_scan_of(self.table, zone=self.session.zone)
        plan = plan_scan(
            scan, columns=schema.names, predicate=self.predicate, zone=self.session.zone
        )
        rows = with_metadata(self.session, plan_dataframe(spark, plan), schema.fields)
        return rows.select(monotonically_increasing_id().alias(ROW_NUMBER), "*")

    @contextmanager
    def changes(self, parts: Sequence[DataFrame]) -> Iterator[DataFrame]:
        """All changes, computed once and kept on the executors' disks until the block ends."""
        from functools import reduce  # noqa: PLC0415 - one use

        from pyspark import StorageLevel  # noqa: PLC0415 - only with a session

        rows = reduce(lambda a, b: a.unionAll(b), parts).persist(StorageLevel.DISK_ONLY)
        try:
            yield rows
        finally:
            rows.unpersist()

    def commit(self, rows: DataFrame, *, only_deletes: bool = False) -> None:
        """Commit changes: rows with `__paimon_row`, the columns of the table, and `KIND`.

        CommitConflict if another commit replaced a file meanwhile, WriteRefused for nulls in NOT
        NULL columns, and for a row that is changed twice.
        """
        _check_nulls(self.table, rows)
        columns = [quoted(n) for n in self.table.schema.names]
        if self.table.has_primary_key:
            self._commit_changes(rows.select(*columns, KIND))
        else:
            self._commit_files(rows.select(ROW_NUMBER, *columns, KIND), only_deletes=only_deletes)

    def _commit_changes(self, rows: DataFrame) -> None:
        from paimon_spark.source.row_changes import write_changes  # noqa: PLC0415 - imports PySpark
        from paimon_spark.source.task_writer import merged_messages  # noqa: PLC0415 - same

        env, user = self.session.env, self.session.env.new_uuid()
        written = write_changes(rows, self.table, env=env, user=user)
        messages = merged_messages(self.table, written, shuffled=True)
        if messages:
            after = AfterCommit(self.table, env=env, of_engine=True)
            commit_write(self.table, messages, env=env, user=user, after=after)

    def _commit_files(self, rows: DataFrame, *, only_deletes: bool) -> None:
        from paimon_spark.source.row_changes import (  # noqa: PLC0415 - imports PySpark
            changed_places,
            replace_rows,
            write_kept,
        )
        from paimon_spark.source.task_writer import delete_written  # noqa: PLC0415 - same

        table, env = self.table, self.session.env
        user = env.new_uuid()
        written: list[TaskMessage] = []
        try:
            if only_deletes:
                places = changed_places(rows)
            else:
                made = replace_rows(rows, table, env=env, user=user)
                written, places = made.written, made.places
                if made.repeated:
                    raise matched_twice(table)
            if table.options.value(DELETION_VECTORS_ENABLED):
                messages = list(self._vectors(places))
            else:
                messages = [file_deletion(f.entry) for f in self.files if f.number in places]
                written += write_kept(
                    self.session.spark, table, self.files, places, env=env, user=user
                )
        except BaseException:
            delete_written(table, written)
            raise
        messages += [m for task in written for m in task.messages]
        if messages:
            after = AfterCommit(table, env=env, of_engine=True)
            commit_files(table, messages, env=env, user=user, after=after)

    def _vectors(self, places: Bitmaps) -> Iterator[CommitMessage]:
        from paimon_spark.source.row_changes import positions_of  # noqa: PLC0415 - imports PySpark

        buckets: dict[tuple[bytes, int], list[PlacedFile]] = defaultdict(list)
        for file in self.files:
            if file.number in places:
                buckets[file.entry.partition, file.entry.bucket].append(file)
        for bucket, files in buckets.items():
            yield vector_deletion(
                self.table,
                bucket,
                {f.entry.file.file_name: positions_of(places[f.number]) for f in files},
                total_buckets=files[0].entry.total_buckets,
                index_files=files[0].index_files,
                env=self.session.env,
            )


def open_large(
    session: SqlSession, name: TableName, what: str, text: str, condition: str | None = None
) -> LargeTarget | None:
    """The target of a change that the executors should do; None for the driver to do it.

    `what` is UPDATE, DELETE or MERGE, `text` the statement.  UnsupportedFeature as in
    `open_target`.
    """
    table = session.open(name, to_write=True)
    check_target(table, what)
    snapshot = table.snapshots.latest()
    if snapshot is None or _needs_driver(table, what) or metadata_columns_in(text):
        return None
    if "input_file_name" in text.lower():
        return None
    predicate = None if condition is None else plain_condition(table, condition)
    entries = list(scan_files(table, snapshot, predicate=predicate))
    if sum(e.file.file_size for e in entries) <= LARGE_CHANGE:
        return None
    if not hasattr(session.spark, "_jsparkSession"):
        return None  # the driver of Spark Connect is elsewhere
    files: list[PlacedFile] = []
    if not table.has_primary_key:
        from paimon_spark.source.row_changes import PlacedFile  # noqa: PLC0415 - imports PySpark

        vectors = vector_files(table, snapshot)
        files = [
            PlacedFile(i, e, tuple(vectors.get((e.partition, e.bucket), ())))
            for i, e in enumerate(entries)
        ]
    return LargeTarget(session, name, table, snapshot, predicate, tuple(files))


def _needs_driver(table: FileStoreTable, what: str) -> bool:
    # Deletion vectors leave the ids of the other rows as they are.
    only_vectors = what == "DELETE" and table.options.value(DELETION_VECTORS_ENABLED)
    return (
        (table.options.value(ROW_TRACKING_ENABLED) and not only_vectors)
        or has_data_evolution(table)
        or table.bucket_mode not in (BucketMode.FIXED, BucketMode.DYNAMIC, BucketMode.UNAWARE)
        or (what == "DELETE" and not deletes_by_changes(table))
    )


def cast_rows(target: LargeTarget, rows: DataFrame) -> DataFrame:
    """The columns of the table in its types; other columns stay."""
    fields = {f.name: f for f in target.table.schema.fields}
    return rows.selectExpr(
        *(
            f"{stored_text(quoted(c), fields[c])} AS {quoted(c)}" if c in fields else quoted(c)
            for c in rows.columns
        )
    )


def _check_nulls(table: FileStoreTable, rows: DataFrame) -> None:
    """WriteRefused for a null in a NOT NULL column."""
    needed = [
        f.name for f in table.schema.fields if not f.type.nullable and f.default_value is None
    ]
    if not needed:
        return
    missing = " OR ".join(f"{quoted(n)} IS NULL" for n in needed)
    found = rows.filter(f"{KIND} <> {DELETED} AND ({missing})").limit(1).collect()
    if found:
        column = next(n for n in needed if found[0][n] is None)
        raise WriteRefused(
            f"Cannot write null to non-null column({column}): [NOT_NULL_ASSERT_VIOLATION] NULL "
            f"{_NULL}",
            table=table.name,
        )


def check_matched_once(rows: DataFrame, table: FileStoreTable) -> None:
    """WriteRefused if several rows of a source change one row."""
    counted = rows.filter(f"{ROW_NUMBER} IS NOT NULL").groupBy(ROW_NUMBER).count()
    if counted.filter("count > 1").limit(1).collect():
        raise matched_twice(table)


def matched_twice(table: FileStoreTable) -> WriteRefused:
    """The error for a row that several rows of a source match."""
    return WriteRefused(
        "[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE statement matched a "
        "single row from the target table with multiple rows of the source table (match more than "
        "one source rows)",
        table=table.name,
    )


def check_keys(rows: DataFrame, table: FileStoreTable) -> None:
    """UnsupportedFeature if an update gives a row another primary key."""
    keys = table.schema.primary_keys
    changed = " OR ".join(f"NOT ({KEY}{i} <=> {quoted(k)})" for i, k in enumerate(keys))
    if keys and rows.filter(f"{KIND} = {UPDATED} AND ({changed})").limit(1).collect():
        raise UnsupportedFeature(
            "updates of primary keys",
            "Can't update the primary key column in update clause.",
            table=table.name,
            next_step="delete the rows, and insert them with their new keys",
        )
