"""The parsers of the commands that change data and definitions: table, database, write, delete."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from paimon_maintenance.cli.options import (
    Commands,
    Parser,
    add_command,
    catalog_option,
    output_options,
    storage_option,
    table_options,
    timezone_option,
    warehouse_option,
)

FORMATS: Final = ("json", "csv", "parquet")
_CHANGES: Final = (
    ("add", "'NAME TYPE'", "add a column at the end"),
    ("drop", "NAME", "drop a column"),
    ("rename", "OLD=NEW", "rename a column"),
    ("type", "'NAME TYPE'", "change the type of a column"),
    ("nullable", "NAME", "allow nulls in a column"),
    ("not-null", "NAME", "refuse nulls in a column"),
    ("default", "NAME=VALUE", "set the default value of a column"),
    ("column-comment", "NAME=TEXT", "set the comment of a column"),
    ("comment", "TEXT", "set the comment of the table"),
    ("set", "KEY=VALUE", "set an option of the table"),
    ("unset", "KEY", "remove an option of the table"),
)


class _Change(argparse.Action):
    """Collects the changes of `table alter` in the order in which they are typed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        changes = [*(getattr(namespace, "changes", None) or ())]
        changes.append(((option_string or "").removeprefix("--"), values))
        namespace.changes = changes


def _deleting_options(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def _group(commands: Commands[Parser], name: str, summary: str) -> Any:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
    )
    return parser.add_subparsers(dest="action", metavar="COMMAND", required=True)


# --- tables -------------------------------------------------------------------------------------


def table_commands(commands: Commands[Parser]) -> None:
    inner = _group(commands, "table", "create, alter, rename, truncate and drop tables")
    _create_command(inner)
    _alter_command(inner)
    _rename_command(inner)
    _drop_command(inner)
    _truncate_command(inner)


def _create_command(inner: Commands[Parser]) -> None:
    create = add_command(
        inner,
        "create",
        "create a table",
        "Types are those of SQL: BIGINT, STRING, DECIMAL(10, 2), TIMESTAMP(3), ARRAY<INT>, ...\n"
        "Columns of the primary key are NOT NULL.",
        (
            "caretaker table create db.orders -w /lake --column 'id BIGINT' --column 'dt STRING' \\",
            "    --column \"note STRING COMMENT 'free text'\" --primary-key dt,id \\",
            "    --partitioned-by dt --option bucket=4",
            "caretaker table create db.events -w /lake --like-file events.parquet",
        ),
    )
    table_options(create)
    create.add_argument(
        "--column",
        metavar="'NAME TYPE'",
        action="append",
        default=[],
        help="a column, optionally with NOT NULL and COMMENT 'text'; repeatable",
    )
    create.add_argument(
        "--like-file", metavar="FILE", help="take the columns of this Parquet file first"
    )
    create.add_argument("--primary-key", metavar="A,B", help="the columns of the primary key")
    create.add_argument("--partitioned-by", metavar="A,B", help="the partition columns")
    create.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a table option, for example bucket=4; repeatable",
    )
    create.add_argument("--comment", metavar="TEXT", help="the comment of the table")
    create.add_argument(
        "--if-not-exists", action="store_true", help="do nothing if the table exists"
    )


def _alter_command(inner: Commands[Parser]) -> None:
    alter = add_command(
        inner,
        "alter",
        "change columns, options and comments",
        "All changes become one new schema, in the order in which they are typed. Data files stay.\n"
        "A nested column is written with dots, address.street.",
        (
            "caretaker table alter db.orders -w /lake --add 'amount DECIMAL(10, 2)' --drop note",
            "caretaker table alter db.orders -w /lake --type 'id BIGINT' --rename dt=day",
            "caretaker table alter db.orders -w /lake --set snapshot.num-retained.max=20",
        ),
    )
    table_options(alter)
    for name, metavar, text in _CHANGES:
        alter.add_argument(
            f"--{name}",
            metavar=metavar,
            action=_Change,
            dest=f"_{name}",
            help=f"{text}; repeatable",
        )
    alter.set_defaults(changes=None)


def _rename_command(inner: Commands[Parser]) -> None:
    rename = add_command(
        inner,
        "rename",
        "rename a table",
        "Moves the table's folder if the catalog manages it. Stop the writers of the table first.",
        ("caretaker table rename db.orders db.old_orders -w /lake",),
    )
    table_options(rename)
    rename.add_argument("to", metavar="NEW", help="the new DATABASE.TABLE")


def _drop_command(inner: Commands[Parser]) -> None:
    drop = add_command(
        inner,
        "drop",
        "delete a table with everything in it",
        "Deletes all snapshots, tags, branches and files of the table. This cannot be undone.\n"
        "Asks first, unless --yes is given.",
        (
            "caretaker table drop db.orders -w /lake --dry-run",
            "caretaker table drop db.orders -w /lake --yes --json",
        ),
    )
    table_options(drop)
    drop.add_argument(
        "--if-exists", action="store_true", help="do not fail if the table does not exist"
    )
    _deleting_options(drop)


def _truncate_command(inner: Commands[Parser]) -> None:
    truncate = add_command(
        inner,
        "truncate",
        "delete all rows of a table or of partitions",
        "Commits a snapshot without the rows. Older snapshots keep them until they expire, so a\n"
        "rollback brings them back. Asks first, unless --yes is given.",
        (
            "caretaker table truncate db.orders -w /lake --dry-run",
            "caretaker table truncate db.orders -w /lake --partition dt=2024-01-01 --yes",
        ),
    )
    table_options(truncate)
    _partition_option(truncate, "only partitions with this value")
    _deleting_options(truncate)


def _partition_option(parser: Parser, text: str) -> None:
    parser.add_argument(
        "--partition",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=f"{text}; repeatable, one for each partition column",
    )


# --- databases ----------------------------------------------------------------------------------


def database_commands(commands: Commands[Parser]) -> None:
    inner = _group(commands, "database", "create, list and drop databases")
    create = _database_command(
        inner,
        "create",
        "create a database",
        "Creates an empty database.",
        ("caretaker database create sales -w /lake --if-not-exists",),
    )
    create.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a property, if the catalog stores properties; repeatable",
    )
    create.add_argument(
        "--if-not-exists", action="store_true", help="do nothing if the database exists"
    )
    listing = add_command(
        inner,
        "list",
        "list the databases",
        "Prints the names of the databases, sorted. `caretaker tables` lists tables.",
        ("caretaker database list -w /lake",),
    )
    _catalog_options(listing)
    drop = _database_command(
        inner,
        "drop",
        "delete a database",
        "Deletes an empty database; with --cascade, also all of its tables with everything in them.\n"
        "This cannot be undone. Asks first, unless --yes is given.",
        (
            "caretaker database drop sales -w /lake --yes",
            "caretaker database drop sales -w /lake --cascade --dry-run",
        ),
    )
    drop.add_argument("--cascade", action="store_true", help="drop the tables of the database too")
    drop.add_argument(
        "--if-exists", action="store_true", help="do not fail if the database does not exist"
    )
    _deleting_options(drop)


def _database_command(
    inner: Any, name: str, summary: str, description: str, examples: Sequence[str]
) -> Parser:
    parser = add_command(inner, name, summary, description, examples)
    parser.add_argument("database", metavar="DATABASE")
    _catalog_options(parser)
    return parser


def _catalog_options(parser: Parser) -> None:
    warehouse_option(parser)
    catalog_option(parser)
    storage_option(parser)
    output_options(parser)


# --- rows ---------------------------------------------------------------------------------------


def write_command(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "write",
        "write rows of a file into a table",
        "Writes JSON lines, CSV or Parquet in one commit; memory use is bounded. JSON lines are\n"
        "objects, or arrays [kind, value, ...] as `caretaker read` prints them. The first line of CSV\n"
        "holds the names of the columns, and its texts are cast as in SQL. In a primary-key table,\n"
        "rows replace those with their keys.",
        (
            "caretaker write db.orders -w /lake --from orders.parquet",
            "caretaker write db.orders -w /lake --from - --format json < orders.jsonl",
            "caretaker read db.a -w /lake | caretaker write db.b -w /lake --from - --format json",
            "caretaker write db.orders -w /lake --from day.csv --overwrite --partition dt=2024-01-01",
        ),
    )
    table_options(parser)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        required=True,
        help="the file to read; - is standard input",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="the format (default: by the name of the file)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the partitions of the new rows, or the whole table if it has no partitions",
    )
    _partition_option(parser, "with --overwrite: replace the partitions with this value")
    parser.add_argument(
        "--delimiter", metavar="C", default=",", help="separator of the values of CSV (default: ,)"
    )
    parser.add_argument(
        "--null", metavar="TEXT", default="", help="the text of null in CSV (default: empty)"
    )
    timezone_option(parser)


def delete_command(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "delete",
        "delete the rows that match a condition",
        "Deletes in one commit: by key in primary-key tables, else by deletion vectors if the table\n"
        "has them, else by rewriting the files concerned. Older snapshots keep the rows until they\n"
        "expire. Exits with code 3 if no row matches.",
        (
            "caretaker delete db.orders -w /lake --where \"customer = 'c7'\" --dry-run",
            "caretaker delete db.orders -w /lake --where \"dt < '2023-01-01' AND amount IS NULL\"",
        ),
    )
    table_options(parser)
    parser.add_argument("--where", metavar="SQL", required=True, help="which rows go")
    parser.add_argument("--dry-run", action="store_true", help="only count the rows")
    timezone_option(parser)
