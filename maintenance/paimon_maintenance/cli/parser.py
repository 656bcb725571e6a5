"""The argument parser: commands, options and help texts.

Job options are generated from the job argumentss, so this module names no job.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from paimon_core.errors import InvalidArgument
from paimon_maintenance.job.arguments import Argument, Kind
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.job.job import Job
from paimon_maintenance.registry import JOBS

WAREHOUSE_VARIABLE: Final = "CARETAKER_WAREHOUSE"
MASTER_VARIABLE: Final = "CARETAKER_SPARK_MASTER"
JOB_ARGUMENT_PREFIX: Final = "job_argument_"
GUIDED: Final[Mapping[str, str]] = {
    "python": "run the Python of Caretaker's environment",
    "test": "run lint, type checks and all tests of a checkout",
}
"""Commands of the `./caretaker` script; they only appear in the help."""

_EXIT_CODES = "exit codes:\n" + "\n".join(f"  {int(c)}  {c.meaning}" for c in ExitCode)

_TOP = f"""\
Maintains Apache Paimon tables, without Java.

A table is named DATABASE.TABLE. Pass the warehouse, a folder or an object store URL, with -w or set
the environment variable {WAREHOUSE_VARIABLE}. Pass a REST or JDBC catalog with --catalog.

  look     caretaker inspect db.orders -w /lake       show health and advice
           caretaker read db.orders -w /lake --limit 5
           caretaker verify db.orders -w /lake        check all files of the table
           caretaker history db.orders                show past runs
  plan     caretaker plan compact db.orders -w /lake  show what a run would do
  act      caretaker run compact db.orders -w /lake   run it
           caretaker run compact 'db.*' -w /lake --excluding 'db\\.tmp_.*'
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps hyphenated words on one line, so that users can copy examples."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        words = " ".join(text.split())
        return textwrap.wrap(words, width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidArgument instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidArgument with a hint at the help."""
        raise InvalidArgument(message, next_step=f"see {self.prog} --help")


@cache
def build_parser() -> Parser:
    """The parser of the whole command line; building it takes 25 ms."""
    parser = Parser(
        prog="caretaker",
        description=_TOP,
        epilog=_EXIT_CODES + "\n\nMore: docs/cli.md",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _read(commands)
    _files(commands)
    _inspect(commands)
    _job_command(
        commands,
        "plan",
        "show what a job would change and what it would keep, without changing anything",
        "Plans the job from the newest snapshot and prints the plan. Does not start Spark and "
        "does not change the table.",
    )
    _job_command(
        commands,
        "run",
        "run a job on one or more tables",
        "Plans the job, checks the guards, executes, commits, verifies and reports.",
    )
    _verify(commands)
    _history(commands)
    _leases(commands)
    _policy(commands)
    _catalogs(commands)
    _tables(commands)
    _sql(commands)
    demo = commands.add_parser(
        "demo",
        help="create a sample lake, start Airflow and compact the lake on Spark",
        add_help=False,
    )
    demo.add_argument("rest", nargs=argparse.REMAINDER)
    for name, text in GUIDED.items():
        commands.add_parser(name, help=text, add_help=False).add_argument(
            "rest", nargs=argparse.REMAINDER
        )
    return parser


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(
    commands: Commands[Parser], name: str, summary: str, description: str, examples: Sequence[str]
) -> Parser:
    epilog = ("examples:\n" + "\n".join(f"  {e}" for e in examples) + "\n\n") if examples else ""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog + _EXIT_CODES,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )


def _common(parser: Parser, *, table_help: str = "DATABASE.TABLE", optional: bool = False) -> None:
    how: dict[str, Any] = {"nargs": "?", "default": "*.*"} if optional else {}
    parser.add_argument("table", metavar="TABLE", help=table_help, **how)
    _warehouse_option(parser)
    parser.add_argument(
        "--catalog",
        metavar="NAME",
        help="a catalog of caretaker.toml or $CARETAKER_CATALOGS instead of a warehouse",
    )
    parser.add_argument("--branch", metavar="B", help="a branch of the table (default: main)")
    _storage_option(parser)
    _output_options(parser)


def _warehouse_option(parser: Parser) -> None:
    parser.add_argument(
        "-w",
        "--warehouse",
        metavar="PATH",
        help=f"the warehouse: a folder or URL (default: ${WAREHOUSE_VARIABLE})",
    )


def _storage_option(parser: Parser) -> None:
    parser.add_argument(
        "--storage",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="object store option, for example s3.endpoint=http://minio:9000; repeatable",
    )


def _output_options(parser: Parser, *, json: str = "print one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log to standard error, with all messages of Spark; -vv logs every file",
    )


def _version_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--snapshot", metavar="N", type=_whole_number, help="read this snapshot")
    which.add_argument("--tag", metavar="T", help="read this tag")
    which.add_argument(
        "--timestamp",
        metavar="MS",
        type=_whole_number,
        help="read the snapshot at this time, in milliseconds since 1970 (UTC)",
    )


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from e


def _not_negative(text: str) -> int:
    number = _whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return number


def _positive(text: str) -> int:
    number = _whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number


def _read(commands: Commands[Parser]) -> None:
    parser = _command(
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
        ),
    )
    _common(parser)
    _version_options(parser)
    parser.add_argument(
        "--watermark",
        metavar="MS",
        type=_whole_number,
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
        help="auto, delta (rows as appended), changelog, or diff (compare both snapshots)",
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
    parser.add_argument("--limit", metavar="N", type=_not_negative, help="print at most N rows")
    _timezone_option(parser)


def _files(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "files",
        "list the live data files of a table",
        "Lists the live data and index files of a snapshot, by default the newest.",
        (
            "caretaker files db.orders -w /lake",
            "caretaker files db.orders -w /lake --snapshot 12 --json",
        ),
    )
    _common(parser)
    _version_options(parser)


def _inspect(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "inspect",
        "show the health of a table, with advice",
        "Shows files, sorted runs, snapshots and consumers, and advises which job to run. Reads only\nmetadata.",
        ("caretaker inspect db.orders -w /lake", "caretaker inspect 'db.*' -w /lake --json"),
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)


def _verify(commands: Commands[Parser]) -> None:
    parser = _command(
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
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)
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
        type=int,
        metavar="N",
        help="number of files that --deep decodes in parallel (default: one per core)",
    )


def _leases(commands: Commands[Parser]) -> None:
    parser = _command(
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
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)


def _catalogs(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "catalogs",
        "the catalogs that are defined",
        "Lists the catalogs of caretaker.toml and of the environment variable CARETAKER_CATALOGS,\n"
        "with their options but without secrets. None of them is opened.",
        ("caretaker catalogs", "caretaker catalogs --json"),
    )
    _output_options(parser)


def _tables(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "tables",
        "the tables of a catalog or warehouse",
        "Lists the Paimon tables that match the pattern. Views, format tables and other objects\n"
        "are listed with their kind; jobs skip them.",
        (
            "caretaker tables --catalog prod",
            "caretaker tables 'sales.*' -w /lake --json",
        ),
    )
    _common(parser, table_help="a pattern such as 'db.*' (default: '*.*')", optional=True)


def _history(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "history",
        "show past plans and runs: job, table, user and outcome",
        "Prints the newest entries first. The environment variable CARETAKER_HISTORY_URL sets the\n"
        "database (an SQLAlchemy URL, or none to disable the history). The default is a file under\n"
        "~/.local/state/caretaker.",
        (
            "caretaker history db.orders",
            "caretaker history 'db.*' --job expire_snapshots --limit 50",
            "caretaker history --failed --json",
        ),
    )
    parser.add_argument("table", metavar="TABLE", nargs="?", help="DATABASE.TABLE, or 'db.*'")
    parser.add_argument("--job", metavar="J", help="only this job")
    parser.add_argument("--run-id", metavar="ID", help="only this run")
    ended = parser.add_mutually_exclusive_group()
    ended.add_argument("--failed", action="store_true", help="only failed runs")
    ended.add_argument("--refused", action="store_true", help="only refused runs")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_not_negative,
        default=20,
        help="print at most N entries (default: 20)",
    )
    parser.add_argument("--url", metavar="URL", help="SQLAlchemy URL of the database")
    _output_options(parser)


def _policy(commands: Commands[Parser]) -> None:
    parser = commands.add_parser(
        "policy",
        help="check a policy file, or show the policy of a table",
        description="A policy assigns jobs, schedules and options to tables (docs/policy.md).",
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(dest="policy_command", metavar="COMMAND", required=True)
    check = _command(
        inner,
        "check",
        "check a policy file",
        "Reads the whole file and reports the first error with file, line and key.",
        ("caretaker policy check policy.yaml",),
    )
    check.add_argument("file", metavar="FILE")
    _output_options(check)
    show = _command(
        inner,
        "show",
        "show the policy of one table",
        "With a warehouse, also shows the options that the table itself sets.",
        ("caretaker policy show sales.orders --policy policy.yaml -w /lake",),
    )
    _common(show)
    _policy_option(show)


def _sql(commands: Commands[Parser]) -> None:
    parser = _command(
        commands,
        "sql",
        "run SQL statements: DDL, queries, changes, CALL",
        "Runs the statements in one session, with the current catalog paimon and the current\n"
        "database default. Spark starts with the first statement that needs it.",
        (
            "caretaker sql -w /lake -e 'SHOW TABLES'",
            "caretaker sql -w /lake -f report.sql --json -k",
            "echo 'SELECT count(*) FROM db.orders' | caretaker sql -w /lake",
        ),
    )
    _warehouse_option(parser)
    parser.set_defaults(catalog=None)  # SQL works on warehouse folders
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-e", "--execute", metavar="SQL", help="the statements, each ended by ;")
    which.add_argument(
        "-f", "--file", metavar="FILE", help="a file of statements (default: standard input)"
    )
    parser.add_argument(
        "-k", "--keep-going", action="store_true", help="go on after a statement that fails"
    )
    parser.add_argument(
        "--master", metavar="URL", help=f"Spark's master (default: ${MASTER_VARIABLE} or local[*])"
    )
    _storage_option(parser)
    _output_options(parser, json="print one JSON object per statement")


def _policy_option(parser: Parser) -> None:
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="policy file with arguments, guards and options for each table (default: "
        "$CARETAKER_POLICY, if set)",
    )


def _timezone_option(parser: Parser) -> None:
    parser.add_argument(
        "--timezone",
        metavar="ZONE",
        help="time zone of the writers, for example Europe/Berlin (default: this machine's)",
    )


def _selection(parser: Parser) -> None:
    parser.add_argument(
        "--including",
        metavar="REGEX",
        action="append",
        default=[],
        help="regular expression; with a pattern, only tables whose full name matches; repeatable",
    )
    parser.add_argument(
        "--excluding",
        metavar="REGEX",
        action="append",
        default=[],
        help="regular expression; with a pattern, skip tables whose full name matches; repeatable",
    )


def _job_command(commands: Commands[Parser], name: str, summary: str, description: str) -> None:
    jobs_text = "\n".join(f"  {job.name:12} {job.summary}" for job in JOBS.values())
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{description}\n\njobs:\n{jobs_text}",
        epilog=f"See `caretaker {name} JOB --help` for the arguments of a job.\n\n{_EXIT_CODES}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", required=True, parser_class=Parser)
    for job in JOBS.values():
        _job(jobs, name, job)


def _job(jobs: Commands[Parser], command: str, job: Job) -> None:
    parser = _command(
        jobs,
        job.name,
        job.summary,
        f"{job.summary}\n\nchanges:\n{_wrapped(job.changes)}\n\nprotection:\n"
        f"{_wrapped(job.protects)}\n\nundo:\n{_wrapped(job.undo)}",
        job.examples,
    )
    _common(parser, table_help="DATABASE.TABLE, or a pattern such as 'db.*'")
    _selection(parser)
    own = parser.add_argument_group("job arguments")
    for argument in job.arguments:
        _job_option(own, argument)
    _policy_option(parser)
    _timezone_option(parser)
    if command == "run":
        _run_options(parser)


def _job_option(group: argparse._ArgumentGroup, argument: Argument) -> None:
    text = argument.help
    if argument.example:
        quote = '"' if "'" in argument.example else "'"
        text += f"; for example {argument.option} {quote}{argument.example}{quote}"
    if argument.default not in (None, (), {}, False):
        default = argument.json_default()
        shown = ",".join(map(str, default)) if isinstance(default, list) else default
        text += f" (default: {shown})"
    text = text.replace("%", "%%")
    dest = JOB_ARGUMENT_PREFIX + argument.name
    if argument.kind is Kind.BOOLEAN:
        group.add_argument(
            argument.option,
            dest=dest,
            action=argparse.BooleanOptionalAction if argument.default else "store_true",
            default=None,
            help=text,
        )
    elif argument.repeatable:
        metavar = "A,B" if argument.kind is Kind.TEXTS else "K=V"
        group.add_argument(
            argument.option, dest=dest, action="append", metavar=metavar, default=None, help=text
        )
    else:
        metavar = "|".join(argument.choices) if argument.choices else argument.kind.upper()
        group.add_argument(argument.option, dest=dest, metavar=metavar, default=None, help=text)
    _procedure_words(group, argument, dest)


def _procedure_words(group: argparse._ArgumentGroup, argument: Argument, dest: str) -> None:
    """Also accept the procedure's spelling of the argument, hidden from the help."""
    for word in argument.other_options:
        if word in group._option_string_actions:  # noqa: SLF001 - argparse has no other way to ask
            continue  # a common option, as --branch is
        hidden: dict[str, Any] = {"dest": dest, "default": None, "help": argparse.SUPPRESS}
        if argument.kind is Kind.BOOLEAN:
            hidden["action"] = "store_true"
        elif argument.kind is Kind.OPTIONS:
            # As in the procedure, one value may hold several: "a=1,b=2".
            hidden |= {"action": "extend", "type": lambda text: text.split(",")}
        elif argument.repeatable:
            hidden["action"] = "append"
        group.add_argument(word, **hidden)


def _run_options(parser: Parser) -> None:
    run = parser.add_argument_group("how to run")
    run.add_argument("--dry-run", action="store_true", help="print the plan and exit")
    run.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="where to rewrite files: on Spark or in this process (default: spark)",
    )
    run.add_argument(
        "--master",
        metavar="URL",
        help="Spark master: local[4], spark://host:7077, yarn, k8s://..., or sc://host for Spark "
        f"Connect (default: ${MASTER_VARIABLE}, else local[*])",
    )
    run.add_argument(
        "--force",
        action="store_true",
        help="ignore the guards, except the one for files that the newest snapshot needs",
    )
    run.add_argument(
        "--max-rewrite",
        metavar="SIZE",
        help="guard: stop if the plan rewrites more than this, for example '500 gb'",
    )
    run.add_argument(
        "--max-attempts",
        metavar="N",
        type=_positive,
        default=None,
        help="maximum number of plans if concurrent commits conflict (default: 5)",
    )
    run.add_argument("--no-verify", action="store_true", help="do not verify the committed files")
    run.add_argument(
        "--metrics-file", metavar="PATH", help="write the Prometheus metrics of this run to PATH"
    )


def _wrapped(text: str, width: int = 88) -> str:
    lines, line = [], " "
    for word in text.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = " "
        line += " " + word
    return "\n".join([*lines, line])
