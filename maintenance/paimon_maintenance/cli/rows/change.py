"""`caretaker write` and `caretaker delete`: rows into and out of a table."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.ddl import key_values
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import open_named, storage_of, warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted
from paimon_maintenance.storage.catalogs import catalog_of

if TYPE_CHECKING:
    from paimon_core.api.table import Table
    from paimon_core.table.sink.after_commit import Maintained


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Write or delete; NOTHING_TO_DO if no row was concerned.

    TableGone if the table was dropped or renamed meanwhile.
    """
    from paimon_core.api.context import context_of  # noqa: PLC0415 - fast start
    from paimon_core.api.table import Table  # noqa: PLC0415 - fast start
    from paimon_core.commit.same_table import naming_what_is_gone  # noqa: PLC0415 - fast start

    core = open_named(args)
    catalog = catalog_of(warehouse_of(args), storage_of(args))
    table = Table(args.table, core, catalog, context_of(args.timezone))
    change = _write if args.command == "write" else _delete
    with naming_what_is_gone(core, partial(open_named, args), f"`caretaker {args.command}`"):
        return change(table, args, output)


def _write(table: Table, args: argparse.Namespace, output: Output) -> ExitCode:
    from paimon_maintenance.cli.rows.input import format_of_file, rows_of  # noqa: PLC0415

    if args.partition and not args.overwrite:
        raise InvalidArgument("argument --partition: it requires --overwrite")
    file_format = format_of_file(args.source, args.format)
    builder = table.new_batch_write_builder()
    if args.overwrite:
        builder.overwrite(key_values(args.partition, "--partition"))
    rows = 0
    with builder.new_write() as write, builder.new_commit() as commit:
        for piece in rows_of(
            args.source,
            file_format,
            table.core.schema,
            delimiter=args.delimiter,
            null_text=args.null,
            zone=table.context.zone,
        ):
            write.write(piece)
            rows += piece.num_rows
        if not rows and not args.overwrite:
            return _report(args, output, "wrote", 0, [])
        result = commit.commit(write.prepare_commit())
    return _report(args, output, "wrote", rows, [s.id for s in result.snapshots], result.maintained)


def _delete(table: Table, args: argparse.Namespace, output: Output) -> ExitCode:
    from paimon_core.api.predicates import predicate_of  # noqa: PLC0415 - fast start
    from paimon_core.predicate import TRUE  # noqa: PLC0415 - fast start
    from paimon_core.table.sink.delete_rows import count_rows  # noqa: PLC0415 - fast start

    predicate = predicate_of(args.where, table.core.schema.row_type) or TRUE
    if args.dry_run:
        return _report(args, output, "would delete", count_rows(table.core, predicate), [])
    deleted = table.delete(predicate)
    return _report(args, output, "deleted", deleted.rows, [s.id for s in deleted.snapshots])


def _report(
    args: argparse.Namespace,
    output: Output,
    did: str,
    rows: int,
    snapshots: list[int],
    maintained: Maintained | None = None,
) -> ExitCode:
    code = ExitCode.SUCCESS if rows or snapshots else ExitCode.NOTHING_TO_DO
    failure = None if maintained is None else maintained.failure
    value = {
        "exit_code": int(code),
        "table": args.table,
        "dry_run": bool(getattr(args, "dry_run", False)),
        "rows": rows,
        "snapshots": snapshots,
        "expired_snapshots": [] if maintained is None else maintained.expired_snapshots,
        "maintenance_failure": None if failure is None else str(failure),
    }
    where = f" (snapshot {', '.join(map(str, snapshots))})" if snapshots else ""
    output.result(value, [f"{args.table}: {did} {counted(rows, 'rows')}{where}"])
    return code
