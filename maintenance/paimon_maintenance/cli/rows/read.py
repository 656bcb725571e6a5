"""`caretaker read TABLE`: prints rows as JSON lines with bounded memory."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.rows.lines import columns_of, print_rows, scan_options
from paimon_maintenance.cli.target import open_named, take_branch, zone_of
from paimon_maintenance.job.exit_codes import ExitCode

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_core.table.source.batch_scan import BatchScan


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print `[kind, value, ...]` for each row; an empty result is a success.

    TableGone if the table was dropped or renamed meanwhile.
    """
    if args.follow:
        from paimon_maintenance.cli.rows.follow import follow  # noqa: PLC0415 - fast start

        return follow(args, output)
    if args.consumer_id:
        raise InvalidArgument("argument --consumer-id: it requires --follow")
    from paimon_core.commit.same_table import naming_what_is_gone  # noqa: PLC0415 - fast start

    name = take_branch(args)
    table = open_named(args, options=scan_options(args))
    with naming_what_is_gone(table, partial(open_named, args), "`caretaker read`"):
        return _read(table, name, args, output)


def _read(
    table: FileStoreTable, name: str | None, args: argparse.Namespace, output: Output
) -> ExitCode:
    from paimon_core.environment import machine_zone  # noqa: PLC0415 - fast start
    from paimon_core.table.source.batch_scan import batch_scan_of  # noqa: PLC0415 - fast start

    zone = zone_of(args) or machine_zone()
    batch = batch_scan_of(table, zone=zone)
    if name is not None:
        return _system_table(batch, name, args, output)
    from paimon_core.predicate import parse_where  # noqa: PLC0415 - fast start
    from paimon_core.table.source.batch_scan import read_batch  # noqa: PLC0415 - fast start

    row_type = batch.table.schema.row_type
    columns = columns_of(args.columns)
    predicate = parse_where(args.where, row_type) if args.where else None
    rows = read_batch(batch, columns=columns, predicate=predicate, limit=args.limit, zone=zone)
    if batch.table.snapshots.latest() is None:
        output.note(f"table {batch.table.name} has no snapshot, so it has no rows")
    print_rows(rows, row_type if columns is None else row_type.project(columns), output)
    return ExitCode.SUCCESS


def _system_table(
    batch: BatchScan, name: str, args: argparse.Namespace, output: Output
) -> ExitCode:
    from paimon_core.environment import machine_zone  # noqa: PLC0415 - fast start
    from paimon_core.predicate import parse_where  # noqa: PLC0415 - fast start
    from paimon_core.read.table_read import chosen_rows  # noqa: PLC0415 - fast start
    from paimon_core.table.system.read import (  # noqa: PLC0415 - fast start
        VIEWS,
        read_system_table,
        read_view,
    )

    zone = zone_of(args) or machine_zone()
    if name in VIEWS:
        row_type, batches = read_view(batch, name, zone=zone)
    elif args.incremental is not None:
        raise InvalidArgument(
            f"system table {name} reads a single snapshot; --incremental is not supported"
        )
    else:
        row_type, batches = read_system_table(batch.table, name, batch.whole, zone=zone)
    wanted = row_type
    columns = columns_of(args.columns)
    if columns is not None:
        unknown = [c for c in columns if row_type.get(c) is None]
        if unknown:
            raise InvalidArgument(
                f"system table {name} has no column {', '.join(unknown)}; "
                f"it has {', '.join(row_type.names)}"
            )
        wanted = row_type.project(columns)
    predicate = parse_where(args.where, row_type) if args.where else None
    print_rows(chosen_rows(batches, wanted.names, predicate, args.limit), wanted, output)
    return ExitCode.SUCCESS
