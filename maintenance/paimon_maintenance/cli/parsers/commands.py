"""The commands of the command line, and their help texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from paimon_maintenance.cli.options import (
    EXIT_CODES,
    MASTER_VARIABLE,
    Commands,
    Formatter,
    Parser,
    add_command,
    catalog_option,
    not_negative,
    output_options,
    policy_option,
    positive,
    seconds,
    selection_options,
    storage_option,
    table_options,
    timezone_option,
    warehouse_option,
    whole_number,
)
from paimon_maintenance.cli.parsers.data import (
    database_commands,
    delete_command,
    table_commands,
    write_command,
)
from paimon_maintenance.cli.parsers.schedule import (
    alerts_command,
    approvals_command,
    health_command,
    policy_commands,
    report_command,
    schedule_command,
)
from paimon_maintenance.storage.variables import WAREHOUSE_VARIABLE

GUIDED: Final[Mapping[str, str]] = {
    "python": "run the Python of Caretaker's environment",
    "test": "run lint, type checks and all tests of a checkout",
}
"""Commands of the `./caretaker` script; they only appear in the help."""

_TOP = f"""\
Maintains Apache Paimon tables, without Java.

A table is named DATABASE.TABLE. Pass the warehouse, a folder or an object store URL, with -w or set
the environment variable {WAREHOUSE_VARIABLE}. Pass a REST, JDBC or Hive catalog with --catalog.

  look     caretaker inspect db.orders -w /lake       show health and advice
           caretaker read db.orders -w /lake --limit 5
           caretaker verify db.orders -w /lake        check all files of the table
           caretaker history db.orders                show past runs
  plan     caretaker plan compact db.orders -w /lake  show what a run would do
  act      caretaker run compact db.orders -w /lake   run it
           caretaker run compact 'db.*' -w /lake --excluding 'db\\.tmp_.*'
  change   caretaker table create db.orders -w /lake --column 'id BIGINT' --primary-key id
           caretaker write db.orders -w /lake --from orders.jsonl
"""


def _version_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", metavar="N", type=whole_number, help="read this snapshot")
    which.add_argument("--tag", metavar="T", help="read this tag")
    which.add_argument(
        "--timestamp",
        metavar="TIME",
        help="read the last snapshot committed at or before this local wall clock time, for example "
        "'2024-01-31 12:00:00' (or milliseconds since 1970)",
    )


def _read(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "read",
        "print a table's rows as JSON lines",
        "Prints one JSON array per row: [kind, value, ...]. The kind is +I, or +U if the latest\n"
        "change of the key is an update. The order of rows is undefined. Memory use is bounded.",
        (
            "caretaker read db.orders -w /lake --limit 10",
            "caretaker read db.orders -w /lake --columns id,amount --where \"dt = '2024-01-01'\"",
            "caretaker read db.orders -w /lake --tag 2024-01-01 | wc -l",
            "caretaker read db.orders -w /lake --incremental 12,15",
            "caretaker read 'db.orders$snapshots' -w /lake",
            "caretaker read db.orders -w /lake --follow --consumer-id audit",
        ),
    )
    table_options(parser, json="print an error as a JSON object, too; rows are JSON lines anyway")
    _version_options(parser)
    parser.add_argument(
        "--watermark",
        metavar="MS",
        type=whole_number,
        help="read the first snapshot with this watermark or a later one, in milliseconds",
    )
    parser.add_argument(
        "--incremental",
        metavar="FROM,TO",
        help="only changes after FROM up to and including TO: two snapshots, or two tags",
    )
    parser.add_argument(
        "--incremental-mode",
        metavar="M",
        choices=("auto", "delta", "changelog", "diff"),
        help="auto, delta (rows as appended), changelog, or diff (compare both snapshots) (default: auto)",
    )
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="table option for this read, for example scan.mode=compacted-full; repeatable",
    )
    parser.add_argument("--columns", metavar="A,B", help="print only these columns, in this order")
    parser.add_argument("--where", metavar="SQL", help="print only rows that match this condition")
    parser.add_argument("--limit", metavar="N", type=not_negative, help="print at most N rows")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="then print each change as it is committed, until Ctrl-C (exit code 130) or --limit",
    )
    parser.add_argument(
        "--consumer-id",
        metavar="ID",
        help="with --follow: continue where this consumer stopped, and store its progress; the table "
        "keeps the snapshots that it has not read",
    )
    parser.add_argument(
        "--poll",
        metavar="SECONDS",
        type=seconds,
        default=1.0,
        help="with --follow: how often to look for changes (default: 1)",
    )
    timezone_option(parser)


def _files(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "files",
        "list the live data files of a table",
        "Lists the live data and index files of a snapshot, by default the newest.",
        (
            "caretaker files db.orders -w /lake",
            "caretaker files db.orders -w /lake --snapshot 12 --json",
        ),
    )
    table_options(parser)
    _version_options(parser)
    timezone_option(parser)


def _inspect(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "inspect",
        "show the health of a table, with advice",
        "Shows files, sorted runs, snapshots and consumers, and advises which job to run. Reads only\nmetadata.",
        ("caretaker inspect db.orders -w /lake", "caretaker inspect 'db.*' -w /lake --json"),
    )
    table_options(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    selection_options(parser)


def _verify(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "verify",
        "check that all files of a table exist and are consistent",
        "Checks every snapshot, tag, changelog and branch: files exist, sizes and row counts match,\n"
        "keys do not overlap within a level, each partition has one bucket number, and hints and\n"
        "consumers are valid. Does not change the table. Exits with code 7 if it finds an error.",
        (
            "caretaker verify db.orders -w /lake",
            "caretaker verify 'db.*' -w /lake --no-rows --json",
            "caretaker verify db.orders -w /lake --keys",
            "caretaker verify db.orders -w /lake --deep --parallelism 4",
        ),
    )
    table_options(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    selection_options(parser)
    parser.add_argument(
        "--no-rows",
        action="store_true",
        help="do not open data files to count rows (faster on object stores)",
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="read the keys of tables with dynamic buckets and find keys in two buckets",
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="read the whole table: decode every data file, check its checksums, compare the "
        "statistics of all live files with their rows; includes --keys",
    )
    parser.add_argument(
        "--parallelism",
        type=positive,
        metavar="N",
        help="number of files that --deep decodes in parallel (default: one per core)",
    )


def _leases(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "leases",
        "show which jobs hold a lease on which tables",
        "A job that removes history or files holds a lease on the table, and other such jobs wait.\n"
        "The next job takes over a lease if its process has ended or has not renewed it for a\n"
        "minute. Exits with code 3 if no table is leased.",
        (
            "caretaker leases db.orders -w /lake",
            "caretaker leases '*.*' -w /lake --json",
        ),
    )
    table_options(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    selection_options(parser)


def _catalogs(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "catalogs",
        "list the catalogs that are defined",
        "Lists the catalogs of caretaker.toml and of the environment variable CARETAKER_CATALOGS,\n"
        "with their options but without secrets. None of them is opened.",
        ("caretaker catalogs", "caretaker catalogs --json"),
    )
    output_options(parser)


def _tables(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "tables",
        "list the tables of a catalog or warehouse",
        "Lists the Paimon tables that match the pattern. Views, format tables and other objects\n"
        "are listed with their kind; jobs skip them.",
        (
            "caretaker tables --catalog prod",
            "caretaker tables 'sales.*' -w /lake --json",
        ),
    )
    table_options(parser, table_help="a pattern such as 'db.*' (default: '*.*')", optional=True)


def _history(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "history",
        "show past plans and runs: job, table, user and outcome",
        "Prints the newest entries first. The environment variable CARETAKER_HISTORY_URL sets the\n"
        "database (the SQLAlchemy URL of SQLite or PostgreSQL, or none to disable the history). The\n"
        "default is a file under ~/.local/state/caretaker.",
        (
            "caretaker history db.orders",
            "caretaker history 'db.*' --job expire_snapshots --limit 50",
            "caretaker history --failed --json",
        ),
    )
    parser.add_argument("table", metavar="TABLE", nargs="?", help="DATABASE.TABLE, or 'db.*'")
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        help="only entries of this warehouse, a folder or URL (default: all warehouses)",
    )
    parser.add_argument("--catalog", metavar="NAME", help="only entries of this catalog")
    parser.add_argument("--job", metavar="J", help="only this job")
    parser.add_argument("--run-id", metavar="ID", help="only this run")
    ended = parser.add_mutually_exclusive_group()
    ended.add_argument("--failed", action="store_true", help="only failed runs")
    ended.add_argument("--refused", action="store_true", help="only refused runs")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=not_negative,
        default=20,
        help="print at most N entries (default: 20)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="SQLAlchemy URL of the database (default: $CARETAKER_HISTORY_URL, else the file)",
    )
    output_options(parser)


def _policy(commands: Commands[Parser]) -> None:
    parser = commands.add_parser(
        "policy",
        help="check a policy file; show and explain what applies to a table",
        description="A policy assigns jobs, schedules and options to tables (docs/policy.md).",
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(dest="policy_command", metavar="COMMAND", required=True)
    check = add_command(
        inner,
        "check",
        "check a policy file",
        "Reads the whole file and reports the first error with file, line and key.",
        ("caretaker policy check policy.yaml",),
    )
    check.add_argument("file", metavar="FILE")
    output_options(check)
    show = add_command(
        inner,
        "show",
        "show the policy of one table",
        "With a warehouse, also shows the options that the table itself sets.",
        ("caretaker policy show sales.orders --policy policy.yaml -w /lake",),
    )
    table_options(show)
    policy_option(show)
    policy_commands(inner)


def _sql(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "sql",
        "run SQL statements: DDL, queries, changes, CALL",
        "Runs the statements in one session, with the current catalog paimon and the current\n"
        "database default. Spark starts with the first statement that needs it.\n"
        "At a terminal, without -e and -f, reads statements from a prompt.",
        (
            "caretaker sql -w /lake",
            "caretaker sql --catalog prod -e 'SHOW TABLES'",
            "caretaker sql -w /lake -f report.sql --json -k",
            "echo 'SELECT count(*) FROM db.orders' | caretaker sql -w /lake",
        ),
    )
    warehouse_option(parser)
    catalog_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-e", "--execute", metavar="SQL", help="the statements, each ended by ;")
    which.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="a file of statements (default: standard input; at a terminal, a prompt)",
    )
    parser.add_argument(
        "-k", "--keep-going", action="store_true", help="continue after a statement that fails"
    )
    parser.add_argument(
        "--master", metavar="URL", help=f"Spark's master (default: ${MASTER_VARIABLE} or local[*])"
    )
    policy_option(parser)
    storage_option(parser)
    output_options(parser, json="print one JSON object per statement")


def _spark_archive(commands: Commands[Parser]) -> None:
    parser = add_command(
        commands,
        "spark-archive",
        "let Spark start sooner, by an archive of its classes",
        "Starts Spark once and keeps the classes that it loads in a file of 170 MB in\n"
        "~/.cache/caretaker/spark (or below $XDG_CACHE_HOME). Drivers that this user starts on this\n"
        "machine use it: those of commands, and those of Airflow's tasks in client mode. Their\n"
        "executors use it, too, if they find it in the same folder. Run it again after an update of\n"
        "PySpark or Java: a JVM ignores an archive of other classes.",
        ("caretaker spark-archive",),
    )
    output_options(parser)


def _plan(commands: Commands[Parser]) -> None:
    from paimon_maintenance.cli.parsers.jobs import job_command  # noqa: PLC0415 - fast start

    job_command(
        commands,
        "plan",
        "show what a job would change and what it would keep, without changing anything",
        "Plans the job from the newest snapshot and prints the plan. Does not start Spark and "
        "does not change the table.",
    )


def _run(commands: Commands[Parser]) -> None:
    from paimon_maintenance.cli.parsers.jobs import job_command  # noqa: PLC0415 - fast start

    job_command(
        commands,
        "run",
        "run a job on one or more tables",
        "Plans the job, checks the guards, executes, commits, verifies and reports.",
    )


COMMANDS: Final[Mapping[str, Callable[[Commands[Parser]], None]]] = {
    "read": _read,
    "files": _files,
    "inspect": _inspect,
    "health": health_command,
    "plan": _plan,
    "run": _run,
    "verify": _verify,
    "history": _history,
    "leases": _leases,
    "policy": _policy,
    "schedule": schedule_command,
    "alerts": alerts_command,
    "approvals": approvals_command,
    "report": report_command,
    "catalogs": _catalogs,
    "tables": _tables,
    "sql": _sql,
    "spark-archive": _spark_archive,
    "table": table_commands,
    "database": database_commands,
    "write": write_command,
    "delete": delete_command,
}
"""Each command with what adds its parser, in the order of the help."""


@cache
def build_parser(command: str | None = None) -> Parser:
    """The parser of the whole command line, or of one command of COMMANDS.

    Building the whole takes 25 ms, and it imports the definitions of all jobs.
    """
    parser = Parser(
        prog="caretaker",
        description=_TOP,
        epilog=EXIT_CODES + "\n\nMore: docs/cli.md; for incidents: docs/runbooks/README.md",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    if command is not None:
        COMMANDS[command](commands)
        return parser
    for add in COMMANDS.values():
        add(commands)
    demo = commands.add_parser(
        "demo",
        help="create a sample lake, start Airflow, and maintain the lake with Spark",
        add_help=False,
    )
    demo.add_argument("rest", nargs=argparse.REMAINDER)
    for name, text in GUIDED.items():
        commands.add_parser(name, help=text, add_help=False).add_argument(
            "rest", nargs=argparse.REMAINDER
        )
    return parser
