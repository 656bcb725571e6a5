"""Streaming reads: one plan for the start, then one for each snapshot with changes.

Java: `table/source/StreamTableScan`.  With a consumer id, the table stores the progress of the
reader, and expiry keeps the snapshots that the reader has not read yet.  Progress is stored after a
plan is processed, so a reader that fails receives the rows of its last plan again (at least once).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_core.api.context import Context
from paimon_core.api.predicates import Filter, PredicateBuilder, predicate_of
from paimon_core.api.projection import Projection, projection
from paimon_core.api.rows import batches_out, schema_out
from paimon_core.errors import InvalidArgument
from paimon_core.file_store_table import FileStoreTable
from paimon_core.predicate import Predicate
from paimon_core.read.stream import StreamPlan, read_plan, read_whole
from paimon_core.read.table_read import chosen_rows
from paimon_core.table.source.stream import CONSUMER_ID, Stream, stream_of

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_POLL_MILLIS: Final = 1000
_ALIVE_SECONDS: Final = 60.0
"""How often an idle stream renews its consumer, so that the consumer does not expire."""


@dataclass(frozen=True, slots=True)
class StreamSplit:
    """The rows of one plan, under the schema of the stream."""

    table: FileStoreTable
    plan: StreamPlan


@dataclass(frozen=True, slots=True)
class StreamTablePlan:
    """One step of a stream."""

    step: StreamPlan
    table: FileStoreTable

    @property
    def next_snapshot_id(self) -> int | None:
        """The snapshot where the stream continues; None for an empty table."""
        return self.step.next_snapshot

    @property
    def is_empty(self) -> bool:
        """Whether the step has nothing to read."""
        return self.step.is_empty

    def splits(self) -> list[StreamSplit]:
        """One split, or none if there is nothing to read."""
        return [] if self.is_empty else [StreamSplit(self.table, self.step)]


class StreamReadBuilder:
    """Collects filter, columns and consumer of a streaming read.

    Each `with_` method changes the builder and returns it.  A stream without stored progress starts
    where the `scan.*` options of the table handle say.
    """

    def __init__(self, table: FileStoreTable, context: Context) -> None:
        self._table = table
        self._context = context
        self._predicate: Predicate | None = None
        self._columns = projection(None, table.schema.row_type)
        self._kinds = False
        self._poll_millis = DEFAULT_POLL_MILLIS
        self._consumer = table.options.get(CONSUMER_ID)

    def with_filter(self, filter_: Filter) -> StreamReadBuilder:
        """Read only rows that match a predicate, or text such as "k > 5"."""
        self._predicate = predicate_of(filter_, self._table.schema.row_type)
        return self

    def with_projection(self, columns: Sequence[str]) -> StreamReadBuilder:
        """Read only these columns, in this order; as `ReadBuilder.with_projection`."""
        self._columns = projection(columns, self._table.schema.row_type)
        return self

    def with_include_row_kind(self, *, include: bool = True) -> StreamReadBuilder:
        """Add `_row_kind` (+I, -U, +U, -D) as the first column, and read rows of all kinds."""
        self._kinds = include
        return self

    def with_poll_interval_ms(self, poll_interval_ms: int) -> StreamReadBuilder:
        """Wait this many milliseconds before looking again for a new snapshot (default: 1000)."""
        if poll_interval_ms <= 0:
            raise InvalidArgument(
                f"a poll interval must be greater than 0 ms, not {poll_interval_ms}"
            )
        self._poll_millis = poll_interval_ms
        return self

    def with_consumer_id(self, consumer_id: str) -> StreamReadBuilder:
        """Continue where this consumer stopped, and store its progress in the table."""
        self._consumer = consumer_id
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """A builder of predicates for `with_filter`."""
        return PredicateBuilder(self._table.schema.row_type)

    def new_streaming_scan(self) -> StreamTableScan:
        """A scan that plans one step after the other.

        Raises the errors of `paimon_core.table.source.stream.stream_of`.
        """
        schema = self._table.schema.with_options({CONSUMER_ID: self._consumer})
        table, context = replace(self._table, schema=schema), self._context
        stream = stream_of(table, zone=context.zone, now_millis=context.env.now_millis)
        return StreamTableScan(stream, poll_seconds=self._poll_millis / 1000)

    def new_read(self) -> StreamTableRead:
        """A reader for the splits of the scan."""
        return StreamTableRead(self._columns, self._predicate, self._kinds, self._context)


class StreamTableScan:
    """Plans the steps of one stream, in order."""

    def __init__(self, stream: Stream, *, poll_seconds: float) -> None:
        self._stream = stream
        self._poll_seconds = poll_seconds
        self._stored: tuple[int | None, float] = (None, 0.0)

    @property
    def next_snapshot_id(self) -> int | None:
        """The snapshot to read next; None before the first plan.  Set it to move the stream."""
        return self._stream.scan.next_snapshot

    @next_snapshot_id.setter
    def next_snapshot_id(self, snapshot_id: int) -> None:
        self._stream.scan.next_snapshot = snapshot_id

    def plan(self) -> StreamTablePlan:
        """Plan the next step, which is empty if there is nothing new.

        Raises the errors of `paimon_core.read.stream.StreamScan.plan`.
        """
        return StreamTablePlan(self._stream.plan(), self._stream.table)

    def acknowledge(self, plan: StreamTablePlan) -> None:
        """Store that everything up to this plan is processed.

        Does nothing without a consumer id.
        """
        self._stream.acknowledge(plan.step)
        self._stored = (plan.next_snapshot_id, time.monotonic())

    def available(self) -> Iterator[StreamTablePlan]:
        """Yield the steps up to the newest snapshot.  Acknowledges each as `stream_sync` does."""
        while True:
            before = self.next_snapshot_id
            plan = self.plan()
            if not plan.is_empty:
                yield plan
                self.acknowledge(plan)
            elif plan.step.ended or self.next_snapshot_id == before:
                self._passed(plan)
                return

    def stream_sync(self) -> Iterator[StreamTablePlan]:
        """Yield steps forever, or until the watermark of `scan.bounded.watermark`.

        Acknowledges a step when the caller asks for the next one: its rows are processed by then.
        """
        while (plan := self.next_plan()) is not None:
            yield plan
            self.acknowledge(plan)

    def next_plan(self) -> StreamTablePlan | None:
        """Wait for the next step that has rows; None at the end of a bounded stream."""
        while True:
            before = self.next_snapshot_id
            plan = self.plan()
            if not plan.is_empty:
                return plan
            if plan.step.ended:
                return None
            if self.next_snapshot_id == before:
                self._passed(plan)
                time.sleep(self._poll_seconds)

    async def stream(self) -> AsyncIterator[StreamTablePlan]:
        """Like `stream_sync`, for asyncio: plans run in threads and do not block the event loop."""
        while True:
            before = self.next_snapshot_id
            plan = await asyncio.to_thread(self.plan)
            if not plan.is_empty:
                yield plan
                await asyncio.to_thread(self.acknowledge, plan)
            elif plan.step.ended:
                return
            elif self.next_snapshot_id == before:
                await asyncio.to_thread(self._passed, plan)
                await asyncio.sleep(self._poll_seconds)

    def _passed(self, plan: StreamTablePlan) -> None:
        """Acknowledge an empty step: it may have passed snapshots without changes."""
        stored, at = self._stored
        if plan.next_snapshot_id != stored or time.monotonic() - at > _ALIVE_SECONDS:
            self.acknowledge(plan)


@dataclass(frozen=True, slots=True)
class StreamTableRead:
    """Reads the splits of stream plans."""

    projection: Projection
    predicate: Predicate | None
    kinds: bool
    context: Context

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return schema_out(self.projection.row_type, kinds=self.kinds)

    def to_batches(self, splits: Sequence[StreamSplit]) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches in the order of the changes."""
        yield from batches_out(self.changes(splits), self.projection.row_type, kinds=self.kinds)

    def changes(self, splits: Sequence[StreamSplit]) -> Iterator[pa.RecordBatch]:
        """Yield batches with `_VALUE_KIND` (int8) and the columns, for rows of all kinds."""
        for split in splits:
            yield from self.projection.shown(self._rows(split))

    def _rows(self, split: StreamSplit) -> Iterator[pa.RecordBatch]:
        table, plan, names = split.table, split.plan, self.projection.columns
        if plan.whole is not None:
            return read_whole(
                table,
                plan.whole,
                columns=names,
                predicate=self.predicate,
                since=plan.since,
                zone=self.context.zone,
            )
        return chosen_rows(read_plan(table, plan, zone=self.context.zone), names, self.predicate)

    def to_arrow(self, splits: Sequence[StreamSplit]) -> pa.Table:
        """All rows as an Arrow table in memory."""
        return pa.Table.from_batches(self.to_batches(splits), schema=self.schema)

    def to_pandas(self, splits: Sequence[StreamSplit]) -> pd.DataFrame:
        """All rows as a DataFrame; needs the package pandas."""
        frame: pd.DataFrame = self.to_arrow(splits).to_pandas()
        return frame
