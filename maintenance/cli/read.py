"""`caretaker read TABLE`: rows as JSON lines, in bounded memory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from maintenance.cli.output import Output
from maintenance.cli.target import open_named
from maintenance.exit_codes import ExitCode
from paimon_core.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_core.types.data_types import RowType

ROW_KINDS = ("+I", "-U", "+U", "-D")
_ROWS_AT_ONCE = 4096
_SYSTEM = "$"


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print `[kind, value, ...]` for each row; no row is no failure."""
    if _SYSTEM in args.table:
        return _system_table(args, output)
    from paimon_core.features import check_readable  # noqa: PLC0415 - fast start
    from paimon_core.predicate import parse_where  # noqa: PLC0415 - fast start
    from paimon_core.read.table_read import read_table  # noqa: PLC0415 - fast start
    from paimon_core.table.time_travel import travel  # noqa: PLC0415 - fast start

    table, snapshot = travel(
        open_named(args),
        snapshot=args.snapshot,
        tag=args.tag,
        timestamp_millis=args.timestamp,
    )
    check_readable(table)
    row_type = table.schema.row_type
    columns = _columns(args.columns)
    predicate = parse_where(args.where, row_type) if args.where else None
    if snapshot is None:
        output.note(f"table {table.name} has no snapshot yet, so no rows")
        return ExitCode.SUCCESS
    batches = read_table(table, snapshot, columns=columns, predicate=predicate, limit=args.limit)
    _print(batches, row_type if columns is None else row_type.project(columns), output)
    return ExitCode.SUCCESS


def _system_table(args: argparse.Namespace, output: Output) -> ExitCode:
    """Print the rows of `TABLE$NAME`, or of `TABLE$branch_B`."""
    from maintenance.times import machine_zone  # noqa: PLC0415 - fast start
    from paimon_core.predicate import parse_where  # noqa: PLC0415 - fast start
    from paimon_core.read.table_read import chosen_rows  # noqa: PLC0415 - fast start
    from paimon_core.table.system.read import (  # noqa: PLC0415 - fast start
        read_system_table,
        split_system_name,
    )
    from paimon_core.table.time_travel import travel  # noqa: PLC0415 - fast start

    args.table, branch, name = split_system_name(args.table)
    if branch is not None:
        if args.branch not in (None, branch):
            raise InvalidArgument(f"--branch {args.branch} contradicts the name of the table")
        args.branch = branch
    if name is None:
        return run(args, output)
    table, snapshot = travel(
        open_named(args),
        snapshot=args.snapshot,
        tag=args.tag,
        timestamp_millis=args.timestamp,
    )
    row_type, batches = read_system_table(table, name, snapshot, zone=machine_zone())
    wanted = row_type
    columns = _columns(args.columns)
    if columns is not None:
        unknown = [c for c in columns if row_type.get(c) is None]
        if unknown:
            raise InvalidArgument(
                f"system table {name} has no column {', '.join(unknown)}; "
                f"it has {', '.join(row_type.names)}"
            )
        wanted = row_type.project(columns)
    predicate = parse_where(args.where, row_type) if args.where else None
    _print(chosen_rows(batches, wanted.names, predicate, args.limit), wanted, output)
    return ExitCode.SUCCESS


def _print(batches: Iterator[pa.RecordBatch], row_type: RowType, output: Output) -> None:
    from paimon_core.schema.table_schema import VALUE_KIND  # noqa: PLC0415 - fast start
    from paimon_core.types.text import batch_to_json_rows  # noqa: PLC0415 - fast start

    for batch in batches:
        # In slices: the rows of a whole batch as Python values would take hundreds of megabytes.
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            kinds = part.column(VALUE_KIND).to_pylist()
            rows = batch_to_json_rows(part.select(list(row_type.names)), row_type)
            output.out.writelines(
                _line(ROW_KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)
            )
    output.out.flush()


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip().strip("`") for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidArgument("argument --columns: no column is named")
    if len(set(names)) != len(names):
        raise InvalidArgument("argument --columns: a column is named twice")
    return names


def _line(kind: str, row: list[object]) -> str:
    return json.dumps([kind, *row], ensure_ascii=False, separators=(",", ":")) + "\n"
