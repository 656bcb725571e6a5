"""UPDATE, DELETE and MERGE of large tables: executors read, join and write, the driver commits.

The driver does small ones itself (`targets`), in a fraction of the time.  What it holds here are
the places of changed rows, compressed, and the metadata of files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.message import CommitMessage
from paimon_core.ddl.column_directives import is_blob_column
from paimon_core.environment import Environment
from paimon_core.errors import UnsupportedFeature
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import DELETION_VECTORS_ENABLED, IGNORE_EMPTY_COMMIT, ROW_TRACKING_ENABLED
from paimon_core.predicate import Predicate
from paimon_core.read.data_evolution import Group, anchor, has_data_evolution
from paimon_core.scan.scan import scan_files
from paimon_core.schema.tracked import ROW_ID
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.sink.after_commit import AfterCommit
from paimon_core.table.sink.row_deletions import file_deletion, vector_deletion
from paimon_core.table.sink.write_session import commit_files, commit_write, delete_messages
from paimon_core.table.source.batch_scan import batch_scan_of
from paimon_core.table.source.placed_rows import FileUnit, GroupUnit, file_units, group_units
from paimon_spark.metadata_columns import metadata_columns_in
from paimon_spark.sql.dml.large_writes import bucketed
from paimon_spark.sql.dml.retry_updates import opened_beside_expiry
from paimon_spark.sql.dml.targets import (
    ROW_NUMBER,
    check_target,
    deletes_by_changes,
    has_postponed,
    may_name_blobs,
    unmerged_files,
)
from paimon_spark.sql.errors import WriteRefused, null_refused
from paimon_spark.sql.frames.characters import stored_text, with_metadata
from paimon_spark.sql.frames.dataframes import needed_columns
from paimon_spark.sql.frames.evolution import check_columns, outdated_indexes, with_blobs_as_stored
from paimon_spark.sql.frames.pushdown import plain_condition
from paimon_spark.sql.query.column_names import columns_in
from paimon_spark.sql.session import SqlSession
from paimon_spark.sql.table_name import TableName
from paimon_spark.sql.text.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.source.changes.places import Bitmaps
    from paimon_spark.source.writes.task_writer import TaskMessage

LARGE_CHANGE: Final = 32 * 1024**2
"""Bytes of data files, compressed, from which on executors do the change."""
KIND: Final = "_row_kind_"
"""What a row does: 0 is added, 2 takes the place of another, 3 is deleted."""
KEY: Final = "__paimon_key_"
"""Before the number of a primary-key column as it was."""
INSERTED, UPDATED, DELETED = 0, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeTarget:
    """A table to change.

    Its `units` are those of an append table, or of a primary-key table whose files are rewritten;
    without units, changes of keys are written.
    """

    session: SqlSession
    name: TableName
    table: FileStoreTable
    snapshot: Snapshot
    predicate: Predicate | None
    units: tuple[FileUnit | GroupUnit, ...]
    columns: tuple[str, ...]
    """Those that the statement reads."""
    metadata: frozenset[str]
    """The hidden columns that it names."""
    operation: str
    """UPDATE, DELETE or MERGE, as the snapshot names it."""
    keeps_ids: bool = False
    """Whether updated rows are new rows with their old ids, which the changes hold as `ROW_ID`."""
    rewrites: bool = False
    """Whether files of a primary-key table are written again without the deleted rows."""
    inserts: bool = False
    """Whether rows are added that the statement did not find."""

    @property
    def _env(self) -> Environment:
        return self.session.env.doing(self.operation)

    @property
    def patches(self) -> bool:
        """Whether changed rows need only the values that the statement assigns."""
        return self.rewrites or _patches(self.table)

    def dataframe(self, text: str = "") -> DataFrame:  # noqa: ARG002 - as `Target`
        """The rows with the number of each, `__paimon_row`, as the first column."""
        from pyspark.sql.functions import monotonically_increasing_id  # noqa: PLC0415 - only with a session

        from paimon_spark.source.changes.placed_frames import placed_dataframe  # noqa: PLC0415 - imports PySpark
        from paimon_spark.source.reads.frames import plan_dataframe, plan_scan  # noqa: PLC0415 - same

        spark, fields = self.session.spark, self.table.schema.fields
        if self.rewrites or not self.table.has_primary_key:
            metadata = {*self.metadata, ROW_ID} if self.keeps_ids else self.metadata
            placed = placed_dataframe(
                spark, self.table, self.units, self.columns, metadata, placed=True
            )
            return with_metadata(self.session, placed, fields)
        scan = batch_scan_of(self.table, zone=self.session.zone)
        plan = plan_scan(
            scan, columns=self.columns, predicate=self.predicate, zone=self.session.zone
        )
        rows = with_metadata(self.session, plan_dataframe(spark, plan), fields)
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

    def commit(
        self, rows: DataFrame, *, columns: Collection[str] = (), only_deletes: bool = False
    ) -> None:
        """Commit changes: rows with `__paimon_row`, the columns of the table, and `KIND`.

        `columns` are those that updates assign.  CommitConflict if another commit replaced a file
        meanwhile, WriteRefused for nulls in NOT NULL columns, and for a row that is changed twice.
        """
        names = [n for n in self.table.schema.names if not self.patches or n in columns]
        _check_nulls(self.table, rows, names)
        own = [quoted(n) for n in self.table.schema.names]
        if self.table.has_primary_key and not self.rewrites:
            self._commit_changes(rows.select(*own, KIND))
        elif only_deletes and self.table.options.value(DELETION_VECTORS_ENABLED):
            self._commit_deletes(rows)
        elif self.rewrites:
            self._commit_without(rows)
        elif self.patches:
            self._commit_patches(rows.select(ROW_NUMBER, *own, KIND), names)
        else:
            ids = [ROW_ID] if self.keeps_ids else []
            self._commit_new_rows(rows.select(ROW_NUMBER, *own, KIND, *ids))

    def _commit_changes(self, rows: DataFrame) -> None:
        from paimon_spark.source.changes.row_changes import write_changes  # noqa: PLC0415 - imports PySpark
        from paimon_spark.source.writes.task_writer import merged_messages  # noqa: PLC0415 - same

        env = self._env
        user = new_commit_user(self.table, env)
        if has_postponed(self.table, self.snapshot):
            written = write_changes(rows, self.table, None, env=env, user=user)
        else:
            with bucketed(self.table, rows, replaced=False) as (shuffled, buckets):
                written = write_changes(shuffled, self.table, buckets, env=env, user=user)
        messages = merged_messages(self.table, written, shuffled=True)
        if messages or not self.table.options.value(IGNORE_EMPTY_COMMIT):
            after = AfterCommit(self.table, env=env, of_engine=True)
            commit_write(
                self.table,
                messages,
                env=env,
                user=user,
                after=after,
                rows_at=self.snapshot.identity,
            )

    def _commit_deletes(self, rows: DataFrame) -> None:
        from paimon_spark.source.changes.places import changed_places  # noqa: PLC0415 - imports PySpark

        places = changed_places(rows)
        self._commit([], lambda: self._vectors(places), user=new_commit_user(self.table, self._env))

    def _commit_without(self, rows: DataFrame) -> None:
        """Commit files in place of those with deleted rows."""
        from paimon_spark.source.changes.places import changed_places  # noqa: PLC0415 - imports PySpark
        from paimon_spark.source.changes.row_changes import remove_rows  # noqa: PLC0415 - same

        places = changed_places(rows)
        entries = {number: self.units[number].entry for number in places}
        written = remove_rows(self.session.spark, self.table, entries, places, env=self._env)
        self._commit(written, lambda: iter(()), user=new_commit_user(self.table, self._env))

    def _commit_new_rows(self, rows: DataFrame) -> None:
        """Commit new rows in place of those that deletion vectors hide."""
        from paimon_spark.source.changes.row_changes import replace_rows  # noqa: PLC0415 - imports PySpark

        user = new_commit_user(self.table, self._env)
        made = replace_rows(rows, self.table, env=self._env, user=user)

        def changes() -> Iterator[CommitMessage]:
            if made.repeated:
                raise matched_twice(self.table)
            yield from self._vectors(made.changed)

        self._commit(made.written, changes, user=user)

    def _commit_patches(self, rows: DataFrame, columns: Sequence[str]) -> None:
        """Commit files in place of those with changed rows, or with their new columns."""
        from paimon_spark.source.changes.patches import patch_units  # noqa: PLC0415 - imports PySpark

        user = new_commit_user(self.table, self._env)
        made = patch_units(rows, self.table, self.units, columns, env=self._env, user=user)
        groups = {n: u.group for n, u in enumerate(self.units) if isinstance(u, GroupUnit)}

        def changes() -> Iterator[CommitMessage]:
            if made.repeated:
                raise matched_twice(self.table)
            if not has_data_evolution(self.table):
                yield from (file_deletion(self.units[n].entry) for n in made.changed)
                return
            updated = [
                groups[n]
                for n, places in made.changed.items()
                if len(places) > len(made.deleted.get(n, ()))
            ]
            check_columns(self.table, updated, columns)
            yield from outdated_indexes(self.table, updated, columns)
            yield from self._vectors(made.deleted)

        row_groups = [groups[n] for n in made.changed if n in groups]
        self._commit(made.written, changes, user=user, row_groups=row_groups)

    def _commit(
        self,
        written: Sequence[TaskMessage],
        changes: Callable[[], Iterator[CommitMessage]],
        *,
        user: str,
        row_groups: Sequence[Group] = (),
    ) -> None:
        """Commit the files of tasks with other changes, in one commit; nothing if there is none."""
        from paimon_spark.source.writes.task_writer import delete_written  # noqa: PLC0415 - imports PySpark

        table, env = self.table, self._env
        messages: list[CommitMessage] = []
        try:
            for message in changes():
                messages.append(message)  # noqa: PERF402 - a failure cleans these up
        except BaseException:
            delete_messages(table, messages)
            delete_written(table, written)
            raise
        messages += [m for task in written for m in task.messages]
        if messages or not table.options.value(IGNORE_EMPTY_COMMIT):
            after = AfterCommit(table, env=env, of_engine=True)
            commit_files(
                table,
                messages,
                env=env,
                user=user,
                row_groups=row_groups,
                after=after,
                rows_at=self.snapshot.identity if self.inserts else None,
            )

    def _vectors(self, places: Bitmaps) -> Iterator[CommitMessage]:
        from paimon_spark.source.changes.places import positions_of  # noqa: PLC0415 - imports PySpark

        buckets: dict[tuple[bytes, int], list[int]] = defaultdict(list)
        for number in places:
            entry = self.units[number].entry
            buckets[entry.partition, entry.bucket].append(number)
        for bucket, numbers in buckets.items():
            first = self.units[numbers[0]]
            yield vector_deletion(
                self.table,
                bucket,
                {_with_vector(self.units[n]): positions_of(places[n]) for n in numbers},
                total_buckets=first.entry.total_buckets,
                index_files=first.index_files,
                env=self._env,
            )


def _with_vector(unit: FileUnit | GroupUnit) -> str:
    """The name of the file whose deletion vector is that of the unit."""
    entry = anchor(unit.group) if isinstance(unit, GroupUnit) else unit.entry
    return entry.file.file_name


def open_large(
    session: SqlSession,
    name: TableName,
    what: str,
    text: str,
    condition: str | None = None,
    *,
    all_columns: bool = False,
    large_source: bool = False,
) -> LargeTarget | None:
    """The target of a change that the executors should do; None for the driver to do it.

    `what` is UPDATE, DELETE or MERGE, `text` the statement, or the part that reads the table; with
    `all_columns` it may read columns that the text does not name.  With a `large_source`, the
    driver does it for no table that has rows.  UnsupportedFeature as in `open_target`.
    """
    opened = partial(
        _opened,
        session,
        name,
        what,
        text,
        condition,
        all_columns=all_columns,
        large_source=large_source,
    )
    return opened_beside_expiry(session, name, opened)


def _opened(
    session: SqlSession,
    name: TableName,
    what: str,
    text: str,
    condition: str | None,
    *,
    all_columns: bool,
    large_source: bool,
) -> LargeTarget | None:
    table, snapshot = session.open(name, to_write=True).at_newest_snapshot()
    check_target(table, what)
    metadata = metadata_columns_in(text)
    rewrites = what == "DELETE" and not deletes_by_changes(table)
    if snapshot is None or "input_file_name" in text.lower():
        return None
    if metadata and table.has_primary_key and not rewrites:
        return None
    if any(is_blob_column(f.type) for f in table.schema.fields):
        if may_name_blobs(table, text):
            return None
        table = with_blobs_as_stored(table)
    predicate = None if condition is None else plain_condition(table, condition)
    units: Sequence[FileUnit | GroupUnit] = ()
    if rewrites:
        units = unmerged_files(table, snapshot, predicate)
    elif has_data_evolution(table):
        units = group_units(table, snapshot, predicate)
    elif not table.has_primary_key:
        units = file_units(table, snapshot, predicate)
    size = sum(u.size for u in units)
    if table.has_primary_key and not rewrites:
        size = sum(e.file.file_size for e in scan_files(table, snapshot, predicate=predicate))
    if (size <= LARGE_CHANGE and not large_source) or not hasattr(session.spark, "_jsparkSession"):
        return None  # the driver of Spark Connect is elsewhere
    some_columns = (rewrites or _patches(table)) and not all_columns
    read = columns_in(text, of_change=True) if some_columns else None
    tracked = table.options.value(ROW_TRACKING_ENABLED) and not has_data_evolution(table)
    return LargeTarget(
        session=session,
        name=name,
        table=table,
        snapshot=snapshot,
        predicate=predicate,
        units=tuple(units),
        columns=tuple(needed_columns(table, read)),
        metadata=metadata,
        operation=what,
        # Java keeps the ids of updated rows only where it rewrites their files, or only columns.
        keeps_ids=what == "UPDATE" and tracked and not _patches(table),
        rewrites=rewrites,
    )


def _patches(table: FileStoreTable) -> bool:
    """Whether units with changed rows are written again, or get new columns."""
    if table.has_primary_key:
        return False
    return has_data_evolution(table) or not table.options.value(DELETION_VECTORS_ENABLED)


def cast_rows(target: LargeTarget, rows: DataFrame) -> DataFrame:
    """The columns of the table in its types; other columns stay."""
    fields = {f.name: f for f in target.table.schema.fields}
    return rows.selectExpr(
        *(
            f"{stored_text(quoted(c), fields[c])} AS {quoted(c)}" if c in fields else quoted(c)
            for c in rows.columns
        )
    )


def _check_nulls(table: FileStoreTable, rows: DataFrame, updated: Collection[str]) -> None:
    """WriteRefused for a null in a NOT NULL column of a new row, or one that updates assign."""
    needed = [
        f.name for f in table.schema.fields if not f.type.nullable and f.default_value is None
    ]
    if not needed:
        return
    missing = [f"({quoted(n)} IS NULL AND {_counts(n, updated)})" for n in needed]
    found = rows.filter(f"{KIND} <> {DELETED} AND ({' OR '.join(missing)})").limit(1).collect()
    if found:
        row = found[0]
        column = next(
            n for n in needed if row[n] is None and (n in updated or row[KIND] == INSERTED)
        )
        raise null_refused(table.name, column)


def _counts(column: str, updated: Collection[str]) -> str:
    """The condition for changes in which the value of a column counts."""
    return "true" if column in updated else f"{KIND} = {INSERTED}"


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
