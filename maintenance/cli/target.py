"""What common options mean: the warehouse, the store's options, one table or many."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from maintenance.cli.parser import WAREHOUSE_VARIABLE
from paimon_core.errors import InvalidArgument

if TYPE_CHECKING:
    from paimon_core.file_store_table import FileStoreTable
    from paimon_core.snapshot.snapshot import Snapshot


def warehouse_of(args: argparse.Namespace) -> str:
    """The warehouse that was given or is configured; InvalidArgument if there is none."""
    warehouse = args.warehouse or os.environ.get(WAREHOUSE_VARIABLE)
    if not warehouse:
        raise InvalidArgument(
            "no warehouse was given", next_step=f"add -w PATH, or set {WAREHOUSE_VARIABLE}"
        )
    return str(warehouse)


def storage_of(args: argparse.Namespace) -> dict[str, str]:
    """The options of the object store."""
    options = {}
    for text in args.storage:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(f"argument --storage: expected key=value, got {text!r}")
        options[key.strip()] = value
    return options


def open_named(args: argparse.Namespace) -> FileStoreTable:
    """The one table that was named."""
    from maintenance.tables import is_pattern  # noqa: PLC0415 - fast start
    from paimon_core.table.open import open_table  # noqa: PLC0415 - fast start

    if is_pattern(args.table):
        raise InvalidArgument(f"{args.table!r} is a pattern; this command takes one table")
    return open_table(
        warehouse_of(args), args.table, branch=args.branch, file_io_options=storage_of(args)
    )


def tables_of(args: argparse.Namespace) -> list[str]:
    """The tables that were named or match the pattern."""
    from maintenance.tables import select_tables  # noqa: PLC0415 - fast start

    return select_tables(
        warehouse_of(args),
        args.table,
        including=args.including,
        excluding=args.excluding,
        file_io_options=storage_of(args),
    )


def version_of(args: argparse.Namespace, table: FileStoreTable) -> Snapshot | None:
    """The snapshot that was asked for, the newest by default; None if there is none at all.

    NotFound if a snapshot or tag does not exist, or no snapshot is as old as the timestamp.
    """
    from paimon_core.errors import NotFound  # noqa: PLC0415 - fast start

    if args.snapshot is not None:
        return table.snapshots.get(args.snapshot)
    if args.tag is not None:
        return table.tags.get(args.tag).snapshot
    if args.timestamp is not None:
        found = table.snapshots.at_or_before_time(args.timestamp)
        if found is None:
            raise NotFound(
                f"no snapshot of table {table.name} is as old as {args.timestamp}",
                table=table.name,
                next_step="choose a later time; `caretaker inspect` shows the earliest snapshot",
            )
        return found
    return table.snapshots.latest()
