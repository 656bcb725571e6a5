"""Streaming reads defined by a table's options, with progress stored under a consumer id.

Java: `table/source/DataTableStreamScan`, `consumer/ConsumerManager`.

`consumer-id` names the reader.  The reader acknowledges what it has processed, and the table then
keeps every snapshot from the next one on.  A stream opened with the same id continues there, unless
`consumer.ignore-progress` is set.  `consumer.mode` matters only for parallel readers (the slowest
counts), so both modes are the same for a stream with a single reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.options import STREAMING_READ_SNAPSHOT_DELAY
from paimon_core.read.stream import Start, StreamPlan, StreamScan, read_plan
from paimon_core.schema.scan_options import check_scan_options, scan_mode
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.table.source.batch_scan import millis_of

CONSUMER_ID: Final = "consumer-id"
_MODES: Final = ("exactly-once", "at-least-once")
_NOT_STREAMS: Final = ("scan.watermark", "scan.tag-name", "scan.version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream of a table (under the schema to read): `plan`, `read`, `acknowledge`, and again."""

    table: FileStoreTable
    scan: StreamScan
    consumer: str | None = None
    zone: tzinfo = UTC

    def plan(self) -> StreamPlan:
        """Return the next plan; errors as `StreamScan.plan`."""
        return self.scan.plan()

    def read(self, plan: StreamPlan) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a plan: `_VALUE_KIND` and all columns."""
        return read_plan(self.table, plan, zone=self.zone)

    def acknowledge(self, plan: StreamPlan) -> None:
        """Store the progress up to and including this plan; a no-op without consumer."""
        if self.consumer is not None and plan.next_snapshot is not None:
            self.table.consumers.set(self.consumer, plan.next_snapshot)


def stream_of(
    table: FileStoreTable, *, zone: tzinfo = UTC, now_millis: Callable[[], int] | None = None
) -> Stream:
    """Return the stream that the table's options define.

    `zone` is the time zone of times written as text.  Without `now_millis`, the clock,
    `streaming.read.snapshot.delay` has no effect.  Raises InvalidArgument or SchemaError for
    options that do not apply to a stream, UnsupportedFeature for unknown ones.
    """
    options = table.options
    check_scan_options(options)
    consumer = options.get(CONSUMER_ID)
    if options.get("consumer.mode", _MODES[0]).strip().lower() not in _MODES:
        raise InvalidArgument(f"consumer.mode is one of {', '.join(_MODES)}", table=table.name)
    bound = options.get("scan.bounded.watermark")
    start, at = _start(table, zone)
    if consumer is not None and not options.flag("consumer.ignore-progress"):
        # Its first stream starts where the options say.
        with suppress(NotFound):
            start, at = Start.FROM_SNAPSHOT, table.consumers.get(consumer).next_snapshot
    scan = StreamScan(
        table=table,
        start=start,
        at=at,
        bounded_watermark=None if bound is None else millis_of(bound, None, zone),
        too_young=None if now_millis is None else _too_young(table, now_millis),
    )
    return Stream(table=table, scan=scan, consumer=consumer, zone=zone)


def _too_young(
    table: FileStoreTable, now_millis: Callable[[], int]
) -> Callable[[Snapshot], bool] | None:
    delay = table.options.value(STREAMING_READ_SNAPSHOT_DELAY)
    if delay is None:
        return None
    return lambda snapshot: snapshot.time_millis > now_millis() - delay


def _start(table: FileStoreTable, zone: tzinfo) -> tuple[Start, int | None]:
    options = table.options
    for key in _NOT_STREAMS:
        if key in options:
            raise InvalidArgument(f"a stream cannot start at {key}", table=table.name)
    mode = scan_mode(options)
    try:
        start = Start(mode)
    except ValueError as e:
        raise InvalidArgument(
            f"scan.mode={mode} does not apply to a stream", table=table.name
        ) from e
    match start:
        case Start.FROM_SNAPSHOT | Start.FROM_SNAPSHOT_FULL:
            return start, millis_of(options["scan.snapshot-id"], None, zone)
        case Start.FROM_TIMESTAMP:
            millis, text = options.get("scan.timestamp-millis"), options.get("scan.timestamp")
            return start, millis_of(millis, text, zone)
        case Start.FROM_FILE_CREATION_TIME:
            return start, millis_of(options["scan.file-creation-time-millis"], None, zone)
        case Start.FROM_CREATION_TIMESTAMP:
            return start, millis_of(options["scan.creation-time-millis"], None, zone)
    return start, None
