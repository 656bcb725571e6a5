"""The common options: warehouse, storage options, time zone and tables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.output import Output, error_line
from paimon_maintenance.rules.tables import is_pattern, select_tables
from paimon_maintenance.rules.times import parse_instant
from paimon_maintenance.storage.catalogs import PREFIX, catalog_of, open_table_of, options_of
from paimon_maintenance.storage.options import options_of_environment, refuse_secrets
from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE
from paimon_maintenance.storage.warehouse import canonical_warehouse

if TYPE_CHECKING:
    from paimon_core.environment import Environment
    from paimon_core.file_store_table import FileStoreTable

_SYSTEM = "$"
T = TypeVar("T")


def warehouse_of(args: argparse.Namespace) -> str:
    """The warehouse or catalog that was given or is configured; InvalidArgument without one.

    A catalog is `catalog:NAME`.
    """
    if args.catalog:
        if args.warehouse:
            raise InvalidArgument("give either --catalog or --warehouse")
        return f"{PREFIX}{args.catalog}"
    warehouse = args.warehouse or os.environ.get(WAREHOUSE_VARIABLE)
    if not warehouse:
        raise InvalidArgument(
            "no warehouse given",
            next_step=f"add -w PATH or --catalog NAME, or set {WAREHOUSE_VARIABLE}",
        )
    return canonical_warehouse(str(warehouse))


def storage_of(args: argparse.Namespace) -> dict[str, str]:
    """The object store options: of the environment, then of the catalog, then of the command line.

    InvalidArgument for a secret on the command line, which every user of the machine can read.
    """
    options = {}
    for text in args.storage:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(f"argument --storage: expected key=value, got {text!r}")
        options[key.strip()] = value
    refuse_secrets(options, "argument --storage")
    try:
        warehouse = warehouse_of(args)
    except InvalidArgument:
        return {**options_of_environment(), **options}
    return options_of(warehouse, {**options_of_environment(), **options})


def zone_of(args: argparse.Namespace) -> ZoneInfo | None:
    """The zone of --timezone, None without it; InvalidArgument for an unknown zone."""
    if args.timezone is None:
        return None
    try:
        return ZoneInfo(args.timezone)
    except (ValueError, OSError, LookupError) as e:
        raise InvalidArgument(f"argument --timezone: unknown time zone {args.timezone!r}") from e


def environment_of(args: argparse.Namespace) -> Environment:
    """The environment with the clock in the zone of --timezone.

    InvalidArgument for an unknown zone.
    """
    from paimon_core.environment import system_environment  # noqa: PLC0415 - fast start

    zone = zone_of(args)
    return system_environment(None if zone is None else zone.key)


def timestamp_of(args: argparse.Namespace) -> int | None:
    """The instant of --timestamp in milliseconds since the epoch; None without it.

    InvalidArgument if it is neither a wall clock time nor a number of milliseconds.
    """
    if args.timestamp is None:
        return None
    return parse_instant(args.timestamp, environment_of(args))


def check_known_options(options: Mapping[str, str]) -> None:
    """InvalidArgument for table options that neither Paimon nor Caretaker knows."""
    if not options:
        return
    from paimon_core.known_options import similar_name, unknown_options  # noqa: PLC0415 - fast start

    for key in unknown_options(options):
        near = similar_name(key)
        raise InvalidArgument(
            f"argument --option: neither Paimon nor Caretaker has an option {key!r}",
            next_step="omit it" if near is None else f"did you mean {near}?",
        )


def take_branch(args: argparse.Namespace) -> str | None:
    """The system table of `TABLE$NAME` or `TABLE$branch_B$NAME`; sets table and branch in `args`.

    InvalidArgument for a malformed name, or if --branch names another branch.
    """
    if _SYSTEM not in args.table:
        return None
    from paimon_core.table.system.read import split_system_name  # noqa: PLC0415 - fast start

    args.table, branch, system_table = split_system_name(args.table)
    if branch is not None:
        if getattr(args, "branch", None) not in (None, branch):
            raise InvalidArgument(f"--branch {args.branch} contradicts the name of the table")
        args.branch = branch
    return system_table


def _take_table(args: argparse.Namespace) -> None:
    system_table = take_branch(args)
    if system_table is not None:
        raise InvalidArgument(
            f"{args.table}${system_table} is a system table, which is read-only",
            next_step=f"see caretaker read '{args.table}${system_table}'",
        )


def open_named(
    args: argparse.Namespace, *, options: Mapping[str, str | None] | None = None
) -> FileStoreTable:
    """The named table; `options` are dynamic options of this handle."""
    _take_table(args)
    from paimon_core.ddl.alter import check_dynamic_options  # noqa: PLC0415 - fast start

    if is_pattern(args.table):
        raise InvalidArgument(f"{args.table!r} is a pattern; this command takes a single table")
    table = open_table_of(
        warehouse_of(args),
        args.table,
        branch=args.branch,
        dynamic_options=options,
        file_io_options=storage_of(args),
    )
    if options:
        check_dynamic_options(table.schemas.get(table.schema.id), options)
    return table


def look_at_tables(
    args: argparse.Namespace, output: Output, look: Callable[[FileStoreTable], T]
) -> list[tuple[str, T | Exception]]:
    """What `look` returns for each table, in order.

    With a pattern, the error of a table does not stop the others: it is printed, and stands in
    place of the result.
    """
    many = is_pattern(args.table)
    found: list[tuple[str, T | Exception]] = []
    for name in tables_of(args):
        try:
            table = open_table_of(
                warehouse_of(args), name, branch=args.branch, file_io_options=storage_of(args)
            )
            found.append((name, look(table)))
        except Exception as e:
            if not many:
                raise
            output.note(f"{name}: {error_line(e)}")
            found.append((name, e))
    return found


def tables_of(args: argparse.Namespace) -> list[str]:
    """The named table, or all that match the pattern; sets a branch in the name in `args`."""
    _take_table(args)
    warehouse, storage = warehouse_of(args), storage_of(args)
    return select_tables(
        lambda: catalog_of(warehouse, storage),
        args.table,
        including=args.including,
        excluding=args.excluding,
        where=warehouse,
    )
