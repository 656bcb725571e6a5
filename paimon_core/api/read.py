"""Batch reads: builder -> scan -> plan -> splits -> rows (Java: `table/source/ReadBuilder`).

The options of the table handle select what is read: a snapshot, a tag, or the changes between two
of them (see `paimon_core.table.source.batch_scan`).  `Table.copy` and `Table.at` set these options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_core.api.context import Context
from paimon_core.api.predicates import Filter, PredicateBuilder, predicate_of
from paimon_core.api.projection import Projection, projection
from paimon_core.api.rows import batches_out, schema_out
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import ROW_TRACKING_ENABLED
from paimon_core.predicate import Predicate
from paimon_core.schema.scan_options import SCAN_OPTIONS
from paimon_core.schema.tracked import tracked_schema
from paimon_core.table.source.batch_scan import BatchScan, batch_scan_of
from paimon_core.table.source.batch_tasks import (
    BatchTask,
    BucketTask,
    ScanTask,
    plan_batch,
    read_task,
)
from paimon_core.table.source.placed_rows import read_tracked_task

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Split:
    """The unit of a read: files that must be read together.

    A split can be pickled, and read by another process.  A split of a changelog range or an
    incremental read has no bucket: `file_paths` and `partition` are empty there, `bucket` is None.
    A partition with postponed rows that a read merges is one split, whose `bucket` is None.
    """

    task: BatchTask

    @property
    def row_count(self) -> int | None:
        """Stored rows, before merging and deletion vectors; None if only reading tells."""
        if not isinstance(self.task, ScanTask):
            return sum(e.file.row_count for e in self.task.entries)
        return None

    @property
    def size(self) -> int:
        """Bytes to read; a smaller file counts as `source.split.open-file-cost`."""
        return self.task.size

    @property
    def file_paths(self) -> list[str]:
        """The paths of the data files."""
        if isinstance(self.task, ScanTask):
            return []
        paths = self.task.table.paths
        return [paths.data_file(e.partition, e.bucket, e.file) for e in self.task.entries]

    @property
    def partition(self) -> Mapping[str, str]:
        """The values of the partition columns as in paths; empty for an unpartitioned table."""
        if isinstance(self.task, ScanTask):
            return {}
        return dict(self.task.table.paths.partition_values(self.task.entries[0].partition))

    @property
    def bucket(self) -> int | None:
        """The number of the bucket."""
        return self.task.entries[0].bucket if isinstance(self.task, BucketTask) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits of one scan.

    `snapshot_id` is the snapshot that they read; None for a range of changes and an empty table.
    """

    snapshot_id: int | None
    all_splits: tuple[Split, ...]

    def splits(self) -> list[Split]:
        """The splits, to be passed to `TableRead`."""
        return list(self.all_splits)


class ReadBuilder:
    """Collects filter, columns and limit of a read.

    Each `with_` method changes the builder and returns it.
    """

    def __init__(self, table: FileStoreTable, context: Context) -> None:
        self._table = table
        self._context = context
        # An older version has other columns.
        travels = not table.options.keys().isdisjoint(SCAN_OPTIONS)
        shown = batch_scan_of(table, zone=context.zone).table if travels else table
        self._schema = shown.schema
        self._predicate: Predicate | None = None
        self._columns = projection(None, self._schema.row_type)
        self._limit: int | None = None
        self._kinds = False

    def with_filter(self, filter_: Filter) -> ReadBuilder:
        """Read only rows that match a predicate, or text such as "k > 5".

        Raises InvalidArgument for an unknown column or text that is not a condition.
        """
        self._predicate = predicate_of(filter_, self._schema.row_type)
        return self

    def with_projection(self, columns: Sequence[str]) -> ReadBuilder:
        """Read only these columns, in this order; InvalidArgument for an unknown one.

        "address.city" is a field of a struct, and becomes the column `address_city`.  Append tables
        with row tracking also have `_ROW_ID` and `_SEQUENCE_NUMBER`.
        """
        schema = self._schema
        if schema.options.value(ROW_TRACKING_ENABLED) and not schema.primary_keys:
            schema = tracked_schema(schema)
        self._columns = projection(columns, schema.row_type)
        return self

    def with_limit(self, limit: int) -> ReadBuilder:
        """Return at most this many rows from each call of a `to_` method of `TableRead`."""
        if limit < 0:
            raise InvalidArgument(f"a limit must be at least 0, not {limit}")
        self._limit = limit
        return self

    def with_row_kind(self, *, include: bool = True) -> ReadBuilder:
        """Add `_row_kind` (+I, -U, +U, -D) as the first column, and read rows of all kinds.

        Without it, retractions (-U and -D) are left out.
        """
        self._kinds = include
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """A builder of predicates for `with_filter`."""
        return PredicateBuilder(self._schema.row_type)

    def new_scan(self) -> TableScan:
        """A scan of the newest snapshot of now, or of what the options of the table choose.

        Errors as in `batch_scan_of`.
        """
        scan = batch_scan_of(self._table, zone=self._context.zone)
        if scan.table.schema.id != self._schema.id:
            # What a tag names has changed; the columns stay those of the builder.
            scan = replace(scan, table=replace(scan.table, schema=self._schema))
        return TableScan(scan, self._predicate, self._context)

    def new_read(self) -> TableRead:
        """A reader for the splits of the scan."""
        return TableRead(self._columns, self._predicate, self._limit, self._kinds, self._context)


@dataclass(frozen=True, slots=True)
class TableScan:
    """Plans splits.  All plans of one scan read the same snapshot."""

    scan: BatchScan
    predicate: Predicate | None
    context: Context
    shard: tuple[int, int] = (0, 1)

    def with_shard(self, index: int, count: int) -> TableScan:
        """Plan only shard `index` (from 0) of `count`; the shards together have all splits."""
        if not 0 <= index < count:
            raise InvalidArgument(f"a shard must be from 0 to {count - 1}, not {index}")
        return TableScan(self.scan, self.predicate, self.context, (index, count))

    def plan(self) -> Plan:
        """Plan the splits of the version that is read; errors as in `batch_tasks.plan_batch`."""
        tasks = plan_batch(self.scan, predicate=self.predicate, zone=self.context.zone)
        index, count = self.shard
        whole = self.scan.whole
        return Plan(
            None if whole is None else whole.id, tuple(Split(t) for t in tasks[index::count])
        )


@dataclass(frozen=True, slots=True)
class TableRead:
    """Reads splits.  Returns only rows that match the filter, in no particular order."""

    projection: Projection
    predicate: Predicate | None
    limit: int | None
    kinds: bool
    context: Context

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return schema_out(self.projection.row_type, kinds=self.kinds)

    def to_batches(self, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches; holds only a few of them in memory."""
        rows = chain.from_iterable(self._rows(split.task) for split in splits)
        left = self.limit
        shown = self.projection.shown(rows)
        for batch in batches_out(shown, self.projection.row_type, kinds=self.kinds):
            if left is None:
                yield batch
                continue
            if left > 0:
                yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return

    def _rows(self, task: BatchTask) -> Iterator[pa.RecordBatch]:
        columns, predicate = self.projection.columns, self.predicate
        if self.projection.tracked:
            return read_tracked_task(task, columns=columns, predicate=predicate)
        return read_task(task, columns=columns, predicate=predicate, zone=self.context.zone)

    def to_arrow_batch_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """The rows as an Arrow reader, which reads batch by batch."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(splits))

    def to_arrow(self, splits: Sequence[Split]) -> pa.Table:
        """All rows as an Arrow table in memory."""
        return pa.Table.from_batches(self.to_batches(splits), schema=self.schema)

    def to_pandas(self, splits: Sequence[Split]) -> pd.DataFrame:
        """All rows as a DataFrame; needs the package pandas."""
        frame: pd.DataFrame = self.to_arrow(splits).to_pandas()
        return frame

    def to_dicts(self, splits: Sequence[Split]) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict of Python values."""
        for batch in self.to_batches(splits):
            yield from batch.to_pylist()

    def to_iterator(self, splits: Sequence[Split]) -> Iterator[tuple[Any, ...]]:
        """Yield each row as a tuple of Python values, in the order of the columns."""
        for batch in self.to_batches(splits):
            columns = [column.to_pylist() for column in batch.columns]
            yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows
