"""A stream as the options of a table say, with its progress kept under a consumer id.

Java: `table/source/DataTableStreamScan`, `consumer/ConsumerManager`.

`consumer-id` names the reader.  What it has processed it acknowledges, and the table then keeps every
snapshot from the next one on; a stream opened under the same id goes on there, unless
`consumer.ignore-progress` is set.  `consumer.mode` tells apart only readers that run side by side
(the slowest counts), so a stream that is read in one place means the same in both modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

import pyarrow as pa

from paimon_core.errors import InvalidArgument, NotFound
from paimon_core.file_store_table import FileStoreTable
from paimon_core.read.stream import Start, StreamPlan, StreamScan, read_plan
from paimon_core.schema.scan_options import check_scan_options, scan_mode
from paimon_core.table.batch_scan import millis_of

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
        """The next plan; errors as `StreamScan.plan`."""
        return self.scan.plan()

    def read(self, plan: StreamPlan) -> Iterator[pa.RecordBatch]:
        """The rows of a plan: `_VALUE_KIND` and all columns."""
        return read_plan(self.table, plan, zone=self.zone)

    def acknowledge(self, plan: StreamPlan) -> None:
        """Keep the progress: all up to this plan has been processed.  Nothing without consumer."""
        if self.consumer is not None and plan.next_snapshot is not None:
            self.table.consumers.set(self.consumer, plan.next_snapshot)


def stream_of(table: FileStoreTable, *, zone: tzinfo = UTC) -> Stream:
    """The stream that the table's options ask for.

    `zone` is that of times written as text.  InvalidArgument or SchemaError for options that are
    none of a stream, UnsupportedFeature for what is not known.
    """
    options = table.options
    check_scan_options(options)
    consumer = options.get(CONSUMER_ID)
    if options.get("consumer.mode", _MODES[0]).strip().lower() not in _MODES:
        raise InvalidArgument(f"consumer.mode is one of {', '.join(_MODES)}", table=table.name)
    bound = options.get("scan.bounded.watermark")
    start, at = _start(table, zone)
    if consumer is not None and not options.flag("consumer.ignore-progress"):
        # Its first stream begins where the options say.
        with suppress(NotFound):
            start, at = Start.FROM_SNAPSHOT, table.consumers.get(consumer).next_snapshot
    scan = StreamScan(
        table=table,
        start=start,
        at=at,
        bounded_watermark=None if bound is None else millis_of(bound, None, zone),
    )
    return Stream(table=table, scan=scan, consumer=consumer, zone=zone)


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
