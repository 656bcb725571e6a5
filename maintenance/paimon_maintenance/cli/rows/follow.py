"""`caretaker read --follow`: prints the rows of a table, then each change as it is committed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.rows.lines import columns_of, print_rows, scan_options
from paimon_maintenance.cli.target import open_named
from paimon_maintenance.job.exit_codes import ExitCode

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_core.types.data_types import RowType

_BATCH_ONLY = ("tag", "watermark", "incremental")


def follow(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print `[kind, value, ...]` for each row until Ctrl-C, --limit, or the bound of the stream.

    The progress of a consumer is stored after all rows of a step are printed.
    """
    from paimon_core.api.context import context_of  # noqa: PLC0415 - fast start
    from paimon_core.api.stream_read import StreamReadBuilder  # noqa: PLC0415 - fast start

    given = [name for name in _BATCH_ONLY if getattr(args, name) is not None]
    if given:
        raise InvalidArgument(
            f"argument --{given[0]}: a stream starts with --snapshot or --timestamp"
        )
    if "$" in args.table and "$branch_" not in args.table:
        raise InvalidArgument("argument --follow: a system table cannot be followed")
    table = open_named(args, options=scan_options(args))
    builder = StreamReadBuilder(table, context_of(args.timezone))
    if args.consumer_id:
        builder.with_consumer_id(args.consumer_id)
    columns = columns_of(args.columns)
    if columns is not None:
        builder.with_projection(columns)
    if args.where:
        builder.with_filter(args.where)
    builder.with_poll_interval_ms(max(1, round(args.poll * 1000)))
    read, scan = builder.new_read(), builder.new_streaming_scan()
    left: int | None = args.limit
    while left is None or left > 0:
        plan = scan.next_plan()
        if plan is None:
            break
        printed, whole = _print_step(
            read.changes(plan.splits()), left, read.projection.row_type, output
        )
        left = None if left is None else left - printed
        if whole:
            scan.acknowledge(plan)
    return ExitCode.SUCCESS


def _print_step(
    batches: Iterator[pa.RecordBatch], most: int | None, row_type: RowType, output: Output
) -> tuple[int, bool]:
    """Print at most this many rows; return their number, and whether there are no more."""
    printed = 0
    for batch in batches:
        room = batch.num_rows if most is None else min(batch.num_rows, most - printed)
        print_rows(iter([batch.slice(0, room)]), row_type, output)
        printed += room
        if room < batch.num_rows:
            return printed, False
    return printed, True
