"""A table handle: builders, and one-call methods for the most common operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_core.api.context import Context
from paimon_core.api.predicates import Filter, PredicateBuilder, partition_values, predicate_of
from paimon_core.api.read import ReadBuilder, Split, TableRead
from paimon_core.api.rows import batches_out, schema_out
from paimon_core.api.stream_read import StreamReadBuilder
from paimon_core.api.write import BatchWriteBuilder, CommitResult, Partition, StreamWriteBuilder
from paimon_core.catalog.catalog import Catalog as CoreCatalog
from paimon_core.commit.commit_user import new_commit_user
from paimon_core.commit.overwrite import static_partition_test
from paimon_core.ddl.alter import check_dynamic_options
from paimon_core.ddl.schema_change import SchemaChange
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import WRITE_ONLY
from paimon_core.predicate import TRUE
from paimon_core.reachability.keep import create_kept
from paimon_core.refs.consumers import Consumer
from paimon_core.refs.tags import Tag
from paimon_core.retention.tags import announce_tag, make_tag
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_core.table.chain.overwrite import replace_partitions
from paimon_core.table.sink.after_commit import AfterCommit, Maintained
from paimon_core.table.sink.compact_table import compact_table
from paimon_core.table.sink.delete_rows import Deleted, delete_rows
from paimon_core.table.source.batch_scan import millis_of
from paimon_core.table.source.time_travel import travel
from paimon_core.table.system.read import read_system_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Table:
    """A handle of a table, with the schema that was the newest when the handle was created.

    Handles are immutable: `copy`, `branch`, `at`, `alter` and `refreshed` return new ones.
    """

    identifier: str
    core: FileStoreTable
    """The handle that the packages below the API work on."""
    catalog: CoreCatalog
    context: Context

    # --- what it is ---

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return schema_out(self.core.schema.row_type, kinds=False)

    @property
    def partition_keys(self) -> list[str]:
        """The names of the partition columns; empty for an unpartitioned table."""
        return list(self.core.schema.partition_keys)

    @property
    def primary_keys(self) -> list[str]:
        """The names of the primary key columns; empty for an append table."""
        return list(self.core.schema.primary_keys)

    @property
    def options(self) -> dict[str, str]:
        """The options of the table, overridden by the dynamic options of this handle."""
        return dict(self.core.options)

    @property
    def comment(self) -> str | None:
        """The comment of the table."""
        return self.core.schema.comment

    @property
    def location(self) -> str:
        """The path or URL of the table's folder."""
        return self.core.root

    # --- other handles ---

    def copy(self, options: Mapping[str, str | None]) -> Table:
        """A handle with these dynamic options added; a value of None removes the option.

        Raises SchemaError for an option that cannot be changed, such as `bucket`.
        """
        core = self.core
        check_dynamic_options(core.schemas.get(core.schema.id), options)
        dynamic = {**core.dynamic_options, **options}
        schema = core.schema.with_options(options)
        return replace(self, core=replace(core, schema=schema, dynamic_options=dynamic))

    def branch(self, name: str) -> Table:
        """A handle of a branch of the table; NotFound if the branch does not exist."""
        core = self.catalog.get_table(
            self.identifier, branch=name, dynamic_options=self.core.dynamic_options
        )
        return replace(self, core=core)

    def refreshed(self) -> Table:
        """A handle with the newest schema."""
        return replace(self, core=self.core.refreshed())

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        watermark: int | None = None,
    ) -> Table:
        """A handle that reads an older version of the table.

        Give at most one argument; without one, the handle itself is returned.

        - `snapshot`: the id of a snapshot.
        - `tag`: the name of a tag.
        - `timestamp`: the last snapshot committed at or before this time.  Milliseconds since the
          epoch, a datetime, or text; text and datetimes without an offset are in the time zone of
          the catalog.
        - `watermark`: the first snapshot with at least this watermark, in milliseconds.

        Raises NotFound if there is no such version.
        """
        millis = None if timestamp is None else self._millis(timestamp)
        given = {
            "scan.snapshot-id": snapshot,
            "scan.tag-name": tag,
            "scan.timestamp-millis": millis,
            "scan.watermark": watermark,
        }
        chosen = {k: str(v) for k, v in given.items() if v is not None}
        if not chosen:
            return self
        travel(self.core, snapshot=snapshot, tag=tag, timestamp_millis=millis, watermark=watermark)
        return self.copy({**dict.fromkeys(SCAN_OPTIONS), **chosen})

    def _millis(self, timestamp: int | str | datetime) -> int:
        if isinstance(timestamp, int):
            return timestamp
        if isinstance(timestamp, str):
            return millis_of(None, timestamp, self.context.zone)
        moment = timestamp
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.context.zone)
        return round(moment.astimezone(UTC).timestamp() * 1000)

    # --- builders ---

    def new_read_builder(self) -> ReadBuilder:
        """A builder of batch reads."""
        return ReadBuilder(self.core, self.context)

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """A builder of streaming reads."""
        return StreamReadBuilder(self.core, self.context)

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """A builder of a write that commits once."""
        return BatchWriteBuilder(self.core, self.context)

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """A builder of a write that commits repeatedly."""
        return StreamWriteBuilder(self.core, self.context)

    def new_predicate_builder(self) -> PredicateBuilder:
        """A builder of predicates on the columns of the table."""
        return PredicateBuilder(self.core.schema.row_type)

    # --- reading ---

    def to_batches(
        self,
        filter: Filter | None = None,  # noqa: A002 - the word for it
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **version: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, in no particular order.

        `filter` is a predicate or text such as "k > 5".  `columns` selects columns and their order,
        `limit` is the maximum number of rows.  `version` are the arguments of `at`.
        """
        read, splits = self._planned(filter, columns, limit, version)
        return read.to_batches(splits)

    def to_arrow(
        self,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **version: Any,
    ) -> pa.Table:
        """The rows as an Arrow table; arguments as in `to_batches`."""
        read, splits = self._planned(filter, columns, limit, version)
        return read.to_arrow(splits)

    def _planned(
        self,
        filter_: Filter | None,
        columns: Sequence[str] | None,
        limit: int | None,
        version: Mapping[str, Any],
    ) -> tuple[TableRead, list[Split]]:
        builder = self.at(**version).new_read_builder()
        if filter_ is not None:
            builder.with_filter(filter_)
        if columns is not None:
            builder.with_projection(columns)
        if limit is not None:
            builder.with_limit(limit)
        return builder.new_read(), builder.new_scan().plan().splits()

    def to_pandas(
        self,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **version: Any,
    ) -> pd.DataFrame:
        """The rows as a DataFrame; arguments as in `to_batches`.  Needs the package pandas."""
        frame: pd.DataFrame = self.to_arrow(filter, columns, limit, **version).to_pandas()
        return frame

    def to_dicts(
        self,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **version: Any,
    ) -> list[dict[str, Any]]:
        """The rows as dicts of Python values; arguments as in `to_batches`."""
        return [
            row
            for batch in self.to_batches(filter, columns, limit, **version)
            for row in batch.to_pylist()
        ]

    def changes(self, start: int | str, end: int | str) -> pa.Table:
        """The changes after `start`, up to and including `end`, with `_row_kind` as first column.

        `start` and `end` are two snapshot ids, or the names of two tags.
        """
        options = {**dict.fromkeys(SCAN_OPTIONS), "incremental-between": f"{start},{end}"}
        builder = self.copy(options).new_read_builder().with_row_kind()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def follow(
        self,
        *,
        consumer_id: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
        poll_interval_ms: int = 1000,
    ) -> Iterator[pa.Table]:
        """Yield the rows of the newest snapshot, then the changes of each later snapshot.

        `_row_kind` is the first column.  Waits `poll_interval_ms` when there is nothing new, and
        does not end unless `scan.bounded.watermark` is set.  With `consumer_id`, the stream
        continues where this consumer stopped; its progress is stored when the caller asks for the
        next table.
        """
        builder = self.new_stream_read_builder().with_include_row_kind()
        builder.with_poll_interval_ms(poll_interval_ms)
        if consumer_id is not None:
            builder.with_consumer_id(consumer_id)
        if filter is not None:
            builder.with_filter(filter)
        if columns is not None:
            builder.with_projection(columns)
        read = builder.new_read()
        for plan in builder.new_streaming_scan().stream_sync():
            yield read.to_arrow(plan.splits())

    # --- writing ---

    def append(self, data: Any) -> CommitResult:
        """Write rows in one commit.

        In a primary-key table, the merge engine merges them with the rows of the same keys: by
        default they replace those.  `data` as in `TableWrite.write`.
        """
        return self._write(data, self.new_batch_write_builder())

    def upsert(self, data: Any) -> CommitResult:
        """Same as `append`, but raises InvalidArgument for a table without a primary key."""
        if not self.primary_keys:
            raise InvalidArgument(
                f"table {self.identifier} has no primary key, so nothing can be updated by key",
                table=self.identifier,
                next_step="use append, or delete and append",
            )
        return self.append(data)

    def overwrite(
        self, data: Any, partition: Partition | None = None, *, dynamic: bool | None = None
    ) -> CommitResult:
        """Replace rows in one commit.

        `partition` and `dynamic` as in `BatchWriteBuilder.overwrite`.
        """
        builder = self.new_batch_write_builder().overwrite(partition, dynamic=dynamic)
        return self._write(data, builder)

    def _write(self, data: Any, builder: BatchWriteBuilder) -> CommitResult:
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write(data)
            return commit.commit(write.prepare_commit())

    def delete(self, filter: Filter) -> Deleted:  # noqa: A002
        """Delete the rows that match in one commit; `rows` of the result is their number.

        Raises UnsupportedFeature for tables whose merge engine does not delete the row of a deleted
        key, and for tables with row tracking and without deletion vectors.
        """
        predicate = predicate_of(filter, self.core.schema.row_type) or TRUE
        return delete_rows(self.core, predicate, env=self.context.env)

    def truncate(self, partition: Partition | None = None) -> CommitResult:
        """Delete all rows, or those of the partitions with these values, in one commit."""
        values = partition_values(self.core, partition or {})
        test = static_partition_test(self.core, values) if values else None
        env = self.context.env
        return CommitResult(
            (replace_partitions(self.core, test, user=new_commit_user(self.core, env), env=env),)
        )

    # --- changing and maintaining ---

    def alter(self, *changes: SchemaChange | Mapping[str, object]) -> Table:
        """Apply the changes as one new schema, and return a handle with it.

        Raises SchemaError for a change that Java refuses.
        """
        env = self.context.env
        self.catalog.alter_table(
            self.identifier, changes, now_millis=env.now_millis(), branch=self.core.branch
        )
        return self.refreshed()

    def compact(self, *, full: bool = False) -> CommitResult:
        """Compact buckets that are due by Paimon's rules.

        `full` rewrites each into its top level.
        """
        return CommitResult(compact_table(self.core, full=full, env=self.context.env))

    def maintain(self) -> Maintained:
        """Do the maintenance that normally follows a commit, also for `write-only` tables.

        Creates automatic tags, and expires the tags, partitions, consumers and snapshots that are
        due by the options of the table.  The jobs of `caretaker run` do more, with plans and
        guards.
        """
        env = self.context.env
        table = replace(self.core, schema=self.core.schema.with_options({WRITE_ONLY.key: "false"}))
        after = AfterCommit(table, env=env)
        after.run(user=env.new_uuid(), identifier=BATCH_COMMIT_IDENTIFIER)
        assert after.last is not None
        return after.last

    def create_tag(
        self, name: str, *, snapshot: int | None = None, time_retained_ms: int | None = None
    ) -> Tag:
        """Create a tag on a snapshot (default: the newest), so that its files survive expiry.

        `time_retained_ms` is the time to live of the tag in milliseconds; None: it does not expire.
        Raises AlreadyExists if the tag exists, and NotFound if the snapshot does not.
        """
        core = self.core
        found = core.latest_or_not_found() if snapshot is None else core.snapshots.get(snapshot)
        tag = make_tag(name, found, time_retained_ms, self.context.env)
        create_kept(core, tag)
        announce_tag(core, name, self.context.env.now_millis())
        return tag

    # --- looking ---

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None for a table without commits."""
        return self.core.snapshots.latest()

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first."""
        return self.core.snapshots.all()

    def tags(self) -> list[Tag]:
        """All tags."""
        return self.core.tags.all()

    def branches(self) -> list[str]:
        """The names of all branches except main."""
        return self.core.branches.names()

    def consumers(self) -> list[Consumer]:
        """All consumers, with the next snapshot that each of them reads."""
        return self.core.consumers.all()

    def system_table(self, name: str) -> pa.Table:
        """The rows of a system table, such as `files` or `snapshots`, for the newest snapshot."""
        core = self.core
        row_type, batches = read_system_table(
            core, name, core.snapshots.latest(), zone=self.context.zone
        )
        rows = batches_out(batches, row_type, kinds=False)
        return pa.Table.from_batches(rows, schema=schema_out(row_type, kinds=False))
