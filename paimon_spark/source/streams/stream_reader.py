"""Stream reads in micro-batches (Java: `spark/sources/PaimonMicroBatchStream`, `StreamHelper`).

An offset is Java's: `{"snapshotId", "index", "scanSnapshot"}`.  A snapshot's changes are cut into
units in an order that never changes; the offset names the last unit that was read.  `scanSnapshot`
says that the snapshot is read as a whole, as at the start of a stream.  Once all units of a
snapshot are read the offset names the next one with index -1, so that no snapshot is planned twice.
A field `read`, which Java ignores, identifies the last snapshot that was read.

With `consumer-id`, the table keeps the snapshots that the stream has not processed: its progress is
stored when Spark has completed a micro-batch, and a new query with the same id continues there.
While the stream waits it renews the consumer, so that the consumer does not expire.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from paimon_core.errors import InvalidArgument
from paimon_core.options import OPEN_FILE_COST
from paimon_core.read.stream import (
    Start,
    StreamPlan,
    StreamScan,
    created_since,
    postponed_files,
    read_plan,
    stream_least_level,
)
from paimon_core.read.table_read import chosen_rows
from paimon_core.scan.splits import SPLIT_TARGET_SIZE, pack_ordered
from paimon_core.schema.table_schema import VALUE_KIND
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_tasks import plan_snapshot, read_task
from paimon_core.table.source.stream import Stream, stream_of
from paimon_core.table.system.audit_log import AUDIT_LOG, audit_log, audit_log_type, viewed_type
from paimon_spark.source.options import SourceOptions
from paimon_spark.source.reads.batch_reader import checked_columns, table_to_follow
from paimon_spark.source.rows import arrow_schema_of, to_spark
from paimon_spark.source.streams.stream_units import (
    ChangesUnit,
    LeastRows,
    Offset,
    Room,
    UnitsPartition,
    WholeUnit,
)

_LIMITS: Final[tuple[tuple[str, type[ReadLimit]], ...]] = (
    ("read.stream.maxFilesPerTrigger", ReadMaxFiles),
    ("read.stream.maxBytesPerTrigger", ReadMaxBytes),
    ("read.stream.maxRowsPerTrigger", ReadMaxRows),
)
_LEAST_ROWS: Final = ("read.stream.minRowsPerTrigger", "read.stream.maxTriggerDelayMs")


class PaimonStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table; rows that retract others come only with `read.changelog`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        table = table_to_follow(options)
        if options.where is not None:
            raise InvalidArgument(
                "option where is for batches", next_step="filter the rows of the stream instead"
            )
        system = options.system_table
        if system not in {None, AUDIT_LOG}:
            raise InvalidArgument(
                f"system table {system} of table {table.name} cannot be read as a stream",
                table=table.name,
                next_step="use spark.read instead of spark.readStream",
            )
        self._with_kinds = system is not None
        self._row_type = table.schema.row_type
        if self._with_kinds:
            self._row_type = viewed_type(table, self._row_type)
        shown = audit_log_type(self._row_type) if self._with_kinds else self._row_type
        self._columns = checked_columns(schema, shown, table.name)
        self._arrow_schema = arrow_schema_of(schema)
        self._limits = _limits_of(options)
        self._least = _least_rows_of(options)
        self._env = options.environment
        self._last_trigger = 0
        self._zone = options.zone
        self._stream: Stream = stream_of(table, zone=self._zone, now_millis=self._env.now_millis)
        self._table = table
        self._initial: Offset | None = None
        self._last: Offset | None = None
        self._stored = (0, 0)

    # --- offsets ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The start of a new query: by the scan options, or the position of its consumer."""
        if self._initial is None:
            # Spark asks more than once, a stream plans its start only once.
            plan = self._stream.plan()
            scan = self._stream.scan
            if plan.whole is not None:
                self._initial = Offset(plan.whole.id, whole=True)
            elif plan.next_snapshot is not None:
                # Unlike Flink's, Spark's streams begin with the changes of the newest snapshot.
                newest = scan.start is Start.LATEST
                self._initial = Offset(max(1, plan.next_snapshot - newest))
            else:
                # A table without snapshots is read from the wanted one on, or its first.
                named = scan.at if scan.start is Start.FROM_SNAPSHOT else None
                self._initial = Offset(max(1, named or 1))
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The first of the limits; `latestOffset` applies all of them."""
        for limit, most in self._limits.items():
            return limit(most)  # type: ignore[call-arg]
        if self._least is not None:
            return ReadMinRows(self._least.rows)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` if it has to wait for more rows.

        NotFound if the table has lost what the stream has read.
        """
        everything = isinstance(limit, ReadAllAvailable)
        room = Room({} if everything else dict(self._limits))
        begin = Offset.of(start)
        if self._waits_for_first(begin):
            return start
        self._check(begin)
        # Spark asks once everything up to `start` is processed.
        self._progress(begin)
        end = self._advanced(begin, room, self._last)
        # Rows that are there do not wait where none are to come: a trigger "available now".
        if self._least is not None and not everything and self._last is None:
            now = self._env.now_millis()
            waited = now - self._last_trigger
            few = room.rows < self._least.rows and not room.full
            if few and waited <= self._least.delay_millis:
                return start
            if end != begin:
                self._last_trigger = now
        # Spark takes offsets that differ in anything for new rows.
        return start if end == begin else replace(end, read=self._identity(end)).to_json()

    def _waits_for_first(self, offset: Offset) -> bool:
        """Whether the options name a first snapshot that is still to come."""
        scan = self._stream.scan
        named = scan.start is Start.FROM_SNAPSHOT and scan.at == offset.snapshot
        if not named or offset.read is not None:
            return False
        return (self._table.snapshots.latest_id() or 0) < offset.snapshot

    def _check(self, offset: Offset) -> None:
        scan = self._stream.scan
        scan.check_position(offset.snapshot)
        now = self._identity(offset) if offset.read is not None else None
        if now not in (None, offset.read):
            raise scan.replaced(offset.last_read)

    def _identity(self, offset: Offset) -> str | None:
        """What identifies the last snapshot that was read; None if it has expired."""
        found = self._stream.scan.stored(offset.last_read)
        if found is None:
            return None
        return f"{found.commit_user}/{found.commit_identifier}/{found.time_millis}"

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at the newest snapshot of this moment."""
        latest = self._table.snapshots.latest_id() or 0
        self._last = Offset(latest + 1)

    def _advanced(self, start: Offset, room: Room, bound: Offset | None) -> Offset:
        at = start
        while bound is None or at.is_before(bound):
            found = self._units(at, new=True)
            if found is None:
                return at
            snapshot, units = found
            if snapshot != at.snapshot:
                # The snapshots in between have no changes.
                at = Offset(snapshot)
                if bound is not None and not at.is_before(bound):
                    return at
            for index, unit in enumerate(units):
                if index <= at.index:
                    continue
                if not room.takes(unit):
                    return replace(at, index=index - 1)
            at = Offset(snapshot + 1)
        return at

    # --- plans ---

    def _units(
        self, at: Offset, *, new: bool = False
    ) -> tuple[int, list[WholeUnit | ChangesUnit]] | None:
        """The next snapshot that has something to read from `at` on, and its units.

        If they are `new`, those of snapshots that are too young have to wait.  Without units, the
        snapshots up to it have no changes.  None if there is no snapshot yet, or the stream has
        reached its bound.
        """
        if at.whole:
            return at.snapshot, self._of_whole(self._table.snapshots.get(at.snapshot))
        scan = StreamScan(
            table=self._table,
            start=self._stream.scan.start,
            at=self._stream.scan.at,
            next_snapshot=at.snapshot,
            bounded_watermark=self._stream.scan.bounded_watermark,
            too_young=self._stream.scan.too_young if new else None,
        )
        plan = scan.plan()
        snapshot = (plan.next_snapshot or 1) - 1
        if plan.is_empty:
            # The offset moves past snapshots without changes, so that they may expire.
            return None if snapshot < at.snapshot else (snapshot, [])
        if plan.gone is not None:
            return snapshot, [ChangesUnit(plan)]
        return snapshot, [ChangesUnit(replace(plan, changes=(e,))) for e in plan.changes]

    def _of_whole(self, snapshot: Snapshot) -> list[WholeUnit | ChangesUnit]:
        table, scan = self._table, self._stream.scan
        since = scan.at if scan.start.value in _BY_CREATION else None
        tasks = plan_snapshot(
            table,
            snapshot,
            keep=None if since is None else created_since(since, self._zone),
            min_level=stream_least_level(table),
        )
        postponed = postponed_files(table, snapshot, since, self._zone)
        plans = [StreamPlan(next_snapshot=snapshot.id + 1, changes=(e,)) for e in postponed]
        return [*map(WholeUnit, tasks), *map(ChangesUnit, plans)]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The units after `start`, up to and including `end`, packed by size."""
        at, last = Offset.of(start), Offset.of(end)
        units: list[WholeUnit | ChangesUnit] = []
        while at.is_before(last):
            found = self._units(at)
            if found is None:
                break
            snapshot, planned = found
            if snapshot > last.snapshot or (snapshot == last.snapshot and last.index < 0):
                break
            first = at.index if snapshot == at.snapshot else -1
            upto = last.index if snapshot == last.snapshot else len(planned) - 1
            units += planned[first + 1 : upto + 1]
            at = Offset(snapshot + 1)
        return [UnitsPartition(pack) for pack in self._packed(units)]

    def _packed(
        self, units: list[WholeUnit | ChangesUnit]
    ) -> Iterator[tuple[WholeUnit | ChangesUnit, ...]]:
        options = self._table.options
        cost = options.value(OPEN_FILE_COST)
        share = sum(max(u.bytes, cost) for u in units) // (os.cpu_count() or 1)
        target = min(options.value(SPLIT_TARGET_SIZE), max(cost, share))
        return (tuple(b) for b in pack_ordered(units, lambda u: max(u.bytes, cost), target))

    # --- rows ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the partition."""
        assert isinstance(partition, UnitsPartition)
        rows = chain.from_iterable(self._rows(unit) for unit in partition.units)
        return to_spark(rows, self._arrow_schema)

    def _rows(self, unit: WholeUnit | ChangesUnit) -> Iterator[pa.RecordBatch]:
        names = self._row_type.names if self._with_kinds else self._columns
        if isinstance(unit, WholeUnit):
            rows = read_task(unit.task, columns=names, zone=self._zone)
        else:
            rows = read_plan(self._table, unit.plan, columns=names, zone=self._zone)
            rows = chosen_rows(rows, names, None)
        if not self._with_kinds:
            return rows
        changes = audit_log(rows, self._row_type)
        return (b.select([VALUE_KIND, *self._columns]) for b in changes)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the consumer's progress, once the snapshot that began the stream is read."""
        self._progress(Offset.of(end))

    def _progress(self, processed: Offset) -> None:
        if self._stream.consumer is None or processed.whole:
            return
        now = self._env.now_millis()
        number, at = self._stored
        if processed.snapshot != number or now - at > _ALIVE_MILLIS:
            self._table.consumers.set(self._stream.consumer, processed.snapshot)
            self._stored = processed.snapshot, now

    def stop(self) -> None:
        """Do nothing: the reader keeps nothing open."""


_ALIVE_MILLIS: Final = 60_000
"""How often an idle stream renews its consumer."""
_BY_CREATION: Final = ("from-file-creation-time", "from-creation-timestamp")


def _limits_of(options: SourceOptions) -> dict[type[ReadLimit], int]:
    limits = {limit: _number(options, key) for key, limit in _LIMITS}
    return {limit: most for limit, most in limits.items() if most is not None}


def _least_rows_of(options: SourceOptions) -> LeastRows | None:
    rows, delay = (_number(options, key) for key in _LEAST_ROWS)
    if rows is None or delay is None:
        if rows is not delay:
            raise InvalidArgument(
                f"Can't provide only one of {_LEAST_ROWS[0]} and {_LEAST_ROWS[1]}."
            )
        return None
    return LeastRows(rows, delay)


def _number(options: SourceOptions, key: str) -> int | None:
    text = options.text(key)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidArgument(f"option {key}: a number above 0, not {text!r}")
    return int(text)
