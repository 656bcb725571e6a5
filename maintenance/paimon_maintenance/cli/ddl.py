"""`caretaker table ...` and `caretaker database ...`: DDL without SQL."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paimon_core.errors import InvalidArgument
from paimon_maintenance.cli.confirm import confirmed
from paimon_maintenance.cli.output import Output
from paimon_maintenance.cli.target import open_named, storage_of, warehouse_of
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.text import counted, human_bytes
from paimon_maintenance.storage.catalogs import catalog_of

if TYPE_CHECKING:
    from paimon_core.api.catalog import Catalog
    from paimon_core.api.table import Table
    from paimon_core.ddl.create import Column
    from paimon_core.ddl.schema_change import SchemaChange

_COMMENT: Final = re.compile(r"\s+COMMENT\s+'((?:[^']|'')*)'\s*$", re.IGNORECASE)
_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|([^\s`]+))\s+(.+)", re.DOTALL)


def run(args: argparse.Namespace, output: Output) -> ExitCode:
    """Run the command; NOTHING_TO_DO if it leaves everything as it is."""
    action = f"{args.command}_{args.action}"
    return _COMMANDS[action](args, output)


def catalog_named(args: argparse.Namespace) -> Catalog:
    """The catalog of the warehouse or the name that was given."""
    from paimon_core.api.catalog import Catalog  # noqa: PLC0415 - fast start
    from paimon_core.api.context import Context  # noqa: PLC0415 - fast start

    return Catalog(catalog_of(warehouse_of(args), storage_of(args)), Context())


def key_values(texts: Sequence[str], argument: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping; InvalidArgument for others and for a repeated key."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or key.strip() in found:
            raise InvalidArgument(f"argument {argument}: expected KEY=VALUE once, got {text!r}")
        found[key.strip()] = value
    return found


def column_of(text: str) -> Column:
    """The column of "NAME TYPE [NOT NULL] [COMMENT 'text']"."""
    from paimon_core.ddl.create import Column  # noqa: PLC0415 - fast start
    from paimon_core.types.sql import parse_type  # noqa: PLC0415 - fast start

    comment = _COMMENT.search(text)
    match = _COLUMN.fullmatch(text[: comment.start()] if comment else text)
    if match is None:
        raise InvalidArgument(
            f"not a column: {text!r}", next_step="write NAME TYPE, for example 'id BIGINT NOT NULL'"
        )
    described = comment[1].replace("''", "'") if comment else None
    return Column(match[1] or match[2], parse_type(match[3].strip()), described)


def _done(
    args: argparse.Namespace,
    output: Output,
    did: str,
    more: Mapping[str, object] | None = None,
    *,
    changed: bool = True,
) -> ExitCode:
    """Print what was done; a dry run with something to do is a success."""
    planned = bool(more and more.get("dry_run"))
    code = ExitCode.SUCCESS if changed or planned else ExitCode.NOTHING_TO_DO
    name = getattr(args, "table", None) or getattr(args, "database", None)
    what = "table" if args.command == "table" else "database"
    value = {"exit_code": int(code), what: name, "changed": changed, **(more or {})}
    output.result(value, [f"{name}: {did}"])
    return code


# --- tables -------------------------------------------------------------------------------------


def _create_table(args: argparse.Namespace, output: Output) -> ExitCode:
    from paimon_core.api.schema import Schema  # noqa: PLC0415 - fast start

    catalog = catalog_named(args)
    columns = [column_of(c) for c in args.column]
    if args.like_file:
        columns = [*_columns_of_file(args.like_file), *columns]
    if not columns:
        raise InvalidArgument("a table needs columns", next_step="add --column or --like-file")
    schema = Schema(
        columns=tuple(columns),
        partition_keys=_names(args.partitioned_by),
        primary_keys=_names(args.primary_key),
        options=key_values(args.option, "--option"),
        comment=args.comment,
    )
    if args.if_not_exists and catalog.exists(args.table):
        return _done(args, output, "exists already", changed=False)
    catalog.create_table(args.table, schema, args.if_not_exists)
    return _done(args, output, "created")


def _columns_of_file(path: str) -> list[Column]:
    from pathlib import Path  # noqa: PLC0415 - fast start

    import pyarrow as pa  # noqa: PLC0415 - fast start
    from pyarrow import parquet  # noqa: PLC0415 - fast start

    from paimon_core.api.schema import Schema  # noqa: PLC0415 - fast start

    if not Path(path).is_file():
        raise InvalidArgument(f"argument --like-file: {path} is not a file")
    try:
        schema = parquet.read_schema(path)
    except (OSError, pa.ArrowException) as e:
        raise InvalidArgument(f"argument --like-file: {path} is not a Parquet file: {e}") from e
    return list(Schema.from_pyarrow_schema(schema).columns)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(n.strip().strip("`") for n in (text or "").split(",") if n.strip())


def _alter_table(args: argparse.Namespace, output: Output) -> ExitCode:
    changes = [_change(kind, text) for kind, text in args.changes or ()]
    if not changes:
        raise InvalidArgument("nothing to change", next_step="see caretaker table alter --help")
    catalog_named(args).alter_table(args.table, changes)
    return _done(args, output, "altered", {"changes": len(changes)})


def _change(kind: str, text: str) -> SchemaChange:
    """The change that an option and its text mean."""
    from paimon_core.api.schema import SchemaChange as Make  # noqa: PLC0415 - fast start
    from paimon_core.ddl.schema_change import AddColumn, UpdateColumnType  # noqa: PLC0415

    match kind:
        case "drop":
            return Make.drop_column(text)
        case "unset":
            return Make.remove_option(text)
        case "comment":
            return Make.update_comment(text)
        case "nullable" | "not-null":
            return Make.update_column_nullability(text, nullable=kind == "nullable")
        case "add":
            column = column_of(text)
            assert not isinstance(column.type, str)
            return AddColumn(tuple(column.name.split(".")), column.type, column.description)
        case "type":
            column = column_of(text)
            assert not isinstance(column.type, str)
            return UpdateColumnType(tuple(column.name.split(".")), column.type)
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidArgument(f"argument --{kind}: expected KEY=VALUE, got {text!r}")
    make = {
        "set": Make.set_option,
        "rename": Make.rename_column,
        "column-comment": Make.update_column_comment,
        "default": Make.update_column_default,
    }[kind]
    return make(key.strip(), value)


def _rename_table(args: argparse.Namespace, output: Output) -> ExitCode:
    catalog_named(args).rename_table(args.table, args.to)
    return _done(args, output, f"renamed to {args.to}", {"to": args.to})


def _drop_table(args: argparse.Namespace, output: Output) -> ExitCode:
    catalog = catalog_named(args)
    if not catalog.exists(args.table):
        if args.if_exists:
            return _done(args, output, "does not exist", changed=False)
        catalog.get_table(args.table)  # raises NotFound, or what else it is
    content, text = _content(catalog, args.table)
    if args.dry_run:
        return _done(
            args, output, f"would drop {text}", {"dry_run": True, **content}, changed=False
        )
    if not confirmed(args, output, f"Drop table {args.table} with {text}?"):
        return _done(args, output, "kept", changed=False)
    catalog.drop_table(args.table, args.if_exists)
    return _done(args, output, f"dropped with {text}", content)


def _content(catalog: Catalog, name: str) -> tuple[dict[str, object], str]:
    """What a table holds, as JSON and as text; unreadable tables hold something unknown."""
    from paimon_core.errors import PaimonError  # noqa: PLC0415 - fast start

    try:
        table = catalog.get_table(name)
        return _figures(table)
    except PaimonError as e:
        return {"unreadable": str(e)}, "unreadable content"


def _figures(table: Table) -> tuple[dict[str, object], str]:
    from paimon_core.scan.scan import scan_files  # noqa: PLC0415 - fast start

    latest = table.latest_snapshot()
    files = [] if latest is None else list(scan_files(table.core, latest))
    size = sum(e.file.file_size for e in files)
    snapshots, tags = len(table.core.snapshots.ids()), len(table.tags())
    content: dict[str, object] = {
        "snapshots": snapshots,
        "tags": tags,
        "branches": len(table.branches()),
        "files": len(files),
        "bytes": size,
    }
    text = f"{counted(len(files), 'files')}, {human_bytes(size)}, {counted(snapshots, 'snapshots')}"
    return content, text + (f", {counted(tags, 'tags')}" if tags else "")


def _truncate_table(args: argparse.Namespace, output: Output) -> ExitCode:
    from paimon_core.api.context import Context  # noqa: PLC0415 - fast start
    from paimon_core.api.predicates import partition_values  # noqa: PLC0415 - fast start
    from paimon_core.api.table import Table  # noqa: PLC0415 - fast start
    from paimon_core.commit.overwrite import static_partition_test  # noqa: PLC0415
    from paimon_core.scan.scan import scan_files  # noqa: PLC0415 - fast start

    core = open_named(args)
    partition = key_values(args.partition, "--partition")
    test = static_partition_test(core, partition_values(core, partition)) if partition else None
    latest = core.snapshots.latest()
    files = [] if latest is None else list(scan_files(core, latest, keep_partition=test))
    size = sum(e.file.file_size for e in files)
    content: dict[str, object] = {"files": len(files), "bytes": size, "partition": partition}
    text = f"{counted(len(files), 'files')}, {human_bytes(size)}"
    if not files:
        return _done(args, output, "holds no rows there", content, changed=False)
    if args.dry_run:
        return _done(
            args, output, f"would remove {text}", {"dry_run": True, **content}, changed=False
        )
    of = f"partition {', '.join(args.partition)} of " if partition else ""
    if not confirmed(args, output, f"Delete all rows of {of}table {args.table} ({text})?"):
        return _done(args, output, "kept", content, changed=False)
    catalog = catalog_of(warehouse_of(args), storage_of(args))
    result = Table(args.table, core, catalog, Context()).truncate(partition)
    ids = [s.id for s in result.snapshots]
    return _done(args, output, f"removed {text} (snapshot {ids[0]})", {"snapshots": ids, **content})


# --- databases ----------------------------------------------------------------------------------


def _create_database(args: argparse.Namespace, output: Output) -> ExitCode:
    catalog = catalog_named(args)
    properties = key_values(args.property, "--property")
    if args.if_not_exists and args.database in catalog.list_databases():
        return _done(args, output, "exists already", changed=False)
    catalog.create_database(args.database, args.if_not_exists, properties)
    return _done(args, output, "created")


def _list_databases(args: argparse.Namespace, output: Output) -> ExitCode:
    names = catalog_named(args).list_databases()
    code = ExitCode.SUCCESS if names else ExitCode.NOTHING_TO_DO
    output.result({"exit_code": int(code), "databases": names}, names or ["no database"])
    return code


def _drop_database(args: argparse.Namespace, output: Output) -> ExitCode:
    catalog = catalog_named(args)
    if args.database not in catalog.list_databases():
        if args.if_exists:
            return _done(args, output, "does not exist", changed=False)
        catalog.get_database(args.database)
    tables = catalog.list_tables(args.database)
    if tables and not args.cascade:
        raise InvalidArgument(
            f"database {args.database} is not empty: it has {counted(len(tables), 'tables')}",
            next_step="drop its tables first, or add --cascade",
        )
    text = f"{counted(len(tables), 'tables')}" + (f" ({', '.join(tables[:5])}" if tables else "")
    text += ", ...)" if len(tables) > 5 else ")" if tables else ""
    if args.dry_run:
        return _done(
            args,
            output,
            f"would drop with {text}",
            {"dry_run": True, "tables": tables},
            changed=False,
        )
    if not confirmed(args, output, f"Drop database {args.database} with {text}?"):
        return _done(args, output, "kept", changed=False)
    catalog.drop_database(args.database, args.if_exists, cascade=args.cascade)
    return _done(args, output, f"dropped with {text}", {"tables": tables})


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace, Output], ExitCode]]] = {
    "table_create": _create_table,
    "table_alter": _alter_table,
    "table_rename": _rename_table,
    "table_drop": _drop_table,
    "table_truncate": _truncate_table,
    "database_create": _create_database,
    "database_list": _list_databases,
    "database_drop": _drop_database,
}
